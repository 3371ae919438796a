"""The brightness of the surface in each picture as a function of its normal, fitted to what points of the surface show."""

from __future__ import annotations

import numpy as np

TURNS = 6
"""How often colours and lights are fitted in turn."""
NOISE = 0.05
"""Differences of colours, in sRGB codes, that begin to count less: highlights and shadows follow no normal."""
STIFF = 1e-4
"""Weight of differences from a light of 1, relative to a point of colour 1."""
RANGE = (0.2, 5.0)


def harmonics(normals: np.ndarray) -> np.ndarray:
    """(P, 9): spherical harmonics up to degree two, not normalised, of unit normals (P, 3)."""
    x, y, z = normals.T
    return np.stack(
        [np.ones_like(x), x, y, z, x * y, y * z, z * x, x * x - y * y, 3 * z * z - 1], axis=1
    )  # fmt: skip


def shades(normals: np.ndarray, point: np.ndarray, view: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(R,): factors on the colours of points, one for each observation: of a point (R,) by a view (R,), with a value (R,).

    normals: (P, 3). Each view has its own light, ``harmonics`` of the normal, near 1. Models lights fixed in the world or
    to the camera, and exposures.
    """
    basis, shade = harmonics(normals)[point], np.ones(len(value))
    for _ in range(TURNS):
        above, below = (np.bincount(point, part, len(normals)) for part in (value * shade, shade * shade))
        colour = (above / np.maximum(below, 1e-9))[point]
        trust = 1 / (1 + ((value - shade * colour) / NOISE) ** 2)
        for number in np.unique(view):
            own = view == number
            rows = basis[own] * colour[own, None]
            weighted = rows * trust[own, None]
            stiff = STIFF * own.sum() * np.eye(rows.shape[1])
            found = np.linalg.solve(weighted.T @ rows + stiff, weighted.T @ (value[own] - colour[own]))
            shade[own] = np.clip(1 + basis[own] @ found, *RANGE)
    return shade
