"""How close a result is to its target: silhouettes, colours, surfaces."""

from __future__ import annotations

import numpy as np
import scipy

from ...errors import InputError
from ..mesh import Mesh
from ..mesh.queries import SurfaceDistance, sample_surface
from ..surface.color import linear_to_srgb


def iou(masks: np.ndarray, targets: np.ndarray, known: np.ndarray | None = None) -> float:
    """Intersection over union of silhouettes (N, H, W), mean over the views; >= 0.5 counts as covered.

    known: (N, H, W), pixels that count; all without it. A view that is empty in both counts as 1.

    >>> float(iou(np.ones((1, 4, 4)), np.ones((1, 4, 4))))
    1.0
    """
    return float(np.mean(iou_per_view(masks, targets, known)))


def iou_per_view(masks: np.ndarray, targets: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """(N,) intersection over union of each view."""
    a, b = np.asarray(masks) >= 0.5, np.asarray(targets) >= 0.5
    if a.shape != b.shape or a.ndim != 3 or (known is not None and np.shape(known) != a.shape):
        raise InputError(f"silhouettes must be two stacks (N, H, W) of one size, not {a.shape} and {b.shape}")
    if known is not None:
        a, b = a & (np.asarray(known) > 0), b & (np.asarray(known) > 0)
    both, either = (a & b).sum((1, 2)), (a | b).sum((1, 2))
    return np.where(either == 0, 1.0, both / np.maximum(either, 1))


def psnr(images: np.ndarray, targets: np.ndarray, masks: np.ndarray) -> float:
    """Peak signal to noise ratio in dB of linear images (N, H, W, 3) against linear targets, as people see
    them.

    Both are converted to sRGB in [0, 1]; the squared error is pooled over the pixels of the target masks (N,
    H, W), all views and channels. Pixels that a result does not cover must be black in `images`. Equal images
    give inf.

    >>> images = np.full((1, 4, 4, 3), 0.5)
    >>> bool(psnr(images + 0.001, images, np.ones((1, 4, 4))) > 40)
    True
    """
    inside = silhouettes(images, targets, masks)
    codes, wanted = (linear_to_srgb(np.asarray(x)[inside].astype(np.float64)) for x in (images, targets))
    return code_psnr(codes, wanted)


RIM = 3.0
"""Pixels from the rim that are not in an ``interior``: masks of photographs are wrong by one or two."""


def interior(masks: np.ndarray, targets: np.ndarray, rim: float = RIM) -> np.ndarray:
    """(N, H, W) bool: pixels inside both silhouettes (N, H, W) that are more than ``rim`` pixels from the rim
    of either.

    What colours there say does not depend on the outlines. The border of the picture is no rim.

    >>> interior(np.ones((1, 5, 4)), np.pad(np.ones((1, 5, 3)), ((0, 0), (0, 0), (0, 1))), rim=1)[0, 0].tolist()
    [True, True, False, False]
    """
    both = (np.asarray(masks) >= 0.5) & (np.asarray(targets) >= 0.5)
    for mask in both:
        if not mask.all():
            box = around(mask, 1)
            mask[box] = np.asarray(scipy.ndimage.distance_transform_edt(mask[box])) > rim
    return both


def around(mask: np.ndarray, margin: int) -> tuple[slice, slice]:
    """Rows and columns of the least box of the picture with all pixels of a bool mask (H, W) and a margin.
    What is measured of an object takes the time of the object, not of the picture.

    >>> around(np.arange(12).reshape(3, 4) == 6, 1)
    (slice(0, 3, None), slice(1, 4, None))
    """
    spans = []
    for axis in (1, 0):
        places = np.flatnonzero(mask.any(axis))
        first, last = (places[0], places[-1]) if len(places) else (0, -1)
        spans.append(slice(max(int(first) - margin, 0), int(last) + 1 + margin))
    return spans[0], spans[1]


def code_gains(codes: np.ndarray, targets: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """(3,) factors of the channels of sRGB codes (H, W, 3) that bring them nearest to those of the target over
    the pixels ``inside`` (H, W), by least squares. 1 where nothing is inside.

    >>> codes = np.full((4, 4, 3), 0.5)
    >>> code_gains(codes, 0.5 * codes, np.ones((4, 4), bool)).tolist()
    [0.5, 0.5, 0.5]
    """
    codes, targets = codes[inside], targets[inside]
    power = (codes**2).sum(0)
    return np.divide((codes * targets).sum(0), power, out=np.ones(3), where=power > 0)


def code_psnr(codes: np.ndarray, targets: np.ndarray) -> float:
    """``psnr`` of sRGB codes (P, 3) in [0, 1] of the pixels that count."""
    error = float(np.mean((codes - targets) ** 2))
    return float("inf") if error == 0 else -10 * float(np.log10(error))


def ssim(
    images: np.ndarray, targets: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None
) -> float:
    """Structural similarity of linear images (N, H, W, 3) and linear targets (Wang et al. 2004, equation 13),
    at most 1.

    Both are converted to sRGB in [0, 1]. Means, variances and covariances of each channel are weighted by a
    Gaussian of 11x11 pixels and sigma 1.5; C1 = 0.01^2, C2 = 0.03^2. Where the window reaches beyond the
    picture, or to pixels that are not known (N, H, W), the weights that are left sum to 1. Averaged over the
    pixels of the target masks (N, H, W), all views and channels. Pixels that a result does not cover must be
    black in `images`.

    >>> images = np.random.default_rng(0).uniform(size=(1, 16, 16, 3))
    >>> round(float(ssim(images, images, np.ones((1, 16, 16)))), 3)
    1.0
    """
    inside = silhouettes(images, targets, masks)
    told = np.ones(inside.shape, dtype=bool) if known is None else np.asarray(known) > 0
    total = 0.0
    for image, target, mask, weight in zip(images, targets, inside & told, told, strict=True):
        box = around(mask, REACH)
        x, y = (linear_to_srgb(np.asarray(picture[box], dtype=np.float64)) for picture in (image, target))
        total += float(similarity(x, y, weight[box])[mask[box]].sum())
    return total / (3 * int((inside & told).sum()))


REACH = 5
"""Pixels from a pixel to the border of its window."""
_WINDOW = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / 1.5) ** 2)


