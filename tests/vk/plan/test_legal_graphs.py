"""Graphs that are legal run, whatever a fragment, a copy or a render pass allows: each once failed."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dressi import FLOAT, MAT3, MAT4, VEC2, VEC3, DressiAD, F, PlanError, Variable, adam, gradient
from dressi.ad.graph.evaluation import NumpyExecutor
from dressi.ad.graph.program import Program
from dressi.config import shader_text
from dressi.vk.plan.analysis.context import Target, Uses
from dressi.vk.plan.analysis.rematerialization import LARGEST_CALLS
from dressi.vk.plan.compiler import build_plan, contexts
from dressi.vk.plan.core.limits import PROFILES, profile
from dressi.vk.plan.core.options import BASELINE, DEFAULT, PlanOptions
from dressi.vk.plan.core.substage import Binding, Scatter
from dressi.vk.plan.model.device import Walks
from dressi.vk.plan.passes.pack import LARGEST_LOOPS, LARGEST_SHADER, pack_stages
from dressi.vk.run.execution.executor import VulkanExecutor

SIZE = (6, 5)
UNFUSED = PlanOptions(pack_functions=False)


def leaf(vtype=FLOAT, size=SIZE, batch=1, name="", seed=0) -> Variable:
    shape = (batch, size[1], size[0], *vtype.shape)
    data = np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)
    return Variable(vtype, size, batch, data=data, name=name)


def values(executor, program, steps=3):
    executor.run(steps)
    return [executor.recv(v) for v in (*program.outputs.values(), *program.leaves)]


def follows_float64(program, device, **options):
    expected = values(NumpyExecutor(program), program)
    with VulkanExecutor(program, device, **options) as run:
        for found, wanted in zip(values(run, program), expected, strict=True):
            assert np.allclose(found, wanted, rtol=2e-5, atol=2e-6)
        return run.plan


# ---- scatters
def scatter_at_coordinates():
    return F.scatter_add(leaf(batch=2), F.linear_index(SIZE), (8, 8), bound=1.0)


def scatter_of_one_texel():
    bound = F.to_float(F.linear_index((1, 1))) + 2.0  # made of the texel where it is, which is (0, 0)
    return F.scatter_add(leaf(size=(1, 1)), F.linear_index((1, 1)), (3, 2), bound=bound)


def scatter_with_coordinates_in_its_values():
    ramp = F.to_float(F.linear_index(SIZE)) * 0.01
    return F.scatter_add(leaf() * ramp, F.to_int(leaf(seed=1) * 7.0), (4, 2), bound=1.0)


def inverse_uv_of_coordinates():
    uv = (F.to_float(F.pixel_coordinates(SIZE)) + 0.5) * (1.0 / 8.0)
    texture = leaf(size=(8, 8))
    return gradient(F.sum(F.sample_inverse_uv(texture, uv, 1.0) * leaf(seed=1)), [texture])[0]


@pytest.mark.parametrize(
    "case",
    [
        scatter_at_coordinates,
        scatter_of_one_texel,
        scatter_with_coordinates_in_its_values,
        inverse_uv_of_coordinates,
    ],
)
def test_scatters_whose_indices_come_from_coordinates(device, case):
    follows_float64(Program({"y": case()}), device)


# ---- matrices
@pytest.mark.parametrize("options", [DEFAULT, BASELINE, PlanOptions(without=("choose_lowering",))])
def test_a_function_of_more_images_than_attachments_is_dispatched(device, options):
    a, b = leaf(MAT4, seed=1), leaf(MAT4, seed=2)
    y = F.select(F.greater(leaf(), 0.5), a, b)
    follows_float64(Program({"y": y}, ((a, b),)), device, options=options)


@pytest.mark.parametrize("name", ["minimum", "raspberry_pi4", "mali_g76"])
def test_adam_moves_a_matrix_under_small_limits(device, name):
    m = leaf(MAT3, name="m")
    x = leaf(VEC3, seed=1)
    loss = F.mean(F.square(F.matmul(m, x) - 1.0).x)
    with DressiAD(device, limits=profile(name)) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(adam(0.05), [m])
        ad.step(30)
        assert ad.losses()[-1] < 0.3 * ad.losses()[0]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("options", [DEFAULT, BASELINE, PlanOptions(without=("choose_lowering",))])
def test_matrices_fit_every_profile(name, options):
    m = leaf(MAT4)
    y = F.matmul(F.select(F.greater(leaf(), 0.5), m, F.transpose(m)), m)
    (g,) = gradient(F.sum(F.determinant(y)), [m])
    build_plan(Program({"y": y}, ((m, m - g),)), profile(name), shader_text, options)


# ---- updates by leaves
@pytest.mark.parametrize("options", [DEFAULT, BASELINE])
def test_a_leaf_may_become_the_value_of_another_that_changes_too(device, options):
    a, b, c = leaf(name="a", seed=1), leaf(name="b", seed=2), leaf(name="c", seed=3)
    swapped = Program({"y": a * 2.0 + b}, ((a, b), (b, a)))
    follows_float64(swapped, device, options=options)
    shifted = Program({"y": a - c}, ((a, b), (b, c), (c, c * 0.5)))
    plan = follows_float64(shifted, device, options=options)
    targets = {leaf for leaf, _ in plan.step.copies}
    assert targets.isdisjoint(new for _, new in plan.step.copies)


@pytest.mark.parametrize("options", [DEFAULT, BASELINE])
def test_a_leaf_that_is_its_own_new_value_is_not_copied(device, options):
    a, b = leaf(name="a", seed=1), leaf(name="b", seed=2)
    plan = follows_float64(Program({"y": a + 1.0}, ((a, a), (b, b + 1.0))), device, options=options)
    assert all(a not in {*pair} for pair in plan.step.copies)
    assert a in {*plan.program.leaves}


# ---- render passes
@pytest.mark.parametrize("options", [UNFUSED, DEFAULT, PlanOptions(without=("choose_lowering",))])
def test_an_image_is_not_attachment_and_texture_of_one_render_pass(device, options):
    x = leaf(VEC2)
    sampled = F.sample(x, x, "nearest")
    program = Program({"y": sampled + x, "z": F.shift(x, 1, 0) * x, "w": F.sin(x) + sampled})
    plan = follows_float64(program, device, options=options)
    for stage in plan.stages:
        reads = [r for s in stage.sub_stages for r in s.reads]
        attached = {v for s in stage.sub_stages for v in s.colors}
        attached |= {r.variable for r in reads if r.binding is Binding.ATTACHMENT}
        assert attached.isdisjoint(r.variable for r in reads if r.binding is not Binding.ATTACHMENT)


# ---- long shaders
def chain(x, count):
    y = x
    for _ in range(count // 2):
        y = F.sin(y) + x
    return y


def chain_of_coordinates(count):
    return chain(F.to_float(F.linear_index(SIZE)) * 0.1, count)


@pytest.mark.parametrize(
    "y", [chain(leaf(), 3000), chain_of_coordinates(3000), chain(leaf(size=(1, 1)), 3000)]
)
def test_shaders_have_a_length_that_drivers_compile(y):
    plan = build_plan(Program({"y": y}), profile("lavapipe"), shader_text)
    assert max(len(s.body) for s in plan.sub_stages) <= LARGEST_SHADER
    assert len(plan.sub_stages) <= 3 * -(-3000 // LARGEST_SHADER)
    assert max(text.count(";") for s in plan.shaders.values() for text in s.sources.values()) < 4000
    assert all(not isinstance(s.work, Scatter) for s in plan.sub_stages)


def test_shaders_have_a_number_of_loops_that_drivers_compile():
    """A learned 7x7 kernel: 49 sums of whole images side by side."""
    size = (128, 128)
    image, target, kernel = leaf(size=size), leaf(size=size, seed=1), leaf(size=(7, 7), seed=2)
    taps = [
        F.shift(image, i - 3, j - 3) * F.lookup(kernel, 7 * j + i) for j, i in product(range(7), range(7))
    ]
    (g,) = gradient(F.sum(F.square(sum(taps[1:], taps[0]) - target)), [kernel])
    plan = build_plan(Program({}, ((kernel, kernel - g),)), profile("lavapipe"), shader_text)
    found = [text.count("for (") for s in plan.shaders.values() for text in s.sources.values()]
    assert 0.5 * LARGEST_LOOPS < max(found) <= LARGEST_LOOPS


def test_a_chain_of_thousands_of_functions_follows_float64(device):
    x = leaf()
    y = x
    for k in range(1500):
        y = y * 0.75 + (x if k % 2 else 0.25)
    follows_float64(Program({"y": y}), device)


# ---- order of execution
def test_a_table_is_not_absorbed_by_a_reader_that_waits_for_what_the_scatter_reads(device):
    """The scatter reads p before it is overwritten, the reader of its table needs the new value."""
    p = leaf(name="p")
    q = F.sin(p) + 1.0
    table = F.scatter_add(p * 0.5, F.linear_index(SIZE), (4, 4))
    follows_float64(Program({"r": table * F.sum(q)}, ((p, q),)), device)


def test_sub_stages_that_wait_for_each_other_are_an_error():
    a, b = leaf(name="a"), leaf(name="b")
    x, y = F.sin(a), F.sin(b)
    plan = build_plan(Program({"x": x, "y": y}), profile("desktop"), shader_text, BASELINE)
    first, second = plan.sub_stages
    stuck = [replace(first.as_dispatch(), replaces={x: b}), replace(second.as_dispatch(), replaces={y: a})]
    assert Uses([first, second]).can_run and not Uses(stuck).can_run
    context = contexts(plan.program, Target(plan.limits, options=BASELINE))[1].following(stuck)
    with pytest.raises(PlanError, match="no order of execution"):
        pack_stages(stuck, context)


# ---- calls
def trilinear_samples(count, texels=8):
    """Their sum and the gradient of its square; each level reads four texels of the one before."""
    texture = leaf(VEC3, (texels, texels), name="texture")
    samples = [
        F.sample(texture, leaf(VEC2, seed=k), "trilinear", level=leaf(seed=k + 20) * 3.0)
        for k in range(count)
    ]
    total = sum(samples[1:], samples[0])
    (g,) = gradient(F.sum(F.sum_components(F.square(total))), [texture])
    return Program({"total": total, "gradient": g})


@pytest.mark.parametrize("texels", [4, 8, 16, 32])
def test_calls_inside_of_calls_are_counted(texels):
    """Where lookups make pyramids again, inlined Functions grow fourfold with every level."""
    plan = build_plan(trilinear_samples(8, texels), profile("desktop"), shader_text)
    for s in plan.sub_stages:
        stored = {r.variable for r in s.reads}.union(s.channels)
        calls = Walks(lambda f, stored=stored: f.output not in stored)
        # What coordinates alone are made of is inlined, too, and has no limit.
        assert sum(calls.of(f).functions for f in s.body) <= 1.25 * LARGEST_CALLS


@pytest.mark.release
def test_samples_of_small_textures_fit_the_stack_of_drivers(device):
    follows_float64(trilinear_samples(3), device)


# ---- updates
def test_one_new_value_of_several_leaves_is_written_in_place(device):
    x, y, z, data = leaf(name="x"), leaf(name="y", seed=1), leaf(name="z", seed=2), leaf(name="data", seed=3)
    mean, other = (x + y) * 0.5, leaf(name="other", seed=4)
    updates = ((x, mean), (y, mean), (z, x), (other, data), (data, data))
    plan = follows_float64(Program({"z": z * 2.0}, updates), device)
    assert plan.step.copies == ((other, data),)  # of a leaf: nothing computes it
