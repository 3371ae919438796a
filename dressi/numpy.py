"""Differentiable rendering of NumPy arrays: each function returns its value, and a function that pulls gradients back.

    import dressi.numpy as dn

    (rast, rast_db), pull_rast = dn.rasterize(positions, triangles, (256, 256))
    colour, pull_colour = dn.interpolate(colours, rast, triangles)
    gradients = pull_colour(2 * (colour - target))  # by name: gradients["attr"], gradients["rast"]
    by_position = pull_rast(gradients["rast"])["pos"]

operations: shapes and conventions of nvdiffrast
    rasterize, interpolate, texture, texture_mips, antialias

graphs: a function of Variables as a function of arrays
    wrap

Arrays are anything that NumPy reads, or that has DLPack; floats become float32 and integers int32. The device is that of
DRESSI_DEVICE, or the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ad.types import VType
from .errors import InputError
from .frameworks.engine import engine
from .frameworks.operation import Operation, resolution_of, spec_of, wrapped
from .frameworks.raster import Antialias, Interpolate, Rasterize, chosen_attributes
from .frameworks.texture import Mipmaps, level_limit, texture_operation

__all__ = ["antialias", "interpolate", "rasterize", "texture", "texture_mips", "wrap"]


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


def rasterize(
    pos: Any,
    tri: Any,
    resolution: Sequence[int],
    ranges: Any = None,
    *,
    before: Any = None,
    grad_db: bool = True,
) -> tuple[tuple[np.ndarray, np.ndarray], Pull]:
    """The nearest triangle at every pixel and the place in it, and how u and v change by pixels.

    pos: (N, V, 4), or (V, 4) with ``ranges``, in the clip space of OpenGL.  tri: (T, 3).  resolution: (height, width).
    ranges: (N, 2), the first triangle of each image and how many it draws.  before: the first output for the layer before:
    the next layer behind it is drawn.  grad_db: whether the second output passes gradients.

    Returns (u, v, z/w, triangle + 1) and (du/dX, du/dY, dv/dX, dv/dY), (N, height, width, 4) each, bottom row first, and the
    function that pulls gradients back to "pos". Raises InputError.

    >>> import dressi.numpy as dn
    >>> pos = [[[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]]
    >>> (rast, rast_db), pull = dn.rasterize(pos, [[0, 1, 2]], (2, 4))
    >>> rast[0, 0, :, 3].tolist(), pull(np.ones_like(rast))["pos"].shape
    ([1.0, 1.0, 1.0, 0.0], (1, 3, 4))
    """
    operation = Rasterize(
        resolution_of(resolution), ranges is not None, before is not None, True, bool(grad_db)
    )
    rest = [] if ranges is None else [array_of("ranges", ranges)]
    rest += [] if before is None else [floats("before", before)]
    (rast, rast_db), pull = apply(operation, floats("pos", pos), array_of("tri", tri), *rest)
    return (rast, rast_db), pull


def interpolate(
    attr: Any, rast: Any, tri: Any, rast_db: Any = None, diff_attrs: str | Sequence[int] | None = None
) -> tuple[Any, Pull]:
    """Attributes of vertices at every pixel.

    attr: (V, A), or (N or 1, V, A).  rast, rast_db: from ``rasterize``.  tri: (T, 3).  diff_attrs: "all", or numbers of the
    attributes whose derivatives by pixels are wanted.

    Returns (N, height, width, A), or with diff_attrs that and (N, height, width, 2 x chosen), and the function that pulls
    gradients back to "attr", "rast" and "rast_db". Raises InputError.

    >>> import dressi.numpy as dn
    >>> value, pull = dn.interpolate([[1.0], [2.0], [4.0]], [[[[0.25, 0.5, 0.0, 1.0]]]], [[0, 1, 2]])
    >>> value.item(), pull(value)["attr"].ravel().tolist()
    (2.25, [0.5625, 1.125, 0.5625])
    """
    attr = floats("attr", attr)
    chosen = chosen_attributes(diff_attrs, attr.shape[-1] if attr.ndim else 0, rast_db is not None)
    rest = [floats("rast_db", rast_db)] if chosen else []
    found, pull = apply(Interpolate(chosen), attr, floats("rast", rast), array_of("tri", tri), *rest)
    return (tuple(found) if chosen else found[0]), pull


def texture(
    tex: Any,
    uv: Any,
    uv_da: Any = None,
    mip_level_bias: Any = None,
    mip: Sequence[Any] | None = None,
    filter_mode: str = "auto",
    boundary_mode: str = "wrap",
    max_mip_level: int | None = None,
) -> tuple[np.ndarray, Pull]:
    """A filtered texture at every pixel.

    tex: (N or 1, H, W, C), or a cube map (N or 1, 6, W, W, C).  uv: (N, height, width, 2), or directions (.., 3).  uv_da: its
    derivatives by pixels.  mip_level_bias: (N, height, width).  mip: the levels above the texture, by default made.
    filter_mode, boundary_mode, max_mip_level: as for ``dressi.torch.texture``.

    Returns (N, height, width, C) and the function that pulls gradients back to "tex", "uv", "uv_da", "mip_level_bias",
    "mip[0]" and so on, as far as they are used. Raises InputError.

    >>> import dressi.numpy as dn
    >>> value, pull = dn.texture(np.arange(4.0).reshape(1, 1, 4, 1), [[[[0.25, 0.5]]]])
    >>> value.item(), pull(value)["tex"].ravel().tolist()
    (0.5, [0.25, 0.25, 0.0, 0.0])
    """
    operation = texture_operation(
        has_da=uv_da is not None,
        has_bias=mip_level_bias is not None,
        mips=None if mip is None else len(mip),
        filter_mode=filter_mode,
        boundary_mode=boundary_mode,
        max_mip_level=max_mip_level,
    )
    given = [("uv_da", uv_da)] * operation.with_da + [
        ("mip_level_bias", mip_level_bias)
    ] * operation.with_bias
    given += [("mip", level) for level in mip or ()] if operation.mips is not None else []
    rest = [floats(name, value) for name, value in given]
    (found,), pull = apply(operation, floats("tex", tex), floats("uv", uv), *rest)
    return found, pull


def texture_mips(tex: Any, max_mip_level: int | None = None, cube_mode: bool = False) -> tuple[Any, Pull]:
    """The mip levels above a texture, for ``texture(mip=...)``.

    tex, max_mip_level: as for ``texture``.  cube_mode: whether it is a cube map. Returns a tuple of arrays, the largest
    first, and the function that pulls gradients back to "tex". Raises InputError.

    >>> import dressi.numpy as dn
    >>> [level.shape for level in dn.texture_mips(np.zeros((1, 4, 8, 3)))[0]]
    [(1, 2, 4, 3), (1, 1, 2, 3), (1, 1, 1, 3)]
    """
    found, pull = apply(Mipmaps(bool(cube_mode), level_limit(max_mip_level)), floats("tex", tex))
    return tuple(found), pull


def antialias(color: Any, rast: Any, pos: Any, tri: Any) -> tuple[np.ndarray, Pull]:
    """A picture with its silhouettes blended between neighbouring pixels, which gives visibility a gradient.

    color: (N, height, width, C).  rast: from ``rasterize``, with the same pos and tri. Returns an array like color, and the
    function that pulls gradients back to "color" and "pos" ("rast" gets none). Raises InputError.

    >>> import dressi.numpy as dn
    >>> pos = [[[-1.0, -1, 0, 1], [0.1, -1, 0, 1], [0.1, 9, 0, 1]]]  # ends just right of the second centre
    >>> (rast, _), _ = dn.rasterize(pos, [[0, 1, 2]], (4, 4))
    >>> [round(v, 4) for v in dn.antialias(rast[..., 3:], rast, pos, [[0, 1, 2]])[0][0, 0, :, 0].tolist()]
    [1.0, 1.0, 0.2, 0.0]
    """
    arrays = floats("color", color), floats("rast", rast), floats("pos", pos), array_of("tri", tri)
    (found,), pull = apply(Antialias(arrays[2].ndim == 2), *arrays)
    return found, pull


def wrap(
    function: Callable[..., Any], *, types: dict[str, VType] | None = None, batched: Sequence[str] | bool = ()
) -> Callable[..., tuple[Any, Pull]]:
    """A function from Variables to Variables as a function of arrays that returns its value and a pull of gradients.

    function, types, batched: as for ``dressi.torch.wrap``. The gradients are by name of the argument. Raises InputError.

    >>> import dressi.numpy as dn
    >>> value, pull = dn.wrap(lambda image: F.mean(F.square(image)))(np.full((4, 6), 0.5))
    >>> value.item(), pull(1.0 * np.ones_like(value))["image"].shape
    (0.25, (4, 6))
    """
    operation = wrapped(function, types, batched)

    def call(*arrays: Any) -> tuple[Any, Pull]:
        if len(arrays) != len(operation.names):
            raise InputError(
                f"the wrapped function takes {', '.join(operation.names)}, not {len(arrays)} arrays"
            )
        found, pull = apply(operation, *(array_of(n, a) for n, a in zip(operation.names, arrays)))
        return (found[0] if len(found) == 1 else tuple(found)), pull

    return call
