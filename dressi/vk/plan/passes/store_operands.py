"""Min-cut rematerialization: a SubStage stores the operands of values where these need fewer planes.

The planes that shaders hand to each other are what a step moves. Whoever reads the values makes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ....ad.graph import Function, Variable
from ....ad.graph.types import Access
from ..analysis import rematerialization
from ..analysis.context import Context
from ..analysis.dataflow import Analysis, restrict
from ..core.substage import PixelWork, Scatter, SubStage
from ..model.device import Walks, planes

_SHADERS = (PixelWork, Scatter)


def store_operands(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with fewer planes between them."""
    if not context.options.rematerialize:
        return list(sub_stages)
    choice = _Between(sub_stages, context)
    chosen = set[Function]()
    for s in sub_stages:
        chosen |= choice.of(s)
    if not chosen:
        return list(sub_stages)
    analysis = context.analysis.recomputing(context.analysis.recomputed | chosen)
    result = [_again(s, analysis, chosen) for s in sub_stages]
    result = [s for s in result if s.outputs]
    walks = Walks(analysis.recomputed.__contains__)
    too_large = any(
        context.limits.violation(s) is not None
        or sum(walks.of(f).functions for f in s.body) > rematerialization.LARGEST_CALLS
        for s in result
    )
    return list(sub_stages) if too_large else result


class _Between:
    """The values that SubStages hand to each other."""

    def __init__(self, sub_stages: Sequence[SubStage], context: Context):
        self.analysis, self.model = context.analysis, context.cost
        self.readers = {v: [sub_stages[k] for k in numbers] for v, numbers in context.uses.readers.items()}
        self.reads = {s: {r.variable: r for r in s.reads} for s in sub_stages}
        self._near: dict[tuple[SubStage, bool], frozenset[Variable]] = {}
        self.fixed = set(context.fixed)
        self.fixed.update(x for f in self.analysis.order if f.stores_inputs for x in f.inputs)
        for s in sub_stages:
            for f in s.functions:
                for x, access, _ in self.analysis.stored_inputs(f):
                    if not isinstance(s.work, _SHADERS) or access not in (Access.SAME_PIXEL, Access.FETCH):
                        self.fixed.add(x)
            if s.scatter is not None:
                self.fixed.add(s.scatter.inputs[0])

    def of(self, s: SubStage) -> set[Function]:
        """The Functions of a SubStage that its readers should run instead."""
        if not isinstance(s.work, _SHADERS):
            return set()
        values = [
            v
            for v in s.outputs
            if v not in self.fixed and v in self.readers and v.domain == s.domain and v.size != (1, 1)
        ]
        inside = {
            f: frozenset(x for x in f.inputs if not rematerialization.is_constant(x))
            for f in (s.body if values else ())
            if rematerialization.works_at_pixel(f) and f.output not in self.fixed
        }
        known: dict[frozenset[Variable], dict[Variable, frozenset[Function]]] = {}
        cones: dict[Variable, list[rematerialization.Cone]] = {}
        for v in values:
            common = self._common(v)
            if common not in known:
                known[common] = _following(common, inside)
            cones[v] = rematerialization.find_cones(
                v, inside.__contains__, known[common], self.analysis.position
            )
        stored = {*self.reads[s], *(f.output for f in s.functions)} - self.fixed
        cones = {
            v: [c for c in found if c.operand is None or c.operand in stored] for v, found in cones.items()
        }
        if not any(cones.values()):
            return set()

        def gain(operand: Variable | None, group: rematerialization.Cones) -> float:
            new = [] if operand is None else [operand]
            if any(
                f.output in self.readers and f.output not in group
                for f in rematerialization.functions_of(group.values())
            ):
                return 0.0
            made = [x for x in new if x.creator in s.functions and x not in s.outputs]
            stores = planes(group) - planes(made)
            total = self.model.store * stores
            readers = dict.fromkeys(r for v in group for r in self.readers[v])
            for r in readers:
                mine = [v for v in group if v in self.reads[r]]
                again = rematerialization.functions_of(group[v] for v in mine)
                less = planes(mine) - planes(x for x in new if x not in self.reads[r])
                total += self.model.fetch * less - rematerialization.operations_of(again)
            return total if stores > 0 else 0.0

        return rematerialization.best(values, cones, gain)

    def _common(self, v: Variable) -> frozenset[Variable]:
        """The Variables that all readers of a value read, at every texel where they read the value."""
        first, *others = (self._read_with(s, self.reads[s][v].elsewhere) for s in self.readers[v])
        return first.intersection(*others)

    def _read_with(self, s: SubStage, elsewhere: bool) -> frozenset[Variable]:
        """The Variables that a SubStage reads wherever it reads a value, at other texels or not."""
        if (s, elsewhere) not in self._near:
            own = self.reads[s].items()
            near = {x for x, r in own if r.elsewhere or not elsewhere or x.size == (1, 1)}
            self._near[s, elsewhere] = frozenset(near)
        return self._near[s, elsewhere]


def _following(
    common: Iterable[Variable], functions: Mapping[Function, frozenset[Variable]]
) -> dict[Variable, frozenset[Function]]:
    """The Variables, and all values that Functions at the same pixel (producers first) make of them and of
    constants.  functions: with their inputs that are no constants."""
    known = dict.fromkeys(common, frozenset[Function]())
    for f, inputs in functions.items():
        if inputs <= known.keys() and f.output not in known:
            needed = frozenset((f,)).union(*(known[x] for x in f.inputs if x in known))
            if len(needed) <= rematerialization.LARGEST_CONE:
                known[f.output] = needed
    return known


def _again(s: SubStage, analysis: Analysis, chosen: AbstractSet[Function]) -> SubStage:
    """The SubStage with its new reads and outputs, after the chosen Functions moved to their readers."""
    functions = tuple(f for f in s.functions if f not in chosen)
    inside, roots = set(functions), set(analysis.roots)
    outputs = [
        f.output for f in functions if f.output in roots or any(u not in inside for u in analysis.users(f))
    ]
    outputs = tuple(sorted(outputs, key=lambda v: v.id))
    if outputs == s.outputs and chosen.isdisjoint(r.variable.creator for r in s.reads if r.variable.creator):
        return s
    return restrict(replace(s, functions=functions), analysis, outputs, s.work)
