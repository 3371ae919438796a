"""What entries are made of."""

from __future__ import annotations

from collections.abc import Iterable

from ...traversal import producers_first
from .table import Call, Product, Sum, Table


def children(table: Table, entry: int) -> list[int]:
    """The entries that an entry is made of."""
    form = table.forms[entry]
    if isinstance(form, Sum | Product):
        return [n for _, n in form.terms] if isinstance(form, Sum) else [n for n, _ in form.factors]
    return [x.entry for x in form.arguments] if isinstance(form, Call) else []


def order_of(table: Table, roots: Iterable[int]) -> list[int]:
    """What the roots are made of, before what is made of it."""
    return producers_first(reversed([*roots]), lambda n: reversed(children(table, n)))
