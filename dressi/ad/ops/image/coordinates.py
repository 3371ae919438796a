"""Coordinates of texels, indices that are affine in them, and entries of lists, which lie in rows of ``LIST_WIDTH``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ....errors import GraphError
from ...graph import At, Domain, PixelFunction, Variable, domain_of
from ...graph.evaluation import values_at
from ...graph.index_map import BORDERS, Affine, IndexMap, mirror_period, wrapped
from ...graph.traversal import topological_order
from ...graph.types import INT, IVEC2, Access, Size
from ..pixel.arithmetic import Add, Div, Mod, Mul, Sub
from ..pixel.compare import Select, less, select
from ..pixel.constant import Constant
from ..pixel.kinds import Pointwise
from ..pixel.math import Convert, Neg
from ..pixel.vector import Construct, Swizzle

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
    """IVEC2: the texel (x, y) in its tile, for a size (W, H) and batch. Its centre is (x + 0.5, y + 0.5).

    No derivative. Raises GraphError for sizes that are not whole and positive.

    >>> evaluate(F.pixel_coordinates((2, 2)))[0].tolist()
    [[[0, 0], [1, 0]], [[0, 1], [1, 1]]]
    """
    return PixelCoordinates(domain_of(size, batch)).output


def linear_index(size: Size, batch: int = 1) -> Variable:
    """INT: y * W + x, for a size (W, H) and batch: the entry of a list that an image holds row by row.

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


# Indices that are affine in the texel: read off what computes them, or, with a border, off their values.

Affines = tuple[Affine, ...]
"""One for each component of an integer value, over the axes n, c, y, x of its texels."""
LARGEST = 1 << 31


def affine(index: Variable) -> Affines | None:
    """The components of an INT or IVECn as affine functions of the texel; None if not, or at overflow."""
    known: dict[Variable, Affines] = {}
    for f in topological_order([index]):
        rule = RULES.get(type(f))
        if rule is None or any(x not in known for x in f.inputs):
            return None
        value = rule(f, *(known[x] for x in f.inputs))
        shape = shape_of(f.output.domain)
        if value is None or any(max(map(abs, a._replace(divisor=1).bounds(shape))) >= LARGEST for a in value):
            return None
        known[f.output] = value
    return known.get(index)


def table_maps(table: Variable, index: Variable) -> list[IndexMap]:
    """The maps that replace ``F.lookup`` at an affine index: two, in sequence, where rows and columns have
    different borders. Empty if column and row of the index are not affine within a border."""
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
    by_rows = Affine.of({2: sum(k for _, k in y.terms)}, y.constant, y.divisor)
    return [IndexMap.of(y=by_rows, border=down), IndexMap.of(x=x, y=Affine.axis(row), border=across)]


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
    whole = Affine.of(dict(enumerate(scales)))
    return _all(whole.substituted(dict(enumerate(row))) for row in zip(*_wide(values), strict=True))


