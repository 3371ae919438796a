"""Checks of surfaces, against meshes whose flaws are known and against brute force."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from meshes import both

from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface, intersecting_faces, winding_in_front


@pytest.mark.parametrize(
    "mesh",
    [primitives.icosphere(2), primitives.cube(), primitives.torus(16, 8), primitives.bumpy_ellipsoid(2)],
)
def test_good_surfaces_have_no_flaws(mesh):
    found = check_surface(mesh)
    assert (found.faces, found.closed, found.inside_out, found.self_intersecting) == (
        len(mesh.faces),
        True,
        0,
        0,
    )
    assert found.volume == pytest.approx(mesh.signed_volume()) and found.volume > 0
    assert found.handles == (mesh.name == "torus")
    assert check_surface(both(mesh, mesh.moved(mesh.positions + 5.0))).handles == 2 * found.handles
    inverted = check_surface(Mesh(mesh.positions, mesh.faces[:, ::-1]))
    assert inverted.inside_out == len(mesh.faces) and inverted.volume == pytest.approx(-found.volume)


def test_a_vertex_pushed_through_the_other_side_turns_its_faces_over():
    mesh = primitives.icosphere(2)
    positions = mesh.positions.copy()
    positions[0] *= -1.5
    found = check_surface(replace(mesh, positions=positions))
    touching = (mesh.faces == 0).any(1)
    assert found.inside_out == 0  # their middles are still inside
    front = winding_in_front(replace(mesh, positions=positions))
    np.testing.assert_array_equal(front != 0, np.zeros(len(mesh.faces), bool))
    positions[np.unique(mesh.faces[touching])] = mesh.positions[np.unique(mesh.faces[touching])] * -1.5
    pushed = replace(mesh, positions=positions)
    assert (winding_in_front(pushed)[touching] == -1).all()
    found = check_surface(pushed)
    assert touching.sum() <= found.inside_out < len(mesh.faces) / 10 and found.self_intersecting > 0


def test_faces_inside_of_another_part_are_told_from_inverted_ones():
    ball, small = primitives.icosphere(1), primitives.icosphere(1, 0.4)
    front = winding_in_front(both(ball, small))
    np.testing.assert_array_equal(front, np.repeat([0, 1], len(ball.faces)))
    cavity = Mesh(small.positions, small.faces[:, ::-1])
    assert check_surface(both(ball, cavity)).inside_out == 0


def test_an_open_surface_has_no_inside():
    mesh = primitives.icosphere(1)
    found = check_surface(Mesh(mesh.positions, mesh.faces[1:]))
    assert not found.closed and found.inside_out is None


def test_faces_that_cut_each_other_are_found():
    first, second = primitives.icosphere(1), primitives.icosphere(1)
    second.positions = second.positions + (1.1, 0.05, 0.02)
    mesh = both(first, second)
    pairs = intersecting_faces(mesh)
    side = pairs >= len(first.faces)
    assert len(pairs) > 10 and (side[:, 0] != side[:, 1]).all()
    assert {tuple(pair) for pair in pairs} == brute_force(mesh)
    second.positions = second.positions + (2.0, 0, 0)
    assert len(intersecting_faces(both(first, second))) == 0


def test_touching_counts_and_is_decided_exactly():
    base = [[0.1, 0.1, 0.3], [1.3, 0.1, 0.3], [0.1, 1.7, 0.3]]
    tip = np.array(base).mean(0)
    tip[2] = 0.3
    above = [tip, tip + (0.2, 0.1, 0.7), tip + (-0.2, 0.3, 0.9)]
    for lift, hits in ((0.0, 1), (1e-16, 0), (1e-9, 0), (-1e-16, 1)):
        mesh = Mesh(np.array(base + [p + (0, 0, lift) for p in above]), np.array([[0, 1, 2], [3, 4, 5]]))
        assert len(intersecting_faces(mesh)) == hits, lift


def test_random_faces_as_brute_force_has_them():
    rng = np.random.default_rng(3)
    positions = rng.random((36, 3))
    faces = np.stack([rng.permutation(36)[:3] for _ in range(24)])
    mesh = Mesh(positions, faces)
    found = {tuple(pair) for pair in intersecting_faces(mesh)}
    assert found == brute_force(mesh) and len(found) > 3


def brute_force(mesh: Mesh) -> set[tuple[int, int]]:
    """Every pair of faces that share at most a vertex, in rational numbers."""
    corners = [[[Fraction(float(x)) for x in mesh.positions[v]] for v in face] for face in mesh.faces]
    low, high = mesh.positions[mesh.faces].min(1), mesh.positions[mesh.faces].max(1)
    found = set()
    for i in range(len(mesh.faces)):
        for j in range(i + 1, len(mesh.faces)):
            if (low[i] > high[j]).any() or (low[j] > high[i]).any():
                continue
            shared = set(mesh.faces[i]) & set(mesh.faces[j])
            for a, b in ((i, j), (j, i)):
                for k in range(3):
                    ends = {mesh.faces[a][k], mesh.faces[a][(k + 1) % 3]}
                    if len(shared) < 2 and not ends & shared:
                        edge = corners[a][k], corners[a][(k + 1) % 3]
                        if meets(edge, corners[b]):
                            found.add((i, j))
    return found


def minus(a, b):
    return [x - y for x, y in zip(a, b, strict=True)]


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def meets(edge, triangle) -> bool:
    """Where the edge crosses the plane, a point with barycentric coordinates that are not negative."""
    p, q = edge
    normal = cross(minus(triangle[1], triangle[0]), minus(triangle[2], triangle[0]))
    below, above = dot(minus(p, triangle[0]), normal), dot(minus(q, triangle[0]), normal)
    if below * above > 0 or below == above:
        return False
    t = below / (below - above)
    point = [x + t * (y - x) for x, y in zip(p, q, strict=True)]
    return all(
        dot(cross(minus(triangle[(k + 1) % 3], triangle[k]), minus(point, triangle[k])), normal) >= 0
        for k in range(3)
    )
