"""What `dressi fit` does: check the request, run the job, show how it goes, write the results."""

import contextlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dressi import Device, DressiAD
from dressi.cli.interrupt import Stop
from dressi.cli.made_masks import MadeMasks
from dressi.cli.material import MaterialRequest, material_request
from dressi.cli.plan_for import device_or_record
from dressi.cli.sizes import check_size, parse_size
from dressi.cli.terminal import say
from dressi.config import shader_text
from dressi.errors import DressiError, InputError
from dressi.render.fit import (
    TARGET_SAMPLES,
    Dataset,
    FitJob,
    FitOptions,
    FitResult,
    Progress,
    check_folder,
    keep_mesh,
    locked,
    mesh_dataset,
    photo_dataset,
    planned_dataset,
    write_results,
)
from dressi.render.io import Photos, load_mesh, load_photos
from dressi.render.mesh import Mesh
from dressi.vk.plan.predict.engine import PlanningEngine

PHOTO_WIDTH = 320


@dataclass(frozen=True)
class Request:
    """The options of the command line as they were given."""

    target: Path | None
    photos: Path | None
    masks: str | None
    depth: bool
    depth_scale: float | None
    start: str | None
    init: Path | None
    out: Path
    size: str | None
    views: int
    steps: int | None
    seed: int
    radius: float | None
    form: str
    colours: bool | None
    peels: int
    texture_size: int | None
    texture_gradient: str
    target_samples: int
    refine_poses: bool
    batch: int
    exposure: bool
    optimize: str | None
    light: Path | None
    spread: float
    remesh: bool | None
    device: str | None
    resume: bool
    preview: bool
    plan: bool
    as_json: bool


def run_fit(request: Request) -> int:
    """The exit code: 0 done, 130 stopped by Ctrl-C with results and a checkpoint. Raises DressiErrors."""
    begin = time.perf_counter()
    if (request.target is None) == (request.photos is None):
        raise InputError("give either --target mesh or --photos folder, and not both")
    if request.masks is not None and request.photos is None:
        raise InputError(
            "--masks is for photographs; give --photos with it, or leave it out: a mesh has exact masks"
        )
    if request.depth and request.photos is None:
        raise InputError(
            "--depth is for photographs with depth pictures; give --photos with it, or leave it out"
        )
    if request.depth_scale is not None and not request.depth:
        raise InputError("--depth-scale belongs to --depth; give both, or neither")
    if request.start is not None and request.init is not None:
        raise InputError("--start and --init both say what to start from; give one of them")
    if request.photos is not None and request.target_samples != TARGET_SAMPLES:
        raise InputError(
            "--target-samples is for pictures of a mesh; photographs are filtered by their camera"
        )
    if request.light is not None and request.optimize is None:
        raise InputError("--light belongs to --optimize; give both, or neither")
    if request.as_json and not request.plan:
        raise InputError("--json belongs to --plan; give both, or find the numbers of a fit in report.json")
    size = parse_size(request.size) if request.size is not None else None
    options = _options(request, size or (256, 256))
    init = None if request.init is None else _with_uvs(load_mesh(request.init))
    made = None
    if request.masks is not None and request.photos is not None:
        made = MadeMasks(request.photos, request.masks)
    source = _source(request, size, made)
    if isinstance(source, Photos):
        options = _options(request, source.cameras.size)
    material = material_request(request.optimize, request.light, request.photos is not None, options)
    if request.plan:
        _print_plan(request, source, options, init)
        return 0
    with Device.open(request.device) as device:
        check_size(options.size, options.texture_size, device.limits.max_image_dimension)

        def make_engine() -> DressiAD:
            return DressiAD(device)

        check_folder(request.out)
        with locked(request.out):
            if made is not None:
                made.write(request.out / "masks")
            dataset = _dataset(source, options, make_engine, material)
            job = FitJob(dataset, options, make_engine, init=init, folder=request.out)
            stop = Stop()
            try:
                with stop, Bar(request.resume) as bar:
                    preview = request.out / "preview.png" if request.preview else None
                    result = job.run(resume=request.resume, progress=bar, stop=stop, preview=preview)
                    if material is not None and result.finished:
                        result = material.recovered(dataset, result, make_engine, bar, stop)
                say("writing results ...")
                report = _written(request, source, device, dataset, result, begin)
            except KeyboardInterrupt:
                if not job.resumable:
                    raise
                return _interrupted(f"'{request.out}' has a checkpoint, and {GOES_ON}", stop.code)
            print_report(report, request.out)
            if result.finished:
                job.forget()
                return 0
        reached = f"what was reached is in '{request.out}'"
        if result.unsaved is None:
            return _interrupted(f"{reached}, and {GOES_ON}", stop.code)
        ending = f"{GOES_ON} from the one before it" if job.resumable else "there is nothing to resume"
        return _interrupted(
            f"{reached}, but the last checkpoint could not be written ({result.unsaved}): {ending}", stop.code
        )


