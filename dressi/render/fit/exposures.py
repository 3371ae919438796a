"""The exposure of a picture that nothing was learned from, by those of pictures taken nearby."""

from __future__ import annotations

import numpy as np

from ..cameras import Cameras

REACH = 1.5
"""Standard deviation of the kernel, relative to the usual angle between neighbouring pictures."""
PLAIN = 0.05
"""Weight of no exposure at all, relative to a picture from the same direction."""


def expected_gains(gains: np.ndarray, cameras: Cameras, others: Cameras) -> np.ndarray:
    """(M, 3) factors of the sRGB codes of pictures by ``others``, from those of the N pictures by ``cameras`` (N, 3).

    A camera that sets its exposure by itself, and lights that it carries or shades, make it vary slowly with the direction of the
    view: the logarithms are averaged with a Gaussian kernel over the angles between optical axes. Far from all pictures the
    factors are 1.

    >>> from dressi.render.cameras.views import ring
    >>> cameras = ring(np.zeros(3), 1.0, 8, (8, 8))
    >>> expected_gains(np.full((8, 3), 0.8), cameras, cameras).round(1)[0].tolist()
    [0.8, 0.8, 0.8]
    """
    here, there = (np.array([camera.forward for camera in some]) for some in (cameras, others))
    apart = _angles(here, here)
    np.fill_diagonal(apart, np.inf)
    spacing = max(float(np.median(apart.min(axis=1))), 1e-3) if len(here) > 1 else np.pi
    weights = np.exp(-0.5 * (_angles(there, here) / (REACH * spacing)) ** 2)
    return np.exp(weights @ np.log(gains) / (weights.sum(axis=1, keepdims=True) + PLAIN))


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(A, B) radians between unit vectors."""
    return np.arccos(np.clip(a @ b.T, -1.0, 1.0))
