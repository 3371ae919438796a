"""A photographer's studio as an environment map: large soft lamps in a grey room."""

from __future__ import annotations

import numpy as np

ROOM = (0.25, 0.27, 0.32)
"""Radiance of the walls, linear."""
LAMPS = (
    ((0.6, 0.7, 0.5), 0.35, (9.0, 8.6, 8.0)),
    ((-0.8, 0.3, 0.4), 0.45, (2.6, 2.9, 3.4)),
    ((0.2, 0.5, -0.9), 0.3, (5.0, 4.6, 4.2)),
)
"""Direction, angular radius in radians, and radiance of each lamp."""
SOFTNESS = 0.12
"""Width of the edge of a lamp, in radians."""


def studio(height: int = 64) -> np.ndarray:
    """(height, 2 height, 3) float64 linear radiance, equirectangular, row 0 up: a key, a fill and a rim lamp. The mean over
    the sphere is about 0.6.

    >>> studio(16).shape, bool(studio().min() > 0)
    ((16, 32, 3), True)
    """
    v, u = np.meshgrid(
        (np.arange(height) + 0.5) / height, (np.arange(2 * height) + 0.5) / (2 * height), indexing="ij"
    )
    polar, turn = np.pi * v, 2 * np.pi * (u - 0.5)
    direction = np.stack(
        [np.sin(polar) * np.sin(turn), np.cos(polar), -np.sin(polar) * np.cos(turn)], axis=-1
    )
    # The floor is darker than the ceiling.
    light = np.asarray(ROOM) * (0.75 + 0.5 * np.clip(direction[..., 1:2] + 0.3, 0, 1))
    for towards, radius, colour in LAMPS:
        axis = np.asarray(towards) / np.linalg.norm(towards)
        angle = np.arccos(np.clip(direction @ axis, -1, 1))
        share = np.clip((radius - angle) / SOFTNESS + 0.5, 0, 1)
        light = light + (share * share * (3 - 2 * share))[..., None] * np.asarray(colour)
    return light
