"""Rational numbers, an int or else a ``Ratio`` in lowest terms; and samples of them in finite fields.

The class Fraction of the standard library checks the types of what it gets at every step; in graphs of
100,000 Functions this took a sixth of the time. Functions here take both kinds.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from math import gcd
from typing import NamedTuple


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
