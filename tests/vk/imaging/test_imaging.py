"""Image processing on devices: pipelines, loops, and the memory of long chains."""

import numpy as np
import pytest
from pipelines import PIPELINES

from dressi import FLOAT, DressiAD, F, PlanOptions, Variable, adam, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.errors import GraphError, InputError, PlanError
from dressi.vk.plan import compiler
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.execution.images import ImageSlot
from dressi.vk.plan.glsl.generate import generate
from dressi.vk.plan.model.records import CPU
from dressi.vk.planning import PlanningEngine, bytes_in_parts
from dressi.vk.run.device.memory import make_image
from dressi.vk.run.device.transfer import SLOTS
from dressi.vk.run.execution.executor import VulkanExecutor


@pytest.mark.release("swiftshader")
def test_pipelines_are_those_of_numpy(device):
    values = {}
    for name, (made, leaves) in PIPELINES.items():
        values[name] = made
        values |= {f"{name} by {k}": g for k, g in enumerate(gradient(made, leaves, seed=F.sin(3.0 * made)))}
    expected = dict(zip(values, evaluate(list(values.values())), strict=True))
    program = simplify(Program(values))
    with VulkanExecutor(program, device) as run:
        run.run()
        found = {name: run.recv(program.outputs[name]) for name in values}
    wrong = [n for n in values if not np.allclose(found[n], expected[n], rtol=1e-4, atol=1e-4)]
    assert wrong == []


def layers(count: int, checkpoints: int | None):
    """Two states, a captured weight, a convolution; a second loop that reads what the first one made."""
    random = np.random.default_rng(0)
    x, w = (
        Variable.of(random.random((6, 9)), name="x"),
        Variable.of(0.2 * random.random((3, 3)), FLOAT, name="w"),
    )

    def body(a, b):
        c = F.sigmoid(F.correlate(a, w) + b)
        return c * a, 0.5 * b + 0.1 * c

    a, b = F.loop(body, [x, 0.5 * x], count, checkpoints=checkpoints)
    c = F.loop(lambda v: v + 0.1 * F.shift(v * a, 1, 0), b, 3)
    return x, [a, *gradient(F.sum(a * b + c), [x, w])]


def close(found, wanted) -> bool:
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("checkpoints", [None, 3])
@pytest.mark.one_driver
def test_a_loop_is_planned_once(device, checkpoints):
    functions = {}
    for count in (4, 10):
        x, outputs = layers(count, checkpoints)
        with DressiAD(device) as ad:
            assert close(ad.evaluate(outputs), evaluate(outputs))
            other = 0.7 * x.data
            ad.send(x, other)
            assert close(ad.evaluate(outputs), evaluate(outputs, {x: other}))
            executor = ad._evaluations.executor(outputs)
            functions[count] = {n: e.plan.counts["functions"] for n, e in executor.executors.items()}
    assert functions[4] == functions[10]


def test_checkpoints_save_memory(device):
    """States that are kept lie where an iteration writes them and others read them."""
    kept = {}
    for checkpoints in (None, 3):
        outputs = layers(24, checkpoints)[1]
        with DressiAD(device) as ad:
            ad.evaluate(outputs)
            procedure = ad._evaluations.executor(outputs).procedure
            kept[checkpoints] = len(procedure.scratch)
            assert not procedure.copies
    assert kept[3] < 0.7 * kept[None]


@pytest.mark.one_driver
def test_a_first_state_that_was_never_sent_is_named(device):
    x = Variable(FLOAT, (6, 5), name="x")
    y = F.loop(lambda v: v + 0.1 * F.shift(v * v, 1, 0), x, 3)
    with DressiAD(device) as ad, pytest.raises(GraphError, match="nothing was ever sent to FLOAT x"):
        ad.evaluate(gradient(F.sum(y), [x]))


