"""The page of a fit."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..render.fit.report import CONFIDENCE_SHEET, HELD_OUT, STAGES
from ..render.io.files import finite, read_bytes, read_json, usable
from .parts.charts import LARGEST, Series, StageRow, kinds_legend, line_chart, stage_rows, timeline
from .parts.markup import Markup, dictionary, element, figures, is_number, number, section, size_text, table
from .parts.model import WORST, Model, colour, data_uri, error_map, first_frame, scaled, sheet_cells
from .parts.page import Page

# What `dressi fit` leaves in a folder, read with care: any of it may be damaged, or of another program.

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
    """One view of a sheet, or one picture of a list.  inside: PSNR of the interior.  gains: of the channels.
    pose: where it is seen from (eye, forward, up, fov); None in reports that do not say it."""

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
    """report: as it stands in the file.  losses: a curve a phase.  overlap, colours: IoU and PSNR of the
    training views.
    train, held_out: None where the folder has no such pictures.  stages: those of each round.  pictures:
    facts of each picture, by its set; empty in reports that do not say it."""

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
            views, listed = report.get("views") or {}, report.get("pictures") or {}
            train = _read_views(path / SHEET, views, "train")
            held_out = _read_views(path / HELD_OUT, views, "heldout")
            up = _numbers(views["up"], 3) if views else None
            pictures = {
                k: [_view(one) for one in listed.get(k, ())][:MOST_PICTURES] for k in ("heldout", "train")
            }
        stages = _read_stages(path / STAGES) if report.get("stages") else {}
        losses = _losses(path / LOSSES)
        return cls(path, report, losses, overlap, colours, train, held_out, up, stages, pictures)


def _report(path: Path) -> dict[str, Any]:
    report = finite(read_json(path, "report"), LARGEST)
    parts = ("device", "plan", "time", "metrics")
    if not isinstance(report, dict) or not all(isinstance(report.get(part), dict) for part in parts):
        raise InputError(
            f"'{path}' is no report of `dressi fit`: it has no {', '.join(parts)}; name the folder that --out gave"
        )
    return report


def _read_views(sheet: Path, views: dict[str, Any], name: str) -> Views | None:
    if name not in views or not sheet.is_file():
        return None
    width, height = (int(n) for n in _numbers(views["size"], 2))
    if not (0 < width <= 1 << 16 and 0 < height <= 1 << 16):
        raise ValueError(f"views of {width}x{height} pixels")
    return Views(sheet, (width, height), max(int(views["gap"]), 0), [_view(facts) for facts in views[name]])


def _view(facts: dict[str, Any]) -> ViewFacts:
    pose: dict[str, Any] | None = None
    if all(name in facts for name in ("eye", "forward", "up", "fov")):
        pose = {name: _numbers(facts[name], 3) for name in ("eye", "forward", "up")}
        pose["fov"] = float(facts["fov"])
    gains = _numbers(facts["gains"], 3) if "gains" in facts else None
    iou, psnr, inside = (_number(facts.get(name)) for name in ("iou", "psnr", "inside"))
    return ViewFacts(int(facts["view"]), iou, psnr, pose, str(facts.get("name", "")), inside, gains)


def _numbers(values: Any, count: int) -> list[float]:
    numbers = [float(value) for value in values]
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{numbers[:count]} instead of {count} finite numbers")
    return numbers


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
    curves: dict[str, tuple[list[float], list[float]]] = {}
    with usable(path, "its losses"):
        for row in _rows(path, ("step", "phase", "loss")):
            steps, losses = curves.setdefault(row["phase"], ([], []))
            steps.append(float(row["step"]))
            losses.append(float(row["loss"]))
    return [Series(phase, *curve) for phase, curve in curves.items()]


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


def _read_stages(path: Path) -> dict[str, list[StageRow]]:
    if not path.is_file():
        return {}
    rounds = finite(read_json(path, "list of Stages"), LARGEST)
    with usable(path, "its Stages"):
        return {str(one["round"]): stage_rows(one["stages"]) for one in rounds}


# The page of a fit: the model, the views, the curves, the Stages, the device.

DOWN = 0.35
"""Sine of the angle at which the 3D view begins to look down, or the nearest to it of a view."""
LOOKS = (("colours", "Colours"), ("lit", "Lit"), ("shape", "Shape"), ("normals", "Normals"))


def fit_page(folder: FitFolder, model: Model, side: int) -> Page:
    """model: that of the folder.  side: the longer side of a picture in the page, in pixels. Raises
    InputError where a file cannot be used."""
    report = folder.report
    task = dictionary(report.get("task"))
    source = task.get("source") or folder.path.resolve().name
    kind = {"mesh": "pictures of a mesh", "photographs": "photographs"}.get(task.get("kind", ""), "pictures")
    when = f", {str(task['finished'])[:16].replace('T', ' ')}" if task.get("finished") else ""
    device = report["device"].get("name", "an unknown device")
    sections = [_hero(folder, model, side), _advice(folder), _views(folder, side), _pictures(folder)]
    sections += [_confidence(folder, side), _curves(folder), _stages(folder), _run(folder, model)]
    lead = f"Shape and texture recovered from {kind}{when}, on {device}."
    return Page(str(source), lead, [part for part in sections if part is not None], model)


def _hero(folder: FitFolder, model: Model, side: int) -> Markup:
    poses = [
        {**view.pose, "heldout": views is folder.held_out}
        for views in (folder.train, folder.held_out)
        for view in (views.facts if views is not None else [])
        if view.pose is not None
    ]
    up = np.asarray(folder.up or (0.0, 1.0, 0.0))
    # Slightly from above, as people look at things.
    start = min(poses, key=lambda pose: abs(np.dot(pose["forward"], up) + DOWN))["forward"] if poses else None
    chosen = "lit" if model.lit else "colours"
    keys = "The recovered model; arrow keys turn it, + and - zoom"
    viewer = element(
        "div",
        _poster(folder, side),
        element("canvas", tabindex="0", role="img", aria_label=keys),
        element("p", "The 3D view needs JavaScript; this is a picture.", class_="say"),
        class_="viewer",
        data_up=json.dumps(up.tolist()),
        data_from=json.dumps(start),
        data_views=json.dumps(poses),
        data_look=chosen,
    )
    looks = []
    for name, said in LOOKS:
        button = element("input", type="radio", name="look", value=name, checked=name == chosen)
        looks.append(element("label", button, said))
    tools = element(
        "div",
        element("fieldset", looks, aria_label="How the model is shown"),
        element("label", element("input", type="checkbox", id="wire"), "Edges"),
        element("label", element("input", type="checkbox", id="cameras"), "Cameras") if poses else None,
        element("button", "Reset", id="reset", type="button"),
        class_="tools needs-viewer",
        hidden=True,
    )
    hint = element(
        "p",
        "Drag to turn, scroll or pinch to zoom; or arrow keys, +, − and Home. ",
        element("span", "Cameras: blue were learned from, orange were held out. ") if poses else None,
        model.note,
        class_="note needs-viewer",
        hidden=True,
    )
    left = element("div", viewer, tools, hint)
    return element("section", left, _key_figures(folder, model), class_="hero")


def _poster(folder: FitFolder, side: int) -> Markup | None:
    path = folder.path / TURNTABLE
    if not path.is_file():
        return None
    frame = scaled(first_frame(path), min(side, 480))
    return element("img", src=data_uri(frame), alt="The recovered model", class_="poster")


def _key_figures(folder: FitFolder, model: Model) -> Markup:
    report = folder.report
    held_out, train = (dictionary(report["metrics"].get(name)) for name in ("heldout", "train"))
    surface, time, hull = (dictionary(report.get(name)) for name in ("surface", "time", "hull"))
    seen = held_out or train
    which = "held-out views" if held_out else "training views"
    baseline = dictionary(hull.get("heldout")).get("iou")
    distance = surface.get("relative_chamfer")
    total = time.get("total_s")
    colours = "equal" if seen and seen.get("psnr") is None else _some(seen.get("psnr"), 3, " dB")
    inside = _some(seen.get("exposed_inside"), 3, " dB")
    far = None if distance is None else f"{100 * distance:.2f} %"
    return figures(
        [
            ("Silhouettes, IoU", _some(seen.get("iou"), 3), which),
            ("Colours, PSNR", colours, which),
            ("Colours inside", inside, "3 pixels from all rims, exposures solved for"),
            ("Structure, SSIM", _some(seen.get("ssim"), 3), which),
            ("Visual hull, IoU", _some(baseline, 3), "of the same masks, a baseline"),
            ("Distance to the truth", far, "of the diagonal, mean"),
            ("Faces", f"{model.faces:,}", _flaws(surface)),
            ("One step", _some(time.get("step_ms"), 3, " ms"), "forward, backward, update"),
            ("Whole run", None if total is None else _duration(total), "with loading and writing"),
        ]
    )


def _advice(folder: FitFolder) -> Markup | None:
    """What would help most, with what it is worth."""
    given = folder.report.get("advice")
    rows = [dictionary(one) for one in given] if isinstance(given, list) else []
    listed = [
        element("li", str(one["text"]), element("small", f" about {_some(one.get('decibels'), 2)} dB"))
        for one in rows
        if one.get("text") and one.get("decibels") is not None
    ]
    note = "Each sentence comes from a measurement of this fit; the decibels are about what is lost there."
    return section("What would help most", element("ol", listed), note=note) if listed else None


def _confidence(folder: FitFolder, side: int) -> Markup | None:
    """Where the mesh is uncertain."""
    path, found = folder.path / CONFIDENCE_SHEET, dictionary(folder.report.get("confidence"))
    if not path.is_file() or not found:
        return None
    names = ("mean", "low", "unseen")
    mean, low, unseen = (
        None if found.get(name) is None else f"{100 * float(found[name]):.1f} %" for name in names
    )
    residual = None if found.get("residual") is None else f"{255 * float(found['residual']):.1f}"
    numbers = figures(
        [
            ("Confidence", mean, "mean over the vertices"),
            ("Uncertain", low, "of the vertices, below 25 %"),
            ("Unseen", unseen, "of the vertices, in no picture"),
            ("Disagreement", residual, "of 255 codes, root mean square between result and pictures"),
        ]
    )
    alt = "Six sides of the mesh, and its confidence from red to green"
    picture = element("img", src=data_uri(scaled(first_frame(path), 2 * side)), alt=alt, class_="sheet")
    note = (
        "Six sides. From top to bottom: the mesh; how many pictures show a point, and how steeply; how alike they are;"
        " both together. Green is sure, red is a guess: take more pictures from there, or look for what differs between them."
    )
    return section("Where the mesh is uncertain", numbers, picture, note=note)


def _flaws(surface: dict[str, Any]) -> str:
    parts = []
    if surface.get("inside_out") is not None:
        parts.append(f"{number(surface['inside_out'])} inside out")
    if surface.get("self_intersecting") is not None:
        parts.append(f"{100 * surface['self_intersecting']:.2g} % cut another")
    return ", ".join(parts)


def _views(folder: FitFolder, side: int) -> Markup | None:
    groups = []
    for title, views in (("Held-out views", folder.held_out), ("Training views", folder.train)):
        if views is not None and views.facts:
            groups += [
                element("h3", title),
                _group(views, side, 0 if views is folder.train else _before(folder)),
            ]
    if not groups:
        sheet = folder.path / SHEET
        if not sheet.is_file():
            return None
        source = data_uri(scaled(first_frame(sheet), 2 * side))
        picture = element("img", src=source, alt="Views", class_="sheet")
        note = "From top to bottom: targets, the fit, their difference. This folder does not say what each view reached."
        return section("Views", picture, note=note)
    ramp = np.broadcast_to(colour(np.linspace(0, 1, 128)), (4, 128, 3))
    bar = element("img", src=data_uri(ramp, quality=95), alt="from dark to bright")
    most = f"{100 * WORST:.0f} % of the range of sRGB codes and more"
    scale = element("p", "Error: 0", bar, most, class_="scale")
    note = "Drag across a picture, or focus it and use the arrow keys: target on the left, fit on the right. Below it the error."
    return section("Views", scale, *groups, note=note)


def _pictures(folder: FitFolder) -> Markup | None:
    """A table of what is left of each picture, the worst of each set first."""
    rows = []
    for title, name in (("held out", "heldout"), ("learned from", "train")):
        for one in sorted(folder.pictures.get(name, []), key=_worst):
            gains = " ".join(number(gain) for gain in one.gains or [])
            rows.append([one.name, title, number(one.iou), number(one.psnr), number(one.inside), gains])
    if not rows:
        return None
    heads = ["Picture", "", "IoU", "PSNR, dB", "inside, dB", "gains of its codes"]
    note = (
        "The worst first. Inside: 3 pixels from the rims of both masks, with the gains that bring the result nearest to"
        " the picture. A picture that is much worse than others has a wrong camera or mask, or shows another moment."
    )
    return section("Pictures", table(heads, rows, text_columns=2), note=note)


def _worst(one: ViewFacts) -> float:
    measure = one.psnr if one.inside is None else one.inside
    return float("inf") if measure is None else measure


def _before(folder: FitFolder) -> int:
    """Where the poses of the held-out views begin in the list of the viewer."""
    return sum(view.pose is not None for view in folder.train.facts) if folder.train is not None else 0


def _group(views: Views, side: int, first_pose: int) -> Markup:
    pairs = sheet_cells(views.sheet, views.size, views.gap, len(views.facts))
    cards, pose = [], first_pose
    for facts, (target, result) in zip(views.facts, pairs, strict=True):
        name, button = f"View {facts.view + 1}", None
        measured = [f"IoU {number(facts.iou)}", *([] if facts.psnr is None else [f"{number(facts.psnr)} dB"])]
        if facts.pose is not None:
            button = element(
                "button", "3D", type="button", data_view=pose, class_="needs-viewer", hidden=True,
                title="Turn the model to this view", aria_label=f"Turn the model to {name.lower()}",
            )  # fmt: skip
            pose += 1
        source, alt = data_uri(scaled(error_map(target, result), side)), f"Error of {name.lower()}"
        error = element("img", src=source, alt=alt, class_="error", loading="lazy")
        caption = element("figcaption", element("b", name), " · ".join(measured), button)
        cards.append(element("figure", _compare(target, result, name, side), error, caption, class_="view"))
    return element("div", cards, class_="views")


def _compare(target: np.ndarray, result: np.ndarray, name: str, side: int) -> Markup:
    """A slider between two pictures of the same size."""
    label = f"{name}: how much of the target is shown"
    return element(
        "div",
        element("img", src=data_uri(scaled(target, side)), alt=f"{name}: target"),
        element("img", src=data_uri(scaled(result, side)), alt=f"{name}: fit", class_="after"),
        element("span", "target", class_="l"),
        element("span", "fit", class_="r"),
        element("input", type="range", min=0, max=100, value=50, aria_label=label),
        class_="compare",
    )


def _curves(folder: FitFolder) -> Markup | None:
    known = [
        ("Loss", folder.losses, "loss", True),
        ("IoU of the training views", folder.overlap, "IoU", False),
        ("PSNR of the training views, dB", folder.colours, "PSNR in dB", False),
    ]
    charts = [
        line_chart(a, curves, x_label="step", y_label=y, log=log) for a, curves, y, log in known if curves
    ]
    note = "The loss is another one in every round, since radii, sizes and weights change; IoU and PSNR are comparable."
    return section("Curves", element("div", charts, class_="charts"), note=note) if charts else None


def _stages(folder: FitFolder) -> Markup | None:
    if not folder.stages:
        return None
    parts: list[Any] = [kinds_legend([stage for stages in folder.stages.values() for stage in stages])]
    for name, stages in folder.stages.items():
        parts += [element("h3", _round_title(name)), timeline(stages)]
    note = (
        "A step is a list of Stages: render passes and dispatches, recorded once. Each strip is one step of a round, in its"
        " order; milliseconds of the device, with a full barrier after each Stage, so that their sum is more than a step takes."
    )
    return section("Stages", *parts, note=note)


def _round_title(name: str) -> str:
    """`shape 2` is the second round, which is of the shape."""
    phase, _, count = name.rpartition(" ")
    return f"Round {count}: {phase}" if phase and count.isdigit() else name.capitalize()


def _run(folder: FitFolder, model: Model) -> Markup:
    report = folder.report
    device, plan, time = report["device"], report["plan"], report["time"]
    facts: list[tuple[str, Any]] = [
        ("Device", device.get("name")),
        ("Driver", " ".join(str(device[name]) for name in ("driver", "version") if device.get(name))),
        ("First build", _some(time.get("first_build_ms"), 3, " ms")),
    ]
    poses, parts = dictionary(report.get("poses")), dictionary(report.get("parts"))
    if "mean_degrees" in poses:
        facts.append(("Cameras turned by", f"{number(poses['mean_degrees'])}° in the mean"))
    if "light" in dictionary(report.get("material")):
        facts.append(("Light", report["material"]["light"]))
    if parts.get("result") is not None:
        counts = f"{number(parts['result'])}, of the target {number(parts.get('components'))}"
        facts.append(("Connected parts", counts))
    facts.append(("Model in this page", f"{size_text(len(model.data))}, GLB"))
    listed = [[element("dt", name), element("dd", value)] for name, value in facts if value not in (None, "")]
    rows = [
        [name, *(number(counts.get(key)) for key in ("functions", "substages", "stages"))]
        for name, counts in plan.items()
        if isinstance(counts, dict)
    ]
    plans = table(["Plan", "Functions", "SubStages", "Stages"], rows, caption="Packing") if rows else None
    return section("Device and run", element("dl", listed, class_="facts"), element("p"), plans)


def _some(value: Any, digits: int, unit: str = "") -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if not is_number(value):
        raise InputError(f"report.json has {value!r} where a number belongs; run `dressi fit` again")
    return f"{number(value, digits)}{unit}"


def _duration(seconds: Any) -> str | None:
    if _some(seconds, 3) is None:
        return None
    return f"{seconds:.1f} s" if seconds < 120 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
