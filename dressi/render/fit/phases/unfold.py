"""Heals folds that the shape phase leaves: where they are, and by making the surface anew where that is needed and allowed."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter

from ...mesh import Mesh
from ...mesh.checks import intersecting_faces, winding_in_front
from ...mesh.remesh.volume import Grid, near_surface, sample_count, signed_distances, surface_of
from ...mesh.rows import unit

TRIES = 24
HEALING = 32
"""Iterations of mending in ``healed``, after which a surface is made anew."""
PUSH = 0.3
"""How far ``healed`` moves vertices of inverted faces outward in each iteration, in lengths of their edges."""
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
AVERAGED, BACK, LEAST = 3, 0.7, 0.1
"""Iterations in which ``unfolded_from`` averages moves; what it leaves of those of folds in each later one; and the share of them
below which they all go back."""
RINGS = 10
"""Iterations of it after which vertices farther around folds go back too."""
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
    averaging, folds = mesh.averaging(), Folds(mesh)
    for turn in range(tries):
        if not folds.folded.any():
            break
        moves = np.zeros(len(positions), dtype=bool)
        moves[mesh.faces[folds.folded]] = True
        for _ in range(turn // 4):
            moves |= averaging @ moves > 0
        for _ in range(2):
            positions[moves] = (averaging @ positions)[moves]
        folds.move(positions)
    return mesh.moved(positions)


def healed(mesh: Mesh, *, pixels: int = CELLS, tries: int = HEALING) -> Mesh:
    """A closed mesh without folds. They are mended where they are; if ``tries`` iterations leave some, the whole surface is made
    anew.

    The sides of a thin limb that have passed through each other are inside out. So vertices of inverted faces move outward,
    which brings the sides back, and vertices of all folds move half-way to the mean of their neighbours. After every four
    iterations one more ring of vertices moves. A new surface bounds the same solid: the points around which the given surface
    winds, inverted parts included, and those near its folds, which else would cut limbs. It lies on a grid of CELLS, below
    whose cells details are lost. Topology and vertices change then, and the new surface may have a few folds of its own. An
    open mesh is returned unchanged.

    pixels: of the longer side of the pictures that the mesh was fitted to.
    """
    if not mesh.is_closed():
        return mesh
    averaging, folds = mesh.averaging(), Folds(mesh)
    first = folds.folded
    for turn in range(tries):
        near = folds.mesh
        if not folds.folded.any():
            return near
        folds.move(near.positions + _mending(near, averaging, folds.inverted, folds.folded, turn // 4))
    grid = Grid.around(mesh.bounds(), min(CELLS, CELLS_OF_PIXEL * pixels))
    field = signed_distances(mesh, grid, 1.5, inverted=True)
    # Where the sides of a limb have passed through each other hardly anything lies between them.
    cut = Mesh(mesh.positions, mesh.faces[first])
    around = near_surface(cut, grid, sample_count(cut, grid), THICK)
    field[around] = np.maximum(field, THICK * grid.step - np.abs(field))[around]
    found = surface_of(gaussian_filter(field, BLUR), grid, len(mesh.faces), least=SPECKS, kept=KEPT)
    if found is None:
        return unfolded(mesh)
    return unfolded(Mesh(found.positions, found.faces, color=mesh.color, name=mesh.name))


def _mending(
    mesh: Mesh, averaging: sparse.csr_array, inverted: np.ndarray, folded: np.ndarray, rings: int
) -> np.ndarray:
    """(V, 3) how ``healed`` moves the vertices of faces (F,) that are inverted and folded, and so many rings around them."""
    positions, mean = mesh.positions, averaging @ mesh.positions
    moves, outward = np.zeros((2, len(positions)))
    moves[mesh.faces[folded]] = outward[mesh.faces[inverted]] = 1.0
    for _ in range(rings):
        moves, outward = (np.sign(part + averaging @ part) for part in (moves, outward))
    normals = mesh.vertex_normals()
    # The root mean square of the lengths of the edges at each vertex.
    lengths = np.sqrt((averaging @ positions**2 - 2 * positions * mean + positions**2).sum(1).clip(0))
    push = (PUSH * lengths * outward)[:, None] * unit(normals + averaging @ normals)
    return moves[:, None] * (0.5 * (mean - positions) + push)


def unfolded_from(mesh: Mesh, before: Mesh) -> Mesh:
    """A closed mesh whose folds are undone, where the vertices moved from positions of ``before``, a mesh of the same faces.

    At first the moves of the vertices of folds are averaged with those of their neighbours, by half in each iteration, which
    undoes the folds of single vertices. Then they go back a part of their way in each iteration, and after every RINGS
    iterations those in one more ring around them too. The rest of the shape keeps its details. No folds are left but those of
    ``before``. An open mesh is returned unchanged.
    """
    if not mesh.is_closed():
        return mesh
    moves, averaging = mesh.positions - before.positions, mesh.averaging()
    share, folds = np.ones(len(moves)), Folds(mesh.moved(before.positions + moves))
    for turn in itertools.count():
        folded = folds.folded & (share[mesh.faces] > 0).any(axis=1)
        if not folded.any():
            break
        around = np.zeros(len(moves), dtype=bool)
        around[mesh.faces[folded]] = True
        for _ in range(turn // RINGS):
            around |= averaging @ around > 0
        if turn < AVERAGED:
            moves[around] += 0.5 * (averaging @ moves - moves)[around]
        else:
            share[around] *= BACK
            share[share < LEAST] = 0.0
        folds.move(before.positions + share[:, None] * moves)
    return folds.mesh


class Folds:
    """The folds of a closed mesh while its vertices move.

    inverted, folded: (F,) bool, faces that are inside out, and those which are that or cut each other.
    """

    def __init__(self, mesh: Mesh):
        self.mesh, self._pairs = mesh, intersecting_faces(mesh)
        self._tell()

    def move(self, positions: np.ndarray) -> None:
        """Move the vertices to (V, 3). Faces that stay are not compared again."""
        mesh = self.mesh.moved(positions)
        changed = (mesh.positions != self.mesh.positions).any(1)[mesh.faces].any(1)
        still = self._pairs[~changed[self._pairs].any(1)]
        self.mesh, self._pairs = mesh, np.concatenate([still, intersecting_faces(mesh, changed)])
        self._tell()

    def _tell(self) -> None:
        self.inverted = winding_in_front(self.mesh) < 0
        self.folded = self.inverted.copy()
        self.folded[self._pairs] = True
