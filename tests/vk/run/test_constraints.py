"""Bounds, entries that stay and manifolds: solutions on devices, and what is refused."""

import numpy as np
import pytest
from graphs import optimising
from numpy.testing import assert_allclose, assert_array_equal

from dressi import (
    FLOAT,
    INT,
    MAT3,
    MAT4,
    VEC3,
    DressiAD,
    F,
    GaussNewton,
    GraphError,
    InputError,
    LevenbergMarquardt,
    Variable,
    adam,
    jvp,
    least_squares,
    optim,
)
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.optim.manifolds import MANIFOLDS

pytestmark = pytest.mark.one_driver


def is_solution(x, slope, low, high, tolerance):
    """The conditions of Karush, Kuhn and Tucker: no slope inside, and at bounds only one that points out."""
    assert (x >= low).all() and (x <= high).all()
    assert np.abs(slope[(x > low) & (x < high)]).max(initial=0.0) < tolerance
    assert (slope[(x == low) & (low < high)] > -tolerance).all()
    assert (slope[(x == high) & (low < high)] < tolerance).all()


@pytest.mark.parametrize("solver", [
    LevenbergMarquardt(tolerance=0.0), GaussNewton(tolerance=0.0), GaussNewton(preconditioner=None, tolerance=0.0),
    LevenbergMarquardt(tolerance=0.0, preconditioner=least_squares.BlockJacobi()),
], ids=repr)  # fmt: skip
@pytest.mark.every_driver
@pytest.mark.release("swiftshader")
def test_linear_residuals_between_bounds(device, solver):
    """Differences along a list that only data hold, most of it beyond the bounds; one entry in ten stays."""
    rng = np.random.default_rng(0)
    data, low, high = rng.normal(size=(60, 3)), -rng.random((60, 3)) - 0.1, rng.random((60, 3)) + 0.1
    x = Variable.of(np.zeros((60, 3)), name="x")
    stay = np.arange(60)[:, None] % 10 == 0
    step = 2.0 * (F.lookup(x, Variable.of(np.arange(1, 60))) - F.lookup(x, Variable.of(np.arange(59))))
    with DressiAD(device) as ad:
        ad.set_loss([x - Variable.of(data), step])
        ad.set_optimizer(solver, [x], bounds={x: (low, high)}, fixed={x: stay})
        ad.step(8)
        found = ad.recv(x).astype(np.float64)
        assert "tolerance" in ad.stopped() or "no step" in ad.stopped()
    assert (found[::10] == 0.0).all()
    d = np.diff(np.eye(60), axis=0) * 2.0
    slope = found - data + d.T @ d @ found
    low, high = (np.where(stay, 0.0, np.float32(v)) for v in (low, high))
    is_solution(found, slope, low, high, 1e-3)


def test_images_between_bounds_that_are_sent(device):
    rng = np.random.default_rng(1)
    data = rng.normal(size=(12, 16))
    x, high = Variable.of(np.zeros((12, 16)), name="x"), Variable.of(0.2, name="high")
    right = F.crop(x, 1, 0, (15, 12)) - F.crop(x, 0, 0, (15, 12))
    with DressiAD(device) as ad:
        ad.set_loss([x - Variable.of(data), 3.0 * right])
        ad.set_optimizer(LevenbergMarquardt(tolerance=0.0), [x], bounds={x: (None, high)})
        for bound in (0.2, 0.4):
            ad.send(high, bound)
            ad.step(8)
            found = ad.recv(x)[0].astype(np.float64)
            slope = found - data + 9.0 * found @ (np.diff(np.eye(16), axis=0).T @ np.diff(np.eye(16), axis=0))
            is_solution(found, slope, np.float64(-9e9), np.float64(np.float32(bound)), 1e-3)


def test_curves_of_a_batch_end_each_at_its_bounds(device):
    """Rates that all want to be above their bound, and one below it."""
    at, rates = np.linspace(0.0, 3.0, 20), np.array([2.0, 1.5, 0.5])
    a, b = (Variable.of(np.full((3, 1, 1), 0.7), name=n, batched=True) for n in "ab")
    seen = Variable.of((2.0 * np.exp(-rates[:, None] * at)).reshape(3, 1, 20), FLOAT)
    with DressiAD(device) as ad:
        ad.set_loss([a * F.exp(-b * Variable.of(at.reshape(1, 20))) - seen])
        ad.set_optimizer(LevenbergMarquardt(independent=True, tolerance=0.0), [a, b], bounds={b: (0.1, 1.0)})
        ad.step(30)
        found = ad.recv(b).ravel()
    assert_array_equal(found[:2], 1.0)
    assert_allclose(found[2], 0.5, atol=1e-4)


