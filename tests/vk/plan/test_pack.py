"""Packing without a device: structure, limits, speed of the algorithm, golden GLSL."""

import sys
import time
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from graphs import large_program, random_program
from hypothesis import given, settings
from hypothesis import strategies as st

from dressi import FLOAT, INT, MAT4, VEC3, F, PlanError, Variable, gradient, networks
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES, DeviceLimits, profile
from dressi.vk.plan.core.options import BASELINE, PlanOptions
from dressi.vk.plan.core.substage import Compute, Fragment, Scatter
from dressi.vk.plan.execution.plan import plan_dot
from dressi.vk.plan.glsl.generate import generate
from dressi.vk.plan.glsl.writer import stage_of
from dressi.vk.plan.model.records import CPU, DESKTOP
from dressi.vk.run.shaders.pyglslang import compile_glsl

GOLDEN = Path(__file__).parent / "golden"


small_limits = st.builds(
    DeviceLimits,
    max_color_attachments=st.integers(2, 8),
    max_input_attachments=st.integers(3, 9),
    max_sampled_images=st.integers(8, 20),
    max_storage_images=st.integers(2, 8),
)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), limits=small_limits, switches=st.tuples(*[st.booleans()] * 3))
def test_random_plans_are_sound(seed, limits, switches):
    program = random_program(seed)
    choose, stages, again = switches
    without = () if choose else ("choose_lowering",)
    options = PlanOptions(pack_stages=stages, rematerialize=again, without=without)
    with config(check=True):  # verifies the SubStages after every pass, and the plan
        plan = build_plan(program, limits, shader_text, options)
    made = {v for s in plan.sub_stages for v in s.outputs}
    assert all(v in made for v in plan.program.roots if v.creator is not None)


def there_and_back(count):
    """A value made in many steps, and a product of all these, whose backward half reads each."""
    x = Variable(FLOAT, (64, 64), name="x", data=np.ones((1, 64, 64)))
    y, made = x, []
    for _ in range(count):
        made.append(y := y * (1.0 + F.square(y)) + x)
    total = y
    for value in made:
        total = total * value
    return x, total


@pytest.mark.parametrize("count", [12, 40])
def test_a_shader_may_read_too_much_for_a_while(count):
    """Up to twice the limit: one shader where the sum fits; where it does not, shaders that fit."""
    x, y = there_and_back(count)
    limits = DeviceLimits(max_sampled_images=8, max_input_attachments=8, max_per_stage_resources=12)
    options = PlanOptions(rematerialize=False, without=("join_dispatches",))
    with config(check=True):
        ahead, strict = (
            build_plan(Program({}, ((x, y),)), limits, shader_text, options, model)
            for model in (CPU, DESKTOP)
        )
    assert len(strict.sub_stages) > 1
    assert len(ahead.sub_stages) == 1 if count == 12 else 1 < len(ahead.sub_stages) <= len(strict.sub_stages)


def test_the_last_scatter_leaves_to_others_what_they_make_with_less_traffic():
    """Two scatters of products of many values; both products have to be there before, for the bounds. If the
    last scatter made a product of its own accord, all these values would be handed to it. Without bounds it
    makes what it adds."""
    y, made = there_and_back(1)[0], []
    x = y
    for _ in range(12):
        made.append(y := y * (1.0 + F.square(y)) + x)
    values = [reduce(lambda a, b: a * b, (v + k for v in made)) for k in (1.0, 2.0)]
    options = PlanOptions(rematerialize=False, without=("fuse_epilogues",))
    for bounded in (True, False):
        tables = [
            F.scatter_add(v, F.linear_index((64, 64)), (64, 64), bound=F.max(F.abs(v)) if bounded else 1.0)
            for v in values
        ]
        program = Program({}, ((x, tables[0] + tables[1]),))
        plan = build_plan(program, DeviceLimits(), shader_text, options, CPU)
        longest = max(len(s.functions) for s in plan.sub_stages if isinstance(s.work, Scatter))
        assert longest == 1 if bounded else longest > 20


def test_fewer_passes_than_functions_and_more_with_fewer_attachments():
    program = random_program(3, 60)
    subpasses = PlanOptions(without=("choose_lowering",))
    counts = {n: build_plan(program, profile(n), shader_text, subpasses).counts for n in PROFILES}
    baseline = build_plan(program, profile("desktop"), shader_text, BASELINE).counts
    assert counts["desktop"]["substages"] < baseline["substages"] / 3
    assert counts["desktop"]["substages"] <= counts["uhd620"]["substages"] <= counts["mali_g76"]["substages"]
    assert counts["desktop"]["image_bytes"] < baseline["image_bytes"]


def test_equal_programs_give_equal_plans():
    plans = [build_plan(random_program(5), profile("desktop"), shader_text) for _ in range(2)]
    assert plans[0].key == plans[1].key
    assert plans[0].counts == plans[1].counts


