"""The reactive cache: whatever is sent when, results are those without a cache, and only what must run runs."""

import numpy as np
import pytest
from graphs import optimising, random_program
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dressi import FLOAT, VEC3, VEC4, DressiAD, F, PlanError, Variable, adam, gradient
from dressi.ad.graph.evaluation import NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import HISTORY
from dressi.vk.plan.core.options import DEFAULT, PlanOptions
from dressi.vk.plan.core.substage import Raster
from dressi.vk.run.device.transfer import Readback
from dressi.vk.run.execution import executor
from dressi.vk.run.execution.built import BuiltPlan
from dressi.vk.run.execution.executor import PATIENCE, PLANS, PROMPT, Reactive, VulkanExecutor

pytestmark = pytest.mark.one_driver
UNCACHED = PlanOptions(cache_static=False)
UNADAPTED = PlanOptions(adapt=False)

# (leaves as bits, steps behind each send, how often)
bursts = st.tuples(
    st.just("send"), st.integers(0, 31), st.sampled_from([0, 1, 1, 1, 2, 4]), st.integers(1, 4)
)
reads = st.tuples(st.just("read"), st.integers(0, 20), st.just(0), st.just(0))


def random_schedule_program(seed: int, updated: int) -> tuple[Program, Variable]:
    """As ``random_program``, but only so many leaves are updated; and a value that is read beside the steps."""
    program = random_program(seed, 14)
    rest = [new for _, new in program.updates[updated:]]
    beside = F.sum(sum((F.sum(v.x) for v in rest), start=program.outputs["last"].x))
    outputs = {**program.outputs, **{f"new {k}": v for k, v in enumerate(rest)}}
    return Program(outputs, program.updates[:updated]), beside


class Watched:
    """An executor of steps, and one over the same leaves that computes a value at them as they are now."""

    def __init__(self, program: Program, beside: Variable, device, options: PlanOptions = DEFAULT):
        self.steps = VulkanExecutor(program, device, options=options)
        self.reader = VulkanExecutor(
            Program({"beside": beside}), device, options=options, workspace=self.steps.workspace
        )
        self.program, self.beside = program, beside
        self.send, self.run = self.steps.send, self.steps.run

    def recv_async(self, value: Variable) -> Readback:
        if value is not self.beside:
            return self.steps.recv_async(value)
        self.reader.run()
        return self.reader.recv_async(value)

    def recv(self, value: Variable) -> np.ndarray:
        return self.recv_async(value).result()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reader.close()
        self.steps.close()


class Meaning(NumpyExecutor):
    """The same in float64."""

    def __init__(self, program: Program, beside: Variable):
        super().__init__(program)
        self.beside = beside

    def recv(self, variable):
        return evaluate([variable], self._state)[0] if variable is self.beside else super().recv(variable)


def play(run, schedule: list) -> list[np.ndarray]:
    """Everything read while a schedule is played, much of it later than it was asked for, and all values at its end."""
    program, rng, seen = run.program, np.random.default_rng(0), []
    values = [*program.outputs.values(), *program.leaves, run.beside]
    for kind, which, steps, times in schedule:
        if kind == "read":
            value = values[which % len(values)]
            seen.append(
                run.recv_async(value) if which % 2 and hasattr(run, "recv_async") else run.recv(value)
            )
        for _ in range(times):
            for leaf in (v for k, v in enumerate(program.leaves) if which >> k & 1):
                high = leaf.vtype.is_int and 18
                run.send(leaf, rng.integers(-1, high, leaf.shape) if high else rng.uniform(-1, 1, leaf.shape))
            run.run(steps)
    late = [value.result() if isinstance(value, Readback) else value for value in seen]
    return [*late, *map(run.recv, values)]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_read_beside_leaves_outputs_and_leaves_alone(device, seed):
    """Against the oracle: both may be wrong in the same way with a cache and without."""
    program, beside = random_schedule_program(seed, 2)
    schedule = [("send", 0, 2, 1), *(("read", k, 0, 0) for k in (10, 0, 11, 1, 10)), ("send", 24, 1, 2)]
    with Watched(program, beside, device) as run:
        for a, b in zip(play(run, schedule), play(Meaning(program, beside), schedule), strict=True):
            assert np.abs(a - b).max() <= 1e-4 * max(np.abs(b).max(), 1.0)


@pytest.mark.release
@settings(max_examples=10, suppress_health_check=[*HealthCheck], phases=[Phase.generate])
@given(
    seed=st.integers(0, 10**6),
    updated=st.integers(0, 3),
    schedule=st.lists(st.one_of(bursts, bursts, reads), min_size=4, max_size=14),
)
def test_no_schedule_gives_another_result(device, monkeypatch, seed, updated, schedule):
    monkeypatch.setattr(executor, "PROMPT", 2)
    monkeypatch.setattr(executor, "PATIENCE", 3)
    program, beside = random_schedule_program(seed, updated)
    with Watched(program, beside, device) as cached, Watched(program, beside, device, UNCACHED) as plain:
        for a, b in zip(play(cached, schedule), play(plain, schedule), strict=True):
            assert a.tobytes() == b.tobytes()


