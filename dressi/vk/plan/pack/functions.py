"""Functions to SubStages (paper 3.3.3 and A.8): greedy, from the end of the graph, under the limits of a device."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import singledispatch

from ....ad.graph import (
    Domain,
    Function,
    PixelFunction,
    RasterFunction,
    ReduceFunction,
    ScatterFunction,
    Variable,
)
from ....ad.types import Access
from ....errors import PlanError
from ..analysis.dataflow import Analysis
from ..analysis.rematerialization import LARGEST_CALLS
from ..context import Context
from ..limits import DeviceLimits
from ..lowering.workgroups import GroupReduction
from ..model.walks import Calls, Walks
from ..substage import (
    Binding,
    Compute,
    Fragment,
    Raster,
    Read,
    Reduction,
    ScatterDispatch,
    SubStage,
    Undecided,
    Work,
    iteration_domain,
    resources,
)

LARGEST_SHADER = 640
"""The most Functions of one shader, those computed again included. The time that drivers take to compile a shader of hundreds
of sines grows with the square of its length: up to 256 2 to 5 ms for each Function, for four times as many 10 to 15 ms. But a
glTF material under an environment map has 570 cheap ones, which compile as fast in one shader as in four; and one keeps the
values in between in registers: a frame takes a third of the processor time on lavapipe, two thirds on SwiftShader."""

CROWDED = 16
"""Functions that are refused because the shader would grow too long, before a SubStage is closed."""

FIRST_FIT = 1000
"""After so many refused Functions in a row a SubStage is closed."""


Entry = tuple[int, int, Function]
"""(level, -position, Function): a ready Function, sorted by when it is its turn."""


class DoesNotFit(PlanError):
    """A Function exceeds a limit even alone."""

    def __init__(self, function: Function, sentence: str):
        super().__init__(f"{function!r} made at {function.where} cannot run on this device: {sentence}")
        self.function = function


def pack_functions(_: Sequence[SubStage], context: Context) -> list[SubStage]:
    """SubStages of all Functions of the schedule, in the order of execution."""
    return _packed(context, fuse=True)


def one_function_each(_: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The baseline: SubStages of one Function each, in the order of execution."""
    return _packed(context, fuse=False)


def as_subpasses(s: SubStage, context: Context) -> list[SubStage] | None:
    """The Functions of a SubStage as several that can all be subpasses; None if one of them cannot."""
    parts = _pack(context.analysis, context, True, s.functions, dispatch=False)
    fit = all(context.limits.violation(part.as_subpass()) is None for part in parts)
    return parts if fit else None


def _packed(context: Context, fuse: bool) -> list[SubStage]:
    """SubStages of all Functions. If a Function exceeds the limits together with what it computes again, that is stored."""
    analysis = context.analysis
    while True:
        try:
            return _pack(analysis, context, fuse, analysis.packed, context.options.choose_lowering)
        except DoesNotFit as error:
            makers = analysis.recomputed.intersection(x.creator for x in error.function.inputs)
            if not makers:
                raise
            analysis = analysis.storing(makers)


