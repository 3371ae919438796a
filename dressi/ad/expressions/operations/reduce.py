"""Fewer operations for the same values: nested sums and products become one, common factors are taken out of sums, and
parts that occur several times are computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..terms.rational import Rational, times
from .crossed import cross
from .distribute import distribute, regroup
from .pairs import share_pairs
from .signs import place_signs
from .steps import CALL, NUMBER, PRODUCT, SUM, Steps, repeated

LONGEST = 12
"""Factors of a product that is written out."""


def flatten(steps: Steps, order: Sequence[int]) -> list[int]:
    """a + (b + c) -> a + b + c, and for products, where nothing else reads the inner one. order: that of the steps; the new one is
    returned."""
    kinds, terms = steps.kinds, steps.terms
    readers, read = steps.reads(order)
    uses, read = steps.uses_of(read), np.abs(read)
    kind = steps.kind_of(readers)
    of_sums = kind == SUM
    once = (steps.kind_of(read) == kind) & (of_sums | (kind == PRODUCT)) & (uses[read] == 1)
    gone, cancelled = set[int](read[once].tolist()), False
    some = {*readers[once].tolist(), *repeated(readers[of_sums], read[of_sums])}
    for n in [n for n in order if n in some]:
        flat = list[int]()
        for m in terms[n]:
            if abs(m) in gone and kinds[abs(m)] == kinds[n]:
                flat += terms[m] if m > 0 else [-k for k in terms[-m]]
            else:
                flat.append(m)
        if kinds[n] == PRODUCT:
            steps.put(n, PRODUCT, flat)
        else:
            steps.put(n, SUM, left := _like_terms(flat))
            cancelled |= len(left) < len(flat)
    return steps.order() if cancelled else [n for n in order if n not in gone]


def _like_terms(terms: Sequence[int]) -> Sequence[int]:
    """The same sum, without terms that cancel."""
    if len({abs(m) for m in terms}) == len(terms):
        return terms
    net = Counter[int]()
    for m in terms:
        net[abs(m)] += 1 if m > 0 else -1
    return [n if c > 0 else -n for n, c in net.items() for _ in range(abs(c))]


def take_out_factors(steps: Steps, order: Sequence[int]) -> bool:
    """a b + a c -> a (b + c), where nothing else reads the products. order: that of the steps. Whether anything changed."""
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
    found, kinds, inner = set[int](), steps.kinds, steps.operands
    for m in operands:
        factors = inner[m] if kinds[m] == PRODUCT and uses[m] <= len(operands) else (m,)
        if not found.isdisjoint(factors):
            return True
        found.update(factors)
    return False


def unify(steps: Steps, order: Sequence[int]) -> list[int]:
    """Equal values become one, and a sum or product of one operand that operand. order: that of the steps; the new one, which is
    shorter if anything changed, is returned. Values that are as they were at the last call are not compared with each other again."""
    same, kinds, terms, operands = dict[int, int](), steps.kinds, steps.terms, steps.operands
    fresh, keys, known, places = steps.fresh, steps.keys, steps.first, steps.places(order)

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
        fresh.discard(n)
        inner = terms[n]
        if len(inner) == 1 and (kind == PRODUCT or (kind == SUM and inner[0] > 0)):
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
    return [n for n in order if n not in same]


def _join_numbers(steps: Steps) -> None:
    """The constants of a product become one."""
    known: dict[Rational, int] = {steps.of[n]: n for n, kind in enumerate(steps.kinds) if kind == NUMBER}
    for n in steps.order():
        numbers = [m for m in steps.operands[n] if steps.kinds[m] == NUMBER]
        if steps.kinds[n] == PRODUCT and len(numbers) > 1:
            scale: Rational = 1
            for m in numbers:
                scale = times(scale, steps.of[m])
            rest = [m for m in steps.operands[n] if steps.kinds[m] != NUMBER]
            if scale != 1:
                if scale not in known:
                    known[scale] = steps.add(NUMBER, of=scale)
                rest.append(known[scale])
            steps.put(n, PRODUCT, rest)


def expand(steps: Steps) -> None:
    """Products become products of what is no product, also where others read the inner ones: parts that several have are
    found again, maybe others."""
    for n in steps.order():
        if steps.kinds[n] == PRODUCT:
            flat = [k for m in steps.operands[n] for k in steps.factors(m)]
            if len(flat) <= LONGEST:
                steps.put(n, PRODUCT, flat)


def reduced(steps: Steps, *, around: int | None = None, product_cost: float = 1.0) -> Steps:
    """The steps, just lowered, with fewer operations; they are changed. around: products are written out before, and multiplied
    out where that gives sums more common factors (see ``distribute``); None leaves them as they are. product_cost: in sums;
    above 1 products are saved at the price of sums."""
    order = range(len(steps))
    if around is not None:
        expand(steps)
        _join_numbers(steps)
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