def similarity(x: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(H, W, C) SSIM of codes (H, W, C); pixels that are not ``known`` (H, W) count in no window."""
    weight = known.astype(np.float64)[..., None]

    def blurred(values: np.ndarray) -> np.ndarray:
        rows = scipy.ndimage.correlate1d(values, _WINDOW, axis=0, mode="constant")
        return scipy.ndimage.correlate1d(rows, _WINDOW, axis=1, mode="constant")

    share = np.maximum(blurred(weight), 1e-12)
    x, y = x * weight, y * weight
    mean_x, mean_y, xx, yy, xy = (blurred(values) / share for values in (x, y, x * x, y * y, x * y))
    c1, c2 = 0.01**2, 0.03**2
    structure = (2 * (xy - mean_x * mean_y) + c2) / (xx - mean_x**2 + yy - mean_y**2 + c2)
    return (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1) * structure


def silhouettes(images: np.ndarray, targets: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """(N, H, W) bool of masks that fit the images and are not empty. Raises InputError."""
    shape, inside = np.shape(images), np.asarray(masks) >= 0.5
    if shape != np.shape(targets) or shape[:3] != inside.shape:
        raise InputError(
            f"images, targets and masks must be of one size, not {shape}, {np.shape(targets)} and"
            f" {inside.shape}"
        )
    if not inside.any():
        raise InputError("the target masks are empty, so there is nothing to compare; check the masks")
    return inside


def chamfer(a: Mesh | np.ndarray, b: Mesh | np.ndarray, count: int = 20_000, seed: int = 0) -> float:
    """Mean distance from each surface to the other, averaged over both directions, in units of the meshes.

    From `count` points on one mesh to those faces of the other that hold the nearest of as many points: equal
    meshes have next to none. Arrays (P, 3) are taken as points. Raises InputError for empty ones.

    >>> bool(chamfer(primitives.cube(), primitives.cube(), count=5000) < 1e-4)
    True
    """
    return 0.5 * sum(float(distances.mean()) for distances in _distances(a, b, count, seed))


def hausdorff(a: Mesh | np.ndarray, b: Mesh | np.ndarray, count: int = 20_000, seed: int = 0) -> float:
    """The largest distance from a point of either surface to the other; see ``chamfer``.

    >>> hausdorff(np.zeros((1, 3)), np.array([[1.0, 0, 0], [3, 0, 0]]))
    3.0
    """
    return max(float(distances.max()) for distances in _distances(a, b, count, seed))


def f_score(
    a: Mesh | np.ndarray, b: Mesh | np.ndarray, threshold: float, count: int = 20_000, seed: int = 0
) -> float:
    """The harmonic mean of the shares of points of each surface that are nearer to the other than
    ``threshold``, from 0 to 1; see ``chamfer``.

    >>> round(f_score(np.zeros((1, 3)), np.array([[1.0, 0, 0], [3, 0, 0]]), 2.0), 3)
    0.667
    """
    there, back = (float(np.mean(distances < threshold)) for distances in _distances(a, b, count, seed))
    return 2 * there * back / max(there + back, 1e-12)


def _distances(
    a: Mesh | np.ndarray, b: Mesh | np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(P,) and (Q,): from the points of each to the other."""

    def of(one: Mesh | np.ndarray, other: Mesh | np.ndarray) -> np.ndarray:
        points = one if isinstance(one, np.ndarray) else sample_surface(one, count, seed)
        if isinstance(other, np.ndarray):
            return np.asarray(scipy.spatial.KDTree(other).query(points)[0])
        return SurfaceDistance(other, count).distances(points)

    for shape in (a, b):
        if len(shape if isinstance(shape, np.ndarray) else shape.faces) == 0:
            raise InputError("an empty mesh or cloud has no distance to another; give one with points")
    return of(a, b), of(b, a)
