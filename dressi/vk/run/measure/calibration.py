"""The device model of an open device: measured within a second, once for each device and driver, and kept
beside the pipeline cache.

GPUs are measured before their first plan. CPU drivers share their cores with other programs, so they are
measured only on request (`dressi devices --calibrate`); their record serves well otherwise. A figure that
cannot be told within the time, or that no device of its class has, is that of the class: a busy machine is no
fault of a driver, and nothing is said of it. Results do not depend on the model, speed does.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.evaluation import NumpyExecutor
from ....ad.graph.program import Program
from ....ad.graph.types import FLOAT, INT, VEC2, VEC4, Size, VType
from ....errors import DeviceLostError, DressiError
from ...plan.core.options import PlanOptions
from ...plan.model.device import DeviceModel
from ..device.commands import Commands
from ..device.device import Device
from ..execution.executor import VulkanExecutor
from ..host import cache

SECONDS = 0.7
"""Of a measurement. What is under way then, a shader that is compiled at most, is finished."""
ASKED = 10.0
"""Seconds of a measurement that somebody asked for."""
WARM = 0.05
"""Seconds of work before the first measurement counts: GPUs raise their clocks under load."""
RUN = 2e-3
"""Seconds that are timed together. Clocks of hosts wake up late by a tenth of a millisecond."""
STEP = 1e-4
"""Seconds of a step from which on what starts it does not matter. Images are as large as a device of the
class needs for twice as long, and grow where this one is faster."""
AGREEMENT = 1.2
"""A time is settled when two runs take the same but for this factor."""
STEPS, TRIES, GROWTH, SIZES = 2000, 6, 8, 3
LARGEST, CACHED = 1 << 22, 1 << 19
"""Texels of an image, 64 MiB of four components; and of one that is too large for caches of CPUs."""

SPREAD = 16.0
"""A figure of a device is this factor from that of its class at most."""
START = SPREAD / 2
"""A start counts as that of the class divided by this at least; half, for powers of two are rounded."""
FASTER = 1.25
"""Dispatches, or attachments for updates in place, are preferred if they are faster by this factor. Otherwise
render passes keep more on the chip."""
METHOD = 2
"""Changes when kept figures mean something else."""

LONG, SHORT = 128, 16  # operations of the chains that are timed
PASSES = 32
HANDED = 8  # passes that hand an image on
FETCHES = 16
WIDE: Size = (256, 256)
UPDATED: Size = (1024, 512)

FIGURES = tuple(
    f.name for f in fields(DeviceModel) if f.type in ("int", "float") and f.name != "longest_walk"
)
"""What is measured in units of time."""
PARALLEL = {"bandwidth", "lanes", *(name for name in FIGURES if name.endswith("_rate"))}
"""What grows with the cores of a CPU."""
RECORDED_CORES = 2
"""Of the machine that the record of CPU drivers is of."""

_known: dict[str, DeviceModel] = {}
"""The models of this process by the key of device and driver."""


class Bounds(NamedTuple):
    """What the figures of a device can be. cores: how many times those of the record of its class."""

    guess: DeviceModel
    cores: float = 1.0

    @classmethod
    def of(cls, guess: DeviceModel, device: Device) -> Bounds:
        """CPU drivers run on all cores of the machine, or on few."""
        cpu = device.physical.type == "cpu"
        return cls(guess, max((os.cpu_count() or 1) / RECORDED_CORES, 1.0) if cpu else 1.0)

    def hold(self, name: str, value: float) -> bool:
        """Whether a figure can be that of such a device. False for NaN."""
        of_class = getattr(self.guess, name)
        most = self.cores if name in PARALLEL else 1.0
        return of_class / SPREAD <= value <= of_class * SPREAD * most


def model_of(device: Device) -> DeviceModel:
    """The model of a device: the one of this process, the kept one, else a measured one (a GPU), else the
    record of its class. Raises nothing but a DeviceLostError."""
    if device.key not in _known:
        unmeasured = device.record if device.physical.type == "cpu" else None
        _known[device.key] = _kept(device) or unmeasured or calibrate(device, SECONDS)
    return _known[device.key]


def calibrate(device: Device, seconds: float = ASKED) -> DeviceModel:
    """Measures a device for so many seconds at most, and keeps the result in this process and, if there is
    one, in the cache. Raises nothing but a DeviceLostError: what cannot be measured is the class's."""
    _known[device.key] = device.record  # programs that measure are planned, too
    measured = measure(device, seconds)
    _known[device.key] = measured
    text = json.dumps({"method": METHOD, **measured.as_dict()})
    cache.write("calibration", _file(device), text.encode())
    return measured


