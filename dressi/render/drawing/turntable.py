"""Turntable pictures of a mesh."""

from __future__ import annotations

import numpy as np

from ..cameras.views import turntable
from ..engine import MakeEngine
from ..mesh import Mesh
from ..shading.lights import LightSource
from .draw import draw

BACKGROUND = 0.18
"""Linear grey behind the object, so that dark parts show."""
SAMPLES = 4
"""Of a pixel."""


def render_turntable(
    mesh: Mesh,
    up: np.ndarray,
    make_engine: MakeEngine,
    *,
    frames: int = 36,
    size: tuple[int, int] = (256, 256),
    light: LightSource | None = None,
) -> np.ndarray:
    """(frames, H, W, 3) linear: frames once around the mesh on grey, unlit or under a light.

    >>> frames = render_turntable(primitives.cube(), np.array([0, 1, 0]), DressiAD, frames=4)  # doctest: +SKIP
    """
    center, radius = mesh.bounding_sphere()
    masks, colors = draw(mesh, turntable(center, radius, frames, size, up=up), make_engine, SAMPLES, light)
    return colors + (1 - masks[..., None]) * BACKGROUND
