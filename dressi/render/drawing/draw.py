"""Pictures of meshes and scenes by the hard raster, unlit or lit, for targets and for scores of results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.types import IVEC3, VEC2
from ...errors import InputError
from ..cameras import Cameras
from ..cameras.pose import send_matrices, unit_matrices
from ..cameras.views import turntable
from ..core.engine import MakeEngine
from ..core.lists import list_leaf
from ..mesh import Mesh
from ..scene.scene import Node, Scene
from ..shading.lights import LightSource
from ..surface.color import linear_to_srgb, srgb_to_linear
from ..surface.screen import barycentric, corners
from ..surface.texturing import barycentric_slopes, texture_uv, uv_level
from .entry import Maker, render
from .point import Shader

TILES = 12
"""Most views drawn at once; more views are drawn in even batches by the same graph."""
PIXELS = 1_000_000
"""Most pixels drawn at once, of several views: what is kept of each takes a hundred bytes, and more with light."""
MOST_SAMPLES = 256
"""Largest number of samples of a pixel."""


def draw(
    shown: Mesh | Scene,
    cameras: Cameras,
    make_engine: MakeEngine,
    samples: int = 1,
    light: LightSource | None = None,
    shader: Shader | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Masks (N, H, W) in [0, 1], and linear colours (N, H, W, 3) on black, both float32: those of ``render``.

    samples: per pixel, at ``sample_offsets``; mask and colour are their means in linear light. A single
    sample lies at the centre of the pixel, so that masks of opaque surfaces are 0 or 1.  light: in the world,
    infinitely far from a single mesh; None: unlit.  shader: what colours points instead.

    Textures are read trilinearly, each sample for its part of the pixel. Raises InputError.
    """
    matrices = cameras.matrices
    if isinstance(shown, Mesh):
        # Units of the mesh keep single precision: its rounding grows with the distance from the origin.
        center, radius = shown.bounding_sphere()
        scale = max(radius, 1e-30)
        matrices, unit = unit_matrices(cameras, center, scale), np.diag([1 / scale] * 3 + [1.0])
        unit[:3, 3] = -center / scale
        shown = Scene([Node(shown, to_world=unit)])
    (width, height), views = cameras.size, len(matrices)
    tiles = min(max(PIXELS // (width * height), 1), TILES)
    count = -(-views // -(-views // tiles))
    recipe = render(shown, matrices[:count], size=cameras.size, light=light, filter="trilinear").recipe
    assert isinstance(recipe.picture, Maker)
    parts = {name: value.leaf(name) for name, value in recipe.values.items()}
    picture = replace(recipe.picture, apart=samples, shader=shader)(parts)
    masks = np.zeros((views, height, width), np.float32)
    colors = np.zeros((views, height, width, 3), np.float32)
    engine = make_engine()
    try:
        engine.set_output("mask", picture.mask)
        engine.set_output("color", picture.colour)
        for offset in sample_offsets(samples):
            moved = shifted(matrices, offset, cameras.size)
            for first in range(0, views, count):
                # The last batch is filled with views of the one before.
                start = min(first, views - count)
                send_matrices(engine, parts["cameras"], moved[start : start + count])
                engine.step()
                masks[first : start + count] += engine.recv("mask")[first - start :]
                colors[first : start + count] += engine.recv("color")[first - start :]
    finally:
        engine.close()
    return masks / samples, colors / samples


def sample_offsets(samples: int) -> np.ndarray:
    """(samples, 2) places in [-1/2, 1/2): points of Hammersley, in pixels from the centre of the pixel.

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
    """Matrices (N, 4, 4) to clip space that move ``offset`` (2,), in pixels, to the centre of a pixel."""
    moved = np.array(matrices)
    moved[:, :2] -= (2 * offset / size)[:, None] * moved[:, 3:]
    return moved


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
    """FLOAT: the ``uv_level`` at each pixel of a texture of so many ``texels``; else as ``surface_uv``."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    slopes = barycentric_slopes(clip, corners(face, faces), size)
    at = corners(face, list_leaf("uv_faces", IVEC3, mesh.uv_faces))
    return uv_level(list_leaf("uvs", VEC2, mesh.uvs), at, slopes, texels, samples)


# Turntable pictures of a mesh.

BACKGROUND = 0.18
"""Linear grey behind the object, so that dark parts show."""
SAMPLES = 4
"""How many samples a pixel has."""


def render_turntable(
    mesh: Mesh,
    up: np.ndarray,
    make_engine: MakeEngine,
    *,
    frames: int = 36,
    size: tuple[int, int] = (256, 256),
    light: LightSource | None = None,
    shader: Shader | None = None,
) -> np.ndarray:
    """(frames, H, W, 3) linear: frames once around the mesh on grey, unlit, under a light, or by a shader.

    >>> frames = render_turntable(primitives.cube(), np.array([0, 1, 0]), DressiAD, frames=4)  # doctest: +SKIP
    """
    center, radius = mesh.bounding_sphere()
    cameras = turntable(center, radius, frames, size, up=up)
    masks, colors = draw(mesh, cameras, make_engine, SAMPLES, light, shader)
    return colors + (1 - masks[..., None]) * BACKGROUND


# Pictures for people: targets beside results.

COLUMNS = 6
"""Most views on one sheet."""
GAP = 2
"""Pixels between the pictures of a sheet."""


def compare(targets: np.ndarray, results: np.ndarray, gap: int = GAP) -> np.ndarray:
    """One linear image (H', W', 3): rows target, result, difference; a column for each of N views.

    targets, results: (N, H, W, 3) linear. The difference is the absolute one of the sRGB codes.
    """
    difference = np.abs(linear_to_srgb(targets) - linear_to_srgb(results))
    rows = [np.asarray(targets), np.asarray(results), srgb_to_linear(difference)]
    count, height, width = targets.shape[:3]
    sheet = np.full((3 * (height + gap) - gap, count * (width + gap) - gap, 3), 0.18, np.float32)
    for row, images in enumerate(rows):
        for column, image in enumerate(images):
            y, x = row * (height + gap), column * (width + gap)
            sheet[y : y + height, x : x + width] = image
    return sheet
