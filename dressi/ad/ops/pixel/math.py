"""Functions of one value, by components: signs, rounding, conversions."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...graph.operators import operator
from ...graph.types import vector_type
from .constant import Like, constant, floats, integers, operands
from .kinds import Piecewise, Pointwise

__all__ = [
    "abs", "ceil", "floor", "fract", "neg", "round", "sign", "square", "stop_gradient", "to_float",
    "to_int",
]  # fmt: skip


class Neg(Pointwise):
    exact = True
    expression, compute, integers = "-($0)", np.negative, True

    def partials(self, x):
        return (constant(-1.0),)


class Abs(Pointwise):
    exact = True
    expression, compute, integers = "abs($0)", np.abs, True

    def partials(self, x):
        return (sign(x),)


class Sign(Piecewise):
    expression, compute, integers = "sign($0)", np.sign, True


class Floor(Piecewise):
    expression, compute = "floor($0)", np.floor


class Ceil(Piecewise):
    expression, compute = "ceil($0)", np.ceil


class Round(Piecewise):
    expression, compute = "roundEven($0)", np.round


class Fract(Pointwise):
    decides_on = None
    expression = "fract($0)"
    compute = staticmethod(lambda x: x - np.floor(x))

    def partials(self, x):
        return (constant(1.0),)


class Square(Pointwise):
    exact = True
    expression, compute = "$0 * $0", np.square

    def partials(self, x):
        return (2.0 * x,)


class StopGradient(Piecewise):
    operations = 1.0
    expression, compute, integers = "$0", np.array, True


class Convert(PixelFunction):
    """Between integers and floats of the same width; floats are truncated toward zero."""

    operations = 2.0
    exact = zero_derivative = True
    fields = ("to_int",)
    to_int: bool

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


@operator
def neg(x: Like) -> Variable:
    """-x by components.

    x: any type (FLOAT, VECn, MATn, INT, IVECn). The result has its type and domain. Derivative -1 (floats).

    >>> evaluate(F.neg([1.0, -2.0])).ravel().tolist()
    [-1.0, 2.0]
    """
    return Neg(*operands(x)).output


@operator
def abs(x: Like) -> Variable:
    """Absolute value by components.

    x: any type (FLOAT, VECn, MATn, INT, IVECn). The result has its type and domain. Derivative ``sign(x)``.

    >>> evaluate(F.abs([1.5, -2.5])).ravel().tolist()
    [1.5, 2.5]
    """
    return Abs(*operands(x)).output


def sign(x: Like) -> Variable:
    """-1, 0 or 1 by components.

    x: any type (FLOAT, VECn, MATn, INT, IVECn). The result has its type and domain. Derivative zero.

    >>> evaluate(F.sign([2.0, 0.0, -3.0])).ravel().tolist()
    [1.0, 0.0, -1.0]
    """
    return Sign(*operands(x)).output


def floor(x: Like) -> Variable:
    """The largest whole number that is at most x, as a float, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain; ``to_int`` makes it INT. Derivative zero.

    >>> evaluate(F.floor([1.5, -1.5])).ravel().tolist()
    [1.0, -2.0]
    """
    return Floor(*floats(x)).output


def ceil(x: Like) -> Variable:
    """The smallest whole number that is at least x, as a float, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative zero.

    >>> evaluate(F.ceil([1.5, -1.5])).ravel().tolist()
    [2.0, -1.0]
    """
    return Ceil(*floats(x)).output


def round(x: Like) -> Variable:
    """The nearest whole number as a float, by components; halves are rounded to the even neighbour.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative zero.

    >>> evaluate(F.round([0.5, 1.5, 2.25])).ravel().tolist()
    [0.0, 2.0, 2.0]
    """
    return Round(*floats(x)).output


def fract(x: Like) -> Variable:
    """x - floor(x) by components, in [0, 1).

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1.

    >>> evaluate(F.fract([1.25, -0.25])).ravel().tolist()
    [0.25, 0.75]
    """
    return Fract(*floats(x)).output


def square(x: Like) -> Variable:
    """x * x by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 2 x.

    >>> evaluate(F.square([3.0, -0.5])).ravel().tolist()
    [9.0, 0.25]
    """
    return Square(*floats(x)).output


def stop_gradient(x: Like) -> Variable:
    """x itself, which derivatives treat as a constant.

    x: any type. The result has its type and domain. Derivative zero.

    >>> x = Variable.of(3.0)
    >>> evaluate(gradient(x * F.stop_gradient(x), [x]))[0].item()
    3.0
    """
    return StopGradient(*operands(x)).output


def to_float(x: Like) -> Variable:
    """Integers as floats: INT becomes FLOAT, IVECn becomes VECn; floats stay, with their derivative.

    x: any type. The result has its domain. Exact up to 2**24 on devices. Raises GraphError for other values.

    >>> evaluate(F.to_float(Variable.of(7)) / 2.0).item()
    3.5
    """
    (x,) = floats(x)
    return Convert(x, False).output if x.vtype.is_int else x


def to_int(x: Like) -> Variable:
    """Floats as integers, truncated toward zero: FLOAT becomes INT, VECn becomes IVECn; integers stay.

    x: any type but matrices. The result has its domain. No derivative passes. Raises GraphError.

    >>> evaluate(F.to_int(Variable.of([1.75, -1.75], FLOAT))).ravel().tolist()
    [1, -1]
    """
    x = x if isinstance(x, Variable) else integers(np.trunc(x))[0]
    return x if x.vtype.is_int else Convert(x, True).output
