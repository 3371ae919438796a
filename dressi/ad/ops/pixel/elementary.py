"""Powers, roots, exponentials, logarithms, trigonometry, by components. Angles are in radians."""

from __future__ import annotations

import numpy as np

from ...graph import Variable
from ...graph.operators import operator
from ...graph.types import vector_type
from .arithmetic import div, hadamard
from .compare import greater, guarded, select
from .constant import Like, constant, floats
from .kinds import Pointwise
from .math import square

__all__ = [
    "acos", "asin", "atan", "atan2", "cos", "exp", "exp2", "inversesqrt", "log", "log2", "pow", "sigmoid",
    "sin", "sqrt", "tan",
]  # fmt: skip


class Exp(Pointwise):
    operations = 9.0
    expression, compute = "exp($0)", np.exp

    def partials(self, x):
        return (self.output,)


class Exp2(Pointwise):
    operations = 9.0
    expression, compute = "exp2($0)", np.exp2

    def partials(self, x):
        return (self.output * float(np.log(2.0)),)


class Log(Pointwise):
    operations = 9.0
    expression, compute = "log($0)", np.log

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda x: 1.0 / x, x),)


class Log2(Pointwise):
    operations = 9.0
    expression, compute = "log2($0)", np.log2

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda x: float(1.0 / np.log(2.0)) / x, x),)


class Sqrt(Pointwise):
    operations = 9.0
    expression, compute = "sqrt($0)", np.sqrt

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda y: 0.5 / y, self.output),)


class InverseSqrt(Pointwise):
    operations = 9.0
    expression = "inversesqrt($0)"
    compute = staticmethod(lambda x: 1.0 / np.sqrt(x))

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda x, y: hadamard(-0.5 * y, 1.0 / x), x, self.output),)


class Pow(Pointwise):
    operations = 9.0
    expression, compute = "pow($0, $1)", np.power

    def partials(self, a, b):
        positive = greater(a, 0.0)
        by_a = guarded(positive, lambda a, y: hadamard(b, div(y, a)), a, self.output)
        return by_a, guarded(positive, lambda a, y: hadamard(log(a), y), a, self.output)


class Sigmoid(Pointwise):
    operations = 26.0
    # The argument of exp is never positive, so it cannot overflow.
    expression = "mix(exp(-abs($0)), $operand(1.0), step(0.0, $0)) / (1.0 + exp(-abs($0)))"

    @staticmethod
    def compute(x):
        small = np.exp(-np.abs(x))
        return np.where(x >= 0, 1.0, small) / (1.0 + small)

    def partials(self, x):
        return (hadamard(self.output, 1.0 - self.output),)


def exp(x: Like) -> Variable:
    """e to the power x, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative exp(x).

    >>> evaluate(F.exp(0.0)).item()
    1.0
    """
    return Exp(*floats(x)).output


def exp2(x: Like) -> Variable:
    """2 to the power x, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative log(2) 2**x.

    >>> evaluate(F.exp2([3.0, -1.0])).ravel().tolist()
    [8.0, 0.5]
    """
    return Exp2(*floats(x)).output


def log(x: Like) -> Variable:
    """Natural logarithm of x > 0, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / x; 0 where x <= 0, so that a
    ``select`` which avoids those values has a finite gradient.

    >>> round(evaluate(F.log(10.0)).item(), 4)
    2.3026
    """
    return Log(*floats(x)).output


def log2(x: Like) -> Variable:
    """Logarithm of x > 0 to base 2, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / (x log(2)); 0 where x <= 0.

    >>> evaluate(F.log2([8.0, 0.5])).ravel().tolist()
    [3.0, -1.0]
    """
    return Log2(*floats(x)).output


def sqrt(x: Like) -> Variable:
    """Square root of x >= 0, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / (2 sqrt(x)); 0 at 0.

    >>> evaluate(F.sqrt([1.0, 4.0, 9.0])).ravel().tolist()
    [1.0, 2.0, 3.0]
    """
    return Sqrt(*floats(x)).output


def inversesqrt(x: Like) -> Variable:
    """1 / sqrt(x) of x > 0, by components.

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative -1 / (2 x sqrt(x)); 0 where x <= 0.

    >>> evaluate(F.inversesqrt([4.0, 16.0])).ravel().tolist()
    [0.5, 0.25]
    """
    return InverseSqrt(*floats(x)).output


@operator
def pow(a: Like, b: Like) -> Variable:
    """a to the power b by components; the operator ``**``.

    a, b: FLOAT, VECn or MATn as for ``add``; a >= 0. If b is a whole Python number from 0 to 8 the power is a
    product, and a may be negative. Differentiable; at a = 0 derivatives are 0, but for products. Raises
    GraphError.

    >>> evaluate(F.pow(Variable.of(-3.0), 2)).item()
    9.0
    >>> round(evaluate(F.pow(2.0, 0.5)).item(), 4)
    1.4142
    """
    if isinstance(b, (int, float)) and isinstance(a, Variable):
        if b == 0.5:
            return sqrt(a)
        if b == int(b) and 0 <= b <= 8:
            return _power(a, int(b))
    return Pow(*floats(a, b)).output


