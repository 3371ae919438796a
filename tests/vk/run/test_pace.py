"""Submissions are bounded in time: how many command buffers each holds, and Stages in slices."""

from dataclasses import replace
from itertools import accumulate, count

import numpy as np
import pytest
from graphs import masked_program, optimising, weighing
from numpy.testing import assert_array_equal
from random_graphs.check import on_device
from random_graphs.programs import random_program

from dressi import FLOAT, VEC4, DressiAD, F, LevenbergMarquardt, Variable, adam
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.plan.execution.sync import Command, Level, Part
from dressi.vk.plan.model.records import CPU, DATA_CENTRE
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.queue import Pace
from dressi.vk.run.execution import built
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.execution.gate import Cut, Gate, Slice, common
from dressi.vk.run.measure.timing import profile


@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 3), (3, 7), (64, 64), (1, 100)])
@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_slices_cover_everything_once(width, height, parts):
    covered = np.zeros((height, width), int)
    for k in range(parts):
        x, y, across, down = Slice(k, parts).area(width, height)
        covered[y : y + down, x : x + across] += 1
    assert (covered == 1).all()
    assert common((0, 0, 4, 4), (2, 1, 9, 9)) == (2, 1, 2, 3)
    assert min(common((0, 0, 4, 4), (0, 5, 4, 4))[2:]) <= 0


def test_stages_are_cut_as_long_as_that_helps():
    """Two Stages of 4 seconds: one whose slices share its work, and one whose slices repeat most of it, as those of a draw with
    many vertices do."""
    levels = [Level(None, (Command(Part.WORK, (), stage),)) for stage in (0, 1)]
    cut = Cut([0.05, 0.05], 0.1)

    def seconds(item) -> float:
        return 4.0 / item.slice.of if item.command.stage == 0 else 3.0 + 1.0 / item.slice.of

    for _ in range(8):
        pieces = cut.pieces(levels)
        took = [(piece, sum(map(seconds, piece))) for piece in pieces]
        cut.correct([(piece, t) for piece, t in took if t > 0.1])
    counts = {item.command.stage: item.slice.of for piece in cut.pieces(levels) for item in piece}
    assert counts[0] >= 40 and counts[1] <= 2, counts


@pytest.fixture
def cut(monkeypatch):
    """Call it with a number: plans that are built from then on have every Stage in so many slices."""

    def slices(parts: int) -> None:
        monkeypatch.setattr(
            built, "seconds_at_most", lambda plan, _, bound: [parts * bound * 0.999] * len(plan.stages)
        )

    return slices


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.second_driver("1", "8")
@pytest.mark.release("3", "4", "5", "6", "7")
def test_slices_give_the_bits_of_whole_stages(device, cut, seed):
    program, steps = random_program(seed, 12)
    simple = simplify(program)
    whole = on_device(simple, simple, steps, device)
    for parts in (2, 5):
        cut(parts)
        sliced = on_device(simple, simple, steps, device)
        for name, values in whole.items():
            assert_array_equal(sliced[name], values, err_msg=name)


def test_rasters_of_several_views_in_bands(device, cut):
    """Tiles of a batch, depth, and a scatter over the fragments."""
    rng = np.random.default_rng(3)
    corners = rng.uniform(-1, 1, (3, 1, 60, 4)) * (1, 1, 0.4, 0) + (0, 0, 0.5, 1)
    position = Variable(VEC4, (60, 1), 3, name="corners", data=corners)
    face = F.rasterize(position, size=(33, 21))
    weight = F.to_float(face) * 0.25 + 1.0
    lit = F.scatter_add(weight, F.max(face, 0), (20, 1), bound=1e5)
    program = Program({"face": face, "lit": lit}, ())
    whole = on_device(program, program, 1, device)
    assert (whole["face"] >= 0).any() and (whole["face"] < 0).any()
    for parts in (3, 50):
        cut(parts)
        sliced = on_device(program, program, 1, device)
        for name in whole:
            assert_array_equal(sliced[name], whole[name])


@pytest.mark.parametrize("count", [3, 65535])
def test_lists_of_blocks_in_slices(device, cut, monkeypatch, count):
    """A slice is of all blocks, and takes those of the list. Nothing runs as a whole, whatever the list says."""
    program = masked_program(5, (40, 24), 2)
    limits = replace(device.limits, max_framebuffer_height=4096, max_workgroup_count=count)
    free = weighing(CPU, lanes=1, fetch=0.0, store=0.0, stage=0.0)
    found, indirect = [], device.vk.vkCmdDispatchIndirect
    calls: list[object] = []
    monkeypatch.setattr(
        device.vk, "vkCmdDispatchIndirect", lambda *a: (calls.append(a), indirect(*a)), raising=False
    )
    for parts in (1, 2, 7):
        cut(parts)
        with VulkanExecutor(program, device, cost=free, limits=limits) as run:
            run.run(2)
            found.append([run.recv(v) for v in (*program.outputs.values(), *program.leaves)])
        assert bool(calls) == (parts == 1)
        calls.clear()
    for sliced in found[1:]:
        for a, b in zip(sliced, found[0], strict=True):
            assert_array_equal(a, b)


