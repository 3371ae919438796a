"""Lists with more entries than a row holds: what fills the last row is no entry of them."""

import numpy as np
import pytest

from dressi import DressiAD, F, LevenbergMarquardt, Variable, adam, gradient, least_squares
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.types import LIST_WIDTH, VEC3
from dressi.errors import GraphError

COUNTS = [LIST_WIDTH - 1, LIST_WIDTH, LIST_WIDTH + 1, 2 * LIST_WIDTH, 3 * LIST_WIDTH - 5]


def value(y: Variable) -> np.ndarray:
    return evaluate([y])[0].squeeze()


@pytest.mark.parametrize("count", COUNTS)
def test_reductions_are_of_the_entries(count):
    x = np.random.default_rng(count).normal(size=(count, 3)) + 5.0
    for sign in (1, -1):  # what fills a row is 0, beyond one of the extremes each time
        v, numbers = Variable.of(sign * x, VEC3), Variable.of(sign * (np.arange(count) + 3))
        for reduce, expected in ((F.sum, np.sum), (F.mean, np.mean), (F.max, np.max), (F.min, np.min)):
            np.testing.assert_allclose(value(reduce(v)), expected(sign * x, 0))
            # Entry by entry a list stays a list.
            np.testing.assert_allclose(value(reduce(F.exp(-v) + 1.0)), expected(np.exp(-sign * x) + 1.0, 0))
        for reduce, expected in ((F.sum, np.sum), (F.max, np.max), (F.min, np.min)):
            assert value(reduce(numbers)) == expected(sign * (np.arange(count) + 3))


def test_a_batch_of_lists_is_reduced_list_by_list():
    x = np.random.default_rng(0).normal(size=(2, 5000))
    v = Variable.of(x, batched=True)
    np.testing.assert_allclose(value(F.mean(v, "xy")), x.mean(1))
    np.testing.assert_allclose(value(F.sum(v)), x.sum())
    np.testing.assert_allclose(value(F.sum(F.sum(v, "n"))), x.sum())


@pytest.mark.parametrize("count", COUNTS)
def test_scatters_add_the_entries(count):
    index = np.arange(count) % 7
    weights = np.random.default_rng(1).normal(size=count)
    where = Variable.of(index)
    np.testing.assert_allclose(
        value(F.scatter_add(Variable.of(weights), where, (7, 1))), np.bincount(index, weights)
    )
    np.testing.assert_allclose(value(F.scatter_add(2.0, where, (7, 1))), 2.0 * np.bincount(index))
    assert value(F.scatter_max(where + 5, where, (9, 1))).tolist() == [*range(5, 12), -1, -1]
    np.testing.assert_allclose(value(F.scatter_add(Variable.of(weights), 3, (4, 1)))[3], weights.sum())


def test_gradients_are_those_of_the_entries():
    table = Variable.of(np.random.default_rng(2).normal(size=5), name="table")
    index = Variable.of(np.arange(4100) % 5)
    read = F.lookup(table, index)
    (g,) = gradient(F.sum(F.square(read)), [table])
    np.testing.assert_allclose(value(g), 2 * 820 * table.data.ravel())
    check_gradient(F.mean(F.square(read)) + F.max(read), [table])
    for seed in (F.constant(1.0), Variable.of(np.ones(4100))):
        assert value(gradient(read, [table], seed)[0]).tolist() == [820] * 5
    x = Variable.of(np.ones(4100), name="x")
    assert value(gradient(F.mean(x), [x])[0]).sum() == pytest.approx(1.0)


def test_operations_across_the_ends_of_rows_are_refused():
    x = Variable.of(np.ones(5000), name="signal")
    for what in (
        lambda: F.shift(x, 1, 0),
        lambda: F.crop(x, 1, 0, (4000, 1)),
        lambda: F.pad(x, 1, 0, 0, 0),
        lambda: F.resize(x, (100, 1)),
        lambda: F.window_max(x, 1, "x"),
        lambda: F.window_min(x + 1.0, 1, "x"),
    ):
        with pytest.raises(GraphError, match=r"a list of 5000 entries, .*\(1, 5000\).*F.lookup"):
            what()
    for axes in ("x", "y", "xn"):
        with pytest.raises(GraphError, match="list of 5000 entries in rows of 4096; reduce it along 'xy'"):
            F.sum(x, axes)
    row = Variable.of(np.ones((1, 5000)))
    assert value(F.sum(F.shift(row, 1, 0), "x")) == 5000


@pytest.mark.one_driver
def test_devices_fit_a_long_list(device):
    """A line through 5000 points, by least squares and by Adam, against NumPy."""
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 1.0, 5000)
    y = 2.0 * x + 1.0 + 0.01 * rng.normal(size=5000)
    at, seen = Variable.of(x), Variable.of(y)
    slope, offset = Variable.of(0.0, name="slope"), Variable.of(0.0, name="offset")
    residual = slope * at + offset - seen
    expected = np.polyfit(x, y, 1)
    for energy in ([residual], [least_squares.Robust(residual, least_squares.huber(10.0))]):
        with DressiAD(device) as ad:
            ad.set_loss(energy)
            ad.set_optimizer(LevenbergMarquardt(), [slope, offset])
            ad.step(10)
            found = [ad.recv(slope).item(), ad.recv(offset).item()]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    with DressiAD(device) as ad:
        ad.set_loss(F.mean(F.square(residual)))
        ad.set_optimizer(adam(0.1), [slope, offset])
        ad.step(1)
        assert ad.losses()[0] == pytest.approx(np.mean(y**2), rel=1e-6)
