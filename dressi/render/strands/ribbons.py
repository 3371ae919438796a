"""Strands and points on the screen: ribbons with mitred borders, discs, the quads that are drawn, exact areas in a pixel, and what shaders read.

Places are in pixels, x to the right, y down; the centre of pixel (x, y) is (x + 0.5, y + 0.5).

A segment is drawn as a quad that holds all pixels it touches. Each pixel computes the exact area of the
segment in it, so the derivative of the picture by points and radii is that of the area. Areas of the segments
of one strand add up; strands hide each other. So each segment estimates what the whole strand covers of the
pixel, ``whole``, and adds the optical depth area / whole * -log(1 - whole). These sum to -log(1 - area) over
one strand, and over all strands to -log of the product of what each lets through, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import Size
from ...ad.ops.pixel.compare import guarded
from ...ad.ops.pixel.constant import Like
from ...ad.transform.fused import fused
from ...errors import InputError
from ..forms.form import at_least
from ..surface.projection import (
    FARTHEST,
    LARGEST,
    W_MINIMUM,
    across,
    box,
    depth_of_zw,
    direction,
    on_image,
    quads,
)
from .geometry import Chain, PointGeometry, StrandGeometry, chain_of, per_entry

LEAST_WIDTH = 1 / 16
"""Pixels. Thinner ribbons are drawn this wide with the opacity width / LEAST_WIDTH, so that single precision
suffices; the picture is the same within a thousandth."""
SHORTEST = 1e-3
"""Pixels. A shorter segment has no direction of its own."""
MITRE = 2.0
"""The largest length of a mitre, in half widths: ribbons become narrower at turns of over 120 degrees."""
SLACK = 0.2
"""Pixels by which quads are larger than needed: drivers round corners to a grid."""
STRAIGHT = 2.0
"""Pixels for which a strand is taken to go on straight: none lies farther from where a segment ends in it."""
OPAQUE = 0.999
"""The largest opacity of a segment in its share of a pixel."""


@dataclass(frozen=True, eq=False)
class ScreenPoints:
    """Points in front of the camera; lists of the batch of the views."""

    place: Variable
    """VEC2, in pixels; differentiable."""
    depth: Variable
    """VEC2: depth in [0, 1] as rasters have it, and w."""
    clip: Variable
    """VEC2: z and w in clip space, which are linear along segments; differentiable."""
    radius: Variable
    """FLOAT: in pixels, at least half of LEAST_WIDTH; differentiable."""
    thickness: Variable
    """FLOAT: the radius before it was made larger."""
    seen: Variable
    """FLOAT mask: the point lies between the near and the far plane, and is finite."""


def on_screen(points: Variable, radius: Variable, unit: str, matrices: Variable, size: Size) -> ScreenPoints:
    """Points (VEC3 list) and radii in N views (MAT4 1x1, N tiles: world to clip) of ``size``. Differentiable
    in all.

    A radius of the world shrinks with the distance from the camera, and is seen from the front.
    """
    count = max(points.batch, matrices.batch)
    there = F.less(F.sum_components(F.abs(points)), LARGEST)
    points = F.select(there, points, 0.0)
    place = F.vec4(points if points.batch == count else F.expand(points, count), 1.0)
    clip = F.matmul(matrices, place)
    between = F.logical_and(F.greater_equal(clip.z, 0.0), F.less_equal(clip.z, clip.w))
    seen = F.logical_and(F.logical_and(there, F.greater(clip.w, W_MINIMUM)), between)
    over = 1.0 / F.select(seen, clip.w, 1.0)
    half = F.constant((0.5 * size[0], 0.5 * size[1]))  # not two numbers for a list of two points
    at = F.select(seen, clip.xy * over * half + half, 0.0)
    seen = F.logical_and(seen, F.less(F.max_component(F.abs(at)), FARTHEST))
    thickness = at_least(radius, 0.0)
    if unit == "world":
        # The row of y: how many pixels a unit of the world makes at w = 1.
        row = F.column(F.transpose(matrices), 1).xyz
        thickness = thickness * (F.length(row) * (0.5 * size[1])) * over
    elif thickness.size == (1, 1):
        thickness = thickness + F.component(at, 0) * 0.0  # one radius for all becomes a list
    drawn = F.maximum(thickness, 0.5 * LEAST_WIDTH)
    return ScreenPoints(at, F.vec2(clip.z * over, clip.w), F.swizzle(clip, "zw"), drawn, thickness, seen)


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment of a strand at a pixel; FLOATs unless said otherwise, differentiable in points and radii."""

    ends: tuple[Variable, Variable]
    """INT: the numbers of its drawn points."""
    source: Variable
    """INT list: the point that each drawn point has its attributes of."""
    area: Variable
    """In [0, 1]: how much of the pixel it covers."""
    absorbance: Variable
    """The optical depth, at least 0: 1 - exp(-absorbance) is the opacity."""
    along: Variable
    """In [0, 1]: the place along the segment that is nearest to the centre of the pixel, in the world."""

    def attribute(self, table: Variable) -> Variable:
        """The entry of a list, one a point, or the one value of all, at the place."""
        if table.size == (1, 1):
            return table
        drawn = F.lookup(table, self.source)
        start, end = (F.lookup(drawn, number) for number in self.ends)
        return F.mix(start, end, self.along)


