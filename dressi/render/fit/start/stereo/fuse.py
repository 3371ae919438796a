"""Depth maps of several views and the visual hull as one field: truncated signed distances with least total variation."""

from __future__ import annotations

import numpy as np

from ....mesh.remesh.volume import Grid
from .depths import DepthMap
from .views import Views

REACH = 3.0
"""Cells from a surface at which signed distances are cut off."""
DATA = 2.5
"""Weight of the distances of one view against total variation."""
PRIOR = 0.12
"""Weight, relative to a view, of that a point of the hull lies inside: what no view sees is not carved."""
ITERATIONS = 60


def fused(views: Views, maps: dict[int, DepthMap], hull: np.ndarray, grid: Grid) -> np.ndarray:
    """(X, Y, Z) signed distances on the grid, positive inside, in units of the scene and at most REACH cells.

    hull: (X, Y, Z) field of the visual hull, with which the result is intersected.
    """
    reach = REACH * grid.step
    near = hull > -grid.step
    points = grid.origin + grid.step * np.argwhere(near)
    total, weight = np.full(len(points), PRIOR), np.full(len(points), PRIOR)
    for k, one in maps.items():
        depth, z = seen_depths(views, k, one, points)
        # What lies far behind the surface is hidden from this view.
        known = np.isfinite(depth) & (z - depth < reach)
        total += np.where(known, np.maximum((z - depth) / reach, -1), 0)
        weight += known
    goal, certain = np.full(grid.shape, -1, np.float32), np.zeros(grid.shape, np.float32)
    goal[near], certain[near] = total / weight, weight
    return np.minimum(reach * smooth(goal, DATA * certain, near), np.clip(hull, -reach, reach))


def seen_depths(views: Views, k: int, one: DepthMap, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(P,) the depth that map k has where it sees points (P, 3), infinite where it has none, and their own depths.

    Between pixels it is interpolated over those that are sure and nearly as far away as the nearest pixel's.
    """
    column, row, z = views.projected(k, points)
    width, height = views.crop
    x0, y0 = np.floor(column - 0.5).astype(int), np.floor(row - 0.5).astype(int)
    u, v = column - 0.5 - x0, row - 0.5 - y0
    middle = (
        np.clip(np.floor(row).astype(int), 0, height - 1),
        np.clip(np.floor(column).astype(int), 0, width - 1),
    )
    nearest, slack = one.depth[middle], 3 * one.step[middle]
    total, weight = np.zeros(len(points)), np.zeros(len(points))
    for dy in (0, 1):
        for dx in (0, 1):
            place = np.clip(y0 + dy, 0, height - 1), np.clip(x0 + dx, 0, width - 1)
            share = (v if dy else 1 - v) * (u if dx else 1 - u)
            share = share * (one.sure[place] & (np.abs(one.depth[place] - nearest) < slack))
            total += share * one.depth[place]
            weight += share
    seen = (z > 0) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    known = seen & one.sure[middle] & (weight > 1e-6)
    return np.where(known, total / np.maximum(weight, 1e-6), np.inf), z


def smooth(
    goal: np.ndarray, weight: np.ndarray, free: np.ndarray, iterations: int = ITERATIONS
) -> np.ndarray:
    """(X, Y, Z) the u that minimises TV(u) + sum weight / 2 (u - goal)^2, by primal and dual steps (Chambolle and Pock, 2011).

    free: (X, Y, Z) bool; u is the goal elsewhere.

    >>> goal = np.where(np.arange(8) < 4, -1.0, 1.0).reshape(8, 1, 1)
    >>> smooth(goal, np.full(goal.shape, 50.0), np.ones(goal.shape, bool)).ravel().round(1).tolist()
    [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0]
    """
    tau = sigma = np.float32(1 / np.sqrt(12))
    goal = goal.astype(np.float32)
    part = np.float32(tau) * weight.astype(np.float32)
    pull, scale = part * goal, 1 / (1 + part)
    dual = [np.zeros(goal.shape, np.float32) for _ in range(3)]
    u = goal.copy()
    ahead = u.copy()
    for _ in range(iterations):
        for axis, p in enumerate(dual):
            head, tail = _ends(goal.ndim, axis)
            p[tail] += sigma * (ahead[head] - ahead[tail])
        length = np.maximum(np.sqrt(dual[0] ** 2 + dual[1] ** 2 + dual[2] ** 2), 1)
        slope = u.copy()
        for axis, p in enumerate(dual):
            p /= length
            head, tail = _ends(goal.ndim, axis)
            slope[tail] += tau * p[tail]
            slope[head] -= tau * p[tail]
        new = np.where(free, (slope + pull) * scale, goal)
        ahead = 2 * new - u
        u = new
    return u


def _ends(axes: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """All but the first, and all but the last, along an axis."""
    head, tail = ([slice(None)] * axes for _ in range(2))
    head[axis], tail[axis] = slice(1, None), slice(None, -1)
    return tuple(head), tuple(tail)