@pytest.mark.parametrize("batch", [1, 6, 12])
def test_passes_do_not_grow_with_the_batch(batch):
    x = Variable(VEC3, (9, 1), name="x", data=np.zeros((1, 1, 9, 3)))
    m = Variable(FLOAT, (1, 1), batch, name="m", data=np.ones((batch, 1, 1)))
    y = F.expand(x, batch) * m
    loss = F.sum(F.dot(y, y))
    (g,) = gradient(loss, [x])
    counts = build_plan(Program({"loss": loss}, ((x, x - g),)), profile("desktop"), shader_text).counts
    assert (counts["substages"], counts["stages"]) == (2, 2)


def test_a_function_that_cannot_fit_is_named():
    v = [Variable(FLOAT, (4, 4), name=f"v{k}", data=np.zeros((4, 4))) for k in range(4)]
    y = F.vec4(*v)
    limits = DeviceLimits(max_input_attachments=3)
    (s,) = build_plan(Program({"y": y}), limits, shader_text).sub_stages
    assert isinstance(s.work, Compute)
    with pytest.raises(PlanError, match=r"Construct.*4 sampled images, the device allows 3; split it"):
        build_plan(Program({"y": y}), replace(limits, max_sampled_images=3), shader_text)
    big = Variable(FLOAT, (4096, 4096), 3, name="big", data=None)
    with pytest.raises(PlanError, match="smaller size or fewer views"):
        build_plan(Program({"y": big * 2.0}), DeviceLimits(max_image_dimension=4096), shader_text)


def test_tiles_go_into_a_grid_where_a_column_is_too_high():
    tiling = DeviceLimits(max_image_dimension=1000).tiling(Variable(FLOAT, (100, 300), 7))
    assert (tiling.rows, tiling.columns, tiling.width, tiling.height) == (3, 3, 300, 900)
    assert tiling.offset(5) == (100, 600)


@pytest.mark.parametrize("shape", ["chain", "wide", "updates", "mixed"])
def test_ten_thousand_functions_pack_quickly(shape, monkeypatch):
    """About half a second on one core (printed with -s); the bound only tells linear from quadratic."""
    program = large_program(shape)
    seconds = {"planning": -time.process_time(), "GLSL": 0.0}

    def timed(*arguments):
        seconds["GLSL"] -= time.process_time()
        shaders = generate(*arguments)
        seconds["GLSL"] += time.process_time()
        return shaders

    monkeypatch.setattr("dressi.vk.plan.compiler.generate", timed)
    plan = build_plan(program, DeviceLimits(), shader_text)
    seconds["planning"] += time.process_time() - seconds["GLSL"]
    print(f"{shape}: {plan.counts}; seconds: {seconds}")
    assert 8_000 < len(program.functions) < 14_000
    assert sum(seconds.values()) < 10


def test_work_for_a_function_does_not_grow_with_their_number():
    """Counted in calls of Python. Under the limits of "minimum" dozens of Functions do not fit with what they
    would compute again, which planned the larger graph 11 times anew; of its values 300 lie in freed images
    of one kind."""
    calls = {600: 0, 2400: 0}
    for count in calls:
        program = large_program("mixed", count)

        def counted(frame, event, argument, count=count):
            calls[count] += event == "call"

        sys.setprofile(counted)
        try:
            build_plan(program, profile("minimum"), shader_text)
        finally:
            sys.setprofile(None)
        calls[count] /= len(program.functions)
    assert calls[2400] < 1.5 * calls[600], calls


def test_functions_that_do_not_fit_store_what_they_compute_again():
    """Where few do not fit, recomputation is decided anew; plans without those are as before."""
    plan = build_plan(large_program("mixed", 2000), profile("desktop"), shader_text, cost=DESKTOP)
    assert plan.counts["substages"] <= 90
    plan = build_plan(large_program("mixed", 2000), profile("minimum"), shader_text)
    assert plan.counts["substages"] <= 130


@pytest.mark.parametrize("name", ["fragment", "reduce", "update"])
def test_golden_glsl(name, request):
    """The text of small shaders; after an intended change delete the file and run again."""
    x = Variable(VEC3, (4, 3), 2, name="x", data=np.zeros((2, 3, 4, 3)))
    y = F.sin(x) * F.shift(x, 1, 0).x
    programs = {
        "fragment": Program({"y": y}),
        "reduce": Program({"s": F.sum(x.y)}),
        "update": Program({}, ((x, x * 0.5),)),
    }
    plan = build_plan(programs[name], profile("desktop"), shader_text)
    text = ""
    for k, s in enumerate(plan.sub_stages):
        for part, source in plan.shaders[s].sources.items():
            compile_glsl(source, stage_of(part), f"{name}.{k}.{part}")
            text += f"// {name}.{k}.{part}\n{source}"
    file = GOLDEN / f"{name}.glsl"
    if not file.exists():
        file.write_text(text)
    assert text == file.read_text()


