"""Tables and batches: reads at computed indices, and their transposes, scatters into a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...contract.contraction import ContractFunction
from ...graph import Domain, ScatterFunction, Variable, domain_of
from ...graph.evaluation import SubGraph
from ...graph.index_map import Affine, IndexMap
from ...graph.types import FLOAT, INT, IVEC2, Size, broadcast, size_of
from ..pixel.arithmetic import total
from ..pixel.compare import equal, select
from ..pixel.constant import Like, constant, integers, operands
from ..pixel.matrix import max_component
from .coordinates import Picks, affine, entries_only, fetch, table_maps, where_inside
from .image import Gather
from .reduce import expand
from .reduce import max as max_texel

__all__ = ["lookup", "scatter_add", "scatter_max", "take"]


def texel_of(index: np.ndarray, scalar: bool, size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, inside) of indices INT (row by row) or IVEC2. x and y are 0 outside of the table."""
    width, height = size
    if scalar:
        inside = (index >= 0) & (index < width * height)
        index = np.where(inside, index, 0)
        return index % width, index // width, inside
    x, y = index[..., 0], index[..., 1]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return np.where(inside, x, 0), np.where(inside, y, 0), inside


_FEW = "; an array of two to four integers is one vector, and a list with vtype=INT"


class Lookup(Picks):
    """Inputs (table, index): the texel of the table at an INT or IVEC2 index, 0 where that is outside.

    A table with a batch is read in the tile of the output texel, a table of batch 1 in its only tile. Linear
    in the table; there is no derivative by the index.
    """

    operations, decides_on = 8.0, (1,)

    def infer(self):
        table, index = self.inputs
        if index.vtype not in (INT, IVEC2):
            raise self.fail(f"the index must be INT (row by row) or IVEC2 (texel); use F.to_int{_FEW}")
        if table.count is not None and index.vtype is IVEC2 and index.is_leaf and index.size == (1, 1):
            raise self.fail(f"the table is a list, and its index INT{_FEW}")
        domain = index.domain
        if table.tiles > 1:
            domain = table.domain._replace(size=index.size)
            if broadcast([domain, index.domain]) != domain:
                raise self.fail(
                    "batch and channels of the index must be those of the table or 1; use F.expand for the"
                    " table, or F.take"
                )
        return table.vtype, domain

    @cached_property
    def glsl(self) -> str:
        if self.inputs[1].vtype is INT:
            return (
                "{ int i = $1; ivec2 extent = $size0;\n"
                "$y = i >= 0 && i < extent.x * extent.y"
                " ? $0(ivec2(i % extent.x, i / extent.x), tile) : $type(0); }"
            )
        return (
            "{ ivec2 texel = $1;\n"
            "$y = all(greaterThanEqual(texel, ivec2(0))) && all(lessThan(texel, $size0))"
            " ? $0(texel, tile) : $type(0); }"
        )

    def known_value(self, known):
        if 1 not in known:
            return None
        outside = not np.any(
            texel_of(np.asarray(known[1]), self.inputs[1].vtype.is_scalar, self.inputs[0].size)[2]
        )
        return np.zeros(self.output.vtype.shape) if outside else None

    def evaluate(self, at, table, index):
        (width, height), whole = self.inputs[0].size, table.shape[1:3]
        if self.inputs[1].vtype.is_scalar and whole == (height, width):
            # By one number, which is a tenth of the time of indexing by three.
            inside = (index >= 0) & (index < width * height)
            everywhere = bool(inside.all())
            number = index if everywhere else np.where(inside, index, 0)
            texels = table.reshape(-1, *table.shape[3:])
            values = texels.take(number + at.tile * (width * height) if len(table) > 1 else number, axis=0)
        else:
            x, y, inside = texel_of(index, self.inputs[1].vtype.is_scalar, (width, height))
            everywhere = bool(inside.all())
            values = table[at.tile if len(table) > 1 else np.zeros_like(at.tile), y, x]
        return values if everywhere else where_inside(inside, values)

    def vjp(self, gy, i):
        table, index = self.inputs
        if i == 1 or table.vtype.is_int:
            return None
        return scatter_add(gy, index, table.size, table.batch, channels=table.channels)


UNBOUNDED_SCALARS = 1 << 17
"""The most scalars in a tile of a table whose scatter needs no bound: its sums hold all magnitudes."""


