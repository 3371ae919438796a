"""The photographs of `dressi fit --photos`, with their cameras and masks, given or made."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import Device, DressiAD
from ...errors import InputError
from ...render.cameras import Camera, Cameras
from ...render.fit import FitJob, check_folder, locked, photo_dataset
from ...render.fit.data.agreeing import agreeing
from ...render.fit.masks import has_masks, mask_maker
from ...render.fit.poses import placed
from ...render.io import Photos, encode_png, load_photos, write_files, write_json
from ...render.io import calibration as files
from ...render.io.calibration import MASK_FOLDERS, NAME, Calibration, View
from ...render.io.files import read_json
from ...render.io.images import has_alpha, image_size
from ...render.io.lens import Lens
from ...render.reconstruct.keep import find_cameras
from ...render.reconstruct.pictures import check_video, chosen_frames, is_video, list_pictures
from ..core.terminal import say
from .request import CAMERAS, QUICK, Request


def read_photographs(request: Request, size: tuple[int, int] | None) -> tuple[Photos, MadeMasks | None]:
    """The photographs at a size, by default ``Effort``'s, and the masks made for them. Raises InputError."""
    source = request.photos
    assert source is not None
    folder = _frames(request, source) if is_video(source) else source
    if not folder.is_dir():
        raise InputError(
            f"there is no folder '{folder}'; give the folder that holds the photographs, or a video"
        )
    calibration = files.read_calibration(folder, _calibration(request, folder, ordered=folder != source))
    calibration = with_left_out(request, folder, calibration)
    how = request.masks
    if how is None and not has_masks(calibration):
        how = "auto"
        say("dressi: the photographs have no masks; making them from what all photographs look at ...")
    made = None if how is None else MadeMasks(how, calibration)
    photos = load_photos(
        folder, size, cameras=calibration, widest=request.effort.width, cut=True, masks=made,
        depth=request.fit.depth, depth_scale=request.depth_scale,
    )  # fmt: skip
    photos = agreeing(photos)
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
    """What ``--cameras`` gives or finds; None for the folder's own. ordered: pictures follow each other."""
    how = request.cameras
    if how is None:
        if files.has_calibration(folder) or not files.has_pictures(folder):
            return None
        how = "auto"
    elif how not in CAMERAS:
        return Path(how)
    list_pictures(folder)  # nothing is written if they cannot be used
    check_folder(request.out)
    with locked(request.out):
        into, own = request.out / "cameras", how == "auto:own"
        cameras = find_cameras(
            folder, into, own=own, ordered=ordered, tell=lambda text: say(f"dressi: {text}")
        )
    if cameras.kept:
        say(f"dressi: the cameras are those that an earlier run found, in '{into}'")
    for note in cameras.notes:
        say(f"dressi: {note}")
    return cameras.model


# Photographs that a calibration has no camera for get one by the shape that the others show.

LEAST_VIEWS = 4
"""The least number of photographs with cameras from which a shape is made."""
FACTS = "placed.json"


def with_left_out(request: Request, folder: Path, given: Calibration) -> Calibration:
    """The calibration with cameras for the photographs that it leaves out; they are kept in the folder of the
    results. The given one if it leaves none out, or if their object is not known. Raises InputError."""
    if request.plan or request.masks is not None or request.fit.depth or len(given.views) < LEAST_VIEWS:
        return given
    rest = [view for image in given.left_out if (view := _like(given, image)) is not None]
    if not rest:
        return given
    into, key = request.out / "cameras", _key(given, rest)
    try:
        if read_json(into / FACTS, "cameras")["key"] == key and (into / NAME).is_file():
            return files.read_calibration(folder, into / NAME)
    except (InputError, LookupError, TypeError):
        pass  # they are placed anew
    shown = [*given.views, *rest]
    if not all(_has_mask(folder, view) for view in shown):
        return given
    missing = f"{len(rest)} of {len(shown)} photographs have no camera"
    say(f"dressi: {missing}; placing them by the shape that the others show ...")
    text, count = _placed(request, folder, given, rest)
    check_folder(request.out)
    with locked(request.out):
        try:
            into.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot write the cameras into '{into}': {error.strerror}; give another --out"
            ) from None
        write_files({into / NAME: text})
        write_json(into / FACTS, {"key": key})
    say(f"dressi: {count} of them got one; all cameras are in '{into / NAME}'")
    return files.read_calibration(folder, into / NAME)


