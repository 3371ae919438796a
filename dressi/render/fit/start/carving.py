"""The visual hull of masks as a signed field: how deep a point lies inside the cones of all masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter, map_coordinates, zoom

from ...mesh.volume import Grid
from ..phases.mask_distances import cut_off

PAD = 8
"""Pixels around a mask. Distances at their border extend beyond it."""
SMOOTH = 0.7
"""Blur of the distances in pixels, which removes the staircase of a binary outline."""
COARSE = 4
"""Cells of the fine grid along one cell of the grid that is evaluated first."""

CHUNK = 1 << 15
"""Points that are evaluated at once, so that what is computed of them stays in the cache."""


@dataclass(frozen=True, eq=False)
class Cones:
    """The cones of N masks. The field of a cone at a point is its approximate signed distance to the cone, positive inside.

    matrices: (N, 4, 4) from the space of the points to clip space.  size: (W, H) of the masks.
    distances: N images (H + 2 PAD, W + 2 PAD), signed pixels to the outline.
    """

    matrices: np.ndarray
    size: tuple[int, int]
    distances: list[np.ndarray]

    @classmethod
    def of(cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None) -> Cones:
        """The cones of masks (N, H, W). known: (N, H, W) bool, the valid pixels.

        Where coverage is unknown nothing is carved: beyond the border of a mask that is ``cut_off``, and at pixels that are
        not known. Any other mask shows the object as a whole, so that its outside goes on beyond the border.
        """
        cut, images = cut_off(masks, known), []
        for i, mask in enumerate(np.asarray(masks) >= 0.5):
            told = np.ones(mask.shape, bool) if known is None else np.asarray(known[i]) > 0
            maybe = np.pad(mask | ~told, PAD, constant_values=bool(cut[i]))
            images.append(gaussian_filter(_signed(maybe), SMOOTH, mode="nearest").astype(np.float32))
        height, width = masks.shape[1:]
        return cls(np.asarray(matrices, np.float64), (width, height), images)

    def __len__(self) -> int:
        return len(self.matrices)

    def without(self, views: set[int]) -> Cones:
        """The cones of the other views."""
        rest = [i for i in range(len(self)) if i not in views]
        return Cones(self.matrices[rest], self.size, [self.distances[i] for i in rest])

    def field(self, view: int, points: np.ndarray) -> np.ndarray:
        """(P,) float32 field of one cone at points (P, 3), in their units; infinite behind the camera."""
        matrix, (width, height) = self.matrices[view].astype(np.float32), self.size
        x, y, depth = (matrix[k, :3] @ points.T + matrix[k, 3] for k in (0, 1, 3))
        front = depth > 1e-6
        scale = 0.5 / np.where(front, depth, np.float32(1))
        at = [y * scale * height, x * scale * width]
        at[0] += 0.5 * height + PAD - 0.5
        at[1] += 0.5 * width + PAD - 0.5
        pixels = map_coordinates(self.distances[view], at, order=1, mode="nearest")
        # A length l across the view at depth w is l * |row 1| / w * H / 2 pixels.
        return np.where(
            front, pixels * depth * np.float32(2 / (height * np.linalg.norm(matrix[1, :3]))), np.inf
        )

    def fields(self, points: np.ndarray) -> np.ndarray:
        """(N, P) the fields of all cones at points (P, 3)."""
        return np.stack([self.field(view, points.astype(np.float32)) for view in range(len(self))])

    def hull(self, points: np.ndarray, least: float = -np.inf) -> np.ndarray:
        """(P,) the least field of all cones: positive inside the hull. Values below ``least`` are only known to be below."""
        found = np.full(len(points), np.inf, np.float32)
        for first in range(0, len(points), CHUNK):
            some, alive = points[first : first + CHUNK].astype(np.float32), np.arange(first, first + CHUNK)
            alive = alive[: len(some)]
            for view in range(len(self)):
                found[alive] = np.minimum(found[alive], self.field(view, some))
                stays = found[alive] >= least
                some, alive = some[stays], alive[stays]
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


def _signed(mask: np.ndarray) -> np.ndarray:
    """Signed pixels to the outline, positive inside; far away without an outline."""
    if mask.all() or not mask.any():
        return np.full(mask.shape, float(sum(mask.shape)) * (1 if mask.any() else -1))
    inside, outside = (np.asarray(distance_transform_edt(part)) for part in (mask, ~mask))
    return np.where(mask, inside - 0.5, 0.5 - outside)
