"""Contractions made of a contraction: its derivatives by what it reads, and its split into parts.

The gradient by an input sums, for each of its texels j, over all terms that read it: the indices of the
output and of the reduced axes that solve map(i, r) = j. Each axis of the input is an equation, solved for one
axis; the others are reduced. A division in the map leaves an axis of its remainders. What the solved axes may
not be stands in guards. An axis of the input that axes of the contraction fill, as 8 * c + z does for 8
values of z, is made of these, and nothing is to be solved.

    out[y] = sum over d of x[2 y + d] w[d]:   j = 2 y + d,   gx[j] = sum over d of gy[(j - d) / 2] w[d]

Where that has no solution, or one of many more terms than there are, all axes are reduced, and map(i, r) is
the ``place`` of a term; so it is where indices leave the input and others of its texels are read. Of what
reduces axes itself the gradient is first that of an input with margins, which these texels stand in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from ..graph import Variable
from ..graph.evaluation import SubGraph
from ..graph.index_map import Affine, IndexMap
from ..graph.traversal import leaves
from ..graph.types import INT
from ..ops.pixel.compare import equal, select
from .terms import Guard, Readers, Terms, readers, shape_of

MORE = 2
"""A solution may have so many times as many terms: tests are cheaper than bounds of loops."""


T = TypeVar("T", Affine, IndexMap)


class Made(NamedTuple):
    """The inputs and fields of a contraction."""

    inputs: list[Variable]
    fields: dict[str, Any]


class Space(NamedTuple):
    """The terms of a contraction over axes of their own; with a ``place`` these are the reduced ones alone.
    own: the texel of the output that a term adds to."""

    extents: tuple[int, ...]
    maps: tuple[IndexMap, ...]
    own: IndexMap
    guards: tuple[Guard, ...]
    indices: tuple[Affine, ...]

    @staticmethod
    def of(f: Terms) -> Space:
        if f.place is None:
            same = {a: Affine.axis(a) for a in range(len(f.extents))}
            return Space(f.extents, f.maps, output_map(f, same), f.guards, f.indices)
        if any(len(axes) > 1 for axes in f.axes):
            raise f.fail("is made when a plan is built; take derivatives of whole sums")
        moved = {a: Affine.axis(k) for k, a in enumerate(f.reduced_axes)}
        return Space(
            f.reduced,
            tuple(valued(m, moved) for m in f.maps),
            valued(f.place, moved),
            tuple((valued(a, moved), e) for a, e in f.guards),
            tuple(valued(a, moved) for a in f.indices),
        )


def valued(x: T, values: dict[int, Affine]) -> T:
    """Substitutes axes of an index or a map, which stays affine."""
    same = x.substituted(values)
    assert same is not None
    return same


class Solved(NamedTuple):
    """The terms that read a texel of an input.

    parallel: the extents of the axes of those texels, as in a contraction. values: the axes of the
    contraction over these and the reduced axes. reduced: the extents of the latter. guards: out-of-range
    values of solved axes, and the old guards. place: what is not solved, over the new axes.
    """

    parallel: tuple[tuple[int, ...], ...]
    values: dict[int, Affine]
    reduced: tuple[int, ...]
    guards: tuple[Guard, ...]
    place: IndexMap | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a contraction that say which terms there are."""
        return {
            "parallel": self.parallel,
            "reduced": self.reduced,
            "guards": self.guards,
            "place": self.place,
        }


def solved(space: Space, m: IndexMap, shape: Sequence[int]) -> Solved:
    """The terms that read each texel of an input of a shape (n, c, y, x), in the shortest form."""
    placed = _placed(space, m, shape)
    if not m.inside(shape, space.extents) and m.border != "zero":
        return placed
    solutions = [_solved(space, m, shape, longest=longest) for longest in (False, True)]
    best = min((s for s in solutions if s is not None), key=lambda s: math.prod(s.reduced), default=None)
    if best is None:
        return placed
    most = MORE * max(readers_of(space, m, shape).iterations, 1)
    return best if math.prod(best.reduced) <= most else placed


def readers_of(space: Space, m: IndexMap, shape: Sequence[int]) -> Readers:
    placed = _placed(space, m, shape)
    assert placed.place is not None
    extents = (*shape, *placed.reduced)
    return readers(placed.place, tuple(range(len(shape))), extents, range(len(shape), len(extents)))


def _placed(space: Space, m: IndexMap, shape: Sequence[int]) -> Solved:
    """The terms by their place, with no equation solved."""
    kept = [a for a, e in enumerate(space.extents) if e > 1]
    values = {a: Affine() for a in range(len(space.extents))}
    values |= {a: Affine.axis(len(shape) + k) for k, a in enumerate(kept)}
    guards = tuple((valued(a, values), e) for a, e in space.guards)
    reduced = tuple(space.extents[a] for a in kept)
    return Solved(tuple((e,) for e in shape), values, reduced, guards, valued(m, values))


