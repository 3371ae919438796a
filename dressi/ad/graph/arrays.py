"""From NumPy arrays to Variables and back: the type, size and batch that an array stands for."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...errors import DressiError, GraphError, shown
from .types import Domain, Size, VType, list_image, list_size, list_values, matrix_type, vector_type


def array_of(values: Any) -> np.ndarray:
    """The values as an array. Raises GraphError where NumPy refuses, as for lists of unequal lengths."""
    try:
        return np.asarray(values)
    except DressiError:
        raise
    except (ValueError, TypeError):
        raise GraphError(
            f"lists of numbers have one length at every depth, which {shown(values)} has not; give an array"
        ) from None


class Layout(NamedTuple):
    """``batch`` values, lists of ``count`` entries, or images of ``channels``."""

    vtype: VType
    size: Size
    batch: int
    count: int | None
    channels: int = 1


def layout_of(array: np.ndarray, vtype: VType | None = None, batched: bool = False) -> Layout:
    """The layout of an array, by the rules of ``Variable.of``. Raises GraphError if none fits, or two do."""
    if array.dtype.kind not in "biuf":
        raise GraphError(f"a Variable holds numbers, not values of type {array.dtype}")
    if array.size == 0:
        raise GraphError(f"an array of shape {array.shape} is empty; a Variable needs at least one value")
    typed = vtype is not None
    if vtype is None:
        vtype, lead = _guess(array)
    else:
        rank = array.ndim - len(vtype.shape)
        lead = array.shape[: max(rank, 0)]
        if lead + vtype.shape != array.shape:
            raise GraphError(
                f"an array of shape {array.shape} does not end in {vtype.shape}, as {vtype} does"
            )
    if typed and len(lead) == 4:
        return Layout(vtype, (lead[3], lead[2]), lead[0], None, lead[1])
    batched = batched or len(lead) == 3
    if batched and not lead:
        raise GraphError(f"an array of shape {array.shape} has no axis for the batch")
    batch, rest = (lead[0], lead[1:]) if batched else (1, lead)
    if len(rest) > 2:
        raise GraphError(
            f"an array of shape {array.shape} has too many axes for {vtype}: (batch, height, width) at most,"
            " or, where the type is given, (batch, channels, height, width)"
        )
    if len(rest) == 1:
        return Layout(vtype, list_size(rest[0]), batch, rest[0])
    size = (rest[1], rest[0]) if rest else (1, 1)
    return Layout(vtype, size, batch, None)


def _guess(array: np.ndarray) -> tuple[VType, tuple[int, ...]]:
    """(type, the axes before the components)"""
    shape, integer = array.shape, array.dtype.kind in "iu"
    last = shape[-1] if shape else 0
    if len(shape) >= 2 and 2 <= last <= 4 and shape[-2] == last:
        matrix, vector = matrix_type(last), vector_type(last, integer=integer)
        scalar = vector_type(1, integer=integer)
        raise GraphError(
            f"an array of shape {shape} may hold {_several(matrix, shape[:-2])},"
            f" {_several(vector, shape[:-1])} or {_several(scalar, shape)}; say which: Variable.of(values,"
            f" {matrix}), {vector} or {scalar}"
        )
    if 2 <= last <= 4:
        return vector_type(last, integer=integer), shape[:-1]
    if last == 1 and len(shape) >= 2:
        return vector_type(1, integer=integer), shape[:-1]
    return vector_type(1, integer=integer), shape


def _several(vtype: VType, lead: tuple[int, ...]) -> str:
    """Names texels of a type with these axes, for an error."""
    if not lead:
        return f"one {vtype}"
    if len(lead) == 1:
        return f"a list of {lead[0]} {vtype}"
    image = f"{lead[-1]}x{lead[-2]} {vtype}"
    return f"an image of {image}" if len(lead) == 2 else f"{lead[0]} images of {image}"


def doubt(array: np.ndarray) -> str | None:
    """What else an array without a type may mean, and how to say which; None where there is no doubt."""
    shape, last = array.shape, array.shape[-1] if array.ndim else 0
    integer = array.dtype.kind in "iu"
    vector, number = vector_type(max(min(last, 4), 1), integer=integer), vector_type(1, integer=integer)
    if array.ndim == 1 and 2 <= last <= 4:
        return (
            f"{last} numbers are taken as one {vector}, not as a list; write Variable.of(values, {vector}),"
            f" or {number} for a list"
        )
    if array.ndim != 3 or last <= 4:
        return None
    taken = (
        f"an array of shape {shape} is taken as a batch of {shape[0]} images of {number}, {last}x{shape[1]}"
    )
    taken += f"; write Variable.of(values, {number}) for that"
    if shape[0] in (3, 4):
        return f"{taken}; channels go last: np.moveaxis(values, 0, -1)"
    if last < min(16, *shape[:2]):
        return f"{taken}; a texel has at most 4 components: part the {last} channels"
    return None


class ArrayShape:
    """The NumPy arrays of a Variable: their shape, what can be sent to it, and how it comes back."""

    __slots__ = ()
    vtype: VType
    domain: Domain
    size: Size
    tiles: int
    channels: int
    count: int | None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the NumPy array of values: (batch, H, W) + vtype.shape, or with several channels (batch,
        channels, H, W) + vtype.shape."""
        tiles = (self.batch,) if self.channels == 1 else (self.batch, self.channels)
        return (*tiles, self.size[1], self.size[0], *self.vtype.shape)

    @property
    def tiled(self) -> tuple[int, ...]:
        """The shape with one axis for all tiles, as in ``Function.evaluate``: (tiles, H, W) + vtype.shape.

        >>> x = Variable(FLOAT, (4, 3), batch=2, channels=5)
        >>> x.shape, x.tiled, x.batch, x.channels, x.tiles
        ((2, 5, 3, 4), (10, 3, 4), 2, 5, 10)
        """
        return (self.tiles, self.size[1], self.size[0], *self.vtype.shape)

    @property
    def batch(self) -> int:
        """The number of images.

        >>> Variable(FLOAT, (4, 3), batch=2, channels=5).batch
        2
        """
        return self.tiles // self.channels

    def as_given(self, values: np.ndarray) -> np.ndarray:
        """Values of ``shape`` in the form that the user gave: lists without padding and a batch of 1.

        >>> vertices = Variable.of(np.zeros((5, 3)))
        >>> vertices.as_given(np.ones(vertices.shape)).shape
        (5, 3)
        """
        if self.count is None:
            return values
        entries = list_values(values, self.count)
        return entries[0] if self.batch == 1 else entries

    def conform(self, values: Any, *, copy: bool = True) -> np.ndarray:
        """``values`` as an array of ``shape``; leading axes of length 1 may be left out. Raises GraphError.

        copy: if False, an array that fits is returned as it is.

        >>> Variable(VEC2, (3, 1)).conform(np.ones((3, 2))).shape
        (1, 1, 3, 2)
        """
        array = array_of(values)
        if not copy and array.dtype == self.vtype.dtype and array.shape == self.shape:
            return array  # as a device stores it
        if array.dtype == object or not np.can_cast(array.dtype, np.complex128):
            raise GraphError(f"{self} takes numbers, not values of type {array.dtype}")
        if self.vtype.is_int and array.dtype.kind in "fc":
            raise GraphError(f"{self} holds integers; convert the {array.dtype} array first")
        if array.dtype.kind == "c":
            raise GraphError(f"{self} takes real numbers, not values of type {array.dtype}")
        if self.vtype.is_int and array.dtype.itemsize > 2 and array.size:
            least, most = int(array.min()), int(array.max())
            if least < -(2**31) or most >= 2**31:
                wrong = least if least < -(2**31) else most
                raise GraphError(f"{self} holds integers of 32 bits; {wrong} is outside of [-2**31, 2**31)")
        array = array.astype(np.int64 if self.vtype.is_int else np.float64, copy=copy)
        if array.shape == self.shape:
            return array
        entries = self.shape
        if self.count is not None:
            entries = (self.count, *self.vtype.shape)
            same = array.shape[array.ndim - len(entries) :] == entries
            if same and array.size == self.batch * math.prod(entries):
                return np.concatenate([list_image(v) for v in array.reshape(self.batch, *entries)])
        padded = (1,) * (len(self.shape) - array.ndim) + array.shape
        if padded == self.shape:
            return array.reshape(self.shape)
        raise GraphError(f"{self} takes an array of shape {entries}, not {array.shape}")


class At(NamedTuple):
    """The texels at which NumPy evaluates a Function; each array broadcasts to (N, H, W)."""

    x: np.ndarray
    y: np.ndarray
    tile: np.ndarray
