"""The face form of HardSoftRas (Takimoto et al. 2022, section 3.4): a few hardware-rasterized layers of enlarged faces.

Every face is drawn enlarged by a radius r. A fragment knows its signed distance to the face, hard faces (inside)
come before soft ones (outside), soft ones are ordered by distance, and K layers are peeled off. The definitions:

- dist: to the nearest of the face's three edges (segments), positive inside and on the face, in image heights.
  All edges count, those inside the silhouette too: just inside a shared edge the first layer has dist = d, the
  neighbour's soft face -d. Both sides of a closed mesh are drawn: the two faces that meet at the silhouette leave the
  stack together, and only then does the derivative agree with finite differences of the rendered loss. Culling back
  faces (cull="back") loses that agreement and is meant for speed with coarse targets only.
- a fragment exists where dist >= -r; depth = 0.5 z inside, 0.5 |dist| + 0.5 outside (3); r < 1.
- layers are ordered by (depth, face number); each holds the first fragment after that of the layer before.
- D = sigmoid(dist / sigma), sigma = r / 7; S = layer 1 is hard; E = 1 where the square window of +-delta pixels
  (delta = r, cut at the border of the image) holds hard and other pixels.
- silhouette = E (1 - prod(1 - D)) + (1 - E) S, from (4) and (6); colour by (5), see ``blend``.

A face that crosses the near plane is clipped there. The remaining parts of its three edges count, the line of the cut does
not. Beyond the far plane there are no fragments: where the nearest point of a face lies beyond it, the face is not there.

Two faces that share an edge compute the same bits for their distance to it (the ends are taken in the order of their
numbers), so that every device sees a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from ...ad import functional as F
from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.graph.types import FLOAT, INT, VEC2, VEC3, VEC4, Access, Size, list_size
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..core.lists import at_points
from ..surface.projection import across, box, direction, on_image, quads
from ..surface.screen import (
    AREA_MINIMUM,
    DrawnMesh,
    Surface,
    barycentric,
    corners,
    covered,
    culling,
    face_cross,
    pixel_centres,
    shown,
    spanned,
)
from .edges.around_edges import place_on, point_distance, squared_distance
from .edges.edge_list import segment
from .form import Form, Silhouette, fraction


@dataclass(frozen=True, eq=False)
class SoftLayer:
    """One peeled layer; images of the batch of the positions."""

    face: Variable
    """INT: the face, -1 where the layer is empty."""
    dist: Variable
    """FLOAT: signed distance in image heights; differentiable. Undefined where the layer is empty."""
    probability: Variable
    """FLOAT: D = sigmoid(dist / sigma), 0 where the layer is empty; differentiable."""


@dataclass(frozen=True, eq=False)
class SoftLayers(Silhouette):
    """The result of the face form: the silhouette by equations (4) and (6), and the layers that it is blended from."""

    layers: tuple[SoftLayer, ...]
    """From front to back."""
    edge: Variable
    """FLOAT mask E: the pixel belongs to the band around the silhouette. No derivative."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        faces = self.mesh.faces
        found = []
        for layer in self.layers:
            at = corners(layer.face, faces)
            # Clamped to the nearest point of a soft face: no extrapolation.
            weights = barycentric(self.mesh.position, at, self.mesh.size, clamp=True)
            found.append(Surface(faces, layer.face, weights))
        return tuple(found)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """One image of the shaded layers (a float image each, front to back), by equations (4) and (5).

        On the band the result is the mean of the colours with weights D, elsewhere the front colour where it covers.
        Without ``background`` the outside is black, as in the paper. With it (a colour or an image) the band is composed
        over the background with the silhouette as opacity. Differentiable in colours, positions and background.
        """
        if len(colours) != len(self.layers):
            raise InputError(
                f"blending needs a colour for each of {len(self.layers)} layers, not {len(colours)}"
            )
        weights = [layer.probability for layer in self.layers]
        total = _sum(weights)
        soft = _sum([c * w for c, w in zip(colours, weights, strict=True)]) / F.maximum(total, 1e-8)
        front = colours[0]
        if background is None:
            return F.select(self.edge, soft, F.select(self.hard, front, 0.0))
        soft = F.mix(background, soft, self.silhouette)
        return F.select(self.edge, soft, F.select(self.hard, front, background))


