"""Recording of Stages into a command buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from ...ad.graph import Domain, DrawFunction, Function, Variable
from ..plan.glsl.pixel import blocks_of
from ..plan.lists import FaceList
from ..plan.lowering.chains import grid_of
from ..plan.substage import (
    GROUP,
    Accumulate,
    Compute,
    FaceSums,
    FindHits,
    Fragment,
    FragmentScatter,
    ListBlocks,
    ListFaces,
    Raster,
    ScatterDispatch,
    ScatterDraw,
    Sparse,
    SparseWork,
    Stage,
    SubStage,
    TiledCompute,
    Work,
    word_of,
)
from ..plan.sync.commands import Command, Part
from .device.memory import DeviceRange, to_planes
from .shaders.pipeline import Pipelines
from .shaders.render_pass import DrawTarget
from .slices import WHOLE, Area, Slice, Target, common


class Prepared(NamedTuple):
    """A Stage with what it is recorded from. target, resolve: of its render pass, and of the one that ends a scatter."""

    run: Target
    stage: Stage
    target: DrawTarget | None
    resolve: DrawTarget | None
    pipelines: list[Pipelines]


def record(p: Prepared, buffer: Any, command: Command, slice: Slice = WHOLE) -> None:
    """Commands of a Stage: a render pass with its subpasses, a dispatch, or what prepares or ends one."""
    if slice is not p.run.slice:
        p = p._replace(run=replace(p.run, slice=slice))
    if p.stage.draws:
        assert p.target is not None
        _render_pass(p.run, buffer, p.target, p.pipelines, lambda k: _subpass(p, buffer, k))
        return
    s, own = p.stage.sub_stages[0], p.pipelines[0]
    if command.part is Part.PREPARE:
        _prepare(s.work, p.run, buffer)
    elif command.part is Part.RESOLVE:
        _resolve(p, buffer, command.band)
    else:
        _choose_band(p.run, buffer, own, command.band)
        _record(s.work, p.run, buffer, s, own, p.target)


def _subpass(p: Prepared, buffer: Any, k: int) -> None:
    s = p.stage.sub_stages[k]
    _record(s.work, p.run, buffer, s, p.pipelines[k], p.target)


def record_nothing(p: Prepared, buffer: Any) -> None:
    """Uses all shaders of a Stage on no pixel and no texel: drivers that compile a shader when it is first used do so."""
    run, stage, target, resolve, pipelines = p
    if stage.draws:
        assert target is not None
        _render_pass(
            run, buffer, replace(target, size=(1, 1)), pipelines, lambda _: _draw_nothing(run, buffer)
        )
        return
    vk = run.device.vk
    (own,) = pipelines
    _choose_band(run, buffer, own, own.bands[0])
    for part in own.handles:
        drawn = {"draw": target, "resolve": resolve}.get(part)
        if drawn is not None:
            _begin(run, buffer, replace(drawn, size=(1, 1)))
            _bind(run, buffer, own, part)
            _draw_nothing(run, buffer)
            vk.vkCmdEndRenderPass(buffer)
        else:
            _bind_dispatch(run, buffer, own, part)
            if own.based:
                run.push(buffer, own, 0, 0, 0)
            vk.vkCmdDispatch(buffer, 0, 0, 0)
        run.commands.barrier(buffer)


def _render_pass(
    run: Target, buffer: Any, target: DrawTarget, pipelines: list[Pipelines], draw: Callable[[int], None]
) -> None:
    """Subpass by subpass; draw(k) records what the k-th draws."""
    vk = run.device.vk
    if not _begin(run, buffer, target):
        return
    for k, p in enumerate(pipelines):
        if k:
            vk.vkCmdNextSubpass(buffer, vk.VK_SUBPASS_CONTENTS_INLINE)
        _bind(run, buffer, p, "draw")
        draw(k)
    vk.vkCmdEndRenderPass(buffer)


def _draw_nothing(run: Target, buffer: Any) -> None:
    """A triangle that the scissor leaves nothing of."""
    vk = run.device.vk
    _viewport(vk, buffer, (0, 0, 1, 1), (0, 0, 0, 0))
    vk.vkCmdDraw(buffer, 3, 1, 0, 0)


def _begin(run: Target, buffer: Any, target: DrawTarget) -> bool:
    """Whether the slice has pixels; only then the render pass begins, over these."""
    vk = run.device.vk
    x, y, width, height = run.slice.area(*target.size)
    if not (width and height):
        return False
    info = vk.VkRenderPassBeginInfo(
        renderPass=target.render_pass,
        framebuffer=target.framebuffer,
        renderArea=vk.VkRect2D(vk.VkOffset2D(x, y), vk.VkExtent2D(width, height)),
        clearValueCount=len(target.clears),
        pClearValues=target.clears,
    )
    vk.vkCmdBeginRenderPass(buffer, info, vk.VK_SUBPASS_CONTENTS_INLINE)
    return True


def _bind(run: Target, buffer: Any, p: Pipelines, part: str) -> None:
    vk = run.device.vk
    point = vk.VK_PIPELINE_BIND_POINT_GRAPHICS
    vk.vkCmdBindPipeline(buffer, point, p.handles[part])
    vk.vkCmdBindDescriptorSets(buffer, point, p.layout, 0, 1, [p.set], 0, None)


def _choose_band(run: Target, buffer: Any, p: Pipelines, first: int) -> None:
    """The band of the table whose first cell this is, where there are several."""
    if len(p.bands) > 1:
        run.push(buffer, p, 8 * p.based, first)


def _cover(run: Target, buffer: Any, target: DrawTarget) -> None:
    """One triangle over the whole framebuffer, of which the slice is drawn."""
    _viewport(run.device.vk, buffer, (0, 0, *target.size), run.slice.area(*target.size))
    if run.gate is None:
        run.device.vk.vkCmdDraw(buffer, 3, 1, 0, 0)
    else:
        run.gate.draw(buffer, 3)


def _viewport(vk: Any, buffer: Any, area: Area, drawn: Area, nearest: float = 0.0) -> None:
    """drawn: what the scissor leaves."""
    vk.vkCmdSetViewport(buffer, 0, 1, [vk.VkViewport(*area, nearest, 1.0)])
    vk.vkCmdSetScissor(buffer, 0, 1, [vk.VkRect2D(vk.VkOffset2D(*drawn[:2]), vk.VkExtent2D(*drawn[2:]))])


def _draw_tiles(
    run: Target, buffer: Any, f: Function, s: SubStage, faces: FaceList | None, nearest: float = 0.0
) -> None:
    """One draw a tile, firstInstance = tile: coordinates stay unshifted, each tile has its own viewport. The draws of a list,
    one a segment, are one call where the device can; their vertices are numbered through all tiles."""
    assert isinstance(f, DrawFunction)
    vk = run.device.vk
    tiling = run.limits.tiling(s.domain)
    band = run.slice.area(tiling.width, tiling.height)
    for tile in range(f.batch):
        area = (*tiling.offset(tile), *s.domain.size)
        drawn = common(area, band)
        if min(drawn[2:]) <= 0:
            continue
        _viewport(vk, buffer, area, drawn, nearest)
        if faces is None:
            vk.vkCmdDraw(buffer, 3 * f.triangles, 1, 0, tile)
            continue
        first, end = tile * faces.segments, (tile + 1) * faces.segments
        most = run.limits.max_draw_indirect_count
        for k in range(first, end, most):
            vk.vkCmdDrawIndirect(buffer, run.lists[faces].handle, 16 * k, min(most, end - k), 16)


def _groups(run: Target, buffer: Any, p: Pipelines, domain: Domain) -> None:
    tiling = run.limits.tiling(domain)
    run.dispatch(buffer, p, -(-tiling.width // GROUP), tiling.height)


def _fill(run: Target, buffer: Any, sparse: Sparse) -> None:
    """Images with the values they have outside of the active blocks."""
    vk = run.device.vk
    for v, value in sparse.fill.items():
        stored = run.images[v][0]
        if isinstance(stored, DeviceRange):
            first, size = run.ranges[v].part(v, run.limits.tiling(v).texels)
            vk.vkCmdFillBuffer(buffer, stored.buffer.handle, first, size, word_of(value, v))
            continue
        texel = Variable(v.vtype)
        planes = [np.zeros((1, 1, 4), v.vtype.dtype) for _ in run.images[v]]
        to_planes(texel, value.reshape(texel.shape), run.limits.tiling(texel), planes)
        for image, plane in zip(run.images[v], planes, strict=True):
            run.commands.clear(buffer, image, plane)


# ---- what comes before and after
def _prepare(work: Work, run: Target, buffer: Any) -> None:
    """An empty list of blocks, or images with the values they have outside of the active blocks."""
    if isinstance(work, ListBlocks):
        vk = run.device.vk
        empty = vk.ffi.new("uint32_t[4]", (0, 0, 1, 0))
        vk.vkCmdUpdateBuffer(buffer, run.lists[work.blocks].handle, 0, 16, empty)
    elif isinstance(work, SparseWork) and work.sparse is not None:
        _fill(run, buffer, work.sparse)


def _resolve(p: Prepared, buffer: Any, band: int) -> None:
    """The table of a scatter, or the work on it, from the accumulators."""
    run, own = p.run, p.pipelines[0]
    scatter = p.stage.sub_stages[0].scatter
    assert scatter is not None
    _choose_band(run, buffer, own, band)
    if p.resolve is not None:
        if not _begin(run, buffer, p.resolve):
            return
        _bind(run, buffer, own, "resolve")
        _cover(run, buffer, p.resolve)
        run.device.vk.vkCmdEndRenderPass(buffer)
    else:
        _bind_dispatch(run, buffer, own, "resolve")
        _groups(run, buffer, own, scatter.output.domain)


# ---- the commands of each kind of work
@singledispatch
def _record(
    work: Work, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget | None
) -> None:
    """The draws of a subpass, or a dispatch; of a scatter the part that adds."""
    raise TypeError(f"there are no commands for {type(work).__name__}; register a function for it here")


@_record.register
def _(work: Fragment, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget) -> None:
    _cover(run, buffer, target)


@_record.register(Raster)
@_record.register(Accumulate)
def _(work: Any, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget) -> None:
    _draw_tiles(run, buffer, s.functions[0], s, work.faces)


@_record.register(Compute)
@_record.register(ScatterDispatch)
def _(
    work: Compute | ScatterDispatch,
    run: Target,
    buffer: Any,
    s: SubStage,
    p: Pipelines,
    target: DrawTarget | None,
) -> None:
    _bind_dispatch(run, buffer, p, "compute")
    if work.sparse is None:
        _groups(run, buffer, p, s.domain)
    elif run.slice.of == 1:
        run.begin_at(buffer, p, 0, 0)
        run.device.vk.vkCmdDispatchIndirect(buffer, run.lists[work.sparse.blocks].handle, 0)
    else:
        # A slice of all blocks: a workgroup behind the end of the list has nothing to do. No gate is needed, the list of
        # gated work is empty.
        across, down = blocks_of(run.limits.tiling(work.sparse.blocks.domain))
        blocks = across * down
        most = run.limits.max_workgroup_count
        left, top, across, down = run.slice.area(min(blocks, most), -(-blocks // most))
        if across and down:
            run.dispatch_from(buffer, p, left, top, across, down)


@_record.register
def _(work: ScatterDraw, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget) -> None:
    if not _begin(run, buffer, target):
        return
    _bind(run, buffer, p, "draw")
    _draw_tiles(run, buffer, work.raster, s, work.faces, nearest=1.0)  # behind whatever the raster drew
    run.device.vk.vkCmdEndRenderPass(buffer)


@_record.register
def _(work: FragmentScatter, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget) -> None:
    if not _begin(run, buffer, target):
        return
    _bind(run, buffer, p, "draw")
    _draw_tiles(run, buffer, s.functions[0], s, work.faces)
    run.device.vk.vkCmdEndRenderPass(buffer)


@_record.register(ListBlocks)
@_record.register(FindHits)
def _(work: Any, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget | None) -> None:
    """An invocation or a workgroup for each block."""
    across, down = blocks_of(run.limits.tiling(s.domain))
    _bind_dispatch(run, buffer, p, "compute")
    together = work.makes.shared and not work.uses
    run.dispatch(buffer, p, across if together else -(-across // GROUP), down)


@_record.register(FaceSums)
@_record.register(ListFaces)
@_record.register(TiledCompute)
def _(work: Any, run: Target, buffer: Any, s: SubStage, p: Pipelines, target: DrawTarget | None) -> None:
    """As many workgroups as the work says."""
    _bind_dispatch(run, buffer, p, "compute")
    match work:
        case FaceSums():
            (f,) = s.functions
            assert isinstance(f, DrawFunction)
            run.dispatch(buffer, p, -(-f.faces // GROUP), f.batch)
        case ListFaces():
            run.dispatch(buffer, p, work.faces.segments, s.domain.tiles)
        case _:
            run.dispatch(buffer, p, *grid_of(s))


def _bind_dispatch(run: Target, buffer: Any, p: Pipelines, part: str) -> None:
    vk = run.device.vk
    point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
    vk.vkCmdBindPipeline(buffer, point, p.handles[part])
    vk.vkCmdBindDescriptorSets(buffer, point, p.layout, 0, 1, [p.set], 0, None)
