"""Pictures of strands and points: ``draw_strands``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, VEC3, Size
from ...ad.ops.image.draws import Fragment
from ...ad.ops.pixel.constant import Like
from ...ad.transform.gradient import total
from ...errors import InputError, OfVariables
from ..cameras.pose import matrices_leaf
from ..cameras.views import seen_by
from ..surface.projection import depth_of_zw, eye_of
from .geometry import PointGeometry, StrandGeometry, leaf_of
from .ribbons import Discs, Ribbons, StrandPoint, StrandShader, discs_of, ribbons_of, unlit

MOST_LAYERS = 64


@dataclass(frozen=True, eq=False)
class StrandPicture(OfVariables):
    """What ``draw_strands`` returns: images of N tiles, as Variables even if all arguments are arrays. Each
    is built on first use; unused ones cost nothing. ``render(strands, cameras)`` gives arrays.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24)).over((0.0, 0.0, 1.0)).vtype
    VEC3
    """

    drawn: DrawnStrands
    limit: Variable | None

    @cached_property
    def mask(self) -> Variable:
        """FLOAT in [0, 1): how much of the pixel the strands hide. Differentiable."""
        raise NotImplementedError

    @cached_property
    def colour(self) -> Variable:
        """VEC3: the strands over black, linear. Differentiable."""
        return self._weighted(self.drawn.shader)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT: ``mask`` times the ``distance``, as ``colour`` is over black. It does not jump where a
        strand begins, so the derivative of a loss is exact there, too. Differentiable."""
        return self._weighted(lambda point: point.distance)

    def _weighted(self, value: Callable[[StrandPoint], Variable]) -> Variable:
        """The mean of a value of what is seen, times ``mask``."""
        raise NotImplementedError

    @cached_property
    def distance(self) -> Variable:
        """FLOAT: the distance from the camera along its axis (``Picture.depth``), the mean of what is seen; 0
        where there is nothing. It jumps where a strand begins, which the derivative leaves out: take
        ``depth`` for losses."""
        there = F.greater(self.mask, 1e-4)
        return F.select(there, self.depth / F.select(there, self.mask, 1.0), 0.0)

    def over(self, background: Like) -> Variable:
        """VEC3: the strands over a colour or an image, such as the ``colour`` of a ``Picture`` of the same
        cameras."""
        return self.colour + F.mul(background, 1.0 - self.mask)


def draw_strands(
    strands: StrandGeometry | PointGeometry,
    cameras: Any = None,
    *,
    size: Size | None = None,
    shader: StrandShader = unlit,
    limit: Variable | None = None,
    layers: int | None = None,
) -> StrandPicture:
    """Strands, lines or points as differentiable images.

    ::

        hair = load_strands("head.hair")
        picture = draw_strands(hair, camera, shader=KajiyaKay((0, 1, 1)))
        loss = F.mean(F.square(F.length(picture.over(0.5) - photograph)))

    strands: a ``StrandGeometry`` or ``PointGeometry``.  cameras: a ``Camera``, ``Cameras``, ``Views``,
    ``Poses``, or matrices (4, 4), (N, 4, 4) or MAT4 1x1 with N tiles, from the world to Vulkan's clip space,
    with a ``size`` (W, H). Left out: a view that frames the points.  shader: the colour of a ``StrandPoint``;
    by default that of the geometry.
    limit: FLOAT image of N tiles: the depth z / w, in [0, 1], of what stands in front and hides the rest.
    layers: how many segments are composed in a pixel, the nearest first; what lies behind is left out. By
    default (None) all are summed in any order: ``mask`` is then exact, and colours count by the transmittance
    of a cloud of the same mean distance and spread.

    Each pixel holds the exact area of each segment in it (a box filter), so derivatives by points and radii
    are those of the picture. Strands that cross the near plane end at their last point in front of it.
    Differentiable in the tables of the geometry, matrices, and Variables of the shader. Raises InputError.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24)).mask.size
    (32, 24)
    """
    if not isinstance(strands, (StrandGeometry, PointGeometry)):
        raise InputError(
            f"draw_strands takes a StrandGeometry or a PointGeometry, not {type(strands).__name__}; load files with load_strands"
        )
    if layers is not None and (not isinstance(layers, int) or not 1 <= layers <= MOST_LAYERS):
        raise InputError(f"layers are a whole number from 1 to {MOST_LAYERS}, or None, not {layers!r}")
    seen = seen_by(cameras, size, None if cameras is not None else np.stack(strands.bounds()))
    seen.check_straight()
    matrices = seen.matrices if isinstance(seen.matrices, Variable) else matrices_leaf(seen.matrices)
    drawn = drawn_strands(strands, matrices, seen.size, shader)
    return Sums(drawn, limit) if layers is None else SortedLayers(drawn, limit, layers)


