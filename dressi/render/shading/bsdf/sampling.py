"""Directions drawn by the cosine and by visible microfacets, and images of several samples a pixel."""

from __future__ import annotations

import math
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import Size
from .microfacet import LEAST_COSINE, ggx


class Grid(NamedTuple):
    """How many samples a pixel has along x and y: an image of samples is so many times as large as that of pixels."""

    across: int
    down: int

    def spread(self, x: Variable) -> Variable:
        """An image of pixels as one of samples. Images of one texel, row or column broadcast along that axis already."""
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
    """MAT3: from axes with z along the normal to the world; Duff et al., "Building an Orthonormal Basis, Revisited" (2017).

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
    """VEC3: interpolated normals may look away from the eye; then microfacets are drawn as for a grazing one."""
    n_v = F.dot(normal, to_eye)
    grazing = F.normalize(to_eye + normal * (LEAST_COSINE - n_v))
    return F.select(F.less(n_v, LEAST_COSINE), grazing, to_eye)


def by_cosine(u: Variable, v: Variable) -> Variable:
    """VEC3 around +z: with the density of the cosine over pi."""
    radius, angle = F.sqrt(u), v * (2 * math.pi)
    return F.vec3(radius * F.cos(angle), radius * F.sin(angle), F.sqrt(1.0 - u))


def by_ggx(eye: Variable, alpha: Variable, u: Variable, v: Variable) -> Variable:
    """VEC3 around +z, as ``eye``: mirrored at a visible microfacet; Dupuy and Benyoub, "Sampling Visible GGX Normals with
    Spherical Caps" (2023)."""
    stretched = F.normalize(F.vec3(eye.x * alpha, eye.y * alpha, eye.z))
    angle, z = u * (2 * math.pi), (1.0 - v) * (1.0 + stretched.z) - stretched.z
    radius = F.sqrt(F.clamp(1.0 - z * z, 0.0, 1.0))
    half = F.vec3(radius * F.cos(angle), radius * F.sin(angle), z) + stretched
    half = F.normalize(F.vec3(half.x * alpha, half.y * alpha, F.maximum(half.z, 1e-7)))
    return half * (2.0 * F.dot(eye, half)) - eye


def ggx_pdf(n_v: Variable, alpha: Variable, n_h: Variable) -> Variable:
    """FLOAT: the density of ``by_ggx``, G1(v) D(h) v.h / n.v over the Jacobian 4 v.h of the mirrored direction."""
    squared = alpha * alpha
    root = F.sqrt(squared + (1.0 - squared) * n_v * n_v)
    return ggx(n_h, alpha) * 0.5 / (n_v + root)
