"""Sparse tiling: work on pixels skips the blocks in which a raster hit nothing.

A raster is -1 where no primitive covers a pixel, and other Functions may declare a ``quiet`` value that they
have nearly everywhere. If the outputs of a SubStage are known there (by ``Function.known_value``: through
selects, products with zero, lookups out of range), its images are filled with those values, and a dispatch
visits only the blocks of 8x8 pixels that contain another value, or have one within as many pixels as the work
reads around its own (``Work.footprint``). The device makes the list of these blocks, or of these pixels one by
one, whichever is predicted to be faster: a line through a block touches ten of its pixels. A scatter of zeros needs
no filling, and neither does an image that is only read under the same list. Images have the bits of the dense
plan, except for the sign of zeros.

To use this in a graph, say what holds outside, as a constant: ``F.select(F.greater_equal(face, 0), value,
0.0)``. The gradient of that is sparse as well. A new Function declares what it knows in ``known_value``.

If only some outputs of a SubStage are known outside, it is split, and the others (a residual that is wanted
everywhere, say) are made by a second SubStage. Two rasters of the same primitives can share a list, such as
peeled layers, of which each keeps fewer fragments than the one before. Whether a list pays is decided by an
estimate of the work, with the expected shares of active blocks (``lists``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from ....ad.graph import Domain, Function, PixelFunction, RasterFunction, ScatterFunction, Variable
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access
from ..analysis.context import Context, Uses
from ..analysis.dataflow import restrict
from ..analysis.known_values import HIT_NOTHING, KnownValues, adds_nothing
from ..core import substage
from ..core.lists import ActiveBlocks, BlockHits, active_expected
from ..core.substage import Binding, Read, SubStage
from ..glsl.pixel import words_of
from ..model.device import operations, planes
from ..predict.stages import Judge


def run_on_active_blocks(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, some of them sparse, and those that make the lists. Only for schedules that run many
    times: they update leaves, or depend on leaves that are sent again and again."""
    if context.incremental or not any(f.quiet is not None for f in context.functions):
        return list(sub_stages)
    stored = context.uses.maker.keys()
    lists = BlockLists(context.known, context.given, stored, context.cost.wide)

    def choice(parts: Mapping[SubStage, tuple[SubStage, ...]]) -> _Choice:
        now = [p for s in sub_stages for p in parts.get(s, (s,))]
        return _Choice(Uses(now) if parts else context.uses, context, lists)

    work = choice({})
    parts: dict[SubStage, tuple[SubStage, SubStage]] = {}
    for s in reversed(sub_stages):  # readers first
        pair = work.split(s, parts)
        if pair is not None:
            parts[s] = pair
    if parts:
        work = choice(parts)
        work.choose()
        parts = {s: pair for s, pair in parts.items() if work.worth_splitting(*pair)}
        work = choice(parts)
    if not work.choose():
        return list(sub_stages)
    ways = [work.done()]
    apart = {s: pair for s, pair in parts.items() if not work.agree(*pair)}
    if len(apart) < len(parts) and (other := choice(apart)).choose():
        ways.append(other.done())
    return ways[Judge(context.limits, context.cost).fastest([(way, 0.0) for way in ways])]


