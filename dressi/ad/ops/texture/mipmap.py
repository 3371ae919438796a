"""Textures: the mip pyramid in one image, trilinear sampling of it, and the level that a footprint asks for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...graph import PixelFunction, Variable
from ...types import INT, IVEC2, VEC2, Size
from ..image.image import pad
from ..image.lookup import lookup
from ..image.resize import resize
from ..pixel.arithmetic import add, clamp, maximum, mix
from ..pixel.constant import Like, operands
from ..pixel.exponential import log2, sqrt
from ..pixel.geometry import dot
from ..pixel.math import floor, to_float, to_int

__all__ = ["mip_level"]

LEAST = 1e-20
"""Least squared footprint in texels: a pixel without extent has a level far below 0, not minus infinity."""


def mip_sizes(size: Size) -> list[Size]:
    """The sizes of all levels: each half the one before, rounded down, until one texel."""
    sizes = [size]
    while sizes[-1] != (1, 1):
        width, height = sizes[-1]
        sizes.append((max(width // 2, 1), max(height // 2, 1)))
    return sizes


def mip_places(size: Size) -> list[tuple[int, int, int, int]]:
    """(x, y, width, height) of each level in the image of ``mipmaps``: level 0 on top, the others in a row below it."""
    places, x = [], 0
    for level, (width, height) in enumerate(mip_sizes(size)):
        places.append((x, size[1] if level else 0, width, height))
        x += width if level else 0
    return places


def mipmaps(texture: Variable) -> Variable:
    """One image with all levels of a texture at their ``mip_places``. A texel of a level is the mean of the texels of the
    level before that it covers. Differentiable; for a texture of one texel the result is the texture."""
    levels = [texture]
    for size in mip_sizes(texture.size)[1:]:
        levels.append(resize(levels[-1], size, "area"))
    if len(levels) == 1:
        return texture
    # From the smallest level up: every step copies the levels behind it once, into an image that is as small as can be.
    row = levels[-1]
    for image in reversed(levels[1:-1]):
        (width, height), (rest, low) = image.size, row.size
        row = add(pad(image, 0, 0, rest, 0), pad(row, width, 0, 0, height - low))
    (width, height), (rest, low) = texture.size, row.size
    return add(pad(texture, 0, 0, max(rest - width, 0), low), pad(row, 0, height, max(width - rest, 0), 0))


class MipTexel(PixelFunction):
    """Inputs (texel IVEC2, level INT): the texel in the image of ``mipmaps`` for a texture of ``size``.

    The texel is brought inside its level by "repeat" or "clamp"; levels beyond the last are the last.
    """

    operations = 20.0
    zero_derivative = True
    exact = True
    fields = ("size", "wrap")

    def __init__(self, texel: Variable, level: Variable, size: Size, wrap: str):
        self.size, self.wrap = size, wrap
        super().__init__(texel, level)

    def infer(self):
        if self.wrap not in ("repeat", "clamp"):
            raise self.fail(f"wrap is 'repeat' or 'clamp', not {self.wrap!r}")
        if [x.vtype for x in self.inputs] != [IVEC2, INT]:
            raise self.fail("takes a texel, IVEC2, and a level, INT")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        if self.wrap == "clamp":
            inside = "ivec2 texel = clamp($0, ivec2(0), extent - 1);\n"
        elif _binary(self.size):
            inside = "ivec2 texel = $0 & (extent - 1);\n"
        else:
            # CPU drivers divide floats, not integers, side by side. The quotient may be off by one.
            inside = (
                "ivec2 texel = $0 - extent * ivec2(floor(vec2($0) / vec2(extent)));\n"
                "texel += extent * (ivec2(lessThan(texel, ivec2(0))) - ivec2(greaterThanEqual(texel, extent)));\n"
            )
        return f"{{ {_place_of(self.size, '$1')}{inside}$y = texel + start; }}"

    def eval(self, texel, level):
        place = np.array(mip_places(self.size))[_inside(level, self.size)]
        extent = place[..., 2:]
        texel = texel % extent if self.wrap == "repeat" else np.clip(texel, 0, extent - 1)
        return texel + place[..., :2]


class MipExtent(PixelFunction):
    """Input: level, INT. IVEC2: width and height of that level of a texture of ``size``."""

    operations = 6.0
    zero_derivative = True
    exact = True
    fields = ("size",)

    def __init__(self, level: Variable, size: Size):
        self.size = size
        super().__init__(level)

    def infer(self):
        if self.inputs[0].vtype is not INT:
            raise self.fail("takes a level, INT")
        return IVEC2, self.broadcast()

    @cached_property
    def glsl(self) -> str:
        return f"{{ {_place_of(self.size, '$0')}$y = extent; }}"

    def eval(self, level):
        return np.array(mip_places(self.size))[_inside(level, self.size)][..., 2:]


def _inside(level: np.ndarray, size: Size) -> np.ndarray:
    return np.clip(level, 0, len(mip_sizes(size)) - 1)


def _binary(size: Size) -> bool:
    """Whether both sides are powers of two, and so are those of all levels."""
    return all(side & (side - 1) == 0 for side in size)


def _place_of(size: Size, level: str) -> str:
    """GLSL: declares ``start`` and ``extent`` (ivec2), the ``mip_places`` of a level."""
    places = mip_places(size)
    count = len(places)
    if size[0] == size[1] and _binary(size):
        # Without a table: the widths in front of a level are a geometric series.
        return (
            f"int k = clamp({level}, 0, {count - 1}); ivec2 extent = ivec2({size[0]} >> k);\n"
            f"ivec2 start = k > 0 ? ivec2({size[0]} - ({size[0]} >> max(k - 1, 0)), {size[1]}) : ivec2(0);\n"
        )
    rows = ", ".join("ivec4({}, {}, {}, {})".format(*place) for place in places)
    return (
        f"const ivec4 places[{count}] = ivec4[{count}]({rows});\n"
        f"ivec4 place = places[clamp({level}, 0, {count - 1})];\n"
        "ivec2 start = place.xy, extent = place.zw;\n"
    )


def sample_level(maps: Variable, size: Size, uv: Variable, level: Variable, wrap: str) -> Variable:
    """One level (INT) of ``mipmaps`` of a texture of ``size``, bilinear at uv."""
    place = uv * to_float(MipExtent(level, size).output) - 0.5
    corner = floor(place)
    fraction, first = place - corner, to_int(corner)

    def texel(dx: int, dy: int) -> Variable:
        moved = add(first, (dx, dy)) if dx or dy else first
        return lookup(maps, MipTexel(moved, level, size, wrap).output)

    above = mix(texel(0, 0), texel(1, 0), fraction.x)
    below = mix(texel(0, 1), texel(1, 1), fraction.x)
    return mix(above, below, fraction.y)


def trilinear(texture: Variable, uv: Variable, level: Variable, wrap: str) -> Variable:
    """``sample`` with filter "trilinear": the two levels beside ``level``, each bilinear, mixed by its fraction."""
    maps, last = mipmaps(texture), len(mip_sizes(texture.size)) - 1
    level = clamp(level, 0.0, float(last))
    lower = floor(level)
    first = to_int(lower)
    fine, coarse = (sample_level(maps, texture.size, uv, k, wrap) for k in (first, add(first, 1)))
    return mix(fine, coarse, level - lower)


def mip_level(across: Like, down: Like, size: Size) -> Variable:
    """FLOAT: the level of a texture of ``size`` whose texels are as long as a pixel is in it: log2 of the largest singular
    value of the Jacobian of the texel by the pixel.

    across, down: VEC2, the derivatives of uv by one pixel to the right and one pixel down. Below 0 where the texture is
    magnified; ``sample`` takes these as level 0. Differentiable in both, but where the footprint is a circle. Raises
    GraphError.

    >>> evaluate(F.mip_level((0.5, 0.0), (0.0, 0.125), (16, 16))).item()
    3.0
    """
    across, down = operands(across, down)
    if across.vtype is not VEC2 or down.vtype is not VEC2:
        raise GraphError(f"derivatives of uv are VEC2, not {across} and {down}")
    extent = (float(size[0]), float(size[1]))
    a, b = across * extent, down * extent
    aa, bb, ab = dot(a, a), dot(b, b), dot(a, b)
    # The eigenvalues of J^T J are half the sum of aa and bb, plus and minus this root.
    root = sqrt((aa - bb) * (aa - bb) + ab * ab * 4.0)
    return log2(maximum((aa + bb + root) * 0.5, LEAST)) * 0.5
