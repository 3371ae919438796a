"""The antialias form on every driver, by the checks of the oracle's tests, packed and one Function a pass."""

import antialias_cases as ac
import pytest

from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.vk.plan.options import BASELINE
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
CASES = ac.cases()


@pytest.mark.parametrize("name", ["torus", "overlapping", "three faces at an edge"])
def test_pictures_are_those_of_brute_force(run, name):
    ac.check_image(run, CASES[name])


@pytest.mark.parametrize("name", ["torus", "open"])
def test_gradient_is_that_of_the_oracle(run, name):
    ac.check_gradient(run, evaluate, CASES[name], 0.05)


def test_baseline_and_repeated_runs_agree(device):
    position, loss = ac.loss_of(CASES["open"])
    program = simplify(Program({"loss": loss, "slope": gradient(loss, [position])[0]}))

    def values(**options):
        with VulkanExecutor(program, device, **options) as executor:
            executor.run()
            return [executor.recv(v) for v in program.outputs.values()]

    first, again, baseline = values(), values(), values(options=BASELINE)
    assert first[1].any() and all((a == b).all() for a, b in zip(first, again, strict=True))
    for a, b in zip(first, baseline, strict=True):
        assert abs(a - b).max() <= 1e-4 * abs(b).max()
