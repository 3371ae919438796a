"""Cotangent-weighted smoothing of a mesh (Opt, section 7.3; Desbrun et al. 1999).

    E = sum over vertices of w_fit |x - a|^2  +  sum over edges (i, j) of w_reg w_ij |x_j - x_i|^2
    w_ij = (cot + cot) / 2 of the angles opposite to the edge, at least 1e-4

x are the unknown positions, a the given ones. The weights follow the unknown, which is the variant of the paper, or are those
of the given mesh.

    python apps/least_squares/cotangent_smoothing.py --out out/cotangent_smoothing

Writes cotangent_smoothing.json (costs and times of every step, and of SciPy), cotangent_smoothing.ply and
cotangent_smoothing.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mesh_inputs import index_list, save_result, wedges
from problem import Problem, options, run_program
from scipy_solver import Term

from dressi import F, Variable
from dressi.ad.graph.types import VEC3
from dressi.render import Mesh, load_mesh
from dressi.render.io.files import data_file

W_FIT, W_REG = 1.0, 1.0
"""Of the squares."""
INITIAL, OPTIMUM = 11.66593170, 7.49838721
"""Costs of the sphere of 42 vertices, half the sum of squares, by Ceres."""
LEAST = 1e-4


def cotangent(u: Variable, v: Variable) -> Variable:
    """FLOAT: the cotangent of the angle between VEC3 u and v; of vectors along one line, their product is divided by 0.01."""
    normal = F.cross(u, v)
    square = F.dot(normal, normal)
    return F.dot(u, v) / F.sqrt(F.select(square > 0.0, square, LEAST))


def energy(
    positions: Variable,
    given: Variable,
    edges: tuple[Variable, Variable, Variable, Variable],
    w_fit: float = W_FIT,
    w_reg: float = W_REG,
    recompute: bool = True,
) -> list[Variable]:
    """positions: VEC3 list (V), the unknown. given: VEC3 list (V). edges: INT lists (E), the ends of each edge, and the third
    vertices of the faces to its left and right; -1 for the right one of a face that ends there. recompute: whether the weights
    follow the unknown."""
    start, end, _, right = edges
    shape = positions if recompute else given
    i, j, k, m = (F.lookup(shape, index) for index in edges)
    weight = 0.5 * (cotangent(i - k, j - k) + F.select(right >= 0, cotangent(i - m, j - m), 0.0))
    weight = F.sqrt(F.select(weight > 0.0, weight, LEAST))
    edge = F.lookup(positions, end) - F.lookup(positions, start)
    return [float(np.sqrt(w_fit)) * (positions - given), float(np.sqrt(w_reg)) * weight * edge]


def problem(mesh: Mesh, recompute: bool = True) -> Problem:
    """The energy from the given mesh."""
    positions = Variable.of(mesh.positions, VEC3, name="positions")
    given = Variable.of(mesh.positions, VEC3, name="given")
    found = wedges(mesh)
    start, end, left, right = (index_list("wedges", column) for column in found.T)
    residuals = energy(positions, given, (start, end, left, right), recompute=recompute)
    return Problem(
        "cotangent_smoothing", residuals, [positions], terms(mesh.positions, found, recompute=recompute)
    )


def terms(
    given: np.ndarray,
    edges: np.ndarray,
    w_fit: float = W_FIT,
    w_reg: float = W_REG,
    recompute: bool = True,
) -> list[Term]:
    """The energy in NumPy. edges: (E, 4) of ``wedges``."""
    i, j, k, m = edges.T

    def cot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        n = np.cross(u, v)
        square = (n * n).sum(1)
        return (u * v).sum(1) / np.sqrt(np.where(square.real > 0, square, LEAST))

    def weights(xi: np.ndarray, xj: np.ndarray, xk: np.ndarray, xm: np.ndarray) -> np.ndarray:
        other = np.where(m >= 0, cot(xi - xm, xj - xm), 0.0)
        w = 0.5 * (cot(xi - xk, xj - xk) + other)
        return np.sqrt(np.where(w.real > 0, w, LEAST))[:, None]

    fixed = weights(*(given[index] for index in edges.T))

    def smooth(xi: np.ndarray, xj: np.ndarray, xk: np.ndarray, xm: np.ndarray) -> np.ndarray:
        return np.sqrt(w_reg) * (weights(xi, xj, xk, xm) if recompute else fixed) * (xj - xi)

    return [
        Term(lambda x: np.sqrt(w_fit) * (x - given), [(0, np.arange(len(given)))]),
        Term(smooth, [(0, i), (0, j), (0, k), (0, m % len(given))]),
    ]


def main() -> None:
    parser = options(__doc__ or "", "cotangent_smoothing", method="gn", steps=8, iterations=25)
    parser.add_argument("--mesh", type=Path, help="a file; the sphere of DRESSI_DATA without it")
    parser.add_argument("--fixed", action="store_true", help="take the weights of the given mesh")
    given = parser.parse_args()
    mesh = load_mesh(given.mesh or data_file("least_squares", "sphere.ply"))
    run = run_program(problem(mesh, recompute=not given.fixed), given)
    save_result(given.out, "cotangent_smoothing", mesh, mesh.moved(run.unknowns[0]))


if __name__ == "__main__":
    main()
