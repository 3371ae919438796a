"""A Plan on a device: its images, pipelines and recorded commands, and its Stages that are out of date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ....ad.graph import Variable
from ...plan.core.lists import BlockHits
from ...plan.core.substage import Binding, FragmentScatter, Stage, SubStage
from ...plan.execution.plan import Plan
from ...plan.execution.sync import Part
from ...plan.glsl.pixel import words_of
from ..device.memory import DeviceBuffer
from ..shaders.pipeline import PipelineCache, PipelineMaker
from ..shaders.render_pass import DrawTarget, make_scatter_target, make_target
from .gate import UNGATED, Cut, Gate, Gating, Item, seconds_at_most
from .record import Prepared, Target, record, record_nothing
from .workspace import Images, Store

RECORDINGS = 8  # command buffers kept for different sets of Stages
Stages = frozenset[int]


class _Recording(NamedTuple):
    """Pieces with their command buffers, which run one after the other. ticket: of the last submission."""

    pieces: list[list[Item]]
    buffers: list[Any]
    ticket: int


class BuiltPlan:
    """Runs a Plan. Stages have numbers, those of ``static`` first. ``stale``: those that do not run in every
    step and whose leaves were sent since they ran. fresh: the outputs hold nothing yet."""

    def __init__(self, plan: Plan, store: Store, gating: Gating = UNGATED, *, fresh: bool = False):
        device, commands = store.device, store.commands
        self.plan, self.device, self.commands, self._fresh = plan, device, commands, fresh
        # A Variable may have another image in the other schedule.
        images, self._depths, self._own = store.images_of(plan)
        buffers, cache = store.workspace.buffers_of(plan), store.workspace.pipelines
        self._lists = {
            made: DeviceBuffer(device, 4 * words_of(made, plan.limits), "list", host=False)
            for s in plan.shaders
            if (made := s.work.makes) is not None
        }
        if device.compiles_late:
            # Shaders are warmed up before lists are made: vertex shaders then read numbers of faces, and all
            # of them exist.
            for buffer in self._lists.values():
                commands.zero(buffer)
        self._gating = gating
        of_static, of_step = images
        # Static work runs only when it is out of date, so it has no gate.
        static = Target(device, commands, plan.limits, of_static, plan.images.ranges[0], self._lists)
        step = replace(static, images=of_step, ranges=plan.images.ranges[1], gate=gating.gate)
        self._buffers = buffers
        self._begin(step, cache)
        if not device.compiles_late:
            self._maker.compile(plan.shaders)
        self._stages = [self._prepare(stage, static) for stage in plan.static.stages]
        self._static_count = len(self._stages)
        self._stages += [self._prepare(stage, step) for stage in plan.step.stages]
        self._maker.finish()
        cache.release_modules()
        sources = [*plan.static.dependencies, *plan.step.dependencies]
        self._always: Stages = frozenset(k for k, own in enumerate(sources) if own is None)
        self._follow: dict[Variable, list[int]] = {}
        for k, own in enumerate(sources):
            for leaf in own or ():
                self._follow.setdefault(leaf, []).append(k)
        self.stale: set[int] = {k for k, own in enumerate(sources) if own is not None}
        self._pace = device.work.pace
        self._cut = Cut(seconds_at_most(plan, device.record, self._pace.bound), self._pace.bound)

    def _begin(self, step: Target, cache: PipelineCache) -> None:
        """Starts what belongs to the images of a step: of the plan itself, or of ``at``."""
        self._step = step
        resources = [shaders.resources for shaders in self.plan.shaders.values()]
        self._maker = PipelineMaker(self.device, cache, resources)
        self._targets: list[DrawTarget] = []
        self._warming: list[Any] = []  # commands that make the driver compile
        self._recordings: OrderedDict[Stages, _Recording] = OrderedDict()
        self._elsewhere: dict[tuple[int, ...], BuiltPlan] = {}

    def at(self, images: Images) -> BuiltPlan:
        """The same plan with other images for leaves that change in every step; all else is shared."""
        key = tuple(id(image) for leaf in images for image in images[leaf])
        if key not in self._elsewhere:
            own = self._step.images
            other = {id(old): new for leaf in images for old, new in zip(own.get(leaf, ()), images[leaf])}
            moved = {
                v: [other.get(id(image), image) for image in held]
                for v, held in own.items()
                if any(id(image) in other for image in held)
            }
            made = self._elsewhere[key] = copy(self)
            made._begin(replace(self._step, images=own | moved), self._maker.cache)
            made._stages = [
                p if moved.keys().isdisjoint(p.stage.variables) else made._prepare(p.stage, made._step)
                for p in self._stages
            ]
            made._maker.finish()
        return self._elsewhere[key]

    def touch(self, leaf: Variable) -> None:
        """A leaf was sent."""
        self.stale.update(self._follow.get(leaf, ()))

    # ---- running
    def run(self, n: int) -> None:
        """Queue ``n`` steps. The first of them runs the stale Stages as well. Waits for the first step of a
        plan that may take long, to cut the next ones by its seconds."""
        self.refine()
        try:
            for key, times in self.pending(n):
                recording = self._recordings[key]
                expected = sum(map(self._cut.seconds, recording.pieces))
                if times > 1 and recording.ticket == 0 and expected > self._pace.bound:
                    self._submit(key, 1)
                    self.commands.wait()
                    self.refine()
                    times -= 1
                self._submit(key, times)
        except BaseException:
            self.invalidate()
            raise

    def _submit(self, key: Stages, times: int) -> None:
        try:
            self.commands.submit(*self.buffers(key), times=times)
        finally:  # after a ctrl-C it may be in flight
            self.submitted(key, self.commands.last)

    def refine(self) -> bool:
        """Cut finer what took longer than a submission should. Returns whether there was anything."""
        changed = False
        for other in self._elsewhere.values():
            changed |= other.refine()
        for key, (pieces, buffers, ticket) in list(self._recordings.items()) if self._pace.exceeded else ():
            long = [k for k, buffer in enumerate(buffers) if self._pace.excess(buffer)]
            self._cut.correct([(pieces[k], self._pace.excess(buffers[k])) for k in long])
            for k in long:
                self._pace.forget(buffers[k])
            cut = self._cut.pieces(self.plan.synchronized(key)) if long else pieces
            if [len(piece) for piece in cut] != [len(piece) for piece in pieces]:
                self.commands.wait(ticket)
                self._release(buffers)
                self._recordings[key] = self._record(cut)
                changed = True
        return changed

    def pending(self, n: int) -> list[tuple[Stages, int]]:
        """Recordings of ``n`` steps, and how often each runs. They count as run; the caller submits them."""
        stale, rest = frozenset(self.stale), self._always
        runs: list[tuple[Stages, int]] = []
        if stale and n:
            runs.append((self._recorded(stale | rest), 1))
            self.stale.clear()
            n -= 1
        if n and (rest or self.plan.step.copies):
            runs.append((self._recorded(rest), n))
        return runs

    def invalidate(self) -> None:
        """What was pending may not have run: everything is out of date."""
        for own in self._follow.values():
            self.stale.update(own)

    def buffers(self, key: Stages) -> list[Any]:
        """The command buffers of a recording, in their order."""
        return self._recordings[key].buffers

    def submitted(self, key: Stages, ticket: int) -> None:
        """A recording was submitted; it is not written again before that work is done."""
        self._recordings[key] = self._recordings[key]._replace(ticket=ticket)

    def _recorded(self, stages: Stages) -> Stages:
        """Record the commands for these Stages and a step's copies, if none are kept. Returns their key."""
        if stages not in self._recordings:
            if len(self._recordings) >= RECORDINGS:
                _, oldest = self._recordings.popitem(last=False)
                self.commands.wait(oldest.ticket)
                self._release(oldest.buffers)
            self._recordings[stages] = self._record(self._cut.pieces(self.plan.synchronized(stages)))
        self._recordings.move_to_end(stages)
        return stages

    @property
    def gate(self) -> Gate | None:
        """What switches the whole step off, if anything."""
        return self._gating.gate

    def _record(self, pieces: list[list[Item]]) -> _Recording:
        """A command buffer for each piece. The last one looks at the flags of gates."""

        def write(buffer: Any, number: int) -> None:
            self._write_items(buffer, pieces[number])
            for gate in self._gating.flags if number == len(pieces) - 1 else ():
                gate.refresh(buffer)

        buffers = [self.commands.record(partial(write, number=k)) for k in range(len(pieces))]
        if self._gating.gate is not None:
            self.device.work.pace.gated.update(buffers)
        return _Recording(pieces, buffers, 0)

    def _release(self, buffers: Sequence[Any]) -> None:
        for buffer in buffers:
            self.commands.release(buffer)

    def record_step(self, begin: Callable[[Any], None], after_stage: Callable[[Any, int], None]) -> list[Any]:
        """The command buffers of a step before which nothing was sent. ``begin(buffer)`` is called before all
        else, ``after_stage(buffer, number)`` behind each of its Stages, those that are left out included."""
        pieces = self._cut.pieces(self.plan.synchronized(self._always, in_order=True))
        first = self._static_count
        left = list(range(first, len(self._stages)))

        def end_before(buffer: Any, stage: int) -> None:
            while left and left[0] < stage:
                after_stage(buffer, left.pop(0) - first)

        def write(buffer: Any, number: int) -> None:
            if number == 0:
                begin(buffer)
            self._write_items(buffer, pieces[number], end_before)
            if number == len(pieces) - 1:
                end_before(buffer, len(self._stages))

        return [self.commands.record(partial(write, number=k)) for k in range(len(pieces))]

    def _write_items(
        self, buffer: Any, items: Sequence[Item], before: Callable[[Any, int], None] | None = None
    ) -> None:
        """before: called with the number of the Stage before each command, past the last for those at the
        end."""
        last = None
        for level, command, slice in items:
            if level is not last and level.barrier is not None:
                self.commands.order(buffer, level.barrier)
            last = level
            if before is not None and command.part is not Part.SAVE:
                before(buffer, command.stage if command.stage >= 0 else len(self._stages))
            if command.stage >= 0:
                record(self._stages[command.stage], buffer, command, slice)
            elif command.copy is not None:
                target, source = command.copy
                self.commands.copy(buffer, self._step.images[source], self._step.images[target])

    # ---- building
    def _prepare(self, stage: Stage, run: Target) -> Prepared:
        names = "+".join(type(f).__name__ for s in stage.sub_stages for f in s.functions)
        name = f"stage {names}"[:90]
        device, first = self.device, stage.sub_stages[0]
        target, resolve, size = None, None, self._size(first)
        if stage.draws:
            gated, passing = run.gate is not None, self.plan.images.passing[run is self._step]
            target = make_target(device, stage, run.images, self._depths, passing, size, name, may_skip=gated)
        elif isinstance(first.work, FragmentScatter):
            target = make_scatter_target(device, size, name)
        if first.final is not first and first.final.draws:
            whole = Stage((first.final,))
            resolve = make_target(device, whole, run.images, {}, (), self._size(first.final), name)
        self._targets += [t for t in (target, resolve) if t is not None]
        before, pipelines = self._maker.made, []
        for k, s in enumerate(stage.sub_stages):
            shaders, buffers = self.plan.shaders[s], {**self._buffers, **self._lists_of(s)}
            made = self._maker.make(s, shaders, run.images, buffers, target, resolve, k, name)
            pipelines.append(made)
        prepared = Prepared(run, stage, target, resolve, pipelines)
        if self.device.compiles_late and self._maker.made > before and self._untouched(stage):
            self._warm_up(prepared)
        return prepared

    def _size(self, s: SubStage) -> tuple[int, int]:
        tiling = self.plan.limits.tiling(s.domain)
        return tiling.width, tiling.height

    def _warm_up(self, p: Prepared) -> None:
        """The driver compiles a Stage's shaders in its own thread, while the host goes on with the next."""
        buffer = self.commands.record(lambda b: record_nothing(p, b))
        self.device.work.pace.compiling.add(buffer)
        self.commands.submit(buffer)
        self._warming.append(buffer)

    def _untouched(self, stage: Stage) -> bool:
        """Whether a render pass that draws nothing keeps all values that can be read now: attachments that it
        does not load become undefined."""
        named = set() if self._fresh else set(self.plan.program.outputs.values())
        for s in stage.sub_stages:
            loaded = {r.variable for r in s.reads if r.binding is Binding.ATTACHMENT}
            for v in s.colors:
                leaf = s.final.replaces.get(v)
                if v in named or (leaf is not None and leaf not in loaded):
                    return False
        return True

    def _lists_of(self, s: SubStage) -> dict[str, DeviceBuffer]:
        """The lists that the shaders of a SubStage bind, by the names of their resources."""
        bound = [*s.work.uses, *([] if s.work.makes is None else [s.work.makes])]
        return {
            f"hits {k}" if isinstance(x, BlockHits) else x.resource: self._lists[x]
            for k, x in enumerate(bound)
        }

    def destroy(self) -> None:
        """Release the plan's own objects. Its work must have ended."""
        for one in (*self._elsewhere.values(), self):
            one._end()
        for listed in self._lists.values():
            listed.destroy()
        for image in self._own:
            image.destroy(self.device)

    def _end(self) -> None:
        """Release what ``_begin`` began."""
        self._release([*self._warming, *(b for r in self._recordings.values() for b in r.buffers)])
        self._maker.destroy()
        for target in self._targets:
            for handle in (target.framebuffer, target.render_pass):
                self.device.destroy(handle)
