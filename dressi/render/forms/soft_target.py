"""Coverage as a function of the distance to the outline, and the distances of masks: what silhouettes are compared with."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError


def falloff(distance: Variable, radius: Like, smooth_edge: bool = False) -> Variable:
    """FLOAT: (1 - x)^2 with x = distance / radius, 0 from the radius on, where its slope is 0 too. smooth_edge: (1 - x^2)^2,
    whose slope is 0 at distance 0 as well. Differentiable in distance and radius."""
    x = distance / radius
    return F.square(F.maximum(1.0 - (F.square(x) if smooth_edge else x), 0.0))


SMOOTHED = 10
"""How often points of the outline of a plain mask go half way to the middle of their neighbours."""


def outline_distances(coverage: np.ndarray, *, inside: bool = True) -> np.ndarray:
    """(H, W) signed pixels to the outline of an image of coverage (H, W), positive inside; covered from 1/2 on.

    Partly covered pixels say where the outline runs: exactly for a straight one. Between pixels of 0 and 1 it is a smooth line
    about half way between the centres, not a staircase. Without an outline all pixels are far from it. inside: whether covered
    pixels get their distance, or 0, which takes half the time.

    >>> outline_distances(np.array([[1, 1, 0.25, 0]])).round(2).tolist()
    [[1.75, 0.75, -0.25, -1.25]]
    """
    coverage = np.asarray(coverage, np.float64)
    mask = coverage >= 0.5
    if mask.all() or not mask.any():
        return np.full(mask.shape, (1.0 if mask.any() else -1.0) * sum(mask.shape))
    lines = _outline(np.pad(coverage, 1, mode="edge"))
    found = np.zeros(mask.shape)
    for part in (mask, ~mask) if inside else (~mask,):
        row, column = np.nonzero(part)
        y, x = nearest_outside(part)[:, row, column]
        square = y * (coverage.shape[1] + 1) + x
        least = np.full(len(row), np.inf, np.float32)
        # The outline passes through one of the four squares of centres around the nearest pixel of the other side.
        for step in (0, 1, coverage.shape[1] + 1, coverage.shape[1] + 2):
            for line in lines:
                least = np.fmin(least, _squared(row + 1, column + 1, line[square + step]))
        found[part] = np.sqrt(least)
    return np.where(mask, found, -found)


def _squared(row: np.ndarray, column: np.ndarray, line: np.ndarray) -> np.ndarray:
    """(N,) squares of the distances of pixels to segments (N, 4)."""
    start_row, start_column, along_row, along_column = line.T
    down, right = row - start_row, column - start_column
    length = np.maximum(along_row * along_row + along_column * along_column, np.float32(1e-12))
    share = np.clip((down * along_row + right * along_column) / length, 0, 1)
    return (down - share * along_row) ** 2 + (right - share * along_column) ** 2


def _outline(coverage: np.ndarray) -> list[np.ndarray]:
    """The outline in each square of four centres, ((H - 1) (W - 1), 4) float32: row and column of the start of a segment, and its
    extent; NaN without one. A second list is that of squares of which opposite corners are covered, if there are some."""
    inside, part = coverage >= 0.5, (coverage > 0) & (coverage < 1)
    slopes = _slope(coverage), _slope(coverage.T).T
    size, width = coverage.size, coverage.shape[1]
    points, outward = np.full((2 * size, 2), np.nan), np.zeros((2 * size, 2))
    # A point between each pixel and the next one in its row, then in its column, if one of them is covered.
    for axis, first, rest in ((1, np.s_[:, :-1], np.s_[:, 1:]), (0, np.s_[:-1], np.s_[1:])):
        p = np.stack(np.nonzero(inside[first] != inside[rest]))
        q = p + np.array([(0, 1), (1, 0)][1 - axis])[:, None]
        a, b = coverage[*p], coverage[*q]
        share, told, count = (a - 0.5) / (a - b), np.zeros(len(a)), np.zeros(len(a))
        for pixel, own in ((p, 0), (q, 1)):
            down, right = (slope[*pixel] for slope in slopes)
            place = own + _edge_offset(coverage[*pixel], down, right, axis)
            known = part[*pixel] & (np.abs(place - share) < 0.5)
            told, count = told + np.where(known, place, 0.0), count + known
        place = p.T.astype(float)
        place[:, axis] += np.clip(np.where(count > 0, told / np.maximum(count, 1), share), 0, 1)
        number = p[0] * width + p[1] + (0 if axis else size)
        points[number] = place
        outward[number, axis] = np.where(part[*p] | part[*q], 0, np.where(inside[*p], 1, -1))
    covered = inside[:-1, :-1].astype(int) + inside[:-1, 1:] + inside[1:, 1:] + inside[1:, :-1]
    y, x = np.nonzero((covered > 0) & (covered < 4))
    # The sides of these squares, two or four of which are crossed: from (0, 0) on to (0, 1), (1, 1) and (1, 0).
    n = y * width + x
    sides = np.stack([n, size + n + 1, n + width, size + n])
    there = ~np.isnan(points[sides, 0])
    sides = np.take_along_axis(sides, np.argsort(~there, axis=0, kind="stable"), 0)
    four = there.all(0)
    # Where opposite corners are covered, the mean says whether they meet in the middle.
    mean = (coverage[y, x] + coverage[y, x + 1] + coverage[y + 1, x + 1] + coverage[y + 1, x]) / 4
    apart = four & (inside[y, x] == (mean >= 0.5))
    links = [np.stack([sides[0], np.where(four & ~apart, sides[3], sides[1])])]
    if four.any():
        links.append(np.where(apart, sides[2:], sides[1:3])[:, four])
    smooth = _smoothed(points, np.concatenate(links, axis=1), outward)
    lines = []
    for (start, end), which in zip(links, (np.s_[:], four), strict=False):
        line = np.full(((coverage.shape[0] - 1) * (width - 1), 4), np.nan, np.float32)
        line[(y * (width - 1) + x)[which]] = np.concatenate(
            [smooth[start], smooth[end] - smooth[start]], axis=1
        )
        lines.append(line)
    return lines


def _slope(coverage: np.ndarray) -> np.ndarray:
    """(H, W) how much the coverage falls down the rows, by Sobel's filter."""
    near = np.pad(coverage, 1, mode="edge")
    down = near[:-2] - near[2:]
    return down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]


