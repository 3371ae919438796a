"""The work of draws of triangles: vertices, and the fragments that they are expected to cover."""

from __future__ import annotations

from ....ad.graph import AccumulateFunction, Domain, DrawFunction, FragmentScatterFunction, RasterFunction
from ....ad.traversal import topological_order
from ..glsl.flat import needed
from ..limits import DeviceLimits
from ..lists import COVERED, LISTED, FaceList, vertices_expected
from ..lowering.face_sum import BOXES, FaceSum
from ..lowering.fragment_value import FragmentValue
from ..model.cost import planes
from ..substage import Accumulate, FaceSums, FragmentScatter, Raster, SubStage
from ..work.accumulators import accumulators_of
from .invocation import Invocation, Shader
from .loads import Load, Stores

PUT = 30.0
"""Operations of adding one component to an accumulator in fixed point, and of turning one back into a float."""


def raster_loads(work: Raster, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Vertices, and the fragments that they cover."""
    f, *values = s.functions
    assert isinstance(f, RasterFunction)
    graphs = [g for g in (f.fragment, *(v.graph for v in values if isinstance(v, FragmentValue))) if g]
    shader, each = Shader(s, [g.face for g in graphs]), Invocation()
    if graphs:
        roots = [v for g in graphs for v in g.roots]
        before = [g for g in s.body if g not in s.functions]
        each = shader.run(roots, [*before, *needed(topological_order(roots), roots)])
    return [_subpass(f, s, work.faces, each, s.has_depth)]


def accumulate_loads(work: Accumulate, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Vertices, and all fragments, each of which reads and writes what it adds to."""
    (f,) = s.functions
    assert isinstance(f, AccumulateFunction)
    return [_subpass(f, s, work.faces, _fragment(f, s), planes(s.outputs))]


def added_by_fragments(work: FragmentScatter, s: SubStage) -> Load:
    """Vertices, and all fragments, each of which adds to accumulators."""
    f = s.scatter
    assert isinstance(f, FragmentScatterFunction)
    added = len(f.pairs) * accumulators_of(f).components
    each = _fragment(f, s).and_then(Invocation(added * PUT))
    fragments, stores = fragments_expected(s.domain, work.faces), Stores(atomics=float(added))
    return Load(fragments, each, stores, False, vertices_of(f, work.faces))


def face_sum_loads(work: FaceSums, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """An invocation a face, which visits its pixels and stores its sums."""
    (f,) = s.functions
    assert isinstance(f, FaceSum)
    faces = f.faces * f.batch
    each = _fragment(f, s).times(max(BOXES * fragments_expected(s.domain, None) / faces, 1.0))
    return [Load(faces, each, Stores.of(s, s.outputs).times(f.components), True)]


def _fragment(f: DrawFunction, s: SubStage) -> Invocation:
    """The sub-graph of a draw, once."""
    graph = f.fragment
    return Shader(s, graph.given).run(graph.roots, graph.functions)


def _subpass(f: DrawFunction, s: SubStage, faces: FaceList | None, each: Invocation, tested: float) -> Load:
    """tested: planes besides those of the outputs that are cleared, and read by every fragment."""
    written = planes(s.outputs)
    filled = round((written + tested) * s.domain.texels)
    stores = Stores(attachments=float(written))
    return Load(fragments_expected(s.domain, faces), each, stores, False, vertices_of(f, faces), filled)


def fragments_expected(domain: Domain, faces: FaceList | None) -> int:
    """Fragments that a draw is expected to have."""
    return round((COVERED if faces is None else LISTED) * domain.texels)


def vertices_of(f: DrawFunction, faces: FaceList | None) -> int:
    """Vertices that a draw is expected to shade."""
    return round(vertices_expected(f, faces)) * f.batch
