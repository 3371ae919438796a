"""What is read is the value at the leaves as they are now; nothing is zero, stale or lost in silence."""

import numpy as np
import pytest

from dressi import FLOAT, VEC3, DressiAD, F, GraphError, Variable, evaluate, gradient, sgd
from dressi.ad.evaluate import evaluate as meaning
from dressi.ad.traversal import leaves
from dressi.vk.run.executor import VulkanExecutor
from dressi.vk.run.values.evaluate import Evaluator


def scene():
    """(parameter, offset, picture, number of the brightest texel, loss)"""
    rng = np.random.default_rng(0)
    x = Variable(VEC3, (6, 5), name="x", data=rng.random((1, 5, 6, 3)))
    offset = Variable(FLOAT, name="offset", data=np.zeros((1, 1, 1)))
    picture = F.sin(x * 3.0) + offset
    integers = F.to_int(F.floor(picture * 10.0).x)
    return x, offset, picture, integers, F.mean(F.square(F.length(picture)))


def now(variable, **values):
    """The float64 meaning at these values of leaves, by name."""
    given = {v: values[v.name] for v in leaves([variable]) if v.name in values}
    return meaning([variable], given)[0]


@pytest.mark.parametrize("record", [True, False], ids=["recorded", "not recorded"])
def test_every_value_is_that_of_the_present_leaves(device, record):
    x, offset, picture, integers, loss = scene()
    with DressiAD(device) as ad:
        ad.set_loss(loss, record=record)
        ad.set_optimizer(sgd(0.5), [x])
        ad.set_output("picture", picture)
        ad.set_output("integers", integers)
        values = {"x": np.array(x.data), "offset": np.zeros((1, 1, 1))}

        def check():
            values["x"] = ad.recv(x).astype(float)
            assert np.abs(ad.recv("picture") - now(picture, **values)).max() < 1e-5
            assert (ad.recv("integers") != now(integers, **values)).mean() < 0.05
            assert ad.recv("integers").dtype == np.int32 and ad.recv("integers").any()
            assert float(ad.recv("loss")) == pytest.approx(float(now(loss, **values).item()), rel=1e-5)
            assert ad.recv("loss").shape == () and ad.recv(loss).shape == (1, 1, 1)

        check()  # before the first step
        ad.step(3)
        check()  # after an update
        values["offset"] = np.full((1, 1, 1), 0.4)
        ad.send(offset, values["offset"])
        check()  # after a send
        ad.set_output("picture", picture * 2.0)
        assert np.abs(ad.recv("picture") - 2.0 * now(picture, **values)).max() < 1e-5
        ad.remove_output("picture")
        with pytest.raises(GraphError, match="no output 'picture'; there are: integers, loss"):
            ad.recv("picture")
        ad.step(2)
        assert len(ad.losses()) == (5 if record else 0)
    assert len(ad.losses()) == (5 if record else 0)


def test_losses_are_those_before_each_update(device):
    x, *_, loss = scene()
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(sgd(0.5), [x])
        read = []
        for _ in range(4):
            read.append(float(ad.recv("loss")))
            ad.step()
        assert ad.losses() == pytest.approx(read, rel=1e-6)


def test_outputs_that_simplify_to_a_parameter_are_like_the_others(device):
    x, *_, loss = scene()
    flag = Variable(FLOAT, name="flag", data=np.ones((1, 1, 1)))
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(sgd(0.5), [x])
        for name, v in {
            "times one": x * 1.0,
            "select": F.select(flag, x, x),
            "twice": x * 2.0,
            "x": x,
        }.items():
            ad.set_output(name, v)
        ad.step(2)
        expected = ad.recv(x)
        assert (ad.recv("times one") == expected).all() and (ad.recv("select") == expected).all()
        assert (ad.recv("twice") == 2 * expected).all() and (ad.recv("x") == expected).all()


def test_evaluate_needs_no_step_and_keeps_its_programs(device, monkeypatch):
    x, offset, picture, _, loss = scene()
    made = []
    build = VulkanExecutor.__init__
    monkeypatch.setattr(
        VulkanExecutor, "__init__", lambda self, *a, **k: (made.append(1), build(self, *a, **k))[1]
    )
    with DressiAD(device) as ad:
        value, slope = ad.evaluate([loss, *gradient(loss, [x])])
        expected = meaning([loss, *gradient(loss, [x])])
        assert value == pytest.approx(expected[0], rel=1e-5) and np.abs(slope - expected[1]).max() < 1e-6
        assert ad.evaluate({"a": picture, "b": x})["b"].tobytes() == x.data.astype(np.float32).tobytes()
        count = len(made)
        for k in range(3):
            ad.send(offset, np.full((1, 1, 1), 0.1 * k))
            # The graph is built again by the caller, the program is not.
            again = F.mean(F.square(F.length(F.sin(x * 3.0) + offset)))
            found = ad.evaluate([again, *gradient(again, [x])])[0]
            assert found == pytest.approx(now(again, offset=np.full((1, 1, 1), 0.1 * k)), rel=1e-5)
        assert len(made) == count
        assert ad.evaluate([]) == [] and ad.evaluate(()) == []
        ad.set_loss(loss)
        ad.set_output("picture", picture)
        a, b = ad.evaluate(["loss", "picture"])
        assert a.shape == (1, 1, 1) and b.shape == (1, 5, 6, 3)
        for wrong in (3.0, [3.0], [None]):
            with pytest.raises(GraphError, match="takes Variables"):
                ad.evaluate(wrong)


def test_evaluate_without_an_engine_finds_equal_graphs(device, monkeypatch):
    made = []
    build = VulkanExecutor.__init__
    monkeypatch.setattr(
        VulkanExecutor, "__init__", lambda self, *a, **k: (made.append(1), build(self, *a, **k))[1]
    )
    run = Evaluator(device)
    for k in range(3):
        y = Variable.of(np.full((7, 3), k + 1.0))
        total, same, leaf = run([F.sum(F.length(y * 2.0)), y * 1.0, y], {})
        assert total.item() == pytest.approx(14 * np.sqrt(3) * (k + 1)) and (leaf == k + 1).all()
        assert same.shape == leaf.shape == (7, 3)
    assert len(made) == 1
    x = Variable(FLOAT, (3, 2), name="x")
    with pytest.raises(GraphError, match=r"x .*has no values; pass them"):
        run([x * 2.0], {})
    values = np.ones((2, 3))
    assert run([x * 2.0], {x: values})[0].sum() == 12
    values *= 3.0  # an array of the caller's is read again
    assert run([x * 2.0], {x: values})[0].sum() == 36
    run.close()


def test_the_free_function_opens_a_device_once():
    x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert evaluate(F.sum(x * x)).item() == 55.0
    (slope,) = evaluate(gradient(F.sum(x * x), x))
    assert slope.tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert evaluate({"twice": x + x})["twice"].tolist() == [2.0, 4.0, 6.0, 8.0, 10.0]
    with pytest.raises(GraphError, match="given to leaf Variables"):
        evaluate(x, {x + 1.0: 3.0})
