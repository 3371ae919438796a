"""Operations of your own: how a class of Functions is applied to Variables."""

from __future__ import annotations

from typing import Any

from ....errors import GraphError
from ...graph import Function, Variable
from ...graph.program import check_snippet
from .constant import Like, operands

__all__ = ["apply"]


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
