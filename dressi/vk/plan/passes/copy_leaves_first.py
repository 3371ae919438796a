"""Copies before a step instead of behind it: a SubStage that reads a leaf at other pixels can overwrite it if it reads a copy.

An update that is not made in place takes a copy of the new value into the leaf at the end of the step, behind a barrier
that nothing else needs. The old value can be copied instead, while the first Stages run: the maker of the new value
reads the copy and writes into the image of the leaf. As many texels are copied, with one barrier less.

Worked example: ``step`` is read by every pixel of the optimizer, and its first invocation makes ``step + 1``.

    project; draw; optimize; copy new -> step      4 levels of commands
    project, copy step -> old; draw; optimize      3 levels
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..analysis.updates import OldValue
from ..context import Context
from ..substage import Compute, Fragment, Scatter, SparseWork, SubStage
from ..uses import Uses


def copy_leaves_first(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; makers of new values read copies of the leaves that they overwrite. Only if no copy is left at the end
    of the step, and if that saves a barrier: all makers wait for something else, and no chain of SubStages gets longer. A
    gated step pays the barrier."""
    found = list(sub_stages)
    placed = {leaf for s in found for leaf in s.replaces.values()}
    left = [(leaf, new) for leaf, new in context.updates if leaf not in placed]
    makers = {new: context.uses.maker.get(new) for _, new in left}
    waiting = set().union(*context.uses.later)
    by_maker: dict[int, dict[Variable, Variable]] = {}
    for leaf, new in left:
        k = makers[new]
        if k is None or new in context.named or not _may_overwrite(found[k], leaf, new):
            return list(sub_stages)
        if k not in waiting and not context.gated:
            return list(sub_stages)
        own = by_maker.setdefault(k, {})
        if new in own:
            return list(sub_stages)  # the new value of two leaves has one image
        own[new] = leaf
    for k, replaced in by_maker.items():
        s = found[k]
        read = {r.variable for r in s.reads}
        old = {leaf: OldValue.of(leaf) for leaf in replaced.values() if leaf in read}
        found[k] = replace(_reading(s, old), replaces={**s.replaces, **replaced})
        if s.final is not s and isinstance(s.work, Scatter):
            epilogue = _reading(s.final, old)
            epilogue = replace(epilogue, replaces={**epilogue.replaces, **replaced})
            found[k] = replace(found[k], work=replace(s.work, epilogue=epilogue))
    uses = Uses(found)
    if not uses.can_run:
        return list(sub_stages)
    shorter = _longest_chain(uses) <= _longest_chain(context.uses)
    return found if shorter or context.gated else list(sub_stages)


def _longest_chain(uses: Uses) -> int:
    """Commands that wait for each other, two of a scatter. Overwriting a leaf waits for all that read it."""
    own = [2 if isinstance(s.work, Scatter) else 1 for s in uses.sub_stages]
    length = list(own)
    for k in uses.order:
        for n in uses.later[k]:
            length[n] = max(length[n], length[k] + own[n])
    return max(length, default=0)


def _may_overwrite(s: SubStage, leaf: Variable, new: Variable) -> bool:
    alike = (leaf.domain, leaf.vtype) == (new.domain, new.vtype) and len(leaf.vtype.planes) == 1
    dense = not (isinstance(s.work, SparseWork) and s.work.sparse is not None and s.final is s)
    return alike and dense and isinstance(s.final.work, (Compute, Fragment)) and leaf not in s.channels


def _reading(s: SubStage, old: Mapping[Variable, OldValue]) -> SubStage:
    """The SubStage with copies of leaves in place of these."""
    reads = tuple(replace(r, variable=old.get(r.variable, r.variable)) for r in s.reads)
    channels = {**s.channels, **{leaf: (copy, 0) for leaf, copy in old.items()}}
    return replace(s, reads=reads, channels=channels)
