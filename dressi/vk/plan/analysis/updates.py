"""Updates of leaves: those that change something, and values that are copied before a step overwrites them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ....ad.graph import Variable
from ....ad.ops.pixel.math import StopGradient
from ....ad.program import Program

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
    """The program in which the new values of these leaves are computed copies, which can be written in place. A gate skips those;
    it cannot skip a copy at the end of a step."""
    updates = ((leaf, StopGradient(new).output if leaf in leaves else new) for leaf, new in program.updates)
    return replace(program, updates=tuple(updates))


def separate_updates(program: Program) -> Program:
    """The program in which every update has a computed value of its own, so that it can be written in place.

    A new value that is a leaf which the step overwrites becomes a computed copy of it. With the updates ``previous =
    current`` and ``current = current + 1`` a plain copy at the end of the step would read ``current`` after it was
    overwritten. The new value of several leaves gets a computed copy for each but the first.
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
