"""Fewer operations for the same values: nested sums and products become one, common factors are taken out of sums, and
parts that occur several times are computed once."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from ..terms.field import Rational, plain
from .crossed import cross
from .distribute import distribute, regroup
from .signs import place_signs
from .steps import Added, Called, Multiplied, Number, Reciprocal, Steps

LONGEST = 12
"""Factors of a product that is written out."""

Pair = tuple[tuple[int, int], tuple[int, int]]


def flatten(steps: Steps, order: Sequence[int]) -> list[int]:
    """a + (b + c) -> a + b + c, and for products, where nothing else reads the inner one. order: that of the steps; the new one is
    returned."""
    values, uses, gone = steps.values, steps.uses(order), set[int]()
    cancelled = False
    for n in order:
        value = values[n]
        kind = type(value)
        if not isinstance(value, Added | Multiplied):
            continue
        nested = [m for m in value.operands if type(values[m]) is kind and uses[m] == 1]
        gone.update(nested)
        if isinstance(value, Multiplied):
            if nested:
                values[n] = Multiplied(
                    [k for m in value.operands for k in (values[m].operands if m in nested else (m,))]
                )
        elif nested or len(set(value.operands)) != len(value.terms):
            terms = list[tuple[int, int]]()
            for sign, m in value.terms:
                inner = values[m]
                if m in nested and isinstance(inner, Added):
                    terms += [(sign * s, k) for s, k in inner.terms]
                else:
                    terms.append((sign, m))
            values[n] = Added(left := _like_terms(terms))
            cancelled |= len(left) < len(terms)
    return steps.order() if cancelled else [n for n in order if n not in gone]


def _like_terms(terms: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The same sum, without terms that cancel."""
    if len({n for _, n in terms}) == len(terms):
        return terms
    net = Counter[int]()
    for sign, n in terms:
        net[n] += sign
    return [(1 if c > 0 else -1, n) for n, c in net.items() for _ in range(abs(c))]


def take_out_factors(steps: Steps, order: Sequence[int]) -> bool:
    """a b + a c -> a (b + c), where nothing else reads the products. order: that of the steps. Whether anything changed."""
    uses = steps.uses(order)
    changed = False

    def is_own(n: int, times: Counter[int]) -> bool:
        return isinstance(steps.values[n], Multiplied) and uses[n] == times[n]

    for n in order:
        value = steps.values[n]
        if not isinstance(value, Added):
            continue
        while True:
            if not _repeats(steps, uses, value):
                break
            times = Counter(value.operands)
            own = {m: set(steps.values[m].operands) for m in times if is_own(m, times)}
            shared = Counter[int]()
            for m in value.operands:
                shared.update(own.get(m, (m,)))
            factor, count = max(shared.items(), key=lambda item: (item[1], -item[0]), default=(0, 0))
            if count < 2:
                break
            inside, outside = list[tuple[int, int]](), list[tuple[int, int]]()
            without = dict[int, int]()
            for sign, m in value.terms:
                if factor in own.get(m, ()):
                    if m not in without:
                        rest = list(steps.values[m].operands)
                        rest.remove(factor)
                        without[m] = rest[0] if len(rest) == 1 else steps.add(Multiplied(rest))
                        uses[without[m]] += times[m] if len(rest) > 1 else 0
                    inside.append((sign, without[m]))
                else:
                    outside.append((sign, m))
            if len(inside) < 2:
                break
            changed = True
            sign = 1 if any(s > 0 for s, _ in inside) else -1
            total = steps.add(Added([(s * sign, m) for s, m in inside]))
            product = steps.add(Multiplied([factor, total]))
            uses[total] = uses[product] = 1
            outside.append((sign, product))
            if len(outside) == 1 and sign == 1:
                steps.values[n] = Multiplied([factor, total])
                break
            value = steps.values[n] = Added(outside)
            if len(outside) == 1:
                break
    return changed


