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
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ....ad.graph import Domain, Function, PixelFunction, RasterFunction, ScatterFunction, Variable
from ....ad.types import Access
from ..lists import LISTED
from ..model.cost import fetches, operations
from ..model.device import DeviceModel
from ..model.walks import calls, iterations
from .known_values import HIT_NOTHING, adds_nothing, values_where

LARGEST_BODY = 128
"""Functions that one value is computed again from, through cones that begin where others end."""

LARGEST_CALL = 96
"""Functions that drivers compile for one call of a value that is computed again at another texel, the calls in it
included. These multiply along a chain of such values."""

LARGEST_CALLS = 160
"""The most Functions in all calls of a shader. Drivers inline calls: SwiftShader ends the process where these need too much
stack, which it did from about 500 on. The shaders of fits have up to 110."""

LARGEST_CONE = 48
"""Functions of a cone that is recomputed; more make shaders that take long to compile."""


LONGEST_LOOP = 8192
"""Loop iterations of one value, times how often an invocation asks for it, up to which it is recomputed: nested loops
multiply, and drivers end what runs too long."""


class _Reading(NamedTuple):
    """What a cone reads of another Function: texels, those of one tile where a loop runs over tiles, and evaluations that
    one invocation asks for."""

    maker: Function | None
    texels: float
    repeats: float


