"""Runs a benchmark on the devices that are asked for, compares them, and writes what was found."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, list_devices
from dressi.cli.bench.cases import CASES, COMPARED
from dressi.cli.bench.protocol import measure
from dressi.cli.bench.request import Request
from dressi.cli.bench.table import draw_curves, print_table
from dressi.cli.bench.traffic import copy_bandwidth
from dressi.cli.bench.work import Trial, Work
from dressi.cli.fitting import check_size
from dressi.errors import DressiError, InputError
from dressi.vk.plan.limits import profile

Reference = tuple[np.ndarray, dict[str, Any]]


def run_bench(request: Request) -> list[dict[str, Any]]:
    """Measures, prints the table, writes --json (and the curves of figure 9), and returns the results.

    With several devices, one that fails is a result with an ``error``; when all fail, and with one device, the
    error is raised.
    """
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
                # All devices get the same targets: those that the first one draws.
                trials = trials or _trials(request, device)
                for trial in trials:
                    try:
                        results.append(_result(request, trial, device, copy, references, len(wanted) > 1))
                    except DressiError as error:
                        errors.append(error)
                        results.append({**_head(request, trial, device), "error": str(error)})
                        if not several:
                            raise
        except DressiError as error:
            if not several:
                raise
            errors.append(error)
            print(f"dressi: device {name}: {error}", file=sys.stderr)
    if not any("step_ms" in result for result in results):
        raise errors[0]
    _finish(request, results)
    return results


def _check(request: Request, device: Device) -> None:
    for size in request.sizes:
        check_size(size, max(request.textures), device.limits.max_image_dimension)


def _trials(request: Request, device: Device) -> list[Trial]:
    limits = None if request.profile is None else profile(request.profile)
    trials = CASES[request.case](request, device)
    return [trial if trial.limits else replace(trial, limits=limits) for trial in trials]


def _result(
    request: Request,
    trial: Trial,
    device: Device,
    copy: float,
    references: dict[Work, Reference],
    compare: bool,
) -> dict[str, Any]:
    """Measured, and compared with the first result of the same Work."""
    head = _head(request, trial, device)
    what = trial.label or "x".join(map(str, trial.work.settings["size"]))
    print(f"dressi: {request.case}, {what}, {device.name} ...", file=sys.stderr)
    measured = measure(
        trial, device, steps=request.steps, batches=request.batches, cold=request.cold, copy=copy
    )
    for name, peer in measured["peers"].items():
        if "error" in peer:
            print(f"dressi: {name}: {peer['error']}", file=sys.stderr)
    result = {**head, **measured}
    if compare or request.case in COMPARED:
        image = trial.first_image(device)
        if trial.work in references:
            result["agreement"] = _agreement(*references[trial.work], image, result)
        else:
            references[trial.work] = image, result
    return result


def _head(request: Request, trial: Trial, device: Device) -> dict[str, Any]:
    """What was measured, and where."""
    physical = device.physical
    return {
        "case": request.case,
        "label": trial.label,
        "settings": trial.work.settings,
        "device": device.name,
        "driver": f"{physical.driver} {physical.driver_version}",
        "profile": trial.facts.get("profile", request.profile),
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "commit": _commit(),
        "cold": request.cold,
        "driver_cache": os.environ.get("MESA_SHADER_CACHE_DISABLE", "").lower() not in ("true", "1", "yes"),
    }


def _agreement(
    reference: np.ndarray, first: dict[str, Any], image: np.ndarray, result: dict[str, Any]
) -> dict[str, Any]:
    """How far the first images and the last losses of two results are apart, as parts of the larger."""
    difference = np.abs(image.astype(np.float64) - reference)
    largest = max(float(np.abs(reference).max()), 1e-30)
    loss, other = (r["quality"]["last_loss"] for r in (first, result))
    return {
        "with": ", ".join(part for part in (first["device"], first["label"]) if part),
        "largest": float(difference.max()) / largest,
        "share": float(np.mean(difference > 1e-3 * largest)),
        "loss": abs(other - loss) / max(abs(loss), 1e-30),
    }


def _finish(request: Request, results: Sequence[dict[str, Any]]) -> None:
    print_table(results)
    curves = request.case == "figure9"
    if not curves:
        for result in results:
            result.pop("losses", None)
    if request.json_file is not None:
        try:
            request.json_file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"'{request.json_file}' cannot be written ({error.strerror}); choose another place"
            ) from None
    if curves:
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
