"""`dressi bench model`: what a device model predicts for each Stage of a step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from rich.table import Table

from ... import Device, DressiAD
from ...config import shader_text
from ...errors import InputError
from ...render.core.engine import Engine
from ...render.fit import Dataset, FitJob, FitOptions, mesh_dataset, planned_dataset
from ...render.io import write_json
from ...render.mesh import Mesh
from ...vk.plan.core.limits import most_restrictive, profile
from ...vk.plan.core.options import DEFAULT, PlanOptions
from ...vk.plan.execution.plan import Plan
from ...vk.plan.model.records import device_model
from ...vk.plan.predict.stages import Prediction, predict
from ...vk.planning import PlanningEngine
from ...vk.run.measure.calibration import model_of
from ...vk.run.measure.timing import profile as time_stages
from ..core.plan_for import PlanFor
from ..core.plan_for import record as record_named
from ..core.terminal import table_console
from .cases import CASES
from .request import Request
from .run import trials_of
from .work import drawn_on, without_values

# `dressi bench model`: the predicted time of a step of any case on the device of a record.
#
# No device and no driver is needed: the targets of the optimisations get no values (the fit's pictures are
# grey discs), since plans depend on sizes and types alone. With ``--measure`` the same steps run on a device,
# and the time of each Stage stands beside its prediction.

WARM = 0.3
"""Seconds of steps before they are timed: the clocks of a GPU that has waited for a plan are a third of its own."""
STEPS = 30
"""Steps of which the median time of each Stage is taken."""
LONG = 1e-4
"""Seconds of a Stage from which on its prediction is judged."""


def run_model(request: Request, *, record: str | None, measure: bool) -> list[dict[str, Any]]:
    """Predicts, prints a table for each step, writes --json, and returns the results. Raises DressiErrors."""
    if measure:
        results = _beside_measurement(request, record)
    else:
        results = predictions(request, record, request.profile)
    print_predictions(request.case, results)
    if request.json_file is not None:
        write_json(request.json_file, results)
    return results


def predictions(request: Request, record: str | None, limits: str | None) -> list[dict[str, Any]]:
    """What --json lists for the steps of a case, for the device of a record and a profile of limits. Raises DressiErrors."""
    target = record_named(record, limits)
    return [
        _result(request, target, label, settings, predict(plan, target.model))
        for label, settings, plan in plans_of(request, target)
    ]


def plans_of(
    request: Request, target: PlanFor, options: PlanOptions = DEFAULT
) -> Iterator[tuple[str, dict[str, Any], Plan]]:
    """Label, settings and plan of each step of the case. options: where the case has none of its own."""
    if request.case != "fit":
        # The limits and the model are the target's, which the profile is a part of, where the case has none of its own.
        for trial in CASES[request.case](request, without_values):
            size = "x".join(map(str, trial.work.settings["size"]))
            print(f"dressi: planning {request.case} {size} {trial.label} ...", file=sys.stderr)
            trial = replace(trial, options=options) if trial.options == DEFAULT else trial
            yield trial.label, trial.work.settings, trial.plan(target.limits, target.model)
        return
    make = partial(PlanningEngine, target.limits, target.model, shader_text, options=options)

    def discs(mesh: Mesh, options: FitOptions) -> Dataset:
        return planned_dataset(mesh, options.views, options.size)

    for name, settings, _, planned in fit_rounds(request, discs, make):
        print(f"dressi: planning {request.case} {name} ...", file=sys.stderr)
        yield name, settings, planned.plan


def fit_rounds(
    request: Request, make_scene: Callable[[Mesh, FitOptions], Dataset], make_engine: Callable[[], Engine]
) -> Iterator[tuple[str, dict[str, Any], Any, Any]]:
    """Name, settings, graph and a fresh engine of each round of the fit of each mesh at each size. An engine
    is closed when the next one is asked for."""
    for model in request.models:
        for size in request.sizes:
            options = FitOptions(
                size=size, views=request.views, form=request.form, peels=request.peels, texture_gradient=request.gradient,
                texture_size=max(request.textures), steps=request.steps,
            )  # fmt: skip
            job = FitJob(make_scene(model.mesh, options), options, make_engine)
            for name, work in job.works():
                with closing(job.engine(work)) as engine:
                    settings = {**request.settings, **model.facts, "size": list(size), "steps": work.steps}
                    yield name, settings, work, engine


def _beside_measurement(request: Request, record: str | None) -> list[dict[str, Any]]:
    """Plans for the open device and the model that was asked for, by default that of the device."""
    results = []
    with Device.open(request.device) as device:
        if not device.timestamp_bits:
            raise InputError(
                f"{device.name} has no timestamps; leave out --measure, or choose another --device"
            )
        model = model_of(device) if record is None else device_model(record)
        limits = device.limits
        if request.profile is not None:
            limits = most_restrictive(limits, profile(request.profile))
        target = PlanFor(request.profile or device.name, limits, model)
        for label, settings, engine in _engines(request, device, target):
            print(f"dressi: measuring {request.case} {label} ...", file=sys.stderr)
            end = time.perf_counter() + WARM
            while time.perf_counter() < end:
                engine.step(5)
                engine.wait()
            times = time_stages(engine.executor, STEPS)
            prediction = predict(engine.plan, model)
            stages = zip(times, engine.plan.step.with_dependencies, strict=True)
            run = [time.ms for time, (_, sources) in stages if sources is None]
            results.append(_result(request, target, label, settings, prediction.measured(run), device))
    return results


def _engines(
    request: Request, device: Device, target: PlanFor
) -> Iterator[tuple[str, dict[str, Any], DressiAD]]:
    def make() -> DressiAD:
        return DressiAD(device, limits=target.limits, model=target.model)

    if request.case != "fit":
        for trial in trials_of(request, drawn_on(device)):
            with closing(trial.engine(device)) as engine:
                yield trial.label, trial.work.settings, engine
        return

    def pictures(mesh: Mesh, options: FitOptions) -> Dataset:
        return mesh_dataset(mesh, options.views, options.size, make, options.target_samples)

    for name, settings, work, engine in fit_rounds(request, pictures, make):
        work.before(engine, 0)
        yield name, settings, engine


def _result(
    request: Request, target: PlanFor, label: str, settings: dict[str, Any], prediction: Prediction,
    device: Device | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What --json lists for a step."""
    result = {
        "case": request.case,
        "label": label,
        "settings": settings,
        "limits": target.name,
        "device_model": target.model.as_dict(),
        "options": "shipped",
        "targets": "without values: nothing was drawn" if device is None else f"drawn on {device.name}",
        "device": None if device is None else device.name,
        "totals": prediction.totals,
        "stages": [s.as_dict() for s in prediction.stages],
    }
    if device is not None:
        judged = [s for s in prediction.stages if s.measured is not None and s.measured > LONG]
        near = sum(0.5 <= (s.ratio or 0.0) <= 2.0 for s in judged)
        result["within_2"] = {"stages": near, "of": len(judged)}
    return result


