"""How GGX reflects an environment that is filtered for round lobes: where to look, how blurred, and with what weight.

The split-sum approximation reads one filtered level in the direction of the mirror, as if the surface were seen from straight
above. Towards the horizon the true lobe is long, narrow and cut off, and one round lobe misses up to 10 % of the reflected
light. Here three round lobes in the plane of incidence stand for the true one, or one at a place and of a width that suit.
Places, widths and weights are fitted for each cosine and roughness: least squares of the difference in spherical harmonics,
degree l weighted by (l + 1)^-2.5, for photographed environments have less of the higher ones. The weights add up to the
albedo.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import VEC4
from .bsdf.albedo import LEAST_COSINE, lobe_place, lobe_table, looked_up

LOBES = (1, 3)
"""Numbers of lobes for which there are tables."""


class Lobe(NamedTuple):
    """One lookup in the filtered environment: what it adds is ``(f0 * scale + bias)`` times the light there."""

    direction: Variable
    """VEC3, not normalised."""
    level: Variable
    """FLOAT: the level, see ``prefilter.ROUGHNESS``."""
    scale: Variable
    """FLOAT: the weight that belongs to f0."""
    bias: Variable
    """FLOAT: the weight that belongs to f90, which is 1."""


def lobes(normal: Variable, to_eye: Variable, roughness: Variable, count: int) -> list[Lobe]:
    """The lookups that stand for the reflection of an environment; ``count`` is one of LOBES.

    normal, to_eye: unit VEC3, away from the surface.  roughness: FLOAT in [0, 1]. Differentiable in all.
    """
    n_v = F.clamp(F.dot(normal, to_eye), LEAST_COSINE, 1.0)
    place, result = lobe_place(n_v, roughness), []
    sine_squared = (1.0 - n_v) * (1.0 + n_v)
    for k, table in enumerate(lobe_table(count)):
        entry = looked_up(table, VEC4, f"lobe {k}", place)
        turned = entry.x
        cosine = F.sqrt(F.maximum(1.0 - turned * turned * sine_squared, 1e-6))
        # The mirrored direction is 2 n.v n - v: there ``turned`` is 1 and the cosine is n.v.
        direction = normal * (cosine + turned * n_v) - to_eye * turned
        result.append(Lobe(direction, entry.y, entry.z, entry.w))
    return result


def compensation(f0: Variable, albedo: Variable) -> Variable:
    """VEC3: the factor for light that is reflected several times between microfacets, which single scattering loses.

    Turquin, "Practical multiple scattering compensation for microfacet models" (2019), equation 16: 1 + f0 (1 - E) / E.
    albedo: E, FLOAT, the sum of scale and bias of all lobes.

    >>> evaluate(compensation(F.constant((1.0, 1.0, 1.0)), F.constant(0.5)))[0, 0, 0].tolist()
    [2.0, 2.0, 2.0]
    """
    return 1.0 + f0 * (1.0 / albedo - 1.0)


def equirectangular(direction: Variable) -> Variable:
    """VEC2: where a direction stands in an equirectangular map: up +Y is v = 0, -Z is the centre.

    direction: VEC3 of any length but 0. Differentiable but at the poles.

    >>> evaluate(equirectangular(F.constant((0.0, 0.0, -1.0))))[0, 0, 0].tolist()
    [0.5, 0.5]
    """
    x, y, z = direction.x, direction.y, direction.z
    across = F.sqrt(F.maximum(x * x + z * z, 1e-12))
    return F.vec2(F.atan2(x, -z) / (2 * math.pi) + 0.5, F.atan2(across, y) / math.pi)