@dataclass(frozen=True, eq=False)
class Ribbons:
    """Strands on the screen: lists of drawn points (``Chain``). A segment has the number of its first one."""

    size: Size
    chain: Chain
    border: Variable
    """VEC4 list: a point and the vector from it to the left border of the ribbon, in pixels;
    differentiable."""
    opacity: Variable
    """FLOAT list: the opacity of a segment; differentiable."""
    depth: Variable
    """VEC2 list: depth in [0, 1], and w, of points."""
    clip: Variable
    """VEC2 list, one a point of the geometry: z and w in clip space; differentiable."""
    live: Variable
    """FLOAT list: whether the segment is drawn."""
    ways: Variable
    """VEC4 list: unit directions in which the strand comes to a point and goes on from it, 0 where it does
    not; differentiable."""

    @cached_property
    def order(self) -> Variable:
        """FLOAT list: the depth of their middle, which sorts segments; the same bits wherever it is read."""
        depth = F.component(F.stop_gradient(self.depth), 0)
        return 0.5 * (depth + F.lookup(depth, self.chain.following))

    @property
    def count(self) -> int:
        """How many numbers of segments there are."""
        return self.chain.count

    @cached_property
    def quads(self) -> Variable:
        """VEC4 list, six a segment: clip positions that hold all pixels it touches."""
        at, last = quads(self.chain.count), self.chain.count - 1
        ends = at.number, F.minimum(at.number + 1, last)
        border, depth = F.stop_gradient(self.border), F.component(F.stop_gradient(self.depth), 0)
        a, b = (F.lookup(border, end) for end in ends)
        along = direction(b.xy - a.xy)
        # Half of a pixel's extent along both directions, which are perpendicular.
        reach = 0.5 * F.sum_components(F.abs(along)) + SLACK
        (behind, ahead), sides = ([F.abs(F.dot(way, v.zw)) for v in (a, b)] for way in (along, across(along)))
        wide = F.maximum(*sides) + reach
        place = box(at, a.xy, b.xy, along, behind=behind + reach, ahead=ahead + reach, low=wide, high=wide)
        far, near = (F.lookup(depth, end) for end in reversed(ends))
        return on_image(place, self.size, F.select(at.right, far, near))

    def at(self, number: Variable) -> Segment:
        """The segment of that number (INT image) at each pixel."""
        centre = F.to_float(F.pixel_coordinates(self.size)) + 0.5
        start = F.lookup(self.border, number) - F.vec4(centre, 0.0, 0.0)
        end = F.lookup(self.border, number + 1) - F.vec4(centre, 0.0, 0.0)
        area = F.maximum(ribbon_area(start, end), 0.0)
        ways = F.lookup(self.ways, number).xy, F.lookup(self.ways, number + 1).zw
        whole = F.maximum(area + _beyond(start, end, F.lookup(self.chain.around, number), *ways), 1e-6)
        absorbance = area / whole * optical_depth(F.lookup(self.opacity, number) * whole)
        u = end.xy - start.xy
        place = F.clamp(-F.dot(start.xy, u) / F.maximum(F.dot(u, u), SHORTEST**2))
        # What is linear in the world is linear on the screen after division by w.
        near, far = F.lookup(self.depth, number).y, F.lookup(self.depth, number + 1).y
        along = place * near / F.maximum(F.mix(far, near, place), W_MINIMUM)
        return Segment((number, number + 1), self.chain.source, area, absorbance, along)


