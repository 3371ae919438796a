"""Shadow maps and the deep opacity of strands."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, IVEC3, VEC3, F, InputError, Variable
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render import (
    Camera,
    DirectionalLight,
    IesLight,
    Mesh,
    Node,
    PointLight,
    RectangleLight,
    Scene,
    Shadow,
    SpotLight,
    list_leaf,
    primitives,
    render,
)
from dressi.render.mesh import Material
from dressi.render.shading.lights import Fragment, Occluders, PlacedMap, ShadowMap

# A square of side 1 at height 1 above a square of side 4 at height 0.
HIGH, WIDE = np.array([[-0.5, 1, -0.5], [0.5, 1, -0.5], [0.5, 1, 0.5], [-0.5, 1, 0.5]]), (4.0, 0.0, 4.0)
POSITIONS = np.concatenate([HIGH * WIDE, HIGH])
FACES = np.array([[0, 2, 1], [0, 3, 2], [4, 6, 5], [4, 7, 6]])
SUN = np.array([0.5, 1.0, 0.2])
CAMERA = Camera.perspective(40, (48, 48), (1.5, 4, 4), (0, 0, 0))


def test_a_square_shades_the_ground_where_rays_say(engines):
    picture = render((POSITIONS, FACES), CAMERA, light=DirectionalLight(SUN, 3.0, Shadow(384)), smooth=False)
    ground = (picture.face == 0) | (picture.face == 1)
    passed = picture.point + SUN * (1 - picture.point[..., 1:2])
    away = np.abs(passed[..., [0, 2]]).max(-1)
    lit = render((POSITIONS, FACES), CAMERA, light=DirectionalLight(SUN, 3.0), smooth=False).colour
    assert (ground & (away < 0.4)).sum() > 20 and not picture.colour[ground & (away < 0.4)].any()
    assert np.abs(picture.colour - lit)[ground & (away > 0.6)].max() < 1e-5
    assert np.abs(picture.colour - lit)[picture.face > 1].max() < 1e-5


@pytest.mark.one_driver
def test_a_round_surface_does_not_shade_its_lit_side(engines):
    ball, view = primitives.icosphere(3, 1.0), Camera.perspective(40, (48, 48), (0, 0, 4), (0, 0, 0))
    pictures = [render(ball, view, light=DirectionalLight((1, 1, 1), 3.0, s)) for s in (None, Shadow(256))]
    plain, shaded = (p.colour for p in pictures)
    facing = (pictures[0].normal @ np.ones(3)) / np.sqrt(3) > 0.4
    assert np.abs(plain - shaded)[facing].max() < 1e-5


def test_light_fades_over_the_filter_and_has_a_gradient_by_the_point():
    towards = F.constant(tuple(SUN / np.linalg.norm(SUN)))
    occluders = Occluders(list_leaf("p", VEC3, POSITIONS), list_leaf("f", IVEC3, FACES), len(FACES))
    # Along the ground over the border of the shadow.
    row = np.stack([np.linspace(-0.3, 0.4, 36) + 0.0013, np.zeros(36), np.full(36, -0.2)], axis=-1)
    points = Variable(VEC3, (36, 1), name="points", data=row[None, None])
    lit = ShadowMap.of(Shadow(64), occluders, towards).lit(points, F.constant((0.0, 1.0, 0.0)))
    check_gradient(F.mean(F.square(lit)), [points])


@pytest.mark.parametrize("wrong, text", [((1,), "size"), ((64, 0), "softness"), ((64, 3, 0.0), "bias")])
def test_what_it_refuses(wrong: tuple, text: str):
    with pytest.raises(InputError, match=text):
        Shadow(*wrong)


LAMP = np.array([0.3, 3.0, 0.2])
SHADOW = Shadow(192)
LAMPS = {
    "point": PointLight(LAMP, 20.0, SHADOW),
    "spot": SpotLight(LAMP, (-0.1, -1, 0), 20.0, 0.3, 0.8, SHADOW),
    "ies": IesLight(LAMP, np.ones((4, 4)), intensity=20.0, shadow=SHADOW),
}


@pytest.mark.parametrize("name", LAMPS)
def test_lamps_shade_the_ground_where_rays_say(engines, name: str):
    lamp = LAMPS[name]
    pictures = [
        render((POSITIONS, FACES), CAMERA, light=one, smooth=False)
        for one in (lamp, replace(lamp, shadow=None))
    ]
    shaded, plain = (p.colour for p in pictures)
    ground = (pictures[0].face == 0) | (pictures[0].face == 1)
    to_lamp = LAMP - pictures[0].point
    passed = pictures[0].point + to_lamp * ((1 - pictures[0].point[..., 1:2]) / to_lamp[..., 1:2])
    away = np.abs(passed[..., [0, 2]]).max(-1)
    assert (ground & (away < 0.4)).sum() > 20 and not shaded[ground & (away < 0.4)].any()
    assert np.abs(shaded - plain)[ground & (away > 0.6) | (pictures[0].face > 1)].max() < 1e-5


def occluding() -> Occluders:
    return Occluders(list_leaf("p", VEC3, POSITIONS), list_leaf("f", IVEC3, FACES), len(FACES))


UP = F.constant((0.0, 1.0, 0.0))


@pytest.mark.parametrize("axis", [None, (0.0, -1.0, 0.0)])
def test_shadows_of_lamps_have_gradients_by_the_point_the_place_and_the_intensity(axis):
    row = np.stack([np.linspace(-1.1, -0.6, 24) + 0.0013, np.zeros(24), np.full(24, -0.2)], axis=-1)
    points = Variable(VEC3, (24, 1), name="points", data=row[None, None])
    towards = None if axis is None else F.constant(axis)
    lit = PlacedMap.of(Shadow(64), occluding(), F.constant(tuple(LAMP)), towards).lit(points, UP)
    values = evaluate([lit])[0].ravel()
    assert values.min() == 0 and abs(values.max() - 1) < 1e-9 and (np.diff(values) < 1e-9).all()
    check_gradient(F.mean(F.square(lit)), [points])
    # Away from the border.
    place = Variable(VEC3, name="place", data=LAMP.reshape(1, 1, 1, 3))
    power = Variable(FLOAT, name="power", data=[[[7.0]]])
    two = Variable.of([[[-1.5, 0.0, -0.2], [0.1, 0.0, 0.1]]], VEC3)
    lamp = (
        PointLight(place, power, Shadow(64))
        if axis is None
        else SpotLight(place, axis, power, 0.2, 0.8, Shadow(64))
    )
    found = lamp.arriving(Fragment(two, UP, UP, None, occluding()))  # pyright: ignore[reportArgumentType]
    assert found.visible is not None
    light = found.irradiance * found.visible
    assert (evaluate([light])[0].ravel() > 0).tolist() == [True, False]
    check_gradient(F.mean(F.square(light)), [place, power])


def test_penumbrae_of_rectangles_are_those_of_rays(engines):
    lamp = RectangleLight(LAMP, (0.4, 0, 0), (0, 0, 0.4), 20.0, shadow=Shadow(256, 1))
    shaded, plain = (
        render((POSITIONS, FACES), CAMERA, light=one, smooth=False)
        for one in (lamp, replace(lamp, shadow=None))
    )
    ground = (shaded.face == 0) | (shaded.face == 1)
    # 24 x 24 rays a pixel, weighted as a matt surface does.
    steps = (np.arange(24) + 0.5) / 12 - 1
    places = LAMP + np.stack(np.broadcast_arrays(0.4 * steps[:, None], 0.0, 0.4 * steps), -1).reshape(-1, 3)
    away = places - shaded.point[ground][:, None]
    passed = shaded.point[ground][:, None] + away * (1 / away[..., 1:2])
    free = np.abs(passed[..., [0, 2]]).max(-1) > 0.5
    weight = away[..., 1] ** 2 / (away**2).sum(-1) ** 2
    share = (weight * free).sum(1) / weight.sum(1)
    error = shaded.colour[ground][:, 0] / plain.colour[ground][:, 0] - share
    assert (share < 0.9).mean() > 0.1 and np.sqrt((error**2).mean()) < 0.02 and np.abs(error).max() < 0.15


@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda: SpotLight(LAMP, (0, -1, 0), outer=1.5, shadow=SHADOW), "outer angle"),
        (lambda: RectangleLight(LAMP, (1, 0, 0), (0, 0, 1), two_sided=True, shadow=SHADOW), "two sides"),
        (lambda: RectangleLight(LAMP, (1, 0, 0), (0, 0, 1), shadow=SHADOW, samples=0), "from 1 to 64"),
    ],
)
def test_what_lamps_refuse(wrong, text: str):
    with pytest.raises(InputError, match=text):
        wrong().prepared()


DEEP_CAMERA = Camera.perspective(40, (40, 40), (1.5, 4, 4), (0, 0, 0))
SQUARE = np.array([(-0.5, 0, -0.5), (0.5, 0, -0.5), (0.5, 0, 0.5), (-0.5, 0, 0.5)])
DEEP_FACES = np.array([(0, 2, 1), (0, 3, 2)])
UVS = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], float)
FLOOR = Mesh(SQUARE * 4, DEEP_FACES)


def pane(height: float, alpha: Variable) -> Node:
    material = Material(alpha=np.full((1, 1), 0.5), alpha_mode="blend")
    mesh = Mesh(
        SQUARE + (0, height, 0), DEEP_FACES, uvs=UVS, uv_faces=DEEP_FACES, material=material, name="pane"
    )
    return Node(mesh, {"alpha": alpha})


def pictures(heights: tuple[float, ...], values: tuple[float, ...]):
    """(alphas, the picture with the sun's shadows and without)."""
    alphas = [Variable(FLOAT, name=f"alpha {k}", data=[[[v]]]) for k, v in enumerate(values)]
    scene = Scene([Node(FLOOR), *(pane(h, a) for h, a in zip(heights, alphas, strict=True))])
    given = {"form": "hard", "smooth": False, "transparency": 2}
    return alphas, *(
        render(scene, DEEP_CAMERA, light=DirectionalLight(SUN, 3.0, shadow), **given)
        for shadow in (Shadow(128), None)
    )


def check_shadows(run) -> None:
    """Of two panes, one above the other, away from the borders of their shadows."""
    heights, values = (1.0, 0.6), (0.6, 0.3)
    _, shaded, plain = pictures(heights, values)
    dark, lit, point, node = (
        image[0] for image in run([shaded.colour, plain.colour, shaded.point, shaded.node])
    )
    expected, sharp = np.ones(node.shape), node == 0
    for height, value in zip(heights, values, strict=True):
        away = np.abs(point + SUN * (height - point[..., 1:2]))[..., [0, 2]].max(-1)
        expected *= np.where(away < 0.5, 1 - value, 1)
        sharp &= np.abs(away - 0.5) > 0.08
    assert {0.28, 0.4, 1.0} <= set(expected[sharp].round(2))
    ratio = (dark / np.maximum(lit, 1e-9))[sharp]
    assert np.abs(ratio - expected[sharp][:, None]).max() < 0.02


def test_shadows_are_as_dark_as_what_passes():
    check_shadows(evaluate)


@pytest.mark.one_driver
def test_shadows_on_devices(run):
    check_shadows(run)


def test_gradient_by_alpha():
    alphas, shaded, _ = pictures((1.0, 0.6), (0.6, 0.3))
    assert check_gradient(F.mean(shaded.colour), alphas) < 1e-4
