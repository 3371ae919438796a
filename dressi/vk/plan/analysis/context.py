"""What the lowerings and the passes of the compiler share."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ....ad.graph import Function, Variable
from ..core.limits import DeviceLimits
from ..core.lists import WorkList
from ..core.options import DEFAULT, PlanOptions
from ..core.substage import PrimitiveWork, SubStage
from ..model.device import DeviceModel
from ..model.records import CPU
from .dataflow import Analysis
from .dependencies import NO_LEAVES, Dependencies, Leaves, Updates
from .known_values import KnownValues


class Target(NamedTuple):
    """What a program is lowered for.  changing: leaves that are expected to be sent between steps."""

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
    dependencies: the leaves that a value depends on.  known: what Functions make of known values.  analysis: order and readers of Functions, and which of
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
    known: KnownValues
    analysis: Analysis
    uses: Uses

    @cached_property
    def fixed(self) -> frozenset[Variable]:
        """Variables with images of their own: roots, named outputs, updated leaves and their new values."""
        return frozenset((*self.roots, *self.named, *(v for pair in self.updates for v in pair)))

    @cached_property
    def unchanged(self) -> frozenset[Variable]:
        """Variables that no pass packs or narrows: fixed, given, read by draws, bounds of scatters."""
        unchanged = {*self.fixed, *self.given}
        for s in self.uses.sub_stages:
            if isinstance(s.work, PrimitiveWork):
                unchanged.update(r.variable for r in s.reads)
            if s.scatter is not None:
                unchanged.add(s.scatter.inputs[0])
        return frozenset(unchanged)

    def following(self, sub_stages: Iterable[SubStage]) -> Context:
        """The Context of the pass that gets these SubStages."""
        sub_stages = tuple(sub_stages)
        if sub_stages == self.uses.sub_stages:
            return self
        same = [s.functions for s in sub_stages] == [s.functions for s in self.uses.sub_stages]
        analysis = self.analysis if same else self.analysis.agreeing_with(sub_stages)
        return replace(self, uses=Uses(sub_stages), analysis=analysis)


class Uses:
    """Who makes, reads and overwrites what in a list of SubStages; numbers are positions in their list.

    maker: the SubStage that writes a Variable.  readers: the SubStages that read one, in the order of the
    list.  overwriter: the SubStage that writes a new value into the image of a leaf.  lister: the one that
    makes a list.
    """

    def __init__(self, sub_stages: Iterable[SubStage]):
        self.sub_stages = tuple(sub_stages)
        self.maker: dict[Variable, int] = {}
        self.readers: dict[Variable, list[int]] = {}
        self.overwriter: dict[Variable, int] = {}
        self.lister: dict[WorkList, int] = {}
        for k, s in enumerate(self.sub_stages):
            self.maker.update(dict.fromkeys(s.outputs, k))
            self.overwriter.update(dict.fromkeys(s.replaces.values(), k))
            if s.work.makes is not None:
                self.lister[s.work.makes] = k
            for read in s.reads:
                self.readers.setdefault(read.variable, []).append(k)

    @cached_property
    def later(self) -> list[set[int]]:
        """For each SubStage what must run later: readers, users of its list, who overwrites what it reads."""
        later: list[set[int]] = [set() for _ in self.sub_stages]
        for k, s in enumerate(self.sub_stages):
            for used in s.work.uses:
                if used in self.lister:
                    later[self.lister[used]].add(k)
        for v, readers in self.readers.items():
            maker, overwriter = self.maker.get(v), self.overwriter.get(v)
            if maker is not None:
                later[maker].update(readers)
            if overwriter is not None:
                for k in readers:
                    if k != overwriter:
                        later[k].add(overwriter)
        return later

    @cached_property
    def order(self) -> list[int]:
        """A topological order (Kahn) of the SubStages, without cycles and what waits for them."""
        waiting = [0] * len(self.sub_stages)
        for later in self.later:
            for n in later:
                waiting[n] += 1
        order = [k for k, n in enumerate(waiting) if n == 0]
        for k in order:
            for n in self.later[k]:
                waiting[n] -= 1
                if waiting[n] == 0:
                    order.append(n)
        return order

    @property
    def waits_for_itself(self) -> SubStage | None:
        """A SubStage of a cycle, or one that waits for it, if there is one: then no order of execution
        exists.

        Merging two SubStages, or adding a read to one, can make a cycle where leaves are overwritten: whoever
        reads a leaf must run before the SubStage that overwrites it, even if it has nothing else to do with
        that one.
        """
        ordered = set(self.order)
        return next((s for k, s in enumerate(self.sub_stages) if k not in ordered), None)

    @property
    def can_run(self) -> bool:
        """Whether an order of execution exists."""
        return len(self.order) == len(self.sub_stages)


def put_together(
    found: MutableSequence[SubStage | None], host: int, guest: int, together: SubStage, *, sure: bool = False
) -> bool:
    """Puts a SubStage that does the work of two into the place of the host, and takes the guest away, unless
    one of them then waits for itself. sure: whether that cannot be. Returns whether it was done."""
    before = found[host], found[guest]
    found[host], found[guest] = together, None
    if sure or Uses(s for s in found if s is not None).can_run:
        return True
    found[host], found[guest] = before
    return False
