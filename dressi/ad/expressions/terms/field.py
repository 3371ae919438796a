"""Samples of expressions in finite fields, which tell whether two expressions are one.

A rational expression is evaluated exactly at one random point of the integers modulo PRIME and at three modulo SMALL. Expressions
that are multiples of each other have equal quotients of their samples modulo SMALL; expressions that are not have equal quotients
with a probability below (degree / SMALL)^2, which is nothing (the lemma of Schwartz and Zippel). The sample modulo PRIME says which
multiple, if its numerator and denominator are no longer than those of two floats. Constants are the rational numbers that they are as
floats, so that the test is exact, and what holds only but for rounding is not found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

PRIME = 2**255 - 19
SMALL = 2**61 - 1
"""Inverses modulo a number of one machine word are twenty times faster."""
_LARGEST = 1 << 126  # numerator and denominator of a ratio that is recognised

Rational = int | Fraction
"""A rational number, an int where it is whole: those are many times faster."""


class Sample(NamedTuple):
    """The values of an expression modulo PRIME and, at three points, modulo SMALL."""

    long: int
    a: int
    b: int
    c: int

    @property
    def inverse(self) -> Sample:
        """1 / x; 0 for 0, which no sample is by chance."""
        long, a, b, c = self
        ab = a * b % SMALL
        below = inverse(ab * c, SMALL)  # one inverse for three
        return Sample(inverse(long), b * c * below % SMALL, a * c * below % SMALL, ab * below % SMALL)

    @property
    def direction(self) -> int:
        """Equal for all multiples of a sample."""
        below = inverse(self.c, SMALL)
        return self.a * below % SMALL << 61 | self.b * below % SMALL


def of_rational(c: Rational) -> tuple[int, int]:
    """A rational number in both fields."""
    return (c % PRIME, c % SMALL) if type(c) is int else _of_fraction(c.numerator, c.denominator)


@lru_cache(maxsize=1 << 16)
def _of_fraction(numerator: int, denominator: int) -> tuple[int, int]:
    return numerator * inverse(denominator) % PRIME, numerator * inverse(denominator, SMALL) % SMALL


def sum_of(terms: Iterable[tuple[Rational, Sample]]) -> Sample:
    """The sum of multiples of samples."""
    v = x = y = z = 0
    for factor, (long, a, b, c) in terms:
        if type(factor) is int:
            v, x, y, z = v + factor * long, x + factor * a, y + factor * b, z + factor * c
        else:
            m, n = _of_fraction(factor.numerator, factor.denominator)
            v, x, y, z = v + m * long, x + n * a, y + n * b, z + n * c
    return Sample(v % PRIME, x % SMALL, y % SMALL, z % SMALL)


def product_of(factors: Iterable[Sample]) -> Sample:
    """The product of samples."""
    v = x = y = z = 1
    for long, a, b, c in factors:
        v, x, y, z = v * long % PRIME, x * a % SMALL, y * b % SMALL, z * c % SMALL
    return Sample(v, x, y, z)


def plain(c: Rational) -> Rational:
    """The same number, an int if it is whole."""
    return c if type(c) is int else c.numerator if c.denominator == 1 else c


def times(a: Rational, b: Rational) -> Rational:
    """a b."""
    if type(a) is int:
        if type(b) is int:
            return a * b
        a, b = b, a
    if type(b) is int and (b == 1 or b == -1):
        return a if b == 1 else -a
    return plain(Fraction(a.numerator * b.numerator, a.denominator * b.denominator))


def to_power(c: Rational, power: int) -> Rational:
    """c^power; a negative power of 0 raises ZeroDivisionError."""
    if power == 1 or (type(c) is int and c == 1):
        return c
    return c**power if power > 0 else quotient(1, c if power == -1 else c**-power)


def quotient(a: Rational, b: Rational) -> Rational:
    """a / b."""
    if type(b) is int:
        if b == 1 or b == -1:
            return a if b == 1 else -a
        if type(a) is int:
            return plain(Fraction(a, b)) if a % b else a // b
    elif a is b:
        return 1
    above, below = a.numerator * b.denominator, a.denominator * b.numerator
    return 1 if above == below else plain(Fraction(above, below))


def size(c: Rational) -> Rational:
    """|c|."""
    return c if c.numerator >= 0 else -c


def inverse(v: int, prime: int = PRIME) -> int:
    """1 / v in a field; 0 for 0."""
    return pow(v, -1, prime) if v else 0


@lru_cache(maxsize=1 << 12)
def of_float(value: float) -> Rational:
    """The number that a float is."""
    return plain(Fraction(value))


def drawn(*parts: object) -> Sample:
    """A sample that only these parts determine, as if it were drawn at random."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=64).digest()
    long = int.from_bytes(digest[:40], "little") % PRIME
    return Sample(long, *(int.from_bytes(digest[k : k + 8], "little") % SMALL for k in (40, 48, 56)))


@lru_cache(maxsize=1 << 15)
def on_circle(angle: int) -> tuple[Sample, Sample]:
    """A point that only the angle determines, with a^2 + b^2 = 1: the samples of its sine and cosine."""
    u = drawn("angle", angle)
    one = Sample(1, 1, 1, 1)
    square = product_of([u, u])
    below = sum_of([(1, one), (1, square)]).inverse
    return product_of([sum_of([(2, u)]), below]), product_of([sum_of([(1, one), (-1, square)]), below])


def to_rational(v: int) -> Rational | None:
    """The rational number of small numerator and denominator that the field writes as ``v``; None if there is none."""
    if v < _LARGEST:
        return v
    if PRIME - v < _LARGEST:
        return v - PRIME
    a, b, x, y = PRIME, v, 0, 1
    while b >= _LARGEST:
        q = a // b
        a, b, x, y = b, a - q * b, y, x - q * y
    return plain(Fraction(b, y)) if 0 < abs(y) < _LARGEST else None
