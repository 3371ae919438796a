"""Packing: Functions into SubStages, SubStages into Stages (sections 3.3.3, A.8 and A.9)."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

import numpy as np

from ....ad.graph import (
    AccumulateFunction,
    Domain,
    FragmentScatterFunction,
    Function,
    PixelFunction,
    RasterFunction,
    ReduceFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access
from ....errors import PlanError
from ..analysis.context import Context, Uses
from ..analysis.dataflow import Analysis
from ..analysis.known_values import adds_nothing, values_where
from ..analysis.rematerialization import LARGEST_CALLS
from ..core import substage
from ..core.substage import Binding, Read, Stage, SubStage, resources
from ..lowering.fragment_value import FragmentValue
from ..lowering.register_tiles import TiledContraction
from ..lowering.scatter import FaceSum
from ..model.device import Walk, Walks, planes

# Functions to SubStages (paper 3.3.3 and A.8): greedy, from the end of the graph, under the limits.

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
    counts = Counts(context.analysis, context)
    while True:
        counts = _fitting(counts, context)
        try:
            return _pack(counts, fuse, counts.analysis.packed, context.options.runs("choose_lowering"))
        except DoesNotFit as error:  # Functions that have to share a shader
            again = _again(counts.analysis, error.function)
            if not again:
                raise
            counts = Counts(counts.analysis.storing(again), context)


def _fitting(counts: Counts, context: Context) -> Counts:
    """The analysis to pack by. If a Function exceeds the limits together with what it computes again, that is
    stored: at once for all Functions that have nothing of it in common, and for twice as many each time.
    Those that read something else by that are tried again.

    What is computed again besides is decided anew while no more than ``FEW`` Functions do not fit, and
    ``FEW`` times at most: a decision takes as long as packing.
    """
    decided, most = 0, 1
    tried = counts.analysis.packed
    while True:
        before = counts.analysis
        tried = [f for f in tried if _again(before, f)]
        large = misfits(tried, counts, context.options.runs("choose_lowering"))
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
    apart, behind = [], set[Function]()
    for f in reversed(functions):
        own = reached(_again(analysis, f), lambda g: _again(analysis, g)).keys()
        if behind.isdisjoint(own):
            apart.append(f)
            behind |= own
    return apart


def _again(analysis: Analysis, f: Function) -> frozenset[Function]:
    """The makers of inputs that a Function computes again."""
    return analysis.recomputed.intersection(edge.maker for edge in f.edges)


def _pack(counts: Counts, fuse: bool, functions: Sequence[Function], dispatch: bool) -> list[SubStage]:
    """SubStages of the Functions (producers first), in the order of execution.

    dispatch: a SubStage that would exceed the attachments of a subpass becomes a compute shader, which may
    have more images, instead of being split. One that overwrites a leaf may always, and so may one of a
    single Function, which cannot be split.

    Functions that count in one part of an image alone share no SubStage with others (``parts_of``).

    A Function is *ready* when everything that reads it is packed, a raster when what reads its FragmentValues
    is, too. The open SubStage takes ready Functions of its mode and domain, unless one of its members fetches
    other texels of the newcomer or a limit would be exceeded; when none fits, it is closed. The ready
    Function of the smallest image opens the next, among equals the one nearest to the end: the more is done
    on small images, the more of the large ones is ready to share a shader.

    On devices that run one invocation after the other a SubStage looks ahead: it may exceed the limits of
    images for a while, and gives back what it took after it fitted last. The last scatter of a domain gives
    back what it took since it read the fewest planes of others, if that saves more than a Stage takes: they
    have no scatter left to join, so that they share a shader with what is given back.
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

    def makers(f: Function) -> list[Function]:
        """What waits for a Function and the values of its fragments, once for each value they read."""
        values = (
            x
            for g in (*with_it.get(f, ()), f)
            for x in dict.fromkeys(x for x, _, _ in analysis.stored_inputs(g))
        )
        waiting = (drawn.get(x.creator, x.creator) for x in values if x.creator)
        return [maker for maker in waiting if maker in pending and maker is not f]

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
        while heap and group.length < counts.largest and group.too_long < CROWDED and in_a_row < FIRST_FIT:
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
            scattering = isinstance(group.work, substage.ScatterDispatch)  # takes makers of its values, too
            for k in (key, (PixelFunction, *key[1:])) if scattering else (key,):
                for newcomer in ready.pop(k, []):
                    heapq.heappush(heap, newcomer)
        mixed = isinstance(group.work, substage.ScatterDispatch)
        for entry in _put_back(ready, key, heap, mixed) + refused:
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
    """Puts back what a closed SubStage did not look at; returns what cannot be put back as a whole."""
    if not heap or mixed:
        return heap
    others = ready.pop(key, [])
    ready[key], others = (heap, others) if len(heap) >= len(others) else (others, heap)
    return others