class _Choice:
    """Which SubStages run on which list."""

    def __init__(self, uses: Uses, context: Context, lists: BlockLists):
        self.sub_stages, self.maker, self.context = uses.sub_stages, uses.maker, context
        self.limits, self.cost = context.limits, context.cost
        self.roots = frozenset(context.roots)
        self.readers: dict[Variable, list[tuple[SubStage, bool]]] = {}
        for s in self.sub_stages:
            for read in s.reads:
                self.readers.setdefault(read.variable, []).append((s, read.elsewhere))
        self.lists = lists
        self.chosen: dict[SubStage, ActiveBlocks] = {}
        self._shortest: dict[Domain, ActiveBlocks | None] = {}

    def choose(self) -> bool:
        """Whether any SubStage runs on active blocks."""
        for k, s in enumerate(self.sub_stages):
            if self._saves(s) > 0 and self.limits.violation(_dispatched(s)) is None:
                found = self.lists.narrowest([b for b in self.lists.over(s.domain) if self._all_known(k, b)])
                if found is not None:
                    self.chosen[s] = self._narrowed(k, found)
        self.chosen = self.lists.joined(self.chosen)
        for s in reversed(self.sub_stages):
            self._follow_readers(s)
        self._fill_less()
        # Drop those that gain nothing one by one: without one of them others may have to fill more images.
        while self.chosen:
            gains = self._gains()
            worst = min(gains, key=lambda s: gains[s])
            if gains[worst] <= 0:
                del self.chosen[worst]
                continue
            total = dict.fromkeys(self.chosen.values(), 0.0)
            for s, blocks in self.chosen.items():
                total[blocks] += gains[s]
            lost = [b for b in total if total[b] <= self._making(b)]
            if not lost:
                return True
            self.chosen = {s: b for s, b in self.chosen.items() if b not in lost}
        return False

    def done(self) -> list[SubStage]:
        """The SubStages as chosen; each list is made in front of its first user."""
        result: list[SubStage] = []
        made: dict[ActiveBlocks, ActiveBlocks] = {}
        hits: dict[tuple[Variable, float], BlockHits] = {}
        looked = Counter(pair for b in set(self.chosen.values()) for pair in b.quiet)
        judge = Judge(self.limits, self.cost)
        for s in self.sub_stages:
            blocks = self.chosen.get(s)
            if blocks is None:
                result.append(s)
                continue
            if blocks not in made:
                alone = len(blocks.quiet) == 1 and not blocks.halo and looked[blocks.quiet[0]] == 1
                for v, quiet in () if alone else blocks.quiet:
                    if (v, quiet) not in hits:
                        hits[v, quiet] = BlockHits(s.domain, v, quiet, blocks.shared)
                        result.append(_looks(substage.FindHits(hits[v, quiet]), (v,)))
                made_of = () if alone else tuple(hits[pair] for pair in blocks.quiet)
                users = [s for s, b in self.chosen.items() if b is blocks]
                each = replace(blocks, pixels=True)
                fits = 4 * words_of(each, self.limits) <= self.limits.max_storage_buffer_bytes
                made[blocks] = each if fits and by_pixels(blocks, made_of, users, judge) else blocks
                blocks = made[blocks]
                result.append(_listing(blocks, made_of))
            blocks = made[self.chosen[s]]
            fill = {v: self.lists.known(self.chosen[s])[v] for v in self._filled(s)}
            result.append(_dispatched(s, substage.Sparse(blocks, fill)))
        return result

    # ---- lists
    def _narrowed(self, k: int, blocks: ActiveBlocks) -> ActiveBlocks:
        """The list without the images that SubStage ``k`` does not need in it: soft edges are then worked on
        where there are edges, and not everywhere inside of the outline."""
        for pair in blocks.quiet if len(blocks.quiet) > 1 else ():
            rest = tuple(p for p in blocks.quiet if p is not pair)
            if rest and self._all_known(k, fewer := self.lists.made(blocks.domain, rest, blocks.halo)):
                blocks = fewer
        return blocks

    def _all_known(self, k: int, blocks: ActiveBlocks) -> bool:
        """Whether all outputs of a SubStage are known outside, and the list does not depend on it."""
        known = self._known_outputs(self.sub_stages[k], blocks)
        return len(known) == len(self.sub_stages[k].outputs) and self._independent(k, blocks)

    def _known_outputs(self, s: SubStage, blocks: ActiveBlocks) -> list[Variable]:
        known = self.lists.known(blocks)
        return [
            v
            for v in s.outputs
            if (adds_nothing(v.creator, known) if isinstance(v.creator, ScatterFunction) else v in known)
        ]

    def _independent(self, k: int, blocks: ActiveBlocks) -> bool:
        """Whether the list can be made before SubStage ``k`` runs."""

        def makers(values: Iterable[Variable]) -> set[int]:
            return {self.maker[v] for v in values if v in self.maker}

        def before(n: int) -> set[int]:
            s = self.sub_stages[n]
            decided_by = self.chosen[s].decided_by if s in self.chosen else ()
            return makers((*(r.variable for r in s.reads), *decided_by)) if n != k else set()

        return k not in reached(makers(blocks.decided_by), before)

    # ---- splitting
    def split(
        self, s: SubStage, parts: Mapping[SubStage, tuple[SubStage, SubStage]]
    ) -> tuple[SubStage, SubStage] | None:
        """A SubStage that makes the outputs known or unwanted outside of blocks, and what the others need of
        them; and one that makes the others. None if one would be empty. parts: of readers."""
        if self._saves(s) <= 0 or len(s.functions) < 2:
            return None
        for blocks in self.lists.over(s.domain):
            known = self._known_outputs(s, blocks)
            if len(known) == len(s.outputs):
                return None
            wanted = [v for v in s.outputs if v not in known and not self._unwanted(v, blocks, parts)]
            if known and wanted:
                known = [v for v in s.outputs if v not in wanted]
            rest = tuple(v for v in s.outputs if v not in known)
            if any(isinstance(v.creator, ScatterFunction) for v in rest):
                continue
            between = self._between(s, rest, blocks)
            outputs = tuple(dict.fromkeys((*known, *between)))
            if not outputs or not self._independent(self.maker[s.outputs[0]], blocks):
                continue
            first = restrict(s, self.context.analysis, outputs, s.work)
            second = restrict(s, self.context.analysis, rest, substage.Undecided(), {*between, *known})
            fits = self.limits.violation(_dispatched(first)) is None
            if fits and self.limits.violation(second) is None:
                return first, second
        return None

    def _unwanted(
        self, v: Variable, blocks: ActiveBlocks, parts: Mapping[SubStage, tuple[SubStage, SubStage]]
    ) -> bool:
        """Whether an image is only read at the reader's own pixel, by what can run on the blocks."""
        if v in self.roots or v.domain != blocks.domain or isinstance(v.creator, ScatterFunction):
            return False
        for reader, elsewhere in self.readers.get(v, ()):
            if elsewhere:
                return False
            if reader in parts:
                if any(r.variable is v for r in parts[reader][1].reads):
                    return False
            elif self._saves(reader) <= 0 or len(self._known_outputs(reader, blocks)) < len(reader.outputs):
                return False
        return True

    def _between(self, s: SubStage, outputs: Iterable[Variable], blocks: ActiveBlocks) -> list[Variable]:
        """Values of the SubStage, known outside of the blocks, that the outputs are made of."""
        ends = self.lists.known(blocks).keys() & {f.output for f in s.functions}
        inside = reached(outputs, lambda v: v.creator.inputs if v.creator in s.body and v not in ends else ())
        return [v for v in inside if v in ends]

    def worth_splitting(self, first: SubStage, second: SubStage) -> bool:
        """Whether the first part runs on blocks, and saves more than starting the second costs."""
        if first not in self.chosen:
            return False
        extra = self._work(second) * self._rounds(second.domain) + self.cost.stage
        return self._saves(first) - self._fills(first) > extra

    def agree(self, first: SubStage, second: SubStage) -> bool:
        """Whether both parts of what was split run on one list, so that one SubStage might have done."""
        return first in self.chosen and self.chosen.get(second) is self.chosen[first]

    def _follow_readers(self, s: SubStage) -> None:
        """Runs a SubStage on a list of its readers or of others, or on that of all rasters, if its outputs
        are read under that list alone, or are known outside of it."""
        if s in self.chosen or self._saves(s) <= 0 or self.limits.violation(_dispatched(s)) is not None:
            return
        users = [self.chosen.get(r) for v in s.outputs for r, _ in self.readers.get(v, ())]
        others = (*self.chosen.values(), *self.lists.from_all(s.domain))
        for blocks in dict.fromkeys((*users, *others)) if any(users) else ():
            if blocks is None or blocks.domain != s.domain:
                continue
            if self._suits(s, blocks):
                self.chosen[s] = blocks
                return

    def _suits(self, s: SubStage, blocks: ActiveBlocks) -> bool:
        """Whether nothing is missing of a SubStage that runs on the blocks alone."""
        known = self._known_outputs(s, blocks)
        if not all(v in known or self._read_under(v, blocks) for v in s.outputs):
            return False
        return self._independent(self.sub_stages.index(s), blocks)

    def _fill_less(self) -> None:
        """Moves SubStages to the lists of others where that takes less, readers first: one with a few more pixels
        instead of images that have to be filled for readers there."""
        before, gains = dict(self.chosen), sum(self._gains().values())
        for s in reversed(before):
            own = self.chosen[s]

            def gain(blocks: ActiveBlocks, s: SubStage = s) -> float:
                self.chosen[s] = blocks
                return self._saves(s) - self._fills(s)

            over = (b for b in dict.fromkeys(before.values()) if b.domain == s.domain and b is not own)
            found = {b: gain(b) for b in (own, *[b for b in over if self._suits(s, b)])}
            self.chosen[s] = max(found, key=lambda b: found[b])
        if sum(self._gains().values()) <= gains:
            self.chosen = before

    def _gains(self) -> dict[SubStage, float]:
        return {s: self._saves(s) - self._fills(s) for s in self.chosen}

    def _read_under(self, v: Variable, blocks: ActiveBlocks) -> bool:
        """Whether an image is read inside of the blocks alone, at the reader's own pixel, and decides on no
        list. A raster that hits nothing outside may read it there: it discards those fragments."""
        if any(v in b.decided_by for b in {*self.chosen.values()}):
            return False
        if v in self.roots or v.domain != blocks.domain or isinstance(v.creator, ScatterFunction):
            return False
        known = self.lists.known(blocks)
        return all(
            not elsewhere
            and (
                self.lists.within(self.chosen.get(s), blocks)
                or (isinstance(s.work, substage.Raster) and s.functions[0].output in known)
            )
            for s, elsewhere in self.readers.get(v, ())
        )

    # ---- what it costs
    def _filled(self, s: SubStage) -> list[Variable]:
        table = None if s.scatter is None else s.scatter.output
        return [v for v in s.outputs if v is not table and not self._read_under(v, self.chosen[s])]

    def _saves(self, s: SubStage) -> float:
        """Time, in operations, that is saved outside of the list, or of the shortest that there is."""
        if not isinstance(s.work, (substage.Undecided, substage.ScatterDispatch)) or s.replaces or s.fused:
            return 0.0
        blocks = self.chosen.get(s) or self._shortest_over(s.domain)
        if blocks is None:
            return 0.0
        all_pixels = self._work(s)
        some = active_expected(blocks) * all_pixels
        alone = active_expected(replace(blocks, pixels=True)) * (all_pixels + self.cost.fetch)
        return (all_pixels - min(some, alone)) * self._rounds(s.domain) - self.cost.stage

    def _shortest_over(self, domain: Domain) -> ActiveBlocks | None:
        if domain not in self._shortest:
            self._shortest[domain] = min(self.lists.over(domain), key=active_expected, default=None)
        return self._shortest[domain]

    def _work(self, s: SubStage) -> float:
        read = [r.variable for r in s.reads if r.variable.domain == s.domain]
        moved = self.cost.fetch * planes(read) + self.cost.store * planes(s.outputs)
        return moved + sum(operations(f) for f in s.body if not isinstance(f, ScatterFunction))

    def _fills(self, s: SubStage) -> float:
        known = self.lists.known(self.chosen[s])
        filled = self._filled(s)
        if any(v not in known for v in filled):
            return math.inf
        # What outlives the step lies in images, which some devices clear at a fraction of their bandwidth.
        slower = self.cost.bandwidth / self.cost.clear_rate
        each = (slower if v in self.context.fixed else 1.0 for v in filled for _ in v.vtype.planes)
        return self.cost.store * self._rounds(s.domain) * sum(each)

    def _making(self, blocks: ActiveBlocks) -> float:
        return self.cost.fetch * self._rounds(blocks.domain) * planes(blocks.decided_by) + self.cost.stage

    def _rounds(self, domain: Domain) -> int:
        return self.cost.rounds(domain.texels)