def _sum(parts: Sequence[Variable]) -> Variable:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def face_form(
    mesh: DrawnMesh,
    radius: Variable,
    *,
    layers: int = 3,
    sigma: Like | None = None,
    delta: Like | None = None,
) -> SoftLayers:
    """Soft layers of a mesh by the definitions at the top of this module.

    radius: FLOAT 1x1, a fraction of the image height.  layers: K, how many are peeled.  sigma: softness, default
    radius / 7.  delta: half width of the band E, default radius; infinite, E = 1 everywhere (SoftRas). Differentiable in
    the positions. Raises InputError for options, GraphError for types.
    """
    if layers < 1:
        raise InputError(f"hard_soft_ras peels at least one layer, not {layers}")
    softness = 1.0 / (radius * (1 / 7) if sigma is None else fraction("sigma", sigma))
    width = None if delta == inf else radius if delta is None else fraction("delta", delta)
    faces, size = mesh.faces, mesh.size
    # Where no fragment is drawn, the window of the band holds no hard pixel: devices can skip it.
    texels = None if width is None else F.to_int(width * float(size[1]) + 0.5)
    drawn = radius
    if texels is not None and width is radius:
        drawn = F.maximum(radius, (F.to_float(texels) + 0.125) / float(size[1]))
    # A quarter of a pixel of slack: then the distance alone decides which fragments exist, and not the grid to which a
    # device rounds corners (1/16 pixel at the coarsest).
    reach = drawn + 0.25 / size[1]
    pairs = face_segments(faces, mesh.points.vertex, mesh.face_count, culling(mesh.cull))
    # Gradients are summed per segment end first and then once per vertex: fewer additions than per pixel and vertex.
    smooth = segment(mesh.points.smooth, pairs.x, pairs.y, far=False)
    ends = F.stop_gradient(smooth)
    triangles = enlarged(reach, ends, mesh.face_count, size)
    # All inputs of a fragment depend on the face alone, so that a device may read them once per triangle.
    records = face_records(ends, pairs, mesh.points.vertex, list_size(mesh.face_count))

    def nearest_edge(face: Variable) -> Variable:
        return NearestEdge(face, *(F.lookup(record, face) for record in records)).output

    last: tuple[Variable, Variable] | None = None
    peeled: list[SoftLayer] = []
    centres = pixel_centres(size)
    hard: Variable | None = None
    drawn_at: Variable | None = None
    for _ in range(layers):
        face = _peel(triangles, nearest_edge, size, drawn, mesh.face_count, last)
        nearest = nearest_edge(face)
        last = (nearest.y, face)
        dist = _signed_distance(centres, nearest, F.lookup(smooth, face * 3 + F.to_int(nearest.z)))
        within, kept = covered(face), face
        if hard is None:
            hard, drawn_at = F.greater_equal(nearest.x, 0.0), within
        if drawn is not radius:
            within = F.logical_and(within, F.greater_equal(nearest.x, -radius))
            kept = F.select(within, face, -1)
        peeled.append(SoftLayer(kept, dist, F.select(within, F.sigmoid(dist * softness), 0.0)))
    assert hard is not None
    edge = F.constant(1.0) if texels is None else _band(hard, texels, None if drawn is radius else drawn_at)
    missed = 1.0 - peeled[0].probability
    for layer in peeled[1:]:
        missed = missed * (1.0 - layer.probability)
    return SoftLayers(hard, F.select(edge, 1.0 - missed, hard), mesh, tuple(peeled), edge)


def _band(hard: Variable, texels: Variable, where: Variable | None) -> Variable:
    """E: whether the window of +-texels holds both hard and other pixels.  where: a mask that contains every pixel whose row
    of the window holds a hard pixel."""
    row = Extremes(hard, texels, "x").output
    row = row if where is None else F.select(where, row, F.constant((0.0, 0.0)))
    around = Extremes(row, texels, "y").output
    return around.y - around.x


def _peel(
    triangles: Variable,
    nearest_edge: Callable[[Variable], Variable],
    size: Size,
    radius: Variable,
    face_count: int,
    last: tuple[Variable, Variable] | None,
) -> Variable:
    """The front face among all fragments that come after ``last`` (depth, face)."""

    def fragment(face: Variable) -> tuple[Variable, Variable]:
        nearest = nearest_edge(face)
        depth = nearest.y
        keep = F.greater_equal(nearest.x, -radius)
        if last is not None:
            tied = F.logical_and(F.equal(depth, last[0]), F.greater(face, last[1]))
            after = F.logical_or(F.greater(depth, last[0]), tied)
            keep = F.logical_and(keep, F.logical_and(after, F.not_equal(face, last[1])))
        return depth, keep

    return F.rasterize(
        triangles, size=size, triangles=2 * face_count, triangles_per_face=2, fragment=fragment
    )


def _signed_distance(centres: Variable, nearest: Variable, ends: Variable) -> Variable:
    """Differentiable distance of the pixel centres to the nearest edges found, VEC4 (a, b)."""
    a, b = ends.xy, ends.zw
    away = point_distance(centres, a, b, place_on(centres, a, b))
    return F.select(F.greater_equal(nearest.x, 0.0), away, -away)


def peeled_target(distance: Variable, radius: Like, layers: int) -> Variable:
    """FLOAT: the silhouette of a closed mesh by (4), from the signed distance to its outline (positive inside).

    At the outline of a closed mesh both faces of the nearest edge are among the layers, and with three or more
    layers often a third that shares a corner: 1 - (1 - sigmoid(d / sigma))^k, k between 2 and 3. With k = 1, or with
    the hard mask, the outline would settle 0.2 radii too far inside.
    """
    k = {1: 1.0, 2: 2.0}.get(layers, 2.5)
    return 1.0 - F.pow(1.0 - F.sigmoid(distance / F.mul(radius, 1 / 7)), k)


