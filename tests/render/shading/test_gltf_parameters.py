"""Parameters of extensions of glTF: energy and reciprocity by quadrature in float64, their formulas, and gradients."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.render import Environment
from dressi.render.shading.bsdf import Frame, GltfBsdf

UP = F.constant((0.0, 0.0, 1.0))
EXTENDED = {
    "water": {"ior": 1.33},
    "diamond": {"ior": 2.42},
    "dull": {"specular": 0.3},
    "tinted": {"ior": 1.8, "specular": 0.7, "specular_color": (1.0, 0.5, 0.2)},
    "pane": {"transmission": 0.6},
    "coat": {"clearcoat": 0.8, "clearcoat_roughness": 0.4, "clearcoat_normal": (0.28, 0.0, 0.96)},
}


def lattice(count: int) -> np.ndarray:
    """(count, 3): directions whose density is the cosine over pi."""
    k = np.arange(count) + 0.5
    radius, angle = np.sqrt(k / count), k * np.pi * (3 - 5**0.5)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.sqrt(1 - radius**2)], axis=1)


def image(values: np.ndarray) -> Variable:
    return Variable.of(np.asarray(values, float)[None], VEC3 if np.ndim(values) == 2 else FLOAT)


@pytest.mark.parametrize("name", EXTENDED)
def test_what_is_reflected_and_let_through_is_no_more_than_arrives(name: str):
    """White under even light, and by a sky: the closed form is near the integral, and less than 1.08 as the standard's own."""
    light = lattice(20_000)
    for cosine in (0.3, 0.9):
        surface = GltfBsdf.of((1.0, 1.0, 1.0), 0.0, 0.6, **EXTENDED[name])
        eye = image([[np.sqrt(1 - cosine**2), 0, cosine]])
        frame = Frame(UP, eye)
        sky = Environment(np.ones((8, 16, 3))).prefiltered()
        through = surface.transmittance(frame)
        values = [surface.reflected(frame, image(light)), surface.environment(frame, sky).total]
        value, closed, passed = evaluate(
            [*values, F.constant((0.0, 0.0, 0.0)) if through is None else through]
        )
        total = (value[0, 0] / light[:, 2:]).mean(0) * np.pi
        assert 0.2 < (total + passed.ravel()).max() <= 1.08
        np.testing.assert_allclose(closed.ravel(), total, atol=0.05 if name == "coat" else 0.01)


def test_reflection_is_reciprocal():
    """Light and eye change places. (The layers of the standard are not all reciprocal.)"""
    rng = np.random.default_rng(0)
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (rng.random((2, 30, 3)) + (0, 0, 0.3)))
    for name in ("diamond", "tinted", "pane"):
        surface = GltfBsdf.of((0.8, 0.5, 0.2), 0.3, 0.4, **EXTENDED[name])
        there, back = evaluate(
            [surface.reflected(Frame(UP, image(v)), image(w)) for v, w in ((a, b), (b, a))]
        )
        np.testing.assert_allclose(there[0, 0] / b[:, 2:], back[0, 0] / a[:, 2:], rtol=1e-9)


def test_reflection_is_that_of_the_extensions():
    """KHR_materials_ior and KHR_materials_specular, seen along the normal, where nothing depends on the angle."""
    base, color, (ior, weight) = np.array([0.8, 0.5, 0.2]), np.array([1.0, 0.5, 0.2]), (1.8, 0.7)
    surface = GltfBsdf.of(tuple(base), 0.0, 1.0, ior=ior, specular=weight, specular_color=tuple(color))
    f0 = np.minimum(((ior - 1) / (ior + 1)) ** 2 * color, 1)
    wanted = (1 - weight * f0.max()) * base / np.pi + weight * f0 / (4 * np.pi)
    np.testing.assert_allclose(evaluate([surface.reflected(Frame(UP, UP), UP)])[0].ravel(), wanted, rtol=1e-9)
    pane = GltfBsdf.of(tuple(base), 0.0, 1.0, transmission=0.5)
    through = pane.transmittance(Frame(UP, UP))
    np.testing.assert_allclose(evaluate([through])[0].ravel(), 0.5 * 0.96 * base, rtol=1e-9)


def test_a_clear_layer_reflects_by_the_angle_to_the_eye():
    """KHR_materials_clearcoat: of what is below, emission included, the layer lets pass what it does not reflect."""
    coat = {"clearcoat": 0.5, "clearcoat_roughness": 1.0}
    bare = GltfBsdf.of((0.8, 0.5, 0.2), 0.0, 1.0, emission=(1.0, 2.0, 3.0))
    coated = GltfBsdf.of((0.8, 0.5, 0.2), 0.0, 1.0, emission=(1.0, 2.0, 3.0), **coat)
    frame = Frame(UP, F.constant((0.8, 0.0, 0.6)))
    share = 0.5 * (0.04 + 0.96 * 0.4**5)
    light = F.constant((0.0, 0.6, 0.8))
    below, found, glow = evaluate(
        [bare.reflected(frame, light), coated.reflected(frame, light), coated.emitted(frame)]
    )
    # Of roughness 1: D = 1 / pi, V = 1 / (2 (n.l + n.v)).
    layer = 0.8 / np.pi * 0.5 / (0.8 + 0.6)
    np.testing.assert_allclose(found.ravel(), below.ravel() * (1 - share) + share * layer, rtol=1e-6)
    np.testing.assert_allclose(glow.ravel(), np.array([1.0, 2.0, 3.0]) * (1 - share), rtol=1e-9)


def test_gradients_are_central_differences():
    def leaf(name: str, *values: float) -> Variable:
        return Variable.of([values], VEC3 if len(values) == 3 else FLOAT, name=name)

    named = {
        "ior": leaf("ior", 1.4),
        "specular": leaf("specular", 0.6),
        "specular_color": leaf("specular_color", 0.9, 0.5, 0.3),
        "transmission": leaf("transmission", 0.4),
        "clearcoat": leaf("clearcoat", 0.5),
        "clearcoat_normal": F.normalize(leaf("clearcoat_normal", 0.2, 0.1, 0.9)),
    }
    surface = GltfBsdf.of((0.8, 0.5, 0.2), 0.2, 0.5, **named)
    eye, light = F.constant((0.6, 0.0, 0.8)), F.constant((-0.48, 0.36, 0.8))
    frame = Frame(UP, eye)
    sky = Environment(0.5 + np.random.default_rng(0).random((8, 16, 3))).prefiltered()
    through = surface.transmittance(frame)
    assert through is not None
    value = surface.reflected(frame, light) + surface.environment(frame, sky).total + through
    leaves = [x for name, x in named.items() if name != "clearcoat_normal"]
    assert check_gradient(value, leaves) < 1e-5