def by_pixels(
    blocks: ActiveBlocks, made_of: tuple[BlockHits, ...], users: Iterable[SubStage], judge: Judge
) -> bool:
    """Whether a list of active pixels, one by one, makes its users faster than one of blocks does."""
    ways = [
        ([_listing(b, made_of), *(_dispatched(s, substage.Sparse(b)) for s in users)], 0.0)
        for b in (blocks, replace(blocks, pixels=True))
    ]
    return judge.fastest(ways) == 1


def _listing(blocks: ActiveBlocks, made_of: tuple[BlockHits, ...]) -> SubStage:
    """What makes a list: of what is known of each block, or by looking at its only image."""
    return _looks(substage.ListBlocks(blocks, made_of), () if made_of else blocks.decided_by, blocks.domain)


def _looks(work: substage.Work, images: tuple[Variable, ...], domain: Domain | None = None) -> SubStage:
    reads = tuple(Read(v, Binding.TEXTURE) for v in images)
    return SubStage(work, domain or images[0].domain, (), (), reads, ())


def _dispatched(s: SubStage, sparse: substage.Sparse | None = None) -> SubStage:
    return replace(s, work=substage.ScatterDispatch(sparse=sparse)) if s.scatter else s.as_dispatch(sparse)


# The lists of active blocks that could be made, and the values that are known outside of their blocks.
#
# A list looks at images that are quiet nearly everywhere: rasters, which are -1 where they hit nothing, and
# Functions that declare a ``quiet`` value. Work that reads the texels around its own (by a ``footprint``)
# needs a list with a halo: outside of its blocks the images are quiet within so many pixels as well.

