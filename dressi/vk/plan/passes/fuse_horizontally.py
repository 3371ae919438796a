"""Counters and the like: work on a single texel rides along in a larger dispatch instead of being one by itself.

A pass over one texel costs as much as a pass over thousands. What nobody waits for within the step, the new value of
a step counter for example, is computed by the first invocation of a dispatch that runs anyway. Its images are its
own: the old value stays readable to everybody else, and is replaced by a copy at the end of the step.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..context import Context
from ..limits import DeviceLimits
from ..substage import ONE, Binding, Read, SubStage, Undecided
from ..uses import Uses


def fuse_horizontally(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, with those over one texel that nobody reads moved into dispatches."""
    if context.incremental:
        return list(sub_stages)
    limits, read = context.limits, context.uses.readers
    sub_stages = list(sub_stages)
    for rider in [s for s in sub_stages if _may_ride(s, read)]:
        overwritten = {leaf for s in sub_stages if s is not rider for leaf in s.replaces.values()}
        if any(r.variable in overwritten for r in rider.reads):
            continue
        for k in reversed(range(len(sub_stages))):
            together = _together(sub_stages[k], rider, limits)
            ready = not {v for s in sub_stages[k:] for v in s.outputs} & {r.variable for r in rider.reads}
            if (
                sub_stages[k] is rider
                or together is None
                or not ready
                or limits.violation(together.as_dispatch())
            ):
                continue
            host = sub_stages[k]
            sub_stages[k] = together
            if not Uses(s for s in sub_stages if s is not rider).can_run:
                sub_stages[k] = host  # it waits for somebody who overwrites what the host reads
                continue
            sub_stages.remove(rider)
            break
    return sub_stages


def _may_ride(s: SubStage, read: Container[Variable]) -> bool:
    unread = not any(v in read for v in s.outputs)
    return s.domain == ONE and isinstance(s.work, Undecided) and unread


def _together(host: SubStage, rider: SubStage, limits: DeviceLimits) -> SubStage | None:
    """The host with the rider, None where it cannot carry one."""
    if not isinstance(host.work, Undecided) or not (host.replaces or limits.violation(host.as_subpass())):
        return None
    known = {r.variable for r in host.reads}
    more = tuple(Read(r.variable, Binding.TEXTURE, True) for r in rider.reads if r.variable not in known)
    return replace(
        host,
        functions=host.functions + rider.functions,
        reads=host.reads + more,
        outputs=host.outputs + rider.outputs,
        work=Undecided((*host.fused, replace(rider, replaces={}))),
    )
