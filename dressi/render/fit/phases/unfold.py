"""Folds that the shape phase leaves behind are smoothed away."""

from __future__ import annotations

import numpy as np

from ...mesh import Mesh
from ...mesh.checks import intersecting_faces, winding_in_front

TRIES = 16


def unfolded(mesh: Mesh) -> Mesh:
    """A closed mesh whose faces that are inside out or cut each other have been evened out.

    Their vertices move to the middle of their neighbours, and where that is not enough so do those around them, ever
    farther out, at most ``TRIES`` times. Folds of more than that are left. Topology and all else stay; an open mesh,
    of which no face is inside out, is returned as it is.
    """
    if not mesh.is_closed():
        return mesh
    positions = mesh.positions.copy()
    averaging = mesh.averaging()
    for turn in range(TRIES):
        folded = _folded(mesh.moved(positions))
        if not folded.any():
            break
        moves = np.zeros(len(positions), dtype=bool)
        moves[mesh.faces[folded]] = True
        for _ in range(turn // 4):
            moves |= averaging @ moves > 0
        for _ in range(2):
            positions[moves] = (averaging @ positions)[moves]
    return mesh.moved(positions)


def _folded(mesh: Mesh) -> np.ndarray:
    """(F,) bool."""
    found = winding_in_front(mesh) < 0
    found[intersecting_faces(mesh)] = True
    return found
