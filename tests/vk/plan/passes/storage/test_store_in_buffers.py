"""Values in storage buffers: the bits of images, the limits, and who gets them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, VEC2, VEC3, VEC4, F, Variable
from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED, DeviceLimits
from dressi.vk.plan.model.records import CPU, DESKTOP
from dressi.vk.plan.options import DEFAULT, PlanOptions
from dressi.vk.plan.substage import Compute, Fragment, Scatter, TiledCompute
from dressi.vk.run.executor import VulkanExecutor

IMAGES = PlanOptions(store_in_buffers=False)
STORED = PlanOptions(rematerialize=False, store_operands=False)
"""Whatever other texels are read of is stored."""
DISPATCHES = replace(CPU, prefers_dispatches=True)
SIZE, BATCH = (9, 7), 3


def program() -> Program:
    """Values of every format that are read at the own pixel and at others, a table of a scatter, and a sum of all."""
    rng = np.random.default_rng(3)

    def leaf(vtype, name):
        return Variable(vtype, SIZE, BATCH, name=name, data=rng.normal(size=(BATCH, 7, 9, *vtype.shape)))

    x, pair, three, four = (leaf(t, t.name.lower()) for t in (FLOAT, VEC2, VEC3, VEC4))
    number = F.to_int(F.floor(x * 4.0))
    made = [F.exp(F.sin(v)) for v in (x, pair, three, four)]
    around = [F.shift(v, 1, -2) * v for v in made]
    whole = F.to_float(F.shift(number, 2, 1) + number)
    slope = F.scatter_add(around[0] + whole, F.clamp(number, 0, 15), (4, 4))
    table = F.lookup(slope * 2.0, F.clamp(number, 0, 15))
    total = around[0] + around[1].x + around[2].y * around[2].z + around[3].w + whole + table
    return Program({"y": total, "mean": F.mean(total)}, ((x, x * 0.9 + F.shift(total, -1, 0) * 1e-3),))


def in_buffers(plan):
    return {v for s in plan.sub_stages for v in s.ranges}


@pytest.mark.parametrize("model", [CPU, DISPATCHES], ids=["fragments", "dispatches"])
@pytest.mark.parametrize("dimension", [16384, 18], ids=["a column of tiles", "columns of tiles"])
def test_buffers_give_the_bits_of_images(device, model, dimension):
    work, found = program(), []
    exact = evaluate([work.outputs["y"], work.outputs["mean"]])
    limits = replace(device.limits, max_image_dimension=min(dimension, device.limits.max_image_dimension))
    for options in (STORED, replace(STORED, store_in_buffers=False)):
        with VulkanExecutor(work, device, options=options, limits=limits, cost=model) as run:
            assert bool(in_buffers(run.plan)) == options.store_in_buffers
            run.run(1)
            values = [run.recv(v) for v in work.outputs.values()]
            for value, expected in zip(values, exact, strict=True):
                np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-5)
            run.run(3)
            found.append([*values, *(run.recv(v) for v in (*work.outputs.values(), *work.leaves))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


def test_what_lies_outside_of_active_blocks_is_filled(device):
    """A dispatch over the blocks that a raster hit hands on values, which are read beside these blocks too."""
    corners = np.array([[-0.9, -0.9, 0.5, 1], [-0.2, -0.9, 0.5, 1], [-0.9, -0.2, 0.5, 1]])
    position = Variable(VEC4, (3, 1), name="position", data=corners[None, None])
    face = F.rasterize(position, size=(64, 64))
    value = F.select(F.greater_equal(face, 0), F.exp(F.to_float(F.pixel_coordinates((64, 64)).x) * 0.1), 0.5)
    for _ in range(20):
        value = F.select(F.greater_equal(face, 0), F.sin(F.exp(F.cos(value))), 0.5)
    leaf = Variable(FLOAT, (64, 64), name="leaf", data=np.zeros((1, 64, 64)))
    work = Program(
        {}, ((leaf, leaf + F.shift(value, 3, 2) * F.shift(value, -3, 1)), (position, position * 0.99))
    )
    found = []
    free = {"buffer_store_rate": math.inf, "buffer_fetch_rate": math.inf}
    cost = replace(DISPATCHES.weighing(lanes=1, store=0.0, stage=0.0), **free)
    for options in (DEFAULT, IMAGES):
        with VulkanExecutor(work, device, options=options, cost=cost) as run:
            filled = {
                v
                for s in run.plan.sub_stages
                if isinstance(s.work, Compute) and s.work.sparse
                for v in s.work.sparse.fill
            }
            assert bool(filled & in_buffers(run.plan)) == options.store_in_buffers
            run.run(3)
            found.append(run.recv(leaf))
    np.testing.assert_array_equal(*found)


def test_the_rates_of_the_device_decide():
    assert in_buffers(build_plan(program(), UNBOUNDED, shader_text, STORED, DISPATCHES))
    assert not in_buffers(build_plan(program(), UNBOUNDED, shader_text, STORED, DESKTOP))
    slow = replace(DISPATCHES, buffer_fetch_rate=1e6)
    assert not in_buffers(build_plan(program(), UNBOUNDED, shader_text, STORED, slow))


@pytest.mark.parametrize("most", [2, 3, 4, 8])
def test_the_limit_of_storage_buffers_holds(most):
    limits = DeviceLimits(max_storage_buffers=most)
    plan = build_plan(program(), limits, shader_text, STORED, DISPATCHES)
    assert all(s.descriptors["storage_buffers"] <= most for s in plan.sub_stages)
    assert max(s.descriptors["storage_buffers"] for s in plan.sub_stages) <= most
    assert len(in_buffers(plan)) <= len(
        in_buffers(build_plan(program(), UNBOUNDED, shader_text, STORED, DISPATCHES))
    )


def test_ranges_are_no_longer_than_the_device_allows():
    texel = 9 * 7 * 3 * 4
    for most in (texel, 2 * texel, 4 * texel):
        plan = build_plan(
            program(), DeviceLimits(max_storage_buffer_bytes=most), shader_text, STORED, DISPATCHES
        )
        assert in_buffers(plan)
        assert all(plan.images.slots[k].bytes <= most for v in in_buffers(plan) for k in plan.images.of[v])


def test_values_that_do_not_live_together_share_a_range():
    start = value = Variable(FLOAT, (32, 32), name="start", data=np.zeros((1, 32, 32)))
    for _ in range(6):
        value = F.exp(F.shift(value, 1, 0)) * value
    work = Program({}, ((start, value),))
    shared, own = (
        build_plan(work, UNBOUNDED, shader_text, options, DISPATCHES)
        for options in (STORED, replace(STORED, alias_images=False))
    )
    numbers = [{shared.images.of[v] for v in in_buffers(shared)}, {own.images.of[v] for v in in_buffers(own)}]
    assert in_buffers(shared) and len(numbers[0]) == 2 < len(numbers[1])
    assert shared.images.bytes < own.images.bytes


def test_what_is_read_at_the_own_pixel_needs_no_attachment():
    """A dispatch makes it: a render pass would only load it."""
    x = Variable(FLOAT, (64, 48), channels=4)
    y = F.sigmoid(F.correlate(x, Variable(FLOAT, (3, 3), 4, channels=4)))
    plan = build_plan(Program({"y": F.shift(y * y, 1, 0) * y}), UNBOUNDED, shader_text, STORED, CPU)
    (made,) = (s for s in plan.sub_stages if isinstance(s.work, TiledCompute))
    assert set(made.outputs) <= in_buffers(plan)


def test_what_needs_an_image_has_one():
    plan = build_plan(program(), UNBOUNDED, shader_text, STORED, DISPATCHES)
    kept = {*plan.program.leaves, *plan.program.outputs.values(), *plan.replaces}
    assert in_buffers(plan).isdisjoint(kept)
    assert all(v not in s.ranges for s in plan.sub_stages if isinstance(s.work, Fragment) for v in s.outputs)
    tables = {s.scatter.output for s in plan.sub_stages if isinstance(s.work, Scatter)}
    assert tables <= in_buffers(plan)
    assert "[buffer]" in str(plan)
