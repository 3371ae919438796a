"""The choice between subpass and dispatch for work on each pixel.

Dispatches are chosen for work over lists, whose fragments, shaded in blocks of 2x2 and more, would half idle; and
everywhere on devices whose fragments are slow.

New values are drawn into the images of the leaves they replace where the driver writes attachments faster than storage
images: on CPU drivers two to five times. A shader may load what it is about to overwrite from an input attachment that
is its colour attachment as well: each pixel is covered once, and written after its fragment has read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..context import Context
from ..limits import DeviceLimits
from ..substage import Binding, Mode, Read, SubStage


def choose_lowering(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, each as a subpass or as a dispatch."""
    limits, cost = context.limits, context.cost

    def dispatched(s: SubStage) -> bool:
        return (
            s.mode is Mode.FRAGMENT
            and (cost.prefers_dispatches or s.over_list)
            and may_be_dispatched(s, limits)
        )

    found = [s.as_dispatch() if dispatched(s) else s for s in sub_stages]
    draws = cost.prefers_attachments and not cost.prefers_dispatches
    return subpasses_where_possible(found, context) if draws else found


def subpasses_where_possible(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, with dispatches that overwrite leaves as draws, also those that end a scatter; not the ones over
    lists."""
    return [_drawn(s, context.limits) for s in sub_stages]


def may_be_dispatched(s: SubStage, limits: DeviceLimits) -> bool:
    """Whether work on each pixel fits a dispatch; its images stay as many, whatever it overwrites."""
    return s.mode in (Mode.FRAGMENT, Mode.COMPUTE) and limits.violation(s.as_dispatch()) is None


def _drawn(s: SubStage, limits: DeviceLimits) -> SubStage:
    work = s.then or s
    if work.mode is not Mode.COMPUTE or not work.replaces or work.over_list:
        return s
    leaves = set(work.replaces.values())

    def attached(reads: Sequence[Read]) -> tuple[Read, ...]:
        return tuple(replace(r, binding=Binding.ATTACHMENT) if r.variable in leaves else r for r in reads)

    drawn = replace(work, mode=Mode.FRAGMENT, reads=attached(work.reads))
    found = drawn if s.then is None else replace(s, reads=attached(s.reads), then=drawn)
    stores = s.then is not None or work.riders
    return s if limits.violation(found) or (stores and not limits.fragment_atomics) else found