def test_optimizers_project(device):
    x = Variable.of(np.full(5, 0.5), name="x")
    with DressiAD(device) as ad:
        ad.set_loss(F.sum(F.square(x - Variable.of([0.0, 0.2, 0.7, 1.0, 3.0]))))
        ad.set_optimizer(adam(0.05), [x], bounds={x: (0.1, 1.0)}, fixed={x: [0, 0, 1, 0, 0]})
        ad.step(150)
        assert_allclose(ad.recv(x), [0.1, 0.2, 0.5, 1.0, 1.0], atol=1e-3)
        assert not ad.state()["x.adam_m"].ravel()[2]


def leaf(vtype, value, count=1) -> Variable:
    data = np.broadcast_to(value, (count, 1, 1, *vtype.shape))
    return Variable(vtype, (1, 1), count, name="x", data=np.array(data, np.float64))


STARTS = {
    "unit": leaf(VEC3, (0.6, 0.0, 0.8)), "rotation": leaf(MAT3, np.eye(3)), "se3": leaf(MAT4, np.eye(4)),
    "log": leaf(FLOAT, 0.01),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFOLDS)
@pytest.mark.parametrize("solver", [LevenbergMarquardt(), adam(0.02)], ids=["LM", "adam"])
@pytest.mark.every_driver
@pytest.mark.release("swiftshader")
def test_parameters_stay_on_their_manifold(device, name, solver):
    x, kind = STARTS[name], MANIFOLDS[name]
    zero = [leaf(vtype or x.vtype, 0.0) for _, vtype in kind.increments]
    along = [
        leaf(z.vtype, 0.3 * np.cos(1.0 + np.arange(z.vtype.components)).reshape(z.vtype.shape)) for z in zero
    ]
    start, goal = evaluate([kind.moved(x, *zero), kind.moved(x, *along)])
    assert_allclose(start, x.data, atol=1e-12)
    with DressiAD(device) as ad:
        ad.set_loss([x - F.constant(goal[0, 0, 0], x.vtype)])
        ad.set_optimizer(solver, [x], manifolds={x: name})
        ad.send(x, x.data)
        ad.step(60)
        found = ad.recv(x).astype(np.float64)
    assert_allclose(found, goal, atol=1e-4 if "LM" in type(solver).__name__ else 0.02)
    assert kind.off(found[..., 0, 0] if name == "log" else found).max() < 1e-5


@pytest.mark.parametrize("name", MANIFOLDS)
@pytest.mark.parametrize("at", [0.0, 0.7])
def test_manifolds_have_the_derivatives_of_differences(name, at):
    x, kind, h = STARTS[name], MANIFOLDS[name], 1e-5
    places = [leaf(vtype or x.vtype, at) for _, vtype in kind.increments]
    along = [np.random.default_rng(k).normal(size=p.shape) for k, p in enumerate(places)]
    moved = kind.moved(x, *places)
    (slope,) = evaluate(jvp([moved], places, along))
    ends = [
        evaluate([moved], {p: p.data + s * a for p, a in zip(places, along, strict=True)})[0] for s in (h, -h)
    ]
    assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), atol=1e-8)


def test_a_fixed_pose_of_several_stays(device):
    x = leaf(MAT3, np.eye(3), 3)
    turned = evaluate([MANIFOLDS["rotation"].moved(x, leaf(VEC3, (0.3, 0.1, 0.0), 3))])[0]
    mask = np.array([1, 0, 0]).reshape(3, 1, 1, 1, 1)
    with DressiAD(device) as ad:
        ad.set_loss([x - Variable(MAT3, (1, 1), 3, data=turned)])
        ad.set_optimizer(LevenbergMarquardt(), [x], manifolds={x: "rotation"}, fixed={x: mask})
        ad.step(20)
        found = ad.recv(x)
    assert_array_equal(found[0, 0, 0], np.eye(3))
    assert_allclose(found[1:], turned[1:], atol=1e-5)


BAD = {
    "excludes the start": ({"bounds": (1.0, 2.0)}, InputError, r"starts at 0.5 at entry \(0,\), outside of its bounds \[1, 2\]"),
    "exchanged": ({"bounds": (2.0, [0, 1, 2, 3, 4])}, GraphError, "lower bound of FLOAT x .* is 2 and the upper one 0"),
    "shape": ({"bounds": (np.zeros(4), None)}, GraphError, r"x.low has shape \(4,\), which does not broadcast with \(5,\)"),
    "NaN": ({"bounds": (np.nan, None)}, GraphError, "x.low is NaN"),
    "no pair": ({"bounds": 1.0}, GraphError, r"are \(low, high\)"),
    "another": ({"manifolds": "sphere"}, GraphError, "a manifold is one of unit, rotation, se3, log"),
    "type": ({"manifolds": "rotation"}, GraphError, "for parameters of type MAT3"),
    "both": ({"manifolds": "log", "bounds": (0, 1)}, GraphError, "give it one of them"),
}  # fmt: skip


