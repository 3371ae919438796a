"""Cameras: conventions, matrices, resizing, rings of views."""

import numpy as np
import pytest
from reference import masks_of, rasterize

from dressi.errors import InputError
from dressi.render.cameras import Camera, Cameras, look_at, views
from dressi.render.mesh import primitives

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
    np.testing.assert_allclose(pixels, expected, atol=1e-9)
    np.testing.assert_allclose(camera.project(POINTS)[0], expected, atol=1e-9)
    corner = Camera.pinhole(k, rotation, translation, (200, 150), pixel_center=0.5)
    np.testing.assert_allclose(corner.project(POINTS)[0], expected - 0.5, atol=1e-9)
    assert ((depth > 0) & (depth < 1)).all()
    order = np.argsort(image[:, 2])
    assert (np.diff(depth[order]) > 0).all()


def test_depth_is_zero_at_near_and_one_at_far():
    camera = Camera.perspective(60, (64, 32), (0, 0, 0), (0, 0, 5), near=0.5, far=8)
    _, depth = to_pixels(camera, np.array([[0, 0, 0.5], [0, 0, 8.0]]))
    np.testing.assert_allclose(depth, [0, 1], atol=1e-12)


def test_perspective_sees_up_on_top_and_the_field_of_view_at_the_border():
    camera = Camera.perspective(90, (200, 100), (0, 0, 5), (0, 0, 0))
    pixels, _ = to_pixels(camera, np.array([[0, 0, 0], [0, 5.0, 0], [1, 0, 0], [0, -5.0, 0]]))
    np.testing.assert_allclose(pixels[:2], [[100, 50], [100, 0]], atol=1e-9)
    assert pixels[2, 0] > 100 and pixels[2, 1] == pytest.approx(50)
    assert pixels[3, 1] == pytest.approx(100)
    np.testing.assert_allclose(camera.center, [0, 0, 5], atol=1e-12)
    np.testing.assert_allclose(camera.up, [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(camera.forward, [0, 0, -1], atol=1e-12)


def test_rays_go_through_pixel_centres():
    camera = Camera.perspective(40, (8, 6), (1, 2, 5), (0, 0, 0))
    origin, directions = camera.rays()
    pixels, depth = camera.project(origin + 3.0 * directions)
    np.testing.assert_allclose(depth, 3.0)
    np.testing.assert_allclose(pixels[2, 5], [5.5, 2.5])


def test_resizing_keeps_the_field_of_view():
    camera = Camera.pinhole(np.diag([300.0, 310.0, 1]) + [[0, 0, 90], [0, 0, 60], [0, 0, 0]], *look_at((0, 0, 4), (0, 0, 0), (0, 1, 0)), (200, 150))  # fmt: skip
    small = camera.resized((50, 75))
    np.testing.assert_allclose(small.project(POINTS)[0] / (50, 75), camera.project(POINTS)[0] / (200, 150))
    np.testing.assert_allclose(small.projection, camera.projection)


def test_a_sphere_looks_alike_from_both_ends_of_a_resize():
    camera = views.ring(np.zeros(3), 1.0, 1, (128, 128))[0]
    sphere = primitives.icosphere(3)
    large = masks_of(sphere.positions, sphere.faces, camera.world_to_clip[None], (128, 128))[0]
    small = masks_of(sphere.positions, sphere.faces, camera.resized((32, 64)).world_to_clip[None], (32, 64))[
        0
    ]
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
    offsets = cameras.centers - center
    np.testing.assert_allclose(np.linalg.norm(offsets, axis=1), 2.7 * radius)
    elevation = np.degrees(np.arcsin(offsets[:, 1] / (2.7 * radius)))
    np.testing.assert_allclose(elevation, [-25, 35] * 3)
    np.testing.assert_allclose(
        np.degrees(np.arctan2(offsets[:, 0], offsets[:, 2])) % 360, np.arange(6) * 60, atol=1e-9
    )
    held_out = views.held_out_ring(center, radius, (32, 32))
    offsets = held_out.centers - center
    assert len(held_out) == 12 and held_out.matrices.shape == (12, 4, 4)
    np.testing.assert_allclose(np.degrees(np.arcsin(offsets[:, 1] / 1.35)), [0, 20, -20, 45] * 3, atol=1e-9)
    np.testing.assert_allclose(
        np.degrees(np.arctan2(offsets[:, 0], offsets[:, 2])) % 360, 15 + 30 * np.arange(12), atol=1e-9
    )
    focal = 16 / np.tan(np.radians(22.5))
    assert held_out[0].intrinsics[1, 1] == pytest.approx(focal)
    for camera in (*cameras, *held_out):
        np.testing.assert_allclose(camera.project(center)[0], [16, 16])
        assert camera.up[1] > 0


def test_cameras_are_a_batch():
    cameras = views.turntable(np.zeros(3), 1.0, 5, (16, 8), up=(0, 0, 1))
    assert isinstance(cameras[1], Camera) and isinstance(cameras[[0, 3]], Cameras) and len(cameras[1:]) == 4
    np.testing.assert_allclose(cameras.matrices, cameras.projections @ cameras.views)
    assert cameras.resized((8, 8)).size == (8, 8)
    assert all(camera.up[2] > 0.9 for camera in cameras)


def test_upward_of_a_ring_of_sideways_photographs():
    sideways = [
        Camera(np.eye(3), look_at((np.cos(a), 0, np.sin(a)), (0, 0, 0), (np.sin(a), 0, -np.cos(a)))[0], np.zeros(3), (4, 4))
        for a in np.linspace(0, 5.5, 12)
    ]  # fmt: skip
    centered = [Camera(c.intrinsics, c.rotation, c.rotation @ c.forward, (4, 4)) for c in sideways]
    np.testing.assert_allclose(np.abs(views.upward(Cameras(centered))), [0, 1, 0], atol=1e-9)
    np.testing.assert_allclose(views.upward(views.turntable(np.zeros(3), 1, 8, (4, 4))), [0, 1, 0], atol=1e-9)


class TestReferenceRasterizer:
    """The oracle of other tests has cases of its own."""

    def test_weights_give_back_the_point_on_the_surface(self):
        mesh = primitives.bumpy_ellipsoid(2)
        camera = views.ring(*mesh.bounding_sphere(), 2, (40, 30))[1]
        raster = rasterize(mesh.positions, mesh.faces, camera.world_to_clip, camera.size)
        y, x = np.nonzero(raster.face >= 0)
        points = np.einsum("nk,nkd->nd", raster.weights[y, x], mesh.positions[mesh.faces[raster.face[y, x]]])
        pixels, _ = camera.project(points)
        np.testing.assert_allclose(pixels, np.stack([x, y], axis=1) + 0.5, atol=1e-9)
        normals = mesh.face_normals()[raster.face[y, x]]
        assert (
            np.einsum("nd,nd->n", normals, camera.center - points) > 0
        ).all()  # the nearest face, not the back

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
