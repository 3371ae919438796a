"""Component-wise Functions of one input."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from . import functional as F
from .constant import Like, floats, integers, operands
from .graph import PixelFunction, Variable
from .pointwise import Pointwise
from .types import vector_type


class Neg(Pointwise):
    exact = True
    expression, compute, integers = "-($0)", np.negative, True

    def partials(self, x):
        return (F.constant(-1.0),)


class Abs(Pointwise):
    """Derivative: the sign, 0 at 0."""

    exact = True
    expression, compute, integers = "abs($0)", np.abs, True

    def partials(self, x):
        return (F.sign(x),)


class Sign(Pointwise):
    exact = True
    zero_derivative = True
    expression, compute, integers = "sign($0)", np.sign, True


class Floor(Pointwise):
    exact = True
    zero_derivative = True
    expression, compute = "floor($0)", np.floor


class Ceil(Pointwise):
    exact = True
    zero_derivative = True
    expression, compute = "ceil($0)", np.ceil


class Round(Pointwise):
    """Halves go to the even neighbour."""

    exact = True
    zero_derivative = True
    expression, compute = "roundEven($0)", np.round


class Fract(Pointwise):
    expression = "fract($0)"

    @staticmethod
    def compute(x):
        return x - np.floor(x)

    def partials(self, x):
        return (F.constant(1.0),)


class Square(Pointwise):
    exact = True
    expression, compute = "$0 * $0", np.square

    def partials(self, x):
        return (2.0 * x,)


class StopGradient(Pointwise):
    """The input itself, with derivative zero."""

    exact = True
    zero_derivative = True
    expression, compute, integers = "$0", np.array, True


class LogicalNot(Pointwise):
    exact = True
    zero_derivative = True
    expression = "float($0 == 0.0)"
    vector_expression = "$type(equal($0, $type(0.0)))"

    @staticmethod
    def compute(x):
        return np.where(x == 0, 1.0, 0.0)


class Convert(PixelFunction):
    """Between integers and floats of the same width; floats are truncated toward zero. No derivative."""

    zero_derivative = True
    exact = True
    fields = ("to_int",)

    def __init__(self, x: Variable, to_int: bool):
        self.to_int = to_int
        super().__init__(x)

    def infer(self):
        x = self.inputs[0].vtype
        if x.is_matrix:
            raise self.fail("takes scalars and vectors")
        if x.is_int == self.to_int:
            raise self.fail(f"the input is already of type {x}")
        return vector_type(x.components, integer=self.to_int), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"{self.output.vtype.glsl}($0)"

    def eval(self, x):
        with np.errstate(all="ignore"):
            return np.trunc(x).astype(np.int64) if self.to_int else x.astype(np.float64)


def neg(x: Like) -> Variable:
    """-x. INT too."""
    return Neg(*operands(x)).output


def abs(x: Like) -> Variable:
    """Absolute value; INT too. The derivative at 0 is 0."""
    return Abs(*operands(x)).output


def sign(x: Like) -> Variable:
    """-1, 0 or 1; INT too. Derivative zero."""
    return Sign(*operands(x)).output


def floor(x: Like) -> Variable:
    """Largest whole number not above x, as a float. Derivative zero."""
    return Floor(*floats(x)).output


def ceil(x: Like) -> Variable:
    """Smallest whole number not below x, as a float. Derivative zero."""
    return Ceil(*floats(x)).output


def round(x: Like) -> Variable:
    """Nearest whole number, halves to the even one, as a float. Derivative zero."""
    return Round(*floats(x)).output


def fract(x: Like) -> Variable:
    """x - floor(x), in [0, 1). Derivative 1."""
    return Fract(*floats(x)).output


def square(x: Like) -> Variable:
    """x * x by components."""
    return Square(*floats(x)).output


def stop_gradient(x: Like) -> Variable:
    """x, as if it were a constant for derivatives."""
    return StopGradient(*operands(x)).output


def logical_not(a: Like) -> Variable:
    """1 where the mask is 0, else 0."""
    return LogicalNot(*floats(a)).output


def to_float(x: Like) -> Variable:
    """INT to FLOAT, IVECn to VECn; floats stay as they are. Exact up to 2**24."""
    (x,) = floats(x)
    return Convert(x, False).output if x.vtype.is_int else x


def to_int(x: Like) -> Variable:
    """FLOAT to INT, VECn to IVECn, truncating toward zero; integers stay as they are. No derivative."""
    x = x if isinstance(x, Variable) else integers(np.trunc(x))[0]
    return x if x.vtype.is_int else Convert(x, True).output
