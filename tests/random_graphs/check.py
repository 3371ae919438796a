"""One random graph on a device: packed plans against the baseline, and both against the meaning in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dressi.ad.evaluate import Evaluator, NumpyExecutor
from dressi.ad.graph import Function, Variable
from dressi.ad.ops.pixel import exponential, trigonometry
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.errors import DressiError, PlanError
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import PROFILES, DeviceLimits
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.plan.model.records import RECORDS
from dressi.vk.plan.options import BASELINE, DEFAULT, FLAGS, PlanOptions
from dressi.vk.run.executor import VulkanExecutor
from dressi.vk.run.measure.sampling import willing

from .programs import random_program

ROUNDINGS = 30
"""A device may be off float64 by this many times what NumPy is in float32."""

JUMP = 1e-4
"""Relative to the largest value: an output that moves so much when its leaves move by PERTURBED is not compared."""

PERTURBED = 1e-6
EPS = 2.0**-24


@dataclass
class Report:
    """``failures``: sentences. ``unstable``: outputs that are not compared because they jump. ``too_tight``: random limits that a Function exceeds.
    ``worst``: the largest error, relative to the largest value of an output."""

    seed: int
    functions: int = 0
    model: str = ""
    failures: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    compared: int = 0
    worst: float = 0.0
    refused: list[str] = field(default_factory=list)
    too_tight: list[str] = field(default_factory=list)


def check(
    seed: int,
    device,
    count: int | None = None,
    *,
    baseline: bool = True,
    draw: Callable[[int, int | None], tuple[Program, int]] = random_program,
) -> Report:
    """Runs the graph of a seed in three plans, of which the baseline takes longest. draw: makes it of seed and count."""
    program, steps = draw(seed, count)
    report = Report(seed, len(program.functions))
    simple = simplify(program)
    rng = np.random.default_rng(seed)
    for name, options in (
        ("minimum", DEFAULT),
        ("minimum", BASELINE),
        (list(PROFILES)[seed % len(PROFILES)], DEFAULT),
    ):
        try:
            build_plan(simple, PROFILES[name], shader_text, options)
        except DressiError as error:
            report.refused.append(f"{name}: {error}")
    exact, tolerance = meaning(program, steps, report)
    options, limits, cost = variant(seed, rng)
    report.model = cost.name
    runs = {
        **({"baseline": {"options": BASELINE}} if baseline else {}),
        "packed": {},
        f"{options} {limits} {cost}": {"options": options, "limits": limits, "cost": cost},
    }
    results = {}
    for name, how in runs.items():
        try:
            results[name] = on_device(program, simple, steps, device, **how)
        except PlanError as error:
            if limits in PROFILES.values() or "limits" not in how:
                report.failures.append(f"{name}: {type(error).__name__}: {error}")
            else:  # fewer images than Vulkan guarantees, and a Function that cannot do with them
                report.too_tight.append(str(error))
        except DressiError as error:
            report.failures.append(f"{name}: {type(error).__name__}: {error}")
    for name, found in results.items():
        for key, (value, allowed) in compared(exact, tolerance, found).items():
            report.compared += 1
            report.worst = max(report.worst, value / max(float(np.abs(exact[key]).max()), 1e-6))
            if not value <= allowed:
                report.failures.append(f"{name}: {key} is off float64 by {value:.3g}, allowed {allowed:.3g}")
        if name != "baseline" and "baseline" in results:
            for key, (value, allowed) in compared(results["baseline"], tolerance, found).items():
                if not value <= allowed:
                    report.failures.append(f"{name}: {key} is off the baseline by {value:.3g}")
    return report


def values(executor, program: Program, leaves: Program, steps: int) -> dict[str, np.ndarray]:
    """Outputs and leaves, by name, after so many steps; and again after other indices were sent."""

    def read(when: str) -> dict[str, np.ndarray]:
        executor.run(steps)
        found = {f"{name}{when}": executor.recv(v) for name, v in program.outputs.items()}
        return found | {f"leaf {v.name}{when}": executor.recv(v) for v, _ in leaves.updates}

    found = read("")
    for leaf, array in other_indices(program).items():
        executor.send(leaf, array)
    return found | read(" after other indices")


def other_indices(program: Program) -> dict[Variable, np.ndarray]:
    """Other values for the leaves of integers: some of those that they have, so that lists of indices grow longer."""
    found = {}
    for leaf in program.leaves:
        if leaf.vtype.is_int and leaf.data is not None and not leaf.name.startswith("faces"):
            data = leaf.data.reshape(-1, leaf.vtype.components)
            rng = np.random.default_rng(leaf.data.size)
            few = data[rng.integers(0, len(data), max(len(data) // 3, 1))]
            found[leaf] = few[rng.integers(0, len(few), len(data))].reshape(leaf.shape)
    return found


def meaning(program: Program, steps: int, report: Report) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """What the program gives in float64, and how far a device may be off; what jumps is left out."""

    def run(
        dtype=np.float64, seed: int | None = None, evaluator: type[Evaluator] = Evaluator
    ) -> dict[str, np.ndarray]:
        executor = NumpyExecutor(program, dtype)
        executor._evaluator = evaluator(program.roots, dtype)
        if seed is not None:
            rng = np.random.default_rng(seed)
            for v in program.leaves:
                if not v.vtype.is_int and not v.name.startswith("corners"):
                    assert v.data is not None
                    moved = v.data * (1 + PERTURBED * rng.uniform(-1, 1, v.shape))
                    executor._state[v] = moved
        return values(executor, program, program, steps)

    exact, single, other = run(), run(np.float32), run(evaluator=OtherSines)
    moved = [run(seed=k) for k in range(3)]
    tolerance = {}
    for key, value in list(exact.items()):
        scale = max(float(np.abs(value).max()), 1e-6)
        off = largest(single[key], value)
        jump = max(largest(m[key], value) for m in moved)
        if not np.isfinite(value).all() or not max(off, jump) <= JUMP * scale:
            report.unstable.append(key)
            del exact[key]
            continue
        # Single precision may be exact by luck; leaves that are rounded move a value by this much.
        sines = largest(other[key], value)
        tolerance[key] = ROUNDINGS * max(off, EPS * scale, EPS / PERTURBED * jump, sines)
    return exact, tolerance


class OtherSines(Evaluator):
    """Sines, exponentials and roots of a library of its own: no two of its results have the same rounding. That of NumPy gives
    cos(x) and cos(-x) the same one, so that their difference is exactly zero; that of SwiftShader does not."""

    def __init__(self, outputs, dtype):
        super().__init__(outputs, dtype)
        self._random = np.random.default_rng(0)

    def _run(self, function: Function, *at_and_inputs) -> np.ndarray:
        found = super()._run(function, *at_and_inputs)
        if type(function).__module__ not in (trigonometry.__name__, exponential.__name__):
            return found
        return found * (1.0 + EPS * self._random.uniform(-1.0, 1.0, found.shape))


def largest(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference; not a number where one of them is not."""
    return float(np.abs(np.asarray(a, np.float64) - b).max())


