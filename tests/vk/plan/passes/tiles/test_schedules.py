"""Schedules by hand: values on every driver, what a plan shows of them, and what does not fit."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, F, InputError, PlanError, PlanOptions, Variable, evaluate, gradient
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import MatrixShape, profile
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP
from dressi.vk.plan.model.schedules import (
    At,
    Bind,
    Pack,
    Reduce,
    Schedules,
    Shuffle,
    Split,
    SplitK,
    Stage,
    Tensorize,
    Unroll,
)
from dressi.vk.run.execution.executor import VulkanExecutor

OPTIONS = PlanOptions(cache_static=False)
ROUNDINGS = 30 * 2.0**-24  # of the largest value


def planes(n, c, height, width, seed=0) -> Variable:
    data = np.random.default_rng(seed).random((n, c, height, width)) - 0.5
    return Variable(FLOAT, (width, height), n, channels=c, data=data if c > 1 else data[:, 0])


def layer():
    return F.correlate(planes(1, 4, 20, 40), planes(8, 4, 3, 3, 1))


def product():
    return F.matmul(planes(1, 1, 40, 53), planes(1, 1, 53, 70, 1))


def halved():
    """A gradient, whose even and odd columns differ."""
    x, w = planes(1, 1, 20, 40), planes(1, 1, 3, 5, 1)
    y = F.correlate(x, w, stride=(2, 1))
    (slope,) = gradient(y, [x], planes(1, 1, y.size[1], y.size[0], 2))
    return slope


def long():
    return F.matmul(planes(1, 1, 3, 3000), planes(1, 1, 3000, 20, 1))


TILED = {
    "a tile": (layer, Bind("x", 16), Unroll("y", 4), Unroll("c", 2), Unroll("r1", 3)),
    "lanes along rows": (layer, Bind("y", 8), Unroll("x", 4), Unroll("r2", 3)),
    "a tile along lanes": (layer, Bind("x", 8), Unroll("x", 3), Unroll("r0", 2)),
    "shuffles": (layer, Bind("x", 16), Unroll("c", 8), Unroll("r1", 3), Unroll("r2", 3), Shuffle(4)),
    "packed": (layer, Bind("x", 16), Unroll("c", 8), Unroll("r0", 4), Pack(0, "c"), Pack(1, "n")),
    "packed, one after the other": (layer, Bind("x", 16), Unroll("c", 2), Pack(1, "c"), Pack(0, "c")),
    "strides": (halved, Split("x", 2), Bind("x0", 16), Unroll("x1", 2), Unroll("r2", 3)),
    "parts": (long, SplitK(100), Bind("x1", 16), Unroll("y", 3)),
    "trees": (long, SplitK(47, 64), Reduce("x1", 64), Unroll("y", 3)),
    "a product": (product, Bind("x", 64), Tensorize("y", "x", 32, 32, 16, MatrixShape(4, 4, 1, 1))),
    "a staged image": (layer, Bind("x", 64), Unroll("y", 2), Unroll("r2", 3), Stage(0)),
    "plain": (layer,),
}


def planned(made: dict[str, Variable], schedules, limits="desktop", model=DESKTOP, **options):
    with config(check=True):
        return build_plan(
            Program(made),
            profile(limits),
            shader_text,
            replace(OPTIONS, schedules=schedules, **options),
            model,
        )


@pytest.mark.parametrize("model", [CPU, DESKTOP], ids=lambda m: m.name)
@pytest.mark.parametrize("case", TILED)
@pytest.mark.second_driver("shuffles-cpu", "a product-desktop", "trees-cpu", "a staged image-desktop")
def test_values(device, case, model):
    make, *rows = TILED[case]
    y = make()
    if any(isinstance(row, Shuffle) and row.lanes > device.limits.subgroup for row in rows):
        pytest.skip("the subgroups of the device are smaller")
    options = replace(OPTIONS, schedules={y: rows})
    with config(check=True), VulkanExecutor(Program({"y": y}), device, options=options, cost=model) as run:
        assert run.plan.schedule[y] == tuple(rows)
        run.run()
        run.wait()
        expected = evaluate(y)
        assert (
            np.abs(run.recv(y).reshape(expected.shape) - expected).max() < ROUNDINGS * np.abs(expected).max()
        )


@pytest.mark.parametrize("shared", [False, True], ids=["registers", "shared memory"])
@pytest.mark.second_driver("shared memory")
def test_a_chain(device, shared):
    """Two equal kernels, of which the first has rows of its own."""
    w = planes(1, 1, 3, 3, 1)
    inner = F.max(F.correlate(planes(1, 1, 20, 70), w), 0.0)
    first, last = inner.creator.inputs[0], F.correlate(inner, w)
    given = {first: (Bind("x", 64), At(shared=shared)), last: (Bind("x", 64), Unroll("y", 2))}
    if not shared:
        given[first] = (Bind("x", 64), Unroll("r0", 3), Unroll("r1", 3), At())
    options = replace(OPTIONS, schedules=given)
    with config(check=True), VulkanExecutor(Program({"y": last}), device, options=options, cost=CPU) as run:
        assert len(run.plan.sub_stages) == 1
        assert [run.plan.schedule[v] for v in given] == list(given.values())
        run.run()
        run.wait()
        expected = evaluate(last)
        assert np.abs(run.recv(last).reshape(expected.shape) - expected).max() < ROUNDINGS


def network() -> dict[str, Variable]:
    x, first, second = planes(2, 3, 64, 64), planes(8, 3, 3, 3, 1), planes(4, 8, 3, 3, 2)
    hidden = F.max(F.correlate(x, first) + planes(1, 8, 1, 1, 3), 0.0)
    loss = F.mean(F.square(F.correlate(hidden, second)))
    gradients = gradient(loss, [x, first, second])
    return {"loss": loss, **{f"by {k}": g for k, g in enumerate(gradients)}}


def residuals() -> dict[str, Variable]:
    x, w = Variable(FLOAT, (2560, 1600)), Variable(FLOAT, (3, 5))
    return {"slope": gradient(F.sum(F.square(F.convolve(x, w))), [x])[0]}


def kernels() -> dict[str, Variable]:
    y, w = Variable(FLOAT, (512, 512)), Variable(FLOAT, (5, 5))
    for _ in range(4):
        y = F.correlate(y, w)
    return {"y": y, "product": F.matmul(Variable(FLOAT, (512, 512)), Variable(FLOAT, (512, 512)))}


@pytest.mark.parametrize("model", [CPU, DESKTOP, DATA_CENTRE], ids=lambda m: m.name)
@pytest.mark.parametrize("make", [network, residuals, kernels])
def test_what_a_plan_shows_can_be_given(make, model):
    """The same rows by hand give the same shaders; a change shows in the plan."""
    made = make()
    plan = planned(made, {}, model=model)
    assert len(plan.schedule) > 1 and str(plan.schedule) in str(plan.schedule)
    again = planned(made, plan.schedule, model=model)
    assert again.key == plan.key and again.schedule == plan.schedule
    assert planned(made, dict.fromkeys(plan.schedule, ())).key != plan.key


def test_rows_are_printed_with_the_plan():
    y = layer()
    text = str(planned({"y": y}, {y: TILED["a tile"][1:]}))
    assert "Bind(axis='x', lanes=16)" in text and "Unroll(axis='y', factor=4)" in text


SHAPE = MatrixShape(4, 4, 1, 1)


@pytest.mark.parametrize(
    ("make", "rows", "reason"),
    [
        (layer, [Unroll("y", 4)], "Bind or Reduce is missing"),
        (layer, [Bind("z", 16)], "Bind(axis='z', lanes=16).*its axes are n, c, y, x, r0, r1, r2"),
        (layer, [Bind("r0", 16)], "only parallel axes are bound"),
        (layer, [Bind("x", 16), Bind("y", 16)], "Bind(axis='y', lanes=16).*bound already"),
        (layer, [Bind("x", 4096)], "a workgroup of the device has"),
        (layer, [Bind("x", 16), Unroll("c", 9)], "Unroll(axis='c', factor=9).*8 entries"),
        (layer, [Bind("x", 16), Unroll("r1", 2)], "does not divide the 3 terms"),
        (layer, [Bind("x", 16), Unroll("y", 2), Unroll("y", 2)], "unrolled already"),
        (layer, [Bind("x", 16), Shuffle(64)], "subgroups of the device"),
        (layer, [Bind("x", 16), Pack(0, "x")], "Pack(operand=0, axis='x').*no axis by itself"),
        (layer, [Bind("x", 16), Pack(2, "x")], "there are 2 operands"),
        (layer, [Bind("x", 16), Stage(2)], "there are 2 operands"),
        (layer, [Bind("x", 16), At()], "At(shared=False).*other readers"),
        (layer, [Bind("x", 64), Unroll("y", 16), Stage(0)], "Stage(operand=0).*bytes"),
        (layer, [Split("x", 3), Bind("x0", 16)], "3 has to divide the extent 40"),
        (layer, [Reduce("x", 16)], "after a SplitK"),
        (long, [SplitK(5000), Bind("x", 16)], "has no parts of 5000"),
        (long, [SplitK(47, 64), Bind("x1", 64)], "added up by Reduce"),
        (long, [SplitK(24, 128), Reduce("x1", 128), Unroll("y", 3), Unroll("x0", 20)], "bytes of shared memory"),
        (product, [Bind("x", 32), Tensorize("y", "x", 32, 32, 16, SHAPE)], "there are 32 invocations"),
        (product, [Bind("x", 64), Tensorize("y", "y", 32, 32, 16, SHAPE)], "one operand each"),
        (product, [Bind("x", 64), Tensorize("y", "x", 30, 32, 16, SHAPE)], "divides rows"),
        (product, [Bind("x", 64), Tensorize("y", "x", 32, 32, 256, SHAPE)], "bytes of shared memory"),
        (product, [Bind("x", 64), Tensorize("y", "x", 64, 64, 32, MatrixShape(16, 16, 16, 32))], "units"),
        (halved, [Bind("x", 64), Tensorize("y", "x", 32, 32, 16, SHAPE)], "no sum of products"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_why(make, rows, reason):
    y = make()
    pattern = reason.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(PlanError, match=pattern):
        planned({"y": y}, {y: rows})


def test_what_is_no_schedule_is_refused():
    y = layer()
    with pytest.raises(InputError, match="no contraction"):
        PlanOptions(schedules={y + 1.0: ()})
    with pytest.raises(InputError, match="no row"):
        PlanOptions(schedules={y: ("unroll",)})  # pyright: ignore
    with pytest.raises(InputError, match="mapping"):
        PlanOptions(schedules=[Bind("x", 16)])  # pyright: ignore
    assert Schedules.of({y: [Unroll("y", 2), Bind("x", 16)]})[y] == (Bind("x", 16), Unroll("y", 2))
