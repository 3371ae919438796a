"""Variables, Functions and the order among them: the whole of a computation, immutable."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..errors import GraphError
from .types import Access, Size, VType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_serial = itertools.count()


class Domain(NamedTuple):
    """Where an image has values: a batch of tiles of one size."""

    size: Size
    batch: int

    def __str__(self) -> str:
        return f"{self.size[0]}x{self.size[1]}" + (f" x {self.batch}" if self.batch != 1 else "")


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

    __slots__ = ("batch", "creator", "data", "id", "name", "size", "vtype", "where")

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
        width, height = (int(n) for n in size)
        if width < 1 or height < 1 or batch < 1:
            raise GraphError(
                f"a Variable needs at least one texel and one tile, not size {width}x{height}, batch {batch}"
                f" (at {self.where})"
            )
        self.vtype, self.size, self.batch = vtype, (width, height), int(batch)
        self.name, self.creator = name, creator
        self.data = None if data is None else self.conform(data)

    @property
    def domain(self) -> Domain:
        return Domain(self.size, self.batch)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the NumPy array that holds the values: (batch, H, W) + vtype.shape."""
        return (self.batch, self.size[1], self.size[0], *self.vtype.shape)

    @property
    def is_leaf(self) -> bool:
        return self.creator is None

    def conform(self, values: Any) -> np.ndarray:
        """``values`` as an array of ``shape``; leading axes of length 1 may be left out. Raises GraphError."""
        array = np.asarray(values)
        if array.dtype == object or not np.can_cast(array.dtype, np.complex128):
            raise GraphError(f"{self} takes numbers, not values of type {array.dtype}")
        if self.vtype.is_int and array.dtype.kind == "f":
            raise GraphError(f"{self} holds integers; convert the {array.dtype} array first")
        array = array.astype(np.int64 if self.vtype.is_int else np.float64)
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


class At(NamedTuple):
    """Where a Function is evaluated on the host: texel coordinates and tile, each broadcasting to (N, H, W)."""

    x: np.ndarray
    y: np.ndarray
    tile: np.ndarray


