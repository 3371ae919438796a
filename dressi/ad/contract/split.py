"""Split reductions: parts of the reduced axes stay, and a second contraction combines them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..graph.index_map import Affine, IndexMap
from .derivative import Made, valued
from .terms import Guard, Terms


def split(f: Terms, most: int, together: int = 1) -> tuple[Made, dict[str, Any]] | None:
    """Splits a contraction into parts of at most ``most`` terms: (partial contraction, fields of the one that
    combines its parts). None where nothing is to be split.

    Parts stand next to each other in a row, or in a column where the output is one row. The last axes stay in
    parts, so that neighbours in a row of parts read neighbours in a row of the inputs; of an axis of which
    only a part stays, every P-th entry is in one part. together: so many parts next to each other, of the
    last axis that has any, are added up by whoever computes them.

        sum of 512 x 512 products for each of 3 x 3 weights, most 8192: 32 parts of 512 rows x 16 columns
    """
    reads = dict.fromkeys(f.reduced_axes, 1)  # entries of an axis that are terms of one texel
    if f.place is None:
        reads = dict(zip(f.reduced_axes, f.reduced, strict=True))
    else:
        reads |= {step.axis: n for step, n in f.readers.loops.items()}
    if math.prod(reads.values()) <= most or most * together < 2:
        return None
    outer = len(f.extents) - len(f.reduced)
    kept: list[int] = []
    parts: list[int] = []
    inner = 1
    guards = []
    pieces: list[tuple[int, int, int]] = []  # (axis, entries of a part, parts)
    for axis, several in reads.items():
        length = min(several, max(most // inner, 1))
        count = -(-several // length)
        inner *= -(-several // count)
        pieces.append((axis, -(-f.extents[axis] // count), count))
    moved = [count for _, _, count in pieces if count > 1]
    along = 2 if together == 1 and f.shape[2] == 1 and f.shape[3] > 1 else 3
    next_part = sum(map(len, f.parallel[: along + 1]))  # parts vary fastest
    values = {a: Affine.axis(a if a < next_part else a + len(moved)) for a in range(outer)}
    next_inner = outer + len(moved)
    for axis, length, count in pieces:
        terms: dict[int, int] = {}
        if length > 1 or count == 1:
            terms[next_inner] = count
            kept.append(length)
            next_inner += 1
        if count > 1:
            terms[next_part] = 1
            parts.append(count)
            next_part += 1
        values[axis] = Affine.of(terms)
        if length * count > f.extents[axis]:
            guards.append((values[axis], f.extents[axis]))
    parallel = [*f.parallel]
    parallel[along] = (*parallel[along], *parts)
    partial = _over(f, values, parallel, kept, guards)
    left = math.prod(parts[:-1]) * -(-parts[-1] // together)
    places = []
    for s, axes in enumerate(f.axes):
        whole, extents = list(axes), [f.extents[a] for a in axes]
        if s == along:
            whole.append(outer)
            extents.append(left)
        radix, terms = 1, {}
        for axis, extent in zip(reversed(whole), reversed(extents), strict=True):
            terms[axis], radix = radix, radix * extent
        places.append(Affine.of(terms))
    maps = (IndexMap.to(places),)
    return partial, {"parallel": f.parallel, "reduced": (left,), "maps": maps, "combine": f.combine}


def stride_of(f: Terms, axis: int) -> int:
    """The distance of entries along a parallel axis for which all exact indices are whole, or not, alike."""
    affines = (*(a for m in f.maps for a in m.affines), *(a for a, _ in f.guards))
    return math.lcm(*(a.divisor // math.gcd(a.divisor, a.coefficient(axis)) for a in affines if a.exact))


def interleaved(f: Terms, axis: int, count: int) -> Made:
    """Splits a parallel axis into two: entries ``count`` apart, and the ``count`` entries between them."""
    values = {a: Affine.axis(a + (a > axis)) for a in range(len(f.extents))}
    values[axis] = Affine.of({axis: count, axis + 1: 1})
    parallel = []
    for extents, axes in zip(f.parallel, f.axes, strict=True):
        pieces = [(e // count, count) if a == axis else (e,) for e, a in zip(extents, axes, strict=True)]
        parallel.append(tuple(e for piece in pieces for e in piece))
    return _over(f, values, parallel, f.reduced)


def _over(
    f: Terms,
    values: dict[int, Affine],
    parallel: Sequence[tuple[int, ...]],
    reduced: Sequence[int],
    guards: Sequence[Guard] = (),
) -> Made:
    """The same terms over other axes. values: the old axes over the new ones. guards: further ones."""
    return Made(
        list(f.inputs),
        {
            "parallel": tuple(parallel),
            "reduced": tuple(reduced),
            "maps": tuple(valued(m, values) for m in f.maps),
            "guards": (*((valued(a, values), e) for a, e in f.guards), *guards),
            "combine": f.combine,
            "indices": tuple(valued(a, values) for a in f.indices),
            "body": f.body,
            "place": None if f.place is None else valued(f.place, values),
        },
    )
