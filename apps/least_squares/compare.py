"""All energies on a device, beside references on the CPU: one table of costs and times.

    python apps/least_squares/compare.py --out out/least_squares
    python apps/least_squares/compare.py --only arap_mesh laplacian --device SwiftShader

SciPy solves each energy by Levenberg-Marquardt with sparse direct solves: those of meshes from their NumPy form, those of
images from Jacobians that the graph itself gives (see ``GraphEnergy``). Times are CPU seconds to a cost within 1e-3 of the
optimum, without builds. ``paper/meshes.py`` has meshes of the paper's sizes, beside Ceres. Writes compare.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arap_mesh
import cotangent_smoothing
import embedded_deformation
import image_warping
import laplacian
import numpy as np
import optical_flow
import poisson_editing
import shape_from_shading
from images import GREY, flow_frames, shaded, splice, warp
from mesh_inputs import SOLVES, armadillo
from problem import Problem, reference_row, row_of, solve
from scipy import sparse
from scipy_solver import Energy, levenberg_marquardt

from dressi import Device, Variable, jvp
from dressi.ad.graph.evaluation import Evaluator
from dressi.ad.least_squares import GaussNewton, LeastSquares, LevenbergMarquardt
from dressi.render import load_mesh
from dressi.render.io import write_json
from dressi.render.io.files import data_file


@dataclass(frozen=True)
class Case:
    """problem: makes it, with what is sent before each step, or None. reference: steps of the reference in SciPy."""

    problem: Callable[[], tuple[Problem, Any]]
    solver: LeastSquares
    steps: int
    reference: int = 0


def flow() -> tuple[Problem, Any]:
    first, second = (frame @ GREY for frame in flow_frames())
    pyramid = optical_flow.Pyramid(first, second, steps=3)
    return pyramid.problem, pyramid.sent


CASES: dict[str, Case] = {
    "laplacian": Case(lambda: (laplacian.problem(laplacian.image()), None), GaussNewton(), 5, 20),
    "poisson_editing": Case(lambda: (poisson_editing.problem(splice()), None), GaussNewton(), 5, 20),
    "image_warping_128": Case(
        lambda: (image_warping.problem(warp(4), 4)[0], None), GaussNewton(iterations=400, forcing=0.1), 12, 20
    ),
    "image_warping_512": Case(
        lambda: (image_warping.problem(warp())[0], None), GaussNewton(iterations=400, forcing=0.1), 12, 10
    ),
    "arap_mesh": Case(lambda: (arap_mesh.problem(*armadillo()), None), LevenbergMarquardt(**SOLVES), 40, 100),
    "cotangent_smoothing": Case(
        lambda: (
            cotangent_smoothing.problem(load_mesh(data_file("least_squares", "sphere.ply"))),
            None,
        ),
        GaussNewton(iterations=25),
        8,
        50,
    ),
    "embedded_deformation": Case(
        lambda: (embedded_deformation.problem(*armadillo()), None), GaussNewton(**SOLVES), 40, 100
    ),
    "shape_from_shading": Case(
        lambda: (shape_from_shading.problem(shaded())[0], None), LevenbergMarquardt(), 40
    ),
    "optical_flow": Case(flow, GaussNewton(iterations=50, tolerance=0.0), 3 * len(optical_flow.BLURS)),
}


class GraphEnergy:
    """An energy over images of one size, whose residuals read the unknowns at most one texel away.

    J p for a p that is 1 at every third texel of every third row gives all columns of these texels at once: texel q of a
    residual reads exactly one of them, the one in the square of three around q.
    """

    def __init__(self, problem: Problem):
        self.unknowns = list(problem.unknowns)
        self.width, self.height = self.unknowns[0].size
        self.places = [Variable(x.vtype, x.size, x.batch) for x in self.unknowns]
        self.residuals_of = Evaluator(problem.energy)
        self.products = Evaluator(jvp(problem.energy, self.unknowns, self.places))

    def _values(self, variables: list[Variable], x: np.ndarray) -> dict[Variable, np.ndarray]:
        ends = np.cumsum([np.prod(v.shape) for v in variables])[:-1]
        return {v: part.reshape(v.shape) for v, part in zip(variables, np.split(x, ends), strict=True)}

    def residuals(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([r.ravel() for r in self.residuals_of(self._values(self.unknowns, x))])

    def weighed(self, r: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float(r @ r), np.ones_like(r)

    def jacobian(self, x: np.ndarray) -> sparse.csr_array:
        at = self._values(self.unknowns, x)
        rows, columns, values = [], [], []
        i, j = np.meshgrid(np.arange(self.width), np.arange(self.height))
        first = 0
        for k, unknown in enumerate(self.unknowns):
            parts = unknown.vtype.components
            for c in range(parts):
                for colour in range(9):
                    a, b = colour % 3, colour // 3
                    p = np.zeros((self.height, self.width, parts))
                    p[b::3, a::3, c] = 1.0
                    still = {v: np.zeros(v.shape) for v in self.places}
                    found = self.products({**at, **still, self.places[k]: p.reshape(unknown.shape)})
                    texel = (j + (b - j + 1) % 3 - 1) * self.width + i + (a - i + 1) % 3 - 1
                    row = 0
                    for product in found:
                        flat = product.reshape(self.height * self.width, -1)
                        texels, components = np.nonzero(flat)
                        rows.append(row + texels * flat.shape[1] + components)
                        columns.append(first + texel.ravel()[texels] * parts + c)
                        values.append(flat[texels, components])
                        row += flat.size
            first += parts * self.width * self.height
        where = np.concatenate(rows), np.concatenate(columns)
        return sparse.csr_array((np.concatenate(values), where), shape=(row, first))


def by_scipy(problem: Problem, steps: int) -> dict[str, Any]:
    """Costs and CPU seconds of the reference."""
    energy = Energy(problem.terms, problem.start()) if problem.terms else GraphEnergy(problem)
    return reference_row(levenberg_marquardt(energy, problem.start(), steps=steps))


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""

    def shown(value: float | None, digits: str) -> str:
        return "-" if value is None else format(value, digits)

    scipy = row.get("scipy") or {}
    words = [
        f"{row['name']:22}",
        f"{row['initial']:14.9g}",
        f"{row['final']:14.9g}",
        f"{shown(scipy.get('final'), '.9g'):>14}",
    ]
    words += [
        f"{row['excess']:+9.1e}",
        f"{shown(row['cpu_to_1e-3'], '.3g'):>9}",
        f"{shown(scipy.get('cpu_to_1e-3'), '.3g'):>9}",
    ]
    return " ".join(words)


HEADER = f"{'energy':22} {'initial':>14} {'dressi':>14} {'SciPy':>14} {'excess':>9} {'CPU s':>9} {'SciPy':>9}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--no-reference", action="store_true", help="leave SciPy out")
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/least_squares"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    print(HEADER)
    with Device.open(given.device) as device:
        for name in given.only:
            case = CASES[name]
            problem, before = case.problem()
            run = solve(problem, case.solver, case.steps, device, before)
            scipy = None if given.no_reference or not case.reference else by_scipy(problem, case.reference)
            rows.append({"name": name, "solver": repr(case.solver), **row_of(problem, run, scipy)})
            print(line(rows[-1]), flush=True)
            write_json(given.out / "compare.json", rows)


if __name__ == "__main__":
    main()
