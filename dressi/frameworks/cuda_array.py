"""Arrays in memory of CUDA, indexed and written as NumPy's, for frameworks that do not write into theirs.

XLA gives the addresses of its arrays and nothing that copies between them, so the driver copies: contiguous
texels (1, 2 or 4 channels) in one piece, others row by row of their channels in one call.
"""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import DeviceError
from .cuda import Cuda


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
