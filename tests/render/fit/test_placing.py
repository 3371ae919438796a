"""Cameras of photographs that a calibration leaves out."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dressi.engines import default_engine
from dressi.render import Cameras, Mesh, render, ring
from dressi.render.fit.poses.placing import placed

# Irregular, so that its outlines tell every rotation from every other one.
SOLID = Mesh(
    np.array([[-0.7, -0.3, -0.3], [0.9, -0.2, -0.1], [-0.3, 0.6, -0.2], [-0.2, 0.0, 0.5]]),
    np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
    colors=np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.8, 0.1]]),
)


@pytest.mark.release
def test_a_camera_is_found_between_others_and_none_for_another_object():
    cameras = ring(np.zeros(3), 1.2, 7, (40, 40))
    known, others = Cameras(cameras.cameras[1:]), Cameras(cameras.cameras[:1] * 2)
    seen = render(SOLID, others, light=None)
    masks = np.asarray(seen.mask).copy()
    masks[1] = np.hypot(*(np.mgrid[:40, :40] - 19.5)) < 17
    # From where the pictures were taken is not known: the cameras are those of another one.
    given = Cameras([cameras.cameras[3]] * 2)
    found, none = placed(SOLID, known, given, masks, seen.colour * masks[..., None], default_engine)
    assert none is None and found is not None
    away = Rotation.from_matrix(found.rotation @ cameras.cameras[0].rotation.T).magnitude()
    assert np.degrees(away) < 2.5
    assert np.linalg.norm(found.center - cameras.cameras[0].center) < 0.15
    assert (found.intrinsics == cameras.cameras[3].intrinsics).all()
