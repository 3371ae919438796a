"""The shortest steps that were found for expressions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ..terms.forms import Scaled
from ..terms.table import Table
from .count import count
from .reduce import reduced
from .steps import Lowering, Steps

WAYS: tuple[tuple[float, int | None], ...] = ((inf, None), (20_000, 2), (5_000, 3))
"""(entries up to which it is tried, ``around`` of ``reduced``)."""


def shortest(table: Table, roots: Sequence[Scaled], product_cost: float = 1.0) -> Steps:
    """Steps that compute the roots: the cheapest of those with and without products written out before. product_cost: what a
    product costs in sums, at least 1."""
    order = table.order([r.entry for r in roots])
    ways = [
        reduced(Lowering(table).lower(roots, order), around=around, product_cost=product_cost)
        for most, around in WAYS
        if len(order) <= most
    ]
    return fewest_of(ways, product_cost)


def fewest_of(ways: Sequence[Steps], product_cost: float = 1.0) -> Steps:
    """The first of the cheapest."""
    return min(ways, key=lambda steps: count(steps).cost(product_cost)) if len(ways) > 1 else ways[0]
