"""Cameras and their Vulkan clip matrices: pinholes, parallel projections, and pinholes behind a lens.

A camera looks along +z with x to the right and y down, like OpenCV and like Vulkan's clip space: nothing is
flipped anywhere. Pixel coordinates are continuous: (0, 0) is the outer corner of the first pixel and (0.5,
0.5) its centre, so that `clip -> pixel` is (ndc * 0.5 + 0.5) * (W, H).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi
from typing import NamedTuple, overload

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import FLOAT, MAT3, VEC2, Size, size_of
from ...errors import GraphError, InputError
from .lens import PINHOLE, Bending, EquirectangularLens, Lens
from .rigid import arrays_too, check_affine, look_at


@dataclass(frozen=True, eq=False)
class Camera:
    """One view.

    intrinsics: (3, 3) K = [[fx, s, cx], [0, fy, cy], [0, 0, 1]] in pixels, corner convention (see above).
    rotation (3, 3), translation (3,): x_camera = rotation @ x_world + translation.
    size: (W, H) in pixels.  near, far: depths that map to 0 and 1.  lens: ``Lens`` or ``FisheyeLens``, between
    the pinhole and K.  parallel: an orthographic view, whose focal lengths are pixels in a unit of the world.
    Raises InputError, also for a lens without an inverse at the edge of the picture.

    >>> Camera.perspective(45, (64, 48), (0, 0, 5), (0, 0, 0)).project(np.zeros(3))[0].round(6).tolist()
    [32.0, 24.0]
    """

    intrinsics: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    size: tuple[int, int]
    near: float = 0.01
    far: float = 100.0
    name: str = "camera"
    lens: Lens = PINHOLE
    parallel: bool = False

    def __post_init__(self) -> None:
        for field, shape in (("intrinsics", (3, 3)), ("rotation", (3, 3)), ("translation", (3,))):
            try:
                array = np.array(getattr(self, field), dtype=np.float64)
            except (TypeError, ValueError):
                raise self._error(f"{field} must be numbers of shape {shape}") from None
            if array.shape != shape or not np.isfinite(array).all():
                raise self._error(f"{field} must be {shape} finite numbers, not {array.tolist()}")
            object.__setattr__(self, field, array)
        object.__setattr__(self, "size", _size(self.name, self.size))
        if self.intrinsics[0, 0] <= 0 or self.intrinsics[1, 1] <= 0:
            raise self._error(f"focal lengths must be positive, not {self.intrinsics.tolist()}")
        turn = self.rotation
        if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-3 or np.linalg.det(turn) < 0:
            raise self._error(f"rotation must be a rotation matrix, not {turn.tolist()}")
        if not 0 < self.near < self.far:
            raise self._error(f"0 < near < far is needed, not {self.near} and {self.far}")
        if self.lens and self.parallel:
            raise self._error("a parallel projection has no lens; leave one of both out")
        fold = self.lens.fold(self.intrinsics, self.size) if self.lens else ""
        if fold:
            raise self._error(fold)

    def _error(self, text: str) -> InputError:
        return InputError(f"camera '{self.name}': {text}")

    @classmethod
    def pinhole(
        cls,
        intrinsics: np.ndarray,
        rotation: np.ndarray,
        translation: np.ndarray,
        size: tuple[int, int],
        *,
        pixel_center: float = 0.0,
        near: float = 0.01,
        far: float = 100.0,
        name: str = "camera",
    ) -> Camera:
        """From a calibration. pixel_center: the coordinate that K gives to the centre of the first pixel, 0
        (OpenCV, most calibrations) or 0.5 (corner convention)."""
        k = np.array(intrinsics, dtype=np.float64)
        if k.shape != (3, 3) or abs(k[2, 2]) < 1e-12:
            raise InputError(f"camera '{name}': K must be a 3x3 matrix that ends in 1, not {k.tolist()}")
        return cls(shift_principal(k / k[2, 2], pixel_center), rotation, translation, size, near, far, name)

    @classmethod
    def perspective(
        cls,
        fov_y: float,
        size: tuple[int, int],
        eye: Sequence[float] | np.ndarray,
        target: Sequence[float] | np.ndarray,
        *,
        up: Sequence[float] | np.ndarray = (0.0, 1.0, 0.0),
        near: float = 0.01,
        far: float = 100.0,
        name: str = "camera",
    ) -> Camera:
        """Centred camera at `eye` towards `target`. fov_y: vertical, in degrees; pixels are square."""
        if not 0 < fov_y < 180:
            raise InputError(
                f"camera '{name}': the field of view must be inside (0, 180) degrees, not {fov_y}"
            )
        size = _size(name, size)
        rotation, translation = look_at(eye, target, up)
        return cls(intrinsics_from_fov(fov_y, size), rotation, translation, size, near, far, name)

    @classmethod
    def orthographic(
        cls,
        height: float,
        size: tuple[int, int],
        eye: Sequence[float] | np.ndarray,
        target: Sequence[float] | np.ndarray,
        *,
        up: Sequence[float] | np.ndarray = (0.0, 1.0, 0.0),
        near: float = 0.01,
        far: float = 100.0,
        name: str = "camera",
    ) -> Camera:
        """Centred parallel projection from the plane at `eye` along the way to `target`. height: of what the
        picture shows, in units of the world; pixels are square. Depths are distances from that plane.

        >>> Camera.orthographic(2.0, (64, 48), (0, 0, 5), (0, 0, 0)).project(np.array([1.0, 0, 0]))[0].round(6).tolist()
        [56.0, 24.0]
        """
        if not height > 0:
            raise InputError(f"camera '{name}': the height of what is seen must be positive, not {height}")
        size = _size(name, size)
        rotation, translation = look_at(eye, target, up)
        k = intrinsics([size[1] / height] * 2, [size[0] / 2, size[1] / 2])
        return cls(k, rotation, translation, size, near, far, name, parallel=True)

    @classmethod
    def equirectangular(
        cls,
        size: tuple[int, int],
        eye: Sequence[float] | np.ndarray,
        target: Sequence[float] | np.ndarray,
        *,
        up: Sequence[float] | np.ndarray = (0.0, 1.0, 0.0),
        near: float = 0.01,
        far: float = 100.0,
        name: str = "camera",
    ) -> Camera:
        """A panorama of all directions with `target` in its middle, for ``resampled``.

        >>> Camera.equirectangular((64, 32), (0, 0, 5), (0, 0, 0)).project(np.array([5.0, 0, 5]))[0].round(6).tolist()
        [48.0, 16.0]
        """
        size = _size(name, size)
        k = intrinsics([size[0] / (2 * pi), size[1] / pi], [size[0] / 2, size[1] / 2])
        rotation, translation = look_at(eye, target, up)
        return cls(k, rotation, translation, size, near, far, name, EquirectangularLens())

    @property
    def center(self) -> np.ndarray:
        """(3,) position in the world."""
        return -self.rotation.T @ self.translation

    @property
    def up(self) -> np.ndarray:
        """(3,) unit vector of the world that points to the top of the image."""
        return -self.rotation[1]

    @property
    def forward(self) -> np.ndarray:
        """(3,) unit viewing direction in the world."""
        return self.rotation[2]

    @property
    def view(self) -> np.ndarray:
        """(4, 4) world -> camera."""
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = self.rotation, self.translation
        return matrix

    @property
    def projection(self) -> np.ndarray:
        """(4, 4) camera -> clip: w is the depth along the axis (1 in a parallel projection), z in [0, w] between
        near and far, y down. That of the pinhole, without the lens."""
        matrix = projection_matrix(self.intrinsics, self.size, self.near, self.far)
        if self.parallel:
            # What is multiplied by the depth and what by 1 change places.
            matrix[:2, 2:] = matrix[:2, :1:-1]
            matrix[2:, 2:] = [1 / (self.far - self.near), -self.near / (self.far - self.near)], [0.0, 1.0]
        return matrix

    @property
    def world_to_clip(self) -> np.ndarray:
        """(4, 4) projection @ view."""
        return self.projection @ self.view

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (..., 2) and depths (...) along the axis of world points (..., 3). Behind, they are <= 0."""
        local = np.asarray(points) @ self.rotation.T + self.translation
        depth = local[..., 2]
        if self.lens or self.parallel:
            plane = self.lens.seen(local) if self.lens else local[..., :2]
            return plane @ self.intrinsics[:2, :2].T + self.intrinsics[:2, 2], depth
        image = local @ self.intrinsics.T
        with np.errstate(divide="ignore", invalid="ignore"):
            return image[..., :2] / depth[..., None], depth

    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        """Origin (3,) and directions (H, W, 3) in the world through pixel centres, one unit of depth long; of a
        fisheye one unit long, NaN where it shows nothing. Origins of a parallel projection are (H, W, 3)."""
        width, height = self.size
        x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        local = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(self.intrinsics).T
        if self.parallel:
            origins = (local * (1.0, 1.0, 0.0) - self.translation) @ self.rotation
            return origins, np.broadcast_to(self.forward, origins.shape)
        return self.center, (self.lens.directions(local[..., :2]) if self.lens else local) @ self.rotation

    def resized(self, size: tuple[int, int]) -> Camera:
        """The same view on another number of pixels; each axis scales on its own."""
        size = _size(self.name, size)
        scale = np.diag([size[0] / self.size[0], size[1] / self.size[1], 1.0])
        return replace(self, intrinsics=scale @ self.intrinsics, size=size)

    def padded(self, size: tuple[int, int]) -> Camera:
        """The same view with pixels added on the right and below, or cut off there."""
        return replace(self, size=size)

    def cut(self, corner: tuple[int, int], size: tuple[int, int]) -> Camera:
        """The part of the same view from the pixel ``corner`` (x, y) on.

        >>> camera = Camera.perspective(40, (8, 6), (0, 0, 4), (0, 0, 0))
        >>> camera.project(np.zeros(3))[0].round(6).tolist()
        [4.0, 3.0]
        >>> camera.cut((2, 1), (4, 4)).project(np.zeros(3))[0].round(6).tolist()
        [2.0, 2.0]
        """
        shift = np.array([[1.0, 0, -corner[0]], [0, 1, -corner[1]], [0, 0, 1]])
        return replace(self, intrinsics=shift @ self.intrinsics, size=size)

    @overload
    def with_view(self, view: Variable) -> Views: ...

    @overload
    def with_view(self, view: np.ndarray) -> Camera: ...

    def with_view(self, view: Variable | np.ndarray) -> Views | Camera:
        """The same lens elsewhere: (4, 4) or MAT4 1x1, world to camera, such as ``rigid(*look_at(eye,
        target))``.

        A Variable, of one or N tiles, makes ``Views`` whose pictures are differentiable in it.
        """
        if isinstance(view, Variable):
            matrices = F.matmul(F.constant(self.projection), view)
            return Views(matrices, self.size, self.lens, self.intrinsics if self.lens else None)
        view = np.asarray(view, np.float64)
        check_affine("view", view)
        return replace(self, rotation=view[:3, :3], translation=view[:3, 3])

    def with_lens(self, lens: Lens) -> Camera:
        """The same view behind a lens, whose coefficients may be Variables. Raises InputError."""
        return replace(self, lens=lens)

    def with_range(self, near: float, far: float) -> Camera:
        """The same view with other clip depths."""
        return replace(self, near=near, far=far)

    def scaled(self, scale: float) -> Camera:
        """The same pictures of a world that is ``scale`` times as large, from its origin."""
        k = self.intrinsics @ np.diag([1 / scale, 1 / scale, 1.0]) if self.parallel else self.intrinsics
        moved = scale * self.translation
        return replace(self, intrinsics=k, translation=moved, near=scale * self.near, far=scale * self.far)

    def around(self, center: np.ndarray, radius: float) -> Camera:
        """The same view with clip depths that hold four radii around an object, and never less than a
        twentieth of the distance away: so that a growing mesh is not clipped during a fit.

        Place and angle of view stay: an object outside of the picture stays there. ``cameras.views.frame``
        makes a camera that shows all of it. Raises InputError when the camera looks away from the object.
        """
        depth = float(self.forward @ (np.asarray(center) - self.center))
        if depth <= 0:
            raise InputError(
                f"camera '{self.name}' looks away from the object; check its rotation and translation"
            )
        return self.with_range(max(depth - 4 * radius, depth / 20), depth + 4 * radius)


