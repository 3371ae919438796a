"""Meshes and masks that tests put together."""

import numpy as np

from dressi.render.mesh import Mesh


def both(first: Mesh, second: Mesh) -> Mesh:
    """Two meshes as one, each in its place."""
    positions = np.concatenate([first.positions, second.positions])
    return Mesh(positions, np.concatenate([first.faces, second.faces + len(first.positions)]))


def disc(size: int, radius: float) -> np.ndarray:
    """(size, size) float32: 1 within ``radius`` pixels of the middle."""
    y, x = np.mgrid[:size, :size] + 0.5 - size / 2
    return (np.hypot(x, y) < radius).astype(np.float32)
