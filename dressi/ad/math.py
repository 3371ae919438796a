"""Component-wise Functions of one input."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from . import functional as F
from .constant import Like, floats, integers, operands
from .graph import PixelFunction, Variable
from .pointwise import Pointwise, guarded
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


class Exp(Pointwise):
    expression, compute = "exp($0)", np.exp

    def partials(self, x):
        return (self.output,)


class Exp2(Pointwise):
    expression, compute = "exp2($0)", np.exp2

    def partials(self, x):
        return (self.output * float(np.log(2.0)),)


class Log(Pointwise):
    """Derivative: 0 where the logarithm does not exist, so that a select that avoids it stays finite."""

    expression, compute = "log($0)", np.log

    def partials(self, x):
        return (guarded(F.greater(x, 0.0), lambda x: 1.0 / x, x),)


class Log2(Pointwise):
    """Derivative: as for Log."""

    expression, compute = "log2($0)", np.log2

    def partials(self, x):
        return (guarded(F.greater(x, 0.0), lambda x: float(1.0 / np.log(2.0)) / x, x),)


class Sqrt(Pointwise):
    """Derivative: 0 at 0, where it would be infinite."""

    expression, compute = "sqrt($0)", np.sqrt

    def partials(self, x):
        return (guarded(F.greater(x, 0.0), lambda y: 0.5 / y, self.output),)


class InverseSqrt(Pointwise):
    """Derivative: 0 at 0, where it would be infinite."""

    expression = "inversesqrt($0)"

    @staticmethod
    def compute(x):
        return 1.0 / np.sqrt(x)

    def partials(self, x):
        return (guarded(F.greater(x, 0.0), lambda x, y: F.hadamard(-0.5 * y, 1.0 / x), x, self.output),)


class Sin(Pointwise):
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_sin($0)", np.sin

    def partials(self, x):
        return (F.cos(x),)


class Cos(Pointwise):
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_cos($0)", np.cos

    def partials(self, x):
        return (-F.sin(x),)


class Tan(Pointwise):
    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_tan($0)", np.tan

    def partials(self, x):
        return (1.0 + F.square(self.output),)


class Asin(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_asin($0)", np.arcsin

    def partials(self, x):
        rest = 1.0 - F.square(x)
        return (guarded(F.greater(rest, 0.0), F.inversesqrt, rest),)


class Acos(Pointwise):
    """Derivative: 0 at -1 and 1, where it would be infinite."""

    includes = ("trigonometry.glsl",)
    expression, compute = "dressi_acos($0)", np.arccos

    def partials(self, x):
        rest = 1.0 - F.square(x)
        return (guarded(F.greater(rest, 0.0), lambda rest: -F.inversesqrt(rest), rest),)


class Atan(Pointwise):
    expression, compute = "atan($0)", np.arctan

    def partials(self, x):
        return (1.0 / (1.0 + F.square(x)),)


class Sigmoid(Pointwise):
    """1 / (1 + exp(-x)). Neither the value nor the derivative overflows."""

    # The argument of exp is never positive, so no infinity appears on the way.
    expression = "mix(exp(-abs($0)), $operand(1.0), step(0.0, $0)) / (1.0 + exp(-abs($0)))"

    @staticmethod
    def compute(x):
        small = np.exp(-np.abs(x))
        return np.where(x >= 0, 1.0, small) / (1.0 + small)

    def partials(self, x):
        return (F.hadamard(self.output, 1.0 - self.output),)


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


def exp(x: Like) -> Variable:
    """e to the power x."""
    return Exp(*floats(x)).output


def exp2(x: Like) -> Variable:
    """2 to the power x."""
    return Exp2(*floats(x)).output


def log(x: Like) -> Variable:
    """Natural logarithm; x > 0. The derivative elsewhere is 0."""
    return Log(*floats(x)).output


def log2(x: Like) -> Variable:
    """Logarithm to base 2; x > 0. The derivative elsewhere is 0."""
    return Log2(*floats(x)).output


def sqrt(x: Like) -> Variable:
    """Square root; x >= 0. The derivative at 0 is 0, not infinity."""
    return Sqrt(*floats(x)).output


def inversesqrt(x: Like) -> Variable:
    """1 / sqrt(x); x > 0."""
    return InverseSqrt(*floats(x)).output


def sin(x: Like) -> Variable:
    """Sine; radians, below 8192 on devices."""
    return Sin(*floats(x)).output


def cos(x: Like) -> Variable:
    """Cosine; radians, below 8192 on devices."""
    return Cos(*floats(x)).output


def tan(x: Like) -> Variable:
    """Tangent; radians."""
    return Tan(*floats(x)).output


def asin(x: Like) -> Variable:
    """Arc sine in [-pi/2, pi/2]; x in [-1, 1]. The derivative at the ends is 0."""
    return Asin(*floats(x)).output


def acos(x: Like) -> Variable:
    """Arc cosine in [0, pi]; x in [-1, 1]. The derivative at the ends is 0."""
    return Acos(*floats(x)).output


def atan(x: Like) -> Variable:
    """Arc tangent in (-pi/2, pi/2)."""
    return Atan(*floats(x)).output


def sigmoid(x: Like) -> Variable:
    """1 / (1 + exp(-x)), safe for large arguments."""
    return Sigmoid(*floats(x)).output


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
