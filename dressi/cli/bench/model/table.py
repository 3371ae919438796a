"""Predictions for the eye: a table for each step, a row for each Stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from dressi.cli.terminal import table_console

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
    model, settings, totals = result["device_model"]["name"], result["settings"], result["totals"]
    parts = [result["label"], "x".join(map(str, settings["size"])), f"{settings.get('views', 1)} views"]
    measured = result["device"] is not None
    title = f"dressi bench model {case}: {', '.join(p for p in parts if p)}; device model {model}, limits {result['limits']}, shipped options"
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
