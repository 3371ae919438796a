"""From points to discs on the screen: the quads that are drawn, and the exact area of a disc in a pixel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.ops.pixel.compare import guarded
from ...ad.transform.local import Fused
from ...ad.types import FLOAT, VEC2, VEC3, Size
from ..surface.quads import box, on_image, quads
from .geometry import PointGeometry, per_entry
from .ribbons import SLACK, on_screen, optical_depth


class DiscArea(PixelFunction):
    """Inputs (place VEC2 relative to the centre of the pixel, radius FLOAT), in pixels: FLOAT, the area of the disc in the
    pixel. Differentiable."""

    operations = 160.0
    includes = ("disc.glsl",)
    glsl = "disc_area($0, $1).w"

    def infer(self):
        if [x.vtype for x in self.inputs] != [VEC2, FLOAT]:
            raise self.fail("needs the place, VEC2, and the radius, FLOAT, of a disc")
        return FLOAT, self.broadcast()

    def eval(self, place, radius):
        return _area(place, radius)[..., 3]

    def vjp(self, gy, i):
        slope = DiscSlope(*self.inputs).output
        return gy * (slope.z if i else slope.xy)

    def jvp(self, tangents):
        slope, (place, radius) = DiscSlope(*self.inputs).output, tangents
        parts = [] if place is None else [F.dot(slope.xy, place)]
        parts += [] if radius is None else [slope.z * radius]
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]


class DiscSlope(Fused, PixelFunction):
    """Inputs as of ``DiscArea``: VEC3, the gradient of the area by the place and by the radius. Differentiable."""

    operations = 55.0
    includes = ("disc.glsl",)
    glsl = "disc_area($0, $1).xyz"

    def infer(self):
        return VEC3, self.broadcast()

    def eval(self, place, radius):
        return _area(place, radius)[..., :3]

    def ordinary(self, *x):
        place, radius = x
        low, high = -0.5 - place, 0.5 - place
        top, top_angle = _ordinary_edge(low, (1.0, 0.0), radius)
        right, right_angle = _ordinary_edge(F.vec2(high.x, low.y), (0.0, 1.0), radius)
        bottom, bottom_angle = _ordinary_edge(high, (-1.0, 0.0), radius)
        left, left_angle = _ordinary_edge(F.vec2(low.x, high.y), (0.0, -1.0), radius)
        angle = top_angle + right_angle + bottom_angle + left_angle
        return F.vec3(left - right, top - bottom, radius * angle)


def _ordinary_edge(a: Variable, u: tuple[float, float], radius: Variable) -> tuple[Variable, Variable]:
    """The length inside the disc, and the angle of what lies outside, by ordinary Functions."""
    along, away = -F.dot(a, F.constant(u)), a.x * u[1] - a.y * u[0]
    square = radius * radius - away * away
    chord = guarded(F.greater(square, 0.0), F.sqrt, square)
    start, end = F.clamp(along - chord), F.clamp(along + chord)
    p, q = a + F.mul(start, u), a + F.mul(end, u)
    return end - start, _ordinary_angle(a, p) + _ordinary_angle(q, a + u)


def _ordinary_angle(a: Variable, b: Variable) -> Variable:
    return F.atan2(a.x * b.y - a.y * b.x, F.dot(a, b))


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    y, x = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], (a * b).sum(-1)
    return np.where((y == 0) & (x >= 0), 0.0, np.arctan2(y, x))


def _edge(a: np.ndarray, u: tuple[float, float], radius: np.ndarray) -> np.ndarray:
    """What disc_edge of the shader computes."""
    along, away = -(a * u).sum(-1), a[..., 0] * u[1] - a[..., 1] * u[0]
    chord = np.sqrt(np.maximum(radius**2 - away**2, 0))
    start, end = np.clip(along - chord, 0, 1), np.clip(along + chord, 0, 1)
    p, q = a + start[..., None] * u, a + end[..., None] * u
    angle = _angle(a, p) + _angle(q, a + np.array(u))
    return np.stack([0.5 * (away * (end - start) + radius**2 * angle), end - start, angle], axis=-1)


def _area(place: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """(..., 4): the gradient by place and radius, and the area."""
    low, high = -0.5 - place, 0.5 - place
    right = np.stack([high[..., 0], low[..., 1]], -1)
    left = np.stack([low[..., 0], high[..., 1]], -1)
    top, right = _edge(low, (1.0, 0.0), radius), _edge(right, (0.0, 1.0), radius)
    bottom, left = _edge(high, (-1.0, 0.0), radius), _edge(left, (0.0, -1.0), radius)
    total = top + right + bottom + left
    across, down = left[..., 1] - right[..., 1], top[..., 1] - bottom[..., 1]
    return np.stack([across, down, radius * total[..., 2], total[..., 0]], axis=-1)


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
        area = F.maximum(DiscArea(shape.xy - centre, shape.z).output, 0.0)
        return Disc(number, area, optical_depth(shape.w * area))


def discs_of(points: PointGeometry, leaves: dict[str, Variable], matrices: Variable, size: Size) -> Discs:
    """Points in N views; ``leaves`` has their tables by name. Differentiable in these and the matrices (MAT4, N tiles)."""
    at = on_screen(leaves["points"], leaves["radius"], points.unit, matrices, size)
    opacity = leaves["opacity"] * F.square(at.thickness / at.radius)
    return Discs(size, points.count, F.vec4(at.place, at.radius, opacity), at.depth, at.clip, at.seen)
