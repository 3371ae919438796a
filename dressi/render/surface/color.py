"""The sRGB transfer curve on the host, exact in both pieces (IEC 61966-2-1)."""

from __future__ import annotations

import numpy as np


def srgb_to_linear(values: np.ndarray) -> np.ndarray:
    """sRGB code values in [0, 1] to linear light.

    >>> srgb_to_linear(np.array([0.0, 0.5, 1.0])).round(3).tolist()
    [0.0, 0.214, 1.0]
    """
    values = np.asarray(values)
    return np.where(values <= 0.04045, values / 12.92, ((np.maximum(values, 0) + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(values: np.ndarray) -> np.ndarray:
    """Linear light to sRGB code values; values are clamped to [0, 1] first.

    >>> linear_to_srgb(np.array([0.0, 0.214, 1.0])).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    values = np.clip(values, 0, 1)
    return np.where(values <= 0.0031308, values * 12.92, 1.055 * values ** (1 / 2.4) - 0.055)
