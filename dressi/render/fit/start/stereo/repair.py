"""What masks show and a carved field lacks is given back where it was carved least."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_dilation, map_coordinates

from ....mesh.remesh.volume import Grid
from .views import Views

TIMES = 2


def repaired(
    field: np.ndarray, hull: np.ndarray, grid: Grid, views: Views, known: np.ndarray | None = None
) -> np.ndarray:
    """(X, Y, Z) the field, positive inside, with a cell for each pixel of a mask that it leaves uncovered: the one on its ray,
    inside the hull, whose value is the largest."""
    field = field.copy()
    for _ in range(TIMES):
        cells = np.unique(
            np.concatenate([_missing(field, hull, grid, views, k) for k in range(len(views))]), axis=0
        )
        if not len(cells):
            break
        back = np.zeros(field.shape, bool)
        back[tuple(cells.T)] = True
        back = np.asarray(binary_dilation(back), dtype=bool) & (hull > 0)
        field[back] = np.maximum(field[back], np.minimum(hull[back], grid.step))
    return field


def _missing(field: np.ndarray, hull: np.ndarray, grid: Grid, views: Views, k: int) -> np.ndarray:
    """(P, 3) the cells that cover what view k lacks."""
    shape = views.crop[::-1]
    inside = grid.origin + grid.step * np.argwhere(field > 0)
    column, row, z = views.projected(k, inside)
    x, y = np.floor(column).astype(int), np.floor(row).astype(int)
    there = (z > 0) & (x >= 0) & (x < shape[1]) & (y >= 0) & (y < shape[0])
    covered = np.zeros(shape, bool)
    covered[y[there], x[there]] = True
    # A cell is wider than a pixel.
    pixel = float(np.median(z)) / views.K[k][0, 0] if len(z) else grid.step
    covered = np.asarray(
        binary_dilation(covered, iterations=max(int(np.ceil(0.5 * grid.step / pixel)), 1)), bool
    )
    rows, columns = np.nonzero((views.cropped(views.masks, k) > 0.5) & ~covered)
    if not len(rows):
        return np.zeros((0, 3), int)
    z = (grid.origin + grid.step * np.argwhere(hull > 0)) @ views.R[k][2] + views.t[k][2]
    depths = np.arange(z.min(), z.max() + grid.step, grid.step)
    points = views.centres[k] + views.rays(k)[rows, columns][:, None] * depths[:, None]
    at = np.moveaxis((points - grid.origin) / grid.step, -1, 0).reshape(3, -1)
    value, limit = (
        map_coordinates(f, at, order=0, mode="constant", cval=-np.inf).reshape(points.shape[:2])
        for f in (field, hull)
    )
    value = np.where(limit > 0, value, -np.inf)
    best = value.argmax(1)
    ray = np.arange(len(rows))
    found = np.rint(np.moveaxis(at.reshape(3, *value.shape), 0, -1)[ray, best]).astype(int)
    return found[np.isfinite(value[ray, best])]
