"""How surfaces reflect light: the glTF model and its parameters, hair, eyes, teeth, skin, and models of one's own."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import FLOAT, VEC2, VEC3, DressiAD, F, InputError, Variable
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render import Camera, Environment, Mesh, MonteCarloEnvironment, Shadow, primitives, render
from dressi.render.core.materials import MaterialKind, Parameter
from dressi.render.scene.scene import Node, Scene
from dressi.render.shading.bsdf import Bsdf, EyeBsdf, Frame, GltfBsdf, SkinBsdf, TeethBsdf, UnlitBsdf
from dressi.render.shading.bsdf.gltf import albedo_table, sheen_albedo
from dressi.render.shading.bsdf.hair import HairBsdf, trimmed_logistic
from dressi.render.shading.bsdf.human import between_lips, inside_mouth
from dressi.render.shading.harmonics import HarmonicsLight, even_light
from dressi.render.shading.lights import DirectionalLight, Fragment, Light, LightSource, PointLight, SpotLight
from dressi.render.shading.skin import Profile, burley, burley_within, diffused
from dressi.render.shading.sphere_filter import directions, solid_angles
from dressi.render.shading.tone import aces, exposed, reinhard

UP = np.array([0.0, 0.0, 1.0])
ABOVE = F.constant((0.0, 0.0, 1.0))


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


def image(values: Any) -> Variable:
    """An image of one row."""
    return Variable.of(np.asarray(values, float)[None], VEC3 if np.ndim(values) == 2 else FLOAT)


def reflected(surface: GltfBsdf, n: np.ndarray, v: np.ndarray, light: np.ndarray) -> Variable:
    return surface.reflected(Frame(F.constant(tuple(n)), image(v)), image(light))


@pytest.mark.parametrize("metallic", [0.0, 1.0])
@pytest.mark.parametrize("roughness", [0.1, 0.5, 1.0])
def test_it_is_that_of_the_standard(metallic: float, roughness: float):
    rng = np.random.default_rng(0)
    v, light = hemisphere(rng, 50), hemisphere(rng, 50)
    base = rng.random((50, 3))
    wanted = gltf(base, metallic, roughness, UP, v, light)
    surface = GltfBsdf.of(image(base), metallic=metallic, roughness=roughness)
    (found,) = evaluate([reflected(surface, UP, v, light)])
    assert_allclose(found[0, 0], wanted, rtol=1e-9, atol=1e-12)


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


def check_device(device, value: Variable, rtol: float, atol: float) -> None:
    with DressiAD(device) as ad:
        assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=rtol, atol=atol)


@pytest.mark.parametrize("clearcoat, sheen", [(False, False), (True, True)])
def test_devices_agree_with_the_oracle(device, clearcoat: bool, sheen: bool):
    check_device(device, full(clearcoat, sheen)[0], 1e-4, 1e-6)


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
    assert_allclose(found[2].ravel(), [0, 0.09, 0.5, 15])
    assert_allclose(evaluate([reinhard(light, 30.0)])[0].ravel()[-1], 1.0)


EXTENDED = {
    "water": {"ior": 1.33},
    "diamond": {"ior": 2.42},
    "dull": {"specular": 0.3},
    "tinted": {"ior": 1.8, "specular": 0.7, "specular_color": (1.0, 0.5, 0.2)},
    "pane": {"transmission": 0.6},
    "coat": {"clearcoat": 0.8, "clearcoat_roughness": 0.4, "clearcoat_normal": (0.28, 0.0, 0.96)},
}


@pytest.mark.parametrize("name", EXTENDED)
def test_what_is_reflected_and_let_through_is_no_more_than_arrives(name: str):
    """White under even light, and by a sky: the closed form is near the integral, and less than 1.08 as the standard's own."""
    light = directions_by_cosine(20_000)
    for cosine in (0.3, 0.9):
        surface = GltfBsdf.of((1.0, 1.0, 1.0), 0.0, 0.6, **EXTENDED[name])
        eye = image([[np.sqrt(1 - cosine**2), 0, cosine]])
        frame = Frame(ABOVE, eye)
        sky = Environment(np.ones((8, 16, 3))).prefiltered()
        through = surface.transmittance(frame)
        values = [surface.reflected(frame, image(light)), surface.environment(frame, sky).total]
        value, closed, passed = evaluate(
            [*values, F.constant((0.0, 0.0, 0.0)) if through is None else through]
        )
        total = (value[0, 0] / light[:, 2:]).mean(0) * np.pi
        assert 0.2 < (total + passed.ravel()).max() <= 1.08
        assert_allclose(closed.ravel(), total, atol=0.05 if name == "coat" else 0.01)