def test_a_list_of_blocks_behind_a_sliced_dispatch(device, monkeypatch):
    """An indirect dispatch begins at the first workgroup, wherever the slice before it began."""
    program, found = masked_program(5, (40, 24), 2), []
    free = weighing(CPU, lanes=1, fetch=0.0, store=0.0, stage=0.0)

    def seconds(parts: int, plan, bound: float) -> list[float]:
        works = [stage.sub_stages[0].work for stage in plan.stages]
        assert any(getattr(work, "sparse", None) for work in works)
        return [0.0 if getattr(work, "sparse", None) else parts * bound * 0.999 for work in works]

    for parts in (1, 3):
        monkeypatch.setattr(built, "seconds_at_most", lambda plan, _, bound, n=parts: seconds(n, plan, bound))
        with VulkanExecutor(program, device, cost=free) as run:
            run.run(2)
            found.append([run.recv(v) for v in (*program.outputs.values(), *program.leaves)])
    for a, b in zip(*found, strict=True):
        assert_array_equal(a, b)


def test_steps_are_timed_in_slices(device, cut):
    """``profile`` submits no more at once than steps do."""
    cut(3)
    x = Variable.of(np.ones((24, 24)), name="x")
    with optimising(device, F.mean(F.square(x)), adam(0.1), [x]) as ad:
        ad.step(2)
        before, records = ad.recv(x), []
        record = ad.executor.record_step
        ad.executor.record_step = lambda *a, **k: records.append(record(*a, **k)) or records[-1]
        times = profile(ad.executor, 3)
        assert len(times) == len(ad.plan.step.stages) and all(t.ms >= 0 for t in times)
        assert len(records[0]) > len(times)
        assert (ad.recv(x) != before).all()


@pytest.mark.one_driver
def test_what_only_makes_a_driver_compile_is_no_submission(device, monkeypatch):
    monkeypatch.setattr(device.work, "pace", pace := Pace())
    x = Variable.of(np.ones((8, 8)), name="x")
    # No other test has this constant: its shader is new.
    with VulkanExecutor(Program({}, ((x, F.exp(x * 0.87123)),)), device) as run:
        run.commands.wait()
        warming = run.built()._warming
        pace.ended(warming, 9.0, 9.0)
        assert warming and pace.longest < 9
    # Outputs hold nothing before the first step, so that what makes them is compiled then, too.
    with VulkanExecutor(Program({"y": F.exp(x * 0.63127)}), device) as run:
        assert run.built()._warming


def test_a_solver_in_slices_takes_the_same_steps(device, cut, monkeypatch):
    """Its gated dispatches, too: the most rows of one are counted."""
    found, rows, gated = [], [0, 0], Gate.dispatch

    def dispatch(gate, buffer, x, y, z):
        rows[len(found)] = max(rows[len(found)], y)
        gated(gate, buffer, x, y, z)

    monkeypatch.setattr(Gate, "dispatch", dispatch)
    for parts in (1, 3):
        if parts > 1:
            cut(parts)
        x = Variable(FLOAT, (6, 5), name="x", data=np.full((1, 5, 6), 1.5))
        with DressiAD(device, model=DATA_CENTRE) as ad:  # which prefers dispatches
            ad.set_loss([F.square(x) - 2.0, 0.1 * (F.shift(x, 1, 0) - x)])
            ad.set_optimizer(LevenbergMarquardt(), [x])
            ad.step(6)
            found.append((ad.recv(x), ad.losses()))
    assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert rows == [5, 2]


def test_what_took_too_long_is_cut_finer(device, monkeypatch):
    """By a clock that lets submissions take seconds, the later ones less."""
    x = Variable(FLOAT, (64, 48), name="x", data=np.random.default_rng(0).random((1, 48, 64)))
    program = Program({"y": F.sum(F.sqrt(x), "x")}, ((x, x * 0.5 + F.lookup(x, 3)),))
    with VulkanExecutor(program, device) as run:
        run.run(4)
        plain = run.recv(x), run.recv(program.outputs["y"])
    ticks = accumulate((40 * 0.9**k for k in count()), initial=1e9)
    monkeypatch.setattr(device.work, "clock", lambda: next(ticks))
    monkeypatch.setattr(
        device.work, "_last", device.work._last
    )  # is put back, with the time of the other clock
    monkeypatch.setattr(device.work, "pace", Pace())
    # The host sees every end: the work is so small that it may end before the host looks.
    monkeypatch.setattr(Commands, "_signalled", lambda self, submission: False)
    with VulkanExecutor(program, device) as run:
        for _ in range(4):
            run.run()
            run.wait()
        (*_, recording) = run._built._recordings.values()
        assert len(recording.buffers) > 4
        assert_array_equal(run.recv(x), plain[0])
        assert_array_equal(run.recv(program.outputs["y"]), plain[1])
    assert device.longest_submission >= 1


