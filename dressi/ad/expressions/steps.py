"""Expressions as the operations that compute them: sums and products of many operands, then of two.

Sums and products hold any number of operands until the end, so that common parts can be found whatever the
order in which they were written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .table import ONE, Call, Product, Rational, Scaled, Sum, Table, quotient, rounded, times, to_power

GIVEN, NUMBER, SUM, PRODUCT, RECIPROCAL, CALL = range(6)
"""A symbol, a constant, sums and products of values, 1 / value, a Function of values."""


class Steps:
    """Numbered values and the roots, in lists of numbers.

    Value n is made of ``terms[n]``; a term -m is value m with its sign changed, in sums and Functions.
    Without signs they are ``operands[n]``. A value that occurs twice is there twice. The first sign of a sum
    is positive, unless all are negative. Value 0 is the number 0. ``roots`` are terms.
    """

    def __init__(self) -> None:
        self.kinds = bytearray([NUMBER])
        self.terms: list[Sequence[int]] = [()]
        self.rows = Rows(self.terms)
        self.operands: list[Sequence[int]] = [()]
        self.of: dict[int, Any] = {0: 0}
        """Names of symbols, numbers of constants, classes and fields of Functions."""
        self.roots: list[int] = []
        self.fresh = set[int]()
        """Values that were made or changed since ``unify`` compared them."""
        self.keys: dict[int, Any] = {}
        """Keys of compared values, equal for equal values."""
        self.first: dict[Any, int] = {}
        """By key, the first value that had it."""
        self._numbers: dict[Rational, int] = {0: 0}

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, kind: int, terms: Sequence[int] = (), of: Hashable = None) -> int:
        n = len(self.kinds)
        self.fresh.add(n)
        self.kinds.append(kind)
        self.terms.append(terms)
        self.operands.append(terms if kind == PRODUCT else _unsigned(terms))
        if of is not None:
            self.of[n] = of
        return n

    def number(self, value: Rational) -> int:
        """The value that is this constant; a new one if there is none."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = self.add(NUMBER, of=value)
        return known

    def put(self, n: int, kind: int, terms: Sequence[int]) -> None:
        self.fresh.add(n)
        self.kinds[n], self.terms[n] = kind, terms
        self.rows.change(n)
        self.operands[n] = terms if kind == PRODUCT else _unsigned(terms)

    def factors(self, n: int) -> Sequence[int]:
        """The factors of a product; the value itself if it is none."""
        return self.operands[n] if self.kinds[n] == PRODUCT else (n,)

    def order(self) -> list[int]:
        """The values that the roots need, operands first."""
        operands, order, begun = self.operands, list[int](), bytearray(len(self))
        stack = [abs(r) for r in reversed(self.roots) if r]
        while stack:
            n = stack.pop()
            if n < 0:  # all that it reads is there
                order.append(-n)
            elif not begun[n]:
                begun[n] = 1
                if below := operands[n]:
                    stack.append(-n)
                    stack += below
                else:
                    order.append(n)
        return order

    def places(self, order: Sequence[int]) -> list[int]:
        """Where in an order each value is; -1 for those that are not."""
        places = np.full(len(self), -1)
        places[np.asarray(order, int)] = np.arange(len(order))
        return places.tolist()

    def uses(self, order: Sequence[int]) -> list[int]:
        return self.uses_of(self.reads(order)[1]).tolist()

    def uses_of(self, terms: np.ndarray) -> np.ndarray:
        """How often each value is one of these terms or a root."""
        return np.bincount(np.abs(np.append(terms, np.array(self.roots, int))), minlength=len(self))

    def kind_of(self, values: np.ndarray) -> np.ndarray:
        return np.frombuffer(bytes(self.kinds), np.uint8)[values]

    def reads(self, values: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """All terms of these values in order: (numbers of the values, terms)."""
        places, terms = self.rows.of(values)
        return np.asarray(values, int)[places], terms


def repeated(groups: np.ndarray, items: np.ndarray) -> list[int]:
    """The groups in which an item occurs twice."""
    keys = np.sort(groups * (items.max(initial=0) + 1) + items)
    return (keys[1:][keys[1:] == keys[:-1]] // (items.max(initial=0) + 1)).tolist()


def _unsigned(terms: Sequence[int]) -> Sequence[int]:
    return terms if not terms or min(terms) > 0 else [abs(m) for m in terms]


def _most(votes: Sequence[Rational]) -> Rational:
    if votes.count(votes[0]) == len(votes):
        return votes[0]
    counts = Counter(votes)
    return max(counts, key=lambda c: counts[c])


class Lowering:
    """Steps of entries of a table.

    An entry is computed at the scale at which most of what reads it wants it, so that 0.7 x y, once computed,
    is there for all its readers. Products take any scale of their factors.
    """

    def __init__(self, table: Table):
        self.table = table
        self.steps = Steps()
        self._at: dict[int, tuple[Rational, int]] = {}
        """Entry -> (c, value): the value is c times the entry. c may be negative."""
        self._terms: dict[int, Sequence[tuple[Rational, int]]] = {}
        """Sums that are wanted at a scale: their terms at it."""
        self._product: dict[tuple[int, ...], int] = {}
        self._inverse: dict[int, int] = {}
        self._below = defaultdict[int, set[int]](set)
        """Entry -> the powers with which it is below: 1/x is computed if there are several."""

    def lower(self, roots: Sequence[Scaled], order: Sequence[int]) -> Steps:
        """The steps of the roots. order: the entries that they need, what each is made of first."""
        wanted = self._wanted(roots, order)
        for entry in order:
            if entry != ONE:
                self._at[entry] = self._form(entry, wanted.get(entry))
        self.steps.roots = [self._of(*r) for r in roots]
        return self.steps

    def _wanted(self, roots: Sequence[Scaled], order: Sequence[int]) -> dict[int, Rational]:
        """The size of the factor with which sums, Functions and roots read each entry most often."""
        votes = defaultdict[int, list[Rational]](list)
        wanted: dict[int, Rational] = {}

        def vote(terms: Sequence[tuple[Rational, int]]) -> None:
            for factor, entry in terms:
                if factor and entry != ONE:
                    votes[entry].append(abs(factor))

        vote(roots)
        for entry in reversed(order):
            scale = None
            if entry in votes:
                scale = wanted[entry] = _most(votes.pop(entry))
            form = self.table.forms[entry]
            if type(form) is Sum and scale is not None:
                terms = form.terms
                if scale != 1:
                    terms = [(times(scale, c), n) for c, n in terms]
                self._terms[entry] = terms
                vote(terms)
            elif type(form) is Call:
                vote(form.arguments)
            elif type(form) is Product:
                for n, power in form.factors:
                    if power < 0:
                        self._below[n].add(power)
        return wanted

    def _of(self, factor: Rational, entry: int) -> int:
        """The term that is a multiple of an entry."""
        if not factor:
            return 0
        if entry == ONE:
            n = self.steps.number(abs(factor))
        else:
            scale, n = self._at[entry]
            if factor == scale:
                return n
            factor = quotient(factor, scale)
            if factor == -1:
                return -n
            n = self._multiplied([self.steps.number(abs(factor)), n])
        return n if factor.numerator > 0 else -n

    def _reciprocal(self, n: int) -> int:
        if n not in self._inverse:
            self._inverse[n] = self.steps.add(RECIPROCAL, (n,))
        return self._inverse[n]

    def _multiplied(self, factors: list[int]) -> int:
        key = tuple(sorted(factors))
        if key not in self._product:
            self._product[key] = self.steps.add(PRODUCT, factors)
        return self._product[key]

    def _form(self, entry: int, wanted: Rational | None) -> tuple[Rational, int]:
        """(c, value): the value is c times the entry, at the scale ``wanted`` where there is one."""
        form = self.table.forms[entry]
        if type(form) is Product:
            return self._of_factors(form.factors, wanted)
        if type(form) is Sum:
            return self._of_terms(entry, form.terms, wanted)
        if type(form) is Call:
            return 1, self.steps.add(CALL, [self._of(*x) for x in form.arguments], form.function)
        return 1, self.steps.add(GIVEN, of=form[0])

    def _of_terms(
        self, entry: int, terms: Sequence[tuple[Rational, int]], wanted: Rational | None
    ) -> tuple[Rational, int]:
        if wanted is not None:
            return wanted, self.steps.add(SUM, [self._of(c, n) for c, n in self._terms.pop(entry)])
        # the scale at which most terms are what is there
        ratios = [abs(quotient(self._at[n][0], c)) for c, n in terms if n != ONE]
        scale = _most(ratios) if ratios else 1
        return scale, self.steps.add(SUM, [self._of(times(scale, c), n) for c, n in terms])

    def _of_factors(
        self, factors: Sequence[tuple[int, int]], wanted: Rational | None
    ) -> tuple[Rational, int]:
        scale, above, below = 1, list[int](), list[int]()
        for m, power in factors:
            c, n = self._at[m]
            if c != 1:
                scale = times(scale, to_power(c, power))
            if power > 0:
                above += [n] * power
            elif len(self._below[m]) > 1:
                above += [self._reciprocal(n)] * -power
            else:
                below += [n] * -power
        if scale != 1:
            scale = rounded(scale)
        if below:
            above.append(self._reciprocal(below[0] if len(below) == 1 else self._multiplied(below)))
        if wanted is not None and abs(scale) != wanted:
            above.append(self.steps.number(quotient(wanted, abs(scale))))
            scale = wanted if scale.numerator > 0 else -wanted
        return scale, above[0] if len(above) == 1 else self._multiplied(above)


# Rows of numbers as one array.


class Rows:
    """Lists of whole numbers, behind each other in one array; only new or changed ones are copied again.

    Reading all lists of a large graph takes a fifteenth of the time that it takes from the lists themselves.
    """

    def __init__(self, rows: Sequence[Sequence[int]]):
        self.rows = rows
        self._changed = list[int]()
        self._starts, self._lengths, self._items = (np.empty(0, int) for _ in range(3))

    def change(self, n: int) -> None:
        if n < len(self._starts):
            self._changed.append(n)

    def of(self, numbers: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The items of these rows: (for each the place of its row among the numbers, items)."""
        self._copy()
        numbers = np.asarray(numbers, int)
        lengths = self._lengths[numbers]
        ends = np.cumsum(lengths)
        places = np.repeat(np.arange(len(numbers)), lengths)
        at = np.arange(len(places)) + (self._starts[numbers] - ends + lengths)[places]
        return places, self._items[at]

    def _copy(self) -> None:
        known = len(self._starts)
        numbers = [*self._changed, *range(known, len(self.rows))]
        if not numbers:
            return
        rows = [self.rows[n] for n in numbers]
        lengths = np.fromiter(map(len, rows), int, len(rows))
        more = np.zeros(len(self.rows) - known, int)
        self._starts, self._lengths = np.append(self._starts, more), np.append(self._lengths, more)
        self._starts[numbers] = len(self._items) + np.cumsum(lengths) - lengths
        self._lengths[numbers] = lengths
        self._items = np.append(self._items, np.fromiter(chain.from_iterable(rows), int))
        self._changed.clear()
