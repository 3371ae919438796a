"""Depths of pictures from costs of planes, and where those of several views agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import distance_transform_edt, maximum_filter, median_filter, minimum_filter

from .views import Views

SURE = 0.35
"""Least correlation of a pixel that has a depth."""
BETTER = 0.16
"""Least cost, over those of all paths, by which all planes that are not beside the best one are worse."""
EDGE, JUMP = 0.5, 12.0
"""Weight of depths beside a jump, and the planes between the depths of a window that make one."""
LARGE = np.float32(1e6)
"""Cost of a plane that may not be."""
AGREE, PIXELS = 0.5, 0.75
"""Planes, and widths of a pixel at that depth, of which depths of two views differ by one at most where they agree."""
REACH, SIMILAR = 4, 3.0
"""Pixels to neighbours, and planes of the difference between them, over which depths are smoothed."""
DOUBT = 0.8
"""Planes: depths that are less certain by their own scores are not among the confident ones."""
VOTES, ASKED = 2, 8
"""Views that have to agree with a depth, and the nearest so many that are asked."""


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Of the part of a view. depth: (H, W) along the optical axis, in units of the scene.  sure: (H, W) bool, where it is
    known.  step: (H, W) depth from a plane to the next there.  weight: (H, W), EDGE where windows look over a jump in depth or
    the rim of the mask, else 1.  doubt: (H, W) likely error in planes: scores that lack much of 1, or hardly change from plane
    to plane, say little."""

    depth: np.ndarray
    sure: np.ndarray
    step: np.ndarray
    weight: np.ndarray
    doubt: np.ndarray

    @property
    def confident(self) -> np.ndarray:
        """(H, W) bool: where the depth is known and certain, and no jump is near."""
        return self.sure & (self.weight == 1) & (self.doubt < DOUBT)


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
    return DepthMap(depth, sure, spacing * depth**2, np.ones(depth.shape), np.zeros(depth.shape))


def refined(
    coarse: np.ndarray,
    scores: np.ndarray,
    offsets: np.ndarray,
    sure: np.ndarray,
    inside: np.ndarray,
    spacing: float,
    reach: int,
) -> DepthMap:
    """The depth with the best score beside a surface, between offsets by a parabola.

    coarse: (H, W) inverse depths, to which the offsets (D,), evenly apart, belong.  scores: (H, W, D).  sure: (H, W) bool, where
    the surface is known.  inside: (H, W) bool, the mask.  spacing: of the planes, as inverse depths, by which depths are compared.
    reach: of the windows, in pixels.
    """
    best = np.clip(scores.argmax(2), 1, len(offsets) - 2)[..., None]
    before, most, after = (np.take_along_axis(scores, best + side, 2)[..., 0] for side in (-1, 0, 1))
    curvature = before + after - 2 * most
    curved = curvature < -1e-6
    place = np.where(curved, 0.5 * (before - after), 0) / np.where(curved, curvature, 1)
    inverse = coarse + offsets[best[..., 0]] + np.clip(place, -0.5, 0.5) * (offsets[1] - offsets[0])
    depth = 1 / np.maximum(inverse, 1e-6)
    there, size = np.where(inside, inverse, 0), 2 * reach + 1
    jump = maximum_filter(there, size) - minimum_filter(there, size) > JUMP * spacing
    # A parabola of this curvature loses over the doubt half of what the best score lacks of 1.
    doubt = (
        np.sqrt(np.maximum(1 - most, 0) / np.maximum(-curvature, 1e-6)) * (offsets[1] - offsets[0]) / spacing
    )
    return DepthMap(depth, sure & (most > SURE), spacing * depth**2, np.where(jump, EDGE, 1.0), doubt)


def smoothed(one: DepthMap, inside: np.ndarray) -> np.ndarray:
    """(H, W) inverse depths of a map without the steps from plane to plane, by means over neighbours that are nearly as deep."""
    inverse = np.where(inside, 1 / one.depth, 0)
    spacing = SIMILAR * one.step / one.depth**2
    found = np.where(inside, median_filter(inverse, 5), 0)
    found = np.where(found > 0, found, inverse)
    for _ in range(2):
        padded = np.pad(found, REACH)
        total, weight = np.zeros_like(found), np.zeros_like(found)
        for dy in range(2 * REACH + 1):
            for dx in range(2 * REACH + 1):
                other = padded[dy : dy + found.shape[0], dx : dx + found.shape[1]]
                far = ((dy - REACH) ** 2 + (dx - REACH) ** 2) / REACH**2
                share = np.exp(-2 * far) * ((other > 0) & (np.abs(other - found) < spacing))
                total += share * other
                weight += share
        found = np.where(weight > 0, total / np.maximum(weight, 1e-9), found)
    # Pixels outside of the mask are as deep as the nearest one inside: finer pictures are interpolated from these.
    nearest = np.asarray(distance_transform_edt(~inside, return_distances=False, return_indices=True))
    return found[tuple(nearest)] if inside.any() else found


def agreeing(views: Views, maps: dict[int, DepthMap], beside: np.ndarray) -> dict[int, DepthMap]:
    """The maps, by the number of their view, with what VOTES other views agree with, as the mean with theirs.

    beside: (N, N - 1) the others by their nearness to each view.
    """
    found = {}
    for k, one in maps.items():
        rows, columns = np.nonzero(one.sure)
        rays = views.rays(k)[rows, columns]
        depth = one.depth[rows, columns]
        slack = np.maximum(AGREE * one.step[rows, columns], PIXELS * depth / views.K[k][0, 0])
        points = views.centres[k] + rays * depth[:, None]
        votes, moved = np.zeros(len(rows), int), np.zeros(len(rows))
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
            moved += np.where(same, away / np.maximum(z, 1e-9), 0)
        sure, mean = np.zeros_like(one.sure), one.depth.copy()
        sure[rows, columns] = votes >= VOTES
        mean[rows, columns] *= 1 + moved / (votes + 1)
        found[k] = DepthMap(mean, sure, one.step, one.weight, one.doubt)
    return found
