"""Lists of vertices, faces and the like: images whose rows follow each other (``list_size``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ad.graph import At, Variable
from ...ad.graph.types import VType, list_image, list_size
from ...errors import GraphError


def list_leaf(name: str, vtype: VType, values: np.ndarray) -> Variable:
    """A list (count, ...) as a leaf.

    >>> list_leaf("positions", VEC3, np.eye(3)).shape
    (1, 1, 3, 3)
    """
    values = np.asarray(values)
    return Variable(vtype, list_size(len(values)), name=name, data=list_image(values))


def padded(values: np.ndarray, count: int) -> np.ndarray:
    """The rows and zeros behind them, ``count`` in all.

    >>> padded(np.ones((1, 2)), 2).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    rows = np.zeros((count, *values.shape[1:]), values.dtype)
    rows[: len(values)] = values
    return rows


def as_list(name: str, vtype: VType, value: Any) -> Variable:
    """A Variable of that type as it is, or an array (count, ...) as a leaf. Raises GraphError."""
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise GraphError(f"{name} are a {vtype} list, not {value} (made at {value.where})")
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim != 1 + len(vtype.shape) or array.shape[1:] != vtype.shape:
        shape = ", ".join(["N", *map(str, vtype.shape)])
        raise GraphError(f"{name} are a {vtype} list or an array ({shape}), not {array.dtype} {array.shape}")
    if vtype.is_int and array.dtype.kind == "f":
        raise GraphError(f"{name} are integers; convert the {array.dtype} array first")
    return list_leaf(name, vtype, array)


def list_data(leaf: Variable) -> np.ndarray:
    """(count, ...): the entries of a leaf, with the padding at its end.

    >>> list_data(list_leaf("positions", VEC3, np.eye(3))).tolist()[0]
    [1.0, 0.0, 0.0]
    """
    assert leaf.data is not None
    return leaf.data.reshape(-1, *leaf.vtype.shape)


def read_list(table: np.ndarray, tile: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Entries ``index`` of a list (batch, H, W, ...); indices outside read entry 0."""
    flat = table.reshape(len(table), -1, *table.shape[3:])
    index = np.where((index >= 0) & (index < flat.shape[1]), index, 0)
    return flat[tile if len(flat) > 1 else np.zeros_like(tile), index]


def at_points(at: At) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and tile of the points, broadcast to one shape."""
    x, y, tile = np.broadcast_arrays(at.x, at.y, at.tile)
    return x, y, tile
