"""Least squares of random residual graphs on devices: each step against dense matrices in float64.

`PYTHONPATH=tests python -m random_graphs residuals --minutes 30 --device llvmpipe --json FILE` runs many more.
"""

import numpy as np
import pytest
from random_graphs.residuals import check_residuals

from dressi import DressiAD, LevenbergMarquardt, Variable
from dressi.ad.types import FLOAT, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4

pytestmark = pytest.mark.vk


@pytest.mark.parametrize("seed", [2, 19, 25, 45, 47])
@pytest.mark.release("25", "45", "47")
@pytest.mark.second_driver("45")
def test_steps_are_those_of_dense_matrices(device, seed):
    report = check_residuals(seed, device, steps=2)
    assert report.failures == [] and report.compared > 0


@pytest.mark.parametrize("vtype", [FLOAT, VEC3, VEC4, MAT2, MAT3, MAT4], ids=str)
@pytest.mark.second_driver("VEC3", "MAT4")
def test_unknowns_of_one_texel_stand_beside_others(device, vtype):
    x = Variable(vtype, name="x", data=np.ones((1, 1, 1, *vtype.shape)))
    y = Variable(VEC2, (3, 2), name="y", data=np.ones((1, 2, 3, 2)))
    with DressiAD(device) as ad:
        ad.set_loss([0.5 * x, y - 0.3])
        ad.set_optimizer(LevenbergMarquardt(iterations=20), [x, y])
        ad.step(3)
        np.testing.assert_allclose(ad.recv(x), 0.0, atol=1e-5)
        np.testing.assert_allclose(ad.recv(y), 0.3, atol=1e-5)
