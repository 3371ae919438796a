"""Rematerialization: which values every reader computes again instead of fetching them from an image.

A value that another shader reads is either stored, or computed again by that shader, at its own pixel or at
any texel that it fetches. The reader then runs the *cone* of the value: the Functions over the same pixels
that it is made of. It fetches the inputs of the cone. This pays if the cone is small or seldom evaluated, and
most of all if it saves a whole pass: passes over lists of vertices or over single texels cost far more than
their arithmetic. A cone ends at values that others need as well, unless these are cheap.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ....ad.graph import (
    Domain,
    DrawFunction,
    Function,
    PixelFunction,
    ReduceFunction,
    ScatterFunction,
    Variable,
)
from ....ad.graph.types import Access
from ..core.lists import LISTED
from ..model.device import DeviceModel, calls, fetches, iterations, operations, planes

LARGEST_BODY = 128
"""Functions that one value is computed again from, through cones that begin where others end."""

LARGEST_CALL = 96
"""Functions that drivers compile for one call of a value that is computed again at another texel, the calls
in it included. These multiply along a chain of such values."""

LARGEST_CALLS = 160
"""The most Functions in all calls of a shader. Drivers inline calls: SwiftShader ends the process where these
need too much stack, which it did from about 500 on. The shaders of fits have up to 110."""

LARGEST_CONE = 48
"""Functions of a cone that is recomputed; more make shaders that take long to compile. Those that all views
share count, too, so that one view and many are planned alike."""

EXAMPLES = 4
"""Images of a batch among which the start of a Stage is shared where images have channels, as the layers of a
network. Plans do not depend on how many there are; weighed as one, products were computed again in sums within
sums, by steps that took six times as long."""

LONGEST_LOOP = 8192
"""Loop iterations of one value, times how often an invocation asks for it, up to which it is recomputed:
nested loops multiply, and drivers end what runs too long."""


class _Input(NamedTuple):
    """What a Function that can be computed again reads.  maker: of it, by number (-1: an image).  texels:
    those of one tile where a loop runs over tiles.  repeats: evaluations that one invocation asks for.
    joins: whether its maker joins the cone, unless that is stored.  shared: whether its maker is left out
    only because it is the same for the whole batch.  cost: operations of fetching it."""

    maker: int
    texels: float = 1.0
    repeats: float = 1.0
    joins: bool = False
    shared: bool = False
    cost: float = 0.0


class _Cone(NamedTuple):
    """functions: computed again.  cost: of an evaluation.  reads: of others.  size: for one view."""

    functions: dict[int, None]
    cost: float
    reads: list[_Input]
    size: int


class Recomputing:
    """Finds the Functions of a graph that readers compute again, among ``packed`` (producers first).

    levels: distance from the end in passes, if everything were stored.  trivial: those that are recomputed
    wherever they can be.  constant: whether a Function costs nothing at a domain.  sparse: what is only
    needed ``under_draws``.
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
        # What a sampler filters has to be an image, whoever else could compute it again.
        self.stored = graph.flags(
            x.creator
            for f in packed
            for x, access in zip(f.inputs, f.access, strict=True)
            if f.stores_inputs or access is Access.SAMPLE
        )
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
        """Bounds recomputed code transitively: ``LARGEST_BODY`` a shader, ``LARGEST_CALL`` a call."""
        behind: dict[int, frozenset[int]] = {}
        called = [0.0] * len(self.graph.functions)  # Functions in the calls of a Function
        for k in self.order:
            near, far = self._made_again(k, behind)
            called[k] = sum(count * sum(1.0 + called[g] for g in behind[maker]) for maker, count in far)
            together = frozenset((k,)).union(*(behind[maker] for maker in near))
            total = sum([called[g] for g in together])
            if chosen[k]:
                if len(together) <= LARGEST_BODY and len(together) + total <= LARGEST_CALL:
                    behind[k] = together
            elif total > LARGEST_CALLS:
                # It would not fit into a shader of its own.
                for maker in (*near, *(maker for maker, _ in far)):
                    behind.pop(maker, None)
                called[k] = 0.0
        return behind

    def _made_again(self, k: int, again: Container[int]) -> tuple[list[int], list[tuple[int, float]]]:
        """The makers of recomputed inputs: at the own pixel, and with how many calls at others."""
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
            examples = EXAMPLES if self.graph.working[k].channels > 1 else 1
            stored += rounds * cost + self.model.stage / examples
        return evaluations * (cost - planes * self.model.fetch) <= stored

    def _shares_shader(self, k: int, reads: Iterable[_Input]) -> bool:
        """Whether a shader would make the value beside others: with a user; or, where only sparse users are
        near, with a maker that is too dear to be computed again."""
        if self.near[k] or not self.under[k]:
            return bool(self.near[k])
        least, working = self.model.fetch + self.model.store, self.graph.working
        makers = (r.maker for r in reads if self.clonable[r.maker] and working[r.maker] == working[k])
        return any(self._cone(g).cost > least * self._planes(g) for g in makers)

    def _planes(self, k: int) -> int:
        return len(self.graph.functions[k].output.vtype.planes)

    def _rounds(self, k: int) -> int:
        domain = self.graph.working[k]
        return self.model.rounds(domain.area * domain.channels)

    def _inputs(self, k: int) -> list[_Input]:
        """The inputs of a Function that cost something."""
        inputs, f = [], self.graph.functions[k]
        for i, ((x, made, access, near), maker) in enumerate(zip(f.edges, self.graph.makers[k], strict=True)):
            if access is Access.SAME_PIXEL and self.constant(made, f.output.domain):
                continue
            count = 1.0 if access is Access.SAME_PIXEL else fetches(f, i)
            cost = count * self.model.fetch * len(x.vtype.planes)
            able = maker in self.operations
            shared = able and not near and access is Access.SAME_PIXEL and x.size == f.working_domain.size
            number, repeats = maker if self.packed[maker] else -1, self._repeats(f, i, access)
            inputs.append(_Input(number, count, repeats, near and able, shared, cost))
        return inputs

    def _small(self) -> bytearray:
        """Functions whose values take less than a stage, with all that makes them over the same pixels."""
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
        cone: dict[int, None] = {}
        reads: list[_Input] = []
        cost, clonable = 0.0, self.clonable
        heap, queued = [-k], {k}
        while heap and len(cone) <= LARGEST_CONE:  # users before their makers
            g = -heapq.heappop(heap)
            if g != k and not self.small[g] and not all(map(cone.__contains__, self.users[g])):
                cost += self.model.fetch * self._planes(g)
                reads.append(_Input(g))
                continue
            cone[g] = None
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
        self.cones[k] = _Cone(cone, cost, reads, self._size(cone))
        return self.cones[k]

    def _size(self, cone: Iterable[int]) -> int:
        """The Functions of a cone, with those shared by all views that one view would count."""
        counted = set(cone)
        heap = list({-i.maker for g in counted for i in self.inputs[g] if i.shared})
        heapq.heapify(heap)
        queued = set(heap)
        while heap and len(counted) <= LARGEST_CONE:
            g = -heapq.heappop(heap)
            ends = not self.small[g] and not counted.issuperset(self.users[g])
            if not self.clonable[g] or ends:
                continue
            counted.add(g)
            more = {-i.maker for i in self.inputs[g] if i.joins or i.shared} - queued
            queued |= more
            for maker in more:
                heapq.heappush(heap, maker)
        return len(counted)

    # ---- who evaluates what how often
    def _fetch(self, k: int, evaluations: float) -> None:
        for i in self._cone(k).reads:
            self.far[i.maker] += evaluations * i.texels
            self.repeats[i.maker] = max(self.repeats[i.maker], self.repeats[k] * i.repeats)

    def _consume(self, k: int) -> None:
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
        """Times that the lanes need a texel of input ``k`` of a packed Function, in an image of the batch."""
        domain = f.working_domain
        invocations, count = (
            domain.area * domain.channels,
            LISTED if self.sparse[self.graph.number[f]] else 1.0,
        )
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
    """Whether readers can compute a Function: it is no scatter, raster or contraction by register tiles."""
    plain = isinstance(f, PixelFunction) and f.quiet is None
    return plain and all(a in (Access.SAME_PIXEL, Access.FETCH) for a in f.access)


