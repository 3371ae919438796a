"""Energies of images and meshes: their values, derivatives and minima."""

from collections.abc import Callable
from pathlib import Path

import arap_mesh
import cotangent_smoothing
import embedded_deformation
import image_warping
import images
import intrinsic_images
import laplacian
import numpy as np
import poisson_editing
import products
import pytest
import volumetric_arap
from energies import CASES, Case, pairs
from mesh_inputs import half_edges, load_markers, sqrt3, wedges
from numpy.testing import assert_allclose
from problem import Problem
from scipy_solver import Energy, levenberg_marquardt

from dressi import F, InputError, Variable, gradient, jvp, least_squares
from dressi.ad.graph.evaluation import evaluate
from dressi.render import Mesh, load_mesh, primitives

TINY = 1e-30
"""The step of complex differences, which have no rounding error."""


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def points(case: Case) -> list[np.ndarray]:
    """The values of the unknowns, without the axis of the batch."""
    return [x.data[0] for x in case.unknowns]


def jacobian(case: Case) -> np.ndarray:
    """(residuals, unknowns): dense, by complex differences of the NumPy residuals."""
    start, columns = points(case), []
    for k, values in enumerate(start):
        for place in np.ndindex(values.shape):
            moved = [v.astype(complex) for v in start]
            moved[k][place] += 1j * TINY
            columns.append(np.imag(case.numpy(*moved)) / TINY)
    return np.stack(columns, axis=1)


def directions(case: Case, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.normal(size=v.shape) for v in points(case)]


def half_squares(residuals: list[Variable]) -> Variable:
    """FLOAT: the cost."""
    total = F.constant(0.0)
    for r in residuals:
        total = total + F.sum(F.square(r) if r.vtype.is_scalar else F.dot(r, r))
    return 0.5 * total


def joined(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in arrays])


def test_the_cost_is_that_of_the_formula(case: Case):
    found = evaluate([half_squares(case.residuals)])[0].item()
    expected = 0.5 * np.sum(np.square(case.numpy(*points(case))))
    assert found == pytest.approx(expected, rel=1e-12)


def test_products_with_the_jacobian(case: Case):
    """|J p|^2, its inner products and J^T r: the order of the residuals does not matter."""
    dense, start = jacobian(case), points(case)
    p, q = directions(case, 1), directions(case, 2)
    along = [joined(evaluate(jvp(case.residuals, case.unknowns, list(t)))) for t in (p, q)]
    expected = [dense @ joined(t) for t in (p, q)]
    for a in (0, 1):
        for b in (a, 1):
            assert along[a] @ along[b] == pytest.approx(expected[a] @ expected[b], rel=1e-9)
    found = evaluate(gradient(half_squares(case.residuals), case.unknowns))
    assert_allclose(joined(found), dense.T @ case.numpy(*start), rtol=1e-9, atol=1e-12)


def test_the_transpose_of_a_product(case: Case):
    """J^T (J p), as the inner iterations of a solver compute it."""
    dense, p = jacobian(case), directions(case, 3)
    pushed = jvp(case.residuals, case.unknowns, list(p))
    total = F.constant(0.0)
    for r, t in zip(case.residuals, pushed, strict=True):
        t = F.stop_gradient(t)
        total = total + F.sum(r * t if r.vtype.is_scalar else F.dot(r, t))
    found = joined(evaluate(gradient(total, case.unknowns)))
    assert_allclose(found, dense.T @ (dense @ joined(p)), rtol=1e-9, atol=1e-11)


