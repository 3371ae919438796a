"""HardSoftRas, textures and the renderer's own Functions on every driver, by the checks of the oracle's tests."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "render"))

import render_examples
import soft_cases as sc
import test_hard_soft_ras as oracle_tests
import test_texturing as surfaces

from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
CASES = sc.cases()


class Runner:
    """Evaluates Variables on a device; equal lists of Variables keep their executor, new data of leaves is sent."""

    def __init__(self, device):
        self.device, self.known = device, {}

    def __call__(self, outputs: Sequence[Variable], values=None) -> list[np.ndarray]:
        key = tuple(outputs)
        if key not in self.known:
            self.known[key] = VulkanExecutor(Program({str(k): v for k, v in enumerate(outputs)}), self.device)
        run = self.known[key]
        for leaf, value in (values or {}).items():
            run.send(leaf, value)
        run.run()
        run.wait()
        return [run.recv(v) for v in outputs]

    def close(self) -> None:
        for run in self.known.values():
            run.close()


@pytest.fixture
def run(device):
    runner = Runner(device)
    yield runner
    runner.close()


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_images_are_those_of_brute_force(run, name, layers):
    sc.check_images(run, CASES[name], layers)


@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_the_frozen_picture(run, name):
    sc.check_gradient(run, CASES[name], 3)


def test_derivative_of_the_rerendered_loss_on_a_bumpy_ellipsoid(run):
    mesh, camera = sc.bumpy_ellipsoid(), sc.camera(20, 25)
    figures = sc.rerendered(run, *mesh, camera, pixels=5, layers=3, side=128)
    assert sc.worst(figures) <= 0.05, figures


def test_derivative_of_the_rerendered_loss_on_avocado(run, data):
    mesh, camera = oracle_tests.avocado(data), sc.camera(110, -20)
    figures = sc.rerendered(run, *mesh, camera, pixels=5, layers=3, side=128)
    assert sc.worst(figures) <= 0.05, figures


@pytest.mark.parametrize("kind", render_examples.EXAMPLES, ids=lambda kind: kind.__name__)
def test_meaning(run, kind):
    for build in render_examples.EXAMPLES[kind]:
        output = build().output
        (got,), (expected,) = run([output]), evaluate([output])
        assert np.abs(got - expected).max() <= 1e-5 * max(np.abs(expected).max(), 1e-30)


@pytest.mark.parametrize("side", surfaces.SIDES)
def test_exact_texture_gradient(run, side):
    surfaces.check_texture_gradient(run, side)
