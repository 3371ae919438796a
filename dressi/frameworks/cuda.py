"""Memory and semaphores of a Vulkan device in CUDA, by the library of NVIDIA's driver alone."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from ..errors import DeviceError
from ..vk.run.device.external import handles

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_GONE = 4  # CUDA_ERROR_DEINITIALIZED: the process ends, and all that CUDA had has gone


class _Win32(ctypes.Structure):
    _fields_ = (("handle", ctypes.c_void_p), ("name", ctypes.c_void_p))


class _Handle(ctypes.Union):
    _fields_ = (("fd", ctypes.c_int), ("win32", _Win32))


class MemoryHandle(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_HANDLE_DESC."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle", _Handle),
        ("size", ctypes.c_ulonglong),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    )


class MemoryRange(ctypes.Structure):
    """CUDA_EXTERNAL_MEMORY_BUFFER_DESC."""

    _fields_ = (
        ("offset", ctypes.c_ulonglong),
        ("size", ctypes.c_ulonglong),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    )


class SemaphoreHandle(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle", _Handle),
        ("flags", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 16),
    )


class SemaphoreParameters(ctypes.Structure):
    """CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS and _WAIT_PARAMS: zeros for a binary semaphore."""

    _fields_ = (("zero", ctypes.c_ulonglong * 18),)


@cache
def driver() -> Any:
    """The library of the driver. Raises DeviceError where there is none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise DeviceError(f"the library of NVIDIA's driver does not load: {error}") from None


class Cuda:
    """A device of CUDA by its number, with its primary context, which frameworks use as well.

    uuid: the same as Vulkan's ``deviceUUID`` of this GPU. Raises DeviceError, here and where CUDA refuses
    something.
    """

    def __init__(self, index: int):
        self.library = driver()
        self._call("cuInit", 0)
        device, uuid, self._context = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDeviceGetUuid", ctypes.byref(uuid), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.uuid = bytes(uuid)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code not in (0, _GONE):
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            why = (text.value or b"no reason given").decode()
            raise DeviceError(f"CUDA refuses {name}: {why} ({code})")

    def enter(self) -> None:
        """Make the context that of this thread."""
        self._call("cuCtxSetCurrent", self._context)

    def memory(self, handle: int, allocated: int, size: int) -> CudaMemory:
        """The first bytes, ``size``, of a Vulkan device's memory of ``allocated`` bytes. Takes the handle."""
        described = MemoryHandle(type=handles().bit, handle=_handle(handle), size=allocated)
        external = self._imported("cuImportExternalMemory", handle, described)
        pointer, range_ = ctypes.c_ulonglong(), MemoryRange(size=size)
        mapped = ctypes.byref(pointer), external, ctypes.byref(range_)
        self._call("cuExternalMemoryGetMappedBuffer", *mapped)
        return CudaMemory(self, external, pointer.value)

    def semaphore(self, handle: int) -> CudaSemaphore:
        """A Vulkan device's binary semaphore. Takes the handle."""
        described = SemaphoreHandle(type=handles().bit, handle=_handle(handle))
        return CudaSemaphore(self, self._imported("cuImportExternalSemaphore", handle, described))

    def _imported(self, name: str, handle: int, described: ctypes.Structure) -> ctypes.c_void_p:
        found, taken = ctypes.c_void_p(), False
        try:
            self._call(name, ctypes.byref(found), ctypes.byref(described))
            taken = not handles().kept
        finally:
            if not taken:
                handles().close(handle)
        return found

    def wait(self, stream: int) -> None:
        """The host waits for all work of a stream."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))


def _handle(handle: int) -> _Handle:
    return _Handle(win32=_Win32(handle=handle)) if handles().kept else _Handle(fd=handle)


class CudaMemory:
    """Memory at the address ``pointer`` of CUDA."""

    def __init__(self, cuda: Cuda, external: ctypes.c_void_p, pointer: int):
        self._cuda, self._external, self.pointer = cuda, external, pointer

    def destroy(self) -> None:
        """Release it. Nothing may be under way."""
        self._cuda._call("cuMemFree_v2", ctypes.c_ulonglong(self.pointer))
        self._cuda._call("cuDestroyExternalMemory", self._external)


class CudaSemaphore:
    """A semaphore in streams of CUDA."""

    def __init__(self, cuda: Cuda, external: ctypes.c_void_p):
        self._cuda, self._external = cuda, external

    def _each(self, name: str, stream: int) -> None:
        one, zero = ctypes.byref(self._external), SemaphoreParameters()
        self._cuda._call(name, one, ctypes.byref(zero), 1, ctypes.c_void_p(stream))

    def signal(self, stream: int) -> None:
        """Signal it behind the work of a stream so far."""
        self._each("cuSignalExternalSemaphoresAsync", stream)

    def wait(self, stream: int) -> None:
        """The stream does not go on before it is signalled."""
        self._each("cuWaitExternalSemaphoresAsync", stream)

    def destroy(self) -> None:
        """Release it. Nothing may be under way."""
        self._cuda._call("cuDestroyExternalSemaphore", self._external)
