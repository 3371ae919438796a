"""How a view sees the edges of a mesh: their ends clipped at the near and the far plane, the side of the mesh, the front face beside them.

An edge is a silhouette if all faces drawn at it lie on one side of its projection. Distances from outside may be taken to
any superset of the silhouettes: from a point that the mesh does not cover, the way to an edge inside the mesh crosses the
outline, which is nearer. So an edge in doubt is drawn, on both sides.

The side does not depend on where a face ends: the part of the face beyond the near plane lies on the side given by the
sign of the homogeneous area, wherever the third corner is.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.ops.pixel.shortcut import shortcut
from ....ad.transform.fused import fused
from ....ad.types import INT, IVEC2, IVEC3, IVEC4, VEC4, Access
from ...lists import at_points, read_list
from ...surface.projection import FARTHEST
from ...surface.screen import (
    AREA_MINIMUM,
    DrawnMesh,
    common_batch,
    covered,
    culling,
    face_cross,
    is_present,
    present,
    spanned,
)
from .edge_list import HIDDEN, EdgeList
from .segments import segment

APART = 1 / 16
"""Pixels. Copies of a vertex that are farther apart do not lie at one place; drivers round corners to a grid of this width."""
NOWHERE = 1e30
"""Sentinel slope of a missing face."""


def seen_ends(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """VEC4 list like ``edges.list``: the ends (a, b) of the edges on the screen. No derivative."""
    return segment(mesh.points.vertex, edges.list.x, edges.list.y)


def ends_of(mesh: DrawnMesh, edges: EdgeList, edge: Variable) -> tuple[Variable, Variable]:
    """IVEC2 and VEC4: the two vertices of edge number ``edge`` (INT) at each pixel, and its ends on the screen, which are
    differentiable in position. Without an edge (-1) the vertices are -1, so that no vertex gets a gradient."""
    pair = F.select(covered(edge), F.lookup(edges.list, edge).xy, -1)
    moving = segment(mesh.points.smooth, pair.x, pair.y)
    if edges.joints is not None:
        # Either face moves the edge as the other does.
        other = F.select(covered(edge), F.lookup(edges.joints, edge).xy, -1)
        both = F.lookup(F.equal(_joined(mesh, edges), 1.0), edge)
        moving = F.mix(moving, segment(mesh.points.smooth, other.x, other.y), 0.5 * both)
    return pair, shortcut(F.lookup(seen_ends(mesh, edges), edge), moving)


def _joined(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """FLOAT list: 1 and -1 for the two entries of an edge whose ends have copies (``EdgeList.joints``) that lie at one place, 2 and -2
    where they are apart; 0 for other edges. No derivative."""
    assert edges.joints is not None
    copies = segment(mesh.points.vertex, edges.joints.x, edges.joints.y)
    away = F.max_component(F.abs(seen_ends(mesh, edges) - copies))
    return F.to_float(edges.joints.z) * (1.0 + F.greater(away, APART / mesh.size[1]))


def edge_sides(mesh: DrawnMesh, edges: EdgeList) -> Variable:
    """INT list like ``edges.list``: where the mesh lies beside each edge. No derivative.

    1 or -1: on the side where face_cross(b - a, x - a) has that sign.  0: on both, or undecided: faces seen edge-on,
    or without area.  HIDDEN: no face is drawn, or faces lie on both sides; no silhouette. Faces with a missing corner,
    and, where those turned away are culled, these, do not count.
    """
    ends, cull = seen_ends(mesh, edges), culling(mesh.cull)
    a, b, c, d = (F.lookup(mesh.points.vertex, F.component(edges.list, i)) for i in range(4))
    if edges.joints is None:
        return F.to_int(_side(ends, a, b, c, d, cull=cull))
    # A face whose vertices lie elsewhere is not at the edge, like one that is missing; of two entries at one place one is drawn.
    joined = _joined(mesh, edges)
    c, d = (F.select(F.equal(joined, apart), 0.0, corner) for apart, corner in ((-2.0, c), (2.0, d)))
    side = F.to_int(_side(ends, a, b, c, d, cull=cull))
    return F.select(F.equal(joined, -1.0), HIDDEN, side)


@fused
def _side(ends: Variable, a: Variable, b: Variable, c: Variable, d: Variable, *, cull: int) -> Variable:
    """FLOAT: ``edge_sides`` of an edge from a to b, by the third corners of its faces."""
    first, second = _face_side(ends, c, cull), _face_side(ends, d, -cull)
    one = F.equal(F.maximum(first, second), HIDDEN)
    both = F.select(F.equal(first, second), first, F.select(F.less(first * second, 0.0), HIDDEN, 0.0))
    side = F.select(one, F.minimum(first, second), both)
    usable = F.less(F.max_component(F.abs(ends)), FARTHEST)
    between = F.logical_and(F.greater_equal(F.maximum(a.z, b.z), 0.0), F.less_equal(F.minimum(a.z, b.z), 1.0))
    seen = F.logical_and(F.logical_and(present(a), present(b)), F.logical_and(usable, between))
    return F.select(seen, side, HIDDEN)


def _face_side(ends: Variable, c: Variable, facing: int) -> Variable:
    """FLOAT: where a face lies beside an edge, by its third corner; facing: the sign of its area if turned to the viewer, 0
    where both sides are drawn."""
    w = F.select(F.less(c.z, 0.0), c.w, 1.0)
    u = ends.zw - ends.xy
    area = spanned(u, c.xy - ends.xy * w)
    far = F.maximum(F.max_component(F.abs(ends)) * F.abs(w), F.max_component(F.abs(c.xy)))
    # Below this the sign may be rounding; such a face is as good as a line.
    doubt = AREA_MINIMUM + 1e-5 * (F.abs(w) + far) * F.length(u)
    shown = present(c)
    if facing:
        shown = F.logical_and(shown, F.greater(area * float(facing), AREA_MINIMUM))
    return F.select(shown, F.select(F.greater(F.abs(area), doubt), F.sign(area), 0.0), float(HIDDEN))


def _seen(a: np.ndarray, b: np.ndarray, ends: np.ndarray) -> np.ndarray:
    near = (np.abs(ends) < FARTHEST).all(-1)
    between = (np.maximum(a[..., 2], b[..., 2]) >= 0) & (np.minimum(a[..., 2], b[..., 2]) <= 1)
    return is_present(a) & is_present(b) & between & near


def _spanned(ends: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(area, w, offset of the corner from the first end) of faces at edges, times w for a corner nearer than the near plane."""
    w = np.where(c[..., 2] < 0, c[..., 3], 1.0)
    offset = c[..., :2] - w[..., None] * ends[..., :2]
    return face_cross(ends[..., 2:] - ends[..., :2], offset), w, offset


