"""The shaders of a SubStage, by its kind of work: how many invocations run, and what each does and stores.

Where the data decide, shares stand for them: ``COVERED`` of the pixels under a raster, ``LISTED`` under one
that draws a list of live faces, ``ACTIVE`` of the blocks, ``LIVE`` of the faces.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from ....ad.graph import (
    AccumulateFunction,
    DrawFunction,
    FragmentScatterFunction,
    RasterFunction,
    ScatterFunction,
)
from ....ad.traversal import topological_order
from ..accumulators import accumulators_of
from ..glsl.pixel import BLOCK
from ..glsl.raster import hoist, needed
from ..limits import DeviceLimits
from ..lists import (
    LISTING,
    ActiveBlocks,
    BlockHits,
    FaceList,
    active_expected,
    fragments_expected,
    shaded_expected,
    vertices_expected,
)
from ..lowering.fragment_value import FragmentValue
from ..lowering.scatter import BOXES, FaceSum
from ..model.cost import planes
from ..model.device import LOOP
from ..substage import (
    Accumulate,
    FaceSums,
    FindHits,
    FragmentScatter,
    ListBlocks,
    ListFaces,
    PixelWork,
    PrimitiveWork,
    Raster,
    Scatter,
    ScatterDraw,
    SparseWork,
    SubStage,
    TiledCompute,
    Work,
)
from .invocation import Invocation, Load, Shader, Stores
from .register_tiles import loads_of_tiles

# The work of draws of triangles: vertices, and the fragments that they are expected to cover.

PUT = 30.0
"""Operations of adding a component to a fixed-point accumulator, and of turning one into a float."""


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
    graph = f.fragment
    each = Shader(s, graph.given).run(graph.roots, graph.functions)
    return [_subpass(f, s, work.faces, each, planes(s.outputs))]


def added_by_fragments(work: FragmentScatter, s: SubStage) -> Load:
    """Vertices, and all fragments, each of which adds to accumulators."""
    f = s.scatter
    assert isinstance(f, FragmentScatterFunction)
    graph, added = f.fragment, len(f.pairs) * accumulators_of(f).components
    each = Shader(s, graph.given).run(graph.roots, graph.functions).and_then(Invocation(added * PUT))
    return _drawn(f, work.faces, each, Stores(atomics=float(added)))


def face_sum_loads(work: FaceSums, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """An invocation a face, which computes once what its pixels share, visits them and stores its sums."""
    (f,) = s.functions
    assert isinstance(f, FaceSum)
    graph = f.fragment
    single = [v for v, image in zip(graph.formals, f.externals, strict=True) if image.size == (1, 1)]
    shared, _ = hoist(graph.functions, graph.face, single)
    known = [g.output for g in shared]
    before = Shader(s, graph.given).run((), shared)
    pixel = Shader(s, [*graph.given, *known]).run(graph.roots, needed(graph.functions, graph.roots, known))
    visits = BOXES * fragments_expected(f, None) / f.faces
    each = before.and_then(pixel.times(max(visits, 1.0)))
    return [Load(f.faces * f.batch, each, Stores.of(s, s.outputs).times(f.components), True)]


def _subpass(f: DrawFunction, s: SubStage, faces: FaceList | None, each: Invocation, tested: float) -> Load:
    """tested: planes besides those of the outputs that are cleared, and read by every fragment."""
    written = planes(s.outputs)
    filled = round((written + tested) * s.domain.texels)
    return replace(_drawn(f, faces, each, Stores(attachments=float(written))), filled=filled)


def _drawn(f: DrawFunction, faces: FaceList | None, each: Invocation, stores: Stores) -> Load:
    """Vertices and fragments. stores: of a fragment; those that only fill blocks store nothing."""
    fragments = shaded = fragments_expected(f, faces)
    if not isinstance(f, RasterFunction):
        shaded = shaded_expected(f.triangles, fragments)
    stores = stores.times(fragments / shaded)
    return Load(round(shaded * f.batch), each, stores, False, vertices_of(f, faces))


def vertices_of(f: DrawFunction, faces: FaceList | None) -> int:
    """Vertices that a draw is expected to shade."""
    return round(vertices_expected(f, faces)) * f.batch


def loads_of(s: SubStage, limits: DeviceLimits) -> list[Load]:
    """The shaders of a SubStage."""
    return _loads(s.work, s, limits)


def launches_of(s: SubStage) -> tuple[int, int]:
    """(render passes, dispatches) of a SubStage by itself. Scatters are resolved by a second one."""
    if s.draws:
        return 1, 0
    work = s.work
    if not isinstance(work, Scatter):
        return 0, 1
    passes = isinstance(work, PrimitiveWork) + (work.epilogue is not None and work.epilogue.draws)
    return passes, 2 - passes


@singledispatch
def _loads(work: Work, s: SubStage, limits: DeviceLimits) -> list[Load]:
    raise TypeError(f"no prediction for {work!r}; register one")


@_loads.register
def _(work: PixelWork, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """All pixels or those of active blocks; one invocation, or one a tile, does what is fused."""
    sparse = work.sparse if isinstance(work, SparseWork) else None
    each = Shader(s).run(s.own_outputs, s.body)
    pixels = round((active_expected(sparse.blocks) if sparse else 1.0) * s.domain.texels)
    loads = [Load(pixels, each, Stores.of(s, s.outputs), not s.draws)]
    if work.fused:
        once = Invocation()
        for other in work.fused:
            once = once.and_then(Shader(other).run(other.outputs, other.body))
        tiles = max(other.domain.tiles for other in work.fused)
        stores = Stores(images=float(sum(planes(other.outputs) for other in work.fused)))
        loads.append(Load(tiles, once, stores, not s.draws))
    return loads


@_loads.register
def _(work: Scatter, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Source texels that add to accumulators, then one invocation a texel of the table."""
    f, epilogue = s.scatter, work.epilogue
    assert isinstance(f, ScatterFunction)
    later = set() if epilogue is None else set(epilogue.outputs)
    made = [v for v in s.outputs if v is not f.output and v not in later]
    values = [v for pair in f.pairs for v in pair]
    each = Shader(s).run([*values, *made], [g for g in s.body if g is not f])
    sums = accumulators_of(f)
    added = len(f.pairs) * sums.components
    each = each.and_then(Invocation(added * PUT))
    pixels, vertices = s.domain.texels, 0
    if isinstance(work, ScatterDraw):
        drawn = work.raster
        shaded = shaded_expected(
            round(vertices_expected(drawn, work.faces)) // 3, fragments_expected(drawn, work.faces)
        )
        pixels = round(shaded * drawn.batch)
        vertices = vertices_of(drawn, work.faces)
    elif isinstance(work, SparseWork) and work.sparse is not None:
        pixels = round(active_expected(work.sparse.blocks) * pixels)
    stores = replace(Stores.of(s, made), atomics=float(added))
    return [Load(pixels, each, stores, not isinstance(work, ScatterDraw), vertices), _resolved(work, s)]


