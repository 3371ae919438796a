"""Textures read by the device's sampler: where it is chosen, and what it reads."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, MAT3, VEC2, VEC3, F, Variable, gradient
from dressi.ad.evaluate import NumpyExecutor
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED, DeviceLimits, profile
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
    model, rounding = RECORDS[name], DeviceLimits(sub_texel_precision_bits=8)
    slow = replace(model, filter_rate=model.fetch_rate / 1000)
    assert samplers(one(), model, rounding) == samplers(one(tolerance=0.0078), model, rounding) == []
    assert samplers(one(tolerance=0.0079), model, rounding) == ["bilinear_repeat"]
    assert samplers(one(wrap="clamp"), model) == ["bilinear_clamp"]
    as_fast = replace(model, filter_rate=model.fetch_rate)
    assert samplers(one(filter="nearest"), as_fast) == []  # close to a border it may take the texel beside
    assert samplers(one(filter="nearest", tolerance=1), as_fast) == ["nearest_repeat"]
    assert samplers(one(), model, options=WITHOUT) == samplers(one(tolerance=0), model) == []
    assert samplers(one(), slow) == []
    assert samplers(one(tolerance=1), model, profile("minimum")) == []  # it filters no 32-bit floats


def test_texels_that_a_derivative_needs_are_not_read_twice():
    texture, uv = leaf(FLOAT, (7, 5), "texture"), leaf(VEC2, SIZE, "places")
    seen = F.sample(texture, uv)
    exact = RECORDS["desktop"]
    loss = F.sum(F.square(seen))
    by_texture, by_place = (
        simplify(Program({"g": gradient(loss, [v])[0], "loss": loss}, ())) for v in (texture, uv)
    )
    assert samplers(by_texture, exact) == ["bilinear_repeat"]
    assert samplers(by_place, replace(exact, filter_rate=2e11)) == []


def scenes() -> Program:
    """All filters and wraps, types of one to nine components, a texture that a pass makes, and gradients."""
    uv, step = leaf(VEC2, SIZE, "places", 2.5), Variable(FLOAT, name="step", data=np.ones((1, 1, 1)))
    found, anywhere = {}, uv * 1.1 + 0.013
    # Close to a border samplers may take the texel beside.
    places = {"bilinear": anywhere, "nearest": (F.floor(anywhere * (7.0, 5.0)) + 0.37) / (7.0, 5.0)}
    for vtype in (FLOAT, VEC3, MAT3):
        texture = leaf(vtype, (7, 5), f"texture of {vtype}")
        made = F.sin(texture * step) + texture
        for filter in ("bilinear", "nearest"):
            for wrap in ("repeat", "clamp"):
                found[f"{vtype} {filter} {wrap}"] = F.sample(made, places[filter], filter, wrap, tolerance=1)
    seen = F.sample(texture := leaf(VEC3, (7, 5), "shown"), uv)
    found["gradient"], found["by place"] = gradient(F.sum(F.dot(seen, seen) * step), [texture, uv])
    return simplify(Program(found, ((step, step * 0.9),)))


def test_values(device):
    """Of every record, read by the sampler wherever it may be, as precise as the device says; nearest reads have no place at a
    border of texels."""
    program = scenes()
    exact = NumpyExecutor(program)
    exact.run(2)
    promised = device.limits.bilinear_error
    assert sampler_errors(device, RECORDS["cpu"])["bilinear"] <= promised
    for model in RECORDS.values():
        with VulkanExecutor(program, device, cost=willing(model)) as run:
            run.run(2)
            assert len({f.sampler for s in run.plan.sub_stages for f in s.body} - {None}) == 4
            for name, v in program.outputs.items():
                near = 2 * promised * np.ptp(exact.recv(v)) if "bilinear" in name else 1e-4
                assert np.abs(run.recv(v) - exact.recv(v)).max() < near, f"{model.name}: {name}"
