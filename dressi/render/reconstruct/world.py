"""The world of a reconstruction: which way is up, where the ground is, and the unit. Photographs alone do not
tell them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cameras.views import DISTANCE

ROLL = 4.0
"""The horizontal axes of pictures lie in a plane if they spread across it this many times less than along
it."""
STEEPEST = 25.0
"""Degrees between the normal of the ground and the upward direction of the pictures."""
THICK = 0.01
"""Of the distance of the cameras: points this far from the ground lie on it."""
GROUND, BELOW = 0.15, 0.05
"""Least share of the points on the ground, and most of those below it."""
TRIALS = 500


@dataclass(frozen=True, eq=False)
class World:
    """x -> scale * rotation @ x + translation takes the reconstruction to a world with y up.  said: how it
    was found, a sentence."""

    scale: float
    rotation: np.ndarray
    translation: np.ndarray
    said: str


def guess_world(centers: np.ndarray, rotations: np.ndarray, ups: np.ndarray, points: np.ndarray) -> World:
    """The world of N cameras and P points.

    centers: (N, 3).  rotations: (N, 3, 3) from the world to the cameras' axes.  ups: (N, 3) the upward
    direction of each picture in its camera's axes.  points: (P, 3).

    y is up: across the ground if many points lie on a plane below the cameras, otherwise as the pictures were
    held. The cameras are ``DISTANCE`` units away from what they look at, which is above or at the origin; the
    ground has y = 0.
    """
    forward = rotations[:, 2]
    focus = looked_at(centers, forward)
    distance = float(np.median(np.linalg.norm(centers - focus, axis=1)))
    held = np.einsum("nij,ni->nj", rotations, ups)
    up = held_up(np.cross(held, forward), held)
    ground = find_ground(points, centers, up, THICK * distance)
    said = "up is y, as the pictures were held"
    if ground is not None:
        up, height = ground
        focus = focus - (focus @ up - height) * up
        said = "up is y, across the ground, a plane that many points lie on and that has y = 0"
    # The first picture looks along -z as far as the horizontal goes.
    front = centers[0] - focus
    front = front - (front @ up) * up
    if np.linalg.norm(front) < 1e-6 * distance:
        front = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
    front = front / np.linalg.norm(front)
    rotation = np.stack([np.cross(up, front), up, front])
    scale = DISTANCE / distance
    said = (
        f"{said}; one unit is 1/{DISTANCE:g} of the distance of the cameras: photographs do not show the size"
        " of things"
    )
    return World(scale, rotation, -scale * rotation @ focus, said)


def looked_at(centers: np.ndarray, forward: np.ndarray) -> np.ndarray:
    """(3,) the point that is nearest to the optical axes of cameras; before them where they are parallel.

    >>> looked_at(np.array([[0.0, 0, 2], [2, 0, 0]]), np.array([[0.0, 0, -1], [-1, 0, 0]])).round(6).tolist()
    [0.0, 0.0, 0.0]
    """
    across = np.eye(3) - forward[:, :, None] * forward[:, None]
    # A little of the nearest point to the centres keeps it defined where axes are parallel.
    matrix = across.sum(0) + 1e-6 * len(centers) * np.eye(3)
    point = np.linalg.solve(matrix, np.einsum("nij,nj->i", across, centers) + 1e-6 * centers.sum(0))
    if np.median(((point - centers) * forward).sum(1)) > 0:
        return point
    spread = float(np.linalg.norm(centers - centers.mean(0), axis=1).max())
    return centers.mean(0) + forward.mean(0) * max(spread, 1.0)


def held_up(right: np.ndarray, held: np.ndarray) -> np.ndarray:
    """(3,) upwards, of the horizontal axes (N, 3) of pictures and their upward directions (N, 3).

    People hold cameras level: up is across the horizontal axes, if these differ. Otherwise it is the mean of
    the upward directions, which leans back where pictures look down from one side.
    """
    mean = held.mean(0)
    values, axes = np.linalg.eigh(right.T @ right / len(right))
    level = axes[:, 0] * (1.0 if axes[:, 0] @ mean >= 0 else -1.0)
    steady = values[1] > max(ROLL * values[0], 0.02) and abs(level @ mean) > 0.3
    up = level if steady else mean
    return up / max(float(np.linalg.norm(up)), 1e-12)


def find_ground(
    points: np.ndarray, centers: np.ndarray, up: np.ndarray, thick: float
) -> tuple[np.ndarray, float] | None:
    """The plane below all cameras that many points (P, 3) lie on, and few below: its unit normal (3,) and its
    height along it. None if there is none."""
    if len(points) < 50:
        return None
    rng = np.random.default_rng(0)
    steepest = np.cos(np.radians(STEEPEST))
    best: tuple[int, np.ndarray, float] | None = None
    for three in rng.integers(0, len(points), (TRIALS, 3)):
        a, b, c = points[three]
        normal = np.cross(b - a, c - a)
        length = float(np.linalg.norm(normal))
        if length < 1e-12:
            continue
        normal = normal / (length if normal @ up > 0 else -length)
        if normal @ up < steepest:
            continue
        height = float(a @ normal)
        above = points @ normal - height
        if (above < -2 * thick).mean() > BELOW or (centers @ normal - height).min() < 0:
            continue
        count = int((np.abs(above) < thick).sum())
        if best is None or count > best[0]:
            best = count, normal, height
    if best is None or best[0] < GROUND * len(points):
        return None
    _, normal, height = best
    for _ in range(3):
        near = points[np.abs(points @ normal - height) < thick]
        middle = near.mean(0)
        across = np.linalg.svd(near - middle, full_matrices=False)[2][2]
        normal = across * (1.0 if across @ normal > 0 else -1.0)
        height = float(middle @ normal)
    return normal, height
