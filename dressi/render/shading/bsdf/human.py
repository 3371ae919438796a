"""Skin: two lobes of microfacets over light that spreads below the surface.

    f = mix(GGX(roughness), GGX(second_roughness), second)  +  what enters, times what leaves, of the light below

Without ``diffused`` (``shading.skin``), which spreads it, the light below stays where it enters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable, as_variable
from ....ad.graph.types import VEC2, VEC3
from ....ad.ops.pixel.constant import Like
from ....errors import InputError
from ...core.materials import Map, MaterialKind, Normals, Parameter
from .albedo import film_albedo
from .bsdf import Bsdf, Frame, Sky, SkyLight, lobes_pdf, sample_lobes, sky_on_film
from .microfacet import alpha_of, film, passed

SKIN_F0 = 0.028
"""Reflection of skin, of an index of refraction of 1.4, at normal incidence."""

SKIN = MaterialKind(
    "skin",
    (
        Parameter("roughness", default=0.5, text="of the wide lobe", optional=False),
        Parameter("second_roughness", default=0.3, text="of the narrow lobe, which is oil and water", optional=False),
        Parameter("second", default=0.3, text="share of the narrow lobe", optional=False),
        Parameter("f0", default=SKIN_F0, text="reflection at normal incidence", optional=False),
        Parameter(
            "diffused", VEC3, (0.0, 0.0, 0.0), "light that leaves the skin (`diffused`), times the root of the albedo", most=math.inf,
            map=Map("diffused", "", "rgb"),
        ),
        Normals(
            "detail", VEC3, 1.0, "normals of pores, for the reflection; without them, those of the mesh", least=-math.inf,
            most=math.inf, factor="detail_scale", map=Map("detail", "", "rgb", signed=True),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SkinBsdf(Bsdf):
    """Skin, by two lobes of GGX over diffuse reflection, which ``diffused`` replaces.

    Numbers, images at the UVs, or Variables; differentiable in all. detail: a normal map.

    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> skin = SkinBsdf.of((0.8, 0.5, 0.4))
    >>> bool(0.2 < evaluate(skin.reflected(Frame(up, up), up)).max() < 0.4)
    True
    """

    kind = SKIN

    roughness: Like = 0.5
    second_roughness: Like = 0.3
    second: Like = 0.3
    f0: Like = SKIN_F0
    diffused: Variable | None = None
    detail: Variable | None = None

    def specular(self, frame: Frame, to_light: Variable) -> Variable:
        """FLOAT: what both lobes reflect, times the cosine."""
        normal = frame.normal if self.detail is None else self.detail
        wide, narrow = (film(normal, frame.to_eye, to_light, self._f0, r) for r in self._roughnesses)
        lit = F.greater(F.dot(frame.normal, to_light), 0.0)
        return F.select(lit, F.mix(wide, narrow, self.second), 0.0)

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        value = F.vec3(self.specular(frame, to_light))
        if self.diffused is not None:
            return value
        n_l = F.maximum(F.dot(frame.normal, to_light), 0.0)
        return value + self.base * (self.enters(n_l) * self.enters(frame.n_v) * n_l * (1 / math.pi))

    def enters(self, cosine: Variable) -> Variable:
        """FLOAT: the share of light that neither lobe reflects, on its way in or out."""
        first, second = (film_albedo(self._f0, cosine, r) for r in self._roughnesses)
        return 1.0 - F.mix(first, second, self.second)

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        normal = frame.normal if self.detail is None else self.detail
        wide, narrow = (
            sky.specular(normal, frame.to_eye, self._f0, F.clamp(r, 0.0, 1.0)) for r in self._roughnesses
        )
        specular = F.mix(wide, narrow, self.second)
        if self.diffused is not None:
            return SkyLight(F.constant((0.0, 0.0, 0.0)), specular)
        return SkyLight(self.base * sky.diffuse(frame.normal) * self.enters(frame.n_v), specular)

    def emitted(self, frame: Frame) -> Variable | None:
        """The light that has spread below the skin."""
        if self.diffused is None:
            return None
        return self.diffused * F.sqrt(F.maximum(self.base, 1e-6)) * self.enters(frame.n_v)

    # ---- directions

    @property
    def _f0(self) -> Variable:
        return F.clamp(self.f0, 0.0, 1.0)

    @property
    def _roughnesses(self) -> tuple[Like, Like]:
        return self.roughness, self.second_roughness

    def sample(self, frame: Frame, chosen: Variable, u: Variable, v: Variable) -> Variable:
        return sample_lobes(frame, [alpha_of(rough) for rough in self._roughnesses], chosen, u, v)

    def pdf(self, frame: Frame, to_light: Variable) -> Variable:
        return lobes_pdf(frame, [alpha_of(rough) for rough in self._roughnesses], to_light)


# Teeth: wet enamel over light that spreads in it, behind lips.
#
#     f = GGX of a smooth film  +  what leaves of a diffuse lobe that reaches beyond the terminator, farthest for red light
#
# ``lips`` is how much of the light from all around comes through the mouth: that of an elliptic opening
# (``between_lips``). The rest is ``glow``, light reflected inside of the mouth (``inside_mouth``).

F0_TEETH = 0.05
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
    """Teeth; ``base`` is the colour of the enamel. Numbers, images at the UVs or Variables; differentiable.

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
        return film(frame.normal, frame.to_eye, to_light, F0_TEETH, self.roughness)

    def wrapped(self, cosine: Variable) -> Variable:
        """VEC3: the cosine c of a light, spread beyond the terminator by ``scatter`` w: 3/2 max(c + w, 0)^2 /
        (1 + w)^3, whose integral over the sphere is pi."""
        w = F.clamp(self.scatter, 0.0, 1.0)
        c = F.vec3(cosine)
        return F.square(F.maximum(c + w, 0.0)) / F.square(1.0 + w) * (1.5 / (1.0 + w))

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        cosine = F.dot(frame.normal, to_light)
        w = F.clamp(self.scatter, 0.0, 1.0)
        enters = passed(F0_TEETH, (F.vec3(cosine) + w) / (1.0 + w))
        below = self.base * self.wrapped(cosine) * enters * (passed(F0_TEETH, frame.n_v) * (1 / math.pi))
        return (below + F.vec3(self.specular(frame, to_light))) * self.lips

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        return sky_on_film(frame, sky, self.base, F0_TEETH, self.roughness)

    def emitted(self, frame: Frame) -> Variable:
        """Light of what is around the teeth, where it hides the opening."""
        return self.base * self.glow * (1.0 - self.lips) * passed(F0_TEETH, frame.n_v)

    def occluded(self, light: Variable) -> Variable:
        return light * self.lips


