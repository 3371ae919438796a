"""Memory, semaphores and arrays of a Vulkan device in CUDA, by the library of NVIDIA's driver alone."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

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


class Copy(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = tuple(
        (f"{side}_{name}", kind)
        for side in ("source", "target")
        for name, kind in (
            ("x", ctypes.c_size_t),
            ("y", ctypes.c_size_t),
            ("kind", ctypes.c_int),
            ("host", ctypes.c_void_p),
            ("device", ctypes.c_ulonglong),
            ("array", ctypes.c_void_p),
            ("pitch", ctypes.c_size_t),
        )
    ) + (("width", ctypes.c_size_t), ("height", ctypes.c_size_t))


_ON_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


@cache
def driver() -> Any:
    """The library of the driver. Raises DeviceError where there is none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise DeviceError(f"the library of NVIDIA's driver does not load: {error}") from None


class Cuda:
    """A device of CUDA by its number, with its primary context, which frameworks use as well.

    uuid: the same as Vulkan's ``deviceUUID`` of this GPU.  stream: on which copies are queued; set it before.
    Raises DeviceError, here and where CUDA refuses something.
    """

    def __init__(self, index: int):
        self.index = index
        self.stream: int | None = None
        self._call("cuInit", 0)
        device, uuid, self._context = ctypes.c_int(), (ctypes.c_ubyte * 16)(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDeviceGetUuid", ctypes.byref(uuid), device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.uuid = bytes(uuid)

    @staticmethod
    def _call(name: str, *arguments: Any) -> None:
        library = driver()
        code = getattr(library, name)(*arguments)
        if code not in (0, _GONE):
            text = ctypes.c_char_p()
            library.cuGetErrorString(code, ctypes.byref(text))
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

    def wait(self) -> None:
        """The host waits for all work of the stream."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(self.stream))

    # ---- memory of one's own, in the order of the stream
    @classmethod
    def index_of(cls, pointer: int) -> int:
        """The number of the device on which memory lies."""
        found = ctypes.c_int()
        cls._call("cuPointerGetAttribute", ctypes.byref(found), _ORDINAL, ctypes.c_ulonglong(pointer))
        return found.value

    def allocate(self, size: int) -> int:
        """The address of new memory."""
        found = ctypes.c_ulonglong()
        self._queue("cuMemAllocAsync", ctypes.byref(found), ctypes.c_size_t(size))
        return found.value

    def free(self, pointer: int) -> None:
        """Give memory back, from any thread, whose context stays."""
        self._call("cuCtxPushCurrent_v2", self._context)
        self._queue("cuMemFreeAsync", ctypes.c_ulonglong(pointer))
        self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def clear(self, pointer: int, size: int) -> None:
        """Fill bytes, a multiple of 4, with zeros."""
        self._queue("cuMemsetD32Async", ctypes.c_ulonglong(pointer), 0, ctypes.c_size_t(size // 4))

    def upload(self, pointer: int, values: np.ndarray) -> None:
        """Copy a contiguous array of the host, behind the stream's work."""
        self.wait()
        size = ctypes.c_size_t(values.nbytes)
        self._call("cuMemcpyHtoD_v2", ctypes.c_ulonglong(pointer), ctypes.c_void_p(values.ctypes.data), size)

    def download(self, pointer: int, values: np.ndarray) -> np.ndarray:
        """The contiguous array, with what lies there behind the stream's work."""
        self.wait()
        size = ctypes.c_size_t(values.nbytes)
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(values.ctypes.data), ctypes.c_ulonglong(pointer), size)
        return values

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        """Copy between arrays of one shape at addresses of CUDA, in as few calls as their strides allow."""
        axes = _joined(target, source)
        width = target.itemsize
        if axes and axes[-1][1:] == (width, width):
            width *= axes.pop()[0]
        height, to, by = axes.pop() if axes else (1, width, width)
        counts, *steps = zip(*axes) if axes else ((), (), ())
        for place in np.ndindex(*counts):
            into, begin = (
                x.ctypes.data + int(np.dot(place, step)) for x, step in zip((target, source), steps)
            )
            described = Copy(
                source_kind=_ON_DEVICE, source_device=begin, source_pitch=by,
                target_kind=_ON_DEVICE, target_device=into, target_pitch=to, width=width, height=height,
            )  # fmt: skip
            self._queue("cuMemcpy2DAsync_v2", ctypes.byref(described))

    def _queue(self, name: str, *arguments: Any) -> None:
        self._call(name, *arguments, ctypes.c_void_p(self.stream))


