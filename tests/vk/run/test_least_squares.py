"""Least-squares solvers on devices: results, one submission, gates, what happens between steps, and what is refused."""

import itertools
import signal
import threading
import warnings

import numpy as np
import pytest
from graphs import optimising
from numpy.testing import assert_allclose, assert_array_equal
from smoothing import smoothed, smoothing

from dressi import FLOAT, DressiAD, F, LevenbergMarquardt, PlanOptions, Variable, adam, least_squares, optim
from dressi.ad.least_squares.solver import GaussNewton
from dressi.errors import GraphError, InputError
from dressi.vk.plan.model.records import CPU, DATA_CENTRE
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.queue import Pace
from dressi.vk.run.execution.gate import can_be_gated

pytestmark = pytest.mark.one_driver

SOLVERS = [GaussNewton(), LevenbergMarquardt(), GaussNewton(line_search=0), GaussNewton(reset=0)]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.every_driver
@pytest.mark.release("swiftshader")
def test_linear_residuals_are_solved(device, solver):
    residuals, image, data = smoothing()
    with optimising(device, residuals, solver, [image]) as ad:
        ad.step(3)
        assert_allclose(ad.recv(image), smoothed(data.data), atol=2e-5)


@pytest.mark.parametrize(
    "preconditioner",
    [None, least_squares.Jacobi(), least_squares.BlockJacobi(), least_squares.Multilevel()],
    ids=repr,
)
def test_preconditioners_do_not_change_the_solution(device, preconditioner):
    """Planes through noisy points in small groups: coordinates that depend on each other strongly."""
    rng = np.random.default_rng(0)
    points, heights = rng.normal(size=(300, 3)) + 4.0, rng.normal(size=(300, 1, 1))[:, 0, 0]
    group = np.arange(300) // 30
    plane = Variable.of(np.zeros((10, 3)), name="plane")
    seen = F.dot(F.lookup(plane, Variable.of(group)), Variable.of(points))
    with DressiAD(device) as ad:
        ad.set_loss([seen - Variable.of(heights)])
        ad.set_optimizer(
            GaussNewton(preconditioner=preconditioner, function_tolerance=0.0, tolerance=0.0), [plane]
        )
        ad.step(2)
        found, iterations = ad.recv(plane), ad.state()["inner_iterations"].item()
    for k in range(10):
        expected = np.linalg.lstsq(points[group == k], heights[group == k])[0]
        assert_allclose(found[k], expected, atol=2e-4)
    if isinstance(preconditioner, least_squares.BlockJacobi):
        assert iterations <= 3  # the blocks are the whole system


def smoothed_volume(volume: np.ndarray) -> np.ndarray:
    """The minimum of |x - volume|^2 + |differences along all three axes|^2."""
    eye = [np.eye(n) for n in volume.shape]
    rows = [np.eye(volume.size)]
    for axis in range(3):
        parts = [np.diff(e, axis=0) if k == axis else e for k, e in enumerate(eye)]
        rows.append(np.kron(np.kron(parts[0], parts[1]), parts[2]))
    system = np.concatenate(rows)
    right = np.concatenate([volume.ravel(), np.zeros(len(system) - volume.size)])
    return np.linalg.lstsq(system, right)[0].reshape(volume.shape)


@pytest.mark.parametrize(
    "solver",
    [
        GaussNewton(tolerance=0.0, preconditioner=None),
        GaussNewton(tolerance=0.0, preconditioner=least_squares.BlockJacobi()),
        LevenbergMarquardt(tolerance=0.0, preconditioner=least_squares.Multilevel(smallest=2)),
    ],
    ids=["plain", "blocks", "levels"],
)
def test_volumes_of_channels_are_solved(device, solver):
    """Differences along x and y by crops, and along the channels by a contraction."""
    data = np.random.default_rng(2).normal(size=(4, 9, 10))
    x = Variable(FLOAT, (10, 9), channels=4, data=np.zeros((1, 4, 9, 10)), name="volume")
    right = F.crop(x, 1, 0, (9, 9)) - F.crop(x, 0, 0, (9, 9))
    down = F.crop(x, 0, 1, (10, 8)) - F.crop(x, 0, 0, (10, 8))
    across = F.contract("out[z, y, x] = v[z + 1, y, x] - v[z, y, x]", v=x, extents={"z": 3})
    with optimising(device, [x - Variable.of(data[None], FLOAT), right, down, across], solver, [x]) as ad:
        ad.step(2)
        assert_allclose(ad.recv(x)[0], smoothed_volume(data), atol=1e-4)


