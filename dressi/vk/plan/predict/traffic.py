"""Bytes that a step moves, estimated from its plan.

Every image that a SubStage reads or writes counts once, whole, and so do depths and accumulators. Texels that are
fetched many times count once, since caches hold them, and those of sparse draws count although nobody touches them.
"""

from __future__ import annotations

from ....ad.graph import FragmentScatterFunction, ScatterFunction
from ..plan import Plan
from ..substage import Binding, Stage
from ..work.accumulators import accumulators_of


def stage_bytes(plan: Plan, stage: Stage, *, tiler: bool = False) -> int:
    """Bytes of a Stage of the step. tiler: only those that cross the edge of the chip. Attachments that nobody reads
    outside of their render pass stay in it, and so does the depth; an attachment of several subpasses is loaded once."""
    total = 0
    on_chip = {v for s in stage.sub_stages for v in s.outputs} if tiler and stage.draws else set()
    inside = plan.images.passing[1] if tiler else frozenset()
    for s in stage.sub_stages:
        for read in s.reads:
            attached = read.binding is Binding.ATTACHMENT
            if not (attached and read.variable in on_chip):
                total += plan.images.bytes_of(read.variable)
            if attached and tiler:
                on_chip.add(read.variable)
        total += sum(plan.images.bytes_of(v) for v in s.outputs if v not in inside)
        if s.has_depth and not (tiler and not plan.images.slots[plan.images.depths[s]].lasting):
            total += 2 * 4 * s.domain.texels  # depth, cleared and tested
        for f in s.functions:
            if isinstance(f, ScatterFunction | FragmentScatterFunction):
                total += 3 * 4 * accumulators_of(f).touched_words  # added to, read, cleared
    return total


def step_bytes(plan: Plan, *, tiler: bool = False) -> int:
    """Bytes read and written in every step before which nothing was sent."""
    run = (stage for stage, sources in plan.step.with_dependencies if sources is None)
    return copied_bytes(plan) + sum(stage_bytes(plan, stage, tiler=tiler) for stage in run)


def copied_bytes(plan: Plan) -> int:
    """Bytes of the copies before and after the Stages of a step."""
    return sum(2 * plan.images.bytes_of(target) for target, _ in (*plan.step.saved, *plan.step.copies))
