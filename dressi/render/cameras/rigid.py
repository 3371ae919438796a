"""Rigid motions: SE(3), look-at, composing and inverting, of arrays and of Variables.

A rigid motion is [[R, t], [0, 1]], (..., 4, 4) or MAT4: x -> R x + t. All functions are differentiable in all
arguments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.evaluation import Evaluator
from ...ad.graph.types import MAT3, MAT4, VEC3, VEC4, VType
from ...ad.optim.manifolds import coefficients, polynomial, rotation_and_shift
from ...errors import GraphError, InputError, warn


def arrays_too(**types: VType) -> Callable[[Callable], Callable]:
    """Lets a function of Variables take arrays: it then computes the same graph in NumPy (float64).

    types: the type of each argument that may be an array or a Variable; other arguments pass as they are.

    With arrays alone, leading axes broadcast: an argument of type VEC3 is (..., 3), one of type MAT4 (..., 4,
    4). The results are float64 arrays (or a tuple of them) with those leading axes. Beside a Variable, an
    array without leading axes is a constant and one of (N, ...) is a leaf of N tiles. The function then
    raises GraphError for a Variable of another type, InputError for an array of another shape or with NaN.
    """

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*values: Any, **options: Any) -> Any:
            bound = signature.bind(*values, **options)
            bound.apply_defaults()
            given = bound.arguments
            if any(isinstance(given[name], Variable) for name in types):
                for name, vtype in types.items():
                    given[name] = _variable(function.__name__, name, given[name], vtype)
                return function(*bound.args, **bound.kwargs)
            arrays = {n: _array(function.__name__, n, given[n], t) for n, t in types.items()}
            axes = [array.shape[: array.ndim - len(types[name].shape)] for name, array in arrays.items()]
            try:
                leading = np.broadcast_shapes(*axes)
            except ValueError:
                shapes = ", ".join(f"{n} {a.shape}" for n, a in arrays.items())
                raise InputError(
                    f"{function.__name__}: leading axes must broadcast, not those of {shapes}"
                ) from None
            tiles = int(np.prod(leading))
            rest = tuple(
                (n, tuple(v) if isinstance(v, list) else v) for n, v in given.items() if n not in types
            )
            leaves, single, run = graph(tiles, rest)
            inputs = {}
            for name, array in arrays.items():
                shape = types[name].shape
                inputs[leaves[name]] = np.broadcast_to(array, leading + shape).reshape(tiles, 1, 1, *shape)
            results = []
            for variable, array in zip(run.outputs, run(inputs), strict=True):
                shape = variable.vtype.shape
                results.append(
                    np.broadcast_to(array[:, 0, 0], (tiles, *shape)).reshape(leading + shape) + 0.0
                )
            return results[0] if single else tuple(results)  # + 0.0: no -0.0

        @functools.lru_cache(maxsize=64)
        def graph(tiles: int, rest: tuple) -> tuple[dict[str, Variable], bool, Evaluator]:
            """The graph of so many tiles: its leaves, whether one Variable is given, and what computes it."""
            leaves = {name: Variable(vtype, (1, 1), tiles, name=name) for name, vtype in types.items()}
            result = function(**leaves, **dict(rest))
            single = isinstance(result, Variable)
            return leaves, single, Evaluator([result] if single else result)

        return call

    return decorate


def _array(function: str, name: str, value: Any, vtype: VType) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise not_numbers(f"{function}: {name}", value) from None
    if array.ndim < len(vtype.shape) or array.shape[array.ndim - len(vtype.shape) :] != vtype.shape:
        shape = ", ".join(["...", *map(str, vtype.shape)])
        raise InputError(f"{function}: {name} has shape ({shape}), not {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{function}: {name} has values that are NaN or infinite")
    return array


def not_numbers(name: str, value: Any) -> InputError:
    """The error for an argument that NumPy takes for no array."""
    if getattr(value, "requires_grad", False):
        return InputError(
            f"{name} is a tensor that requires a gradient, which NumPy cannot carry: make a function of"
            " tensors with dressi.torch.wrap, or give tensor.detach()"
        )
    return InputError(f"{name} must be numbers or a Variable, not {type(value).__name__}")


def _variable(function: str, name: str, value: Any, vtype: VType) -> Variable:
    if isinstance(value, Variable):
        if value.vtype is not vtype:
            raise GraphError(f"{function}: {name} is a {vtype}, not {value} (at {value.where})")
        return value
    array = _array(function, name, value, vtype)
    if array.shape == vtype.shape:
        return F.constant(array, vtype)
    tiles = array.reshape(-1, 1, 1, *vtype.shape)
    return Variable(vtype, (1, 1), len(tiles), name=name, data=tiles)


@arrays_too(rotation=MAT3, translation=VEC3)
def rigid(rotation, translation):
    """[[R, t], [0, 1]], (..., 4, 4) or MAT4, of R (..., 3, 3) or MAT3 and t (..., 3) or VEC3.

    >>> rigid(np.eye(3), [1, 2, 3])[:, 3].tolist()
    [1.0, 2.0, 3.0, 1.0]
    """
    return F.mat4(*(F.vec4(F.column(rotation, k), 0.0) for k in range(3)), F.vec4(translation, 1.0))


@arrays_too(matrix=MAT4)
def rotation_and_translation(matrix):
    """R (..., 3, 3) or MAT3 and t (..., 3) or VEC3 of a rigid motion (..., 4, 4) or MAT4: ``rigid`` undone.

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

    rotation: axis times angle in radians; translation: both (..., 3) or VEC3. R and V are those of Rodrigues'
    formula. Returns (..., 4, 4) or MAT4. The derivative is exact at zero, too.

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
    """Rotation and translation (world to camera) of a camera at ``eye`` that sees ``target`` in the middle,
    ``up`` upward.

    eye, target, up: (..., 3) or VEC3, in the world. Returns (..., 3, 3) and (..., 3), or MAT3 and VEC3: x
    right, y down, z forward, as ``Camera`` has them; ``rigid(*look_at(...))`` is the view matrix. Straight up
    and down any upward direction is right, so one is chosen. Raises InputError when eye is target.

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
    # Too near to the vertical: the axis that is farthest from the line of sight stands in for the upward
    # direction.
    ax, ay, az = (F.abs(forward[i]) for i in range(3))
    on_x = F.logical_and(F.less_equal(ax, ay), F.less_equal(ax, az))
    other = F.select(F.less_equal(ay, az), F.constant((0.0, 1.0, 0.0)), (0.0, 0.0, 1.0))
    other = F.select(on_x, (1.0, 0.0, 0.0), other)
    vertical = F.less(F.dot(right, right), 1e-12 * F.dot(up, up))
    right = F.normalize(F.select(vertical, F.cross(forward, other), right))
    rotation = F.transpose(F.mat3(right, F.cross(forward, right), forward))
    return rotation, -(rotation @ eye)


# Rotations: matrices, quaternions, axis-angle vectors and the 6D form, of arrays and of Variables.
#
# Matrices act on columns: ``R @ x``. Quaternions are (w, x, y, z), Hamilton's product; SciPy's and glTF's
# order is (x, y, z, w), see ``wxyz_to_xyzw``. Axis-angle vectors are axis times angle in radians. All
# functions are differentiable in all arguments.

ARCSINE = (1.0, 1 / 6, 3 / 40, 15 / 336, 105 / 3456, 945 / 42240)
"""Of asin(n) / n in powers of n^2, used up to n^2 = 0.01."""


@arrays_too(rotation=VEC3)
def axis_angle_to_matrix(rotation):
    """The rotation about an axis by an angle (Rodrigues): R = 1 + sin(t)/t K + (1 - cos(t))/t^2 K^2.

    rotation: (..., 3) or VEC3, axis times angle t in radians. Returns (..., 3, 3) or MAT3. The derivative is
    exact at zero, too.

    >>> axis_angle_to_matrix([0, 0, np.pi / 2]).round(6).tolist()
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    return rotation_and_shift(rotation)[0]


