"""The distance of points to segments on the screen, differentiable any number of times."""

from __future__ import annotations

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.ops.pixel.shortcut import Alias, shortcut
from ....ad.transform.local import local_gradient, local_jvp
from ....ad.types import FLOAT, VEC2, Size
from ...surface.screen import pixel_centres


class PointDistance(Alias):
    """Inputs (distance FLOAT, p VEC2, a VEC2, b VEC2, place FLOAT): the distance of p to the segment from a to b.

    ``place`` in [0, 1] is that of the nearest point q along the segment, ``distance`` that of p to q. To first order
    the distance does not change with the place: inside the segment p - q is perpendicular to it, at an end the place
    stays. So gradients hold it fixed. Further derivatives are those of ``_distance``, where q slides along the segment.
    Differentiable in p, a and b.
    """

    def infer(self):
        if [x.vtype for x in self.inputs] != [FLOAT, VEC2, VEC2, VEC2, FLOAT]:
            raise self.fail(
                "needs the distance, a point and the ends of a segment, VEC2, and the place on it"
            )
        return super().infer()

    def vjp(self, gy, i):
        if i in (0, 4):
            return None
        _, p, a, b, place = self.inputs
        held = gy * F.normalize(p - F.mix(a, b, place))
        if i > 1:
            held = -held * (1.0 - place if i == 2 else place)
        return shortcut(held, local_gradient(_distance, (p, a, b), i - 1, gy))

    def jvp(self, tangents):
        return local_jvp(_distance, self.inputs[1:4], tangents[1:4])


def _distance(p: Variable, a: Variable, b: Variable) -> Variable:
    along, offset = b - a, p - a
    across, length = F.dot(offset, along), F.dot(along, along)
    inside = F.logical_and(F.greater(across, 0.0), F.less(across, length))
    end = F.greater(across, 0.0)
    place = F.select(inside, across / F.select(inside, length, 1.0), end)
    return F.length(p - F.mix(a, b, place))


def point_distance(p: Variable, a: Variable, b: Variable, place: Variable) -> Variable:
    """FLOAT: distance of p to the point at ``place`` in [0, 1], the nearest one of the segment from a to b, VEC2.

    Differentiable in p, a and b, twice too.
    """
    return PointDistance(F.length(p - F.mix(a, b, place)), p, a, b, place).output


def place_on(p: Variable, a: Variable, b: Variable) -> Variable:
    """FLOAT in [0, 1]: the place of the point nearest to p on the segment from a to b, VEC2. Differentiable."""
    along = b - a
    return F.clamp(F.dot(p - a, along) / F.maximum(F.dot(along, along), 1e-30))


def edge_distance(size: Size, ends: Variable) -> Variable:
    """FLOAT of ``size``: the distance of the pixel centres to the segment from ``ends.xy`` to ``ends.zw``. Beyond an end it is
    exactly that to the end, so that edges which meet there tie. For choosing an edge: gradients are those of a fixed place."""
    p, a, b = pixel_centres(size), ends.xy, ends.zw
    place = place_on(p, a, b)
    return F.length(F.select(F.less(place, 1.0), (p - a) - (b - a) * place, p - b))


def squared_distance(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(...) of points p to segments from a to b, (..., 2) each."""
    u, q = b - a, p - a
    t = ((q * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30))[..., None]
    away = np.where(t <= 0, q, np.where(t >= 1, p - b, q - t * u))
    return (away * away).sum(-1)
