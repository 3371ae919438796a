"""Optimizers on devices: the numbers of the oracle, packed and one Function a pass."""

import numpy as np
import pytest

from dressi import FLOAT, VEC3, F, Variable, gradient, optim
from dressi.ad.graph.evaluation import NumpyExecutor
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.plan.core.options import BASELINE
from dressi.vk.run.execution.executor import VulkanExecutor

RATE = optim.warm_up(optim.joined([(0, optim.linear(0.2, 0.1, 3)), (3, optim.exponential(0.1, 0.5))]), 2)
OPTIMIZERS = {
    "adam with one scale": optim.adam_uniform(RATE),
    "adam that never forgets": optim.amsgrad(RATE, (0.5, 0.6)),
    "decoupled weight decay": optim.adamw(RATE, 0.3),
}


@pytest.mark.parametrize("options", [{}, {"options": BASELINE}], ids=["packed", "baseline"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_steps_are_those_of_the_oracle(device, optimizer, options):
    rng = np.random.default_rng(0)
    x = Variable(VEC3, (7, 3), name="x", data=rng.normal(size=(1, 3, 7, 3)))
    loss = F.sum(F.square(F.length(x - (1.0, 2.0, 3.0))))
    built = optimizer.build([x], gradient(loss, [x]))
    program = simplify(Program({}, ((x, built.parameters[0]), *built.updates)))
    truth = NumpyExecutor(program)
    truth.run(6)
    with VulkanExecutor(program, device, **options) as run:
        run.run(6)
        for leaf in program.leaves:
            expected = truth.recv(leaf)
            assert np.abs(run.recv(leaf) - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1.0), leaf


def test_weights_of_one_texel_move_beside_others_of_as_many_tiles(device):
    """Both have 24 tiles, of 3 and of 8 channels: a shader of both would number them alike."""
    rng = np.random.default_rng(0)
    x, wanted = (Variable(FLOAT, (16, 16), channels=3, data=rng.random((1, 3, 16, 16))) for _ in range(2))
    first = Variable(FLOAT, (3, 3), 8, channels=3, data=rng.normal(size=(8, 3, 3, 3)), name="first")
    last = Variable(FLOAT, (1, 1), 3, channels=8, data=rng.normal(size=(3, 8, 1, 1)), name="last")
    loss = F.mean(F.square(F.correlate(F.relu(F.correlate(x, first)), last) - wanted))
    weights = [first, last]
    built = optim.sgd(0.1).build(weights, gradient(loss, weights))
    program = simplify(Program({}, (*zip(weights, built.parameters, strict=True), *built.updates)))
    truth = NumpyExecutor(program)
    truth.run(1)
    with VulkanExecutor(program, device) as run:
        run.run(1)
        for w in weights:
            np.testing.assert_allclose(run.recv(w), truth.recv(w), atol=1e-5)