def _repeats(steps: Steps, uses: Counter[int], value: Added) -> bool:
    """Whether two terms may have a factor in common."""
    found = set[int]()
    for m in value.operands:
        inner = steps.values[m]
        factors = inner.operands if isinstance(inner, Multiplied) and uses[m] <= len(value.terms) else (m,)
        if not found.isdisjoint(factors):
            return True
        found.update(factors)
    return False


def share_pairs(steps: Steps, kind: type[Added] | type[Multiplied], order: Sequence[int]) -> None:
    """Pairs of operands that several sums (products) have are computed once; the pair of most of them first. order: that of the
    steps."""
    signed = kind is Added
    found = {n: value for n in order if isinstance(value := steps.values[n], kind)}
    readers = Counter(chain.from_iterable([value.operands for value in found.values()]))
    bags: dict[int, Counter[tuple[int, int]]] = {}
    where = defaultdict[Pair, set[int]](set)
    for n, value in found.items():
        terms = value.terms if isinstance(value, Added) else [(1, m) for m in value.operands]
        several = [term for term in terms if readers[term[1]] > 1]
        if len(several) > 1:  # what is read once is in no pair that occurs twice
            bags[n] = Counter(terms)
            for pair in _pairs({*several}, bags[n]):
                where[pair].add(n)
    plain = {n for n, bag in bags.items() if len({m for _, m in bag}) == bag.total()}
    heap = [
        (-gain, p)
        for p, users in where.items()
        if (len(users) > 1 or not users <= plain) and (gain := _gain(users, bags, p)) > 1
    ]
    heapq.heapify(heap)
    changed = set[int]()
    while heap:
        known, pair = heapq.heappop(heap)
        gain = _gain(where.get(pair, ()), bags, pair)
        if gain < 2:
            continue
        if gain != -known:
            heapq.heappush(heap, (-gain, pair))
            continue
        (s, a), (t, b) = pair
        whole = next((n for n in sorted(where[pair]) if bags[n] == Counter(pair)), None)
        if whole is None:
            whole = steps.add(Added([(s, a), (t, b)]) if signed else Multiplied([a, b]))
            bags[whole] = Counter(pair)
            where[pair].add(whole)
        touched = set[Pair]()
        for n in sorted(where[pair]):
            if n == whole:
                continue
            bag = bags[n]
            for sign in (1, -1):
                these = ((s * sign, a), (t * sign, b))
                times = _times(bag, these)
                if times:
                    changed.add(n)
                    for p in _pairs(bag, bag):
                        where[p].discard(n)
                        touched.add(p)
                    bag.subtract(
                        {these[0]: 2 * times} if these[0] == these[1] else {these[0]: times, these[1]: times}
                    )
                    bag[sign, whole] += times
                    bags[n] = bag = +bag
                    for p in _pairs(bag, bag):
                        where[p].add(n)
                        touched.add(p)
        for p in touched:
            gain = _gain(where[p], bags, p)
            if gain >= 2:
                heapq.heappush(heap, (-gain, p))
    for n in changed:
        terms = list(bags[n].elements())
        steps.values[n] = Added(terms) if signed else Multiplied([m for _, m in terms])


def _pairs(terms: Iterable[tuple[int, int]], bag: Counter[tuple[int, int]]) -> set[Pair]:
    """Unordered pairs of operands, with the sign of the first positive."""
    items = sorted(terms, key=lambda x: (x[1], x[0]))
    found = set[Pair]()
    for i, (s, a) in enumerate(items):
        if bag[s, a] > 1:
            found.add(((1, a), (1, a)))
        for t, b in items[i + 1 :]:
            found.add(((1, a), (s * t, b)))
    return found


def _times(bag: Counter[tuple[int, int]], pair: Pair) -> int:
    first, second = pair
    return bag[first] // 2 if first == second else min(bag[first], bag[second])


def _gain(users: Iterable[int], bags: dict[int, Counter[tuple[int, int]]], pair: Pair) -> int:
    """How often the pair occurs, one sum or product by itself included."""
    (s, a), (t, b) = pair
    return sum(
        _times(bags[n], pair) + (_times(bags[n], ((-s, a), (-t, b))) if len(bags[n]) else 0) for n in users
    )


