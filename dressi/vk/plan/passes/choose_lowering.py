"""Subpass or dispatch: what packing leaves open, and on tilers several subpasses instead of a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from ....ad.graph import Variable
from ..analysis.context import Context
from ..core.substage import Binding, SubStage, Undecided
from ..predict.stages import decided
from .pack import as_subpasses


def choose_lowering(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, those that were undecided as subpasses or as dispatches."""
    return [decided(s, context.limits, context.cost) for s in sub_stages]


def subpasses_where_possible(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, those that were undecided as subpasses unless they do not fit."""
    return [decided(s, context.limits, context.cost, chooses=False) for s in sub_stages]


# Work with more attachments than a subpass has: several subpasses of one render pass, or a dispatch.
#
# Packing lets such work grow into a compute shader, which may read and write more images. On a tiler that
# costs bandwidth: a dispatch ends the render pass, so the tiles go to memory and come back. This pass splits
# the work into subpasses where the model of the device predicts less time. The values between the subpasses
# are attachments that nobody else reads, so they never leave the chip. Devices that are no tilers keep the
# dispatch: it reads each image once, subpasses that share inputs read them several times.


def split_overflow(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, on tilers those that exceed the attachments of a subpass as several where that pays."""
    if not context.cost.tiler:
        return list(sub_stages)
    drawn = {v for s in sub_stages if s.draws or _is_subpass(s, context) for v in s.outputs}
    result: list[SubStage] = []
    for s in sub_stages:
        plain = isinstance(s.work, Undecided) and not (s.replaces or s.one_line)
        parts = as_subpasses(s, context) if plain and not _is_subpass(s, context) else None
        result += parts if parts is not None and _pays(s, parts, drawn, context) else [s]
    return result


def _is_subpass(s: SubStage, context: Context) -> bool:
    return isinstance(s.work, Undecided) and context.limits.violation(s.as_subpass()) is None


def _pays(s: SubStage, parts: Sequence[SubStage], drawn: AbstractSet[Variable], context: Context) -> bool:
    """Whether subpasses are predicted to take less time than a dispatch, which reads and writes each image
    once. What they hand to each other stays on the chip, and so do attachments that others have ``drawn``."""
    model, bytes_of = context.cost, context.limits.bytes_of
    reads = [r for part in parts for r in part.reads]
    inside = {v for part in parts for v in part.outputs}
    attached = {r.variable for r in reads if r.binding is Binding.ATTACHMENT} - inside
    fetched = [r.variable for r in reads if r.binding is not Binding.ATTACHMENT]
    moved = sum(map(bytes_of, (*(attached - drawn), *fetched, *s.outputs)))
    start = 0.0 if attached & drawn else model.render_pass + model.barrier
    moved_at_once = sum(map(bytes_of, (*(r.variable for r in s.reads), *s.outputs)))
    at_once = moved_at_once / model.bandwidth + model.dispatch + model.barrier
    return moved / model.bandwidth + start < at_once
