"""What a step of a plan is predicted to take on a device of which only the model is known, Stage by Stage.

The time of a SubStage is the largest of its work (operations, fetches and stores at the device's rates, by as
many rounds as fill the lanes) and its longest chain of dependent fetches. That of a Stage is the sum of these
or the time of its bytes, whichever is larger, plus the start of its passes or dispatches and its barriers.

Where the data decide, shares stand for them: ``COVERED`` of the pixels under a raster, ``LISTED`` under one
that draws a list of live faces, ``active_expected`` of the pixels under a list, ``LIVE`` of the faces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from ....ad.graph import RasterFunction, Variable
from ..core import substage
from ..core.accumulators import accumulators_of
from ..core.limits import DeviceLimits
from ..core.lists import active_expected
from ..core.substage import Binding, Joined, ListBlocks, SparseWork, Stage, SubStage
from ..execution.plan import Plan
from ..model.device import DeviceModel, planes
from .work import Load, block_count, fill_seconds, launches_of, loads_of, moved_by, tiles_seconds, touched


@dataclass(frozen=True)
class StagePrediction:
    """One Stage: ``invocations``, ``operations`` and ``fetches`` (from buffers too) of all, ``bytes`` that
    leave the chip, ``walk``: texels that one invocation visits in a loop, ``chain``: fetches of one
    invocation that wait for each other.

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
    """Stages that run in every step, in their order; the copies around them are the last one."""

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
    stages = [
        _predict(plan, stage, plan.barriers.get(first + k, 0), model)
        for k, (stage, sources) in enumerate(plan.step.with_dependencies)
        if sources is None
    ]
    if stages:
        stages[0] = replace(stages[0], seconds=stages[0].seconds + model.submission)
    if plan.step.saved or plan.step.copies:
        moved, barriers = copied_bytes(plan), plan.barriers.get(-1, 0)
        seconds = moved / model.bandwidth + barriers * model.barrier
        stages.append(StagePrediction("copies", "", 0, 0.0, 0.0, moved, 0.0, 0.0, barriers, 0, seconds))
    return Prediction(model, tuple(stages))


def stage_seconds(plan: Plan, model: DeviceModel) -> list[float]:
    """What each Stage is predicted to take when it runs, those of ``static`` first."""
    return [_predict(plan, stage, 0, model).seconds for stage in plan.stages]


def stage_name(stage: Stage) -> str:
    """Kinds of work and domains of the SubStages, of joined ones those of their phases, and whether they work on
    lists of pixels."""

    def name(s: SubStage) -> str:
        phases = s.work.phases if isinstance(s.work, Joined) else [[s]]
        domains = " > ".join(", ".join(str(p.domain) for p in phase) for phase in phases)
        return f"{s.work.name} {domains}{', listed' * _on_list(s)}"

    return " | ".join(map(name, stage.sub_stages))


def _on_list(s: SubStage) -> bool:
    return isinstance(s.work, SparseWork) and s.work.sparse is not None


def _predict(plan: Plan, stage: Stage, barriers: int, model: DeviceModel) -> StagePrediction:
    loads = [load for s in stage.sub_stages for load in loads_of(s, plan.limits)]
    if model.tiler and stage.draws:
        loads = [load for s in stage.sub_stages for load in _on_tiles(s, stage, plan)]
    moved = stage_bytes(plan, stage, tiler=model.tiler)
    passes, dispatches = launches_of(stage.sub_stages[0])
    busy = sum(load.seconds(model) for load in loads)
    # A tiler orders the subpasses tile by tile; others wait for the whole image.
    subpasses = 0.0 if model.tiler else (len(stage.sub_stages) - 1) * model.barrier
    starts = passes * model.render_pass + dispatches * model.dispatch + barriers * model.barrier + subpasses
    for s in stage.sub_stages:
        starts += fill_seconds(s, plan.images.bytes_of, model, {*s.outputs} - {*s.ranges})
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


