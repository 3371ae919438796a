"""The dataflow of a graph: order, readers, and which Functions every reader computes again."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import replace

from ....ad.graph import Domain, Function, ScatterFunction, Variable
from ....ad.graph.traversal import reached, topological_order
from ....ad.graph.types import Access
from ..core.substage import Binding, Compute, PixelWork, Read, SubStage, Work
from ..model.device import DeviceModel
from .known_values import under_draws
from .rematerialization import Inlined, Numbered, Recomputing

Stored = tuple[Variable, Access, int]
"""What a Function reads, how, and the number of the Function that makes it, -1 for none of the order."""


class Analysis:
    """Functions between ``given`` (Variables that have values already) and ``roots``.

    order: the Functions, producers first; position: their numbers in it.  packed: those whose values shaders
    store or hand on, each in one SubStage; the others are computed again wherever they are read.  recomputed:
    those that the cost model finds cheaper to compute again, at whatever texel a reader needs, than to store,
    and the ``trivial`` ones; not those in ``stored``.  inlined: constants, coordinates, and what is made of
    them.

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
    ):
        """cost: None where values are only computed again if they are inlined."""
        self.given = frozenset(given)
        self.roots = tuple(dict.fromkeys(roots))
        self.graph = Numbered(topological_order(self.roots, self.given))
        self.order, self.position = self.graph.functions, self.graph.number
        self.recomputed: frozenset[Function] = frozenset()
        self._latest: Analysis | None = None  # what was last derived from this one
        self._kept: frozenset[Function] = frozenset()
        self._choice: Recomputing | None = None
        self.inlined = Inlined(self.order, rematerialize)
        self._inlined = self.graph.flags(self.inlined.functions)
        self._direct = [self._beyond_inlined(k) for k in range(len(self.order))]
        self._find_stored()
        if cost is not None:
            sparse = under_draws(self.order, self.roots)
            self._choice = Recomputing(
                self.graph, self.packed, self.levels, trivial, self.inlined.at, cost, sparse
            )
            self._choose(frozenset(r.creator for r in self.roots if r.creator in self.position))

    def _choose(self, kept: frozenset[Function]) -> None:
        """Decides what is computed again, while these Functions are stored in any case."""
        assert self._choice is not None, "nothing is computed again"
        self._kept, self.recomputed = kept, frozenset(self._choice.chosen(kept))
        self._find_stored()

    def storing(self, functions: AbstractSet[Function]) -> Analysis:
        """The Analysis that stores these Functions, too, and decides anew what is computed again besides."""
        other = copy(self)
        other._latest = None
        other._choose(self._kept | functions)
        return other

    def agreeing_with(self, sub_stages: Iterable[SubStage]) -> Analysis:
        """The Analysis in which exactly the Functions of these SubStages are packed."""
        made = {f for s in sub_stages for f in s.functions}
        recomputed = (self.recomputed - made).union(f for f in self.packed if f not in made)
        if recomputed == self.recomputed:
            return self
        known = self._latest
        fits = known is not None and made.issuperset(known.packed) and made.isdisjoint(known.recomputed)
        return known if known is not None and fits else self.recomputing(recomputed)

    def recomputing(self, recomputed: frozenset[Function]) -> Analysis:
        """The Analysis that computes just these Functions again, wherever they are read."""
        other = copy(self)
        other.recomputed = recomputed
        other._find_stored()
        self._latest = other
        return other

    def stored_inputs(self, function: Function) -> list[Stored]:
        """What must lie in images for the Function: its inputs, or what they are recomputed from."""
        return self._stored_inputs[self.position[function]]

    def users(self, function: Function) -> list[Function]:
        """The packed Functions that read what a packed Function makes."""
        return self._users[self.position[function]]

    def _beyond_inlined(self, k: int) -> list[Stored]:
        """The inputs of a Function that its shader does not compute from nothing."""
        domain, at, same = self.graph.working[k], self.inlined.at, Access.SAME_PIXEL
        reads: dict[Stored, None] = {}
        for (x, function, access, _), maker in zip(self.order[k].edges, self.graph.makers[k], strict=True):
            if not (access is same and self._inlined[maker] and at(function, domain)):
                reads[x, access, maker] = None
        return list(reads)

    def _beyond_recomputed(self, k: int, again: bytearray) -> list[Stored]:
        """What a Function reads beyond the inputs that it recomputes."""
        reached: dict[Stored, None] = {}
        domain, same, pull = self.graph.working[k], Access.SAME_PIXEL, Access.PULL
        for read in self._direct[k]:
            x, access, maker = read
            if not again[maker]:
                reached[read] = None
                continue
            here = access if x.domain == domain else _elsewhere(access)
            for further in self._stored_inputs[maker]:
                if further[1] is same:
                    reached[further if here is same else (further[0], here, further[2])] = None
                elif here is not pull:
                    reached[further] = None
                else:
                    reached[further[0], pull, further[2]] = None
        return list(reached)

    def _find_stored(self) -> None:
        """``packed``: what must be packed; ``users``: of each, the packed readers; ``levels``: distance from
        the end in SubStages, +1 across every edge that cannot be fused."""
        graph, same = self.graph, Access.SAME_PIXEL
        again, wanted = graph.flags(self.recomputed), graph.flags(r.creator for r in self.roots)
        self._again = again
        self._stored_inputs = list(self._direct)
        for k, reads in enumerate(self._direct):
            for read in reads:
                if again[read[2]]:
                    self._stored_inputs[k] = self._beyond_recomputed(k, again)
                    break
        self._users: list[list[Function]] = [[] for _ in self.order]
        self.levels = levels = [0] * len(self.order)
        for k in range(len(self.order) - 1, -1, -1):
            if not wanted[k]:
                continue
            f, level, joins = self.order[k], levels[k], graph.working[k] if graph.joins[k] else None
            for x, access, maker in self._stored_inputs[k]:
                if maker < 0:
                    continue
                wanted[maker] = 1
                users = self._users[maker]
                if not users or users[-1] is not f:
                    users.append(f)
                fusable = access is same and graph.fusable[maker] and x.domain == joins
                levels[maker] = max(levels[maker], level if fusable else level + 1)
        self.packed = [f for f, needed in zip(self.order, wanted, strict=False) if needed]

    def body(self, functions: Iterable[Function], domain: Domain) -> tuple[Function, ...]:
        """The Functions and those recomputed for them at the same pixel over ``domain``, producers first."""
        functions_of_body: set[Function] = set()
        for f in functions:
            functions_of_body |= self.body_of(f, domain, functions_of_body)
        return tuple(sorted(functions_of_body, key=self.position.__getitem__))

    def body_of(self, function: Function, domain: Domain, known: AbstractSet[Function]) -> set[Function]:
        """The Function and those recomputed for it at the same pixel, but for the ``known`` ones."""
        order, position, again, at = self.order, self.position, self._again, self.inlined.at
        inlined, same_pixel = self._inlined, self.graph.same_pixel
        body: set[Function] = set()
        stack = [function]
        while stack:
            f = stack.pop()
            if f in body or f in known:
                continue
            body.add(f)
            for maker in same_pixel[position[f]]:
                g = order[maker]
                if (again[maker] and g.output.domain == domain) or (inlined[maker] and at(g, domain)):
                    stack.append(g)
        return body


