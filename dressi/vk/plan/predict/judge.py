"""The judge: passes propose SubStages, and what is predicted to take longer than what was there is dropped.

Each SubStage takes what its shaders do or what its images move, whichever is longer, and the start of its
passes and dispatches with a barrier each; which of them will share a render pass is not known yet. Work on
pixels that is still undecided counts as what ``decided`` makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..core import substage
from ..core.limits import DeviceLimits
from ..core.substage import Binding, SubStage
from ..model.device import DeviceModel
from .work import fill_seconds, launches_of, loads_of, moved_by, tiles_seconds

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
