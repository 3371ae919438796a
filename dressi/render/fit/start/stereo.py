"""Stereo as a start of a fit: plane sweep, semi-global matching, checks between views, fusion with the
hull."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import (
    binary_dilation,
    binary_erosion,
    convolve,
    distance_transform_edt,
    gaussian_filter,
    map_coordinates,
    maximum_filter,
    median_filter,
    minimum_filter,
    uniform_filter,
)

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, MAT3, VEC3
from ....errors import InputError
from ...cameras import Cameras
from ...cameras.pose import unit_cameras
from ...core.engine import Engine, MakeEngine
from ...forms.soft_target import nearest_outside
from ...io.images import resize, scaled_size
from ...mesh import Mesh
from ...mesh.remesh.volume import Grid, surface_of
from ...surface.color import linear_to_srgb
from ..data.dataset import Dataset, Observations
from ..data.learned import resized
from .carved import Hull, shell

# Depths of pictures from costs of planes, and where those of several views agree.

SURE = 0.35
"""Least correlation of a pixel that has a depth."""
BETTER = 0.16
"""Least cost, over those of all paths, by which all planes that are not beside the best one are worse."""
EDGE, JUMP = 0.5, 12.0
"""Weight of depths beside a jump, and the planes between the depths of a window that make one."""
LARGE = np.float32(1e6)
"""Cost of a plane that may not be."""
AGREE, PIXELS = 0.5, 0.75
"""Planes, and widths of a pixel at that depth, of which depths of two views differ by one at most where they
agree."""
REACH, SIMILAR = 4, 3.0
"""Most pixels to neighbours, and planes between them, over which depths are smoothed."""
DOUBT = 0.8
"""Planes: depths that are less certain by their own scores are not among the confident ones."""
VOTES, ASKED = 2, 8
"""Views that have to agree with a depth, and the nearest so many that are asked."""


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Depths of the part of a view, (H, W) each. depth: along the optical axis, in units of the scene.  sure:
    bool, where it is known.  step: depth from a plane to the next.  weight: EDGE where windows look over a
    jump in depth or the rim of the mask, else 1.  doubt: likely error in planes: scores that lack much of 1,
    or hardly change from plane to plane, say little."""

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

    scores, costs, allowed: (H, W, D) correlation of a plane, its cost summed over paths, and whether it may
    be.  depths: (D,).
    """
    costs = np.where(allowed, costs, LARGE)
    best, planes = costs.argmin(2), np.arange(len(depths))
    one, last = best[..., None], len(depths) - 1
    sides = (np.clip(one + side, 0, last) for side in (-1, 0, 1))
    before, least, after = (np.take_along_axis(costs, side, 2)[..., 0] for side in sides)
    # Beside a plane that may not be there is nothing to interpolate.
    curved = (np.maximum(before, after) < LARGE) & (before + after > 2 * least)
    offset = np.where(curved, 0.5 * (before - after), 0) / np.where(curved, before + after - 2 * least, 1)
    place = np.clip(best + np.clip(offset, -0.5, 0.5), 0, last)
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

    coarse: (H, W) inverse depths, to which the offsets (D,), evenly apart, belong.  scores: (H, W, D).  sure,
    inside: (H, W) bool, where the surface is known, and the mask.  spacing: of the planes, in inverse depths.
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
    doubt = np.sqrt(np.maximum(1 - most, 0) / np.maximum(-curvature, 1e-6))
    doubt = doubt * (offsets[1] - offsets[0]) / spacing
    return DepthMap(depth, sure & (most > SURE), spacing * depth**2, np.where(jump, EDGE, 1.0), doubt)


def smoothed(one: DepthMap, inside: np.ndarray) -> np.ndarray:
    """(H, W) inverse depths of a map without steps from plane to plane: means over neighbours of like
    depth."""
    inverse = np.where(inside, 1 / one.depth, 0)
    spacing = SIMILAR * one.step / one.depth**2
    smooth = np.where(inside, median_filter(inverse, 5), 0)
    smooth = np.where(smooth > 0, smooth, inverse)
    height, width = smooth.shape
    for _ in range(2):
        padded = np.pad(smooth, REACH)
        total, weight = np.zeros_like(smooth), np.zeros_like(smooth)
        for dy, dx in np.ndindex(2 * REACH + 1, 2 * REACH + 1):
            other = padded[dy : dy + height, dx : dx + width]
            far = ((dy - REACH) ** 2 + (dx - REACH) ** 2) / REACH**2
            share = np.exp(-2 * far) * ((other > 0) & (np.abs(other - smooth) < spacing))
            total += share * other
            weight += share
        smooth = np.where(weight > 0, total / np.maximum(weight, 1e-9), smooth)
    # Finer pictures are interpolated from these: outside of the mask, pixels are as deep as the nearest
    # inside.
    return smooth[tuple(nearest_outside(~inside))] if inside.any() else smooth


def agreeing(views: Views, maps: dict[int, DepthMap], beside: np.ndarray) -> dict[int, DepthMap]:
    """The maps, by the number of their view, with what VOTES other views agree with, as the mean with theirs.

    beside: (N, N - 1) the others by their nearness to each view.
    """
    agreed = {}
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
            pixel, seen = views.pixels(column, row, z)
            away = theirs.depth.ravel()[pixel] - z
            same = seen & theirs.sure.ravel()[pixel] & (np.abs(away) < slack)
            votes += same
            moved += np.where(same, away / np.maximum(z, 1e-9), 0)
        sure, mean = np.zeros_like(one.sure), one.depth.copy()
        sure[rows, columns] = votes >= VOTES
        mean[rows, columns] *= 1 + moved / (votes + 1)
        agreed[k] = DepthMap(mean, sure, one.step, one.weight, one.doubt)
    return agreed


# Depth maps and the visual hull as one field: truncated signed distances with least total variation.

REACH_OF_FIELD = 3.0
"""Cells from a surface at which signed distances are cut off."""
DATA = 2.5
"""Weight of the distances of one view against total variation."""
PRIOR, EMPTY = 0.12, 0.3
"""Weight, relative to a view, that a point of the hull lies inside: what no view sees is not carved; and that it lies outside,
where pictures disagree about the surface in front of it."""
FEW = 0.5
"""Share of the views that show most of the object, below which a point without depths lies outside."""
ITERATIONS = 50


@dataclass(frozen=True, eq=False)
class Fusion:
    """What depth maps say of points (P, 3) near the visual hull. near: (X, Y, Z) bool, where they are.  total, weight: (P,)
    sums over the views.  prior: (P,) in [-1, 1], whether what no view sees is inside.  hull: (X, Y, Z) field."""

    near: np.ndarray
    points: np.ndarray
    total: np.ndarray
    weight: np.ndarray
    prior: np.ndarray
    hull: np.ndarray
    grid: Grid

    @classmethod
    def of(cls, views: Views, maps: dict[int, DepthMap], hull: np.ndarray, grid: Grid) -> Fusion:
        reach = REACH_OF_FIELD * grid.step
        near = hull > -grid.step
        points = (grid.origin + grid.step * np.argwhere(near)).astype(np.float32)
        total, weight, shown = (np.zeros(len(points), np.float32) for _ in range(3))
        for k, one in maps.items():
            distance, seen, share = seen_distances(views, k, one, points, reach)
            # What lies far behind the surface is hidden from this view.
            share = np.where(distance < reach, share, 0)
            total += share * np.clip(distance / reach, -1, 1)
            weight += share
            shown += seen
        # Where frames cut the object, what few of them show has hardly been carved.
        usual = max(float(np.percentile(shown, 90)), 1.0)
        prior = np.clip((shown / usual - FEW) / 0.1, -1, 1)
        return cls(near, points, total, weight, prior.astype(np.float32), hull, grid)

    def field(self, empty: np.ndarray) -> np.ndarray:
        """(X, Y, Z) signed distances on the grid, positive inside, in units of the scene and at most REACH cells.
        empty: (P,) bool, the points that are rather outside."""
        reach, near = REACH_OF_FIELD * self.grid.step, self.near
        sure = np.where(empty, np.float32(EMPTY), np.float32(PRIOR))
        goal, certain = np.full(near.shape, -1, np.float32), np.zeros(near.shape, np.float32)
        weight, prior = self.weight + sure, np.where(empty, np.float32(-1), self.prior)
        goal[near], certain[near] = (self.total + prior * sure) / weight, weight
        found = smooth(goal, DATA * certain, near)
        return np.minimum(reach * found, np.clip(self.hull, -reach, reach))


def seen_distances(
    views: Views, k: int, one: DepthMap, points: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P,) how far points (P, 3) lie behind the depths of map k, infinite where it has none; whether they lie
    in the part of the view; and the weights of the depths.

    Within ``reach`` of the surface depths are interpolated between pixels that are sure and nearly as deep.
    """
    column, row, z = views.projected(k, points)
    width, height = views.crop
    pixel, seen = views.pixels(column, row, z)
    sure, depth = one.sure.ravel(), one.depth.ravel().astype(np.float32)
    behind = np.where(seen & sure[pixel], z - depth[pixel], np.inf)
    near = np.flatnonzero(np.abs(behind) < 2 * reach)
    u, v = column[near] - 0.5, row[near] - 0.5
    left, top = np.floor(u), np.floor(v)
    u, v, nearest = u - left, v - top, depth[pixel[near]]
    slack = 3 * one.step.ravel()[pixel[near]]
    total, weight = np.zeros(len(near), np.float32), np.zeros(len(near), np.float32)
    for dy, dx in np.ndindex(2, 2):
        place = np.clip(top + dy, 0, height - 1) * width + np.clip(left + dx, 0, width - 1)
        other = place.astype(np.int32)
        share = (v if dy else 1 - v) * (u if dx else 1 - u)
        share = share * (sure[other] & (np.abs(depth[other] - nearest) < slack))
        total += share * depth[other]
        weight += share
    behind[near] = z[near] - np.where(weight > 1e-6, total / np.maximum(weight, 1e-6), nearest)
    return behind, seen, one.weight.ravel()[pixel].astype(np.float32)


