"""The dataflow of a graph: order, readers, and which Functions every reader computes again."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from copy import copy

from ....ad.graph import Domain, Function, PixelFunction, ScatterFunction, Variable
from ....ad.traversal import topological_order
from ....ad.types import Access
from ..model.device import DeviceModel
from ..substage import SubStage
from .rematerialization import Recomputing, under_draws
from .trivial import Inlined


class Analysis:
    """Functions between ``given`` (Variables that have values already) and ``roots``.

    order: the Functions, producers first; position: their numbers in it.  packed: those whose values shaders store or
    hand on, each in one SubStage; the others are computed again wherever they are read.  recomputed: those that the
    cost model finds cheaper to compute again, at whatever texel a reader needs, than to store, and the ``trivial``
    ones; not those in ``stored``.  inlined: constants, coordinates, and what is made of them.

    Frozen: ``storing`` and ``agreeing_with`` return another Analysis.
    """

    def __init__(
        self,
        roots: Iterable[Variable],
        given: Iterable[Variable] = (),
        *,
        rematerialize: bool = True,
        cost: DeviceModel | None = None,
        trivial: AbstractSet[Function] = frozenset(),
        stored: AbstractSet[Function] = frozenset(),
    ):
        """cost: None where values are only computed again if they are inlined."""
        self._again = {"rematerialize": rematerialize, "cost": cost, "trivial": trivial}
        self._stored = stored
        self.given = frozenset(given)
        self.roots = tuple(dict.fromkeys(roots))
        self.order = [f for f in topological_order(self.roots) if f.output not in self.given]
        if self.given:
            self.order = self._needed()
        self.position = {f: k for k, f in enumerate(self.order)}
        self.recomputed: frozenset[Function] = frozenset()
        self._latest: Analysis | None = None  # what was last derived from this one
        self.inlined = Inlined(self.order, rematerialize)
        self._find_stored()
        if cost is not None:
            kept = [*stored, *(r.creator for r in self.roots if r.creator in self.position)]
            sparse = under_draws(self.order, self.roots)
            choice = Recomputing(self.packed, self.levels, kept, trivial, self.inlined.at, cost, sparse)
            self.recomputed = frozenset(choice.run())
            if self.recomputed:
                self._find_stored()

    def storing(self, functions: AbstractSet[Function]) -> Analysis:
        """The Analysis that stores these Functions, too, and decides anew what is computed again besides."""
        return Analysis(self.roots, self.given, stored=self._stored | functions, **self._again)

    def agreeing_with(self, sub_stages: Iterable[SubStage]) -> Analysis:
        """The Analysis in which exactly the Functions of these SubStages are packed."""
        made = {f for s in sub_stages for f in s.functions}
        recomputed = (self.recomputed - made).union(f for f in self.packed if f not in made)
        if recomputed == self.recomputed:
            return self
        known = self._latest
        fits = known is not None and made.issuperset(known.packed) and made.isdisjoint(known.recomputed)
        return known if known is not None and fits else self._with(recomputed)

    def recomputing(self, functions: Iterable[Function]) -> Analysis:
        """The Analysis that computes these Functions again as well, wherever they are read."""
        return self._with(self.recomputed.union(functions))

    def recomputing_less(self, functions: AbstractSet[Function]) -> Analysis:
        """The Analysis that stores these Functions and computes all others again as before."""
        return self._with(self.recomputed - functions)

    def _with(self, recomputed: frozenset[Function]) -> Analysis:
        other = copy(self)
        other.recomputed = recomputed
        other._find_stored()
        self._latest = other
        return other

    def _needed(self) -> list[Function]:
        needed: set[Function] = set()
        stack = [r.creator for r in self.roots if r.creator and r not in self.given]
        while stack:
            function = stack.pop()
            if function in needed:
                continue
            needed.add(function)
            stack.extend(x.creator for x in function.inputs if x.creator and x not in self.given)
        return [f for f in self.order if f in needed]

    def stored_inputs(self, function: Function) -> list[tuple[Variable, Access]]:
        """What must lie in images for the Function: its inputs, or what they are recomputed from; with accesses."""
        found = self._stored_inputs.get(function)
        if found is None:
            found = self._stored_inputs[function] = self._reads(function)
        return found

    def _reads(self, function: Function) -> list[tuple[Variable, Access]]:
        """What a Function reads beyond the inputs that it recomputes."""
        reached: dict[tuple[Variable, Access], None] = {}
        recomputed, inlined, same = self.recomputed, self.inlined, Access.SAME_PIXEL
        for x, maker, access, near in function.edges:
            if access is same and maker in inlined.functions and inlined.at(maker, function.working_domain):
                continue
            if maker not in recomputed:
                reached[x, access] = None
                continue
            here = access if near or x.domain == function.working_domain else _elsewhere(access, Access.FETCH)
            for v, how in self._stored_inputs[maker]:
                reached[v, here if how is same else _elsewhere(here, how)] = None
        return list(reached)

    def _find_stored(self) -> None:
        """``packed``: the Functions that must be packed; ``users``: of each, the packed consumers; ``levels``: distance
        from the end in SubStages, 0 for what nothing reads, +1 across every edge that cannot be fused."""
        self._stored_inputs: dict[Function, list[tuple[Variable, Access]]] = {}
        for f in self.order:
            if f in self.recomputed:
                self._stored_inputs[f] = self._reads(f)
        wanted: set[Function] = {r.creator for r in self.roots if r.creator in self.position}
        self.users: dict[Function, list[Function]] = {f: [] for f in self.order}
        self.levels = dict.fromkeys(self.order, 0)
        for f in reversed(self.order):
            if f not in wanted:
                continue
            level = self.levels[f]
            joins = f.working_domain if isinstance(f, (PixelFunction, ScatterFunction)) else None
            for x, access in self.stored_inputs(f):
                maker = x.creator
                if maker not in self.position:
                    continue
                wanted.add(maker)
                users = self.users[maker]
                if not users or users[-1] is not f:
                    users.append(f)
                same = access is Access.SAME_PIXEL and x.domain == joins
                fusable = same and isinstance(maker, PixelFunction) and maker.quiet is None
                self.levels[maker] = max(self.levels[maker], level if fusable else level + 1)
        self.packed = [f for f in self.order if f in wanted]

    def body(self, functions: Iterable[Function], domain: Domain) -> tuple[Function, ...]:
        """The Functions and those recomputed for them at the same pixel over ``domain``, producers first."""
        found: set[Function] = set()
        for f in functions:
            found |= self.body_of(f, domain, found)
        return tuple(sorted(found, key=self.position.__getitem__))

    def body_of(self, function: Function, domain: Domain, known: AbstractSet[Function]) -> set[Function]:
        """The Function and those recomputed for it at the same pixel over ``domain``, but for the ``known`` ones."""
        found: set[Function] = set()
        recomputed, inlined, same = self.recomputed, self.inlined, Access.SAME_PIXEL
        stack = [function]
        while stack:
            f = stack.pop()
            if f in found or f in known:
                continue
            found.add(f)
            for _, maker, access, _ in f.edges:
                if access is same and (
                    (maker in recomputed and maker.output.domain == domain)
                    or (maker in inlined.functions and inlined.at(maker, domain))
                ):
                    stack.append(maker)
        return found


def _elsewhere(how: Access, access: Access) -> Access:
    """How something is read that is read in the way ``access`` by somebody who is made in the way ``how``."""
    return Access.PULL if how is Access.PULL or access is Access.PULL else Access.FETCH