@pytest.mark.every_driver
def test_excluded_voxels_stay_and_so_do_their_residuals(device):
    """Steps along all axes with a target each; SciPy's dense solution has no rows of excluded voxels."""
    rng = np.random.default_rng(5)
    start, where = rng.normal(size=(4, 6, 7)), rng.random((4, 6, 7)) < 0.3
    x = Variable(FLOAT, (7, 6), channels=4, data=start[None], name="volume")
    mask = Variable.of(where[None].astype(float), FLOAT)
    rows, goals, number = [], [], np.arange(start.size).reshape(start.shape)
    residuals = [0.1 * (x - 1.0)]
    for step in ((1, 0, 0), (0, 1, 0), (0, -1, 1)):
        inside = least_squares.in_bounds(x, *step)
        residuals.append(F.select(inside, least_squares.neighbour(x, *step) - x - 0.5, 0.0))
        for z, y, i in np.argwhere(~where):
            q = (z + step[2], y + step[1], i + step[0])
            if all(0 <= a < n for a, n in zip(q, start.shape)):
                row = np.zeros(start.size)
                row[number[q]], row[number[z, y, i]] = 1.0, -1.0
                rows.append(row)
                goals.append(0.5)
    free = ~where.ravel()
    system = np.concatenate([rows, 0.1 * np.eye(start.size)[free]])
    right = np.concatenate([goals, 0.1 * np.ones(free.sum())]) - system[:, ~free] @ start.ravel()[~free]
    expected = start.ravel().copy()
    expected[free] = np.linalg.lstsq(system[:, free], right)[0]
    with optimising(device, least_squares.exclude(residuals, x, mask), GaussNewton(tolerance=0.0), [x]) as ad:
        ad.step(3)
        found = ad.recv(x)[0].ravel()
    assert_allclose(found, expected, atol=2e-4)
    assert (found[~free] == start.astype(np.float32).ravel()[~free]).all()
    with pytest.raises(GraphError, match="no unknown has the texels"):
        least_squares.exclude(residuals, x, Variable.of(np.ones((3, 5))))


def test_kernels_of_channels_are_those_of_each_texel(device):
    """The same unknowns as channels and as the batch: the costs of all steps are equal."""
    data = np.random.default_rng(3).normal(size=(3, 4, 5))
    costs = []
    for channels, batch in ((3, 1), (1, 3)):
        x = Variable(FLOAT, (5, 4), batch, channels=channels, name="x")
        x.data, seen = np.zeros(x.shape), Variable(FLOAT, (5, 4), batch, channels=channels)
        seen.data = data.reshape(x.shape)
        with DressiAD(device) as ad:
            ad.set_loss([least_squares.Robust(x - seen, least_squares.cauchy(0.5)), 0.3 * x])
            ad.set_optimizer(LevenbergMarquardt(function_tolerance=0.0), [x])
            ad.step(4)
            costs.append(ad.losses())
    assert_allclose(costs[0], costs[1], rtol=1e-6)


@pytest.mark.parametrize("kernel", [least_squares.huber, least_squares.cauchy, least_squares.tukey])
def test_kernels_of_small_residuals_are_their_squares(device, kernel):
    """A residual that 1 + s / width^2 loses in 32 bits still goes to zero."""
    x = Variable.of(1.5, name="x")
    with optimising(device, [least_squares.Robust(x - 1.4998, kernel(2.4))], LevenbergMarquardt(), [x]) as ad:
        ad.step(3)
        assert ad.losses()[0] == pytest.approx(2e-8, rel=1e-2)
        assert ad.recv(x).item() == pytest.approx(1.4998, rel=1e-7)


def test_singular_blocks_do_not_make_a_solve_diverge(device):
    """One equation for four components: three of their directions are noise."""
    rng = np.random.default_rng(5)
    x = Variable.of(rng.normal(size=(6, 4)), name="x")
    along = rng.normal(size=(6, 4))
    with DressiAD(device) as ad:
        ad.set_loss([F.dot(x, Variable.of(along)) - 1.0])
        solver = GaussNewton(preconditioner=least_squares.BlockJacobi(), tolerance=0.0, line_search=0)
        ad.set_optimizer(solver, [x])
        ad.step()
        found, iterations = ad.recv(x), ad.state()["inner_iterations"].item()
    assert_allclose((found * along).sum(1), 1.0, atol=1e-5)
    assert np.abs(found).max() < 20.0 and iterations < 10


