"""Shapes that the project makes: closed, outward, even, with UVs of their own."""

import numpy as np
import pytest
from test_mesh import covered_twice

from dressi.render.mesh import primitives

CLOSED = {
    "octasphere": (primitives.octasphere(3), 2),
    "icosphere": (primitives.icosphere(2), 2),
    "torus": (primitives.torus(), 0),
    "tetrahedron": (primitives.tetrahedron(), 2),
    "cube": (primitives.cube(), 2),
    "bumpy ellipsoid": (primitives.bumpy_ellipsoid(), 2),
    "bowl": (primitives.bowl(), 2),
    "pear": (primitives.pear(32, 32, 64), 2),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_outward_and_clean(name):
    mesh, euler = CLOSED[name]
    assert mesh.is_closed() and mesh.euler_characteristic() == euler
    assert mesh.signed_volume() > 0
    assert not mesh.degenerate_faces().any()
    assert len(mesh.clean().positions) == len(mesh.positions)


@pytest.mark.parametrize("name", [name for name, (mesh, _) in CLOSED.items() if mesh.uvs is not None])
def test_texture_coordinates_do_not_overlap(name):
    mesh, _ = CLOSED[name]
    assert mesh.uvs.min() >= 0 and mesh.uvs.max() <= 1
    assert covered_twice(mesh, 128) == 0


@pytest.mark.parametrize(
    "sphere", [primitives.octasphere(3, 2.0, (1, 2, 3)), primitives.icosphere(2, 2.0, (1, 2, 3))]
)
def test_spheres_are_round_and_even(sphere):
    np.testing.assert_allclose(np.linalg.norm(sphere.positions - (1, 2, 3), axis=1), 2.0)
    edges = sphere.edges()
    lengths = np.linalg.norm(sphere.positions[edges[:, 0]] - sphere.positions[edges[:, 1]], axis=1)
    assert lengths.max() / lengths.min() < 1.6


def test_octasphere_spreads_its_texels_within_a_factor_of_two():
    sphere = primitives.octasphere(4)
    a, b, c = (sphere.uvs[sphere.uv_faces[:, k]] for k in range(3))
    uv_area = np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]) / 2
    density = uv_area / sphere.face_areas()
    assert density.max() / density.min() < 2.2 and uv_area.sum() > 0.97


def test_pear_is_the_same_each_time_and_has_the_colours_of_a_pear():
    first, again = primitives.pear(texture_size=128), primitives.pear(texture_size=128)
    np.testing.assert_array_equal(first.positions, again.positions)
    np.testing.assert_array_equal(first.texture, again.texture)
    assert first.texture.min() >= 0 and first.texture.max() <= 1
    red, green, blue = first.texture.mean((0, 1))
    assert green > 2 * blue and red > 2 * blue
    steps = np.abs(np.diff(first.texture, axis=1, append=first.texture[:, :1]))
    assert (
        steps[:, -1].max() <= steps.max() and steps[:, -1].mean() < 1.5 * steps.mean()
    )  # u wraps without a step


def test_random_mesh_is_reproducible():
    np.testing.assert_array_equal(
        primitives.random_mesh(5, 3).positions, primitives.random_mesh(5, 3).positions
    )
    assert len(primitives.random_mesh(5).faces) == 5