def drawn_strands(
    strands: StrandGeometry | PointGeometry, matrices: Variable, size: Size, shader: StrandShader
) -> DrawnStrands:
    """Strands or points in N views, MAT4 1x1 of N tiles."""
    types = {"points": VEC3, "radius": FLOAT, "colours": VEC3, "opacity": FLOAT}
    leaves = {name: leaf_of(name, vtype, getattr(strands, name)) for name, vtype in types.items()}
    shapes: Ribbons | Discs
    if isinstance(strands, StrandGeometry):
        shapes = ribbons_of(strands, leaves, matrices, size)
        before, after = (F.lookup(leaves["points"], n) for n in (shapes.chain.before, shapes.chain.after))
        leaves["tangents"] = F.normalize(after - before)
    else:
        shapes = discs_of(strands, leaves, matrices, size)
    return DrawnStrands(shapes, leaves, matrices, shader, strands.count)


# The nearest segments of a pixel, one after the other, composed from front to back.

LEAST = 1e-5
"""Segments of a smaller optical depth are left out: they would take the place of others."""


@dataclass(frozen=True, eq=False)
class SortedLayers(StrandPicture):
    """The images of the nearest ``layers`` segments, or points, of each pixel.

    They are exact where no more meet in a pixel. Equal depths are ordered by number. Differentiable, but for
    the choice of the segments.
    """

    layers: int

    @cached_property
    def _points(self) -> list[tuple[StrandPoint, Variable]]:
        """The point of each layer and its weight, FLOAT: its opacity times what earlier layers let
        through."""
        last: tuple[Variable, Variable] | None = None
        light: Variable | None = None
        points = []
        for _ in range(self.layers):
            number = _peel(self.drawn, last, self.limit)
            point = self.drawn.point(number)
            there = F.greater_equal(number, 0)
            # Nothing comes after an empty layer.
            last = (F.select(there, F.lookup(self.drawn.shapes.order, number), 2.0), number)
            opacity = F.select(there, point.opacity, 0.0)
            points.append((point, opacity if light is None else light * opacity))
            light = 1.0 - opacity if light is None else light * (1.0 - opacity)
        return points

    @cached_property
    def mask(self) -> Variable:
        return self._weighted(lambda _: F.constant(1.0))

    def _weighted(self, value: Callable[[StrandPoint], Variable]) -> Variable:
        # The value may be anything where there is no point.
        seen = [(point, weight, F.greater(weight, 0.0)) for point, weight in self._points]
        return total([F.select(there, value(point), 0.0) * weight for point, weight, there in seen])


def _peel(drawn: DrawnStrands, last: tuple[Variable, Variable] | None, limit: Variable | None) -> Variable:
    """INT: the nearest segment that comes after ``last`` (depth, number), -1 for none."""

    def fragment(number: Variable) -> tuple[Variable, Variable]:
        point = drawn.point(number)
        depth = F.lookup(drawn.shapes.order, number)
        keep = F.greater(point.fragment.absorbance, LEAST)
        if limit is not None:
            keep = F.logical_and(keep, F.less(depth, limit))
        if last is not None:
            tied = F.logical_and(F.equal(depth, last[0]), F.greater(number, last[1]))
            after = F.logical_or(F.greater(depth, last[0]), tied)
            keep = F.logical_and(keep, F.logical_and(after, F.not_equal(number, last[1])))
        return depth, keep

    return drawn.nearest(fragment)


# All segments of a pixel at once, in any order: sums over fragments.
#
# The opacity of all segments of a pixel needs no order: it is 1 - exp(-sum of their optical depths). Their
# colour does: what lies in front counts more. A first sum has the optical depth with its mean and variance
# along the view. The transmittance to any distance is taken as that of a cloud with these moments; it weights
# a second sum. The result is exact where one strand alone meets a pixel, or all have one colour.

