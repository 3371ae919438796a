"""Samples of expressions in a finite field, which tell whether two expressions are one.

A rational expression is evaluated exactly at two random points of the integers modulo a prime. Expressions that are equal
have equal samples; expressions that differ have equal samples with a probability below degree / PRIME, which is nothing
(the lemma of Schwartz and Zippel). Constants are the rational numbers that they are as floats, so that the test is exact,
and what holds only but for rounding is not found.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from functools import lru_cache

PRIME = 2**255 - 19
POINTS = 2
_LARGEST = 1 << 126  # numerator and denominator of a ratio that is recognised

Sample = tuple[int, int]
Rational = int | Fraction
"""A rational number, an int where it is whole: those are many times faster."""


def of_rational(c: Rational) -> int:
    """A rational number in the field."""
    return c % PRIME if type(c) is int else _of_fraction(c)


@lru_cache(maxsize=1 << 16)
def _of_fraction(c: Fraction) -> int:
    return c.numerator * pow(c.denominator, -1, PRIME) % PRIME


def plain(c: Rational) -> Rational:
    """The same number, an int if it is whole."""
    return c.numerator if c.denominator == 1 else c


def quotient(a: Rational, b: Rational) -> Rational:
    """a / b."""
    return a if b == 1 else plain(Fraction(a) / b)


def inverse(v: int) -> int:
    """1 / v; 0 for 0, which no sample is by chance."""
    return pow(v, -1, PRIME) if v else 0


def drawn(*parts: object) -> int:
    """A number that only these parts determine, as if it were drawn at random."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=64).digest()
    return int.from_bytes(digest, "little") % PRIME


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
