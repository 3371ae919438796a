"""What several values are made of is stored instead of them, where that is less."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, IVEC2, VEC2, VEC3, F, Variable, gradient
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import profile
from dressi.vk.plan.options import DEFAULT
from dressi.vk.plan.plan import Plan
from dressi.vk.plan.substage import SubStage
from dressi.vk.run.executor import VulkanExecutor

SIZE = (64, 48)


def planned(program: Program) -> Plan:
    return build_plan(simplify(program), profile("desktop"), shader_text)


def between(sub_stages: list[SubStage]) -> list[Variable]:
    """Images of full size that one of them leaves to another."""
    made = {v for s in sub_stages for v in s.outputs}
    read = {r.variable for s in sub_stages for r in s.reads}
    return sorted((v for v in made & read if v.size == SIZE), key=lambda v: v.id)


def sampled(wrap: str = "repeat", texels: int = 64) -> Program:
    texture = Variable(VEC3, (texels, texels), name="texture")
    uv, target = Variable(VEC2, SIZE, name="uv"), Variable(VEC3, SIZE, name="target")
    seen = F.sample(texture, F.sin(F.sin(uv)) * 3.0, wrap=wrap)
    (slope,) = gradient(F.sum(F.dot(seen - target, seen - target)), [texture])
    return Program({}, ((texture, texture - 0.1 * slope),))


def test_of_texture_coordinates_that_stay_texels_and_weights_are_made_again():
    """Four texels and four weights follow from two floats."""
    plan = planned(sampled())
    assert [v.vtype for v in plan.kept if v.size == SIZE] == [VEC2]


def test_the_gradient_of_a_blend_is_stored_once():
    """Of those by both of its ends, each a product with a weight, which are scattered once they are bounded."""
    assert [v.vtype for v in between(planned(sampled(texels=1024)).step.sub_stages)] == [VEC3]


def test_what_is_read_by_name_keeps_its_image():
    """Also in the middle of what is made again."""
    program = sampled()
    texels = [f.output for f in program.functions if f.output.vtype is IVEC2]
    named = {f"texel {k}": v for k, v in enumerate(texels)}
    plan = planned(Program(named, program.updates))
    written = {v for s in plan.sub_stages for v in s.outputs}
    assert {v for v in plan.program.outputs.values() if v.creator.inputs} <= written


def test_one_plane_is_not_stored_for_another():
    uv = Variable(VEC2, SIZE, name="uv")
    table = Variable(FLOAT, (40, 1), name="table", data=np.zeros((1, 1, 40)))
    kept = F.floor(F.sin(uv.x * uv.y) * 40.0)  # the same bytes as the sine, and done already
    plan = planned(Program({}, ((table, table + F.sum(kept * F.lookup(table, F.to_int(kept)))),)))
    assert [v for v in plan.kept if v.size == SIZE] == [kept]


@pytest.mark.one_driver
def test_the_numbers_are_the_same(device):
    """Against plans that store what is read, bit for bit."""
    random = np.random.default_rng(3)
    for program in (sampled(), sampled("clamp")):
        data = {v: random.random(v.shape) for v in program.leaves}
        results = []
        for again in (True, False):
            with VulkanExecutor(
                program, device, options=replace(DEFAULT, rematerialize=again, store_operands=again)
            ) as run:
                for v, values in data.items():
                    run.send(v, values)
                run.run(3)
                results.append([run.recv(leaf).tobytes() for leaf, _ in program.updates])
        assert results[0] == results[1]
