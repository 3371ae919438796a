"""The operators of Variables: ``a + b``, ``a < b``, ``m @ v``, ``v.xy``, ``abs(a)``.

The operations are defined above the graph, in the families of ``dressi.ad.ops``. A family registers the
builders that have an operator with ``@operator``, and so do the derivatives, which are built with the
families; importing ``dressi.ad`` imports all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

import numpy as np

from ...errors import GraphError
from .names import cure
from .user_code import of_dressi

Builder = Callable[..., Any]
B = TypeVar("B", bound=Builder)


class _Builders:
    """The registered builders by name: of the operators, and derivatives for Functions that hold graphs."""

    add: Builder
    sub: Builder
    mul: Builder
    div: Builder
    mod: Builder
    pow: Builder
    matmul: Builder
    neg: Builder
    abs: Builder
    equal: Builder
    not_equal: Builder
    less: Builder
    less_equal: Builder
    component: Builder
    swizzle: Builder
    constant: Builder
    gradient: Builder
    jvp: Builder


builders = _Builders()


def operator(build: B) -> B:
    """Registers a builder that is listed above, and returns it."""
    name = build.__name__
    if name not in _Builders.__annotations__:
        raise TypeError(f"{name} has no operator; the builders that have one are listed in {__name__}")
    setattr(builders, name, build)
    return build


_NUMBERS = (bool, int, float, complex, np.generic, np.ndarray, list, tuple)
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "remainder": "mod", "power": "pow",
    "matmul": "matmul", "less": "less", "less_equal": "less_equal",
    "greater": "less", "greater_equal": "less_equal",
    "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip
"""The builders of NumPy's operators, by the names of its functions."""


class Operators:
    """The operators of a Variable. Each calls the registered builder."""

    __slots__ = ()
    vtype: Any
    __hash__ = object.__hash__

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Self:
        """NumPy values on the left leave their operators to the Variable."""
        build = getattr(builders, _UFUNCS.get(function.__name__, ""), None)
        if build is not None and method == "__call__" and not options:
            return build(*(inputs[::-1] if function.__name__.startswith("greater") else inputs))
        raise self._no(f"np.{function.__name__}", function.__name__)

    def __array_function__(self, function: Callable, types: Any, inputs: Any, options: Any) -> Self:
        raise self._no(f"np.{function.__name__}", function.__name__)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise self._no("np.asarray", "numpy")

    def _no(self, what: str, name: str) -> GraphError:
        return GraphError(
            f"{what} does not take {self}: it has no values while the graph is built{cure(name)}"
        )

    def _one(self, key: Any, asks: FrameType) -> Self:
        """The Variable, if ``[key]`` can only mean a component, as it does in dressi. Raises GraphError."""
        single = self.size == (1, 1) and self.tiles == 1 and self.count is None
        if single or of_dressi(asks):
            return self
        if self.count is not None:
            many, entry = f"a list of {self.count}", "an entry"
        elif self.batch > 1:
            many, entry = f"a batch of {self.batch}", "an image"
        else:
            many, entry = f"an image of {self.size[0]}x{self.size[1]} texels", "a row"
        raise GraphError(
            f"{self} is {many}, of which [{key!r}] may mean {entry} or a component; write F.component(x,"
            f" {key!r}), or x.x, for a component, F.lookup for an entry of a list, F.take for an image of a"
            " batch and F.crop for a part of an image"
        )

    # fmt: off
    def __add__(self, other: Any) -> Self: return builders.add(self, other)
    def __radd__(self, other: Any) -> Self: return builders.add(other, self)
    def __sub__(self, other: Any) -> Self: return builders.sub(self, other)
    def __rsub__(self, other: Any) -> Self: return builders.sub(other, self)
    def __mul__(self, other: Any) -> Self: return builders.mul(self, other)
    def __rmul__(self, other: Any) -> Self: return builders.mul(other, self)
    def __truediv__(self, other: Any) -> Self: return builders.div(self, other)
    def __rtruediv__(self, other: Any) -> Self: return builders.div(other, self)
    def __mod__(self, other: Any) -> Self: return builders.mod(self, other)
    def __rmod__(self, other: Any) -> Self: return builders.mod(other, self)
    def __pow__(self, other: Any) -> Self: return builders.pow(self, other)
    def __rpow__(self, other: Any) -> Self: return builders.pow(other, self)
    def __matmul__(self, other: Any) -> Self: return builders.matmul(self, other)
    def __rmatmul__(self, other: Any) -> Self: return builders.matmul(other, self)
    def __pos__(self) -> Self: return self
    def __neg__(self) -> Self: return builders.neg(self)
    def __abs__(self) -> Self: return builders.abs(self)
    def __lt__(self, other: Any) -> Self: return builders.less(self, other)
    def __le__(self, other: Any) -> Self: return builders.less_equal(self, other)
    def __gt__(self, other: Any) -> Self: return builders.less(other, self)
    def __ge__(self, other: Any) -> Self: return builders.less_equal(other, self)
    # fmt: on

    # The modules of dressi compare Variables as objects: they are keys, and members of lists and of tuples.
    # Everybody else means the values, as with <, and a mask in place of a truth value is never mistaken for
    # one: it has none.
    def __eq__(self, other: Any) -> Any:
        """The mask ``F.equal``: 1.0 where values are equal, else 0.0."""
        if isinstance(other, Operators) and of_dressi(sys._getframe(1)):
            return self is other
        return builders.equal(self, other) if isinstance(other, _COMPARED) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        """The mask ``F.not_equal``: 1.0 where values differ, else 0.0."""
        if isinstance(other, Operators) and of_dressi(sys._getframe(1)):
            return self is not other
        return builders.not_equal(self, other) if isinstance(other, _COMPARED) else NotImplemented

    # fmt: off
    def __and__(self, other: Any) -> Self: raise self._no("&", "logical_and")
    def __or__(self, other: Any) -> Self: raise self._no("|", "logical_or")
    def __xor__(self, other: Any) -> Self: raise self._no("^", "logical_xor")
    def __invert__(self) -> Self: raise self._no("~", "logical_not")
    def __floordiv__(self, other: Any) -> Self: raise self._no("//", "floor_divide")
    # fmt: on
    __rand__, __ror__, __rxor__, __rfloordiv__ = __and__, __or__, __xor__, __floordiv__

    def __getitem__(self, key: int | slice) -> Self:
        return builders.component(self._one(key, sys._getframe(1)), key)

    def __iter__(self):
        if not self.vtype.shape:
            raise GraphError(f"{self} has no components to go through; F.lookup and F.crop read its texels")
        self._one(0, sys._getframe(1))
        return (builders.component(self, i) for i in range(self.vtype.shape[-1]))

    def __getattr__(self, name: str) -> Self:
        if 1 <= len(name) <= 4 and (set(name) <= set("xyzw") or set(name) <= set("rgba")):
            return builders.swizzle(self, name)
        raise AttributeError(f"a Variable has no attribute {name!r}{cure(name)}")


_COMPARED = (Operators, *_NUMBERS)
