"""Variables: the values of a computation, immutable."""

from __future__ import annotations

import itertools
import math
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import GraphError
from .arrays import layout_of
from .types import Size, VType, list_image, list_values, size_of, whole

if TYPE_CHECKING:
    from .graph import Function

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
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


_inside: dict[str, bool] = {}


def _is_inside(file: str) -> bool:
    """Whether a file is of this, the standard library or another installed package, or no file at all."""
    return (
        file.startswith((_PACKAGE, _STANDARD, "<frozen"))
        or "site-packages" in file
        or "dist-packages" in file
    )


def user_line(made: object = None) -> str:
    """The innermost line outside of this and other installed packages: the line of user code being executed.

    made: the object under construction; its own ``__init__`` is passed over, the line that calls it counts.
    """
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        inside = _inside.get(file)
        if inside is None:
            inside = _inside[file] = _is_inside(file)
        if not inside and not (frame.f_code.co_name == "__init__" and _holds(frame, made)):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "dressi"


def _holds(frame: Any, made: object) -> bool:
    return made is not None and any(value is made for value in frame.f_locals.values())


def _inferred(creator: Function, vtype: Any, domain: Any) -> tuple[VType, Domain]:
    """What the infer of a user's Function gave. Raises GraphError."""
    try:
        size, batch = domain
        if isinstance(vtype, VType):
            return vtype, domain_of(size, batch)
    except (TypeError, ValueError, GraphError):
        pass
    raise creator.fail(f"infer returns a type and a domain ((W, H), batch), not {vtype!r} and {domain!r}")


class Variable:
    """An image value: ``vtype`` for each texel, ``size`` (W, H) of a tile, ``batch`` tiles.

    A Variable made by a user is a *leaf*: its values come from ``data`` (an array that fits ``shape``, kept as
    it is) or are sent to the engine later. Every other Variable is the output of its ``creator``, a Function.
    Arithmetic operators, comparisons, ``@``, indexing and swizzles (``v.xy``) build Functions; ``==`` stays the
    identity of the object, for images use ``F.equal``. Variables are immutable.

    domain: (size, batch). name: for errors, and for saved states. count: entries of a list, else None. id: a number of its
    own. where: the line of code that made it. Raises GraphError where type, size, batch or data do not fit.

    >>> image = Variable(VEC3, (64, 48), name="photograph")  # a leaf without values: send them, or pass them to evaluate
    >>> image, image.shape, image.is_leaf
    (VEC3 photograph (64x48), (1, 48, 64, 3), True)
    >>> grey = F.mean(image).x * 0.5
    >>> grey.vtype, grey.size, grey.is_leaf, evaluate(grey, {image: np.ones((48, 64, 3))}).item()
    (FLOAT, (1, 1), False, 0.5)
    """

    __slots__ = ("batch", "count", "creator", "data", "domain", "id", "name", "size", "vtype", "where")

    def __init__(
        self,
        vtype: VType = VType.FLOAT,
        size: Size = (1, 1),
        batch: int = 1,
        *,
        name: str | None = None,
        data: Any = None,
        creator: Function | None = None,
        count: int | None = None,
    ):
        self.id = next(_serial)
        self.count = count
        self.where = user_line() if creator is None else creator.where
        if not isinstance(vtype, VType):
            raise GraphError(
                f"the type of a Variable is FLOAT, VEC3, INT, ... of dressi.ad.types, not {vtype!r}"
            )
        self.vtype, self.domain = vtype, domain_of(size, batch)
        self.size, self.batch = self.domain
        self.name, self.creator = name, creator
        self.data = None if data is None else self.conform(data)

    @classmethod
    def made(cls, creator: Function, vtype: VType, domain: Domain, name: str | None = None) -> Variable:
        """The output of a Function: the constructor of a Function calls this."""
        self = object.__new__(cls)
        self.id = next(_serial)
        self.where = creator.where
        if type(domain) is not Domain or type(vtype) is not VType:
            vtype, domain = _inferred(creator, vtype, domain)
        self.vtype, self.domain = vtype, domain
        self.size, self.batch = domain
        self.name, self.creator, self.data, self.count = name, creator, None, None
        return self

    @classmethod
    def of(
        cls, values: Any, vtype: VType | None = None, *, batched: bool = False, name: str | None = None
    ) -> Variable:
        """A leaf that holds ``values``, with type, size and batch from the array's shape.

        Of the shape, 2 to 4 numbers at the end are the components of a vector. What is before them is nothing (one
        texel), (V,): a list of V entries, (H, W): an image, or (N, H, W): N images. vtype: the type, where the guess
        would be wrong or two are possible, as for (3, 3). batched: the first axis counts the batch (views), so that
        (N, 4, 4) with MAT4 are N matrices and (N, V, 3) N lists. Lists come back as lists: ``recv`` gives (V, ...), or
        (N, V, ...), of them and of what is computed from them entry by entry. Integers make INT types, everything else
        floats. Raises GraphError.

        >>> Variable.of([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
        VEC3 #... (2x1)
        >>> Variable.of(np.zeros((48, 64, 3)), name="photograph")
        VEC3 photograph (64x48)
        """
        array = np.asarray(values)
        vtype, size, batch, count = layout_of(array, vtype, batched)
        leaf = cls(vtype, size, batch, name=name, count=count)
        leaf.data = leaf.conform(array.reshape(leaf.shape if count is None else (batch, count, *vtype.shape)))
        return leaf

    def as_given(self, values: np.ndarray) -> np.ndarray:
        """Values of shape ``shape`` as the user gave them: lists lose their padding, and a batch of one.

        >>> vertices = Variable.of(np.zeros((5, 3)))
        >>> vertices.as_given(np.ones(vertices.shape)).shape
        (5, 3)
        """
        if self.count is None:
            return values
        entries = list_values(values, self.count)
        return entries[0] if self.batch == 1 else entries

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the NumPy array that holds the values: (batch, H, W) + vtype.shape."""
        return (self.batch, self.size[1], self.size[0], *self.vtype.shape)

    @property
    def is_leaf(self) -> bool:
        """Whether it is made by a user, and holds values instead of computing them."""

        return self.creator is None

    def conform(self, values: Any, *, copy: bool = True) -> np.ndarray:
        """``values`` as an array of ``shape``; leading axes of length 1 may be left out. Raises GraphError.

        copy: False gives the array itself where it fits as it is.

        >>> Variable(VEC2, (3, 1)).conform(np.ones((3, 2))).shape
        (1, 1, 3, 2)
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
        entries = self.shape
        if self.count is not None:
            entries = (self.count, *self.vtype.shape)
            same = array.shape[array.ndim - len(entries) :] == entries
            if same and array.size == self.batch * math.prod(entries):
                return np.concatenate([list_image(v) for v in array.reshape(self.batch, *entries)])
        padded = (1,) * (len(self.shape) - array.ndim) + array.shape
        if padded == self.shape:
            return array.reshape(self.shape)
        raise GraphError(f"{self} takes an array of shape {entries}, not {array.shape}")

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

    def __rmod__(self, other: Any) -> Variable:
        return _f().mod(other, self)

    def __pow__(self, other: Any) -> Variable:
        return _f().pow(self, other)

    def __rpow__(self, other: Any) -> Variable:
        return _f().pow(other, self)

    def __abs__(self) -> Variable:
        return _f().abs(self)

    def __pos__(self) -> Variable:
        return self

    def __matmul__(self, other: Any) -> Variable:
        return _f().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Variable:
        return _f().matmul(other, self)

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
