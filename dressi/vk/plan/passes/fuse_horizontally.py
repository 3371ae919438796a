"""Horizontal fusion: work on a single texel joins a larger dispatch.

A pass over one texel costs as much as a pass over thousands. If no other SubStage of the step reads the result, as with
the new value of a step counter, the first invocation of another dispatch computes it; work on one texel of each tile is done
by the first invocation of each tile, so that one problem and many have the same passes. The result gets an image of its own:
other SubStages can still read the old value, and a copy at the end of the step replaces it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..bindings import Binding, Read, all_reads
from ..context import Context
from ..limits import DeviceLimits
from ..substage import ONE, SubStage, Undecided
from ..uses import put_together


def fuse_horizontally(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; those over one texel, or one a tile, whose outputs no SubStage reads are fused into others."""
    if context.incremental:
        return list(sub_stages)
    limits, read = context.limits, context.uses.readers
    found: list[SubStage | None] = list(sub_stages)
    for number, small in enumerate(sub_stages):
        if found[number] is not small or not _may_be_fused(small, read):
            continue  # it took another one in
        needed = {r.variable for r in small.reads}
        for k in reversed(range(len(found))):
            host = found[k]
            if host is None or host is small:
                continue
            if not needed.isdisjoint(host.outputs):
                break
            together = _together(host, small, limits)
            if (
                together is not None
                and needed.isdisjoint(host.replaces.values())
                and not limits.violation(together.as_dispatch())
                and put_together(found, k, number, together)
            ):
                break
    return [s for s in found if s is not None]


def _may_be_fused(s: SubStage, read: Container[Variable]) -> bool:
    unread = not any(v in read for v in s.outputs)
    return s.domain.size == ONE.size and isinstance(s.work, Undecided) and unread


def _together(host: SubStage, small: SubStage, limits: DeviceLimits) -> SubStage | None:
    """Both as one SubStage. None unless the host becomes a dispatch: it overwrites a leaf, or does not fit a subpass."""
    if not isinstance(host.work, Undecided) or not (host.replaces or limits.violation(host.as_subpass())):
        return None
    if small.domain.tiles != 1 and small.domain[1:] != host.domain[1:]:
        return None  # as many tiles, of other channels, would be read by wrong numbers
    # One invocation reads them, not that of their own pixel.
    fetched = [Read(r.variable, Binding.TEXTURE, True) for r in small.reads]
    return replace(
        host,
        functions=host.functions + small.functions,
        reads=all_reads(host.reads, fetched),
        outputs=host.outputs + small.outputs,
        work=Undecided((*host.fused, replace(small, replaces={}))),
    )
