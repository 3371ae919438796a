"""From anything that holds numbers to arrays of float32 and int32, and operations with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..frameworks.engine import engine
from ..frameworks.layout import spec_of
from ..frameworks.operation import Operation

Pull = Callable[..., dict[str, np.ndarray]]
"""From the gradients by the outputs, in their order and None where they are zero, to those by the inputs, by name."""


def array_of(name: str, value: Any) -> np.ndarray:
    """An array of float32, or of int32 where the value holds integers; without a copy where it is one. Raises InputError."""
    try:
        array = np.asarray(value) if hasattr(value, "__array__") or not hasattr(value, "__dlpack__") else None
        array = np.from_dlpack(value) if array is None else array
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InputError(f"{name} is no array that NumPy can read: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} holds {array.dtype}, not numbers")
    return array.astype(np.int32 if array.dtype.kind in "biu" else np.float32, copy=False)


def floats(name: str, value: Any) -> np.ndarray:
    """The same, with integers as floats."""
    return array_of(name, value).astype(np.float32, copy=False)


def apply(operation: Operation, *arrays: np.ndarray) -> tuple[list[np.ndarray], Pull]:
    """The outputs of an operation, and the function that pulls gradients back. Raises InputError."""
    specs = [spec_of(array) for array in arrays]
    shapes = operation.outputs(*specs)
    values, ticket = engine().forward(operation, arrays)
    smooth = [spec.dtype == "float32" for spec in specs]

    def pull(*gradients: Any) -> dict[str, np.ndarray]:
        if not 1 <= len(gradients) <= len(shapes):
            raise InputError(
                f"there are {len(shapes)} outputs, not {len(gradients)}; give None for a zero gradient"
            )
        seeds = [None if g is None else floats("a gradient", g) for g in gradients]
        for k, (seed, shape) in enumerate(zip(seeds, shapes)):
            if seed is not None and seed.shape != shape:
                raise InputError(f"the gradient by output {k} has the shape {shape}, not {seed.shape}")
        seeds += [None] * (len(shapes) - len(seeds))
        names = [name for name, is_smooth in zip(operation.names, smooth) if is_smooth]
        if all(seed is None for seed in seeds):
            return {name: np.zeros_like(a) for name, a in zip(operation.names, arrays) if name in names}
        found = engine().backward(operation, arrays, seeds, smooth, ticket)
        return dict(zip(names, found, strict=True))

    return values, pull
