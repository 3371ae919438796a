"""The shaders of a SubStage, by its kind of work: how many invocations run, and what each does and stores.

Where the data decide, shares stand for them: ``COVERED`` of the pixels under a raster, ``LISTED`` under one that draws a
list of live faces, ``ACTIVE`` of the blocks, ``LIVE`` of the faces.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from ....ad.graph import ScatterFunction
from ..glsl.blocks import BLOCK
from ..limits import DeviceLimits
from ..lists import LISTING, ActiveBlocks, BlockHits
from ..model.cost import planes
from ..model.device import LOOP
from ..passes.run_on_active_blocks import ACTIVE
from ..substage import (
    Accumulate,
    FaceSums,
    FindHits,
    FragmentScatter,
    ListBlocks,
    ListFaces,
    PixelWork,
    Raster,
    Scatter,
    ScatterDraw,
    SparseWork,
    SubStage,
    TiledCompute,
    Work,
)
from ..work.accumulators import accumulators_of
from .draws import (
    PUT,
    accumulate_loads,
    added_by_fragments,
    face_sum_loads,
    fragments_expected,
    raster_loads,
    vertices_of,
)
from .invocation import Invocation, Shader
from .loads import Load, Stores
from .strips import loads_of_strips


def loads_of(s: SubStage, limits: DeviceLimits) -> list[Load]:
    """The shaders of a SubStage."""
    return _loads(s.work, s, limits)


@singledispatch
def _loads(work: Work, s: SubStage, limits: DeviceLimits) -> list[Load]:
    raise TypeError(f"no prediction for {work!r}; register one")


@_loads.register
def _(work: PixelWork, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """All pixels, or those of active blocks; one invocation, or one a tile, does what is fused over one texel."""
    sparse = isinstance(work, SparseWork) and work.sparse is not None
    each = Shader(s).run(s.own_outputs, s.body)
    pixels = round((ACTIVE if sparse else 1.0) * s.domain.texels)
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
        pixels, vertices = fragments_expected(s.domain, work.faces), vertices_of(work.raster, work.faces)
    elif isinstance(work, SparseWork) and work.sparse is not None:
        pixels = round(ACTIVE * pixels)
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
    return loads_of_strips(s)


@_loads.register
def _(work: ListFaces, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """A workgroup a segment, each invocation with a run of its faces, then a sum over the workgroup's counts."""
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