def _beyond(start: Variable, end: Variable, around: Variable, came: Variable, goes: Variable) -> Variable:
    """FLOAT: how much of the pixel the strand covers before and after a segment (``Chain.around``)."""
    along = F.normalize(end.xy - start.xy)
    came, goes = (F.select(F.greater(F.dot(way, way), 0.5), way, along) for way in (came, goes))

    def length(at: Variable, radii: Variable) -> Variable:
        return F.select(F.less(radii, 0.0), STRAIGHT, radii * F.length(at.zw))

    before = F.vec4(start.xy - came * length(start, around.x), start.zw * around.y)
    after = F.vec4(end.xy + goes * length(end, around.z), end.zw * around.w)
    areas = ribbon_area(before, start), ribbon_area(end, after)
    return F.maximum(areas[0], 0.0) + F.maximum(areas[1], 0.0)


def optical_depth(opacity: Variable) -> Variable:
    """FLOAT: -log(1 - min(opacity, OPAQUE)), exact for small ones, too. Differentiable."""
    x = F.minimum(opacity, OPAQUE)
    series = x * (1.0 + x * (0.5 + x * (1 / 3 + x * 0.25)))
    return F.select(F.less(x, 0.03), series, -F.log(1.0 - x))


def ribbons_of(
    strands: StrandGeometry, leaves: dict[str, Variable], matrices: Variable, size: Size
) -> Ribbons:
    """Strands in N views (MAT4, N tiles). leaves: their tables. Differentiable in these and the matrices."""
    chain = chain_of(strands.offsets, strands.caps == "round")
    at = on_screen(leaves["points"], leaves["radius"], strands.unit, matrices, size)
    came = _direction(at.place - F.lookup(at.place, chain.before))
    goes = _direction(F.lookup(at.place, chain.after) - at.place)
    known = F.dot(came, came) + F.dot(goes, goes)  # how many of the two have a direction
    turn = (came + goes) * F.select(F.greater(known, 1.5), 1.0, 2.0)
    turn = F.select(F.greater(known, 0.5), turn, F.vec2(2.0, 0.0))
    # |turn| is twice the cosine of half of the angle between both segments.
    across = F.vec2(-turn.y, turn.x) * (at.radius * 2.0 / F.maximum(F.dot(turn, turn), 4.0 / MITRE**2))
    border, width = F.vec4(at.place, across), F.vec2(at.radius, at.thickness)
    ways = F.vec4(came, goes)
    opacity, depth, seen = leaves["opacity"], at.depth, at.seen
    if strands.caps == "round":
        tables = border, width, depth, seen, ways
        border, width, depth, seen, ways = (F.lookup(table, chain.source) for table in tables)
        # At an end the vector to the left border is perpendicular to the strand, and as long as the half
        # width.
        away = F.vec2(border.w, -border.z) * chain.beyond
        border = F.vec4(border.xy + away, border.zw * chain.narrow)
        opacity = opacity if opacity.size == (1, 1) else F.lookup(opacity, chain.source)
    width = width + F.lookup(width, chain.following)
    if opacity.size != (1, 1):
        opacity = 0.5 * (opacity + F.lookup(opacity, chain.following))
    live = (1.0 - chain.last) * seen * F.lookup(seen, chain.following)
    return Ribbons(size, chain, border, opacity * width.y / width.x, depth, at.clip, live, ways)


def _direction(v: Variable) -> Variable:
    return F.normalize(F.select(F.greater(F.dot(v, v), SHORTEST**2), v, 0.0))


# How much of a pixel a ribbon covers: exact areas, whose derivatives are exact too.
#
# A pixel is the unit square around its centre, and the picture is the area that a shape has in it (a box
# filter). Places are relative to that centre, in pixels. The area of a polygon in the square is a sum over
# its edges (Green), so that the areas of quads that share an edge add up to that of their union; it is
# continuously differentiable but for shapes whose edge lies on that of a pixel.

FLAT = 1e-5
"""Pixels. Below this extent the mean of a clamped line is taken at its middle."""


def _slope(start: Variable, end: Variable, *, by: int) -> Variable:
    """VEC4: the gradient of ``ribbon_area`` by the start, or by the end."""
    p, q, r, s = _corners(start, end)
    over, under, across = _edge(p, q), _edge(r, s), _edge(q, r) if by else _edge(s, p)
    high, low = over[by] + across[1 - by], under[1 - by] + across[by]
    return F.vec4(high + low, high - low)


