"""The operators of Variables: ``a + b``, ``a < b``, ``m @ v``, ``v.xy``, ``abs(a)``.

The operations are defined above the graph, in the families of ``dressi.ad.ops``. A family registers the builders that
have an operator with ``@operator``; importing ``dressi.ad`` imports all families.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

Builder = Callable[..., Any]
B = TypeVar("B", bound=Builder)


class _Builders:
    """The registered builders, each under the name of the function that was registered."""

    add: Builder
    sub: Builder
    mul: Builder
    div: Builder
    mod: Builder
    pow: Builder
    matmul: Builder
    neg: Builder
    abs: Builder
    less: Builder
    less_equal: Builder
    component: Builder
    swizzle: Builder
    constant: Builder


builders = _Builders()


def operator(build: B) -> B:
    """Registers the builder of an operation that has an operator, and returns it."""
    name = build.__name__
    if name not in _Builders.__annotations__:
        raise TypeError(f"{name} has no operator; the builders that have one are listed in {__name__}")
    setattr(builders, name, build)
    return build


class Operators:
    """The operators of a Variable. Each calls the registered builder."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy numbers and arrays on the left leave the operation to the Variable

    def __add__(self, other: Any) -> Self:
        return builders.add(self, other)

    def __radd__(self, other: Any) -> Self:
        return builders.add(other, self)

    def __sub__(self, other: Any) -> Self:
        return builders.sub(self, other)

    def __rsub__(self, other: Any) -> Self:
        return builders.sub(other, self)

    def __mul__(self, other: Any) -> Self:
        return builders.mul(self, other)

    def __rmul__(self, other: Any) -> Self:
        return builders.mul(other, self)

    def __truediv__(self, other: Any) -> Self:
        return builders.div(self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return builders.div(other, self)

    def __mod__(self, other: Any) -> Self:
        return builders.mod(self, other)

    def __rmod__(self, other: Any) -> Self:
        return builders.mod(other, self)

    def __pow__(self, other: Any) -> Self:
        return builders.pow(self, other)

    def __rpow__(self, other: Any) -> Self:
        return builders.pow(other, self)

    def __matmul__(self, other: Any) -> Self:
        return builders.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return builders.matmul(other, self)

    def __pos__(self) -> Self:
        return self

    def __neg__(self) -> Self:
        return builders.neg(self)

    def __abs__(self) -> Self:
        return builders.abs(self)

    def __lt__(self, other: Any) -> Self:
        return builders.less(self, other)

    def __le__(self, other: Any) -> Self:
        return builders.less_equal(self, other)

    def __gt__(self, other: Any) -> Self:
        return builders.less(other, self)

    def __ge__(self, other: Any) -> Self:
        return builders.less_equal(other, self)

    def __getitem__(self, key: int | slice) -> Self:
        return builders.component(self, key)

    def __getattr__(self, name: str) -> Self:
        if 1 <= len(name) <= 4 and (set(name) <= set("xyzw") or set(name) <= set("rgba")):
            return builders.swizzle(self, name)
        raise AttributeError(f"Variable has no attribute {name!r}")
