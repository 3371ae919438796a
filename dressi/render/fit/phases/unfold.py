"""Heals folds that the shape phase leaves: by smoothing, and by making the surface anew where that is allowed."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.ndimage import gaussian_filter

from ...mesh import Mesh
from ...mesh.checks import intersecting_faces, winding_in_front
from ...mesh.remesh.volume import Grid, near_surface, sample_count, signed_distances, surface_of

TRIES = 24
HEALING = 6
"""Iterations of smoothing in ``healed``: more move what is not folded as well."""
CELLS = 256
"""Most cells of the grid, along the longest side of the mesh, on which a folded surface is made anew."""
CELLS_OF_PIXEL = 4
"""Most of them for a pixel of the longer side of the pictures: smaller ones hold nothing that these have shown."""
BLUR = 0.5
"""Smoothing of the field in cells."""
THICK = 1.0
"""Cells that a new surface has on either side of folds, and near them."""
SPECKS = 2e-5
"""Parts of a new surface of a smaller share of the volume are what folds leave; larger ones are limbs that folds have cut."""
KEPT = 0.985
"""Least area of a new surface relative to that of the field, until which it has more faces: limbs of a few pixels are short of
faces first, and what is lost of them does not grow again."""


def unfolded(mesh: Mesh, *, tries: int = TRIES) -> Mesh:
    """A closed mesh with its inverted and self-intersecting faces smoothed.

    The vertices of these faces move to the mean of their neighbours. Where that is not enough, the vertices around them
    move too, in growing rings, for at most ``tries`` iterations; larger folds remain. Topology and attributes are kept. An
    open mesh, for which inside and outside are undefined, is returned unchanged.
    """
    if not mesh.is_closed():
        return mesh
    positions = mesh.positions.copy()
    averaging = mesh.averaging()
    for turn in range(tries):
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


def healed(mesh: Mesh, *, pixels: int = CELLS, tries: int = HEALING) -> Mesh:
    """A closed mesh without folds: those that a little smoothing takes away are smoothed, and for any others the whole
    surface is made anew.

    A new surface bounds the same solid: the points around which the surface winds, inverted parts included, and those near
    folds, which else would cut limbs, on a grid of CELLS, below whose cells details are lost. Topology and vertices change then. It may have a few folds of its own. An
    open mesh is returned unchanged.

    pixels: of the longer side of the pictures that the mesh was fitted to.
    """
    near = unfolded(mesh, tries=tries)
    if not mesh.is_closed() or not _folded(near).any():
        return near
    grid = Grid.around(mesh.bounds(), min(CELLS, CELLS_OF_PIXEL * pixels))
    field = signed_distances(mesh, grid, 1.5, inverted=True)
    # Where the sides of a limb have passed through each other hardly anything lies between them.
    folds = Mesh(mesh.positions, mesh.faces[_folded(mesh)])
    around = near_surface(folds, grid, sample_count(folds, grid), THICK)
    field[around] = np.maximum(field, THICK * grid.step - np.abs(field))[around]
    found = surface_of(gaussian_filter(field, BLUR), grid, len(mesh.faces), least=SPECKS, kept=KEPT)
    if found is None:
        return near
    return unfolded(Mesh(found.positions, found.faces, color=mesh.color, name=mesh.name))


def unfolded_from(mesh: Mesh, before: Mesh, *, tries: int = TRIES) -> Mesh:
    """A closed mesh whose folds are undone, where the vertices moved from positions of ``before``, a mesh of the same faces.

    The moves of the vertices of folds are averaged with those of their neighbours, by half in each iteration: the shape
    keeps the details that both have in common, and loses less than by smoothing. After ``tries`` iterations positions of ``before``
    return, in growing rings around the folds, so that no folds are left but its own. An open mesh is returned unchanged.
    """
    if not mesh.is_closed():
        return mesh
    moves, averaging = mesh.positions - before.positions, mesh.averaging()
    back = np.zeros(len(moves), dtype=bool)
    for turn in itertools.count():
        folded = _folded(mesh.moved(before.positions + moves))
        folded[back[mesh.faces].all(axis=1)] = False
        if not folded.any():
            break
        around = np.zeros(len(moves), dtype=bool)
        around[mesh.faces[folded]] = True
        if turn < tries:
            for _ in range(turn // 10):
                around |= averaging @ around > 0
            moves[around] += 0.5 * (averaging @ moves - moves)[around]
        else:
            back |= around
            back |= averaging @ back > 0
            moves[back] = 0.0
    return mesh.moved(before.positions + moves)


def _folded(mesh: Mesh) -> np.ndarray:
    """(F,) bool."""
    found = winding_in_front(mesh) < 0
    found[intersecting_faces(mesh)] = True
    return found
