"""How arrays get to the images of a device and back: through memory of the host, or from CUDA on the GPU.

Tensors of CUDA are copied by their framework, on their stream, into a buffer that the Vulkan device shares,
and the device copies from there into its images; what it computes goes the other way. Nobody waits on the
host where semaphores can be shared: the stream signals the queue, and the queue the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ..errors import DeviceError
from ..vk.run.device.commands import Commands
from ..vk.run.device.device import Device
from ..vk.run.device.external import (
    SharedBuffer,
    SharedSemaphore,
    device_uuid,
    shares_semaphores,
    why_not,
)
from ..vk.run.device.memory import DeviceImage
from ..vk.run.device.transfer import Block, Exchange, blocks_in, room
from .cuda import Cuda, CudaSemaphore


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
