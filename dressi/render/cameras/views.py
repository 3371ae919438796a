"""Cameras around an object: the training and held-out rings of `--target`, and turntables; what a picture
takes as cameras.

Azimuth 0 looks from +z, 90 degrees from +x; elevation is above the horizon; y is up unless another axis is
given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ad.graph import Variable
from ...ad.graph.evaluation import evaluate
from ...ad.graph.types import MAT4, Size, size_of
from ...errors import GraphError, InputError
from .camera import Camera, Cameras, Views
from .lens import Bending
from .pose import Poses
from .rigid import check_convention

DISTANCE = 2.7
"""Distance of a ring's cameras from the centre, in bounding radii."""
FOV_Y = 45.0
"""Vertical field of view of a ring's cameras, in degrees."""


def frame(
    low: Sequence[float] | np.ndarray,
    high: Sequence[float] | np.ndarray,
    size: tuple[int, int],
    *,
    azimuth: float = 30.0,
    elevation: float = 20.0,
) -> Camera:
    """A camera that sees a whole box, (3,) smallest and (3,) largest coordinates, from azimuth and elevation
    in degrees.

    >>> frame((-1, -1, -1), (1, 1, 1), (64, 64)).project(np.zeros(3))[0].round(6).tolist()
    [32.0, 32.0]
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    size, radius = size_of(size), float(np.linalg.norm(high - low)) / 2 or 1.0
    # The sphere around the box touches the shorter side of the picture.
    half = np.arctan(np.tan(np.radians(FOV_Y / 2)) * min(1.0, size[0] / size[1]))
    distance = 1.02 / float(np.sin(half))
    return orbit((low + high) / 2, radius, [azimuth], [elevation], size, distance=distance)[0]


def orbit(
    center: np.ndarray,
    radius: float,
    azimuths: Sequence[float] | np.ndarray,
    elevations: Sequence[float] | np.ndarray,
    size: tuple[int, int],
    *,
    distance: float = DISTANCE,
    fov_y: float = FOV_Y,
    up: Sequence[float] | np.ndarray = (0.0, 1.0, 0.0),
) -> Cameras:
    """Cameras `distance` radii away from the centre, at azimuths and elevations in degrees.

    >>> orbit(np.zeros(3), 1.0, [0, 90], [0, 0], (32, 32), distance=3).centers.round(6).tolist()
    [[0.0, 0.0, 3.0], [3.0, 0.0, 0.0]]
    """
    if not (np.isfinite(radius) and radius > 0):
        raise InputError(f"the object's radius must be positive, not {radius}")
    center = np.asarray(center, dtype=np.float64)
    # Right-handed unit axes: x, y and z themselves when y is up.
    upward = np.asarray(up, dtype=np.float64) / np.linalg.norm(up)
    front = np.array([0.0, 0.0, 1.0])
    if abs(upward @ front) > 0.9:
        front = np.array([0.0, -1.0, 0.0])
    front = front - (front @ upward) * upward
    front /= np.linalg.norm(front)
    side = np.cross(upward, front)
    cameras = []
    for i, (azimuth, elevation) in enumerate(zip(azimuths, elevations, strict=True)):
        a, e = np.radians(azimuth), np.radians(elevation)
        direction = np.cos(e) * (np.sin(a) * side + np.cos(a) * front) + np.sin(e) * upward
        eye = center + distance * radius * direction
        camera = Camera.perspective(fov_y, size, eye, center, up=upward, name=f"view {i}")
        cameras.append(camera.around(center, radius))
    return Cameras(cameras)


def ring(center: np.ndarray, radius: float, count: int, size: tuple[int, int]) -> Cameras:
    """The training views of a target: azimuth i*360/count, elevation -25 and +35 degrees in turn.

    >>> len(ring(np.zeros(3), 1.0, 6, (32, 32)))
    6
    """
    if count < 1:
        raise InputError(f"{count} views cannot be fitted; give at least 1")
    index = np.arange(count)
    return orbit(center, radius, index * 360.0 / count, np.where(index % 2 == 0, -25.0, 35.0), size)


def held_out_ring(center: np.ndarray, radius: float, size: tuple[int, int]) -> Cameras:
    """The twelve held-out views of a fit: azimuth 15 + 30j, elevation 0, 20, -20, 45 degrees in turn."""
    index = np.arange(12)
    return orbit(center, radius, 15.0 + 30.0 * index, np.array([0.0, 20.0, -20.0, 45.0])[index % 4], size)


def turntable(
    center: np.ndarray,
    radius: float,
    count: int,
    size: tuple[int, int],
    *,
    elevation: float = 15.0,
    up: Sequence[float] | np.ndarray = (0.0, 1.0, 0.0),
) -> Cameras:
    """`count` views once around the object."""
    index = np.arange(count)
    return orbit(center, radius, index * 360.0 / count, np.full(count, elevation), size, up=up)


def upward(cameras: Cameras) -> np.ndarray:
    """(3,) an estimate of the upward direction of photographs, a unit vector.

    It is the mean of the images' upward directions where they agree. Where they do not (a ring of cameras
    around the image's horizontal axis), it is the normal of the plane that the cameras lie in.
    """
    mean = np.mean([camera.up for camera in cameras], axis=0)
    if np.linalg.norm(mean) > 0.3:
        return mean / np.linalg.norm(mean)
    offsets = cameras.centers - cameras.centers.mean(0)
    normal = np.linalg.svd(offsets)[2][-1]
    return normal * (1 if normal[np.argmax(np.abs(normal))] > 0 else -1)


class Seen(NamedTuple):
    """The views of a picture."""

    matrices: Variable | np.ndarray
    """World to clip: MAT4 1x1, one a view, or (N, 4, 4)."""
    size: Size
    single: bool
    """Whether one camera was given, not a list of them."""
    bending: Bending | None = None
    """What lenses do to the matrices."""
    near: np.ndarray | None = None
    """(N,): the depths of the near planes of parallel projections, where they are known."""

    mean: bool = False
    """Whether the picture is the mean of the views."""
    rows: tuple[Variable | np.ndarray, ...] = ()
    """Matrices of evenly spaced rows, which replace the others where a vertex is drawn."""

    def check_straight(self) -> None:
        """Raises InputError for what strands and points do not have."""
        if self.bending is not None or self.rows or self.mean:
            raise InputError(
                "strands and points are not drawn through a lens, by rows or as the mean of views; give plain"
                " cameras"
            )


def seen_by(cameras: Any, size: Size | None, places: np.ndarray | None) -> Seen:
    """A ``Camera`` or several, ``Cameras``, ``Views``, ``Poses``, or matrices with a size. places: (..., 3),
    what a view without cameras frames, if it is known. Raises InputError."""
    if size is not None:
        try:
            size = size_of(size, "the size of a picture")
        except GraphError as error:
            raise InputError(f"{error}; give size=(W, H) in pixels") from None
    if cameras is None:
        if places is None:
            raise InputError(
                "give cameras: the positions are computed, so the view that frames them is not known"
            )
        places = places.reshape(-1, 3)
        cameras = frame(places.min(0), places.max(0), size or (256, 256))
    if isinstance(cameras, Views):
        given, bending = cameras.matrices, None
        single = given.batch == 1 if isinstance(given, Variable) else np.ndim(given) == 2
        if cameras.lens:
            k = cameras.intrinsics
            if k is None or (size is not None and size != tuple(cameras.size)):
                raise InputError("Views with a lens need their intrinsics, and are drawn at their own size")
            start = (
                evaluate([k])[0].reshape(-1, 3, 3)[:1]
                if isinstance(k, Variable)
                else np.reshape(k, (1, 3, 3))
            )
            bending = Bending.of([cameras.lens], start, cameras.size, k)
        single = single or cameras.mean
        return Seen(given, size or cameras.size, single, bending, mean=cameras.mean, rows=cameras.rows)
    if isinstance(cameras, Poses):
        return Seen(cameras.matrices, size or cameras.cameras.size, False, cameras.bending)
    if isinstance(cameras, (Variable, np.ndarray)):
        if size is None:
            raise InputError("matrices need a size: size=(W, H)")
        if isinstance(cameras, Variable):
            if cameras.vtype is not MAT4 or cameras.size != (1, 1):
                raise InputError(f"cameras is a MAT4 of one texel, not {cameras} (made at {cameras.where})")
            return Seen(cameras, size, False)
        if cameras.ndim not in (2, 3) or cameras.shape[-2:] != (4, 4) or not len(cameras):
            raise InputError(f"cameras has shape (4, 4) or (N, 4, 4), not {cameras.shape}")
        if not np.isfinite(cameras).all():
            raise InputError("cameras has values that are NaN or infinite; repair them")
        matrices = np.asarray(cameras, np.float64).reshape(-1, 4, 4)
        check_convention(matrices)
        return Seen(matrices, size, cameras.ndim == 2)
    single = isinstance(cameras, Camera)
    if single:
        cameras = [cameras]
    if not isinstance(cameras, Cameras):
        if not isinstance(cameras, Sequence) or not all(isinstance(c, Camera) for c in cameras):
            raise InputError(f"cameras are a Camera, several, or matrices MAT4, not {type(cameras).__name__}")
        cameras = Cameras(cameras)
    if size is not None:
        cameras = cameras.resized(size)
    parallel = {camera.parallel for camera in cameras}
    if len(parallel) > 1:
        raise InputError("the views of a picture are all parallel projections or none; draw them apart")
    near = np.array([camera.near for camera in cameras]) if parallel.pop() else None
    return Seen(cameras.pinholes, cameras.size, single, cameras.bending, near)
