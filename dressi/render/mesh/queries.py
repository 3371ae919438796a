"""Spatial queries: boxes that overlap or hold a point, and where faces cross lines along the third axis."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from .mesh import Mesh
from .rows import cross, distinct, ordered, ranges


def _cells(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Boxes (F, D) in a grid: box and cell of every cell that a box reaches, origin (D,) and cells a side.

    Cells are about as large as the boxes, with at most 128 along a side; larger if a few boxes would cover
    too many.
    """
    origin, extent = low.min(0), high.max(0) - low.min(0)
    most = np.clip(extent / max(float((high - low).mean()), 1e-300), 1, 128).astype(np.int64)
    for halvings in range(8):
        sides = np.maximum(most >> halvings, 1)
        scale = sides / np.maximum(extent, 1e-300)
        first, last = (
            np.clip(((end - origin) * scale).astype(np.int64), 0, sides - 1) for end in (low, high)
        )
        counts = last - first + 1
        total = counts.prod(1)
        if total.sum() < 100 * len(low):
            break
    box, rest = ranges(np.zeros(len(low), np.int64), total)
    cell = np.zeros(len(box), dtype=np.int64)
    for axis in range(low.shape[1]):
        cell = cell * sides[axis] + first[box, axis] + rest % counts[box, axis]
        rest //= counts[box, axis]
    return box, cell, origin, sides


