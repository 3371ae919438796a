"""`dressi bench model --against FILE`: predictions beside the times of Stages that a file holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from ...errors import InputError
from ...vk.plan.core.options import DEFAULT, PlanOptions
from ...vk.plan.model.device import DeviceModel
from ...vk.plan.model.records import DATA_CENTRE
from ...vk.plan.predict.stages import StagePrediction, predict
from ..core.plan_for import record as record_named
from ..core.terminal import table_console
from .model import plans_of
from .names import PREDICTED
from .request import Request

LONG = 2e-5
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
            measured += sum(s["measured"] > LONG for result in results for s in result["stages"])
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
    short = [1 / p.ratio for p in pairs if p.measured <= LONG]
    resting = short and abs(log(median(short) / idle)) < abs(log(median(short)))
    return [replace(p, predicted=idle * p.predicted) for p in pairs] if resting else pairs


def _show(pairs: list[Pair], measured: int, record: str) -> None:
    long = [p for p in pairs if p.measured > LONG]
    console = table_console()
    table = Table(title=f"Stages over {1e6 * LONG:.0f} us, predicted by {record!r}", title_justify="left")
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
