"""Opens holes in the mesh that the pictures see through.

A silhouette gradient acts at outlines. A hole that the mesh covers completely has no outline, and moving vertices cannot
change the topology. So the mesh is converted to signed distances on a grid, the cones of the holes are subtracted, and
marching cubes make a new mesh.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from scipy.ndimage import binary_fill_holes, gaussian_filter, label, map_coordinates

from ...mesh import Mesh
from ...mesh.remesh.decimate import decimate_closed
from ...mesh.remesh.volume import Grid, level_set, signed_distances
from ..graphs.mask_distances import outline_distances

LEAST = 0.01
"""Least area of a hole, as a share of its mask. Smaller holes are probably errors of the mask."""
CLOSED = 0.002
"""A hole counts as closed if the mesh has this share of its volume inside it, deeper than half a cell of the grid."""
CELLS = 72
"""Cells of the grid along the longest side of the mesh."""
BLUR = 0.7
"""Smoothing of the field, in cells: removes thin bridges and tunnels that are left where cones do not quite meet."""
EVENINGS = ((0.5, -0.53),) * 4
"""Factors of Taubin smoothing (1995) for the new vertices: decimation leaves long faces."""


def holes(mask: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """(H, W) bool: holes of a mask (H, W) that are large enough and entirely ``known``."""
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
    are open. None if the mesh closes none, or if fewer than two views show one: the mask of a single view may be wrong.

    matrices: (N, 4, 4) from the mesh's space to clip space.  known: (N, H, W), the valid pixels of the masks. An open
    mesh is left as it is. Other parts of the surface move by less than a cell of the grid.
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
        # The new mesh has new UVs.
        warnings.simplefilter("ignore")
        return replace(found.unwrap(resolution), color=mesh.color, name=mesh.name)


def _distances(points: np.ndarray, matrix: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """Approximate signed distance of points (..., 3) to the cone behind a hole (H, W), negative inside, in their units."""
    height, width = hole.shape
    clip = points @ matrix[:, :3].T + matrix[:, 3]
    seen = clip[..., 3] > 1e-6
    depth = np.where(seen, clip[..., 3], 1.0)
    pixel = (clip[..., :2] / depth[..., None] * 0.5 + 0.5) * (width, height)
    signed = -outline_distances(hole)
    # Values at the border of the picture, which are positive, extend beyond it.
    found = map_coordinates(signed, [pixel[..., 1] - 0.5, pixel[..., 0] - 0.5], order=1, mode="nearest")
    return np.where(seen, found * depth * 2 / (height * np.linalg.norm(matrix[1, :3])), np.inf)


def _evened(mesh: Mesh) -> Mesh:
    averaging, positions = mesh.averaging(), mesh.positions
    for part in np.ravel(EVENINGS):
        positions = positions + part * (averaging @ positions - positions)
    return mesh.moved(positions)
