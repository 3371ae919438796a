"""A table of scalar expressions in which equal ones are one, whatever way they were written.

An expression is a rational number times an entry of the table (``Scaled``). An entry is known by its sample
in finite fields (``Sample``): a sum or a product whose sample is that of an entry, or a multiple of it, is
that entry, which keeps the *form* in which it was first written. So (a + b)(a - b) and a a - b b are one
entry, x - x is zero, sin(x)^2 + cos(x)^2 is one, and the derivative of a recurrence that is a member of the
recurrence is found to be that member. Values are equal where both ways of writing are finite: x / x is 1,
also where x is 0, and exp(log x), sqrt(x) sqrt(x) and 1 / (1 / sqrt(x))^2 are x, also where x is negative.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from math import gcd
from operator import eq
from typing import Any, NamedTuple

from ..graph.traversal import producers_first
from ..ops.pixel.compare import Select
from ..ops.pixel.elementary import Cos, Exp, Exp2, Log, Log2, Sin, Sqrt
from ..transform.logic import Logic

# Rational numbers, an int or else a ``Ratio`` in lowest terms; and samples of them in finite fields.
#
# The class Fraction of the standard library checks the types of what it gets at every step; in graphs of
# 100,000 Functions this took a sixth of the time. Functions here take both kinds.


class Ratio(NamedTuple):
    """A rational number that is not whole, in lowest terms, with a positive denominator."""

    numerator: int
    denominator: int

    def __neg__(self) -> Ratio:
        return _ratio((-self[0], self[1]))

    def __abs__(self) -> Ratio:
        return _ratio((abs(self[0]), self[1]))

    def __float__(self) -> float:
        return self[0] / self[1]


Rational = int | Ratio

_ratio = partial(tuple.__new__, Ratio)
"""In half the time of the constructor, from a tuple."""


def reduced(above: int, below: int) -> Rational:
    """above / below, which is not zero."""
    common = gcd(above, below)
    if below < 0:
        common = -common
    if common != 1:
        above, below = above // common, below // common
    return above if below == 1 else _ratio((above, below))


def parts(c: Rational) -> tuple[int, int]:
    return (c, 1) if type(c) is int else c  # type: ignore[return-value]


def plus(a: Rational, b: Rational) -> Rational:
    if type(a) is int and type(b) is int:
        return a + b
    (above, below), (more, less) = parts(a), parts(b)
    return reduced(above * less + more * below, below * less)


def times(a: Rational, b: Rational) -> Rational:
    if type(a) is int:
        if type(b) is int:
            return a * b
        a, b = b, a
    if type(b) is int and (b == 1 or b == -1):
        return a if b == 1 else -a
    (above, below), (more, less) = parts(a), parts(b)
    if type(b) is not int and not (below & (below - 1) or less & (less - 1)):
        return _ratio((above * more, below * less))  # numbers that floats are: odd ones over powers of two
    return reduced(above * more, below * less)


def quotient(a: Rational, b: Rational) -> Rational:
    if type(b) is int:
        if b == 1 or b == -1:
            return a if b == 1 else -a
        if type(a) is int:
            return reduced(a, b) if a % b else a // b
    elif a == b:
        return 1
    (above, below), (more, less) = parts(a), parts(b)
    return reduced(above * less, below * more)


def to_power(c: Rational, power: int) -> Rational:
    """c^power; a negative power of 0 raises ZeroDivisionError."""
    if power == 1 or (type(c) is int and c == 1):
        return c
    if power < 0:
        return quotient(1, to_power(c, -power))
    above, below = parts(c)
    return above**power if below == 1 else _ratio((above**power, below**power))


@lru_cache(maxsize=1 << 12)
def of_float(value: float) -> Rational:
    return reduced(*value.as_integer_ratio())


RANGE = 2**60
"""Constants above it, or below its inverse, are not joined: that could leave single precision."""


def is_in_range(c: Rational) -> bool:
    """Whether a number is between 1 / RANGE and RANGE in size."""
    if type(c) is int:
        return -RANGE < c < RANGE and c != 0
    above, below = parts(c)
    return abs(above) < RANGE * below < RANGE * RANGE * abs(above)


def rounded(c: Rational) -> Rational:
    """The number itself, or that with 64 significant bits once it has grown out of all proportion."""
    if type(c) is int and -RANGE < c < RANGE:
        return c
    above, below = parts(c)
    if above.bit_length() < 160 > below.bit_length():
        return c
    shift = max(above.bit_length() - below.bit_length() - 64, -4096)
    if shift > 0:
        below <<= shift
    else:
        above <<= -shift
    whole, rest = divmod(above, below)
    whole += 2 * rest > below or (2 * rest == below and whole & 1)
    return whole << shift if shift > 0 else reduced(whole, 1 << -shift)


# Samples of expressions in finite fields, which tell whether two expressions are one.
#
# A rational expression is evaluated exactly at three random points of the integers modulo SMALL. Expressions
# that are multiples of each other have equal quotients of the three values; expressions that are not have
# equal quotients with a probability below (degree / SMALL)^2, which is nothing (the lemma of Schwartz and
# Zippel). Which multiple they are of each other, their values modulo PRIME say, if its numerator and
# denominator are no longer than those of four floats: few expressions are asked, so that these values are
# computed then. Constants are the rational numbers that they are as floats, so that the test is exact, and
# what holds only but for rounding is not found.

PRIME = 2**521 - 1
SMALL = 0x1921FB54442D185D
"""Inverses modulo a number of one machine word are ten times faster. The digits are those of pi / 2, no sum
of a few powers of two: 2^28 - 2^-33, a difference of two floats, would be zero modulo 2^61 - 1."""
_LARGEST = 1 << 240
"""Numerator and denominator of a ratio that is recognised. One that is longer is taken for another with a
probability of _LARGEST^2 / PRIME."""


class Sample(NamedTuple):
    """The values a, a x and a y of an expression at three points. Multiples of it have the same x and y,
    which a product has without an inverse."""

    a: int
    x: int
    y: int

    @property
    def inverse(self) -> Sample:
        """1 / x; 0 for 0, which no sample is by chance."""
        a, x, y = self
        ax = a * x % SMALL
        below = inverse(ax * y % SMALL)  # one inverse for three
        return Sample(x * y * below % SMALL, a * y * below % SMALL, ax * below % SMALL)

    @property
    def direction(self) -> int:
        """Equal for all multiples of a sample."""
        return self.x << 61 | self.y

    def values(self, factor: Rational) -> tuple[int, int, int]:
        a = modulo(factor) * self.a % SMALL
        return a, a * self.x % SMALL, a * self.y % SMALL


_sample = partial(tuple.__new__, Sample)
"""In half the time of the constructor, from a tuple."""


def modulo(c: Rational, prime: int = SMALL) -> int:
    """A rational number in a field."""
    if type(c) is int:
        return c % prime
    above, below = parts(c)
    return above * _of_denominator(below, prime) % prime


@lru_cache(maxsize=1 << 16)
def _of_denominator(denominator: int, prime: int) -> int:
    return inverse(denominator, prime)


def sum_of(terms: Iterable[tuple[Rational, Sample]]) -> Sample:
    a = b = c = 0
    for factor, (v, x, y) in terms:
        v = (factor if type(factor) is int else modulo(factor)) * v % SMALL
        a, b, c = a + v, b + v * x, c + v * y
    below = inverse(a := a % SMALL) or 1
    return _sample((a, b * below % SMALL, c * below % SMALL))


def product_of(factors: Sequence[Sample]) -> Sample:
    a, x, y = factors[0]
    for u, v, w in factors[1:]:
        a, x, y = a * u % SMALL, x * v % SMALL, y * w % SMALL
    return _sample((a, x, y))


def product_of_two(one: Sample, two: Sample) -> Sample:
    """The product of samples, in half the time."""
    (a, x, y), (u, v, w) = one, two
    return _sample((a * u % SMALL, x * v % SMALL, y * w % SMALL))


def inverse(v: int, prime: int = SMALL) -> int:
    """1 / v in a field; 0 for 0."""
    return pow(v, -1, prime) if v else 0


def drawn(*parts: object) -> Sample:
    """A sample that only these parts determine, as if it were drawn at random."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=24).digest()
    return Sample(*[v % SMALL for v in struct.unpack("<3Q", digest)])


