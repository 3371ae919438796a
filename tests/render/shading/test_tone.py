"""Pictures saved by the name of what is stored."""

import sys

import numpy as np
import pytest

from dressi import VEC3, InputError, Variable
from dressi.ad.check import check_gradient
from dressi.render import Camera, DirectionalLight, primitives, render
from dressi.render.io.images import load_image
from dressi.render.shading.tone import PRIMARIES, displayed, displayed_array

CAMERA = Camera.perspective(40, (16, 12), (0, 0, 4), (0, 0, 0))


@pytest.fixture(scope="module")
def picture():
    return render(primitives.icosphere(1), CAMERA, light=DirectionalLight((0, 0, 1), (9.0, 3.0, 1.0)))


@pytest.mark.parametrize("tone", ["srgb", "aces", "reinhard", "raw"])
def test_sixteen_bits_hold_what_a_display_shows(picture, tone, tmp_path):
    picture.save(tmp_path / "a.png", tone, stops=-1.0, bits=16)
    wanted = np.clip(displayed_array(picture.colour, tone, -1.0), 0, 1)
    assert np.abs(load_image(tmp_path / "a.png", linear=False) - wanted).max() < 1e-4
    assert picture.colour.max() > 1 and 0.5 < wanted.max() <= 1


@pytest.mark.parametrize("tone", ["linear", "acescg", "aces2065-1", "raw"])
def test_exr_holds_light_without_an_end(picture, tone, tmp_path):
    picture.save(tmp_path / "a.exr", tone, bits=32)
    rows = np.array(PRIMARIES.get(tone, np.eye(3)))
    assert np.allclose(load_image(tmp_path / "a.exr"), picture.colour @ rows.T, atol=1e-5)


def test_white_stays_white_and_primaries_have_an_inverse():
    for rows in PRIMARIES.values():
        assert np.allclose(np.sum(rows, axis=1), 1, atol=2e-6) and np.linalg.det(rows) > 0.1


def test_gradients_of_curves_are_central_differences():
    light = Variable.of(np.random.default_rng(0).uniform(0.05, 0.6, (1, 5, 3)), VEC3)
    for tone in ("srgb", "aces", "reinhard", "acescg"):
        assert check_gradient(displayed(light, tone, 0.3), [light]) < 1e-5


def test_what_saving_refuses(picture, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"tone is one of .*'acse'.*aces"):
        picture.save(tmp_path / "a.png", "acse")
    with pytest.raises(InputError, match="ends at 1"):
        picture.save(tmp_path / "a.png", "acescg")
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    with pytest.raises(InputError, match=r"dressi\[images\]"):
        picture.save(tmp_path / "a.exr")
