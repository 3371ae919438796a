"""Sums of products get more common factors: products of sums are multiplied out, or spread over other terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .steps import Added, Multiplied, Steps

LONGEST = 4
"""Terms of a sum that is multiplied out."""


def distribute(steps: Steps, around: int) -> bool:
    """x (v c + w s) + c y + c z + ... -> x v c + x w s + c y + c z + ...: multiplies out the sums of which each term has a factor
    in common with so many terms ``around``, whoever else reads them. Whether anything changed."""
    changed = False
    for n in steps.order():
        value = steps.values[n]
        if not isinstance(value, Added) or len(value.terms) < 2:
            continue
        readers = Counter[int]()
        for m in value.operands:
            readers.update(set(_written(steps, m)))
        terms = list[tuple[int, int]]()
        for sign, m in value.terms:
            own = set(_written(steps, m))
            inner = next(
                (k for k in own if len(own) > 1 and _is_spread(steps, k, readers - Counter(own), around)),
                None,
            )
            if inner is None:
                terms.append((sign, m))
                continue
            rest = list(steps.values[m].operands)
            rest.remove(inner)
            changed = True
            total = steps.values[inner]
            assert isinstance(total, Added)
            for s, k in total.terms:
                terms.append((sign * s, steps.add(Multiplied([*rest, *_written(steps, k)]))))
        if len(terms) > len(value.terms):
            steps.values[n] = Added(terms)
    return changed


def _written(steps: Steps, n: int) -> list[int]:
    """The factors of a value."""
    value = steps.values[n]
    return list(value.operands) if isinstance(value, Multiplied) else [n]


def _is_spread(steps: Steps, n: int, readers: Counter[int], around: int) -> bool:
    """Whether a value is a sum of which each term has a factor of so many other terms. readers: of each factor how many."""
    value = steps.values[n]
    return (
        isinstance(value, Added)
        and len(value.terms) <= LONGEST
        and all(any(readers[f] >= around for f in _written(steps, k)) for k in value.operands)
    )


def regroup(steps: Steps) -> bool:
    """x (a c + b s) + c y + s z -> c (x a + y) + s (x b + z), one product fewer, where nothing else reads the sums and products.
    Whether anything changed."""
    order = steps.order()
    uses = steps.uses(order)
    changed = False
    for n in order:
        value = steps.values[n]
        if not isinstance(value, Added):
            continue
        for place, (_, m) in enumerate(value.terms):
            found = _regrouped(steps, uses, value.terms, place) if uses[m] == 1 else None
            if found is not None:
                steps.values[n] = Added(found)
                changed = True
                break
    return changed


def _regrouped(
    steps: Steps, uses: Counter[int], terms: Sequence[tuple[int, int]], place: int
) -> list[tuple[int, int]] | None:
    """The terms of a sum, of which that at a place is spread over others; None if it cannot be."""
    sign, m = terms[place]
    product = steps.values[m]
    own = (k for k in _written(steps, m) if isinstance(steps.values[k], Added) and uses[k] == 1)
    inner = next(own, None)
    if inner is None or not isinstance(product, Multiplied):
        return None
    total = steps.values[inner]
    assert isinstance(total, Added)
    left = {k: t for k, t in enumerate(terms) if k != place}
    pairs = list[tuple[int, int, int, int]]()
    for s, k in total.terms:
        own = _written(steps, k) if uses[k] == 1 else []
        at, factor = next(
            (
                (a, f)
                for a, (_, o) in left.items()
                if uses[o] == 1 and len(_written(steps, o)) > 1
                for f in _written(steps, o)
                if f in own
            ),
            (-1, -1),
        )
        if at < 0 or len(own) < 2:
            return None
        pairs.append((sign * s, k, factor, at))
        left.pop(at)
    rest = list(product.operands)
    rest.remove(inner)
    found = list(left.values())
    for s, k, factor, at in pairs:
        t, other = terms[at]
        inside = Added([(1, _without(steps, other, factor)), (s * t, _without(steps, k, factor, rest))])
        found.append((t, steps.add(Multiplied([factor, steps.add(inside)]))))
    return found


def _without(steps: Steps, n: int, factor: int, more: Sequence[int] = ()) -> int:
    """A product without one of its factors, times more."""
    factors = _written(steps, n)
    factors.remove(factor)
    factors += more
    return factors[0] if len(factors) == 1 else steps.add(Multiplied(factors))
