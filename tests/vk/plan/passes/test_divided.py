"""Parts of an image, each shaded in its own way: no shader works for two of them, and each runs on the blocks of its own."""

import numpy as np

from dressi import FLOAT, VEC4, F, PlanOptions, Variable, gradient
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.render.drawing.look import FacesWithin
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.model.records import CPU
from dressi.vk.run.executor import VulkanExecutor

SIZE = (64, 32)
PARTS = 3
FREE = CPU.weighing(lanes=1, fetch=0.0, store=0.0, stage=0.0)
"""Whatever can be done on blocks is done there."""


def divided() -> Program:
    """Three triangles side by side, each with a curve of its own, fitted by one leaf."""
    x = Variable(FLOAT, name="x", data=np.full((1, 1, 1), 0.3))
    corners = [
        (k * 0.6 - 0.9 + dx, dy, 0.5, 1.0) for k in range(PARTS) for dx, dy in ((0, 0), (0.2, 0), (0, 0.4))
    ]
    position = Variable(VEC4, (3 * PARTS, 1), data=np.array(corners, np.float32)[None, None])
    face = F.rasterize(position * (1.0 + 0.01 * x), size=SIZE)
    total, slope = None, F.to_float(F.linear_index(SIZE)) * 0.01
    for k in range(PARTS):
        own = FacesWithin(face, k, k + 1).output
        value = F.exp(F.sin(slope * x * float(k + 1))) * F.cos(slope + x)
        part = F.select(F.greater_equal(own, 0), value, 0.0)
        total = part if total is None else total + part
    assert total is not None
    (g,) = gradient(F.sum(F.square(total - 0.2)), [x])
    return Program({"total": total}, ((x, x - g * 1e-3),))


def test_each_part_has_shaders_of_its_own():
    plan = build_plan(divided(), DeviceLimits(), shader_text, cost=FREE)
    parts = {f.output: f.first for f in plan.program.functions if isinstance(f, FacesWithin)}
    assert len(parts) == PARTS
    listed = []
    for s in plan.step.sub_stages:
        sparse = getattr(s.work, "sparse", None)
        own = {v for v, _ in sparse.blocks.quiet if v in parts} if sparse is not None else set()
        assert len(own) <= 1
        listed += own
        if sparse is not None:
            # Lists look at all of these images.
            assert parts.keys() & set(s.outputs) <= sparse.fill.keys()
    assert set(listed) == set(parts)


def test_parts_make_the_images_of_the_dense_plan(device):
    found = []
    for options in (PlanOptions(), PlanOptions(run_on_active_blocks=False)):
        with VulkanExecutor(divided(), device, cost=FREE, options=options) as run:
            run.run(2)
            run.wait()
            found.append([run.recv(v) for v in (*run.program.outputs.values(), *run.program.leaves)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
