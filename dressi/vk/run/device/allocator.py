"""Device memory for images and buffers: few allocations, each shared by many of them.

A driver may allow as few as 4096 allocations, and each costs a system call. Memory is therefore allocated in
blocks. A block has one memory type and serves either images or buffers, never both, so
``bufferImageGranularity`` is kept without looking at neighbours. An image or a buffer gets a range of a
block; when it is destroyed the range is used again, and a block without ranges is freed. A new block is a
quarter of what its kind of memory holds already, between ``FIRST_BLOCK`` and ``LARGEST_BLOCK``, so blocks
stay few.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....errors import DeviceError, OutOfMemoryError
from ..host.platforms import physical_memory
from .results import SMALLER, Binding

FIRST_BLOCK = 1 << 20
LARGEST_BLOCK = 64 << 20
"""Bytes of blocks. What needs more than half of the largest one gets an allocation of its own."""
GROWTH = 4
NAMED = 4
"""Holders that a message about memory names."""


BUDGET_EXTENSION = "VK_EXT_memory_budget"


class Budget:
    """The memory budget of each heap.

    With VK_EXT_memory_budget the driver tells it, other programs considered. Otherwise it is the size of the
    heap; CPU drivers report nominal heaps, so there it is the memory of the host. imposed: a smaller budget
    for every heap, in bytes, set by the user; None: there is none.
    """

    def __init__(self, vk: Binding, physical: Any, properties: Any, *, extension: bool, cpu: bool):
        self._vk, self._physical, self._extension = vk, physical, extension
        self.heap_sizes = [heap.size for heap in list(properties.memoryHeaps)[: properties.memoryHeapCount]]
        if cpu:
            self.heap_sizes = [max(size, physical_memory() or 0) for size in self.heap_sizes]
        self.imposed: int | None = None

    def of(self, heap: int, held: int) -> int:
        """Bytes that may be used of a heap of which this device holds so many."""
        size = self.heap_sizes[heap]
        if self._extension:
            vk = self._vk
            told = vk.VkPhysicalDeviceMemoryBudgetPropertiesEXT()
            properties = vk.VkPhysicalDeviceMemoryProperties2(pNext=told)
            vk.vkGetPhysicalDeviceMemoryProperties2(self._physical, properties)
            # The driver's figure for usage includes the other devices of this process.
            size = told.heapBudget[heap] - max(told.heapUsage[heap] - held, 0)
        return size if self.imposed is None else min(size, self.imposed)

    def left(self, heap: int, held: int) -> int:
        """What of it is not held yet."""
        return max(self.of(heap, held) - held, 0)


@dataclass
class Block:
    """One VkDeviceMemory. ``free``: ranges (first byte, end), ordered, never adjacent."""

    kind: int
    linear: bool
    size: int
    memory: Any
    free: list[tuple[int, int]]
    mapped: np.ndarray | None = None

    def take(self, size: int, alignment: int) -> int | None:
        """The offset of a range of this size, from the smallest gap where it fits; None where none is large
        enough."""
        aligned = [-(-first // alignment) * alignment for first, _ in self.free]
        fitting = [k for k, (_, end) in enumerate(self.free) if aligned[k] + size <= end]
        if not fitting:
            return None
        k = min(fitting, key=lambda k: self.free[k][1] - self.free[k][0])
        (first, end), offset = self.free[k], aligned[k]
        self.free[k : k + 1] = [gap for gap in ((first, offset), (offset + size, end)) if gap[0] < gap[1]]
        return offset

    def give(self, offset: int, size: int) -> None:
        """Take a range back and join it with the gaps beside it."""
        insort(self.free, (offset, offset + size))
        joined = [self.free[0]]
        for first, end in self.free[1:]:
            if first == joined[-1][1]:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((first, end))
        self.free = joined


@dataclass(frozen=True)
class Allocation:
    """The range of a block that an image or a buffer is bound to."""

    block: Block = field(repr=False)
    offset: int
    size: int
    name: str

    def mapped(self, size: int) -> np.ndarray:
        """The first bytes, of memory that the host sees."""
        assert self.block.mapped is not None
        return self.block.mapped[self.offset : self.offset + size]


class Allocator:
    """Allocations of one device, by the handle of the image or buffer that is bound to them.

    subject: the device's name, for messages. max_allocations: VkDeviceMemory objects at a time.
    """

    def __init__(
        self, vk: Binding, device: Any, subject: str, properties: Any, budget: Budget, max_allocations: int
    ):
        self._vk, self._device, self._subject = vk, device, subject
        self._types = [
            (t.heapIndex, t.propertyFlags) for t in list(properties.memoryTypes)[: properties.memoryTypeCount]
        ]
        self.budget, self.max_allocations = budget, max_allocations
        self._blocks: list[Block] = []
        self._of: dict[Any, Allocation] = {}

    # ---- what is held
    @property
    def allocations(self) -> int:
        """VkDeviceMemory objects that exist."""
        return len(self._blocks)

    @property
    def held(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for block in self._blocks)

    @property
    def used(self) -> int:
        """Bytes of all images and buffers."""
        return sum(a.size for a in self._of.values())

    def memory_type(self, allowed: int, *wanted: int) -> int:
        """The first memory type among the allowed bits with all flags of the first wish that one has."""
        for flags in wanted:
            for k, (_, offered) in enumerate(self._types):
                if allowed >> k & 1 and offered & flags == flags:
                    return k
        raise DeviceError(f"{self._subject} has no memory of a suitable type; choose another device")

    # ---- images and buffers
    def bind_image(self, image: Any, name: str, *wishes: int) -> None:
        """Memory for a VkImage, of the first of these sets of property flags that there is. Raises
        OutOfMemoryError."""
        needs = self._vk.vkGetImageMemoryRequirements(self._device, image)
        found = self._allocate(image, needs, name, wishes, linear=False)
        self._vk.vkBindImageMemory(self._device, image, found.block.memory, found.offset)

    def bind_buffer(self, buffer: Any, name: str, *wishes: int, extension: Any = None) -> Allocation:
        """The same for a VkBuffer. Where the first wish is for memory that the host sees, it is mapped.
        extension: of VkMemoryAllocateInfo, for a block that holds nothing else."""
        vk = self._vk
        needs = vk.vkGetBufferMemoryRequirements(self._device, buffer)
        found = self._allocate(buffer, needs, name, wishes, linear=True, extension=extension)
        vk.vkBindBufferMemory(self._device, buffer, found.block.memory, found.offset)
        block = found.block
        if wishes[0] & vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT and block.mapped is None:
            data = vk.vkMapMemory(self._device, block.memory, 0, block.size, 0)
            block.mapped = np.frombuffer(data, np.uint8)
        return found

    def free(self, handle: Any) -> None:
        """Give back the memory of a destroyed image or buffer; other handles have none."""
        found = self._of.pop(handle, None)
        if found is None:
            return
        block = found.block
        block.give(found.offset, found.size)
        if block.free == [(0, block.size)]:
            self._blocks.remove(block)
            block.mapped = None  # freeing unmaps
            self._vk.vkFreeMemory(self._device, block.memory, None)

    def _allocate(
        self,
        handle: Any,
        needs: Any,
        name: str,
        wishes: tuple[int, ...],
        *,
        linear: bool,
        extension: Any = None,
    ) -> Allocation:
        kind = self.memory_type(needs.memoryTypeBits, *wishes)
        blocks = [b for b in self._blocks if b.kind == kind and b.linear == linear]
        for block in sorted(blocks, key=lambda b: b.size) if extension is None else ():
            offset = block.take(needs.size, needs.alignment)
            if offset is not None:
                break
        else:
            block = self._block(kind, linear, needs.size, sum(b.size for b in blocks), name, extension)
            offset = block.take(needs.size, needs.alignment)
            assert offset == 0
        found = self._of[handle] = Allocation(block, offset, needs.size, name)
        return found

    # ---- blocks
    def _block(
        self, kind: int, linear: bool, needed: int, held: int, name: str, extension: Any = None
    ) -> Block:
        """A new block; only as large as what is needed now, where there is no memory for more, and with an
        extension."""
        heap = self._types[kind][0]
        if len(self._blocks) >= self.max_allocations:
            reason = f"all {self.max_allocations} allocations of memory that the device allows are in use"
            raise self._out_of_memory(f"{name} needs {mib(needed)}", reason, heap)
        largest = min(LARGEST_BLOCK, self.budget.heap_sizes[heap] // 8)
        size = needed
        if needed <= largest // 2 and extension is None:
            size = max(min(max(held // GROWTH, FIRST_BLOCK), largest), needed)
        reason = ""
        for allocated in dict.fromkeys((size, needed)):
            left = self.budget.left(heap, self._held_of(heap))
            if allocated > left:
                reason = f"only {mib(left)} of the memory budget are left"
                continue
            info = self._vk.VkMemoryAllocateInfo(
                pNext=extension, allocationSize=allocated, memoryTypeIndex=kind
            )
            try:
                memory = self._vk.call("vkAllocateMemory", "failed", self._device, info, None)
            except OutOfMemoryError as error:
                reason = str(error).removeprefix(f"{self._subject} failed: ").partition(";")[0]
                continue
            block = Block(kind, linear, allocated, memory, [(0, allocated)])
            self._blocks.append(block)
            return block
        raise self._out_of_memory(f"{name} needs {mib(needed)}", reason, heap)

    def expect(self, wanted: Mapping[str, int]) -> None:
        """Raises OutOfMemoryError without room for all of these images (names and bytes) together."""
        kind = self.memory_type(-1, self._vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0)
        heap, total = self._types[kind][0], sum(wanted.values())
        blocks = [b for b in self._blocks if b.kind == kind and not b.linear]
        gaps = sum(end - first for b in blocks for first, end in b.free)
        left = self.budget.left(heap, self._held_of(heap)) + gaps
        if total > left:
            what = f"{len(wanted)} new images need {mib(total)}, {_largest(wanted)}"
            raise self._out_of_memory(what, f"only {mib(left)} of the memory budget are left", heap)

    def _held_of(self, heap: int) -> int:
        return sum(b.size for b in self._blocks if self._types[b.kind][0] == heap)

    def _out_of_memory(self, what: str, reason: str, heap: int) -> OutOfMemoryError:
        """What was to be made, why it cannot be, what holds the memory, the budget, and the cure."""
        holders = Counter[str]()
        for allocation in self._of.values():
            holders[allocation.name] += allocation.size
        budget = self.budget.of(heap, self._held_of(heap))
        return OutOfMemoryError(
            f"{self._subject} is out of memory: {what}, and {reason}; {mib(self.used)} of {mib(budget)} are "
            f"held{', ' * bool(holders)}{_largest(holders)}; {SMALLER}"
        )


def _largest(holders: Mapping[str, int]) -> str:
    """The largest few, in words."""
    largest = Counter(holders).most_common(NAMED)
    named = ", ".join(f"{name} ({mib(size)})" for name, size in largest)
    return f"most of it by {named}" if named else ""


def mib(size: int) -> str:
    """Bytes for messages."""
    return f"{size / 2**20:.1f} MiB" if size >= 1 << 20 else f"{size / 2**10:.1f} KiB"
