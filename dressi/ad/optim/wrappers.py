"""Parts around optimizers: gradients clipped together, sums of several steps, and early stopping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import functional as F
from ..graph import Variable
from ..graph.program import Part, Procedure, Program
from ..graph.types import FLOAT, whole
from ..transform.simplify import simplify
from .lbfgs import dot
from .optimizer import STEP, VANISHED, Optimizer, State, check_parts, names, state_leaf
from .schedules import check_constant, check_number

__all__ = ["Until", "accumulate", "clip_by_norm", "until"]


class ClipByNorm(Optimizer):
    """See ``clip_by_norm``."""

    def __init__(self, limit: float | Variable):
        check_number(limit, "the limit of a norm", 0.0, above=True)
        self.limit = limit

    def init(self, parameters):
        return {}

    def update(self, gradients, state, parameters):
        norm = F.sqrt(F.maximum(dot(gradients, gradients), VANISHED))
        factor = F.minimum(self.limit / norm, 1.0)
        return [g * factor for g in gradients], {}


def clip_by_norm(limit: float | Variable) -> Optimizer:
    """A part that scales all gradients together, so that their norm is at most ``limit``.

    limit: a number above 0, or a FLOAT Variable of one texel. Raises GraphError.

    >>> x, y = Variable.of(0.0, name="x"), Variable.of(0.0, name="y")
    >>> parts = optim.chain(optim.clip_by_norm(2.5), optim.scale(-1.0))
    >>> slopes = [Variable.of(3.0), Variable.of(4.0)]
    >>> [v.round(3).item() for v in evaluate(parts.build([x, y], slopes).parameters)]
    [-1.5, -2.0]
    """
    return ClipByNorm(limit)


class Accumulate(Optimizer):
    """See ``accumulate``."""

    def __init__(self, optimizer: Optimizer, every: int):
        check_parts([optimizer])
        self.optimizer, self.every = optimizer, whole(every, "the number of steps that are added up", 1)

    def init(self, parameters):
        sums = [(p, f"{n}.accumulated") for p, n in zip(parameters, names(parameters), strict=True)]
        return {**self.optimizer.init(parameters), **{n: state_leaf(p, n) for p, n in sums}}

    def update(self, gradients, state, parameters):
        keys = [f"{n}.accumulated" for n in names(parameters)]
        sums = [state[k] + g for k, g in zip(keys, gradients, strict=True)]
        turn = state[STEP] % self.every
        due = F.equal(turn, self.every - 1)
        means = [s * (1.0 / self.every) for s in sums]
        inner = {**state, STEP: F.to_int(F.to_float(state[STEP] - turn) / self.every + 0.5)}
        directions, changed = self.optimizer.update(means, inner, parameters)
        new = {name: F.select(due, value, state[name]) for name, value in changed.items()}
        new |= {k: F.select(due, 0.0, s) for k, s in zip(keys, sums, strict=True)}
        return [F.select(due, d, 0.0) for d in directions], new


def accumulate(optimizer: Optimizer, every: int) -> Optimizer:
    """An optimizer that moves at every ``every``-th step, by the mean of the gradients since it last did.

    So does one of a batch of as many views, which takes more memory. Schedules count its moves.

    optimizer: any but L-BFGS and those of least squares. every: at least 1. Raises GraphError.

    >>> x = Variable.of(5.0, name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.square(x))
    ...     ad.set_optimizer(optim.accumulate(sgd(0.25), 2), [x])
    ...     ad.step(4)
    ...     ad.losses()
    [25.0, 25.0, 6.25, 6.25]
    """
    return Accumulate(optimizer, every)


RUNNING = "running"
NUMBERS = {RUNNING: 1.0, "stopped": 0.0, "fresh": 1.0, "best": 0.0, "waited": 0.0}


class Until(Optimizer):
    """What ``until`` returns: an optimizer that stops once the loss falls no more.

    >>> optim.until(adam(0.1), patience=5).patience
    5
    """

    outermost = True

    def __init__(self, optimizer: Optimizer, function_tolerance: float, patience: int):
        check_parts([optimizer])
        check_constant(function_tolerance, "function_tolerance of until", 0.0)
        self.optimizer, self.function_tolerance = optimizer, function_tolerance
        self.patience = whole(patience, "the number of steps without gain", 1)

    def init(self, parameters):
        return self.optimizer.init(parameters)

    def states(self, parameters):
        own = {n: Variable(FLOAT, name=n, data=np.full((1, 1, 1), value)) for n, value in NUMBERS.items()}
        return {**self.optimizer.states(parameters), **own}

    def update(self, gradients, state, parameters):
        return self.optimizer.update(gradients, state, parameters)

    def procedure(
        self, loss: Variable, state: State, updates: Sequence[tuple[Variable, Variable]]
    ) -> Procedure:
        """The updates of a step, which do nothing once the loss falls no more."""
        running, stopped, fresh, best, waited = (state[n] for n in NUMBERS)
        least = best - self.function_tolerance * F.abs(best)
        better = F.logical_or(fresh, F.less(loss, least))
        wait = F.select(better, 0.0, waited + 1.0)
        over = F.greater_equal(wait, float(self.patience))
        own = (
            (best, F.select(better, loss, best)), (waited, wait), (fresh, fresh * 0.0),
            (stopped, F.select(over, 3.0, 0.0)), (running, F.select(over, 0.0, 1.0)),
        )  # fmt: skip
        gated = [(leaf, F.select(running, new, leaf)) for leaf, new in (*updates, *own)]
        program = Program({}, tuple(gated))
        program.check()
        return Procedure((Part("step", simplify(program), 1, running),), restart=(running, fresh))


def until(optimizer: Optimizer, function_tolerance: float = 1e-4, patience: int = 20) -> Optimizer:
    """An optimizer that ends when ``patience`` steps have not lowered the loss by a part of the least so far.

    Further steps cost next to nothing until a leaf is sent; ``DressiAD.stopped`` says why it ended.

    optimizer: any but L-BFGS and those of least squares, which end by themselves. function_tolerance:
    the part, at least 0. The loss has no loops. Raises GraphError.

    >>> x = Variable.of(5.0, name="x")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.square(x) + 1.0)
    ...     ad.set_optimizer(optim.until(sgd(0.25), patience=3), [x])
    ...     ad.step(1000)
    ...     len(ad.losses()) < 20, ad.stopped()
    (True, 'the loss has not fallen by 0.0001 of itself in 3 steps')
    """
    return Until(optimizer, function_tolerance, patience)
