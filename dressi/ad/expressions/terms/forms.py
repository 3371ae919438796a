"""What expressions are made of: multiples of entries of a table, and the forms in which entries are written."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any, NamedTuple

from ...ops.pixel.trigonometry import Cos, Sin
from .rational import Rational

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
    """The class of a Function of a Call."""
    return function[0] if isinstance(function, tuple) else function


def children(form: Form) -> list[int]:
    """The entries that a form is made of."""
    if type(form) is Product:
        return [n for n, _ in form.factors]
    if type(form) is Sum:
        return [n for _, n in form.terms]
    return [n for _, n in form.arguments] if type(form) is Call else []
