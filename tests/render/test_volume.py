"""Meshes to fields and back, with fewer faces, and holes that masks show opened; against shapes whose topology is known."""

import numpy as np
import pytest

from dressi.render import primitives
from dressi.render.camera import Cameras
from dressi.render.decimate import decimate, decimate_closed
from dressi.render.fit.openings import holes, opened
from dressi.render.mesh import Mesh
from dressi.render.views import ring
from dressi.render.volume import Grid, level_set, signed_distances, winding_numbers

BOX = np.array([[-1.2, -1.2, -1.2], [1.2, 1.2, 1.2]])


def both(first: Mesh, second: Mesh) -> Mesh:
    positions = np.concatenate([first.positions, second.positions])
    return Mesh(positions, np.concatenate([first.faces, second.faces + len(first.positions)]))


def test_winding_numbers_count_surfaces():
    ball = primitives.icosphere(3, 0.5)
    grid = Grid.around(BOX, 24)
    far = np.linalg.norm(grid.points(), axis=-1)
    inside = winding_numbers(ball, grid)
    assert (inside[far < 0.49] == 1).all() and (inside[far > 0.5] == 0).all()
    nested = winding_numbers(both(ball, primitives.icosphere(3)), grid)
    assert (nested[far < 0.49] == 2).all() and (nested[(far > 0.5) & (far < 0.98)] == 1).all()
    inverted = winding_numbers(Mesh(ball.positions, ball.faces[:, ::-1]), grid)
    np.testing.assert_array_equal(inverted, -inside)


def test_distances_are_those_of_the_shape():
    grid = Grid.around(BOX, 24)
    found = signed_distances(primitives.icosphere(4), grid)
    truth = 1 - np.linalg.norm(grid.points(), axis=-1)
    most = 3 * grid.step
    assert np.abs(found - np.clip(truth, -most, most)).max() < 0.1 * grid.step
    assert np.abs(found).max() == pytest.approx(most)


@pytest.mark.parametrize("mesh", [primitives.torus(48, 24), primitives.bumpy_ellipsoid(3)])
def test_a_level_set_is_the_shape_again(mesh: Mesh):
    grid = Grid.around(mesh.bounds(), 40)
    found = level_set(signed_distances(mesh, grid), grid)
    assert found.is_closed() and found.euler_characteristic() == mesh.euler_characteristic()
    assert found.signed_volume() == pytest.approx(mesh.signed_volume(), rel=0.01)


def test_crumbs_are_left_out_of_a_level_set():
    grid = Grid.around(BOX, 40)
    away = grid.points() - (0.9, 0.9, 0.9)
    field = np.maximum(0.7 - np.linalg.norm(grid.points(), axis=-1), 0.1 - np.linalg.norm(away, axis=-1))
    assert level_set(field, grid).positions.max() < 0.75
    assert level_set(field, grid, least=1e-4).positions.max() > 0.9


def test_closed_meshes_stay_closed_with_fewer_faces():
    grid = Grid.around(primitives.torus().bounds(), 48)
    fine = level_set(signed_distances(primitives.torus(48, 24), grid), grid)
    for faces in (200, 1000):
        found = decimate_closed(fine, faces)
        assert found.is_closed() and found.euler_characteristic() == 0
        assert faces <= len(found.faces) <= 4 * faces
        assert found.signed_volume() == pytest.approx(fine.signed_volume(), rel=0.05)
    few = decimate_closed(primitives.cube(), 100)
    np.testing.assert_array_equal(few.faces, primitives.cube().faces)
    assert len(decimate(fine, 400).faces) <= 400


# ---------------------------------------------------------------------------- holes of masks


def disc(radius: float, hole: float, at: float = 0.0) -> np.ndarray:
    y, x = np.mgrid[:64, :64] - 31.5
    away = np.hypot(x - at, y)
    return ((np.hypot(x, y) < radius) & (away >= hole)).astype(np.float32)


def test_holes_are_large_and_known():
    mask = disc(25, 8)
    assert holes(mask).sum() == (disc(25, 0) - mask).sum()
    assert not holes(disc(25, 2)).any()  # less than one hundredth
    assert not holes(disc(25, 8, at=20.0)).any()  # a bay, not a hole
    known = np.ones(mask.shape, dtype=bool)
    known[32, 32] = False
    assert not holes(mask, known).any()
    assert not holes(np.zeros((8, 8))).any()


def torus_views(count: int) -> tuple[Cameras, np.ndarray]:
    """A standing torus, seen from around: the first views look through it."""
    mesh = primitives.torus(64, 32)
    upright = mesh.moved(mesh.positions[:, [0, 2, 1]] * (1, -1, 1))
    if upright.signed_volume() < 0:
        upright = Mesh(upright.positions, upright.faces[:, ::-1])
    cameras = ring(np.zeros(3), float(np.abs(upright.positions).max()), count, (64, 64))
    return cameras, masks_of(upright, cameras)


def masks_of(mesh: Mesh, cameras: Cameras) -> np.ndarray:
    """(N, H, W) by points inside of the mesh, so dense that no pixel is left out."""
    grid = Grid.around(mesh.bounds(), 110)
    points = grid.points()[winding_numbers(mesh, grid) > 0]
    masks = np.zeros((len(cameras), 64, 64), dtype=np.float32)
    for mask, camera in zip(masks, cameras, strict=True):
        x, y = np.floor(camera.project(points)[0]).astype(int).T
        mask[y, x] = 1
    return masks


@pytest.fixture(scope="module")
def torus_seen() -> tuple[Cameras, np.ndarray]:
    return torus_views(8)


def test_a_ball_becomes_a_ring_where_pictures_see_through_it(torus_seen):
    cameras, masks = torus_seen
    through = [holes(mask).any() for mask in masks]
    assert 2 <= sum(through) < len(masks)
    bounds = primitives.torus().bounds()[:, [0, 2, 1]]
    ball = primitives.octasphere(3, 1.0)
    ball = ball.moved(ball.positions * (bounds[1] - bounds[0]) / 2)
    found = opened(ball, cameras.matrices, masks)
    assert found is not None and found.is_closed() and found.euler_characteristic() == 0
    assert found.uvs is not None and len(found.faces) < 2 * len(ball.faces)
    assert not winding_numbers(found, Grid(np.full(3, -0.02), 0.02, (3, 3, 3))).any()  # the middle is free
    # It is as it should be now, and stays.
    assert opened(found, cameras.matrices, masks) is None
    # A hole in a single mask may be a mistake.
    one = np.where(np.arange(len(masks))[:, None, None] == np.argmax(through), masks, hull_of(masks))
    assert opened(ball, cameras.matrices, one) is None


def hull_of(masks: np.ndarray) -> np.ndarray:
    return np.stack([np.maximum(mask, holes(mask)) for mask in masks])


def test_meshes_without_holes_to_open_stay(torus_seen):
    cameras, masks = torus_seen
    ball = primitives.icosphere(3, 0.5)
    assert opened(ball, cameras.matrices, hull_of(masks)) is None
    assert opened(Mesh(ball.positions, ball.faces[1:]), cameras.matrices, masks) is None