SPREAD = 1e-3
"""The least spread of a cloud, in distances from the camera."""
LOGISTIC = 1.702
"""The logistic curve of this slope is that of the normal distribution within a hundredth."""


@dataclass(frozen=True, eq=False)
class Sums(StrandPicture):
    """The images of all segments of each pixel."""

    @cached_property
    def mask(self) -> Variable:
        return 1.0 - F.exp(-self._moments.x)

    def _weighted(self, value: Callable[[StrandPoint], Variable]) -> Variable:
        def with_one(point: StrandPoint) -> Variable:
            own = value(point)
            joined = F.vec4 if own.vtype is VEC3 else F.vec2
            return joined(own, 1.0) * self._weight(point)

        weighted = self._sum(with_one)
        if weighted.vtype.components == 4:
            return weighted.xyz * (self.mask / F.maximum(weighted.w, 1e-12))
        return weighted.x * (self.mask / F.maximum(weighted.y, 1e-12))

    def _sum(self, value: Callable[[StrandPoint], Variable]) -> Variable:
        """The sum over all fragments of a value of their ``StrandPoint``."""

        def kept(number: Variable, _: Variable) -> Variable | tuple[Variable, Variable]:
            point = self.drawn.point(number)
            if self.limit is None:
                return value(point)
            return value(point), F.less(F.stop_gradient(point.depth), self.limit)

        return self.drawn.summed(kept)

    @cached_property
    def _moments(self) -> Variable:
        """VEC3: the optical depth, and that times the distance and its square; distances are relative to the
        middle, so that single precision suffices."""

        def value(point: StrandPoint) -> Variable:
            away = point.distance - self.drawn.middle
            return F.vec3(1.0, away, away * away) * point.fragment.absorbance

        return self._sum(value)

    @cached_property
    def _cloud(self) -> tuple[Variable, Variable, Variable]:
        """FLOATs: the optical depth, its mean distance, and LOGISTIC over its spread."""
        moments = self._moments
        total = F.maximum(moments.x, 1e-12)
        mean, square = moments.y / total, moments.z / total
        spread = F.sqrt(F.maximum(square - mean * mean, 0.0) + F.square(self.drawn.middle * SPREAD))
        return moments.x, mean, LOGISTIC / F.maximum(spread, 1e-12)

    def _weight(self, point: StrandPoint) -> Variable:
        """The optical depth of a fragment times the transmittance to it."""
        total, mean, slope = self._cloud
        before = F.sigmoid((point.distance - self.drawn.middle - mean) * slope)
        return point.fragment.absorbance * F.exp(-total * before)


@dataclass(frozen=True, eq=False)
class DrawnStrands:
    """Strands or points on the screen with their shader."""

    shapes: Ribbons | Discs
    leaves: dict[str, Variable]
    matrices: Variable
    """MAT4: from the world to clip space, one a view."""
    shader: StrandShader
    points: int
    """How many points the geometry has."""

    @cached_property
    def eye(self) -> Variable:
        """VEC3: the places of the cameras."""
        return eye_of(self.matrices)

    @cached_property
    def middle(self) -> Variable:
        """FLOAT, one a view: the distance of the mean point along the axis of the camera. No derivative. The
        mean is taken before the camera, so a moving camera sums no list."""
        mean = F.sum(self.leaves["points"], "xy") * (1 / self.points)
        clip = F.matmul(self.matrices, F.vec4(mean, 1.0))
        return F.stop_gradient(depth_of_zw(F.swizzle(clip, "zw"), self.matrices))

    @property
    def _triangles(self) -> dict[str, Any]:
        two = {"triangles": 2 * self.shapes.count, "triangles_per_face": 2}
        return {"size": self.shapes.size, **two, "live": self.shapes.live}

    def summed(self, value: Callable[[Variable, Variable], Any]) -> Variable:
        """The sum over all fragments of ``value(number, depth)`` (``F.accumulate``)."""
        return F.accumulate(self.shapes.quads, value=value, **self._triangles)

    def nearest(self, fragment: Fragment) -> Variable:
        """INT: the number whose fragment wins, -1 for none (``F.rasterize``)."""
        return F.rasterize(self.shapes.quads, fragment=fragment, **self._triangles)

    def point(self, number: Variable) -> StrandPoint:
        """The point of the segment, or the point, of that number (INT) at each pixel."""
        return StrandPoint(self.shapes.at(number), self.leaves, self.eye, self.shapes.clip, self.matrices)
