"""What `dressi fit` leaves in a folder, read with care: any of it may be damaged, or of another program."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...render.fit.report import HELD_OUT, STAGES
from ...render.io.files import finite, read_bytes, read_json, usable
from ..parts.charts import LARGEST, Series
from ..parts.timeline import StageRow, stage_rows

REPORT, MESH, SHEET, LOSSES, QUALITY, TURNTABLE = (
    "report.json", "result.glb", "views.png", "loss.csv", "quality.csv", "turntable.gif",
)  # fmt: skip
AGAIN = "run `dressi fit` again, or name another folder"
MOST_PICTURES = 1000
"""Rows of the table of pictures."""
MOST_ROWS = 2_000_000
"""Of a table of losses."""


@dataclass(frozen=True)
class ViewFacts:
    """One view of a sheet, or one picture of a list.  inside: PSNR of the interior.  gains: of the channels.  eye, forward, up, fov: where it is seen from; None in reports that do not say it."""

    view: int
    iou: float | None
    psnr: float | None
    pose: dict[str, Any] | None
    name: str = ""
    inside: float | None = None
    gains: list[float] | None = None


@dataclass(frozen=True)
class Views:
    """The views of one sheet. size: (W, H) of each.  gap: pixels between them."""

    sheet: Path
    size: tuple[int, int]
    gap: int
    facts: list[ViewFacts]


@dataclass(frozen=True)
class FitFolder:
    """report: as it stands in the file.  losses: a curve a phase.  overlap, colours: IoU and PSNR of the training views.
    train, held_out: None where the folder has no such pictures.  stages: those of each round.  pictures: what is left of each, by its
    set; empty in reports that do not say it."""

    path: Path
    report: dict[str, Any]
    losses: list[Series]
    overlap: list[Series]
    colours: list[Series]
    train: Views | None
    held_out: Views | None
    up: list[float] | None
    stages: dict[str, list[StageRow]] = field(default_factory=dict)
    pictures: dict[str, list[ViewFacts]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> FitFolder:
        """Raises InputError, which names the file and the cure."""
        report = _report(path / REPORT)
        if not (path / MESH).is_file():
            raise InputError(f"'{path}' has a report but no {MESH}; {AGAIN}")
        overlap, colours = _quality(path / QUALITY)
        with usable(path / REPORT, "its views"):
            views = report.get("views") or {}
            train, held_out = _views(path / SHEET, views, "train"), _views(path / HELD_OUT, views, "heldout")
            up = _numbers(views["up"], 3) if views else None
            pictures = {
                name: [_view(facts) for facts in (report.get("pictures") or {}).get(name, ())][:MOST_PICTURES]
                for name in ("heldout", "train")
            }
        stages = _stages(path / STAGES) if report.get("stages") else {}
        return cls(
            path, report, _losses(path / LOSSES), overlap, colours, train, held_out, up, stages, pictures
        )


def _report(path: Path) -> dict[str, Any]:
    report = finite(read_json(path, "report"), LARGEST)
    parts = ("device", "plan", "time", "metrics")
    if not isinstance(report, dict) or not all(isinstance(report.get(part), dict) for part in parts):
        raise InputError(
            f"'{path}' is no report of `dressi fit`: it has no {', '.join(parts)}; name the folder that --out gave"
        )
    return report


def _views(sheet: Path, views: dict[str, Any], name: str) -> Views | None:
    if name not in views or not sheet.is_file():
        return None
    width, height = (int(n) for n in _numbers(views["size"], 2))
    if not (0 < width <= 1 << 16 and 0 < height <= 1 << 16):
        raise ValueError(f"views of {width}x{height} pixels")
    return Views(sheet, (width, height), max(int(views["gap"]), 0), [_view(facts) for facts in views[name]])


def _view(facts: dict[str, Any]) -> ViewFacts:
    pose = None
    if all(name in facts for name in ("eye", "forward", "up", "fov")):
        pose = {name: _numbers(facts[name], 3) for name in ("eye", "forward", "up")} | {
            "fov": float(facts["fov"])
        }
    gains = _numbers(facts["gains"], 3) if "gains" in facts else None
    iou, psnr, inside = (_number(facts.get(name)) for name in ("iou", "psnr", "inside"))
    return ViewFacts(int(facts["view"]), iou, psnr, pose, str(facts.get("name", "")), inside, gains)


def _numbers(values: Any, count: int) -> list[float]:
    found = [float(value) for value in values]
    if len(found) != count or not all(map(math.isfinite, found)):
        raise ValueError(f"{found[:count]} instead of {count} finite numbers")
    return found


def _number(value: Any) -> float | None:
    """A measure; none where it is NaN or infinite, as of a fit that diverged."""
    return None if value is None or not math.isfinite(float(value)) else float(value)


def _rows(path: Path, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of a table; none where there is no such file. Raises InputError."""
    if not path.is_file():
        return []
    with usable(path, "its table"):
        text = read_bytes(path, "table", most=64 << 20).decode()
        reader = csv.DictReader(io.StringIO(text))
        if tuple(reader.fieldnames or ()) != columns:
            raise InputError(f"'{path}' has no columns {', '.join(columns)}; {AGAIN}")
        return [row for _, row in zip(range(MOST_ROWS), reader, strict=False)]


def _losses(path: Path) -> list[Series]:
    found: dict[str, Series] = {}
    with usable(path, "its losses"):
        for row in _rows(path, ("step", "phase", "loss")):
            one = found.setdefault(row["phase"], Series(row["phase"], [], []))
            one.x.append(float(row["step"]))  # type: ignore[attr-defined]
            one.y.append(float(row["loss"]))  # type: ignore[attr-defined]
    return list(found.values())


def _quality(path: Path) -> tuple[list[Series], list[Series]]:
    """IoU and PSNR of the training views, each as curves (none or one)."""
    rows = _rows(path, ("step", "phase", "iou", "psnr"))
    with usable(path, "its measures"):
        steps = [float(row["step"]) for row in rows]
        iou = Series("", steps, [float(row["iou"]) for row in rows], marked=True)
        coloured = [row for row in rows if row["psnr"]]
        places = [float(row["step"]) for row in coloured]
        psnr = Series("", places, [float(row["psnr"]) for row in coloured], marked=True)
    return [iou] if rows else [], [psnr] if coloured else []


def _stages(path: Path) -> dict[str, list[StageRow]]:
    if not path.is_file():
        return {}
    rounds = finite(read_json(path, "list of Stages"), LARGEST)
    with usable(path, "its Stages"):
        return {str(one["round"]): stage_rows(one["stages"]) for one in rounds}
