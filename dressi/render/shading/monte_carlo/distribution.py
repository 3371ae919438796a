"""Directions drawn from an environment map by its luminance, as a graph: tables are computed on the device."""

from __future__ import annotations

import math
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ..sphere_filter import solid_angles
from ..split_sum import equirectangular

LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Weights of linear red, green and blue (Rec. 709)."""


class MapDistribution(NamedTuple):
    """A probability density of directions, constant in each texel of an equirectangular map. No derivatives.

    >>> even = MapDistribution.of(Variable.of(np.ones((8, 16, 3)), VEC3))
    >>> bool(abs(evaluate(even.pdf(F.constant((0.0, 1.0, 0.0)))).item() * 4 * np.pi - 1) < 1e-6)
    True
    """

    density: Variable
    """FLOAT (W, H): one over steradians."""
    columns: Variable
    """FLOAT (W, H): sums of the light of each row up to and with this column."""
    rows: Variable
    """FLOAT (1, H): sums of the light of all rows up to and with this one."""

    @classmethod
    def of(cls, image: Variable) -> MapDistribution:
        """image: VEC3 (W, H), linear radiance, at least 0. The density is that of its luminance."""
        width, height = image.size
        # Lookups are bilinear: the mean over a texel has an eighth of each neighbour. So dark texels beside the sun count.
        light = F.dot(F.stop_gradient(image), LUMINANCE)
        light = 0.75 * light + 0.125 * (F.shift(light, 1, 0, "repeat") + F.shift(light, -1, 0, "repeat"))
        light = 0.75 * light + 0.125 * (F.shift(light, 0, 1) + F.shift(light, 0, -1))
        columns = cumulative(light * solid_angles(image.size), 0)
        rows = cumulative(F.crop(columns, width - 1, 0, (1, height)), 1)
        # A black map: there is no light, and the density is 0.
        return cls(light / F.maximum(F.crop(rows, 0, height - 1, (1, 1)), 1e-30), columns, rows)

    def pdf(self, direction: Variable) -> Variable:
        """FLOAT: the density at a direction, VEC3 in the map, over solid angle."""
        return F.sample(self.density, equirectangular(direction), "nearest", "sphere")

    def direction(self, u: tuple[Variable, Variable, Variable, Variable]) -> Variable:
        """VEC3, unit, in the map: drawn by four random numbers in [0, 1), the row, the column, and the place in the texel."""
        width, height = self.density.size
        row = _first_above(self.rows, u[0], None)
        column = _first_above(self.columns, u[1], row)
        # Even over the solid angle of the texel: even in the cosine.
        top, bottom = (F.cos((F.to_float(row) + k) * (math.pi / height)) for k in (0.0, 1.0))
        y = F.clamp(F.mix(top, bottom, u[3]), -1.0, 1.0)
        across = F.sqrt((1.0 - y) * (1.0 + y))
        azimuth = (F.to_float(column) + u[2]) * (2 * math.pi / width) - math.pi
        return F.vec3(across * F.sin(azimuth), y, -across * F.cos(azimuth))


def cumulative(x: Variable, axis: int) -> Variable:
    """Sums of all texels up to each, along the columns (axis 0) or the rows (1), in as many steps as its extent has bits.

    >>> evaluate(cumulative(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), 0)).ravel().tolist()
    [1.0, 3.0, 6.0, 10.0, 15.0]
    """
    step = 1
    while step < x.size[axis]:
        x = x + (F.shift(x, step, 0, "zero") if axis == 0 else F.shift(x, 0, step, "zero"))
        step *= 2
    return x


def _first_above(sums: Variable, u: Variable, row: Variable | None) -> Variable:
    """INT: the first entry of a row of ``sums`` (of its only column without ``row``) that is above u times the last one."""

    def entry(k: Variable) -> Variable:
        return F.lookup(sums, F.ivec2(0, k) if row is None else F.ivec2(k, row))

    count = sums.size[0 if row is not None else 1]
    place = F.to_int(F.zeros_like(u))
    target = u * entry(place + (count - 1))
    step = 1 << (count - 1).bit_length()
    while step := step // 2:
        further = place + step
        below = F.less(further, count) * F.less_equal(entry(further - 1), target)
        place = F.select(below, further, place)
    return place
