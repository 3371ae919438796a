"""Sparse matrices as lists for the device, and their products with a list of values.

A matrix is stored by rows: the entries of row i are number ``offsets[i]`` to ``offsets[i + 1]``, each a VEC2
(column, value). Single precision counts columns exactly up to 2^24.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from ...ad import functional as F
from ...ad.contract.contraction import SumOfParts
from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.graph.types import INT, VEC2, Access, list_size
from ...errors import InputError
from ..core.lists import at_points, list_data, list_leaf, padded, read_list

Matrix = Any
"""A SciPy sparse array, which has no useful type annotations."""
MOST = 1 << 24
"""Largest number of columns of a matrix."""


@dataclass(frozen=True)
class Room:
    """Room of a matrix for other patterns of entries."""

    entries: int
    """Most entries of the matrix."""
    longest: int
    """Most entries of a row, and of a column."""


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows of a matrix as leaves."""

    offsets: Variable
    """INT list, one more than there are rows."""
    entries: Variable
    """VEC2 list: (column, value)."""
    room: Room | None = None
    """What other patterns may need; None: the pattern stays."""

    @cached_property
    def longest(self) -> int:
        """Entries of the row that has the most, or that it may have."""
        return self.room.longest if self.room else int(np.diff(list_data(self.offsets)).max(initial=0))


@dataclass(frozen=True, eq=False, repr=False)
class SparseMatrix:
    """Made by ``sparse_matrix``. Its values are data; its pattern is fixed, unless it has room for others."""

    shape: tuple[int, int]
    by_rows: Rows
    by_columns: Rows
    """The rows of the transposed matrix; the same lists when the matrix is symmetric."""

    @property
    def T(self) -> SparseMatrix:
        """The transposed matrix."""
        rows, columns = self.shape
        return SparseMatrix((columns, rows), self.by_columns, self.by_rows)

    @property
    def symmetric(self) -> bool:
        return self.by_rows is self.by_columns

    @property
    def array(self) -> Matrix:
        """The original matrix as a SciPy CSR array."""
        offsets = list_data(self.by_rows.offsets)[: self.shape[0] + 1]
        entries = list_data(self.by_rows.entries)[: offsets[-1]]
        return scipy.sparse.csr_array(
            (entries[:, 1], entries[:, 0].astype(np.int64), offsets.copy()), shape=self.shape
        )

    def __repr__(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]}"

    def data(self, matrix: Matrix) -> dict[Variable, np.ndarray]:
        """Data to send, by leaf, for other values with the same pattern, or with any pattern there is room
        for. Raises InputError."""
        arrays = {}
        for mine, other in ((self.by_rows, matrix), (self.by_columns, matrix.T)):
            new = _rows(other, "", mine.room)
            if mine.room is not None:
                arrays[mine.offsets] = new.offsets.data
            elif not (
                np.array_equal(list_data(mine.offsets), list_data(new.offsets))
                and np.array_equal(list_data(mine.entries)[:, 0], list_data(new.entries)[:, 0])
            ):
                raise InputError("the matrix has entries at other places; make a new sparse_matrix of it")
            arrays[mine.entries] = list_data(new.entries).reshape(mine.entries.shape)
        return arrays


def sparse_matrix(matrix: Matrix, name: str = "matrix", room: Room | None = None) -> SparseMatrix:
    """A SciPy sparse matrix as leaves; stored zeros are kept. room: for other patterns, which then are data
    as well. Raises InputError."""
    rows: Matrix = scipy.sparse.csr_array(matrix)
    if max(rows.shape) > MOST or not np.isfinite(rows.data).all():
        raise InputError(f"a matrix has finite values and at most {MOST} columns; this one is {rows.shape}")
    by_rows, (height, width) = _rows(rows, name, room), rows.shape
    symmetric = height == width and abs(rows - rows.T).max() == 0
    by_columns = by_rows if symmetric else _rows(rows.T, f"{name} transposed", room)
    return SparseMatrix((int(height), int(width)), by_rows, by_columns)


def _rows(matrix: Matrix, name: str, room: Room | None = None) -> Rows:
    rows: Matrix = scipy.sparse.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    entries = np.stack([rows.indices, rows.data], axis=1) if rows.nnz else np.zeros((1, 2))
    offsets = rows.indptr.astype(np.int64)
    if room is not None:
        longest = int(np.diff(offsets).max(initial=0))
        if rows.nnz > room.entries or longest > room.longest:
            raise InputError(
                f"the matrix has {rows.nnz} entries, {longest} in a row, and room for {room.entries} and"
                f" {room.longest}; make a new sparse_matrix of it"
            )
        entries = padded(entries, room.entries)
    return Rows(list_leaf(f"{name} offsets", INT, offsets), list_leaf(name, VEC2, entries), room)