def _size(name: str, size: tuple[int, int]) -> tuple[int, int]:
    try:
        return size_of(size)
    except GraphError as error:
        shown = "x".join(map(str, size)) if isinstance(size, Sequence) else size
        raise InputError(f"camera '{name}': size {shown}: {error}; give (W, H) in pixels") from None


class Views(NamedTuple):
    """Views with computed matrices, as an argument of ``render``.

    >>> eye = Variable.of([0.0, 0.0, 5.0], VEC3)
    >>> camera = Camera.perspective(45, (64, 48), (0, 0, 5), (0, 0, 0))
    >>> camera.with_view(rigid(*look_at(eye, (0.0, 0.0, 0.0)))).size
    (64, 48)
    """

    matrices: Variable | np.ndarray
    """MAT4 1x1, N tiles, or (4, 4) or (N, 4, 4): world to clip."""
    size: tuple[int, int]
    """(W, H) of every view."""
    lens: Lens = PINHOLE
    """Of every view."""
    intrinsics: Variable | np.ndarray | None = None
    """MAT3 1x1 or (3, 3), K of the matrices: a lens needs it."""
    mean: bool = False
    """Whether the picture is the mean of the views (``shutter.exposure``)."""
    rows: tuple[Variable | np.ndarray, ...] = ()
    """The matrices of evenly spaced rows, from the first to the last (``shutter.rolling_shutter``)."""