# A graph in numbers: Functions are numbered once, producers first, and lists hold what analyses ask of them.


class Numbered:
    """functions: producers first; number: of each.  makers: of each the numbers of the Functions that make
    its inputs, in order, -1 for leaves and for what is made elsewhere.  same_pixel: those of them that it
    reads at its own pixel.  elsewhere: those of other texels or domains.  working: the domains over which
    they run.  joins: whether a Function can share a shader with the makers of what it reads at its own pixel.
    fusable: whether it can share one with such readers.

    Lists made by ``flags`` end with a 0 more: that of the number -1.
    """

    def __init__(self, functions: list[Function]):
        self.functions = functions
        self.number = number = {f: k for k, f in enumerate(functions)}
        same = Access.SAME_PIXEL
        self.makers, self.same_pixel, self.elsewhere = [], [], []
        for f in functions:
            makers, here, far = [], [], []
            for _, maker, access, near in f.edges:
                m = number.get(maker, -1)
                makers.append(m)
                if m >= 0:
                    if access is same:
                        here.append(m)
                    if not near:
                        far.append(m)
            self.makers.append(makers)
            self.same_pixel.append(here)
            self.elsewhere.append(far)
        self.working = [f.working_domain for f in functions]
        self.joins = [isinstance(f, (PixelFunction, ScatterFunction)) for f in functions]
        self.fusable = [isinstance(f, PixelFunction) and f.quiet is None for f in functions]

    def flags(self, functions: Iterable[Function | None]) -> bytearray:
        """1 for the numbers of these Functions; what is not among the numbered ones is left out."""
        result, number = bytearray(len(self.functions) + 1), self.number
        for f in functions:
            if f in number:
                result[number[f]] = 1
        return result


