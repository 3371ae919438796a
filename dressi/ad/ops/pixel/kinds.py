"""Operations of your own: how a class of Functions is applied to Variables; and the kinds of those of one pixel."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from ....errors import GraphError
from ...graph import Function, PixelFunction, Variable
from ...graph.program import check_snippet
from ...graph.types import Access, VType, vector_type
from .constant import Like, operands

__all__ = ["apply"]


def component_sum(x: np.ndarray) -> np.ndarray:
    """Sums the last axis, of a few components, by columns: a third of the time of ``sum``."""
    total = x[..., 0]
    for k in range(1, x.shape[-1]):
        total = total + x[..., k]
    return total


class Pointwise(PixelFunction):
    """The same scalar operation on each component; a FLOAT (INT) broadcasts over vectors and matrices.

    ``expression`` is GLSL over vectors and scalars of one type; matrices are done column by column.
    ``$operand`` in it is the type of the operands, ``$type`` that of the result. ``vector_expression``
    replaces it if GLSL writes the operation differently for vectors. ``compute`` is the meaning in NumPy.
    """

    operations, decides_on = 2.0, ()
    expression: ClassVar[str]
    vector_expression: ClassVar[str | None] = None
    compute: ClassVar[Callable[..., Any]]
    integers: ClassVar[bool] = False  # takes INT and IVECn
    mask: ClassVar[bool] = False  # the result of integers is a float mask
    promote: ClassVar[bool] = True  # scalars become vectors: GLSL has no overload that mixes the two

    def infer(self):
        operand = self.inputs[0].vtype
        for x in self.inputs:
            if x.vtype.is_int is not operand.is_int:
                raise self.fail("integers and floats do not mix; convert with F.to_float or F.to_int")
            if x.vtype is not operand and not x.vtype.is_scalar:
                if not operand.is_scalar:
                    raise self.fail(
                        "types must be equal, or FLOAT (INT), which broadcasts over the components"
                    )
                operand = x.vtype
        if operand.is_int and not self.integers:
            raise self.fail("takes floats; convert with F.to_float")
        return self.result(operand), self.broadcast()

    def result(self, operand: VType) -> VType:
        """The type of the output, given the type to which all operands broadcast."""
        return vector_type(operand.components) if self.mask and operand.is_int else operand

    @cached_property
    def glsl(self) -> str:
        vtype = self.output.vtype
        text = self.expression if vtype.is_scalar or not self.vector_expression else self.vector_expression
        operands = tuple(x.vtype for x in self.inputs)
        if not vtype.is_matrix:
            return spelled(text, operands, vtype, self.promote)
        column = vector_type(vtype.shape[0])
        columns = (spelled(text, operands, column, self.promote, f"[{j}]") for j in range(vtype.shape[1]))
        return f"{vtype.glsl}({', '.join(columns)})"

    def eval(self, *x: np.ndarray) -> np.ndarray:
        if rank := len(self.output.vtype.shape):  # scalars stand beside vectors and matrices
            pairs = zip(x, self.inputs, strict=True)
            x = tuple(a.reshape(a.shape + (1,) * rank) if v.vtype.is_scalar else a for a, v in pairs)
        with np.errstate(all="ignore"):
            return type(self).compute(*x)


class Piecewise(Pointwise):
    """A piecewise constant operation, which devices compute exactly."""

    exact = zero_derivative = True


@lru_cache(maxsize=4096)
def spelled(
    expression: str, operands: tuple[VType, ...], vtype: VType, promote: bool, column: str = ""
) -> str:
    """The snippet for operands of these types. column: appended to matrices, to take one column."""
    operand = vector_type(vtype.components, integer=any(x.is_int for x in operands)).glsl

    def token(match: re.Match[str]) -> str:
        x = operands[int(match[1])]
        if x.is_matrix:
            return match[0] + column
        if x.is_scalar and not vtype.is_scalar and promote:
            return f"{operand}({match[0]})"
        return match[0]

    text = re.sub(r"\$(\d+)", token, expression)
    return text.replace("$operand", operand).replace("$type", vtype.glsl)


class Linear(PixelFunction):
    """A linear Function of one input. Its jvp is the Function itself, its vjp is ``transpose``."""

    decides_on = ()

    def transpose(self, gy: Variable) -> Variable:
        raise NotImplementedError

    def vjp(self, gy, i):
        return None if self.output.vtype.is_int else self.transpose(gy)

    def jvp(self, tangents):
        (tangent,) = tangents
        if tangent is None or self.output.vtype.is_int:
            return None
        return self.rebuild(tangent).output


class Bilinear(PixelFunction):
    """A Function linear in each of its two inputs."""

    decides_on = ()

    def known_value(self, known):
        return self._zero_with_zero(known, 0, 1)

    def jvp(self, tangents):
        a, b = self.inputs
        ta, tb = tangents
        terms = []
        if ta is not None:
            terms.append(type(self)(ta, b).output)
        if tb is not None:
            terms.append(type(self)(a, tb).output)
        return sum(terms[1:], terms[0]) if terms else None


# Shortcuts: first derivatives in a cheaper form than the graph from which second derivatives are taken.
#
# Some first derivatives have a form that is cheaper than the graph that differentiation builds, and has the
# same value: a fused shader function, or a graph without the terms that are zero. Differentiating the cheap
# form would give a wrong second derivative, or none. So a shortcut pairs the cheap form with the ordinary
# graph: the value is that of the former, the derivatives are those of the latter. In programs without second
# derivatives nothing reads the ordinary graph, and simplification drops it.
#
#     distance to a line: d = |p - q(t)|, where d does not change with t to first order. The gradient by q
#     with constant t is right; its derivative is wrong, because the nearest point q moves along the line.


class Alias(PixelFunction):
    """Kind: the output is the first input. The other inputs are only used by derivatives."""

    operations = 1.0
    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, *x: np.ndarray) -> np.ndarray:
        return x[0]


class AliasBeside(Alias):
    """Kind: an ``Alias`` whose other inputs are of any domains. Derivatives read them as whole images."""

    fetches = 0.0  # the value alone is read

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, *[Access.FETCH] * (len(self.inputs) - 1))

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    def jvp(self, tangents):
        return tangents[0]


class Shortcut(Alias):
    """Inputs (short, exact) of equal values: the value of the first, the derivatives of the second."""

    def infer(self):
        short, exact = self.inputs
        if short.vtype is not exact.vtype:
            raise self.fail("needs two Variables of one type")
        return super().infer()

    def vjp(self, gy, i):
        return gy if i == 1 else None

    def jvp(self, tangents):
        return tangents[1]


def shortcut(short: Variable, exact: Variable) -> Variable:
    """``short``, with the derivatives of ``exact``. Types and values are equal; domains broadcast."""
    return Shortcut(short, exact).output


# Operations of your own: how a class of Functions is applied to Variables.


def apply(kind: type[Function], *inputs: Like, **fields: Any) -> Variable:
    """The output of a Function of your own, applied to Variables, numbers and arrays.

    kind: a class of kind ``PixelFunction`` (``ReduceFunction``, ...) that declares ``infer``, ``glsl``,
    ``eval`` and its derivative; see ``dressi.PixelFunction``. inputs: any types that its ``infer`` takes.
    fields: hashable values of the names that the class lists in ``fields``; a class with its own ``__init__``
    gets them as they are. Two applications with equal class, fields, snippet and inputs become one. Raises
    GraphError if a field is not declared, if the snippet names an input that is not there, or if ``infer``
    refuses the inputs.

    >>> class Scale(PixelFunction):
    ...     fields = ("factor",)
    ...     def infer(self):
    ...         return self.inputs[0].vtype, self.broadcast()
    ...     @property
    ...     def glsl(self):
    ...         return f"$0 * {self.factor!r}"
    ...     def eval(self, x):
    ...         return x * self.factor
    ...     def partials(self, x):
    ...         return (F.constant(self.factor),)
    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> evaluate(F.apply(Scale, x, factor=2.0) + F.apply(Scale, x, factor=5.0)).tolist()
    [7.0, 14.0, 21.0, 28.0, 35.0]
    """
    if not (isinstance(kind, type) and issubclass(kind, Function)):
        raise GraphError(f"F.apply takes a class of Functions, for example a PixelFunction, not {kind!r}")
    function = kind(*operands(*inputs), **fields)
    try:
        hash(function.attributes)
    except TypeError:
        raise function.fail(
            f"its fields {kind.fields} must be hashable: tuples instead of lists and arrays"
        ) from None
    except AttributeError as error:
        raise function.fail(
            f"a field was not set: {error}; pass it to F.apply, or set it in __init__"
        ) from None
    check_snippet(function)
    return function.output
