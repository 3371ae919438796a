"""What one shader invocation takes: operations, texels fetched, and how many of these wait for each other.

The walk follows the generated GLSL: a value is loaded once where it is stored, its makers run once at the
invocation's own pixel, and they run once for each texel that is fetched where the value is computed again
instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from ....ad.graph import Function, Variable
from ....ad.traversal import producers_first
from ....ad.types import Access
from ..model.device import DeviceModel
from ..substage import Binding, SubStage

FILTERED = 2.0
"""Texels that a sampler fetches in the time in which it filters one."""
TYPICAL_LOOP = 8
"""Iterations of a loop whose length the data decide: rows of a sparse matrix, faces around an edge."""


class Invocation(NamedTuple):
    """operations: arithmetic.  fetches: texels of textures and attachments, of all planes.  image_loads: of
    storage images.  loads: of storage buffers.  shared: words of memory that a workgroup shares.  walk:
    texels that the longest loop visits, loops inside of loops multiplied.  chain: fetches that wait for each
    other.  products: operations of matrix products by subgroups."""

    operations: float = 0.0
    fetches: float = 0.0
    walk: float = 0.0
    chain: float = 0.0
    loads: float = 0.0
    image_loads: float = 0.0
    shared: float = 0.0
    products: float = 0.0

    @property
    def reads(self) -> float:
        """Texels of all kinds of storage."""
        return self.fetches + self.image_loads + self.loads

    def and_then(self, other: Invocation) -> Invocation:
        """This one's work, then the other's, by the same invocation."""
        together = Invocation(*map(add, self, other))
        return together._replace(walk=max(self.walk, other.walk))

    def times(self, n: float) -> Invocation:
        """The work in a loop of n iterations."""
        each = self._replace(walk=max(self.walk, 1.0), chain=max(self.chain, 1.0))
        return Invocation(*[n * x for x in each])


def loops_of(f: Function) -> float:
    """Iterations that one evaluation is expected to run, 0 without a loop: those that it declares, and
    ``TYPICAL_LOOP``, or fewer where it declares fewer, where data decide."""
    by_data = any(math.isinf(f.reads(k)) for k, a in enumerate(f.access) if a is Access.FETCH)
    if not by_data:
        return float(f.iterations)
    return float(min(f.iterations, TYPICAL_LOOP) if f.iterations else TYPICAL_LOOP)


class Shader:
    """Counts what shaders of a SubStage do. at_hand: what other shaders pass, at no cost."""

    def __init__(self, s: SubStage, at_hand: Iterable[Variable] = ()):
        self._stored = {r.variable for r in s.reads} | set(s.channels)
        self._buffered = set(s.ranges).union(v for v, (whole, _) in s.channels.items() if whole in s.ranges)
        loaded = {r.variable for r in s.reads if r.binding is Binding.STORAGE}
        self._loaded = loaded.union(v for v, (whole, _) in s.channels.items() if whole in loaded)
        self._at_hand = set(at_hand)
        self._elsewhere: dict[Variable, Invocation] = {}

    def run(self, roots: Iterable[Variable], inside: Iterable[Function] = ()) -> Invocation:
        """One evaluation of the roots at a pixel, by Functions ``inside`` and whatever else they need."""
        counted = _Counted(self)
        for f in inside:
            counted.emit(f)
        for v in roots:
            counted.value(v)
        return counted.total

    def stored(self, v: Variable) -> bool:
        return v in self._stored or v.creator is None

    def free(self, v: Variable) -> bool:
        return v in self._at_hand

    def load(self, v: Variable) -> Invocation:
        """The read of a texel of a stored value."""
        texels = float(len(v.vtype.planes))
        if v in self._buffered:
            return Invocation(loads=texels, chain=1.0)
        return (
            Invocation(image_loads=texels, chain=1.0)
            if v in self._loaded
            else Invocation(fetches=texels, chain=1.0)
        )

    def elsewhere(self, v: Variable) -> Invocation:
        """One evaluation of a value at another texel."""
        if v not in self._elsewhere:
            self._elsewhere[v] = self.load(v) if self.stored(v) else self.run([v])
        return self._elsewhere[v]


class _Counted:
    """One evaluation: what it did so far, and after how many dependent fetches each value is there."""

    def __init__(self, shader: Shader):
        self._shader = shader
        self._ready: dict[Variable, float] = {}
        self._total = Invocation()

    @property
    def total(self) -> Invocation:
        chain = max(self._ready.values(), default=0.0)
        return self._total._replace(chain=chain)

    def value(self, v: Variable) -> None:
        """The value at the invocation's own pixel, with everything that makes it."""
        for f in self._makers(v):
            self.emit(f)
        self._load(v)

    def emit(self, f: Function) -> None:
        """One Function, whose inputs at the same pixel are there or can be loaded."""
        if f.output in self._ready:
            return
        loops, start, step = loops_of(f), 0.0, 0.0
        for k, (x, access) in enumerate(zip(f.inputs, f.access, strict=True)):
            if access is Access.SAMPLE:
                self._add(Invocation(fetches=FILTERED * len(x.vtype.planes)))
                step = max(step, 1.0)
                continue
            if access is not Access.FETCH:
                if x not in self._ready:
                    self.value(x)
                start = max(start, self._ready[x])
                continue
            one, count = self._shader.elsewhere(x), f.reads(k)
            count = max(loops, 1.0) if math.isinf(count) else count
            most = max(float(f.iterations), loops)
            self._add(one.times(count)._replace(walk=max(max(one.walk, 1.0) * most, one.walk)))
            step = max(step, one.chain * max(loops, 1.0) if count else 0.0)
        self._add(Invocation(f.operations * f.output.vtype.components * max(loops, 1.0)))
        self._ready[f.output] = start + step

    def _load(self, v: Variable) -> None:
        if v in self._ready:
            return
        free = self._shader.free(v)
        if not free:
            self._add(self._shader.load(v))
        self._ready[v] = 0.0 if free else 1.0

    def _add(self, work: Invocation) -> None:
        self._total = self._total.and_then(work)

    def _makers(self, v: Variable) -> list[Function]:
        """Functions that make a value from what is stored or there, producers first."""
        shader, near = self._shader, (Access.SAME_PIXEL, Access.PULL)

        def made(x: Variable) -> bool:
            return x.creator is not None and not (x in self._ready or shader.stored(x) or shader.free(x))

        def inputs(x: Variable) -> list[Variable]:
            edges = x.creator.edges if x.creator is not None else ()
            return [e.variable for e in edges if e.access in near and made(e.variable)]

        return [x.creator for x in producers_first([v] if made(v) else [], inputs) if x.creator is not None]


