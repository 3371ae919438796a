"""Checks that gradients and forward derivatives agree with central differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError
from .graph import Variable
from .graph.evaluation import Evaluator, evaluate, leaf_value
from .transform.gradient import gradient, jvp


def check_gradient(
    y: Variable | Callable[..., Variable],
    wrt: Sequence[Variable],
    values: Mapping[Variable, Any] | None = None,
    *,
    step: float = 1e-6,
    directions: int = 4,
    seed: int = 0,
) -> float:
    """The largest relative error of gradient and jvp against central differences in float64.

    y: a float image computed from the leaves ``wrt``, or a callable that computes it from them. The loss is
    sum(w * y) with random w. Leaves of up to 16 numbers are checked number by number, larger ones along
    ``directions`` random directions; jvp along one random direction of all leaves. Errors are relative to the
    largest derivative by the leaf: 1e-6 is excellent, 1e-3 is wrong. Choose values away from kinks.
    """
    y = y if isinstance(y, Variable) else y(*wrt)
    if y.vtype.is_int:
        raise GraphError(f"{y} holds integers and has no derivative")
    random = np.random.default_rng(seed)
    base = {x: np.array(leaf_value(x, (values or {}).get(x)), np.float64) for x in wrt}
    weight = Variable(
        y.vtype, y.size, y.batch, channels=y.channels, name="weight", data=random.normal(size=y.shape)
    )
    tangents = [
        Variable(x.vtype, x.size, x.batch, channels=x.channels, data=random.normal(size=x.shape)) for x in wrt
    ]
    gradients = evaluate(gradient(y, wrt, seed=weight), {**(values or {}), **base})
    forward = jvp([y], wrt, tangents)
    assert weight.data is not None
    run = Evaluator([y])

    def difference(moves: Mapping[Variable, np.ndarray]) -> np.ndarray:
        plus, minus = (
            run({**(values or {}), **base, **{x: base[x] + s * step * d for x, d in moves.items()}})[0]
            for s in (1, -1)
        )
        return (plus - minus) / (2 * step)

    worst = 0.0
    for x, g in zip(wrt, gradients, strict=True):
        if base[x].size <= 16:
            moved = np.eye(base[x].size).reshape(-1, *base[x].shape)
        else:
            moved = random.normal(size=(directions, *base[x].shape))
        pairs = [((g * d).sum(), (weight.data * difference({x: d})).sum()) for d in moved]
        worst = max(worst, _error(*np.array(pairs).T))
    moves = {x: t.data for x, t in zip(wrt, tangents, strict=True) if t.data is not None}
    along = evaluate(forward, {**(values or {}), **base})[0]
    return max(worst, _error(along, difference(moves)))


def _error(value: np.ndarray, expected: np.ndarray) -> float:
    """Relative to the largest number of both; infinite where either holds NaN."""
    error = np.abs(value - expected).max()
    largest = max(np.abs(expected).max(), np.abs(value).max(), 1e-6)
    return float(error / largest) if error == error else float("inf")
