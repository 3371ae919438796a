"""From the contrast of a picture to a clean mask: noise threshold, connected components, sharp outlines."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion, binary_fill_holes, gaussian_filter, label

from ..io.images import to_linear_rgb

SEEN = 3.0
"""Smallest CIELAB distance that counts as a difference: just above what is noticeable, and above JPEG artefacts."""
NOISE = 4.0
"""The noise threshold lies this many standard deviations of the background above its median."""
PART, HOLE = 0.05, 0.01
"""Parts smaller than this share of the largest are dropped, holes smaller than this share of the mask are filled."""


def lab(codes: np.ndarray) -> np.ndarray:
    """(H, W, 3) CIELAB of sRGB codes (H, W, 1, 3 or 4); alpha is ignored."""
    linear = to_linear_rgb(codes)
    matrix = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    t = (linear @ matrix.T) / matrix.sum(1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack(
        [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], axis=-1
    )


def clean(mask: np.ndarray, hole: float = HOLE) -> np.ndarray:
    """A mask without specks, small parts and holes smaller than a share of it."""
    core = binary_dilation(binary_erosion(mask, np.ones((2, 2))), np.ones((3, 3)))
    mask = mask & core
    number, count = _labels(mask)
    if count > 1:
        areas = np.bincount(number.reshape(-1))[1:]
        mask = mask & np.append(False, areas >= PART * areas.max())[number]
    number, _ = _labels(binary_fill_holes(mask) & ~mask)
    areas = np.bincount(number.reshape(-1))
    areas[0] = mask.size
    return mask | (areas < max(hole * mask.sum(), 1))[number]


def _labels(mask: np.ndarray) -> tuple[np.ndarray, int]:
    number = np.zeros(mask.shape, dtype=np.int32)
    count = label(mask, output=number)
    return number, int(count)  # pyright: ignore[reportArgumentType]


def border(shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) bool: the outer 4 %, at least a pixel, along each side."""
    frame = np.ones(shape, dtype=bool)
    a, b = (max(round(0.04 * n), 1) for n in shape)
    frame[a:-a, b:-b] = False
    return frame


def least_distance(distance: np.ndarray) -> float:
    """The distance above which a pixel is not background, from the noise at the picture's border."""
    usual = distance[border(distance.shape)]
    middle = float(np.median(usual))
    return max(SEEN, middle + NOISE * 1.4826 * float(np.median(np.abs(usual - middle))))


def grown(value: np.ndarray, least: float, sure: float) -> np.ndarray:
    """(H, W) bool: connected parts above ``least`` that contain a pixel above ``sure`` (hysteresis)."""
    number, count = _labels(value > least)
    found = np.zeros(count + 1, dtype=bool)
    found[np.unique(number[value > sure])] = True
    found[0] = False
    return found[number]


def sharpened(codes: np.ndarray, mask: np.ndarray, background: np.ndarray | None = None) -> np.ndarray:
    """The mask with its outline moved to where a pixel, a linear mix of both sides, is half object and half background.

    Only pixels beside the outline change, or two pixels deep if the background (codes) is known.
    """
    linear = to_linear_rgb(codes).astype(np.float32)
    inner, outer = (_eroded(part, 2) for part in (mask, ~mask))
    front, here = _means(linear, inner)
    if background is None:
        back, there = _means(linear, outer)
    else:
        back, there = to_linear_rgb(background).astype(np.float32), np.ones(mask.shape, np.float32)
    axis = front - back
    square = (axis * axis).sum(-1)
    share = ((linear - back) * axis).sum(-1) / np.maximum(square, 1e-12)
    told = (here > 1e-4) & (there > 1e-4) & (square > 1e-4)
    beside = ~_eroded(~mask, 1) & ~_eroded(mask, 1 if background is None else 2)
    return np.where(beside & told, share >= 0.5, mask)


def _eroded(mask: np.ndarray, pixels: int) -> np.ndarray:
    """The eroded mask; the border of the picture does not erode."""
    return np.asarray(binary_erosion(mask, iterations=pixels, border_value=1), dtype=bool)


def _means(image: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Gaussian mean of the pixels of a mask (H, W) around each pixel, and their total weight in [0, 1]."""
    weight = gaussian_filter(where.astype(np.float32), 1.0)
    total = gaussian_filter(image * where[..., None], (1.0, 1.0, 0))
    return total / np.maximum(weight, 1e-6)[..., None], weight
