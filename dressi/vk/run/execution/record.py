"""Recording of Stages into a command buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Domain, DrawFunction, Function, Variable
from ...plan.core import substage as work
from ...plan.core.limits import DeviceLimits
from ...plan.core.lists import ActiveBlocks, FaceList, WorkList
from ...plan.core.substage import GROUP, Range, Stage, SubStage
from ...plan.execution.sync import Command, Part
from ...plan.glsl.pixel import BLOCK, blocks_of
from ...plan.lowering.chains import grid_of
from ..device.commands import Commands
from ..device.device import Device
from ..device.memory import DeviceBuffer, DeviceImage, DeviceRange, to_planes
from ..shaders.pipeline import Pipelines
from ..shaders.render_pass import DrawTarget
from .gate import WHOLE, Area, Gate, Slice, common


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