def unify(steps: Steps, order: Sequence[int]) -> list[int]:
    """Equal values become one, and a sum or product of one operand that operand. order: that of the steps; the new one, which is
    shorter if anything changed, is returned."""
    same: dict[int, int] = {}
    products, sums, others = dict[Any, int](), dict[Any, int](), dict[Any, int]()
    values, of = steps.values, same.get
    for n in order:
        value = values[n]
        moved = bool(same) and not same.keys().isdisjoint(value.operands)
        if isinstance(value, Multiplied):
            if moved:
                value = values[n] = Multiplied([of(m, m) for m in value.operands])
            if len(value.operands) == 1:
                same[n] = value.operands[0]
                continue
            first = products.setdefault(tuple(sorted(value.operands)), n)
        elif isinstance(value, Added):
            if moved:
                value = values[n] = Added([(s, of(m, m)) for s, m in value.terms])
            if len(value.terms) == 1 and value.terms[0][0] > 0:
                same[n] = value.operands[0]
                continue
            first = sums.setdefault(tuple(sorted(value.terms)), n)
        elif isinstance(value, Called):
            if moved:
                value = values[n] = Called(value.function, [(s, of(m, m)) for s, m in value.arguments])
            first = others.setdefault((value.function, *value.arguments), n)
        elif isinstance(value, Reciprocal):
            if moved:
                value = values[n] = Reciprocal(of(value.of, value.of))
            first = others.setdefault(value.of, n)
        else:
            continue
        if first != n:
            same[n] = first
    steps.roots = [(s, of(n, n)) for s, n in steps.roots]
    return [n for n in order if n not in same]


def _join_numbers(steps: Steps) -> None:
    """The constants of a product become one."""
    known: dict[Rational, int] = {v.value: n for n, v in enumerate(steps.values) if isinstance(v, Number)}
    for n in steps.order():
        value = steps.values[n]
        if isinstance(value, Multiplied) and sum(steps.is_number(m) for m in value.operands) > 1:
            scale: Rational = 1
            for m in value.operands:
                number = steps.values[m]
                scale = plain(scale * number.value) if isinstance(number, Number) else scale
            rest = [m for m in value.operands if not steps.is_number(m)]
            if scale != 1:
                if scale not in known:
                    known[scale] = steps.add(Number(scale))
                rest.append(known[scale])
            steps.values[n] = Multiplied(rest)


def expand(steps: Steps) -> None:
    """Products become products of what is no product, also where others read the inner ones: parts that several have are
    found again, maybe others."""
    for n in steps.order():
        value = steps.values[n]
        if isinstance(value, Multiplied):
            flat = list[int]()
            for m in value.operands:
                inner = steps.values[m]
                flat.extend(inner.operands if isinstance(inner, Multiplied) else [m])
            if len(flat) <= LONGEST:
                steps.values[n] = Multiplied(flat)


def reduced(steps: Steps, *, around: int | None = None, product_cost: float = 1.0) -> Steps:
    """The steps, just lowered, with fewer operations; they are changed. around: products are written out before, and multiplied out where that
    gives sums more common factors (see ``distribute``); None leaves them as they are. product_cost: in sums; above 1
    products are saved at the price of sums."""
    order = range(len(steps.values))
    if around is not None:
        expand(steps)
        _join_numbers(steps)
        order = steps.order()
    order = unify(steps, flatten(steps, order))
    if around is not None and distribute(steps, around):
        order = flatten(steps, unify(steps, steps.order()))
    while take_out_factors(steps, order) or (around is not None and regroup(steps)):
        order = flatten(steps, unify(steps, steps.order()))
    share_pairs(steps, Multiplied, order)
    if product_cost > 1.0 and cross(steps, product_cost):
        order = unify(steps, steps.order())
    share_pairs(steps, Added, order)  # the order has all sums
    order = steps.order()
    while len(shorter := unify(steps, order)) < len(order):
        order = flatten(steps, shorter)
    place_signs(steps, order)
    unify(steps, steps.order())
    return steps
