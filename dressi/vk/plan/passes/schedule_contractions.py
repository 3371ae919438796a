"""Schedules of whole dispatches of register tiles.

Each pass proposes rows (``model/schedules``) for dispatches, and the predictor chooses between these and what
is there:

    overlap_tiles      At: contractions that read each other share a dispatch; nothing between them is stored
    tile_products      Tensorize: a workgroup makes products of two operands, block after block of both
    fuse_contractions  contractions that do not wait for each other share a dispatch, side by side
    stage_operands     Stage: a workgroup loads once what its invocations read more than once
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ....ad.graph import Variable
from ..analysis.context import Context, put_together
from ..core.limits import NO_MATRIX, DeviceLimits, MatrixShape
from ..core.substage import GROUP, Read, SubStage, TiledCompute, all_reads
from ..lowering.chains import in_registers, is_chain, links_of, shared_words, stageable, staged_in, staging_of
from ..lowering.register_tiles import ProductLayout, TiledContraction, tiled_in
from ..lowering.tile_contractions import LONGEST_LOOPS, does_not_fit, lanes_of, sides_of, view_axes
from ..model.device import DeviceModel
from ..model.schedules import At, Bind, Rows, Stage, Tensorize, Unroll, axis_names, exchanged, of_kind
from ..predict.work import Memo, tiles_seconds

LONGEST_CHAIN = 6
"""Contractions of a chain."""
TILE_ROWS = (4, 8, 16, 32)
"""Entries of an axis that an invocation computes of the last contraction of a chain."""
ITEM_ROWS = 4
"""Rows of an inner contraction that an invocation makes at once."""
CROWDED = 2
"""Times as many inner values as sums that a block may keep in registers."""
DEPTH = 16
"""Terms of a block of a product."""
HALF_DEPTH = 32
"""The same in half precision."""
SIDES = (2, 4, 8)
"""Rows and columns of a product in an invocation."""
GROUPS = (64, 128, 256)
"""Invocations of a workgroup that makes a product."""
LEAST = 16
"""Rows and columns of a product of a workgroup."""
FILLED = 2
"""Times as many entries as an axis has that the workgroups of a product may have."""
MOST = 8
"""Contractions side by side in a dispatch. Each is code of its own in one shader."""
ALIKE = 2.0
"""Times as many sums in registers that one contraction of a dispatch may keep as another."""


# ---- the passes
def overlap_tiles(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, fewer where a contraction makes again what the ones before it made for it (overlapped
    tiling).

    The third answer of rematerialization, beside storing a value and computing it again wherever it is read:
    once for each block of the reader, with a margin as wide as the reader's kernel. The predictor decides
    between both and a dispatch for each contraction."""
    if context.incremental:
        return list(sub_stages)
    uses, limits, model = context.uses, context.limits, context.cost
    result: list[SubStage | None] = list(uses.sub_stages)
    alone: dict[SubStage, float] = {}
    for k in uses.order:
        s = result[k]
        if s is None or not isinstance(s.work, TiledCompute) or s.replaces or len(s.outputs) != 1:
            continue
        (v,) = s.outputs
        readers = uses.readers.get(v, ())
        if len(readers) != 1 or v in context.fixed or v in context.given:
            continue
        (reader,) = readers
        t = result[reader]
        assert t is not None, "only what makes one value is taken away"
        together = _chained(s, t, v)
        best = None if together is None else soonest_chain(together, limits, model)
        if best is None:
            continue
        for each in (s, t):
            if each not in alone:
                alone[each] = _alone_seconds(each, limits, model)
        if best[0] >= alone[s] + alone[t] and not _by_hand(t):
            continue
        alone[best[1]] = best[0]
        put_together(result, reader, k, best[1])
    left = [s for s in result if s is not None]
    for f in (f for s in left for f in list(tiled_in(s))[-1:] if f.by_hand):
        for row in of_kind(f.schedule, At):
            reason = (
                "its value has other readers than one contraction with a schedule by hand, whose blocks can"
                " make it within registers or shared memory; all of a chain are At the same memory"
            )
            raise does_not_fit(f.whole, row, reason)
    return left


