"""Coordinates of texels, and indices that are affine in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .evaluate import values_at
from .graph import At, Domain, PixelFunction, Variable, domain_of
from .graph.index_map import BORDERS, Affine, IndexMap, mirror_period, wrapped
from .ops.pixel.arithmetic import Add, Div, Mod, Mul, Sub
from .ops.pixel.compare import Select
from .ops.pixel.constant import Constant
from .ops.pixel.kinds import Pointwise
from .ops.pixel.math import Convert, Neg
from .ops.pixel.vector import Construct, Swizzle
from .traversal import topological_order
from .types import INT, IVEC2, Access, Size

__all__ = ["linear_index", "pixel_coordinates", "tile_index"]


class Coordinates(PixelFunction):
    """The base of Functions without inputs whose value is the place of the texel."""

    operations = 1.0
    zero_derivative = True
    fields = ("domain",)
    domain: Domain

    def infer(self):
        return INT, self.domain


class PixelCoordinates(Coordinates):
    """IVEC2: the coordinates of the texel in its tile."""

    glsl = "pixel"

    def infer(self):
        return IVEC2, self.domain

    def evaluate(self, at, *x):
        return np.stack(np.broadcast_arrays(at.x, at.y, at.tile)[:2], axis=-1)


class LinearIndex(Coordinates):
    """INT: y * W + x."""

    operations = 3.0
    glsl = "pixel.y * $size.x + pixel.x"

    def evaluate(self, at, *x):
        return at.y * self.domain.size[0] + at.x + 0 * at.tile


class ChannelIndex(Coordinates):
    """INT: the number of the channel."""

    @cached_property
    def glsl(self):
        return f"tile % {self.domain.channels}"

    def evaluate(self, at, *x):
        return at.tile % self.domain.channels + 0 * at.x + 0 * at.y


class TileIndex(Coordinates):
    """INT: the number of the tile in the batch."""

    glsl = "tile"

    def evaluate(self, at, *x):
        return at.tile + 0 * at.x + 0 * at.y


def pixel_coordinates(size: Size, batch: int = 1) -> Variable:
    """IVEC2: the texel (x, y) inside its tile, for every texel of a size (W, H) and batch. Its centre is (x +
    0.5, y + 0.5).

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.pixel_coordinates((2, 2)))[0].tolist()
    [[[0, 0], [1, 0]], [[0, 1], [1, 1]]]
    """
    return PixelCoordinates(domain_of(size, batch)).output


def linear_index(size: Size, batch: int = 1) -> Variable:
    """INT: y * W + x, for every texel of a size (W, H) and batch; the entry of a list that an image holds row
    by row.

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.linear_index((3, 2)))[0].tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    return LinearIndex(domain_of(size, batch)).output


def tile_index(size: Size, batch: int) -> Variable:
    """INT: the number of the tile in the batch, for every texel of a size (W, H) and batch.

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.tile_index((2, 1), 3)).tolist()
    [[[0, 0]], [[1, 1]], [[2, 2]]]
    """
    return TileIndex(domain_of(size, batch)).output


def shape_of(domain: Domain) -> tuple[int, int, int, int]:
    """The extents along the axes n, c, y, x of a map that takes tiles for images."""
    (width, height), tiles, _ = domain
    return tiles, 1, height, width


# Indices that are affine in the texel, with or without a border: found by looking at what computes them, or
# at their values.

Affines = tuple[Affine, ...]
"""One for each component of an integer value, over the axes n, c, y, x of its texels."""
LARGEST = 1 << 31


def affine(index: Variable) -> Affines | None:
    """The components of an INT or IVECn as affine functions of the texel; None if they are not, or may
    overflow."""
    found: dict[Variable, Affines] = {}
    stack = [index]
    while stack:
        v = stack[-1]
        if v in found:
            stack.pop()
            continue
        rule = RULES.get(type(v.creator))
        if rule is None or v.creator is None:
            return None
        waiting = [x for x in v.creator.inputs if x not in found]
        if waiting:
            stack += waiting
            continue
        value = rule(v.creator, *(found[x] for x in v.creator.inputs))
        if value is None or any(
            max(map(abs, a._replace(divisor=1).bounds(shape_of(v.domain)))) >= LARGEST for a in value
        ):
            return None
        found[v] = value
    return found[index]


