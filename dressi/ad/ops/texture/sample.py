"""Textures: filtered sampling, of one level or several, along a footprint; the mip pyramid in one image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...graph.types import FLOAT, INT, IVEC2, IVEC4, VEC2, VEC3, Access, Size, whole
from ..image.image import pad, resize
from ..image.lookup import lookup
from ..pixel.arithmetic import add, clamp, hadamard, maximum, mix, total
from ..pixel.compare import equal, greater, greater_equal, less, select
from ..pixel.constant import Like, constant, integers, operands
from ..pixel.elementary import atan2, inversesqrt, log2, sqrt
from ..pixel.geometry import dot, normalize
from ..pixel.math import abs, floor, to_float, to_int
from ..pixel.vector import ivec4, swizzle, vec2
from .addressing import LevelPlace, LevelTexel, Place, WrapName, WrapTexel, is_binary, one_wrap, wrap_of

__all__ = [
    "cube_face",
    "cube_uv",
    "direction_level",
    "mip_level",
    "sample",
    "sample_cube",
    "sample_sphere",
    "sphere_uv",
]


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


# Textures of directions: cube maps and equirectangular maps, seamless across edges, corners and poles.


class CubeFace(PixelFunction):
    """Input: direction VEC3. INT: the face of a cube map, 0 to 5 for +X, -X, +Y, -Y, +Z, -Z: the axis of the
    largest component. Of equal ones Z comes before Y, and Y before X, as in Vulkan."""

    operations = 10.0
    zero_derivative = True
    decides_on = None
    glsl = (
        "{ vec3 d = $0, a = abs(d); int axis = a.z >= a.x && a.z >= a.y ? 2 : a.y >= a.x ? 1 : 0;\n"
        "$y = 2 * axis + (d[axis] < 0.0 ? 1 : 0); }"
    )

    def infer(self):
        if self.inputs[0].vtype is not VEC3:
            raise self.fail("takes a direction, VEC3")
        return INT, self.broadcast()

    def eval(self, direction):
        x, y, z = np.moveaxis(np.abs(direction), -1, 0)
        axis = np.where((z >= x) & (z >= y), 2, np.where(y >= x, 1, 0))
        along = np.take_along_axis(direction, axis[..., None], -1)[..., 0]
        return 2 * axis + (along < 0)


class CubeTexel(PixelFunction):
    """Inputs (texel IVEC2, face INT, place IVEC4): the texel in an image with the first face at ``place`` and
    the others below it. One texel beyond an edge is that of the neighbouring face; beyond a corner it is (-1,
    -1)."""

    operations = 50.0
    exact = zero_derivative = True
    includes = ("cube.glsl",)
    glsl = (
        "{ ivec3 inside = cube_texel($0, $1, $2.z);\n"
        "$y = inside.z < 0 ? ivec2(-1) : $2.xy + inside.xy + ivec2(0, inside.z * $2.z); }"
    )

    def infer(self):
        if [x.vtype for x in self.inputs] != [IVEC2, INT, IVEC4]:
            raise self.fail("takes a texel, IVEC2, a face, INT, and a place, IVEC4")
        return IVEC2, self.broadcast()

    def eval(self, texel, face, place):
        width = place[..., 2]
        c = 2 * texel + 1 - width[..., None]
        over = np.maximum(np.abs(c) - width[..., None], 0)
        c = np.clip(c, -width[..., None], width[..., None])
        s, t, m, face = np.broadcast_arrays(c[..., 0], c[..., 1], width - over.sum(-1), face)
        turn = 1 - 2 * (face & 1)
        beside = [face < 2, face < 4]
        p = np.stack(
            [
                np.select(beside, [turn * m, s], turn * s),
                np.select(beside, [-t, turn * m], -t),
                np.select(beside, [-turn * s, turn * t], turn * m),
            ],
            -1,
        )
        axis = (np.abs(p) == width[..., None]).argmax(-1)
        other = 2 * axis + (np.take_along_axis(p, axis[..., None], -1)[..., 0] < 0)
        x, y, z = np.moveaxis(p, -1, 0)
        turn, beside = 1 - 2 * (other & 1), [other < 2, other < 4]
        s, t = np.select(beside, [-turn * z, x], turn * x), np.select(beside, [-y, turn * z], -y)
        inside = np.stack([(s + width - 1) // 2, (t + width - 1) // 2 + other * width], -1)
        return np.where((over > 0).all(-1)[..., None], -1, inside + place[..., :2])


def cube_face(direction: Like) -> Variable:
    """INT: the face of a cube map that a direction meets, 0 to 5 for +X, -X, +Y, -Y, +Z, -Z.

    direction: VEC3, of any length. It is the axis of the largest component; of equal ones Z is taken before
    Y, and Y before X, as in Vulkan. No derivative. Raises GraphError.

    >>> evaluate(F.cube_face((0.1, -2.0, 0.5))).item()
    3
    """
    return CubeFace(*operands(direction)).output


def cube_uv(direction: Like, face: Variable | None = None) -> Variable:
    """VEC2: where a direction meets the plane of a face of a cube map; on the face itself it is in [0, 1].

    direction: VEC3, of any length; (0, 0, 0) is taken as the centre of a face. face: INT, by default
    ``cube_face``. (0, 0) is the corner of the first texel, v grows downward, and faces are turned as in
    Vulkan. Differentiable in the direction. Raises GraphError.

    >>> evaluate(F.cube_uv((2.0, 1.0, 0.0))).ravel().tolist()
    [0.5, 0.25]
    """
    (direction,) = operands(direction)
    face = cube_face(direction) if face is None else face
    x, y, z = direction.x, direction.y, direction.z
    turn = 1.0 - 2.0 * to_float(face - (face / 2) * 2)
    on_x, on_y = less(face, 2), less(face, 4)
    s = select(on_x, -turn * z, select(on_y, x, turn * x))
    t = select(on_x, -y, select(on_y, turn * z, -y))
    along = abs(select(on_x, x, select(on_y, y, z)))
    along = select(equal(along, 0.0), 1.0, along)
    return vec2(s / along, t / along) * 0.5 + 0.5


def sample_cube(
    cube: Variable, direction: Like, filter: str = "bilinear", *, level: Like | None = None
) -> Variable:
    """The cube map in a direction, seamless across edges and corners of faces.

    cube: FLOAT, VECn or MATn of size (W, 6 W): the faces +X, -X, +Y, -Y, +Z, -Z below each other, turned as
    in Vulkan (seen from the inside, x to the right and y down are -Z -Y, +Z -Y, +X +Z, +X -Z, +X -Y, -X -Y of
    the world); batch 1 (shared) or that of the direction. direction: VEC3, of any length. The result has the
    type of the map and the domain of the direction. Differentiable in the map, in the direction unless the
    filter is "nearest", and in the level. Raises GraphError.

    filter: "nearest", "bilinear", or "trilinear" with ``level`` (FLOAT, usually ``direction_level``): 0 is
    the map, and the faces of each level have half the width of the one before, rounded down; its texels are
    means of texels of the same face. Beyond an edge a face goes on with the texels of its neighbour. At a
    corner three texels meet; the weight of the fourth, which does not exist, is shared equally among them.

    >>> cube = Variable(FLOAT, (1, 6), data=np.arange(6.0).reshape(1, 6, 1))
    >>> evaluate(F.sample_cube(cube, (0.0, -3.0, 1.0), "nearest")).item()
    3.0
    >>> evaluate(F.sample_cube(cube, (1.0, 1.0, 1.0))).item()  # the mean of +X, +Y and +Z
    2.0
    """
    (direction,) = operands(direction)
    width = cube.size[0]
    if direction.vtype is not VEC3:
        raise GraphError(f"a direction is VEC3, not {direction}")
    if cube.vtype.is_int or cube.size[1] != 6 * width:
        raise GraphError(
            f"a cube map holds floats in six square faces below each other, size (W, 6 W), not {cube}"
        )
    check_filter(filter, level=level)
    face = cube_face(direction)
    uv = cube_uv(direction, face)
    if level is not None:
        (level,) = operands(level, beside=(direction,))
        maps, places = mipmaps(cube, 6), mip_places((width, width), 6)
        return sample_cube_levels(maps, places, face, uv, level)
    places = ((0, 0, width, width),)
    if filter == "bilinear":
        return _level(cube, places, face, uv, constant(0))
    texel = clamp(to_int(floor(uv * float(width))), 0, width - 1)
    return lookup(cube, CubeTexel(texel, face, LevelPlace(constant(0), places).output).output)


def sample_cube_levels(
    image: Variable, places: tuple[Place, ...], face: Variable, uv: Variable, level: Variable
) -> Variable:
    """The two levels beside ``level``, each bilinear at uv of a face, mixed by its fraction.

    image: it holds the first face of level k at ``places[k]``, which is square, and the others below it. The
    sizes of levels need not be related. face, uv: ``cube_face`` and ``cube_uv``. Differentiable in image, uv
    and level.
    """
    return between_levels(level, len(places), lambda k: _level(image, places, face, uv, k))


def _level(
    image: Variable, places: tuple[Place, ...], face: Variable, uv: Variable, level: Variable
) -> Variable:
    """One level (INT), bilinear."""
    at = LevelPlace(level, places).output
    place = uv * to_float(at.z) - 0.5
    corner = floor(place)
    fraction, first = place - corner, to_int(corner)
    texels, weights, missing = [], [], []
    for dy, wy in enumerate((1.0 - fraction.y, fraction.y)):
        for dx, wx in enumerate((1.0 - fraction.x, fraction.x)):
            texel = CubeTexel(add(first, (dx, dy)), face, at).output
            texels.append(texel)
            weights.append(wx * wy)
            missing.append(select(less(texel.x, 0), weights[-1], 0.0))
    share = total(missing) * (1.0 / 3.0)
    # A texel that does not exist is 0.
    return total([lookup(image, texel) * (w + share) for texel, w in zip(texels, weights, strict=True)])


def sphere_uv(direction: Like) -> Variable:
    """VEC2: where a direction meets an equirectangular map: u = 1/2 + atan2(x, -z) / (2 pi), v = acos(y /
    |d|) / pi.

    direction: VEC3, of any length but 0; Y is up. So the middle of the map is -Z, +X is to the right of it,
    and its first row is +Y. At the poles u is 1/2. Differentiable in the direction; the derivative of u is 0
    at the poles and grows beyond all bounds beside them. Raises GraphError.

    >>> evaluate(F.sphere_uv((2.0, 0.0, 0.0))).ravel().tolist()
    [0.75, 0.5]
    """
    (direction,) = operands(direction)
    if direction.vtype is not VEC3:
        raise GraphError(f"a direction is VEC3, not {direction}")
    x, y, z = direction.x, direction.y, direction.z
    level2 = x * x + z * z
    away = greater(level2, 0.0)
    u = atan2(select(away, x, 0.0), select(away, -z, 1.0)) * (0.5 / math.pi) + 0.5
    # acos(y / length), without its loss of digits at the poles.
    return vec2(u, atan2(sqrt(maximum(level2, LEAST)), y) * (1.0 / math.pi))


def sample_sphere(
    texture: Variable, direction: Like, filter: str = "bilinear", *, level: Like | None = None
) -> Variable:
    """The equirectangular map in a direction: ``sample`` at ``sphere_uv``, with wrap "sphere".

    texture: FLOAT, VECn or MATn, usually twice as wide as high; batch 1 (shared) or that of the direction.
    direction: VEC3, of any length but 0. filter: "nearest", "bilinear", or "trilinear" with ``level`` (FLOAT,
    usually ``direction_level``). The result has the type of the map and the domain of the direction.
    Differentiable in the map, in the direction unless the filter is "nearest", and in the level. Raises
    GraphError.

    The value is continuous along every path but one that turns around a pole on the spot. The width is even,
    so that each texel of the first and last row has one opposite to it across the pole.

    >>> sky = Variable(FLOAT, (4, 2), data=[[[3.0, 3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0]]])  # up, and down
    >>> evaluate(F.sample_sphere(sky, (0.2, 1.0, 0.1), "nearest")).item()
    3.0
    """
    if texture.size[0] % 2 and texture.size[0] > 1:
        raise GraphError(
            f"an equirectangular map has an even width, not {texture.size[0]}: use F.resize or resize the"
            " file"
        )
    return sample(texture, sphere_uv(direction), filter, "sphere", level=level)
