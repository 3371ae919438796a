"""Fused multiply-adds: what stays precise, and how far results are off."""

from dataclasses import replace

import numpy as np

from dressi import VEC2, VEC3, VEC4, F, Variable, gradient
from dressi.ad.evaluate import NumpyExecutor
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED
from dressi.vk.plan.model.records import CPU, RECORDS
from dressi.vk.plan.options import DEFAULT
from dressi.vk.plan.passes import precision as contraction
from dressi.vk.run.executor import VulkanExecutor

CONTRACTED = replace(DEFAULT, contract_operations=True)
SIZE = (48, 32)


def leaf(vtype, size, name):
    values = np.random.default_rng(len(name)).uniform(-1, 1, (1, size[1], size[0], *vtype.shape))
    return Variable(vtype, size, name=name, data=values.astype(np.float32))


def mixed() -> Program:
    """A position, a mask, a texel and the branch of a selection, and a smooth loss with its gradient."""
    image, uv = leaf(VEC3, SIZE, "image"), leaf(VEC2, SIZE, "places")
    corners = Variable.of([[-0.713, -9.0, 0.1, 1.0], [-0.713, 9.0, 0.1, 1.0], [20.0, 0.0, 0.1, 1.0]], VEC4)
    step = Variable.of(1.0, name="step")
    moved = corners * (step * 0.5 + 0.5) + 0.0
    covered = F.greater_equal(F.rasterize(moved, size=SIZE), 0)
    texel = F.floor(uv * 5.0 + 0.37) * 0.1
    inside = F.less(image.x * image.y + 0.125, image.z)
    smooth = F.dot(image, F.sin(image * 2.0 + 0.3)) * step + image.x * image.y
    shown = F.select(inside, smooth, texel.x) * F.to_float(covered)
    (slope,) = gradient(F.sum(F.square(smooth - 0.3)), [image])
    updates = ((image, image - slope * 0.01), (step, step * 0.9))
    return simplify(Program({"shown": shown, "slope": slope}, updates))


def test_what_tests_depend_on_stays_precise():
    program = mixed()
    tested = contraction.tested_values(program.functions)
    names = {type(f).__name__ for f in program.functions if f.output in tested}
    assert {"Mul", "Add"} <= names
    plan = build_plan(program, UNBOUNDED, shader_text, CONTRACTED, CPU)
    contracted = {f for s in plan.sub_stages for f in s.contracted}
    assert contracted and not any(f.output in tested or f.zero_derivative for f in contracted)
    free = {type(f).__name__ for f in contracted}
    assert {"Sin", "Mul", "Dot"} <= free and free.isdisjoint({"Floor", "Less", "Rasterize"})
    default = build_plan(program, UNBOUNDED, shader_text, DEFAULT, CPU)
    assert not any(s.contracted for s in default.sub_stages)

    def said(plan):
        return sum(text.count("precise ") for made in plan.shaders.values() for text in made.sources.values())

    assert 0 < said(plan) < said(default)


def test_values(device):
    """Of every record: rounding once instead of twice is off by a few units in the last place."""
    program = mixed()
    exact = NumpyExecutor(program)
    exact.run(2)
    for model in RECORDS.values():
        with VulkanExecutor(program, device, cost=model, options=CONTRACTED) as run:
            run.run(2)
            assert any(s.contracted for s in run.plan.sub_stages)
            for name, v in program.outputs.items():
                value = exact.recv(v)
                assert np.abs(run.recv(v) - value).max() < 1e-5 * np.abs(value).max(), f"{model.name}: {name}"