@pytest.mark.one_driver
def test_steps_share_submissions_once_they_are_measured(device, monkeypatch):
    monkeypatch.setattr(device.work, "pace", Pace(bound=1e6))
    submitted: list[int] = []
    submit = device.work.submit

    def count_them(info, fence) -> None:
        submitted.append(info.commandBufferCount if info is not None else 0)
        submit(info, fence)

    x = Variable.of(np.ones((8, 8)), name="x")
    with optimising(device, F.sum(F.square(x)), adam(0.1), [x]) as ad:
        ad.step()
        ad.wait()
        monkeypatch.setattr(device.work, "submit", count_them)
        for n in (1, 2, 4, 8, 16, 32, 64):
            ad.step(n)
            ad.wait()
        assert submitted == [1, 2, 4, 8, 16, 32, 64]
        monkeypatch.setattr(device.work, "submit", submit)
        assert len(ad.losses()) == 128


def test_an_interrupt_leaves_no_step_half_done(device, cut, monkeypatch):
    """Steps of several command buffers, and a ctrl-C between two of them."""
    cut(4)
    monkeypatch.setattr(device.work, "pace", Pace())
    x = Variable.of(np.zeros((16, 16)), name="x")
    y = Variable.of(np.zeros((16, 16)), name="y")
    program = Program({}, ((x, x + 1.0), (y, F.lookup(y, F.linear_index((16, 16))) + 1.0)))
    with VulkanExecutor(program, device) as run:
        run.run()
        run.wait()
        pieces = len(next(iter(run.built()._recordings.values())).buffers)
        assert pieces > 2
        run.run()
        commands, submit, left = run.commands, run.commands._submit, [pieces + 2]

        def interrupted(buffers) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            submit(buffers)

        run.wait()
        monkeypatch.setattr(Pace, "count", lambda self, buffers, most: 1)
        before = float(run.recv(x).max())
        monkeypatch.setattr(commands, "_submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.run(9)
        monkeypatch.setattr(commands, "_submit", submit)
        done = run.recv(x)
        assert done.min() == done.max() == run.recv(y).max() == run.recv(y).min()
        assert done.max() == before + 2


def test_a_wait_ends_after_an_interrupt_behind_a_reset_fence(device, monkeypatch):
    x = Variable.of(np.zeros((8, 8)), name="x")
    with VulkanExecutor(Program({}, ((x, x + 1.0),)), device) as run:
        run.run(3)
        run.wait()
        lib, wait, presses = device.vk.lib, device.work.wait, iter((True,))

        def reset(*arguments):
            code = lib.vkResetFences(*arguments)
            if next(presses, False):
                raise KeyboardInterrupt
            return code

        class Lib:
            vkResetFences = staticmethod(reset)

            def __getattr__(self, name):
                return getattr(lib, name)

        def bounded(fences, patience=None):
            assert wait(fences, 5.0), "the fence is not signalled any more"
            return True

        monkeypatch.setattr(device.vk, "lib", Lib())
        monkeypatch.setattr(device.work, "wait", bounded)
        with pytest.raises(KeyboardInterrupt):
            run.run()
            run.wait()
        run.run()
        run.wait()
        assert 4 <= run.recv(x).max() == run.recv(x).min() <= 5


@pytest.mark.one_driver
def test_what_is_known_of_command_buffers_goes_with_them(device, monkeypatch):
    monkeypatch.setattr(device.work, "pace", pace := Pace())
    x = Variable.of(np.ones((8, 8)), name="x")
    with DressiAD(device) as ad:
        ad.set_output("y", x + 1.0)
        ad.step(3)
        ad.recv("y")
        assert pace._seconds
    assert not pace._seconds and not pace._runs and not pace.exceeded


@pytest.mark.one_driver
def test_what_ended_unseen_before_its_command_buffers_went_is_not_kept(device):
    """Closing waits for the device, not for each submission."""
    known, flying = len(device.work.pace._seconds), device.work._under_way
    x = Variable.of(np.ones((64, 64)), name="x")
    with VulkanExecutor(Program({"y": F.sqrt(x)}, ((x, x * 1.01),)), device) as run:
        run.run(9)
    assert (len(device.work.pace._seconds), device.work._under_way) == (known, flying)
