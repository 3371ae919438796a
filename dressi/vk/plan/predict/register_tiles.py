"""The work of dispatches of register tiles, side by side and in chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import Function, Variable
from ..limits import DeviceLimits
from ..lowering.chains import (
    Link,
    RegionLayout,
    StagedImage,
    Staging,
    in_registers,
    is_chain,
    links_of,
    staged_in,
    staging_of,
)
from ..lowering.register_tiles import Layout, ProductLayout, TiledContraction, tiled_in
from ..lowering.tile_contractions import SHARED_STEP
from ..model.device import LOOP, DeviceModel
from ..substage import SubStage
from .invocation import Invocation, Load, Shader, Stores

Memo = dict[tuple[Variable, bool], Invocation]
"""What follows from texels of contractions, and what loads of values take: equal by any schedule."""


def loads_of_tiles(s: SubStage, memo: Memo | None = None) -> list[Load]:
    """Invocations that compute several texels each, from texels that a block loads once."""
    memo = {} if memo is None else memo
    if not is_chain(s):
        return [_alone(f, others, s) for f, others in tiled_in(s).items()]
    links = links_of(s)
    if isinstance(links[-1].layout, ProductLayout):
        return [_product(links[-1], links[-1].layout, s, memo)]
    staging = staging_of(links)
    assert staging is not None, "the pass asked for these"
    return [_in_workgroups(links, staging, s, memo) if staging else _in_registers(links, s, memo)]


def tiles_seconds(s: SubStage, limits: DeviceLimits, model: DeviceModel, memo: Memo | None = None) -> float:
    """Seconds of a dispatch of register tiles, its start and a barrier. memo: for its other schedules."""
    loads = loads_of_tiles(s, memo)
    moved = sum(map(limits.bytes_of, (*(r.variable for r in s.reads), *s.outputs)))
    busy = sum(load.seconds(model) for load in loads)
    if is_chain(s) and staged_in(links := links_of(s)):
        busy += len(links) * SHARED_STEP
    return max(busy, moved / model.bandwidth) + model.dispatch + model.barrier


def _terms(f: TiledContraction, products: float) -> Invocation:
    return Invocation(products * f.part.term_operations * f.output.vtype.components)


def _ends(
    s: SubStage, v: Variable, others: Sequence[Function], wanted: Sequence[Variable], memo: Memo
) -> Invocation:
    """What follows from a texel of a contraction."""
    if (v, True) not in memo:
        memo[v, True] = Shader(replace(s, domain=v.domain), [v]).run(wanted, others)
    return memo[v, True]


def _loaded(s: SubStage, x: Variable, memo: Memo) -> Invocation:
    if (x, False) not in memo:
        memo[x, False] = Shader(s).elsewhere(x)._replace(walk=0.0, chain=0.0)
    return memo[x, False]


def _alone(f: TiledContraction, others: list[Function], s: SubStage) -> Load:
    shader, layout = Shader(s), f.layout
    block = _terms(f, layout.products).and_then(Invocation(LOOP))
    for x, count in zip(f.inputs, f.loads, strict=True):
        block = block.and_then(shader.elsewhere(x).times(count)._replace(walk=0.0, chain=1.0))
    points = layout.points / (layout.lanes if layout.tree else 1)
    return _whole(s, Link(f, layout, others, None), block._replace(chain=1.0), points, {})


def _whole(
    s: SubStage, link: Link, block: Invocation, points: float, memo: Memo, before: Invocation | None = None
) -> Load:
    """The invocations of the contraction that writes. before: what a workgroup does first."""
    f, layout = link.f, link.layout
    made = {f.output, *(g.output for g in link.others)}
    outputs = [v for v in s.outputs if v in made]
    ends = _ends(s, f.output, link.others, outputs, memo)
    each = block.times(layout.iterations)
    each = each._replace(chain=block.chain * layout.iterations)
    each = each.and_then(ends.times(points)._replace(walk=0.0, chain=float(bool(link.others))))
    if before is not None:
        each = before.and_then(each)
    return Load(layout.groups * layout.lanes, each, Stores.of(s, outputs).times(points), True)


def _in_registers(links: list[Link], s: SubStage, memo: Memo) -> Load:
    found = in_registers(links)
    assert found is not None, "the pass asked for these"
    inner = {link.result for link in links}
    block = Invocation(LOOP)
    for made in found:
        link, last = made.link, made.link.result is None
        f = link.f
        block = block.and_then(_terms(f, link.layout.products if last else made.texels * f.part.terms))
        for x, count in zip(f.inputs, made.loads, strict=True):
            if x not in inner:
                block = block.and_then(_loaded(s, x, memo).times(count)._replace(walk=0.0))
        if link.result is not None:
            ends = _ends(s, f.output, link.others, [link.result], memo)
            block = block.and_then(ends.times(made.texels)._replace(walk=0.0, chain=1.0))
    depth = sum(made.link.result is not None and len(made.link.others) > 0 for made in found)
    return _whole(s, links[-1], block._replace(chain=1.0 + depth), links[-1].layout.points, memo)


def _in_workgroups(links: list[Link], staging: Staging, s: SubStage, memo: Memo) -> Load:
    *inner, last = links
    lanes, before = last.layout.lanes, Invocation()
    for v, layout in staging.items():
        if isinstance(layout, StagedImage):
            load = _loaded(s, v, memo).and_then(Invocation(LOOP, shared=float(v.vtype.components)))
            before = before.and_then(load.times(-(-layout.count // lanes)))
    before = before._replace(walk=0.0, chain=1.0 if before.reads else 0.0)
    for link in inner:
        v = link.inner
        layout = staging[v]
        assert isinstance(layout, RegionLayout)
        item = _block(link, layout, s, staging, memo).times(layout.iterations)
        ends = _ends(s, link.f.output, link.others, [v], memo)
        ends = ends.and_then(Invocation(LOOP, shared=float(v.vtype.components)))
        waves = -(-layout.count // lanes)
        chain = waves * (item.chain * layout.iterations + ends.chain)
        item = item.and_then(ends.times(layout.points)).times(waves)
        before = before.and_then(item._replace(walk=0.0, chain=chain))
    return _whole(s, last, _block(last, last.layout, s, staging, memo), last.layout.points, memo, before)


def _product(link: Link, layout: ProductLayout, s: SubStage, memo: Memo) -> Load:
    """A product of operands that its workgroups stage, block after block."""
    f, terms = link.f, _terms(link.f, layout.products)
    block = Invocation(LOOP, products=terms.operations) if layout.half else terms.and_then(Invocation(LOOP))
    block = block.and_then(Invocation(shared=layout.shared_reads + sum(layout.staged) / layout.lanes))
    for k, (x, packed) in enumerate(zip(f.inputs, f.packed, strict=True)):
        load = _loaded(s, x, memo).and_then(Invocation(LOOP))
        block = block.and_then(load.times(layout.loads(k, packed))._replace(walk=0.0))
    return _whole(s, link, block._replace(chain=1.0), layout.points, memo)


def _block(link: Link, layout: Layout, s: SubStage, staging: Staging, memo: Memo) -> Invocation:
    """A block of a contraction that reads what its workgroup stages."""
    f = link.f
    block, chain = _terms(f, layout.products).and_then(Invocation(LOOP)), 0.0
    for k, x in enumerate(f.inputs):
        count = layout.distinct(k, f.packed[k])
        if x in staging:
            block = block.and_then(Invocation(shared=float(count * x.vtype.components)))
        else:
            block, chain = block.and_then(_loaded(s, x, memo).times(count)), 1.0
    return block._replace(walk=0.0, chain=chain)
