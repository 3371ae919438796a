"""Operators of image pipelines, and their gradients, on every driver."""

import numpy as np
import pytest
from pipelines import PIPELINES

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk


def test_pipelines_are_those_of_numpy(device):
    values = {}
    for name, (made, leaves) in PIPELINES.items():
        values[name] = made
        values |= {f"{name} by {k}": g for k, g in enumerate(gradient(made, leaves, seed=F.sin(3.0 * made)))}
    expected = dict(zip(values, evaluate(list(values.values())), strict=True))
    program = simplify(Program(values))
    with VulkanExecutor(program, device) as run:
        run.run()
        found = {name: run.recv(program.outputs[name]) for name in values}
    wrong = [n for n in values if not np.allclose(found[n], expected[n], rtol=1e-4, atol=1e-4)]
    assert wrong == []
