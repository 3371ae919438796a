"""Directions for the light that a surface reflects: of the map, of the cosine and of the microfacets, with one density.

Veach and Guibas, "Optimally Combining Sampling Techniques for Monte Carlo Rendering" (1995): with the balance heuristic a
sample counts by one over the mean of all densities at it, no matter which of them drew it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.ops.pixel.constant import Like
from ....ad.types import Size
from ....errors import InputError
from ..brdf import LEAST_COSINE, LEAST_ROUGHNESS, Reflectance, ggx
from .distribution import MapDistribution

BY_MAP = 0.5
"""The share of samples that are drawn from the map."""
COUNTERS = 8
"""Numbers of F.random that a step may use."""


class Samples(NamedTuple):
    """Directions and what they count. The images hold ``grid`` texels for each pixel, ``environment_samples``."""

    direction: Variable
    """VEC3: unit, in the world, away from the surface."""
    weight: Variable
    """FLOAT: one over the density over solid angle; 0 below the surface. Their mean is the integral."""
    grid: Size
    """Samples of a pixel along x and y."""

    def spread(self, x: Variable) -> Variable:
        """An image of pixels as one of samples. Images of one texel, row or column broadcast along that axis already."""
        (width, height), (across, down) = x.size, self.grid
        size = (width * across if width > 1 else 1, height * down if height > 1 else 1)
        return F.resize(x, size, "nearest")

    def mean(self, x: Variable) -> Variable:
        """An image of samples as one of pixels."""
        return F.resize(x, (x.size[0] // self.grid[0], x.size[1] // self.grid[1]), "area")


def grid_of(samples: int) -> Size:
    """Samples along x and y, as near to a square as the number allows. Raises InputError.

    >>> grid_of(64), grid_of(32), grid_of(7)
    ((8, 8), (4, 8), (1, 7))
    """
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= 1024:
        raise InputError(
            f"samples of a pixel are a whole number from 1 to 1024, not {samples!r}; send more steps for more"
        )
    across = next(k for k in range(math.isqrt(samples), 0, -1) if samples % k == 0)
    return across, samples // across


def environment_samples(
    distribution: MapDistribution,
    to_world: Variable | None,
    surface: Reflectance,
    normal: Variable,
    to_eye: Variable,
    samples: int,
    seed: Like = 0,
    step: Like = 0,
) -> Samples:
    """``samples`` directions for every pixel: half by the map, the others by the cosine and by the lobes of GGX.

    to_world: MAT3 from the map to the world, None for the identity.  normal, to_eye: unit VEC3, away from the surface.
    seed, step: INT, one texel; each step has other numbers. The result has no derivatives: samples are detached, so that the
    mean of weight times integrand is unbiased, and so are its derivatives at fixed samples. Raises InputError.
    """
    grid = grid_of(samples)
    result = Samples(normal, normal, grid)
    given = [normal, to_eye, *_alphas(surface)]
    (width, height), batch = (
        (max(x.size[0] for x in given), max(x.size[1] for x in given)),
        max(x.batch for x in given),
    )
    large = (width * grid[0], height * grid[1])
    normal, to_eye, *alphas = (F.stop_gradient(result.spread(x)) for x in given)
    frame = _frame(normal)
    to_eye = _seen_from_above(normal, to_eye)
    eye = F.transpose(frame) @ to_eye

    first = step * COUNTERS
    number = _numbers(grid, large)
    turns = [result.spread(F.random(seed, first + k, (width, height), batch)) for k in range(3)]
    in_texel = [F.random(seed, first + k, large, batch) for k in (3, 4)]
    # The samples of a pixel lie evenly, from a random place on: which way each is drawn, and what it draws.
    chosen = (F.to_float(number) + turns[0]) / samples
    even = F.sobol2(number)
    u, v = (F.fract(x + turn) for x, turn in zip((even.x, even.y), turns[1:], strict=True))
    light = distribution.direction((u, v, in_texel[0], in_texel[1]))
    direction, threshold = (light if to_world is None else to_world @ light), BY_MAP
    each = (1.0 - BY_MAP) / (1 + len(alphas))
    for local in (_by_cosine(u, v), *(_by_ggx(eye, a, u, v) for a in alphas)):
        direction = F.select(F.less(chosen, threshold), direction, frame @ local)
        threshold += each
    direction = F.stop_gradient(F.normalize(direction))

    n_l = F.dot(normal, direction)
    in_map = direction if to_world is None else F.transpose(to_world) @ direction
    pdf = BY_MAP * distribution.pdf(in_map) + F.maximum(n_l, 0.0) * (each / math.pi)
    # As in ``brdf.reflected``, so that the rounding of narrow lobes cancels.
    n_h = F.clamp(F.dot(normal, F.normalize(direction + to_eye)), 0.0, 1.0)
    for alpha in alphas:
        pdf = pdf + each * _ggx_pdf(eye.z, alpha, n_h)
    weight = F.select(F.greater(n_l, 0.0), 1.0 / F.maximum(pdf, 1e-20), 0.0)
    return Samples(direction, F.stop_gradient(weight), grid)


def _alphas(surface: Reflectance) -> list[Variable]:
    """Alpha of each lobe of GGX that the surface has, as in ``brdf.reflected``."""
    rough = [surface.roughness]
    if surface.clearcoat is not None:
        coat = surface.clearcoat_roughness
        rough.append(F.constant(0.0) if coat is None else coat)
    return [F.square(F.maximum(r, LEAST_ROUGHNESS)) for r in rough]


def _numbers(grid: Size, size: Size) -> Variable:
    """INT: which sample of its pixel each is."""
    place = F.pixel_coordinates(size)
    return F.mod(place.x, grid[0]) + F.mod(place.y, grid[1]) * grid[0]


def _frame(n: Variable) -> Variable:
    """MAT3: from axes with z along the normal to the world; Duff et al., "Building an Orthonormal Basis, Revisited" (2017)."""
    sign = F.select(F.greater_equal(n.z, 0.0), 1.0, -1.0)
    a = -1.0 / (sign + n.z)
    b = n.x * n.y * a
    return F.mat3(
        F.vec3(1.0 + sign * n.x * n.x * a, sign * b, -sign * n.x), F.vec3(b, sign + n.y * n.y * a, -n.y), n
    )


def _seen_from_above(normal: Variable, to_eye: Variable) -> Variable:
    """Interpolated normals may look away from the eye; then microfacets are drawn as for a grazing one."""
    n_v = F.dot(normal, to_eye)
    grazing = F.normalize(to_eye + normal * (LEAST_COSINE - n_v))
    return F.select(F.less(n_v, LEAST_COSINE), grazing, to_eye)


def _by_cosine(u: Variable, v: Variable) -> Variable:
    radius, angle = F.sqrt(u), v * (2 * math.pi)
    return F.vec3(radius * F.cos(angle), radius * F.sin(angle), F.sqrt(1.0 - u))


def _by_ggx(eye: Variable, alpha: Variable, u: Variable, v: Variable) -> Variable:
    """Mirrored at a visible microfacet; Dupuy and Benyoub, "Sampling Visible GGX Normals with Spherical Caps" (2023)."""
    stretched = F.normalize(F.vec3(eye.x * alpha, eye.y * alpha, eye.z))
    angle, z = u * (2 * math.pi), (1.0 - v) * (1.0 + stretched.z) - stretched.z
    radius = F.sqrt(F.clamp(1.0 - z * z, 0.0, 1.0))
    half = F.vec3(radius * F.cos(angle), radius * F.sin(angle), z) + stretched
    half = F.normalize(F.vec3(half.x * alpha, half.y * alpha, F.maximum(half.z, 1e-7)))
    return half * (2.0 * F.dot(eye, half)) - eye


def _ggx_pdf(n_v: Variable, alpha: Variable, n_h: Variable) -> Variable:
    """FLOAT: the density of ``_by_ggx``, G1(v) D(h) v.h / n.v over the Jacobian 4 v.h of the mirrored direction."""
    squared = alpha * alpha
    root = F.sqrt(squared + (1.0 - squared) * n_v * n_v)
    return ggx(n_h, alpha) * 0.5 / (n_v + root)