def table_maps(table: Variable, index: Variable) -> list[IndexMap]:
    """The maps by which ``F.lookup`` reads a table at an affine index, one after the other: two where rows
    and columns have different borders. Empty where the index is not affine within a border, or where an INT,
    which counts the rows one after the other, has no column and row that are."""
    parts, extents = affine(index), shape_of(index.domain)
    if parts is not None:
        x, y = parts if len(parts) == 2 else _column_and_row(parts[0], table.size, extents) or (None, None)
        if x is not None and y is not None:
            shared = table.tiles == 1 and 0 in {*x.axes, *y.axes}
            return [IndexMap.of(x=x, y=y, n=Affine() if shared else Affine.axis(0))]
    fits = _fits(table, index)
    if fits is None:
        return []
    (x, across), (y, down) = fits
    inside = [a.within(e, extents) for a, e in zip((x, y), table.size, strict=True)]
    if across == down or any(inside):
        return [IndexMap.of(x=x, y=y, border=down if inside[0] else across)]
    row = y.axes[0] if y.axes else 2
    return [IndexMap.of(y=_on(y, 2), border=down), IndexMap.of(x=x, y=Affine.axis(row), border=across)]


def _on(affine: Affine, axis: int) -> Affine:
    """The same of another axis."""
    return Affine.of({axis: sum(k for _, k in affine.terms)}, affine.constant, affine.divisor)