def coloured() -> tuple[list[Variable], Program, Variable]:
    """Colours of triangles from a picture: the gradient is scattered, on active blocks."""
    rng = np.random.default_rng(4)
    corners = rng.uniform(-0.9, 0.9, (2, 1, 9, 4))
    corners[..., 2:] = (0.5, 1.0)
    position = Variable(VEC4, (9, 1), 2, name="position", data=corners)
    camera = Variable(FLOAT, name="camera", data=np.full((1, 1, 1), 0.9))
    target = Variable(FLOAT, (20, 16), 2, name="target", data=rng.random((2, 16, 20)))
    colors = Variable(FLOAT, (3, 1), name="colors", data=np.zeros((1, 1, 3)))
    seen = position * F.vec4(camera, camera, 1.0, 1.0)
    face = F.rasterize(seen, size=(20, 16), fragment=lambda face: (F.to_float(face) * 0.25, None))
    covered = F.greater_equal(face, 0)
    loss = F.sum(F.select(covered, F.square(F.lookup(colors, face) - target), 0.0))
    (slope,) = gradient(loss, [colors])
    program = Program({"covered": F.to_float(covered)}, ((colors, colors - 0.05 * slope),))
    return [camera, target, position], program, loss


@settings(max_examples=6, suppress_health_check=[*HealthCheck], phases=[Phase.generate])
@given(
    schedule=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 5), st.booleans()), min_size=4, max_size=8)
)
def test_rasters_that_rest_leave_what_scatters_need(device, monkeypatch, schedule):
    """(leaves as bits, steps, whether values are read in between)"""
    monkeypatch.setattr(executor, "PROMPT", 1)
    monkeypatch.setattr(executor, "PATIENCE", 4)
    leaves, program, loss = coloured()
    with Watched(program, loss, device) as cached, Watched(program, loss, device, UNCACHED) as plain:
        read = [*program.outputs.values(), *program.leaves, loss]
        rng = np.random.default_rng(0)
        for which, steps, asks in [(1, 1, True)] * 4 + schedule:
            for v in (v for k, v in enumerate(leaves) if which >> k & 1):
                values = rng.uniform(0.5, 1.0, v.shape)
                cached.send(v, values)
                plain.send(v, values)
            cached.run(steps)
            plain.run(steps)
            for v in read if asks else ():
                assert cached.recv(v).tobytes() == plain.recv(v).tobytes()
        assert len(cached.steps._plans) > 1
        assert all(cached.recv(v).tobytes() == plain.recv(v).tobytes() for v in read)


def textured():
    """A texture seen through a raster of fixed triangles; the target is one more leaf."""
    rng = np.random.default_rng(1)
    corners = rng.uniform(-0.9, 0.9, (1, 1, 9, 4))
    corners[..., 2:] = (0.5, 1.0)
    position = Variable(VEC4, (9, 1), name="position", data=corners)
    camera = Variable(FLOAT, name="camera", data=np.full((1, 1, 1), 0.9))
    face = F.rasterize(position * F.vec4(camera, camera, 1.0, 1.0), size=(24, 16))
    target = Variable(VEC3, (24, 16), name="target", data=rng.random((1, 16, 24, 3)))
    texture = Variable(VEC3, (3, 1), name="texture", data=np.zeros((1, 1, 3, 3)))
    shade = F.sin(F.to_float(F.linear_index((24, 16))) * camera)
    wanted = F.select(F.greater_equal(face, 0), target * shade, 0.0)
    return position, camera, target, texture, F.sum(F.square(F.length(F.lookup(texture, face) - wanted)))


def texture_fit(device, **options) -> DressiAD:
    *_, texture, loss = textured()
    return optimising(device, loss, adam(0.02), [texture], **options)


def leaf(ad: DressiAD, name: str) -> Variable:
    return next(v for v in ad.program().leaves if v.name == name)


def modes_run(built: BuiltPlan, *sent: Variable) -> list[type]:
    """The kinds of work of all SubStages that a step would run after these leaves were sent."""
    built.stale.clear()
    for v in sent:
        built.touch(v)
    numbers = sorted(built.stale | built._always)
    built.stale.clear()
    return [type(s.work) for k in numbers for s in built._stages[k].stage.sub_stages]


def test_a_texture_step_runs_no_rasterization_and_a_target_does_not_bring_it_back(device):
    with texture_fit(device) as ad:
        assert Raster not in [type(s.work) for s in ad.plan.step.sub_stages]
        built = ad.executor._built
        calm = modes_run(built)
        after_target = modes_run(built, leaf(ad, "target"))
        after_camera = modes_run(built, leaf(ad, "camera"))
        assert len(calm) < len(after_target) < len(after_camera) <= len(ad.plan.sub_stages)
        assert Raster not in after_target and Raster in after_camera
    with texture_fit(device, options=UNCACHED) as ad:
        assert len(modes_run(ad.executor._built)) == len(ad.plan.sub_stages)