class SparseRows(PixelFunction):
    """Base of the two Functions below: sums over the entries of the rows of ``matrix``, 0 beyond the last
    row.

    Inputs: values list, offsets INT list, entries VEC2 list. Linear in the values; asking for a derivative by
    the entries raises GraphError.  length: 0, or how many entries of a row make a partial sum, which the
    planner asks for on devices on which long rows are slow. The partial sums of a row lie in tiles behind
    each other: a batch of N has N * ``parts`` tiles.
    """

    fields = ("matrix", "length")
    term: str

    def __init__(self, values: Variable, matrix: SparseMatrix, length: int = 0):
        self.matrix, self.length = matrix, length
        super().__init__(values, matrix.by_rows.offsets, matrix.by_rows.entries)

    @property
    def iterations(self) -> int:
        return self.length or self.matrix.by_rows.longest

    @property
    def parts(self) -> int:
        """Partial sums of a row."""
        return -(-self.matrix.by_rows.longest // self.length) if self.length else 1

    def shortened(self, most):
        if self.length:
            return None
        partial = type(self)(self.inputs[0], self.matrix, most)
        return SumOfParts(partial.output, partial.parts, self.inputs[0].channels).output

    @cached_property
    def access(self):
        return (Access.FETCH,) * 3

    def infer(self):
        values, offsets, entries = self.inputs
        if values.vtype.is_int or values.vtype.is_matrix:
            raise self.fail("takes a list of FLOAT or vectors")
        if offsets.vtype is not INT or entries.vtype is not VEC2 or offsets.batch * entries.batch != 1:
            raise self.fail("offsets are an INT list, entries a VEC2 list, of batch 1")
        rows, columns = self.matrix.shape
        if values.size[0] * values.size[1] < columns:
            raise self.fail(f"{values} does not hold {columns} entries, one for each column")
        size = values.size if rows == columns else list_size(rows)
        channels = 1 if self.length else values.channels
        return values.vtype, Domain(size, values.tiles * self.parts, channels)

    @cached_property
    def glsl(self) -> str:
        tile, begin, end = "tile", "", ""
        if self.length:
            tile, begin = f"tile / {self.parts}", f" + tile % {self.parts} * {self.length}"
            end = f"  end = min(end, {{begin}}{begin} + {self.length});\n"

        def at(table: int, index: str) -> str:
            return f"${table}(ivec2(({index}) % $size{table}.x, ({index}) / $size{table}.x), {tile})"

        return (
            "int row = pixel.y * $size.x + pixel.x;\n"
            f"$y = $type(0.0);\nif (row < {self.matrix.shape[0]}) {{\n"
            f"  int end = {at(1, 'row + 1')};\n"
            f"{end.format(begin=at(1, 'row'))}"
            f"  for (int k = {at(1, 'row')}{begin}; k < end; ++k) {{\n"
            f"    vec2 entry = {at(2, 'k')};\n    int column = int(entry.x);\n"
            f"    $y += {self.term.format(other=at(0, 'column'), own=at(0, 'row'))};\n  }}\n}}"
        )

    def evaluate(self, at, values, offsets, entries):
        x, y, tile = at_points(at)
        flat = values.reshape(len(values), -1, *values.shape[3:])
        rows = self.matrix.shape[0]
        offsets = offsets.reshape(-1)[: rows + 1]
        entries = entries.reshape(-1, 2)[: offsets[-1]]
        row = np.repeat(np.arange(rows), np.diff(offsets))
        part = (np.arange(len(row)) - offsets[row]) // self.length if self.length else np.zeros_like(row)
        size, batch, _ = self.output.domain
        total = np.zeros((len(values), self.parts, size[0] * size[1], *flat.shape[2:]))
        for sums, own in zip(total, flat, strict=True):
            weight = entries[:, 1].reshape(-1, *[1] * (own.ndim - 1))
            np.add.at(sums, (part, row), self.terms(own, row, entries[:, 0].astype(np.int64)) * weight)
        return read_list(total.reshape(batch, size[1], size[0], *flat.shape[2:]), tile, y * size[0] + x)

    def terms(self, values: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """What each entry multiplies in the term that it adds to its row."""
        raise NotImplementedError

    def _only_values(self, asked: bool) -> None:
        if self.length:
            raise self.fail("is made when a plan is built; take derivatives of the product with whole rows")
        if not asked:
            raise self.fail("has no derivative by the entries of the matrix, only by the values")

    def vjp(self, gy, i):
        self._only_values(i == 0)
        return type(self)(gy, self.matrix.T).output

    def jvp(self, tangents):
        self._only_values(tangents[2] is None)
        if tangents[0] is None:
            return None
        return type(self)(F.fit(tangents[0], self.inputs[0]), self.matrix).output


class SparseProduct(SparseRows):
    """The matrix times the values: at entry i the sum of m_ij x_j."""

    operations, fetches = 24.0, math.inf
    term = "entry.y * {other}"

    def terms(self, values, row, column):
        return values[column]


class SparseDifference(SparseRows):
    """For a symmetric matrix, at entry i the sum of m_ij (x_j - x_i). It is its own transpose. Differences
    are formed first, so no digits cancel when the values are far from the origin.

        weights 1 along a triangle 0-1-2:  y0 = (x1 - x0) + (x2 - x0),  d(sum g_i y_i) / dx0 = -2 g0 + g1 + g2
    """

    operations, fetches = 28.0, math.inf
    term = "entry.y * ({other} - {own})"

    def infer(self):
        if not self.matrix.symmetric:
            raise self.fail("needs a symmetric matrix")
        return super().infer()

    def terms(self, values, row, column):
        return values[column] - values[row]


def product(matrix: SparseMatrix, values: Variable) -> Variable:
    """List (of ``values``' size when the matrix is square): matrix times values, a list of FLOAT or vectors.

    Differentiable in the values. Raises GraphError when the list is shorter than the matrix has columns.
    """
    return SparseProduct(values, matrix).output


def differences(matrix: SparseMatrix, values: Variable) -> Variable:
    """List like ``values``: at i the sum over j of m_ij (x_j - x_i), for a symmetric matrix. Differentiable
    in the values. Raises GraphError."""
    return SparseDifference(values, matrix).output
