"""Fewer operations for the same values: nested sums and products become one, common factors are taken out of
sums, and parts that occur several times are computed once."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ops.pixel.elementary import Sin
from ..ops.pixel.kinds import Pointwise
from .steps import CALL, NUMBER, PRODUCT, RECIPROCAL, SUM, Steps, repeated
from .table import Rational, is_in_range, of_float, plus, rounded, times

LONGEST = 12  # factors of a product that is written out


def flatten(steps: Steps, order: Sequence[int]) -> list[int]:
    """a + (b + c) -> a + b + c, also products, if nothing else reads the inner one. Gives the new order."""
    kinds, terms = steps.kinds, steps.terms
    readers, read = steps.reads(order)
    uses, read = steps.uses_of(read), np.abs(read)
    kind = steps.kind_of(readers)
    of_sums = kind == SUM
    once = (steps.kind_of(read) == kind) & (of_sums | (kind == PRODUCT)) & (uses[read] == 1)
    gone, changed = set[int](read[once].tolist()), False
    some = {*readers[once].tolist(), *repeated(readers[of_sums], read[of_sums])}
    for n in [n for n in order if n in some]:
        flat = list[int]()
        for m in terms[n]:
            if abs(m) in gone and kinds[abs(m)] == kinds[n]:
                flat += terms[m] if m > 0 else [-k for k in terms[-m]]
            else:
                flat.append(m)
        left = flat if kinds[n] == PRODUCT else _like_terms(steps, flat)
        left = join_numbers(steps, kinds[n], left)
        steps.put(n, kinds[n], left)
        changed |= len(left) < len(flat)
    return steps.order() if changed else [n for n in order if n not in gone]


def _like_terms(steps: Steps, terms: Sequence[int]) -> Sequence[int]:
    """The same sum, without terms that cancel, and multiples of one value as one: x + 5 x -> 6 x."""
    groups = dict[tuple[int, ...], list[int]]()
    for m in terms:
        groups.setdefault(_without_numbers(steps, abs(m)), []).append(m)
    if len(groups) == len(terms):
        return terms
    left = list[int]()
    for factors, members in groups.items():
        net = Counter[int]()
        for m in members:
            net[abs(m)] += 1 if m > 0 else -1
        factor: Rational = 0
        for n, times_there in net.items():
            own: Rational = times_there
            for k in steps.factors(n):
                own = times(own, steps.of[k]) if steps.kinds[k] == NUMBER else own
            factor = plus(factor, own)
        if len(net) == 1 or (factor and not is_in_range(factor := rounded(factor))):
            left += [n if c > 0 else -n for n, c in net.items() for _ in range(abs(c))]
        elif factor:
            scale = [] if abs(factor) == 1 else [steps.number(abs(factor))]
            n = factors[0] if len(factors) == 1 and not scale else steps.add(PRODUCT, [*scale, *factors])
            left.append(n if factor.numerator > 0 else -n)
    return left


def _without_numbers(steps: Steps, n: int) -> tuple[int, ...]:
    """The factors of a value in order, without constants; of a constant itself."""
    factors = tuple(sorted([k for k in steps.factors(n) if steps.kinds[k] != NUMBER]))
    return factors or (n,)


def join_numbers(steps: Steps, kind: int, terms: Sequence[int]) -> Sequence[int]:
    """The terms of a sum or product with one constant at most, and none that changes nothing: 2 + x + 3 -> 5
    + x. Constants whose sum or product leaves the range of single precision stay apart."""
    numbers = [m for m in terms if steps.kinds[abs(m)] == NUMBER]
    neutral = 0 if kind == SUM else 1
    if not numbers or (len(numbers) == 1 and steps.of[abs(numbers[0])] not in (0, neutral)):
        return terms
    value: Rational = neutral
    for m in numbers:
        of = steps.of[abs(m)]
        value = plus(value, of if m > 0 else -of) if kind == SUM else times(value, of)
    if value and not is_in_range(value := rounded(value)):
        return terms
    if kind == PRODUCT and not value:
        return [0]
    rest = [m for m in terms if steps.kinds[abs(m)] != NUMBER]
    if value == neutral and rest:
        return rest
    if kind == SUM and rest and value.numerator < 0:
        return [*rest, -steps.number(-value)]
    return [*rest, steps.number(value)]


def constant_of(steps: Steps, n: int) -> Rational | None:
    """The value of a Function of constants; None if it is unknown, or outside of single precision."""
    function = steps.of[n][0]
    if not issubclass(function, Pointwise) or function.eval is not Pointwise.eval:
        return None
    given = [math.copysign(1.0, m) * float(steps.of[abs(m)]) for m in steps.terms[n]]
    with np.errstate(all="ignore"):
        value = float(function.compute(*map(np.float64, given)))
    if not math.isfinite(value) or (value and not is_in_range(of_float(value))):
        return None
    return of_float(value)


def take_out_factors(steps: Steps, order: Sequence[int]) -> bool:
    """a b + a c -> a (b + c), where nothing else reads the products. Whether anything changed."""
    kinds, operands, uses = steps.kinds, steps.operands, steps.uses(order)
    changed = False
    some, products = _with_common_factors(steps, np.array(uses), order), set[int]()

    def added(kind: int, terms: Sequence[int], read: int) -> int:
        uses.append(read)
        return steps.add(kind, terms)

    for n in order:
        if kinds[n] != SUM or not (n in some or (products and not products.isdisjoint(operands[n]))):
            continue
        while kinds[n] == SUM and _repeats(steps, uses, operands[n]):
            times = Counter(operands[n])
            own = {m: {*operands[m]} for m in times if kinds[m] == PRODUCT and uses[m] == times[m]}
            shared = Counter[int]()
            for m in operands[n]:
                shared.update(own.get(m, (m,)))
            factor, count = max(shared.items(), key=lambda item: (item[1], -item[0]), default=(0, 0))
            if count < 2:
                break
            inside, outside = list[int](), list[int]()
            without = dict[int, int]()
            for term in steps.terms[n]:
                m = abs(term)
                if factor in own.get(m, ()):
                    if m not in without:
                        rest = list(operands[m])
                        rest.remove(factor)
                        if len(rest) == 1:
                            without[m] = rest[0]
                        else:
                            without[m] = added(PRODUCT, rest, times[m])
                    inside.append(without[m] if term > 0 else -without[m])
                else:
                    outside.append(term)
            if len(inside) < 2:
                break
            changed = True
            sign = 1 if max(inside) > 0 else -1
            total = added(SUM, [sign * m for m in inside], 1)
            product = added(PRODUCT, [factor, total], 1)
            if not outside and sign == 1:
                steps.put(n, PRODUCT, [factor, total])
                products.add(n)
            else:
                steps.put(n, SUM, [*outside, sign * product])
                if not outside:
                    break
    return changed


def _with_common_factors(steps: Steps, uses: np.ndarray, order: Sequence[int]) -> set[int]:
    """The sums of which ``_repeats`` is true, and those of squares."""
    kinds = steps.kinds
    readers, read = steps.reads([n for n in order if kinds[n] == SUM])
    read, lengths = np.abs(read), np.bincount(readers, minlength=len(steps))
    own = (steps.kind_of(read) == PRODUCT) & (uses[read] <= lengths[readers])
    products, factors = steps.rows.of(read[own])
    return {*repeated(np.append(readers[own][products], readers[~own]), np.append(factors, read[~own]))}


def _repeats(steps: Steps, uses: Sequence[int], operands: Sequence[int]) -> bool:
    """Whether two terms may have a factor in common."""
    seen, kinds, inner = set[int](), steps.kinds, steps.operands
    for m in operands:
        factors = inner[m] if kinds[m] == PRODUCT and uses[m] <= len(operands) else (m,)
        if not seen.isdisjoint(factors):
            return True
        seen.update(factors)
    return False


def unify(steps: Steps, order: Sequence[int]) -> list[int]:
    """Equal values become one, and a sum or product of one operand that operand. Gives the new order, shorter
    if anything changed. Compares only values that changed since the last call."""
    same, kinds, terms, operands = dict[int, int](), steps.kinds, steps.terms, steps.operands
    fresh, keys, known, places = steps.fresh, steps.keys, steps.first, steps.places(order)
    new = dict[int, None]()  # constants that are not in the order yet

    def moved(m: int) -> int:
        return same.get(m, m) if m > 0 else -same.get(-m, -m)

    for n in order:
        kind = kinds[n]
        if kind < SUM or n in same:
            continue
        if same and not same.keys().isdisjoint(operands[n]):
            steps.put(n, kind, [moved(m) for m in terms[n]])
        elif n not in fresh:
            continue
        inner = terms[n]
        if kind in (SUM, PRODUCT) and (joined := join_numbers(steps, kind, inner)) is not inner:
            steps.put(n, kind, inner := joined)
            new.update(dict.fromkeys(m for m in operands[n] if kinds[m] == NUMBER))
        elif kind == CALL and all(kinds[m] == NUMBER for m in operands[n]):
            value = constant_of(steps, n)
            if value is not None:
                same[n] = steps.number(value)
                new[same[n]] = None
                continue
        fresh.discard(n)
        if len(inner) == 1 and (kind == PRODUCT or (kind == SUM and inner[0] >= 0)):
            same[n] = inner[0]
            continue
        if kind == CALL:
            key = (steps.of[n], *inner)
        elif len(inner) == 2:
            a, b = inner
            key = (kind, a, b) if a < b else (kind, b, a)
        else:
            key = (kind, *sorted(inner))
        keys[n] = key
        first = known.setdefault(key, n)
        if first == n:
            continue
        if places[first] < 0 or first in fresh or keys[first] != key:  # it is not there any more
            known[key] = n
        elif places[first] < places[n]:
            same[n] = first
        else:
            known[key], same[first] = n, n
    steps.roots = [moved(r) for r in steps.roots]
    new = {n: None for n in new if n >= len(places) or places[n] < 0}
    return [*new, *(n for n in order if n not in same)]


def expand(steps: Steps) -> None:
    """Writes products of products out, also where others read the inner ones."""
    for n in steps.order():
        if steps.kinds[n] == PRODUCT:
            flat = [k for m in steps.operands[n] for k in steps.factors(m)]
            if len(flat) <= LONGEST:
                steps.put(n, PRODUCT, flat)


def reduced(steps: Steps, *, around: int | None = None, product_cost: float = 1.0) -> Steps:
    """The steps, just lowered, with fewer operations; they are changed. around: products are written out
    before, and multiplied out where that gives sums more common factors (see ``distribute``); None leaves
    them as they are. product_cost: in sums; above 1 products are saved at the price of sums."""
    order = range(len(steps))
    if around is not None:
        expand(steps)
        order = steps.order()
    order = unify(steps, flatten(steps, order))
    if around is not None and distribute(steps, around):
        order = flatten(steps, unify(steps, steps.order()))
    while take_out_factors(steps, order) or (around is not None and regroup(steps)):
        order = flatten(steps, unify(steps, steps.order()))
    share_pairs(steps, PRODUCT, order)
    if product_cost > 1.0 and cross(steps, product_cost):
        order = unify(steps, steps.order())
    share_pairs(steps, SUM, order)  # the order has all sums
    order = steps.order()
    while len(shorter := unify(steps, order)) < len(order):
        order = flatten(steps, shorter)
    unify(steps, place_signs(steps, order))
    return steps


# More common factors: sums are multiplied out, or spread over other terms.

LONGEST_SUM = 4  # terms of a sum that is multiplied out


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
                and len(steps.terms[k]) <= LONGEST_SUM
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


# Pairs of operands that several sums or products have.

Pair = tuple[int, int, int]
"""(a, sign, b): the terms a and sign b, or both negative."""


def share_pairs(steps: Steps, kind: int, order: Sequence[int]) -> None:
    """Computes pairs of operands that several sums (products) have once; the most frequent pair first."""
    bags, where = _Bags(steps), _Users(steps, [n for n in order if steps.kinds[n] == kind])
    heap = [(-gain, p) for p, users in where.items() if (gain := _gain(users, bags, p)) > 1]
    heapq.heapify(heap)
    changed = set[int]()
    while heap:
        known, pair = heapq.heappop(heap)
        gain = _gain(where[pair], bags, pair)
        if gain < 2:
            continue
        if gain != -known:
            heapq.heappush(heap, (-gain, pair))
            continue
        a, b = pair[0], pair[1] * pair[2]
        alone = {a: 2} if a == b else {a: 1, b: 1}
        whole = next((n for n in sorted(where[pair]) if bags[n] == alone), None)
        if whole is None:
            whole = steps.add(kind, [a, b])
            bags[whole] = alone
            where[pair].add(whole)
        new = set[Pair]()
        for n in sorted(where[pair]):
            if n == whole:
                continue
            for sign in (1, -1):
                times = _times(bags[n], sign * a, sign * b)
                if times:
                    changed.add(n)
                    bag = bags[n]
                    for m in (a, b):
                        bag[sign * m] -= times
                        if not bag[sign * m]:
                            del bag[sign * m]
                    bag[sign * whole] = bag.get(sign * whole, 0) + times
                    for p in _pairs(bag):
                        where[p].add(n)
                        if p[0] == whole or p[2] == whole:
                            new.add(p)
        for p in new:
            gain = _gain(where[p], bags, p)
            if gain >= 2:
                heapq.heappush(heap, (-gain, p))
    for n in changed:
        steps.put(n, kind, [m for m, times in bags[n].items() for _ in range(times)])


class _Bags(dict[int, dict[int, int]]):
    """How often each term is in a sum (product), of those that are asked."""

    def __init__(self, steps: Steps):
        self.steps = steps

    def __missing__(self, n: int) -> dict[int, int]:
        terms = self.steps.terms[n]
        counts = dict.fromkeys(terms, 1)
        if len(counts) < len(terms):
            counts = dict(Counter(terms))
        self[n] = counts
        return counts


class _Users(dict[Pair, set[int]]):
    """{pair: sums (products) with it}: pairs that several have, or one may have twice; others on request."""

    def __init__(self, steps: Steps, asked: Sequence[int]):
        self.span = len(steps)
        owners, terms = steps.reads(asked)
        operands = np.abs(terms)
        several = np.bincount(operands)[operands] > 1  # what is read once is in no pair that occurs twice
        owners, terms, operands = owners[several], terms[several], operands[several]
        order = np.lexsort((operands, owners))
        owners, terms, operands = owners[order], terms[order], operands[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        lengths = np.diff(starts, append=len(owners))
        pairs, users = [np.empty(0, int)], [np.empty(0, int)]
        for length in np.unique(lengths).tolist():
            first, second = np.triu_indices(length, 1)
            rows = starts[lengths == length][:, None] + np.arange(length)
            a, b = rows[:, first].ravel(), rows[:, second].ravel()
            pairs.append(self._number(operands[a], (terms[a] > 0) == (terms[b] > 0), operands[b]))
            users.append(owners[a])
        pair, user = np.concatenate(pairs), np.concatenate(users)
        order = np.argsort(pair, kind="stable")
        pair, user = pair[order], user[order]
        self.once: dict[int, int] = dict(zip(pair.tolist(), user.tolist(), strict=True))
        """By the number of a pair, one that has it."""
        kept = np.isin(user, repeated(owners, operands))
        equal = np.flatnonzero(pair[1:] == pair[:-1])
        kept[equal] = kept[equal + 1] = True
        for number, n in zip(pair[kept].tolist(), user[kept].tolist(), strict=True):
            ab, b = divmod(number, self.span)
            self.setdefault((ab // 2, 1 if ab % 2 else -1, b), set()).add(n)

    def _number(self, a: Any, same: Any, b: Any) -> Any:
        return (2 * a + same) * self.span + b

    def __missing__(self, pair: Pair) -> set[int]:
        a, sign, b = pair
        once = self.once.get(self._number(a, sign > 0, b)) if b < self.span else None
        users = self[pair] = set() if once is None else {once}
        return users


def _pairs(bag: Mapping[int, int]) -> list[Pair]:
    """Unordered pairs of the terms of a sum (product), with the sign of the first positive."""
    items = sorted(bag, key=abs)
    pairs = [(abs(m), 1, abs(m)) for m, times in bag.items() if times > 1]
    for i, m in enumerate(items[:-1]):
        pairs += [(abs(m), 1 if (m > 0) == (k > 0) else -1, abs(k)) for k in items[i + 1 :]]
    return pairs


def _times(bag: Mapping[int, int], a: int, b: int) -> int:
    count = bag.get
    return count(a, 0) // 2 if a == b else min(count(a, 0), count(b, 0))


def _gain(users: Iterable[int], bags: Mapping[int, Mapping[int, int]], pair: Pair) -> int:
    """How often the pair occurs, one sum or product by itself included."""
    a, b = pair[0], pair[1] * pair[2]
    return sum([_times(bags[n], a, b) + _times(bags[n], -a, -b) for n in users])


# Changes of sign move into constants, and through products and sums, where they cost nothing.


def place_signs(steps: Steps, order: Sequence[int]) -> list[int]:
    """Negates sums, and products of a constant, whose readers want them negative: neither costs anything.
    Products of other values, quotients and sines hand the wish on to what they are made of. Signs that are
    left stay at the roots and at the arguments of Functions. Gives the new order."""
    kinds, operands = steps.kinds, steps.operands
    products = [n for n in order if kinds[n] == PRODUCT]
    readers, factors = steps.reads(products)
    constant = steps.kind_of(factors) == NUMBER
    numbers = dict(zip(readers[constant].tolist()[::-1], factors[constant].tolist()[::-1], strict=True))
    negative, flipped = _negative(steps, order, numbers), set[int]()
    negated = dict[int, int]()
    for n in order:
        kind = kinds[n]
        if kind < SUM:
            continue
        terms, flips = steps.terms[n], not flipped.isdisjoint(operands[n])
        if kind == SUM:
            if flips:
                terms = [-m if abs(m) in flipped else m for m in terms]
            if (n in negative and min(terms) < 0) or (terms[0] < 0 and max(terms) < 0):
                flipped.add(n)
                terms = [-m for m in terms]
            if terms != steps.terms[n]:
                steps.put(n, kind, terms)
        elif kind in (PRODUCT, RECIPROCAL):
            changes = flips and sum([m in flipped for m in terms]) % 2 == 1
            if n in numbers and (n in negative) != changes:
                number = numbers[n]
                if number not in negated:
                    negated[number] = steps.add(NUMBER, of=-steps.of[number])
                rest = list(terms)
                rest[rest.index(number)] = negated[number]
                steps.put(n, kind, rest)
                changes = not changes
            if changes:
                flipped.add(n)
        elif kind == CALL:
            if flips:
                terms = [-m if abs(m) in flipped else m for m in terms]
            if terms and terms[0] < 0 and _is_odd(steps, n):
                flipped.add(n)
                terms = [-terms[0]]
            if terms != steps.terms[n]:
                steps.put(n, kind, terms)
    steps.roots = [-r if abs(r) in flipped else r for r in steps.roots]
    return [*negated.values(), *order]


def _negative(steps: Steps, order: Sequence[int], numbers: dict[int, int]) -> set[int]:
    """The sums, and the products of a constant, of which more readers want the negative value, given what is
    decided for their readers. numbers: the constant of each product that has one."""
    kinds, operands = steps.kinds, steps.operands
    wishes = [0] * len(steps)
    through = defaultdict[int, list[int]](list)
    """By value: the readers that hand on a wish, negative if they change its sign."""
    for r in dict.fromkeys(steps.roots):
        wishes[abs(r)] += 1 if r > 0 else -1
    negative = set[int]()
    for n in reversed(order):
        kind = kinds[n]
        if kind < SUM:
            continue
        for reader in through.pop(n, ()):
            sign = 1 if reader > 0 else -1
            for m in operands[abs(reader)]:
                sign *= -1 if m != n and m in negative else 1
            wishes[n] += sign * wishes[abs(reader)]
        wish = wishes[n]
        if kind == SUM or n in numbers:
            if wish < 0:
                negative.add(n)
        elif kind == CALL and not _is_odd(steps, n):
            for m in steps.terms[n]:
                wishes[abs(m)] += 1 if m > 0 else -1
        elif wish:
            for m in steps.terms[n]:
                through[abs(m)].append(n if m > 0 else -n)
    return negative


def _is_odd(steps: Steps, n: int) -> bool:
    return steps.of[n] == (Sin, ())
