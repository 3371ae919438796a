"""The reactive cache's second half (paper, figure 3): which leaves change in every step, and the plan for that.

Leaves that are sent are static at first: a plan stores what follows from them and, when they are sent, runs just
that again. A leaf that is sent before every step is better *changing*: what follows from it is then packed together
with the step. When it rests, the step leaves out at once what follows from it alone (nothing is built for that), and
after a longer rest it becomes static again.
"""

from __future__ import annotations

from collections.abc import Container

from ...ad.graph import Variable

PROMPT = 4
"""Steps in a row that a leaf must be sent before, to count as changing."""
PATIENCE = 32
"""Steps without a send after which a changing leaf is static again; doubled each time it has changed its mind."""


class Reactive:
    """Counts sends and steps; ``changing`` are the leaves to plan as changing now.

    A leaf changes its mind ever more reluctantly, so whatever the pattern of sends is, it does so at most
    log2(steps / PATIENCE) times.
    """

    def __init__(self) -> None:
        self.changing: frozenset[Variable] = frozenset()
        self._sent: set[Variable] = set()  # since the last step
        self._streak: dict[Variable, int] = {}  # steps in a row, of leaves sent before the last one
        self._quiet: dict[Variable, int] = {}  # steps since the last send, of changing leaves
        self._patience: dict[Variable, int] = {}

    def sent(self, leaf: Variable) -> None:
        """A leaf has new values."""
        self._sent.add(leaf)

    def step(self, n: int, movable: Container[Variable]) -> frozenset[Variable]:
        """``n`` steps are about to run: returns ``changing`` for them. Only ``movable`` leaves become changing."""
        ready = {leaf for leaf in self._sent if self._streak.get(leaf, 0) >= PROMPT and leaf in movable}
        bored = {leaf for leaf, quiet in self._quiet.items() if quiet >= self._patience[leaf]} - self._sent
        for leaf in ready - self.changing:
            self._patience[leaf] = 2 * self._patience.get(leaf, PATIENCE // 2)
        if ready or bored:
            self.changing = (self.changing | ready) - bored
        self._streak = {leaf: self._streak.get(leaf, 0) + 1 for leaf in self._sent} if n == 1 else {}
        self._quiet = {
            leaf: n - 1 if leaf in self._sent else self._quiet.get(leaf, 0) + n for leaf in self.changing
        }
        self._sent.clear()
        return self.changing
