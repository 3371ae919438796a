"""Bundle adjustment: its derivatives, its light, and poses and shape that it finds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from dressi import DressiAD
from dressi.render import Camera
from dressi.render.cameras import Cameras
from dressi.render.cameras.alignment import pose_errors
from dressi.render.cameras.pose import turned
from dressi.render.cameras.units import unit_cameras
from dressi.render.fit import mesh_dataset
from dressi.render.fit.bundle.adjust import Pictures, adjusted, inner_edges, solve
from dressi.render.fit.bundle.light import shades
from dressi.render.fit.bundle.pinhole import projected
from dressi.render.fit.bundle.terms import Samples, colours_alike, outlines_alike
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import octasphere

SIZE = (48, 40)
ORIGIN = np.zeros(3)


def camera(eye: tuple[float, float, float]) -> Camera:
    found = Camera.perspective(40, SIZE, eye, (0, 0, 0))
    skew = np.array([[0, 1.5, 0.7], [0, 0, -0.4], [0, 0, 0]])
    return replace(found, intrinsics=found.intrinsics + skew)


CAMERAS = Cameras([camera((0.2, 0.4, 4.0)), camera((1.6, 0.1, 3.6)), camera((-1.5, 0.5, 3.5))])


def wave(k: int) -> np.ndarray:
    """A picture that bends little from pixel to pixel."""
    y, x = np.mgrid[: SIZE[1], : SIZE[0]]
    return 0.5 + 0.2 * np.sin(0.07 * x + k) + 0.2 * np.cos(0.06 * y - 0.03 * x)


def test_slopes_meet_central_differences():
    points, image = np.random.default_rng(0).normal(size=(40, 3)) * 0.3, wave(0)
    steep, by_pose, by_point = projected(CAMERAS[1], points).slopes(image)
    assert 0.005 < steep.max() < 0.02
    step = 0.05
    for k, direction in enumerate(np.eye(6)):
        low, high = (
            projected(turned(CAMERAS[1], s * step * direction[:3], s * step * direction[3:], ORIGIN), points)
            for s in (-1, 1)
        )
        expected = (high.look_up(image) - low.look_up(image)) / (2 * step)
        np.testing.assert_allclose(by_pose[:, k], expected, atol=0.05 * np.abs(by_pose[:, k]).max())
    for k, direction in enumerate(np.eye(3)):
        low, high = (projected(CAMERAS[1], points + s * step * direction) for s in (-1, 1))
        expected = (high.look_up(image) - low.look_up(image)) / (2 * step)
        np.testing.assert_allclose(by_point[:, k], expected, atol=0.05 * np.abs(by_point[:, k]).max())


def test_places_are_those_of_the_camera():
    points = np.random.default_rng(1).normal(size=(9, 3)) * 0.5
    seen = projected(CAMERAS[2], points)
    place, depth = CAMERAS[2].project(points)
    np.testing.assert_allclose(seen.place, place)
    np.testing.assert_allclose(seen.at[:, 2], depth)
    far = projected(CAMERAS[2], np.array([[0.0, 0, 0], [0, 0, 90], [50, 0, 0]]))
    assert far.inside(3).tolist() == [True, False, False]


def moved(mesh: Mesh, moves: np.ndarray) -> tuple[Mesh, Cameras]:
    """The mesh and the cameras after moves of all unknowns."""
    poses = moves[: 6 * len(CAMERAS)].reshape(-1, 6)
    cameras = [turned(c, m[:3], m[3:], ORIGIN) for c, m in zip(CAMERAS, poses, strict=True)]
    heights = moves[6 * len(CAMERAS) :, None]
    return mesh.moved(mesh.positions + heights * mesh.vertex_normals()), Cameras(cameras)


def test_colours_pull_as_their_squares_fall(monkeypatch: pytest.MonkeyPatch):
    # One light and equal weights: both are held fixed in the derivative.
    monkeypatch.setattr("dressi.render.fit.bundle.terms.shades", lambda *a: np.ones(len(a[3])))
    mesh, codes = octasphere(2), np.stack([wave(k) for k in range(3)])
    samples = Samples(mesh, 128)

    def squares(mesh: Mesh, cameras: Cameras) -> tuple[np.ndarray, float]:
        front = np.flatnonzero(samples.of(mesh.positions)[:, 2] > 0.6)
        seen = [
            (front, projected(c, samples.of(mesh.positions)[front]), np.ones(len(front))) for c in cameras
        ]
        equations = colours_alike(mesh, samples, seen, codes)
        values = np.stack([there.look_up(code) for (_, there, _), code in zip(seen, codes, strict=True)])
        return equations.right * 1e6, float(((values - values.mean(0)) ** 2).sum())

    # Noise far above the residuals: all have one weight.
    monkeypatch.setattr("dressi.render.fit.bundle.terms.LEAST_NOISE", 1e3)
    right, _ = squares(mesh, CAMERAS)
    poses = np.arange(len(right)) < 6 * len(CAMERAS)
    for part in (poses, ~poses):
        way = right * part * (2e-3 / np.abs(right * part).max())
        low, high = (squares(*moved(mesh, sign * way))[1] for sign in (-1, 1))
        assert right @ way == pytest.approx((high - low) / 4, rel=0.03)


def test_outlines_pull_as_their_squares_fall(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dressi.render.fit.bundle.terms.SOFT", 1e6)
    mesh = octasphere(3)
    y, x = np.mgrid[: SIZE[1], : SIZE[0]]
    masks = np.stack([np.hypot(x - 24 - k, y - 20) - 13 for k in range(3)])
    first = outlines_alike(mesh, CAMERAS, inner_edges(mesh), np.zeros_like(masks), masks)
    assert 0.1 < first.error < 6
    stiff = sparse.csc_array(sparse.eye_array(len(mesh.positions)) * 100)
    nearer, cameras = moved(mesh, -solve(first.matrix, stiff, first.right, 6 * len(CAMERAS)))
    after = outlines_alike(nearer, cameras, inner_edges(mesh), np.zeros_like(masks), masks)
    assert after.error < 0.3 * first.error


def test_the_light_of_a_view_is_told_from_the_colours():
    rng = np.random.default_rng(0)
    normals = octasphere(2).vertex_normals()
    colour, point = rng.uniform(0.3, 0.7, len(normals)), np.tile(np.arange(len(normals)), 3)
    view = np.repeat(np.arange(3), len(normals))
    lights = np.array([[0.2, 0, 0], [0, -0.3, 0], [-0.2, 0.3, 0]])
    factor = 1 + (normals[point] * lights[view]).sum(1)
    found = shades(normals, point, view, colour[point] * factor)
    even = np.stack(np.split(colour[point] * factor / found, 3))
    assert np.abs(even - even.mean(0)).max() < 0.002
    assert np.abs(factor * colour[point] - colour[point]).max() > 0.1


def test_poses_are_eliminated_rightly():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 20)) * (rng.random((60, 20)) < 0.4)
    matrix, stiff, right = rows.T @ rows, np.diag(rng.uniform(1, 2, 14)), rng.normal(size=20)
    found = solve(sparse.csc_array(matrix), sparse.csc_array(stiff), right, 6)
    whole = matrix.copy()
    whole[6:, 6:] += stiff
    whole += np.diag(1e-4 * np.diag(matrix) + 1e-6 * np.diag(matrix).max())
    np.testing.assert_allclose(whole @ found, right, atol=1e-9)


def test_edges_between_faces():
    mesh = octasphere(1)
    ends, faces = inner_edges(mesh)
    assert len(ends) == len(mesh.faces) * 3 // 2
    for pair, beside in zip(ends, faces, strict=True):
        assert all(set(pair) <= set(mesh.faces[face]) for face in beside) and beside[0] != beside[1]
    assert len(inner_edges(Mesh(mesh.positions[:3], np.array([[0, 1, 2]])))[0]) == 0


def test_unknown_pixels_are_not_compared():
    y, x = np.mgrid[:40, :48]
    masks = np.hypot(x - 24, y - 20)[None] < 12
    known = np.broadcast_to(x[None] < 30, masks.shape)
    found = Pictures.of((masks & known).astype(float), masks[..., None] * np.full(3, 0.5), known, SIZE)
    assert not found.masks[0, :, 30:].any() and found.masks[0, 20, 28]
    assert (found.distances[0, :, 24:] == 1e3).all() and (np.abs(found.distances[0, :, 3:22]) < 20).all()


@pytest.mark.release
@pytest.mark.vk
def test_shape_and_poses_are_found_from_colours(device):
    def make_engine() -> DressiAD:
        return DressiAD(device)

    target = checked()
    scene = mesh_dataset(target, 8, (64, 64), make_engine)
    train, rng = scene.train, np.random.default_rng(0)
    truth = unit_cameras(train.cameras, scene.center, scene.radius)
    ways = rng.normal(size=(8, 2, 3))
    ways /= np.linalg.norm(ways, axis=2, keepdims=True)
    wrong = Cameras(
        [
            turned(c, np.radians(3) * axis, 0.04 * shift, ORIGIN)
            for c, (axis, shift) in zip(truth, ways, strict=True)
        ]
    )
    shape = scene.to_unit(Mesh(target.positions, target.faces))
    given = shape.moved(shape.positions * (1.02, 0.98, 1.0))
    arguments = (train.masks, train.colors, None, make_engine)
    found = adjusted(given, wrong, *arguments)
    assert found is not None
    before, after = (pose_errors(cameras, truth).degrees.mean() for cameras in (wrong, found[1]))
    assert before > 2.5 and after < 0.35 * before
    assert adjusted(given, wrong, *arguments, stop=lambda: True) is None
    two = Cameras(list(wrong)[:2])
    assert adjusted(given, two, train.masks[:2], train.colors[:2], None, make_engine) == (given, two)


def checked() -> Mesh:
    """An ellipsoid with a texture of waves."""
    mesh = octasphere(3)
    assert mesh.uvs is not None
    y, x = np.mgrid[:64, :64] / 64
    grey = 0.4 + 0.3 * np.sin(37 * x + 9 * np.sin(11 * y)) * np.cos(31 * y)
    found = replace(mesh, positions=mesh.positions * (1.0, 0.7, 0.8))
    found.texture = np.repeat(grey[..., None], 3, axis=2)
    return found
