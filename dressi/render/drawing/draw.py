"""Unlit pictures of a textured mesh by the hard raster, for targets and for scores of results."""

from __future__ import annotations

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import IVEC3, VEC2, VEC3
from ..cameras import Cameras
from ..cameras.units import matrices_leaf, send_matrices, unit_matrices
from ..engine import MakeEngine
from ..lists import list_leaf
from ..mesh import Mesh
from ..surface.projection import to_clip
from ..surface.screen import barycentric, corners, covered, interpolate, rasterize_hard
from ..surface.texturing import texture_colour, texture_uv

TILES = 12
"""Views drawn at once; more views are drawn in batches of this size by the same graph."""


def draw(mesh: Mesh, cameras: Cameras, make_engine: MakeEngine) -> tuple[np.ndarray, np.ndarray]:
    """Masks (N, H, W) of 0 and 1, and unlit linear colours (N, H, W, 3) on black, both float32.

    The colour is texture (bilinear, repeating) times vertex colour times colour of the mesh, on both sides of faces.
    """
    center, radius = mesh.bounding_sphere()
    matrices = unit_matrices(cameras, center, max(radius, 1e-30))
    count = min(len(matrices), TILES)
    leaf = matrices_leaf(matrices[:count])
    positions = list_leaf("position", VEC3, (mesh.positions - center) / max(radius, 1e-30))
    clip, faces = to_clip(positions, leaf), list_leaf("faces", IVEC3, mesh.faces)
    face = rasterize_hard(clip, faces, size=cameras.size, face_count=len(mesh.faces))
    engine = make_engine()
    try:
        engine.set_output("mask", covered(face))
        engine.set_output("color", _albedo(mesh, clip, faces, face, cameras.size))
        masks, colors = [], []
        for first in range(0, len(matrices), count):
            # The last batch is filled with views of the one before.
            start = min(first, len(matrices) - count)
            send_matrices(engine, leaf, matrices[start : start + count])
            engine.step()
            masks.append(engine.recv("mask")[first - start :])
            colors.append(engine.recv("color")[first - start :])
    finally:
        engine.close()
    return np.concatenate(masks), np.concatenate(colors)


def _albedo(mesh: Mesh, clip: Variable, faces: Variable, face: Variable, size: tuple[int, int]) -> Variable:
    color = F.mul(F.vec3(covered(face)), tuple(float(c) for c in mesh.color))
    if mesh.colors is not None and mesh.color_faces is not None:
        at = corners(face, list_leaf("color_faces", IVEC3, mesh.color_faces))
        weights = barycentric(clip, corners(face, faces), size)
        color = color * interpolate(list_leaf("colors", VEC3, mesh.colors), at, weights)
    if mesh.texture is None or mesh.uvs is None or mesh.uv_faces is None:
        return color
    height, width = mesh.texture.shape[:2]
    texture = Variable(VEC3, (width, height), name="texture", data=mesh.texture[None])
    return texture_colour(texture, surface_uv(mesh, clip, faces, face, size), face) * color


def surface_uv(
    mesh: Mesh, clip: Variable, faces: Variable, face: Variable, size: tuple[int, int]
) -> Variable:
    """VEC2: perspective-correct texture coordinates at each pixel; (0, 0) where there is no face."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    weights = barycentric(clip, corners(face, faces), size)
    at = corners(face, list_leaf("uv_faces", IVEC3, mesh.uv_faces))
    return texture_uv(list_leaf("uvs", VEC2, mesh.uvs), at, weights)
