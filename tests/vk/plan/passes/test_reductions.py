"""Reductions in rounds and in parts, and work that is divided."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import weighing
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dressi import F, PlanError, ReduceFunction, Variable, gradient
from dressi.ad.contract.contraction import ContractIndex
from dressi.ad.graph import ScatterFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import FLOAT, INT, IVEC2, MAT3, VEC2, VEC3, VEC4, Access
from dressi.ad.ops.image.lookup import ScatterAdd, ScatterMax
from dressi.ad.ops.image.reduce import ReduceMax, ReduceMin
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render.drawing.point import FacesWithin
from dressi.vk.plan.analysis.context import Target
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES, DeviceLimits
from dressi.vk.plan.core.options import BASELINE, DEFAULT, PlanOptions
from dressi.vk.plan.lowering.register_tiles import TiledContraction
from dressi.vk.plan.lowering.tile_contractions import shorten_loops
from dressi.vk.plan.model import device as device_model
from dressi.vk.plan.model.records import CPU, DESKTOP
from dressi.vk.run.execution.executor import VulkanExecutor


class Along(ReduceFunction):
    """A reduction of a user's own, of FLOAT along x."""

    axis, access = "x", (Access.FETCH,)

    def infer(self):
        x = self.inputs[0]
        return FLOAT, ((1, x.size[1]), x.batch)


class Highest(Along):
    combine = "max"
    glsl = "$y = -1e30; for (int i = 0; i < $size0.x; ++i) $y = max($y, $0(pixel + ivec2(i, 0), tile));"
    no_derivative = "is only drawn forward here"

    def eval(self, x):
        return x.max(axis=2, keepdims=True)


class Norm(Along):
    """More than a sum as it stands; it says itself how to become shorter."""

    glsl = (
        "float s = 0.0; for (int i = 0; i < $size0.x; ++i) { float x = $0(ivec2(i, pixel.y), tile); s += x * x; }"
        "$y = sqrt(s);"
    )

    def eval(self, x):
        return np.sqrt((x**2).sum(axis=2, keepdims=True))

    def vjp(self, gy, i):
        return gy * self.inputs[0] / self.output

    def jvp(self, tangents):
        return F.sum(self.inputs[0] * tangents[0], "x") / self.output

    def shortened(self, most):
        return F.sqrt(F.sum(F.square(self.inputs[0]), "x"))


class Alternating(Along):
    """No way to shorten is known: it stays as long as it is, and is right."""

    glsl = "$y = 0.0; for (int i = 0; i < $size0.x; ++i) $y = $0(ivec2(i, pixel.y), tile) - 0.5 * $y;"
    no_derivative = "is only drawn forward here"

    def eval(self, x):
        y = np.zeros_like(x[:, :, :1])
        for i in range(x.shape[2]):
            y = x[:, :, i : i + 1] - 0.5 * y
        return y


def leaf(vtype, size, batch, seed):
    rng = np.random.default_rng(seed)
    shape = (batch, size[1], size[0], *vtype.shape)
    data = rng.integers(-9, 9, shape) if vtype.is_int else rng.uniform(-1, 1, shape)
    return Variable(vtype, size, batch, data=data)


def program(size, batch, seed):
    """Reductions of all kinds and axes, one inside of another too; each seed some of them."""
    rng = np.random.default_rng(seed)
    x, v, i = (leaf(t, size, batch, seed + k) for k, t in enumerate((FLOAT, VEC3, IVEC2)))
    kind = (F.sum, F.mean, F.max, F.min)[seed % 4]
    of = (i, v)[seed % 2]
    axes = str(rng.choice(["xyn", "x", "y", "n", "xy", "yn"]))
    outputs = {
        f"{kind.__name__} {axes}": kind(v, axes=axes),
        "integers": F.sum(i, axes),
        "place": ContractIndex(of, **(ReduceMin, ReduceMax)[seed % 4 > 1](of, "xyn"[seed % 3]).form).output,
        "own": Highest(x).output + Alternating(x).output,
    }
    return Program(outputs)


