"""Skin: two lobes of microfacets over light that spreads below the surface.

    f = mix(GGX(roughness), GGX(second_roughness), second)  +  what enters, times what leaves, of the light below

Without ``diffused`` the light below stays where it enters, as in a matt surface. ``shading.skin.diffused`` spreads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.ops.pixel.constant import Like
from ....ad.types import VEC3
from ...materials import Map, MaterialKind, Normals, Parameter
from .albedo import film_albedo
from .bsdf import Bsdf, Frame, Sky, SkyLight
from .microfacet import alpha_of, axes, by_cosine, by_ggx, film, ggx_pdf

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

    Numbers, images at the UVs, or Variables; differentiable in all. detail: a normal map of what is too fine for the mesh.

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
        """FLOAT: the share of light that neither lobe reflects, at an angle to the normal; on its way in and on its way out."""
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
        to_world = axes(frame.normal)
        eye = F.transpose(to_world) @ frame.to_eye
        direction = to_world @ by_cosine(u, v)
        for k, rough in enumerate(self._roughnesses, 1):
            direction = F.select(
                F.less(chosen, k / 3), direction, to_world @ by_ggx(eye, alpha_of(rough), u, v)
            )
        return direction

    def pdf(self, frame: Frame, to_light: Variable) -> Variable:
        density = F.maximum(F.dot(frame.normal, to_light), 0.0) * (1 / (3 * math.pi))
        n_h = F.clamp(F.dot(frame.normal, F.normalize(to_light + frame.to_eye)), 0.0, 1.0)
        for rough in self._roughnesses:
            density = density + ggx_pdf(frame.n_v, alpha_of(rough), n_h) * (1 / 3)
        return density
