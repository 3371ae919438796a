"""Matrices: columns, products, inverse. NumPy holds [row, column]; GLSL builds and indexes by columns."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from . import functional as F
from .constant import Like, floats
from .graph import PixelFunction, Variable
from .types import VType, matrix_type, vector_type
from .vector import Bilinear, Construct, Linear


class Columns(PixelFunction):
    """The matrix with the given columns."""

    exact = True

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

    def jvp(self, tangents):
        if all(t is None for t in tangents):
            return None
        parts = [
            F.constant(0.0, x.vtype) if t is None else t for t, x in zip(tangents, self.inputs, strict=True)
        ]
        return F.fit(Columns(*parts).output, self.output)


class Column(Linear):
    """Column ``number`` of a matrix."""

    exact = True
    fields = ("number",)

    def __init__(self, x: Variable, number: int):
        self.number = number
        super().__init__(x)

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
        return Columns(*(gy if j == self.number else F.constant(0.0, gy.vtype) for j in range(order))).output


class Fill(Linear):
    """A matrix with the scalar in every element."""

    exact = True
    fields = ("vtype",)

    def __init__(self, x: Variable, vtype: VType):
        self.vtype = vtype
        super().__init__(x)

    def infer(self):
        if not self.inputs[0].vtype.is_scalar or not self.vtype.is_matrix:
            raise self.fail("fills a matrix with a scalar")
        return self.vtype, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        rows, columns = self.vtype.shape
        return f"{self.vtype.glsl}({', '.join([f'vec{rows}($0)'] * columns)})"

    def eval(self, x):
        return np.broadcast_to(x[..., None, None], x.shape + self.vtype.shape)

    def transpose(self, gy):
        return F.sum_components(gy)


class Transpose(Linear):
    """Rows and columns exchanged."""

    exact = True
    glsl = "transpose($0)"

    def infer(self):
        if not self.inputs[0].vtype.is_matrix:
            raise self.fail("takes a matrix")
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return np.swapaxes(x, -1, -2)

    def transpose(self, gy):
        return transpose(gy)


class MatMul(Bilinear):
    """matrix @ matrix, or matrix @ vector."""

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
            return matmul(transpose(a), gy)
        return matmul(gy, transpose(b)) if b.vtype.is_matrix else Outer(gy, b).output


class Outer(Bilinear):
    """The matrix of products: element [i, j] is a[i] * b[j]."""

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
        return matmul(gy, b) if i == 0 else matmul(transpose(gy), a)


class Inverse(PixelFunction):
    """The inverse matrix; not finite where the matrix is singular."""

    glsl = "inverse($0)"

    def infer(self):
        if not self.inputs[0].vtype.is_matrix:
            raise self.fail("takes a matrix")
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        singular = np.linalg.det(x) == 0
        safe = np.where(singular[..., None, None], np.eye(x.shape[-1]), x)
        return np.where(singular[..., None, None], np.nan, np.linalg.inv(safe))

    def vjp(self, gy, i):
        turned = transpose(self.output)
        return -(turned @ gy @ turned)

    def jvp(self, tangents):
        return None if tangents[0] is None else -(self.output @ tangents[0] @ self.output)


class Determinant(PixelFunction):
    """The determinant. The derivative at singular matrices is exact up to order 3."""

    glsl = "determinant($0)"

    def infer(self):
        if not self.inputs[0].vtype.is_matrix:
            raise self.fail("takes a matrix")
        return vector_type(1), self.broadcast()

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
            return Columns(F.cross(c[1], c[2]), F.cross(c[2], c[0]), F.cross(c[0], c[1])).output
        return self.output * transpose(inverse(x))

    def vjp(self, gy, i):
        return gy * self._cofactors()

    def jvp(self, tangents):
        (tangent,) = tangents
        return None if tangent is None else F.sum_components(F.hadamard(tangent, self._cofactors()))


def mat2(*columns: Like) -> Variable:
    """MAT2 of two columns VEC2."""
    return Columns(*floats(*columns)).output


def mat3(*columns: Like) -> Variable:
    """MAT3 of three columns VEC3."""
    return Columns(*floats(*columns)).output


def mat4(*columns: Like) -> Variable:
    """MAT4 of four columns VEC4."""
    return Columns(*floats(*columns)).output


def column(m: Variable, j: int) -> Variable:
    """VECn: column j of a matrix."""
    return Column(m, j + m.vtype.shape[-1] if j < 0 and m.vtype.is_matrix else j).output


def matmul(a: Like, b: Like) -> Variable:
    """matrix @ matrix, matrix @ vector, or vector @ matrix (a row vector)."""
    a, b = floats(a, b)
    if b.vtype.is_matrix and not a.vtype.is_matrix and not a.vtype.is_scalar:
        return MatMul(transpose(b), a).output
    return MatMul(a, b).output


def transpose(m: Like) -> Variable:
    """Rows and columns of a matrix exchanged."""
    return Transpose(*floats(m)).output


def inverse(m: Like) -> Variable:
    """Inverse of a matrix; not finite where it is singular."""
    return Inverse(*floats(m)).output


def determinant(m: Like) -> Variable:
    """FLOAT: determinant of a matrix."""
    return Determinant(*floats(m)).output


def outer(a: Like, b: Like) -> Variable:
    """MATn: element [i, j] is a[i] * b[j] of two VECn."""
    return Outer(*floats(a, b)).output


def fill(x: Variable, vtype: VType) -> Variable:
    """The scalar x in every component of ``vtype``."""
    if vtype.is_scalar:
        return x
    return Fill(x, vtype).output if vtype.is_matrix else Construct(vtype, x).output
