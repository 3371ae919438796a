"""Operands whose neighbours along an axis share a texel: one load brings four of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from .....ad.contract.terms import domain_of_shape, shape_of
from .....ad.graph import PixelFunction
from .....ad.types import VEC4, Access

PACKED = 4
"""Neighbours in one texel of a ``Packed`` operand."""


class Packed(PixelFunction):
    """VEC4: four neighbours of a FLOAT image along the axis n, c, y or x (0 to 3), zeros beyond its end.

    along x:   1 2 3 4 5 6   ->   (1 2 3 4) (5 6 0 0)
    """

    fields = ("axis",)
    no_derivative = "is made when a plan is built"
    operations = 2.0
    axis: int

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        shape = [*shape_of(self.inputs[0])]
        shape[self.axis] = -(-shape[self.axis] // PACKED)
        return VEC4, domain_of_shape(shape)

    @property
    def fetches(self) -> float:
        return float(PACKED)

    @cached_property
    def glsl(self) -> str:
        x, axis = self.inputs[0], self.axis
        shape, channels = shape_of(x), shape_of(self.output)[1]
        place = [f"tile / {channels}", f"tile % {channels}", "pixel.y", "pixel.x"]
        values = []
        for k in range(PACKED):
            at = list(place)
            own = f"({place[axis]}) * {PACKED} + {k}"
            at[axis] = f"min({own}, {shape[axis] - 1})"
            n, c, row, column = at
            value = f"$0(ivec2({column}, {row}), ({n}) * {shape[1]} + {c})"
            whole = shape[axis] % PACKED == 0 or k == 0
            values.append(value if whole else f"({own} < {shape[axis]} ? {value} : 0.0)")
        return f"vec4({', '.join(values)})"

    def evaluate(self, at, x):
        shape, axis = shape_of(self.inputs[0]), self.axis
        x = x.reshape(shape)
        missing = -shape[axis] % PACKED
        x = np.concatenate([x, np.zeros_like(np.take(x, range(missing), axis, mode="clip"))], axis)
        few = shape_of(self.output)
        x = x.reshape(*few[: axis + 1], PACKED, *few[axis + 1 :])
        x = np.moveaxis(x, axis + 1, -1).reshape(few[0] * few[1], few[2], few[3], PACKED)
        return x[at.tile, at.y, at.x]


def unpack(x: np.ndarray, shape: Sequence[int], axis: int) -> np.ndarray:
    """The tiles, rows and columns of a packed operand as they were. shape: n, c, y, x of the operand."""
    few = [*shape]
    few[axis] = -(-shape[axis] // PACKED)
    x = np.moveaxis(x.reshape(*few, PACKED), -1, axis + 1)
    few[axis] *= PACKED
    n, c, height, width = shape
    return x.reshape(few)[:n, :c, :height, :width].reshape(n * c, height, width)
