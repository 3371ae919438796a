"""Powers, roots, exponentials and logarithms, by components."""

from __future__ import annotations

import numpy as np

from ...graph import Variable
from ...graph.operators import operator
from ...types import vector_type
from .arithmetic import div, hadamard
from .compare import greater, guarded, select
from .constant import Like, constant, floats
from .kinds import Pointwise

__all__ = ["exp", "exp2", "inversesqrt", "log", "log2", "pow", "sigmoid", "sqrt"]


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
    """Derivative: 0 where the logarithm is undefined, so that a select which avoids those values has a finite gradient."""

    operations = 9.0
    expression, compute = "log($0)", np.log

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda x: 1.0 / x, x),)


class Log2(Pointwise):
    """Derivative: as for Log."""

    operations = 9.0
    expression, compute = "log2($0)", np.log2

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda x: float(1.0 / np.log(2.0)) / x, x),)


class Sqrt(Pointwise):
    """Derivative: 0 at 0, where it would be infinite."""

    operations = 9.0
    expression, compute = "sqrt($0)", np.sqrt

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda y: 0.5 / y, self.output),)


class InverseSqrt(Pointwise):
    """Derivative: 0 at 0, where it would be infinite."""

    operations = 9.0
    expression = "inversesqrt($0)"

    @staticmethod
    def compute(x):
        return 1.0 / np.sqrt(x)

    def partials(self, x):
        return (guarded(greater(x, 0.0), lambda x, y: hadamard(-0.5 * y, 1.0 / x), x, self.output),)


class Pow(Pointwise):
    """a to the power b, for a >= 0. At a = 0 both derivatives are 0."""

    operations = 9.0
    expression, compute = "pow($0, $1)", np.power

    def partials(self, a, b):
        positive = greater(a, 0.0)
        by_a = guarded(positive, lambda a, y: hadamard(b, div(y, a)), a, self.output)
        return by_a, guarded(positive, lambda a, y: hadamard(log(a), y), a, self.output)


class Sigmoid(Pointwise):
    """1 / (1 + exp(-x)). Neither the value nor the derivative overflows."""

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

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / x; 0 where x <= 0, so that a ``select`` which
    avoids those values has a finite gradient.

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

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative 1 / (2 sqrt(x)); 0 at 0, where it would be
    infinite.

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

    a, b: FLOAT, VECn or MATn as for ``add``; a >= 0. If b is a whole Python number from 0 to 8 the power is a product, and a
    may be negative. Differentiable in both; at a = 0 the derivatives are 0 (those of products are exact). Raises GraphError.

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

    x: FLOAT, VECn or MATn. The result has its type and domain. Derivative y (1 - y). Neither the value nor the derivative
    overflows for large x.

    >>> evaluate(F.sigmoid([0.0, 100.0])).ravel().tolist()
    [0.5, 1.0]
    """
    return Sigmoid(*floats(x)).output
