"""New values are drawn into the images of the leaves they replace, where drivers write attachments faster.

A shader may load what it is about to overwrite from an input attachment that is its colour attachment as well: each
pixel is covered once, and written after its fragment has read it. On CPU drivers that is two to five times as
fast as loading and storing texels of storage images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..limits import DeviceLimits
from ..substage import Binding, Mode, Read, SubStage


def draw_updates(sub_stages: Sequence[SubStage], limits: DeviceLimits) -> list[SubStage]:
    """The SubStages, with dispatches that overwrite leaves as draws, also those that end a scatter; not the ones over
    lists."""
    return [_drawn(s, limits) for s in sub_stages]


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
