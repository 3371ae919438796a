"""What a step has to move, estimated from its plan."""

from __future__ import annotations

from dressi import Variable
from dressi.ad.graph import ScatterFunction
from dressi.vk.plan.glsl.fixed_point import accumulators_of
from dressi.vk.plan.plan import Plan
from dressi.vk.plan.substage import Stage


def stage_bytes(plan: Plan, stage: Stage) -> int:
    """Every image that a SubStage reads or writes counted once, whole; depth and accumulators as well.

    An estimate from the plan alone: texels that are fetched many times count once (caches), and those of sparse
    draws count although nobody touches them.
    """
    total = 0
    for s in stage.sub_stages:
        total += sum(_bytes(plan, read.variable) for read in s.reads)
        total += sum(_bytes(plan, v) for v in s.outputs)
        if s.has_depth:
            (width, height), batch = s.domain
            total += 2 * 4 * width * height * batch  # depth, cleared and tested
        for f in s.functions:
            if isinstance(f, ScatterFunction):
                total += 3 * 4 * accumulators_of(f).words  # added to, read, cleared
    return total


def step_bytes(plan: Plan) -> int:
    """Bytes read and written in every step before which nothing was sent."""
    copied = sum(2 * _bytes(plan, leaf) for leaf, _ in plan.step.copies)
    run = (stage for stage, sources in plan.step.with_sources if sources is None)
    return copied + sum(stage_bytes(plan, stage) for stage in run)


def _bytes(plan: Plan, variable: Variable) -> int:
    # What never leaves its render pass has no image.
    return sum(plan.images.slots[k].bytes for k in plan.images.of.get(variable, ()))
