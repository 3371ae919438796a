"""Where values lie: buffers, images that are loaded or sampled, narrow formats, copies of leaves."""

import math
from dataclasses import replace

import keys
import numpy as np
import pytest
from graphs import weighing
from numpy.testing import assert_array_equal

from dressi import FLOAT, INT, MAT3, VEC2, VEC3, VEC4, F, PlanError, Variable, gradient
from dressi.ad.graph.evaluation import NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.cli.bench.request import load
from dressi.cli.bench.work import Trial, Work, drawn_on, silhouette, texture
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import UNBOUNDED, DeviceLimits, profile
from dressi.vk.plan.core.options import DEFAULT, PlanOptions
from dressi.vk.plan.core.substage import Binding, Compute, Fragment, Scatter, TiledCompute
from dressi.vk.plan.execution.images import assign_images
from dressi.vk.plan.execution.sync import Part
from dressi.vk.plan.lowering.samplers import HardwareSample
from dressi.vk.plan.model.records import CPU, DESKTOP, RECORDS, SWIFTSHADER
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.measure.calibration import sampler_errors, willing

IMAGES = PlanOptions(without=("store_in_buffers",))
STORED = PlanOptions(rematerialize=False)
"""Whatever other texels are read of is stored."""
IMAGES_STORED = replace(STORED, without=IMAGES.without)
DISPATCHES = replace(CPU, prefers_dispatches=True)
SIZE, BATCH = (9, 7), 3


def program() -> Program:
    """Values of every format, read at the own pixel and at others, a table of a scatter, and a sum of all."""
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


def test_a_schedule_has_ranges_of_its_own():
    """One schedule may draw a value that the other dispatches into a buffer."""
    work = program()
    plans = [build_plan(work, UNBOUNDED, shader_text, o, DISPATCHES) for o in (IMAGES_STORED, STORED)]
    stages = [p.step.stages for p in plans]
    drawn, dispatched = ({v for stage in each for v in stage.variables} for each in stages)
    shared = in_buffers(plans[1]) & drawn & dispatched
    assert len(shared) > 1
    persistent = [*work.leaves, *work.outputs.values(), next(iter(shared))]
    images = assign_images(stages, persistent, {}, {}, UNBOUNDED)
    assert not images.ranges[0]
    for v in shared:
        kinds = [{images.slots[k].in_buffer for k in of[v]} for of in images.by_schedule]
        assert kinds == [{False}, {True}]


@pytest.mark.parametrize("model", [CPU, DISPATCHES], ids=["fragments", "dispatches"])
@pytest.mark.parametrize("dimension", [16384, 18], ids=["a column of tiles", "columns of tiles"])
def test_buffers_give_the_bits_of_images(device, model, dimension):
    work, found = program(), []
    exact = evaluate([work.outputs["y"], work.outputs["mean"]])
    limits = replace(device.limits, max_image_dimension=min(dimension, device.limits.max_image_dimension))
    for options in (STORED, IMAGES_STORED):
        with VulkanExecutor(work, device, options=options, limits=limits, cost=model) as run:
            assert bool(in_buffers(run.plan)) == options.runs("store_in_buffers")
            run.run(1)
            values = [run.recv(v) for v in work.outputs.values()]
            for value, expected in zip(values, exact, strict=True):
                np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-5)
            run.run(3)
            found.append([*values, *(run.recv(v) for v in (*work.outputs.values(), *work.leaves))])
    for one, other in zip(*found, strict=True):
        assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("outside", [0.5, (0.5, -1.0), (3e-40, -0.0, 7.0)], ids=["one word", "two", "three"])
