"""Sparse Jacobians: which entries a graph lets be other than zero, few products that hold them, and rows.

What texels compute from their own values is written out entry by entry, without the zeros. Other graphs are
evaluated by seeds: columns that meet in no row share one forward product, and rows that meet in no column one
product in reverse (Curtis, Powell and Reid 1974; both at once: Coleman and Verma 1998).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import or_
from typing import Any

import numpy as np

from ...errors import GraphError
from ..contract.terms import Terms, shape_of
from ..graph import Function, Variable
from ..graph.evaluation import evaluate
from ..graph.index_map import IndexMap, wrapped
from ..graph.traversal import topological_order
from ..graph.types import FLOAT, Access
from ..ops.image.lookup import Lookup, texel_of
from ..transform.gradient import blocks_derivatives, depending, jvp, vjp
from ..transform.simplify import paused
from .jacobian import LIMIT, Writer, jacobian_of_texels, of_components
from .reader import Reader, floats, readable
from .table import Table

__all__ = ["sparse_jacobian"]

MOST_TERMS = 5_000_000
"""Terms of a contraction up to which the texels that it reads are listed: some 300 MB."""


@dataclass(frozen=True, eq=False)
class SparseJacobian:
    """A Jacobian in compressed rows, of ``sparse_jacobian``.

    Row and column numbers count the components, texel by texel as ``evaluate`` returns them, through all
    outputs and all inputs. shape: (rows, columns). indices: the columns of the entries, row after row, those
    of row k from indptr[k] to indptr[k + 1]. products: Variables that hold the entries; evaluate them, or
    make them the outputs of a program. sweeps: how many products with seeds they are, forward and in
    reverse; (0, 0) if they are the entries themselves. source: where the flat products have each entry.
    ``scipy.sparse.csr_array((J.values(evaluated), J.indices, J.indptr), J.shape)`` is the matrix.
    """

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    products: tuple[Variable, ...]
    sweeps: tuple[int, int]
    source: np.ndarray

    def values(self, evaluated: Sequence[np.ndarray]) -> np.ndarray:
        """The values of the entries, in the order of ``indices``, from those of ``products``."""
        return np.concatenate([np.empty(0), *(np.ravel(x) for x in evaluated)])[self.source]


@paused()
def sparse_jacobian(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    *,
    limit: int | None = LIMIT,
) -> SparseJacobian:
    """The Jacobian of all texels of the outputs by all texels of the inputs, without the entries that are
    zero for every value.

    outputs, inputs: FLOAT, VECn or MATn, one or several; an input may be an intermediate. What texels compute
    from their own values is written out as by ``jacobian``, whose ``limit`` holds. Where texels mix, products
    with seeds hold the entries; which texels a Function reads, its maps say, and for a ``lookup`` the values
    that its index has now. Functions that may read anything have full rows. The products are differentiable
    again; evaluate them with indices of lookups as they are now. Raises GraphError as ``jvp``, for an input
    given twice, for an index without values, and for contractions of more than five million terms.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> J = F.sparse_jacobian(F.shift(x, 1, 0) * x, x)
    >>> J.shape, len(J.indices), J.sweeps
    ((5, 5), 9, (2, 0))
    >>> J.indices[J.indptr[2] : J.indptr[3]].tolist(), J.values(evaluate(J.products))[3:5].tolist()
    ([1, 2], [3.0, 2.0])
    """
    outputs, inputs = floats(outputs, "a Jacobian", "output"), floats(inputs, "a Jacobian", "input")
    if len(set(inputs)) < len(inputs):
        raise GraphError("a Jacobian has an input twice: give each once")
    steps = jacobian_of_texels(outputs, inputs, limit)
    if steps is None:
        return _by_seeds(outputs, inputs)
    entries = iter(zip(steps.roots, Writer(steps).roots(), strict=True))
    products, rows, columns = list[Variable](), [np.empty(0, int)], [np.empty(0, int)]
    row = 0
    for y in outputs:
        size, texels = y.vtype.components, np.arange(y.domain.texels)
        for k in range(size):
            column = 0
            for x in inputs:
                width, there = x.vtype.components, _same_texel(x, y)
                for j in range(width):
                    root, entry = next(entries)
                    if root:
                        products.append(of_components([entry], FLOAT, y.domain))
                        rows.append(row + k + size * texels)
                        columns.append(column + j + width * there)
                column += _size([x])
        row += _size([y])
    all_rows, all_columns = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((all_columns, all_rows))
    shape = row, _size(inputs)
    return SparseJacobian(shape, _starts(all_rows, row), all_columns[order], tuple(products), (0, 0), order)


def _starts(rows: np.ndarray, count: int) -> np.ndarray:
    return np.append(0, np.cumsum(np.bincount(rows, minlength=count)))


def _size(variables: Iterable[Variable]) -> int:
    return sum(v.domain.texels * v.vtype.components for v in variables)


def _by_seeds(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> SparseJacobian:
    rows, columns = sparsity(outputs, inputs)
    shape = height, width = _size(outputs), _size(inputs)
    color, in_reverse = compressed(rows, columns, shape)
    forward, reverse = (int(color[at].max(initial=-1)) + 1 for at in (~in_reverse, in_reverse))
    products = list[Variable]()
    for k in range(forward):
        products += jvp(outputs, inputs, _seeds(inputs, columns[~in_reverse & (color == k)]))
    for k in range(reverse):
        products += vjp(outputs, inputs, _seeds(outputs, rows[in_reverse & (color == k)]))
    source = np.where(in_reverse, forward * height + color * width + columns, color * height + rows)
    return SparseJacobian(shape, _starts(rows, height), columns, tuple(products), (forward, reverse), source)


def _seeds(variables: Sequence[Variable], chosen: np.ndarray) -> list[Variable]:
    """1 at the chosen components, counted through all of the Variables, and 0 elsewhere."""
    values, first, seeds = np.zeros(_size(variables), np.float32), 0, list[Variable]()
    values[chosen] = 1.0
    for v in variables:
        own = values[first : first + _size([v])].reshape(v.shape)
        seeds.append(Variable(v.vtype, v.size, v.batch, data=own, count=v.count, channels=v.channels))
        first += own.size
    return seeds


# Which columns share a product. Rows or columns with many entries go the other way than the rest.


def compressed(
    rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """(color, in_reverse) of each entry, with the fewest products found: entries of one color and direction
    come from one product."""
    ways = list[tuple[int, np.ndarray, np.ndarray]]()
    for at, size in ((rows, shape[0]), (columns, shape[1])):
        per = np.bincount(at, minlength=size)
        for most in [*np.unique(per)[:-5:-1], -1]:
            in_reverse = (per[at] > most) == (at is rows)
            by_column = colored(columns, rows, ~in_reverse, shape[1])
            by_row = colored(rows, columns, in_reverse, shape[0])
            color = np.where(in_reverse, by_row[rows], by_column[columns])
            ways.append((by_column.max(initial=-1) + by_row.max(initial=-1), color, in_reverse))
    return min(ways, key=lambda way: way[0])[1:]


def colored(items: np.ndarray, meets: np.ndarray, wanted: np.ndarray, count: int) -> np.ndarray:
    """A color of each item that has a wanted entry, -1 of others. Two items have different ones if one has
    any entry where the other has a wanted one. items, meets: of each entry, its item and where it meets
    others. Greedy, in two orders: as they are, and the fullest first."""
    entries = defaultdict[int, list[tuple[int, bool]]](list)
    for n, place, wants in zip(items.tolist(), meets.tolist(), wanted.tolist(), strict=True):
        entries[n].append((place, wants))
    numbers = np.unique(items[wanted]).tolist()
    ways = list[np.ndarray]()
    for turn in (numbers, sorted(numbers, key=lambda n: -len(entries[n]))):
        used, claimed, colors = Counter[int](), Counter[int](), np.full(count, -1)
        for n in turn:
            taken = reduce(or_, [(used if wants else claimed)[place] for place, wants in entries[n]])
            free = ~taken & (taken + 1)  # the lowest color that is left, as a bit
            colors[n] = free.bit_length() - 1
            for place, wants in entries[n]:
                used[place] |= free
                claimed[place] |= free if wants else 0
        ways.append(colors)
    return min(ways, key=lambda colors: colors.max(initial=-1))


# Which texels of the inputs a texel depends on, Function by Function.


Pairs = tuple[np.ndarray, np.ndarray]
"""Numbers of what is made, and of what it is made of."""


def sparsity(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> Pairs:
    """(rows, columns) of the entries that may be other than zero, row after row."""
    total, first, known = _size(inputs), 0, dict[Variable, Pairs]()
    for x in inputs:
        known[x] = np.arange(_size([x])), first + np.arange(_size([x]))
        first += _size([x])
    order = topological_order(outputs)
    active = depending(order, inputs)
    for f in order:
        if f.output in active and f.output not in known and not blocks_derivatives(f):
            keys = [np.empty(0, int)]
            for k, x in enumerate(f.inputs):
                if x in known and not (isinstance(f, Lookup) and k == 1):
                    rows, columns = _through(_reads(f, k), known[x], _size([x]))
                    keys.append(np.unique(rows * total + columns))
            known[f.output] = np.divmod(np.unique(np.concatenate(keys)), total)
    rows, columns, row = [np.empty(0, int)], [np.empty(0, int)], 0
    for y in outputs:
        if y in known:
            rows.append(row + known[y][0])
            columns.append(known[y][1])
        row += _size([y])
    return np.concatenate(rows), np.concatenate(columns)


def _through(reads: Pairs, below: Pairs, size: int) -> Pairs:
    """What is made of values, by what these are made of. below: ordered; size: of the values."""
    starts = _starts(below[0], size)
    first, counts = starts[reads[1]], np.diff(starts)[reads[1]]
    at = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    return np.repeat(reads[0], counts), below[1][at]


def _reads(f: Function, k: int) -> Pairs:
    """The components of the output, and those of input k of which they may be made."""
    x, y = f.inputs[k], f.output
    parts = np.ones((y.vtype.components, x.vtype.components), bool)
    if isinstance(f, Terms) and (f.place is None or len(f.extents) - len(f.reduced) == 4):
        texels, parts = _terms(f, k), _components(f.body.root, f.body.formals[k], parts)
    elif isinstance(f, Lookup):
        texels, parts = _looked_up(f), np.eye(len(parts), dtype=bool)
    elif f.access[k] is Access.SAME_PIXEL and f.working_domain == y.domain:
        texels = np.arange(y.domain.texels), _same_texel(x, y)
        if readable(f):
            formals = [Variable(v.vtype) for v in f.inputs]
            parts = _components(f.rebuild(*formals).output, formals[k], parts)
    else:
        made, given = np.indices((y.domain.texels, x.domain.texels))
        texels = made.ravel(), given.ravel()
    a, b = np.nonzero(parts)
    made, given = (t[:, None] * n + p for t, n, p in zip(texels, parts.shape, (a, b), strict=True))
    return made.ravel(), given.ravel()


def _components(y: Variable, x: Variable, unknown: np.ndarray) -> np.ndarray:
    """Which components of y, of one texel, are made of which of x."""
    if not all(map(readable, topological_order([y]))):
        return unknown
    reader = Reader(Table(), [x])
    (values,) = reader.read([y])
    below = [reader.table.order([v.entry]) if v.factor else () for v in values]
    return np.array([[s.entry in entries for s in reader.leaves[x]] for entries in below])


def _same_texel(x: Variable, y: Variable) -> np.ndarray:
    """The texel of x that each texel of y reads at its own place."""
    own = np.arange(x.domain.texels).reshape(shape_of(x))
    return np.broadcast_to(own, shape_of(y)).ravel()


def _looked_up(f: Lookup) -> Pairs:
    """(texels of the output, texels of the table) for the values that the index has now."""
    table, index = f.inputs
    x, y, inside = texel_of(evaluate([index])[0], index.vtype.is_scalar, table.size)
    n, c, height, width = shape_of(table)
    tile = np.arange(n * c).reshape(n, c, 1, 1) * (height * width)
    at, shape = (y * width + x).reshape(shape_of(index)), shape_of(f.output)
    texels = np.broadcast_to(tile + at, shape).ravel()
    seen = np.broadcast_to(inside.reshape(shape_of(index)), shape).ravel()
    return np.flatnonzero(seen), texels[seen]


def _terms(f: Terms, k: int) -> Pairs:
    """(texels of the output, texels of input k) of all terms."""
    axes = [a for a in range(len(f.extents)) if f.place is None or a in f.reduced_axes]
    extents = [f.extents[a] for a in axes]
    if (count := prod(extents)) > MOST_TERMS:
        raise f.fail(
            f"has {count:,} terms, more than the {MOST_TERMS:,} whose texels a sparse Jacobian lists; use jvp"
            " or vjp"
        )
    at = dict(zip(axes, np.unravel_index(np.arange(count), extents), strict=True))
    inside = np.ones(count, bool)
    for affine, extent in f.guards:
        index = affine.values(at)
        inside &= (index >= 0) & (index < extent) & affine.whole_at(at)
    texel = _located(f.maps[k], shape_of(f.inputs[k]), at, inside)
    if f.place is None:  # the axes of the output are the first, and the terms of a texel follow each other
        taken = np.arange(count) // prod(f.reduced)
    else:
        taken = _located(f.place, f.shape, at, inside)
    return taken[inside], texel[inside]


def _located(place: IndexMap, shape: Sequence[int], at: Mapping[int, Any], inside: np.ndarray) -> np.ndarray:
    """The numbers of the texels at a place; ``inside`` is cleared where there is none."""
    texel = np.zeros(len(inside), int)
    for affine, extent in zip(place.affines, shape, strict=True):
        index = np.broadcast_to(affine.values(at), inside.shape)
        inside &= np.broadcast_to(affine.whole_at(at), inside.shape)
        if place.border == "zero":
            inside &= (index >= 0) & (index < extent)
        texel = texel * extent + wrapped(index, extent, place.border)
    return texel
