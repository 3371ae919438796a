"""Packed plans on devices: the image of the baseline, bits that repeat, nothing left behind; hints."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from graphs import random_program, weighing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dressi import FLOAT, INT, VEC3, VEC4, DeviceError, DressiAD, F, GraphError, Variable, adam, gradient
from dressi.ad.graph.evaluation import NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import HISTORY
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.options import BASELINE, PlanOptions
from dressi.vk.plan.model.records import CPU, DESKTOP
from dressi.vk.plan.verify import verify_plan
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.measure.timing import profile

small_limits = st.builds(
    DeviceLimits,
    max_color_attachments=st.integers(2, 8),
    max_input_attachments=st.integers(3, 9),
    max_sampled_images=st.integers(8, 20),
    max_storage_images=st.integers(2, 8),
    lazy_images=st.booleans(),
)


def results(program, device, steps=2, **options):
    with VulkanExecutor(program, device, **options) as run:
        run.run(steps)
        run.wait()
        return [run.recv(v) for v in (*program.outputs.values(), *program.leaves)]


def close(a, b, tolerance=1e-5):
    return all(
        np.abs(x - y).max() <= tolerance * max(np.abs(y).max(), 1e-6) for x, y in zip(a, b, strict=True)
    )


@pytest.mark.release("swiftshader")
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**6),
    limits=small_limits,
    switches=st.tuples(*[st.booleans()] * 4),
    cost=st.sampled_from(
        [CPU, weighing(CPU, stage=0, fetch=1), weighing(CPU, lanes=1 << 14, fetch=4, store=4, stage=1e9)]
    ),
)
def test_packed_equals_baseline(device, seed, limits, switches, cost):
    program = random_program(seed, 18)
    choose, stages, again, cached = switches
    without = () if choose else ("choose_lowering",)
    options = PlanOptions(pack_stages=stages, rematerialize=again, cache_static=cached, without=without)
    packed = results(program, device, options=options, limits=limits, cost=cost)
    assert close(packed, results(program, device, options=BASELINE))


@pytest.mark.parametrize("lazy", [False, True])
def test_what_only_the_next_subpass_reads_is_not_stored(device, lazy):
    """It needs no memory where the device can do without, and gives the same."""
    x = [Variable(FLOAT, (5, 4), name=f"x{k}", data=np.full((4, 5), k / 7)) for k in range(8)]
    y = F.sin(sum(x[:4], start=F.constant(0.0))) * F.cos(sum(x[4:], start=F.constant(0.0)))
    program = Program({"y": y})
    limits = DeviceLimits(max_input_attachments=4, max_color_attachments=4, lazy_images=lazy)
    subpasses = PlanOptions(without=("choose_lowering",), rematerialize=False, cache_static=False)
    with VulkanExecutor(program, device, options=subpasses, limits=limits) as run:
        assert any(run.plan.images.passing)
        assert any(slot.passing for slot in run.plan.images.slots) == lazy
    packed = results(program, device, options=subpasses, limits=limits)
    assert close(packed, results(program, device, options=BASELINE))


@pytest.mark.parametrize("seed", range(3))
def test_devices_follow_the_oracle(device, seed):
    program = random_program(seed, 30)
    oracle = NumpyExecutor(program)
    oracle.run(3)
    expected = [oracle.recv(v) for v in (*program.outputs.values(), *program.leaves)]
    assert close(results(program, device, 3), expected, 1e-4)


def small_fit(device, **options) -> DressiAD:
    rng = np.random.default_rng(0)
    target = Variable(VEC3, (16, 16), name="target", data=rng.random((1, 16, 16, 3)))
    image = Variable(VEC3, (16, 16), name="image", data=np.zeros((1, 16, 16, 3)))
    ad = DressiAD(device, **options)
    ad.set_loss(F.sum(F.dot(image - target, image - target)))
    ad.set_optimizer(adam(0.05), [image])
    return ad


def test_image_fitting_converges_and_repeats_bit_for_bit(device):
    losses = []
    for _ in range(2):
        with small_fit(device) as ad:
            ad.step(120)
            losses.append(list(ad.losses()))
    assert losses[0] == losses[1] and len(losses[0]) == 120
    assert losses[0][-1] < 1e-3 * losses[0][0]


def test_history_is_longer_than_the_ring(device):
    with small_fit(device) as ad:
        ad.step(HISTORY + 30)
        ad.step(5)
        assert len(ad.losses()) == HISTORY + 35
        present = float(ad.recv("loss"))
        ad.step()
        assert ad.losses()[-1] == pytest.approx(present, rel=1e-5)


def test_state_is_saved_and_restored(device):
    with small_fit(device) as ad:
        ad.step(10)
        state = ad.state()
        ad.step(10)
        expected = ad.losses()[10:]
    with small_fit(device) as ad:
        ad.restore(state)
        ad.step(10)
        assert ad.losses() == expected
        with pytest.raises(GraphError, match="differs in"):
            ad.restore({"image": state["Image".lower()]})


def test_what_does_not_change_is_computed_once(device):
    x = Variable(FLOAT, (8, 8), name="x", data=np.ones((8, 8)))
    fixed = Variable(FLOAT, (8, 8), name="fixed", data=np.full((8, 8), 2.0))
    heavy = F.sum(F.sin(fixed))
    program = Program({"heavy": heavy}, ((x, x + heavy),))
    with VulkanExecutor(program, device) as run:
        assert run.plan.static.sub_stages and len(run.plan.step.sub_stages) == 1
        run.run(3)
        assert np.allclose(run.recv(x), 1 + 3 * 64 * np.sin(2.0), rtol=1e-5)
        run.send(fixed, np.zeros((8, 8)))
        run.run(2)
        assert np.allclose(run.recv(heavy), 0, atol=1e-6)


@pytest.mark.release
@pytest.mark.one_driver
def test_nothing_is_left_after_fifty_builds(device):
    before = device.live_objects()
    for _ in range(50):
        with small_fit(device) as ad:
            ad.step(1)
    assert device.live_objects() == before


@pytest.mark.one_driver
def test_two_thousand_steps_keep_memory(device):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not Path("/proc/self/statm").exists():
        pytest.skip("resident memory is read from /proc")
    with small_fit(device) as ad:
        ad.step(500)
        ad.losses()
        before = resident()
        ad.step(2000)
        ad.losses()
        assert resident() - before < 5 * 2**20


def test_every_stage_is_timed(device):
    with small_fit(device) as ad:
        times = profile(ad.executor, 3)
        assert len(times) == len(ad.plan.step.stages) and all(t.ms >= 0 for t in times)


def test_saturation_is_reported(device):
    values = Variable(FLOAT, (4, 1), data=np.array([[[1.0, 2.0, 3.0, 100.0]]]))
    index = Variable(INT, (4, 1), data=np.zeros((1, 1, 4), int))
    table = F.scatter_add(values, index, (1, 1), bound=F.constant(4.0))
    with VulkanExecutor(Program({"table": table}), device) as run:
        for read in (run.wait, lambda: run.recv(table), lambda: run.recv_async(table).result()):
            run.send(values, values.data)
            run.run()
            with pytest.warns(RuntimeWarning, match="above its bound"):
                read()
        assert run.recv(table).reshape(()) == 10.0
    with pytest.warns(RuntimeWarning, match="above its bound"), DressiAD(device) as ad:
        ad.evaluate(table)


def test_errors_before_the_device_sees_them(device):
    x = Variable(FLOAT, (4, 4), name="x")
    with VulkanExecutor(Program({"y": x * 2.0}), device) as run:
        with pytest.raises(GraphError, match=r"never sent|nothing was ever sent"):
            run.run()
        with pytest.raises(GraphError, match="shape"):
            run.send(x, np.zeros((3, 3)))
        run.send(x, np.ones((4, 4)))
        run.run()
        with pytest.raises(GraphError, match="not kept"):
            run.recv(x * 3.0)


def test_tiles_in_a_grid_give_the_same_image(device):
    """Past the framebuffer's height tiles go side by side; draws, fetches, scatters and reductions follow."""
    rng = np.random.default_rng(1)
    corners = rng.uniform(-1, 1, (5, 1, 12, 4))
    corners[..., 2:] = (0.5, 1.0)
    position = Variable(VEC4, (12, 1), 5, data=corners.astype(np.float32))
    face = F.rasterize(position, size=(16, 12))
    colors = Variable(VEC3, (4, 1), 5, data=rng.random((5, 1, 4, 3)).astype(np.float32))
    image = F.shift(F.lookup(colors, face), 1, 2) * 2.0
    loss = F.sum(F.dot(image, image))
    (g,) = gradient(loss, [colors])
    program = Program({"image": image, "loss": loss}, ((colors, colors - 0.01 * g),))
    narrow = DeviceLimits(max_framebuffer_height=25, max_framebuffer_width=64)
    assert build_plan(program, narrow, shader_text).limits.tiling(image).columns == 3
    assert close(results(program, device, limits=narrow), results(program, device), 1e-6)


