"""Workgroups load what their invocations read more than once into memory that they share, where the device is faster with that."""

from __future__ import annotations

from collections.abc import Sequence

from ...context import Context
from ...predict.strips import strips_seconds
from ...substage import SubStage
from .divide import each_alone, soonest


def stage_operands(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; dispatches of one contraction by strips hold regions of images where they are expected to be done sooner."""
    return each_alone(sub_stages, context, _staged)


def _staged(s: SubStage, context: Context) -> SubStage:
    found = soonest(s, context.limits, context.cost)
    return s if found is None or found[0] >= strips_seconds(s, context.limits, context.cost) else found[1]
