"""Crossings of faces with lines along the third axis, for inside tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .boxes import in_boxes


class Crossings(NamedTuple):
    """C crossings of lines with faces."""

    line: np.ndarray
    """(C,) int64."""
    face: np.ndarray
    """(C,) int64."""
    height: np.ndarray
    """(C,) float64: the third coordinate there."""
    turn: np.ndarray
    """(C,) int64: 1 where the face's normal points along the axis, -1 where it points against it."""


def crossings(lines: np.ndarray, corners: np.ndarray) -> Crossings:
    """Of the lines through (L, 2) and faces (F, 3, 3). A face that is seen edge-on is not crossed; one that is met on its
    border is."""
    a, b, c = corners[..., :2].transpose(1, 0, 2)
    area = projected_areas(corners)
    line, face = in_boxes(lines, corners[..., :2].min(1), corners[..., :2].max(1))
    keep = area[face] != 0
    line, face = line[keep], face[keep]
    at = lines[line]
    weights = np.stack([_cross(q[face] - at, r[face] - at) for q, r in ((b, c), (c, a), (a, b))], axis=1)
    weights /= area[face, None]
    hit = (weights >= 0).all(1)
    line, face = line[hit], face[hit]
    height = (weights[hit] * corners[face, :, 2]).sum(1)
    return Crossings(line, face, height, np.sign(area[face]).astype(np.int64))


def projected_areas(corners: np.ndarray) -> np.ndarray:
    """(F,) twice the signed areas of faces (F, 3, 3) seen along the axis: positive where the normal points along it."""
    a, b, c = corners[..., :2].transpose(1, 0, 2)
    return _cross(b - a, c - a)


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
