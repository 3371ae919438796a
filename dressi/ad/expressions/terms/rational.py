"""Rational numbers: an int where they are whole, else a ``Ratio`` in lowest terms.

The class Fraction of the standard library checks the types of what it gets at every step; in graphs of 100,000 Functions this took
a sixth of the time. Functions here take both kinds.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import gcd
from typing import NamedTuple


class Ratio(NamedTuple):
    """A rational number that is not whole, in lowest terms; the denominator is positive. Equal ones have equal hashes."""

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
    """Numerator and denominator."""
    return (c, 1) if type(c) is int else c  # type: ignore[return-value]


def plus(a: Rational, b: Rational) -> Rational:
    """a + b."""
    if type(a) is int and type(b) is int:
        return a + b
    (above, below), (more, less) = parts(a), parts(b)
    return reduced(above * less + more * below, below * less)


def times(a: Rational, b: Rational) -> Rational:
    """a b."""
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
    """a / b."""
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
    """The number that a float is."""
    return reduced(*value.as_integer_ratio())


RANGE = 2**60
"""Constants above it, and below its inverse, stay where they are: joined, they would leave the range of single precision."""


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