def _wide(values: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Scalars broadcast over the components of the widest value."""
    width = max(map(len, values))
    return [v * width if len(v) == 1 else v for v in values]


def _all(parts: Iterable[Affine | None]) -> Affines | None:
    components = tuple(parts)
    return None if None in components else components  # type: ignore[return-value]


def _number(value: Affines) -> int | None:
    """The value, if it is one number in all components."""
    return value[0].constant if len(set(value)) == 1 and not value[0].terms else None


def _product(f: Any, a: Affines, b: Affines) -> Affines | None:
    for x, scale in ((a, b), (b, a)):
        if not any(s.terms for s in scale):
            pairs = zip(*_wide((x, scale)), strict=True)
            return _all(Affine.of({0: s.constant}).substituted({0: e}) for e, s in pairs)
    return None


def _quotient(f: Any, a: Affines, b: Affines) -> Affines | None:
    d = _number(b)
    if d is None or d < 1 or any(x.bounds(shape_of(f.output.domain))[0] < 0 for x in a):
        return None  # devices round quotients to zero
    return _all(Affine.of({0: 1}, 0, d).substituted({0: x}) for x in a)


def _remainder(f: Any, a: Affines, b: Affines) -> Affines | None:
    d = _number(b)
    return a if d is not None and all(x.within(d, shape_of(f.output.domain)) for x in a) else None


def _parts(f: Any, *values: tuple[Any, ...]) -> tuple[Any, ...]:
    together: tuple[Any, ...] = sum(values, ())
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


# ---- indices that are affine within a border: recognised by their values, whatever computes them
LONGEST = 1 << 16  # an index with more values is not tried
STRIDES = range(1, 33)  # divisors that are tried
Fit = tuple[Affine, str]


def _fits(table: Variable, index: Variable) -> tuple[Fit, Fit] | None:
    """(column, row) of the texels of a table that an index reads, each affine in one axis within a border;
    None if they are not. Clamped, mirrored, wrapped and rounded indices equal such a one at every texel."""
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
    fits: list[Fit] = []
    for k, axes in enumerate(needed):
        axis = min(axes, default=3)
        values = _values(index, (axis,)).reshape(-1, index.vtype.components)[:, k]
        fit = _fitted(np.broadcast_to(values, (width if axis == 3 else height,)), table.size[k], axis)
        if fit is None:
            return None
        fits.append(fit)
    return (fits[0], fits[1]) if len(fits) == 2 else (fits[0], (Affine(), "zero"))


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
    """The axes n, y, x (0, 2, 3) that each component depends on; None if it depends on anything else."""
    known: dict[Variable, tuple[frozenset[int], ...]] = {}
    for f in topological_order([index]):
        components = f.output.vtype.components
        if not all(x in known for x in f.inputs) or {*f.access} - {Access.SAME_PIXEL}:
            return None
        given = [known[x] for x in f.inputs]
        if isinstance(f, PixelCoordinates | LinearIndex | TileIndex):
            axes = tuple(frozenset(a.axes) for a in _places(f))
        elif f.places or not isinstance(f, PixelFunction):
            return None
        elif isinstance(f, Swizzle):
            axes = tuple(given[0][k] for k in f.keys)
        elif isinstance(f, Construct):
            axes = _parts(f, *given)
        elif given and isinstance(f, Pointwise | Convert | Select):
            axes = tuple(frozenset[int]().union(*component) for component in zip(*_wide(given), strict=True))
        else:
            axes = (frozenset[int]().union(*sum(given, ())),)
        known[f.output] = axes * components if len(axes) == 1 else axes
    return known.get(index)


def _fitted(values: np.ndarray, extent: int, axis: int) -> Fit | None:
    """An Affine of the axis, and a border, that read these texels of ``extent``; None if there are none.
    Values outside of the extent need not agree.

    >>> _fitted(np.array([0, 0, 0, 1, 2, 3, 3]), 4, 3), _fitted(np.array([2, 1, 0, 1, 2]), 3, 3)
    ((a3 - 2, 'clamp'), (a3 - 2, 'reflect'))
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
        fitting = [p for p in places if fits(p, border)]
        if fitting:
            # The one that leaves the extent least.
            bounds = [p.bounds({axis: len(values)}) for p in fitting]
            beyond = [max(-low, 0) + max(high + 1 - extent, 0) for low, high in bounds]
            return fitting[beyond.index(min(beyond))], border
    return None


def _through(
    at: np.ndarray, values: np.ndarray, inner: np.ndarray, axis: int, extent: int, border: str
) -> Iterator[Affine]:
    """Affines of an axis with these values where they are ``inner``, and beyond the border elsewhere."""
    x, v = at[inner], values[inner]
    if len(x) == 0:
        # Only texels at the edge are read, or none: a step between them.
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


# Texels of images and entries of lists, which lie in rows of ``LIST_WIDTH`` texels.


class Picks(PixelFunction):
    """Inputs (x, index): the texel of x that the index names, 0 where it names none. Linear in x."""

    fetches = 1.0

    @cached_property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    def jvp(self, tangents):
        if tangents[0] is None or self.output.vtype.is_int:
            return None
        return self.rebuild(tangents[0], self.inputs[1]).output


def where_inside(inside: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(inside.reshape(inside.shape + (1,) * (values.ndim - inside.ndim)), values, 0)


def fetch(values: np.ndarray, at: At, x=None, y=None, tile=None) -> np.ndarray:
    """``values[tile, y, x]`` at the texels ``at``, or at given coordinates. Axes of length 1 broadcast."""
    indices = (at.tile if tile is None else tile, at.y if y is None else y, at.x if x is None else x)
    return values[tuple(0 * i if n == 1 else i for n, i in zip(values.shape[:3], indices, strict=True))]


def check_one_row(x: Variable, what: str) -> None:
    """Raises GraphError for a list in several rows: entries across their ends are no neighbours."""
    if x.count is not None and x.size[1] > 1:
        raise GraphError(
            f"{what} of {x}, a list of {x.count} entries, would break it at the ends of rows of {x.size[0]};"
            f" make an image of one row from an array (1, {x.count}), or read entries by F.lookup"
        )


def entries_only(x: Variable, outside: float = 0, of: Variable | None = None) -> Variable:
    """The list x with ``outside`` behind its last entry, where its gradient is 0; x itself if there is no
    such texel. of: the list whose entries these are, if it is not x."""
    rows = x if of is None else of
    if rows.count is None or rows.count == rows.size[0] * rows.size[1]:
        return x
    inside = less(LinearIndex(Domain(rows.size, 1)).output, rows.count)
    return select(inside, x, int(outside) if x.vtype.is_int else float(outside))


def extreme_numbers(x: Variable) -> tuple[float, float]:
    numbers = np.iinfo(np.int32) if x.vtype.is_int else np.finfo(np.float32)
    return float(numbers.min), float(numbers.max)
