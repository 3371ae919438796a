"""The device model of an open device: measured in a second or two, and kept beside the pipeline cache.

GPUs are measured before their first plan, at least twice, and until the runs agree. What is kept in the cache is checked
like a measurement. CPU drivers share their cores with other programs, so they are measured only on request (`dressi
devices --calibrate`); their record serves well otherwise.
Results do not depend on the model, speed does.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from statistics import median_low
from weakref import WeakKeyDictionary

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.graph.user_code import user_level
from ....ad.program import Program
from ....ad.types import FLOAT, INT, VEC4, Size, VType
from ....errors import DressiError
from ...plan.model.device import DeviceModel
from ...plan.options import PlanOptions
from ..device.device import Device
from ..executor import VulkanExecutor
from ..host import cache
from .bandwidth import barrier_seconds, copy_bandwidth
from .bounds import FIGURES, SPREAD, Bounds
from .sampling import LEAST, sampler_errors, willing
from .storage import storage_rates

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
AGREEMENT = 4.0
"""Two runs agree within this factor: rounding to powers of two alone makes 2 of equal times, clocks that change another 2."""
START = SPREAD / 2
"""The seconds of a start are counted as those of the class divided by this at least; half, as powers of two are rounded."""
RUNS = 4
_known: WeakKeyDictionary[Device, DeviceModel] = WeakKeyDictionary()
_told: set[str] = set()  # keys of devices that were named as wrong


def model_of(device: Device) -> DeviceModel:
    """The model of a device: the kept one, else a measured one (a GPU), else the record of its class.
    Never raises."""
    if device not in _known:
        _known[device] = _kept(device) or _first(device)
    return _known[device]


def guess_of(device: Device) -> DeviceModel:
    """The record of the device's class, without measuring."""
    return device.record


def _first(device: Device) -> DeviceModel:
    guess = guess_of(device)
    if device.physical.type == "cpu":
        return guess
    _known[device] = guess  # programs that measure are planned, too
    try:
        return calibrate(device)
    except DressiError:
        return guess


def calibrate(device: Device) -> DeviceModel:
    """Measures a device until two runs agree on each figure, and keeps the result if there is a cache. A result that does
    not settle is used and not kept; with figures that are out of bounds in every run the record of the class is used, and
    a RuntimeWarning names the device. Raises DressiErrors."""
    guess, runs = guess_of(device), [measure(device)]
    bounds = Bounds.of(guess, device)
    settled: dict[str, float | None] = {"": None}
    while len(runs) < RUNS and None in settled.values():
        runs.append(measure(device))
        settled = {name: _agreed(bounds, name, runs) for name in FIGURES}
    wrong = [name for name in FIGURES if not any(bounds.hold(name, getattr(run, name)) for run in runs)]
    if wrong:
        _warn(device, guess, wrong, runs[-1])
        _known[device] = guess
        return guess
    found = {
        name: median_low(
            x for run in runs if bounds.hold(name, x := getattr(run, name))
        ) if value is None else value
        for name, value in settled.items()
    }  # fmt: skip
    measured = _known[device] = replace(runs[-1], **found)
    if None not in settled.values():
        cache.write("calibration", _file(device), json.dumps(measured.as_dict()).encode())
    return measured


def _agreed(bounds: Bounds, name: str, runs: list[DeviceModel]) -> float | None:
    """The figure of the latest run in bounds that an earlier one agrees with; None if there is none."""
    values = [x for run in runs if bounds.hold(name, x := getattr(run, name))]
    for k in reversed(range(1, len(values))):
        if any(max(values[k], x) <= AGREEMENT * min(values[k], x) for x in values[:k]):
            return values[k]
    return None


def _warn(device: Device, guess: DeviceModel, wrong: list[str], found: DeviceModel) -> None:
    if device.key in _told:
        return
    _told.add(device.key)
    figures = ", ".join(
        f"{name} {getattr(found, name):.3g} (its class: {getattr(guess, name):.3g})" for name in wrong
    )
    p = device.physical
    warnings.warn(
        f"{device.name} (driver {p.driver} {p.driver_version}) measures what no device of its class does: {figures}; plans "
        f"use the record {guess.name!r} of its class. Its clock or its driver is wrong: send this line and the output of "
        "`dressi doctor --gpu` to the driver's makers",
        RuntimeWarning,
        stacklevel=user_level(),
    )


def _file(device: Device) -> str:
    return f"{device.key}.json"


def _kept(device: Device) -> DeviceModel | None:
    """The model in the cache; None if there is none, or one that is damaged, of another version, or with figures that
    ``calibrate`` would not keep."""
    guess = guess_of(device)
    try:
        values = json.loads(cache.read("calibration", _file(device)) or b"null")
        if not isinstance(values, dict) or set(values) != {f.name for f in fields(DeviceModel)}:
            return None
        model = replace(guess, **values)
    except (ValueError, TypeError, RecursionError):
        return None
    kinds = {"int": (int,), "float": (float, int), "bool": (bool,), "str": (str,)}
    typed = all(type(values[f.name]) in kinds[str(f.type)] for f in fields(DeviceModel))
    bounds = Bounds.of(guess, device)
    good = typed and all(bounds.hold(name, values[name]) for name in FIGURES)
    errors = good and all(LEAST <= values[name] <= 1 for name in ("bilinear_error", "nearest_error"))
    fixed = {"longest_walk": guess.longest_walk, "tiler": guess.tiler, "name": device.name}
    return model if errors and fixed.items() <= values.items() else None


