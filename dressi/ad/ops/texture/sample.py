"""Textures: filtered sampling, of one level or several, along a footprint; the mip pyramid in one image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...graph.types import FLOAT, INT, VEC2, VEC3, Access, Size, whole
from ..image.image import pad, resize
from ..image.lookup import lookup
from ..pixel.arithmetic import add, clamp, hadamard, maximum, mix, total
from ..pixel.compare import greater_equal, select
from ..pixel.constant import Like, constant, integers, operands
from ..pixel.elementary import inversesqrt, log2, sqrt
from ..pixel.geometry import dot, normalize
from ..pixel.math import floor, to_float, to_int
from ..pixel.vector import ivec4, swizzle, vec2
from .addressing import LevelPlace, LevelTexel, Place, WrapName, WrapTexel, is_binary, one_wrap, wrap_of

__all__ = ["direction_level", "mip_level", "sample"]


HARDWARE_WRAPS = frozenset({"repeat", "clamp"})
"""What the samplers of devices are asked for; other wraps are always computed from single texels."""


class Filtered(PixelFunction):
    """Inputs (value, texture, uv): the value, which is the texture at uv, computed from single texels.

    A planner may use the device's sampler instead, if that is off by at most ``tolerance`` of the range of
    the texture's values. Derivatives are those of the value.
    """

    operations, fetches = 0.0, 0.0
    fields = ("filter", "wrap", "tolerance")
    filter: str
    wrap: WrapName
    tolerance: float
    glsl = "$0"

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.SAME_PIXEL)

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, *x: np.ndarray) -> np.ndarray:
        return x[0]

    def known_value(self, known):
        return known.get(0)

    def vjp(self, gy, i):
        return gy if i == 0 else None

    def jvp(self, tangents):
        return tangents[0]


def check_texture(texture: Variable, uv: Variable) -> None:
    if uv.vtype is not VEC2:
        raise GraphError(f"uv must be VEC2, not {uv}")
    if texture.vtype.is_int:
        raise GraphError(f"a texture holds floats, not {texture}")


OPTIONS: dict[str, tuple[str, ...]] = {
    "nearest": (),
    "bilinear": (),
    "trilinear": ("level",),
    "anisotropic": ("across", "down"),
}
"""Filters by name, and the options of ``sample`` that each of them needs and no other filter has."""

LARGEST_TAPS = 16


def check_filter(filter: str, **given: object) -> None:
    """Raises GraphError for other filters than those with the given options, and for options of others."""
    known = [name for name, options in OPTIONS.items() if {*options} <= {*given}]
    if filter not in known:
        raise GraphError(f"filter is one of {', '.join(map(repr, known))}, not {filter!r}")
    for option, value in given.items():
        needed = option in OPTIONS[filter]
        if (value is None) == needed:
            (owner,) = (name for name, options in OPTIONS.items() if option in options)
            raise GraphError(
                f"filter {filter!r} {'needs' if needed else 'has no'} {option}=; it belongs to filter"
                f" {owner!r}"
            )


def _layer(texture: Variable, layers: int, layer: Like | None, uv: Variable) -> Variable | None:
    """The layer, INT inside of those there are, or FLOAT; None without a stack."""
    whole(layers, "layers", 1)
    if texture.size[1] % layers:
        raise GraphError(
            f"a stack of {layers} textures has a height that {layers} divides, not {texture.size[1]}"
        )
    if (layer is None) != (layers == 1):
        raise GraphError("a stack of textures needs both layers=, how many there are, and layer=, INT")
    if layer is None:
        return None
    (layer,) = (
        integers(layer)
        if isinstance(layer, Variable) or np.ndim(layer) == 0
        else operands(layer, beside=(uv,))
    )
    if layer.vtype not in (INT, FLOAT):
        raise GraphError(f"layer is INT, or FLOAT to mix two layers, not {layer}")
    return clamp(layer, 0, layers - 1) if layer.vtype is INT else layer


def sample(
    texture: Variable,
    uv: Like,
    filter: str = "bilinear",
    wrap: WrapName = "repeat",
    *,
    level: Like | None = None,
    across: Like | None = None,
    down: Like | None = None,
    taps: int = 8,
    layers: int = 1,
    layer: Like | None = None,
    tolerance: float = 1e-3,
) -> Variable:
    """The texture at uv: (0, 0) is the corner of texel (0, 0), v grows downward, the centre of texel i is (i
    + 0.5) / W.

    texture: FLOAT, VECn or MATn; batch 1 (shared) or that of uv (own tile). uv: VEC2. The result has the type
    of the texture and the domain of uv. Differentiable in the texture (exactly: the transpose is
    ``scatter_add``), in uv unless the filter is "nearest", and in level, across and down. Raises GraphError.

    filter: "nearest" is the texel that contains uv, "bilinear" the mean of the four around it by distance.

    - "trilinear" mixes the two mip levels beside ``level`` (FLOAT, usually ``mip_level``), each bilinear.
      Level 0 is the texture; each level has half the width and height of the one before, rounded down (for
      the wrap "sphere" to an even width), and its texels are means. Levels are clamped to those there are.
    - "anisotropic" takes ``across`` and ``down``, VEC2, the derivatives of uv by one pixel to the right and
      one pixel down. J has them as columns, in texels, and the singular values s1 >= s2; d is s1's axis in
      the texture, with the length sqrt(s1^2 - s2^2). The value is the mean of n = ``taps`` (1 to 16)
      trilinear samples at uv + ((k + 1/2) / n - 1/2) d, k = 0 ... n - 1, all of level log2 sqrt(s2^2 + |d|^2
      / n^2). So the second moments of the taps and of their level add up to those of the footprint, and where
      it is a circle the filter is trilinear. It is smooth in J but there.

    wrap: "repeat", "clamp", "mirror" (every other repetition is mirrored), "zero" (texels outside are 0) or
    "sphere" (equirectangular maps, see ``sample_sphere``: u repeats; beyond a pole the rows come back,
    shifted by half the width, which should be even); or two of the others, along u and v.

    layers, layer: a stack of so many textures of one size stands below each other in one image; ``layer``
    (INT) chooses one, clamped to those there are; a FLOAT mixes the two beside it, and is differentiable, as
    the third axis of a volume. uv spans one layer, and a filter or a level never mixes texels of two.

    tolerance: a device may read the texture with its own sampler if that is faster and is off by at most so
    much of the range of the texture's values. A sampler knows 2^b places between two texels, with b the
    device's ``subTexelPrecisionBits`` (``dressi devices``), and a bilinear read is off by up to 2^(1 - b):
    0.008 with the 8 bits of most GPUs (0.005 measured on an H100). So the default always computes from single
    texels there, to the precision of 32-bit floats; ``tolerance=0.01`` is for where speed is worth more. A
    "nearest" read may take the texel beside, an error of 1. Only "nearest" and "bilinear" with "repeat" or
    "clamp" of single textures without tiles are read so; all else is computed from single texels.

    >>> texture = Variable.of([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]])
    >>> evaluate(F.sample(texture, (0.25, 0.5))).item()
    1.5
    >>> evaluate(F.sample(texture, (0.25, 0.5), "trilinear", level=2.5)).item()
    2.5
    >>> slopes = {"across": (0.5, 0.0), "down": (0.0, 1.0)}  # a pixel is four texels long and one high
    >>> round(evaluate(F.sample(texture, (0.5, 0.5), "anisotropic", **slopes, taps=4)).item(), 6)
    3.5
    """
    (uv,) = operands(uv)
    check_texture(texture, uv)
    wrap = one_wrap(wrap)
    wrap_of(wrap)
    check_filter(filter, level=level, across=across, down=down)
    layer = _layer(texture, layers, layer, uv)
    if layer is not None and layer.vtype is FLOAT:
        given = {"level": level, "across": across, "down": down, "taps": taps, "tolerance": tolerance}
        return between_levels(
            layer, layers, lambda k: sample(texture, uv, filter, wrap, layers=layers, layer=k, **given)
        )
    size = (texture.size[0], texture.size[1] // layers)
    extent = (float(size[0]), float(size[1]))
    if OPTIONS[filter]:
        even = wrap_of(wrap).even
        maps, places = mipmaps(texture, layers, even), mip_places(size, layers, even)
        if level is not None:
            (level,) = operands(level, beside=(uv,))
            return sample_levels(maps, places, uv, level, wrap, layer)
        across, down = operands(across, down, beside=(uv,))
        if across.vtype is not VEC2 or down.vtype is not VEC2:
            raise GraphError(f"across and down are VEC2, not {across} and {down}")
        if whole(taps, "taps", 1) > LARGEST_TAPS:
            raise GraphError(f"taps are at most {LARGEST_TAPS}, not {taps}")
        return sample_anisotropic(maps, places, uv, across, down, int(taps), wrap, layer)
    places = ((0, 0, *size),)
    if layer is not None and filter == "bilinear":
        return sample_level(texture, places, uv, constant(0), wrap, layer)

    def texel(at: Variable) -> Variable:
        if layer is None:
            return lookup(texture, WrapTexel(at, size, wrap).output)
        place = level_place(places, constant(0), layer)
        return lookup(texture, LevelTexel(at, place, wrap, is_binary(places)).output)

    value = texel(to_int(floor(uv * extent))) if filter == "nearest" else bilinear(uv * extent, texel)
    single = layer is None and texture.tiles == 1 and texture.size != (1, 1)
    if not single or wrap not in HARDWARE_WRAPS or not tolerance:
        return value
    return Filtered(value, texture, uv, filter=filter, wrap=wrap, tolerance=float(tolerance)).output


# Textures: sampling of an image that holds several levels of a texture, or of a stack of textures.


def bilinear(place: Variable, texel: Callable[[Variable], Variable]) -> Variable:
    """The mean of the four texels around ``place`` by distance. place: VEC2, in texels; (0.5, 0.5) is the
    centre of the first. texel: the value of a texel, IVEC2."""
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
    """One level (INT), bilinear at uv. Arguments as for ``sample_levels``."""
    place, binary = level_place(places, level, layer), is_binary(places)

    def texel(at: Variable) -> Variable:
        return lookup(image, LevelTexel(at, place, wrap, binary).output)

    return bilinear(uv * to_float(swizzle(place, "zw")), texel)


def between_levels(level: Variable, count: int, one: Callable[[Variable], Variable]) -> Variable:
    """``one`` of the two levels (INT) beside ``level`` (FLOAT, clamped), mixed by its fraction."""
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

    image: FLOAT, VECn or MATn; it holds level k at ``places[k]``, (x, y, width, height). The sizes of levels
    need not be related, for example ``mip_places``, or an environment map that is filtered for several
    roughnesses. uv: VEC2, in each level (0, 0) is the corner of its first texel. level: FLOAT, clamped to
    those there are. wrap: a ``WrapName``. layer: INT, of a stack: a place is that of the first layer, the
    others follow below it. Differentiable in image, uv and level.
    """
    return between_levels(level, len(places), lambda k: sample_level(image, places, uv, k, wrap, layer))


