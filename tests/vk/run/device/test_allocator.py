"""Blocks of memory shared by images and buffers, with a driver that hands out numbers instead of memory."""

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dressi.errors import OutOfMemoryError
from dressi.vk.run.device.allocator import FIRST_BLOCK, LARGEST_BLOCK, Allocator, Block, Budget

MIB = 1 << 20
LOCAL, VISIBLE = 1, 2


class Driver:
    """Counts what is allocated; refuses more than ``memory`` bytes."""

    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT = LOCAL, VISIBLE

    def __init__(self, memory: int = 1 << 40):
        self.memory, self.blocks, self.bound = memory, dict[int, np.ndarray](), list[tuple[int, int, int]]()
        self.count = 0

    def requirements(self, _: object, needs: tuple[int, int, int]) -> SimpleNamespace:
        size, alignment, _ = needs
        return SimpleNamespace(size=size, alignment=alignment, memoryTypeBits=3)

    vkGetImageMemoryRequirements = vkGetBufferMemoryRequirements = requirements

    def VkMemoryAllocateInfo(self, allocationSize: int, memoryTypeIndex: int) -> int:
        return allocationSize

    def call(self, function: str, failed: str, device: object, size: int, _: None) -> int:
        if sum(block.size for block in self.blocks.values()) + size > self.memory:
            raise OutOfMemoryError("Radeon failed: the device is out of memory (CODE); buy more")
        self.count += 1
        self.blocks[self.count] = np.zeros(size, np.uint8)
        return self.count

    def bind(self, _: object, target: tuple[int, int, int], memory: int, offset: int) -> None:
        self.bound.append((target[2], memory, offset))

    vkBindImageMemory = vkBindBufferMemory = bind

    def vkMapMemory(self, _: object, memory: int, *__: int) -> memoryview:
        return self.blocks[memory].data

    def vkFreeMemory(self, _: object, memory: int, __: None) -> None:
        del self.blocks[memory]


class Limited(Budget):
    """A budget of one heap."""

    def __init__(self, size: int = 1 << 40):
        self.heap_sizes = [size]

    def of(self, heap: int, held: int) -> int:
        return self.heap_sizes[0]

    def left(self, heap: int, held: int) -> int:
        return self.heap_sizes[0] - held


def allocator(driver: Driver, budget: Limited | None = None, allocations: int = 100) -> Allocator:
    types = [SimpleNamespace(heapIndex=0, propertyFlags=flags) for flags in (LOCAL, VISIBLE)]
    properties = SimpleNamespace(memoryTypes=types, memoryTypeCount=2)
    return Allocator(cast(Any, driver), None, "Radeon", properties, budget or Limited(), allocations)


NUMBERS = iter(range(10**9))


def needing(size: int, alignment: int = 256) -> tuple[int, int, int]:
    """The handle of an image or buffer that needs so much: this driver reads it off the handle."""
    return size, alignment, next(NUMBERS)


def test_a_thousand_images_need_a_few_allocations():
    driver = Driver()
    memory = allocator(driver)
    for _ in range(1000):
        memory.bind_image(needing(64 << 10), "image", LOCAL)
    assert len(driver.blocks) == memory.allocations <= 20
    assert memory.used == 1000 * (64 << 10) <= memory.held <= 1.25 * memory.used


