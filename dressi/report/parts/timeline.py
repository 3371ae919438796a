"""The Stages of a step, one after the other: what each takes and how many bytes it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .charts import COLOURS, bar
from .markup import Markup, details, duration_text, element, number, size_text, table

KINDS = ("raster", "fragment", "compute", "scatter", "list", "blocks", "copies")
"""Kinds of work, which begin the names of Stages; each has a colour, all others share one."""


@dataclass(frozen=True)
class StageRow:
    """ms: measured, None where the device has no timestamps.  predicted_ms: by the device's model.  bytes: that the Stage
    reads and writes outside of the chip."""

    name: str
    functions: str
    ms: float | None
    predicted_ms: float | None
    bytes: int

    @property
    def kind(self) -> str:
        return self.name.partition(" ")[0] or "other"


def stage_rows(stages: list[dict[str, Any]]) -> list[StageRow]:
    """Stages as files list them. Raises what damaged content raises."""
    return [
        StageRow(
            str(stage["name"]),
            str(stage.get("functions", "")),
            _number(stage.get("ms")),
            _number(stage.get("predicted_ms")),
            int(stage["bytes"]),
        )
        for stage in stages
    ]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def timeline(stages: Sequence[StageRow]) -> Markup:
    """Two strips, of time and of bytes; behind a summary the sums by kind and a table of all Stages."""
    times = [_time(stage) for stage in stages]
    measured = any(stage.ms is not None for stage in stages)
    moved = [float(stage.bytes) for stage in stages]
    how = "ms measured" if measured else "ms predicted (this device has no timestamps)"
    return element(
        "div",
        _strip(stages, times, f"{number(sum(times))} {how}"),
        _strip(stages, moved, f"{size_text(sum(moved))} moved"),
        details(
            f"All {len(stages)} Stages in their order",
            kinds_legend(stages, sums=True),
            _table(stages, times, moved),
        ),
        class_="timeline",
    )


def kinds_legend(stages: Sequence[StageRow], *, sums: bool = False) -> Markup:
    """What the colours of strips mean. sums: with the number of Stages of each kind, their time and bytes."""
    kinds = sorted({stage.kind for stage in stages}, key=lambda kind: (_colour(kind), kind))
    entries = [
        element(
            "li",
            element("i", class_=f"s{_colour(kind)}"),
            kind,
            element("span", _sums(stages, kind)) if sums else None,
        )
        for kind in kinds
    ]
    return element("ul", entries, class_="legend")


def _time(stage: StageRow) -> float:
    found = stage.ms if stage.ms is not None else stage.predicted_ms
    return max(found or 0.0, 0.0)


def _colour(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else COLOURS - 1


def _sums(stages: Sequence[StageRow], kind: str) -> str:
    mine = [stage for stage in stages if stage.kind == kind]
    return (
        f"{len(mine)} × · {duration_text(sum(map(_time, mine)))} ms · {size_text(sum(s.bytes for s in mine))}"
    )


def _strip(stages: Sequence[StageRow], values: Sequence[float], said: str) -> Markup:
    """One bar, cut at the Stages. Those of less than a five-hundredth are too thin to be seen and are left out."""
    whole = sum(values) or 1.0
    parts = [
        element(
            "span",
            class_=f"s{_colour(stage.kind)}",
            style=f"flex-grow:{1000 * value / whole:.2f}",
            title=f"{k + 1}. {stage.name}: {duration_text(_time(stage))} ms, {size_text(stage.bytes)}",
        )
        for k, (stage, value) in enumerate(zip(stages, values, strict=True))
        if value > 0.002 * whole
    ]
    strip = element("div", parts, class_="strip", role="img", aria_label=said)
    return element("div", element("p", said, class_="axis"), strip)


def _table(stages: Sequence[StageRow], times: Sequence[float], moved: Sequence[float]) -> Markup:
    longest, most = max(times, default=0.0), max(moved, default=0.0)
    predicted = any(stage.predicted_ms is not None for stage in stages)
    functions = any(stage.functions for stage in stages)
    rows = []
    for k, stage in enumerate(stages):
        row: list[Any] = [f"{k + 1}. {stage.name}"]
        if functions:
            row.append(element("span", stage.functions, class_="functions", title=stage.functions))
        row.append([bar(times[k], longest), duration_text(stage.ms)])
        if predicted:
            row.append(duration_text(stage.predicted_ms))
        rows.append([*row, [bar(moved[k], most, "bytes"), size_text(stage.bytes)]])
    head = ["Stage", *(["Functions"] if functions else []), "ms"]
    return table(
        [*head, *(["predicted ms"] if predicted else []), "moved"], rows, text_columns=2 if functions else 1
    )
