"""Small dispatches in a row as phases of one: the bits of the plan without, whatever phases read of each other."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, VEC2, VEC3, VEC4, F, Variable, adam
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import Objective
from dressi.ad.optim.optimizer import Optimizer
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import adjacency, large_steps, list_leaf
from dressi.render.mesh.primitives import pear
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import BASELINE, DEFAULT
from dressi.vk.plan.core.substage import Joined
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP, LAVAPIPE
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor

APART = replace(DEFAULT, without=("join_dispatches", "run_side_by_side"))


def leaf(size=(1, 1), vtype=FLOAT, batch=1, name="x", seed=0) -> Variable:
    data = np.random.default_rng(seed).uniform(-1, 1, (batch, size[1], size[0], *vtype.shape))
    return Variable(vtype, size, batch, name=name, data=data)


def optimised(loss: Variable, parameter: Variable, optimizer: Optimizer | None = None) -> Program:
    objective = Objective()
    objective.set_loss(loss, True)
    objective.set_optimizer(optimizer or adam(0.01), [parameter], False)
    return simplify(objective.program())


def levels() -> Program:
    """A pyramid of two images down to a texel, and back: levels of different sizes, with a gradient."""
    x = leaf((32, 32), VEC2, 2)
    level, total = x, F.constant(0.0)
    while level.size != (1, 1):
        level = F.store(F.resize(F.sin(level), (level.size[0] // 2, level.size[1] // 2)))
        total = total + F.sum(F.dot(level, level))
    return optimised(total, x)


def solved() -> Program:
    """Rows of sparse matrices in parts, and the sums of these: many workgroups."""
    mesh = pear(48, 28)
    positions = list_leaf("positions", VEC3, mesh.positions)
    loss = F.mean(F.square(F.length(positions - list_leaf("target", VEC3, mesh.positions * 1.1))))
    return optimised(loss, positions, large_steps(adjacency(mesh.faces, len(mesh.positions)), 0.01))


def turned() -> Program:
    """What is read at other texels before it is overwritten, a scalar that all read, and channels of one image."""
    x, y = leaf((40, 3)), leaf((40, 3), seed=1, name="y")
    ends = F.store(F.flip(x, "x") * y), F.store(F.flip(y, "x") - x)
    mean = F.store(F.mean(ends[0] * 0.5 + ends[1]))
    new = x - 0.1 * F.flip(F.store(ends[0] + F.cos(ends[1])), "y") * mean
    return Program({"mean": mean, "one": ends[0]}, ((x, new), (y, y * 0.9 + mean)))


def beside() -> Program:
    """Values of several sizes and types that wait for nothing of each other, and overwrite what they read."""
    sizes = ((70, 90), VEC2, 2), ((9, 30), VEC3, 1), ((1, 1), FLOAT, 5), ((140, 120), VEC4, 1)
    leaves = [leaf(size, vtype, batch, seed=k, name=f"x{k}") for k, (size, vtype, batch) in enumerate(sizes)]
    news = [F.sin(F.store(F.flip(x, "x") * 1.5)) + x for x in leaves]
    return Program({"sum": F.sum(F.dot(leaves[0], leaves[0]))}, tuple(zip(leaves, news, strict=True)))


CASES = {"levels": levels, "solved": solved, "turned": turned, "beside": beside}


def joined(plan) -> list[Joined]:
    return [s.work for s in plan.sub_stages if isinstance(s.work, Joined)]


@pytest.mark.parametrize("name", CASES)
def test_joined_dispatches_have_the_bits_of_single_ones(device, name):
    program, found = CASES[name](), []
    for options in (DEFAULT, APART, replace(BASELINE, gather_at_lists=True)):
        with VulkanExecutor(program, device, options=options, cost=DATA_CENTRE) as run:
            works = joined(run.plan)
            assert bool(works) == (options is DEFAULT)
            if options is DEFAULT:
                assert any(work.pixels for work in works) == (name == "solved")
                assert any(work.beside for work in works) or name != "beside"
                assert len(run.plan.stages) < 0.9 * stages(program, device)
            run.run(3)
            found.append([run.recv(v) for v in (*program.outputs.values(), *run.plan.program.leaves)])
    for values, apart, baseline in zip(*found, strict=False):
        np.testing.assert_array_equal(values, apart)
        if name in ("turned", "beside"):
            np.testing.assert_array_equal(values, baseline)


def stages(program, device) -> int:
    return len(build_plan(program, device.limits, shader_text, APART, DATA_CENTRE).stages)


def test_dispatches_are_joined_where_that_is_faster():
    """On wide devices steps are predicted to take less; CPU drivers keep their plans."""
    for name, model in (("levels", DATA_CENTRE), ("solved", DATA_CENTRE), ("solved", DESKTOP)):
        program, limits = CASES[name](), profile("turing")
        plans = [build_plan(program, limits, shader_text, o, model) for o in (DEFAULT, APART)]
        own, apart = (predict(plan, model) for plan in plans)
        assert joined(plans[0]) and own.totals["seconds"] < 0.98 * apart.totals["seconds"]
        assert own.totals["launches"] < apart.totals["launches"]
        assert any(" > " in stage.name for stage in own.stages)
    for model in (CPU, LAVAPIPE):
        assert not joined(build_plan(levels(), profile("lavapipe"), shader_text, DEFAULT, model))
