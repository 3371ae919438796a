"""What work costs on a device, for the planner's choices: measured in a second, kept beside the pipeline cache.

GPUs are measured before their first plan, where there is a cache to keep the result in. CPU drivers share their
cores with whatever else runs: they are measured only when asked (`dressi devices --calibrate`), a guess serves well.
Whatever the figures, plans give the same values; they differ in speed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from weakref import WeakKeyDictionary

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.program import Program
from ...ad.types import FLOAT, INT, VEC4, Size
from ...config import config
from ...errors import DressiError
from ..plan.cost import CostModel
from ..plan.plan import PlanOptions
from .device.device import Device
from .host import cache

CPU = CostModel()
GPU = CostModel(lanes=1 << 14, fetch=8.0, store=8.0, stage=2000.0, attachments=False, longest_walk=256)
"""Guesses: of drivers that run on a CPU, and of all others."""
WIDE: Size = (256, 256)
LONG, SHORT = 256, 32  # operations of the chains that are timed
PASSES = 16
FETCHES = 16
COMPUTE_GAIN = 1.25
"""Dispatches are preferred where they are faster by this factor; render passes keep more on the chip. Draws are, for
updates in place, where they are faster by it."""
_known: WeakKeyDictionary[Device, CostModel] = WeakKeyDictionary()


def cost_of(device: Device) -> CostModel:
    """The figures of a device: kept ones, else measured (a GPU with a cache), else guessed. Never raises."""
    if device not in _known:
        _known[device] = _kept(device) or _first(device)
    return _known[device]


def _first(device: Device) -> CostModel:
    if device.physical.type == "cpu":
        return CPU
    _known[device] = GPU  # measuring plans, too
    try:
        return calibrate(device) if config.cache is not None else GPU
    except DressiError:
        return GPU


def calibrate(device: Device) -> CostModel:
    """Measures a device and keeps the result, where there is a cache. Raises DressiErrors."""
    measured = measure(device)
    _known[device] = measured
    cache.write("calibration", _file(device), json.dumps(asdict(measured)).encode())
    return measured


def _file(device: Device) -> str:
    return f"{device.key}.json"


def _kept(device: Device) -> CostModel | None:
    try:
        values = json.loads(cache.read("calibration", _file(device)) or b"null")
        if not isinstance(values, dict) or set(values) != {f.name for f in fields(CostModel)}:
            return None
        model = CostModel(**values)
        figures = (model.lanes, model.fetch, model.store, model.stage)
        good = all(isinstance(x, int | float) and 0 <= x < math.inf for x in figures) and model.lanes >= 1
        return replace(model, lanes=int(model.lanes)) if good else None
    except (ValueError, TypeError, RecursionError):
        return None


def measure(device: Device) -> CostModel:
    """Times small programs. Rounded to powers of two: figures of two runs agree."""
    short, long = (_seconds(device, _chain((1, 1), n)) for n in (SHORT, LONG))
    operation = max((long - short) / (LONG - SHORT), 1e-12)  # of one invocation, one after the other
    one, many = (_seconds(device, _passes(n)) for n in (1, PASSES + 1))
    stage = max((many - one) / PASSES, operation)
    wide = _seconds(device, _chain(WIDE, LONG))
    compute = _seconds(device, _chain(WIDE, LONG), compute=True)
    fetched = _seconds(device, _fetching(FETCHES)) - _seconds(device, _fetching(1))
    stored, drawn = (_seconds(device, _updating(), attachments=a) for a in (False, True))
    texels = WIDE[0] * WIDE[1]
    work = max(min(wide, compute) - stage, 1e-9)
    lanes = _power(max(texels * LONG * operation / work, 1.0))
    fetch = max(fetched, 0.0) / (FETCHES - 1) * lanes / texels / operation
    return CostModel(
        lanes=int(lanes),
        fetch=_power(max(fetch, 1.0)),
        store=_power(max(fetch / 2, 1.0)),
        stage=_power(stage / operation),
        compute=wide > COMPUTE_GAIN * compute,
        attachments=stored > COMPUTE_GAIN * drawn,
        longest_walk=(CPU if device.physical.type == "cpu" else GPU).longest_walk,
    )


def _power(x: float) -> float:
    return 2.0 ** round(math.log2(x))


def _counted(make: Callable[[Variable], Variable]) -> Program:
    """What is made of a counter, so that every step makes it anew."""
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    return Program({"y": make(F.to_float(count))}, ((count, count + 1),))


def _chain(size: Size, length: int) -> Program:
    """Operations that wait for each other, at every pixel."""

    def make(start: Variable) -> Variable:
        y = F.to_float(F.linear_index(size)) * 1e-6 + start
        for _ in range(length // 2):
            y = y * 0.999 + 0.5
        return y

    return _counted(make)


def _passes(count: int) -> Program:
    """Passes over one texel that wait for each other."""

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


def _updating() -> Program:
    """An image overwritten in place."""
    image = Variable(VEC4, WIDE, name="image", data=np.zeros((1, WIDE[1], WIDE[0], 4)))
    return Program({}, ((image, image * 0.5 + 1.0),))


def _seconds(
    device: Device,
    program: Program,
    *,
    compute: bool = False,
    attachments: bool = False,
    steps: int = 4,
    repeats: int = 5,
) -> float:
    """Of one step; the best of several tries."""
    from .executor import VulkanExecutor

    options, cost = PlanOptions(recompute=False), CostModel(compute=compute, attachments=attachments)
    with VulkanExecutor(program, device, options=options, cost=cost) as run:
        best = math.inf
        for _ in range(repeats):
            start = time.perf_counter()
            run.run(steps)
            run.wait()
            best = min(best, (time.perf_counter() - start) / steps)
    return best
