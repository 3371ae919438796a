"""Teeth: wet enamel over light that spreads in it, behind lips.

    f = GGX of a smooth film  +  what leaves of a diffuse lobe that reaches beyond the terminator, farthest for red light

``lips`` is how much of the light from all around comes through the mouth: that of an elliptic opening (``between_lips``). From
elsewhere comes ``glow``, light that the inside of the mouth has reflected any number of times (``inside_mouth``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ....ad import functional as F
from ....ad.graph import Variable, as_variable
from ....ad.ops.pixel.constant import Like
from ....ad.types import VEC3
from ...materials import Map, MaterialKind, Parameter
from .bsdf import Bsdf, Frame, Sky, SkyLight, sky_on_film
from .microfacet import film, passed

F0 = 0.05
"""Reflection of enamel, of an index of refraction of 1.6, at normal incidence."""

TEETH = MaterialKind(
    "teeth",
    (
        Parameter("roughness", default=0.18, text="of the wet enamel", optional=False),
        Parameter("scatter", VEC3, (0.4, 0.3, 0.15), "how far light reaches beyond the terminator, a cosine", optional=False),
        Parameter(
            "lips", VEC3, (1.0, 1.0, 1.0), "share of light that comes through the mouth (`between_lips`)", optional=False,
            map=Map("lips", "", "rgb"),
        ),
        Parameter("glow", VEC3, (0.0, 0.0, 0.0), "radiance of lips, cheeks and gums around them (`inside_mouth`)", most=math.inf, optional=False),
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TeethBsdf(Bsdf):
    """Teeth; ``base`` is the colour of the enamel. Numbers, images at the UVs, or Variables; differentiable in all.

    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> TeethBsdf.of((0.8, 0.75, 0.65)).reflected(Frame(up, up), up).vtype
    VEC3
    """

    kind = TEETH

    roughness: Like = 0.18
    scatter: Any = (0.4, 0.3, 0.15)
    lips: Any = (1.0, 1.0, 1.0)
    glow: Any = (0.0, 0.0, 0.0)

    def specular(self, frame: Frame, to_light: Variable) -> Variable:
        """FLOAT: what the film reflects, times the cosine."""
        return film(frame.normal, frame.to_eye, to_light, F0, self.roughness)

    def wrapped(self, cosine: Variable) -> Variable:
        """VEC3: the cosine c of a light, spread beyond the terminator by ``scatter`` w: 3/2 max(c + w, 0)^2 / (1 + w)^3, whose
        integral over the sphere is pi."""
        w = F.clamp(self.scatter, 0.0, 1.0)
        c = F.vec3(cosine)
        return F.square(F.maximum(c + w, 0.0)) / F.square(1.0 + w) * (1.5 / (1.0 + w))

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        cosine = F.dot(frame.normal, to_light)
        w = F.clamp(self.scatter, 0.0, 1.0)
        enters = passed(F0, (F.vec3(cosine) + w) / (1.0 + w))
        below = self.base * self.wrapped(cosine) * enters * (passed(F0, frame.n_v) * (1 / math.pi))
        return (below + F.vec3(self.specular(frame, to_light))) * self.lips

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        return sky_on_film(frame, sky, self.base, F0, self.roughness)

    def emitted(self, frame: Frame) -> Variable:
        """Light of what is around the teeth, where it hides the opening."""
        return self.base * self.glow * (1.0 - self.lips) * passed(F0, frame.n_v)

    def occluded(self, light: Variable) -> Variable:
        return light * self.lips


def inside_mouth(irradiance: Variable, colour: Like, opening: float) -> Variable:
    """VEC3: the radiance of the inside of a mouth, as of an integrating sphere: E o c / (pi (1 - c (1 - o))).

    irradiance: VEC3, E, of the opening.  colour: VEC3, c, albedo of the walls, below 1.  opening: o, its share of the surface.
    Differentiable.

    >>> round(evaluate(inside_mouth(F.constant((math.pi,) * 3), (0.5,) * 3, 0.2)).max().item(), 4)
    0.1667
    """
    c = as_variable(colour)
    return F.hadamard(irradiance, c) / (1.0 - c * (1.0 - opening)) * (opening / math.pi)


def between_lips(
    point: Variable, centre: Variable, right: Variable, down: Variable, ahead: Variable
) -> Variable:
    """FLOAT in [0, 1]: how much of the light from all around comes to a point through an elliptic opening between lips: its
    projected solid angle over pi, by a disc of the same area.

    point: VEC3.  centre: VEC3, of the opening.  right, down: VEC3, its half axes.  ahead: VEC3, unit, out of the mouth.
    Differentiable in all.

    >>> o, x, y, z = (F.constant(tuple(v)) for v in np.vstack([np.zeros(3), np.eye(3)]).tolist())
    >>> round(evaluate(between_lips(z * -1.0, o, x, y, z)).item(), 2)
    0.5
    """
    away = centre - point
    area = F.length(right) * F.length(down)
    squared = F.dot(away, away)
    cosine = F.maximum(F.dot(away, ahead), 0.0) * F.inversesqrt(F.maximum(squared, 1e-12))
    # Of a disc of radius r in front at the distance d: r^2 / (r^2 + d^2).
    return area * F.square(cosine) / F.maximum(area + squared, 1e-12)
