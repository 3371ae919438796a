"""Comparisons, logic and selection. Masks are FLOAT or VECn of 1.0 and 0.0; any nonzero value is true."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...graph.operators import operator
from ...graph.types import VType, vector_type
from .constant import Like, check_masks, constant, constant_value, floats, operands
from .kinds import Piecewise, shortcut

__all__ = [
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "not_equal", "select", "where",
]  # fmt: skip


def _mask(test):
    return staticmethod(lambda a, b: test(a, b).astype(np.float64))


class Comparison(Piecewise):
    integers, mask = True, True


class Less(Comparison):
    operations = 3.0
    expression, vector_expression = "float($0 < $1)", "$type(lessThan($0, $1))"
    compute = _mask(np.less)

    @property
    def sign_only(self):
        return (0,) if constant_value(self.inputs[1]) == 0 else ()


class LessEqual(Comparison):
    operations = 3.0
    expression, vector_expression = "float($0 <= $1)", "$type(lessThanEqual($0, $1))"
    compute = _mask(np.less_equal)

    @property
    def sign_only(self):
        return (1,) if constant_value(self.inputs[0]) == 0 else ()


class Equal(Comparison):
    expression, vector_expression = "float($0 == $1)", "$type(equal($0, $1))"
    compute = _mask(np.equal)


class NotEqual(Comparison):
    expression, vector_expression = "float($0 != $1)", "$type(notEqual($0, $1))"
    compute = _mask(np.not_equal)


class LogicalAnd(Piecewise):
    operations = 3.0
    expression = "float($0 != 0.0 && $1 != 0.0)"
    vector_expression = "$type(notEqual($0, $type(0.0))) * $type(notEqual($1, $type(0.0)))"
    compute = _mask(np.logical_and)

    def known_value(self, known):
        return self._zero_with_zero(known, 0, 1)


class LogicalOr(Piecewise):
    operations = 3.0
    expression = "float($0 != 0.0 || $1 != 0.0)"
    vector_expression = "max($type(notEqual($0, $type(0.0))), $type(notEqual($1, $type(0.0))))"
    compute = _mask(np.logical_or)

    def known_value(self, known):
        if any(np.all(value) for value in known.values()):
            return np.ones(self.output.vtype.shape)
        return super().known_value(known)


class LogicalNot(Piecewise):
    expression = "float($0 == 0.0)"
    vector_expression = "$type(equal($0, $type(0.0)))"
    compute = staticmethod(lambda x: np.where(x == 0, 1.0, 0.0))


class Select(PixelFunction):
    """Inputs (condition, a, b): a where the condition is not 0, else b. NaN of the other branch is dropped.

    The condition is a scalar (FLOAT, INT), or has the shape of the output and selects by components.
    """

    operations, decides_on = 3.0, (0,)
    exact = True

    def infer(self):
        condition, a, b = (x.vtype for x in self.inputs)
        if a.is_int != b.is_int:
            raise self.fail("both branches must be integers or both floats; use F.to_float or F.to_int")
        if not (a == b or a.is_scalar or b.is_scalar):
            raise self.fail("branches must have one type, or one of them is a scalar")
        vtype = b if a.is_scalar else a
        if vtype.is_scalar and not condition.is_scalar:
            vtype = condition if condition.is_matrix else vector_type(condition.components, integer=a.is_int)
        if not condition.is_scalar and (
            condition.shape != vtype.shape or (condition.is_matrix and vtype.is_int)
        ):
            raise self.fail(f"the condition must be a scalar or as wide as {vtype}")
        return vtype, self.broadcast()

    def known_value(self, known):
        if 0 in known and self.inputs[0].vtype.is_scalar:
            taken = 1 if np.any(known[0]) else 2
            if taken in known:
                return np.broadcast_to(np.asarray(known[taken]), self.output.vtype.shape)
        if 1 in known and 2 in known:
            a, b = (np.broadcast_to(np.asarray(known[i]), self.output.vtype.shape) for i in (1, 2))
            if np.array_equal(a, b):
                return a
        return super().known_value(known)

    @cached_property
    def glsl(self) -> str:
        out = self.output.vtype
        condition = self.inputs[0].vtype
        zero = "0" if condition.is_int else "0.0"
        if condition.is_scalar or not out.is_matrix:
            left, right = (_filled(f"${i}", self.inputs[i].vtype, out) for i in (1, 2))
            if condition.is_scalar:
                return f"($0 != {zero} ? {left} : {right})"
            return f"mix({right}, {left}, notEqual($0, {condition.glsl}({zero})))"
        column = vector_type(out.shape[0])
        parts = []
        for j in range(out.shape[1]):
            left, right = (
                f"{column.glsl}(${i})" if self.inputs[i].vtype.is_scalar else f"${i}[{j}]" for i in (1, 2)
            )
            parts.append(f"mix({right}, {left}, notEqual($0[{j}], {column.glsl}(0.0)))")
        return f"{out.glsl}({', '.join(parts)})"

    def eval(self, condition, a, b):
        rank = len(self.output.vtype.shape)
        condition, a, b = (
            x.reshape(x.shape + (1,) * rank) if v.vtype.is_scalar else x
            for x, v in zip((condition, a, b), self.inputs, strict=True)
        )
        return np.where(condition != 0, a, b)

    def vjp(self, gy, i):
        if i == 0 or self.output.vtype.is_int:
            return None
        condition = self.inputs[0]
        return select(condition, gy, 0.0) if i == 1 else select(condition, 0.0, gy)

    def jvp(self, tangents):
        _, a, b = tangents
        if (a is None and b is None) or self.output.vtype.is_int:
            return None
        zero = constant(0.0)
        return select(self.inputs[0], zero if a is None else a, zero if b is None else b)


def _filled(text: str, vtype: VType, out: VType) -> str:
    """A GLSL expression of type ``vtype`` converted to ``out``: a scalar fills all components."""
    if vtype == out:
        return text
    if not out.is_matrix:
        return f"{out.glsl}({text})"
    column = f"{vector_type(out.shape[0]).glsl}({text})"
    return f"{out.glsl}({', '.join([column] * out.shape[1])})"


@operator
def less(a: Like, b: Like) -> Variable:
    """A mask of 1.0 and 0.0: a < b by components; the operator ``<``.

    a, b: one type, or one of them a FLOAT (INT); the mask of integers is a float mask too. Derivative zero.
    Raises GraphError if one holds integers and the other floats.

    >>> evaluate(F.less((1.0, 2.0, 3.0), 2.0)).ravel().tolist()
    [1.0, 0.0, 0.0]
    """
    return Less(*operands(a, b)).output


@operator
def less_equal(a: Like, b: Like) -> Variable:
    """A mask: a <= b by components; the operator ``<=``. Types as for ``less``; derivative zero.

    >>> evaluate(F.less_equal((1.0, 2.0, 3.0), 2.0)).ravel().tolist()
    [1.0, 1.0, 0.0]
    """
    return LessEqual(*operands(a, b)).output


def greater(a: Like, b: Like) -> Variable:
    """A mask of 1.0 and 0.0: a > b by components; the operator ``>``. Types as for ``less``; derivative zero.

    >>> evaluate(F.greater((1.0, 2.0, 3.0), 2.0)).ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    return less(b, a)


