"""Functions of the face form: outlines of faces, enlarged faces, the nearest edge of a face, windows of a mask.

None has a derivative. They choose a face, an edge or a band; ordinary Functions compute from that choice whatever depends
smoothly on the vertices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.types import INT, VEC3, VEC4, Size, list_size
from ..lists import at_points
from ..surface.quads import across, box, direction, on_image, quads
from ..surface.screen import AREA_MINIMUM, face_cross, shown, spanned
from .edges.point_distance import squared_distance

_Corner = tuple[Variable, Variable]
"""The number of a vertex, INT, and its depth."""


def face_segments(faces: Variable, vertex: Variable, count: int, cull: int) -> Variable:
    """IVEC2 list: for each of ``count`` faces three segments of its outline: from which vertex to which.

    a-b, b-c and a-c, with the corners in ascending order of their numbers, so that two faces compute a shared edge from the
    same bits. The near plane cuts a face that crosses it to a quadrilateral a-b-d-c or a triangle a-b-c. The corners beyond
    the plane come first (of two the farther one), so that each segment starts there. The cut itself is no segment; a
    clipped second segment repeats a-b. (0, 0) for faces that are not drawn.
    """
    index = F.linear_index(list_size(3 * count))
    face, k = F.minimum(index / 3, count - 1), index % 3
    own = F.lookup(faces, face)
    numbers = own.x, own.y, own.z
    places = [F.lookup(vertex, number) for number in numbers]
    a, b, c = ((number, place.z) for number, place in zip(numbers, places, strict=True))
    a, b = _ordered(a, b)
    b, c = _ordered(b, c)
    a, b = _ordered(a, b)
    turned = F.logical_and(F.less(c[1], 0.0), F.greater(b[1], a[1]))
    first, second = F.select(turned, b[0], a[0]), F.select(turned, a[0], b[0])
    starts = F.logical_and(F.equal(k, 1), F.greater_equal(b[1], 0.0))
    goes = F.select(F.logical_or(starts, F.equal(k, 2)), c[0], second)
    found = F.ivec2(F.select(starts, second, first), goes)
    return F.select(shown(*places, cull=cull), found, 0)


def _ordered(one: _Corner, two: _Corner) -> tuple[_Corner, _Corner]:
    """Two corners: those in front of the near plane last, else in ascending order."""
    near, other = F.less(one[1], 0.0), F.less(two[1], 0.0)
    swap = F.select(F.equal(near, other), F.greater(one[0], two[0]), near)
    first, second = ((F.select(swap, q, p), F.select(swap, p, q)) for p, q in zip(one, two, strict=True))
    return (first[0], second[0]), (first[1], second[1])


def enlarged(reach: Variable, ends: Variable, count: int, size: Size) -> Variable:
    """VEC4 list: six clip-space corners a face, which cover all points within ``reach`` (FLOAT 1x1, image heights) of it.

    ends: of its three segments, on the screen, VEC4 list. The corners form whichever is smaller: one triangle with its sides
    moved outward (the second collapses), or, for obtuse and small faces, a box along the longest side. (The paper uses a box
    along the axes for angles below 30 degrees, which covers a fifth more pixels.) Faces without area collapse.
    """
    at = quads(count)
    segments = [F.lookup(ends, at.number * 3 + k) for k in range(3)]
    a, b, c, d = segments[0].xy, segments[0].zw, segments[2].zw, segments[1].zw
    twice = F.abs(spanned(b - a, c - a))
    # What the near plane leaves of a face has four corners: a box along the whole side.
    along = direction(b - a)
    (behind, ahead), (low, high) = (
        _extents([F.dot(way, v - a) for v in (b, c, d)]) for way in (along, across(along))
    )
    reaches = {"behind": behind + reach, "ahead": ahead + reach, "low": low + reach, "high": high + reach}
    four = box(at, a, a, along, **reaches)
    sides = F.length(b - c), F.length(c - a), F.length(a - b)
    around, longest = sides[0] + sides[1] + sides[2], F.maximum(F.maximum(sides[0], sides[1]), sides[2])
    # Scaled about the centre of the inscribed circle, every side moves outward by the same length.
    grown = 1.0 + reach * around / F.maximum(twice, 1e-30)
    centre = (a * sides[0] + b * sides[1] + c * sides[2]) / F.maximum(around, 1e-30)
    own = F.select(F.equal(at.corner, 0), a, F.select(F.equal(at.corner, 1), b, c))
    moved = centre + (own - centre) * grown
    # A box along the longest side, from its first end.
    first, second = F.equal(sides[0], longest), F.equal(sides[1], longest)
    start, end, top = (
        F.select(first, p, F.select(second, q, r)) for p, q, r in ((b, c, a), (c, a, b), (a, b, c))
    )
    along, tall = direction(end - start), twice / F.maximum(longest, 1e-30)
    below = F.less(F.dot(top - start, across(along)), 0.0)
    low, high = F.select(below, tall, 0.0) + reach, F.select(below, 0.0, tall) + reach
    flat = box(at, start, end, along, behind=reach, ahead=reach, low=low, high=high)
    small = F.less(0.5 * twice * grown * grown, (longest + 2.0 * reach) * (tall + 2.0 * reach))
    cut = F.logical_and(F.greater(F.length(c - d), 0.0), F.greater(F.length(b - d), 0.0))
    drawn = on_image(F.select(cut, four, F.select(small, moved, flat)), (size[0] / size[1], 1.0))
    second = F.logical_and(F.greater(at.corner, 2), F.logical_and(small, F.logical_not(cut)))
    nowhere = F.logical_or(F.less_equal(twice, AREA_MINIMUM), second)
    return F.select(nowhere, (0.0, 0.0, 0.5, 1.0), drawn)


def _extents(places: Sequence[Variable]) -> tuple[Variable, Variable]:
    """How far places on a line reach below 0 and above."""
    low, high = F.constant(0.0), F.constant(0.0)
    for place in places:
        low, high = F.maximum(low, -place), F.maximum(high, place)
    return low, high


def face_records(ends: Variable, pairs: Variable, vertex: Variable, faces: Size) -> tuple[Variable, ...]:
    """The data of each face that ``NearestEdge`` reads: three lists of the size ``faces``.

    ends: VEC4 of the segments ``pairs`` (``face_segments``) on the screen.  VEC4 (a, b), VEC4 (c, d), VEC3 depths of
    a, b and c: 0 where the near plane cuts.
    """
    first = F.linear_index(faces) * 3
    segment = [F.lookup(ends, first + k) for k in range(3)]
    near, far = F.lookup(pairs, first), F.lookup(pairs, first + 2)
    depths = [F.maximum(F.lookup(vertex, at).z, 0.0) for at in (near.x, near.y, far.y)]
    return segment[0], F.vec4(segment[2].zw, segment[1].zw), F.vec3(*depths)


class NearestEdge(PixelFunction):
    """Inputs (face INT, its three records): VEC3 (dist, depth, segment) at the centre of the pixel.

    dist: signed distance to the nearest segment of the outline.  depth: by equation (3), as a device stores
    it.  segment: 0, 1 or 2. (-2, 2, -1) where the face is -1. No derivative: the differentiable distance is computed from
    the ends of the segment. Nothing, as for the face -1, where the nearest point of the face lies beyond the far plane.
    """

    operations = 70.0
    no_derivative = "chooses an edge; compute the distance from the ends of the edge chosen"
    includes = ("face.glsl",)
    glsl = "$y = $0 < 0 ? vec3(-2.0, 2.0, -1.0)\n : face_nearest((vec2(pixel) + 0.5) / float($size.y), $1, $2, $3);"

    def known_value(self, known):
        return np.array((-2.0, 2.0, -1.0)) if 0 in known and known[0] < 0 else None

    def infer(self):
        if [x.vtype for x in self.inputs] != [INT, VEC4, VEC4, VEC3]:
            raise self.fail("needs an INT face and its records, VEC4, VEC4 and VEC3")
        return VEC3, self.broadcast()

    def evaluate(self, at, face, one, two, depths):
        x, y, _ = at_points(at)
        a, b, c, d = one[..., :2], one[..., 2:], two[..., :2], two[..., 2:]
        p = (np.stack([x, y], axis=-1) + 0.5) / self.output.size[1]
        area = face_cross(b - a, c - a)
        cross = np.stack([face_cross(c - b, p - b), -face_cross(c - a, p - a), face_cross(b - a, p - a)])
        with np.errstate(all="ignore"):
            depth = (cross * np.moveaxis(depths, -1, 0)).sum(0) / area
        within = np.stack([face_cross(d - b, p - b), cross[1], cross[2]])
        inside = (within * np.sign(area) >= 0).all(0) & (depth >= 0)
        squared = np.stack([squared_distance(p, *ends) for ends in ((a, b), (b, d), (a, c))])
        away = np.sqrt(squared.min(0))
        best = squared.argmin(0)
        start = np.where((best == 1)[..., None], b, a)
        u = np.choose(best[..., None], [b, d, c]) - start
        along = ((p - start) * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30)
        q = start + np.clip(along, 0, 1)[..., None] * u
        beside = np.stack([face_cross(c - b, q - b), -face_cross(c - a, q - a), face_cross(b - a, q - a)])
        with np.errstate(all="ignore"):
            beyond = np.where(inside, depth, (beside * np.moveaxis(depths, -1, 0)).sum(0) / area) > 1
        shifted = np.where(inside, 0.5 * np.clip(depth, 0, 1), 0.5 + 0.5 * away).astype(np.float32)
        found = np.stack([np.where(inside, away, -away), shifted, best], axis=-1)
        return np.where(((face < 0) | beyond)[..., None], (-2.0, 2.0, -1.0), found)
