"""Optimizers against the same formulas in NumPy; schedules; state."""

import math

import numpy as np
import pytest

from dressi import FLOAT, INT, MAT3, VEC3, F, GaussNewton, GraphError, Variable, gradient, optim
from dressi.ad.graph.evaluation import NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify

TARGET = 3.0


def parameter(vtype=VEC3, name="x", seed=0):
    v = Variable(vtype, (3, 2), name=name)
    v.data = np.random.default_rng(seed).normal(size=v.shape)
    return v


def loss_of(*parameters):
    return sum(
        (F.sum(F.sum_components(F.hadamard(p - TARGET, p - TARGET))) for p in parameters), F.constant(0.0)
    )


def run(optimizer, parameters, steps, sent=()):
    built = optimizer.build(parameters, gradient(loss_of(*parameters), parameters))
    program = simplify(Program({}, (*zip(parameters, built.parameters, strict=True), *built.updates)))
    program.check()
    executor = NumpyExecutor(program)
    for leaf, value in sent:
        executor.send(leaf, value)
    executor.run(steps)
    return executor, [executor.recv(p) for p in parameters]


def descend(x, steps, rule):
    for t in range(steps):
        x = x + rule(2 * (x - TARGET), t, x)
    return x


def adam_rule(rate, betas=(0.9, 0.999), eps=1e-8, second=lambda v, largest: v):
    """second: the second moment that divides, from the present one and the largest so far."""
    m = v = largest = 0.0

    def rule(g, t, x):
        nonlocal m, v, largest
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        largest = np.maximum(largest, v)
        root = np.sqrt(second(v, largest) / (1 - betas[1] ** (t + 1)))
        return -rate * m / (1 - betas[0] ** (t + 1)) / (root + eps)

    return rule


def uniform_rule(rate):
    """AdamUniform as its authors publish it: all components are divided by the largest root."""
    return adam_rule(rate, second=lambda v, largest: v.max())


def amsgrad_rule(rate, betas):
    return adam_rule(rate, betas, second=lambda v, largest: largest)


def adamw_rule(rate, decay):
    adam = adam_rule(rate)
    return lambda g, t, x: adam(g, t, x) - rate * decay * x


def momentum_rule(rate, decay, nesterov=False):
    m = 0.0

    def rule(g, t, x):
        nonlocal m
        m = decay * m + g
        return -rate * (g + decay * m if nesterov else m)

    return rule


RULES = {
    "sgd": (optim.sgd(0.1), lambda: lambda g, t, x: -0.1 * g),
    "momentum": (optim.sgd(0.02, 0.9), lambda: momentum_rule(0.02, 0.9)),
    "nesterov": (optim.sgd(0.02, 0.9, nesterov=True), lambda: momentum_rule(0.02, 0.9, True)),
    "adam": (optim.adam(0.1), lambda: adam_rule(0.1)),
    "adam with other betas": (optim.adam(0.1, (0.5, 0.9), 1e-3), lambda: adam_rule(0.1, (0.5, 0.9), 1e-3)),
    "adam without the first moment": (optim.adam(0.1, (0.0, 0.9)), lambda: adam_rule(0.1, (0.0, 0.9))),
    "adam with one scale": (optim.adam_uniform(0.1), lambda: uniform_rule(0.1)),
    "adam that never forgets": (optim.amsgrad(0.9, (0.5, 0.6)), lambda: amsgrad_rule(0.9, (0.5, 0.6))),
    "decoupled weight decay": (optim.adamw(0.1, 0.3), lambda: adamw_rule(0.1, 0.3)),
    "a schedule": (
        optim.sgd(optim.exponential(0.1, 0.5, 4)),
        lambda: lambda g, t, x: -0.1 * 0.5 ** (t / 4) * g,
    ),
    "weight decay": (
        optim.chain(optim.add_weight_decay(0.5), optim.scale(-0.1)),
        lambda: lambda g, t, x: -0.1 * (g + 0.5 * x),
    ),
    "clipped": (
        optim.chain(optim.clip_by_value(0.3), optim.scale_by_learning_rate(0.1)),
        lambda: lambda g, t, x: -0.1 * np.clip(g, -0.3, 0.3),
    ),
}


@pytest.mark.parametrize("vtype", [FLOAT, VEC3, MAT3])
@pytest.mark.parametrize(("optimizer", "rule"), RULES.values(), ids=RULES)
def test_optimizers_follow_their_formulas(optimizer, rule, vtype):
    x = parameter(vtype)
    _, (found,) = run(optimizer, [x], 12)
    assert np.allclose(found, descend(x.data, 12, rule()), rtol=1e-9)


def test_adam_finds_the_minimum():
    _, (found,) = run(optim.adam(optim.cosine(0.3, 0.0, 200)), [parameter()], 200)
    assert np.allclose(found, TARGET, atol=1e-2)


def test_the_rate_can_be_sent():
    x, rate = parameter(), Variable(FLOAT, name="rate", data=[[[0.5]]])
    _, (found,) = run(optim.sgd(rate), [x], 1, [(rate, [[[0.25]]])])
    assert np.allclose(found, x.data - 0.25 * 2 * (x.data - TARGET))


