"""Updates of leaves: which are copies, and what is copied before the step overwrites it."""

from __future__ import annotations

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
        self = cls(leaf.vtype, leaf.size, leaf.batch, name=f"old {leaf.name or leaf.id}")
        self.leaf = leaf
        return self


def effective_updates(program: Program) -> Updates:
    """The updates that change their leaf: a leaf that is its own new value needs no copy."""
    return tuple((leaf, new) for leaf, new in program.updates if leaf is not new)


def snapshot_leaves(program: Program) -> Program:
    """The program in which every new value that is a leaf the step overwrites is a computed copy of it.

    With the updates ``previous = current`` and ``current = current + 1`` a plain copy at the end of the step would
    read ``current`` after it was overwritten. The computed copy has an image of its own, and packing orders it.
    """
    overwritten = {leaf for leaf, _ in effective_updates(program)}
    copied = {new: None for leaf, new in effective_updates(program) if new in overwritten}
    if not copied:
        return program
    snapshot = {leaf: StopGradient(leaf).output for leaf in copied}
    updates = tuple((leaf, new if leaf is new else snapshot.get(new, new)) for leaf, new in program.updates)
    return replace(program, updates=updates)
