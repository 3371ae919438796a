"""Holes that pictures see through, but that a mesh which began as a sphere closes, are opened.

Outlines pull at what they touch. A hole that the mesh covers as a whole has no outline there, and no moving of vertices
makes a handle. So the mesh becomes a field on a grid, what projects into a hole is taken out of it, and a new mesh is made
of the rest.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from scipy.ndimage import binary_fill_holes, distance_transform_edt, gaussian_filter, label, map_coordinates

from ...mesh import Mesh
from ...mesh.decimate import decimate_closed
from ...mesh.volume import Grid, level_set, signed_distances

LEAST = 0.01
"""Of a hole, as a share of what the mask covers. Smaller ones are as likely mistakes of the mask."""
CLOSED = 0.002
"""What a mesh has inside of holes, deeper than half a cell of the grid, as a share of its volume, for them to be closed."""
CELLS = 72
"""Of the grid, along the longest side of the mesh."""
BLUR = 0.7
"""Of the field, in cells: bridges and tunnels thinner than that are left by cones that miss each other, not by the object."""
EVENINGS = ((0.5, -0.53),) * 4
"""How far the new vertices move towards the middle of their neighbours, forth and back (Taubin 1995): faces of decimated
meshes are long."""


def holes(mask: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """(H, W) bool: what a mask (H, W) surrounds without covering it, where it is large enough, and ``known`` throughout."""
    mask = np.asarray(mask) >= 0.5
    number = np.zeros(mask.shape, dtype=np.int32)
    label(np.asarray(binary_fill_holes(mask)) & ~mask, output=number)
    areas = np.bincount(number.reshape(-1))
    large = areas >= max(LEAST * mask.sum(), 1)
    large[0] = False
    if known is not None:
        large[np.unique(number[np.asarray(known) <= 0])] = False
    return large[number]


def opened(
    mesh: Mesh,
    matrices: np.ndarray,
    masks: np.ndarray,
    known: np.ndarray | None = None,
    *,
    resolution: int = 512,
) -> Mesh | None:
    """A mesh of about as many faces, with new UVs for a texture of ``resolution``, in which the holes of masks (N, H, W)
    are open; None where the mesh closes none, or where fewer than two views show one: the mask of a single view may be wrong.

    matrices: (N, 4, 4) from the mesh's space to clip space.  known: (N, H, W), where the masks mean something. An open mesh
    is left as it is. What is not opened moves by less than a cell of the grid.
    """
    if not mesh.is_closed():
        return None
    shown = [holes(mask, None if known is None else known[i]) for i, mask in enumerate(masks)]
    seen = [i for i, hole in enumerate(shown) if hole.any()]
    if len(seen) < 2:
        return None
    grid = Grid.around(mesh.bounds(), CELLS)
    field, points = signed_distances(mesh, grid), grid.points()
    away = np.min([_distances(points, matrices[i], shown[i]) for i in seen], axis=0)
    inside = field > 0
    if (inside & (away < -0.5 * grid.step)).sum() <= CLOSED * inside.sum():
        return None
    reach = np.abs(field).max()
    found = level_set(gaussian_filter(np.clip(np.minimum(field, away), -reach, reach), BLUR), grid)
    found = _evened(decimate_closed(found, len(mesh.faces)))
    with warnings.catch_warnings():
        # That it made UVs: those of the start are no longer anybody's.
        warnings.simplefilter("ignore")
        return replace(found.unwrap(resolution), color=mesh.color, name=mesh.name)


def _distances(points: np.ndarray, matrix: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """Of points (..., 3) from the cone of all that is behind a hole (H, W), negative inside of it; about in their units."""
    height, width = hole.shape
    clip = points @ matrix[:, :3].T + matrix[:, 3]
    seen = clip[..., 3] > 1e-6
    depth = np.where(seen, clip[..., 3], 1.0)
    pixel = (clip[..., :2] / depth[..., None] * 0.5 + 0.5) * (width, height)
    outside, inside = (np.asarray(distance_transform_edt(part)) for part in (~hole, hole))
    signed = np.where(hole, 0.5 - inside, outside - 0.5)
    # Beyond the picture there is no hole: the value at its border is positive.
    found = map_coordinates(signed, [pixel[..., 1] - 0.5, pixel[..., 0] - 0.5], order=1, mode="nearest")
    return np.where(seen, found * depth * 2 / (height * np.linalg.norm(matrix[1, :3])), np.inf)


def _evened(mesh: Mesh) -> Mesh:
    averaging, positions = mesh.averaging(), mesh.positions
    for part in np.ravel(EVENINGS):
        positions = positions + part * (averaging @ positions - positions)
    return mesh.moved(positions)
