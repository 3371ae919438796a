"""Hair: lobes normalised, no light added, values of two directions not exchangeable, derivatives, and devices."""

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.render.shading.bsdf import Frame
from dressi.render.shading.bsdf.hair import HairBsdf, trimmed_logistic
from dressi.render.shading.sphere_filter import directions, solid_angles

PARAMETERS = {
    "melanin": 0.4,
    "redness": 0.6,
    "longitudinal": 0.35,
    "azimuthal": 0.4,
    "ior": 1.5,
    "tilt": 3.0,
}


def unit(*values: float) -> tuple[float, ...]:
    return tuple(np.array(values) / np.linalg.norm(values))


def frame(eye: tuple[float, ...]) -> Frame:
    return Frame(F.constant((0.0, 0.0, 1.0)), F.constant(eye), F.constant((1.0, 0.0, 0.0, 1.0)))


def integrated(hair: HairBsdf, eye: tuple[float, ...], size=(512, 256)) -> np.ndarray:
    to_light = Variable.of(directions(size), VEC3)
    value = hair.reflected(frame(eye), to_light) * solid_angles(size)
    return evaluate([F.sum(value, "xy")])[0].ravel()


@pytest.mark.parametrize("scale", [0.05, 0.5, 3.0])
def test_lobes_around_the_fibre_are_normalised(scale):
    angle = (np.arange(4096) + 0.5) / 4096 * 2 * np.pi
    (found,) = evaluate([trimmed_logistic(Variable.of(angle[None]), F.constant(scale))])
    assert abs(found.mean() * 2 * np.pi - 1) < 1e-4


@pytest.mark.parametrize("roughness", [0.1, 0.4, 0.9])
def test_lobes_along_the_fibre_are_normalised(roughness):
    """The tilt by scales takes a little past the tip of the fibre."""
    node, weight = np.polynomial.legendre.leggauss(2000)
    hair = HairBsdf.of(**PARAMETERS | {"longitudinal": roughness, "tilt": 0.0})
    for found in evaluate(list(hair.along(Variable.of(node[None]), F.constant(0.4)))):
        assert abs((found[0, 0] * weight).sum() - 1) < 1e-6


@pytest.mark.parametrize("eye", [unit(0.3, 0.2, 1), unit(-0.8, 0.6, 0.4)])
def test_white_hair_sends_all_light_on_and_pigment_takes_some(eye):
    even = PARAMETERS | {"longitudinal": 0.5, "azimuthal": 0.5}
    white = integrated(HairBsdf.of(**even | {"melanin": 0.0}), eye)
    np.testing.assert_allclose(white, 1.0, atol=2e-3)
    dark = integrated(HairBsdf.of(**even), eye)
    assert (dark < 0.9).all() and dark[0] > dark[1] > dark[2] > 0


def test_two_directions_are_not_exchangeable():
    """A_p and N_p follow from the direction of the eye: values per cosine differ by more than rounding."""
    a, b, hair = unit(0.5, 0.1, 1), unit(-0.1, 0.9, 0.5), HairBsdf.of(**PARAMETERS)
    one, two = (
        evaluate([hair.reflected(frame(x), F.constant(y))])[0].ravel() / np.hypot(y[1], y[2])
        for x, y in ((a, b), (b, a))
    )
    assert np.abs(one / two - 1).max() > 0.05


def graph() -> tuple[Variable, list[Variable]]:
    rng = np.random.default_rng(3)
    leaves = [
        Variable.of(x * rng.uniform(0.9, 1.1, (1, 6)), FLOAT, name=name) for name, x in PARAMETERS.items()
    ]
    eye, light = (Variable.of(rng.normal(size=(1, 6, 3)), VEC3) for _ in range(2))
    tangent = F.constant((1.0, 0.1, 0.0, 1.0))
    to_eye = F.normalize(F.vec3(eye.xy, F.abs(eye.z)))
    at = Frame(F.constant((0.0, 0.0, 1.0)), to_eye, tangent)
    return HairBsdf.of(None, *leaves).reflected(at, F.normalize(light)), [*leaves, eye, light]


def test_gradients_by_everything_are_central_differences():
    value, leaves = graph()
    assert value.vtype is VEC3 and check_gradient(value, leaves) < 1e-5


def test_devices_agree_with_numpy(device):
    value, _ = graph()
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=2e-3, atol=1e-4)
