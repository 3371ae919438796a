"""Which leaves a value depends on: what must run again when some of them change."""

from __future__ import annotations

from collections.abc import Iterable

from ....ad.graph import Function, Variable
from ..substage import Stage, SubStage

Leaves = frozenset[Variable]
NO_LEAVES: Leaves = frozenset()


class Dependencies:
    """The leaves that every value of a program depends on."""

    def __init__(self, functions: Iterable[Function]):
        """functions: all of the program, producers first."""
        self._of: dict[Variable, Leaves] = {}
        for f in functions:
            found = NO_LEAVES
            for x in f.inputs:
                more = self._of[x] if x.creator is not None else frozenset((x,))
                if not more <= found:
                    found = more if found <= more else found | more
            self._of[f.output] = found

    def of(self, v: Variable) -> Leaves:
        """The leaves of a value; also of one that a pass made out of values of the program."""
        if v.creator is None:
            return frozenset((v,))
        if v in self._of:
            return self._of[v]
        return NO_LEAVES.union(*(self.of(x) for x in v.creator.inputs))

    def read_by(self, sub_stages: Iterable[SubStage]) -> Leaves:
        """The leaves of everything that SubStages read, or that decides where they run."""
        sub_stages = list(sub_stages)
        read = {r.variable for s in sub_stages for r in s.reads}
        read.update(v for s in sub_stages for x in s.work.uses for v in x.decided_by)
        return NO_LEAVES.union(*(self.of(v) for v in read))

    def worth_changing(self, static: Iterable[SubStage], step: Iterable[SubStage]) -> Leaves:
        """Leaves that the step would better treat as changing if they are sent often: something of theirs is stored
        for the step, static shaders compute it together with what depends on other leaves, or it decides which blocks of
        pixels are worked on, which only steps look at."""
        static = list(static)
        kept = {v for s in static for v in s.outputs}
        found = NO_LEAVES.union(*(self.of(r.variable) for s in step for r in s.reads if r.variable in kept))
        for s in static:
            own = [leaves for f in s.functions if (leaves := self.of(f.output))]
            if own:
                found |= NO_LEAVES.union(*own) - own[0].intersection(*own)
            found = found.union(*(self.of(f.output) for f in s.functions if f.quiet is not None))
        return found


def crossing(stages: Iterable[tuple[Stage, Leaves | None]]) -> list[Variable]:
    """Values that one Stage makes and another reads that may run without it: they need images of their own."""
    stages = list(stages)
    maker = {v: own for stage, own in stages for s in stage.sub_stages for v in s.outputs}
    read = [
        r.variable
        for stage, own in stages
        for s in stage.sub_stages
        for r in s.reads
        if maker.get(r.variable) is not None and maker[r.variable] != own
    ]
    return list(dict.fromkeys(read))