class Cameras(Sequence[Camera]):
    """N views of one size; the batch of a scene. Indexing by a slice or an index array gives Cameras.

    >>> Cameras([Camera.perspective(45, (64, 48), (x, 0, 5), (0, 0, 0)) for x in (0, 1)]).matrices.shape
    (2, 4, 4)
    """

    def __init__(self, cameras: Sequence[Camera]):
        """Raises InputError when there is none or when sizes differ."""
        self.cameras = tuple(cameras)
        if not self.cameras:
            raise InputError("no cameras; give at least one view")
        first = self.cameras[0]
        for camera in self.cameras:
            if camera.size != first.size:
                raise InputError(
                    f"all views must have one size: camera '{first.name}' has"
                    f" {first.size[0]}x{first.size[1]}, camera"
                    f" '{camera.name}' has {camera.size[0]}x{camera.size[1]}"
                )

    def __len__(self) -> int:
        return len(self.cameras)

    def __iter__(self) -> Iterator[Camera]:
        return iter(self.cameras)

    @overload
    def __getitem__(self, index: int) -> Camera: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> Cameras: ...

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> Camera | Cameras:
        if isinstance(index, (int, np.integer)):
            return self.cameras[index]
        if isinstance(index, slice):
            return Cameras(self.cameras[index])
        return Cameras([self.cameras[int(i)] for i in index])

    @property
    def size(self) -> tuple[int, int]:
        """(W, H) of every view."""
        return self.cameras[0].size

    @cached_property
    def matrices(self) -> np.ndarray:
        """(N, 4, 4) world -> clip. Raises InputError for lenses, which matrices do not hold."""
        if any(camera.lens for camera in self.cameras):
            raise InputError(
                f"camera '{self.cameras[0].name}' has a lens, which a matrix does not hold; give the cameras to"
                " render, or undistort the pictures and leave the lens out"
            )
        return self.pinholes

    @cached_property
    def pinholes(self) -> np.ndarray:
        """(N, 4, 4) world -> clip, without lenses."""
        return np.stack([camera.world_to_clip for camera in self.cameras])

    @property
    def bending(self) -> Bending | None:
        """What their lenses do to ``pinholes``; None without any."""
        k = np.stack([camera.intrinsics for camera in self.cameras])
        return Bending.of([camera.lens for camera in self.cameras], k, self.size)

    @cached_property
    def views(self) -> np.ndarray:
        """(N, 4, 4) world -> camera."""
        return np.stack([camera.view for camera in self.cameras])

    @cached_property
    def projections(self) -> np.ndarray:
        """(N, 4, 4) camera -> clip."""
        return np.stack([camera.projection for camera in self.cameras])

    @cached_property
    def centers(self) -> np.ndarray:
        """(N, 3) positions in the world."""
        return np.stack([camera.center for camera in self.cameras])

    def resized(self, size: tuple[int, int]) -> Cameras:
        return Cameras([camera.resized(size) for camera in self.cameras])

    def around(self, center: np.ndarray, radius: float) -> Cameras:
        return Cameras([camera.around(center, radius) for camera in self.cameras])


