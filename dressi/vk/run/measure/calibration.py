"""The device model of an open device: measured in a second or two, and kept beside the pipeline cache.

GPUs are measured before their first plan if there is a cache to keep the result in. CPU drivers share their cores with
other programs, so they are measured only on request (`dressi devices --calibrate`); their record serves well otherwise.
Results do not depend on the model, speed does.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import fields, replace
from weakref import WeakKeyDictionary

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.program import Program
from ....ad.types import FLOAT, INT, VEC4, Size
from ....config import config
from ....errors import DressiError
from ...plan.model.device import DeviceModel
from ...plan.model.records import record_of
from ...plan.options import PlanOptions
from ..device.device import Device
from ..executor import VulkanExecutor
from ..host import cache
from .bandwidth import barrier_seconds, copy_bandwidth
from .sampling import sampler_errors, willing

WIDE: Size = (256, 256)
LONG, SHORT = 256, 32  # operations of the chains that are timed
PASSES = 16
FETCHES = 16
WALK = 8192  # texels of the row that one invocation adds up
TRIANGLES = 8192
FILLED: Size = (1024, 1024)
FASTER = 1.25
"""Dispatches, or attachments for updates in place, are preferred if they are faster by this factor. Otherwise render
passes keep more on the chip."""
_known: WeakKeyDictionary[Device, DeviceModel] = WeakKeyDictionary()


def model_of(device: Device) -> DeviceModel:
    """The model of a device: the kept one, else a measured one (a GPU with a cache), else the record of its class.
    Never raises."""
    if device not in _known:
        _known[device] = _kept(device) or _first(device)
    return _known[device]


def guess_of(device: Device) -> DeviceModel:
    """The record of the device's class, without measuring."""
    return record_of(device.physical.type, tiler=device.limits.lazy_images)


def _first(device: Device) -> DeviceModel:
    guess = guess_of(device)
    if device.physical.type == "cpu" or config.cache is None:
        return guess
    _known[device] = guess  # programs that measure are planned, too
    try:
        return calibrate(device)
    except DressiError:
        return guess


def calibrate(device: Device) -> DeviceModel:
    """Measures a device, and keeps the result if there is a cache. Raises DressiErrors."""
    measured = measure(device)
    _known[device] = measured
    cache.write("calibration", _file(device), json.dumps(measured.as_dict()).encode())
    return measured


def _file(device: Device) -> str:
    return f"{device.key}.json"


def _kept(device: Device) -> DeviceModel | None:
    """The model in the cache; None if there is none, or one that is damaged or of another version."""
    try:
        values = json.loads(cache.read("calibration", _file(device)) or b"null")
        if not isinstance(values, dict) or set(values) != {f.name for f in fields(DeviceModel)}:
            return None
        words = {f.name for f in fields(DeviceModel) if f.type in ("str", "bool")}
        figures = [value for name, value in values.items() if name not in words]
        good = all(isinstance(x, int | float) and 0 < x < math.inf for x in figures)
        whole = all(isinstance(values[name], int) for name in ("lanes", "longest_walk"))
        return DeviceModel(**values) if good and whole else None
    except (ValueError, TypeError, RecursionError):
        return None


