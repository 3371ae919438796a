"""From tensors to arrays and back, and operations as Functions of autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..frameworks.engine import engine
from ..frameworks.layout import spec_of
from ..frameworks.operation import Operation
from ..frameworks.optional import library

torch = library("torch", "torch")

Tensor = Any
"""torch.Tensor, which is not known where PyTorch is not installed."""
DTYPES = {torch.float32: np.float32, torch.int32: np.int32}


def array_of(name: str, tensor: Tensor) -> np.ndarray:
    """The values of a CPU tensor of float32 or int32, without a copy. Raises InputError for anything else."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name} is a torch.Tensor, not {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise InputError(f"{name} lies on {tensor.device}; dressi.torch takes CPU tensors: call {name}.cpu()")
    if tensor.layout != torch.strided:
        raise InputError(
            f"{name} is {tensor.layout}; dressi.torch takes dense tensors: call {name}.to_dense()"
        )
    if tensor.dtype not in DTYPES:
        raise InputError(
            f"{name} holds {tensor.dtype}; dressi.torch takes float32 and int32: call {name}.float() or .int()"
        )
    return tensor.detach().resolve_conj().resolve_neg().numpy()


class Applied(torch.autograd.Function):
    """An operation on tensors."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *tensors: Tensor) -> tuple[Tensor, ...]:
        arrays = [array_of(name, t) for name, t in zip(operation.names, tensors, strict=True)]
        ctx.operation = operation
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        values, ctx.ticket = engine().forward(operation, arrays)
        found = tuple(torch.from_numpy(array) for array in values)
        ctx.mark_non_differentiable(*(t for t in found if not t.is_floating_point()))
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        arrays = [t.detach().numpy() for t in ctx.saved_tensors]
        wanted = ctx.needs_input_grad[1:]
        seeds = [None if g is None else g.numpy() for g in gradients]
        if not any(wanted) or all(seed is None for seed in seeds):
            return (None, *(None for _ in wanted))
        found = iter(engine().backward(ctx.operation, arrays, seeds, wanted, ctx.ticket))
        return (None, *(torch.from_numpy(next(found)) if want else None for want in wanted))


def apply(operation: Operation, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The outputs of an operation on tensors, with its gradient. Raises InputError before the device sees anything."""
    arrays = [array_of(name, t) for name, t in zip(operation.names, tensors, strict=True)]
    operation.outputs(*(spec_of(array) for array in arrays))
    return Applied.apply(operation, *tensors)


class Boosted(torch.autograd.Function):
    """A tensor whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def length(name: str, tensor: Tensor, axis: int) -> int:
    """The length of an axis of a tensor. Raises InputError."""
    shape: Sequence[int] = array_of(name, tensor).shape
    if not shape:
        raise InputError(f"{name} is a single number; it needs at least one axis")
    return shape[axis]
