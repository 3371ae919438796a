"""How many operations computations take, as they are written and by the shortest steps that are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from ..graph import Variable
from ..graph.traversal import topological_order
from ..ops.pixel.constant import Constant
from ..ops.pixel.kinds import Pointwise
from ..transform.fused import Whole
from ..transform.simplify import paused
from .reader import ALGEBRA, ORDINARY, Reader, ordinary, readable
from .reduce import reduced
from .steps import CALL, NUMBER, PRODUCT, RECIPROCAL, SUM, Lowering, Steps
from .table import Scaled, Table


class _Tally:
    """A number that notes the operations made with it and with what they give."""

    __array_priority__ = 1.0

    def __init__(self, noted: Counter[str]):
        self.noted = noted

    def _add(self, x: Any) -> _Tally:
        if isinstance(x, _Tally) or x:
            self.noted["adds"] += 1
        return self

    def __neg__(self) -> _Tally:
        return self._add(1)

    def _multiply(self, x: Any) -> _Tally:
        self.noted["multiplies"] += 1
        return self

    def __truediv__(self, x: Any) -> _Tally:
        self.noted["divides"] += 1
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = _add
    __mul__ = __rmul__ = _multiply
    __rtruediv__ = __truediv__


def as_written(outputs: Sequence[Variable]) -> Operations:
    """The operations of all components of all Functions as they are, each Function once. Lengths and
    directions count as their sums, products and roots, other Functions as calls, one a component."""
    noted, calls = Counter[str](), Counter[str]()
    one = np.empty((), object)
    one[()] = _Tally(noted)
    stack = [f for f in topological_order(outputs) if not isinstance(f, Constant)]
    while stack:
        f = stack.pop()
        algebra = ALGEBRA.get(type(f))
        if algebra is not None:
            shape = f.output.vtype.shape if isinstance(f, Pointwise) else ()
            shapes = [x.vtype.shape or (1,) * len(shape) for x in f.inputs]
            algebra(f, *(np.broadcast_to(one, (1, 1, 1, *s)) for s in shapes))
        elif isinstance(f, Whole) or (type(f) in ORDINARY and not f.inputs[0].vtype.is_scalar):
            stack.extend(g for g in topological_order([ordinary(f)[1]]) if not isinstance(g, Constant))
        else:
            calls[type(f).__name__.lower()] += f.output.vtype.components
    return Operations(noted["adds"], noted["multiplies"], noted["divides"], dict(calls))


@paused()
def fewest(outputs: Sequence[Variable], product_cost: float = 1.0) -> Operations:
    """The fewest operations known for the components of the outputs; Functions that read other texels stay,
    and so does what they read. product_cost: as for ``F.source``."""
    order = [f for f in topological_order(outputs) if not isinstance(f, Constant)]
    reader, apart = Reader(Table()), [f for f in order if not readable(f)]
    values = reader.read([*outputs, *(x for f in apart for x in f.inputs)])
    operations = count(shortest(reader.table, [x for y in values for x in y], product_cost))
    calls = Counter(operations.calls)
    for f in apart:
        calls[type(f).__name__.lower()] += f.output.vtype.components
    return replace(operations, calls=dict(calls))


# How many operations steps take.


@dataclass(frozen=True)
class Operations:
    """adds: sums, differences and changes of sign. calls: Functions by name."""

    adds: int
    multiplies: int
    divides: int
    calls: dict[str, int]

    @property
    def total(self) -> int:
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


# The shortest steps that were found for expressions.

WAYS: tuple[tuple[float, int | None], ...] = ((inf, None), (20_000, 2), (5_000, 3))
"""(entries up to which it is tried, ``around`` of ``reduced``)."""


def shortest(table: Table, roots: Sequence[Scaled], product_cost: float = 1.0) -> Steps:
    """The cheapest steps for the roots, with or without products written out. product_cost: in sums."""
    order = table.order([r.entry for r in roots])
    ways = [
        reduced(Lowering(table).lower(roots, order), around=around, product_cost=product_cost)
        for most, around in WAYS
        if len(order) <= most
    ]
    return fewest_of(ways, product_cost)


def fewest_of(ways: Sequence[Steps], product_cost: float = 1.0) -> Steps:
    if len(ways) == 1:
        return ways[0]
    return min(ways, key=lambda steps: count(steps).cost(product_cost))
