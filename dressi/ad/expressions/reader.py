"""Variables as expressions: each component of a value of one texel is an expression of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from ...errors import GraphError
from ..graph import Function, Variable
from ..graph.traversal import producers_first
from ..graph.types import Access
from ..loops.loop import Recomputed
from ..ops.image.reduce import Expand
from ..ops.pixel.arithmetic import Add, Div, Mix, Mul, Sub
from ..ops.pixel.compare import Select, greater, guarded
from ..ops.pixel.constant import Constant
from ..ops.pixel.elementary import InverseSqrt, Pow, Sqrt, sqrt
from ..ops.pixel.geometry import Cross, Dot, Length, Normalize, dot
from ..ops.pixel.hints import Recompute, Store
from ..ops.pixel.kinds import Pointwise, Shortcut
from ..ops.pixel.math import Neg, Square
from ..ops.pixel.matrix import Column, Columns, Determinant, Inverse, MatMul, Outer, Transpose
from ..ops.pixel.vector import Construct, Fill, Spread, SumComponents, Swizzle
from ..transform.fused import Whole
from .table import Scaled, Table

Components = tuple[Scaled, ...]
"""The components of a value of one texel, those of a matrix row by row."""


class Value:
    """An expression with operators, so that the NumPy meaning of Functions computes with expressions."""

    __slots__ = ("at", "table")
    __array_priority__ = 1.0

    def __init__(self, table: Table, at: Scaled):
        self.table, self.at = table, at

    def _other(self, x: Any) -> Scaled:
        return x.at if isinstance(x, Value) else self.table.constant(float(x))

    def __add__(self, x: Any) -> Value:
        return Value(self.table, self.table.sum((self.at, self._other(x))))

    def __sub__(self, x: Any) -> Value:
        return Value(self.table, self.table.sum((self.at, -self._other(x))))

    def __mul__(self, x: Any) -> Value:
        return Value(self.table, self.table.multiplied(self.at, self._other(x)))

    def __truediv__(self, x: Any) -> Value:
        return Value(self.table, self.table.divided(self.at, self._other(x)))

    def __rtruediv__(self, x: Any) -> Value:
        return Value(self.table, self.table.divided(self._other(x), self.at))

    def __neg__(self) -> Value:
        return Value(self.table, -self.at)

    def __rsub__(self, x: Any) -> Value:
        return -self + x

    __radd__, __rmul__ = __add__, __mul__


def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (
        (a[..., :, :, None] * b[..., None, :, :]).sum(axis=-2)
        if b.ndim == a.ndim
        else (a * b[..., None, :]).sum(axis=-1)
    )


def _determinant(m: np.ndarray) -> np.ndarray:
    if m.shape[-1] == 1:
        return m[..., 0, 0]
    terms = [m[..., 0, j] * _determinant(_minor(m, 0, j)) for j in range(m.shape[-1])]
    total = terms[0]
    for j, term in enumerate(terms[1:], 1):
        total = total - term if j % 2 else total + term
    return total


def _minor(m: np.ndarray, i: int, j: int) -> np.ndarray:
    return np.delete(np.delete(m, i, axis=-2), j, axis=-1)


def _inverse(m: np.ndarray) -> np.ndarray:
    """The transposed cofactors over the determinant."""
    n, below = m.shape[-1], 1.0 / _determinant(m)
    inverse = np.empty(m.shape, object)
    for i, j in np.ndindex(n, n):
        cofactor = _determinant(_minor(m, j, i)) * below
        inverse[..., i, j] = -cofactor if (i + j) % 2 else cofactor
    return inverse


ALGEBRA: dict[type[Function], Callable[..., Any]] = {
    Add: lambda f, a, b: a + b,
    Sub: lambda f, a, b: a - b,
    Mul: lambda f, a, b: a * b,
    Div: lambda f, a, b: a / b,
    Neg: lambda f, a: -a,
    Square: lambda f, a: a * a,
    Mix: lambda f, a, b, t: a + (b - a) * t,
    MatMul: lambda f, a, b: _matmul(a, b),
    Determinant: lambda f, m: _determinant(m),
    Inverse: lambda f, m: _inverse(m),
    Shortcut: lambda f, a, b: b,
    Recomputed: lambda f, a, *_: a,
    **dict.fromkeys((Expand, Store, Recompute), lambda f, a: a),
    **dict.fromkeys(
        (Construct, Swizzle, Spread, SumComponents, Fill, Column, Columns, Transpose, Dot, Cross, Outer),
        lambda f, *x: f.eval(*x),
    ),
}
"""Functions that are sums and products of components; the others of one texel are calls."""

_SCALARS: dict[type[Function], Callable[..., Scaled]] = {
    Add: lambda table, a, b: table.sum((a, b)),
    Sub: lambda table, a, b: table.sum((a, -b)),
    Mul: Table.multiplied,
    Div: Table.divided,
    Neg: lambda table, a: -a,
}
"""The commonest of them for scalars, at once."""


def _unit(x: Variable) -> Variable:
    norm = sqrt(dot(x, x))
    return x * guarded(greater(norm, 0.0), lambda n: 1.0 / n, norm)


ORDINARY: dict[type[Function], Callable[..., Variable]] = {
    Length: lambda x: sqrt(dot(x, x)),
    Normalize: _unit,
}
"""Functions that are graphs of those above. A length of 0 keeps its derivative of 0."""


def ordinary(f: Function) -> tuple[Sequence[Variable], Variable]:
    """The graph of one of ``ORDINARY`` or of those made by ``fused``: its formals and its root."""
    if isinstance(f, Whole):
        return f.graph.formals, f.graph.root
    formals = [Variable(x.vtype) for x in f.inputs]
    return formals, ORDINARY[type(f)](*formals)


class Reader:
    """Expressions of Variables in one table. given: Variables that are symbols although they are computed."""

    def __init__(self, table: Table, given: Iterable[Variable] = ()):
        self.table = table
        self.leaves: dict[Variable, Components] = {}
        self.known: dict[Variable, Components] = {}  # all that were read
        for v in given:
            self._symbol(v)

    def put(self, known: Mapping[Variable, Components]) -> None:
        """Declares what Variables are, whatever made them."""
        self.known.update(known)

    def read(self, variables: Iterable[Variable]) -> list[Components]:
        variables = list(variables)
        self.run(self.order(variables))
        return [self.known[v] for v in variables]

    def order(self, variables: Iterable[Variable]) -> list[tuple[Variable, Function | None]]:
        """What must be read for the Variables, each with its creator: symbols, with None, first."""
        made: dict[Variable, Function | None] = {}

        def makers(v: Variable) -> Sequence[Variable]:
            if v in self.known:
                return ()
            f = v.creator
            made[v] = f = f if f is not None and readable(f) else None
            return f.inputs if f is not None else ()

        order = [v for v in producers_first(variables, makers) if v in made]
        symbols = [(v, None) for v in order if made[v] is None]
        return [*symbols, *[(v, f) for v in order if (f := made[v]) is not None]]

    def run(self, order: Iterable[tuple[Variable, Function | None]]) -> None:
        """Reads what ``order`` gave, of this reader or of another that knew the same Variables."""
        for v, f in order:
            if f is None:
                self._symbol(v)
                continue
            try:
                self.known[v] = self._function(f)
            except ZeroDivisionError:
                raise f.fail("divides by a constant zero") from None

    def _symbol(self, v: Variable) -> None:
        components = range(v.vtype.components)
        self.known[v] = self.leaves[v] = tuple([self.table.symbol((v, k)) for k in components])

    def _function(self, f: Function) -> Components:
        kind, table, vtype, known = type(f), self.table, f.output.vtype, self.known
        if vtype.is_scalar and kind in _SCALARS:
            return (_SCALARS[kind](table, *[known[x][0] for x in f.inputs]),)
        if isinstance(f, Constant):
            return tuple([table.constant(x) for x in f.value])
        inputs = [known[x] for x in f.inputs]
        algebra = ALGEBRA.get(kind)
        if algebra is not None and vtype.is_scalar and isinstance(f, Pointwise):
            return (self._scaled(algebra(f, *[Value(table, x) for (x,) in inputs])),)
        if algebra is not None:
            shapes = [x.vtype.shape for x in f.inputs]
            if isinstance(f, Pointwise):
                shapes = [shape or (1,) * len(vtype.shape) for shape in shapes]
            lifted = [self._values(x, shape) for x, shape in zip(inputs, shapes, strict=True)]
            values = np.broadcast_to(np.asarray(algebra(f, *lifted), object), (1, 1, 1, *vtype.shape))
            return tuple([self._scaled(x) for x in values.ravel()])
        if kind in ORDINARY or isinstance(f, Whole):
            formals, root = ordinary(f)
            inner = Reader(table)
            inner.put(dict(zip(formals, inputs, strict=True)))
            return inner.read([root])[0]
        columns = [x if len(x) == vtype.components else x * vtype.components for x in inputs]
        rows = zip(*columns, strict=True)
        if kind in (InverseSqrt, Sqrt):
            power = -1 if kind is InverseSqrt else 1
            return tuple([table.product(((table.call((Sqrt, ()), x), power),)) for x in rows])
        if kind is Pow and all(
            s.is_constant and type(s.factor) is int and abs(s.factor) <= 16 for s in inputs[1]
        ):
            return tuple([table.product(((x, int(n.factor)),)) for x, n in rows])
        return tuple([table.call((kind, f.attributes), x) for x in rows])

    def _values(self, x: Components, shape: tuple[int, ...]) -> np.ndarray:
        values = np.empty(len(x), object)
        values[:] = [Value(self.table, item) for item in x]
        return values.reshape(1, 1, 1, *shape)

    def _scaled(self, x: Any) -> Scaled:
        return x.at if isinstance(x, Value) else self.table.constant(float(x))


def floats(given: Variable | Iterable[Variable], of: str, role: str) -> list[Variable]:
    """One Variable or several as a list. Raises GraphError, with their role, unless they are floats."""
    several = isinstance(given, Iterable) and not isinstance(given, Variable)
    variables: list[Any] = list(given) if several else [given]
    if not variables:
        raise GraphError(f"{of} has no {role}: give one float Variable or more")
    for x in variables:
        if not isinstance(x, Variable) or x.vtype.is_int:
            raise GraphError(f"each {role} of {of} is a float Variable, not {x!r}")
    return variables


def readable(f: Function) -> bool:
    """Whether the components of its output are expressions of those of its inputs."""
    if f.output.vtype.is_int or True in [x.vtype.is_int for x in f.inputs]:
        return False
    if type(f) in ALGEBRA:
        return True
    if isinstance(f, Constant):
        return all(map(isfinite, f.value))
    if isinstance(f, Whole):
        return not f.slopes and all(map(readable, f.graph.functions))
    if type(f) in ORDINARY:
        return not f.inputs[0].vtype.is_scalar
    pointwise = isinstance(f, Pointwise) or type(f) is Select
    return pointwise and all(a is Access.SAME_PIXEL for a in f.access) and not f.places
