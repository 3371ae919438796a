"""Priors on shapes: Laplacians of a mesh, and energies made of them, of its edges and of its normals.

    dirichlet_loss     squared differences along edges: pulls towards small, even shapes; "Laplacian energy"
    laplacian_loss     squared Laplacian: thin plates; "bi-Laplacian energy"
    bilaplacian_loss   squared Laplacian of the Laplacian: keeps curvature, smooths its variation
    edge_length_loss   deviation of edge lengths from a target
    normal_consistency 1 - cos of the angle between normals of neighbouring faces

All accept open and non-manifold meshes; each docstring says what is left out there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.graph.types import FLOAT, IVEC2, list_image
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..core.lists import list_data, list_leaf, padded
from ..forms.edges.edge_list import EdgeList
from .losses import reduced, squared
from .sparse import Matrix, Room, SparseMatrix, differences, sparse_matrix

SHARPEST = 1e3
"""Cotangents are clamped to this, the value at 0.06 degrees, to keep weights finite."""


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The edges of a mesh with weights; made once per topology by ``adjacency`` or ``cotangent``."""

    count: int
    """Number of vertices."""
    pairs: np.ndarray
    """(E, 2) int64: every edge once, the lower number first, ascending."""
    weights: SparseMatrix
    """Symmetric, (count, count): the weight of each edge; nothing on the diagonal."""
    inverse_mass: Variable
    """FLOAT list: factor on the sum of weighted differences (inverse mass); 0 for a vertex without a
    Laplacian."""
    measure: Variable | None = None
    """FLOAT list: weight of each vertex in sums; None: 1 each."""

    @cached_property
    def edges(self) -> Variable:
        """IVEC2 list of ``pairs``, padded with (0, 0), with room for others where the matrix has it."""
        return list_leaf("edge ends", IVEC2, padded(self.pairs, self._room))

    @cached_property
    def edge_weights(self) -> Variable:
        """FLOAT list: the weights of ``edges``."""
        upper = scipy.sparse.triu(self.weights.array, 1).tocsr()
        return list_leaf("edge weights", FLOAT, padded(upper.data, self._room))

    @property
    def edge_count(self) -> int | Variable:
        """How many edges there are; FLOAT 1x1, counted in ``edges``, where there is room for other faces."""
        if self.weights.by_rows.room is None:
            return len(self.pairs)
        return F.sum(F.not_equal(self.edges.x, self.edges.y))

    @property
    def _room(self) -> int:
        """Entries of the lists of edges."""
        room = self.weights.by_rows.room
        return len(self.pairs) if room is None else max(room.entries // 2, len(self.pairs))

    def data(self, other: Adjacency) -> dict[Variable, np.ndarray]:
        """Data to send, by leaf, for the weights of another ``cotangent`` of the same faces, such as that of
        the present shape, or for other faces that there is room for: of the matrix, and of ``edges`` and
        their weights where a term reads them. ``pairs`` remain those of the first faces. Raises InputError.
        """
        same = self.count == other.count and np.array_equal(self.pairs, other.pairs)
        if self.weights.by_rows.room is None and not same:
            raise InputError("these are weights of other faces; make a new graph for them")
        arrays = self.weights.data(other.weights.array)
        for mine, new in ((self.inverse_mass, other.inverse_mass), (self.measure, other.measure)):
            if mine is not None and new is not None:
                arrays[mine] = list_data(new).reshape(mine.shape)
        # Made when a term first reads them; an engine takes no leaf that nothing reads.
        for name in self.__dict__.keys() & ({"edge_weights"} if same else {"edges", "edge_weights"}):
            rows = list_data(getattr(other, name))
            arrays[self.__dict__[name]] = list_image(padded(rows, self._room))
        return arrays

    def lengths(self, positions: np.ndarray) -> np.ndarray:
        """(E,) lengths of the edges ``pairs`` for vertices (V, 3)."""
        return np.linalg.norm(positions[self.pairs[:, 0]] - positions[self.pairs[:, 1]], axis=1)


def _matrix(pairs: np.ndarray, weights: np.ndarray, count: int) -> Matrix:
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    return scipy.sparse.csr_array((np.tile(weights, 2), (rows, columns)), shape=(count, count))


def edge_pairs(faces: np.ndarray, vertex_count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges (E, 2), how many faces each has, and the edge opposite to each corner (F, 3), -1 for a loop at a
    vertex. Raises InputError."""
    faces = np.asarray(faces)
    if faces.ndim != 2 or faces.shape[1] != 3 or len(faces) == 0:
        raise InputError(f"faces are an array (F, 3) of at least one triangle, not {faces.shape}")
    if faces.min() < 0 or faces.max() >= vertex_count:
        raise InputError(f"faces use vertices {faces.min()} to {faces.max()} of {vertex_count}")
    ends = np.sort(faces[:, [[1, 2], [2, 0], [0, 1]]].reshape(-1, 2), axis=1)
    real = ends[:, 0] != ends[:, 1]
    keys = ends[real].astype(np.int64) @ np.array([vertex_count, 1])  # numbers sort faster than rows
    edges, inverse, uses = np.unique(keys, return_inverse=True, return_counts=True)
    opposite = np.full(len(ends), -1)
    opposite[real] = inverse
    return np.stack(np.divmod(edges, vertex_count), axis=1), uses, opposite.reshape(-1, 3)


def _inverse(mass: np.ndarray, pairs: np.ndarray, uses: np.ndarray, borders: bool) -> Variable:
    inverse = np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)
    if not borders:
        inverse[pairs[uses != 2]] = 0
    return list_leaf("inverse mass", FLOAT, inverse)


def adjacency(
    faces: np.ndarray, vertex_count: int, *, borders: bool = True, room: Room | None = None
) -> Adjacency:
    """Uniform weights: the Laplacian is the mean of the neighbours minus the vertex.

    faces: (F, 3) numbers of ``vertex_count`` vertices.  borders: False leaves out the Laplacian of vertices
    at edges that do not have exactly two faces; with them, open borders are drawn inward.  room: of the
    matrix, for other faces of at most as many vertices (``Adjacency.data``); a vertex without faces has no
    Laplacian. Raises InputError.

    >>> cube = primitives.cube()
    >>> near = adjacency(cube.faces, len(cube.positions))
    """
    pairs, uses, _ = edge_pairs(faces, vertex_count)
    degree = np.bincount(pairs.reshape(-1), minlength=vertex_count)
    matrix = sparse_matrix(_matrix(pairs, np.ones(len(pairs)), vertex_count), "neighbours", room)
    return Adjacency(vertex_count, pairs, matrix, _inverse(degree, pairs, uses, borders))


def cotangent(faces: np.ndarray, positions: np.ndarray, *, borders: bool = True) -> Adjacency:
    """Cotangent weights of a shape (V, 3): the Laplacian is that of the surface, whatever its triangulation.

    w_ij = (cot a + cot b) / 2 over the angles opposite to the edge, summed over all of its faces where they
    are more or less than two; the mass of a vertex is its mixed Voronoi area. The Laplacian of the positions
    themselves is twice the mean curvature times the normal (Meyer et al., Discrete Differential-Geometry
    Operators, 2003). Weights are data, of a rest shape or refreshed now and then by ``Adjacency.data``; they
    have no derivative. borders: see ``adjacency``. Raises InputError.

    >>> cube = primitives.cube()
    >>> near = cotangent(cube.faces, cube.positions)
    """
    faces, positions = np.asarray(faces), np.asarray(positions, np.float64)
    pairs, uses, opposite = edge_pairs(faces, len(positions))
    corner = positions[faces]
    doubled = np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)
    u, v = np.roll(corner, -1, axis=1) - corner, np.roll(corner, -2, axis=1) - corner
    cosine = (u * v).sum(2)
    large = SHARPEST * doubled[:, None] <= np.abs(cosine)
    cot = np.where(large, SHARPEST * np.sign(cosine), cosine / np.where(large, 1.0, doubled[:, None]))
    real = opposite >= 0
    weights = np.bincount(opposite[real], cot[real] / 2, len(pairs))
    # Each vertex gets the part of its faces nearest to it (Voronoi); obtuse faces are cut into 1/2, 1/4, 1/4.
    across = cot * ((u - v) ** 2).sum(2) / 8
    near = np.roll(across, -1, axis=1) + np.roll(across, -2, axis=1)
    obtuse = np.where(cot < 0, 0.5, 0.25) * doubled[:, None] / 2
    share = np.where(cot.min(1, keepdims=True) < 0, obtuse, near)
    count = len(positions)
    areas = np.bincount(faces.reshape(-1), share.reshape(-1), count)
    matrix = sparse_matrix(_matrix(pairs, weights, count), "cotangents")
    inverse = _inverse(areas, pairs, uses, borders)
    return Adjacency(count, pairs, matrix, inverse, list_leaf("areas", FLOAT, areas))


def laplacian(position: Variable, mesh: Adjacency) -> Variable:
    """List like ``position``: weighted differences to the neighbours over the vertex' mass; 0 where there are
    none. Differentiable in position (any float list of ``mesh.count`` entries)."""
    return differences(mesh.weights, position) * mesh.inverse_mass


def laplacian_loss(position: Variable, mesh: Adjacency, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared lengths of the Laplacian, by default their mean over the vertices, or over the area.

    reduction: "mean" or "sum". Differentiable in position. Raises InputError.

    >>> cube = primitives.cube()
    >>> laplacian_loss(Variable.of(cube.positions), adjacency(cube.faces, 8)).shape
    (1, 1, 1)
    """
    return _squares(laplacian(position, mesh), mesh, reduction)


def bilaplacian_loss(position: Variable, mesh: Adjacency, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared lengths of the Laplacian of the Laplacian; see ``laplacian_loss``.

    >>> cube = primitives.cube()
    >>> bilaplacian_loss(Variable.of(cube.positions), adjacency(cube.faces, 8)).shape
    (1, 1, 1)
    """
    return _squares(laplacian(laplacian(position, mesh), mesh), mesh, reduction)


def dirichlet_loss(position: Variable, mesh: Adjacency, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: squared lengths of the edges times their weights, summed or their mean over the edges.

    Weights are those that ``mesh`` was made with. Differentiable in position. Raises InputError.

    >>> cube = primitives.cube()
    >>> dirichlet_loss(Variable.of(cube.positions), adjacency(cube.faces, 8)).shape
    (1, 1, 1)
    """
    a, b = _ends(position, mesh)
    return reduced(squared(a - b) * mesh.edge_weights, mesh.edge_count, reduction)


def edge_length_loss(
    position: Variable, mesh: Adjacency, target: Like | None = None, reduction: str = "mean"
) -> Variable:
    """FLOAT 1x1: squares of (length / target - 1) over the edges; each edge counts once.

    target: a number, a FLOAT 1x1, or a FLOAT list of ``mesh.pairs`` (``mesh.lengths`` of a rest shape);
    positive. Without it, the mean of the present lengths: then the loss does not depend on the size of the
    shape. Differentiable in position (an edge without length gives 0) and target. Raises InputError.

    >>> cube = primitives.cube()
    >>> edge_length_loss(Variable.of(cube.positions), adjacency(cube.faces, 8)).shape
    (1, 1, 1)
    """
    a, b = _ends(position, mesh)
    real = F.not_equal(mesh.edges.x, mesh.edges.y)
    length = F.length(a - b)
    target = F.sum(length, "xy") / mesh.edge_count if target is None else as_variable(target)
    away = length / F.select(real, target, 1.0) - 1.0
    return reduced(F.square(F.select(real, away, 0.0)), mesh.edge_count, reduction)


def normal_consistency(position: Variable, edges: EdgeList, reduction: str = "mean") -> Variable:
    """FLOAT 1x1: 1 - cos of the angle between the normals of the two faces at an edge; 0 flat, 2 folded over.

    edges: ``edge_list`` of the faces. Open edges, those of three faces or more and those of faces that
    disagree on their orientation are left out, and while a face has no area its edges are. Differentiable in
    position. Raises InputError.

    >>> cube = primitives.cube()
    >>> normal_consistency(Variable.of(cube.positions), edge_list(cube.faces)).shape
    (1, 1, 1)
    """
    at = edges.list
    a, b, c, d = (F.lookup(position, F.component(at, k)) for k in range(4))
    first, second = F.cross(b - a, c - a), F.cross(a - b, d - b)
    there = F.logical_and(F.greater_equal(F.min(at.z, at.w), 0), F.not_equal(at.x, at.y))
    if edges.joints is not None:
        there = F.logical_and(there, F.greater_equal(edges.joints.z, 0))
    area = F.logical_and(F.greater(F.dot(first, first), 0.0), F.greater(F.dot(second, second), 0.0))
    # |m - n|^2 / 2 is 1 - m n for unit vectors, and exact where they are nearly the same.
    fold = 0.5 * squared(F.normalize(first) - F.normalize(second))
    pairs = F.max(F.sum(there), 1.0)
    return reduced(F.select(F.logical_and(there, area), fold, 0.0), pairs, reduction)


def _ends(position: Variable, mesh: Adjacency) -> tuple[Variable, Variable]:
    return F.lookup(position, mesh.edges.x), F.lookup(position, mesh.edges.y)


def _squares(vectors: Variable, mesh: Adjacency, reduction: str) -> Variable:
    squares = squared(vectors)
    if mesh.measure is None:
        return reduced(squares, mesh.count, reduction)
    return reduced(squares * mesh.measure, F.sum(mesh.measure), reduction)
