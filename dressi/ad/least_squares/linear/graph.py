"""Lists as the nodes of a graph: which entries residuals read together, and shares of a few centres in all of them.

Computed once, on the host, from the data that the indices have when the solver is set up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....errors import GraphError
from ...evaluate import evaluate
from ...graph import Function, Variable
from ...traversal import topological_order
from .diagonal import Paths, selections

POWER = 4.0
"""Of the distance, by which the share of a centre falls."""


def shares(residuals: Sequence[Variable], lists: Sequence[Variable], centres: int) -> list[np.ndarray] | None:
    """The share of each centre in the entries of each list, (entries, centres), rows that add up to 1; 0 for entries that no
    residual reads together with others. None if the graph has more parts than centres, or no edge.

    The first centre lies at an end of the graph, each further one as far from the others as possible. The shares are
    (h + 1/2)^-4 of the edges h to the centre, divided by their sum (Shepard).
    """
    ends = [0, *np.cumsum([int(np.prod(x.size)) for x in lists]).tolist()]
    edges = [pair for r in residuals for pair in _edges(r, lists, ends[:-1])]
    if not edges:
        return None
    distance = _distances(np.concatenate(edges, 1), ends[-1], centres)
    if distance is None:
        return None
    near = (distance + 0.5) ** -POWER
    sums = near.sum(1, keepdims=True)
    near = np.divide(near, sums, out=np.zeros_like(near), where=sums > 0)
    return np.split(near, ends[1:-1])


def _distances(pairs: np.ndarray, count: int, centres: int) -> np.ndarray | None:
    """(entries, centres) edges between each entry and each centre; infinite for other parts of the graph. None if a part has
    no centre. pairs: (2, E) entries."""
    start, end = np.concatenate([pairs, pairs[::-1]], 1)
    order = np.argsort(start, kind="stable")
    offsets, end = np.searchsorted(start[order], np.arange(count + 1)), end[order]
    nodes = np.unique(start)
    first = _away(nodes[0], offsets, end)
    found = [_away(np.argmax(np.where(np.isfinite(first), first, -1.0)), offsets, end)]
    while len(found) < centres:
        nearest = np.min(found, 0)[nodes]
        found.append(_away(nodes[np.argmax(nearest)], offsets, end))
    distance = np.stack(found, 1)
    return distance if np.isfinite(distance[nodes]).any(1).all() else None


def _away(node: np.intp, offsets: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Edges from one entry to each other, breadth first. The edges of entry n lead to end[offsets[n]:offsets[n + 1]]."""
    distance = np.full(len(offsets) - 1, np.inf)
    distance[node] = level = 0
    front = np.array([node])
    while front.size:
        level += 1
        counts = offsets[front + 1] - offsets[front]
        before = np.cumsum(counts) - counts
        near = np.unique(end[np.repeat(offsets[front] - before, counts) + np.arange(counts.sum())])
        front = near[np.isinf(distance[near])]
        distance[front] = level
    return distance


def _edges(residual: Variable, lists: Sequence[Variable], first: Sequence[int]) -> list[np.ndarray]:
    """Pairs (2, E) of entries that one texel of a residual reads, of all lists one after another: star-shaped."""
    read = [at for x, k in zip(lists, first, strict=True) for at in _entries(residual, x, lists, k)]
    if len(read) < 2:
        return []
    entries = np.stack([np.broadcast_to(at, residual.tiled[:3]).ravel() for at in read])
    inside = entries >= 0
    hub = entries[np.argmax(inside, 0), np.arange(entries.shape[1])]
    pairs = [np.stack([hub, at])[:, there & (at != hub)] for at, there in zip(entries, inside, strict=True)]
    return [pair for pair in pairs if pair.size]


def _entries(residual: Variable, x: Variable, lists: Sequence[Variable], first: int) -> list[np.ndarray]:
    """The entries of one list that each texel of a residual reads, plus ``first``, for each path; -1 for none. None at all
    where the indices follow from the unknowns, or have no values."""
    functions = selections(residual, x)
    if functions is None or any(_moves(f, lists) for f in functions):
        return []
    paths = Paths(x, functions)
    read = [paths.read[path] for path in paths.flow(residual)]
    number = np.arange(1, np.prod(x.size) + 1).reshape(1, x.size[1], x.size[0])
    ids = np.broadcast_to(number.reshape(number.shape + (1,) * (len(x.shape) - 3)), x.shape)
    try:
        values = evaluate(read, {x: ids})
    except GraphError:
        return []
    found = [
        np.rint(v.reshape(*y.tiled[:3], -1)[..., 0]).astype(np.int64)
        for v, y in zip(values, read, strict=True)
    ]
    return [np.where(at > 0, at - 1 + first, -1) for at in found]


def _moves(selection: Function, lists: Sequence[Variable]) -> bool:
    """Whether the indices of a selection follow from the unknowns."""
    others = selection.inputs[1:]
    leaves = {x for f in topological_order(others) for x in f.inputs} | set(others)
    return not leaves.isdisjoint(lists)
