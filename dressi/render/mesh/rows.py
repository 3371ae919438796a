"""Lists of rows (positions, UVs, normals, colours) and faces that refer to them: checked, joined, refined."""

from __future__ import annotations

from typing import Any

import numpy as np

from dressi.errors import InputError


def weld(values: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join rows that are equal as float32: of positions, UVs, normals or colours.

    values: (n, columns) floats.  index: integers of any shape that refer to them, such as faces.  Returns the
    float64 rows that are left, in order of their first one, and the integers that refer to these.

    >>> import numpy as np
    >>> positions, faces = weld(np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 0]]), np.array([[0, 1, 2]]))
    >>> len(positions), faces.tolist()
    (2, [[0, 1, 0]])
    """
    values, index = np.asarray(values, dtype=np.float64), np.asarray(index)
    if len(values) == 0:
        return values, index
    with np.errstate(over="ignore"):  # beyond float32 is infinite, which the mesh refuses
        keys = np.ascontiguousarray(values.astype(np.float32) + np.float32(0))  # -0.0 becomes 0.0
    bits = keys.view(np.uint32)
    # Numbers sort ten times faster than rows. Two different rows hardly ever have one number; then rows are
    # sorted.
    number = np.zeros(len(bits), np.uint64)
    for column in bits.astype(np.uint64).T:
        number = (number ^ column) * np.uint64(0x9E3779B97F4A7C15)
        number ^= number >> np.uint64(29)
    first, own = first_ones(number)
    if not np.array_equal(bits[first[own]], bits):
        first, own = first_ones(
            keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).reshape(-1)
        )
    return values[first], own[index]


def first_ones(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each different value of a list is first, in this order, and for each value which of those it is.

    >>> [found.tolist() for found in first_ones(np.array([7, 3, 7]))]
    [[0, 1], [0, 1, 0]]
    """
    # np.unique sorts by value; in the order of a file neighbours stay near in memory.
    _, first, own = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[own.reshape(-1)]


