"""The commands of a frame: clear an image of a swapchain, and blit pictures into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device.results import Binding
from ..export import ExportedImage
from .choices import Rectangle, clip, covered, overlap


class Copies:
    """Records frames. The structures are made once."""

    def __init__(self, vk: Binding):
        self._vk = vk
        self._whole = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)
        self._part = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        self._black = vk.VkClearColorValue(float32=[0.0, 0.0, 0.0, 1.0])

    def record(
        self,
        buffer: Any,
        target: Any,
        size: tuple[int, int],
        layers: Sequence[tuple[ExportedImage, Rectangle]],
        *,
        smooth: bool,
    ) -> None:
        """A frame: the layers in their order, scaled to their rectangles of an image of this size, over black."""
        vk = self._vk
        flags = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo(flags=flags))
        written, read = 0, 0
        for image, _ in layers:
            written, read = written | image.stage, read | image.access
        if layers:
            seen = vk.VkMemoryBarrier(srcAccessMask=read, dstAccessMask=vk.VK_ACCESS_TRANSFER_READ_BIT)
            vk.vkCmdPipelineBarrier(
                buffer, written, vk.VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, [seen], 0, None, 0, None
            )
        write = vk.VK_ACCESS_TRANSFER_WRITE_BIT
        general = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        # The acquisition is waited for at this stage, so the change of the layout comes after it.
        self._change(buffer, target, 0, write, vk.VK_IMAGE_LAYOUT_UNDEFINED, general)
        drawn: list[Rectangle] = []
        if not covered([place for _, place in layers[:1]], size):
            vk.vkCmdClearColorImage(buffer, target, general, self._black, 1, [self._whole])
            drawn.append((0, 0, *size))
        for image, place in layers:
            parts = clip(image.size, place, size)
            if parts is None:
                continue
            if any(overlap(parts[1], other) for other in drawn):
                self._change(buffer, target, write, write, general, general)
                drawn.clear()
            self._blit(buffer, target, image, *parts, smooth=smooth)
            drawn.append(parts[1])
        self._change(buffer, target, write, 0, general, vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR)
        vk.vkEndCommandBuffer(buffer)

    def _blit(
        self,
        buffer: Any,
        target: Any,
        image: ExportedImage,
        part: Rectangle,
        place: Rectangle,
        *,
        smooth: bool,
    ) -> None:
        vk = self._vk
        (left, top), plane = image.offsets[0], image.planes[0]

        def corners(x: int, y: int, width: int, height: int) -> list[Any]:
            return [vk.VkOffset3D(x, y, 0), vk.VkOffset3D(x + width, y + height, 1)]

        region = vk.VkImageBlit(
            srcSubresource=self._part,
            srcOffsets=corners(part[0] + left, part[1] + top, part[2], part[3]),
            dstSubresource=self._part,
            dstOffsets=corners(*place),
        )
        vk.vkCmdBlitImage(
            buffer,
            vk.ffi.cast("VkImage", plane.image),
            image.layout,
            target,
            vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL,
            1,
            [region],
            vk.VK_FILTER_LINEAR if smooth else vk.VK_FILTER_NEAREST,
        )

    def _change(self, buffer: Any, image: Any, before: int, after: int, old: int, new: int) -> None:
        """A barrier of an image between transfers, to the layout ``new``."""
        vk = self._vk
        barrier = vk.VkImageMemoryBarrier(
            srcAccessMask=before,
            dstAccessMask=after,
            oldLayout=old,
            newLayout=new,
            srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
            image=image,
            subresourceRange=self._whole,
        )
        transfer = vk.VK_PIPELINE_STAGE_TRANSFER_BIT
        end = (
            vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT if new == vk.VK_IMAGE_LAYOUT_PRESENT_SRC_KHR else transfer
        )
        vk.vkCmdPipelineBarrier(buffer, transfer, end, 0, 0, None, 0, None, 1, [barrier])
