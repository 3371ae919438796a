"""Which SubStages must run after which, and whether that is possible at all."""

from __future__ import annotations

from collections.abc import Sequence

from ..substage import SubStage


def dependents(sub_stages: Sequence[SubStage]) -> list[set[int]]:
    """For each SubStage those that must run later: readers of its outputs, users of its list, and whoever overwrites
    what it reads."""
    lister = {s.list_made: k for k, s in enumerate(sub_stages)}
    maker = {v: k for k, s in enumerate(sub_stages) for v in s.outputs}
    overwriter = {leaf: k for k, s in enumerate(sub_stages) for leaf in s.replaces.values()}
    after: list[set[int]] = [set() for _ in sub_stages]
    for k, s in enumerate(sub_stages):
        for used in s.lists_used:
            if used in lister:
                after[lister[used]].add(k)
        for read in s.reads:
            if read.variable in maker:
                after[maker[read.variable]].add(k)
            if read.variable in overwriter and overwriter[read.variable] != k:
                after[k].add(overwriter[read.variable])
    return after


def can_run(sub_stages: Sequence[SubStage]) -> bool:
    """Whether there is an order in which no SubStage waits for itself.

    A pass that merges SubStages or adds reads to one can break this where leaves are overwritten: a SubStage that
    reads a leaf must run before the one that overwrites it, even if it has nothing else to do with that.
    """
    after = dependents(sub_stages)
    waiting = [0] * len(after)
    for later in after:
        for n in later:
            waiting[n] += 1
    ready = [k for k, n in enumerate(waiting) if n == 0]
    done = 0
    while ready:
        done += 1
        for n in after[ready.pop()]:
            waiting[n] -= 1
            if waiting[n] == 0:
                ready.append(n)
    return done == len(after)


def unless_stuck(before: list[SubStage], after: list[SubStage]) -> list[SubStage]:
    """What a pass made, where that still has an order of execution; else what it was given."""
    overwrites = any(s.replaces for s in after)
    return before if overwrites and not can_run(after) else after
