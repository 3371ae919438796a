"""Uploads and downloads, queued in the order of all other work; the host does not wait for them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from .commands import Commands
from .device import Device
from .external import SharedBuffer
from .memory import DeviceBuffer, DeviceImage

SMALL = 1 << 20  # bytes that may lie idle
SLOTS = 8  # transfers in flight or not yet read; one more waits for the oldest


class Readback:
    """A value on its way to the host: the value after the steps that were submitted before it.

    It stays valid when the engine goes on, is built again or closed. It belongs to the thread of its Device.
    """

    def __init__(self, slot: _Slot, finish: Callable[[list[np.ndarray]], np.ndarray]):
        self._slot: _Slot | None = slot
        self._finish = finish
        self._checks: list[Callable[[], None]] = []
        self._result: np.ndarray | None = None

    def done(self) -> bool:
        """Whether ``result`` does not wait. Raises DeviceError on another thread or a closed Device."""
        if self._slot is None:
            return True
        self._slot.commands.device.check_thread()
        return self._slot.commands.done(self._slot.ticket)

    def result(self) -> np.ndarray:
        """The values, (batch, H, W) + vtype.shape. Waits for the device if they have not arrived."""
        self.arrive()
        checks, self._checks = self._checks, []
        for check in checks:
            check()
        assert self._result is not None
        return self._result

    def arrive(self) -> None:
        """Wait for the device, and take the values out of the slot, which another transfer may use then. Runs
        no checks: these may transfer values themselves, while this makes room for a transfer."""
        if self._slot is not None:
            self._slot.commands.device.check_thread()
            self._slot.commands.wait(self._slot.ticket)
            self._result = self._finish(self._slot.texels)
            self._slot = None

    def then(self, change: Callable[[np.ndarray], np.ndarray]) -> Readback:
        """This handle, with a function applied to its result. Call it before ``result``."""
        finish = self._finish
        self._finish = lambda texels: change(finish(texels))
        return self

    def checked(self, check: Callable[[], None]) -> Readback:
        """This handle. The first ``result`` calls the function once the values are there; it may warn, raise,
        and read other values."""
        self._checks.append(check)
        return self


class _Slot:
    """A command buffer with a host-visible staging buffer, for one transfer at a time."""

    def __init__(self, commands: Commands):
        self.commands = commands
        self.buffer = commands.allocate()
        self.staging: DeviceBuffer | None = None
        self.ticket = 0
        self.texels: list[np.ndarray] = []
        self.reader: weakref.ref[Readback] | None = None

    @property
    def unread(self) -> Readback | None:
        """The handle that has not read the staging buffer yet."""
        reader = self.reader() if self.reader is not None else None
        return reader if reader is not None and reader._slot is self else None

    @property
    def size(self) -> int:
        return self.staging.size if self.staging is not None else 0

    def make_free(self, size: int) -> None:
        """Wait for the transfer, give its handle the value, and make room for ``size`` bytes."""
        self.commands.wait(self.ticket)
        if self.unread is not None:
            self.unread.arrive()
        if self.size < size:
            self.destroy()
            self.staging = DeviceBuffer(self.commands.device, max(size, 1 << 12), "staging", host=True)

    def submit(self, images: Sequence[DeviceImage], *, upload: bool) -> None:
        """Copy the texels to images, or from them. After a ctrl-C the command buffer may be in flight."""
        assert self.staging is not None
        self.commands.record(copying(self.commands, self.staging, images, upload=upload), self.buffer)
        try:
            self.commands.submit(self.buffer)
        finally:
            self.ticket = self.commands.last

    def destroy(self) -> None:
        if self.staging is not None:
            self.staging.destroy()
            self.staging, self.texels = None, []


class Transfers:
    """Uploads and downloads through a ring of slots."""

    def __init__(self, device: Device, commands: Commands):
        self.device, self.commands = device, commands
        self._slots: list[_Slot] = []

    def _free_slot(self, images: list[DeviceImage]) -> _Slot:
        """An idle slot, preferably one with enough room; else a new one; else the oldest, once it is done."""
        size = _offsets(images)[-1]
        free = [s for s in self._slots if s.unread is None and self.commands.done(s.ticket)]
        if free:
            slot = min(free, key=lambda s: (s.size < size, s.size if s.size >= size else -s.size))
        elif len(self._slots) < SLOTS:
            slot = _Slot(self.commands)
            self._slots.append(slot)
        else:
            slot = min(self._slots, key=lambda s: s.ticket)
        slot.make_free(size)
        assert slot.staging is not None
        slot.texels, slot.reader = texels_in(slot.staging.mapped, images), None
        return slot

    def upload(self, images: list[DeviceImage], fill: Callable[[list[np.ndarray]], None]) -> None:
        """Write whole images in one submission. ``fill`` sets the texels that it is given, (height, width,
        components)."""
        slot = self._free_slot(images)
        fill(slot.texels)
        slot.submit(images, upload=True)

    def download(
        self, images: list[DeviceImage], finish: Callable[[list[np.ndarray]], np.ndarray]
    ) -> Readback:
        """Read whole images. ``finish`` turns their texels, (height, width, components) each, into the value;
        it must not keep views of them."""
        slot = self._free_slot(images)
        slot.submit(images, upload=False)
        reader = Readback(slot, finish)
        slot.reader = weakref.ref(reader)
        return reader

    def trim(self) -> None:
        """Give up the memory of large transfers that are done. What a handle has not read stays."""
        for slot in self._slots:
            if slot.unread is None and slot.size > SMALL:
                self.commands.wait(slot.ticket)
                slot.destroy()

    def destroy(self) -> None:
        """Release everything. Unread handles get their values first, unless the device is lost."""
        for slot in self._slots:
            if slot.unread is not None and self.device.work.lost is None:
                slot.unread.arrive()
            slot.destroy()
        self._slots.clear()


class Exchange:
    """Copies a fixed set of images from (``upload``) or to host memory, by commands that are recorded once:
    recording takes longer than a small copy. ``texels``: of each image, (height, width, components).

    What ``texels`` holds is valid after ``wait``, until the next ``submit``. staging: a buffer of ``room``
    bytes that others share, in place of memory of the host; then ``texels`` are theirs.
    """

    def __init__(
        self,
        commands: Commands,
        images: Sequence[DeviceImage],
        *,
        upload: bool,
        staging: SharedBuffer | None = None,
    ):
        self._commands, self._ticket = commands, 0
        self.texels: list[Any] = []
        self._staging = staging or DeviceBuffer(commands.device, room(images), "exchange", host=True)
        if staging is None:
            self.texels = texels_in(self._staging.mapped, images)
        self._buffer = commands.record(copying(commands, self._staging, images, upload=upload))

    def submit(self) -> None:
        """Queue the copies behind all work so far."""
        try:
            self._commands.submit(self._buffer)
        finally:
            self._ticket = self._commands.last

    def wait(self) -> None:
        """Wait until the copies that were queued last are done."""
        self._commands.wait(self._ticket)

    def destroy(self) -> None:
        """Release the memory and the commands. The copies must be done."""
        self._commands.release(self._buffer)
        self.texels = []
        self._staging.destroy()


def _offsets(images: Sequence[DeviceImage]) -> list[int]:
    """Where each image lies in a staging buffer, and the end: multiples of the largest texel, 16 bytes."""
    return list(accumulate(((image.slot.bytes + 15) & ~15 for image in images), initial=0))


def room(images: Sequence[DeviceImage]) -> int:
    """Bytes of a staging buffer for these images."""
    return max(_offsets(images)[-1], 16)


class Block(NamedTuple):
    """The texels of an image in a staging buffer: where they begin, and what they are."""

    offset: int
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]


def blocks_in(images: Sequence[DeviceImage]) -> list[Block]:
    """Where the texels of each image lie, (height, width, components)."""
    return [
        Block(offset, (s.height, s.width, s.components), np.dtype(np.int32 if s.is_int else np.float32))
        for s, offset in zip((image.slot for image in images), _offsets(images))
    ]


def texels_in(memory: np.ndarray, images: Sequence[DeviceImage]) -> list[np.ndarray]:
    """The texels of each image, as views of the bytes of a staging buffer."""
    return [np.ndarray(b.shape, b.dtype, memory, b.offset) for b in blocks_in(images)]


def copying(
    commands: Commands, staging: DeviceBuffer, images: Sequence[DeviceImage], *, upload: bool
) -> Callable[[Any], None]:
    """Records copies of whole images from a staging buffer (``upload``) or to it."""
    device = commands.device
    vk = device.vk
    general = vk.VK_IMAGE_LAYOUT_GENERAL

    def hand_over(buffer: Any, before: int, after: int) -> None:
        """What is shared belongs to one queue family, or to others outside of this device."""
        change = vk.VkBufferMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_MEMORY_WRITE_BIT,
            dstAccessMask=vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT,
            srcQueueFamilyIndex=before,
            dstQueueFamilyIndex=after,
            buffer=staging.handle,
            size=staging.size,
        )
        every = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
        vk.vkCmdPipelineBarrier(buffer, every, every, 0, 0, None, 1, [change], 0, None)

    def write(buffer: Any) -> None:
        shared = isinstance(staging, SharedBuffer)
        if shared:
            hand_over(buffer, vk.VK_QUEUE_FAMILY_EXTERNAL, device.family)
        for image, offset in zip(images, _offsets(images)):
            region = vk.VkBufferImageCopy(
                bufferOffset=offset,
                imageSubresource=vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1),
                imageExtent=vk.VkExtent3D(image.slot.width, image.slot.height, 1),
            )
            if upload:
                vk.vkCmdCopyBufferToImage(buffer, staging.handle, image.handle, general, 1, [region])
            else:
                vk.vkCmdCopyImageToBuffer(buffer, image.handle, general, staging.handle, 1, [region])
        if shared:
            hand_over(buffer, device.family, vk.VK_QUEUE_FAMILY_EXTERNAL)
        elif not upload:
            commands.to_host(buffer)

    return write
