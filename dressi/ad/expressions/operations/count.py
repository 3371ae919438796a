"""How many operations steps take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from .steps import Added, Called, Multiplied, Reciprocal, Steps


@dataclass(frozen=True)
class Operations:
    """adds: sums, differences and changes of sign. multiplies: products. divides: quotients. calls: Functions by name."""

    adds: int
    multiplies: int
    divides: int
    calls: dict[str, int]

    @property
    def total(self) -> int:
        """Everything, each as one."""
        return self.adds + self.multiplies + self.divides + sum(self.calls.values())

    def cost(self, product_cost: float = 1.0) -> float:
        """Everything, in sums. product_cost: that of a product."""
        return self.total + (product_cost - 1.0) * self.multiplies


def count(steps: Steps) -> Operations:
    """The operations of the steps, sums and products taken two by two."""
    adds = multiplies = divides = 0
    calls = Counter[str]()
    order = steps.order()
    uses = steps.uses(order)
    for n in order:
        match steps.values[n]:
            case Added(terms):
                adds += len(terms) - 1 + all(s < 0 for s, _ in terms)
            case Multiplied(factors):
                multiplies += len(factors) - 1
                # a / b is one operation.
                multiplies -= any(isinstance(steps.values[m], Reciprocal) and uses[m] == 1 for m in factors)
            case Reciprocal():
                divides += 1
            case Called(function, arguments):
                calls[_name(function)] += 1
                adds += sum(s < 0 for s, _ in arguments)
    adds += len({n for s, n in steps.roots if s < 0 and not steps.is_number(n)})
    return Operations(adds, multiplies, divides, dict(calls))


def _name(function: Any) -> str:
    return function[0].__name__.lower()
