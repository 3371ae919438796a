"""Expressions as the operations that compute them: sums and products of many operands, then of two.

A ``Steps`` holds numbered values; the ``operands`` of one are what it is made of, a value that occurs twice is there twice. A sum is a list of (sign, value), a product a list of values; both hold any number of
operands until the end, so that common parts can be found whatever the order in which they were written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar

from ..terms.field import Rational, quotient, size, times, to_power
from ..terms.table import ONE, Call, Form, Product, Scaled, Sum, Symbol, Table, rounded


@dataclass(slots=True)
class Given:
    """A symbol."""

    of: Hashable
    operands: ClassVar[Sequence[int]] = ()


@dataclass(slots=True)
class Number:
    """A constant."""

    value: Rational
    operands: ClassVar[Sequence[int]] = ()


@dataclass(slots=True)
class Added:
    """The sum of values with signs. The first sign is positive, unless all are negative."""

    terms: Sequence[tuple[int, int]]
    operands: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        self.operands = [n for _, n in self.terms]


@dataclass(slots=True)
class Multiplied:
    """The product of values."""

    operands: Sequence[int]


@dataclass(slots=True)
class Reciprocal:
    """1 / value."""

    of: int
    operands: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        self.operands = (self.of,)


@dataclass(slots=True)
class Called:
    """A Function of values with signs. function: its class and the values of its fields."""

    function: Any
    arguments: Sequence[tuple[int, int]]
    operands: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        self.operands = [n for _, n in self.arguments]


Step = Given | Number | Added | Multiplied | Reciprocal | Called


@dataclass
class Steps:
    """Values, by number, and the roots: (sign, value), a sign of 0 is the number 0."""

    values: list[Step] = field(default_factory=list)
    roots: list[tuple[int, int]] = field(default_factory=list)

    def add(self, step: Step) -> int:
        """The number of a new value."""
        self.values.append(step)
        return len(self.values) - 1

    def is_number(self, number: int) -> bool:
        """Whether a value is a constant."""
        return isinstance(self.values[number], Number)

    def order(self) -> list[int]:
        """The values that the roots need, operands first."""
        values, order, begun = self.values, list[int](), bytearray(len(self.values))
        stack = [n for s, n in reversed(self.roots) if s]
        while stack:
            n = stack.pop()
            if n < 0:  # all that it reads is there
                order.append(~n)
            elif not begun[n]:
                begun[n] = 1
                stack.append(~n)
                stack += values[n].operands
        return order

    def uses(self, order: Sequence[int]) -> Counter[int]:
        """How often each value is read."""
        found = Counter(chain.from_iterable([self.values[n].operands for n in order]))
        found.update(n for s, n in self.roots if s)
        return found


def _most(votes: Sequence[Rational]) -> Rational:
    """The first of those that occur most often."""
    if len(votes) == 1:
        return votes[0]
    ratios = [c.as_integer_ratio() for c in votes]  # hashes of Fractions are slow
    counts = Counter(ratios)
    return votes[ratios.index(max(counts, key=lambda c: counts[c]))]


class Lowering:
    """Steps of entries of a table.

    An entry is computed at the scale at which most of what reads it wants it, so that 0.7 x y, once computed, is there for
    all its readers. Products take any scale of their factors.
    """

    def __init__(self, table: Table):
        self.table = table
        self.steps = Steps()
        self._at: dict[int, tuple[Rational, int]] = {}
        """Entry -> (c, value): the value is c times the entry. c may be negative."""
        self._number: dict[tuple[int, int], int] = {}
        self._product: dict[tuple[int, ...], int] = {}
        self._inverse: dict[int, int] = {}
        self._below = defaultdict[int, set[int]](set)
        """Entry -> the powers with which it is below: 1/x is computed if there are several."""

    def lower(self, roots: Sequence[Scaled], order: Sequence[int]) -> Steps:
        """The steps of the roots. order: the entries that they need, what each is made of first."""
        wanted = self._wanted(roots, order)
        for entry in order:
            form = self.table.forms[entry]
            if isinstance(form, Product):
                for n, power in form.factors:
                    if power < 0:
                        self._below[n].add(power)
        for entry in order:
            if entry != ONE:
                self._at[entry] = self._form(self.table.forms[entry], wanted.get(entry))
        self.steps.roots = [self._of(r) for r in roots]
        return self.steps

    def _wanted(self, roots: Sequence[Scaled], order: Sequence[int]) -> dict[int, Rational]:
        """The size of the factor with which sums, Functions and roots read each entry most often."""
        votes: dict[int, list[Rational]] = {}
        found: dict[int, Rational] = {}

        def vote(factor: Rational, entry: int) -> None:
            if factor and entry != ONE:
                votes.setdefault(entry, []).append(size(factor))

        for r in roots:
            vote(*r)
        for entry in reversed(order):
            if entry in votes:
                found[entry] = _most(votes.pop(entry))
            form = self.table.forms[entry]
            if isinstance(form, Sum) and entry in found:
                for c, n in form.terms:
                    vote(times(found[entry], c), n)
            elif isinstance(form, Call):
                for x in form.arguments:
                    vote(*x)
        return found

    def _of(self, x: Scaled) -> tuple[int, int]:
        """(sign, value) of a multiple of an entry."""
        if x.is_zero:
            return 0, self._constant(0)
        if x.entry == ONE:
            return (1 if x.factor > 0 else -1), self._constant(abs(x.factor))
        scale, n = self._at[x.entry]
        factor = quotient(x.factor, scale)
        if type(factor) is int and (factor == 1 or factor == -1):
            return factor, n
        sign = 1 if factor > 0 else -1
        return (sign, self._multiplied([self._constant(abs(factor)), n]))

    def _constant(self, value: Rational) -> int:
        ratio = value.as_integer_ratio()  # the hash of a Fraction takes a power
        if ratio not in self._number:
            self._number[ratio] = self.steps.add(Number(value))
        return self._number[ratio]

    def _reciprocal(self, n: int) -> int:
        if n not in self._inverse:
            self._inverse[n] = self.steps.add(Reciprocal(n))
        return self._inverse[n]

    def _multiplied(self, factors: list[int]) -> int:
        key = tuple(sorted(factors))
        if key not in self._product:
            self._product[key] = self.steps.add(Multiplied(factors))
        return self._product[key]

    def _form(self, form: Form, wanted: Rational | None) -> tuple[Rational, int]:
        """(c, value): the value is c times the form, c the scale wanted where it costs nothing or is wanted."""
        match form:
            case Symbol(of):
                return 1, self.steps.add(Given(of))
            case Call(function, arguments):
                return 1, self.steps.add(Called(function, [self._of(x) for x in arguments]))
            case Sum(terms):
                scale = wanted
                if scale is None:  # the scale at which most terms are what is there
                    ratios = [size(quotient(self._at[n][0], c)) for c, n in terms if n != ONE]
                    scale = _most(ratios) if ratios else 1
                return scale, self.steps.add(Added([self._of(Scaled(times(scale, c), n)) for c, n in terms]))
            case Product(factors):
                scale, above, below = 1, list[int](), list[int]()
                for entry, power in factors:
                    c, n = self._at[entry]
                    if type(c) is not int or c != 1:
                        scale = times(scale, to_power(c, power))
                    if power > 0:
                        above += [n] * power
                    elif len(self._below[entry]) > 1:
                        above += [self._reciprocal(n)] * -power
                    else:
                        below += [n] * -power
                scale = rounded(scale)
                if below:
                    above.append(self._reciprocal(below[0] if len(below) == 1 else self._multiplied(below)))
                if wanted is not None and size(scale) != wanted:
                    above.append(self._constant(quotient(wanted, size(scale))))
                    scale = wanted if scale > 0 else -wanted
                return scale, above[0] if len(above) == 1 else self._multiplied(above)
        raise TypeError(form)
