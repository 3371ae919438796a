"""Pairs of operands that several sums or products have are computed once."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .steps import Steps, repeated

Pair = tuple[int, int, int]
"""(a, sign, b): the terms a and sign b, or both negative."""


def share_pairs(steps: Steps, kind: int, order: Sequence[int]) -> None:
    """Pairs of operands that several sums (products) have are computed once; the pair of most of them first. order: that of the
    steps."""
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
        found = dict.fromkeys(terms, 1)
        if len(found) < len(terms):
            found = dict(Counter(terms))
        self[n] = found
        return found


class _Users(dict[Pair, set[int]]):
    """The sums (products) found that have a pair, of pairs that several have, that one may have twice, or that are asked."""

    def __init__(self, steps: Steps, found: Sequence[int]):
        self.span = len(steps)
        owners, terms = steps.reads(found)
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
        found = self[pair] = set() if once is None else {once}
        return found


def _pairs(bag: Mapping[int, int]) -> list[Pair]:
    """Unordered pairs of the terms of a sum (product), with the sign of the first positive."""
    items = sorted(bag, key=abs)
    found = [(abs(m), 1, abs(m)) for m, times in bag.items() if times > 1]
    for i, m in enumerate(items[:-1]):
        found += [(abs(m), 1 if (m > 0) == (k > 0) else -1, abs(k)) for k in items[i + 1 :]]
    return found


def _times(bag: Mapping[int, int], a: int, b: int) -> int:
    count = bag.get
    return count(a, 0) // 2 if a == b else min(count(a, 0), count(b, 0))


def _gain(users: Iterable[int], bags: Mapping[int, Mapping[int, int]], pair: Pair) -> int:
    """How often the pair occurs, one sum or product by itself included."""
    a, b = pair[0], pair[1] * pair[2]
    return sum([_times(bags[n], a, b) + _times(bags[n], -a, -b) for n in users])
