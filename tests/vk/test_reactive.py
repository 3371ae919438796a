"""The reactive cache: whatever is sent when, results are those without a cache, and only what must run runs."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from graphs import random_program

from dressi.ad import functional as F
from dressi.ad.program import Program
from dressi.vk.plan.plan import PlanOptions
from dressi.vk.run import reactive
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
UNCACHED = PlanOptions(cache_static=False)
UNADAPTED = PlanOptions(adapt=False)

# (leaves as bits, steps behind each send, how often)
bursts = st.tuples(
    st.just("send"), st.integers(0, 31), st.sampled_from([0, 1, 1, 1, 2, 4]), st.integers(1, 4)
)
reads = st.tuples(st.just("read"), st.integers(0, 20), st.just(0), st.just(0))


def random_schedule_program(seed: int, updated: int) -> Program:
    """As ``random_program``, but only so many leaves are updated; something is computed only when asked for."""
    program = random_program(seed, 14)
    rest = [new for _, new in program.updates[updated:]]
    asked = {"sum": F.sum(sum((F.sum(v.x) for v in rest), start=program.outputs["last"].x))}
    return Program(
        {**program.outputs, **{f"new {k}": v for k, v in enumerate(rest)}}, program.updates[:updated], asked
    )


def play(run: VulkanExecutor, schedule: list) -> list[np.ndarray]:
    """Everything read while a schedule is played, and all values at its end."""
    program, rng, seen = run.program, np.random.default_rng(0), []
    values = [*program.outputs.values(), *program.leaves, *program.asked.values()]
    for kind, which, steps, times in schedule:
        if kind == "read":
            seen.append(run.recv(values[which % len(values)]))
        for _ in range(times):
            for leaf in (v for k, v in enumerate(program.leaves) if which >> k & 1):
                high = leaf.vtype.is_int and 18
                run.send(leaf, rng.integers(-1, high, leaf.shape) if high else rng.uniform(-1, 1, leaf.shape))
            run.run(steps)
    return [*seen, *map(run.recv, values)]


@settings(max_examples=10, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    seed=st.integers(0, 10**6),
    updated=st.integers(0, 3),
    schedule=st.lists(st.one_of(bursts, bursts, reads), min_size=4, max_size=14),
)
def test_no_schedule_gives_another_result(device, monkeypatch, seed, updated, schedule):
    monkeypatch.setattr(reactive, "PROMPT", 2)
    monkeypatch.setattr(reactive, "PATIENCE", 3)
    program = random_schedule_program(seed, updated)
    with (
        VulkanExecutor(program, device) as cached,
        VulkanExecutor(program, device, options=UNCACHED) as plain,
    ):
        for a, b in zip(play(cached, schedule), play(plain, schedule), strict=True):
            assert a.tobytes() == b.tobytes()
