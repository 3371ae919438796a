"""`dressi bench model`: what a device model predicts for each Stage of a step, beside what was measured."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from math import log
from pathlib import Path
from statistics import median
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
from ...vk.plan.model.device import DeviceModel
from ...vk.plan.model.records import DATA_CENTRE, device_model
from ...vk.plan.predict.stages import Prediction, StagePrediction, predict
from ...vk.planning import PlanningEngine
from ...vk.run.measure.calibration import model_of
from ...vk.run.measure.timing import profile as time_stages
from ..core.plan_for import PlanFor
from ..core.plan_for import record as record_named
from ..core.terminal import table_console
from .cases import CASES
from .names import PREDICTED
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


# `dressi bench model --against FILE`: predictions beside the times of Stages that a file holds.

SHORT = 2e-5
"""Seconds of a Stage from which on its prediction is judged: launches and barriers are most of shorter ones."""
WORST = 12
"""Stages that are listed, those that are predicted worst."""

# Which plans a measured Stage is looked for in, one after the other. Only predictions are asked for, so that
# any plan will do that has the Stage: today's, and those that planners made before they had the passes that are
# left out here.
_BEFORE = replace(DEFAULT, without=("join_dispatches", "rasterize_in_compute"))
PLANS: tuple[tuple[PlanOptions, bool], ...] = (
    (DEFAULT, False),
    (_BEFORE, True),
    (_BEFORE.switched("run_on_active_blocks"), True),
    (replace(_BEFORE, keep_what_pays=False), True),
)
"""Options, and whether loops stay whole that idle lanes would share."""
ALIKE = 0.8
"""The least share of Functions that two Stages have in common, of all that either has, to count as the same; and of
their invocations."""
RENAMED = {"strips": "tiles", "Gather": "ContractFunction"}
"""Words in older files, and what they are called now."""


@dataclass(frozen=True)
class Pair:
    """A Stage that was measured, and its prediction at the clocks of its step. case: with the label of the step."""

    case: str
    name: str
    functions: str
    measured: float
    predicted: float

    @property
    def kind(self) -> str:
        """What the Stage does first: "raster", "compute", "scatter" ..."""
        return self.name.split()[0]

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured


def run_against(file: Path, case: str | None, *, record: str | None, limits: str | None) -> list[Pair]:
    """Predicts the steps of a file of measured Stages, or those of one case of it, and prints how many are within a
    factor of 2, by kind. What none of ``PLANS`` has is left out, and counted.

    A device that is seldom busy lets its clocks rest. Short Stages, which are not judged, tell for each step whether
    they did (``_at_clocks``).

    file: what `bench model CASE --measure --json` writes, or {"cases": {case: such a list}}.  record: by default that of a
    data centre.  Raises InputError for another file.
    """
    cases = _cases(file)
    if case is not None and case not in cases:
        raise InputError(f"'{file}' has no Stages of {case!r}; it has {', '.join(sorted(cases))}")
    model = record_named(record or DATA_CENTRE.name, limits).model
    steps: list[list[Pair]] = []
    measured = 0
    for name, results in cases.items():
        if name in PREDICTED and case in (None, name):
            steps += _steps(name, results, model, limits)
            measured += sum(s["measured"] > SHORT for result in results for s in result["stages"])
    if not any(steps):
        raise InputError(
            f"'{file}' has no Stage that today's plans have; measure again: dressi bench model CASE --measure --json FILE"
        )
    clocked = [_at_clocks(pairs, model.idle) for pairs in steps if pairs]
    pairs = [pair for step in clocked for pair in step]
    _show(pairs, measured, model.name)
    if resting := sum(now is not was for now, was in zip(clocked, filter(None, steps), strict=True)):
        print(
            f"the clocks rested in {resting} of {len(clocked)} steps: everything took {model.idle:g} times as long"
        )
    return pairs


def _cases(file: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of the steps of each case, with times as numbers. Raises InputError."""
    wrong = InputError(
        f"'{file}' is no file of measured Stages; write one: dressi bench model CASE --measure --json {file.name}"
    )
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{file}' cannot be read: {error}") from error
    given: Any = content.get("cases") if isinstance(content, dict) else {"": content}
    cases: dict[str, list[dict[str, Any]]] = {}
    try:
        for name, results in given.items():
            for result in results:
                for stage in result["stages"]:
                    stage["measured"] = float(stage["measured"] or 0.0)
                    stage["invocations"] = int(stage.get("invocations", 0))
                    if not (stage["name"].split() and isinstance(stage["functions"], str)):
                        raise wrong
                if not all(isinstance(result.get(k) or {}, dict) for k in ("settings", "device_model")):
                    raise wrong
                cases.setdefault(str(result.get("case", name)), []).append(result)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise wrong from None
    return cases


