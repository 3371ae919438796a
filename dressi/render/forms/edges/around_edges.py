"""Shared by the forms that draw edges: the nearest edge at every pixel, the distance to it, and the face there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.graph.types import FLOAT, INT, IVEC3, VEC2, Access, Size
from ....ad.ops.image.draws import Fragment
from ....ad.ops.pixel.kinds import Alias, shortcut
from ....ad.transform.gradient import local_gradient, local_jvp
from ...core.lists import at_points, read_list
from ...surface.screen import (
    Corners,
    DrawnMesh,
    Faces,
    common_batch,
    covered,
    culling,
    is_present,
    pixel_centres,
)
from .edge_list import HIDDEN, OUTWARD, EdgeFront, EdgeList, edge_quads, ends_of, seen_ends


class NearestPoint(NamedTuple):
    """The nearest point of all drawn edges, at every pixel within the radius of one."""

    edge: Variable
    """INT: the edge, -1 for none. No derivative."""
    found: Variable
    """FLOAT mask: an edge was found."""
    ends: Variable
    """IVEC2: the two vertices of the edge, -1 for none."""
    place: Variable
    """FLOAT in [0, 1]: position of the point along the visible part of the edge, on the screen; differentiable."""
    point: Variable
    """VEC2: the point on the screen; differentiable."""
    distance: Variable
    """FLOAT: distance from the pixel centre to the point, in image heights; differentiable. Undefined without an edge."""
    copies: Variable | None = None
    """IVEC2: the vertices that the other face at the edge has at ``ends``, if these are others (``EdgeList.joints``)."""


def rasterize_edges(
    mesh: DrawnMesh, edges: EdgeList, sides: Variable, reach: Variable, fragment: Fragment
) -> Variable:
    """INT: the edge of the winning fragment at each pixel, -1 for none. Draws the edges whose ``sides`` are not HIDDEN; their
    fragments cover all points within ``reach`` (FLOAT 1x1, image heights)."""
    quads = edge_quads(reach, seen_ends(mesh, edges), sides, edges.count, mesh.size)
    return F.rasterize(
        quads,
        size=mesh.size,
        triangles=2 * edges.count,
        triangles_per_face=2,
        live=F.not_equal(sides, HIDDEN),
        fragment=fragment,
    )


def draw_edges(
    mesh: DrawnMesh,
    edges: EdgeList,
    sides: Variable,
    radius: Variable,
    counts: Callable[[Variable, Variable], Variable],
) -> NearestPoint:
    """The nearest of the edges whose ``sides`` are not HIDDEN, within the radius.

    counts(ends, edge): FLOAT mask, whether edge number ``edge``, with its ends (a, b) on the screen, counts at the pixel.
    """
    size, ends = mesh.size, seen_ends(mesh, edges)

    def fragment(edge: Variable) -> tuple[Variable, Variable]:
        own = F.lookup(ends, edge)
        away = edge_distance(size, own)
        return away, F.logical_and(counts(own, edge), F.less_equal(away, radius))

    nearest = rasterize_edges(mesh, edges, sides, radius + OUTWARD / size[1], fragment)
    pair, at = ends_of(mesh, edges, nearest)
    a, b = at.xy, at.zw
    centres = pixel_centres(size)
    place = place_on(centres, a, b)
    point, away = F.mix(a, b, place), point_distance(centres, a, b, place)
    copies = None
    if edges.joints is not None:
        other = F.lookup(edges.joints, nearest)
        copies = F.select(F.logical_and(covered(nearest), F.not_equal(other.z, 0)), other.xy, pair)
    return NearestPoint(nearest, covered(nearest), pair, place, point, away, copies)


def face_beside(mesh: DrawnMesh, edges: EdgeList, near: NearestPoint) -> Variable:
    """INT: the number of the face in front beside the nearest edge, -1 without an edge."""
    lists = edges.list, seen_ends(mesh, edges), edges.around, edges.faces
    front = EdgeFront(*lists, mesh.points.vertex, culling(mesh.cull)).output
    return F.select(near.found, F.lookup(front, near.edge), -1)


def weights_on_edge(mesh: DrawnMesh, near: NearestPoint, at: Corners) -> Variable:
    """VEC3: perspective-correct weights of the corners ``at`` of a face at the nearest point of one of its edges.
    Differentiable in position."""
    a, b = (F.lookup(mesh.position, F.component(near.ends, i)) for i in range(2))
    (w, moved), (other, back) = _reached(a, b), _reached(b, a)
    # Weights divided by w are linear on the screen.
    start, end = (1.0 - near.place) * other, near.place * w
    total = start + end
    end = F.select(F.greater(total, 0.0), end / total, 0.0)
    end = moved + end * (1.0 - moved - back)  # along the whole edge

    def is_end(corner: Variable, i: int) -> Variable:
        own, *others = (F.component(e, i) for e in (near.ends, near.copies) if e is not None)
        return (
            F.equal(corner, own)
            if not others
            else F.logical_or(F.equal(corner, own), F.equal(corner, others[0]))
        )

    def weight(corner: Variable) -> Variable:
        return F.select(is_end(corner, 0), 1.0 - end, F.select(is_end(corner, 1), end, 0.0))

    # A face that uses a vertex twice is a line; each vertex counts once.
    first, second, third = at
    again = (F.equal(second, first), F.logical_or(F.equal(third, first), F.equal(third, second)))
    rest = [F.select(known, 0.0, weight(c)) for known, c in zip(again, at[1:], strict=True)]
    return F.select(near.found, F.vec3(weight(first), *rest), 0.0)


def _reached(a: Variable, b: Variable) -> tuple[Variable, Variable]:
    """w of the end a after clipping at the near or the far plane, and how far clipping moved it toward b, as a fraction of the
    edge."""
    far = F.greater(a.z, a.w)
    outside, other = (
        F.select(far, v.w - v.z, v.z) for v in (a, b)
    )  # how far inside of the plane, below 0 beyond it
    cut = F.logical_and(F.less(outside, 0.0), F.greater_equal(other, 0.0))
    moved = F.select(cut, outside / F.select(cut, outside - other, 1.0), 0.0)
    return a.w + moved * (b.w - a.w), moved


# The distance of points to segments on the screen, differentiable any number of times.


class PointDistance(Alias):
    """Inputs (distance FLOAT, p VEC2, a VEC2, b VEC2, place FLOAT): the distance of p to the segment from a to b.

    ``place`` in [0, 1] is that of the nearest point q along the segment, ``distance`` that of p to q. To first order
    the distance does not change with the place: inside the segment p - q is perpendicular to it, at an end the place
    stays. So gradients hold it fixed. Further derivatives are those of ``_distance``, where q slides along the segment.
    Differentiable in p, a and b.
    """

    def infer(self):
        if [x.vtype for x in self.inputs] != [FLOAT, VEC2, VEC2, VEC2, FLOAT]:
            raise self.fail(
                "needs the distance, a point and the ends of a segment, VEC2, and the place on it"
            )
        return super().infer()

    def vjp(self, gy, i):
        if i in (0, 4):
            return None
        _, p, a, b, place = self.inputs
        held = gy * F.normalize(p - F.mix(a, b, place))
        if i > 1:
            held = -held * (1.0 - place if i == 2 else place)
        return shortcut(held, local_gradient(_distance, (p, a, b), i - 1, gy))

    def jvp(self, tangents):
        return local_jvp(_distance, self.inputs[1:4], tangents[1:4])


def _distance(p: Variable, a: Variable, b: Variable) -> Variable:
    along, offset = b - a, p - a
    across, length = F.dot(offset, along), F.dot(along, along)
    inside = F.logical_and(F.greater(across, 0.0), F.less(across, length))
    end = F.greater(across, 0.0)
    place = F.select(inside, across / F.select(inside, length, 1.0), end)
    return F.length(p - F.mix(a, b, place))


def point_distance(p: Variable, a: Variable, b: Variable, place: Variable) -> Variable:
    """FLOAT: distance of p to the point at ``place`` in [0, 1], the nearest one of the segment from a to b, VEC2.

    Differentiable in p, a and b, twice too.
    """
    return PointDistance(F.length(p - F.mix(a, b, place)), p, a, b, place).output


def place_on(p: Variable, a: Variable, b: Variable) -> Variable:
    """FLOAT in [0, 1]: the place of the point nearest to p on the segment from a to b, VEC2. Differentiable."""
    along = b - a
    return F.clamp(F.dot(p - a, along) / F.maximum(F.dot(along, along), 1e-30))


def edge_distance(size: Size, ends: Variable) -> Variable:
    """FLOAT of ``size``: the distance of the pixel centres to the segment from ``ends.xy`` to ``ends.zw``. Beyond an end it is
    exactly that to the end, so that edges which meet there tie. For choosing an edge: gradients are those of a fixed place."""
    p, a, b = pixel_centres(size), ends.xy, ends.zw
    place = place_on(p, a, b)
    return F.length(F.select(F.less(place, 1.0), (p - a) - (b - a) * place, p - b))


def squared_distance(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(...) of points p to segments from a to b, (..., 2) each."""
    u, q = b - a, p - a
    t = ((q * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30))[..., None]
    away = np.where(t <= 0, q, np.where(t >= 1, p - b, q - t * u))
    return (away * away).sum(-1)


