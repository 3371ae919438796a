"""How many operations computations take, as they are written and at the fewest that are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Variable
from ..ops.pixel.constant import Constant
from ..ops.pixel.kinds import Pointwise
from ..transform.fused import Whole
from ..transform.garbage_collection import paused
from ..traversal import topological_order
from .operations.count import Operations, count
from .operations.shortest import shortest
from .terms.reader import ALGEBRA, ORDINARY, Reader, ordinary, readable
from .terms.table import Table


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
    """The operations of all components of all Functions as they are; a Function is counted once however often it is read.
    Lengths and directions count as the sums, products and roots that they are, other Functions as calls, one a component."""
    noted, calls = Counter[str](), Counter[str]()
    stack = [f for f in topological_order(outputs) if not isinstance(f, Constant)]
    while stack:
        f = stack.pop()
        algebra = ALGEBRA.get(type(f))
        if algebra is not None:
            shape = f.output.vtype.shape if isinstance(f, Pointwise) else ()
            algebra(
                f,
                *(
                    _tallies(noted, (1,) * len(shape) if shape and x.vtype.is_scalar else x.vtype.shape)
                    for x in f.inputs
                ),
            )
        elif isinstance(f, Whole) or (type(f) in ORDINARY and not f.inputs[0].vtype.is_scalar):
            stack.extend(g for g in topological_order([ordinary(f)[1]]) if not isinstance(g, Constant))
        else:
            calls[type(f).__name__.lower()] += f.output.vtype.components
    return Operations(noted["adds"], noted["multiplies"], noted["divides"], dict(calls))


@paused()
def fewest(outputs: Sequence[Variable], product_cost: float = 1.0) -> Operations:
    """The operations of the components of the outputs at the fewest that are found; Functions that read other texels stay, and
    so does what they read. product_cost: as for ``F.source``."""
    order = [f for f in topological_order(outputs) if not isinstance(f, Constant)]
    reader, apart = Reader(Table()), [f for f in order if not readable(f)]
    values = reader.read([*outputs, *(x for f in apart for x in f.inputs)])
    found = count(shortest(reader.table, [x for y in values for x in y], product_cost))
    calls = Counter(found.calls)
    for f in apart:
        calls[type(f).__name__.lower()] += f.output.vtype.components
    return replace(found, calls=dict(calls))


def _tallies(noted: Counter[str], shape: tuple[int, ...]) -> np.ndarray:
    one = np.empty((), object)
    one[()] = _Tally(noted)
    return np.broadcast_to(one, (1, 1, 1, *shape))
