"""What `dressi fit` does: read the pictures, run the job, write and show the results."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from tqdm import tqdm

from ... import Device, DressiAD
from ...config import shader_text
from ...errors import DressiError, InputError
from ...render import fit
from ...render.fit import Dataset, FitJob, FitOptions, FitResult, Progress
from ...render.fit.advice import SENTENCES
from ...render.fit.options import STEPS
from ...render.fit.phases.materials import MaterialOptions, Recovery, parts_of
from ...render.fit.start.choice import doubtful
from ...render.formats import load_mesh, load_scene
from ...render.io import Photos
from ...render.io.files import library
from ...render.io.images import load_environment, scaled_size
from ...render.mesh import Mesh
from ...render.scene.scene import Scene
from ...render.shading.environment import Environment, studio
from ...render.shading.harmonics import HarmonicsLight
from ...render.shading.lights import LightSource
from ...render.surface.color import linear_to_srgb
from ...vk.planning import PlanningEngine
from ...vk.run.measure.timing import RoundStages
from ..core.interrupt import Stop
from ..core.plan_for import device_or_record
from ..core.sizes import check_size, parse_size
from ..core.terminal import say
from .photographs import read_photographs
from .request import FINE, USUAL, Request, check_options


def run_fit(request: Request, bar: Bar | None = None, stop: Stop | None = None) -> int:
    """The exit code: 0 done, 130 stopped by Ctrl-C with results and a checkpoint. Raises DressiErrors.

    bar, stop: what is told of the progress and what stops the fit, in place of a bar on stderr and of Ctrl-C.
    """
    begin = time.perf_counter()
    bar, stop = bar or Bar(request.resume), stop or Stop()
    check_options(request)
    size = parse_size(request.size) if request.size is not None else None
    options = request.options(size)
    init = None if request.init is None else load_mesh(request.init)
    if init is not None and init.uvs is None:
        init = init.unwrap()
    made = None
    if request.photos is None:
        source = _mesh(request)
    else:
        source, made = read_photographs(request, size)
        options = request.options(source.cameras.size)
    material = material_request(request.optimize, request.light, request.photos is not None, options)
    if request.plan:
        _print_plan(request, source, options, init, material)
        return 0
    window = shown_by(request)
    with Device.open(request.device) as device, window:
        check_size(options.size, options.texels, device.limits.max_image_dimension)

        def make_engine() -> DressiAD:
            return DressiAD(device)

        fit.check_folder(request.out)
        with fit.locked(request.out):
            if made is not None:
                made.write(request.out / "masks")
            window.say("making pictures and the first shape ...", device)
            if isinstance(source, Photos):
                dataset = fit.photo_dataset(source)
                # The dataset has the pictures; what is asked of the photographs later are cameras and names.
                source = replace(
                    source, images=source.images[:0].copy(), masks=source.masks[:0].copy(), known=None
                )
                found = _found(request, source)
                if found and not options.refine_poses and doubtful(dataset):
                    say(
                        "dressi: the masks contradict the cameras that were found: poses are learned with the shape,"
                        " as with --refine-poses"
                    )
                    options = replace(options, refine_poses=True)
                elif found and options.adjust_poses is None:
                    options = replace(options, adjust_poses=True)
            else:
                light = None if material is None else material.light
                drawn = options.target_samples, light, _scene(request)
                dataset = fit.mesh_dataset(source, options.views, options.size, make_engine, *drawn)
            stages = RoundStages()
            recovery = None if material is None else material.recovery(init is None and dataset.exact)
            more: dict[str, Any] = {
                "init": init,
                "folder": request.out,
                "measure": stages,
                "recovery": recovery,
            }
            job = FitJob(dataset, options, make_engine, **more)
            try:
                with stop, bar:
                    preview = request.out / "preview.png" if request.preview else None
                    result = window.run(job, resume=request.resume, progress=bar, stop=stop, preview=preview)
                window.say("writing results ...", device)
                near = not options.refine_poses
                report = _written(request, source, device, dataset, result, begin, stages, near)
            except KeyboardInterrupt:
                if not job.resumable:
                    raise
                say(f"dressi: interrupted; '{request.out}' has a checkpoint, and {GOES_ON}")
                return stop.code
            print_report(report, request.out)
            offer = fine_offer(request, options.size, source, rounds_ms(job, stages))
            if result.finished and offer is not None:
                print(offer)
            if result.finished:
                job.forget()
                window.stay(result, device)
                return 0
        ending = f"and {GOES_ON}"
        if result.unsaved is not None:
            ending = f"{GOES_ON}, from the one before it" if job.resumable else "there is nothing to resume"
            ending = f"but the last checkpoint could not be written ({result.unsaved}): {ending}"
        say(f"dressi: interrupted; what was reached is in '{request.out}', {ending}")
        return stop.code


def _found(request: Request, source: Photos) -> bool:
    """Whether cameras were found for this fit, by structure from motion or by the shape that others show."""
    found = source.calibration
    return found is not None and found.resolve().is_relative_to((request.out / "cameras").resolve())


def _print_plan(
    request: Request, source: Mesh | Photos, options: FitOptions, init: Mesh | None, material: MaterialRequest | None
) -> None:  # fmt: skip
    """The plan of every round, or only the counts, for the device or, without a driver, for a desktop GPU.

    Nothing is drawn: plans depend on the sizes of the pictures alone, and discs stand for those of a mesh.
    """
    target = device_or_record(request.device)
    check_size(options.size, options.texels, target.limits.max_image_dimension)
    if isinstance(source, Photos):
        scene = fit.photo_dataset(source)
    else:
        scene = fit.planned_dataset(source, options.views, options.size)
    recovery = None if material is None else material.recovery(init is None and scene.exact)
    engine = partial(PlanningEngine, target.limits, target.model, shader_text)
    job = FitJob(scene, options, engine, init=init, recovery=recovery)
    plans = job.plan()
    if not request.json:
        print(f"limits of {target.name}, device model {target.model.name}, shipped options\n")
        for name, plan in plans.items():
            print(f"{name}: {plan}\n")
        return
    names = ("substages", "stages", "functions")
    totals = {key: sum(plan[key] for plan in job.plans.values()) for key in names}
    rounds = {name: {key: plan.counts[key] for key in names} for name, plan in plans.items()}
    planned_for = {"limits": target.name, "device_model": target.model.name, "options": "shipped"}
    print(json.dumps({**totals, **job.plans, "rounds": rounds, "planned_for": planned_for}, indent=2))


GOES_ON = "the same command with --resume goes on"


def _written(
    request: Request, source: Mesh | Photos, device: Device, dataset: Dataset, result: FitResult, begin: float,
    stages: RoundStages, near: bool,
) -> dict[str, Any]:  # fmt: skip
    """Write the results and return their report. Raises InputError that says what could be kept of them."""
    physical = device.physical
    facts = {"name": device.name, "driver": physical.driver, "version": physical.driver_version}
    try:
        return fit.write_results(
            request.out, dataset, result, lambda: DressiAD(device), device=facts, task=_task(request), stages=stages,
            total_s=lambda: time.perf_counter() - begin, baseline=request.baseline and result.finished,
            photos=source if isinstance(source, Photos) else None, near=near,
        )  # fmt: skip
    except (DressiError, OSError, MemoryError) as error:
        what = str(error).strip().splitlines()[0] if str(error).strip() else "there is not enough memory"
        if result.unsaved is None:
            kept = "nothing of the fit is lost: the same command with --resume writes the results"
        else:
            path = fit.keep_mesh(request.out, result.mesh)
            kept = f"the mesh is kept as '{path}'" if path else "no other folder could take the mesh either"
        raise InputError(f"{what}; {kept}") from error


def _task(request: Request) -> dict[str, Any]:
    """What was asked for, without the paths of this machine."""
    source = request.target or request.photos
    assert source is not None
    kind = "photographs" if request.target is None else "mesh"
    when = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"kind": kind, "source": source.resolve().name, "optimize": request.optimize, "finished": when}


def _mesh(request: Request) -> Mesh:
    assert request.target is not None
    with warnings.catch_warnings():
        if _scene(request) is not None:
            # One material of several is kept by the mesh, and all of them are drawn.
            warnings.filterwarnings("ignore", message=".* materials that differ in ")
        return load_mesh(request.target)


def _scene(request: Request) -> Scene | None:
    """What pictures of --target are drawn of, where the file has several materials: the mesh keeps one."""
    if request.target is None:
        return None
    scene = load_scene(request.target)
    looks = {id(node.geometry.mesh.material) for node in scene if node.geometry.mesh is not None}
    return scene if len(scene) > 1 and len(looks) > 1 else None


# The material phase of `dressi fit`: what ``--optimize`` and ``--light`` ask for.


@dataclass(frozen=True)
class MaterialRequest:
    """What the material phase does."""

    options: MaterialOptions
    light: LightSource
    """What pictures of a mesh are drawn under, and what the phase starts from."""
    start: LightSource
    """What the phase starts from: ``light``, or even light where nothing is known of it."""

    def recovery(self, moves: bool) -> Recovery:
        """What follows the texture. moves: whether vertices may move where masks are exact."""
        return Recovery(self.options, self.start, moves)


def material_request(
    optimize: str | None, light: Path | None, photos: bool, options: FitOptions
) -> MaterialRequest | None:
    """None without ``--optimize``. Raises InputError."""
    if optimize is None:
        return None
    parts = parts_of(optimize)
    if photos and light is None and "light" not in parts:
        raise InputError(
            "the light of photographs is not known; add light to --optimize, or give it with --light FILE.hdr"
        )
    given = Environment(load_environment(light), lobes=1) if light is not None else None
    default = MaterialOptions(parts)
    # --steps changes the steps of this phase by the same factor as those of the others.
    steps = max(round(default.steps * options.steps / STEPS), 1)
    batch = options.batch or default.batch
    material = MaterialOptions(
        parts, steps=steps, texture_size=options.texels, batch=batch, seed=options.seed
    )
    shown = given or Environment(studio(), lobes=1)
    start = HarmonicsLight() if given is None and "light" in parts else shown
    return MaterialRequest(material, shown, start)


# What `dressi fit` shows: a progress bar on stderr, the figures of the report on stdout.


class Bar:
    """Progress on stderr: what is done now, IoU and PSNR of the training views, steps per second. The loss is
    not shown: it rises when the radius shrinks."""

    def __init__(self, resume: bool):
        self._resume, self._bar, self._unseen = resume, None, False

    def __call__(self, progress: Progress) -> None:
        if self._unseen:
            return
        try:
            self._show(progress)
        except (OSError, ValueError):
            # A closed pipe or a full disk behind stderr is no reason to end a fit.
            self._unseen = True

    def _show(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = tqdm(total=progress.total, unit="step", initial=progress.done if self._resume else 0)
        self._bar.set_description(progress.doing or progress.phase, refresh=False)
        shown = {} if progress.iou is None else {"IoU": f"{progress.iou:.4f}"}
        if progress.psnr is not None:
            shown["PSNR"] = f"{progress.psnr:.1f} dB"
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with suppress(OSError, ValueError):
                self._bar.close()


def _inside(values: dict[str, Any]) -> str:
    if values["inside"] is None or values["exposed_inside"] is None:
        return ""
    plain = "" if values["plain"] == values["psnr"] else f"; {values['plain']:.2f} dB without exposures"
    solved = f"with exposures solved for {values['exposed_inside']:.2f} dB"
    return f"{plain}; inside of both masks {values['inside']:.2f} dB, {solved}"


AFFORDABLE = 30.0
"""Most seconds that the device is predicted to work on a fit with --fine that is offered."""


def rounds_ms(job: FitJob, stages: Sequence[dict[str, Any]]) -> float | None:
    """Predicted milliseconds of the device for the steps of all rounds, by the Stages of each; None where some
    ran earlier."""
    of_step = {one["round"]: sum(stage["predicted_ms"] for stage in one["stages"]) for one in stages}
    rounds = [f"{name} {number + 1}" for number, name in enumerate(job.names)]
    if not of_step.keys() >= set(rounds):
        return None
    return sum(of_step[name] * steps for name, steps in zip(rounds, job.steps, strict=True))


def fine_offer(
    request: Request, size: tuple[int, int], source: Mesh | Photos, predicted_ms: float | None
) -> str | None:
    """A sentence on --fine after a plain fit of that size, where the device is fast enough. predicted_ms: of the
    plain fit."""
    if predicted_ms is None or request.quick or request.fine or request.size is not None:
        return None
    if isinstance(source, Photos):
        # Pictures are cut to the object, so that their pixels tell more than their size.
        view, camera = source.originals[0].camera, source.cameras[0]
        finer = scaled_size(view.size, min(1.0, FINE.width / view.size[0]))
        most = (finer[0] * finer[1] / (size[0] * size[1])) ** 0.5
        scale = max(min(float(view.intrinsics[0, 0] / camera.intrinsics[0, 0]), most), 1.0)
    else:
        scale = FINE.rows / size[1]
    seconds = 1e-3 * predicted_ms * scale**2 * FINE.steps / USUAL.steps
    if seconds > AFFORDABLE:
        return None
    finer = "x".join(str(n) for n in scaled_size(size, scale))
    return (
        f"this device is fast: the same command with --fine ({finer} pixels, twice the faces, four times the texels)"
        f" takes about {max(seconds, 1):.0f} s of it"
    )


def print_report(report: dict[str, Any], folder: Path) -> None:
    """The figures of a report, a line for each set of views."""
    for name, values in report["metrics"].items():
        if values is not None:
            quality = "equal" if values["psnr"] is None else f"{values['psnr']:.2f} dB"
            quality = f"IoU {values['iou']:.4f}, PSNR {quality}, SSIM {values['ssim']:.3f}"
            print(f"{name}: {quality}{_inside(values)}")
    for one in report.get("advice", ())[:SENTENCES]:
        print(f"what would help most: {one['text']}")
    if report.get("gloss"):
        print("gloss: all points mirror one light, which is in directional.npz; --no-gloss leaves it out")
    if "hull" in report:
        print(f"visual hull of the same masks, heldout: IoU {report['hull']['heldout']['iou']:.4f}")
    surface = report["surface"]
    flaws = f"{surface['self_intersecting']:.2%} of the faces cut each other"
    if surface["inside_out"] is not None:
        flaws = f"{surface['inside_out']} of {surface['faces']} faces inside out, {flaws}"
    print(f"surface: {flaws}")
    if "relative_chamfer" in surface:
        print(f"distance to the true surface: {surface['relative_chamfer']:.3%} of its diagonal")
    if "poses" in report:
        degrees = report["poses"]["mean_degrees"]
        print(f"cameras turned by {degrees:.3f} degrees in the mean, see cameras.json")
    seconds = report["time"]
    if seconds["step_ms"] is not None:
        print(
            f"first build {seconds['first_build_ms']:.0f} ms, {seconds['step_ms']:.1f} ms a step,"
            f" {seconds['total_s']:.1f} s in all"
        )
    print(f"results are in '{folder}'")


# What shows a fit that runs: nothing, the window of `dressi fit --view`, or a recording (`--rerun`).


def shown_by(request: Request) -> NoWindow:
    """What shows the fit of a request. Raises InputError where it cannot."""
    title = f"{request.out.name} - dressi fit"
    if request.rerun is not None:
        return Recording(request.rerun, title)
    return FitWindow(title) if request.view else NoWindow()


class NoWindow:
    """A fit that nobody watches."""

    def run(self, job: FitJob, **how: Any) -> FitResult:
        """The result of the job. how: arguments of ``FitJob.run``."""
        return job.run(**how)

    def say(self, text: str, device: Device) -> None:
        """Something is done for which there is no picture."""
        say(text)

    def stay(self, result: FitResult, device: Device) -> None:
        """After the results were written."""

    def __enter__(self) -> NoWindow:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FitWindow(NoWindow):
    """A window on the fit. Closing it stops the fit, which can be resumed. A finished fit stays in it until
    it is closed where a person sits at the terminal; a run of a script ends. Raises InputError where no
    window can be opened."""

    def __init__(self, title: str):
        from ...viewer import open_canvas

        self.canvas = open_canvas("glfw", (1100, 760), title)

    def run(self, job: FitJob, **how: Any) -> FitResult:
        from ...viewer import FitSession, Viewer

        session = FitSession(job, folder=job.folder, **how)
        try:
            Viewer(session, self.canvas).run(stay=False)
        except BaseException:
            # The window or its surface is lost: the steps so far are kept.
            with suppress(DressiError):
                session.stop()
            raise
        return session.result()

    def say(self, text: str, device: Device) -> None:
        from ...viewer.viewer import show_notice

        super().say(text, device)
        if not self.canvas.closed:
            with DressiAD(device) as engine:
                show_notice(self.canvas, engine, text)

    def stay(self, result: FitResult, device: Device) -> None:
        from ...viewer import MeshSession, Viewer

        if self.canvas.closed or not sys.stdin or not sys.stdin.isatty():
            return
        with DressiAD(device) as engine:
            session = MeshSession(result.mesh, engine, "the result", directional=result.directional)
            viewer = Viewer(session, self.canvas)
            viewer.choose("textured")
            viewer.run()

    def __exit__(self, *_: object) -> None:
        self.canvas.close()


EVERY = 50
"""Steps between two pictures, with the mesh."""
WAIT = 5.0
"""Seconds at most until a viewer answers, and until it has taken what is left at the end."""


class Recording(NoWindow):
    """A sink of rerun's. to: a file .rrd, the address of a viewer (``rerun+http://host:port/proxy``), or "spawn", which
    opens one. Raises InputError without rerun-sdk, and where nothing can be written.

    Over the timeline "step" it gets the loss of each step, IoU and PSNR, and every 50 steps the training views
    (targets, the fit, their difference) and the mesh with its texture, as glTF.
    """

    def __init__(self, to: str, title: str):
        rerun = self._rerun = library("rerun", "rerun", "leave out --rerun")
        self._stream = rerun.RecordingStream("dressi fit", recording_id=uuid4())
        self._stream.send_recording_name(title)
        try:
            if to.endswith(".rrd"):
                Path(to).parent.mkdir(parents=True, exist_ok=True)
                self._stream.save(to)
            elif to == "spawn":
                self._stream.spawn()
            else:
                self._stream.connect_grpc(to)
            self._stream.flush(timeout_sec=WAIT)  # an address where nobody answers is said now
        except (RuntimeError, ValueError, OSError) as error:
            raise InputError(
                f"--rerun {to}: {str(error).splitlines()[0]}; give another file or address"
            ) from error

    def run(
        self, job: FitJob, *, progress: Callable[[Progress], None] | None = None, **how: Any
    ) -> FitResult:
        def told(now: Progress) -> None:
            self._numbers(now.done, IoU=now.iou, PSNR=now.psnr)
            if progress is not None:
                progress(now)

        if job.dataset.up[1] > 0.9:
            self._stream.log("world", self._rerun.ViewCoordinates.RIGHT_HAND_Y_UP, static=True)
        running, known, seen = job.started(progress=told, **how), 0, -EVERY
        for moment in running:
            losses = running.point.losses
            for step in range(known, len(losses)):
                self._numbers(step + 1, loss=losses[step][1])
            known = len(losses)
            if known >= seen + EVERY or moment.step == moment.work.steps:
                seen = known
                sheet = linear_to_srgb(np.clip(moment.work.look(moment.engine).sheet(), 0, 1))
                codes = (255 * sheet + 0.5).astype(np.uint8)
                self._stream.log("pictures", self._rerun.Image(codes).compress())
                self._mesh(running.reached(moment))
        result = running.result()
        self._mesh(result.mesh)
        return result

    def _numbers(self, step: int, **values: float | None) -> None:
        self._stream.set_time("step", sequence=step)
        for name, value in values.items():
            if value is not None:
                self._stream.log(name, self._rerun.Scalars(value))

    def _mesh(self, mesh: Mesh) -> None:
        from ...report.parts.model import glb_bytes

        model = self._rerun.Asset3D(contents=glb_bytes(mesh), media_type="model/gltf-binary")
        self._stream.log("world/mesh", model)

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the viewer was closed
            self._stream.flush(timeout_sec=WAIT)
        self._stream.disconnect()
