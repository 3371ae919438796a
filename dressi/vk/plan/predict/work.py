"""The work of SubStages: what one invocation takes, how many invocations run, and what each stores.

The walk of an invocation follows the generated GLSL: a value is loaded once where it is stored, its makers
run once at the invocation's own pixel, and they run once for each texel that is fetched where the value is
computed again.

Where the data decide, shares stand for them: ``COVERED`` of the pixels under a raster, ``LISTED`` under one
that draws a list of live faces, ``active_expected`` of the pixels under a list, ``LIVE`` of the faces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from operator import add
from typing import NamedTuple

from ....ad.graph import (
    AccumulateFunction,
    DrawFunction,
    FragmentScatterFunction,
    Function,
    RasterFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.traversal import producers_first, topological_order
from ....ad.graph.types import Access
from ..core import lists, substage
from ..core.accumulators import accumulators_of
from ..core.limits import DeviceLimits
from ..core.substage import Binding, SubStage
from ..glsl.pixel import BLOCK
from ..glsl.raster import hoist, needed
from ..lowering import chains
from ..lowering.fragment_value import FragmentValue
from ..lowering.register_tiles import Layout, ProductLayout, TiledContraction, tiled_in
from ..lowering.scatter import BOXES, FaceSum
from ..lowering.tile_contractions import SHARED_STEP
from ..model.device import AHEAD, LOOP, DeviceModel, planes

FILTERED = 2.0
"""Texels that a sampler fetches in the time in which it filters one."""
WAITING = 200.0
"""Operations of an invocation in the time that a workgroup with two barriers takes besides its work."""
TYPICAL_LOOP = 8
"""Iterations of a loop whose length the data decide: rows of a sparse matrix, faces around an edge."""


SETUP, SIDES, OVERDRAW = 120.0, 60.0, 2.0
"""Operations of a face of a raster by a dispatch, and of a pixel of its box; faces over a pixel that is covered."""
WAITING = 2.0
"""Invocations of a sum by a dispatch for each pixel that a face covers: those of faces that cover few wait for their
neighbours. Segments of hair cover ten on average."""


class Invocation(NamedTuple):
    """operations: arithmetic.  fetches: texels of textures and attachments, of all planes.  image_loads: of
    storage images.  loads: of storage buffers.  shared: words of memory that a workgroup shares.  walk:
    texels that the longest loop visits, loops inside of loops multiplied.  chain: fetches that wait for each
    other.  products: operations of matrix products by subgroups.  wider: components of texels read, besides
    the first of each."""

    operations: float = 0.0
    fetches: float = 0.0
    walk: float = 0.0
    chain: float = 0.0
    loads: float = 0.0
    image_loads: float = 0.0
    shared: float = 0.0
    products: float = 0.0
    wider: float = 0.0

    @property
    def reads(self) -> float:
        """Texels of all kinds of storage."""
        return self.fetches + self.image_loads + self.loads

    def and_then(self, other: Invocation) -> Invocation:
        """This one's work, then the other's, by the same invocation."""
        together = Invocation(*map(add, self, other))
        return together._replace(walk=max(self.walk, other.walk))

    def times(self, n: float) -> Invocation:
        """The work in a loop of n iterations."""
        each = self._replace(walk=max(self.walk, 1.0), chain=max(self.chain, 1.0))
        return Invocation(*[n * x for x in each])


def loops_of(f: Function) -> float:
    """Iterations that one evaluation is expected to run, 0 without a loop: those that it declares, and
    ``TYPICAL_LOOP``, or fewer where it declares fewer, where data decide."""
    by_data = any(math.isinf(f.reads(k)) for k, a in enumerate(f.access) if a is Access.FETCH)
    if not by_data:
        return float(f.iterations)
    return float(min(f.iterations, TYPICAL_LOOP) if f.iterations else TYPICAL_LOOP)


class Shader:
    """Counts what shaders of a SubStage do. at_hand: what other shaders pass, at no cost."""

    def __init__(self, s: SubStage, at_hand: Iterable[Variable] = ()):
        self._stored = {r.variable for r in s.reads} | set(s.channels)
        self._buffered = set(s.ranges).union(v for v, (whole, _) in s.channels.items() if whole in s.ranges)
        loaded = {r.variable for r in s.reads if r.binding is Binding.STORAGE}
        self._loaded = loaded.union(v for v, (whole, _) in s.channels.items() if whole in loaded)
        self._at_hand = set(at_hand)
        self._elsewhere: dict[Variable, Invocation] = {}

    def run(self, roots: Iterable[Variable], inside: Iterable[Function] = ()) -> Invocation:
        """One evaluation of the roots at a pixel, by Functions ``inside`` and whatever else they need."""
        counted = _Counted(self)
        for f in inside:
            counted.emit(f)
        for v in roots:
            counted.value(v)
        return counted.total

    def stored(self, v: Variable) -> bool:
        return v in self._stored or v.creator is None

    def free(self, v: Variable) -> bool:
        return v in self._at_hand

    def load(self, v: Variable) -> Invocation:
        """The read of a texel of a stored value."""
        texels = float(len(v.vtype.planes))
        read = Invocation(chain=1.0, wider=sum(v.vtype.planes) - texels)
        if v in self._buffered:
            return read._replace(loads=texels)
        return read._replace(image_loads=texels) if v in self._loaded else read._replace(fetches=texels)

    def elsewhere(self, v: Variable) -> Invocation:
        """One evaluation of a value at another texel."""
        if v not in self._elsewhere:
            self._elsewhere[v] = self.load(v) if self.stored(v) else self.run([v])
        return self._elsewhere[v]


class _Counted:
    """One evaluation: what it did so far, and after how many dependent fetches each value is there."""

    def __init__(self, shader: Shader):
        self._shader = shader
        self._ready: dict[Variable, float] = {}
        self._total = Invocation()

    @property
    def total(self) -> Invocation:
        chain = max(self._ready.values(), default=0.0)
        return self._total._replace(chain=chain)

    def value(self, v: Variable) -> None:
        """The value at the invocation's own pixel, with everything that makes it."""
        for f in self._makers(v):
            self.emit(f)
        self._load(v)

    def emit(self, f: Function) -> None:
        """One Function, whose inputs at the same pixel are there or can be loaded."""
        if f.output in self._ready:
            return
        loops, start, step = loops_of(f), 0.0, 0.0
        for k, (x, access) in enumerate(zip(f.inputs, f.access, strict=True)):
            if access is Access.SAMPLE:
                self._add(Invocation(fetches=FILTERED * len(x.vtype.planes)))
                step = max(step, 1.0)
                continue
            if access is not Access.FETCH:
                if x not in self._ready:
                    self.value(x)
                start = max(start, self._ready[x])
                continue
            one, count = self._shader.elsewhere(x), f.reads(k)
            count = max(loops, 1.0) if math.isinf(count) else count
            most = max(float(f.iterations), loops)
            self._add(one.times(count)._replace(walk=max(max(one.walk, 1.0) * most, one.walk)))
            known = math.isfinite(f.reads(k))
            waits = one.chain * max(math.ceil(loops / AHEAD) if known else loops, 1.0)
            step = max(step, max(waits, 0.0 if known else most) if count else 0.0)
        self._add(Invocation(f.operations * f.output.vtype.components * max(loops, 1.0)))
        self._ready[f.output] = start + step

    def _load(self, v: Variable) -> None:
        if v in self._ready:
            return
        free = self._shader.free(v)
        if not free:
            self._add(self._shader.load(v))
        self._ready[v] = 0.0 if free else 1.0

    def _add(self, work: Invocation) -> None:
        self._total = self._total.and_then(work)

    def _makers(self, v: Variable) -> list[Function]:
        """Functions that make a value from what is stored or there, producers first."""
        shader, near = self._shader, (Access.SAME_PIXEL, Access.PULL)

        def made(x: Variable) -> bool:
            return x.creator is not None and not (x in self._ready or shader.stored(x) or shader.free(x))

        def inputs(x: Variable) -> list[Variable]:
            edges = x.creator.edges if x.creator is not None else ()
            return [e.variable for e in edges if e.access in near and made(e.variable)]

        return [x.creator for x in producers_first([v] if made(v) else [], inputs) if x.creator is not None]


