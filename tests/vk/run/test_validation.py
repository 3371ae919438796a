"""What the validation layer says of planted hazards, and what is left after errors.

A hazard is two accesses to one buffer or image without a barrier between them; the same with the barrier is silent.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dressi import INT, Device, DressiAD, DressiError, F, OutOfMemoryError, PixelFunction, PlanError, Variable
from dressi.config import config
from dressi.vk.plan.execution.images import slot_of
from dressi.vk.plan.glsl.writer import Resource
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.memory import DeviceBuffer, make_image
from dressi.vk.run.device.transfer import Transfers
from dressi.vk.run.execution import built, executor
from dressi.vk.run.shaders import pipeline
from dressi.vk.run.shaders.pipeline import PipelineCache, PipelineMaker
from dressi.vk.run.shaders.pyglslang import Shader

COUNT = 64
COMPUTE = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Numbers { uint number[]; };
layout(set = 0, binding = 1, r32i) uniform iimage2D picture;
void main() {
    uint i = gl_GlobalInvocationID.x;
    number[i] += 1u;
}
"""
STORE = COMPUTE.replace(
    "number[i] += 1u;", "imageStore(picture, ivec2(i, 0), imageLoad(picture, ivec2(i, 0)) + 1);"
)


class Bench:
    """A buffer and an image, and pipelines that read and write them through descriptors."""

    def __init__(self, device: Device):
        vk = self.vk = device.vk
        self.device, x = device, Variable(INT, (COUNT, 1))
        self.image = make_image(device, slot_of(x, device.limits), "picture")
        self._buffer = DeviceBuffer(device, 4 * COUNT, "numbers", host=False)
        self.buffer = self._buffer.handle
        self._commands, self._cache = Commands(device), PipelineCache(device)
        self._commands.initialize([self.image], [])
        resources = (Resource("buffer"), Resource("storage", x))
        self._maker = PipelineMaker(device, self._cache, [resources] * 2)
        self.pipelines = {
            name: self._maker.make_dispatch(
                Shader(source, "compute", "hazard"), resources, {x: [self.image]}, {"buffer": self._buffer}
            )
            for name, source in (("buffer", COMPUTE), ("image", STORE))
        }
        self._cache.release_modules()
        self.pool = device.create("CommandPool", vk.VkCommandPoolCreateInfo(queueFamilyIndex=device.family))

    def submit(self, *writers: Callable[[Any], None]) -> None:
        """Records and submits one command buffer with what the writers record."""
        vk, handle = self.vk, self.device.handle
        info = vk.VkCommandBufferAllocateInfo(commandPool=self.pool, level=0, commandBufferCount=1)
        commands = vk.vkAllocateCommandBuffers(handle, info)[0]
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo())
        for writer in writers:
            writer(commands)
        vk.vkEndCommandBuffer(commands)
        vk.vkQueueSubmit(self.device.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], None)

    def dispatch(self, name: str) -> Callable[[Any], None]:
        vk = self.vk

        def write(commands: Any) -> None:
            point, p = vk.VK_PIPELINE_BIND_POINT_COMPUTE, self.pipelines[name]
            vk.vkCmdBindPipeline(commands, point, p.handles["compute"])
            vk.vkCmdBindDescriptorSets(commands, point, p.layout, 0, 1, [p.set], 0, None)
            vk.vkCmdDispatch(commands, COUNT // 64, 1, 1)

        return write

    def fill(self, commands: Any) -> None:
        self.vk.vkCmdFillBuffer(commands, self.buffer, 0, 4 * COUNT, 0)

    def barrier(self, commands: Any) -> None:
        every = 0x10000  # all commands; reads and writes of memory
        memory = [self.vk.VkMemoryBarrier(srcAccessMask=0x18000, dstAccessMask=0x18000)]
        self.vk.vkCmdPipelineBarrier(commands, every, every, 0, 1, memory, 0, None, 0, None)

    def said(self) -> list[str]:
        """The messages since the last call. They are taken from the list: they are wanted here."""
        self.device.wait()
        said = list(self.device.messages)
        self.device.messages.clear()
        return said

    def close(self) -> None:
        self.device.wait()
        self._maker.destroy()
        self.image.destroy(self.device)
        self._buffer.destroy()
        self._commands.destroy()
        for handle in (self.pool, self._cache.handle):
            self.device.destroy(handle)


@pytest.fixture
def bench(device: Device) -> Iterator[Bench]:
    if not device.instance.validation:
        pytest.skip("there is no validation layer")
    assert device.messages == []
    bench = Bench(device)
    assert bench.said() == []
    yield bench
    bench.close()


HAZARDS: dict[str, Callable[[Bench], list[Callable[[Any], None]]]] = {
    "two transfers": lambda bench: [bench.fill, bench.fill],
    "buffer through descriptors": lambda bench: [bench.dispatch("buffer"), bench.dispatch("buffer")],
    "image through descriptors": lambda bench: [bench.dispatch("image"), bench.dispatch("image")],
    "transfer, then shader": lambda bench: [bench.fill, bench.dispatch("buffer")],
}


@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("submissions", [1, 2])
def test_a_missing_barrier_is_seen(bench: Bench, hazard: str, submissions: int):
    first, second = HAZARDS[hazard](bench)
    if submissions == 1:
        bench.submit(first, second)
    else:
        bench.submit(first)
        bench.submit(second)
    assert any("hazard" in text.lower() for text in bench.said())

    if submissions == 1:
        bench.submit(bench.barrier, first, bench.barrier, second)
    else:
        bench.submit(bench.barrier, first)
        bench.submit(bench.barrier, second)
    assert bench.said() == []


def test_a_wrong_call_is_seen(bench: Bench):
    bench.submit(
        lambda commands: bench.vk.vkCmdFillBuffer(commands, bench.buffer, 1, 4, 0)
    )  # not a multiple of 4
    assert any("VUID-vkCmdFillBuffer-dstOffset" in text or "dstOffset" in text for text in bench.said())


class Wrong(PixelFunction):
    glsl = "$0 + unknown"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()


class Lost(Wrong):
    glsl = "$0"
    includes = ("there/is/no/such_file.glsl",)


@pytest.fixture
def own(device):
    with config(cache=None):
        own = Device(device.physical, validation=device.instance.validation)
        yield own
        assert own.live_objects() == []
        own.close()


def leaf(name: str) -> Variable:
    return Variable(size=(4, 3), data=np.arange(12.0).reshape(1, 3, 4), name=name)


@pytest.mark.parametrize("kind", [Wrong, Lost])
def test_after_wrong_glsl(own, kind):
    x = leaf("x")
    with DressiAD(own) as ad:
        ad.set_output("y", F.square(x))
        ad.recv("y")
        before = own.live_objects()
        for _ in range(3):
            with pytest.raises(DressiError):
                ad.evaluate(kind(F.sum(leaf("other") * 2.0)).output + F.shift(x, 1, 0))
            assert own.live_objects() == before
        found = ad.evaluate([x + 1.0, F.sum(x, "x")])
        assert_array_equal(found[0], x.data + 1)
        assert_array_equal(ad.recv("y"), x.data**2)


PLACES = [
    (executor, "planned"),
    (executor, "check_memory"),
    (pipeline, "compile_many"),
    (PipelineCache, "release_modules"),
    (PipelineMaker, "make"),
    (built, "PipelineMaker"),
    (Commands, "initialize"),
    (Commands, "record"),
    (Commands, "submit"),
    (Transfers, "upload"),
]


@pytest.mark.one_driver  # what the host does
@pytest.mark.parametrize("error", [KeyboardInterrupt, OutOfMemoryError, PlanError])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[1])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_error_anywhere_leaves_nothing_and_the_next_call_works(own, monkeypatch, place, error, after):
    """error: raised by each call of a part in turn, before or after its work, until the calls come to their end."""
    owner, name = place
    whole = getattr(owner, name)
    for turn in range(12):
        x, y = leaf("x"), Variable(size=(4, 3), name="y")
        total = F.sum(F.shift(x, 1, 0, "clamp") * y, "x")
        calls = 0

        def failing(*arguments, turn=turn, **more):
            nonlocal calls
            calls += 1
            if calls == turn + 1 and not after:
                raise error("on purpose")
            found = whole(*arguments, **more)
            if calls == turn + 1:
                raise error("on purpose")
            return found

        with DressiAD(own) as ad:
            ad.set_output("total", total)
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, failing)
                try:
                    ad.send(y, np.ones((3, 4)))
                    ad.recv("total")
                    ad.send(y, np.full((3, 4), 2.0))
                    ad.recv("total")
                except (KeyboardInterrupt, DressiError) as caught:
                    assert "on purpose" in str(caught)
            ad.send(y, np.full((3, 4), 3.0))
            moved = np.pad(x.data[0], ((0, 0), (1, 0)), mode="edge")[:, :4]
            expected = 3 * moved.sum(1)
            assert_allclose(ad.recv("total").reshape(-1), expected)
            assert_allclose(ad.evaluate(total + 1.0).reshape(-1), expected + 1)
        assert own.live_objects() == []
        if calls <= turn:
            break
    else:
        pytest.fail("the calls do not come to an end")
