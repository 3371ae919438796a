"""Products of two operands by workgroups: each holds some terms of both in memory that it shares, block after block.

    out[row, column] = sum over terms of left[row, term] * right[term, column]

Matrix products are such, and so are convolutions (rows: channels of the output, columns: its pixels in a row, terms: the
channels of the input and the entries of the kernel) and their gradients. What a workgroup makes is made by its invocations
in registers, or by its subgroups with the device's units for matrices, for which operands are rounded to 16-bit floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

from .....ad.contract.contraction import ContractFunction
from .....ad.types import FLOAT
from ...limits import NO_MATRIX, DeviceLimits, MatrixShape
from ...model.device import DeviceModel
from ...substage import GROUP
from .packed import PACKED
from .strips import Layout, Product, Strips, TiledContraction

DEPTH = 16
"""Terms of a block."""
HALF_DEPTH = 32
"""The same in half precision."""
LONG = 128
"""Sums of blocks that are added as they are."""
SIDES = (2, 4, 8)
"""Rows and columns of an invocation."""
GROUPS = (64, 128, 256)
"""Invocations of a workgroup."""
LEAST = 16
"""Rows and columns of a workgroup."""


class ProductLayout(Layout):
    """The division of a product among workgroups, of which each visits all terms."""

    packed = None

    def __init__(self, f: ContractFunction, strips: Strips):
        assert strips.product is not None, "only products are divided so"
        self.product = strips.product
        super().__init__(f, strips)
        own = {self.product.row: self.product.rows, self.product.column: self.product.columns}
        for a in self.parallel:
            self.step[a] = own.get(a, 1)
            self.blocks[a] = -(-f.extents[a] // self.step[a])

    @property
    def points(self) -> int:
        return self.product.rows * self.product.columns // self.strips.lanes

    @property
    def products(self) -> int:
        return self.points * self.product.depth

    @property
    def iterations(self) -> int:
        return -(-self.f.terms // self.product.depth)

    @cached_property
    def left(self) -> int:
        """The number of the operand that has the rows."""
        return 0 if self.product.row in self.f.maps[0].axes else 1

    @property
    def half(self) -> bool:
        """Whether units for matrices multiply."""
        return self.product.shape.lanes > 1

    @property
    def parts(self) -> tuple[int, int]:
        """How many of what is made at once each subgroup makes, or each invocation, below each other and beside each other."""
        parts = self.product.shape.parts(self.product.rows, self.product.columns, self.strips.lanes)
        assert parts is not None or not self.half, "subgroups have equal parts"
        return parts if self.half and parts is not None else (1, 1)

    @property
    def held(self) -> tuple[int, int]:
        """Numbers that a workgroup holds of the left and of the right operand."""
        return self.product.rows * self.product.depth, self.product.depth * self.product.columns

    @property
    def turns(self) -> float:
        """Of all loops of an invocation together."""
        loads = sum(-(-held // self.strips.lanes) for held in self.held)
        return self.iterations * (1 + loads + self.product.depth)

    @property
    def compensated(self) -> bool:
        """Whether so many sums of blocks are added that what roundings lose is kept."""
        return self.iterations > LONG and not self.half

    @property
    def shared_words(self) -> int:
        shape = self.product.shape
        results = shape.rows * shape.columns * self.strips.lanes // shape.lanes
        return sum(self.held) // 2 + results if self.half else sum(self.held)

    @property
    def shared_reads(self) -> float:
        """Numbers that an invocation reads of them in a block, or a subgroup for it."""
        shape = self.product.shape
        below, beside = self.parts
        return self.product.depth * (below * shape.rows + beside * shape.columns) / shape.lanes

    def loads(self, k: int, packed: int | None) -> float:
        """Texels of an operand that an invocation loads in a block."""
        return self.held[k != self.left] / (PACKED if self.packs(k, packed) else 1) / self.strips.lanes

    def packs(self, k: int, packed: int | None) -> bool:
        """Whether PACKED terms of a block, one after the other, are a texel of an operand that is packed along an axis."""
        if packed is None:
            return False
        last = self.f.reduced_axes[-1]
        return (
            self.f.maps[k].affines[packed] == self.f.maps[k].affines[packed].axis(last)
            and self.f.extents[last] % PACKED == 0
        )


def layout_of(f: ContractFunction, strips: Strips) -> Layout:
    """The division of a contraction."""
    return Layout(f, strips) if strips.product is None else ProductLayout(f, strips)


def products(f: TiledContraction, limits: DeviceLimits, model: DeviceModel, half: bool) -> Iterator[Strips]:
    """The divisions of a contraction as a product. half: whether operands may be rounded to 16-bit floats."""
    sides = sides_of(f.whole)
    if sides is None:
        return
    row, column = sides
    for lanes, rows, columns in itertools.product(GROUPS, SIDES, SIDES):
        if lanes > limits.max_workgroup_invocations or rows * columns > model.accumulators:
            continue
        for below in (2**k for k in range(lanes.bit_length())):
            high, wide = below * rows, lanes // below * columns
            if high >= LEAST and wide >= LEAST and _fits(f.whole, row, high) and _fits(f.whole, column, wide):
                shape = MatrixShape(rows, columns, 1, 1)
                yield Strips(column, lanes=lanes, product=Product(row, column, high, wide, DEPTH, shape))
    if half and limits.matrix != NO_MATRIX:
        for high, wide in ((GROUP, GROUP), (GROUP // 2, GROUP), (GROUP // 2, GROUP // 2)):
            if limits.matrix.parts(high, wide, GROUP) is not None:
                yield Strips(
                    column, lanes=GROUP, product=Product(row, column, high, wide, HALF_DEPTH, limits.matrix)
                )


def _fits(f: ContractFunction, axis: int, entries: int) -> bool:
    """Whether less than half of the entries of workgroups are beyond the end."""
    return entries < 2 * f.extents[axis]


def sides_of(f: ContractFunction) -> tuple[int, int] | None:
    """The axes of rows and columns: the longest ones that one operand has alone, columns where neighbours are neighbours in the
    output; None of what is no sum of products of two images of numbers."""
    if (
        not f.product
        or f.combine != "add"
        or len(f.inputs) != 2
        or any(x.vtype is not FLOAT for x in f.inputs)
    ):
        return None
    if any(not any(m.axes.issuperset(affine.axes) for m in f.maps) for affine, _ in f.guards):
        return None
    (a, b), parallel = f.maps, range(f.reduced_axes.start)
    own = [
        [x for x in m.axes - other.axes if x in parallel and f.extents[x] > 1]
        for m, other in ((a, b), (b, a))
    ]
    if not all(own):
        return None
    last = [axes[-1] for axes in reversed(f.axes) if axes]
    one, other = (max(axes, key=lambda x: (f.extents[x], x)) for axes in own)
    for x in last:
        for axes, row in ((own[0], other), (own[1], one)):
            if x in axes and f.extents[x] >= LEAST:
                return row, x
    return None