# Textures: the mip pyramid in one image, and the levels that footprints ask for.

LEAST = 1e-20
"""Least squared footprint in texels: a pixel without extent has a level far below 0, not minus infinity."""


def mip_sizes(size: Size, even: bool = False) -> list[Size]:
    """The sizes of all levels: each half the one before, rounded down. even: odd widths are one less."""
    sizes = [size]
    while sizes[-1] != (1, 1):
        width, height = (max(side // 2, 1) for side in sizes[-1])
        sizes.append((max(width - width % 2, 1) if even else width, height))
    return sizes


def mip_places(size: Size, layers: int = 1, even: bool = False) -> tuple[Place, ...]:
    """The place of each level in the image of ``mipmaps``: level 0 on top, the others in a row below it.

    size: of one layer. The layers of a level stand below each other; a place is that of the first.
    """
    places, x = list[Place](), 0
    for level, (width, height) in enumerate(mip_sizes(size, even)):
        places.append((x, size[1] * layers if level else 0, width, height))
        x += width if level else 0
    return tuple(places)


def mipmaps(texture: Variable, layers: int = 1, even: bool = False) -> Variable:
    """One image with all levels of a texture at their ``mip_places``. A texel of a level is the mean of the
    texels that it covers in the level before; layers never mix. Differentiable."""
    return join_levels(mip_levels(texture, layers, even))


def mip_levels(
    texture: Variable, layers: int = 1, even: bool = False, count: int | None = None
) -> list[Variable]:
    """The first ``count`` levels of ``mipmaps``, by default all, as separate images. Differentiable."""
    levels = [texture]
    for width, height in mip_sizes((texture.size[0], texture.size[1] // layers), even)[1:count]:
        levels.append(resize(levels[-1], (width, height * layers), "area"))
    return levels


def join_levels(levels: Sequence[Variable]) -> Variable:
    """One image with these levels at their ``mip_places``. Differentiable."""
    if len(levels) == 1:
        return levels[0]
    # From the smallest level up: every step copies the levels behind it once, into an image that is as small
    # as can be.
    row = levels[-1]
    for image in reversed(levels[1:-1]):
        (width, height), (rest, low) = image.size, row.size
        row = add(pad(image, 0, 0, rest, 0), pad(row, width, 0, 0, height - low))
    texture = levels[0]
    (width, height), (rest, low) = texture.size, row.size
    return add(pad(texture, 0, 0, max(rest - width, 0), low), pad(row, 0, height, max(width - rest, 0), 0))


def mip_level(across: Like, down: Like, size: Size) -> Variable:
    """FLOAT: the level of a texture of ``size`` whose texels are as long as a pixel is in it: log2 of the
    largest singular value of the Jacobian of the texel by the pixel.

    across, down: VEC2, the derivatives of uv by one pixel to the right and one pixel down. Below 0 where the
    texture is magnified; ``sample`` takes these as level 0. Differentiable in both, but where the footprint
    is a circle. Raises GraphError.

    >>> evaluate(F.mip_level((0.5, 0.0), (0.0, 0.125), (16, 16))).item()
    3.0
    """
    across, down = operands(across, down)
    if across.vtype is not VEC2 or down.vtype is not VEC2:
        raise GraphError(f"derivatives of uv are VEC2, not {across} and {down}")
    extent = (float(size[0]), float(size[1]))
    a, b = across * extent, down * extent
    return _log_length(a, b)


def direction_level(direction: Like, across: Like, down: Like, texels: float) -> Variable:
    """FLOAT: the level of a cube map or an equirectangular map whose texels are as long as a pixel is in it:
    log2 of the longest axis of the pixel's footprint on the unit sphere, in texels.

    direction: VEC3 of any length but 0. across, down: VEC3, its derivatives by one pixel to the right and one
    pixel down. texels: in a quarter turn, which is the width of a face of a cube map, and half the height of
    an equirectangular map. It is measured on the sphere, so that the level is continuous over edges and
    poles; texels of cube maps are up to 1.27 times as long at the centre of a face as this mean, and those of
    equirectangular maps narrower toward the poles. Differentiable in all three, but where the footprint is a
    circle. Raises GraphError.

    >>> evaluate(F.direction_level((0.0, 0.0, -2.0), (np.pi / 8, 0.0, 0.0), (0.0, 0.0, 1.0), 64)).item()
    3.0
    """
    direction, across, down = operands(direction, across, down)
    if any(x.vtype is not VEC3 for x in (direction, across, down)):
        raise GraphError(f"a direction and its derivatives are VEC3, not {direction}, {across}, {down}")
    density = texels / (0.5 * math.pi)
    axis, scale = normalize(direction), inversesqrt(maximum(dot(direction, direction), LEAST)) * density
    a, b = ((x - axis * dot(axis, x)) * scale for x in (across, down))
    return _log_length(a, b)


def _log_length(a: Variable, b: Variable) -> Variable:
    """log2 of the largest singular value of the matrix with columns a and b."""
    aa, bb, ab = dot(a, a), dot(b, b), dot(a, b)
    # The eigenvalues of J^T J are half the sum of aa and bb, plus and minus this root.
    root = sqrt((aa - bb) * (aa - bb) + ab * ab * 4.0)
    return log2(maximum((aa + bb + root) * 0.5, LEAST)) * 0.5


# Textures: anisotropic sampling, several trilinear taps along the longest axis of a pixel's footprint.


def footprint_axis(a: Variable, b: Variable) -> tuple[Variable, Variable, Variable]:
    """(d, minor, length): of the matrix J with columns a and b (VEC2), with the singular values s1 and s2,
    the vector d for which d d^T = J J^T - s2^2 (VEC2, of either sign, along the longest axis), s2^2 and |d|^2
    = s1^2 - s2^2.

    With the complex number z = (A - C) + 2 B i of J J^T = ((A, B), (B, C)), |d|^2 is |z| and d the square
    root of z.
    """
    x, y, both = a.x * a.x + b.x * b.x, a.y * a.y + b.y * b.y, a.x * a.y + b.x * b.y
    difference = x - y
    length = sqrt(maximum(difference * difference + both * both * 4.0, LEAST * LEAST))
    # The larger component by the root, the other by B: no cancellation.
    wide = greater_equal(difference, 0.0)
    larger = sqrt(maximum((length + select(wide, difference, -difference)) * 0.5, LEAST))
    smaller = both / larger
    d = vec2(select(wide, larger, smaller), select(wide, smaller, larger))
    determinant = a.x * b.y - a.y * b.x
    return d, determinant * determinant / maximum((x + y + length) * 0.5, LEAST), length


def sample_anisotropic(
    image: Variable,
    places: tuple[Place, ...],
    uv: Variable,
    across: Variable,
    down: Variable,
    taps: int,
    wrap: WrapName,
    layer: Variable | None = None,
) -> Variable:
    """The mean of ``taps`` trilinear samples, see ``F.sample``. Other arguments as for ``sample_levels``."""
    extent = (float(places[0][2]), float(places[0][3]))
    d, minor, length = footprint_axis(hadamard(across, extent), hadamard(down, extent))
    level = log2(maximum(minor + length * (1.0 / taps**2), LEAST)) * 0.5
    along = hadamard(d, (1.0 / extent[0], 1.0 / extent[1]))
    moved = [uv + along * ((k + 0.5) / taps - 0.5) for k in range(taps)]
    return total([sample_levels(image, places, x, level, wrap, layer) for x in moved]) * (1.0 / taps)
