"""Whether what a device makes of a random program, or of a schedule of calls, is what it means.

Values that a program keeps on the device go stale if a call does not reach it. So the oracle starts from the leaves that
the device has at some time, plays the calls since then, and says what every value must be now.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from graphs import weighing

from dressi import DressiAD, DressiError, GraphError, PlanError, Variable, gradient, optim
from dressi.ad.graph import Function
from dressi.ad.graph.evaluation import Evaluator, NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import HISTORY
from dressi.ad.ops.pixel import elementary
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import OPTIONAL, build_plan
from dressi.vk.plan.core.limits import PROFILES, DeviceLimits
from dressi.vk.plan.core.options import BASELINE, DEFAULT, FLAGS, PlanOptions
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.plan.model.records import RECORDS
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.measure.calibration import willing
from random_graphs.operations import F, Pool, Refused
from random_graphs.programs import EVERY, TYPES, random_program, small

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
        if type(function).__module__ != elementary.__name__:
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
    flags = {
        name: bool(rng.random() < 0.7)
        for name in FLAGS
        if name not in ("narrow_intermediates", "half_products")
    }
    left_out = tuple(name for name in sorted(OPTIONAL) if rng.random() < 0.3)
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
    return PlanOptions(**flags, without=left_out), limits, model_of(seed, rng)


def model_of(seed: int, rng: np.random.Generator) -> DeviceModel:
    """A record; mostly with walks so short that the small images of these graphs need another lowering."""
    model = list(RECORDS.values())[seed % len(RECORDS)]
    if rng.random() < 0.7:
        model = replace(model, longest_walk=int(rng.choice((2, 4, 8, 16))))
    if rng.random() < 0.3:
        model = replace(model, lanes=int(rng.choice((1, 64, 1 << 17))))
    if rng.random() < 0.3:
        fetch, store, stage = (float(rng.choice(x)) for x in ((1, 4, 40), (0, 4, 40), (0, 2000, 1e9)))
        model = weighing(model, fetch=fetch, store=store, stage=stage)
    if rng.random() < 0.3:
        model = willing(model)
    if (
        rng.random() < 0.5
    ):  # whatever follows from a raster of listed faces is worth computing in its fragments
        model = replace(model, fill_rate=1e15, store_rate=1e15)
    return model


CALLS = 20

Values = dict[Variable, np.ndarray]


class Shadow:
    """The leaves of an engine in float64 (or float32), from those that the device had."""

    def __init__(self, leaves: Values, dtype: type = np.float64):
        self.leaves, self.dtype = dict(leaves), dtype

    def step(self, program: Program, n: int) -> None:
        executor = NumpyExecutor(program, self.dtype)
        executor._state.update({v: x for v, x in self.leaves.items() if v in executor._leaves})
        executor.run(n)
        self.leaves.update({leaf: executor.recv(leaf) for leaf, _ in program.updates})

    def perturbed(self, seed: int) -> Shadow:
        rng = np.random.default_rng(seed)
        moved = {
            v: x if v.vtype.is_int else x * (1 + PERTURBED * rng.uniform(-1, 1, x.shape))
            for v, x in self.leaves.items()
        }
        return Shadow(moved)


def has_gradient(loss: Variable, v: Variable) -> bool:
    """Whether a derivative reaches v: a path alone is not enough, as where v only chooses the nearest texel."""
    try:
        gradient(loss, v, allow_unused=False)
    except GraphError:
        return False
    return True


class Rounded(Evaluator):
    """Float64 whose every operation is wrong by up to a rounding of single precision: what cancels on symmetric leaves
    shows here how far a device may be off."""

    def __init__(self, outputs: list[Variable]):
        super().__init__(outputs)
        self.rng = np.random.default_rng(0)

    def _run(self, function: Function, *given: Any) -> np.ndarray:
        exact = super()._run(function, *given)
        if function.output.vtype.is_int:
            return exact
        return exact * (1 + EPS * self.rng.uniform(-1, 1, exact.shape))


class Schedule:
    """An engine, what was described to it, and its shadows: exact, in single precision, and from perturbed leaves."""

    def __init__(self, seed: int, device, report: Report):
        self.report, self.rng = report, np.random.default_rng(seed)
        self.graph()
        self.ad = DressiAD(device)
        self.frozen: set[Variable] = set()
        self.names: dict[str, Variable] = {}
        self.kept: dict[str, np.ndarray] | None = None
        self.steps = 0

    def graph(self) -> None:
        p = self.pool = Pool(self.rng)
        p.size, p.batch = p.among([(7, 5), (5, 3), (9, 1)]), p.among([1, 1, 2])
        for k in range(4):
            size, batch = p.domain()
            p.add(p.leaf(p.among(TYPES), size, batch, parameter=k < 2))
        made = tried = 0
        while made < 6 and tried < 80:
            tried += 1
            try:
                p.add(p.among(EVERY)(p))
                made += 1
            except (Refused, GraphError):
                continue
        self.loss = sum((small(v) for v in p.values[-3:]), start=F.constant(0.0))
        self.parameters = [v for v in p.parameters if has_gradient(self.loss, v)]
        if not self.parameters:
            v = p.parameters[0]
            self.loss, self.parameters = self.loss + small(v), [v]
        slopes = gradient(self.loss, self.parameters)
        self.graphs = [v for v in (self.loss, *p.values[-4:], *p.ints[-1:], *slopes) if v.creator is not None]
        self.leaves = [v for v in p.leaves if not v.name.startswith(("corners", "faces"))]

    # ---- shadows
    def begin(self) -> None:
        """The shadows start from what the device has."""
        described = {*self.pool.leaves, *self.ad._objective.tree().values()}
        described |= set(self.ad.program().leaves)
        now = {v: np.asarray(self.ad.recv(v), np.float64).reshape(v.shape) for v in described}
        for v, x in now.items():
            if v.vtype.is_int:
                now[v] = x.astype(np.int64)
        exact = Shadow(now)
        self.shadows = [exact, Shadow(now, np.float32), *(exact.perturbed(k) for k in range(2))]

    def compare(
        self, name: str, found: np.ndarray, values: list[np.ndarray], rounded: np.ndarray | None = None
    ) -> None:
        exact, single, *moved = (np.asarray(v, np.float64) for v in values)
        found = np.asarray(found, np.float64).reshape(exact.shape)
        scale = max(float(np.abs(exact).max(initial=0)), 1e-6)
        off, jump = largest(single, exact), max(largest(m, exact) for m in moved)
        if rounded is not None:
            off = max(off, largest(rounded, exact))
        if not np.isfinite(exact).all() or not max(off, jump) <= JUMP * scale:
            self.report.unstable.append(name)
            return
        self.report.compared += 1
        allowed = ROUNDINGS * max(off, EPS * scale, EPS / PERTURBED * jump)
        if not largest(found, exact) <= allowed:
            self.report.failures.append(
                f"call {self.call}, {name} is off float64 by {largest(found, exact):.3g}, allowed {allowed:.3g}"
            )

    def check_graphs(self, name: str, graphs: list[Variable], found: list[np.ndarray]) -> None:
        values = [evaluate(graphs, s.leaves, s.dtype) for s in self.shadows]
        rounded = Rounded(graphs)(self.shadows[0].leaves)
        for k, x in enumerate(found):
            self.compare(f"{name} {graphs[k]}", x, [v[k] for v in values], rounded[k])

    # ---- calls
    def send(self) -> None:
        chosen = [v for v in self.leaves if self.rng.random() < 0.5] or self.leaves[:1]
        sent = {}
        for v in chosen:
            data = np.asarray(v.data)
            if v.vtype.is_int:
                few = data.reshape(-1, v.vtype.components)
                few = few[self.rng.integers(0, len(few), max(len(few) // 3, 1))]
                count = data.size // v.vtype.components
                sent[v] = few[self.rng.integers(0, len(few), count)].reshape(v.shape)
            else:
                sent[v] = (data * self.rng.uniform(0.5, 1.0, v.shape)).astype(np.float32)
        sent = {v: x for v, x in sent.items() if self.ad._knows(v)}
        self.ad.send_many(sent)
        for k, shadow in enumerate(self.shadows):
            shadow.leaves.update(sent)
            if k > 1:
                moved = shadow.perturbed(k).leaves
                shadow.leaves.update({v: moved[v] for v in sent})

    def step(self) -> None:
        n = int(self.rng.choice([1, 1, 1, 2, 3]))
        self.ad.step(n)
        program = self.ad.program()
        for shadow in self.shadows:
            shadow.step(program, n)
        self.steps += n

    def recv(self) -> None:
        if self.names and self.rng.random() < 0.7:
            name = str(self.rng.choice(list(self.names)))
            self.check_graphs(f"recv {name}", [self.names[name]], [self.ad.recv(name)])
        v = self.pool.among(self.parameters)
        self.compare(f"recv {v}", self.ad.recv(v), [s.leaves[v] for s in self.shadows])

    def evaluate(self) -> None:
        graphs = [v for v in self.graphs if self.rng.random() < 0.4] or self.graphs[:1]
        self.check_graphs("evaluate", graphs, self.ad.evaluate(graphs))

    def name(self) -> None:
        if self.names and self.rng.random() < 0.3:
            self.ad.remove_output(name := next(iter(self.names)))
            del self.names[name]
            return
        name, v = f"output{self.rng.integers(3)}", self.pool.among(self.graphs)
        self.ad.set_output(name, v)
        self.names[name] = v

    def freeze(self) -> None:
        v = self.pool.among(self.parameters)
        if len(self.frozen | {v}) < len(self.parameters):
            self.ad.freeze(v)
            self.frozen.add(v)

    def release(self) -> None:
        if self.frozen:
            self.ad.release(v := self.frozen.pop())
            self.frozen.discard(v)

    def keep(self) -> None:
        self.kept = copy.deepcopy(self.ad.state())

    def restore(self) -> None:
        if self.kept is not None:
            self.ad.restore(self.kept)
            again = self.ad.state()
            for name, value in self.kept.items():
                if not np.array_equal(again[name], value, equal_nan=True):
                    self.report.failures.append(f"call {self.call}: {name} is not what was restored")
            self.begin()

    def again(self) -> None:
        """Read all leaves; what follows starts from there."""
        for v in self.shadows[0].leaves:
            if not v.name or not v.name.startswith("loss_"):
                self.compare(f"leaf {v}", self.ad.recv(v), [s.leaves[v] for s in self.shadows])
        self.begin()

    def losses(self) -> None:
        if (count := len(self.ad.losses())) != min(self.steps, 10 * HISTORY):
            self.report.failures.append(f"call {self.call}: {count} losses of {self.steps} steps")
        self.begin()  # the host may have emptied the history

    def run(self) -> None:
        rate = self.pool.among([0.05, 0.01])
        optimizer = self.pool.among(
            [
                optim.sgd(rate),
                optim.sgd(rate, momentum=0.9),
                optim.adam(rate, eps=1e-2),
                optim.amsgrad(rate, eps=1e-2),
            ]
        )
        calls = [
            self.send,
            self.send,
            self.step,
            self.step,
            self.step,
            self.recv,
            self.evaluate,
            self.evaluate,
        ]
        calls += [self.name, self.freeze, self.release, self.keep, self.restore, self.again, self.losses]
        with self.ad as ad:
            ad.set_loss(self.loss)
            ad.set_optimizer(optimizer, self.parameters)
            for v in self.graphs[:1]:
                ad.set_output("output0", v)
                self.names["output0"] = v
            self.call = "begin"
            self.begin()
            for k in range(CALLS):
                if self.rng.random() < 0.1:  # sent before every step: another plan
                    for _ in range(6):
                        self.call = f"{k} send and step"
                        self.send()
                        self.step()
                    self.again()
                each = self.pool.among(calls)
                self.call = f"{k} {each.__name__}"
                each()
                if self.report.failures:
                    return
            self.call = "end"
            self.again()


def check_schedule(seed: int, device) -> Report:
    """Plays the schedule of a seed."""
    report = Report(seed)
    schedule = Schedule(seed, device, report)
    report.functions = len(Program({str(k): v for k, v in enumerate(schedule.graphs)}).functions)
    schedule.run()
    return report