def _print_plan(request: Request, source: Mesh | Photos, options: FitOptions, init: Mesh | None) -> None:
    """The plan of every round, or only the counts, for the device or, without a driver, for a desktop GPU.

    Nothing is drawn: a mesh is planned with discs for its pictures, on whose sizes alone the plans depend.
    """
    target = device_or_record(request.device)
    check_size(options.size, options.texture_size, target.limits.max_image_dimension)
    scene = (
        photo_dataset(source)
        if isinstance(source, Photos)
        else planned_dataset(source, options.views, options.size)
    )
    job = FitJob(scene, options, lambda: PlanningEngine(target.limits, target.model, shader_text), init=init)
    plans = job.plan()
    if not request.as_json:
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


def _interrupted(sentence: str, code: int) -> int:
    say(f"dressi: interrupted; {sentence}")
    return code


def _written(
    request: Request, source: Mesh | Photos, device: Device, dataset: Dataset, result: FitResult, begin: float
) -> dict[str, Any]:
    """The report of results that were written. Raises InputError that says what could be kept of them."""
    facts = {
        "name": device.name,
        "driver": device.physical.driver,
        "version": device.physical.driver_version,
    }
    try:
        return write_results(
            request.out,
            dataset,
            result,
            lambda: DressiAD(device),
            device=facts,
            total_s=lambda: time.perf_counter() - begin,
            hull=result.finished,
            photos=source if isinstance(source, Photos) else None,
        )
    except (DressiError, OSError, MemoryError) as error:
        what = str(error).strip().splitlines()[0] if str(error).strip() else "there is not enough memory"
        if result.unsaved is None:
            kept = "nothing of the fit is lost: the same command with --resume writes the results"
        else:
            path = keep_mesh(request.out, result.mesh)
            kept = f"the mesh is kept as '{path}'" if path else "no other folder could take the mesh either"
        raise InputError(f"{what}; {kept}") from error


def _options(request: Request, size: tuple[int, int]) -> FitOptions:
    given: dict[str, Any] = {}
    if request.start is not None:
        given["start"] = request.start
    if request.steps is not None:
        given["steps"] = request.steps
    if request.radius is not None:
        given["radius"] = request.radius
    if request.texture_size is not None:
        if request.texture_size < 1:
            raise InputError(f"--texture-size {request.texture_size} is empty; give at least 1, such as 512")
        given["texture_size"] = request.texture_size
    return FitOptions(
        size=size,
        views=request.views,
        seed=request.seed,
        form=request.form,
        colours=request.colours,
        depth=request.depth,
        peels=request.peels,
        texture_gradient=request.texture_gradient,
        target_samples=request.target_samples,
        refine_poses=request.refine_poses,
        batch=request.batch,
        exposure=request.exposure,
        spread=request.spread,
        remesh=request.remesh,
        **given,
    )


def _source(request: Request, size: tuple[int, int] | None, made: MadeMasks | None) -> Mesh | Photos:
    if request.target is not None:
        return load_mesh(request.target)
    assert request.photos is not None
    photos = load_photos(
        request.photos,
        size,
        widest=PHOTO_WIDTH,
        masks=made,
        depth=request.depth,
        depth_scale=request.depth_scale,
    )
    for note in photos.notes:
        warnings.warn(note, stacklevel=2)
    return photos


def _with_uvs(mesh: Mesh) -> Mesh:
    return mesh if mesh.uvs is not None else mesh.unwrap()


def _dataset(
    source: Mesh | Photos,
    options: FitOptions,
    make_engine: Callable[[], DressiAD],
    material: MaterialRequest | None,
) -> Dataset:
    if isinstance(source, Photos):
        return photo_dataset(source)
    light = None if material is None else material.light
    return mesh_dataset(source, options.views, options.size, make_engine, options.target_samples, light)


class Bar:
    """Progress on stderr: phase, IoU and PSNR of the training views, steps per second. The loss rises when the radius
    shrinks, so it is no measure of progress."""

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
        if progress.total > self._bar.total:
            # The material phase follows.
            self._bar.total = progress.total
        self._bar.set_description(progress.phase, refresh=False)
        shown = {} if progress.iou is None else {"IoU": f"{progress.iou:.4f}"}
        if progress.psnr is not None:
            shown["PSNR"] = f"{progress.psnr:.1f} dB"
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self._bar.close()


def print_report(report: dict[str, Any], folder: Path) -> None:
    """The figures of a report, a line for each set of views."""
    for name, values in report["metrics"].items():
        if values is not None:
            quality = "equal" if values["psnr"] is None else f"{values['psnr']:.2f} dB"
            print(f"{name}: IoU {values['iou']:.4f}, PSNR {quality}, SSIM {values['ssim']:.3f}")
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
        print(
            f"cameras turned by {report['poses']['mean_degrees']:.3f} degrees in the mean, see cameras.json"
        )
    seconds = report["time"]
    if seconds["step_ms"] is not None:
        print(
            f"first build {seconds['first_build_ms']:.0f} ms, {seconds['step_ms']:.1f} ms a step,"
            f" {seconds['total_s']:.1f} s in all"
        )
    print(f"results are in '{folder}'")
