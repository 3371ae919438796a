"""A least-squares problem as the programs of this folder hand it around, and a run of a solver on a device."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy_solver import Solution, Term, levenberg_marquardt

from dressi import Device, DressiAD, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.least_squares import Energy, GaussNewton, LeastSquares, LevenbergMarquardt, Robust
from dressi.render.io import write_json


@dataclass(frozen=True, eq=False)
class Problem:
    """energy: residuals of any float type; the cost is half the sum of their squares. unknowns: leaves whose data are the
    start. terms: the same energy in NumPy, for the reference; none where there is no such form. optimum: the least cost, where
    it is known."""

    name: str
    energy: Sequence[Variable | Robust]
    unknowns: Sequence[Variable]
    terms: Sequence[Term] = ()
    optimum: float | None = None

    def cost(self, at: Mapping[Variable, np.ndarray] | None = None) -> float:
        """The cost in float64, at the start or at other values of the unknowns."""
        return evaluate([Energy(self.energy).cost()], at)[0].item()

    def start(self) -> list[np.ndarray]:
        """The unknowns at the start, (count, components) each, as ``levenberg_marquardt`` takes them."""
        return [np.reshape(x.data, (-1, x.vtype.components))[: x.count] for x in self.unknowns]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Run:
    """What a solver did on a device. costs, seconds and wall: before the first step, and after each of them. seconds: CPU time
    of the process, in which drivers without a GPU compute; wall: time on the clock. build: seconds until the first step began,
    with all shaders. inner: iterations of conjugate gradients of each step. scheduled:
    whether leaves were sent between steps.

    unknowns: as ``recv`` gives them.
    """

    unknowns: list[np.ndarray]
    costs: list[float]
    seconds: list[float]
    wall: list[float]
    build: float
    inner: list[int]
    device: str
    scheduled: bool

    def within(self, relative: float, optimum: float) -> tuple[float, float] | None:
        """(CPU, wall) seconds until the cost was at most (1 + relative) times the optimum; None if it never was, or if the
        energy changed on the way."""
        for cost, seconds, wall in zip(self.costs, self.seconds, self.wall, strict=True):
            if cost <= (1 + relative) * optimum and not self.scheduled:
                return seconds, wall
        return None


def solve(
    problem: Problem,
    optimizer: LeastSquares,
    steps: int,
    device: Device | None = None,
    before: Callable[[int], Mapping[Variable, np.ndarray]] | None = None,
) -> Run:
    """Runs at most so many nonlinear steps, one at a time, and ends when the solver has converged.

    before: is called before each step with its number and gives what is sent, as a schedule says; then all steps are run,
    and the costs are those with the values sent last. The times are those of a second run, after one step that builds everything.
    """
    begun = time.perf_counter()
    with DressiAD(device) as ad:
        ad.set_loss(problem.energy)
        ad.set_optimizer(optimizer, problem.unknowns)
        start, state = {x: x.data for x in problem.unknowns}, ad.state()
        ad.step()
        ad.wait()
        build = time.perf_counter() - begun
        ad.restore(state)
        ad.send_many(start)
        sent: dict[Variable, np.ndarray] = {}
        costs, seconds, wall, inner = [problem.cost()], [0.0], [0.0], []
        for k in range(steps):
            cpu, clock = time.process_time(), time.perf_counter()
            if before is not None:
                sent.update(before(k))
                ad.send_many(sent)
            ad.step()
            ad.wait()
            seconds.append(seconds[-1] + time.process_time() - cpu)
            wall.append(wall[-1] + time.perf_counter() - clock)
            state = ad.state()
            inner.append(round(state["inner_iterations"].max().item()))
            found = {x: ad.recv(x) for x in problem.unknowns}
            costs.append(problem.cost({**found, **sent}))
            if before is None and not state["running"].any():
                break
        return Run(
            list(found.values()), costs, seconds, wall, build, inner, ad.device.name, before is not None
        )


def reference_row(found: Solution) -> dict[str, Any]:
    """Costs and times of a reference, for JSON."""
    best = min(found.costs)
    return {
        "final": best, "costs": found.costs, "cpu_seconds": found.seconds,
        "cpu_to_1e-3": found.seconds_within(1e-3, best),
    }  # fmt: skip


def row_of(problem: Problem, run: Run, scipy: Mapping[str, Any] | None) -> dict[str, Any]:
    """Costs and times of a run for JSON, and of the reference, if there is one."""
    best = run.costs[-1] if problem.optimum is None else problem.optimum
    best = best if scipy is None else scipy["final"]
    near = run.within(1e-3, best)
    return {
        "problem": problem.name, "device": run.device, "build_seconds": run.build,
        "initial": run.costs[0], "final": run.costs[-1], "optimum": best, "excess": run.costs[-1] / best - 1,
        "cpu_to_1e-3": near and near[0], "wall_to_1e-3": near and near[1],
        "costs": run.costs, "cpu_seconds": run.seconds, "wall_seconds": run.wall, "inner_iterations": run.inner,
        "scheduled": run.scheduled, "scipy": scipy,
    }  # fmt: skip


def summary(row: Mapping[str, Any]) -> str:
    """The row as a line to read."""
    near = row["cpu_to_1e-3"]
    text = f"{row['problem']}: cost {row['initial']:.9g} -> {row['final']:.9g} ({row['excess']:+.1e} of the optimum), "
    if row["scheduled"]:
        return f"{text}after {row['cpu_seconds'][-1]:.3g} CPU s"
    text += "not within 1e-3" if near is None else f"within 1e-3 after {near:.3g} CPU s"
    scipy = row["scipy"]
    return text if scipy is None else f"{text}; SciPy {scipy['final']:.9g}, {scipy['cpu_to_1e-3']:.3g} CPU s"


def scheduled(row: Mapping[str, Any]) -> str:
    """The row as a line to read, where the energy changed between the steps."""
    spent = f"{sum(row['inner_iterations'])} iterations, {row['cpu_seconds'][-1]:.3g} CPU s"
    return f"{row['problem']}: {len(row['inner_iterations'])} steps, cost of the last {row['final']:.9g}, {spent}"


METHODS: dict[str, type[LeastSquares]] = {"gn": GaussNewton, "lm": LevenbergMarquardt}


def options(
    text: str, out: str, *, method: str, steps: int, iterations: int, forcing: float = 0.0
) -> argparse.ArgumentParser:
    """The options that all programs of the folder have. text: the docstring of the program. Defaults are the paper's."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--method", choices=list(METHODS), default=method, help="Gauss-Newton or Levenberg-Marquardt"
    )
    parser.add_argument("--steps", type=int, default=steps, help="nonlinear steps at most")
    parser.add_argument(
        "--iterations", type=int, default=iterations, help="of conjugate gradients a step, at most"
    )
    parser.add_argument(
        "--forcing",
        type=float,
        default=forcing,
        help="end a linear solve when its residual is below this part",
    )
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out") / out)
    return parser


def run_program(
    problem: Problem,
    given: argparse.Namespace,
    before: Callable[[int], Mapping[Variable, np.ndarray]] | None = None,
    figures: Callable[[Run], Mapping[str, float]] | None = None,
    **more: object,
) -> Run:
    """Solves the problem as the options say, prints the summary, and writes <problem>.json. before: as ``solve`` takes it.
    figures: of the result, for the file. more: further options of the solver."""
    given.out.mkdir(parents=True, exist_ok=True)
    with Device.open(given.device) as device:
        solver = METHODS[given.method](iterations=given.iterations, forcing=given.forcing, **more)  # type: ignore[arg-type]
        run = solve(problem, solver, given.steps, device, before)
    terms, start = problem.terms, problem.start()
    scipy = reference_row(levenberg_marquardt(terms, start)) if terms else None
    row = {"method": given.method, "iterations": given.iterations, **row_of(problem, run, scipy)}
    row |= figures(run) if figures is not None else {}
    write_json(given.out / f"{problem.name}.json", row)
    print(summary(row) if before is None else scheduled(row))
    return run
