"""Surfaces: checks of their flaws, polygons cut to triangles, tangents, and remeshing."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hostile_files.known import shoelace, simple
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import both

from dressi.errors import InputError
from dressi.render.formats import load_mesh
from dressi.render.mesh import Mesh, primitives, triangulate, weld
from dressi.render.mesh.checks import check_surface, intersecting_faces, winding_in_front
from dressi.render.mesh.primitives import cube, pear
from dressi.render.mesh.remesh import remesh, target_lengths
from dressi.render.mesh.remesh.remesh import decimate_closed


@pytest.mark.parametrize(
    "mesh",
    [primitives.icosphere(2), primitives.cube(), primitives.torus(16, 8), primitives.bumpy_ellipsoid(2)],
)
def test_good_surfaces_have_no_flaws(mesh):
    found = check_surface(mesh)
    assert (found.faces, found.closed) == (len(mesh.faces), True)
    assert (found.inside_out, found.self_intersecting) == (0, 0)
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
    assert_array_equal(front != 0, np.zeros(len(mesh.faces), bool))
    positions[np.unique(mesh.faces[touching])] = mesh.positions[np.unique(mesh.faces[touching])] * -1.5
    pushed = replace(mesh, positions=positions)
    assert (winding_in_front(pushed)[touching] == -1).all()
    found = check_surface(pushed)
    assert touching.sum() <= found.inside_out < len(mesh.faces) / 10 and found.self_intersecting > 0


def test_faces_inside_of_another_part_are_told_from_inverted_ones():
    ball, small = primitives.icosphere(1), primitives.icosphere(1, 0.4)
    front = winding_in_front(both(ball, small))
    assert_array_equal(front, np.repeat([0, 1], len(ball.faces)))
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
    exact = np.array([[Fraction(float(x)) for x in position] for position in mesh.positions])
    corners = exact[mesh.faces]
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


def meets(edge, triangle) -> bool:
    """Where the edge crosses the plane, a point with barycentric coordinates that are not negative."""
    (p, q), (a, b, c) = edge, triangle
    normal = np.cross(b - a, c - a)
    below, above = (p - a) @ normal, (q - a) @ normal
    if below * above > 0 or below == above:
        return False
    point = p + below / (below - above) * (q - p)
    return all(np.cross(y - x, point - x) @ normal >= 0 for x, y in ((a, b), (b, c), (c, a)))


HEXAGON = np.array([[-1, -1], [0, -0.2], [1, -1], [1, 0], [0, 0.8], [-1, 0]])


def covered(points: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = (points[faces[:, k]] for k in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


@pytest.mark.parametrize("ending", ["obj", "ply", "off"])
def test_concave_polygons_of_files(tmp_path, ending):
    rows = "".join(f"{x} {y} 0\n" for x, y in HEXAGON)
    text = {
        "obj": "".join(f"v {row}\n" for row in rows.splitlines()) + "f 1 2 3 4 5 6\n",
        "ply": "ply\nformat ascii 1.0\nelement vertex 6\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
        f"property list uchar int vertex_indices\nend_header\n{rows}6 0 1 2 3 4 5\n",
        "off": f"OFF\n6 1 0\n{rows}6 0 1 2 3 4 5\n",
    }[ending]
    (tmp_path / f"a.{ending}").write_text(text)
    mesh = load_mesh(tmp_path / f"a.{ending}")
    assert covered(mesh.positions, mesh.faces) == pytest.approx(shoelace(HEXAGON)) == pytest.approx(2.0)
    assert (mesh.face_normals()[:, 2] > 0.99).all()


def test_random_polygons_in_space():
    random = np.random.default_rng(0)
    polygons = [simple(random, int(random.integers(4, 16))) for _ in range(40)]
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    points = np.concatenate([np.c_[p, np.zeros(len(p))] for p in polygons]) @ turn.T + (5, 6, 7)
    polygon, faces = triangulate(points, np.array([len(p) for p in polygons]))
    assert (np.diff(polygon) >= 0).all()
    for k, flat in enumerate(polygons):
        own = faces[polygon == k]
        assert covered(points, own) == pytest.approx(abs(shoelace(flat)), rel=1e-9)
        # Each keeps the orientation of the polygon.
        a, b, c = (points[own[:, i]] for i in range(3))
        assert (np.sign(np.cross(b - a, c - a) @ turn[:, 2]) * np.sign(shoelace(flat)) >= 0).all()


def test_a_fan_stays_a_fan():
    octagon = np.exp(2j * np.pi * np.arange(8) / 8)
    faces = triangulate(np.c_[octagon.real, octagon.imag, np.zeros(8)], np.array([8]))[1]
    assert_array_equal(faces, [[0, k, k + 1] for k in range(1, 7)])


def test_bridges_to_holes_are_followed():
    outer = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
    inner = [[1, 1], [1, 3], [2.5, 2.2], [3, 1.5], [1, 1]]
    ring = np.array(outer + inner, float)
    faces = triangulate(np.c_[ring, np.zeros(10)], np.array([10]))[1]
    assert covered(np.c_[ring, np.zeros(10)], faces) == pytest.approx(shoelace(ring))
    # A corner on one side of a bridge, which lies on the other but for rounding, and corners that are twice
    # in a row.
    inner = [[1.46, 2.97], [1.4624824487131751, 1.9135855013906466], [2.1965558289943616, 0.7637972094349612]]
    inner += [[0.2672433897881803, 0.09292718749315965]]
    inner += [[0, 0], [0, 4], [0, 4], [4, 4], [4, 4], [4, 0], [4, 0], [0, 0]]
    ring = np.array([*inner, inner[2], [3.4158236525193266, 2.2], [2.3712258256743914, 2.9240124322476246]])
    for start in range(len(ring)):
        turned = np.c_[np.roll(ring, start, axis=0), np.zeros(len(ring))]
        faces = triangulate(turned, np.array([len(ring)]))[1]
        assert covered(turned, faces) == pytest.approx(abs(shoelace(ring))) and len(faces) == len(ring) - 2


@pytest.mark.parametrize(
    "points",
    [
        [[0, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]],  # crosses itself, without area
        [[0, 0, 0], [3, 3, 0], [3, 0, 0], [0, 1, 0], [2, -2, 1]],
        [[0, 0, 0]] * 7,
        [[k, k, k] for k in range(6)],
        [[0, 0, 0], [np.nan, 1, 0], [1, 1, 0], [1e308, 0, 0], [-1e308, 0, 0]],
        [[0, 0, 0], [1, 0, 0], [1, 0, 0], [0.5, 0.1, 0], [0.5, 0.1, 0], [0, 1, 0], [0, 0, 0]],
    ],
)
def test_degenerate_polygons_have_their_triangles(points):
    polygon, faces = triangulate(np.array(points, float), np.array([0, len(points), 2, 1]) * [0, 1, 0, 0])
    assert len(faces) == len(points) - 2 and (polygon == 1).all()
    assert 0 <= faces.min() <= faces.max() < len(points)


def test_many_and_large_polygons_end():
    comb = np.array([[0, 0], [3, 0], [3, 3], [2, 3], [2, 1], [1, 1], [1, 3], [0, 3]], float)
    points = np.c_[np.tile(comb, (2000, 1)), np.zeros(16000)]
    assert covered(points, triangulate(points, np.full(2000, 8))[1]) == pytest.approx(2000 * shoelace(comb))
    around = np.exp(2j * np.pi * np.arange(400) / 400) * np.random.default_rng(0).uniform(0.5, 1, 400)
    star = np.c_[around.real, around.imag, np.zeros(400)]
    assert covered(star, triangulate(star, np.array([400]))[1]) == pytest.approx(shoelace(star[:, :2]))


def test_a_polygon_that_would_take_minutes_is_refused(monkeypatch):
    monkeypatch.setattr("dressi.render.mesh.polygons.MOST_VISITS", 100_000)
    around = np.exp(2j * np.pi * np.arange(999) / 999) * np.random.default_rng(0).uniform(0.5, 1, 999)
    with pytest.raises(InputError, match=r"polygons of up to 999 corners are too jagged.*triangulate"):
        triangulate(np.c_[around.real, around.imag, np.zeros(999)], np.array([999]))


SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])


def square(uvs):
    faces = [[0, 1, 2], [0, 2, 3]]
    return Mesh(SQUARE, faces, np.asarray(uvs, dtype=float), faces)


def corners(mesh):
    values, faces = mesh.tangents()
    assert values.shape[1] == 4 and faces.shape == mesh.faces.shape and len(np.unique(faces)) == len(values)
    return values[faces]


@pytest.mark.parametrize(
    ("uvs", "expected"),
    [
        ([[0, 1], [1, 1], [1, 0], [0, 0]], [1, 0, 0, 1]),  # v down, as pictures are seen: +Y of normals is up
        ([[0, 0], [1, 0], [1, 1], [0, 1]], [1, 0, 0, -1]),  # mirrored
        ([[0, 0], [0, 2], [2, 2], [2, 0]], [0, 1, 0, 1]),  # turned by a quarter
    ],
)
def test_a_plane(uvs, expected):
    assert_allclose(corners(square(uvs)), np.broadcast_to(expected, (2, 3, 4)), atol=1e-12)


def test_the_bitangent_goes_against_v():
    mesh = pear(24, 12, 8)
    found = corners(mesh)
    n = mesh.vertex_normals()[mesh.faces]
    bitangent = found[..., 3:] * np.cross(n, found[..., :3])
    assert np.abs((found[..., :3] * n).sum(-1)).max() < 1e-12
    assert_allclose(np.linalg.norm(found[..., :3], axis=-1), 1)
    edge = mesh.positions[mesh.faces[:, 1]] - mesh.positions[mesh.faces[:, 0]]
    du, dv = (mesh.uvs[mesh.uv_faces[:, 1]] - mesh.uvs[mesh.uv_faces[:, 0]]).T
    along_u, along_v = ((edge * vectors[:, 0, :3]).sum(-1) for vectors in (found, bitangent))
    clear_u, clear_v = np.abs(du) > 2 * np.abs(dv), np.abs(dv) > 2 * np.abs(du)
    assert (along_u[clear_u] * du[clear_u] > 0).all() and (along_v[clear_v] * dv[clear_v] < 0).all()


def plain(mesh):
    """(F, 3, 4) by loops over corners, for meshes whose points have one fan of faces each."""
    normals = mesh.vertex_normals()
    total, sign = {}, {}
    for pass_ in (0, 1):
        for face, uv_face in zip(mesh.faces, mesh.uv_faces, strict=True):
            p, t = mesh.positions[face], mesh.uvs[uv_face] * (1, -1)
            edges, steps = np.stack([p[1] - p[0], p[2] - p[0]]), np.stack([t[1] - t[0], t[2] - t[0]])
            along = np.linalg.solve(steps, edges)[0]
            orientation = np.sign(np.linalg.det(steps))
            for k in range(3):
                key, n = (face[k], uv_face[k], orientation), normals[face[k]]

                def flat(vector, n=n):
                    vector = vector - n * (n @ vector)
                    return vector / np.linalg.norm(vector)

                cosine = flat(p[(k + 1) % 3] - p[k]) @ flat(p[(k + 2) % 3] - p[k])
                if pass_ == 0:
                    total[key] = total.get(key, 0) + flat(along) * np.arccos(np.clip(cosine, -1, 1))
                else:
                    vector = total[key] / np.linalg.norm(total[key])
                    sign.setdefault((tuple(face), k), [*vector, orientation])
    return np.array([[sign[tuple(face), k] for k in range(3)] for face in mesh.faces])


@pytest.mark.parametrize("mirror", [False, True])
def test_against_a_plain_loop(mirror):
    mesh = pear(12, 8, 8)
    uvs = mesh.uvs + 0.01 * np.random.default_rng(0).normal(size=mesh.uvs.shape)
    if mirror:  # one half has the picture of the other
        uvs = np.abs(mesh.uvs - (0.5, 0))
    assert_allclose(corners(replace(mesh, uvs=uvs)), plain(replace(mesh, uvs=uvs)), atol=1e-9)


def test_normals_and_uvs_part_what_shares_a_tangent():
    assert len(cube().tangents().values) == 24
    assert len(square([[0, 0], [1, 0], [1, 1], [0, 1]]).tangents().values) == 4
    # A fold: the second face has the mirrored UVs of the first.
    assert len(square([[0, 0], [1, 0], [1, 1], [1, 0]]).tangents().values) == 6
    flat = square([[0, 0], [1, 0], [1, 1], [0, 1]])
    hard = replace(flat, normals=[[0, 0, 1.0], [0, 0.6, 0.8]], normal_faces=[[0] * 3, [1] * 3])
    assert len(hard.tangents().values) == 6


def test_faces_without_area_in_the_uvs():
    """They take their neighbour's; alone they take a direction in the surface."""
    half = square([[0, 0], [1, 0], [1, 1], [0.5, 0.5]])
    assert_allclose(corners(half), np.broadcast_to([1, 0, 0, -1], (2, 3, 4)), atol=1e-12)
    mesh = pear(12, 8, 8)
    mesh = replace(mesh, uvs=np.zeros((1, 2)), uv_faces=np.zeros_like(mesh.uv_faces))
    found = corners(mesh)
    n = mesh.vertex_normals()[mesh.faces]
    assert np.abs((found[..., :3] * n).sum(-1)).max() < 1e-12 and (np.abs(found[..., 3]) == 1).all()
    assert_allclose(np.linalg.norm(found[..., :3], axis=-1), 1)