def _key(counts: Counts, f: Function) -> tuple:
    """What ready Functions of one SubStage have in common; rasters and scatters start one each."""
    kind = PixelFunction if isinstance(f, PixelFunction) else counts.analysis.position[f]
    return kind, f.working_domain, counts.parts.get(f)


# The open SubStage of the packer: which Functions may join it under the limits of a device.

LARGEST_SHADER = 640
"""The most Functions of one shader, those computed again included. The time that drivers take for hundreds of
sines grows with their square: up to 256 2 to 5 ms for each, for four times as many 10 to 15 ms. But a glTF
material under an environment map has 570 cheap ones, which compile as fast in one shader as in four, and one
keeps the values in between in registers. CPU drivers have no registers to run out of. They get twice as many,
in which roots, sines and longer ones (of so many operations) count ``SLOW``."""
SLOW, SLOW_OPERATIONS = 4, 9.0

AHEAD = 2
"""Where SubStages look ahead, the images of an open one may exceed the limits by this factor for a while: its
backward half reads many values that the forward half, which follows, makes."""

LARGEST_LOOPS = 16
"""The most loops of one shader, those in what it makes again at other texels included. The time that LLVM
takes for loops side by side grows with the cube of their number: 0.2 s for 9, 1.5 for 25, 15 for 49, the
gradients of a learned 7x7 kernel."""


class DoesNotFit(PlanError):
    """A Function exceeds a limit even alone."""

    def __init__(self, function: Function, sentence: str):
        super().__init__(f"{function!r} made at {function.where} cannot run on this device: {sentence}")
        self.function = function


WORKS: tuple[tuple[type[Function], type[substage.Work]], ...] = (
    (TiledContraction, substage.TiledCompute),
    (FaceSum, substage.FaceSums),
    (ScatterFunction, substage.ScatterDispatch),
    (RasterFunction, substage.Raster),
    (FragmentValue, substage.Raster),
    (AccumulateFunction, substage.Accumulate),
    (FragmentScatterFunction, substage.FragmentScatter),
    (PixelFunction, substage.Undecided),
)
"""The kind of work of a SubStage that starts with a Function of a kind."""


def work_of(function: Function) -> substage.Work:
    """The kind of work of a SubStage that starts with a Function."""
    work = next((work for kind, work in WORKS if isinstance(function, kind)), None)
    if work is None:
        raise TypeError(f"there is no work for the kind of {function!r}; subclass one of the kinds")
    return work()


class Counts:
    """What the groups of a schedule share: what is stored, and how much each Function makes again."""

    def __init__(self, analysis: Analysis, context: Context):
        again = analysis.recomputed | analysis.inlined.functions
        self.analysis, self.limits, self.cost = analysis, context.limits, context.cost
        self.wide = context.cost.wide
        self.largest = LARGEST_SHADER * (1 if self.wide else 2)
        self.ahead = None if context.cost.wide else context.limits.times(AHEAD)
        self.parts = parts_of(analysis, context.functions)
        self.roots = frozenset(analysis.roots)
        self.updates = frozenset(new for _, new in context.updates)
        self.saving = any(f.saves_memory for f in analysis.order)
        free = again - analysis.recomputed
        self._walks = Walks(again.__contains__, context.limits.max_loop_iterations, free=free)
        self._shares: list[tuple[Walk, int] | None] = [None] * len(analysis.order)

    def shares(self, f: Function) -> tuple[Walk, int]:
        """What a Function adds to a shader: its walk, and its length in Functions that compile fast."""
        number = self.analysis.position[f]
        found = self._shares[number]
        if found is None:
            length = 1 if self.wide or f.operations < SLOW_OPERATIONS else SLOW
            found = self._shares[number] = self._walks.of(f), length
        return found


def misfits(functions: Iterable[Function], counts: Counts, dispatch: bool) -> list[Function]:
    """The Functions that exceed a limit even alone."""
    large = []
    for f in functions:
        try:
            Group(counts, dispatch).accept(f)
        except DoesNotFit:
            large.append(f)
    return large