def test_a_plan_can_be_read_and_seen():
    plan = build_plan(random_program(2), profile("desktop"), shader_text)
    assert f"{plan.counts['substages']} substages" in str(plan)
    text = plan_dot(plan)
    assert (
        text.count("subgraph") == plan.counts["stages"]
        and text.count("fillcolor") == plan.counts["substages"]
    )


def test_counters_are_fused_into_another_dispatch():
    """What nobody waits for on one texel is done by a dispatch that runs anyway, and copied at the end."""
    x = Variable(FLOAT, (8, 8), name="x", data=np.zeros((8, 8)))
    counters = [Variable(INT, name=f"step {k}", data=np.zeros((1, 1, 1), int)) for k in range(2)]
    rate = 1.0 / (1.0 + F.to_float(counters[0]))
    updates = ((x, x - rate * (x - 1.0)), *((c, c + k + 1) for k, c in enumerate(counters)))
    plan = build_plan(Program({}, updates), profile("desktop"), shader_text)
    (stage,) = plan.step.stages
    (counting,) = stage.sub_stages[0].fused
    assert len(counting.outputs) == 2
    assert {leaf for leaf, _ in plan.step.copies} == set(counters)


def test_one_texel_a_tile_is_fused_as_one_texel_is():
    """One problem and many have the same passes."""
    found = []
    for batch in (1, 8):
        x = Variable(FLOAT, (8, 8), batch, name="x", data=np.zeros((batch, 8, 8)))
        rate = Variable(FLOAT, (1, 1), batch, name="rate", data=np.ones((batch, 1, 1)))
        count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
        updates = ((x, x - rate * (x - 1.0)), (rate, 0.5 * rate), (count, count + 1))
        plan = build_plan(Program({}, updates), profile("desktop"), shader_text)
        (s,) = plan.step.sub_stages
        assert {v.domain.batch for other in s.fused for v in other.outputs} == {1, batch}
        found.append(len(plan.step.stages))
    assert found == [1, 1]


def test_images_of_fused_work_count_as_outputs_of_the_fragment_shader():
    """A matrix of four images and a counter are five outputs; where four are allowed: a dispatch."""
    m = Variable(MAT4, (8, 8), name="m", data=np.zeros((8, 8, 4, 4)))
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    program = Program({}, ((m, m * 0.5), (count, count + 1)))
    for most, kind in ((5, Fragment), (4, Compute)):
        limits = DeviceLimits(max_fragment_combined_output_resources=most)
        (s,) = build_plan(program, limits, shader_text).step.sub_stages
        assert isinstance(s.work, kind) and len(s.fused) == 1


def test_a_table_per_view_needs_no_bound_for_more_views():
    """Whether the sums of a scatter have to be bounded first depends on a tile of the table alone."""
    counts = set()
    for batch in (1, 6, 12):
        table = Variable(FLOAT, (200, 100), batch, name="table", data=np.zeros((batch, 100, 200)))
        index = F.linear_index((16, 16)) * 3
        (g,) = gradient(F.sum(F.square(F.lookup(table, index))), [table])
        plan = build_plan(Program({}, ((table, table - g),)), profile("desktop"), shader_text)
        counts.add((plan.counts["functions"], plan.counts["substages"]))
    assert len(counts) == 1


def test_light_values_are_not_kept():
    """A reciprocal is recomputed beside what it is read with, on any size; more work is done once."""
    image = Variable(FLOAT, (1024, 1024), name="image")
    radius = Variable(FLOAT, name="radius")
    for value, kept in ((1.0 / radius, 0), (F.sin(F.sin(radius)), 1)):
        program = Program({}, ((image, image * value),))
        plan = build_plan(program, profile("desktop"), shader_text)
        assert len(plan.static.sub_stages) == kept and len(plan.step.sub_stages) == 1
    named = Program({"value": 1.0 / radius}, ((image, image * (1.0 / radius)),))
    assert len(build_plan(named, profile("desktop"), shader_text).static.sub_stages) == 1


@pytest.mark.parametrize("name", ["lavapipe", "turing"])
def test_sums_in_sums_do_not_repeat_a_product(name):
    """A batch of small tiles fills the lanes as one large image does: all invocations count."""
    rng = np.random.default_rng(0)
    x = Variable(FLOAT, (1, 1), 4096, channels=48, name="x", data=rng.normal(size=(4096, 48, 1, 1)))
    weight = Variable(FLOAT, (48, 10), name="weight", data=rng.normal(size=(10, 48)))
    said = networks.mlp([{"weight": weight, "bias": Variable(FLOAT, channels=10, name="bias")}], x)
    program = Program({"out": F.log_softmax(said, "c")}, ())
    plan = build_plan(program, profile(name), shader_text, PlanOptions(without=("tile_products",)))
    texts = "".join(text for shaders in plan.shaders.values() for text in shaders.sources.values())
    assert texts.count("< 48") == 1
