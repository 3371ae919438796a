"""Gradients of maxima and minima on every driver: to one texel each, ties included."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT, VEC3
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk


def test_gradients_of_extremes(device):
    rng = np.random.default_rng(0)
    x = Variable(VEC3, (7, 5), 2, name="x", data=rng.integers(-3, 4, (2, 5, 7, 3)).astype(float))
    s = Variable(FLOAT, (9, 4), name="s", data=rng.normal(size=(1, 4, 9)))
    # Computed, not stored: what is compared must not depend on where it is computed again.
    y, t = F.sin(x * 0.7) + x, F.exp(s) * F.sin(3.0 * s)
    losses = [
        F.sum(F.sum_components(F.square(f(y, axes))))
        for f in (F.max, F.min)
        for axes in ("x", "y", "n", "xyn")
    ]
    losses += [
        F.sum(F.sum_components(F.square(f(v, 2, axis))))
        for f in (F.window_max, F.window_min)
        for v, axis in ((y, "x"), (t, "y"))
    ]
    gradients = [g for loss in losses for g in gradient(loss, [x, s])]
    program = simplify(Program({f"gradient {k}": g for k, g in enumerate(gradients)}))
    with VulkanExecutor(program, device) as run:
        run.run()
        for found, g in zip(program.outputs.values(), gradients, strict=True):
            (expected,) = evaluate([g])
            np.testing.assert_allclose(
                run.recv(found), expected, atol=2e-5 * max(1.0, np.abs(expected).max())
            )
