"""Values and steps of an engine on devices: what is read, what an optimizer moves, and what is refused."""

import signal
import threading
import time

import numpy as np
import pytest
from graphs import optimising

from dressi import FLOAT, INT, VEC3, DressiAD, F, GraphError, InputError, Variable, adam, gradient, jvp, sgd
from dressi.ad.graph.evaluation import evaluate as meaning
from dressi.ad.graph.traversal import leaves
from dressi.ad.least_squares.objective import HISTORY
from dressi.ad.optim import Clocked, clock, exponential, per_parameter
from dressi.vk.run.evaluations import Evaluator, evaluate
from dressi.vk.run.execution.executor import VulkanExecutor


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
    with optimising(device, loss, sgd(0.5), [x]) as ad:
        read = []
        for _ in range(4):
            read.append(float(ad.recv("loss")))
            ad.step()
        assert ad.losses() == pytest.approx(read, rel=1e-6)


def test_outputs_that_simplify_to_a_parameter_are_like_the_others(device):
    x, *_, loss = scene()
    flag = Variable(FLOAT, name="flag", data=np.ones((1, 1, 1)))
    with optimising(device, loss, sgd(0.5), [x]) as ad:
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


def small(device, *names):
    x, y = (
        Variable(FLOAT, (4, 1), name=n, data=np.linspace(1, 2, 4).reshape(1, 1, 4))
        for n in names or ("x", "y")
    )
    ad = optimising(device, F.sum(F.square(x)) + F.sum(F.square(y)), adam(0.1), [x, y])
    return ad, x, y


@pytest.mark.parametrize("names", [("x", "y"), (None, None)], ids=["named", "unnamed"])
def test_frozen_parameters_rest_with_their_moments(device, names):
    ad, _, y = small(device, *names)
    other, *_ = small(device, *names)
    with ad, other:
        ad.step(3)
        other.step(3)
        before = ad.state()
        ad.freeze(y)
        ad.step(2)
        other.step(2)
        during, reference = ad.state(), other.state()
        own = [n for n in during if n.split(".")[0] in (y.name or "parameter1")]
        assert len(own) == 3 and all((during[n] == before[n]).all() for n in own)
        rest = [n for n in during if n not in own]
        assert all((during[n] == reference[n]).all() for n in rest)
        ad.release(y)
        ad.step()
        after = ad.state()
        assert all((after[n] != before[n]).any() for n in own)
        with pytest.raises(GraphError, match="not among the parameters"):
            ad.freeze(Variable(FLOAT))


def test_state_is_kept_where_it_is_asked_for(device):
    ad, x, _ = small(device)
    with ad:
        ad.step(3)
        before = ad.state()
        ad.set_optimizer(adam(0.01), [x], keep_state=True)
        assert (ad.state()["x.adam_m"] == before["x.adam_m"]).all() and ad.state()["step"].item() == 3
        ad.set_optimizer(adam(0.01), [x])
        assert not ad.state()["x.adam_m"].any() and ad.state()["step"].item() == 0
        ad.set_optimizer(None)
        assert ad.parameters == ()
        values = ad.recv(x)
        ad.step(2)
        assert (ad.recv(x) == values).all() and len(ad.losses()) == 5


def test_restore_sets_all_or_nothing(device):
    ad, x, y = small(device)
    with ad:
        ad.step(2)
        state = ad.state()
        ad.step(2)
        before = ad.state()
        wrong = {**state, "y": np.zeros((7, 7))}
        with pytest.raises(GraphError, match=r"y .*takes an array of shape"):
            ad.restore(wrong)
        with pytest.raises(GraphError, match=r"differs in: x.*partial=True"):
            ad.restore({n: a for n, a in state.items() if n != "x"})
        assert all((ad.state()[n] == before[n]).all() for n in before)
        with pytest.raises(GraphError, match="differs in: z"):
            ad.restore({"z": np.zeros(1)}, partial=True)
        ad.restore({"x": state["x"]}, partial=True)
        assert (ad.recv(x) == state["x"]).all() and (ad.recv(y) == before["y"]).all()


