"""A Program: what one step computes, and the values that the next step starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import GraphError
from ..figures import Figures
from .graph import DrawFunction, Function, Variable
from .includes import is_own
from .ops.custom import check_snippet
from .traversal import topological_order


@dataclass(frozen=True, eq=False)
class Program(Figures):
    """Named outputs, and updates: pairs (leaf, new value).

    A run computes outputs and new values from the leaves as they are. Then every updated leaf takes its new value, all at
    once.
    """

    outputs: Mapping[str, Variable] = field(default_factory=dict)
    updates: tuple[tuple[Variable, Variable], ...] = ()

    @cached_property
    def roots(self) -> tuple[Variable, ...]:
        """Everything that is computed: outputs, then new values, without repetitions."""
        return tuple(dict.fromkeys((*self.outputs.values(), *(new for _, new in self.updates))))

    @cached_property
    def leaves(self) -> tuple[Variable, ...]:
        """Leaves that are read or updated, in the order in which they were made."""
        found = {*self.roots, *(x for f in self.functions for x in f.inputs)}
        found = {v for v in found if v.is_leaf} | {leaf for leaf, _ in self.updates}
        return tuple(sorted(found, key=lambda v: v.id))

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """All Functions, producers first."""
        return tuple(topological_order(self.roots))

    def check(self) -> None:
        """Raises GraphError if an update does not fit its leaf, a leaf is updated twice, or a user's snippet names what
        there is not."""
        for f in self.functions:
            for g in (f, *(f.fragment.functions if isinstance(f, DrawFunction) and f.fragment else ())):
                if not is_own(type(g)):
                    check_snippet(g)
        seen: set[Variable] = set()
        for leaf, new in self.updates:
            if not leaf.is_leaf:
                raise GraphError(f"{leaf} is computed and cannot be updated; only leaves can")
            if leaf in seen:
                raise GraphError(f"{leaf} is updated twice in one program; combine the two new values")
            seen.add(leaf)
            if (leaf.vtype, leaf.domain) != (new.vtype, new.domain):
                raise GraphError(f"the new value {new} of {leaf} must have its type, size and batch")