def _pack(
    analysis: Analysis, context: Context, fuse: bool, functions: Sequence[Function], dispatch: bool
) -> list[SubStage]:
    """SubStages of the Functions (producers first), in the order of execution.

    dispatch: a SubStage that would exceed the attachments of a subpass becomes a compute shader, which may have more
    images, instead of being split. One that overwrites a leaf may always, and so may one of a single Function, which
    cannot be split.

    A Function is *ready* when everything that reads it is packed. The open SubStage takes ready Functions of its
    mode and domain, unless one of its members fetches other texels of the newcomer or a limit would be exceeded;
    when none fits, it is closed. The ready Function of the smallest image opens the next, among equals the one
    nearest to the end: the more is done on small images, the more of the large ones is ready to share a shader.
    """
    limits = context.limits
    updates = frozenset(new for _, new in context.updates)
    levels = analysis.levels
    again = analysis.recomputed | analysis.inlined.functions
    walks = Walks(lambda v: v.creator not in again, limits.max_loop_iterations)
    calls = Calls(lambda v: v.creator not in analysis.recomputed)
    inside = set(functions)
    pending = {f: sum(u in inside for u in analysis.users[f]) for f in functions}
    ready: dict[tuple, list[Entry]] = {}

    def push(f: Function) -> None:
        entry = (levels[f], -analysis.position[f], f)
        heapq.heappush(ready.setdefault(_key(analysis, f), []), entry)

    for f in functions:
        if pending[f] == 0:
            push(f)

    def newcomers(group: _Group, key: tuple) -> list[Entry]:
        """Ready Functions that may join: of the group's own key; and a scatter takes the makers of its values."""
        keys = [key, (PixelFunction, group.domain)] if group.scatters else [key]
        return [entry for k in keys for entry in ready.pop(k, [])]

    roots = set(analysis.roots)
    closed: list[SubStage] = []
    while ready:
        key = min(ready, key=lambda k: (_texels(k[1]), *ready[k][0][:2]))
        heap = ready.pop(key)
        group = _Group(analysis, walks, calls, limits, roots, updates, dispatch)
        refused: list[Entry] = []
        in_a_row = 0
        while heap and not group.full and group.too_long < CROWDED and in_a_row < FIRST_FIT:
            entry = heapq.heappop(heap)
            if not group.accept(entry[2]):
                refused.append(entry)
                in_a_row += 1
                continue
            in_a_row = 0
            for x in dict.fromkeys(x for x, _ in analysis.stored_inputs(entry[2])):
                maker = x.creator
                if maker in pending:
                    pending[maker] -= 1
                    if pending[maker] == 0:
                        push(maker)
            if not fuse or group.rasterizes:
                break
            for entry in newcomers(group, key):
                heapq.heappush(heap, entry)
        for entry in _put_back(ready, key, heap, group.scatters) + refused:
            heapq.heappush(ready.setdefault(_key(analysis, entry[2]), []), entry)
        closed.append(group.close())
    return closed[::-1]


def _put_back(ready: dict[tuple, list[Entry]], key: tuple, heap: list[Entry], mixed: bool) -> list[Entry]:
    """Puts back the entries that a closed SubStage did not look at; returns those that cannot be put back as a whole."""
    if not heap or mixed:
        return heap
    others = ready.pop(key, [])
    ready[key], others = (heap, others) if len(heap) >= len(others) else (others, heap)
    return others


def _texels(domain: Domain) -> tuple[int, int]:
    """Texels of a tile first, so that one view and many pack in the same order."""
    return domain.size[0] * domain.size[1], domain.batch


@singledispatch
def work_of(function: Function) -> Work:
    """The kind of work of a SubStage that starts with a Function."""
    raise TypeError(f"there is no work for the kind of {function!r}; subclass one of the kinds")


@work_of.register
def _(function: PixelFunction) -> Work:
    return Undecided()


@work_of.register
def _(function: GroupReduction) -> Work:
    return Reduction()


@work_of.register
def _(function: ScatterFunction) -> Work:
    return ScatterDispatch()


@work_of.register
def _(function: RasterFunction) -> Work:
    return Raster()


def _key(analysis: Analysis, f: Function) -> tuple:
    """What ready Functions of one SubStage have in common; rasters and scatters start one each."""
    domain = iteration_domain(f)
    return (PixelFunction, domain) if isinstance(f, PixelFunction) else (analysis.position[f], domain)