def smooth(
    goal: np.ndarray, weight: np.ndarray, free: np.ndarray, iterations: int = ITERATIONS
) -> np.ndarray:
    """(X, Y, Z) the u with the least TV(u) + sum weight / 2 (u - goal)^2 (Chambolle and Pock, 2011).

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
    ends = []
    for axis in range(3):
        head, tail = ([slice(None)] * 3 for _ in range(2))
        head[axis], tail[axis] = slice(1, None), slice(None, -1)
        ends.append((tuple(head), tuple(tail)))
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


# Gaps that no depths fill, such as those between columns and the wall behind them, which few pictures see at once: where
# pictures that see the surface disagree about it, it is not there, and what lies behind it is emptied step by step.

COARSER, ROUNDS, DIG = 2, 6, 8.0
"""Cells of the fine grid along one of those that are emptied; how often, and how many of them deep each time."""
UNLIKE, LIKE = 0.05, 0.5
"""Mean correlation of a pixel with the two most similar of its neighbours that see it, below which the surface is not there,
and from which it is."""
WINDOW, PLAIN, FINISHED = 3, 2.0, 5e-4
"""Reach of the windows, in pixels; standard deviations of the noise of pictures, below which that of a window says nothing; share
of the cells that ends it when a round empties fewer."""


def seen_through(
    cameras: Cameras, pictures: Observations, maps: dict[int, DepthMap], fine: Views, hull: Hull
) -> np.ndarray:
    """(X, Y, Z) bool on the grid of the hull: the points that are rather empty than inside of the object.

    cameras: of the pictures, in units of the scene.  maps: of the ``fine`` ones.
    """
    field = hull.field[::COARSER, ::COARSER, ::COARSER]
    grid = Grid(hull.grid.origin, COARSER * hull.grid.step, field.shape)
    views = Views.of(cameras, pictures.masks, pictures.colors, COARSE_PIXELS)
    beside = views.beside(hull.points().mean(0))[:, :NEIGHBOURS]
    fusion, plain = Fusion.of(fine, maps, field, grid), PLAIN * noise_of(views)
    # Rims of masks that are too wide show the background, which is alike nowhere.
    masks = [views.cropped(views.masks, k) > 0.5 for k in range(len(views))]
    inner = [np.asarray(distance_transform_edt(mask)) > WINDOW for mask in masks]
    empty = np.zeros(len(fusion.points), bool)
    for _ in range(ROUNDS):
        surface = fusion.field(empty)
        cells = np.argwhere(shell(surface > 0))
        points, inward = grid.origin + grid.step * cells, surface[tuple(cells.T)]
        depths = [drawn_depth(views, k, points, inward, grid.step) for k in range(len(views))]
        # Nothing in front may be near: outlines are a pixel off.
        nearest = [minimum_filter(depth, 3) + 2 * grid.step for depth in depths]
        votes = np.zeros(len(empty), np.int16)
        for k, depth in enumerate(depths):
            column, row, z = views.projected(k, fusion.points)
            pixel, seen = views.pixels(column, row, z)
            behind = (z - depth.ravel()[pixel]) / grid.step
            seen &= (behind > -2) & (behind < DIG)
            there = inner[k] & np.isfinite(depth)
            here = likeness(views, k, beside[k], np.where(there, depth, 1), there, nearest, plain).ravel()[
                pixel
            ]
            votes += (seen & (here < UNLIKE)).astype(np.int16) - (seen & (behind > -1) & (here > LIKE))
        before, empty = empty, empty | (votes > 0)
        if (empty ^ before).mean() < FINISHED:
            break
    found = np.zeros(field.shape, bool)
    found[fusion.near] = empty
    return found[np.ix_(*(np.arange(count) // COARSER for count in hull.field.shape))]


def noise_of(views: Views) -> float:
    """The standard deviation of the noise of the pictures, from what differs from pixel to pixel (Immerkaer, 1996)."""
    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]]) / 6
    parts = [
        np.abs(convolve(grey, mask))[inside > 0.5]
        for grey, inside in zip(views.grey, views.masks, strict=True)
    ]
    return float(np.median(np.concatenate(parts))) / 0.6745


def drawn_depth(views: Views, k: int, points: np.ndarray, inward: np.ndarray, step: float) -> np.ndarray:
    """(H, W) depths of a surface in the part of view k, infinite where there is none. points: (S, 3), so far
    ``inward`` (S,) of it, a ``step`` apart."""
    column, row, z = views.projected(k, points)
    pixel, seen = views.pixels(column, row, z)
    depth = np.full(views.crop[::-1], np.inf)
    np.minimum.at(depth.ravel(), pixel[seen], (z - inward)[seen])
    # Cells that are wider than a pixel leave gaps between them.
    wide = step * views.K[k][0, 0] / float(np.median(z)) if len(z) else 1
    size = 2 * max(int(np.ceil(wide)), 1) + 1
    return maximum_filter(minimum_filter(depth, size), size)


def likeness(
    views: Views,
    k: int,
    others: np.ndarray,
    depth: np.ndarray,
    there: np.ndarray,
    nearest: list[np.ndarray],
    plain: float,
) -> np.ndarray:
    """(H, W) mean of the two largest correlations of windows of view k with those of others, warped by its depth; NaN
    where none of them sees the surface, or windows are too plain.

    depth, there: (H, W), and where it counts.  nearest: (H, W) of each view, the depths up to which it sees points.
    plain: standard deviation of a window that tells nothing.
    """
    grey = views.cropped(views.grey, k)
    points = views.centres[k] + views.rays(k) * depth[..., None]
    scores, size = [], 2 * WINDOW + 1
    for other in others:
        column, row, z = views.projected(other, points)
        pixel, seen = views.pixels(column, row, z)
        seen &= there & (z < nearest[other].ravel()[pixel])
        part = views.cropped(views.grey, other)
        theirs = map_coordinates(part, [row - 0.5, column - 0.5], order=1, mode="nearest")
        weight = seen.astype(np.float64)
        share = uniform_filter(weight, size)
        images = (grey, theirs, grey * grey, theirs * theirs, grey * theirs)
        a, b, aa, bb, ab = (uniform_filter(weight * one, size) / np.maximum(share, 1e-6) for one in images)
        spread, spreads = aa - a * a, bb - b * b
        score = (ab - a * b) / np.sqrt(np.maximum(spread * spreads, 1e-12))
        told = seen & (share > 0.5) & (np.maximum(spread, spreads) > plain**2)
        scores.append(np.where(told, score, -np.inf))
    first, second = np.sort(scores, axis=0)[:-3:-1]
    return np.where(np.isfinite(first), np.where(np.isfinite(second), 0.5 * (first + second), first), np.nan)


# Depths within a hull: by planes in small pictures, then beside the surface found in larger ones.

COARSE_PIXELS, FINE_PIXELS = 40_000, 400_000
"""Most pixels of the part of a picture that is swept by planes, and beside the surface found."""
PLANES = 112
"""Planes between the nearest and the farthest point of the hull; a multiple of ``CHUNK``."""
RADII = (2, 4)
"""Of the windows that are compared, in pixels."""
OFFSETS = np.linspace(-2, 2, 9)
"""Planes away from the surface found, at which larger pictures are compared."""
OUTSIDE = 2.0
"""Cost of a plane outside of the hull."""
MOST_VIEWS = 32
"""Pictures with depths. More add little: 18, 32 and 38 of lego give starts that other pictures see with 20.1,
20.4 and 20.4 dB."""


def depth_maps(
    cameras: Cameras, pictures: Observations, hull: Hull, make_engine: MakeEngine
) -> tuple[Views, dict[int, DepthMap]]:
    """The pictures that were compared, and their depths where several agree, by the number of the view.

    cameras: of the pictures, in units of the scene.
    """
    points, step = hull.points(), hull.grid.step
    views, fine = (
        Views.of(cameras, pictures.masks, pictures.colors, pixels) for pixels in (COARSE_PIXELS, FINE_PIXELS)
    )
    beside = views.beside(points.mean(0))
    coarse: dict[int, tuple[DepthMap, float]] = {}
    sweep = Sweep(views.crop, views.size, RADII)
    with closing(make_engine()) as engine:
        sweep.start(engine)
        for k in chosen(views, points.mean(0)):
            z = points @ views.R[k][2] + views.t[k][2]
            inverse = np.linspace(1 / max(z.min() - step, 1e-3), 1 / (z.max() + step), PLANES)
            scores = sweep.scores(engine, views, k, beside[k, :NEIGHBOURS].tolist(), inverse)
            allowed = within(views, k, hull, 1 / inverse)
            costs = np.where(allowed, 1 - scores, np.float32(OUTSIDE))
            costs = aggregated(costs, np.asarray(allowed.any(2)))
            coarse[k] = picked(scores, costs, allowed, 1 / inverse), float(abs(inverse[1] - inverse[0]))
    maps = {}
    sweep = Sweep(fine.crop, fine.size, RADII, len(OFFSETS))
    with closing(make_engine()) as engine:
        sweep.start(engine)
        for k, (one, spacing) in coarse.items():
            column, row, _ = views.projected(k, fine.centres[k] + fine.rays(k))
            at = np.stack([row, column]) - 0.5
            base = smoothed(one, views.cropped(views.masks, k) > 0.5)
            base = map_coordinates(base, at, order=1, mode="nearest")
            known = np.asarray(map_coordinates(one.sure, at, order=0, mode="nearest"), bool)
            scores = sweep.scores(engine, fine, k, beside[k, :NEIGHBOURS].tolist(), spacing * OFFSETS, base)
            inside = fine.cropped(fine.masks, k) > 0.5
            maps[k] = refined(base, scores, spacing * OFFSETS, known & inside, inside, spacing, max(RADII))
    return fine, agreeing(fine, maps, beside)


def chosen(views: Views, middle: np.ndarray) -> list[int]:
    """MOST_VIEWS of the views whose directions from a point (3,) are far from each other, or all."""
    away = views.centres - middle
    away = away / np.linalg.norm(away, axis=1, keepdims=True)
    chosen, nearness = [0], away @ away[0]
    while len(chosen) < min(MOST_VIEWS, len(views)):
        chosen.append(int(nearness.argmin()))
        nearness = np.maximum(nearness, away @ away[chosen[-1]])
    return sorted(chosen)


def within(views: Views, k: int, hull: Hull, depths: np.ndarray) -> np.ndarray:
    """(H, W, D) bool: whether a plane crosses the hull at a pixel of the mask; told for two by two pixels."""
    inside = views.cropped(views.masks, k) > 0.5
    points = views.centres[k] + views.rays(k)[::2, ::2, None] * depths[:, None]
    at = np.moveaxis((points - hull.grid.origin) / hull.grid.step, -1, 0)
    field = map_coordinates(hull.field.astype(np.float32), at, order=0, mode="constant", cval=-np.inf)
    there = (field > -hull.grid.step).repeat(2, 0).repeat(2, 1)[: inside.shape[0], : inside.shape[1]]
    return there & inside[..., None]


TIMES = 2
"""What ``repaired`` gives back may miss pixels of other views, so it is looked at again."""
ABOVE, EVEN = 0.75, 1.5
"""Cells by which ``repaired`` raises the field above zero, as smoothing takes of it again, and over which it does so evenly. More
makes flakes of what depths contradict: a whole cell gains .0005 of dino's overlap, and costs .6 dB of its interior."""