def differentiated(size, batch):
    """Gradients through reductions."""
    x, v = leaf(FLOAT, size, batch, 1), leaf(VEC3, size, batch, 2)
    centred = x - F.mean(x, "xy")
    loss = F.sum(F.square(centred) * Norm(x + 2.0).output) + F.sum(F.max(v, "y").x * F.min(x, "x"))
    return Program(dict(zip(("loss", "by x", "by v"), (loss, *gradient(loss, [x, v])), strict=True)))


def compare(found, p):
    for (name, v), value in zip(p.outputs.items(), evaluate(list(p.outputs.values())), strict=True):
        scale = max(1.0, float(np.abs(value).max()))
        np.testing.assert_allclose(found[name], value, rtol=2e-6, atol=2e-6 * scale, err_msg=f"{name} {v}")


def on_device(device, p, most, options=DEFAULT):
    """Values of the outputs; no invocation walks farther than it may, where loops can be shortened."""
    with VulkanExecutor(p, device, options=options, cost=replace(DESKTOP, longest_walk=most)) as run:
        run.run()
        long = [f.iterations for f in run.program.functions if isinstance(f, Alternating)]
        assert max(s.iterations for s in run.plan.sub_stages) <= max([most, *long])
        return {name: run.recv(v) for name, v in p.outputs.items()}


extents = st.tuples(st.integers(1, 70), st.integers(1, 70))
mosts = st.integers(2, 9)


@settings(max_examples=30)
@given(extents, st.integers(1, 12), st.integers(0, 99), mosts)
def test_trees_mean_the_same(size, batch, seed, most):
    p = simplify(program(size, batch, seed))
    model = replace(CPU, longest_walk=most)
    tree = shorten_loops(p, Target(DeviceLimits(), model))
    assert shorten_loops(tree, Target(DeviceLimits(), model)) is tree
    assert all(f.iterations <= most for f in tree.functions if not isinstance(f, Alternating))
    compare(dict(zip(p.outputs, evaluate(list(tree.outputs.values())), strict=True)), p)


@settings(max_examples=3)
@given(extents, st.integers(1, 9), st.integers(0, 99), st.sampled_from((4, 8)))
def test_trees_give_the_value(device, size, batch, seed, most):
    p = simplify(program(size, batch, seed))
    compare(on_device(device, p, most), p)


def test_gradients_pass_through_trees_and_packing_changes_no_bit_of_cpu_drivers(device):
    p = simplify(differentiated((37, 23), 3))
    packed, baseline = (on_device(device, p, 8, options) for options in (DEFAULT, BASELINE))
    compare(packed, p)
    compare(baseline, p)
    # GPUs divide and take roots within some units of the last place, and differently beside other operations.
    for name, value in packed.items() if device.physical.type == "cpu" else ():
        np.testing.assert_array_equal(value, baseline[name], err_msg=name)


@pytest.mark.parametrize("size", [(300, 3), (64, 65), (9, 530)])
def test_workgroups_reduce(device, size):
    """Each in one dispatch, for all types of sums; the last run is shorter, and some invocations idle."""
    v, m, i, x = (leaf(t, size, 2, k) for k, t in enumerate((VEC3, MAT3, IVEC2, FLOAT)))
    outputs = {
        "vectors": F.sum(v, "y"),
        "integers": F.sum(i, "x"),
        "all": F.mean(m, "xy"),
        "largest": F.max(v, "xy"),
        "smallest": F.min(x * x - 0.25, "y"),
        "own": Highest(x).output,
    }
    p = simplify(Program(outputs))
    most = {"max_workgroup_invocations": 128}
    with VulkanExecutor(p, device, cost=DESKTOP, limits=replace(device.limits, **most)) as run:
        run.run()
        groups = [f for s in run.plan.sub_stages for f in s.functions if isinstance(f, TiledContraction)]
        assert len(groups) == 4 * (size[1] >= 64) + 4 * (size[0] >= 64)
        assert all(f.layout.tree and f.layout.lanes <= 128 for f in groups)
        first = {name: run.recv(v) for name, v in p.outputs.items()}
    compare(first, p)


