"""Priors on shapes: the uniform Laplacian of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..ad import functional as F
from ..ad.graph import PixelFunction, Variable
from ..ad.types import FLOAT, INT, Access, list_image, list_size
from ..errors import InputError
from .screen import Faces, at_points


class NeighbourDifference(PixelFunction):
    """Inputs (values list, offsets INT list, neighbours INT list): at entry i the sum of ``values[j] - values[i]``
    over ``j = neighbours[offsets[i] : offsets[i + 1]]``; 0 from entry ``count`` on.

    Linear in the values. The neighbourhood is symmetric, so the Function is its own transpose:

        triangle 0-1-2:   y0 = (x1 - x0) + (x2 - x0),   d(sum g_i y_i) / dx0 = -2 g0 + g1 + g2
    """

    fields = ("count",)

    def __init__(self, values: Variable, offsets: Variable, neighbours: Variable, count: int):
        self.count = count
        super().__init__(values, offsets, neighbours)

    @cached_property
    def access(self):
        return (Access.FETCH,) * 3

    def infer(self):
        values, offsets, neighbours = self.inputs
        if values.vtype.is_int or values.vtype.is_matrix:
            raise self.fail("takes a list of FLOAT or vectors")
        if offsets.vtype is not INT or neighbours.vtype is not INT or offsets.batch * neighbours.batch != 1:
            raise self.fail("offsets and neighbours are INT lists of batch 1")
        if not 0 < self.count <= values.size[0] * values.size[1]:
            raise self.fail(f"{values} does not hold {self.count} entries")
        return values.vtype, values.domain

    @cached_property
    def glsl(self) -> str:
        def at(table: int, index: str) -> str:
            return f"${table}(ivec2(({index}) % $size{table}.x, ({index}) / $size{table}.x), tile)"

        return (
            "int entry = pixel.y * $size.x + pixel.x;\n"
            f"$y = $type(0.0);\nif (entry < {self.count}) {{\n"
            f"  $type own = {at(0, 'entry')};\n"
            f"  int end = {at(1, 'entry + 1')};\n"
            f"  for (int k = {at(1, 'entry')}; k < end; ++k) {{\n"
            f"    int other = {at(2, 'k')};\n"
            f"    $y += {at(0, 'other')} - own;\n  }}\n}}"
        )

    def evaluate(self, at, values, offsets, neighbours):
        x, y, tile = at_points(at)
        flat = values.reshape(len(values), -1, *values.shape[3:])
        offsets, neighbours = offsets.reshape(-1)[: self.count + 1], neighbours.reshape(-1)
        degree = np.diff(offsets)
        start = np.repeat(np.arange(self.count), degree)
        total = np.zeros_like(flat)
        end = neighbours[: len(start)]
        for sums, entries in zip(total, flat, strict=True):
            np.add.at(sums, start, entries[end] - entries[start])
        return Faces.read_list(total.reshape(values.shape), tile, y * values.shape[2] + x)

    def vjp(self, gy, i):
        _, offsets, neighbours = self.inputs
        return NeighbourDifference(gy, offsets, neighbours, self.count).output if i == 0 else None

    def jvp(self, tangents):
        if tangents[0] is None:
            return None
        values, offsets, neighbours = self.inputs
        return NeighbourDifference(F.fit(tangents[0], values), offsets, neighbours, self.count).output


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Which vertices share an edge, as lists for the device; made once per topology by ``adjacency``."""

    count: int
    """How many vertices."""
    offsets: Variable
    """INT list, count + 1: neighbours of vertex i are entries offsets[i] to offsets[i + 1]."""
    neighbours: Variable
    """INT list of vertices, ascending for each vertex."""
    inverse_degree: Variable
    """FLOAT list: 1 / number of neighbours, 0 where there is none."""


def adjacency(faces: np.ndarray, vertex_count: int) -> Adjacency:
    """The neighbourhood of a mesh: ``faces`` (F, 3) numbers of ``vertex_count`` vertices. Raises InputError."""
    faces = np.asarray(faces)
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0:
        raise InputError(f"faces are an array (F, 3) of at least one triangle, not {faces.shape}")
    if faces.min() < 0 or faces.max() >= vertex_count:
        raise InputError(f"faces use vertices {faces.min()} to {faces.max()} of {vertex_count}")
    pairs = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    degree = np.bincount(pairs[:, 0], minlength=vertex_count)
    offsets = np.concatenate([[0], np.cumsum(degree)])
    neighbours = pairs[:, 1] if len(pairs) else np.zeros(1, np.int64)
    inverse = np.divide(1.0, degree, out=np.zeros(vertex_count), where=degree > 0)
    return Adjacency(
        vertex_count,
        Variable(INT, list_size(len(offsets)), name="offsets", data=list_image(offsets)),
        Variable(INT, list_size(len(neighbours)), name="neighbours", data=list_image(neighbours)),
        Variable(FLOAT, list_size(vertex_count), name="inverse_degree", data=list_image(inverse)),
    )


def laplacian(position: Variable, mesh: Adjacency) -> Variable:
    """List like ``position``: the mean of the neighbours minus the vertex itself; 0 for vertices without any.

    Differentiable in position (any float list of ``mesh.count`` entries).
    """
    differences = NeighbourDifference(position, mesh.offsets, mesh.neighbours, mesh.count).output
    return differences * mesh.inverse_degree


def laplacian_loss(position: Variable, mesh: Adjacency, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared lengths of the uniform Laplacian, by default their mean over the vertices.

    reduction: "mean" or "sum". Differentiable in position. Raises InputError.
    """
    if reduction not in ("sum", "mean"):
        raise InputError(f"reduction is 'sum' or 'mean', not {reduction!r}")
    vectors = laplacian(position, mesh)
    squares = F.square(vectors) if vectors.vtype.is_scalar else F.dot(vectors, vectors)
    total = F.sum(squares)
    return total if reduction == "sum" else total * (1.0 / mesh.count)