def repaired(field: np.ndarray, hull: np.ndarray, grid: Grid, views: Views) -> np.ndarray:
    """(X, Y, Z) the field, positive inside, raised until each pixel of a mask is covered: around the cell on its ray, inside
    the hull, that was carved least. Outside, values are at most distances below zero."""
    field = field.copy()
    for _ in range(TIMES):
        rim = np.argwhere(shell(field > 0))
        cells = np.concatenate([_missing(field, hull, grid, views, k, rim) for k in range(len(views))])
        at = tuple(np.unique(cells, axis=0).T)
        # Rays of many views end in cells that alternate along a rim. Raised by themselves, these are teeth.
        chosen, lack = np.zeros((2, *field.shape), np.float32)
        chosen[at], lack[at] = 1, ABOVE * grid.step - field[at]
        dense, lack = (gaussian_filter(image, EVEN) for image in (chosen, lack))
        lack = lack / np.maximum(dense, 1e-9) * np.minimum(2 * np.pi * EVEN**2 * dense, 1)
        field = np.where(hull > 0, np.maximum(field, np.minimum(field + lack, hull)), field)
    # What is given back is thin, and smoothing takes it away again among the values of what was carved.
    outside = field <= 0
    return np.where(outside, np.maximum(field, -grid.step * distance_transform_edt(outside)), field)


