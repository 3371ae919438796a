"""Filters and statistics: blurs, guided and bilateral filters, soft histogram, pyramids, recurrences along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, gcd, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from ..graph import Variable
from ..graph.types import FLOAT, VEC3, Size, size_of, vector_type, whole
from ..ops.image.coordinates import check_one_row, pixel_coordinates
from ..ops.image.image import resize, shift
from ..ops.image.lookup import lookup
from ..ops.image.reduce import expand, zeros_like
from ..ops.pixel.arithmetic import clamp, minimum, mix
from ..ops.pixel.constant import Like, operands
from ..ops.pixel.elementary import exp
from ..ops.pixel.geometry import dot
from ..ops.pixel.kinds import AliasBeside
from ..ops.pixel.math import floor, to_float, to_int
from ..ops.pixel.matrix import component, inverse, outer
from ..ops.pixel.vector import Construct, ivec2, swizzle
from ..transform.gradient import gradient, jvp
from .contract import contract
from .convolve import correlate, matmul

__all__ = [
    "bilateral_filter", "box_blur", "collapse_pyramid", "gaussian_blur", "gaussian_pyramid",
    "guided_filter", "histogram", "laplacian_pyramid", "local_laplacian", "recurrence", "recursive_blur",
    "slice_grid", "splat_grid",
]  # fmt: skip


def gaussian_blur(x: Variable, sigma: float, border: str | None = "clamp", *, reach: float = 3.0) -> Variable:
    """The image blurred by a Gaussian, row by row and column by column.

    x: FLOAT, VECn or MATn, any channels. sigma: its standard deviation in texels, above 0. The kernel ends at
    ``reach`` sigma and sums to 1. border: as for ``correlate``. The result has type and domain of x, or
    without a border what lies inside. Differentiable in x. Raises GraphError.

    >>> point = Variable.of([[0.0, 0.0, 1.0, 0.0, 0.0]])
    >>> (100 * evaluate(F.gaussian_blur(point, 0.8))).round().ravel().tolist()
    [2.0, 23.0, 50.0, 23.0, 2.0]
    """
    if not sigma > 0 or not reach > 0:
        raise GraphError(f"a Gaussian has a sigma and a reach above 0, not {sigma!r} and {reach!r}")
    radius = max(ceil(reach * sigma - 0.5), 1)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return _separable(x, kernel / kernel.sum(), border)


def _separable(x: Variable, kernel: np.ndarray, border: str | None) -> Variable:
    row = correlate(x, Variable.of(kernel[None], FLOAT), border=border)
    return correlate(row, Variable.of(kernel[:, None], FLOAT), border=border)


def box_blur(x: Variable, radius: int) -> Variable:
    """The mean of the texels within ``radius`` along both axes, of those that there are.

    x: FLOAT, VECn or MATn, any channels. radius: whole, at least 0. The result has type and domain of x.
    Differentiable. Raises GraphError.

    >>> evaluate(F.box_blur(Variable.of([[0.0, 3.0, 6.0, 0.0, 0.0]]), 1)).ravel().tolist()
    [1.5, 3.0, 3.0, 2.0, 0.0]
    """
    radius = whole(radius, "the radius", 0)
    places = [np.arange(n) for n in x.size]
    counts = [np.minimum(at + radius, at[-1]) - np.maximum(at - radius, 0) + 1 for at in places]
    across, down = Variable.of(1.0 / counts[0][None], FLOAT), Variable.of(1.0 / counts[1][:, None], FLOAT)
    return _separable(x, np.ones(2 * radius + 1), "zero") * across * down


def guided_filter(image: Variable, guide: Variable, radius: int, eps: float = 1e-3) -> Variable:
    """The image, linear in the guide in every window: it keeps the guide's edges (He, Sun and Tang, 2010).

    image: FLOAT or VECn. guide: FLOAT, or VEC3 for a FLOAT image, of the same domain. radius: of the windows,
    in texels. eps: added to the guide's variance; where that is smaller the result is the mean. The result
    has type and domain of the image. Differentiable in both. Raises GraphError.

    >>> step = Variable.of([[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])
    >>> bool(np.allclose(evaluate(F.guided_filter(step, step, 1, 1e-9) - step), 0.0))
    True
    """
    if guide.vtype not in (FLOAT, VEC3) or image.vtype.is_int or image.vtype.is_matrix:
        raise GraphError(
            f"a guided filter takes FLOAT or VECn and a guide FLOAT or VEC3, not {image} and {guide}"
        )
    if not eps > 0:
        raise GraphError(f"what is added to the variance of a guide is above 0, such as 1e-3, not {eps!r}")
    if guide.domain != image.domain or (guide.vtype is VEC3 and image.vtype is not FLOAT):
        raise GraphError(f"{guide} cannot guide {image}: domains are equal, and a VEC3 guides a FLOAT")
    mean_guide, mean = box_blur(guide, radius), box_blur(image, radius)
    if guide.vtype is FLOAT:
        variance = box_blur(guide * guide, radius) - mean_guide * mean_guide
        slope = (box_blur(guide * image, radius) - mean_guide * mean) / (variance + eps)
        offset = mean - slope * mean_guide
        return box_blur(slope, radius) * guide + box_blur(offset, radius)
    variance = box_blur(outer(guide, guide), radius) - outer(mean_guide, mean_guide)
    slope = inverse(variance + eps * np.eye(3)) @ (box_blur(guide * image, radius) - mean_guide * mean)
    offset = mean - dot(slope, mean_guide)
    return dot(box_blur(slope, radius), guide) + box_blur(offset, radius)


def histogram(
    x: Variable, bins: int, low: float = 0.0, high: float = 1.0, weight: Like | None = None
) -> Variable:
    """A soft histogram: every texel is shared by the two bins whose centres are beside its value.

    x: FLOAT, any channels. bins: their number, at least 2, from ``low`` to ``high``; values beyond the
    outermost centres count for these. weight: FLOAT, what a texel counts, 1 by default. The result is FLOAT
    (bins, 1) for every tile and channel. Differentiable in x and weight. Raises GraphError.

    >>> evaluate(F.histogram(Variable.of([[0.1, 0.3, 0.5, 0.9, 2.0]]), 5)).round(6).ravel().tolist()
    [1.0, 1.0, 1.0, 0.0, 2.0]
    """
    bins = whole(bins, "the number of bins", 2)
    if x.vtype is not FLOAT or not high > low:
        raise GraphError(f"a histogram takes FLOAT and low < high, not {x}, {low!r} and {high!r}")
    place = clamp((x - low) * (bins / (high - low)) - 0.5, 0.0, bins - 1.0)
    given: dict[str, Any] = {}
    text = "out[b] = max(1 - abs(place[y, x] - b), 0)"
    if weight is not None:
        (weight,) = operands(weight, beside=(x,))
        given, text = {"weight": expand(weight, x.batch, x.size, x.channels)}, f"{text} * weight[y, x]"
    return contract(text, place=place, extents={"b": bins}, **given)


# Pyramids, and filters on them.

HALVING = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64.0


def gaussian_pyramid(x: Variable, levels: int) -> list[Variable]:
    """The image, halved ``levels`` times: blurred by (1, 3, 3, 1) / 8 along both axes and subsampled.

    x: FLOAT or VECn, any channels. Extents are rounded up. The result is a list of levels + 1 images of the
    type of x, the finest first. Differentiable. Raises GraphError.

    >>> [level.size for level in F.gaussian_pyramid(Variable(VEC3, (40, 25)), 3)]
    [(40, 25), (20, 13), (10, 7), (5, 4)]
    """
    pyramid = [x]
    for _ in range(whole(levels, "the number of levels", 0)):
        if max(pyramid[-1].size) == 1:
            raise GraphError(f"{x} cannot be halved {levels} times; give fewer levels")
        pyramid.append(correlate(pyramid[-1], Variable.of(HALVING, FLOAT), stride=2, border="mirror"))
    return pyramid


def laplacian_pyramid(x: Variable, levels: int) -> list[Variable]:
    """Each level of the Gaussian pyramid minus the next one, enlarged; the last is the coarsest level itself.

    x: FLOAT or VECn, any channels. The result is a list of levels + 1 images of the type of x;
    ``collapse_pyramid`` makes the image of it, exactly. Differentiable. Raises GraphError.

    >>> x = Variable.of(np.arange(30.0).reshape(5, 6))
    >>> bool(np.allclose(evaluate(F.collapse_pyramid(F.laplacian_pyramid(x, 2)) - x), 0.0, atol=1e-6))
    True
    """
    levels_of = gaussian_pyramid(x, levels)
    fine = [a - resize(b, a.size) for a, b in pairwise(levels_of)]
    return [*fine, levels_of[-1]]


def collapse_pyramid(levels: Sequence[Variable]) -> Variable:
    """The image of a Laplacian pyramid: every level is enlarged (bilinear) and added to the next finer one.

    levels: FLOAT or VECn images, the finest first. The result has the type and domain of the first.
    Differentiable. Raises GraphError.

    >>> fine, coarse = Variable.of(np.zeros((2, 4))), Variable.of([[3.0, 3.0]], FLOAT)
    >>> evaluate(F.collapse_pyramid([fine, coarse])).ravel().tolist()
    [3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    """
    if not levels:
        raise GraphError("a pyramid has at least one level")
    image = levels[-1]
    for level in reversed(levels[:-1]):
        image = level + resize(image, level.size)
    return image


def local_laplacian(
    x: Variable,
    detail: Variable | float = 1.0,
    contrast: Variable | float = 1.0,
    *,
    sigma: float = 0.2,
    levels: int = 4,
    bands: int = 8,
) -> Variable:
    """The local Laplacian filter (Paris, Hasinoff and Kautz, 2011): detail and contrast without halos.

    It remaps the image around each of ``bands`` values g (Aubry and others, 2014): contrast * (x - g) + g +
    detail * (x - g) exp(-(x - g)^2 / (2 sigma^2)). The pyramid of the result takes every coefficient from the
    bands beside the local mean.

    x: FLOAT from 0 to 1, without channels. detail: above 0 for more of it, below for less. contrast: 1 keeps
    it; numbers or FLOAT of one texel. sigma: differences of values that are detail. levels: of the pyramids.
    The result has type and domain of x. Differentiable in x, detail and contrast. Raises GraphError.

    >>> x = Variable.of(np.random.default_rng(0).random((12, 16)))
    >>> bool(np.allclose(evaluate(F.local_laplacian(x, 0.0, 1.0, levels=2) - x), 0.0, atol=1e-6))
    True
    """
    if x.vtype is not FLOAT or x.channels > 1:
        raise GraphError(f"a local Laplacian filter takes FLOAT without channels, not {x}")
    if not sigma > 0:
        raise GraphError(f"sigma of a local Laplacian filter is above 0, not {sigma!r}")
    bands = whole(bands, "the number of bands", 2)
    values = np.linspace(0.0, 1.0, bands).reshape(1, bands, 1, 1)
    away = x - Variable(FLOAT, channels=bands, data=values)
    remapped = x + (contrast - 1.0) * away + detail * away * exp(away * away * (-0.5 / sigma**2))
    means, details = gaussian_pyramid(x, levels), laplacian_pyramid(remapped, levels)
    chosen, text = [], "out[c, y, x] = detail[k, y, x] * max(1 - abs(place[y, x] - k), 0)"
    for mean, fine in zip(means, details[:-1]):
        place = clamp(mean * (bands - 1.0), 0.0, bands - 1.0)
        chosen.append(contract(text, detail=fine, extents={"c": 1}, place=place))
    return collapse_pyramid([*chosen, means[-1]])


# Recurrences along an axis: recursive filters and linear scans, in log2 of the extent passes.

SMALLEST = 1e-9  # smaller powers of the decay count as zero


def recurrence(x: Variable, decay: Like, axis: str = "x", *, reverse: bool = False) -> Variable:
    """A linear recurrence along an axis: y[i] = x[i] + decay[i] * y[i - 1], from y[-1] = 0 on.

    It is computed by doubling, in log2 of the extent passes. With decays for every texel this is an
    edge-aware recursive filter or the scan of a recurrent layer; a MATn makes recurrences of order n.

    x: FLOAT or VECn, any channels. decay: a number, or FLOAT, or for a VECn a MATn that multiplies y[i - 1]
    from the left; its domain broadcasts to that of x. axis: "x" or "y". reverse: from the last texel on, y[i]
    = x[i] + decay[i] * y[i + 1]. The result has type and domain of x. Differentiable. Raises GraphError.

    >>> evaluate(F.recurrence(Variable.of([[1.0, 0.0, 0.0, 4.0, 0.0]]), 0.5)).ravel().tolist()
    [1.0, 0.5, 0.25, 4.125, 2.0625]
    """
    number = None if isinstance(decay, Variable) else decay
    (decay,) = operands(decay, matrices=not x.vtype.is_scalar)
    if axis not in ("x", "y"):
        raise GraphError(f"the axis of a recurrence is 'x' or 'y', not {axis!r}")
    matrix = decay.vtype.is_matrix
    fits = decay.vtype.components == x.vtype.components**2 if matrix else decay.vtype is FLOAT
    if x.vtype.is_int or x.vtype.is_matrix or not fits:
        raise GraphError(
            f"a recurrence of {x} decays by FLOAT, or by a square matrix of its order, not by {decay}"
        )
    check_one_row(x, "a recurrence")
    extent, sign = x.size[axis == "y"], -1 if reverse else 1
    uniform = decay.size[axis == "y"] == 1
    y, step = x, 1
    while step < extent:
        if isinstance(number, int | float) and abs(number) < 1 and abs(number) ** step < SMALLEST:
            break

        def moved(v: Variable, by: int = step) -> Variable:
            return shift(v, sign * by if axis == "x" else 0, sign * by if axis == "y" else 0, "zero")

        y = y + (matmul(decay, moved(y)) if matrix else decay * moved(y))
        step *= 2
        if step < extent:
            before = decay if uniform else moved(decay)
            decay = matmul(decay, before) if matrix else decay * before
    return y


def recursive_blur(x: Variable, sigma: float, passes: int = 2) -> Variable:
    """The image blurred by recursive filters: its cost does not grow with sigma but by its logarithm.

    Each pass is a decaying exponential to both sides, along rows and columns, divided by what of it lies
    inside the image; more passes come nearer to a Gaussian. x: FLOAT or VECn, any channels. sigma: standard
    deviation of the kernel of all passes, in texels, above 0. The result has type and domain of x.
    Differentiable. Raises GraphError.

    >>> evaluate(F.recursive_blur(Variable.of(np.full((3, 5), 2.0)), 4.0)).round(6)[0, 0].tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """
    if not sigma > 0:
        raise GraphError(f"a blur has a sigma above 0, not {sigma!r}")
    passes = whole(passes, "the number of passes", 1)
    v = sigma * sigma / passes
    decay = (v + 1 - sqrt(2 * v + 1)) / v  # the kernel decay^|i| has the variance 2 decay / (1 - decay)^2

    def both(y: Variable, axis: str) -> Variable:
        return recurrence(y, decay, axis) + recurrence(y, decay, axis, reverse=True) - y

    for axis in ("x", "y"):
        row = (x.size[0], 1) if axis == "x" else (1, x.size[1])
        inside = both(zeros_like(Variable(FLOAT, row)) + 1.0, axis)
        for _ in range(passes):
            x = both(x, axis) / inside
    return x


# Bilateral grids: images whose third axis is a value, of a guide.

TALLEST = 4096  # rows of an image of all depths of a grid: every device allows them


def slice_grid(grid: Variable, guide: Variable, depths: int | None = None) -> Variable:
    """The values of a bilateral grid at every texel of a guide: linear in column, row and the guide's value.

    grid: any float type, (columns, rows), ``depths`` channels for each channel of the result: channel k *
    depths + z holds depth z of channel k. By default all channels are depths. guide: FLOAT from 0 to 1,
    without channels; values outside are clamped. The centres of cells are at (i + 0.5) / columns, and those
    of depths at (z + 0.5) / depths, as in HDRnet; beyond the outermost centres the outermost cells count. The
    result has the type of the grid and the size of the guide. Batches are equal or 1. Differentiable in grid
    (a contraction again, no scatter) and guide. Raises GraphError.

    >>> grid = Variable(FLOAT, (1, 1), channels=4, data=np.reshape([0.0, 10.0, 20.0, 30.0], (1, 4, 1, 1)))
    >>> evaluate(F.slice_grid(grid, Variable.of([[0.125, 0.25, 0.5, 0.9, 2.0]]))).ravel().tolist()
    [0.0, 5.0, 15.0, 30.0, 30.0]
    """
    depths = whole(grid.channels if depths is None else depths, "the depths of a grid", 1)
    if guide.vtype is not FLOAT or guide.channels > 1:
        raise GraphError(f"the guide of a grid is FLOAT without channels, not {guide}")
    if grid.vtype.is_int or depths < 2 or grid.channels % depths:
        raise GraphError(
            f"a grid holds floats of two depths at least, each depth a channel for each of the result; {grid}"
            f" has {depths} in {grid.channels} channels"
        )
    (width, height), (columns, rows) = guide.size, grid.size
    # A row more above and below, so that every row of texels lies between two.
    above = Variable.of(np.eye(rows)[np.clip(np.arange(-1, rows + 1), 0, rows - 1)], FLOAT)
    padded = contract("out[r, x] = above[r, y] * grid[y, x]", above=above, grid=grid)
    across = Variable.of(hats(width, columns), FLOAT)
    wide = contract("out[r, x] = grid[r, c] * hats[c, x]", grid=padded, hats=across)
    depth = clamp(depths * guide - 0.5, 0.0, depths - 1.0)
    cells = Cells(rows, height, depths, grid.channels // depths)
    if (rows + 2) * depths > TALLEST:
        return cells.dense(wide, depth)
    return GridSlice(cells.near(wide, depth), wide, depth, cells=cells).output


class Cells(NamedTuple):
    """A grid whose columns are those of the texels already, with a row of cells more above and below. rows,
    height: of cells and of texels. channels: of the result."""

    rows: int
    height: int
    depths: int
    channels: int

    @property
    def first(self) -> dict[str, Any]:
        """The row y of texels lies between (step * y + start) // over and the next row of cells."""
        numbers = {"step": 2 * self.rows, "start": self.rows + self.height, "over": 2 * self.height}
        return {name: n // gcd(*numbers.values()) for name, n in numbers.items()}

    def near(self, grid: Variable, depth: Variable) -> Variable:
        """The result from the two depths beside each texel. The derivative by the grid is a scatter."""
        extent, over, place = self.rows + 2, self.first["over"], pixel_coordinates(depth.size)
        top = self.first["step"] * place.y + self.first["start"]
        text = f"out[o, {extent} * z + r, x] = grid[{self.depths} * o + z, r, x]"
        tall = contract(text, grid=grid, extents={"z": self.depths, "o": self.channels})
        depths = minimum(floor(depth), self.depths - 2.0)
        row, share = to_int(depths) * extent + top / over, to_float(top % over) / float(over)
        (a, b), (c, d) = (
            [lookup(tall, ivec2(place.x, row + (extent * z + j))) for j in (0, 1)] for z in (0, 1)
        )
        return mix(mix(a, b, share), mix(c, d, share), depth - depths)

    def dense(self, grid: Variable, depth: Variable) -> Variable:
        """The same from all depths. The derivative by the grid is a contraction."""
        place = (np.arange(self.height) + 0.5) * self.rows / self.height + 0.5
        share = place - np.floor(place)
        return contract(
            "out[o, y, x] = share[j, y] * max(1 - abs(depth[y, x] - z), 0)"
            " * grid[depths * o + z, (step * y + start) // over + j, x]",
            share=Variable.of([1 - share, share], FLOAT),
            depth=depth,
            grid=grid,
            depths=self.depths,
            **self.first,
            extents={"o": self.channels, "z": self.depths, "j": 2, "y": self.height},
        )


class GridSlice(AliasBeside):
    """Inputs (value, grid, depth): value is ``cells.near`` of the others, with a contraction as gradient."""

    fields = ("cells",)
    cells: Cells

    def vjp(self, gy, i):
        if i == 0:
            return None
        form = self.cells.dense if i == 1 else self.cells.near
        return gradient(form(*self.inputs[1:]), [self.inputs[i]], seed=gy)[0]

    def jvp(self, tangents):
        moving = [(x, t) for x, t in zip(self.inputs[1:], tangents[1:], strict=True) if t is not None]
        return jvp([self.cells.near(*self.inputs[1:])], *zip(*moving, strict=True))[0] if moving else None


def hats(texels: int, count: int) -> np.ndarray:
    """(count, texels): how much of each cell a texel takes, linear between two, constant beyond."""
    place = np.clip((np.arange(texels) + 0.5) * count / texels - 0.5, 0, count - 1)
    return np.maximum(1 - np.abs(place - np.arange(count)[:, None]), 0)


def splat_grid(values: Variable, guide: Variable, size: Size, depths: int) -> Variable:
    """Adds every texel to the cells of a bilateral grid around it: the transpose of ``slice_grid``.

    values: FLOAT, VECn or MATn of the size of the guide, any channels. guide: FLOAT from 0 to 1. size:
    (columns, rows). depths: at least 2. The result has the type of the values, that size, and ``depths``
    channels for each channel of them. Differentiable in values and guide. Raises GraphError.

    >>> guide = Variable.of([[0.25, 0.25, 0.5, 0.75]], FLOAT)
    >>> evaluate(F.splat_grid(F.zeros_like(guide) + 1.0, guide, (1, 1), 2)).ravel().tolist()
    [2.5, 1.5]
    """
    depths, batch = whole(depths, "the depths of a grid", 2), max(values.batch, guide.batch)
    like = Variable(values.vtype, size_of(size), batch, channels=values.channels * depths)
    made = slice_grid(like, guide, depths)
    if made.domain != values.domain:
        raise GraphError(f"{values} and its guide {guide} have one size and batch")
    return gradient(made, [like], seed=values)[0]


def bilateral_filter(
    image: Variable, guide: Variable | None = None, *, cell: float = 8.0, depths: int = 8, blurs: int = 1
) -> Variable:
    """The mean of near texels of similar values, by a bilateral grid (Chen, Paris and Durand, 2007).

    image: FLOAT, VEC2 or VEC3, without channels. guide: FLOAT from 0 to 1 of that size; by default the image,
    which is FLOAT then. cell: the edge of a cell in texels. depths: cells from the value 0 to 1. blurs: how
    often (1, 2, 1) / 4 blurs the grid along its three axes. The result has type and domain of the image.
    Differentiable in both. Raises GraphError.

    >>> step = Variable.of([[0.0] * 8 + [1.0] * 8] * 8)
    >>> bool(np.allclose(evaluate(F.bilateral_filter(step, cell=4.0) - step), 0.0))
    True
    """
    guide = image if guide is None else guide
    if image.vtype.is_int or image.vtype.components > 3 or image.vtype.is_matrix or image.channels > 1:
        raise GraphError(f"a bilateral filter takes FLOAT, VEC2 or VEC3 without channels, not {image}")
    if not cell >= 1:
        raise GraphError(f"a cell of a grid has an edge of at least one texel, not {cell!r}")
    n = image.vtype.components
    width, height = image.size
    size = (max(round(width / cell), 1), max(round(height / cell), 1))
    parts = [component(image, k) for k in range(n)] if n > 1 else [image]
    # With a component of ones, which counts the weights.
    grid = splat_grid(Construct(vector_type(n + 1), *parts, 1.0 + 0.0 * guide).output, guide, size, depths)
    for _ in range(whole(blurs, "the number of blurs", 0)):
        grid = contract(
            "out[z, y, x] = band[z, k] * grid[k, y + j - 1, x + i - 1] * w[j] * w[i]",
            border="zero",
            grid=grid,
            band=Variable.of(
                0.5 * np.eye(depths) + 0.25 * (np.eye(depths, k=1) + np.eye(depths, k=-1)), FLOAT
            ),
            w=Variable.of([[0.25, 0.5, 0.25]], FLOAT),
        )
    sliced = slice_grid(grid, guide)
    return (swizzle(sliced, "xyz"[:n]) if n > 1 else sliced.x) / component(sliced, n)