def _smoothed(points: np.ndarray, links: np.ndarray, outward: np.ndarray) -> np.ndarray:
    """Points (P, 2) of lines, links (2, L) between them: without the steps between those of plain pixels.  outward: (P, 2), the way
    from the covered centre to the other, on which a point moves by half a pixel at most; 0 for points that stay."""
    used, number = np.unique(links, return_inverse=True)
    a, b = number.reshape(2, -1)
    start, ways, ends = points[used], outward[used], np.bincount(number.ravel())
    if not ways.any():
        return points

    def middle(values: np.ndarray) -> np.ndarray:
        near = np.bincount(a, values[b], len(used)) + np.bincount(b, values[a], len(used))
        return np.where(ends == 2, near / 2, values)

    def pull(now: np.ndarray) -> np.ndarray:
        return ((np.stack([middle(now[:, k]) for k in (0, 1)], axis=1) - now) * ways).sum(1)

    # Where the line turns to one side alone, it has a corner; where it turns to and fro, it has steps.
    turns = pull(start)
    steps = [turns > 1e-6, turns < -1e-6]
    for _ in range(SMOOTHED):
        steps = [near | (middle(near.astype(float)) > 0) for near in steps]
    ways = ways * (steps[0] & steps[1])[:, None]
    moved = np.zeros(len(used))
    for _ in range(SMOOTHED):
        moved = moved + 0.5 * pull(start + moved[:, None] * ways)
    # Round and small parts move inward as a whole, which is taken back.
    shrunk = moved
    for _ in range(SMOOTHED):
        shrunk = 0.5 * (shrunk + middle(shrunk))
    found = points.copy()
    found[used] = start + np.clip(moved - shrunk, -0.5, 0.5)[:, None] * ways
    return found