exp_so3 = axis_angle_to_matrix


@arrays_too(matrix=MAT3)
def matrix_to_axis_angle(matrix):
    """Axis times angle, in radians up to pi, of a rotation matrix; the inverse of ``axis_angle_to_matrix``.

    matrix: (..., 3, 3) or MAT3. Returns (..., 3) or VEC3. At an angle of pi either sign of the axis is right.

    >>> matrix_to_axis_angle([[0, -1, 0], [1, 0, 0], [0, 0, 1]]).round(4).tolist()
    [0.0, 0.0, 1.5708]
    """
    return quaternion_to_axis_angle(matrix_to_quaternion(matrix))


log_so3 = matrix_to_axis_angle


@arrays_too(quaternion=VEC4)
def quaternion_to_matrix(quaternion):
    """The rotation matrix of a quaternion (w, x, y, z), which is normalised first.

    quaternion: (..., 4) or VEC4, not zero (arrays: a zero gives NaN). Returns (..., 3, 3) or MAT3.

    >>> quaternion_to_matrix([1, 0, 0, 1]).round(6).tolist()
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    # Dividing by the square of the length spares the square root; any scale of the quaternion is the same
    # rotation.
    twice = 2.0 / F.dot(quaternion, quaternion)
    w, x, y, z = (F.component(quaternion, i) for i in range(4))
    sx, sy, sz = x * twice, y * twice, z * twice
    xx, yy, zz, xy, xz, yz = x * sx, y * sy, z * sz, x * sy, x * sz, y * sz
    wx, wy, wz = w * sx, w * sy, w * sz
    return F.mat3(
        F.vec3(1.0 - yy - zz, xy + wz, xz - wy),
        F.vec3(xy - wz, 1.0 - xx - zz, yz + wx),
        F.vec3(xz + wy, yz - wx, 1.0 - xx - yy),
    )


@arrays_too(matrix=MAT3)
def matrix_to_quaternion(matrix):
    """The unit quaternion (w, x, y, z), w >= 0, of a rotation matrix.

    matrix: (..., 3, 3) or MAT3. Returns (..., 4) or VEC4. The largest component is found first, so that no
    angle loses digits (Shepperd 1978).

    >>> matrix_to_quaternion(np.diag([1.0, -1.0, -1.0])).tolist()
    [0.0, 1.0, 0.0, 0.0]
    """
    a, b, c = (F.column(matrix, j) for j in range(3))
    (m00, m10, m20), (m01, m11, m21), (m02, m12, m22) = ((v.x, v.y, v.z) for v in (a, b, c))
    # Four times the squares of w, x, y, z.
    squares = (1.0 + m00 + m11 + m22, 1.0 + m00 - m11 - m22, 1.0 - m00 + m11 - m22, 1.0 - m00 - m11 + m22)
    rows = (
        (squares[0], m21 - m12, m02 - m20, m10 - m01),
        (m21 - m12, squares[1], m10 + m01, m02 + m20),
        (m02 - m20, m10 + m01, squares[2], m12 + m21),
        (m10 - m01, m20 + m02, m21 + m12, squares[3]),
    )
    found, largest = F.vec4(*rows[0]), squares[0]
    for row, square in zip(rows[1:], squares[1:], strict=True):
        more = F.greater(square, largest)
        found, largest = F.select(more, F.vec4(*row), found), F.select(more, square, largest)
    unit = F.normalize(found)
    return F.select(F.less(unit.x, 0.0), -unit, unit)


@arrays_too(rotation=VEC3)
def axis_angle_to_quaternion(rotation):
    """The unit quaternion (w, x, y, z) of axis times angle in radians.

    rotation: (..., 3) or VEC3. Returns (..., 4) or VEC4. The derivative is exact at zero, too.

    >>> axis_angle_to_quaternion([np.pi, 0, 0]).round(6).tolist()
    [0.0, 1.0, 0.0, 0.0]
    """
    half = rotation * 0.5
    square = F.dot(half, half)
    sinc, versed, _ = coefficients(square)
    return F.vec4(1.0 - versed * square, half * sinc)


@arrays_too(quaternion=VEC4)
def quaternion_to_axis_angle(quaternion):
    """Axis times angle, in radians up to pi, of a quaternion (w, x, y, z) of any length but zero.

    quaternion: (..., 4) or VEC4. Returns (..., 3) or VEC3. The derivative is exact at no rotation, too.

    >>> (quaternion_to_axis_angle([-1, 0, 0, -1]).round(4) + 0.0).tolist()
    [0.0, 0.0, 1.5708]
    """
    unit = F.normalize(quaternion)
    unit = F.select(F.less(unit.x, 0.0), -unit, unit)
    axis = unit.yzw
    square = F.dot(axis, axis)
    small = F.less(square, 0.01)
    sine = F.sqrt(F.select(small, 1.0, square))
    return axis * (2.0 * F.select(small, polynomial(ARCSINE, square), F.atan2(sine, unit.x) / sine))


@arrays_too(first=VEC4, second=VEC4)
def quaternion_multiply(first, second):
    """The quaternion (w, x, y, z) of the rotation ``second`` followed by ``first``.

    first, second: (..., 4) or VEC4. Returns (..., 4) or VEC4, of the product of their lengths.

    >>> quaternion_multiply([0, 1, 0, 0], [0, 0, 1, 0]).tolist()
    [0.0, 0.0, 0.0, 1.0]
    """
    v, u = first.yzw, second.yzw
    turned = u * first.x + v * second.x + F.cross(v, u)
    return F.vec4(first.x * second.x - F.dot(v, u), turned)


@arrays_too(quaternion=VEC4)
def quaternion_conjugate(quaternion):
    """(w, -x, -y, -z): the inverse rotation. quaternion: (..., 4) or VEC4; the same comes back.

    >>> quaternion_conjugate([1, 2, 3, 4]).tolist()
    [1.0, -2.0, -3.0, -4.0]
    """
    return F.hadamard(quaternion, (1.0, -1.0, -1.0, -1.0))


@arrays_too(quaternion=VEC4, point=VEC3)
def quaternion_rotate(quaternion, point):
    """The point turned by a quaternion (w, x, y, z) of any length but zero.

    quaternion: (..., 4) or VEC4.  point: (..., 3) or VEC3. Returns (..., 3) or VEC3.

    >>> quaternion_rotate([1, 0, 0, 1], [1, 0, 0]).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    return quaternion_to_matrix(quaternion) @ point


