"""Known values: what Functions make at pixels where some images have known values, such as -1 of a raster without a hit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ....ad.graph import Function, RasterFunction, ScatterFunction, Variable
from ....ad.types import Access

HIT_NOTHING = np.array(-1)
"""The value of a raster where no primitive is drawn."""


def adds_nothing(f: ScatterFunction, known: Mapping[Variable, np.ndarray]) -> bool:
    """Whether all values of a scatter are zero."""
    return f.operation == "add" and all(v in known and not known[v].any() for v, _ in f.pairs)


def values_where(
    functions: Iterable[Function], assumed: Mapping[Variable, np.ndarray]
) -> dict[Variable, np.ndarray]:
    """The known values of Functions (producers first) at a pixel where Variables have the ``assumed`` values, as devices
    store them. It holds the assumed values as well."""
    return values_around(functions, assumed, 0)[0]


def values_around(
    functions: Iterable[Function], assumed: Mapping[Variable, np.ndarray], halo: int
) -> tuple[dict[Variable, np.ndarray], ...]:
    """``values_where`` of a pixel around which the assumed values hold within ``halo`` texels along both axes: what has its
    value within 0, 1, ..., ``halo`` texels."""
    functions = tuple(functions)
    found: tuple[dict[Variable, np.ndarray], ...] = ()
    for _ in range(halo + 1):
        found = (_values(functions, assumed, found), *found)
    return found


def _values(
    functions: Iterable[Function],
    assumed: Mapping[Variable, np.ndarray],
    around: Sequence[Mapping[Variable, np.ndarray]],
) -> dict[Variable, np.ndarray]:
    """``values_where``, given what has its value within 1, 2, ... texels of the pixel."""
    known = dict(assumed)
    drawn: list[RasterFunction] = []
    with np.errstate(all="ignore"):
        for f in functions:
            if isinstance(f, RasterFunction):
                if f.output in known:
                    drawn.append(f)
                elif any(_hits_within(f, other) for other in drawn):
                    known[f.output] = HIT_NOTHING
                continue
            if f.output in known or isinstance(f, ScatterFunction):
                continue
            here = {}
            for i, (x, _, access, _) in enumerate(f.edges):
                value = known.get(x) if access is Access.SAME_PIXEL else _fetched(f, x, access, known, around)
                if value is not None:
                    here[i] = value
            if f.inputs and not here:
                continue
            found = f.known_value(here)
            if found is not None:
                value = np.asarray(found, f.output.vtype.dtype)
                if np.isfinite(value).all():
                    known[f.output] = value.astype(np.int64 if f.output.vtype.is_int else np.float64)
    return known


def _fetched(
    f: Function,
    x: Variable,
    access: Access,
    known: Mapping[Variable, np.ndarray],
    around: Sequence[Mapping[Variable, np.ndarray]],
) -> np.ndarray | None:
    """The known value of an input of a Function at all texels that it reads."""
    if access is not Access.FETCH or f.footprint > len(around) or x.domain != f.output.domain:
        return None
    return (known, *around)[int(f.footprint)].get(x)


def _hits_within(f: RasterFunction, other: RasterFunction) -> bool:
    """Whether ``f`` hits nothing wherever ``other`` hits nothing: it draws the same primitives with the same depths,
    and keeps no more of their fragments."""
    a, b = f.fragment, other.fragment
    shape = [(r.indexed, r.masked, r.size, r.batch, r.triangles, r.triangles_per_face) for r in (f, other)]
    if a is None or b is None or shape[0] != shape[1]:
        return False
    if f.inputs[: f.pulled] != other.inputs[: f.pulled]:
        return False
    numbers: dict[tuple, int] = {}
    mine, theirs = _structure(f, numbers), _structure(other, numbers)
    if mine[a.depth] != theirs[b.depth]:
        return False
    if b.keep is None:
        return True
    same = {v: np.zeros(()) for v, number in mine.items() if number == theirs[b.keep]}
    kept = None if a.keep is None else values_where(a.functions, same).get(a.keep)
    return kept is not None and not kept.any()


def _structure(f: RasterFunction, numbers: dict[tuple, int]) -> dict[Variable, int]:
    """A number for each Variable of the fragment sub-graph: equal ones have equal values in the same fragment."""
    graph = f.fragment
    found = {graph.face: -1}
    keys = [(v, ("read", x.id)) for v, x in zip(graph.formals, f.externals, strict=True)]
    for v, key in keys:
        found[v] = numbers.setdefault(key, len(numbers))
    for g in graph.functions:
        key = (*g.identity, *(found[x] for x in g.inputs))
        found[g.output] = numbers.setdefault(key, len(numbers))
    return found
