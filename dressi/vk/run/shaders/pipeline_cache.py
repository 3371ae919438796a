"""The driver's pipeline cache, and shader modules."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from ....config import config
from ..device.device import Device
from ..host import cache
from .compilers import Shader
from .pyglslang import compile_many

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
