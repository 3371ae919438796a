"""Poses and focal lengths of cameras as parameters: rigid motions by small increments.

    clip = P(f) T(c) exp(rotation, translation) T(-c) V x

V is the base, world to camera; the increment turns about the point c and then shifts, in the camera's axes. Increments
start at zero and stay small: ``Poses.fold`` puts them into the base.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.evaluate import evaluate
from ...ad.graph import Variable
from ...ad.types import FLOAT, MAT3, MAT4, VEC3
from ...errors import GraphError, InputError
from ..lists import list_data
from .camera import Camera, Cameras

SMALL = 0.25
"""Squares of angles up to this, half a radian, take the series: the closed forms lose digits near zero."""
SERIES = (
    (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880),
    (1 / 2, -1 / 24, 1 / 720, -1 / 40320, 1 / 3628800),
    (1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800),
)
"""Of sin(t) / t, (1 - cos(t)) / t^2 and (t - sin(t)) / t^3 in powers of t^2."""


def _coefficients(square: Variable) -> list[Variable]:
    small = F.less(square, SMALL)
    safe = F.select(small, 1.0, square)
    angle = F.sqrt(safe)
    sine = F.sin(angle)
    closed = (sine / angle, (1.0 - F.cos(angle)) / safe, (angle - sine) / (safe * angle))
    return [F.select(small, _polynomial(s, square), c) for s, c in zip(SERIES, closed, strict=True)]


def _polynomial(coefficients: Sequence[float], x: Variable) -> Variable:
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def _rotation_and_shift(rotation: Variable) -> tuple[Variable, Variable]:
    """MAT3 R and V of the exponential: x -> R x + V translation."""
    if rotation.vtype is not VEC3:
        raise GraphError(f"a rotation is a VEC3, axis times angle, not {rotation} (at {rotation.where})")
    x, y, z = rotation.x, rotation.y, rotation.z
    square = F.dot(rotation, rotation)
    skew = F.mat3(F.vec3(0.0, z, -y), F.vec3(-z, 0.0, x), F.vec3(y, -x, 0.0))
    twice = F.outer(rotation, rotation)  # skew @ skew + square
    one = F.constant(np.eye(3), MAT3)
    a, b, c = _coefficients(square)
    return (
        one * (1.0 - b * square) + skew * a + twice * b,
        one * (1.0 - c * square) + skew * b + twice * c,
    )


def exp_so3(rotation: Variable) -> Variable:
    """MAT3: the rotation about an axis by an angle in radians, of VEC3 = axis * angle (Rodrigues).

    Differentiable everywhere, at zero too.
    """
    return _rotation_and_shift(rotation)[0]


def exp_se3(rotation: Variable, translation: Variable) -> Variable:
    """MAT4: the exponential of a twist, both VEC3, [[R, V translation], [0, 1]]. Differentiable everywhere."""
    turn, shift = _rotation_and_shift(rotation)
    columns = [F.vec4(F.column(turn, k), 0.0) for k in range(3)]
    return F.mat4(*columns, F.vec4(shift @ translation, 1.0))


@dataclass(frozen=True, eq=False)
class Poses:
    """N cameras whose poses, and focal lengths if wanted, are parameters; made by ``poses``."""

    cameras: Cameras
    """As they were at first."""
    rotation: Variable
    """VEC3 1x1, N tiles: axis times angle in radians."""
    translation: Variable
    """VEC3 1x1, N tiles: in units of the world."""
    focal: Variable
    """FLOAT 1x1, N tiles: logarithm of what both focal lengths are multiplied by."""
    base: Variable
    """MAT4 1x1, N tiles: T(-c) V."""
    still: Variable
    """MAT4 1x1, N tiles: what of P(f) T(c) does not depend on the focal length."""
    scaled: Variable
    """MAT4 1x1, N tiles: what is proportional to it."""
    centers: np.ndarray
    """(N, 3): c, in camera coordinates."""

    @property
    def matrices(self) -> Variable:
        """MAT4 1x1, N tiles: world to clip. Differentiable in rotation, translation and focal."""
        projection = self.still + self.scaled * F.exp(self.focal)
        return projection @ exp_se3(self.rotation, self.translation) @ self.base

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
        """Put the increments of an engine (``recv``, ``send``) into the base; no picture changes but for rounding.

        Rotations are made orthogonal again.
        """
        base = self._views(engine.recv)
        zero = np.zeros((len(self.cameras), 1, 1, 3))
        for leaf, values in (
            (self.base, base[:, None, None]), (self.rotation, zero), (self.translation, zero),
        ):  # fmt: skip
            engine.send(leaf, values)

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
    """Parameters for cameras, named rotation, translation and focal, all zero; optimise those that are not known.

    center: (3,) point of the world that increments turn about, best the middle of what is seen: rotation and
    translation then change pictures in different ways. By default each camera turns about itself. Silhouettes and
    colours of one view hardly tell a focal length from a distance. Raises InputError.
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
    return made.found(
        lambda leaf: np.reshape(values[leaf] if leaf in values else list_data(leaf), leaf.shape)
    )[0]