def _missing(
    field: np.ndarray, hull: np.ndarray, grid: Grid, views: Views, k: int, rim: np.ndarray
) -> np.ndarray:
    """(P, 3) the cells that cover what view k lacks. rim: (S, 3) the ``shell``."""
    column, row, z = views.projected(k, grid.origin + grid.step * rim)
    pixel, there = views.pixels(column, row, z)
    covered = np.zeros(views.crop[::-1], bool)
    covered.ravel()[pixel[there]] = True
    # Cells that are wider than a pixel leave gaps between them, but cover nothing beside them.
    width = float(np.median(z)) / views.K[k][0, 0] if len(z) else grid.step
    wide = max(int(np.ceil(0.5 * grid.step / width)), 1)
    covered = binary_erosion(binary_dilation(covered, iterations=wide), iterations=wide, border_value=1)
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
    best, ray = value.argmax(1), np.arange(len(rows))
    return cells[ray, best][np.isfinite(value[ray, best])]


# Semi-global matching: costs of the planes of a picture, summed along paths on which depth changes little.

STEP_COST, JUMP_COST = 0.1, 0.5
"""P1 and P2: what a change of the depth by one plane, and by more, adds to a path."""


def aggregated(
    costs: np.ndarray, inside: np.ndarray, step: float = STEP_COST, jump: float = JUMP_COST
) -> np.ndarray:
    """(H, W, D) costs (H, W, D) of D planes, summed over the paths from 8 directions (Hirschmüller, 2008).

    Along a path L(p, d) = C(p, d) + min(L(q, d), L(q, d +- 1) + step, min L(q) + jump) - min L(q), where q is
    the pixel before p. inside: (H, W) bool, the pixels on which paths run; costs of others are 0.

    >>> costs = np.ones((1, 3, 3))
    >>> costs[0, 0, 1] = costs[0, 2, 1] = 0
    >>> aggregated(costs, np.ones((1, 3), bool)).argmin(2).tolist()
    [[1, 1, 1]]
    """
    costs = np.ascontiguousarray(costs, np.float32)
    total = np.zeros_like(costs)
    _along(costs, inside, total, (-1, 0, 1), step, jump)
    turned = np.zeros((costs.shape[1], costs.shape[0], costs.shape[2]), np.float32)
    _along(np.ascontiguousarray(costs.swapaxes(0, 1)), inside.T, turned, (0,), step, jump)
    return total + turned.swapaxes(0, 1)


