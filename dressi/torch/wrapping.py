"""Functions of Variables as functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..ad.types import VType
from ..errors import InputError
from ..frameworks.operations.wrapped import wrapped
from .tensors import Tensor, apply


def wrap(
    function: Callable[..., Any],
    *,
    types: dict[str, VType] | None = None,
    batched: Sequence[str] | bool = (),
) -> Callable[..., Any]:
    """A function from Variables to Variables as a function of tensors, with its gradient.

    function: takes one Variable for each tensor, and gives a Variable or a tuple of them. It is called once for each signature
    of shapes and types; the program that it describes is kept. It may use arrays and leaves with data of its own, which are
    constants.  types: of the texels, by name of the argument, where the shape says something else than is meant (see
    ``Variable.of``).  batched: names of the arguments whose first axis is the batch, or True for all.

    Tensors are float32 or int32 on the CPU. Results have the shapes that ``evaluate`` gives. Differentiable where the function
    is. Raises InputError, GraphError.

    >>> import torch, dressi.torch as dr
    >>> energy = dr.wrap(lambda image: F.mean(F.square(image)))
    >>> image = torch.full((4, 6), 0.5, requires_grad=True)
    >>> energy(image).backward()
    >>> round(image.grad[0, 0].item(), 6)
    0.041667
    """
    operation = wrapped(function, types, batched)

    @wraps(function)
    def call(*tensors: Tensor) -> Any:
        if len(tensors) != len(operation.names):
            raise InputError(
                f"the wrapped function takes {', '.join(operation.names)}, not {len(tensors)} tensors"
            )
        found = apply(operation, *tensors)
        return found[0] if len(found) == 1 else found

    return call
