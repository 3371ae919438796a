"""Runs a benchmark on the devices that are asked for, compares them, and writes what was found."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ... import Device, DressiAD, list_devices
from ...config import config, shader_text
from ...errors import DressiError
from ...render.io import write_json
from ...vk.plan.compiler import build_plan
from ...vk.plan.core.limits import PROFILES, DeviceLimits
from ...vk.plan.core.options import BASELINE, DEFAULT
from ...vk.plan.predict.stages import step_bytes
from ...vk.run.measure.calibration import model_of
from ...vk.run.measure.timing import copy_bandwidth, stage_facts
from ..core.sizes import check_size
from ..core.terminal import table_console
from .cases import CASES, COMPARED, for_profile
from .request import Request
from .work import Peer, Targets, Trial, Work, drawn_on

# What is measured, and how: first build apart, 20 warm-up steps, medians of timed batches, rivals in
# turns.

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


Reference = tuple[dict[str, np.ndarray], dict[str, Any]]


def run_bench(request: Request) -> list[dict[str, Any]]:
    """Measures, prints the table, writes --json, and returns the results.

    A trial that fails is a result with an ``error``; the error is raised when nothing else is left.
    """
    results, errors = measured(request)
    errors += [result.pop("exception") for result in results if "exception" in result]
    if not any("step_ms" in result for result in results):
        raise errors[0]
    print_table(results)
    if request.json_file is not None:
        write_json(request.json_file, results)
        if any("losses" in result for result in results):
            print(f"`dressi report '{request.json_file.parent}'` draws the curves")
    return results


def measured(request: Request) -> tuple[list[dict[str, Any]], list[DressiError]]:
    """The results of all trials on all devices that are asked for, and what devices failed with as a whole. A
    trial that fails is a result with an ``error`` and its ``exception``. Raises DressiErrors where the one
    device that is asked for cannot be used."""
    several = request.device == "all"
    wanted = [device.index for device in list_devices()] if several else [request.device]
    results: list[dict[str, Any]] = []
    trials: list[Trial] = []
    references: dict[Work, Reference] = {}
    errors: list[DressiError] = []
    for name in wanted:
        try:
            with Device.open(name) as device:
                for size in request.sizes:
                    check_size(size, max(request.textures), device.limits.max_image_dimension)
                copy = copy_bandwidth(device)
                targets = drawn_on(device)
                # All devices get the same targets: those that the first one draws.
                trials = trials or list(trials_of(request, targets))
                for _, group in groupby(trials, lambda trial: trial.work):
                    results += _results(request, list(group), device, copy, references, len(wanted) > 1)
        except DressiError as error:
            if not several:
                raise
            errors.append(error)
            print(f"dressi: device {name}: {error}", file=sys.stderr)
    return results, errors


def trials_of(request: Request, targets: Targets) -> Iterator[Trial]:
    """The trials of a case, planned with the limits and the model of the requested profile, if any."""
    for trial in CASES[request.case](request, targets):
        yield for_profile(trial, request.profile) if request.profile and trial.limits is None else trial


def _results(
    request: Request, trials: list[Trial], device: Device, copy: float, references: dict[Work, Reference], compare: bool
) -> list[dict[str, Any]]:  # fmt: skip
    """Trials of one Work, measured, and compared with the first result of that Work."""
    work = trials[0].work
    what = "; ".join(dict.fromkeys(["x".join(map(str, work.settings["size"])), *(t.label for t in trials)]))
    print(f"dressi: {request.case}, {what.rstrip('; ')}, on {device.name} ...", file=sys.stderr)
    measured = measure(
        trials, device, steps=request.steps, batches=request.batches, cold=request.cold, copy=copy
    )
    results = []
    for trial, values in zip(trials, measured, strict=True):
        results.append({**_head(request, trial, device), **values})
        if "error" in values or not (compare or request.case in COMPARED):
            continue
        first = trial.first_values(device)
        if work in references:
            results[-1]["agreement"] = _agreement(*references[work], first, results[-1])
        else:
            references[work] = first, results[-1]
    for name, peer in measured[0].get("peers", {}).items():
        if "error" in peer:
            print(f"dressi: {name}: {peer['error']}", file=sys.stderr)
    return results


def _head(request: Request, trial: Trial, device: Device) -> dict[str, Any]:
    physical = device.physical
    return {
        "case": request.case,
        "label": trial.label,
        "settings": trial.work.settings,
        "profile": request.profile,
        "planned_for": planned_for(trial, device),
        **trial.facts,
        "device": device.name,
        "driver": f"{physical.driver} {physical.driver_version}",
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "commit": commit(),
        "cold": request.cold,
        "driver_cache": os.environ.get("MESA_SHADER_CACHE_DISABLE", "").lower() not in ("true", "1", "yes"),
    }


def planned_for(trial: Trial, device: Device) -> dict[str, Any]:
    """Whose limits and device model the trial is planned with, and the options that are not shipped."""
    name = next((name for name, limits in PROFILES.items() if limits is trial.limits), None)
    shipped = asdict(DEFAULT)
    return {
        "limits": f"{name} on {device.name}" if name else device.name,
        "device_model": (trial.model or model_of(device)).name,
        "options": {k: v for k, v in asdict(trial.options).items() if v != shipped[k]} or "shipped",
    }


def _agreement(
    reference: dict[str, np.ndarray], first: dict[str, Any], values: dict[str, np.ndarray], result: dict[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """Differences of first images, first gradients and last losses, as parts of the reference's largest.

    ``<name>_share``: the share of the texels that differ by more than 1e-3 of it.
    """
    loss, other = (r["quality"]["last_loss"] for r in (first, result))
    agreement: dict[str, Any] = {
        "with": ", ".join(part for part in (first["device"], first["label"]) if part),
        "last_loss": abs(other - loss) / max(abs(loss), 1e-30),
    }
    for name, image in values.items():
        difference = np.abs(image.astype(np.float64) - reference[name])
        largest = max(float(np.abs(reference[name]).max()), 1e-30)
        agreement[name] = float(difference.max()) / largest
        agreement[f"{name}_share"] = float(np.mean(difference > 1e-3 * largest))
    return agreement


def commit() -> str | None:
    """The commit of the checkout that holds this file; None without one."""
    command = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None
    except OSError:
        return None


# Results for the eye: a table on the terminal, error curves as a picture.

MIB = 2**20
COLUMNS = {
    "plan": "functions substages stages",
    "profile_plan": "before -> after the cache",  # substages and stages of a step, whatever the device could do
    "build": "first build ms",
    "step": "step ms",
    "against": "ms more than the first",  # of the same work, with its interval
    "read": "+ loss read",  # the loss of every step comes to the host
    "device": "device ms",
    "longest": "longest submission ms",
    "bytes": "MiB a step",
    "held": "MiB held, of a baseline's",  # images with depths, and accumulators
    "bandwidth": "GB/s, of a copy's",
    "quality": "quality",
    "peers": "peers",
    "agreement": "differs",
}


def print_table(results: Sequence[dict[str, Any]]) -> None:
    """One row a result, its title what all have in common; failures say why."""
    console = table_console()
    parts = [_parts(result) for result in results]
    common = [part for part in parts[0] if all(part in other for other in parts)]
    table = Table(title=", ".join([f"dressi bench {results[0]['case']}", *common]), title_justify="left")
    # Columns without values are left out.
    columns = dict(COLUMNS)
    for name in ("against", "peers", "agreement", "profile_plan"):
        if not any(result.get(name) for result in results):
            del columns[name]
    table.add_column("what", overflow="fold")
    for name, title in columns.items():
        table.add_column(title, justify="left" if name == "peers" else "right", overflow="fold")
    for result, mine in zip(results, parts, strict=True):
        what = ", ".join(part for part in mine if part not in common) or "-"
        if "error" in result:
            table.add_row(f"{what}: {result['error']}")
            continue
        numbers = _numbers(result)
        table.add_row(what, *(numbers[name] for name in columns))
    console.print(table)
    against = list(dict.fromkeys(r["agreement"]["with"] for r in results if r.get("agreement")))
    if against:
        print(
            "differs: image (how much of it by more than 1e-3), gradient, last loss, as parts of the largest value of "
            f"{'; '.join(against)}"
        )


def _numbers(result: dict[str, Any]) -> dict[str, str]:
    plan, ms, agreement = result["plan"], result["device_ms"], result.get("agreement")
    return {
        "plan": f"{plan['functions']} {plan['substages']} {plan['stages']}",
        "profile_plan": " -> ".join(
            f"{counts['substages']} {counts['stages']}" for counts in result.get("profile_plan", {}).values()
        ),
        "build": f"{result['first_build_ms']:.0f}",
        "step": f"{result['step_ms']:.3f}",
        "against": "" if result["against"] is None else _against(result["against"]),
        "read": f"{result['step_and_read_loss_ms']:.3f}",
        "device": "-" if ms is None else f"{ms:.3f}",
        "longest": f"{result['longest_submission_ms']:.3g}",
        "bytes": f"{result['bytes'] / MIB:.2f}",
        "held": f"{_held(plan):.1f} of {_held(result['baseline']):.1f}",
        "bandwidth": f"{result['bandwidth'] / 1e9:.1f} of {result['copy_bandwidth'] / 1e9:.1f}",
        "quality": _quality(result["quality"]),
        "peers": "\n".join(_peer(name, peer) for name, peer in result["peers"].items()),
        "agreement": "" if agreement is None else _agreement_text(agreement),
    }


def _held(plan: dict[str, int]) -> float:
    return (plan["image_bytes"] + plan["buffer_bytes"]) / MIB


def _parts(result: dict[str, Any]) -> list[str]:
    """What was measured, in words."""
    settings = result["settings"]
    parts = [result["device"], *(result["label"].split(", ") if result["label"] else [])]
    parts += _planned(result["planned_for"])
    if "mesh" in settings:
        parts.append(f"{settings['mesh']} ({settings['faces']} faces)")
    parts.append("x".join(map(str, settings["size"])))
    if "texture_size" in settings:
        parts += [f"texture {settings['texture_size']}", f"{settings['texture_gradient']} gradient"]
    elif "channels" in settings:
        kind = "depthwise, " if settings["depthwise"] else ""
        parts.append(f"{kind}{settings['channels']} channels, kernel {settings['kernel']}")
    elif "form" in settings:
        parts.append(f"{settings['form']} form, r {settings['radius_px']:g} px")
        parts.append(f"{settings['target']} target")
    return [*parts, f"{settings['views']} views"] if settings.get("views", 1) > 1 else parts


def _planned(planned: dict[str, Any]) -> list[str]:
    options, off = planned["options"], "shipped options"
    if options != "shipped":
        off = f"without {', '.join(options)}" if len(options) < 4 else f"{len(options)} options off"
    return [f"limits of {planned['limits']}", f"device model {planned['device_model']}", off]


def _against(against: dict[str, Any]) -> str:
    same = ", the same plan" if against["same_plan"] else ""
    return f"{_difference(against)}; CPU {_difference(against['cpu'])}{same}"


def _difference(against: dict[str, Any]) -> str:
    interval = against["interval"]
    within = "" if interval is None else f" ({interval[0]:+.3f} to {interval[1]:+.3f})"
    return f"{against['ms']:+.3f}{within}"


def _agreement_text(agreement: dict[str, Any]) -> str:
    names = ("image", "gradient", "last_loss")
    image, gradient, loss = (f"{agreement[name]:.0e}" if agreement[name] else "0" for name in names)
    return f"{image} ({100 * agreement['image_share']:.2g} %) {gradient} {loss}"


def _quality(quality: dict[str, Any]) -> str:
    values = {k: v for k, v in quality.items() if k not in ("steps", "first_loss", "last_loss")}
    return ", ".join(f"{name} {'-' if value is None else f'{value:.4g}'}" for name, value in values.items())


def _peer(name: str, peer: dict[str, Any]) -> str:
    if peer["step_ms"] is None:
        return f"{name}: not there"
    quality = f", {_quality(peer['quality'])}" if peer["quality"] else ""
    return f"{name} {peer['step_ms']:.3f} ms{quality}"
