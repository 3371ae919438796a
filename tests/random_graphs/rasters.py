"""Rasters of random graphs: triangles whose edges keep away from the centres of pixels, on which drivers may differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dressi import FLOAT, INT, IVEC3, VEC4, Variable

from .coverage import F
from .operations import often
from .pool import VECTORS, Pool, Refused

EDGE = 0.14
"""Pixels between an edge and a centre; SwiftShader places vertices to 1/16 of a pixel."""


def _corners(p: Pool, size) -> np.ndarray:
    """Three corners in pixels, on corners of pixels; edges along (1, 0), (0, 1), (1, 2) and (2, 1) pass by centres."""
    width, height = size
    for _ in range(200):
        corners = p.rng.integers((-2, -2), (width + 3, height + 3), (3, 2))
        if _keeps_away(corners.astype(float), size):
            return corners.astype(float)
    raise Refused


def _keeps_away(corners: np.ndarray, size) -> bool:
    x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    a, b = corners, np.roll(corners, -1, 0)
    for start, end in zip(a, b, strict=True):
        along = end - start
        length = np.hypot(*along)
        if length == 0 or np.abs(along[0] * (y - start[1]) - along[1] * (x - start[0])).min() < EDGE * length:
            return False
    first, second = corners[1] - corners[0], corners[2] - corners[0]
    return abs(first[0] * second[1] - first[1] * second[0]) > 1


class Drawn(NamedTuple):
    """What is drawn. position, faces, live: as for ``F.rasterize``."""

    position: Variable
    faces: Variable | None
    live: Variable | None
    triangles: int

    @classmethod
    def of(cls, p: Pool) -> Drawn:
        """Some triangles, maybe by their corners' numbers, maybe moved by a shader, maybe some of them alone."""
        triangles = int(p.rng.integers(1, 6))
        batch = p.among([1, p.batch])
        corners = np.empty((batch, 1, 3 * triangles, 4), np.float32)
        for n in range(batch):
            for t in range(triangles):
                at = 3 * t + np.arange(3)
                corners[n, 0, at, :2] = _corners(p, p.size) / p.size * 2 - 1
                corners[n, 0, at, 2] = 0.1 + 0.8 * (t + 0.5 * p.rng.random()) / triangles  # depths differ
                corners[n, 0, at, 3] = 1.0
        corners *= p.among([1.0, 0.5, 2.0])
        flat = Variable(VEC4, (3 * triangles, 1), batch, data=corners, name=f"corners{len(p.leaves)}")
        p.leaves.append(flat)
        faces, position = None, flat
        if p.chance(0.3):
            order = np.arange(3 * triangles)[::-1].reshape(1, 1, triangles, 3).copy()
            faces = Variable(IVEC3, (triangles, 1), data=order, name=f"faces{len(p.leaves)}")
            p.leaves.append(faces)
        if p.chance(0.4):  # made by a shader: by a power of two, so that no coordinate is rounded
            position = flat * F.exp2(F.to_float(F.tile_index((1, 1), batch)))
        live = None
        if p.chance(0.4):
            kind = p.among([INT, FLOAT])
            live = p.leaf(INT, (triangles, 1), p.among([1, batch]), 0, 2)
            live = F.to_float(live) * 0.5 if kind is FLOAT else live
        return cls(position, faces, live, triangles)


@often(4)
def rasterized(p: Pool) -> Variable:
    """A number of a face at each pixel, as a mask, an index or both."""
    position, faces, live, triangles = Drawn.of(p)
    depths = p.leaf(FLOAT, (triangles, 1), 1, 0.05, 0.9)
    mask = p.leaf(INT, p.size, 1, 0, 3)

    def by_table(face):
        return F.lookup(depths, face), None

    def by_mask(face):
        return F.to_float(face) * 0.11 + 0.02, F.greater(F.add(mask, face), 0)

    def behind(face):
        front = F.lookup(depths, F.clamp(before, 0, triangles - 1))
        depth = F.lookup(depths, face)
        return depth, F.logical_or(F.less(before, 0), F.greater(depth, front + 0.001))

    before = F.rasterize(position, faces, size=p.size, live=live, fragment=by_table)
    face = before
    if p.chance(0.7):
        fragment = p.among([None, by_mask, behind])
        face = F.rasterize(position, faces, size=p.size, live=live, fragment=fragment)
    if p.chance(0.2):
        face = F.rasterize(position, faces, size=p.size, live=live, triangles_per_face=1)
    p.add(face)
    hit = F.greater_equal(face, 0)
    x = p.float(like=face)
    kind = p.rng.integers(5)
    if kind == 0:
        return F.select(hit, x, 0.0)
    if kind == 1:
        return F.lookup(p.leaf(x.vtype, (triangles, 1), 1, parameter=True), face)
    if kind == 2:
        value = F.select(hit, x * 0.2, 0.0)
        return F.scatter_add(value, face, (triangles, 1), p.among([1, max(value.batch, face.batch)]))
    if kind == 3:
        return F.select(
            F.logical_and(hit, F.greater(p.scalar(face), 0.1)), F.sin(x) if not x.vtype.is_matrix else x, 0.5
        )
    return F.to_float(face) * 0.15


def accumulated(p: Pool) -> Variable:
    """A sum over fragments, of values at their pixels and of entries of lists."""
    position, faces, live, triangles = Drawn.of(p)
    x = p.float(FLOAT, *VECTORS)
    table = p.leaf(x.vtype, (triangles, 1), p.among([1, p.batch]), parameter=p.chance(0.7))
    limit = p.among([None, 0.6, p.scalar()])
    mask = p.leaf(INT, p.size, 1, 0, 3)

    def of_lists(face, depth):
        return F.lookup(table, face) * x * 0.3

    def of_depths(face, depth):
        return F.sin(F.lookup(table, face)) * depth + x * F.square(depth), F.greater(F.add(mask, face), 0)

    def of_corners(face, depth):
        corner = F.lookup(position, F.mul(face, 3))
        return F.lookup(table, face) * (corner.x * 0.5 + depth)

    value = p.among([of_lists, of_depths, of_corners])
    more = {"fixed_point": True} if p.chance(0.2) else {}
    return F.accumulate(position, faces, size=p.size, live=live, value=value, limit=limit, **more)


SUMS = (accumulated,) * 4