def test_reflection_is_reciprocal():
    """Light and eye change places. (The layers of the standard are not all reciprocal.)"""
    rng = np.random.default_rng(0)
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (rng.random((2, 30, 3)) + (0, 0, 0.3)))
    for name in ("diamond", "tinted", "pane"):
        surface = GltfBsdf.of((0.8, 0.5, 0.2), 0.3, 0.4, **EXTENDED[name])
        there, back = evaluate(
            [surface.reflected(Frame(ABOVE, image(v)), image(w)) for v, w in ((a, b), (b, a))]
        )
        assert_allclose(there[0, 0] / b[:, 2:], back[0, 0] / a[:, 2:], rtol=1e-9)


def test_reflection_is_that_of_the_extensions():
    """KHR_materials_ior and KHR_materials_specular, seen along the normal, where nothing depends on the angle."""
    base, color, (ior, weight) = np.array([0.8, 0.5, 0.2]), np.array([1.0, 0.5, 0.2]), (1.8, 0.7)
    surface = GltfBsdf.of(tuple(base), 0.0, 1.0, ior=ior, specular=weight, specular_color=tuple(color))
    f0 = np.minimum(((ior - 1) / (ior + 1)) ** 2 * color, 1)
    wanted = (1 - weight * f0.max()) * base / np.pi + weight * f0 / (4 * np.pi)
    assert_allclose(evaluate([surface.reflected(Frame(ABOVE, ABOVE), ABOVE)])[0].ravel(), wanted, rtol=1e-9)
    pane = GltfBsdf.of(tuple(base), 0.0, 1.0, transmission=0.5)
    through = pane.transmittance(Frame(ABOVE, ABOVE))
    assert_allclose(evaluate([through])[0].ravel(), 0.5 * 0.96 * base, rtol=1e-9)


def test_a_clear_layer_reflects_by_the_angle_to_the_eye():
    """KHR_materials_clearcoat: of what is below, emission included, the layer lets pass what it does not reflect."""
    coat = {"clearcoat": 0.5, "clearcoat_roughness": 1.0}
    bare = GltfBsdf.of((0.8, 0.5, 0.2), 0.0, 1.0, emission=(1.0, 2.0, 3.0))
    coated = GltfBsdf.of((0.8, 0.5, 0.2), 0.0, 1.0, emission=(1.0, 2.0, 3.0), **coat)
    frame = Frame(ABOVE, F.constant((0.8, 0.0, 0.6)))
    share = 0.5 * (0.04 + 0.96 * 0.4**5)
    light = F.constant((0.0, 0.6, 0.8))
    below, found, glow = evaluate(
        [bare.reflected(frame, light), coated.reflected(frame, light), coated.emitted(frame)]
    )
    # Of roughness 1: D = 1 / pi, V = 1 / (2 (n.l + n.v)).
    layer = 0.8 / np.pi * 0.5 / (0.8 + 0.6)
    assert_allclose(found.ravel(), below.ravel() * (1 - share) + share * layer, rtol=1e-6)
    assert_allclose(glow.ravel(), np.array([1.0, 2.0, 3.0]) * (1 - share), rtol=1e-9)


