"""All segments of a pixel at once, in any order: sums over fragments.

The opacity of all segments of a pixel needs no order: it is 1 - exp(-sum of their optical depths). Their colour does: what lies
in front counts more. A first sum has the optical depth, and its mean and variance along the view, from which the
transmittance to any distance is taken as that of a cloud with these moments; a second sum is weighted by it. Where one strand
alone meets a pixel, or all have one colour, the result is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from .drawn import DrawnStrands
from .point import StrandPoint

SPREAD = 1e-3
"""The least spread of a cloud, in distances from the camera."""
LOGISTIC = 1.702
"""The logistic curve of this slope is that of the normal distribution within a hundredth."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The images of ``StrandPicture``, each made when it is read: FLOAT and VEC3 of the batch of the views."""

    drawn: DrawnStrands
    limit: Variable | None

    @cached_property
    def mask(self) -> Variable:
        """How much the strands hide."""
        return 1.0 - F.exp(-self._moments.x)

    @cached_property
    def premultiplied(self) -> Variable:
        """Their colour times ``mask``."""
        found = self._sum(lambda p: F.vec4(self.drawn.shader(p), 1.0) * self._weight(p))
        return found.xyz * (self.mask / F.maximum(found.w, 1e-12))

    @cached_property
    def weighted_depth(self) -> Variable:
        """Their distance from the camera times ``mask``."""
        found = self._sum(lambda p: F.vec2(p.distance, 1.0) * self._weight(p))
        return found.x * (self.mask / F.maximum(found.y, 1e-12))

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
        """VEC3: the optical depth, and that times the distance and its square; distances are relative to the middle, so that single
        precision suffices."""

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
