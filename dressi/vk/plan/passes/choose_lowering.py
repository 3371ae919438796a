"""Subpass or dispatch: what packing leaves open, and on tilers several subpasses instead of a dispatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from ....ad.graph import Variable
from ..context import Context
from ..pack import as_subpasses
from ..predict.judge import decided
from ..substage import Binding, SubStage, Undecided


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
    fitting = [s for s in sub_stages if s.draws or _is_subpass(s, context)]
    drawn = {v for s in fitting for v in s.outputs}
    found: list[SubStage] = []
    for s in sub_stages:
        plain = isinstance(s.work, Undecided) and not (s.replaces or s.one_line)
        parts = as_subpasses(s, context) if plain and not _is_subpass(s, context) else None
        pays = parts is not None and _as_parts(s, parts, drawn, context) < _as_dispatch(s, context)
        found += parts if parts is not None and pays else [s]
    return found


def _is_subpass(s: SubStage, context: Context) -> bool:
    return isinstance(s.work, Undecided) and context.limits.violation(s.as_subpass()) is None


def _as_dispatch(s: SubStage, context: Context) -> float:
    """Predicted seconds of a dispatch, which reads and writes each image once."""
    model = context.cost
    moved = _bytes(context, (*(r.variable for r in s.reads), *s.outputs))
    return moved / model.bandwidth + model.dispatch + model.barrier


def _as_parts(
    s: SubStage, parts: Sequence[SubStage], drawn: AbstractSet[Variable], context: Context
) -> float:
    """Predicted seconds of subpasses. drawn: what other subpasses write; attachments of the same size stay on
    the chip from the one that makes them."""
    model = context.cost
    inside = {v for part in parts for v in part.outputs}
    attached = {r.variable for part in parts for r in part.reads if r.binding is Binding.ATTACHMENT} - inside
    here = {v for v in attached if v in drawn}
    fetched = [r.variable for part in parts for r in part.reads if r.binding is not Binding.ATTACHMENT]
    moved = _bytes(context, (*(attached - here), *fetched, *s.outputs))
    start = 0.0 if here else model.render_pass + model.barrier
    return moved / model.bandwidth + start


def _bytes(context: Context, variables: Iterable[Variable]) -> int:
    return sum(map(context.limits.bytes_of, variables))
