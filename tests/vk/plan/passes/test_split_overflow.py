"""Work with more attachments than a subpass: subpasses with transient attachments on tilers, a dispatch elsewhere."""

from dataclasses import replace

import numpy as np

from dressi import FLOAT, VEC4, F, Variable
from dressi.ad.evaluate import NumpyExecutor
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import profile
from dressi.vk.plan.model.records import DESKTOP, TILER
from dressi.vk.plan.options import DEFAULT
from dressi.vk.plan.predict.stages import predict
from dressi.vk.plan.substage import Compute, Fragment
from dressi.vk.run.executor import VulkanExecutor

SIZE = (128, 64)
LIMITS = replace(profile("mali_g76"), max_sampled_images=32)
WHOLE = replace(DEFAULT, split_overflow=False)


def crowded() -> Program:
    """Triangles drawn six times, and a formula of all six images and of four others at the same pixel."""
    noise = np.random.default_rng(5).normal(size=(4, SIZE[1], SIZE[0]))
    images = [Variable(FLOAT, SIZE, name=f"image {k}", data=noise[k : k + 1]) for k in range(4)]
    step = Variable(FLOAT, name="step", data=np.ones((1, 1, 1)))
    total = images[0] * step
    for k in range(6):
        left = -0.713 + 0.2 * k  # the triangle covers what is right of it
        corners = Variable.of([[left, -9.0, 0.0, 1.0], [left, 9.0, 0.0, 1.0], [20.0, 0.0, 0.0, 1.0]], VEC4)
        face = F.to_float(F.rasterize(corners + step * 1e-9, size=SIZE))
        total = F.sin(total * (1.0 + 0.1 * k)) + images[k % 4] * face * F.cos(total)
    return Program({"total": total}, ((step, step * 0.9),))


def works(program, model, options=DEFAULT):
    plan = build_plan(program, LIMITS, shader_text, options, model)
    large = [s for s in plan.step.sub_stages if s.domain.size == SIZE]
    return plan, large


def test_a_tiler_splits_into_subpasses_of_one_render_pass():
    program = crowded()
    split, parts = works(program, TILER)
    whole, one = works(program, TILER, WHOLE)
    assert all(s.draws for s in parts) and sum(isinstance(s.work, Fragment) for s in parts) > 1
    assert any(isinstance(s.work, Compute) for s in one)
    stages = [stage for stage in split.step.stages if set(stage.sub_stages) & set(parts)]
    assert len(stages) == 1
    inside = split.images.passing[1]
    assert inside and all(split.images.slots[k].passing for v in inside for k in split.images.of[v])
    after, before = (predict(plan, TILER).totals for plan in (split, whole))
    assert after["bytes"] < before["bytes"] and after["seconds"] < before["seconds"]


def test_others_dispatch():
    _, found = works(crowded(), DESKTOP)
    assert any(isinstance(s.work, Compute) for s in found)


def test_values(device):
    program = crowded()
    exact = NumpyExecutor(program)
    exact.run(2)
    with VulkanExecutor(program, device, limits=LIMITS, cost=TILER) as run:
        run.run(2)
        assert sum(isinstance(s.work, Fragment) for s in run.plan.step.sub_stages) > 1
        for v in program.outputs.values():
            assert np.abs(run.recv(v) - exact.recv(v)).max() < 1e-4
