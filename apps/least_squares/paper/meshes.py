"""The energies of meshes at the paper's sizes, beside Ceres (DeVito et al. 2017, figures 12 and 13).

    apt-get install g++ libceres-dev
    python apps/least_squares/paper/meshes.py --out out/meshes
    python apps/least_squares/paper/meshes.py --only arap_mesh --quick

The armadillo of about 12,000 vertices is deformed as-rigid-as-possible and by embedded deformation; a figure of 40,000
vertices is smoothed by cotangents. A device solves each, then Ceres, then the device again. Ceres runs ``ceres_meshes.cpp`` on
one thread, with its automatic derivatives in C++ and sparse Cholesky factorisations, until its cost is within 1e-3 of the
optimum. Times are CPU seconds without builds. Writes meshes.json. --quick takes a hundredth of the vertices.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
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
from scipy_solver import levenberg_marquardt

from dressi import Device
from dressi.ad.least_squares import GaussNewton, LeastSquares
from dressi.render import load_mesh
from dressi.render.io import write_json
from dressi.render.io.files import data_file

NEAR = 1e-3
"""Above the optimum, relatively, where a solver has come near enough."""
OPTIMA = {"arap_mesh": 150.4009, "embedded_deformation": 132.9274, "cotangent_smoothing": 2.3432}
"""The least costs known at the paper's sizes, in 64 bits: by Gauss-Newton with sparse Cholesky factorisations for the first
two. Smoothing has weights with kinks where they are 0, at which Gauss-Newton creeps, and many minima: its cost is the lower one of
two runs of L-BFGS, over weights that are smoothed less and less; the other one ends 3e-4 above."""


@dataclass(frozen=True)
class Case:
    """rest, edges, markers: the mesh, as ``ceres_meshes`` takes it: vertices that are held near targets (M, 3)."""

    problem: Problem
    solver: LeastSquares
    rest: np.ndarray
    edges: np.ndarray
    markers: tuple[np.ndarray, np.ndarray]


def deformed(module: Any, quick: bool) -> Case:
    """The armadillo with its markers: old vertices keep their numbers."""
    mesh, vertices, targets = armadillo(1 if quick else 3)
    mesh = mesh if quick else mesh.subdivide()
    problem, edges = module.problem(mesh, vertices, targets), half_edges(mesh)[:, :2]
    return Case(problem, GaussNewton(**SOLVES), mesh.positions, edges, (vertices, targets))


def smoothed(quick: bool) -> Case:
    name = "sphere.ply" if quick else "squat_source.obj"
    mesh = load_mesh(data_file("least_squares", name)).subdivide()
    held = np.arange(len(mesh.positions)), mesh.positions
    solver = GaussNewton(iterations=25)
    return Case(cotangent_smoothing.problem(mesh), solver, mesh.positions, wedges(mesh), held)


CASES: dict[str, Callable[[bool], Case]] = {
    "arap_mesh": lambda quick: deformed(arap_mesh, quick),
    "embedded_deformation": lambda quick: deformed(embedded_deformation, quick),
    "cotangent_smoothing": smoothed,
}


def compiled(folder: Path) -> Path | None:
    """``ceres_meshes`` of this folder, compiled; None, with a line that says why, where that fails."""
    source, program = Path(__file__).with_name("ceres_meshes.cpp"), folder.resolve() / "ceres_meshes"
    words = [
        "-O3",
        "-march=native",
        "-DNDEBUG",
        "-I/usr/include/eigen3",
        source,
        "-o",
        program,
        "-lceres",
        "-lglog",
    ]
    if (compiler := shutil.which("c++")) is None:
        print("there is no C++ compiler, so Ceres is left out: apt-get install g++ libceres-dev")
        return None
    made = subprocess.run([compiler, *map(str, words)], capture_output=True, text=True)
    if made.returncode:
        why = next(iter(made.stderr.splitlines()), "")
        print(f"Ceres is left out, since its program does not compile: apt-get install libceres-dev ({why})")
    return None if made.returncode else program


def by_ceres(program: Path, case: Case, enough: float, longest: float) -> dict[str, Any]:
    """Costs and CPU seconds of each step of Ceres until a cost; at most so many seconds."""
    edges, (marked, targets) = case.edges, case.markers
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print(case.problem.name, len(case.rest), len(edges), len(marked), file=file)
        for rows, digits in ((case.rest, "%.17g"), (edges, "%d"), (marked, "%d"), (targets, "%.17g")):
            np.savetxt(file, rows, digits)
        file.flush()
        words = [str(program), file.name, f"{enough:.17g}", f"{longest:g}"]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    costs, seconds = np.loadtxt(printed.splitlines(), ndmin=2).T.tolist()
    near = costs[-1] <= enough
    return {
        "final": costs[-1], "steps": len(costs) - 1, "near": near, "cpu_seconds": seconds[-1],
        "costs": costs, "seconds": seconds,
    }  # fmt: skip


def row_of(
    name: str,
    case: Case,
    device: Device,
    steps: int,
    optimum: float | None,
    ceres: Path | None,
    longest: float,
) -> dict[str, Any]:
    """Solves a case in turns, and prints a line. optimum: None for SciPy's, from where the device ends."""
    problem = case.problem
    runs = [solve(problem, case.solver, steps, device)]
    if optimum is None:
        at = [
            np.reshape(x, s.shape).astype(float)
            for x, s in zip(runs[0].unknowns, problem.start(), strict=True)
        ]
        optimum = min(levenberg_marquardt(problem.terms, at).costs)
    row = {
        "name": name, "vertices": problem.unknowns[0].count, "unknowns": sum(x.size for x in problem.start()),
        "initial": runs[0].costs[0], "final": runs[0].costs[-1], "optimum": optimum,
        "excess": runs[0].costs[-1] / optimum - 1, "steps": len(runs[0].inner), "iterations": sum(runs[0].inner),
    }  # fmt: skip
    print(
        f"{name}: {row['vertices']} vertices, {row['unknowns']} unknowns, cost {row['initial']:.8g} -> "
        f"{row['final']:.8g} ({row['excess']:+.1e} of the optimum) in {row['steps']} steps of {row['iterations']} iterations",
        flush=True,
    )
    row["ceres"] = peer = ceres and by_ceres(ceres, case, (1 + NEAR) * optimum, longest)
    runs.append(solve(problem, case.solver, steps, device))
    row["cpu_to_1e-3"] = near = [found and found[0] for found in (run.within(NEAR, optimum) for run in runs)]
    row["costs"], row["cpu_seconds"] = runs[0].costs, [run.seconds for run in runs]
    print(f"    within 1e-3 after {', '.join('never' if s is None else f'{s:.3g}' for s in near)} CPU s")
    if peer:
        reached = "within 1e-3" if peer["near"] else f"at {peer['final'] / optimum - 1:+.1e}"
        print(f"    Ceres {reached} after {peer['steps']} steps, {peer['cpu_seconds']:.3g} CPU s", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--steps", type=int, default=60, help="nonlinear steps at most")
    parser.add_argument("--longest", type=float, default=100.0, help="CPU seconds of a run of Ceres at most")
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--quick", action="store_true", help="386 and 162 vertices")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/meshes"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with Device.open(given.device) as device:
        rows, ceres = [], compiled(given.out)
        for name in given.only:
            optimum = None if given.quick else OPTIMA[name]
            rows.append(
                row_of(name, CASES[name](given.quick), device, given.steps, optimum, ceres, given.longest)
            )
            write_json(given.out / "meshes.json", rows)


if __name__ == "__main__":
    main()
