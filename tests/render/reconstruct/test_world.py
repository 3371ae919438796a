"""Up, ground and unit of a reconstruction."""

import numpy as np
import pytest

from dressi.render.cameras import views
from dressi.render.cameras.rotations import axis_angle_to_matrix
from dressi.render.reconstruct.world import guess_world


@pytest.mark.parametrize("ground", [False, True])
def test_the_world_is_put_upright(ground):
    """A ring of cameras that look down at an object, all turned somehow; half of the photographs are stored sideways."""
    rng = np.random.default_rng(0)
    cameras = views.orbit(np.zeros(3), 1.0, np.arange(0, 160, 20), np.full(8, 40.0), (32, 24))
    turn = np.asarray(axis_angle_to_matrix(np.array([0.4, 1.0, -0.7])))
    sideways = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    turned = np.where((np.arange(8) % 2)[:, None, None], sideways, np.eye(3))
    ups = np.where((np.arange(8) % 2)[:, None], (-1.0, 0, 0), (0.0, -1, 0))
    points = rng.normal(0, 0.3, (100, 3))
    if ground:
        plane = rng.uniform(-2, 2, (200, 3))
        plane[:, 1] = -0.5 + rng.normal(0, 0.002, 200)
        points = np.concatenate([np.maximum(points, (-9, -0.5, -9)), plane])
    rotations = turned @ np.stack([camera.rotation for camera in cameras]) @ turn.T
    world = guess_world(3 * cameras.centers @ turn.T + 5, rotations, ups, 3 * points @ turn.T + 5)
    assert (world.rotation @ turn)[1] == pytest.approx([0, 1, 0], abs=0.02)
    assert ("ground" in world.said) == ground
    found = world.scale * (3 * points @ turn.T + 5) @ world.rotation.T + world.translation
    assert np.linalg.norm(found - found.mean(0), axis=1).mean() == pytest.approx(
        np.linalg.norm(points - points.mean(0), axis=1).mean(), rel=0.02
    )
    if ground:
        assert np.median(found[100:, 1]) == pytest.approx(0, abs=0.01)