def _steps(
    case: str, results: list[dict[str, Any]], model: DeviceModel, limits: str | None
) -> list[list[Pair]]:
    """The Stages of each step of a case that some plan has."""
    left = {r.get("label") or "": [s for s in r["stages"] if s["measured"] > 0.0] for r in results}
    pairs: dict[str, list[Pair]] = {label: [] for label in left}
    for options, whole in PLANS:
        if not any(left.values()):
            break
        for label, stages in _predicted(case, results[0], model, limits, options, whole):
            for old, new in _matched(left.get(label, []), stages):
                left[label].remove(old)
                where = f"{case} {label}".strip()
                pairs[label].append(Pair(where, new.name, new.functions, old["measured"], new.seconds))
    return list(pairs.values())


def _predicted(
    case: str,
    result: dict[str, Any],
    model: DeviceModel,
    limits: str | None,
    options: PlanOptions,
    whole: bool,
) -> Iterator[tuple[str, list[StagePrediction]]]:
    """Label and predictions of the steps of a case. They are planned for the model that the file says they were
    planned for, and predicted by another."""
    settings = result.get("settings") or {}
    given: dict[str, Any] = {
        name: "x".join(map(str, value)) if isinstance(value, list) else str(value)
        for name in ("size", "texture_size", "mesh")
        if (value := settings.get(name)) is not None
    }
    views = settings.get("views")
    request = Request.parse(case, views=views if isinstance(views, int) else None, **given)
    target = record_named(model.name, limits)
    known = {f.name for f in fields(DeviceModel) if f.type in ("int", "float", "bool")}
    given_model = (result.get("device_model") or {}).items()
    planner = replace(model, **{name: figure for name, figure in given_model if name in known})
    planner = replace(planner, fetch_latency=0.0) if whole else planner
    for label, _, plan in plans_of(request, replace(target, model=planner), options):
        yield label, list(predict(plan, model).stages)


def _matched(
    old: list[dict[str, Any]], new: list[StagePrediction]
) -> Iterator[tuple[dict[str, Any], StagePrediction]]:
    """Measured Stages with the predicted ones that do the same: first those of the same Functions."""
    old, new = list(old), list(new)
    for least in (1.0, ALIKE):
        for s in list(old):
            found = max(new, key=lambda n: _alike(s, n), default=None)
            if found is not None and _alike(s, found) >= least:
                old.remove(s)
                new.remove(found)
                yield s, found


def _alike(old: dict[str, Any], new: StagePrediction) -> float:
    """The share of Functions that Stages of one kind have in common; 0 for those that do another amount of work."""
    (domain, functions), (domain_now, now) = (
        _words(old["name"], old["functions"]),
        _words(new.name, new.functions),
    )
    few, many = sorted((old["invocations"] or new.invocations, new.invocations))
    if domain != domain_now or few < ALIKE * many:
        return 0.0
    return len(functions & now) / max(len(functions | now), 1) if functions | now else 1.0


def _words(name: str, functions: str) -> tuple[str, set[str]]:
    """What a Stage is called, but for its list, and its Functions, by today's names."""
    for was, now in RENAMED.items():
        name, functions = name.replace(was, now), functions.replace(was, now)
    return name.replace(", listed", ""), {*filter(None, functions.split(", "))}


def _at_clocks(pairs: list[Pair], idle: float) -> list[Pair]:
    """The Stages of a step at the clocks that its short ones tell: those of a busy device, or ``idle`` times as slow."""
    short = [1 / p.ratio for p in pairs if p.measured <= SHORT]
    resting = short and abs(log(median(short) / idle)) < abs(log(median(short)))
    return [replace(p, predicted=idle * p.predicted) for p in pairs] if resting else pairs


def _show(pairs: list[Pair], measured: int, record: str) -> None:
    long = [p for p in pairs if p.measured > SHORT]
    console = table_console()
    table = Table(title=f"Stages over {1e6 * SHORT:.0f} us, predicted by {record!r}", title_justify="left")
    for name in ("kind", "Stages", "within 2", "median predicted / measured"):
        table.add_column(name, justify="left" if name == "kind" else "right")
    kinds = [*sorted({p.kind for p in long}), ""]
    for kind in kinds:
        own = [p for p in long if kind in ("", p.kind)]
        near = sum(0.5 <= p.ratio <= 2.0 for p in own)
        middle = sorted(p.ratio for p in own)[len(own) // 2] if own else float("nan")
        if not kind:
            table.add_section()
        table.add_row(
            kind or "all", str(len(own)), f"{near} ({near / max(len(own), 1):.0%})", f"{middle:.2f}"
        )
    console.print(table)
    for p in sorted(long, key=lambda p: max(p.ratio, 1 / max(p.ratio, 1e-9)), reverse=True)[:WORST]:
        print(f"{p.ratio:6.2f}  {p.case}: {p.name}, {p.functions[:60]}: {1e6 * p.measured:.0f} us measured")
    print(f"{measured - len(long)} of {measured} measured Stages are in no plan of today, and are left out")
