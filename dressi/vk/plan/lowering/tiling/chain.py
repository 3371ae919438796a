"""Chains: contractions of one dispatch that read each other, of which only the last one writes (overlapped tiling).

What an inner one makes is needed around each block of the last one, farther out the more contractions follow: its *region*.
Either the invocations of a workgroup make a region together, in memory that they share, or each invocation makes what its own
block reads, in registers. Texels where regions overlap are made again; nothing is stored between. A workgroup may hold a region
of an image, too, which its invocations load together: a chain of one contraction is that alone.

    two 5 x 5 kernels, a workgroup of 64 x 8 texels:   68 x 12 texels of the first one, from 72 x 16 of the image
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from .....ad.contract.contraction import ContractFunction
from .....ad.graph import Function, Variable
from .....ad.graph.index_map import Affine
from ...substage import SubStage, TiledCompute
from .packed import PACKED
from .products import ProductLayout, layout_of
from .strips import Layout, TiledContraction, strips_in

MOST_ROWS = 65535
"""Workgroups along the second axis of a dispatch."""
Sets = dict[int, frozenset[int]]
"""The distances of the entries of axes from the first ones, by the numbers of the axes."""


class Link(NamedTuple):
    """One contraction of a chain.  layout: its division.  others: the Functions that follow from its texels, in the same
    invocation.  result: what later contractions read of these, None for the last one."""

    f: TiledContraction
    layout: Layout
    others: list[Function]
    result: Variable | None


class Region(NamedTuple):
    """The texels n, c, y, x of a value that a workgroup makes. origin: the first one, over the axes of the last contraction,
    which stand for the first entries of the workgroup.  extents: how many along each axis."""

    origin: tuple[Affine, ...]
    extents: tuple[int, ...]

    @property
    def texels(self) -> int:
        return math.prod(self.extents)


def is_chain(s: SubStage) -> bool:
    """Whether contractions of a dispatch of strips read each other, or what a workgroup holds."""
    return isinstance(s.work, TiledCompute) and bool(s.work.strips)


def grid_of(s: SubStage) -> tuple[int, int]:
    """The workgroups of a dispatch of strips, in rows."""
    if is_chain(s):
        return grid([links_of(s)[-1].layout])
    return grid(f.layout for f in strips_in(s))


def grid(layouts: Iterable[Layout]) -> tuple[int, int]:
    """The workgroups of all, in rows, of which devices allow MOST_ROWS."""
    groups = sum(layout.groups for layout in layouts)
    across = -(-groups // MOST_ROWS)
    return across, -(-groups // across)


def links_of(s: SubStage) -> list[Link]:
    """The contractions of a chain, each before those that read it."""
    assert isinstance(s.work, TiledCompute)
    read = {x for f in s.body if isinstance(f, TiledContraction) for x in f.inputs}
    found = []
    for f, others in strips_in(s).items():
        made = [v for v in (f.output, *(g.output for g in others)) if v in read]
        found.append(Link(f, layout_of(f.whole, s.work.strips[f]), others, made[0] if made else None))
    return found


def image_axes(f: ContractFunction) -> dict[int, int] | None:
    """Of each parallel axis the axis n, c, y, x (0 to 3) of the output that it is alone; None where several make up one."""
    found = {}
    for s, axes in enumerate(f.axes):
        long = [a for a in axes if f.extents[a] > 1]
        if len(long) > 1:
            return None
        found |= dict.fromkeys(long, s)
    return found


# ---- workgroups that make regions
def regions_of(links: Sequence[Link], held: AbstractSet[Variable]) -> dict[Variable, Region] | None:
    """The regions of what a workgroup holds; None where an index is no sum of multiples of axes, or where two readers differ
    in it."""
    regions: dict[Variable, Region] = {}
    for link in reversed(links):
        spans = _spans(link, regions)
        if spans is None:
            return None
        for k, x in enumerate(link.f.inputs):
            if x not in held:
                continue
            region = _region(link.f, k, spans)
            if region is not None and x in regions:
                region = _around(region, regions[x])
            if region is None:
                return None
            regions[x] = region
    return regions


def _spans(link: Link, regions: Mapping[Variable, Region]) -> dict[int, tuple[Affine, int]] | None:
    """The first entry and the number of entries of each axis that a workgroup visits."""
    f = link.f.whole
    spans = {a: (Affine(), f.extents[a]) for a in f.reduced_axes}
    if link.result is None:
        return spans | {a: (Affine.axis(a), link.layout.step[a]) for a in link.layout.parallel}
    axes, region = image_axes(f), regions.get(link.result)
    if axes is None or region is None:
        return None
    spans |= dict.fromkeys(link.layout.parallel, (Affine(), 1))
    return spans | {a: (region.origin[s], region.extents[s]) for a, s in axes.items()}


def _region(f: TiledContraction, k: int, spans: Mapping[int, tuple[Affine, int]]) -> Region | None:
    if f.whole.maps[k].border != "zero":
        return None
    origin, extents = [], []
    for s, affine in enumerate(f.whole.maps[k].affines):
        first = affine.substituted({a: spans[a][0] for a in affine.axes})
        if first is None or not affine.whole or any(c < 0 for _, c in first.terms):
            return None
        ends = [sorted((0, c * (spans[a][1] - 1))) for a, c in affine.terms]
        low, high = (sum(e[i] for e in ends) for i in (0, 1))
        if s != f.packed[k]:
            origin.append(first.plus(low))
            extents.append(high - low + 1)
            continue
        if first.terms:
            return None
        low, high = (first.constant + low) // PACKED, (first.constant + high) // PACKED
        origin.append(Affine((), low))
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
    """The division of an inner contraction in a workgroup. An *item* is what an invocation makes at once: the tile of its
    strips. Names of axes stand for the first entry of an item, without the constant of the origin of the region."""

    packed = None

    def __init__(self, link: Link, region: Region, ends: dict[int, int]):
        """ends: one more than the last of the first entries of workgroups, along the axes of the last contraction."""
        super().__init__(link.f.whole, link.layout.strips)
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
    def held(self) -> tuple[int, ...]:
        """Texels along n, c, y, x that the workgroup keeps: whole items."""
        found = list(self.region.extents)
        for a, s in self.image_axes.items():
            found[s] = self.items[a] * self.tile.get(a, 1)
        return tuple(found)


class Staged(NamedTuple):
    """A region of an image that the invocations of a workgroup load. packed: the axis along which a texel holds several."""

    region: Region
    packed: int | None
    ends: dict[int, int]

    @property
    def held(self) -> tuple[int, ...]:
        return self.region.extents

    @property
    def count(self) -> int:
        return self.region.texels

    def inside(self, s: int, extent: int) -> bool:
        """Whether it never leaves an image of that extent along n, c, y, x (0 to 3)."""
        low, high = self.region.origin[s].bounds(self.ends)
        return low >= 0 and high + self.region.extents[s] <= extent


Held = dict[Variable, RegionLayout | Staged]


def held_by(links: Sequence[Link], held: AbstractSet[Variable]) -> Held | None:
    """How a workgroup makes and loads what it holds; None where it cannot."""
    if not held:
        return {}
    regions = regions_of(links, held)
    if regions is None:
        return None
    last, found = links[-1].layout, Held()
    ends = {a: last.step[a] * (last.blocks[a] - 1) + 1 for a in last.parallel}
    for link in links:
        for x, packed in zip(link.f.inputs, link.f.packed, strict=True):
            if x in held and x not in found:
                found[x] = Staged(regions[x], packed, ends)
        if link.result is not None and link.result in held:
            found[link.result] = RegionLayout(link, regions[link.result], ends)
    return found


def stageable(links: Sequence[Link], held: AbstractSet[Variable]) -> set[Variable]:
    """The images of which a workgroup that holds these inner values loads texels more than once."""
    spans, regions, found = [], {}, set[Variable]()
    for link in reversed(links):
        span = _spans(link, regions)
        if span is None:
            return set()
        spans.append((link, span))
        for k, x in enumerate(link.f.inputs):
            region = _region(link.f, k, span)
            if region is not None and x in held:
                regions[x] = _around(region, regions[x]) if x in regions else region
            elif region is not None:
                loaded = (
                    link.layout.distinct(k, link.f.packed[k]) * link.layout.iterations * _items(link, regions)
                )
                if loaded > region.texels:
                    found.add(x)
    return found


def _items(link: Link, regions: Mapping[Variable, Region | None]) -> float:
    """Blocks of a workgroup."""
    region = regions.get(link.result) if link.result is not None else None
    return region.texels / link.layout.points if region is not None else link.layout.strips.lanes


def shared_words(s: SubStage) -> int:
    """Words of memory that a workgroup shares."""
    if not is_chain(s):
        return sum(f.shared_words for f in strips_in(s))
    assert isinstance(s.work, TiledCompute)
    links = links_of(s)
    if isinstance(links[-1].layout, ProductLayout):
        return links[-1].layout.shared_words
    layouts = held_by(links, s.work.held)
    assert layouts is not None, "the pass asked for these"
    return sum(math.prod(layout.held) * v.vtype.components for v, layout in layouts.items())


# ---- invocations that make what their block reads
class Evaluations(NamedTuple):
    """What a block makes of one contraction: so many texels, and how many texels of each input it reads for them."""

    link: Link
    texels: int
    loads: tuple[int, ...]


def in_registers(links: Sequence[Link]) -> list[Evaluations] | None:
    """What a block of the last contraction makes of each, the last one first; None where an inner one has loops, or an index is
    none of sums."""
    last = links[-1]
    wanted: dict[Variable, list[frozenset[int]]] = {}
    found = []
    for link in reversed(links):
        f, sets = link.f.whole, dict[int, frozenset[int]]()
        if link is last:
            sets = {a: frozenset(link.layout.shifts(a)) for a in range(len(f.extents))}
            texels = link.layout.points
        else:
            axes = image_axes(f)
            if axes is None or link.layout.iterations > 1 or link.result is None:
                return None
            at = wanted[link.result]
            sets = dict.fromkeys(range(len(f.extents)), frozenset((0,)))
            sets |= {a: at[s] for a, s in axes.items()} | {
                a: frozenset(range(f.extents[a])) for a in f.reduced_axes
            }
            texels = math.prod(map(len, at))
            if any(
                p is not None and not set(f.maps[k].affines[p].axes) <= set(f.reduced_axes)
                for k, p in enumerate(link.f.packed)
            ):
                return None
        loads = []
        for k, x in enumerate(link.f.inputs):
            inner = any(x is other.result for other in links)
            places = list(_places(f, k, sets, link.f.packed[k]))
            if (inner or link is not last) and not all(affine.whole for affine in f.maps[k].affines):
                return None
            if inner and f.maps[k].border != "zero":
                return None
            if inner:
                before = wanted.get(x, [frozenset[int]()] * 4)
                wanted[x] = [a | b for a, b in zip(before, places, strict=True)]
            loads.append(math.prod(map(len, places)))
        found.append(Evaluations(link, texels, tuple(loads)))
    return found


def _places(f: ContractFunction, k: int, sets: Sets, packed: int | None) -> Iterator[frozenset[int]]:
    """Along n, c, y, x the distances of the texels of an input that are read."""
    for s, affine in enumerate(f.maps[k].affines):
        values = {affine.constant}
        for a, c in affine.terms:
            values = {v + c * d for v in values for d in sets[a]}
        divisor = affine.divisor * (4 if s == packed else 1)
        yield frozenset(v // divisor for v in values)
