"""Which leaves a value follows from: what must run again when some of them change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....ad.graph import Function, Variable
from ..substage import Stage, SubStage

Sources = frozenset[Variable]
NOTHING: Sources = frozenset()


def sources_of(functions: Iterable[Function]) -> dict[Variable, Sources]:
    """The leaves of every computed value; ``functions`` come producers first."""
    sources: dict[Variable, Sources] = {}
    for f in functions:
        found = NOTHING
        for x in f.inputs:
            more = sources[x] if x.creator is not None else frozenset((x,))
            if not more <= found:
                found = more if found <= more else found | more
        sources[f.output] = found
    return sources


def read_by(sub_stages: Iterable[SubStage], sources: Mapping[Variable, Sources]) -> Sources:
    """The leaves of everything that SubStages read, or that decides where they run."""
    sub_stages = list(sub_stages)
    read = {r.variable for s in sub_stages for r in s.reads}
    read.update(v for s in sub_stages if s.active for v, _ in s.active.quiet)
    return NOTHING.union(*(sources[v] if v.creator is not None else {v} for v in read))


def crossing(stages: Iterable[tuple[Stage, Sources | None]]) -> list[Variable]:
    """Values that a Stage leaves to others which may run without it: they need images of their own."""
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


def worth_moving(
    static: Iterable[SubStage], step: Iterable[SubStage], sources: Mapping[Variable, Sources]
) -> Sources:
    """Static leaves that the step would better treat as changing if they did: something of theirs is stored for the
    step, or static shaders compute it together with what follows from other leaves."""
    kept = {v for s in static for v in s.outputs}
    found = NOTHING.union(*(sources[r.variable] for s in step for r in s.reads if r.variable in kept))
    for s in static:
        own = [sources[f.output] for f in s.functions if sources[f.output]]
        if own:
            found |= NOTHING.union(*own) - own[0].intersection(*own)
    return found
