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
MOST = 128
"""States up to which the best schedule is looked for; with more of them free it goes on as if there were so many."""


@dataclass(frozen=True)
class Schedule:
    """How the gradient walks back over ``count`` iterations. kept: states that may be kept at a time, the one among them that the
    walk starts from; None: as many as there are. beside: what an iteration leaves for its gradient, in states; 0: nothing."""

    count: int
    kept: int | None
    beside: int

    @property
    def room(self) -> int:
        """States that may be kept: at least two, and no more than the walk could use."""
        everything = self._everything(self.count)
        return everything if self.kept is None else max(min(self.kept, everything), 2)

    @property
    def stores(self) -> bool:
        """Whether no iteration runs again."""
        return self.room == self._everything(self.count)

    def ahead(self, count: int, free: int) -> int:
        """Of the last ``count`` iterations of a part, at least 2, from a kept state: how many run before the next state is kept; 0:
        one, and what it leaves is kept as well. free: states that may be kept, with the first one."""
        if free >= self._everything(count):
            return 0
        return int(_best(self.count, self.beside, min(free, MOST))[count])

    def _everything(self, count: int) -> int:
        """States with which none of so many iterations runs again."""
        return 1 + (count - 1) * (1 + self.beside)


@cache
def _rows(count: int, beside: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each number of states, from 0 on, what ``_best`` has found so far: of 0 to ``count`` iterations the fewest that run, and
    ``ahead``. With one state two iterations have no gradient: what the second starts from must be kept while it runs."""
    none, one, ahead = np.full(count + 1, NEVER), np.full(count + 1, NEVER), np.zeros(count + 1, int)
    one[:2] = 0, min(beside, 1)
    return [(none, ahead), (one, ahead)]


def _best(count: int, beside: int, free: int) -> np.ndarray:
    """``Schedule.ahead`` with so many states, for 0 to ``count`` iterations."""
    rows = _rows(count, beside)
    while len(rows) <= free:
        behind, stored = rows[-1][0], rows[max(len(rows) - 1 - beside, 0)][0]
        runs, ahead = behind.copy(), np.zeros(count + 1, int)
        for n in range(2, count + 1):
            found = np.arange(1, n) + behind[n - 1 : 0 : -1] + runs[1:n]
            k = int(found.argmin())
            runs[n], ahead[n] = found[k], k + 1
            if 1 + stored[n - 1] <= runs[n]:
                runs[n], ahead[n] = 1 + stored[n - 1], 0
        rows.append((runs, ahead))
    return rows[free][1]
