"""The energies of meshes at the paper's sizes, beside Ceres (DeVito et al. 2017, figures 12 and 13).

    python apps/least_squares/paper/meshes.py --out out/meshes
    python apps/least_squares/paper/meshes.py --only arap_mesh --quick

The armadillo of about 12,000 vertices is deformed as-rigid-as-possible and by embedded deformation; a figure of 40,000
vertices is smoothed by cotangents. A device solves each, then Ceres (with pyceres installed: one thread, sparse Cholesky,
until its cost is within 1e-3 of the optimum), then the device again. Ceres's own time is that without the evaluation of
residuals, which is in Python. What is called the optimum are SciPy's direct solves in 64 bits, a few steps from where the device has ended:
of a problem that has not converged by then it is an upper bound.
Times are CPU seconds. Writes meshes.json. --quick takes a hundredth of the vertices.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import arap_mesh
import cotangent_smoothing
import embedded_deformation
from mesh_inputs import SOLVES, armadillo, half_edges, wedges
from problem import Problem, solve
from scipy_solver import STEP, Term, levenberg_marquardt

from dressi import Device
from dressi.ad.least_squares import GaussNewton, LeastSquares
from dressi.render import Mesh, load_mesh
from dressi.render.io import write_json
from dressi.render.io.files import data_file

NEAR = 1e-3
"""Above the optimum, relatively, where a solver has come near enough."""
POLISH = 4
"""Steps of direct solves."""


@dataclass(frozen=True)
class Case:
    """one: the terms of edge k of term t alone, which Ceres takes one by one."""

    problem: Problem
    solver: LeastSquares
    one: Callable[[int, int], Sequence[Term]]


def refined(quick: bool) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """The armadillo with its markers: old vertices keep their numbers."""
    mesh, vertices, targets = armadillo(1 if quick else 3)
    return (mesh if quick else mesh.subdivide()), vertices, targets


def deformed(module: Any, solver: LeastSquares, quick: bool) -> Case:
    mesh, vertices, targets = refined(quick)
    edges = half_edges(mesh)[:, :2]

    def one(term: int, k: int) -> Sequence[Term]:
        own = slice(k, k + 1) if term == 0 else slice(0)
        return module.terms(
            mesh.positions, edges[slice(k, k + 1) if term == 1 else slice(0)], vertices[own], targets[own]
        )

    return Case(module.problem(mesh, vertices, targets), solver, one)


def smoothed(quick: bool) -> Case:
    name = "sphere.ply" if quick else "squat_source.obj"
    mesh = load_mesh(data_file("least_squares", name)).subdivide()
    edges = wedges(mesh)

    def one(term: int, k: int) -> Sequence[Term]:
        if term == 0:
            return cotangent_smoothing.terms(mesh.positions[k : k + 1], edges[:0])
        return cotangent_smoothing.terms(mesh.positions, edges[k : k + 1])

    return Case(cotangent_smoothing.problem(mesh), GaussNewton(iterations=25), one)


CASES: dict[str, Callable[[bool], Case]] = {
    "arap_mesh": lambda quick: deformed(arap_mesh, GaussNewton(**SOLVES), quick),
    "embedded_deformation": lambda quick: deformed(embedded_deformation, GaussNewton(**SOLVES), quick),
    "cotangent_smoothing": smoothed,
}


def by_ceres(case: Case, enough: float, longest: float) -> dict[str, Any] | None:
    """Costs, steps and seconds of Ceres until a cost; at most so many seconds. None where pyceres is not installed."""
    try:
        import pyceres  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("pyceres is not installed, so Ceres is left out: pip install pyceres")
        return None

    class Edge(pyceres.CostFunction):
        """One edge of a term. Slopes are complex differences, all in one evaluation."""

        def __init__(self, residual: Callable[..., np.ndarray], widths: Sequence[int]):
            super().__init__()
            self.residual, self.widths = residual, widths
            self.set_num_residuals(residual(*(np.ones((1, w)) for w in widths)).shape[1])
            self.set_parameter_block_sizes(list(widths))

        def Evaluate(self, parameters, residuals, jacobians) -> bool:  # the name that Ceres calls
            if jacobians is None:
                residuals[:] = self.residual(*(p[None] for p in parameters))[0]
                return True
            moved = [np.tile(p.astype(complex), (1 + sum(self.widths), 1)) for p in parameters]
            first = 1
            for block, width in zip(moved, self.widths, strict=True):
                block[range(first, first + width), range(width)] += STEP * 1j
                first += width
            found = self.residual(*moved)
            residuals[:], first = found[0].real, 1
            for slopes, width in zip(jacobians, self.widths, strict=True):
                if slopes is not None:
                    slopes[:] = (np.imag(found[first : first + width]) / STEP).T.ravel()
                first += width
            return True

    class Until(pyceres.IterationCallback):
        def __call__(self, summary):
            near = summary.cost <= enough
            kinds = pyceres.CallbackReturnType
            return kinds.SOLVER_TERMINATE_SUCCESSFULLY if near else kinds.SOLVER_CONTINUE

    values = [list(x.astype(float)) for x in case.problem.start()]
    problem, kept = pyceres.Problem(), []
    for t, term in enumerate(case.problem.terms):
        for k in range(len(term.blocks[0][1])):
            blocks = [values[unknown][entries[k]] for unknown, entries in term.blocks]
            kept.append((Edge(case.one(t, k)[t].residual, [len(b) for b in blocks]), blocks))
            problem.add_residual_block(kept[-1][0], None, blocks)
    chosen, report, until = pyceres.SolverOptions(), pyceres.SolverSummary(), Until()
    chosen.linear_solver_type = pyceres.LinearSolverType.SPARSE_NORMAL_CHOLESKY
    chosen.max_num_iterations, chosen.num_threads = 200, 1
    chosen.max_solver_time_in_seconds = longest
    chosen.callbacks = [until]
    begun = time.process_time()
    pyceres.solve(chosen, problem, report)
    evaluated = report.residual_evaluation_time_in_seconds + report.jacobian_evaluation_time_in_seconds
    return {
        "final": report.final_cost, "steps": report.num_successful_steps, "near": report.final_cost <= enough,
        "cpu_seconds": time.process_time() - begun, "own_seconds": report.total_time_in_seconds - evaluated,
        "linear_seconds": report.linear_solver_time_in_seconds,
    }  # fmt: skip


def row_of(name: str, case: Case, device: Device, steps: int, longest: float) -> dict[str, Any]:
    """Solves a case in turns, and prints a line."""
    problem = case.problem
    runs = [solve(problem, case.solver, steps, device)]
    at = [
        np.reshape(x, s.shape).astype(float) for x, s in zip(runs[0].unknowns, problem.start(), strict=True)
    ]
    optimum = min(levenberg_marquardt(problem.terms, at, steps=POLISH).costs)
    row = {
        "name": name, "vertices": problem.unknowns[0].count, "unknowns": sum(x.size for x in problem.start()),
        "initial": runs[0].costs[0], "final": runs[0].costs[-1], "optimum": optimum,
        "excess": runs[0].costs[-1] / optimum - 1, "steps": len(runs[0].inner),
    }  # fmt: skip
    print(
        f"{name}: {row['vertices']} vertices, {row['unknowns']} unknowns, cost {row['initial']:.8g} -> "
        f"{row['final']:.8g} ({row['excess']:+.1e} of the optimum) in {row['steps']} steps",
        flush=True,
    )
    row["ceres"] = ceres = by_ceres(case, (1 + NEAR) * optimum, longest)
    runs.append(solve(problem, case.solver, steps, device))
    row["cpu_to_1e-3"] = near = [found and found[0] for found in (run.within(NEAR, optimum) for run in runs)]
    print(f"    within 1e-3 after {', '.join('never' if s is None else f'{s:.3g}' for s in near)} CPU s")
    if ceres:
        reached = "within 1e-3" if ceres["near"] else f"at {ceres['final'] / optimum - 1:+.1e}"
        print(
            f"    Ceres {reached} after {ceres['steps']} steps, {ceres['cpu_seconds']:.3g} CPU s, of them its"
            f" own {ceres['own_seconds']:.3g} s",
            flush=True,
        )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--steps", type=int, default=60, help="nonlinear steps at most")
    parser.add_argument("--longest", type=float, default=240.0, help="seconds of Ceres at most")
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--quick", action="store_true", help="386 and 162 vertices")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/meshes"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with Device.open(given.device) as device:
        rows = []
        for name in given.only:
            rows.append(row_of(name, CASES[name](given.quick), device, given.steps, given.longest))
            write_json(given.out / "meshes.json", rows)


if __name__ == "__main__":
    main()
