"""Variables: the values of a computation, immutable."""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import GraphError
from .types import Size, VType, size_of, whole

if TYPE_CHECKING:
    from .graph import Function

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_serial = itertools.count()


class Domain(NamedTuple):
    """Where an image has values: a batch of tiles of one size."""

    size: Size
    batch: int

    def __str__(self) -> str:
        return f"{self.size[0]}x{self.size[1]}" + (f" x {self.batch}" if self.batch != 1 else "")


def domain_of(size: Any, batch: Any = 1) -> Domain:
    """The domain of that size and batch. Raises GraphError where they are not whole numbers of at least 1."""
    return Domain(size_of(size), whole(batch, "a batch", 1))


def user_line() -> str:
    """The innermost line outside of this and other installed packages: the line of user code being executed."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and "site-packages" not in name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return "dressi"


class Variable:
    """An image value: ``vtype`` for each texel, ``size`` (W, H) of a tile, ``batch`` tiles.

    A Variable made by a user is a *leaf*: its values come from ``data`` (an array that fits ``shape``, kept as
    it is) or are sent to the engine later. Every other Variable is the output of its ``creator``.
    Arithmetic operators, comparisons, ``@``, indexing and swizzles (``v.xy``) build Functions; ``==`` stays the
    identity of the object, for images use ``F.equal``.
    """

    __slots__ = ("batch", "creator", "data", "domain", "id", "name", "size", "vtype", "where")

    def __init__(
        self,
        vtype: VType = VType.FLOAT,
        size: Size = (1, 1),
        batch: int = 1,
        *,
        name: str | None = None,
        data: Any = None,
        creator: Function | None = None,
    ):
        self.id = next(_serial)
        self.where = user_line() if creator is None else creator.where
        if not isinstance(vtype, VType):
            raise GraphError(
                f"the type of a Variable is FLOAT, VEC3, INT, ... of dressi.ad.types, not {vtype!r}"
            )
        self.vtype, self.domain = vtype, domain_of(size, batch)
        self.size, self.batch = self.domain
        self.name, self.creator = name, creator
        self.data = None if data is None else self.conform(data)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the NumPy array that holds the values: (batch, H, W) + vtype.shape."""
        return (self.batch, self.size[1], self.size[0], *self.vtype.shape)

    @property
    def is_leaf(self) -> bool:
        return self.creator is None

    def conform(self, values: Any, *, copy: bool = True) -> np.ndarray:
        """``values`` as an array of ``shape``; leading axes of length 1 may be left out. Raises GraphError.

        copy: False gives the array itself where it fits as it is.
        """
        array = np.asarray(values)
        if array.dtype == object or not np.can_cast(array.dtype, np.complex128):
            raise GraphError(f"{self} takes numbers, not values of type {array.dtype}")
        if self.vtype.is_int and array.dtype.kind in "fc":
            raise GraphError(f"{self} holds integers; convert the {array.dtype} array first")
        if array.dtype.kind == "c":
            raise GraphError(f"{self} takes real numbers, not values of type {array.dtype}")
        if self.vtype.is_int and array.dtype.itemsize > 2 and array.size:
            least, most = int(array.min()), int(array.max())
            if least < -(2**31) or most >= 2**31:
                wrong = least if least < -(2**31) else most
                raise GraphError(f"{self} holds integers of 32 bits; {wrong} is outside of [-2**31, 2**31)")
        array = array.astype(np.int64 if self.vtype.is_int else np.float64, copy=copy)
        if array.shape == self.shape:
            return array
        padded = (1,) * (len(self.shape) - array.ndim) + array.shape
        if padded == self.shape:
            return array.reshape(self.shape)
        raise GraphError(f"{self} takes an array of shape {self.shape}, not {array.shape}")

    def __str__(self) -> str:
        name = self.name or (f"{type(self.creator).__name__}#{self.id}" if self.creator else f"#{self.id}")
        return f"{self.vtype.name} {name} ({self.domain})"

    __repr__ = __str__

    # Operators: thin, the meaning is in functional.py.
    __array_ufunc__ = None  # NumPy numbers and arrays on the left leave the operation to the Variable

    def __add__(self, other: Any) -> Variable:
        return _f().add(self, other)

    def __radd__(self, other: Any) -> Variable:
        return _f().add(other, self)

    def __sub__(self, other: Any) -> Variable:
        return _f().sub(self, other)

    def __rsub__(self, other: Any) -> Variable:
        return _f().sub(other, self)

    def __mul__(self, other: Any) -> Variable:
        return _f().mul(self, other)

    def __rmul__(self, other: Any) -> Variable:
        return _f().mul(other, self)

    def __truediv__(self, other: Any) -> Variable:
        return _f().div(self, other)

    def __rtruediv__(self, other: Any) -> Variable:
        return _f().div(other, self)

    def __mod__(self, other: Any) -> Variable:
        return _f().mod(self, other)

    def __pow__(self, other: Any) -> Variable:
        return _f().pow(self, other)

    def __matmul__(self, other: Any) -> Variable:
        return _f().matmul(self, other)

    def __neg__(self) -> Variable:
        return _f().neg(self)

    def __lt__(self, other: Any) -> Variable:
        return _f().less(self, other)

    def __le__(self, other: Any) -> Variable:
        return _f().less_equal(self, other)

    def __gt__(self, other: Any) -> Variable:
        return _f().less(other, self)

    def __ge__(self, other: Any) -> Variable:
        return _f().less_equal(other, self)

    def __getitem__(self, key: int | slice) -> Variable:
        return _f().component(self, key)

    def __getattr__(self, name: str) -> Variable:
        if 1 <= len(name) <= 4 and (set(name) <= set("xyzw") or set(name) <= set("rgba")):
            return _f().swizzle(self, name)
        raise AttributeError(f"Variable has no attribute {name!r}")

    def __bool__(self) -> bool:
        raise GraphError(
            "a Variable has no truth value while the graph is built; use F.select(condition, a, b)"
        )

    def __iter__(self):
        return (self[i] for i in range(self.vtype.shape[-1] if self.vtype.shape else 0))


def _f() -> Any:
    from . import functional

    return functional


def as_variable(value: Any) -> Variable:
    """A Variable, or a constant made of a number, a tuple of numbers or a small array."""
    return value if isinstance(value, Variable) else _f().constant(value)
