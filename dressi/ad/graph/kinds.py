"""The kinds of Functions: what computes the texels of the output."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..types import Domain, Size
from .function import Function, Variable
from .work import AxisWork


class PixelFunction(Function):
    """Kind PIXEL: the snippet computes each output texel, in any order.

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
    """Kind REDUCE: each output texel is computed by a loop over the texels of the input along ``axis``, in the snippet.

    Declare ``combine`` if the texels along the axis are added up or the largest or smallest counts: devices with many lanes
    then split a long axis. Otherwise the loop stays whole, or the class says itself what is shorter: see ``shortened`` of
    ``dressi.ad.graph.work``.

    >>> class Product(ReduceFunction):
    ...     axis, access = "x", (Access.FETCH,)
    ...     glsl = "$y = 1.0; for (int i = 0; i < $size0.x; ++i) $y *= $0(ivec2(i, pixel.y), tile);"
    ...     infer = lambda self: (FLOAT, ((1, self.inputs[0].size[1]), self.inputs[0].batch))
    ...     eval = lambda self, x: x.prod(axis=2, keepdims=True)
    >>> evaluate(F.apply(Product, Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]))).item()
    120.0
    """


class ScatterFunction(Function):
    """Kind SCATTER: each texel of the *source* domain adds to texels of the output table, or raises their maximum.

    ``inputs`` are ``(bound, value0, index0, value1, index1, ...)``. ``bound`` is a FLOAT 1x1, at least the largest
    absolute value: the scale of the fixed-point sums. Values and indices are read at the source pixel. Indices are INT
    (row by row through the table) or IVEC2 (texel); those outside the table are ignored. ``table`` is the domain of the
    output: all tiles share a table of batch 1, otherwise each source tile has its own. ``operation`` is "add" or "max".
    """

    fields = ("table", "operation")
    table: Domain
    operation: str

    @cached_property
    def source(self) -> Domain:
        return self.broadcast(*self.inputs[1:])

    @property
    def working_domain(self) -> Domain:
        return self.source

    @property
    def pairs(self) -> list[tuple[Variable, Variable]]:
        """(value, index) pairs."""
        return list(zip(self.inputs[1::2], self.inputs[2::2], strict=True))


class DrawFunction(Function):
    """The base of the kinds that draw triangles and run a sub-graph in every fragment.

    ``inputs`` are ``(position, [faces,] [live,] *externals)``: clip positions VEC4 as a list, faces IVEC3 (absent: three
    consecutive positions make a triangle), a mask of the live faces, which are drawn (absent: all are), and the images
    that the fragment sub-graph reads. ``indexed`` and ``masked`` tell whether faces and mask are there. ``fragment`` is
    the sub-graph, a ``FragmentGraph``. ``size`` and ``batch`` are of the images drawn into. ``triangles`` is the number of
    triangles drawn, ``triangles_per_face`` the number that make a face.
    """

    fields = ("indexed", "masked", "size", "batch", "triangles", "triangles_per_face", "fragment")
    indexed: bool
    masked: bool
    size: Size
    batch: int
    triangles: int
    triangles_per_face: int
    fragment: Any
    covering: bool = False
    """Whether only which pixels are covered counts."""

    @property
    def drawn(self) -> Domain:
        """The domain of the fragments."""
        return Domain(self.size, self.batch)

    @property
    def working_domain(self) -> Domain:
        return self.drawn

    @property
    def faces(self) -> int:
        """The largest number of faces that can be drawn."""
        return self.triangles // self.triangles_per_face

    @property
    def pulled(self) -> int:
        """The number of inputs that the vertex shader pulls."""
        return 1 + self.indexed + self.masked

    @property
    def live(self) -> Variable | None:
        """The mask of the live faces, None if all are drawn."""
        return self.inputs[self.pulled - 1] if self.masked else None

    @property
    def externals(self) -> tuple[Variable, ...]:
        """The images that the fragment sub-graph reads, one for each of its formals."""
        return self.inputs[self.pulled :]


class RasterFunction(DrawFunction):
    """Kind RASTER: draws triangles; the output is the INT number of the winning face, -1 for none.

    See ``DrawFunction`` for the inputs. ``disjoint`` promises that the triangles of one face never overlap. ``covering``:
    the output is 0 at every covered pixel, instead of the number of the face.
    """

    fields = (*DrawFunction.fields, "disjoint", "covering")
    quiet = -1
    disjoint: bool


class AccumulateFunction(DrawFunction):
    """Kind ACCUMULATE: draws triangles; the output is the sum of the first root of ``fragment`` over all fragments of a pixel.

    See ``DrawFunction`` for the inputs. ``fixed_point``: the sums are those of 64-bit integers, which are the same on every
    device that computes the same values; otherwise devices add floats, in the order of the triangles.
    """

    fields = (*DrawFunction.fields, "fixed_point")
    fixed_point: bool


class FragmentScatterFunction(DrawFunction):
    """Kind FRAGMENT SCATTER: draws triangles; every fragment adds values to texels of the output table.

    See ``DrawFunction`` for the inputs. The roots of ``fragment`` are (value0, index0, value1, index1, ...), with indices
    as in ``ScatterFunction``. ``table`` is the domain of the output: all tiles share a table of batch 1, otherwise each
    tile has its own. Sums are in fixed point.
    """

    fields = (*DrawFunction.fields, "table")
    operation = "add"
    table: Domain

    @property
    def pairs(self) -> list[tuple[Variable, Variable]]:
        """(value, index) pairs inside of the sub-graph."""
        roots = self.fragment.roots
        return list(zip(roots[0::2], roots[1::2], strict=True))

    @property
    def additions(self) -> int:
        """The largest number of values that are added to one texel of the table."""
        fragments = self.size[0] * self.size[1] * self.triangles * len(self.pairs)
        return fragments * (self.batch if self.table.tiles == 1 else 1)
