"""The cameras found by a fit that refines poses, for reports and files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..cameras import Camera, Cameras
from ..cameras.alignment import turns
from ..io import Photos
from ..io.cameras import encode_cameras
from ..io.lens import Lens
from .data.dataset import Dataset


def moves(found: Cameras, given: Cameras) -> dict[str, Any]:
    """How far cameras moved, for a report. degrees: rotation.  distance: between centres, in units of the world."""
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

    With ``photos``: a file for their folder, with all photographs at their own sizes and with their lenses. Held-out cameras
    are unchanged.
    """
    if photos is None:
        return encode_cameras([(camera.name, camera, Lens()) for camera in found], dataset.bounds)
    learned: dict[int, Camera] = dict(zip(photos.train.tolist(), found, strict=True))
    views = []
    for i, original in enumerate(photos.originals):
        camera = original.camera
        if i in learned:
            camera = replace(camera, rotation=learned[i].rotation, translation=learned[i].translation)
        name = original.image.name if photos.folder is None else original.file_in(photos.folder)
        views.append((name, camera, original.lens))
    return encode_cameras(views, dataset.bounds)
