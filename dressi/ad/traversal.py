"""Traversals of graphs: topological order, leaves, and a key for graphs of equal structure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .graph import Function, Variable
from .includes import versions


def topological_order(roots: Iterable[Variable], given: Iterable[Variable] = ()) -> list[Function]:
    """All Functions that the roots depend on, producers first. Equal graphs give equal orders. Iterative.

    given: Variables that have their values already, so that nothing behind them is needed."""
    order: list[Function] = []
    done: set[Function | None] = {None, *(v.creator for v in given)}  # a leaf has no creator
    expanded: set[Function] = set()
    stack = [r.creator for r in reversed(list(roots))]
    while stack:
        function = stack[-1]
        if function is None or function in done:
            stack.pop()
        elif function in expanded:
            stack.pop()
            done.add(function)
            order.append(function)
        else:
            expanded.add(function)
            stack.extend([x.creator for x in reversed(function.inputs) if x.creator not in done])
    return order


def leaves(roots: Iterable[Variable]) -> list[Variable]:
    """All leaf Variables that the roots depend on, in the order in which they were made."""
    roots = list(roots)
    found = {r for r in roots if r.is_leaf}
    for function in topological_order(roots):
        found.update(x for x in function.inputs if x.is_leaf)
    return sorted(found, key=lambda v: v.id)


def structure(roots: Iterable[Variable], given: Iterable[Variable]) -> tuple[Any, ...]:
    """A key of what a graph computes. It is equal for graphs of equal Functions, with equal versions of the files that
    these include, over leaves of equal types and domains.

    given: the leaves; the k-th leaf of one graph stands for the k-th leaf of the other.
    """
    number = {v: k for k, v in enumerate(given)}
    roots = tuple(roots)
    lines: list[Any] = [(v.vtype, v.domain) for v in number]
    for f in topological_order(roots):
        lines.append((*f.identity, *versions(f), *(number[x] for x in f.inputs)))
        number[f.output] = len(number)
    return (*lines, *(number[v] for v in roots))
