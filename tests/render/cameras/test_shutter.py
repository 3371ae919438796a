"""Depth of field, motion blur and rolling shutter, against pictures of single cameras."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import F, InputError, Variable, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render import primitives, render
from dressi.render.cameras.camera import Camera, Cameras
from dressi.render.cameras.lens import Lens
from dressi.render.cameras.rigid import exp_se3
from dressi.render.cameras.shutter import GOLDEN, exposure, rolling_shutter, sample_times

pytestmark = pytest.mark.usefixtures("engines")

BALL = primitives.icosphere(3)
CAMERA = Camera.perspective(45, (48, 36), (0.6, 0.3, 4.0), (0.1, 0, 0))
TWIST = np.array([0.02, 0.1, -0.03]), np.array([0.15, 0.1, 0.05])
END = exp_se3(*TWIST) @ CAMERA.view
START = 0.3, 3.0, 1.0
FLAT = {"light": None, "form": "edges"}


def at(time: float) -> Camera:
    return CAMERA.with_view(exp_se3(TWIST[0] * time, TWIST[1] * time) @ CAMERA.view)


def test_an_opening_is_the_mean_of_cameras_that_look_at_the_sharp_plane():
    aperture, focus, count = 0.3, 3.0, 6
    cameras = []
    for k in range(count):
        radius, angle = aperture * np.sqrt((k + 0.5) / count), (k + 0.5) * GOLDEN
        place = np.array([np.cos(angle), np.sin(angle), 0.0]) * radius
        moved = CAMERA.intrinsics.copy()
        moved[:2, 2] += np.diag(moved)[:2] * place[:2] / focus
        cameras.append(replace(CAMERA, translation=CAMERA.translation - place, intrinsics=moved))
    single = render(BALL, Cameras(cameras), **FLAT)
    blurred = render(BALL, exposure(CAMERA, aperture=aperture, focus=focus, samples=count), **FLAT)
    assert blurred.colour.shape == (36, 48, 3) and ((blurred.mask > 0.05) & (blurred.mask < 0.95)).sum() > 80
    assert_allclose(blurred.mask, single.mask.mean(0), atol=2e-4)
    assert_allclose(blurred.colour, single.colour.mean(0), atol=2e-4)


def test_motion_is_the_mean_of_cameras_on_the_way():
    blurred = render(BALL, exposure(CAMERA, end=END, samples=5), **FLAT)
    single = render(BALL, Cameras([at(t) for t in sample_times(5)]), **FLAT)
    assert_allclose(blurred.mask, single.mask.mean(0), atol=2e-4)
    assert sorted(sample_times(5)) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])


def test_rows_have_their_own_pose():
    lens = Lens(k1=-0.15)
    found = render(BALL, rolling_shutter(CAMERA.with_lens(lens), END), **FLAT)
    rows = [at((k + 0.5) / 36).with_lens(lens) for k in range(36)]
    pictures = render(BALL, Cameras(rows), **FLAT).mask
    expected = pictures[np.arange(36), np.arange(36)]
    assert np.abs(pictures[0] - expected).mean() > 0.02
    assert (
        np.abs(found.mask - expected).mean() < 1e-3
        and np.quantile(np.abs(found.mask - expected), 0.998) < 0.1
    )


@pytest.mark.one_driver
def test_exposures_have_derivatives():
    """By the opening, the sharp plane and the motion: of vertices exactly, of pictures near differences."""
    aperture, focus, turn = (Variable.of([[x]]) for x in START)

    def end(turn: Any) -> Any:
        return F.matmul(
            exp_se3(F.vec3(*(x * turn for x in TWIST[0])), F.constant(TWIST[1])), F.constant(CAMERA.view)
        )

    leaves = [aperture, focus, turn]
    views = exposure(CAMERA, aperture=aperture, focus=focus, end=end(turn), samples=4)
    blurred, rolled = (render(BALL, given, **FLAT) for given in (views, rolling_shutter(CAMERA, end(turn))))
    for picture, given in ((blurred, leaves), (rolled, leaves[2:])):
        assert check_gradient(picture.view.clip.xy / picture.view.clip.w, given) < 1e-5
    behind = Variable.of(np.fromfunction(lambda y, x: np.sin(0.2 * x) * np.cos(0.3 * y), (36, 48)))
    loss = F.mean(F.square(blurred.mask - behind))
    for leaf, at, slope in zip(leaves, START, evaluate(gradient(loss, leaves)), strict=True):
        ends = [evaluate([loss], {leaf: np.full((1, 1, 1), x * at)})[0].item() for x in (0.95, 1.05)]
        assert slope.item() == pytest.approx((ends[1] - ends[0]) / (0.1 * at), rel=0.12)


@pytest.mark.one_driver
def test_shutters_that_no_camera_has():
    for make, words in (
        (lambda: exposure(CAMERA, aperture=0.1), "give focus="),
        (lambda: exposure(CAMERA, aperture=-0.1, focus=1.0), "aperture is a number from 0 on"),
        (lambda: exposure(CAMERA, samples=0), "1 to 1024 samples, not 0"),
        (lambda: rolling_shutter(CAMERA, END, keys=1), "2 to 64 poses, not 1"),
        (lambda: exposure(CAMERA, end=END.T), "translation in the last row"),
    ):
        with pytest.raises(InputError, match=words):
            make()
