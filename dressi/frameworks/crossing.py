"""How arrays get to the images of a device and back: through memory of the host, or from CUDA on the GPU.

Tensors of CUDA are copied by their framework, on their stream, into a buffer that the Vulkan device shares,
and the device copies from there into its images; what it computes goes the other way. Nobody waits on the
host where semaphores can be shared: the stream signals the queue, and the queue the stream.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import DeviceError
from ..vk.run.device.commands import Commands
from ..vk.run.device.device import Device
from ..vk.run.device.external import (
    SharedBuffer,
    SharedSemaphore,
    device_uuid,
    handles,
    shares_semaphores,
    why_not,
)
from ..vk.run.device.memory import DeviceImage
from ..vk.run.device.transfer import Block, Exchange, blocks_in, room

# Memory, semaphores and arrays of a Vulkan device in CUDA, by the library of NVIDIA's driver alone.

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


class Crossing:
    """Through the host, by arrays of NumPy."""

    def exchange(self, commands: Commands, images: Sequence[DeviceImage], *, upload: bool) -> Exchange:
        """What copies the texels of these images, see ``Exchange``."""
        return Exchange(commands, images, upload=upload)

    @contextmanager
    def over(self, out: Exchange) -> Iterator[None]:
        """Around all submissions between what is written to texels and what is read from those of ``out``."""
        yield
        out.wait()

    def settle(self) -> None:
        """Wait until nothing reads or writes texels any more."""

    def close(self) -> None:
        """Release everything; after ``settle``."""


HOST = Crossing()


class CudaView:
    """The texels of an image at an address of CUDA, as other libraries read such memory."""

    def __init__(self, address: int, block: Block):
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": block.shape, "typestr": block.dtype.str, "version": 3,
        }  # fmt: skip


TensorOf = Callable[[Cuda, CudaView], Any]


class CudaExchange(Exchange):
    """Copies through a shared buffer. ``texels`` are tensors of a framework that lie in it."""

    def __init__(
        self,
        commands: Commands,
        images: Sequence[DeviceImage],
        cuda: Cuda,
        tensor_of: Callable[[CudaView], Any],
        *,
        upload: bool,
    ):
        size = room(images)
        with commands.device.undo_on_error():
            staging = SharedBuffer(commands.device, size, "tensors")
            self._memory = cuda.memory(staging.export(), staging.allocated, size)
            super().__init__(commands, images, upload=upload, staging=staging)
        self.texels = [tensor_of(CudaView(self._memory.pointer + b.offset, b)) for b in blocks_in(images)]
        self._upload = upload

    def wait(self) -> None:
        """Texels of uploads are free at once: the stream that writes them has awaited the results of the call
        before, which follow its copies."""
        if not self._upload:
            super().wait()

    def destroy(self) -> None:
        self.texels = []
        self._memory.destroy()
        super().destroy()


class CudaCrossing(Crossing):
    """From and to tensors of a framework in CUDA.

    tensor_of: the tensor that lies at a view, on a device. Raises DeviceError where the two do not reach each
    other.
    """

    def __init__(self, device: Device, cuda: Cuda, tensor_of: TensorOf):
        if device_uuid(device.vk, device.physical.handle) != cuda.uuid:
            raise DeviceError(f"they lie on another GPU than {device.name}, on which dressi runs")
        if (why := why_not(device)) is not None:
            raise DeviceError(why)
        self.cuda, self._tensor_of = cuda, partial(tensor_of, cuda)
        self._semaphores: list[tuple[SharedSemaphore, CudaSemaphore]] = []
        cuda.enter()
        self._probe(device)
        if shares_semaphores(device):
            with device.undo_on_error():
                for name in ("tensors are there", "results are there"):
                    own = SharedSemaphore(device, name)
                    self._semaphores.append((own, cuda.semaphore(own.export())))

    def _probe(self, device: Device) -> None:
        """Raises DeviceError where CUDA or the framework does not take the device's memory."""
        block = Block(0, (1, 1, 4), np.dtype(np.float32))
        with device.undo_on_error():
            buffer = SharedBuffer(device, 16, "probe")
            memory = self.cuda.memory(buffer.export(), buffer.allocated, buffer.size)
            try:
                self._tensor_of(CudaView(memory.pointer, block))
            except Exception as error:  # any of the framework's own
                raise DeviceError(f"the tensors' library does not take memory of Vulkan: {error}") from None
            finally:
                memory.destroy()
            buffer.destroy()

    def use(self, stream: int) -> None:
        """The stream on which tensors are ready and results are wanted from now on."""
        self.cuda.enter()
        if self.cuda.stream not in (None, stream):
            self.settle()  # the one before may still read or write texels
        self.cuda.stream = stream

    def exchange(self, commands: Commands, images: Sequence[DeviceImage], *, upload: bool) -> Exchange:
        return CudaExchange(commands, images, self.cuda, self._tensor_of, upload=upload)

    @contextmanager
    def over(self, out: Exchange) -> Iterator[None]:
        if not self._semaphores:
            self.cuda.wait()
            yield
            out.wait()
            return
        (there, told), (done, awaited) = self._semaphores
        told.signal()
        there.wait()
        try:
            yield
        finally:  # each is signalled again only behind the wait for the other
            done.signal()
            awaited.wait()

    def settle(self) -> None:
        self.cuda.wait()

    def close(self) -> None:
        self.cuda.enter()
        for own, theirs in self._semaphores:
            theirs.destroy()
            own.destroy()
        self._semaphores.clear()
