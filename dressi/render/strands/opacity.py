"""How much light comes through strands: deep opacity of ribbons (Yuksel and Keyser 2008, "Deep Opacity Maps").

A texel of the map holds the optical depth of all strands on the way of the light, and its first four moments over the height
(``layers.absorbance``): sums over ribbons drawn from the light, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..layers.moments import powers, share_before
from ..shading.shadows import light_frame
from .draw import drawn_strands
from .geometry import StrandGeometry
from .point import StrandPoint, unlit

LARGEST = 4096
MARGIN = 1.02
"""Of the map around the strands."""


@dataclass(frozen=True, eq=False)
class StrandOpacity:
    """The optical depth of strands on the way of a parallel light."""

    turn: Variable
    """MAT3: from the world to right, down and towards the light."""
    centre: Variable
    """VEC3."""
    radius: float
    total: Variable
    """FLOAT, size x size. Differentiable in points, radii and opacities."""
    moments: Variable
    """VEC4, size x size: the total times the first four powers of the height, and so differentiable, too."""
    bias: float
    """Radii by which points are moved towards the light."""

    @classmethod
    def of(
        cls, strands: StrandGeometry, direction: Like, size: int = 256, bias: float | None = None
    ) -> StrandOpacity:
        """direction: VEC3 or three numbers, towards the light; differentiable.  size: texels of the map along each side.
        bias: how far points are moved towards the light, a fraction of the extent of the strands; by default two texels.
        Raises InputError.

        >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
        >>> StrandOpacity.of(strand, (0.0, 1.0, 0.0), 16).total.size
        (16, 16)
        """
        if not isinstance(size, int) or not 2 <= size <= LARGEST:
            raise InputError(f"size of a map of opacity is a whole number from 2 to {LARGEST}, not {size!r}")
        low, high = strands.bounds()
        middle, radius = (low + high) / 2, float(np.linalg.norm(high - low) / 2 * MARGIN) or 1.0
        towards = F.normalize(direction if isinstance(direction, Variable) else F.constant(tuple(direction)))
        turn = light_frame(towards)
        centre = F.constant(tuple(middle.tolist()))
        rows = [F.column(F.transpose(turn), k) * (1 / radius) for k in range(3)]
        # z / w is 0 at the light and 1 beyond the strands.
        rows[2] = rows[2] * -0.5
        moved = [-F.dot(row, centre) for row in rows]
        matrix = F.transpose(
            F.mat4(
                F.vec4(rows[0], moved[0]),
                F.vec4(rows[1], moved[1]),
                F.vec4(rows[2], moved[2] + 0.5),
                F.constant((0.0, 0.0, 0.0, 1.0)),
            )
        )
        drawn = drawn_strands(strands, matrix, (size, size), unlit)

        def summed(value):
            return F.store(drawn.summed(lambda number, _: value(drawn.point(number))))

        def weighted(point: StrandPoint) -> Variable:
            return powers(point.depth * 2.0 - 1.0) * point.fragment.absorbance

        total = summed(lambda point: point.fragment.absorbance)
        return cls(turn, centre, radius, total, summed(weighted), 4.0 / size if bias is None else bias)

    def crossed(self, point: Variable) -> Variable:
        """FLOAT: the optical depth between a point (VEC3) and the light. Differentiable in the point, too."""
        local = (self.turn @ (point - self.centre)) * (1 / self.radius)
        uv = local.xy * 0.5 + 0.5
        total = F.sample(self.total, uv, "bilinear", "clamp")
        moments = F.sample(self.moments, uv, "bilinear", "clamp")
        share = share_before(moments / F.maximum(total, 1e-6), -local.z - self.bias, 0.5)
        inside = F.less(F.max_component(F.abs(local.xy)), 1.0)
        return F.select(F.logical_and(inside, F.greater(total, 1e-5)), total * share, 0.0)
