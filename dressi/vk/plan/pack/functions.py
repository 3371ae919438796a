"""Functions to SubStages (paper 3.3.3 and A.8): greedy, from the end of the graph, under the limits of a device."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence

from ....ad.graph import Function, PixelFunction, ScatterFunction
from ....ad.traversal import reached
from ..analysis.dataflow import Analysis
from ..context import Context
from ..lowering.fragment_value import FragmentValue
from ..substage import SubStage
from .group import Counts, DoesNotFit, Group, misfits

CROWDED = 16
"""Functions that are refused because the shader would grow too long, before a SubStage is closed."""
FIRST_FIT = 1000
"""After so many refused Functions in a row a SubStage is closed."""
FEW = 8
"""Functions that do not fit, up to which what is computed again is decided anew, and how often in all."""

Entry = tuple[int, int, Function]
"""(level, -position, Function): a ready Function, sorted by when it is its turn."""
Taken = tuple[Function, list[Function]]
"""A Function that an open SubStage took, and the makers of its inputs that got ready by that."""


def pack_functions(_: Sequence[SubStage], context: Context) -> list[SubStage]:
    """SubStages of all Functions of the schedule, in the order of execution."""
    return _packed(context, fuse=True)


def one_function_each(_: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The baseline: SubStages of one Function each, in the order of execution."""
    return _packed(context, fuse=False)


def as_subpasses(s: SubStage, context: Context) -> list[SubStage] | None:
    """The Functions of a SubStage as several that can all be subpasses; None if one of them cannot."""
    parts = _pack(Counts(context.analysis, context), True, s.functions, dispatch=False)
    fit = all(context.limits.violation(part.as_subpass()) is None for part in parts)
    return parts if fit else None


def _packed(context: Context, fuse: bool) -> list[SubStage]:
    """SubStages of all Functions."""
    counts = Counts(context.analysis, context)
    while True:
        counts = _fitting(counts, context)
        try:
            return _pack(counts, fuse, counts.analysis.packed, context.options.choose_lowering)
        except DoesNotFit as error:  # Functions that have to share a shader
            again = _again(counts.analysis, error.function)
            if not again:
                raise
            counts = Counts(counts.analysis.storing(again), context)


def _fitting(counts: Counts, context: Context) -> Counts:
    """The analysis to pack by. If a Function exceeds the limits together with what it computes again, that is stored:
    at once for all Functions that have nothing of it in common, and for twice as many each time. Those that read something
    else by that are tried again.

    What is computed again besides is decided anew while no more than ``FEW`` Functions do not fit, and ``FEW`` times at most:
    a decision takes as long as packing.
    """
    decided, most = 0, 1
    tried = counts.analysis.packed
    while True:
        before = counts.analysis
        tried = [f for f in tried if _again(before, f)]
        large = misfits(tried, counts, context.options.choose_lowering)
        if not large:
            return counts
        some = {*_apart(large, before), *large[-most:]}
        stored = frozenset().union(*(_again(before, f) for f in some))
        decided = decided + 1 if len(large) <= FEW else FEW + 1
        now = before.storing(stored) if decided <= FEW else before.recomputing(before.recomputed - stored)
        counts, most = Counts(now, context), 2 * most
        packed, left = {*before.packed}, {*large}
        tried = [
            f
            for f in now.packed
            if f in left or f not in packed or now.stored_inputs(f) != before.stored_inputs(f)
        ]


def _apart(functions: Sequence[Function], analysis: Analysis) -> list[Function]:
    """Those of the Functions, the last ones first, that compute nothing again which one before them does."""
    found, behind = [], set[Function]()
    for f in reversed(functions):
        own = reached(_again(analysis, f), lambda g: _again(analysis, g)).keys()
        if behind.isdisjoint(own):
            found.append(f)
            behind |= own
    return found


def _again(analysis: Analysis, f: Function) -> frozenset[Function]:
    """The makers of inputs that a Function computes again."""
    return analysis.recomputed.intersection(edge.maker for edge in f.edges)


