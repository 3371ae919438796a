"""The probes: small programs whose results are compared with their meaning in NumPy."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

from dressi.ad import functional as F
from dressi.ad.graph import PixelFunction, Variable
from dressi.ad.graph.evaluation import NumpyExecutor
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import FLOAT, INT, IVEC3, VEC4, Access
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.options import BASELINE, DEFAULT
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.run.device.device import Device
from dressi.vk.run.device.instance import list_devices
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.measure.calibration import SECONDS, measure, sampler_errors

SIZE = (64, 48)
STEPS = 150
LONGEST_SUBMISSION = 1.0
"""Seconds. Windows resets a GPU after two."""


@dataclass(frozen=True)
class Check:
    """error: the largest difference. allowed: its limit. unit: of both. detail: where, and the values."""

    name: str
    error: float
    allowed: float
    unit: str
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.error <= self.allowed  # False for NaN

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: None for what is not finite."""
        error, allowed = (x if np.isfinite(x) else None for x in (self.error, self.allowed))
        return {**asdict(self), "error": error, "allowed": allowed, "right": self.right}


Pairs = dict[str, tuple[np.ndarray, np.ndarray]]


def _both(device: Device, program: Program, steps: int = 1, **how: Any) -> Pairs:
    """Outputs and updated leaves by the device and by NumPy, by name. how: options of ``VulkanExecutor``."""
    exact = NumpyExecutor(program)
    exact.run(steps)
    wanted = {**program.outputs, **{str(leaf.name): leaf for leaf, _ in program.updates}}
    with VulkanExecutor(program, device, **how) as run:
        run.run(steps)
        run.wait()
        return {name: (run.recv(v), exact.recv(v)) for name, v in wanted.items()}