def _on_tiles(s: SubStage, stage: Stage, plan: Plan) -> list[Load]:
    """The shaders of a subpass on a tiler: what only this render pass uses stays on the chip."""
    first, *others = loads_of(s, plan.limits)
    made = {v for other in stage.sub_stages for v in other.outputs}
    near = [r.variable for r in s.reads if r.binding is Binding.ATTACHMENT and r.variable in made]
    read, wider = planes(near), sum(v.vtype.components for v in near) - planes(near)
    kept = planes(v for v in s.outputs if v in plan.images.passing[1])
    each = first.each._replace(
        fetches=max(first.each.fetches - read, 0.0), wider=max(first.each.wider - wider, 0.0)
    )
    stores = replace(first.stores, attachments=max(first.stores.attachments - kept, 0.0))
    return [replace(first, each=each, stores=stores), *others]


# Bytes that a step moves, estimated from its plan.
#
# Every image that a SubStage reads or writes counts once, whole, and so do depths and accumulators; of work over
# a list what it is expected to touch, and what is filled before. Texels that are fetched many times count once,
# since caches hold them, and those of sparse draws count although nobody touches them.


def stage_bytes(plan: Plan, stage: Stage, *, tiler: bool = False) -> int:
    """Bytes of a Stage of the step. tiler: only those that cross the edge of the chip. Attachments that
    nobody reads outside of their render pass stay in it, and so does the depth; an attachment of several
    subpasses is loaded once."""
    total = 0.0
    on_chip = {v for s in stage.sub_stages for v in s.outputs} if tiler and stage.draws else set()
    inside = plan.images.passing[1] if tiler else frozenset()
    for s in stage.sub_stages:
        for read in s.reads:
            attached = read.binding is Binding.ATTACHMENT
            if not (attached and read.variable in on_chip):
                total += touched(s, read.variable) * plan.images.bytes_of(read.variable)
            if attached and tiler:
                on_chip.add(read.variable)
        total += sum(touched(s, v) * plan.images.bytes_of(v) for v in s.outputs if v not in inside)
        if isinstance(s.work, SparseWork) and s.work.sparse is not None:
            total += sum(map(plan.images.bytes_of, s.work.sparse.fill))
        if isinstance(s.work, ListBlocks):
            # A word of each entry, and of each block of another list that tells about them.
            listed = s.work.blocks
            blocks = block_count(listed, plan.limits)
            entries = active_expected(listed) * (s.domain.texels if listed.pixels else blocks)
            total += 4 * (entries + (blocks if s.work.hits else 0))
        if s.has_depth and not tiler:
            total += 2 * 4 * s.domain.texels  # depth, cleared and tested
        if s.kept is not None and not isinstance(s.kept, RasterFunction):
            total += 3 * 4 * accumulators_of(s.kept).touched_words  # added to, read, cleared
    return round(total)


def step_bytes(plan: Plan, *, tiler: bool = False) -> int:
    """Bytes read and written in every step before which nothing was sent."""
    run = (stage for stage, sources in plan.step.with_dependencies if sources is None)
    return copied_bytes(plan) + sum(stage_bytes(plan, stage, tiler=tiler) for stage in run)


def copied_bytes(plan: Plan) -> int:
    """Bytes of the copies before and after the Stages of a step."""
    return sum(2 * plan.images.bytes_of(target) for target, _ in (*plan.step.saved, *plan.step.copies))


# The judge: passes propose SubStages, and what is predicted to take longer than what was there is dropped.
#
# Each SubStage takes what its shaders do or what its images move, whichever is longer, and the start of its
# passes and dispatches with a barrier each; which of them will share a render pass is not known yet. Work on
# pixels that is still undecided counts as what ``decided`` makes of it.

MARGIN = 1.02
"""How much faster another way than the first must be: predictions of equal plans differ by rounding."""


