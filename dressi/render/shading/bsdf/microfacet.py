"""Microfacets: GGX with Smith's visibility and Schlick's reflection.

    D(h)     GGX                        a^2 / (pi ((n.h)^2 (a^2 - 1) + 1)^2),  a = roughness^2
    V(l, v)  height-correlated Smith    1 / 2 / (n.l sqrt((n.v)^2 (1 - a^2) + a^2) + n.v sqrt((n.l)^2 (1 - a^2) + a^2))
    F(v.h)   Schlick                    f0 + (f90 - f0) (1 - v.h)^5

Everything is differentiable in every argument.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable, as_variable
from ....ad.graph.types import Size
from ....ad.ops.pixel.constant import Like

DIELECTRIC = 0.04
"""Reflection of a dielectric with an index of refraction of 1.5 at normal incidence."""
LEAST_ROUGHNESS = 0.045
"""Least roughness under lights without extent: a mirror reflects them in no pixel or in one."""
LEAST_COSINE = 1e-4
"""Surfaces are seen at least this steeply, so that nothing is divided by zero."""


def ggx(n_h: Variable, alpha: Variable) -> Variable:
    """FLOAT: the GGX distribution. n_h: cosine of the half vector.  alpha: squared roughness.

    >>> round(evaluate(ggx(as_variable(1.0), as_variable(0.5))).item(), 4)
    1.2732
    """
    squared = alpha * alpha
    # 1 - (n.h)^2 (1 - a^2) loses all digits at small angles and alphas; (1 - n.h) (1 + n.h) does not.
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


def schlick(f0: Variable, cosine: Variable, f90: Like = 1.0) -> Variable:
    """VEC3 or FLOAT: Fresnel's reflection by Schlick. f0, f90: at normal and at grazing incidence.  cosine:
    between direction and half vector.

    >>> round(evaluate(schlick(as_variable(0.04), as_variable(0.0))).item(), 4)
    1.0
    """
    rest = F.clamp(1.0 - cosine, 0.0, 1.0)
    squared = rest * rest
    return f0 + (f90 - f0) * (squared * squared * rest)


def alpha_of(roughness: Like) -> Variable:
    """FLOAT: alpha of GGX, the squared roughness, which is at least LEAST_ROUGHNESS.

    >>> evaluate(alpha_of(as_variable(0.5))).item()
    0.25
    """
    return F.square(F.maximum(roughness, LEAST_ROUGHNESS))


def film(normal: Variable, to_eye: Variable, to_light: Variable, f0: Like, roughness: Like) -> Variable:
    """FLOAT: what a film reflects of a light, times the cosine; 0 from behind. normal, to_eye, to_light: unit
    VEC3. f0: reflection at normal incidence. Differentiable in all.

    >>> up = F.constant((0.0, 0.0, 1.0))
    >>> round(evaluate(film(up, up, up, 0.04, 0.5)).item(), 4)
    0.0509
    """
    half, alpha = F.normalize(to_light + to_eye), alpha_of(roughness)
    facing = F.dot(normal, to_light)
    n_l, n_v = (F.maximum(x, LEAST_COSINE) for x in (facing, F.dot(normal, to_eye)))
    n_h, v_h = (F.clamp(F.dot(x, half), 0.0, 1.0) for x in (normal, to_eye))
    value = ggx(n_h, alpha) * smith(n_l, n_v, alpha) * schlick(as_variable(f0), v_h) * n_l
    return F.select(F.greater(facing, 0.0), value, 0.0)


def passed(f0: Like, cosine: Variable) -> Variable:
    """FLOAT or VEC3: what passes a film of light at an angle. Differentiable."""
    return 1.0 - schlick(as_variable(f0), F.clamp(cosine, 0.0, 1.0))


# Directions drawn by the cosine and by visible microfacets, and images of several samples a pixel.


class Grid(NamedTuple):
    """How many samples a pixel has along x and y; an image of samples is so many times larger."""

    across: int
    down: int

    def spread(self, x: Variable) -> Variable:
        """An image of pixels as one of samples. Axes of one texel stay: they broadcast."""
        width, height = x.size
        size = (width * self.across if width > 1 else 1, height * self.down if height > 1 else 1)
        return F.resize(x, size, "nearest")

    def mean(self, x: Variable) -> Variable:
        """An image of samples as one of pixels."""
        return F.resize(x, (x.size[0] // self.across, x.size[1] // self.down), "area")

    def numbers(self, size: Size) -> Variable:
        """INT: which sample of its pixel each is. size: of the image of samples."""
        place = F.pixel_coordinates(size)
        return F.mod(place.x, self.across) + F.mod(place.y, self.down) * self.across


def axes(n: Variable) -> Variable:
    """MAT3: from axes with z along the normal to the world.

    Duff et al., "Building an Orthonormal Basis, Revisited" (2017).

    >>> evaluate(axes(F.constant((0.0, 1.0, 0.0))))[0, 0, 0, :, 2].tolist()
    [0.0, 1.0, 0.0]
    """
    sign = F.select(F.greater_equal(n.z, 0.0), 1.0, -1.0)
    a = -1.0 / (sign + n.z)
    b = n.x * n.y * a
    return F.mat3(
        F.vec3(1.0 + sign * n.x * n.x * a, sign * b, -sign * n.x), F.vec3(b, sign + n.y * n.y * a, -n.y), n
    )


def seen_from_above(normal: Variable, to_eye: Variable) -> Variable:
    """VEC3: the eye, moved to grazing where an interpolated normal looks away from it."""
    n_v = F.dot(normal, to_eye)
    grazing = F.normalize(to_eye + normal * (LEAST_COSINE - n_v))
    return F.select(F.less(n_v, LEAST_COSINE), grazing, to_eye)


def by_cosine(u: Variable, v: Variable) -> Variable:
    """VEC3 around +z: with the density of the cosine over pi."""
    radius, angle = F.sqrt(u), v * (2 * math.pi)
    return F.vec3(radius * F.cos(angle), radius * F.sin(angle), F.sqrt(1.0 - u))


def by_ggx(eye: Variable, alpha: Variable, u: Variable, v: Variable) -> Variable:
    """VEC3 around +z, as ``eye``: mirrored at a visible microfacet; Dupuy and Benyoub, "Sampling Visible GGX
    Normals with Spherical Caps" (2023)."""
    stretched = F.normalize(F.vec3(eye.x * alpha, eye.y * alpha, eye.z))
    angle, z = u * (2 * math.pi), (1.0 - v) * (1.0 + stretched.z) - stretched.z
    radius = F.sqrt(F.clamp(1.0 - z * z, 0.0, 1.0))
    half = F.vec3(radius * F.cos(angle), radius * F.sin(angle), z) + stretched
    half = F.normalize(F.vec3(half.x * alpha, half.y * alpha, F.maximum(half.z, 1e-7)))
    return half * (2.0 * F.dot(eye, half)) - eye


def ggx_pdf(n_v: Variable, alpha: Variable, n_h: Variable) -> Variable:
    """FLOAT: the density of ``by_ggx``: G1(v) D(h) v.h / n.v over the Jacobian 4 v.h of mirroring."""
    squared = alpha * alpha
    root = F.sqrt(squared + (1.0 - squared) * n_v * n_v)
    return ggx(n_h, alpha) * 0.5 / (n_v + root)
