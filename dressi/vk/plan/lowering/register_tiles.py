"""Contractions by register tiles: an invocation computes several texels at once, and each value that it loads
serves several.

    3 x 3 convolution, 4 rows x 8 channels:    6 texels of a column and 3 x 8 weights make 3 x 32 products

A schedule (``model/schedules``) says how; ``Layout`` has the loops that follow from it. Operands may be
``Packed`` before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ....ad.contract.contraction import ContractFunction
from ....ad.contract.derivative import interleaved, split
from ....ad.contract.terms import COMBINE, domain_of_shape, nothing, shape_of
from ....ad.graph import At, Function, PixelFunction
from ....ad.graph.index_map import IMAGE_AXES, Affine
from ....ad.graph.types import VEC4, Access
from ..core.substage import GROUP, SubStage
from ..model.schedules import (
    Bind,
    Pack,
    Reduce,
    Rows,
    Shuffle,
    Split,
    SplitK,
    Tensorize,
    Unroll,
    axis_names,
    of_kind,
)

CHAIN = 32  # additions one after the other into one accumulator; longer sums are sums of such sums
LINE = 16  # words that caches load together
PACKED = 4  # neighbours in one texel of a ``Packed`` operand
LONG = 128  # sums of blocks of a product that are added as they are; longer ones are compensated


class Loop(NamedTuple):
    """A loop of an invocation over every ``step``-th entry of an axis. of: where an outer loop over the same
    axis gives the start, how many entries from there."""

    axis: int
    step: int
    of: int = 0


def part_of(f: ContractFunction, rows: Rows) -> tuple[ContractFunction, dict[str, Any] | None]:
    """The contraction whose loops a schedule is about: f after its rows Split and SplitK, and the fields of
    what combines the parts of SplitK. Raises ValueError, which says why one of them does not fit."""
    rest = None
    for row in rows:
        match row:
            case Split(name, factor):
                axis = axis_names(f).index(name)
                if axis in f.reduced_axes or factor < 2 or f.extents[axis] % factor:
                    extent = f.extents[axis]
                    raise ValueError(f"{factor} has to divide the extent {extent} of a parallel axis")
                made = interleaved(f, axis, factor)
            case SplitK(terms, together):
                halves = split(f, terms, together)
                if halves is None:
                    raise ValueError(f"a sum of {f.terms} terms has no parts of {terms}")
                made, rest = halves
            case _:
                continue
        f = ContractFunction(*made.inputs, **made.fields)
    return f, rest


class TiledContraction(Function):
    """A contraction by a schedule, a kind of Function of its own, made by the planner.

    whole: the contraction; its inputs do not count.  schedule: its rows.  by_hand: whether the user gave
    them, so that no pass looks for others. With ``SplitK`` the output has the parts; with ``Reduce``, one
    entry for each workgroup.
    """

    fields = ("whole", "schedule", "by_hand")
    no_derivative = "is made when a plan is built; take derivatives of the whole contraction"
    whole: ContractFunction
    schedule: Rows
    by_hand: bool

    @property
    def identity(self):
        shapes = tuple((x.vtype, x.domain) for x in self.whole.inputs)
        return (type(self), self.whole.identity, shapes, self.schedule, self.by_hand)

    @cached_property
    def part(self) -> ContractFunction:
        """The contraction whose loops these are: ``whole`` itself, or that of its parts."""
        return part_of(self.whole, self.schedule)[0]

    @cached_property
    def packed(self) -> tuple[int | None, ...]:
        """For each input the axis n, c, y, x (0 to 3) along which it is ``Packed``, or None."""
        axes = {row.operand: IMAGE_AXES.index(row.axis) for row in of_kind(self.schedule, Pack)}
        return tuple(axes.get(k) for k in range(len(self.inputs)))

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.part, self.schedule)

    @cached_property
    def access(self):
        return (Access.FETCH,) * len(self.inputs)

    @cached_property
    def stores_inputs(self) -> bool:
        """False where each texel is read once: the reader may make it as well."""
        reads = self.part.terms * math.prod(self.part.shape)
        return len(self.inputs) != 1 or math.prod(shape_of(self.part.inputs[0])) < reads

    def infer(self):
        vtype, domain = self.part.output.vtype, self.part.output.domain
        if not self.layout.tree:
            return vtype, domain
        (width, height), lane = domain.size, self.layout.lane
        parts = self.layout.blocks[lane]
        return vtype, domain._replace(size=(width // self.part.extents[lane] * parts, height))

    @property
    def glsl(self) -> str:
        return self.part.glsl

    def evaluate(self, at, *inputs):
        part, layout = self.part, self.layout
        unpacked = [
            x if axis is None else unpack(x, shape_of(v), axis)
            for x, v, axis in zip(inputs, part.inputs, self.packed, strict=True)
        ]
        if not layout.tree:
            return part.evaluate(at, *unpacked)
        extent, parts = part.extents[layout.lane], layout.blocks[layout.lane]
        column, first = at.x // parts * extent, at.x % parts * layout.lanes
        combine, none = part.combine, nothing(part.combine, self.output.vtype)
        total = np.asarray(none)
        for k in range(layout.lanes):
            there = At(column + np.minimum(first + k, extent - 1), at.y, at.tile)
            inside = (first + k < extent).reshape(*first.shape, *[1] * len(self.output.vtype.shape))
            term = np.asarray(part.evaluate(there, *unpacked))
            total = COMBINE[combine](total, np.where(inside, term, none))
        return total

    # ---- its work, of one invocation
    @property
    def shared_words(self) -> int:
        """Words of memory that a workgroup shares."""
        words = self.layout.points * self.output.vtype.components * self.layout.lanes
        return words if self.layout.tree else 0

    @property
    def operations(self) -> float:
        return self.layout.products * self.part.term_operations / max(self.iterations, 1)

    @property
    def iterations(self) -> int:
        return self.layout.iterations

    def reads(self, k):
        """Texels for one of the output."""
        parts = self.layout.lanes if self.layout.tree else 1
        return float(self.loads[k] * self.layout.iterations * parts)

    @property
    def fetches(self) -> float:
        return max((self.reads(k) for k in range(len(self.inputs))), default=0.0)

    @cached_property
    def loads(self) -> tuple[float, ...]:
        """Texels of each input that an invocation loads in a block."""
        return tuple(self.layout.loads(k, packed) for k, packed in enumerate(self.packed))


class Layout:
    """The loops of a contraction by a schedule, its axes by their numbers: extents of what is counted where,
    loads of a block.

    A *block* is what an invocation does without loops: ``tile`` entries of parallel axes, ``unrolled`` ones
    of reduced axes. lane, lanes: the axis along which neighbouring invocations are neighbours, and how many
    are in a workgroup.  tree: whether these add up what they made.  subgroup: how many load together what
    does not depend on the lane.  bases: for each axis the extent of the first entries of the blocks; the
    other entries of a block lie at fixed distances from its first.
    """

    def __init__(self, f: ContractFunction, rows: Rows, memo: dict | None = None):
        """memo: what layouts of the same contraction count, shared by them."""
        self.f, self.rows = f, rows
        self._memo: dict[object, int] = {} if memo is None else memo
        self._numbers = {name: axis for axis, name in enumerate(axis_names(f))}
        self.lane, self.lanes, self.tree, self.subgroup = -1, GROUP, False, 1
        self.tile: dict[int, int] = {}
        self.unrolled: dict[int, int] = {}
        for (
            row
        ) in rows:  # Split and SplitK made the contraction itself; Pack, Stage and At are about operands
            match row:
                case Bind(name, lanes) | Reduce(name, lanes):
                    self.lane, self.lanes, self.tree = self._numbers[name], lanes, isinstance(row, Reduce)
                case Unroll(name, factor):
                    axis = self._numbers[name]
                    (self.tile if axis in self.parallel else self.unrolled)[axis] = factor
                case Shuffle(lanes):
                    self.subgroup = lanes
        across = {a: self.lanes if a == self.lane else 1 for a in range(len(f.extents))}
        self.step = {a: self.entries(a) * across[a] for a in across}
        self.blocks = {a: -(-f.extents[a] // self.step[a]) for a in across}
        self.bases = {a: self.step[a] * (self.blocks[a] - 1) + across[a] for a in across}

    @property
    def parallel(self) -> range:
        return range(self.f.reduced_axes.start)

    @cached_property
    def order(self) -> list[int]:
        """The parallel axes, those first along which neighbouring workgroups differ: axes of the operands
        with the fewest bytes. What is read again and again is then small, and texels of a large image are
        loaded while caches still hold them.

        convolution of 288 channels of 64 x 64 texels, 4.7 MB, with 1 MB of weights: channels of the output,
        columns, rows
        """
        f = self.f

        def words(axis: int) -> int:
            read = (x for x, m in zip(f.inputs, f.maps, strict=True) if axis in m.axes)
            return sum(math.prod(shape_of(x)) * x.vtype.components for x in read)

        return sorted(self.parallel, key=lambda a: (words(a), a != self.lane, a not in self.tile, -a))

    @property
    def groups(self) -> int:
        """Workgroups."""
        return math.prod(self.blocks[a] for a in self.parallel)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the output: a tree leaves an entry for each workgroup of the lane axis."""
        parts = self.lane if self.tree else None
        return tuple(self.blocks[a] if a == parts else e for a, e in enumerate(self.f.extents))

    @property
    def points(self) -> int:
        """Texels of the output that an invocation computes."""
        return math.prod(self.tile.values())

    @property
    def products(self) -> int:
        """Terms in a block."""
        return self.points * math.prod(self.unrolled.values())

    @property
    def iterations(self) -> int:
        """Blocks of an invocation."""
        return math.prod(self.blocks[a] for a in self.f.reduced_axes)

    def entries(self, axis: int) -> int:
        """Entries of an axis in a block."""
        return self.tile.get(axis) or self.unrolled.get(axis, 1)

    def shifts(self, axis: int) -> range:
        """The distances of the entries of an axis in a block from the first."""
        by = self.lanes if axis == self.lane else 1
        return range(0, self.entries(axis) * by, by)

    def distinct(self, k: int, packed: int | None = None) -> int:
        """Texels of an input that a block loads."""
        key = (k, packed, *(self.entries(a) for a in self.f.maps[k].axes))
        if key not in self._memo:
            shifts = {a: self.shifts(a) for a in self.f.maps[k].axes}
            self._memo[key] = math.prod(map(len, places_read(self.f, k, shifts, packed)))
        return self._memo[key]

    def loads(self, k: int, packed: int | None = None) -> float:
        """Texels of an input that an invocation loads in a block."""
        each = self.subgroup if self.loads_together(k) else 1
        return -(-self.distinct(k, packed) // each)

    def loads_together(self, k: int) -> bool:
        """Whether a subgroup shares the texels of an input, which lie at equal distances along each axis."""
        m = self.f.maps[k]
        if self.subgroup == 1 or self.tree or self.lane in m.axes or m.border != "zero":
            return False
        return all(a.whole and len([x for x in a.axes if self.entries(x) > 1]) <= 1 for a in m.affines)

    def bytes_of(self, k: int) -> float:
        """Bytes of an input that a block adds for each invocation: neighbours share what lies beside each
        other in a row, and all of them what does not depend on the lane."""
        words, lane = float(self.f.inputs[k].vtype.components), self.lane
        affines = self.f.maps[k].affines[:3]
        if any(lane in affine.axes for affine in affines):
            # Each lane has rows of its own, which caches keep for the next block.
            return 4.0 * LINE * words
        rows = 1.0
        for affine in affines:
            rows *= len(sums_of(affine, {a: self.shifts(a) for a in affine.axes}))
        (column,) = self.f.maps[k].affines[3:4]
        width = 1 + sum(abs(c) * (len(self.shifts(axis)) - 1) for axis, c in column.terms if axis != lane)
        width += self.lanes * sum(abs(c) * len(self.shifts(axis)) for axis, c in column.terms if axis == lane)
        return 4.0 * words * rows * width / self.lanes

    def packable(self, k: int) -> int | None:
        """The axis n, c, y, x (0 to 3) of an input along which packing saves most loads, if one does. Every
        block has to start at a multiple of PACKED, so that PACKED neighbours are one texel for all invocations."""
        counts = [0] * 4
        for s in range(4):
            axis = self.axis_along(k, s)
            if axis is not None and (self.entries(axis) % PACKED == 0 or self.blocks[axis] == 1):
                counts[s] = self.entries(axis)
        most = max(range(4), key=counts.__getitem__)
        return most if counts[most] > 1 else None

    def axis_along(self, k: int, s: int) -> int | None:
        """The axis, not that of the lanes, that alone is the index of an input along s, within its extent."""
        affine = self.f.maps[k].affines[s]
        if not affine.terms or affine != Affine.axis(affine.axes[0]) or affine.axes[0] == self.lane:
            return None
        (axis,) = affine.axes
        return axis if shape_of(self.f.inputs[k])[s] >= self.f.extents[axis] else None

    @cached_property
    def loops(self) -> tuple[list[Loop], list[Loop]]:
        """The loops outside and inside of the inner accumulators, which add at most CHAIN terms in a row."""
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


class ProductLayout(Layout):
    """The loops of a product by workgroups (``Tensorize``), each of which visits all terms, block after
    block.

        out[row, column] = sum over terms of left[row, term] * right[term, column]

    Matrix products are such, and so are convolutions (rows: channels of the output, columns: its pixels in a
    row, terms: the channels of the input and the entries of the kernel) and their gradients.
    """

    def __init__(self, f: ContractFunction, rows: Rows):
        (self.product,) = of_kind(rows, Tensorize)
        super().__init__(f, rows)
        self.row, self.column = self._numbers[self.product.row], self._numbers[self.product.column]
        for a in self.parallel:
            self.step[a] = {self.row: self.product.rows, self.column: self.product.columns}.get(a, 1)
            self.blocks[a] = -(-f.extents[a] // self.step[a])

    @property
    def points(self) -> int:
        return self.product.rows * self.product.columns // self.lanes

    @property
    def products(self) -> int:
        return self.points * self.product.depth

    @property
    def iterations(self) -> int:
        return -(-self.f.terms // self.product.depth)

    @cached_property
    def left(self) -> int:
        """The number of the operand that has the rows."""
        return 0 if self.row in self.f.maps[0].axes else 1

    @property
    def half(self) -> bool:
        """Whether units for matrices multiply, for which operands are rounded to 16-bit floats."""
        return self.product.shape.lanes > 1

    @property
    def parts(self) -> tuple[int, int]:
        """Matrices that a subgroup makes below and beside each other; (1, 1) for invocations."""
        parts = self.product.shape.parts(self.product.rows, self.product.columns, self.lanes)
        assert parts is not None or not self.half, "subgroups have equal parts"
        return parts if self.half and parts is not None else (1, 1)

    @property
    def staged(self) -> tuple[int, int]:
        """Numbers of the left and of the right operand that a workgroup stages in shared memory."""
        return self.product.rows * self.product.depth, self.product.depth * self.product.columns

    @property
    def trip_count(self) -> float:
        """Iterations of all loops of an invocation together."""
        loads = sum(-(-staged // self.lanes) for staged in self.staged)
        return self.iterations * (1 + loads + self.product.depth)

    @property
    def compensated(self) -> bool:
        """Whether so many sums of blocks are added that they are compensated."""
        return self.iterations > LONG and not self.half

    @property
    def shared_words(self) -> int:
        shape = self.product.shape
        results = shape.rows * shape.columns * self.lanes // shape.lanes
        return sum(self.staged) // 2 + results if self.half else sum(self.staged)

    @property
    def shared_reads(self) -> float:
        """Numbers in shared memory that an invocation reads in a block; of a subgroup, its part."""
        shape = self.product.shape
        below, beside = self.parts
        return self.product.depth * (below * shape.rows + beside * shape.columns) / shape.lanes

    def loads(self, k: int, packed: int | None = None) -> float:
        return self.staged[k != self.left] / (PACKED if self.packs(k, packed) else 1) / self.lanes

    def packs(self, k: int, packed: int | None) -> bool:
        """Whether a texel of an operand, packed along an axis, is PACKED consecutive terms of a block."""
        last = self.f.reduced_axes[-1]
        return (
            packed is not None
            and self.f.maps[k].affines[packed] == Affine.axis(last)
            and self.f.extents[last] % PACKED == 0
        )


def layout_of(f: ContractFunction, rows: Rows) -> Layout:
    """The loops of a contraction by a schedule."""
    return ProductLayout(f, rows) if of_kind(rows, Tensorize) else Layout(f, rows)


def sums_of(affine: Affine, entries: dict[int, Any], start: int = 0) -> set[int]:
    """The values of the sum of an index, from ``start`` on, over entries of its axes."""
    values = {start}
    for axis, c in affine.terms:
        values = {v + c * d for v in values for d in entries[axis]}
    return values


def places_read(
    f: ContractFunction, k: int, entries: dict[int, Any], packed: int | None, *, absolute: bool = False
) -> list[frozenset[int]]:
    """Along n, c, y, x the distances of the texels of an input that are read at entries of the axes, from the
    first one, or from the origin of the image (``absolute``)."""
    places = []
    for s, affine in enumerate(f.maps[k].affines):
        divisor = affine.divisor * (PACKED if s == packed else 1)
        values = sums_of(affine, entries, affine.constant if absolute else 0)
        places.append(frozenset(v // divisor for v in values))
    return places


def tiled_in(s: SubStage) -> dict[TiledContraction, list[Function]]:
    """The contractions of a dispatch, each with what is done with its texels."""
    contractions: dict[TiledContraction, list[Function]] = {}
    last: list[Function] = []
    for f in s.body:
        if isinstance(f, TiledContraction):
            last = contractions[f] = []
        else:
            last.append(f)
    return contractions


# ---- operands whose neighbours share a texel
class Packed(PixelFunction):
    """VEC4: four neighbours of a FLOAT image along the axis n, c, y or x (0 to 3), zeros beyond its end.

    along x:   1 2 3 4 5 6   ->   (1 2 3 4) (5 6 0 0)
    """

    fields = ("axis",)
    no_derivative = "is made when a plan is built"
    operations = 2.0
    axis: int

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        shape = [*shape_of(self.inputs[0])]
        shape[self.axis] = -(-shape[self.axis] // PACKED)
        return VEC4, domain_of_shape(shape)

    @property
    def fetches(self) -> float:
        return float(PACKED)

    @cached_property
    def glsl(self) -> str:
        x, axis = self.inputs[0], self.axis
        shape, channels = shape_of(x), shape_of(self.output)[1]
        place = [f"tile / {channels}", f"tile % {channels}", "pixel.y", "pixel.x"]
        values = []
        for k in range(PACKED):
            at = list(place)
            own = f"({place[axis]}) * {PACKED} + {k}"
            at[axis] = f"min({own}, {shape[axis] - 1})"
            n, c, row, column = at
            value = f"$0(ivec2({column}, {row}), ({n}) * {shape[1]} + {c})"
            whole = shape[axis] % PACKED == 0 or k == 0
            values.append(value if whole else f"({own} < {shape[axis]} ? {value} : 0.0)")
        return f"vec4({', '.join(values)})"

    def evaluate(self, at, x):
        shape, axis = shape_of(self.inputs[0]), self.axis
        x = x.reshape(shape)
        missing = -shape[axis] % PACKED
        x = np.concatenate([x, np.zeros_like(np.take(x, range(missing), axis, mode="clip"))], axis)
        few = shape_of(self.output)
        x = x.reshape(*few[: axis + 1], PACKED, *few[axis + 1 :])
        x = np.moveaxis(x, axis + 1, -1).reshape(few[0] * few[1], few[2], few[3], PACKED)
        return x[at.tile, at.y, at.x]


def unpack(x: np.ndarray, shape: Sequence[int], axis: int) -> np.ndarray:
    """The tiles, rows and columns of a packed operand as they were. shape: n, c, y, x of the operand."""
    few = [*shape]
    few[axis] = -(-shape[axis] // PACKED)
    x = np.moveaxis(x.reshape(*few, PACKED), -1, axis + 1)
    few[axis] *= PACKED
    n, c, height, width = shape
    return x.reshape(few)[:n, :c, :height, :width].reshape(n * c, height, width)