def drop_unused(rows: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that faces refer to, and the faces that refer to these."""
    used = np.zeros(len(rows), dtype=bool)
    used[faces.reshape(-1)] = True
    if used.all():
        return rows, faces
    return rows[used], (np.cumsum(used) - 1)[faces]


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The different integers of a list, sorted; they are not negative. Sorting them is faster than the table of
    np.unique.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    numbers = np.reshape(numbers, -1)
    numbers = numbers[ordered(numbers)]
    return numbers[np.concatenate([np.ones(min(len(numbers), 1), bool), numbers[1:] != numbers[:-1]])]


def ordered(numbers: np.ndarray) -> np.ndarray:
    """``np.argsort(numbers, kind="stable")`` of integers (n,) that are not negative.

    Digits of 16 bits are sorted one after the other, the lowest first: NumPy counts those, which takes an
    eighth of the time of comparisons.

    >>> ordered(np.array([70000, 3, 70000, 5])).tolist()
    [1, 3, 0, 2]
    """
    order, most = np.argsort(numbers.astype(np.uint16), kind="stable"), int(numbers.max(initial=0))
    for shift in range(16, most.bit_length(), 16):
        digits = (numbers >> numbers.dtype.type(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def ranges(start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row i, and start[i] + k for k below count[i], for all i.

    >>> [found.tolist() for found in ranges(np.array([5, 9]), np.array([2, 1]))]
    [[0, 0, 1], [5, 6, 9]]
    """
    row = np.repeat(np.arange(len(start)), count)
    return row, start[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


def cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(...) u.x v.y - u.y v.x of (..., 2): twice the area that they span, positive where v is
    counter-clockwise of u."""
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def connected(start: np.ndarray, end: np.ndarray, count: int) -> np.ndarray:
    """(count,) for each node of a graph the number of its connected part. start, end: of its edges.

    >>> connected(np.array([0, 1]), np.array([2, 3]), 5).tolist()
    [0, 1, 0, 1, 2]
    """
    part = np.arange(count)  # of each node the first one that is known to be connected with it
    while True:
        first, second = part[start], part[end]
        apart = first != second
        if not apart.any():
            break
        start, end, first, second = start[apart], end[apart], first[apart], second[apart]
        np.minimum.at(part, np.maximum(first, second), np.minimum(first, second))
        while not np.array_equal(part, part[part]):
            part = part[part]
    return (np.cumsum(part == np.arange(count)) - 1)[part]


def midpoints(values: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and faces when each face becomes four: the midpoints of edges come behind the rows."""
    start, end = faces.T.reshape(-1), np.roll(faces, -1, axis=1).T.reshape(-1)
    half = np.minimum(start, end) * len(values) + np.maximum(start, end)
    edges = np.stack(np.divmod(distinct(half), max(len(values), 1)), axis=1)
    index = np.searchsorted(distinct(half), half)
    middle = index.reshape(3, -1) + len(values)  # numbers of the new vertices on edges ab, bc, ca
    (a, b, c), (ab, bc, ca) = faces.T, middle
    parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    new_faces = np.stack([np.stack(part, axis=1) for part in parts], axis=1).reshape(-1, 3)
    return np.concatenate([values, values[edges].mean(axis=1)]), new_faces


def unit(vectors: np.ndarray) -> np.ndarray:
    """(n, 3) of length 1; zero where they are zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


def value_rows(values: Any, columns: int, name: str, what: str) -> np.ndarray:
    """(n, columns) float64. Raises InputError that names the cure."""
    array = _numbers(values, name, what)
    if array.size == 0:
        return np.zeros((0, columns))
    if array.ndim != 2 or array.shape[1] != columns:
        raise InputError(
            f"mesh '{name}': {what} must be (n, {columns}), not {array.shape}{_cure(array, columns, what)}"
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"mesh '{name}': {what} must be float64 numbers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def face_rows(values: Any, name: str, what: str) -> np.ndarray:
    """(F, 3) int64 of integers of any size, signed or not. Raises InputError that names the cure."""
    array = _numbers(values, name, what)
    if array.size == 0:
        return np.zeros((0, 3), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 3:
        raise InputError(f"mesh '{name}': {what} must be (n, 3), not {array.shape}{_cure(array, 3, what)}")
    if array.dtype.kind == "f" and (array == np.floor(array)).all():
        raise InputError(
            f"mesh '{name}': {what} must be integers, not {array.dtype}; pass {what}.astype(np.int64)"
        )
    if array.dtype.kind not in "iu":
        raise InputError(
            f"mesh '{name}': {what} must be int64 numbers of vertices, not {array.dtype}; did you swap"
            " positions and faces?"
        )
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"mesh '{name}': {what} contains {array.max()}, which is no number of a vertex")
    return np.ascontiguousarray(array, dtype=np.int64)


def _numbers(values: Any, name: str, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"mesh '{name}': {what} must be one array of numbers ({error}); give each row as many"
        ) from None


def _cure(array: np.ndarray, columns: int, what: str) -> str:
    """What to do about a shape, where that can be told."""
    shape = array.shape
    if len(shape) == 2 and shape[0] == columns:
        return f"; pass {what}.T"
    if len(shape) == 3 and shape[0] == 1 and shape[2] == columns:
        return f"; pass {what}[0]"
    if len(shape) == 4 and shape[:2] == (1, 1) and shape[3] == columns:
        return f"; pass {what}[0, 0]"
    if len(shape) == 1 and len(array) % columns == 0:
        return f"; pass {what}.reshape(-1, {columns})"
    if len(shape) == 2 and shape[1] == 4 and what.endswith("faces"):
        return f"; split quads: np.concatenate([{what}[:, [0, 1, 2]], {what}[:, [0, 2, 3]]])"
    return ""