@pytest.mark.parametrize("height", [16384, 25])
def test_one_texel_a_tile_is_computed_by_the_first_of_the_tile(device, height):
    """Rates of several problems, a count of all, beside images of which each tile has a rate."""
    rng = np.random.default_rng(2)
    x = Variable(FLOAT, (6, 8), 5, name="x", data=rng.random((5, 8, 6)))
    rate = Variable(VEC3, (1, 1), 5, name="rate", data=rng.random((5, 1, 1, 3)))
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    own = F.to_float(F.tile_index((1, 1), 5)) + F.to_float(count)
    updates = ((x, x - rate.y * x), (rate, rate * 0.5 + own + F.sum(x, "xy")), (count, count + 1))
    program = Program({}, updates)
    limits = DeviceLimits(max_framebuffer_height=height, max_framebuffer_width=64)
    oracle = NumpyExecutor(program)
    oracle.run(3)
    with VulkanExecutor(program, device, limits=limits) as run:
        assert any(s.fused for s in run.plan.step.sub_stages)
        run.run(3)
        for leaf, _ in updates:
            np.testing.assert_allclose(run.recv(leaf), oracle.recv(leaf), rtol=2e-6)


def test_a_device_belongs_to_its_thread(device):
    caught = []

    def use() -> None:
        try:
            device.check_thread()
        except DeviceError as error:
            caught.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert caught and "thread" in caught[0]