class Function:
    """One application of one operation. Subclass a *kind* (below), never this class.

    A subclass declares
      ``fields``    names of its attributes (not inputs): what makes two applications equal;
      ``access``    how each input is read (default: all SAME_PIXEL);
      ``infer``     type and domain of the output; raises GraphError through ``self.fail``;
      ``glsl``      the snippet, see below;
      ``eval``      the float64 NumPy meaning (``evaluate`` when it needs to know where it is);
      and its derivative in one of three ways: ``partials`` for component-wise Functions, ``vjp`` and ``jvp``
      for others, or nothing at all: then the derivative is zero.

    Snippets are GLSL in which ``$0``, ``$1`` stand for the inputs: an expression for SAME_PIXEL, the name of a
    function ``(ivec2 texel, int tile)`` for FETCH. ``$y`` is the output; a snippet without it is an
    expression. ``$size``, ``$batch``, ``$type`` describe the output, with a number (``$size0``) an input.
    ``pixel`` (ivec2, inside the tile) and ``tile`` (int) say where the shader runs. ``includes`` names files
    of ``shaders/`` the snippet needs.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    includes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *inputs: Variable):
        self.inputs = inputs
        self.where = user_line()
        vtype, domain = self.infer()
        self.output = Variable(vtype, domain[0], domain[1], creator=self)

    # ---- what a subclass declares
    @property
    def access(self) -> tuple[Access, ...]:
        return (Access.SAME_PIXEL,) * len(self.inputs)

    def infer(self) -> tuple[VType, Domain]:
        raise NotImplementedError

    if TYPE_CHECKING:
        glsl: Any  # a class attribute, or a property where the snippet depends on the application

    def eval(self, *x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def evaluate(self, at: At, *x: np.ndarray) -> np.ndarray:
        """Values at ``at``. SAME_PIXEL inputs arrive already there, FETCH inputs whole, (N, H, W) + shape."""
        return self.eval(*x)

    def partials(self, *x: Variable) -> tuple[Variable | None, ...]:
        """Component-wise Functions: the partial derivative by each input, None where it is zero."""
        return (None,) * len(x)

    def vjp(self, gy: Variable, i: int) -> Variable | None:
        """Gradient of input ``i`` given the gradient of the output; before broadcasting is undone. None: zero."""
        partial = self.partials(*self.inputs)[i]
        return None if partial is None else gy * partial

    def jvp(self, tangents: Sequence[Variable | None]) -> Variable | None:
        """Derivative of the output along the tangents of the inputs. None: zero."""
        total = None
        for partial, tangent in zip(self.partials(*self.inputs), tangents, strict=True):
            if partial is not None and tangent is not None:
                term = partial * tangent
                total = term if total is None else total + term
        return total

    def settled(self, known: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """The value wherever the inputs named by ``known`` have these values, None when it depends on more.

        Values have the shape of their types. Says where a Function has nothing to do; zero times anything is zero.
        """
        if not self.inputs or len(known) < len(self.inputs) or Access.FETCH in self.access:
            return None
        values = [np.reshape(known[i], (1, 1, 1, *x.vtype.shape)) for i, x in enumerate(self.inputs)]
        return np.reshape(self.eval(*values), self.output.vtype.shape)

    def _zero_with(self, known: Mapping[int, np.ndarray], *inputs: int) -> np.ndarray | None:
        """Zero when one of these inputs is known to be zero; else what ``settled`` says of Functions at large."""
        if any(i in known and not np.any(known[i]) for i in inputs):
            return np.zeros(self.output.vtype.shape)
        return Function.settled(self, known)

    # ---- what it gets
    @property
    def attributes(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def rebuild(self, *inputs: Variable) -> Function:
        """The same operation on other inputs (of the same types and domains)."""
        new = object.__new__(type(self))
        for name in self.fields:
            setattr(new, name, getattr(self, name))
        new.inputs = inputs
        new.where = self.where
        vtype, domain = new.infer()
        new.output = Variable(vtype, domain[0], domain[1], creator=new, name=self.output.name)
        return new

    def fail(self, reason: str) -> GraphError:
        """An error that names the Function, its inputs, and the line of user code. ``raise self.fail(...)``."""
        inputs = ", ".join(str(x) for x in self.inputs)
        return GraphError(f"{type(self).__name__}({inputs}): {reason} (at {self.where})")

    def broadcast(self, *variables: Variable) -> Domain:
        """The domain that the given inputs (default: all read at the same pixel) broadcast to."""
        if not variables:
            variables = tuple(
                x for x, a in zip(self.inputs, self.access, strict=True) if a is Access.SAME_PIXEL
            )
        dims = [1, 1, 1]
        for v in variables:
            for k, n in enumerate((*v.size, v.batch)):
                if dims[k] == 1:
                    dims[k] = n
                elif n not in (1, dims[k]):
                    raise self.fail(
                        "sizes and batches must be equal or 1; use F.resize, F.crop, F.take or F.expand"
                    )
        return Domain((dims[0], dims[1]), dims[2])

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.attributes or ''}"


class PixelFunction(Function):
    """Kind PIXEL: every output texel is computed by the snippet alone, in any order."""


class ReduceFunction(PixelFunction):
    """Kind REDUCE: an output texel loops over the texels of its input along ``axis``; the snippet holds the loop."""

    axis: str


class ScatterFunction(Function):
    """Kind SCATTER: each texel of the *source* domain adds to (or maximises) texels of the output table.

    ``inputs`` are ``(bound, value0, index0, value1, index1, ...)``: ``bound`` a FLOAT 1x1, at least the largest
    absolute value (fixed-point scale), values and indices read at the source pixel. Indices are INT (row by row
    through the table) or IVEC2 (texel); those outside the table are ignored. ``table`` is the output's domain:
    with batch 1 all tiles share it, else each source tile has its own. ``operation`` is "add" or "max".
    """

    fields = ("table", "operation")
    table: Domain
    operation: str

    @property
    def source(self) -> Domain:
        return self.broadcast(*self.inputs[1:])

    @property
    def pairs(self) -> list[tuple[Variable, Variable]]:
        """(value, index) pairs."""
        return list(zip(self.inputs[1::2], self.inputs[2::2], strict=True))


class RasterFunction(Function):
    """Kind RASTER: draws triangles; the output is the INT number of the winning face, -1 for none.

    ``inputs`` are ``(position, [faces,] *extra)``: clip positions VEC4 as a list, faces IVEC3 (absent: three
    consecutive positions make a triangle), and the images that the fragment sub-graph reads. ``fragment`` is the
    sub-graph: (depth, keep) Variables over the placeholders ``face`` and ``coordinates``. ``triangles`` is how
    many are drawn, ``triangles_per_face`` how many make a face, ``disjoint`` says that these never overlap.
    """

    fields = ("indexed", "size", "batch", "triangles", "triangles_per_face", "fragment", "disjoint")
    indexed: bool
    size: Size
    batch: int
    triangles: int
    triangles_per_face: int
    fragment: Any
    disjoint: bool

    @property
    def externals(self) -> tuple[Variable, ...]:
        """The images that the fragment sub-graph reads, one for each of its formals."""
        return self.inputs[2 if self.indexed else 1 :]


def as_variable(value: Any) -> Variable:
    """A Variable, or a constant made of a number, a tuple of numbers or a small array."""
    return value if isinstance(value, Variable) else _f().constant(value)


def topological_order(roots: Iterable[Variable]) -> list[Function]:
    """All Functions the roots depend on, producers first; equal graphs give equal orders. Iterative."""
    order: list[Function] = []
    done: set[int] = set()
    stack: list[tuple[Function, bool]] = [(r.creator, False) for r in reversed(list(roots)) if r.creator]
    while stack:
        function, expanded = stack.pop()
        if id(function) in done:
            continue
        if expanded:
            done.add(id(function))
            order.append(function)
            continue
        stack.append((function, True))
        for x in reversed(function.inputs):
            if x.creator is not None and id(x.creator) not in done:
                stack.append((x.creator, False))
    return order


def leaves(roots: Iterable[Variable]) -> list[Variable]:
    """All leaf Variables the roots depend on, in the order they were made."""
    roots = list(roots)
    found = {r for r in roots if r.is_leaf}
    for function in topological_order(roots):
        found.update(x for x in function.inputs if x.is_leaf)
    return sorted(found, key=lambda v: v.id)
