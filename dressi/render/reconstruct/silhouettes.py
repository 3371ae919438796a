"""Silhouettes as evidence for cameras: masks that the visual hull of all of them explains.

Of a long lens two shapes explain the features about as well: one, and its mirror image in depth, which turns the other way.
The silhouettes of only one of them have a hull that fills its masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InputError
from ..cameras import Camera, Cameras
from ..io.images import resize, scaled_size
from ..objectives.hull import check_cameras, estimate_bounds, hull_iou
from .pictures import Picture

WIDTH = 96
"""Pixels of the longer side of the masks that are compared: cameras that turn the other way are wrong by far."""


def small_masks(pictures: Mapping[str, Picture]) -> dict[str, np.ndarray] | None:
    """(h, w) float32 of each photograph, by its name; None if one has neither a mask nor alpha."""
    found = {}
    for name, picture in pictures.items():
        covered = picture.covered
        if covered is None:
            return None
        found[name] = resize(
            covered.astype(np.float32), scaled_size(picture.size, min(1.0, WIDTH / max(picture.size)))
        )
    return found


def agreement(model: Any, masks: Mapping[str, np.ndarray]) -> float:
    """IoU of masks with the silhouettes of their hull by the cameras of a model of COLMAP, whose images have the names of the
    masks; 0 where the cameras do not look at one object."""
    views, chosen = [], []
    for image in model.images.values():
        mask, camera, pose = masks[image.name], model.cameras[image.camera_id], image.cam_from_world()
        size = mask.shape[1], mask.shape[0]
        scale = np.diag([size[0] / camera.width, size[1] / camera.height, 1.0])
        intrinsics = scale @ camera.calibration_matrix()
        views.append(Camera(intrinsics, pose.rotation.matrix(), pose.translation, size, name=image.name))
        chosen.append(mask)
    if len({mask.shape for mask in chosen}) != 1 or not all((mask >= 0.5).any() for mask in chosen):
        return 0.0
    cameras, planes = Cameras(views), (np.stack(chosen) >= 0.5).astype(np.float32)
    try:
        bounds = estimate_bounds(planes, cameras)
        check_cameras(cameras, bounds)
        around = cameras.around(bounds.mean(0), 0.5 * float(np.linalg.norm(np.ptp(bounds, axis=0))))
        return hull_iou(planes, around, planes, around, bounds)
    except InputError:
        return 0.0
