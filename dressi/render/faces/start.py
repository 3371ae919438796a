"""Where a fit starts: the mean face in front of a camera, from its landmarks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...errors import InputError
from ..cameras.rotations import axis_angle_to_matrix
from .data import FaceData
from .model import Face, FaceModel

FEWEST = 6
"""Landmarks of a view that tell a pose."""
FLATTEST = 0.05
"""Of two directions of the landmarks, of which a camera shows each as large as the other."""
RIDGE = 1e-3
"""Of the weights that enlarge a face, relative to its modes."""


def usable_landmarks(model: FaceModel, data: FaceData) -> np.ndarray:
    """(N, 68) bool: those that are seen and that the model has. Raises InputError when no view has enough of them."""
    if data.landmarks is None:
        raise InputError(
            "there are no landmarks; give landmarks=load_landmarks(file), or start= a Face near the solution"
        )
    if model.landmarks is None:
        raise InputError(
            "this face model has no landmarks; add the vertices of the 68 points to its file, or give start="
        )
    known = data.known & (model.landmarks >= 0)
    if known.sum(1).max() < FEWEST:
        raise InputError(
            f"no view has {FEWEST} landmarks of the model, at most {known.sum(1).max()}; detect more, or give start="
        )
    return known


def start_motion(model: FaceModel, data: FaceData) -> np.ndarray:
    """(4, 4): from the model to the world, of the view whose landmarks tell it best. Raises InputError.

    The landmarks of a view give an affine camera by linear least squares; the nearest scaled rotation is the pose.
    """
    known = usable_landmarks(model, data)
    assert model.landmarks is not None and data.landmarks is not None
    points = model.mesh.positions[np.maximum(model.landmarks, 0)]
    found = []
    for view in np.flatnonzero(known.sum(1) >= FEWEST):
        camera, seen = data.cameras[int(view)], known[view]
        pixels = np.concatenate([data.landmarks[view, seen], np.ones((seen.sum(), 1))], axis=1)
        rays = (pixels @ np.linalg.inv(camera.intrinsics).T)[:, :2]
        middle = points[seen].mean(0)
        affine, *_ = np.linalg.lstsq(
            np.concatenate([points[seen] - middle, np.ones((seen.sum(), 1))], axis=1), rays, rcond=None
        )
        rows, place = affine[:3].T, affine[3]
        scale = np.linalg.norm(rows, axis=1).mean()
        left, (wide, narrow), right = np.linalg.svd(rows, full_matrices=False)
        # A head as small as a pixel, or as flat as a line.
        if narrow * np.ptp(points) < 1 / camera.intrinsics[0, 0] or narrow < FLATTEST * wide:
            continue
        first, second = left @ right
        turn = np.stack([first, second, np.cross(first, second)])
        own = np.eye(4)
        own[:3, :3], own[:3, 3] = turn, np.array([*place, 1.0]) / scale - turn @ middle
        motion = np.linalg.inv(camera.view) @ own
        found.append((landmark_error(model, data, known, points, motion), motion))
    if not found:
        raise InputError(
            "the landmarks of all views lie at one place or on one line, which tells no pose; detect them again"
        )
    return min(found, key=lambda pair: pair[0])[1]


def landmark_error(
    model: FaceModel, data: FaceData, known: np.ndarray, points: np.ndarray, motion: np.ndarray
) -> float:
    """Mean distance in pixels of landmarks of a model at ``points`` (68, 3) in a pose, infinite behind a camera."""
    assert data.landmarks is not None
    world = points @ motion[:3, :3].T + motion[:3, 3]
    away = []
    for camera, seen, marks in zip(data.cameras, known, data.landmarks, strict=True):
        places, depth = camera.project(world[seen])
        if (depth <= 0).any():
            return np.inf
        away.append(np.linalg.norm(places - marks[seen], axis=1))
    return float(np.concatenate(away).mean())


def growing(face: Face) -> tuple[np.ndarray, np.ndarray]:
    """The weights of identity, (I,), that enlarge a face best, for e-fold growth about its origin, and what it shifts by, (3,).

    >>> ball = primitives.icosphere(1)
    >>> growth, drift = growing(Face(FaceModel(ball, identity=ball.positions[None] * 0.1)))
    >>> growth.round(2).tolist(), np.abs(drift).max().round(6).item()
    ([10.0], 0.0)
    """
    points, modes = face.positions(), face.model.identity.astype(np.float64)
    middle, means = points.mean(0), modes.mean(1)
    rows = (modes - means[:, None]).reshape(len(modes), -1)
    # Small weights, where modes are nearly the same.
    ridge = RIDGE**2 * np.square(rows).sum(1).mean() * np.eye(len(rows))
    weights = np.linalg.solve(rows @ rows.T + ridge, rows @ (points - middle).ravel())
    return weights, middle - weights @ means


def motions_of(read: Mapping[str, np.ndarray]) -> np.ndarray:
    """(N, 4, 4): from the model to the world, of the values of leaves of a ``FaceGraph`` by name."""
    motion = read["base"].reshape(-1, 4, 4).copy()
    turn = motion[:, :3, :3] @ np.asarray(axis_angle_to_matrix(read["rotation"].reshape(-1, 3)))
    place = motion[:, :3, 3] + read["shift"].reshape(-1, 3)
    if "size" in read:
        drift = motion[:, :3, 3] - read["eye"].ravel() + turn @ read["drift"].ravel()
        place = place + read["size"].item() * drift
    motion[:, :3, :3], motion[:, :3, 3] = turn, place
    return motion
