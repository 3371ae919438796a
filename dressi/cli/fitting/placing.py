"""Photographs that a calibration has no camera for get one by the shape that the others show."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD
from dressi.cli.fitting.request import QUICK, Request
from dressi.cli.terminal import say
from dressi.errors import InputError
from dressi.render.cameras import Camera, Cameras
from dressi.render.fit import FitJob, check_folder, locked, photo_dataset
from dressi.render.fit.poses.placing import placed
from dressi.render.io import load_photos, write_files, write_json
from dressi.render.io.calibration import (
    MASK_FOLDERS,
    Calibration,
    View,
    mask_in,
    read_calibration,
)
from dressi.render.io.cameras import NAME, encode_cameras
from dressi.render.io.files import read_json
from dressi.render.io.images import has_alpha, image_size
from dressi.render.io.lens import Lens

LEAST_VIEWS = 4
"""Photographs with cameras, of fewer of which no shape is made."""
FACTS = "placed.json"


def with_left_out(request: Request, folder: Path, given: Calibration) -> Calibration:
    """A calibration with the photographs of a folder that the given one leaves out, which is kept in the folder of the results;
    the given one if there are none, or if nothing says where they show the object. Raises InputError."""
    if request.plan or request.masks is not None or request.fit.depth or len(given.views) < LEAST_VIEWS:
        return given
    rest = [view for image in given.left_out if (view := _like(given, image)) is not None]
    if not rest:
        return given
    into, key = request.out / "cameras", _key(given, rest)
    try:
        if read_json(into / FACTS, "cameras")["key"] == key and (into / NAME).is_file():
            return read_calibration(folder, into / NAME)
    except (InputError, LookupError, TypeError):
        pass  # they are placed anew
    shown = [*given.views, *rest]
    if not all(_has_mask(folder, view) for view in shown):
        return given
    say(
        f"dressi: {len(rest)} of {len(shown)} photographs have no camera; placing them by the shape that the others show ..."
    )
    found = _placed(request, folder, given, rest)
    check_folder(request.out)
    with locked(request.out):
        try:
            into.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot write the cameras into '{into}': {error.strerror}; give another --out"
            ) from None
        write_files({into / NAME: found[0]})
        write_json(into / FACTS, {"key": key})
    say(f"dressi: {found[1]} of them got one; all cameras are in '{into / NAME}'")
    return read_calibration(folder, into / NAME)


def _placed(request: Request, folder: Path, given: Calibration, rest: Sequence[View]) -> tuple[bytes, int]:
    """The text of a ``cameras.json`` of all photographs but those that do not show the shape, and how many were placed."""
    known = load_photos(folder, cameras=given, widest=QUICK.width)
    with tempfile.TemporaryDirectory() as temporary:
        # Where the others were taken from is not known yet: their pictures are read with cameras of other ones.
        path = Path(temporary) / NAME
        path.write_bytes(encode_cameras(_named(folder, [*given.views, *rest]), known.bounds))
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
        found = placed(mesh, known.cameras, cameras, photos.masks[index], photos.targets[index], make_engine)
    poses = dict(zip([photos.originals[k].image for k in index], found, strict=True))
    kept = [
        replace(view, camera=view.camera.with_view(pose.view))
        for view in rest
        if (pose := poses[view.image]) is not None
    ]
    return encode_cameras(_named(folder, [*given.views, *kept]), given.bounds), len(kept)


def _like(given: Calibration, image: Path) -> View | None:
    """An image with camera and lens of the first view whose picture has its size; None without one."""
    size = image_size(image)
    found = next((view for view in given.views if view.camera.size == size), None)
    return None if found is None else View(image, None, found.camera, found.lens)


def _has_mask(folder: Path, view: View) -> bool:
    """Whether a calibration that names no masks finds that of an image, the given one if there is one."""
    folders = [folder / name for name in MASK_FOLDERS if (folder / name).is_dir()]
    if folders:
        found = mask_in(folders[0], view.image)
        return found is not None and (view.mask is None or found.resolve() == view.mask.resolve())
    return view.mask is None and has_alpha(view.image)


def _named(folder: Path, views: Sequence[View]) -> list[tuple[str, Camera, Lens]]:
    return [(view.file_in(folder), view.camera, view.lens) for view in views]


def _key(given: Calibration, rest: Sequence[View]) -> dict[str, Any]:
    """What placed cameras depend on, as JSON has it."""
    arrays = [
        np.concatenate([v.camera.intrinsics.ravel(), v.camera.rotation.ravel(), v.camera.translation])
        for v in given.views
    ]
    files = [view.image for view in (*given.views, *rest)]
    stats = {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in files}
    return {"cameras": hashlib.sha256(np.stack(arrays).tobytes()).hexdigest(), "files": stats}