@arrays_too(quaternion=VEC4)
def wxyz_to_xyzw(quaternion):
    """A quaternion (w, x, y, z) in the order (x, y, z, w) of SciPy and glTF. (..., 4) or VEC4.

    >>> wxyz_to_xyzw([1, 2, 3, 4]).tolist()
    [2.0, 3.0, 4.0, 1.0]
    """
    return F.swizzle(quaternion, "yzwx")


@arrays_too(quaternion=VEC4)
def xyzw_to_wxyz(quaternion):
    """A quaternion (x, y, z, w), the order of SciPy and glTF, as (w, x, y, z). (..., 4) or VEC4.

    >>> xyzw_to_wxyz([2, 3, 4, 1]).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return F.swizzle(quaternion, "wxyz")


@arrays_too(first=VEC3, second=VEC3)
def rotation_6d_to_matrix(first, second):
    """The rotation whose first two columns follow from two vectors by Gram-Schmidt (Zhou et al. 2019).

    first, second: (..., 3) or VEC3, of any lengths, not parallel. Two vectors, because a texel holds up to
    four numbers; of an array (..., 6) give ``*np.split(array, 2, axis=-1)``. PyTorch3D's 6D form has the
    first two rows instead: it is the transpose of this. Returns (..., 3, 3) or MAT3.

    >>> rotation_6d_to_matrix([2, 0, 0], [5, 3, 0]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    x = F.normalize(first)
    y = F.normalize(second - x * F.dot(x, second))
    return F.mat3(x, y, F.cross(x, y))


@arrays_too(matrix=MAT3)
def matrix_to_rotation_6d(matrix):
    """The first two columns of a rotation matrix (..., 3, 3) or MAT3: two of (..., 3) or VEC3.

    >>> [v.tolist() for v in matrix_to_rotation_6d(np.eye(3))]
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    return F.column(matrix, 0), F.column(matrix, 1)


# Camera conventions in and out, of arrays and of Variables.
#
# The view matrix here, (..., 4, 4) or MAT4, carries the world to a camera that looks along +z with x to the
# right and y down, as OpenCV and COLMAP have it. The others:
#
# | convention | matrix | camera axes |
# |---|---|---|
# | OpenCV, COLMAP | world to camera, R x + t; COLMAP: R as a quaternion (w, x, y, z) | x right, y down, z forward |
# | OpenGL | world to camera | x right, y up, z backward |
# | NeRF, Blender | camera to world | x right, y up, z backward |
# | PyTorch3D | world to camera by rows, x R + T | x left, y up, z forward |
#
# Clip space here is Vulkan's: y down, depth z / w in [0, 1]. OpenGL's (and nvdiffrast's) has y up and depth in
# [-1, 1]. All functions are differentiable in all arguments.

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