def greater_equal(a: Like, b: Like) -> Variable:
    """A mask: a >= b by components; the operator ``>=``. Types as for ``less``; derivative zero.

    >>> evaluate(F.greater_equal((1.0, 2.0, 3.0), 2.0)).ravel().tolist()
    [0.0, 1.0, 1.0]
    """
    return less_equal(b, a)


@operator
def equal(a: Like, b: Like) -> Variable:
    """A mask: a == b by components; the operator ``==``. Types as for ``less``; derivative zero.

    >>> evaluate(F.equal((1.0, 2.0, 3.0), 2.0)).ravel().tolist()
    [0.0, 1.0, 0.0]
    """
    return Equal(*operands(a, b)).output


@operator
def not_equal(a: Like, b: Like) -> Variable:
    """A mask: a != b by components; the operator ``!=``. Types as for ``less``; derivative zero.

    >>> evaluate(F.not_equal((1.0, 2.0, 3.0), 2.0)).ravel().tolist()
    [1.0, 0.0, 1.0]
    """
    return NotEqual(*operands(a, b)).output


def logical_and(a: Like, b: Like) -> Variable:
    """A mask of 1.0 and 0.0: both are not 0, by components.

    a, b: FLOAT, VECn or MATn, one type or one of them a FLOAT. Derivative zero.

    >>> evaluate(F.logical_and((1.0, 1.0, 0.0), (1.0, 0.0, 0.0))).ravel().tolist()
    [1.0, 0.0, 0.0]
    """
    check_masks(a, b)
    return LogicalAnd(*floats(a, b)).output