def test_every_parameter_can_have_its_own():
    x, y, z = parameter(name="x"), parameter(FLOAT, "y", 1), parameter(MAT3, "z", 2)
    own = optim.per_parameter({x: optim.adam(0.1), y: optim.sgd(0.05)}, default=optim.sgd(0.01, 0.5))
    executor, found = run(own, [x, y, z], 7)
    rules = [adam_rule(0.1), lambda g, t, x: -0.05 * g, momentum_rule(0.01, 0.5)]
    for p, value, rule in zip([x, y, z], found, rules, strict=True):
        assert np.allclose(value, descend(p.data, 7, rule))
    names = sorted(leaf.name for leaf in executor.program.leaves)
    assert names == ["step", "x", "x.adam_m", "x.adam_v", "y", "z", "z.momentum"]


def test_optimizers_can_be_nested_and_shared():
    x, y = parameter(name="x"), parameter(name="y", seed=1)
    shared = optim.chain(optim.clip_by_value(10.0), optim.adam(0.1))
    _, found = run(optim.per_parameter({x: shared, y: shared}), [x, y], 3)
    assert np.allclose(found[1], descend(y.data, 3, adam_rule(0.1)))


def test_the_step_is_counted_in_an_integer():
    executor, _ = run(optim.adam(0.1), [parameter()], 5)
    (step,) = (leaf for leaf in executor.program.leaves if leaf.name == "step")
    assert step.vtype is INT and executor.recv(step).item() == 5


@pytest.mark.parametrize("vtype", [FLOAT, VEC3, MAT3])
@pytest.mark.parametrize("optimizer", [optim.adam(0.0, (0.5, 0.25)), optim.sgd(0.0, 0.5)])
def test_moments_without_a_gradient_end_in_zero_not_in_subnormal_numbers(optimizer, vtype):
    x = parameter(vtype)
    x.data = np.full(x.shape, TARGET)
    built = optimizer.build([x], gradient(loss_of(x), [x]))
    executor = NumpyExecutor(simplify(Program({}, ((x, built.parameters[0]), *built.updates))))
    moments = [v for v in executor.program.leaves if v is not x and v.name != "step"]
    for v in moments:
        executor.send(v, np.ones(v.shape))
    for _ in range(150):
        executor.run(1)
        for v in moments:
            values = np.abs(executor.recv(v))
            assert ((values == 0) | (values >= np.finfo(np.float32).tiny)).all()
    assert moments and not any(executor.recv(v).any() for v in moments)


def test_one_can_go_on_from_a_saved_state():
    x = parameter()
    optimizer = optim.adam(0.1)
    state = optimizer.states([x])
    assert list(state) == ["x.adam_m", "x.adam_v", "step"]
    built = optimizer.build([x], gradient(loss_of(x), [x]), state)
    program = Program({}, ((x, built.parameters[0]), *built.updates))
    whole, first, second = (NumpyExecutor(program) for _ in range(3))
    whole.run(8)
    first.run(3)
    for leaf in program.leaves:
        second.send(leaf, first.recv(leaf))
    second.run(5)
    assert np.array_equal(whole.recv(x), second.recv(x))


SCHEDULES = {
    "constant": (optim.constant(0.5), lambda t: 0.5),
    "exponential": (optim.exponential(2.0, 0.5, 10), lambda t: 2.0 * 0.5 ** (t / 10)),
    "cosine": (optim.cosine(1.0, 0.2, 8), lambda t: 0.6 + 0.4 * math.cos(math.pi * min(t / 8, 1))),
    "piecewise": (
        optim.piecewise([(0, 1.0), (3, 0.5), (6, 0.1)]),
        lambda t: (1, 1, 1, 0.5, 0.5, 0.5, 0.1)[min(t, 6)],
    ),
    "linear": (optim.linear(1.0, 0.2, 4), lambda t: 1 - 0.2 * min(t, 4)),
    "warm-up": (optim.warm_up(0.8, 4), lambda t: 0.2 * min(t + 1, 4)),
    "warm-up of a schedule": (
        optim.warm_up(optim.exponential(2.0, 0.5, 3), 5),
        lambda t: 2.0 * 0.5 ** (t / 3) * min((t + 1) / 5, 1),
    ),
    "joined": (
        optim.joined([(2, optim.linear(0.0, 1.0, 4)), (6, optim.exponential(3.0, 0.5))]),
        lambda t: 3.0 * 0.5 ** (t - 6) if t >= 6 else max(t - 2, 0) / 4,
    ),
}


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES.values(), ids=SCHEDULES)
def test_schedules(schedule, expected):
    step = Variable(FLOAT)
    for t in range(12):
        assert np.isclose(evaluate([schedule(step)], {step: [[[t]]]})[0].item(), expected(t))