class Group:
    """The open SubStage: which images it reads and writes, counted up and down as Functions join."""

    def __init__(self, counts: Counts, dispatch: bool):
        self.counts, self.analysis, self.limits = counts, counts.analysis, counts.limits
        self.dispatch = dispatch
        self.members: dict[Function, None] = {}
        self.reads: dict[Variable, Binding] = {}
        self.outputs: dict[Variable, None] = {}
        self.count = dict.fromkeys(Binding, 0)
        self.written = 0
        self.looping = 0  # iterations of all loops of an invocation
        self.called = 0.0  # Functions in what is made again at other texels
        self.loops = 0.0  # those of the body, and in what is made again at other texels
        self.too_long = 0  # Functions refused because the shader would grow too long
        self.fits = True  # whether the limits hold; else more Functions may mend that
        self.body: set[Function] = set()  # the members and what is made again for them at the same pixel
        self.length = 0  # of the body
        self.axes: set[str] = set()
        self.fetched: set[Variable] = set()
        self.work: substage.Work = substage.Undecided()
        self.domain = Domain((1, 1), 1)

    def accept(self, f: Function) -> bool:
        """Take ``f`` in if it fits. Raises PlanError when it does not fit even alone."""
        if not self.members:
            self.work, self.domain = work_of(f), f.working_domain
        if f.output in self.fetched or (self.members and f.output.domain != self.domain):
            return False  # a member reads other texels of it
        if isinstance(f, PixelFunction) and f.quiet is not None and f.output in self.reads:
            return False  # it decides on which blocks the members run
        if self.members and self.counts.saving and not self._beside(f):
            return False  # values of several segments would have to live at once
        body = self.analysis.body_of(f, self.domain, self.body)
        looping, called, more, length = self.looping, self.called, 0.0, self.length
        for g in body:
            (iterations, functions, loops), longer = self.counts.shares(g)
            looping, called, more, length = (
                looping + iterations,
                called + functions,
                more + loops,
                length + longer,
            )
        long = length > self.counts.largest or called > LARGEST_CALLS
        long |= more > 0 and self.loops + more > LARGEST_LOOPS
        if self.members and long:
            self.too_long += 1
            return False
        if called > LARGEST_CALLS:
            raise DoesNotFit(f, f"it makes again {called:.0f} Functions at other texels; store what it reads")
        own = self.reads.get(f.output)
        if isinstance(f, ReduceFunction) and not self.axes <= {f.axis}:
            return False  # one view and many must pack alike: over the batch apart from inside a tile
        changed: dict[Variable, Binding] = {}
        count = dict(self.count)
        if own is not None:
            count[own] -= len(f.output.vtype.planes)
        for x, access, _ in self.analysis.stored_inputs(f):
            before, wanted = changed.get(x, self.reads.get(x)), self._binding(x, access)
            after = wanted if before in (None, wanted) else Binding.TEXTURE  # a texture serves both
            if after is not before:
                count[after] += len(x.vtype.planes)
                if before is not None:
                    count[before] -= len(x.vtype.planes)
                changed[x] = after
        leaves_group = f.output in self.counts.roots or any(
            u not in self.members for u in self.analysis.users(f)
        )
        written = self.written + (len(f.output.vtype.planes) if leaves_group else 0)

        used: dict[str, int] = {}

        def violation(work: substage.Work, count: Mapping[Binding, int]) -> str | None:
            used.update(resources(work, count, written, written if work.draws else 0))
            return limits.violation_of({**used, "loop_iterations": looping})

        dispatch = self.dispatch or f.output in self.counts.updates
        undecided, limits = isinstance(self.work, substage.Undecided), self.limits
        few = written <= limits.max_color_attachments and looping <= limits.max_loop_iterations
        if undecided and few and written + sum(count.values()) <= limits.images_in_any_case:
            sentence = None
        elif undecided:
            sentence = violation(substage.Fragment(), count)
            if sentence and (dispatch or not self.members):
                dispatch = True
                fetched = count[Binding.TEXTURE] + count[Binding.ATTACHMENT]
                sentence = violation(
                    substage.Compute(), {**count, Binding.TEXTURE: fetched, Binding.ATTACHMENT: 0}
                )
        else:
            sentence = violation(self.work, count)
            if sentence and self.rasterizes and not self.members:
                self._as_textures(count, changed)
                sentence = violation(self.work, count)
        if sentence and self.members:
            ahead = self.counts.ahead if dispatch and not self.rasterizes else None
            if ahead is None or ahead.violation_of({**used, "loop_iterations": looping}):
                return False
        elif sentence:
            raise DoesNotFit(f, sentence)
        self.fits = sentence is None
        self.members[f] = None
        self.body |= body
        self.length = length
        self.dispatch = dispatch
        if isinstance(f, ReduceFunction):
            self.axes.add(f.axis)
        self.reads.pop(f.output, None)
        self.reads.update(changed)
        self.fetched.update(x for x, a, _ in self.analysis.stored_inputs(f) if a is not Access.SAME_PIXEL)
        if isinstance(f, ScatterFunction):
            self.fetched.add(f.inputs[0])  # resolving needs the bound too
        self.count, self.written, self.looping, self.called = count, written, looping, called
        self.loops += more
        if leaves_group:
            self.outputs[f.output] = None
        return True

    def _beside(self, f: Function) -> bool:
        """Whether a member reads the Function, or reads an image that it reads."""
        if f.output in self.reads or f.output.domain.size == (1, 1):
            return True
        return any(x in self.reads and x.size != (1, 1) for x, _, _ in self.analysis.stored_inputs(f))

    def _as_textures(self, count: dict[Binding, int], reads: dict[Variable, Binding]) -> None:
        """Binds images that a draw reads at its own pixel as textures, from the largest number of planes on,
        until the attachments fit: it cannot be a dispatch, and no Function of it can be split off. The images
        have to be made in a render pass before."""
        attached = [x for x, binding in reads.items() if binding is Binding.ATTACHMENT]
        for x in sorted(attached, key=lambda x: -len(x.vtype.planes)):
            if count[Binding.ATTACHMENT] <= self.limits.max_input_attachments:
                return
            reads[x] = Binding.TEXTURE
            count[Binding.ATTACHMENT] -= len(x.vtype.planes)
            count[Binding.TEXTURE] += len(x.vtype.planes)

    @property
    def rasterizes(self) -> bool:
        return isinstance(self.work, substage.PrimitiveWork)

    def crossing(self, pending: Container[Function]) -> int:
        """Planes that it reads of ``pending`` Functions, which could join it, at its own pixels."""
        return planes(
            v
            for v in self.reads
            if isinstance(v.creator, PixelFunction)
            and v.creator in pending
            and v.domain == self.domain
            and v not in self.fetched
        )

    def _binding(self, x: Variable, access: Access) -> Binding:
        if access is Access.PULL:
            return Binding.VERTEX
        same = access is Access.SAME_PIXEL and x.domain == self.domain
        adds = isinstance(self.work, substage.Scatter)
        return Binding.ATTACHMENT if same and not adds else Binding.TEXTURE

    def close(self) -> SubStage:
        functions = tuple(sorted(self.members, key=self.analysis.position.__getitem__))
        return SubStage(
            self.work,
            self.domain,
            functions,
            self.analysis.body(functions, self.domain),
            tuple(
                Read(v, b, v in self.fetched)
                for v, b in sorted(self.reads.items(), key=lambda item: item[0].id)
            ),
            tuple(sorted(self.outputs, key=lambda v: v.id)),
        )


