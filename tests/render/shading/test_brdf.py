"""The BRDF of glTF against its formulas in NumPy, its energy, and gradients by everything."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.render.shading.bsdf import Frame, GltfBsdf
from dressi.render.shading.bsdf.sheen import albedo_table, sheen_albedo
from dressi.render.shading.tone import aces, exposed, reinhard

UP = np.array([0.0, 0.0, 1.0])


def unit(values: np.ndarray) -> np.ndarray:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def hemisphere(rng: np.random.Generator, count: int) -> np.ndarray:
    directions = unit(rng.normal(size=(count, 3)))
    directions[:, 2] = np.abs(directions[:, 2]) + 0.05
    return unit(directions)


def gltf(base, metallic, roughness, n, v, light):
    """Appendix B of the specification of glTF 2.0, times the cosine."""
    h = unit(v + light)
    nl, nv, nh, vh = ((a * b).sum(-1) for a, b in ((n, light), (n, v), (n, h), (v, h)))
    a = roughness**2
    d = a**2 / (np.pi * (nh**2 * (a**2 - 1) + 1) ** 2)
    g = 2 * nl * nv / (nl * np.sqrt(a**2 + (1 - a**2) * nv**2) + nv * np.sqrt(a**2 + (1 - a**2) * nl**2))
    specular = g * d / (4 * nl * nv)
    fresnel = (1 - vh) ** 5
    metal = specular[:, None] * (base + (1 - base) * fresnel[:, None])
    f = 0.04 + 0.96 * fresnel[:, None]
    dielectric = (1 - f) * base / np.pi + f * specular[:, None]
    # The standard mixes two materials; mixing f0 is the same for metallic 0 and 1.
    return (dielectric + metallic * (metal - dielectric)) * nl[:, None]


def images(*arrays: np.ndarray) -> list[Variable]:
    return [Variable.of(a[None], VEC3 if a.ndim == 2 else FLOAT) for a in arrays]


def reflected(surface: GltfBsdf, n: np.ndarray, v: np.ndarray, light: np.ndarray) -> Variable:
    to_eye, to_light = images(v, light)
    return surface.reflected(Frame(F.constant(tuple(n)), to_eye), to_light)


@pytest.mark.parametrize("metallic", [0.0, 1.0])
@pytest.mark.parametrize("roughness", [0.1, 0.5, 1.0])
def test_it_is_that_of_the_standard(metallic: float, roughness: float):
    rng = np.random.default_rng(0)
    v, light = hemisphere(rng, 50), hemisphere(rng, 50)
    base = rng.random((50, 3))
    wanted = gltf(base, metallic, roughness, UP, v, light)
    surface = GltfBsdf.of(*images(base), metallic=metallic, roughness=roughness)
    (found,) = evaluate([reflected(surface, UP, v, light)])
    np.testing.assert_allclose(found[0, 0], wanted, rtol=1e-9, atol=1e-12)


def test_light_from_behind_gives_nothing_and_no_gradient_is_lost_in_nan():
    v, light = np.array([UP, UP, -UP]), np.array([[0, 0.1, -1.0], UP, UP])
    rough = Variable.of([[[0.0, 0.0, 0.0]]][0], FLOAT, name="roughness")
    surface = GltfBsdf.of((0.5, 0.5, 0.5), 1.0, rough)
    value = reflected(surface, UP, unit(v), unit(light))
    (found,) = evaluate([value])
    assert (found[0, 0, 0] == 0).all() and np.isfinite(found).all() and (found[0, 0, 1] > 0).all()


def full(clearcoat: bool, sheen: bool):
    rng = np.random.default_rng(1)
    leaves = {
        "base": Variable.of(rng.uniform(0.2, 0.8, (1, 4, 3)), VEC3, name="base"),
        "metallic": Variable.of(rng.uniform(0.2, 0.8, (1, 4)), FLOAT, name="metallic"),
        "roughness": Variable.of(rng.uniform(0.2, 0.8, (1, 4)), FLOAT, name="roughness"),
    }
    if clearcoat:
        leaves["clearcoat"] = Variable.of(rng.uniform(0.2, 0.8, (1, 4)), FLOAT, name="clearcoat")
        leaves["clearcoat_roughness"] = Variable.of(rng.uniform(0.2, 0.8, (1, 4)), FLOAT, name="of coat")
    if sheen:
        leaves["sheen"] = Variable.of(rng.uniform(0.2, 0.8, (1, 4, 3)), VEC3, name="sheen")
        leaves["sheen_roughness"] = Variable.of(rng.uniform(0.3, 0.8, (1, 4)), FLOAT, name="of sheen")
    n, v, light = (Variable.of(hemisphere(rng, 4)[None], VEC3, name=x) for x in ("n", "v", "l"))
    value = GltfBsdf.of(**leaves).reflected(Frame(F.normalize(n), F.normalize(v)), F.normalize(light))
    return value, [*leaves.values(), n, v, light]


@pytest.mark.parametrize("clearcoat, sheen", [(False, False), (True, True)])
def test_gradients_are_central_differences(clearcoat: bool, sheen: bool):
    value, leaves = full(clearcoat, sheen)
    assert check_gradient(value, leaves) < 1e-5


@pytest.mark.parametrize("clearcoat, sheen", [(False, False), (True, True)])
def test_devices_agree_with_the_oracle(device, clearcoat: bool, sheen: bool):
    from dressi import DressiAD

    value, _ = full(clearcoat, sheen)
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=1e-4, atol=1e-6)


def directions_by_cosine(count: int) -> np.ndarray:
    """Points of a lattice whose density is the cosine over pi."""
    k = np.arange(count) + 0.5
    radius, angle = np.sqrt(k / count), k * np.pi * (3 - 5**0.5)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.sqrt(1 - radius**2)], axis=1)


@pytest.mark.parametrize("roughness", [0.5, 1.0])
@pytest.mark.parametrize("cosine", [0.2, 0.9])
def test_no_surface_reflects_more_than_it_gets(roughness: float, cosine: float):
    light = directions_by_cosine(20_000)
    v = np.array([[np.sqrt(1 - cosine**2), 0, cosine]])
    for metallic, layers in (
        (0.0, {}),
        (1.0, {}),
        (0.0, {"clearcoat": 1.0}),
        (0.0, {"sheen": (1.0, 1.0, 1.0), "sheen_roughness": 0.5}),
    ):
        surface = GltfBsdf.of((1.0, 1.0, 1.0), metallic, roughness, **layers)
        value = reflected(surface, UP, v, light)
        (found,) = evaluate([value])
        total = (found[0, 0] / light[:, 2:]).mean(0) * np.pi
        # The white dielectric of the standard itself reflects 1.073 at the flat angle: its diffuse part loses F(v.h) only.
        assert 0.3 < total[0] <= 1.08, (metallic, layers)


def test_the_table_of_sheen_is_the_integral():
    light = directions_by_cosine(20_000)
    for cosine, roughness in ((0.3, 0.4), (0.8, 1.0)):
        v = np.array([[np.sqrt(1 - cosine**2), 0, cosine]])
        surface = GltfBsdf.of((0.0, 0.0, 0.0), 1.0, 1.0, sheen=(1.0, 1.0, 1.0), sheen_roughness=roughness)
        bare = GltfBsdf.of((0.0, 0.0, 0.0), 1.0, 1.0)
        both = [evaluate([reflected(s, UP, v, light)])[0][0, 0, :, 0] for s in (surface, bare)]
        (albedo,) = evaluate([sheen_albedo(F.constant(cosine), F.constant(roughness))])
        share = (both[0] / light[:, 2]).mean() * np.pi
        # A black metal still reflects at grazing angles, below the sheen.
        assert abs(share - albedo.item()) < 0.05
    assert albedo_table().max() <= 1


def test_tone_curves():
    light = Variable.of([[0.0, 0.18, 1.0, 30.0]], FLOAT, name="light")
    found = evaluate([reinhard(light), aces(light), exposed(light, -1.0)])
    assert all((np.diff(x.ravel()) >= 0).all() and x.min() >= 0 for x in found)
    assert found[0].max() < 1 and found[1].max() <= 1
    np.testing.assert_allclose(found[2].ravel(), [0, 0.09, 0.5, 15])
    np.testing.assert_allclose(evaluate([reinhard(light, 30.0)])[0].ravel()[-1], 1.0)
