"""Gates: work that a flag on the device switches off, without the host.

Dispatches and full-screen draws behind a gate take their counts from a buffer, indirectly. Whenever the flag may have
changed, one small dispatch copies the counts into that buffer, or zeros if the flag is zero. Closed work costs a few
microseconds a command. No feature of the device is needed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import PlanError
from ..plan.glsl.shaders import fetched_at
from ..plan.plan import Plan
from ..plan.substage import PrimitiveWork
from .device.commands import Commands
from .device.device import Device
from .device.memory import DeviceBuffer, DeviceImage
from .shaders.errors import Shader
from .shaders.pipeline import PipelineCache

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
    """The counts of the commands behind one flag. image: of the flag, a FLOAT of one texel a tile; the gate is open
    while one of them is not zero."""

    def __init__(self, device: Device, commands: Commands, cache: PipelineCache, image: DeviceImage):
        self._device, self._commands = device, commands
        size = 4 * WORDS * COMMANDS
        self._whole = DeviceBuffer(device, size, "counts of an open gate", host=True)
        self._now = DeviceBuffer(device, size, "counts behind a gate", host=False)
        self._whole.mapped[:] = 0
        self._numbers: dict[tuple[int, int, int, int], int] = {}
        self._make_pipeline(cache, image)

    def _make_pipeline(self, cache: PipelineCache, image: DeviceImage) -> None:
        vk, device = self._device.vk, self._device
        storage, texture = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE
        compute = vk.VK_SHADER_STAGE_COMPUTE_BIT
        kinds = (texture, storage, storage)
        bindings = [
            vk.VkDescriptorSetLayoutBinding(
                binding=k, descriptorType=kind, descriptorCount=1, stageFlags=compute
            )
            for k, kind in enumerate(kinds)
        ]
        info = vk.VkDescriptorSetLayoutCreateInfo(bindingCount=len(bindings), pBindings=bindings)
        self._set_layout = device.create("DescriptorSetLayout", info, "gate")
        info = vk.VkPipelineLayoutCreateInfo(setLayoutCount=1, pSetLayouts=[self._set_layout])
        self._layout = device.create("PipelineLayout", info, "gate")
        sizes = [vk.VkDescriptorPoolSize(texture, 1), vk.VkDescriptorPoolSize(storage, 2)]
        pool = vk.VkDescriptorPoolCreateInfo(maxSets=1, poolSizeCount=len(sizes), pPoolSizes=sizes)
        self._pool = device.create("DescriptorPool", pool)
        allocate = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=self._pool, descriptorSetCount=1, pSetLayouts=[self._set_layout]
        )
        self._set = vk.vkAllocateDescriptorSets(device.handle, allocate)[0]
        pictures = [vk.VkDescriptorImageInfo(None, image.view, vk.VK_IMAGE_LAYOUT_GENERAL)]
        found: list[dict[str, Any]] = [{"pImageInfo": pictures}]
        for buffer in (self._whole, self._now):
            found.append({"pBufferInfo": [vk.VkDescriptorBufferInfo(buffer.handle, 0, buffer.size)]})
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=self._set, dstBinding=k, descriptorCount=1, descriptorType=kind, **what
            )
            for k, (kind, what) in enumerate(zip(kinds, found, strict=True))
        ]
        vk.vkUpdateDescriptorSets(device.handle, len(writes), writes, 0, None)
        shader = Shader(SOURCE, "compute", "gate")
        cache.compile([shader])
        stage = vk.VkPipelineShaderStageCreateInfo(
            stage=compute, module=cache.modules[shader.source, shader.stage], pName="main"
        )
        info = vk.VkComputePipelineCreateInfo(stage=stage, layout=self._layout, basePipelineIndex=-1)
        made = vk.call(
            "vkCreateComputePipelines", "could not make a gate", device.handle, cache.handle, 1, [info], None
        )
        self._pipeline = device.own("Pipeline", made[0], "gate")

    # ---- recording
    def _number(self, *counts: int) -> int:
        """The place of these counts in the buffers."""
        key = (counts[0], counts[1], counts[2], counts[3])
        if key not in self._numbers:
            if len(self._numbers) == COMMANDS:
                raise PlanError(
                    f"more than {COMMANDS} different dispatches behind one gate; split the program"
                )
            self._numbers[key] = len(self._numbers)
            self._write()
        return self._numbers[key]

    def _write(self) -> None:
        words = self._whole.mapped.view(np.uint32)
        for key, k in self._numbers.items():
            words[WORDS * k : WORDS * (k + 1)] = key

    def dispatch(self, buffer: Any, x: int, y: int, z: int) -> None:
        """A dispatch of so many workgroups if the gate is open, else of none."""
        place = 4 * WORDS * self._number(x, y, z, 0)
        self._device.vk.vkCmdDispatchIndirect(buffer, self._now.handle, place)

    def draw(self, buffer: Any, vertices: int) -> None:
        """A draw of so many vertices, or of none."""
        place = 4 * WORDS * self._number(vertices, 1, 0, 0)
        self._device.vk.vkCmdDrawIndirect(buffer, self._now.handle, place, 1, 4 * WORDS)

    def refresh(self, buffer: Any) -> None:
        """Look at the flag again: for the commands in later command buffers, which begin with a full barrier."""
        vk = self._device.vk
        self._commands.barrier(buffer)
        point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkCmdBindPipeline(buffer, point, self._pipeline)
        vk.vkCmdBindDescriptorSets(buffer, point, self._layout, 0, 1, [self._set], 0, None)
        vk.vkCmdDispatch(buffer, WORDS * COMMANDS // GROUP, 1, 1)

    def shut(self) -> None:
        """Close the gate for work under way too, whatever its flag says: the next ``refresh`` on the device sees it."""
        self._whole.mapped[:] = 0

    def unshut(self) -> None:
        """Obey the flag again. No work may be under way that should end."""
        self._write()

    def destroy(self) -> None:
        """Release everything. The work behind the gate must have ended."""
        for handle in (self._pipeline, self._layout, self._pool, self._set_layout):
            self._device.destroy(handle)
        for buffer in (self._whole, self._now):
            buffer.destroy()


class Gating(NamedTuple):
    """gate: switches the whole program off. flags: the gates whose flag the program updates."""

    gate: Gate | None
    flags: tuple[Gate, ...]


UNGATED = Gating(None, ())