# Focal lengths, principal points and projections, of arrays and of Variables.
#
# K = [[fx, s, cx], [0, fy, cy], [0, 0, 1]], (..., 3, 3) or MAT3, in pixels, counted from the outer corner of
# the first pixel: its centre is (0.5, 0.5), as in COLMAP, NeRF and PyTorch3D's screen space. OpenCV counts
# from the centre of the first pixel: see ``shift_principal``. Sizes are (W, H). All functions are
# differentiable in all arguments.


@arrays_too(fov=FLOAT)
def focal_from_fov(fov, extent: float):
    """The focal length in pixels, extent / 2 / tan(fov / 2), of a field of view in degrees.

    fov: (...) or FLOAT.  extent: the height for a vertical one, else the width. Returns (...) or FLOAT.

    >>> float(focal_from_fov(90, 100).round(6))
    50.0
    """
    return (0.5 * extent) / F.tan(fov * (pi / 360))


@arrays_too(focal=FLOAT)
def fov_from_focal(focal, extent: float):
    """The field of view in degrees across ``extent`` pixels of a focal length in pixels. (...) or FLOAT.

    >>> float(fov_from_focal(50, 100).round(6))
    90.0
    """
    return F.atan((0.5 * extent) / focal) * (360 / pi)


@arrays_too(focal=VEC2, principal=VEC2)
def intrinsics(focal, principal):
    """K of focal lengths (fx, fy) and the principal point (cx, cy), in pixels, both (..., 2) or VEC2. Returns
    (..., 3, 3) or MAT3, without skew.

    >>> intrinsics([50, 60], [32, 24]).tolist()
    [[50.0, 0.0, 32.0], [0.0, 60.0, 24.0], [0.0, 0.0, 1.0]]
    """
    return F.mat3(F.vec3(focal.x, 0.0, 0.0), F.vec3(0.0, focal.y, 0.0), F.vec3(principal, 1.0))