@pytest.mark.parametrize("preconditioner", [least_squares.Jacobi(), least_squares.BlockJacobi()], ids=repr)
def test_singular_problems_stay_where_they_have_converged(device, preconditioner):
    """Three equations for four components at each texel, which cannot all be met. The gradient ends as noise; steps along the
    fourth direction would have no bound."""
    rng = np.random.default_rng(5)
    x = Variable.of(rng.normal(size=(6, 4)), name="x")
    a, b = (rng.normal(size=(6, 4)) for _ in range(2))
    ra, rb = (F.dot(x, Variable.of(v)) for v in (a, b))
    with DressiAD(device) as ad:
        ad.set_loss([ra - 1.0, rb - 1.4, F.sin(F.dot(x, Variable.of(a + b)))])
        solver = GaussNewton(preconditioner=preconditioner, function_tolerance=0.0, tolerance=0.0)
        ad.set_optimizer(solver, [x])
        ad.step(8)
        before = ad.recv(x)
        ad.step(12)
        assert_allclose(ad.recv(x), before, atol=0.05)


def test_problems_of_a_batch_keep_their_channels_together(device):
    """Two independent problems, whose unknown channels depend on each other."""
    a = np.random.default_rng(4).normal(size=(2, 3, 3)) + 2.0 * np.eye(3)
    x = Variable(FLOAT, (1, 1), 2, channels=3, data=np.zeros((2, 3, 1, 1)), name="x")
    matrix = Variable(FLOAT, (3, 3), 2, data=a)
    made = F.contract("out[n, o, y, x] = m[n, 0, o, c] * v[n, c, y, x]", m=matrix, v=x)
    with DressiAD(device) as ad:
        ad.set_loss([made - 1.0])
        ad.set_optimizer(LevenbergMarquardt(independent=True, tolerance=0.0, radius=1e8), [x])
        ad.step(4)
        found = ad.recv(x).reshape(2, 3)
        assert ad.state()["radius"].size == 2
    assert_allclose(found, np.linalg.solve(a, np.ones((2, 3, 1)))[..., 0], rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_scale_of_an_energy_does_not_matter(device, scale):
    """Squares of residuals that are nearly too small, or too large, for 32 bits."""
    residuals, image, data = smoothing()
    with optimising(device, [scale * r for r in residuals], GaussNewton(), [image]) as ad:
        ad.step(3)
        assert_allclose(ad.recv(image), smoothed(data.data), atol=2e-5)


def rosenbrock() -> tuple[list, Variable]:
    """Ten independent copies of the function of Rosenbrock, with its minimum at (1, 1)."""
    x = Variable.of(np.stack([np.linspace(-1.5, 1.5, 10), np.linspace(2.0, -1.0, 10)], axis=-1), name="x")
    return [10.0 * (x.y - F.square(x.x)), 1.0 - x.x], x


@pytest.mark.parametrize("solver", [GaussNewton(), LevenbergMarquardt()], ids=repr)
@pytest.mark.every_driver
def test_curved_residuals_are_solved(device, solver):
    residuals, x = rosenbrock()
    with optimising(device, residuals, solver, [x]) as ad:
        ad.step(60)
        assert_allclose(ad.recv(x), 1.0, atol=1e-4)
        costs = ad.losses()
    assert costs == sorted(costs, reverse=True)


def passes_of(ad: DressiAD) -> dict[str, int]:
    return {name: len(plan.stages) for name, plan in ad.plans.items()}


@pytest.mark.release
@pytest.mark.every_driver
def test_independent_problems_are_those_of_one(device):
    batch, alone = [], []
    solver = LevenbergMarquardt(independent=True)
    residuals, image, data = smoothing(batch=3)
    with optimising(device, residuals, solver, [image]) as ad:
        ad.step(4)
        batch = ad.recv(image)
        passes = [passes_of(ad)]
    for k in range(3):
        residuals, image, one = smoothing()
        with optimising(device, residuals, solver, [image]) as ad:
            ad.send(one, data.data[k : k + 1])
            ad.step(4)
            alone.append(ad.recv(image)[0])
            passes.append(passes_of(ad))
    assert_allclose(batch, np.stack(alone), atol=1e-6)
    # Three problems take the passes of one, and one for the number of losses, which all of them share.
    for one in passes[1:]:
        assert passes[0] == one | {"linearize": one["linearize"] + 1}


def test_small_problems_beside_each_other_can_be_skipped(device):
    """Curves of their own parameters: one dispatch has all of a problem, and reads the unknowns from every point."""
    at = np.linspace(0.0, 3.0, 20)
    rates = np.linspace(0.3, 2.0, 6)
    scale, rate = (Variable.of(np.ones((6, 1, 1)), name=name, batched=True) for name in ("scale", "rate"))
    seen = Variable.of(2.0 * np.exp(-rates[:, None] * at).reshape(6, 1, 20))
    with DressiAD(device) as ad:
        ad.set_loss([scale * F.exp(-rate * Variable.of(at.reshape(1, 20))) - seen])
        ad.set_optimizer(LevenbergMarquardt(independent=True), [scale, rate])
        ad.step(20)
        assert_allclose(ad.recv(rate).ravel(), rates, atol=2e-3)
        assert all(can_be_gated(plan) for plan in ad.plans.values())


def slope_and_step(start: np.ndarray, end: np.ndarray, high: float) -> tuple[float, float]:
    """The largest component of the way to x - J^T r below a bound, and the length of a step beside that of x."""
    slope = (start**2 - 2.0) * 2.0 * start + 0.01 * (start - 3.0)
    way = start - np.minimum(start - slope, high)
    return np.abs(way).max(), np.linalg.norm(end - start) / np.linalg.norm(start)


@pytest.mark.parametrize(
    ("which", "kind", "bounded"),
    [
        ("gradient_tolerance", GaussNewton, False),
        ("gradient_tolerance", LevenbergMarquardt, True),
        ("step_tolerance", LevenbergMarquardt, False),
    ],
)
def test_a_small_gradient_or_a_short_step_ends_a_problem(device, which, kind, bounded):
    high = 1.2 if bounded else 1e9
    x = Variable.of(np.linspace(0.4, 1.1, 8).reshape(4, 2), name="x")
    options = {"function_tolerance": 0.0, which: 0.02, "tolerance": 0.0, "iterations": 2}
    limits = {"bounds": {x: (None, high)}} if bounded else {}
    with DressiAD(device) as ad:
        ad.set_loss([F.hadamard(x, x) - 2.0, 0.1 * (x - 3.0)])
        ad.set_optimizer(kind(**options), [x], **limits)
        path = [ad.recv(x).astype(float)]
        while ad.stopped() is None and len(path) < 30:
            ad.step()
            path.append(ad.recv(x).astype(float))
        words = ad.stopped() or ""
    found = [
        slope_and_step(a, b, high)[which == "step_tolerance"]
        for a, b in itertools.pairwise(path)
        if (a != b).any() or b is path[-1]
    ]
    assert words.startswith(which.replace("_", " ")) and "0.02" in words
    assert found[-1] <= 0.02 and min(found[:-1]) > 0.02 and 2 < len(path) < 20


@pytest.mark.parametrize(
    "options",
    [PlanOptions(), PlanOptions(without=("update_in_place", "copy_leaves_first"))],
    ids=["gated", "open"],
)
@pytest.mark.parametrize("independent", [False, True])
def test_a_converged_problem_records_nothing(device, options, independent):
    """The history of losses is the same whether the device can skip the parts of a step or not."""
    start = np.zeros((2, 6, 5))
    x, y = (Variable.of(start, name=name) for name in "xy")
    with DressiAD(device, options=options) as ad:
        ad.set_loss([F.square(x) - 4.0 + y, y - 1.0, 0.1 * x - 0.3])
        ad.set_optimizer(LevenbergMarquardt(independent=independent), [x, y])
        ad.step(40)
        steps = len(ad.losses())
        assert steps < 30
        ad.step(5)
        assert len(ad.losses()) == steps
        assert bool(ad.plans["linearize"].step.copies) != options.runs("update_in_place")


def test_a_converged_problem_waits_until_something_is_sent(device):
    residuals, image, data = smoothing()
    with optimising(device, residuals, LevenbergMarquardt(), [image]) as ad:
        ad.step(10)
        steps, settled = len(ad.losses()), ad.recv(image)
        assert steps < 10
        ad.step(5)
        assert len(ad.losses()) == steps
        assert_array_equal(ad.recv(image), settled)
        ad.send(data, 2.0 * data.data)
        ad.step(10)
        assert_allclose(ad.recv(image), smoothed(2.0 * data.data), atol=5e-5)
        assert_allclose(ad.recv("loss"), 4 * least(data.data), rtol=1e-4)


def least(values: np.ndarray) -> float:
    """The smallest cost of ``smoothing``."""
    image = smoothed(values)
    squares = [image - values, 2 * np.diff(image, axis=-1), 2 * np.diff(image, axis=-2)]
    return 0.5 * sum(np.square(r).sum() for r in squares)


def test_steps_in_one_submission_are_those_of_many(device):
    found = []
    for counts in ([6], [1] * 6, [2, 3, 1]):
        residuals, x = rosenbrock()
        with optimising(device, residuals, LevenbergMarquardt(iterations=3), [x]) as ad:
            for n in counts:
                ad.step(n)
            found.append((ad.recv(x), ad.losses()))
    for x, losses in found[1:]:
        assert_array_equal(x, found[0][0])
        assert losses == found[0][1]


def test_many_iterations_are_one_submission(device, monkeypatch):
    """Where the bound of a submission has room for them, once it is known what they take, and the host does not look at
    gates."""
    monkeypatch.setattr(device, "on_cpu", False)
    monkeypatch.setattr(device.work, "pace", Pace(bound=1e6))
    residuals, image, _ = smoothing(8)
    with DressiAD(device) as ad:
        ad.set_loss(residuals)
        ad.set_optimizer(GaussNewton(iterations=100, tolerance=0.0, function_tolerance=0.0), [image])
        for n in [1] + [8] * 9:
            ad.step(n)
            ad.wait()
        submitted = []
        submit = device.work.submit
        device.work.submit = lambda info, fence: (
            submitted.append(info.commandBufferCount) or submit(info, fence)
        )
        try:
            ad.step(8)
        finally:
            device.work.submit = submit
        assert len(submitted) == 1 and submitted[0] >= 8 * 100


@pytest.mark.parametrize(
    "kernel", [least_squares.huber(0.1), least_squares.cauchy(0.1), least_squares.tukey(0.5)]
)
def test_outliers_count_less(device, kernel):
    values = np.full(40, 2.0)
    values[::8] = 9.0
    data, x = Variable.of(values), Variable.of(1.8, name="x")
    with optimising(device, [least_squares.Robust(x - data, kernel)], LevenbergMarquardt(), [x]) as ad:
        ad.step(30)
        assert abs(ad.recv(x).item() - 2.0) < 0.05
        costs = ad.losses()
    assert costs == sorted(costs, reverse=True)


def test_an_interrupt_ends_the_work_under_way(device):
    """Work of hours is asked for. After a ctrl-C what is queued ends soon, and the next steps go on from there."""
    residuals, image, data = smoothing()
    with optimising(device, residuals, GaussNewton(function_tolerance=0.0, line_search=0), [image]) as ad:
        ad.step()
        ad.wait()
        main, ended = threading.main_thread().ident, threading.Event()
        assert main is not None

        def press() -> None:
            # Python drops a KeyboardInterrupt that meets a finalizer: who waits for hours presses again.
            pause = 0.3
            while not ended.wait(pause):
                signal.pthread_kill(main, signal.SIGINT)
                pause = 30.0

        presses = threading.Thread(target=press)
        presses.start()
        with pytest.raises(KeyboardInterrupt):
            ad.step(1_000_000)
        ended.set()
        presses.join()
        ad.wait()
        assert len(ad.losses()) < 1_000_000
        ad.send(data, -data.data)
        ad.step(3)
        assert_allclose(ad.recv(image), -smoothed(data.data), atol=1e-4)


def test_excluded_texels_stay_where_they_are(device):
    _, image, data = smoothing()
    inside = Variable.of((np.arange(24) < 12) * np.ones((24, 1)), name="inside")
    with optimising(device, [F.select(inside, image - data, 0.0)], GaussNewton(), [image]) as ad:
        ad.step(2)
        found = ad.recv(image)[0]
    assert_allclose(found[:, :12], data.data[0][:, :12], atol=1e-6)
    assert not found[:, 12:].any()


def test_frozen_unknowns_stay(device):
    x, y = Variable.of(1.0, name="x"), Variable.of(5.0, name="y")
    with optimising(device, [x + y - 3.0, 0.1 * (x - y)], LevenbergMarquardt(), [x, y]) as ad:
        ad.freeze(y)
        ad.step(10)
        assert ad.recv(y).item() == 5.0
        assert abs(ad.recv(x).item() + 2.0) < 0.1
        ad.release(y)
        ad.step(10)
        assert_allclose([ad.recv(x).item(), ad.recv(y).item()], 1.5, atol=1e-3)


def test_weights_follow_a_schedule(device):
    """The weight of a residual doubles with every step, so the unknown moves towards its goal."""
    step, x = optim.clock(), Variable.of(0.0, name="x")
    weight = optim.rate_at(optim.exponential(1.0, 2.0), F.to_float(step))
    with DressiAD(device) as ad:
        ad.set_loss([x, weight * (x - 3.0)])
        ad.set_optimizer(GaussNewton(counter=step, function_tolerance=0.0), [x])
        found = []
        for _ in range(3):
            ad.step()
            found.append(ad.recv(x).item())
    assert_allclose(found, [3.0 * w * w / (1 + w * w) for w in (1.0, 2.0, 4.0)], rtol=1e-5)


def test_a_linear_solve_does_not_outlive_its_step(device):
    """One iteration a step solves nothing; when no step helps any more, the iterations end with the problem."""
    residuals, x = rosenbrock()
    with optimising(device, residuals, GaussNewton(iterations=1, tolerance=0.0, line_search=1), [x]) as ad:
        ad.step(400)
        state = ad.state()
        ad.step(5)
        assert ad.state()["inner_iterations"] == state["inner_iterations"]
        assert state["running"] == 0 and state["solving"] == 0


def test_values_may_be_sent_between_steps(device):
    residuals, image, data = smoothing()
    with optimising(device, residuals, GaussNewton(), [image]) as ad:
        for k in range(1, 4):
            ad.send(data, k * data.data)
            ad.step(2)
            assert_allclose(ad.recv(image), k * smoothed(data.data), atol=5e-5)


def test_adam_minimises_the_same_energy(device):
    residuals, image, data = smoothing()
    with optimising(device, residuals, adam(0.1), [image]) as ad:
        ad.step(300)
        assert ad.recv("loss").item() < 1.01 * least(data.data)


@pytest.mark.parametrize(
    "count, model", [(6, CPU), (6, DATA_CENTRE), (80, CPU)], ids=["6", "6 by tiles", "80"]
)
@pytest.mark.second_driver("80")
@pytest.mark.every_driver
def test_residuals_that_sum_over_an_image(device, count, model):
    """r_i = sum_j M_ij x_j - b_i: the diagonal comes from unit vectors, or for many unknowns from random signs. By register tiles, what is
    summed is not written into the diagonal and the gradient; where the solver has ended it stays what it was all the same."""
    rng = np.random.default_rng(0)
    matrix, target = rng.normal(size=(150, count)), rng.normal(size=(150, 1))
    m, b = Variable.of(matrix, name="m"), Variable.of(target[None], vtype=FLOAT, name="b")
    x = Variable.of(np.zeros(count), name="x")
    with DressiAD(device, model=model) as ad:
        ad.set_loss([F.sum(m * x, "x") - b])
        ad.set_optimizer(LevenbergMarquardt(iterations=200), [x])
        ad.step(5)
        assert_allclose(ad.recv(x), np.linalg.lstsq(matrix, target[:, 0])[0], atol=2e-3)
        diagonal = ad.state()["x.diagonal"].ravel()
        assert all(can_be_gated(plan) for plan in ad.plans.values())
    expected = np.square(matrix).sum(0)
    assert_allclose(diagonal, expected, rtol=1e-5 if count == 6 else 2.0)


UNSOLVABLE = [
    (
        [1.0, 2.0, 0.0, 4.0, 5.0],
        lambda x: [x - 1.0, 1.0 / x],
        InputError,
        r"residual 1 .* is inf at texel \(2, 0\)",
    ),
    (
        [1.0, 2.0, 3.0, 4.0, 5.0],
        lambda x: [1e-25 * (x - 7.0)],
        InputError,
        "vanish in 32 bits: .* of residual 0",
    ),
    (1.0, F.square, GraphError, "give set_loss a list"),
    # x is a column of one image
    (
        np.ones((3, 1, 1)),
        lambda x: [x - Variable.of(np.ones((3, 1, 6)))],
        GraphError,
        "batch of 3 and the unknowns of 1.*batched=True",
    ),
]


@pytest.mark.parametrize(("values", "loss", "error", "words"), UNSOLVABLE)
def test_what_cannot_be_solved_is_named(device, values, loss, error, words):
    x = Variable.of(values, name="x")
    solver = LevenbergMarquardt(independent=np.ndim(values) == 3)
    with optimising(device, loss(x), solver, [x]) as ad, pytest.raises(error, match=words):
        ad.step()


def test_values_sent_later_that_are_not_finite_are_said(device):
    residuals, image, data = smoothing(8)
    with optimising(device, residuals, LevenbergMarquardt(), [image]) as ad:
        ad.step(3)
        found = ad.recv(image)
        ad.send(data, np.nan * data.data)
        ad.step(2)
        with pytest.warns(RuntimeWarning, match="the unknowns stay where they are"):
            ad.losses()
        assert_array_equal(ad.recv(image), found)
        ad.send(data, data.data)
        ad.step(3)
        assert_allclose(ad.recv(image), smoothed(data.data), atol=5e-5)


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


@pytest.mark.parametrize("solver", [GaussNewton(), LevenbergMarquardt(independent=True)])
def test_derivatives_that_are_not_finite_are_named(device, solver):
    depth = Variable.of([1.0, 2.0, np.nan, 4.0, 5.0])
    x = Variable.of(np.zeros(5), name="x")
    seen = F.select(
        F.equal(depth, depth), F.square(x - depth), 0.0
    )  # its value is 0 at the NaN, its slope is not
    with optimising(device, [0.1 * x, seen], solver, [x]) as ad:
        for _ in range(2):
            with pytest.raises(InputError, match=r"residual 1 .* by FLOAT x .* is nan at texel \(2, 0\)"):
                ad.step(3)
        assert not ad.recv(x).any()
        ad.send(depth, np.full(5, 2.0))
        ad.step(40)
        assert_allclose(ad.recv(x), 1.7924, atol=1e-3)  # 0.02 x = 4 (2 - x)^3


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
        assert_array_equal(ad.recv(x), found)


@pytest.mark.filterwarnings("default")
def test_a_singular_system_is_said(device):
    x = Variable.of(np.arange(8.0), name="x")
    with optimising(device, [F.crop(x, 0, 0, (5, 1)) - 1.0], LevenbergMarquardt(), [x]) as ad:
        with pytest.warns(RuntimeWarning, match="3 of the 8 numbers of FLOAT x .* the system is singular"):
            ad.step(3)
        assert_allclose(ad.recv(x), [1, 1, 1, 1, 1, 5, 6, 7], atol=1e-5)


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


def test_all_unknowns_frozen(device):
    x = Variable.of(1.0, name="x")
    with optimising(device, [x - 2.0], LevenbergMarquardt(), [x]) as ad:
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
        lambda: GaussNewton(precision="half"),
        lambda: GaussNewton(precision="double", line_search=0),
        lambda: least_squares.huber(0.0),
    ],
)
def test_options_out_of_range(make):
    with pytest.raises(GraphError):
        make()


