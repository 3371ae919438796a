"""Changes of sign move into constants, and through products and sums, where they cost nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...ops.pixel.trigonometry import Sin
from .steps import CALL, NUMBER, PRODUCT, RECIPROCAL, SUM, Steps


def place_signs(steps: Steps, order: Sequence[int]) -> list[int]:
    """Negates sums, and products of a constant, whose readers want them negative: neither costs anything. Products of other
    values, quotients and sines hand the wish on to what they are made of. Signs that are left stay at the roots and at the
    arguments of Functions. order: that of the steps; the new one is returned."""
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
    """The sums, and the products of a constant, of which more readers want the negative value, given what is decided for their readers.
    numbers: the constant of each product that has one."""
    kinds, operands = steps.kinds, steps.operands
    wishes = [0] * len(steps)
    through = defaultdict[int, list[int]](list)
    """Of each value the readers that hand on a wish, negative where they change its sign."""
    for r in dict.fromkeys(steps.roots):
        wishes[abs(r)] += 1 if r > 0 else -1
    found = set[int]()
    for n in reversed(order):
        kind = kinds[n]
        if kind < SUM:
            continue
        for reader in through.pop(n, ()):
            sign = 1 if reader > 0 else -1
            for m in operands[abs(reader)]:
                sign *= -1 if m != n and m in found else 1
            wishes[n] += sign * wishes[abs(reader)]
        wish = wishes[n]
        if kind == SUM or n in numbers:
            if wish < 0:
                found.add(n)
        elif kind == CALL and not _is_odd(steps, n):
            for m in steps.terms[n]:
                wishes[abs(m)] += 1 if m > 0 else -1
        elif wish:
            for m in steps.terms[n]:
                through[abs(m)].append(n if m > 0 else -n)
    return found


def _is_odd(steps: Steps, n: int) -> bool:
    return steps.of[n] == (Sin, ())
