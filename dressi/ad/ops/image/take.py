"""Tiles picked from a batch, and the transpose."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...contract.contraction import ContractFunction
from ...coordinates import affine
from ...graph import Domain, Variable
from ...graph.index_map import Affine, IndexMap
from ...sub_graph import SubGraph
from ...types import INT
from ..pixel.compare import equal, select
from ..pixel.constant import Like, integers, operands
from .gather import Gather
from .texels import Picks, fetch, where_inside

__all__ = ["take"]


class Take(Picks):
    """Inputs (x, index): tile m of the output is tile index[m] of x, 0 where there is none."""

    operations = 4.0

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
        return where_inside(inside, fetch(x, at, tile=np.where(inside, index, 0)))

    def vjp(self, gy, i):
        x, index = self.inputs
        return None if i == 1 or x.vtype.is_int else TakeTranspose(gy, index, x.tiles).output


class TakeTranspose(ContractFunction):
    """Inputs (g, index): tile n of the output is the sum of the tiles m of g with index[m] = n."""

    fields = ("batch",)
    batch: int
    maps = (IndexMap.of(n=Affine.axis(4), c=Affine()), IndexMap(n=Affine.axis(4)))
    indices = (Affine.axis(0),)

    @cached_property
    def decides_on(self):
        return (1,)

    @property
    def parallel(self):
        width, height = self.inputs[0].size
        return (self.batch,), (1,), (height,), (width,)

    @property
    def reduced(self):
        return (self.inputs[0].tiles,)

    @cached_property
    def body(self):
        value, index, tile = Variable(self.inputs[0].vtype), Variable(INT), Variable(INT)
        return SubGraph((value, index, tile), (select(equal(index, tile), value, 0.0),))


def take(x: Variable, index: Like) -> Variable:
    """Tiles picked from a batch: tile m of the result is tile index[m] of x, 0 where x has none.

    x: any type. index: INT of one texel with batch M; the result has the type and size of x and batch M.
    Differentiable in x. Raises GraphError.

    >>> x = Variable.of([[10.0], [20.0], [30.0]], FLOAT, batched=True)
    >>> evaluate(F.take(x, Variable(INT, batch=2, data=[[[2]], [[0]]]))).ravel().tolist()
    [30.0, 10.0]
    """
    function = Take(*operands(x), *integers(index))
    tiles = affine(function.inputs[1])
    if tiles is None or (tiles[0] == Affine.axis(0) and function.output.tiles != function.inputs[0].tiles):
        return function.output
    gathered = Gather(function.inputs[0], IndexMap.of(n=tiles[0]), function.output.domain)
    return gathered.output if gathered.cheap else function.output