def _placed(request: Request, folder: Path, given: Calibration, rest: Sequence[View]) -> tuple[bytes, int]:
    """The text of a ``cameras.json`` of all photographs that show the shape, and how many were placed."""
    known = load_photos(folder, cameras=given, widest=QUICK.width)
    with tempfile.TemporaryDirectory() as temporary:
        # The new photographs have no cameras yet: they are read with those of others.
        path = Path(temporary) / NAME
        path.write_bytes(files.encode_cameras(_named(folder, [*given.views, *rest]), known.bounds))
        photos = load_photos(folder, cameras=path, widest=QUICK.width)
    images = {view.image for view in rest}
    index = [k for k, view in enumerate(photos.originals) if view.image in images]
    with Device.open(request.device) as device, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is said of this shape would be taken for the result's

        def make_engine() -> DressiAD:
            return DressiAD(device)

        options = request.options(known.cameras.size)
        options = replace(options, steps=min(QUICK.steps, options.steps), refine_poses=False)
        mesh = FitJob(photo_dataset(known, hold_out=False), options, make_engine).run().mesh
        cameras = Cameras([photos.cameras.cameras[k] for k in index])
        poses = placed(mesh, known.cameras, cameras, photos.masks[index], photos.targets[index], make_engine)
    of_image = dict(zip([photos.originals[k].image for k in index], poses, strict=True))
    kept = [
        replace(view, camera=view.camera.with_view(pose.view))
        for view in rest
        if (pose := of_image[view.image]) is not None
    ]
    return files.encode_cameras(_named(folder, [*given.views, *kept]), given.bounds), len(kept)


def _like(given: Calibration, image: Path) -> View | None:
    """An image with camera and lens of the first view whose picture has its size; None without one."""
    size = image_size(image)
    like = next((view for view in given.views if view.camera.size == size), None)
    return None if like is None else View(image, None, like.camera, like.lens)


def _has_mask(folder: Path, view: View) -> bool:
    """Whether a calibration that names no masks finds that of an image, the given one if there is one."""
    folders = [folder / name for name in MASK_FOLDERS if (folder / name).is_dir()]
    if folders:
        mask = files.mask_in(folders[0], view.image)
        return mask is not None and (view.mask is None or mask.resolve() == view.mask.resolve())
    return view.mask is None and has_alpha(view.image)


def _named(folder: Path, views: Sequence[View]) -> list[tuple[str, Camera, Lens]]:
    return [(view.file_in(folder), view.camera, view.lens) for view in views]


def _key(given: Calibration, rest: Sequence[View]) -> dict[str, Any]:
    """What placed cameras depend on, as JSON has it."""
    cameras = [view.camera for view in given.views]
    arrays = [np.concatenate([c.intrinsics.ravel(), c.rotation.ravel(), c.translation]) for c in cameras]
    pictures = [view.image for view in (*given.views, *rest)]
    stats = {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in pictures}
    return {"cameras": hashlib.sha256(np.stack(arrays).tobytes()).hexdigest(), "files": stats}


# Masks that `dressi fit --masks` makes, kept until the folder of the results is there to show them.

LEAST, MOST = 0.002, 0.9
"""A mask that covers less or more of its picture is surprising."""


class MadeMasks:
    """Makes masks as ``--masks`` asks, for ``load_photos``. Raises InputError."""

    def __init__(self, how: str, calibration: Calibration):
        self._how = how
        self._make = mask_maker(how, calibration)
        self._made: dict[str, tuple[np.ndarray, tuple[int, ...]]] = {}

    def __call__(self, view: View, codes: np.ndarray) -> np.ndarray:
        name = view.image.name
        if name not in self._made:  # photographs that are cut are read twice
            mask = self._make(view, codes)
            # A bit a pixel: hundreds of photographs of their own size are kept.
            self._made[name] = np.packbits(mask), mask.shape
        return self._mask(name)

    def _mask(self, name: str) -> np.ndarray:
        bits, shape = self._made[name]
        return np.unpackbits(bits, count=int(np.prod(shape))).reshape(shape).astype(bool)

    def write(self, folder: Path) -> None:
        """PNG files of the photographs' names, to be looked at or drawn over. Raises InputError."""
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write the masks into '{folder}': {error.strerror}; remove it") from None
        shares, texts = np.empty(len(self._made)), {}
        for k, name in enumerate(self._made):
            mask = self._mask(name)
            shares[k], texts[folder / f"{name}.png"] = mask.mean(), encode_png(mask.astype(float))
        write_files(texts)
        say(
            f"dressi: {len(shares)} masks by {self._how} are in '{folder}', look at them: they cover"
            f" {shares.min():.1%} to {shares.max():.1%} of the pictures"
        )
        odd = [name for name, share in zip(self._made, shares, strict=True) if not LEAST < share < MOST]
        if odd:
            warnings.warn(
                f"the masks of {len(odd)} photographs, such as '{odd[0]}', cover almost nothing or everything;"
                " choose another --masks or remove the views",
                stacklevel=2,
            )
