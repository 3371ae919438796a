"""Differentiable rendering of JAX arrays: nvdiffrast's operations and graphs, under ``grad`` and ``jit``.

    import dressi.jax as dj

    def loss(positions):
        rast, _ = dj.rasterize(positions, triangles, (256, 256))
        colour, _ = dj.interpolate(colours, rast, triangles)
        return ((dj.antialias(colour, rast, positions, triangles) - target) ** 2).mean()

    slope = jax.grad(loss)(positions)

operations: shapes and conventions of nvdiffrast
    rasterize, interpolate, texture, texture_mips, antialias

graphs: a function of Variables as a function of arrays
    wrap

Each call leaves XLA for the device of DRESSI_DEVICE, or the best one: on the same GPU from memory to memory
(``buffer_callback`` of JAX 0.6), elsewhere through the host (``jax.pure_callback``). Gradients are in reverse
mode (``jax.custom_vjp``). Under ``vmap`` calls run in turn; use the batch axis instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, wraps
from typing import Any

import numpy as np

from .ad.graph.types import VType
from .errors import InputError
from .frameworks.crossing import HOST, Cuda, CudaArray, CudaCrossing
from .frameworks.engine import Engine, engine, on_worker
from .frameworks.operation import WRAP, Operation, Spec, library, wrapped
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

jax = library("jax", "jax")
jnp = library("jax.numpy", "jax")

try:
    from jax.experimental.buffer_callback import buffer_callback  # type: ignore[import-not-found]
except ImportError:  # JAX before 0.6
    buffer_callback: Any = None

Array = Any
"""jax.Array, which is not known where JAX is not installed."""


def array_of(name: str, value: Any) -> Array:
    """An array of float32, or of int32 where the value holds integers. Raises InputError."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array that JAX can read: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} holds {array.dtype}, not numbers")
    return array.astype(jnp.int32 if array.dtype.kind in "biu" else jnp.float32)


def floats(name: str, value: Any) -> Array:
    """The same, with integers as floats."""
    return array_of(name, value).astype(jnp.float32)


def spec(array: Array) -> Spec:
    """The spec of an array, or of what stands for one while JAX traces a function."""
    return Spec(tuple(array.shape), np.dtype(array.dtype).name)


def apply(operation: Operation, *arrays: Array) -> tuple[Array, ...]:
    """The outputs of an operation, with its gradient. Raises InputError while it is traced."""
    operation.outputs(*(spec(array) for array in arrays))
    return _function(operation)(*arrays)


@lru_cache(maxsize=256)
def _function(operation: Operation) -> Any:
    @jax.custom_vjp
    def function(*arrays: Array) -> tuple[Array, ...]:
        given = [spec(array) for array in arrays]
        shapes, types = operation.outputs(*given), operation.output_types(*given)
        return _call(
            lambda own, values: own.forward(operation, values)[0],
            tuple(jax.ShapeDtypeStruct(s, t) for s, t in zip(shapes, types)),
            arrays,
        )

    def forward(*arrays: Array) -> tuple[Any, Any]:
        return function(*arrays), arrays

    def backward(arrays: Sequence[Array], gradients: Sequence[Array]) -> tuple[Any, ...]:
        smooth = [spec(array).dtype == "float32" for array in arrays]
        seeded = [g for g in gradients if g.dtype == jnp.float32]
        kinds = [g.dtype == jnp.float32 for g in gradients]

        def pull(own: Engine, values: Sequence[Any]) -> Sequence[Any]:
            given, seeds = values[: len(arrays)], iter(values[len(arrays) :])
            chosen = [next(seeds) if kind else None for kind in kinds]
            return own.backward(operation, given, chosen, smooth)

        wanted = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a, s in zip(arrays, smooth) if s)
        found = iter(_call(pull, wanted, (*arrays, *seeded)))
        none = jax.dtypes.float0
        return tuple(next(found) if s else np.zeros(a.shape, none) for a, s in zip(arrays, smooth))

    function.defvjp(forward, backward)
    return function


Task = Callable[[Engine, Sequence[Any]], Sequence[Any]]
"""Gives arrays by an engine, of others for it."""


def _call(task: Task, results: tuple[Any, ...], arrays: Sequence[Array]) -> tuple[Array, ...]:
    """What a task gives, outside of XLA: on a device of CUDA from memory to memory, else by the host."""

    def by_host(*given: Array) -> tuple[Array, ...]:
        def called(*values: Any) -> tuple[np.ndarray, ...]:
            return on_worker(lambda: tuple(task(engine(), [np.asarray(value) for value in values])))

        return jax.pure_callback(called, results, *given, vmap_method="sequential")

    def by_cuda(*given: Array) -> tuple[Array, ...]:
        def called(context: Any, out: Sequence[Any], *values: Any) -> None:
            on_worker(lambda: _on_stream(task, context.stream, out, values))

        return tuple(buffer_callback(called, results, vmap_method="sequential")(*given))

    if not _reaches_cuda():
        return by_host(*arrays)
    return jax.lax.platform_dependent(*arrays, cuda=by_cuda, default=by_host)


