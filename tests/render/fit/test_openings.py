"""Holes that pictures see through are opened, and nothing else is; a torus seen from around is what there is to find."""

from typing import Any

import numpy as np
import pytest

from dressi import DressiAD
from dressi.render.cameras import Cameras
from dressi.render.cameras.views import ring
from dressi.render.fit import FitJob, FitOptions, FitResult, mesh_dataset
from dressi.render.fit.phases import openings
from dressi.render.fit.phases.openings import holes, opened
from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.remesh.volume import Grid, winding_numbers


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


def standing_torus(around: int, across: int) -> Mesh:
    mesh = primitives.torus(around, across)
    return mesh.moved(mesh.positions[:, [0, 2, 1]] * (1, -1, 1))


def torus_views(count: int) -> tuple[Cameras, np.ndarray]:
    """The torus from around: some views look through it."""
    upright = standing_torus(64, 32)
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


@pytest.fixture(scope="module")
def ring_fit(device, tmp_path_factory: pytest.TempPathFactory):
    """What runs a fit, always in the same folder, and the result of its first run."""
    options = FitOptions(
        size=(40, 40), views=6, steps=60, texture_size=16, colours=False, joint=False, start="sphere"
    )
    scene = mesh_dataset(standing_torus(32, 16), 6, (40, 40), lambda: DressiAD(device))
    folder = tmp_path_factory.mktemp("ring")

    def run(**how: Any) -> FitResult:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(openings, "CELLS", 32)
            return FitJob(scene, options, lambda: DressiAD(device), folder=folder).run(**how)

    return run, run()


@pytest.mark.vk
def test_a_fit_finds_the_ring(ring_fit):
    _, whole = ring_fit
    assert check_surface(whole.mesh).handles == 1


@pytest.mark.release
@pytest.mark.vk
def test_a_fit_goes_on_after_it_found_the_ring(ring_fit):
    run, whole = ring_fit
    # The last round of the shape has begun, on the mesh that was opened.
    calls = []
    part = run(progress=calls.append, stop=lambda: len(calls) >= 7)
    assert not part.finished and check_surface(part.mesh).handles == 1
    rest = run(resume=True)
    np.testing.assert_array_equal(rest.mesh.positions, whole.mesh.positions)
    np.testing.assert_array_equal(rest.mesh.faces, whole.mesh.faces)
    np.testing.assert_array_equal(rest.mesh.texture, whole.mesh.texture)
