"""Operands: fewer planes that several values follow from, so that shaders can store those and make the values again.

Of several values that other shaders read, all may follow by a little arithmetic from one of fewer planes, with what
these shaders read anyway: four texel numbers and four weights from a coordinate, the gradients by both ends of a blend
from that of the blend. (A value alone is a matter of ``rematerialization``, which does not look at what the readers
read besides.)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ....ad.graph import Function, PixelFunction, ReduceFunction, ScatterFunction, Variable
from ....ad.types import Access
from ..model.cost import fetches, operations, planes
from ..model.device import DeviceModel
from .rematerialization import LARGEST_CONE


class Cone(NamedTuple):
    """The Functions that make a value from an operand; from values that are at hand anyway if that is None."""

    operand: Variable | None
    functions: frozenset[Function]


def find_cones(
    value: Variable,
    inside: Callable[[Function], bool],
    known: Mapping[Variable, frozenset[Function]],
    position: Mapping[Function, int],
) -> list[Cone]:
    """Larger and larger cones of a value, made of Functions for which ``inside`` holds.

    known: values that the readers have anyway, with the Functions that make them.
    """
    found: list[Cone] = []
    functions: set[Function] = set()
    ends: set[Variable] = set()
    heap: list[tuple[int, Variable]] = []

    def end(x: Variable) -> None:
        ends.add(x)
        if x.creator is not None and x.creator in position:
            heapq.heappush(heap, (-position[x.creator], x))

    end(value)
    while heap and len(functions) <= LARGEST_CONE:
        x = heapq.heappop(heap)[1]  # users before their makers
        f = x.creator
        if f is None or not inside(f):
            continue
        ends.remove(x)
        functions.add(f)
        for y in f.inputs:
            if y in known:
                functions |= known[y]
            elif y not in ends and not is_constant(y):
                end(y)
        if not ends:
            return [*found, Cone(None, frozenset(functions))]
        if len(ends) == 1 and next(iter(ends)).domain == value.domain:
            found.append(Cone(next(iter(ends)), frozenset(functions)))
    return found


def is_constant(v: Variable) -> bool:
    """Whether a value is made of nothing, not even of the texel where it is."""
    return v.creator is not None and not v.creator.inputs and not v.creator.places


def works_at_pixel(f: Function) -> bool:
    """Whether a Function reads its inputs at its own pixel only, and reduces nothing. What divides an image is not made again:
    lists of blocks look at it."""
    plain = isinstance(f, PixelFunction) and not isinstance(f, ReduceFunction) and not f.divides
    return plain and all(a is Access.SAME_PIXEL for a in f.access)


def functions_of(cones: Iterable[Cone]) -> frozenset[Function]:
    """The Functions of several cones, each once."""
    return frozenset[Function]().union(*(cone.functions for cone in cones))


def operations_of(functions: Iterable[Function]) -> float:
    """Arithmetic operations of all these Functions at one texel."""
    return sum(operations(f) for f in functions)


Cones = dict[Variable, Cone]
"""Of values that have one operand."""


def best(
    values: Iterable[Variable],
    cones: Mapping[Variable, Sequence[Cone]],
    gain: Callable[[Variable | None, Cones], float],
) -> set[Function]:
    """The Functions to run again. Takes the operand that gains most, with all values that follow from it, until none gains."""
    left, chosen = dict.fromkeys(values), set[Function]()
    while left:
        groups: dict[Variable | None, Cones] = {}
        for v in left:
            for cone in cones[v]:
                if cone.operand is None:
                    groups.setdefault(v, {})[v] = cone  # each for itself
                else:
                    groups.setdefault(cone.operand, {})[v] = cone
        gains = []
        for operand, group in groups.items():
            source = None if operand in group else operand
            gains.append((gain(source, group), len(gains), source, group))
        gains = [entry for entry in gains if entry[0] > 0]
        if not gains:
            return chosen
        _, _, operand, group = max(gains, key=lambda entry: (entry[0], -entry[1]))
        for v, cone in group.items():
            chosen |= cone.functions
            del left[v]
        left.pop(operand, None)
    return chosen


def static_operands(
    functions: Sequence[Function],
    changing: AbstractSet[Function],
    kept: Iterable[Variable],
    fixed: AbstractSet[Variable],
    model: DeviceModel,
) -> set[Function]:
    """Static Functions that every step should run again, because the static values that it reads follow from fewer planes.

    functions: all of the program, producers first. changing: those that a step runs. kept: the static values that it
    reads. fixed: Variables that need images of their own."""
    position = {f: k for k, f in enumerate(functions)}
    kept = dict.fromkeys(kept)
    readable = {v: True for v in kept if v not in fixed and v.size != (1, 1)}
    for f in functions:
        if f in changing:
            for k, (x, access) in enumerate(zip(f.inputs, f.access, strict=True)):
                if x in readable and not _makes_again(f, k, access):
                    readable[x] = False
    values = [v for v, fine in readable.items() if fine]
    needed = {*fixed, *(v for v in kept if not readable.get(v))}

    def inside(f: Function) -> bool:
        return f not in changing and f.output not in needed and works_at_pixel(f)

    cones = {v: find_cones(v, inside, {}, position) for v in values}

    def gain(operand: Variable | None, group: Cones) -> float:
        again = functions_of(group.values())
        if any(f.output in kept and f.output not in group for f in again):
            return 0.0
        new = [] if operand is None or operand in kept else [operand]
        return model.fetch * (planes(group) - planes(new)) - operations_of(again)

    return best(values, cones, gain)


def _makes_again(f: Function, k: int, access: Access) -> bool:
    """Whether a Function can compute input ``k`` instead of reading it."""
    if isinstance(f, ScatterFunction):
        return k > 0
    if not isinstance(f, PixelFunction):
        return False
    return access is Access.SAME_PIXEL or (access is Access.FETCH and not math.isinf(fetches(f, k)))