def _on_stream(task: Task, stream: int, out: Sequence[Any], values: Sequence[Any]) -> None:
    """Queue what a task does behind the work of a stream of CUDA. out: where its arrays go."""
    index = Cuda.index_of(values[0].__cuda_array_interface__["data"][0])
    own = engine(index, CudaArray.at)
    crossing = own.crossing
    if isinstance(crossing, CudaCrossing):
        crossing.use(stream)
        cuda = crossing.cuda
    else:  # these arrays lie on another GPU than those that dressi reaches
        cuda = Cuda(index)
        cuda.enter()
        cuda.stream = stream
    arrays = [CudaArray.at(cuda, value) for value in values]
    if crossing is HOST:
        arrays = [array.numpy() for array in arrays]
    for place, found in zip(out, task(own, arrays), strict=True):
        target = CudaArray.at(cuda, place)
        target[...] = target.new_tensor(found) if crossing is HOST else found


@cache
def _reaches_cuda() -> bool:
    """Whether JAX has a GPU of CUDA whose memory dressi shares; with a warning where it has one, but not."""
    if buffer_callback is None or jax.default_backend() != "gpu":
        return False
    return on_worker(lambda: isinstance(engine(0, CudaArray.at).crossing, CudaCrossing))


def run(operation: Operation, values: Sequence[Any]) -> tuple[Array, ...]:
    """The same of values of any kind."""
    return apply(operation, *operation.converted(values, array_of, floats))


@RASTERIZE.of(rasterize_call)
def rasterize(operation: Operation, values: list[Any]) -> tuple[Array, Array]:
    """The nearest triangle at every pixel and the place in it, and how u and v change by pixels.

    >>> import jax, dressi.jax as dj
    >>> pos = jax.numpy.array([[[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]])
    >>> dj.rasterize(pos, [[0, 1, 2]], (2, 4))[0][0, 0, :, 3].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    rast, rast_db = run(operation, values)
    return rast, rast_db


@INTERPOLATE.of(interpolate_call)
def interpolate(operation: Operation, values: list[Any]) -> tuple[Array, Array | None]:
    """Attributes of vertices at every pixel.

    >>> import dressi.jax as dj
    >>> dj.interpolate([[1.0], [2.0], [4.0]], [[[[0.25, 0.5, 0.0, 1.0]]]], [[0, 1, 2]])[0].item()
    2.25
    """
    main, *da = run(operation, values)
    return main, da[0] if da else None


@TEXTURE.of(texture_call)
def texture(operation: Operation, values: list[Any]) -> Array:
    """A filtered texture at every pixel.

    >>> import dressi.jax as dj
    >>> dj.texture([[[[0.0], [1.0], [2.0], [3.0]]]], [[[[0.25, 0.5]]]]).item()
    0.5
    """
    return run(operation, values)[0]


@MIPS.of(mips_call)
def texture_mips(operation: Operation, values: list[Any]) -> tuple[Array, ...]:
    """The mip levels above a texture, the largest first, for ``texture(mip=...)``.

    >>> import jax, dressi.jax as dj
    >>> [level.shape for level in dj.texture_mips(jax.numpy.zeros((1, 2, 4, 3)))]
    [(1, 1, 2, 3), (1, 1, 1, 3)]
    """
    return run(operation, values)


@ANTIALIAS.of(antialias_call)
def antialias(operation: Operation, values: list[Any]) -> Array:
    """A picture with its silhouettes blended between neighbouring pixels, which gives visibility a gradient.

    >>> import jax, dressi.jax as dj
    >>> pos = jax.numpy.array([[[-1.0, -1, 0, 1], [0.1, -1, 0, 1], [0.1, 9, 0, 1]]])
    >>> rast, _ = dj.rasterize(pos, [[0, 1, 2]], (4, 4))
    >>> [round(v, 4) for v in dj.antialias(rast[..., 3:], rast, pos, [[0, 1, 2]])[0, 0, :, 0].tolist()]
    [1.0, 1.0, 0.2, 0.0]
    """
    return run(operation, values)[0]


@WRAP.describe()
def wrap(
    function: Callable[..., Any], *, types: dict[str, VType] | None = None, batched: Sequence[str] | bool = ()
) -> Callable[..., Any]:
    """A function from Variables to Variables as a function of JAX arrays, with its gradient.

    >>> import jax, dressi.jax as dj
    >>> energy = dj.wrap(lambda image: F.mean(F.square(image)))
    >>> round(jax.grad(lambda x: energy(x).sum())(jax.numpy.full((4, 6), 0.5))[0, 0].item(), 6)
    0.041667
    """
    operation = wrapped(function, types, batched)

    @wraps(function)
    def call(*arrays: Array) -> Any:
        operation.check_count(len(arrays), "arrays")
        found = apply(operation, *(array_of(n, a) for n, a in zip(operation.names, arrays)))
        return found[0] if len(found) == 1 else found

    return call