def _file(device: Device) -> str:
    return f"{device.key}.json"


def _kept(device: Device) -> DeviceModel | None:
    """The model in the cache; None if there is none, or one that is damaged, of another version, or with
    figures that ``calibrate`` would not keep."""
    guess = device.record
    try:
        values = json.loads(cache.read("calibration", _file(device)) or b"null")
        if not isinstance(values, dict) or values.pop("method", None) != METHOD:
            return None
        if set(values) != {f.name for f in fields(DeviceModel)}:
            return None
        model = replace(guess, **values)
    except (ValueError, TypeError, RecursionError):
        return None
    kinds = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,)}
    typed = all(type(values[f.name]) in kinds[str(f.type)] for f in fields(DeviceModel))
    bounds = Bounds.of(guess, device)
    good = typed and all(bounds.hold(name, values[name]) for name in FIGURES)
    fixed = {"longest_walk": guess.longest_walk, "tiler": guess.tiler, "name": device.name}
    return model if good and fixed.items() <= values.items() else None


def measure(device: Device, seconds: float = ASKED) -> DeviceModel:
    """Times small programs, what matters most first. Figures are rounded to powers of two, so that those of
    two measurements agree. One that does not settle in time, or that no device of the class has, is the
    class's."""
    guess, watch = device.record, _Stopwatch(device, seconds)
    bounds = Bounds.of(guess, device)
    found: dict[str, Any] = {"name": device.name}

    def keep(name: str, value: float) -> float:
        """The figure that is used: this one, or the class's."""
        value = 2.0 ** round(math.log2(value)) if 0 < value < math.inf else math.nan
        if bounds.hold(name, value):
            found[name] = type(getattr(guess, name))(value)
        return found.get(name, getattr(guess, name))

    draws = replace(
        guess, prefers_dispatches=False, prefers_attachments=False, buffer_store_rate=1.0, image_load_rate=1.0
    )
    images = replace(draws, prefers_dispatches=True)
    loads = replace(images, image_load_rate=math.inf)
    buffers = replace(images, image_store_rate=1.0, buffer_store_rate=math.inf, buffer_fetch_rate=math.inf)
    # Starts may cost next to nothing, less than a difference of times tells.
    barrier = keep("barrier", _at_least(watch.barrier(), guess.barrier / START))
    starts = {}
    for name, cost in (("render_pass", draws), ("dispatch", images)):
        each = watch.step(_passes(PASSES), cost) / (PASSES + 1) - barrier
        starts[name] = barrier + keep(name, _at_least(each, getattr(guess, name) / START))

    def rate(
        make: Callable[[Size], Program], cost: DeviceModel, work: float, of_class: float, passes: int = 1
    ) -> tuple[float, float]:
        """Seconds of a texel and units of work a second of a program at so many passes over an image, which
        has ``work`` units a texel; NaN if it does not settle. of_class: that of the class."""
        start = passes * starts["dispatch" if cost.prefers_dispatches else "render_pass"]
        texels, took = watch.growing(make, cost, _area(of_class * 2 * STEP / work), start)
        return took / texels, _per_second(work * texels, took)

    chain = partial(_chain, length=LONG)
    drawn = keep("fragment_rate", rate(chain, draws, LONG, guess.fragment_rate)[1])
    dispatched = keep("compute_rate", rate(chain, images, LONG, guess.compute_rate)[1])
    if {"fragment_rate", "compute_rate"} <= found.keys():
        found["prefers_dispatches"] = dispatched > FASTER * drawn
    preferred = images if found.get("prefers_dispatches", guess.prefers_dispatches) else draws
    # Two equations, for reading and writing a texel: 16 reads of an image that is written, and 8 passes.
    for cost, reads, stores in (
        (images, "fetch_rate", "image_store_rate"),
        (loads, "image_load_rate", ""),
        (buffers, "buffer_fetch_rate", "buffer_store_rate"),
    ):
        of_reads = getattr(guess, reads)
        many, _ = rate(partial(_reading, count=FETCHES), cost, FETCHES, of_reads, 2)
        handed, hand = math.nan, partial(_handing, count=HANDED)
        if stores:
            handed, _ = rate(hand, cost, HANDED, getattr(guess, stores), HANDED + 1)
        stored = (FETCHES * handed - HANDED * many) / (FETCHES * (HANDED + 1) - 2 * HANDED)
        read = (many - (0 if math.isnan(stored) else 2 * max(stored, 0.0))) / FETCHES
        keep(reads, _per_second(1, read))
        if stores:
            keep(stores, _per_second(1, stored))
    handed, _ = rate(partial(_handing, count=HANDED), draws, HANDED, guess.store_rate, HANDED + 1)
    stored = (handed - HANDED / found.get("fetch_rate", guess.fetch_rate)) / (HANDED + 1)
    keep("store_rate", _per_second(1, stored))
    area = _area(guess.bandwidth * STEP / 32, CACHED)
    took = watch.step(_handing(_size(area), 4), preferred)
    keep("bandwidth", _per_second(16 * 9 * area, took))
    updates = [watch.step(_updating(), replace(draws, prefers_attachments=a)) for a in (False, True)]
    if not any(map(math.isnan, updates)):
        found["prefers_attachments"] = updates[0] > FASTER * updates[1]
    keep("atomic_rate", rate(_adding, images, 4, guess.atomic_rate, 3)[1])
    keep("fill_rate", rate(partial(_drawing, 1), draws, 2, guess.fill_rate, 2)[1])
    triangles = max(int(guess.vertex_rate * 2 * STEP / 3), 256)
    took = watch.step(_drawing(triangles, (16, 16)), draws) - 2 * starts["render_pass"]
    keep("vertex_rate", _per_second(3 * triangles, took))
    texels = max(int(2 * STEP / guess.fetch_latency), 512)
    took = watch.step(_walking(texels), preferred)
    keep("fetch_latency", took / texels)
    sampling = partial(_sampling, count=FETCHES)
    keep("filter_rate", rate(sampling, willing(preferred), FETCHES, guess.filter_rate)[1])
    short, long = (watch.step(_chain((1, 1), n), preferred) for n in (SHORT, LONG))
    if long > 1.5 * short:  # on GPUs starts hide the difference
        keep("lanes", max(max(drawn, dispatched) * (long - short) / (LONG - SHORT), 1.0))
    return replace(guess, **found)


