"""The divisions of a dispatch of strips among workgroups and invocations, and the one that is done soonest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from .....ad.graph import Variable
from ...context import Context
from ...limits import DeviceLimits
from ...lowering.tiling.chain import held_by, in_registers, is_chain, links_of, shared_words, stageable
from ...lowering.tiling.lanes import lanes_of, view_axes
from ...lowering.tiling.parts import SHARED_BYTES
from ...lowering.tiling.strips import Strips, TiledContraction, strips_in
from ...model.device import DeviceModel
from ...predict.strips import Memo, strips_seconds
from ...substage import SubStage, TiledCompute

ROWS = (4, 8, 16, 32)
"""Entries of an axis that an invocation computes of the last contraction."""
ITEMS = 4
"""Rows of an inner contraction that an invocation makes at once."""
CROWDED = 2
"""Times as many inner values as sums that a block may keep in registers."""


def each_alone(
    sub_stages: Sequence[SubStage], context: Context, divided: Callable[[SubStage, Context], SubStage]
) -> list[SubStage]:
    """The SubStages; on wide devices dispatches of one contraction by strips are ``divided`` anew, but for those that add up parts."""
    if context.incremental or not context.cost.wide:
        return list(sub_stages)
    return [divided(s, context) if _is_alone(s) else s for s in sub_stages]


def _is_alone(s: SubStage) -> bool:
    if not isinstance(s.work, TiledCompute) or is_chain(s):
        return False
    found = strips_in(s)
    return len(found) == 1 and not any(f.strips.tree for f in found)


def soonest(s: SubStage, limits: DeviceLimits, model: DeviceModel) -> tuple[float, SubStage] | None:
    """The seconds of a dispatch whose contractions read each other, or of one alone whose workgroups hold what they read, and the
    dispatch so divided; None where there is no such division."""
    best, found, memo = math.inf, None, Memo()
    for tried in divisions(s, model):
        if not suits(tried, model):
            continue
        seconds = strips_seconds(tried, limits, model, memo)
        if seconds < best:
            best, found = seconds, tried
    return None if found is None or limits.violation(found) is not None else (best, found)


def divisions(s: SubStage, model: DeviceModel) -> Iterator[SubStage]:
    """Inner values in registers, then, on devices where waiting for each other costs invocations little, in shared memory, with and
    without the images that workgroups load more than once."""
    *inner, last = fs = list(strips_in(s))
    lane, views = last.strips.lane, view_axes(last.whole)
    lines = [a for a in last.layout.parallel if last.whole.extents[a] > 1 and a not in views and a != lane]
    tiles = [last.strips.tile, (), *(((a, n),) for a in lines for n in ROWS if n <= last.whole.extents[a])]
    tiles = list(dict.fromkeys(tiles))
    if inner:
        for tile in tiles:
            yield _divided(s, fs, [*(f.strips for f in inner), last.strips._replace(tile=tile)])
    if not model.wide:
        return
    links = links_of(_divided(s, fs, [f.strips for f in fs]))
    values = frozenset(link.result for link in links if link.result is not None)
    straight = dict.fromkeys((last.strips.straight, last.strips.straight[-1:]))
    for tile, block in itertools.product(tiles, straight):
        strips = last.strips._replace(tile=tile, straight=block, lanes=lanes_of(model))
        one = _divided(s, fs, [*map(_items, inner), strips])
        staged = stageable(links_of(one), values)
        for held in dict.fromkeys((values, values | staged)):
            if held:
                assert isinstance(one.work, TiledCompute)
                yield replace(one, work=replace(one.work, held=held))


def _divided(s: SubStage, fs: Sequence[TiledContraction], strips: Sequence[Strips]) -> SubStage:
    return replace(s, work=TiledCompute(dict(zip(fs, strips, strict=True))))


def _items(f: TiledContraction) -> Strips:
    """The strips of an inner contraction whose invocations make ITEMS rows at once."""
    (*_, axis) = f.whole.axes[2] or (None,)
    return f.strips._replace(tile=() if axis is None or axis == f.strips.lane else ((axis, ITEMS),))


def suits(s: SubStage, model: DeviceModel) -> bool:
    """Whether there are such indices, and blocks fit registers, memory and compilers."""
    assert isinstance(s.work, TiledCompute)
    links = links_of(s)
    *inner, last = links
    if last.result is not None or any(link.result is None for link in inner):
        return False
    if last.layout.points * last.f.output.vtype.components > model.accumulators:
        return False
    if s.work.held:
        if held_by(links, s.work.held) is None or 4 * shared_words(s) > SHARED_BYTES:
            return False
        return all(link.layout.products <= model.straight for link in links)
    found = in_registers(links)
    if found is None:
        return False
    texels = sum(made.texels for made in found if made.link.result is not None)
    products = sum(
        made.texels * made.link.f.whole.terms if made.link.result is not None else made.link.layout.products
        for made in found
    )
    return texels <= CROWDED * model.accumulators and products <= model.straight


def made_by(s: SubStage) -> Variable | None:
    """The value that strips make, where it is one alone and no leaf is overwritten."""
    alone = isinstance(s.work, TiledCompute) and not s.replaces and len(s.outputs) == 1
    return s.outputs[0] if alone else None
