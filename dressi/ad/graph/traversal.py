"""Traversals of graphs: topological order, leaves, and a key for graphs of equal structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, TypeVar

from . import Function, Variable
from .includes import versions

T = TypeVar("T")
_MADE = object()  # on the stack below what something is made from


def reached(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Everything that can be reached, each once, depth first: what follows last is visited first. Iterative.

    >>> list(reached([12], lambda n: [n // 2, n // 3] if n else []))
    [12, 4, 1, 0, 2, 6, 3]
    """
    visited: dict[T, None] = {}
    stack = list(start)
    while stack:
        x = stack.pop()
        if x not in visited:
            visited[x] = None
            stack += following(x)
    return visited


def producers_first(start: Iterable[T], makers: Callable[[T], Iterable[T]]) -> list[T]:
    """Everything that can be reached, each once, after what it is made from. Iterative.

    >>> producers_first([12], lambda n: [n // 2, n // 3] if n else [])
    [0, 1, 2, 4, 3, 6, 12]
    """
    order, begun, visited = list[T](), list[T](), set[T]()
    stack: list[Any] = list(start)
    while stack:
        x = stack.pop()
        if x is _MADE:
            order.append(begun.pop())
        elif x not in visited:
            visited.add(x)
            begun.append(x)
            stack.append(_MADE)
            stack += makers(x)
    return order


def rebuilt(
    functions: Iterable[Function],
    known: MutableMapping[Variable, Variable],
    other: Callable[[Variable], Variable] = lambda x: x,
) -> None:
    """Rebuilds the Functions that read a key of ``known`` with its values, and adds their new outputs to it.
    functions: producers first. other: maps the remaining inputs."""
    for f in functions:
        if not known.keys().isdisjoint(f.inputs):
            known[f.output] = f.rebuild(*(known[x] if x in known else other(x) for x in f.inputs)).output


def topological_order(roots: Iterable[Variable], given: Iterable[Variable] = ()) -> list[Function]:
    """All Functions that the roots depend on, producers first. Equal graphs give equal orders. Iterative.

    given: Variables that have values already; what only they need is left out of the order."""
    roots, behind = tuple(roots), {v.creator for v in given}
    order: list[Function] = []
    done: set[Function | None] = {None}  # a leaf has no creator
    expanded: set[Function] = set()
    stack = [r.creator for r in reversed(roots)]
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
    if not behind:
        return order
    behind.add(None)
    ends = [r.creator for r in roots if r.creator is not None and r.creator not in behind]
    needed = reached(ends, lambda f: [e.maker for e in f.edges if e.maker not in behind])
    return [f for f in order if f in needed]


def leaves(roots: Iterable[Variable]) -> list[Variable]:
    """All leaf Variables that the roots depend on, in the order in which they were made."""
    roots = list(roots)
    read = {*roots, *(x for function in topological_order(roots) for x in function.inputs)}
    return sorted((v for v in read if v.is_leaf), key=lambda v: v.id)


def structure(roots: Iterable[Variable], given: Iterable[Variable]) -> tuple[Any, ...]:
    """A key of what a graph computes, equal for graphs of equal Functions, with equal versions of included
    files, over leaves of equal types and domains. given: the leaves, in order."""
    number = {v: k for k, v in enumerate(given)}
    roots = tuple(roots)
    lines: list[Any] = [(v.vtype, v.domain) for v in number]
    for f in topological_order(roots):
        lines.append((*f.identity, *versions(f), *(number[x] for x in f.inputs)))
        number[f.output] = len(number)
    return (*lines, *(number[v] for v in roots))
