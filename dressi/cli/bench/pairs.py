"""How much one way is slower than another: what the rounds say in which both ran, one shortly after the other.

What disturbs a machine for longer than a round, other programs for example, falls on both alike and is not in the
difference of their times; what disturbs one batch is an outlier, which does not move the median of the differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Times = Sequence[float] | np.ndarray
CONFIDENCE = 0.95


def difference(times: Times, reference: Times) -> dict[str, Any]:
    """The median of ``times - reference``, round by round, with the interval of a sign test: ``ms``, ``interval``
    (None of fewer than six rounds), ``confidence``, ``rounds``.

    The interval assumes nothing about the distribution: of n differences that fall on either side of their true median
    by the toss of a coin, the k smallest and the k largest lie outside of it.
    """
    differences = np.sort(np.subtract(times, reference))
    k = _left_out(len(differences))
    interval = [float(differences[k - 1]), float(differences[-k])] if k else None
    return {
        "ms": float(np.median(differences)),
        "interval": interval,
        "confidence": CONFIDENCE,
        "rounds": len(differences),
    }


def _left_out(n: int) -> int:
    """The largest k such that fewer than k of n coins show heads, or fewer than k tails, with 1 - CONFIDENCE at most."""
    below, k = 1.0, 0
    while 2 * below <= (1 - CONFIDENCE) * 2.0**n:
        k += 1
        below += math.comb(n, k)
    return k
