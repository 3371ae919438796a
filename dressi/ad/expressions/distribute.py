"""More common factors in sums of products: sums are multiplied out, or spread over other terms."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .steps import NUMBER, PRODUCT, SUM, Steps

LONGEST = 4
"""Terms of a sum that is multiplied out."""


def distribute(steps: Steps, around: int) -> bool:
    """x (v c + w s) + c y + c z + ... -> x v c + x w s + c y + c z + ...: multiplies out sums if each term
    has a factor in common with ``around`` other terms, whoever else reads them. Whether anything changed."""
    changed = False
    for n in steps.order():
        if steps.kinds[n] != SUM or len(steps.terms[n]) < 2:
            continue
        readers = Counter[int]()
        for m in steps.operands[n]:
            readers.update({*steps.factors(m)})
        terms = list[int]()
        for term in steps.terms[n]:
            m = abs(term)
            own = {*steps.factors(m)}
            others = readers - Counter(own)
            spread = (
                k
                for k in own
                if len(own) > 1
                and steps.kinds[k] == SUM
                and len(steps.terms[k]) <= LONGEST
                and all(any(others[f] >= around for f in steps.factors(t)) for t in steps.operands[k])
            )
            inner = next(spread, None)
            if inner is None:
                terms.append(term)
                continue
            rest = list(steps.operands[m])
            rest.remove(inner)
            changed = True
            for k in steps.terms[inner]:
                written = steps.add(PRODUCT, [*rest, *steps.factors(abs(k))])
                terms.append(written if (k > 0) == (term > 0) else -written)
        if len(terms) > len(steps.terms[n]):
            steps.put(n, SUM, terms)
    return changed


def regroup(steps: Steps) -> bool:
    """x (a c + b s) + c y + s z -> c (x a + y) + s (x b + z), one product fewer, if nothing else reads the
    sums and products. Whether anything changed."""
    order = steps.order()
    uses = steps.uses(order)
    changed = False
    for n in order:
        if steps.kinds[n] == SUM:
            for place, m in enumerate(steps.operands[n]):
                terms = _regrouped(steps, uses, steps.terms[n], place) if uses[m] == 1 else None
                if terms is not None:
                    steps.put(n, SUM, terms)
                    uses += [0] * (len(steps) - len(uses))  # what is new stays as it is
                    changed = True
                    break
    return changed


def _regrouped(steps: Steps, uses: Sequence[int], terms: Sequence[int], place: int) -> list[int] | None:
    """The terms of a sum after the one at a place was spread over others; None if it cannot be."""
    m = abs(terms[place])
    own = (k for k in steps.factors(m) if steps.kinds[k] == SUM and uses[k] == 1)
    inner = next(own, None)
    if inner is None or steps.kinds[m] != PRODUCT:
        return None
    left = {at: term for at, term in enumerate(terms) if at != place}
    pairs = list[tuple[int, int, int]]()
    for term in steps.terms[inner]:
        k = abs(term)
        own = steps.factors(k) if uses[k] == 1 else ()
        at, factor = next(
            (
                (at, f)
                for at, other in left.items()
                if uses[abs(other)] == 1 and len(steps.factors(abs(other))) > 1
                for f in steps.factors(abs(other))
                if f in own
            ),
            (-1, -1),
        )
        if at < 0 or len(own) < 2:
            return None
        pairs.append((term if terms[place] > 0 else -term, factor, left.pop(at)))
    rest = list(steps.operands[m])
    rest.remove(inner)
    new = list(left.values())
    for term, factor, other in pairs:
        sign = 1 if other > 0 else -1
        inside = [
            _without(steps, abs(other), factor),
            _without(steps, abs(term), factor, rest) * (1 if (term > 0) == (other > 0) else -1),
        ]
        new.append(sign * steps.add(PRODUCT, [factor, steps.add(SUM, inside)]))
    return new


def _without(steps: Steps, n: int, factor: int, more: Sequence[int] = ()) -> int:
    factors = list(steps.factors(n))
    factors.remove(factor)
    factors += more
    return factors[0] if len(factors) == 1 else steps.add(PRODUCT, factors)


# Two crossed sums of two products take three products: Gauss's way to multiply complex numbers, for users to
# whom a product is dearer than a sum.


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
        """(sign, a, b) of the coefficient that is left in each half, d - k or d + k: a + sign b, a < b."""
        halves = (self.first, self.second)
        return [(-h.sign * h.other, min(h.d, self.k), max(h.d, self.k)) for h in halves]


def cross(steps: Steps, product_cost: float) -> bool:
    """k p + d q, k q + e p -> t + (d - k) q, t + (e - k) p with t = k (p + q), if the products cost more than
    the sums: one product fewer for one sum more, and two sums for all pairs with the same k, d and e.
    Rotations of vectors by one angle and symmetric matrices have such pairs. Whether anything changed."""
    order = steps.order()
    groups = defaultdict[tuple[tuple[int, int, int], ...], list[_Cross]](list)
    for one in _crosses(steps, order):
        groups[tuple(sorted(one.left))].append(one)
    terms = {n: list(steps.terms[n]) for n in order if steps.kinds[n] == SUM}
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
                known[sign, a, b] = steps.add(SUM, [a, sign * b])
        for one in free:
            shared = steps.add(PRODUCT, [one.k, steps.add(SUM, [one.p, one.q])])
            for h, factor, rest in zip((one.first, one.second), (one.q, one.p), one.left, strict=True):
                turn = -1 if rest[0] < 0 and h.d > one.k else 1  # a - b is k - d
                terms[h.n][h.places[0]] = h.sign * shared
                terms[h.n][h.places[1]] = h.other * turn * steps.add(PRODUCT, [known[rest], factor])
    for n in {n for n, _ in taken}:
        steps.put(n, SUM, terms[n])
    return bool(taken)


def _crosses(steps: Steps, order: Sequence[int]) -> Iterator[_Cross]:
    """All of them; one product may be in several."""
    uses = steps.uses(order)
    halves = defaultdict[tuple[int, int, int], list[_Half]](list)
    for n in order:
        if steps.kinds[n] == SUM:
            products = [
                (place, 1 if m > 0 else -1, factors)
                for place, m in enumerate(steps.terms[n])
                if (factors := _factors(steps, uses, abs(m)))
            ]
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


def _factors(steps: Steps, uses: Sequence[int], n: int) -> Sequence[int]:
    """The two factors, no constants, of a product that only one sum reads; () for others."""
    factors = steps.factors(n)
    two = len({*factors}) == len(factors) == 2 and uses[n] == 1
    return factors if two and all(steps.kinds[m] != NUMBER for m in factors) else ()
