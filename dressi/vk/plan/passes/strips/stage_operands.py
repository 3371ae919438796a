"""Workgroups load what their invocations read more than once into memory that they share, where the device is faster with that."""

from __future__ import annotations

from collections.abc import Sequence

from ...context import Context
from ...lowering.tiling.chain import is_chain
from ...lowering.tiling.strips import strips_in
from ...predict.strips import strips_seconds
from ...substage import SubStage, TiledCompute
from .divide import soonest


def stage_operands(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; dispatches of one contraction by strips hold regions of images where they are expected to be done sooner."""
    if context.incremental or not context.cost.wide:
        return list(sub_stages)
    return [_staged(s, context) for s in sub_stages]


def _staged(s: SubStage, context: Context) -> SubStage:
    if not isinstance(s.work, TiledCompute) or is_chain(s) or len(strips_in(s)) > 1:
        return s
    if any(f.strips.tree for f in strips_in(s)):
        return s
    found = soonest(s, context.limits, context.cost)
    return s if found is None or found[0] >= strips_seconds(s, context.limits, context.cost) else found[1]
