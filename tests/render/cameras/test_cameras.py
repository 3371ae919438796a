"""Cameras, poses, rotations and the conventions of others."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from reference import masks_of, rasterize
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from dressi import DressiAD, F, GraphError, InputError, Variable, optim
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, IVEC3, MAT3, MAT4, VEC2, VEC3, VEC4
from dressi.render import exp_so3, hard_soft_ras, l2, list_leaf, primitives, render, ring, to_clip
from dressi.render.cameras import camera as i
from dressi.render.cameras import rigid as c
from dressi.render.cameras import rigid as r
from dressi.render.cameras import views
from dressi.render.cameras.camera import Camera, Cameras
from dressi.render.cameras.pose import Poses, matrices_leaf, poses, turned
from dressi.render.cameras.rigid import exp_se3, look_at, rigid
from dressi.render.mesh.primitives import bumpy_ellipsoid

POINTS = np.random.default_rng(1).uniform(-1, 1, (50, 3))


def to_pixels(camera: Camera, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    clip = np.concatenate([points, np.ones((len(points), 1))], axis=1) @ camera.world_to_clip.T
    return (clip[:, :2] / clip[:, 3:] * 0.5 + 0.5) * camera.size, clip[:, 2] / clip[:, 3]


def test_clip_matrix_agrees_with_the_pinhole_equation():
    k = np.array([[300.0, 2.0, 110.0], [0, 280.0, 70.0], [0, 0, 1]])
    rotation, translation = look_at((0.3, 0.4, 4), (0, 0, 0), (0, 1, 0))
    camera = Camera.pinhole(k, rotation, translation, (200, 150), near=1, far=9)
    image = (POINTS @ rotation.T + translation) @ k.T
    expected = image[:, :2] / image[:, 2:] + 0.5  # integer pixel = pixel centre
    pixels, depth = to_pixels(camera, POINTS)
    assert_allclose(pixels, expected, atol=1e-9)
    assert_allclose(camera.project(POINTS)[0], expected, atol=1e-9)
    corner = Camera.pinhole(k, rotation, translation, (200, 150), pixel_center=0.5)
    assert_allclose(corner.project(POINTS)[0], expected - 0.5, atol=1e-9)
    assert ((depth > 0) & (depth < 1)).all()
    order = np.argsort(image[:, 2])
    assert (np.diff(depth[order]) > 0).all()


def test_depth_is_zero_at_near_and_one_at_far():
    camera = Camera.perspective(60, (64, 32), (0, 0, 0), (0, 0, 5), near=0.5, far=8)
    _, depth = to_pixels(camera, np.array([[0, 0, 0.5], [0, 0, 8.0]]))
    assert_allclose(depth, [0, 1], atol=1e-12)


def test_perspective_sees_up_on_top_and_the_field_of_view_at_the_border():
    camera = Camera.perspective(90, (200, 100), (0, 0, 5), (0, 0, 0))
    pixels, _ = to_pixels(camera, np.array([[0, 0, 0], [0, 5.0, 0], [1, 0, 0], [0, -5.0, 0]]))
    assert_allclose(pixels[:2], [[100, 50], [100, 0]], atol=1e-9)
    assert pixels[2, 0] > 100 and pixels[2, 1] == pytest.approx(50)
    assert pixels[3, 1] == pytest.approx(100)
    assert_allclose(camera.center, [0, 0, 5], atol=1e-12)
    assert_allclose(camera.up, [0, 1, 0], atol=1e-12)
    assert_allclose(camera.forward, [0, 0, -1], atol=1e-12)


def test_rays_go_through_pixel_centres():
    camera = Camera.perspective(40, (8, 6), (1, 2, 5), (0, 0, 0))
    origin, directions = camera.rays()
    pixels, depth = camera.project(origin + 3.0 * directions)
    assert_allclose(depth, 3.0)
    assert_allclose(pixels[2, 5], [5.5, 2.5])


def test_resizing_keeps_the_field_of_view():
    camera = Camera.pinhole(np.diag([300.0, 310.0, 1]) + [[0, 0, 90], [0, 0, 60], [0, 0, 0]], *look_at((0, 0, 4), (0, 0, 0), (0, 1, 0)), (200, 150))  # fmt: skip
    small = camera.resized((50, 75))
    assert_allclose(small.project(POINTS)[0] / (50, 75), camera.project(POINTS)[0] / (200, 150))
    assert_allclose(small.projection, camera.projection)


def test_a_sphere_looks_alike_from_both_ends_of_a_resize():
    camera = views.ring(np.zeros(3), 1.0, 1, (128, 128))[0]
    sphere = primitives.icosphere(3)
    large = masks_of(sphere.positions, sphere.faces, camera.world_to_clip[None], (128, 128))[0]
    matrices = camera.resized((32, 64)).world_to_clip[None]
    small = masks_of(sphere.positions, sphere.faces, matrices, (32, 64))[0]
    assert small.mean() == pytest.approx(large.mean(), abs=0.01)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Camera(np.eye(3), np.eye(3) * 2, np.zeros(3), (4, 4)), "rotation matrix"),
        (lambda: Camera(np.eye(3), np.diag([1.0, 1, -1]), np.zeros(3), (4, 4)), "rotation matrix"),
        (lambda: Camera(np.eye(3), np.eye(3), np.array([0, np.nan, 0]), (4, 4)), "finite"),
        (lambda: Camera(np.eye(3), np.eye(3), np.zeros(3), (0, 4)), "0x4"),
        (lambda: Camera(-np.eye(3), np.eye(3), np.zeros(3), (4, 4)), "focal"),
        (lambda: Camera(np.eye(3), np.eye(3), np.zeros(3), (4, 4), near=2, far=1), "near"),
        (lambda: Camera.perspective(0, (4, 4), (0, 0, 1), (0, 0, 0)), "field of view"),
        (lambda: look_at((1, 1, 1), (1, 1, 1), (0, 1, 0)), "look at itself"),
        (lambda: Cameras([]), "no cameras"),
        (lambda: views.orbit(np.zeros(3), 0.0, [0], [0], (4, 4)), "radius"),
    ],
)
def test_impossible_cameras_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_views_of_different_sizes_do_not_make_a_batch():
    camera = Camera.perspective(45, (4, 4), (0, 0, 3), (0, 0, 0), name="a")
    with pytest.raises(InputError, match=r"'a' has 4x4.*'a' has 8x4"):
        Cameras([camera, camera.resized((8, 4))])


def test_rings_stand_where_they_should():
    center, radius = np.array([1.0, 2, 3]), 0.5
    cameras = views.ring(center, radius, 6, (32, 32))
    held_out = views.held_out_ring(center, radius, (32, 32))
    assert len(held_out) == 12 and held_out.matrices.shape == (12, 4, 4)
    for views_of, elevation, azimuth in (
        (cameras, [-25, 35] * 3, np.arange(6) * 60),
        (held_out, [0, 20, -20, 45] * 3, 15 + 30 * np.arange(12)),
    ):
        x, y, z = (views_of.centers - center).T
        assert_allclose(np.hypot(np.hypot(x, y), z), 2.7 * radius)
        assert_allclose(np.degrees(np.arcsin(y / (2.7 * radius))), elevation, atol=1e-9)
        assert_allclose(np.degrees(np.arctan2(x, z)) % 360, azimuth, atol=1e-9)
    focal = 16 / np.tan(np.radians(22.5))
    assert held_out[0].intrinsics[1, 1] == pytest.approx(focal)
    for camera in (*cameras, *held_out):
        assert_allclose(camera.project(center)[0], [16, 16])
        assert camera.up[1] > 0


def test_cameras_are_a_batch():
    cameras = views.turntable(np.zeros(3), 1.0, 5, (16, 8), up=(0, 0, 1))
    assert isinstance(cameras[1], Camera) and isinstance(cameras[[0, 3]], Cameras) and len(cameras[1:]) == 4
    assert_allclose(cameras.matrices, cameras.projections @ cameras.views)
    assert cameras.resized((8, 8)).size == (8, 8)
    assert all(camera.up[2] > 0.9 for camera in cameras)


def test_upward_of_a_ring_of_sideways_photographs():
    sideways = [
        Camera(np.eye(3), look_at((np.cos(a), 0, np.sin(a)), (0, 0, 0), (np.sin(a), 0, -np.cos(a)))[0], np.zeros(3), (4, 4))
        for a in np.linspace(0, 5.5, 12)
    ]  # fmt: skip
    centered = [Camera(c.intrinsics, c.rotation, c.rotation @ c.forward, (4, 4)) for c in sideways]
    assert_allclose(np.abs(views.upward(Cameras(centered))), [0, 1, 0], atol=1e-9)
    assert_allclose(views.upward(views.turntable(np.zeros(3), 1, 8, (4, 4))), [0, 1, 0], atol=1e-9)


class TestReferenceRasterizer:
    """The oracle of other tests has cases of its own."""

    def test_weights_give_back_the_point_on_the_surface(self):
        mesh = primitives.bumpy_ellipsoid(2)
        camera = views.ring(*mesh.bounding_sphere(), 2, (40, 30))[1]
        raster = rasterize(mesh.positions, mesh.faces, camera.world_to_clip, camera.size)
        y, x = np.nonzero(raster.face >= 0)
        points = np.einsum("nk,nkd->nd", raster.weights[y, x], mesh.positions[mesh.faces[raster.face[y, x]]])
        pixels, _ = camera.project(points)
        assert_allclose(pixels, np.stack([x, y], axis=1) + 0.5, atol=1e-9)
        normals = mesh.face_normals()[raster.face[y, x]]
        toward = np.einsum("nd,nd->n", normals, camera.center - points)
        assert (toward > 0).all()  # the nearest face, not the back

    def test_a_plane_through_the_camera_ends_at_the_horizon(self):
        camera = Camera.perspective(90, (20, 20), (0, 1, 0), (0, 1, -1), near=0.1, far=1e6)
        ground = np.array([[-1e4, 0, 1e4], [1e4, 0, 1e4], [0, 0, -1e5]])
        mask = rasterize(ground, np.array([[0, 1, 2]]), camera.world_to_clip, camera.size).mask
        assert mask[:10].sum() == 0 and mask[10:].all()

    def test_the_lower_face_wins_a_tie_and_the_nearer_one_wins(self):
        square = np.array([[-1.0, -1, 0.5, 1], [3, -1, 0.5, 1], [-1, 3, 0.5, 1], [-1, -1, 0.25, 1], [3, -1, 0.25, 1], [-1, 3, 0.25, 1]])  # fmt: skip
        from reference import rasterize_clip

        assert (rasterize_clip(square, np.array([[0, 1, 2], [0, 1, 2]]), (4, 4)).face == 0).all()
        nearer = rasterize_clip(square, np.array([[0, 1, 2], [3, 4, 5]]), (4, 4))
        assert (nearer.face == 1).all() and np.allclose(nearer.depth, 0.25)


ANGLES = (0.0, 1e-9, 1e-4, 0.49, 0.51, 2.0, 3.1)
AXIS = np.array([2.0, -1.0, 2.0]) / 3


def twists() -> tuple[Variable, Variable]:
    turns = np.array(ANGLES)[:, None] * AXIS
    shifts = np.random.default_rng(0).normal(size=turns.shape)
    return tuple(
        Variable(VEC3, (1, 1), len(ANGLES), name=name, data=values[:, None, None])
        for name, values in (("rotation", turns), ("translation", shifts))
    )


def exponentials(rotations: np.ndarray, translations: np.ndarray) -> np.ndarray:
    """(n, 4, 4) of twists (n, 3) and (n, 3)."""
    twists = np.zeros((len(rotations), 4, 4))
    twists[:, :3, :3], twists[:, :3, 3] = np.cross(np.eye(3), rotations[:, None]), translations
    return np.stack([expm(twist) for twist in twists])


def expected() -> np.ndarray:
    return exponentials(*(v.data[:, 0, 0] for v in twists()))


def test_the_exponential_is_that_of_the_matrix():
    rotation, translation = twists()
    found, turn = evaluate([exp_se3(rotation, translation), exp_so3(rotation)])
    assert_allclose(found[:, 0, 0], expected(), atol=1e-10)
    assert_allclose(turn[:, 0, 0], expected()[:, :3, :3], atol=1e-10)
    with pytest.raises(GraphError, match="VEC3"):
        exp_so3(Variable(FLOAT))


def test_its_derivative_is_the_central_difference():
    rotation, translation = twists()
    for k in range(len(ANGLES)):
        one = [Variable(VEC3, name=v.name, data=v.data[k]) for v in (rotation, translation)]
        assert check_gradient(exp_se3(*one), one) < 1e-6


def test_the_exponential_on_devices(run):
    (found,) = run([exp_se3(*twists())])
    assert_allclose(found[:, 0, 0], expected(), atol=2e-6)


def cameras(count: int = 2, size: int = 96) -> Cameras:
    return ring(np.array([0.1, 0.2, 0.3]), 1.0, count, (size, size))


@pytest.mark.parametrize("center", [None, (0.1, 0.2, 0.3)])
def test_matrices_are_those_of_the_cameras(center):
    made = poses(cameras(3), center)
    (found,) = evaluate([made.matrices])
    assert_allclose(found[:, 0, 0], cameras(3).matrices, atol=1e-12)
    wrt = [made.rotation, made.translation, made.focal]
    assert check_gradient(made.matrices, wrt) < 1e-6
    rng = np.random.default_rng(1)
    values = {leaf: rng.normal(size=leaf.shape) for leaf in wrt}
    (moved,) = evaluate([made.matrices], values)
    back = made.found(lambda leaf: values.get(leaf, leaf.data))
    assert_allclose(moved[:, 0, 0], back.matrices, atol=1e-9)
    assert_allclose(
        back[1].intrinsics[0, 0] / cameras(3)[1].intrinsics[0, 0], np.exp(values[made.focal][1].item())
    )


def test_a_turn_about_a_point_leaves_it_where_it_was():
    point, camera = np.array([0.5, -0.2, 0.1]), cameras()[0]
    other = turned(camera, 0.3 * AXIS, np.zeros(3), point)
    assert_allclose(other.project(point)[0], camera.project(point)[0])
    assert np.abs(other.rotation - camera.rotation).max() > 0.1
    with pytest.raises(InputError, match="three numbers"):
        poses(cameras(), (1.0, 2.0))


def pictures(matrices: Variable, radius: float = 0.1) -> Variable:
    mesh = bumpy_ellipsoid(2)
    clip = to_clip(list_leaf("position", VEC3, mesh.positions), matrices)
    return hard_soft_ras(
        clip, list_leaf("faces", IVEC3, mesh.faces), size=(96, 96), radius=F.constant(radius),
        face_count=len(mesh.faces), form="outer",
    ).silhouette  # fmt: skip


def aligned(device, start: Cameras, truth: Cameras, wrt, steps: int, fold: bool = False) -> Poses:
    """Poses after steps of Adam on silhouettes; the found cameras are on ``cameras``."""
    with DressiAD(device) as ad:
        ad.set_output("target", pictures(matrices_leaf(truth.matrices)))
        ad.step()
        target = Variable(FLOAT, (96, 96), len(truth), name="target", data=ad.recv("target"))
    made = poses(start, np.zeros(3))
    with DressiAD(device) as ad:
        ad.set_loss(l2(pictures(made.matrices), target))
        ad.set_optimizer(optim.adam(optim.cosine(0.01, 0.0005, steps), (0.9, 0.99)), wrt(made))
        ad.step(steps // 2)
        before = made.found(ad.recv)
        if fold:
            made.fold(ad)
            after = made.found(ad.recv)
            assert_allclose(before.matrices, after.matrices, atol=2e-6 * np.abs(before.matrices).max())
            assert not ad.recv(made.rotation).any()
        ad.step(steps - steps // 2)
        losses = ad.losses()
        assert losses[-1] < 0.02 * losses[0]
        return made.found(ad.recv)


def degrees(a: Camera, b: Camera) -> float:
    cosine = (np.trace(a.rotation @ b.rotation.T) - 1) / 2
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


@pytest.mark.one_driver
def test_poses_are_found_from_silhouettes(device):
    truth = ring(np.zeros(3), 1.2, 2, (96, 96))
    rng = np.random.default_rng(2)
    start = []
    for camera in truth:
        axis, shift = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        away = 0.02 * np.linalg.norm(camera.center)
        start.append(turned(camera, np.radians(2) * axis, away * shift, np.zeros(3)))
    found = aligned(device, Cameras(start), truth, lambda p: [p.rotation, p.translation], 120, fold=True)
    for camera, right in zip(found, truth, strict=True):
        assert degrees(camera, right) < 0.25
        away = np.linalg.norm(camera.center - right.center) / np.linalg.norm(right.center)
        assert away < 0.005


@pytest.mark.one_driver
def test_focal_lengths_are_found_from_silhouettes(device):
    truth = ring(np.zeros(3), 1.2, 2, (96, 96))
    start = []
    for camera, g in zip(truth, (0.98, 1.02), strict=True):
        start.append(replace(camera, intrinsics=camera.intrinsics * [[g, 1, 1], [1, g, 1], [1, 1, 1]]))
    found = aligned(device, Cameras(start), truth, lambda p: [p.focal], 60)
    for camera, right in zip(found, truth, strict=True):
        assert abs(camera.intrinsics[1, 1] / right.intrinsics[1, 1] - 1) < 0.001


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
    "exp_se3": (r.exp_se3, [(VEC3, TURNS), (VEC3, SHIFTS)], exponentials(TURNS, SHIFTS)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_arrays_and_variables_follow_the_formula(name: str):
    function, given, expected = CASES[name]
    found = function(*(values for _, values in given))
    if expected.shape[-1] == 4 and name == "quaternion_multiply":
        found, expected = (q * np.sign(q[:, np.argmax(np.abs(q[0]))])[:, None] for q in (found, expected))
    assert_allclose(found, expected, atol=2e-8)
    (variable,) = evaluate([function(*(leaf(*pair) for pair in given))])
    assert_allclose(variable[:, 0, 0], function(*(v for _, v in given)), atol=1e-12)


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
    assert_allclose(r.rotation_6d_to_matrix(first, second), MATRICES, atol=1e-12)


def test_the_logarithm_undoes_the_exponential():
    twists = TURNS[:5], SHIFTS[:5]
    for found, expected in zip(r.log_se3(r.exp_se3(*twists)), twists, strict=True):
        assert_allclose(found, expected, atol=1e-6)
    turn, shift = leaf(VEC3, TURNS[3]), leaf(VEC3, SHIFTS[3])
    rotation, translation = r.log_se3(r.exp_se3(turn, shift))
    total = F.dot(rotation, (1.0, 2.0, 3.0)) + F.dot(translation, (3.0, -1.0, 2.0))
    assert check_gradient(total, [turn, shift]) < 1e-6


def test_rigid_motions_compose_and_invert():
    first, second = r.rigid(MATRICES, SHIFTS), r.rigid(MATRICES[::-1], SHIFTS[::-1])
    assert_allclose(r.compose(second, first), second @ first)
    assert_allclose(r.invert(first), np.linalg.inv(first), atol=1e-12)
    points = RANDOM.normal(size=(len(TURNS), 3))
    moved = r.transform(first, points)
    assert_allclose(moved, np.einsum("nij,nj->ni", MATRICES, points) + SHIFTS, atol=1e-12)
    for found, expected in zip(r.rotation_and_translation(first), (MATRICES, SHIFTS), strict=True):
        assert_allclose(found, expected)
    matrix, point = leaf(MAT4, first[3]), leaf(VEC3, points[3])
    assert check_gradient(r.transform(r.invert(r.compose(matrix, matrix)), point), [matrix, point]) < 1e-6


def test_look_at_by_hand_and_its_gradient():
    eye, target, up = np.array([1.0, 2, 5]), np.array([0.3, 0.1, -0.4]), np.array([0.1, 1, 0.2])
    rotation, translation = r.look_at(eye, target, up)
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, up) / np.linalg.norm(np.cross(forward, up))
    assert_allclose(rotation, [right, np.cross(forward, right), forward], atol=1e-12)
    assert_allclose(rotation @ eye + translation, 0, atol=1e-12)
    leaves = [leaf(VEC3, v) for v in (eye, target, up)]
    turn, shift = r.look_at(*leaves)
    assert_allclose(evaluate([turn])[0][0, 0, 0], rotation, atol=1e-12)
    assert check_gradient(turn, leaves) < 1e-6
    assert check_gradient(shift, leaves) < 1e-6


def test_look_at_straight_down_is_a_rotation():
    for up in ((0, 1, 0), (0, 0, 1), (1, 0, 0)):
        rotation, _ = r.look_at(3 * np.array(up), (0, 0, 0), up)
        assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
        assert_allclose(rotation[2], -np.array(up), atol=1e-12)


def test_arrays_broadcast_and_mix_with_variables():
    assert r.transform(r.rigid(MATRICES[:2, None], SHIFTS[:2, None]), SHIFTS[:4]).shape == (2, 4, 3)
    mixed = r.rigid(r.axis_angle_to_matrix(leaf(VEC3, TURNS[3])), SHIFTS)
    assert mixed.vtype is MAT4 and mixed.batch == len(SHIFTS)
    assert_allclose(evaluate([mixed])[0][:, 0, 0, :3, 3], SHIFTS)
    assert r.axis_angle_to_matrix([0, 0, 0]).tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: r.quaternion_to_matrix([1, 0, 0]), InputError, r"quaternion has shape \(..., 4\), not"),
        (lambda: r.axis_angle_to_matrix([1, np.nan, 0]), InputError, "NaN"),
        (lambda: r.axis_angle_to_matrix("abc"), InputError, "must be numbers"),
        (lambda: r.axis_angle_to_matrix(leaf(VEC4, QUATERNIONS)), GraphError, "rotation is a VEC3"),
        (lambda: r.transform(MATRICES[:2, :1], SHIFTS), InputError, "shape"),
        (lambda: r.rigid(MATRICES[:2], SHIFTS[:3]), InputError, "broadcast"),
        (lambda: r.look_at(SHIFTS, SHIFTS), InputError, "look at itself"),
    ],
)
def test_bad_arguments_are_named(call, error, words: str):
    with pytest.raises(error, match=words):
        call()


def test_rotations_on_devices(run):
    found = run([function(*(leaf(*pair) for pair in given)) for function, given, _ in CASES.values()])
    for (name, (function, given, _)), values in zip(CASES.items(), found, strict=True):
        expected, error = function(*(v for _, v in given)), 2e-3 if "matrix_to" in name else 2e-5
        assert_allclose(values[:, 0, 0], expected, atol=error, err_msg=name)


R = Rotation.from_rotvec([0.3, -1.1, 0.4]).as_matrix()
T = np.array([0.2, -0.5, 3.0])
VIEW = np.block([[R, T[:, None]], [np.zeros((1, 3)), 1]])
WORLD = np.random.default_rng(0).uniform(-1, 1, (20, 3))
CAMERA = WORLD @ R.T + T  # OpenCV: x right, y down, z forward
SIZE = (64, 48)


def homogeneous(points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)


def test_opengl_looks_along_negative_z_with_y_up():
    local = homogeneous(WORLD) @ c.view_to_opengl(VIEW).T
    assert_allclose(local[:, :3], CAMERA * (1, -1, -1), atol=1e-12)


def test_nerf_goes_from_the_camera_to_the_world():
    to_world = c.view_to_nerf(VIEW)
    back = homogeneous(CAMERA * (1, -1, -1)) @ to_world.T
    assert_allclose(back[:, :3], WORLD, atol=1e-12)


def test_pytorch3d_multiplies_rows_and_looks_with_x_to_the_left():
    rotation, translation = c.view_to_pytorch3d(VIEW)
    assert_allclose(WORLD @ rotation + translation, CAMERA * (-1, -1, 1), atol=1e-12)


def test_colmap_has_a_quaternion_that_begins_with_w():
    quaternion, translation = c.view_to_colmap(VIEW)
    assert_allclose(Rotation.from_quat(np.roll(quaternion, -1)).as_matrix(), R, atol=1e-12)
    assert_allclose(translation, T)


PAIRS = {
    "opencv": (c.view_to_opencv, c.view_from_opencv),
    "opengl": (c.view_to_opengl, c.view_from_opengl),
    "nerf": (c.view_to_nerf, c.view_from_nerf),
    "pytorch3d": (c.view_to_pytorch3d, c.view_from_pytorch3d),
    "colmap": (c.view_to_colmap, c.view_from_colmap),
    "clip": (c.clip_to_opengl, c.clip_from_opengl),
}


@pytest.mark.parametrize("name", PAIRS)
def test_there_and_back_of_arrays_and_variables(name: str):
    out, back = PAIRS[name]

    def parts(view) -> tuple:
        made = out(view)
        return made if isinstance(made, tuple) else (made,)

    assert_allclose(back(*parts(VIEW)), VIEW, atol=1e-12)
    view = leaf(MAT4, VIEW)
    again = back(*parts(view))
    assert_allclose(evaluate([again])[0][0, 0, 0], VIEW, atol=1e-12)
    # The quaternion of COLMAP does not know of the lengths of the axes.
    for part in (*parts(view), *(() if name == "colmap" else (again,))):
        assert check_gradient(part, [view]) < 1e-6


def test_vulkan_clip_is_opengl_clip_turned_over():
    near, far, focal = 0.1, 10.0, 1.7
    opengl = np.array(
        [[focal, 0, 0, 0], [0, focal, 0, 0], [0, 0, -(far + near) / (far - near), -2 * far * near / (far - near)], [0, 0, -1, 0]]
    )  # fmt: skip
    mine = c.clip_from_opengl(opengl @ c.view_to_opengl(VIEW))
    camera = Camera.pinhole(
        i.intrinsics([focal * 24] * 2, [24, 24]), R, T, (48, 48), pixel_center=0.5, near=near, far=far
    )
    assert_allclose(mine, camera.world_to_clip, atol=1e-12)


def test_intrinsics_of_pytorch3d_by_its_documentation():
    focal, principal = np.array([1.5, 1.7]), np.array([0.2, -0.1])
    k = i.intrinsics_from_pytorch3d(focal, principal, SIZE)
    rotation, translation = c.view_to_pytorch3d(VIEW)
    local = WORLD @ rotation + translation
    ndc = focal * local[:, :2] / local[:, 2:] + principal
    scale = min(SIZE) / 2
    screen = np.array(SIZE) / 2 - ndc * scale  # cameras.transform_points_screen
    camera = Camera(k, R, T, SIZE)
    assert_allclose(camera.project(WORLD)[0], screen, atol=1e-9)
    for found, expected in zip(i.intrinsics_to_pytorch3d(k, SIZE), (focal, principal), strict=True):
        assert_allclose(found, expected, atol=1e-12)


def test_fields_of_view_and_pixel_centres():
    assert i.fov_from_focal(i.focal_from_fov(50.0, 480), 480) == pytest.approx(50)
    assert_allclose(i.focal_from_fov([90, 60], 2), [1, 3**0.5])
    k = i.intrinsics([50, 60], [31.5, 23.5])
    assert_allclose(i.shift_principal(k, 0)[:2, 2], [32, 24])
    assert_allclose(i.shift_principal(i.shift_principal(k, 0), 0.5, 0), k)
    camera = Camera.perspective(50, SIZE, (0, 0, 4), (0, 0, 0))
    assert_allclose(camera.intrinsics, i.intrinsics_from_fov(50, SIZE))
    assert_allclose(i.projection_from_fov(50, SIZE), camera.projection)
    skewed = np.array([[300.0, 2, 110], [0, 280, 70], [0, 0, 1]])
    local = homogeneous(CAMERA) @ i.projection_matrix(skewed, SIZE, 0.5, 9).T
    pixels = (local[:, :2] / local[:, 3:] * 0.5 + 0.5) * SIZE
    assert_allclose(pixels, (CAMERA @ skewed.T)[:, :2] / CAMERA[:, 2:], atol=1e-9)
    assert_allclose(local[:, 3], CAMERA[:, 2])
    assert_allclose(local[:, 2], 9 / 8.5 * (CAMERA[:, 2] - 0.5))
    with pytest.raises(InputError, match="near < far"):
        i.projection_matrix(k, SIZE, 2, 1)


@pytest.mark.parametrize(
    "function, values",
    [
        (lambda f: i.projection_from_fov(f, SIZE), [(FLOAT, 50)]),
        (lambda f: i.fov_from_focal(f, 48), [(FLOAT, 50)]),
        (lambda f, p: i.projection_matrix(i.intrinsics(f, p), SIZE), [(VEC2, [50, 60]), (VEC2, [30, 25])]),
        (lambda f, p: i.intrinsics_from_pytorch3d(f, p, SIZE), [(VEC2, [1.5, 2]), (VEC2, [0.1, 0.2])]),
        (lambda k: i.intrinsics_to_pytorch3d(k, SIZE)[0], [(MAT3, [[50, 0, 30], [0, 60, 20], [0, 0, 1]])]),
        (lambda k: i.shift_principal(k, 0), [(MAT3, [[50, 0, 30], [0, 60, 20], [0, 0, 1]])]),
        (rigid, [(MAT3, R), (VEC3, T)]),
    ],
)
def test_gradients_of_conventions_are_central_differences(function, values):
    leaves = [leaf(*pair) for pair in values]
    assert check_gradient(function(*leaves), leaves) < 1e-6


def test_matrices_of_another_convention_are_asked_about():
    camera = Camera.perspective(45, (16, 16), (1.0, 2.0, 3.0), (0, 0, 0))
    matrix, cube = camera.world_to_clip, primitives.cube()

    def hints(given: np.ndarray) -> str:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                render(cube, given, size=(16, 16), light=None)
            except InputError as error:
                return str(error)
        return " ".join(str(one.message) for one in told)

    assert hints(matrix) == hints(np.stack([matrix, matrix])) == ""
    assert "look transposed" in hints(matrix.T)
    assert "clip_from_opengl" in hints(c.clip_to_opengl(matrix))
    # A parallel projection, and a camera at the origin, whose matrix is nearly its own transpose.
    assert hints(np.diag([0.4, 0.4, 0.1, 1.0]) + np.diag([0, 0, 0.5], 1)) == ""
    ahead = Camera.perspective(45, (16, 16), (0, 0, 0), (0, 0, 4)).world_to_clip
    moved = np.eye(4)
    moved[2, 3] = 4.0
    assert hints(ahead @ moved) == ""
    assert "look transposed" in hints((ahead @ moved).T) or "convention" in hints((ahead @ moved).T)


def test_a_tensor_that_requires_a_gradient_is_shown_the_way():
    class Tensor:
        """What NumPy meets of torch."""

        requires_grad = True

        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    cube = primitives.cube()
    for call in (
        lambda: render(cube, positions=Tensor(), size=(8, 8)),
        lambda: c.clip_to_opengl(Tensor()),
        lambda: render(cube, background=Tensor(), size=(8, 8)),
    ):
        with pytest.raises(InputError, match=r"dressi\.torch\.wrap"):
            call()
