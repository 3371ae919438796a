"""Copies before a step: makers of new values read old ones, and nothing is copied at the end."""

from dataclasses import replace

import numpy as np

from dressi import FLOAT, INT, VEC3, F, Variable
from dressi.ad.evaluate import NumpyExecutor
from dressi.ad.program import Program
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import profile
from dressi.vk.plan.options import DEFAULT
from dressi.vk.plan.sync.commands import Part
from dressi.vk.run.executor import VulkanExecutor

WITHOUT = replace(DEFAULT, copy_leaves_first=False)


def moving() -> Program:
    """All three leaves are overwritten by what reads other texels of them: an image, a counter that every pixel reads, and
    a table that a scatter adds to."""
    rng = np.random.default_rng(0)
    x = Variable(VEC3, (6, 5), 2, name="x", data=rng.uniform(0.1, 0.9, (2, 5, 6, 3)))
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    table = Variable(FLOAT, (4, 1), name="table", data=rng.uniform(0.1, 0.9, (1, 1, 4)))
    total = F.sum(F.square(x.y))
    rate = 1.0 / (2.0 + F.to_float(count))
    hits = F.scatter_add(x.x * total * 0.01, F.to_int(F.clamp(4.0 * x.z, 0.0, 3.0)), (4, 1), bound=1.0)
    grown = F.shift(table, 1, 0) * 0.9 + F.sum(hits, "n") * rate
    moved = F.shift(x, 1, 0) * 0.5 + F.sum(grown) * rate * 0.01
    return Program({"total": total}, ((x, moved), (count, count + 1), (table, grown)))


def test_leaves_that_are_read_elsewhere_are_overwritten_in_place(device):
    program = moving()
    oracle = NumpyExecutor(program)
    oracle.run(3)
    found = {}
    for options in (DEFAULT, WITHOUT):
        with config(check=True), VulkanExecutor(program, device, options=options) as run:
            for n in (1, 2):  # steps of one submission follow each other
                run.run(n)
            found[options] = [run.recv(v) for v in (*program.outputs.values(), *program.leaves)]
            assert bool(run.plan.step.copies) == (options is WITHOUT)
    for v, first, second in zip((*program.outputs.values(), *program.leaves), *found.values(), strict=True):
        assert np.array_equal(first, second)
        assert np.allclose(first, oracle.recv(v), rtol=2e-5, atol=2e-6)


def test_a_step_has_a_barrier_less():
    program = moving()
    program = replace(program, updates=tuple(pair for pair in program.updates if pair[0].name != "count"))
    plan, without = (build_plan(program, profile("desktop"), shader_text, o) for o in (DEFAULT, WITHOUT))
    assert {leaf for _, leaf in plan.step.saved} == {leaf for leaf, _ in without.step.copies}
    assert len(plan.levels) == len(without.levels) - 1
    assert {c.part for c in plan.levels[0].commands} >= {Part.SAVE}
    # The barrier behind the copies costs as much as that before them where the maker waits for nothing.
    count = next(v for v in program.leaves if v.name == "count")
    alone = build_plan(Program({}, ((count, count + 1),)), profile("desktop"), shader_text)
    assert not alone.step.saved


def test_a_gated_step_copies_nothing_at_its_end():
    """Without a gate the copy at the end costs as much."""
    x = Variable(FLOAT, (1, 1), 3, name="x", data=np.ones((3, 1, 1)))
    wide = F.sum(F.square(F.expand(x, 3, (9, 7)) - 2.0), "xy")  # reads x at texel (0, 0) of any texel
    program = Program({}, ((x, x - 0.01 * wide),))
    for gated in (False, True):
        plan = build_plan(program, profile("desktop"), shader_text, gated=gated)
        assert bool(plan.step.copies) != gated
        assert bool(plan.step.saved) == gated
