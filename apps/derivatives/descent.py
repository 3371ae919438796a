"""Adam in NumPy, for programs that compare it with second-order methods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Trace = list[tuple[float, np.ndarray]]
"""(cost, parameters) at each iteration."""


def adam(
    cost: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    iterations: int,
    rate: float,
    bounded: Callable[[np.ndarray], np.ndarray] = lambda c: c,
) -> Trace:
    """Adam with its usual moments. cost: value and gradient. bounded: the nearest parameters that may be."""
    c, first, second = start, np.zeros_like(start), np.zeros_like(start)
    trace: Trace = []
    for k in range(1, iterations + 1):
        value, g = cost(c)
        trace.append((value, c))
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        c = bounded(c - rate * (first / (1 - 0.9**k)) / (np.sqrt(second / (1 - 0.999**k)) + 1e-12))
    return trace