def intrinsics_from_fov(fov_y, size: Size):
    """K of a vertical field of view in degrees, (...) or FLOAT, square pixels, centred.

    >>> intrinsics_from_fov(90, (64, 48)).round(6).tolist()
    [[24.0, 0.0, 32.0], [0.0, 24.0, 24.0], [0.0, 0.0, 1.0]]
    """
    return _centred(focal_from_fov(fov_y, size[1]), size)


@arrays_too(focal=FLOAT)
def _centred(focal, size: Size):
    return intrinsics(F.vec2(focal, focal), F.constant((size[0] / 2, size[1] / 2)))


@arrays_too(focal=VEC2, principal=VEC2)
def intrinsics_from_pytorch3d(focal, principal, size: Size):
    """K of PyTorch3D's focal lengths and principal point in NDC, both (..., 2) or VEC2.

    There x is to the left, y up, and the shorter side of the image [-1, 1]. Returns (..., 3, 3) or MAT3.

    >>> intrinsics_from_pytorch3d([2, 2], [0.5, 0], (64, 32)).tolist()
    [[32.0, 0.0, 24.0], [0.0, 32.0, 16.0], [0.0, 0.0, 1.0]]
    """
    half = min(size) / 2
    return intrinsics(focal * half, F.sub((size[0] / 2, size[1] / 2), principal * half))


