"""The results of a fit on disk: the mesh, losses, pictures, and a report in numbers."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from ..cameras import Camera, Cameras
from ..cameras.pose import turns, unit_cameras, world_cameras
from ..cameras.views import turntable
from ..core.engine import MakeEngine
from ..drawing import draw as drawing
from ..drawing.draw import draw, render_turntable
from ..drawing.occlusion import Charts
from ..drawing.point import Shader
from ..formats import save_glb, save_scene
from ..io import Photos, save_gif, save_png
from ..io.calibration import NAME, encode_cameras
from ..io.files import finite
from ..io.images import resize
from ..io.lens import Lens
from ..mesh import Mesh
from ..mesh.checks import check_surface
from ..objectives.hull import hull_iou
from ..objectives.metrics import (
    REACH as WINDOW,
)
from ..objectives.metrics import (
    around,
    chamfer,
    code_gains,
    interior,
    iou_per_view,
    silhouettes,
    similarity,
)
from ..scene.scene import Node, Scene
from ..shading.lights import LightSource
from ..surface.color import linear_to_srgb, srgb_to_linear
from .advice import AGREEING, BY_COLOURS, WORTH, Measures, advice, coverage, mirror, shift
from .data.dataset import Dataset, FitResult, Observations, Parts, Quality
from .data.directional import DIRECTIONAL
from .data.seen import seen_values, seen_weights
from .data.textures import dilated, levelled
from .disk import cannot_write, locked, temporary_prefix
from .phases.bundle import carried, posed
from .start.choice import contradicting

LIGHT = "light.json"
"""The light of a result whose material was recovered."""
HELD_OUT = "heldout.png"
"""Held-out views as ``views.png`` shows training views, where there are any."""
CONFIDENCE = "confidence.glb"
"""How far photographs speak for each point, as colours of vertices from red to green."""
CONFIDENCE_SHEET = "confidence.png"
"""The same from six sides: the mesh, views that show a point, how alike they are, and both together."""
SIDE = (256, 256)
STAGES = "stages.json"
"""What the Stages of each round take, where that was measured."""
FILES = ("result.glb", "loss.csv", "quality.csv", "views.png", "turntable.gif", "report.json")


def surface_score(result: FitResult, dataset: Dataset) -> dict[str, Any]:
    """Defects of the result as a surface, and its distance to the true surface if the dataset has one.

    chamfer: in the units of the mesh; relative: over the diagonal of the box of the true one.
    """
    defects = check_surface(result.mesh).as_dict()
    if dataset.reference is None:
        return defects
    distance = chamfer(result.mesh, dataset.reference)
    diagonal = float(np.linalg.norm(np.ptp(dataset.reference.bounds(), axis=0)))
    return {**defects, "chamfer": distance, "relative_chamfer": distance / max(diagonal, 1e-30)}


def hull_score(dataset: Dataset) -> float | None:
    """Held-out IoU of the visual hull of the training masks: the baseline for a shape."""
    if dataset.held_out is None:
        return None
    low, high = dataset.bounds
    # A box needs some extent along every axis, also for a flat object.
    margin = 0.02 * np.maximum(high - low, 0.1 * (high - low).max())
    train, other = dataset.train, dataset.held_out
    bounds = np.stack([low - margin, high + margin])
    views = train.masks, train.cameras, other.masks, other.cameras
    return hull_iou(*views, bounds, train_known=train.known, held_out_known=other.known)


def write_results(
    folder: Path,
    dataset: Dataset,
    result: FitResult,
    make_engine: MakeEngine,
    *,
    device: dict[str, str],
    total_s: Callable[[], float],
    baseline: bool = False,
    photos: Photos | None = None,
    task: dict[str, Any] | None = None,
    stages: Sequence[dict[str, Any]] = (),
    near: bool = False,
) -> dict[str, Any]:
    """Write all ``FILES`` into ``folder`` and return the report.

    baseline: whether to score the visual hull of the masks, too, which takes seconds.  task: what was asked
    for, for the report.  stages: for ``STAGES``, the ``round`` and ``stages`` of each round.  near: whether cameras
    were nearly right before the fit. Views that were
    held out are shown in ``HELD_OUT``, at most as many as ``views.png`` has. With refined poses it also
    writes ``cameras.json`` (``cameras_file``), which needs ``photos`` for photographs. Existing files are
    replaced once all new ones are complete. Raises InputError if the folder cannot be written.
    """
    files = FILES
    given = dataset.train.cameras
    if result.cameras is not None:
        files = (*FILES, NAME)
        dataset = replace(dataset, train=replace(dataset.train, cameras=result.cameras))
        if dataset.held_out is not None and not dataset.exact:
            moved = carried(given, result.cameras, dataset.held_out.cameras, dataset.center)
            other = replace(dataset.held_out, cameras=moved)
            dataset = replace(dataset, held_out=_posed(dataset, other, result.mesh, make_engine, near))
    views, other, held_out = dataset.train, dataset.held_out, None
    # One graph draws all of them.
    cameras = Cameras([*views.cameras, *(() if other is None else other.cameras)])
    mesh, own, sure = result.mesh, result.directional, None
    shader = None if own is None else own.shader(mesh)
    if not dataset.exact:
        sure = _sure(mesh, views, result, shader, make_engine)
        still, more = None, None
        if own is not None:
            still, usual, moved = own.settled(mesh, views.cameras.centers, sure.weights)
            more = usual, moved, own.detail
        even = seamless(mesh, sure.sure, make_engine, more)
        mesh, own = even, own if even is mesh else still
        shader = None if own is None else own.shader(mesh)
    masks, colors = draw(mesh, cameras, make_engine, views.samples, result.light, shader)
    count = len(views.cameras)
    train = score(views, masks[:count], colors[:count], result.exposures, result.gains)
    if other is not None:
        gains = None if result.gains is None else expected_gains(result.gains, views.cameras, other.cameras)
        held_out = score(other, masks[count:], colors[count:], gains=gains)
    frames = render_turntable(mesh, dataset.up, make_engine, light=result.light, shader=shader)
    shown = np.arange(min(len(dataset.train.masks), drawing.COLUMNS))
    found = {"train": train.pictures}
    if held_out is not None:
        found["heldout"] = held_out.pictures
    counts = ("substages", "stages", "functions")
    plans = {key: sum(plan[key] for plan in result.plans.values()) for key in counts}
    plans |= {"shape": result.plans.get("shape"), "texture": result.plans.get("texture")}
    if "material" in result.plans:
        plans["material"] = result.plans["material"]
    report: dict[str, Any] = {
        **({} if task is None else {"task": task}),
        **({"stages": [one["round"] for one in stages]} if stages else {}),
        "device": device,
        "plan": plans,
        "time": {},
        "metrics": {"train": train.as_dict(), "heldout": None if held_out is None else held_out.as_dict()},
        "views": {
            "size": list(dataset.train.cameras.size),
            "gap": drawing.GAP,
            "up": np.asarray(dataset.up).tolist(),
            "train": _shown(found["train"], dataset.train, shown),
        },
        "pictures": found,
    }
    if own is not None:
        report["gloss"] = bool(own.mirror.any())
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
    if sure is not None:
        judged = (views, train) if other is None or held_out is None else (other, held_out)
        apart = np.degrees(_apart(np.array([camera.forward for camera in views.cameras])))
        lit, learned = result.light is not None, _measures(views, train)
        wrong = contradicting(dataset) if train.iou < AGREEING else []
        said = advice(learned, _measures(*judged), views.fringe, apart, lit, wrong)
        if (reflected := mirror(mesh, views, train.masks, train.colors, make_engine)) is not None:
            said = [reflected, *(one for one in said if one.what not in BY_COLOURS)]
        said.append(coverage(mesh, sure.sure, views.cameras, dataset.up, make_engine))
        worth = sorted((one for one in said if WORTH <= one.decibels < np.inf), key=lambda one: -one.decibels)
        report["advice"] = [one._asdict() for one in worth]
    report["parts"] = {**Parts.of(dataset).as_dict(), "result": result.mesh.component_count()}
    report["surface"] = surface_score(result, dataset)
    more = (
        (held_out is not None, HELD_OUT), (bool(stages), STAGES), (not dataset.exact, CONFIDENCE),
        (not dataset.exact, CONFIDENCE_SHEET), (own is not None, DIRECTIONAL),
    )  # fmt: skip
    files = (*files, *(name for there, name in more if there))
    outline = hull_score(dataset) if baseline else None
    if outline is not None:
        report["hull"] = {"heldout": {"iou": outline}}
    with _all_or_nothing(folder, files) as new:
        save_result(new / "result.glb", dataset, mesh)
        if sure is not None:
            report["confidence"] = {
                "mean": float(sure.sure.mean()),
                "low": float((sure.sure < 0.25).mean()),
                "unseen": float((sure.views == 0).mean()),
                "residual": float(np.sqrt((sure.residual[sure.views > 0] ** 2).mean())),
            }
            save_glb(new / CONFIDENCE, shown_confidence(mesh, sure.sure))
            save_png(new / CONFIDENCE_SHEET, confidence_sheet(mesh, sure, dataset.up, make_engine))
        if own is not None:
            own.save(new / DIRECTIONAL)
        write_losses(new / "loss.csv", result.losses)
        write_quality(new / "quality.csv", result.quality)
        save_png(new / "views.png", drawing.compare(dataset.train.colors[shown], train.colors[shown]))
        if held_out is not None and other is not None:
            spread = np.unique(np.linspace(0, len(other.masks) - 1, drawing.COLUMNS).round().astype(int))
            report["views"]["heldout"] = _shown(found["heldout"], other, spread)
            save_png(new / HELD_OUT, drawing.compare(other.colors[spread], held_out.colors[spread]))
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


def _posed(
    dataset: Dataset, other: Observations, mesh: Mesh, make_engine: MakeEngine, near: bool
) -> Observations:
    """Held-out pictures with cameras that agree with those that were learned, by the mesh that these have found:
    each moves by its own pixels alone."""
    views, place = dataset.train, (dataset.center, dataset.radius)
    cameras = unit_cameras(Cameras([*views.cameras, *other.cameras]), *place)
    masks, colors = (
        np.concatenate([getattr(one, name) for one in (views, other)]) for name in ("masks", "colors")
    )
    known = [np.ones(one.masks.shape, bool) if one.known is None else one.known for one in (views, other)]
    count = len(views.cameras)
    found = posed(
        dataset.to_unit(mesh),
        cameras,
        masks,
        colors,
        np.concatenate(known),
        make_engine,
        still=count,
        near=near,
    )
    return replace(other, cameras=world_cameras(found, *place)[count:])


def _shown(facts: list[dict[str, Any]], views: Observations, shown: np.ndarray) -> list[dict[str, Any]]:
    """Facts of the views of a sheet, with where they are seen from: ``eye``, ``forward`` and ``up`` in the
    world and ``fov``, the vertical field of view in degrees."""
    poses = []
    for k in shown.tolist():
        camera = views.cameras[k]
        fov = float(np.degrees(2 * np.arctan(0.5 * camera.size[1] / camera.intrinsics[1, 1])))
        axes = {"eye": camera.center, "forward": camera.forward, "up": camera.up}
        poses.append({**facts[k], **{name: axis.tolist() for name, axis in axes.items()}, "fov": fov})
    return poses


@contextmanager
def _all_or_nothing(folder: Path, files: Sequence[str]) -> Iterator[Path]:
    """A temporary folder whose files replace those of ``folder`` at the end of the block. Raises
    InputError."""
    temporary: str | None = None
    try:
        with locked(folder):
            temporary = tempfile.mkdtemp(prefix=temporary_prefix(), dir=folder)
            yield Path(temporary)
            for name in files:
                os.replace(Path(temporary) / name, folder / name)
            if DIRECTIONAL not in files:  # an older fit's would be drawn with the new mesh
                (folder / DIRECTIONAL).unlink(missing_ok=True)
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
    """Save at least the mesh if the results cannot be written: into their folder, or else a temporary one."""
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
    """CSV with the columns step, phase, loss. Each loss is that before the update of its step, with all
    digits."""
    _write_table(path, ("step", "phase", "loss"), ((k, *pair) for k, pair in enumerate(losses)))


def write_quality(path: Path, quality: Sequence[Quality]) -> None:
    """CSV with the columns step, phase, iou, psnr: of the training views, at the size of the round; psnr is
    empty while there are no colours."""
    rows = ((look.step, look.phase, look.iou, look.psnr) for look in quality)
    _write_table(path, ("step", "phase", "iou", "psnr"), rows)


def _write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """CSV; numbers with all digits, None as nothing."""
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])


# The cameras found by a fit that refines poses, for reports and files.


def moves(found: Cameras, given: Cameras) -> dict[str, Any]:
    """How far cameras moved, for a report. degrees: rotation.  distance: between centres, in units of the
    world."""
    away = np.linalg.norm(found.centers - given.centers, axis=1)
    angles = turns(found, given)
    return {
        "mean_degrees": float(angles.mean()),
        "mean_distance": float(away.mean()),
        "cameras": [
            {"name": camera.name, "degrees": float(angle), "distance": float(distance)}
            for camera, angle, distance in zip(found, angles, away, strict=True)
        ],
    }


def cameras_file(found: Cameras, dataset: Dataset, photos: Photos | None = None) -> bytes:
    """A ``cameras.json`` of the cameras that a fit has found, at the size of the images that it used.

    With ``photos``: a file for their folder, with all photographs at their own sizes and with their lenses.
    """
    if photos is None:
        return encode_cameras([(camera.name, camera, Lens()) for camera in found], dataset.bounds)
    learned: dict[int, Camera] = dict(zip(photos.train.tolist(), found, strict=True))
    if dataset.held_out is not None:
        learned |= zip(photos.held_out.tolist(), dataset.held_out.cameras, strict=True)
    views = []
    for i, original in enumerate(photos.originals):
        camera = original.camera
        if i in learned:
            camera = replace(camera, rotation=learned[i].rotation, translation=learned[i].translation)
        if original.panorama:
            turn = original.panorama.rotation @ original.camera.rotation.T
            moved = {"rotation": turn @ camera.rotation, "translation": turn @ camera.translation}
            camera = replace(original.panorama, **moved)
        name = original.image.name if photos.folder is None else original.file_in(photos.folder)
        views.append((name, camera, original.lens or camera.lens))
    return encode_cameras(views, dataset.bounds)


# How far pictures speak for each point of a result.

ENOUGH = 2.0
"""Views, each counted by the cosine at which it sees a point, that speak for it to 63 %."""
DOUBT = 0.1
"""Difference of codes, in the root of the mean square over these views, that halves what they say."""


class Confidence(NamedTuple):
    """(V,) each, of the vertices of a mesh."""

    sure: np.ndarray
    """In [0, 1]: 0 where no picture shows one, and little where few do, at grazing angles, or disagree."""
    weights: np.ndarray
    """(N, V): by how much each view shows it: the cosine at which it does."""
    residual: np.ndarray
    """Difference of the codes there, in the root of the mean square over these views; 0 without one."""

    @property
    def views(self) -> np.ndarray:
        """How many views show it."""
        return self.weights.sum(0)


def _sure(
    mesh: Mesh, views: Observations, result: FitResult, shader: Shader | None, make_engine: MakeEngine
) -> Confidence:
    """The ``confidence`` of a result by its pictures, which are many where they are large: none is kept."""
    _, drawn = draw(mesh, views.cameras, make_engine, light=result.light, shader=shader)
    return confidence(mesh, views, exposed(drawn, result.exposures, result.gains), make_engine)


def confidence(mesh: Mesh, views: Observations, drawn: np.ndarray, make_engine: MakeEngine) -> Confidence:
    """How far pictures speak for a mesh in the world that was ``drawn`` (N, H, W, 3), linear, in each of them.

    views: the pictures.
    """
    weights = seen_weights(mesh, views, make_engine)
    pairs = zip(drawn, views.colors, strict=True)
    squares = (((linear_to_srgb(a) - linear_to_srgb(b)) ** 2).mean(-1, keepdims=True) for a, b in pairs)
    doubt = (weights * seen_values(mesh, views, weights, squares)[..., 0]).sum(0)
    seen = weights.sum(0)
    residual = np.sqrt(doubt / np.maximum(seen, 1e-12))
    return Confidence((1 - np.exp(-seen / ENOUGH)) / (1 + (residual / DOUBT) ** 2), weights, residual)


def confidence_sheet(mesh: Mesh, found: Confidence, up: np.ndarray, make_engine: MakeEngine) -> np.ndarray:
    """A linear image: rows for the mesh, the views that show a point, how alike they are, and both together, from
    red to green; columns for sides of it, from a little above and below."""
    center, radius = mesh.bounding_sphere()
    sides = [turntable(center, radius, 3, SIDE, elevation=angle, up=up) for angle in (35.0, -35.0)]
    cameras = Cameras([camera for some in sides for camera in some])
    values = 1 - np.exp(-found.views / ENOUGH), 1 / (1 + (found.residual / DOUBT) ** 2), found.sure
    values = values[0], np.where(found.views > 0, values[1], 0.0), values[2]
    rows = [
        draw(one, cameras, make_engine, 4)[1] for one in (mesh, *(shown_confidence(mesh, v) for v in values))
    ]
    return np.concatenate([np.concatenate(list(row), axis=1) for row in rows])


def seamless(
    mesh: Mesh,
    sure: np.ndarray,
    make_engine: MakeEngine,
    more: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> Mesh:
    """The mesh with its texture ``levelled``, by the confidence (V,) of its vertices, after ``more`` was added to it: light
    (V, 3), and directions (V, 3) times a ``DirectionalColour.detail``; as it is without a texture, or where UVs
    repeat or overlap."""
    if mesh.texture is None:
        return mesh
    engine = make_engine()
    try:
        charts = Charts(mesh, (mesh.texture.shape[1], mesh.texture.shape[0]))
        rows = {"sure": np.repeat(sure[:, None], 3, axis=1)}
        if more is not None:
            rows |= {"light": more[0], "moved": more[1]}
        found = charts.evaluated(
            engine, {name: charts.spread(name, v[mesh.faces]) for name, v in rows.items()}
        )
    except InputError:
        return mesh
    finally:
        engine.close()
    texels = np.where(found["inside"], found["sure"][..., 0], np.nan)
    texture = mesh.texture
    if more is not None:
        detail = resize(more[2].astype(np.float32), texture.shape[1::-1])
        light = found["light"] + (detail * found["moved"]).sum(-1, keepdims=True)
        texture = np.clip(texture + dilated(light, found["inside"]), 0, 1)
    codes = levelled(linear_to_srgb(texture), mesh, texels)
    return replace(mesh, texture=srgb_to_linear(np.clip(codes, 0, 1)))


def shown_confidence(mesh: Mesh, values: np.ndarray) -> Mesh:
    """The mesh with values in [0, 1] as colours of its vertices, from red over yellow to green, without
    texture."""
    codes = np.stack([np.clip(2 - 2 * values, 0, 1), np.clip(2 * values, 0, 1), 0.1 + 0 * values], axis=1)
    plain = Mesh(mesh.positions, mesh.faces, name="confidence")
    return replace(plain, colors=srgb_to_linear(0.9 * codes), color_faces=mesh.faces)


# The exposure of a picture that nothing was learned from, by those of pictures taken nearby.

REACH = 1.5
"""Standard deviation of the kernel, relative to the usual angle between neighbouring pictures."""
PLAIN = 0.05
"""Weight of no exposure at all, relative to a picture from the same direction."""


def expected_gains(gains: np.ndarray, cameras: Cameras, others: Cameras) -> np.ndarray:
    """(M, 3) factors of the sRGB codes of pictures by ``others``, from those of the N pictures by ``cameras``
    (N, 3).

    A camera that sets its exposure by itself, and lights that it carries or shades, make it vary slowly with
    the direction of the view: the logarithms are averaged with a Gaussian kernel over the angles between
    optical axes. Far from all pictures the factors are 1.

    >>> from dressi.render.cameras.views import ring
    >>> cameras = ring(np.zeros(3), 1.0, 8, (8, 8))
    >>> expected_gains(np.full((8, 3), 0.8), cameras, cameras).round(1)[0].tolist()
    [0.8, 0.8, 0.8]
    """
    here, there = (np.array([camera.forward for camera in some]) for some in (cameras, others))
    spacing = _apart(here)
    weights = np.exp(-0.5 * (_angles(there, here) / (REACH * spacing)) ** 2)
    return np.exp(weights @ np.log(gains) / (weights.sum(axis=1, keepdims=True) + PLAIN))


def _apart(directions: np.ndarray) -> float:
    """Radians between neighbouring unit vectors (N, 3), in the median."""
    apart = _angles(directions, directions)
    np.fill_diagonal(apart, np.inf)
    return max(float(np.median(apart.min(axis=1))), 1e-3) if len(directions) > 1 else np.pi


def _measures(views: Observations, found: Score) -> Measures:
    moved = shift(views, found.masks, found.colors)
    return Measures(found.iou, found.psnr, found.inside, found.exposed, found.exposed_inside, moved)


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(A, B) radians between unit vectors."""
    return np.arccos(np.clip(a @ b.T, -1.0, 1.0))