# The work of shaders: how many invocations run, what each does and stores, and what that takes on a device.


@dataclass(frozen=True)
class Stores:
    """Texels that an invocation writes, by kind of storage, and values that it adds with atomics."""

    attachments: float = 0.0
    images: float = 0.0
    buffers: float = 0.0
    atomics: float = 0.0

    @classmethod
    def of(cls, s: SubStage, values: Iterable[Variable]) -> Stores:
        """Of values that a SubStage writes."""
        count = {"attachments": 0.0, "images": 0.0, "buffers": 0.0}
        for v in values:
            kind = "buffers" if v in s.ranges else "attachments" if v in s.colors or s.draws else "images"
            count[kind] += len(v.vtype.planes)
        return cls(**count)

    def times(self, n: float) -> Stores:
        return Stores(n * self.attachments, n * self.images, n * self.buffers, n * self.atomics)

    def seconds(self, model: DeviceModel) -> float:
        """Of one invocation while all lanes are busy, for each of them."""
        return (
            self.attachments / model.store_rate
            + self.images / model.image_store_rate
            + self.buffers / model.buffer_store_rate
            + self.atomics / model.atomic_rate
        )


@dataclass(frozen=True)
class Load:
    """Work of one kind of shader: invocations, what each does, and what it stores.

    dispatched: as compute shader.  vertices, filled: what the fixed-function part transforms, and the pixels
    of attachments that it clears and tests.
    """

    invocations: int
    each: Invocation
    stores: Stores = Stores()
    dispatched: bool = False
    vertices: int = 0
    filled: int = 0

    def seconds(self, model: DeviceModel) -> float:
        """Of work and dependent fetches, whichever takes longer."""
        rate = model.compute_rate if self.dispatched else model.fragment_rate
        one = (
            self.each.operations / rate
            + self.each.fetches / model.fetch_rate
            + self.each.image_loads / model.image_load_rate
            + self.each.loads / model.buffer_fetch_rate
            + self.each.shared / model.shared_rate
            + self.each.products / model.matrix_rate
            + self.stores.seconds(model)
        )
        work = model.rounds(self.invocations) * model.lanes * one
        fixed = self.vertices / model.vertex_rate + self.filled / model.fill_rate
        return max(work, self.each.chain * model.fetch_latency) + fixed
