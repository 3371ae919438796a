"""Channels of images: taken apart and put together, blocks of texels as channels, mosaics of sensors."""

from __future__ import annotations

import numpy as np

from ...errors import GraphError
from ..contract.contraction import ContractFunction
from ..contract.terms import shape_of
from ..graph import Variable
from ..graph.index_map import Affine, IndexMap
from ..graph.types import FLOAT, VEC3, Size, size_of, vector_type, whole
from ..ops.image.coordinates import pixel_coordinates
from ..ops.image.lookup import lookup
from ..ops.pixel.arithmetic import total
from ..ops.pixel.constant import operands
from ..ops.pixel.geometry import dot
from ..ops.pixel.matrix import component
from ..ops.pixel.vector import Construct
from .contract import contract
from .convolve import correlate

__all__ = [
    "bayer_filter", "bayer_mosaic", "channel", "channels", "concatenate_channels", "demosaic",
    "depth_to_space", "from_channels", "space_to_depth", "to_channels",
]  # fmt: skip


def channels(x: Variable, first: int, count: int) -> Variable:
    """Channels first to first + count - 1 of an image, as an image of ``count`` channels.

    x: any type. The result has its type, size and batch. Differentiable. Raises GraphError past the last.

    >>> F.channels(Variable(FLOAT, (8, 8), batch=2, channels=5), 1, 3)
    FLOAT ContractFunction#... (8x8 x 2, 3 channels)
    """
    first, count = whole(first, "the first channel", 0), whole(count, "a number of channels", 1)
    if first + count > x.channels:
        raise GraphError(f"{x} has no channels {first} to {first + count - 1}; the first is 0")
    return _placed(x, first, count)


def channel(x: Variable, k: int) -> Variable:
    """Channel k of an image.

    x: any type. k: from 0 on; negative numbers count from the last one. The result has the type, size and
    batch of x. Differentiable. Raises GraphError where x has no such channel.

    >>> F.channel(Variable(FLOAT, (8, 8), channels=5), -1)
    FLOAT ContractFunction#... (8x8)
    """
    k = whole(k, "a channel")
    return channels(x, k + x.channels if k < 0 else k, 1)


def concatenate_channels(*images: Variable) -> Variable:
    """Images behind each other as channels of one.

    images: any type, but one type, size and batch for all. Differentiable. Raises GraphError.

    >>> a, b = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]), Variable.of([6.0, 7.0, 8.0, 9.0, 10.0])
    >>> evaluate(F.concatenate_channels(a, b)).shape
    (1, 2, 1, 5)
    """
    given = operands(*images)
    if not given:
        raise GraphError("there are no images whose channels are to be put together")
    first, count = given[0], sum(x.channels for x in given)
    for x in given:
        if (x.vtype, x.size, x.batch) != (first.vtype, first.size, first.batch):
            raise GraphError(
                f"channels of {first} and {x} cannot be put together: type, size and batch are equal"
            )
    parts, before = [], 0
    for x in given:
        parts.append(_placed(x, -before, count))
        before += x.channels
    return total(parts)


def _placed(x: Variable, first: int, count: int) -> Variable:
    """``count`` channels of x from ``first`` on, 0 where x has none."""
    n, _, height, width = shape_of(x)
    parallel = ((n,), (count,), (height,), (width,))
    return ContractFunction(x, parallel, (), (IndexMap.of(c=Affine.axis(1, constant=first)),)).output


def to_channels(x: Variable) -> Variable:
    """The components of texels as channels.

    x: VECn or IVECn without channels. The result is FLOAT (INT). Differentiable. Raises GraphError.

    >>> photograph = Variable(VEC3, (64, 48))
    >>> F.to_channels(photograph).shape
    (1, 3, 48, 64)
    """
    (x,) = operands(x)
    if x.vtype.is_matrix or x.vtype.is_scalar or x.channels > 1:
        raise GraphError(f"{x} is not of vectors without channels: its components cannot become channels")
    return concatenate_channels(*(component(x, k) for k in range(x.vtype.components)))


