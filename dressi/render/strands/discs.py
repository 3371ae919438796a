"""From points to discs on the screen: the quads that are drawn, and the exact area of a disc in a pixel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.compare import guarded
from ...ad.transform.fused import fused
from ...ad.types import Size
from ..surface.projection import box, on_image, quads
from .geometry import PointGeometry, per_entry
from .ribbons import SLACK, on_screen, optical_depth

FLATTEST = 0.25
"""Share of the least width of a disc (``ribbons.LEAST_WIDTH``) below which the derivative by its radius does not fall."""


def _slope(place: Variable, radius: Variable, *, by: int) -> Variable:
    """The gradient of ``disc_area`` by the place, VEC2, or by the radius, FLOAT."""
    top, right, bottom, left = _sides(place, radius)
    if by:
        return radius * (top.angle + right.angle + bottom.angle + left.angle)
    return F.vec2(left.inside - right.inside, top.inside - bottom.inside)


@partial(fused, slope=_slope)
def disc_area(place: Variable, radius: Variable) -> Variable:
    """FLOAT: the area in the pixel of the disc at ``place``, VEC2 relative to the centre of the pixel, in pixels.
    Differentiable."""
    sides = _sides(place, radius)
    sectors = sum((side.away * side.inside for side in sides[1:]), sides[0].away * sides[0].inside)
    return 0.5 * (sectors + _slope(place, radius, by=1) * radius)


class _Side(NamedTuple):
    """Of a side of the pixel, seen from the centre of a disc."""

    away: Variable
    """Its distance, negative for one that lies before the centre."""
    inside: Variable
    """The length inside the disc."""
    angle: Variable
    """Of what lies outside of it."""


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
    """The square of x from 0 to 1; near 0, where its slope would keep a radius of 0 for ever, with the slope of FLATTEST."""
    steep = F.stop_gradient(F.square(x)) + (x - F.stop_gradient(x)) * (2.0 * FLATTEST)
    return F.select(F.less(x, FLATTEST), steep, F.square(x))


def discs_of(points: PointGeometry, leaves: dict[str, Variable], matrices: Variable, size: Size) -> Discs:
    """Points in N views; ``leaves`` has their tables by name. Differentiable in these and the matrices (MAT4, N tiles)."""
    at = on_screen(leaves["points"], leaves["radius"], points.unit, matrices, size)
    opacity = leaves["opacity"] * _square(at.thickness / at.radius)
    return Discs(size, points.count, F.vec4(at.place, at.radius, opacity), at.depth, at.clip, at.seen)
