"""Pictures of wide lenses and panoramas from those of pinholes at the same place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.evaluation import evaluate
from ...ad.graph.types import FLOAT, VEC2, vector_type
from ...errors import InputError
from .camera import Camera, Cameras
from .lens import EquirectangularLens
from .rigid import look_at

AXES = (((0, 0, -1), (0, 1, 0)), ((1, 0, 0), (0, 1, 0)), ((0, 0, 1), (0, 1, 0)), ((-1, 0, 0), (0, 1, 0)),
        ((0, 1, 0), (0, 0, 1)), ((0, -1, 0), (0, 0, -1)))  # fmt: skip
"""Directions of the six views and what is up there."""
MARGIN = 2
"""Pixels by which views overlap, so that none is sampled beyond its border."""

Image = TypeVar("Image", Variable, np.ndarray)


def surround(
    eye: Sequence[float] | np.ndarray, size: int, *, near: float = 0.01, far: float = 100.0
) -> Cameras:
    """Six square views of ``size`` pixels from one place, which see all directions and overlap a little.

    >>> len(surround((0, 0, 0), 64))
    6
    """
    if size <= 2 * MARGIN:
        raise InputError(f"views around a place have more than {2 * MARGIN} pixels along a side, not {size}")
    focal, place = size / 2 - MARGIN, np.asarray(eye, np.float64)
    k = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1]])
    sides = []
    for i, (way, up) in enumerate(AXES):
        rotation, translation = look_at(place, place + np.array(way), up)
        sides.append(Camera(k, rotation, translation, (size, size), near, far, f"side {i}"))
    return Cameras(sides)


def resampled(image: Image, cameras: Sequence[Camera], camera: Camera) -> Image:
    """What another camera sees, through any lens, of pictures from the same place: a panorama of pinhole
    pictures, or pinhole pictures of a panorama or a fisheye.

    image: a Variable of N tiles or an array (N, H, W[, C]), such as of ``render(mesh, cameras)``.  cameras: N.
    Each pixel is sampled bilinearly in the picture whose axis is nearest; 0 where none shows it. Returns a Variable (W, H) or an array (H, W[, C]). Differentiable in the image. It blurs by a part of
    a pixel of the pinholes: draw them a little finer, a panorama of W pixels from sides of W / 3. Colours of
    a soft outline mix with the background as in any picture; depths and numbers of faces mean nothing here.
    Raises InputError for cameras that are elsewhere.

    >>> sides = surround((0, 0, 0), 16)
    >>> resampled(np.ones((6, 16, 16)), sides, Camera.equirectangular((32, 16), (0, 0, 0), (0, 0, -1))).min().item()
    1.0
    """
    cameras = Cameras(cameras)
    apart = np.abs(cameras.centers - camera.center).max()
    if apart > 1e-6 * (1 + np.abs(camera.center).max()):
        raise InputError(f"pictures are resampled for a camera at the same place, not {apart:.3g} away")
    if not isinstance(image, Variable):
        values = np.asarray(image, np.float64)
        vtype = FLOAT if values.ndim == 3 else vector_type(values.shape[-1])
        leaf = Variable(vtype, cameras.size, len(values), data=values)
        return evaluate([resampled(leaf, cameras, camera)])[0][0]
    if image.batch != len(cameras) or image.size != tuple(cameras.size):
        raise InputError(f"give an image of each camera, {len(cameras)} of {cameras.size}, not {image}")
    _, rays = camera.rays()
    points = camera.center + np.nan_to_num(rays)
    place, near = [], []
    for one in cameras:
        at, depth = one.project(points)
        if one.lens.bent:  # which may look behind itself
            depth = np.ones_like(depth)
        uv = at / one.size
        seen = (depth > 0) & ((uv >= 0) & (uv <= 1)).all(-1) & np.isfinite(rays).all(-1)
        place.append(np.where(seen[..., None], uv, 0.5))
        near.append(np.where(seen, depth, 0.0))
    best = (np.argmax(near, axis=0) == np.arange(len(cameras))[:, None, None]) & (np.array(near) > 0)
    uv = Variable(VEC2, camera.size, len(cameras), data=np.array(place))
    around = any(isinstance(one.lens, EquirectangularLens) for one in cameras)
    shown = F.sample(image, uv, "bilinear", ("repeat", "clamp") if around else "clamp")
    return F.sum(shown * Variable(FLOAT, camera.size, len(cameras), data=best.astype(np.float64)), "n")
