"""What the soft silhouettes of a mesh are compared with: masks as signed distances, at any size and radius."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt

from ...ad import functional as F
from ...ad.graph import Variable
from ..io import resize


def signed_distances(masks: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(N, h, w) distances to the outline of masks (N, H, W), in image heights, positive inside; size is (w, h).

    The outline runs half way between covered and uncovered pixel centres. A smaller size still knows where it lies
    between its own pixels. A mask that covers everything, or nothing, is far from its outline.
    """
    return np.stack([resize(_signed(np.asarray(mask) >= 0.5), size) for mask in masks])


def _signed(mask: np.ndarray) -> np.ndarray:
    height, width = mask.shape
    if mask.all() or not mask.any():
        return np.full(mask.shape, (1.0 if mask.any() else -1.0) * (width + height) / height)
    inside, outside = (np.asarray(distance_transform_edt(part)) for part in (mask, ~mask))
    return np.where(mask, inside - 0.5, 0.5 - outside) / height


def soft_target(distance: Variable, sigma: Variable, layers: int) -> Variable:
    """FLOAT: the silhouette that HardSoftRas gives a closed mesh with this outline.

    At the outline of a closed mesh both faces of the nearest edge are among the layers, and with three or more
    layers often a third that shares a corner: 1 - (1 - sigmoid(d / sigma))^k, k between 2 and 3. Taking k = 1, or
    the hard mask, would draw the outline 0.2 radii too far inside.
    """
    k = {1: 1.0, 2: 2.0}.get(layers, 2.5)
    return 1.0 - F.pow(1.0 - F.sigmoid(distance / sigma), k)