@partial(fused, slope=_slope)
def ribbon_area(start: Variable, end: Variable) -> Variable:
    """FLOAT: the area in the pixel of the quad between two places of a ribbon, each a VEC4 of the place and
    the vector to the left border. Negative for a quad that is turned over. Differentiable."""
    p, q, r, s = _corners(start, end)
    return _below(p, q) + _below(q, r) + _below(r, s) + _below(s, p)


def _corners(a: Variable, b: Variable) -> tuple[Variable, ...]:
    """Left start, left end, right end, right start."""
    return a.xy + a.zw, b.xy + b.zw, b.xy - b.zw, a.xy - a.zw


def _span(a: Variable, u: Variable) -> tuple[Variable, Variable]:
    """The range of t in [0, 1] for which a + t u lies within [-1/2, 1/2]; empty, with its end not after its
    start, if there is none."""
    moves, within = F.not_equal(u, 0.0), F.less(F.abs(a), 0.5)
    over = F.select(moves, u, 1.0)
    p, q = (-0.5 - a) / over, (0.5 - a) / over
    start, end = F.maximum(F.minimum(p, q), 0.0), F.minimum(F.maximum(p, q), 1.0)
    return F.select(moves, start, 1.0 - within), F.select(moves, end, within)


def _mean(a: Variable, b: Variable) -> Variable:
    """The mean of clamp(v, 0, 1) for v from a to b."""
    flat = F.less(F.abs(b - a), FLAT)
    extent, p, q = F.select(flat, 1.0, b - a), F.clamp(a), F.clamp(b)
    # Both quotients are exactly 0 or 1 for an edge on one side of each border, however flat it is.
    mean = 0.5 * (q + p) * ((q - p) / extent) + (F.maximum(b, 1.0) - F.maximum(a, 1.0)) / extent
    return F.select(flat, F.clamp(0.5 * (a + b)), mean)


def _below(a: Variable, b: Variable) -> Variable:
    """The signed area of the pixel below the edge from a to b."""
    u = b - a
    start, end = _span(a.x, u.x)
    return u.x * F.maximum(end - start, 0.0) * _mean(a.y + start * u.y + 0.5, a.y + end * u.y + 0.5)


def _edge(a: Variable, b: Variable) -> tuple[Variable, Variable]:
    """How the area grows with a and with b: its weighted length in the pixel times the normal."""
    u = b - a
    (left, right), (top, bottom) = _span(a.x, u.x), _span(a.y, u.y)
    first, last = F.maximum(left, top), F.minimum(right, bottom)
    mean = 0.5 * (first + last)
    part = F.vec2(-u.y, u.x) * F.maximum(last - first, 0.0)
    return part * (1.0 - mean), part * mean


# From points to discs on the screen: the quads that are drawn, and the exact area of a disc in a pixel.

FLATTEST = 0.25
"""The derivative by the radius does not fall below this share of LEAST_WIDTH."""


def _slope_of_disc(place: Variable, radius: Variable, *, by: int) -> Variable:
    """The gradient of ``disc_area`` by the place, VEC2, or by the radius, FLOAT."""
    top, right, bottom, left = _sides(place, radius)
    if by:
        return radius * (top.angle + right.angle + bottom.angle + left.angle)
    return F.vec2(left.inside - right.inside, top.inside - bottom.inside)


@partial(fused, slope=_slope_of_disc)
def disc_area(place: Variable, radius: Variable) -> Variable:
    """FLOAT: the area in the pixel of the disc at ``place``, VEC2 relative to the centre of the pixel, in
    pixels. Differentiable."""
    sides = _sides(place, radius)
    sectors = sum((side.away * side.inside for side in sides[1:]), sides[0].away * sides[0].inside)
    return 0.5 * (sectors + _slope_of_disc(place, radius, by=1) * radius)


class _Side(NamedTuple):
    """A side of the pixel, seen from the centre of a disc."""

    away: Variable
    """Its distance, negative for one that lies before the centre."""
    inside: Variable
    """The length inside the disc."""
    angle: Variable
    """The angle under which the part outside of the disc is seen."""


def _sides(place: Variable, radius: Variable) -> list[_Side]:
    low, high = -0.5 - place, 0.5 - place
    starts = low, F.vec2(high.x, low.y), high, F.vec2(low.x, high.y)
    ways = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)
    return [_side(a, u, radius) for a, u in zip(starts, ways, strict=True)]