# Parts of images: Functions whose values count at the texels of one part alone.
#
# The nodes of a scene share out the pixels, and each kind of them is shaded in its own way. A shader of all
# ways would compute each of them at every pixel. The packer keeps them apart, so that each runs on the blocks
# of its own part (``run_on_active_blocks``).


def parts_of(analysis: Analysis, functions: Sequence[Function]) -> dict[Function, Hashable]:
    """For Functions of the analysis that count in one part alone, the Function that ``divides`` it off; and
    for those that do, what they have in common. functions: of the whole program, producers first."""
    found: dict[Function, Function | None] = {}
    for part in functions:
        if part.divides and part.quiet is not None:
            for f in _inside(analysis, functions, part):
                found[f] = None if f in found else part
    apart: dict[Function, Hashable] = {f: f.working_domain for f in analysis.order if f.divides}
    return {f: part for f, part in found.items() if part is not None} | apart


def _inside(analysis: Analysis, functions: Sequence[Function], part: Function) -> list[Function]:
    """Functions over the domain of a part that are known outside of it, or read only by such ones."""
    follows = {part.output}
    behind = []
    for f in functions:
        if not follows.isdisjoint(f.inputs):
            follows.add(f.output)
            behind.append(f)
        elif not f.inputs:
            behind.append(f)
    known = values_where(behind, {part.output: np.array(part.quiet, part.output.vtype.dtype)})
    graph, domain = analysis.graph, part.output.domain
    # Whether a reader needs the value outside of the part.
    needed = graph.flags(r.creator for r in analysis.roots)
    found = []
    for k in range(len(analysis.order) - 1, -1, -1):
        f = analysis.order[k]
        quiet = f.output in follows and (
            adds_nothing(f, known) if isinstance(f, ScatterFunction) else f.output in known
        )
        inside = f is not part and graph.working[k] == domain and (quiet or not needed[k])
        if inside:
            found.append(f)
        for maker in graph.elsewhere[k] if inside else graph.makers[k]:
            needed[maker] = 1
    return found


