"""Heals folds that the shape phase leaves: by smoothing, and by remeshing where that is allowed."""

from __future__ import annotations

import numpy as np

from ...mesh import Mesh
from ...mesh.checks import intersecting_faces, winding_in_front
from ...mesh.remesh import remesh

TRIES = 16
ROUNDS = 4
"""How often ``healed`` remeshes and smooths."""


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


def healed(mesh: Mesh) -> Mesh:
    """A closed mesh with its inverted and self-intersecting faces smoothed, and remeshed where smoothing alone does not
    help: faces that were squeezed in a fold take part of their neighbours' place.

    The mesh of the ``ROUNDS`` with the fewest folded faces is returned; it is ``unfolded`` itself if that has none. The topology
    is kept. An open mesh is returned unchanged.
    """
    best = mesh = unfolded(mesh)
    if not mesh.is_closed():
        return mesh
    fewest = int(_folded(mesh).sum())
    for _ in range(ROUNDS):
        if fewest == 0:
            break
        mesh = unfolded(
            remesh(mesh, lengths=float(mesh.edge_lengths().mean()), most_faces=len(mesh.faces), rounds=1).mesh
        )
        count = int(_folded(mesh).sum())
        if count < fewest:
            best, fewest = mesh, count
    return best


def _folded(mesh: Mesh) -> np.ndarray:
    """(F,) bool."""
    found = winding_in_front(mesh) < 0
    found[intersecting_faces(mesh)] = True
    return found