def _side(a: Variable, u: tuple[float, float], radius: Variable) -> _Side:
    along, away = -F.dot(a, F.constant(u)), a.x * u[1] - a.y * u[0]
    square = radius * radius - away * away
    chord = guarded(F.greater(square, 0.0), F.sqrt, square)
    start, end = F.clamp(along - chord), F.clamp(along + chord)
    p, q = a + F.mul(start, u), a + F.mul(end, u)
    return _Side(away, end - start, _angle(a, p) + _angle(q, a + u))


def _angle(a: Variable, b: Variable) -> Variable:
    """The angle from a to b, seen from the centre of the disc."""
    y, x = a.x * b.y - a.y * b.x, F.dot(a, b)
    there = F.logical_or(F.not_equal(y, 0.0), F.less(x, 0.0))
    return F.select(there, F.atan2(y, F.select(there, x, 1.0)), 0.0)


@dataclass(frozen=True, eq=False)
class Disc:
    """A point at a pixel."""

    number: Variable
    """INT."""
    area: Variable
    """FLOAT in [0, 1]: how much of the pixel it covers; differentiable in place and radius."""
    absorbance: Variable
    """FLOAT: the optical depth; differentiable in place, radius and opacity."""

    def attribute(self, table: Variable) -> Variable:
        """The entry of a list, one a point, or the one value of all."""
        return per_entry(table, self.number)


@dataclass(frozen=True, eq=False)
class Discs:
    """Points on the screen; lists of the batch of the views."""

    size: Size
    count: int
    shape: Variable
    """VEC4 list: place and radius in pixels, and opacity; differentiable."""
    depth: Variable
    """VEC2 list: depth in [0, 1], and w."""
    clip: Variable
    """VEC2 list: z and w in clip space; differentiable."""
    live: Variable
    """FLOAT list: whether the point is drawn."""

    @cached_property
    def order(self) -> Variable:
        """FLOAT list: the depth by which points are sorted."""
        return F.component(F.stop_gradient(self.depth), 0)

    @cached_property
    def quads(self) -> Variable:
        """VEC4 list, six a point: clip positions that hold all pixels it touches."""
        at, far = quads(self.count), F.constant((1.0, 0.0))
        shape = F.lookup(F.stop_gradient(self.shape), at.number)
        reach = shape.z + (0.5 + SLACK)
        place = box(at, shape.xy, shape.xy, far, behind=reach, ahead=reach, low=reach, high=reach)
        return on_image(place, self.size, F.lookup(self.order, at.number))

    def at(self, number: Variable) -> Disc:
        """The point of that number (INT image) at each pixel."""
        centre = F.to_float(F.pixel_coordinates(self.size)) + 0.5
        shape = F.lookup(self.shape, number)
        area = F.maximum(disc_area(shape.xy - centre, shape.z), 0.0)
        return Disc(number, area, optical_depth(shape.w * area))


def _square(x: Variable) -> Variable:
    """The square of x from 0 to 1; with the slope of FLATTEST near 0, where its own would keep a radius of
    0."""
    steep = F.stop_gradient(F.square(x)) + (x - F.stop_gradient(x)) * (2.0 * FLATTEST)
    return F.select(F.less(x, FLATTEST), steep, F.square(x))


def discs_of(points: PointGeometry, leaves: dict[str, Variable], matrices: Variable, size: Size) -> Discs:
    """Points in N views (MAT4, N tiles). leaves: their tables. Differentiable in these and the matrices."""
    at = on_screen(leaves["points"], leaves["radius"], points.unit, matrices, size)
    opacity = leaves["opacity"] * _square(at.thickness / at.radius)
    return Discs(size, points.count, F.vec4(at.place, at.radius, opacity), at.depth, at.clip, at.seen)


# The point of a strand, or of a cloud of points, that is shaded: what shaders read.


