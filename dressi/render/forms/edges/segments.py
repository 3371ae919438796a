"""Edges between projected vertices, clipped at the near plane, with a derivative through the clipping."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.transform.local import Fused, local_gradient
from ....ad.types import IVEC2, IVEC4, VEC4, Access
from ...lists import at_points, read_list
from ...surface.projection import jvp_by_rows
from ...surface.screen import common_batch, present


def segment(vertex: Variable, first: Variable, second: Variable) -> Variable:
    """VEC4: the ends (a, b) on the screen of the edge from vertex ``first`` to ``second`` (INT), as ``SegmentEnds``."""
    return SegmentEnds(F.lookup(vertex, first), F.lookup(vertex, second)).output


class ListEnds(PixelFunction):
    """Inputs (pairs IVEC2 or IVEC4 list, vertex VEC4 list): VEC4 list like ``pairs``, the ``SegmentEnds`` of the edges
    between the vertices of the first two numbers. No derivative."""

    operations, fetches = 122.0, 2.0
    no_derivative = "only tells which edges are drawn; use SegmentEnds"
    includes = ("face.glsl",)
    glsl = (
        "vec4 a = $1(face_texel($0.x, $size1), tile), b = $1(face_texel($0.y, $size1), tile);\n"
        "$y = vec4(face_end(a, b), face_end(b, a));"
    )

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    def infer(self):
        pairs, vertex = self.inputs
        if pairs.vtype not in (IVEC2, IVEC4) or vertex.vtype is not VEC4:
            raise self.fail(
                "needs numbers of vertices, IVEC2 or IVEC4, and what project() makes of these, VEC4"
            )
        return VEC4, Domain(pairs.size, common_batch(self))

    def evaluate(self, at, pairs, vertex):
        tile = at_points(at)[2]
        a, b = (read_list(vertex, tile, np.broadcast_to(pairs[..., i], tile.shape)) for i in range(2))
        return np.concatenate([_end(a, b), _end(b, a)], axis=-1)


class SegmentEnds(PixelFunction):
    """Inputs (a VEC4, b VEC4), projected vertices: VEC4, the two ends on the screen of the edge from a to b.

    An end nearer than the near plane is replaced by the point where the edge meets that plane, at z = 0: in clip space
    a + z_a / (z_a - z_b) (b - a). Zeros for missing ends, and if both ends are nearer. Differentiable.
    """

    operations = 62.0
    includes = ("face.glsl",)
    glsl = "$y = vec4(face_end($0, $1), face_end($1, $0));"

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC4, VEC4]:
            raise self.fail("needs what project() makes of two vertices, VEC4")
        return VEC4, self.broadcast()

    def eval(self, a, b):
        return np.concatenate(np.broadcast_arrays(_end(a, b), _end(b, a)), axis=-1)

    def vjp(self, gy, i):
        return _slope(self.inputs, gy, i)

    def jvp(self, tangents):
        return jvp_by_rows(self, tangents)


class KnownEnds(PixelFunction):
    """Inputs (ends VEC4, a VEC4, b VEC4): ``ends``, the ``SegmentEnds`` of a and b, computed once for many pixels.

    Differentiable in a and b, not in ``ends``, which only carries their value.
    """

    operations = 1.0
    glsl = "$0"

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC4, VEC4, VEC4]:
            raise self.fail("needs the ends of an edge and its projected vertices, VEC4")
        return VEC4, self.broadcast()

    def eval(self, ends, a, b):
        return np.broadcast_arrays(ends, a, b)[0]

    def vjp(self, gy, i):
        return None if i == 0 else _slope(self.inputs[1:], gy, i - 1)

    def jvp(self, tangents):
        return jvp_by_rows(self, (None, *tangents[1:]))


def _slope(vertices: Sequence[Variable], gy: Variable, i: int) -> Variable:
    """The gradient by one of the two vertices of an edge, from the gradient ``gy`` by its ends."""
    own, other = vertices if i == 0 else vertices[::-1]
    return SegmentSlope(own, other, gy if i == 0 else gy.zwxy).output


class SegmentSlope(Fused, PixelFunction):
    """Inputs (a VEC4, b VEC4, slope VEC4): VEC4, the part of the gradient by a that comes from the gradient ``slope`` by the
    ``SegmentEnds`` of a and b. Differentiable in all inputs."""

    operations = 31.0
    includes = ("face.glsl",)
    glsl = "face_end_slope($0, $1, $2)"

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC4, VEC4, VEC4]:
            raise self.fail("needs two projected vertices and a gradient, VEC4")
        return VEC4, self.broadcast()

    def eval(self, a, b, slope):
        a, b, slope = np.broadcast_arrays(a, b, slope)
        return _end_slope(a, b, slope[..., :2], slope[..., 2:])

    def ordinary(self, *x):
        a, b, slope = x
        return local_gradient(lambda a, b: F.vec4(_ordinary_end(a, b), _ordinary_end(b, a)), [a, b], 0, slope)


def _ordinary_end(a: Variable, b: Variable) -> Variable:
    """VEC2: the end of ``SegmentEnds`` at vertex a, by ordinary Functions. Ends that are not clipped divide by 1."""
    front = F.less(a.z, 0.0)
    cut = F.logical_and(front, F.logical_and(F.greater_equal(b.z, 0.0), F.greater(b.w, 0.0)))
    moved = a.z / F.select(cut, a.z - b.z * b.w, 1.0)
    start, end = F.vec3(a.xy, a.w), F.vec3(b.xy * b.w, b.w)
    place = start + (end - start) * moved
    return F.select(cut, place.xy / F.select(cut, place.z, 1.0), F.select(front, 0.0, a.xy))


def _homogeneous(v: np.ndarray) -> np.ndarray:
    """(x w, y w, w)."""
    scale = np.where(v[..., 2] < 0, 1.0, v[..., 3])[..., None]
    return np.concatenate([v[..., :2] * scale, v[..., 3:]], axis=-1)


def _end(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        moved = (a[..., 2] / (a[..., 2] - b[..., 2] * b[..., 3]))[..., None]
        place = _homogeneous(a) + moved * (_homogeneous(b) - _homogeneous(a))
        place = place[..., :2] / place[..., 2:]
    there = (present(b) & (b[..., 2] >= 0))[..., None]
    return np.where(a[..., 2:3] < 0, np.where(there, place, 0.0), a[..., :2])


def _end_slope(a: np.ndarray, b: np.ndarray, ga: np.ndarray, gb: np.ndarray) -> np.ndarray:
    """The part of the gradient by the vertex of a that comes from gradients by the ends a and b of an edge."""
    own = (a[..., 2] < 0)[..., None]
    front, back, g = np.where(own, a, b), np.where(own, b, a), np.where(own, ga, gb)
    plain = np.concatenate([ga, np.zeros_like(ga)], axis=-1)
    with np.errstate(all="ignore"):
        z = back[..., 2] * back[..., 3]
        moved = (front[..., 2] / (front[..., 2] - z))[..., None]
        start, end = _homogeneous(front), _homogeneous(back)
        place = start + moved * (end - start)
        by_place = np.concatenate([g, -(g * place[..., :2]).sum(-1, keepdims=True) / place[..., 2:]], -1)
        by_place = by_place / place[..., 2:]
        by_moved = (by_place * (end - start)).sum(-1) / (front[..., 2] - z) ** 2
        x, y, w = np.moveaxis((1 - moved) * by_place, -1, 0)
        by_front = np.stack([x, y, -by_moved * z, w], axis=-1)
        x, y, w = np.moveaxis(moved * by_place, -1, 0)
        depth, over = back[..., 2], back[..., 3]
        by_z = by_moved * front[..., 2]
        w = x * back[..., 0] + y * back[..., 1] + w + by_z * depth
        by_back = np.stack([x * over, y * over, by_z * over, w], axis=-1)
    cut = (front[..., 2] < 0) & (back[..., 2] >= 0) & present(back)
    both = ((a[..., 2] >= 0) & (b[..., 2] >= 0))[..., None]
    return np.where(both, plain, np.where(cut[..., None], np.where(own, by_front, plain + by_back), 0.0))