def test_what_lies_outside_of_active_blocks_is_filled(device, outside):
    """A dispatch over blocks that a raster hit hands on values that are read beside these blocks, too. Buffers
    are filled with one word, whatever the components are."""
    corners = np.array([[-0.9, -0.9, 0.5, 1], [-0.2, -0.9, 0.5, 1], [-0.9, -0.2, 0.5, 1]])
    position = Variable(VEC4, (3, 1), name="position", data=corners[None, None])
    face = F.rasterize(position, size=(64, 64))
    value = F.select(F.greater_equal(face, 0), F.exp(F.to_float(F.pixel_coordinates((64, 64)).x) * 0.1), 0.5)
    for _ in range(20):
        value = F.select(F.greater_equal(face, 0), F.sin(F.exp(F.cos(value))), 0.5)
    if not isinstance(outside, float):
        inner = {2: F.vec2, 3: F.vec3}[len(outside)](*([value] * len(outside)))
        value = F.select(F.greater_equal(face, 0), inner, outside)
        value = F.dot(F.shift(value, 1, 1), F.shift(value, -1, 0))
    leaf = Variable(FLOAT, (64, 64), name="leaf", data=np.zeros((1, 64, 64)))
    work = Program(
        {}, ((leaf, leaf + F.shift(value, 3, 2) * F.shift(value, -3, 1)), (position, position * 0.99))
    )
    found = []
    free = {"buffer_store_rate": math.inf, "buffer_fetch_rate": math.inf}
    cost = replace(weighing(DISPATCHES, lanes=1, store=0.0, stage=0.0), **free)
    for options in (DEFAULT, IMAGES):
        with VulkanExecutor(work, device, options=options, cost=cost) as run:
            filled = {
                v
                for s in run.plan.sub_stages
                if isinstance(s.work, Compute) and s.work.sparse
                for v in s.work.sparse.fill
            }
            assert bool(filled & in_buffers(run.plan)) == options.runs("store_in_buffers")
            masked = {v for s in run.plan.sub_stages for held in s.ranges.values() for v in held.masks}
            assert bool(masked) == (options is DEFAULT and not isinstance(outside, float))
            run.run(3)
            found.append(run.recv(leaf))
    assert_array_equal(*found)


def test_the_rates_of_the_device_decide():
    assert in_buffers(build_plan(program(), UNBOUNDED, shader_text, STORED, DISPATCHES))
    alike = replace(DESKTOP, buffer_fetch_rate=DESKTOP.fetch_rate, buffer_store_rate=DESKTOP.image_store_rate)
    assert not in_buffers(build_plan(program(), UNBOUNDED, shader_text, STORED, alike))
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
    plan = build_plan(work, UNBOUNDED, shader_text, STORED, DISPATCHES)
    values = in_buffers(plan)
    assert len({plan.images.of[v] for v in values}) == 2 < len(values)


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


def loaded(plan):
    return [r.variable for s in plan.sub_stages for r in s.reads if r.binding is Binding.STORAGE]


@pytest.mark.parametrize("model", [CPU, DISPATCHES], ids=["fragments", "dispatches"])
def test_loads_give_the_bits_of_fetches(device, model):
    """In images of their own, beside narrow ones, and in the image of a leaf that is overwritten."""
    work, found = program(), []
    for options in (STORED, replace(STORED, without=("load_images",))):
        for narrow in (False, device.limits.half_images):
            left_out = (*options.without, "store_in_buffers") if narrow else options.without
            how = replace(options, narrow_intermediates=narrow, without=left_out)
            with VulkanExecutor(work, device, options=how, cost=model) as run:
                assert bool(loaded(run.plan)) == options.runs("load_images")
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


NARROW = replace(DEFAULT, narrow_intermediates=True)
NARROW_SIZE = (64, 64)


def two_passes(image: Variable | None = None) -> Program:
    """A gradient image from an image that is read at other pixels, so that it has to be stored."""
    if image is None:
        image = Variable(FLOAT, NARROW_SIZE, name="image", data=np.zeros((1, *NARROW_SIZE)))
    between = F.exp(F.sin(image) * 3.0) * F.cos(image * 5.0) + F.sqrt(F.abs(image))
    for _ in range(3):
        between = F.exp(F.sin(between)) + F.cos(between * 2.0) * F.exp(F.cos(between))
    around = [F.shift(between, dx, dy) for dx in range(-2, 3) for dy in range(-2, 3)]
    return Program({"y": sum(around[1:], around[0])}, ((image, image + 1.0),))


