"""Loads from storage images: the bits of fetches from textures, the limits, and what stays a texture."""

from dataclasses import replace

import numpy as np
import pytest
from test_store_in_buffers import DISPATCHES, STORED, program

from dressi import VEC4, F, Variable
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED, DeviceLimits
from dressi.vk.plan.model.records import CPU, DESKTOP, SWIFTSHADER
from dressi.vk.plan.predict.stages import predict
from dressi.vk.plan.substage import Binding
from dressi.vk.run.executor import VulkanExecutor


def loaded(plan):
    return [r.variable for s in plan.sub_stages for r in s.reads if r.binding is Binding.STORAGE]


@pytest.mark.parametrize("model", [CPU, DISPATCHES], ids=["fragments", "dispatches"])
def test_loads_give_the_bits_of_fetches(device, model):
    """Of values in their own images, in narrow ones beside them, and in the image of a leaf that a shader overwrites."""
    work, found = program(), []
    for options in (STORED, replace(STORED, load_images=False)):
        for narrow in (False, device.limits.half_images):
            options = replace(options, narrow_intermediates=narrow, store_in_buffers=not narrow)
            with VulkanExecutor(work, device, options=options, cost=model) as run:
                assert bool(loaded(run.plan)) == options.load_images
                run.run(3)
                found.append([run.recv(v) for v in (*work.outputs.values(), *work.leaves)])
    for one, other in zip(found[:2], found[2:], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


def test_the_rates_of_the_device_decide_what_is_loaded():
    for model, loads in ((DISPATCHES, True), (SWIFTSHADER, False), (DESKTOP, False)):
        plan = build_plan(program(), UNBOUNDED, shader_text, STORED, model)
        assert bool(loaded(plan)) == loads
    plan = build_plan(program(), UNBOUNDED, shader_text, STORED, CPU)
    slow, fast = (
        predict(plan, replace(CPU, image_load_rate=r)).totals["seconds"] for r in (1e3, CPU.image_load_rate)
    )
    assert slow > 1.1 * fast


@pytest.mark.parametrize("most", [2, 4, 6])
def test_the_limit_of_storage_images_holds(most):
    plan = build_plan(program(), DeviceLimits(max_storage_images=most), shader_text, STORED, CPU)
    counts = [s.descriptors["storage_images"] for s in plan.sub_stages]
    assert max(counts) <= most and loaded(plan)


def test_what_a_sampler_filters_stays_a_texture():
    image = Variable(VEC4, (8, 8), name="image", data=np.ones((1, 8, 8, 4)))
    place = F.to_float(F.pixel_coordinates((8, 8))) / 8.0 + image.x * 1e-3
    work = Program({}, ((image, F.sample(image, place, tolerance=1.0) + F.shift(image, 1, 0)),))
    exact = replace(CPU, filter_rate=CPU.fetch_rate * 64)
    plan = build_plan(work, UNBOUNDED, shader_text, STORED, exact)
    assert any(s.samplers for s in plan.sub_stages)
    for s in plan.sub_stages:
        assert all(r.binding is Binding.TEXTURE for r in s.reads if s.samplers and r.variable is image)