@pytest.mark.every_driver
@pytest.mark.parametrize("solver", [GaussNewton(), LevenbergMarquardt(preconditioner=None)], ids=repr)
def test_refined_unknowns_are_those_of_a_solver_in_64_bits(device, solver):
    rng = np.random.default_rng(3)
    at, seen, tail = rng.uniform(0, 3, 40), rng.normal(size=40), rng.normal(size=40)
    x, data = Variable.of(0.1 * rng.normal(size=40), name="x"), Variable.of(seen)
    first, second = (Variable.of(np.arange(39) + k) for k in (0, 1))
    data_term = F.sin(x) + 0.3 * F.square(x) - data
    residuals = [data_term, Variable.of(at[:39]) * (F.lookup(x, second) - F.lookup(x, first))]
    with optimising(device, residuals, solver, [x]) as ad:
        ad.send(data, 0.3 * tail)
        ad.step(30)
        near = ad.recv(x)
        (found,) = ad.refine(200)
        assert_array_equal(ad.recv(x), found.ravel().astype(np.float32))
    exact, sent = found.ravel().copy(), (0.3 * tail).astype(np.float32).astype(float)
    across = at[:39, None] * (np.eye(40)[1:] - np.eye(40)[:-1])
    for _ in range(100):
        r = np.concatenate([np.sin(exact) + 0.3 * exact**2 - sent, across @ exact])
        jacobian = np.concatenate([np.diag(np.cos(exact) + 0.6 * exact), across])
        exact = exact - np.linalg.lstsq(jacobian, r)[0]
    assert_allclose(found.ravel(), exact, rtol=0, atol=1e-12)
    assert abs(near - exact).max() > 1e-9  # 32 bits alone do not reach it


