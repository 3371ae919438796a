"""Chains: contractions of one dispatch that read each other, of which only the last one writes (overlapped
tiling).

The *region* of an inner one is what is needed of it around a block of the last one; it is larger the more
contractions follow. Either the invocations of a workgroup make a region together, in shared memory, or each
invocation makes what its own block reads, in registers (rows ``At``). Texels where regions overlap are made
again; nothing is stored between. A workgroup may stage a region of an image, too (rows ``Stage``): a chain of
one contraction is that alone.

    two 5 x 5 kernels, a workgroup of 64 x 8 texels:   68 x 12 texels of the first one, from 72 x 16 of the image
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ....ad.contract.contraction import ContractFunction
from ....ad.graph import Function, Variable
from ....ad.graph.index_map import Affine
from ..core.substage import SubStage, TiledCompute
from ..model.schedules import At, Rows, Stage
from .register_tiles import PACKED, Layout, ProductLayout, TiledContraction, layout_of, places_read, tiled_in

MOST_ROWS = 65535  # workgroups along the second axis of a dispatch


class Link(NamedTuple):
    """One contraction of a chain.  layout: its loops.  others: the Functions that follow from its texels, in
    the same invocation.  result: what later contractions read of these, None for the last one."""

    f: TiledContraction
    layout: Layout
    others: list[Function]
    result: Variable | None

    @property
    def inner(self) -> Variable:
        """What later contractions read."""
        assert self.result is not None, "an inner contraction is read"
        return self.result


class Region(NamedTuple):
    """The texels n, c, y, x of a value that a workgroup makes. origin: the first one, in terms of the
    workgroup's first entries along the axes of the last contraction.  extents: how many along each axis."""

    origin: tuple[Affine, ...]
    extents: tuple[int, ...]

    @property
    def texels(self) -> int:
        return math.prod(self.extents)


def is_chain(s: SubStage) -> bool:
    """Whether contractions of a dispatch read each other, or what a workgroup stages, by one schedule."""
    return isinstance(s.work, TiledCompute) and bool(s.work.schedules)


def rows_of(s: SubStage, f: TiledContraction) -> Rows:
    """The schedule by which a dispatch computes a contraction."""
    return s.work.schedules.get(f, f.schedule) if isinstance(s.work, TiledCompute) else f.schedule


