"""Differentiable rendering of NumPy arrays: each function returns its value and its pullback.

    import dressi.numpy as dn

    (rast, rast_db), pull_rast = dn.rasterize(positions, triangles, (256, 256))
    colour, pull_colour = dn.interpolate(colours, rast, triangles)
    gradients = pull_colour(2 * (colour - target))  # by name: gradients["attr"], gradients["rast"]
    by_position = pull_rast(gradients["rast"])["pos"]

operations: shapes and conventions of nvdiffrast
    rasterize, interpolate, texture, texture_mips, antialias

graphs: a function of Variables as a function of arrays
    wrap

Arrays are anything that NumPy reads, or that has DLPack; floats become float32 and integers int32. The device
is that of DRESSI_DEVICE, or the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ad.graph.types import VType
from .errors import InputError
from .frameworks.engine import engine
from .frameworks.operation import WRAP, Operation, spec_of, wrapped
from .frameworks.raster import (
    ANTIALIAS,
    INTERPOLATE,
    RASTERIZE,
    antialias_call,
    interpolate_call,
    rasterize_call,
)
from .frameworks.texture import MIPS, TEXTURE, mips_call, texture_call

__all__ = ["antialias", "interpolate", "rasterize", "texture", "texture_mips", "wrap"]


Pull = Callable[..., dict[str, np.ndarray]]
"""From the gradients by the outputs (None for zero) to those by the inputs, by name."""


def array_of(name: str, value: Any) -> np.ndarray:
    """An array of float32, or int32 of integers, without a copy if possible. Raises InputError."""
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


def run(operation: Operation, values: Sequence[Any]) -> tuple[list[np.ndarray], Pull]:
    """The same of values of any kind."""
    return apply(operation, *operation.converted(values, array_of, floats))


PULLED = "Then the function that pulls gradients back, by name: to {}."


@RASTERIZE.of(rasterize_call, PULLED)
def rasterize(operation: Operation, values: list[Any]) -> tuple[tuple[np.ndarray, np.ndarray], Pull]:
    """The nearest triangle at every pixel and the place in it, and how u and v change by pixels.

    >>> import dressi.numpy as dn
    >>> pos = [[[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]]
    >>> (rast, rast_db), pull = dn.rasterize(pos, [[0, 1, 2]], (2, 4))
    >>> rast[0, 0, :, 3].tolist(), pull(np.ones_like(rast))["pos"].shape
    ([1.0, 1.0, 1.0, 0.0], (1, 3, 4))
    """
    (rast, rast_db), pull = run(operation, values)
    return (rast, rast_db), pull


@INTERPOLATE.of(interpolate_call, PULLED)
def interpolate(operation: Operation, values: list[Any]) -> tuple[Any, Pull]:
    """Attributes of vertices at every pixel.

    >>> import dressi.numpy as dn
    >>> value, pull = dn.interpolate([[1.0], [2.0], [4.0]], [[[[0.25, 0.5, 0.0, 1.0]]]], [[0, 1, 2]])
    >>> value.item(), pull(value)["attr"].ravel().tolist()
    (2.25, [0.5625, 1.125, 0.5625])
    """
    found, pull = run(operation, values)
    return (found[0] if len(found) == 1 else tuple(found)), pull


@TEXTURE.of(texture_call, PULLED)
def texture(operation: Operation, values: list[Any]) -> tuple[np.ndarray, Pull]:
    """A filtered texture at every pixel.

    >>> import dressi.numpy as dn
    >>> value, pull = dn.texture(np.arange(4.0).reshape(1, 1, 4, 1), [[[[0.25, 0.5]]]])
    >>> value.item(), pull(value)["tex"].ravel().tolist()
    (0.5, [0.25, 0.25, 0.0, 0.0])
    """
    (found,), pull = run(operation, values)
    return found, pull


@MIPS.of(mips_call, PULLED)
def texture_mips(operation: Operation, values: list[Any]) -> tuple[Any, Pull]:
    """The mip levels above a texture, for ``texture(mip=...)``.

    >>> import dressi.numpy as dn
    >>> [level.shape for level in dn.texture_mips(np.zeros((1, 4, 8, 3)))[0]]
    [(1, 2, 4, 3), (1, 1, 2, 3), (1, 1, 1, 3)]
    """
    found, pull = run(operation, values)
    return tuple(found), pull


@ANTIALIAS.of(antialias_call, PULLED)
def antialias(operation: Operation, values: list[Any]) -> tuple[np.ndarray, Pull]:
    """A picture with its silhouettes blended between neighbouring pixels, which gives visibility a gradient.

    >>> import dressi.numpy as dn
    >>> pos = [[[-1.0, -1, 0, 1], [0.1, -1, 0, 1], [0.1, 9, 0, 1]]]  # ends just right of the second centre
    >>> (rast, _), _ = dn.rasterize(pos, [[0, 1, 2]], (4, 4))
    >>> [round(v, 4) for v in dn.antialias(rast[..., 3:], rast, pos, [[0, 1, 2]])[0][0, 0, :, 0].tolist()]
    [1.0, 1.0, 0.2, 0.0]
    """
    (found,), pull = run(operation, values)
    return found, pull


@WRAP.describe(PULLED)
def wrap(
    function: Callable[..., Any], *, types: dict[str, VType] | None = None, batched: Sequence[str] | bool = ()
) -> Callable[..., tuple[Any, Pull]]:
    """A function of Variables as a function of arrays that returns its value and its pullback.

    >>> import dressi.numpy as dn
    >>> value, pull = dn.wrap(lambda image: F.mean(F.square(image)))(np.full((4, 6), 0.5))
    >>> value.item(), pull(1.0 * np.ones_like(value))["image"].shape
    (0.25, (4, 6))
    """
    operation = wrapped(function, types, batched)

    def call(*arrays: Any) -> tuple[Any, Pull]:
        operation.check_count(len(arrays), "arrays")
        found, pull = apply(operation, *(array_of(n, a) for n, a in zip(operation.names, arrays)))
        return (found[0] if len(found) == 1 else tuple(found)), pull

    return call