def _elsewhere(how: Access) -> Access:
    """How something is fetched by what is read in the way ``how``."""
    return Access.PULL if how is Access.PULL else Access.FETCH


# Part of a SubStage as a SubStage of its own.


def restrict(
    s: SubStage,
    analysis: Analysis,
    outputs: tuple[Variable, ...],
    work: Work,
    given: AbstractSet[Variable] = frozenset(),
) -> SubStage:
    """What makes these outputs or inner values of a SubStage; ``given`` values are read from images."""
    functions = _makers(s, outputs, given)
    made = {f.output for f in functions}
    reads: dict[Variable, bool] = {}
    for f in functions:
        for x, access, _ in analysis.stored_inputs(f):
            if x not in made:
                reads[x] = reads.get(x, False) or access is not Access.SAME_PIXEL
        if isinstance(f, ScatterFunction):
            reads.update({x: True for x in f.inputs[:1] if x in reads})

    drawable = isinstance(work, PixelWork) and not isinstance(work, Compute)

    def binding(v: Variable) -> Binding:
        near = drawable and v.domain == s.domain and not reads[v]
        return Binding.ATTACHMENT if near else Binding.TEXTURE

    return replace(
        s,
        work=work,
        functions=functions,
        body=analysis.body(functions, s.domain),
        reads=tuple(Read(v, binding(v), reads[v]) for v in sorted(reads, key=lambda v: v.id)),
        outputs=outputs,
    )


def _makers(s: SubStage, outputs: Iterable[Variable], given: AbstractSet[Variable]) -> tuple[Function, ...]:
    inside = {*s.functions, *s.body}
    needed = reached(
        (v.creator for v in outputs),
        lambda f: [x.creator for x in f.inputs if x not in given] if f in inside else (),
    )
    return tuple(f for f in s.functions if f in needed)
