"""The nearest segments of a pixel, one after the other, composed from front to back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.transform.gradient import total
from .drawn import DrawnStrands
from .point import StrandPoint

LEAST = 1e-5
"""Segments of a smaller optical depth are left out: they would take the place of others."""


@dataclass(frozen=True, eq=False)
class SortedLayers:
    """The images of ``StrandPicture`` from the nearest ``layers`` segments, or points, of each pixel.

    They are exact where no more meet in a pixel. Equal depths are ordered by number. Differentiable, but for the choice of the
    segments.
    """

    drawn: DrawnStrands
    layers: int
    limit: Variable | None

    @cached_property
    def _points(self) -> list[tuple[StrandPoint, Variable]]:
        """The point of each layer and its weight, FLOAT: its opacity times what the layers before it let through."""
        last: tuple[Variable, Variable] | None = None
        light: Variable | None = None
        found = []
        for _ in range(self.layers):
            number = _peel(self.drawn, last, self.limit)
            point = self.drawn.point(number)
            there = F.greater_equal(number, 0)
            # Nothing comes after an empty layer.
            last = (F.select(there, F.lookup(self.drawn.shapes.order, number), 2.0), number)
            opacity = F.select(there, point.opacity, 0.0)
            found.append((point, opacity if light is None else light * opacity))
            light = 1.0 - opacity if light is None else light * (1.0 - opacity)
        return found

    @cached_property
    def mask(self) -> Variable:
        """How much the strands hide."""
        return self._weighted(lambda _: F.constant(1.0))

    @cached_property
    def premultiplied(self) -> Variable:
        """Their colour times ``mask``."""
        return self._weighted(self.drawn.shader)

    @cached_property
    def weighted_depth(self) -> Variable:
        """Their distance from the camera times ``mask``."""
        return self._weighted(lambda point: point.distance)

    def _weighted(self, value: Callable[[StrandPoint], Variable]) -> Variable:
        # Where there is no point its value may be anything.
        return total(
            [F.select(F.greater(weight, 0.0), value(point), 0.0) * weight for point, weight in self._points]
        )


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
