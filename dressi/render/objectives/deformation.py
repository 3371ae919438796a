"""Shapes that are functions of other shapes: Loop subdivision, displacement, and as-rigid-as-possible motion.

loop_subdivision  a finer mesh whose vertices are weighted means of those of a coarse one
displaced         vertices moved along their normals, by a list or a map of heights
arap_loss         how far edges are from those of a rest shape, each ring of which may turn
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.graph.types import VEC3, VEC4, whole
from ..core.lists import as_list
from ..mesh.rows import midpoints
from ..surface.screen import vertex_normals
from .losses import reduced, squared
from .regularizers import Adjacency, edge_pairs
from .sparse import Matrix, SparseMatrix, product, sparse_matrix


@dataclass(frozen=True, eq=False)
class Subdivision:
    """A subdivided topology; made by ``loop_subdivision``."""

    faces: np.ndarray
    """(F, 3): four for each face and time."""
    matrix: Matrix
    """SciPy sparse array (V, vertex_count): the weights of the coarse vertices."""

    @cached_property
    def _product(self) -> SparseMatrix:
        return sparse_matrix(self.matrix, "subdivision")

    def of(self, values: Variable) -> Variable:
        """List of V entries: positions, or other FLOAT or vector values of the coarse vertices, at the fine
        ones. Differentiable in values. Raises GraphError."""
        return product(self._product, values)


def loop_subdivision(faces: np.ndarray, vertex_count: int, times: int = 1) -> Subdivision:
    """Loop's scheme (1987) for a mesh whose vertices are Variables.

    faces: (F, 3) numbers of ``vertex_count`` vertices.  New vertices are 3/8 of the ends of an edge and 1/8
    of the corners beside it; a vertex with n neighbours keeps 3/8 + (3/8 + cos(2 pi / n) / 4)^2 of itself,
    5/8 for six. Borders, and edges of three or more faces, are cubic splines of their own: 1/2 of both ends,
    and 3/4, 1/8, 1/8. Raises InputError.

    >>> cube = primitives.cube()
    >>> fine = loop_subdivision(cube.faces, 8, 2)
    >>> fine.faces.shape, fine.matrix.shape, bool(np.allclose(fine.matrix.sum(1), 1))
    ((192, 3), (98, 8), True)
    """
    faces = np.asarray(faces)
    matrix: Matrix = scipy.sparse.eye_array(vertex_count, format="csr")
    for _ in range(whole(times, "how often a mesh is subdivided", 0)):
        pairs, uses, opposite = edge_pairs(faces, vertex_count)
        count, inner = len(pairs), uses == 2
        rows = np.repeat(np.arange(count), 2)
        ends = np.where(inner, 3 / 8, 1 / 2).repeat(2)
        real = opposite.reshape(-1) >= 0
        beside, corner = opposite.reshape(-1)[real], faces.reshape(-1)[real]
        share = np.where(inner, 1 / 8, 0.0)[beside]
        middle = _csr(
            np.concatenate([ends, share]), np.concatenate([rows, beside]),
            np.concatenate([pairs.reshape(-1), corner]), (count, vertex_count),
        )  # fmt: skip
        # Vertices at borders see their neighbours along the border alone.
        border = np.zeros(vertex_count, bool)
        border[pairs[~inner]] = True
        start, end = np.concatenate([pairs, pairs[:, ::-1]]).T
        kept = ~border[start] | np.tile(~inner, 2)
        start, end = start[kept], end[kept]
        degree = np.bincount(start, minlength=vertex_count)
        around = 5 / 8 - (3 / 8 + np.cos(2 * np.pi / np.maximum(degree, 1)) / 4) ** 2
        pull = np.where(border, 1 / 4, around) * (degree > 0)
        each = pull / np.maximum(degree, 1)
        own = np.arange(vertex_count)
        stay = _csr(
            np.concatenate([1 - pull, each[start]]), np.concatenate([own, start]),
            np.concatenate([own, end]), (vertex_count, vertex_count),
        )  # fmt: skip
        matrix = scipy.sparse.vstack([stay, middle], format="csr") @ matrix
        faces = midpoints(np.zeros((vertex_count, 1)), faces)[1]
        vertex_count += count
    return Subdivision(faces, matrix)


def _csr(values: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Matrix:
    return scipy.sparse.csr_array((values, (rows, columns)), shape=shape)


def displaced(position: Variable, faces: Any, height: Variable) -> Variable:
    """VEC3 list: vertices moved along their normals.

    position: VEC3 list.  faces: IVEC3 list or an array (F, 3).  height: FLOAT list, in units of the mesh, or
    a map read at the UVs of the vertices: ``F.sample(map, uvs)`` with VEC2 list uvs. Differentiable in
    position, normals included, and height.

    >>> ball = primitives.icosphere(1)
    >>> grown = displaced(Variable.of(ball.positions), ball.faces, Variable.of(np.full(42, 0.5), FLOAT))
    >>> bool(np.allclose(np.linalg.norm(evaluate(grown), axis=-1), 1.5, atol=1e-3))
    True
    """
    return position + vertex_normals(position, faces) * height


class BestRotation(PixelFunction):
    """Inputs x, y, z VEC3, the columns of a matrix A: VEC4, the rotation R with the largest trace(R' A) as a
    quaternion (x, y, z, w) with w >= 0, by Mueller et al., A Robust Method to Extract the Rotational Part of
    Deformations (2016).

    The angle of each step is that of atan(2 sin a, 1 + 2 cos a), at most the one that is left, so that large
    turns are found, too. Its derivative is left out: that of the largest trace has none through R.
    """

    operations, zero_derivative = 70.0, True
    iterations = 100
    glsl = (
        "vec4 q = vec4(0.0, 0.0, 0.0, 1.0);\n"
        "for (int i = 0; i < 100; ++i) {\n"
        "  vec3 u = q.xyz; float w = q.w;\n"
        "  vec3 v = 2.0 * u * u, m = 2.0 * u * u.yzx, n = 2.0 * u.zxy * w;\n"
        "  vec3 x = vec3(1.0 - v.y - v.z, m.x + n.x, m.z - n.z);\n"
        "  vec3 y = vec3(m.x - n.x, 1.0 - v.x - v.z, m.y + n.y);\n"
        "  vec3 z = cross(x, y);\n"
        "  float trace = dot(x, $0) + dot(y, $1) + dot(z, $2);\n"
        "  vec3 turn = cross(x, $0) + cross(y, $1) + cross(z, $2);\n"
        "  float size = length(turn), angle = 0.5 * atan(size, trace);\n"
        "  if (!(angle > 1e-7)) break;\n"
        "  vec3 s = turn / size * sin(angle); float c = cos(angle);\n"
        "  q = normalize(vec4(c * u + w * s + cross(s, u), c * w - dot(s, u)));\n}\n$y = q.w < 0.0 ? -q : q;"
    )

    def infer(self):
        if any(x.vtype is not VEC3 for x in self.inputs):
            raise self.fail("takes the columns of a matrix, VEC3")
        return VEC4, self.broadcast()

    def eval(self, x, y, z):
        matrix = np.stack(np.broadcast_arrays(x, y, z), axis=-1)
        u, _, v = np.linalg.svd(matrix)
        u[..., 2] *= np.sign(np.linalg.det(u @ v))[..., None]
        return (
            scipy.spatial.transform.Rotation.from_matrix((u @ v).reshape(-1, 3, 3))
            .as_quat(canonical=True)
            .reshape(*x.shape[:-1], 4)
        )


def arap_loss(position: Variable, rest: Any, mesh: Adjacency, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared differences of the edges from those of the rest shape, turned by the best rotation
    of each end; each edge counts from both, times its weight, by default in the mean over the edges.

    rest: VEC3 list or array (V, 3).  mesh: its ``cotangent`` weights (Sorkine and Alexa, As-Rigid-As-Possible
    Surface Modeling, 2007) or ``adjacency``; negative weights count as 0. 0 for a shape that is turned and
    moved. Differentiable in position, with the rotations at their best. Raises InputError.

    >>> cube = primitives.cube()
    >>> near = cotangent(cube.faces, cube.positions)
    >>> round(evaluate(arap_loss(Variable.of(cube.positions[:, [1, 2, 0]]), cube.positions, near)).item(), 6)
    0.0
    """
    rest = as_list("rest positions", VEC3, rest)
    ends, weights = (mesh.edges.x, mesh.edges.y), F.maximum(mesh.edge_weights, 0.0)
    edge, still = (F.lookup(list_, ends[0]) - F.lookup(list_, ends[1]) for list_ in (position, rest))
    columns = []
    for axis in range(3):
        part = F.stop_gradient(edge) * F.component(still, axis) * weights
        sums = [F.scatter_add(part, end, position.size) for end in ends]
        columns.append(sums[0] + sums[1])
    turn = F.apply(BestRotation, *columns)
    total = squared(edge - _turned(F.lookup(turn, ends[0]), still))
    total = total + squared(edge - _turned(F.lookup(turn, ends[1]), still))
    return reduced(total * weights, mesh.edge_count, reduction)


def _turned(q: Variable, v: Variable) -> Variable:
    """v turned by a quaternion (x, y, z, w)."""
    u = F.swizzle(q, "xyz")
    t = 2.0 * F.cross(u, v)
    return v + t * F.component(q, 3) + F.cross(u, t)
