"""Vulkan result codes as sentences, and what a lost device leaves behind. Failures are planted in the binding."""

from dataclasses import replace

import numpy as np
import pytest
import vulkan

from dressi import Device, DressiAD, Variable
from dressi.config import config
from dressi.errors import DeviceError, DeviceLostError, DressiError, OutOfMemoryError
from dressi.vk.plan.model.records import CPU
from dressi.vk.run.device.results import DEVICE_LOST, RESULTS, Binding
from dressi.vk.run.measure import calibration


@pytest.fixture
def own(device):
    """A second device of the same driver, closed at the end."""
    own = Device(device.physical, validation=device.instance.validation)
    yield own
    own.close()


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
