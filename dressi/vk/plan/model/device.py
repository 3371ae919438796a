"""The device model: the figures of a device in physical units, and what the planner derives from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeGuard

from ....ad.graph import DrawFunction, Function, ReduceFunction, Variable
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access
from ....ad.graph.work import UNROLLED

WIDE_LOAD = 2.0
"""A texel of several components takes so many times as long on CPU drivers."""
LOOP = 10.0
"""Operations of one iteration of a loop, besides what it does."""
AHEAD = 8
"""Iterations of a loop that data do not decide whose fetches are under way at once: compilers unroll it."""


@dataclass(frozen=True)
class DeviceModel:
    """What work costs on a device. Times in seconds, rates per second.

    | field             | meaning |
    |-------------------|---------|
    | bandwidth         | bytes of images and buffers that memory reads and writes a second |
    | fragment_rate     | arithmetic operations a second in fragment shaders, all lanes together |
    | compute_rate      | the same in compute shaders |
    | fetch_rate        | texels of textures fetched a second, from caches |
    | image_load_rate   | texels of storage images loaded a second, from caches |
    | store_rate        | texels that fragment shaders write to attachments a second |
    | image_store_rate  | texels that shaders write to storage images a second |
    | buffer_store_rate | texels that shaders write to storage buffers a second |
    | buffer_fetch_rate | texels that shaders read from storage buffers a second |
    | shared_rate       | words that lanes read from and write to the memory of their workgroup a second |
    | matrix_rate       | operations a second of matrix products by subgroups, of 16-bit floats, sums in 32 |
    | atomic_rate       | atomic operations on storage buffers a second |
    | wider             | share of a texel's fetch that each of its components besides the first adds |
    | filter_rate       | texels that the sampler filters a second, of four 32-bit floats |
    | fill_rate         | pixels a second of one attachment that a raster clears, tests and keeps |
    | clear_rate        | bytes of an image a second that a transfer sets to one value |
    | vertex_rate       | vertices a second that the fixed-function part transforms and clips |
    | fetch_latency     | seconds of one fetch that waits for the one before |
    | barrier           | seconds of a full barrier |
    | render_pass       | seconds of starting and ending a render pass |
    | raster            | seconds of a subpass that draws triangles, besides its render pass |
    | draw              | seconds of each of its draws |
    | dispatch          | seconds of starting a dispatch |
    | submission        | seconds of starting what was submitted, in the first Stage of a step |
    | idle              | times as long everything takes at the clocks of a device that is seldom busy |
    | lanes             | invocations that must be under way to reach these rates |
    | longest_walk      | texels that one invocation may visit in a loop |
    | accumulators      | sums that one invocation keeps in registers |
    | loop_body         | Functions within one loop that the driver's compiler takes in a second or two |
    | straight          | products of a block without loops that drivers compile in a fraction of a second |
    | straight_if_long  | the same in contractions that take so long that compiling longer pays; 0: as many |
    | tiler             | whether attachments that stay in a render pass stay on the chip |
    | prefers_dispatches | whether dispatches are much faster than fragments at the same work |
    | prefers_attachments | whether attachments are much faster than storage images at updates in place |

    The planner compares times as *operations*: what one invocation does while every lane does one operation
    (``operation`` seconds). ``fetch``, ``store`` and ``stage`` are a texel read, a texel written and the
    start of a Stage in that unit. A plan depends on the ratios alone, and results never depend on any of it.
    """

    name: str
    bandwidth: float
    fragment_rate: float
    compute_rate: float
    fetch_rate: float
    image_load_rate: float
    filter_rate: float
    store_rate: float
    image_store_rate: float
    buffer_store_rate: float
    buffer_fetch_rate: float
    atomic_rate: float
    fill_rate: float
    clear_rate: float
    vertex_rate: float
    fetch_latency: float
    barrier: float
    render_pass: float
    dispatch: float
    lanes: int
    longest_walk: int
    raster: float = 0.0
    draw: float = 0.0
    wider: float = 0.0
    submission: float = 0.0
    idle: float = 1.0
    shared_rate: float = 1e9
    matrix_rate: float = 1e9
    accumulators: int = 32
    loop_body: int = 640
    straight: int = 128
    straight_if_long: int = 0
    tiler: bool = False
    prefers_dispatches: bool = False
    prefers_attachments: bool = True

    @cached_property
    def rate(self) -> float:
        """Operations a second of work on each pixel, in the shaders that the device prefers."""
        return self.compute_rate if self.prefers_dispatches else self.fragment_rate

    @cached_property
    def operation(self) -> float:
        """Seconds of one operation of one invocation while all lanes are busy."""
        return self.lanes / self.rate

    @cached_property
    def fetch(self) -> float:
        """Operations in the time of fetching a texel."""
        return self.rate / self.fetch_rate

    @cached_property
    def store(self) -> float:
        """Operations in the time of writing a texel."""
        return self.rate / (self.image_store_rate if self.prefers_dispatches else self.store_rate)

    @cached_property
    def stage(self) -> float:
        """Operations of one invocation in the time that a render pass and its barrier take by themselves."""
        return (self.render_pass + self.barrier) / self.operation

    @cached_property
    def wide(self) -> bool:
        """Whether the invocations of a workgroup run at the same time, so that waiting for each other costs
        them little. CPU drivers run them one after the other."""
        return self.lanes >= 1024

    def load_seconds(self, components: int = 1) -> float:
        """Seconds of a load of a texel of an image in a dispatch, all lanes busy, by the faster of both ways."""
        seconds = 1 / max(self.fetch_rate, self.image_load_rate)
        if self.wide:
            return seconds * (1 + self.wider * (components - 1))
        return seconds if components == 1 else WIDE_LOAD * seconds

    def rounds(self, invocations: int) -> int:
        """How many times so many invocations fill the lanes."""
        return -(-invocations // self.lanes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# What work costs: the estimates by which a plan stores a value or computes it again.
#
# Everything is counted in operations of one invocation, from what Functions declare (``dressi.ad.graph.work``).
# Only ratios matter.


def operations(f: Function) -> float:
    """Operations of one invocation of a Function, without its reads."""
    loop = fetches(f, 0) if isinstance(f, ReduceFunction) else 1.0
    return f.operations * f.output.vtype.components * loop


def planes(variables: Iterable[Variable]) -> int:
    """Images that hold the Variables: what is fetched of each texel, or stored."""
    return sum(len(v.vtype.planes) for v in variables)


def fetches(f: Function, k: int) -> float:
    """How many texels of input ``k`` an invocation reads; infinite where data decide.

    A sum over the batch counts as one tile: plans do not depend on the number of views.
    """
    return 1.0 if isinstance(f, ReduceFunction) and f.axis == "n" else f.reads(k)


# How much a shader does in values that it makes again at other texels: iterations, and inlined Functions.

NOT_LONGER: Mapping[Function, int] = MappingProxyType({})
LARGEST_UNROLLED = 16
"""Functions that make one texel of a loop that is unrolled: drivers inline every call."""
VIEWS = 64
"""Up to so many views a plan for short loops stays the same: a loop over tiles counts as no shorter."""


def iterations(f: Function, most: int) -> int:
    """Iterations of the loops of a Function, as decisions count them that allow ``most``."""
    if most < VIEWS * VIEWS and isinstance(f, ReduceFunction) and f.axis == "n":
        return max(f.iterations, min(VIEWS, most // 4))
    return f.iterations


class Walk(NamedTuple):
    """What one Function costs with all that it makes again at other texels: iterations of an invocation, the
    Functions that drivers compile in its calls, and loops, its own among them; calls inside of calls
    included."""

    iterations: int
    functions: float
    loops: float


class Walks:
    """What the Functions of shaders do. Drivers inline calls, and every level of a pyramid has four of the
    level before.

    made: whether a Function is made again where it is read; all others are stored.  most: see ``iterations``;
    0 counts what there is.  free: made Functions that take nothing to compile.  longer: the iterations of
    Functions whose lists grew since the plan was made.

    A sum of 8 texels, each of which is a sum of 4 that nobody stored, walks 8 + 8 * 4 iterations.
    """

    def __init__(
        self,
        made: Callable[[Function], bool],
        most: int = 0,
        *,
        free: Container[Function] = (),
        longer: Mapping[Function, int] = NOT_LONGER,
    ):
        self._made, self._most, self._free, self._longer = made, most, free, longer
        self._making: dict[Function, Walk] = {}
        self._of: dict[Function, Walk] = {}

    def of(self, f: Function) -> Walk:
        """One Function alone: makers at its own pixels are Functions of the same shader."""
        if f in self._of:
            return self._of[f]
        own = self._longer.get(f, iterations(f, self._most))
        total, functions, nested = with_fragments(f, own), 0.0, float(f.iterations > 1)
        for k, (_, maker, access, near) in enumerate(f.edges):
            if not near and maker is not None and self._made(maker):
                inside = self._making.get(maker) or self._make(maker)
                total += inside.iterations * (1 if access is Access.SAME_PIXEL else max(own, 1))
                sites = UNROLLED + f.extent % UNROLLED if unrolls(f, self._made) else 1
                times = sites * calls(f, k)
                functions, nested = functions + times * inside.functions, nested + times * inside.loops
        self._of[f] = walk = Walk(total, functions, nested)
        return walk

    def _make(self, f: Function) -> Walk:
        """What makes one texel of a value that is not stored."""
        cone = _at_same_pixel(f, self._made)
        inside = [self.of(g) for g in cone]
        self._making[f] = walk = Walk(
            sum([w.iterations for w in inside]),
            sum([w.functions + (g not in self._free) for g, w in zip(cone, inside, strict=True)]),
            sum([w.loops for w in inside]),
        )
        return walk


def with_fragments(f: Function, own: int) -> int:
    """Its own iterations, and of a draw those of every fragment."""
    if not isinstance(f, DrawFunction) or f.fragment is None:
        return own
    return own + sum(g.iterations for g in f.fragment.functions)


def unrolls(f: Function, made: Callable[[Function], bool]) -> TypeGuard[ReduceFunction]:
    """Whether the loop of a Function is unrolled: its texels are stored, or made of few Functions."""
    if not isinstance(f, ReduceFunction) or not f.unrolled or f.axis == "n" or f.extent < UNROLLED:
        return False  # tiles are few
    maker = f.inputs[0].creator
    cone = [] if maker is None or not made(maker) else _at_same_pixel(maker, made)
    return len(cone) <= LARGEST_UNROLLED and all(a is Access.SAME_PIXEL for g in cone for a in g.access)


def calls(f: Function, k: int) -> float:
    """Calls in the snippet of a Function that read input ``k``. One in a loop counts once."""
    reads = f.reads(k) if f.access[k] is Access.FETCH else 1.0
    return 1.0 if math.isinf(reads) else math.ceil(reads / max(f.iterations, 1))


def _at_same_pixel(f: Function, made: Callable[[Function], bool]) -> list[Function]:
    """The Function and those over the same pixels that are made again for it."""

    def makers(g: Function) -> list[Function]:
        return [maker for _, maker, _, near in g.edges if near and maker is not None and made(maker)]

    return list(reached([f], makers))
