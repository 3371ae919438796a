"""Resizing: one sparse matrix for each axis, and its transpose."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...contract.contraction import SumOfParts
from ...graph import Domain, Variable
from ...graph.index_map import Affine
from ...graph.snippet import LOST, add_compensated
from ...graph.types import Access, Size, size_of
from ..pixel.kinds import Linear
from .image import gather
from .texels import check_one_row, fetch

__all__ = ["resize"]

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
