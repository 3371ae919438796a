"""The results of a fit on disk: the mesh, losses, pictures, and a report in numbers."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..drawing import pictures
from ..drawing.turntable import render_turntable
from ..engine import MakeEngine
from ..formats import save_glb, save_scene
from ..io import Photos, save_gif, save_png
from ..io.cameras import NAME
from ..io.files import finite
from ..mesh import Mesh
from ..mesh.checks import check_surface
from ..objectives.hull import hull_iou
from ..objectives.metrics import chamfer
from ..scene.scene import Node, Scene
from ..shading.lights import LightSource
from .cameras import cameras_file, moves
from .confidence import confidence, shown_confidence
from .data.dataset import Dataset, Observations
from .data.result import FitResult, Quality
from .disk import cannot_write, locked, temporary_prefix
from .exposures import expected_gains
from .parts import Parts
from .scores import picture_facts, pose_facts, score

LIGHT = "light.json"
"""The light of a result whose material was recovered."""
HELD_OUT = "heldout.png"
"""Held-out views as ``views.png`` shows training views, where there are any."""
CONFIDENCE = "confidence.glb"
"""How far photographs speak for each point, as colours of vertices from red to green."""
STAGES = "stages.json"
"""What the Stages of each round take, where that was measured."""
FILES = ("result.glb", "loss.csv", "quality.csv", "loss.png", "views.png", "turntable.gif", "report.json")


def surface_score(result: FitResult, dataset: Dataset) -> dict[str, Any]:
    """Defects of the result as a surface, and its distance to the true surface if the dataset has one.

    chamfer: in the units of the mesh; relative: over the diagonal of the box of the true one.
    """
    found = check_surface(result.mesh).as_dict()
    if dataset.reference is None:
        return found
    distance = chamfer(result.mesh, dataset.reference)
    diagonal = float(np.linalg.norm(np.ptp(dataset.reference.bounds(), axis=0)))
    return {**found, "chamfer": distance, "relative_chamfer": distance / max(diagonal, 1e-30)}


def hull_score(dataset: Dataset) -> float | None:
    """Held-out IoU of the visual hull of the training masks: the baseline for a shape."""
    if dataset.held_out is None:
        return None
    low, high = dataset.bounds
    # A box needs some extent along every axis, also for a flat object.
    margin = 0.02 * np.maximum(high - low, 0.1 * (high - low).max())
    bounds = np.stack([low - margin, high + margin])
    train, other = dataset.train, dataset.held_out
    return hull_iou(
        train.masks,
        train.cameras,
        other.masks,
        other.cameras,
        bounds,
        train_known=train.known,
        held_out_known=other.known,
    )


def write_results(
    folder: Path,
    dataset: Dataset,
    result: FitResult,
    make_engine: MakeEngine,
    *,
    device: dict[str, str],
    total_s: Callable[[], float],
    hull: bool = True,
    photos: Photos | None = None,
    task: dict[str, Any] | None = None,
    stages: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Write all ``FILES`` into ``folder`` and return the report.

    task: what was asked for, for the report.  stages: of each round its ``round`` and its ``stages``, for ``STAGES``. Views
    that were held out are shown in ``HELD_OUT``, at most as many as ``views.png`` has. With refined poses it also writes ``cameras.json`` (``cameras_file``), which needs ``photos`` for photographs. Existing
    files are replaced at the end, once all new ones are complete. Raises InputError if the folder cannot be written.
    """
    files = FILES
    given = dataset.train.cameras
    if result.cameras is not None:
        files = (*FILES, NAME)
        dataset = replace(dataset, train=replace(dataset.train, cameras=result.cameras))
    train = score(result, dataset.train, make_engine, result.exposures, result.gains)
    held_out = None
    if dataset.held_out is not None:
        gains = result.gains
        if gains is not None:
            gains = expected_gains(gains, dataset.train.cameras, dataset.held_out.cameras)
        held_out = score(result, dataset.held_out, make_engine, gains=gains)
    frames = render_turntable(result.mesh, dataset.up, make_engine, light=result.light)
    shown = np.arange(min(len(dataset.train.masks), pictures.COLUMNS))
    found = {"train": picture_facts(train, dataset.train)}
    if held_out is not None and dataset.held_out is not None:
        found["heldout"] = picture_facts(held_out, dataset.held_out)
    report: dict[str, Any] = {
        **({} if task is None else {"task": task}),
        **({"stages": [one["round"] for one in stages]} if stages else {}),
        "device": device,
        "plan": {
            **{
                key: sum(plan[key] for plan in result.plans.values())
                for key in ("substages", "stages", "functions")
            },
            **{name: result.plans.get(name) for name in ("shape", "texture")},
            **{name: plan for name, plan in result.plans.items() if name == "material"},
        },
        "time": {},
        "metrics": {
            "train": train.as_dict(),
            "heldout": None if held_out is None else held_out.as_dict(),
        },
        "views": {
            "size": list(dataset.train.cameras.size),
            "gap": pictures.GAP,
            "up": np.asarray(dataset.up).tolist(),
            "train": _shown(found["train"], dataset.train, shown),
        },
        "pictures": found,
    }
    if result.gains is not None:
        report["exposures"] = result.gains.round(4).tolist()
    if result.light is not None:
        files = (*files, LIGHT)
        report["material"] = {"light": type(result.light).__name__}
        if result.exposures is not None:
            report["material"]["exposures"] = result.exposures.tolist()
    if result.steered:
        keys = ("step", "factor", "value")
        report["steered"] = [dict(zip(keys, change, strict=True)) for change in result.steered]
    if result.cameras is not None:
        report["poses"] = moves(result.cameras, given)
    report["parts"] = {**Parts.of(dataset).as_dict(), "result": result.mesh.component_count()}
    report["surface"] = surface_score(result, dataset)
    more = (held_out is not None, HELD_OUT), (bool(stages), STAGES), (not dataset.exact, CONFIDENCE)
    files = (*files, *(name for there, name in more if there))
    outline = hull_score(dataset) if hull else None
    if outline is not None:
        report["hull"] = {"heldout": {"iou": outline}}
    with _all_or_nothing(folder, files) as new:
        save_result(new / "result.glb", dataset, result.mesh)
        if not dataset.exact:
            sure = confidence(result.mesh, dataset.train, train.colors, make_engine)
            report["confidence"] = {"mean": float(sure.mean()), "low": float((sure < 0.25).mean())}
            save_glb(new / CONFIDENCE, shown_confidence(result.mesh, sure))
        write_losses(new / "loss.csv", result.losses)
        write_quality(new / "quality.csv", result.quality)
        looks = [(look.step, look.iou, look.psnr) for look in result.quality]
        if looks:  # the curves end at the figures of the result, as the report has them
            looks.append((len(result.losses), train.iou, train.as_dict()["psnr"]))
        pictures.save_losses(new / "loss.png", result.losses, looks)
        save_png(new / "views.png", pictures.compare(dataset.train.colors[shown], train.colors[shown]))
        if held_out is not None and dataset.held_out is not None:
            other = dataset.held_out
            spread = np.unique(np.linspace(0, len(other.masks) - 1, pictures.COLUMNS).round().astype(int))
            report["views"]["heldout"] = _shown(found["heldout"], other, spread)
            save_png(new / HELD_OUT, pictures.compare(other.colors[spread], held_out.colors[spread]))
        if stages:
            (new / STAGES).write_text(json.dumps(finite(list(stages)), indent=1) + "\n")
        if result.light is not None:
            (new / LIGHT).write_text(json.dumps(light_facts(result.light)) + "\n")
        save_gif(new / "turntable.gif", frames)
        timing = result.timing
        report["time"] = {
            "first_build_ms": timing.first_build_ms,
            "step_ms": timing.step_ms,
            "total_s": result.earlier_s + total_s(),
        }
        if result.cameras is not None:
            (new / NAME).write_bytes(cameras_file(result.cameras, dataset, photos))
        (new / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return report


def _shown(facts: list[dict[str, Any]], views: Observations, shown: np.ndarray) -> list[dict[str, Any]]:
    """Facts of the views of a sheet, with where they are seen from."""
    return [{**facts[k], **pose} for k, pose in zip(shown, pose_facts(views, shown), strict=True)]


@contextmanager
def _all_or_nothing(folder: Path, files: Sequence[str]) -> Iterator[Path]:
    """A temporary folder whose files replace those of ``folder`` at the end of the block. Raises InputError."""
    temporary: str | None = None
    try:
        with locked(folder):
            temporary = tempfile.mkdtemp(prefix=temporary_prefix(), dir=folder)
            yield Path(temporary)
            for name in files:
                os.replace(Path(temporary) / name, folder / name)
    except OSError as error:
        raise InputError(cannot_write(folder, error)) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def save_result(path: Path, dataset: Dataset, mesh: Mesh) -> None:
    """The mesh with its material and, of photographs, the cameras that it was learned from."""
    cameras = {} if dataset.exact else {camera.name: camera for camera in dataset.train.cameras}
    with warnings.catch_warnings():
        # Cameras of files look through the middle of their pictures; cameras.json has those that do not.
        warnings.filterwarnings("ignore", message=".*looks past the centre")
        save_scene(path, Scene([Node(mesh)], cameras))


def keep_mesh(folder: Path, mesh: Mesh) -> Path | None:
    """Save at least the mesh if the results cannot be written: into their folder, or else a new temporary one."""
    for make in (lambda: folder, lambda: Path(tempfile.mkdtemp(prefix="dressi-"))):
        try:
            path = make() / "result.glb"
            save_glb(path, mesh)
            return path
        except (OSError, InputError):
            continue
    return None


def light_facts(light: LightSource) -> dict[str, Any]:
    """A light for JSON: its kind and its parameters."""
    facts: dict[str, Any] = {"kind": type(light).__name__}
    for name, value in vars(light).items():
        facts[name] = np.asarray(value).tolist() if isinstance(value, np.ndarray | tuple) else value
    return facts


def write_losses(path: Path, losses: list[tuple[str, float]]) -> None:
    """CSV with the columns step, phase, loss. Each loss is that before the update of its step, with all digits."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("step", "phase", "loss"))
        writer.writerows((step, phase, repr(loss)) for step, (phase, loss) in enumerate(losses))


def write_quality(path: Path, quality: Sequence[Quality]) -> None:
    """CSV with the columns step, phase, iou, psnr: of the training views, at the size of the round; psnr is empty while
    there are no colours."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("step", "phase", "iou", "psnr"))
        writer.writerows(
            (look.step, look.phase, repr(look.iou), "" if look.psnr is None else repr(look.psnr))
            for look in quality
        )
