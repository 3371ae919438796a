"""What a step of a plan is predicted to take on a device of which only the model is known, Stage by Stage.

The time of a SubStage is the largest of its work (operations, fetches and stores at the device's rates, by as many
rounds as fill the lanes) and its longest chain of dependent fetches. That of a Stage is the sum of these or the time of
its bytes, whichever is larger, plus the start of its passes or dispatches and its barriers.

Where the data decide, shares stand for them: ``COVERED`` of the pixels under a raster, ``LISTED`` under one that draws a
list of live faces, ``ACTIVE`` of the blocks, ``LIVE`` of the faces.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

from ....ad.graph import Domain, Function, ScatterFunction, Variable
from ..glsl.blocks import BLOCK
from ..glsl.fixed_point import accumulators_of
from ..lists import LISTING, ActiveBlocks, BlockHits
from ..lowering.tiling.strips import TiledContraction, strips_in
from ..lowering.workgroups import GroupReduction
from ..model.cost import planes
from ..model.device import DeviceModel
from ..passes.run_on_active_blocks import ACTIVE
from ..plan import Plan
from ..substage import (
    Accumulate,
    Binding,
    FindHits,
    FragmentScatter,
    ListBlocks,
    ListFaces,
    PixelWork,
    PrimitiveWork,
    Raster,
    Reduction,
    Scatter,
    ScatterDraw,
    SparseWork,
    Stage,
    SubStage,
    TiledCompute,
    Work,
)
from .draws import PUT, accumulate_loads, added_by_fragments, fragments_expected, raster_loads, vertices_of
from .invocation import Invocation, Shader
from .loads import Load, Stores
from .traffic import copied_bytes, stage_bytes

LOOP = 10.0
"""Operations of one iteration of a loop over texels, besides what it does with them."""


@dataclass(frozen=True)
class StagePrediction:
    """One Stage: ``invocations``, ``operations`` and ``fetches`` (from buffers too) of all, ``bytes`` that leave the chip, ``walk``: texels
    that one invocation visits in a loop, ``chain``: fetches of one invocation that wait for each other.

    seconds: predicted.  measured: seconds by timestamps, None where nothing was measured.
    """

    name: str
    functions: str
    invocations: int
    operations: float
    fetches: float
    bytes: int
    walk: float
    chain: float
    barriers: int
    launches: int
    seconds: float
    measured: float | None = None

    @property
    def ratio(self) -> float | None:
        """Prediction over measurement."""
        return self.seconds / self.measured if self.measured else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True)
class Prediction:
    """Of the Stages that run in every step, in their order, with the copies before and after them as one more."""

    model: DeviceModel
    stages: tuple[StagePrediction, ...]

    @cached_property
    def totals(self) -> dict[str, float]:
        """Sums over the Stages; ``walk`` and ``chain`` of the longest."""
        names = ("invocations", "operations", "fetches", "bytes", "barriers", "launches", "seconds")
        total: dict[str, float] = {n: sum(getattr(s, n) for s in self.stages) for n in names}
        for n in ("walk", "chain"):
            total[n] = max((getattr(s, n) for s in self.stages), default=0.0)
        return {"stages": sum(s.name != "copies" for s in self.stages), **total}

    def measured(self, ms: Iterable[float]) -> Prediction:
        """With the times of the Stages in milliseconds beside the predictions; copies are not measured."""
        times = dict(enumerate(ms))
        stages = (
            replace(s, measured=1e-3 * times[k]) if k in times else s for k, s in enumerate(self.stages)
        )
        return replace(self, stages=tuple(stages))


def predict(plan: Plan, model: DeviceModel) -> Prediction:
    """What every step of the plan takes on the device of the model, while nothing is sent."""
    first = len(plan.static.stages)
    found = [
        _predict(plan, stage, plan.barriers.get(first + k, 0), model)
        for k, (stage, sources) in enumerate(plan.step.with_dependencies)
        if sources is None
    ]
    if plan.step.saved or plan.step.copies:
        moved, barriers = copied_bytes(plan), plan.barriers.get(-1, 0)
        seconds = moved / model.bandwidth + barriers * model.barrier
        found.append(StagePrediction("copies", "", 0, 0.0, 0.0, moved, 0.0, 0.0, barriers, 0, seconds))
    return Prediction(model, tuple(found))


def stage_seconds(plan: Plan, model: DeviceModel) -> list[float]:
    """What each Stage is predicted to take when it runs, those of ``static`` first."""
    return [_predict(plan, stage, 0, model).seconds for stage in plan.stages]


def stage_name(stage: Stage) -> str:
    """Kinds of work and domains of the SubStages."""
    return " | ".join(f"{s.work.name} {s.domain}" for s in stage.sub_stages)


def _predict(plan: Plan, stage: Stage, barriers: int, model: DeviceModel) -> StagePrediction:
    loads = [load for s in stage.sub_stages for load in loads_of(s, plan)]
    if model.tiler and stage.draws:
        loads = [load for s in stage.sub_stages for load in _on_tiles(s, stage, plan)]
    moved = stage_bytes(plan, stage, tiler=model.tiler)
    passes, dispatches = _launches(stage)
    busy = sum(load.seconds(model) for load in loads)
    # A tiler orders the subpasses tile by tile; others wait for the whole image.
    subpasses = 0.0 if model.tiler else (len(stage.sub_stages) - 1) * model.barrier
    starts = passes * model.render_pass + dispatches * model.dispatch + barriers * model.barrier + subpasses
    names = list(dict.fromkeys(type(f).__name__ for s in stage.sub_stages for f in s.functions))
    return StagePrediction(
        name=stage_name(stage),
        functions=", ".join(names),
        invocations=sum(load.invocations + load.vertices for load in loads),
        operations=sum(load.invocations * load.each.operations for load in loads),
        fetches=sum(load.invocations * load.each.reads for load in loads),
        bytes=moved,
        walk=max((load.each.walk for load in loads), default=0.0),
        chain=max((load.each.chain for load in loads), default=0.0),
        barriers=barriers,
        launches=passes + dispatches,
        seconds=max(busy, moved / model.bandwidth) + starts,
    )


def _launches(stage: Stage) -> tuple[int, int]:
    """(render passes, dispatches) of a Stage as it is recorded."""
    if stage.draws:
        return 1, 0
    work = stage.sub_stages[0].work
    if not isinstance(work, Scatter):
        return 0, 1
    passes = isinstance(work, PrimitiveWork) + (work.epilogue is not None and work.epilogue.draws)
    return passes, 2 - passes


def _texels(domain: Domain) -> int:
    return domain.size[0] * domain.size[1] * domain.tiles


def loads_of(s: SubStage, plan: Plan) -> list[Load]:
    """The shaders of a SubStage."""
    return _loads(s.work, s, plan)


@singledispatch
def _loads(work: Work, s: SubStage, plan: Plan) -> list[Load]:
    raise TypeError(f"no prediction for {work!r}; register one")


@_loads.register
def _(work: PixelWork, s: SubStage, plan: Plan) -> list[Load]:
    """All pixels, or those of active blocks; one invocation, or one a tile, does what is fused over one texel."""
    sparse = isinstance(work, SparseWork) and work.sparse is not None
    each = Shader(s).run(_own_outputs(s), s.body)
    pixels = round((ACTIVE if sparse else 1.0) * _texels(s.domain))
    loads = [Load(pixels, each, Stores.of(s, s.outputs), not s.draws)]
    if work.fused:
        once = Invocation()
        for other in work.fused:
            once = once.and_then(Shader(other).run(other.outputs, other.body))
        tiles = max(other.domain.tiles for other in work.fused)
        stores = Stores(images=float(sum(planes(other.outputs) for other in work.fused)))
        loads.append(Load(tiles, once, stores, not s.draws))
    return loads


def _on_tiles(s: SubStage, stage: Stage, plan: Plan) -> list[Load]:
    """The shaders of a subpass on a tiler: the values that only this render pass uses stay in registers of the tile."""
    first, *others = loads_of(s, plan)
    made = {v for other in stage.sub_stages for v in other.outputs}
    read = planes(r.variable for r in s.reads if r.binding is Binding.ATTACHMENT and r.variable in made)
    kept = planes(v for v in s.outputs if v in plan.images.passing[1])
    each = replace(first.each, fetches=max(first.each.fetches - read, 0.0))
    stores = replace(first.stores, attachments=max(first.stores.attachments - kept, 0.0))
    return [replace(first, each=each, stores=stores), *others]


def _own_outputs(s: SubStage) -> list[Variable]:
    others = {v for fused in s.fused for v in fused.outputs}
    return [v for v in s.outputs if v not in others]


@_loads.register
def _(work: Scatter, s: SubStage, plan: Plan) -> list[Load]:
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
    pixels, vertices = _texels(s.domain), 0
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
        total = total.and_then(Shader(epilogue, [f.output]).run(_own_outputs(epilogue), epilogue.body))
        outputs, drawn = list(epilogue.outputs), epilogue.draws
    return Load(_texels(f.output.domain), total, Stores.of(s, outputs), not drawn)


_loads.register(Raster, raster_loads)
_loads.register(Accumulate, accumulate_loads)


@_loads.register
def _(work: FragmentScatter, s: SubStage, plan: Plan) -> list[Load]:
    """Fragments that add to accumulators, then one invocation a texel of the table."""
    return [added_by_fragments(work, s), _resolved(work, s)]


@_loads.register
def _(work: Reduction, s: SubStage, plan: Plan) -> list[Load]:
    """A workgroup a texel: each invocation a run of texels, then the levels of a tree in shared memory."""
    (f,) = s.functions
    assert isinstance(f, GroupReduction)
    texel = Shader(s).elsewhere(f.inputs[0]).and_then(Invocation(f.operations * f.output.vtype.components))
    each = texel.times(f.run).and_then(Invocation((f.iterations - f.run) * LOOP))
    return [
        Load(_texels(s.domain) * f.invocations, each, Stores.of(s, s.outputs).times(1 / f.invocations), True)
    ]


@_loads.register
def _(work: TiledCompute, s: SubStage, plan: Plan) -> list[Load]:
    """Invocations that compute several texels each, by loops around a block in which texels are loaded once."""
    return [_strips(f, others, s) for f, others in strips_in(s).items()]


def _strips(f: TiledContraction, others: list[Function], s: SubStage) -> Load:
    shader, layout = Shader(s), f.layout
    block = Invocation(layout.products * f.whole.operations * f.output.vtype.components + LOOP)
    for x, count in zip(f.inputs, f.loads, strict=True):
        block = block.and_then(replace(shader.elsewhere(x).times(count), walk=0.0, chain=1.0))
    points = layout.points / (f.strips.lanes if f.strips.tree else 1)
    made = {f.output, *(g.output for g in others)}
    outputs = [v for v in s.outputs if v in made]
    ends = Shader(replace(s, domain=f.output.domain), [f.output]).run(outputs, others)
    each = replace(block, chain=1.0).times(layout.iterations)
    each = each.and_then(replace(ends.times(points), walk=0.0, chain=1.0))
    return Load(layout.groups * f.strips.lanes, each, Stores.of(s, outputs).times(points), True)


@_loads.register
def _(work: ListFaces, s: SubStage, plan: Plan) -> list[Load]:
    """A workgroup a segment, each invocation with a run of its faces, then a sum over the workgroup's counts."""
    faces, lanes = work.faces, work.faces.invocations
    steps = float(LISTING) if lanes == LISTING else 4.0 * lanes.bit_length()
    each = Shader(s).run([*s.outputs, faces.live], s.body).times(faces.run).and_then(Invocation(steps))
    return [
        Load(lanes * faces.segments * s.domain.tiles, each, Stores.of(s, s.outputs).times(faces.run), True)
    ]


