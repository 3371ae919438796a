"""The device model: the figures of a device in physical units, and what the planner derives from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

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

    def weighing(
        self,
        *,
        fetch: float | None = None,
        store: float | None = None,
        stage: float | None = None,
        lanes: int = 0,
    ) -> DeviceModel:
        """The model with these planner's quantities, in operations, instead of its own; 0 lanes: its own."""
        model = replace(self, lanes=lanes or self.lanes)
        if fetch is not None:
            model = replace(model, fetch_rate=self.rate / fetch if fetch else inf)
        if store is not None:
            kind = "image_store_rate" if self.prefers_dispatches else "store_rate"
            model = replace(model, **{kind: self.rate / store if store else inf})
        if stage is not None:
            model = replace(model, render_pass=stage * model.operation, barrier=0.0)
        return model

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
