"""Memory of devices: the allocator, its limits, and the results of calls."""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import vulkan
from hypothesis import given
from hypothesis import strategies as st

from dressi import VEC4, Device, DressiAD, F, Variable, adam
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.errors import DeviceError, DeviceLostError, DressiError, OutOfMemoryError
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.options import BASELINE
from dressi.vk.plan.execution.images import ANY, ImageSlot, Usage
from dressi.vk.plan.model.records import CPU
from dressi.vk.run.device.allocator import FIRST_BLOCK, LARGEST_BLOCK, Allocator, Block, Budget
from dressi.vk.run.device.results import DEVICE_LOST, RESULTS, Binding
from dressi.vk.run.execution.workspace import Workspace
from dressi.vk.run.measure import calibration

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

    def VkMemoryAllocateInfo(self, pNext: None, allocationSize: int, memoryTypeIndex: int) -> int:
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
    needs = r"2 new images need 9\.6 MiB, most of it by b \(5\.6 MiB\), a.*only 9\.5"
    with pytest.raises(OutOfMemoryError, match=needs):
        memory.expect({"a": 4 * MIB, "b": 5 * MIB + FIRST_BLOCK // 2 + (1 << 17)})


def test_a_driver_that_refuses_a_block_is_asked_for_what_is_needed():
    driver = Driver(memory=FIRST_BLOCK // 4)
    memory = allocator(driver)
    memory.bind_image(needing(1000), "image", LOCAL)
    assert memory.held == 1000
    refused = r"needs 1\.0 MiB, and the device is out of memory \(CODE\); 1\.0 KiB of"
    with pytest.raises(OutOfMemoryError, match=refused):
        memory.bind_image(needing(MIB), "image", LOCAL)


def test_the_number_of_allocations_is_respected():
    driver = Driver()
    memory = allocator(driver, allocations=2)
    memory.bind_image(needing(LARGEST_BLOCK), "first", LOCAL)
    memory.bind_image(needing(100), "second", LOCAL)
    memory.bind_image(needing(100), "third", LOCAL)
    used = "all 2 allocations of memory that the device allows are in use"
    with pytest.raises(OutOfMemoryError, match=used):
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


@pytest.fixture
def own(device):
    """A second device of the same driver, closed at the end."""
    with Device(device.physical, validation=device.instance.validation) as own:
        yield own


def fitted(own: Device) -> tuple[DressiAD, Variable]:
    """An engine at work, with 2 parameters of 64 KiB."""
    x = Variable(size=(128, 128), data=np.ones((1, 128, 128)), name="small")
    ad = DressiAD(own)
    ad.set_loss(F.mean(F.square(x)))
    ad.set_optimizer(adam(0.1), [x])
    ad.step(2)
    return ad, x


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_made(own):
    ad, x = fitted(own)
    before, kept, objects = ad.recv(x), ad.state(), own.live_objects()
    own.memory.budget.imposed = own.memory.held + 4 * MIB
    photo = Variable(VEC4, size=(1024, 1024), name="photo")
    ad.set_output("blurred", F.shift(F.square(photo), 1, 0) * F.mean(x))
    needs = r"new images need \d+\.\d MiB, most of it by .*16\.0 MiB.*only"
    with pytest.raises(OutOfMemoryError, match=needs) as caught:
        ad.recv("blurred")
    said = str(caught.value)
    assert "VEC4 photo (1024x1024) (16.0 MiB)" in said and "FLOAT small (128x128)" in said
    assert "KiB" in said.partition("are held")[2] and said.endswith("programs")
    assert own.live_objects() == objects
    # Nothing is lost: the values stay, steps go on.
    ad.remove_output("blurred")
    assert (ad.recv(x) == before).all() and ad.state().keys() == kept.keys()
    ad.step(2)
    assert (ad.recv(x) < before).all() and len(ad.losses()) == 4
    own.memory.budget.imposed = None
    ad.set_output("blurred", F.square(photo))
    ad.send(photo, np.full((1, 1024, 1024, 4), 2, np.float32))
    assert ad.recv("blurred")[0, 0, 0, 0] == 4
    ad.close()
    assert own.live_objects() == []


def test_a_leaf_that_does_not_fit_is_named(own):
    own.memory.budget.imposed = 4 * MIB
    photo = Variable(VEC4, size=(1024, 1024), name="photo")
    with DressiAD(own) as ad:
        needs = r"VEC4 photo \(1024x1024\) needs 16\.\d MiB, and only \d.* left"
        with pytest.raises(OutOfMemoryError, match=needs):
            ad.send(photo, np.zeros((1, 1024, 1024, 4), np.float32))
        x = Variable.of(3.0)
        assert ad.evaluate(F.square(x)).item() == 9
    assert own.live_objects() == []


def test_a_change_of_plan_without_memory_keeps_the_plan(own, monkeypatch):
    """A leaf that is sent in every step asks for a specialised plan; without memory for it, steps go on as before."""
    refused = []

    def refuse(wanted: dict[str, int]) -> None:
        refused.append(wanted)
        raise OutOfMemoryError("nothing is left")

    x, y = (Variable(size=(256, 256), data=np.ones((1, 256, 256)), name=name) for name in "xy")
    with DressiAD(own) as ad:
        ad.set_loss(F.mean(F.square(x - F.shift(F.exp(y), 1, 0))))
        ad.set_optimizer(adam(0.1), [x])
        for k in range(16):
            ad.send(y, np.ones((1, 256, 256), np.float32))
            ad.step()
            if k == 2:
                monkeypatch.setattr(own.memory, "expect", refuse)
        assert len(refused) == 1 and ad.plan.changing == frozenset()
        assert len(ad.losses()) == 16 and ad.losses()[-1] < ad.losses()[0]


def test_images_share_few_allocations(own):
    with DressiAD(own) as ad:
        leaves = [Variable.of(np.full(5, float(k)), name=f"x{k}") for k in range(60)]
        ad.set_output("y", sum(leaves[1:], leaves[0]))
        assert ad.recv("y")[0] == sum(range(60))
        assert own.live_objects().count("Memory") == own.memory.allocations <= 4
        assert own.live_objects().count("Image") >= 60


def test_images_are_made_for_what_their_plan_does():
    x = Variable(size=(8, 8), name="x")
    squared = F.square(x)
    loss = F.mean(F.shift(squared, 1, 0) * squared)
    position = Variable(VEC4, size=(6, 1), name="position")
    face = F.rasterize(position, size=(8, 8))
    program = Program({"loss": loss, "face": face, "back": F.to_float(face) * squared})
    plan = build_plan(program, DeviceLimits(), shader_text, BASELINE)
    slots = plan.images.slots
    shared = {*plan.program.leaves, *plan.program.outputs.values()}
    assert all(slots[k].usage == ANY for v in shared for k in plan.images.of[v])
    depths = {slots[k] for k in plan.images.depths.values()}
    assert {(slot.usage, slot.format) for slot in depths} == {(Usage.DEPTH, "D32_SFLOAT")}
    inner = [slots[k] for v, numbers in plan.images.of.items() if v not in shared for k in numbers]
    assert inner and all(slot.usage not in (Usage(0), ANY) for slot in inner)
    assert all(Usage.STORAGE in slot.usage or Usage.COLOR in slot.usage for slot in inner)  # fmt: skip


def test_plans_share_images_that_may_be_used_for_as_much(own):
    """An image of another plan with all usages that are needed is used again; another one is made where some lack."""
    workspace = Workspace(own, own.limits)
    drawn = ImageSlot(1, False, 8, 8, Usage.COLOR | Usage.SAMPLED)
    (first,) = workspace.transients({0: drawn}, ["a"]).values()
    read = ImageSlot(1, False, 8, 8, Usage.COLOR)
    stored = ImageSlot(1, False, 8, 8, Usage.STORAGE)
    assert workspace.transients({0: read}, ["a"])[0] is first
    assert workspace.lacking({0: read, 1: drawn, 2: stored}) == [1, 2]
    images = workspace.transients({0: read, 1: drawn, 2: stored}, "abc").values()
    assert len({id(image) for image in images}) == 3
    workspace.close()


def doubled(own: Device, *, dispatches: bool = False) -> DressiAD:
    """By a draw or by a dispatch, whatever the device prefers."""
    ad = DressiAD(own, model=replace(CPU, prefers_dispatches=dispatches))
    ad.set_output("y", Variable(size=(8, 8), data=np.ones((1, 8, 8))) * 2)
    return ad


def failing(code: int):
    def call(*_: object) -> None:
        raise vulkan.exception_codes[code]  # a KeyError where the binding has no such code

    return call


class Lost:
    """``lib`` of a binding whose waits say that the device is lost."""

    def __init__(self, lib):
        self._lib = lib

    def __getattr__(self, name):
        return getattr(self._lib, name)

    def vkWaitForFences(self, *_):
        return DEVICE_LOST


@pytest.mark.one_driver
@pytest.mark.parametrize(
    ("function", "code", "kind", "words"),
    [
        ("vkAllocateMemory", -2, OutOfMemoryError, "out of memory: .* needs .*device is out of memory.*smaller"),
        ("vkCreateImage", -1, OutOfMemoryError, "host is out of memory"),
        ("vkCreateBuffer", -2, OutOfMemoryError, "device is out of memory"),
        ("vkBindImageMemory", -2, OutOfMemoryError, "vkBindImageMemory: the device is out of memory"),
        ("vkMapMemory", -5, OutOfMemoryError, "cannot be mapped"),
        ("vkCreateShaderModule", -1000012000, DeviceError, "refuses a shader"),
        ("vkAllocateDescriptorSets", -12, OutOfMemoryError, "pool of descriptors is fragmented"),
        ("vkAllocateDescriptorSets", -1000069000, OutOfMemoryError, "pool of descriptors is full"),
        ("vkAllocateDescriptorSets", -1000161000, OutOfMemoryError, "VK_ERROR_FRAGMENTATION"),
        ("vkAllocateCommandBuffers", -1, OutOfMemoryError, "vkAllocateCommandBuffers"),
        ("vkBeginCommandBuffer", -2, OutOfMemoryError, "vkBeginCommandBuffer"),
        ("vkCreateGraphicsPipelines", -13, DeviceError, "could not make a pipeline for .*VK_ERROR_UNKNOWN"),
        ("vkCreateComputePipelines", -13, DeviceError, "could not make a pipeline for .*VK_ERROR_UNKNOWN"),
        ("vkQueueSubmit", -2, OutOfMemoryError, "refused work"),
        ("vkQueueSubmit", DEVICE_LOST, DeviceLostError, "refused work: the driver lost the device"),
        ("vkCreateRenderPass", -7777, DeviceError, "VkResult -7777"),
    ],
)  # fmt: skip
def test_what_a_call_returns_reaches_the_user_as_a_sentence(own, monkeypatch, function, code, kind, words):
    with monkeypatch.context() as planted, pytest.raises(kind, match=words) as caught:
        planted.setattr(vulkan, function, failing(code))
        with doubled(own, dispatches="Compute" in function) as ad:
            ad.recv("y")
    assert own.name in str(caught.value) and ";" in str(caught.value)
    if code == DEVICE_LOST:
        with pytest.raises(DeviceLostError, match="open another Device"):
            doubled(own)
    else:
        assert own.live_objects() == []
        with doubled(own) as ad:
            ad.step()
            assert (ad.recv("y") == 2).all()
    own.close()
    assert own.live_objects() == []


@pytest.mark.one_driver
@pytest.mark.parametrize("code, kind", [(-2, OutOfMemoryError), (DEVICE_LOST, DeviceLostError)])
def test_a_first_measurement_hides_no_error(own, monkeypatch, code, kind):
    """A GPU is measured before its first plan. What fails there fails for the user; memory may be short for measuring alone."""
    monkeypatch.setattr(own, "physical", replace(own.physical, type="discrete"))
    monkeypatch.setattr(calibration, "_known", {})
    with config(cache=None), monkeypatch.context() as planted, pytest.raises(kind, match="refused work"):
        planted.setattr(vulkan, "vkQueueSubmit", failing(code))
        with DressiAD(own) as ad:
            ad.evaluate(Variable(size=(8, 8), data=np.ones((1, 8, 8))) * 2)


def test_a_device_lost_while_it_works_closes_without_an_error(own):
    ad = doubled(own)
    ad.step()
    early = ad.recv_async("y")
    own.vk.lib = Lost(own.vk.lib)
    with pytest.raises(DeviceLostError, match="failed while working: the driver lost the device"):
        ad.recv("y")
    assert "lost" in repr(own)
    for use in (lambda: ad.step(), lambda: ad.recv("y"), early.result, early.done, own.wait):
        with pytest.raises(DeviceLostError, match="open another Device"):
            use()
    ad.close()
    own.close()
    own.close()
    assert own.live_objects() == [] and "closed" in repr(own)


def test_a_device_lost_at_the_end_closes_without_an_error(own):
    ad = doubled(own)
    ad.step()
    own.vk.lib = Lost(own.vk.lib)
    ad.close()
    own.close()
    assert own.live_objects() == []


def test_no_memory_at_the_end_is_no_error(own, monkeypatch):
    """The wait of the end needs a submission; where it is refused, the driver's own wait does."""
    ad = doubled(own)
    ad.step()
    with monkeypatch.context() as planted:
        planted.setattr(vulkan, "vkQueueSubmit", failing(-2))
        ad.close()
    own.close()
    assert own.live_objects() == []


@pytest.mark.parametrize("code", sorted({*RESULTS, -99}))
def test_every_code_names_the_thing_and_a_cure(code):
    seen: list[int] = []
    binding = Binding(vulkan, "Radeon", seen.append)
    with pytest.raises(DressiError, match=r"^Radeon failed in x: .+ \(.+\); .+"):
        binding.fail(code, "failed in x")
    assert seen == [code]


@pytest.mark.parametrize("number", [code for code in vulkan.exception_codes if code is not None])
def test_every_error_of_the_binding_is_translated(monkeypatch, number):
    """Also those that the binding knows by the wrong sign only: it raises a KeyError for the real ones."""
    binding = Binding(vulkan, "Radeon")
    monkeypatch.setattr(vulkan, "vkDeviceWaitIdle", failing(number))
    with pytest.raises(DressiError, match=r"^Radeon failed in vkDeviceWaitIdle"):
        binding.vkDeviceWaitIdle(None)


def test_other_errors_of_python_pass_through(monkeypatch):
    def wrong(*_: object) -> None:
        raise TypeError("a programming error")

    monkeypatch.setattr(vulkan, "vkDeviceWaitIdle", wrong)
    with pytest.raises(TypeError):
        Binding(vulkan, "Radeon").vkDeviceWaitIdle(None)
