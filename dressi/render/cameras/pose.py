"""Poses and focal lengths of cameras as parameters: rigid motions by small increments.

    clip = P(f) T(c) exp(rotation, translation) T(-c) V x

V is the base, world to camera; the increment turns about the point c and then shifts, in the camera's axes.
Increments start at zero and stay small: ``Poses.fold`` puts them into the base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.evaluation import evaluate
from ...ad.graph.types import FLOAT, MAT3, MAT4, VEC3
from ...errors import InputError
from ..core.engine import Engine
from ..core.lists import list_data
from .camera import Camera, Cameras
from .lens import Bending
from .rigid import exp_se3


@dataclass(frozen=True, eq=False)
class Poses:
    """N cameras whose poses, and focal lengths if wanted, are parameters; made by ``poses``.

    >>> poses(ring(np.zeros(3), 1.0, 3, (32, 32))).matrices.batch
    3
    """

    cameras: Cameras
    """The given cameras."""
    rotation: Variable
    """VEC3 1x1, N tiles: axis times angle in radians."""
    translation: Variable
    """VEC3 1x1, N tiles: in units of the world."""
    focal: Variable
    """FLOAT 1x1, N tiles: logarithm of the factor on both focal lengths."""
    base: Variable
    """MAT4 1x1, N tiles: T(-c) V."""
    still: Variable
    """MAT4 1x1, N tiles: the part of P(f) T(c) that does not depend on the focal length."""
    scaled: Variable
    """MAT4 1x1, N tiles: the part of P(f) T(c) that is proportional to the focal length."""
    centers: np.ndarray
    """(N, 3): c, in camera coordinates."""

    @property
    def matrices(self) -> Variable:
        """MAT4 1x1, N tiles: world to clip, without lenses. Differentiable in rotation, translation and
        focal."""
        projection = self.still + self.scaled * F.exp(self.focal)
        return projection @ exp_se3(self.rotation, self.translation) @ self.base

    @property
    def bending(self) -> Bending | None:
        """What the lenses of the cameras do, at the present focal lengths."""
        known = np.stack([camera.intrinsics for camera in self.cameras])
        leaf = Variable(MAT3, (1, 1), len(known), name="intrinsics", data=known[:, None, None])
        x, y, z = (F.column(leaf, k) for k in range(3))
        k = F.mat3(x * F.exp(self.focal), y * F.exp(self.focal), z)
        return Bending.of([camera.lens for camera in self.cameras], known, self.cameras.size, k)

    def found(self, recv: Callable[[Variable], np.ndarray]) -> Cameras:
        """The cameras of the present values; ``recv`` reads a leaf, such as that of a ``DressiAD``."""
        cameras = []
        views, gains = self._views(recv), np.exp(np.asarray(recv(self.focal), np.float64)).reshape(-1)
        for camera, view, gain, center in zip(self.cameras, views, gains, self.centers, strict=True):
            intrinsics = camera.intrinsics.copy()
            intrinsics[:2, :2] *= gain
            moved = view[:3, 3] + center
            cameras.append(replace(camera, intrinsics=intrinsics, rotation=view[:3, :3], translation=moved))
        return Cameras(cameras)

    def fold(self, engine: Any) -> None:
        """Put the increments of an engine (``recv``, ``send``) into the base; pictures only change by
        rounding.

        Rotations are made orthogonal again.
        """
        base = self._views(engine.recv)
        zero = np.zeros((len(self.cameras), 1, 1, 3))
        engine.send(self.base, base[:, None, None])
        engine.send(self.rotation, zero)
        engine.send(self.translation, zero)

    def _views(self, recv: Callable[[Variable], np.ndarray]) -> np.ndarray:
        """(N, 4, 4): exp(rotation, translation) base."""
        leaves = (self.rotation, self.translation, self.base)
        values = {leaf: np.asarray(recv(leaf), np.float64) for leaf in leaves}
        (views,) = evaluate([exp_se3(self.rotation, self.translation) @ self.base], values)
        views = views[:, 0, 0]
        left, _, right = np.linalg.svd(views[:, :3, :3])
        views[:, :3, :3] = left @ right
        return views


def poses(cameras: Cameras, center: Sequence[float] | np.ndarray | None = None) -> Poses:
    """Parameters for cameras, named rotation, translation and focal, all zero; optimise the unknown ones.

    center: (3,) point of the world that increments turn about, best the middle of what is seen: rotation and
    translation then change pictures in different ways. By default each camera turns about itself. Silhouettes
    and colours of one view hardly tell a focal length from a distance. Raises InputError.

    >>> learned = poses(ring(np.zeros(3), 1.0, 3, (32, 32)), center=(0, 0, 0))
    >>> learned.rotation.shape
    (3, 1, 1, 3)
    """
    count = len(cameras)
    if center is None:
        centers = np.zeros((count, 3))
    else:
        center = np.asarray(center, np.float64)
        if center.shape != (3,) or not np.isfinite(center).all():
            raise InputError(f"the centre of turns is a point of three numbers, not {center}")
        centers = np.stack([camera.rotation @ center + camera.translation for camera in cameras])
    there, back = np.tile(np.eye(4), (2, count, 1, 1))
    there[:, :3, 3], back[:, :3, 3] = centers, -centers
    scaled = np.zeros((count, 4, 4))
    scaled[:, :2, :2] = cameras.projections[:, :2, :2]

    def leaf(name: str, matrices: np.ndarray) -> Variable:
        return Variable(MAT4, (1, 1), count, name=name, data=matrices[:, None, None])

    def zero(name: str, vtype: Any) -> Variable:
        return Variable(vtype, (1, 1), count, name=name, data=np.zeros((count, 1, 1, *vtype.shape)))

    return Poses(
        cameras,
        zero("rotation", VEC3),
        zero("translation", VEC3),
        zero("focal", FLOAT),
        leaf("base", back @ cameras.views),
        leaf("projection", (cameras.projections - scaled) @ there),
        leaf("focal part", scaled @ there),
        centers,
    )


def turned(camera: Camera, rotation: np.ndarray, translation: np.ndarray, center: np.ndarray) -> Camera:
    """The camera with an increment (3,), (3,) about a point of the world (3,), as ``poses`` define it."""
    made = poses(Cameras([camera]), center)
    values = {made.rotation: rotation, made.translation: translation}
    return made.found(lambda leaf: np.reshape(values.get(leaf, list_data(leaf)), leaf.shape))[0]


# Matrices of views as leaves, and cameras in units of the scene.


def matrices_leaf(matrices: np.ndarray) -> Variable:
    """(N, 4, 4) matrices as a MAT4 leaf of one texel and N tiles."""
    return Variable(MAT4, (1, 1), len(matrices), name="matrices", data=np.asarray(matrices)[:, None, None])


def send_matrices(engine: Engine, leaf: Variable, matrices: np.ndarray) -> None:
    """Other views, as many as the leaf has tiles."""
    engine.send(leaf, np.asarray(matrices)[:, None, None])


def unit_matrices(cameras: Cameras, center: np.ndarray, radius: float) -> np.ndarray:
    """(N, 4, 4) clip matrices for positions in units of the scene: (world - center) / radius."""
    to_world = np.diag([radius, radius, radius, 1.0])
    to_world[:3, 3] = center
    return cameras.matrices @ to_world


def unit_cameras(cameras: Cameras, center: np.ndarray, radius: float) -> Cameras:
    """The cameras for positions in units of the scene: the pictures are those of ``unit_matrices``."""
    moved = [replace(one, translation=one.rotation @ center + one.translation) for one in cameras]
    return Cameras([camera.scaled(1 / radius) for camera in moved])


def world_cameras(cameras: Cameras, center: np.ndarray, radius: float) -> Cameras:
    """Back from ``unit_cameras``."""
    return unit_cameras(cameras, -np.asarray(center) / radius, 1 / radius)


# Differences of cameras up to a similarity of their world.


@dataclass(frozen=True, eq=False)
class Similarity:
    """x -> scale * rotation @ x + translation, of points of a world."""

    scale: float
    rotation: np.ndarray
    translation: np.ndarray

    def points(self, points: np.ndarray) -> np.ndarray:
        """(..., 3) points of the world moved."""
        return self.scale * np.asarray(points) @ self.rotation.T + self.translation

    def cameras(self, cameras: Cameras) -> Cameras:
        """Cameras whose pictures of the moved world are those of the given cameras of the original one."""
        moved = []
        for camera in cameras:
            turn = camera.rotation @ self.rotation.T
            large = camera.scaled(self.scale)
            moved.append(
                replace(large, rotation=turn, translation=large.translation - turn @ self.translation)
            )
        return Cameras(moved)


def align(cameras: Cameras, to: Cameras) -> Similarity:
    """The similarity that aligns cameras with others, pair by pair: first the mean rotation (of matrices,
    made orthogonal), then scale and translation by least squares of the centres.

    If all centres coincide the scale is 1. Raises InputError if the numbers of cameras differ.
    """
    if len(cameras) != len(to):
        raise InputError(f"{len(cameras)} cameras cannot be aligned with {len(to)}; give pairs")
    left, _, right = np.linalg.svd(sum(b.rotation.T @ a.rotation for a, b in zip(cameras, to, strict=True)))
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    own, other = cameras.centers @ turn.T, to.centers
    spread, away = own - own.mean(0), other - other.mean(0)
    squares, product = float((spread**2).sum()), float((spread * away).sum())
    size = float((np.abs(own) ** 2).sum() + (np.abs(other) ** 2).sum())
    scale = product / squares if min(squares, product) > 1e-12 * size else 1.0
    return Similarity(scale, turn, other.mean(0) - scale * own.mean(0))


@dataclass(frozen=True, eq=False)
class PoseErrors:
    """Of N cameras, after ``align``. degrees: (N,) angles of turns.  distances: (N,) of centres."""

    degrees: np.ndarray
    distances: np.ndarray


def pose_errors(cameras: Cameras, truth: Cameras) -> PoseErrors:
    """Errors of cameras relative to true ones after ``align``. Raises InputError."""
    moved = align(cameras, truth).cameras(cameras)
    return PoseErrors(turns(moved, truth), np.linalg.norm(moved.centers - truth.centers, axis=1))


def turns(cameras: Cameras, others: Cameras) -> np.ndarray:
    """(N,) angles in degrees between the orientations of pairs of cameras."""
    angles = []
    for a, b in zip(cameras, others, strict=True):
        # From the distance of the matrices: the cosine loses all digits at small angles.
        half = np.linalg.norm(a.rotation - b.rotation) / np.sqrt(8.0)
        angles.append(np.degrees(2 * np.arcsin(min(half, 1.0))))
    return np.array(angles)
