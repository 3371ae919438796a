"""The system of a few unknowns as a matrix, against NumPy."""

import numpy as np
import pytest

from dressi import F, Variable
from dressi.ad.evaluate import evaluate
from dressi.ad.least_squares import Jacobian
from dressi.ad.least_squares.linear.direct import solved
from dressi.ad.least_squares.linear.vectors import EACH, WHOLE
from dressi.ad.types import FLOAT, INT, VEC3

WEIGHT = 0.3
STARTS = np.array([[0.3, -0.2, 0.5], [1.0, 0.1, -0.4]])


def residuals_of(x: Variable, y: Variable) -> list[Variable]:
    """Residuals that read a list computed from the unknowns: not texel by texel."""
    places = F.constant(np.eye(3)) @ x
    table = F.expand(places.x, x.batch, (5, 1)) * F.to_float(F.linear_index((5, 1))) + F.sin(places.y) + y
    index = Variable(INT, (6, 1), data=np.array([[[4, 0, 3, 3, 1, 2]]]))
    return [F.lookup(F.square(table), index), F.vec3(places.z, y, places.x) * WEIGHT]


def leaves(problems: int) -> tuple[Variable, Variable]:
    x = Variable(VEC3, (1, 1), problems, name="x", data=STARTS[:problems, None, None])
    y = Variable(FLOAT, (1, 1), problems, name="y", data=np.array([0.7, -0.6])[:problems, None, None])
    return x, y


def dense(
    residuals: list[Variable], unknowns: tuple[Variable, Variable], problem: int
) -> tuple[np.ndarray, np.ndarray]:
    """J and r of one problem by differences."""

    def at(step: np.ndarray) -> np.ndarray:
        values = {}
        for leaf, part in zip(unknowns, (step[:3], step[3]), strict=True):
            moved = np.array(leaf.data, np.float64)
            moved[problem, 0, 0] += part
            values[leaf] = moved
        return np.concatenate([v[problem].reshape(-1) for v in evaluate(residuals, values)])

    h = 1e-6
    columns = [(at(h * e) - at(-h * e)) / (2 * h) for e in np.eye(4)]
    return np.stack(columns, axis=1), at(np.zeros(4))


@pytest.mark.parametrize("problems", [1, 2])
def test_the_solution_is_that_of_the_dense_system(problems: int):
    unknowns = leaves(problems)
    residuals = residuals_of(*unknowns)
    axes = WHOLE if problems == 1 else EACH
    found = solved(Jacobian(residuals, unknowns), axes, lambda squares: [0.1 * d for d in squares])
    change, diagonal = evaluate(found.change), evaluate(found.diagonal)
    (decrease,) = evaluate([found.decrease])
    for k in range(problems):
        matrix, right = dense(residuals, unknowns, k)
        normal, slope = matrix.T @ matrix, matrix.T @ right
        expected = np.linalg.solve(normal + 0.1 * np.diag(np.diag(normal)), -slope)
        assert np.concatenate([v[k].reshape(-1) for v in change]) == pytest.approx(expected, rel=1e-5)
        assert np.concatenate([v[k].reshape(-1) for v in diagonal]) == pytest.approx(
            np.diag(normal), rel=1e-5
        )
        assert decrease[k].item() == pytest.approx(-0.5 * slope @ expected, rel=1e-5)


@pytest.mark.parametrize("independent", [False, True])
def test_numbers_of_all_channels_are_solved(independent: bool):
    """Of one problem those of all images, of independent ones those of each."""
    rng = np.random.default_rng(1)
    x = Variable(FLOAT, (2, 1), 2, channels=2, name="x", data=np.zeros((2, 2, 1, 2)))
    scale, right = (
        Variable(FLOAT, (2, 1), 2, channels=2, data=rng.uniform(0.5, 2.0, (2, 2, 1, 2))) for _ in range(2)
    )
    residuals = [scale * x - right, 0.5 * (F.channel(x, 0) - F.channel(x, 1))]
    found = solved(Jacobian(residuals, [x]), EACH if independent else WHOLE, lambda squares: None)
    (change,) = evaluate(found.change)
    for n in range(2):
        for column in range(2):
            a, b = scale.data[n, :, 0, column], right.data[n, :, 0, column]
            expected = np.linalg.lstsq(np.vstack([np.diag(a), [[0.5, -0.5]]]), [*b, 0.0])[0]
            assert change[n, :, 0, column] == pytest.approx(expected, rel=1e-6)
    assert evaluate([found.decrease])[0].size == (2 if independent else 1)


def test_what_no_residual_determines_stays():
    x = Variable(VEC3, name="x", data=STARTS[:1, None, None])
    residual = F.sum(F.square(x)).x + F.sum(F.square(x)).y - 2.0
    found = solved(Jacobian([residual], [x]), WHOLE, lambda squares: None)
    change = evaluate(found.change)[0][0, 0, 0]
    assert np.isfinite(change).all() and change[2] == 0.0
    # One equation for two numbers: the step reaches it by the first of them alone.
    assert 2 * STARTS[0] @ change == pytest.approx(-(STARTS[0, 0] ** 2 + STARTS[0, 1] ** 2 - 2.0))