def _along(
    costs: np.ndarray,
    inside: np.ndarray,
    total: np.ndarray,
    slants: tuple[int, ...],
    step: float,
    jump: float,
) -> None:
    """Adds to ``total`` the sums of paths from row to row and back that move so many columns a row."""
    height, width, planes = costs.shape
    for rows in (range(height), range(height - 1, -1, -1)):
        before = np.zeros((len(slants), width, planes), np.float32)
        for row in rows:
            if not inside[row].any():
                before[:] = 0
                continue
            least = before.min(2, keepdims=True)
            path = np.minimum(before, least + np.float32(jump))
            np.minimum(path[:, :, 1:], before[:, :, :-1] + np.float32(step), out=path[:, :, 1:])
            np.minimum(path[:, :, :-1], before[:, :, 1:] + np.float32(step), out=path[:, :, :-1])
            path += costs[row] - least
            path *= inside[row][:, None]
            total[row] += path.sum(0)
            before[:] = 0
            for k, slant in enumerate(slants):
                there, here = (slice(max(s, 0), width + min(s, 0)) for s in (slant, -slant))
                before[k, there] = path[k, here]


# A start of a fit by stereo: depths of the photographs, fused with the visual hull of their masks.

BLUR = 1.0
"""Smoothing of the field in cells before it becomes a mesh."""
KEPT = 0.995
"""Least area of the start relative to that of the field, until which it has more faces. With half of them lego has half a
decibel less in pictures that were held out."""


