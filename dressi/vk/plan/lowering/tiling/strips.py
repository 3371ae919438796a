"""Contractions by strips: an invocation computes a few rows and channels at once, and each value that it loads serves several.

3 x 3 convolution, 4 rows x 8 channels:    6 texels of a column and 3 x 8 weights make 3 x 32 products
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .....ad.contract.contraction import ContractFunction
from .....ad.contract.terms import COMBINE, nothing, shape_of
from .....ad.graph import At, Function
from .....ad.graph.index_map import Affine
from .....ad.types import Access
from ...limits import MatrixShape
from ...substage import GROUP, SubStage
from .packed import PACKED, unpack

CHAIN = 32
"""Additions one after the other into one accumulator. Longer sums are sums of such sums."""
LINE = 16
"""Words that caches load together."""


class Product(NamedTuple):
    """A part of a product that a workgroup makes, out of operands that it holds ``depth`` terms of.

    row, column: parallel axes, each of one operand alone.  rows, columns: how many of their entries.  shape: what ``shape.lanes``
    invocations make of it at once.
    """

    row: int
    column: int
    rows: int
    columns: int
    depth: int
    shape: MatrixShape


class Strips(NamedTuple):
    """How a contraction is divided among invocations, its axes by their numbers.

    lane: the parallel axis along which neighbouring invocations are neighbours; of this axis an invocation takes every
    ``lanes``-th entry, as many as are in a workgroup.  tile: of parallel axes, how many entries an invocation computes, in
    registers.  straight: of reduced axes, how many entries are written one after the other in a block; the rest are loops
    around it.  tree: whether the lane axis counts parts of sums, which the invocations of a workgroup add up in shared memory.
    subgroup: how many invocations load together what does not depend on the lane, each another texel; 1 where they do not.
    product: how a workgroup makes a product of two operands, if it does that together; there is then no tile of invocations.
    """

    lane: int
    tile: tuple[tuple[int, int], ...] = ()
    straight: tuple[tuple[int, int], ...] = ()
    lanes: int = GROUP
    tree: bool = False
    subgroup: int = 1
    product: Product | None = None


class Loop(NamedTuple):
    """A loop of an invocation over every ``step``-th entry of an axis. of: where an outer loop over the same axis gives the
    start, how many entries from there."""

    axis: int
    step: int
    of: int = 0


class TiledContraction(Function):
    """A contraction by strips, a kind of Function of its own, made by the planner.

    whole: the contraction, of which the terms count and not the inputs. packed: for each input the axis n, c, y, x (0 to 3)
    along which PACKED neighbours are one texel of it, or None. With a tree the lane axis is the last of the columns, and the
    output has one entry for each workgroup there.
    """

    fields = ("whole", "strips", "packed")
    no_derivative = "is made when a plan is built; take derivatives of the whole contraction"
    whole: ContractFunction
    strips: Strips
    packed: tuple[int | None, ...]

    @property
    def identity(self):
        shapes = tuple((x.vtype, x.domain) for x in self.whole.inputs)
        return (type(self), self.whole.identity, shapes, self.strips, self.packed)

    @cached_property
    def access(self):
        return (Access.FETCH,) * len(self.inputs)

    @cached_property
    def stores_inputs(self) -> bool:
        """Not where a texel is read once: whoever reads it may make it as well."""
        texels = math.prod(shape_of(self.whole.inputs[0]))
        return len(self.inputs) > 1 or texels < self.whole.terms * math.prod(self.whole.shape)

    def infer(self):
        vtype, domain = self.whole.output.vtype, self.whole.output.domain
        if not self.strips.tree:
            return vtype, domain
        (width, height), lane = domain.size, self.strips.lane
        parts = self.layout.blocks[lane]
        return vtype, domain._replace(size=(width // self.whole.extents[lane] * parts, height))

    @property
    def glsl(self) -> str:
        return self.whole.glsl

    def evaluate(self, at, *inputs):
        unpacked = [
            x if axis is None else unpack(x, shape_of(v), axis)
            for x, v, axis in zip(inputs, self.whole.inputs, self.packed, strict=True)
        ]
        if not self.strips.tree:
            return self.whole.evaluate(at, *unpacked)
        extent, parts = self.whole.extents[self.strips.lane], self.layout.blocks[self.strips.lane]
        column, first = at.x // parts * extent, at.x % parts * self.strips.lanes
        combine, none = self.whole.combine, nothing(self.whole.combine, self.output.vtype)
        total = np.asarray(none)
        for k in range(self.strips.lanes):
            there = At(column + np.minimum(first + k, extent - 1), at.y, at.tile)
            inside = (first + k < extent).reshape(*first.shape, *[1] * len(self.output.vtype.shape))
            found = np.asarray(self.whole.evaluate(there, *unpacked))
            total = COMBINE[combine](total, np.where(inside, found, none))
        return total

    # ---- how it is divided
    @cached_property
    def layout(self) -> Layout:
        return Layout(self.whole, self.strips)

    @property
    def shared_words(self) -> int:
        """Words of memory that a workgroup shares."""
        words = self.layout.points * self.output.vtype.components * self.strips.lanes
        return words if self.strips.tree else 0

    # ---- its work, of one invocation
    @property
    def operations(self) -> float:
        return self.layout.products * self.whole.operations / max(self.iterations, 1)

    @property
    def iterations(self) -> int:
        return self.layout.iterations

    def reads(self, k):
        """Texels for one of the output."""
        parts = self.strips.lanes if self.strips.tree else 1
        return float(self.loads[k] * self.layout.iterations * parts)

    @property
    def fetches(self) -> float:
        return max((self.reads(k) for k in range(len(self.inputs))), default=0.0)

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """Texels of each input that an invocation loads in a block."""
        return tuple(self.layout.loads(k, packed) for k, packed in enumerate(self.packed))


class Layout:
    """The division of a contraction: extents of what is counted where, and the loads of a block."""

    def __init__(self, f: ContractFunction, strips: Strips, memo: dict | None = None):
        """memo: what layouts of the same contraction count, shared by them."""
        self.f, self.strips = f, strips
        self._memo: dict[object, int] = {} if memo is None else memo
        self.tile, self.straight = dict(strips.tile), dict(strips.straight)
        lane = strips.lane
        self.step = {
            a: self.tile.get(a, 1) * (strips.lanes if a == lane else 1) for a in range(f.reduced_axes.start)
        }
        self.step |= {a: self.straight.get(a, 1) for a in f.reduced_axes}
        self.blocks = {a: -(-f.extents[a] // self.step[a]) for a in self.step}
        self.bases = {
            a: self.step[a] * (self.blocks[a] - 1) + (strips.lanes if a == lane else 1) for a in self.step
        }
        """Of each axis the extent of the first entries of an invocation's block; it has others at fixed distances."""

    @property
    def parallel(self) -> range:
        return range(self.f.reduced_axes.start)

    @cached_property
    def order(self) -> list[int]:
        """The parallel axes, those first along which neighbouring workgroups differ: axes of the operands with the fewest bytes.
        What is read again and again is then small, and texels of a large image are loaded while caches still hold them.

        convolution of 288 channels of 64 x 64 texels, 4.7 MB, with 1 MB of weights: channels of the output, columns, rows
        """
        f = self.f

        def words(axis: int) -> int:
            read = (x for x, m in zip(f.inputs, f.maps, strict=True) if axis in m.axes)
            return sum(math.prod(shape_of(x)) * x.vtype.components for x in read)

        return sorted(self.parallel, key=lambda a: (words(a), a != self.strips.lane, a not in self.tile, -a))

    @property
    def groups(self) -> int:
        """Workgroups."""
        return math.prod(self.blocks[a] for a in self.parallel)

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the axes of the output: a tree leaves an entry for each workgroup of the lane axis."""
        if not self.strips.tree:
            return self.f.extents
        return tuple(self.blocks[a] if a == self.strips.lane else e for a, e in enumerate(self.f.extents))

    @property
    def points(self) -> int:
        """Texels of the output that an invocation computes."""
        return math.prod(self.tile.values())

    @property
    def products(self) -> int:
        """Terms in a block."""
        return self.points * math.prod(self.straight.values())

    @property
    def iterations(self) -> int:
        """Blocks of an invocation."""
        return math.prod(self.blocks[a] for a in self.f.reduced_axes)

    def shifts(self, axis: int) -> range:
        """The distances of the entries of an axis in a block from the first."""
        count = self.entries(axis)
        by = self.strips.lanes if axis == self.strips.lane else 1
        return range(0, count * by, by)

    def distinct(self, k: int, packed: int | None = None) -> int:
        """Texels of an input that a block loads."""
        key = (k, packed, *(self.entries(a) for a in self.f.maps[k].axes))
        if key not in self._memo:
            self._memo[key] = self._distinct(k, packed)
        return self._memo[key]

    def entries(self, axis: int) -> int:
        return self.tile.get(axis) or self.straight.get(axis, 1)

    def _distinct(self, k: int, packed: int | None) -> int:
        found = 1
        for s, affine in enumerate(self.f.maps[k].affines):
            values = {0}
            for axis, c in affine.terms:
                shifts = self.shifts(axis)
                if len(shifts) > 1:
                    values = {v + c * shift for v in values for shift in shifts}
            if not affine.whole:
                values = {v // affine.divisor for v in values}
            if s == packed:
                values = {v // PACKED for v in values}
            found *= len(values)
        return found

    def loads(self, k: int, packed: int | None = None) -> int:
        """Texels of an input that an invocation loads in a block."""
        each = self.strips.subgroup if self.loads_together(k) else 1
        return -(-self.distinct(k, packed) // each)

    def loads_together(self, k: int) -> bool:
        """Whether the invocations of a subgroup share the texels of an input, which lie at equal distances along each axis."""
        m = self.f.maps[k]
        if self.strips.subgroup == 1 or self.strips.tree or self.strips.lane in m.axes or m.border != "zero":
            return False
        return all(a.whole and len([x for x in a.axes if self.entries(x) > 1]) <= 1 for a in m.affines)

    def bytes_of(self, k: int) -> float:
        """Bytes of an input that a block adds for each invocation: neighbours share what lies beside each other in a row,
        and all of them what does not depend on the lane."""
        words, lane = float(self.f.inputs[k].vtype.components), self.strips.lane
        affines = self.f.maps[k].affines[:3]
        if any(lane in affine.axes for affine in affines):
            return (
                4.0 * LINE * words
            )  # of rows that are each lane's own, which caches keep for the next block
        rows = 1.0
        for affine in affines:
            values = {0}
            for axis, c in affine.terms:
                values = {v + c * shift for v in values for shift in self.shifts(axis)}
            rows *= len(values)
        (column,) = self.f.maps[k].affines[3:4]
        width = 1 + sum(abs(c) * (len(self.shifts(axis)) - 1) for axis, c in column.terms if axis != lane)
        width += self.strips.lanes * sum(
            abs(c) * len(self.shifts(axis)) for axis, c in column.terms if axis == lane
        )
        return 4.0 * words * rows * width / self.strips.lanes

    def packable(self, k: int) -> int | None:
        """The axis n, c, y, x of an input along which PACKED neighbours can be one texel for all invocations, if any: every
        block starts at a multiple of PACKED and has several of them."""
        most, best = 1, None
        for s, affine in enumerate(self.f.maps[k].affines):
            if affine != Affine.axis(affine.axes[0]) if affine.terms else True:
                continue
            (axis,) = affine.axes
            if axis == self.strips.lane:
                continue
            count = len(self.shifts(axis))
            aligned = count % PACKED == 0 or self.blocks[axis] == 1
            if aligned and count > most and shape_of(self.f.inputs[k])[s] >= self.f.extents[axis]:
                most, best = count, s
        return best

    @cached_property
    def loops(self) -> tuple[list[Loop], list[Loop]]:
        """The loops of an invocation, those outside of the inner accumulators and those inside, which make at most CHAIN
        additions one after the other."""
        outer: list[Loop] = []
        inner: list[Loop] = []
        room = CHAIN
        for axis in reversed(self.f.reduced_axes):
            count, step = self.blocks[axis], self.step[axis]
            if count == 1:
                continue
            if outer or room < 2:
                outer.insert(0, Loop(axis, step))
            elif count <= room:
                inner.insert(0, Loop(axis, step))
                room //= count
            else:
                inner.insert(0, Loop(axis, step, room * step))
                outer.insert(0, Loop(axis, room * step))
                room = 1
        return outer, inner

    @property
    def folds(self) -> int:
        """Sums of inner accumulators that are added up."""
        outer, _ = self.loops
        return math.prod(-(-self.f.extents[loop.axis] // loop.step) for loop in outer)


def strips_in(s: SubStage) -> dict[TiledContraction, list[Function]]:
    """The contractions of a dispatch of strips, each with what is done with its texels."""
    found: dict[TiledContraction, list[Function]] = {}
    for f in s.body:
        if isinstance(f, TiledContraction):
            last = found[f] = []
        else:
            last.append(f)
    return found
