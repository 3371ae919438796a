"""How the arrays of a framework, with any number of channels, lie in Variables of at most four components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..ad.graph import Variable
from ..ad.types import Size, VType, list_image, list_size, list_values, vector_type

Parts = tuple[Variable, ...]
"""The Variables that hold one array: each has the next one to four of its channels."""


class Spec(NamedTuple):
    """The shape and type ("float32" or "int32") of an array: what a program is made for."""

    shape: tuple[int, ...]
    dtype: str


def spec_of(array: np.ndarray) -> Spec:
    """The spec of an array."""
    return Spec(array.shape, array.dtype.name)


@dataclass(frozen=True)
class Layout:
    """An array of ``shape`` as Variables of these types, one after the other along its last axis (``channels``), or as
    one Variable.

    count: the number of entries where the array holds lists; None where it holds images.
    """

    shape: tuple[int, ...]
    vtypes: tuple[VType, ...]
    size: Size
    batch: int
    count: int | None = None

    def leaves(self, name: str) -> Parts:
        """New leaves for such an array."""
        return tuple(Variable(v, self.size, self.batch, name=name, count=self.count) for v in self.vtypes)

    def split(self, array: np.ndarray) -> list[np.ndarray]:
        """The array of each leaf, without a copy where one leaf holds it all and a list needs no padding."""
        if len(self.vtypes) == 1:
            return [self._placed(array, self.vtypes[0])]
        ends = np.cumsum([v.components for v in self.vtypes])
        parts = np.split(array, ends[:-1], axis=-1)
        return [self._placed(part, v) for part, v in zip(parts, self.vtypes, strict=True)]

    def _placed(self, part: np.ndarray, vtype: VType) -> np.ndarray:
        width, height = self.size
        if self.count is None or self.count == width * height:
            return part.reshape(self.batch, height, width, *vtype.shape)
        entries = part.reshape(self.batch, self.count, *vtype.shape)
        return np.concatenate([list_image(values) for values in entries])

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The array of these values of the leaves."""
        if self.count is not None:
            parts = [list_values(part, self.count) for part in parts]
        if len(parts) == 1:
            return parts[0].reshape(self.shape)
        flat = [p.reshape(*self.shape[:-1], v.components) for p, v in zip(parts, self.vtypes, strict=True)]
        return np.concatenate(flat, axis=-1)


def channels(count: int, *, integer: bool = False) -> tuple[VType, ...]:
    """The types that hold so many channels: as many VEC4 as fit, and the rest."""
    whole = (vector_type(4, integer=integer),) * (count // 4)
    return (*whole, vector_type(count % 4, integer=integer)) if count % 4 else whole


def image(spec: Spec) -> Layout:
    """Images (N, H, W, C)."""
    batch, height, width, count = spec.shape
    return Layout(spec.shape, channels(count), (width, height), batch)


def entries(spec: Spec) -> Layout:
    """Lists (V, C), shared by all images, or (N, V, C)."""
    *batch, count, components = spec.shape
    vtypes = channels(components, integer=spec.dtype == "int32")
    return Layout(spec.shape, vtypes, list_size(count), batch[0] if batch else 1, count)


STEPS = 8
"""How many lengths of lists there are from one power of two to the next."""


def with_room(values: np.ndarray) -> np.ndarray:
    """A list (..., V, C) with zeros behind its entries up to one of few lengths, at most an eighth more, so that meshes of
    similar size share a program: vertices at zero are not drawn, and triangles of one vertex three times neither."""
    count = values.shape[-2]
    step = max((1 << count.bit_length() - 1) // STEPS, 1)
    more = -count % step
    if not more:
        return values
    room = np.zeros((*values.shape[:-2], more, values.shape[-1]), values.dtype)
    return np.concatenate([values, room], axis=-2)


def computed(parts: Sequence[Variable], shape: tuple[int, ...]) -> Layout:
    """The layout of an array of this shape that a graph has computed, as Variables of one domain."""
    return Layout(shape, tuple(part.vtype for part in parts), parts[0].size, parts[0].batch, parts[0].count)
