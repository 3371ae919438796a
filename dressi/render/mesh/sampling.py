"""Points on the surface of a mesh, and distances to it."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from .mesh import Mesh

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

    count: approximate number of these points; every face has one. The error is a fraction of the distance between them.

    >>> from dressi.render.mesh.primitives import cube
    >>> SurfaceDistance(cube()).distances(np.array([[0.0, 0, 3], [0, 0, 0]])).round(6).tolist()
    [2.0, 1.0]
    """

    def __init__(self, mesh: Mesh, count: int = 20_000):
        areas = mesh.face_areas()
        counts = np.ceil(count * areas / areas.sum()).astype(int)
        self.mesh = mesh
        self._face = np.repeat(np.arange(len(counts)), np.maximum(counts, 1))
        self._tree = KDTree(_points_on(mesh, self._face, np.random.default_rng(0)))

    def distances(self, points: np.ndarray, *, most: float = np.inf) -> np.ndarray:
        """(...) unsigned distances of points (..., 3), at most ``most``."""
        distance, close = np.empty(points.shape[:-1]), np.ones(points.shape[:-1], bool)
        near = points.reshape(-1, 3)
        if np.isfinite(most):
            distance = np.asarray(self._tree.query(points, distance_upper_bound=most)[0])
            close = distance < most
            near = points[close]
        faces = self._face[np.asarray(self._tree.query(near, NEAREST)[1])].reshape(-1)
        repeated = np.repeat(near, NEAREST, axis=0)
        from trimesh.triangles import closest_point  # slow to import and rarely used

        found = closest_point(self.mesh.positions[self.mesh.faces[faces]], repeated)
        distance[close] = np.linalg.norm(found - repeated, axis=-1).reshape(-1, NEAREST).min(1)
        return np.minimum(distance, most)


def _points_on(mesh: Mesh, face: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(N, 3) a random point on each of faces (N,), evenly."""
    u, v = random.random((2, len(face)))
    root = np.sqrt(u)
    weights = np.stack([1 - root, root * (1 - v), root * v], axis=1)
    return np.einsum("nk,nkd->nd", weights, mesh.positions[mesh.faces[face]])
