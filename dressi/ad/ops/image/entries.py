"""What is no entry in the last row of a list."""

from __future__ import annotations

import numpy as np

from ...coordinates import LinearIndex
from ...graph import Domain, Variable
from ..pixel.compare import less, select
from .texels import is_padded


def entries_only(x: Variable, outside: float = 0, of: Variable | None = None) -> Variable:
    """The list x with ``outside`` behind its last entry; x itself if there is no such texel. The gradient is that of x at
    the entries, 0 behind them. of: the list whose entries these are, if it is not x."""
    rows = x if of is None else of
    if not is_padded(rows):
        return x
    assert rows.count is not None
    inside = less(LinearIndex(Domain(rows.size, 1)).output, rows.count)
    return select(inside, x, int(outside) if x.vtype.is_int else float(outside))


def extreme_numbers(x: Variable) -> tuple[float, float]:
    """The smallest and the largest number of the type of x."""
    numbers = np.iinfo(np.int32) if x.vtype.is_int else np.finfo(np.float32)
    return float(numbers.min), float(numbers.max)
