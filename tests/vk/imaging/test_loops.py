"""Loops on every driver: one plan of the body, which runs as often as it is applied; gradients from what was kept."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.optim import adam
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT
from dressi.errors import GraphError, PlanError
from dressi.vk.plan.images import ImageSlot
from dressi.vk.plan.options import PlanOptions
from dressi.vk.run.device.memory import make_image
from dressi.vk.run.device.transfer import SLOTS
from dressi.vk.run.engine import DressiAD

pytestmark = pytest.mark.vk


def layers(count: int, checkpoints: int | None):
    """Two states, a captured weight, a convolution; a second loop that reads what the first one made."""
    random = np.random.default_rng(0)
    x, w = (
        Variable.of(random.random((6, 9)), name="x"),
        Variable.of(0.2 * random.random((3, 3)), FLOAT, name="w"),
    )

    def body(a, b):
        c = F.sigmoid(F.correlate(a, w) + b)
        return c * a, 0.5 * b + 0.1 * c

    a, b = F.loop(body, [x, 0.5 * x], count, checkpoints=checkpoints)
    c = F.loop(lambda v: v + 0.1 * F.shift(v * a, 1, 0), b, 3)
    return x, [a, *gradient(F.sum(a * b + c), [x, w])]


def close(found, wanted) -> bool:
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("checkpoints", [None, 3])
@pytest.mark.one_driver
def test_a_loop_is_planned_once(device, checkpoints):
    functions = {}
    for count in (4, 10):
        x, outputs = layers(count, checkpoints)
        with DressiAD(device) as ad:
            assert close(ad.evaluate(outputs), evaluate(outputs))
            other = 0.7 * x.data
            ad.send(x, other)
            assert close(ad.evaluate(outputs), evaluate(outputs, {x: other}))
            executor = ad._evaluations.executor(outputs)
            functions[count] = {n: e.plan.counts["functions"] for n, e in executor.executors.items()}
    assert functions[4] == functions[10]


def test_checkpoints_save_memory(device):
    """States that are kept lie where an iteration writes them and others read them."""
    kept = {}
    for checkpoints in (None, 3):
        outputs = layers(24, checkpoints)[1]
        with DressiAD(device) as ad:
            ad.evaluate(outputs)
            procedure = ad._evaluations.executor(outputs).procedure
            kept[checkpoints] = len(procedure.scratch)
            assert not procedure.copies
    assert kept[3] < 0.7 * kept[None]


@pytest.mark.one_driver
def test_a_first_state_that_was_never_sent_is_named(device):
    x = Variable(FLOAT, (6, 5), name="x")
    y = F.loop(lambda v: v + 0.1 * F.shift(v * v, 1, 0), x, 3)
    with DressiAD(device) as ad, pytest.raises(GraphError, match="nothing was ever sent to FLOAT x"):
        ad.evaluate(gradient(F.sum(y), [x]))


def conjugate_gradients(count: int, size: int = 20):
    random = np.random.default_rng(4)
    root = random.normal(size=(size, size))
    system, right = root @ root.T + size * np.eye(size), random.normal(size=(size, 1))
    a, b = Variable.of(system, FLOAT, name="a"), Variable.of(right, FLOAT, name="b")

    def step(x, r, p):
        q, energy = F.matmul(a, p), F.sum(r * r)
        rest = r - energy / F.sum(p * q) * q
        return x + energy / F.sum(p * q) * p, rest, rest + F.sum(rest * rest) / energy * p

    x = F.loop(step, [0.0 * b, b, b], count, until=lambda x, r, p: F.sum(r * r) < 1e-13)[0]
    weight = random.normal(size=(size, 1))
    solution, adjoint = np.linalg.solve(system, right), np.linalg.solve(system, weight)
    return [x, *gradient(F.sum(x * Variable.of(weight, FLOAT)), [a, b])], solution, adjoint


@pytest.mark.one_driver
def test_a_loop_ends_where_its_condition_is_met(device):
    """Beyond it the directions of conjugate gradients are 0 / 0."""
    outputs, solution, adjoint = conjugate_gradients(20)
    with DressiAD(device) as ad:
        x, by_a, by_b = (value[0] for value in ad.evaluate(outputs))
    assert np.allclose(x, solution, atol=1e-5)
    implicit = -adjoint @ solution.T
    # Iterations know A by A p alone, and A is symmetric: its gradient is compared as that of a symmetric matrix.
    assert np.abs(by_a + by_a.T - implicit - implicit.T).max() < 1e-5 * np.abs(implicit).max()
    assert np.abs(by_b - adjoint).max() < 1e-5 * np.abs(adjoint).max()


def test_a_loop_that_does_not_converge_is_named(device):
    outputs, *_ = conjugate_gradients(3)
    with DressiAD(device) as ad, pytest.warns(RuntimeWarning, match="did not meet its condition in 3 iter"):
        ad.evaluate(outputs)
    with pytest.warns(RuntimeWarning, match="raise its count, or loosen the condition"):
        evaluate(outputs)


@pytest.mark.one_driver
def test_more_values_are_read_than_have_slots(device):
    """What tells whether a loop ended is read when a result is asked for, not while a transfer waits for a slot."""
    x = F.loop(lambda x: 0.5 * x, Variable.of(np.ones((2, 6)), FLOAT), 2, until=lambda x: F.sum(x) < 0.0)
    outputs = [x + float(k) for k in range(SLOTS + 2)]
    with DressiAD(device) as ad, pytest.warns(RuntimeWarning, match="did not meet its condition"):
        found = ad.evaluate(outputs)
    assert close(found, [np.full((2, 6), 0.25 + k) for k in range(SLOTS + 2)])


def test_a_bound_of_memory_that_no_loop_fits_is_named(device):
    x, (a, *_) = layers(6, None)
    with DressiAD(device, options=PlanOptions(memory=6000)) as ad:
        ad.set_loss(F.mean(F.square(a)))
        ad.set_optimizer(adam(0.1), [x])
        with pytest.raises(
            PlanError, match=r"memory=6000 allows 0.0 even where loops keep \d states; give more"
        ):
            ad.step()


@pytest.mark.release
@pytest.mark.one_driver
def test_a_step_takes_no_more_than_its_bound(device):
    """Programs share images whatever they use them for, and the memory is free through which the first state was sent. The bound
    is of texels; what a device adds to each image comes on top."""
    size, layers = (320, 256), 6
    image = 4 * 4 * size[0] * size[1]
    x = Variable(FLOAT, size, channels=4, data=np.random.default_rng(0).random((1, 4, *size[::-1])), name="x")
    w = Variable(FLOAT, (3, 3), 4, channels=4, data=np.full((4, 4, 3, 3), 0.01), name="w")
    y = F.loop(lambda v: v + F.sigmoid(F.correlate(v, w, border="clamp")), x, layers)
    with DressiAD(device, options=PlanOptions(memory=10 * image)) as ad:
        ad.set_loss(F.mean(F.square(y)))
        ad.set_optimizer(adam(0.1), [w])
        ad.step()
        ad.wait()
        used, images = device.memory.used, len(device.memory._of)
        one, large = (make_image(device, ImageSlot(4, False, *s), "padded") for s in ((1, 1), size))
        padded = [device.memory._of[i.handle].size for i in (one, large)]
        for i in (one, large):
            i.destroy(device)
        assert used < 10 * image + 10 * (padded[1] - image) + images * (padded[0] - 16)