def _per_second(work: float, seconds: float) -> float:
    """NaN where no time was measured."""
    return work / seconds if seconds > 0 else math.nan


def _at_least(x: float, least: float) -> float:
    """NaN stays NaN."""
    return x if math.isnan(x) else max(x, least)


def _area(texels: float, least: int = 1 << 12) -> int:
    """A power of two, of texels that an image can have."""
    return 1 << round(math.log2(min(max(texels, least), LARGEST)))


def _size(texels: float) -> Size:
    bits = int(math.log2(_area(texels, 1)))
    return 1 << (bits + 1) // 2, 1 << bits // 2


class _Stopwatch:
    """Times steps of programs until the time is over; NaN for what does not settle or cannot be built."""

    def __init__(self, device: Device, seconds: float):
        self._device, start = device, time.perf_counter()
        self._warm, self._end = start + WARM, start + seconds

    @property
    def over(self) -> bool:
        return time.perf_counter() > self._end

    def step(self, program: Program, cost: DeviceModel) -> float:
        """Seconds of a step."""
        if self.over:
            return math.nan
        try:
            with self._executor(program, cost) as run:
                return self._settled(lambda steps: _timed(run, steps))
        except DeviceLostError:
            raise  # what comes after would say so without the cause
        except DressiError:
            return math.nan

    def growing(
        self, make: Callable[[Size], Program], cost: DeviceModel, area: int, start: float
    ) -> tuple[int, float]:
        """(texels, seconds of a step without its starts) of a program over images large enough to tell."""
        for _ in range(SIZES):
            took = self.step(make(_size(area)), cost)
            if math.isnan(took) or took >= max(STEP, 2 * start) or area == LARGEST:
                break
            area = min(area * GROWTH, LARGEST)
        return area, took - start if took > 1.5 * start else math.nan

    def barrier(self) -> float:
        """Seconds of a full barrier between nothing and nothing."""
        commands = Commands(self._device)

        def submitted(buffer: Any, times: int) -> float:
            start = time.perf_counter()
            commands.submit(*[buffer] * times)
            commands.wait()
            return time.perf_counter() - start

        def write(buffer: Any) -> None:
            for _ in range(256):
                commands.barrier(buffer)

        try:
            buffer = commands.record(write)
            return self._settled(partial(submitted, buffer)) / 256
        except DeviceLostError:
            raise
        except DressiError:
            return math.nan
        finally:
            if self._device.settle():
                commands.destroy()

    def _executor(self, program: Program, cost: DeviceModel) -> VulkanExecutor:
        options = PlanOptions(rematerialize=False, adapt=False)
        return VulkanExecutor(program, self._device, options=options, cost=cost)

    def _settled(self, timed: Callable[[int], float]) -> float:
        """Seconds of one, of as many as take long enough, when two tries agree; the first does not count."""
        timed(1)
        while time.perf_counter() < self._warm:
            timed(1)
        if self.over:
            return math.nan
        steps, took = 1, timed(1)
        while took < RUN and steps < STEPS and not self.over:
            steps = min(math.ceil(1.2 * steps * RUN / took), 16 * steps, STEPS)
            took = timed(steps)
        times = [took]
        for _ in range(TRIES):
            times.append(timed(steps))
            best, second = sorted(times)[:2]
            if second <= AGREEMENT * best:
                return best / steps
            if self.over:
                break
        return math.nan