def grid_of(s: SubStage) -> tuple[int, int]:
    """The workgroups of a dispatch of register tiles, in rows."""
    layouts = [links_of(s)[-1].layout] if is_chain(s) else [f.layout for f in tiled_in(s)]
    groups = sum(layout.groups for layout in layouts)
    across = -(-groups // MOST_ROWS)
    return across, -(-groups // across)


def links_of(s: SubStage) -> list[Link]:
    """The contractions of a chain, each before those that read it."""
    assert isinstance(s.work, TiledCompute)
    read = {x for f in s.body if isinstance(f, TiledContraction) for x in f.inputs}
    links = []
    for f, others in tiled_in(s).items():
        result = next((v for v in (f.output, *(g.output for g in others)) if v in read), None)
        links.append(Link(f, layout_of(f.part, s.work.schedules[f]), others, result))
    return links


def staged_in(links: Sequence[Link]) -> frozenset[Variable]:
    """The values that a workgroup makes or loads once, in shared memory."""
    staged: set[Variable] = set()
    for link in links:
        for row in link.layout.rows:
            match row:
                case Stage(operand):
                    staged.add(link.f.inputs[operand])
                case At(shared=True):
                    staged.add(link.inner)
    return frozenset(staged)


def image_axes(f: ContractFunction) -> dict[int, int] | None:
    """For each parallel axis the axis n, c, y, x (0 to 3) of the output that it is; None where several share
    one."""
    alone = {}
    for s, axes in enumerate(f.axes):
        long = [a for a in axes if f.extents[a] > 1]
        if len(long) > 1:
            return None
        alone |= dict.fromkeys(long, s)
    return alone


# ---- workgroups that make regions
def regions_of(
    links: Sequence[Link], staged: AbstractSet[Variable]
) -> tuple[dict[Variable, Region], list[tuple[Link, int, Region]]] | None:
    """The regions of what a workgroup stages, and those of the other operands, each with its link and number;
    None where an index is no sum of multiples of axes, or where two readers differ in it."""
    regions: dict[Variable, Region] = {}
    others = []
    for link in reversed(links):
        spans = _spans(link, regions)
        if spans is None:
            return None
        for k, x in enumerate(link.f.inputs):
            region = _region(link.f, k, spans)
            if x not in staged:
                others += [] if region is None else [(link, k, region)]
                continue
            if region is not None and x in regions:
                region = _around(region, regions[x])
            if region is None:
                return None
            regions[x] = region
    return regions, others


def _spans(link: Link, regions: Mapping[Variable, Region]) -> dict[int, tuple[Affine, int]] | None:
    """The first entry and the number of entries of each axis that a workgroup visits."""
    f = link.f.part
    spans = {a: (Affine(), f.extents[a]) for a in f.reduced_axes}
    if link.result is None:
        return spans | {a: (Affine.axis(a), link.layout.step[a]) for a in link.layout.parallel}
    axes, region = image_axes(f), regions.get(link.result)
    if axes is None or region is None:
        return None
    spans |= dict.fromkeys(link.layout.parallel, (Affine(), 1))
    return spans | {a: (region.origin[s], region.extents[s]) for a, s in axes.items()}


def _region(f: TiledContraction, k: int, spans: Mapping[int, tuple[Affine, int]]) -> Region | None:
    if f.part.maps[k].border != "zero":
        return None
    origin, extents = [], []
    for s, affine in enumerate(f.part.maps[k].affines):
        first = affine.substituted({a: spans[a][0] for a in affine.axes})
        if first is None or not affine.whole or any(c < 0 for _, c in first.terms):
            return None
        ends = [sorted((0, c * (spans[a][1] - 1))) for a, c in affine.terms]
        low, high = (sum(e[i] for e in ends) for i in (0, 1))
        if s == f.packed[k]:
            if first.terms:
                return None
            low, high = (first.constant + low) // PACKED, (first.constant + high) // PACKED
            first = Affine()
        origin.append(first.plus(low))
        extents.append(high - low + 1)
    return Region(tuple(origin), tuple(extents))


def _around(a: Region, b: Region) -> Region | None:
    """The region that holds both; None where their distance differs from workgroup to workgroup."""
    if any(x.terms != y.terms for x, y in zip(a.origin, b.origin, strict=True)):
        return None
    low = [x if x.constant < y.constant else y for x, y in zip(a.origin, b.origin, strict=True)]
    ends = [
        max(x.constant + n, y.constant + m)
        for x, n, y, m in zip(a.origin, a.extents, b.origin, b.extents, strict=True)
    ]
    return Region(tuple(low), tuple(e - x.constant for e, x in zip(ends, low, strict=True)))


class RegionLayout(Layout):
    """The loops of an inner contraction in a workgroup. An *item* is what an invocation makes at once: its
    register tile. Axes stand for its first entry, without the constant of the region's origin."""

    packed = None

    def __init__(self, link: Link, region: Region, ends: dict[int, int]):
        """ends: one more than the last first entry of a workgroup along each axis of the last contraction."""
        super().__init__(link.f.part, link.layout.rows)
        axes = image_axes(self.f)
        assert axes is not None, "the region was found by these axes"
        self.region, self.image_axes = region, axes
        self.items = {a: -(-region.extents[s] // self.tile.get(a, 1)) for a, s in axes.items()}
        self.origin = {a: region.origin[s] for a, s in axes.items()}
        for a in self.parallel:
            self.step[a] = self.bases[a] = 1
            if a in axes:
                _, high = self.origin[a]._replace(constant=0).bounds(ends)
                self.bases[a] = high + (self.items[a] - 1) * self.tile.get(a, 1) + 1

    @property
    def count(self) -> int:
        """Items of a workgroup."""
        return math.prod(self.items.values())

    @property
    def kept(self) -> tuple[int, ...]:
        """Texels along n, c, y, x that the workgroup keeps: whole items."""
        kept = list(self.region.extents)
        for a, s in self.image_axes.items():
            kept[s] = self.items[a] * self.tile.get(a, 1)
        return tuple(kept)


class StagedImage(NamedTuple):
    """A region of an image that a workgroup loads. packed: the axis along which a texel holds several."""

    region: Region
    packed: int | None
    ends: dict[int, int]

    @property
    def kept(self) -> tuple[int, ...]:
        return self.region.extents

    @property
    def count(self) -> int:
        return self.region.texels

    def inside(self, s: int, extent: int) -> bool:
        """Whether it never leaves an image of that extent along n, c, y, x (0 to 3)."""
        low, high = self.region.origin[s].bounds(self.ends)
        return low >= 0 and high + self.region.extents[s] <= extent


Staging = dict[Variable, RegionLayout | StagedImage]


def staging_of(links: Sequence[Link]) -> Staging | None:
    """How a workgroup makes and loads what it stages; None where it cannot."""
    staged = staged_in(links)
    if not staged:
        return {}
    regions = regions_of(links, staged)
    if regions is None:
        return None
    last, staging = links[-1].layout, Staging()
    ends = {a: last.step[a] * (last.blocks[a] - 1) + 1 for a in last.parallel}
    for link in links:
        for x, packed in zip(link.f.inputs, link.f.packed, strict=True):
            if x in staged and x not in staging:
                staging[x] = StagedImage(regions[0][x], packed, ends)
        if link.result is not None and link.result in staged:
            staging[link.result] = RegionLayout(link, regions[0][link.result], ends)
    return staging


def stageable(links: Sequence[Link]) -> set[Variable]:
    """The images of which a workgroup that stages all inner values loads texels more than once."""
    regions = regions_of(links, {link.result for link in links if link.result is not None})
    if regions is None:
        return set()
    (inner, others), images = regions, set[Variable]()
    for link, k, region in others:
        layout = link.layout
        blocks = layout.lanes if link.result is None else inner[link.result].texels / layout.points
        if layout.distinct(k, link.f.packed[k]) * layout.iterations * blocks > region.texels:
            images.add(link.f.inputs[k])
    return images


def shared_words(s: SubStage) -> int:
    """Words of memory that a workgroup shares."""
    if not is_chain(s):
        return sum(f.shared_words for f in tiled_in(s))
    links = links_of(s)
    if isinstance(links[-1].layout, ProductLayout):
        return links[-1].layout.shared_words
    layouts = staging_of(links)
    assert layouts is not None, "the pass asked for these"
    return sum(math.prod(layout.kept) * v.vtype.components for v, layout in layouts.items())


# ---- invocations that make what their block reads
class Evaluations(NamedTuple):
    """What a block makes of one contraction: so many texels, from so many texels of each input."""

    link: Link
    texels: int
    loads: tuple[int, ...]


def in_registers(links: Sequence[Link]) -> list[Evaluations] | None:
    """What a block of the last contraction makes of each, the last one first; None where an inner one has
    loops, or an index is no sum of multiples of axes."""
    last = links[-1]
    wanted: dict[Variable, list[frozenset[int]]] = {}
    made = []
    for link in reversed(links):
        f = link.f.part
        if link is last:
            # The entries of each axis that a block visits, as distances from its first one.
            entries = {a: frozenset(link.layout.shifts(a)) for a in range(len(f.extents))}
            texels = link.layout.points
        else:
            axes = image_axes(f)
            if axes is None or link.layout.iterations > 1 or link.result is None:
                return None
            at = wanted[link.result]
            entries = dict.fromkeys(range(len(f.extents)), frozenset((0,)))
            entries |= {a: at[s] for a, s in axes.items()}
            entries |= {a: frozenset(range(f.extents[a])) for a in f.reduced_axes}
            texels = math.prod(map(len, at))
            if any(
                p is not None and not set(f.maps[k].affines[p].axes) <= set(f.reduced_axes)
                for k, p in enumerate(link.f.packed)
            ):
                return None
        loads = []
        for k, x in enumerate(link.f.inputs):
            inner = any(x is other.result for other in links)
            places = places_read(f, k, entries, link.f.packed[k], absolute=True)
            if (inner or link is not last) and not all(affine.whole for affine in f.maps[k].affines):
                return None
            if inner:
                if f.maps[k].border != "zero":
                    return None
                before = wanted.get(x, [frozenset[int]()] * 4)
                wanted[x] = [a | b for a, b in zip(before, places, strict=True)]
            loads.append(math.prod(map(len, places)))
        made.append(Evaluations(link, texels, tuple(loads)))
    return made
