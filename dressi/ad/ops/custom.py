"""Operations of your own: how a class of Functions is applied to Variables."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ...errors import GraphError
from ..graph import Function, Variable
from ..graph.snippet import without_comments
from ..includes import is_own
from .pixel.constant import Like, operands

__all__ = ["apply"]

_WORD = re.compile(r"\$(\w*)")
_RESERVED = re.compile(r"\bdressi_\w*")
"""Names that dressi gives to what is around a snippet."""
_KNOWN = re.compile(r"\d+|y|(size|batch|type)\d*")


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


@cache
def _is_own_snippet(kind: type[Function]) -> bool:
    """Whether the snippet of a class is dressi's, though the class may be a user's."""
    return is_own(next((c for c in kind.__mro__ if "glsl" in vars(c)), kind))


def check_snippet(function: Function) -> None:
    """Raises GraphError if the snippet names an input or a word that does not exist."""
    try:
        snippet = function.glsl
    except AttributeError:
        raise function.fail("declares no glsl, the snippet that computes it on a device") from None
    if not isinstance(snippet, str):
        raise function.fail(f"its glsl is a string, not {snippet!r}")
    snippet = without_comments(snippet)
    if not _is_own_snippet(type(function)) and (reserved := _RESERVED.search(snippet)):
        raise function.fail(
            f"its snippet uses the name {reserved[0]}; names that begin with dressi_ are those of the shaders"
        )
    for word in _WORD.findall(snippet):
        number = re.search(r"\d+$", word)
        if not _KNOWN.fullmatch(word):
            raise function.fail(
                f"its snippet has ${word}; there are $0, $1, ..., $y, $type, $size and $batch"
            )
        if number and int(number[0]) >= len(function.inputs):
            raise function.fail(f"its snippet names ${word}, but it has {len(function.inputs)} inputs")
