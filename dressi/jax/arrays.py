"""Operations as functions of JAX arrays, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import InputError
from ..frameworks.engine import engine
from ..frameworks.layout import Spec
from ..frameworks.operation import Operation
from ..frameworks.optional import library
from ..frameworks.worker import on_worker

jax = library("jax", "jax")
jnp = library("jax.numpy", "jax")

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
            lambda *values: tuple(engine().forward(operation, values)[0]),
            tuple(jax.ShapeDtypeStruct(s, t) for s, t in zip(shapes, types)),
            arrays,
        )

    def forward(*arrays: Array) -> tuple[Any, Any]:
        return function(*arrays), arrays

    def backward(arrays: Sequence[Array], gradients: Sequence[Array]) -> tuple[Any, ...]:
        smooth = [spec(array).dtype == "float32" for array in arrays]
        seeded = [g for g in gradients if g.dtype == jnp.float32]
        kinds = [g.dtype == jnp.float32 for g in gradients]

        def pull(*values: np.ndarray) -> tuple[np.ndarray, ...]:
            given, seeds = values[: len(arrays)], iter(values[len(arrays) :])
            chosen = [next(seeds) if kind else None for kind in kinds]
            return tuple(engine().backward(operation, given, chosen, smooth))

        wanted = tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a, s in zip(arrays, smooth) if s)
        found = iter(_call(pull, wanted, (*arrays, *seeded)))
        none = jax.dtypes.float0
        return tuple(next(found) if s else np.zeros(a.shape, none) for a, s in zip(arrays, smooth))

    function.defvjp(forward, backward)
    return function


def _call(task: Any, results: tuple[Any, ...], arrays: Sequence[Array]) -> tuple[Array, ...]:
    def called(*values: Any) -> tuple[np.ndarray, ...]:
        return on_worker(lambda: task(*(np.asarray(value) for value in values)))

    return jax.pure_callback(called, results, *arrays, vmap_method="sequential")
