"""Differences of cameras up to a similarity of their world."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from .camera import Cameras


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
