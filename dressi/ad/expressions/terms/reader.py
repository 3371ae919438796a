"""Variables as expressions: each component of a value of one texel is an expression of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...graph import Function, Variable
from ...ops.image.reduce import Expand
from ...ops.pixel.arithmetic import Add, Div, Mix, Mul, Sub
from ...ops.pixel.compare import Select, greater, guarded
from ...ops.pixel.constant import Constant
from ...ops.pixel.exponential import InverseSqrt, Pow, Sqrt, sqrt
from ...ops.pixel.geometry import Cross, Dot, Length, Normalize, dot
from ...ops.pixel.kinds import Pointwise
from ...ops.pixel.math import Neg, Square
from ...ops.pixel.matrix import Column, Columns, Determinant, Inverse, MatMul, Outer, Transpose
from ...ops.pixel.shortcut import Shortcut
from ...ops.pixel.vector import Construct, Fill, Spread, SumComponents, Swizzle
from ...traversal import producers_first
from ...types import Access
from .table import Scaled, Table


class Value:
    """An expression with operators, so that the meaning in NumPy of a Function computes with expressions, too."""

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
        return Value(self.table, self.table.product(((self.at, 1), (self._other(x), 1))))

    def __truediv__(self, x: Any) -> Value:
        return Value(self.table, self.table.product(((self.at, 1), (self._other(x), -1))))

    def __rtruediv__(self, x: Any) -> Value:
        return Value(self.table, self.table.product(((self._other(x), 1), (self.at, -1))))

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
    """By the first row."""
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
    found = np.empty(m.shape, object)
    for i, j in np.ndindex(n, n):
        cofactor = _determinant(_minor(m, j, i)) * below
        found[..., i, j] = -cofactor if (i + j) % 2 else cofactor
    return found


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
    Expand: lambda f, a: a,
    **dict.fromkeys(
        (Construct, Swizzle, Spread, SumComponents, Fill, Column, Columns, Transpose, Dot, Cross, Outer),
        lambda f, *x: f.eval(*x),
    ),
}
"""Functions that are sums and products of components; the others of one texel are calls."""


def _unit(x: Variable) -> Variable:
    norm = sqrt(dot(x, x))
    return x * guarded(greater(norm, 0.0), lambda n: 1.0 / n, norm)


ORDINARY: dict[type[Function], Callable[..., Variable]] = {
    Length: lambda x: sqrt(dot(x, x)),
    Normalize: _unit,
}
"""Functions that are graphs of those above. A length of 0 keeps its derivative of 0."""


class Reader:
    """Expressions of Variables in one table. given: Variables that are symbols although they are computed."""

    def __init__(self, table: Table, given: Iterable[Variable] = ()):
        self.table = table
        self.leaves: dict[Variable, np.ndarray] = {}
        self.known: dict[Variable, np.ndarray] = {}
        """Of each Variable that was read an array of Scaled, of the shape of its type."""
        for v in given:
            self._symbol(v)

    def put(self, known: Mapping[Variable, np.ndarray]) -> None:
        """What Variables are, whatever made them: an array of Scaled each."""
        self.known.update(known)

    def read(self, variables: Iterable[Variable]) -> list[np.ndarray]:
        """Of each Variable an array of Scaled, of the shape of its type."""
        variables = list(variables)
        self.run(self.order(variables))
        return [self.known[v] for v in variables]

    def order(self, variables: Iterable[Variable]) -> list[tuple[Variable, Function | None]]:
        """What is to be read for the Variables, each with what makes it: symbols, None, first."""
        made: dict[Variable, Function | None] = {}

        def makers(v: Variable) -> Sequence[Variable]:
            if v in self.known:
                return ()
            f = made[v] = v.creator if v.creator is not None and readable(v.creator) else None
            return f.inputs if f is not None else ()

        order = [(v, made[v]) for v in producers_first(variables, makers) if v in made]
        return sorted(order, key=lambda item: item[1] is not None)

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

    def _symbol(self, v: Variable) -> np.ndarray:
        count = v.vtype.components
        found = objects([self.table.symbol((v, k)) for k in range(count)], v.vtype.shape)
        self.known[v] = self.leaves[v] = found
        return found

    def _function(self, f: Function) -> np.ndarray:
        shape = f.output.vtype.shape
        if isinstance(f, Constant):
            return objects([self.table.constant(x) for x in f.value], shape)
        inputs = [self.known[x] for x in f.inputs]
        kind = type(f)
        algebra = ALGEBRA.get(kind)
        if algebra is not None and not shape and isinstance(f, Pointwise):
            found = algebra(f, *(Value(self.table, x.item()) for x in inputs))
            return objects([self._scaled(found)])
        if algebra is not None:
            lifted = [self._values(x) for x in inputs]
            if isinstance(f, Pointwise):
                lifted = [
                    x.reshape(x.shape + (1,) * len(shape)) if v.vtype.is_scalar else x
                    for x, v in zip(lifted, f.inputs, strict=True)
                ]
            found = np.asarray(algebra(f, *lifted), object)
            return objects(
                [self._scaled(x) for x in np.broadcast_to(found, (1, 1, 1, *shape)).ravel()], shape
            )
        if kind in ORDINARY:
            formals = [Variable(x.vtype) for x in f.inputs]
            inner = Reader(self.table)
            inner.put(dict(zip(formals, inputs, strict=True)))
            return inner.read([ORDINARY[kind](*formals)])[0]
        if kind in (InverseSqrt, Sqrt):
            power = -1 if kind is InverseSqrt else 1
            return self._each(
                shape, inputs, lambda x: self.table.product([(self.table.call((Sqrt, ()), [x]), power)])
            )
        if kind is Pow and all(
            s.is_constant and s.factor.denominator == 1 and abs(s.factor) <= 16 for s in inputs[1].ravel()
        ):
            return self._each(shape, inputs, lambda x, n: self.table.product([(x, int(n.factor))]))
        return self._each(shape, inputs, lambda *x: self.table.call((kind, f.attributes), x))

    def _each(
        self, shape: tuple[int, ...], inputs: list[np.ndarray], make: Callable[..., Scaled]
    ) -> np.ndarray:
        if not shape:
            return objects([make(*(x.item() for x in inputs))])
        count = int(np.prod(shape, dtype=int))
        columns = [_flat(x) * (1 if x.size == count else count) for x in inputs]
        return objects([make(*row) for row in zip(*columns, strict=True)], shape)

    def _values(self, x: np.ndarray) -> np.ndarray:
        return objects([Value(self.table, item) for item in _flat(x)], (1, 1, 1, *x.shape))

    def _scaled(self, x: Any) -> Scaled:
        return x.at if isinstance(x, Value) else self.table.constant(float(x))


def readable(f: Function) -> bool:
    """Whether the components of its output are expressions of those of its inputs."""
    if f.output.vtype.is_int or any(x.vtype.is_int for x in f.inputs):
        return False
    if isinstance(f, Constant):
        return bool(np.isfinite(f.value).all())
    if type(f) in ALGEBRA:
        return True
    if type(f) in ORDINARY:
        return not f.inputs[0].vtype.is_scalar
    pointwise = isinstance(f, Pointwise) or type(f) is Select
    return pointwise and all(a is Access.SAME_PIXEL for a in f.access) and not f.places


def _flat(x: np.ndarray) -> list[Any]:
    return x.ravel().tolist()


def objects(items: Sequence[Any], shape: tuple[int, ...] = ()) -> Any:
    """An array of tuples, which NumPy would take for more axes."""
    found = np.empty(len(items), object)
    for k, item in enumerate(items):
        found[k] = item
    return found.reshape(shape)
