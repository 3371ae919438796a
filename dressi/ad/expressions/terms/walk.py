"""What entries are made of."""

from __future__ import annotations

from collections.abc import Iterable

from ...traversal import producers_first
from .table import Call, Product, Sum, Table


def children(table: Table, entry: int) -> list[int]:
    """The entries that an entry is made of."""
    match table.forms[entry]:
        case Sum(terms):
            return [n for _, n in terms]
        case Product(factors):
            return [n for n, _ in factors]
        case Call(_, arguments):
            return [x.entry for x in arguments]
    return []


def order_of(table: Table, roots: Iterable[int]) -> list[int]:
    """What the roots are made of, before what is made of it."""
    return producers_first(reversed([*roots]), lambda n: reversed(children(table, n)))