class Judge:
    """What SubStages are predicted to take on a device. Each is predicted once.

    chooses: whether work on pixels becomes what suits the device, or subpasses where possible.
    """

    def __init__(self, limits: DeviceLimits, model: DeviceModel, *, chooses: bool = True):
        self._limits, self._model, self._chooses = limits, model, chooses
        self._known: dict[SubStage, float] = {}

    def fastest(self, ways: Sequence[tuple[Sequence[SubStage], float]]) -> int:
        """The number of the way that takes the least time; the first one where others gain next to nothing.
        ways: the SubStages of a schedule each, and the seconds of its copies."""
        if len(ways) == 1:
            return 0
        common = set(ways[0][0]).intersection(*(way for way, _ in ways[1:]))
        times = [copies + sum(self.seconds(s) for s in way if s not in common) for way, copies in ways]
        best = min(range(len(ways)), key=times.__getitem__)
        return best if times[best] * MARGIN < times[0] else 0

    def copying(self, values: Iterable[Variable]) -> float:
        """Seconds of copies of these values behind one barrier."""
        moved = sum(2 * self._limits.bytes_of(v) for v in values)
        return moved / self._model.bandwidth + self._model.barrier if moved else 0.0

    def seconds(self, s: SubStage) -> float:
        """What a SubStage takes by itself."""
        if s not in self._known:
            self._known[s] = self._predict(decided(s, self._limits, self._model, chooses=self._chooses))
        return self._known[s]

    def _predict(self, s: SubStage) -> float:
        limits, model = self._limits, self._model
        if isinstance(s.work, substage.TiledCompute):
            return tiles_seconds(s, limits, model)
        passes, dispatches = launches_of(s)
        # Rasters and sums of fragments open render passes; what follows from them joins one.
        opens = isinstance(s.work, substage.Raster | substage.Accumulate | substage.FragmentScatter)
        started = model.render_pass if opens else min(model.render_pass, model.dispatch)
        starts = passes * started + dispatches * model.dispatch + (passes + dispatches) * model.barrier
        busy = sum(load.seconds(model) for load in loads_of(s, limits))
        moved = moved_by(s, limits.bytes_of) / model.bandwidth
        return max(busy, moved) + starts + fill_seconds(s, limits.bytes_of, model)


# The choice between subpass and dispatch for work on each pixel.
#
# Packing leaves work on pixels undecided; it becomes a subpass or a dispatch, whichever fits and suits the
# device model. Dispatches suit devices with slow fragments, and work over lists: fragments are shaded in
# blocks of at least 2x2, so that half of them would idle on an image of one line.
#
# Work that overwrites leaves is drawn if the driver writes attachments faster than storage images, on CPU
# drivers two to five times. The image of the leaf is then input attachment and colour attachment at once.
# That is allowed because the draw covers each pixel once and writes it after its fragment has read it.


def decided(s: SubStage, limits: DeviceLimits, model: DeviceModel, *, chooses: bool = True) -> SubStage:
    """Work on each pixel as a subpass or as a dispatch, whichever fits and suits the device model; other work
    as it is.  chooses: False for subpasses wherever possible."""
    draws = not chooses or (model.prefers_attachments and not model.prefers_dispatches)
    if isinstance(s.work, substage.Scatter):
        return _with_epilogue(s, limits, draws)
    if not isinstance(s.work, substage.Undecided):
        return s
    subpass, dispatch = s.as_subpass(), s.as_dispatch()
    if limits.violation_of(subpass.descriptors) is not None:
        return dispatch
    if s.replaces:
        stores = bool(s.fused) and not limits.fragment_atomics
        return subpass if draws and not s.one_line and not stores else dispatch
    dispatched = chooses and (model.prefers_dispatches or s.one_line)
    return dispatch if dispatched and limits.violation_of(dispatch.descriptors) is None else subpass


def _with_epilogue(s: SubStage, limits: DeviceLimits, draws: bool) -> SubStage:
    """The scatter with its epilogue decided. draws: whether work that overwrites leaves is better drawn."""
    work = s.work
    assert isinstance(work, substage.Scatter)
    epilogue = work.epilogue
    if epilogue is None or not isinstance(epilogue.work, substage.Undecided):
        return s
    dispatch = replace(s, work=replace(work, epilogue=epilogue.as_dispatch()))
    if not draws or not epilogue.replaces or epilogue.one_line or not limits.fragment_atomics:
        return dispatch
    leaves = set(epilogue.replaces.values())
    reads = tuple(r.by(Binding.ATTACHMENT) if r.variable in leaves else r for r in s.reads)
    draw = replace(s, reads=reads, work=replace(work, epilogue=epilogue.as_subpass()))
    return dispatch if limits.violation(draw) else draw
