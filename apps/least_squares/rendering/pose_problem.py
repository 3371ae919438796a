"""Poses as a least-squares problem: residuals of silhouettes, and random starts beside the truth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.transform import Rotation

from dressi import DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, MAT4, VEC3
from dressi.render import Cameras, Mesh, render
from dressi.render.cameras.rigid import exp_se3
from dressi.render.fit.data.learned import signed_distances

SAMPLES = 4
"""Samples of a mask along each side of a pixel."""
WIDEST = 0.2
"""Radius of the outer form at first, in image heights."""


@dataclass
class Problem:
    """The residuals of a pose, with leaves for what is unknown and for what differs between problems."""

    mesh: Mesh
    cameras: Cameras
    learn_focal: bool
    residual: Variable = field(init=False)
    """FLOAT, a tile each view."""
    rotation: Variable = field(init=False)
    """VEC3: axis times angle, of the motion after ``base``."""
    translation: Variable = field(init=False)
    """VEC3: in radii of the object, which is in the unit ball."""
    focal: Variable = field(init=False)
    """FLOAT: logarithm of the factor on the focal length."""

    def __post_init__(self) -> None:
        size, views = self.cameras.size, len(self.cameras)
        self.rotation, self.translation = (
            Variable(VEC3, name=name, data=np.zeros((1, 1, 1, 3))) for name in ("rotation", "translation")
        )
        self.focal = Variable(FLOAT, name="focal", data=np.zeros((1, 1, 1)))
        self._base = Variable(MAT4, name="base", data=np.eye(4).reshape(1, 1, 1, 4, 4))
        self._radius = Variable(FLOAT, name="radius", data=np.full((1, 1, 1), WIDEST))
        self._outline = Variable(FLOAT, size, views, name="outline", data=np.zeros((views, *size[::-1])))
        matrices = Variable(MAT4, (1, 1), views, name="views", data=self.cameras.matrices[:, None, None])
        if self.learn_focal:  # the principal point is in the middle
            scale = F.exp(self.focal)
            x, y, z, w = np.eye(4)
            matrices = F.mat4(scale * F.constant(tuple(x)), scale * F.constant(tuple(y)), z, w) @ matrices
        picture = render(
            self.mesh, matrices, size=size, to_world=exp_se3(self.rotation, self.translation) @ self._base,
            light=None, form="outer", radius=self._radius,
        )  # fmt: skip
        target = picture.estimator.target
        assert target is not None
        self.residual = (picture.mask - target(self._outline, self._radius, 1)) * (1 / size[1])

    @property
    def unknowns(self) -> list[Variable]:
        return [self.rotation, self.translation, *([self.focal] if self.learn_focal else [])]

    def set(self, ad: DressiAD, masks: np.ndarray, base: np.ndarray) -> None:
        """Masks (N, H, W), and the pose (4, 4) that the unknowns start from."""
        ad.send(self._outline, signed_distances(masks, self.cameras.size))
        ad.send(self._base, base.reshape(1, 1, 1, 4, 4))

    def set_radius(self, ad: DressiAD, radius: float) -> None:
        ad.send(self._radius, np.full((1, 1, 1), radius))

    def found(self, ad: DressiAD, base: np.ndarray) -> tuple[np.ndarray, float]:
        """The pose (4, 4) and the logarithm of the factor on the focal length."""
        rotation, translation = (
            np.asarray(ad.recv(v), np.float64).reshape(3) for v in (self.rotation, self.translation)
        )
        focal = float(np.ravel(ad.recv(self.focal))[0]) if self.learn_focal else 0.0
        return np.asarray(exp_se3(rotation, translation), np.float64) @ base, focal


@dataclass(frozen=True, eq=False)
class Start:
    """A true pose (4, 4), a wrong one to start from, and the masks (N, H, W) of the true one."""

    truth: np.ndarray
    base: np.ndarray
    masks: np.ndarray

    def errors(self, pose: np.ndarray) -> dict[str, float]:
        angle = Rotation.from_matrix(pose[:3, :3] @ self.truth[:3, :3].T).magnitude()
        shift = np.linalg.norm(pose[:3, 3] - self.truth[:3, 3])
        return {"degrees": float(np.degrees(angle)), "shift": float(shift)}


def masks_of(mesh: Mesh, cameras: Cameras, pose: np.ndarray) -> np.ndarray:
    """(N, H, W): the share of each pixel that the mesh covers."""
    drawn = render(mesh, cameras, to_world=pose, light=None, samples=SAMPLES, outputs=("mask",))
    return np.reshape(drawn.mask, (len(cameras), *cameras.size[::-1]))


def start_of(mesh: Mesh, cameras: Cameras, degrees: float, shift: float, seed: int) -> Start:
    rng = np.random.default_rng(seed)
    truth, away = np.eye(4), np.eye(4)
    truth[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    axis, way = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    away[:3, :3] = Rotation.from_rotvec(np.radians(degrees) * axis).as_matrix()
    away[:3, 3] = shift * np.linalg.norm(cameras[0].center) * way
    return Start(truth, away @ truth, masks_of(mesh, cameras, truth))