def tile_products(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; products of two operands, matrix products and convolutions, are made by tiles of
    workgroups that stage blocks of both where that is done sooner. An invocation by itself reads a row of its
    tile for each of its columns; a workgroup reads it once for all of them."""
    given = [_as_given(s, context.limits) if _is_alone(s) and _by_hand(s) else s for s in sub_stages]
    return _each_alone(given, context, _soonest_product)


def _as_given(s: SubStage, limits: DeviceLimits) -> SubStage:
    """The dispatch of a contraction by hand, with what its workgroups stage. Raises PlanError."""
    (f,) = tiled_in(s)
    if of_kind(f.schedule, Tensorize):
        return _scheduled(s, {f: f.schedule})
    stages = of_kind(f.schedule, Stage)
    if not stages:
        return s
    made = _scheduled(s, {f: f.schedule})
    if staging_of(links_of(made)) is None or 4 * shared_words(made) > limits.max_shared_bytes:
        most = limits.max_shared_bytes
        reason = f"what its workgroup reads is no region of an image, or takes more than {most} bytes"
        raise does_not_fit(f.whole, stages[0], reason)
    return made


def stage_operands(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; workgroups of single contractions stage regions of images where that is faster."""
    return _each_alone(sub_stages, context, lambda s, c: soonest_chain(s, c.limits, c.cost))


def fuse_contractions(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, fewer where independent contractions share a dispatch: its workgroups are divided among
    them.

    Merges independent contractions of one level, at one distance from the start of the schedule, into one
    dispatch; then moves work off the critical path to a later level. The gradient by
    the image of one layer and that by the weights of the next need one barrier instead of two, and together
    they fill a device that the sums for a few weights leave idle. Narrow devices gain nothing."""
    if context.incremental or not context.cost.wide:
        return list(sub_stages)
    uses = context.uses
    depth = [0] * len(uses.sub_stages)
    for k in uses.order:
        for later in uses.later[k]:
            depth[later] = max(depth[later], depth[k] + 1)
    last = max(depth, default=0)
    latest = [min((depth[j] - 1 for j in later), default=last) for later in uses.later]
    hosts: list[list[int]] = [[] for _ in range(last + 1)]
    result: list[SubStage | None] = list(uses.sub_stages)

    def joined(k: int, level: int) -> bool:
        """Whether what is left at that distance does the work of another SubStage."""
        s = result[k]
        assert s is not None, "it was not joined before"
        for host in hosts[level]:
            together = _together(result[host], s, context.limits, context.cost)
            if together is not None and context.limits.violation(together) is None:
                result[host], result[k] = together, None
                latest[host] = min(latest[host], latest[k])
                return True
        return False

    for k, s in enumerate(uses.sub_stages):
        if isinstance(s.work, TiledCompute) and not is_chain(s) and not joined(k, depth[k]):
            hosts[depth[k]].append(k)
    for level in reversed(hosts):
        level[:] = [k for k in level if not any(joined(k, at) for at in range(depth[k] + 1, latest[k] + 1))]
    return [s for s in result if s is not None]


# ---- the search
def soonest(
    scheduled: Iterable[SubStage], limits: DeviceLimits, model: DeviceModel
) -> tuple[float, SubStage] | None:
    """The fastest schedule of a dispatch: its seconds, and the dispatch. None where none fits."""
    best, fastest, memo = math.inf, None, Memo()
    for s in scheduled:
        seconds = tiles_seconds(s, limits, model, memo)
        if seconds < best:
            best, fastest = seconds, s
    return None if fastest is None or limits.violation(fastest) is not None else (best, fastest)


def soonest_chain(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> tuple[float, SubStage] | None:
    """That of contractions which read each other, or of one alone whose workgroups stage what they read."""
    return soonest(chain_schedules(s, limits, model), limits, model)


def _soonest_product(s: SubStage, context: Context) -> tuple[float, SubStage] | None:
    (f,) = tiled_in(s)
    limits, model = context.limits, context.cost

    def fits(product: SubStage) -> bool:
        (link,) = links_of(product)
        assert isinstance(link.layout, ProductLayout), "it was scheduled so"
        return (
            4 * shared_words(product) <= limits.max_shared_bytes and link.layout.trip_count <= LONGEST_LOOPS
        )

    every = product_schedules(f, limits, model, context.options.half_products)
    return soonest(filter(fits, (_scheduled(s, {f: rows}) for rows in every)), limits, model)


def _each_alone(
    sub_stages: Sequence[SubStage],
    context: Context,
    search: Callable[[SubStage, Context], tuple[float, SubStage] | None],
) -> list[SubStage]:
    """The SubStages; on wide devices single contractions, but for sums of parts, as a search finds faster."""
    if context.incremental or not context.cost.wide:
        return list(sub_stages)

    def faster(s: SubStage) -> SubStage:
        other = search(s, context) if _is_alone(s) and not _by_hand(s) else None
        return s if other is None or other[0] >= tiles_seconds(s, context.limits, context.cost) else other[1]

    return [faster(s) for s in sub_stages]


def _by_hand(s: SubStage) -> bool:
    """Whether the user gave the schedules of a dispatch."""
    return any(f.by_hand for f in tiled_in(s))


def _is_alone(s: SubStage) -> bool:
    if not isinstance(s.work, TiledCompute) or is_chain(s):
        return False
    tiled = tiled_in(s)
    return len(tiled) == 1 and not any(f.layout.tree for f in tiled)


def _alone_seconds(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> float:
    """What a dispatch takes by itself, by any schedule."""
    staged = None if is_chain(s) or len(tiled_in(s)) > 1 else soonest_chain(s, limits, model)
    seconds = tiles_seconds(s, limits, model)
    return seconds if staged is None else min(seconds, staged[0])


def _scheduled(s: SubStage, schedules: dict[TiledContraction, Rows]) -> SubStage:
    return replace(s, work=TiledCompute({**schedules}))


# ---- chains
def chain_schedules(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> Iterator[SubStage]:
    """The schedules of a chain whose blocks fit registers, memory and compilers."""
    return (t for t in _every_chain(s, model) if _chain_fits(t, limits, model))


def _every_chain(s: SubStage, model: DeviceModel) -> Iterator[SubStage]:
    """The schedules by hand, if there are any. Else inner values in registers; then, on wide devices, in
    shared memory, with and without the images that workgroups load more than once."""
    *inner, last = tiled_in(s)
    if _by_hand(s):
        if inner:  # the last one may become an inner one later
            rows = exchanged(last.schedule, lambda row: isinstance(row, At))
            yield _scheduled(s, {f: f.schedule for f in inner} | {last: rows})
        return
    layout, names, views = last.layout, axis_names(last.part), view_axes(last.part)
    extents = last.part.extents
    lines = [a for a in layout.parallel if extents[a] > 1 and a not in views and a != layout.lane]
    own = tuple(Unroll(names[a], n) for a, n in layout.tile.items())
    tiles = [own, (), *((Unroll(names[a], n),) for a in lines for n in TILE_ROWS if n <= extents[a])]
    unrolled = tuple(Unroll(names[a], n) for a, n in layout.unrolled.items())

    def changed(lanes: int, *blocks: Unroll) -> Rows:
        """The schedule of the last contraction with other blocks."""
        return exchanged(
            last.schedule,
            lambda row: isinstance(row, Unroll | Bind),
            Bind(names[layout.lane], lanes),
            *blocks,
        )

    if inner:
        alone = {f: (*f.schedule, At()) for f in inner}
        for tile in dict.fromkeys(tiles):
            yield _scheduled(s, alone | {last: changed(layout.lanes, *tile, *unrolled)})
    if not model.wide:
        return
    shared = {f: _in_items(f) for f in inner}
    for tile, block in itertools.product(dict.fromkeys(tiles), dict.fromkeys((unrolled, unrolled[-1:]))):
        schedules = shared | {last: changed(lanes_of(model), *tile, *block)}
        one = _scheduled(s, schedules)
        if inner:
            yield one
        images = stageable(links_of(one))
        if images:
            staged = {f: [Stage(k) for k, x in enumerate(f.inputs) if x in images] for f in schedules}
            yield _scheduled(s, {f: (*rows, *staged[f]) for f, rows in schedules.items()})


def _in_items(f: TiledContraction) -> Rows:
    """The schedule of an inner contraction whose invocations make ITEM_ROWS rows at once."""
    (*_, axis) = f.part.axes[2] or (None,)
    names = axis_names(f.part)
    tile = () if axis is None or axis == f.layout.lane else (Unroll(names[axis], ITEM_ROWS),)
    parallel = {names[a] for a in f.layout.parallel}
    return exchanged(
        f.schedule, lambda row: isinstance(row, Unroll) and row.axis in parallel, *tile, At(shared=True)
    )


def _chain_fits(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> bool:
    links = links_of(s)
    *inner, last = links
    if last.result is not None or any(link.result is None for link in inner):
        return False
    if last.layout.points * last.f.output.vtype.components > model.accumulators:
        return False
    if staged := staged_in(links):
        if not all(link.result in staged for link in inner):
            return False
        if staging_of(links) is None or 4 * shared_words(s) > limits.max_shared_bytes:
            return False
        return all(link.layout.products <= model.straight for link in links)
    blocks = in_registers(links)
    if blocks is None:
        return False
    texels = sum(made.texels for made in blocks if made.link.result is not None)
    products = sum(
        made.texels * made.link.f.part.terms if made.link.result is not None else made.link.layout.products
        for made in blocks
    )
    return texels <= CROWDED * model.accumulators and products <= model.straight


def _chained(s: SubStage, t: SubStage, v: Variable) -> SubStage | None:
    """The dispatch of ``t`` that makes the value ``v`` of ``s`` itself; None where it cannot."""
    if not isinstance(t.work, TiledCompute):
        return None
    fs = [*tiled_in(s), *tiled_in(t)]
    beside = len(tiled_in(t)) > 1 and not is_chain(t)
    elsewhere = any(v in g.inputs for others in tiled_in(t).values() for g in others)
    # Where the user gave one schedule of a chain, he gave all, and says so by At.
    by_hand = {f.by_hand for f in fs}
    at = [bool(of_kind(f.schedule, At)) for f in tiled_in(s) if f.by_hand]
    if len(by_hand) > 1 or not all(at):
        return None
    overwritten = not {r.variable for r in s.reads}.isdisjoint(t.replaces.values())
    if beside or elsewhere or overwritten or len(fs) > LONGEST_CHAIN or any(f.layout.tree for f in fs):
        return None
    return replace(
        t,
        functions=s.functions + t.functions,
        body=s.body + tuple(f for f in t.body if f not in s.body),
        reads=all_reads(s.reads, (r for r in t.reads if r.variable is not v)),
    )


# ---- products
def product_schedules(
    f: TiledContraction, limits: DeviceLimits, model: DeviceModel, half: bool
) -> Iterator[Rows]:
    """The schedules of a contraction as a product. half: whether operands may be rounded to 16-bit floats."""
    sides = sides_of(f.part, LEAST)
    if sides is None:
        return
    (row, column), names = sides, axis_names(f.part)

    def rows(lanes: int, high: int, wide: int, depth: int, shape: MatrixShape) -> Rows:
        made = Tensorize(names[row], names[column], high, wide, depth, shape)
        return exchanged(
            f.schedule, lambda row: isinstance(row, Unroll | Bind), Bind(names[column], lanes), made
        )

    for lanes, down, across in itertools.product(GROUPS, SIDES, SIDES):
        if lanes > limits.max_workgroup_invocations or down * across > model.accumulators:
            continue
        for below in (2**k for k in range(lanes.bit_length())):
            high, wide = below * down, lanes // below * across
            filled = high < FILLED * f.part.extents[row] and wide < FILLED * f.part.extents[column]
            if high >= LEAST and wide >= LEAST and filled:
                yield rows(lanes, high, wide, DEPTH, MatrixShape(down, across, 1, 1))
    if half and limits.matrix != NO_MATRIX:
        for high, wide in ((GROUP, GROUP), (GROUP // 2, GROUP), (GROUP // 2, GROUP // 2)):
            if limits.matrix.parts(high, wide, GROUP) is not None:
                yield rows(GROUP, high, wide, HALF_DEPTH, limits.matrix)


# ---- contractions side by side
def _together(
    host: SubStage | None, s: SubStage, limits: DeviceLimits, model: DeviceModel
) -> SubStage | None:
    """Both as one SubStage; None where workgroups differ in size, need too much memory, or where those that
    fill the device need different numbers of registers: a shader has as many as its largest branch."""
    assert host is not None
    fs = [*tiled_in(host), *tiled_in(s)]
    filling = (f for f in fs if f.layout.groups * f.layout.lanes >= model.lanes)
    sums = [f.layout.points * f.output.vtype.components for f in filling]
    if len({f.layout.lanes for f in fs}) > 1 or len(fs) > MOST or (sums and max(sums) > ALIKE * min(sums)):
        return None
    if sum(4 * f.shared_words for f in fs) > limits.max_shared_bytes:
        return None
    reads = {r.variable: r for r in (*host.reads, *s.reads)}
    return replace(
        host,
        functions=host.functions + s.functions,
        replaces={**host.replaces, **s.replaces},
        body=host.body + s.body,
        reads=tuple(Read(v, r.binding, True) for v, r in reads.items()),
        outputs=host.outputs + s.outputs,
    )
