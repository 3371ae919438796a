"""Derivatives of a graph by its inputs alone, whatever these are made of; and Functions that take theirs from a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Variable
from ..traversal import topological_order
from .gradient import gradient, jvp

Build = Callable[..., Variable]
"""Makes a Variable of Variables, by ordinary Functions."""


def local_gradient(build: Build, inputs: Sequence[Variable], i: int, seed: Variable) -> Variable:
    """The gradient of sum(seed * build(*inputs)) by input ``i``, without looking at what the inputs are made of."""
    *x, s = holes = [_hole(v) for v in (*inputs, seed)]
    (found,) = gradient(build(*x), [x[i]], s)
    return _filled(found, dict(zip(holes, (*inputs, seed), strict=True)))


def local_jvp(
    build: Build, inputs: Sequence[Variable], tangents: Sequence[Variable | None]
) -> Variable | None:
    """The derivative of build(*inputs) along the tangents, None where there are none."""
    moved = [(i, t) for i, t in enumerate(tangents) if t is not None]
    if not moved:
        return None
    x, along = [_hole(v) for v in inputs], [_hole(t) for _, t in moved]
    (found,) = jvp([build(*x)], [x[i] for i, _ in moved], along)
    filling = (*zip(x, inputs, strict=True), *zip(along, (t for _, t in moved), strict=True))
    return _filled(found, dict(filling))


def _hole(like: Variable) -> Variable:
    return Variable(like.vtype, like.size, like.batch)


def _filled(y: Variable, holes: dict[Variable, Variable]) -> Variable:
    """The graph of y over other Variables instead of the holes."""
    made = dict(holes)
    for f in topological_order([y]):
        inputs = tuple(made.get(x, x) for x in f.inputs)
        made[f.output] = f.output if inputs == f.inputs else f.rebuild(*inputs).output
    return made.get(y, y)


class Fused:
    """For Functions that mean the same as a graph of ordinary ones, which ``ordinary`` builds: their derivatives."""

    inputs: tuple[Variable, ...]

    def ordinary(self, *x: Variable) -> Variable:
        """The output as a graph over ``x``, Variables like the inputs."""
        raise NotImplementedError

    def vjp(self, gy, i):
        return local_gradient(self.ordinary, self.inputs, i, gy)

    def jvp(self, tangents):
        return local_jvp(self.ordinary, self.inputs, tangents)
