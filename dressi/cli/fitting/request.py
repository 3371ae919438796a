"""The options of `dressi fit` as they were given, and what they must not be together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dressi.cli.sizes import parse_size
from dressi.errors import InputError
from dressi.render.fit import TARGET_SAMPLES, FitOptions
from dressi.render.fit.masks import mask_maker, needs_box
from dressi.render.fit.materials.options import parts_of


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
    view: bool
    plan: bool
    as_json: bool


def check_options(request: Request) -> None:
    """Whether the options go together, before any file is read. Raises InputError, with the cure."""
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


def options_of(request: Request, size: tuple[int, int]) -> FitOptions:
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
        # The shape of photographs follows their colours with a material as without: nothing else shows hollows.
        lit=request.optimize is not None and request.target is not None,
        **given,
    )


def check_files(request: Request) -> None:
    """Whether the values can be and the files that are named exist, without reading them. Raises InputError."""
    options_of(request, parse_size(request.size) if request.size is not None else (256, 256))
    for option, path in (("target", request.target), ("init", request.init), ("light", request.light)):
        if path is not None and not path.is_file():
            raise InputError(f"there is no file '{path}' for --{option}; check the path")
    if request.photos is not None and not request.photos.is_dir():
        raise InputError(
            f"there is no folder '{request.photos}' for --photos; give the folder that holds the photographs"
        )
    if request.optimize is not None:
        parts_of(request.optimize)
    if request.masks is not None and not needs_box(request.masks):
        mask_maker(request.masks)