# The work of shaders: how many invocations run, what each does and stores, and what that takes on a device.


@dataclass(frozen=True)
class Stores:
    """Texels that an invocation writes, by kind of storage, and values that it adds with atomics."""

    attachments: float = 0.0
    images: float = 0.0
    buffers: float = 0.0
    atomics: float = 0.0

    @classmethod
    def of(cls, s: SubStage, values: Iterable[Variable]) -> Stores:
        """The stores of values that a SubStage writes."""
        count = {"attachments": 0.0, "images": 0.0, "buffers": 0.0}
        for v in values:
            kind = "buffers" if v in s.ranges else "attachments" if v in s.colors or s.draws else "images"
            count[kind] += len(v.vtype.planes)
        return cls(**count)

    def times(self, n: float) -> Stores:
        return Stores(n * self.attachments, n * self.images, n * self.buffers, n * self.atomics)

    def seconds(self, model: DeviceModel) -> float:
        """Seconds of one invocation while all lanes are busy, for each of them."""
        return (
            self.attachments / model.store_rate
            + self.images / model.image_store_rate
            + self.buffers / model.buffer_store_rate
            + self.atomics / model.atomic_rate
        )


@dataclass(frozen=True)
class Load:
    """Work of one kind of shader: invocations, what each does, and what it stores.

    dispatched: as compute shader.  vertices, filled, draws: what the fixed-function part transforms, the pixels
    of attachments that it clears and tests, and the draws of a subpass of triangles.  lanes: invocations of the
    only workgroup that does it, if one does.
    """

    invocations: int
    each: Invocation
    stores: Stores = Stores()
    dispatched: bool = False
    vertices: int = 0
    filled: int = 0
    draws: int = 0
    lanes: int = 0

    def seconds(self, model: DeviceModel) -> float:
        """Seconds of the work and of the fetches that wait for each other, those of loops among them.

        On a wide device both add up: a serial loop of few lanes hides nothing. A CPU driver waits inside of its
        fetches, so that the longer of both counts there.
        """
        rate = model.compute_rate if self.dispatched else model.fragment_rate
        one = (
            self.each.operations / rate
            + self.each.fetches / model.fetch_rate
            + self.each.image_loads / model.image_load_rate
            + self.each.loads / model.buffer_fetch_rate
            + self.each.wider * model.wider / model.fetch_rate
            + self.each.shared / model.shared_rate
            + self.each.products / model.matrix_rate
            + self.stores.seconds(model)
        )
        fixed = self.vertices / model.vertex_rate + self.filled / model.fill_rate
        if self.draws:
            fixed += model.raster + self.draws * model.draw
        if not model.wide:
            work = model.rounds(self.invocations) * model.lanes * one
            return max(work, self.each.chain * model.fetch_latency) + fixed
        if self.lanes:
            waves = -(-self.invocations // self.lanes)
            return waves * (model.lanes * one + self.each.chain * model.fetch_latency)
        work = max(self.invocations, model.lanes) * one  # waves overlap
        return work + self.each.chain * model.fetch_latency + fixed


# The work of dispatches of register tiles, side by side and in chains.


Memo = dict[tuple[Variable, bool], Invocation]
"""What follows from texels of contractions, and what loads of values take: equal by any schedule."""


def loads_of_tiles(s: SubStage, memo: Memo | None = None) -> list[Load]:
    """Invocations that compute several texels each, from texels that a block loads once."""
    memo = {} if memo is None else memo
    if not chains.is_chain(s):
        return [_alone(f, others, s) for f, others in tiled_in(s).items()]
    links = chains.links_of(s)
    if isinstance(links[-1].layout, ProductLayout):
        return [_product(links[-1], links[-1].layout, s, memo)]
    staging = chains.staging_of(links)
    assert staging is not None, "the pass asked for these"
    return [_in_workgroups(links, staging, s, memo) if staging else _in_registers(links, s, memo)]


def tiles_seconds(s: SubStage, limits: DeviceLimits, model: DeviceModel, memo: Memo | None = None) -> float:
    """Seconds of a dispatch of register tiles, its start and a barrier. memo: for its other schedules."""
    loads = loads_of_tiles(s, memo)
    moved = sum(map(limits.bytes_of, (*(r.variable for r in s.reads), *s.outputs)))
    busy = sum(load.seconds(model) for load in loads)
    if chains.is_chain(s) and chains.staged_in(links := chains.links_of(s)):
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
    return _whole(s, chains.Link(f, layout, others, None), block._replace(chain=1.0), points, {})


def _whole(
    s: SubStage,
    link: chains.Link,
    block: Invocation,
    points: float,
    memo: Memo,
    before: Invocation | None = None,
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


def _in_registers(links: list[chains.Link], s: SubStage, memo: Memo) -> Load:
    blocks = chains.in_registers(links)
    assert blocks is not None, "the pass asked for these"
    inner = {link.result for link in links}
    block = Invocation(LOOP)
    for made in blocks:
        link, last = made.link, made.link.result is None
        f = link.f
        block = block.and_then(_terms(f, link.layout.products if last else made.texels * f.part.terms))
        for x, count in zip(f.inputs, made.loads, strict=True):
            if x not in inner:
                block = block.and_then(_loaded(s, x, memo).times(count)._replace(walk=0.0))
        if link.result is not None:
            ends = _ends(s, f.output, link.others, [link.result], memo)
            block = block.and_then(ends.times(made.texels)._replace(walk=0.0, chain=1.0))
    depth = sum(made.link.result is not None and len(made.link.others) > 0 for made in blocks)
    return _whole(s, links[-1], block._replace(chain=1.0 + depth), links[-1].layout.points, memo)


def _in_workgroups(links: list[chains.Link], staging: chains.Staging, s: SubStage, memo: Memo) -> Load:
    *inner, last = links
    lanes, before = last.layout.lanes, Invocation()
    for v, layout in staging.items():
        if isinstance(layout, chains.StagedImage):
            load = _loaded(s, v, memo).and_then(Invocation(LOOP, shared=float(v.vtype.components)))
            before = before.and_then(load.times(-(-layout.count // lanes)))
    before = before._replace(walk=0.0, chain=1.0 if before.reads else 0.0)
    for link in inner:
        v = link.inner
        layout = staging[v]
        assert isinstance(layout, chains.RegionLayout)
        item = _block(link, layout, s, staging, memo).times(layout.iterations)
        ends = _ends(s, link.f.output, link.others, [v], memo)
        ends = ends.and_then(Invocation(LOOP, shared=float(v.vtype.components)))
        waves = -(-layout.count // lanes)
        chain = waves * (item.chain * layout.iterations + ends.chain)
        item = item.and_then(ends.times(layout.points)).times(waves)
        before = before.and_then(item._replace(walk=0.0, chain=chain))
    return _whole(s, last, _block(last, last.layout, s, staging, memo), last.layout.points, memo, before)


def _product(link: chains.Link, layout: ProductLayout, s: SubStage, memo: Memo) -> Load:
    f, terms = link.f, _terms(link.f, layout.products)
    block = Invocation(LOOP, products=terms.operations) if layout.half else terms.and_then(Invocation(LOOP))
    block = block.and_then(Invocation(shared=layout.shared_reads + sum(layout.staged) / layout.lanes))
    for k, (x, packed) in enumerate(zip(f.inputs, f.packed, strict=True)):
        load = _loaded(s, x, memo).and_then(Invocation(LOOP))
        block = block.and_then(load.times(layout.loads(k, packed))._replace(walk=0.0))
    return _whole(s, link, block._replace(chain=1.0), layout.points, memo)


def _block(link: chains.Link, layout: Layout, s: SubStage, staging: chains.Staging, memo: Memo) -> Invocation:
    f = link.f
    block, chain = _terms(f, layout.products).and_then(Invocation(LOOP)), 0.0
    for k, x in enumerate(f.inputs):
        count = layout.distinct(k, f.packed[k])
        if x in staging:
            block = block.and_then(Invocation(shared=float(count * x.vtype.components)))
        else:
            block, chain = block.and_then(_loaded(s, x, memo).times(count)), 1.0
    return block._replace(walk=0.0, chain=chain)


# Each kind of work: what its shaders do. Draws of triangles have vertices, and the fragments that they should
# cover.

WAIT = Invocation(chain=1.0)
"""A barrier of a workgroup is taken for a fetch, about .5 us: what was written goes to the cache from which the
next phase fetches it."""
PUT = 30.0
"""Operations of adding a component to a fixed-point accumulator, and of turning one into a float."""


def loads_of(s: SubStage, limits: DeviceLimits) -> list[Load]:
    """The shaders of a SubStage."""
    return _loads(s.work, s, limits)


def launches_of(s: SubStage) -> tuple[int, int]:
    """(render passes, dispatches) of a SubStage by itself. Scatters are resolved by a second one."""
    if s.draws:
        return 1, 0
    work = s.work
    if not isinstance(work, substage.Scatter):
        return 0, 1
    passes = isinstance(work, substage.PrimitiveWork) + (work.epilogue is not None and work.epilogue.draws)
    return passes, 2 - passes


@singledispatch
def _loads(work: substage.Work, s: SubStage, limits: DeviceLimits) -> list[Load]:
    raise TypeError(f"no prediction for {work!r}; register one")


@_loads.register
def _(work: substage.Raster, s: SubStage, limits: DeviceLimits) -> list[Load]:
    f, *values = s.functions
    assert isinstance(f, RasterFunction)
    graphs = [g for g in (f.fragment, *(v.graph for v in values if isinstance(v, FragmentValue))) if g]
    shader, each = Shader(s, [g.face for g in graphs]), Invocation()
    if graphs:
        roots = [v for g in graphs for v in g.roots]
        before = [g for g in s.body if g not in s.functions]
        each = shader.run(roots, [*before, *needed(topological_order(roots), roots)])
    return [_subpass(f, s, work.faces, each, s.has_depth)]


@_loads.register
def _(work: substage.Accumulate, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Vertices, and all fragments, each of which reads and writes what it adds to."""
    (f,) = s.functions
    assert isinstance(f, AccumulateFunction)
    each = Shader(s, f.fragment.given).run(f.fragment.roots, f.fragment.functions)
    return [_subpass(f, s, work.faces, each, planes(s.outputs))]


def _subpass(
    f: DrawFunction, s: SubStage, faces: lists.FaceList | None, each: Invocation, tested: float
) -> Load:
    """tested: planes besides those of the outputs that are cleared, and read by every fragment."""
    written = planes(s.outputs)
    filled = round((written + tested) * s.domain.texels)
    return replace(_drawn(f, faces, each, Stores(attachments=float(written))), filled=filled)


def _drawn(f: DrawFunction, faces: lists.FaceList | None, each: Invocation, stores: Stores) -> Load:
    """Vertices and fragments. stores: of a fragment; those that only fill blocks store nothing."""
    fragments = shaded = lists.fragments_expected(f, faces)
    if not isinstance(f, RasterFunction):
        shaded = lists.shaded_expected(f.triangles, fragments)
    stores = stores.times(fragments / shaded)
    draws = f.batch * (1 if faces is None else faces.segments)
    return Load(round(shaded * f.batch), each, stores, False, _vertices(f, faces), draws=draws)


def _vertices(f: DrawFunction, faces: lists.FaceList | None) -> int:
    return round(lists.vertices_expected(f, faces)) * f.batch


@_loads.register
def _(work: substage.FragmentScatter, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Vertices, and all fragments, each of which adds to accumulators; then one invocation a texel of the
    table."""
    f = s.scatter
    assert isinstance(f, FragmentScatterFunction)
    graph, added = f.fragment, len(f.pairs) * accumulators_of(f).components
    each = Shader(s, graph.given).run(graph.roots, graph.functions).and_then(Invocation(added * PUT))
    return [_drawn(f, work.faces, each, Stores(atomics=float(added))), _resolved(work, s)]


def _by_faces(f: DrawFunction, s: SubStage) -> tuple[Invocation, Invocation]:
    """What an invocation computes once of a face, and at each pixel of it."""
    graph = f.fragment
    single = [v for v, image in zip(graph.formals, f.externals, strict=True) if image.size == (1, 1)]
    shared, _ = hoist(graph.functions, graph.face, single)
    known = [g.output for g in shared]
    pixel = Shader(s, [*graph.given, *known]).run(graph.roots, needed(graph.functions, graph.roots, known))
    return Shader(s, graph.given).run((), shared), pixel


@_loads.register
def _(work: substage.FaceSums, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """An invocation a face, which computes once what its pixels share, visits them and stores its sums."""
    (f,) = s.functions
    assert isinstance(f, FaceSum)
    before, pixel = _by_faces(f, s)
    visits = BOXES * lists.fragments_expected(f, None) / f.faces
    each = before.and_then(pixel.times(max(visits, 1.0)))
    return [Load(f.faces * f.batch, each, Stores.of(s, s.outputs).times(f.components), True)]


@_loads.register
def _(work: substage.ComputeRaster, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Faces, the pixels of their boxes and those that they cover; then one invocation a pixel."""
    f, *values = s.functions
    assert isinstance(f, RasterFunction)
    count = work.entries(f) * f.batch * work.slices
    drawn = round(lists.vertices_expected(f, work.faces) / 3) * f.batch * work.slices
    covered = OVERDRAW * lists.fragments_expected(f, work.faces) * f.batch
    inside, graph = Invocation(), f.fragment
    if graph is not None:
        before = [g for g in s.body if g not in s.functions]
        inside = Shader(s, [graph.face]).run(graph.roots, [*before, *needed(graph.functions, graph.roots)])
    visits = [
        Load(count, Invocation(LOOP), Stores(), True),
        Load(drawn, Invocation(SETUP, fetches=4.0, chain=2.0), Stores(), True),
        Load(round(BOXES * covered), Invocation(SIDES), Stores(), True),
        Load(round(covered), inside, Stores(atomics=1.0), True),
    ]
    kept = [v for v in values if isinstance(v, FragmentValue)]
    roots = [v.root for v in kept]
    following = Shader(s, [v.graph.face for v in kept]).run(roots, needed(topological_order(roots), roots))
    stores = Stores.of(s, s.outputs)
    each = Invocation(LOOP, loads=1.0).and_then(following)
    resolve = Load(s.domain.texels, each, replace(stores, buffers=stores.buffers + 1.0), True)
    return [*visits * (1 if limits.int64_atomics else 2), resolve]


@_loads.register
def _(work: substage.ComputeSum, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Faces, the pixels of the boxes of their triangles, and those that they cover; then one invocation a texel of the
    sums."""
    f = s.functions[0]
    assert isinstance(f, AccumulateFunction | FragmentScatterFunction)
    sums, (before, pixel) = accumulators_of(f), _by_faces(f, s)
    added = sums.components * (len(f.pairs) if isinstance(f, FragmentScatterFunction) else 1)
    drawn = round(lists.vertices_expected(f, work.faces) / 3) * f.batch * work.slices
    covered = lists.fragments_expected(f, work.faces) * f.batch
    pixel = pixel.and_then(Invocation(added * PUT))
    visits = [
        Load(work.entries(f) * f.batch * work.slices, Invocation(LOOP), Stores(), True),
        Load(drawn, before.and_then(Invocation(SETUP, fetches=4.0, chain=2.0)), Stores(), True),
        Load(round(BOXES * f.triangles_per_face * covered), Invocation(SIDES), Stores(), True),
    ]
    return [
        *visits * len(sums.bands(limits.max_storage_buffer_bytes)),
        Load(round(WAITING * covered), pixel, Stores(atomics=added / WAITING), True),
        _resolved(work, s),
    ]


@_loads.register
def _(work: substage.PixelWork, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """All pixels or those of active blocks; one invocation, or one a tile, does what is fused."""
    sparse = work.sparse if isinstance(work, substage.SparseWork) else None
    each = Shader(s).run(s.own_outputs, s.body)
    loads = [_over(sparse, Load(s.domain.texels, each, Stores.of(s, s.outputs), not s.draws))]
    if work.fused:
        once = Invocation()
        for other in work.fused:
            once = once.and_then(Shader(other).run(other.outputs, other.body))
        tiles = max(other.domain.tiles for other in work.fused)
        stores = Stores(images=float(sum(planes(other.outputs) for other in work.fused)))
        loads.append(Load(tiles, once, stores, not s.draws))
    return loads


@_loads.register
def _(work: substage.Joined, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """The parts, by all of their invocations or by one workgroup, and barriers between their phases."""
    lanes = 0 if work.pixels or work.beside else work.lanes
    loads = [replace(load, lanes=lanes) for part in work.parts for load in loads_of(part, limits)]
    return [*loads, *[Load(0, WAIT)] * (len(work.phases) - 1)]


@_loads.register
def _(work: substage.Scatter, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """Source texels that add to accumulators, then one invocation a texel of the table."""
    f, epilogue = s.scatter, work.epilogue
    assert isinstance(f, ScatterFunction)
    later = set() if epilogue is None else set(epilogue.outputs)
    made = [v for v in s.outputs if v is not f.output and v not in later]
    values = [v for pair in f.pairs for v in pair]
    each = Shader(s).run([*values, *made], [g for g in s.body if g is not f])
    sums = accumulators_of(f)
    added = len(f.pairs) * sums.components
    each = each.and_then(Invocation(added * PUT))
    stores = replace(Stores.of(s, made), atomics=float(added))
    sparse = work.sparse if isinstance(work, substage.SparseWork) else None
    return [_over(sparse, Load(s.domain.texels, each, stores, True)), _resolved(work, s)]


def _over(sparse: substage.Sparse | None, load: Load) -> Load:
    """The work of all pixels, or of those on a list, of which each invocation reads its place."""
    if sparse is None:
        return load
    share = lists.active_expected(sparse.blocks)
    each = load.each.and_then(Invocation(loads=1.0, chain=1.0))
    return replace(load, invocations=round(share * load.invocations), each=each)


def touched(s: SubStage, v: Variable) -> float:
    """The share of the image of a value that a SubStage is expected to touch."""
    sparse = s.work.sparse if isinstance(s.work, substage.SparseWork) else None
    if sparse is None or v.domain != s.domain or (s.scatter is not None and v is s.scatter.output):
        return 1.0
    # Memory is read and written in pieces: pixels of a line through a block touch half of it.
    blocks = replace(sparse.blocks, pixels=False)
    return lists.active_expected(blocks) * (0.5 if sparse.blocks.pixels else 1.0)


def moved_by(s: SubStage, bytes_of: Callable[[Variable], int]) -> float:
    """Bytes of the images that a SubStage touches."""
    return sum(touched(s, v) * bytes_of(v) for v in (*(r.variable for r in s.reads), *s.outputs))


def fill_seconds(
    s: SubStage, bytes_of: Callable[[Variable], int], model: DeviceModel, cleared: Container[Variable] = ()
) -> float:
    """Seconds of writing what images hold outside of the pixels that a SubStage works on.  cleared: those that lie
    in images; buffers are filled at full bandwidth."""
    sparse = s.work.sparse if isinstance(s.work, substage.SparseWork) else None
    rates = {
        v: model.clear_rate if v in cleared else model.bandwidth for v in (sparse.fill if sparse else ())
    }
    return sum(model.barrier + bytes_of(v) / rate for v, rate in rates.items())


def _resolved(work: substage.Scatter, s: SubStage) -> Load:
    """What turns the accumulators of a scatter into its table, and what follows."""
    f, epilogue = s.kept, work.epilogue
    assert f is not None
    sums = accumulators_of(f)
    cells = sums.components * sums.slots
    total, outputs, drawn = Invocation(cells * PUT, loads=2.0 * cells), [f.output], False
    if epilogue is not None:
        total = total.and_then(Shader(epilogue, [f.output]).run(epilogue.own_outputs, epilogue.body))
        outputs, drawn = list(epilogue.outputs), epilogue.draws
    return Load(f.output.domain.texels, total, Stores.of(s, outputs), not drawn)


@_loads.register
def _(work: substage.TiledCompute, s: SubStage, limits: DeviceLimits) -> list[Load]:
    return loads_of_tiles(s)


@_loads.register
def _(work: substage.ListFaces, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """A workgroup a segment, an invocation a run of faces, then a sum over the counts."""
    faces, lanes = work.faces, work.faces.invocations
    steps = float(lists.LISTING) if lanes == lists.LISTING else 4.0 * lanes.bit_length()
    each = Shader(s).run([*s.outputs, faces.live], s.body).times(faces.run).and_then(Invocation(steps))
    stores = Stores.of(s, s.outputs).times(faces.run)
    return [Load(lanes * faces.segments * s.domain.tiles, each, stores, True)]


@_loads.register
def _(work: substage.ListBlocks, s: SubStage, limits: DeviceLimits) -> list[Load]:
    """One invocation a block, which reads the hits around it, or looks at its pixels."""
    active = lists.active_expected(replace(work.blocks, pixels=False))
    entries = lists.active_expected(work.blocks) * BLOCK * BLOCK if work.blocks.pixels else active
    append = Invocation(LOOP * entries)
    stores = Stores(buffers=entries, atomics=3.0 * active)
    if not work.hits:
        return _looking(work.blocks, limits, append, stores)
    around = 9.0 if work.blocks.halo else 1.0
    each = append.and_then(Invocation(LOOP * around, loads=around * len(work.hits), chain=1.0))
    return [Load(block_count(work.blocks, limits), each, stores, True)]


@_loads.register
def _(work: substage.FindHits, s: SubStage, limits: DeviceLimits) -> list[Load]:
    return _looking(work.hits, limits, Invocation(), Stores(buffers=1.0))


def block_count(listed: lists.ActiveBlocks | lists.BlockHits, limits: DeviceLimits) -> int:
    """How many blocks the image has that a list is made of."""
    tiling = limits.tiling(listed.domain)
    return -(-tiling.width // BLOCK) * -(-tiling.height // BLOCK)


def _looking(
    listed: lists.ActiveBlocks | lists.BlockHits, limits: DeviceLimits, then: Invocation, stores: Stores
) -> list[Load]:
    """One invocation a block, or one a column of its pixels.  then, stores: for each block."""
    blocks, column = block_count(listed, limits), Invocation(LOOP, 1.0, 0.0, 1.0).times(BLOCK)
    if not listed.shared:
        return [Load(blocks, column.times(BLOCK).and_then(then), stores, True)]
    each = column.and_then(Invocation(WAITING)).and_then(then.times(1 / BLOCK))
    return [Load(blocks * BLOCK, each._replace(walk=float(BLOCK)), stores.times(1 / BLOCK), True)]
