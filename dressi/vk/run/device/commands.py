"""Command buffers and their submission."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ....errors import DeviceError
from ...plan.execution.sync import Barrier
from .device import Device
from .memory import DeviceBuffer, DeviceImage, Stored
from .queue import Passage

_BUFFERS = 64  # command buffers in flight at most
LONGEST = 8192
"""Command buffers of one submission of a sequence, see ``Commands.submit_together``."""
PATIENCE = 32  # command buffers behind a gate, after which the host looks whether it has closed
_SUBMISSIONS = 16  # calls of vkQueueSubmit in flight at most


@dataclass
class _Submission:
    ticket: int
    fence: Any
    buffers: Sequence[Any]
    passage: Passage


class Commands:
    """A command pool and its submissions, which run in order; each has a growing number, its ticket."""

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
        self._allocated: set[Any] = set()
        # One submit info for all submissions: nothing is made anew in a step.
        self._batch = vk.ffi.new("VkCommandBuffer[]", _BUFFERS)
        self._info = vk.ffi.new("VkSubmitInfo*")
        self._info.sType = vk.VK_STRUCTURE_TYPE_SUBMIT_INFO

    # ---- recording
    def allocate(self) -> Any:
        """A new command buffer, which lives until ``release`` or ``destroy``."""
        vk = self.device.vk
        info = vk.VkCommandBufferAllocateInfo(
            commandPool=self.pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
        )
        buffer = vk.vkAllocateCommandBuffers(self.device.handle, info)[0]
        self._allocated.add(buffer)
        return buffer

    def release(self, buffer: Any) -> None:
        """Free a command buffer that is not in flight."""
        self._allocated.discard(buffer)
        self._forget([buffer])
        self.device.vk.vkFreeCommandBuffers(self.device.handle, self.pool, 1, [buffer])

    def _forget(self, buffers: Iterable[Any]) -> None:
        """Command buffers are about to go; first note that the submissions that held them have ended."""
        with suppress(DeviceError):
            self._look()
        for buffer in buffers:
            self.device.work.pace.forget(buffer)

    def record(self, write: Callable[[Any], None], buffer: Any = None) -> Any:
        """Record a command buffer, a new one or ``buffer`` again. It may be in flight several times, and
        begins with a full barrier."""
        vk = self.device.vk
        buffer = self.allocate() if buffer is None else buffer
        self.device.work.pace.forget(buffer)
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
        """A full barrier: earlier commands are finished, and their writes visible, before later ones begin."""
        vk = self.device.vk
        self._everything_before(
            buffer,
            vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
            vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT,
        )

    def to_host(self, buffer: Any) -> None:
        """Make all writes before visible to the host once the submission is done."""
        vk = self.device.vk
        self._everything_before(buffer, vk.VK_PIPELINE_STAGE_HOST_BIT, vk.VK_ACCESS_HOST_READ_BIT)

    def _everything_before(self, buffer: Any, after: int, seen: int) -> None:
        vk = self.device.vk
        written = vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT
        self._order(buffer, vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, after, written, seen)

    def order(self, buffer: Any, barrier: Barrier) -> None:
        """A barrier of a plan."""
        self._order(buffer, int(barrier.before), int(barrier.after), int(barrier.written), int(barrier.seen))

    def _order(self, buffer: Any, before: int, after: int, written: int, seen: int) -> None:
        vk = self.device.vk
        memory = vk.VkMemoryBarrier(srcAccessMask=written, dstAccessMask=seen)
        vk.vkCmdPipelineBarrier(buffer, before, after, 0, 1, [memory], 0, None, 0, None)

    def initialize(self, images: Sequence[Stored], zero: Sequence[DeviceImage]) -> None:
        """Bring new images into their layouts, and fill those in ``zero`` with zeros."""
        new = [image for image in images if isinstance(image, DeviceImage)]
        vk = self.device.vk
        color, depth = (
            vk.VkImageSubresourceRange(aspect, 0, 1, 0, 1)
            for aspect in (vk.VK_IMAGE_ASPECT_COLOR_BIT, vk.VK_IMAGE_ASPECT_DEPTH_BIT)
        )
        cleared = vk.VK_ACCESS_TRANSFER_WRITE_BIT
        tested = vk.VK_ACCESS_DEPTH_STENCIL_ATTACHMENT_READ_BIT
        tested |= vk.VK_ACCESS_DEPTH_STENCIL_ATTACHMENT_WRITE_BIT
        tests = vk.VK_PIPELINE_STAGE_EARLY_FRAGMENT_TESTS_BIT | vk.VK_PIPELINE_STAGE_LATE_FRAGMENT_TESTS_BIT
        first = 0  # stages that use an image first
        for image in new:
            first |= tests if image.slot.depth else vk.VK_PIPELINE_STAGE_TRANSFER_BIT

        def write(buffer: Any) -> None:
            changes = [
                vk.VkImageMemoryBarrier(
                    dstAccessMask=tested if image.slot.depth else cleared,
                    oldLayout=vk.VK_IMAGE_LAYOUT_UNDEFINED,
                    newLayout=image.layout,
                    srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
                    dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
                    image=image.handle,
                    subresourceRange=depth if image.slot.depth else color,
                )
                for image in new
            ]
            before = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
            vk.vkCmdPipelineBarrier(buffer, before, first, 0, 0, None, 0, None, len(changes), changes)
            for image in zero:
                self.clear(buffer, image, np.zeros(4, np.float32))

        if new:
            self.once(write)

    def clear(self, buffer: Any, image: DeviceImage, texel: np.ndarray) -> None:
        """Record that all texels of an image become this one."""
        vk = self.device.vk
        kind = "int32" if texel.dtype.kind == "i" else "float32"
        value = vk.VkClearColorValue(**{kind: texel.ravel().tolist()})
        color = vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1)
        vk.vkCmdClearColorImage(buffer, image.handle, image.layout, value, 1, [color])

    def copy(self, buffer: Any, sources: Sequence[DeviceImage], targets: Sequence[DeviceImage]) -> None:
        """Record copies of whole images into others of their kind."""
        vk = self.device.vk
        general = vk.VK_IMAGE_LAYOUT_GENERAL
        layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        for source, target in zip(sources, targets, strict=True):
            extent = vk.VkExtent3D(source.slot.width, source.slot.height, 1)
            region = vk.VkImageCopy(srcSubresource=layers, dstSubresource=layers, extent=extent)
            vk.vkCmdCopyImage(buffer, source.handle, general, target.handle, general, 1, [region])

    def zero(self, buffer: DeviceBuffer) -> None:
        """Fill a buffer with zeros."""
        vk = self.device.vk
        self.once(lambda b: vk.vkCmdFillBuffer(b, buffer.handle, 0, buffer.size, 0))

    # ---- submitting
    @property
    def last(self) -> int:
        """The ticket of the last submission, also where a ctrl-C kept ``submit`` from returning it."""
        return self._ticket

    def submit(self, *buffers: Any, times: int = 1) -> int:
        """Submit command buffers, all of them ``times`` times, in submissions whose length the device's
        ``Pace`` decides. Waits while more than ``_BUFFERS`` are in flight. Returns the ticket. A ctrl-C ends
        it in between."""
        return self._send([*buffers] * times, _BUFFERS, _BUFFERS, 0, len(buffers))

    def submit_together(self, buffers: Sequence[Any], head: int, unit: int, gates: Sequence[Any] = ()) -> int:
        """The same of a long sequence: as many at once as the ``Pace`` allows, up to ``LONGEST``, twice as
        many in flight. A ctrl-C ends it behind the first ``head``, or a multiple of ``unit`` later. gates: of each
        buffer. Many behind one gate are submitted in parts where the host can see it, and left out once it is closed."""
        return self._send(buffers, LONGEST, 2 * LONGEST, head, unit, _runs(gates))

    def _send(
        self,
        buffers: Sequence[Any],
        together: int,
        in_flight: int,
        head: int,
        unit: int,
        runs: Sequence[tuple[int, int, Any]] = (),
    ) -> int:
        self.device.check_thread()
        first, end, interrupt = 0, len(buffers), None
        ahead = list(reversed(runs))
        while first < end:
            try:
                self._look()
                last = end
                # Behind a gate that the host sees, what comes next is known when the work before it has ended.
                while ahead and ahead[-1][1] <= first:
                    ahead.pop()
                if ahead:
                    begin, last, gate = ahead[-1]
                    if first < begin:
                        last = begin
                    else:
                        self.wait(self._ticket)
                        if not gate.open:
                            first = last
                            continue
                        last = min(first + PATIENCE, last)
                front = buffers[first : min(first + together, last, end)]
                now = front[: self.device.work.pace.count(front, together)]
                self._make_room(len(now), in_flight)
                self._submit(now)
                first += len(now)
            except KeyboardInterrupt as error:
                if interrupt is not None:
                    raise
                # What belongs together is not left half done.
                end = min(head + max(-((head - first) // unit), 0) * unit, end) if first else 0
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return self._ticket

    def _make_room(self, count: int, in_flight: int) -> None:
        """Wait for the oldest submissions until ``count`` more command buffers may follow."""
        busy = sum(len(s.buffers) for s in self._under_way)
        while self._under_way and (busy + count > in_flight or not self._free):
            busy -= len(self._under_way[0].buffers)
            self.wait(self._under_way[0].ticket)

    def _submit(self, buffers: Sequence[Any]) -> None:
        fence, sequence = self._free.pop(), self._batch
        if len(buffers) > _BUFFERS:
            sequence = self.device.vk.ffi.new("VkCommandBuffer[]", len(buffers))
        sequence[0 : len(buffers)] = buffers
        self._info.pCommandBuffers, self._info.commandBufferCount = sequence, len(buffers)
        passage = self.device.work.began()
        try:
            self.device.work.submit(self._info, fence)
        except BaseException as error:
            self.device.work.refused()
            if isinstance(error, DeviceError):  # after a ctrl-C the fence may be in use
                self._free.append(fence)
            raise
        self._ticket += 1
        self._under_way.append(_Submission(self._ticket, fence, buffers, passage))

    def _look(self) -> None:
        """Note which submissions have ended. Does not wait."""
        while self._under_way and self._signalled(self._under_way[0]):
            self._retire(waited=False)

    def _signalled(self, s: _Submission) -> bool:
        vk, work = self.device.vk, self.device.work
        if vk.lib.vkGetFenceStatus(self.device.handle, s.fence) == vk.VK_NOT_READY:
            s.passage.seen = work.clock()
            return False
        return True  # or the device is lost; a wait says so

    def done(self, ticket: int) -> bool:
        """Whether a submission is done. Does not wait."""
        flying = next((s for s in self._under_way if s.ticket >= ticket), None)
        if flying is None:
            return True
        if not self._signalled(flying):
            return False
        self.wait(flying.ticket)
        return True

    def wait(self, ticket: int | None = None) -> None:
        """Wait until a submission, or all of them, are done. Ctrl-C raises KeyboardInterrupt; the work goes
        on, and the next call waits for it again."""
        while self._under_way and (ticket is None or self._under_way[0].ticket <= ticket):
            self._retire(waited=not self._signalled(self._under_way[0]))

    def _retire(self, waited: bool) -> None:
        """Wait for the oldest submission. waited: it had not ended when the host looked."""
        work, s = self.device.work, self._under_way[0]
        work.wait([s.fence])
        self._free.append(self._under_way.popleft().fence)
        work.ended(s.passage, s.buffers, waited)

    def destroy(self) -> None:
        """Release everything. All work must have ended, see ``Device.settle``."""
        self._forget(self._allocated)
        for fence in self._fences:
            self.device.destroy(fence)
        self.device.destroy(self.pool)


def _runs(gates: Sequence[Any]) -> list[tuple[int, int, Any]]:
    """Where at least ``PATIENCE`` command buffers in a row are behind one gate that the host can see: begin, end, gate."""
    found, first = [], 0
    for gate, run in groupby(gates):
        end = first + sum(1 for _ in run)
        if gate is not None and gate.seen and end - first >= PATIENCE:
            found.append((first, end, gate))
        first = end
    return found
