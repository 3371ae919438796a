"""How far pictures speak for the points of a result, and the cameras in its file."""

from pathlib import Path

import numpy as np
import pytest

from dressi import DressiAD
from dressi.render.cameras import Cameras
from dressi.render.cameras.views import ring
from dressi.render.drawing.draw import draw
from dressi.render.fit.confidence import confidence, shown_confidence
from dressi.render.fit.data.dataset import Dataset, Observations
from dressi.render.fit.report import save_result
from dressi.render.formats import load_mesh, load_scene
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import icosphere


@pytest.mark.vk
def test_points_that_are_shown_alike_are_sure(device, tmp_path: Path):
    one = ring(np.zeros(3), 1.0, 2, (24, 24))[0]
    front, cameras = one.center / np.linalg.norm(one.center), Cameras([one] * 4)
    ball, behind = icosphere(2, 0.6), icosphere(1, 0.1)
    both = np.concatenate([ball.positions, behind.positions - 0.8 * front])
    mesh = Mesh(both, np.concatenate([ball.faces, behind.faces + len(ball.positions)]))

    def make_engine() -> DressiAD:
        return DressiAD(device)

    masks, colors = draw(mesh, cameras, make_engine)
    views = Observations(cameras, masks, colors)
    sure = confidence(mesh, views, colors, make_engine)
    toward = ball.positions @ front / 0.6
    assert sure[: len(toward)][toward > 0.8].min() > 0.6 and (sure[: len(toward)][toward < -0.1] == 0).all()
    assert (sure[len(toward) :] < 0.05).all(), "what is hidden is not sure"
    other = confidence(mesh, views, colors * 0.5, make_engine)
    assert (other[sure > 0.6] < 0.5 * sure[sure > 0.6]).all()
    ramp = shown_confidence(mesh, sure).colors
    assert ramp is not None and ramp[sure.argmax(), 1] > 0.5 and ramp[sure.argmin()].tolist()[1] == 0
    scene = Dataset(views, None, np.zeros(3), 1.0, ball.bounds(), np.array([0.0, 1, 0]))
    save_result(tmp_path / "result.glb", scene, mesh)
    assert len(load_scene(tmp_path / "result.glb").cameras) == len({camera.name for camera in cameras})
    np.testing.assert_allclose(load_mesh(tmp_path / "result.glb").bounds(), mesh.bounds(), atol=1e-5)
