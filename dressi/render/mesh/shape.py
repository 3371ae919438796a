"""Measures and connectivity of positions and faces."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .rows import connected, distinct, unit


class Shape:
    """Positions (V, 3) float64 and faces (F, 3) int64: measures, connectivity. `Mesh` adds what is on
    them."""

    positions: np.ndarray
    faces: np.ndarray

    def bounds(self) -> np.ndarray:
        """(2, 3): smallest and largest coordinates."""
        return np.stack([self.positions.min(0), self.positions.max(0)])

    def bounding_sphere(self) -> tuple[np.ndarray, float]:
        """Centre of the bounding box, and the distance to the farthest vertex from it."""
        center = self.bounds().mean(0)
        return center, float(np.sqrt(((self.positions - center) ** 2).sum(1).max()))

    def face_normals(self) -> np.ndarray:
        """(F, 3): unit normals, zero for a degenerate face."""
        return unit(self._crosses())

    def face_areas(self) -> np.ndarray:
        """(F,)."""
        return 0.5 * np.linalg.norm(self._crosses(), axis=1)

    def vertex_normals(self) -> np.ndarray:
        """(V, 3): unit sums of area-weighted face normals, zero where there is none."""
        normals, weighted = np.zeros_like(self.positions), self._crosses()
        for corner in self.faces.T:
            np.add.at(normals, corner, weighted)
        return unit(normals)

    def signed_volume(self) -> float:
        """Volume enclosed, positive when a closed mesh's faces turn outward."""
        a, b, c = (self.positions[self.faces[:, k]] - self.positions[0] for k in range(3))
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)

    def edges(self) -> np.ndarray:
        """(E, 2) int64: every edge once, smaller vertex first, sorted."""
        start, end = self._half_edges().T
        size = len(self.positions)
        # Numbers sort faster than rows.
        keys = distinct(np.minimum(start, end) * size + np.maximum(start, end))
        return np.stack(np.divmod(keys, max(size, 1)), axis=1)

    def edge_lengths(self) -> np.ndarray:
        """(E,) lengths of ``edges``."""
        a, b = self.positions[self.edges()].transpose(1, 0, 2)
        return np.linalg.norm(a - b, axis=1)

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices around each vertex in compressed rows: (V + 1,) offsets and (2 E,) sorted indices."""
        (a, b), size = self.edges().T, len(self.positions)
        start, end = np.divmod(np.sort(np.concatenate([a * size + b, b * size + a])), max(size, 1))
        counts = np.bincount(start, minlength=size)
        return np.concatenate([[0], np.cumsum(counts)]), end

    def parts(self) -> np.ndarray:
        """(F,) int: number, from 0 on, of the connected part that each face belongs to."""
        start, end = self.edges().T
        part = connected(start, end, len(self.positions))[self.faces[:, 0]]
        return np.unique(part, return_inverse=True)[1]

    def component_count(self) -> int:
        """Number of connected components; see `components`."""
        return int(self.parts().max()) + 1 if len(self.faces) else 0

    def averaging(self) -> sparse.csr_array:
        """(V, V) sparse matrix that takes the mean of each vertex's neighbours."""
        offsets, near = self.neighbours()
        counts = np.diff(offsets)
        weights = np.repeat(1 / np.maximum(counts, 1), counts)
        return sparse.csr_array((weights, near, offsets), shape=(len(counts),) * 2)

    def is_closed(self) -> bool:
        """Whether each edge belongs to exactly two faces, which run through it in opposite directions."""
        half = self._half_edges()
        size = len(self.positions)
        forward = np.sort(half[:, 0] * size + half[:, 1])
        backward = np.sort(half[:, 1] * size + half[:, 0])
        return bool((np.diff(forward) > 0).all() and np.array_equal(forward, backward))

    def euler_characteristic(self) -> int:
        """V - E + F over the vertices in use: 2 for one closed surface without holes, 0 for a torus."""
        return len(distinct(self.faces)) - len(self.edges()) + len(self.faces)

    def _crosses(self) -> np.ndarray:
        """(F, 3) normals as long as twice the areas."""
        a, b, c = self.positions[self.faces.T]
        return np.cross(b - a, c - a)

    def _half_edges(self) -> np.ndarray:
        return np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])