def _timed(run: VulkanExecutor, steps: int) -> float:
    start = time.perf_counter()
    run.run(steps)
    run.wait()
    return time.perf_counter() - start


# ---- the programs
def _counted(make: Callable[[Variable], Variable]) -> Program:
    """A program of a value that depends on a counter, so that every step computes it."""
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    return Program({"y": make(F.to_float(count))}, ((count, count + 1),))


def _chain(size: Size, length: int) -> Program:
    """Operations that depend on each other, at every pixel."""

    def make(start: Variable) -> Variable:
        y = F.to_float(F.linear_index(size)) * 1e-6 + start
        for _ in range(length // 2):
            y = y * 0.999 + 0.5
        return y

    return _counted(make)


def _passes(count: int) -> Program:
    """Passes over one texel that depend on each other."""

    def make(y: Variable) -> Variable:
        for _ in range(count):
            y = F.lookup(y, 0) + 1.0
        return y

    return _counted(make)


def _image(size: Size, start: Variable, vtype: VType = VEC4) -> Variable:
    y = F.to_float(F.linear_index(size)) * 1e-6 + start
    return y if vtype is FLOAT else F.vec4(y, y + 1.0, y, 1.0)


def _handing(size: Size, count: int) -> Program:
    """So many passes, each of which reads another texel of what the one before made."""

    def make(start: Variable) -> Variable:
        y = _image(size, start)
        for _ in range(count):
            y = F.shift(y * 0.5 + 1.0, 1, 0)
        return y

    return _counted(make)


def _reading(size: Size, count: int) -> Program:
    """An image that is made and read at so many texels."""

    def make(start: Variable) -> Variable:
        stored = _image(size, start)
        total = F.shift(stored, 1, 0)
        for k in range(1, count):
            total = total + F.shift(stored, 1 + k % 4, k // 4)
        return total

    return _counted(make)


def _adding(size: Size) -> Program:
    """Every texel, of four components, added into one of its own."""
    return _counted(
        lambda start: F.scatter_add(_image(size, start), F.linear_index(size), size, bound=F.constant(1e6))
    )


def _sampling(size: Size, count: int) -> Program:
    """So many bilinear reads at every pixel, at places that are computed there."""

    def make(start: Variable) -> Variable:
        image = _image(WIDE, start)
        pixel = F.to_float(F.pixel_coordinates(size)) + 0.3 + start * 1e-30
        place = pixel / (float(WIDE[0]), float(WIDE[1]))
        y = F.sample(image, place, tolerance=1.0).x
        for k in range(1, count):
            y = y + F.sample(image, place + (0.013 * k, 0.007 * k), tolerance=1.0).x
        return y

    return _counted(make)


def _walking(texels: int) -> Program:
    """One invocation that adds up a row of texels."""
    return _counted(lambda start: F.sum(_image((texels, 1), start, FLOAT), "x"))


def _drawing(triangles: int, over: Size) -> Program:
    """So many triangles that cover no pixel, over an image with depth."""
    size = (256, -(-3 * triangles // 256))

    def make(start: Variable) -> Variable:
        return F.rasterize(F.vec4(F.to_float(F.linear_index(size)) * 0.0, start * 1e-30, 0.5, 1.0), size=over)

    return _counted(make)


def _updating() -> Program:
    """An image overwritten in place."""
    width, height = UPDATED
    image = Variable(VEC4, UPDATED, name="image", data=np.zeros((1, height, width, 4), np.float32))
    return Program({}, ((image, image * 0.5 + 1.0),))


# How far a device's sampler is off the meaning of ``F.sample``.

TEXTURE: Size = (12, 9)
POINTS: Size = (64, 64)


def willing(model: DeviceModel) -> DeviceModel:
    """The model of a device whose sampler costs nothing, so that plans use it wherever they may."""
    return replace(model, filter_rate=inf)


def sampler_errors(device: Device, model: DeviceModel) -> dict[str, float]:
    """The largest error of each filter, ``bilinear`` and ``nearest``, relative to the range of the texture's
    values: noise, read inside and outside, many points close to borders of texels."""
    rng = np.random.default_rng(7)
    texels = rng.uniform(0, 1, (1, TEXTURE[1], TEXTURE[0], 4))
    texels[0, 0, 0], texels[0, 0, 1] = 0, 1  # the whole range, between neighbours
    border = rng.integers(-12, 24, (1, POINTS[1], POINTS[0], 2)) / TEXTURE
    near = border + rng.choice((-1, 1), border.shape) * 10 ** rng.uniform(-4.5, -2, border.shape)
    anywhere = rng.uniform(-1.2, 2.2, border.shape)
    places = np.where(rng.random(border.shape) < 0.5, near, anywhere).astype(np.float32)
    texture, uv = Variable(VEC4, TEXTURE, data=texels), Variable(VEC2, POINTS, data=places)
    filters = ("bilinear", "nearest")
    ways = [(filter, wrap) for filter in filters for wrap in ("repeat", "clamp")]
    program = Program({" ".join(way): F.sample(texture, uv, *way, tolerance=1.0) for way in ways})
    exact = NumpyExecutor(program)
    exact.run(1)
    found: dict[str, float] = dict.fromkeys(filters, 0.0)
    with VulkanExecutor(program, device, cost=willing(model)) as run:
        run.run(1)
        for name, v in program.outputs.items():
            filter = name.split()[0]
            found[filter] = max(found[filter], float(np.abs(run.recv(v) - exact.recv(v)).max()))
    return found