def test_those_of_the_file_are_taken_while_they_hold():
    mesh = square([[0, 0], [1, 0], [1, 1], [0, 1]])
    given = replace(mesh, file_tangents=[[0, 1, 0, -1]], file_tangent_faces=np.zeros((2, 3), int))
    assert_array_equal(given.validate().tangents().values, [[0, 1, 0, -1]])
    assert_array_equal(given.split_at_seams(tangents=True).tangents, [[0, 1, 0, -1]] * 4)
    for other in (given.moved(given.positions), given.subdivide()):
        assert other.file_tangents is None and (other.tangents().values[:, 0] > 0.9).all()
    assert given.with_faces([1]).tangents().faces.shape == (1, 3)
    with pytest.raises(InputError, match="come in pairs"):
        replace(mesh, file_tangents=[[0, 1, 0, -1]])
    with pytest.raises(InputError, match="tangent 0 of file_tangents is NaN"):
        replace(given, file_tangents=[[0, np.nan, 0, 1]]).validate()
    with pytest.raises(InputError, match="has no UVs, which tangents go along"):
        Mesh(SQUARE, [[0, 1, 2]]).tangents()


def test_a_fish_has_the_tangents_of_its_file(data):
    """Its exporter used MikkTSpace."""
    mesh = load_mesh(data / "meshes" / "BarramundiFish_512.glb")
    found = replace(mesh, file_tangents=None, file_tangent_faces=None).tangents()
    values, given = found.values[found.faces], mesh.file_tangents[mesh.file_tangent_faces]
    assert ((values[..., :3] * given[..., :3]).sum(-1) > np.cos(np.radians(1))).all()
    assert (values[..., 3] == given[..., 3]).all()
    joined, _ = weld(given.reshape(-1, 4), np.arange(given.size // 4))
    assert len(joined) <= len(found.values) * 1.01


def quality(mesh: Mesh) -> np.ndarray:
    """(F,) 1 for equilateral faces."""
    corner = mesh.positions[mesh.faces]
    sides = ((corner - np.roll(corner, 1, axis=1)) ** 2).sum((1, 2))
    return 4 * np.sqrt(3) * mesh.face_areas() / sides


def ellipsoid() -> Mesh:
    ball = primitives.octasphere(3)
    return Mesh(ball.positions * (0.5, 1, 3), ball.faces)


def test_needles_keep_their_length():
    """However often edges become longer than a needle is wide."""
    ball = primitives.icosphere(4)
    away = np.linalg.norm(ball.positions - (0, 1, 0), axis=1)
    horned = ball.moved(ball.positions + np.maximum(1 - away / 0.12, 0)[:, None] * (0, 1, 0))
    spindle = ball.moved(ball.positions * (0.03, 1, 0.03))
    for mesh, lengths in ((horned, 0.12), (spindle, 0.1)):
        found = mesh
        for _ in range(3):
            found = remesh(found, lengths=lengths).mesh
        assert len(found.faces) < 0.5 * len(mesh.faces)
        assert np.ptp(found.positions[:, 1]) > 0.75 * np.ptp(mesh.positions[:, 1])


def test_small_parts_keep_their_faces():
    """A ball of a hundredth of the size beside another one stays a body, where it had been a tetrahedron of a quarter of its
    size."""
    ball, size = primitives.icosphere(3), 0.01
    both = np.concatenate([ball.positions, size * ball.positions + (2, 0, 0)])
    found = Mesh(both, np.concatenate([ball.faces, ball.faces + len(ball.positions)]))
    for _ in range(2):
        found = remesh(found, faces=1000, most_faces=1000).mesh
    small = found.positions[found.positions[:, 0] > 1.5]
    assert len(small) > 5 and (np.ptp(small, axis=0) > 0.8 * size).all()


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
    one, z = np.ones(len(mesh.positions)), mesh.positions[:, 2] ** 2
    fields = {"linear": mesh.positions @ slope + 1.0, "one": one, "z": z}
    colours = 0.5 + mesh.positions @ np.diag([0.5, 0.25, 0.1])
    mesh = Mesh(mesh.positions, mesh.faces, colors=colours)
    for faces in (300, 1000):
        found = remesh(mesh, faces=faces, fields=fields)
        points = found.mesh.positions
        assert_allclose(found.fields["linear"], points @ slope + 1.0, atol=1e-12)
        assert_allclose(found.mesh.vertex_colors(), 0.5 + points @ np.diag([0.5, 0.25, 0.1]), atol=1e-12)
        assert_allclose(found.fields["one"], 1.0, atol=1e-12)
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
        assert_allclose(found.uvs[found.uv_faces[here]].reshape(-1, 2), to @ linear, atol=1e-12)


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
    two = both(ball, ball.moved(ball.positions + 3))
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
    assert_allclose(found.fields["x"], found.mesh.positions[:, 0], atol=1e-12)


def test_vertices_where_fans_touch_stay():
    """Two cones that share their tip: the tip is no manifold and is neither moved nor removed."""
    ball = primitives.icosphere(2)
    tip = int(np.argmax(ball.positions[:, 2]))
    other = -ball.positions + 2 * ball.positions[tip]
    faces = ball.faces[:, ::-1] + len(ball.positions)
    faces = np.where(faces == tip + len(ball.positions), tip, faces)
    cones = Mesh(np.concatenate([ball.positions, other]), np.concatenate([ball.faces, faces])).clean()
    with pytest.warns(UserWarning, match="1 vertices"):
        found = remesh(cones, faces=200)
    assert found.fixed == 1 and found.mesh.is_closed()
    assert (found.mesh.positions == ball.positions[tip]).all(1).any()
    assert found.mesh.euler_characteristic() == cones.euler_characteristic()
    # Decimation gives each of them a tip of its own.
    for faces in (200, 10_000):
        apart = decimate_closed(cones, faces)
        assert apart.is_closed() and apart.component_count() == 2
        assert remesh(apart, faces=200).fixed == 0


def test_balls_that_share_an_edge_get_one_each():
    ball = primitives.icosphere(2)
    a, b = ball.faces[0, :2]
    corner, along = ball.positions[a], ball.positions[b] - ball.positions[a]
    normal = np.cross(along, np.cross(along, corner))
    normal /= np.linalg.norm(normal)
    other = ball.positions - 2 * np.outer((ball.positions - corner) @ normal, normal)
    faces = ball.faces[:, ::-1] + len(ball.positions)
    for shared in (a, b):
        faces = np.where(faces == shared + len(ball.positions), shared, faces)
    pair = Mesh(np.concatenate([ball.positions, other]), np.concatenate([ball.faces, faces])).clean()
    assert not pair.is_closed()
    apart = decimate_closed(pair, 10_000)
    assert apart.is_closed() and apart.component_count() == 2
    assert apart.signed_volume() == pytest.approx(2 * ball.signed_volume())
    assert decimate_closed(pair, 200).is_closed()


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
