"""Known values: what Functions make where some images have known values, such as -1 of a raster."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import heappop, heappush

import numpy as np

from ....ad.graph import Function, PixelFunction, RasterFunction, ScatterFunction, Variable
from ....ad.graph.types import Access

HIT_NOTHING = np.array(-1)
"""The value of a raster where no primitive is drawn."""


def adds_nothing(f: ScatterFunction, known: Mapping[Variable, np.ndarray]) -> bool:
    """Whether all values of a scatter are zero."""
    return f.operation == "add" and all(v in known and not known[v].any() for v, _ in f.pairs)


def values_where(
    functions: Iterable[Function], assumed: Mapping[Variable, np.ndarray]
) -> dict[Variable, np.ndarray]:
    """The known values of Functions (producers first) at a pixel where Variables have the ``assumed`` values,
    as devices store them. It holds the assumed values as well."""
    (known,) = KnownValues(functions).around(assumed, 0)
    return known


class KnownValues:
    """``values_where`` of the same Functions under one assumption after the other. What is known without any
    is found once, and under each only what follows from it is looked at."""

    def __init__(self, functions: Iterable[Function]):
        self.functions = tuple(functions)
        self._readers: dict[Variable, list[int]] = {}
        for k, f in enumerate(self.functions):
            for x in dict.fromkeys(f.inputs):
                self._readers.setdefault(x, []).append(k)
        self._rasters = [k for k, f in enumerate(self.functions) if isinstance(f, RasterFunction)]
        self._alone: list[dict[Variable, np.ndarray]] = []
        self._found: dict[Hashable, tuple[dict[Variable, np.ndarray], ...]] = {}

    def around(
        self, assumed: Mapping[Variable, np.ndarray], halo: int
    ) -> tuple[dict[Variable, np.ndarray], ...]:
        """What has its value within 0, 1, ..., ``halo`` texels, if the assumed values hold there. Passes ask again and
        again."""
        key = frozenset((v, np.asarray(value).tobytes()) for v, value in assumed.items()), halo
        if key not in self._found:
            self._found[key] = self._around(assumed, halo)
        return self._found[key]

    def _around(
        self, assumed: Mapping[Variable, np.ndarray], halo: int
    ) -> tuple[dict[Variable, np.ndarray], ...]:
        found: tuple[dict[Variable, np.ndarray], ...] = ()
        new = set(assumed)
        for level in range(halo + 1):
            if level == len(self._alone):
                every = range(len(self.functions))
                self._alone.append(self._following(set(), {}, self._alone[::-1], every))
            affected = {*self._rasters, *(k for x in new for k in self._readers.get(x, ()))}
            known = {**self._alone[level], **assumed}
            found = (self._following(new, known, found, affected), *found)
        return found

    def _following(
        self,
        new: set[Variable],
        known: dict[Variable, np.ndarray],
        around: Sequence[Mapping[Variable, np.ndarray]],
        affected: Iterable[int],
    ) -> dict[Variable, np.ndarray]:
        """``known`` with what follows, given what has its value within 1, 2, ... texels; what is found is
        ``new``.  affected: the numbers of Functions to look at, beside those that read what is found."""
        drawn: list[RasterFunction] = []
        waiting = sorted(affected)
        last = -1
        while waiting:
            k = heappop(waiting)
            if k == last:
                continue
            f, last = self.functions[k], k
            value = _value_of(f, known, around, drawn)
            if value is not None:
                known[f.output] = value
                new.add(f.output)
                for reader in self._readers.get(f.output, ()):
                    heappush(waiting, reader)
        return known


def _value_of(
    f: Function,
    known: Mapping[Variable, np.ndarray],
    around: Sequence[Mapping[Variable, np.ndarray]],
    drawn: list[RasterFunction],
) -> np.ndarray | None:
    """What a Function makes of known values; None if unknown, or known before. drawn: known rasters."""
    if f.output in known:
        drawn += [f] if isinstance(f, RasterFunction) else []
        return None
    if isinstance(f, RasterFunction):
        return HIT_NOTHING if any(_hits_within(f, other) for other in drawn) else None
    if isinstance(f, ScatterFunction):
        return None
    here = {}
    for i, (x, _, access, _) in enumerate(f.edges):
        value = known.get(x) if access is Access.SAME_PIXEL else _fetched(f, x, access, known, around)
        if value is not None:
            here[i] = value
    if f.inputs and not here:
        return None
    with np.errstate(all="ignore"):
        found = f.known_value(here)
    if found is None:
        return None
    value = np.asarray(found, f.output.vtype.dtype)
    if not np.isfinite(value).all():
        return None
    return value.astype(np.int64 if f.output.vtype.is_int else np.float64)


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
    """Whether ``f`` draws the primitives and depths of ``other`` and keeps no more of their fragments."""
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
    """Numbers of the Variables of a fragment sub-graph: equal ones have equal values in a fragment."""
    graph = f.fragment
    found = {graph.face: -1}
    keys = [(v, ("read", x.id)) for v, x in zip(graph.formals, f.externals, strict=True)]
    for v, key in keys:
        found[v] = numbers.setdefault(key, len(numbers))
    for g in graph.functions:
        key = (*g.identity, *(found[x] for x in g.inputs))
        found[g.output] = numbers.setdefault(key, len(numbers))
    return found


def under_draws(order: Sequence[Function], roots: Iterable[Variable]) -> set[Function]:
    """The scatters that add nothing where a raster of a list of live faces draws nothing, and what only they
    read: they visit few pixels, and share no shader with work on all."""
    rasters = [f.output for f in order if isinstance(f, RasterFunction) and f.masked and f.fragment]
    scatters = [f for f in order if isinstance(f, ScatterFunction)]
    under: set[Function] = set()
    values = KnownValues(order if rasters and scatters else ())
    for raster in rasters if scatters else ():
        (known,) = values.around({raster: HIT_NOTHING}, 0)
        under.update(f for f in scatters if adds_nothing(f, known))
    everywhere = set(roots)
    for f in reversed(order if under else ()):
        if f in under:
            everywhere.add(f.inputs[0])  # the bound
        elif f.output in everywhere or not isinstance(f, PixelFunction):
            everywhere.update(f.inputs)
        else:
            under.add(f)
    return under
