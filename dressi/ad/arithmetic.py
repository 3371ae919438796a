"""Component-wise Functions of two or three inputs."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..errors import GraphError
from . import functional as F
from .constant import Like, floats, operands
from .graph import Variable, user_line
from .pointwise import Pointwise, guarded


class Add(Pointwise):
    exact = True
    expression, compute, integers, promote = "$0 + $1", np.add, True, False

    def partials(self, a, b):
        return F.constant(1.0), F.constant(1.0)


class Sub(Pointwise):
    exact = True
    expression, compute, integers, promote = "$0 - $1", np.subtract, True, False

    def partials(self, a, b):
        return F.constant(1.0), F.constant(-1.0)


class Mul(Pointwise):
    """By components, for matrices too: the surface allows only FLOAT times matrix."""

    exact = True
    expression, compute, integers, promote = "$0 * $1", np.multiply, True, False

    def settled(self, known):
        return self._zero_with(known, 0, 1)

    def partials(self, a, b):
        return b, a


class Div(Pointwise):
    """By components. Integers truncate toward zero."""

    expression, integers, promote = "$0 / $1", True, False

    @staticmethod
    def compute(a, b):
        if a.dtype.kind == "f":
            return np.divide(a, b)
        return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))

    def settled(self, known):
        return self._zero_with(known, 0)

    def partials(self, a, b):
        return 1.0 / b, F.hadamard(-self.output, 1.0 / b)


class Mod(Pointwise):
    """Floats: a - b * floor(a / b). Integers: the rest of the division that truncates."""

    expression, integers, promote = "mod($0, $1)", True, True

    @cached_property
    def glsl(self) -> str:
        # GLSL leaves % undefined for negative integers, the division is not.
        return "$0 - ($0 / $1) * $1" if self.output.vtype.is_int else super().glsl

    @staticmethod
    def compute(a, b):
        return np.fmod(a, b) if a.dtype.kind != "f" else a - b * np.floor(a / b)

    def partials(self, a, b):
        return F.constant(1.0), -F.floor(a / b)


class Pow(Pointwise):
    """a to the power b, a >= 0. Where a is 0 both derivatives are 0."""

    expression, compute = "pow($0, $1)", np.power

    def partials(self, a, b):
        positive = F.greater(a, 0.0)
        by_a = guarded(positive, lambda a, y: F.hadamard(b, F.div(y, a)), a, self.output)
        return by_a, guarded(positive, lambda a, y: F.hadamard(F.log(a), y), a, self.output)


class Atan2(Pointwise):
    """Angle of the point (x, y), inputs y and x. The derivative at the origin is 0."""

    expression, compute = "atan($0, $1)", np.arctan2

    def partials(self, y, x):
        square = F.square(x) + F.square(y)
        away = F.greater(square, 0.0)
        return (
            guarded(away, lambda square: F.div(x, square), square),
            guarded(away, lambda square: -F.div(y, square), square),
        )


class Min(Pointwise):
    """Equal inputs: the gradient goes to the first."""

    exact = True
    expression, compute, integers = "min($0, $1)", np.minimum, True

    def partials(self, a, b):
        return F.less_equal(a, b), F.less(b, a)


class Max(Pointwise):
    """Equal inputs: the gradient goes to the first."""

    exact = True
    expression, compute, integers = "max($0, $1)", np.maximum, True

    def partials(self, a, b):
        return F.greater_equal(a, b), F.greater(b, a)


class Clamp(Pointwise):
    """min(max(x, low), high). On the bounds the gradient goes to x."""

    exact = True
    expression, integers = "clamp($0, $1, $2)", True

    @staticmethod
    def compute(x, low, high):
        return np.minimum(np.maximum(x, low), high)

    def partials(self, x, low, high):
        above = F.greater(x, high)
        below = F.logical_and(F.less(x, low), F.logical_not(above))
        return F.logical_and(F.less_equal(low, x), F.less_equal(x, high)), below, above


class Mix(Pointwise):
    """a * (1 - t) + b * t."""

    expression = "mix($0, $1, $2)"

    @staticmethod
    def compute(a, b, t):
        return a * (1.0 - t) + b * t

    def partials(self, a, b, t):
        return 1.0 - t, t, b - a


class Step(Pointwise):
    """0 where x < edge, else 1; inputs edge and x."""

    exact = True
    zero_derivative = True
    expression = "step($0, $1)"

    @staticmethod
    def compute(edge, x):
        return np.where(x < edge, 0.0, 1.0)


def add(a: Like, b: Like) -> Variable:
    """a + b. A FLOAT (INT) broadcasts over the components of the other."""
    return Add(*operands(a, b)).output


def sub(a: Like, b: Like) -> Variable:
    """a - b."""
    return Sub(*operands(a, b)).output


def mul(a: Like, b: Like) -> Variable:
    """a * b by components. A matrix can only be scaled by a FLOAT; raises GraphError for matrix products."""
    a, b = operands(a, b)
    for m, other in ((a, b), (b, a)):
        if m.vtype.is_matrix and not other.vtype.is_scalar:
            raise GraphError(
                f"{a} * {b} is ambiguous: use @ for matrix products, F.hadamard for products by components"
                f" (at {user_line()})"
            )
    return Mul(a, b).output


def hadamard(a: Like, b: Like) -> Variable:
    """a * b by components, for two matrices too."""
    return Mul(*operands(a, b)).output


def div(a: Like, b: Like) -> Variable:
    """a / b by components; integers truncate toward zero."""
    return Div(*operands(a, b)).output


def mod(a: Like, b: Like) -> Variable:
    """Floats: a - b * floor(a / b), with the sign of b. Integers: a - (a / b) * b, with the sign of a."""
    return Mod(*operands(a, b)).output


def pow(a: Like, b: Like) -> Variable:
    """a to the power b. a >= 0, except that whole numbers b from 0 to 8 given as Python numbers multiply.

    The derivatives at a = 0 are 0 (not for the multiplied ones, which are exact).
    """
    if isinstance(b, (int, float)) and isinstance(a, Variable):
        if b == 0.5:
            return F.sqrt(a)
        if b == int(b) and 0 <= b <= 8:
            return _power(a, int(b))
    return Pow(*floats(a, b)).output


def _power(a: Variable, exponent: int) -> Variable:
    if exponent == 0:
        return F.add(F.zeros_like(a), 1 if a.vtype.is_int else 1.0)
    if exponent == 1:
        return a
    half = _power(a, exponent // 2)
    square = hadamard(half, half)
    return hadamard(square, a) if exponent % 2 else square


def atan2(y: Like, x: Like) -> Variable:
    """Angle of the point (x, y) in (-pi, pi]. Undefined, with derivative 0, at the origin."""
    return Atan2(*floats(y, x)).output


def minimum(a: Like, b: Like) -> Variable:
    """The smaller by components. Equal inputs: the gradient goes to a."""
    return Min(*operands(a, b)).output


def maximum(a: Like, b: Like) -> Variable:
    """The larger by components. Equal inputs: the gradient goes to a."""
    return Max(*operands(a, b)).output


def clamp(x: Like, low: Like = 0.0, high: Like = 1.0) -> Variable:
    """min(max(x, low), high). The gradient goes to x inside and on the bounds."""
    return Clamp(*operands(x, low, high)).output


def mix(a: Like, b: Like, t: Like) -> Variable:
    """a * (1 - t) + b * t."""
    return Mix(*floats(a, b, t)).output


def step(edge: Like, x: Like) -> Variable:
    """0 where x < edge, else 1. Derivative zero."""
    return Step(*floats(edge, x)).output


def smoothstep(low: Like, high: Like, x: Like) -> Variable:
    """Hermite step t * t * (3 - 2 t), t = clamp((x - low) / (high - low), 0, 1)."""
    low, high, x = floats(low, high, x)
    t = clamp((x - low) / (high - low), 0.0, 1.0)
    return hadamard(hadamard(t, t), 3.0 - 2.0 * t)
