"""Depths of pictures from costs of planes, and where those of several views agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .views import Views

SURE = 0.35
"""Least correlation of a pixel that has a depth."""
BETTER = 0.16
"""Least cost, over those of all paths, by which all planes that are not beside the best one are worse."""
LARGE = np.float32(1e6)
"""Cost of a plane that may not be."""
AGREE = 1.0
"""Planes by which depths of two views differ at most where they agree."""
VOTES, ASKED = 2, 8
"""Views that have to agree with a depth, and the nearest so many that are asked."""


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Of the part of a view. depth: (H, W) along the optical axis, in units of the scene.  sure: (H, W) bool, where it is
    known.  step: (H, W) depth from a plane to the next there."""

    depth: np.ndarray
    sure: np.ndarray
    step: np.ndarray


def picked(scores: np.ndarray, costs: np.ndarray, allowed: np.ndarray, depths: np.ndarray) -> DepthMap:
    """The depth with the least cost, between planes by a parabola.

    scores, costs, allowed: (H, W, D) correlation of a plane, its cost summed over paths, and whether it may be. depths: (D,).
    """
    costs = np.where(allowed, costs, LARGE)
    best = costs.argmin(2)
    planes = np.arange(len(depths))
    one = best[..., None]
    least = np.take_along_axis(costs, one, 2)[..., 0]
    before, after = (
        np.take_along_axis(costs, np.clip(one + side, 0, len(depths) - 1), 2)[..., 0] for side in (-1, 1)
    )
    # Beside a plane that may not be there is nothing to interpolate.
    curved = (np.maximum(before, after) < LARGE) & (before + after > 2 * least)
    offset = np.where(curved, 0.5 * (before - after), 0) / np.where(curved, before + after - 2 * least, 1)
    place = np.clip(best + np.clip(offset, -0.5, 0.5), 0, len(depths) - 1)
    inverse = 1 / depths
    depth = 1 / np.interp(place, planes, inverse)
    far = np.abs(planes - one) > 2
    other = np.where(far, costs, LARGE).min(2)
    score = np.take_along_axis(scores, one, 2)[..., 0]
    sure = (least < LARGE) & (score > SURE) & (other - least > BETTER)
    spacing = float(np.abs(np.diff(inverse)).mean())
    return DepthMap(depth, sure, spacing * depth**2)


def agreeing(views: Views, maps: dict[int, DepthMap], beside: np.ndarray) -> dict[int, DepthMap]:
    """The maps, by the number of their view, with what VOTES other views agree with, as the mean of theirs.

    beside: (N, N - 1) the others by their nearness to each view.
    """
    found = {}
    for k, one in maps.items():
        rows, columns = np.nonzero(one.sure)
        rays = views.rays(k)[rows, columns]
        depth, slack = one.depth[rows, columns], AGREE * one.step[rows, columns]
        points = views.centres[k] + rays * depth[:, None]
        votes = np.zeros(len(rows), int)
        for other in [j for j in beside[k] if j in maps][:ASKED]:
            theirs = maps[other]
            column, row, z = views.projected(other, points)
            x, y = np.floor(column).astype(int), np.floor(row).astype(int)
            width, height = views.crop
            seen = (z > 0) & (x >= 0) & (x < width) & (y >= 0) & (y < height)
            x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
            away = theirs.depth[y, x] - z
            same = seen & theirs.sure[y, x] & (np.abs(away) < slack)
            votes += same
        sure = np.zeros_like(one.sure)
        sure[rows, columns] = votes >= VOTES
        found[k] = DepthMap(one.depth, sure, one.step)
    return found
