"""Textures: the mip pyramid in one image, and the level that a footprint asks for."""

from __future__ import annotations

from ....errors import GraphError
from ...graph import Variable
from ...types import VEC2, Size
from ..image.image import pad
from ..image.resize import resize
from ..pixel.arithmetic import add, maximum
from ..pixel.constant import Like, operands
from ..pixel.exponential import log2, sqrt
from ..pixel.geometry import dot
from .addressing import Place

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


def mip_places(size: Size) -> tuple[Place, ...]:
    """The place of each level in the image of ``mipmaps``: level 0 on top, the others in a row below it."""
    places, x = list[Place](), 0
    for level, (width, height) in enumerate(mip_sizes(size)):
        places.append((x, size[1] if level else 0, width, height))
        x += width if level else 0
    return tuple(places)


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
