"""What the soft silhouettes of a mesh are compared with: masks as signed distances, at any size and radius."""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import distance_transform_edt, map_coordinates

from ...ad import functional as F
from ...ad.graph import Variable


def signed_distances(masks: np.ndarray, size: tuple[int, int], margin: int = 0) -> np.ndarray:
    """(N, h, w) distances to the outline of masks (N, H, W), in image heights, positive inside; size is (w, h).

    The outline runs half way between covered and uncovered pixel centres. A smaller size still knows where it lies
    between its own pixels. A mask that covers everything, or nothing, is far from its outline.  margin: pixels of
    that size added on every side, for images drawn ``with_margin``, (N, h + 2 margin, w + 2 margin).
    """
    pad = _pad(masks, size, margin)
    signed = (_signed(np.pad(np.asarray(mask) >= 0.5, pad)) / len(mask) for mask in masks)
    return np.stack([_at_centres(image, size, margin, pad, 1) for image in signed])


def known(masks: np.ndarray, size: tuple[int, int], margin: int) -> np.ndarray:
    """(N, h + 2 margin, w + 2 margin) of 0 and 1: what masks (N, H, W) say something about.

    Of the margin that is not what comes nearest to a covered pixel at the border: there the object goes on outside
    of the picture.
    """
    pad = _pad(masks, size, margin)
    return np.stack(
        [_at_centres(_known(np.asarray(mask) >= 0.5, pad), size, margin, pad, 0) for mask in masks]
    )


def _known(mask: np.ndarray, pad: int) -> np.ndarray:
    result = np.ones(np.add(mask.shape, 2 * pad))
    if pad and mask.any():
        place = distance_transform_edt(~np.pad(mask, pad), return_distances=False, return_indices=True)
        assert isinstance(place, np.ndarray)
        rows, columns = place - pad
        height, width = mask.shape
        at_border = (rows == 0) | (rows == height - 1) | (columns == 0) | (columns == width - 1)
        inside = np.pad(np.ones_like(mask), pad)
        result[at_border & ~inside] = 0
    return result


def _pad(masks: np.ndarray, size: tuple[int, int], margin: int) -> int:
    """Pixels of the masks that are at least as wide as a margin of pixels of ``size``."""
    height, width = masks.shape[1:]
    return math.ceil(margin * max(height / size[1], width / size[0]))


def _at_centres(image: np.ndarray, size: tuple[int, int], margin: int, pad: int, order: int) -> np.ndarray:
    """Values at the pixel centres of ``size`` with its margin; the image has ``pad`` pixels around the picture."""
    rows, columns = (
        (np.arange(count + 2 * margin) - margin + 0.5) * (have - 2 * pad) / count + pad - 0.5
        for have, count in zip(image.shape, reversed(size), strict=True)
    )
    return map_coordinates(image, np.meshgrid(rows, columns, indexing="ij"), order=order, mode="nearest")


def _signed(mask: np.ndarray) -> np.ndarray:
    """In pixels."""
    if mask.all() or not mask.any():
        return np.full(mask.shape, (1.0 if mask.any() else -1.0) * sum(mask.shape))
    inside, outside = (np.asarray(distance_transform_edt(part)) for part in (mask, ~mask))
    return np.where(mask, inside - 0.5, 0.5 - outside)


def soft_target(distance: Variable, sigma: Variable, layers: int) -> Variable:
    """FLOAT: the silhouette that HardSoftRas gives a closed mesh with this outline.

    At the outline of a closed mesh both faces of the nearest edge are among the layers, and with three or more
    layers often a third that shares a corner: 1 - (1 - sigmoid(d / sigma))^k, k between 2 and 3. Taking k = 1, or
    the hard mask, would draw the outline 0.2 radii too far inside.
    """
    k = {1: 1.0, 2: 2.0}.get(layers, 2.5)
    return 1.0 - F.pow(1.0 - F.sigmoid(distance / sigma), k)
