"""Buffers and semaphores that a device shares with another one, or with CUDA, on the same GPU."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import Any, NamedTuple

from ....errors import DeviceError
from .device import Device
from .instance import Instance
from .memory import DeviceBuffer

_DEDICATED, _EXPORTABLE = 1, 2  # VK_EXTERNAL_MEMORY_FEATURE_{DEDICATED_ONLY,EXPORTABLE}_BIT
_SEMAPHORE_EXPORTABLE = 1  # VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT


class Handles(NamedTuple):
    """How an operating system names what processes and drivers share.

    ending: of the extensions. name: of the handles in Vulkan. bit: of VkExternalMemoryHandleTypeFlagBits and
    VkExternalSemaphoreHandleTypeFlagBits, and CUDA's number of both types. member: of the structures that
    import them. kept: whether who imports a handle leaves it to its owner, who has to close it.
    """

    ending: str
    name: str
    bit: int
    member: str
    kept: bool

    def close(self, handle: int) -> None:
        """Give back a handle that nobody has taken over."""
        if self.kept:
            ctypes.windll.kernel32.CloseHandle(ctypes.c_void_p(handle))  # pyright: ignore
        else:
            with suppress(OSError):
                os.close(handle)


FILES = Handles("fd", "Fd", 1, "fd", kept=False)
WIN32 = Handles("win32", "Win32Handle", 2, "handle", kept=True)


def handles() -> Handles:
    """Those of this system."""
    return WIN32 if sys.platform == "win32" else FILES


def why_not(device: Device) -> str | None:
    """Why a device shares no memory, as the end of a sentence; None where it does."""
    if (extension := f"VK_KHR_external_memory_{handles().ending}") not in device.features:
        return f"{device.name} lacks {extension}, or its host has not enabled it"
    vk = device.vk
    info = vk.VkPhysicalDeviceExternalBufferInfo(usage=_usage(vk), handleType=handles().bit)
    found = vk.VkExternalBufferProperties()
    vk.vkGetPhysicalDeviceExternalBufferProperties(device.physical.handle, info, found)
    if found.externalMemoryProperties.externalMemoryFeatures & (_DEDICATED | _EXPORTABLE) != _EXPORTABLE:
        return f"{device.name} exports no plain memory of buffers"
    return None


def _usage(vk: Any) -> int:
    return vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT


def device_uuid(vk: Any, physical: Any) -> bytes:
    """VkPhysicalDeviceIDProperties.deviceUUID: what drivers of all kinds call a GPU."""
    found = vk.VkPhysicalDeviceIDProperties()
    vk.vkGetPhysicalDeviceProperties2(physical, vk.VkPhysicalDeviceProperties2(pNext=found))
    return bytes(found.deviceUUID)


def device_with(uuid: bytes) -> int | None:
    """The index, as in ``list_devices``, of the device with this UUID."""
    instance = Instance.shared()
    found = (p.index for p in instance.physical_devices() if device_uuid(instance.vk, p.handle) == uuid)
    return next(found, None)


class SharedBuffer(DeviceBuffer):
    """A buffer with memory of its own that others may use, too.

    handle: from ``export`` of a SharedBuffer of the same size on another device of the same driver and GPU,
    whose memory this one then is; it is taken over. Raises DeviceErrors where the device shares none.
    """

    def __init__(self, device: Device, size: int, name: str, handle: int | None = None):
        if (why := why_not(device)) is not None:
            raise DeviceError(f"memory cannot be shared: {why}")
        vk, kind = device.vk, handles()
        if handle is None:
            allocated = vk.VkExportMemoryAllocateInfo(handleTypes=kind.bit)
        else:
            imported = getattr(vk, f"VkImportMemory{kind.name}InfoKHR")
            allocated = imported(handleType=kind.bit, **{kind.member: handle})
        self._imported = handle is not None
        made = vk.VkExternalMemoryBufferCreateInfo(handleTypes=kind.bit)
        super().__init__(device, size, name, host=False, made=made, allocated=allocated)
        if handle is not None and kind.kept:
            kind.close(handle)

    def export(self) -> int:
        """A new handle of the memory, a file descriptor or a HANDLE, for whoever imports it: Vulkan and CUDA
        take a descriptor over, and a HANDLE has to be closed. Raises DeviceError for imported memory."""
        if self._imported:
            raise DeviceError("this is the memory of another device, which alone gives handles of it")
        return _exported(self.device, "Memory", memory=self.memory.block.memory)

    @property
    def allocated(self) -> int:
        """Bytes of the memory, which begins with the buffer."""
        return self.memory.block.size


def _exported(device: Device, kind: str, **owner: Any) -> int:
    vk, name = device.vk, handles().name
    info = getattr(vk, f"Vk{kind}Get{name}InfoKHR")(handleType=handles().bit, **owner)
    get = vk.vkGetDeviceProcAddr(device.handle, f"vkGet{kind}{name}KHR")
    return int(vk.ffi.cast("intptr_t", get(device.handle, info)))


def shares_semaphores(device: Device) -> bool:
    """Whether others may signal and await semaphores of the device."""
    if f"VK_KHR_external_semaphore_{handles().ending}" not in device.features:
        return False
    vk = device.vk
    info = vk.VkPhysicalDeviceExternalSemaphoreInfo(handleType=handles().bit)
    found = vk.VkExternalSemaphoreProperties()
    vk.vkGetPhysicalDeviceExternalSemaphoreProperties(device.physical.handle, info, found)
    return bool(found.externalSemaphoreFeatures & _SEMAPHORE_EXPORTABLE)


class SharedSemaphore:
    """A binary semaphore that others may signal and await, too. Signals and waits take turns."""

    def __init__(self, device: Device, name: str):
        vk = device.vk
        info = vk.VkSemaphoreCreateInfo(pNext=vk.VkExportSemaphoreCreateInfo(handleTypes=handles().bit))
        self.device, self.handle = device, device.create("Semaphore", info, name)
        # Batches without commands: a wait holds back all that is submitted later, and a signal follows all
        # that was submitted before.
        one, stages = [self.handle], [vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT]
        self._awaited = vk.VkSubmitInfo(waitSemaphoreCount=1, pWaitSemaphores=one, pWaitDstStageMask=stages)
        self._signalled = vk.VkSubmitInfo(signalSemaphoreCount=1, pSignalSemaphores=one)

    def export(self) -> int:
        """A new handle, as from ``SharedBuffer.export``."""
        return _exported(self.device, "Semaphore", semaphore=self.handle)

    def wait(self) -> None:
        """The device does not go on before others have signalled it."""
        self.device.work.submit([self._awaited], None)

    def signal(self) -> None:
        """Signal it behind all work so far."""
        self.device.work.submit([self._signalled], None)

    def destroy(self) -> None:
        """Release it. Nothing may be under way."""
        self.device.destroy(self.handle)
