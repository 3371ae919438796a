"""Camera poses as parameters of a fit, or fixed."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ....ad import optim
from ....ad.graph import Variable
from ...cameras import Cameras
from ...cameras.alignment import Similarity, align
from ...cameras.pose import poses
from ...cameras.units import matrices_leaf, unit_cameras, world_cameras
from ...engine import Engine
from ..data.dataset import Dataset
from .term import BETAS


class Moving:
    """Poses of cameras in units of the scene, as parameters of one round of ``steps`` steps.

    turn, shift: learning rates of Adam from the first to the last step, of turns about the scene's centre in radians
    and of shifts in radii of the scene.
    """

    def __init__(self, cameras: Cameras, turn: tuple[float, float], shift: tuple[float, float], steps: int):
        self.poses = poses(cameras, np.zeros(3))
        self.optimizers: dict[Variable, optim.Optimizer] = {
            leaf: optim.adam(optim.cosine(*rate, steps), BETAS)
            for leaf, rate in ((self.poses.rotation, turn), (self.poses.translation, shift))
            if rate[0] > 0
        }

    @property
    def matrices(self) -> Variable:
        """MAT4 1x1, N tiles."""
        return self.poses.matrices

    def found(self, engine: Engine) -> Cameras:
        """The cameras after the steps so far."""
        return self.poses.found(engine.recv)


def matrices_of(views: np.ndarray | Moving) -> Variable:
    """MAT4 1x1, N tiles, of matrices (N, 4, 4) or of poses that are learned."""
    return views.matrices if isinstance(views, Moving) else matrices_leaf(views)


def optimizers_of(views: np.ndarray | Moving) -> dict[Variable, optim.Optimizer]:
    """Optimizers of the parameters that the views add to a round."""
    return dict(views.optimizers) if isinstance(views, Moving) else {}


def with_views(cameras: Cameras, views: np.ndarray) -> Cameras:
    """The cameras with other poses: (N, 4, 4) world to camera."""
    pairs = zip(cameras, views, strict=True)
    return Cameras([replace(c, rotation=view[:3, :3], translation=view[:3, 3]) for c, view in pairs])


def moving_cameras(dataset: Dataset) -> Cameras | None:
    """The cameras whose poses are learned, in units of the scene; None, with a warning, for a single view, which says
    nothing about its own pose."""
    if len(dataset.train.cameras) == 1:
        warnings.warn(
            "one view says nothing about its pose: it stays as it is; give more to refine them", stacklevel=3
        )
        return None
    return unit_cameras(dataset.train.cameras, dataset.center, dataset.radius)


def in_world(dataset: Dataset, cameras: Cameras) -> tuple[Cameras, Similarity]:
    """Learned cameras from units of the scene to the world, and what moves the mesh there with them.

    A rigid motion and a scale of mesh and cameras together change no picture. Those are chosen that bring the learned
    cameras nearest to the given ones.
    """
    cameras = world_cameras(cameras, dataset.center, dataset.radius)
    back = align(cameras, dataset.train.cameras)
    return back.cameras(cameras), back
