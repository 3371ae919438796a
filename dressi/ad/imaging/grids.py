"""Bilateral grids: images whose third axis is a value, of a guide."""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from ..graph import Variable
from ..graph.types import FLOAT, Size, size_of, vector_type, whole
from ..ops.image.coordinates import pixel_coordinates
from ..ops.image.lookup import lookup
from ..ops.pixel.arithmetic import clamp, minimum, mix
from ..ops.pixel.kinds import AliasBeside
from ..ops.pixel.math import floor, to_float, to_int
from ..ops.pixel.matrix import component
from ..ops.pixel.vector import Construct, ivec2, swizzle
from ..transform.gradient import gradient, jvp
from .contract import contract

__all__ = ["bilateral_filter", "slice_grid", "splat_grid"]

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
