"""The shortest steps that were found for expressions."""

from __future__ import annotations

from collections.abc import Sequence

from ..terms.table import Scaled, Table
from ..terms.walk import order_of
from .count import count
from .reduce import reduced
from .steps import Lowering, Steps

SEVERAL, TWO = 1_000, 20_000
"""Entries up to which all ways are tried, and up to which two are."""

WAYS = (
    {"factors": True},
    {"factors": True, "expanded": True},
    {"factors": False},
    {"factors": False, "expanded": True},
)


def shortest(table: Table, roots: Sequence[Scaled]) -> Steps:
    """Steps that compute the roots: the fewest operations of those with and without common factors taken out of sums, and with
    and without products written out before."""
    order = order_of(table, [r.entry for r in roots])
    ways = WAYS[: len(WAYS) if len(order) <= SEVERAL else 2 if len(order) <= TWO else 1]
    return fewest_of([reduced(Lowering(table).lower(roots, order), **way) for way in ways])


def fewest_of(ways: Sequence[Steps]) -> Steps:
    """The first of those with fewest operations."""
    return min(ways, key=lambda steps: count(steps).total) if len(ways) > 1 else ways[0]