@pytest.mark.every_driver
def test_iterations_behind_the_end_of_a_solve_are_left_out_where_the_host_sees_the_gate(device, monkeypatch):
    if not device.on_cpu:
        pytest.skip("only gates of drivers on the CPU are looked at")
    sent, submit = [], Commands._submit
    monkeypatch.setattr(
        Commands, "_submit", lambda own, buffers: (sent.append(len(buffers)), submit(own, buffers))[1]
    )
    x, goal = Variable.of(np.zeros(40), name="x"), Variable.of(np.arange(40.0))
    with optimising(device, [2.0 * (x - goal)], GaussNewton(iterations=1000, reset=0), [x]) as ad:
        for k in range(3):
            ad.send(goal, np.arange(40.0) + k)
            ad.wait()
            sent.clear()
            ad.step()
            assert_allclose(ad.recv(x), np.arange(40.0) + k, atol=1e-5)
            assert 0 < sum(sent) < 500


@pytest.mark.every_driver
def test_a_solver_in_double_precision_ends_with_unknowns_in_64_bits(device):
    x, square = Variable.of([0.1, 0.2, 0.3, 0.4, 0.5], name="x"), Variable.of(2.0, name="square")
    residuals = [F.square(x) - square, 0.1 * (x - 3.0)]
    with optimising(device, residuals, LevenbergMarquardt(precision="double"), [x]) as ad:
        ad.step()
        assert ad.recv(x).dtype == np.float32  # not there yet
        ad.step(30)
        for value in (2.0, 5.0):
            if value != 2.0:
                ad.send(square, value)
                assert ad.recv(x).dtype == np.float32
                ad.step(30)
            found = ad.recv(x)
            exact = np.full(5, np.sqrt(value))
            for _ in range(20):  # Newton for the slope 2 x (x^2 - value) + 0.01 (x - 3)
                slope = 2 * exact * (exact**2 - value) + 0.01 * (exact - 3)
                exact = exact - slope / (6 * exact**2 - 2 * value + 0.01)
            assert found.dtype == np.float64
            assert_allclose(found, exact, rtol=1e-13)
            ad.step(3)  # of a solver that has ended
            assert_array_equal(ad.recv(x), found)
            assert_array_equal(ad.state()["x"].ravel()[:5], found.astype(np.float32))
        ad.send(x, np.arange(5.0))
        assert_array_equal(ad.recv(x), np.arange(5.0, dtype=np.float32))


def test_refine_refuses_what_has_no_gradient_on_the_host_or_no_plain_step(device):
    x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0], name="x")
    with DressiAD(device) as ad:
        ad.set_loss([x - 2.0])
        ad.set_optimizer(GaussNewton(), [x], bounds={x: (0.0, 1.0)})
        with pytest.raises(GraphError, match="without bounds, fixed entries and manifolds; freeze"):
            ad.refine()
        ad.set_optimizer(GaussNewton(precision="double"), [x], bounds={x: (0.0, 9.0)})
        with pytest.raises(GraphError, match='precision="double" take unknowns without bounds'):
            ad.step()
        ad.set_optimizer(adam(0.1), [x])
        with pytest.raises(GraphError, match="a solver of least squares, such as GaussNewton"):
            ad.refine()