def test_gradients_of_the_gltf_model_are_central_differences():
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
    frame = Frame(ABOVE, eye)
    sky = Environment(0.5 + np.random.default_rng(0).random((8, 16, 3))).prefiltered()
    through = surface.transmittance(frame)
    assert through is not None
    value = surface.reflected(frame, light) + surface.environment(frame, sky).total + through
    leaves = [x for name, x in named.items() if name != "clearcoat_normal"]
    assert check_gradient(value, leaves) < 1e-5


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
        assert_allclose(ad.evaluate([value])[0], wanted, rtol=5e-3, atol=1e-3)


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
    assert_allclose(evaluate([surface.emitted(at.frame)])[0].ravel(), (0.5, 0.2, 0.1))


PARAMETERS = {"melanin": 0.4, "redness": 0.6, "longitudinal": 0.35, "azimuthal": 0.4, "ior": 1.5, "tilt": 3.0}


def hair_unit(*values: float) -> tuple[float, ...]:
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


@pytest.mark.parametrize("eye", [hair_unit(0.3, 0.2, 1), hair_unit(-0.8, 0.6, 0.4)])
def test_white_hair_sends_all_light_on_and_pigment_takes_some(eye):
    even = PARAMETERS | {"longitudinal": 0.5, "azimuthal": 0.5}
    white = integrated(HairBsdf.of(**even | {"melanin": 0.0}), eye)
    assert_allclose(white, 1.0, atol=2e-3)
    dark = integrated(HairBsdf.of(**even), eye)
    assert (dark < 0.9).all() and dark[0] > dark[1] > dark[2] > 0


def test_two_directions_are_not_exchangeable():
    """A_p and N_p follow from the direction of the eye: values per cosine differ by more than rounding."""
    a, b, hair = hair_unit(0.5, 0.1, 1), hair_unit(-0.1, 0.9, 0.5), HairBsdf.of(**PARAMETERS)
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
    check_device(device, graph()[0], 2e-3, 1e-4)


@pytest.mark.parametrize("light", [(0.0, 0.0, 1.0), (0.5, 0.0, 0.8)])
def test_the_cornea_gathers_what_meets_it(light):
    """The irradiance over the iris sums to the flux that enters, and is largest on the side turned away from the light."""
    axis = np.linspace(-0.62, 0.62, 125)
    q = np.stack(np.meshgrid(axis, axis), -1)
    eye, towards = EyeBsdf.of((0.8, 0.8, 0.8)), np.array(light) / np.linalg.norm(light)
    at = Variable.of(q, VEC2)
    gathered = eye.gathered(at, F.constant(tuple(towards.tolist())))
    found, normal = (x[0] for x in evaluate([gathered, eye._normal(at)]))
    free = np.hypot(*np.moveaxis(q, -1, 0)) < 0.55
    flux = (np.maximum(normal @ towards, 0) / normal[..., 2] * free).sum()
    assert 0.85 < found.sum() / flux < 1.0
    middle = (found * q[..., 0]).sum() / found.sum()
    assert abs(middle) < 1e-6 if light[0] == 0 else middle < 0.05


def leaves(names: dict[str, float]) -> dict[str, Variable]:
    rng = np.random.default_rng(1)
    return {n: Variable.of(x * rng.uniform(0.9, 1.1, (1, 5)), FLOAT, name=n) for n, x in names.items()}


def vectors(seed: int) -> list[Variable]:
    rng = np.random.default_rng(seed)
    return [Variable.of(rng.normal(size=(1, 5, 3)) * 0.3 + (0, 0, 1), VEC3) for _ in range(3)]


def eye() -> tuple[Variable, list[Variable]]:
    radii = {"radius": 0.5, "pupil": 0.17, "depth": 0.26, "limbus": 0.12, "ior": 1.376, "wetness": 0.3}
    places = np.array([[[0.3, 0.1], [-0.2, 0.25], [0.4, -0.1], [0.7, 0.1], [0.47, 0.05]]])
    given = leaves(radii) | {"place": Variable.of(places, VEC2)}
    for name, x in (("base", (0.8, 0.7, 0.7)), ("iris", (0.2, 0.4, 0.5)), ("inner", (0.4, 0.3, 0.1))):
        given[name] = Variable.of(np.tile(x, (1, 5, 1)), VEC3, name=name)
    normal, to_eye, light = vectors(2)
    frame = Frame(F.normalize(normal), F.normalize(to_eye), F.constant((1.0, 0.0, 0.1, 1.0)))
    value = EyeBsdf.of(**given).reflected(frame, F.normalize(light))
    return value, [*given.values(), normal, to_eye, light]


