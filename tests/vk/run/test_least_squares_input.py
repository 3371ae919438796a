"""Bad input of least-squares solvers: one sentence that names it."""

import warnings

import numpy as np
import pytest
from smoothing import smoothed, smoothing

from dressi import (
    DressiAD,
    F,
    GaussNewton,
    GraphError,
    InputError,
    LevenbergMarquardt,
    Variable,
    adam,
    least_squares,
    optim,
)

pytestmark = pytest.mark.one_driver  # the host says it


def test_residuals_that_are_not_finite_are_named(device):
    x = Variable.of([1.0, 2.0, 0.0, 4.0, 5.0], name="x")
    with DressiAD(device) as ad:
        ad.set_loss([x - 1.0, 1.0 / x])
        ad.set_optimizer(GaussNewton(), [x])
        with pytest.raises(InputError, match=r"residual 1 .* is inf at texel \(2, 0\)"):
            ad.step()


def test_values_sent_later_that_are_not_finite_are_said(device):
    residuals, image, data = smoothing(8)
    with DressiAD(device) as ad:
        ad.set_loss(residuals)
        ad.set_optimizer(LevenbergMarquardt(), [image])
        ad.step(3)
        found = ad.recv(image)
        ad.send(data, np.nan * data.data)
        ad.step(2)
        with pytest.warns(RuntimeWarning, match="the unknowns stay where they are"):
            ad.losses()
        np.testing.assert_array_equal(ad.recv(image), found)
        ad.send(data, data.data)
        ad.step(3)
        np.testing.assert_allclose(ad.recv(image), smoothed(data.data), atol=5e-5)


def test_a_counter_that_nobody_counts_is_said(device):
    x, step = Variable.of(0.0, name="x"), optim.clock()
    residuals = [x - 1.0, F.to_float(step) * (x - 3.0)]
    solvers = {LevenbergMarquardt(): [x], adam(0.1): [x], LevenbergMarquardt(counter=step): []}
    for solver, told in solvers.items():
        with DressiAD(device) as ad, warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ad.set_loss(residuals)
            ad.set_optimizer(solver, [x])
            ad.step()
            ad.step()
        assert len(found) == len(told)
        assert all("give it to the optimizer" in str(w.message) and w.filename == __file__ for w in found)


def test_squares_that_vanish_are_said(device):
    x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0], name="x")
    with DressiAD(device) as ad:
        ad.set_loss([1e-25 * (x - 7.0)])
        ad.set_optimizer(GaussNewton(), [x])
        with pytest.raises(InputError, match="vanish in 32 bits: the largest value of residual 0"):
            ad.step()


@pytest.mark.parametrize("solver", [GaussNewton(), LevenbergMarquardt(independent=True)])
def test_derivatives_that_are_not_finite_are_named(device, solver):
    depth = Variable.of([1.0, 2.0, np.nan, 4.0, 5.0])
    x = Variable.of(np.zeros(5), name="x")
    seen = F.select(
        F.equal(depth, depth), F.square(x - depth), 0.0
    )  # its value is 0 at the NaN, its slope is not
    with DressiAD(device) as ad:
        ad.set_loss([0.1 * x, seen])
        ad.set_optimizer(solver, [x])
        for _ in range(2):
            with pytest.raises(InputError, match=r"residual 1 .* by FLOAT x .* is nan at texel \(2, 0\)"):
                ad.step(3)
        assert not ad.recv(x).any()
        ad.send(depth, np.full(5, 2.0))
        ad.step(40)
        np.testing.assert_allclose(ad.recv(x), 1.7924, atol=1e-3)  # 0.02 x = 4 (2 - x)^3