def _noise(seed: int, *shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def _largest(error: np.ndarray) -> float:
    return float(np.max(error)) if np.isfinite(error).all() else float("nan")


def _absolute(name: str, found: np.ndarray, exact: np.ndarray, allowed: float) -> Check:
    error = np.abs(found.astype(np.float64) - exact)
    worst = np.unravel_index(np.argmax(np.where(np.isfinite(error), error, np.inf)), error.shape)
    detail = f"{found[worst]:.8g} instead of {exact[worst]:.8g} at {tuple(map(int, worst))}"
    return Check(name, _largest(error), allowed, "absolute", detail)


def _texels(name: str, found: np.ndarray, exact: np.ndarray, share: float = 0.0) -> Check:
    """Integers and bits: the share of the texels that differ."""
    return Check(name, float(np.mean(found != exact)), share, "share of texels")


def transfer(device: Device) -> list[Check]:
    """Bits through an upload, a shader that moves them by a texel, and a download."""
    width, height = SIZE
    real = Variable.of(_noise(1, 2, height, width, 4), VEC4, name="real")
    integers = np.random.default_rng(2).integers(-(2**31), 2**31, (1, height, width, 3))
    whole = Variable.of(integers, IVEC3, name="whole")
    found = _both(device, Program({"floats": F.shift(real, 1, 0), "integers": F.shift(whole, 0, 1)}))
    return [_texels(name, *pair) for name, pair in found.items()]


# name -> function, least and greatest argument, ULPs that Vulkan allows, smallest result that they are of.
FUNCTIONS: dict[str, tuple[Callable[[Variable], Variable], float, float, float, float]] = {
    "exp": (F.exp, -8.0, 8.0, 19.0, 0.0),
    "log": (F.log, 2.0, 1000.0, 3.0, 0.0),
    "sqrt": (F.sqrt, 0.01, 1000.0, 4.0, 0.0),
    "inverse": (lambda x: 1.0 / x, 0.01, 100.0, 2.5, 0.0),
    "square": (F.square, -10.0, 10.0, 1.0, 0.0),
    "sin": (F.sin, -3.14, 3.14, 2.0**12, 1.0),
    "cos": (F.cos, -3.14, 3.14, 2.0**12, 1.0),
}
"""sin and cos have an absolute error of 2^-11, which is 2^12 ULPs of results below 1."""


def functions(device: Device) -> list[Check]:
    """Errors in units of the last place, against what the specification of Vulkan allows."""
    width, height = SIZE
    leaves = {
        name: Variable.of(_noise(k, 1, height, width, low=low, high=high), FLOAT, name=f"{name} argument")
        for k, (name, (_, low, high, _, _)) in enumerate(FUNCTIONS.items())
    }
    found = _both(device, Program({name: FUNCTIONS[name][0](leaf) for name, leaf in leaves.items()}))
    checks = []
    for name, (value, exact) in found.items():
        least = FUNCTIONS[name][4]
        place = np.spacing(np.maximum(np.abs(exact), least / 2).astype(np.float32))
        error = np.abs(value.astype(np.float64) - exact) / place
        checks.append(Check(name, _largest(error), FUNCTIONS[name][3], "ULP"))
    return checks


class MirroredFetch(PixelFunction):
    """Reads the texel that lies opposite of its own, by a function that the shader calls."""

    access = (Access.FETCH,)
    operations, fetches = 4.0, 1.0
    no_derivative = "is a probe of drivers"
    glsl = "$0(ivec2($size0.x - 1 - pixel.x, $size0.y - 1 - pixel.y), tile)"

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    def eval(self, x):
        return x[:, ::-1, ::-1]


def _kinds(device: Device) -> dict[str, DeviceModel]:
    """Models that have plans keep what they hand on in textures, storage images and storage buffers."""
    draws = replace(device.record, image_load_rate=1.0, buffer_store_rate=1.0, prefers_dispatches=False)
    images = replace(draws, prefers_dispatches=True, image_load_rate=np.inf)
    rates = {"image_store_rate": 1.0, "buffer_store_rate": np.inf, "buffer_fetch_rate": np.inf}
    return {
        "texture": draws,
        "dispatched texture": replace(draws, prefers_dispatches=True),
        "image": images,
        "buffer": replace(images, **rates),
    }


def mirrored(device: Device) -> list[Check]:
    """Texels of small images at falling indices, as 4 - x. The constant fits into the field of an
    instruction; a driver that moves it there may test the rest, -x, against the image and read zeros."""
    width, height = 5, 4
    image = Variable.of(_noise(12, 1, height, width, low=1.0, high=2.0), FLOAT, name="image")
    stored = image * 2.0
    column, row = F.linear_index((width, height)) % width, F.linear_index((width, height)) / width
    opposite = (height - 1 - row) * width + (width - 1 - column)
    product = f"o[y, x] = a[{height - 1} - y, {width - 1} - x] * b[y, x]"
    outputs = {
        "map": F.flip(F.flip(stored, "x"), "y"),
        "lookup": F.lookup(stored, opposite),
        "function": F.apply(MirroredFetch, stored),
        "shifted twice": F.shift(F.shift(stored, -3, 0), 4, 0),
        "product": F.contract(product, a=stored, b=stored),
    }
    program = Program(outputs, ((image, image * 0.5 + 1.0),))  # the update makes every step compute all
    checks = []
    for kind, cost in _kinds(device).items():
        for how, options in (("packed", DEFAULT), ("alone", BASELINE)):
            options = replace(options, rematerialize=False)
            found = _both(device, program, options=options, cost=cost)
            checks += [_absolute(f"{name}, {kind}, {how}", *found[name], 1e-4) for name in outputs]
    return checks


def rounding(device: Device) -> list[Check]:
    """The bits of sums and products, alone and among other operations: Vulkan rounds them correctly and may
    not fuse them where a shader says ``precise``. The bits of other operations are shown and not judged."""
    width, height = SIZE
    a, b, c = (Variable.of(_noise(20 + k, 1, height, width), FLOAT, name="abc"[k]) for k in range(3))
    exact = a * b + c
    outputs = {"fused": exact, "chain": (exact * a - b) * c + exact}
    rough = F.sqrt(F.square(a) + 1.0) / (F.exp(b) + 1.5) + F.sin(c)
    program = Program({**outputs, "others": rough * a + b}, ())
    single = NumpyExecutor(program, np.float32)
    single.run(1)
    found = {}
    for options in (DEFAULT, BASELINE):
        with VulkanExecutor(program, device, options=options) as run:
            run.run(1)
            found[options] = {name: run.recv(v) for name, v in program.outputs.items()}
    checks = [
        _texels(f"{name}, {how}", found[options][name], single.recv(program.outputs[name]))
        for name in outputs
        for how, options in (("packed", DEFAULT), ("alone", BASELINE))
    ]
    packed, alone = (found[options]["others"] for options in (DEFAULT, BASELINE))
    return [*checks, _texels("other operations beside others", packed, alone, float("inf"))]


def sampler(device: Device) -> list[Check]:
    """Bilinear reads by the sampler, which are as precise as the device says (``subTexelPrecisionBits``)."""
    found, bits = sampler_errors(device, device.record), device.limits.sub_texel_precision_bits
    promised = device.limits.bilinear_error
    return [Check("bilinear", found["bilinear"], promised, "of the range", f"{bits} bits promised")]


def sums(device: Device) -> list[Check]:
    """Sums over a whole image, over rows, and the largest value."""
    image = Variable.of(_noise(3, 1, 300, 500), FLOAT, name="image")
    program = Program({"sum": F.sum(image), "rows": F.sum(image, "x"), "max": F.max(image)})
    allowed = {"sum": 300 * 500 * 1e-7, "rows": 500 * 1e-7, "max": 0.0}
    return [_absolute(name, *pair, allowed[name]) for name, pair in _both(device, program).items()]


def scatter(device: Device) -> list[Check]:
    """Sums by atomics: of 64 bits where the device has them, and of 32 bits, as on devices without them."""
    side, table = 128, (40, 25)
    places = np.random.default_rng(4).integers(0, table[0] * table[1], (1, side, side))
    values = Variable.of(_noise(5, 1, side, side), FLOAT, name="values")
    index = Variable.of(places, INT, name="places")
    checks = []
    for name, limits in {"device's own": None, "32 bits": DeviceLimits(int64_atomics=False)}.items():
        program = Program({"table": F.scatter_add(values, index, table, bound=2.0)})
        (found,) = _both(device, program, limits=limits).values()
        checks.append(_absolute(name, *found, 1e-3))
    return checks


def chain(device: Device) -> list[Check]:
    """Steps that each read their neighbours of the step before: caches and barriers."""
    width, height = SIZE
    state = Variable.of(_noise(6, 1, height, width), FLOAT, name="state")
    total = Variable.of(np.zeros((1, height, width)), FLOAT, name="total")
    new = 0.5 * F.shift(state, 1, 0) + 0.25 * F.shift(state, 0, 1) + 0.25 * (1.0 - state)
    # The state forgets what it was; the total does not.
    found = _both(device, Program({}, ((state, new), (total, total + new))), STEPS)
    allowed = {"state": 1e-5, "total": 1e-3}
    return [_absolute(f"{name} after {STEPS} steps", *pair, allowed[name]) for name, pair in found.items()]


def raster(device: Device) -> list[Check]:
    """Which face wins at every pixel, among triangles that cross each other."""
    count = 40
    corners = _noise(7, 1, 1, 3 * count, 4)
    corners[..., 2] = 0.5 + 0.45 * corners[..., 2]
    corners[..., 3] = 1.0
    position = Variable.of(corners, VEC4, name="corners")
    found, exact = _both(device, Program({"face": F.rasterize(position, size=(128, 96))}))["face"]
    # Edges may go to either side: devices round corners to different parts of a pixel.
    inside = maximum_filter(exact, (1, 3, 3)) == minimum_filter(exact, (1, 3, 3))
    return [
        _texels("winners inside of faces", found[inside], exact[inside], 0.001),
        _texels("winners everywhere", found, exact, 0.03),
    ]


def nan_scatter(device: Device) -> list[Check]:
    """An undefined value in a sum is noticed, and leaves the others alone."""
    values = _noise(8, 1, 1, 5000)
    values[0, 0, 1234] = np.nan
    places = np.random.default_rng(9).integers(0, 4999, (1, 1, 5000))
    places[0, 0, 1234] = 4999
    leaf, index = Variable.of(values, FLOAT, name="values"), Variable.of(places, INT, name="places")
    program = Program({"table": F.scatter_add(leaf, index, (5000, 1), bound=1.0)})
    exact = np.zeros(5000)
    np.add.at(exact, places[0, 0, places[0, 0] < 4999], values[0, 0, places[0, 0] < 4999])
    with warnings.catch_warnings(record=True) as said, VulkanExecutor(program, device) as run:
        warnings.simplefilter("always")
        run.run(1)
        run.wait()
        found = run.recv(program.outputs["table"]).reshape(-1)
    noticed = any(issubclass(w.category, RuntimeWarning) for w in said)
    return [
        _absolute("others", found[:4999], exact[:4999], 1e-4),
        Check("not noticed", float(not noticed), 0.0, "times"),
    ]


def submission(device: Device) -> list[Check]:
    """Seconds of one submission of heavy work, which watchdogs end after some."""
    image = Variable.of(_noise(10, 1, 512, 512, low=0.0), FLOAT, name="image")
    value = image
    for _ in range(64):
        value = F.shift(value, 1, 0) * 0.5 + value * 0.5
    program = Program({}, ((image, value),))
    with VulkanExecutor(program, device) as run:
        run.run(1)
        run.wait()
        start = time.perf_counter()
        run.run(1)
        run.wait()
        seconds = time.perf_counter() - start
        found = run.recv(image)
    exact = NumpyExecutor(program)
    exact.run(2)
    # A software driver has no watchdog.
    allowed = float("inf") if device.physical.type == "cpu" else LONGEST_SUBMISSION
    return [
        Check("seconds", seconds, allowed, "s", f"longest submission {device.longest_submission:.3g} s"),
        _absolute("64 neighbours", found, exact.recv(image), 1e-5),
    ]


def calibration(device: Device) -> list[Check]:
    """The measured model beside that of the device's class. It is shown and not judged: a busy machine or
    sleeping clocks are no fault of a driver, and results do not depend on it."""
    guess, found = device.record, measure(device, SECONDS)
    rates = [f.name for f in fields(DeviceModel) if f.name.endswith("_rate") or f.name == "bandwidth"]
    checks = []
    for name in rates:
        of_class, value = getattr(guess, name), getattr(found, name)
        factor = max(value / of_class, of_class / value)
        told = f"{value:.3g}/s, class {of_class:.3g}/s"
        checks.append(Check(name, factor, float("inf"), "times off its class", told))
    return checks


def beside_cpu(device: Device) -> list[Check]:
    """A small optimisation, on this device and on the CPU driver, if there is one: the same images."""
    width, height = SIZE
    here = device.physical.index
    others = [other for other in list_devices() if other.type == "cpu" and other.index != here]
    if not others:
        return []

    def optimised(on: Device) -> np.ndarray:
        image = Variable.of(_noise(11, 1, height, width, low=0.1), FLOAT, name="image")
        target = F.sin(F.to_float(F.linear_index(SIZE)) * 0.01)
        program = Program({}, ((image, image + 0.1 * (target - F.shift(image, 1, 0))),))
        with VulkanExecutor(program, on) as run:
            run.run(20)
            return run.recv(image)

    mine = optimised(device)
    with Device.open(others[0].index) as cpu:
        theirs = optimised(cpu)
    return [replace(_absolute(f"like {others[0].name}", mine, theirs, 2e-3), unit="absolute")]


PROBES: dict[str, Callable[[Device], list[Check]]] = {
    probe.__name__: probe
    for probe in (
        transfer, functions, mirrored, rounding, sampler, sums, scatter, chain, raster, nan_scatter, submission,
        calibration, beside_cpu,
    )
}  # fmt: skip
