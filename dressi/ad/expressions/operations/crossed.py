"""Two crossed sums of two products each take three products: Gauss's way to multiply complex numbers, for users to whom a product
is dearer than a sum."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .steps import Added, Multiplied, Steps


class _Half(NamedTuple):
    """A sum n with the terms sign k p and other d q, which are those at two places."""

    n: int
    places: tuple[int, int]
    sign: int
    other: int
    d: int


class _Cross(NamedTuple):
    """k p + d q of one sum and k q + e p of another."""

    first: _Half
    second: _Half
    k: int
    p: int
    q: int

    @property
    def left(self) -> list[tuple[int, int, int]]:
        """(sign, a, b) of d - k or d + k, the coefficient that is left in each: the sum of a and b with this sign, a < b."""
        halves = (self.first, self.second)
        return [(-h.sign * h.other, min(h.d, self.k), max(h.d, self.k)) for h in halves]


def cross(steps: Steps, product_cost: float) -> bool:
    """k p + d q, k q + e p -> t + (d - k) q, t + (e - k) p with t = k (p + q): one product fewer for one sum more, and two sums for all
    pairs with the same k, d and e. Rotations of several vectors by one angle and products with symmetric matrices consist of
    such pairs. Done where the products that it saves, at their cost in sums, are worth it. Whether anything changed."""
    order = steps.order()
    groups = defaultdict[tuple[tuple[int, int, int], ...], list[_Cross]](list)
    for found in _crosses(steps, order):
        groups[tuple(sorted(found.left))].append(found)
    terms = {n: list(v.terms) for n in order if isinstance(v := steps.values[n], Added)}
    taken, known = set[tuple[int, int]](), dict[tuple[int, int, int], int]()
    for left, members in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        free, claimed = list[_Cross](), set[tuple[int, int]]()
        for one in members:
            places = {(h.n, place) for h in (one.first, one.second) for place in h.places}
            if places.isdisjoint(taken | claimed):
                claimed |= places
                free.append(one)
        if (product_cost - 1) * len(free) <= len({*left} - known.keys()):
            continue
        taken |= claimed
        for sign, a, b in left:
            if (sign, a, b) not in known:
                known[sign, a, b] = steps.add(Added([(1, a), (sign, b)]))
        for one in free:
            shared = steps.add(Multiplied([one.k, steps.add(Added([(1, one.p), (1, one.q)]))]))
            for h, factor, found in zip((one.first, one.second), (one.q, one.p), one.left, strict=True):
                turn = -1 if found[0] < 0 and h.d > one.k else 1  # a - b is k - d
                terms[h.n][h.places[0]] = h.sign, shared
                terms[h.n][h.places[1]] = h.other * turn, steps.add(Multiplied([known[found], factor]))
    for n in {n for n, _ in taken}:
        steps.values[n] = Added(terms[n])
    return bool(taken)


def _crosses(steps: Steps, order: Sequence[int]) -> Iterator[_Cross]:
    """All of them; one product may be in several."""
    uses = steps.uses(order)
    halves = defaultdict[tuple[int, int, int], list[_Half]](list)
    for n in order:
        value = steps.values[n]
        if isinstance(value, Added):
            products = [(place, s, _factors(steps, uses, m)) for place, (s, m) in enumerate(value.terms)]
            products = [(place, s, factors) for place, s, factors in products if factors]
            for one, sign, (a, b) in products:
                for two, other, (c, d) in products:
                    if one != two:
                        for k, p in ((a, b), (b, a)):
                            for e, q in ((c, d), (d, c)):
                                if k != e and p != q:
                                    halves[k, p, q].append(_Half(n, (one, two), sign, other, e))
    for (k, p, q), firsts in halves.items():
        if p < q:
            for first in firsts:
                yield from (
                    _Cross(first, second, k, p, q)
                    for second in halves.get((k, q, p), ())
                    if second.n != first.n
                )


def _factors(steps: Steps, uses: Counter[int], m: int) -> tuple[int, int] | tuple[()]:
    """The two factors of a product of no constant that only one sum reads; () for others."""
    value = steps.values[m]
    if not isinstance(value, Multiplied) or len(value.operands) != 2 or uses[m] > 1:
        return ()
    a, b = value.operands
    return () if a == b or steps.is_number(a) or steps.is_number(b) else (a, b)
