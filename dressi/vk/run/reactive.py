"""Which leaves are sent before every step (second half of the reactive cache; paper, figure 3).

At first every leaf counts as static: a plan stores the values that depend on it alone and computes them again only
when it is sent. If a leaf is sent before every step, it is better planned as *changing*: those values are then packed
together with the step. When the sends stop, the same plan skips them at once; after more steps without a send the
leaf becomes static again.
"""

from __future__ import annotations

from collections.abc import Container

from ...ad.graph import Variable

PROMPT = 4
"""Consecutive steps, each after a send, from which on a leaf is changing."""
PATIENCE = 32
"""Steps without a send after which a changing leaf becomes static; doubles with every such change of the leaf."""


class Reactive:
    """Counts sends and steps. ``changing``: the leaves to plan as changing now.

    The patience with a leaf doubles, so it changes at most log2(steps / PATIENCE) times, whatever the pattern of
    sends.
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
        """``n`` steps follow: returns ``changing`` for them. Only ``movable`` leaves become changing."""
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