def _resolved(work: Scatter, s: SubStage) -> Load:
    """What turns the accumulators of a scatter into its table, and what follows."""
    f, epilogue = s.scatter, work.epilogue
    assert f is not None
    sums = accumulators_of(f)
    cells = sums.components * sums.slots
    total, outputs, drawn = Invocation(cells * PUT, loads=2.0 * cells), [f.output], False
    if epilogue is not None:
        total = total.and_then(Shader(epilogue, [f.output]).run(epilogue.own_outputs, epilogue.body))
        outputs, drawn = list(epilogue.outputs), epilogue.draws
    return Load(f.output.domain.texels, total, Stores.of(s, outputs), not drawn)


_loads.register(Raster, raster_loads)
_loads.register(Accumulate, accumulate_loads)


@_loads.register
def _(work: FragmentScatter, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Fragments that add to accumulators, then one invocation a texel of the table."""
    return [added_by_fragments(work, s), _resolved(work, s)]


_loads.register(FaceSums, face_sum_loads)


@_loads.register
def _(work: TiledCompute, s: SubStage, limits: DeviceLimits) -> list[Load]:
    return loads_of_tiles(s)


@_loads.register
def _(work: ListFaces, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """A workgroup a segment, an invocation a run of faces, then a sum over the counts."""
    faces, lanes = work.faces, work.faces.invocations
    steps = float(LISTING) if lanes == LISTING else 4.0 * lanes.bit_length()
    each = Shader(s).run([*s.outputs, faces.live], s.body).times(faces.run).and_then(Invocation(steps))
    return [
        Load(lanes * faces.segments * s.domain.tiles, each, Stores.of(s, s.outputs).times(faces.run), True)
    ]


@_loads.register
def _(work: ListBlocks, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """One invocation a block, which reads the hits around it, or looks at its pixels."""
    if not work.hits:
        return _looking(work.blocks, limits)
    around = 9.0 if work.blocks.halo else 1.0
    return [
        Load(
            _blocks(work.blocks, limits),
            Invocation(LOOP * around, around * len(work.hits), 0.0, 1.0),
            Stores(buffers=1.0),
            True,
        )
    ]


@_loads.register
def _(work: FindHits, s: SubStage, limits: DeviceLimits) -> list[Load]:
    return _looking(work.hits, limits)


def _blocks(listed: ActiveBlocks | BlockHits, limits: DeviceLimits) -> int:
    tiling = limits.tiling(listed.domain)
    return -(-tiling.width // BLOCK) * -(-tiling.height // BLOCK)


def _looking(listed: ActiveBlocks | BlockHits, limits: DeviceLimits) -> list[Load]:
    """One invocation a block, which visits its pixels, or one a pixel."""
    blocks, pixel = _blocks(listed, limits), Invocation(LOOP, 1.0, 0.0, 1.0)
    if listed.shared:
        return [Load(blocks * BLOCK * BLOCK, pixel, Stores(buffers=1.0 / (BLOCK * BLOCK)), True)]
    return [Load(blocks, pixel.times(BLOCK * BLOCK), Stores(buffers=1.0), True)]