PRESETS = {
    "aa": lambda size: {"layers": 1, "radius": 1 / size[1], "delta": 1 / size[1]},
    "default": lambda size: {"layers": 3, "radius": 0.01},
    "softras": lambda size: {"layers": 5, "radius": 0.1, "sigma": 0.0285, "delta": inf},
}
"""The modes of section 3.4.3, figure 6."""

FACE = Form("face", face_form, peeled_target, PRESETS)


# Functions of the face form: outlines of faces, enlarged faces, the nearest edge of a face, windows of a mask.
#
# None has a derivative. They choose a face, an edge or a band; ordinary Functions compute from that choice whatever depends
# smoothly on the vertices.

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


# The smallest and the largest of a mask around each pixel, within a reach that is data.


class Extremes(PixelFunction):
    """Inputs (image, reach INT): VEC2 (smallest, largest) within +-reach texels along ``axis``, cut at the border.

    The image is FLOAT, or VEC2 of such extremes along the other axis. No derivative.
    """

    operations, fetches = 15.0, math.inf
    no_derivative = "is made for masks; use F.window_max and F.window_min"
    fields = ("axis",)
    axis: str

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    @property
    def iterations(self) -> int:
        return 2 * max(self.inputs[0].size) + 1  # a reach is a radius in the image

    def shortened(self, most):
        image, reach = self.inputs
        extent = image.size["xy".index(self.axis)]
        length = max(round(math.sqrt(extent / 2)), 2)
        if length >= extent:
            return None
        blocks = BlockExtremes(image, length, self.axis).output
        return ExtremesByBlocks(image, blocks, reach, length, self.axis).output

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


class BlockExtremes(PixelFunction):
    """VEC2 (smallest, largest) of each block of ``length`` texels along ``axis``; the last block may be shorter.

    The image is FLOAT, or VEC2 of such extremes.
    """

    operations, fetches = 15.0, math.inf
    no_derivative = "is made for masks; use F.max and F.min"
    fields = ("length", "axis")
    length: int
    axis: str

    @cached_property
    def access(self):
        return (Access.FETCH,)

    @property
    def iterations(self) -> int:
        return self.length

    def infer(self):
        (width, height), batch, _ = self.inputs[0].domain
        blocks = [-(-n // self.length) if a == self.axis else n for a, n in (("x", width), ("y", height))]
        return VEC2, Domain((blocks[0], blocks[1]), batch)

    @cached_property
    def glsl(self) -> str:
        a, texel = self.axis, "ivec2(i, pixel.y)" if self.axis == "x" else "ivec2(pixel.x, i)"
        return (
            f"int first = pixel.{a} * {self.length}, end = min(first + {self.length}, $size0.{a});\n"
            "$y = vec2(3.4e38, -3.4e38);\n"
            "for (int i = first; i < end; ++i) {\n"
            f"  vec2 found = vec2($0({texel}, tile));\n"
            "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}"
        )

    def evaluate(self, at, image):
        image = image if image.ndim == 4 else np.stack([image, image], axis=-1)
        k = 2 if self.axis == "x" else 1
        first = np.arange(0, image.shape[k], self.length)
        low = np.minimum.reduceat(image[..., 0], first, axis=k)
        high = np.maximum.reduceat(image[..., 1], first, axis=k)
        x, y, tile = at_points(at)
        return np.stack([low, high], axis=-1)[tile, y, x]


class ExtremesByBlocks(Extremes):
    """``Extremes`` of an image by its ``BlockExtremes``: inputs (image, blocks, reach).

    Of the window it visits the texels before the first whole block, the blocks, and the texels behind the last one.
    """

    fields = ("length", "axis")

    def __init__(self, image: Variable, blocks: Variable, reach: Variable, length: int, axis: str):
        self.length, self.axis = length, axis
        PixelFunction.__init__(self, image, blocks, reach)

    @cached_property
    def access(self):
        return (Access.FETCH, Access.FETCH, Access.SAME_PIXEL)

    @property
    def iterations(self) -> int:
        return 2 * self.length + self.inputs[1].size["xy".index(self.axis)]

    def shortened(self, most):
        return None

    def infer(self):
        return VEC2, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        a, texel = self.axis, "ivec2(i, pixel.y)" if self.axis == "x" else "ivec2(pixel.x, i)"

        def loop(begin: str, end: str, table: int) -> str:
            return (
                f"for (int i = {begin}; i < {end}; ++i) {{\n  vec2 found = vec2(${table}({texel}, tile));\n"
                "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}\n"
            )

        return (
            "$y = vec2($0(pixel, tile));\n"
            f"int low = max(pixel.{a} - $2, 0), high = min(pixel.{a} + $2, $size0.{a} - 1) + 1;\n"
            f"int first = (low + {self.length - 1}) / {self.length}, last = max(high / {self.length}, first);\n"
            + loop("low", f"min(first * {self.length}, high)", 0)
            + loop("first", "last", 1)
            + loop(f"last * {self.length}", "high", 0)
        )

    def evaluate(self, at, image, blocks, reach):
        return super().evaluate(at, image, reach)