@arrays_too(k=MAT3)
def intrinsics_to_pytorch3d(k, size: Size):
    """PyTorch3D's focal lengths and principal point in NDC, both (..., 2) or VEC2, of K (..., 3, 3) or MAT3.

    >>> [v.tolist() for v in intrinsics_to_pytorch3d([[32, 0, 24], [0, 32, 16], [0, 0, 1]], (64, 32))]
    [[2.0, 2.0], [0.5, 0.0]]
    """
    scale = 2 / min(size)
    first, second, third = (F.column(k, j) for j in range(3))
    return F.vec2(first.x, second.y) * scale, F.sub((size[0] / 2, size[1] / 2), third.xy) * scale


@arrays_too(k=MAT3)
def shift_principal(k, pixel_center: float, to: float = 0.5):
    """K of another pixel convention: ``pixel_center`` is the coordinate that K gives to the centre of the
    first pixel, 0 (OpenCV and most calibrations) or 0.5; ``to`` the one wanted. (..., 3, 3) or MAT3.

    >>> shift_principal([[50, 0, 31.5], [0, 50, 23.5], [0, 0, 1]], 0)[:2, 2].tolist()
    [32.0, 24.0]
    """
    move = to - pixel_center
    return F.mat3(F.column(k, 0), F.column(k, 1), F.add(F.column(k, 2), (move, move, 0.0)))


@arrays_too(k=MAT3)
def projection_matrix(k, size: Size, near: float = 0.01, far: float = 100.0):
    """The matrix from camera to Vulkan clip space: w is the depth along the axis, z in [0, w] between near
    and far, y down.

    k: (..., 3, 3) or MAT3.  near, far: in units of the world. Returns (..., 4, 4) or MAT4. Raises InputError.

    >>> projection_matrix(intrinsics_from_fov(90, (64, 64)), (64, 64)).round(2).tolist()[3]
    [0.0, 0.0, 1.0, 0.0]
    """
    if not 0 < near < far:
        raise InputError(f"0 < near < far is needed, not {near} and {far}")
    width, height = size
    scale = far / (far - near)
    one, two, three = (F.column(k, j) for j in range(3))
    columns = [F.vec4(c.x * (2 / width), c.y * (2 / height), 0.0, 0.0) for c in (one, two)]
    third = F.vec4(three.x * (2 / width) - 1.0, three.y * (2 / height) - 1.0, scale, 1.0)
    return F.mat4(*columns, third, F.constant((0.0, 0.0, -near * scale, 0.0)))


def projection_from_fov(fov_y, size: Size, near: float = 0.01, far: float = 100.0):
    """``projection_matrix``, (..., 4, 4) or MAT4, of a vertical field of view in degrees, (...) or FLOAT.

    >>> projection_from_fov(90, (64, 32)).round(2).tolist()[0]
    [0.5, 0.0, 0.0, 0.0]
    """
    return projection_matrix(intrinsics_from_fov(fov_y, size), size, near, far)
