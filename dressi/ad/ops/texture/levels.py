"""Textures: bilinear and trilinear sampling of an image that holds several levels of a texture."""

from __future__ import annotations

from collections.abc import Callable

from ...graph import Variable
from ..image.lookup import lookup
from ..pixel.arithmetic import add, clamp, mix
from ..pixel.math import floor, to_float, to_int
from ..pixel.vector import swizzle
from .addressing import LevelPlace, LevelTexel, Place, is_binary

__all__: list[str] = []


def bilinear(place: Variable, texel: Callable[[Variable], Variable]) -> Variable:
    """The mean of the four texels around ``place`` by their distance. place: VEC2, in texels; the centre of the first is
    (0.5, 0.5). texel: the value of a texel, IVEC2."""
    place = place - 0.5
    corner = floor(place)
    fraction, first = place - corner, to_int(corner)
    above = mix(texel(first), texel(add(first, (1, 0))), fraction.x)
    below = mix(texel(add(first, (0, 1))), texel(add(first, (1, 1))), fraction.x)
    return mix(above, below, fraction.y)


def sample_level(
    image: Variable, places: tuple[Place, ...], uv: Variable, level: Variable, wrap: str
) -> Variable:
    """One level (INT) of an image of levels, bilinear at uv. Arguments as for ``sample_levels``."""

    place, binary = LevelPlace(level, places).output, is_binary(places)

    def texel(at: Variable) -> Variable:
        return lookup(image, LevelTexel(at, place, wrap, binary).output)

    return bilinear(uv * to_float(swizzle(place, "zw")), texel)


def sample_levels(
    image: Variable, places: tuple[Place, ...], uv: Variable, level: Variable, wrap: str
) -> Variable:
    """The two levels beside ``level``, each bilinear at uv, mixed by its fraction.

    image: FLOAT, VECn or MATn; it holds level k at ``places[k]``, (x, y, width, height). The sizes of levels need not be
    related, for example ``mip_places``, or an environment map that is filtered for several roughnesses. uv: VEC2, in each
    level (0, 0) is the corner of its first texel. level: FLOAT, clamped to those there are. wrap: a name of ``WRAPS``.
    Differentiable in image, uv and level.
    """
    level = clamp(level, 0.0, float(len(places) - 1))
    lower = floor(level)
    first = to_int(lower)
    fine, coarse = (sample_level(image, places, uv, k, wrap) for k in (first, add(first, 1)))
    return mix(fine, coarse, level - lower)