def evened(field: np.ndarray) -> np.ndarray:
    """A field (X, Y, Z) smoothed over BLUR cells. Smoothing twice tells what it takes off bends, which goes back: it
    would be much of a thin limb.

    >>> field = 4 - np.abs(np.arange(9) - 4.0)
    >>> [float(part[4].round(1)) for part in (field, gaussian_filter(field, BLUR), evened(field))]
    [4.0, 3.3, 3.6]
    """
    once = gaussian_filter(field, BLUR)
    return 2 * once - gaussian_filter(once, BLUR)


def stereo_start(dataset: Dataset, hull: Hull, faces: int, make_engine: MakeEngine, least: float) -> Mesh:
    """The surface that the training pictures show, in units of the scene, with at least so many faces or
    about, no UVs.

    hull: of their masks.  least: share of the pixels of the masks whose depths have to agree. Raises
    InputError where there are too few pictures, or where they agree in less.
    """
    train = dataset.train
    if len(train.masks) <= NEIGHBOURS:
        raise InputError(
            f"stereo needs {NEIGHBOURS + 1} pictures to learn from, and there are {len(train.masks)}"
        )
    hull, cameras = hull.finer(), unit_cameras(train.cameras, dataset.center, dataset.radius)
    views, maps = depth_maps(cameras, train, hull, make_engine)
    inside = sum(int((views.cropped(views.masks, k) >= 0.5).sum()) for k in maps)
    share = sum(int(one.sure.sum()) for one in maps.values()) / max(inside, 1)
    if share < least:
        raise InputError(
            f"depths of {len(maps)} pictures agree at {100 * share:.0f} % of the pixels of their masks, less"
            f" than {100 * least:.0f} %: stereo needs texture, the same light in all pictures, cameras good to a pixel,"
            " and views 10 to 30 degrees apart"
        )
    empty = seen_through(cameras, train, maps, views, hull)
    fusion = Fusion.of(views, maps, hull.field, hull.grid)
    field = fusion.field(empty[fusion.near])
    field = repaired(field, hull.field, hull.grid, views)
    surface = surface_of(evened(field), hull.grid, faces, kept=KEPT, level=True)
    if surface is None:
        raise InputError("the depths of the pictures give no closed surface")
    return surface


# Plane sweep on the device: how well a picture agrees with its neighbours, warped through planes.

NEIGHBOURS = 4
"""Views that a picture is compared with. The best half counts: others may see something in front."""
CHUNK = 16
"""Planes that are swept at once: what lies between fits into caches."""
NOISE = 1e-3
"""Standard deviation of a window of grey, below which it counts as without texture."""


