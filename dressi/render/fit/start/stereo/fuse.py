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
FEW = 0.5
"""Share of the views that show most of the object, below which a point that no depth tells of lies outside."""
ITERATIONS = 50


def fused(views: Views, maps: dict[int, DepthMap], hull: np.ndarray, grid: Grid) -> np.ndarray:
    """(X, Y, Z) signed distances on the grid, positive inside, in units of the scene and at most REACH cells.

    hull: (X, Y, Z) field of the visual hull, with which the result is intersected.
    """
    reach = REACH * grid.step
    near = hull > -grid.step
    points = grid.origin + grid.step * np.argwhere(near)
    total, weight, shown = (np.zeros(len(points), np.float32) for _ in range(3))
    for k, one in maps.items():
        distance, seen, share = seen_distances(views, k, one, points.astype(np.float32), reach)
        # What lies far behind the surface is hidden from this view.
        share = np.where(distance < reach, share, 0)
        total += share * np.clip(distance / reach, -1, 1)
        weight += share
        shown += seen
    # Where frames cut the object, what few of them show has hardly been carved.
    usual = max(float(np.percentile(shown, 90)), 1.0)
    total += PRIOR * np.clip((shown / usual - FEW) / 0.1, -1, 1)
    weight += PRIOR
    goal, certain = np.full(grid.shape, -1, np.float32), np.zeros(grid.shape, np.float32)
    goal[near], certain[near] = total / weight, weight
    return np.minimum(reach * smooth(goal, DATA * certain, near), np.clip(hull, -reach, reach))


def seen_distances(
    views: Views, k: int, one: DepthMap, points: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P,) how far points (P, 3) lie behind the depths of map k, infinite where it has none; whether they lie in the part of the
    view; and the weights of the depths.

    Within ``reach`` of the surface depths are interpolated between pixels, over those that are sure and nearly as far away as
    the nearest pixel's.
    """
    column, row, z = views.projected(k, points)
    width, height = views.crop
    x, y = column.astype(np.int32), row.astype(np.int32)
    seen = (z > 0) & (column >= 0) & (x < width) & (row >= 0) & (y < height)
    pixel = np.where(seen, y * width + x, 0)
    sure, depth = one.sure.ravel(), one.depth.ravel().astype(np.float32)
    found = np.where(seen & sure[pixel], z - depth[pixel], np.inf)
    near = np.flatnonzero(np.abs(found) < 2 * reach)
    u, v = column[near] - 0.5, row[near] - 0.5
    left, top = np.floor(u), np.floor(v)
    u, v, nearest = u - left, v - top, depth[pixel[near]]
    slack = 3 * one.step.ravel()[pixel[near]]
    total, weight = np.zeros(len(near), np.float32), np.zeros(len(near), np.float32)
    for dy in (0, 1):
        for dx in (0, 1):
            place = np.clip(top + dy, 0, height - 1) * width + np.clip(left + dx, 0, width - 1)
            other = place.astype(np.int32)
            share = (v if dy else 1 - v) * (u if dx else 1 - u)
            share = share * (sure[other] & (np.abs(depth[other] - nearest) < slack))
            total += share * depth[other]
            weight += share
    found[near] = z[near] - np.where(weight > 1e-6, total / np.maximum(weight, 1e-6), nearest)
    return found, seen, one.weight.ravel()[pixel].astype(np.float32)


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
    part = tau * weight.astype(np.float32)
    goal, scale = goal.astype(np.float32), 1 / (1 + part)
    pull = part * goal
    dual = [np.zeros(goal.shape, np.float32) for _ in range(3)]
    u, ahead = goal.copy(), goal.copy()
    length, change = np.empty_like(u), np.empty_like(u)
    ends = [_ends(goal.ndim, axis) for axis in range(3)]
    for _ in range(iterations):
        length[:] = 0
        for p, (head, tail) in zip(dual, ends, strict=True):
            np.subtract(ahead[head], ahead[tail], out=change[tail])
            change[tail] *= sigma
            p[tail] += change[tail]
            np.multiply(p, p, out=change)
            length += change
        np.sqrt(length, out=length)
        np.maximum(length, 1, out=length)
        new = u.copy()
        for p, (head, tail) in zip(dual, ends, strict=True):
            p /= length
            np.multiply(p[tail], tau, out=change[tail])
            new[tail] += change[tail]
            new[head] -= change[tail]
        new += pull
        new *= scale
        np.copyto(new, goal, where=~free)
        np.multiply(new, 2, out=ahead)
        ahead -= u
        u = new
    return u


def _ends(axes: int, axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """All but the first, and all but the last, along an axis."""
    head, tail = ([slice(None)] * axes for _ in range(2))
    head[axis], tail[axis] = slice(1, None), slice(None, -1)
    return tuple(head), tuple(tail)
