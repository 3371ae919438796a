"""Derivatives of contractions, which are contractions.

The gradient by an input sums, for each of its texels j, over all terms that read it: the indices of the output and of the
reduced axes that solve map(i, r) = j. Each axis of the input is an equation, solved for one axis; the others are reduced.
A division in the map leaves an axis of its remainders. What the solved axes may not be stands in guards. An axis of the input
that axes of the contraction fill, as 8 * c + z does for 8 values of z, is made of these, and nothing is to be solved.

    out[y] = sum over d of x[2 y + d] w[d]:    j = 2 y + d,    gx[j] = sum over d of gy[(j - d) / 2] w[d], where that is whole

Where indices leave the input and read other texels of it, the input has margins that these texels stand in, and what is summed
there is added to them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..graph import Variable
from ..graph.index_map import Affine, IndexMap
from ..ops.pixel.compare import equal, select
from ..sub_graph import SubGraph
from ..transform.gradient import gradient, jvp
from ..traversal import leaves
from ..types import INT
from .terms import Guard, Terms, shape_of


class Made(NamedTuple):
    """The inputs and fields of a contraction."""

    inputs: list[Variable]
    fields: dict[str, Any]


class Solved(NamedTuple):
    """The terms that read a texel of an input. parallel: the extents of the axes of those texels, as in a contraction.
    values: the axes of the contraction over these, and the axes that are reduced.  reduced: the extents of the latter.  guards:
    where a term is none of the contraction."""

    parallel: tuple[tuple[int, ...], ...]
    values: dict[int, Affine]
    reduced: tuple[int, ...]
    guards: tuple[Guard, ...]


def solved(f: Terms, k: int) -> Solved | None:
    """The terms that read each texel of input k with ``margins``, as few as are found; None if there is no such form."""
    found = [_solved(f, k, longest=longest) for longest in (False, True)]
    return min((s for s in found if s is not None), key=lambda s: math.prod(s.reduced), default=None)


def margins(f: Terms, k: int) -> list[tuple[int, int]]:
    """How far indices leave input k on both sides of the axes n, c, y, x, and read other texels instead."""
    m = f.maps[k]
    if m.border == "zero":
        return [(0, 0)] * len(m.affines)
    bounds = (a.bounds(f.extents) for a in m.affines)
    shape = shape_of(f.inputs[k])
    return [(max(-low, 0), max(high + 1 - e, 0)) for (low, high), e in zip(bounds, shape, strict=True)]


def _solved(f: Terms, k: int, *, longest: bool) -> Solved | None:
    """longest: whether equations are solved for the axes of the largest extents, which are then not reduced, and not for those
    of the smallest coefficients, by which nothing is divided."""
    around = margins(f, k)
    shape = [sum(m) + e for m, e in zip(around, shape_of(f.inputs[k]), strict=True)]
    affines = [a.plus(before) for a, (before, _) in zip(f.maps[k].affines, around, strict=True)]
    filled = _filled(f, affines, shape)
    parallel = tuple(tuple(f.extents[a] for a in filled.get(s, ())) or (e,) for s, e in enumerate(shape))
    own = iter(range(first := sum(map(len, parallel))))
    texel = [[next(own) for _ in extents] for extents in parallel]
    extents = {first + a: e for a, e in enumerate(f.extents)} | dict(enumerate(itertools.chain(*parallel)))
    old = {a: Affine.axis(first + a) for a in range(len(f.extents))}
    values = {
        first + a: Affine.axis(part)
        for s, axes in filled.items()
        for a, part in zip(axes, texel[s], strict=True)
    }
    guards: list[Guard] = []
    equations = sorted(set(range(len(shape))) - {*filled}, key=lambda s: len(affines[s].terms))
    for s in equations:
        e = affines[s].substituted(old)
        assert e is not None  # the axes have new names
        e = e.substituted(values)
        if e is None:
            return None
        coefficient, free = e.coefficient, [a for a in e.axes if a >= first]
        (place,) = texel[s]
        left = {a: -c for a, c in e.terms} | {place: e.divisor}
        if not free:
            guards.append(
                (Affine.of({a: -c for a, c in left.items()}, e.constant), 1 if e.exact else e.divisor)
            )
            continue
        sizes = {a: (abs(coefficient(a)), -extents[a]) for a in free}
        axis = min(free, key=lambda a: sizes[a][::-1] if longest else sizes[a])
        if not (e.whole or e.exact):
            remainder = len(extents)
            extents[remainder] = e.divisor
            left[remainder] = 1
        by = coefficient(axis)
        sign = 1 if by > 0 else -1
        del left[axis]
        found = Affine.of({a: sign * c for a, c in left.items()}, -sign * e.constant, abs(by), exact=True)
        further = {a: v.substituted({axis: found}) for a, v in values.items()}
        if any(v is None for v in further.values()):
            return None
        values = {a: v for a, v in further.items() if v is not None} | {axis: found}
    kept = [a for a in extents if a >= first and a not in values]
    number = {a: Affine.axis(first + i) for i, a in enumerate(kept)}
    renamed = {a: v.substituted(number) for a, v in values.items()} | number
    guards = [(g.substituted(number) or g, e) for g, e in guards]
    guards += [(renamed[a] or Affine(), extents[a]) for a in values]
    reduced = tuple(extents[a] for a in kept)
    inner = (*itertools.chain(*parallel), *reduced)
    terms = {a: renamed[first + a] or Affine() for a in range(len(f.extents))}
    for affine, extent in f.guards:
        moved = affine.substituted(terms)
        if moved is None:
            return None
        guards.append((moved, extent))
    return Solved(
        parallel, terms, reduced, tuple(dict.fromkeys(g for g in guards if not g[0].within(g[1], inner)))
    )


def _filled(f: Terms, affines: Sequence[Affine], shape: Sequence[int]) -> dict[int, list[int]]:
    """The axes of an input that several axes of the contraction fill, and those, the slowest first."""
    found: dict[int, list[int]] = {}
    for s, (affine, extent) in enumerate(zip(affines, shape, strict=True)):
        axes = sorted(affine.axes, key=affine.coefficient, reverse=True)
        reach = 1
        for a in reversed(axes):
            reach *= f.extents[a] if affine.coefficient(a) == reach else 0
        new = not any(a in other for a in axes for other in found.values())
        if affine == Affine(affine.terms) and len(axes) > 1 and reach == extent and new:
            found[s] = axes
    return found


def output_map(f: Terms, values: dict[int, Affine]) -> IndexMap | None:
    """The texel of the output that the axes stand for, if these have the given values."""
    found = []
    for axes in f.axes:
        terms, radix = {}, 1
        for axis in reversed(axes):
            terms[axis], radix = radix, radix * f.extents[axis]
        found.append(Affine.of(terms).substituted(values))
    known = [a for a in found if a is not None]
    return IndexMap.to(known) if len(known) == len(found) else None


def term_number(f: Terms) -> Affine:
    """The number of a term, counted over the reduced axes, the last one fastest."""
    terms, radix = {}, 1
    for axis in reversed(f.reduced_axes):
        terms[axis], radix = radix, radix * f.extents[axis]
    return Affine.of(terms)


def transposed(f: Terms, gy: Variable, k: int, chosen: Variable | None) -> Made | None:
    """The gradient by input k with ``margins``. chosen: the number of the term that counts, where one alone does. Raises
    GraphError where the index has no inverse."""
    found = solved(f, k)
    at_output = None if found is None else output_map(f, found.values)
    if found is None or at_output is None:
        raise f.fail(f"there is no gradient by {f.inputs[k]}: its index {f.maps[k]} cannot be solved")
    seed = Variable(gy.vtype)
    root = _slope(f, seed, k)
    if root is None:
        return None
    made = _chosen(f, [gy], [seed], [at_output], root, chosen, at_output, found.values)
    if made is None:
        raise f.fail(f"there is no gradient by {f.inputs[k]}: its index {f.maps[k]} cannot be solved")
    return Made(
        made.inputs,
        made.fields
        | {
            "parallel": found.parallel,
            "reduced": found.reduced,
            "guards": found.guards,
        },
    )


def _slope(f: Terms, seed: Variable, k: int) -> Variable | None:
    formal = f.body.formals[k]
    if formal not in leaves([f.body.root]):
        return None
    return gradient(f.body.root, [formal], seed=seed)[0]


def pushed(f: Terms, tangents: Sequence[Variable | None], chosen: Variable | None) -> Made | None:
    """The derivative along tangents of the inputs; None where all are zero."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    if not moving:
        return None
    seeds = [Variable(f.inputs[i].vtype) for i in moving]
    (root,) = jvp([f.body.root], [f.body.formals[i] for i in moving], seeds)
    same = {a: Affine.axis(a) for a in range(len(f.extents))}
    own = output_map(f, same)
    assert own is not None  # over the axes themselves
    moved = [t for t in tangents if t is not None]
    made = _chosen(f, moved, seeds, [f.maps[i] for i in moving], root, chosen, own, same)
    assert made is not None
    return Made(made.inputs, made.fields | {"parallel": f.parallel, "reduced": f.reduced, "guards": f.guards})