@pytest.mark.parametrize("solver", [LevenbergMarquardt(), adam(0.1)], ids=["LM", "adam"])
@pytest.mark.parametrize(("given", "error", "words"), BAD.values(), ids=BAD)
def test_constraints_that_cannot_be(device, given, error, words, solver):
    x = Variable.of(np.full(5, 0.5), name="x")
    with DressiAD(device) as ad, pytest.raises((GraphError, InputError), match=words):
        ad.set_loss([x - 1.0])
        ad.set_optimizer(solver, [x], **{k: {x: v} for k, v in given.items()})
        ad.step()


def test_starts_that_are_no_numbers_or_off_the_manifold(device):
    x = Variable.of(np.full(5, np.nan), name="x")
    with (
        optimising(device, F.sum(x), adam(0.1), [x]) as ad,
        pytest.raises(InputError, match=r"x .* is nan at entry"),
    ):
        ad.set_optimizer(adam(0.1), [x], bounds={x: (0, 1)})
        ad.step()
    x = leaf(MAT3, 2.0 * np.eye(3))
    with (
        optimising(device, [x - 1.0], adam(0.1), [x]) as ad,
        pytest.raises(InputError, match="off the manifold"),
    ):
        ad.set_optimizer(adam(0.1), [x], manifolds={x: "rotation"})
        ad.step()


def test_the_covariance_is_that_of_float64(device):
    """Of a curve, a list with an entry that stays, and a unit vector; all together and of one alone."""
    t, rng = np.linspace(0, 3, 30), np.random.default_rng(0)
    a, b = Variable.of(2.0, name="a"), Variable.of(1.3, name="b")
    v, n = Variable.of(rng.normal(size=(6, 3)), name="v"), leaf(VEC3, (0.6, 0.0, 0.8))
    with DressiAD(device) as ad:
        residuals = [a * F.exp(-b * Variable.of(t)) - 1.0, 2.0 * v - a]
        ad.set_loss([*residuals, F.dot(F.constant((1.0, 2.0, 3.0)), n) - 1.0, n.x - 0.3])
        ad.set_optimizer(
            LevenbergMarquardt(), [a, b, v, n], manifolds={n: "unit"}, fixed={v: np.arange(6)[:, None] == 0}
        )
        found, alone = ad.covariance(), ad.covariance(b)
        ad.freeze(v, n)
        known = ad.covariance()
    e = np.exp(-1.3 * t)
    j = np.zeros((48, 20))
    j[:30, 0], j[:30, 1], j[30:, 0], j[30:, 2:] = e, -2 * t * e, -1, 2 * np.eye(18)
    free = [0, 1, *range(5, 20)]
    expected = np.zeros((23, 23))
    expected[np.ix_(free, free)] = np.linalg.inv(j[:, free].T @ j[:, free])
    basis = np.array([[0.8, 0, -0.6], [0, 1, 0]]).T
    slopes = np.array([[1.0, 2, 3], [1, 0, 0]]) @ basis
    expected[20:, 20:] = basis @ np.linalg.inv(slopes.T @ slopes) @ basis.T
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())
    assert_allclose(alone, expected[1:2, 1:2], rtol=1e-6)
    assert_allclose(known, np.linalg.inv(j[:, :2].T @ j[:, :2]), rtol=1e-5)


def test_what_no_residual_determines_has_no_covariance(device):
    x = Variable.of(np.zeros((4, 2)), name="x")
    step = F.lookup(x.y, Variable.of([0, 1, 2], INT)) - F.lookup(x.y, Variable.of([1, 2, 0], INT))
    with optimising(device, [x.x - 1.0, step], LevenbergMarquardt(), [x]) as ad:
        with pytest.raises(
            InputError, match=r"do not determine 2 of 8 numbers.*: x\[1\], x\[3\], x\[5\], x\[7\];"
        ):
            ad.covariance()
        ad.freeze(x)
        with pytest.raises(GraphError, match="frozen and has no covariance"):
            ad.covariance(x)