class EdgeFront(PixelFunction):
    """Inputs (edges IVEC4, ends VEC4, around IVEC2, faces IVEC3, vertex VEC4, all lists): INT list like ``edges``.

    The number of the front face beside each edge: of the faces drawn at it, preferably those with an area, the one whose
    depth falls fastest with the distance to the edge. -1 if none is drawn.
    """

    operations, fetches = 191.0, math.inf
    zero_derivative = True
    ranges = 2
    fields = ("cull",)
    cull: int
    includes = ("face.glsl", "edge.glsl")

    @property
    def iterations(self) -> int:
        around = self.inputs[2].data
        return 2 if around is None else int(around[..., 1].max(initial=0))  # faces at an edge

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) * 3 + (Access.FETCH,) * 2

    def infer(self):
        edges, ends, around, *_ = self.inputs
        kinds = [x.vtype for x in self.inputs]
        if kinds != [IVEC4, VEC4, IVEC2, IVEC3, VEC4] or not edges.size == ends.size == around.size:
            raise self.fail("needs the lists of edge_list(), seen_ends() and project()")
        return INT, Domain(edges.size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        read = "$4(face_texel(%s, $size4), tile)"
        return (
            f"ivec4 e = $0;\nvec4 a = {read % 'e.x'}, b = {read % 'e.y'}, ends = $1;\n"
            "vec2 depths = clamp(vec2(a.z, b.z), 0.0, 1.0);\n"
            "float nearest = EDGE_NOWHERE;\n$y = -1;\n"
            "if (edge_seen(a, b, ends)) for (int k = $2.x; k < $2.x + $2.y; ++k) {\n"
            "  ivec3 f = $3(face_texel(k, $size3), tile);\n"
            f"  float rise = edge_rise(ends, depths, {read % 'f.y'}, {self.cull}.0 * float(f.z));\n"
            "  if (rise < nearest) { nearest = rise; $y = f.x; }\n}"
        )

    def evaluate(self, at, edges, ends, around, faces, vertex):
        tile = at_points(at)[2]
        a, b = (read_list(vertex, tile, np.broadcast_to(edges[..., i], tile.shape)) for i in range(2))
        front, nearest = np.full(tile.shape, -1), np.full(tile.shape, NOWHERE)
        depths = np.clip(a[..., 2], 0, 1), np.clip(b[..., 2], 0, 1)
        for k in range(int(around[..., 1].max(initial=0))):
            index = np.broadcast_to(around[..., 0] + k, tile.shape)
            face = read_list(faces, tile, index)
            c = read_list(vertex, tile, face[..., 1])
            rise = _rise(ends, depths, c, self.cull * face[..., 2])
            closer = (k < around[..., 1]) & (rise < nearest) & _seen(a, b, ends)
            front, nearest = np.where(closer, face[..., 0], front), np.where(closer, rise, nearest)
        return front


def _rise(
    ends: np.ndarray, depths: tuple[np.ndarray, np.ndarray], c: np.ndarray, facing: np.ndarray
) -> np.ndarray:
    area, w, offset = _spanned(ends, c)
    u = ends[..., 2:] - ends[..., :2]
    foot = (u * offset).sum(-1) / np.maximum((u * u).sum(-1), 1e-30)
    height = c[..., 2] - w * depths[0] - foot * (depths[1] - depths[0])
    flat = np.abs(area) <= AREA_MINIMUM
    rise = np.where(flat, NOWHERE / 2, height / np.maximum(np.abs(area), AREA_MINIMUM))
    gone = ~is_present(c) | ((facing != 0) & (area * facing <= AREA_MINIMUM))
    return np.where(gone, NOWHERE, rise)