def test_a_failed_build_leaves_nothing(device, monkeypatch):
    device.trim()  # so that there is something to compile
    before = device.live_objects()
    monkeypatch.setattr("dressi.vk.run.shaders.pipeline.compile_many", lambda *_: 1 / 0)
    x = Variable(FLOAT, (4, 4), name="x", data=np.zeros((4, 4)))
    with pytest.raises(ZeroDivisionError):
        VulkanExecutor(Program({"y": F.sin(x)}), device)
    assert device.live_objects() == before


@pytest.mark.parametrize("own_tiles", [False, True])
@pytest.mark.parametrize("operation", [F.scatter_add, F.scatter_max])
def test_accumulators_past_the_device_come_in_bands(device, operation, own_tiles):
    """One band after the other gives the bits of all at once."""
    rng = np.random.default_rng(0)
    size, batch = (9, 8), 3
    integer = operation is F.scatter_max
    values = rng.integers(0, 99, (batch, 8, 9)) if integer else rng.normal(size=(batch, 8, 9, 3))
    x = Variable(INT if integer else VEC3, size, batch, name="x", data=values)
    index = Variable(INT, size, batch, name="index", data=rng.integers(-5, 45, (batch, 8, 9)))
    table = operation(x, index, (8, 5), batch if own_tiles else 1)
    program = Program({"table": table, "twice": operation(x + x, index, (8, 5), batch if own_tiles else 1)})
    whole = results(program, device)
    limits = DeviceLimits(max_storage_buffer_bytes=130 if integer else 600)
    with VulkanExecutor(program, device, limits=limits) as run:
        assert all(len(s.bands) > 1 or "resolve" not in s.sources for s in run.plan.shaders.values())
        verify_plan(run.plan)  # two gathers by the same indices have equal lists
    for a, b in zip(whole, results(program, device, limits=limits), strict=True):
        assert np.array_equal(a, b)


def test_the_loss_is_made_when_it_is_read(device):
    with small_fit(device) as recorded, small_fit(device) as quiet:
        quiet.set_loss(quiet._objective.loss, record=False)
        recorded.step(6)
        quiet.step(5)
        assert float(quiet.recv("loss")) == pytest.approx(recorded.losses()[5], rel=1e-6)
        assert quiet.losses() == [] and len(quiet.plan.step.stages) < len(recorded.plan.step.stages)
        quiet.step(1)
        assert (quiet.recv(quiet.parameters[0]) == recorded.recv(recorded.parameters[0])).all()


def test_values_share_channels(device):
    """A vector of three and a scalar, two pairs: what the same shaders read lies in one image."""
    rng = np.random.default_rng(0)
    x = Variable(VEC3, (9, 7), 2, name="x", data=rng.random((2, 7, 9, 3)))
    values = [F.sin(x), F.length(x), x.xy * 2.0, x.yz + 1.0]
    total = F.shift(values[0], 1, 0) * F.shift(values[1], 0, 1)
    total = total + F.vec3(F.shift(values[2], 1, 1) * values[3], 1.0)
    program = Program({"total": total}, ((x, x - 0.1 * total),))
    options = PlanOptions(rematerialize=False)
    with VulkanExecutor(program, device, options=options) as run:
        (whole,) = {whole for s in run.plan.step.sub_stages for whole, _ in s.channels.values()}
        assert whole.vtype is VEC4
    packed = results(program, device, options=options)
    assert all(
        (a == b).all() for a, b in zip(packed, results(program, device, options=BASELINE), strict=True)
    )


def blurred(hint, function):
    x = Variable(FLOAT, (64, 64))
    y = hint(function(x))
    return x, F.shift(y, 1, 0) + F.shift(y, 0, 2) + F.shift(y, -3, 0)


@pytest.mark.parametrize("model", [CPU, DESKTOP], ids=["cpu", "desktop"])
@pytest.mark.parametrize("function", [lambda x: x + 1.0, lambda x: F.sin(F.exp(F.sqrt(F.log(F.exp(x)))))])
def test_a_plan_follows_the_hints(function, model):
    def sub_stages(hint):
        _, y = blurred(hint, function)
        plan = build_plan(simplify(Program({"y": y})), DeviceLimits(), lambda name: "", cost=model)
        return len(plan.sub_stages)

    assert (sub_stages(F.store), sub_stages(F.recompute)) == (2, 1)


@pytest.mark.parametrize("hint", [F.store, F.recompute])
def test_hints_change_no_value(hint):
    values = np.random.default_rng(0).normal(size=(64, 64))
    found = []
    for h in (hint, lambda x: x):
        x, y = blurred(h, F.sin)
        found.append(evaluate([y, *gradient(F.sum(F.square(y)), [x])], {x: values}))
    assert all((a == b).all() for a, b in zip(*found, strict=True))
