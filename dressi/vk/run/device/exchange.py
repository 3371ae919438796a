"""Host memory of a fixed set of images, with commands that are recorded once.

``Transfers`` serves any images and records every copy anew, which takes longer than a small copy. What is exchanged in every
call of a program has memory and commands of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .commands import Commands
from .memory import DeviceBuffer, DeviceImage


class Exchange:
    """Copies images from (``upload``) or to host memory. ``texels``: of each image, (height, width, components).

    What ``texels`` holds is valid after ``wait``, and is for the host to write or read until the next ``submit``.
    """

    def __init__(self, commands: Commands, images: Sequence[DeviceImage], *, upload: bool):
        self._commands, self._ticket = commands, 0
        self._vk = commands.device.vk
        sizes = [-(-image.slot.bytes // 16) * 16 for image in images]
        offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        self._staging = DeviceBuffer(commands.device, max(sum(sizes), 16), "exchange", host=True)
        self.texels = [self._view(image, offset) for image, offset in zip(images, offsets, strict=True)]

        def write(buffer: Any) -> None:
            for image, offset in zip(images, offsets, strict=True):
                self._copy(buffer, image, offset, upload)
            if not upload:
                commands.to_host(buffer)

        self._buffer = commands.record(write)

    def _view(self, image: DeviceImage, offset: int) -> np.ndarray:
        s = image.slot
        values = self._staging.mapped[offset : offset + s.bytes].view(np.int32 if s.is_int else np.float32)
        return values.reshape(s.height, s.width, s.components)

    def _copy(self, buffer: Any, image: DeviceImage, offset: int, upload: bool) -> None:
        vk = self._vk
        region = vk.VkBufferImageCopy(
            bufferOffset=offset,
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageExtent=vk.VkExtent3D(image.slot.width, image.slot.height, 1),
        )
        general = vk.VK_IMAGE_LAYOUT_GENERAL
        if upload:
            vk.vkCmdCopyBufferToImage(buffer, self._staging.handle, image.handle, general, 1, [region])
        else:
            vk.vkCmdCopyImageToBuffer(buffer, image.handle, general, self._staging.handle, 1, [region])

    def submit(self) -> None:
        """Queue the copies behind all work so far."""
        self._ticket = self._commands.submit(self._buffer)

    def wait(self) -> None:
        """Wait until the copies that were queued last are done."""
        self._commands.wait(self._ticket)

    def destroy(self) -> None:
        """Release the memory and the commands. The copies must be done."""
        self._commands.release(self._buffer)
        self.texels = []
        self._staging.destroy()
