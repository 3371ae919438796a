"""What happens to a mesh between rounds of the shape phase: folds are healed, holes opened, faces added."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.ndimage import binary_fill_holes, gaussian_filter, map_coordinates

from ...forms.soft_target import outline_distances
from ...mesh import Mesh
from ...mesh.checks import intersecting_faces, winding_in_front
from ...mesh.remesh import remesh
from ...mesh.remesh.remesh import decimate_closed
from ...mesh.remesh.volume import Grid, level_set, near_surface, sample_count, signed_distances, surface_of
from ...mesh.rows import unit
from ...objectives.hull import labelled

FILL = 0.85
"""Faces that remeshing aims at, relative to those there is room for."""


def bare(mesh: Mesh) -> Mesh:
    """The shape alone: seams of UVs would keep their vertices. New UVs are made before the texture."""
    return Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)


def refined(mesh: Mesh, faces: int) -> Mesh:
    """The mesh with at most ``faces`` faces, more where the surface bends; without UVs."""
    return remesh(bare(mesh), faces=int(FILL * faces), most_faces=faces, rounds=3).mesh


# Opens holes in the mesh that the pictures see through.
#
# A silhouette gradient acts at outlines. A hole that the mesh covers completely has no outline, and moving
# vertices cannot change the topology. So the mesh is converted to signed distances on a grid, the cones of
# the holes are subtracted, and marching cubes make a new mesh.

LEAST_HOLE = 0.01
"""Least area of a hole, as a share of its mask. Smaller holes are probably errors of the mask."""
CLOSED = 0.002
"""A hole counts as closed if this share of the mesh's volume lies in it, deeper than half a cell of the
grid."""
HOLE_CELLS = 72
"""Cells of the grid along the longest side of the mesh."""
HOLE_BLUR = 0.7
"""Smoothing of the field, in cells: removes bridges and tunnels that are left where cones do not quite
meet."""
EVENINGS = ((0.5, -0.53),) * 4
"""Factors of Taubin smoothing (1995) for the new vertices: decimation leaves long faces."""


def holes(mask: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """(H, W) bool: holes of a mask (H, W) that are large enough and entirely ``known``."""
    mask = np.asarray(mask) >= 0.5
    number, areas = labelled(np.asarray(binary_fill_holes(mask)) & ~mask)
    large = areas >= max(LEAST_HOLE * mask.sum(), 1)
    large[0] = False
    if known is not None:
        large[np.unique(number[np.asarray(known) <= 0])] = False
    return large[number]


def opened(
    mesh: Mesh,
    matrices: np.ndarray,
    masks: np.ndarray,
    known: np.ndarray | None = None,
) -> Mesh | None:
    """A mesh of about as many faces, without UVs, in which the holes of masks (N, H, W) are open. None if the mesh closes none, or if fewer than two views show one: the mask of a
    single view may be wrong.

    matrices: (N, 4, 4) from the mesh's space to clip space.  known: (N, H, W), the valid pixels of the masks.
    An open mesh is left as it is. Other parts of the surface move by less than a cell of the grid.
    """
    if not mesh.is_closed():
        return None
    shown = [holes(mask, None if known is None else known[i]) for i, mask in enumerate(masks)]
    seen = [i for i, hole in enumerate(shown) if hole.any()]
    if len(seen) < 2:
        return None
    grid = Grid.around(mesh.bounds(), HOLE_CELLS)
    field, points = signed_distances(mesh, grid), grid.points()
    away = np.min([_distances(points, matrices[i], shown[i]) for i in seen], axis=0)
    inside = field > 0
    if (inside & (away < -0.5 * grid.step)).sum() <= CLOSED * inside.sum():
        return None
    reach = np.abs(field).max()
    found = level_set(gaussian_filter(np.clip(np.minimum(field, away), -reach, reach), HOLE_BLUR), grid)
    found = _evened(decimate_closed(found, len(mesh.faces)))
    return replace(found, color=mesh.color, name=mesh.name)


def _distances(points: np.ndarray, matrix: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """Approximate signed distance of points (..., 3) to the cone behind a hole (H, W), negative inside."""
    height, width = hole.shape
    clip = points @ matrix[:, :3].T + matrix[:, 3]
    seen = clip[..., 3] > 1e-6
    depth = np.where(seen, clip[..., 3], 1.0)
    pixel = (clip[..., :2] / depth[..., None] * 0.5 + 0.5) * (width, height)
    signed = -outline_distances(hole)
    # Values at the border of the picture, which are positive, extend beyond it.
    away = map_coordinates(signed, [pixel[..., 1] - 0.5, pixel[..., 0] - 0.5], order=1, mode="nearest")
    return np.where(seen, away * depth * 2 / (height * np.linalg.norm(matrix[1, :3])), np.inf)


def _evened(mesh: Mesh) -> Mesh:
    averaging, positions = mesh.averaging(), mesh.positions
    for part in np.ravel(EVENINGS):
        positions = positions + part * (averaging @ positions - positions)
    return mesh.moved(positions)


# Heals folds that the shape phase leaves, where they are or by making the surface anew.

TRIES = 24
HEALING = 32
"""Iterations of mending in ``healed``, after which a surface is made anew."""
PUSH = 0.3
"""How far ``healed`` moves vertices of inverted faces outward in an iteration, in lengths of their edges."""
CELLS, CELLS_OF_PIXEL = 256, 4
"""Most cells of the grid, along the longest side of the mesh, on which a folded surface is made anew, and
most for a pixel of the longer side of the pictures: smaller cells hold nothing that these have shown."""
BLUR = 0.5
"""Smoothing of the field in cells."""
THICK = 1.0
"""Cells that a new surface has on either side of folds, and near them."""
SPECKS = 2e-5
"""Parts of a smaller share of the volume are leftovers of folds; larger ones are limbs that folds have
cut."""
AVERAGED, BACK, LEAST = 3, 0.7, 0.1
"""Iterations in which ``unfolded_from`` averages moves, the share of moves of folds that it leaves in each
later one, and the share below which they go back entirely."""
RINGS = 10
"""Iterations of it after which vertices farther around folds go back too."""
KEPT = 0.985
"""Least area of a new surface relative to that of the field, until which it has more faces: limbs of a few
pixels are short of faces first, and what is lost of them does not grow again."""


def unfolded(mesh: Mesh, *, tries: int = TRIES) -> Mesh:
    """A closed mesh with its inverted and self-intersecting faces smoothed.

    The vertices of these faces move to the mean of their neighbours. Where that is not enough, the vertices
    around them move too, in growing rings, for at most ``tries`` iterations; larger folds remain. Topology
    and attributes are kept. An open mesh, for which inside and outside are undefined, is returned unchanged.
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
    """A closed mesh without folds. They are mended where they are; if ``tries`` iterations leave some, the
    whole surface is made anew. An open mesh is returned unchanged.

    The sides of a thin limb that have passed through each other are inside out. So vertices of inverted faces
    move outward, which brings the sides back, and vertices of all folds move half-way to the mean of their
    neighbours. After every four iterations one more ring of vertices moves. A new surface bounds the same
    solid: the points around which the given surface winds, inverted parts included, and those near its folds,
    which else would cut limbs. Details below a cell of the grid are lost, topology and vertices change, and
    the new surface may have a few folds of its own.

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
    anew = surface_of(gaussian_filter(field, BLUR), grid, len(mesh.faces), least=SPECKS, kept=KEPT)
    if anew is None:
        return unfolded(mesh)
    return unfolded(Mesh(anew.positions, anew.faces, color=mesh.color, name=mesh.name))


def _mending(
    mesh: Mesh, averaging: sparse.csr_array, inverted: np.ndarray, folded: np.ndarray, rings: int
) -> np.ndarray:
    """(V, 3) how ``healed`` moves the vertices of inverted and folded faces (F,) and of rings around them."""
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
    """A closed mesh whose folds are undone, after its vertices moved from those of ``before``, of the same
    faces.

    At first the moves of the vertices of folds are averaged with those of their neighbours, by half in each
    iteration, which undoes the folds of single vertices. Then they go back a part of their way in each
    iteration, and after every RINGS iterations those in one more ring around them too. The rest of the shape
    keeps its details. No folds are left but those of ``before``. An open mesh is returned unchanged.
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
