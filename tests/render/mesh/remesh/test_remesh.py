"""Remeshing keeps topology, shape and everything that lives on the surface."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dressi.errors import InputError
from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.remesh import remesh, target_lengths
from dressi.render.mesh.remesh.decimate import decimate_closed


def quality(mesh: Mesh) -> np.ndarray:
    """(F,) 1 for equilateral faces."""
    corner = mesh.positions[mesh.faces]
    sides = ((corner - np.roll(corner, 1, axis=1)) ** 2).sum((1, 2))
    return 4 * np.sqrt(3) * mesh.face_areas() / sides


def ellipsoid() -> Mesh:
    ball = primitives.octasphere(3)
    return Mesh(ball.positions * (0.5, 1, 3), ball.faces)


@pytest.mark.parametrize("faces", [400, 1200])
@pytest.mark.parametrize("mesh", [ellipsoid(), primitives.torus(24, 12)], ids=["ellipsoid", "torus"])
def test_the_shape_stays_and_faces_become_even(mesh, faces):
    found = remesh(mesh, faces=faces, most_faces=int(1.3 * faces)).mesh
    report = check_surface(found)
    assert report.closed and report.handles == check_surface(mesh).handles
    assert report.inside_out == 0 and report.self_intersecting == 0
    assert found.euler_characteristic() == mesh.euler_characteristic()
    # A polyhedron inside of a round shape has less volume: the deviation falls with the number of faces.
    assert abs(found.signed_volume() / mesh.signed_volume() - 1) < 70 / faces
    assert 0.7 * faces < len(found.faces) < 1.3 * faces
    assert len(np.unique(found.faces)) == len(found.positions)
    assert quality(found).min() > 0.2 and quality(found).mean() > 0.85


def test_what_is_linear_on_the_surface_stays_linear():
    mesh = ellipsoid()
    slope = np.random.default_rng(0).normal(size=(3, 2))
    fields = {
        "linear": mesh.positions @ slope + 1.0,
        "one": np.ones(len(mesh.positions)),
        "z": mesh.positions[:, 2] ** 2,
    }
    colours = 0.5 + mesh.positions @ np.diag([0.5, 0.25, 0.1])
    mesh = Mesh(mesh.positions, mesh.faces, colors=colours)
    for faces in (300, 1000):
        found = remesh(mesh, faces=faces, fields=fields)
        points = found.mesh.positions
        np.testing.assert_allclose(found.fields["linear"], points @ slope + 1.0, atol=1e-12)
        np.testing.assert_allclose(
            found.mesh.vertex_colors(), 0.5 + points @ np.diag([0.5, 0.25, 0.1]), atol=1e-12
        )
        np.testing.assert_allclose(found.fields["one"], 1.0, atol=1e-12)
        # Convex combinations stay between the least and the largest value.
        assert fields["z"].min() <= found.fields["z"].min() and found.fields["z"].max() <= fields["z"].max()
        assert found.fields["one"].shape == (len(points),)


def test_texture_coordinates_follow_across_seams():
    """The six sides of a cube are charts of their own, on which UVs are linear functions of the position."""
    cube = primitives.cube()
    found = remesh(cube, faces=300).mesh
    assert found.uvs is not None and found.uv_faces is not None and cube.uvs is not None
    normals, own = found.face_normals(), cube.face_normals()
    # The edges of the cube are seams: no vertex leaves them.
    assert np.isclose(np.abs(normals).max(1), 1).all()
    for side in np.unique(own.round(), axis=0):
        here, there = (np.isclose(n @ side, 1) for n in (normals, own))
        at, to = (
            np.concatenate([m.positions[m.faces[k]].reshape(-1, 3), np.ones((3 * k.sum(), 1))], axis=1)
            for m, k in ((cube, there), (found, here))
        )
        uv = cube.uvs[cube.uv_faces[there]].reshape(-1, 2)
        linear = np.linalg.lstsq(at, uv, rcond=None)[0]
        np.testing.assert_allclose(found.uvs[found.uv_faces[here]].reshape(-1, 2), to @ linear, atol=1e-12)


def test_borders_stay():
    grid = primitives.cube().with_faces(range(2, 12)).subdivide(2)
    with pytest.warns(UserWarning, match="not closed or no manifold: 16 vertices"):
        found = remesh(grid, faces=3 * len(grid.faces))

    def border(mesh: Mesh) -> set:
        half = np.sort(mesh._half_edges(), axis=1)
        ends, uses = np.unique(half, axis=0, return_counts=True)
        return {tuple(sorted(map(tuple, mesh.positions[pair].round(9)))) for pair in ends[uses == 1]}

    assert found.fixed == 4 * 4 and border(found.mesh) == border(grid)
    assert found.mesh.euler_characteristic() == grid.euler_characteristic()
    assert len(found.mesh.faces) > 2 * len(grid.faces)


@settings(max_examples=15)
@given(
    st.integers(0, 2**31),
    st.floats(0.0, 0.25),
    st.floats(0.15, 1.5),
    st.sampled_from(["ball", "torus", "two", "tetrahedron"]),
)
def test_topology_and_fields_survive_any_lengths(seed, noise, length, kind):
    random = np.random.default_rng(seed)
    ball, torus = primitives.icosphere(1), primitives.torus(8, 6)
    two = Mesh(
        np.concatenate([ball.positions, ball.positions + 3]),
        np.concatenate([ball.faces, ball.faces + len(ball.positions)]),
    )
    small = Mesh(np.eye(4)[:, :3], [[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])
    mesh = {"ball": ball, "torus": torus, "two": two, "tetrahedron": small}[kind]
    mesh = mesh.moved(mesh.positions + noise * random.normal(size=mesh.positions.shape))
    lengths = length * random.uniform(0.5, 2.0, len(mesh.positions))
    most = max(2 * len(mesh.faces), 200)
    found = remesh(mesh, lengths=lengths, most_faces=most, fields={"x": mesh.positions[:, 0]})
    assert found.mesh.is_closed() and found.fixed == 0
    assert found.mesh.euler_characteristic() == mesh.euler_characteristic()
    assert found.mesh.component_count() == mesh.component_count()
    assert len(found.mesh.faces) <= most
    assert not found.mesh.degenerate_faces().any()
    assert len(np.unique(found.mesh.faces)) == len(found.mesh.positions)
    np.testing.assert_allclose(found.fields["x"], found.mesh.positions[:, 0], atol=1e-12)


def test_vertices_where_fans_touch_stay():
    """Two cones that share their tip: the tip is no manifold and is neither moved nor removed."""
    ball = primitives.icosphere(2)
    tip = int(np.argmax(ball.positions[:, 2]))
    other = -ball.positions + 2 * ball.positions[tip]
    faces = ball.faces[:, ::-1] + len(ball.positions)
    faces = np.where(faces == tip + len(ball.positions), tip, faces)
    both = Mesh(np.concatenate([ball.positions, other]), np.concatenate([ball.faces, faces])).clean()
    with pytest.warns(UserWarning, match="1 vertices"):
        found = remesh(both, faces=200)
    assert found.fixed == 1 and found.mesh.is_closed()
    assert (found.mesh.positions == ball.positions[tip]).all(1).any()
    assert found.mesh.euler_characteristic() == both.euler_characteristic()
    # Decimation gives each of them a tip of its own.
    for faces in (200, 10_000):
        apart = decimate_closed(both, faces)
        assert apart.is_closed() and apart.component_count() == 2
        assert remesh(apart, faces=200).fixed == 0


def test_lengths_follow_curvature_and_detail():
    mesh = ellipsoid()
    lengths = target_lengths(mesh, 2000)
    tip, belt = np.abs(mesh.positions[:, 2]) > 2.7, np.abs(mesh.positions[:, 2]) < 0.5
    assert lengths[tip].mean() < 0.7 * lengths[belt].mean()
    wanted = np.where(mesh.positions[:, 1] > 0, 4.0, 1.0)
    dense = target_lengths(mesh, 2000, wanted, bending=0.0)
    left, right = mesh.positions[:, 1] < -0.7, mesh.positions[:, 1] > 0.7
    assert 1.6 < dense[left].mean() / dense[right].mean() < 2.4
    edges = mesh.edges()
    # They change slowly.
    assert (np.abs(lengths[edges[:, 0]] - lengths[edges[:, 1]]) <= 0.3001 * mesh.edge_lengths()).all()


def test_remeshing_in_turns_does_not_drift():
    """A mesh that already has its target lengths hardly changes."""
    first = remesh(ellipsoid(), faces=500, rounds=3).mesh
    second = remesh(first, faces=500, rounds=1).mesh
    assert abs(len(second.faces) / len(first.faces) - 1) < 0.15
    assert abs(second.signed_volume() / first.signed_volume() - 1) < 0.015


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"faces": 100, "lengths": 0.1},
        {"faces": 2},
        {"lengths": np.ones(3)},
        {"lengths": 0.0},
        {"faces": 100, "fields": {"colour": np.ones(5)}},
    ],
)
def test_bad_input_is_named(options):
    with pytest.raises(InputError):
        remesh(primitives.icosphere(1), **options)