# Trivial rematerialization: values that are computed again wherever they are read, whatever else is decided.
#
# *Inlined* values depend on no image: constants, coordinates, and what is made of them. *Trivial* values
# depend on leaves and never change in a step, but an image of them would not be worth it. Examples are a
# radius and its reciprocal, or a matrix and its transpose: whoever reads the second can read the first and
# compute. Storing it would take a shader that runs once, an image, and a fetch in every reader.

LARGEST_INLINED = 128
"""The most Functions of an inlined value: every shader that uses it contains them all."""

TRIVIAL = 0.25
"""The most operations of a trivial value, as a share of what fetching its planes costs."""


class Inlined:
    """The Functions of inlined values among ``order`` (producers first): constants, and with
    ``rematerialize`` also coordinates and what is made of them."""

    def __init__(self, order: Sequence[Function], rematerialize: bool):
        self.functions: set[Function] = set()
        self._uniform: set[Function] = set()  # the same at every pixel of every tile
        self._tileless: set[Function] = set()  # the same in every tile
        cones: dict[Function, frozenset[Function]] = {}
        for f in order:
            makers = [x.creator for x in f.inputs]
            if not self.functions.issuperset(makers) or (makers and not rematerialize):
                continue
            if not isinstance(f, PixelFunction) or any(a is not Access.SAME_PIXEL for a in f.access):
                continue
            cone = frozenset((f,)).union(*(cones[g] for g in makers if g is not None))
            if len(cone) > LARGEST_INLINED:
                continue
            tileless = self._tileless.issuperset(makers) and "tile" not in f.places
            uniform = tileless and self._uniform.issuperset(makers) and "pixel" not in f.places
            if tileless:
                self._tileless.add(f)
            if uniform:
                self._uniform.add(f)
            if uniform or rematerialize:
                self.functions.add(f)
                cones[f] = cone

    def at(self, function: Function | None, domain: Domain) -> bool:
        """Whether a shader over ``domain`` computes the Function itself instead of reading its image."""
        if function is None or function not in self.functions:
            return False
        own = function.output.domain
        same_tile = own.size == domain.size and own.tiles == 1 and function in self._tileless
        return function in self._uniform or own == domain or same_tile


