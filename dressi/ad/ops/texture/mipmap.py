"""Textures: the mip pyramid in one image, and the levels that footprints ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....errors import GraphError
from ...graph import Variable
from ...types import VEC2, VEC3, Size
from ..image.image import pad
from ..image.resize import resize
from ..pixel.arithmetic import add, maximum
from ..pixel.constant import Like, operands
from ..pixel.exponential import inversesqrt, log2, sqrt
from ..pixel.geometry import dot, normalize
from .addressing import Place

__all__ = ["direction_level", "mip_level"]

LEAST = 1e-20
"""Least squared footprint in texels: a pixel without extent has a level far below 0, not minus infinity."""


def mip_sizes(size: Size, even: bool = False) -> list[Size]:
    """The sizes of all levels: each half the one before, rounded down, until one texel. even: odd widths are one less."""
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
    """One image with all levels of a texture at their ``mip_places``. A texel of a level is the mean of the texels of the
    level before that it covers; texels of two layers never mix. Differentiable; for one texel a layer the result is the
    texture."""
    return join_levels(mip_levels(texture, layers, even))


def mip_levels(
    texture: Variable, layers: int = 1, even: bool = False, count: int | None = None
) -> list[Variable]:
    """The levels of ``mipmaps`` as images of their own, the texture first; the first ``count`` of them. Differentiable."""
    levels = [texture]
    for width, height in mip_sizes((texture.size[0], texture.size[1] // layers), even)[1:count]:
        levels.append(resize(levels[-1], (width, height * layers), "area"))
    return levels


def join_levels(levels: Sequence[Variable]) -> Variable:
    """One image with all of these levels at their ``mip_places``. Differentiable."""
    if len(levels) == 1:
        return levels[0]
    # From the smallest level up: every step copies the levels behind it once, into an image that is as small as can be.
    row = levels[-1]
    for image in reversed(levels[1:-1]):
        (width, height), (rest, low) = image.size, row.size
        row = add(pad(image, 0, 0, rest, 0), pad(row, width, 0, 0, height - low))
    texture = levels[0]
    (width, height), (rest, low) = texture.size, row.size
    return add(pad(texture, 0, 0, max(rest - width, 0), low), pad(row, 0, height, max(width - rest, 0), 0))


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
    return _log_length(aa, bb, ab)


def direction_level(direction: Like, across: Like, down: Like, texels: float) -> Variable:
    """FLOAT: the level of a cube map or an equirectangular map whose texels are as long as a pixel is in it: log2 of the
    longest axis of the pixel's footprint on the unit sphere, in texels.

    direction: VEC3 of any length but 0. across, down: VEC3, its derivatives by one pixel to the right and one pixel down.
    texels: in a quarter turn, which is the width of a face of a cube map, and half the height of an equirectangular map.
    It is measured on the sphere, so that the level is continuous over edges and poles; texels of cube maps are up to 1.27
    times as long at the centre of a face as this mean, and those of equirectangular maps narrower toward the poles.
    Differentiable in all three, but where the footprint is a circle. Raises GraphError.

    >>> evaluate(F.direction_level((0.0, 0.0, -2.0), (np.pi / 8, 0.0, 0.0), (0.0, 0.0, 1.0), 64)).item()
    3.0
    """
    direction, across, down = operands(direction, across, down)
    if any(x.vtype is not VEC3 for x in (direction, across, down)):
        raise GraphError(f"a direction and its derivatives are VEC3, not {direction}, {across}, {down}")
    density = texels / (0.5 * math.pi)
    axis, scale = normalize(direction), inversesqrt(maximum(dot(direction, direction), LEAST)) * density
    a, b = ((x - axis * dot(axis, x)) * scale for x in (across, down))
    return _log_length(dot(a, a), dot(b, b), dot(a, b))


def _log_length(aa: Variable, bb: Variable, ab: Variable) -> Variable:
    """log2 of the largest singular value of the matrix with columns a and b, from their products."""
    # The eigenvalues of J^T J are half the sum of aa and bb, plus and minus this root.
    root = sqrt((aa - bb) * (aa - bb) + ab * ab * 4.0)
    return log2(maximum((aa + bb + root) * 0.5, LEAST)) * 0.5
