"""The kinds of Functions: what computes the texels of the output."""

from __future__ import annotations

from typing import Any

from ..types import Domain, Size
from .function import Function, Variable
from .work import AxisWork


class PixelFunction(Function):
    """Kind PIXEL: every output texel is computed by the snippet alone, in any order.

    A subclass declares ``glsl``, ``infer`` (type and domain), ``eval`` (the meaning in NumPy) and a derivative; see
    ``help(PixelFunction.__base__)`` for all it may declare, and ``F.apply``.

    >>> class Cube(PixelFunction):
    ...     glsl = "$0 * $0 * $0"
    ...     infer = lambda self: (self.inputs[0].vtype, self.broadcast())
    ...     eval = lambda self, x: x**3
    ...     partials = lambda self, x: (3.0 * x * x,)
    >>> evaluate(F.apply(Cube, 2.0)).item()
    8.0
    """


class ReduceFunction(AxisWork, PixelFunction):
    """Kind REDUCE: an output texel loops over the texels of its input along ``axis``; the snippet holds the loop.

    >>> class Product(ReduceFunction):
    ...     axis, access = "x", (Access.FETCH,)
    ...     glsl = "$y = 1.0; for (int i = 0; i < $size0.x; ++i) $y *= $0(ivec2(i, pixel.y), tile);"
    ...     infer = lambda self: (FLOAT, ((1, self.inputs[0].size[1]), self.inputs[0].batch))
    ...     eval = lambda self, x: x.prod(axis=2, keepdims=True)
    >>> evaluate(F.apply(Product, Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]))).item()
    120.0
    """


class ScatterFunction(Function):
    """Kind SCATTER: each texel of the *source* domain adds to (or maximises) texels of the output table.

    ``inputs`` are ``(bound, value0, index0, value1, index1, ...)``: ``bound`` a FLOAT 1x1, at least the largest
    absolute value (fixed-point scale), values and indices read at the source pixel. Indices are INT (row by row
    through the table) or IVEC2 (texel); those outside the table are ignored. ``table`` is the output's domain:
    with batch 1 all tiles share it, else each source tile has its own. ``operation`` is "add" or "max".
    """

    fields = ("table", "operation")
    table: Domain
    operation: str

    @property
    def source(self) -> Domain:
        return self.broadcast(*self.inputs[1:])

    @property
    def pairs(self) -> list[tuple[Variable, Variable]]:
        """(value, index) pairs."""
        return list(zip(self.inputs[1::2], self.inputs[2::2], strict=True))


class RasterFunction(Function):
    """Kind RASTER: draws triangles; the output is the INT number of the winning face, -1 for none.

    ``inputs`` are ``(position, [faces,] [live,] *extra)``: clip positions VEC4 as a list, faces IVEC3 (absent: three
    consecutive positions make a triangle), a mask of the faces that are drawn (absent: all are), and the images that
    the fragment sub-graph reads. ``indexed`` and ``masked`` say what is there. ``fragment`` is the sub-graph:
    (depth, keep) Variables over the placeholders ``face`` and ``coordinates``. ``triangles`` is how many are drawn,
    ``triangles_per_face`` how many make a face, ``disjoint`` says that these never overlap. ``covering``: the output is
    0 where any face covers the pixel, whichever it is.
    """

    fields = ("indexed", "masked", "size", "batch", "triangles", "triangles_per_face", "fragment", "disjoint",
              "covering")  # fmt: skip
    indexed: bool
    masked: bool
    size: Size
    batch: int
    triangles: int
    triangles_per_face: int
    fragment: Any
    disjoint: bool
    covering: bool

    @property
    def faces(self) -> int:
        """How many faces are drawn at most."""
        return self.triangles // self.triangles_per_face

    @property
    def pulled(self) -> int:
        """How many inputs the vertex shader pulls."""
        return 1 + self.indexed + self.masked

    @property
    def live(self) -> Variable | None:
        """The mask of the faces that are drawn."""
        return self.inputs[self.pulled - 1] if self.masked else None

    @property
    def externals(self) -> tuple[Variable, ...]:
        """The images that the fragment sub-graph reads, one for each of its formals."""
        return self.inputs[self.pulled :]
