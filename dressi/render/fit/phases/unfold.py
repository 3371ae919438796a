"""Smooths folds that the shape phase leaves."""

from __future__ import annotations

import numpy as np

from ...mesh import Mesh
from ...mesh.checks import intersecting_faces, winding_in_front

TRIES = 16


def unfolded(mesh: Mesh) -> Mesh:
    """A closed mesh with its inverted and self-intersecting faces smoothed.

    The vertices of these faces move to the mean of their neighbours. Where that is not enough, the vertices around them
    move too, in growing rings, for at most ``TRIES`` iterations; larger folds remain. Topology and attributes are kept. An
    open mesh, for which inside and outside are undefined, is returned unchanged.
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
