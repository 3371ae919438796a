"""A function of Variables as an operation on arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.arrays import layout_of
from ...ad.types import VType
from ...errors import InputError
from ..layout import Layout, Parts, Spec, computed
from ..operation import Operation


@dataclass(frozen=True)
class Wrapped(Operation):
    """``function`` takes and gives Variables, one for each array. Arrays are read as ``Variable.of`` reads them."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    types: tuple[VType | None, ...]
    """Of the inputs; None: what ``Variable.of`` finds."""
    batched: tuple[bool, ...]
    """Whether the first axis of an input is the batch."""

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        return tuple(layout.shape for layout in _built(self, given)[1])

    def output_types(self, *given: Spec) -> tuple[str, ...]:
        return tuple(np.dtype(layout.vtypes[0].dtype).name for layout in _built(self, given)[1])

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        found = []
        for spec, vtype, batched in zip(given, self.types, self.batched, strict=True):
            blank = np.broadcast_to(np.zeros((), spec.dtype), spec.shape)
            if vtype is not None and blank.ndim - len(vtype.shape) > 3:
                raise InputError(
                    f"an array of shape {spec.shape} has channels, which functions of {vtype} do not take from other"
                    " libraries; give (batch, height, width)"
                )
            vtype, size, batch, count, _ = layout_of(blank, vtype, batched)
            found.append(Layout(spec.shape, (vtype,), size, batch, count))
        return tuple(found)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        made = self.function(*(leaf for (leaf,) in inputs))
        outputs = list(made) if isinstance(made, list | tuple) else [made]
        if not outputs or not all(isinstance(y, Variable) for y in outputs):
            raise InputError(f"a wrapped function returns a Variable, or several in a tuple, not {made!r}")
        return tuple((y,) for y in outputs)


@lru_cache(maxsize=64)
def _built(operation: Wrapped, given: tuple[Spec, ...]) -> tuple[tuple[Parts, ...], tuple[Layout, ...]]:
    """The graph for arrays of these specs, and the layouts of its outputs."""
    leaves = [
        layout.leaves(name) for layout, name in zip(operation.layouts(*given), operation.names, strict=True)
    ]
    outputs = operation.graph(*leaves)
    return outputs, tuple(computed(y, _shape(y[0])) for y in outputs)


def _shape(y: Variable) -> tuple[int, ...]:
    """The shape in which ``evaluate`` gives a Variable: lists without padding, and without a batch of 1."""
    if y.count is None:
        return y.shape
    return (*(() if y.batch == 1 else (y.batch,)), y.count, *y.vtype.shape)


def wrapped(
    function: Callable[..., Any], types: dict[str, VType] | None, batched: Sequence[str] | bool
) -> Wrapped:
    """The operation of a function. Raises InputError.

    types: by name of the argument, where ``Variable.of`` cannot know.  batched: names of the arguments whose first axis is the
    batch; True for all of them.
    """
    if not callable(function):
        raise InputError(f"wrap takes a function from Variables to Variables, not {function!r}")
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or any(p.kind not in kinds for p in parameters):
        raise InputError("a wrapped function has positional arguments alone: one for each array")
    names = tuple(p.name for p in parameters)
    chosen = names if batched is True else tuple(batched or ())
    unknown = [name for name in (*(types or {}), *chosen) if name not in names]
    if unknown:
        raise InputError(f"the wrapped function has no argument {unknown[0]!r}; it has {', '.join(names)}")
    found = tuple((types or {}).get(name) for name in names)
    return Wrapped(function, names, found, tuple(name in chosen for name in names))
