"""In-place updates: a new value is written into the image of the leaf that it replaces."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..context import Context
from ..limits import DeviceLimits
from ..substage import SubStage
from .choose_lowering import may_be_dispatched


def update_in_place(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, some of which overwrite leaves. The other updates are copied at the end of a step.

    A SubStage may overwrite a leaf if it reads it at its own pixel only, or not at all, and if every other reader of
    the leaf can run before it. It must fit a dispatch: a compute shader may load and store the same texel of a storage
    image. ``choose_lowering`` may draw it instead.
    """
    uses = context.uses
    later = [set(k) for k in uses.later]
    replaces: dict[int, dict[Variable, Variable]] = {}
    claimed: set[Variable] = set()
    for leaf, new in context.updates:
        k = uses.maker.get(new)
        if k is None or new in claimed or new in context.named:
            continue
        others = [n for n in uses.readers.get(leaf, ()) if n != k]
        if not _may_overwrite(sub_stages[k], leaf, new, context.limits) or _reaches(later, k, others):
            continue
        claimed.add(new)
        replaces.setdefault(k, {})[new] = leaf
        for n in others:
            later[n].add(k)
    return [replace(s, replaces=replaces[k]) if k in replaces else s for k, s in enumerate(sub_stages)]


def _may_overwrite(s: SubStage, leaf: Variable, new: Variable, limits: DeviceLimits) -> bool:
    alike = (leaf.domain, leaf.vtype) == (new.domain, new.vtype)
    elsewhere = any(r.elsewhere for r in s.reads if r.variable is leaf)
    return alike and not elsewhere and may_be_dispatched(s, limits)


def _reaches(later: Sequence[Collection[int]], start: int, goals: Collection[int]) -> bool:
    """Whether any of the goals has to run after the start."""
    goals, seen, stack = set(goals), {start}, [start]
    while stack:
        following = [n for n in later[stack.pop()] if n not in seen]
        if not goals.isdisjoint(following):
            return True
        seen.update(following)
        stack += following
    return False
