"""Checks: that a graph is well-formed, and that a derivative is the derivative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError
from .evaluate import Evaluator, evaluate, leaf_value
from .graph import Function, ScatterFunction, Variable
from .program import Program
from .transform.gradient import gradient, jvp
from .traversal import topological_order
from .types import Access


def verify(program: Program | Iterable[Variable]) -> None:
    """Raises GraphError unless every Function is what its rules say: inputs, access, type and domain."""
    if isinstance(program, Program):
        program.check()
        functions: Sequence[Function] = program.functions
    else:
        functions = topological_order(program)
    for function in functions:
        _verify(function)
        fragment = getattr(function, "fragment", None)
        for inner in fragment.functions if fragment is not None else ():
            _verify(inner)


def _verify(function: Function) -> None:
    y = function.output
    if y.creator is not function:
        raise function.fail("its output does not know it as its creator")
    if len(function.access) != len(function.inputs):
        raise function.fail(f"declares access for {len(function.access)} of {len(function.inputs)} inputs")
    vtype, domain = function.infer()
    if (vtype, tuple(domain)) != (y.vtype, tuple(y.domain)):
        raise function.fail(f"gives {vtype} {domain}, but its output is {y}")
    reached = function.source if isinstance(function, ScatterFunction) else y.domain
    for x, access in zip(function.inputs, function.access, strict=True):
        if access is Access.SAME_PIXEL:
            for have, want in zip((*x.size, x.batch), (*reached.size, reached.batch), strict=True):
                if have not in (1, want):
                    raise function.fail(
                        f"{x} is read at the same pixel of {reached}; sizes must be equal or 1"
                    )


def check_gradient(
    y: Variable | Callable[..., Variable],
    wrt: Sequence[Variable],
    values: Mapping[Variable, Any] | None = None,
    *,
    step: float = 1e-6,
    directions: int = 4,
    seed: int = 0,
) -> float:
    """Largest relative error of gradient and jvp against central differences in float64.

    y: any float image over the leaves ``wrt`` (or a callable that makes it of them); the loss is sum(w * y) with
    random w.  Each leaf of up to 16 numbers is checked number by number, larger ones along ``directions`` random
    directions; jvp along directions of all leaves together.  The error is taken relative to the largest
    derivative of its leaf, so 1e-6 is excellent and 1e-3 is wrong. Choose values away from kinks.
    """
    y = y if isinstance(y, Variable) else y(*wrt)
    if y.vtype.is_int:
        raise GraphError(f"{y} holds integers and has no derivative")
    random = np.random.default_rng(seed)
    base = {x: np.array(leaf_value(x, (values or {}).get(x)), np.float64) for x in wrt}
    weight = Variable(y.vtype, y.size, y.batch, name="weight", data=random.normal(size=y.shape))
    tangents = [Variable(x.vtype, x.size, x.batch, data=random.normal(size=x.shape)) for x in wrt]
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
        pairs = []
        for d in _directions(base[x].shape, directions, random):
            pairs.append((float((g * d).sum()), float((weight.data * difference({x: d})).sum())))
        worst = max(worst, _error(*np.array(pairs).T))
    moves = {x: t.data for x, t in zip(wrt, tangents, strict=True) if t.data is not None}
    along = evaluate(forward, {**(values or {}), **base})[0]
    return max(worst, _error(along, difference(moves)))


def _directions(shape: tuple[int, ...], count: int, random: np.random.Generator) -> Iterable[np.ndarray]:
    size = int(np.prod(shape))
    if size <= 16:
        return np.eye(size).reshape(size, *shape)
    return random.normal(size=(count, *shape))


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    error = np.abs(found - expected).max()
    return (
        float(error / max(np.abs(expected).max(), np.abs(found).max(), 1e-6))
        if error == error
        else float("inf")
    )
