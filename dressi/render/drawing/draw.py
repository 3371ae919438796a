"""Pictures of a mesh by the hard raster, unlit or lit, for targets and for scores of results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.texture.addressing import WrapName
from ...ad.types import IVEC3, VEC2, VEC3
from ...errors import InputError
from ..cameras import Cameras
from ..cameras.units import matrices_leaf, send_matrices, unit_matrices
from ..engine import MakeEngine
from ..lists import list_leaf
from ..mesh import Mesh
from ..shading.lights import LightSource
from ..surface.footprint import barycentric_slopes, uv_level
from ..surface.projection import to_clip
from ..surface.screen import Surface, barycentric, corners, covered, interpolate, rasterize_hard
from ..surface.texturing import texture_colour, texture_uv
from .images.inputs import shape_given
from .images.lights import light_given
from .images.material import material_given, placements_of, recipe_of, tangents_given
from .look import Look, View
from .make import leaves
from .point import SurfacePoint

TILES = 12
"""Views drawn at once; more views are drawn in batches of this size by the same graph."""
MOST_SAMPLES = 256
"""Largest number of samples of a pixel."""


def draw(
    mesh: Mesh,
    cameras: Cameras,
    make_engine: MakeEngine,
    samples: int = 1,
    light: LightSource | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Masks (N, H, W) in [0, 1], and linear colours (N, H, W, 3) on black, both float32.

    samples: per pixel, at ``sample_offsets``; mask and colour are their means in linear light. A single sample lies at the
    centre of the pixel, so that masks are 0 or 1.
    The colour is texture times vertex colour times colour of the mesh, on both sides of faces. The texture is
    read bilinearly for a single sample, else trilinearly, each sample for its part of the pixel.
    light: in the world, far from the mesh; the colour is then that of the lit material, read trilinearly. None: unlit.
    """
    center, radius = mesh.bounding_sphere()
    matrices = unit_matrices(cameras, center, max(radius, 1e-30))
    count = min(len(matrices), TILES)
    leaf = matrices_leaf(matrices[:count])
    positions = list_leaf("position", VEC3, (mesh.positions - center) / max(radius, 1e-30))
    clip, faces = to_clip(positions, leaf), list_leaf("faces", IVEC3, mesh.faces)
    face = rasterize_hard(clip, faces, size=cameras.size, face_count=len(mesh.faces))
    (width, height), views = cameras.size, len(matrices)
    masks, colors = (
        np.zeros((views, height, width), np.float32),
        np.zeros((views, height, width, 3), np.float32),
    )
    engine = make_engine()
    try:
        engine.set_output("mask", covered(face))
        color = albedo(mesh, clip, faces, face, cameras.size, samples)
        if light is not None:
            surface = Surface(faces, face, _weights(clip, faces, face))
            lit = _lit(mesh, light, positions, clip, leaf, faces, surface, samples)
            color = F.select(covered(face), lit, 0.0)
        engine.set_output("color", color)
        for offset in sample_offsets(samples):
            moved = shifted(matrices, offset, cameras.size)
            for first in range(0, views, count):
                # The last batch is filled with views of the one before.
                start = min(first, views - count)
                send_matrices(engine, leaf, moved[start : start + count])
                engine.step()
                masks[first : start + count] += engine.recv("mask")[first - start :]
                colors[first : start + count] += engine.recv("color")[first - start :]
    finally:
        engine.close()
    return masks / samples, colors / samples


def sample_offsets(samples: int) -> np.ndarray:
    """(samples, 2) places in [-1/2, 1/2): points of Hammersley, relative to the centre of the pixel, in pixels.

    All abscissas differ, so that an edge of any direction passes between many samples. Raises InputError.

    >>> sample_offsets(1).tolist(), sample_offsets(2).tolist()
    ([[0.0, 0.0]], [[-0.25, -0.25], [0.25, 0.25]])
    """
    if not 1 <= samples <= MOST_SAMPLES:
        raise InputError(f"a pixel has 1 to {MOST_SAMPLES} samples, not {samples}; 16 filter well")
    bits = (samples - 1).bit_length()
    number = np.arange(samples)
    inverse = sum(((number >> k) & 1) * 0.5 ** (k + 1) for k in range(bits)) + 0.5 ** (bits + 1)
    return np.stack([(number + 0.5) / samples, np.broadcast_to(inverse, samples)], axis=1) - 0.5


