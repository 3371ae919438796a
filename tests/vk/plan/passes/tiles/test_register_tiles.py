"""Contractions by register tiles: values against float64 on every driver, and which schedules are chosen."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples import EXAMPLES
from graphs import check_values, program_of

from dressi import FLOAT, VEC3, F, Variable, gradient
from dressi.ad.contract.contraction import ContractFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.traversal import topological_order
from dressi.ad.transform.rewrite import replaced
from dressi.config import config, shader_text
from dressi.vk.plan.analysis.context import Target
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.core.substage import TiledCompute
from dressi.vk.plan.lowering import tile_contractions
from dressi.vk.plan.lowering.register_tiles import Layout, Packed, TiledContraction
from dressi.vk.plan.model.records import CPU, DESKTOP, LAVAPIPE, SWIFTSHADER, TILER
from dressi.vk.plan.model.schedules import Bind, Pack, Shuffle, Unroll
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.shaders.pyglslang import compile_glsl

ROUNDINGS = 30 * 2.0**-24  # of the largest value


def image(*shape, vtype=FLOAT, seed=0) -> Variable:
    return Variable.of(np.random.default_rng(seed).random(shape) - 0.5, vtype)


def convolved(**options):
    x, w = image(2, 21, 70), image(5, 3, seed=1)
    y = F.correlate(x, w, **options)
    return [y, *gradient(F.sum(y * image(*y.shape, seed=2)), [x, w])]


def products():
    a, b = image(2, 37, 48), image(48, 70, seed=1)
    y = F.matmul(a, b)
    return [y, *gradient(F.sum(y * image(*y.shape, seed=2)), [a, b])]


def channels(groups=1, **options):
    """2 images of 6 channels, and 8 of the output."""
    x, w = planes(2, 6, 19, 40), planes(8, 6 // groups, 3, 3, seed=1)
    y = F.correlate(x, w, groups=groups, **options)
    return [y, *gradient(F.sum(y * planes(*y.shape, seed=2)), [x, w])]


def planes(n, c, height, width, seed=0) -> Variable:
    data = np.random.default_rng(seed).random((n, c, height, width)) - 0.5
    return Variable(FLOAT, (width, height), n, channels=c, data=data)


def components():
    return [F.correlate(image(20, 70, 3, vtype=VEC3), image(3, 5, seed=1))]


def bodies():
    hat = "o[y, x] = a[z, y // 4, x // 4] * max(1 - abs(z - 2.5 * b[y, x]), 0)"
    return [F.contract(hat, a=image(4, 5, 20), b=0.5 + image(20, 80, seed=1))]


def long_sums():
    a, b = image(3, 3000), image(3000, 20, seed=1)
    return [F.matmul(a, b)]


def products_with_itself():
    a = image(40, 60)
    y = F.contract("o[y, x] = a[k, y] * a[k, x]", a=a)
    return [y, *gradient(F.sum(y * image(*y.shape, seed=2)), [a])]


def volumes(border):
    """A kernel along all four axes, over images and channels; a function that needs a helper."""
    x, w = planes(6, 4, 5, 40), planes(3, 2, 3, 3, seed=1)
    text = "o[n, c, y, x] = sin(v[n + l - 1, c + k - 2, y + j - 2, x + i - 1] * w[l, k, j, i])"
    y = F.contract(text, v=x, w=w, border=border)
    return [y, *gradient(F.sum(y * planes(*y.shape, seed=2)), [x, w])]


CASES = {
    "itself": products_with_itself,
    "border": lambda: convolved(),
    "valid": lambda: convolved(border=None),
    "stride": lambda: convolved(stride=2),
    "dilation": lambda: convolved(dilation=(2, 3)),
    "clamp": lambda: convolved(border="clamp", stride=2),
    "mirror": lambda: convolved(border="mirror", dilation=(2, 30)),
    "repeat": lambda: channels(border="repeat"),
    "volumes": lambda: volumes("reflect"),
    "volumes around": lambda: volumes("repeat"),
    "products": products,
    "channels": channels,
    "groups": lambda: channels(groups=2),
    "strided channels": lambda: channels(stride=2),
    "components": components,
    "bodies": bodies,
    "long": long_sums,
}
MODELS = {"cpu": CPU, "desktop": DESKTOP, "tiler": TILER}


def tiled(whole, *rows, inputs=None) -> TiledContraction:
    """A contraction by a schedule."""
    return TiledContraction(*(inputs or whole.inputs), whole=whole, schedule=rows, by_hand=False)


def source_of(y: Variable) -> str:
    """The one shader of a plan."""
    plan = build_plan(Program({"y": y}), profile("desktop"), shader_text)
    (source,) = (source for shaders in plan.shaders.values() for source in shaders.sources.values())
    return source


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.second_driver(
    "border-cpu", "channels-desktop", "products-tiler", "components-cpu", "bodies-cpu", "long-desktop"
)
def test_values(device, always, case, model):
    outputs = CASES[case]()
    program = program_of(outputs)
    with VulkanExecutor(program, device, cost=MODELS[model]) as run:
        assert any(isinstance(f, TiledContraction) for f in run.plan.program.functions)
        check_values(run, outputs, ROUNDINGS)


@pytest.mark.parametrize("case", CASES)
def test_the_meaning_is_that_of_the_contraction(always, case):
    """Packed operands and register tiles in NumPy, too."""
    program = program_of(CASES[case]())
    lowered = replaced(program, tile_contractions.tile_contractions(program, Target(profile("lavapipe"))))
    assert any(isinstance(f, TiledContraction) for f in lowered.functions)
    for got, expected in zip(evaluate(lowered.roots), evaluate(program.roots), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def planned(program: Program, model=CPU, **options):
    name = "lavapipe" if model is CPU else "desktop"
    return build_plan(program, profile(name), shader_text, replace(DEFAULT, **options), model)


@pytest.mark.parametrize("model", MODELS)
def test_large_products_are_done_by_register_tiles(model):
    a, b = Variable(FLOAT, (1024, 1024)), Variable(FLOAT, (1024, 1024))
    program = Program({"product": F.matmul(a, b)})
    with config(check=True):
        plans = [
            planned(program, MODELS[model], tile_contractions=on, cache_static=False) for on in (True, False)
        ]
    assert [any(isinstance(s.work, TiledCompute) for s in plan.sub_stages) for plan in plans] == [True, False]
    fast, slow = (sum(s.seconds for s in predict(plan, MODELS[model]).stages) for plan in plans)
    assert fast < 0.5 * slow


def test_small_products_stay_as_they_are():
    program = Program({"product": F.matmul(Variable(FLOAT, (8, 8)), Variable(FLOAT, (8, 8)))})
    assert not any(isinstance(s.work, TiledCompute) for s in planned(program).sub_stages)


def test_one_view_and_many_plan_alike():
    found = []
    for views in (1, 7):
        x, w = Variable(FLOAT, (256, 256), views, channels=8), Variable(FLOAT, (5, 5), 8, channels=8)
        y = F.correlate(x, w)
        plan = planned(Program({"y": y}))
        found.append([f.schedule for f in plan.program.functions if isinstance(f, TiledContraction)])
    assert found[0] == found[1] and len(found[0]) == 1


def test_a_block_loads_what_its_entries_share():
    """4 rows of a 3 x 3 convolution read 6 x 3 texels and 9 weights, 3 of them packed into a load."""
    y = F.correlate(Variable(FLOAT, (128, 128)), Variable(FLOAT, (3, 3)))
    whole = y.creator
    assert isinstance(whole, ContractFunction)
    x, w = whole.inputs
    rows = (Bind("x", 64), Unroll("y", 4), Unroll("r0", 3), Unroll("r1", 3), Pack(1, "y"))
    f = tiled(whole, *rows, inputs=(x, Packed(w, axis=2).output))
    assert f.loads == (18, 3) and f.layout.products == 36 and f.iterations == 1
    assert tile_contractions.tiled(whole, profile("lavapipe"), CPU) is None


def test_invocations_of_a_subgroup_share_weights():
    """Eight channels of a 3 x 3 convolution read 72 weights, nine for each of eight invocations, which
    shuffle them; texels of the image lie beside each other along the lanes, and each invocation loads its
    own."""
    x, w = Variable(FLOAT, (64, 64), channels=8), Variable(FLOAT, (3, 3), 8, channels=8)
    whole = F.correlate(x, w).creator
    assert isinstance(whole, ContractFunction)
    blocks = (Unroll("c", 8), Unroll("y", 2), Unroll("r1", 3), Unroll("r2", 3))
    f = tiled(whole, Bind("x", 16), *blocks, Shuffle(8))
    assert f.loads == (12, 9)
    source = source_of(f.output)
    assert source.count("imageLoad(") + source.count("texelFetch(") == 21
    assert source.count("subgroupShuffle(") == 72
    compile_glsl(source, "compute", "tiles")


@pytest.mark.parametrize(("model", "invocations"), [(CPU, 8), (DESKTOP, 1)])
def test_subgroups_share_on_cpu_drivers(model, invocations):
    """There, each invocation loads alone; elsewhere caches serve those that read the same texel."""
    y = F.correlate(Variable(FLOAT, (256, 256), channels=32), Variable(FLOAT, (3, 3), 32, channels=32))
    found = [
        f.layout.subgroup
        for f in planned(Program({"y": y}), model).program.functions
        if isinstance(f, TiledContraction)
    ]
    assert found == [invocations]


def test_a_block_loads_a_cell_once():
    """Sixteen rows of one cell, whose index is divided, read one row of it, in the text of a block too."""
    image, cells = Variable(FLOAT, (64, 128)), Variable(FLOAT, (64, 8))
    text = "o[y, x] = (g[(y + 16) // 32 + j, x] + j) * a[y, x]"
    whole = F.contract(text, a=image, g=cells, extents={"y": 128, "j": 2}).creator
    assert isinstance(whole, ContractFunction)
    y = tiled(whole, Bind("x", 16), Unroll("y", 16), Unroll("r0", 2))
    assert y.loads == (2, 16)
    source = source_of(y.output)
    assert source.count("imageLoad(") + source.count("texelFetch(") == 18


def test_gradients_of_filled_axes_have_no_guards():
    """A gradient by coefficients at 8 * c + z has one term for each texel that it reads."""
    grid, weight = Variable(FLOAT, (20, 10), channels=24), Variable(FLOAT, (20, 10), channels=8)
    made = F.contract(
        "o[n, c, y, x] = grid[n, 8 * c + z, y, x] * w[n, z, y, x]", grid=grid, w=weight, extents={"c": 3}
    )
    (slope,) = gradient(F.sum(F.square(made)), [grid])
    (f,) = (
        f for f in topological_order([slope]) if isinstance(f, ContractFunction) and f.output.channels == 24
    )
    assert (f.parallel[1], f.reduced, f.guards) == ((3, 8), (), ())


def test_gradients_of_strides_have_few_terms():
    """A texel of an image is read by the taps of a kernel, not by all rows of the halved image."""
    image = Variable(FLOAT, (40, 60))
    halved = F.correlate(image, Variable(FLOAT, (5, 5)), stride=2)
    (slope,) = gradient(F.sum(F.square(halved)), [image])
    (f,) = (
        f for f in topological_order([slope]) if isinstance(f, ContractFunction) and f.output.size == (40, 60)
    )
    assert f.terms == 25


SAMPLES = [build().output for build in EXAMPLES[ContractFunction]]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.second_driver("desktop")
def test_every_example(device, always, monkeypatch, model):
    """All forms of indices, guards and bodies by register tiles, whose lanes may be few."""
    monkeypatch.setattr(tile_contractions, "LEAST_LANES", 1)
    tile_contractions.chosen.cache_clear()
    program = Program({f"example {k}": v for k, v in enumerate(SAMPLES)})
    with VulkanExecutor(program, device, cost=MODELS[model]) as run:
        made = sum(isinstance(f, TiledContraction) for f in run.plan.program.functions)
        assert made > len(SAMPLES) // 2
        check_values(run, SAMPLES, ROUNDINGS)


def test_golden_glsl():
    """2 rows and the 3 columns of a kernel in a block, a loop over rows. To change it delete the file."""
    whole = F.correlate(Variable(FLOAT, (20, 7)), Variable(FLOAT, (3, 3))).creator
    assert isinstance(whole, ContractFunction)
    y = tiled(whole, Bind("x", 16), Unroll("y", 2), Unroll("r1", 3)).output
    source = source_of(y)
    compile_glsl(source, "compute", "tiles")
    file = Path(__file__).parents[2] / "golden" / "tiles.glsl"
    if not file.exists():
        file.write_text(source)
    assert source == file.read_text()


def test_neighbouring_workgroups_share_the_larger_operand():
    """96 channels of 64 x 64 texels, 32 weights: channels first. Images of 4 x 4: columns first."""
    for extent, first in ((64, [1, 3, 2]), (4, [3, 2, 1])):
        x, w = Variable(FLOAT, (extent, extent), channels=96), Variable(FLOAT, (3, 3), 32, channels=96)
        f = F.correlate(x, w).creator
        assert isinstance(f, ContractFunction)
        assert [a for a in Layout(f, (Bind("x", 64),)).order if f.extents[a] > 1] == first


def test_tiles_in_columns(device, always):
    """Images of more channels than are allowed below each other."""
    outputs = channels()
    limits = replace(profile("lavapipe"), max_image_dimension=120, max_framebuffer_height=120)
    assert limits.tiling(outputs[0]).columns > 1
    program = program_of(outputs)
    with VulkanExecutor(program, device, limits=limits) as run:
        assert any(isinstance(f, TiledContraction) for f in run.plan.program.functions)
        check_values(run, outputs, ROUNDINGS)


@pytest.mark.parametrize("model", [CPU, LAVAPIPE, SWIFTSHADER], ids=lambda m: m.name)
def test_long_contractions_may_have_blocks_that_compile_longer(model):
    def block(channels, size):
        x, w = (
            Variable(FLOAT, (size, size), channels=channels),
            Variable(FLOAT, (3, 3), channels, channels=channels),
        )
        return tile_contractions.tiled(
            F.correlate(x, w).creator, profile("lavapipe"), model
        ).creator.layout.products

    assert block(96, 128) == 1152
    assert block(8, 32) <= model.straight


@pytest.mark.parametrize("model", [CPU, DESKTOP])
def test_columns_between_those_of_a_stride_need_no_tests(model):
    """The gradient of every second column: invocations make pairs, whose weights are known."""
    image = Variable(FLOAT, (2048, 2048))
    halved = F.correlate(image, Variable(FLOAT, (5, 1)), stride=(2, 1))
    (slope,) = gradient(halved, [image], Variable(FLOAT, halved.size))
    plan = planned(Program({"slope": slope}), model, cache_static=False)
    (f,) = (f for f in plan.program.functions if isinstance(f, TiledContraction))
    assert f.part.parallel[3][-2:] == (1024, 2) and f.part.extents[f.layout.lane] == 1024
    sources = [source for shaders in plan.shaders.values() for source in shaders.sources.values()]
    assert not any("% 2 == 0" in source for source in sources)
