"""Functions of the face form: outlines of faces, enlarged faces, the nearest edge of a face, windows of a mask.

None has a derivative. They choose a face, an edge or a band; ordinary Functions compute from that choice whatever depends
smoothly on the vertices.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.types import FLOAT, INT, IVEC2, VEC3, VEC4, Access, Size, list_size
from ..lists import at_points, read_list
from ..surface.screen import AREA_MINIMUM, Faces, common_batch, dropped, face_cross
from .edges.point_distance import squared_distance


class FaceSegments(Faces):
    """Inputs (faces, vertex): IVEC2 list, for each face three segments of its outline: from which vertex to which.

    a-b, b-c and a-c, with the corners in ascending order of their numbers, so that two faces compute a shared edge from the
    same bits. The near plane cuts a face that crosses it to a quadrilateral a-b-d-c or a triangle a-b-c. The corners beyond
    the plane come first (of two the farther one), so that each segment starts there. The cut itself is no segment; a
    clipped second segment repeats a-b. (0, 0) for faces that are not drawn.
    """

    operations = 156.0
    zero_derivative = True
    fields = ("count", "cull")

    def __init__(self, faces: Variable, vertex: Variable, count: int, cull: int):
        self.count, self.cull = count, cull
        super().__init__(faces, vertex)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.FETCH)

    def reads(self, k: int) -> float:
        return (1.0, 3.0)[k]

    def infer(self):
        faces, vertex = self.inputs
        self.check_lists(faces, vertex)
        if not 1 <= self.count <= faces.size[0] * faces.size[1]:
            raise self.fail(f"cannot draw {self.count} faces of a list of {faces.size[0] * faces.size[1]}")
        return IVEC2, Domain(list_size(3 * self.count), common_batch(self))

    @cached_property
    def glsl(self) -> str:
        return (
            "int index = pixel.y * $size.x + pixel.x;\n"
            f"ivec3 f = $0(face_texel(min(index / 3, {self.count - 1}), $size0), tile);\n"
            f"$y = face_segment(f, {self.fetch_corners('f', 0, 1)}, index % 3, {self.cull});"
        )

    def evaluate(self, at, faces, vertex):
        x, y, tile = at_points(at)
        index = y * self.output.size[0] + x
        f = read_list(faces, tile, np.minimum(index // 3, self.count - 1))
        a, b, c = (read_list(vertex, tile, f[..., i]) for i in range(3))
        z = np.stack([v[..., 2] for v in (a, b, c)], axis=-1)
        order = np.lexsort((f, z < 0))
        f, z = np.take_along_axis(f, order, -1), np.take_along_axis(z, order, -1)
        turn = (z[..., 2] < 0) & (z[..., 1] > z[..., 0])
        f = np.where(turn[..., None], f[..., [1, 0, 2]], f)
        second = np.where((z[..., 1] < 0)[..., None], f[..., :2], f[..., 1:])
        k = (index % 3)[..., None]
        found = np.where(k == 0, f[..., :2], np.where(k == 2, f[..., ::2], second))
        return np.where(dropped(a, b, c, self.cull)[..., None], 0, found)


class Enlarge(PixelFunction):
    """Inputs (reach FLOAT, ends VEC4 list): six clip-space corners a face, VEC4 list.

    ends: of its three segments, on the screen.  The six corners cover all points within ``reach`` (image
    heights) of the face. They form whichever is smaller: one triangle with its sides moved outward (the second
    collapses), or, for obtuse and small faces, a box along the longest side. (The paper uses a box along the axes for
    angles below 30 degrees, which covers a fifth more pixels.) Faces without area collapse.
    """

    operations, fetches = 130.0, 3.0
    no_derivative = "makes triangles to be drawn, and what they cover has no derivative"
    fields = ("count", "size")
    includes = ("face.glsl",)

    def __init__(self, reach: Variable, ends: Variable, count: int, size: Size):
        self.count, self.size = count, size
        super().__init__(reach, ends)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    def infer(self):
        reach, ends = self.inputs
        if ends.vtype is not VEC4 or ends.size[0] * ends.size[1] < 3 * self.count:
            raise self.fail(f"needs VEC4 ends of the {3 * self.count} segments of {self.count} faces")
        if reach.vtype is not FLOAT or reach.size != (1, 1):
            raise self.fail("the reach is FLOAT 1x1, a fraction of the image height")
        return VEC4, Domain(list_size(6 * self.count), common_batch(self))

    @cached_property
    def glsl(self) -> str:
        aspect = self.size[0] / self.size[1]
        read = ", ".join(f"$1(face_texel(first + {k}, $size1), tile)" for k in range(3))
        return (
            "int index = pixel.y * $size.x + pixel.x;\n"
            f"int first = 3 * min(index / 6, {self.count - 1});\n"
            f"$y = face_enlarged({read}, index % 6, $0, {aspect!r});"
        )

    def evaluate(self, at, reach, ends):
        x, y, tile = at_points(at)
        index = y * self.output.size[0] + x
        face, corner, aspect = np.minimum(index // 6, self.count - 1), index % 6, self.size[0] / self.size[1]
        first, second, third = (read_list(ends, tile, 3 * face + k) for k in range(3))
        a, b, c, d = first[..., :2], first[..., 2:], third[..., 2:], second[..., 2:]
        sides = np.stack([np.linalg.norm(u, axis=-1) for u in (b - c, c - a, a - b)])
        around, longest = sides.sum(0), sides.max(0)
        twice = np.abs(face_cross(b - a, c - a))
        right, up = np.isin(corner, (1, 2, 4)), np.isin(corner, (2, 4, 5))
        with np.errstate(all="ignore"):
            grown = 1 + reach * around / twice
            wide, high = longest + 2 * reach, twice / longest + 2 * reach
            plain = 0.5 * twice * grown * grown < wide * high
            centre = sum(s[..., None] * v for s, v in zip(sides, (a, b, c), strict=True)) / around[..., None]
            pick = [(sides[0] == longest)[..., None], (sides[1] == longest)[..., None]]
            start, end = np.select(pick, [b, c], a), np.select(pick, [c, a], b)
            along = (end - start) / longest[..., None]
            across = np.stack([-along[..., 1], along[..., 0]], axis=-1)
            flip = ((np.select(pick, [a, b], c) - start) * across).sum(-1, keepdims=True) < 0
            across = np.where(flip, -across, across)
            chosen = np.select([(corner == 0)[..., None], (corner == 1)[..., None]], [a, b], c)
            moved = centre + (chosen - centre) * grown[..., None]
            over, above = np.where(right, wide, 0.0) - reach, np.where(up, high, 0.0) - reach
            box = start + along * over[..., None] + across * above[..., None]
            # A face cut at the near plane has four corners: it gets a box along the whole side.
            along = (b - a) / sides[2][..., None]
            across = np.stack([-along[..., 1], along[..., 0]], axis=-1)
            place = np.zeros_like(a)
            for axis, positive in ((along, right), (across, up)):
                extent = np.stack([((v - a) * axis).sum(-1) for v in (a, b, c, d)])
                length = np.where(positive, extent.max(0) + reach, extent.min(0) - reach)
                place = place + axis * length[..., None]
        four = ((c != d).any(-1) & (b != d).any(-1))[..., None]
        place = np.where(four, a + place, np.where(plain[..., None], moved, box)) / (aspect, 1.0) * 2 - 1
        nowhere = ~(twice > AREA_MINIMUM) | (~four[..., 0] & plain & (corner > 2))
        place = np.where(nowhere[..., None], 0.0, place)
        return np.concatenate([place, np.broadcast_to((0.5, 1.0), place.shape)], axis=-1)


def face_records(ends: Variable, pairs: Variable, vertex: Variable, faces: Size) -> tuple[Variable, ...]:
    """The data of each face that ``NearestEdge`` reads: three lists of the size ``faces``.

    ends: VEC4 of the segments ``pairs`` (``FaceSegments``) on the screen.  VEC4 (a, b), VEC4 (c, d), VEC3 depths of
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
    the ends of the segment.
    """

    operations = 40.0
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
        shifted = np.where(inside, 0.5 * np.clip(depth, 0, 1), 0.5 + 0.5 * away).astype(np.float32)
        found = np.stack([np.where(inside, away, -away), shifted, squared.argmin(0)], axis=-1)
        return np.where((face < 0)[..., None], (-2.0, 2.0, -1.0), found)
