"""The reflection of glTF 2.0 materials for light from one direction: metallic-roughness, clearcoat and sheen.

    f = mix(dielectric, metal, metallic) under a coat, with sheen on top          (glTF 2.0, appendix B)

    D(h)     GGX                        a^2 / (pi ((n.h)^2 (a^2 - 1) + 1)^2),  a = roughness^2
    V(l, v)  height-correlated Smith    1 / 2 / (n.l sqrt((n.v)^2 (1 - a^2) + a^2) + n.v sqrt((n.l)^2 (1 - a^2) + a^2))
    F(v.h)   Schlick                    f0 + (1 - f0) (1 - v.h)^5,  f0 = mix(0.04, base, metallic)

Directions are unit VEC3 that point away from the surface. Everything is differentiable in every argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like
from .sheen import under_sheen

DIELECTRIC = 0.04
"""Reflection of a dielectric with an index of refraction of 1.5 at normal incidence."""
LEAST_ROUGHNESS = 0.045
"""Smaller roughness is taken as this for lights without extent: a mirror reflects them in no pixel or in one."""
LEAST_COSINE = 1e-4
"""Surfaces are seen at least this steeply, so that nothing is divided by zero."""


@dataclass(frozen=True, eq=False)
class Reflectance:
    """A glTF material at every pixel: what its maps and factors give there. FLOAT or VEC3 Variables.

    >>> Reflectance.of(base=(0.8, 0.2, 0.2), metallic=0.0, roughness=0.5).f0.vtype
    VEC3
    """

    base: Variable
    """VEC3 in [0, 1]: base colour, linear."""
    metallic: Variable
    """FLOAT in [0, 1]."""
    roughness: Variable
    """FLOAT in [0, 1], perceptual: alpha of GGX is its square."""
    occlusion: Variable | None = None
    """FLOAT in [0, 1]: how much of indirect light arrives; None for all of it."""
    emission: Variable | None = None
    """VEC3: light that the surface gives off, linear."""
    clearcoat: Variable | None = None
    """FLOAT in [0, 1]: strength of a clear layer above, with index of refraction 1.5; None for no layer."""
    clearcoat_roughness: Variable | None = None
    """FLOAT in [0, 1]."""
    sheen: Variable | None = None
    """VEC3 in [0, 1]: colour of sheen, as of cloth; None for none."""
    sheen_roughness: Variable | None = None
    """FLOAT in [0, 1]."""

    @classmethod
    def of(cls, base: Like, metallic: Like, roughness: Like, **others: Like | None) -> Reflectance:
        """The same from numbers, tuples or Variables."""
        given = {name: None if x is None else as_variable(x) for name, x in others.items()}
        return cls(as_variable(base), as_variable(metallic), as_variable(roughness), **given)

    @property
    def f0(self) -> Variable:
        """VEC3: reflection at normal incidence."""
        return F.mix(F.vec3(F.constant(DIELECTRIC)), self.base, self.metallic)

    @property
    def diffuse(self) -> Variable:
        """VEC3: the colour of diffuse reflection, which metals lack."""
        return self.base * (1.0 - self.metallic)


def ggx(n_h: Variable, alpha: Variable) -> Variable:
    """FLOAT: the GGX distribution of microfacet normals. n_h: cosine of the half vector.  alpha: squared roughness.

    >>> round(evaluate(ggx(as_variable(1.0), as_variable(0.5))).item(), 4)
    1.2732
    """
    squared = alpha * alpha
    # 1 - (n.h)^2 (1 - a^2) loses all digits where n.h is near 1 and alpha small: then (1 - n.h) (1 + n.h) is exact.
    inside = (1.0 - n_h) * (1.0 + n_h) + n_h * n_h * squared
    return squared / (inside * inside * math.pi)


def smith(n_l: Variable, n_v: Variable, alpha: Variable) -> Variable:
    """FLOAT: the height-correlated visibility of Smith, G / (4 n.l n.v). Cosines must be positive.

    >>> round(evaluate(smith(as_variable(1.0), as_variable(1.0), as_variable(0.5))).item(), 4)
    0.25
    """
    squared = alpha * alpha
    rest = 1.0 - squared
    return 0.5 / (n_l * F.sqrt(n_v * n_v * rest + squared) + n_v * F.sqrt(n_l * n_l * rest + squared))


def schlick(f0: Variable, cosine: Variable) -> Variable:
    """VEC3 or FLOAT: Fresnel's reflection by Schlick. f0: at normal incidence.  cosine: between direction and half vector.

    >>> round(evaluate(schlick(as_variable(0.04), as_variable(0.0))).item(), 4)
    1.0
    """
    rest = F.clamp(1.0 - cosine, 0.0, 1.0)
    squared = rest * rest
    return f0 + (1.0 - f0) * (squared * squared * rest)


def reflected(surface: Reflectance, normal: Variable, to_eye: Variable, to_light: Variable) -> Variable:
    """VEC3: the part of the radiance of a light in direction ``to_light`` that the surface sends to the eye: the BRDF times
    the cosine, 0 for light from behind.

    normal, to_eye, to_light: unit VEC3. Multiply by the irradiance of the light on a plane that faces it.

    >>> clay = Reflectance.of(base=(0.5, 0.5, 0.5), metallic=0.0, roughness=1.0)
    >>> up = as_variable((0.0, 0.0, 1.0))
    >>> bool(abs(evaluate(reflected(clay, up, up, up)) - 0.156).max() < 1e-3)
    True
    """
    half = F.normalize(to_light + to_eye)
    n_l = F.dot(normal, to_light)
    lit = F.greater(n_l, 0.0)
    n_l = F.maximum(n_l, LEAST_COSINE)
    n_v = F.maximum(F.dot(normal, to_eye), LEAST_COSINE)
    n_h = F.clamp(F.dot(normal, half), 0.0, 1.0)
    v_h = F.clamp(F.dot(to_eye, half), 0.0, 1.0)
    alpha = F.square(F.maximum(surface.roughness, LEAST_ROUGHNESS))
    fresnel = schlick(surface.f0, v_h)
    specular = fresnel * (ggx(n_h, alpha) * smith(n_l, n_v, alpha))
    diffuse = surface.diffuse * (1.0 - schlick(F.constant(DIELECTRIC), v_h)) / math.pi
    value = diffuse + specular
    if surface.sheen is not None:
        value = under_sheen(value, surface.sheen, surface.sheen_roughness, n_l, n_v, n_h)
    if surface.clearcoat is not None:
        value = _under_coat(surface, value, n_l, n_v, n_h, v_h)
    return F.select(lit, value * n_l, 0.0)


def _under_coat(
    surface: Reflectance, value: Variable, n_l: Variable, n_v: Variable, n_h: Variable, v_h: Variable
) -> Variable:
    """KHR_materials_clearcoat: a GGX layer of f0 0.04; what is below gets what the layer lets through."""
    assert surface.clearcoat is not None
    rough = surface.clearcoat_roughness
    alpha = F.square(F.maximum(F.constant(0.0) if rough is None else rough, LEAST_ROUGHNESS))
    layer = ggx(n_h, alpha) * smith(n_l, n_v, alpha)
    fresnel = schlick(F.constant(DIELECTRIC), v_h)
    return F.mix(value, F.vec3(layer), surface.clearcoat * fresnel)