class Recomputing:
    """Finds the Functions that readers compute again, among ``order`` (producers first).

    levels: distance from the end in passes, if everything were stored.  kept: Functions whose images are needed in
    any case.  trivial: those that are recomputed wherever they can be.  constant: whether a Function costs nothing at a domain.
    sparse: what is only needed ``under_draws``.
    """

    def __init__(
        self,
        order: list[Function],
        levels: dict[Function, int],
        kept: Iterable[Function],
        trivial: AbstractSet[Function],
        constant: Callable[[Function | None, Domain], bool],
        model: DeviceModel,
        sparse: AbstractSet[Function] = frozenset(),
    ):
        self.order, self.levels, self.kept = order, levels, set(kept)
        self.kept.update(x.creator for f in order if f.stores_inputs for x in f.inputs if x.creator)
        hinted = (x.creator for f in order if f.recomputes_inputs for x in f.inputs if x.creator)
        self.trivial = frozenset(trivial).union(hinted)
        self.constant, self.model = constant, model
        self.position = {f: k for k, f in enumerate(order)}
        self.users: dict[Function, list[Function]] = {f: [] for f in order}
        for f in order:
            for maker in dict.fromkeys(edge.maker for edge in f.edges):
                if maker in self.users:
                    self.users[maker].append(f)
        self.most = min(LONGEST_LOOP, model.longest_walk)
        self.clonable = {f for f in order if self._clonable(f)}
        self.operations = {f: operations(f) for f in self.clonable}
        self.inputs = {f: self._over_same_pixels(f) for f in order if f in self.clonable}
        self.chain = self._chains()
        self.sparse = sparse
        self.small = {f for f, chain in self.chain.items() if self._rounds(f) * chain <= model.stage}
        self.near: set[Function] = set()  # what shares a shader with a user
        self.under: set[Function] = set()  # what would, were the user not one of the sparse
        self.far = dict.fromkeys(order, 0.0)  # evaluations wanted by other passes, one after the other
        self.repeats = dict.fromkeys(order, 0.0)  # the most that one invocation wants
        self.cones: dict[Function, tuple[tuple[Function, ...], float, list[_Reading]]] = {}

    def run(self) -> set[Function]:
        """The Functions that consumers recompute."""
        chosen: set[Function] = set()
        for f in reversed(self.order):
            evaluations = self.far[f]
            if f in chosen:
                self._fetch(f, evaluations)
            elif evaluations and self._pays(f, evaluations):
                chosen.update(self._cone(f)[0])
                self._fetch(f, evaluations)
            else:
                self._consume(f)
        return self._bounded(chosen)

    def _bounded(self, chosen: set[Function]) -> set[Function]:
        """Those of the chosen Functions with which no shader gets more than ``LARGEST_BODY``, and no call more than
        ``LARGEST_CALL``: a cone ends at values that may be computed again themselves, and so on."""
        behind: dict[Function, frozenset[Function]] = {}
        called: dict[Function, float] = {}  # Functions in the calls of a Function
        for f in self.order:
            near, far = self._made_again(f, behind)
            called[f] = sum(count * sum(1.0 + called[g] for g in behind[maker]) for maker, count in far)
            found = frozenset((f,)).union(*(behind[maker] for maker in near))
            total = sum(called[g] for g in found)
            if f in chosen:
                if len(found) <= LARGEST_BODY and len(found) + total <= LARGEST_CALL:
                    behind[f] = found
            elif total > LARGEST_CALLS:
                # It would not fit into a shader of its own.
                for maker in (*near, *(maker for maker, _ in far)):
                    behind.pop(maker, None)
                called[f] = 0.0
        return set(behind)

    def _made_again(
        self, f: Function, again: Mapping[Function, object]
    ) -> tuple[list[Function], list[tuple[Function, float]]]:
        """The makers of inputs that a Function computes again: at its own pixel, and in how many calls at others."""
        near: list[Function] = []
        far: list[tuple[Function, float]] = []
        for k, edge in enumerate(f.edges):
            if edge.maker not in again:
                continue
            if edge.near:
                near.append(edge.maker)
            else:
                far.append((edge.maker, calls(f, k)))
        return near, far

    # ---- the decision
    def _pays(self, f: Function, evaluations: float) -> bool:
        if f not in self.clonable or math.isinf(evaluations):
            return False
        cone, cost, reads = self._cone(f)
        loops = sum(iterations(g, self.most) for g in cone)
        if loops and loops * self.repeats[f] > self.most:
            return False
        if f in self.trivial:
            return True
        if len(cone) > LARGEST_CONE or math.isinf(cost):
            return False
        planes = len(f.output.vtype.planes)
        rounds = self._rounds(f)
        stored = rounds * planes * self.model.store
        if not self._shares_shader(f, reads):
            stored += rounds * cost + self.model.stage
        return evaluations * (cost - planes * self.model.fetch) <= stored

    def _shares_shader(self, f: Function, reads: Iterable[_Reading]) -> bool:
        """Whether a shader would make the value beside others: with a user; or, where only sparse users are near, with a maker
        that is too dear to be computed again."""
        if f in self.near or f not in self.under:
            return f in self.near
        least = self.model.fetch + self.model.store
        makers = (
            r.maker for r in reads if r.maker in self.clonable and r.maker.output.domain == f.output.domain
        )
        return any(self._cone(g)[1] > least * len(g.output.vtype.planes) for g in makers)

    def _clonable(self, f: Function) -> bool:
        return (
            isinstance(f, PixelFunction)
            and f.quiet is None
            and f not in self.kept
            and all(a in (Access.SAME_PIXEL, Access.FETCH) for a in f.access)
        )

    def _rounds(self, f: Function) -> int:
        (width, height), _, _ = f.output.domain
        return self.model.rounds(width * height)

    def _over_same_pixels(self, f: Function) -> list[tuple[Function | None, float, _Reading | None]]:
        """Inputs that cost something: (maker, operations of fetching them, reading); no reading of makers that can join
        the cone."""
        found = []
        for k, (x, maker, access, near) in enumerate(f.edges):
            if access is Access.SAME_PIXEL and self.constant(maker, f.output.domain):
                continue
            if near and maker in self.clonable:
                found.append((maker, 0.0, None))
                continue
            count = 1.0 if access is Access.SAME_PIXEL else fetches(f, k)
            cost = count * self.model.fetch * len(x.vtype.planes)
            known = maker if maker in self.users else None
            found.append((known, cost, _Reading(known, count, self._repeats(f, k, access))))
        return found

    def _chains(self) -> dict[Function, float]:
        """Operations of a value and of everything over the same pixels that makes it."""
        chain: dict[Function, float] = {}
        for f, inputs in self.inputs.items():
            total = self.operations[f]
            for maker, _, reading in inputs:
                total += chain[maker] if reading is None else self.model.fetch
            chain[f] = total
        return chain

    def _cone(self, f: Function) -> tuple[tuple[Function, ...], float, list[_Reading]]:
        """(Functions, operations of one evaluation, what it reads of other Functions)."""
        if f in self.cones:
            return self.cones[f]
        found: dict[Function, None] = {}
        reads: list[_Reading] = []
        cost = 0.0
        heap = [-self.position[f]]
        queued = {f}
        while heap and len(found) <= LARGEST_CONE:  # users before their makers
            g = self.order[-heapq.heappop(heap)]
            if g is not f and g not in self.small and not all(u in found for u in self.users[g]):
                cost += self.model.fetch * len(g.output.vtype.planes)
                reads.append(_Reading(g, 1.0, 1.0))
                continue
            found[g] = None
            cost += self.operations[g]
            for maker, fetching, reading in self.inputs[g]:
                cost += fetching
                if reading is not None:
                    if maker is not None:
                        reads.append(reading)
                elif maker not in queued:
                    queued.add(maker)
                    heapq.heappush(heap, -self.position[maker])
        self.cones[f] = tuple(found), cost, reads
        return self.cones[f]

    # ---- who evaluates what how often
    def _fetch(self, f: Function, evaluations: float) -> None:
        for maker, count, repeats in self._cone(f)[2]:
            self.far[maker] += evaluations * count
            self.repeats[maker] = max(self.repeats[maker], self.repeats[f] * repeats)

    def _consume(self, f: Function) -> None:
        """A Function that is packed reads its inputs."""
        for k, (x, maker, access, near) in enumerate(f.edges):
            if maker not in self.users:
                continue
            near = near and self._near(maker, f)
            if near and (f not in self.sparse or maker in self.sparse):
                self.near.add(maker)
            else:
                self.under.update((maker,) if near else ())
                self.far[maker] += self._evaluations(f, k, x, access)
                self.repeats[maker] = max(self.repeats[maker], self._repeats(f, k, access))

    def _repeats(self, f: Function, k: int, access: Access) -> float:
        """How often one invocation of a packed Function asks for input ``k``."""
        if isinstance(f, RasterFunction):
            functions = f.fragment.functions if f.fragment is not None else ()
            return max([1.0, *(float(g.iterations) for g in functions)])
        return max(fetches(f, k), iterations(f, self.most)) if access is Access.FETCH else 1.0

    def _near(self, maker: Function, f: Function) -> bool:
        """Whether both, over the same pixels, will share a shader."""
        return (
            isinstance(maker, PixelFunction)
            and maker.quiet is None
            and isinstance(f, (PixelFunction, ScatterFunction))
            and self.levels[maker] == self.levels[f]
        )

    def _evaluations(self, f: Function, k: int, x: Variable, access: Access) -> float:
        """How often the lanes need a texel of input ``k`` of a packed Function, one after the other, per tile."""
        (width, height), _, _ = f.working_domain
        invocations, count = width * height, LISTED if f in self.sparse else 1.0
        if isinstance(f, RasterFunction) and f.masked and k == f.pulled - 1:
            return math.inf  # made once a face, not once a vertex
        if isinstance(f, RasterFunction):
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


def under_draws(order: Sequence[Function], roots: Iterable[Variable]) -> set[Function]:
    """The scatters that add nothing where a raster of a list of live faces draws nothing, and what only they read: they visit
    few pixels, and share no shader with work on all."""
    rasters = [f.output for f in order if isinstance(f, RasterFunction) and f.masked and f.fragment]
    scatters = [f for f in order if isinstance(f, ScatterFunction)]
    found: set[Function] = set()
    for raster in rasters if scatters else ():
        known = values_where(order, {raster: HIT_NOTHING})
        found.update(f for f in scatters if adds_nothing(f, known))
    everywhere = set(roots)
    for f in reversed(order if found else ()):
        if f in found:
            everywhere.add(f.inputs[0])  # the bound
        elif f.output in everywhere or not isinstance(f, PixelFunction):
            everywhere.update(f.inputs)
        else:
            found.add(f)
    return found
