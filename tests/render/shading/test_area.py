"""Light of rectangles, beside sums over their area."""

import numpy as np
import pytest

from dressi import VEC3, DressiAD, F, InputError, Variable, evaluate
from dressi.ad.check import check_gradient
from dressi.render import Camera, GltfBsdf, RectangleLight, primitives, render
from dressi.render.shading.area import Panel
from dressi.render.shading.lights import Fragment

ACROSS, UP, CENTRE = np.array([0.5, 0.0, 0.1]), np.array([-0.08, -0.1, 0.4]), np.array([0.3, 1.6, 0.2])
LIGHT = RectangleLight(tuple(CENTRE), tuple(ACROSS), tuple(UP), (6.0, 5.0, 4.0))
EYE = F.normalize(F.constant((-0.3, 0.8, -0.1)))
NORMALS = Variable.of(
    [[(0.0, 1.0, 0.0), (0.6, 0.64, 0.48), (0.9, 0.1, 0.3), (-0.8, 0.1, 0.6)]], VEC3, name="normal"
)


def fragment(surface, normals=NORMALS) -> Fragment:
    normal = F.normalize(normals)
    return Fragment(normal * 0.8, normal, EYE, surface)


def summed(at: Fragment, count: int = 96) -> np.ndarray:
    """(4, 3): the mean over count x count points of the rectangle."""
    k = (np.arange(count) + 0.5) / count * 2 - 1
    s, t = np.meshgrid(k, k)
    places = CENTRE + s[..., None] * ACROSS + t[..., None] * UP
    normal, found = np.cross(ACROSS, UP), []
    points, normals = evaluate([at.point, at.normal])
    for point, own in zip(points[0, 0], normals[0, 0], strict=True):
        away = Variable.of(places - point, VEC3)
        squared = F.dot(away, away)
        facing = F.maximum(-F.dot(away, F.constant(tuple(normal))), 0.0) / (squared * F.sqrt(squared))
        here = at.frame._replace(normal=F.constant(tuple(own)))
        light = at.surface.reflected(here, F.normalize(away)) * (facing * 4.0)
        found.append(evaluate([F.mean(light)])[0].ravel() * (6.0, 5.0, 4.0))
    return np.array(found)


def test_matt_light_is_exact_where_the_horizon_cuts_it():
    at = fragment(GltfBsdf.of((1.0, 1.0, 1.0), 0.0, 1.0))
    k = (np.arange(800) + 0.5) / 400 - 1
    s, t = np.meshgrid(k, k)
    places = CENTRE + s[..., None] * ACROSS + t[..., None] * UP
    found, points, normals = evaluate([Panel.of(LIGHT, at).diffuse(at.normal), at.point, at.normal])
    for value, point, normal in zip(found[0, 0], points[0, 0], normals[0, 0], strict=True):
        d = places - point
        squared = (d * d).sum(-1)
        cosines = np.maximum(d @ normal, 0) * np.maximum(-(d @ np.cross(ACROSS, UP)), 0)
        wanted = (cosines / squared**2).mean() * 4 / np.pi
        assert abs(value[0] - 6 * wanted) < 2e-4 * max(1, wanted)


@pytest.mark.parametrize(
    ("metallic", "roughness", "bound"), [(1.0, 0.3, 0.01), (1.0, 0.7, 0.01), (0.0, 0.5, 0.02)]
)
def test_gltf_materials_are_near_the_sum_over_the_rectangle(metallic, roughness, bound):
    at = fragment(GltfBsdf.of((0.9, 0.6, 0.3), metallic, roughness))
    (found,), wanted = evaluate([LIGHT.reflected(at)]), summed(at)
    assert wanted.max() > 0.1 and np.abs(found[0, 0] - wanted).max() < bound * wanted.max()


def test_gradients_by_everything_are_central_differences(device):
    values = {"position": CENTRE, "across": ACROSS, "up": UP, "radiance": (2.0, 1.0, 3.0)}
    leaves = {name: Variable.of([[value]], VEC3, name=name) for name, value in values.items()}
    roughness = Variable.of([[0.37]], name="roughness")
    surface = GltfBsdf.of((0.9, 0.6, 0.3), 0.5, roughness)
    position, across, up, radiance = leaves.values()
    value = RectangleLight(position, across, up, radiance).reflected(fragment(surface))
    assert check_gradient(value, [*leaves.values(), roughness, NORMALS]) < 1e-4
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=5e-3, atol=1e-3)


def test_only_the_front_shines_unless_it_has_two_sides(engines):
    ball, camera = primitives.icosphere(2, 0.8), Camera.perspective(40, (24, 24), (0, 1, 4), (0, 0, 0))
    turned = {"position": CENTRE, "across": UP, "up": ACROSS, "radiance": 5.0}
    pictures = [
        render(ball, camera, light=RectangleLight(**turned, two_sided=both)).colour for both in (False, True)
    ]
    assert not pictures[0].any() and pictures[1].max() > 0.2


@pytest.mark.parametrize("up", [(0, 0, 0), (2, 0, 0)])
def test_a_rectangle_without_area_is_refused(up):
    with pytest.raises(InputError, match="no area"):
        render(primitives.cube(), light=RectangleLight((0, 3, 0), (1, 0, 0), up))
