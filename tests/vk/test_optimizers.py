"""Optimizers on devices: the numbers of the oracle, packed and one Function a pass."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import NumpyExecutor
from dressi.ad.graph import Variable
from dressi.ad.optim import optimizers as optim
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import VEC3
from dressi.vk.plan.options import BASELINE
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk

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
