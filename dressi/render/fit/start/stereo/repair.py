"""What masks show and a carved field lacks is given back where it was carved least."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion

from ....mesh.remesh.volume import Grid
from .views import Views

TIMES = 2
"""What is given back may miss pixels of other views, so it is looked at again."""


def repaired(field: np.ndarray, hull: np.ndarray, grid: Grid, views: Views) -> np.ndarray:
    """(X, Y, Z) the field, positive inside, with a cell for each pixel of a mask that it leaves uncovered: the one on its ray,
    inside the hull, whose value is the largest."""
    field = field.copy()
    for _ in range(TIMES):
        shell = np.argwhere((field > 0) & ~np.asarray(binary_erosion(field > 0), bool))
        cells = [_missing(field, hull, grid, views, k, shell) for k in range(len(views))]
        back = np.zeros(field.shape, bool)
        back[tuple(np.concatenate(cells).T)] = True
        back = np.asarray(binary_dilation(back), dtype=bool) & (hull > 0)
        field[back] = np.maximum(field[back], np.minimum(hull[back], grid.step))
    return field


def _missing(
    field: np.ndarray, hull: np.ndarray, grid: Grid, views: Views, k: int, shell: np.ndarray
) -> np.ndarray:
    """(P, 3) the cells that cover what view k lacks. shell: (S, 3) those inside that are beside the outside."""
    shape = views.crop[::-1]
    column, row, z = views.projected(k, grid.origin + grid.step * shell)
    x, y = np.floor(column).astype(int), np.floor(row).astype(int)
    there = (z > 0) & (x >= 0) & (x < shape[1]) & (y >= 0) & (y < shape[0])
    covered = np.zeros(shape, bool)
    covered[y[there], x[there]] = True
    # A cell may be wider than a pixel.
    pixel = float(np.median(z)) / views.K[k][0, 0] if len(z) else grid.step
    wide = max(int(np.ceil(0.5 * grid.step / pixel)), 1)
    covered = np.asarray(binary_dilation(covered, iterations=wide), bool)
    rows, columns = np.nonzero((views.cropped(views.masks, k) > 0.5) & ~covered)
    if not len(rows):
        return np.zeros((0, 3), int)
    corners = np.array(np.meshgrid(*[(0, count) for count in grid.shape])).reshape(3, -1).T
    z = views.projected(k, grid.origin + grid.step * corners)[2]
    depths = np.arange(z.min(), z.max() + grid.step, grid.step)
    points = views.centres[k] + views.rays(k)[rows, columns][:, None] * depths[:, None]
    cells = np.rint((points - grid.origin) / grid.step).astype(np.int32)
    inside = ((cells >= 0) & (cells < grid.shape)).all(-1)
    x, y, z = np.moveaxis(np.where(inside[..., None], cells, 0), -1, 0)
    value = np.where(inside & (hull[x, y, z] > 0), field[x, y, z], -np.inf)
    best = value.argmax(1)
    ray = np.arange(len(rows))
    return cells[ray, best][np.isfinite(value[ray, best])]
