"""What a fit needs from whatever runs its graphs, and leaves that graphs of a scene share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.optim import Optimizer
from ...ad.types import MAT4, VType, list_image, list_size
from ..camera import Cameras


class Engine(Protocol):
    """One optimisation: the part of ``dressi.DressiAD`` that a fit uses."""

    def set_loss(self, loss: Variable) -> None: ...
    def set_optimizer(self, optimizer: Optimizer, parameters: Sequence[Variable]) -> None: ...
    def set_output(self, name: str, variable: Variable) -> None: ...
    def send(self, variable: Variable, values: Any) -> None: ...
    def recv(self, variable: Variable | str) -> np.ndarray: ...
    def step(self, n: int = 1) -> None: ...
    def losses(self) -> list[float]: ...
    def state(self) -> dict[str, np.ndarray]: ...
    def restore(self, state: Mapping[str, np.ndarray]) -> None: ...
    def close(self) -> None: ...

    @property
    def plan(self) -> Any: ...


MakeEngine = Callable[[], Engine]


def list_leaf(name: str, vtype: VType, values: np.ndarray) -> Variable:
    """A list (count, ...) as a leaf."""
    return Variable(vtype, list_size(len(values)), name=name, data=list_image(np.asarray(values)))


def matrices_leaf(matrices: np.ndarray) -> Variable:
    """(N, 4, 4) matrices as a MAT4 leaf of one texel and N tiles."""
    return Variable(MAT4, (1, 1), len(matrices), name="matrices", data=_tiles(matrices))


def _tiles(matrices: np.ndarray) -> np.ndarray:
    return np.asarray(matrices)[:, None, None]


def send_matrices(engine: Engine, leaf: Variable, matrices: np.ndarray) -> None:
    """Other views, as many as the leaf has tiles."""
    engine.send(leaf, _tiles(matrices))


def to_clip(position: Variable, matrices: Variable) -> Variable:
    """Clip positions (VEC4 list, N tiles) of positions (VEC3 list) shared by N views. Differentiable in both."""
    return F.matmul(matrices, F.vec4(F.expand(position, matrices.batch), 1.0))


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
