"""Register tiles that make what they read of each other: values on every driver, and the choice."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import check_values, program_of

from dressi import FLOAT, VEC3, F, Variable, gradient
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.core.substage import TiledCompute
from dressi.vk.plan.lowering import tile_contractions
from dressi.vk.plan.lowering.chains import is_chain, links_of, staged_in
from dressi.vk.plan.lowering.register_tiles import Packed
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP
from dressi.vk.plan.passes import schedule_contractions as passes
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor

ROUNDINGS = 30 * 2.0**-24  # of the largest value
EACH_STEP = replace(DEFAULT, cache_static=False)


def image(*shape, vtype=FLOAT, seed=0) -> Variable:
    return Variable.of(np.random.default_rng(seed).random(shape) - 0.5, vtype)


def planes(n, c, height, width, seed=0) -> Variable:
    data = np.random.default_rng(seed).random((n, c, height, width)) - 0.5
    return Variable(FLOAT, (width, height), n, channels=c, data=data)


def residual():
    """The gradient of a squared difference by the image makes the convolution again for each block."""
    x, w, target = image(2, 37, 70), image(3, 5, seed=1), image(2, 37, 70, seed=2)
    return gradient(F.sum(F.square(F.convolve(x, w) - target)), [x])[0]


def three():
    w = image(3, 5, seed=1)
    return F.correlate(F.correlate(F.max(F.correlate(image(37, 70), w), 0.0), w), w)


def strided():
    w = image(3, 5, seed=1)
    return F.correlate(F.correlate(F.correlate(image(40, 72), w, stride=2), w), w, dilation=2)


def inside():
    w = image(4, 3, seed=1)
    return F.correlate(F.correlate(image(37, 70), w, border=None), w, border=None)


def layers():
    """An inner value of several channels, with a bias and an activation."""
    hidden = F.max(F.correlate(planes(1, 2, 20, 40), planes(3, 2, 3, 3, 1)) + planes(1, 3, 1, 1, 2), 0.0)
    return F.correlate(hidden, planes(2, 3, 3, 3, 3))


def components():
    w = image(3, 5, seed=1)
    return F.correlate(F.correlate(image(20, 70, 3, vtype=VEC3), w), w)


def bodies():
    """Largest differences are no products, and weights depend on the values."""
    far = "o[y, x] = exp(-abs(a[y, x + i] - a[y, x])) * a[y, x + i] * (1 + i)"
    inner = F.contract(far, a=image(20, 80), extents={"i": 3, "x": 78})
    return F.correlate(inner, image(3, 3, seed=1))


CASES = {f.__name__: f for f in (residual, three, strided, inside, layers, components, bodies)}
FORMS = {
    "registers": lambda s, staged: not staged,
    "values": lambda s, staged: 0 < len(staged) < len(s.work.schedules),
    "images": lambda s, staged: len(staged) >= len(s.work.schedules),
}


def staged(s):
    """The values that workgroups stage in shared memory."""
    return staged_in(links_of(s)) if is_chain(s) else frozenset()


def forced(monkeypatch, form, model):
    """Contractions that read each other are always chains of few rows, which compile fast."""
    roomy = replace(model, straight=1200)
    monkeypatch.setattr(passes, "TILE_ROWS", (2,))
    monkeypatch.setattr(passes, "ITEM_ROWS", 2)

    def one(s, limits, model):
        found = [x for x in passes.chain_schedules(s, limits, roomy) if FORMS[form](x, staged(x))]
        return (-(float(len(found[-1].work.schedules)) ** 2), found[-1]) if found else None

    monkeypatch.setattr(passes, "soonest_chain", one)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", ["residual", "layers"])
@pytest.mark.second_driver("residual-images")
def test_values_of_packed_operands(device, always, monkeypatch, case, form):
    """Kernels whose neighbours share a texel; loops visit one after the other where a block is cut short."""
    monkeypatch.setattr(tile_contractions, "pack_seconds", lambda *_: 0.0)
    model = replace(DESKTOP, wider=0.0)  # whose packed texels take no longer
    forced(monkeypatch, form, model)
    made = CASES[case]()
    with VulkanExecutor(Program({"y": made}), device, options=EACH_STEP, cost=model) as run:
        assert any(isinstance(f, Packed) for f in run.plan.program.functions)
        check_values(run, [made], ROUNDINGS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.second_driver(
    "layers-registers", "strided-images", "components-values", "three-registers", "bodies-registers"
)
def test_values(device, always, monkeypatch, case, form):
    forced(monkeypatch, form, DESKTOP)
    made = CASES[case]()
    with (
        config(check=True),
        VulkanExecutor(Program({"y": made}), device, options=EACH_STEP, cost=DESKTOP) as run,
    ):
        chains = [s.work for s in run.plan.sub_stages if isinstance(s.work, TiledCompute) and is_chain(s)]
        assert max(len(work.schedules) for work in chains) >= 2
        texts = [text for shaders in run.plan.shaders.values() for text in shaders.sources.values()]
        assert not any("dressi_make" in text for text in texts), "an inner value is made term by term"
        check_values(run, [made], ROUNDINGS)
        assert predict(run.plan, DESKTOP).totals["seconds"] > 0


def test_workgroups_load_images_once(device, always, monkeypatch):
    """A product of matrices and a kernel alone, whose operands workgroups stage."""
    forced(monkeypatch, "images", DESKTOP)
    outputs = [
        F.correlate(image(2, 21, 70), image(5, 3, seed=1)),
        F.matmul(image(37, 24), image(24, 70, seed=1)),
    ]
    program = program_of(outputs)
    options = replace(EACH_STEP, without=("fuse_contractions",))
    with config(check=True), VulkanExecutor(program, device, options=options, cost=DESKTOP) as run:
        found = [staged(s) for s in run.plan.sub_stages if isinstance(s.work, TiledCompute)]
        assert len(found) == 2 and all(found)
        check_values(run, outputs, ROUNDINGS)


def chain(width, height, *kernel) -> Program:
    """The paper's chain: the gradient of a squared residual by the image."""
    x, target = Variable(FLOAT, (width, height)), Variable(FLOAT, (width, height))
    y = F.convolve(x, Variable(FLOAT, kernel))
    return Program({"slope": gradient(F.sum(F.square(y - target)), [x])[0]})


