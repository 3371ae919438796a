"""The image energies of apps/least_squares: costs and products with the Jacobian against NumPy."""

import image_warping
import images
import numpy as np
import poisson_editing
import pytest
from energies import CASES, Case, pairs

from dressi import F, Variable, gradient, jvp, least_squares
from dressi.ad.evaluate import evaluate
from dressi.errors import InputError

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
    np.testing.assert_allclose(joined(found), dense.T @ case.numpy(*start), rtol=1e-9, atol=1e-12)


def test_the_transpose_of_a_product(case: Case):
    """J^T (J p), as the inner iterations of a solver compute it."""
    dense, p = jacobian(case), directions(case, 3)
    pushed = jvp(case.residuals, case.unknowns, list(p))
    total = F.constant(0.0)
    for r, t in zip(case.residuals, pushed, strict=True):
        t = F.stop_gradient(t)
        total = total + F.sum(r * t if r.vtype.is_scalar else F.dot(r, t))
    found = joined(evaluate(gradient(total, case.unknowns)))
    np.testing.assert_allclose(found, dense.T @ (dense @ joined(p)), rtol=1e-9, atol=1e-11)


def test_the_diagonal(case: Case):
    dense = jacobian(case)
    found = least_squares.diagonal(case.residuals, case.unknowns)
    assert not found.rest
    np.testing.assert_allclose(
        joined(evaluate(found.values)), np.sum(dense**2, axis=0), rtol=1e-9, atol=1e-12
    )


@pytest.mark.vk
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
            np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5 * np.abs(right).max())


@pytest.mark.vk
def test_devices_agree(case: Case, device):
    from dressi import DressiAD

    cost = half_squares(case.residuals)
    slopes = gradient(cost, case.unknowns)
    expected = evaluate([cost, *slopes])
    with DressiAD(device) as ad:
        for variable, right in zip([cost, *slopes], expected, strict=True):
            np.testing.assert_allclose(
                ad.evaluate(variable), right, rtol=1e-3, atol=1e-4 * np.abs(right).max()
            )


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
