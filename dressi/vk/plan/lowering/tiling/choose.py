"""Which contractions are done by strips, and by which: those that the device model expects to be done soonest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from .....ad.contract.contraction import ContractFunction
from .....ad.contract.terms import shape_of
from .....ad.graph import Function, Variable
from .....ad.program import Program
from .....ad.types import FLOAT
from ...context import Target
from ...limits import DeviceLimits
from ...model.device import LOOP, DeviceModel
from .lanes import lane_axis, lanes_of, one_view, subgroup_of, view_axes
from .packed import PACKED, Packed
from .parts import SHARED_BYTES, SHARED_STEP, combined, combining_seconds, divisions, loop_seconds
from .strips import Layout, Strips, TiledContraction

LARGEST = 16
"""Entries of an axis in a block."""
START_STRAIGHT = (1, 4, LARGEST)
"""The search for strips starts with reduced axes of at most so many entries straight."""
SUM = 4.0
"""Operations of adding what a block gives to an accumulator, which need not be in a register."""
SHUFFLE = 1.5
"""Operations of taking a component from another invocation of the subgroup."""
WORTH = 10.0
"""A contraction that takes less than so many starts of dispatches stays as it is: another shader has to be compiled."""
WORTH_BESIDE = 2.0
"""The same of one that reads another contraction, or that another reads: both may become one dispatch."""
GAIN = 0.8
"""The part of the time that strips may take at most."""
LONG_WORK = 1.0
"""A contraction that takes so many seconds, one texel an invocation, may have larger blocks: compiling these pays."""
LONGEST = 1 << 14
"""Blocks of an invocation where there are enough invocations for all lanes; else as many as texels that one may visit."""
FULL = 4
"""Times as many invocations as lanes, from which on more of them gain nothing."""


def tile_contractions(program: Program, target: Target) -> dict[Variable, Variable]:
    """Large contractions, by strips."""
    limits, model, options, _ = target
    every = [f for f in program.functions if isinstance(f, ContractFunction)]
    near = beside(program.functions) if every else set[Function]()
    made = ((f, tiled(f, limits, model, beside=f in near)) for f in every if options.tile_contractions)
    return {f.output: y for f, y in made if y is not None}


def beside(functions: Iterable[Function]) -> set[Function]:
    """The contractions that read what another makes, but for Functions of one texel between them, and those others."""
    found: set[Function] = set()
    last: dict[Function, Function] = {}  # the contraction that a value follows from
    for f in functions:
        makers = [last[e.maker] for e in f.edges if e.maker in last]
        if isinstance(f, ContractFunction):
            found.update((f, *makers) if makers else ())
            last[f] = f
        elif makers and all(e.near or e.maker not in last for e in f.edges):
            last[f] = makers[0]
    return found


def tiled(f: Function, limits: DeviceLimits, model: DeviceModel, *, beside: bool = False) -> Variable | None:
    """The value of a contraction by strips, None where that gains nothing or cannot be. beside: whether it reads another, or is
    read by one."""
    if not isinstance(f, ContractFunction) or f.combine != "add" or not suits(f):
        return None
    shapes = tuple((x.vtype, x.domain) for x in f.inputs)
    worth = min(WORTH, WORTH_BESIDE) if beside else WORTH
    found = chosen(Form((f.identity, shapes), limits, model, worth, without_inputs(f)))
    if found is None:
        return None
    inputs = [
        x if axis is None else Packed(x, axis=axis).output
        for x, axis in zip(f.inputs, found.packed, strict=True)
    ]
    y = TiledContraction(*inputs, whole=found.part, strips=found.strips, packed=found.packed).output
    return y if found.combined is None else combined(y, found.combined, limits, model)


def without_inputs(f: ContractFunction) -> ContractFunction:
    """The contraction of leaves without values, which keeps no graph alive."""
    leaves = [Variable(x.vtype, x.size, x.batch, channels=x.channels) for x in f.inputs]
    return ContractFunction(*leaves, **dict(zip(f.fields, f.attributes, strict=True)))


@dataclass(frozen=True)
class Form:
    """What the choice of strips depends on. worth: see ``WORTH``. f: the contraction without its inputs."""

    key: tuple[Any, ...]
    limits: DeviceLimits
    model: DeviceModel
    worth: float
    f: ContractFunction = field(compare=False)


class Chosen(NamedTuple):
    """The contraction or that of its parts, its strips and packed inputs, and the fields of what combines the parts."""

    part: ContractFunction
    strips: Strips
    packed: tuple[int | None, ...]
    combined: dict[str, Any] | None


@lru_cache(maxsize=256)
def chosen(form: Form) -> Chosen | None:
    """The strips that are done soonest; None where one texel an invocation is as fast. Plans are made again and again, and
    layers of a network are alike."""
    f, limits, model = form.f, form.limits, form.model
    plain = plain_seconds(f, model)
    if plain < form.worth * (model.dispatch + model.barrier):
        return None
    # CPU drivers load, mask and store all sums for each block: in large ones that counts less.
    products = max(model.straight, model.straight_if_long if plain > LONG_WORK else 0)
    best, made = GAIN * plain, None
    for part, tree, rest in divisions(f, limits, model):
        seconds, strips = soonest(part, limits, model, products, tree)
        if rest is not None:
            (left,) = rest["reduced"]
            seconds += combining_seconds(f, left, limits, model)
        if strips is not None and seconds < best:
            best, made = seconds, (part, strips, rest)
        if part is f and strips is not None and fills(Layout(part, strips), model):
            break
    if made is None:
        return None
    part, strips, combined = made
    return Chosen(part, strips, packs(part, Layout(part, strips), model), combined)


def suits(f: ContractFunction) -> bool:
    """Whether all that it reads and makes are floats, of one plane."""
    types = [f.output.vtype, *(x.vtype for x in f.inputs)]
    return f.terms > 1 and not any(t.is_int or t.is_matrix for t in types)


def plain_seconds(f: ContractFunction, model: DeviceModel) -> float:
    """By an invocation for each texel, or for each part of a long sum."""
    views = view_axes(f)
    terms = math.prod(e for a, e in enumerate(f.extents) if a not in views)
    load = sum(model.load_seconds(x.vtype.components) for x in f.inputs)
    term = load + (f.operations * f.output.vtype.components + LOOP) / model.compute_rate
    walk = math.prod(f.extents[a] for a in f.reduced_axes if a not in views)
    parts = -(-walk // model.longest_walk)
    found = max(terms * term, min(walk, model.longest_walk) * model.fetch_latency)
    return found + loop_seconds(parts, model) if parts > 1 else found


def soonest(
    f: ContractFunction, limits: DeviceLimits, model: DeviceModel, products: int, tree: bool = False
) -> tuple[float, Strips | None]:
    """The strips that are done soonest, and their seconds, found by changing one axis of a block at a time, or two where one
    alone gains nothing. products: of a block without loops, at most."""
    lane = lane_axis(f)
    if lane is None:
        return math.inf, None
    views = view_axes(f)
    options = {a: entries(f.extents[a]) for a in range(f.reduced_axes.start) if a not in views}
    options |= {a: divisors(f.extents[a]) for a in f.reduced_axes if a not in views}
    lanes, subgroup = lanes_of(model), subgroup_of(limits, model)
    options[lane] = [k for k in ((1,) if tree else (1, 2, 4, 8)) if k * lanes <= max(f.extents[lane], lanes)]
    changes = [{axis: count} for axis, several in options.items() for count in several]
    pairs = [a | b for a, b in itertools.combinations(changes, 2) if a.keys() != b.keys()]
    memo: dict[object, int] = {}
    known: dict[tuple[int, ...], float] = {}
    first = sum(a < f.reduced_axes.start for a in options)
    largest = model.accumulators // f.output.vtype.components
    straight = 2 * products / term_operations(f)
    best, found = math.inf, dict.fromkeys(options, 1)
    for most in START_STRAIGHT:
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
                    if math.prod(key[:first]) > largest or math.prod(key) > straight:
                        continue
                    if key not in known:
                        layout = Layout(f, strips_of(f, lane, lanes, tried, tree, subgroup), memo)
                        known[key] = strip_seconds(f, layout, limits, model)
                    seconds = known[key]
                    if seconds < own:
                        own, counts = seconds, tried
                if counts is not reached:
                    break
        if own < best:
            best, found = own, counts
    return best, strips_of(f, lane, lanes, found, tree, subgroup)


def strips_of(
    f: ContractFunction,
    lane: int,
    lanes: int,
    counts: dict[int, int],
    tree: bool = False,
    subgroup: int = 1,
) -> Strips:
    """The strips with so many entries of axes in a block."""
    several = [(a, k) for a, k in counts.items() if k > 1]
    first = f.reduced_axes.start
    return Strips(
        lane,
        tuple(p for p in several if p[0] < first),
        tuple(p for p in several if p[0] >= first),
        lanes,
        tree,
        1 if tree else subgroup,
    )


def entries(extent: int) -> list[int]:
    """How many entries of a parallel axis an invocation may take."""
    powers = [k for k in (1, 2, 4, 8, 16) if k <= extent]
    return sorted({*powers, extent}) if extent <= LARGEST else powers


def divisors(extent: int) -> list[int]:
    """How many entries of a reduced axis a block may have."""
    return [k for k in range(1, min(extent, LARGEST) + 1) if extent % k == 0]


def strip_seconds(f: ContractFunction, layout: Layout, limits: DeviceLimits, model: DeviceModel) -> float:
    """Expected seconds, infinity where a block is too large."""
    each = term_operations(f)
    groups, iterations = one_view(layout)
    busy = groups * layout.strips.lanes >= model.lanes
    if iterations > (LONGEST if busy else min(model.longest_walk, LONGEST)):
        return math.inf
    if layout.iterations > limits.max_loop_iterations // 2:
        return math.inf
    words = layout.points * f.output.vtype.components * layout.strips.lanes
    if layout.strips.tree and 4 * words > SHARED_BYTES:
        return math.inf
    packed = packs(f, layout, model)
    loads = sum(loads_seconds(layout, k, axis, model) for k, axis in enumerate(packed))
    store = 1 / max(model.image_store_rate, model.buffer_store_rate)
    moved = sum(layout.bytes_of(k) for k in range(len(f.inputs))) / model.bandwidth
    added = SUM * layout.points * f.output.vtype.components
    block = loads + moved + (layout.products * each + added + LOOP) / model.compute_rate
    own = layout.points * store
    waiting = iterations * model.fetch_latency
    if layout.strips.tree:
        levels = layout.strips.lanes.bit_length() - 1
        own = own / layout.strips.lanes + 2 * layout.points * SUM / model.compute_rate
        waiting += levels * SHARED_STEP
    work = model.rounds(groups * layout.strips.lanes) * model.lanes * (iterations * block + own)
    packing = sum(pack_seconds(f, k, model) for k, axis in enumerate(packed) if axis is not None)
    return max(work, waiting) + packing


def fills(layout: Layout, model: DeviceModel) -> bool:
    """Whether there are invocations for all lanes, a few times, so that no reduction needs to be split."""
    groups, _ = one_view(layout)
    return groups * layout.strips.lanes >= FULL * model.lanes


def term_operations(f: ContractFunction) -> float:
    """Of a term and its addition."""
    scalar = f.product and f.output.vtype.is_scalar
    return 2.0 if scalar else f.operations * f.output.vtype.components


def loads_seconds(layout: Layout, k: int, packed: int | None, model: DeviceModel) -> float:
    """Of loading the texels of an input in a block."""
    words = PACKED if packed is not None else layout.f.inputs[k].vtype.components
    told = words * layout.distinct(k, packed) * SHUFFLE if layout.loads_together(k) else 0.0
    return layout.loads(k, packed) * model.load_seconds(words) + told / model.compute_rate


def packs(f: ContractFunction, layout: Layout, model: DeviceModel) -> tuple[int | None, ...]:
    """The axis along which each operand is packed, where that saves time."""
    found: list[int | None] = []
    for k, x in enumerate(f.inputs):
        axis = layout.packable(k) if x.vtype is FLOAT else None
        if axis is not None:
            less = loads_seconds(layout, k, None, model) - loads_seconds(layout, k, axis, model)
            groups, iterations = one_view(layout)
            saved = groups * layout.strips.lanes * iterations * less
            axis = axis if saved > pack_seconds(f, k, model) else None
        found.append(axis)
    return tuple(found)


def pack_seconds(f: ContractFunction, k: int, model: DeviceModel) -> float:
    """Of packing an operand, one view of it."""
    views = f.maps[k].n.axes
    shape = shape_of(f.inputs[k])
    texels = math.prod(shape[1:] if views and view_axes(f).issuperset(views) else shape) / PACKED
    each = PACKED * model.load_seconds() + 1 / model.image_store_rate
    return model.dispatch + model.barrier + texels * each
