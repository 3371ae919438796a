"""Polygons as triangles: fans where a fan covers the polygon, otherwise cuts along diagonals."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ...errors import InputError
from .mesh import Mesh
from .rows import cross, ranges

MOST_VISITS = 80_000_000
"""Corners that one call looks at: this takes seconds, and one jagged polygon of some 6,000 corners."""
_BATCH = 1 << 18
"""Corners that are looked at in one go, so that temporary arrays stay small."""
_TURNED = 16
"""Corners up to which a fan from each corner is tried; in larger polygons this rarely helps."""
_WASTE = 1e-9
"""Share of the area by which a fan may overlap itself: what rounding makes of corners on a line."""


def triangulate(points: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut polygons into triangles that cover what the polygons cover, concave ones included.

    points: (C, 3), the corners of all polygons one after the other.  lengths: (P,), how many corners each
    has; those with fewer than three have no triangles.  Returns (F,) the polygon of each triangle and (F, 3)
    its rows of ``points``, in the order of the polygons, with the orientation of the polygon; a polygon of n
    corners always has n - 2 triangles.

    A polygon is cut in the plane of its mean normal. Bridges to holes (corners that occur twice) are
    followed. Corners on a line give triangles without area. Of a polygon that crosses itself or has no area
    there is no right answer; it gets some. Raises InputError for polygons so large and jagged that they would
    take minutes.

    >>> arrow = np.array([[0, 0, 0], [2, 1, 0], [0, 2, 0], [1, 1, 0]])  # the last corner points inwards
    >>> triangulate(arrow, np.array([4]))[1].tolist()
    [[1, 2, 3], [1, 3, 0]]
    """
    lengths = np.asarray(lengths, np.int64)
    starts = np.cumsum(lengths) - lengths
    count = np.maximum(lengths - 2, 0)
    polygon, second = ranges(starts + 1, count)
    triangles = np.stack([starts[polygon], second, second + 1], axis=1)
    rings: dict[int, list[np.ndarray]] = defaultdict(list)
    for length in np.unique(lengths[lengths > 3]).tolist():
        rows = np.flatnonzero(lengths == length)
        for some in np.array_split(rows, -(-len(rows) * length // _BATCH)):
            rings[length].append(starts[some, None] + np.arange(length))
    plane = np.zeros((len(points), 2))
    for batches in rings.values():
        for ring in batches:
            plane[ring] = _flat(np.asarray(points, np.float64)[ring])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    replaced = _cut(plane, rings)
    if len(replaced):
        # The triangles of a polygon that was cut take the places of those of its fan.
        of = owner[replaced[:, 0]]
        order = np.argsort(of, kind="stable")
        triangles[np.isin(polygon, of)] = replaced[order]
    return polygon, triangles


def _flat(points: np.ndarray) -> np.ndarray:
    """(P, n, 2) in [-1, 1], counter-clockwise: polygons (P, n, 3) along the axis nearest to their normal."""
    with np.errstate(all="ignore"):
        own = points - points[:, :1]
        own = own / np.abs(own).max((1, 2), keepdims=True)
        own = np.where(np.isfinite(own).all((1, 2), keepdims=True), own, 0.0)
    normal = np.cross(own, np.roll(own, -1, axis=1)).sum(1)
    axis = np.abs(normal).argmax(1)
    rows = np.arange(len(own))
    u, v = own[rows, :, (axis + 1) % 3], own[rows, :, (axis + 2) % 3]
    return np.stack([np.where(normal[rows, axis, None] < 0, -u, u), v], axis=-1)


def _cut(plane: np.ndarray, rings: dict[int, list[np.ndarray]]) -> np.ndarray:
    """(F, 3): the triangles of those rings (P, n) of corners, by their length, that their first fan does not
    cover.

    Longest first: each cut leaves shorter rings, so that all rings of one length are worked on at once."""
    triangles = [np.zeros((0, 3), np.int64)]
    parts: dict[int, list[np.ndarray]] = defaultdict(list)
    visits = 0
    for length in range(max(rings, default=0), 2, -1):
        whole, part = rings.get(length, []), parts.pop(length, [])
        for ring, is_whole in [(r, True) for r in whole] + [(r, False) for r in _joined(part)]:
            left = ring
            for turn in range(length if length <= _TURNED else 1):
                visits += left.size
                turned = np.roll(left, -turn, axis=1)
                covers = _is_fan(plane[turned]) | (length == 3)
                if turn or not is_whole:
                    triangles.append(_fans(turned[covers]))
                left = left[~covers]
                if not len(left):
                    break
            if visits > MOST_VISITS:
                raise InputError(
                    f"polygons of up to {max(rings):,} corners are too jagged to be cut into triangles here;"
                    " triangulate the mesh where it was made"
                )
            if len(left):
                visits += 4 * left.size
                for piece in _split(plane, left):
                    parts[piece.shape[1]].append(piece)
    return np.concatenate(triangles)


def _joined(parts: list[np.ndarray]) -> list[np.ndarray]:
    if not parts:
        return []
    rows = np.concatenate(parts)
    return np.array_split(rows, -(-rows.size // _BATCH))


def _fans(ring: np.ndarray) -> np.ndarray:
    """(P * (n - 2), 3): the fans of rings (P, n) from their first corners."""
    first = np.repeat(ring[:, :1], ring.shape[1] - 2, axis=1)
    return np.stack([first, ring[:, 1:-1], ring[:, 2:]], axis=-1).reshape(-1, 3)


def _is_fan(at: np.ndarray) -> np.ndarray:
    """(P,) bool: whether fans from the first corners cover polygons (P, n, 2): no triangle is turned over."""
    spokes = at[:, 1:] - at[:, :1]
    twice = cross(spokes[:, :-1], spokes[:, 1:])
    return np.minimum(twice, 0).sum(1) >= -_WASTE * np.abs(twice.sum(1)) - 1e-14


def _split(plane: np.ndarray, ring: np.ndarray) -> list[np.ndarray]:
    """Rings that together are those of (P, n), each cut along a diagonal.

    The corner v with the largest triangle (a, v, b) to its neighbours is cut off where the triangle holds no
    other corner. Otherwise v is joined to the corner in it that is farthest from the line a-b: no edge can
    pass between them."""
    count, length = ring.shape
    rows = np.arange(count)
    at = plane[ring]
    turn = cross(at - np.roll(at, 1, axis=1), np.roll(at, -1, axis=1) - at)
    # Corners that are twice in a row go first: an edge without length has no side, so it cannot say what a
    # corner sees.
    twice = (np.roll(at, -1, axis=1) == at).all(-1)
    corner = np.where(twice.any(1), twice.argmax(1), turn.argmax(1))
    # v becomes the first corner, b the second, a the last.
    ring = ring[rows[:, None], (corner[:, None] + np.arange(length)) % length]
    at = plane[ring]
    v, b, a = at[:, :1], at[:, 1:2], at[:, -1:]
    height = cross(a - b, at - b)
    # Strictly: corners on the sides belong to bridges, which lie on each other but for rounding.
    inside = (cross(v - a, at - a) > 1e-12) & (cross(b - v, at - v) > 1e-12) & (height >= 0)
    far = np.where(inside, height, -1.0)
    # Of corners at one place, which bridges to holes have, the one whose inner angle sees v.
    farthest = inside & (far == far.max(1, keepdims=True))
    if (farthest.sum(1) > 1).any():
        far = np.where(farthest & _sees(at, v), np.inf, far)
    other = np.where(inside.any(1), far.argmax(1), length - 1)
    parts: list[np.ndarray] = []
    for k in np.unique(other).tolist():
        rows_k = ring[other == k]
        if k == length - 1:  # an ear: its triangle, and the ring without v
            parts += [rows_k[:, [-1, 0, 1]], rows_k[:, 1:]]
        else:
            parts += [rows_k[:, : k + 1], np.concatenate([rows_k[:, k:], rows_k[:, :1]], axis=1)]
    return parts


def _sees(at: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(P, n) bool: whether the way from a corner to v starts inside the polygon."""
    before, after, way = np.roll(at, 1, axis=1) - at, np.roll(at, -1, axis=1) - at, v - at
    convex = cross(after, before) > 0
    left, right = cross(after, way) > 0, cross(way, before) > 0
    return np.where(convex, left & right, left | right)


# Closes the holes of open meshes, such as scans.


def close_holes(mesh: Mesh) -> Mesh:
    """The mesh with a fan over each of its holes, around the mean of their edge, such as those in the base of
    the Stanford bunny; UVs, normals and textures are dropped. Holes that touch in a vertex may remain open.

    >>> from dressi.render.mesh.primitives import cube
    >>> close_holes(cube().with_faces(range(2, 12))).is_closed()
    True
    """
    around = np.roll(mesh.faces, -1, axis=1)
    halves = set(zip(mesh.faces.reshape(-1).tolist(), around.reshape(-1).tolist(), strict=True))
    after = {b: a for a, b in halves if (b, a) not in halves}
    positions, faces = list(mesh.positions), list(mesh.faces)
    while after:
        loop = [next(iter(after))]
        while loop[0] != (end := after.pop(loop[-1], loop[0])):
            loop.append(end)
        faces += [[a, b, len(positions)] for a, b in zip(loop, [*loop[1:], loop[0]], strict=True)]
        positions.append(mesh.positions[loop].mean(0))
    return mesh.with_shape(np.array(positions), np.array(faces))