@dataclass(frozen=True, eq=False)
class StrandPoint:
    """The nearest point of a segment, or a point of a cloud, at a pixel: all images, differentiable in points
    and cameras.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24), shader=lambda point: point.colour * point.opacity).colour.vtype
    VEC3
    """

    fragment: Segment | Disc | _Listed
    leaves: Mapping[str, Variable]
    """Tables of the geometry by name; those of strands have ``tangents`` too."""
    eye: Variable
    """VEC3: the place of the camera, one a view."""
    clip: Variable
    """VEC2 list: z and w of the points in clip space."""
    matrices: Variable
    """MAT4: from the world to clip space, one a view."""

    @property
    def opacity(self) -> Variable:
        """FLOAT in [0, 1): how much it hides of what is behind it."""
        return 1.0 - F.exp(-self.fragment.absorbance)

    def attribute(self, table: Variable) -> Variable:
        """A list (FLOAT or vectors, one entry a point), interpolated between the ends of the segment;
        differentiable in it."""
        return self.fragment.attribute(table)

    @cached_property
    def colour(self) -> Variable:
        """VEC3: the linear colour of the point."""
        return self.attribute(self.leaves["colours"])

    @cached_property
    def point(self) -> Variable:
        """VEC3: the place in the world."""
        return self.attribute(self.leaves["points"])

    @cached_property
    def distance(self) -> Variable:
        """FLOAT: the distance from the camera along its axis; in a parallel projection the ``depth``."""
        return depth_of_zw(self.attribute(self.clip), self.matrices)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT in [0, 1]: the depth, as rasters have it."""
        clip = self.attribute(self.clip)
        return clip.x / F.maximum(clip.y, 1e-6)

    @cached_property
    def to_eye(self) -> Variable:
        """VEC3: the unit direction to the camera."""
        return F.normalize(self.eye - self.point)

    @cached_property
    def tangent(self) -> Variable:
        """VEC3: the unit direction of the strand, from its first point to its last: the frame of models of
        hair. Raises InputError for points, which have none."""
        if "tangents" not in self.leaves:
            raise InputError("points have no tangent; shade them by colour, or draw strands")
        return F.normalize(self.attribute(self.leaves["tangents"]))


StrandShader = Callable[[StrandPoint], Variable]
"""A function from points to their linear colour, VEC3, such as ``lambda p: p.tangent * 0.5 + 0.5``."""


def unlit(point: StrandPoint) -> Variable:
    """VEC3: the colour as it is."""
    return point.colour


@dataclass(frozen=True, eq=False)
class AtPoints:
    """A shader of strands that computes the colours of another one at the points of the geometry, once for each view,
    and interpolates them along the segments.

    Where points are closer than the colour changes, as of hair, the picture is the same to the eye. A shader then
    runs once a point instead of once for every segment in every pixel, and what it computes without the camera
    (light that arrives) stays from picture to picture. It may read all of a ``StrandPoint`` but ``opacity`` and
    ``fragment``, which differ from pixel to pixel. Differentiable as the shader is.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24), shader=AtPoints(KajiyaKay((0.0, 1.0, 0.0)))).colour.vtype
    VEC3
    """

    shader: StrandShader

    def __call__(self, point: StrandPoint) -> Variable:
        listed = StrandPoint(_Listed(), point.leaves, point.eye, point.clip, point.matrices)
        return point.attribute(F.store(self.shader(listed)))


class _Listed:
    """All points of a geometry at once, as lists."""

    def attribute(self, table: Variable) -> Variable:
        return table

    @property
    def absorbance(self) -> Variable:
        raise InputError(
            "how much strands hide differs from pixel to pixel: a shader AtPoints cannot read it"
        )


@dataclass(frozen=True)
class KajiyaKay:
    """A shader of strands: the model of Kajiya and Kay (1989), a cylinder too thin to see, under a distant
    light.

    direction: towards the light, in the world.  intensity: its radiance, a number or three.  specular: the
    strength of the highlight.  exponent: how narrow that is.  ambient: light from everywhere. Each may be a
    Variable; differentiable in all.

    >>> KajiyaKay((0.0, 1.0, 0.0)).exponent
    40.0
    """

    direction: Like
    intensity: Like = 1.0
    specular: Like = 0.2
    exponent: Like = 40.0
    ambient: Like = 0.1

    def __call__(self, point: StrandPoint) -> Variable:
        direction = self.direction
        if not isinstance(direction, Variable):
            unit = np.asarray(direction, np.float64)
            direction = F.constant(tuple((unit / max(float(np.linalg.norm(unit)), 1e-12)).tolist()))
        tangent, light, eye = point.tangent, F.normalize(direction), point.to_eye
        along_light, along_eye = F.dot(tangent, light), F.dot(tangent, eye)
        across_light, across_eye = _sine(along_light), _sine(along_eye)
        # The cosine of the angle between the eye and the cone of mirrored light.
        mirrored = F.maximum(across_light * across_eye - along_light * along_eye, 1e-3)
        highlight = F.pow(mirrored, self.exponent) * self.specular
        diffuse = point.colour * (across_light * self.intensity + self.ambient)
        return diffuse + F.vec3(highlight * self.intensity)


def _sine(cosine: Variable) -> Variable:
    return F.sqrt(F.maximum(1.0 - cosine * cosine, 1e-6))
