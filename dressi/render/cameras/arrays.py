"""Functions with one definition for arrays and Variables.

Functions of this package are written once, on Variables. Called with arrays, lists or numbers alone, they compute the
same graph in NumPy (float64) and give arrays; with a Variable among the arguments they give Variables.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.evaluate import Evaluator
from ...ad.graph import Variable
from ...ad.types import VType
from ...errors import GraphError, InputError


def arrays_too(**types: VType) -> Callable[[Callable], Callable]:
    """Lets a function of Variables take arrays.

    types: the type of each argument that may be an array or a Variable; other arguments pass as they are.

    With arrays alone, leading axes broadcast: an argument of type VEC3 is (..., 3), one of type MAT4 (..., 4, 4). The
    results are float64 arrays (or a tuple of them) with those leading axes. Beside a Variable, an array without leading
    axes is a constant and one of (N, ...) is a leaf of N tiles. The function then raises GraphError for a Variable of
    another type, InputError for an array of another shape or with NaN.
    """

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*values: Any, **options: Any) -> Any:
            bound = signature.bind(*values, **options)
            bound.apply_defaults()
            given = bound.arguments
            if any(isinstance(given[name], Variable) for name in types):
                for name, vtype in types.items():
                    given[name] = _variable(function.__name__, name, given[name], vtype)
                return function(*bound.args, **bound.kwargs)
            arrays = {n: _array(function.__name__, n, given[n], t) for n, t in types.items()}
            try:
                leading = np.broadcast_shapes(
                    *(a.shape[: a.ndim - len(types[n].shape)] for n, a in arrays.items())
                )
            except ValueError:
                shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
                raise InputError(
                    f"{function.__name__}: leading axes must broadcast, not those of {shapes}"
                ) from None
            tiles = int(np.prod(leading))
            rest = tuple(
                (n, tuple(v) if isinstance(v, list) else v) for n, v in given.items() if n not in types
            )
            leaves, single, run = graph(tiles, rest)
            found = run(
                {
                    leaves[n]: np.broadcast_to(a, leading + types[n].shape).reshape(
                        tiles, 1, 1, *types[n].shape
                    )
                    for n, a in arrays.items()
                }
            )
            shaped = [
                np.broadcast_to(a[:, 0, 0], (tiles, *v.vtype.shape)).reshape(leading + v.vtype.shape)
                for v, a in zip(run.outputs, found, strict=True)
            ]
            clean = tuple(a + 0.0 for a in shaped)  # no -0.0
            return clean[0] if single else clean

        @functools.lru_cache(maxsize=64)
        def graph(tiles: int, rest: tuple) -> tuple[dict[str, Variable], bool, Evaluator]:
            """The function of ``tiles`` tiles: its leaves, whether it gives one Variable, and what computes it."""
            leaves = {name: Variable(vtype, (1, 1), tiles, name=name) for name, vtype in types.items()}
            result = function(**leaves, **dict(rest))
            single = isinstance(result, Variable)
            return leaves, single, Evaluator([result] if single else result)

        return call

    return decorate


def _array(function: str, name: str, value: Any, vtype: VType) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise not_numbers(f"{function}: {name}", value) from None
    if array.ndim < len(vtype.shape) or array.shape[array.ndim - len(vtype.shape) :] != vtype.shape:
        shape = ", ".join(["...", *map(str, vtype.shape)])
        raise InputError(f"{function}: {name} has shape ({shape}), not {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{function}: {name} has values that are NaN or infinite")
    return array


def not_numbers(name: str, value: Any) -> InputError:
    """The error for an argument that NumPy takes for no array."""
    if getattr(value, "requires_grad", False):
        return InputError(
            f"{name} is a tensor that requires a gradient, which NumPy cannot carry: make a function of tensors with"
            " dressi.torch.wrap, or give tensor.detach()"
        )
    return InputError(f"{name} must be numbers or a Variable, not {type(value).__name__}")


def _variable(function: str, name: str, value: Any, vtype: VType) -> Variable:
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise GraphError(f"{function}: {name} is a {vtype}, not {value} (at {value.where})")
        return value
    array = _array(function, name, value, vtype)
    return F.constant(array, vtype) if array.shape == vtype.shape else _leaf(name, vtype, array)


def _leaf(name: str, vtype: VType, array: np.ndarray) -> Variable:
    tiles = array.reshape(-1, 1, 1, *vtype.shape)
    return Variable(vtype, (1, 1), len(tiles), name=name, data=tiles)