def drawn_long(*parts: object) -> int:
    """A value modulo PRIME that only these parts determine."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=64).digest(), "little") % PRIME


@lru_cache(maxsize=1 << 15)
def on_circle(angle: tuple[int, int, int]) -> tuple[Sample, Sample]:
    """A point that only the angle determines, with a^2 + b^2 = 1: the samples of its sine and cosine."""
    u = drawn("angle", angle)
    a, b, c = (1 + v * v % SMALL for v in u.values(1))
    d, bc = 2 - a, b * c % SMALL
    all_below = inverse(a * bc * d % SMALL)  # one inverse for four
    a_below, d_below = bc * d * all_below % SMALL, a * bc * all_below % SMALL
    below = Sample(a_below, a * a * c * d * all_below % SMALL, a * a * b * d * all_below % SMALL)
    cosine = Sample(d, (2 - b) * d_below % SMALL, (2 - c) * d_below % SMALL)
    return product_of([u._replace(a=2 * u.a), below]), product_of([cosine, below])


def on_long_circle(angle: tuple[int, int, int]) -> tuple[int, int]:
    u = drawn_long("angle", angle)
    below = inverse(1 + u * u, PRIME)
    return 2 * u * below % PRIME, (1 - u * u) * below % PRIME


def to_rational(v: int) -> Rational | None:
    """The rational number with a small numerator and denominator that is ``v`` in the field, if any."""
    if v < _LARGEST:
        return v
    if PRIME - v < _LARGEST:
        return v - PRIME
    a, b, x, y = PRIME, v, 0, 1
    while b >= _LARGEST:
        q = a // b
        a, b, x, y = b, a - q * b, y, x - q * y
    return reduced(b, y) if 0 < abs(y) < _LARGEST else None


# A table of scalar expressions (Table).

# What expressions are made of: multiples of entries of a table, and the forms in which entries are written.

ONE = 0
"""The entry whose value is 1: constants are multiples of it."""


class Scaled(NamedTuple):
    """A rational number times an entry."""

    factor: Rational
    entry: int

    def __neg__(self) -> Scaled:
        return Scaled(-self.factor, self.entry)

    @property
    def is_zero(self) -> bool:
        return not self.factor

    @property
    def is_constant(self) -> bool:
        return self.entry == ONE or not self.factor


scaled = partial(tuple.__new__, Scaled)
"""A Scaled from a tuple, in half the time of the constructor."""
ZERO, UNIT = Scaled(0, ONE), Scaled(1, ONE)


class Symbol(NamedTuple):
    """A value that is given: ``of`` names it."""

    of: Hashable


class Sum(NamedTuple):
    """The sum of multiples of entries; ``terms`` are ordered by entry, each occurs once."""

    terms: tuple[tuple[Rational, int], ...]


class Product(NamedTuple):
    """The product of integer powers of entries; ``factors`` are ordered by entry, each occurs once."""

    factors: tuple[tuple[int, int], ...]


class Call(NamedTuple):
    """A Function of other expressions. function: its class and fields."""

    function: Hashable
    arguments: tuple[Scaled, ...]


Form = Symbol | Sum | Product | Call
CIRCLE = (Sin, Cos)
"""Functions of which the squares add up to 1."""


def kind_of(function: Any) -> Any:
    return function[0] if isinstance(function, tuple) else function


def children(form: Form) -> list[int]:
    if type(form) is Product:
        return [n for n, _ in form.factors]
    if type(form) is Sum:
        return [n for _, n in form.terms]
    return [n for _, n in form.arguments] if type(form) is Call else []


_sum: Callable[[tuple[Any, ...]], Sum] = partial(tuple.__new__, Sum)
_product: Callable[[tuple[Any, ...]], Product] = partial(tuple.__new__, Product)
_call: Callable[[tuple[Any, ...]], Call] = partial(tuple.__new__, Call)
_NOTHING = Sample(0, 0, 0)
_INVERSE = {Exp: Log, Log: Exp, Exp2: Log2, Log2: Exp2}
_LARGEST_POWER = 16
"""The largest n for which exp(n log x) becomes x^n."""


class Table:
    """All entries and the operations that make them."""

    def __init__(self) -> None:
        self.forms: list[Form] = [Product(())]
        """The form in which each entry was first written."""
        self.samples: list[Sample] = [Sample(1, 1, 1)]
        self._inverses: dict[int, Sample] = {}
        self._multiples = Multiples(self.forms, self.samples)
        self._of_form: dict[Hashable, Scaled] = {}
        """By forms, sums apart: terms of a sum may be equal to the factors of a product."""
        self._of_sum: dict[Hashable, Scaled] = {}
        self._logic = Logic(self._view, eq, lambda x: bool(x.factor) if x.is_constant else None)
        self._roots: dict[int, tuple[Scaled, ...]] = {}  # entry that is a square root -> its argument
        self._with_roots = set[int]()
        """Square roots, and products that hold them: their squares are simpler."""
        self._of_direction: dict[int, int] = {self.samples[ONE].direction: ONE}

    def __len__(self) -> int:
        return len(self.forms)

    def _dicts(self) -> tuple[dict[Any, Any], ...]:
        known = self._multiples.known
        return self._inverses, self._of_form, self._of_sum, self._roots, self._of_direction, known

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Forgets the entries that the block makes: an entry keeps the form in which it was first written,
        which is to be that of one way to compute it, not that of a way tried before."""
        length, sizes = len(self), [len(known) for known in self._dicts()]
        try:
            yield
        finally:
            del self.forms[length:], self.samples[length:]
            for known, size in zip(self._dicts(), sizes, strict=True):
                while len(known) > size:
                    known.popitem()  # the last that was put in
            self._with_roots = {n for n in self._with_roots if n < length}

    def constant(self, value: float) -> Scaled:
        return Scaled(of_float(value), ONE)

    def symbol(self, of: Hashable) -> Scaled:
        form = Symbol(of)
        known = self._of_form.get(form)
        return known or self._add(self._of_form, form, drawn("symbol", len(self)))

    def sum(self, parts: Iterable[Scaled]) -> Scaled:
        factors: dict[int, Rational] = {}
        for factor, entry in parts:
            factors[entry] = plus(factors[entry], factor) if entry in factors else factor
        terms = [
            (factor if type(factor) is int and -RANGE < factor < RANGE else rounded(factor), entry)
            for entry, factor in sorted(factors.items())
            if factor
        ]
        if not terms:
            return ZERO
        leading = terms[0][0] if terms[0][1] != ONE or len(terms) == 1 else terms[1][0]
        if len(terms) == 1:
            return scaled(terms[0])
        if leading == -1:
            terms = [(-factor, entry) for factor, entry in terms]
        elif leading != 1:
            terms = [(rounded(quotient(factor, leading)), entry) for factor, entry in terms]
        form = _sum((tuple(terms),))
        known = self._of_sum.get(form)
        if known is None:
            known = self._add(self._of_sum, form, sum_of([(c, self.samples[n]) for c, n in form.terms]))
        return self._in_range(known, leading)

    def multiplied(self, x: Scaled, y: Scaled) -> Scaled:
        (factor, a), (other, b) = x, y
        if not (factor and other):
            return ZERO
        scale = times(factor, other)
        if scale != 1:
            scale = rounded(scale)
        meet = a == b or (a in self._with_roots and b in self._with_roots)
        if meet or (scale != 1 and not is_in_range(scale)):
            return self.product(((x, 1), (y, 1)))
        if not a or not b:  # ONE
            return scaled((scale, a or b))
        form = _product((((a, 1), (b, 1)) if a < b else ((b, 1), (a, 1)),))
        known = self._of_form.get(form)
        if known is None:
            known = self._add(self._of_form, form, product_of_two(self.samples[a], self.samples[b]))
        return scaled((scale, known.entry)) if known.factor == 1 else self._in_range(known, scale)

    def divided(self, x: Scaled, y: Scaled) -> Scaled:
        """x / y. A y of zero raises ZeroDivisionError."""
        return self.product(((x, 1), (y, -1)))

    def product(self, parts: Iterable[tuple[Scaled, int]]) -> Scaled:
        """The product of integer powers of the parts. A negative power of zero raises ZeroDivisionError."""
        scale, powers = 1, dict[int, int]()
        for (factor, entry), power in parts:
            if power:
                if type(factor) is not int or factor != 1:
                    scale = times(scale, to_power(factor, power))
                if entry != ONE:
                    powers[entry] = powers.get(entry, 0) + power
        if not scale:
            return ZERO
        if not self._with_roots.isdisjoint(powers):
            powers = self._roots_met(powers)
        for entry, power in powers.items():
            if power > 1 and self._logic.is_mask(Scaled(1, entry)):
                powers[entry] = 1
            if not -2 < power < 2 and entry in self._roots:
                (argument,), half = self._roots[entry], int(power / 2)
                powers[entry] -= 2 * half
                inner = self.product([*((Scaled(1, e), p) for e, p in powers.items()), (argument, half)])
                return Scaled(rounded(times(scale, inner.factor)), inner.entry)
        factors = tuple(sorted([item for item in powers.items() if item[1]]))
        if not is_in_range(scale := rounded(scale)):
            # The factors by which it is written have a range that single precision holds; their product may
            # have not.
            return self._apart(scale, self.product([(Scaled(1, entry), power) for entry, power in factors]))
        if not factors or (len(factors) == 1 and factors[0][1] == 1):
            return scaled((scale, factors[0][0] if factors else ONE))
        form = Product(factors)
        known = self._of_form.get(form)
        if known is None:
            known = self._add(
                self._of_form,
                form,
                product_of(
                    [self.samples[n] if power == 1 else self._to_power(n, power) for n, power in factors]
                ),
            )
        return scaled((scale, known.entry)) if known.factor == 1 else self._in_range(known, scale)

    def _roots_met(self, powers: dict[int, int]) -> dict[int, int]:
        """Powers with products written out if that squares a root, as in (x / sqrt(y))^2."""
        flat, stack = dict[int, int](), [*powers.items()]
        while stack:
            entry, power = stack.pop()
            form = self.forms[entry]
            if type(form) is Product and entry in self._with_roots:
                stack += [(n, p * power) for n, p in form.factors]
            else:
                flat[entry] = flat.get(entry, 0) + power
        return flat if any(not -2 < flat[n] < 2 for n in flat.keys() & self._roots.keys()) else powers

    def _to_power(self, entry: int, power: int) -> Sample:
        if power > 0:
            return product_of([self.samples[entry]] * power) if power > 1 else self.samples[entry]
        if entry not in self._inverses:
            self._inverses[entry] = self.samples[entry].inverse
        return product_of([self._inverses[entry]] * -power) if power < -1 else self._inverses[entry]

    def call(self, function: Hashable, arguments: Iterable[Scaled]) -> Scaled:
        """A Function of the arguments. Sine and cosine know their symmetry and that their squares add up to
        1; a logarithm undoes an exponential and the reverse; masks, extremes and selects are simplified."""
        arguments, sign = tuple(arguments), 1
        if kind_of(function) in _INVERSE:
            simpler = self._inverted(kind_of(function), *arguments)
        elif kind_of(function) is Select:
            condition, *both = arguments
            both = [self._taken(condition, value, x) for value, x in zip((True, False), both, strict=True)]
            arguments = (condition, *both)
            simpler = both[not condition.factor] if condition.is_constant or both[0] == both[1] else None
        else:
            simpler = self._logic.simpler(kind_of(function), arguments)
        if simpler is not None:
            return simpler
        if kind_of(function) in CIRCLE and arguments[0].factor.numerator < 0:
            arguments, sign = (-arguments[0],), -1 if kind_of(function) is Sin else 1
        form = _call((function, arguments))
        known = self._of_form.get(form)
        if known is None:
            values = self._values(form)
            if kind_of(function) in CIRCLE:
                sample = on_circle(values[0])[CIRCLE.index(kind_of(function))]
            else:
                sample = drawn("call", function, *values)
            known = self._add(self._of_form, form, sample)
        return Scaled(times(known.factor, sign), known.entry)

    def _inverted(self, kind: Any, x: Scaled) -> Scaled | None:
        """What exp(n log y), log(exp y) and those to base 2 are; None for other x."""
        form = self.forms[x.entry]
        if type(form) is not Call or kind_of(form.function) is not _INVERSE[kind]:
            return None
        argument, power = form.arguments[0], x.factor
        if power == 1:
            return argument
        if (
            isinstance(power, int)
            and abs(power) <= _LARGEST_POWER
            and kind in (Exp, Exp2)
            and argument.factor
        ):
            return self.product([(argument, power)])
        return None

    def _view(self, x: Scaled) -> tuple[Any, Sequence[Scaled]]:
        """The class of the Function that x is, and its arguments."""
        form = self.forms[x.entry] if x.factor == 1 else None
        return (kind_of(form.function), form.arguments) if isinstance(form, Call) else (None, ())

    def _taken(self, condition: Scaled, value: bool, x: Scaled) -> Scaled:
        """x, or its branch that is left where the condition has a value, if it is a multiple of a select."""
        branch = self._logic.taken(condition, value, Scaled(1, x.entry))
        if branch == (1, x.entry):
            return x
        return self._taken(condition, value, self.multiplied(Scaled(x.factor, ONE), branch))

    def _values(self, call: Call) -> list[tuple[int, int, int]]:
        return [self.samples[n].values(c) for c, n in call.arguments]

    def order(self, roots: Iterable[int]) -> list[int]:
        """What the roots are made of, before what is made of it."""
        order, begun = list[int](), bytearray(len(self))
        stack = [*roots][::-1]
        while stack:
            n = stack.pop()
            if n < 0:  # all that it is made of is there
                order.append(~n)
            elif not begun[n]:
                begun[n] = 1
                stack.append(~n)
                stack += children(self.forms[n])[::-1]
        return order

    def _in_range(self, x: Scaled, factor: Rational) -> Scaled:
        if factor == 1 == x.factor:
            return x
        scale = rounded(times(x.factor, factor))
        return scaled((scale, x.entry)) if is_in_range(scale) else self._apart(scale, Scaled(1, x.entry))

    def _apart(self, scale: Rational, x: Scaled) -> Scaled:
        """A multiple of x as an entry of its own, whose factor nothing takes out again."""
        form = Sum(((rounded(times(scale, x.factor)), x.entry),))
        known = self._of_sum.get(form)
        if known is None:
            known = self._new(self._of_sum, form, sum_of([(form.terms[0][0], self.samples[x.entry])]))
        return known

    def _add(self, known_forms: dict[Hashable, Scaled], form: Form, sample: Sample) -> Scaled:
        """The entry of a form that is new, and from now on known: one of the same value, or a new one."""
        if sample == _NOTHING:
            known_forms[form] = ZERO
            return ZERO
        direction = sample.direction
        new = len(self.forms)
        entry = self._of_direction.setdefault(direction, new)
        if entry != new:
            factor = 1 if sample == self.samples[entry] else self._multiples.ratio(form, entry)
            if factor is not None:
                known = known_forms[form] = Scaled(factor, entry)
                return known
        return self._new(known_forms, form, sample)

    def _new(self, known_forms: dict[Hashable, Scaled], form: Form, sample: Sample) -> Scaled:
        known = known_forms[form] = scaled((1, len(self.forms)))
        if type(form) is Call and form.function == (Sqrt, ()):
            self._roots[known.entry] = form.arguments
            self._with_roots.add(known.entry)
        elif type(form) is Product and any(n in self._with_roots for n, _ in form.factors):
            self._with_roots.add(known.entry)
        self.forms.append(form)
        self.samples.append(sample)
        return known


