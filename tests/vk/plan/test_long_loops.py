"""Loops past what drivers allow in silence, and sums that could lose digits, against float64."""

import numpy as np
import pytest

from dressi import FLOAT, INT, F, PixelFunction, PlanError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.run.execution.executor import VulkanExecutor


def image(size, batch=1, seed=0) -> Variable:
    width, height = size
    return Variable(FLOAT, size, batch, data=np.random.default_rng(seed).random((batch, height, width)))


def shrunk_by_area():
    return F.resize(image((600, 600)), (1, 1), "area")


def shrunk_bilinear():
    return F.resize(image((600, 500)), (3, 2), "bilinear")


def transpose_of_enlarging():
    x = image((4, 4))
    return gradient(F.sum(image((512, 512), seed=1) * F.resize(x, (512, 512))), [x])[0]


def transpose_of_nearest():
    x = image((3, 2))
    return gradient(F.sum(image((500, 300), seed=1) * F.resize(x, (500, 300), "nearest")), [x])[0]


def loops_inside_of_a_sum():
    return F.mean(F.sobol2(F.linear_index((47, 39), 5) + 7))


def corners_of_a_large_shift():
    x = image((400, 300))
    return gradient(F.sum(x * F.shift(x, -350, 280)), [x])[0]


def many_sums_of_one_shape():
    lists = [image((8000, 1), seed=k) for k in range(9)]
    return sum((F.sum(F.square(v), "x") for v in lists[1:]), F.sum(lists[0], "x"))


CASES = [
    shrunk_by_area,
    shrunk_bilinear,
    transpose_of_enlarging,
    transpose_of_nearest,
    loops_inside_of_a_sum,
    corners_of_a_large_shift,
    many_sums_of_one_shape,
]


@pytest.mark.parametrize("case", CASES)
def test_long_loops_give_the_sums_of_float64(device, case):
    y = case()
    (expected,) = evaluate([y])
    with VulkanExecutor(simplify(Program({"y": y})), device) as run:
        run.run()
        assert all(s.iterations <= 65535 for s in run.plan.sub_stages)
        found = run.recv(run.program.outputs["y"])
    assert np.abs(found - expected).max() <= 2e-6 * np.abs(expected).max()


class Counting(PixelFunction):
    """Adds up ones, so often that no shader may."""

    glsl = "$y = 0.0; for (int i = 0; i < 70000; ++i) $y += $0;"
    iterations = 70000

    def infer(self):
        return FLOAT, self.broadcast()

    def eval(self, x):
        return 70000.0 * x


def test_a_function_that_declares_more_than_a_shader_may_loop_is_refused(device):
    y = Counting(image((2, 2))).output
    with pytest.raises(PlanError, match=r"Counting.*70000 loop iterations.*65535"):
        VulkanExecutor(Program({"y": y}), device)


def test_the_gradient_of_lookups_from_different_domains(device):
    """Scatters of one texel and of many stay apart: no texel is added once for every pixel."""
    table = Variable(FLOAT, (5, 1), data=np.arange(5.0).reshape(1, 1, 5))
    wide = Variable(INT, (12, 1), 4, data=(np.arange(48) % 5).reshape(4, 1, 12))
    single = Variable(INT, data=np.full((1, 1, 1), 2))
    loss = F.sum(F.lookup(table, wide)) + F.sum(F.square(F.lookup(table, single)))
    program = simplify(Program({"g": gradient(loss, [table])[0]}))
    expected = np.array([10.0, 10.0, 14.0, 9.0, 9.0])
    assert np.array_equal(evaluate([program.outputs["g"]])[0].ravel(), expected)
    with VulkanExecutor(program, device) as run:
        run.run()
        assert np.allclose(run.recv(run.program.outputs["g"]).ravel(), expected, atol=1e-6)
