"""Arithmetic of two or three values, by components."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np

from ....errors import GraphError
from ...graph import Variable, user_line
from ...graph.operators import operator
from .compare import greater, greater_equal, less, less_equal, logical_and, logical_not
from .constant import Like, constant, floats, operands
from .kinds import Piecewise, Pointwise
from .math import floor

__all__ = [
    "add", "clamp", "div", "hadamard", "maximum", "minimum", "mix", "mod", "mul", "smoothstep", "step",
    "sub",
]  # fmt: skip


class Add(Pointwise):
    exact = True
    expression, compute, integers, promote = "$0 + $1", np.add, True, False

    def partials(self, a, b):
        return constant(1.0), constant(1.0)


class Sub(Pointwise):
    exact = True
    expression, compute, integers, promote = "$0 - $1", np.subtract, True, False

    def partials(self, a, b):
        return constant(1.0), constant(-1.0)


class Mul(Pointwise):
    """By components, for matrices too. ``F.mul`` allows only FLOAT times matrix, ``F.hadamard`` all types."""

    exact = True
    expression, compute, integers, promote = "$0 * $1", np.multiply, True, False

    def known_value(self, known):
        return self._zero_with_zero(known, 0, 1)

    def partials(self, a, b):
        return b, a


class Div(Pointwise):
    expression, integers, promote = "$0 / $1", True, False

    @staticmethod
    def compute(a, b):
        if a.dtype.kind == "f":
            return np.divide(a, b)
        return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))

    def known_value(self, known):
        return self._zero_with_zero(known, 0)

    def partials(self, a, b):
        return 1.0 / b, hadamard(-self.output, 1.0 / b)


class Mod(Pointwise):
    decides_on = None
    operations = 5.0
    expression, integers, promote = "mod($0, $1)", True, True

    @cached_property
    def glsl(self) -> str:
        # GLSL does not define % for negative integers, but it defines the division.
        return "$0 - ($0 / $1) * $1" if self.output.vtype.is_int else super().glsl

    compute = staticmethod(lambda a, b: np.fmod(a, b) if a.dtype.kind != "f" else a - b * np.floor(a / b))

    def partials(self, a, b):
        return constant(1.0), -floor(a / b)


class Min(Pointwise):
    exact = True
    expression, compute, integers = "min($0, $1)", np.minimum, True

    def partials(self, a, b):
        return less_equal(a, b), less(b, a)


class Max(Pointwise):
    exact = True
    expression, compute, integers = "max($0, $1)", np.maximum, True

    def partials(self, a, b):
        return greater_equal(a, b), greater(b, a)


class Clamp(Pointwise):
    exact = True
    expression, integers = "clamp($0, $1, $2)", True
    compute = staticmethod(lambda x, low, high: np.minimum(np.maximum(x, low), high))

    def partials(self, x, low, high):
        above = greater(x, high)
        below = logical_and(less(x, low), logical_not(above))
        return logical_and(less_equal(low, x), less_equal(x, high)), below, above


class Mix(Pointwise):
    expression = "mix($0, $1, $2)"
    compute = staticmethod(lambda a, b, t: a * (1.0 - t) + b * t)

    def partials(self, a, b, t):
        return 1.0 - t, t, b - a


class Step(Piecewise):
    expression = "step($0, $1)"
    compute = staticmethod(lambda edge, x: np.where(x < edge, 0.0, 1.0))


@operator
def add(a: Like, b: Like) -> Variable:
    """a + b by components; the operator ``+``.

    a, b: one type, or one of them a FLOAT (INT), which broadcasts over the components of the other.
    Differentiable in both. Raises GraphError if types or domains do not fit.

    >>> evaluate(F.add((1.0, 2.0), 0.5)).ravel().tolist()
    [1.5, 2.5]
    """
    return Add(*operands(a, b)).output


@operator
def sub(a: Like, b: Like) -> Variable:
    """a - b by components; the operator ``-``.

    a, b: types as for ``add``. Differentiable in both. Raises GraphError.

    >>> evaluate(F.sub((1.0, 2.0), 0.5)).ravel().tolist()
    [0.5, 1.5]
    """
    return Sub(*operands(a, b)).output


@operator
def mul(a: Like, b: Like) -> Variable:
    """a * b by components; the operator ``*``.

    a, b: as for ``add``, but a matrix can only be scaled by a FLOAT. Differentiable in both. Raises
    GraphError, also for products with matrices, which are ``matmul`` or ``hadamard``.

    >>> evaluate(F.mul((1.0, 2.0), (3.0, 4.0))).ravel().tolist()
    [3.0, 8.0]
    """
    a, b = operands(a, b)
    for m, other in ((a, b), (b, a)):
        if m.vtype.is_matrix and not other.vtype.is_scalar:
            raise GraphError(
                f"{a} * {b} is ambiguous: use @ for matrix products, F.hadamard for products by components"
                f" (at {user_line()})"
            )
    return Mul(a, b).output


def total(parts: Sequence[Variable]) -> Variable:
    """The sum of one or more Variables."""
    return reduce(add, parts)


def hadamard(a: Like, b: Like) -> Variable:
    """a * b by components, for two matrices too.

    a, b: types as for ``add``. Differentiable in both. Raises GraphError.

    >>> evaluate(F.hadamard(np.eye(2), [[5.0, 6.0], [7.0, 8.0]]))[0, 0, 0].tolist()
    [[5.0, 0.0], [0.0, 8.0]]
    """
    return Mul(*operands(a, b, matrices=True)).output


@operator
def div(a: Like, b: Like) -> Variable:
    """a / b by components; the operator ``/``. Quotients of integers are truncated.

    a, b: types as for ``add``. Division by zero gives infinity or NaN. Differentiable (floats). Raises
    GraphError.

    >>> evaluate(F.div((1.0, 3.0), 2.0)).ravel().tolist()
    [0.5, 1.5]
    >>> evaluate(Variable.of(-7) / 2).item()
    -3
    """
    return Div(*operands(a, b)).output


@operator
def mod(a: Like, b: Like) -> Variable:
    """The remainder of a division by components; the operator ``%``.

    a, b: types as for ``add``. Floats: a - b * floor(a / b), with the sign of b. Integers: a - (a / b) * b,
    with the sign of a. Derivatives 1 and -floor(a / b) (floats). Raises GraphError.

    >>> evaluate(F.mod((5.5, -0.5), 2.0)).ravel().tolist()
    [1.5, 1.5]
    """
    return Mod(*operands(a, b)).output


def minimum(a: Like, b: Like) -> Variable:
    """The smaller of a and b by components.

    a, b: types as for ``add``. The gradient goes to the smaller one, of equal ones to a. Raises GraphError.

    >>> evaluate(F.minimum((1.0, 5.0), (3.0, 4.0))).ravel().tolist()
    [1.0, 4.0]
    """
    return Min(*operands(a, b)).output


def maximum(a: Like, b: Like) -> Variable:
    """The larger of a and b by components.

    a, b: types as for ``add``. The gradient goes to the larger one, of equal ones to a. Raises GraphError.

    >>> evaluate(F.maximum((1.0, 5.0), (3.0, 4.0))).ravel().tolist()
    [3.0, 5.0]
    """
    return Max(*operands(a, b)).output


def clamp(x: Like, low: Like = 0.0, high: Like = 1.0) -> Variable:
    """min(max(x, low), high) by components.

    x, low, high: types as for ``add``. The gradient goes to x from low to high, else to the bound. Raises
    GraphError.

    >>> evaluate(F.clamp([-0.5, 0.25, 2.0])).ravel().tolist()
    [0.0, 0.25, 1.0]
    """
    return Clamp(*operands(x, low, high)).output


def mix(a: Like, b: Like, t: Like) -> Variable:
    """a * (1 - t) + b * t by components.

    a, b, t: FLOAT, VECn or MATn as for ``add``. Differentiable in all three. Raises GraphError.

    >>> evaluate(F.mix((0.0, 10.0), (1.0, 20.0), 0.25)).ravel().tolist()
    [0.25, 12.5]
    """
    return Mix(*floats(a, b, t)).output


def step(edge: Like, x: Like) -> Variable:
    """A mask: 0 where x < edge, else 1, by components.

    edge, x: FLOAT, VECn or MATn as for ``add``. Derivative zero. Raises GraphError.

    >>> evaluate(F.step(0.5, [0.25, 0.5, 0.75])).ravel().tolist()
    [0.0, 1.0, 1.0]
    """
    return Step(*floats(edge, x)).output


def smoothstep(low: Like, high: Like, x: Like) -> Variable:
    """t * t * (3 - 2 t) with t = clamp((x - low) / (high - low), 0, 1), by components.

    low, high, x: FLOAT, VECn or MATn as for ``add``; low < high. Differentiable. Raises GraphError.

    >>> evaluate(F.smoothstep(0.0, 4.0, [-1.0, 1.0, 2.0])).ravel().tolist()
    [0.0, 0.15625, 0.5]
    """
    low, high, x = floats(low, high, x)
    t = clamp((x - low) / (high - low), 0.0, 1.0)
    return hadamard(hadamard(t, t), 3.0 - 2.0 * t)
