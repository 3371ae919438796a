"""Line charts as SVG that stretches with the page, with labels in HTML, so that text keeps its size on any
screen.

No script is needed to read one; with the page's script a pointer or the arrow keys read values off the
curves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .markup import Markup, details, duration_text, element, joined, number, size_text, table

MOST_POINTS = 500
"""Of one curve: longer ones show the mean of each stretch."""
Place = Callable[[float], float]
LARGEST = 1e100
"""What is beyond is a gap: its sums, or its range, may be infinite."""
COLOURS = 8
"""Colours that the style sheet has for curves."""


@dataclass(frozen=True)
class Series:
    """A curve. y: None where there is no value.  marked: whether its points are shown."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    marked: bool = False


def line_chart(
    title: str, series: Sequence[Series], *, x_label: str, y_label: str, log: bool = False
) -> Markup:
    """A figure with the curves and a legend. log: a logarithmic y axis, only for what is positive."""
    curves = [_thinned(one, log) for one in series]
    points = [(x, y) for one in curves for x, y in zip(one.x, one.y, strict=True) if y is not None]
    if not points:
        empty = element("p", "There are no values.")
        return element("figure", element("figcaption", title), empty, class_="chart")
    x_range = _spread(min(x for x, _ in points), max(x for x, _ in points))
    y_range = _spread(*_limits([y for _, y in points], log))
    place_x, place_y = _scale(x_range, False), _scale(y_range, log)
    x_ticks, y_ticks = _ticks(*x_range, 6), (_decades if log else _ticks)(*y_range, 6)
    lines = []
    for k, one in enumerate(curves):
        for dots in (False, True) if one.marked or len(one.x) == 1 else (False,):
            kind = f"s{k % COLOURS}{' dots' if dots else ''}"
            lines.append(element("path", d=_path(one, place_x, place_y, dots), class_=kind))
    grid = [element("path", d=f"M0 {1000 - 1000 * place_y(y):.1f}H1000", class_="grid") for y in y_ticks]
    drawing = element(
        "svg",
        element("g", grid, aria_hidden="true"),
        lines,
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
        role="img",
        aria_label=_said(title, curves, y_label),
    )
    labels_y = [element("span", _tick(y), style=f"bottom:{100 * place_y(y):.2f}%") for y in y_ticks]
    labels_x = [element("span", _tick(x), style=f"left:{100 * place_x(x):.2f}%") for x in x_ticks]
    legend = [
        element("li", element("i", class_=f"s{k % COLOURS}"), one.name, element("output"))
        for k, one in enumerate(curves)
    ]
    values = [[[_short(x), _short(y)] for x, y in zip(c.x, c.y, strict=True)] for c in curves]
    data = {"x": list(x_range), "y": list(y_range), "log": log, "label": x_label, "series": values}
    return element(
        "figure",
        element("figcaption", title),
        element("ul", legend, class_="legend") if len(curves) > 1 or curves[0].name else None,
        element(
            "div",
            element("div", labels_y, class_="y", aria_hidden="true"),
            element("div", drawing, element("i", class_="hair"), class_="area", tabindex="0"),
            element("div", labels_x, class_="x", aria_hidden="true"),
            class_="plot",
        ),
        element("p", joined(x_label, element("span", "", class_="at")), class_="axis"),
        class_="chart",
        data_chart=json.dumps(data, separators=(",", ":")),
    )


def bar(value: float | None, largest: float, kind: str = "") -> Markup | None:
    """A bar inside a cell of a table, as long as the value's part of the largest."""
    if value is None or not largest > 0 or not math.isfinite(value):
        return None
    share = min(max(100 * value / largest, 0.0), 100.0)
    return element("span", class_=f"bar {kind}".strip(), style=f"width:{share:.2f}%", aria_hidden="true")


def _tick(value: float) -> str:
    """As short as it can be: 0.0005, 1e-5, 20,000."""
    if abs(value) >= 1e4:
        return f"{value:,.0f}"
    text = f"{value:.4g}"
    return text if "e" not in text else text.replace("e-0", "e-").replace("e+0", "e")


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _drawn(value: float | None, log: bool) -> float | None:
    if value is None or not abs(value) <= LARGEST or (log and not value >= 1 / LARGEST):
        return None
    return value


def _thinned(one: Series, log: bool) -> Series:
    """At most ``MOST_POINTS`` points, each the mean of a stretch. Values that are not finite, beyond
    ``LARGEST``, or not positive on a log axis become gaps."""
    points = [(x, _drawn(y, log)) for x, y in zip(one.x, one.y, strict=True) if abs(x) <= LARGEST]
    x, y = [x for x, _ in points], [y for _, y in points]
    if len(y) <= MOST_POINTS:
        return Series(one.name, x, y, one.marked)
    step, xs, ys = len(y) / MOST_POINTS, [], []
    for k in range(MOST_POINTS):
        low, high = int(k * step), max(int((k + 1) * step), int(k * step) + 1)
        values = [v for v in y[low:high] if v is not None]
        xs.append(sum(x[low:high]) / (high - low))
        ys.append(sum(values) / len(values) if values else None)
    return Series(one.name, xs, ys, one.marked)