def _joined(target: np.ndarray, source: np.ndarray) -> list[tuple[int, int, int]]:
    """The length and both strides of each axis, from the outermost; axes that follow each other in both
    arrays are one."""
    found: list[tuple[int, int, int]] = []
    for n, to, by in zip(target.shape, target.strides, source.strides, strict=True):
        if n == 1:
            continue
        if found and found[-1][1:] == (n * to, n * by):
            found[-1] = found[-1][0] * n, to, by
        else:
            found.append((n, to, by))
    return found


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

    def _each(self, name: str) -> None:
        one, zero = ctypes.byref(self._external), SemaphoreParameters()
        self._cuda._queue(name, one, ctypes.byref(zero), 1)

    def signal(self) -> None:
        """Signal it behind the work of the stream so far."""
        self._each("cuSignalExternalSemaphoresAsync")

    def wait(self) -> None:
        """The stream does not go on before it is signalled."""
        self._each("cuWaitExternalSemaphoresAsync")

    def destroy(self) -> None:
        """Release it. Nothing may be under way."""
        self._cuda._call("cuDestroyExternalSemaphore", self._external)


# Arrays in memory of CUDA, indexed and written as NumPy's, for frameworks that do not write into theirs.
#
# XLA gives the addresses of its arrays and nothing that copies between them, so the driver copies: contiguous
# texels (1, 2 or 4 channels) in one piece, others row by row of their channels in one call.


class Allocation:
    """Memory of CUDA, until nothing refers to it, in the order of the stream's work."""

    def __init__(self, cuda: Cuda, size: int):
        self._cuda, self.pointer = cuda, cuda.allocate(size)

    def __del__(self) -> None:
        with suppress(DeviceError):
            self._cuda.free(self.pointer)


class CudaArray:
    """view: an array of NumPy at an address of CUDA. Nothing reads it: it knows the shape and the strides.
    owner: what keeps the memory."""

    def __init__(self, cuda: Cuda, view: np.ndarray, owner: Any = None):
        self._cuda, self._view, self._owner = cuda, view, owner
        self.shape, self.dtype, self.device = view.shape, view.dtype, cuda.index

    @classmethod
    def at(cls, cuda: Cuda, array: Any) -> CudaArray:
        """What lies where an object with ``__cuda_array_interface__`` says."""
        interface = {**array.__cuda_array_interface__, "version": 3}
        interface = {k: interface.get(k) for k in ("data", "shape", "typestr", "strides", "version")}
        return cls(cuda, np.asarray(SimpleNamespace(__array_interface__=interface)), array)

    def _like(self, view: np.ndarray) -> CudaArray:
        return CudaArray(self._cuda, view, self._owner)

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, key: Any) -> CudaArray:
        return self._like(self._view[key])

    def __setitem__(self, key: Any, value: CudaArray | int) -> None:
        target = self._view[key]
        if isinstance(value, CudaArray):
            self._cuda.copy(target, np.broadcast_to(value._view, target.shape))
        else:
            assert value == 0 and target.flags.c_contiguous
            self._cuda.clear(target.ctypes.data, target.nbytes)

    def swapaxes(self, first: int, second: int) -> CudaArray:
        return self._like(self._view.swapaxes(first, second))

    def reshape(self, *shape: Any) -> CudaArray:
        """A view where there is one, else a copy."""
        wanted = shape[0] if isinstance(shape[0], tuple) else shape
        view = self._view.view()
        try:
            view.shape = wanted
        except AttributeError:
            copy = self.new_empty(self.shape)
            copy[...] = self
            return copy.reshape(wanted)
        return self._like(view)

    def new_empty(self, shape: tuple[int, ...]) -> CudaArray:
        size = int(np.prod(shape)) * self.dtype.itemsize
        made = Allocation(self._cuda, max(size, 4))
        interface = {"data": (made.pointer, False), "shape": shape, "typestr": self.dtype.str}
        found = CudaArray.at(self._cuda, SimpleNamespace(__cuda_array_interface__=interface))
        found._owner = made
        return found

    def new_zeros(self, shape: tuple[int, ...]) -> CudaArray:
        found = self.new_empty(shape)
        found[...] = 0
        return found

    def new_tensor(self, values: np.ndarray) -> CudaArray:
        """A copy of an array of the host."""
        found = CudaArray(self._cuda, values).new_empty(values.shape)
        self._cuda.upload(found._view.ctypes.data, np.ascontiguousarray(values))
        return found

    def numpy(self) -> np.ndarray:
        """A copy on the host."""
        dense = self
        if not self._view.flags.c_contiguous:
            dense = self.new_empty(self.shape)
            dense[...] = self
        return self._cuda.download(dense._view.ctypes.data, np.empty(self.shape, self.dtype))

    def max(self) -> Any:
        return self.numpy().max()
