"""Stored is what values are made of, where that is less: the planes between shaders are what a step moves.

Of several values that other shaders read, all may follow by a little arithmetic from one of fewer planes, with what
these shaders read anyway: four texel numbers and four weights from a coordinate, the gradients by both ends of a blend
from that of the blend. That one, their *operand*, is stored then, and whoever reads them makes them again. (A value alone is
a matter of ``recompute``, which does not look at what the readers read besides.)
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from ....ad.graph import Function, PixelFunction, ReduceFunction, ScatterFunction, Variable
from ....ad.types import Access
from ..analysis.dataflow import Analysis
from ..analysis.rematerialization import LARGEST_CONE
from ..cost import CostModel, fetches, operations, planes
from ..limits import DeviceLimits
from ..substage import Mode, SubStage
from .fission import only

_SHADERS = (Mode.FRAGMENT, Mode.COMPUTE, Mode.SCATTER)


@dataclass(frozen=True)
class _Cone:
    """Functions by which a value follows from an operand, None where it follows from what is there."""

    operand: Variable | None
    functions: frozenset[Function]


def _cones(
    value: Variable,
    inside: Callable[[Function], bool],
    known: Mapping[Variable, frozenset[Function]],
    position: Mapping[Function, int],
) -> list[_Cone]:
    """Of a value, larger and larger ones, through Functions ``inside``: those that work at a pixel alone.

    known: what the readers have anyway, or make of that by some Functions.
    """
    found: list[_Cone] = []
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
            elif y not in ends and not _is_constant(y):
                end(y)
        if not ends:
            return [*found, _Cone(None, frozenset(functions))]
        if len(ends) == 1 and next(iter(ends)).domain == value.domain:
            found.append(_Cone(next(iter(ends)), frozenset(functions)))
    return found


def _is_constant(v: Variable) -> bool:
    return v.creator is not None and not v.creator.inputs and not v.creator.places


def _works_alone(f: Function) -> bool:
    plain = isinstance(f, PixelFunction) and not isinstance(f, ReduceFunction)
    return plain and all(a is Access.SAME_PIXEL for a in f.access)


def _functions(cones: Iterable[_Cone]) -> frozenset[Function]:
    return frozenset[Function]().union(*(cone.functions for cone in cones))


def _work(functions: Iterable[Function]) -> float:
    return sum(operations(f) for f in functions)


Cones = dict[Variable, _Cone]
"""Of values that have one operand."""


def _best(
    values: Iterable[Variable],
    cones: Mapping[Variable, Sequence[_Cone]],
    gain: Callable[[Variable | None, Cones], float],
) -> set[Function]:
    """Functions to make again: of operands with their values, one after the other, those that gain most."""
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


def kept_operands(
    functions: Sequence[Function],
    changing: AbstractSet[Function],
    kept: Iterable[Variable],
    fixed: AbstractSet[Variable],
    model: CostModel,
) -> set[Function]:
    """Functions (of all, producers first) that every step had better do again, of what it reads of values that do not
    change: ``kept`` is less by that. fixed: Variables that need images of their own."""
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
        return f not in changing and f.output not in needed and _works_alone(f)

    cones = {v: _cones(v, inside, {}, position) for v in values}

    def gain(operand: Variable | None, group: Cones) -> float:
        again = _functions(group.values())
        if any(f.output in kept and f.output not in group for f in again):
            return 0.0
        new = [] if operand is None or operand in kept else [operand]
        return model.fetch * (planes(group) - planes(new)) - _work(again)

    return _best(values, cones, gain)


def _makes_again(f: Function, k: int, access: Access) -> bool:
    """Whether a Function can read input ``k`` where that is made again."""
    if isinstance(f, ScatterFunction):
        return k > 0
    if not isinstance(f, PixelFunction):
        return False
    return access is Access.SAME_PIXEL or (access is Access.FETCH and not math.isinf(fetches(f, k)))


def store_operands(
    sub_stages: Sequence[SubStage],
    analysis: Analysis,
    fixed: AbstractSet[Variable],
    limits: DeviceLimits,
    model: CostModel,
) -> list[SubStage]:
    """The SubStages with fewer planes between them; ``analysis`` knows what they recompute then. fixed: Variables that
    need images of their own, and leaves that are overwritten."""
    choice = _Between(sub_stages, analysis, fixed, model)
    chosen = set[Function]()
    for s in sub_stages:
        chosen |= choice.of(s)
    if not chosen:
        return list(sub_stages)
    before = analysis.recomputed
    analysis.recompute_also(chosen)
    found = [_again(s, analysis, chosen) for s in sub_stages]
    found = [s for s in found if s.outputs]
    if any(limits.violation(s) is not None for s in found):
        analysis.recomputed = before
        analysis.recompute_also(())
        return list(sub_stages)
    return found


class _Between:
    """What SubStages hand to each other."""

    def __init__(
        self,
        sub_stages: Sequence[SubStage],
        analysis: Analysis,
        fixed: AbstractSet[Variable],
        model: CostModel,
    ):
        self.analysis, self.model = analysis, model
        self.readers: dict[Variable, list[SubStage]] = {}
        self.reads = {s: {r.variable: r for r in s.reads} for s in sub_stages}
        self.fixed = set(fixed)
        for s in sub_stages:
            for v in self.reads[s]:
                self.readers.setdefault(v, []).append(s)
            for f in s.functions:
                for x, access in analysis.stored_inputs(f):
                    if s.mode not in _SHADERS or access not in (Access.SAME_PIXEL, Access.FETCH):
                        self.fixed.add(x)
            if s.scatter is not None:
                self.fixed.add(s.scatter.inputs[0])

    def of(self, s: SubStage) -> set[Function]:
        """The Functions of a SubStage that its readers had better do."""
        if s.mode not in _SHADERS:
            return set()
        values = [
            v
            for v in s.outputs
            if v not in self.fixed and v in self.readers and v.domain == s.domain and v.size != (1, 1)
        ]
        inside = dict.fromkeys(f for f in s.body if _works_alone(f) and f.output not in self.fixed)
        known: dict[frozenset[Variable], dict[Variable, frozenset[Function]]] = {}
        cones: dict[Variable, list[_Cone]] = {}
        for v in values:
            common = self._common(v)
            if common not in known:
                known[common] = _following(common, inside)
            cones[v] = _cones(v, inside.__contains__, known[common], self.analysis.position)
        stored = {*self.reads[s], *(f.output for f in s.functions)} - self.fixed
        cones = {
            v: [c for c in found if c.operand is None or c.operand in stored] for v, found in cones.items()
        }
        if not any(cones.values()):
            return set()

        def gain(operand: Variable | None, group: Cones) -> float:
            new = [] if operand is None else [operand]
            if any(f.output in self.readers and f.output not in group for f in _functions(group.values())):
                return 0.0
            made = [x for x in new if x.creator in s.functions and x not in s.outputs]
            stores = planes(group) - planes(made)
            total = self.model.store * stores
            readers = dict.fromkeys(r for v in group for r in self.readers[v])
            for r in readers:
                mine = [v for v in group if v in self.reads[r]]
                again = _functions(group[v] for v in mine)
                less = planes(mine) - planes(x for x in new if x not in self.reads[r])
                total += self.model.fetch * less - _work(again)
            return total if stores > 0 else 0.0

        return _best(values, cones, gain)

    def _common(self, v: Variable) -> frozenset[Variable]:
        """What all readers of a value read, wherever they read that."""
        common: set[Variable] | None = None
        for s in self.readers[v]:
            elsewhere = self.reads[s][v].elsewhere
            near = {x for x, r in self.reads[s].items() if r.elsewhere or not elsewhere or x.size == (1, 1)}
            common = near if common is None else common & near
        return frozenset(common or ())


def _following(
    common: Iterable[Variable], functions: Iterable[Function]
) -> dict[Variable, frozenset[Function]]:
    """The Variables, and what follows from them by Functions (producers first) that work at a pixel alone."""
    known = dict.fromkeys(common, frozenset[Function]())
    for f in functions:
        if f.output not in known and all(x in known or _is_constant(x) for x in f.inputs):
            needed = frozenset((f,)).union(*(known[x] for x in f.inputs if x in known))
            if len(needed) <= LARGEST_CONE:
                known[f.output] = needed
    return known


def _again(s: SubStage, analysis: Analysis, chosen: AbstractSet[Function]) -> SubStage:
    """The SubStage with what it has to read and to write now."""
    functions = tuple(f for f in s.functions if f not in chosen)
    inside = set(functions)
    outputs = [
        f.output
        for f in functions
        if f.output in analysis.roots or any(u not in inside for u in analysis.users[f])
    ]
    outputs = tuple(sorted(outputs, key=lambda v: v.id))
    if outputs == s.outputs and chosen.isdisjoint(r.variable.creator for r in s.reads if r.variable.creator):
        return s
    return only(replace(s, functions=functions), analysis, outputs, s.mode)
