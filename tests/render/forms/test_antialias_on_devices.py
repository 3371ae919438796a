"""The antialias form on every driver, by the checks of the oracle's tests, packed and one Function a pass."""

import antialias_cases as ac
import numpy as np
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT, IVEC3, VEC4
from dressi.config import shader_text
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.options import BASELINE
from dressi.vk.plan.substage import Raster
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
CASES = ac.cases()


@pytest.mark.parametrize("name", ["torus", "overlapping", "three faces at an edge"])
@pytest.mark.second_driver("torus")
def test_pictures_are_those_of_brute_force(run, name):
    ac.check_image(run, CASES[name])


@pytest.mark.parametrize("name", ["torus", "open"])
@pytest.mark.second_driver("open")
def test_gradient_is_that_of_the_oracle(run, name):
    ac.check_gradient(run, evaluate, CASES[name], 0.05)


@pytest.mark.release
@pytest.mark.one_driver
def test_gradient_integrates_to_the_loss(run):
    figures = ac.path(run, sc.bumpy_ellipsoid(), sc.camera(20, 25), side=64, samples=8)
    share, median = ac.oc.agreement(figures)
    assert share >= 0.6 and abs(median - 1) <= 0.02, figures


@pytest.mark.release
@pytest.mark.one_driver
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


def test_work_is_done_beside_edges_alone():
    """Everywhere it only looks whether neighbours show different faces."""
    size = (512, 512)
    position = Variable(VEC4, (4, 1), name="position")
    faces = Variable(IVEC3, (2, 1), data=np.array([[[(0, 1, 2), (0, 2, 3)]]]))
    drawn = hard_soft_ras(position, faces, size=size, face_count=2, form="antialias")
    error = drawn.silhouette - Variable(FLOAT, size, name="target")
    (slope,) = gradient(F.sum(F.square(error)), [position])
    program = simplify(Program({}, ((position, position - slope),)))
    work = [s for s in build_plan(program, DeviceLimits(), shader_text).sub_stages if s.domain.size == size]
    dense = [s for s in work if not isinstance(s.work, Raster) and not s.work.uses and s.functions]
    assert [type(f).__name__ for s in dense for f in s.functions] == ["Differs"]
