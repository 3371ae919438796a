"""The photographs of `dressi fit --photos`, with the cameras and masks that they come with or that are made."""

from __future__ import annotations

import warnings
from pathlib import Path

from dressi.cli.fitting.made_masks import MadeMasks
from dressi.cli.fitting.placing import with_left_out
from dressi.cli.fitting.request import CAMERAS, Request
from dressi.cli.terminal import say
from dressi.errors import InputError
from dressi.render.fit import check_folder, locked
from dressi.render.fit.masks import has_masks
from dressi.render.io import Photos, load_photos
from dressi.render.io.calibration import has_calibration, has_pictures, read_calibration
from dressi.render.reconstruct.keep import find_cameras
from dressi.render.reconstruct.pictures import list_pictures
from dressi.render.reconstruct.video import check_video, chosen_frames, is_video


def read_photographs(request: Request, size: tuple[int, int] | None) -> tuple[Photos, MadeMasks | None]:
    """The photographs at a size, as wide as ``Effort`` says without one, and the masks that were made. Raises InputError."""
    source = request.photos
    assert source is not None
    folder = _frames(request, source) if is_video(source) else source
    if not folder.is_dir():
        raise InputError(
            f"there is no folder '{folder}'; give the folder that holds the photographs, or a video"
        )
    calibration = read_calibration(folder, _calibration(request, folder, ordered=folder != source))
    calibration = with_left_out(request, folder, calibration)
    how = request.masks
    if how is None and not has_masks(calibration):
        how = "auto"
        say("dressi: the photographs have no masks; making them from what all photographs look at ...")
    made = None if how is None else MadeMasks(how, calibration)
    photos = load_photos(
        folder,
        size,
        cameras=calibration,
        widest=request.effort.width,
        masks=made,
        depth=request.fit.depth,
        depth_scale=request.depth_scale,
    )
    for note in photos.notes:
        warnings.warn(note, stacklevel=2)
    return photos, made


def _frames(request: Request, video: Path) -> Path:
    """The folder with the frames of a video."""
    check_video(video)
    check_folder(request.out)
    with locked(request.out):
        say(f"dressi: choosing frames of '{video}' ...")
        folder, said = chosen_frames(video, request.out / "frames")
    say(f"dressi: {said}")
    return folder


def _calibration(request: Request, folder: Path, ordered: bool) -> Path | None:
    """What ``--cameras`` gives or lets be found; None for that of the folder. ordered: whether pictures follow each other."""
    how = request.cameras
    if how is None:
        if has_calibration(folder) or not has_pictures(folder):
            return None
        how = "auto"
    elif how not in CAMERAS:
        return Path(how)
    list_pictures(folder)  # nothing is written if they cannot be used
    check_folder(request.out)
    with locked(request.out):
        found = find_cameras(
            folder,
            request.out / "cameras",
            own=how == "auto:own",
            ordered=ordered,
            tell=lambda text: say(f"dressi: {text}"),
        )
    if found.kept:
        say(f"dressi: the cameras are those that an earlier run found, in '{request.out / 'cameras'}'")
    for note in found.notes:
        say(f"dressi: {note}")
    return found.model
