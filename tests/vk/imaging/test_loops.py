"""Loops with and without checkpoints on every driver: equal values, and less memory."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk


def test_checkpoints_save_memory(device):
    random = np.random.default_rng(0)
    x, w = (
        Variable.of(random.random((48, 64)), name="x"),
        Variable.of(0.2 * random.random((3, 3)), FLOAT, name="w"),
    )

    def body(a, b):
        c = F.sigmoid(F.correlate(a, w) + b)
        return c * a, 0.5 * b + 0.1 * c

    values, found = {}, {}
    for checkpoints in (None, 3):
        a, b = F.loop(body, [x, 0.5 * x], 10, checkpoints=checkpoints)
        program = simplify(Program(dict(zip("vxw", [a, *gradient(F.sum(a * b), [x, w])], strict=True))))
        values[checkpoints] = evaluate(list(program.outputs.values()))
        with VulkanExecutor(program, device) as run:
            run.run()
            found[checkpoints] = [run.recv(v) for v in program.outputs.values()], run.plan.images.bytes
    for mine, plain in zip(*(found[k][0] for k in (None, 3)), strict=True):
        assert np.allclose(mine, plain, rtol=1e-5, atol=1e-7)
    for k, (arrays, _) in found.items():
        assert all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(arrays, values[k], strict=True))
    assert found[3][1] < 0.7 * found[None][1]
