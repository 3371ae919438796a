"""The operations on JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..ad.types import VType
from ..errors import InputError
from ..frameworks.checks import resolution_of
from ..frameworks.operations.antialias import Antialias
from ..frameworks.operations.interpolate import Interpolate, chosen_attributes
from ..frameworks.operations.rasterize import Rasterize
from ..frameworks.operations.texture import Mipmaps, level_limit, texture_operation
from ..frameworks.operations.wrapped import wrapped
from .arrays import Array, apply, array_of, floats


def rasterize(
    pos: Array,
    tri: Array,
    resolution: Sequence[int],
    ranges: Array | None = None,
    *,
    before: Array | None = None,
    grad_db: bool = True,
) -> tuple[Array, Array]:
    """The nearest triangle at every pixel and the place in it, and how u and v change by pixels.

    pos: (N, V, 4), or (V, 4) with ``ranges``, in the clip space of OpenGL.  tri: (T, 3).  resolution: (height, width).
    ranges: (N, 2), the first triangle of each image and how many it draws.  before: the first output for the layer before:
    the next layer behind it is drawn.  grad_db: whether the second output passes gradients.

    Returns (u, v, z/w, triangle + 1) and (du/dX, du/dY, dv/dX, dv/dY), float32 (N, height, width, 4) each, bottom row first.
    Differentiable in pos. Raises InputError.

    >>> import jax, dressi.jax as dj
    >>> pos = jax.numpy.array([[[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]])
    >>> dj.rasterize(pos, [[0, 1, 2]], (2, 4))[0][0, 0, :, 3].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    operation = Rasterize(
        resolution_of(resolution), ranges is not None, before is not None, True, bool(grad_db)
    )
    rest = [] if ranges is None else [array_of("ranges", ranges)]
    rest += [] if before is None else [floats("before", before)]
    rast, rast_db = apply(operation, floats("pos", pos), array_of("tri", tri), *rest)
    return rast, rast_db


def interpolate(
    attr: Array,
    rast: Array,
    tri: Array,
    rast_db: Array | None = None,
    diff_attrs: str | Sequence[int] | None = None,
) -> tuple[Array, Array | None]:
    """Attributes of vertices at every pixel.

    attr: (V, A), or (N or 1, V, A).  rast, rast_db: from ``rasterize``.  tri: (T, 3).  diff_attrs: "all", or numbers of the
    attributes whose derivatives by pixels are wanted. Returns float32 (N, height, width, A) and (N, height, width, 2 x
    chosen), or None. Differentiable in attr, rast and rast_db. Raises InputError.

    >>> import dressi.jax as dj
    >>> dj.interpolate([[1.0], [2.0], [4.0]], [[[[0.25, 0.5, 0.0, 1.0]]]], [[0, 1, 2]])[0].item()
    2.25
    """
    attr = floats("attr", attr)
    chosen = chosen_attributes(diff_attrs, attr.shape[-1] if attr.ndim else 0, rast_db is not None)
    rest = [floats("rast_db", rast_db)] if chosen else []
    main, *da = apply(Interpolate(chosen), attr, floats("rast", rast), array_of("tri", tri), *rest)
    return main, da[0] if da else None


def texture(
    tex: Array,
    uv: Array,
    uv_da: Array | None = None,
    mip_level_bias: Array | None = None,
    mip: Sequence[Array] | None = None,
    filter_mode: str = "auto",
    boundary_mode: str = "wrap",
    max_mip_level: int | None = None,
) -> Array:
    """A filtered texture at every pixel: float32 (N, height, width, C).

    tex: (N or 1, H, W, C), or a cube map (N or 1, 6, W, W, C).  uv: (N, height, width, 2), or directions (.., 3).  uv_da,
    mip_level_bias, mip (a list), filter_mode, boundary_mode, max_mip_level: as for ``dressi.torch.texture``. Differentiable
    in all arrays. Raises InputError.

    >>> import dressi.jax as dj
    >>> dj.texture([[[[0.0], [1.0], [2.0], [3.0]]]], [[[[0.25, 0.5]]]]).item()
    0.5
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
    return apply(operation, floats("tex", tex), floats("uv", uv), *rest)[0]


def texture_mips(tex: Array, max_mip_level: int | None = None, cube_mode: bool = False) -> tuple[Array, ...]:
    """The mip levels above a texture, the largest first, for ``texture(mip=...)``.

    tex, max_mip_level: as for ``texture``.  cube_mode: whether it is a cube map. Differentiable in tex. Raises InputError.

    >>> import jax, dressi.jax as dj
    >>> [level.shape for level in dj.texture_mips(jax.numpy.zeros((1, 2, 4, 3)))]
    [(1, 1, 2, 3), (1, 1, 1, 3)]
    """
    return apply(Mipmaps(bool(cube_mode), level_limit(max_mip_level)), floats("tex", tex))


def antialias(color: Array, rast: Array, pos: Array, tri: Array) -> Array:
    """A picture with its silhouettes blended between neighbouring pixels, which gives visibility a gradient.

    color: (N, height, width, C).  rast: from ``rasterize``, with the same pos and tri. Returns an array like color.
    Differentiable in color and pos. Raises InputError.

    >>> import jax, dressi.jax as dj
    >>> pos = jax.numpy.array([[[-1.0, -1, 0, 1], [0.1, -1, 0, 1], [0.1, 9, 0, 1]]])
    >>> rast, _ = dj.rasterize(pos, [[0, 1, 2]], (4, 4))
    >>> [round(v, 4) for v in dj.antialias(rast[..., 3:], rast, pos, [[0, 1, 2]])[0, 0, :, 0].tolist()]
    [1.0, 1.0, 0.2, 0.0]
    """
    arrays = floats("color", color), floats("rast", rast), floats("pos", pos), array_of("tri", tri)
    return apply(Antialias(arrays[2].ndim == 2), *arrays)[0]


def wrap(
    function: Callable[..., Any], *, types: dict[str, VType] | None = None, batched: Sequence[str] | bool = ()
) -> Callable[..., Any]:
    """A function from Variables to Variables as a function of JAX arrays, with its gradient.

    function, types, batched: as for ``dressi.torch.wrap``. Differentiable where the function is. Raises InputError.

    >>> import jax, dressi.jax as dj
    >>> energy = dj.wrap(lambda image: F.mean(F.square(image)))
    >>> round(jax.grad(lambda x: energy(x).sum())(jax.numpy.full((4, 6), 0.5))[0, 0].item(), 6)
    0.041667
    """
    operation = wrapped(function, types, batched)

    @wraps(function)
    def call(*arrays: Array) -> Any:
        if len(arrays) != len(operation.names):
            raise InputError(
                f"the wrapped function takes {', '.join(operation.names)}, not {len(arrays)} arrays"
            )
        found = apply(operation, *(array_of(n, a) for n, a in zip(operation.names, arrays)))
        return found[0] if len(found) == 1 else found

    return call
