"""Light of environment maps by Monte Carlo against quadrature in float64, gradients at fixed directions, and both drivers."""

from functools import cache

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, INT, VEC3
from dressi.errors import InputError
from dressi.render import DirectionalLight, primitives, render
from dressi.render.shading.bsdf import Bsdf, Frame, GltfBsdf
from dressi.render.shading.environment import Environment
from dressi.render.shading.lights import Fragment
from dressi.render.shading.monte_carlo.distribution import MapDistribution
from dressi.render.shading.monte_carlo.light import MonteCarloEnvironment
from dressi.render.shading.monte_carlo.samples import environment_samples
from dressi.render.shading.sphere_filter import directions

EYE = np.array([0.48, 0.6, 0.64])
MATERIALS = {
    "clay": GltfBsdf.of((0.7, 0.5, 0.3), 0.0, 0.5),
    "metal": GltfBsdf.of((0.9, 0.6, 0.3), 1.0, 0.3),
    "coat": GltfBsdf.of((0.7, 0.5, 0.3), 0.2, 0.6, clearcoat=1.0, clearcoat_roughness=0.2, occlusion=0.9),
    "cloth": GltfBsdf.of((0.3, 0.2, 0.5), 0.0, 0.8, sheen=(0.8, 0.6, 0.5), sheen_roughness=0.5),
}


@cache
def sky() -> np.ndarray:
    """(16, 32, 3): a gradient, a dark ground, and a sun."""
    d = directions((32, 16))
    image = 0.6 + 0.4 * d[..., 1:2] * (0.2, 0.5, 1.0)
    image[d[..., 1] < 0] = (0.3, 0.0, 0.1)
    image[4, 20:22] = (60, 50, 30)
    return image


def normals(count: int) -> np.ndarray:
    """(count, 3): of the pixels of a sphere that is seen from far away."""
    k = np.arange(count)
    radius, angle = np.sqrt((k + 0.5) / count), k * 2.399963
    across = np.cross((0.0, 1.0, 0.0), EYE)
    across /= np.linalg.norm(across)
    local = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.sqrt(1 - radius**2)], -1)
    return local @ np.stack([across, np.cross(EYE, across), EYE])


def image(values: np.ndarray, name: str = "") -> Variable:
    return Variable.of(np.asarray(values)[None], FLOAT if np.ndim(values) == 1 else VEC3, name=name)


def fragment(surface: Bsdf, n: np.ndarray) -> Fragment:
    return Fragment(image(n), image(n, "normal"), F.constant(tuple(EYE)), surface)


def integral(surface: Bsdf, n: np.ndarray, rotation: float) -> np.ndarray:
    """(count, 3): the BRDF times the map between its texels, on a grid of 256 x 128 directions."""
    size = (256, 128)
    d = Variable.of(directions(size), VEC3)
    edges = np.cos(np.linspace(0, np.pi, size[1] + 1))
    area = ((edges[:-1] - edges[1:]) * (2 * np.pi / size[0]))[:, None, None]
    sky_there = Environment(sky(), rotation).prefiltered().background(d)
    frames = [Frame(F.constant(tuple(one)), F.constant(tuple(EYE))) for one in n]
    values = [surface.reflected(frame, d) * sky_there for frame in frames]
    total = np.stack([(v[0] * area).sum((0, 1)) for v in evaluate(values)])
    return total * (1 if getattr(surface, "occlusion", None) is None else 0.9)


@pytest.mark.release
@pytest.mark.parametrize("name", MATERIALS)
def test_the_mean_of_many_steps_is_the_integral_and_noise_falls_with_the_root(name: str):
    surface, n = MATERIALS[name], normals(24)
    wanted = integral(surface, n, 0.7)
    step = Variable(INT, name="step", data=0)
    noise, means = [], []
    for samples, steps in ((16, 16), (256, 4)):
        light = MonteCarloEnvironment(sky(), 0.7, samples=samples, seed=5, step=step)
        value = light.reflected(fragment(surface, n))
        found = np.stack([evaluate([value], {step: k})[0][0, 0] for k in range(steps)])
        noise.append(np.sqrt(((found - wanted) ** 2).mean()) / wanted.mean())
        means.append(np.abs(found.mean(0) - wanted).mean() / wanted.mean())
    # 16 times as many samples: a quarter of the noise or less, for the samples of a pixel lie evenly.
    assert noise[1] < 0.3 * noise[0] and noise[1] < 0.08, noise
    assert means[0] < 0.05 and means[1] < 0.03, means


