"""Embedded deformation of a mesh (Opt, section 7.3; Sumner et al. 2007): an affine frame at each vertex, nearly rigid.

    E = sum over markers of w_fit |x - target|^2  +  sum over edges (i, j), both ways, of w_reg |x_j - x_i - R_i (u_j - u_i)|^2
      + sum over vertices of w_rot ((c0.c1)^2 + (c0.c2)^2 + (c1.c2)^2 + (c0.c0 - 1)^2 + (c1.c1 - 1)^2 + (c2.c2 - 1)^2)

x are the unknown positions, u those at rest, and c0, c1, c2 the columns of the unknown matrix R_i at vertex i.

    python apps/least_squares/embedded_deformation.py --out out/embedded_deformation

Writes embedded_deformation.json (costs and times of every step, and of SciPy), embedded_deformation.ply and
embedded_deformation.png.
"""

from __future__ import annotations

import numpy as np
from mesh_inputs import deform_armadillo, half_edges, index_list, neighbour_list
from problem import Problem
from scipy_solver import Term

from dressi import F, Variable
from dressi.ad.graph.types import MAT3, VEC3
from dressi.render import Mesh

W_FIT, W_REG, W_ROT = 3.0, 12.0, 5.0
"""Of the squares."""


def energy(
    positions: Variable,
    frames: Variable,
    rest: Variable,
    neighbours: Variable,
    markers: tuple[Variable, Variable],
    w_fit: float = W_FIT,
    w_reg: float = W_REG,
    w_rot: float = W_ROT,
) -> list[Variable]:
    """positions: VEC3 list (V) and frames: MAT3 list (V), the unknowns. rest: VEC3 list (V). neighbours: INT
    list (V), a tile for each of the neighbours, -1 where a vertex has fewer. markers: INT list (M) of vertices and VEC3 list (M) of their targets."""
    vertex, target = markers
    fit = F.lookup(positions, vertex) - target
    now = F.lookup(positions, neighbours) - positions
    before = F.lookup(rest, neighbours) - rest
    affine = F.select(neighbours >= 0, now - frames @ before, 0.0)
    a, b, c = (F.column(frames, k) for k in range(3))
    angles = F.vec3(F.dot(a, b), F.dot(a, c), F.dot(b, c))
    lengths = F.vec3(F.dot(a, a), F.dot(b, b), F.dot(c, c)) - 1.0
    fit_root, reg_root, rot_root = (float(np.sqrt(w)) for w in (w_fit, w_reg, w_rot))
    return [fit_root * fit, reg_root * affine, rot_root * angles, rot_root * lengths]


def posed(mesh: Mesh, vertices: np.ndarray, targets: np.ndarray) -> tuple[Problem, Variable]:
    """The energy from the mesh at rest, all frames 1. vertices: (M,) that are dragged to targets (M, 3), which are the second value, a leaf."""
    rest = mesh.positions
    positions = Variable.of(rest, VEC3, name="positions")
    frames = Variable.of(np.tile(np.eye(3), (len(rest), 1, 1)), MAT3, name="frames")
    goal = Variable.of(targets, VEC3, name="targets")
    markers = index_list("marked", vertices), goal
    residuals = energy(positions, frames, Variable.of(rest, VEC3, name="rest"), neighbour_list(mesh), markers)
    found = Problem(
        "embedded_deformation",
        residuals,
        [positions, frames],
        terms(rest, half_edges(mesh)[:, :2], vertices, targets),
    )
    return found, goal


def problem(mesh: Mesh, vertices: np.ndarray, targets: np.ndarray) -> Problem:
    """The problem of ``posed``."""
    return posed(mesh, vertices, targets)[0]


def terms(
    rest: np.ndarray,
    edges: np.ndarray,
    vertices: np.ndarray,
    targets: np.ndarray,
    w_fit: float = W_FIT,
    w_reg: float = W_REG,
    w_rot: float = W_ROT,
) -> list[Term]:
    """The energy in NumPy. edges: (E, 2), both ways. Frames are rows of nine."""
    i, j = edges.T
    before = rest[j] - rest[i]

    def affine(xi: np.ndarray, xj: np.ndarray, frame: np.ndarray) -> np.ndarray:
        return np.sqrt(w_reg) * (xj - xi - np.einsum("eij,ej->ei", frame.reshape(-1, 3, 3), before))

    def rigid(frame: np.ndarray) -> np.ndarray:
        c = frame.reshape(-1, 3, 3)
        gram = np.einsum("eki,ekj->eij", c, c) - np.eye(3)
        return np.sqrt(w_rot) * gram[:, [0, 0, 1, 0, 1, 2], [1, 2, 2, 0, 1, 2]]

    return [
        Term(lambda x: np.sqrt(w_fit) * (x - targets), [(0, vertices)]),
        Term(affine, [(0, i), (0, j), (1, i)]),
        Term(rigid, [(1, np.arange(len(rest)))]),
    ]


def main() -> None:
    deform_armadillo("embedded_deformation", posed, __doc__ or "", frames=31, method="lm", steps=40)


if __name__ == "__main__":
    main()
