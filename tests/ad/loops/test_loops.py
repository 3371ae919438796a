"""Loops equal their body written out; gradients equal, whatever is computed again, and meet differences."""

import numpy as np
import pytest

from dressi import FLOAT, VEC2, F, GraphError, Variable, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.loops.loop import After, Recomputed, longest_loop, with_checkpoints, written_out
from dressi.ad.loops.parts import Schedule
from dressi.ad.transform.simplify import simplify


def leaf(size=(6, 5), vtype=FLOAT, seed=0) -> Variable:
    x = Variable(vtype, size)
    x.data = x.conform(np.random.default_rng(seed).uniform(0.2, 0.9, x.shape))
    return x


def pendulum(weight: Variable):
    """Two states that read each other, a captured weight, and a read of other texels."""

    def body(place, speed):
        speed = speed - 0.3 * F.sin(place) * weight + 0.05 * F.shift(place, 1, 0)
        return place + 0.2 * speed, speed

    return body


@pytest.mark.parametrize("checkpoints", [None, 0, 1, 2, 7])
def test_a_loop_is_its_body_written_out(checkpoints):
    place, speed, weight = leaf(seed=1), leaf(seed=2), leaf((1, 1), seed=3)
    scaled = F.exp(weight)
    a, b = F.loop(pendulum(scaled), [place, speed], 7, checkpoints=checkpoints)
    c, d = place, speed
    for _ in range(7):
        c, d = pendulum(scaled)(c, d)
    wrt, losses = [place, speed, weight], [F.sum(a * b + b), F.sum(c * d + d)]
    assert np.allclose(evaluate([a])[0], evaluate([c])[0], rtol=1e-12)
    for mine, plain in zip(*(evaluate(gradient(loss, wrt)) for loss in losses), strict=True):
        assert np.allclose(mine, plain, rtol=1e-10)
    assert check_gradient(a * b, wrt) < 1e-6


def test_checkpoints_are_computed_again_after_what_needs_them():
    x = leaf()

    def backward(checkpoints):
        y = F.loop(lambda v: F.sin(v) + F.shift(v, 1, 0), x, 9, checkpoints=checkpoints)
        return simplify(Program({"g": written_out(gradient(F.sum(y), [x]))[0]}))

    program, stored = backward(3), backward(None)
    kinds = [type(f) for f in program.functions]
    assert kinds.count(After) == 2 and Recomputed not in kinds
    assert len(program.functions) > len(stored.functions) + 6  # two parts of three sines and shifts


def test_loops_can_be_laid_out_with_other_checkpoints():
    x, weight = leaf(seed=1), leaf((1, 1), seed=3)
    first = F.loop(lambda v: F.sin(v) + weight * F.shift(v, 1, 0), x, 9)
    scale = F.exp(first)  # the second loop reads what follows from the first
    loss = F.sum(F.loop(lambda v: F.cos(v * scale), first, 5) * first)
    other = with_checkpoints(loss, 3)
    assert longest_loop([loss]) == 9 and longest_loop([other]) == 0
    graphs = [written_out(gradient(y, [x, weight])) for y in (loss, other)]
    for mine, plain in zip(*map(evaluate, graphs), strict=True):
        assert np.allclose(mine, plain, rtol=1e-12)
    after = [type(f) for f in simplify(Program({"g": graphs[1][0]})).functions].count(After)
    assert after >= 4  # two parts of each loop are computed again


def test_second_derivatives_pass_through_checkpoints():
    x = leaf((2, 2))
    y = F.checkpoint(lambda v: F.checkpoint(F.sin, v * v) * v, x)
    (g,) = gradient(F.sum(y), [x])
    assert check_gradient(g * g, [x]) < 1e-6


def test_a_loop_stays_where_its_condition_is_met():
    values = np.array([2.0, 9.0, 30.0, 0.5, 1.0])
    a = Variable.of(values)
    steps = F.zeros_like(a)
    body, until = lambda x, n: (0.5 * (x + a / x), n + 1.0), lambda x, n: F.abs(x * x - a) < 1e-9
    root, steps = F.loop(body, [a, steps], 60, until=until)
    roots, counts, slopes = (v.ravel() for v in evaluate([root, steps, *gradient(F.sum(root), [a])]))
    assert np.allclose(roots, np.sqrt(values))
    assert counts[4] == 0 and 3 < counts[0] < counts[2] < 12
    assert np.allclose(slopes[:4], 0.5 / np.sqrt(values[:4]), rtol=1e-6)