def test_an_even_sky_has_the_albedo_and_no_surface_gives_more_light_than_it_gets():
    n = normals(24)
    for name, surface in MATERIALS.items():
        even = MonteCarloEnvironment(np.ones((8, 16, 3)), samples=256).reflected(fragment(surface, n))
        assert 0 < evaluate([even])[0].mean((0, 1, 2)).max() < 1, name


def test_a_black_map_gives_no_light():
    value = MonteCarloEnvironment(np.zeros((8, 16, 3)), samples=16).reflected(
        fragment(MATERIALS["clay"], normals(4))
    )
    assert (evaluate([value])[0] == 0).all()


def test_the_density_of_a_map_is_one_in_all_and_directions_fall_by_it():
    values = np.random.default_rng(0).random((10, 20, 3)) ** 4
    distribution = MapDistribution.of(Variable.of(values, VEC3))
    edges = np.cos(np.linspace(0, np.pi, 11))
    u = [F.random(1, k, (128, 128)) for k in range(4)]
    d = distribution.direction((u[0], u[1], u[2], u[3]))
    density, found, pdf = evaluate([distribution.density, d, distribution.pdf(d)])
    share = density[0] * ((edges[:-1] - edges[1:]) * (2 * np.pi / 20))[:, None]
    np.testing.assert_allclose(share.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, rtol=1e-9)
    row = np.arccos(found[..., 1]) / np.pi * 10
    column = (np.arctan2(found[..., 0], -found[..., 2]) / (2 * np.pi) + 0.5) * 20
    counts = np.histogram2d(row.ravel(), column.ravel(), (10, 20), ((0, 10), (0, 20)))[0]
    assert np.abs(counts / counts.sum() - share).sum() < 0.12
    np.testing.assert_allclose(pdf[0], density[0][row[0].astype(int), column[0].astype(int)], rtol=1e-9)


def scene():
    """A light whose directions are drawn for copies of its leaves, so that these move nothing but the integrand."""
    rng = np.random.default_rng(1)
    values = {
        "map": Variable(VEC3, (16, 8), name="map", data=rng.random((1, 8, 16, 3)) + 0.5),
        "normal": image(normals(40)[5:40:13], "normal"),
        "roughness": image([0.23, 0.52, 0.87], "roughness"),
        "base": image(rng.random((3, 3)), "base"),
        "angle": Variable(FLOAT, name="angle", data=0.3),
        "intensity": Variable(VEC3, name="intensity", data=np.array([1.0, 2.0, 0.5])),
    }
    return values


def lit(v: dict[str, Variable], drawn: dict[str, Variable] | None = None) -> Variable:
    def parts(v):
        at = Fragment(
            v["normal"],
            v["normal"],
            F.constant(tuple(EYE)),
            GltfBsdf.of(
                v["base"],
                0.6,
                v["roughness"],
                clearcoat=0.5,
                clearcoat_roughness=0.4,
                sheen=(0.2, 0.3, 0.1),
                sheen_roughness=0.5,
            ),
        )
        return MonteCarloEnvironment(v["map"], v["angle"], v["intensity"], samples=6), at

    light, at = parts(v)
    if drawn is None:
        return light.reflected(at)
    _, other = parts(drawn)
    samples = environment_samples(MapDistribution.of(drawn["map"]), None, other.surface, other.frame, 6)
    return light.integrated(samples, at)


@pytest.mark.parametrize("name", ["map", "normal", "roughness", "base", "angle", "intensity"])
def test_gradients_at_fixed_directions_are_central_differences(name: str):
    leaves = scene()
    assert check_gradient(lit(leaves, scene()), [leaves[name]]) < 1e-5


