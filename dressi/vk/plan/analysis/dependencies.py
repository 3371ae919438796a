"""What depends on which leaves: what runs again when they change, what runs once, how a step updates them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ....ad.graph import Function, Variable
from ....ad.graph.program import Program
from ....ad.graph.traversal import topological_order
from ....ad.ops.pixel.math import StopGradient
from ..core.options import PlanOptions
from ..core.substage import Stage, SubStage
from ..model.device import DeviceModel
from .rematerialization import Inlined, static_operands, trivial_functions

Leaves = frozenset[Variable]
NO_LEAVES: Leaves = frozenset()


class Dependencies:
    """The leaves that every value of a program depends on."""

    def __init__(self, functions: Iterable[Function]):
        self._of: dict[Variable, Leaves] = {}
        for f in functions:
            leaves = NO_LEAVES
            for x in f.inputs:
                more = self._of[x] if x.creator is not None else frozenset((x,))
                if not more <= leaves:
                    leaves = more if leaves <= more else leaves | more
            self._of[f.output] = leaves

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
        """Leaves that the step would better treat as changing if they are sent often: something of theirs is
        stored for the step, static shaders compute it together with what depends on other leaves, or it
        decides which blocks of pixels are worked on, which only steps look at."""
        static = list(static)
        kept = {v for s in static for v in s.outputs}
        leaves = NO_LEAVES.union(*(self.of(r.variable) for s in step for r in s.reads if r.variable in kept))
        for s in static:
            own = [leaves for f in s.functions if (leaves := self.of(f.output))]
            if own:
                leaves |= NO_LEAVES.union(*own) - own[0].intersection(*own)
            leaves = leaves.union(*(self.of(f.output) for f in s.functions if f.quiet is not None))
        return leaves


def crossing(stages: Iterable[tuple[Stage, Leaves | None]]) -> list[Variable]:
    """Values between Stages that do not always run together: they need images of their own."""
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


# What a step has to compute, and what is computed once because no step changes it (the reactive cache).

COPYING = 12.0
"""The most operations of what only arranges texels anew."""


def split_static(
    program: Program, changing: Leaves, dependencies: Dependencies, options: PlanOptions, cost: DeviceModel
) -> tuple[tuple[Variable, ...], frozenset[Function]]:
    """The static values that a step reads, and the static Functions that it runs again, since their operands
    take fewer planes. changing: leaves that steps update or that may be sent between them."""
    dynamic = set(program.functions)
    if options.cache_static:
        dynamic = {f for f in dynamic if not changing.isdisjoint(dependencies.of(f.output))}
        if any(f.saves_memory for f in program.functions):
            dynamic |= _copies(program, dynamic)
    named = frozenset(program.outputs.values())
    fixed = named.union(program.roots)
    repeated: set[Function] = set()
    if options.rematerialize:
        repeated = trivial_functions(program.functions, dynamic, fixed, cost)
        dynamic |= repeated
        more = static_operands(program.functions, dynamic, _boundary(program, dynamic), fixed, cost)
        repeated |= more
        dynamic |= more
    boundary = _boundary(program, dynamic)
    # Inlined values are computed in the step instead of being kept, unless an image of them is needed.
    inlined = {f.output for f in Inlined(topological_order(boundary), options.rematerialize).functions}
    kept = tuple(v for v in boundary if v not in inlined or v in named)
    return kept, frozenset(repeated)


def _copies(program: Program, dynamic: Collection[Function]) -> set[Function]:
    """Static Functions that only arrange the texels of leaves anew, with borders or packed: a step that saves
    memory makes these images for a while rather than keeping them."""
    copies: set[Function] = set()
    for f in program.functions:
        if (
            f not in dynamic
            and f.operations <= COPYING
            and all(x.is_leaf or x.creator in copies for x in f.inputs)
        ):
            copies.add(f)
    return copies


def _boundary(program: Program, dynamic: Collection[Function]) -> tuple[Variable, ...]:
    """Static values that something dynamic reads, or that are roots."""
    boundary: dict[Variable, None] = {}
    for f in program.functions:
        if f in dynamic:
            boundary.update((x, None) for x in f.inputs if x.creator is not None and x.creator not in dynamic)
    boundary.update((v, None) for v in program.roots if v.creator is not None and v.creator not in dynamic)
    return tuple(boundary)


# Updates of leaves: those that change something, and values that are copied before a step overwrites them.

Updates = tuple[tuple[Variable, Variable], ...]


class OldValue(Variable):
    """The value of a leaf before a step overwrites it, which is copied when the step begins."""

    __slots__ = ("leaf",)
    leaf: Variable

    @classmethod
    def of(cls, leaf: Variable) -> OldValue:  # pyright: ignore[reportIncompatibleMethodOverride]
        self = cls(
            leaf.vtype, leaf.size, leaf.batch, channels=leaf.channels, name=f"old {leaf.name or leaf.id}"
        )
        self.leaf = leaf
        return self


def effective_updates(program: Program) -> Updates:
    """The updates that change their leaf: a leaf that is its own new value needs no copy."""
    return tuple((leaf, new) for leaf, new in program.updates if leaf is not new)


def copied_by_work(program: Program, leaves: Collection[Variable]) -> Program:
    """The program in which the new values of these leaves are computed copies, which can be written in place.
    A gate skips those; it cannot skip a copy at the end of a step."""
    updates = ((leaf, StopGradient(new).output if leaf in leaves else new) for leaf, new in program.updates)
    return replace(program, updates=tuple(updates))


def separate_updates(program: Program) -> Program:
    """The program in which every update has a computed value of its own, so that it can be written in place.

    A new value that is a leaf which the step overwrites becomes a computed copy of it. With the updates
    ``previous = current`` and ``current = current + 1`` a plain copy at the end of the step would read
    ``current`` after it was overwritten. The new value of several leaves gets a computed copy for each but
    the first.
    """
    moved = effective_updates(program)
    overwritten = {leaf for leaf, _ in moved}
    snapshots = {v: StopGradient(v).output for _, v in moved if v in overwritten}
    updates, taken = [], set(overwritten)
    for leaf, new in program.updates:
        if leaf is not new:
            new = snapshots.get(new, new)
            new = StopGradient(new).output if new in taken else new
            taken.add(new)
        updates.append((leaf, new))
    return program if tuple(updates) == program.updates else replace(program, updates=tuple(updates))
