"""What entries are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .table import ONE, Call, Product, Sum, Table


def children(table: Table, entry: int, form: int = 0) -> list[int]:
    """The entries that a form of an entry is made of."""
    if entry == ONE:
        return []
    match table.forms[entry][form][1]:
        case Sum(terms):
            return [n for _, n in terms]
        case Product(factors):
            return [n for n, _ in factors]
        case Call(_, arguments):
            return [x.entry for x in arguments]
    return []


def order_of(table: Table, roots: Sequence[int], chosen: Mapping[int, int] | None = None) -> list[int]:
    """What the roots are made of, before what is made of it. chosen: the form of an entry, 0 where it does not say."""
    chosen = chosen or {}
    order, seen, stack = list[int](), set[int](), list(reversed(roots))
    while stack:
        entry = stack[-1]
        if entry in seen:
            stack.pop()
            continue
        missing = [n for n in children(table, entry, chosen.get(entry, 0)) if n not in seen]
        if missing:
            stack.extend(reversed(missing))
            continue
        seen.add(entry)
        order.append(entry)
    return order
