"""How much a shader does in values that it makes again at other texels: iterations of loops, and Functions that drivers
inline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

from ....ad.graph import DrawFunction, Function, ReduceFunction, Variable
from ....ad.graph.work import UNROLLED
from ....ad.traversal import reached
from ....ad.types import Access

NOT_LONGER: Mapping[Function, int] = MappingProxyType({})
LARGEST_UNROLLED = 16
"""Functions that make one texel of a loop that is unrolled: drivers inline every call."""
VIEWS = 64
"""Views up to which a plan for short loops stays the same: a loop over the tiles of a batch counts as no shorter."""


def iterations(f: Function, most: int) -> int:
    """Iterations of the loops of one Function, as decisions count them that allow ``most`` for an invocation."""
    if most < VIEWS * VIEWS and isinstance(f, ReduceFunction) and f.axis == "n":
        return max(f.iterations, min(VIEWS, most // 4))
    return f.iterations


class Walks:
    """stored: whether a Variable is read from an image; all others are made again by their readers. most: see
    ``iterations``; 0 counts what there is. longer: the iterations of Functions whose lists grew since the plan was made.

    A sum of 8 texels, each of which is a sum of 4 that nobody stored, walks 8 + 8 * 4 iterations.
    """

    def __init__(
        self, stored: Callable[[Variable], bool], most: int = 0, longer: Mapping[Function, int] = NOT_LONGER
    ):
        self._stored, self._most, self._longer = stored, most, longer
        self._made: dict[Variable, int] = {}
        self._of: dict[Function, int] = {}

    def of(self, f: Function) -> int:
        """Iterations for one Function: its own, and those of what it makes at other texels. Inputs over its own pixels
        are Functions of the same shader, which count for themselves."""
        if f in self._of:
            return self._of[f]
        own = total = self._longer.get(f, iterations(f, self._most))
        if isinstance(f, DrawFunction) and f.fragment is not None:
            total += sum(g.iterations for g in f.fragment.functions)
        for x, maker, access, near in f.edges:
            if not (near or maker is None or self._stored(x)):
                total += self._making(x) * (1 if access is Access.SAME_PIXEL else max(own, 1))
        self._of[f] = total
        return total

    def _making(self, v: Variable) -> int:
        """Iterations that make one texel of a value that is not stored."""
        if v not in self._made:
            self._made[v] = sum(self.of(f) for f in _at_same_pixel(v, self._stored))
        return self._made[v]


class Called(NamedTuple):
    """Functions and loops."""

    functions: float
    loops: float


class Calls:
    """How many Functions and loops a driver compiles in the values that a Function makes again at other texels, calls inside of
    calls included: drivers inline each call, and every level of a pyramid has four of the level before.

    stored: whether a Variable costs nothing, because it is read from an image or is a constant.
    """

    def __init__(self, stored: Callable[[Variable], bool]):
        self._stored = stored
        self._made: dict[Variable, Called] = {}
        self._of: dict[Function, Called] = {}

    def of(self, f: Function) -> Called:
        """What the calls of one Function contain; nothing if it calls none."""
        if f in self._of:
            return self._of[f]
        functions = nested = 0.0
        for k, (x, maker, _, near) in enumerate(f.edges):
            if not (near or maker is None or self._stored(x)):
                sites = UNROLLED + f.extent % UNROLLED if unrolls(f, self._stored) else 1
                times, made = sites * calls(f, k), self._making(x)
                functions, nested = functions + times * made.functions, nested + times * made.loops
        self._of[f] = found = Called(functions, nested)
        return found

    def _making(self, v: Variable) -> Called:
        if v not in self._made:
            cone = _at_same_pixel(v, self._stored)
            inside = [self.of(f) for f in cone]
            nested = sum(loops(f) + c.loops for f, c in zip(cone, inside, strict=True))
            self._made[v] = Called(sum(1.0 + c.functions for c in inside), nested)
        return self._made[v]


def unrolls(f: Function, stored: Callable[[Variable], bool]) -> TypeGuard[ReduceFunction]:
    """Whether a shader has the loop of a Function unrolled: its texels are stored, or made of few Functions and no others."""
    if not isinstance(f, ReduceFunction) or not f.unrolled or f.axis == "n" or f.extent < UNROLLED:
        return False  # tiles are few
    (x,) = f.inputs
    made = [] if x.creator is None or stored(x) else _at_same_pixel(x, stored)
    return len(made) <= LARGEST_UNROLLED and all(a is Access.SAME_PIXEL for g in made for a in g.access)


def loops(f: Function) -> float:
    """Loops in the snippet of a Function."""
    return float(f.iterations > 1)


def calls(f: Function, k: int) -> float:
    """Calls in the snippet of a Function that read input ``k``. One in a loop counts once."""
    reads = f.reads(k) if f.access[k] is Access.FETCH else 1.0
    return 1.0 if math.isinf(reads) else math.ceil(reads / max(f.iterations, 1))


def _at_same_pixel(v: Variable, stored: Callable[[Variable], bool]) -> list[Function]:
    """The Functions over the same pixels that make a value which is not stored."""

    def makers(f: Function) -> list[Function]:
        return [maker for x, maker, _, near in f.edges if near and maker is not None and not stored(x)]

    return list(reached([v.creator] if v.creator is not None else [], makers))
