"""Scatters by lists of indices: each texel of the table gathers what is added to it.

Corners of faces, edges of a graph, neighbours of vertices: where the indices are a leaf, the host knows which texels add to
which, and inverts the lists once. A gather needs no atomics, no accumulators and no pass that resolves them.

    index 2 0 2   ->   texel 0: [1], texel 1: [], texel 2: [0, 2]

The inverse lists are leaves of their own, which the workspace fills anew when the indices are sent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from ....ad.graph import Domain, PixelFunction, ScatterFunction, Variable
from ....ad.graph.snippet import add_compensated
from ....ad.ops.image.lookup import texel_of, with_pairs
from ....ad.ops.pixel.constant import Constant
from ....ad.program import Program
from ....ad.types import INT, IVEC2, Access
from ....errors import InputError
from ..analysis.dependencies import Leaves
from ..context import Target
from ..model.device import DeviceModel

LONGEST = 64
"""Of the lists that are gathered, in each tile: a longer one is a chain of reads that one invocation does alone."""
MOST = 1 << 15
"""Entries that a list may ever have, through all tiles. Some drivers end a loop after 65,535 iterations."""


class InverseList(Variable):
    """A leaf that follows from another one, ``indices``: what each texel of ``table`` is added from, in the order of the
    source. Two with the same indices, table and source are equal.

    part: "ranges", IVEC2 of the size of the table, the first entry and the number of entries of each texel; or "entries",
    INT of the size of the source, numbers of source texels. Both count row by row; through all tiles where these share the
    table, else through one tile.
    """

    __slots__ = ("_hash", "indices", "part", "source", "table")

    def __init__(self, indices: Variable, table: Domain, source: Domain, part: str):
        self.indices, self.table, self.source, self.part = indices, table, source, part
        self._hash = hash(self._key())
        batch = indices.tiles if table.tiles > 1 else 1 if part == "ranges" else source.tiles
        vtype, size = (IVEC2, table.size) if part == "ranges" else (INT, source.size)
        super().__init__(vtype, size, batch, name=f"{indices.name or f'#{indices.id}'}.{part}")
        assert indices.data is not None
        self.data = self.of(indices.data)

    def _key(self) -> tuple[Any, ...]:
        return self.indices, self.table, self.source, self.part

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, InverseList) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    def of(self, indices: np.ndarray) -> np.ndarray:
        """The value for these indices. Raises InputError for a list that no device may walk."""
        texels = named_texels(indices, self.indices.vtype.is_scalar, self.table, self.source)
        if self.part == "entries":
            return np.argsort(texels, axis=1, kind="stable").reshape(self.shape)
        counts = lengths(texels, self.table)
        if counts.max() > MOST:
            raise InputError(
                f"{self.indices} names one texel {counts.max()} times, more often than a loop may be long; give it as the data of"
                " a new Variable, or plan with PlanOptions(gather_at_lists=False)"
            )
        return np.stack([np.cumsum(counts, axis=1) - counts, counts], -1).reshape(self.shape)


def named_texels(indices: np.ndarray, scalar: bool, table: Domain, source: Domain) -> np.ndarray:
    """(tiles, source texels): the number of the texel that each adds to, row by row; that behind the last for none. tiles:
    those of the indices where each has a table of its own, else 1."""
    width, height = table.size
    x, y, inside = texel_of(indices, scalar, table.size)
    found = np.where(inside, y * width + x, width * height)
    tiles = source.tiles if table.tiles == 1 else len(found)
    found = np.broadcast_to(found, (tiles, source.size[1], source.size[0]))
    return found.reshape(1 if table.tiles == 1 else tiles, -1)


def lengths(texels: np.ndarray, table: Domain) -> np.ndarray:
    """(tiles, texels of the table): how often each is named."""
    count = table.size[0] * table.size[1]
    return np.stack([np.bincount(row, minlength=count + 1)[:-1] for row in texels])


class ListGather(PixelFunction):
    """Inputs (values, ranges, entries): the sum of the values that the inverse lists name, compensated as ``F.sum``.

    Equal to ``scatter_add`` by the indices of the lists. Made by the planner, after all derivatives.
    """

    fields = ("table", "source", "longest")
    ranges = 1
    no_derivative = "is made when a plan is built; take derivatives of F.scatter_add"
    table: Domain
    source: Domain
    longest: int
    """Entries of the longest list when the plan is made."""

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL, Access.FETCH)

    @property
    def _additions(self) -> float:
        """For one texel of the table, on average and in one tile."""
        (width, height), _, _ = self.source
        return max(width * height / (self.table.size[0] * self.table.size[1]), 1.0)

    @property
    def operations(self):
        return 12.0 * self._additions

    @property
    def fetches(self) -> float:
        return self._additions

    @property
    def iterations(self) -> int:
        return self.longest

    def infer(self):
        return self.inputs[0].vtype, self.table

    def _place(self, x: Variable, number: str) -> str:
        """The arguments of a read of x, an image over the source or broadcast to it, at the texel of a number."""
        (width, height), tiles, _ = self.source
        joint = self.table.tiles == 1 and tiles > 1
        column = f"{number} % {width}" if height > 1 or joint else number
        row = f"{number} / {width} % {height}" if height > 1 else "0"
        tile = f"{number} / {width * height}" if joint else "tile"
        return (
            f"ivec2({column if x.size[0] > 1 else 0}, {row if x.size[1] > 1 else 0}),"
            f" {tile if x.tiles > 1 else 0}"
        )

    @cached_property
    def glsl(self) -> str:
        values, _, entries = self.inputs
        return (
            "precise $type lost = $type(0);\n$y = $type(0);\n"
            "for (int k = $1.x; k < $1.x + $1.y; ++k) {\n"
            f"int entry = $2({self._place(entries, 'k')});\n"
            + add_compensated(f"$0({self._place(values, 'entry')})")
            + " }"
        )

    def evaluate(self, at, values, ranges, entries):
        (width, height), tiles, _ = self.source
        own = self.table.tiles > 1
        rank = values.ndim - 3
        every = np.broadcast_to(values, (tiles, height, width, *values.shape[3:]))
        every = every.reshape(tiles if own else 1, -1, *values.shape[3:])
        entries = entries.reshape(len(entries) if own else 1, -1)
        tile, listed = (at.tile, at.tile % len(entries)) if own else (0, 0)
        first, count = ranges[..., 0], ranges[..., 1]
        total = 0.0
        for k in range(int(count.max(initial=0))):
            there = k < count
            term = every[tile, entries[listed, np.where(there, first + k, 0)]]
            total = total + np.where(there.reshape(there.shape + (1,) * rank), term, 0)
        return np.broadcast_to(total, np.broadcast_shapes(np.shape(total), count.shape + (1,) * rank))


def gather_at_lists(program: Program, target: Target) -> dict[Variable, Variable]:
    """Additions into tables by leaves of indices, as gathers, where that is faster.

    Leaves that are updated, or expected to be sent in every step, are no lists. Scatters with a number as bound stay: they
    report values beyond it."""
    moving = target.changing.union(leaf for leaf, _ in program.updates)
    replace, longest, inverse = {}, cache(partial(_longest, moving)), cache(InverseList)
    for f in program.functions if target.options.gather_at_lists else ():
        if isinstance(f, ScatterFunction) and f.operation == "add":
            gathered = _gathered(f, target.model, longest, inverse)
            if gathered is not None:
                replace[f.output] = gathered
    return replace


def _gathered(
    f: ScatterFunction,
    model: DeviceModel,
    longest: Callable[[Variable, Domain, Domain], tuple[int, int] | None],
    inverse: Callable[[Variable, Domain, Domain, str], InverseList],
) -> Variable | None:
    """The table of a scatter, with a gather for each pair whose index is a list; None if there is no such pair. longest, inverse:
    ``_longest`` and ``InverseList``, once for each list."""
    bound = f.inputs[0]
    if isinstance(bound.creator, Constant) and np.isfinite(bound.creator.value).all():
        return None
    gathers, others = [], []
    for value, index in f.pairs:
        broadcasts = {value.tiles, index.tiles} <= {1, f.source.tiles}
        known = longest(index, f.table, f.source) if broadcasts else None
        # Views share a table, and do not count: a plan for many has the passes of a plan for one.
        if known is None or not _pays(known[0], model) or known[1] > MOST:
            others.append((value, index))
            continue
        ranges, entries = (inverse(index, f.table, f.source, part) for part in ("ranges", "entries"))
        gather = ListGather(value, ranges, entries, table=f.table, source=f.source, longest=known[1])
        gathers.append(gather.output)
    if not gathers:
        return None
    total = with_pairs(f, others) if others else None
    for term in gathers:
        total = term if total is None else total + term
    return total


def _longest(moving: Leaves, index: Variable, table: Domain, source: Domain) -> tuple[int, int] | None:
    """Entries of the longest list, in a tile and in all; None if the host does not know the indices."""
    if index.data is None or index in moving:
        return None
    own = Domain(table.size, index.tiles)
    texels = named_texels(index.data, index.vtype.is_scalar, own, Domain(source.size, index.tiles))
    counts = lengths(texels, own)
    in_tile = int(counts.max())
    if table.tiles > 1:
        return in_tile, in_tile
    return in_tile, int(counts.sum(0).max()) * (source.tiles // index.tiles)


def _pays(longest: int, model: DeviceModel) -> bool:
    """Whether the reads of the longest list, one after the other, take no longer than the passes of a scatter: it clears
    and resolves its accumulators behind barriers of their own."""
    return longest <= LONGEST and longest * model.fetch_latency <= 2 * (model.dispatch + model.barrier)
