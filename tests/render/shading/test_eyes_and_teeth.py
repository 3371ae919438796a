"""Eyes and teeth: light that the cornea gathers, energy, derivatives, and devices against NumPy."""

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC2, VEC3
from dressi.render import Camera, Node, Scene, primitives, render
from dressi.render.shading.bsdf import EyeBsdf, Frame, TeethBsdf
from dressi.render.shading.bsdf.teeth import between_lips, inside_mouth
from dressi.render.shading.sphere_filter import directions, solid_angles

UP = F.constant((0.0, 0.0, 1.0))


@pytest.mark.parametrize("light", [(0.0, 0.0, 1.0), (0.5, 0.0, 0.8)])
def test_the_cornea_gathers_what_meets_it(light):
    """The irradiance over the iris sums to the flux that enters, and is largest on the side turned away from the light."""
    axis = np.linspace(-0.62, 0.62, 125)
    q = np.stack(np.meshgrid(axis, axis), -1)
    eye, towards = EyeBsdf.of((0.8, 0.8, 0.8)), np.array(light) / np.linalg.norm(light)
    at = Variable.of(q, VEC2)
    found, normal = (
        x[0] for x in evaluate([eye.gathered(at, F.constant(tuple(towards.tolist()))), eye._normal(at)])
    )
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
    given = leaves(
        {"radius": 0.5, "pupil": 0.17, "depth": 0.26, "limbus": 0.12, "ior": 1.376, "wetness": 0.3}
    )
    given["place"] = Variable.of(
        np.array([[[0.3, 0.1], [-0.2, 0.25], [0.4, -0.1], [0.7, 0.1], [0.47, 0.05]]]), VEC2
    )
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
def test_gradients_by_everything_are_central_differences(made):
    assert check_gradient(*made()) < 1e-5


@pytest.mark.parametrize("made", [eye, tooth])
def test_devices_agree_with_numpy(device, made):
    value = made()[0]
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=1e-3, atol=1e-4)


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
        value = white.reflected(Frame(UP, seen, F.constant((1.0, 0.0, 0.0, 1.0))), d) * solid_angles(size)
        assert 0.3 < evaluate([F.sum(value, "xy")])[0].max() < 1.0


def test_lips_hide_light_by_the_solid_angle_of_the_mouth():
    """A disc before a point: r^2 / (r^2 + d^2)."""
    axes = [F.constant(x) for x in ((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 1.0))]
    depth = Variable.of(np.array([[[0, 0, -1.0], [0, 0, -4.0]]]), VEC3)
    (found,) = evaluate([between_lips(depth, *axes)])
    np.testing.assert_allclose(found[0, 0], [4 / 5, 4 / 20])


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
    np.testing.assert_allclose(glow, walls, rtol=1e-6)
    frame = Frame(UP, UP)
    seen = [TeethBsdf.of(WHITE, lips=(x,) * 3, glow=(0.4,) * 3).emitted(frame) for x in (0.0, 0.75, 1.0)]
    hidden, half, open_ = (x.max() for x in evaluate(seen))
    assert 0.3 < hidden < 0.4 and open_ == 0 and np.isclose(half, hidden / 4)
