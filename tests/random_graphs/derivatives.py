"""Random densely shared computations of one texel, with their Jacobian, Hessian and third derivative by ``F``."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dressi import FLOAT, Variable, gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program

from .coverage import F

KINDS = (
    lambda x, y: x + y,
    lambda x, y: x - 0.5 * y,
    lambda x, y: 0.7 * x * y,
    lambda x, y: F.sin(x),
    lambda x, y: x / (1.5 + F.square(y)),
    lambda x, y: F.maximum(x, y),
    lambda x, y: -F.cos(y) * x,
)


def random_outputs(seed: int, count: int = 40) -> tuple[list[Variable], dict[Variable, np.ndarray]]:
    """Sums, products and Functions of what came before, densely shared, and values of the leaves."""
    random = np.random.default_rng(seed)
    leaves = [Variable(FLOAT, (4, 2), name=f"x{k}") for k in range(3)]
    values = list(leaves)
    for _ in range(count):
        x, y = (values[-1 - int(k)] for k in random.integers(0, min(8, len(values)), 2))
        values.append(KINDS[int(random.integers(len(KINDS)))](x, y))
    return values[-4:], {v: random.uniform(-1.0, 1.0, v.shape) for v in leaves}


@lru_cache(maxsize=1)
def _derivatives(seed: int, count: int | None) -> list[tuple[str, Variable, Variable]]:
    """(name, derivative by expressions, the same by the graph). The leaves have values of single precision."""
    outputs, values = random_outputs(seed, count or int(np.random.default_rng(seed).integers(5, 17)))
    for v, data in values.items():
        v.data = data.astype(np.float32)
    leaves, one, found = list(values), F.constant(1.0), list[tuple[str, Variable, Variable]]()
    for k, (y, row) in enumerate(zip(outputs, F.jacobian(outputs, leaves, limit=None), strict=True)):
        for j, pair in enumerate(zip(row, gradient(y, leaves, one), strict=True)):
            found.append((f"jacobian {k} {j}", *pair))
    y, x = outputs[-1], leaves[0]
    first = gradient(y, leaves, one)
    for k, (g, row) in enumerate(zip(first, F.hessian(y, leaves, limit=None), strict=True)):
        for j, pair in enumerate(zip(row, gradient(g, leaves, one), strict=True)):
            found.append((f"hessian {k} {j}", *pair))
    third = first[0]
    for _ in range(2):
        (third,) = gradient(third, [x], one)
    found.append(("third", F.derivative(y, x, order=3, limit=None), third))
    return found


def random_derivatives(seed: int, count: int | None = None) -> tuple[Program, int]:
    """A program of all derivatives, one step. Equal arguments give equal programs."""
    outputs = {name: v for name, v, _ in _derivatives(seed, count) if not v.is_leaf}
    return Program(outputs, ()), 1


def disagreements(seed: int, count: int | None = None) -> list[str]:
    """Sentences, where derivatives by expressions are not those by the graph in float64."""
    names, found, expected = zip(*_derivatives(seed, count), strict=True)
    values = evaluate([*found, *expected])
    failures = []
    for name, a, b in zip(names, values[: len(names)], values[len(names) :], strict=True):
        off, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
        if not off <= 1e-10 * max(scale, 1.0):
            failures.append(f"{name} is off the gradient of the graph by {off:.3g} of {scale:.3g}")
    return failures