# Predictions for the eye: a table for each step, a row for each Stage.

MIB = 2**20
COLUMNS = (
    "stage", "Functions", "invocations", "Mop", "Mfetch", "MiB", "walk", "chain", "barriers", "predicted ms",
)  # fmt: skip
NOTE = (
    "MiB leave the chip; walk: texels that one invocation visits in a loop; chain: fetches that wait for each other;"
    " the step is the sum of its Stages, without the submission"
)


def print_predictions(case: str, results: Sequence[dict[str, Any]]) -> None:
    """A table for each step, its sums in the last row."""
    console = table_console()
    for result in results:
        console.print(_table(case, result))
    print(f"{NOTE}; {results[0]['targets']}")


def _table(case: str, result: dict[str, Any]) -> Table:
    settings, totals, measured = result["settings"], result["totals"], result["device"] is not None
    parts = [result["label"], "x".join(map(str, settings["size"])), f"{settings.get('views', 1)} views"]
    planned_for = f"device model {result['device_model']['name']}, limits {result['limits']}, shipped options"
    title = f"dressi bench model {case}: {', '.join(filter(None, parts))}; {planned_for}"
    table = Table(title=title, title_justify="left")
    for k, name in enumerate([*COLUMNS, *(("measured ms", "ratio") if measured else ())]):
        table.add_column(name, justify="left" if k < 2 else "right", overflow="fold")
    for stage in result["stages"]:
        table.add_row(*_row(stage, stage["name"], stage["functions"], measured))
    table.add_section()
    sums = {**totals, "measured": None, "ratio": None}
    if measured:
        sums["measured"] = sum(s["measured"] or 0.0 for s in result["stages"])
        sums["ratio"] = totals["seconds"] / sums["measured"] if sums["measured"] else None
    near = result.get("within_2")
    said = f"{near['stages']} of {near['of']} Stages over 0.1 ms within a factor of 2" if near else ""
    table.add_row(*_row(sums, f"{totals['stages']} Stages, {totals['launches']} launches", said, measured))
    return table


def _row(values: dict[str, Any], name: str, functions: str, measured: bool) -> list[str]:
    row = [
        name,
        functions if len(functions) < 60 else functions[:57] + "...",
        str(values["invocations"]),
        f"{values['operations'] / 1e6:.2f}",
        f"{values['fetches'] / 1e6:.3f}",
        f"{values['bytes'] / MIB:.2f}",
        f"{values['walk']:.0f}",
        f"{values['chain']:.0f}",
        str(values["barriers"]),
        f"{1e3 * values['seconds']:.4f}",
    ]
    if measured:
        time, ratio = values["measured"], values["ratio"]
        row += ["-" if time is None else f"{1e3 * time:.4f}", "-" if ratio is None else f"{ratio:.2f}"]
    return row