def tooth() -> tuple[Variable, list[Variable]]:
    given = leaves({"roughness": 0.3})
    for name, x in (("base", (0.8, 0.7, 0.6)), ("scatter", (0.4, 0.3, 0.2)), ("lips", (0.5, 0.4, 0.4))):
        given[name] = Variable.of(np.tile(x, (1, 5, 1)), VEC3, name=name)
    normal, to_eye, light = vectors(3)
    frame = Frame(F.normalize(normal), F.normalize(to_eye))
    value = TeethBsdf.of(**given).reflected(frame, F.normalize(light))
    return value, [*given.values(), normal, to_eye, light]


@pytest.mark.parametrize("made", [eye, tooth])
def test_gradients_of_eyes_by_everything_are_central_differences(made):
    assert check_gradient(*made()) < 1e-5


@pytest.mark.parametrize("made", [eye, tooth])
def test_devices_agree_with_numpy_on_eyes(device, made):
    check_device(device, made()[0], 1e-3, 1e-4)


WHITE = (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "white",
    [
        *[TeethBsdf.of(WHITE, 0.3, (scatter,) * 3) for scatter in (0.0, 0.5, 1.0)],
        EyeBsdf.of(WHITE, (0.2, 0.1), (0.0, 0.0, 1.0), WHITE, WHITE, pupil=0.0, wetness=0.3),
    ],
)
def test_eyes_and_teeth_send_on_no_more_than_they_get(white):
    """Light that reaches beyond the terminator is missing elsewhere, and what a cornea gathers it spreads again."""
    size = (128, 64)
    d = Variable.of(directions(size), VEC3)
    for cosine in (0.2, 0.9):
        seen = F.constant((float(np.sqrt(1 - cosine**2)), 0.0, cosine))
        frame = Frame(ABOVE, seen, F.constant((1.0, 0.0, 0.0, 1.0)))
        value = white.reflected(frame, d) * solid_angles(size)
        assert 0.3 < evaluate([F.sum(value, "xy")])[0].max() < 1.0


def test_lips_hide_light_by_the_solid_angle_of_the_mouth():
    """A disc before a point: r^2 / (r^2 + d^2)."""
    axes = [F.constant(x) for x in ((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 1.0))]
    depth = Variable.of(np.array([[[0, 0, -1.0], [0, 0, -4.0]]]), VEC3)
    (found,) = evaluate([between_lips(depth, *axes)])
    assert_allclose(found[0, 0], [4 / 5, 4 / 20])


@pytest.mark.vk
@pytest.mark.parametrize("form", ["hard", "outer"])
def test_one_eye_alone_has_its_own_radius(form):
    """A part of a material that is named like an input of a picture: the radius of the iris, and that of the soft silhouette."""
    camera = Camera.perspective(30, (24, 24), (0.5, 0.3, 5.0), (0, 0, 0))
    eye = Node(primitives.icosphere(1), EyeBsdf(radius=0.4))
    behind = np.diag([1e-3, 1e-3, 1e-3, 1.0])
    behind[2, 3] = -3.0
    alone, beside = (
        render(Scene(nodes), camera, form=form)
        for nodes in ([eye], [eye, Node(primitives.cube(), to_world=behind)])
    )
    assert np.array_equal(alone.colour, beside.colour) and np.array_equal(alone.mask, beside.mask)