def test_large_images_have_an_allocation_of_their_own():
    driver = Driver()
    memory = allocator(driver)
    memory.bind_image(needing(LARGEST_BLOCK), "large", LOCAL)
    memory.bind_image(needing(LARGEST_BLOCK // 2 + 1), "large", LOCAL)
    memory.bind_image(needing(100), "small", LOCAL)
    assert [block.size for block in driver.blocks.values()][:2] == [LARGEST_BLOCK, LARGEST_BLOCK // 2 + 1]
    assert len(driver.blocks) == 3


def test_images_and_buffers_never_share_a_block():
    driver = Driver()
    memory = allocator(driver)
    for _ in range(3):
        memory.bind_image(needing(100, 1), "image", 0)
        memory.bind_buffer(needing(100, 1), "buffer", 0)
    images, buffers = ({block for _, block, _ in driver.bound[k::2]} for k in (0, 1))
    assert len(images) == len(buffers) == 1 and images.isdisjoint(buffers)


def test_buffers_that_the_host_sees_are_mapped_once_a_block():
    driver = Driver()
    memory = allocator(driver)
    first, second = (memory.bind_buffer(needing(1000), "staging", VISIBLE) for _ in range(2))
    assert first.block is second.block
    first.mapped(1000)[:], second.mapped(1000)[:] = 1, 2
    (block,) = driver.blocks.values()
    assert block[second.offset - 1] == 0 and (block == 1).sum() == (block == 2).sum() == 1000


SIZES = st.lists(
    st.tuples(st.integers(1, 3 * MIB), st.sampled_from([1, 16, 4096]), st.booleans(), st.floats(0, 1)), max_size=60
)  # fmt: skip


@given(SIZES)
def test_ranges_are_aligned_apart_and_used_again(wanted):
    """Whatever comes and goes: no two live ranges overlap, and at the end nothing is left."""
    driver = Driver()
    memory = allocator(driver)
    live = []
    for size, alignment, linear, keep in wanted:
        handle = needing(size, alignment)
        (memory.bind_buffer if linear else memory.bind_image)(handle, "it", LOCAL)
        _, block, offset = driver.bound[-1]
        assert offset % alignment == 0 and offset + size <= driver.blocks[block].size
        live.append((block, offset, offset + size, handle))
        if keep < 0.5:
            memory.free(live.pop(int(keep * 2 * len(live)))[-1])
        spans = sorted(live)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in itertools.pairwise(spans))
        assert memory.used == sum(end - first for _, first, end, _ in live)
    for *_, handle in live:
        memory.free(handle)
    assert memory.used == memory.held == 0 and not driver.blocks


def test_the_smallest_gap_that_fits_is_taken():
    block = Block(0, False, 1000, None, [(0, 300), (400, 500), (600, 1000)])
    assert block.take(90, 1) == 400
    assert block.take(90, 256) == 0
    block.give(400, 90)
    assert block.free == [(90, 300), (400, 500), (600, 1000)]
    assert block.take(500, 1) is None


def test_out_of_memory_names_what_was_wanted_what_is_held_and_the_budget():
    memory = allocator(Driver(), Limited(10 * MIB))
    for name, size in (("FLOAT a", 3), ("VEC4 b", 5), ("VEC4 c", 1)):
        memory.bind_image(needing(size * MIB), name, LOCAL)
    with pytest.raises(OutOfMemoryError) as caught:
        memory.bind_image(needing(2 * MIB), "VEC4 texture (512x256)", LOCAL)
    assert str(caught.value) == (
        "Radeon is out of memory: VEC4 texture (512x256) needs 2.0 MiB, and only 1.0 MiB of the memory budget are left; "
        "9.0 MiB of 10.0 MiB are held, most of it by VEC4 b (5.0 MiB), FLOAT a (3.0 MiB), VEC4 c (1.0 MiB); use smaller "
        "images, smaller batches or fewer views at a time, or close other Devices and programs"
    )
    memory.bind_image(needing(MIB), "one that fits", LOCAL)


def test_many_images_are_refused_together_before_any_is_made():
    memory = allocator(Driver(), Limited(10 * MIB))
    memory.bind_image(needing(FIRST_BLOCK // 2), "held", LOCAL)  # of a block that has as much again
    memory.expect({"a": 4 * MIB, "b": 5 * MIB + FIRST_BLOCK // 2})
    with pytest.raises(
        OutOfMemoryError, match=r"2 new images need 9\.6 MiB, most of it by b \(5\.6 MiB\), a.*only 9\.5"
    ):
        memory.expect({"a": 4 * MIB, "b": 5 * MIB + FIRST_BLOCK // 2 + (1 << 17)})  # fmt: skip


def test_a_driver_that_refuses_a_block_is_asked_for_what_is_needed():
    driver = Driver(memory=FIRST_BLOCK // 4)
    memory = allocator(driver)
    memory.bind_image(needing(1000), "image", LOCAL)
    assert memory.held == 1000
    with pytest.raises(
        OutOfMemoryError, match=r"needs 1\.0 MiB, and the device is out of memory \(CODE\); 1\.0 KiB of"
    ):
        memory.bind_image(needing(MIB), "image", LOCAL)  # fmt: skip


def test_the_number_of_allocations_is_respected():
    driver = Driver()
    memory = allocator(driver, allocations=2)
    memory.bind_image(needing(LARGEST_BLOCK), "first", LOCAL)
    memory.bind_image(needing(100), "second", LOCAL)
    memory.bind_image(needing(100), "third", LOCAL)
    with pytest.raises(
        OutOfMemoryError, match="all 2 allocations of memory that the device allows are in use"
    ):
        memory.bind_buffer(needing(100), "list", LOCAL)
    assert len(driver.blocks) == 2


def test_the_budget_is_what_the_driver_tells_and_not_more_than_was_imposed():
    """Of a heap of 100 bytes other programs leave 60, and another device of this process has 10 of them."""
    told = SimpleNamespace(heapBudget=[60], heapUsage=[25])
    vk = SimpleNamespace(
        VkPhysicalDeviceMemoryBudgetPropertiesEXT=lambda: told,
        VkPhysicalDeviceMemoryProperties2=lambda pNext: pNext,
        vkGetPhysicalDeviceMemoryProperties2=lambda physical, properties: None,
    )
    properties = SimpleNamespace(memoryHeaps=[SimpleNamespace(size=100)], memoryHeapCount=1)
    budget = Budget(cast(Any, vk), None, properties, extension=True, cpu=False)
    assert (budget.of(0, held=15), budget.left(0, held=15)) == (50, 35)
    budget.imposed = 20
    assert (budget.of(0, held=15), budget.left(0, held=15), budget.left(0, held=30)) == (20, 5, 0)
    silent = Budget(cast(Any, vk), None, properties, extension=False, cpu=False)
    assert (silent.of(0, held=15), silent.left(0, held=15)) == (100, 85)
    nominal = Budget(cast(Any, vk), None, properties, extension=False, cpu=True)
    assert nominal.heap_sizes[0] >= 100
