"""Matrices of views as leaves, and cameras in units of the scene."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...ad.graph import Variable
from ...ad.types import MAT4
from ..engine import Engine
from .camera import Cameras


def matrices_leaf(matrices: np.ndarray) -> Variable:
    """(N, 4, 4) matrices as a MAT4 leaf of one texel and N tiles."""
    return Variable(MAT4, (1, 1), len(matrices), name="matrices", data=_tiles(matrices))


def _tiles(matrices: np.ndarray) -> np.ndarray:
    return np.asarray(matrices)[:, None, None]


def send_matrices(engine: Engine, leaf: Variable, matrices: np.ndarray) -> None:
    """Other views, as many as the leaf has tiles."""
    engine.send(leaf, _tiles(matrices))


def unit_matrices(cameras: Cameras, center: np.ndarray, radius: float) -> np.ndarray:
    """(N, 4, 4) clip matrices for positions in units of the scene: (world - center) / radius."""
    to_world = np.diag([radius, radius, radius, 1.0])
    to_world[:3, 3] = center
    return cameras.matrices @ to_world


def unit_cameras(cameras: Cameras, center: np.ndarray, radius: float) -> Cameras:
    """The cameras for positions in units of the scene: the pictures are those of ``unit_matrices``."""
    return Cameras(
        [
            replace(
                camera,
                translation=(camera.rotation @ center + camera.translation) / radius,
                near=camera.near / radius,
                far=camera.far / radius,
            )
            for camera in cameras
        ]
    )


def world_cameras(cameras: Cameras, center: np.ndarray, radius: float) -> Cameras:
    """Back from ``unit_cameras``."""
    return unit_cameras(cameras, -np.asarray(center) / radius, 1 / radius)
