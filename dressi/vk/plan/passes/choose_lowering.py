"""The choice between subpass and dispatch for work on each pixel.

Packing leaves work on pixels undecided; this pass makes it a subpass or a dispatch, whichever fits and suits the device
model. Dispatches suit devices with slow fragments, and work over lists: fragments are shaded in blocks of at least 2x2,
so that half of them would idle on an image of one line.

Work that overwrites leaves is drawn if the driver writes attachments faster than storage images, on CPU drivers two to
five times. The image of the leaf is then input attachment and colour attachment at once. That is allowed because the
draw covers each pixel once and writes it after its fragment has read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..context import Context
from ..limits import DeviceLimits
from ..substage import Binding, Scatter, SubStage, Undecided


def choose_lowering(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, those that were undecided as subpasses or as dispatches."""
    cost = context.cost
    draws = cost.prefers_attachments and not cost.prefers_dispatches

    def dispatched(s: SubStage) -> bool:
        return cost.prefers_dispatches or s.one_line

    return [_lowered(s, context.limits, dispatched(s), draws) for s in sub_stages]


def subpasses_where_possible(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, those that were undecided as subpasses unless they do not fit."""
    return [_lowered(s, context.limits, dispatched=False, drawn=True) for s in sub_stages]


def _lowered(s: SubStage, limits: DeviceLimits, dispatched: bool, drawn: bool) -> SubStage:
    """dispatched: whether work that stores new values is better dispatched; drawn: whether work that overwrites leaves
    is better drawn."""
    if isinstance(s.work, Scatter):
        return _with_epilogue(s, limits, drawn)
    if not isinstance(s.work, Undecided):
        return s
    subpass, dispatch = s.as_subpass(), s.as_dispatch()
    if limits.violation_of(subpass.descriptors) is not None:
        return dispatch
    if s.replaces:
        stores = bool(s.fused) and not limits.fragment_atomics
        return subpass if drawn and not s.one_line and not stores else dispatch
    return dispatch if dispatched and limits.violation_of(dispatch.descriptors) is None else subpass


def _with_epilogue(s: SubStage, limits: DeviceLimits, drawn: bool) -> SubStage:
    """The scatter with an epilogue that overwrites leaves as a draw, with others as a dispatch."""
    work = s.work
    assert isinstance(work, Scatter)
    epilogue = work.epilogue
    if epilogue is None:
        return s
    dispatch = replace(s, work=replace(work, epilogue=epilogue.as_dispatch()))
    if not drawn or not epilogue.replaces or epilogue.one_line or not limits.fragment_atomics:
        return dispatch
    leaves = set(epilogue.replaces.values())
    reads = tuple(r.by(Binding.ATTACHMENT) if r.variable in leaves else r for r in s.reads)
    draw = replace(s, reads=reads, work=replace(work, epilogue=epilogue.as_subpass()))
    return dispatch if limits.violation(draw) else draw


def may_be_dispatched(s: SubStage, limits: DeviceLimits) -> bool:
    """Whether work on each pixel fits a dispatch; its images stay as many, whatever it overwrites."""
    return isinstance(s.work, Undecided) and limits.violation(s.as_dispatch()) is None
