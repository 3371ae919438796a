"""Camera conventions: reference formulas written by hand, round trips, gradients."""

import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, MAT3, MAT4, VEC2, VEC3
from dressi.errors import InputError
from dressi.render import primitives, render
from dressi.render.cameras import Camera
from dressi.render.cameras import conventions as c
from dressi.render.cameras import intrinsics as i
from dressi.render.cameras.rigid import rigid

R = Rotation.from_rotvec([0.3, -1.1, 0.4]).as_matrix()
T = np.array([0.2, -0.5, 3.0])
VIEW = np.block([[R, T[:, None]], [np.zeros((1, 3)), 1]])
WORLD = np.random.default_rng(0).uniform(-1, 1, (20, 3))
CAMERA = WORLD @ R.T + T  # OpenCV: x right, y down, z forward
SIZE = (64, 48)


def leaf(vtype, values) -> Variable:
    return Variable(vtype, data=np.asarray(values, float)[None, None, None])


def homogeneous(points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)


def test_opengl_looks_along_negative_z_with_y_up():
    local = homogeneous(WORLD) @ c.view_to_opengl(VIEW).T
    np.testing.assert_allclose(local[:, :3], CAMERA * (1, -1, -1), atol=1e-12)


def test_nerf_goes_from_the_camera_to_the_world():
    to_world = c.view_to_nerf(VIEW)
    back = homogeneous(CAMERA * (1, -1, -1)) @ to_world.T
    np.testing.assert_allclose(back[:, :3], WORLD, atol=1e-12)


def test_pytorch3d_multiplies_rows_and_looks_with_x_to_the_left():
    rotation, translation = c.view_to_pytorch3d(VIEW)
    np.testing.assert_allclose(WORLD @ rotation + translation, CAMERA * (-1, -1, 1), atol=1e-12)


def test_colmap_has_a_quaternion_that_begins_with_w():
    quaternion, translation = c.view_to_colmap(VIEW)
    np.testing.assert_allclose(Rotation.from_quat(np.roll(quaternion, -1)).as_matrix(), R, atol=1e-12)
    np.testing.assert_allclose(translation, T)


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
    made = out(VIEW)
    np.testing.assert_allclose(back(*made) if isinstance(made, tuple) else back(made), VIEW, atol=1e-12)
    view = leaf(MAT4, VIEW)
    made = out(view)
    again = back(*made) if isinstance(made, tuple) else back(made)
    np.testing.assert_allclose(evaluate([again])[0][0, 0, 0], VIEW, atol=1e-12)
    if name != "colmap":  # the quaternion does not know of the lengths of the axes
        assert check_gradient(again, [view]) < 1e-6
    for part in made if isinstance(made, tuple) else (made,):
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
    np.testing.assert_allclose(mine, camera.world_to_clip, atol=1e-12)


def test_intrinsics_of_pytorch3d_by_its_documentation():
    focal, principal = np.array([1.5, 1.7]), np.array([0.2, -0.1])
    k = i.intrinsics_from_pytorch3d(focal, principal, SIZE)
    rotation, translation = c.view_to_pytorch3d(VIEW)
    local = WORLD @ rotation + translation
    ndc = focal * local[:, :2] / local[:, 2:] + principal
    scale = min(SIZE) / 2
    screen = np.array(SIZE) / 2 - ndc * scale  # cameras.transform_points_screen
    camera = Camera(k, R, T, SIZE)
    np.testing.assert_allclose(camera.project(WORLD)[0], screen, atol=1e-9)
    for found, expected in zip(i.intrinsics_to_pytorch3d(k, SIZE), (focal, principal), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_fields_of_view_and_pixel_centres():
    assert i.fov_from_focal(i.focal_from_fov(50.0, 480), 480) == pytest.approx(50)
    np.testing.assert_allclose(i.focal_from_fov([90, 60], 2), [1, 3**0.5])
    k = i.intrinsics([50, 60], [31.5, 23.5])
    np.testing.assert_allclose(i.shift_principal(k, 0)[:2, 2], [32, 24])
    np.testing.assert_allclose(i.shift_principal(i.shift_principal(k, 0), 0.5, 0), k)
    camera = Camera.perspective(50, SIZE, (0, 0, 4), (0, 0, 0))
    np.testing.assert_allclose(camera.intrinsics, i.intrinsics_from_fov(50, SIZE))
    np.testing.assert_allclose(i.projection_from_fov(50, SIZE), camera.projection)
    skewed = np.array([[300.0, 2, 110], [0, 280, 70], [0, 0, 1]])
    local = homogeneous(CAMERA) @ i.projection_matrix(skewed, SIZE, 0.5, 9).T
    pixels = (local[:, :2] / local[:, 3:] * 0.5 + 0.5) * SIZE
    np.testing.assert_allclose(pixels, (CAMERA @ skewed.T)[:, :2] / CAMERA[:, 2:], atol=1e-9)
    np.testing.assert_allclose(local[:, 3], CAMERA[:, 2])
    np.testing.assert_allclose(local[:, 2], 9 / 8.5 * (CAMERA[:, 2] - 0.5))
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
def test_gradients_are_central_differences(function, values):
    leaves = [leaf(*pair) for pair in values]
    assert check_gradient(function(*leaves), leaves) < 1e-6


@pytest.mark.one_driver
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


@pytest.mark.one_driver
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
