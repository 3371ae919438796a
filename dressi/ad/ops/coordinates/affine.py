"""Indices that are affine in the texel: found by looking at what computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...graph import Variable
from ...graph.index_map import Affine, IndexMap
from ..pixel.arithmetic import Add, Clamp, Div, Mod, Mul, Sub
from ..pixel.constant import Constant
from ..pixel.math import Neg
from ..pixel.vector import Construct, Swizzle
from .coordinates import LinearIndex, PixelCoordinates, TileIndex, shape_of

Affines = tuple[Affine, ...]
"""One for each component of an integer value, over the axes n, c, y, x of its texels."""
LARGEST = 1 << 31


def affine(index: Variable) -> Affines | None:
    """The components of an INT or IVECn as affine functions of the texel; None if they are not, or may overflow."""
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


def table_map(table: Variable, index: Variable) -> IndexMap | None:
    """The map by which ``F.lookup`` reads a table at an affine index; None if the index is not affine, or if an INT, which
    counts the rows one after the other, has no column and row that are."""
    border, clamped = "zero", _clamped(index, table)
    if clamped is not None:
        index, border = clamped, "clamp"
    parts, extents = affine(index), shape_of(index.domain)
    if parts is None:
        return None
    x, y = parts if len(parts) == 2 else _column_and_row(parts[0], table.size, extents) or (None, None)
    if x is None or y is None:
        return None
    shared = {"n": Affine()} if table.tiles == 1 and 0 in {*x.axes, *y.axes} else {}
    return IndexMap.of(border=border, x=x, y=y, **shared)


def _clamped(index: Variable, table: Variable) -> Variable | None:
    """What an index is before it is clamped to the texels of the table."""
    if not isinstance(index.creator, Clamp) or index.vtype.components != 2:
        return None
    x, low, high = index.creator.inputs
    ends = [affine(v) or () for v in (low, high)]
    ends = [e * 2 if len(e) == 1 else e for e in ends]
    last = tuple(Affine((), n - 1) for n in table.size)
    return x if x.domain == index.domain and ends == [(Affine(),) * 2, last] else None


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