def measure(device: Device) -> DeviceModel:
    """Times small programs. Figures are rounded to powers of two, so that those of two runs agree."""
    guess = guess_of(device)
    short, long = (_seconds(device, _chain((1, 1), n)) for n in (SHORT, LONG))
    operation = max((long - short) / (LONG - SHORT), 1e-12)  # of one invocation, one after the other
    barrier = barrier_seconds(device)
    one, many = (_seconds(device, _passes(n)) for n in (1, PASSES + 1))
    render_pass = max((many - one) / PASSES - barrier, 1e-9)
    one, many = (_seconds(device, _passes(n), dispatches=True) for n in (1, PASSES + 1))
    dispatch = max((many - one) / PASSES - barrier, 1e-9)
    texels = WIDE[0] * WIDE[1]
    fragments, dispatched = (_seconds(device, _chain(WIDE, LONG), dispatches=d) for d in (False, True))
    fragment_rate, compute_rate = (
        _power(texels * LONG / max(seconds - start, 1e-9))
        for seconds, start in ((fragments, render_pass), (dispatched, dispatch))
    )
    lanes = max(_power(max(fragment_rate, compute_rate) * operation), 1.0)
    fetched = (_seconds(device, _fetching(FETCHES)) - _seconds(device, _fetching(1))) / (FETCHES - 1) / texels
    fetch_rate = _power(min(1 / max(fetched, 1e-15), fragment_rate))
    sampled = [_seconds(device, _sampling(n), sampler=True) for n in (1, FETCHES)]
    filtered = (sampled[1] - sampled[0]) / (FETCHES - 1) / texels
    stored, drawn = (_seconds(device, _updating(), attachments=a) for a in (False, True))
    walked = _seconds(device, _walking(WALK)) - _seconds(device, _walking(WALK // 16))
    side = FILLED[0] // 4
    small, large = (_seconds(device, _drawing(1, size)) for size in ((side, side), FILLED))
    few, all_drawn = (_seconds(device, _drawing(n)) for n in (TRIANGLES // 16, TRIANGLES))
    return replace(
        guess,
        name=device.name,
        bandwidth=_power(copy_bandwidth(device)),
        fragment_rate=fragment_rate,
        compute_rate=compute_rate,
        fetch_rate=fetch_rate,
        filter_rate=_power(min(1 / max(filtered, 1e-15), fragment_rate)),
        store_rate=2 * fetch_rate,
        fill_rate=_power(FILLED[0] * FILLED[1] * 2 * 15 / 16 / max(large - small, 1e-9)),
        vertex_rate=_power(3 * TRIANGLES * 15 / 16 / max(all_drawn - few, 1e-9)),
        fetch_latency=_power(max(walked / (WALK * 15 / 16), 1e-9)),
        barrier=_power(barrier),
        render_pass=_power(render_pass),
        dispatch=_power(dispatch),
        lanes=int(lanes),
        **sampler_errors(device, guess),
        prefers_dispatches=fragments > FASTER * dispatched,
        prefers_attachments=stored > FASTER * drawn,
    )


def _power(x: float) -> float:
    return 2.0 ** round(math.log2(x))


def _counted(make: Callable[[Variable], Variable]) -> Program:
    """A program of a value that is made of a counter, so that every step computes it."""
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


def _fetching(count: int) -> Program:
    """So many texels fetched at every pixel."""
    image = Variable(FLOAT, WIDE, name="image", data=np.zeros((1, WIDE[1], WIDE[0])))

    def make(start: Variable) -> Variable:
        y = start
        for k in range(count):
            y = y + F.shift(image, k % 4, k // 4)
        return y

    return _counted(make)


def _sampling(count: int) -> Program:
    """So many bilinear reads at every pixel."""
    image = Variable(VEC4, WIDE, name="image", data=np.zeros((1, WIDE[1], WIDE[0], 4)))
    place = (F.to_float(F.pixel_coordinates(WIDE)) + 0.3) / (float(WIDE[0]), float(WIDE[1]))

    def make(start: Variable) -> Variable:
        y = start
        for k in range(count):
            y = y + F.sample(image, place + (0.013 * k, 0.007 * k), tolerance=1.0).x
        return y

    return _counted(make)


def _walking(texels: int) -> Program:
    """One invocation that adds up a row of texels."""
    row = Variable(FLOAT, (texels, 1), name="row", data=np.zeros((1, 1, texels)))
    return _counted(lambda start: F.sum(row, "x") + start)


def _drawing(triangles: int, over: Size = (16, 16)) -> Program:
    """So many triangles that cover no pixel, over an image with depth."""
    size = (64, -(-3 * triangles // 64))
    corners = Variable(VEC4, size, name="corners", data=np.zeros((1, size[1], size[0], 4)) + (0, 0, 0.5, 1))
    return _counted(lambda start: F.to_float(F.rasterize(corners + start * 1e-30, size=over)))


def _updating() -> Program:
    """An image overwritten in place."""
    image = Variable(VEC4, WIDE, name="image", data=np.zeros((1, WIDE[1], WIDE[0], 4)))
    return Program({}, ((image, image * 0.5 + 1.0),))


def _seconds(
    device: Device,
    program: Program,
    *,
    dispatches: bool = False,
    attachments: bool = False,
    sampler: bool = False,
    steps: int = 4,
    repeats: int = 5,
) -> float:
    """Of one step; the best of several tries."""
    options = PlanOptions(rematerialize=False, store_operands=False)
    model = replace(guess_of(device), prefers_dispatches=dispatches, prefers_attachments=attachments)
    cost = willing(model) if sampler else model
    with VulkanExecutor(program, device, options=options, cost=cost) as run:
        best = math.inf
        for _ in range(repeats):
            start = time.perf_counter()
            run.run(steps)
            run.wait()
            best = min(best, (time.perf_counter() - start) / steps)
    return best