def margins(f: Terms, k: int) -> list[tuple[int, int]]:
    """How far indices leave input k on both sides of the axes n, c, y, x, where a border moves them."""
    m = f.maps[k]
    if m.border == "zero":
        return [(0, 0)] * len(m.affines)
    bounds = (a.bounds(f.extents) for a in m.affines)
    shape = shape_of(f.inputs[k])
    return [(max(-low, 0), max(high + 1 - e, 0)) for (low, high), e in zip(bounds, shape, strict=True)]


def folded(wide: Variable, x: Variable, around: Sequence[tuple[int, int]], border: str) -> Made:
    """Sums the texels of an image with margins into the texels of x that its border put there."""
    same = IndexMap.of()
    places = [Affine.axis(a, constant=-before) for a, (before, _) in enumerate(around)]
    terms = _placed(Space(shape_of(wide), (same,), same, (), ()), IndexMap.to(places, border), shape_of(x))
    return Made([wide], {"maps": (valued(same, terms.values),), **terms.fields})


def _solved(space: Space, m: IndexMap, shape: Sequence[int], *, longest: bool) -> Solved | None:
    """Solves the equations for axes with the smallest coefficients, so that few divide; or, with ``longest``,
    for those of the largest extents, which are then not reduced. None where there is no such form."""
    affines = m.affines
    filled = _filled(space, affines, shape)
    parallel = tuple(tuple(space.extents[a] for a in filled.get(s, ())) or (e,) for s, e in enumerate(shape))
    own = iter(range(first := sum(map(len, parallel))))
    texel = [[next(own) for _ in extents] for extents in parallel]
    extents = {first + a: e for a, e in enumerate(space.extents)} | dict(
        enumerate(itertools.chain(*parallel))
    )
    old = {a: Affine.axis(first + a) for a in range(len(space.extents))}
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
        solution = Affine.of({a: sign * c for a, c in left.items()}, -sign * e.constant, abs(by), exact=True)
        further = {a: v.substituted({axis: solution}) for a, v in values.items()}
        if any(v is None for v in further.values()):
            return None
        values = {a: v for a, v in further.items() if v is not None} | {axis: solution}
    kept = [a for a in extents if a >= first and a not in values]
    number = {a: Affine.axis(first + i) for i, a in enumerate(kept)}
    renamed = {a: v.substituted(number) for a, v in values.items()} | number
    guards = [(g.substituted(number) or g, e) for g, e in guards]
    guards += [(renamed[a] or Affine(), extents[a]) for a in values]
    reduced = tuple(extents[a] for a in kept)
    inner = (*itertools.chain(*parallel), *reduced)
    terms = {a: renamed[first + a] or Affine() for a in range(len(space.extents))}
    for affine, extent in space.guards:
        moved = affine.substituted(terms)
        if moved is None:
            return None
        guards.append((moved, extent))
    return Solved(
        parallel, terms, reduced, tuple(dict.fromkeys(g for g in guards if not g[0].within(g[1], inner)))
    )


def _filled(space: Space, affines: Sequence[Affine], shape: Sequence[int]) -> dict[int, list[int]]:
    """The axes of an input that several axes of the contraction fill, with these, slowest first."""
    filled: dict[int, list[int]] = {}
    for s, (affine, extent) in enumerate(zip(affines, shape, strict=True)):
        axes = sorted(affine.axes, key=affine.coefficient, reverse=True)
        reach = 1
        for a in reversed(axes):
            reach *= space.extents[a] if affine.coefficient(a) == reach else 0
        new = not any(a in other for a in axes for other in filled.values())
        if affine == Affine(affine.terms) and len(axes) > 1 and reach == extent and new:
            filled[s] = axes
    return filled


def output_map(f: Terms, values: dict[int, Affine]) -> IndexMap:
    """The texel of the output at which the axes have these values, which are whole."""
    places = []
    for axes in f.axes:
        terms, radix = {}, 1
        for axis in reversed(axes):
            terms[axis], radix = radix, radix * f.extents[axis]
        places.append(valued(Affine.of(terms), values))
    return IndexMap.to(places)


def term_number(f: Terms) -> Affine:
    """The number of a term, counted over the reduced axes, the last one fastest."""
    terms, radix = {}, 1
    for axis in reversed(f.reduced_axes):
        terms[axis], radix = radix, radix * f.extents[axis]
    return Affine.of(terms)


