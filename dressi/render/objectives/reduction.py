"""How the terms of a loss become one number."""

from __future__ import annotations

from collections.abc import Callable

from ...ad import functional as F
from ...ad.graph import Variable
from ...errors import InputError


def _mean(total: Variable, count: int | Variable) -> Variable:
    return total / count if isinstance(count, Variable) else total * (1.0 / count)


REDUCTIONS: dict[str, Callable[[Variable, int | Variable], Variable]] = {
    "sum": lambda total, count: total,
    "mean": _mean,
}
"""By name: from the sum of all terms and their number (or total weight) to the loss."""


def reduced(values: Variable, count: int | Variable, reduction: str) -> Variable:
    """FLOAT 1x1: the sum of all texels and tiles of ``values`` (FLOAT), for "mean" over ``count``. Raises InputError."""
    if reduction not in REDUCTIONS:
        raise InputError(f"reduction is 'sum' or 'mean', not {reduction!r}")
    return REDUCTIONS[reduction](F.sum(values), count)
