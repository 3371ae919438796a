"""Runs a benchmark on the devices that are asked for, compares them, and writes what was found."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, list_devices
from dressi.cli.bench.cases import CASES, COMPARED, for_profile
from dressi.cli.bench.protocol import measure
from dressi.cli.bench.request import Request
from dressi.cli.bench.table import draw_curves, print_table
from dressi.cli.bench.targets import Targets, drawn_on
from dressi.cli.bench.work import Trial, Work
from dressi.cli.sizes import check_size
from dressi.errors import DressiError
from dressi.render.io import write_json
from dressi.vk.plan.limits import PROFILES
from dressi.vk.plan.options import DEFAULT
from dressi.vk.run.measure.bandwidth import copy_bandwidth
from dressi.vk.run.measure.calibration import model_of

Reference = tuple[dict[str, np.ndarray], dict[str, Any]]


def run_bench(request: Request) -> list[dict[str, Any]]:
    """Measures, prints the table, writes --json (and the curves of figure 9), and returns the results.

    A trial that fails is a result with an ``error``; the error is raised when nothing else is left.
    """
    results, errors = measured(request)
    errors += [result.pop("exception") for result in results if "exception" in result]
    if not any("step_ms" in result for result in results):
        raise errors[0]
    _finish(request, results)
    return results


def measured(request: Request) -> tuple[list[dict[str, Any]], list[DressiError]]:
    """The results of all trials on all devices that are asked for, and what devices failed with as a whole. A trial that
    fails is a result with an ``error`` and its ``exception``. Raises DressiErrors where the one device that is asked for
    cannot be used."""
    several = request.device == "all"
    wanted = [device.index for device in list_devices()] if several else [request.device]
    results: list[dict[str, Any]] = []
    trials: list[Trial] = []
    references: dict[Work, Reference] = {}
    errors: list[DressiError] = []
    for name in wanted:
        try:
            with Device.open(name) as device:
                _check(request, device)
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


def _check(request: Request, device: Device) -> None:
    for size in request.sizes:
        check_size(size, max(request.textures), device.limits.max_image_dimension)


def trials_of(request: Request, targets: Targets) -> Iterator[Trial]:
    """The trials of a case, planned with the limits and the model of the profile that was asked for, if any."""
    for trial in CASES[request.case](request, targets):
        asked = request.profile is not None and trial.limits is None
        yield for_profile(trial, request.profile) if asked and request.profile else trial


def _results(
    request: Request,
    trials: list[Trial],
    device: Device,
    copy: float,
    references: dict[Work, Reference],
    compare: bool,
) -> list[dict[str, Any]]:
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
        found = trial.first_values(device)
        if work in references:
            results[-1]["agreement"] = _agreement(*references[work], found, results[-1])
        else:
            references[work] = found, results[-1]
    for name, peer in measured[0].get("peers", {}).items():
        if "error" in peer:
            print(f"dressi: {name}: {peer['error']}", file=sys.stderr)
    return results


def _head(request: Request, trial: Trial, device: Device) -> dict[str, Any]:
    """What was measured, and where."""
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
        "commit": _commit(),
        "cold": request.cold,
        "driver_cache": os.environ.get("MESA_SHADER_CACHE_DISABLE", "").lower() not in ("true", "1", "yes"),
    }


def planned_for(trial: Trial, device: Device) -> dict[str, Any]:
    """Whose limits and device model the trial is planned with, and which options differ from the shipped ones."""
    name = next((name for name, limits in PROFILES.items() if limits is trial.limits), None)
    shipped = asdict(DEFAULT)
    return {
        "limits": f"{name} on {device.name}" if name else device.name,
        "device_model": (trial.model or model_of(device)).name,
        "options": {k: v for k, v in asdict(trial.options).items() if v != shipped[k]} or "shipped",
    }


def _agreement(
    reference: dict[str, np.ndarray],
    first: dict[str, Any],
    found: dict[str, np.ndarray],
    result: dict[str, Any],
) -> dict[str, Any]:
    """How far the first images, gradients and the last losses are apart, as parts of the largest of the reference.

    ``<name>_share``: of the texels, those that differ by more than 1e-3 of it.
    """
    loss, other = (r["quality"]["last_loss"] for r in (first, result))
    agreement: dict[str, Any] = {
        "with": ", ".join(part for part in (first["device"], first["label"]) if part),
        "last_loss": abs(other - loss) / max(abs(loss), 1e-30),
    }
    for name, values in found.items():
        difference = np.abs(values.astype(np.float64) - reference[name])
        largest = max(float(np.abs(reference[name]).max()), 1e-30)
        agreement[name] = float(difference.max()) / largest
        agreement[f"{name}_share"] = float(np.mean(difference > 1e-3 * largest))
    return agreement


def _finish(request: Request, results: Sequence[dict[str, Any]]) -> None:
    print_table(results)
    if request.json_file is not None:
        write_json(request.json_file, results)
    if any("losses" in result for result in results):
        path = Path("out/figure9.png") if request.json_file is None else request.json_file.with_suffix(".png")
        draw_curves(path, results)
        print(f"the curves are in '{path}'")


def _commit() -> str | None:
    """Of the checkout that this file belongs to, if it does."""
    folder = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return found.stdout.strip() or None