def conjugate_gradients(count: int, size: int = 20):
    random = np.random.default_rng(4)
    root = random.normal(size=(size, size))
    system, right = root @ root.T + size * np.eye(size), random.normal(size=(size, 1))
    a, b = Variable.of(system, FLOAT, name="a"), Variable.of(right, FLOAT, name="b")

    def step(x, r, p):
        q, energy = F.matmul(a, p), F.sum(r * r)
        rest = r - energy / F.sum(p * q) * q
        return x + energy / F.sum(p * q) * p, rest, rest + F.sum(rest * rest) / energy * p

    x = F.loop(step, [0.0 * b, b, b], count, until=lambda x, r, p: F.sum(r * r) < 1e-13)[0]
    weight = random.normal(size=(size, 1))
    solution, adjoint = np.linalg.solve(system, right), np.linalg.solve(system, weight)
    return [x, *gradient(F.sum(x * Variable.of(weight, FLOAT)), [a, b])], solution, adjoint


@pytest.mark.one_driver
def test_a_loop_ends_where_its_condition_is_met(device):
    """Beyond it the directions of conjugate gradients are 0 / 0."""
    outputs, solution, adjoint = conjugate_gradients(20)
    with DressiAD(device) as ad:
        x, by_a, by_b = (value[0] for value in ad.evaluate(outputs))
    assert np.allclose(x, solution, atol=1e-5)
    implicit = -adjoint @ solution.T
    # Iterations know A by A p alone, and A is symmetric: its gradient is compared as that of a symmetric matrix.
    assert np.abs(by_a + by_a.T - implicit - implicit.T).max() < 1e-5 * np.abs(implicit).max()
    assert np.abs(by_b - adjoint).max() < 1e-5 * np.abs(adjoint).max()


def test_a_loop_that_does_not_converge_is_named(device):
    outputs, *_ = conjugate_gradients(3)
    with DressiAD(device) as ad, pytest.warns(RuntimeWarning, match="did not meet its condition in 3 iter"):
        ad.evaluate(outputs)
    with pytest.warns(RuntimeWarning, match="raise its count, or loosen the condition"):
        evaluate(outputs)


@pytest.mark.one_driver
def test_more_values_are_read_than_have_slots(device):
    """What tells whether a loop ended is read when a result is asked for, not while a transfer waits for a slot."""
    x = F.loop(lambda x: 0.5 * x, Variable.of(np.ones((2, 6)), FLOAT), 2, until=lambda x: F.sum(x) < 0.0)
    outputs = [x + float(k) for k in range(SLOTS + 2)]
    with DressiAD(device) as ad, pytest.warns(RuntimeWarning, match="did not meet its condition"):
        found = ad.evaluate(outputs)
    assert close(found, [np.full((2, 6), 0.25 + k) for k in range(SLOTS + 2)])


def test_a_bound_of_memory_that_no_loop_fits_is_named(device):
    x, (a, *_) = layers(6, None)
    with DressiAD(device, options=PlanOptions(memory=6000)) as ad:
        ad.set_loss(F.mean(F.square(a)))
        ad.set_optimizer(adam(0.1), [x])
        with pytest.raises(
            PlanError, match=r"memory=6000 allows 0.0 even where loops keep \d states; give more"
        ):
            ad.step()


@pytest.mark.release
@pytest.mark.one_driver
def test_a_step_takes_no_more_than_its_bound(device):
    """Programs share images whatever they use them for, and the memory is free through which the first state was sent. The bound
    is of texels; what a device adds to each image comes on top."""
    size, layers = (320, 256), 6
    image = 4 * 4 * size[0] * size[1]
    x = Variable(FLOAT, size, channels=4, data=np.random.default_rng(0).random((1, 4, *size[::-1])), name="x")
    w = Variable(FLOAT, (3, 3), 4, channels=4, data=np.full((4, 4, 3, 3), 0.01), name="w")
    y = F.loop(lambda v: v + F.sigmoid(F.correlate(v, w, border="clamp")), x, layers)
    with DressiAD(device, options=PlanOptions(memory=10 * image)) as ad:
        ad.set_loss(F.mean(F.square(y)))
        ad.set_optimizer(adam(0.1), [w])
        ad.step()
        ad.wait()
        used, images = device.memory.used, len(device.memory._of)
        one, large = (make_image(device, ImageSlot(4, False, *s), "padded") for s in ((1, 1), size))
        padded = [device.memory._of[i.handle].size for i in (one, large)]
        for i in (one, large):
            i.destroy(device)
        assert used < 10 * image + 10 * (padded[1] - image) + images * (padded[0] - 16)


