"""Images whose texels are texels of another, or means of some: shifted, cut, padded, turned, strided, resized."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from ....errors import GraphError
from ...contract.contraction import ContractFunction, SumOfParts
from ...contract.derivative import Space, readers_of
from ...contract.terms import Readers
from ...contract.terms import shape_of as image_shape
from ...graph import Domain, Variable
from ...graph.index_map import BORDERS, Affine, IndexMap
from ...graph.snippet import LOST, add_compensated
from ...graph.types import Access, Size, size_of, whole
from ..pixel.kinds import Linear
from .coordinates import check_one_row, fetch, shape_of

__all__ = ["crop", "flip", "pad", "repeat", "resize", "shift", "subsample", "swap_axes"]


COLUMN, ROW = 3, 2
"""Axes of an image, as an index map numbers them."""
MOST = 256
"""The most texels that a transpose sums in one loop; beyond it images are gathered axis by axis."""


class Gather(ContractFunction):
    """Texel p of the output is texel ``map`` of p of the input, or what its border says outside.

    domain: of the output; its batch and channels are those of the input if the map leaves these axes alone.
    The map takes all tiles for images without channels. A contraction of one term.
    """

    fields = ("map", "domain")
    map: IndexMap
    domain: Domain
    reduced = ()

    @property
    def own_tile(self) -> bool:
        return self.map[:2] == (Affine.axis(0), Affine.axis(1))

    @cached_property
    def parallel(self) -> tuple[tuple[int, ...], ...]:
        whole = self.inputs[0].domain._replace(size=self.domain.size) if self.own_tile else self.domain
        return (whole.batch,), (whole.channels,), (whole.size[1],), (whole.size[0],)

    @cached_property
    def maps(self) -> tuple[IndexMap, ...]:
        if not self.own_tile and self.inputs[0].channels > 1:
            raise self.fail("other tiles are read of images without channels")
        (channels,) = self.parallel[1]
        if channels == 1:
            return (self.map,)
        m = self.map.substituted({0: Affine.of({0: channels, 1: 1}), 1: Affine()})
        assert m is not None  # the number of a tile is whole
        return (m._replace(n=Affine.axis(0), c=Affine.axis(1)) if self.own_tile else m,)

    @property
    def footprint(self) -> float:
        return self.map.footprint(shape_of(self.inputs[0].domain))

    @cached_property
    def readers_of_texels(self) -> Readers:
        """The inverse map: the output texels that read an input texel."""
        return readers_of(Space.of(self), self.maps[0], image_shape(self.inputs[0]))

    @property
    def operations(self) -> float:
        return 2.0 + 4.0 * sum(map(self.readers_of_texels.leaves, range(4)))

    def known_value(self, known):
        """What is read, where it is the same everywhere; beyond a border it may be zero."""
        kept = self.map.border != "zero" or not any(map(self.readers_of_texels.leaves, range(4)))
        return known[0] if 0 in known and (kept or not known[0].any()) else None

    @property
    def cheap(self) -> bool:
        """Whether the transpose reads about as few texels as the gather."""
        readers = self.readers_of_texels
        written = prod(self.shape) / prod(image_shape(self.inputs[0]))
        return readers.iterations <= MOST and readers.average <= max(4 * written, 1.0)


def gather(
    x: Variable, size: tuple[int, int], across: Affine, down: Affine, border: str = "zero"
) -> Variable:
    """An image of another size that reads the columns ``across`` and rows ``down`` of x; axis by axis if that
    keeps the sums of the transpose short."""
    whole = Gather(x, IndexMap.of(x=across, y=down, border=border), x.domain._replace(size=size))
    if whole.readers_of_texels.iterations <= MOST or across == Affine.axis(3) or down == Affine.axis(2):
        return whole.output
    first = gather(x, (size[0], x.size[1]), across, Affine.axis(2), border)
    return gather(first, size, Affine.axis(3), down, border)


def shift(x: Variable, dx: int, dy: int, border: str = "clamp") -> Variable:
    """The image moved by (dx, dy) texels: output (x, y) is input (x - dx, y - dy).

    x: any type. border: what comes in from outside, "clamp" (the nearest texel), "zero", "repeat" (the texels
    of the other side), "mirror" (the texels mirrored at the edge, which itself is repeated) or "reflect"
    (without repeating it). The result has the type and domain of x. Differentiable. Raises GraphError where
    dx or dy is no whole number.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> evaluate(F.shift(x, 2, 0)).ravel().tolist(), evaluate(F.shift(x, -1, 0, "zero")).ravel().tolist()
    ([1.0, 1.0, 1.0, 2.0, 3.0], [2.0, 3.0, 4.0, 5.0, 0.0])
    """
    dx, dy = whole(dx, "a shift"), whole(dy, "a shift")
    check_one_row(x, "a shift")
    return _moved(x, x.size, -dx, -dy, border)


def crop(x: Variable, x0: int, y0: int, size: Size) -> Variable:
    """The part of each tile that starts at texel (x0, y0) and has the given size (W, H).

    x: any type; the result has its type and batch. Differentiable. Raises GraphError for other parts.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]])
    >>> evaluate(F.crop(x, 1, 1, (2, 1))).ravel().tolist()
    [7.0, 8.0]
    """
    x0, y0, size = whole(x0, "x0"), whole(y0, "y0"), size_of(size)
    check_one_row(x, "a part")
    if min(x0, y0) < 0 or x0 + size[0] > x.size[0] or y0 + size[1] > x.size[1]:
        raise GraphError(f"{x} has no part of size {size[0]}x{size[1]} at ({x0}, {y0}); use F.pad to enlarge")
    return _moved(x, size, x0, y0, "zero")


def pad(x: Variable, left: int, top: int, right: int, bottom: int, border: str = "zero") -> Variable:
    """Each tile with a margin: the given number of texels on each side.

    x: any type; the result has its type and batch. left, top, right, bottom: whole, at least 0. border: what
    the margin holds, "zero", "clamp", "repeat", "mirror" or "reflect" as for ``shift``. Differentiable.
    Raises GraphError.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]])
    >>> [evaluate(F.pad(x, 1, 0, 2, 0, border)).ravel().tolist() for border in ("zero", "mirror")]
    [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0], [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 4.0]]
    """
    left, top, right, bottom = (whole(n, "a padding") for n in (left, top, right, bottom))
    check_one_row(x, "a margin")
    if min(left, top, right, bottom) < 0:
        raise GraphError(f"a padding of {x} is negative; use F.crop to cut texels off")
    size = (x.size[0] + left + right, x.size[1] + top + bottom)
    return _moved(x, size, -left, -top, border)


def _moved(x: Variable, size: Size, dx: int, dy: int, border: str) -> Variable:
    """Texel (dx, dy) of x comes first."""
    if border not in BORDERS:
        raise GraphError(f"the border of {x} is one of {', '.join(map(repr, BORDERS))}, not {border!r}")
    return gather(x, size, Affine.axis(COLUMN, 1, dx), Affine.axis(ROW, 1, dy), border)


def flip(x: Variable, axes: str = "x") -> Variable:
    """Each tile with its texels in reverse order along the axes: "x" (left and right exchanged), "y" or "xy".

    x: any type; the result has its type and domain. Differentiable. Raises GraphError, also for lists in
    several rows.

    >>> evaluate(F.flip(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), "x")).ravel().tolist()
    [5.0, 4.0, 3.0, 2.0, 1.0]
    """
    check_one_row(x, "a reversal")
    if not isinstance(axes, str) or not axes or set(axes) - set("xy"):
        raise GraphError(f"axes are 'x', 'y' or 'xy', not {axes!r}")
    across, down = (
        Affine.axis(axis, -1, extent - 1) if name in axes else Affine.axis(axis)
        for name, axis, extent in zip("xy", (COLUMN, ROW), x.size, strict=True)
    )
    return gather(x, x.size, across, down)


def swap_axes(x: Variable) -> Variable:
    """Each tile with x and y exchanged: output (x, y) is input (y, x).

    x: any type, size (W, H); the result has its type and batch, and size (H, W). (``transpose`` is of the
    matrices that the texels hold.) Differentiable. Raises GraphError for a list of several rows.

    >>> x = Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]])
    >>> evaluate(F.swap_axes(x))[0, 1].tolist()
    [2.0, 7.0]
    """
    check_one_row(x, "an exchange of axes")
    index = IndexMap.of(x=Affine.axis(ROW), y=Affine.axis(COLUMN))
    return Gather(x, index, x.domain._replace(size=x.size[::-1])).output


def subsample(x: Variable, step: int | tuple[int, int], first: tuple[int, int] = (0, 0)) -> Variable:
    """Every ``step``-th texel of each tile: output (x, y) is input (first + step * (x, y)).

    x: any type; the result has its type and batch. step: whole, above 0, or two such for x and y. first: (x,
    y) inside the tile. Differentiable. Raises GraphError. (``resize`` with "area" takes the mean of what is
    left out.)

    >>> evaluate(F.subsample(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), (2, 1), (1, 0))).ravel().tolist()
    [2.0, 4.0]
    """
    steps, (x0, y0) = _two(step, "a step"), (whole(k, "the first texel", 0) for k in first)
    check_one_row(x, "a stride")
    if x0 >= x.size[0] or y0 >= x.size[1]:
        raise GraphError(f"texel ({x0}, {y0}) is not in {x}")
    size = (-(-(x.size[0] - x0) // steps[0]), -(-(x.size[1] - y0) // steps[1]))
    return gather(x, size, Affine.axis(COLUMN, steps[0], x0), Affine.axis(ROW, steps[1], y0))


def repeat(x: Variable, times: int | tuple[int, int]) -> Variable:
    """Each texel repeated along both axes: output (x, y) is input (x / times, y / times), rounded down.

    x: any type; the result has its type and batch. times: whole, above 0, or two such for x and y.
    Differentiable. Raises GraphError.

    >>> evaluate(F.repeat(Variable.of([[1.0, 2.0, 3.0, 4.0, 5.0]]), (2, 1))).ravel().tolist()
    [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0]
    """
    times = _two(times, "a repetition")
    check_one_row(x, "a repetition")
    size = (x.size[0] * times[0], x.size[1] * times[1])
    return gather(x, size, Affine.of({COLUMN: 1}, 0, times[0]), Affine.of({ROW: 1}, 0, times[1]))


def _two(value: int | tuple[int, int], what: str) -> tuple[int, int]:
    x, y = value if isinstance(value, tuple) else (value, value)
    return whole(x, what, 1), whole(y, what, 1)


# Resizing: one sparse matrix for each axis, and its transpose.

FILTERS = ("nearest", "bilinear", "area", "cubic")

TAPS = 256
"""The largest number of texels that one texel of the output, or of the transpose, may read from both axes at
once. Beyond it images are resized axis by axis, so that loops stay short and their sums exact."""


def weights(count_in: int, count_out: int, kind: str) -> np.ndarray:
    """The (count_out, count_in) matrix of one axis. Each row sums to 1. Texel centres are at i + 0.5."""
    p, q = np.arange(count_out)[:, None], np.arange(count_in)[None, :]
    if kind == "bilinear":
        centre = np.clip((p + 0.5) * count_in / count_out - 0.5, 0, count_in - 1)
        return np.maximum(1.0 - np.abs(centre - q), 0.0)
    if kind == "cubic":  # texels beyond the edge are the outermost ones
        centre, out = (p + 0.5) * count_in / count_out - 0.5, np.zeros((count_out, count_in))
        for k in range(-1, 3):
            tap = np.floor(centre).astype(int) + k
            out += np.where(np.clip(tap, 0, count_in - 1) == q, catmull_rom(centre - tap), 0.0)
        return out
    # Area: overlap of [p, p + 1) / count_out and [q, q + 1) / count_in, in integers until the division.
    overlap = np.minimum((p + 1) * count_in, (q + 1) * count_out) - np.maximum(p * count_in, q * count_out)
    return np.maximum(overlap, 0) / count_in


def catmull_rom(d: np.ndarray) -> np.ndarray:
    """The weight of a texel at the distance d, below 2, of cubic interpolation (a = -1/2)."""
    d = np.abs(d)
    return np.where(d < 1, (1.5 * d - 2.5) * d * d + 1, ((2.5 - 0.5 * d) * d - 4) * d + 2)


def taps(count_in: int, count_out: int, kind: str) -> int:
    """The most texels that one texel reads along an axis, forward or in the transpose."""
    if count_in == count_out:
        return 1
    spare = {"bilinear": 2, "cubic": 4}.get(kind, 0)
    forward = min(-(-count_in // count_out) + spare + 1, count_in)
    backward = min(-(-(1 + spare) * count_out // count_in) + 3, count_out)
    return max(forward, backward)


class Resize(Linear):
    """Each output texel is a weighted mean of nearby input texels; or the transpose of that."""

    # length: 0, or the number of taps of a partial sum. The partial sums of a texel are then in consecutive
    # tiles, one for each block of the input in turn, and only one axis changes.
    fields = ("size", "filter", "transposed", "length")
    size: Size
    filter: str
    transposed: bool = False
    length: int = 0
    includes = ("resize.glsl",)

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def known_value(self, known):
        return known[0] if 0 in known and not np.any(known[0]) else None

    def infer(self):
        if self.filter not in FILTERS:
            raise self.fail(f"filter is one of {', '.join(FILTERS)}, not {self.filter!r}")
        if self.inputs[0].vtype.is_int:
            raise self.fail("integers can only be resized with filter 'nearest'")
        x = self.inputs[0]
        return x.vtype, Domain(self.size, x.tiles * self.parts, x.channels if self.parts == 1 else 1)

    @cached_property
    def glsl(self) -> str:
        if self._doubles:
            return self._unrolled
        f = FILTERS.index(self.filter)
        # p counts texels of the resized image, q those of the original. The transpose runs at q, over p.
        name = "resize_users" if self.transposed else "resize_range"
        axes = []
        for c, i in (("y", "j"), ("x", "i")):
            n_in, n_out = (f"$size.{c}", f"$size0.{c}") if self.transposed else (f"$size0.{c}", f"$size.{c}")
            p, q = (i, f"pixel.{c}") if self.transposed else (f"pixel.{c}", i)
            if self.size[c == "y"] == self.inputs[0].size[c == "y"]:
                axes.append((f"ivec2(pixel.{c})", "1.0"))
                continue
            axes.append(
                (f"{name}(pixel.{c}, {n_in}, {n_out}, {f})", f"resize_weight({p}, {q}, {n_in}, {n_out}, {f})")
            )
        (rows, row), (columns, column) = axes
        tile, part = "tile", ""
        if self.length:
            tile, over = f"tile / {self.parts}", "columns" if columns != "ivec2(pixel.x)" else "rows"
            n, count = self.length, self.parts
            part = (
                f"int block = {over}.x / {n};"
                f" block += (tile % {count} - block % {count} + {count}) % {count};\n"
                f"{over} = ivec2(max({over}.x, block * {n}), min({over}.y, block * {n} + {n - 1}));\n"
            )
        term, lost = f"(row * {column}) * $0(ivec2(i, j), {tile})", ""
        add = f"$y += {term};"
        if self.iterations > TAPS:  # a long axis: Kahan summation, as in F.sum
            lost, add = LOST, f"{{ {add_compensated(term)} }}"
        return (
            f"{{ ivec2 rows = {rows}; ivec2 columns = {columns};\n{part}$y = $type(0);\n{lost}"
            f"for (int j = rows.x; j <= rows.y; ++j) {{ float row = {row};\n"
            f"if (row != 0.0) for (int i = columns.x; i <= columns.y; ++i) {add} }} }}"
        )

    @cached_property
    def _doubles(self) -> bool:
        """Whether one side has exactly twice the texels of the other along both axes, as in a pyramid, so
        that no loop is needed: "area" shrinks and "bilinear" enlarges, or the transposes of these."""
        (width, height), (other, high) = self.inputs[0].size, self.size
        if self.length or self.filter == "cubic":
            return False
        if (self.filter == "area") is self.transposed:  # the output is the larger one
            width, height, other, high = other, high, width, height
        return (width, height) == (2 * other, 2 * high)

    @property
    def _unrolled(self) -> str:
        if self.filter == "area":
            if self.transposed:
                return "$y = 0.25 * $0(pixel / 2, tile);"
            x = "$0(2 * pixel + ivec2({}, {}), tile)"
            return "$y = 0.25 * (" + " + ".join(x.format(i, j) for j in (0, 1) for i in (0, 1)) + ");"
        if not self.transposed:
            # Texel 2 i lies a quarter of a texel before the centre of texel i, texel 2 i + 1 a quarter behind
            # it.
            return (
                "{ ivec2 near = pixel / 2;"
                " ivec2 far = clamp(near + 2 * (pixel & 1) - 1, ivec2(0), $size0 - 1);\n"
                "$y = 0.5625 * $0(near, tile)"
                " + 0.1875 * ($0(ivec2(far.x, near.y), tile) + $0(ivec2(near.x, far.y), tile))"
                " + 0.0625 * $0(far, tile); }"
            )
        # Along an axis the texels 2 i - 1 to 2 i + 2 count 1/4, 3/4, 3/4, 1/4; beyond the border what is
        # missing of 1 at the outermost texels falls to themselves.
        rows = []
        for j, v in enumerate(("outer.y", "inner.y", "inner.w", "outer.w")):
            for i, u in enumerate(("outer.x", "inner.x", "inner.z", "outer.z")):
                rows.append(f"{u} * {v} * $0(clamp(first + ivec2({i}, {j}), ivec2(0), $size0 - 1), tile)")
        return (
            "{ ivec2 first = 2 * pixel - 1;\n"
            "vec4 edge = vec4(equal(ivec4(pixel, pixel - $size + 1), ivec4(0)));\n"
            "vec4 outer = 0.25 - 0.25 * edge, inner = 0.75 + 0.25 * edge;\n"
            f"$y = {' + '.join(rows)}; }}"
        )

    @property
    def operations(self) -> float:
        return 72.0 if self.iterations else 40.0 if self._doubles else 6.0

    @property
    def fetches(self) -> float:
        if self._doubles:
            return {("area", False): 4.0, ("area", True): 1.0, ("bilinear", False): 4.0}.get(
                (self.filter, self.transposed), 16.0
            )
        return float(self.iterations or 1)

    @property
    def iterations(self) -> int:
        """Iterations of the two nested loops."""
        return 0 if self._doubles else self.length or self._taps

    @property
    def parts(self) -> int:
        """The number of partial sums of a texel: its taps lie in at most that many blocks of the input."""
        return -(-self._taps // self.length) + 1 if self.length else 1

    @property
    def _taps(self) -> int:
        (width_in, height_in), (width_out, height_out) = self.inputs[0].size, self.size
        if self.transposed:
            width_in, height_in, width_out, height_out = width_out, height_out, width_in, height_in
        return taps(width_in, width_out, self.filter) * taps(height_in, height_out, self.filter)

    def shortened(self, most):
        x = self.inputs[0]
        if self.length:
            return None
        if x.size[0] != self.size[0] and x.size[1] != self.size[1]:
            first = Resize(x, (self.size[0], x.size[1]), self.filter, self.transposed).output
            return Resize(first, self.size, self.filter, self.transposed).output
        partial = Resize(x, self.size, self.filter, self.transposed, most)
        return SumOfParts(partial.output, partial.parts, x.channels).output

    def evaluate(self, at, x):
        (width_in, height_in), (width_out, height_out) = self.inputs[0].size, self.size
        if self.transposed:
            across = weights(width_out, width_in, self.filter).T
            down = weights(height_out, height_in, self.filter).T
        else:
            across = weights(width_in, width_out, self.filter)
            down = weights(height_in, height_out, self.filter)
        if self.length:  # part s of a texel: the blocks of the input whose number is s in turn
            axis = 2 if width_in != width_out else 1
            block = np.arange(x.shape[axis]) // self.length % self.parts
            shape = [-1 if k == axis else 1 for k in range(x.ndim)]
            parts = [x * np.reshape(block == s, shape) for s in range(self.parts)]
            x = np.stack(parts, axis=1).reshape(-1, *x.shape[1:])
        out = np.moveaxis(np.tensordot(across, x, (1, 2)), 0, 2)
        return fetch(np.moveaxis(np.tensordot(down, out, (1, 1)), 0, 1), at)

    def transpose(self, gy):
        return Resize(gy, self.inputs[0].size, self.filter, not self.transposed).output


def resize(x: Variable, size: Size, filter: str = "bilinear") -> Variable:
    """Each tile at another size. Tiles stretch from edge to edge; texel centres are at i + 0.5.

    x: any type; INT types with "nearest" only. size: (W, H). filter: "nearest"; "bilinear" (of the two
    nearest texels an axis, clamped; for enlarging); "cubic" (Catmull-Rom, of the four nearest an axis,
    clamped; for enlarging, sharper); "area" (mean of what the output texel covers; for shrinking). The result
    has the type and batch of x. Differentiable. Raises GraphError.

    >>> evaluate(F.resize(Variable.of([[1.0, 3.0, 5.0, 7.0, 9.0, 11.0]]), (3, 1), "area")).ravel().tolist()
    [2.0, 6.0, 10.0]
    """
    size, (width, height) = size_of(size), x.size
    check_one_row(x, "another size")
    if filter == "nearest":
        across, down = (
            Affine.of({axis: 2 * old}, old, 2 * new)
            for axis, old, new in zip((3, 2), x.size, size, strict=True)
        )
        return x if size == x.size else gather(x, size, across, down)
    if filter in FILTERS and taps(width, size[0], filter) * taps(height, size[1], filter) > TAPS:
        # The axis that leaves fewer texels comes first. Axes that keep their extent need no step.
        steps = [(size[0], height), size] if size[0] * height <= width * size[1] else [(width, size[1]), size]
    else:
        steps = [size]
    for step in steps:
        x = x if step == x.size else Resize(x, step, filter).output
    return x