# How close the result of a fit is to its pictures: in all of them, and in each.


def exposed(colors: np.ndarray, exposures: np.ndarray | None, gains: np.ndarray | None) -> np.ndarray:
    """Colours (N, H, W, 3), linear, with factors of their light (N,) and then of their sRGB codes (N, 3)."""
    if exposures is not None:
        colors = colors * exposures[:, None, None, None]
    if gains is None:
        return colors
    shown = np.empty_like(colors)
    for k, gain in enumerate(np.broadcast_to(gains, (len(colors), 3))):
        shown[k] = srgb_to_linear(np.clip(linear_to_srgb(colors[k]) * gain, 0, 1))
    return shown


@dataclass(frozen=True, eq=False)
class Score:
    """Quality of a result in N views. masks, colors: the rendered images.  pictures: facts of each view, for
    JSON.

    iou, psnr, ssim: over the masks of the views.  plain: the PSNR without the exposures that the fit knows,
    or expects, of the views.  inside: PSNR over their ``interior``, for which small errors of the masks do
    not matter.  exposed, exposed_inside: both with a gain of each view and channel that is solved for, as
    pictures of other exposures are compared. NaN where there are no such pixels.
    """

    iou: float
    psnr: float
    plain: float
    ssim: float
    inside: float
    exposed: float
    exposed_inside: float
    masks: np.ndarray
    colors: np.ndarray
    pictures: list[dict[str, Any]]

    def as_dict(self) -> dict[str, float | None]:
        """For JSON, which has no infinity: the PSNR of equal images, and that of no pixels, is null."""
        names = ("iou", "psnr", "plain", "ssim", "inside", "exposed", "exposed_inside")
        return {name: _number(getattr(self, name)) for name in names}


