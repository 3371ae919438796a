"""Tangents of corners in the convention of MikkTSpace, which normal maps are baked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .rows import connected, first_ones, unit


class Tangents(NamedTuple):
    """Tangents of a mesh: `Mesh.tangents`.

    >>> from dressi.render.mesh.primitives import cube
    >>> tangents = cube().tangents()
    >>> tangents.values.shape, tangents.faces.shape
    ((24, 4), (12, 3))
    """

    values: np.ndarray
    """(T, 4) float64: a unit tangent, perpendicular to the normal, along which u grows; then the sign w of
    the bitangent ``w * cross(normal, tangent)``, along which v, as glTF counts it, decreases: the +Y of
    normal maps."""
    faces: np.ndarray
    """(F, 3) int64 into them."""


def corner_tangents(
    positions: np.ndarray,
    faces: np.ndarray,
    uvs: np.ndarray,
    uv_faces: np.ndarray,
    normals: np.ndarray,
    normal_faces: np.ndarray,
) -> Tangents:
    """Tangents by the rules of MikkTSpace (Mikkelsen 2008, "Simulation of Wrinkled Surfaces Revisited", 3.2).

    positions (V, 3), uvs (U, 2) in glTF's convention and unit normals (N, 3), each with its faces (F, 3).
    Corners share a tangent when position, normal and UV are the same, edges that have the same two corners
    connect their faces around the vertex, and their UVs have one orientation. It is the mean of dP/du of
    these faces in the plane of the normal, each of length 1, weighted by the angle of the face there. Faces
    without area in the UVs do not count: they take the tangent of a neighbour, and without one a direction
    perpendicular to the normal.
    """
    corner = np.stack([faces, uv_faces, normal_faces], axis=-1).reshape(-1, 3)
    point = np.unique(corner, axis=0, return_inverse=True)[1].reshape(-1, 3)
    direction, sign = _along_u(positions[faces], uvs[uv_faces])
    sign = _adopted(sign, _meeting(point))
    group = _groups(point, sign)
    n = normals[normal_faces]
    flat = unit((direction[:, None, :] - _along(direction[:, None, :], n)).reshape(-1, 3))
    weight = _angles(positions[faces], n).reshape(-1)
    total = np.zeros((int(group.max()) + 1, 3))
    np.add.at(total, group, flat * weight[:, None])
    tangent, normal = unit(total), np.zeros_like(total)
    normal[group] = n.reshape(-1, 3)
    orientation = np.zeros(len(total))
    orientation[group] = np.repeat(sign, 3)
    _fill(tangent, orientation, normal, group, point.reshape(-1))
    return Tangents(np.concatenate([tangent, orientation[:, None]], axis=1), group.reshape(-1, 3))


def _along(vectors: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The parts of vectors that are along n, which is unit or zero."""
    return (vectors * n).sum(-1, keepdims=True) * n


def _along_u(corners: np.ndarray, uv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(F, 3) unit dP/du and (F,) the orientation of the UVs with v upward, 1 or -1; zeros without area."""
    d1, d2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    (u1, v1), (u2, v2) = (uv[:, 1] - uv[:, 0]).T, (uv[:, 2] - uv[:, 0]).T
    area = u2 * v1 - u1 * v2  # twice, positive where u and -v turn counter-clockwise
    longest = np.maximum(u1**2 + v1**2, u2**2 + v2**2)
    sign = np.where(np.abs(area) > 1e-9 * longest, np.sign(area), 0.0)
    direction = unit((d2 * v1[:, None] - d1 * v2[:, None]) * sign[:, None])
    return direction, np.where((direction != 0).any(1), sign, 0.0)


def _angles(corners: np.ndarray, n: np.ndarray) -> np.ndarray:
    """(F, 3) angles of faces at their corners, seen along the normals there."""
    angles = []
    for k in range(3):
        to, back = (corners[:, (k + step) % 3] - corners[:, k] for step in (1, 2))
        to, back = (unit(edge - _along(edge, n[:, k])) for edge in (to, back))
        angles.append(np.arccos(np.clip((to * back).sum(1), -1, 1)))
    return np.stack(angles, axis=1)


def _meeting(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half edges (face * 3 + number) that run along each other in opposite directions, as two arrays."""
    start, end = point.reshape(-1), point[:, [1, 2, 0]].reshape(-1)
    size = int(point.max()) + 1
    forward, backward = start * size + end, end * size + start
    order = np.argsort(forward, kind="stable")
    # An edge of more than two faces connects each with the first that turns the other way.
    place = np.minimum(np.searchsorted(forward[order], backward), len(order) - 1)
    other = order[place]
    half = np.nonzero((forward[other] == backward) & (start != end))[0]
    return half, other[half]


def _adopted(sign: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Orientations (F,) where faces without one have that of a neighbour, or of its neighbours."""
    here, there = (edge // 3 for edge in edges)
    sign = sign.copy()
    while True:
        todo = np.nonzero((sign[here] == 0) & (sign[there] != 0))[0][::-1]  # the first of several wins
        if not len(todo):
            return sign
        sign[here[todo]] = sign[there[todo]]


def _groups(point: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """(3F,) numbers of the groups of corners that share a tangent, in order of their first corner."""
    half, other = _meeting(point)
    keep = sign[half // 3] == sign[other // 3]
    half, other = half[keep], other[keep]
    after, after_other = (edge - edge % 3 + (edge + 1) % 3 for edge in (half, other))
    # The start of a half edge is the end of the other one.
    label = connected(np.concatenate([half, after]), np.concatenate([after_other, other]), point.size)
    return first_ones(label)[1]


def _fill(
    tangent: np.ndarray, orientation: np.ndarray, normal: np.ndarray, group: np.ndarray, point: np.ndarray
) -> None:
    """Give groups without a tangent that of another group at their point, else any one, in place."""
    empty = (tangent == 0).all(axis=1)
    if empty.any():
        donor = np.full(int(point.max()) + 1, -1)
        good = ~empty[group]
        donor[point[good][::-1]] = group[good][::-1]
        at = np.empty(len(tangent), dtype=np.int64)
        at[group] = point
        source = donor[at]
        take = empty & (source >= 0)
        tangent[take], orientation[take] = tangent[source[take]], orientation[source[take]]
        empty &= source < 0
        n = normal[empty]
        axis = np.eye(3)[np.abs(n).argmin(axis=1)]
        tangent[empty] = unit(axis - _along(axis, n))
    orientation[orientation == 0] = 1.0