def compared(exact, tolerance, found) -> dict[str, tuple[float, float]]:
    return {key: (largest(found[key], exact[key]), tolerance[key]) for key in tolerance}


def on_device(program: Program, simple: Program, steps: int, device, **how) -> dict[str, np.ndarray]:
    cost = how.get("cost")
    with pytest.MonkeyPatch.context() as patch:
        if device.physical.type == "cpu" and cost is not None and cost.filter_rate == np.inf:
            # The samplers of both drivers are as exact as their arithmetic, more than they promise.
            patch.setattr(DeviceLimits, "bilinear_error", 0.0)
        with VulkanExecutor(simple, device, **how) as run:
            found = values(run, simple, program, steps)
            run.wait()
    return found


def variant(seed: int, rng: np.random.Generator) -> tuple[PlanOptions, DeviceLimits, DeviceModel]:
    """Options, limits of some profile, perhaps shrunk, and a device model: the records take turns."""
    switches = rng.random(len(FLAGS)) < 0.7
    limits = list(PROFILES.values())[int(rng.integers(len(PROFILES)))]
    if rng.random() < 0.5:
        limits = replace(
            limits,
            max_color_attachments=int(rng.integers(1, 9)),
            max_input_attachments=int(rng.integers(1, 9)),
            max_sampled_images=int(rng.integers(16, 24)),
            max_storage_images=int(rng.integers(4, 8)),
            lazy_images=bool(rng.random() < 0.5),
        )
    if rng.random() < 0.2:
        limits = replace(limits, max_storage_buffer_bytes=int(rng.integers(2000, 9000)))
    if rng.random() < 0.2:
        limits = replace(limits, max_framebuffer_height=40, max_framebuffer_width=200)
    options = replace(
        PlanOptions(*(bool(s) for s in switches)), narrow_intermediates=False, half_products=False
    )
    return options, limits, model_of(seed, rng)


def model_of(seed: int, rng: np.random.Generator) -> DeviceModel:
    """A record; mostly with walks so short that the small images of these graphs need another lowering."""
    model = list(RECORDS.values())[seed % len(RECORDS)]
    if rng.random() < 0.7:
        model = replace(model, longest_walk=int(rng.choice((2, 4, 8, 16))))
    if rng.random() < 0.3:
        model = replace(model, lanes=int(rng.choice((1, 64, 1 << 17))))
    if rng.random() < 0.3:
        fetch, store, stage = (float(rng.choice(x)) for x in ((1, 4, 40), (0, 4, 40), (0, 2000, 1e9)))
        model = model.weighing(fetch=fetch, store=store, stage=stage)
    if rng.random() < 0.3:
        model = willing(model)
    if (
        rng.random() < 0.5
    ):  # whatever follows from a raster of listed faces is worth computing in its fragments
        model = replace(model, fill_rate=1e15, store_rate=1e15)
    return model
