"""`dressi bench model --against FILE`: predictions beside the times of Stages that a file holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from rich.table import Table

from ...errors import InputError
from ...vk.plan.model.records import DATA_CENTRE
from ..core.terminal import table_console
from .model import predictions
from .names import PREDICTED
from .request import Request

LONG = 2e-5
"""Seconds of a Stage from which on its prediction is judged: launches and barriers are most of shorter ones."""
WORST = 12
"""Stages that are listed, those that are predicted worst."""


@dataclass(frozen=True)
class Pair:
    """A Stage that was measured and that the plan of today still has. case: with the label of its step."""

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
    """Predicts the steps of a file of measured Stages, or those of one case of it, and prints how many are within a factor of 2, by
    kind. Stages are matched by their names and Functions, in order: what today's plan does otherwise is left out, and counted.

    file: what `bench model CASE --measure --json` writes, or {"cases": {case: such a list}}.  record: by default that of a
    data centre.  Raises InputError for another file.
    """
    cases = _cases(file)
    if case is not None and case not in cases:
        raise InputError(f"'{file}' has no Stages of {case!r}; it has {', '.join(sorted(cases))}")
    pairs, measured = [], 0
    for name, results in cases.items():
        if name in PREDICTED and case in (None, name):
            found, count = _pairs(name, results, record or DATA_CENTRE.name, limits)
            pairs += found
            measured += count
    if not pairs:
        raise InputError(
            f"'{file}' has no Stage that today's plans have; measure again: dressi bench model CASE --measure --json FILE"
        )
    _show(pairs, measured, record or DATA_CENTRE.name)
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
                    if not (stage["name"].split() and isinstance(stage["functions"], str)):
                        raise wrong
                if not isinstance(result.get("settings") or {}, dict):
                    raise wrong
                cases.setdefault(str(result.get("case", name)), []).append(result)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise wrong from None
    return cases


def _pairs(
    case: str, results: list[dict[str, Any]], record: str, limits: str | None
) -> tuple[list[Pair], int]:
    """The Stages of a case that are matched, and how many long ones the file has."""
    settings = results[0].get("settings") or {}
    options: dict[str, Any] = {
        name: "x".join(map(str, value)) if isinstance(value, list) else str(value)
        for name in ("size", "texture_size", "mesh")
        if (value := settings.get(name)) is not None
    }
    views = settings.get("views")
    request = Request.parse(case, views=views if isinstance(views, int) else None, **options)
    today = {r["label"]: r["stages"] for r in predictions(request, record, limits)}
    pairs, count = [], 0
    for result in results:
        label = result.get("label") or ""
        old = [s for s in result["stages"] if s["measured"] > 0.0]
        new = today.get(label, [])
        count += sum(s["measured"] > LONG for s in old)
        keys = [
            [(s["name"].replace("strips", "tiles"), s["functions"]) for s in stages] for stages in (old, new)
        ]
        for block in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
            for a, b in zip(old[block.a :][: block.size], new[block.b :][: block.size], strict=True):
                where = f"{case} {label}".strip()
                pairs.append(Pair(where, b["name"], b["functions"], a["measured"], b["seconds"]))
    return pairs, count


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
    print(
        f"{measured - len(long)} of {measured} measured Stages are otherwise in today's plans, and are left out"
    )
