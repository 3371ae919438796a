"""The options of `dressi fit`: those of the command, in one table with those of the fit (``FitOptions``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dressi.cli.core.sizes import parse_size
from dressi.errors import InputError
from dressi.render.fit import TARGET_SAMPLES, FitOptions
from dressi.render.fit.masks import mask_maker, needs_calibration
from dressi.render.fit.options import STEPS
from dressi.render.fit.options.fit_options import PICTURES, RUN, SHAPE, TEXTURE
from dressi.render.fit.options.option import Row, check_rows, option, rows
from dressi.render.fit.options.schedule import shape_rounds, sphere_faces
from dressi.render.fit.phases.materials import PARTS, parts_of
from dressi.render.formats import MESHES
from dressi.render.io.images import scaled_size
from dressi.render.reconstruct.pictures import is_video

CAMERAS = ("auto", "auto:own")
"""Values of ``--cameras`` that find them."""
COMMAND, MANY = "Command", "Many objects"
GROUPS = (PICTURES, SHAPE, TEXTURE, RUN, COMMAND, MANY)
"""Headings, in the order of `dressi fit --help`."""


def _inside(text: str, folder: Path) -> str:
    """``background:PATH`` has a path, of a list in that folder."""
    how, _, rest = text.partition(":")
    return f"{how}:{(folder / Path(rest).expanduser()).absolute()}" if rest and how == "background" else text


def _calibration(text: str, folder: Path) -> str:
    """A path of a list in that folder."""
    return text if text in CAMERAS else str((folder / Path(text).expanduser()).absolute())


@dataclass(frozen=True)
class Effort:
    """Defaults: the most columns of photographs, the rows of other pictures, the steps, and how many times the
    usual faces and texels along each side of a texture."""

    width: int
    rows: int
    steps: int
    faces: int = 1
    texels: int = 1


USUAL, QUICK = Effort(320, 256, STEPS), Effort(160, 128, STEPS // 3)
# Photographs of that width are read at their own size, and larger ones do not fit into memory by the dozen.
FINE = Effort(2048, 512, 3 * STEPS // 2, faces=2, texels=2)

PHOTO_TEXELS = 3
"""Texels along each side of a texture for each row of a photograph, at least; a power of two is taken."""


@dataclass(frozen=True)
class Request:
    """The options of the command line. fit: those of the fit; size and ``lit`` follow from the others.

    A new option of the command is a row here, one of the fit a row of ``FitOptions``. Raises InputError."""

    fit: FitOptions = field(default_factory=FitOptions)
    target: Path | None = option(None, f"A mesh ({MESHES}) whose own pictures are the target.", PICTURES)
    photos: Path | None = option(
        None, "A folder with photographs, or a video; masks and cameras may be in it.", PICTURES
    )
    cameras: str | None = option(
        None,
        "Cameras of --photos: auto, found by structure from motion; auto:own, of pictures that were zoomed, each with a focal"
        " length of its own; or a calibration elsewhere. Default: those of the folder, or auto where it has none.",
        PICTURES,
        read=_calibration,
    )
    masks: str | None = option(
        None,
        "Make masks for --photos: auto, from what all of them look at, the default where there are none; background:FILE_OR_FOLDER, threshold[:dark, bright, saturation or chroma],"
        " box, or rembg[:MODEL]; they are written into the folder 'masks' of the results.",
        PICTURES,
        read=_inside,
    )
    depth_scale: float | None = option(
        None,
        "With --depth: codes in one unit of the scene. Default: what cameras.json says as depth_scale, or 1000.",
        PICTURES,
    )
    size: str | None = option(
        None,
        "Pixels of a picture, N or WxH. Default: 256; photographs at most 320 wide (--quick: 128, 160; --fine: 512, their own size up to 2048)."
        " Photographs are cut to the object, to parts of as many pixels.",
        PICTURES,
    )
    init: Path | None = option(None, "A mesh to start from instead; its faces stay.", SHAPE)
    optimize: str | None = option(
        None,
        "Also recover the material, after the shape, which then moves under the light where a --target is given:"
        f" some of {', '.join(PARTS)}, with commas between them.",
        TEXTURE,
    )
    light: Path | None = option(
        None,
        "With --optimize: the light of the pictures, an equirectangular .hdr or .exr file. A mesh given with --target is"
        " shown under it. Default: a studio for --target; even light, to be optimised, for --photos.",
        TEXTURE,
    )
    quick: bool = option(
        False,
        "A look at what will come, in a minute or two: pictures of half the size, a third of the steps.",
        RUN,
    )
    fine: bool = option(
        False,
        "For a GPU: pictures of 512 pixels or photographs of their own size, twice the faces, four times the texels, half"
        " as many steps again. Five to ten times as long, and longer for large photographs.",
        RUN,
    )
    out: Path = option(Path("out"), "Folder of the results.", COMMAND, whole=True, effect=False)
    device: str | None = option(
        None, "Vulkan device, by name or index; see `dressi devices`.", COMMAND, effect=False
    )
    resume: bool = option(False, "Go on where the last run was stopped.", COMMAND, whole=True, effect=False)
    preview: bool = option(
        False, "Write preview.png into the folder of the results as the fit goes.", COMMAND, effect=False
    )
    baseline: bool = option(
        False,
        "Also score the visual hull of the masks in the held-out views, to see how much more than the masks a fit has used.",
        COMMAND,
        effect=False,
    )
    view: bool = option(
        False,
        "Watch and steer the fit in a window; closing it stops the fit, which --resume continues. It stays open at the"
        " end if the input is a terminal.",
        COMMAND,
        whole=True,
        effect=False,
    )
    rerun: str | None = option(
        None,
        "Record the fit for rerun (losses, quality, pictures now and then, the mesh): a file .rrd, the address of a viewer"
        " such as rerun+http://127.0.0.1:9876/proxy, or spawn, which opens one.",
        COMMAND,
        whole=True,
        effect=False,
    )
    plan: bool = option(
        False,
        "Print the plan of every round and do nothing else; works without a driver.",
        COMMAND,
        whole=True,
    )
    json: bool = option(False, "With --plan: the counts, as JSON.", COMMAND, whole=True)
    many: Path | None = option(
        None,
        "Fit many objects: a CSV file with a header; its columns are options of this command, and name. Each object gets"
        " its own folder in --out; options given here hold for all. --resume skips what is done.",
        MANY,
        whole=True,
        effect=False,
    )
    workers: int | None = option(
        None,
        "With --many: how many objects are fitted at once. Default: one on each GPU.",
        MANY,
        least=1,
        most=1024,
        example=1,
        whole=True,
        effect=False,
    )
    ray: bool = option(
        False,
        "With --many: spread the objects over a ray cluster (RAY_ADDRESS).",
        MANY,
        whole=True,
        effect=False,
    )

    def __post_init__(self) -> None:
        check_rows(self)

    def changed(self, values: Mapping[str, Any]) -> Request:
        """With other values of options, by name. Raises InputError."""
        fit = {name: value for name, value in values.items() if name in OF_FIT}
        own = {name: value for name, value in values.items() if name not in OF_FIT}
        return replace(self, **own, fit=replace(self.fit, **fit))

    @property
    def effort(self) -> Effort:
        """What --quick and --fine ask for."""
        return QUICK if self.quick else FINE if self.fine else USUAL

    def options(self, size: tuple[int, int] | None = None) -> FitOptions:
        """Those of the fit, for pictures of a size; by default that of pictures of a mesh."""
        effort = self.effort
        size = size or (effort.rows, effort.rows)
        steps = effort.steps if self.fit.steps == STEPS else self.fit.steps
        # Photographs keep their colours in the shape phase even with a material: only colours show hollows.
        lit = self.optimize is not None and self.target is not None
        made = replace(self.fit, size=size, steps=steps, lit=lit)
        # Faces and texels are multiples of those of a usual fit of these pictures.
        usual = replace(made, size=self._usual(size))
        if made.texture_size is None:
            texels = usual.texels
            if self.photos is not None and self.optimize is None:
                # Photographs are taken from near, show one side at a time, and have details of one pixel.
                texels = min(max(PHOTO_TEXELS * usual.size[1], 128), 2048)
            made = replace(made, texture_size=2 ** (effort.texels * texels - 1).bit_length())
        if made.faces is None and effort.faces > 1:
            finest = shape_rounds(usual)[-1].subdivisions
            made = replace(made, faces=effort.faces * sphere_faces(finest))
        return made

    def _usual(self, size: tuple[int, int]) -> tuple[int, int]:
        """The size that a fit without --fine has, for pictures of a size with it."""
        if not self.fine or self.size is not None:
            return size
        return scaled_size(
            size, min(1.0, USUAL.rows / size[1] if self.photos is None else USUAL.width / size[0])
        )


OF_FIT = {name: row for name, row in rows(FitOptions).items() if row.option.command}
OPTIONS: dict[str, Row] = {**rows(Request), **OF_FIT}
"""Every option of `dressi fit` by name."""


def check_options(request: Request) -> None:
    """Whether the options go together, before any file is read. Raises InputError, with the cure."""
    fit = request.fit
    if (request.target is None) == (request.photos is None):
        raise InputError("give either --target mesh or --photos folder, and not both")
    if request.quick and request.fine:
        raise InputError("--quick and --fine contradict each other; give one of them")
    for name, given, more in (
        ("--masks is for photographs", request.masks is not None, ": a mesh has exact masks"),
        ("--cameras is for photographs", request.cameras is not None, ""),
        ("--depth is for photographs with depth pictures", fit.depth, ""),
        ("--gloss is for photographs", fit.gloss, ": pictures of a mesh are unlit"),
    ):
        if given and request.photos is None:
            raise InputError(f"{name}; give --photos with it, or leave it out{more}")
    if request.depth_scale is not None and not fit.depth:
        raise InputError("--depth-scale belongs to --depth; give both, or neither")
    if fit.start != OF_FIT["start"].default and request.init is not None:
        raise InputError("--start and --init both say what to start from; give one of them")
    if request.photos is not None and fit.target_samples != TARGET_SAMPLES:
        raise InputError(
            "--target-samples is for pictures of a mesh; photographs are filtered by their camera"
        )
    if request.light is not None and request.optimize is None:
        raise InputError("--light belongs to --optimize; give both, or neither")
    if request.optimize is not None and fit.gloss:
        raise InputError("--gloss and --optimize both find gloss; give one of them")
    if request.rerun is not None and request.view:
        raise InputError("--rerun and --view each show the fit; give one of them")
    if request.json and not request.plan:
        raise InputError("--json belongs to --plan; give both, or find the numbers of a fit in report.json")


def check_files(request: Request) -> None:
    """Checks values, and that named files exist, without reading them. Raises InputError."""
    if request.size is not None:
        parse_size(request.size)
    for name, path in (("target", request.target), ("init", request.init), ("light", request.light)):
        if path is not None and not path.is_file():
            raise InputError(f"there is no file '{path}' for --{name}; check the path")
    photos = request.photos
    if photos is not None and not (photos.is_file() if is_video(photos) else photos.is_dir()):
        raise InputError(
            f"there is no folder or video '{photos}' for --photos; give the folder that holds the photographs"
        )
    if request.optimize is not None:
        parts_of(request.optimize)
    if request.masks is not None and not needs_calibration(request.masks):
        mask_maker(request.masks)
