"""The lists of active blocks that could be made, and the values that are known outside of their blocks.

A list looks at images that are quiet nearly everywhere: rasters, which are -1 where they hit nothing, and Functions that
declare a ``quiet`` value. Work that reads the texels around its own (by a ``footprint``) needs a list with a halo: outside of its
blocks the images are quiet within so many pixels as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from ....ad.graph import Domain, Function, PixelFunction, RasterFunction, Variable
from ....ad.types import Access
from ..lists import ActiveBlocks
from ..substage import SubStage
from .known_values import HIT_NOTHING, KnownValues

WIDEST = 2
"""Pixels. Work around lines that one raster draws reads its neighbours, and its gradient theirs."""


class BlockLists:
    """The lists over the domains of a schedule. functions: of the schedule, producers first.  given: Variables that have values
    before it runs.  stored: those that SubStages of it write.  shared: as in ``ActiveBlocks``."""

    def __init__(
        self,
        functions: Sequence[Function],
        given: AbstractSet[Variable],
        stored: AbstractSet[Variable],
        shared: bool,
    ):
        self.functions, self.given, self.stored, self.shared = functions, given, stored, shared
        self._values = KnownValues(functions)
        self._over: dict[Domain, list[ActiveBlocks]] = {}
        self._made: dict[tuple[tuple[tuple[Variable, float], ...], int], ActiveBlocks] = {}
        self._known: dict[ActiveBlocks, tuple[dict[Variable, np.ndarray], ...]] = {}

    def over(self, domain: Domain) -> list[ActiveBlocks]:
        """The lists that could be made over a domain: one from each quiet image, or from an image that was computed from
        it; then one from all of them together; last those from all with halos, if any work has a footprint there."""
        if domain not in self._over:
            lists: list[ActiveBlocks] = []
            available: list[tuple[Variable, float]] = []
            for f in self.functions:
                if f.quiet is None or f.output.domain != domain:
                    continue
                if f.output in self.given or f.output in self.stored:
                    available.append((f.output, f.quiet))
                    lists.append(self._list(domain, available[-1:], 0))
                else:
                    lists += self._derived(f)
            if available:
                widest = max((self._reach(f) for f in self.functions if f.output.domain == domain), default=0)
                lists += [self._list(domain, available, halo) for halo in range(widest + 1)]
            self._over[domain] = list(dict.fromkeys(lists))
        return self._over[domain]

    def narrowest(self, lists: Sequence[ActiveBlocks]) -> ActiveBlocks | None:
        """The first of the lists, or one within it that looks at Functions which declare that they are quiet. Layers of one
        mesh share the list of the first: they are not that much fewer."""
        if not lists:
            return None
        found = lists[0]
        for b in lists[1:]:
            declared = all(isinstance(v.creator, PixelFunction) for v, _ in b.quiet)
            if declared and self.within(b, found) and not self.within(found, b):
                found = b
        return found

    def from_all(self, domain: Domain) -> list[ActiveBlocks]:
        """Those of the lists that look at the most images, those without a halo first."""
        lists = self.over(domain)
        most = max((len(b.quiet) for b in lists), default=0)
        return [b for b in lists if len(b.quiet) == most]

    def joined(self, chosen: Mapping[SubStage, ActiveBlocks]) -> dict[SubStage, ActiveBlocks]:
        """The choice with fewer lists: one with a halo serves for those with a narrower one, and for others with a halo
        that look at some of its images. It has few more blocks, and each list costs a pass."""
        lists = tuple(dict.fromkeys(chosen.values()))

        def wider(one: ActiveBlocks) -> ActiveBlocks:
            images = set(one.quiet)
            near = [b for b in lists if images == set(b.quiet) or (one.halo and images < set(b.quiet))]
            most = max(near, key=lambda b: len(b.quiet))
            return self._list(
                one.domain, most.quiet, max(b.halo for b in lists if set(b.quiet) <= set(most.quiet))
            )

        return {s: wider(b) for s, b in chosen.items()}

    def fewer(self, blocks: ActiveBlocks, images: Iterable[tuple[Variable, float]]) -> ActiveBlocks:
        """The list with the same halo that looks at these images only."""
        return self._list(blocks.domain, images, blocks.halo)

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

    def _list(self, domain: Domain, images: Iterable[tuple[Variable, float]], halo: int) -> ActiveBlocks:
        key = tuple(images), halo
        return self._made.setdefault(key, ActiveBlocks(domain, key[0], self.shared, halo))

    def _derived(self, f: Function) -> list[ActiveBlocks]:
        quiet = HIT_NOTHING if isinstance(f, RasterFunction) else np.array(f.quiet)
        (known,) = self._values.around({f.output: quiet}, 0)
        scalars = [v for v in sorted(self.given, key=lambda v: v.id) if v in known and v.vtype.is_scalar]
        return [
            self._list(v.domain, [(v, known[v].item())], 0) for v in scalars if v.domain == f.output.domain
        ]

    @staticmethod
    def _reach(f: Function) -> int:
        """Halos to try for a Function."""
        near = 0 < f.footprint <= WIDEST and Access.FETCH in f.access
        return WIDEST if near else 0
