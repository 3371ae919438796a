"""The visual hull of masks as a signed field: how deep a point lies inside the cones of all masks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates, zoom

from ....mesh.remesh.volume import Grid
from ...graphs.mask_distances import cut_off, outline_distances

PAD = 8
"""Pixels around a mask. Distances at their border extend beyond it."""
SMOOTH = 0.7
"""Blur of the distances in pixels, which removes the staircase of a binary outline."""
COARSE = 4
"""Cells of the fine grid along one cell of the grid that is evaluated first."""

SCENE = np.array([[-1.0] * 3, [1.0] * 3])
"""The box around the unit sphere, in which the object lies in units of the scene."""
SEEN = 1 / 3
"""Share of the views that have to show a point. What fewer show has hardly been carved."""
CHUNK = 1 << 15
"""Points that are evaluated at once, so that what is computed of them stays in the cache."""


@dataclass(frozen=True, eq=False)
class Cones:
    """The cones of N masks. The field of a cone at a point is its approximate signed distance to the cone, positive inside.

    matrices: (N, 4, 4) from the space of the points to clip space.  size: (W, H) of the masks.
    distances: N images (H + 2 PAD, W + 2 PAD), signed pixels to the outline.  told: N such images of 0 and 1, the pixels
    whose coverage is known; None if all are.  box: (2, 3), outside of which nothing is.
    """

    matrices: np.ndarray
    size: tuple[int, int]
    distances: list[np.ndarray]
    told: list[np.ndarray | None]
    box: np.ndarray

    @classmethod
    def of(
        cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None, box: np.ndarray = SCENE
    ) -> Cones:
        """The cones of masks (N, H, W). known: (N, H, W) bool, the valid pixels.

        Where coverage is unknown nothing is carved: beyond the border of a mask that is ``cut_off``, and at pixels that are
        not known. Any other mask shows the object as a whole, so that its outside goes on beyond the border.
        """
        cut, images, seen = cut_off(masks, known), [], []
        for i, mask in enumerate(np.asarray(masks) >= 0.5):
            told = np.ones(mask.shape, bool) if known is None else np.asarray(known[i]) > 0
            maybe = np.pad(mask | ~told, PAD, constant_values=bool(cut[i]))
            images.append(
                gaussian_filter(outline_distances(maybe), SMOOTH, mode="nearest").astype(np.float32)
            )
            wide = np.pad(told, PAD, constant_values=not cut[i])
            seen.append(None if wide.all() else wide.astype(np.float32))
        height, width = masks.shape[1:]
        return cls(np.asarray(matrices, np.float64), (width, height), images, seen, np.asarray(box))

    def __len__(self) -> int:
        return len(self.matrices)

    def without(self, views: set[int]) -> Cones:
        """The cones of the other views."""
        rest = [i for i in range(len(self)) if i not in views]
        distances, told = ([images[i] for i in rest] for images in (self.distances, self.told))
        return replace(self, matrices=self.matrices[rest], distances=distances, told=told)

    def field(self, view: int, points: np.ndarray) -> np.ndarray:
        """(P,) float32 field of one cone at points (P, 3), in their units; infinite behind the camera."""
        row, column, depth = self._pixels(view, points)
        pixels = map_coordinates(self.distances[view], [row, column], order=1, mode="nearest")
        # A length l across the view at depth w is l * |row 1| / w * H / 2 pixels.
        scale = 2 / (self.size[1] * np.linalg.norm(self.matrices[view, 1, :3]))
        return np.where(depth > 1e-6, pixels * depth * np.float32(scale), np.inf)

    def domain(self, points: np.ndarray) -> np.ndarray:
        """(P,) a field of where the object can be at all: in the box, and where at least SEEN of the views show it."""
        inside = np.minimum(points - self.box[0], self.box[1] - points).min(1)
        limited = [view for view, told in enumerate(self.told) if told is not None]
        if not limited:
            return inside
        count = np.full(len(points), len(self) - len(limited))
        for view in limited:
            row, column, depth = self._pixels(view, points.astype(np.float32))
            seen = map_coordinates(self.told[view], [row, column], order=0, mode="nearest")
            count += (depth > 1e-6) & (seen > 0)
        return np.where(count < SEEN * len(self), -np.abs(inside), inside)

    def _pixels(self, view: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row and column of float32 points (P, 3) in the padded image of a view, in pixels, and their depth."""
        matrix, (width, height) = self.matrices[view].astype(np.float32), self.size
        x, y, depth = (matrix[k, :3] @ points.T + matrix[k, 3] for k in (0, 1, 3))
        scale = 0.5 / np.where(depth > 1e-6, depth, np.float32(1))
        row = y * scale * np.float32(height) + np.float32(0.5 * height + PAD - 0.5)
        column = x * scale * np.float32(width) + np.float32(0.5 * width + PAD - 0.5)
        return row, column, depth

    def fields(self, points: np.ndarray) -> np.ndarray:
        """(N, P) the fields of all cones at points (P, 3)."""
        return np.stack([self.field(view, points.astype(np.float32)) for view in range(len(self))])

    def hull(self, points: np.ndarray, least: float = -np.inf) -> np.ndarray:
        """(P,) the least field of all cones: positive inside the hull. Values below ``least`` are only known to be below."""
        found = self.domain(points)
        for first in range(0, len(points), CHUNK):
            alive = np.arange(first, min(first + CHUNK, len(points)))
            some = points[alive].astype(np.float32)
            for view in range(len(self)):
                stays = found[alive] >= least
                some, alive = some[stays], alive[stays]
                found[alive] = np.minimum(found[alive], self.field(view, some))
        return found

    def on(self, grid: Grid) -> np.ndarray:
        """(X, Y, Z) field of the hull on a grid.

        A grid COARSE times as wide is evaluated first; between its points the field is interpolated where the surface is
        farther away than a cell of it.
        """
        wide = tuple((count - 2) // COARSE + 2 for count in grid.shape)
        step = COARSE * grid.step
        points = Grid(grid.origin, step, (wide[0], wide[1], wide[2])).points().reshape(-1, 3)
        reach = np.sqrt(3) * step
        coarse = np.clip(self.hull(points, -2 * reach), -2 * reach, 2 * reach).reshape(wide)
        fine = zoom(coarse, [(COARSE * (count - 1) + 1) / count for count in wide], order=1)
        fine = np.ascontiguousarray(fine[tuple(slice(count) for count in grid.shape)])
        near = np.abs(fine) < reach
        points = grid.origin + grid.step * np.argwhere(near)
        fine[near] = np.clip(self.hull(points, -3 * grid.step), -2 * reach, 2 * reach)
        return fine