WIDEST = 2
"""Pixels. Work around lines that one raster draws reads its neighbours, and its gradient theirs."""


class BlockLists:
    """The lists over the domains of a schedule. values: what its Functions make of known values.  given:
    Variables that have values before it runs.  stored: those that SubStages of it write.  shared: as in
    ``ActiveBlocks``."""

    def __init__(
        self,
        values: KnownValues,
        given: AbstractSet[Variable],
        stored: AbstractSet[Variable],
        shared: bool,
    ):
        self.functions, self.given, self.stored, self.shared = values.functions, given, stored, shared
        self._values = values
        self._over: dict[Domain, list[ActiveBlocks]] = {}
        self._made: dict[tuple[tuple[tuple[Variable, float], ...], int], ActiveBlocks] = {}
        self._known: dict[ActiveBlocks, tuple[dict[Variable, np.ndarray], ...]] = {}

    def over(self, domain: Domain) -> list[ActiveBlocks]:
        """The lists that could be made over a domain: one from each quiet image, or from an image that was
        computed from it; then one from all of them together; last those from all with halos, if any work has
        a footprint there."""
        if domain not in self._over:
            lists: list[ActiveBlocks] = []
            available: list[tuple[Variable, float]] = []
            for f in self.functions:
                if f.quiet is None or f.output.domain != domain:
                    continue
                if f.output in self.given or f.output in self.stored:
                    available.append((f.output, f.quiet))
                    lists.append(self.made(domain, available[-1:], 0))
                else:
                    lists += self._derived(f)
            if available:
                near = any(
                    0 < f.footprint <= WIDEST and Access.FETCH in f.access
                    for f in self.functions
                    if f.output.domain == domain
                )
                lists += [self.made(domain, available, halo) for halo in range(WIDEST + 1 if near else 1)]
            self._over[domain] = list(dict.fromkeys(lists))
        return self._over[domain]

    def narrowest(self, lists: Sequence[ActiveBlocks]) -> ActiveBlocks | None:
        """The first of the lists, or one within it that looks at Functions which declare that they are quiet.
        Layers of one mesh share the list of the first: they are not that much fewer."""
        if not lists:
            return None
        narrowest = lists[0]
        for b in lists[1:]:
            declared = all(isinstance(v.creator, PixelFunction) for v, _ in b.quiet)
            if declared and self.within(b, narrowest) and not self.within(narrowest, b):
                narrowest = b
        return narrowest

    def from_all(self, domain: Domain) -> list[ActiveBlocks]:
        """Those of the lists that look at the most images, those without a halo first."""
        lists = self.over(domain)
        most = max((len(b.quiet) for b in lists), default=0)
        return [b for b in lists if len(b.quiet) == most]

    def joined(self, chosen: Mapping[SubStage, ActiveBlocks]) -> dict[SubStage, ActiveBlocks]:
        """The choice with fewer lists: one with a halo serves for those with a narrower one, and for others
        with a halo that look at some of its images. It has few more blocks, and each list costs a pass."""
        lists = tuple(dict.fromkeys(chosen.values()))

        def wider(one: ActiveBlocks) -> ActiveBlocks:
            images = set(one.quiet)
            near = [b for b in lists if images == set(b.quiet) or (one.halo and images < set(b.quiet))]
            most = max(near, key=lambda b: len(b.quiet))
            return self.made(
                one.domain, most.quiet, max(b.halo for b in lists if set(b.quiet) <= set(most.quiet))
            )

        return {s: wider(b) for s, b in chosen.items()}

    def known(self, blocks: ActiveBlocks, around: int = 0) -> dict[Variable, np.ndarray]:
        """The values that are known outside of the blocks, and within ``around`` pixels of there."""
        if blocks not in self._known:
            quiet = {v: np.array(value, v.vtype.dtype) for v, value in blocks.quiet}
            self._known[blocks] = self._values.around(quiet, blocks.halo)
        return self._known[blocks][around]

    def within(self, part: ActiveBlocks | None, blocks: ActiveBlocks) -> bool:
        """Whether all blocks of a list are among ``blocks``: what decides it is quiet outside of these."""
        if part is None or part.domain != blocks.domain or part.halo > blocks.halo:
            return False
        known = self.known(blocks, part.halo)
        return all(v in known and known[v] == value for v, value in part.quiet)

    def made(self, domain: Domain, images: Iterable[tuple[Variable, float]], halo: int) -> ActiveBlocks:
        """The list that looks at these images, always the same for the same images and halo."""
        key = tuple(images), halo
        return self._made.setdefault(key, ActiveBlocks(domain, key[0], self.shared, halo))

    def _derived(self, f: Function) -> list[ActiveBlocks]:
        quiet = HIT_NOTHING if isinstance(f, RasterFunction) else np.array(f.quiet)
        (known,) = self._values.around({f.output: quiet}, 0)
        scalars = [v for v in sorted(self.given, key=lambda v: v.id) if v in known and v.vtype.is_scalar]
        return [
            self.made(v.domain, [(v, known[v].item())], 0) for v in scalars if v.domain == f.output.domain
        ]