@pytest.mark.parametrize("model", [DESKTOP, DATA_CENTRE], ids=lambda m: m.name)
@pytest.mark.parametrize("kernel", [(1, 5), (3, 5)])
def test_wide_devices_make_a_residual_for_each_block(model, kernel):
    """It takes less than a dispatch for each of the two, of which the first stores what the second loads."""
    program = chain(2560, 1600, *kernel)
    plans = [
        build_plan(program, profile("desktop"), shader_text, replace(EACH_STEP, without=left_out), model)
        for left_out in ((), ("overlap_tiles",))
    ]
    once, twice = (sum(isinstance(s.work, TiledCompute) for s in plan.sub_stages) for plan in plans)
    assert (once, twice) == (1, 2)
    fast, slow = (predict(plan, model).totals["seconds"] for plan in plans)
    assert fast < slow


def test_what_others_read_is_stored():
    """The convolution itself is an output, so that nothing is saved by making it again."""
    x, w = Variable(FLOAT, (2560, 1600)), Variable(FLOAT, (1, 5))
    y = F.convolve(x, w)
    plan = build_plan(
        Program({"y": y, "z": F.convolve(y, w)}), profile("desktop"), shader_text, EACH_STEP, DESKTOP
    )
    assert max(len(s.work.schedules) for s in plan.sub_stages if isinstance(s.work, TiledCompute)) <= 1


def test_cpu_drivers_stage_nothing():
    plan = build_plan(chain(2560, 1600, 3, 5), profile("lavapipe"), shader_text, EACH_STEP, CPU)
    assert not any(staged(s) for s in plan.sub_stages if isinstance(s.work, TiledCompute))
