"""Cross-country elimination: the order in which vertices leave a graph of partial derivatives, by count.

Vertices are entries of a table, and edges are partial derivatives. Eliminating a vertex multiplies each edge
that enters it by each that leaves it, and adds the products to the edges between its neighbours; at the end
edges lead from inputs to outputs alone: the Jacobian. Forward and reverse mode are two orders of many
(Griewank and Walther, Evaluating Derivatives, chapter 9); the best order is NP-complete to find.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from .table import UNIT, ZERO, Scaled, Table, scaled

Edges = dict[int, dict[int, Any]]
"""{vertex: {vertex at the other end: what is known of the edge}}."""
LARGEST = 20_000  # edges up to which orders are sought; choosing takes some 10 us an edge and order


class Cost(NamedTuple):
    """Products and sums of an elimination, before equal ones are found."""

    products: int
    adds: int

    @property
    def total(self) -> int:
        return self.products + self.adds


class Linearized:
    """The partial derivatives on the paths from inputs to roots. Root k is the vertex -1 - k.

    below: {vertex: {vertex it is made of: partial derivative}}, operands first.
    """

    def __init__(
        self,
        table: Table,
        roots: Sequence[Scaled],
        inputs: Sequence[int],
        partials: Callable[[int], Sequence[tuple[int, Scaled]]],
    ):
        self.table, self.roots, self.inputs = table, roots, inputs
        given, below = set(inputs), dict[int, dict[int, Scaled]]()
        reached = set(inputs)
        for n in table.order([r.entry for r in roots]):
            if n not in given:
                edges = dict[int, Scaled]()
                for m, d in partials(n):
                    if m in reached and not d.is_zero:
                        edges[m] = table.sum([edges[m], d]) if m in edges else d
                if edges:
                    reached.add(n)
                    below[n] = edges
        for k, (factor, n) in enumerate(roots):
            if n in reached and factor:
                below[-1 - k] = {n: UNIT if factor == 1 else scaled((factor, UNIT.entry))}
        needed = {-1 - k for k in range(len(roots))}
        for n in reversed(below):
            if n in needed:
                needed.update(below[n])
        self.below = {n: edges for n, edges in below.items() if n in needed}
        self.edges = sum(map(len, self.below.values()))

    def sweeps(self) -> tuple[Cost, Cost]:
        """The costs of forward and of reverse mode, a sweep for each input or root that paths lead to."""
        inputs, roots = self._reached()
        given, made = set(self.inputs), Counter[int]()
        forward, reverse = [0, 0], [0, 0]
        for n, edges in reversed(self.below.items()):
            forward[1] -= inputs[n]
            for m, d in edges.items():
                forward[1] += inputs[m]
                reverse[1] += roots[n]
                made[m] += n < 0
                if not _is_free(d):
                    forward[0] += inputs[m] if m not in given else 0
                    reverse[0] += roots[n] - made[n]
        reverse[1] -= sum(count for m, count in roots.items() if m >= 0)
        return Cost(*forward), Cost(*reverse)

    def _reached(self) -> tuple[dict[int, int], dict[int, int]]:
        """By vertex, how many inputs it is made of and how many roots are made of it."""
        inputs = {x: 1 << k for k, x in enumerate(self.inputs)}
        roots = {-1 - k: 1 << k for k in range(len(self.roots))}
        for n, edges in self.below.items():
            inputs[n] = reduce(or_, [inputs[m] for m in edges])
        for n, edges in reversed(self.below.items()):
            for m in edges:
                roots[m] = roots.get(m, 0) | roots[n]
        by_inputs, by_roots = ({n: bits.bit_count() for n, bits in x.items()} for x in (inputs, roots))
        return by_inputs, by_roots

    def order(self, limit: int) -> tuple[list[int], Cost]:
        """The cheapest order found, and what it costs; none is followed further than to the limit."""
        best, cost = list[int](), Cost(limit, 0)
        for sign in (1, -1):
            found = self._greedy(sign, cost.total)
            if found is not None:
                best, cost = found
        return best, cost

    def _greedy(self, sign: int, limit: int) -> tuple[list[int], Cost] | None:
        """Always the vertex with the fewest products: Markowitz's rule; of equal ones that which leaves the
        fewest edges. sign: of two equal ones the first or the last."""
        below = {n: {m: _is_free(d) for m, d in edges.items()} for n, edges in self.below.items()}
        above = _turned(below)
        places = {n: sign * k for k, n in enumerate(self.below)}

        def priced(n: int) -> tuple[int, int, int, int]:
            made_of, readers = list(below[n].values()), list(above[n].values())
            a, b = len(made_of), len(readers)
            return (a - sum(made_of)) * (b - sum(readers)), a * b - a - b, places[n], n

        heap = [priced(n) for n in self.below if n >= 0]
        heapq.heapify(heap)
        order, products, adds = list[int](), 0, 0
        while heap:
            known = heapq.heappop(heap)
            n = known[-1]
            if n not in below or priced(n) != known:
                continue
            order.append(n)
            products += known[0]
            readers, made_of = _removed(n, below, above)
            for r, free in readers.items():
                row = below[r]
                for m, other in made_of.items():
                    adds += m in row
                    row[m] = above[m][r] = free and other and m not in row
            if products + adds >= limit:
                return None
            for v in {v for v in (*readers, *made_of) if v in below and v >= 0}:
                heapq.heappush(heap, priced(v))
        return order, Cost(products, adds)

    def rows(self) -> list[list[Scaled]] | None:
        """The derivatives of each root by each input; None if forward or reverse mode are as cheap."""
        order, cost = self.order(most := min(cost.total for cost in self.sweeps()))
        return self.eliminated(order) if cost.total < most else None

    def eliminated(self, order: Sequence[int]) -> list[list[Scaled]]:
        """The derivatives of each root by each input, with the vertices eliminated in an order."""
        table = self.table
        below = {n: dict(edges) for n, edges in self.below.items()}
        above = _turned(below)
        for n in order:
            readers, made_of = _removed(n, below, above)
            for r, d in readers.items():
                row = below[r]
                for m, other in made_of.items():
                    part = other if d is UNIT else table.multiplied(d, other)
                    row[m] = above[m][r] = table.sum([row[m], part]) if m in row else part
        rows = [below.get(-1 - k, {}) for k in range(len(self.roots))]
        return [[row.get(x, ZERO) for x in self.inputs] for row in rows]


def _is_free(d: Scaled) -> bool:
    """Whether a product with it is none."""
    return d.entry == UNIT.entry and abs(d.factor) == 1


def _turned(below: Mapping[int, Mapping[int, Any]]) -> Edges:
    above = defaultdict[int, dict[int, Any]](dict)
    for n, edges in below.items():
        for m, d in edges.items():
            above[m][n] = d
    return above


def _removed(n: int, below: Edges, above: Edges) -> tuple[dict[int, Any], dict[int, Any]]:
    """The edges to what is made of a vertex, and to what it is made of; both graphs lose it."""
    readers, made_of = above.pop(n), below.pop(n)
    for m in made_of:
        del above[m][n]
    for r in readers:
        del below[r][n]
    return readers, made_of
