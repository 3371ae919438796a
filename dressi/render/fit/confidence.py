"""How far pictures speak for each point of a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.ndimage import map_coordinates

from ..drawing.draw import draw
from ..engine import MakeEngine
from ..mesh import Mesh
from ..surface.color import linear_to_srgb, srgb_to_linear
from .data.dataset import Observations

ENOUGH = 2.0
"""Views, each counted by the cosine at which it sees a point, that speak for it to 63 %."""
DOUBT = 0.1
"""Difference of codes, in the root of the mean square over these views, that halves what they say."""
NEAR = 2.0
"""Pixels between a point and what its view shows in its place, up to which it is seen."""


def confidence(mesh: Mesh, views: Observations, drawn: np.ndarray, make_engine: MakeEngine) -> np.ndarray:
    """(V,) in [0, 1] of the vertices of a mesh in the world: 0 where no picture shows one, and little where few do, at grazing
    angles, or with other colours than what was ``drawn`` (N, H, W, 3), linear.

    views: the pictures.
    """
    low, high = mesh.bounds()
    scale = float(max((high - low).max(), 1e-30))
    places = (mesh.positions - low) / scale
    marked = Mesh(mesh.positions, mesh.faces, colors=places, color_faces=mesh.faces)
    _, shown = draw(marked, views.cameras, make_engine)
    normals = mesh.vertex_normals()
    seen, doubt = np.zeros(len(places)), np.zeros(len(places))
    for k, camera in enumerate(views.cameras):
        pixel, depth = camera.project(mesh.positions)
        at = np.stack([pixel[:, 1], pixel[:, 0]]) - 0.5
        row, column = np.round(np.clip(np.nan_to_num(at, nan=-2.0), -2, 1 << 20)).astype(int)
        width, height = camera.size
        inside = (depth > 0) & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        row, column = np.where(inside, row, 0), np.where(inside, column, 0)
        reach = NEAR * depth / (camera.intrinsics[1, 1] * scale)
        cosine = ((camera.center - mesh.positions) * normals).sum(1) / np.maximum(
            np.linalg.norm(camera.center - mesh.positions, axis=1), 1e-30
        )
        # A pixel of a slope shows points that are farther from each other than its width.
        away = np.linalg.norm(shown[k, row, column] - places, axis=1) * np.clip(cosine, 0.25, 1.0)
        inside &= (away < reach) & (views.masks[k, row, column] >= 0.5)
        weight = np.where(inside, np.clip(cosine, 0, 1), 0.0)
        difference = linear_to_srgb(drawn[k]) - linear_to_srgb(views.colors[k])
        squares = map_coordinates((difference**2).mean(-1), np.where(inside, at, 0), order=1, mode="nearest")
        seen += weight
        doubt += weight * squares
    agreed = 1 / (1 + doubt / np.maximum(seen, 1e-12) / DOUBT**2)
    return (1 - np.exp(-seen / ENOUGH)) * agreed


def shown_confidence(mesh: Mesh, values: np.ndarray) -> Mesh:
    """The mesh with values in [0, 1] as colours of its vertices, from red over yellow to green, and no texture."""
    codes = np.stack([np.clip(2 - 2 * values, 0, 1), np.clip(2 * values, 0, 1), 0.1 + 0 * values], axis=1)
    plain = Mesh(mesh.positions, mesh.faces, name="confidence")
    return replace(plain, colors=srgb_to_linear(0.9 * codes), color_faces=mesh.faces)
