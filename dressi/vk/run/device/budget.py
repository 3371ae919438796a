"""How many bytes of device memory this process may use."""

from __future__ import annotations

from typing import Any

from ..host.platforms import physical_memory
from .results import Binding

BUDGET_EXTENSION = "VK_EXT_memory_budget"


class Budget:
    """The memory budget of each heap.

    With VK_EXT_memory_budget the driver tells it, other programs considered. Otherwise it is the size of the heap; CPU
    drivers report nominal heaps, so there it is the memory of the host. imposed: a smaller budget for every heap, in
    bytes, set by the user; None: there is none.
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