def _edge_offset(coverage: np.ndarray, down: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
    """(N,) pixels from the centres of partly covered pixels, along an axis, to the straight edge that covers as much of them, by the
    slope of the coverage around them (Gustavson and Strand 2011)."""
    normal = np.stack([down, right]) / np.maximum(np.hypot(down, right), 1e-12)
    low, high = np.sort(np.abs(normal), axis=0)
    less = np.minimum(coverage, 1 - coverage)
    corner = 0.5 * (low + high) - np.sqrt(2 * low * high * less)
    away = np.where(less < 0.5 * low / np.maximum(high, 1e-12), corner, (0.5 - less) * high)
    along = np.where(np.abs(normal[axis]) > 1e-6, normal[axis], np.inf)
    return np.where(coverage >= 0.5, away, -away) / along


def outside_distance(masks: np.ndarray, margin: int = 0) -> np.ndarray:
    """Distance of every pixel to the outline of a mask, in image heights, 0 inside.

    masks: (..., H, W) of coverage, with the outline at 1/2 (``outline_distances``): plain masks of 0 and 1, or filtered ones,
    whose partly covered pixels say where it runs.
    For a mask without a pixel of at least 1/2 the distance is 2, beyond every radius. ``falloff`` of these distances is the
    target of the outer form.  margin: uncovered pixels added on every side, (..., H + 2 margin, W + 2 margin), for images
    drawn ``with_margin``. Raises InputError.

    >>> outside_distance(np.array([[1, 0, 0, 0]])).tolist()
    [[0.0, 0.5, 1.5, 2.0]]
    """
    masks = np.asarray(masks)
    if masks.ndim < 2 or masks.size == 0:
        raise InputError(f"masks are arrays (..., H, W), not {masks.shape}")
    masks = np.pad(masks, [(0, 0)] * (masks.ndim - 2) + [(margin, margin)] * 2)
    flat = masks.reshape(-1, *masks.shape[-2:])
    found = [
        -outline_distances(mask, inside=False) if (mask >= 0.5).any() else np.full(mask.shape, np.inf)
        for mask in flat
    ]
    return (np.clip(np.stack(found) / masks.shape[-2], 0.0, 2.0) + 0.0).reshape(masks.shape)  # no -0.0


def soft_target(masks: np.ndarray, radius: float) -> np.ndarray:
    """The target of the outer form: its silhouette for a mesh with these masks (..., H, W), plain or filtered, at a fixed radius.
    Raises InputError.

    >>> soft_target(np.array([[1, 0], [1, 0]]), 0.5).tolist()
    [[1.0, 0.25], [1.0, 0.25]]
    """
    if not 0 < radius < 1:
        raise InputError(f"radius is a fraction of the image height in (0, 1), not {radius}")
    return np.maximum(1.0 - outside_distance(masks) / radius, 0.0) ** 2


# Whether a soft silhouette is near enough to its target to get a useful gradient.
#
# The gradient of a silhouette loss pulls two shapes together only while their soft margins overlap: weakly up to two radii
# apart, reliably within one radius. Beyond that the loss still has a gradient, but it does not depend on the target: it
# shrinks unwanted coverage, and the mesh collapses where it stands.


def gap(masks: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(N,) how far the silhouettes ``masks`` (N, H, W) and their targets are apart, in image heights.

    Measured from outline to outline; 0 if they overlap or if one of them is empty. A pixel counts as covered from 0.5.
    Raises InputError.
    """
    masks, targets = np.asarray(masks), np.asarray(targets)
    if masks.shape != targets.shape or masks.ndim != 3:
        raise InputError(
            f"silhouettes and targets are two stacks (N, H, W) of one size, not {masks.shape} and {targets.shape}"
        )
    found = np.zeros(len(masks))
    for k, (mask, target) in enumerate(zip(masks >= 0.5, targets >= 0.5, strict=True)):
        if mask.any() and target.any():
            # Distances are between pixel centres; each outline lies half a pixel outside of them.
            found[k] = max(outside_distance(target)[mask].min() - 0.5 / len(mask), 0.0)
    return found


def check_reach(masks: np.ndarray, targets: np.ndarray, radius: float) -> str | None:
    """None if every silhouette reaches its target with soft margins of ``radius`` (image heights), else a sentence that
    names the views that do not. Raises InputError if no view that shows both does.

    masks, targets: (N, H, W), hard silhouettes at the start. The margins overlap up to two radii.
    """
    apart = gap(masks, targets)
    shown = np.array([(m >= 0.5).any() and (t >= 0.5).any() for m, t in zip(masks, targets, strict=True)])
    missed = np.flatnonzero(apart >= 2 * radius)
    if len(missed) == 0:
        return None
    wanted = min(float(apart.max()), 1.0)
    cure = f"start nearer to the target, or with a radius of {wanted:.2g} or more"
    reach = f"the silhouette and its target lie {apart.max():.2g} image heights apart, and a radius of {radius:.2g} reaches {2 * radius:.2g}"
    if len(missed) == shown.sum():
        raise InputError(f"nothing would pull the mesh to its target: {reach}; {cure}")
    views = ", ".join(str(k) for k in missed[:8]) + (", ..." if len(missed) > 8 else "")
    return f"in {len(missed)} of {len(masks)} views (number {views}) {reach}: these views give no useful gradient; {cure}"


def marked(matrices: np.ndarray, points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(N, H, W) bool: the pixels that contain a point (P, 3) in each view (N, 4, 4 to clip space). For the vertices of a fine
    mesh this approximates its silhouette.  shape: (H, W). Points behind the viewer or outside the picture are left out.
    Computed in the type of the points: float32 suffices for small pictures.
    """
    height, width = shape
    found = np.zeros((len(matrices), height, width), bool)
    kind = np.result_type(points.dtype, np.float32)
    points = points.astype(kind, copy=False)
    for image, matrix in zip(found, matrices.astype(kind), strict=True):
        x, y, depth = (matrix[k, :3] @ points.T + matrix[k, 3] for k in (0, 1, 3))
        scale = 0.5 / np.where(depth > 1e-6, depth, kind.type(np.inf))
        column, row = ((part * scale + 0.5) * side for part, side in ((x, width), (y, height)))
        shown = (depth > 1e-6) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
        image[row[shown].astype(np.int32), column[shown].astype(np.int32)] = True
    return found


# Distances of masks.


def nearest_outside(mask: np.ndarray) -> np.ndarray:
    """(2, H, W) row and column of the nearest pixel that is not in a mask (H, W), for each pixel in it.

    >>> nearest_outside(np.array([[True, True, False, True]])).tolist()
    [[[0, 0, 0, 0]], [[2, 2, 2, 2]]]
    """
    compiled = None if "scipy.ndimage" in sys.modules else _compiled()
    if compiled is not None:
        found = np.zeros((2, *mask.shape), np.int32)
        with suppress(AttributeError, TypeError, ValueError, RuntimeError):  # of another version of SciPy
            compiled.euclidean_feature_transform(mask.astype(np.int8), None, found)
            return found
    import scipy

    found = scipy.ndimage.distance_transform_edt(mask, return_distances=False, return_indices=True)
    assert isinstance(found, np.ndarray)
    return found


@cache
def _compiled() -> Any:
    """The compiled part of scipy.ndimage, without the package: that imports scipy.special and scipy.linalg,
    which takes .2 s, a fifth of all that the first step of a fit takes. None if it is not there."""
    scipy = find_spec("scipy")
    folders = [str(Path(path) / "ndimage") for path in (scipy and scipy.submodule_search_locations) or ()]
    spec = PathFinder.find_spec("scipy.ndimage._nd_image", folders)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    return module