def _column_and_row(
    index: Affine, size: tuple[int, int], extents: tuple[int, ...]
) -> tuple[Affine, Affine] | None:
    """index = column + width * row, with a column inside of the table at every texel."""
    width, height = size
    if height == 1:
        return index, Affine()
    if not index.whole:
        return None
    row = {a: k // width for a, k in index.terms if k % width == 0}
    column = Affine.of({a: k for a, k in index.terms if k % width}, index.constant)
    first = column.bounds(extents)[0] // width
    column = column.plus(-first * width)
    return (column, Affine.of(row, first)) if column.within(width, extents) else None


# ---- rules: what a Function makes of affine values
def _places(f: Any) -> Affines:
    n, c, y, x = (Affine.axis(a) if extent > 1 else Affine() for a, extent in enumerate(shape_of(f.domain)))
    if isinstance(f, PixelCoordinates):
        return x, y
    terms = {3: 1, 2: f.domain.size[0]} if isinstance(f, LinearIndex) else {0: shape_of(f.domain)[1], 1: 1}
    return (Affine.of({a: k for a, k in terms.items() if (n, c, y, x)[a].terms}),)


def _combined(f: Any, *values: Affines, scales: tuple[int, ...]) -> Affines | None:
    """The sum of the values times the scales, by components."""
    width = max(map(len, values))
    rows = zip(*(v * width if len(v) == 1 else v for v in values), strict=True)
    whole = Affine.of(dict(enumerate(scales)))
    found = [whole.substituted(dict(enumerate(row))) for row in rows]
    return None if any(a is None for a in found) else tuple(found)  # type: ignore[return-value]


def _number(value: Affines) -> int | None:
    """The value, if it is one number in all components."""
    return value[0].constant if len(set(value)) == 1 and not value[0].terms else None


def _product(f: Any, a: Affines, b: Affines) -> Affines | None:
    width = f.output.vtype.components
    for x, scale in ((a, b), (b, a)):
        if not any(s.terms for s in scale):
            pairs = zip(*(v * width if len(v) == 1 else v for v in (x, scale)), strict=True)
            found = [_combined(f, (e,), scales=(s.constant,)) for e, s in pairs]
            return None if None in found else tuple(parts[0] for parts in found if parts)
    return None


def _quotient(f: Any, a: Affines, b: Affines) -> Affines | None:
    d = _number(b)
    if d is None or d < 1 or any(x.bounds(shape_of(f.output.domain))[0] < 0 for x in a):
        return None  # devices round quotients to zero
    found = [Affine.of({0: 1}, 0, d).substituted({0: x}) for x in a]
    return None if any(x is None for x in found) else tuple(found)  # type: ignore[return-value]


def _remainder(f: Any, a: Affines, b: Affines) -> Affines | None:
    d = _number(b)
    return a if d is not None and all(x.within(d, shape_of(f.output.domain)) for x in a) else None


def _parts(f: Any, *values: Affines) -> Affines:
    together = sum(values, ())
    return together * f.output.vtype.components if len(together) == 1 else together


RULES: dict[Any, Callable[..., Affines | None]] = {
    PixelCoordinates: _places,
    LinearIndex: _places,
    TileIndex: _places,
    Constant: lambda f: tuple(Affine((), k) for k in f.value) if f.vtype.is_int else None,
    Add: lambda f, a, b: _combined(f, a, b, scales=(1, 1)),
    Sub: lambda f, a, b: _combined(f, a, b, scales=(1, -1)),
    Neg: lambda f, a: _combined(f, a, scales=(-1,)),
    Mul: _product,
    Div: _quotient,
    Mod: _remainder,
    Swizzle: lambda f, a: tuple(a[k] for k in f.keys),
    Construct: _parts,
}


# ---- indices that are affine within a border: found by their values, whatever computes them
LONGEST = 1 << 16
"""Values of an index: of one with more no border is looked for."""
STRIDES = range(1, 33)
"""Divisors that are tried."""
Fit = tuple[Affine, str]


def _fits(table: Variable, index: Variable) -> tuple[Fit, Fit] | None:
    """(column, row) of the texels of a table that an index reads, each affine in one axis within a border;
    None if they are not. Clamped, mirrored, wrapped and rounded indices are found, by integers or floats, as
    they equal such a one at every texel."""
    needed = _needed(index)
    if needed is None:
        return None
    (width, height), _, _ = index.domain
    if index.vtype.components == 1 and table.size[1] > 1:
        if width * height > LONGEST or needed[0] - {2, 3}:
            return None
        number = np.broadcast_to(_values(index, (2, 3)), (height, width))
        row, column = np.divmod(number, table.size[0])
        if (column != column[:1]).any() or (row != row[:, :1]).any():
            return None
        x, y = _fitted(column[0], table.size[0], 3), _fitted(row[:, 0], table.size[1], 2)
        return None if x is None or y is None else (x, y)
    if max(width, height) > LONGEST or any(len(axes) > 1 or 0 in axes for axes in needed):
        return None
    found: list[Fit] = []
    for k, axes in enumerate(needed):
        axis = min(axes, default=3)
        values = _values(index, (axis,)).reshape(-1, index.vtype.components)[:, k]
        values = np.broadcast_to(values, (width if axis == 3 else height,))
        fit = _fitted(values, table.size[k], axis)
        if fit is None:
            return None
        found.append(fit)
    return (found[0], found[1]) if len(found) == 2 else (found[0], (Affine(), "zero"))


def _values(index: Variable, axes: tuple[int, ...]) -> np.ndarray:
    """The values of an index along these axes, rows and columns, at the first entry of the others."""
    (width, height), _, _ = index.domain
    none = np.zeros((1, 1, 1), int)
    x = np.arange(width).reshape(1, 1, -1) if 3 in axes else none
    y = np.arange(height).reshape(1, -1, 1) if 2 in axes else none
    known: dict[Variable, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for f in topological_order([index]):
            # Images of one column or row are broadcast: they are looked at there.
            at = At(x if f.output.size[0] > 1 else none, y if f.output.size[1] > 1 else none, none)
            known[f.output] = values_at(f, at, [known[v] for v in f.inputs])
    return known[index][0]


def _needed(index: Variable) -> tuple[frozenset[int], ...] | None:
    """The axes n, y, x (0, 2, 3) that each component of a value depends on; None if it depends on anything
    else."""
    found: dict[Variable, tuple[frozenset[int], ...]] = {}
    for f in topological_order([index]):
        components = f.output.vtype.components
        if not all(x in found for x in f.inputs) or {*f.access} - {Access.SAME_PIXEL}:
            return None
        given = [found[x] for x in f.inputs]
        if isinstance(f, PixelCoordinates | LinearIndex | TileIndex):
            found[f.output] = tuple(frozenset(a.axes) for a in _places(f))
        elif f.places or not isinstance(f, PixelFunction):
            return None
        elif isinstance(f, Swizzle):
            found[f.output] = tuple(given[0][k] for k in f.keys)
        elif isinstance(f, Construct):
            together = sum(given, ())
            found[f.output] = together * components if len(together) == 1 else together
        elif isinstance(f, Pointwise | Convert | Select):
            wide = [g * components if len(g) == 1 else g for g in given]
            found[f.output] = tuple(frozenset().union(*axes) for axes in zip(*wide, strict=True))
        else:
            found[f.output] = (frozenset().union(*(axes for g in given for axes in g)),) * components
    return found.get(index)


def _fitted(values: np.ndarray, extent: int, axis: int) -> Fit | None:
    """An Affine of the axis, and a border, that read these texels of ``extent``; None if there are none.
    Values that are no texels may be any others that are none.

    >>> _fitted(np.array([0, 0, 0, 1, 2, 3, 3]), 4, 3), _fitted(np.array([2, 1, 0, 1, 2]), 3, 3), _fitted(np.array([0, 2, 1]), 4, 3)
    ((a3 - 2, 'clamp'), (a3 - 2, 'reflect'), None)
    """
    at = np.arange(len(values))
    texel = (values >= 0) & (values < extent)

    def fits(affine: Affine, border: str) -> bool:
        index = np.asarray(affine.values({axis: at}))
        if border != "zero":
            return bool((wrapped(index, extent, border) == values).all())
        inside = (index >= 0) & (index < extent)
        return bool((inside == texel).all() and (index == values)[texel].all())

    for border in ("zero", "clamp") if texel.all() else ("zero",):
        inner = texel if border == "zero" else (values > 0) & (values < extent - 1)
        for affine in _through(at, values, inner, axis, extent, border):
            if fits(affine, border):
                return affine, border
    for border in BORDERS if texel.all() and extent > 1 else ():
        if border in ("zero", "clamp"):
            continue
        period, last = (extent, None) if border == "repeat" else mirror_period(extent, border)
        starts = [int(values[0])] if last is None else [int(values[0]), last - int(values[0])]
        places = [
            Affine.of({axis: by}, start + turn * period)
            for by in (1, -1, 2, -2, 3, -3, 4, -4)
            for start in starts
            for turn in (0, -1, 1)
        ]
        found = [p for p in places if fits(p, border)]
        if found:

            def leaving(affine: Affine) -> int:
                low, high = affine.bounds({axis: len(values)})
                return max(-low, 0) + max(high + 1 - extent, 0)

            return min(found, key=leaving), border
    return None


def _through(
    at: np.ndarray, values: np.ndarray, inner: np.ndarray, axis: int, extent: int, border: str
) -> Iterator[Affine]:
    """Affines of an axis that have the values where these are ``inner``, beyond its border where they are
    not."""
    x, v = at[inner], values[inner]
    if len(x) == 0:
        # Nothing is read, or texels at the edge alone: a step between them.
        if border == "clamp" and extent == 2:
            up = np.flatnonzero(np.diff(values))
            if len(up) == 1:
                by = 1 if values[-1] else -1
                yield Affine.of({axis: by}, (0 if by > 0 else 1) - by * int(up[0]))
        return
    rise, run = int(v[-1] - v[0]), int(x[-1] - x[0])
    for d in STRIDES:
        slopes = {round(rise * d / run) + k for k in (-1, 0, 1)} if run else {0, 1, -1}
        for a in sorted(slopes, key=abs):
            if math.gcd(a, d) > 1 or (a == 0 and d > 1):
                continue
            # d v <= a x + c <= d v + d - 1
            low, high = int((d * v - a * x).max()), int((d * v + d - 1 - a * x).min())
            if border == "clamp":
                low_edge, high_edge = ~inner & (values == 0), ~inner & (values == extent - 1)
                if low_edge.any():
                    high = min(high, int((d - 1 - a * at[low_edge]).min()))
                if high_edge.any():
                    low = max(low, int((d * (extent - 1) - a * at[high_edge]).max()))
            if low <= high:
                yield Affine.of({axis: a}, low, d)
                if high > low:
                    yield Affine.of({axis: a}, high, d)
