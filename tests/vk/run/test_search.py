"""The search for the fastest plan: what it finds, what it keeps, and that nothing else changes."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from smoothing import smoothing

from dressi import Device, DressiAD, F, LevenbergMarquardt, PlanOptions, Variable, adam, optim
from dressi.config import config
from dressi.errors import InputError, OutOfMemoryError, PlanError, ShaderError
from dressi.vk.plan.model.records import CPU
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.measure import search

pytestmark = pytest.mark.one_driver
SEARCH = PlanOptions(search=1e9)
SLOW = PlanOptions(without=("fuse_epilogues", "fuse_horizontally"), search=1e9)


@pytest.fixture
def own(device, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_known", {})
    with config(cache=tmp_path):
        own = Device(device.physical, validation=device.instance.validation)
        yield own
        assert own.live_objects() == []
        own.close()


@pytest.fixture
def trials(monkeypatch):
    """Plans take as long as they have stages. Counts the plans that run. They run in fact, and must leave no trace."""
    found = Counter()

    def make(self, options):
        found["made"] += 1
        return made(self, options)

    def seconds(self, executor, n):
        self._run(executor, n)
        return float(len(executor.plan.stages))

    made = search._Trials.make
    monkeypatch.setattr(search, "RACE", 0.0)
    monkeypatch.setattr(search._Trials, "make", make)
    monkeypatch.setattr(search._Trials, "seconds", seconds)
    return found


def fit(device, options=SEARCH):
    """An engine whose image follows a noisy target, and whose histogram follows a wave; and the target."""
    clock = optim.clock()
    image = Variable(size=(24, 16), data=np.random.default_rng(3).random((1, 16, 24)), name="image")
    target = Variable(size=(24, 16), name="target")
    table = F.scatter_add(image * 0.1, F.to_int(target * 7.0), (8, 1), bound=100.0)
    blurred = (F.shift(image, 1, 0) + F.shift(image, 0, 1) + F.exp(-image)) / 3.0
    noise = 0.1 * F.random(1, clock, (24, 16))
    ad = DressiAD(device, options=options)
    ad.set_loss(F.mean(F.square(blurred - target - noise)) + F.mean(F.square(F.sin(table))))
    ad.set_optimizer(optim.Clocked(adam(0.05), clock), [image])
    ad.send(target, np.linspace(0, 1, 16 * 24).reshape(16, 24))
    return ad, target


def results(device, options):
    """All that can be seen of some steps, with sends, and with another plan in the middle."""
    ad, target = fit(device, options)
    with ad:
        ad.step(3)
        ad.set_output("mean", F.mean(target))
        ad.freeze(*ad.parameters)
        ad.release(*ad.parameters)
        search._known.clear()  # the second search begins with the values of the first steps
        for k in range(6):
            ad.send(target, np.full((16, 24), 0.1 * k))
            ad.step()
        return {**ad.state(), "mean": ad.recv("mean"), "losses": np.array(ad.losses())}, len(ad.plan.stages)


@pytest.mark.release
def test_values_and_state_are_as_without_a_search(own, trials):
    with config(cache=None):
        expected, before = results(own, replace(SLOW, search=0.0))
        assert not trials
        found, after = results(own, SLOW)
    assert trials["made"] > 2 and after < before
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert_array_equal(found[name], values)


@pytest.mark.release
def test_a_choice_is_kept_for_equal_programs(own, trials, tmp_path):
    stages, made = [], []
    for k in range(4):
        with fit(own, SLOW)[0] as ad:
            ad.step(2)
            stages.append(len(ad.plan.stages))
        made.append(trials["made"])
        if k == 1:
            search._known.clear()  # as in another process
    (file,) = (tmp_path / "search").iterdir()
    assert made[0] == made[3] > 2 and len(set(stages)) == 1
    assert "fuse_horizontally" in json.loads(file.read_text())
    first = made[0]
    for other in (replace(SLOW, pack_stages=False), replace(SLOW, search=1e8)):
        with fit(own, other)[0] as ad:
            ad.step()
        assert trials["made"] > first
        first = trials["made"]


@pytest.mark.release
def test_a_slow_plan_is_improved(own, monkeypatch):
    """A product of matrices without register tiles, by a clock that shows what is predicted."""
    monkeypatch.setattr(
        search._Trials, "seconds", lambda self, executor, n: predict(executor.plan, CPU).totals["seconds"]
    )
    monkeypatch.setattr(search, "SWITCHED", ("fuse_horizontally", "tile_contractions"))
    x, y = (Variable.of(np.random.default_rng(k).random((128, 128)), name="xy"[k]) for k in range(2))
    with DressiAD(own, options=PlanOptions(tile_contractions=False, search=1e9), model=CPU) as ad:
        ad.set_loss(F.sum(F.square(F.matmul(x, y))))
        ad.set_optimizer(adam(0.01), [x])
        ad.step()
    assert "tile_contractions" in next(iter(search._known.values()))


@pytest.mark.parametrize("switched", [["fuse_horizontally"], ["tile_contractions"]])
def test_steps_that_take_no_time_gain_nothing(own, monkeypatch, switched):
    """As a clock shows them that is coarser than a step. Without a plan that is faster nothing is switched."""
    monkeypatch.setattr(search._Trials, "seconds", lambda self, executor, n: self._run(executor, 1) or 0.0)
    monkeypatch.setattr(search, "SWITCHED", switched)
    monkeypatch.setattr(search, "RACE", 0.0)
    with fit(own)[0] as ad:
        ad.step()
        assert list(search._known.values()) == [[]] and len(ad.losses()) == 1


@pytest.mark.parametrize("seconds, made", [(1e-9, 1), (0.5, 2), (0.7, 3)])
def test_the_time_is_kept(own, trials, monkeypatch, seconds, made):
    """A clock that a plan which is made puts forward by 0.2 seconds."""
    monkeypatch.setattr(search.time, "perf_counter", lambda: 0.2 * trials["made"])
    with fit(own, PlanOptions(search=seconds))[0] as ad:
        ad.step()
    assert trials["made"] == made


def test_a_damaged_file_is_ignored_with_a_warning(own, trials, tmp_path):
    """Nothing but the given plan is tried in so short a time, and the choice is to switch nothing."""
    x = Variable.of(np.ones((4, 6)), name="x")

    def searches():
        search._known.clear()
        trials.clear()
        with DressiAD(own, options=PlanOptions(search=1e-9)) as ad:
            ad.set_output("y", F.square(x))
            assert ad.recv("y").max() == 1.0
        return trials["made"] == 1

    assert searches() and not searches()
    (file,) = (tmp_path / "search").iterdir()
    for text in (
        "", "[", "{}", "null", "[1]", '["rematerialise"]', '["search"]', '["adapt"]',
        '["contract_operations"]', "[" * 1000, "[]" + " " * 2000, "\0\xff",
    ):  # fmt: skip
        file.write_text(text, encoding="latin-1")
        with pytest.warns(RuntimeWarning, match=r"\.json .* holds no choice of a plan"):
            assert searches()
        assert file.read_text() == "[]" and not searches()
    file.write_text('["rematerialize"]')
    assert not searches() and list(search._known.values()) == [["rematerialize"]]


@pytest.mark.parametrize(
    "place, number", [("make", 1), ("make", 3), ("structure", 2), ("_run", 1), ("_run", 4)]
)
def test_after_ctrl_c_the_engine_goes_on(own, trials, tmp_path, monkeypatch, place, number):
    calls, real = Counter(), getattr(search._Trials, place)

    def interrupted(*arguments):
        calls[place] += 1
        if calls[place] == number:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(search._Trials, place, interrupted)
    with fit(own)[0] as ad:
        with pytest.raises(KeyboardInterrupt) as caught:
            ad.step(2)
        assert "PlanOptions.search" in caught.value.__notes__[0]
        assert not search._known and not (tmp_path / "search").exists()
        assert ad.losses() == []
        ad.step(2)
        assert len(ad.losses()) == 2 and search._known


@pytest.mark.parametrize("place", ["make", "seconds", "structure", "_is_faster"])
def test_plans_that_fail_are_dropped(own, trials, monkeypatch, place):
    errors = (PlanError, OutOfMemoryError, ShaderError, MemoryError)
    calls, real = Counter(), getattr(search._Trials, place)

    def failing(*arguments):
        calls[place] += 1
        if calls[place] > 1 or place == "_is_faster":
            raise errors[calls[place] % len(errors)]("not this one")
        return real(*arguments)

    monkeypatch.setattr(search._Trials, place, failing)
    with fit(own)[0] as ad:
        ad.step(2)
        assert len(ad.losses()) == 2 and list(search._known.values()) == [[]]


def test_a_plan_that_has_no_room_for_a_trial_is_built_as_given(own, trials, monkeypatch, tmp_path):
    def make(*_):
        raise OutOfMemoryError("no room")

    monkeypatch.setattr(search._Trials, "make", make)
    with fit(own)[0] as ad:
        ad.step(2)
    assert not search._known and not (tmp_path / "search").exists()


def test_slow_plans_are_dropped_at_once(own, trials, monkeypatch):
    times = []

    def seconds(self, executor, n):
        times.append(n)
        return 0.01 if len(times) < 3 else 0.5

    monkeypatch.setattr(search._Trials, "seconds", seconds)
    with fit(own)[0] as ad:
        ad.step()
    assert set(times) == {1}


@pytest.mark.release
def test_parts_of_a_solver_are_searched_behind_their_gates(own, trials):
    found = []
    for options in (PlanOptions(), PlanOptions(search=0.5)):
        residuals, image, _ = smoothing()
        with DressiAD(own, options=options) as ad:
            ad.set_loss(residuals)
            ad.set_optimizer(LevenbergMarquardt(), [image])
            ad.step(4)
            found.append((ad.recv(image), np.array(ad.losses())))
    assert len(search._known) > 1 and trials["made"] >= len(search._known)
    for a, b in zip(*found, strict=True):
        assert_array_equal(a, b)


def test_what_is_read_beside_the_steps_is_not_searched(own, trials):
    ad, target = fit(own)
    with ad:
        ad.recv("loss"), ad.evaluate(F.sum(target))
        assert not trials
    x = Variable.of(np.ones((4, 6)), name="x")
    with DressiAD(own, options=SEARCH) as ad:
        ad.set_output("y", F.sum(F.shift(x * 2.0, 1, 0)))
        assert ad.recv("y").item() == 48.0 and trials
        ad.send(x, np.zeros((4, 6)))
        assert ad.recv("y").item() == 0.0


def test_without_values_nothing_is_measured(own, trials):
    x = Variable(size=(6, 4), name="x")
    with DressiAD(own, options=SEARCH) as ad:
        ad.set_output("y", F.sum(x))
        with pytest.warns(RuntimeWarning, match=r"x .* has no value yet.*send values before"):
            assert ad.plan
        assert not trials and not search._known
        ad.send(x, np.ones((4, 6)))
        assert ad.recv("y").item() == 24.0


@pytest.mark.parametrize("wrong", [-1, -0.5, float("nan"), True, False, "3", None, [1.0], np.True_])
def test_a_wrong_time_names_the_option(wrong):
    with pytest.raises(InputError, match=r"search is .*; give the seconds"):
        PlanOptions(search=wrong)


def test_a_time_may_be_any_real_number():
    assert [PlanOptions(search=x).search for x in (0, 3, 2.5, np.float32(2.0), float("inf"))]
