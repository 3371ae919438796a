"""What HardSoftRas needs beside the Functions of ``F``: enlarged faces, their nearest edges, windows of a mask.

None has a derivative: they choose (a face, an edge, a band), and what depends smoothly on the vertices is computed
from the choice by ordinary Functions.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..ad.graph import Domain, PixelFunction, Variable
from ..ad.types import FLOAT, INT, VEC2, VEC4, Access, Size, list_size
from .screen import Faces, at_points, common_batch, dropped, face_cross


class Enlarge(Faces):
    """Inputs (reach FLOAT, faces, vertex): six clip-space corners a face, VEC4 list of 6 x ``faces``.

    The triangle (or two) covers everything within ``reach`` (image heights) of the face, with the smaller area of
    two ways: the triangle with its sides moved outward, the other collapsed; or, for obtuse and small faces, the
    box along the longest side. (The paper takes the box, along the axes, for angles below 30 degrees: a fifth
    more pixels.) Faces that are not drawn collapse.
    """

    fields = ("count", "size", "cull")

    def __init__(self, reach: Variable, faces: Variable, vertex: Variable, count: int, size: Size, cull: int):
        self.count, self.size, self.cull = count, size, cull
        super().__init__(reach, faces, vertex)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.FETCH)

    def infer(self):
        reach, faces, vertex = self.inputs
        self.check_lists(faces, vertex)
        if reach.vtype is not FLOAT or reach.size != (1, 1):
            raise self.fail("the reach is FLOAT 1x1, a fraction of the image height")
        if not 1 <= self.count <= faces.size[0] * faces.size[1]:
            raise self.fail(f"cannot draw {self.count} faces of a list of {faces.size[0] * faces.size[1]}")
        return VEC4, Domain(list_size(6 * self.count), common_batch(self))

    @cached_property
    def glsl(self) -> str:
        aspect = self.size[0] / self.size[1]
        return (
            "int index = pixel.y * $size.x + pixel.x;\n"
            f"ivec3 f = $1(face_texel(min(index / 6, {self.count - 1}), $size1), tile);\n"
            f"$y = face_enlarged({self.fetch_corners('f', 1, 2)}, index % 6, $0, {aspect!r}, {self.cull});"
        )

    def evaluate(self, at, reach, faces, vertex):
        x, y, tile = at_points(at)
        index = y * self.output.size[0] + x
        f = self.read_list(faces, tile, np.minimum(index // 6, self.count - 1))
        a, b, c = (self.read_list(vertex, tile, f[..., i]) for i in range(3))
        nowhere = dropped(a, b, c, self.cull)
        a, b, c = (v[..., :2] for v in (a, b, c))
        corner, aspect = index % 6, self.size[0] / self.size[1]
        sides = np.stack([np.linalg.norm(u, axis=-1) for u in (b - c, c - a, a - b)])
        around, longest = sides.sum(0), sides.max(0)
        twice = np.abs(face_cross(b - a, c - a))
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
            right = np.where(np.isin(corner, (1, 2, 4)), wide, 0.0) - reach
            up = np.where(np.isin(corner, (2, 4, 5)), high, 0.0) - reach
            box = start + along * right[..., None] + across * up[..., None]
        place = np.where(plain[..., None], moved, box) / (aspect, 1.0) * 2 - 1
        nowhere |= plain & (corner > 2)
        place = np.where(nowhere[..., None], 0.0, place)
        return np.concatenate([place, np.broadcast_to((0.5, 1.0), place.shape)], axis=-1)


class FaceRecord(Faces):
    """Inputs (faces, vertex): VEC4 list like ``faces``, a third of what ``NearestEdge`` has to know of a face.

    With the corners a, b, c in ascending order of their numbers: part 0 is (a.xy, b.xy), part 1 (c.xy, depths of
    a and b), part 2 (depth of c, numbers of a, b and c, exact because a list holds at most 2**24 vertices).
    """

    fields = ("part",)

    def __init__(self, faces: Variable, vertex: Variable, part: int):
        self.part = part
        super().__init__(faces, vertex)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH)

    def infer(self):
        faces, vertex = self.inputs
        self.check_lists(faces, vertex)
        return VEC4, Domain(faces.size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        corners = self.fetch_corners("f", 0, 1)
        return f"ivec3 f = face_sorted($0);\n$y = face_record({self.part}, f, {corners});"

    def evaluate(self, at, faces, vertex):
        tile = at_points(at)[2]
        f = np.broadcast_to(np.sort(faces, axis=-1), (*tile.shape, 3))
        a, b, c = (self.read_list(vertex, tile, f[..., i]) for i in range(3))
        parts = ((a[..., :2], b[..., :2]), (c[..., :2], a[..., 2:], b[..., 2:]), (c[..., 2:], f))
        return np.concatenate(parts[self.part], axis=-1)


class NearestEdge(PixelFunction):
    """Inputs (face INT, its three records VEC4): VEC4 (dist, depth, first, second) at the centre of the pixel.

    dist: signed distance to the nearest edge.  depth: shifted by equation (3), as a device stores it.  first and
    second: numbers of that edge's ends. (-2, 2, -1, -1) where the face is -1. No derivative: what depends smoothly
    on the vertices is built from the ends.
    """

    includes = ("face.glsl",)
    glsl = (
        "$y = $0 < 0 ? vec4(-2.0, 2.0, -1.0, -1.0)\n"
        " : face_nearest((vec2(pixel) + 0.5) / float($size.y), $1, $2, $3);"
    )

    def settled(self, known):
        return np.array((-2.0, 2.0, -1.0, -1.0)) if 0 in known and known[0] < 0 else None

    def infer(self):
        if [x.vtype for x in self.inputs] != [INT, VEC4, VEC4, VEC4]:
            raise self.fail("needs an INT face and its three VEC4 records")
        return VEC4, self.broadcast()

    def evaluate(self, at, face, one, two, three):
        x, y, _ = at_points(at)
        a, b, c = one[..., :2], one[..., 2:], two[..., :2]
        p = (np.stack([x, y], axis=-1) + 0.5) / self.output.size[1]
        area = face_cross(b - a, c - a)
        cross = np.stack([face_cross(c - b, p - b), -face_cross(c - a, p - a), face_cross(b - a, p - a)])
        inside = (cross * np.sign(area) >= 0).all(0)
        squared = np.stack([squared_distance(p, *ends) for ends in ((a, b), (b, c), (a, c))])
        nearest = squared.argmin(0)
        away = np.sqrt(squared.min(0))
        depths = (two[..., 2], two[..., 3], three[..., 0])
        with np.errstate(all="ignore"):
            depth = sum(w * z for w, z in zip(cross, depths, strict=True)) / area
        shifted = np.where(inside, 0.5 * np.clip(depth, 0, 1), 0.5 + 0.5 * away).astype(np.float32)
        first = np.where(nearest == 1, three[..., 2], three[..., 1])
        second = np.where(nearest == 0, three[..., 2], three[..., 3])
        found = np.stack([np.where(inside, away, -away), shifted, first, second], axis=-1)
        return np.where((face < 0)[..., None], (-2.0, 2.0, -1.0, -1.0), found)


def squared_distance(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    u, q = b - a, p - a
    t = ((q * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30))[..., None]
    away = np.where(t <= 0, q, np.where(t >= 1, p - b, q - t * u))
    return (away * away).sum(-1)


class Extremes(PixelFunction):
    """Inputs (image, reach INT): VEC2 (smallest, largest) within +-reach texels along ``axis``, cut at the border.

    The image is FLOAT, or VEC2 of such extremes along the other axis. No derivative.
    """

    fields = ("axis",)

    def __init__(self, image: Variable, reach: Variable, axis: str):
        self.axis = axis
        super().__init__(image, reach)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    def infer(self):
        image, reach = self.inputs
        if image.vtype not in (FLOAT, VEC2) or reach.vtype is not INT:
            raise self.fail("needs a FLOAT or VEC2 image and an INT reach")
        if reach.size != (1, 1) or reach.batch not in (1, image.batch):
            raise self.fail("the reach is one texel")
        return VEC2, image.domain

    @cached_property
    def glsl(self) -> str:
        step = "ivec2(i, 0)" if self.axis == "x" else "ivec2(0, i)"
        return (
            "$y = vec2($0(pixel, tile));\n"
            f"for (int i = -$1; i <= $1; ++i) {{\n"
            f"  vec2 found = vec2($0(clamp(pixel + {step}, ivec2(0), $size0 - 1), tile));\n"
            "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}"
        )

    def evaluate(self, at, image, reach):
        x, y, tile = at_points(at)
        image = image if image.ndim == 4 else np.stack([image, image], axis=-1)
        reach = np.broadcast_to(reach, x.shape)
        width, height = self.inputs[0].size
        low, high = image[tile, y, x, 0], image[tile, y, x, 1]
        for i in range(-int(reach.max()), int(reach.max()) + 1):
            moved = (
                (np.clip(x + i, 0, width - 1), y) if self.axis == "x" else (x, np.clip(y + i, 0, height - 1))
            )
            found = image[tile, moved[1], moved[0]]
            use = np.abs(i) <= reach
            low = np.where(use, np.minimum(low, found[..., 0]), low)
            high = np.where(use, np.maximum(high, found[..., 1]), high)
        return np.stack([low, high], axis=-1)
