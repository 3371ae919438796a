"""What pictures whose masks are wrong by a pixel or two say at each of their pixels."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt

FRAYED, RAMP = 1.5, 2.0
"""Pixels from the rim of a mask within which colours may be those of the background, and over which they then begin to count."""
BAND, LEAST = 1.6, 0.3
"""Pixels from the rim, on both sides, in which an outline may lie, and what they count in the comparison of silhouettes."""


def rim_weights(masks: np.ndarray, known: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(N, H, W) each, in [0, 1]: how much the colours and how much the coverage of a pixel count, of masks (N, H, W).

    known: (N, H, W), the valid pixels; what is not known is no rim of the mask, and counts for nothing.

    >>> colours, outlines = rim_weights(np.repeat([[[0.0] * 4 + [1.0] * 8]], 12, axis=1))
    >>> colours[0, 6, ::2].tolist(), outlines[0, 6, [0, 3, 4, 11]].tolist()
    ([0.0, 0.0, 0.0, 0.75, 1.0, 1.0], [1.0, 0.3, 0.3, 1.0])
    """
    colours, outlines = np.zeros(np.shape(masks)), np.ones(np.shape(masks))
    for k, mask in enumerate(np.asarray(masks) >= 0.5):
        told = np.ones_like(mask) if known is None else np.asarray(known[k]) > 0
        inward, outward = (
            np.asarray(distance_transform_edt(part)) if not part.all() else np.full(part.shape, np.inf)
            for part in (mask | ~told, ~mask)
        )
        colours[k] = np.clip((inward - FRAYED) / RAMP, 0.0, 1.0) * (mask & told)
        outlines[k, (np.where(mask, inward, outward) < BAND)] = LEAST
        outlines[k, ~told] = 0.0
    return colours, outlines
