"""CUDA's driver on the CPU: memory of a Vulkan device is mapped from its file descriptor, and a second VkDevice
signals and awaits its semaphores. Streams do their work at once."""

import ctypes
import mmap
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dressi.frameworks.crossing import MemoryHandle, SemaphoreHandle
from dressi.vk.run.device.device import Device
from dressi.vk.run.device.external import device_uuid, why_not


def _begin(data: mmap.mmap) -> int:
    """Where the memory begins in its file: lavapipe's tell their length and this, others begin with it."""
    length, first = np.frombuffer(data, np.uint64, 2).tolist()
    return first if length == len(data) else 0


class Library:
    """What ``ctypes.CDLL`` would be. log: the calls that order work.  refuses: names of calls that fail."""

    def __init__(self, device: Device):
        if device.physical.type != "cpu" or why_not(device) is not None:
            pytest.skip("the CPU does not map what this device exports")
        self.uuid = device_uuid(device.vk, device.physical.handle)
        self.log: list[str] = []
        self.refuses: set[str] = set()
        self.mapped: dict[int, tuple[mmap.mmap, int]] = {}
        self.semaphores: dict[int, Any] = {}
        self.allocated: dict[int, np.ndarray] = {}
        self.other: Device | None = None
        self._device, self._next = device, 1

    def __getattr__(self, name: str) -> Any:
        """cuDoThis is ``do_this``, and refused where a test wants it."""
        if not name.startswith("cu"):
            raise AttributeError(name)
        own = getattr(self, "_" + "".join("_" * c.isupper() + c.lower() for c in name[2:])[1:])
        return lambda *given: 1 if name in self.refuses else own(*given) or 0

    def _init(self, flags): ...

    def _device_get(self, out, index):
        if index:
            return 101
        out._obj.value = 0

    def _device_get_uuid(self, out, device):
        out._obj[:] = self.uuid

    def _device_primary_ctx_retain(self, out, device):
        out._obj.value = 7

    def _ctx_set_current(self, context):
        assert context.value == 7

    def _ctx_push_current_v2(self, context):
        assert context.value == 7

    def _ctx_pop_current_v2(self, out): ...

    def _get_error_string(self, code, out):
        out._obj.value = {1: b"invalid argument", 101: b"invalid device ordinal"}[code]

    def _new(self, out: Any) -> int:
        out._obj.value = self._next
        self._next += 1
        return out._obj.value

    # ---- memory
    def _import_external_memory(self, out, described):
        d = described._obj
        assert isinstance(d, MemoryHandle) and (d.type, d.flags) == (1, 0)
        data = mmap.mmap(d.handle.fd, 0)
        os.close(d.handle.fd)
        assert _begin(data) + d.size <= len(data)
        self.mapped[self._new(out)] = data, d.size

    def _external_memory_get_mapped_buffer(self, out, external, described):
        (data, size), d = self.mapped[external.value], described._obj
        assert d.offset + d.size <= size and d.flags == 0
        out._obj.value = np.frombuffer(data, np.uint8).ctypes.data + _begin(data) + d.offset

    def _mem_free_v2(self, pointer):
        self.tensor_bytes(pointer.value, 1)

    def _destroy_external_memory(self, external):
        del self.mapped[external.value]

    def tensor_bytes(self, address: int, size: int) -> None:
        """Raises where nothing is mapped."""
        for data, held in self.mapped.values():
            first = np.frombuffer(data, np.uint8).ctypes.data + _begin(data)
            if first <= address and address + size <= first + held:
                return
        raise AssertionError(f"no memory at {address}")

    def texels(self, cuda: Any, view: Any) -> np.ndarray:
        """The array of a view in mapped memory."""
        found = np.asarray(SimpleNamespace(__array_interface__=view.__cuda_array_interface__))
        self.tensor_bytes(found.ctypes.data, found.nbytes)
        return found

    # ---- memory of its own, and copies
    def _pointer_get_attribute(self, out, attribute, pointer):
        assert attribute == 9
        out._obj.value = 0

    def _mem_alloc_async(self, out, size, stream):
        made = np.full(size.value, 0xAB, np.uint8)
        out._obj.value = made.ctypes.data
        self.allocated[made.ctypes.data] = made

    def _mem_free_async(self, pointer, stream):
        del self.allocated[pointer.value]

    def _memset_d32_async(self, pointer, value, count, stream):
        ctypes.memset(pointer.value, value, 4 * count.value)

    def _memcpy_hto_d_v2(self, target, source, size):
        self.log.append(f"{size.value} bytes from the host")
        ctypes.memmove(target.value, source.value, size.value)

    def _memcpy_dto_h_v2(self, target, source, size):
        self.log.append(f"{size.value} bytes to the host")
        ctypes.memmove(target.value, source.value, size.value)

    def _memcpy2_d_async_v2(self, described, stream):
        d = described._obj
        assert d.source_kind == d.target_kind == 2 and min(d.source_pitch, d.target_pitch) >= d.width
        for row in range(d.height):
            to, by = d.target_device + row * d.target_pitch, d.source_device + row * d.source_pitch
            ctypes.memmove(to, by, d.width)

    # ---- the order of work
    def _stream_synchronize(self, stream):
        self.log.append(f"wait for stream {stream.value or 0}")

    def _import_external_semaphore(self, out, described):
        d = described._obj
        assert isinstance(d, SemaphoreHandle) and (d.type, d.flags) == (1, 0)
        self.other = self.other or Device(self._device.physical)
        vk = self.other.vk
        own = self.other.create("Semaphore", vk.VkSemaphoreCreateInfo())
        take = vk.vkGetDeviceProcAddr(self.other.handle, "vkImportSemaphoreFdKHR")
        take(self.other.handle, vk.VkImportSemaphoreFdInfoKHR(semaphore=own, handleType=1, fd=d.handle.fd))
        self.semaphores[self._new(out)] = own

    def _submit(self, one, zero, count, **info):
        assert count == 1 and not any(zero._obj.zero)
        assert self.other is not None
        own = [self.semaphores[one._obj.value]]
        vk, stages = self.other.vk, [self.other.vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT]
        if "wait" in info:
            batch = vk.VkSubmitInfo(waitSemaphoreCount=1, pWaitSemaphores=own, pWaitDstStageMask=stages)
        else:
            batch = vk.VkSubmitInfo(signalSemaphoreCount=1, pSignalSemaphores=own)
        self.other.work.submit([batch], None)
        assert self.other.work.wait_idle(10.0), "a semaphore that nobody signals"

    def _signal_external_semaphores_async(self, one, zero, count, stream):
        self.log.append(f"stream {stream.value or 0} signals")
        self._submit(one, zero, count)

    def _wait_external_semaphores_async(self, one, zero, count, stream):
        self.log.append(f"stream {stream.value or 0} waits")
        self._submit(one, zero, count, wait=True)

    def _destroy_external_semaphore(self, external):
        assert self.other is not None
        self.other.destroy(self.semaphores.pop(external.value))
        if not self.semaphores:
            self.other.close()
            self.other = None