@_loads.register
def _(work: ListBlocks, s: SubStage, plan: Plan) -> list[Load]:
    """One invocation a block, which reads the hits around it, or looks at its pixels."""
    if not work.hits:
        return _looking(work.blocks, plan)
    around = 9.0 if work.blocks.halo else 1.0
    return [
        Load(
            _blocks(work.blocks, plan),
            Invocation(LOOP * around, around * len(work.hits), 0.0, 1.0),
            Stores(buffers=1.0),
            True,
        )
    ]


@_loads.register
def _(work: FindHits, s: SubStage, plan: Plan) -> list[Load]:
    return _looking(work.hits, plan)


def _blocks(listed: ActiveBlocks | BlockHits, plan: Plan) -> int:
    tiling = plan.limits.tiling(listed.domain)
    return -(-tiling.width // BLOCK) * -(-tiling.height // BLOCK)


def _looking(listed: ActiveBlocks | BlockHits, plan: Plan) -> list[Load]:
    """One invocation a block, which visits its pixels, or one a pixel."""
    blocks, pixel = _blocks(listed, plan), Invocation(LOOP, 1.0, 0.0, 1.0)
    if listed.shared:
        return [Load(blocks * BLOCK * BLOCK, pixel, Stores(buffers=1.0 / (BLOCK * BLOCK)), True)]
    return [Load(blocks, pixel.times(BLOCK * BLOCK), Stores(buffers=1.0), True)]
