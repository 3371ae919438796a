"""What users say about storing: a plan does so, and values stay the same."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.model.records import CPU, DESKTOP


def blurred(hint, function):
    x = Variable(FLOAT, (64, 64))
    y = hint(function(x))
    return x, F.shift(y, 1, 0) + F.shift(y, 0, 2) + F.shift(y, -3, 0)


@pytest.mark.parametrize("model", [CPU, DESKTOP], ids=["cpu", "desktop"])
@pytest.mark.parametrize("function", [lambda x: x + 1.0, lambda x: F.sin(F.exp(F.sqrt(F.log(F.exp(x)))))])
def test_a_plan_follows_the_hints(function, model):
    def sub_stages(hint):
        _, y = blurred(hint, function)
        plan = build_plan(simplify(Program({"y": y})), DeviceLimits(), lambda name: "", cost=model)
        return len(plan.sub_stages)

    assert (sub_stages(F.store), sub_stages(F.recompute)) == (2, 1)


@pytest.mark.parametrize("hint", [F.store, F.recompute])
def test_hints_change_no_value(hint):
    values = np.random.default_rng(0).normal(size=(64, 64))
    found = []
    for h in (hint, lambda x: x):
        x, y = blurred(h, F.sin)
        found.append(evaluate([y, *gradient(F.sum(F.square(y)), [x])], {x: values}))
    assert all((a == b).all() for a, b in zip(*found, strict=True))
