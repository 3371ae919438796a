"""Derivatives of a small graph by its own inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Variable
from ..traversal import rebuilt, topological_order
from .gradient import gradient, jvp

Build = Callable[..., Variable]
"""Builds a Variable from Variables with ordinary Functions."""


def local_gradient(build: Build, inputs: Sequence[Variable], i: int, seed: Variable) -> Variable:
    """The gradient of sum(seed * build(*inputs)) by input ``i``, as if the inputs were leaves."""
    *x, s = placeholders = [_placeholder(v) for v in (*inputs, seed)]
    (found,) = gradient(build(*x), [x[i]], s)
    return _filled(found, dict(zip(placeholders, (*inputs, seed), strict=True)))


def local_jvp(
    build: Build, inputs: Sequence[Variable], tangents: Sequence[Variable | None]
) -> Variable | None:
    """The derivative of build(*inputs) along the tangents, as if the inputs were leaves; None if all tangents are None."""
    moved = [(i, t) for i, t in enumerate(tangents) if t is not None]
    if not moved:
        return None
    x, along = [_placeholder(v) for v in inputs], [_placeholder(t) for _, t in moved]
    (found,) = jvp([build(*x)], [x[i] for i, _ in moved], along)
    values = (*zip(x, inputs, strict=True), *zip(along, (t for _, t in moved), strict=True))
    return _filled(found, dict(values))


def _placeholder(like: Variable) -> Variable:
    return Variable(like.vtype, like.size, like.batch, channels=like.channels)


def _filled(y: Variable, values: dict[Variable, Variable]) -> Variable:
    """The graph of y with the placeholders replaced by Variables."""
    made = dict(values)
    rebuilt(topological_order([y]), made)
    return made.get(y, y)