class Scatter(ScatterFunction):
    def __init__(self, table: Domain, *inputs: Variable):
        self.table = table
        super().__init__(*inputs)

    def infer(self):
        bound, *rest = self.inputs
        vtypes = {value.vtype for value in rest[0::2]}
        if self.operation == "add" and any(v.is_int for v in vtypes):
            raise self.fail("adds floats; use F.to_float")
        if len(vtypes) != 1 or len(rest) % 2:
            raise self.fail("needs pairs of values and indices, all values of one type")
        if any(index.vtype not in (INT, IVEC2) for index in rest[1::2]):
            raise self.fail("indices must be INT (row by row) or IVEC2 (texel); use F.to_int")
        if bound.vtype is not FLOAT or bound.domain != Domain((1, 1), 1):
            raise self.fail("the bound must be FLOAT 1x1, batch 1; use F.max(F.abs(values))")
        source = self.source
        if self.table.tiles > 1 and self.table != source._replace(size=self.table.size):
            raise self.fail(
                f"a table of batch {self.table.batch} and {self.table.channels} channels cannot take values"
                f" of batch {source.batch} and {source.channels} channels"
            )
        return vtypes.pop(), self.table

    def _gathered(self, x: tuple[np.ndarray, ...]):
        """For each pair: (flat positions in the table, values (count, components)) of the texels inside."""
        (width, height), batch, _ = self.table
        source = self.source
        shape = (source.tiles, source.size[1], source.size[0])
        tile = np.arange(source.tiles)[:, None, None] if batch > 1 else 0
        for k, (value, index) in enumerate(self.pairs):
            tx, ty, inside = texel_of(x[2 + 2 * k], index.vtype.is_scalar, self.table.size)
            where = np.broadcast_to((tile * height + ty) * width + tx, shape)
            inside = np.broadcast_to(inside, shape)
            values = np.broadcast_to(x[1 + 2 * k], shape + value.vtype.shape)
            yield where[inside], values[inside].reshape(-1, value.vtype.components)


class ScatterAdd(Scatter):
    """The exact transpose of ``Lookup``: adds the values into a table of zeros. Linear in the values."""

    fields = ("table", "operation")
    operation = "add"

    @cached_property
    def decides_on(self):
        """The bound, whose exponent sets the unit of the sums, and the indices."""
        return (0, *range(2, len(self.inputs), 2))

    def eval(self, *x):
        shape = self.output.tiled
        count = int(np.prod(shape[:3]))
        sums = np.zeros((count, self.output.vtype.components))
        for where, values in self._gathered(x):
            add_at(sums, where, values)
        return sums.reshape(shape)

    def vjp(self, gy, i):
        if i % 2 == 0:
            return None
        gathered = Lookup(gy, self.inputs[i + 1]).output
        source = self.source
        return (
            gathered
            if gathered.domain == source
            else expand(gathered, source.batch, source.size, source.channels)
        )

    def jvp(self, tangents):
        table = {"size": self.table.size, "batch": self.table.batch, "channels": self.table.channels}
        terms = [
            scatter_add(_at_source(tangent, [index], self.source), index, **table)
            for (_, index), tangent in zip(self.pairs, tangents[1::2], strict=True)
            if tangent is not None
        ]
        return total(terms) if terms else None


def add_at(sums: np.ndarray, where: np.ndarray, values: np.ndarray) -> None:
    """Adds rows of values to the rows ``where`` of the sums."""
    for c in range(sums.shape[1]):
        sums[:, c] += np.bincount(where, values[:, c], len(sums))


class ScatterMax(Scatter):
    """The largest value written to each texel, -1 where there is none."""

    zero_derivative = True
    fields = ("table", "operation")
    operation = "max"

    def infer(self):
        vtype, table = super().infer()
        if vtype is not INT:
            raise self.fail("takes INT values; use F.to_int")
        return vtype, table

    def eval(self, *x):
        table = np.full(int(np.prod(self.output.tiled)), -1, np.int64)
        for where, values in self._gathered(x):
            np.maximum.at(table, where, values[:, 0])
        return table.reshape(self.output.tiled)


def with_pairs(f: ScatterFunction, pairs: Sequence[tuple[Variable, Variable]]) -> Variable:
    """The scatter of only these pairs of f, still added once for each texel of f's source, whose size or
    batch may come from another pair."""
    (value, index), *others = pairs
    rest = [index, *(x for pair in others for x in pair)]
    return f.rebuild(f.inputs[0], _at_source(value, rest, f.source), *rest).output


def _at_source(value: Variable, others: Sequence[Variable], source: Domain) -> Variable:
    """The value, expanded unless it and the others broadcast to the whole source."""
    whole = broadcast([x.domain for x in (value, *others)]) == source
    return value if whole else expand(value, source.batch, source.size, source.channels)


