"""Descriptor sets and pipelines of SubStages."""

from __future__ import annotations

import hashlib
import os
import struct
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....ad.graph import Variable
from ....ad.graph.types import Sampler
from ....config import config
from ...plan.core.substage import Accumulate, FragmentScatter, PrimitiveWork, SubStage
from ...plan.glsl.writer import Resource, Shaders, stage_of
from ..device.device import Device
from ..device.memory import DeviceBuffer
from ..device.shared import Reference
from ..host import cache
from .pyglslang import Shader, compile_many
from .render_pass import DrawTarget

Images = Mapping[Variable, Sequence[Any]]
Buffers = Mapping[str, DeviceBuffer]
_FULL_SUBGROUPS = 2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
_DISPATCH_BASE = 0x10  # VK_PIPELINE_CREATE_DISPATCH_BASE_BIT: a dispatch may begin at any workgroup
_FILTERS = {"nearest": "VK_FILTER_NEAREST", "bilinear": "VK_FILTER_LINEAR"}
_WRAPS = {"repeat": "VK_SAMPLER_ADDRESS_MODE_REPEAT", "clamp": "VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE"}


@dataclass
class Pipelines:
    """Pipelines of one SubStage by shader (``draw``, ``compute``, ``resolve``), and its descriptor set.

    bands: the values of a push constant with which a scatter runs, one after the other, if there are several.
    based: whether the push constant before it is the first workgroup of a dispatch.
    """

    layout: Any
    set: Any
    handles: dict[str, Any]
    bands: range
    constant_flags: int
    based: bool


@dataclass(frozen=True)
class SetLayoutKey:
    """What a descriptor set layout is made from: types of descriptors, and the stages that see them."""

    bindings: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LayoutKey:
    """What the layout of a pipeline is made from. constants: stages of push constants, and their bytes."""

    descriptors: SetLayoutKey
    constants: tuple[int, ...]


@dataclass(frozen=True)
class PipelineKey:
    """What a pipeline is made from. sources: hashes of its shaders. state: all else, where it draws."""

    sources: tuple[bytes, ...]
    layout: LayoutKey
    state: Hashable = None


def _digest(source: str) -> bytes:
    return hashlib.sha256(source.encode()).digest()


_IMAGES = {
    "texture": "SAMPLED_IMAGE",
    "sampler": "SAMPLER",
    "attachment": "INPUT_ATTACHMENT",
    "storage": "STORAGE_IMAGE",
    "load": "STORAGE_IMAGE",
}


def _descriptor_type(vk: Any, kind: str) -> int:
    """The VkDescriptorType of a ``Resource`` of this kind; those that are no images are storage buffers."""
    return getattr(vk, f"VK_DESCRIPTOR_TYPE_{_IMAGES.get(kind, 'STORAGE_BUFFER')}")


def _jobs(s: SubStage, shaders: Shaders) -> list[Shader]:
    name = "+".join(type(f).__name__ for f in s.functions)[:80]
    return [
        Shader(source, stage_of(part), f"{name} {part}", shaders.matrices)
        for part, source in shaders.sources.items()
    ]


@dataclass(eq=False)
class _Ordered:
    """A pipeline that ``PipelineMaker.finish`` makes. make: calls the driver.  error: why that failed."""

    make: Callable[[], Any]
    name: str
    handle: Any = None
    error: Exception | None = None


