"""What work costs: the estimates by which a plan stores a value or computes it again.

Everything is counted in operations of one invocation, from what Functions declare (``dressi.ad.graph.work``).
Only ratios matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

from ....ad.graph import DrawFunction, Function, ReduceFunction, Variable
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access
from ....ad.graph.work import UNROLLED


def operations(f: Function) -> float:
    """Operations of one invocation of a Function, without its reads."""
    loop = fetches(f, 0) if isinstance(f, ReduceFunction) else 1.0
    return f.operations * f.output.vtype.components * loop


def planes(variables: Iterable[Variable]) -> int:
    """Images that hold the Variables: what is fetched of each texel, or stored."""
    return sum(len(v.vtype.planes) for v in variables)


def fetches(f: Function, k: int) -> float:
    """How many texels of input ``k`` an invocation reads; infinite where data decide.

    A sum over the batch counts as one tile: plans do not depend on the number of views.
    """
    return 1.0 if isinstance(f, ReduceFunction) and f.axis == "n" else f.reads(k)


# How much a shader does in values that it makes again at other texels: iterations, and inlined Functions.

NOT_LONGER: Mapping[Function, int] = MappingProxyType({})
LARGEST_UNROLLED = 16
"""Functions that make one texel of a loop that is unrolled: drivers inline every call."""
VIEWS = 64
"""Up to so many views a plan for short loops stays the same: a loop over tiles counts as no shorter."""


def iterations(f: Function, most: int) -> int:
    """Iterations of the loops of a Function, as decisions count them that allow ``most``."""
    if most < VIEWS * VIEWS and isinstance(f, ReduceFunction) and f.axis == "n":
        return max(f.iterations, min(VIEWS, most // 4))
    return f.iterations


class Walk(NamedTuple):
    """What one Function costs with all that it makes again at other texels: iterations of an invocation, the
    Functions that drivers compile in its calls, and loops, its own among them; calls inside of calls
    included."""

    iterations: int
    functions: float
    loops: float


class Walks:
    """What the Functions of shaders do. Drivers inline calls, and every level of a pyramid has four of the
    level before.

    made: whether a Function is made again where it is read; all others are stored.  most: see ``iterations``;
    0 counts what there is.  free: made Functions that take nothing to compile.  longer: the iterations of
    Functions whose lists grew since the plan was made.

    A sum of 8 texels, each of which is a sum of 4 that nobody stored, walks 8 + 8 * 4 iterations.
    """

    def __init__(
        self,
        made: Callable[[Function], bool],
        most: int = 0,
        *,
        free: Container[Function] = (),
        longer: Mapping[Function, int] = NOT_LONGER,
    ):
        self._made, self._most, self._free, self._longer = made, most, free, longer
        self._making: dict[Function, Walk] = {}
        self._of: dict[Function, Walk] = {}

    def of(self, f: Function) -> Walk:
        """One Function alone: makers at its own pixels are Functions of the same shader."""
        if f in self._of:
            return self._of[f]
        own = self._longer.get(f, iterations(f, self._most))
        total, functions, nested = with_fragments(f, own), 0.0, float(f.iterations > 1)
        for k, (_, maker, access, near) in enumerate(f.edges):
            if not near and maker is not None and self._made(maker):
                inside = self._making.get(maker) or self._make(maker)
                total += inside.iterations * (1 if access is Access.SAME_PIXEL else max(own, 1))
                sites = UNROLLED + f.extent % UNROLLED if unrolls(f, self._made) else 1
                times = sites * calls(f, k)
                functions, nested = functions + times * inside.functions, nested + times * inside.loops
        self._of[f] = walk = Walk(total, functions, nested)
        return walk

    def _make(self, f: Function) -> Walk:
        """What makes one texel of a value that is not stored."""
        cone = _at_same_pixel(f, self._made)
        inside = [self.of(g) for g in cone]
        self._making[f] = walk = Walk(
            sum([w.iterations for w in inside]),
            sum([w.functions + (g not in self._free) for g, w in zip(cone, inside, strict=True)]),
            sum([w.loops for w in inside]),
        )
        return walk


def with_fragments(f: Function, own: int) -> int:
    """Its own iterations, and of a draw those of every fragment."""
    if not isinstance(f, DrawFunction) or f.fragment is None:
        return own
    return own + sum(g.iterations for g in f.fragment.functions)


def unrolls(f: Function, made: Callable[[Function], bool]) -> TypeGuard[ReduceFunction]:
    """Whether the loop of a Function is unrolled: its texels are stored, or made of few Functions."""
    if not isinstance(f, ReduceFunction) or not f.unrolled or f.axis == "n" or f.extent < UNROLLED:
        return False  # tiles are few
    maker = f.inputs[0].creator
    cone = [] if maker is None or not made(maker) else _at_same_pixel(maker, made)
    return len(cone) <= LARGEST_UNROLLED and all(a is Access.SAME_PIXEL for g in cone for a in g.access)


def calls(f: Function, k: int) -> float:
    """Calls in the snippet of a Function that read input ``k``. One in a loop counts once."""
    reads = f.reads(k) if f.access[k] is Access.FETCH else 1.0
    return 1.0 if math.isinf(reads) else math.ceil(reads / max(f.iterations, 1))


def _at_same_pixel(f: Function, made: Callable[[Function], bool]) -> list[Function]:
    """The Function and those over the same pixels that are made again for it."""

    def makers(g: Function) -> list[Function]:
        return [maker for _, maker, _, near in g.edges if near and maker is not None and made(maker)]

    return list(reached([f], makers))
