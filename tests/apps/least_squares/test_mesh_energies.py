"""The mesh energies: residuals and derivatives against NumPy, costs and optima against those of Ceres."""

from collections.abc import Callable
from pathlib import Path

import arap_mesh
import cotangent_smoothing
import embedded_deformation
import laplacian
import numpy as np
import pytest
from mesh_inputs import half_edges, load_markers, sqrt3, wedges
from problem import Problem
from scipy_solver import Energy, levenberg_marquardt

from dressi import Variable, gradient, jvp
from dressi.ad.evaluate import evaluate
from dressi.errors import InputError
from dressi.render import Mesh, load_mesh, primitives


def bumpy(faces: slice = slice(None)) -> Mesh:
    """An icosahedron with moved vertices, or some of its faces."""
    mesh = primitives.icosphere(0)
    moved = mesh.positions + 0.1 * np.random.default_rng(0).normal(size=mesh.positions.shape)
    return Mesh(moved, mesh.faces[faces])


VERTICES = np.array([1, 5])
TARGETS = np.array([[0.3, -0.2, 0.5], [-0.4, 0.1, 0.2]])


def cotangent(faces: slice, recompute: bool) -> Problem:
    return cotangent_smoothing.problem(bumpy(faces), recompute)


CASES: dict[str, Callable[[], Problem]] = {
    "arap_mesh": lambda: arap_mesh.problem(bumpy(), VERTICES, TARGETS),
    "embedded_deformation": lambda: embedded_deformation.problem(bumpy(), VERTICES, TARGETS),
    "cotangent": lambda: cotangent(slice(None), True),
    "cotangent, fixed weights": lambda: cotangent(slice(None), False),
    "cotangent, open mesh": lambda: cotangent(slice(2, None), True),
    "laplacian": lambda: laplacian.problem(laplacian.image()[:5, :7]),
}


def flat(values: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([v.ravel() for v in values])


@pytest.mark.parametrize("name", CASES)
def test_residuals_and_their_products_are_those_of_numpy(name: str):
    problem = CASES[name]()
    random = np.random.default_rng(2)
    at = {x: x.data + 0.05 * random.normal(size=x.shape) for x in problem.unknowns if x.data is not None}
    energy = Energy(problem.terms, problem.start())
    here = flat(list(at.values()))
    expected, jacobian = energy.residuals(here), energy.jacobian(here).toarray()
    residuals = evaluate(problem.energy, at)
    assert flat(order_of(name, residuals)) == pytest.approx(expected, abs=1e-12)

    p = {x: random.normal(size=x.shape) for x in at}
    forward = evaluate(jvp(problem.energy, list(at), [p[x] for x in at]), at)
    assert flat(order_of(name, forward)) == pytest.approx(jacobian @ flat(list(p.values())), abs=1e-10)

    seeds = [Variable.of(random.normal(size=r.shape), r.vtype) for r in problem.energy]
    back = [gradient(r, list(at), seed) for r, seed in zip(problem.energy, seeds, strict=True)]
    found = sum(flat(evaluate(g, at)) for g in back)
    weights = flat(order_of(name, evaluate(seeds)))
    assert found == pytest.approx(jacobian.T @ weights, abs=1e-10)


def order_of(name: str, residuals: list[np.ndarray]) -> list[np.ndarray]:
    """Residuals of the graph as NumPy lists them: edges vertex by vertex, and those of a frame as vectors of six."""
    if name not in ("arap_mesh", "embedded_deformation"):
        return residuals
    fit, edges, *frames = residuals
    there = np.arange(len(edges))[:, None] < np.diff(bumpy().neighbours()[0])
    listed = np.swapaxes(edges[:, 0], 0, 1)[there.T]
    return [fit, listed, np.concatenate(frames, -1)] if frames else [fit, listed]


def test_the_laplacian_of_the_paper():
    problem = laplacian.problem(laplacian.image())
    assert problem.cost() == pytest.approx(laplacian.INITIAL, rel=1e-9)
    found = levenberg_marquardt(problem.terms, problem.start())
    assert found.costs[-1] == pytest.approx(laplacian.OPTIMUM, rel=1e-9)


def test_the_sphere_is_smoothed_as_by_ceres(data: Path):
    mesh = load_mesh(data / "least_squares" / "sphere.ply")
    problem = cotangent_smoothing.problem(mesh)
    assert problem.cost() == pytest.approx(cotangent_smoothing.INITIAL, rel=1e-9)
    found = levenberg_marquardt(problem.terms, problem.start())
    assert found.costs[-1] == pytest.approx(cotangent_smoothing.OPTIMUM, rel=1e-9)


def test_the_armadillo_is_deformed_as_by_ceres(data: Path):
    mesh = sqrt3(load_mesh(data / "least_squares" / "small_armadillo.ply"))
    vertices, targets = load_markers(data / "least_squares" / "small_armadillo.mrk")
    problem = arap_mesh.problem(mesh, vertices, targets)
    assert problem.cost() == pytest.approx(arap_mesh.INITIAL, rel=1e-7)
    found = levenberg_marquardt(problem.terms, problem.start())
    assert found.costs[-1] == pytest.approx(arap_mesh.OPTIMUM, rel=1e-7)


def test_edges_of_open_meshes_have_no_face_on_their_right():
    found = wedges(bumpy(slice(1, None)))
    assert len(found) == 30 and (found[:, :3] >= 0).all() and (found[:, 3] < 0).sum() == 3


def test_subdivision_keeps_a_mesh_closed_and_oriented():
    mesh = sqrt3(primitives.icosphere(1), 2)
    assert mesh.is_closed() and len(mesh.faces) == 9 * 80 and len(mesh.positions) == 9 * 40 + 2
    assert 0.8 < mesh.signed_volume() / primitives.icosphere(1).signed_volume() < 1


def test_bad_inputs_are_named(tmp_path: Path):
    file = tmp_path / "few.mrk"
    file.write_text("2\n0 0 0 1 3\n")
    with pytest.raises(InputError, match="no list of markers"):
        load_markers(file)
    with pytest.raises(InputError, match="closed"):
        sqrt3(bumpy(slice(1, None)))
    with pytest.raises(InputError, match="same way"):
        half_edges(Mesh(np.eye(3), [[0, 1, 2], [0, 1, 2]]))
