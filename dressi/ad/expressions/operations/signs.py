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
    constants = {n for n in order if kinds[n] == NUMBER}
    numbers = {
        n: next(m for m in operands[n] if m in constants)
        for n in order
        if kinds[n] == PRODUCT and not constants.isdisjoint(operands[n])
    }
    negative = _negative(steps, order, numbers)
    flags = [1] * len(steps)
    negated = dict[int, int]()
    for n in order:
        kind = kinds[n]
        if kind == SUM:
            terms = [m * flags[abs(m)] for m in steps.terms[n]]
            if (n in negative and min(terms) < 0) or max(terms) < 0:
                flags[n], terms = -1, [-m for m in terms]
            steps.put(n, kind, terms)
        elif kind == PRODUCT:
            for m in operands[n]:
                flags[n] *= flags[m]
            if n in numbers and (n in negative) != (flags[n] < 0):
                number = numbers[n]
                if number not in negated:
                    negated[number] = steps.add(NUMBER, of=-steps.of[number])
                rest = list(operands[n])
                rest[rest.index(number)] = negated[number]
                steps.put(n, kind, rest)
                flags[n] = -flags[n]
        elif kind == RECIPROCAL:
            flags[n] = flags[operands[n][0]]
        elif kind == CALL:
            terms = [m * flags[abs(m)] for m in steps.terms[n]]
            if _is_odd(steps, n) and terms[0] < 0:
                flags[n], terms = -1, [-terms[0]]
            steps.put(n, kind, terms)
    steps.roots = [r * flags[abs(r)] for r in steps.roots]
    return [*negated.values(), *order]


def _negative(steps: Steps, order: Sequence[int], numbers: dict[int, int]) -> set[int]:
    """The sums, and the products of a constant, of which more readers want the negative value, given what is decided for their readers.
    numbers: the constant of each product that has one."""
    kinds, operands = steps.kinds, steps.operands
    wishes = [0] * len(steps)
    through = defaultdict[int, list[int]](list)
    """Of each value the readers that have its sign, negative where they change it."""
    for r in dict.fromkeys(steps.roots):
        wishes[abs(r)] += 1 if r > 0 else -1
    for n in order:
        kind = kinds[n]
        if kind == CALL:
            for m in steps.terms[n]:
                if _is_odd(steps, n):
                    through[abs(m)].append(n if m > 0 else -n)
                else:
                    wishes[abs(m)] += 1 if m > 0 else -1
        elif kind == RECIPROCAL or (kind == PRODUCT and n not in numbers):
            for m in operands[n]:
                through[m].append(n)
    found = set[int]()
    for n in reversed(order):
        for reader in through.get(n, ()):
            sign = 1 if reader > 0 else -1
            for m in operands[abs(reader)]:
                sign *= -1 if m != n and m in found else 1
            wishes[n] += sign * wishes[abs(reader)]
        if wishes[n] < 0 and (kinds[n] == SUM or n in numbers):
            found.add(n)
    return found


def _is_odd(steps: Steps, n: int) -> bool:
    return steps.of[n] == (Sin, ())
