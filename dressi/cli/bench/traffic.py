"""What a step has to move, estimated from its plan, and how fast a device copies."""

from __future__ import annotations

import time

import numpy as np

from dressi import Device, Variable
from dressi.ad.graph import ScatterFunction
from dressi.vk.plan.glsl.fixed_point import accumulators_of
from dressi.vk.plan.lifetime import ImageSlot
from dressi.vk.plan.plan import Plan
from dressi.vk.plan.substage import Stage
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.memory import make_image

COPIED = ImageSlot(4, False, 2048, 2048)
COPIES = 8


def stage_bytes(plan: Plan, stage: Stage) -> int:
    """Every image that a SubStage reads or writes counted once, whole; depth and accumulators as well.

    An estimate from the plan alone: texels that are fetched many times count once (caches), and those of sparse
    draws count although nobody touches them.
    """
    total = 0
    for s in stage.sub_stages:
        total += sum(_bytes(plan, read.variable) for read in s.reads)
        total += sum(_bytes(plan, v) for v in s.outputs)
        if s.has_depth:
            (width, height), batch = s.domain
            total += 2 * 4 * width * height * batch  # depth, cleared and tested
        for f in s.functions:
            if isinstance(f, ScatterFunction):
                total += 3 * 4 * accumulators_of(f).words  # added to, read, cleared
    return total


def step_bytes(plan: Plan) -> int:
    """Bytes read and written in every step before which nothing was sent."""
    copied = sum(2 * _bytes(plan, leaf) for leaf, _ in plan.step.copies)
    run = (stage for stage, sources in plan.step.with_sources if sources is None)
    return copied + sum(stage_bytes(plan, stage) for stage in run)


def _bytes(plan: Plan, variable: Variable) -> int:
    # What never leaves its render pass has no image.
    return sum(plan.images.slots[k].bytes for k in plan.images.of.get(variable, ()))


def copy_bandwidth(device: Device, repeats: int = 5) -> float:
    """Bytes a second, read and written together, of copies between two images of 64 MiB; the median."""
    vk = device.vk
    commands = Commands(device)
    images = [make_image(device, COPIED, name) for name in ("copy source", "copy target")]
    commands.make_general(images, images)
    layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
    extent = vk.VkExtent3D(COPIED.width, COPIED.height, 1)
    region = vk.VkImageCopy(srcSubresource=layers, dstSubresource=layers, extent=extent)
    general = vk.VK_IMAGE_LAYOUT_GENERAL

    def write(buffer: object) -> None:
        for k in range(COPIES):
            source, target = images[k % 2], images[1 - k % 2]
            vk.vkCmdCopyImage(buffer, source.handle, general, target.handle, general, 1, [region])
            commands.barrier(buffer)

    try:
        buffer = commands.record(write)
        seconds = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            commands.submit(buffer)
            commands.wait()
            seconds.append(time.perf_counter() - start)
    finally:
        commands.wait()
        for image in images:
            image.destroy(device)
        commands.destroy()
    return 2 * COPIES * COPIED.bytes / float(np.median(seconds[1:]))