def whole_pixels(masks: np.ndarray, colors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masks (N, H, W), 0 or 1, and linear colours (N, H, W, 3): pixels that are covered from a half on as if they were
    whole, with the mean colour of what covers them.

    >>> masks, colors = whole_pixels(np.array([[[0.25, 0.5, 1.0]]]), np.full((1, 1, 3, 3), 0.2))
    >>> masks[0, 0].tolist(), colors[0, 0, :, 0].tolist()
    ([0.0, 1.0, 1.0], [0.0, 0.4, 0.2])
    """
    covered = masks >= 0.5
    return covered.astype(np.float32), colors * (covered / np.maximum(masks, 0.5))[..., None]


def score(
    views: Observations,
    masks: np.ndarray,
    colors: np.ndarray,
    exposures: np.ndarray | None = None,
    gains: np.ndarray | None = None,
) -> Score:
    """Silhouettes and colours of a result, ``draw``n with as many samples as those of the views, against them.

    exposures: (N,) factors of the light of the views.  gains: (N, 3) factors of their sRGB codes: what the
    fit knows or expects of their exposures, which ``plain`` leaves out."""
    if views.photographed:
        masks, colors = whole_pixels(masks, colors)
        views = replace(
            views, **dict(zip(("masks", "colors"), whole_pixels(views.masks, views.colors), strict=True))
        )
    colors = exposed(colors, exposures, None)
    covered, deep = silhouettes(colors, views.colors, views.masks), interior(masks, views.masks)
    overlaps = iou_per_view(masks, views.masks, views.known)
    errors: dict[str, list[np.ndarray]] = {}
    similar, pictures = np.zeros(2), []
    for k, mask in enumerate(covered):
        box = around(mask, WINDOW)
        inside, within = mask[box], deep[k][box]
        plain, wanted = (
            linear_to_srgb(np.asarray(one[k][box], np.float64)) for one in (colors, views.colors)
        )
        codes = plain
        if gains is not None:
            codes = np.clip(plain * gains[k], 0, 1)
            colors[k] = srgb_to_linear(np.clip(linear_to_srgb(colors[k]) * gains[k], 0, 1))
        own = code_gains(codes, wanted, within)
        solved = np.clip(codes * own, 0, 1)
        known = np.ones_like(inside) if views.known is None else views.known[k][box] > 0
        found = similarity(codes, wanted, known)[inside & known]
        similar += found.sum(), found.size
        here = {
            "plain": _errors(plain, wanted, inside),
            "psnr": _errors(codes, wanted, inside),
            "inside": _errors(codes, wanted, within),
            "exposed": _errors(solved, wanted, inside),
            "exposed_inside": _errors(solved, wanted, within),
        }
        for name, error in here.items():
            errors.setdefault(name, []).append(error)
        pictures.append(
            {
                "view": k,
                "name": views.cameras[k].name,
                "iou": float(overlaps[k]),
                "psnr": _number(_decibels(here["psnr"])),
                "inside": _number(_decibels(here["exposed_inside"])),
                "gains": own.round(4).tolist(),
            }
        )
    measures = {name: _decibels(np.sum(parts, axis=0)) for name, parts in errors.items()}
    measures |= {"iou": float(overlaps.mean()), "ssim": float(similar[0] / similar[1])}
    return Score(**measures, masks=masks, colors=colors, pictures=pictures)


def _errors(codes: np.ndarray, wanted: np.ndarray, where: np.ndarray) -> np.ndarray:
    """(2,) the sum of the squared differences of codes over the pixels ``where``, and their number."""
    squares = (codes[where] - wanted[where]) ** 2
    return np.array([squares.sum(), squares.size])


def _decibels(errors: np.ndarray) -> float:
    """PSNR of ``_errors``; NaN where there are no pixels."""
    total, count = errors.tolist()
    if count == 0:
        return float("nan")
    return float("inf") if total == 0 else -10 * float(np.log10(total / count))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
