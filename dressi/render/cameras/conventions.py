"""Camera conventions in and out, of arrays and of Variables.

The view matrix here, (..., 4, 4) or MAT4, carries the world to a camera that looks along +z with x to the
right and y down, as OpenCV and COLMAP have it. The others:

| convention | matrix | camera axes |
|---|---|---|
| OpenCV, COLMAP | world to camera, R x + t; COLMAP: R as a quaternion (w, x, y, z) | x right, y down, z forward |
| OpenGL | world to camera | x right, y up, z backward |
| NeRF, Blender | camera to world | x right, y up, z backward |
| PyTorch3D | world to camera by rows, x R + T | x left, y up, z forward |

Clip space here is Vulkan's: y down, depth z / w in [0, 1]. OpenGL's (and nvdiffrast's) has y up and depth in
[-1, 1]. All functions are differentiable in all arguments.
"""

from __future__ import annotations

import numpy as np

from ...ad import functional as F
from ...ad.graph.types import MAT3, MAT4, VEC3, VEC4
from ...errors import InputError, warn
from .rigid import (
    arrays_too,
    invert,
    matrix_to_quaternion,
    quaternion_to_matrix,
    rigid,
    rotation_and_translation,
)

UP_AND_BACK = (1.0, -1.0, -1.0)
"""Signs of the axes of an OpenGL, NeRF or Blender camera."""
LEFT_AND_UP = (-1.0, -1.0, 1.0)
"""Signs of the axes of a PyTorch3D camera."""
PARALLEL = 1e-4
"""Sine of the angle below which two directions are taken for parallel."""


def check_convention(matrices: np.ndarray) -> None:
    """Warns when matrices (N, 4, 4) from the world to clip space look like those of another convention:
    transposed, or with y up as in OpenGL.

    w is even for a parallel projection; for a perspective, depth and w grow along the axis of the camera. So
    row 3 is 0 but for its end, or parallel to row 2, and depth grows at least as fast as w; in a transposed
    matrix column 3 is. Right, down and forward are right-handed; right, up and forward are left-handed.
    """
    if all(not _projects(m) and _projects(m.T) for m in matrices):
        warn(
            "the matrices look transposed: here a column vector is multiplied from the right, clip = matrix @"
            " (x, y, z, 1); give matrix.swapaxes(-1, -2)"
        )
    elif (np.linalg.det(matrices[:, [0, 1, 3], :3]) < 0).all():
        warn(
            "the matrices mirror the picture, as those for OpenGL do here: Vulkan's clip space has y down and"
            " depth in [0, 1]; give clip_from_opengl(matrix), or negate row 0 if a mirror image is meant"
        )


def _projects(matrix: np.ndarray) -> bool:
    """Whether a matrix (4, 4) may be one to clip space; depth may also shrink with w (reversed)."""
    depth, w = matrix[2, :3], matrix[3, :3]
    if not w.any():
        return True
    parallel = np.linalg.norm(np.cross(w, depth)) <= PARALLEL * np.linalg.norm(w) * np.linalg.norm(depth)
    return bool(parallel and not 0 < depth @ w < (1 - PARALLEL) * (w @ w))


def check_affine(name: str, matrices: np.ndarray) -> None:
    """Raises InputError for matrices (..., 4, 4) whose last row is not (0, 0, 0, 1): such as those of the
    convention in which rows are multiplied from the left, which hold the translation there.

    >>> moved = np.eye(4)
    >>> moved[3, :3] = 1.0
    >>> check_affine("to_world", moved)
    Traceback (most recent call last):
        ...
    dressi.errors.InputError: to_world has its translation in the last row, (1, 1, 1, 1): here a column is multiplied from ...
    """
    matrices = np.asarray(matrices)
    if matrices.shape[-2:] != (4, 4):
        return
    matrices, end = matrices.reshape(-1, 4, 4), np.array([0.0, 0, 0, 1])
    wrong = (np.abs(matrices[:, 3] - end) > 1e-5).any(axis=1)
    if not wrong.any():
        return
    matrix = matrices[int(np.argmax(wrong))]
    row = ", ".join(f"{x:.4g}" for x in matrix[3])
    if np.abs(matrix[:, 3] - end).max() <= 1e-5:
        raise InputError(
            f"{name} has its translation in the last row, ({row}): here a column is multiplied from the"
            f" right, matrix @ (x, y, z, 1); give {name}.swapaxes(-1, -2)"
        )
    raise InputError(f"the last row of {name} is ({row}); that of a rigid or affine motion is (0, 0, 0, 1)")


def _signed(matrix, signs):
    """A MAT4 whose first three rows are multiplied by signs."""
    return F.mat4(*(F.hadamard(F.column(matrix, k), (*signs, 1.0)) for k in range(4)))


@arrays_too(rotation=MAT3, translation=VEC3)
def view_from_opencv(rotation, translation):
    """The view, (..., 4, 4) or MAT4, of R (..., 3, 3) or MAT3 and t (..., 3) or VEC3: x_camera = R x + t.

    >>> import numpy as np
    >>> view_from_opencv(np.eye(3), [0, 0, 2])[2].tolist()
    [0.0, 0.0, 1.0, 2.0]
    """
    return rigid(rotation, translation)