def _pack(counts: Counts, fuse: bool, functions: Sequence[Function], dispatch: bool) -> list[SubStage]:
    """SubStages of the Functions (producers first), in the order of execution.

    dispatch: a SubStage that would exceed the attachments of a subpass becomes a compute shader, which may have more
    images, instead of being split. One that overwrites a leaf may always, and so may one of a single Function, which
    cannot be split.

    Functions that count in one part of an image alone share no SubStage with others (``parts_of``).

    A Function is *ready* when everything that reads it is packed, a raster when what reads its FragmentValues is, too. The
    open SubStage takes ready Functions of its mode and domain, unless one of its members fetches other texels of the newcomer
    or a limit would be exceeded; when none fits, it is closed. The ready Function of the smallest image opens the next, among
    equals the one nearest to the end: the more is done on small images, the more of the large ones is ready to share a shader.

    On devices that run one invocation after the other a SubStage looks ahead: it may exceed the limits of images for a while,
    and gives back what it took after it fitted last. The last scatter of a domain gives back what it took since it read the
    fewest planes of others, if that saves more than a Stage takes: they have no scatter left to join, so that they share a
    shader with what is given back.
    """
    analysis = counts.analysis
    inside = set(functions)
    drawn: dict[Function, Function] = {f: f.raster for f in functions if isinstance(f, FragmentValue)}
    with_it: dict[Function, list[Function]] = {}
    for f, raster in drawn.items():
        with_it.setdefault(raster, []).append(f)
    pending = dict.fromkeys((f for f in functions if f not in drawn), 0)
    for f in functions:
        maker = drawn.get(f, f)
        pending[maker] += sum(u in inside and drawn.get(u) is not maker for u in analysis.users(f))
    ready: dict[tuple, list[Entry]] = {}

    def push(f: Function) -> None:
        number = analysis.position[f]
        entry = (analysis.levels[number], -number, f)
        heapq.heappush(ready.setdefault(_key(counts, f), []), entry)

    for f, users in pending.items():
        if users == 0:
            push(f)

    def newcomers(group: Group, key: tuple) -> list[Entry]:
        """Ready Functions that may join: of the group's own key; and a scatter takes the makers of its values."""
        keys = [key, (PixelFunction, *key[1:])] if group.scatters else [key]
        return [entry for k in keys for entry in ready.pop(k, [])]

    def makers(f: Function) -> list[Function]:
        """What waits for a Function, and for the values that its fragments make; once for each value that these read."""
        values = (
            x
            for g in (*with_it.get(f, ()), f)
            for x in dict.fromkeys(x for x, _, _ in analysis.stored_inputs(g))
        )
        found = (drawn.get(x.creator, x.creator) for x in values if x.creator)
        return [maker for maker in found if maker in pending and maker is not f]

    def give_back(taken: list[Taken]) -> None:
        """Functions that a SubStage does not take after all are ready again; their makers wait for them."""
        waiting = {maker for _, freed in taken for maker in freed}
        for k in {_key(counts, maker) for maker in waiting}.intersection(ready):
            left = [entry for entry in ready.pop(k) if entry[2] not in waiting]
            if left:
                heapq.heapify(left)
                ready[k] = left
        for f, _ in taken:
            for maker in makers(f):
                pending[maker] += 1
            if f not in waiting:
                push(f)

    scatters = Counter(f.working_domain for f in functions if isinstance(f, ScatterFunction))
    moved = counts.cost.store + counts.cost.fetch
    closed: list[SubStage] = []
    while ready:
        # Texels of a tile first, so that one view and many pack in the same order.
        key = min(ready, key=lambda k: (k[1].area, k[1].tiles, *ready[k][0][:2]))
        heap = ready.pop(key)
        group = Group(counts, dispatch)
        scatters[key[1]] -= isinstance(heap[0][2], ScatterFunction)
        last = isinstance(heap[0][2], ScatterFunction) and not scatters[key[1]] and not counts.wide
        refused: list[Entry] = []
        taken: list[Taken] = []
        # (Functions taken, time of what they read of others)
        fitted, cheapest = (0, 0.0), (0, math.inf)
        in_a_row = 0
        while heap and not group.full and group.too_long < CROWDED and in_a_row < FIRST_FIT:
            entry = heapq.heappop(heap)
            together = (*with_it.get(entry[2], ()), entry[2])
            if not all(group.accept(f) for f in together):
                if len(together) > 1:
                    raise DoesNotFit(together[0], "the subpass that draws its raster would exceed the limits")
                refused.append(entry)
                in_a_row += 1
                continue
            in_a_row = 0
            freed = []
            for maker in makers(entry[2]):
                pending[maker] -= 1
                if pending[maker] == 0:
                    freed.append(maker)
                    push(maker)
            taken.append((entry[2], freed))
            if group.fits:
                crossing = group.crossing(pending) if last else 0
                fitted = len(taken), crossing * moved * counts.cost.rounds(group.domain.area)
                cheapest = min(fitted, cheapest, key=lambda one: one[1])
            if not fuse or group.rasterizes:
                break
            for entry in newcomers(group, key):
                heapq.heappush(heap, entry)
        for entry in _put_back(ready, key, heap, group.scatters) + refused:
            heapq.heappush(ready.setdefault(_key(counts, entry[2]), []), entry)
        kept = (cheapest if fitted[1] - cheapest[1] > counts.cost.stage else fitted)[0]
        if kept < len(taken):
            give_back(taken[kept:])
            group = Group(counts, dispatch)
            for f, _ in taken[:kept]:
                group.accept(f)
        closed.append(group.close())
    return closed[::-1]


def _put_back(ready: dict[tuple, list[Entry]], key: tuple, heap: list[Entry], mixed: bool) -> list[Entry]:
    """Puts back the entries that a closed SubStage did not look at; returns those that cannot be put back as a whole."""
    if not heap or mixed:
        return heap
    others = ready.pop(key, [])
    ready[key], others = (heap, others) if len(heap) >= len(others) else (others, heap)
    return others


def _key(counts: Counts, f: Function) -> tuple:
    """What ready Functions of one SubStage have in common; rasters and scatters start one each."""
    kind = PixelFunction if isinstance(f, PixelFunction) else counts.analysis.position[f]
    return kind, f.working_domain, counts.parts.get(f)
