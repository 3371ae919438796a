"""What is measured, and how: first build apart, 20 warm-up steps, medians of timed batches, rivals in
turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import Device, DressiAD
from ...config import config, shader_text
from ...errors import DressiError
from ...vk.plan.compiler import build_plan
from ...vk.plan.core.limits import DeviceLimits
from ...vk.plan.core.options import BASELINE
from ...vk.plan.predict.stages import step_bytes
from ...vk.run.measure.timing import stage_facts
from .work import Peer, Trial

WARM_UP = 20
BATCH_SECONDS = 0.02
"""A batch is as many steps as take about so long, so that the clock and the wait do not count."""
MOST_STEPS = 100
"""Of one batch."""


@dataclass(frozen=True, eq=False)
class Sample:
    """What the first engine of a trial told. distances: of a traced trial, from the true shape after each
    step, in units of the mesh."""

    first_build_ms: float
    losses: list[float]
    quality: dict[str, Any]
    distances: list[float]


def first_run(trial: Trial, device: Device, *, steps: int, cold: bool) -> Sample:
    """Builds, which is timed until the first step is done, and runs ``steps`` steps for the quality."""
    device.trim()  # no pipelines of other trials
    start = time.perf_counter()
    with config(cache=None) if cold else config(), trial.engine(device, record=True) as engine:
        engine.step(1)
        engine.wait()
        build = 1e3 * (time.perf_counter() - start)
        distances, distance = [], trial.work.distance if trial.traced else None
        if distance is None:
            engine.step(steps - 1)
        else:
            distances.append(distance(engine))
            for _ in range(steps - 1):
                engine.step(1)
                distances.append(distance(engine))
        losses = list(engine.losses())
        quality = {"steps": steps, **trial.work.quality(engine)}
    return Sample(build, losses, {**quality, "first_loss": losses[0], "last_loss": losses[-1]}, distances)


def measure(
    trials: Sequence[Trial], device: Device, *, steps: int, batches: int, cold: bool, copy: float
) -> list[dict[str, Any]]:
    """Results of trials of one Work: what `dressi bench --json` lists, or ``error``.

    The first engine of each tells how long a build takes and what ``steps`` steps reach. Then engines of all
    trials, which find everything in the caches, and the peers are timed in turns, all from the same start.
    copy: bytes a second of a copy on this device. ``longest_submission_ms`` is that of all trials together.
    """
    device.work.pace.longest = 0.0
    samples: dict[Trial, Sample] = {}
    results: dict[Trial, dict[str, Any]] = {}
    with ExitStack() as stack:
        engines: dict[Trial, tuple[DressiAD, float]] = {}
        for trial in trials:
            try:
                samples[trial] = first_run(trial, device, steps=steps, cold=cold)
            except DressiError as error:
                results[trial] = {"error": str(error), "exception": error}
        for trial in samples:
            device.trim()
            start = time.perf_counter()
            engine = stack.enter_context(trial.engine(device))
            engine.step(1)
            engine.wait()
            engines[trial] = engine, 1e3 * (time.perf_counter() - start)
        peers, failures = _peers(trials[0]) if samples else ({}, {})
        # All trials do equally many steps: what a step costs changes on the way.
        runs = [_stepper(engine) for engine, _ in engines.values()]
        rounds, cpu_rounds = in_turns([runs, *([p.run] for p in peers.values())], batches)
        step_ms, cpu_ms = ([float(np.median(times)) for times in each] for each in (rounds, cpu_rounds))
        first = next(iter(engines), None)
        baselines: dict[DeviceLimits, dict[str, int]] = {}  # all trials have one program
        for k, (trial, (engine, build)) in enumerate(engines.items()):
            sample, ours, against = samples[trial], step_ms[k], None
            if first is not None and trial is not first:
                against = {
                    "label": first.label,
                    **difference(rounds[k], rounds[0]),
                    "cpu": difference(cpu_rounds[k], cpu_rounds[0]),
                    "same_plan": _layout(engine) == _layout(engines[first][0]),
                }
            rivals = {
                name: {**peer.facts, "step_ms": theirs, "step_cpu_ms": cpu, "ours_over_theirs": ours / theirs}
                for (name, peer), theirs, cpu in zip(
                    peers.items(), step_ms[len(engines) :], cpu_ms[len(engines) :], strict=True
                )
            }
            moved, stages = step_bytes(engine.plan), stage_facts(engine.executor)
            times = [stage["ms"] for stage in stages if stage["ms"] is not None]
            if engine.plan.limits not in baselines:
                baselines[engine.plan.limits] = _baseline(engine)
            results[trial] = {
                "plan": _counts(engine),
                "baseline": baselines[engine.plan.limits],
                "first_build_ms": sample.first_build_ms,
                "warm_build_ms": None if cold else build,
                "step_ms": ours,
                "step_cpu_ms": cpu_ms[k],
                "against": against,
                "step_and_read_loss_ms": _read_every_step(engine, ours, batches),
                "device_ms": sum(times) if times else None,  # some devices have no timestamps
                "bytes": moved,
                "bandwidth": moved / (1e-3 * ours),
                "copy_bandwidth": copy,
                "stages": stages,
                "quality": sample.quality,
                "peers": {**rivals, **failures},
                **({"losses": sample.losses, "distances": sample.distances} if trial.traced else {}),
            }
    for name in peers:
        reached = _peer_quality(trials[0], device, name, steps)
        for result in results.values():
            if "peers" in result:
                result["peers"][name]["quality"] = reached
    for result in results.values():
        if "error" not in result:
            result["longest_submission_ms"] = 1e3 * device.longest_submission
    return [results[trial] for trial in trials]


def _counts(engine: DressiAD) -> dict[str, int]:
    """What the whole plan holds, and what runs in every step."""
    step = engine.plan.step
    return {**engine.plan.counts, "step_substages": len(step.sub_stages), "step_stages": len(step.stages)}


def _baseline(engine: DressiAD) -> dict[str, int]:
    """What the same program holds when every Function is a pass and no image is used twice."""
    counts = build_plan(engine.program(), engine.plan.limits, shader_text, BASELINE).counts
    return {name: counts[name] for name in ("image_bytes", "buffer_bytes")}


def _layout(engine: DressiAD) -> tuple[str, list[int]]:
    """Plans with the same one do the same."""
    return engine.plan.key, [len(stage.sub_stages) for stage in engine.plan.stages]


def _stepper(engine: DressiAD) -> Callable[[int], None]:
    def run(count: int) -> None:
        engine.step(count)
        engine.wait()

    return run


def _peers(trial: Trial) -> tuple[dict[str, Peer], dict[str, dict[str, Any]]]:
    """The peers that are installed, and an error for each of the others."""
    made, failures = {}, {}
    for name, make in trial.work.peers.items():
        try:
            made[name] = make()
        except DressiError as error:
            failures[name] = {"step_ms": None, "error": str(error)}
    return made, failures


def in_turns(
    groups: Sequence[Sequence[Callable[[int], None]]], batches: int
) -> tuple[list[list[float]], list[list[float]]]:
    """Milliseconds a step of each ``run(steps)``, round by round, and those of processor time that this
    process, threads of drivers included, spent on it: on a CPU driver all the work.

    Every round has a batch of each run, in an order of its own, after a step that is not timed, since caches
    hold what ran before. Batches are equally many steps for all runs of a group.
    """
    runs, lengths = [], []
    for group in groups:
        warm = [_warm_up(run) for run in group]
        runs += group
        lengths += [warm[0]] * len(group)
    ms, cpu = np.zeros((len(runs), batches)), np.zeros((len(runs), batches))
    order = np.random.default_rng(0)
    for k in range(batches):
        for n in order.permutation(len(runs)):
            runs[n](1)
            start, busy = time.perf_counter(), time.process_time()
            runs[n](lengths[n])
            ms[n, k] = 1e3 * (time.perf_counter() - start) / lengths[n]
            cpu[n, k] = 1e3 * (time.process_time() - busy) / lengths[n]
    return ms.tolist(), cpu.tolist()


def _warm_up(run: Callable[[int], None]) -> int:
    """Runs the warm-up steps and returns how many steps make a batch."""
    run(WARM_UP // 2)
    start = time.perf_counter()
    run(WARM_UP - WARM_UP // 2)
    step = (time.perf_counter() - start) / (WARM_UP - WARM_UP // 2)
    return int(np.clip(round(BATCH_SECONDS / step), 1, MOST_STEPS))


def _read_every_step(engine: DressiAD, step_ms: float, batches: int) -> float:
    """Milliseconds a step after which the loss is made and read on the host before the next one starts."""
    seconds = []
    for _ in range(max(batches, min(int(100 / step_ms), 10 * batches, 50))):
        start = time.perf_counter()
        engine.step(1)
        engine.recv("loss")
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds))


def _peer_quality(trial: Trial, device: Device, name: str, steps: int) -> dict[str, float | None] | None:
    """Of a fresh run of as many steps as ours: the timed one went on for longer."""
    if trial.work.peer_quality is None:
        return None
    again = trial.work.peers[name]()
    again.run(steps)
    return trial.work.peer_quality(device, again.positions())


# How much one way is slower than another: what the rounds say in which both ran, one shortly after the other.
#
# What disturbs a machine for longer than a round, other programs for example, falls on both alike and is not
# in the difference of their times; what disturbs one batch is an outlier, which does not move the median.

Times = Sequence[float] | np.ndarray
CONFIDENCE = 0.95


def difference(times: Times, reference: Times) -> dict[str, Any]:
    """The median of ``times - reference``, round by round, with the interval of a sign test: ``ms``,
    ``interval`` (None of fewer than six rounds), ``confidence``, ``rounds``.

    The interval assumes nothing about the distribution: of n differences that fall on either side of their
    true median by the toss of a coin, the k smallest and the k largest lie outside of it.
    """
    differences = np.sort(np.subtract(times, reference))
    k = _left_out(len(differences))
    interval = [float(differences[k - 1]), float(differences[-k])] if k else None
    median = float(np.median(differences))
    return {"ms": median, "interval": interval, "confidence": CONFIDENCE, "rounds": len(differences)}


def _left_out(n: int) -> int:
    """The largest k such that P(fewer than k of n coins show heads, or tails) is at most 1 - CONFIDENCE."""
    below, k = 1.0, 0
    while 2 * below <= (1 - CONFIDENCE) * 2.0**n:
        k += 1
        below += math.comb(n, k)
    return k