@arrays_too(view=MAT4)
def view_to_opencv(view):
    """R (..., 3, 3) or MAT3 and t (..., 3) or VEC3 of a view, x_camera = R x + t.

    >>> import numpy as np
    >>> view_to_opencv(np.eye(4))[1].tolist()
    [0.0, 0.0, 0.0]
    """
    return rotation_and_translation(view)


@arrays_too(quaternion=VEC4, translation=VEC3)
def view_from_colmap(quaternion, translation):
    """The view of COLMAP's qvec (w, x, y, z), (..., 4) or VEC4, and tvec, (..., 3) or VEC3. Returns (..., 4,
    4) or MAT4.

    >>> view_from_colmap([1, 0, 0, 0], [0, 0, 2])[2].tolist()
    [0.0, 0.0, 1.0, 2.0]
    """
    return rigid(quaternion_to_matrix(quaternion), translation)


@arrays_too(view=MAT4)
def view_to_colmap(view):
    """COLMAP's qvec (w, x, y, z), w >= 0, (..., 4) or VEC4, and tvec, (..., 3) or VEC3, of a view.

    >>> import numpy as np
    >>> view_to_colmap(np.eye(4))[0].tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    rotation, translation = rotation_and_translation(view)
    return matrix_to_quaternion(rotation), translation


@arrays_too(matrix=MAT4)
def view_from_opengl(matrix):
    """The view of OpenGL's, world to a camera with x right, y up, z backward. (..., 4, 4) or MAT4.

    >>> import numpy as np
    >>> np.diag(view_from_opengl(np.eye(4))).tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    return _signed(matrix, UP_AND_BACK)


@arrays_too(view=MAT4)
def view_to_opengl(view):
    """OpenGL's view matrix, to a camera with x right, y up, z backward. (..., 4, 4) or MAT4.

    >>> import numpy as np
    >>> np.diag(view_to_opengl(np.eye(4))).tolist()
    [1.0, -1.0, -1.0, 1.0]
    """
    return _signed(view, UP_AND_BACK)


@arrays_too(to_world=MAT4)
def view_from_nerf(to_world):
    """The view of a NeRF or Blender camera: a matrix from x right, y up, z backward to the world. (..., 4, 4)
    or MAT4.

    >>> import numpy as np
    >>> view_from_nerf(rigid(np.eye(3), [0, 0, 2]))[2].tolist()
    [0.0, 0.0, -1.0, 2.0]
    """
    return _signed(invert(to_world), UP_AND_BACK)


@arrays_too(view=MAT4)
def view_to_nerf(view):
    """The camera-to-world matrix of NeRF and Blender, from x right, y up, z backward. (..., 4, 4) or MAT4.

    >>> import numpy as np
    >>> view_to_nerf(view_from_nerf(np.eye(4))).tolist() == np.eye(4).tolist()
    True
    """
    return invert(_signed(view, UP_AND_BACK))


@arrays_too(rotation=MAT3, translation=VEC3)
def view_from_pytorch3d(rotation, translation):
    """The view of PyTorch3D's R (..., 3, 3) or MAT3 and T (..., 3) or VEC3, x_camera = x R + T. Returns (...,
    4, 4) or MAT4.

    >>> import numpy as np
    >>> view_from_pytorch3d(np.diag([-1.0, 1.0, -1.0]), [0, 0, 3])[2].tolist()
    [0.0, 0.0, -1.0, 3.0]
    """
    return _signed(rigid(F.transpose(rotation), translation), LEFT_AND_UP)


@arrays_too(view=MAT4)
def view_to_pytorch3d(view):
    """PyTorch3D's R (..., 3, 3) or MAT3 and T (..., 3) or VEC3 of a view, x_camera = x R + T.

    >>> import numpy as np
    >>> view_to_pytorch3d(np.eye(4))[0].tolist()
    [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    rotation, translation = rotation_and_translation(_signed(view, LEFT_AND_UP))
    return F.transpose(rotation), translation


@arrays_too(matrix=MAT4)
def clip_from_opengl(matrix):
    """A matrix to Vulkan's clip space from one to OpenGL's: y turned, depth from [-w, w] to [0, w]. (..., 4,
    4) or MAT4.

    What nvdiffrast and OpenGL call the modelview-projection matrix becomes one that ``render`` takes.

    >>> import numpy as np
    >>> clip_from_opengl(np.eye(4))[2].tolist()
    [0.0, 0.0, 0.5, 0.5]
    """
    return _clip(matrix, lambda z, w: 0.5 * (z + w))


@arrays_too(matrix=MAT4)
def clip_to_opengl(matrix):
    """A matrix to OpenGL's clip space from one to Vulkan's: ``clip_from_opengl`` undone. (..., 4, 4) or MAT4.

    >>> import numpy as np
    >>> clip_to_opengl(clip_from_opengl(np.eye(4))).tolist() == np.eye(4).tolist()
    True
    """
    return _clip(matrix, lambda z, w: 2.0 * z - w)


def _clip(matrix, depth):
    columns = (F.column(matrix, k) for k in range(4))
    return F.mat4(*(F.vec4(c.x, -c.y, depth(c.z, c.w), c.w) for c in columns))
