"""Small graphs that are one Function each: what they know of their value."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.fused import fused
from dressi.ad.types import FLOAT, INT


@fused
def nearest(face: Variable, x: Variable) -> Variable:
    return F.select(F.less(face, 0), F.constant(-1.0), F.sqrt(x) + 2.0)


@pytest.mark.parametrize(("face", "value"), [(-1, -1.0), (3, None)])
def test_a_value_is_known_where_the_graph_knows_it(face, value):
    made = nearest(Variable(INT, (4, 4)), Variable(FLOAT, (4, 4))).creator
    found = made.known_value({0: np.array(face)})
    assert found is None if value is None else found == value
    assert made.known_value({}) is None


@fused
def folded(face: Variable, x: Variable) -> Variable:
    return nearest(face, x * 3.0) * 2.0 + nearest(face, x)


def test_one_within_another_is_what_its_graph_is(device):
    from dressi.vk.run.executor import VulkanExecutor

    face, x = Variable.of(np.array([-1, 2, 0, 5]), INT), Variable.of([1.0, 2.0, 3.0, 4.0], FLOAT)
    y = folded(face, x)
    truth = 2 * np.sqrt([3, 6.0, 9, 12]) + np.sqrt([1, 2.0, 3, 4]) + 6
    truth[0] = -3
    with VulkanExecutor(Program({"y": y}), device) as executor:
        executor.run()
        found = executor.recv(y)
    assert np.abs(evaluate([y])[0].ravel() - truth).max() <= 1e-6
    assert np.abs(found.ravel() - truth).max() <= 1e-5
