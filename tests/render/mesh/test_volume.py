"""Meshes to fields and back, and with fewer faces; against shapes whose topology is known."""

import numpy as np
import pytest
from meshes import both

from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.remesh.decimate import decimate, decimate_closed
from dressi.render.mesh.remesh.volume import Grid, level_set, signed_distances, winding_numbers

BOX = np.array([[-1.2, -1.2, -1.2], [1.2, 1.2, 1.2]])


def test_winding_numbers_count_surfaces():
    ball = primitives.icosphere(3, 0.5)
    grid = Grid.around(BOX, 24)
    far = np.linalg.norm(grid.points(), axis=-1)
    inside = winding_numbers(ball, grid)
    assert (inside[far < 0.49] == 1).all() and (inside[far > 0.5] == 0).all()
    nested = winding_numbers(both(ball, primitives.icosphere(3)), grid)
    assert (nested[far < 0.49] == 2).all() and (nested[(far > 0.5) & (far < 0.98)] == 1).all()
    inverted = winding_numbers(Mesh(ball.positions, ball.faces[:, ::-1]), grid)
    np.testing.assert_array_equal(inverted, -inside)


def test_distances_are_those_of_the_shape():
    grid = Grid.around(BOX, 24)
    found = signed_distances(primitives.icosphere(4), grid)
    truth = 1 - np.linalg.norm(grid.points(), axis=-1)
    most = 3 * grid.step
    assert np.abs(found - np.clip(truth, -most, most)).max() < 0.1 * grid.step
    assert np.abs(found).max() == pytest.approx(most)


@pytest.mark.parametrize("mesh", [primitives.torus(48, 24), primitives.bumpy_ellipsoid(3)])
def test_a_level_set_is_the_shape_again(mesh: Mesh):
    grid = Grid.around(mesh.bounds(), 40)
    found = level_set(signed_distances(mesh, grid), grid)
    assert found.is_closed() and found.euler_characteristic() == mesh.euler_characteristic()
    assert found.signed_volume() == pytest.approx(mesh.signed_volume(), rel=0.01)


def test_crumbs_are_left_out_of_a_level_set():
    grid = Grid.around(BOX, 40)
    away = grid.points() - (0.9, 0.9, 0.9)
    field = np.maximum(0.7 - np.linalg.norm(grid.points(), axis=-1), 0.1 - np.linalg.norm(away, axis=-1))
    assert level_set(field, grid).positions.max() < 0.75
    assert level_set(field, grid, least=1e-4).positions.max() > 0.9


def test_closed_meshes_stay_closed_with_fewer_faces():
    grid = Grid.around(primitives.torus().bounds(), 48)
    fine = level_set(signed_distances(primitives.torus(48, 24), grid), grid)
    for faces in (200, 1000):
        found = decimate_closed(fine, faces)
        assert found.is_closed() and found.euler_characteristic() == 0
        assert faces <= len(found.faces) <= 4 * faces
        assert found.signed_volume() == pytest.approx(fine.signed_volume(), rel=0.05)
    few = decimate_closed(primitives.cube(), 100)
    np.testing.assert_array_equal(few.faces, primitives.cube().faces)
    assert len(decimate(fine, 400).faces) <= 400