def test_walls_of_a_mouth_shine_where_they_hide_its_opening():
    """A closed sphere that keeps the share c of its light has the radiance of all reflections, o E c (1 + c (1 - o) + ...) / pi."""
    walls = sum(0.2 * 0.5 * (0.5 * 0.8) ** k for k in range(60))
    (glow,) = evaluate([inside_mouth(F.constant((np.pi,) * 3), (0.5,) * 3, 0.2)])
    assert_allclose(glow, walls, rtol=1e-6)
    frame = Frame(ABOVE, ABOVE)
    seen = [TeethBsdf.of(WHITE, lips=(x,) * 3, glow=(0.4,) * 3).emitted(frame) for x in (0.0, 0.75, 1.0)]
    hidden, half, open_ = (x.max() for x in evaluate(seen))
    assert 0.3 < hidden < 0.4 and open_ == 0 and np.isclose(half, hidden / 4)


@pytest.mark.parametrize("distances", [(1.2, 0.5, 0.3), (3.67, 1.37, 0.68), (1.0, 1.0, 1.0)])
def test_a_profile_has_the_energy_of_its_analytic_form_within_every_radius(distances):
    profile, radii = burley(distances), np.geomspace(1e-3, 50, 500)
    found = np.array([profile.within(r) for r in radii])
    assert np.abs(found - burley_within(radii[:, None], np.array(distances))).max() < 0.01
    assert_allclose(profile.weights.sum(0), 1.0)


def square(count: int = 2, size: float = 1.0, height=lambda x, y: 0 * x) -> Mesh:
    """A plane, or a landscape, whose texture coordinates are its places."""
    axis = np.linspace(0, 1, count)
    x, y = (a.ravel() for a in np.meshgrid(axis, axis))
    k = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).ravel()
    faces = np.concatenate(
        [np.stack([k, k + 1, k + count], 1), np.stack([k + 1, k + count + 1, k + count], 1)]
    )
    positions = np.stack([x * size, y * size, height(x, y)], axis=1)
    return Mesh(positions, faces, uvs=np.stack([x, y], 1), uv_faces=faces)


def test_light_spreads_as_far_as_the_profile_says():
    """One bright texel of a plane: the energy within radii, and none is lost. Widths are those in the world, not of the map."""
    size, world = 96, 3.0
    albedo = np.full((size, size, 3), 1e-6)
    albedo[48, 48] = 1.0
    profile = burley((0.16, 0.12, 0.08))
    lamp = DirectionalLight((0, 0, 1))
    (found,) = evaluate([diffused(square(size=world), lamp, profile, size=size, albedo=albedo)])
    found = found[0] - 1e-3
    away = (np.mgrid[:size, :size] - 48) * world / size
    away = np.hypot(*away)
    assert_allclose(found.sum((0, 1)), found.sum((0, 1))[0], rtol=0.02)
    for radius in (0.2, 0.4, 0.8):
        share = (found * (away < radius)[..., None]).sum((0, 1)) / found.sum((0, 1))
        assert_allclose(share, profile.within(radius), atol=0.04)


def test_even_light_stays_even():
    """Of a radiance of 1 from all around, 1 leaves, times the root of the albedo."""
    image = diffused(
        square(), HarmonicsLight(), burley((0.1, 0.05, 0.02)), size=8, albedo=np.full((2, 2, 3), 0.25)
    )
    assert_allclose(evaluate([image])[0], 0.5, rtol=0.02)


def test_light_comes_through_thin_parts_and_red_light_most():
    """A sheet lit from behind, folded so that its upper half lies close below the lower one."""
    thin = [0.01, 0.1]
    seen = []
    for gap in thin:
        mesh = square()
        assert mesh.uvs is not None
        both = np.concatenate([mesh.positions, mesh.positions * (1, 1, 0) - (0, 0, gap)])
        faces = np.concatenate([mesh.faces, mesh.faces[:, ::-1] + 4])
        uvs = np.concatenate([mesh.uvs * (0.5, 1), mesh.uvs * (0.5, 1) + (0.5, 0)])
        box = Mesh(both, faces, uvs=uvs, uv_faces=faces)
        lamp = DirectionalLight((0, 0, -1), shadow=Shadow(32))
        image = diffused(box, lamp, burley((0.05, 0.025, 0.0125)), size=16)
        seen.append(evaluate([image])[0][0, 8, 4])
    # A sheet alone has no thickness: light from behind comes through a hole of what is no solid.
    assert evaluate([diffused(square(), lamp, burley((0.05, 0.025, 0.0125)), size=16)])[0].max() == 0
    assert seen[0][0] > seen[0][1] > seen[0][2] > 0 and seen[0].max() < 1.02
    assert (seen[1] < 0.8 * seen[0]).all() and seen[1][2] < 0.3 * seen[0][2]