def planned(layers: int, memory: int = 0):
    """The plan of a step that trains a chain of convolutions."""
    weight = Variable(FLOAT, (3, 3), 2, channels=2, data=np.zeros((2, 2, 3, 3)), name="weight")
    x = Variable(FLOAT, (128, 96), channels=2, data=np.zeros((1, 2, 96, 128)), name="x")
    engine = PlanningEngine(PROFILES["lavapipe"], CPU, shader_text, options=PlanOptions(memory=memory))
    y = F.loop(lambda v: v + F.sigmoid(F.correlate(v, weight, border="clamp")), x, layers)
    engine.set_loss(F.mean(F.square(y)))
    engine.set_optimizer(adam(0.1), [weight])
    return engine.plan


@pytest.mark.release
def test_loops_compute_again_what_does_not_fit():
    stored = planned(7)
    whole = stored.counts["image_bytes"]
    bounded = planned(7, int(0.6 * whole))
    assert bounded.counts["image_bytes"] <= 0.6 * whole
    assert bounded.counts["functions"] > stored.counts["functions"]
    assert planned(7, whole).key == stored.key
    with pytest.raises(PlanError, match=r"allows 0.1 even where loops keep \d states; give more"):
        planned(7, 1 << 17)
    with pytest.raises(InputError, match="memory is -1"):
        PlanOptions(memory=-1)


def test_parts_of_a_loop_share_images_that_differ_by_a_margin():
    """Of 3 x 3 weights: what an iteration pads and its gradient have 1026 x 1026 texels and 1024 x 1024 of the same format. A border
    that the convolution reads itself takes no such image."""
    size, weight = (1024, 1024), Variable(FLOAT, (3, 3), 4, channels=4, data=np.zeros((4, 4, 3, 3)))

    def taken(memory: int, correlated=lambda v: F.correlate(v, weight, border="clamp")) -> int:
        x = Variable(FLOAT, size, channels=4)
        y = F.loop(lambda v: v + F.sigmoid(correlated(v)), x, 5, checkpoints=2)
        program = simplify(Program({}, ((weight, gradient(F.sum(F.square(y)), [weight])[0]),)))
        options = PlanOptions(memory=memory)
        return bytes_in_parts(
            program,
            lambda one, changing: build_plan(
                one, PROFILES["lavapipe"], shader_text, options, CPU, changing, every=True
            ),
        )

    def padded(v: Variable) -> Variable:
        return F.correlate(F.pad(v, 1, 1, 1, 1, "clamp"), weight, border=None)

    image = 4 * 4 * size[0] * size[1]
    assert taken(1 << 40, padded) < min(11.1 * image, taken(0, padded))
    assert taken(1 << 40) < taken(1 << 40, padded)


def test_shaders_of_layers_that_are_alike_are_generated_once(monkeypatch):
    calls = {}
    for layers in (4, 6):
        made = []
        monkeypatch.setattr(
            compiler, "generate", lambda s, *more, made=made: made.append(s) or generate(s, *more)
        )
        plan = planned(layers)
        calls[layers] = len(made), len(plan.sub_stages)
    assert calls[4][0] == calls[6][0] and calls[6][1] >= calls[4][1] + 6
    for s, shaders in plan.shaders.items():
        own = generate(s, plan.limits, shader_text)
        assert (own.resources, own.sources) == (shaders.resources, shaders.sources)
