"""Charts of a texture: made for a shape, and the texels between them."""

from __future__ import annotations

import warnings

import numpy as np
from PIL import Image, ImageDraw
from scipy.ndimage import distance_transform_edt

from ...mesh import Mesh

MARGIN = 4
"""Texels between charts: the first two mip levels of one chart read no other."""


def with_charts(mesh: Mesh, texture_size: int) -> Mesh:
    """The mesh with new texture coordinates, whose charts are ``MARGIN`` texels apart in a square texture."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return mesh.unwrap(texture_size, MARGIN)


def charted(mesh: Mesh, size: tuple[int, int]) -> np.ndarray:
    """(H, W) bool: texels that faces of the mesh touch in a texture of ``size`` (W, H); coordinates repeat."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    width, height = size
    corners = mesh.uvs[mesh.uv_faces]
    corners = (corners - np.floor(corners.min(1, keepdims=True))) * size - 0.5
    # Faces that cross the border of the texture are drawn beyond it, and what is drawn there is folded back.
    turns = max(int(np.ceil(corners.max() / min(size))), 1) + 1
    canvas = Image.new("1", (width * turns, height * turns))
    pen = ImageDraw.Draw(canvas)
    for face in corners:
        pen.polygon([(float(x), float(y)) for x, y in face], fill=1, outline=1)
    return np.asarray(np.asarray(canvas).reshape(turns, height, turns, width).any((0, 2)))


def dilated(texture: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The texture (H, W, C) with every texel that is not ``inside`` (H, W) equal to the nearest one that is."""
    if inside.all() or not inside.any():
        return texture
    found = distance_transform_edt(~inside, return_distances=False, return_indices=True)
    row, column = np.asarray(found)
    return texture[row, column]
