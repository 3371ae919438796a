"""Barriers of plans on the device: validation is silent with them, and sees each that is left out."""

import numpy as np
import pytest
from test_active import FREE, triangle
from test_scatter import Scene

from dressi import FLOAT, F, Variable, gradient
from dressi.ad.graph.program import Program
from dressi.vk.plan.core.substage import ListBlocks, ListFaces, Raster, Scatter, ScatterDispatch
from dressi.vk.plan.execution.sync import Pipe
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.memory import DeviceBuffer
from dressi.vk.run.execution.built import BuiltPlan
from dressi.vk.run.execution.executor import VulkanExecutor


def faces() -> Program:
    """Draws from lists, a scatter that is drawn where the device can, a new value written in place."""
    return Scene(40, 3, 3, "made").program


def blocks() -> Program:
    """Work on active blocks with images that are filled before, a scatter over them, copies."""
    size, rng = (40, 24), np.random.default_rng(0)
    face = triangle(1.0, size)
    target = Variable(FLOAT, size, name="target", data=rng.random((1, 24, 40)))
    x = Variable(FLOAT, (3, 1), name="x", data=np.array([[[0.3, 0.2, 0.1]]]))
    wave = F.sin(F.lookup(x, F.clamp(face, -1, 2)) * F.to_float(F.linear_index(size)))
    image = F.select(F.greater_equal(face, 0), F.exp(wave) * wave, 0.5)
    loss = F.sum(F.square(image - target))
    (g,) = gradient(loss, [x])
    return Program({"loss": loss, "residual": image - target}, ((x, F.shift(x, 1, 0) - 0.001 * g),))


@pytest.mark.parametrize(
    ("program", "kinds"), [(faces, {ListFaces, Raster, Scatter}), (blocks, {ListBlocks, ScatterDispatch})]
)
def test_validation_sees_each_barrier_that_is_left_out(device, monkeypatch, program, kinds):
    if not device.instance.validation:
        pytest.skip("there is no validation layer")
    real, seen, left_out = Commands.order, [], None

    def order(self, buffer, barrier):
        seen.append(barrier)
        if len(seen) - 1 != left_out:
            real(self, buffer, barrier)

    monkeypatch.setattr(Commands, "order", order)
    with VulkanExecutor(program(), device, cost=FREE) as run:
        run.run(3)
        run.wait()
        assert all(any(isinstance(s.work, kind) for s in run.plan.sub_stages) for kind in kinds)
        assert device.messages == []
        barriers = [level.barrier for level in run.plan.levels[1:]]
        assert len(barriers) >= 3
        for left_out, barrier in enumerate(barriers):  # noqa: B007  `order` reads it
            run._built._recordings.clear()
            seen.clear()
            run.run()
            run.wait()
            if barrier.after != Pipe.HOST:  # which the layer does not watch
                assert any("hazard" in text.lower() for text in device.messages), f"{barrier} in\n{run.plan}"
            device.messages.clear()
            assert seen == barriers


def test_lists_name_no_face_before_they_are_made(device, monkeypatch):
    """Shaders that drivers compile late are warmed up before, on memory that others have used."""
    if not device.compiles_late:
        pytest.skip("nothing is warmed up")
    device.trim()  # pipelines that are there already are not warmed up
    warmed, real = [], BuiltPlan._warm_up

    def used_before(device, size, name, *, host):
        buffer = DeviceBuffer(device, size, name, host=True)
        buffer.mapped[:] = 0x7F
        return buffer

    def warm_up(self, prepared):
        self.device.wait()
        warmed.extend(int(one.mapped.max()) for one in self._lists.values())
        real(self, prepared)

    monkeypatch.setattr("dressi.vk.run.execution.built.DeviceBuffer", used_before)
    monkeypatch.setattr(BuiltPlan, "_warm_up", warm_up)
    with VulkanExecutor(faces(), device, cost=FREE) as run:
        run.run()
        run.wait()
    assert warmed and max(warmed) == 0
