"""How many command buffers a submission holds, by the seconds of those before: without a device."""

import pytest

from dressi.vk.run.host.pace import BOUND, Pace


def submissions(pace: Pace, buffers: list[str], seconds: dict[str, float]) -> list[list[str]]:
    """A device on which each command buffer takes so long, and a host that waits for every submission."""
    found = []
    while buffers:
        now = buffers[: pace.count(buffers, 8192)]
        took = sum(seconds[b] for b in now)
        pace.ended(now, took, took)
        found.append(now)
        buffers = buffers[len(now) :]
    return found


@pytest.mark.one_driver
def test_submissions_begin_small_and_double():
    pace = Pace()
    assert [len(s) for s in submissions(pace, ["a"] * 100, {"a": 1e-5})] == [1, 2, 4, 8, 16, 32, 37]
    assert [len(s) for s in submissions(pace, ["a"] * 200, {"a": 1e-5})] == [74, 126]
    pace.forget("a")
    assert pace.count(["a"] * 9, 64) == 1


@pytest.mark.one_driver
@pytest.mark.parametrize("seconds", [1e-4, 3e-3, 0.03, 0.15, 0.19])
def test_no_submission_is_longer_than_the_bound(seconds):
    pace = Pace()
    found = submissions(pace, ["a"] * 500, {"a": seconds})
    assert max(map(len, found)) * seconds <= BOUND and pace.longest <= BOUND
    # A mixture, as of a solver: what was never measured runs alone.
    times = {"a": seconds, "b": 0.1, "c": 1e-6}
    for _ in range(3):
        found = submissions(pace, [*"cab", *"c" * 50, *"ab" * 9], times)
        assert all(sum(times[b] for b in s) <= BOUND * 1.01 for s in found)


@pytest.mark.one_driver
def test_work_that_becomes_heavy_and_light_again_is_followed():
    pace = Pace()
    submissions(pace, ["a"] * 200, {"a": 1e-4})
    heavy = submissions(pace, ["a"] * 200, {"a": 0.045})
    assert {len(s) for s in heavy[1:-1]} == {2}  # the first one could not know
    light = submissions(pace, ["a"] * 3000, {"a": 1e-4})
    assert max(map(len, light)) > 100


@pytest.mark.one_driver
def test_work_behind_a_gate_is_heavy_again_at_once():
    """A solver's iterations: some hundred that work, then thousands behind a closed gate."""
    pace, longest = Pace(), []
    for _ in range(6):
        open_, closed = ({"a": 1e-3}, 600), ({"a": 1e-5}, 3000)
        for seconds, count_ in (open_, closed):
            longest.append(max(len(s) * seconds["a"] for s in submissions(pace, ["a"] * count_, seconds)))
    assert max(longest[2:]) < 1.5 * BOUND


@pytest.mark.one_driver
def test_iterations_of_a_solver_are_never_taken_for_light():
    """Steps that need fewer iterations each, thousands that need none between them, and one that needs all again."""
    pace, longest = Pace(), []
    pace.gated.add("a")
    for open_ in (400, *range(60, 0, -1), 400):
        for n, seconds in ((open_, 2e-3), (400 - open_, 1e-5)):
            longest += [len(s) * seconds for s in submissions(pace, ["a"] * n, {"a": seconds})]
    assert max(longest) <= BOUND
    pace.forget("a")
    assert not pace.gated


@pytest.mark.one_driver
def test_what_the_host_saw_late_is_no_measurement():
    pace = Pace()
    pace.ended(["a"], 0.0, 60.0)  # the program slept
    assert pace.count(["a"] * 9, 64) == 1 and not pace.exceeded and pace.longest == 0
    pace.ended(["a"], 0.0, 0.01)
    assert pace.count(["a"] * 9, 64) == 2
    pace.ended(["a"], 1.9, 2.0)
    assert pace.excess("a") == 1.9 and pace.exceeded and pace.longest == 1.9


@pytest.mark.one_driver
def test_what_was_slow_for_a_moment_is_not_cut():
    """Other programs made it so; three times in a row is its own time."""
    pace = Pace()
    for seconds in (0.01, 0.3, 0.4, 0.01, 0.5, 0.3):
        pace.ended(["a"], seconds, seconds)
        assert not pace.exceeded
    pace.ended(["a"], 0.4, 0.4)
    assert pace.exceeded and pace.excess("a") == 0.3