def test_nothing_runs_when_nothing_changes(device, monkeypatch):
    _, camera, *_, loss = textured()
    with VulkanExecutor(Program({"loss": loss}), device) as run:
        run.run(3)
        first, submitted = run.recv(loss), []
        monkeypatch.setattr(run.commands, "submit", lambda *buffers, times=1: submitted.append(times))
        run.run(100)
        assert submitted == []
        monkeypatch.undo()
        run.send(camera, np.full((1, 1, 1), 0.5))
        run.run()
        assert run.recv(loss) != first


def test_a_leaf_sent_before_every_step_is_planned_as_changing_and_later_as_static_again(device):
    """Two engines get the same; only one of them may build new plans."""
    with texture_fit(device) as ad, texture_fit(device, options=UNADAPTED) as fixed:
        plans = []
        for step in range(PROMPT + PATIENCE + 4):
            for engine in (ad, fixed):
                if step <= PROMPT + 1:
                    engine.send(leaf(engine, "camera"), np.full((1, 1, 1), 0.5 + 0.01 * step))
                engine.step()
            plans.append(ad.plan)
        before, changing, after = plans[0], plans[PROMPT + 1], plans[-1]
        assert [str(v) for v in changing.changing] == ["FLOAT camera (1x1)"] and before is after
        assert changing.counts["substages"] < before.counts["substages"]
        assert set(changing.kept) < set(before.kept) and not changing.static.stages
        # It rested: what follows from it alone was left out before anything was built again.
        built = ad.executor._plans[changing.changing]
        assert len(modes_run(built)) < len(modes_run(built, leaf(ad, "camera")))
        assert Raster not in modes_run(built)
        assert ad.losses() == fixed.losses() and len(ad.losses()) == len(plans)
        states = ad.state(), fixed.state()
        assert all((states[0][name] == states[1][name]).all() for name in states[0])
        assert fixed.plan.changing == frozenset() and len(fixed.executor._plans) == 1


def test_the_history_of_losses_outlives_plans(device):
    with texture_fit(device) as ad, texture_fit(device, options=UNCACHED) as plain:
        for engine in (ad, plain):
            for k in range(PROMPT + 2):
                engine.send(leaf(engine, "camera"), np.full((1, 1, 1), 0.5 + 0.01 * k))
                engine.step()
            engine.step(HISTORY)
            engine.step(2)
        assert ad.losses() == plain.losses() and len(ad.losses()) == HISTORY + PROMPT + 4


def test_plans_come_back_from_a_small_store(device, monkeypatch):
    monkeypatch.setattr(executor, "PROMPT", 1)
    monkeypatch.setattr(executor, "PATIENCE", 2)
    made = []
    build = BuiltPlan.__init__
    monkeypatch.setattr(
        BuiltPlan, "__init__", lambda self, *a, **k: (made.append(a[0].changing), build(self, *a, **k))[1]
    )
    before = device.live_objects()
    with texture_fit(device) as ad:
        for name in ("camera", "target", "camera", "position", "target", "camera"):
            for _ in range(3):
                v = leaf(ad, name)
                ad.send(v, np.full(v.shape, 0.5))
                ad.step()
            ad.step(200)
            ad.step()
            assert len(ad.executor._plans) <= PLANS
        names = [sorted(v.name for v in changing) for changing in made]
        assert names == [[], ["camera"], ["target"], ["position"], ["target"], ["camera"]]
    assert device.live_objects() == before


def test_a_plan_that_cannot_be_built_is_not_missed(device, monkeypatch):
    with texture_fit(device) as ad:
        ad.step()
        before, built = device.live_objects(), []

        def fail(*_):
            built.append(device.create("CommandPool", device.vk.VkCommandPoolCreateInfo()))
            raise PlanError("too large")

        monkeypatch.setattr(BuiltPlan, "_prepare", fail)
        for k in range(2 * PROMPT):
            ad.send(leaf(ad, "camera"), np.full((1, 1, 1), 0.5 + 0.01 * k))
            ad.step()
        assert len(built) == 1 and ad.plan.changing == frozenset() and len(ad.losses()) == 2 * PROMPT + 1
        assert device.live_objects().count("CommandPool") == before.count("CommandPool")


@pytest.mark.release
@given(pattern=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=4))
def test_no_pattern_makes_a_leaf_change_its_mind_for_ever(pattern):
    camera = Variable(FLOAT, name="camera")
    policy, steps, changes, last = Reactive(), 0, 0, frozenset()
    for _ in range(40):
        for sends, rest in pattern:
            for k in range(sends + rest):
                if k < sends:
                    policy.sent(camera)
                now = policy.step(1, {camera})
                changes, last, steps = changes + (now != last), now, steps + 1
    assert changes <= 2 * (np.log2(steps / PATIENCE) + 2)


def test_long_runs_and_unmovable_leaves_are_not_changing():
    camera, other = Variable(FLOAT), Variable(FLOAT)
    policy = Reactive()
    for _ in range(3 * PROMPT):
        policy.sent(camera)
        policy.sent(other)
        assert policy.step(2, {camera}) == frozenset()
    for _ in range(3 * PROMPT):
        policy.sent(camera)
        policy.sent(other)
        last = policy.step(1, {camera})
    assert last == {camera}
    policy.step(1000, {camera})
    assert policy.step(1, {camera}) == frozenset()
