"""How many operations steps take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .steps import CALL, NUMBER, PRODUCT, RECIPROCAL, SUM, Steps


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
    kinds, order = steps.kinds, steps.order()
    uses = steps.uses(order)
    divisors = {n for n in order if kinds[n] == RECIPROCAL and uses[n] == 1}
    for n in order:
        kind, terms = kinds[n], steps.terms[n]
        if kind == SUM:
            adds += len(terms) - 1 + (max(terms) < 0)
        elif kind == PRODUCT:
            multiplies += len(terms) - 1 - (not divisors.isdisjoint(terms))  # a / b is one operation
        elif kind == RECIPROCAL:
            divides += 1
        elif kind == CALL:
            calls[steps.of[n][0].__name__.lower()] += 1
            adds += sum(m < 0 for m in terms)
    adds += len({r for r in steps.roots if r < 0 and kinds[-r] != NUMBER})
    return Operations(adds, multiplies, divides, dict(calls))
