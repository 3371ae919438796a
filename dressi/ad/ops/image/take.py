"""Tiles picked from a batch, and the transpose."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ...graph import Domain, PixelFunction, Variable
from ...graph.index_map import Affine, IndexMap
from ...types import INT, Access
from ..coordinates.affine import affine
from ..pixel.constant import Like, integers, operands
from .gather import Gather
from .reduce import SumOfParts
from .texels import fetch

__all__ = ["take"]


class Take(PixelFunction):
    """Inputs (x, index): tile m of the output is tile index[m] of x, 0 where there is none."""

    operations, fetches = 4.0, 1.0

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    def infer(self):
        x, index = self.inputs
        if x.channels > 1:
            raise self.fail(
                f"{x} has channels; F.contract picks images by whole numbers, F.channel takes channels apart"
            )
        if index.vtype is not INT or index.size != (1, 1):
            raise self.fail("the index must be INT 1x1, one value a tile of its batch")
        return x.vtype, Domain(x.size, index.tiles)

    glsl = "{ int from = $1; $y = from >= 0 && from < $batch0 ? $0(pixel, from) : $type(0); }"

    def evaluate(self, at, x, index):
        inside = (index >= 0) & (index < x.shape[0])
        values = fetch(x, at, tile=np.where(inside, index, 0))
        return np.where(inside.reshape(inside.shape + (1,) * (values.ndim - 3)), values, 0)

    def vjp(self, gy, i):
        x, index = self.inputs
        return None if i == 1 or x.vtype.is_int else TakeTranspose(gy, index, x.tiles).output

    def jvp(self, tangents):
        if tangents[0] is None or self.output.vtype.is_int:
            return None
        return Take(tangents[0], self.inputs[1]).output


class TakeTranspose(PixelFunction):
    """Inputs (g, index): tile n of the output is the sum of the tiles m of g with index[m] = n.

    length: 0, or the number of tiles of g in a partial sum. The partial sums of a tile are then in consecutive tiles.
    """

    operations, fetches = 6.0, math.inf
    fields = ("batch", "length")
    batch: int
    length: int = 0

    @property
    def parts(self) -> int:
        """The number of partial sums of a tile."""
        return -(-self.inputs[0].tiles // self.length) if self.length else 1

    @cached_property
    def access(self):
        return (Access.FETCH, Access.FETCH)

    def infer(self):
        return self.inputs[0].vtype, Domain(self.inputs[0].size, self.batch * self.parts)

    @cached_property
    def glsl(self) -> str:
        if not self.length:
            return (
                "$y = $type(0);\n"
                "for (int m = 0; m < $batch0; ++m) if ($1(ivec2(0), m) == tile) $y += $0(pixel, m);"
            )
        return (
            f"$y = $type(0);\nint first = tile % {self.parts} * {self.length};\n"
            f"for (int m = first; m < min(first + {self.length}, $batch0); ++m)"
            f" if ($1(ivec2(0), m) == tile / {self.parts}) $y += $0(pixel, m);"
        )

    @property
    def iterations(self) -> int:
        return self.length or self.inputs[0].tiles

    def shortened(self, most):
        if self.length:
            return None
        gy, index = self.inputs
        partial = TakeTranspose(gy, index, self.batch, most)
        return SumOfParts(partial.output, partial.parts).output

    def evaluate(self, at, gy, index):
        total = np.zeros((self.batch * self.parts, *gy.shape[1:]))
        part = np.arange(len(gy)) // self.length if self.length else np.zeros(len(gy), int)
        tiles = np.broadcast_to(index[:, 0, 0], gy.shape[:1])
        inside = (tiles >= 0) & (tiles < self.batch)
        np.add.at(total, tiles[inside] * self.parts + part[inside], gy[inside])
        return fetch(total, at)

    def vjp(self, gy, i):
        if self.length:
            raise self.fail("is made when a plan is built; take derivatives of whole sums")
        return Take(gy, self.inputs[1]).output if i == 0 else None

    def jvp(self, tangents):
        if tangents[0] is None:
            return None
        return TakeTranspose(tangents[0], self.inputs[1], self.batch, self.length).output


def take(x: Variable, index: Like) -> Variable:
    """Tiles picked from a batch: tile m of the result is tile index[m] of x, 0 where x has none.

    x: any type. index: INT of one texel with batch M; the result has the type and size of x and batch M. Differentiable in x.
    Raises GraphError.

    >>> x = Variable.of([[10.0], [20.0], [30.0]], FLOAT, batched=True)
    >>> evaluate(F.take(x, Variable(INT, batch=2, data=[[[2]], [[0]]]))).ravel().tolist()
    [30.0, 10.0]
    """
    found = Take(*operands(x), *integers(index))
    tiles = affine(found.inputs[1])
    if tiles is None or (tiles[0] == Affine.axis(0) and found.output.tiles != found.inputs[0].tiles):
        return found.output
    gathered = Gather(found.inputs[0], IndexMap.of(n=tiles[0]), found.output.domain)
    return gathered.output if gathered.cheap else found.output
