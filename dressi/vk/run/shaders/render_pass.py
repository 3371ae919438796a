"""The render pass and framebuffer of a Stage that draws."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Any

from ....ad.graph import RasterFunction, Variable
from ...plan.core.substage import Accumulate, Binding, Raster, Stage, SubStage
from ...plan.lowering.fragment_value import FragmentValue
from ..device.device import Device
from ..device.memory import DeviceImage


@dataclass
class DrawTarget:
    """A render pass with its framebuffer and area. clears: a value for each attachment up to the last that is
    cleared. compatibility: equal where the same pipelines may be used (Vulkan, Render Pass Compatibility)."""

    render_pass: Any
    framebuffer: Any
    size: tuple[int, int]
    clears: list[Any]
    compatibility: Hashable


class _Attachments:
    """The attachments of a render pass, in the order of their first use."""

    def __init__(self) -> None:
        self.images: list[DeviceImage] = []
        self.number: dict[int, int] = {}  # by id of the image
        self.loaded: set[int] = set()
        self.cleared: dict[int, Any] = {}  # to which value
        self.used: dict[int, list[int]] = {}  # subpasses that use it
        self.written: dict[int, list[int]] = {}
        self.depth: set[int] = set()
        self.stored: set[int] = set()

    def add(self, image: DeviceImage, subpass: int, *, write: bool) -> int:
        if id(image) not in self.number:
            self.number[id(image)] = len(self.images)
            self.images.append(image)
        k = self.number[id(image)]
        if k not in self.written and not write:
            self.loaded.add(k)
        self.used.setdefault(k, []).append(subpass)
        if write:
            self.written.setdefault(k, []).append(subpass)
        return k


def make_target(
    device: Device,
    stage: Stage,
    images: dict[Variable, list[DeviceImage]],
    depths: dict[SubStage, DeviceImage],
    passing: Collection[Variable],
    size: tuple[int, int],
    name: str,
    *,
    may_skip: bool = False,
) -> DrawTarget:
    """A render pass with a subpass for each SubStage. Rasters clear their face to -1, what fragments write
    beside it to its background, and their depth to 1; sums over fragments begin at 0.

    Attachments of Variables in ``passing`` are not stored, and neither are depths.
    may_skip: the draws may be switched off; stored attachments then keep what they hold.
    """
    vk = device.vk
    table = _Attachments()
    general = vk.VK_IMAGE_LAYOUT_GENERAL
    subpasses, descriptions, structure = [], [], []
    for k, s in enumerate(stage.sub_stages):
        inputs = [
            table.add(image, k, write=False)
            for read in s.reads
            if read.binding is Binding.ATTACHMENT
            for image in images[read.variable]
        ]
        colors, depth = [], None
        for v in s.colors:
            own = [table.add(image, k, write=True) for image in images[v]]
            colors += own
            table.stored.update(own if v not in passing else ())
            if isinstance(s.work, Raster | Accumulate):
                table.cleared.update(dict.fromkeys(own, _clear(vk, v)))
        if s.has_depth:
            depth = table.add(depths[s], k, write=True)
            table.cleared[depth] = vk.VkClearValue(depthStencil=vk.VkClearDepthStencilValue(1.0, 0))
            table.depth.add(depth)
        descriptions.append((inputs, colors, depth))
    for k, (inputs, colors, depth) in enumerate(descriptions):
        now = {*inputs, *colors, depth}
        preserved = [a for a in table.used if a not in now and a not in table.depth and table.used[a][0] < k]
        # Attachments that are loaded must also be preserved by the subpasses before their first use.
        preserved += [a for a in table.used if a in table.loaded and a not in now and table.used[a][0] > k]
        structure.append((tuple(inputs), tuple(colors), depth, tuple(preserved)))
        tested = None if depth is None else vk.VkAttachmentReference(depth, table.images[depth].layout)
        subpass = vk.VkSubpassDescription(
            pipelineBindPoint=vk.VK_PIPELINE_BIND_POINT_GRAPHICS,
            inputAttachmentCount=len(inputs),
            pInputAttachments=[vk.VkAttachmentReference(a, general) for a in inputs],
            colorAttachmentCount=len(colors),
            pColorAttachments=[vk.VkAttachmentReference(a, general) for a in colors],
            pDepthStencilAttachment=tested,
            preserveAttachmentCount=len(preserved),
            pPreserveAttachments=preserved,
        )
        subpasses.append(subpass)
    attachments, clears = [], []
    for k, image in enumerate(table.images):
        load = vk.VK_ATTACHMENT_LOAD_OP_DONT_CARE
        if k in table.loaded or (may_skip and k in table.stored and k not in table.cleared):
            load = vk.VK_ATTACHMENT_LOAD_OP_LOAD
        elif k in table.cleared:
            load = vk.VK_ATTACHMENT_LOAD_OP_CLEAR
        attachments.append(_attachment(vk, image, load, stored=k in table.stored | table.loaded))
        clears.append(table.cleared.get(k) or vk.VkClearValue())
    del clears[max(table.cleared, default=-1) + 1 :]
    pairs = _ordered(table)
    return _made(device, table.images, attachments, subpasses, tuple(structure), pairs, size, clears, name)


def make_scatter_target(device: Device, size: tuple[int, int], name: str) -> DrawTarget:
    """A render pass for draws that only add into buffers."""
    subpass = device.vk.VkSubpassDescription(pipelineBindPoint=device.vk.VK_PIPELINE_BIND_POINT_GRAPHICS)
    return _made(device, [], [], [subpass], (((), (), None, ()),), [], size, [], name)


def _attachment(vk: Any, image: DeviceImage, load: int, *, stored: bool) -> Any:
    return vk.VkAttachmentDescription(
        format=image.format,
        samples=vk.VK_SAMPLE_COUNT_1_BIT,
        loadOp=load,
        storeOp=vk.VK_ATTACHMENT_STORE_OP_STORE if stored else vk.VK_ATTACHMENT_STORE_OP_DONT_CARE,
        stencilLoadOp=vk.VK_ATTACHMENT_LOAD_OP_DONT_CARE,
        stencilStoreOp=vk.VK_ATTACHMENT_STORE_OP_DONT_CARE,
        initialLayout=image.layout,
        finalLayout=image.layout,
    )


def _made(
    device: Device,
    images: list[DeviceImage],
    attachments: list[Any],
    subpasses: list[Any],
    structure: Hashable,
    pairs: list[tuple[int, int]],
    size: tuple[int, int],
    clears: list[Any],
    name: str,
) -> DrawTarget:
    """structure: what of the subpasses decides which pipelines may be used. pairs: ordered subpasses."""
    vk = device.vk
    dependencies = [_dependency(vk, *pair) for pair in pairs]
    info = vk.VkRenderPassCreateInfo(
        attachmentCount=len(attachments),
        pAttachments=attachments,
        subpassCount=len(subpasses),
        pSubpasses=subpasses,
        dependencyCount=len(dependencies),
        pDependencies=dependencies,
    )
    render_pass = device.create("RenderPass", info, name)
    info = vk.VkFramebufferCreateInfo(
        renderPass=render_pass,
        attachmentCount=len(images),
        pAttachments=[image.view for image in images],
        width=size[0],
        height=size[1],
        layers=1,
    )
    framebuffer = device.create("Framebuffer", info, name)
    formats = tuple(image.format for image in images)
    return DrawTarget(render_pass, framebuffer, size, clears, (formats, structure, tuple(pairs)))


def _clear(vk: Any, v: Variable) -> Any:
    """What an output of a draw holds where nothing is drawn."""
    missed = (-1,) if isinstance(v.creator, RasterFunction) else (0,)
    if isinstance(v.creator, FragmentValue):
        missed = v.creator.background
    number = int if v.vtype.is_int else float
    four = [number(x) for x in ([*missed] * 4 if len(missed) == 1 else [*missed, 0, 0, 0])[:4]]
    color = {"int32": four} if v.vtype.is_int else {"float32": four}
    return vk.VkClearValue(color=vk.VkClearColorValue(**color))


def _ordered(table: _Attachments) -> list[tuple[int, int]]:
    """Every two subpasses that share an attachment. Nothing outside of the pass is ordered with them: the
    barriers of the plan order passes, and no layout changes."""
    pairs = set()
    for k, writers in table.written.items():
        for source in writers:
            pairs.update((source, user) for user in table.used[k] if user > source)
    # An attachment that is only read is also stored, after its last user: the others must have read it by
    # then.
    for users in table.used.values():
        pairs.update((user, users[-1]) for user in users if user < users[-1])
    return sorted(pairs)


def _dependency(vk: Any, before: int, after: int) -> Any:
    """A by-region dependency of a subpass on one before it."""
    write = vk.VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT
    tests = vk.VK_PIPELINE_STAGE_EARLY_FRAGMENT_TESTS_BIT | vk.VK_PIPELINE_STAGE_LATE_FRAGMENT_TESTS_BIT
    read = vk.VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT
    written = vk.VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT | vk.VK_ACCESS_DEPTH_STENCIL_ATTACHMENT_WRITE_BIT
    reads = (
        vk.VK_ACCESS_INPUT_ATTACHMENT_READ_BIT
        | vk.VK_ACCESS_COLOR_ATTACHMENT_READ_BIT
        | vk.VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT
    )
    return vk.VkSubpassDependency(
        srcSubpass=before,
        dstSubpass=after,
        srcStageMask=read | write | tests,
        dstStageMask=read | write | tests,
        srcAccessMask=written,
        dstAccessMask=reads,
        dependencyFlags=vk.VK_DEPENDENCY_BY_REGION_BIT,
    )
