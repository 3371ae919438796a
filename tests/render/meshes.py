"""Meshes that tests put together."""

import numpy as np

from dressi.render.mesh import Mesh


def both(first: Mesh, second: Mesh) -> Mesh:
    """Two meshes as one, each in its place."""
    positions = np.concatenate([first.positions, second.positions])
    return Mesh(positions, np.concatenate([first.faces, second.faces + len(first.positions)]))