def test_an_interrupt_leaves_losses_in_order(device):
    ad, *_ = small(device)
    reference, *_ = small(device)
    with ad, reference:
        ad.step()
        ad.losses()
        threading.Timer(0.15, signal.raise_signal, (signal.SIGINT,)).start()
        end = time.monotonic() + 60
        with pytest.raises(KeyboardInterrupt):
            while time.monotonic() < end:
                ad.step(HISTORY // 2)
        time.sleep(0.01)
        ad.step(3)
        found = ad.losses()
        reference.step(len(found))
        assert found == reference.losses() and len(found) > 4
        assert ad.state()["step"].item() == len(found)


def test_adams_first_move_is_the_rate(device):
    for beta in (0.9, 0.999, 0.99999, 0.0):
        x = Variable(FLOAT, (3, 1), name="x", data=np.zeros((1, 1, 3)))
        slope = Variable(FLOAT, (3, 1), data=np.array([[[1.0, -3.0, 1e-2]]]))
        with optimising(device, F.sum(x * slope), adam(1.0, betas=(0.9, beta), eps=0.0), [x]) as ad:
            ad.step()
            assert np.abs(ad.recv(x).ravel() - [-1.0, 1.0, -1.0]).max() < 2e-6
            ad.step(9)
            assert np.abs(ad.recv(x).ravel() / 10 - [-1.0, 1.0, -1.0]).max() < 2e-6


def test_per_parameter_rates_and_clocks(device):
    ad, x, y = small(device)
    steps = clock()
    with ad:
        optimizer = per_parameter({x: sgd(0.0), y: sgd(exponential(0.5, 0.5))})
        ad.set_optimizer(Clocked(optimizer, steps), [x, y])
        before = ad.recv(y)
        ad.step(2)
        assert (ad.recv(x) == np.float32(x.data)).all() and ad.recv(steps).item() == 2
        assert np.abs(ad.recv(y) - before * 0.0).max() < 1e-6


# ---- misuse
def test_misuse_is_said_at_once(device):
    x, offset, picture, integers, loss = scene()
    unused = Variable(FLOAT, name="unused", data=np.zeros((1, 1, 1)))
    held = F.mean(F.stop_gradient(F.length(x))) + F.sum(offset)
    with DressiAD(device) as ad:
        cases = [
            (lambda: ad.step(), "nothing to compute"),
            (lambda: ad.set_loss(3.0), "the loss is a Variable"),
            (lambda: ad.set_loss(integers), "F.to_float"),
            (lambda: ad.set_loss(F.mean(x)), r"F.mean\(F.sum_components\(x\)\)"),
            (lambda: ad.set_optimizer("adam", [x]), "adam\\(rate\\)"),
            (lambda: ad.set_optimizer(adam(0.1), []), "needs parameters"),
            (lambda: ad.set_optimizer(adam(0.1), [picture]), "is computed"),
            (lambda: ad.set_optimizer(adam(0.1), ["x"]), "leaf Variables"),
            (lambda: ad.set_optimizer(adam(0.1), [x, x]), "given twice"),
            (lambda: ad.set_optimizer(None, [x]), "without an optimizer"),
            (lambda: ad.set_output("loss", x), "name of the loss"),
            (lambda: ad.set_output(3, x), "a name and a Variable"),
            (lambda: ad.set_output("x", 3.0), "a name and a Variable"),
            (lambda: ad.recv("nothing"), "no output 'nothing'; there are: none"),
            (lambda: ad.recv(3), "can be read"),
            (lambda: ad.recv(Variable(FLOAT, name="empty")), "nothing was ever sent to FLOAT empty"),
            (lambda: adam("a"), "learning rate .*not 'a'"),
            (lambda: adam(float("nan")), "learning rate"),
            (lambda: sgd(None), "learning rate .*not None"),
            (lambda: sgd(0.1, momentum="x"), "momentum"),
            (lambda: adam(0.1, betas=(0.9,)), "betas"),
            (lambda: adam(0.1, betas=(0.9, "b")), "betas"),
            (lambda: adam(0.1, eps=-1.0), "eps"),
            (lambda: adam(x), "learning rate"),
        ]
        for call, words in cases:
            with pytest.raises(GraphError, match=words):
                call()
        ad.set_loss(loss)
        for wrong in (unused, offset):
            other = held if wrong is unused else F.mean(F.length(x))
            ad.set_optimizer(None)
            ad.set_loss(other)
            with pytest.raises(GraphError, match=f"does not depend on FLOAT {wrong.name}"):
                ad.set_optimizer(adam(0.1), [wrong])
        ad.set_loss(loss)
        ad.set_optimizer(adam(0.1), [x, offset])
        with pytest.raises(GraphError, match="does not depend on VEC3 x"):
            ad.set_loss(held)
        for n in (-1, 2.5, "3", None):
            with pytest.raises(GraphError, match="number of steps"):
                ad.step(n)
        ad.step(np.int64(2))
        with pytest.raises(GraphError, match="not part of this program"):
            ad.send(unused, 1.0)
        with pytest.raises(GraphError, match="is computed"):
            ad.send(picture, 1.0)
        with pytest.raises(GraphError, match="to leaf Variables"):
            ad.send("x", 1.0)
        assert len(ad.losses()) == 2
    assert len(ad.losses()) == 2
    with pytest.raises(InputError, match="closed"):
        ad.recv(x)


def test_numbers_that_do_not_fit_are_refused():
    cases = [
        (lambda: Variable(FLOAT, (4.7, 2)), "width of a size.*4.7"),
        (lambda: Variable(FLOAT, 3), r"is \(width, height\)"),
        (lambda: Variable(FLOAT, batch=1.5), "a batch.*1.5"),
        (lambda: Variable(FLOAT, batch=0), "at least 1"),
        (lambda: Variable("float"), "type of a Variable"),
        (lambda: Variable(INT, (2, 1), data=[[[0, 2**31]]]), "32 bits; 2147483648"),
        (lambda: Variable(INT, (2, 1), data=[[[0.5, 1]]]), "holds integers"),
        (lambda: Variable(FLOAT, data=1j), "real numbers"),
        (lambda: F.shift(Variable(FLOAT, (4, 4)), 1.5, 0), "shift.*1.5"),
        (lambda: F.crop(Variable(FLOAT, (4, 4)), 0, 0, (1.5, 1)), "width of a size"),
        (lambda: F.pad(Variable(FLOAT, (4, 4)), 0, 0, 0.5, 1), "padding"),
        (lambda: F.resize(Variable(FLOAT, (4, 4)), (2.2, 2)), "width of a size"),
        (lambda: F.expand(Variable(FLOAT), 2.5), "a batch"),
        (lambda: F.scatter_add(Variable(FLOAT), 0, (0, 1)), "at least 1"),
        (lambda: F.linear_index((2, 2), -1), "at least 1"),
        (lambda: F.window_max(Variable(FLOAT, (4, 4)), 1.5, "x"), "the radius"),
        (lambda: gradient("loss", []), "of a Variable"),
        (lambda: jvp([Variable(FLOAT)], [Variable(INT)], [None]), "tangent"),
    ]
    for call, words in cases:
        with pytest.raises(GraphError, match=words):
            call()
