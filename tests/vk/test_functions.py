"""Every Function, extreme values and residuals on every driver, against NumPy.

`PYTHONPATH=tests python -m random_graphs residuals --minutes 30 --device llvmpipe --json FILE` runs many more.
"""

import math
from functools import cache

import numpy as np
import pytest
from examples import EXAMPLES
from numpy.testing import assert_allclose
from random_graphs.residuals import check_residuals

from dressi import DressiAD, F, LevenbergMarquardt, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import leaves
from dressi.ad.graph.types import FLOAT, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4
from dressi.ad.ops.image.draws import Rasterize
from dressi.ad.transform.simplify import simplify
from dressi.vk.plan.core.options import BASELINE, DEFAULT, PlanOptions
from dressi.vk.run.execution.executor import VulkanExecutor

TOLERANCE = 1e-5  # of the largest value


def near_edges(f: Rasterize) -> np.ndarray:
    """Pixels whose centre lies within 1/16 pixel of an edge of a drawn triangle: there drivers may differ."""
    values = evaluate(f.inputs[:2])
    position = values[0].reshape(values[0].shape[0], -1, 4)
    width, height = f.size
    if f.indexed:
        triangles = values[1].reshape(values[1].shape[0], -1, 3)[:, : f.triangles]
    else:
        triangles = np.arange(3 * f.triangles).reshape(1, -1, 3)
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    near = np.zeros((f.batch, height, width), bool)
    for tile in range(f.batch):
        clip = position[tile % len(position)]
        screen = (clip[:, :2] / clip[:, 3:] * 0.5 + 0.5) * (width, height)
        for triangle in triangles[tile % len(triangles)]:
            for a, b in zip(screen[triangle], screen[np.roll(triangle, -1)], strict=True):
                d = b - a
                t = np.clip(((x - a[0]) * d[0] + (y - a[1]) * d[1]) / max(d @ d, 1e-30), 0, 1)
                near[tile] |= np.hypot(x - a[0] - t * d[0], y - a[1] - t * d[1]) <= 1 / 16
    return near


def compare(v: Variable, got: np.ndarray, expected: np.ndarray, what: str) -> None:
    if isinstance(v.creator, Rasterize):
        far = ~near_edges(v.creator)
        assert far.mean() > 0.5 and (got[far] == expected[far]).all(), what
        return
    finite = np.isfinite(expected)
    assert (np.isfinite(got) == finite).all(), what
    largest = np.abs(expected[finite]).max(initial=0.0)
    if largest < 1e-20:  # zero by cancellation: judged by what cancelled
        largest = max(np.abs(x.data).max() for x in leaves([v]))
    error = np.abs(got[finite] - expected[finite]).max(initial=0.0)
    assert error <= TOLERANCE * max(largest, 1e-30), f"{what}: {error:.3g} of {largest:.3g}"


@cache
def meaning_of(kind) -> tuple[list[Variable], list[np.ndarray]]:
    """The examples of a kind of Function, and their values in float64."""
    examples = [build().output for build in EXAMPLES[kind]]
    return examples, evaluate(examples)


def check_meaning(device, kind, options: PlanOptions) -> None:
    examples, expected = meaning_of(kind)
    program = Program({f"{kind.__name__} {k}": v for k, v in enumerate(examples)})
    with VulkanExecutor(program, device, options=options) as run:
        run.run()
        run.wait()
        for name, v, value in zip(program.outputs, examples, expected, strict=True):
            compare(v, run.recv(v), value, name)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_meaning(device, kind):
    check_meaning(device, kind, DEFAULT)


@pytest.mark.release
@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_meaning_of_one_function_a_pass(device, kind):
    check_meaning(device, kind, BASELINE)


def test_the_error_function_is_exact_near_zero_and_where_its_halves_meet(device):
    """To 3 units of the last place of its value, and 1 or -1 for large x: sums of it in contractions stay exact."""
    x = np.concatenate([np.linspace(-5, 5, 991), [0, 1, -1, 1e-20, -1e-6, 4, 30, -30, 3e38]]).astype(
        np.float32
    )
    with DressiAD(device) as ad:
        found = ad.evaluate(F.erf(Variable.of(x, FLOAT))).ravel()
    assert_allclose(found, [math.erf(value) for value in x], rtol=3 * 2.0**-23, atol=1e-30)


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
            assert_allclose(run.recv(found), expected, atol=2e-5 * max(1.0, np.abs(expected).max()))


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
        assert_allclose(ad.recv(x), 0.0, atol=1e-5)
        assert_allclose(ad.recv(y), 0.3, atol=1e-5)
