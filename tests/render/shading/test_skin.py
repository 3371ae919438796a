"""Skin: profiles against their analytic form, light that spreads over texture coordinates, energy, derivatives, devices."""

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.errors import InputError
from dressi.render import DirectionalLight, HarmonicsLight, Mesh, Shadow
from dressi.render.shading.bsdf import Frame, SkinBsdf
from dressi.render.shading.skin import Profile, burley, diffused
from dressi.render.shading.skin.profile import burley_within
from dressi.render.shading.sphere_filter import directions, solid_angles

UP = F.constant((0.0, 0.0, 1.0))


@pytest.mark.parametrize("distances", [(1.2, 0.5, 0.3), (3.67, 1.37, 0.68), (1.0, 1.0, 1.0)])
def test_a_profile_has_the_energy_of_its_analytic_form_within_every_radius(distances):
    profile, radii = burley(distances), np.geomspace(1e-3, 50, 500)
    found = np.array([profile.within(r) for r in radii])
    assert np.abs(found - burley_within(radii[:, None], np.array(distances))).max() < 0.01
    np.testing.assert_allclose(profile.weights.sum(0), 1.0)


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
    np.testing.assert_allclose(found.sum((0, 1)), found.sum((0, 1))[0], rtol=0.02)
    for radius in (0.2, 0.4, 0.8):
        share = (found * (away < radius)[..., None]).sum((0, 1)) / found.sum((0, 1))
        np.testing.assert_allclose(share, profile.within(radius), atol=0.04)


def test_even_light_stays_even():
    """Of a radiance of 1 from all around, 1 leaves, times the root of the albedo."""
    image = diffused(
        square(), HarmonicsLight(), burley((0.1, 0.05, 0.02)), size=8, albedo=np.full((2, 2, 3), 0.25)
    )
    np.testing.assert_allclose(evaluate([image])[0], 0.5, rtol=0.02)


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
    value = SkinBsdf.of(**leaves, detail=detail).reflected(Frame(UP, eye), light)
    return value, [*leaves.values(), *directions]


def test_gradients_by_everything_are_central_differences():
    assert check_gradient(*skin()) < 1e-5


def test_devices_agree_with_numpy(device):
    value = skin()[0]
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=1e-4, atol=1e-5)


def test_skin_is_reciprocal_and_sends_on_no_more_than_it_gets():
    size = (256, 128)
    d = Variable.of(directions(size), VEC3)
    for cosine in (0.2, 0.9):
        eye = F.constant((float(np.sqrt(1 - cosine**2)), 0.0, cosine))
        value = SkinBsdf.of((1.0, 1.0, 1.0)).reflected(Frame(UP, eye), d) * solid_angles(size)
        assert evaluate([F.sum(value, "xy")])[0].max() < 1.0
    a, b = F.normalize(F.constant((0.4, 0.1, 1.0))), F.normalize(F.constant((-0.3, 0.6, 0.5)))
    one, two = (
        SkinBsdf.of((0.8, 0.5, 0.4)).reflected(Frame(UP, x), y) / F.dot(UP, y) for x, y in ((a, b), (b, a))
    )
    np.testing.assert_allclose(*evaluate([one, two]), rtol=1e-9)


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
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([image])[0], evaluate([image])[0], rtol=2e-3, atol=2e-3)


def test_wrong_profiles_are_refused():
    with pytest.raises(InputError, match="three positive numbers"):
        burley((1.0, 0.0, 1.0))
    with pytest.raises(InputError, match="that grow"):
        Profile([2.0, 1.0], np.ones((3, 3)))
    with pytest.raises(InputError, match="no texture coordinates"):
        diffused(Mesh(np.eye(3), np.array([[0, 1, 2]])), DirectionalLight((0, 0, 1)), burley((1, 1, 1)))
