"""Textures: sampling of an image that holds several levels of a texture, or of a stack of textures."""

from __future__ import annotations

from collections.abc import Callable

from ...graph import Variable
from ..image.lookup import lookup
from ..pixel.arithmetic import add, clamp, mix
from ..pixel.constant import constant
from ..pixel.math import floor, to_float, to_int
from ..pixel.vector import ivec4, swizzle
from .addressing import LevelPlace, LevelTexel, Place, WrapName, is_binary

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


def level_place(places: tuple[Place, ...], level: Variable, layer: Variable | None) -> Variable:
    """IVEC4: the place of a level (INT), and of one of its layers (INT)."""
    place = LevelPlace(level, places).output
    return place if layer is None else add(place, ivec4(0, layer * place.w, 0, 0))


def sample_level(
    image: Variable,
    places: tuple[Place, ...],
    uv: Variable,
    level: Variable,
    wrap: WrapName,
    layer: Variable | None = None,
) -> Variable:
    """One level (INT) of an image of levels, bilinear at uv. Arguments as for ``sample_levels``."""
    place, binary = level_place(places, level, layer), is_binary(places)

    def texel(at: Variable) -> Variable:
        return lookup(image, LevelTexel(at, place, wrap, binary).output)

    return bilinear(uv * to_float(swizzle(place, "zw")), texel)


def sample_nearest(
    image: Variable, place: Place, uv: Variable, wrap: WrapName, layer: Variable | None = None
) -> Variable:
    """The texel of one level that contains uv. Arguments as for ``sample_levels``."""
    texel = to_int(floor(uv * (float(place[2]), float(place[3]))))
    at = level_place((place,), constant(0), layer)
    return lookup(image, LevelTexel(texel, at, wrap, is_binary((place,))).output)


def between_levels(level: Variable, count: int, one: Callable[[Variable], Variable]) -> Variable:
    """``one`` of the two levels (INT) beside ``level`` (FLOAT, clamped to those there are), mixed by its fraction."""
    level = clamp(level, 0.0, float(count - 1))
    lower = floor(level)
    first = to_int(lower)
    return mix(one(first), one(add(first, 1)), level - lower)


def sample_levels(
    image: Variable,
    places: tuple[Place, ...],
    uv: Variable,
    level: Variable,
    wrap: WrapName,
    layer: Variable | None = None,
) -> Variable:
    """The two levels beside ``level``, each bilinear at uv, mixed by its fraction.

    image: FLOAT, VECn or MATn; it holds level k at ``places[k]``, (x, y, width, height). The sizes of levels need not be
    related, for example ``mip_places``, or an environment map that is filtered for several roughnesses. uv: VEC2, in each
    level (0, 0) is the corner of its first texel. level: FLOAT, clamped to those there are. wrap: a ``WrapName``.
    layer: INT, of a stack: a place is that of the first layer, the others follow below it. Differentiable in image, uv and
    level.
    """
    return between_levels(level, len(places), lambda k: sample_level(image, places, uv, k, wrap, layer))
