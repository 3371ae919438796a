"""Coverage as a function of the distance to the outline, and the distances of masks: what silhouettes are compared with."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError


def falloff(distance: Variable, radius: Like) -> Variable:
    """FLOAT: (1 - distance / radius)^2, 0 from the radius on, where its slope is 0 too. Differentiable in both."""
    return F.square(F.maximum(1.0 - distance / radius, 0.0))


def outside_distance(masks: np.ndarray, margin: int = 0) -> np.ndarray:
    """Distance of every pixel to the outline of a mask, in image heights, 0 inside.

    masks: (..., H, W), covered where at least 0.5. The outline runs half way between covered and uncovered pixel
    centres. For a mask without a covered pixel the distance is 2, beyond every radius. ``falloff`` of these distances is the
    target of the outer form.  margin: uncovered pixels added on every side, (..., H + 2 margin, W + 2 margin), for images
    drawn ``with_margin``. Raises InputError.

    >>> outside_distance(np.array([[1, 0, 0, 0]])).tolist()
    [[0.0, 0.5, 1.5, 2.0]]
    """
    masks = np.asarray(masks)
    if masks.ndim < 2 or masks.size == 0:
        raise InputError(f"masks are arrays (..., H, W), not {masks.shape}")
    masks = np.pad(masks, [(0, 0)] * (masks.ndim - 2) + [(margin, margin)] * 2)
    flat = masks.reshape(-1, *masks.shape[-2:]) >= 0.5
    found = [np.asarray(distance_transform_edt(~mask)) if mask.any() else np.inf for mask in flat]
    distance = np.stack([np.broadcast_to(d, masks.shape[-2:]) for d in found])
    return np.minimum(np.maximum(distance - 0.5, 0.0) / masks.shape[-2], 2.0).reshape(masks.shape)


def soft_target(masks: np.ndarray, radius: float) -> np.ndarray:
    """The target of the outer form: its silhouette for a mesh with these masks (..., H, W) at a fixed radius. Raises InputError.

    >>> soft_target(np.array([[1, 0], [1, 0]]), 0.5).tolist()
    [[1.0, 0.25], [1.0, 0.25]]
    """
    if not 0 < radius < 1:
        raise InputError(f"radius is a fraction of the image height in (0, 1), not {radius}")
    return np.maximum(1.0 - outside_distance(masks) / radius, 0.0) ** 2