class _Group:
    """The open SubStage: which images it reads and writes, counted up and down as Functions join."""

    def __init__(
        self,
        analysis: Analysis,
        walks: Walks,
        calls: Calls,
        limits: DeviceLimits,
        roots: set[Variable],
        updates: AbstractSet[Variable],
        dispatch: bool,
    ):
        self.analysis, self.walks, self.calls = analysis, walks, calls
        self.limits, self.roots = limits, roots
        self.updates, self.dispatch = updates, dispatch
        self.members: dict[Function, None] = {}
        self.reads: dict[Variable, Binding] = {}
        self.outputs: dict[Variable, None] = {}
        self.count = dict.fromkeys(Binding, 0)
        self.written = 0
        self.looping = 0  # iterations of all loops of an invocation
        self.called = 0.0  # Functions in what is made again at other texels
        self.too_long = 0  # Functions refused because the shader would grow too long
        self.body: set[Function] = set()  # the members and what is made again for them at the same pixel
        self.axes: set[str] = set()
        self.fetched: set[Variable] = set()
        self.work: Work = Undecided()
        self.domain = Domain((1, 1), 1)

    def accept(self, f: Function) -> bool:
        """Take ``f`` in if it fits. Raises PlanError when it does not fit even alone."""
        if not self.members:
            self.work, self.domain = work_of(f), iteration_domain(f)
        if f.output in self.fetched or (self.members and f.output.domain != self.domain):
            return False  # a member reads other texels of it
        body = self.analysis.body_of(f, self.domain, self.body)
        called = self.called + sum(self.calls.of(g) for g in body)
        long = len(self.body) + len(body) > LARGEST_SHADER or called > LARGEST_CALLS
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
        for x, access in self.analysis.stored_inputs(f):
            before = changed.get(x, self.reads.get(x))
            after = _wider(before, self._binding(x, access))
            if after is not before:
                planes = len(x.vtype.planes)
                count[after] += planes
                if before is not None:
                    count[before] -= planes
                changed[x] = after
        leaves_group = f.output in self.roots or any(u not in self.members for u in self.analysis.users[f])
        written = self.written + (len(f.output.vtype.planes) if leaves_group else 0)
        looping = self.looping + sum(self.walks.of(g) for g in body)

        def violation(work: Work, count: Mapping[Binding, int]) -> str | None:
            used = resources(work, count, written, written if work.draws else 0)
            return self.limits.violation_of({**used, "loop_iterations": looping})

        dispatch = self.dispatch or f.output in self.updates
        if isinstance(self.work, Undecided):
            sentence = violation(Fragment(), count)
            if sentence and (dispatch or not self.members):
                dispatch = True
                fetched = count[Binding.TEXTURE] + count[Binding.ATTACHMENT]
                sentence = violation(Compute(), {**count, Binding.TEXTURE: fetched, Binding.ATTACHMENT: 0})
        else:
            sentence = violation(self.work, count)
        if sentence and self.members:
            return False
        if sentence:
            raise DoesNotFit(f, sentence)
        self.members[f] = None
        self.body |= body
        self.dispatch = dispatch
        if isinstance(f, ReduceFunction):
            self.axes.add(f.axis)
        self.reads.pop(f.output, None)
        self.reads.update(changed)
        self.fetched.update(x for x, a in self.analysis.stored_inputs(f) if a is not Access.SAME_PIXEL)
        if isinstance(f, ScatterFunction):
            self.fetched.add(f.inputs[0])  # resolving needs the bound too
        self.count, self.written, self.looping, self.called = count, written, looping, called
        if leaves_group:
            self.outputs[f.output] = None
        return True

    @property
    def scatters(self) -> bool:
        return isinstance(self.work, ScatterDispatch)

    @property
    def rasterizes(self) -> bool:
        return isinstance(self.work, Raster)

    @property
    def full(self) -> bool:
        return len(self.body) >= LARGEST_SHADER

    def _binding(self, x: Variable, access: Access) -> Binding:
        if access is Access.PULL:
            return Binding.VERTEX
        same = access is Access.SAME_PIXEL and x.domain == self.domain
        return Binding.ATTACHMENT if same and not self.scatters else Binding.TEXTURE

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


def _wider(a: Binding | None, b: Binding) -> Binding:
    """One binding for two uses of an image: a texture serves both."""
    return b if a is None or a is b else Binding.TEXTURE
