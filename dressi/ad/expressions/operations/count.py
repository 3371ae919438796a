"""How many operations steps take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

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
    order = steps.order()
    readers, terms = steps.reads(order)
    kind, read, uses = steps.kind_of(readers), np.abs(terms), steps.uses_of(terms)
    divided = (kind == PRODUCT) & (steps.kind_of(read) == RECIPROCAL) & (uses[read] == 1)
    adds = np.count_nonzero(kind == SUM) - _different(readers[(kind == SUM) & (terms > 0)])
    adds += np.count_nonzero((kind == CALL) & (terms < 0))
    adds += len({r for r in steps.roots if r < 0 and steps.kinds[-r] != NUMBER})
    multiplies = np.count_nonzero(kind == PRODUCT) - _different(readers[kind == PRODUCT])
    multiplies -= _different(readers[divided])  # a / b is one operation
    calls = Counter([steps.of[n][0].__name__.lower() for n in order if steps.kinds[n] == CALL])
    divides = np.count_nonzero(kind == RECIPROCAL)
    return Operations(int(adds), int(multiplies), int(divides), dict(calls))


def _different(numbers: np.ndarray) -> int:
    return int(np.count_nonzero(np.bincount(numbers)))
