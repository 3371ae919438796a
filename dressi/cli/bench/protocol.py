"""How everything is measured: first build apart, 20 warm-up steps, the median of timed batches, rivals in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dressi import Device, DressiAD
from dressi.cli.bench.traffic import stage_bytes, step_bytes
from dressi.cli.bench.work import Peer, Trial
from dressi.config import config
from dressi.errors import DressiError
from dressi.vk.run.timing import profile

WARM_UP = 20
BATCH_SECONDS = 0.02
"""A batch is as many steps as take about so long, so that the clock and the wait do not count."""
MOST_STEPS = 100
"""Of one batch."""


def measure(
    trial: Trial, device: Device, *, steps: int, batches: int, cold: bool, copy: float
) -> dict[str, Any]:
    """One result: what `dressi bench --json` lists.

    The first engine is timed until its first step is done and then runs ``steps`` steps for the quality. A second
    one, whose build finds everything in the caches, is timed from the same start, in turns with the peers.
    copy: bytes a second of a copy on this device.
    """
    start = time.perf_counter()
    with config(cache=None) if cold else config(), trial.engine(device) as engine:
        engine.step(1)
        engine.wait()
        first_build = 1e3 * (time.perf_counter() - start)
        engine.step(steps - 1)
        losses = list(engine.losses())
        quality: dict[str, Any] = {"steps": steps, **trial.work.quality(engine)}
    quality |= {"first_loss": losses[0], "last_loss": losses[-1]}
    start = time.perf_counter()
    with trial.engine(device) as engine:
        engine.step(1)
        engine.wait()
        build = 1e3 * (time.perf_counter() - start)
        peers, failures = _peers(trial)
        ours, theirs = _in_turns(engine, peers, batches)
        read = _read_every_step(engine, ours, batches)
        plan = engine.plan
        moved = step_bytes(plan)
        stages = _stages(engine)
        counts = {
            **plan.counts,
            "step_substages": len(plan.step.sub_stages),
            "step_stages": len(plan.step.stages),
        }
    device_ms = None if stages is None else sum(stage["ms"] for stage in stages)
    results = {
        name: {
            **peer.facts,
            "step_ms": theirs[name],
            "quality": _peer_quality(trial, device, name, steps),
            "ours_over_theirs": ours / theirs[name],
        }
        for name, peer in peers.items()
    }
    return {
        "settings": trial.work.settings,
        **trial.facts,
        "plan": counts,
        "first_build_ms": first_build,
        "warm_build_ms": build,
        "step_ms": ours,
        "step_and_read_loss_ms": read,
        "device_ms": device_ms,
        "bytes": moved,
        "bandwidth": moved / (1e-3 * ours),
        "copy_bandwidth": copy,
        "stages": stages,
        "quality": quality,
        "peers": {**results, **failures},
        "losses": losses,
    }


def _peers(trial: Trial) -> tuple[dict[str, Peer], dict[str, dict[str, Any]]]:
    """Those that are there, and what is said of those that are not."""
    made, failures = {}, {}
    for name, make in trial.work.peers.items():
        try:
            made[name] = make()
        except DressiError as error:
            failures[name] = {"step_ms": None, "error": str(error)}
    return made, failures


def _in_turns(engine: DressiAD, peers: Mapping[str, Peer], batches: int) -> tuple[float, dict[str, float]]:
    """Milliseconds a step of the engine, and of each peer: A B A B, the median of the batches."""

    def ours(count: int) -> None:
        engine.step(count)
        engine.wait()

    runs: list[Callable[[int], None]] = [ours, *(peer.run for peer in peers.values())]
    lengths = [_warm_up(run) for run in runs]
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(batches):
        for run, length, times in zip(runs, lengths, seconds, strict=True):
            start = time.perf_counter()
            run(length)
            times.append((time.perf_counter() - start) / length)
    ms = [1e3 * float(np.median(times)) for times in seconds]
    return ms[0], dict(zip(peers, ms[1:], strict=True))


def _warm_up(run: Callable[[int], None]) -> int:
    """Runs the warm-up steps and returns how many steps make a batch."""
    run(WARM_UP // 2)
    start = time.perf_counter()
    run(WARM_UP - WARM_UP // 2)
    step = (time.perf_counter() - start) / (WARM_UP - WARM_UP // 2)
    return int(np.clip(round(BATCH_SECONDS / step), 1, MOST_STEPS))


def _read_every_step(engine: DressiAD, step_ms: float, batches: int) -> float:
    """Milliseconds a step whose loss is read on the host before the next one starts."""
    seconds = []
    for _ in range(max(batches, min(int(100 / step_ms), 50))):
        start = time.perf_counter()
        engine.step(1)
        engine.losses()
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds))


def _stages(engine: DressiAD) -> list[dict[str, Any]] | None:
    """Device time and bytes of each Stage, None where the device has no timestamps."""
    if not engine.device.timestamp_bits:
        return None
    plan = engine.plan
    return [
        {"name": timed.name, "ms": timed.ms, "bytes": stage_bytes(plan, stage)}
        for timed, stage in zip(profile(engine.executor, 5), plan.step.stages, strict=True)
    ]


def _peer_quality(trial: Trial, device: Device, name: str, steps: int) -> dict[str, float | None] | None:
    """Of a fresh run of as many steps as ours: the timed one went on for longer."""
    if trial.work.peer_quality is None:
        return None
    again = trial.work.peers[name]()
    again.run(steps)
    return trial.work.peer_quality(device, again.positions())
