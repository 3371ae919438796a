"""Products of Hessians with vectors in both ways that the graph gives them, and as differences of the
gradient."""

from collections.abc import Callable, Sequence

import numpy as np

from dressi import F, Variable, gradient, hvp
from dressi.ad.graph.evaluation import Evaluator

Products = Callable[[Variable, Sequence[Variable], Sequence[Variable]], list[Variable]]


def directions(wrt: Sequence[Variable], seed: int = 0) -> list[Variable]:
    random = np.random.default_rng(seed)
    return [_like(x, random.normal(size=x.shape)) for x in wrt]


def _like(x: Variable, data: np.ndarray) -> Variable:
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, data=data)


def weighted(y: Variable, seed: int = 1) -> Variable:
    """A loss that is not linear in the image y: its gradient reaches every Function with a moving cotangent."""
    weight = _like(y, np.random.default_rng(seed).uniform(0.5, 1.5, y.shape))
    return F.sum(F.sum_components(F.hadamard(weight, y + 0.5 * F.hadamard(y, y))))


def forward(loss: Variable, wrt: Sequence[Variable], along: Sequence[Variable]) -> list[Variable]:
    """Forward over reverse: the derivative of the gradient along ``along``."""
    return hvp(loss, wrt, along)


def reverse(loss: Variable, wrt: Sequence[Variable], along: Sequence[Variable]) -> list[Variable]:
    """Reverse over reverse: the gradient of the gradient's product with ``along``."""
    product = F.constant(0.0)
    for g, t in zip(gradient(loss, wrt), along, strict=True):
        product = product + F.sum(F.sum_components(F.hadamard(g, t)))
    return gradient(product, wrt)


def differences(
    loss: Variable, wrt: Sequence[Variable], along: Sequence[Variable], step: float = 1e-6
) -> list[np.ndarray]:
    """Central differences of the gradient in float64."""
    run = Evaluator(gradient(loss, wrt))
    pairs = [*zip(wrt, along, strict=True)]
    high, low = (run({x: x.data + s * step * t.data for x, t in pairs}) for s in (1, -1))
    return [(a - b) / (2 * step) for a, b in zip(high, low, strict=True)]


def worst(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest error, relative to the largest number of its leaf; infinite for NaN."""
    errors = [np.abs(a - b).max() / max(np.abs(b).max(), 1e-9) for a, b in zip(found, expected, strict=True)]
    return float(max(errors)) if np.isfinite(errors).all() else float("inf")