def test_a_kernel_may_be_a_function(device):
    values = np.where(np.arange(40) % 8, 2.0, 9.0)
    found = []
    for kernel in (least_squares.cauchy(0.1), lambda s: 0.01 * F.log(1.0 + s / 0.01)):
        x = Variable.of(1.8, name="x")
        residual = least_squares.Robust(x - Variable.of(values), kernel)
        with optimising(device, [residual], LevenbergMarquardt(), [x]) as ad:
            ad.step(30)
            found.append((ad.recv(x).item(), ad.losses()[-1]))
    assert_allclose(found[1], found[0], rtol=1e-5)
    with DressiAD(device) as ad, pytest.raises(GraphError, match=r"maps the squared norm .* not to 1.0"):
        ad.set_loss([least_squares.Robust(x, lambda s: 1.0)])


def test_vectors_computed_from_numbers_and_looked_up_have_their_diagonal():
    """The table has another type than the unknown."""
    x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0], name="x")
    table = F.vec3(x, 2.0 * x, F.square(x))
    (found,) = evaluate(
        least_squares.diagonal([F.lookup(table, Variable.of([0, 1, 1, 3, 4, 4]))], [x]).values
    )
    assert_allclose(found.ravel(), [9, 42, 0, 69, 210])


@pytest.mark.parametrize("bound", [None, 0.5])
@pytest.mark.every_driver
def test_lbfgs_finds_the_minimum_of_rosenbrock(device, bound):
    x = Variable.of(np.full((10, 2), (-1.2, 1.0)), name="x")
    loss = F.sum(100.0 * F.square(x.y - F.square(x.x)) + F.square(1.0 - x.x))
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(optim.LBFGS(), [x], bounds={x: (None, (bound or 9.0, 9.0))})
        ad.step(80)
        assert_allclose(ad.recv(x), np.full((10, 2), (bound or 1.0, (bound or 1.0) ** 2)), atol=2e-3)
        costs = [*ad.losses()]
        assert len(costs) < 60 and costs == sorted(costs, reverse=True)
        assert "function tolerance" in ad.stopped()
        ad.send(x, np.full((10, 2), (-1.2, 1.0)))
        ad.step()
        assert ad.stopped() is None and len(ad.losses()) == len(costs) + 1


def test_sums_of_gradients_are_those_of_all_views(device):
    """Two views in turns, added up and clipped together, are one step of both."""
    data, found = np.array([[1.0, 4.0, 2.0, 0.0, 1.0], [3.0, 1.0, 0.0, 5.0, 2.0]]), []
    for every in (1, 2):
        x, y, step = Variable.of(np.zeros(5), name="x"), Variable.of(0.0, name="y"), optim.clock()
        part = optim.chain(optim.clip_by_norm(3.0), optim.scale_by_adam(), optim.scale(-0.1))
        rows = [F.sum(F.square(x + y - Variable.of(row))) for row in data]
        second = F.to_float(step % 2)
        loss = F.mix(rows[0], rows[1], second) if every == 2 else 0.5 * (rows[0] + rows[1])
        with DressiAD(device) as ad:
            ad.set_loss(loss)
            ad.set_optimizer(optim.Clocked(optim.accumulate(part, every), step), [x, y])
            ad.step(10 * every)
            found.append(np.append(ad.recv(x), ad.recv(y)))
    assert_allclose(found[1], found[0], atol=1e-5)


def test_an_optimizer_ends_when_the_loss_falls_no_more(device):
    x, goal = Variable.of(5.0, name="x"), Variable.of(0.0, name="goal")
    with DressiAD(device) as ad:
        ad.set_loss(F.square(x - goal) + 1.0)
        ad.set_optimizer(optim.until(optim.sgd(0.25), 1e-4, 3), [x])
        ad.step(3)
        assert ad.stopped() is None
        ad.step(200)
        steps, values = len(ad.losses()), ad.recv(x)
        assert steps < 20 and "has not fallen by 0.0001 of itself in 3 steps" in ad.stopped()
        assert ad.state()["step"].item() == steps
        ad.step(5)
        assert len(ad.losses()) == steps and ad.recv(x) == values
        with pytest.raises(GraphError, match="until stands around"):
            optim.accumulate(optim.until(optim.sgd(0.25)), 2)
        ad.send(goal, 2.0)
        ad.step(30)
        assert_allclose(ad.recv(x), 2.0, atol=1e-2)


def test_a_loss_that_is_no_number_is_said(device):
    x = Variable.of(np.nan, name="x")
    with (
        optimising(device, F.square(x), optim.LBFGS(), [x]) as ad,
        pytest.raises(InputError, match="the loss is nan"),
    ):
        ad.step()