def test_other_long_loops_become_short(device):
    """Weights of resizing, sums of shifts and picked tiles, windows and places; forward and transposed."""
    x, v = leaf(FLOAT, (41, 30), 12, 1), leaf(VEC2, (41, 30), 1, 2)
    tiles = Variable(INT, batch=12, data=np.arange(12).reshape(12, 1, 1) * 5 % 3)
    outputs = {
        "area": F.resize(v, (3, 2), "area"),
        "bilinear": F.resize(v, (2, 30), "bilinear"),
        "window": F.window_max(v, 9, "x"),
    }
    transposed = {
        "shift": F.shift(x, 30, -17),
        "area'": F.resize(x, (3, 30), "area"),
        "bilinear'": F.resize(x, (400, 30)),
        "window'": F.window_min(x, 12, "y"),
        "take": F.take(F.take(x, F.tile_index((1, 1), 3)), tiles),
    }
    for name, y in transposed.items():
        weight = leaf(FLOAT, y.size, y.batch, 7)
        outputs[name] = gradient(F.sum(y * weight), [x])[0]
    p = simplify(Program(outputs))
    compare(on_device(device, p, 9), p)


def test_levels_of_loops_or_a_workgroup():
    x = Variable(FLOAT, (1024, 1))
    p = Program({"y": F.sum(x, "x")})
    lengths = [
        f.iterations
        for f in shorten_loops(p, Target(DeviceLimits(), replace(CPU, longest_walk=256))).functions
    ]
    assert lengths == [256, 4]
    (group,) = shorten_loops(p, Target(DeviceLimits(max_workgroup_invocations=256), DESKTOP)).functions
    assert isinstance(group, TiledContraction) and (group.layout.lanes, group.iterations) == (256, 4)
    assert shorten_loops(p, Target(DeviceLimits())) is p


def test_one_view_and_many_reduce_alike():
    plans = []
    for views in (1, 8):
        x = Variable(FLOAT, (600, 500), views)
        p = Program({"y": F.mean(F.square(x))})
        plans.append(build_plan(p, PROFILES["desktop"], shader_text, cost=DESKTOP).counts)
    assert plans[0]["stages"] == plans[1]["stages"] and plans[0]["functions"] == plans[1]["functions"]


@pytest.mark.one_driver
def test_unrolled_loops_have_the_bits_of_plain_ones(device, monkeypatch):
    """Lengths around multiples of four; of texels that are stored, made of little, and made of much."""
    rng = np.random.default_rng(5)
    outputs = {}
    for size in ((1, 9), (3, 8), (7, 4), (9, 37)):
        x, k = (Variable.of(a) for a in (rng.normal(size=size[::-1]), rng.integers(-9, 9, size[::-1])))
        much = x
        for _ in range(20):
            much = F.sin(much + x)
        for axes in ("x", "y", "xy"):
            values = {
                "stored": x,
                "little": F.square(x) - 0.3 * x,
                "much": much,
                "whole": k,
                "shifted": F.shift(x, 1, 0),
            }
            outputs |= {f"{name} {size} {axes}": F.sum(v, axes) for name, v in values.items()}
    program = simplify(Program(outputs))

    def run():
        with VulkanExecutor(program, device, cost=CPU) as executor:
            executor.run()
            texts = [t for s in executor.plan.shaders.values() for t in s.sources.values()]
            return {name: executor.recv(v) for name, v in program.outputs.items()}, sum(
                "i += 4" in t for t in texts
            )

    found, unrolled = run()
    monkeypatch.setattr(device_model, "LARGEST_UNROLLED", -1)
    expected, plain = run()
    assert unrolled and not plain
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_calls_of_unrolled_loops_all_count():
    """Drivers inline each: four in the loop and one after it. What makes much stays in a plain loop."""
    x = Variable(FLOAT, (8, 9))
    much = x
    for _ in range(20):
        much = F.sin(much)
    calls = device_model.Walks(lambda f: True)
    assert calls.of(F.sum(F.square(x), "y").creator).functions == 5
    assert calls.of(F.sum(much, "y").creator).functions == 20
    assert calls.of(F.sum(F.square(F.shift(x, 1, 0)), "y").creator).functions == 2