def inside_mouth(irradiance: Variable, colour: Like, opening: float) -> Variable:
    """VEC3: the radiance of the inside of a mouth, as of an integrating sphere: E o c / (pi (1 - c (1 - o))).

    irradiance: VEC3, E, of the opening.  colour: VEC3, c, albedo of the walls, below 1.  opening: o, its
    share of the surface. Differentiable.

    >>> round(evaluate(inside_mouth(F.constant((math.pi,) * 3), (0.5,) * 3, 0.2)).max().item(), 4)
    0.1667
    """
    c = as_variable(colour)
    return F.hadamard(irradiance, c) / (1.0 - c * (1.0 - opening)) * (opening / math.pi)


def between_lips(
    point: Variable, centre: Variable, right: Variable, down: Variable, ahead: Variable
) -> Variable:
    """FLOAT in [0, 1]: how much of the light from all around comes to a point through an elliptic opening
    between lips: its projected solid angle over pi, by a disc of the same area.

    point: VEC3.  centre: VEC3, of the opening.  right, down: VEC3, its half axes.  ahead: VEC3, unit, out of
    the mouth. Differentiable in all.

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


# Eyes: a wet cornea over an iris at depth, and the sclera.
#
# The eye ball has a radius of 1 and looks along ``gaze``. On its front lies the cornea, a part of a smaller
# sphere, which meets the ball at the limbus. The ray from the viewer is refracted there and meets the plane
# of the iris; so is the light, which the cornea gathers on the side of the iris that is turned away from it:
# the irradiance is that of the rays that arrive at a point of the iris, found by following them back, divided
# by how much the cornea has spread them (a caustic).

CORNEA = 0.68
"""Radius of the cornea: 7.8 mm of an eye ball of 11.5 mm."""
F0_EYE = 0.025
"""Reflection of the film of tears at normal incidence."""
ROUNDS = 4
"""Of the search for the ray of light that meets a point of the iris."""
STEP = 1e-2
"""Radii: between rays by whose distance the gathering of light is measured."""
NARROWEST = 0.2
"""Beams are gathered to this share of their area at most."""

EYE = MaterialKind(
    "eye",
    (
        Parameter(
            "place", VEC2, (0.0, 0.0), "x along u and y along v on the ball, in its radii, seen from the front", least=-1.0,
            optional=False, map=Map("place", "", "rg", signed=True),
        ),
        Parameter("gaze", VEC3, (0.0, 0.0, 1.0), "direction in which it looks, in the world", least=-1.0, optional=False),
        Parameter("iris", VEC3, (0.25, 0.4, 0.5), "colour of the iris, linear", optional=False),
        Parameter("inner", VEC3, (0.35, 0.25, 0.1), "colour around the pupil, linear", optional=False),
        Parameter("radius", default=0.5, text="of the iris, in radii of the ball", optional=False),
        Parameter("pupil", default=0.17, text="radius of the pupil, in radii of the ball", optional=False),
        Parameter("depth", default=0.26, text="of the iris below the top of the cornea, in radii of the ball", optional=False),
        Parameter("limbus", default=0.12, text="width of the dark ring, in radii of the ball", optional=False),
        Parameter("ior", default=1.376, least=1.0, most=2.0, text="index of refraction of the cornea", optional=False),
        Parameter("wetness", default=0.08, text="roughness of the film of tears", optional=False),
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class EyeBsdf(Bsdf):
    """An eye; ``base`` is the colour of the sclera. Give ``place`` as an image at the UVs (``eye_places``).

    Numbers, images at the UVs, or Variables; differentiable in all. The iris is not reciprocal: the cornea
    spreads light on its way in and the view on its way out.

    >>> ahead = F.constant((0.0, 0.0, 1.0))
    >>> eye = EyeBsdf.of((0.8, 0.8, 0.8), (0.3, 0.0), (0.0, 0.0, 1.0))
    >>> eye.reflected(Frame(ahead, ahead, F.constant((1.0, 0.0, 0.0, 1.0))), ahead).vtype
    VEC3
    """

    kind = EYE
    oriented = True

    place: Any = (0.0, 0.0)
    gaze: Any = (0.0, 0.0, 1.0)
    iris: Any = (0.25, 0.4, 0.5)
    inner: Any = (0.35, 0.25, 0.1)
    radius: Like = 0.5
    pupil: Like = 0.17
    depth: Like = 0.26
    limbus: Like = 0.12
    ior: Like = 1.376
    wetness: Like = 0.08

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.gaze, Variable) and not np.any(self.gaze):
            raise InputError("the gaze of an eye is a direction, not (0, 0, 0)")

    # ---- light

    def specular(self, frame: Frame, to_light: Variable) -> Variable:
        """FLOAT: what the film of tears reflects, times the cosine."""
        return film(frame.normal, frame.to_eye, to_light, F0_EYE, self.wetness)

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        colour, share, q = self._seen(frame)
        light = self._local(frame, to_light)
        n_l = F.maximum(F.dot(frame.normal, to_light), 0.0)
        # Radiance inside is ior^2 times that outside: the cornea gathers light, and spreads what leaves.
        iris = self.gathered(q, light) / F.square(F.maximum(self.ior, 1.0))
        lit = F.mix(n_l * passed(F0_EYE, n_l), iris, share)
        below = colour * (lit * passed(F0_EYE, frame.n_v) * (1 / math.pi))
        return below + F.vec3(self.specular(frame, to_light))

    def environment(self, frame: Frame, sky: Sky) -> SkyLight:
        colour, _, _ = self._seen(frame)
        return sky_on_film(frame, sky, colour, F0_EYE, self.wetness)

    def gathered(self, q: Variable, to_light: Variable) -> Variable:
        """FLOAT: the irradiance of a point of the iris by a light of 1 that meets the cornea.

        q: VEC2, on the plane of the iris.  to_light: VEC3, unit, in the axes of the eye. Differentiable.
        """
        entry = q
        for _ in range(ROUNDS):
            entry = entry + (q - self.through(entry, to_light)) * 0.8
        across, down = (
            (self.through(entry + d, to_light) - self.through(entry - d, to_light)) * (0.5 / STEP)
            for d in (F.constant((STEP, 0.0)), F.constant((0.0, STEP)))
        )
        area = F.maximum(F.abs(across.x * down.y - across.y * down.x), NARROWEST)
        normal = self._normal(entry)
        cosine = F.maximum(F.dot(normal, to_light), 0.0)
        enters = cosine * passed(F0_EYE, cosine) / F.maximum(normal.z, 0.1)
        # Beyond the limbus the sclera hides the light.
        free = F.smoothstep(1.3, 0.9, F.length(entry) / F.maximum(self.radius, 1e-3))
        return enters * free / area

    def through(self, entry: Variable, direction: Variable) -> Variable:
        """VEC2: where a ray meets the plane of the iris. entry: VEC2, where it meets the cornea.  direction:
        VEC3, unit, from which it comes, in the axes of the eye. Differentiable."""
        bent = bend(direction, self._normal(entry), self.ior)
        fall = self._height(entry) - (self._top - self.depth)
        return entry + bent.xy * (fall / F.maximum(-bent.z, 0.2))

    # ---- shape

    @property
    def _centre(self) -> Variable:
        """FLOAT: of the cornea on the axis: it meets the ball at the limbus."""
        squared = F.square(F.clamp(self.radius, 0.05, 0.64))
        return F.sqrt(1.0 - squared) - F.sqrt(CORNEA**2 - squared)

    @property
    def _top(self) -> Variable:
        return self._centre + CORNEA

    def _height(self, p: Variable) -> Variable:
        return self._centre + F.sqrt(F.maximum(CORNEA**2 - F.dot(p, p), 0.01))

    def _normal(self, p: Variable) -> Variable:
        return F.normalize(F.vec3(p, F.sqrt(F.maximum(CORNEA**2 - F.dot(p, p), 0.01))))

    def _local(self, frame: Frame, direction: Variable) -> Variable:
        """VEC3: a direction in the axes of the eye: x along u, y along v, z the gaze."""
        assert frame.tangent is not None
        z = F.normalize(self.gaze)
        x = F.normalize(frame.tangent.xyz - z * F.dot(frame.tangent.xyz, z))
        y = F.cross(z, x) * F.select(F.less(frame.tangent.w, 0.0), -1.0, F.constant(1.0))
        return F.vec3(F.dot(direction, x), F.dot(direction, y), F.dot(direction, z))

    def _seen(self, frame: Frame) -> tuple[Variable, Variable, Variable]:
        """VEC3: the colour that is seen; FLOAT: how much of it is the iris; VEC2: its point."""
        from_middle = F.sqrt(F.dot(self.place, self.place) + 1e-8)
        inside = F.smoothstep(0.0, 1.0, (self.radius - from_middle) / F.maximum(self.limbus, 1e-3) + 0.5)
        q = self.through(self.place, self._local(frame, frame.to_eye))
        away = F.sqrt(F.dot(q, q) + 1e-8)
        out = F.clamp((away - self.pupil) / F.maximum(self.radius - self.pupil, 1e-3), 0.0, 1.0)
        angle = F.atan2(q.y, q.x)
        fibres = (
            0.8
            + 0.1 * F.sin(angle * 41.0 + out * 5.0)
            + 0.07 * F.sin(angle * 73.0 - out * 9.0)
            + 0.06 * F.sin(angle * 19.0 + 2.0)
        )
        iris = F.mix(self.inner, self.iris, F.smoothstep(0.1, 0.5, out)) * fibres
        ring = 1.0 - 0.75 * F.smoothstep(0.7, 1.05, out)
        open_iris = F.smoothstep(-0.5, 0.5, (away - self.pupil) * 25.0)
        return F.mix(self.base, iris * (ring * open_iris), inside), inside, q


def bend(direction: Variable, normal: Variable, ior: Like) -> Variable:
    """VEC3: the unit direction in which a ray goes on inside. direction: VEC3, unit, from which it comes.
    normal: VEC3, unit, outward.  ior: FLOAT, of the inside. Differentiable.

    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> evaluate(bend(up, up, 1.5)).ravel().tolist()
    [0.0, 0.0, -1.0]
    """
    over = F.div(1.0, ior)
    cosine = F.clamp(F.dot(direction, normal), 0.0, 1.0)
    inside = F.sqrt(F.maximum(1.0 - (1.0 - cosine * cosine) * over * over, 1e-6))
    return F.normalize((normal * cosine - direction) * over - normal * inside)