def _power(a: Variable, exponent: int) -> Variable:
    if exponent == 0:
        one = constant(1, vector_type(1, integer=a.vtype.is_int))
        return select(a, one, one)  # 1 of the type and domain of a, also where a is NaN
    if exponent == 1:
        return a
    half = _power(a, exponent // 2)
    square = hadamard(half, half)
    return hadamard(square, a) if exponent % 2 else square


def sigmoid(x: Like) -> Variable:
    """1 / (1 + exp(-x)) by components, in [0, 1].

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative y (1 - y). Neither the value nor
    the derivative overflows for large x.

    >>> evaluate(F.sigmoid([0.0, 100.0])).ravel().tolist()
    [0.5, 1.0]
    """
    return Sigmoid(*floats(x)).output


class Trigonometric(Pointwise):
    operations = 31.0
    includes = ("trigonometry.glsl",)


class Sin(Trigonometric):
    expression, compute = "dressi_sin($0)", np.sin

    def partials(self, x):
        return (cos(x),)


class Cos(Trigonometric):
    expression, compute = "dressi_cos($0)", np.cos

    def partials(self, x):
        return (-sin(x),)


class Tan(Trigonometric):
    expression, compute = "dressi_tan($0)", np.tan

    def partials(self, x):
        return (1.0 + square(self.output),)


class Asin(Trigonometric):
    expression, compute = "dressi_asin($0)", np.arcsin

    def partials(self, x):
        rest = 1.0 - square(x)
        return (guarded(greater(rest, 0.0), inversesqrt, rest),)


class Acos(Trigonometric):
    expression, compute = "dressi_acos($0)", np.arccos

    def partials(self, x):
        rest = 1.0 - square(x)
        return (guarded(greater(rest, 0.0), lambda rest: -inversesqrt(rest), rest),)


class Atan(Pointwise):
    operations = 9.0
    expression, compute = "atan($0)", np.arctan

    def partials(self, x):
        return (1.0 / (1.0 + square(x)),)


class Atan2(Pointwise):
    decides_on = None
    operations = 9.0
    expression, compute = "atan($0, $1)", np.arctan2

    def partials(self, y, x):
        radius2 = square(x) + square(y)
        away = greater(radius2, 0.0)
        return (
            guarded(away, lambda r2: div(x, r2), radius2),
            guarded(away, lambda r2: -div(y, r2), radius2),
        )


def sin(x: Like) -> Variable:
    """Sine by components.

    x: FLOAT, VECn or MATn in radians, on devices below 8192. Type and domain stay. Derivative cos(x).

    >>> round(evaluate(F.sin(np.pi / 6)).item(), 4)
    0.5
    """
    return Sin(*floats(x)).output


def cos(x: Like) -> Variable:
    """Cosine by components.

    x: FLOAT, VECn or MATn in radians, on devices below 8192. Type and domain stay. Derivative -sin(x).

    >>> round(evaluate(F.cos(np.pi / 3)).item(), 4)
    0.5
    """
    return Cos(*floats(x)).output


def tan(x: Like) -> Variable:
    """Tangent by components.

    x: FLOAT, VECn or MATn in radians, on devices below 8192. Type and domain stay. Derivative 1 + tan(x)**2.

    >>> round(evaluate(F.tan(np.pi / 4)).item(), 4)
    1.0
    """
    return Tan(*floats(x)).output


def asin(x: Like) -> Variable:
    """Arc sine by components, in radians in [-pi/2, pi/2].

    x: FLOAT, VECn or MATn in [-1, 1]. The result has its type and domain. Derivative 1 / sqrt(1 - x**2); 0 at
    -1 and 1, where it would be infinite.

    >>> round(evaluate(F.asin(0.5)).item(), 4)
    0.5236
    """
    return Asin(*floats(x)).output


def acos(x: Like) -> Variable:
    """Arc cosine by components, in radians in [0, pi].

    x: FLOAT, VECn or MATn in [-1, 1]. The result has its type and domain. Derivative -1 / sqrt(1 - x**2); 0
    at -1 and 1, where it would be infinite.

    >>> round(evaluate(F.acos(0.5)).item(), 4)
    1.0472
    """
    return Acos(*floats(x)).output


def atan(x: Like) -> Variable:
    """Arc tangent by components, in radians in (-pi/2, pi/2).

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / (1 + x**2).

    >>> round(evaluate(F.atan(1.0)).item(), 4)
    0.7854
    """
    return Atan(*floats(x)).output


def atan2(y: Like, x: Like) -> Variable:
    """The angle of the point (x, y) in radians, in (-pi, pi], by components.

    y, x: FLOAT, VECn or MATn as for ``add``. Differentiable; 0 at the origin, where it is undefined. Raises
    GraphError.

    >>> round(evaluate(F.atan2(1.0, -1.0)).item(), 4)
    2.3562
    """
    return Atan2(*floats(y, x)).output
