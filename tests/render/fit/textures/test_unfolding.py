"""Folds are undone while shape and texture are optimised together, so that the texture is that of a shape without them."""

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad.types import list_image, list_values
from dressi.render.cameras.views import ring
from dressi.render.fit.graphs.round import start
from dressi.render.fit.phases.texture import UNFOLD, TextureRound
from dressi.render.fit.textures.charts import with_charts
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.primitives import octasphere

SIZE = (24, 20)


@pytest.mark.release
@pytest.mark.vk
@pytest.mark.parametrize("kept", [False, True])
def test_the_texture_follows_a_shape_without_folds(device, kept):
    ball = with_charts(octasphere(2, 0.7), 32)
    cameras = ring(np.zeros(3), 1.0, 3, SIZE)
    pictures = np.ones((3, *SIZE[::-1])), np.full((3, *SIZE[::-1], 3), 0.5)
    work = TextureRound(
        ball, cameras.matrices, *pictures, steps=2, texture_size=32, gradient="exact", seed=0, shape=True,
        rest=ball.positions if kept else None,
    )  # fmt: skip
    bent = ball.positions.copy()
    bent[int(np.argmax(bent[:, 2]))] *= -1.5
    folded = ball.moved(bent)
    assert check_surface(folded).self_intersecting > 0
    engine = DressiAD(device)

    def points() -> np.ndarray:
        return list_values(engine.state()["position"], len(bent))[0]

    try:
        start(engine, work)
        engine.send(work.position, list_image(bent))
        work.before(engine, UNFOLD - 1)
        np.testing.assert_allclose(points(), bent, atol=1e-6)
        work.before(engine, UNFOLD)
        # The faces of a mesh that was given stay as they are.
        assert (check_surface(ball.moved(points())).self_intersecting > 0) == kept
        assert kept or np.array_equal(points(), work.mesh.positions.astype(np.float32))
        engine.step(2)
        assert work.found(engine).mesh.uvs is ball.uvs
    finally:
        engine.close()