class Sweep:
    """The scores of depths as an image pipeline, for pictures of one size.

    Inverse depths are those of an image plus a number for each plane: planes that face the view where the
    image is constant, else surfaces beside a surface.  crop, size: (W, H) of the part of a picture that is
    swept, and of its neighbours.  radii: of the windows, in pixels, whose scores are averaged.  planes: swept
    at once.
    """

    def __init__(
        self, crop: tuple[int, int], size: tuple[int, int], radii: Sequence[int], planes: int = CHUNK
    ):
        self.planes, names = planes, ("picture", "weight", "base")
        self.picture, self.weight, self.base = (Variable(FLOAT, crop, name=name) for name in names)
        self.offsets = Variable(FLOAT, batch=planes, name="offsets")
        self.others = [Variable(FLOAT, size, name=f"other{i}") for i in range(NEIGHBOURS)]
        self.turns = [Variable(MAT3, name=f"turn{i}") for i in range(NEIGHBOURS)]
        self.moves = [Variable(VEC3, name=f"move{i}") for i in range(NEIGHBOURS)]
        here = F.vec3(F.to_float(F.pixel_coordinates(crop)) + 0.5, 1.0)
        inverse = self.base + self.offsets
        seen = []
        for other, turn, move in zip(self.others, self.turns, self.moves, strict=True):
            place = F.matmul(turn, here) + move * inverse
            uv = place.xy / place.z * (1 / size[0], 1 / size[1])
            seen.append(F.sample(other, uv, "bilinear", "clamp", tolerance=0))
        warped = F.vec4(*seen)
        scores = [correlations(self.picture, warped, self.weight, radius) for radius in radii]
        self.score = best_half(sum(scores[1:], start=scores[0]) * (1.0 / len(scores)))

    def start(self, engine: Engine) -> None:
        engine.set_output("score", self.score)

    def scores(
        self,
        engine: Engine,
        views: Views,
        k: int,
        beside: Sequence[int],
        offsets: np.ndarray,
        base: np.ndarray | None = None,
    ) -> np.ndarray:
        """(H, W, D) float32 in [-1, 1], of the inverse depths base (H, W), 0 unless given, + offsets (D,) in
        front of view k; D is a multiple of ``planes``."""
        engine.send(self.picture, views.cropped(views.grey, k))
        engine.send(self.weight, views.cropped(views.masks, k))
        engine.send(self.base, np.zeros(self.base.size[::-1]) if base is None else base)
        for i, index in enumerate(beside):
            turn, move = views.epipolar(k, index)
            engine.send(self.others[i], views.grey[index])
            engine.send(self.turns[i], turn)
            engine.send(self.moves[i], move)
        scores = []
        for first in range(0, len(offsets), self.planes):
            engine.send(self.offsets, offsets[first : first + self.planes, None, None])
            scores.append(engine.recv("score").reshape(self.planes, *self.picture.size[::-1]))
        return np.ascontiguousarray(np.moveaxis(np.concatenate(scores), 0, 2))


def correlations(picture: Variable, others: Variable, weight: Variable, radius: int) -> Variable:
    """Zero-mean normalised cross-correlations of windows, whose pixels count by the weight.

    picture, weight: FLOAT.  others: VEC4, four pictures, with a batch.  radius: of the windows.  The result
    has the type and domain of ``others``, in [-1, 1], and is 0 where a window has no texture.
    """
    total = 1.0 / F.maximum(F.box_blur(weight, radius), 1e-6)
    mean = F.box_blur(weight * picture, radius) * total
    variance = F.box_blur(weight * picture * picture, radius) * total - mean * mean
    seen = weight * others
    means = F.box_blur(seen, radius) * total
    variances = F.box_blur(seen * others, radius) * total - means * means
    covariance = F.box_blur(seen * picture, radius) * total - mean * means
    floor = NOISE**2
    return covariance * F.inversesqrt(F.maximum(variance, floor) * F.maximum(variances, floor))


def best_half(scores: Variable) -> Variable:
    """FLOAT mean of the two largest components of a VEC4."""
    a, b, c, d = scores.x, scores.y, scores.z, scores.w
    return 0.5 * F.maximum(F.maximum(a, b) + F.maximum(c, d), F.maximum(a + b, c + d))


# Photographs for plane-sweep stereo.

GREY = (0.299, 0.587, 0.114)
LEAST_ANGLE = 5.0
"""Degrees between the directions of two views, below which their depths are not told apart."""


