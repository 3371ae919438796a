"""Command buffers and their submission."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import DeviceError
from ...plan.sync.barriers import Barrier
from .device import Device
from .memory import DeviceBuffer, DeviceImage

_BUFFERS = 64  # command buffers in flight at most
_SUBMISSIONS = 16  # calls of vkQueueSubmit in flight at most


@dataclass
class _Submission:
    ticket: int
    fence: Any
    buffers: int


class Commands:
    """A command pool and its submissions in flight. They run in order; each has a number that grows, its ticket."""

    def __init__(self, device: Device):
        vk = device.vk
        self.device = device
        flags = vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
        info = vk.VkCommandPoolCreateInfo(flags=flags, queueFamilyIndex=device.family)
        self.pool = device.create("CommandPool", info)
        self._fences = [device.create("Fence", vk.VkFenceCreateInfo()) for _ in range(_SUBMISSIONS)]
        self._free = list(self._fences)
        self._under_way: deque[_Submission] = deque()
        self._ticket = 0
        # One submit info for all submissions: nothing is made anew in a step.
        self._batch = vk.ffi.new("VkCommandBuffer[]", _BUFFERS)
        self._info = vk.ffi.new("VkSubmitInfo*")
        self._info.sType = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO
        self._info.pCommandBuffers = self._batch

    # ---- recording
    def allocate(self) -> Any:
        """A new command buffer, which lives until ``release`` or ``destroy``."""
        vk = self.device.vk
        info = vk.VkCommandBufferAllocateInfo(
            commandPool=self.pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
        )
        return vk.vkAllocateCommandBuffers(self.device.handle, info)[0]

    def release(self, buffer: Any) -> None:
        """Free a command buffer that is not in flight."""
        self.device.vk.vkFreeCommandBuffers(self.device.handle, self.pool, 1, [buffer])

    def record(self, write: Callable[[Any], None], buffer: Any = None) -> Any:
        """Record a command buffer, a new one or ``buffer`` again. It may be in flight several times, and begins with
        a full barrier."""
        vk = self.device.vk
        buffer = self.allocate() if buffer is None else buffer
        flags = vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
        vk.vkBeginCommandBuffer(buffer, vk.VkCommandBufferBeginInfo(flags=flags))
        self.barrier(buffer)
        write(buffer)
        vk.vkEndCommandBuffer(buffer)
        return buffer

    def once(self, write: Callable[[Any], None]) -> None:
        """Record, submit, and wait for the end."""
        buffer = self.record(write)
        self.submit(buffer)
        self.wait()
        self.release(buffer)

    def barrier(self, buffer: Any) -> None:
        """A full barrier: commands before it are finished, and their writes visible, before those after it begin."""
        self._barrier(buffer, self.device.vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT)

    def order(self, buffer: Any, barrier: Barrier) -> None:
        """A barrier of a plan."""
        vk = self.device.vk
        memory = vk.VkMemoryBarrier(srcAccessMask=int(barrier.written), dstAccessMask=int(barrier.seen))
        before, after = int(barrier.before), int(barrier.after)
        vk.vkCmdPipelineBarrier(buffer, before, after, 0, 1, [memory], 0, None, 0, None)

    def to_host(self, buffer: Any) -> None:
        """Make all writes before visible to the host once the submission is done."""
        self._barrier(buffer, self.device.vk.VK_PIPELINE_STAGE_HOST_BIT)

    def _barrier(self, buffer: Any, after: int) -> None:
        vk = self.device.vk
        write, host = vk.VK_ACCESS_MEMORY_WRITE_BIT, after == vk.VK_PIPELINE_STAGE_HOST_BIT
        seen = vk.VK_ACCESS_HOST_READ_BIT if host else vk.VK_ACCESS_MEMORY_READ_BIT | write
        memory = vk.VkMemoryBarrier(srcAccessMask=vk.VK_ACCESS_MEMORY_READ_BIT | write, dstAccessMask=seen)
        everything = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
        vk.vkCmdPipelineBarrier(buffer, everything, after, 0, 1, [memory], 0, None, 0, None)

    def initialize(self, images: list[DeviceImage], zero: list[DeviceImage]) -> None:
        """Bring new images into their layouts, and fill those in ``zero`` with zeros."""
        vk = self.device.vk
        color, depth = (
            vk.VkImageSubresourceRange(aspect, 0, 1, 0, 1)
            for aspect in (vk.VK_IMAGE_ASPECT_COLOR_BIT, vk.VK_IMAGE_ASPECT_DEPTH_BIT)
        )

        def write(buffer: Any) -> None:
            changes = [
                vk.VkImageMemoryBarrier(
                    dstAccessMask=vk.VK_ACCESS_TRANSFER_WRITE_BIT,
                    oldLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
                    newLayout=image.layout,
                    srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
                    dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
                    image=image.handle,
                    subresourceRange=depth if image.slot.depth else color,
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
                vk.vkCmdClearColorImage(buffer, image.handle, image.layout, clear, 1, [color])

        if images:
            self.once(write)

    def zero(self, buffer: DeviceBuffer) -> None:
        """Fill a buffer with zeros."""
        vk = self.device.vk
        self.once(lambda b: vk.vkCmdFillBuffer(b, buffer.handle, 0, buffer.size, 0))

    # ---- submitting
    def submit(self, *buffers: Any, times: int = 1) -> int:
        """Submit command buffers, the last one ``times`` times. Waits while more than ``_BUFFERS`` are in flight.
        Returns the ticket."""
        self.device.check_thread()
        *first, last = buffers
        left = len(first) + times
        while left:
            count = min(left, _BUFFERS)
            for k in range(count):
                self._batch[k] = first.pop(0) if first else last
            self._make_room(count)
            self._submit(count)
            left -= count
        return self._ticket

    def submit_together(self, buffers: Sequence[Any]) -> int:
        """Submit all command buffers of a sequence at once, however many they are. Waits for earlier submissions until at
        most one such sequence is in flight. Returns the ticket."""
        self.device.check_thread()
        long = [s for s in self._under_way if s.buffers > _BUFFERS]
        if len(long) > 1:
            self.wait(long[-2].ticket)
        if not self._free:
            self.wait(self._under_way[0].ticket)
        sequence = self.device.vk.ffi.new("VkCommandBuffer[]", list(buffers))
        kept, self._info.pCommandBuffers = self._info.pCommandBuffers, sequence
        try:
            self._submit(len(sequence))
        finally:
            self._info.pCommandBuffers = kept
        return self._ticket

    def _make_room(self, count: int) -> None:
        """Wait for the oldest submissions until ``count`` more command buffers may follow."""
        busy = sum(s.buffers for s in self._under_way)
        while self._under_way and (busy + count > _BUFFERS or not self._free):
            busy -= self._under_way[0].buffers
            self.wait(self._under_way[0].ticket)

    def _submit(self, count: int) -> None:
        fence = self._free.pop()
        self._info.commandBufferCount = count
        try:
            self.device.work.submit(self._info, fence)
        except DeviceError:
            self._free.append(fence)
            raise
        self._ticket += 1
        self._under_way.append(_Submission(self._ticket, fence, count))

    def done(self, ticket: int) -> bool:
        """Whether a submission is done. Does not wait."""
        vk = self.device.vk
        flying = next((s for s in self._under_way if s.ticket >= ticket), None)
        if flying is None:
            return True
        if vk.lib.vkGetFenceStatus(self.device.handle, flying.fence) == vk.VK_NOT_READY:
            return False
        self.wait(flying.ticket)
        return True

    def wait(self, ticket: int | None = None) -> None:
        """Wait until a submission, or all of them, are done. Ctrl-C raises KeyboardInterrupt; the work goes on, and
        the next call waits for it again."""
        ended = [s for s in self._under_way if ticket is None or s.ticket <= ticket]
        if not ended:
            return
        vk, fences = self.device.vk, [s.fence for s in ended]
        self.device.work.wait(fences)
        vk.vkResetFences(self.device.handle, len(fences), fences)
        for s in ended:
            self._under_way.popleft()
            self._free.append(s.fence)

    def destroy(self) -> None:
        """Release everything. All work must have ended, see ``Device.settle``."""
        for fence in self._fences:
            self.device.destroy(fence)
        self.device.destroy(self.pool)
