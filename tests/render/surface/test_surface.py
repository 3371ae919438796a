"""Points on meshes and distances to them, against every face."""

import numpy as np
from trimesh.triangles import closest_point

from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.sampling import SurfaceDistance, sample_surface


def every_face(mesh: Mesh, points: np.ndarray) -> np.ndarray:
    corners = mesh.positions[mesh.faces]
    return np.array(
        [
            np.linalg.norm(closest_point(corners, np.tile(p, (len(corners), 1))) - p, axis=1).min()
            for p in points
        ]
    )


def test_distances_are_those_of_the_nearest_face():
    mesh = primitives.torus(24, 12)
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 3))
    truth = every_face(mesh, points)
    found = SurfaceDistance(mesh).distances(points)
    assert (found >= truth - 1e-12).all()
    np.testing.assert_allclose(found, truth, rtol=1e-3, atol=1e-4)


def test_far_points_are_cut_off_and_points_keep_their_shape():
    points = np.random.default_rng(1).uniform(-3, 3, (4, 5, 3))
    surface = SurfaceDistance(primitives.icosphere(2))
    free, most = surface.distances(points), surface.distances(points, most=0.5)
    assert most.shape == (4, 5) and most.max() == 0.5
    np.testing.assert_array_equal(most, np.minimum(free, 0.5))


def test_every_face_has_a_point():
    # A large face beside a small one, which few samples would miss.
    positions = np.array([[0, 0, 0], [10, 0, 0], [0, 10, 0], [0.01, 0, 5], [0, 0.01, 5], [0, 0, 5.01]])
    mesh = Mesh(positions, np.array([[0, 1, 2], [3, 4, 5]]))
    assert SurfaceDistance(mesh, 10).distances(positions[3:].mean(0)) < 1e-12


def test_points_on_the_surface_are_on_it():
    mesh = primitives.bumpy_ellipsoid(3)
    points = sample_surface(mesh, 3000, seed=2)
    found = SurfaceDistance(mesh, 200_000).distances(points)
    spacing = np.sqrt(mesh.face_areas().sum() / 200_000)
    assert points.shape == (3000, 3)
    assert found.max() < spacing and (found > 1e-9).mean() < 0.01
