"""Command buffers, submission and transfers of one executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import DeviceError
from .device import Device
from .memory import DeviceBuffer, DeviceImage

_SUBMITS = 64  # command buffers of one vkQueueSubmit; also how long a ctrl-C can wait


class Commands:
    """A command pool with a fence and a growing staging buffer."""

    def __init__(self, device: Device):
        vk = device.vk
        self.device = device
        flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
        info = vk.VkCommandPoolCreateInfo(flags=flags, queueFamilyIndex=device.family)
        self.pool = device.create("CommandPool", info)
        self.fence = device.create("Fence", vk.VkFenceCreateInfo())
        self._once = self._allocate()
        self._staging: DeviceBuffer | None = None
        self._pending = False

    def _allocate(self) -> Any:
        vk = self.device.vk
        info = vk.VkCommandBufferAllocateInfo(
            commandPool=self.pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
        )
        return vk.vkAllocateCommandBuffers(self.device.handle, info)[0]

    def record(self, write: Callable[[Any], None]) -> Any:
        """A command buffer that can be submitted many times at once; begins with a full barrier."""
        vk = self.device.vk
        buffer = self._allocate()
        flags = vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo(flags=flags))
        self.barrier(buffer)
        write(buffer)
        vk.vkEndCommandBuffer(buffer)
        return buffer

    def once(self, write: Callable[[Any], None]) -> None:
        """Record, submit and wait."""
        vk = self.device.vk
        self.wait()
        flags = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
        vk.vkBeginCommandBuffer(self._once, vk.VkCommandBufferBeginInfo(flags=flags))
        self.barrier(self._once)
        write(self._once)
        self.barrier(self._once)
        vk.vkEndCommandBuffer(self._once)
        self.submit(self._once)
        self.wait()

    def submit(self, buffer: Any, times: int = 1) -> None:
        """Queue a command buffer ``times`` times; at most ``_SUBMITS`` are under way when the host goes on."""
        vk = self.device.vk
        self.device.check_thread()
        while times:
            n = min(times, _SUBMITS)
            self.wait()
            info = vk.VkSubmitInfo(commandBufferCount=n, pCommandBuffers=[buffer] * n)
            try:
                vk.vkQueueSubmit(self.device.queue, 1, [info], self.fence)
            except Exception as error:
                raise DeviceError(f"{self.device.name} refused work: {type(error).__name__}") from error
            self._pending = True
            times -= n

    def wait(self) -> None:
        """Until everything submitted is done."""
        if not self._pending:
            return
        vk = self.device.vk
        try:
            vk.vkWaitForFences(self.device.handle, 1, [self.fence], True, 0xFFFFFFFFFFFFFFFF)
        except Exception as error:
            raise DeviceError(f"{self.device.name} failed while working: {type(error).__name__}") from error
        vk.vkResetFences(self.device.handle, 1, [self.fence])
        self._pending = False

    def barrier(self, buffer: Any) -> None:
        """Everything before is finished and visible to everything after."""
        vk = self.device.vk
        both = vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT
        everything = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
        memory = vk.VkMemoryBarrier(srcAccessMask=both, dstAccessMask=both)
        vk.vkCmdPipelineBarrier(buffer, everything, everything, 0, 1, [memory], 0, None, 0, None)

    def make_general(self, images: list[DeviceImage], zero: list[DeviceImage]) -> None:
        """Bring new images into the layout GENERAL; those in ``zero`` filled with zeros."""
        vk = self.device.vk
        color = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)

        def write(buffer: Any) -> None:
            changes = [
                vk.VkImageMemoryBarrier(
                    dstAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT,
                    oldLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
                    newLayout=vk.VK_IMAGE_LAYOUT_GENERAL,
                    srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
                    dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
                    image=image.handle,
                    subresourceRange=color,
                )
                for image in images
            ]
            vk.vkCmdPipelineBarrier(
                buffer,
                vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                vk.VK_PIPELINE_STAGE_TRANSFER_BIT,
                0,
                0,
                None,
                0,
                None,
                len(changes),
                changes,
            )
            clear = vk.VkClearColorValue(float32=[0.0, 0.0, 0.0, 0.0])
            for image in zero:
                vk.vkCmdClearColorImage(buffer, image.handle, vk.VK_IMAGE_LAYOUT_GENERAL, clear, 1, [color])

        if images:
            self.once(write)

    def zero(self, buffer: DeviceBuffer) -> None:
        """Fill a buffer with zeros."""
        vk = self.device.vk
        self.once(lambda b: vk.vkCmdFillBuffer(b, buffer.handle, 0, buffer.size, 0))

    def _staged(self, images: list[DeviceImage]) -> tuple[DeviceBuffer, list[int]]:
        """A staging buffer with room for the images, and where in it each of them starts."""
        self.wait()
        ends = [int(end) for end in np.cumsum([_aligned(image.slot.bytes) for image in images])]
        size = ends[-1] if ends else 0
        if self._staging is None or self._staging.size < size:
            if self._staging is not None:
                self._staging.destroy()
            self._staging = DeviceBuffer(self.device, max(size, 1 << 16), "staging", host=True)
        return self._staging, [0, *ends[:-1]][: len(images)]

    def _region(self, image: DeviceImage, offset: int) -> Any:
        vk = self.device.vk
        return vk.VkBufferImageCopy(
            bufferOffset=offset,
            imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
            imageExtent=vk.VkExtent3D(image.slot.width, image.slot.height, 1),
        )

    def upload(self, images: list[DeviceImage], fill: Callable[[list[np.ndarray]], None]) -> None:
        """Write whole images, in one submission: ``fill`` sets the arrays (height, width, components) it is given."""
        vk = self.device.vk
        staging, offsets = self._staged(images)
        fill([_texels(staging, image, offset) for image, offset in zip(images, offsets, strict=True)])

        def write(buffer: Any) -> None:
            for image, offset in zip(images, offsets, strict=True):
                region = self._region(image, offset)
                vk.vkCmdCopyBufferToImage(
                    buffer, staging.handle, image.handle, vk.VK_IMAGE_LAYOUT_GENERAL, 1, [region]
                )

        self.once(write)

    def download(self, images: list[DeviceImage]) -> list[np.ndarray]:
        """Read whole images: arrays (height, width, components)."""
        vk = self.device.vk
        staging, offsets = self._staged(images)

        def write(buffer: Any) -> None:
            for image, offset in zip(images, offsets, strict=True):
                region = self._region(image, offset)
                vk.vkCmdCopyImageToBuffer(
                    buffer, image.handle, vk.VK_IMAGE_LAYOUT_GENERAL, staging.handle, 1, [region]
                )

        self.once(write)
        return [_texels(staging, image, offset).copy() for image, offset in zip(images, offsets, strict=True)]

    def destroy(self) -> None:
        self.wait()
        if self._staging is not None:
            self._staging.destroy()
            self._staging = None
        self.device.destroy(self.fence)
        self.device.destroy(self.pool)


def _aligned(size: int) -> int:
    """Offsets of copies are multiples of a texel: 16 bytes at most."""
    return (size + 15) & ~15


def _texels(staging: DeviceBuffer, image: DeviceImage, offset: int) -> np.ndarray:
    """Where the image lies in the staging buffer, as an array (height, width, components)."""
    slot = image.slot
    raw = staging.mapped[offset : offset + slot.bytes].view(np.int32 if slot.is_int else np.float32)
    return raw.reshape(slot.height, slot.width, slot.components)
