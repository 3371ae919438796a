"""Coordinates of texels; shifted, cropped and padded images."""

from __future__ import annotations

from functools import cached_property
from math import inf

import numpy as np

from ....errors import GraphError
from ...graph import Domain, PixelFunction, Variable, domain_of
from ...types import INT, IVEC2, Access, Size, size_of, whole
from ..pixel.kinds import Linear
from .texels import check_one_row, fetch

__all__ = ["crop", "linear_index", "pad", "pixel_coordinates", "shift", "tile_index"]


class Coordinates(PixelFunction):
    """The base of Functions without inputs whose value is the place of the texel."""

    operations = 1.0
    zero_derivative = True
    fields = ("domain",)

    def __init__(self, domain: Domain):
        self.domain = domain
        super().__init__()

    def infer(self):
        return INT, self.domain


class PixelCoordinates(Coordinates):
    """IVEC2: the coordinates of the texel in its tile."""

    glsl = "pixel"

    def infer(self):
        return IVEC2, self.domain

    def evaluate(self, at, *x):
        return np.stack(np.broadcast_arrays(at.x, at.y, at.tile)[:2], axis=-1)


class LinearIndex(Coordinates):
    """INT: y * W + x."""

    operations = 3.0
    glsl = "pixel.y * $size.x + pixel.x"

    def evaluate(self, at, *x):
        return at.y * self.domain.size[0] + at.x + 0 * at.tile


class TileIndex(Coordinates):
    """INT: the number of the tile in the batch."""

    glsl = "tile"

    def evaluate(self, at, *x):
        return at.tile + 0 * at.x + 0 * at.y


class Fetching(Linear):
    """A linear Function that reads its one input by FETCH."""

    fetches = 1.0

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def known_value(self, known):
        return known[0] if 0 in known and not np.any(known[0]) else None


class Window(Fetching):
    """Texel p of the output is texel p + ``origin`` of the input, 0 outside of it: for crop, pad, and shift with zeros."""

    operations = 9.0
    fields = ("origin", "size")

    @property
    def footprint(self) -> int:
        return max(map(abs, self.origin))

    def __init__(self, x: Variable, origin: tuple[int, int], size: Size):
        self.origin, self.size = origin, size
        super().__init__(x)

    def infer(self):
        x = self.inputs[0]
        return x.vtype, Domain(self.size, x.batch)

    @cached_property
    def glsl(self) -> str:
        return (
            f"{{ ivec2 texel = pixel + ivec2({self.origin[0]}, {self.origin[1]});\n"
            "$y = all(greaterThanEqual(texel, ivec2(0))) && all(lessThan(texel, $size0))"
            " ? $0(texel, tile) : $type(0); }"
        )

    def evaluate(self, at, x):
        (width, height), px, py = self.inputs[0].size, at.x + self.origin[0], at.y + self.origin[1]
        inside = (px >= 0) & (px < width) & (py >= 0) & (py < height)
        values = fetch(x, at, np.clip(px, 0, width - 1), np.clip(py, 0, height - 1))
        return np.where(inside.reshape(inside.shape + (1,) * (values.ndim - 3)), values, 0)

    def transpose(self, gy):
        return Window(gy, (-self.origin[0], -self.origin[1]), self.inputs[0].size).output


CORNER = 256
"""The largest number of texels that a clamped shift may read from one corner texel. Larger shifts are done axis by axis,
so that the sums of the transpose stay short."""


class Shift(Fetching):
    """Texel p of the output is texel p - ``by`` of the input, clamped or repeated at the border."""

    operations = 6.0
    fields = ("by", "border")

    @property
    def footprint(self) -> float:
        return max(map(abs, self.by)) if self.border == "clamp" else inf

    def known_value(self, known):
        return known.get(0)

    def __init__(self, x: Variable, by: tuple[int, int], border: str):
        self.by, self.border = by, border
        super().__init__(x)

    def infer(self):
        if self.border not in ("clamp", "repeat"):
            raise self.fail(f"border is 'clamp', 'zero' or 'repeat', not {self.border!r}")
        return self.inputs[0].vtype, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        if self.border == "clamp":
            offset = f"ivec2({self.by[0]}, {self.by[1]})"
            return f"{{ $y = $0(clamp(pixel - {offset}, ivec2(0), $size0 - 1), tile); }}"
        width, height = self.inputs[0].size
        positive = f"ivec2({-self.by[0] % width}, {-self.by[1] % height})"
        return f"{{ $y = $0((pixel + {positive}) % $size0, tile); }}"

    def evaluate(self, at, x):
        (width, height), px, py = self.inputs[0].size, at.x - self.by[0], at.y - self.by[1]
        if self.border == "clamp":
            return fetch(x, at, np.clip(px, 0, width - 1), np.clip(py, 0, height - 1))
        return fetch(x, at, px % width, py % height)

    def transpose(self, gy):
        if self.border == "repeat":
            return Shift(gy, (-self.by[0], -self.by[1]), "repeat").output
        return ShiftTranspose(gy, self.by).output


