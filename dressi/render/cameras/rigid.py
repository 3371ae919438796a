"""Rigid motions: SE(3), look-at, composing and inverting, of arrays and of Variables.

A rigid motion is [[R, t], [0, 1]], (..., 4, 4) or MAT4: x -> R x + t. All functions are differentiable in all arguments.
"""

from __future__ import annotations

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import MAT3, MAT4, VEC3
from ...errors import InputError
from .arrays import arrays_too
from .rotations import matrix_to_axis_angle, rotation_and_shift


@arrays_too(rotation=MAT3, translation=VEC3)
def rigid(rotation, translation):
    """[[R, t], [0, 1]] of a rotation (..., 3, 3) or MAT3 and a translation (..., 3) or VEC3: (..., 4, 4) or MAT4.

    >>> rigid(np.eye(3), [1, 2, 3])[:, 3].tolist()
    [1.0, 2.0, 3.0, 1.0]
    """
    return F.mat4(*(F.vec4(F.column(rotation, k), 0.0) for k in range(3)), F.vec4(translation, 1.0))


@arrays_too(matrix=MAT4)
def rotation_and_translation(matrix):
    """R (..., 3, 3) or MAT3 and t (..., 3) or VEC3 of a rigid motion (..., 4, 4) or MAT4; the inverse of ``rigid``.

    >>> rotation_and_translation(np.eye(4))[1].tolist()
    [0.0, 0.0, 0.0]
    """
    columns = [F.column(matrix, k).xyz for k in range(4)]
    return F.mat3(*columns[:3]), columns[3]


@arrays_too(second=MAT4, first=MAT4)
def compose(second, first):
    """The rigid motion ``first`` followed by ``second``: their product second @ first. (..., 4, 4) or MAT4.

    >>> compose(rigid(np.eye(3), [1, 0, 0]), rigid(np.eye(3), [0, 2, 0]))[:3, 3].tolist()
    [1.0, 2.0, 0.0]
    """
    return second @ first


@arrays_too(matrix=MAT4)
def invert(matrix):
    """The inverse of a rigid motion, [[R', -R' t], [0, 1]] with R' the transpose of R. (..., 4, 4) or MAT4.

    >>> invert(rigid(np.eye(3), [1, 2, 3]))[:3, 3].tolist()
    [-1.0, -2.0, -3.0]
    """
    rotation, translation = rotation_and_translation(matrix)
    back = F.transpose(rotation)
    return rigid(back, -(back @ translation))


@arrays_too(matrix=MAT4, point=VEC3)
def transform(matrix, point):
    """R x + t of points (..., 3) or VEC3 by rigid or affine motions (..., 4, 4) or MAT4.

    >>> transform(rigid(np.eye(3), [1, 2, 3]), [[0, 0, 0], [1, 1, 1]]).tolist()
    [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    """
    return (matrix @ F.vec4(point, 1.0)).xyz


@arrays_too(rotation=VEC3, translation=VEC3)
def exp_se3(rotation, translation):
    """The exponential of a twist, [[R, V translation], [0, 1]].

    rotation: axis times angle in radians; translation: both (..., 3) or VEC3. R and V are those of Rodrigues' formula.
    Returns (..., 4, 4) or MAT4. The derivative is exact at zero, too.

    >>> exp_se3([0, 0, 0], [1, 2, 3])[:3, 3].tolist()
    [1.0, 2.0, 3.0]
    """
    turn, shift = rotation_and_shift(rotation)
    return rigid(turn, shift @ translation)


@arrays_too(matrix=MAT4)
def log_se3(matrix):
    """The twist of a rigid motion (..., 4, 4) or MAT4, rotation and translation, both (..., 3) or VEC3.

    The inverse of ``exp_se3``, for angles up to pi.

    >>> [v.round(6).tolist() for v in log_se3(exp_se3([0.1, 0.2, 0.3], [1, 2, 3]))]
    [[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]]
    """
    turn, place = rotation_and_translation(matrix)
    rotation = matrix_to_axis_angle(turn)
    return rotation, F.inverse(rotation_and_shift(rotation)[1]) @ place


def look_at(eye, target, up=(0.0, 1.0, 0.0)):
    """Rotation and translation (world to camera) of a camera at ``eye`` that sees ``target`` in the middle, ``up`` upward.

    eye, target, up: (..., 3) or VEC3, in the world. Returns (..., 3, 3) and (..., 3), or MAT3 and VEC3: x right, y down,
    z forward, as ``Camera`` has them; ``rigid(*look_at(...))`` is the view matrix. Straight up and down any upward
    direction is right, so one is chosen. Raises InputError when eye is target.

    >>> (look_at([0, 0, 5], [0, 0, 0])[1] + 0.0).tolist()
    [0.0, 0.0, 5.0]
    """
    if not isinstance(eye, Variable) and not isinstance(target, Variable):
        same = np.asarray(target, np.float64) - np.asarray(eye, np.float64)
        if not (np.abs(same).max(-1) > 0).all():
            raise InputError(
                f"a camera at {np.asarray(eye).tolist()} cannot look at itself; move it away from its target"
            )
    return _look_at(eye, target, up)


@arrays_too(eye=VEC3, target=VEC3, up=VEC3)
def _look_at(eye, target, up):
    forward = F.normalize(target - eye)
    right = F.cross(forward, up)
    # Too near to the vertical: the axis that is farthest from the line of sight stands in for the upward direction.
    ax, ay, az = (F.abs(forward[i]) for i in range(3))
    on_x = F.logical_and(F.less_equal(ax, ay), F.less_equal(ax, az))
    other = F.select(
        on_x, (1.0, 0.0, 0.0), F.select(F.less_equal(ay, az), F.constant((0.0, 1.0, 0.0)), (0.0, 0.0, 1.0))
    )
    vertical = F.less(F.dot(right, right), 1e-12 * F.dot(up, up))
    right = F.normalize(F.select(vertical, F.cross(forward, other), right))
    rotation = F.transpose(F.mat3(right, F.cross(forward, right), forward))
    return rotation, -(rotation @ eye)