# Walks over a surface on the screen.

STEPS = 12
"""How many faces a walk passes at most."""
WHOLE = 1 << 12
"""The length of a way, where walks say how far along it they end."""
FLAT = 1e-12
"""Square image heights. A face with at most this area is seen edge-on: a walk cannot start on it."""


class Walk(Faces):
    """Inputs (face INT, start VEC2, goal VEC2, faces IVEC3 list, neighbours IVEC3 list, vertex VEC4 list): IVEC3, the end of the
    way from ``start`` to ``goal``, on the screen, over the surface that has ``face`` at ``start``: (its last face, the corner
    opposite to the side where the surface ends, -1 at the goal, and how far along the way that is, in 1 / WHOLE).

    Walks from ``start``, a point of ``face``, straight to ``goal``, over edges to the ``neighbours`` (``EdgeList``). The
    walk ends early on the last face before a border or a fold of the surface, and after STEPS faces. (-1, -1, WHOLE) without
    a face, and where ``face`` is seen edge-on.
    """

    operations, fetches = 200.0, 10.0
    zero_derivative = True
    includes = ("face.glsl", "inner.glsl")

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) * 3 + (Access.FETCH,) * 3

    def infer(self):
        face, start, goal, faces, neighbours, vertex = self.inputs
        self.check_lists(faces, vertex)
        if [face.vtype, start.vtype, goal.vtype, neighbours.vtype] != [INT, VEC2, VEC2, IVEC3]:
            raise self.fail("needs an INT face, a start and a goal on the screen, VEC2, and IVEC3 neighbours")
        return IVEC3, Domain(face.size, common_batch(self))

    def known_value(self, known):
        return np.array((-1, -1, WHOLE)) if 0 in known and (np.asarray(known[0]) < 0).all() else None

    @cached_property
    def glsl(self) -> str:
        corners = self.fetch_corners("f", 3, 5)
        return (
            "int face = $0, before = -1;\nvec2 start = $1, goal = $2;\nfloat facing = 0.0;\n"
            f"$y = ivec3(-1, -1, {WHOLE});\n"
            f"for (int k = 0; k < {STEPS} && face >= 0; ++k) {{\n"
            "  ivec3 f = $3(face_texel(face, $size3), tile);\n"
            f"  float when;\n  ivec2 found = inner_exit({corners}, start, goal, facing, when);\n"
            "  if (found.x == 0) break;\n"
            f"  $y = ivec3(face, found.y, int(when * {float(WHOLE)!r} + 0.5));\n"
            "  if (found.y < 0) break;\n"
            "  int next = $4(face_texel(face, $size4), tile)[found.y];\n"
            "  if (next == before) break;\n"
            "  before = face;\n  face = next;\n"
            "}"
        )

    def evaluate(self, at, face, start, goal, faces, neighbours, vertex):
        tile = at_points(at)[2]
        face = np.broadcast_to(face, tile.shape)
        last, side, when = walk(face, start, goal, tile, faces, neighbours, vertex)
        return np.stack([last, side, np.floor(when * WHOLE + 0.5).astype(np.int64)], axis=-1)


