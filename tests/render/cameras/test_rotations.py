"""Rotations and rigid motions: SciPy's and hand-written formulas, round trips, and gradients by central differences."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import MAT3, MAT4, VEC3, VEC4
from dressi.errors import GraphError, InputError
from dressi.render.cameras import rigid as m
from dressi.render.cameras import rotations as r

RANDOM = np.random.default_rng(5)
AXES = RANDOM.normal(size=(6, 3))
AXES /= np.linalg.norm(AXES, axis=1, keepdims=True)
TURNS = np.concatenate(
    [AXES * np.array([0, 1e-7, 1e-3, 0.7, 2.9, 3.14159])[:, None], np.diag([3.1, 3.1, 3.1])]
)
MATRICES = Rotation.from_rotvec(TURNS).as_matrix()
QUATERNIONS = np.roll(Rotation.from_rotvec(TURNS).as_quat(canonical=True), 1, axis=1)
SHIFTS = RANDOM.normal(size=(len(TURNS), 3))


def leaf(vtype, values) -> Variable:
    values = np.asarray(values, float)
    batch = values.reshape(-1, 1, 1, *vtype.shape)
    return Variable(vtype, (1, 1), len(batch), data=batch)


CASES = {
    "axis_angle_to_matrix": (r.axis_angle_to_matrix, [(VEC3, TURNS)], MATRICES),
    "matrix_to_axis_angle": (r.matrix_to_axis_angle, [(MAT3, MATRICES)], TURNS),
    "quaternion_to_matrix": (r.quaternion_to_matrix, [(VEC4, 3 * QUATERNIONS)], MATRICES),
    "matrix_to_quaternion": (r.matrix_to_quaternion, [(MAT3, MATRICES)], QUATERNIONS),
    "axis_angle_to_quaternion": (r.axis_angle_to_quaternion, [(VEC3, TURNS)], QUATERNIONS),
    "quaternion_to_axis_angle": (r.quaternion_to_axis_angle, [(VEC4, -2 * QUATERNIONS)], TURNS),
    "quaternion_multiply": (
        r.quaternion_multiply,
        [(VEC4, QUATERNIONS), (VEC4, QUATERNIONS[::-1])],
        np.roll((Rotation.from_matrix(MATRICES) * Rotation.from_matrix(MATRICES[::-1])).as_quat(), 1, axis=1),
    ),
    "quaternion_conjugate": (r.quaternion_conjugate, [(VEC4, QUATERNIONS)], QUATERNIONS * (1, -1, -1, -1)),
    "quaternion_rotate": (
        r.quaternion_rotate,
        [(VEC4, 2 * QUATERNIONS), (VEC3, SHIFTS)],
        np.einsum("nij,nj->ni", MATRICES, SHIFTS),
    ),
    "wxyz_to_xyzw": (r.wxyz_to_xyzw, [(VEC4, QUATERNIONS)], np.roll(QUATERNIONS, -1, axis=1)),
    "xyzw_to_wxyz": (r.xyzw_to_wxyz, [(VEC4, np.roll(QUATERNIONS, -1, axis=1))], QUATERNIONS),
    "rotation_6d_to_matrix": (
        r.rotation_6d_to_matrix,
        [(VEC3, 3 * MATRICES[:, :, 0]), (VEC3, MATRICES[:, :, 1] - 2 * MATRICES[:, :, 0])],
        MATRICES,
    ),
    "exp_se3": (
        m.exp_se3,
        [(VEC3, TURNS), (VEC3, SHIFTS)],
        np.stack([expm(np.block([[np.cross(np.eye(3), w), t[:, None]], [np.zeros((1, 4))]])) for w, t in zip(TURNS, SHIFTS)]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arrays_and_variables_follow_the_formula(name: str):
    function, given, expected = CASES[name]
    found = function(*(values for _, values in given))
    if expected.shape[-1] == 4 and name == "quaternion_multiply":
        found, expected = (q * np.sign(q[:, np.argmax(np.abs(q[0]))])[:, None] for q in (found, expected))
    np.testing.assert_allclose(found, expected, atol=2e-8)
    (variable,) = evaluate([function(*(leaf(*pair) for pair in given))])
    np.testing.assert_allclose(variable[:, 0, 0], function(*(v for _, v in given)), atol=1e-12)


# At an angle of pi up to rounding, entry 5, the axis of a matrix may turn over.
AT = [(n, k) for n in CASES for k in range(len(TURNS)) if not (n.startswith("matrix_to") and k == 5)]


@pytest.mark.parametrize(("name", "which"), AT)
def test_gradients_are_central_differences(name: str, which: int):
    function, given, _ = CASES[name]
    leaves = [leaf(vtype, values[which]) for vtype, values in given]
    assert check_gradient(function(*leaves), leaves) < 1e-5


def test_the_six_numbers_are_the_first_two_columns():
    first, second = r.matrix_to_rotation_6d(MATRICES)
    np.testing.assert_array_equal(np.stack([first, second], axis=-1), MATRICES[..., :2] + 0.0)
    np.testing.assert_allclose(r.rotation_6d_to_matrix(first, second), MATRICES, atol=1e-12)


def test_the_logarithm_undoes_the_exponential():
    twists = TURNS[:5], SHIFTS[:5]
    for found, expected in zip(m.log_se3(m.exp_se3(*twists)), twists, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    turn, shift = leaf(VEC3, TURNS[3]), leaf(VEC3, SHIFTS[3])
    rotation, translation = m.log_se3(m.exp_se3(turn, shift))
    assert (
        check_gradient(F.dot(rotation, (1.0, 2.0, 3.0)) + F.dot(translation, (3.0, -1.0, 2.0)), [turn, shift])
        < 1e-6
    )


def test_rigid_motions_compose_and_invert():
    first, second = m.rigid(MATRICES, SHIFTS), m.rigid(MATRICES[::-1], SHIFTS[::-1])
    np.testing.assert_allclose(m.compose(second, first), second @ first)
    np.testing.assert_allclose(m.invert(first), np.linalg.inv(first), atol=1e-12)
    points = RANDOM.normal(size=(len(TURNS), 3))
    moved = m.transform(first, points)
    np.testing.assert_allclose(moved, np.einsum("nij,nj->ni", MATRICES, points) + SHIFTS, atol=1e-12)
    for found, expected in zip(m.rotation_and_translation(first), (MATRICES, SHIFTS), strict=True):
        np.testing.assert_allclose(found, expected)
    matrix, point = leaf(MAT4, first[3]), leaf(VEC3, points[3])
    assert check_gradient(m.transform(m.invert(m.compose(matrix, matrix)), point), [matrix, point]) < 1e-6


def test_look_at_by_hand_and_its_gradient():
    eye, target, up = np.array([1.0, 2, 5]), np.array([0.3, 0.1, -0.4]), np.array([0.1, 1, 0.2])
    rotation, translation = m.look_at(eye, target, up)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, up) / np.linalg.norm(np.cross(forward, up))
    np.testing.assert_allclose(rotation, [right, np.cross(forward, right), forward], atol=1e-12)
    np.testing.assert_allclose(rotation @ eye + translation, 0, atol=1e-12)
    leaves = [leaf(VEC3, v) for v in (eye, target, up)]
    turn, shift = m.look_at(*leaves)
    np.testing.assert_allclose(evaluate([turn])[0][0, 0, 0], rotation, atol=1e-12)
    assert check_gradient(turn, leaves) < 1e-6
    assert check_gradient(shift, leaves) < 1e-6


def test_look_at_straight_down_is_a_rotation():
    for up in ((0, 1, 0), (0, 0, 1), (1, 0, 0)):
        rotation, _ = m.look_at(3 * np.array(up), (0, 0, 0), up)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(rotation[2], -np.array(up), atol=1e-12)


def test_arrays_broadcast_and_mix_with_variables():
    assert m.transform(m.rigid(MATRICES[:2, None], SHIFTS[:2, None]), SHIFTS[:4]).shape == (2, 4, 3)
    mixed = m.rigid(r.axis_angle_to_matrix(leaf(VEC3, TURNS[3])), SHIFTS)
    assert mixed.vtype is MAT4 and mixed.batch == len(SHIFTS)
    np.testing.assert_allclose(evaluate([mixed])[0][:, 0, 0, :3, 3], SHIFTS)
    assert r.axis_angle_to_matrix([0, 0, 0]).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: r.quaternion_to_matrix([1, 0, 0]),
            InputError,
            r"quaternion has shape \(..., 4\), not \(3,\)",
        ),
        (lambda: r.axis_angle_to_matrix([1, np.nan, 0]), InputError, "NaN"),
        (lambda: r.axis_angle_to_matrix("abc"), InputError, "must be numbers"),
        (lambda: r.axis_angle_to_matrix(leaf(VEC4, QUATERNIONS)), GraphError, "rotation is a VEC3"),
        (lambda: m.transform(MATRICES[:2, :1], SHIFTS), InputError, "shape"),
        (lambda: m.rigid(MATRICES[:2], SHIFTS[:3]), InputError, "broadcast"),
        (lambda: m.look_at(SHIFTS, SHIFTS), InputError, "look at itself"),
    ],
)
def test_bad_arguments_are_named(call, error, words: str):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.vk
def test_rotations_on_devices(run):
    found = run([function(*(leaf(*pair) for pair in given)) for function, given, _ in CASES.values()])
    for (name, (function, given, _)), values in zip(CASES.items(), found, strict=True):
        np.testing.assert_allclose(
            values[:, 0, 0],
            function(*(v for _, v in given)),
            atol=2e-3 if "matrix_to" in name else 2e-5,
            err_msg=name,
        )
