"""What the lowerings and the passes of the compiler share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ...ad.graph import Function, Variable
from .analysis.dataflow import Analysis
from .analysis.dependencies import NO_LEAVES, Dependencies, Leaves, Updates
from .limits import DeviceLimits
from .model.device import DeviceModel
from .model.records import CPU
from .options import DEFAULT, PlanOptions
from .substage import PrimitiveWork, SubStage
from .uses import Uses


class Target(NamedTuple):
    """What a program is lowered for: a device, its model, and the options of a plan.  changing: leaves that
    are expected to be sent between steps."""

    limits: DeviceLimits
    model: DeviceModel = CPU
    options: PlanOptions = DEFAULT
    changing: Leaves = NO_LEAVES


@dataclass(frozen=True)
class Context:
    """What a pass may ask about the schedule it works on. Frozen: the driver makes the next one after every
    pass.

    functions: all of the program, producers first.  roots: the Variables that the schedule computes.  given:
    those that have values before it runs; leaves are not among them.  updates: pairs (leaf, new value) at its
    end.  named: outputs that a user reads by name, which need images of their own.  incremental: its Stages
    run again one by one when leaves are sent, so that SubStages that depend on different leaves must stay
    apart.  gated: the step is behind a gate, which cannot skip copies at its end.
    dependencies: the leaves that a value depends on.  analysis: order and readers of Functions, and which of
    them every reader computes again.  uses: the index of the SubStages that the next pass gets.
    """

    limits: DeviceLimits
    cost: DeviceModel
    options: PlanOptions
    functions: tuple[Function, ...]
    roots: tuple[Variable, ...]
    given: frozenset[Variable]
    updates: Updates
    named: frozenset[Variable]
    incremental: bool
    gated: bool
    dependencies: Dependencies
    analysis: Analysis
    uses: Uses

    @cached_property
    def fixed(self) -> frozenset[Variable]:
        """Variables with images of their own: roots, named outputs, updated leaves and their new values."""
        return frozenset((*self.roots, *self.named, *(v for pair in self.updates for v in pair)))

    @cached_property
    def unchanged(self) -> frozenset[Variable]:
        """Variables whose images no pass packs or narrows: the fixed and the given ones, what draws of
        primitives read, and the bounds of scatters."""
        found = {*self.fixed, *self.given}
        for s in self.uses.sub_stages:
            if isinstance(s.work, PrimitiveWork):
                found.update(r.variable for r in s.reads)
            if s.scatter is not None:
                found.add(s.scatter.inputs[0])
        return frozenset(found)

    def following(self, sub_stages: Iterable[SubStage]) -> Context:
        """The Context of the pass that gets these SubStages."""
        sub_stages = tuple(sub_stages)
        if sub_stages == self.uses.sub_stages:
            return self
        same = [s.functions for s in sub_stages] == [s.functions for s in self.uses.sub_stages]
        analysis = self.analysis if same else self.analysis.agreeing_with(sub_stages)
        return replace(self, uses=Uses(sub_stages), analysis=analysis)
