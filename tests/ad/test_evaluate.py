"""The CPU executor: leaves, broadcasting, memory, programs."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import Evaluator, NumpyExecutor, evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT, INT, VEC3
from dressi.errors import GraphError


def test_values_come_from_the_argument_before_the_data():
    x = Variable(FLOAT, (2, 1), data=[[[1.0, 2.0]]])
    assert evaluate([x + 1.0])[0].tolist() == [[[2.0, 3.0]]]
    assert evaluate([x + 1.0], {x: [[[5.0, 6.0]]]})[0].tolist() == [[[6.0, 7.0]]]
    assert evaluate([x])[0].tolist() == [[[1.0, 2.0]]]


def test_a_leaf_without_values_is_named():
    radius = Variable(FLOAT, name="radius")
    with pytest.raises(GraphError, match=r"radius.*no values.*test_evaluate"):
        evaluate([radius * 2.0])


def test_only_leaves_take_values():
    x = Variable(FLOAT, data=[[[1.0]]])
    with pytest.raises(GraphError, match="computed"):
        evaluate([x], {x + 1.0: 2.0})


def test_values_must_fit():
    x = Variable(VEC3, (2, 2), name="x")
    with pytest.raises(GraphError, match="shape"):
        evaluate([x], {x: np.zeros((2, 2))})


def test_outputs_have_their_full_shape_and_type():
    x = Variable(FLOAT, data=np.ones((1, 1, 1)))
    v = Variable(VEC3, (4, 1), 2, data=np.ones((2, 1, 4, 3)))
    column = Variable(FLOAT, (1, 3), data=np.arange(3.0).reshape(1, 3, 1))
    out, index = evaluate([x * v + column, F.to_int(column) + 2**20])
    assert out.shape == (2, 3, 4, 3) and out.dtype == np.float64
    assert np.array_equal(out[1, :, 3, 2], [1, 2, 3])
    assert index.dtype == np.int64 and index[0, 2, 0] == 2**20 + 2


def test_single_precision_can_be_asked_for():
    x = Variable(FLOAT, data=[[[1.0]]])
    (y,) = evaluate([x / 3.0], dtype=np.float32)
    assert y.dtype == np.float32


def test_division_by_zero_is_silent(recwarn):
    x = Variable(FLOAT, data=[[[0.0]]])
    infinite, undefined = evaluate([1.0 / x, x / x])
    assert np.isinf(infinite).all() and np.isnan(undefined).all() and not recwarn.list


def test_intermediates_are_dropped_after_their_last_use():
    x = Variable(FLOAT, (8, 8), data=np.ones((1, 8, 8)))
    chain = [x]
    for _ in range(50):
        chain.append(F.sin(chain[-1]))
    run = Evaluator([chain[-1], chain[20]])
    alive = peak = 0
    for function, drop in zip(run.order, run.drop, strict=True):
        alive += 1 + sum(i.is_leaf for i in function.inputs)
        peak = max(peak, alive)
        alive -= len(drop)
    assert peak <= 4 and alive == 2


def test_a_deep_graph_is_evaluated_without_recursion():
    x = Variable(FLOAT, data=[[[0.0]]])
    y = x
    for _ in range(5000):
        y = y + 1.0
    assert evaluate([y])[0].item() == 5000


def test_updates_happen_at_once_after_the_outputs():
    a, b = Variable(FLOAT, name="a", data=[[[1.0]]]), Variable(FLOAT, name="b", data=[[[1.0]]])
    program = Program({"sum": a + b}, ((a, b), (b, a + b)))
    runner = NumpyExecutor(program)
    runner.run(5)
    assert (runner.recv(a).item(), runner.recv(b).item()) == (8, 13)
    assert runner.recv(program.outputs["sum"]).item() == 13  # before the last update: 5 + 8
    runner.send(a, [[[100.0]]])
    runner.run()
    assert runner.recv(program.outputs["sum"]).item() == 113
    runner.close()
    runner.close()


def test_the_executor_names_what_it_cannot_do():
    a = Variable(FLOAT, name="a", data=[[[1.0]]])
    y = a * 2.0
    runner = NumpyExecutor(Program({"y": y}))
    with pytest.raises(GraphError, match="run first"):
        runner.recv(y)
    with pytest.raises(GraphError, match="no output"):
        runner.recv(a + 1.0)
    with pytest.raises(GraphError, match="not a leaf"):
        runner.send(Variable(FLOAT), 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: ((a, a + 1.0), (a, a + 2.0)), "twice"),
        (lambda a: ((a + 1.0, a),), "only leaves"),
        (lambda a: ((a, F.to_int(a)),), "must have its type"),
        (lambda a: ((a, F.expand(a, 2)),), "must have its type"),
    ],
)
def test_updates_are_checked(make, message):
    a = Variable(FLOAT, name="a", data=[[[1.0]]])
    with pytest.raises(GraphError, match=message):
        Program({}, make(a)).check()


def test_a_program_knows_its_leaves_in_order():
    a, b = Variable(FLOAT, name="a"), Variable(INT, name="b")
    program = Program({"y": F.to_float(b), "z": a + 1.0}, ((b, b + 1),))
    assert program.leaves == (a, b) and len(program.roots) == 3
