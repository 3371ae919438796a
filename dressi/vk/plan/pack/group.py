"""The open SubStage of the packer: which Functions may join it under the limits of a device."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

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
from ....ad.types import Access
from ....errors import PlanError
from ..analysis.dataflow import Analysis
from ..analysis.parts import parts_of
from ..analysis.rematerialization import LARGEST_CALLS
from ..context import Context
from ..lowering.face_sum import FaceSum
from ..lowering.fragment_value import FragmentValue
from ..lowering.tiling.strips import TiledContraction
from ..model.cost import planes
from ..model.walks import Walk, Walks
from ..substage import (
    Accumulate,
    Binding,
    Compute,
    FaceSums,
    Fragment,
    FragmentScatter,
    PrimitiveWork,
    Raster,
    Read,
    Scatter,
    ScatterDispatch,
    SubStage,
    TiledCompute,
    Undecided,
    Work,
    resources,
)

LARGEST_SHADER = 640
"""The most Functions of one shader, those computed again included. The time that drivers take for hundreds of sines grows with
their square: up to 256 2 to 5 ms for each, for four times as many 10 to 15 ms. But a glTF material under an environment map
has 570 cheap ones, which compile as fast in one shader as in four, and one keeps the values in between in registers. CPU
drivers have no registers to run out of. They get twice as many, in which roots, sines and longer ones (of so many operations)
count ``SLOW``."""
SLOW, SLOW_OPERATIONS = 4, 9.0

AHEAD = 2
"""Where SubStages look ahead, the images of an open one may exceed the limits by this factor for a while: its backward half
reads many values that the forward half, which follows, makes."""

LARGEST_LOOPS = 16
"""The most loops of one shader, those in what it makes again at other texels included. The time that LLVM takes for loops side
by side grows with the cube of their number: 0.2 s for 9, 1.5 for 25, 15 for 49, the gradients of a learned 7x7 kernel."""


class DoesNotFit(PlanError):
    """A Function exceeds a limit even alone."""

    def __init__(self, function: Function, sentence: str):
        super().__init__(f"{function!r} made at {function.where} cannot run on this device: {sentence}")
        self.function = function


WORKS: tuple[tuple[type[Function], type[Work]], ...] = (
    (TiledContraction, TiledCompute),
    (FaceSum, FaceSums),
    (ScatterFunction, ScatterDispatch),
    (RasterFunction, Raster),
    (FragmentValue, Raster),
    (AccumulateFunction, Accumulate),
    (FragmentScatterFunction, FragmentScatter),
    (PixelFunction, Undecided),
)
"""The kind of work of a SubStage that starts with a Function of a kind."""


def work_of(function: Function) -> Work:
    """Of a SubStage that starts with a Function."""
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
        """What a Function adds to a shader, and to its length, in Functions that drivers compile fast. Counted once for all groups."""
        number = self.analysis.position[f]
        found = self._shares[number]
        if found is None:
            length = 1 if self.wide or f.operations < SLOW_OPERATIONS else SLOW
            found = self._shares[number] = self._walks.of(f), length
        return found


def misfits(functions: Iterable[Function], counts: Counts, dispatch: bool) -> list[Function]:
    """The Functions that exceed a limit even alone."""
    found = []
    for f in functions:
        try:
            Group(counts, dispatch).accept(f)
        except DoesNotFit:
            found.append(f)
    return found


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
        self.work: Work = Undecided()
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
            before = changed.get(x, self.reads.get(x))
            after = _wider(before, self._binding(x, access))
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

        def violation(work: Work, count: Mapping[Binding, int]) -> str | None:
            used.update(resources(work, count, written, written if work.draws else 0))
            return limits.violation_of({**used, "loop_iterations": looping})

        dispatch = self.dispatch or f.output in self.counts.updates
        undecided, limits = isinstance(self.work, Undecided), self.limits
        few = written <= limits.max_color_attachments and looping <= limits.max_loop_iterations
        if undecided and few and written + sum(count.values()) <= limits.images_in_any_case:
            sentence = None
        elif undecided:
            sentence = violation(Fragment(), count)
            if sentence and (dispatch or not self.members):
                dispatch = True
                fetched = count[Binding.TEXTURE] + count[Binding.ATTACHMENT]
                sentence = violation(Compute(), {**count, Binding.TEXTURE: fetched, Binding.ATTACHMENT: 0})
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
        """Binds images that a draw reads at its own pixel as textures, from the largest number of planes on, until the attachments
        fit: it cannot be a dispatch, and no Function of it can be split off. The images have to be made in a render pass before."""
        attached = [x for x, binding in reads.items() if binding is Binding.ATTACHMENT]
        for x in sorted(attached, key=lambda x: -len(x.vtype.planes)):
            if count[Binding.ATTACHMENT] <= self.limits.max_input_attachments:
                return
            reads[x] = Binding.TEXTURE
            count[Binding.ATTACHMENT] -= len(x.vtype.planes)
            count[Binding.TEXTURE] += len(x.vtype.planes)

    @property
    def scatters(self) -> bool:
        return isinstance(self.work, ScatterDispatch)

    @property
    def rasterizes(self) -> bool:
        return isinstance(self.work, PrimitiveWork)

    @property
    def full(self) -> bool:
        return self.length >= self.counts.largest

    def crossing(self, pending: Container[Function]) -> int:
        """Planes that it reads of Functions which could join it, at its own pixels. pending: the Functions that no SubStage has
        yet."""
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
        adds = isinstance(self.work, Scatter)
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


def _wider(a: Binding | None, b: Binding) -> Binding:
    """One binding for two uses of an image: a texture serves both."""
    return b if a is None or a is b else Binding.TEXTURE