def in_boxes(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a point (P, D) and a box (F, D) that holds it."""
    box, cell, origin, sides = _cells(low, high)
    scale = sides / np.maximum(high.max(0) - origin, 1e-300)
    place = np.clip(((points - origin) * scale).astype(np.int64), 0, sides - 1)
    own = np.zeros(len(points), dtype=np.int64)
    for axis in range(points.shape[1]):
        own = own * sides[axis] + place[:, axis]
    order = ordered(cell)
    start, end = (np.searchsorted(cell[order], own, side) for side in ("left", "right"))
    point, place = ranges(start, end - start)
    box = box[order[place]]
    keep = ((points[point] >= low[box]) & (points[point] <= high[box])).all(1)
    return point[keep], box[keep]


def overlapping_boxes(low: np.ndarray, high: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
    """(P, 2) pairs of boxes (F, D) that overlap or touch, the smaller number first; of which one is ``among``
    (F,) bool, if given.

    >>> low = np.array([[0.0], [1.0], [2.0]])
    >>> overlapping_boxes(low, low + 1).tolist(), overlapping_boxes(low, low + 1, low[:, 0] == 2).tolist()
    ([[0, 1], [1, 2]], [[1, 2]])
    """
    box, cell, _, _ = _cells(low, high)
    among = np.ones(len(low), bool) if among is None else among
    reached = np.zeros(cell.max(initial=0) + 1, bool)
    reached[cell[among[box]]] = True
    box, cell = box[reached[cell]], cell[reached[cell]]
    order = ordered(cell)
    box, cell = box[order], cell[order]
    # Each entry is paired with the later ones of its cell.
    end = np.searchsorted(cell, cell, "right")
    first, second = ranges(np.arange(len(cell)) + 1, end - np.arange(len(cell)) - 1)
    pairs = [np.zeros(0, np.int64)]
    for i in range(0, len(first), 4_000_000):
        a, b = box[first[i : i + 4_000_000]], box[second[i : i + 4_000_000]]
        keep = among[a] | among[b]
        a, b = a[keep], b[keep]
        keep = ((low[a] <= high[b]) & (low[b] <= high[a])).all(1)
        # A pair as one number, which is sorted faster.
        pairs.append(np.minimum(a, b)[keep] * len(low) + np.maximum(a, b)[keep])
    return np.stack(np.divmod(distinct(np.concatenate(pairs)), max(len(low), 1)), axis=1)


class Crossings(NamedTuple):
    """C crossings of lines with faces."""

    line: np.ndarray
    """(C,) int64."""
    face: np.ndarray
    """(C,) int64."""
    height: np.ndarray
    """(C,) float64: the third coordinate there."""
    turn: np.ndarray
    """(C,) int64: 1 where the face's normal points along the axis, -1 where it points against it."""


def crossings(lines: np.ndarray, corners: np.ndarray) -> Crossings:
    """Where lines through (L, 2) cross faces (F, 3, 3). A face that is seen edge-on is not crossed; one that
    is met on its border is."""
    a, b, c = corners[..., :2].transpose(1, 0, 2)
    area = projected_areas(corners)
    line, face = in_boxes(lines, corners[..., :2].min(1), corners[..., :2].max(1))
    keep = area[face] != 0
    line, face = line[keep], face[keep]
    at = lines[line]
    weights = np.stack([cross(q[face] - at, r[face] - at) for q, r in ((b, c), (c, a), (a, b))], axis=1)
    weights /= area[face, None]
    hit = (weights >= 0).all(1)
    line, face = line[hit], face[hit]
    height = (weights[hit] * corners[face, :, 2]).sum(1)
    return Crossings(line, face, height, np.sign(area[face]).astype(np.int64))


def projected_areas(corners: np.ndarray) -> np.ndarray:
    """(F,) twice the signed areas of faces (F, 3, 3) along the axis: positive where the normal points along
    it."""
    a, b, c = corners[..., :2].transpose(1, 0, 2)
    return cross(b - a, c - a)


# Points on the surface of a mesh, and distances to it.

NEAREST = 8
"""Number of nearest surface points whose faces are tested for a distance."""


def sample_surface(mesh: Mesh, count: int, seed: int = 0) -> np.ndarray:
    """(count, 3) points spread evenly over the surface; the same seed gives the same points.

    >>> from dressi.render.mesh.primitives import cube
    >>> points = sample_surface(cube(), 100)
    >>> points.shape, bool(np.isclose(np.abs(points).max(axis=1), 1).all())
    ((100, 3), True)
    """
    random = np.random.default_rng(seed)
    areas = mesh.face_areas()
    return _points_on(mesh, random.choice(len(areas), size=count, p=areas / areas.sum()), random)


class SurfaceDistance:
    """Distances to a mesh: to the faces that hold the nearest of many points on it.

    count: approximate number of these points; every face has one. The error is a part of their distance.

    >>> from dressi.render.mesh.primitives import cube
    >>> SurfaceDistance(cube()).distances(np.array([[0.0, 0, 3], [0, 0, 0]])).round(6).tolist()
    [2.0, 1.0]
    """

    def __init__(self, mesh: Mesh, count: int = 20_000):
        areas = mesh.face_areas()
        counts = np.ceil(count * areas / areas.sum()).astype(int)
        self.mesh = mesh
        self._face = np.repeat(np.arange(len(counts)), np.maximum(counts, 1))
        self._tree = scipy.spatial.KDTree(_points_on(mesh, self._face, np.random.default_rng(0)))

    @cached_property
    def _normals(self) -> np.ndarray:
        return self.mesh.face_normals()

    def distances(self, points: np.ndarray, *, most: float = np.inf) -> np.ndarray:
        """(...) unsigned distances of points (..., 3), at most ``most``."""
        distance, close = np.empty(points.shape[:-1]), np.ones(points.shape[:-1], bool)
        near = points.reshape(-1, 3)
        if np.isfinite(most):
            distance = np.asarray(self._tree.query(points, distance_upper_bound=most)[0])
            close = distance < most
            near = points[close]
        point, face, first = self._candidates(near)
        found = to_faces(near[point], self.mesh.positions[self.mesh.faces[face]])
        distance[close] = np.minimum.reduceat(found, first) if len(near) else found
        return np.minimum(distance, most)

    def nearest(self, points: np.ndarray, facing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Faces (P,) and barycentric weights (P, 3) of the points of the mesh nearest to (P, 3), among faces that
        are not turned away from ``facing`` (P, 3), if there are such near.

        >>> from dressi.render.mesh.primitives import cube
        >>> plate = cube()
        >>> plate.positions = plate.positions * (1, 0.001, 1)
        >>> up = np.array([[0.0, 1, 0]])
        >>> face, weights = SurfaceDistance(plate).nearest(np.array([[0.2, -0.1, 0.1]]), up)
        >>> np.einsum("pk,pkd->pd", weights, plate.positions[plate.faces[face]]).round(6).tolist()
        [[0.2, 0.001, 0.1]]
        """
        point, face, first = self._candidates(points)
        corners = self.mesh.positions[self.mesh.faces[face]]
        away = (self._normals[face] * facing[point]).sum(1) < 0
        found = to_faces(points[point], corners) + np.where(away, 1e30, 0.0)
        best = np.flatnonzero(found == np.minimum.reduceat(found, first)[point])
        best = best[np.diff(point[best], prepend=-1) > 0]
        return face[best], weights_on(points, corners[best])

    def _candidates(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of a point (P, 3) and a face near it, by points, and where those of each point begin."""
        faces = np.sort(self._face[np.asarray(self._tree.query(points, NEAREST)[1])], axis=-1)
        # Several of the nearest points lie on one face.
        new = np.diff(faces, axis=-1, prepend=-1) > 0
        return np.nonzero(new)[0], faces[new], np.concatenate([[0], np.cumsum(new.sum(1))[:-1]])


def weights_on(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(P, 3) barycentric weights of the points of faces (P, 3, 3), one each, that are nearest to (P, 3).

    >>> corners = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]] * 2)
    >>> weights_on(np.array([[0.25, 0.25, 3.0], [0.5, -3.0, 4.0]]), corners).tolist()
    [[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]
    """
    at, (a, b, c) = points.T, np.ascontiguousarray(corners.transpose(1, 2, 0))
    normal = _cross(b - a, c - a)
    area = _dot(normal, normal)
    parts = [_dot(_cross(q - p, at - p), normal) for p, q in ((b, c), (c, a), (a, b))]
    weights = np.stack(parts) / np.where(area > 0, area, 1.0)
    beside, nearest = (area == 0) | (weights.min(0) < 0), np.full(len(points), np.inf)
    for k, (start, end) in enumerate(((a, b), (b, c), (c, a))):
        edge, to = end - start, at - start
        along = np.clip(_dot(edge, to) / np.maximum(_dot(edge, edge), 1e-300), 0, 1)
        gap = to - along * edge
        better = beside & (_dot(gap, gap) < nearest)
        nearest = np.where(better, _dot(gap, gap), nearest)
        on = np.zeros_like(weights)
        on[k], on[(k + 1) % 3] = 1 - along, along
        weights = np.where(better, on, weights)
    return weights.T


def to_faces(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(P,) distances of points (P, 3) to faces (P, 3, 3), one each: to the plane where the point lies over the
    face, else to the nearest edge.

    >>> corners = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]] * 2)
    >>> to_faces(np.array([[0.2, 0.2, 3.0], [0.0, -3.0, 4.0]]), corners).tolist()
    [3.0, 5.0]
    """
    # Arrays of one coordinate each are several times as fast as rows of three.
    at, (a, b, c) = points.T, np.ascontiguousarray(corners.transpose(1, 2, 0))
    normal = _cross(b - a, c - a)
    area, beside = _dot(normal, normal), np.full(len(points), np.inf)
    over = area > 0
    for start, end in ((a, b), (b, c), (c, a)):
        edge, to = end - start, at - start
        along = np.clip(_dot(edge, to) / np.maximum(_dot(edge, edge), 1e-300), 0, 1)
        gap = to - along * edge
        beside = np.minimum(beside, _dot(gap, gap))
        over &= _dot(_cross(normal, edge), to) >= 0
    plane = _dot(normal, at - a) ** 2 / np.where(over, area, 1.0)
    return np.sqrt(np.where(over, plane, beside))


def _dot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.stack([u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]])


def _points_on(mesh: Mesh, face: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N, 3) a random point on each of faces (N,), evenly."""
    u, v = random.random((2, len(face)))
    root = np.sqrt(u)
    weights = np.stack([1 - root, root * (1 - v), root * v], axis=1)
    return np.einsum("nk,nkd->nd", weights, mesh.positions[mesh.faces[face]])