def _chosen(
    f: Terms,
    inputs: list[Variable],
    seeds: list[Variable],
    maps: list[IndexMap],
    root: Variable,
    chosen: Variable | None,
    at_output: IndexMap,
    values: dict[int, Affine],
) -> Made | None:
    """A sum over the body ``root``, which follows from ``seeds``, read from ``inputs`` by ``maps``, and from what the body of
    f follows from, whose axes have these values. chosen: the number of the term of f that counts."""
    indices = [*f.indices]
    numbers = [*f.body.formals[len(f.inputs) :]]
    if chosen is not None:
        this, one = Variable(INT), Variable(INT)
        root = select(equal(this, one), root, 0.0)
        inputs, seeds, maps = [*inputs, chosen], [*seeds, this], [*maps, at_output]
        indices, numbers = [*indices, term_number(f)], [*numbers, one]
    needed = {*leaves([root])}
    read = [
        (x, m.substituted(values), formal)
        for x, m, formal in zip(f.inputs, f.maps, f.body.formals[: len(f.inputs)], strict=True)
        if formal in needed
    ]
    places = [
        (a.substituted(values), formal)
        for a, formal in zip(indices, numbers, strict=True)
        if formal in needed
    ]
    if any(m is None for _, m, _ in read) or any(a is None for a, _ in places):
        return None
    first = [(x, m, s) for x, m, s in zip(inputs, maps, seeds, strict=True) if s in needed]
    every = [*first, *read]
    formals = [*(formal for _, _, formal in every), *(formal for _, formal in places)]
    return Made(
        [x for x, _, _ in every],
        {
            "maps": tuple(m for _, m, _ in every),
            "combine": "add",
            "indices": tuple(a for a, _ in places),
            "body": SubGraph(tuple(formals), (root,)),
        },
    )
