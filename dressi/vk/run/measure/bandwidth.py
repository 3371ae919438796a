"""How fast a device copies images: measured by recorded commands alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...plan.images import ImageSlot
from ..device.commands import Commands
from ..device.device import Device
from ..device.memory import make_image

COPIED = ImageSlot(4, False, 2048, 2048)
COPIES = 8


def copy_bandwidth(device: Device, repeats: int = 5) -> float:
    """Bytes a second, read and written together, of copies between two images of 64 MiB; the median."""
    vk = device.vk
    commands = Commands(device)
    images = [make_image(device, COPIED, name) for name in ("copy source", "copy target")]
    commands.initialize(images, images)
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
        seconds = _submitted(commands, write, repeats)
    finally:
        commands.wait()
        for image in images:
            image.destroy(device)
        commands.destroy()
    return 2 * COPIES * COPIED.bytes / seconds


def _submitted(commands: Commands, write: Callable[[Any], None], repeats: int) -> float:
    """Median seconds from a submission of the recorded commands to their end; the first one does not count."""
    buffer = commands.record(write)
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        commands.submit(buffer)
        commands.wait()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[1:]))
