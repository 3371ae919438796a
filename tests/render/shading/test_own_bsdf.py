"""A surface of one's own, one class with ``reflected`` alone, under every light: values and derivatives."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dressi import DressiAD, F, Variable
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.types import FLOAT, VEC3
from dressi.render import (
    DirectionalLight,
    Environment,
    HarmonicsLight,
    Light,
    MonteCarloEnvironment,
    PointLight,
    SpotLight,
)
from dressi.render.materials import MaterialKind, Parameter
from dressi.render.shading.bsdf import Bsdf, Frame, GltfBsdf, UnlitBsdf
from dressi.render.shading.harmonics_light import even_light
from dressi.render.shading.lights import Fragment, LightSource
from dressi.render.shading.sphere_filter import directions, solid_angles


@dataclass(frozen=True, eq=False)
class Rough(Bsdf):
    """A rough diffuse surface (Oren and Nayar 1994, the qualitative model)."""

    kind = MaterialKind(
        "Oren-Nayar", (Parameter("sigma", default=0.3, most=2.0, text="of slopes, in radians"),)
    )
    sigma: Any = 0.3

    def reflected(self, frame: Frame, to_light: Variable) -> Variable:
        square = F.square(self.sigma)
        a, b = 1.0 - 0.5 * square / (square + 0.33), 0.45 * square / (square + 0.09)
        n_l, n_v = F.maximum(F.dot(frame.normal, to_light), 0.0), F.maximum(frame.n_v, 1e-3)
        s = F.dot(to_light, frame.to_eye) - n_l * n_v
        t = F.select(F.greater(s, 0.0), F.maximum(F.maximum(n_l, n_v), 1e-3), 1.0)
        return self.base * (n_l * (a + b * s / t) / np.pi)


EYE = np.array([0.48, 0.6, 0.64])
NORMALS = np.array([[0.6, 0.64, 0.48], [0.0, 0.8, 0.6], [0.6, 0.0, 0.8]])
MAP = 0.2 + np.random.default_rng(0).random((8, 16, 3))
LIGHTS: dict[str, LightSource] = {
    "directional": DirectionalLight((0.3, 1.0, 0.4), 2.0),
    "point": PointLight((0.2, 2.0, 1.0), (1.0, 2.0, 3.0)),
    "spot": SpotLight((0.2, 2.0, 1.0), (-0.1, -1.0, -0.4), inner=0.1, outer=1.2),
    "environment": Environment(MAP),
    "monte carlo": MonteCarloEnvironment(MAP, samples=16, seed=3),
    "harmonics": HarmonicsLight(Variable.of(even_light(0.7) + 0.1, VEC3)),
    "lambert": Light((0.3, 1.0, 0.4)),
}


def fragment(surface: Bsdf, normals: Variable) -> Fragment:
    normal = F.normalize(normals)
    return Fragment(normal * 0.3, normal, F.constant(tuple(EYE)), surface)


@pytest.mark.release
@pytest.mark.one_driver
@pytest.mark.parametrize("name", LIGHTS)
def test_every_light_shows_it_and_derivatives_are_those_of_what_is_shown(device, name: str):
    sigma = Variable.of([[0.2, 0.5, 0.9]], FLOAT, name="sigma")
    base = Variable.of([[[0.7, 0.5, 0.3]]], VEC3, name="base")
    normals = Variable.of(NORMALS[None], VEC3, name="normals")
    value = LIGHTS[name].reflected(fragment(Rough(base, sigma), normals))
    (wanted,) = evaluate([value])
    assert wanted.min() > 0.005
    # Directions of the Monte Carlo sum are drawn for a normal, and have no derivatives.
    wrt = [base] if name == "lambert" else [base, sigma] if name == "monte carlo" else [base, sigma, normals]
    assert check_gradient(value, wrt) < 1e-5
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], wanted, rtol=5e-3, atol=1e-3)


@pytest.mark.one_driver
@pytest.mark.parametrize(
    ("surface", "bound"),
    [
        (Rough.of((0.7, 0.5, 0.3), 0.6), 0.03),
        # Lobes of its own draw the directions of the sum.
        (GltfBsdf.of((0.9, 0.6, 0.3), 1.0, 0.5), 0.04),
    ],
)
def test_the_sum_over_a_sky_is_near_the_integral(surface: Bsdf, bound: float):
    size = (256, 128)
    d = Variable.of(directions(size), VEC3)
    sky = Environment(MAP).prefiltered()
    light = sky.background(d) * solid_angles(size)
    frames = [Frame(F.constant(tuple(n)), F.constant(tuple(EYE))) for n in NORMALS]
    wanted = [F.sum(surface.reflected(frame, d) * light, "xy") for frame in frames]
    found = [Bsdf.environment(surface, frame, sky).total for frame in frames]
    values = np.array(evaluate([*wanted, *found])).reshape(2, -1)
    assert np.abs(values[1] - values[0]).max() < bound * values[0].mean()


def test_unlit_surfaces_reflect_nothing():
    surface = UnlitBsdf.of((0.5, 0.2, 0.1))
    at = fragment(surface, Variable.of(NORMALS[None], VEC3))
    lit = evaluate([F.zeros_like(at.normal) + light.reflected(at) for light in LIGHTS.values()])
    assert all((x == 0).all() for x in lit)
    np.testing.assert_allclose(evaluate([surface.emitted(at.frame)])[0].ravel(), (0.5, 0.2, 0.1))
