"""Shadows of transparent nodes: as dark as what they let pass, and differentiable in it."""

import numpy as np
import pytest

from dressi import F, Variable
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.types import FLOAT
from dressi.render import Camera, DirectionalLight, Mesh, Node, Scene, Shadow, render
from dressi.render.mesh import Material

SUN = np.array([0.5, 1.0, 0.2])
CAMERA = Camera.perspective(40, (40, 40), (1.5, 4, 4), (0, 0, 0))
SQUARE = np.array([(-0.5, 0, -0.5), (0.5, 0, -0.5), (0.5, 0, 0.5), (-0.5, 0, 0.5)])
FACES = np.array([(0, 2, 1), (0, 3, 2)])
UVS = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], float)
FLOOR = Mesh(SQUARE * 4, FACES)


def pane(height: float, alpha: Variable) -> Node:
    material = Material(alpha=np.full((1, 1), 0.5), alpha_mode="blend")
    mesh = Mesh(SQUARE + (0, height, 0), FACES, uvs=UVS, uv_faces=FACES, material=material, name="pane")
    return Node(mesh, {"alpha": alpha})


def pictures(heights: tuple[float, ...], values: tuple[float, ...]):
    """(alphas, the picture with the sun's shadows and without)."""
    alphas = [Variable(FLOAT, name=f"alpha {k}", data=[[[v]]]) for k, v in enumerate(values)]
    scene = Scene([Node(FLOOR), *(pane(h, a) for h, a in zip(heights, alphas, strict=True))])
    given = {"form": "hard", "smooth": False, "transparency": 2}
    return alphas, *(
        render(scene, CAMERA, light=DirectionalLight(SUN, 3.0, shadow), **given)
        for shadow in (Shadow(128), None)
    )


def check_shadows(run) -> None:
    """Of two panes, one above the other, away from the borders of their shadows."""
    heights, values = (1.0, 0.6), (0.6, 0.3)
    _, shaded, plain = pictures(heights, values)
    dark, lit, point, node = (
        image[0] for image in run([shaded.colour, plain.colour, shaded.point, shaded.node])
    )
    expected, sharp = np.ones(node.shape), node == 0
    for height, value in zip(heights, values, strict=True):
        away = np.abs(point + SUN * (height - point[..., 1:2]))[..., [0, 2]].max(-1)
        expected *= np.where(away < 0.5, 1 - value, 1)
        sharp &= np.abs(away - 0.5) > 0.08
    assert {0.28, 0.4, 1.0} <= set(expected[sharp].round(2))
    ratio = (dark / np.maximum(lit, 1e-9))[sharp]
    assert np.abs(ratio - expected[sharp][:, None]).max() < 0.02


def test_shadows_are_as_dark_as_what_passes():
    check_shadows(evaluate)


@pytest.mark.vk
@pytest.mark.one_driver
def test_shadows_on_devices(run):
    check_shadows(run)


def test_gradient_by_alpha():
    alphas, shaded, _ = pictures((1.0, 0.6), (0.6, 0.3))
    assert check_gradient(F.mean(shaded.colour), alphas) < 1e-4
