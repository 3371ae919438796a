"""Rematerialization: which values every reader computes again instead of fetching them from an image.

A value that another shader reads is either stored, or computed again by that shader, at its own pixel or at any texel
that it fetches. The reader then runs the *cone* of the value: the Functions over the same pixels that it is made of. It
fetches the inputs of the cone. This pays if the cone is small or seldom evaluated, and most of all if it saves a whole
pass: passes over lists of vertices or over single texels cost far more than their arithmetic. A cone ends at values
that others need as well, unless these are cheap.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ....ad.graph import (
    Domain,
    DrawFunction,
    Function,
    PixelFunction,
    ScatterFunction,
    Variable,
)
from ....ad.types import Access
from ..lists import LISTED
from ..model.cost import fetches, operations
from ..model.device import DeviceModel
from ..model.walks import calls, iterations
from .numbered import Numbered

LARGEST_BODY = 128
"""Functions that one value is computed again from, through cones that begin where others end."""

LARGEST_CALL = 96
"""Functions that drivers compile for one call of a value that is computed again at another texel, the calls in it
included. These multiply along a chain of such values."""

LARGEST_CALLS = 160
"""The most Functions in all calls of a shader. Drivers inline calls: SwiftShader ends the process where these need too much
stack, which it did from about 500 on. The shaders of fits have up to 110."""

LARGEST_CONE = 48
"""Functions of a cone that is recomputed; more make shaders that take long to compile. Those that all views share count, too,
so that one view and many are planned alike."""


LONGEST_LOOP = 8192
"""Loop iterations of one value, times how often an invocation asks for it, up to which it is recomputed: nested loops
multiply, and drivers end what runs too long."""


class _Input(NamedTuple):
    """What a Function that can be computed again reads.  maker: of it, by number (-1: an image).  texels: those of one tile where a
    loop runs over tiles.  repeats: evaluations that one invocation asks for.  joins: whether its maker joins the cone, unless that
    is stored.  shared: whether it would, were it not the same for all views.  cost: operations of fetching it."""

    maker: int
    texels: float = 1.0
    repeats: float = 1.0
    joins: bool = False
    shared: bool = False
    cost: float = 0.0


class _Cone(NamedTuple):
    """functions: what is computed again.  cost: operations of one evaluation.  reads: of other Functions.  size: of the cone of
    one view."""

    functions: dict[int, None]
    cost: float
    reads: list[_Input]
    size: int


class Recomputing:
    """Finds the Functions of a graph that readers compute again, among ``packed`` (producers first).

    levels: distance from the end in passes, if everything were stored.  trivial: those that are recomputed wherever they can
    be.  constant: whether a Function costs nothing at a domain.  sparse: what is only needed ``under_draws``.
    """

    def __init__(
        self,
        graph: Numbered,
        packed: Sequence[Function],
        levels: Sequence[int],
        trivial: AbstractSet[Function],
        constant: Callable[[Function | None, Domain], bool],
        model: DeviceModel,
        sparse: AbstractSet[Function] = frozenset(),
    ):
        self.graph, self.levels, self.constant, self.model = graph, levels, constant, model
        self.order = [graph.number[f] for f in packed]
        self.packed = graph.flags(packed)
        self.users: list[list[int]] = [[] for _ in graph.functions]
        for k in self.order:
            for maker in dict.fromkeys(graph.makers[k]):
                if self.packed[maker]:
                    self.users[maker].append(k)
        self.stored = graph.flags(x.creator for f in packed if f.stores_inputs for x in f.inputs)
        hints = [f for f in packed if f.recomputes_inputs]
        self.trivial = graph.flags((*trivial, *hints, *(x.creator for f in hints for x in f.inputs)))
        self.sparse = graph.flags(sparse)
        self.most = min(LONGEST_LOOP, model.longest_walk)
        able = (f for f in packed if recomputable(f))
        self.operations = {graph.number[f]: operations(f) for f in able}
        self.loops = {k: iterations(graph.functions[k], self.most) for k in self.operations}
        self.inputs = {k: self._inputs(k) for k in self.operations}

    def chosen(self, kept: Iterable[Function]) -> set[Function]:
        """The Functions that consumers recompute. kept: Functions whose images are needed in any case."""
        n = len(self.graph.functions)
        stored = [a or b for a, b in zip(self.stored, self.graph.flags(kept), strict=True)]
        self.clonable = bytearray(n + 1)
        for k in self.operations:
            self.clonable[k] = not stored[k]
        self.small = self._small()
        self.near = bytearray(n)  # what shares a shader with a user
        self.under = bytearray(n)  # what would, were the user not one of the sparse
        self.far = [0.0] * n  # evaluations wanted by other passes, one after the other
        self.repeats = [0.0] * n  # the most that one invocation wants
        self.cones: dict[int, _Cone] = {}
        chosen = bytearray(n + 1)
        for k in reversed(self.order):
            evaluations = self.far[k]
            if chosen[k]:
                self._fetch(k, evaluations)
            elif evaluations and self._pays(k, evaluations):
                for maker in self._cone(k).functions:
                    chosen[maker] = 1
                self._fetch(k, evaluations)
            else:
                self._consume(k)
        return {self.graph.functions[k] for k in self._bounded(chosen)}

    def _bounded(self, chosen: bytearray) -> dict[int, frozenset[int]]:
        """Those of the chosen Functions with which no shader gets more than ``LARGEST_BODY``, and no call more than
        ``LARGEST_CALL``: a cone ends at values that may be computed again themselves, and so on."""
        behind: dict[int, frozenset[int]] = {}
        called = [0.0] * len(self.graph.functions)  # Functions in the calls of a Function
        for k in self.order:
            near, far = self._made_again(k, behind)
            called[k] = sum(count * sum(1.0 + called[g] for g in behind[maker]) for maker, count in far)
            found = frozenset((k,)).union(*(behind[maker] for maker in near))
            total = sum([called[g] for g in found])
            if chosen[k]:
                if len(found) <= LARGEST_BODY and len(found) + total <= LARGEST_CALL:
                    behind[k] = found
            elif total > LARGEST_CALLS:
                # It would not fit into a shader of its own.
                for maker in (*near, *(maker for maker, _ in far)):
                    behind.pop(maker, None)
                called[k] = 0.0
        return behind

    def _made_again(self, k: int, again: Container[int]) -> tuple[list[int], list[tuple[int, float]]]:
        """The makers of inputs that a Function computes again: at its own pixel, and in how many calls at others."""
        near: list[int] = []
        far: list[tuple[int, float]] = []
        f = self.graph.functions[k]
        for i, maker in enumerate(self.graph.makers[k]):
            if maker in again:
                if f.edges[i].near:
                    near.append(maker)
                else:
                    far.append((maker, calls(f, i)))
        return near, far

    # ---- the decision
    def _pays(self, k: int, evaluations: float) -> bool:
        """Whether a value is computed again, rather than stored, that others want so many times."""
        if not self.clonable[k] or math.isinf(evaluations):
            return False
        cone, cost, reads, size = self._cone(k)
        loops = sum(self.loops[g] for g in cone)
        if loops and loops * self.repeats[k] > self.most:
            return False
        if self.trivial[k]:
            return True
        if size > LARGEST_CONE or math.isinf(cost):
            return False
        planes = self._planes(k)
        rounds = self._rounds(k)
        stored = rounds * planes * self.model.store
        if not self._shares_shader(k, reads):
            stored += rounds * cost + self.model.stage
        return evaluations * (cost - planes * self.model.fetch) <= stored

    def _shares_shader(self, k: int, reads: Iterable[_Input]) -> bool:
        """Whether a shader would make the value beside others: with a user; or, where only sparse users are near, with a maker
        that is too dear to be computed again."""
        if self.near[k] or not self.under[k]:
            return bool(self.near[k])
        least, working = self.model.fetch + self.model.store, self.graph.working
        makers = (r.maker for r in reads if self.clonable[r.maker] and working[r.maker] == working[k])
        return any(self._cone(g).cost > least * self._planes(g) for g in makers)

    def _planes(self, k: int) -> int:
        return len(self.graph.functions[k].output.vtype.planes)

    def _rounds(self, k: int) -> int:
        return self.model.rounds(self.graph.working[k].area)

    def _inputs(self, k: int) -> list[_Input]:
        """The inputs of a Function that cost something."""
        found, f = [], self.graph.functions[k]
        for i, ((x, made, access, near), maker) in enumerate(zip(f.edges, self.graph.makers[k], strict=True)):
            if access is Access.SAME_PIXEL and self.constant(made, f.output.domain):
                continue
            count = 1.0 if access is Access.SAME_PIXEL else fetches(f, i)
            cost = count * self.model.fetch * len(x.vtype.planes)
            able = maker in self.operations
            shared = able and not near and access is Access.SAME_PIXEL and x.size == f.working_domain.size
            number, repeats = maker if self.packed[maker] else -1, self._repeats(f, i, access)
            found.append(_Input(number, count, repeats, near and able, shared, cost))
        return found

    def _small(self) -> bytearray:
        """The Functions whose values take less than a stage, with everything over the same pixels that makes them."""
        chain: dict[int, float] = {}
        small = bytearray(len(self.graph.functions))
        for k, total in self.operations.items():
            if self.clonable[k]:
                for i in self.inputs[k]:
                    total += chain[i.maker] if i.joins and self.clonable[i.maker] else self.model.fetch
                chain[k] = total
                small[k] = self._rounds(k) * total <= self.model.stage
        return small

    def _cone(self, k: int) -> _Cone:
        if k in self.cones:
            return self.cones[k]
        found: dict[int, None] = {}
        reads: list[_Input] = []
        cost, clonable = 0.0, self.clonable
        heap, queued = [-k], {k}
        while heap and len(found) <= LARGEST_CONE:  # users before their makers
            g = -heapq.heappop(heap)
            if g != k and not self.small[g] and not all(map(found.__contains__, self.users[g])):
                cost += self.model.fetch * self._planes(g)
                reads.append(_Input(g))
                continue
            found[g] = None
            cost += self.operations[g]
            for i in self.inputs[g]:
                maker = i.maker
                if not (i.joins and clonable[maker]):
                    cost += i.cost
                    if maker >= 0:
                        reads.append(i)
                elif maker not in queued:
                    queued.add(maker)
                    heapq.heappush(heap, -maker)
        self.cones[k] = _Cone(found, cost, reads, self._size(found))
        return self.cones[k]

    def _size(self, cone: Iterable[int]) -> int:
        """The Functions of a cone, and of those that all views share the ones that would be among them for one view."""
        found = set(cone)
        heap = list({-i.maker for g in found for i in self.inputs[g] if i.shared})
        heapq.heapify(heap)
        queued = set(heap)
        while heap and len(found) <= LARGEST_CONE:
            g = -heapq.heappop(heap)
            ends = not self.small[g] and not found.issuperset(self.users[g])
            if not self.clonable[g] or ends:
                continue
            found.add(g)
            more = {-i.maker for i in self.inputs[g] if i.joins or i.shared} - queued
            queued |= more
            for maker in more:
                heapq.heappush(heap, maker)
        return len(found)

    # ---- who evaluates what how often
    def _fetch(self, k: int, evaluations: float) -> None:
        for i in self._cone(k).reads:
            self.far[i.maker] += evaluations * i.texels
            self.repeats[i.maker] = max(self.repeats[i.maker], self.repeats[k] * i.repeats)

    def _consume(self, k: int) -> None:
        """A Function that is packed reads its inputs."""
        f, graph = self.graph.functions[k], self.graph
        for i, ((x, _, access, near), maker) in enumerate(zip(f.edges, graph.makers[k], strict=True)):
            if not self.packed[maker]:
                continue
            near = near and graph.fusable[maker] and graph.joins[k] and self.levels[maker] == self.levels[k]
            if near and (not self.sparse[k] or self.sparse[maker]):
                self.near[maker] = 1
            else:
                self.under[maker] |= near
                self.far[maker] += self._evaluations(f, i, x, access)
                self.repeats[maker] = max(self.repeats[maker], self._repeats(f, i, access))

    def _repeats(self, f: Function, k: int, access: Access) -> float:
        """How often one invocation of a packed Function asks for input ``k``."""
        if isinstance(f, DrawFunction):
            functions = f.fragment.functions if f.fragment is not None else ()
            return max([1.0, *(float(g.iterations) for g in functions)])
        return max(fetches(f, k), iterations(f, self.most)) if access is Access.FETCH else 1.0

    def _evaluations(self, f: Function, k: int, x: Variable, access: Access) -> float:
        """How often the lanes need a texel of input ``k`` of a packed Function, one after the other, per tile."""
        invocations, count = f.working_domain.area, LISTED if self.sparse[self.graph.number[f]] else 1.0
        if isinstance(f, DrawFunction) and f.masked and k == f.pulled - 1:
            return math.inf  # made once a face, not once a vertex
        if isinstance(f, DrawFunction):
            pulled = access is Access.PULL or x.size == (1, 1)
            if f.masked and f.fragment is not None and k >= f.pulled and x.size == f.size != (1, 1):
                formal = f.fragment.formals[k - f.pulled]
                reads = (
                    g.reads(i) for g in f.fragment.functions for i, v in enumerate(g.inputs) if v is formal
                )
                count = LISTED * max(sum(reads), 1.0)
            invocations = 3 * f.triangles if pulled else max(3 * f.triangles, invocations)
        elif isinstance(f, ScatterFunction) and k == 0:
            return math.inf  # the bound is read where it is resolved, too
        elif access is Access.FETCH:
            count = fetches(f, k)
        elif access is not Access.SAME_PIXEL:
            return math.inf
        return self.model.rounds(invocations) * count


def recomputable(f: Function) -> bool:
    """Whether shaders of its readers can compute a Function: it is no scatter, raster or contraction by strips."""
    plain = isinstance(f, PixelFunction) and f.quiet is None
    return plain and all(a in (Access.SAME_PIXEL, Access.FETCH) for a in f.access)