def test_gradients_of_conjugate_gradients_are_the_implicit_ones():
    random = np.random.default_rng(4)
    root = random.normal(size=(20, 20))
    system = root @ root.T + 3 * np.eye(20)
    right, weight = random.normal(size=(2, 20, 1))
    a, b = Variable.of(system, FLOAT, name="a"), Variable.of(right, FLOAT, name="b")

    def step(x, r, p):
        q, energy = F.matmul(a, p), F.sum(r * r)
        rest = r - energy / F.sum(p * q) * q
        return x + energy / F.sum(p * q) * p, rest, rest + F.sum(rest * rest) / energy * p

    x = F.loop(step, [0.0 * b, b, b], 20, checkpoints=4)[0]
    found = evaluate(gradient(F.sum(x * Variable.of(weight, FLOAT)), [a, b]))
    solution, adjoint = np.linalg.solve(system, right), np.linalg.solve(system, weight)
    for mine, implicit in zip(found, (-adjoint @ solution.T, adjoint), strict=True):
        difference = mine[0] - implicit
        # Iterations know A by A p alone, and A is symmetric: its gradient is compared as that of a symmetric
        # matrix.
        both = difference if difference.shape[1] == 1 else difference + difference.T
        assert np.abs(both).max() < 1e-5 * np.abs(implicit).max()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: F.loop(lambda x: F.vec2(x, x), leaf(), 3), "stay the same"),
        (lambda: F.loop(lambda x, y: x, [leaf(), leaf()], 3), "returns 1 Variables for a state of 2"),
        (lambda: F.loop(lambda x, y: (x, 3.0), [leaf(), leaf()], 3), "returns Variables"),
        (lambda: F.loop(lambda x: x, leaf(vtype=VEC2), 0), "the count of a loop"),
        (lambda: F.loop(lambda x: x, leaf(), 3, checkpoints=-1), "checkpoints"),
        (lambda: F.loop(lambda x: x, leaf(), 3, until=lambda x: F.vec2(x, x)), "condition that ends a loop"),
        (
            lambda: F.loop(lambda k, x: x, leaf(), 3),
            r"1 argument, but a lambda takes \(k, x\); .* a counter .* state",
        ),
        (lambda: F.loop(F.maximum, leaf(), 3), r"1 argument, but maximum takes \(a.*, b.*\)"),
        (lambda: F.loop(lambda x: x, [leaf(), leaf()], 3), r"2 arguments, but a lambda takes \(x\)"),
        (lambda: F.loop(3, leaf(), 3), "the body of a loop is a function, not 3"),
        (lambda: F.loop(lambda: (), [], 3), "one Variable at least"),
        (lambda: F.loop(lambda x: x, leaf(), 3, until=lambda: 1), "condition .* gets 1 argument"),
        (lambda: F.checkpoint(lambda a, b: a, leaf()), "checkpoint gets 1 argument"),
    ],
)
def test_bad_input_is_named(make, words: str):
    with pytest.raises(GraphError, match=words):
        make()


@pytest.mark.parametrize("beside", [0, 1, 2])
def test_a_schedule_goes_back_over_all_iterations_within_its_states(beside):
    def walked(first, count, free):
        """Iterations that run, and how many states are kept at most; each gradient in turn is noted."""
        if count == 1:
            back.append(first)
            return min(beside, 1), 1
        ahead = schedule.ahead(count, free)
        run, most = walked(first + (ahead or 1), count - (ahead or 1), free - 1 - (0 if ahead else beside))
        if not ahead:
            back.append(first)
            return 1 + run, 1 + beside + most
        again, other = walked(first, ahead, free)
        return ahead + run + again, max(1 + most, other)

    fewest = {0: {3: 65, 6: 33, 9: 30}, 1: {3: 84, 6: 48, 9: 38}, 2: {3: 85, 6: 51, 9: 41}}
    for kept, wanted in fewest[beside].items():
        schedule, back = Schedule(20, kept, beside), []
        run, most = walked(0, 20, schedule.room)
        assert back == [*range(19, -1, -1)] and most <= kept
        assert run <= wanted
    assert walked(0, 20, Schedule(20, None, beside).room)[0] == 19 + min(beside, 1)
    # Long loops with much memory: a table for the whole walk, neither one a part nor deep recursion.
    assert 0 <= Schedule(1100, 1099, beside).ahead(1100, 1099) < 1100