class ShiftTranspose(Fetching):
    """Transpose of the clamped Shift: a border texel gets the sum over all texels that were read from it."""

    operations = 21.0
    fields = ("by",)

    @property
    def footprint(self) -> int:
        return max(map(abs, self.by))

    def __init__(self, x: Variable, by: tuple[int, int]):
        self.by = by
        super().__init__(x)

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        return (
            f"{{ ivec2 last = $size0 - 1; ivec2 from = pixel + ivec2({self.by[0]}, {self.by[1]});\n"
            "ivec2 low = ivec2(pixel.x == 0 ? 0 : from.x, pixel.y == 0 ? 0 : from.y);\n"
            "ivec2 high = ivec2(pixel.x == last.x ? last.x : from.x, pixel.y == last.y ? last.y : from.y);\n"
            "low = max(low, ivec2(0)); high = min(high, last);\n"
            "$y = $type(0);\n"
            "for (int j = low.y; j <= high.y; ++j) for (int i = low.x; i <= high.x; ++i)"
            " $y += $0(ivec2(i, j), tile); }"
        )

    @property
    def fetches(self) -> float:
        return float(self.iterations)

    @property
    def iterations(self) -> int:
        width, height = self.inputs[0].size
        return min(abs(self.by[0]) + 1, width) * min(abs(self.by[1]) + 1, height)

    def shortened(self, most):
        if most < 2:
            return None
        y = self.inputs[0]
        for by, extent, axis in zip(self.by, y.size, ((1, 0), (0, 1)), strict=True):
            # A shift by the extent or more clamps every texel to the border, as does a shift by one texel less.
            left, sign = min(abs(by), extent - 1), 1 if by > 0 else -1
            while left:
                step = min(left, most - 1)
                y = ShiftTranspose(y, (sign * step * axis[0], sign * step * axis[1])).output
                left -= step
        return y

    def evaluate(self, at, x):
        for axis, by, extent in ((2, self.by[0], x.shape[2]), (1, self.by[1], x.shape[1])):
            onto = np.clip(np.arange(extent) - by, 0, extent - 1)
            moved = np.zeros_like(np.swapaxes(x, 0, axis))
            np.add.at(moved, onto, np.swapaxes(x, 0, axis))
            x = np.swapaxes(moved, 0, axis)
        return fetch(x, at)

    def transpose(self, gy):
        return Shift(gy, self.by, "clamp").output


def pixel_coordinates(size: Size, batch: int = 1) -> Variable:
    """IVEC2: the texel (x, y) inside its tile, for every texel of a size (W, H) and batch. Its centre is (x + 0.5, y + 0.5).

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.pixel_coordinates((2, 2)))[0].tolist()
    [[[0, 0], [1, 0]], [[0, 1], [1, 1]]]
    """
    return PixelCoordinates(domain_of(size, batch)).output


def linear_index(size: Size, batch: int = 1) -> Variable:
    """INT: y * W + x, for every texel of a size (W, H) and batch; the entry of a list that an image holds row by row.

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.linear_index((3, 2)))[0].tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return LinearIndex(domain_of(size, batch)).output


def tile_index(size: Size, batch: int) -> Variable:
    """INT: the number of the tile in the batch, for every texel of a size (W, H) and batch.

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.tile_index((2, 1), 3)).tolist()
    [[[0, 0]], [[1, 1]], [[2, 2]]]
    """
    return TileIndex(domain_of(size, batch)).output


def shift(x: Variable, dx: int, dy: int, border: str = "clamp") -> Variable:
    """The image moved by (dx, dy) texels: output (x, y) is input (x - dx, y - dy).

    x: any type. border: what comes in from outside, "clamp" (the nearest texel), "zero" or "repeat". The result has the type
    and domain of x. Differentiable. Raises GraphError where dx or dy is no whole number.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> evaluate(F.shift(x, 2, 0)).ravel().tolist(), evaluate(F.shift(x, -1, 0, "zero")).ravel().tolist()
    ([1.0, 1.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 5.0, 0.0])
    """
    dx, dy = whole(dx, "a shift"), whole(dy, "a shift")
    check_one_row(x, "a shift")
    if border == "zero":
        return Window(x, (-dx, -dy), x.size).output
    if border == "clamp" and abs(dx) * abs(dy) > CORNER:
        return Shift(Shift(x, (dx, 0), border).output, (0, dy), border).output
    return Shift(x, (dx, dy), border).output


def crop(x: Variable, x0: int, y0: int, size: Size) -> Variable:
    """The part of each tile that starts at texel (x0, y0) and has the given size (W, H).

    x: any type; the result has its type and batch. Differentiable. Raises GraphError where the part is not inside the tile.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]])
    >>> evaluate(F.crop(x, 1, 1, (2, 1))).ravel().tolist()
    [7.0, 8.0]
    """
    x0, y0, size = whole(x0, "x0"), whole(y0, "y0"), size_of(size)
    check_one_row(x, "a part")
    if min(x0, y0) < 0 or x0 + size[0] > x.size[0] or y0 + size[1] > x.size[1]:
        raise GraphError(f"{x} has no part of size {size[0]}x{size[1]} at ({x0}, {y0}); use F.pad to enlarge")
    return Window(x, (x0, y0), size).output


def pad(x: Variable, left: int, top: int, right: int, bottom: int) -> Variable:
    """Each tile with a margin of zeros: the given number of texels on each side.

    x: any type; the result has its type and batch. left, top, right, bottom: whole, at least 0. Differentiable. Raises
    GraphError.

    >>> evaluate(F.pad(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), 1, 0, 2, 0)).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0]
    """
    left, top, right, bottom = (whole(n, "a padding") for n in (left, top, right, bottom))
    check_one_row(x, "a margin")
    if min(left, top, right, bottom) < 0:
        raise GraphError(f"a padding of {x} is negative; use F.crop to cut texels off")
    size = (x.size[0] + left + right, x.size[1] + top + bottom)
    return Window(x, (-left, -top), size).output
