"""Hair on strands: the mean over the width of a fibre, light through strands, light that many of them scatter, derivatives."""

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.errors import InputError
from dressi.render import Camera, DirectionalLight, Shadow, StrandGeometry, draw_strands
from dressi.render.shading.bsdf.hair import HairBsdf
from dressi.render.shading.bsdf.hair_far import Directions, FarHair
from dressi.render.strands.marschner import Marschner
from dressi.render.strands.opacity import StrandOpacity

HAIR = {"melanin": 0.4, "redness": 0.6, "longitudinal": 0.35, "azimuthal": 0.4, "ior": 1.5, "tilt": 3.0}


def leaves() -> list[Variable]:
    return [Variable.of([[x]], FLOAT, name=name) for name, x in HAIR.items()]


def images(*values: np.ndarray) -> Directions:
    return Directions(*(Variable.of(x[None], FLOAT) for x in values))


def test_a_fibre_from_afar_is_the_mean_over_its_width():
    rng = np.random.default_rng(0)
    light, eye, phi = rng.uniform(-0.8, 0.8, 20), rng.uniform(-0.8, 0.8, 20), rng.uniform(0, np.pi, 20)
    offset = Variable.of(np.tile(np.linspace(-1, 1, 201)[:-1, None] + 0.005, (1, 20)))
    hair = HairBsdf.of(**HAIR)
    sines = [Variable.of(np.tile(x, (200, 1))) for x in (light, eye, phi)]
    near = evaluate([hair.scattered(sines[0], sines[1], sines[2], offset)])[0][0].mean(0)
    (far,) = evaluate([FarHair(hair).scattered(images(light, eye, np.cos(phi)))])
    np.testing.assert_allclose(far[0, 0], near, rtol=0.03, atol=0.01 * near.mean())


def test_light_passes_strands_directly_or_is_sent_on():
    """Fibres that absorb nothing let through less than arrives, and dark ones nearly nothing but what meets none."""
    crossed = Variable.of(np.array([[0.0, 0.5, 2.0, 8.0]]), FLOAT)
    direct, white = evaluate(FarHair(HairBsdf.of(0.0, 0.0)).passing(F.constant(0.1), crossed))
    np.testing.assert_allclose(direct[0, 0], np.exp([0.0, -0.5, -2, -8]))
    assert ((direct[..., None] + white) <= 1).all() and (white[0, 0, 1:] > 0.02).all()
    dark = evaluate([FarHair(HairBsdf.of(None, 0.9999)).passing(F.constant(0.1), crossed)[1]])[0]
    assert (dark[0, 0, 1:] < 0.1 * white[0, 0, 1:]).all()


def test_strands_dim_the_light_of_those_behind_them():
    """Three sheets of parallel strands as wide as their distances: each hides the same share."""
    x = np.linspace(-1, 1, 40)
    sheets = [np.stack([np.full(2, u), np.array([-1.0, 1]), np.full(2, z)], 1) for z in (1, 0, -1) for u in x]
    strands = StrandGeometry(np.concatenate(sheets), np.arange(0, 241, 2), 0.02, opacity=0.5)
    opacity = StrandOpacity.of(strands, (0.0, 0.0, 1.0), 64)
    at = Variable.of(np.array([[[0, 0, 1.5], [0, 0, 0.5], [0, 0, -0.5], [0, 0, -1.5]]]), VEC3)
    (found,) = evaluate([opacity.crossed(at)])
    np.testing.assert_allclose(np.diff(found[0, 0]), found[0, 0, 3] / 3, rtol=0.15)
    assert found[0, 0, 0] < 0.05 and 0.5 < found[0, 0, 3] / 3 / -np.log(0.5) < 1.3


def picture(values: list[Variable]) -> Variable:
    points = np.array([[x, y, 0.1 * x * y] for x in (-0.5, 0.0, 0.4) for y in (-1.0, 0.0, 1.0)])
    strands = StrandGeometry(points, [0, 3, 6, 9], 0.2)
    lights = [DirectionalLight((1.0, 0.5, 1.0), 3.0, Shadow(16)), DirectionalLight((-1, 1, -1), 2.0)]
    far = FarHair(HairBsdf.of(None, *values), 16, 8, 8)
    look = Marschner(far, lights, strands, ambient=0.2)
    return draw_strands(strands, Camera.perspective(50, (10, 8), (0, 0, 3), (0, 0, 0)), shader=look).colour


@pytest.mark.release
def test_gradients_by_the_hair_are_central_differences():
    values = leaves()
    assert check_gradient(picture(values), values) < 1e-4


def test_devices_agree_with_numpy(device):
    value = picture(leaves())
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=1e-2, atol=2e-3)


def test_wrong_hair_is_refused():
    with pytest.raises(InputError, match="Variable of one texel"):
        FarHair(HairBsdf.of(Variable.of(np.zeros((1, 2)), FLOAT)))
    with pytest.raises(InputError, match="needs the strands"):
        Marschner(HairBsdf(), DirectionalLight((0, 0, 1), shadow=Shadow(16)))
    with pytest.raises(InputError, match=r"melanin of the hair surface is in \[0, 1\], not nan"):
        HairBsdf(melanin=np.nan)
    with pytest.raises(InputError, match=r"ior of the hair surface is in \[1, 2\], not 2.5 to 3"):
        HairBsdf(ior=np.array([[2.5, 3.0]]))