@pytest.mark.vk
def test_devices_agree_with_the_oracle_in_value_and_gradient(run):
    leaves = scene()
    value = lit(leaves)
    loss = F.sum(F.sum_components(F.square(value)))
    wrt = [leaves[name] for name in ("map", "roughness", "base", "intensity")]
    outputs = [value, *gradient(loss, wrt)]
    for found, wanted in zip(run(outputs), evaluate(outputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=5e-3, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.vk
@pytest.mark.parametrize("metallic", [0.0, 1.0])
def test_direct_light_is_that_of_the_standard(run, metallic: float):
    """Within 1e-3 of appendix B of the specification of glTF 2.0 in float64, from roughness 0.1 on."""
    n, base, light = normals(200), np.array([0.8, 0.5, 0.2]), np.array([-0.36, 0.8, 0.48])
    for roughness in (0.1, 0.25, 0.5, 1.0):
        half = (light + EYE) / np.linalg.norm(light + EYE)
        nl, nv, nh, vh = np.maximum(n @ light, 0), n @ EYE, n @ half, EYE @ half
        a = roughness**4
        d = a / (np.pi * (nh**2 * (a - 1) + 1) ** 2)
        v = 0.5 / (nl * np.sqrt(nv**2 * (1 - a) + a) + nv * np.sqrt(nl**2 * (1 - a) + a))
        f0 = 0.04 + metallic * (base - 0.04)
        fresnel, dielectric = (x + (1 - x) * (1 - vh) ** 5 for x in (f0, 0.04))
        brdf = fresnel * (d * v)[:, None] + (1 - dielectric) * (1 - metallic) * base / np.pi
        wanted = brdf * nl[:, None] * 2
        surface = GltfBsdf.of(tuple(base), metallic, roughness)
        (found,) = run([DirectionalLight(tuple(light), 2.0).reflected(fragment(surface, n))])
        np.testing.assert_allclose(found[0, 0], wanted, rtol=1e-3, atol=1e-3 * wanted.mean())


def test_pictures_are_lit_by_it_and_steps_differ():

    ball = primitives.icosphere(3)
    pictures = [
        render(
            ball, size=(24, 24), light=MonteCarloEnvironment(sky(), samples=64, step=k), form="hard"
        ).colour
        for k in (0, 1)
    ]
    wanted = render(ball, size=(24, 24), light=Environment(sky()), form="hard").colour
    assert (pictures[0] != pictures[1]).any()
    for one in pictures:
        assert np.abs(one - wanted).mean() < 0.1 * wanted.mean()


@pytest.mark.parametrize(
    "given, words",
    [({"samples": 0}, "1 to 1024"), ({"samples": 2.5}, "1 to 1024"), ({"step": 0.5}, "whole number")],
)
def test_what_is_no_number_of_samples_or_step_is_refused(given, words):
    light = MonteCarloEnvironment(sky(), **given)
    with pytest.raises(InputError, match=words):
        render(primitives.cube(), size=(8, 8), light=light)


LAYERS = {
    "coat": {"clearcoat": 1.0, "clearcoat_roughness": 0.3},
    "cloth": {"sheen": (1.0, 0.8, 0.6), "sheen_roughness": 0.5},
}


@pytest.mark.parametrize("name", LAYERS)
def test_filtered_light_of_layers_is_near_the_integral(name: str):
    """The sun of this small map makes most of the light. Without it errors are smaller: under even light below 1 % for sheen."""
    n = normals(48)
    for base, metallic in (((0.7, 0.5, 0.3), 0.0), ((0.9, 0.6, 0.3), 1.0)):
        surface = GltfBsdf.of(base, metallic, 0.6, **LAYERS[name])
        bare = GltfBsdf.of(base, metallic, 0.6)
        found, without = (
            evaluate([Environment(sky(), 0.7).reflected(fragment(s, n))])[0] for s in (surface, bare)
        )
        light = MonteCarloEnvironment(sky(), 0.7, samples=1024).reflected(fragment(surface, n))
        wanted = evaluate([light])[0]
        error, ignored = (np.abs(x - wanted).mean() / wanted.mean() for x in (found, without))
        assert error < {"coat": 0.06, "cloth": 0.1}[name] and error < 0.75 * ignored, (base, error, ignored)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("metallic", [0.0, 1.0])
def test_layers_give_no_more_light_than_they_get(name: str, metallic: float):
    # A white dielectric of the standard reflects up to 1.07 without a layer.
    base = (1.0, 1.0, 1.0) if metallic else (0.9, 0.9, 0.9)
    surface = GltfBsdf.of(base, metallic, 0.6, **LAYERS[name])
    value = Environment(np.ones((8, 16, 3))).reflected(fragment(surface, normals(48)))
    (found,) = evaluate([value])
    assert found.min() > 0.5 and found.max() <= 1.02
