"""Least squares of random residual graphs on devices: the costs of each step against a dense solver in float64."""

from random import Random

import numpy as np
import pytest
from residual_graphs import Dense, draw, flat, start

from dressi import DressiAD, LevenbergMarquardt, Variable
from dressi.ad.types import FLOAT, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4

pytestmark = pytest.mark.vk


def levenberg_marquardt(dense: Dense, x: np.ndarray, steps: int) -> list[float]:
    """The cost before each step and after the last, with the trust region of Ceres and direct solves."""
    r = dense.residuals(x)
    costs, radius, divisor = [0.5 * r @ r], 1e4, 2.0
    for _ in range(steps):
        jacobian = dense.jacobian(x)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ r
        damping = np.diag(np.clip(np.diag(normal), 1e-6, 1e32) / radius)
        move = -np.linalg.lstsq(normal + damping, slope, rcond=None)[0]
        found = dense.residuals(x + move)
        cost, expected = 0.5 * found @ found, -(slope @ move + 0.5 * move @ normal @ move)
        ratio = (costs[-1] - cost) / expected if expected > 1e-14 * costs[0] else 0.0
        if ratio > 1e-3:
            x, r = x + move, found
            radius, divisor = min(radius / max(1 / 3, 1 - (2 * ratio - 1) ** 3), 1e16), 2.0
        else:
            radius, divisor = radius / divisor, 2 * divisor
        costs.append(0.5 * r @ r)
    return costs


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.second_driver("3")
def test_costs_are_those_of_a_dense_solver(device, seed):
    """Stencils, lookups, values that are computed first, and sums over axes, in turn."""
    kind = seed % 4
    drawn = draw(Random(seed), ways=1 if kind == 0 else 2, computed=kind == 2, reduced=kind == 3)
    dense, steps = Dense(drawn), 5
    expected = levenberg_marquardt(dense, start(drawn), steps)
    with DressiAD(device) as ad:
        ad.set_loss(list(drawn.residuals))
        solver = LevenbergMarquardt(iterations=100, tolerance=0.0, function_tolerance=0.0)
        ad.set_optimizer(solver, list(drawn.unknowns))
        ad.step(steps)
        costs = ad.losses()
        last = dense.residuals(flat([ad.recv(x) for x in drawn.unknowns]))
    costs += [0.5 * last @ last] * (steps + 1 - len(costs))
    assert costs == pytest.approx(expected, rel=0.02, abs=1e-4 * expected[0])


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