def test_only_what_passes_hand_to_each_other_is_narrow():
    program = two_passes()
    wide, narrow = (build_plan(program, UNBOUNDED, shader_text, options) for options in (DEFAULT, NARROW))
    halves = {v for s in narrow.sub_stages for v in s.narrow}
    assert halves and halves.isdisjoint((*program.leaves, *program.outputs.values()))
    assert narrow.images.bytes == wide.images.bytes - 2 * len(halves) * NARROW_SIZE[0] * NARROW_SIZE[1]
    formats = {narrow.images.slots[k].format for v in halves for k in narrow.images.of[v]}
    assert formats == {"R16_SFLOAT"}


def test_a_device_without_half_images_says_so():
    with pytest.raises(PlanError, match="no images of 16-bit floats"):
        build_plan(two_passes(), profile("minimum"), shader_text, NARROW)


def works(device) -> dict[str, Work]:
    asked = keys.request(1, "face", 3, "soft")
    model = load("small")
    return {
        "outer": silhouette(model, NARROW_SIZE, replace(asked, form="outer"), drawn_on(device)),
        "face": silhouette(model, NARROW_SIZE, asked, drawn_on(device)),
        "texture": texture(model, NARROW_SIZE, 64, asked, drawn_on(device)),
    }


def test_an_image_that_passes_hand_on_is_off_by_half_a_unit_of_eleven_bits(device):
    program = two_passes()
    (y,) = program.outputs.values()
    found = {}
    for title, options in (("wide", DEFAULT), ("narrow", NARROW)):
        with VulkanExecutor(program, device, options=options) as run:
            run.run(4)
            found[title] = run.recv(y)
    off = np.abs(found["narrow"] - found["wide"]).max() / np.abs(found["wide"]).max()
    assert 0 < off <= 2**-11


@pytest.mark.release
@pytest.mark.one_driver
def test_forms_and_textures_hand_on_what_half_floats_hold(device):
    """Masks, faces and counts are exact; positions stay wide."""
    for name, work in works(device).items():
        wide = Trial(work).first_values(device)
        narrow = Trial(work, options=NARROW).first_values(device)
        off = {k: np.abs(narrow[k] - wide[k]).max() / np.abs(wide[k]).max() for k in wide}
        assert off["image"] < 1e-6 and off["gradient"] < 1e-6, f"{name}: {off}"
        with Trial(work, options=NARROW).engine(device) as engine:
            engine.step(3)
            plan = engine.plan
            narrow_values = {v for s in plan.sub_stages for v in s.narrow}
            added = {r.variable for s in plan.sub_stages if isinstance(s.work, Scatter) for r in s.reads}
            assert narrow_values.isdisjoint(added), name
            assert np.isfinite(engine.recv(work.parameter)).all()


@pytest.mark.parametrize("scale", [1e-9, 1e6])
def test_what_is_added_up_may_be_of_any_size(device, scale):
    """Gradients of means lie below the smallest half float, those of sums above the largest one."""
    image = Variable(
        FLOAT, NARROW_SIZE, name="image", data=np.random.default_rng(5).uniform(0, 1, (1, *NARROW_SIZE))
    )
    handed = two_passes(image).outputs["y"] * scale
    around = F.shift(handed, 1, 0) + F.shift(handed, 0, 1) + F.shift(handed, -1, 0) * F.shift(handed, 0, -1)
    index = F.clamp(F.to_int(image * 16.0), 0, 15)
    work = Program(
        {"table": F.scatter_add(around, index, (4, 4)), "sum": F.sum(around)}, ((image, image * 0.9),)
    )
    found = []
    for options in (DEFAULT, NARROW):
        with VulkanExecutor(work, device, options=options) as run:
            run.run(1)
            found.append({name: run.recv(v) for name, v in work.outputs.items()})
    for name, wide in found[0].items():
        assert np.abs(wide).min() > 0
        np.testing.assert_allclose(found[1][name], wide, rtol=2**-10, err_msg=name)


SAMPLER_SIZE = (24, 16)
WITHOUT = replace(DEFAULT, without=("sample_in_hardware",))


