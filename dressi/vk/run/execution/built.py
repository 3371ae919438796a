"""A Plan on a device: its images, pipelines and recorded commands, and its Stages that are out of date."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Domain, DrawFunction, Function, Variable
from ...plan.core import substage as work
from ...plan.core.limits import DeviceLimits
from ...plan.core.lists import ActiveBlocks, BlockHits, FaceList, WorkList
from ...plan.core.substage import GROUP, Binding, FragmentScatter, Range, Stage, SubStage
from ...plan.execution.plan import Plan
from ...plan.execution.sync import Command, Part
from ...plan.glsl.pixel import BLOCK, blocks_of, words_of
from ...plan.lowering.chains import grid_of
from ..device.commands import Commands
from ..device.device import Device
from ..device.memory import DeviceBuffer, DeviceImage, DeviceRange, to_planes
from ..shaders.pipeline import PipelineCache, PipelineMaker, Pipelines
from ..shaders.render_pass import DrawTarget, make_scatter_target, make_target
from .gate import UNGATED, WHOLE, Area, Cut, Gate, Gating, Item, Slice, common, seconds_at_most
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


# Recording of Stages into a command buffer.


@dataclass(frozen=True)
class Target:
    """What recording needs of an executor: images of Variables, ranges of those in buffers, limits, and the
    lists made on the device. gate: what switches the work off, if anything does."""

    device: Device
    commands: Commands
    limits: DeviceLimits
    images: dict[Variable, list[DeviceImage]]
    ranges: dict[Variable, Range]
    lists: dict[WorkList, DeviceBuffer]
    gate: Gate | None = None


class Prepared(NamedTuple):
    """A Stage with what it is recorded from. resolve: the target of the render pass that ends a scatter."""

    run: Target
    stage: Stage
    target: DrawTarget | None
    resolve: DrawTarget | None
    pipelines: list[Pipelines]


def record(p: Prepared, buffer: Any, command: Command, slice: Slice = WHOLE) -> None:
    """Commands of a Stage: a render pass with its subpasses, a dispatch, or what prepares or ends one."""
    recorder = _Recorder(p, buffer, slice)
    if p.stage.draws:
        recorder.render_pass(p.target, recorder.work)
    elif command.part is Part.PREPARE:
        recorder.prepare()
    else:
        recorder.choose_band(command.band)
        if command.part is Part.RESOLVE:
            recorder.resolve()
        else:
            recorder.work()


def record_nothing(p: Prepared, buffer: Any) -> None:
    """Uses all shaders of a Stage on no pixel and texel: some drivers compile a shader at its first use."""
    recorder = _Recorder(p, buffer, WHOLE)

    def smallest(target: DrawTarget | None) -> DrawTarget:
        assert target is not None
        return replace(target, size=(1, 1))

    if p.stage.draws:
        recorder.render_pass(smallest(p.target), recorder.draw_nothing)
        return
    (own,) = p.pipelines
    recorder.choose_band(own.bands[0])
    for part in own.handles:
        if part == "draw" or (part == "resolve" and p.resolve is not None):
            recorder.begin(smallest(p.target if part == "draw" else p.resolve))
            recorder.bind(part, drawn=True)
            recorder.draw_nothing()
            recorder.vk.vkCmdEndRenderPass(buffer)
        else:
            recorder.bind(part)
            if own.based:
                recorder.push(0, 0, 0)
            recorder.vk.vkCmdDispatch(buffer, 0, 0, 0)
        p.run.commands.barrier(buffer)


class _Recorder:
    """Writes a slice of a Stage into a command buffer."""

    def __init__(self, p: Prepared, buffer: Any, slice: Slice):
        self.p, self.run, self.buffer, self.slice = p, p.run, buffer, slice
        self.vk, self.pipelines = p.run.device.vk, p.pipelines[0]

    # ---- render passes
    def render_pass(self, target: DrawTarget | None, draw: Callable[[int], None]) -> None:
        """Subpass by subpass; draw(k) records what the k-th draws."""
        if not self.begin(target):
            return
        for k, own in enumerate(self.p.pipelines):
            self.pipelines = own
            if k:
                self.vk.vkCmdNextSubpass(self.buffer, self.vk.VK_SUBPASS_CONTENTS_INLINE)
            self.bind("draw", drawn=True)
            draw(k)
        self.vk.vkCmdEndRenderPass(self.buffer)

    def begin(self, target: DrawTarget | None) -> bool:
        """Whether the slice has pixels; only then the render pass begins, over these."""
        assert target is not None
        vk = self.vk
        x, y, width, height = self.slice.area(*target.size)
        if not (width and height):
            return False
        info = vk.VkRenderPassBeginInfo(
            renderPass=target.render_pass,
            framebuffer=target.framebuffer,
            renderArea=vk.VkRect2D(vk.VkOffset2D(x, y), vk.VkExtent2D(width, height)),
            clearValueCount=len(target.clears),
            pClearValues=target.clears,
        )
        vk.vkCmdBeginRenderPass(self.buffer, info, vk.VK_SUBPASS_CONTENTS_INLINE)
        return True

    def bind(self, part: str, *, drawn: bool = False) -> None:
        """The pipeline and the descriptor set of a shader. drawn: whether it draws."""
        vk, p = self.vk, self.pipelines
        point = vk.VK_PIPELINE_BIND_POINT_GRAPHICS if drawn else vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(self.buffer, point, p.handles[part])
        vk.vkCmdBindDescriptorSets(self.buffer, point, p.layout, 0, 1, [p.set], 0, None)

    def draw_nothing(self, _: int = 0) -> None:
        """A triangle that the scissor leaves nothing of."""
        self.viewport((0, 0, 1, 1), (0, 0, 0, 0))
        self.vk.vkCmdDraw(self.buffer, 3, 1, 0, 0)

    def viewport(self, area: Area, drawn: Area) -> None:
        """drawn: what the scissor leaves."""
        vk = self.vk
        vk.vkCmdSetViewport(self.buffer, 0, 1, [vk.VkViewport(*area, 0.0, 1.0)])
        scissor = vk.VkRect2D(vk.VkOffset2D(*drawn[:2]), vk.VkExtent2D(*drawn[2:]))
        vk.vkCmdSetScissor(self.buffer, 0, 1, [scissor])

    def cover(self, target: DrawTarget | None) -> None:
        """One triangle over the whole framebuffer, of which the slice is drawn."""
        assert target is not None
        self.viewport((0, 0, *target.size), self.slice.area(*target.size))
        if self.run.gate is None:
            self.vk.vkCmdDraw(self.buffer, 3, 1, 0, 0)
        else:
            self.run.gate.draw(self.buffer, 3)

    def draw_tiles(self, f: Function, domain: Domain, faces: FaceList | None) -> None:
        """One draw a tile, firstInstance = tile: coordinates stay unshifted, each tile has its own viewport.
        A list has a draw a segment, in one call where the device can, with vertices numbered through
        tiles."""
        assert isinstance(f, DrawFunction)
        tiling = self.run.limits.tiling(domain)
        band = self.slice.area(tiling.width, tiling.height)
        for tile in range(f.batch):
            area = (*tiling.offset(tile), *domain.size)
            drawn = common(area, band)
            if min(drawn[2:]) <= 0:
                continue
            self.viewport(area, drawn)
            if faces is None:
                self.vk.vkCmdDraw(self.buffer, 3 * f.triangles, 1, 0, tile)
                continue
            first, end = tile * faces.segments, (tile + 1) * faces.segments
            most, listed = self.run.limits.max_draw_indirect_count, self.run.lists[faces].handle
            for k in range(first, end, most):
                self.vk.vkCmdDrawIndirect(self.buffer, listed, 16 * k, min(most, end - k), 16)

    # ---- dispatches
    def dispatch(self, x: int, y: int) -> None:
        """So many workgroups, or those of the slice; none if the gate is closed."""
        left, top, across, down = self.slice.area(x, y)
        if across and down:
            if self.run.gate is None:
                self.dispatch_from(left, top, across, down)
            else:
                self.begin_at(left, top)
                self.run.gate.dispatch(self.buffer, across, down, 1)

    def dispatch_from(self, left: int, top: int, across: int, down: int) -> None:
        """So many workgroups, the first of which is this one, whatever gate there is."""
        self.begin_at(left, top)
        if self.pipelines.based:
            self.vk.vkCmdDispatch(self.buffer, across, down, 1)
        else:
            self.vk.vkCmdDispatchBase(self.buffer, left, top, 0, across, down, 1)

    def begin_at(self, left: int, top: int) -> None:
        """The first workgroup of the next dispatch, for shaders that take it from a push constant."""
        if self.pipelines.based:
            self.push(0, left, top)

    def push(self, offset: int, *values: int) -> None:
        """Set push constants, from a byte on."""
        vk, p = self.vk, self.pipelines
        words = vk.ffi.new("int32_t[]", values)
        vk.vkCmdPushConstants(self.buffer, p.layout, p.constant_flags, offset, 4 * len(values), words)

    def choose_band(self, first: int) -> None:
        """The band of the table whose first cell this is, where there are several."""
        if len(self.pipelines.bands) > 1:
            self.push(8 * self.pipelines.based, first)

    def over_texels(self, domain: Domain) -> None:
        """An invocation for each texel."""
        tiling = self.run.limits.tiling(domain)
        self.dispatch(-(-tiling.width // GROUP), tiling.height)

    # ---- the work of a SubStage
    def work(self, k: int = 0) -> None:
        """The draws of a subpass, or a dispatch; of a scatter the part that adds."""
        s, target = self.p.stage.sub_stages[k], self.p.target
        match s.work:
            case work.Fragment():
                self.cover(target)
            case work.Raster(faces) | work.Accumulate(faces):
                self.draw_tiles(s.functions[0], s.domain, faces)
            case work.FragmentScatter(faces=faces):
                if self.begin(target):
                    self.bind("draw", drawn=True)
                    self.draw_tiles(s.functions[0], s.domain, faces)
                    self.vk.vkCmdEndRenderPass(self.buffer)
            case _:
                self.bind("compute")
                self._dispatched(s)

    def _dispatched(self, s: SubStage) -> None:
        match s.work:
            case work.SparseWork(sparse=None):
                self.over_texels(s.domain)
            case work.SparseWork(sparse=work.Sparse(blocks)):
                self._over_blocks(blocks)
            case work.ListBlocks(blocks=listed) | work.FindHits(hits=listed):
                # An invocation for each block, or one for each column of pixels in it.
                across, down = blocks_of(self.run.limits.tiling(s.domain))
                together = listed.shared and not s.work.uses
                self.dispatch(-(-across * (BLOCK if together else 1) // GROUP), down)
            case work.FaceSums():
                (f,) = s.functions
                assert isinstance(f, DrawFunction)
                self.dispatch(-(-f.faces // GROUP), f.batch)
            case work.Visit() as visit:
                f = s.functions[0]
                assert isinstance(f, DrawFunction)
                self.dispatch(-(-visit.entries(f) // GROUP), f.batch * visit.slices)
            case work.ListFaces(faces):
                self.dispatch(faces.segments, s.domain.tiles)
            case work.TiledCompute():
                self.dispatch(*grid_of(s))
            case work.Joined(groups=groups):
                self.dispatch(groups, 1)
            case _:
                raise TypeError(f"there are no commands for {type(s.work).__name__}; add them here")

    def _over_blocks(self, listed: ActiveBlocks) -> None:
        """A workgroup for each block of the list; a slice is one of all blocks of the image, and workgroups
        behind the end of the list have nothing to do. No gate is needed: the list of gated work is empty."""
        if self.slice.of == 1:
            self.begin_at(0, 0)
            self.vk.vkCmdDispatchIndirect(self.buffer, self.run.lists[listed].handle, 0)
            return
        across, down = blocks_of(self.run.limits.tiling(listed.domain))
        blocks, most = across * down, self.run.limits.max_workgroup_count
        left, top, across, down = self.slice.area(min(blocks, most), -(-blocks // most))
        if across and down:
            self.dispatch_from(left, top, across, down)

    # ---- what comes before and after
    def prepare(self) -> None:
        """An empty list of blocks, or images with the values they have outside of the active blocks."""
        match self.p.stage.sub_stages[0].work:
            case work.ListBlocks(blocks):
                empty = self.vk.ffi.new("uint32_t[4]", (0, 0, 1, 0))
                self.vk.vkCmdUpdateBuffer(self.buffer, self.run.lists[blocks].handle, 0, 16, empty)
            case work.SparseWork(sparse=work.Sparse(fill=fill)):
                for v, value in fill.items():
                    self._fill(v, value)

    def _fill(self, v: Variable, value: np.ndarray) -> None:
        run = self.run
        stored = run.images[v][0]
        if isinstance(stored, DeviceRange):
            held, handle = run.ranges[v], stored.buffer.handle
            first, size = held.part(v, run.limits.tiling(v).texels)
            word = 0 if v in held.masks else work.words_of_value(value, v)[0]
            self.vk.vkCmdFillBuffer(self.buffer, handle, first, size, word)
            return
        texel = Variable(v.vtype)
        planes = [np.zeros((1, 1, 4), v.vtype.dtype) for _ in run.images[v]]
        to_planes(texel, value.reshape(texel.shape), run.limits.tiling(texel), planes)
        for image, plane in zip(run.images[v], planes, strict=True):
            run.commands.clear(self.buffer, image, plane)

    def resolve(self) -> None:
        """The table of a scatter, or the work on it, from the accumulators."""
        kept = self.p.stage.sub_stages[0].kept
        assert kept is not None
        if self.p.resolve is None:
            self.bind("resolve")
            self.over_texels(kept.output.domain)
        elif self.begin(self.p.resolve):
            self.bind("resolve", drawn=True)
            self.cover(self.p.resolve)
            self.vk.vkCmdEndRenderPass(self.buffer)
