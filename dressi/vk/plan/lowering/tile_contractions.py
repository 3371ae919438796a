"""Which contractions are computed by register tiles, and by which schedule: the one that the device model
expects to be done soonest. Long sums become parts, which invocations compute side by side; a tree of a
workgroup, or loops, add these up.

A sum of 1024 x 1024 texels is a loop over each column and one over the row of their sums. A CPU is as fast as
its loops; on a GPU the second loop is one invocation that keeps thousands of lanes waiting. There a reduction
is a contraction whose workgroups combine their results in a tree (``Reduce``); other loops become levels of
short ones, each over the results of the one before. The order of additions is fixed by the sizes alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from ....ad.contract.contraction import ContractFunction, contraction_of
from ....ad.contract.derivative import split, stride_of
from ....ad.contract.terms import shape_of
from ....ad.graph import Function, ReduceFunction, Variable
from ....ad.graph.index_map import IMAGE_AXES, Affine
from ....ad.graph.program import Program
from ....ad.graph.types import FLOAT
from ....ad.transform.rewrite import replaced
from ....errors import PlanError
from ..analysis.context import Target
from ..core.limits import DeviceLimits
from ..core.substage import GROUP
from ..model.device import AHEAD, LOOP, DeviceModel, with_fragments
from ..model.schedules import (
    Bind,
    LoopNest,
    Pack,
    Reduce,
    Row,
    Rows,
    Schedules,
    Shuffle,
    Split,
    SplitK,
    Stage,
    Tensorize,
    Unroll,
    axis_names,
    loop_nests,
    of_kind,
)
from .register_tiles import PACKED, Layout, Packed, ProductLayout, TiledContraction, layout_of, part_of

LARGEST = 16  # entries of an axis in a block
START_UNROLLED = (1, 4, LARGEST)  # the search starts with reduced axes of at most so many entries unrolled
SUM = 4.0  # operations of adding what a block gives to an accumulator, which need not be in a register
SHUFFLE = 1.5  # operations of taking a component from another invocation of the subgroup
GAIN = 0.8  # the part of the time that register tiles may take at most
LONGEST = (
    1 << 14
)  # blocks of an invocation where all lanes are busy; else as many as texels that one may visit
FULL = 4  # times as many invocations as lanes, from which on more of them gain nothing
LEAST_LANES = 16  # entries of an axis along which invocations are neighbours
BESIDE = 4  # entries beside each other at most that one invocation stores all of
PARTS = (1, 4, 16, 64, 256)  # parts that a long contraction may be split into, for each lane of a workgroup
SHARED_STEP = 5e-8  # seconds of one level of a workgroup's tree: a barrier, two reads and a write
LONGEST_LOOPS = 65535  # iterations of all loops of an invocation of a product; lavapipe ends it there
LEVELS = 32  # a Function that replaces another may be shortened again, so many times at most
CACHED = 4.0  # times as fast as from memory come lines that other workgroups of a wide device loaded before
SHORTEST = 4  # texels of a part of a loop that idle lanes share
SHARED_START = 0.5  # of a start that their sum takes: it joins the dispatch of the parts where both are small
LEAST_TEXELS = 32  # entries of an axis that workgroups reduce: shorter ones leave most of a workgroup idle
WORTH = 10.0
"""Contractions that take less than so many starts of dispatches stay: a shader more has to be compiled."""
WORTH_BESIDE = 2.0
"""The same of one that reads another contraction, or that another reads: both may become one dispatch."""
LONG_WORK = 1.0
"""Seconds of a contraction, one texel an invocation, from which on compiling larger blocks pays."""
NARROW = 16
"""Invocations of a workgroup on CPU drivers, which run a few at a time: more walk the same rows again."""


def tile_contractions(program: Program, target: Target) -> dict[Variable, Variable]:
    """Large contractions, by register tiles; those that the user gave schedules for, by these."""
    limits, model, options, _ = target
    made, given = {}, Schedules.of(options.schedules)
    every = [f for f in program.functions if isinstance(f, ContractFunction)]
    near = beside(program.functions) if every else set[Function]()
    nests = loop_nests((f, f) for f in program.functions) if given else {}
    for f in every:
        rows = given.get(nests[f]) if given else None
        if rows:
            made[f.output] = scheduled(f, checked(f, rows, limits), limits, model, by_hand=True)
        elif rows is None and options.runs("tile_contractions"):
            made[f.output] = tiled(f, limits, model, beside=f in near)
    return {v: y for v, y in made.items() if y is not None}


def beside(functions: Iterable[Function]) -> set[Function]:
    """The contractions that read another, directly or through Functions of one texel, and those others."""
    paired: set[Function] = set()
    last: dict[Function, Function] = {}  # the contraction that a value follows from
    for f in functions:
        makers = [last[e.maker] for e in f.edges if e.maker in last]
        if isinstance(f, ContractFunction):
            paired.update((f, *makers) if makers else ())
            last[f] = f
        elif makers and all(e.near or e.maker not in last for e in f.edges):
            last[f] = makers[0]
    return paired


def tiled(
    f: ContractFunction, limits: DeviceLimits, model: DeviceModel, *, beside: bool = False
) -> Variable | None:
    """The value by register tiles, None where that gains nothing. beside: whether one reads the other."""
    if f.combine != "add" or not is_float_sum(f):
        return None
    shapes = tuple((x.vtype, x.domain) for x in f.inputs)
    worth = min(WORTH, WORTH_BESIDE) if beside else WORTH
    choice = chosen(Form((f.identity, shapes), limits, model, worth, without_inputs(f)))
    return None if choice is None else scheduled(f, choice, limits, model)


def scheduled(
    f: ContractFunction, choice: Chosen, limits: DeviceLimits, model: DeviceModel, *, by_hand: bool = False
) -> Variable:
    """The value of a contraction by its schedule: operands are packed before, and parts are added up."""
    axes = {row.operand: IMAGE_AXES.index(row.axis) for row in of_kind(choice.rows, Pack)}
    inputs = [Packed(x, axis=axes[k]).output if k in axes else x for k, x in enumerate(f.inputs)]
    y = TiledContraction(*inputs, whole=choice.f, schedule=choice.rows, by_hand=by_hand).output
    return y if choice.combined is None else combined(y, choice.combined, limits, model)


def without_inputs(f: ContractFunction) -> ContractFunction:
    """The contraction of leaves without values, which keeps no graph alive."""
    leaves = [Variable(x.vtype, x.size, x.batch, channels=x.channels) for x in f.inputs]
    return ContractFunction(*leaves, **f.form)


# ---- schedules by hand
def checked(f: ContractFunction, rows: Rows, limits: DeviceLimits) -> Chosen:
    """A schedule that a user gave. Raises PlanError, which says which row does not fit and why. Passes over
    dispatches check whether a contraction can be computed at its reader, and what a workgroup can stage."""
    f = without_inputs(f)
    for k, row in enumerate(rows):
        reason = misfit(f, rows[:k], row, limits, in_product=bool(of_kind(rows, Tensorize)))
        if reason is not None:
            raise does_not_fit(f, row, reason)
    part, rest = part_of(f, rows)
    iterations, reason = layout_of(part, rows).iterations, None
    if not is_float_sum(f):
        reason = "register tiles are of sums of floats, not of matrices"
    elif not any(isinstance(row, Bind | Reduce) for row in rows):
        reason = "Bind or Reduce is missing"
    if reason is not None:
        raise PlanError(f"the schedule of the contraction {LoopNest.of_function(f)} does not fit: {reason}")
    if iterations > limits.max_loop_iterations // 2:
        reason = f"loops of {iterations} iterations are left; add SplitK or Unroll"
        raise does_not_fit(f, rows[-1], reason)
    return Chosen(f, rows, rest if rest is not None and rest["reduced"] != (1,) else None)


def does_not_fit(f: ContractFunction, row: Row, reason: str) -> PlanError:
    """The error of a row of a schedule by hand."""
    nest = LoopNest.of_function(f)
    return PlanError(f"{row} in the schedule of the contraction {nest} does not fit: {reason}")


def misfit(
    f: ContractFunction, before: Rows, row: Row, limits: DeviceLimits, *, in_product: bool
) -> str | None:
    """Why a row does not fit a contraction after the rows before it, None where it does. in_product: whether
    one of the rows is Tensorize, which takes components of packed operands by themselves."""
    part, rest = part_of(f, before)
    names, layout = axis_names(part), Layout(part, before)
    if isinstance(row, Split | Bind | Reduce | Unroll) and row.axis not in names:
        return f"its axes are {', '.join(names)}"
    match row:
        case Split() | SplitK():
            if isinstance(row, SplitK) and rest is not None:
                return "a sum is split once"
            try:
                _, rest = part_of(f, (*before, row))
            except ValueError as error:
                return str(error)
            widest = min(limits.max_image_dimension, limits.max_framebuffer_width)
            if rest is not None and part.output.size[0] * rest["reduced"][0] > widest:
                return "no image of the device holds all parts"
        case Bind(name, lanes) | Reduce(name, lanes):
            axis = names.index(name)
            if layout.lane >= 0:
                return "an axis is bound already"
            if axis in part.reduced_axes:
                return "a reduced axis is a loop; only parallel axes are bound"
            if not 1 <= lanes <= limits.max_workgroup_invocations:
                return f"a workgroup of the device has 1 to {limits.max_workgroup_invocations} invocations"
            splits = of_kind(before, SplitK)
            if isinstance(row, Bind):
                together = any(split.together > 1 for split in splits)
                return "its parts are added up by Reduce" if together else None
            if not splits or splits[0].together != lanes or axis != part.axes[3][-1]:
                return "it reduces the last axis of x, after a SplitK of as many parts together as there are lanes"
            if lanes & (lanes - 1):
                return "a tree needs a power of two of lanes"
        case Unroll(name, factor):
            axis = names.index(name)
            if axis in layout.tile or axis in layout.unrolled:
                return "the axis is unrolled already"
            if not 1 <= factor <= part.extents[axis]:
                return f"the axis has {part.extents[axis]} entries"
            if axis in part.reduced_axes and part.extents[axis] % factor:
                return f"it does not divide the {part.extents[axis]} terms of a reduced axis"
            words = layout.points * factor * part.output.vtype.components * layout.lanes
            if layout.tree and axis in layout.parallel:
                return limits.violation_of({"shared_bytes": 4 * words})
        case Shuffle(lanes):
            if layout.tree or lanes < 1 or lanes > limits.subgroup or layout.lanes % lanes:
                return f"subgroups of the device have {limits.subgroup} invocations, and divide the {layout.lanes} of Bind"
        case Pack(operand, axis):
            if not 0 <= operand < len(part.inputs) or axis not in IMAGE_AXES:
                return f"there are {len(part.inputs)} operands with axes n, c, y, x"
            alone = in_product or layout.axis_along(operand, IMAGE_AXES.index(axis)) is not None
            if part.inputs[operand].vtype is not FLOAT or not alone:
                return "its index there is no axis by itself, other than that of the lanes, of numbers"
        case Tensorize():
            return _no_product(part, before, row, limits)
        case Stage(operand):
            if not 0 <= operand < len(part.inputs):
                return f"there are {len(part.inputs)} operands"
    return None


def _no_product(f: ContractFunction, before: Rows, row: Tensorize, limits: DeviceLimits) -> str | None:
    """Why a contraction is no such product by workgroups."""
    names, shape, lanes = axis_names(f), row.shape, Layout(f, before).lanes
    sides = sides_of(f, least=1)
    if sides is None or {row.row, row.column} - {*names}:
        return "the contraction is no sum of products of two images of numbers with axes of their own"
    own = [{k for k, m in enumerate(f.maps) if names.index(name) in m.axes} for name in (row.row, row.column)]
    if sorted(map(len, own)) != [1, 1] or own[0] == own[1] or names.index(row.column) >= f.reduced_axes.start:
        return f"rows and columns are parallel axes of one operand each, as {names[sides[0]]!r} and {names[sides[1]]!r}"
    if of_kind(before, Unroll):
        return "its blocks are those of Tensorize; leave out Unroll"
    in_registers = (shape.lanes, shape.depth) == (1, 1)
    if not in_registers and shape != limits.matrix:
        return f"units for matrices of the device have the shape {limits.matrix}"
    if min(row[2:5]) < 1 or row.rows % shape.rows or row.columns % shape.columns or row.depth % shape.depth:
        return "its shape divides rows, columns and depth"
    if in_registers and row.rows // shape.rows * (row.columns // shape.columns) != lanes:
        part = f"{shape.rows} x {shape.columns}"
        return f"there are {lanes} invocations, not one for each {part} of a workgroup"
    if not in_registers and shape.parts(row.rows, row.columns, lanes) is None:
        return "subgroups would have unequal parts"
    layout = ProductLayout(f, (*before, row))
    if layout.trip_count > LONGEST_LOOPS:
        return f"an invocation has {layout.trip_count:.0f} iterations, and {LONGEST_LOOPS} are allowed"
    return limits.violation_of({"shared_bytes": 4 * layout.shared_words})


def sides_of(f: ContractFunction, least: int) -> tuple[int, int] | None:
    """The axes of rows and columns of a product of two images of numbers: the longest that one operand has
    alone, columns of at least so many entries, neighbours in the output. None of others."""
    if not f.product or f.combine != "add" or [x.vtype for x in f.inputs] != [FLOAT, FLOAT]:
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
            if x in axes and f.extents[x] >= least:
                return row, x
    return None


# ---- the search
@dataclass(frozen=True)
class Form:
    """What the choice of a schedule depends on. worth: see ``WORTH``. f: without its inputs."""

    key: tuple[Any, ...]
    limits: DeviceLimits
    model: DeviceModel
    worth: float
    f: ContractFunction = field(compare=False)


class Chosen(NamedTuple):
    """The contraction without its inputs, its schedule, and the fields of what combines its parts."""

    f: ContractFunction
    rows: Rows
    combined: dict[str, Any] | None


@lru_cache(maxsize=256)
def chosen(form: Form) -> Chosen | None:
    """The schedule that is done soonest; None where one texel an invocation is as fast. Kept, because plans
    are made again and again, and layers of a network are alike."""
    f, limits, model = form.f, form.limits, form.model
    plain = plain_seconds(f, model)
    if plain < form.worth * (model.dispatch + model.barrier):
        return None
    # CPU drivers load, mask and store all sums for each block: in large ones that counts less.
    products = max(model.straight, model.straight_if_long if plain > LONG_WORK else 0)
    best, made = GAIN * plain, None
    for splits, tree in divisions(f, limits, model):
        part, rest = part_of(f, splits)
        seconds, rows = soonest(part, limits, model, products, tree)
        left = 1 if rest is None else rest["reduced"][0]
        if left > 1:  # parts of each texel, which are added up
            seconds += min(tree_seconds(left, limits, model), loop_seconds(left, model))
            seconds += f.output.domain.texels * left * model.load_seconds()
        if rows is not None and seconds < best:
            axes = enumerate(packs(Layout(part, rows), model))
            packing = tuple(Pack(k, IMAGE_AXES[axis]) for k, axis in axes if axis is not None)
            best, made = seconds, Chosen(f, (*splits, *rows, *packing), rest if left > 1 else None)
        if not splits and rows is not None and fills(Layout(part, rows), model):
            break
    return made


def is_float_sum(f: ContractFunction) -> bool:
    """Whether all it reads and makes are floats of one plane, and each axis is a loop over its entries."""
    types = [f.output.vtype, *(x.vtype for x in f.inputs)]
    return f.place is None and f.terms > 1 and not any(t.is_int or t.is_matrix for t in types)


def divisions(f: ContractFunction, limits: DeviceLimits, model: DeviceModel) -> Iterator[tuple[Rows, bool]]:
    """The rows that split axes, and whether the invocations of a workgroup add up their parts in a tree.

    First, if an index has a stride along the lanes, invocations visit entries of one stride, which need no
    tests for what the entries between them read. Then come no splits, and then parts, as long as an image
    holds these.

        gradient of every second column:    even columns have three of five weights, odd ones two
    """
    axis = lane_axis(f)
    stride = 1 if axis is None else stride_of(f, axis)
    if axis is not None and stride > 1 and f.extents[axis] % stride == 0:
        yield (Split(axis_names(f)[axis], stride),), False
    yield (), False
    lanes, widest = lanes_of(model), min(limits.max_image_dimension, limits.max_framebuffer_width)
    for count, tree in itertools.product(PARTS, (False, True) if model.wide else (False,)):
        parts = lanes * count
        row = SplitK(-(-f.terms // parts), lanes if tree else 1)
        if f.terms < 4 * parts or split(f, *row) is None:
            continue
        part, rest = part_of(f, (row,))
        assert rest is not None, "it was split"
        (left,) = rest["reduced"]
        if f.output.size[0] * left <= widest and (not tree or lane_axis(part) == part.axes[3][-1]):
            yield (row,), tree


def soonest(
    f: ContractFunction, limits: DeviceLimits, model: DeviceModel, products: int, tree: bool = False
) -> tuple[float, Rows | None]:
    """The schedule that is done soonest, and its seconds, found by changing one axis of a block at a time, or
    two where one alone gains nothing. products: of a block without loops, at most."""
    lane = lane_axis(f)
    if lane is None:
        return math.inf, None
    views, names = view_axes(f), axis_names(f)
    options = {a: entries(f.extents[a]) for a in range(f.reduced_axes.start) if a not in views}
    for a in f.reduced_axes:
        if a not in views:
            options[a] = [k for k in range(1, min(f.extents[a], LARGEST) + 1) if f.extents[a] % k == 0]
    lanes = lanes_of(model)
    options[lane] = [k for k in ((1,) if tree else (1, 2, 4, 8)) if k * lanes <= max(f.extents[lane], lanes)]
    first: tuple[Row, ...] = (Reduce(names[lane], lanes),) if tree else (Bind(names[lane], lanes),)
    if not tree and not model.wide and limits.subgroup > 1 and lanes % limits.subgroup == 0:
        # CPU drivers load the texels of an invocation one after the other, whether they are alike or not.
        first = (*first, Shuffle(limits.subgroup))

    def rows(counts: dict[int, int]) -> Rows:
        return (*first, *(Unroll(names[a], k) for a, k in counts.items() if k > 1))

    changes = [{axis: count} for axis, several in options.items() for count in several]
    pairs = [a | b for a, b in itertools.combinations(changes, 2) if a.keys() != b.keys()]
    memo: dict[object, int] = {}
    known: dict[tuple[int, ...], float] = {}
    parallel = sum(a < f.reduced_axes.start for a in options)
    largest = model.accumulators // f.output.vtype.components
    unrolled = 2 * products / term_operations(f)
    best, chosen = math.inf, dict.fromkeys(options, 1)
    for most in START_UNROLLED:
        own, reached = math.inf, None
        counts = {
            a: max(several) if a in f.reduced_axes and f.extents[a] <= most else 1
            for a, several in options.items()
        }
        while reached is not counts:
            reached = counts
            for several in ({},), changes, pairs:
                for change in several:
                    tried = reached | change
                    key = tuple(tried.values())
                    if math.prod(key[:parallel]) > largest or math.prod(key) > unrolled:
                        continue
                    if key not in known:
                        known[key] = tile_seconds(Layout(f, rows(tried), memo), limits, model)
                    if known[key] < own:
                        own, counts = known[key], tried
                if counts is not reached:
                    break
        if own < best:
            best, chosen = own, counts
    return best, rows(chosen)


def entries(extent: int) -> list[int]:
    """How many entries of a parallel axis an invocation may take."""
    powers = [k for k in (1, 2, 4, 8, 16) if k <= extent]
    return sorted({*powers, extent}) if extent <= LARGEST else powers


# ---- lanes
def lanes_of(model: DeviceModel) -> int:
    """Invocations of a workgroup."""
    return GROUP if model.wide else NARROW


def lane_axis(f: ContractFunction) -> int | None:
    """The axis of the columns, or else of rows or channels, that varies fastest and has enough entries; axes
    of a few entries beside each other do not count."""
    views = view_axes(f)
    long = [[a for a in own if f.extents[a] > BESIDE] or own for own in reversed(f.axes)]
    axes = [own[-1] for own in long if own and own[-1] not in views]
    return next((a for a in axes if f.extents[a] >= LEAST_LANES), None)


@lru_cache(maxsize=4)
def view_axes(f: ContractFunction) -> frozenset[int]:
    """The axes of images that are worked on alike, or summed over: each is the number in the batch, and
    nothing else, of every input that has it. They count as one view, so that one view and many plan alike."""
    return frozenset(
        a
        for a in (*f.axes[0], *f.reduced_axes)
        if all(m.n == Affine.axis(a) for m in f.maps if a in m.axes)
        and not any(a in affine.axes for m in f.maps for affine in m.affines[1:])
    )


def one_view(layout: Layout) -> tuple[int, int]:
    """Workgroups and blocks of an invocation, for one view."""
    f, views = layout.f, view_axes(layout.f)
    parallel = math.prod(f.extents[a] for a in views if a < f.reduced_axes.start)
    summed = math.prod(f.extents[a] for a in views if a >= f.reduced_axes.start)
    return layout.groups // parallel, layout.iterations // summed


# ---- expected seconds
def plain_seconds(f: ContractFunction, model: DeviceModel) -> float:
    """By an invocation for each texel, or for each part of a long sum."""
    views = view_axes(f)
    terms = math.prod(e for a, e in enumerate(f.extents) if a not in views)
    load = sum(model.load_seconds(x.vtype.components) for x in f.inputs)
    term = load + (f.term_operations * f.output.vtype.components + LOOP) / model.compute_rate
    walk = math.prod(f.extents[a] for a in f.reduced_axes if a not in views)
    parts = -(-walk // model.longest_walk)
    # Stores are next to nothing beside the terms of CPU drivers.
    texels = math.prod(f.extents[a] for a in range(f.reduced_axes.start) if a not in views)
    stored = texels * store_seconds(model) if model.wide else 0.0
    seconds = max(terms * term + stored, min(walk, model.longest_walk) * model.fetch_latency)
    return seconds + loop_seconds(parts, model) if parts > 1 else seconds


def store_seconds(model: DeviceModel) -> float:
    """Of a texel of an image or a buffer, by the faster of both."""
    return 1 / max(model.image_store_rate, model.buffer_store_rate)


def tile_seconds(layout: Layout, limits: DeviceLimits, model: DeviceModel) -> float:
    """By register tiles; infinite where a block is too large."""
    f = layout.f
    groups, iterations = one_view(layout)
    busy = groups * layout.lanes >= model.lanes
    if iterations > (LONGEST if busy else min(model.longest_walk, LONGEST)):
        return math.inf
    if layout.iterations > limits.max_loop_iterations // 2:
        return math.inf
    words = layout.points * f.output.vtype.components * layout.lanes
    if layout.tree and 4 * words > limits.max_shared_bytes:
        return math.inf
    packed = packs(layout, model)
    loads = sum(loads_seconds(layout, k, axis, model) for k, axis in enumerate(packed))
    moved = sum(layout.bytes_of(k) for k in range(len(f.inputs))) / model.bandwidth
    moved = moved / CACHED if model.wide else moved
    added = SUM * layout.points * f.output.vtype.components
    block = loads + moved + (layout.products * term_operations(f) + added + LOOP) / model.compute_rate
    own = layout.points * store_seconds(model)
    waiting = iterations * model.fetch_latency
    if layout.tree:
        levels = layout.lanes.bit_length() - 1
        own = own / layout.lanes + 2 * layout.points * SUM / model.compute_rate
        waiting += levels * SHARED_STEP
    work = model.rounds(groups * layout.lanes) * model.lanes * (iterations * block + own)
    packing = sum(pack_seconds(f, k, model) for k, axis in enumerate(packed) if axis is not None)
    return max(work, waiting) + packing


def fills(layout: Layout, model: DeviceModel) -> bool:
    """Whether there are invocations for all lanes, a few times, so that no reduction needs to be split."""
    groups, _ = one_view(layout)
    return groups * layout.lanes >= FULL * model.lanes


def term_operations(f: ContractFunction) -> float:
    """Operations of a term and its addition."""
    scalar = f.product and f.output.vtype.is_scalar
    return 2.0 if scalar else f.term_operations * f.output.vtype.components


def loads_seconds(layout: Layout, k: int, packed: int | None, model: DeviceModel) -> float:
    """Seconds of loading the texels of an input in a block."""
    words = PACKED if packed is not None else layout.f.inputs[k].vtype.components
    shuffled = words * layout.distinct(k, packed) * SHUFFLE if layout.loads_together(k) else 0.0
    return layout.loads(k, packed) * model.load_seconds(words) + shuffled / model.compute_rate


def packs(layout: Layout, model: DeviceModel) -> list[int | None]:
    """The axis along which each operand is packed, where that saves time."""
    axes: list[int | None] = []
    groups, iterations = one_view(layout)
    for k, x in enumerate(layout.f.inputs):
        axis = layout.packable(k) if x.vtype is FLOAT else None
        if axis is not None:
            less = loads_seconds(layout, k, None, model) - loads_seconds(layout, k, axis, model)
            if groups * layout.lanes * iterations * less <= pack_seconds(layout.f, k, model):
                axis = None
        axes.append(axis)
    return axes


def pack_seconds(f: ContractFunction, k: int, model: DeviceModel) -> float:
    """Seconds of packing an operand, one view of it."""
    views = f.maps[k].n.axes
    shape = shape_of(f.inputs[k])
    texels = math.prod(shape[1:] if views and view_axes(f).issuperset(views) else shape) / PACKED
    each = PACKED * model.load_seconds() + 1 / model.image_store_rate
    return model.dispatch + model.barrier + texels * each


def loop_seconds(parts: int, model: DeviceModel) -> float:
    """Seconds of sums in levels of loops, few enough texels that only latencies count."""
    levels = max(math.ceil(math.log(parts, model.longest_walk)), 1)
    return levels * (model.dispatch + model.barrier + parts ** (1 / levels) * model.fetch_latency)


def tree_seconds(parts: int, limits: DeviceLimits, model: DeviceModel) -> float:
    """Seconds of sums by a workgroup each, likewise."""
    lanes = tree_lanes(parts, limits)
    run = -(-parts // lanes)
    if not model.wide or run > model.longest_walk:
        return math.inf
    return model.dispatch + model.barrier + run * model.fetch_latency + (lanes.bit_length() - 1) * SHARED_STEP


# ---- long loops as trees and levels
def combined(parts: Variable, fields: dict[str, Any], limits: DeviceLimits, model: DeviceModel) -> Variable:
    """The sums of parts, by a workgroup each where that is done sooner than by loops."""
    f = ContractFunction(parts, **fields)
    soon = model.wide and tree_seconds(f.terms, limits, model) < loop_seconds(f.terms, model)
    tree = by_workgroups(f, limits, model) if soon else None
    return f.output if tree is None else tree.output


def by_workgroups(f: ContractFunction, limits: DeviceLimits, model: DeviceModel) -> TiledContraction | None:
    """A reduction by a workgroup for each texel, whose invocations combine their results in a tree; None
    where there are too few terms, or too many for an invocation."""
    lanes = tree_lanes(f.terms, limits, len(f.output.vtype.planes))
    row = SplitK(-(-f.terms // lanes), lanes)
    halves = split(f, *row)
    if halves is None or halves[1]["reduced"] != (1,):
        return None
    part, _ = part_of(f, (row,))
    rows = (row, Reduce(axis_names(part)[part.axes[3][-1]], lanes))
    tree = TiledContraction(*f.inputs, whole=f, schedule=rows, by_hand=False)
    return tree if tree.iterations <= model.longest_walk else None


def tree_lanes(terms: int, limits: DeviceLimits, planes: int = 1) -> int:
    """Invocations of a workgroup that combines so many terms, in memory that it shares."""
    return limits.workgroup(min(limits.max_shared_bytes // (16 * planes), terms))


def shorten_loops(program: Program, target: Target) -> Program:
    """The program with loops that the device can run; itself where all are short or stay as they are."""
    for _ in range(LEVELS):
        values = {f.output: shortened(f, target.limits, target.model) for f in program.functions}
        shorter = {v: y for v, y in values.items() if y is not None}
        if not shorter:
            break
        program = replaced(program, shorter)
    return program


def within_walks(limits: DeviceLimits, program: Program, most: int) -> DeviceLimits:
    """The limits with at most ``most`` loop iterations for an invocation, so that packing does not put the
    short loops one behind the other. A Function that stays longer sets the bound."""
    longest = max((with_fragments(f, f.iterations) for f in program.functions), default=0)
    return replace(limits, max_loop_iterations=min(limits.max_loop_iterations, max(most, longest)))


def _spread(f: Function, model: DeviceModel) -> int:
    """The longest loop that an invocation should run where lanes of a wide device idle: of few rows others take a
    part each.

    A loop of n texels that data decide waits for n fetches. In parts of the length k it waits for k, and their sum
    for n / k, of which AHEAD are under way at once: least at the root of n / AHEAD. Contractions split by their
    schedules.
    """
    n = f.iterations
    if isinstance(f, ContractFunction) or not model.wide or n == 0:
        return max(n, 1)
    least = -(-n * f.output.domain.texels // model.lanes)  # as many parts as there are lanes
    length = max(math.isqrt(n // AHEAD) + 1, SHORTEST, least)
    parts = -(-n // length)
    saved = (n - length - parts / AHEAD) * model.fetch_latency
    return length if saved > SHARED_START * (model.dispatch + model.barrier) else n


def shortened(f: Function, limits: DeviceLimits, model: DeviceModel) -> Variable | None:
    """The value of a Function by shorter loops, None where it is short enough or where no way is known."""
    most = min(model.longest_walk, limits.max_loop_iterations)
    if isinstance(f, ReduceFunction) and f.combine:
        # One view and many plan alike, so that sums over the tiles of a batch are loops.
        wide = model.wide and f.axis != "n" and f.extent >= LEAST_TEXELS
        tree = by_workgroups(contraction_of(f), limits, model) if wide else None
        if tree is not None:
            return tree.output
        f = contraction_of(f) if f.iterations > most else f
    most = min(most, _spread(f, model))
    # Loops of at most ``most`` iterations, or of a few times more where an image would not hold all parts.
    widest = min(limits.max_image_dimension, limits.max_framebuffer_width)
    while f.iterations > most:
        y = f.shortened(most)
        if y is None or y.creator is None or all(max(x.size) <= widest for x in y.creator.inputs):
            return y
        most *= 2
    return None
