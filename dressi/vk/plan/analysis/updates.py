"""Updates of leaves: those that change something, and values that are copied before a step overwrites them."""

from __future__ import annotations

from ....ad.graph import Variable
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
