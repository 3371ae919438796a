"""As-rigid-as-possible deformation of a mesh by a grid of nodes around it, a volume (Opt's example; Innmann et al. 2016).

    E = 1/2 sum over nodes of the lower and upper side:  w_fit |u - g|^2
      + 1/2 sum over nodes p, over six neighbours n of p:  w_reg |u(p) - u(n) - (R(a(p)) - 1) (P(p) - P(n))|^2

P are the nodes at rest, u their unknown displacements and a their unknown angles, R = Rz Ry Rx. The lower side of the grid
stays; the upper one turns by a right angle. The vertices of the mesh follow the eight nodes around each.

    python apps/least_squares/paper/volumetric_arap.py --out out/volumetric_arap

Writes volumetric_arap.json (costs and times of every step, and of SciPy), volumetric_arap.ply and volumetric_arap.png.
--grid 16 64 16 is another number of cells; --quick takes 3 8 3.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from arap_mesh import rotated, rotation
from mesh_inputs import SOLVES, save_result
from problem import Problem, options, run_program
from scipy_solver import Term

from dressi import F, Variable
from dressi.ad.graph.types import FLOAT, VEC3
from dressi.ad.least_squares import in_bounds, neighbour
from dressi.render import Mesh, load_mesh
from dressi.render.io.files import data_file

FIT, REG = 1.0, 0.05
"""Weights, of the squares."""
MOVED = (2.5, -2.5, 0.0)
"""Where the upper side goes after its turn."""
NEIGHBOURS = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))


def nodes(mesh: Mesh, cells: tuple[int, int, int]) -> np.ndarray:
    """(D, H, W, 3): the nodes of a grid of W - 1, H - 1 and D - 1 cells over the box of the mesh."""
    low, high = mesh.positions.min(0), mesh.positions.max(0)
    axes = [np.linspace(a, b, n + 1) for a, b, n in zip(low, high, cells, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).transpose(2, 1, 0, 3)


def goals(rest: np.ndarray) -> np.ndarray:
    """(W * D, 3): the displacements of the upper side, which turns about z by -90 degrees."""
    side = rest[:, -1].reshape(-1, 3)
    away = side - side.mean(0)
    return np.stack([away[:, 1], -away[:, 0], away[:, 2]], 1) - away + MOVED


def energy(
    moved: Variable, angles: Variable, rest: Variable, goal: Variable, held: Variable
) -> list[Variable]:
    """moved, angles: VEC3 volumes, the unknowns. rest, goal: VEC3. held: FLOAT, 1 at nodes that have a goal."""
    turn, residuals = rotation(angles), [F.select(held, FIT**0.5 * (moved - goal), 0.0)]
    for to in NEIGHBOURS:
        edge = rest - neighbour(rest, *to)
        stretch = moved - neighbour(moved, *to) - (turn @ edge - edge)
        residuals.append(F.select(in_bounds(rest, *to), REG**0.5 * stretch, 0.0))
    return residuals


def problem(rest: np.ndarray) -> Problem:
    """The energy of nodes (D, H, W, 3) at rest."""
    depth, height, width, _ = rest.shape
    goal, held = np.zeros_like(rest), np.zeros(rest.shape[:3])
    goal[:, -1] = goals(rest).reshape(depth, width, 3)
    held[:, [0, -1]] = 1.0

    def volume(values: np.ndarray, name: str) -> Variable:
        vtype = VEC3 if values.ndim == 4 else FLOAT
        return Variable(vtype, (width, height), channels=depth, data=values[None], name=name)

    moved, angles = volume(0 * rest, "moved"), volume(0 * rest, "angles")
    inputs = (volume(v, n) for v, n in ((rest, "rest"), (goal, "goal"), (held, "held")))
    residuals = energy(moved, angles, *inputs)
    return Problem("volumetric_arap", residuals, [moved, angles], terms(rest, goal, held))


def terms(rest: np.ndarray, goal: np.ndarray, held: np.ndarray) -> list[Term]:
    """The energy in NumPy."""
    number, flat = np.arange(held.size).reshape(held.shape), rest.reshape(-1, 3)
    fixed, pairs = np.flatnonzero(held), []
    for axis in range(3):
        a, b = (np.delete(number, k, axis).ravel() for k in (-1, 0))
        pairs += [np.stack([a, b]), np.stack([b, a])]
    i, j = np.concatenate(pairs, 1)
    edge, wanted = flat[i] - flat[j], goal.reshape(-1, 3)[fixed]

    def stretch(ui: np.ndarray, uj: np.ndarray, a: np.ndarray) -> np.ndarray:
        return REG**0.5 * (ui - uj - (rotated(a, edge) - edge))

    return [
        Term(lambda u: FIT**0.5 * (u - wanted), [(0, fixed)]),
        Term(stretch, [(0, i), (0, j), (1, i)]),
    ]


def carried(mesh: Mesh, rest: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """(V, 3): the vertices with the displacements (D, H, W, 3) of the nodes around them, between them linear."""
    from scipy.interpolate import RegularGridInterpolator

    axes = rest[:, 0, 0, 2], rest[0, :, 0, 1], rest[0, 0, :, 0]
    at = np.clip(mesh.positions[:, ::-1], [a[0] for a in axes], [a[-1] for a in axes])
    return mesh.positions + RegularGridInterpolator(axes, moved)(at)


def main() -> None:
    parser = options(__doc__ or "", "volumetric_arap", method="lm", steps=40, **SOLVES)
    parser.add_argument(
        "--grid", type=int, nargs=3, default=None, metavar="N", help="cells along x, y and z; 5 20 5"
    )
    parser.add_argument("--quick", action="store_true", help="a grid of 3 8 3")
    parser.add_argument("--mesh", type=Path, help="a file; the head of DRESSI_DATA without it")
    given = parser.parse_args()
    mesh = load_mesh(given.mesh or data_file("least_squares", "head.ply"))
    rest = nodes(mesh, tuple(given.grid or ((3, 8, 3) if given.quick else (5, 20, 5))))
    run = run_program(problem(rest), given)
    moved = np.reshape(run.unknowns[0], rest.shape)
    save_result(given.out, "volumetric_arap", mesh, mesh.moved(carried(mesh, rest, moved)))


if __name__ == "__main__":
    main()
