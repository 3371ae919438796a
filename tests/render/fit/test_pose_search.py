"""The search of a pose from any start."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dressi.errors import InputError
from dressi.render import Camera, Mesh, render, ring
from dressi.render.fit import find_pose

# Irregular, so that its outlines tell every rotation from every other one.
SOLID = Mesh(
    np.array([[-0.7, -0.3, -0.3], [0.9, -0.2, -0.1], [-0.3, 0.6, -0.2], [-0.2, 0.0, 0.5]]),
    np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
)
COLOURS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.8, 0.1]])


@pytest.mark.release
def test_a_solid_is_found_after_half_a_turn_and_a_shift():
    cameras = ring(np.zeros(3), 1.2, 2, (40, 40))
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_rotvec([1.0, 2.1, -0.7]).as_matrix()
    motion[:3, 3] = 0.1, -0.12, 0.08
    seen = render(SOLID, cameras, to_world=motion, colours=COLOURS, light=None)
    found = find_pose(
        SOLID, cameras, seen.mask, seen.colour, vertex_colours=COLOURS, descents=(4, 1)
    )  # fmt: skip
    away = Rotation.from_matrix(found.to_world[:3, :3] @ motion[:3, :3].T).magnitude()
    assert np.degrees(away) < 2.5
    assert np.abs(found.to_world[:3, 3] - motion[:3, 3]).max() < 0.03
    assert found.iou > 0.97
    assert found.scores.shape == (60,) and np.isfinite(found.scores).all() and found.descents.shape == (1,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"masks": np.ones((2, 8, 8))}, "masks of shape"),
        ({"masks": np.zeros((1, 8, 8))}, "cover no pixel"),
        ({"colours": np.ones((1, 8, 9, 3))}, "colours beside masks"),
        ({"rotations": np.eye(3)}, "rotations to start from"),
        ({"starts": np.eye(4)}, "motions to start from"),
        ({"starts": np.eye(4)[None], "descents": (6, 2)}, "one number"),
        ({"descents": (0, 1)}, "descents"),
    ],
)
def test_bad_input_is_named(given, message):
    camera = Camera.perspective(45, (8, 8), (0, 0, 5), (0, 0, 0))
    with pytest.raises(InputError, match=message):
        find_pose(SOLID, camera, **({"masks": np.ones((1, 8, 8))} | given))
