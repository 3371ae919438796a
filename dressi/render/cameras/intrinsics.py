"""Focal lengths, principal points and projections, of arrays and of Variables.

K = [[fx, s, cx], [0, fy, cy], [0, 0, 1]], (..., 3, 3) or MAT3, in pixels, counted from the outer corner of the first
pixel: its centre is (0.5, 0.5), as in COLMAP, NeRF and PyTorch3D's screen space. OpenCV counts from the centre of the
first pixel: see ``shift_principal``. Sizes are (W, H). All functions are differentiable in all arguments.
"""

from __future__ import annotations

from math import pi

from ...ad import functional as F
from ...ad.types import FLOAT, MAT3, VEC2, Size
from ...errors import InputError
from .arrays import arrays_too


@arrays_too(fov=FLOAT)
def focal_from_fov(fov, extent: float):
    """The focal length in pixels, extent / 2 / tan(fov / 2), of a field of view in degrees across ``extent`` pixels.

    fov: (...) or FLOAT, vertical with the height as extent, horizontal with the width. Returns (...) or FLOAT.

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
    """K of focal lengths (fx, fy) and the principal point (cx, cy), in pixels, both (..., 2) or VEC2. Returns (..., 3, 3)
    or MAT3, without skew.

    >>> intrinsics([50, 60], [32, 24]).tolist()
    [[50.0, 0.0, 32.0], [0.0, 60.0, 24.0], [0.0, 0.0, 1.0]]
    """
    return F.mat3(F.vec3(focal.x, 0.0, 0.0), F.vec3(0.0, focal.y, 0.0), F.vec3(principal, 1.0))


def intrinsics_from_fov(fov_y, size: Size):
    """K of a vertical field of view in degrees, (...) or FLOAT, square pixels and the principal point in the middle.

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

    There x is to the left and y up, and the shorter side of the image is [-1, 1]. Returns (..., 3, 3) or MAT3.

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
    """K of another pixel convention: ``pixel_center`` is the coordinate that K gives to the centre of the first pixel,
    0 (OpenCV and most calibrations) or 0.5; ``to`` the one wanted. (..., 3, 3) or MAT3.

    >>> shift_principal([[50, 0, 31.5], [0, 50, 23.5], [0, 0, 1]], 0)[:2, 2].tolist()
    [32.0, 24.0]
    """
    move = to - pixel_center
    return F.mat3(F.column(k, 0), F.column(k, 1), F.add(F.column(k, 2), (move, move, 0.0)))


@arrays_too(k=MAT3)
def projection_matrix(k, size: Size, near: float = 0.01, far: float = 100.0):
    """The matrix from camera to Vulkan clip space: w is the depth along the axis, z in [0, w] between near and far, y
    down.

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
    """``projection_matrix`` of a vertical field of view in degrees, (...) or FLOAT. Returns (..., 4, 4) or MAT4.

    >>> projection_from_fov(90, (64, 32)).round(2).tolist()[0]
    [0.5, 0.0, 0.0, 0.0]
    """
    return projection_matrix(intrinsics_from_fov(fov_y, size), size, near, far)
