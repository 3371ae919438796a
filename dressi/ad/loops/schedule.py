"""Which states of a loop its gradient keeps, and when it runs iterations again: the schedule with the fewest of them.

With few states kept at a time the gradient runs from one of them up to the middle of what is left, keeps that state too, and goes back
over what comes after it first (Griewank and Walther, "Revolve", ACM TOMS 26, 2000). Here an iteration may leave values that its
gradient reads beside the state that it started from; where there is room these are kept as well, and nothing runs again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

NEVER = 1 << 40


@dataclass(frozen=True)
class Schedule:
    """How the gradient walks back over iterations. kept: states that may be kept at a time, the one among them that the walk
    starts from; None: as many as there are. beside: what an iteration leaves for its gradient, in states; 0: nothing."""

    kept: int | None
    beside: int

    def ahead(self, count: int, free: int) -> int:
        """Of ``count`` iterations, at least 2, from a kept state: how many run before the next state is kept; 0: one, and what
        it leaves is kept as well. free: states that may be kept, with the first one."""
        if free >= 1 + (count - 1) * (1 + self.beside):
            return 0
        return int(_best(count, self.beside, free)[1][count])

    def room(self, count: int) -> int:
        """States that may be kept of a walk over ``count`` iterations: at least two, and no more than it could use."""
        everything = 1 + (count - 1) * (1 + self.beside)
        return everything if self.kept is None else max(min(self.kept, everything), 2)


@cache
def _best(count: int, beside: int, free: int) -> tuple[np.ndarray, np.ndarray]:
    """For 0 to ``count`` iterations: the fewest that run with so many states, and ``ahead``.

    With one state two iterations have no gradient: what the second starts from must be kept while it runs.
    """
    runs, ahead = np.full(count + 1, NEVER), np.zeros(count + 1, int)
    runs[:2] = 0, min(beside, 1)
    if free < 2:
        return runs, ahead
    behind = _best(count, beside, free - 1)[0]
    stored = _best(count, beside, free - 1 - beside)[0] if free >= 2 + beside else np.full(count + 1, NEVER)
    for n in range(2, count + 1):
        first = np.arange(1, n)
        found = first + behind[n - 1 : 0 : -1] + runs[1:n]
        k = int(found.argmin())
        runs[n], ahead[n] = found[k], k + 1
        if 1 + stored[n - 1] <= runs[n]:
            runs[n], ahead[n] = 1 + stored[n - 1], 0
    return runs, ahead
