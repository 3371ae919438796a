"""Meshes as fields on a regular grid and back: what joins, parts and opens surfaces, which no moving of vertices does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from trimesh.triangles import closest_point

from .boxes import in_boxes
from .mesh import Mesh

SAMPLES = 8
"""Points on a surface in the area of a cell's side: they are a third of a cell apart."""
NEAREST = 4
"""Of these points, to whose faces distances are taken."""
_OFF = np.array([0.000271, 0.000433])
"""Of the columns from the points of the grid, in cells: they hardly ever meet an edge of a mesh."""


@dataclass(frozen=True)
class Grid:
    """Points origin + step * (i, j, k) for i, j, k below shape."""

    origin: np.ndarray
    step: float
    shape: tuple[int, int, int]

    @classmethod
    def around(cls, bounds: np.ndarray, cells: int) -> Grid:
        """So many cells along the longest side of a box (2, 3), and two more on every side."""
        step = float((bounds[1] - bounds[0]).max()) / cells
        counts = np.ceil((bounds[1] - bounds[0]) / step).astype(int) + 5
        return cls(bounds[0] - 2 * step, step, (int(counts[0]), int(counts[1]), int(counts[2])))

    def points(self) -> np.ndarray:
        """(X, Y, Z, 3)."""
        return self.origin + self.step * np.moveaxis(np.indices(self.shape), 0, -1)


def winding_numbers(mesh: Mesh, grid: Grid) -> np.ndarray:
    """(X, Y, Z) int: how often a closed mesh winds around the points of a grid; 0 is outside. Counted along columns."""
    corners = (mesh.positions[mesh.faces] - grid.origin) / grid.step
    a, b, c = corners[..., :2].transpose(1, 0, 2)
    area = _cross(b - a, c - a)
    columns = np.moveaxis(np.indices(grid.shape[:2]), 0, -1).reshape(-1, 2)
    column, face = in_boxes(columns + _OFF, corners[..., :2].min(1), corners[..., :2].max(1))
    keep = area[face] != 0
    column, face = column[keep], face[keep]
    at = columns[column] + _OFF
    weights = np.stack([_cross(q[face] - at, r[face] - at) for q, r in ((b, c), (c, a), (a, b))], axis=1)
    weights /= area[face, None]
    hit = (weights >= 0).all(1)
    column, face = column[hit], face[hit]
    height = (weights[hit] * corners[face, :, 2]).sum(1)
    below = np.zeros((len(columns), grid.shape[2] + 1), dtype=np.int64)
    # A point is inside of what is left above it: a face whose normal points up closes the surface there.
    place = np.clip(np.ceil(height).astype(int), 0, grid.shape[2])
    np.add.at(below, (column, place), np.sign(area[face]).astype(np.int64))
    above = below.sum(1, keepdims=True) - np.cumsum(below, axis=1)[:, :-1]
    return above.reshape(grid.shape)


def signed_distances(mesh: Mesh, grid: Grid, reach: float = 3.0) -> np.ndarray:
    """(X, Y, Z) distances to the surface of a closed mesh, positive inside; at most ``reach`` cells either way.

    To the faces that have the nearest of many points spread on the surface: right to a tenth of a cell. Where the
    surface winds around more than once, or the wrong way, inside is where it winds forwards at all.
    """
    counts = np.ceil(SAMPLES * mesh.face_areas() / grid.step**2).astype(int)
    face = np.repeat(np.arange(len(counts)), np.maximum(counts, 1))
    random, count = np.random.default_rng(0), len(face)
    u, v = np.sqrt(random.random(count)), random.random(count)
    a, b, c = mesh.positions[mesh.faces[face]].transpose(1, 0, 2)
    samples = a * (1 - u)[:, None] + b * (u * (1 - v))[:, None] + c * (u * v)[:, None]
    most, points = reach * grid.step, grid.points()
    tree = KDTree(samples)
    distance = np.asarray(tree.query(points, distance_upper_bound=most)[0])
    near = points[distance < most]
    faces = face[np.asarray(tree.query(near, NEAREST)[1])].reshape(-1)
    repeated = np.repeat(near, NEAREST, axis=0)
    closest = closest_point(mesh.positions[mesh.faces[faces]], repeated)
    distance[distance < most] = np.linalg.norm(closest - repeated, axis=-1).reshape(-1, NEAREST).min(1)
    return np.where(winding_numbers(mesh, grid) > 0, 1, -1) * np.minimum(distance, most)


def level_set(field: np.ndarray, grid: Grid, *, least: float = 0.01) -> Mesh:
    """The closed surface on which a field (X, Y, Z), positive inside, is zero: marching cubes, by PyMCubes.

    least: parts whose volume is less than this share of the largest one's are left out, and so are hollows. The field
    has to be negative on the sides of the grid.
    """
    from mcubes import marching_cubes

    # A zero at a point of the grid would leave faces without area around it.
    small = 1e-4 * grid.step
    field = np.where(np.abs(field) < small, np.where(field < 0, -small, small), field)
    points, faces = marching_cubes(field, 0.0)
    faces = faces.astype(np.int64)
    mesh = Mesh(points * grid.step + grid.origin, faces)
    if mesh.signed_volume() < 0:
        mesh = Mesh(mesh.positions, faces[:, ::-1])
    part = mesh.parts()
    volumes = np.array(
        [Mesh(mesh.positions, mesh.faces[part == k]).signed_volume() for k in range(part.max() + 1)]
    )
    keep = (volumes >= least * volumes.max())[part]
    return Mesh(mesh.positions, mesh.faces[keep]).clean()


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
