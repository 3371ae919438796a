"""Sums of products get more common factors: products of sums are multiplied out, or spread over other terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .steps import PRODUCT, SUM, Steps

LONGEST = 4
"""Terms of a sum that is multiplied out."""


def distribute(steps: Steps, around: int) -> bool:
    """x (v c + w s) + c y + c z + ... -> x v c + x w s + c y + c z + ...: multiplies out the sums of which each term has a factor
    in common with so many terms ``around``, whoever else reads them. Whether anything changed."""
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
            inner = next(
                (k for k in own if len(own) > 1 and _is_spread(steps, k, readers - Counter(own), around)),
                None,
            )
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


def _is_spread(steps: Steps, n: int, readers: Counter[int], around: int) -> bool:
    """Whether a value is a sum of which each term has a factor of so many other terms. readers: of each factor how many."""
    return (
        steps.kinds[n] == SUM
        and len(steps.terms[n]) <= LONGEST
        and all(any(readers[f] >= around for f in steps.factors(k)) for k in steps.operands[n])
    )


def regroup(steps: Steps) -> bool:
    """x (a c + b s) + c y + s z -> c (x a + y) + s (x b + z), one product fewer, where nothing else reads the sums and products.
    Whether anything changed."""
    order = steps.order()
    uses = steps.uses(order)
    changed = False
    for n in order:
        if steps.kinds[n] == SUM:
            for place, m in enumerate(steps.operands[n]):
                found = _regrouped(steps, uses, steps.terms[n], place) if uses[m] == 1 else None
                if found is not None:
                    steps.put(n, SUM, found)
                    uses += [0] * (len(steps) - len(uses))  # what is new stays as it is
                    changed = True
                    break
    return changed


def _regrouped(steps: Steps, uses: Sequence[int], terms: Sequence[int], place: int) -> list[int] | None:
    """The terms of a sum, of which that at a place is spread over others; None if it cannot be."""
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
    found = list(left.values())
    for term, factor, other in pairs:
        sign = 1 if other > 0 else -1
        inside = [
            _without(steps, abs(other), factor),
            _without(steps, abs(term), factor, rest) * (1 if (term > 0) == (other > 0) else -1),
        ]
        found.append(sign * steps.add(PRODUCT, [factor, steps.add(SUM, inside)]))
    return found


def _without(steps: Steps, n: int, factor: int, more: Sequence[int] = ()) -> int:
    """A product without one of its factors, times more."""
    factors = list(steps.factors(n))
    factors.remove(factor)
    factors += more
    return factors[0] if len(factors) == 1 else steps.add(PRODUCT, factors)
