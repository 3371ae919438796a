"""Shader modules, descriptor sets and pipelines of SubStages."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....ad.graph import Variable
from ....config import config
from ...plan.glsl.shaders import Resource, Shaders, stage_of
from ...plan.substage import ListFaces, ScatterDraw, SubStage
from ..device.device import Device
from ..device.memory import DeviceBuffer, DeviceImage
from ..host import cache
from .compilers import Shader
from .pyglslang import compile_many

_HEADER = struct.Struct("<IIII16s")  # length, version, vendor, device, UUID of the driver


@dataclass
class Pipelines:
    """Pipelines of one SubStage by shader (``draw``, ``compute``, ``resolve``), and its descriptor set.

    bands: the values of the push constant with which a scatter runs, one after the other, if there are several.
    """

    layout: Any
    set: Any
    handles: dict[str, Any]
    bands: range
    constant_flags: int


class PipelineCache:
    """The driver's pipeline cache, with a file for each device, and shader modules, one for equal sources."""

    def __init__(self, device: Device):
        vk = device.vk
        self.device = device
        self._name = f"{device.key}.bin"
        data = cache.load("pipelines", self._name) or b""
        if not self._fits(data):
            data = b""
        buffer = vk.ffi.new("char[]", data) if data else None
        info = vk.VkPipelineCacheCreateInfo(initialDataSize=len(data), pInitialData=buffer)
        self.handle = device.create("PipelineCache", info)
        self.modules: dict[tuple[str, str], Any] = {}
        self.loaded = len(data)

    def compile(self, all_shaders: Mapping[SubStage, Shaders]) -> None:
        """Make the modules of all shaders that have none yet. They are compiled together, equal text once."""
        jobs: dict[tuple[str, str], Shader] = {}
        for s, shaders in all_shaders.items():
            name = "+".join(type(f).__name__ for f in s.functions)[:80]
            for part, source in shaders.sources.items():
                stage = stage_of(part)
                if (source, stage) not in self.modules:
                    jobs.setdefault((source, stage), Shader(source, stage, f"{name} {part}"))
        for (key, job), code in zip(jobs.items(), compile_many(list(jobs.values())), strict=True):
            info = self.device.vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code)
            self.modules[key] = self.device.create("ShaderModule", info, job.name)

    def release_modules(self) -> None:
        """Destroy the modules: pipelines do not need them once they are made."""
        for module in self.modules.values():
            self.device.destroy(module)
        self.modules.clear()

    def _fits(self, data: bytes) -> bool:
        """Whether the header names this device and its driver (VkPipelineCacheHeaderVersionOne)."""
        if len(data) < _HEADER.size:
            return False
        size, version, vendor, device, uuid = _HEADER.unpack_from(data)
        physical = self.device.physical
        own = (physical.vendor_id, physical.device_id, self.device.pipeline_cache_uuid)
        return size == _HEADER.size and version == 1 and (vendor, device, uuid.hex()) == own

    def save(self) -> None:
        """Write the driver's cache to disk if it has grown, unless the device is lost."""
        if config.cache is None or self.device.work.lost is not None:
            return
        vk = self.device.vk
        size = vk.ffi.new("size_t*")
        vk.lib.vkGetPipelineCacheData(self.device.handle, self.handle, size, vk.ffi.NULL)
        if size[0] <= self.loaded:
            return
        data = vk.ffi.new("char[]", size[0])
        if vk.lib.vkGetPipelineCacheData(self.device.handle, self.handle, size, data) != vk.VK_SUCCESS:
            return
        cache.save("pipelines", self._name, bytes(vk.ffi.buffer(data, size[0])))
        self.loaded = size[0]


def descriptor_type(vk: Any, kind: str) -> int:
    return {
        "texture": vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE,
        "attachment": vk.VK_DESCRIPTOR_TYPE_INPUT_ATTACHMENT,
        "storage": vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
        "buffer": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        "status": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        "blocks": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
        "list": vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
    }[kind]


def make_pool(device: Device, all_shaders: list[Shaders]) -> Any:
    """A descriptor pool with room for one set of each SubStage."""
    vk = device.vk
    counts: dict[int, int] = {}
    for shaders in all_shaders:
        for resource in shaders.resources:
            kind = descriptor_type(vk, resource.kind)
            counts[kind] = counts.get(kind, 0) + 1
    sizes = [vk.VkDescriptorPoolSize(kind, count) for kind, count in counts.items()] or [
        vk.VkDescriptorPoolSize(vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, 1)
    ]
    info = vk.VkDescriptorPoolCreateInfo(
        maxSets=max(len(all_shaders), 1), poolSizeCount=len(sizes), pPoolSizes=sizes
    )
    return device.create("DescriptorPool", info)


