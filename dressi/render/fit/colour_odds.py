"""Odds of being object by colour: of histograms of what was seen so far as object and as background."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.ndimage import gaussian_filter

BINS, BLUR = 32, 0.5
"""Of the histograms, along each axis of CIELAB, and how far counts spread, in bins."""
TILES, COARSE, ELSEWHERE = 8, 4, 0.2
"""Tiles along each side of a picture and bins in one of theirs; least share that a colour of the background keeps where no
background around has it."""
MOST_ODDS = 3.0
"""Of a colour."""


class Binned(Protocol):
    """A picture. bins: (h w,) of the histograms, see ``bins_of``."""

    @property
    def bins(self) -> np.ndarray: ...

    @property
    def shape(self) -> tuple[int, int]: ...


def bins_of(colour: np.ndarray) -> np.ndarray:
    """(h w,) bins of CIELAB colours (h, w, 3)."""
    levels = np.clip((colour + (0, 64, 64)) / (100, 128, 128), 0, 1 - 1e-9)
    return ((levels * BINS).astype(int) @ (BINS * BINS, BINS, 1)).reshape(-1)


def colour_odds(smalls: Sequence[Binned], shares: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Odds (h w,) of the colours of each picture: the object's are those of all pictures, the background's half its own. A
    colour of the background that none of it around has counts less."""

    def histogram(bins: np.ndarray, weight: np.ndarray) -> np.ndarray:
        count = np.bincount(bins, weight, BINS**3).reshape((BINS,) * 3)
        smooth = gaussian_filter(count, BLUR, mode="constant")
        return smooth / max(float(smooth.sum()), 1e-12)

    every = np.concatenate([small.bins for small in smalls])
    share = np.concatenate(list(shares))
    front, back = histogram(every, share > 0.75), histogram(every, share < 0.25)
    odds = []
    for small, own in zip(smalls, shares, strict=True):
        behind = 0.5 * back + 0.5 * histogram(small.bins, own < 0.25)
        ratio = np.log(
            (front + 1e-5).reshape(-1)[small.bins]
            / (behind.reshape(-1)[small.bins] * _around(small, own) + 1e-5)
        )
        odds.append(np.clip(ratio, -MOST_ODDS, MOST_ODDS))
    return odds


def _around(small: Binned, share: np.ndarray) -> np.ndarray:
    """(h w,) how often the background around a pixel has its colour, relative to that of the whole picture, ELSEWHERE to 1."""
    height, width = small.shape
    y, x = np.mgrid[:height, :width]
    tile = (y * TILES // height * TILES + x * TILES // width).reshape(-1)
    side = BINS // COARSE
    levels = np.stack(np.unravel_index(small.bins, (BINS,) * 3)) // COARSE
    place = tile * side**3 + np.ravel_multi_index(tuple(levels), (side,) * 3)
    count = np.bincount(place, share < 0.25, TILES**2 * side**3).reshape(TILES, TILES, -1)
    near = gaussian_filter(count, (1.0, 1.0, 0.0), mode="nearest")
    usual = near.mean((0, 1))
    return np.clip(near / np.maximum(usual, 1e-9), ELSEWHERE, 1.0).reshape(-1)[place]
