"""Least squares of lists with a coarse space: solutions, iterations, and when the inverse is made."""

import numpy as np
import pytest
from graphs import optimising
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dressi import FLOAT, INT, DressiAD, F, GaussNewton, LevenbergMarquardt, Variable, least_squares
from dressi.ad.least_squares.linear import coarse

PATH = 400


def index(entries) -> Variable:
    """A list of indices, however few."""
    return Variable(INT, (len(entries), 1), data=np.reshape(entries, (1, 1, -1)))


def heights(values) -> Variable:
    """A list of heights, however few."""
    return Variable(FLOAT, (len(values), 1), data=np.reshape(values, (1, 1, -1)))


def path(count: int = PATH) -> tuple[list, Variable, np.ndarray]:
    """Heights along a path whose ends are held, with weights, and the solution."""
    rng = np.random.default_rng(0)
    x = Variable.of(np.zeros(count), name="x")
    first, second = (Variable.of(np.arange(count - 1) + k) for k in (0, 1))
    step, weight = rng.normal(size=count - 1), np.exp(0.5 * rng.normal(size=count - 1))
    ends = F.lookup(x, index([0, count - 1])) - heights([1.0, -1.0])
    residuals = [
        Variable.of(weight) * (F.lookup(x, second) - F.lookup(x, first) - Variable.of(step)),
        10.0 * ends,
    ]
    rows = weight[:, None] * (np.eye(count)[1:] - np.eye(count)[:-1])
    held = 10.0 * np.eye(count)[[0, count - 1]]
    right = np.concatenate([weight * step, [10.0, -10.0]])
    return residuals, x, np.linalg.lstsq(np.concatenate([rows, held]), right)[0]


def solved(device, coefficients: int, solver=GaussNewton, **options) -> tuple[np.ndarray, int]:
    residuals, x, _ = path()
    kind = least_squares.Multilevel(coefficients=coefficients)
    with DressiAD(device) as ad:
        ad.set_loss(residuals)
        ad.set_optimizer(
            solver(iterations=1000, tolerance=0.0, forcing=1e-6, preconditioner=kind, **options), [x]
        )
        ad.step()
        return ad.recv(x), round(ad.state()["inner_iterations"].item())


@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.parametrize("options", [{}, {"reset": 0}], ids=str)
def test_a_long_path_takes_fewer_iterations(device, options):
    expected = path()[2]
    _, alone = solved(device, 0, **options)
    found, together = solved(device, 64, **options)
    assert_allclose(found, expected, atol=2e-2)
    assert together < 0.5 * alone  # the coarse space is made on the way


def grid(width: int, held: int) -> tuple[list, Variable, np.ndarray]:
    """Positions of a square net as a list, pulled to points at a few nodes."""
    number = np.arange(width * width).reshape(width, width)
    edges = np.concatenate([
        np.stack([number[:, 1:].ravel(), number[:, :-1].ravel()]),
        np.stack([number[1:].ravel(), number[:-1].ravel()]),
    ], 1)  # fmt: skip
    start = np.stack(np.divmod(number.ravel(), width), 1).astype(float)
    x = Variable.of(start, name="x")
    at = np.linspace(0, width * width - 1, held).astype(int)
    goal = np.random.default_rng(0).normal(size=(held, 2)) * width
    a, b = (F.lookup(x, Variable.of(e)) for e in edges)
    residuals = [a - b, 3.0 * (F.lookup(x, Variable.of(at)) - Variable.of(goal))]
    eye = np.eye(width * width)
    matrix = np.concatenate([eye[edges[0]] - eye[edges[1]], 3.0 * eye[at]])
    right = np.concatenate([np.zeros((edges.shape[1], 2)), 3.0 * goal])
    return residuals, x, np.linalg.lstsq(matrix, right)[0]


@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.parametrize("solver", [GaussNewton, LevenbergMarquardt])
def test_a_net_is_solved_in_fewer_iterations(device, solver):
    counts = []
    for coefficients in (0, 64):
        residuals, x, expected = grid(24, 6)
        with DressiAD(device) as ad:
            ad.set_loss(residuals)
            kind = least_squares.Multilevel(coefficients=coefficients)
            ad.set_optimizer(solver(iterations=500, tolerance=0.0, forcing=1e-3, preconditioner=kind), [x])
            total = 0
            for _ in range(4):
                ad.step()
                total += round(ad.state()["inner_iterations"].item())
            counts.append(total)
            assert_allclose(ad.recv(x), expected, atol=0.05)
    assert counts[1] < 0.6 * counts[0]


@pytest.mark.one_driver
def test_easy_systems_make_no_inverse(device):
    """Heights that stay near given ones."""
    x = Variable.of(np.zeros(PATH), name="x")
    seen = Variable.of(np.random.default_rng(0).normal(size=PATH))
    first, second = (Variable.of(np.arange(PATH - 1) + k) for k in (0, 1))
    with DressiAD(device) as ad:
        ad.set_loss([3.0 * (x - seen), F.lookup(x, second) - F.lookup(x, first)])
        ad.set_optimizer(GaussNewton(iterations=200, forcing=0.01), [x])
        ad.step(3)
        assert not ad.state()["x.coarse"].any()


@pytest.mark.one_driver
@pytest.mark.parametrize("options", [{"iterations": 128}, {"independent": False, "iterations": 100}], ids=str)
def test_solvers_of_few_iterations_make_no_inverse(device, options):
    residuals, x, _ = path()
    with optimising(device, residuals, GaussNewton(**options), [x]) as ad:
        ad.step(2)
        assert not ad.state()["x.coarse"].any()