def test_derivatives_that_are_not_finite_later_are_said(device):
    depth, x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]), Variable.of(np.zeros(5), name="x")
    with DressiAD(device) as ad:
        ad.set_loss([0.1 * x, F.select(F.equal(depth, depth), F.square(x - depth), 0.0)])
        ad.set_optimizer(LevenbergMarquardt(), [x])
        ad.step()
        found = ad.recv(x)
        ad.send(depth, [1.0, 2.0, np.nan, 4.0, 5.0])
        ad.step(3)
        with pytest.warns(RuntimeWarning, match="the derivative of the residuals was infinite or NaN"):
            ad.losses()
        np.testing.assert_array_equal(ad.recv(x), found)


@pytest.mark.filterwarnings("default")
def test_a_singular_system_is_said(device):
    x = Variable.of(np.arange(8.0), name="x")
    with DressiAD(device) as ad:
        ad.set_loss([F.crop(x, 0, 0, (5, 1)) - 1.0])
        ad.set_optimizer(LevenbergMarquardt(), [x])
        with pytest.warns(RuntimeWarning, match="3 of the 8 numbers of FLOAT x .* the system is singular"):
            ad.step(3)
        np.testing.assert_allclose(ad.recv(x), [1, 1, 1, 1, 1, 5, 6, 7], atol=1e-5)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ([], "at least one residual"),
        ([1.0], "a residual is a Variable"),
        ([Variable.of(1)], "holds integers"),
        ([least_squares.Robust(Variable.of(1.0), "huber")], "robust kernel is"),
    ],
)
def test_other_energies_are_refused(device, loss, message):
    with DressiAD(device) as ad, pytest.raises(GraphError, match=message):
        ad.set_loss(loss)


def test_unknowns_that_no_residual_reads_are_named(device):
    x, y = Variable.of(1.0, name="x"), Variable.of(1.0, name="spare")
    with DressiAD(device) as ad:
        ad.set_loss([x - 2.0])
        with pytest.raises(GraphError, match="no residual of the energy depends on FLOAT spare"):
            ad.set_optimizer(LevenbergMarquardt(), [x, y])


def test_a_loss_of_one_value_has_no_residuals(device):
    x = Variable.of(1.0, name="x")
    with DressiAD(device) as ad:
        ad.set_loss(F.square(x))
        ad.set_optimizer(LevenbergMarquardt(), [x])
        with pytest.raises(GraphError, match="give set_loss a list"):
            ad.step()


def test_independent_problems_without_tiles_are_named(device):
    x, data = (
        Variable.of(np.ones((3, 1, 1)), name="x"),
        Variable.of(np.ones((3, 1, 6))),
    )  # x is a column of one image
    with DressiAD(device) as ad:
        ad.set_loss([x - data])
        ad.set_optimizer(LevenbergMarquardt(independent=True), [x])
        with pytest.raises(GraphError, match=r"has a batch of 3 and the unknowns of 1.*batched=True"):
            ad.step()


def test_all_unknowns_frozen(device):
    x = Variable.of(1.0, name="x")
    with DressiAD(device) as ad:
        ad.set_loss([x - 2.0])
        ad.set_optimizer(LevenbergMarquardt(), [x])
        ad.freeze(x)
        with pytest.raises(GraphError, match="release one"):
            ad.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda: LevenbergMarquardt(iterations=0),
        lambda: LevenbergMarquardt(radius=0.0),
        lambda: LevenbergMarquardt(radius=np.inf),
        lambda: LevenbergMarquardt(diagonal=(1.0, 0.5)),
        lambda: LevenbergMarquardt(diagonal=1.0),
        lambda: LevenbergMarquardt(min_relative_decrease=1.0),
        lambda: LevenbergMarquardt(counter=3),
        lambda: LevenbergMarquardt(counter=Variable.of(3.0)),
        lambda: GaussNewton(forcing=1.0),
        lambda: GaussNewton(tolerance=-1.0),
        lambda: GaussNewton(line_search=-1),
        lambda: least_squares.huber(0.0),
    ],
)
def test_options_out_of_range(make):
    with pytest.raises(GraphError):
        make()