SCATTERED = PlanOptions(gather_at_lists=False)
FEW = DeviceLimits(max_sampled_images=5, max_input_attachments=4, max_storage_images=4)


def part_program(kind, vtype):
    """A table from six pairs of images, which takes twelve, as an output and as what a leaf follows."""
    rng = np.random.default_rng(4)
    pairs = []
    for k in range(6):
        values = rng.integers(0, 90, (2, 5, 7)) * (0.25 if vtype is FLOAT else 1)
        pairs.append(Variable(vtype, (7, 5), 2, name=f"value{k}", data=values))
        pairs.append(Variable(INT, (7, 5), 2, name=f"index{k}", data=rng.integers(-1, 12, (2, 5, 7))))
    table = kind(Variable(vtype, (11, 1)).domain, F.constant(100.0), *pairs).output
    leaf = Variable(vtype, (11, 1), name="leaf", data=np.zeros((1, 1, 11), vtype.dtype))
    return Program({"table": table, "twice": table + table}, ((leaf, leaf + table),)), leaf


@pytest.mark.parametrize(("kind", "vtype"), [(ScatterAdd, FLOAT), (ScatterMax, INT)])
@pytest.mark.parametrize("options", [SCATTERED, BASELINE])
def test_parts_give_the_table(kind, vtype, options, device):
    whole, leaf = part_program(kind, vtype)
    expected = evaluate(list(whole.outputs.values()))
    with VulkanExecutor(whole, device, options=options, limits=FEW) as run:
        scatters = [f for f in run.program.functions if isinstance(f, ScatterFunction)]
        assert sorted(len(f.pairs) for f in scatters) == [1, 1, 2, 2]
        assert all(run.plan.limits.violation(s) is None for s in run.plan.sub_stages)
        run.run(2)
        for v, values in zip(whole.outputs.values(), expected, strict=True):
            assert_array_equal(run.recv(v), values)
        assert_array_equal(run.recv(leaf), 2 * expected[0])


def test_what_fits_stays_whole_and_a_single_pair_is_named():
    whole, _ = part_program(ScatterAdd, FLOAT)
    assert build_plan(whole, DeviceLimits(), shader_text, SCATTERED).program is whole
    with pytest.raises(PlanError, match=r"ScatterAdd.*sampled images"):
        build_plan(whole, DeviceLimits(max_sampled_images=1), shader_text, SCATTERED)


SIZE = (64, 32)
PARTS = 3
FREE = weighing(CPU, lanes=1, fetch=0.0, store=0.0, stage=0.0)
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
    for options in (PlanOptions(), PlanOptions(without=("run_on_active_blocks",))):
        with VulkanExecutor(divided(), device, cost=FREE, options=options) as run:
            run.run(2)
            run.wait()
            found.append([run.recv(v) for v in (*run.program.outputs.values(), *run.program.leaves)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_first_of_the_worst_values_gets_the_gradient(device):
    """Where all values are -inf there is a largest one, too, in a loop and in a tree of short loops."""
    x = Variable.of(np.full((1, 1, 40), -np.inf), FLOAT)
    slope = gradient(F.max(x), [x])[0]
    expected = np.eye(40)[0].reshape(1, 1, 40)
    np.testing.assert_array_equal(evaluate([slope])[0], expected)
    for model in (CPU, replace(CPU, longest_walk=8)):
        with VulkanExecutor(Program({"slope": slope}), device, cost=model) as run:
            run.run()
            np.testing.assert_array_equal(run.recv(slope), expected)