# SubStages to Stages (paper A.9): subpasses of equal framebuffers share a render pass.


def pack_stages(sub_stages: Sequence[SubStage], context: Context) -> list[Stage]:
    """Stages in the order of execution: render passes of several subpasses, or one dispatch each.

    Where Stages run again one by one, only SubStages that depend on the same leaves share a Stage.
    """

    def key(s: SubStage) -> Hashable:
        tiling = context.limits.tiling(s.domain)
        return context.dependencies.read_by([s]) if context.incremental else None, tiling.width, tiling.height

    keys = [key(s) if s.draws and not s.replaces else None for s in sub_stages]
    return _in_passes(context.uses, keys, saving=any(f.saves_memory for s in sub_stages for f in s.body))


def one_sub_stage_each(sub_stages: Sequence[SubStage], context: Context) -> list[Stage]:
    """The baseline: Stages of one SubStage each, in the order of execution."""
    return _in_passes(context.uses, [None for _ in sub_stages])


def _in_passes(uses: Uses, keys: Sequence[Hashable], saving: bool = False) -> list[Stage]:
    """Stages in the order of execution. keys: what SubStages of one render pass have in common; None stays
    alone. saving: what makes the fewest bytes live is placed first; otherwise SubStages stay in their order
    where they can.

    Greedy from the end, as for Functions: a SubStage joins the open render pass when everything that reads it
    is placed, it shares an attachment with a member (else the pass would gain nothing), and no image is an
    attachment of one and a texture of another: Vulkan forbids both within one render pass.
    """
    stuck = uses.waits_for_itself
    if stuck is not None:
        raise PlanError(f"the planner found no order of execution: this waits for itself:\n    {stuck}")
    sub_stages, after = uses.sub_stages, uses.later
    pending = [len(later) for later in after]
    before: list[list[int]] = [[] for _ in sub_stages]
    for k, later in enumerate(after):
        for n in later:
            before[n].append(k)
    ready = {k for k, n in enumerate(pending) if n == 0}
    stages: list[Stage] = []
    live: set[Variable] = set()
    while ready:
        first = min(ready, key=lambda k: (_grown(sub_stages[k], live), -k)) if saving else max(ready)
        key = keys[first]
        members: list[int] = []
        textures: set[Variable] = set()
        shared: set[Variable] = set()
        while True:
            fitting = [
                k
                for k in ready
                if not members
                or (
                    key is not None
                    and keys[k] == key
                    and not shared.isdisjoint(_attachments(sub_stages[k]))
                    and textures.isdisjoint(_attachments(sub_stages[k]))
                    and shared.isdisjoint(_textures(sub_stages[k]))
                )
            ]
            if not fitting:
                break
            k = first if not members else max(fitting)
            ready.remove(k)
            members.append(k)
            shared |= _attachments(sub_stages[k])
            textures |= _textures(sub_stages[k])
            for p in before[k]:
                pending[p] -= 1
                if pending[p] == 0:
                    ready.add(p)
            if key is None:
                break
        for k in members:
            live.difference_update(sub_stages[k].outputs)
            live.update(r.variable for r in sub_stages[k].reads)
        stages.append(Stage(tuple(sub_stages[k] for k in reversed(members))))
    return stages[::-1]


def _grown(s: SubStage, live: set[Variable]) -> int:
    """By how many bytes what lives grows where a SubStage is placed before all that is placed already."""

    def size(values: set[Variable]) -> int:
        return sum(4 * v.vtype.components * v.domain.texels for v in values)

    return size({r.variable for r in s.reads if not r.variable.is_leaf} - live) - size(live & {*s.outputs})


def _attachments(s: SubStage) -> set[Variable]:
    return {*s.outputs, *(r.variable for r in s.reads if r.binding is Binding.ATTACHMENT)}


def _textures(s: SubStage) -> set[Variable]:
    return {r.variable for r in s.reads if r.binding is not Binding.ATTACHMENT}