def shifted(matrices: np.ndarray, offset: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Matrices (N, 4, 4) to clip space after which the centre of a pixel sees what ``offset`` (2,), in pixels, from it was."""
    moved = np.array(matrices)
    moved[:, :2] -= (2 * offset / size)[:, None] * moved[:, 3:]
    return moved


def albedo(
    mesh: Mesh, clip: Variable, faces: Variable, face: Variable, size: tuple[int, int], samples: int
) -> Variable:
    """VEC3: the linear colour of a mesh at each pixel, unlit: texture times vertex colour times colour of the mesh; 0 where
    there is no face. samples: of a pixel; with more than one the texture is read trilinearly."""
    color = F.mul(F.vec3(covered(face)), tuple(float(c) for c in mesh.color))
    if mesh.colors is not None and mesh.color_faces is not None:
        at = corners(face, list_leaf("color_faces", IVEC3, mesh.color_faces))
        weights = barycentric(clip, corners(face, faces), size)
        color = color * interpolate(list_leaf("colors", VEC3, mesh.colors), at, weights)
    if mesh.texture is None or mesh.uvs is None or mesh.uv_faces is None:
        return color
    height, width = mesh.texture.shape[:2]
    texture = Variable(VEC3, (width, height), name="texture", data=mesh.texture[None])
    mesh, wrap = _at_texture(mesh)
    uv, level = surface_uv(mesh, clip, faces, face, size), None
    if samples > 1:
        level = surface_level(mesh, clip, faces, face, size, (width, height), samples)
    return texture_colour(texture, uv, face, wrap=wrap, level=level) * color


def _at_texture(mesh: Mesh) -> tuple[Mesh, WrapName]:
    """The mesh with the texture coordinates at which its texture lies, and how that wraps."""
    wrap, place = recipe_of(mesh, None).place("texture").wrap, placements_of(mesh).get("texture")
    if place is None:
        return mesh, wrap
    uvs, faces = mesh.uvs, mesh.uv_faces
    if place.uv_set:
        uvs, faces = mesh.second_uvs, mesh.second_uv_faces
    return replace(
        mesh, uvs=np.asarray(uvs) @ np.transpose(place.matrix) + place.offset, uv_faces=faces
    ), wrap


def _weights(clip: Variable, faces: Variable, face: Variable) -> Variable:
    return barycentric(clip, corners(face, faces), face.size)


def _lit(
    mesh: Mesh,
    light: LightSource,
    positions: Variable,
    clip: Variable,
    matrices: Variable,
    faces: Variable,
    surface: Surface,
    samples: int,
) -> Variable:
    """VEC3: the material of the mesh under a light."""
    given = shape_given(mesh).given | material_given(mesh, None)
    emitted, recipes = light_given(light)
    parts = leaves(given | tangents_given(mesh, given, False) | emitted)
    lights = tuple(recipe.light(parts) for recipe in recipes)
    view = View(positions, clip, matrices, faces, len(mesh.faces))
    look = Look(view, parts, True, lights, "trilinear", recipe_of(mesh, None), samples)
    return SurfacePoint(look, surface).lit()


def surface_uv(
    mesh: Mesh, clip: Variable, faces: Variable, face: Variable, size: tuple[int, int]
) -> Variable:
    """VEC2: perspective-correct texture coordinates at each pixel; (0, 0) where there is no face."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    weights = barycentric(clip, corners(face, faces), size)
    at = corners(face, list_leaf("uv_faces", IVEC3, mesh.uv_faces))
    return texture_uv(list_leaf("uvs", VEC2, mesh.uvs), at, weights)


def surface_level(
    mesh: Mesh,
    clip: Variable,
    faces: Variable,
    face: Variable,
    size: tuple[int, int],
    texels: tuple[int, int],
    samples: float = 1.0,
) -> Variable:
    """FLOAT: the ``uv_level`` at each pixel of a texture of so many ``texels``; arguments otherwise as ``surface_uv``."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    slopes = barycentric_slopes(clip, corners(face, faces), size)
    at = corners(face, list_leaf("uv_faces", IVEC3, mesh.uv_faces))
    return uv_level(list_leaf("uvs", VEC2, mesh.uvs), at, slopes, texels, samples)
