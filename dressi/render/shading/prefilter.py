"""An environment map filtered for lobes of several widths: the first factor of the split-sum approximation.

Karis, "Real Shading in Unreal Engine 4" (2013). Seen from straight above, the lobe of GGX is round, so that each level is a
convolution on the sphere (``sphere_filter``), exact in value and gradient. Levels are as small as their lobes allow.
"""

from __future__ import annotations

import math
from itertools import pairwise

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.texture.addressing import Place
from ...ad.types import Size
from .sphere_filter import CosineKernel, GgxKernel, Kernel, solid_angles, sphere_filter

ROUGHNESS = (0.0, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0)
"""The roughness of each level. Level 0 is the map. The table of lobes (``split_sum``) is fitted to these."""
HALF_WIDTH = 1.28
"""Half the width at half height of the lobe, in radians for alpha = 1: D(h) is half its peak at 0.64 alpha, and the direction of
the reflection turns twice as far as the half vector."""
FINENESS = 0.62
"""Texels of a level are at most so many half widths of its lobe."""
WIDEST, NARROWEST = 256, 16
"""Widths of filtered levels."""
TAIL = 120.0
"""Lobes end where the squared sine of half the angle is so many times alpha squared: beyond are 0.8 % of the light."""


def blurred_level(solid_angle: Variable) -> Variable:
    """FLOAT: the level, between whole ones, whose lobe is as wide as a solid angle: a disc of half its width at half height.

    >>> evaluate(blurred_level(as_variable(math.pi * HALF_WIDTH**2))).round(6).item()
    8.0
    """
    alpha = F.sqrt(F.clamp(solid_angle / (math.pi * HALF_WIDTH**2), 1e-12, 1.0))
    roughness, level = F.sqrt(alpha), F.constant(0.0)
    for low, high in pairwise(ROUGHNESS):
        level = level + F.clamp(roughness - low, 0.0, high - low) / (high - low)
    return level


def level_width(alpha: float, width: int) -> int:
    """The width of a level: the least power of two that is fine enough, at most that of the map."""
    needed = 2 * math.pi / (FINENESS * HALF_WIDTH * alpha)
    least = max(NARROWEST, 2 ** math.ceil(math.log2(needed)))
    return min(least, WIDEST, 2 ** int(math.log2(width)))


def level_sizes(size: Size) -> list[Size]:
    """The sizes of all levels for a map of ``size``."""
    widths = [level_width(r * r, size[0]) for r in ROUGHNESS[1:]]
    return [size, *((w, w // 2) for w in widths)]


def level_places(size: Size) -> tuple[Place, ...]:
    """(x, y, width, height) of each level in the image of ``filtered_levels``: the map on top, the others in rows below."""
    (width, height), *rest = level_sizes(size)
    places, x, y, below = [(0, 0, width, height)], 0, height, 0
    for w, h in rest:
        if x + w > width:
            x, y = 0, y + below
        if x == 0:
            below = h
        places.append((x, y, w, h))
        x += w
    return tuple(places)


def weighted(image: Variable) -> Variable:
    """VEC3: the texels of an equirectangular map times their solid angles."""
    return image * solid_angles(image.size)


def shrunk(light: Variable, size: Size) -> Variable:
    """A map of light times solid angle with fewer texels: sums of what each covers."""
    if light.size == size:
        return light
    covered = light.size[0] / size[0] * (light.size[1] / size[1])
    return F.resize(light, size, "area") * covered


def convolved(light: Variable, kernel: Kernel, size: Size) -> Variable:
    """VEC3: the mean radiance under the kernel around each direction. light: radiance times solid angle."""
    return sphere_filter(light, kernel, size) / sphere_filter(solid_angles(light.size), kernel, size)


def level_kernel(roughness: float, width: int, coarse: bool) -> GgxKernel:
    """The lobe of a level. coarse: whether its texels, and those that it is made of, are wider than those of the map."""
    texel = 2 * math.pi / width
    # Two texels blend where the level is sampled, which widens the lobe: by 1/6 of a squared texel on average. Half of it, taken off
    # all lobes, gave the least error on photographed environments.
    blur = texel**2 / 12
    squared = max(roughness**4 - blur, roughness**4 / 2)
    reach = min(2 * math.asin(math.sqrt(min(TAIL * roughness**4, 0.5))), math.pi / 2)
    return GgxKernel(math.sqrt(squared), 0.0 if coarse else texel / 2, reach)


def filtered_levels(image: Variable) -> Variable:
    """VEC3: one image of all levels at their ``level_places``. Linear in the map, and differentiable."""
    light, places = weighted(image), level_places(image.size)
    (width, height) = image.size[0], max(y + h for _, y, _, h in places)
    result = F.pad(image, 0, 0, 0, height - image.size[1])
    for roughness, (x, y, w, h) in zip(ROUGHNESS[1:], places[1:], strict=True):
        kernel = level_kernel(roughness, w, w < image.size[0])
        level = convolved(shrunk(light, (w, h)), kernel, (w, h))
        result = result + F.pad(level, x, y, width - x - w, height - y - h)
    return result


def irradiance(image: Variable) -> Variable:
    """VEC3, at most 32x16: what surfaces facing each direction gather, divided by pi. Linear in the map."""
    width = min(32, 2 ** int(math.log2(image.size[0])))
    size = (width, width // 2)
    return convolved(shrunk(weighted(image), size), CosineKernel(), size)