def leaf(vtype, size, name, spread=1.0):
    values = np.random.default_rng(len(name)).uniform(-spread, spread, (1, size[1], size[0], *vtype.shape))
    return Variable(vtype, size, name=name, data=values.astype(np.float32))


def one(**how) -> Program:
    texture, uv = leaf(VEC3, (7, 5), "texture"), leaf(VEC2, SAMPLER_SIZE, "places", 2.5)
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
    texture, uv = leaf(FLOAT, (7, 5), "texture"), leaf(VEC2, SAMPLER_SIZE, "places")
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
    uv, step = leaf(VEC2, SAMPLER_SIZE, "places", 2.5), Variable(FLOAT, name="step", data=np.ones((1, 1, 1)))
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
    """Wherever it may be the sampler reads, as precise as promised; nearest reads keep off borders."""
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


COPY_WITHOUT = replace(DEFAULT, without=("copy_leaves_first",))


def moving() -> Program:
    """All three leaves are overwritten by what reads other texels of them: an image, a counter that every
    pixel reads, and a table that a scatter adds to."""
    rng = np.random.default_rng(0)
    x = Variable(VEC3, (6, 5), 2, name="x", data=rng.uniform(0.1, 0.9, (2, 5, 6, 3)))
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    table = Variable(FLOAT, (4, 1), name="table", data=rng.uniform(0.1, 0.9, (1, 1, 4)))
    total = F.sum(F.square(x.y))
    rate = 1.0 / (2.0 + F.to_float(count))
    hits = F.scatter_add(x.x * total * 0.01, F.to_int(F.clamp(4.0 * x.z, 0.0, 3.0)), (4, 1), bound=1.0)
    grown = F.shift(table, 1, 0) * 0.9 + F.sum(hits, "n") * rate
    moved = F.shift(x, 1, 0) * 0.5 + F.sum(grown) * rate * 0.01
    return Program({"total": total}, ((x, moved), (count, count + 1), (table, grown)))


def test_leaves_that_are_read_elsewhere_are_overwritten_in_place(device):
    program = moving()
    oracle = NumpyExecutor(program)
    oracle.run(3)
    found = {}
    for options in (DEFAULT, COPY_WITHOUT):
        with config(check=True), VulkanExecutor(program, device, options=options) as run:
            for n in (1, 2):  # steps of one submission follow each other
                run.run(n)
            found[options] = [run.recv(v) for v in (*program.outputs.values(), *program.leaves)]
            assert bool(run.plan.step.copies) == (options is COPY_WITHOUT)
    for v, first, second in zip((*program.outputs.values(), *program.leaves), *found.values(), strict=True):
        assert np.array_equal(first, second)
        assert np.allclose(first, oracle.recv(v), rtol=2e-5, atol=2e-6)


def test_a_step_has_a_barrier_less():
    program = moving()
    program = replace(program, updates=tuple(pair for pair in program.updates if pair[0].name != "count"))
    plan, without = (build_plan(program, profile("desktop"), shader_text, o) for o in (DEFAULT, COPY_WITHOUT))
    assert {leaf for _, leaf in plan.step.saved} == {leaf for leaf, _ in without.step.copies}
    assert len(plan.levels) == len(without.levels) - 1
    assert {c.part for c in plan.levels[0].commands} >= {Part.SAVE}
    # The barrier behind the copies costs as much as that before them where the maker waits for nothing.
    count = next(v for v in program.leaves if v.name == "count")
    alone = build_plan(Program({}, ((count, count + 1),)), profile("desktop"), shader_text)
    assert not alone.step.saved


def test_a_gated_step_copies_nothing_at_its_end():
    """Without a gate the copy at the end costs as much."""
    x = Variable(FLOAT, (1, 1), 3, name="x", data=np.ones((3, 1, 1)))
    wide = F.sum(F.square(F.expand(x, 3, (9, 7)) - 2.0), "xy")  # reads x at texel (0, 0) of any texel
    program = Program({}, ((x, x - 0.01 * wide),))
    for gated in (False, True):
        plan = build_plan(program, profile("desktop"), shader_text, gated=gated)
        assert bool(plan.step.copies) != gated
        assert bool(plan.step.saved) == gated
