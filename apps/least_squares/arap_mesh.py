"""As-rigid-as-possible deformation of a mesh (Opt, section 7.1.2; Sorkine and Alexa 2007).

    E = sum over markers of w_fit |x - target|^2  +  sum over edges (i, j), both ways, of w_reg |x_i - x_j - R_i (u_i - u_j)|^2

x are the unknown positions, u those at rest, and R_i = Rz(gamma) Ry(beta) Rx(alpha) of the unknown angles at vertex i.

    python apps/least_squares/arap_mesh.py --out out/arap_mesh

Writes arap_mesh.json (costs and times of every step, and of SciPy), arap_mesh.ply and arap_mesh.png.
"""

from __future__ import annotations

import numpy as np
from mesh_inputs import deform_armadillo, half_edges, index_list, neighbour_list
from problem import Problem
from scipy_solver import Term

from dressi import F, Variable
from dressi.ad.graph.types import VEC3
from dressi.render import Mesh

W_FIT, W_REG = 3.0, 4.0
"""Of the squares."""
INITIAL, OPTIMUM = 6734.5268, 574.26198
"""Costs of the small armadillo after one subdivision, half the sum of squares, by Ceres."""


def rotation(angles: Variable) -> Variable:
    """MAT3 Rz(gamma) Ry(beta) Rx(alpha) of VEC3 angles (alpha, beta, gamma) in radians."""
    cosine, sine = F.cos(angles), F.sin(angles)
    ca, cb, cg, sa, sb, sg = cosine.x, cosine.y, cosine.z, sine.x, sine.y, sine.z
    return F.mat3(
        F.vec3(cg * cb, sg * cb, -sb),
        F.vec3(cg * sb * sa - sg * ca, sg * sb * sa + cg * ca, cb * sa),
        F.vec3(cg * sb * ca + sg * sa, sg * sb * ca - cg * sa, cb * ca),
    )


def energy(
    positions: Variable,
    angles: Variable,
    rest: Variable,
    neighbours: Variable,
    markers: tuple[Variable, Variable],
    w_fit: float = W_FIT,
    w_reg: float = W_REG,
) -> list[Variable]:
    """positions, angles: VEC3 lists (V), the unknowns. rest: VEC3 list (V). neighbours: INT list
    (V), a tile for each of the neighbours, -1 where a vertex has fewer. markers: INT list (M) of vertices and VEC3 list (M) of their targets."""
    vertex, target = markers
    fit = F.lookup(positions, vertex) - target
    now = positions - F.lookup(positions, neighbours)
    before = rest - F.lookup(rest, neighbours)
    rigid = F.select(neighbours >= 0, now - rotation(angles) @ before, 0.0)
    return [float(np.sqrt(w_fit)) * fit, float(np.sqrt(w_reg)) * rigid]


def posed(mesh: Mesh, vertices: np.ndarray, targets: np.ndarray) -> tuple[Problem, Variable]:
    """The energy from the mesh at rest, all angles 0. vertices: (M,) that are dragged to targets (M, 3), which are the second value, a leaf."""
    rest = mesh.positions
    positions = Variable.of(rest, VEC3, name="positions")
    angles = Variable.of(np.zeros_like(rest), VEC3, name="angles")
    goal = Variable.of(targets, VEC3, name="targets")
    markers = index_list("marked", vertices), goal
    residuals = energy(positions, angles, Variable.of(rest, VEC3, name="rest"), neighbour_list(mesh), markers)
    found = Problem(
        "arap_mesh", residuals, [positions, angles], terms(rest, half_edges(mesh)[:, :2], vertices, targets)
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
) -> list[Term]:
    """The energy in NumPy. edges: (E, 2), both ways."""
    i, j = edges.T
    before = rest[i] - rest[j]
    return [
        Term(lambda x: np.sqrt(w_fit) * (x - targets), [(0, vertices)]),
        Term(lambda xi, xj, a: np.sqrt(w_reg) * (xi - xj - rotated(a, before)), [(0, i), (0, j), (1, i)]),
    ]


def rotated(angles: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Rz(gamma) Ry(beta) Rx(alpha) v of rows (alpha, beta, gamma) and v."""
    (ca, cb, cg), (sa, sb, sg) = np.cos(angles).T, np.sin(angles).T
    x, y, z = v.T
    y, z = ca * y - sa * z, sa * y + ca * z
    x, z = cb * x + sb * z, -sb * x + cb * z
    x, y = cg * x - sg * y, sg * x + cg * y
    return np.stack([x, y, z], 1)


def main() -> None:
    deform_armadillo("arap_mesh", posed, __doc__ or "", frames=96, method="gn", steps=20)


if __name__ == "__main__":
    main()