@pytest.mark.one_driver
def test_the_inverse_is_made_anew_after_as_many_iterations_as_it_takes(device):
    residuals, x, _ = path()
    with DressiAD(device) as ad:
        ad.set_loss(residuals)
        options = {"tolerance": 0.0, "function_tolerance": 0.0, "line_search": 0}
        ad.set_optimizer(GaussNewton(iterations=150, forcing=0.01, **options), [x])
        before, made = np.zeros(1), []
        for _ in range(6):
            ad.step()
            state = ad.state()
            age = state[coarse.AGE].item() + state["inner_iterations"].item()
            made.append(age < state["inner_iterations"].item())
            changed = not np.array_equal(state["x.coarse"], before)
            assert made[-1] or not changed
            before = state["x.coarse"]
            assert before.shape[2] == 16
        assert made[0]
        assert sum(made) > 1


@pytest.mark.one_driver
def test_a_restored_run_repeats_itself(device):
    residuals, x, _ = path()
    with optimising(device, residuals, GaussNewton(iterations=150, forcing=0.3), [x]) as ad:
        state = ad.state()
        ad.step(2)
        first = ad.recv(x)
        ad.restore(state)
        ad.send(x, np.zeros(PATH))
        ad.step(2)
        assert_array_equal(ad.recv(x), first)


@pytest.mark.release
@pytest.mark.one_driver
def test_several_lists_of_which_one_is_frozen(device):
    """Heights at the nodes and at the middles of a path, held at one end."""
    count = 100
    node, middle = (Variable.of(np.zeros(n), name=f"list{n}") for n in (count, count - 1))
    left, right = (F.lookup(node, Variable.of(np.arange(count - 1) + k)) for k in (0, 1))
    residuals = [middle - left - 1.0, right - middle - 1.0, F.lookup(node, index([0])) - 5.0]
    with optimising(device, residuals, GaussNewton(iterations=400, tolerance=0.0), [node, middle]) as ad:
        ad.step(2)
        assert_allclose(ad.recv(node), 5.0 + 2.0 * np.arange(count), atol=0.05)
        assert ad.state()["list99.coarse"].any()
        before = ad.recv(node)
        ad.freeze(node)
        ad.send(middle, np.zeros(count - 1))
        ad.step(2)
        assert_allclose(ad.recv(middle), before[:-1] + 1.0, atol=1e-3)
        assert_array_equal(ad.recv(node), before)


@pytest.mark.release
@pytest.mark.one_driver
def test_masked_and_isolated_entries_stay(device):
    """Every tenth entry of the list is in no residual."""
    residuals, x, _ = path()
    hidden = Variable.of(np.arange(PATH) % 10 == 3, name="hidden")
    y = Variable.of(np.arange(PATH, dtype=float), name="y")
    held = F.select(hidden, 0.0, y - 2.0 * F.lookup(x, Variable.of(np.arange(PATH))))
    with DressiAD(device) as ad:
        ad.set_loss([*residuals, held])
        ad.set_optimizer(GaussNewton(iterations=600, tolerance=0.0, forcing=1e-5), [x, y])
        ad.step(2)
        found, free = ad.recv(y), np.arange(PATH) % 10 != 3
        assert_array_equal(found[~free], np.arange(PATH)[~free])
        assert_allclose(found[free], 2.0 * ad.recv(x)[free], atol=1e-2)


@pytest.mark.one_driver
def test_batches_of_lists_have_no_coarse_space(device):
    rows = np.random.default_rng(0).normal(size=(3, 200))
    x = Variable.of(np.zeros((3, 200)), name="x", batched=True)
    first, second = (Variable.of(np.arange(199) + k) for k in (0, 1))
    residuals = [x - Variable.of(rows, batched=True), F.lookup(x, second) - F.lookup(x, first)]
    with optimising(device, residuals, LevenbergMarquardt(independent=True), [x]) as ad:
        ad.step(4)
        assert coarse.AGE not in ad.state()
        steps = np.eye(200)[1:] - np.eye(200)[:-1]
        expected = np.linalg.solve(np.eye(200) + steps.T @ steps, rows.T).T
        assert_allclose(ad.recv(x), expected, atol=1e-3)


@pytest.mark.release
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32 - 1))
def test_random_graphs_are_solved(device, seed):
    rng = np.random.default_rng(seed)
    count, parts = int(rng.integers(130, 400)), int(rng.integers(1, 4))
    start = rng.normal(size=(count, parts)) if parts > 1 else rng.normal(size=count)
    x = Variable.of(start, name="x")
    tree = np.stack([np.arange(1, count), np.maximum(np.arange(1, count) - rng.integers(1, 4, count - 1), 0)])
    edges = np.concatenate([tree, rng.integers(0, count, (2, int(rng.integers(0, 40))))], 1)
    held = rng.choice(count, 5, replace=False)
    goal = rng.normal(size=(5, parts) if parts > 1 else 5)
    a, b = (F.lookup(x, Variable.of(e)) for e in edges)
    residuals = [a - b, F.lookup(x, Variable.of(held)) - Variable.of(goal)]
    matrix = np.concatenate([np.eye(count)[edges[0]] - np.eye(count)[edges[1]], np.eye(count)[held]])
    right = np.concatenate([np.zeros((edges.shape[1], *goal.shape[1:])), goal])
    with optimising(device, residuals, GaussNewton(iterations=400, tolerance=0.0), [x]) as ad:
        ad.step(2)
        assert_allclose(ad.recv(x), np.linalg.lstsq(matrix, right)[0], atol=5e-3)
