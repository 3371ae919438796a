"""Ten least-squares problems between bounds, beside SciPy's ``least_squares`` (method trf).

    python apps/solvers/bounded.py

For each: the cost in float64 of what both found, relative to the larger one, and the steps of each, rejected ones too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares as scipy_least_squares

from dressi import FLOAT, DressiAD, F, LevenbergMarquardt, Variable

INF = np.inf
T = np.linspace(0.0, 3.0, 40)
NOISE = 0.05 * np.random.default_rng(0).normal(size=40)


class Problem(NamedTuple):
    """residuals: of the list of unknowns, with the functions and constants of NumPy or dressi. start, low,
    high: of each unknown."""

    residuals: Callable
    start: list[float]
    low: list[float]
    high: list[float]


class Lib(NamedTuple):
    exp: Callable
    sin: Callable
    sqrt: Callable
    const: Callable


NUMPY = Lib(np.exp, np.sin, np.sqrt, lambda v: v)
DRESSI = Lib(F.exp, F.sin, F.sqrt, lambda v: Variable.of(v))
DECAY = 2.0 * np.exp(-1.3 * T) + 0.5 + NOISE
WAVE = 1.5 * np.sin(2.2 * T + 0.4) + NOISE
PEAK = 2.0 * np.exp(-((T - 1.4) ** 2) / 0.5) + 0.3 + NOISE
LOGISTIC = 3.0 / (1.0 + np.exp(-2.5 * (T - 1.2))) + NOISE
MATRIX = np.random.default_rng(1).normal(size=(60, 8))
RIGHT = MATRIX @ np.array([1.0, -1.0, 0.5, 2.0, -0.3, 0.0, 0.8, -2.0]) + np.random.default_rng(2).normal(
    size=60
)
PROBLEMS = {
    "rosenbrock, x <= 0.5": Problem(lambda x, m: [10.0 * (x[1] - x[0] * x[0]), 1.0 - x[0]], [-1.2, 1.0], [-2, -2], [0.5, 3]),
    "rosenbrock, y >= 1.5": Problem(lambda x, m: [10.0 * (x[1] - x[0] * x[0]), 1.0 - x[0]], [-2.0, 1.6], [-INF, 1.5], [INF, INF]),
    "decay, rate <= 1": Problem(
        lambda x, m: [x[0] * m.exp(-x[1] * m.const(T)) + x[2] - m.const(DECAY)], [1.0, 0.5, 0.1], [0, 0, 0], [5, 1, 2]),
    "decay, offset <= .3": Problem(
        lambda x, m: [x[0] * m.exp(-x[1] * m.const(T)) + x[2] - m.const(DECAY)], [1.0, 0.5, 0.1], [0, 0, 0], [5, 5, 0.3]),
    "wave, amplitude <= 1.2": Problem(
        lambda x, m: [x[0] * m.sin(x[1] * m.const(T) + x[2]) - m.const(WAVE)], [1.0, 2.0, 0.2], [0, 1, -1], [1.2, 3, 1]),
    "peak, width >= .4": Problem(
        lambda x, m: [x[0] * m.exp(-((m.const(T) - x[1]) * (m.const(T) - x[1])) / (2.0 * x[2] * x[2])) + x[3] - m.const(PEAK)],
        [1.0, 1.2, 0.7, 0.1], [0, 0, 0.6, 0], [5, 3, 2, 1]),
    "logistic, top <= 2.8": Problem(
        lambda x, m: [x[0] / (1.0 + m.exp(-x[1] * (m.const(T) - x[2]))) - m.const(LOGISTIC)], [2.0, 1.0, 1.0], [0, 0, 0], [2.8, 10, 3]),
    "linear, 8 in [0, 1]": Problem(
        lambda x, m: [sum(m.const(MATRIX[:, k]) * x[k] for k in range(8)) - m.const(RIGHT)], [0.5] * 8, [0.0] * 8, [1.0] * 8),
    "powell, x1 >= 1": Problem(
        lambda x, m: [x[0] + 10.0 * x[1], 2.236068 * (x[2] - x[3]), (x[1] - 2.0 * x[2]) * (x[1] - 2.0 * x[2]),
                      3.1622777 * (x[0] - x[3]) * (x[0] - x[3])], [3.0, -1.0, 0.5, 1.0], [1, -5, -5, -5], [5, 5, 5, 5]),
    "distances, in a box": Problem(
        lambda x, m: [m.sqrt((x[0] - a) * (x[0] - a) + (x[1] - b) * (x[1] - b)) - d
                      for a, b, d in ((0.0, 0.0, 2.5), (3.0, 0.0, 1.5), (0.0, 3.0, 2.9), (3.0, 3.0, 2.0))], [0.5, 0.5], [0, 0], [2.0, 1.2]),
}  # fmt: skip


def solve(problem: Problem, solver: LevenbergMarquardt) -> tuple[list[float], int]:
    """The unknowns that dressi finds, and its steps."""
    xs = [Variable.of(v, FLOAT, name=f"x{k}") for k, v in enumerate(problem.start)]
    with DressiAD() as ad:
        ad.set_loss(problem.residuals(xs, DRESSI))
        pairs = zip(xs, zip(problem.low, problem.high, strict=True), strict=True)
        ad.set_optimizer(solver, xs, bounds=dict(pairs))
        ad.step(200)
        return [ad.recv(x).item() for x in xs], len(ad.losses())


def main() -> None:
    print(f"{'problem':24} {'cost':>10} {'SciPy':>10} {'rel.':>9} {'steps':>6} {'SciPy':>6}")
    for name, problem in PROBLEMS.items():

        def flat(x, problem=problem):
            return np.concatenate([np.atleast_1d(r) for r in problem.residuals(x, NUMPY)])

        bounds = np.array(problem.low), np.array(problem.high)
        theirs = scipy_least_squares(flat, problem.start, bounds=bounds, ftol=1e-9, xtol=1e-9, gtol=1e-9)
        found, steps = solve(problem, LevenbergMarquardt(function_tolerance=1e-7, tolerance=0.0))
        cost = 0.5 * np.square(flat(np.clip(np.array(found), *bounds))).sum()
        relative = (cost - theirs.cost) / max(cost, theirs.cost)
        print(f"{name:24} {cost:10.6f} {theirs.cost:10.6f} {relative:9.1e} {steps:6} {theirs.nfev:6}")


if __name__ == "__main__":
    main()