def trivial_functions(
    functions: Iterable[Function],
    changing: Collection[Function],
    kept: AbstractSet[Variable],
    model: DeviceModel,
) -> set[Function]:
    """Those of the Functions (producers first) that make trivial values: over a single texel, from leaves,
    with no more planes read than made and few operations. Not those that are ``changing`` or ``kept``."""
    functions = list(functions)
    needed = {x for f in functions for x in _needed_as_images(f)}
    reads: dict[Variable, frozenset[Variable]] = {}
    work: dict[Variable, float] = {}
    trivial: set[Function] = set()
    for f in functions:
        y = f.output
        if f in changing or y in kept or y in needed or y.size != (1, 1) or not isinstance(f, PixelFunction):
            continue
        known = all(x.creator is None or x in work for x in f.inputs)
        if not known or any(a is not Access.SAME_PIXEL for a in f.access):
            continue
        read = frozenset[Variable]().union(*(reads.get(x, {x}) for x in f.inputs))
        cost = operations(f) + sum(work.get(x, 0.0) for x in f.inputs)
        planes = len(y.vtype.planes)
        if sum(len(x.vtype.planes) for x in read) <= planes and cost <= TRIVIAL * model.fetch * planes:
            reads[y], work[y] = read, cost
            if read:
                trivial.add(f)
    return trivial


def _needed_as_images(f: Function) -> list[Variable]:
    """Inputs that cannot be recomputed where the Function reads them."""
    needed = [
        x for x, a in zip(f.inputs, f.access, strict=True) if a not in (Access.SAME_PIXEL, Access.FETCH)
    ]
    if isinstance(f, ScatterFunction):
        needed.append(f.inputs[0])  # the bound is read where sums are resolved, too
    if isinstance(f, DrawFunction):
        needed += f.inputs[: f.pulled]
    return needed


# Operands: fewer planes that several values follow from, which shaders store instead.
#
# Of several values that other shaders read, all may follow by a little arithmetic from one of fewer planes,
# with what these shaders read anyway: four texel numbers and four weights from a coordinate, the gradients by
# both ends of a blend from that of the blend. (A value alone is a matter of ``rematerialization``, which does
# not look at what the readers read besides.)


class Cone(NamedTuple):
    """The Functions that make a value from an operand; None: from values that are at hand anyway."""

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
    cones: list[Cone] = []
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
            return [*cones, Cone(None, frozenset(functions))]
        if len(ends) == 1 and next(iter(ends)).domain == value.domain:
            cones.append(Cone(next(iter(ends)), frozenset(functions)))
    return cones


def is_constant(v: Variable) -> bool:
    """Whether a value is made of nothing, not even of the texel where it is."""
    return v.creator is not None and not v.creator.inputs and not v.creator.places


def works_at_pixel(f: Function) -> bool:
    """Whether a Function reads its own pixel only and reduces nothing. What divides an image is no such one:
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
    """The Functions to run again: of the operand that gains most with all its values, until none gains."""
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
    """Static Functions that every step should run again, because the static values that it reads follow from
    fewer planes.

    functions: all of the program, producers first. changing: those that a step runs. kept: the static values
    that it reads. fixed: Variables that need images of their own."""
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
    if isinstance(f, ScatterFunction):
        return k > 0
    if not isinstance(f, PixelFunction):
        return False
    return access is Access.SAME_PIXEL or (access is Access.FETCH and not math.isinf(fetches(f, k)))
