"""From arrays to Variables and back: which type, size and batch an array stands for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import GraphError
from .types import Size, VType, list_size, matrix_type, vector_type


class Layout(NamedTuple):
    """What an array is: a single value, a list of ``count`` entries, or images; N of them with a batch."""

    vtype: VType
    size: Size
    batch: int
    count: int | None


def layout_of(array: np.ndarray, vtype: VType | None = None, batched: bool = False) -> Layout:
    """The layout of an array; see ``Variable.of`` for the rules. Raises GraphError where it stands for nothing, or for two
    things."""
    if array.dtype.kind not in "biuf":
        raise GraphError(f"a Variable holds numbers, not values of type {array.dtype}")
    if array.size == 0:
        raise GraphError(f"an array of shape {array.shape} is empty; a Variable needs at least one value")
    if vtype is None:
        vtype, lead = _guess(array)
    else:
        rank = array.ndim - len(vtype.shape)
        lead = array.shape[: max(rank, 0)]
        if lead + vtype.shape != array.shape:
            raise GraphError(
                f"an array of shape {array.shape} does not end in {vtype.shape}, as {vtype} does"
            )
    batched = batched or len(lead) == 3
    if batched and not lead:
        raise GraphError(f"an array of shape {array.shape} has no axis for the batch")
    batch, rest = (lead[0], lead[1:]) if batched else (1, lead)
    if len(rest) > 2:
        raise GraphError(
            f"an array of shape {array.shape} has too many axes for {vtype}: (batch, height, width) at most"
        )
    if len(rest) == 1:
        return Layout(vtype, list_size(rest[0]), batch, rest[0])
    size = (rest[1], rest[0]) if rest else (1, 1)
    return Layout(vtype, size, batch, None)


def _guess(array: np.ndarray) -> tuple[VType, tuple[int, ...]]:
    """(type, what is left of the shape)"""
    shape, integer = array.shape, array.dtype.kind in "iu"
    last = shape[-1] if shape else 0
    if len(shape) >= 2 and 2 <= last <= 4 and shape[-2] == last:
        matrix, vector = matrix_type(last), vector_type(last, integer=integer)
        raise GraphError(
            f"an array of shape {shape} may hold {matrix} or rows of {last} {vector}; say which, with vtype="
        )
    if 2 <= last <= 4:
        return vector_type(last, integer=integer), shape[:-1]
    if last == 1 and len(shape) >= 2:
        return vector_type(1, integer=integer), shape[:-1]
    return vector_type(1, integer=integer), shape
