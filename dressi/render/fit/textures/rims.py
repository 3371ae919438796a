"""What pictures whose masks are wrong by a pixel or two say at each of their pixels, and how much wider than the object masks are."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import distance_transform_edt

FRAYED, RAMP = 0.75, 1.0
"""Pixels from the rim of a mask within which colours may be those of the background, and over which they then begin to count, for
each pixel that masks are wider than the object."""
WIDEST = 2.0
"""Most of these pixels: wider masks would leave little of thin parts."""
BAND, LEAST = 1.6, 0.3
"""Pixels from the rim, on both sides, in which an outline may lie, and what they count in the comparison of silhouettes."""
DEEP, BEYOND = 3, 3
"""Pixels inside a mask that may show the background, and beyond its rim, that may show the object."""
APART = 0.01
"""Least squared difference of the light of object and background that tells them apart."""


def rim_weights(
    masks: np.ndarray, known: np.ndarray | None = None, fringe: float = WIDEST
) -> tuple[np.ndarray, np.ndarray]:
    """(N, H, W) each, in [0, 1]: how much the colours and how much the coverage of a pixel count, of masks (N, H, W).

    known: (N, H, W), the valid pixels; what is not known is no rim of the mask, and counts for nothing.  fringe: pixels by which
    masks are wider than the object.

    >>> masks = np.repeat([[[0.0] * 4 + [1.0] * 8]], 12, axis=1)
    >>> colours, outlines = rim_weights(masks)
    >>> colours[0, 6, ::2].tolist(), outlines[0, 6, [0, 3, 4, 11]].tolist()
    ([0.0, 0.0, 0.0, 0.75, 1.0, 1.0], [1.0, 0.3, 0.3, 1.0])
    >>> rim_weights(masks, fringe=0.5)[0][0, 6, 3:6].tolist()
    [0.0, 1.0, 1.0]
    """
    wider = min(max(fringe, 0.0), WIDEST)
    colours, outlines = np.zeros(np.shape(masks)), np.ones(np.shape(masks))
    for k, mask in enumerate(np.asarray(masks) >= 0.5):
        told = np.ones_like(mask) if known is None else np.asarray(known[k]) > 0
        inward, outward = _depth(mask | ~told), _depth(~mask)
        rise = (inward - FRAYED * wider) / max(RAMP * wider, 1e-6)
        colours[k] = np.clip(rise, 0.0, 1.0) * (mask & told)
        outlines[k, (np.where(mask, inward, outward) < BAND)] = LEAST
        outlines[k, ~told] = 0.0
    return colours, outlines


def fringe(images: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None) -> float:
    """Pixels by which masks (N, H, W) are wider than the object, by linear photographs (N, H, W, 3); 0 or more.

    Of the pixels 1, 2, ... ``DEEP`` inside of a rim, the share of the background: the median of where their light lies between
    that of the nearest pixel farther inside (0) and of the nearest one ``BEYOND`` the rim (1), summed. The same of as many pixels
    that follow farther inside is what texture alone makes of it, and is taken off. Where object and background look alike, a rim
    says nothing; where they do everywhere, the result is 0.

    >>> masks = np.repeat([[[0.0] * 6 + [1.0] * 14]], 20, axis=1)
    >>> images = np.where(np.arange(20) < 8, 0.0, 0.5)[:, None] * np.ones((1, 20, 20, 3))
    >>> fringe(images, masks), fringe(np.roll(images, -2, axis=2), masks)
    (2.0, 0.0)
    """
    found: list[list[np.ndarray]] = [[] for _ in range(2 * DEEP)]
    for k, mask in enumerate(np.asarray(masks) >= 0.5):
        told = np.ones_like(mask) if known is None else np.asarray(known[k]) > 0
        mask = mask & told
        inward, beyond = _depth(mask | ~told), _depth(~mask | ~told) > BEYOND
        ring, far = np.rint(np.minimum(inward, 4 * DEEP)).astype(int) - 1, ~mask & told & beyond
        for first in (0, DEEP):
            inner = mask & (ring >= first + DEEP)
            rims = mask & (ring >= first) & ~inner
            if not (inner.any() and far.any()):
                continue
            here, deep, away = (images[k][where][rims] for where in (..., _nearest(inner), _nearest(far)))
            away = np.asarray(away, np.float64) - deep
            power = (away**2).sum(-1)
            share = ((here - deep) * away).sum(-1) / np.maximum(power, APART)
            for depth in range(first, first + DEEP):
                found[depth].append(share[(ring[rims] == depth) & (power > APART)])
    shares = np.array([_middle(ring) for ring in found])
    texture = np.clip(shares[DEEP:], 0.0, 1.0)
    told = (shares[:DEEP] - texture) / np.maximum(1 - texture, 0.5)
    return float(np.clip(told, 0.0, 1.0).sum())


def _middle(shares: list[np.ndarray]) -> float:
    """The median of all, 0 of none."""
    found = np.concatenate([np.zeros(0), *shares])
    return float(np.median(found)) if len(found) else 0.0


def _depth(region: np.ndarray) -> np.ndarray:
    """(H, W) distances of its pixels to the nearest one outside a region (H, W), infinite without one."""
    return np.full(region.shape, np.inf) if region.all() else np.asarray(distance_transform_edt(region))


def _nearest(region: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows and columns, (H, W) each, of the nearest pixel of a region (H, W)."""
    return tuple(np.asarray(distance_transform_edt(~region, return_distances=False, return_indices=True)))