def walk(
    face: np.ndarray,
    start: np.ndarray,
    goal: np.ndarray,
    tile: np.ndarray,
    faces: np.ndarray,
    neighbours: np.ndarray,
    vertex: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of walks like those of ``Walk``: the last face; the corner opposite to the side that they would pass next, -1
    where the face contains the goal; and where this side is along the way, 1 at the goal."""
    found, sides, passed = np.full(tile.shape, -1), np.full(tile.shape, -1), np.ones(tile.shape)
    live = np.nonzero(face >= 0)  # the walks that go on
    start, goal = (np.broadcast_to(p, (*tile.shape, 2))[live] for p in (start, goal))
    face, tile = face[live], tile[live]
    before, facing = np.full(face.shape, -1), np.zeros(face.shape)
    for _ in range(STEPS if face.size else 0):
        f = read_list(faces, tile, face)
        v = np.stack([read_list(vertex, tile, f[:, i]) for i in range(3)])
        w = np.where(v[..., 2] < 0, v[..., 3], 1.0)[..., None]
        u = [[v[i, :, :2] - p * w[i] for i in range(3)] for p in (start, goal)]
        spans = [[_span(x[(k + 1) % 3], x[(k + 2) % 3]) for k in range(3)] for x in u]
        area = sum(spans[1][k] * w[k, :, 0] for k in range(3))
        sign = np.sign(area)
        good = (np.abs(area) > FLAT) & is_present(v).all(0) & ((facing == 0) | (facing == sign))
        found[tuple(c[good] for c in live)] = face[good]
        side, first = np.full(face.shape, -1), np.full(face.shape, np.inf)
        for k in range(3):
            here, there = np.maximum(spans[0][k] * sign, 0), spans[1][k] * sign
            when = np.where(there < 0, here / np.maximum(here - there, 1e-30), np.inf)
            side, first = np.where(when < first, k, side), np.minimum(when, first)
        at_good = tuple(c[good] for c in live)
        sides[at_good], passed[at_good] = side[good], np.where(side < 0, 1.0, first)[good]
        next_ = read_list(neighbours, tile, face)[np.arange(face.size), np.maximum(side, 0)]
        goes = good & (side >= 0) & (next_ != before) & (next_ >= 0)
        if not goes.any():
            break
        live = tuple(c[goes] for c in live)
        before, face, facing = face[goes], next_[goes], sign[goes]
        tile, start, goal = tile[goes], start[goes], goal[goes]
    return found, sides, passed


def _span(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 1] * v[..., 0] - u[..., 0] * v[..., 1]


# Values that are computed by a pass of their own.


class Stored(PixelFunction):
    """Input: any image. Output: the same.

    It fetches its input, so the planner stores the input before the pass that uses the output, and computes it on active
    blocks alone where it is constant elsewhere (``vk/plan/passes/active_blocks``). Without this, values that few
    pixels have would be computed by all pixels together with the values that all have. The gradient is passed through.
    """

    operations, fetches, footprint = 1.0, 1.0, 0
    stores_inputs = True
    glsl = "$y = $0(pixel, tile);"

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        image = self.inputs[0]
        return image.vtype, image.domain

    def known_value(self, known):
        return known.get(0)

    def evaluate(self, at, image):
        x, y, tile = np.broadcast_arrays(at.x, at.y, at.tile)
        return image[tile if len(image) > 1 else np.zeros_like(tile), y, x]

    def vjp(self, gy, i):
        return gy

    def jvp(self, tangents):
        return tangents[0]
