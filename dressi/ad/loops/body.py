"""The body of a loop and how often it is applied, its meaning in NumPy, and the gradient of one iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np

from ..evaluate import Evaluator
from ..graph import Variable
from ..transform.gradient import vjp
from ..traversal import structure
from .segment import Segment


@dataclass(frozen=True, eq=False)
class Loop:
    """A body between formal states and their next values, applied ``count`` times. Equal where the bodies have equal structure.

    body: its formals are the state, then what the body reads beside it, so that it captures nothing. checkpoints: states that
    are kept at a time for the gradient, from which others are computed again; None: everything is kept. ends: whether the last state
    tells where the loop has ended: where it is not 0 all states stay as they are.
    """

    body: Segment
    count: int
    checkpoints: int | None = None
    ends: bool = False

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return structure(self.body.roots, self.body.formals), self.count, self.checkpoints, self.ends

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Loop) and self.key == other.key)

    def __repr__(self) -> str:
        return f"{self.count} x {len(self.body.functions)} functions"

    @property
    def width(self) -> int:
        """How many states there are."""
        return len(self.body.roots)

    @cached_property
    def floats(self) -> tuple[int, ...]:
        """The numbers of the states that have gradients."""
        return tuple(k for k, x in enumerate(self.body.roots) if not x.vtype.is_int)

    @property
    def kept(self) -> int | None:
        """How many states are kept at a time for the gradient; None: all."""
        return round(2 * sqrt(self.count)) if self.checkpoints == 0 else self.checkpoints

    def at(self, inputs: Sequence[Variable], state: Sequence[Variable]) -> list[Variable]:
        """The next state. inputs: those of the nodes, the first state among them."""
        return self.body.at([*state, *inputs[self.width : len(self.body.formals)]])

    def reverse(self, wanted: tuple[int, ...]) -> Segment:
        """Gradients of one iteration. Formals: those of the body, then the gradients of the next float states. Roots: the gradients
        of the float states, then of the formals that are ``wanted``. Written once for each ``wanted``."""
        if wanted not in self._reverses:
            formals, roots = self.body.formals, self.body.roots
            seeds = [formal(roots[k]) for k in self.floats]
            wrt = [*(formals[k] for k in self.floats), *(formals[k] for k in wanted)]
            found = vjp([roots[k] for k in self.floats], wrt, seeds)
            self._reverses[wanted] = Segment.between([*formals, *seeds], found)
        return self._reverses[wanted]

    @cached_property
    def _reverses(self) -> dict[tuple[int, ...], Segment]:
        return {}

    @cached_property
    def _evaluators(self) -> dict[tuple[int, ...] | None, Evaluator]:
        return {}

    def _evaluator(self, wanted: tuple[int, ...] | None) -> tuple[Sequence[Variable], Evaluator]:
        segment = self.body if wanted is None else self.reverse(wanted)
        if wanted not in self._evaluators:
            self._evaluators[wanted] = Evaluator(segment.roots)
        return segment.formals, self._evaluators[wanted]

    # ---- the meaning, in NumPy
    def states(self, inputs: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
        """The first state, and the one after each iteration."""
        formals, run = self._evaluator(None)
        inputs = [a.reshape(x.shape) for a, x in zip(inputs, formals)]
        found = [list(inputs[: self.width])]
        for _ in range(self.count):
            values = zip(formals, [*found[-1], *inputs[self.width :]], strict=True)
            found.append(run(dict(values)))
        return found

    def gradients(
        self, inputs: Sequence[np.ndarray], wanted: tuple[int, ...], seeds: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """The gradients of the first float states, then of the inputs numbered in ``wanted``."""
        formals, run = self._evaluator(wanted)
        of = self.body.formals
        given = [a.reshape(x.shape) for a, x in zip(inputs, of)]
        moving = [a.reshape(of[k].shape) for a, k in zip(seeds, self.floats, strict=True)]
        sums = [np.zeros(of[k].shape) for k in wanted]
        for state in reversed(self.states(inputs)[:-1]):
            found = run(dict(zip(formals, [*state, *given[self.width :], *moving], strict=True)))
            moving, parts = found[: len(moving)], found[len(moving) :]
            sums = [a + b for a, b in zip(sums, parts, strict=True)]
        return [*moving, *sums]


def formal(x: Variable) -> Variable:
    """A leaf that stands for a value."""
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, count=x.count)
