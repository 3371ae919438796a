"""Textures read by the device's sampler: where it is chosen, and what it reads."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import F, Variable, gradient
from dressi.ad.evaluate import NumpyExecutor
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT, MAT3, VEC2, VEC3
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED, profile
from dressi.vk.plan.lowering.samplers import HardwareSample
from dressi.vk.plan.model.records import RECORDS
from dressi.vk.plan.options import DEFAULT
from dressi.vk.run.executor import VulkanExecutor
from dressi.vk.run.measure.sampling import sampler_errors, willing

SIZE = (24, 16)
WITHOUT = replace(DEFAULT, sample_in_hardware=False)


def leaf(vtype, size, name, spread=1.0):
    values = np.random.default_rng(len(name)).uniform(-spread, spread, (1, size[1], size[0], *vtype.shape))
    return Variable(vtype, size, name=name, data=values.astype(np.float32))


def one(**how) -> Program:
    texture, uv = leaf(VEC3, (7, 5), "texture"), leaf(VEC2, SIZE, "places", 2.5)
    return simplify(Program({"seen": F.sample(texture, uv, **how)}, ()))


def samplers(program, model, limits=UNBOUNDED, options=DEFAULT):
    plan = build_plan(program, limits, shader_text, options, model)
    return [str(f.sampler) for f in plan.program.functions if isinstance(f, HardwareSample)]


@pytest.mark.parametrize("name", RECORDS)
def test_the_sampler_is_used_where_it_is_exact_enough_and_faster(name):
    rounding = RECORDS[name]
    exact = replace(rounding, bilinear_error=1e-6, nearest_error=1e-6)
    slow = replace(exact, filter_rate=exact.fetch_rate / 1000)
    assert samplers(one(), rounding) == []
    assert samplers(one(tolerance=0.01), rounding) == ["bilinear_repeat"]
    assert samplers(one(wrap="clamp"), exact) == ["bilinear_clamp"]
    as_fast = replace(exact, filter_rate=exact.fetch_rate)
    assert samplers(one(filter="nearest"), as_fast) == ["nearest_repeat"]
    assert samplers(one(), exact, options=WITHOUT) == samplers(one(tolerance=0), exact) == []
    assert samplers(one(), slow) == []
    assert samplers(one(), exact, profile("minimum")) == []  # it filters no 32-bit floats


def test_texels_that_a_derivative_needs_are_not_read_twice():
    texture, uv = leaf(FLOAT, (7, 5), "texture"), leaf(VEC2, SIZE, "places")
    seen = F.sample(texture, uv)
    exact = replace(RECORDS["desktop"], bilinear_error=1e-6)
    loss = F.sum(F.square(seen))
    by_texture, by_place = (
        simplify(Program({"g": gradient(loss, [v])[0], "loss": loss}, ())) for v in (texture, uv)
    )
    assert samplers(by_texture, exact) == ["bilinear_repeat"]
    assert samplers(by_place, replace(exact, filter_rate=2e11)) == []


def scenes() -> Program:
    """All filters and wraps, types of one to nine components, a texture that a pass makes, and gradients."""
    uv, step = leaf(VEC2, SIZE, "places", 2.5), Variable(FLOAT, name="step", data=np.ones((1, 1, 1)))
    found = {}
    for vtype in (FLOAT, VEC3, MAT3):
        texture = leaf(vtype, (7, 5), f"texture of {vtype}")
        made = F.sin(texture * step) + texture
        for filter in ("bilinear", "nearest"):
            for wrap in ("repeat", "clamp"):
                found[f"{vtype} {filter} {wrap}"] = F.sample(made, uv * 1.1 + 0.013, filter, wrap)
    seen = F.sample(texture := leaf(VEC3, (7, 5), "shown"), uv)
    found["gradient"], found["by place"] = gradient(F.sum(F.dot(seen, seen) * step), [texture, uv])
    return simplify(Program(found, ((step, step * 0.9),)))


@pytest.mark.vk
def test_values(device):
    """Of every record, with a sampler that is called exact; its error is measured beside."""
    program = scenes()
    exact = NumpyExecutor(program)
    exact.run(2)
    assert max(sampler_errors(device, RECORDS["cpu"]).values()) < 1e-5
    for model in RECORDS.values():
        with VulkanExecutor(program, device, cost=willing(model)) as run:
            run.run(2)
            assert len({f.sampler for s in run.plan.sub_stages for f in s.body} - {None}) == 4
            for name, v in program.outputs.items():
                assert np.abs(run.recv(v) - exact.recv(v)).max() < 1e-4, f"{model.name}: {name}"
