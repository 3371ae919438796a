"""Gates: work that a flag on the device switches off, without the host.

Dispatches and full-screen draws behind a gate take their counts from a buffer, indirectly. Whenever the flag
may have changed, one small dispatch copies the counts into that buffer, or zeros if the flag is zero. Closed
work costs a few microseconds a command. No feature of the device is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....ad.graph.types import FLOAT
from ....errors import PlanError
from ...plan.core.substage import PrimitiveWork
from ...plan.execution.plan import Plan
from ...plan.glsl.shaders import Resource, fetched_at
from ..device.commands import Commands
from ..device.device import Device
from ..device.memory import DeviceBuffer, DeviceImage
from ..shaders.compilers import Shader
from ..shaders.pipeline import PipelineCache, PipelineMaker

WORDS = 4  # of the counts of one draw; a dispatch needs three of them
COMMANDS = 128  # different counts behind one gate
GROUP = 64

SOURCE = f"""#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x = {GROUP}) in;
layout(set = 0, binding = 0) uniform texture2D flag;
layout(set = 0, binding = 1) readonly buffer Open {{ uint open[]; }};
layout(set = 0, binding = 2) writeonly buffer Now {{ uint now[]; }};
void main() {{
    uint k = gl_GlobalInvocationID.x;
    ivec2 size = textureSize(flag, 0);
    bool any_open = false;
    for (int j = 0; j < size.y && !any_open; ++j)
        for (int i = 0; i < size.x; ++i) any_open = any_open || texelFetch(flag, {fetched_at("ivec2(i, j)")}, 0).x != 0.0;
    now[k] = any_open ? open[k] : 0u;
}}
"""


def can_be_gated(plan: Plan) -> bool:
    """Whether the step of a plan can be switched off."""
    return not copies_new_values(plan) and not draws_lists(plan)


def copies_new_values(plan: Plan) -> bool:
    """Whether values that the step computes are copied at its end: a copy cannot be skipped."""
    made = {v for s in plan.step.sub_stages for v in s.outputs}
    return any(new in made for _, new in plan.step.copies)


def draws_lists(plan: Plan) -> bool:
    """Whether the step draws lists of faces, which have counts of their own."""
    return any(isinstance(s.work, PrimitiveWork) for s in plan.step.sub_stages)


class Gate:
    """The counts of the commands behind one flag. image: of the flag, a FLOAT of one texel a tile. The gate
    is open while one of them is not 0."""

    def __init__(self, device: Device, commands: Commands, cache: PipelineCache, image: DeviceImage):
        self._device, self._commands = device, commands
        size = 4 * WORDS * COMMANDS
        self._whole = DeviceBuffer(device, size, "counts of an open gate", host=True)
        self._now = DeviceBuffer(device, size, "counts behind a gate", host=False)
        self._whole.mapped[:] = 0
        self._numbers: dict[tuple[int, ...], int] = {}
        flag = Variable(FLOAT)
        resources = (Resource("texture", flag), Resource("open"), Resource("now"))
        self._maker = PipelineMaker(device, cache, [resources])
        buffers = {"open": self._whole, "now": self._now}
        shader = Shader(SOURCE, "compute", "gate")
        self._pipeline = self._maker.make_dispatch(shader, resources, {flag: [image]}, buffers)

    # ---- recording
    def _place(self, *counts: int) -> int:
        """The byte at which these counts begin in the buffers."""
        if counts not in self._numbers:
            if len(self._numbers) == COMMANDS:
                raise PlanError(
                    f"more than {COMMANDS} different dispatches behind one gate; split the program"
                )
            self._numbers[counts] = len(self._numbers)
            self.unshut()
        return 4 * WORDS * self._numbers[counts]

    def unshut(self) -> None:
        """Obey the flag again after ``shut``. No work may be under way that should end."""
        words = self._whole.mapped.view(np.uint32)
        for key, k in self._numbers.items():
            words[WORDS * k : WORDS * (k + 1)] = key

    def dispatch(self, buffer: Any, x: int, y: int, z: int) -> None:
        """A dispatch of so many workgroups if the gate is open, else of none."""
        self._device.vk.vkCmdDispatchIndirect(buffer, self._now.handle, self._place(x, y, z, 0))

    def draw(self, buffer: Any, vertices: int) -> None:
        """A draw of so many vertices, or of none."""
        place = self._place(vertices, 1, 0, 0)
        self._device.vk.vkCmdDrawIndirect(buffer, self._now.handle, place, 1, 4 * WORDS)

    def refresh(self, buffer: Any) -> None:
        """Look at the flag again, for the commands in later command buffers, which begin with a barrier."""
        vk, p = self._device.vk, self._pipeline
        self._commands.barrier(buffer)
        point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(buffer, point, p.handles["compute"])
        vk.vkCmdBindDescriptorSets(buffer, point, p.layout, 0, 1, [p.set], 0, None)
        vk.vkCmdDispatch(buffer, WORDS * COMMANDS // GROUP, 1, 1)

    def shut(self) -> None:
        """Close the gate for work under way too, whatever its flag: the device's next ``refresh`` sees it."""
        self._whole.mapped[:] = 0

    def destroy(self) -> None:
        """Release everything. The work behind the gate must have ended."""
        self._maker.destroy()
        for buffer in (self._whole, self._now):
            buffer.destroy()


class Gating(NamedTuple):
    """gate: switches the whole program off. flags: the gates whose flag the program updates."""

    gate: Gate | None
    flags: tuple[Gate, ...]


UNGATED = Gating(None, ())