class PipelineMaker:
    """Makes the pipelines of one plan and holds them, and a descriptor set for each of ``all_resources``.

    All plans of a Device share pipelines: dispatches of the same shader (those of peeled layers), and graphs
    that are built again. Drivers compile each pipeline, which takes much longer than all else here:
    ``finish`` makes those that were ordered by as many threads as there are cores. CPU drivers compile when a
    shader is first used, so that theirs are made at once. A shared object has the debug name of the Stage that
    it was made for.
    """

    def __init__(
        self, device: Device, pipelines: PipelineCache, all_resources: Collection[tuple[Resource, ...]]
    ):
        self.device, self.cache = device, pipelines
        self.made = 0  # pipelines that were not there before
        self._held: list[Reference] = []
        self._orders: dict[PipelineKey, _Ordered] = {}
        self._unfinished: list[dict[str, Any]] = []  # handles of pipelines, some of them ordered
        vk = device.vk
        kinds = [_descriptor_type(vk, r.kind) for resources in all_resources for r in resources]
        counts = Counter(kinds or [vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE])
        sizes = [vk.VkDescriptorPoolSize(kind, count) for kind, count in counts.items()]
        info = vk.VkDescriptorPoolCreateInfo(
            maxSets=max(len(all_resources), 1), poolSizeCount=len(sizes), pPoolSizes=sizes
        )
        self._pool = device.create("DescriptorPool", info)

    def compile(self, all_shaders: Mapping[SubStage, Shaders]) -> None:
        """Make the modules of all shaders at once, except those in pipelines of the Device, which are made
        when needed."""
        keys = (key for key in self.device.shared.keys if isinstance(key, PipelineKey))
        there = {source for key in keys for source in key.sources}
        jobs = [job for s, shaders in all_shaders.items() for job in _jobs(s, shaders)]
        self.cache.compile(job for job in jobs if _digest(job.source) not in there)

    def _shared(self, key: Hashable, make: Callable[[], Any]) -> Any:
        reference = self.device.share(key, make)
        self._held.append(reference)
        return reference.handle

    def make(
        self,
        s: SubStage,
        shaders: Shaders,
        images: Images,
        buffers: Buffers,
        target: DrawTarget | None,
        resolve: DrawTarget | None,
        subpass: int,
        name: str,
    ) -> Pipelines:
        """Pipelines and descriptor set of a SubStage. target: of draws. resolve: of scatters that a draw
        ends."""
        vk = self.device.vk
        drawn = vk.VK_SHADER_STAGE_VERTEX_BIT | vk.VK_SHADER_STAGE_FRAGMENT_BIT
        flags = {"attachment": vk.VK_SHADER_STAGE_FRAGMENT_BIT}
        adds_in_fragments = isinstance(s.work, FragmentScatter)
        stage_flags = drawn if s.draws else vk.VK_SHADER_STAGE_COMPUTE_BIT
        if adds_in_fragments or s.colors:
            stage_flags |= drawn
        if isinstance(s.work, PrimitiveWork):
            flags["list"] = vk.VK_SHADER_STAGE_VERTEX_BIT
        flags["storage"] = flags["buffer"] = flags["status"] = stage_flags & ~vk.VK_SHADER_STAGE_VERTEX_BIT
        stages = [flags.get(r.kind, stage_flags) for r in shaders.resources]
        bytes_ = 8 * shaders.based + 4 * (len(shaders.bands) > 1)
        constants = (stage_flags, bytes_) if bytes_ else ()
        key, layout, descriptors = self._bound(shaders.resources, stages, constants, images, buffers, name)
        jobs = dict(zip(shaders.sources, _jobs(s, shaders), strict=True))
        handles = {}
        if s.draws or adds_in_fragments:
            assert target is not None
            handles["draw"] = self._graphics(s, jobs, "", key, layout, target, subpass, name)
        if s.final is not s and s.final.draws:
            assert resolve is not None
            handles["resolve"] = self._graphics(s.final, jobs, "resolve.", key, layout, resolve, 0, name)
        for part in ("compute", "resolve"):
            if part in jobs:
                handles[part] = self._compute(jobs[part], key, layout, f"{name} {part}")
        self._unfinished.append(handles)
        return Pipelines(layout, descriptors, handles, shaders.bands, stage_flags, shaders.based)

    def make_dispatch(
        self, job: Shader, resources: Sequence[Resource], images: Images, buffers: Buffers
    ) -> Pipelines:
        """The pipeline and descriptor set of a shader of no SubStage."""
        stages = [self.device.vk.VK_SHADER_STAGE_COMPUTE_BIT] * len(resources)
        key, layout, descriptors = self._bound(resources, stages, (), images, buffers, job.name)
        handles = {"compute": self._compute(job, key, layout, job.name)}
        self._unfinished.append(handles)
        self.finish()
        return Pipelines(layout, descriptors, handles, range(1), 0, False)

    def _bound(
        self,
        resources: Sequence[Resource],
        stages: Sequence[int],
        constants: tuple[int, ...],
        images: Images,
        buffers: Buffers,
        name: str,
    ) -> tuple[LayoutKey, Any, Any]:
        """The layout of a pipeline, its key, and a descriptor set. stages: those that see each resource."""
        vk = self.device.vk
        kinds = [_descriptor_type(vk, r.kind) for r in resources]
        key = LayoutKey(SetLayoutKey(tuple(zip(kinds, stages, strict=True))), constants)

        def make_set_layout() -> Any:
            slots = [
                vk.VkDescriptorSetLayoutBinding(
                    binding=k, descriptorType=kind, descriptorCount=1, stageFlags=flags
                )
                for k, (kind, flags) in enumerate(key.descriptors.bindings)
            ]
            info = vk.VkDescriptorSetLayoutCreateInfo(bindingCount=len(slots), pBindings=slots)
            return self.device.create("DescriptorSetLayout", info, name)

        def make_layout() -> Any:
            ranges = [vk.VkPushConstantRange(constants[0], 0, constants[1])] if constants else []
            info = vk.VkPipelineLayoutCreateInfo(
                setLayoutCount=1,
                pSetLayouts=[set_layout],
                pushConstantRangeCount=len(ranges),
                pPushConstantRanges=ranges,
            )
            return self.device.create("PipelineLayout", info, name)

        set_layout = self._shared(key.descriptors, make_set_layout)
        layout = self._shared(key, make_layout)
        info = vk.VkDescriptorSetAllocateInfo(
            descriptorPool=self._pool, descriptorSetCount=1, pSetLayouts=[set_layout]
        )
        descriptors = vk.vkAllocateDescriptorSets(self.device.handle, info)[0]
        writes, keep = [], []
        for k, (r, kind) in enumerate(zip(resources, kinds, strict=True)):
            if r.sampler is not None:
                info = {"pImageInfo": [vk.VkDescriptorImageInfo(self._sampler(r.sampler), None, 0)]}
            elif r.variable is None or r.kind == "range":
                buffer = buffers[r.kind] if r.variable is None else images[r.variable][0].buffer
                info = {"pBufferInfo": [vk.VkDescriptorBufferInfo(buffer.handle, 0, buffer.size)]}
            else:
                view = images[r.variable][r.plane].view
                info = {"pImageInfo": [vk.VkDescriptorImageInfo(None, view, vk.VK_IMAGE_LAYOUT_GENERAL)]}
            keep.append(info)
            write = vk.VkWriteDescriptorSet(
                dstSet=descriptors, dstBinding=k, descriptorCount=1, descriptorType=kind, **info
            )
            writes.append(write)
        if writes:
            vk.vkUpdateDescriptorSets(self.device.handle, len(writes), writes, 0, None)
        return key, layout, descriptors

    def _sampler(self, sampler: Sampler) -> Any:
        """The object for it: coordinates of 0 to 1 over the image, which has one level."""
        vk = self.device.vk
        mode, filter = getattr(vk, _WRAPS[sampler.wrap]), getattr(vk, _FILTERS[sampler.filter])
        info = vk.VkSamplerCreateInfo(
            magFilter=filter,
            minFilter=filter,
            mipmapMode=vk.VK_SAMPLER_MIPMAP_MODE_NEAREST,
            addressModeU=mode,
            addressModeV=mode,
            addressModeW=mode,
        )
        return self._shared(sampler, lambda: self.device.create("Sampler", info, str(sampler)))

    def _stage(self, job: Shader, flag: int) -> Any:
        module = self.cache.modules[job.source, job.stage]
        return self.device.vk.VkPipelineShaderStageCreateInfo(
            flags=_FULL_SUBGROUPS * job.matrices, stage=flag, module=module, pName="main"
        )

    def finish(self) -> None:
        """Makes the pipelines that were ordered. Raises the error of the first that fails, and keeps the others."""
        orders, unfinished = self._orders, self._unfinished
        self._orders, self._unfinished = {}, []
        if len(orders) > 1:
            from concurrent.futures import ThreadPoolExecutor  # nothing to make in parallel on CPU drivers

            with ThreadPoolExecutor(min(os.cpu_count() or 1, len(orders))) as pool:
                list(pool.map(self._create, orders.values()))
        else:
            for order in orders.values():
                self._create(order)
        for key, order in orders.items():
            if order.error is None:
                self._shared(key, lambda o=order: self.device.own("Pipeline", o.handle, o.name))
        for order in orders.values():
            if order.error is not None:
                raise order.error
        for handles in unfinished:
            for part, handle in handles.items():
                handles[part] = handle.handle if isinstance(handle, _Ordered) else handle

    def _create(self, order: _Ordered) -> None:
        """Makes a pipeline in any thread: the binding releases the interpreter while the driver compiles."""
        try:
            order.handle = order.make()
        except Exception as error:
            order.error = error

    def _call(self, kind: str, info: Any, name: str) -> Any:
        failed, create = f"could not make a pipeline for {name}", f"vkCreate{kind}Pipelines"
        return self.device.vk.call(create, failed, self.device.handle, self.cache.handle, 1, [info], None)[0]

    def _pipeline(
        self, key: PipelineKey, shaders: Sequence[Shader], make: Callable[[], Any], name: str
    ) -> Any:
        """The pipeline of this key: its handle, or the order of one that is not there yet."""
        if key in self._orders:
            return self._orders[key]
        if key in self.device.shared.keys:
            return self._shared(key, lambda: None)
        self.made += 1
        self.cache.compile(shaders)
        if not self.device.compiles_late:
            order = self._orders[key] = _Ordered(make, name)
            return order
        return self._shared(key, lambda: self.device.own("Pipeline", make(), name))

    def _compute(self, job: Shader, key: LayoutKey, layout: Any, name: str) -> Any:
        vk = self.device.vk

        def make() -> Any:
            stage = self._stage(job, vk.VK_SHADER_STAGE_COMPUTE_BIT)
            info = vk.VkComputePipelineCreateInfo(
                flags=_DISPATCH_BASE, stage=stage, layout=layout, basePipelineIndex=-1
            )
            return self._call("Compute", info, name)

        return self._pipeline(PipelineKey((_digest(job.source),), key), [job], make, name)

    def _graphics(
        self,
        s: SubStage,
        jobs: dict[str, Shader],
        part: str,
        key: LayoutKey,
        layout: Any,
        target: DrawTarget,
        subpass: int,
        name: str,
    ) -> Any:
        vk = self.device.vk
        shaders = jobs[part + "vertex"], jobs[part + "fragment"]
        targets = sum(len(v.vtype.planes) for v in s.colors) if s.draws else 0
        added = isinstance(s.work, Accumulate)

        def make() -> Any:
            flags = vk.VK_SHADER_STAGE_VERTEX_BIT, vk.VK_SHADER_STAGE_FRAGMENT_BIT
            stages = [self._stage(job, flag) for job, flag in zip(shaders, flags, strict=True)]
            one, add = vk.VK_BLEND_FACTOR_ONE, vk.VK_BLEND_OP_ADD
            factors = {
                f"{end}{part}BlendFactor": one for end in ("src", "dst") for part in ("Color", "Alpha")
            }
            adding = (
                {"blendEnable": True, "colorBlendOp": add, "alphaBlendOp": add, **factors} if added else {}
            )
            blend = [vk.VkPipelineColorBlendAttachmentState(colorWriteMask=15, **adding)] * targets
            depth_test = vk.VkPipelineDepthStencilStateCreateInfo(
                depthTestEnable=s.has_depth,
                depthWriteEnable=s.has_depth,
                depthCompareOp=vk.VK_COMPARE_OP_LESS,
            )
            dynamic = [vk.VK_DYNAMIC_STATE_VIEWPORT, vk.VK_DYNAMIC_STATE_SCISSOR]
            info = vk.VkGraphicsPipelineCreateInfo(
                stageCount=2,
                pStages=stages,
                pVertexInputState=vk.VkPipelineVertexInputStateCreateInfo(),
                pInputAssemblyState=vk.VkPipelineInputAssemblyStateCreateInfo(
                    topology=vk.VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST
                ),
                pViewportState=vk.VkPipelineViewportStateCreateInfo(viewportCount=1, scissorCount=1),
                pRasterizationState=vk.VkPipelineRasterizationStateCreateInfo(
                    polygonMode=vk.VK_POLYGON_MODE_FILL, cullMode=vk.VK_CULL_MODE_NONE, lineWidth=1.0
                ),
                pMultisampleState=vk.VkPipelineMultisampleStateCreateInfo(
                    rasterizationSamples=vk.VK_SAMPLE_COUNT_1_BIT
                ),
                pDepthStencilState=depth_test,
                pColorBlendState=vk.VkPipelineColorBlendStateCreateInfo(
                    attachmentCount=len(blend), pAttachments=blend
                ),
                pDynamicState=vk.VkPipelineDynamicStateCreateInfo(
                    dynamicStateCount=len(dynamic), pDynamicStates=dynamic
                ),
                layout=layout,
                renderPass=target.render_pass,
                subpass=subpass,
                basePipelineIndex=-1,
            )
            return self._call("Graphics", info, name)

        state = (targets, s.has_depth, added, target.compatibility, subpass)
        sources = tuple(_digest(job.source) for job in shaders)
        return self._pipeline(PipelineKey(sources, key, state), shaders, make, name)

    def destroy(self) -> None:
        """Release the pipelines, layouts and descriptor sets."""
        for reference in reversed(self._held):
            self.device.release(reference)
        self._held.clear()
        self.device.destroy(self._pool)


# The driver's pipeline cache, and shader modules.

_HEADER = struct.Struct("<IIII16s")  # length, version, vendor, device, UUID of the driver


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

    def compile(self, shaders: Iterable[Shader]) -> None:
        """Make the modules of all shaders that have none yet. They are compiled together, equal text once."""
        jobs: dict[tuple[str, str], Shader] = {}
        for shader in shaders:
            if (shader.source, shader.stage) not in self.modules:
                jobs.setdefault((shader.source, shader.stage), shader)
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
