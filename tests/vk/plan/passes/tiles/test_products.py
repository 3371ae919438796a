"""Products by workgroups: when they are made, and values in registers and by units for matrices."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import check_values, program_of

from dressi import FLOAT, F, ShaderError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import NO_MATRIX, MatrixShape, profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.lowering import tile_contractions
from dressi.vk.plan.lowering.chains import is_chain, links_of
from dressi.vk.plan.lowering.register_tiles import ProductLayout
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP, INTEGRATED
from dressi.vk.plan.passes import schedule_contractions as passes
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.shaders.pyglslang import compile_glsl, matrix_compiler

SINGLE = replace(DEFAULT, cache_static=False)
HALF = replace(SINGLE, half_products=True)
LAVAPIPE, NVIDIA, AMD = MatrixShape(8, 8, 8, 8), MatrixShape(16, 16, 16, 32), MatrixShape(16, 16, 16, 64)


def image(*shape, seed=0) -> Variable:
    """Numbers that 16-bit floats hold; with four extents the second one is that of channels."""
    data = (np.random.default_rng(seed).random(shape) - 0.5).astype(np.float16).astype(float)
    (height, width), batch = shape[-2:], shape[0] if len(shape) > 2 else 1
    return Variable(FLOAT, (width, height), batch, channels=shape[1] if len(shape) > 3 else 1, data=data)


def with_gradients(y, *leaves):
    return [F.square(y), *gradient(F.sum(y * image(*y.shape, seed=2)), leaves)]


def matrices(batch=1):
    """Of no whole blocks."""
    a, b = image(batch, 75, 53), image(53, 90, seed=1)
    return with_gradients(F.matmul(a, b), a, b)


def convolved(**options):
    x, w = image(2, 6, 19, 40), image(20, 6, 3, 3, seed=1)
    return with_gradients(F.correlate(x, w, **options), x, w)


def long_sums():
    return [F.matmul(image(20, 3000), image(3000, 20, seed=1))]


CASES = {
    "matrices": matrices,
    "batch": lambda: matrices(3),
    "border": convolved,
    "stride": lambda: convolved(stride=2),
    "dilation": lambda: convolved(dilation=(2, 3)),
    "long": long_sums,
}


def layouts(plan) -> list[ProductLayout]:
    found = [links_of(s)[-1].layout for s in plan.sub_stages if is_chain(s)]
    return [layout for layout in found if isinstance(layout, ProductLayout)]


def with_matrices(shape: MatrixShape):
    return replace(profile("turing"), matrix=shape)


@pytest.fixture
def always_together(always, monkeypatch):
    """Whatever can be such a product is one."""
    monkeypatch.setattr(passes, "FILLED", np.inf)
    monkeypatch.setattr(tile_contractions, "divisions", lambda f, *_: iter([((), False)]))  # no sum in parts
    soonest = passes._soonest_product
    at_once = lambda s, context: (found := soonest(s, context)) and (0.0, found[1])  # noqa: E731
    monkeypatch.setattr(passes, "_soonest_product", at_once)


@pytest.fixture
def always_units(always_together, monkeypatch):
    """By units for matrices, however small."""
    monkeypatch.setattr(passes, "GROUPS", ())


@pytest.mark.parametrize(
    "shape", [(64, 4, 4), (128, 4, 8), (256, 2, 8)], ids=lambda s: "{} invocations of {}x{}".format(*s)
)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.second_driver(
    "matrices-128 invocations of 4x8",
    "batch-64 invocations of 4x4",
    "border-64 invocations of 4x4",
    "dilation-256 invocations of 2x8",
    "stride-128 invocations of 4x8",
)
def test_values(device, always_together, monkeypatch, case, shape):
    lanes, rows, columns = shape
    monkeypatch.setattr(passes, "GROUPS", (lanes,))
    monkeypatch.setattr(passes, "SIDES", (rows, columns))
    monkeypatch.setattr(passes, "LEAST", 8)
    outputs = CASES[case]()
    with VulkanExecutor(program_of(outputs), device, options=SINGLE, cost=DESKTOP) as run:
        assert layouts(run.plan)
        check_values(run, outputs, 30 * 2.0**-24)


@pytest.mark.parametrize("model", [DESKTOP, DATA_CENTRE, INTEGRATED], ids=lambda m: m.name)
def test_large_ones_are_made_by_workgroups(model):
    x, w = Variable(FLOAT, (64, 64), 4, channels=128), Variable(FLOAT, (3, 3), 128, channels=128)
    a, b = Variable(FLOAT, (2048, 2048)), Variable(FLOAT, (2048, 2048))
    for y in (F.correlate(x, w), F.matmul(a, b)):
        plans = [
            build_plan(program_of([y]), profile("turing"), shader_text, options, model)
            for options in (SINGLE, replace(SINGLE, without=("tile_products",)))
        ]
        assert [len(layouts(plan)) for plan in plans] == [1, 0]
        with_tiles, without = (sum(s.seconds for s in predict(plan, model).stages) for plan in plans)
        assert with_tiles < 0.85 * without


@pytest.mark.parametrize("most", [1 << 13, 1 << 11])
def test_workgroups_share_no_more_memory_than_there_is(always_together, most):
    a, b = Variable(FLOAT, (512, 512)), Variable(FLOAT, (512, 512))
    limits = replace(profile("turing"), max_shared_bytes=most)
    (layout,) = layouts(build_plan(program_of([F.matmul(a, b)]), limits, shader_text, SINGLE, DESKTOP))
    assert 4 * layout.shared_words <= most


def test_narrow_devices_make_none():
    a, b = Variable(FLOAT, (512, 512)), Variable(FLOAT, (512, 512))
    plan = build_plan(program_of([F.matmul(a, b)]), profile("lavapipe"), shader_text, SINGLE, CPU)
    assert layouts(plan) == []


def test_units_for_matrices_are_used_where_they_are_asked_for():
    a, b = Variable(FLOAT, (1024, 1024)), Variable(FLOAT, (1024, 1024))
    for limits, options, model, expected in (
        (with_matrices(NVIDIA), HALF, DESKTOP, [True]),
        (with_matrices(NVIDIA), SINGLE, DESKTOP, [False]),
        (with_matrices(NO_MATRIX), HALF, DESKTOP, [False]),
        (with_matrices(NVIDIA), HALF, replace(DESKTOP, matrix_rate=1e9), [False]),
    ):
        plan = build_plan(program_of([F.matmul(a, b)]), limits, shader_text, options, model)
        assert [layout.half for layout in layouts(plan)] == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: F.contract("o[y, x] = max(a[y, k], b[k, x])", a=image(64, 64), b=image(64, 64)),
        lambda: F.contract("o[y, x] = a[y, k] * b[k, x]", combine="max", a=image(64, 64), b=image(64, 64)),
        lambda: F.matmul(image(64, 64), image(64, 1)),
        lambda: F.sum(image(64, 640), "x"),
    ],
    ids=["body", "largest", "vector", "sum"],
)
def test_what_is_no_sum_of_products_of_two_operands_stays(always_together, make):
    plan = build_plan(program_of([make()]), with_matrices(AMD), shader_text, HALF, DESKTOP)
    assert layouts(plan) == []


@pytest.mark.parametrize("shape", [LAVAPIPE, NVIDIA, AMD, MatrixShape(8, 16, 16, 16)], ids=str)
def test_shaders_for_units_compile(always_units, shape):
    try:
        matrix_compiler()
    except ShaderError as error:
        pytest.skip(str(error))
    plan = build_plan(
        program_of([*matrices(2), *convolved()]), with_matrices(shape), shader_text, HALF, DESKTOP
    )
    assert all(layout.half for layout in layouts(plan))
    made = [shaders for shaders in plan.shaders.values() if shaders.matrices]
    assert len(made) > 3
    for shaders in made:
        (source,) = shaders.sources.values()
        assert compile_glsl(source, "compute", "product", matrices=True)


def test_subgroups_have_equal_parts_of_a_workgroup():
    assert [s.parts(64, 64, 64) for s in (LAVAPIPE, NVIDIA, AMD)] == [(1, 8), (2, 4), (4, 4)]
    assert MatrixShape(16, 16, 16, 8).parts(64, 64, 64) is None  # eight subgroups, four times 16 rows
    assert MatrixShape(16, 16, 16, 128).parts(64, 64, 64) is None
    assert MatrixShape(24, 16, 16, 32).parts(64, 64, 64) is None


@pytest.mark.parametrize("case", ["matrices", "batch", "border", "stride"])
def test_values_by_units(device, always_units, case):
    if device.limits.matrix == NO_MATRIX:
        pytest.skip("the device has no units for matrices")
    outputs = CASES[case]()
    with VulkanExecutor(program_of(outputs), device, options=HALF, cost=DESKTOP) as run:
        assert any(layout.half for layout in layouts(run.plan))
        check_values(run, outputs, 2.0**-18)


def test_operands_are_rounded_to_11_bits(device, always_units):
    if device.limits.matrix == NO_MATRIX:
        pytest.skip("the device has no units for matrices")
    a, b = (Variable.of(np.random.default_rng(k).random((80, 80)), FLOAT) for k in range(2))
    y = F.matmul(a, b)
    with VulkanExecutor(program_of([y]), device, options=HALF, cost=DESKTOP) as run:
        run.run()
        run.wait()
        error = np.abs(run.recv(y) / evaluate([y])[0] - 1.0).max()
    assert 1e-6 < error < 2.0**-10