@dataclass(frozen=True, eq=False)
class Views:
    """N grey pictures and what is needed to warp them.

    grey, masks: (N, H, W) float32 in [0, 1]; grey in code values of sRGB.  K, R: (N, 3, 3), t: (N, 3): a
    pixel is K (R x + t), corners of pixels at whole numbers, x in units of the scene.  crop: (W, H) of a part
    that holds any of the masks.  corners: (N, 2) whole x, y of that part in each picture.
    """

    grey: np.ndarray
    masks: np.ndarray
    K: np.ndarray
    R: np.ndarray
    t: np.ndarray
    crop: tuple[int, int]
    corners: np.ndarray

    @classmethod
    def of(cls, cameras: Cameras, masks: np.ndarray, colors: np.ndarray, pixels: int) -> Views:
        """From cameras in units of the scene, masks (N, H, W) and linear colours (N, H, W, 3), so small that
        the part that holds any of the masks has about this many ``pixels``."""
        height, width = masks.shape[1:]
        boxes = np.stack([_box(mask >= 0.5) for mask in masks])
        extent = (boxes[:, 1] - boxes[:, 0]).max(0)
        scale = min(1.0, float(np.sqrt(pixels / extent.prod())))
        size = scaled_size((width, height), scale)
        ratio = np.array(size) / (width, height)
        greys = [resize(linear_to_srgb(np.clip(c, 0, 1)) @ np.array(GREY, np.float32), size) for c in colors]
        crop = np.minimum(np.ceil(extent * ratio + 2).astype(int), size)
        middle = 0.5 * (boxes[:, 0] + boxes[:, 1]) * ratio
        corners = np.clip(np.rint(middle - 0.5 * crop).astype(int), 0, np.array(size) - crop)
        K = np.stack([np.diag([*ratio, 1.0]) @ camera.intrinsics for camera in cameras])
        R, t = (np.stack([getattr(c, name) for c in cameras]) for name in ("rotation", "translation"))
        part = int(crop[0]), int(crop[1])
        return cls(np.stack(greys).astype(np.float32), resized(masks, size), K, R, t, part, corners)

    def __len__(self) -> int:
        return len(self.K)

    @property
    def size(self) -> tuple[int, int]:
        """(W, H) of the pictures."""
        return self.grey.shape[2], self.grey.shape[1]

    @property
    def centres(self) -> np.ndarray:
        """(N, 3) of the cameras."""
        return -np.einsum("nji,nj->ni", self.R, self.t)

    def cropped(self, images: np.ndarray, k: int) -> np.ndarray:
        """The part of picture k of (N, H, W, ...) that holds its mask."""
        (x, y), (width, height) = self.corners[k], self.crop
        return images[k, y : y + height, x : x + width]

    def inner(self, k: int) -> np.ndarray:
        """(3, 3) K of the part of picture k."""
        move = np.eye(3)
        move[:2, 2] = -self.corners[k]
        return move @ self.K[k]

    def beside(self, middle: np.ndarray) -> np.ndarray:
        """(N, N - 1) the other views by the angle to each view, seen from a point (3,); those too near
        last."""
        away = self.centres - middle
        away = away / np.linalg.norm(away, axis=1, keepdims=True)
        angle = np.degrees(np.arccos(np.clip(away @ away.T, -1, 1)))
        angle = np.where(angle < LEAST_ANGLE, 180.0 + LEAST_ANGLE - angle, angle)
        np.fill_diagonal(angle, np.inf)
        return np.argsort(angle, axis=1, kind="stable")[:, :-1]

    def epipolar(self, k: int, other: int) -> tuple[np.ndarray, np.ndarray]:
        """(3, 3) A and (3,) b: a pixel p = (x, y, 1) of the part of view k, of inverse depth d, is A p + d b
        in another view."""
        turn = self.R[other] @ self.R[k].T
        move = self.t[other] - turn @ self.t[k]
        return self.K[other] @ turn @ np.linalg.inv(self.inner(k)), self.K[other] @ move

    def rays(self, k: int) -> np.ndarray:
        """(H, W, 3) directions in the scene of the pixels of the part of view k, of depth 1."""
        width, height = self.crop
        column, row = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        pixels = np.stack([column, row, np.ones_like(row)], -1)
        return pixels @ (self.R[k].T @ np.linalg.inv(self.inner(k))).T

    def projected(self, k: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Column and row in the part of view k, and depth, of points (..., 3)."""
        matrix = np.concatenate([self.inner(k) @ self.R[k], (self.inner(k) @ self.t[k])[:, None]], axis=1)
        matrix = matrix.astype(points.dtype)
        x, y, depth = (points @ row[:3] + row[3] for row in matrix)
        scale = 1 / np.maximum(depth, points.dtype.type(1e-9))
        return x * scale, y * scale, depth

    def pixels(self, column: np.ndarray, row: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Flat indices of the pixels of ``projected`` points, 0 outside, and whether the part shows them."""
        width, height = self.crop
        seen = (depth > 0) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
        x, y = (np.where(seen, place, 0).astype(np.int32) for place in (column, row))
        return y * width + x, seen


def _box(mask: np.ndarray) -> np.ndarray:
    """(2, 2) first and last x, y of a mask; all of the picture where it is empty."""
    places = np.argwhere(mask)[:, ::-1]
    if not len(places):
        return np.array([[0, 0], mask.shape[::-1]])
    return np.stack([places.min(0), places.max(0) + 1])