def logical_or(a: Like, b: Like) -> Variable:
    """A mask of 1.0 and 0.0: at least one is not 0, by components.

    a, b: FLOAT, VECn or MATn, one type or one of them a FLOAT. Derivative zero.

    >>> evaluate(F.logical_or((1.0, 1.0, 0.0), (1.0, 0.0, 0.0))).ravel().tolist()
    [1.0, 1.0, 0.0]
    """
    check_masks(a, b)
    return LogicalOr(*floats(a, b)).output


def logical_not(a: Like) -> Variable:
    """A mask: 1 where x is 0, else 0, by components.

    a: FLOAT, VECn or MATn. The result has its type and domain. Derivative zero.

    >>> evaluate(F.logical_not([0.0, 1.0, -2.0])).ravel().tolist()
    [1.0, 0.0, 0.0]
    """
    return LogicalNot(*floats(a)).output


def select(condition: Like, a: Like, b: Like) -> Variable:
    """a where the condition is not 0, else b.

    condition: FLOAT or INT for whole texels; VECn, IVECn or MATn to choose by components. a, b: one type, or
    one of them a scalar. Domains broadcast. Differentiable in a and b; the gradient of the branch not taken
    is 0 even where its value is NaN. (An infinite factor inside that branch still makes 0 * inf in the
    backward pass; guard its argument.) Raises GraphError if types do not fit, and for a condition of True or
    False, which is no comparison of values.

    >>> evaluate(F.select((1.0, 0.0), (5.0, 6.0), -1.0)).ravel().tolist()
    [5.0, -1.0]
    """
    check_masks(condition)
    given = [v for v in (a, b) if isinstance(v, Variable)]
    (condition,) = (condition,) if isinstance(condition, Variable) else operands(condition, beside=given)
    a, b = operands(a, b, beside=(condition,))
    return Select(condition, a, b).output


def where(condition: Like, a: Like, b: Like) -> Variable:
    """``select`` by its NumPy name: a where the condition is not 0, else b.

    condition, a, b: types as for ``select``. Differentiable in a and b. Raises GraphError.

    >>> x = Variable.of([-1.0, 4.0], FLOAT)
    >>> evaluate(F.where(x > 0.0, F.sqrt(x), 0.0)).ravel().tolist()
    [0.0, 2.0]
    """
    return select(condition, a, b)


def guarded(condition: Variable, value: Callable[..., Variable], *x: Variable) -> Variable:
    """value(*x) where the condition holds, else 0: keeps infinities out of derivatives.

    The derivatives of the result are finite as well, if ``value`` of ones is finite: they are taken with x
    replaced by 1 where the condition does not hold. (Those of a plain select would contain 0 * inf.)
    """
    safe = value(*(select(condition, v, 1.0) for v in x))
    return shortcut(select(condition, value(*x), 0.0), select(condition, safe, 0.0))