def lookup(table: Variable, index: Like) -> Variable:
    """The texel of a table at a computed index, 0 where the index is outside.

    table: any type. index: INT, counted row by row (x = index % W), or IVEC2 (x, y). A table of batch N > 1
    is read in the tile of the output texel, a table of batch 1 is shared by all tiles. The result has the
    type of the table and the domain of the index, with the batch of the table if that is larger.
    Differentiable in the table; the transpose is ``scatter_add``. Indices have no derivative. Raises
    GraphError if types or batches do not fit.

    >>> table = Variable.of([10.0, 20.0, 30.0, 40.0, 50.0])
    >>> evaluate(F.lookup(table, Variable.of([4, 0, 1, 9, -1]))).tolist()
    [50.0, 10.0, 20.0, 0.0, 0.0]
    """
    function = Lookup(*operands(table), *integers(index))
    gathered = _gathered(function)
    return function.output if gathered is None else gathered


def _gathered(lookup: Lookup) -> Variable | None:
    """The lookup by an index map, if the index is affine in the texel and the transpose costs no more."""
    table, index = lookup.inputs
    if index.size == (1, 1):
        return None  # picks one texel: the many picks of a kernel share a scatter
    maps = table_maps(table, index)
    if not maps:
        return None
    *before, last = maps
    read = table
    for texels in before:
        rows = index.size[1 if last.y.axes == (2,) else 0]
        first = Gather(read, texels, read.domain._replace(size=(table.size[0], rows)))
        if not first.cheap:
            return None
        read = first.output
    own = last.n.terms != ()
    second = Gather(read, last, (read if own else index).domain._replace(size=index.size))
    if not second.cheap:
        return None
    return (
        second.output
        if second.output.domain == lookup.output.domain
        else expand(second.output, lookup.output.batch, channels=lookup.output.channels)
    )


def scatter_add(
    values: Variable,
    index: Like,
    size: Size,
    batch: int = 1,
    bound: Variable | float | None = None,
    channels: int = 1,
) -> Variable:
    """Adds each value at its index into a table of zeros; indices outside of it are ignored.

    values: FLOAT, VECn or MATn. index: INT (row by row) or IVEC2, as in ``lookup``; values and index
    broadcast. size, batch: of the table. With ``batch`` 1 all tiles add into one table, otherwise ``batch``
    is that of the values and each tile has its own table, and so has each channel: ``channels`` is 1, or that
    of the values. bound: FLOAT of one texel, at least the largest absolute value, the scale of the
    fixed-point sums. By default it is computed for large tables; small tables hold sums of every magnitude (a
    bound of infinity), and NaN and infinite values make what they make of sums of floats. Values above a
    bound are clamped to it and NaN is left out; whatever reads a value then warns (RuntimeWarning). The
    result has the type of the values. Differentiable in the values. Raises GraphError.

    >>> values, index = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]), Variable.of([0, 0, 1, 2, 9])
    >>> evaluate(F.scatter_add(values, index, (3, 1))).ravel().tolist()
    [3.0, 3.0, 4.0]
    """
    (values,), (index,) = operands(values), integers(index)
    values, size = _of_entries(values, index, 0), size_of(size)
    if bound is None:
        entries = (
            size[0] * size[1] * values.vtype.components
        )  # of one tile, so that the number of views does not change the plan
        bound = np.inf if entries <= UNBOUNDED_SCALARS else max_texel(max_component(abs(values)))
    return ScatterAdd(domain_of(size, batch, channels), *operands(bound), values, index).output


def scatter_max(values: Variable, index: Like, size: Size, batch: int = 1) -> Variable:
    """The largest value written to each texel of a table, -1 where there is none.

    values: INT. index, size, batch: as for ``scatter_add``. The result is INT, without derivative. Raises
    GraphError.

    >>> values, index = Variable.of([1, 2, 3, 4, 5]), Variable.of([0, 0, 1, 1, 0])
    >>> evaluate(F.scatter_max(values, index, (3, 1))).ravel().tolist()
    [5, 4, -1]
    """
    values, index = integers(values, index)
    values = _of_entries(values, index, -1)
    return ScatterMax(domain_of(size, batch), constant(1.0), values, index).output


def _of_entries(values: Variable, index: Variable, nothing: int) -> Variable:
    """The values, with ``nothing`` behind the last entry of a list."""
    return entries_only(entries_only(values, nothing), nothing, of=index)


# ---- tiles of a batch
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