class PipelineMaker:
    """Makes the pipelines of one plan and owns them.

    Dispatches of the same shader, for example those of peeled layers, share a pipeline, because drivers compile each
    one.
    """

    def __init__(self, device: Device, pipelines: PipelineCache, pool: Any):
        self.device, self.cache, self.pool = device, pipelines, pool
        self.owned: list[Any] = []
        self._layouts: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._dispatches: dict[tuple[str, Any], Any] = {}

    def _own(self, kind: str, info: Any, name: str) -> Any:
        handle = self.device.create(kind, info, name)
        self.owned.append(handle)
        return handle

    def make(
        self,
        s: SubStage,
        shaders: Shaders,
        images: dict[Variable, list[DeviceImage]],
        buffers: dict[str, DeviceBuffer],
        render_pass: Any,
        resolve_pass: Any,
        subpass: int,
        name: str,
    ) -> Pipelines:
        """Pipelines and descriptor set of a SubStage. render_pass: None for dispatches. resolve_pass: None except for
        scatters that are resolved by a draw."""
        vk = self.device.vk
        drawn = vk.VK_SHADER_STAGE_VERTEX_BIT | vk.VK_SHADER_STAGE_FRAGMENT_BIT
        flags = {"attachment": vk.VK_SHADER_STAGE_FRAGMENT_BIT}
        draws_again = isinstance(s.work, ScatterDraw)
        stage_flags = drawn if s.draws else vk.VK_SHADER_STAGE_COMPUTE_BIT
        if draws_again or s.colors:
            stage_flags |= drawn
        if not isinstance(s.work, ListFaces):
            flags["list"] = vk.VK_SHADER_STAGE_VERTEX_BIT
        flags["storage"] = flags["buffer"] = flags["status"] = stage_flags & ~vk.VK_SHADER_STAGE_VERTEX_BIT
        bindings = [(descriptor_type(vk, r.kind), flags.get(r.kind, stage_flags)) for r in shaders.resources]
        constants = [stage_flags] if len(shaders.bands) > 1 else []
        set_layout, layout = self._layout(bindings, constants, name)
        descriptors = self._descriptors(set_layout, shaders.resources, images, buffers)
        handles = {}
        if s.draws or draws_again:
            handles["draw"] = self._graphics(s, shaders, "", layout, render_pass, subpass, name)
        if s.final is not s and s.final.draws:
            handles["resolve"] = self._graphics(s.final, shaders, "resolve.", layout, resolve_pass, 0, name)
        for part in ("compute", "resolve"):
            if part in shaders.sources:
                handles[part] = self._compute(shaders.sources[part], layout, f"{name} {part}")
        return Pipelines(layout, descriptors, handles, shaders.bands, stage_flags)

    def _layout(self, bindings: list[tuple[int, int]], constants: list[int], name: str) -> tuple[Any, Any]:
        """The layouts for descriptors, given as (type, shader stages), and for a push constant, given by its shader
        stages."""
        vk = self.device.vk
        key = (*bindings, *constants)
        if key not in self._layouts:
            slots = [
                vk.VkDescriptorSetLayoutBinding(
                    binding=k, descriptorType=kind, descriptorCount=1, stageFlags=stages
                )
                for k, (kind, stages) in enumerate(bindings)
            ]
            info = vk.VkDescriptorSetLayoutCreateInfo(bindingCount=len(slots), pBindings=slots)
            set_layout = self._own("DescriptorSetLayout", info, name)
            ranges = [vk.VkPushConstantRange(stages, 0, 4) for stages in constants]
            info = vk.VkPipelineLayoutCreateInfo(
                setLayoutCount=1,
                pSetLayouts=[set_layout],
                pushConstantRangeCount=len(ranges),
                pPushConstantRanges=ranges,
            )
            self._layouts[key] = set_layout, self._own("PipelineLayout", info, name)
        return self._layouts[key]

    def _descriptors(
        self, set_layout: Any, resources: tuple[Resource, ...], images: Any, buffers: Any
    ) -> Any:
        vk = self.device.vk
        info = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=self.pool, descriptorSetCount=1, pSetLayouts=[set_layout]
        )
        descriptors = vk.vkAllocateDescriptorSets(self.device.handle, info)[0]
        writes, keep = [], []
        for k, r in enumerate(resources):
            if r.variable is None:
                info = vk.VkDescriptorBufferInfo(buffers[r.kind].handle, 0, buffers[r.kind].size)
                extra = {"pBufferInfo": [info]}
            else:
                info = vk.VkDescriptorImageInfo(
                    None, images[r.variable][r.plane].view, vk.VK_IMAGE_LAYOUT_GENERAL
                )
                extra = {"pImageInfo": [info]}
            keep.append((info, extra))
            writes.append(
                vk.VkWriteDescriptorSet(
                    dstSet=descriptors,
                    dstBinding=k,
                    descriptorCount=1,
                    descriptorType=descriptor_type(vk, r.kind),
                    **extra,
                )
            )
        if writes:
            vk.vkUpdateDescriptorSets(self.device.handle, len(writes), writes, 0, None)
        return descriptors

    def _stage(self, source: str, stage: str, flag: int) -> Any:
        module = self.cache.modules[source, stage]
        return self.device.vk.VkPipelineShaderStageCreateInfo(stage=flag, module=module, pName="main")

    def _compute(self, source: str, layout: Any, name: str) -> Any:
        vk = self.device.vk
        if (source, layout) not in self._dispatches:
            stage = self._stage(source, "compute", vk.VK_SHADER_STAGE_COMPUTE_BIT)
            info = vk.VkComputePipelineCreateInfo(stage=stage, layout=layout, basePipelineIndex=-1)
            failed = f"could not make a pipeline for {name}"
            made = vk.call(
                "vkCreateComputePipelines", failed, self.device.handle, self.cache.handle, 1, [info], None
            )
            self.owned.append(self.device.own("Pipeline", made[0], name))
            self._dispatches[source, layout] = made[0]
        return self._dispatches[source, layout]

    def _graphics(
        self,
        s: SubStage,
        shaders: Shaders,
        part: str,
        layout: Any,
        render_pass: Any,
        subpass: int,
        name: str,
    ) -> Any:
        vk = self.device.vk
        stages = [
            self._stage(shaders.sources[part + "vertex"], "vertex", vk.VK_SHADER_STAGE_VERTEX_BIT),
            self._stage(shaders.sources[part + "fragment"], "fragment", vk.VK_SHADER_STAGE_FRAGMENT_BIT),
        ]
        targets = sum(len(v.vtype.planes) for v in s.colors) if s.draws else 0
        blend = [vk.VkPipelineColorBlendAttachmentState(colorWriteMask=15) for _ in range(targets)]
        # A scatter that draws passes where the raster left any depth: it is less than 1 there, that of the draw is 1.
        raster, again = s.has_depth, isinstance(s.work, ScatterDraw)
        compare = vk.VK_COMPARE_OP_GREATER if again else vk.VK_COMPARE_OP_LESS
        dynamic = [vk.VK_DYNAMIC_STATE_VIEWPORT, vk.VK_DYNAMIC_STATE_SCISSOR]
        parts = (
            vk.VkPipelineVertexInputStateCreateInfo(),
            vk.VkPipelineInputAssemblyStateCreateInfo(topology=vk.VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST),
            vk.VkPipelineViewportStateCreateInfo(viewportCount=1, scissorCount=1),
            vk.VkPipelineRasterizationStateCreateInfo(
                polygonMode=vk.VK_POLYGON_MODE_FILL, cullMode=vk.VK_CULL_MODE_NONE, lineWidth=1.0
            ),
            vk.VkPipelineMultisampleStateCreateInfo(rasterizationSamples=vk.VK_SAMPLE_COUNT_1_BIT),
            vk.VkPipelineDepthStencilStateCreateInfo(
                depthTestEnable=raster or again, depthWriteEnable=raster, depthCompareOp=compare
            ),
            vk.VkPipelineColorBlendStateCreateInfo(attachmentCount=len(blend), pAttachments=blend),
            vk.VkPipelineDynamicStateCreateInfo(dynamicStateCount=len(dynamic), pDynamicStates=dynamic),
        )
        info = vk.VkGraphicsPipelineCreateInfo(
            stageCount=2,
            pStages=stages,
            pVertexInputState=parts[0],
            pInputAssemblyState=parts[1],
            pViewportState=parts[2],
            pRasterizationState=parts[3],
            pMultisampleState=parts[4],
            pDepthStencilState=parts[5],
            pColorBlendState=parts[6],
            pDynamicState=parts[7],
            layout=layout,
            renderPass=render_pass,
            subpass=subpass,
            basePipelineIndex=-1,
        )
        failed = f"could not make a pipeline for {name}"
        made = vk.call(
            "vkCreateGraphicsPipelines", failed, self.device.handle, self.cache.handle, 1, [info], None
        )
        self.owned.append(self.device.own("Pipeline", made[0], name))
        return made[0]

    def destroy(self) -> None:
        for handle in reversed(self.owned):
            self.device.destroy(handle)
        self.owned.clear()