def transposed(
    f: Terms, gy: Variable, k: int, chosen: Variable | None, around: Sequence[tuple[int, int]]
) -> Made | None:
    """The gradient by input k, enlarged by the margins ``around`` it that its border fills.

    chosen: the number of the one term that counts, None where all do.
    """
    space = Space.of(f)
    seed = Variable(gy.vtype)
    formal = f.body.formals[k]
    root = f.body.pulled(formal, seed) if formal in leaves([f.body.root]) else None
    if root is None:
        return None
    m, shape = space.maps[k], shape_of(f.inputs[k])
    if any(map(any, around)):
        m = IndexMap.to([a.plus(before) for a, (before, _) in zip(m.affines, around, strict=True)])
        shape = [sum(ends) + e for ends, e in zip(around, shape, strict=True)]
    own, terms = space.own, _turned(space, f, m, shape)
    if terms is None:
        terms = solved(space, m, shape)
    else:
        own = own._replace(border="repeat")
    made = _chosen(f, space, [gy], [seed], [own], root, chosen, terms.values)
    if made is None:  # a division of a division
        terms = _placed(space, m, shape)
        made = _chosen(f, space, [gy], [seed], [own], root, chosen, terms.values)
    assert made is not None
    return Made(made.inputs, made.fields | terms.fields)


def _turned(space: Space, f: Terms, m: IndexMap, shape: Sequence[int]) -> Solved | None:
    """The single term of each texel where all are read once, around the ends, as by a shift; else None."""
    plain = f.place is None and len(space.extents) == len(shape) and not f.guards and not f.indices
    if m.border != "repeat" or not plain or len(f.inputs) > 1 or m.inside(shape, space.extents):
        return None
    values: dict[int, Affine] = {}
    for k, (affine, extent) in enumerate(zip(m.affines, shape, strict=True)):
        axes = [a for a in affine.axes if space.extents[a] > 1]
        if not axes and extent == 1:
            continue
        if len(axes) != 1 or axes[0] in values or not affine.whole or space.extents[axes[0]] != extent:
            return None
        sign = affine.coefficient(axes[0])
        if abs(sign) != 1:
            return None
        values[axes[0]] = Affine.of({k: sign}, -sign * affine.constant)
    if any(e > 1 and a not in values for a, e in enumerate(space.extents)):
        return None
    return Solved(
        tuple((e,) for e in shape), {a: Affine() for a in range(len(space.extents))} | values, (), ()
    )


def pushed(f: Terms, tangents: Sequence[Variable | None], chosen: Variable | None) -> Made | None:
    moving = [i for i, t in enumerate(tangents) if t is not None]
    if not moving:
        return None
    seeds = [Variable(f.inputs[i].vtype) for i in moving]
    (root,) = f.body.pushed([f.body.formals[i] for i in moving], seeds)
    same = {a: Affine.axis(a) for a in range(len(f.extents))}
    space = Space(f.extents, f.maps, output_map(f, same), f.guards, f.indices)
    moved = [t for t in tangents if t is not None]
    made = _chosen(f, space, moved, seeds, [f.maps[i] for i in moving], root, chosen, same)
    assert made is not None  # over the axes themselves
    return Made(made.inputs, f.form | made.fields)


def _chosen(
    f: Terms,
    space: Space,
    inputs: list[Variable],
    seeds: list[Variable],
    maps: list[IndexMap],
    root: Variable,
    chosen: Variable | None,
    values: dict[int, Affine],
) -> Made | None:
    """A sum over the body ``root``, which follows from ``seeds`` (read from ``inputs`` by ``maps``) and from
    the formals of f, whose axes have these values. chosen: the number of the term of f that counts. None
    where a map is not affine."""
    indices = [*space.indices]
    numbers = [*f.body.formals[len(f.inputs) :]]
    if chosen is not None:
        this, one = Variable(INT), Variable(INT)
        root = select(equal(this, one), root, 0.0)
        inputs, seeds, maps = [*inputs, chosen], [*seeds, this], [*maps, space.own]
        indices, numbers = [*indices, term_number(f)], [*numbers, one]
    needed = {*leaves([root])}
    first = [
        (x, m.substituted(values), s) for x, m, s in zip(inputs, maps, seeds, strict=True) if s in needed
    ]
    own = zip(f.inputs, space.maps, f.body.formals[: len(f.inputs)], strict=True)
    every = [*first, *((x, m.substituted(values), formal) for x, m, formal in own if formal in needed)]
    places = [
        (a.substituted(values), formal)
        for a, formal in zip(indices, numbers, strict=True)
        if formal in needed
    ]
    if any(m is None for _, m, _ in every) or any(a is None for a, _ in places):
        return None
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


# Split reductions: parts of the reduced axes stay, and a second contraction combines them.


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
