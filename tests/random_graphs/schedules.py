"""Random schedules: calls of one engine in a random order, against float64 that plays the same calls.

Values that a program keeps on the device go stale if a call does not reach it. So the oracle starts from the leaves that
the device has at some time, plays the calls since then, and says what every value must be now.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from dressi import DressiAD, GraphError, Variable, gradient, optim
from dressi.ad.evaluate import Evaluator, NumpyExecutor, evaluate
from dressi.ad.graph.function import Function
from dressi.ad.objective import HISTORY
from dressi.ad.program import Program

from .check import EPS, JUMP, PERTURBED, ROUNDINGS, Report, largest
from .coverage import F
from .pool import Pool, Refused
from .programs import EVERY, TYPES, small

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
