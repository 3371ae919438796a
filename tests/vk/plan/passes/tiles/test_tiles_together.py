"""Register tiles with what follows their texels, in trees of workgroups, several in a dispatch."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from graphs import check_values, program_of

from dressi import FLOAT, VEC3, F, Variable, gradient
from dressi.ad.contract.contraction import ContractFunction
from dressi.ad.graph.evaluation import SubGraph, evaluate
from dressi.ad.graph.index_map import Affine, IndexMap
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.core.substage import TiledCompute
from dressi.vk.plan.lowering.register_tiles import TiledContraction, tiled_in
from dressi.vk.plan.model.records import CPU, DESKTOP
from dressi.vk.plan.model.schedules import Reduce, Unroll
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor

ROUNDINGS = 30 * 2.0**-24  # of the largest value
EACH_STEP = replace(DEFAULT, cache_static=False)


def planes(n, c, height, width, seed=0, vtype=FLOAT) -> Variable:
    data = np.random.default_rng(seed).random((n, c, height, width, *vtype.shape)) - 0.5
    return Variable(vtype, (width, height), n, channels=c, data=data if c > 1 else data[:, 0])


def layers() -> list[Variable]:
    """Two layers with a bias and an activation between them, their loss and all gradients."""
    x, first, second, bias = (
        planes(2, 3, 20, 36),
        planes(8, 3, 3, 3, 1),
        planes(4, 8, 3, 3, 2),
        planes(1, 8, 1, 1, 3),
    )
    hidden = F.max(F.correlate(x, first) + bias, 0.0)
    loss = F.mean(F.square(F.correlate(hidden, second) - planes(2, 4, 20, 36, 4)))
    return [loss, hidden, *gradient(loss, [x, first, second, bias])]


@pytest.mark.release
@pytest.mark.parametrize("model", [CPU, DESKTOP], ids=["cpu", "desktop"])
@pytest.mark.second_driver("desktop")
def test_layers(device, always, model):
    outputs = layers()
    program = program_of(outputs)
    with VulkanExecutor(program, device, options=EACH_STEP, cost=model) as run:
        tiles = [s for s in run.plan.sub_stages if isinstance(s.work, TiledCompute)]
        assert any(len(others) > 1 for s in tiles for others in tiled_in(s).values())
        assert any(len(tiled_in(s)) > 1 for s in tiles) == model.wide
        assert any(f.layout.tree for s in tiles for f in tiled_in(s)) == model.wide
        check_values(run, outputs, ROUNDINGS)
        assert predict(run.plan, model).totals["seconds"] > 0


@pytest.mark.parametrize("extent", [1, 5, 16, 37])
@pytest.mark.parametrize("vtype", [FLOAT, VEC3], ids=["float", "vec3"])
def test_workgroups_add_up_parts(device, extent, vtype):
    """Sums over 16 neighbouring parts of 3 texels; the last workgroup may have fewer."""
    random = np.random.default_rng(0)
    a, b = random.random((6, extent * 3, *vtype.shape)) - 0.5, random.random((1, extent * 3)) - 0.5
    x, y = Variable(vtype), Variable(FLOAT)
    nothing, texel = Affine.of({}), Affine.of({4: 3, 5: 1})
    maps = [IndexMap.to([nothing, nothing, row, texel]) for row in (Affine.axis(2), nothing)]
    whole = ContractFunction(
        Variable.of(a, vtype), Variable.of(b, FLOAT), parallel=((1,), (1,), (6,), (1, extent)), reduced=(3,), maps=tuple(maps),
        guards=(), combine="add", indices=(), body=SubGraph((x, y), (x * y,)),
    )  # fmt: skip
    rows = (Reduce("x1", 16), Unroll("y", 2), Unroll("r0", 3))
    y = TiledContraction(*whole.inputs, whole=whole, schedule=rows, by_hand=False).output
    parts = [slice(48 * k, 48 * k + 48) for k in range(-(-extent // 16))]
    products = a * b.reshape(1, -1, *[1] * len(vtype.shape))
    expected = np.stack([products[:, part].sum(1) for part in parts], axis=1)
    np.testing.assert_allclose(evaluate([y])[0].reshape(expected.shape), expected, rtol=1e-12)
    with VulkanExecutor(Program({"y": y}), device) as run:
        run.run()
        run.wait()
        error = np.abs(run.recv(y).reshape(expected.shape) - expected).max()
        assert error < ROUNDINGS * np.abs(expected).max()


def trained(layer, *shapes) -> Program:
    """Everything that a step of training needs: values, gradients by all leaves, and new values of these."""
    x, *weights = leaves = [Variable(FLOAT, (width, height), n, channels=c) for n, c, height, width in shapes]
    y = layer(x, *weights)
    seed = Variable(FLOAT, y.size, y.batch, channels=y.channels)
    return Program({"y": y, **{f"by {k}": g for k, g in enumerate(gradient(y, leaves, seed))}})


def chain(x, *weights, **options):
    for w in weights:
        x = F.correlate(x, w, **options)
    return x


IMAGE = (1, 1, 512, 512)
PASSES = {
    "3x3": (3, F.correlate, IMAGE, (1, 1, 3, 3)),
    "11x11": (4, F.correlate, IMAGE, (1, 1, 11, 11)),
    "8 channels": (5, F.correlate, (1, 8, 512, 512), (8, 8, 3, 3)),
    "chain": (5, chain, IMAGE, *[(1, 1, 5, 5)] * 4),
}


@pytest.mark.parametrize(
    ("case", "border", "most"),
    [
        *((case, "zero", None) for case in PASSES),
        ("3x3", "clamp", 3),
        ("8 channels", "mirror", 6),
        ("chain", "clamp", 11),
    ],
)
def test_passes_of_a_layer_and_its_gradients(case, border, most):
    fewest, layer, *shapes = PASSES[case]
    program = trained(partial(layer, border=border), *shapes)
    with config(check=True):
        plan = build_plan(program, profile("desktop"), shader_text, EACH_STEP, DESKTOP)
    assert len(plan.sub_stages) <= (most or fewest)


def test_an_optimizer_follows_the_sums_of_a_gradient(device, always):
    """The dispatch that adds up their gradient updates weights in place; others read them before."""
    x, w, target = planes(1, 1, 40, 64), planes(1, 1, 3, 3, 1), planes(1, 1, 40, 64, 2)
    loss = F.sum(F.square(F.correlate(x, w) - target))
    (by_w,) = gradient(loss, [w])
    program = Program({"loss": loss}, ((w, w - 1e-3 * by_w),))
    values, expected = evaluate([w])[0], []
    for _ in range(3):
        found = evaluate([loss, by_w], {w: values})
        expected.append(float(np.squeeze(found[0])))
        values = values - 1e-3 * found[1]
    with VulkanExecutor(program, device, cost=DESKTOP) as run:
        assert any(s.replaces and isinstance(s.work, TiledCompute) for s in run.plan.step.sub_stages)
        got = []
        for _ in range(3):
            run.run()
            run.wait()
            got.append(float(np.squeeze(run.recv(loss))))
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        np.testing.assert_allclose(run.recv(w), values, rtol=1e-5)
