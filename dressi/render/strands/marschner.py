"""Strands of hair under lights: `Marschner`, a shader of strands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..shading.bsdf.hair import Directions, FarHair, HairBsdf
from ..shading.lights import DirectionalLight
from .geometry import StrandGeometry
from .opacity import StrandOpacity
from .point import StrandPoint


@dataclass(frozen=True, eq=False)
class Marschner:
    """A shader of strands: hair by its pigment, roughness and index of refraction (``HairBsdf``), seen from afar.

    hair: a ``HairBsdf`` of numbers and Variables of one texel, or a ``FarHair``.  lights: a ``DirectionalLight`` or several.
    strands: what is drawn, for lights with a ``shadow``, whose ``size`` is that of a map of opacity: strands then dim the light
    of those behind them, send it on and send it back (dual scattering).  ambient: radiance from all around, a number or three.
    hidden: how much of each light something else lets through, VEC3s or FLOATs, a function of the point. Colours of the
    strands have no effect. Differentiable in the parameters of the hair, the lights, and points. Raises InputError.

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
        """Of each light: what the strands hide of it."""
        return [
            None
            if light.shadow is None or self.strands is None
            else StrandOpacity.of(self.strands, light.direction, light.shadow.size)
            for light in self._lights
        ]

    def __call__(self, point: StrandPoint) -> Variable:
        tangent, to_eye, far = point.tangent, point.to_eye, self.far
        total = far.albedo(F.dot(tangent, to_eye)) * F.mul(self.ambient, 1.0)
        free = [None] * len(self._lights) if self.hidden is None else self.hidden(point)
        for light, opacity, visible in zip(self._lights, self.opacities, free, strict=True):
            at = Directions.of(tangent, F.normalize(as_variable(light.direction)), to_eye)
            if opacity is None:
                seen = far.scattered(at)
            else:
                seen = far.among_others(at, opacity.crossed(point.point))
            seen = seen * as_variable(light.colour)
            total = total + (seen if visible is None else seen * visible)
        return total