def skin(seed: int = 0) -> tuple[Variable, list[Variable]]:
    rng = np.random.default_rng(seed)
    names = ("roughness", "second_roughness", "second", "f0")
    leaves = {name: Variable.of(rng.uniform(0.2, 0.6, (1, 5)), FLOAT, name=name) for name in names}
    leaves["base"] = Variable.of(rng.uniform(0.2, 0.8, (1, 5, 3)), VEC3, name="base")
    directions = [Variable.of(rng.normal(size=(1, 5, 3)) * 0.4 + (0, 0, 1), VEC3) for _ in range(3)]
    eye, light, detail = (F.normalize(x) for x in directions)
    value = SkinBsdf.of(**leaves, detail=detail).reflected(Frame(ABOVE, eye), light)
    return value, [*leaves.values(), *directions]


def test_gradients_of_skin_by_everything_are_central_differences():
    assert check_gradient(*skin()) < 1e-5


def test_devices_agree_with_numpy_on_skin(device):
    value = skin()[0]
    check_device(device, value, 1e-4, 1e-5)


def test_skin_is_reciprocal_and_sends_on_no_more_than_it_gets():
    size = (256, 128)
    d = Variable.of(directions(size), VEC3)
    for cosine in (0.2, 0.9):
        eye = F.constant((float(np.sqrt(1 - cosine**2)), 0.0, cosine))
        value = SkinBsdf.of((1.0, 1.0, 1.0)).reflected(Frame(ABOVE, eye), d) * solid_angles(size)
        assert evaluate([F.sum(value, "xy")])[0].max() < 1.0
    a, b = F.normalize(F.constant((0.4, 0.1, 1.0))), F.normalize(F.constant((-0.3, 0.6, 0.5)))
    one, two = (
        SkinBsdf.of((0.8, 0.5, 0.4)).reflected(Frame(ABOVE, x), y) / F.dot(ABOVE, y)
        for x, y in ((a, b), (b, a))
    )
    assert_allclose(*evaluate([one, two]), rtol=1e-9)


def spread(device=None) -> tuple[Variable, list[Variable]]:
    mesh = square(4, height=lambda x, y: 0.2 * np.sin(5 * x) * y)
    positions = Variable.of(mesh.positions, VEC3, name="positions")
    direction = Variable.of([[[0.3, 0.2, 1.0]]], VEC3, name="direction")
    plain = burley((0.16, 0.12, 0.08))
    scale = Variable.of([[0.9]], FLOAT, name="scale")
    profile = Profile(plain.deviations, Variable.of(plain.weights, VEC3, name="weights"), scale)
    light = DirectionalLight(direction, 3.0)
    image = diffused(mesh, light, profile, size=12, positions=positions, albedo=np.full((2, 2, 3), 0.5))
    return image, [direction, profile.weights]


@pytest.mark.release
def test_gradients_of_spread_light_are_central_differences():
    image, leaves = spread()
    assert check_gradient(image, leaves) < 1e-4


@pytest.mark.one_driver
def test_spread_light_is_the_same_on_devices(device):
    image = spread()[0]
    check_device(device, image, 2e-3, 2e-3)


def test_wrong_profiles_are_refused():
    with pytest.raises(InputError, match="three positive numbers"):
        burley((1.0, 0.0, 1.0))
    with pytest.raises(InputError, match="that grow"):
        Profile([2.0, 1.0], np.ones((3, 3)))
    with pytest.raises(InputError, match="no texture coordinates"):
        diffused(Mesh(np.eye(3), np.array([[0, 1, 2]])), DirectionalLight((0, 0, 1)), burley((1, 1, 1)))