def measure(device: Device) -> DeviceModel:
    """Times small programs. Figures are rounded to powers of two, so that those of two runs agree."""
    guess = guess_of(device)
    short, long = (_seconds(device, _chain((1, 1), n), steps=64) for n in (SHORT, LONG))
    operation = (long - short) / (LONG - SHORT)  # of one invocation, one after the other
    # Starts may cost next to nothing, less than a difference of times tells.
    barrier = max(barrier_seconds(device), guess.barrier / START)
    one, many = (_seconds(device, _passes(n)) for n in (1, PASSES + 1))
    render_pass = max((many - one) / PASSES - barrier, guess.render_pass / START)
    one, many = (_seconds(device, _passes(n), dispatches=True) for n in (1, PASSES + 1))
    dispatch = max((many - one) / PASSES - barrier, guess.dispatch / START)
    texels = WIDE[0] * WIDE[1]
    fragments, dispatched = (_seconds(device, _chain(WIDE, LONG), dispatches=d) for d in (False, True))
    fragment_rate, compute_rate = (
        _power(texels * LONG / max(seconds - start, 1e-9))
        for seconds, start in ((fragments, render_pass), (dispatched, dispatch))
    )
    lanes = max(_power(max(fragment_rate, compute_rate) * operation), 1.0) if operation > 0 else guess.lanes
    prefers = fragments > FASTER * dispatched
    rate = compute_rate if prefers else fragment_rate
    least, most = (_seconds(device, _fetching(n), dispatches=prefers) for n in (1, FETCHES))
    fetched = (most - least) / (FETCHES - 1) / texels
    fetch_rate = _rate(1, fetched, guess.fetch_rate, rate)
    sampled = [_seconds(device, _sampling(n), sampler=True, dispatches=prefers) for n in (1, FETCHES)]
    filtered = (sampled[1] - sampled[0]) / (FETCHES - 1) / texels
    updated, drawn = (_seconds(device, _updating(), attachments=a) for a in (False, True))
    stored = storage_rates(lambda program, model: _timed(device, program, model), guess)
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
        filter_rate=_rate(1, filtered, guess.filter_rate, rate),
        **{name: _power(rate) for name, rate in stored.items()},
        fill_rate=_rate(FILLED[0] * FILLED[1] * 2 * 15 / 16, large - small, guess.fill_rate),
        vertex_rate=_rate(3 * TRIANGLES * 15 / 16, all_drawn - few, guess.vertex_rate),
        fetch_latency=_power(max(walked / (WALK * 15 / 16), 1e-9)),
        barrier=_power(barrier),
        render_pass=_power(render_pass),
        dispatch=_power(dispatch),
        lanes=int(lanes),
        **sampler_errors(device, guess),
        prefers_dispatches=prefers,
        prefers_attachments=updated > FASTER * drawn,
    )


def _rate(work: float, seconds: float, of_class: float, most: float = math.inf) -> float:
    """A rate from a difference of times; that of the class where the difference drowns in what the host takes."""
    return _power(min(work / seconds, most)) if seconds > 0 else of_class


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


def _changing(vtype: VType, size: Size, make: Callable[[Variable], Variable]) -> Program:
    """A program of a value that is made of an image. Every step changes the image: what is made of one that stays is
    computed once and kept."""
    image = Variable(vtype, size, name="image", data=np.zeros((1, size[1], size[0], *vtype.shape)))
    return Program({"y": make(image)}, ((image, image * 0.5 + 1.0),))


def _fetching(count: int) -> Program:
    """So many texels fetched at every pixel."""

    def make(image: Variable) -> Variable:
        y = F.shift(image, 0, 0)
        for k in range(1, count):
            y = y + F.shift(image, k % 4, k // 4)
        return y

    return _changing(FLOAT, WIDE, make)


def _sampling(count: int) -> Program:
    """So many bilinear reads at every pixel, at places that are computed there."""

    def make(image: Variable) -> Variable:
        place = F.to_float(F.pixel_coordinates(WIDE)) + 0.3 + image.x * 1e-30
        place = place / (float(WIDE[0]), float(WIDE[1]))
        y = F.sample(image, place, tolerance=1.0).x
        for k in range(1, count):
            y = y + F.sample(image, place + (0.013 * k, 0.007 * k), tolerance=1.0).x
        return y

    return _changing(VEC4, WIDE, make)


def _walking(texels: int) -> Program:
    """One invocation that adds up a row of texels."""
    return _changing(FLOAT, (texels, 1), lambda row: F.sum(row, "x"))


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
    model = replace(
        guess_of(device), prefers_dispatches=dispatches, prefers_attachments=attachments, image_load_rate=1.0
    )
    cost = willing(model) if sampler else model
    return _timed(device, program, cost, steps, repeats)


def _timed(device: Device, program: Program, cost: DeviceModel, steps: int = 4, repeats: int = 5) -> float:
    options = PlanOptions(rematerialize=False, store_operands=False)
    with VulkanExecutor(program, device, options=options, cost=cost) as run:
        best = math.inf
        for _ in range(repeats):
            start = time.perf_counter()
            run.run(steps)
            run.wait()
            best = min(best, (time.perf_counter() - start) / steps)
    return best
