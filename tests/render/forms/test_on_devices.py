"""HardSoftRas and every Function of the renderer on every driver."""

import numpy as np
import pytest
import soft_cases as sc
from render_examples import EXAMPLES
from test_texturing import SIDES, check_texture_gradient

from dressi import DressiAD
from dressi.ad.evaluate import evaluate
from dressi.render.cameras import Camera, Cameras
from dressi.render.drawing.draw import draw
from dressi.render.drawing.entry import render
from dressi.render.mesh import Mesh

pytestmark = pytest.mark.vk
CASES = sc.cases()


@pytest.mark.every_driver
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.second_driver("acute-1", "open-2", "sphere-3", "overlapping-2")
def test_images_are_those_of_brute_force(run, name, layers):
    sc.check_images(run, CASES[name], layers)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.second_driver("overlapping", "obtuse")
def test_gradient_is_that_of_the_frozen_picture(run, name):
    sc.check_gradient(run, CASES[name], 3)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_meaning(run, kind):
    outputs = [build().output for build in EXAMPLES[kind]]
    for found, truth in zip(run(outputs), evaluate(outputs), strict=True):
        assert np.abs(found - truth).max() <= 1e-5 * np.abs(truth).max()


def test_gradient_repeats_bit_for_bit(run):
    case = CASES["sphere"]
    first, second = (run([sc.soft(case)[1].silhouette])[0] for _ in range(2))
    assert (first == second).all()
    slopes = [run(sc.silhouette_gradient(case))[0] for _ in range(2)]
    assert slopes[0].any() and (slopes[0] == slopes[1]).all()


@pytest.mark.release
@pytest.mark.one_driver
def test_derivative_of_the_rerendered_loss_on_a_bumpy_ellipsoid(run):
    mesh, camera = sc.bumpy_ellipsoid(), sc.camera(20, 25)
    assert sc.worst(sc.rerendered(run, *mesh, camera, pixels=5, layers=3, side=128)) <= 0.05


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.second_driver("24")
def test_exact_texture_gradient(run, side):
    check_texture_gradient(run, side)


def test_vertex_colours_are_drawn_as_they_are(device):
    """Both ways to draw a mesh show colours that differ on the two sides of an edge, times the colour of the mesh."""
    square = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    mesh = Mesh(
        square,
        [[0, 1, 2], [0, 2, 3]],
        colors=np.eye(3)[:2],
        color_faces=[[0, 0, 0], [1, 1, 1]],
        color=(0.5, 1.0, 1.0),
    )
    camera = Camera.perspective(40, (16, 16), (0, 0, 4), (0, 0, 0))
    _, colors = draw(mesh, Cameras([camera]), lambda: DressiAD(device))
    for picture in (colors[0], render(mesh, camera, light=None).colour):
        # Two pixels off the edge, whose own may go to either face.
        np.testing.assert_allclose(picture[11, 9], [0.5, 0, 0], atol=1e-5)
        np.testing.assert_allclose(picture[5, 7], [0, 1, 0], atol=1e-5)