def _limits(values: Sequence[float], log: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.05 * (high - low)
    return (low * 0.9, high * 1.1) if log else (low - room, high + room)


def _spread(low: float, high: float) -> tuple[float, float]:
    """A range with some extent."""
    if high > low:
        return low, high
    room = 0.5 * abs(low) or 0.5
    return low - room, high + room


def _scale(limits: tuple[float, float], log: bool) -> Place:
    """From a value to its place in [0, 1]."""
    low, high = (math.log10(v) for v in limits) if log else limits
    return lambda v: ((math.log10(v) if log else v) - low) / (high - low)


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers in a range."""
    raw = (high - low) / count
    base = 10 ** math.floor(math.log10(raw))
    step = next(base * m for m in (1, 2, 5, 10) if base * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    ticks = []
    while first * step <= high * (1 + 1e-12) + 1e-12 * step and len(ticks) < 20:
        ticks.append(round(first * step, 12))
        first += 1
    return ticks


def _decades(low: float, high: float, count: int) -> list[float]:
    """Powers of ten, with their 2 and 5 where the range is short, fewer where it is long."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    parts = (1, 2, 5) if last - first <= 3 else (1,)
    skip = max(1, math.ceil((last - first) / count))
    ticks = [m * 10.0**k for k in range(first, last + 1, skip) for m in parts]
    return [v for v in ticks if low <= v <= high] or _ticks(low, high, 4)


def _path(one: Series, place_x: Place, place_y: Place, dots: bool) -> str:
    """The curve in 1000 by 1000 units, or its points alone: lines without length, whose round ends show."""
    parts, drawing = [], False
    for x, y in zip(one.x, one.y, strict=True):
        if y is None:
            drawing = False
            continue
        at = f"{1000 * place_x(x):.1f} {1000 - 1000 * place_y(y):.1f}"
        parts.append(f"L{at}" if drawing else f"M{at}h0")
        drawing = not dots
    return "".join(parts)


def _said(title: str, curves: Sequence[Series], y_label: str) -> str:
    """The chart in words, for those who do not see it."""
    ends = []
    for one in curves:
        values = [v for v in one.y if v is not None]
        if values:
            ends.append(f"{one.name or y_label} from {number(values[0])} to {number(values[-1])}")
    return f"{title}: {'; '.join(ends)}"


# The Stages of a step, one after the other: what each takes and how many bytes it moves.

KINDS = ("raster", "fragment", "compute", "scatter", "list", "blocks", "copies")
"""Kinds of work, which begin the names of Stages; each has a colour, all others share one."""


@dataclass(frozen=True)
class StageRow:
    """ms: measured, None where the device has no timestamps.  predicted_ms: by the device's model.  bytes:
    that the Stage reads and writes outside of the chip."""

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
    rows = []
    for stage in stages:
        name, functions = str(stage["name"]), str(stage.get("functions", ""))
        ms, predicted = (
            None if t is None else float(t) for t in (stage.get("ms"), stage.get("predicted_ms"))
        )
        rows.append(StageRow(name, functions, ms, predicted, int(stage["bytes"])))
    return rows


def timeline(stages: Sequence[StageRow]) -> Markup:
    """Two strips, of time and of bytes; behind a summary the sums by kind and a table of all Stages."""
    times = [_time(stage) for stage in stages]
    measured = any(stage.ms is not None for stage in stages)
    moved = [float(stage.bytes) for stage in stages]
    how = "ms measured" if measured else "ms predicted (this device has no timestamps)"
    strips = [
        _strip(stages, times, f"{number(sum(times))} {how}"),
        _strip(stages, moved, f"{size_text(sum(moved))} moved"),
    ]
    parts = kinds_legend(stages, sums=True), _table(stages, times, moved)
    every = details(f"All {len(stages)} Stages in their order", *parts)
    return element("div", strips, every, class_="timeline")


def kinds_legend(stages: Sequence[StageRow], *, sums: bool = False) -> Markup:
    """What the colours of strips mean. sums: with the number of Stages of each kind, their time and bytes."""
    entries = []
    for kind in sorted({stage.kind for stage in stages}, key=lambda kind: (_colour(kind), kind)):
        figures = element("span", _sums(stages, kind)) if sums else None
        entries.append(element("li", element("i", class_=f"s{_colour(kind)}"), kind, figures))
    return element("ul", entries, class_="legend")


def _time(stage: StageRow) -> float:
    ms = stage.ms if stage.ms is not None else stage.predicted_ms
    return max(ms or 0.0, 0.0)


def _colour(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else COLOURS - 1


def _sums(stages: Sequence[StageRow], kind: str) -> str:
    mine = [stage for stage in stages if stage.kind == kind]
    ms, moved = duration_text(sum(map(_time, mine))), size_text(sum(stage.bytes for stage in mine))
    return f"{len(mine)} × · {ms} ms · {moved}"


def _strip(stages: Sequence[StageRow], values: Sequence[float], said: str) -> Markup:
    """One bar, cut at the Stages. Those below a five-hundredth are invisible and left out."""
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
    head += [*(["predicted ms"] if predicted else []), "moved"]
    return table(head, rows, text_columns=2 if functions else 1)
