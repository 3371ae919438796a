"""Columns, products, inverse, components. NumPy indexes matrices [row, column], GLSL by columns."""

from __future__ import annotations

from functools import cached_property, reduce

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...graph.operators import operator
from ...graph.types import matrix_type, vector_type
from .arithmetic import hadamard, maximum
from .constant import Like, constant, floats
from .geometry import cross
from .kinds import Bilinear, Linear
from .vector import XYZW, Assembly, Construct, sum_components, swizzle

__all__ = [
    "column", "component", "determinant", "inverse", "mat2", "mat3", "mat4", "max_component", "outer",
    "transpose",
]  # fmt: skip


class Columns(Assembly):
    def infer(self):
        order = len(self.inputs)
        if order not in (2, 3, 4) or any(x.vtype is not vector_type(order) for x in self.inputs):
            raise self.fail("a matrix of order n is made of n columns VECn")
        return matrix_type(order), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"mat{len(self.inputs)}({', '.join(f'${j}' for j in range(len(self.inputs)))})"

    def eval(self, *x):
        return np.stack(np.broadcast_arrays(*x), axis=-1)

    def vjp(self, gy, i):
        return column(gy, i)


class Column(Linear):
    operations = 1.0
    exact = True
    fields = ("number",)
    number: int

    def infer(self):
        x = self.inputs[0].vtype
        if not x.is_matrix or not 0 <= self.number < x.shape[1]:
            raise self.fail(f"there is no column {self.number}")
        return vector_type(x.shape[0]), self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"$0[{self.number}]"

    def eval(self, x):
        return x[..., self.number]

    def transpose(self, gy):
        order = self.inputs[0].vtype.shape[1]
        return Columns(*(gy if j == self.number else constant(0.0, gy.vtype) for j in range(order))).output


class OfMatrix(PixelFunction):
    """The base of Functions of one matrix."""

    def infer(self):
        if not self.inputs[0].vtype.is_matrix:
            raise self.fail("takes a matrix")
        return self.inputs[0].vtype, self.broadcast()


class Transpose(OfMatrix, Linear):
    operations = 2.0
    exact = True
    glsl = "transpose($0)"

    def eval(self, x):
        return np.swapaxes(x, -1, -2)

    def transpose(self, gy):
        return transpose(gy)


class MatMul(Bilinear):
    """matrix @ matrix, or matrix @ vector."""

    operations = 2.0
    glsl = "$0 * $1"

    def infer(self):
        a, b = (x.vtype for x in self.inputs)
        if not a.is_matrix or b.is_scalar or b.is_int or b.shape[0] != a.shape[1]:
            raise self.fail("takes a matrix and a matrix or vector of the same order; use * for scalars")
        return b, self.broadcast()

    def eval(self, a, b):
        return a @ b if self.inputs[1].vtype.is_matrix else np.einsum("...ij,...j->...i", a, b)

    def vjp(self, gy, i):
        a, b = self.inputs
        if i == 1:
            return product(transpose(a), gy)
        return product(gy, transpose(b)) if b.vtype.is_matrix else Outer(gy, b).output


class Outer(Bilinear):
    operations = 2.0
    glsl = "outerProduct($0, $1)"

    def infer(self):
        a, b = (x.vtype for x in self.inputs)
        if a != b or a.is_scalar or a.is_matrix or a.is_int:
            raise self.fail("takes two vectors of one type")
        return matrix_type(a.components), self.broadcast()

    def eval(self, a, b):
        return a[..., :, None] * b[..., None, :]

    def vjp(self, gy, i):
        a, b = self.inputs
        return product(gy, b) if i == 0 else product(transpose(gy), a)


class Inverse(OfMatrix):
    operations = 31.0
    glsl = "inverse($0)"

    def eval(self, x):
        singular = np.linalg.det(x) == 0
        safe = np.where(singular[..., None, None], np.eye(x.shape[-1]), x)
        return np.where(singular[..., None, None], np.nan, np.linalg.inv(safe))

    def vjp(self, gy, i):
        turned = transpose(self.output)
        return -(turned @ gy @ turned)

    def jvp(self, tangents):
        return None if tangents[0] is None else -(self.output @ tangents[0] @ self.output)


class Determinant(OfMatrix):
    """The determinant. The derivative at singular matrices is exact up to order 3."""

    operations = 31.0
    glsl = "determinant($0)"

    def infer(self):
        return vector_type(1), super().infer()[1]

    def eval(self, x):
        return np.linalg.det(x)

    def _cofactors(self) -> Variable:
        x = self.inputs[0]
        c = [column(x, j) for j in range(x.vtype.shape[1])]
        if len(c) == 2:
            return Columns(
                Construct(vector_type(2), c[1].y, -c[1].x).output,
                Construct(vector_type(2), -c[0].y, c[0].x).output,
            ).output
        if len(c) == 3:
            return Columns(cross(c[1], c[2]), cross(c[2], c[0]), cross(c[0], c[1])).output
        return self.output * transpose(inverse(x))

    def vjp(self, gy, i):
        return gy * self._cofactors()

    def jvp(self, tangents):
        (tangent,) = tangents
        return None if tangent is None else sum_components(hadamard(tangent, self._cofactors()))


