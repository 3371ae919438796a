"""Functions whose first derivative is a shortcut, and whose further derivatives are those of an ordinary graph.

Some derivatives have a form that is cheaper than what differentiating a graph gives, and equal to it: a fused shader
function, or a path left out because what flows along it is zero. The derivative *of* that form is not the second
derivative, where it leaves something out, or there is none. So each such form comes with the ordinary graph that it
stands for. Simplification drops what only derivatives read: programs of first order hold the shortcut alone.

    distance to a line: d = |p - q(t)|, where d does not change with t to first order:
    gradient by q with t held: right; its derivative with t held: wrong, the point q slides along the line
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from . import functional as F
from .gradient import gradient, jvp
from .graph import PixelFunction, Variable, topological_order

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


class Alias(PixelFunction):
    """Kind: the value is that of the first input; further ones are there for derivatives."""

    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, *x: np.ndarray) -> np.ndarray:
        return x[0]


class Shortcut(Alias):
    """Inputs (short, exact), which are equal: the value of the first, the derivatives of the second."""

    def infer(self):
        short, exact = self.inputs
        if short.vtype is not exact.vtype:
            raise self.fail("needs two Variables of one type")
        return super().infer()

    def vjp(self, gy, i):
        return gy if i == 1 else None

    def jvp(self, tangents):
        return tangents[1]


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


def shortcut(short: Variable, exact: Variable) -> Variable:
    """``short``, with the derivatives of ``exact``. The two are equal; types are, sizes broadcast."""
    (width, height), (w, h) = short.size, exact.size
    size, batch = (max(width, w), max(height, h)), max(short.batch, exact.batch)
    if (size, batch) != short.domain:
        short = F.expand(short, batch, size)
    return Shortcut(short, exact).output