def test_the_numbers_of_schedules_can_be_data():
    step = Variable(FLOAT)
    a, b, n = (Variable(FLOAT, name=name) for name in "abn")
    made = {
        "exponential": (optim.exponential(a, b, n), lambda t, a, b, n: a * b ** (t / n)),
        "linear": (optim.linear(a, b, n), lambda t, a, b, n: a + (b - a) * min(t / n, 1)),
        "cosine": (
            optim.cosine(a, b, n),
            lambda t, a, b, n: (a + b) / 2 + (a - b) / 2 * math.cos(math.pi * min(t / n, 1)),
        ),
        "piecewise": (optim.piecewise([(0, a), (n, b)]), lambda t, a, b, n: a if t < n else b),
        "warm-up": (optim.warm_up(optim.constant(a), n), lambda t, a, b, n: a * min((t + 1) / n, 1)),
    }
    for schedule, expected in made.values():
        value = schedule(step)
        for numbers in ((0.5, 0.25, 4.0), (2.0, 0.75, 2.0)):
            sent = {v: [[[x]]] for v, x in zip((a, b, n), numbers, strict=True)}
            for t in range(6):
                found = evaluate([value], {step: [[[t]]], **sent})[0].item()
                assert np.isclose(found, expected(t, *numbers))


def test_a_weight_of_the_loss_can_follow_the_clock():
    x, counter = parameter(), optim.clock()
    weight = optim.rate_at(optim.linear(1.0, 0.0, 4), counter)
    optimizer = optim.Clocked(optim.sgd(0.1), counter)
    state = optimizer.states([x])
    assert state["step"] is counter
    built = optimizer.build([x], gradient(loss_of(x) * weight, [x]), state)
    executor = NumpyExecutor(Program({}, ((x, built.parameters[0]), *built.updates)))
    executor.run(6)
    expected = descend(x.data, 6, lambda g, t, x: -0.1 * g * max(1 - t / 4, 0))
    assert np.allclose(executor.recv(x), expected)


MAKERS = (optim.sgd, optim.adam, optim.adamw, optim.adam_uniform, optim.amsgrad, optim.scale_by_learning_rate)


RATES = (
    (-1.0, "at least 0, not -1"), (math.nan, ".* finite, not nan"), (True, ".* not True"),
    (Variable.of(-0.1), "at least 0, not -0.1"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: optim.sgd(0.1).build([x, x], [x, x]), "two parameters are called 'x'"),
        (lambda x: optim.sgd(0.1).build([x], []), "1 parameters but 0 gradients"),
        (lambda x: optim.sgd(0.1).build([Variable(INT)], [Variable(INT)]), "holds integers"),
        (
            lambda x: optim.sgd(x).build([x], [x]),
            "a number, a FLOAT Variable of one texel, or a schedule, not",
        ),
        (lambda x: optim.linear(1.0, 0.0, 0)(x), "number of steps of a schedule is above 0"),
        (lambda x: optim.per_parameter({}).build([x], [x]), "no optimizer for"),
        (lambda x: optim.per_parameter({x: optim.sgd(1)}).build([Variable(FLOAT)], [x]), "needs a name"),
        (lambda x: optim.chain(optim.trace(0.5), optim.trace(0.5)).build([x], [x]), "two parts"),
        (lambda x: optim.per_parameter({x: GaussNewton()}), "a least-squares solver moves all"),
        (lambda x: optim.per_parameter({}, default=optim.sgd), "a part of an optimizer is made by"),
        (lambda x: optim.Clocked(GaussNewton(), optim.clock()), "GaussNewton.counter=step"),
        (lambda x: optim.Clocked(optim.sgd(0.1), x), "made by optim.clock"),
        (lambda x: optim.adam(0.1, (1.0, 0.9)), "betas"),
        (lambda x: optim.piecewise([(5, 1.0), (2, 0.1)]), "rising"),
        (lambda x: optim.exponential(1.0, -1.0), "factor of an exponential schedule is above 0, not -1"),
        (lambda x: optim.warm_up(0.1, math.inf), "number of steps of a schedule is a number"),
        (lambda x: optim.cosine("1", 0.0, 4), "start of a schedule is a number"),
        (lambda x: optim.constant(math.nan), "value of a schedule is a number"),
        (lambda x: optim.piecewise([("0", 1.0)]), "first step of a piece is a number"),
        *(
            (lambda x, make=make, rate=rate: make(rate), f"a learning rate is {words}")
            for make in MAKERS
            for rate, words in RATES
        ),
        (
            lambda x: optim.adam(optim.constant(-0.5)).build([x], [x]),
            "what a schedule gives, a learning rate, is at least 0",
        ),
        (lambda x: optim.adamw(0.1, decay=-0.1), "a weight decay is at least 0, not -0.1"),
        (lambda x: optim.adamw(0.1, decay="0.1"), "a weight decay is a number"),
        (lambda x: optim.clip_by_value(0.0), "limit of a gradient is above 0, not 0"),
        (lambda x: optim.adam(0.1, eps=math.inf), "eps of adam is a finite"),
        (lambda x: optim.adam(0.1, (True, 0.9)), "betas"),
        (lambda x: optim.sgd(0.1, momentum=1.0), "a momentum lies in"),
        (lambda x: optim.trace(True), "a momentum lies in"),
    ],
)
def test_mistakes_are_named(build, message):
    with pytest.raises(GraphError, match=message):
        build(parameter())