# Which multiple of an entry a form is, if its samples say that it is one.
#
# Both are evaluated modulo PRIME, whose numbers are long enough to hold numerator and denominator of the
# ratio. In a large table, what lies deeper than a few levels below them is first drawn at random, as if it
# were given. Equal ratios of two draws are taken as an identity (Schwartz and Zippel); only if they differ,
# everything below is evaluated.

LEVELS, FEW = 4, 1_000
"""LEVELS below a form and an entry are evaluated first, if more than FEW entries have no value yet."""


class Multiples:
    """Ratios of forms and entries of a table, of which these are the forms and samples."""

    def __init__(self, forms: Sequence[Form], samples: Sequence[Sample]):
        self.forms, self.samples = forms, samples
        self.known: dict[int, int] = {}  # values of entries that were evaluated with everything below them

    def ratio(self, form: Form, entry: int) -> Rational | None:
        """The number that a form is of an entry of the same direction; None if it is too long."""
        if len(self.forms) - len(self.known) > FEW:
            one, two = (self._quotient(form, entry, self._drawn(form, entry, draw)) for draw in range(2))
            if one == two:
                return to_rational(one)
        return to_rational(self._quotient(form, entry, self.known))

    def _drawn(self, form: Form, entry: int, draw: int) -> dict[int, int]:
        inside, below = set[int](), {*children(form), entry}
        for _ in range(LEVELS):
            inside |= below
            below = {m for n in below for m in children(self.forms[n])} - inside
        return {n: drawn_long("below", draw, n) for n in below}

    def _quotient(self, form: Form, entry: int, known: dict[int, int]) -> int:
        """form / entry modulo PRIME. known: values of entries, to which those that are needed are added."""

        def unknown(n: int) -> list[int]:
            return [] if n in known else children(self.forms[n])

        for n in producers_first([*children(form), entry], unknown):
            if n not in known:
                known[n] = self._value(n, self.forms[n], known)
        return self._value(len(self.forms), form, known) * inverse(known[entry], PRIME) % PRIME

    def _value(self, entry: int, form: Form, known: dict[int, int]) -> int:
        match form:
            case Symbol():
                return drawn_long("symbol", entry)
            case Sum(terms):
                return sum([modulo(c, PRIME) * known[n] for c, n in terms]) % PRIME
            case Product(factors):
                value = 1
                for n, power in factors:
                    value = value * pow(known[n], power, PRIME) % PRIME if known[n] else 0
                return value
            case Call(function, arguments):
                values = [self.samples[n].values(c) for c, n in arguments]
                if kind_of(function) in CIRCLE:
                    return on_long_circle(values[0])[CIRCLE.index(kind_of(function))]
                return drawn_long("call", function, *values)
        raise TypeError(form)