def from_channels(x: Variable) -> Variable:
    """Channels as the components of texels.

    x: FLOAT or INT with 2 to 4 channels. The result is VECn (IVECn). Differentiable. Raises GraphError.

    >>> F.from_channels(Variable(FLOAT, (64, 48), channels=3))
    VEC3 Construct#... (64x48)
    """
    if not x.vtype.is_scalar or not 2 <= x.channels <= 4:
        raise GraphError(f"{x} is not of 2 to 4 channels of scalars: these become components")
    vtype = vector_type(x.channels, integer=x.vtype.is_int)
    return Construct(vtype, *(channel(x, k) for k in range(x.channels))).output


# Sensors: mosaics of Bayer filters, blocks of texels as channels, demosaicking.

PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")


def bayer_filter(size: Size, pattern: str = "RGGB") -> Variable:
    """VEC3: 1 in the component that the sensor measures at a texel, 0 in the others.

    size: (W, H). pattern: the colours of the first two texels of the first row and of the second: "RGGB",
    "BGGR", "GRBG" or "GBRG". No derivative: it is constant. Raises GraphError.

    >>> evaluate(F.bayer_filter((2, 1), "GRBG"))[0, 0].tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return lookup(Variable.of(_cell(pattern), VEC3), pixel_coordinates(size_of(size)) % 2)


def _cell(pattern: str) -> np.ndarray:
    if pattern not in PATTERNS:
        raise GraphError(f"a Bayer pattern is one of {', '.join(PATTERNS)}, not {pattern!r}")
    return np.eye(3)[["RGB".index(letter) for letter in pattern]].reshape(2, 2, 3)


def bayer_mosaic(image: Variable, pattern: str = "RGGB") -> Variable:
    """What a sensor behind a Bayer filter measures of an image: one component at every texel.

    image: VEC3 without channels. pattern: as for ``bayer_filter``. The result is FLOAT of its domain.
    Differentiable. Raises GraphError.

    >>> evaluate(F.bayer_mosaic(Variable.of(np.full((2, 2, 3), (1.0, 2.0, 3.0))))).ravel().tolist()
    [1.0, 2.0, 2.0, 3.0]
    """
    if image.vtype is not VEC3:
        raise GraphError(f"a mosaic is made of a VEC3 image, not of {image}")
    return dot(image, bayer_filter(image.size, pattern))


def space_to_depth(x: Variable, block: int = 2) -> Variable:
    """Blocks of texels as channels: the inverse of ``depth_to_space``.

    x: any type; its extents are multiples of ``block``. Channel c of x becomes the channels block^2 c + block
    row + column. The result has size (W / block, H / block). Differentiable. Raises GraphError.

    >>> x = Variable.of([[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]], FLOAT)
    >>> evaluate(F.space_to_depth(x))[0, :, 0].T.tolist()
    [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    """
    block = whole(block, "a block", 1)
    if x.size[0] % block or x.size[1] % block:
        raise GraphError(f"{x} is not of whole blocks of {block} texels; crop or pad it")
    if block == 1:
        return x
    extents = {"p": block, "q": block}
    if x.channels == 1:
        return contract(
            "out[n, b * p + q, y, x] = a[n, 0, b * y + p, b * x + q]", a=x, b=block, extents=extents
        )
    text = "out[n, s * c + b * p + q, y, x] = a[n, c, b * y + p, b * x + q]"
    return contract(text, a=x, b=block, s=block * block, extents=extents)


def depth_to_space(x: Variable, block: int = 2) -> Variable:
    """Channels as blocks of texels, as PyTorch's PixelShuffle.

    x: any type, with a multiple of block^2 channels: channel block^2 c + block row + column becomes a texel
    of channel c. The result has the type of x and size (W block, H block). Differentiable. Raises GraphError.

    >>> x = Variable(FLOAT, (1, 1), channels=4, data=np.reshape([1.0, 2.0, 3.0, 4.0], (1, 4, 1, 1)))
    >>> evaluate(F.depth_to_space(x))[0].tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    block = whole(block, "a block", 1)
    if x.channels % block**2:
        raise GraphError(
            f"{x} has no multiple of {block * block} channels, which blocks of {block} texels need"
        )
    if block == 1:
        return x
    text = "out[n, c, b * y + p, b * x + q] = a[n, s * c + b * p + q, y, x]"
    extents = {"c": x.channels // block**2, "p": block, "q": block}
    return contract(text, a=x, b=block, s=block * block, extents=extents)


def demosaic(raw: Variable, pattern: str = "RGGB", method: str = "malvar") -> Variable:
    """The image of a Bayer mosaic, by linear filters.

    raw: FLOAT, extents even. pattern: as for ``bayer_filter``. method: "bilinear", or "malvar": bilinear with
    the gradients of the measured component as correction (Malvar, He and Cutler, 2004). Beyond the border the
    outermost blocks of 2 x 2 texels repeat. The result is VEC3. Differentiable. Raises GraphError.

    >>> grey = F.bayer_mosaic(Variable.of(np.full((4, 6, 3), 0.5)))
    >>> bool(np.allclose(evaluate(F.demosaic(grey)), 0.5))
    True
    """
    if raw.vtype is not FLOAT or raw.channels > 1:
        raise GraphError(f"a mosaic is FLOAT without channels, not {raw}")
    if method not in METHODS:
        raise GraphError(f"a mosaic is interpolated by one of {', '.join(METHODS)}, not by {method!r}")
    weight = Variable(FLOAT, (3, 3), 12, channels=4, data=_weights(pattern, method))
    made = correlate(space_to_depth(raw), weight, border="clamp")
    return from_channels(depth_to_space(made))


METHODS = ("bilinear", "malvar")
MIDDLE = np.pad([[1, 2, 1], [2, 4, 2], [1, 2, 1]], 1)
GREEN, BESIDE, ACROSS = np.array([
    [[0, 0, -1, 0, 0], [0, 0, 2, 0, 0], [-1, 2, 4, 2, -1], [0, 0, 2, 0, 0], [0, 0, -1, 0, 0]],
    [[0, 0, 0.5, 0, 0], [0, -1, 0, -1, 0], [-1, 4, 5, 4, -1], [0, -1, 0, -1, 0], [0, 0, 0.5, 0, 0]],
    [[0, 0, -1.5, 0, 0], [0, 2, 0, 2, 0], [-1.5, 0, 6, 0, -1.5], [0, 2, 0, 2, 0], [0, 0, -1.5, 0, 0]],
]) / 8  # fmt: skip


def _kernel(method: str, colours: np.ndarray, row: int, column: int, wanted: int) -> np.ndarray:
    """The 5 x 5 kernel of a colour at a place of the cell."""
    if colours[row, column] == wanted:
        return np.pad([[1.0]], 2)
    if method == "bilinear":
        rows, columns = np.ogrid[row - 2 : row + 3, column - 2 : column + 3]
        kernel = MIDDLE * (colours[rows % 2, columns % 2] == wanted)
        return kernel / kernel.sum()
    if wanted == 1:
        return GREEN
    if colours[row, 1 - column] == wanted:
        return BESIDE
    return BESIDE.T if colours[1 - row, column] == wanted else ACROSS


def _weights(pattern: str, method: str) -> np.ndarray:
    """(12, 4, 3, 3): the kernels between blocks, channel 4 colour + 2 row + column of the result."""
    colours, weights = _cell(pattern).argmax(-1), np.zeros((3, 2, 2, 2, 2, 3, 3))
    for wanted, row, column, j, i in np.ndindex(3, 2, 2, 5, 5):
        (by, y), (bx, x) = divmod(row + j - 2, 2), divmod(column + i - 2, 2)
        kernel = _kernel(method, colours, row, column, wanted)
        weights[wanted, row, column, y, x, by + 1, bx + 1] = kernel[j, i]
    return weights.reshape(12, 4, 3, 3)
