"""Strands of hair under lights: `Marschner`, a shader of strands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..layers.moments import powers, share_before
from ..shading.bsdf.hair import Directions, FarHair, HairBsdf
from ..shading.lights import DirectionalLight, light_frame
from .draw import drawn_strands
from .geometry import StrandGeometry
from .ribbons import StrandPoint, unlit


@dataclass(frozen=True, eq=False)
class Marschner:
    """A shader of strands: hair by its pigment, roughness and index of refraction (``HairBsdf``), seen from
    afar.

    hair: a ``HairBsdf`` of numbers and Variables of one texel, or a ``FarHair``.  lights: a
    ``DirectionalLight`` or several.
    strands: what is drawn, for lights with a ``shadow``, whose ``size`` is that of a map of opacity: strands
    then dim the light of those behind them, send it on and send it back (dual scattering).  ambient: radiance
    from all around, a number or three.
    hidden: how much of each light something else lets through, VEC3s or FLOATs, a function of the point.
    Colours of the strands have no effect. Differentiable in the parameters of the hair, the lights, and
    points. Raises InputError.

    >>> sun = DirectionalLight((0.0, 1.0, 1.0), 3.0)
    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24), shader=Marschner(HairBsdf(melanin=0.3), sun)).colour.vtype
    VEC3
    """

    hair: HairBsdf | FarHair
    lights: DirectionalLight | Sequence[DirectionalLight]
    strands: StrandGeometry | None = None
    ambient: Like = 0.0
    hidden: Callable[[StrandPoint], Sequence[Variable]] | None = None
    _lights: list[DirectionalLight] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        given = [self.lights] if isinstance(self.lights, DirectionalLight) else list(self.lights)
        for light in given:
            if not isinstance(light, DirectionalLight):
                raise InputError(f"hair is lit by DirectionalLight, not {type(light).__name__}")
            if light.shadow is not None and self.strands is None:
                raise InputError(
                    "a light with a shadow needs the strands that cast it: Marschner(..., strands=)"
                )
        floats = [light.in_floats() for light in given]
        self._lights.extend(light for light in floats if isinstance(light, DirectionalLight))

    @cached_property
    def far(self) -> FarHair:
        """The tables of the hair."""
        if isinstance(self.hair, FarHair):
            return self.hair
        values = {name: getattr(self.hair, name) for name in self.hair.kind.parts}
        return FarHair(HairBsdf.of(None, **values))

    @cached_property
    def opacities(self) -> list[StrandOpacity | None]:
        """What the strands hide of each light; None of a light without a shadow."""
        opacities: list[StrandOpacity | None] = []
        for light in self._lights:
            if light.shadow is None or self.strands is None:
                opacities.append(None)
            else:
                opacities.append(StrandOpacity.of(self.strands, light.direction, light.shadow.size))
        return opacities

    def __call__(self, point: StrandPoint) -> Variable:
        tangent, to_eye, far = point.tangent, point.to_eye, self.far
        total = far.albedo(F.dot(tangent, to_eye)) * F.mul(self.ambient, 1.0)
        free = [None] * len(self._lights) if self.hidden is None else self.hidden(point)
        for light, opacity, visible in zip(self._lights, self.opacities, free, strict=True):
            at = Directions.of(tangent, F.normalize(as_variable(light.direction)), to_eye)
            others = None if opacity is None else opacity.crossed(point.point)
            seen = far.scattered(at) if others is None else far.among_others(at, others)
            seen = seen * as_variable(light.colour)
            total = total + (seen if visible is None else seen * visible)
        return total


# How much light comes through strands: deep opacity of ribbons (Yuksel and Keyser 2008, "Deep Opacity Maps").
#
# A texel of the map holds the optical depth of all strands on the way of the light, and its first four
# moments over the height (``layers.moments``): sums over ribbons drawn from the light, in any order.

LARGEST = 4096
MARGIN = 1.02
"""By what factor the map is larger than the strands."""


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
        """direction: VEC3 or three numbers, towards the light; differentiable.  size: texels of the map along
        each side.
        bias: how far points are moved towards the light, a fraction of the extent of the strands; by default
        two texels. Raises InputError.

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
        moved[2] = moved[2] + 0.5
        columns = [F.vec4(row, offset) for row, offset in zip(rows, moved, strict=True)]
        matrix = F.transpose(F.mat4(*columns, F.constant((0.0, 0.0, 0.0, 1.0))))
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