def test_the_diagonal(case: Case):
    dense = jacobian(case)
    found = least_squares.diagonal(case.residuals, case.unknowns)
    assert not found.rest
    assert_allclose(joined(evaluate(found.values)), np.sum(dense**2, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.one_driver
def test_products_on_devices(case: Case, device):
    from dressi import DressiAD

    dense, p = jacobian(case), directions(case, 3)
    product = least_squares.Jacobian(case.residuals, case.unknowns)
    squares = least_squares.diagonal(case.residuals, case.unknowns).values
    tangents = [Variable.of(t, x.vtype) for t, x in zip(p, case.unknowns, strict=True)]
    with DressiAD(device) as ad:
        for images, right in (
            (product.reverse(product.forward(tangents)), dense.T @ (dense @ joined(p))),
            (squares, np.sum(dense**2, axis=0)),
        ):
            found = joined([ad.evaluate(image) for image in images])
            assert_allclose(found, right, rtol=1e-3, atol=1e-5 * np.abs(right).max())


def test_devices_agree(case: Case, device):
    from dressi import DressiAD

    cost = half_squares(case.residuals)
    slopes = gradient(cost, case.unknowns)
    expected = evaluate([cost, *slopes])
    with DressiAD(device) as ad:
        for variable, right in zip([cost, *slopes], expected, strict=True):
            assert_allclose(ad.evaluate(variable), right, rtol=1e-3, atol=1e-4 * np.abs(right).max())


def solved(given: images.Splice) -> np.ndarray:
    """The colours of least cost, by a direct solve of the normal equations of SciPy."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.linalg import spsolve

    active = given.active > 0
    height, width = active.shape
    number = np.where(active, np.cumsum(active).reshape(active.shape) - 1, -1)
    ends = [(p, n) for p, n, _ in pairs(height, width) if active[p]]
    here, there = (np.array([end[k] for end in ends]).T for k in (0, 1))
    rows = np.arange(len(ends))
    columns, out = (number[tuple(at)] for at in (here, there))
    both = out >= 0
    matrix = csr_matrix((np.ones(len(rows)), (rows, columns)), (len(rows), active.sum())) - csr_matrix(
        (np.ones(both.sum()), (rows[both], out[both])), (len(rows), active.sum())
    )
    wanted = given.inserted[tuple(here)] - given.inserted[tuple(there)]
    wanted = wanted + np.where(both[:, None], 0.0, given.base[tuple(there)])
    colours = given.base.copy()
    colours[active] = spsolve((matrix.T @ matrix).tocsc(), matrix.T @ wanted)
    return colours


def test_the_splice_costs_what_it_costs_ceres(data):
    """At the start and at the optimum, as measured; the box has all of the energy."""
    given = images.splice().cropped()
    unknown = Variable.of(given.base, name="colours")
    inputs = [Variable.of(a) for a in (given.inserted, given.base, given.active)]
    cost = half_squares(poisson_editing.energy(unknown, *inputs))
    assert evaluate([cost])[0].item() == pytest.approx(40484780)
    assert evaluate([cost], {unknown: solved(given)})[0].item() == pytest.approx(133511.0666, rel=1e-9)


@pytest.mark.parametrize(("every", "cost"), [(1, 6148.753463), (4, 383.933518)])
def test_the_cat_starts_where_ceres_does(data, every: int, cost: float):
    given = images.warp(every)
    unknowns = [Variable.of(np.zeros(shape.shape)) for shape in (given.goal, given.active)]
    fixed = [Variable.of(a) for a in (given.active, given.goal / 19, given.handle)]
    total = half_squares(image_warping.energy(*unknowns, *fixed))
    assert evaluate([total])[0].item() == pytest.approx(cost, rel=1e-9)


def test_a_cat_of_no_pixels_is_refused():
    with pytest.raises(InputError, match="every is at least 1"):
        images.warp(0)


def bumpy(faces: slice = slice(None)) -> Mesh:
    """An icosahedron with moved vertices, or some of its faces."""
    mesh = primitives.icosphere(0)
    moved = mesh.positions + 0.1 * np.random.default_rng(0).normal(size=mesh.positions.shape)
    return Mesh(moved, mesh.faces[faces])


VERTICES = np.array([1, 5])
TARGETS = np.array([[0.3, -0.2, 0.5], [-0.4, 0.1, 0.2]])


def cotangent(faces: slice, recompute: bool) -> Problem:
    return cotangent_smoothing.problem(bumpy(faces), recompute)


MESH_CASES: dict[str, Callable[[], Problem]] = {
    "arap_mesh": lambda: arap_mesh.problem(bumpy(), VERTICES, TARGETS),
    "embedded_deformation": lambda: embedded_deformation.problem(bumpy(), VERTICES, TARGETS),
    "cotangent": lambda: cotangent(slice(None), True),
    "cotangent, fixed weights": lambda: cotangent(slice(None), False),
    "cotangent, open mesh": lambda: cotangent(slice(2, None), True),
    "laplacian": lambda: laplacian.problem(laplacian.image()[:5, :7]),
}


def flat(values: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([v.ravel() for v in values])


@pytest.mark.parametrize("name", MESH_CASES)
def test_residuals_and_their_products_are_those_of_numpy(name: str):
    problem = MESH_CASES[name]()
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


BLOCKS: dict[str, Callable[[], Problem]] = {
    "volumetric_arap": lambda: volumetric_arap.problem(volumetric_arap.nodes(bumpy(), (2, 3, 1))),
    "intrinsic_images": lambda: intrinsic_images.problem(np.random.default_rng(1).random((5, 6, 3))),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_costs_and_slopes_are_those_of_numpy(name: str):
    problem = BLOCKS[name]()
    random = np.random.default_rng(2)
    at = {x: x.data + 0.05 * random.normal(size=x.shape) for x in problem.unknowns if x.data is not None}
    energy, here = Energy(problem.terms, problem.start()), flat(list(at.values()))
    residuals = energy.residuals(here)
    cost, roots = energy.weighed(residuals)
    total = least_squares.Energy(problem.energy).cost()
    found, *slopes = evaluate([total, *gradient(total, list(at))], at)
    assert found.item() == pytest.approx(cost, rel=1e-9)
    right = energy.jacobian(here).T @ (roots**2 * residuals)
    assert_allclose(flat(slopes), right, rtol=1e-7, atol=1e-9 * np.abs(right).max())


@pytest.mark.parametrize("name", BLOCKS)
def test_one_sweep_multiplies_like_two(name: str):
    problem = BLOCKS[name]()
    energy = [getattr(r, "residual", r) for r in problem.energy]
    p, jacobian = products.directions(problem), least_squares.Jacobian(energy, problem.unknowns)
    one = evaluate(products.one_sweep(energy, problem.unknowns, p))
    for a, b in zip(one, evaluate(jacobian.reverse(jacobian.forward(p))), strict=True):
        assert_allclose(a, b, rtol=1e-6, atol=1e-6 * np.abs(b).max())


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