def mat2(*columns: Like) -> Variable:
    """MAT2 of two columns VEC2. Domains broadcast. Differentiable. Raises GraphError for other columns.

    >>> evaluate(F.mat2((1.0, 2.0), (3.0, 4.0)))[0, 0, 0].tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    return Columns(*floats(*columns)).output


def mat3(*columns: Like) -> Variable:
    """MAT3 of three columns VEC3. Domains broadcast. Differentiable. Raises GraphError for other columns.

    >>> evaluate(F.mat3((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (5.0, 6.0, 1.0)))[0, 0, 0].tolist()
    [[1.0, 0.0, 5.0], [0.0, 1.0, 6.0], [0.0, 0.0, 1.0]]
    """
    return Columns(*floats(*columns)).output


def mat4(*columns: Like) -> Variable:
    """MAT4 of four columns VEC4. Domains broadcast. Differentiable. Raises GraphError for other columns.

    >>> evaluate(F.mat4(*np.eye(4)))[0, 0, 0].tolist() == np.eye(4).tolist()
    True
    """
    return Columns(*floats(*columns)).output


def column(m: Variable, j: int) -> Variable:
    """Column j of a matrix; the operator ``m[j]``.

    m: MATn. j: 0 to n - 1, or from the end if negative. The result is a VECn. Differentiable. Raises
    GraphError.

    >>> m = Variable.of([[1.0, 2.0], [3.0, 4.0]], MAT2)
    >>> evaluate(F.column(m, 1)).ravel().tolist()
    [2.0, 4.0]
    """
    return Column(m, j + m.vtype.shape[-1] if j < 0 and m.vtype.is_matrix else j).output


def product(a: Variable, b: Variable) -> Variable:
    """Products of matrices and vectors: MATn @ MATn, MATn @ VECn, or VECn @ MATn of a row vector."""
    if b.vtype.is_matrix and not a.vtype.is_matrix and not a.vtype.is_scalar:
        return MatMul(transpose(b), a).output
    return MatMul(a, b).output


def transpose(m: Like) -> Variable:
    """A matrix with rows and columns exchanged.

    m: MATn. The result has its type and domain. Differentiable. Raises GraphError.

    >>> evaluate(F.transpose([[1.0, 2.0], [3.0, 4.0]]))[0, 0, 0].tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    return Transpose(*floats(m, matrices=True)).output


def inverse(m: Like) -> Variable:
    """The inverse of a matrix; not finite where the matrix is singular.

    m: MATn. The result has its type and domain. Differentiable. Raises GraphError.

    >>> evaluate(F.inverse([[2.0, 0.0], [0.0, 4.0]]))[0, 0, 0].tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return Inverse(*floats(m, matrices=True)).output


def determinant(m: Like) -> Variable:
    """The determinant of a matrix.

    m: MATn. The result is FLOAT, of its domain. Differentiable, but at singular MAT4. Raises GraphError.

    >>> evaluate(F.determinant([[1.0, 2.0], [3.0, 5.0]])).round(4).item()
    -1.0
    """
    return Determinant(*floats(m, matrices=True)).output


def outer(a: Like, b: Like) -> Variable:
    """The matrix of products: element [i, j] is a[i] * b[j].

    a, b: VECn of one type. The result is a MATn. Differentiable in both. Raises GraphError.

    >>> evaluate(F.outer((1.0, 2.0), (3.0, 4.0)))[0, 0, 0].tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return Outer(*floats(a, b)).output


@operator
def component(x: Variable, key: int | slice | tuple[int, int]) -> Variable:
    """A part of a vector or matrix by number; the operator ``x[key]``.

    x: a vector: key is a number (a scalar results) or a slice (a shorter vector). x: a matrix: key is the
    number of a column (VECn), or (row, column) of an element. Negative numbers count from the end.
    Differentiable. Raises GraphError.

    >>> x = Variable.of([1.0, 2.0, 3.0], VEC3)
    >>> evaluate([F.component(x, -1), x[0]])[0].item(), evaluate(x[:2]).ravel().tolist()
    (3.0, [1.0, 2.0])
    """
    if x.vtype.is_matrix:
        if isinstance(key, tuple):
            row, j = key
            return component(column(x, j), row)
        if isinstance(key, int):
            return column(x, key)
    elif isinstance(key, slice):
        keys = tuple(range(x.vtype.components))[key]
        return swizzle(x, "".join(XYZW[k] for k in keys))
    elif isinstance(key, int) and -x.vtype.components <= key < x.vtype.components:
        return swizzle(x, XYZW[range(x.vtype.components)[key]])
    raise GraphError(f"{x} has no component {key!r}")


def max_component(x: Variable) -> Variable:
    """The largest component of a vector or matrix.

    x: any type. The result is FLOAT (INT), of the domain of x. The gradient goes to the first of the largest.

    >>> evaluate(F.max_component(Variable.of([1.0, 3.0, 2.0], VEC3))).item()
    3.0
    """
    if x.vtype.is_scalar:
        return x
    best = reduce(maximum, [component(x, k) for k in range(x.vtype.shape[-1])])
    return max_component(best)
