"""Meshes: checks, shape, seams, subdivision, unwrapping, sampling."""

import sys
import warnings

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render.mesh import Material, Mesh, primitives, weld
from dressi.render.mesh.holes import close_holes
from dressi.render.mesh.remesh.volume import Grid, level_set
from dressi.render.scene.morph import MorphGeometry
from dressi.render.scene.skeleton import Skeleton

TRIANGLE = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
FACE = np.array([[0, 1, 2]])


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        (Mesh(TRIANGLE, np.zeros((0, 3), int)), "no faces"),
        (Mesh(TRIANGLE, np.array([[0, 1, 3]])), r"\[0, 1, 3\].*out of range for 3"),
        (Mesh(TRIANGLE, np.array([[0, 1, -1]])), "out of range"),
        (Mesh(np.array([[0.0, 0, 0], [1, np.nan, 0], [0, 1, 0]]), FACE), "vertex 1.*NaN or infinite"),
        (Mesh(np.array([[0.0, 0, 0], [1, 0, 0], [0, np.inf, 0]]), FACE), "vertex 2.*NaN or infinite"),
        (Mesh(TRIANGLE, FACE, np.zeros((3, 2)), np.array([[0, 1, 7]])), "uv_faces.*out of range"),
        (Mesh(TRIANGLE, FACE, np.zeros((3, 2)), np.zeros((2, 3), int)), "2 rows for 1 faces"),
        (Mesh(TRIANGLE * 0, FACE), "all 1 faces are degenerate"),
    ],
)
def test_what_is_not_a_mesh_is_refused_in_one_sentence(mesh, words):
    with pytest.raises(InputError, match=words) as caught:
        mesh.clean()
    assert "\n" not in str(caught.value)


def test_arrays_of_the_wrong_shape_are_refused_where_they_are_given():
    with pytest.raises(InputError, match=r"\(n, 3\)"):
        Mesh(np.zeros((3, 2)), FACE)
    with pytest.raises(InputError, match="int64"):
        Mesh(TRIANGLE, np.array([[0.0, 1.0, 2.0]]))
    with pytest.raises(InputError, match="pairs"):
        Mesh(TRIANGLE, FACE, uvs=np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("positions", "faces", "words"),
    [
        (TRIANGLE, FACE.astype(float), r"integers, not float64; pass faces.astype\(np.int64\)"),
        (TRIANGLE, np.array([[0.5, 1, 2]]), "did you swap positions and faces"),
        (TRIANGLE, np.zeros((3, 5), int), r"\(3, 5\); pass faces\.T"),
        (TRIANGLE, np.array([0, 1, 2]), r"pass faces\.reshape\(-1, 3\)"),
        (TRIANGLE, np.zeros((2, 4), int), "split quads"),
        (TRIANGLE[None], FACE, r"pass positions\[0\]"),
        (np.zeros((3, 7)), FACE, r"pass positions\.T"),
        ([[0, 0, 0], [1, 0]], FACE, "give each row as many"),
        (TRIANGLE, np.array([[0, 1, 2**63 + 5]], np.uint64), "no number of a vertex"),
        (np.array([["a", "b", "c"]]), FACE, "float64 numbers"),
    ],
)
def test_arrays_that_do_not_fit_name_the_cure(positions, faces, words):
    with pytest.raises(InputError, match=words):
        Mesh(positions, faces)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64, list])
def test_integers_of_any_kind_are_faces(kind):
    mesh = Mesh(TRIANGLE.tolist(), FACE.tolist() if kind is list else FACE.astype(kind))
    assert mesh.faces.dtype == np.int64 and mesh.validate() is mesh


def test_faces_that_count_from_one_are_told():
    with pytest.raises(InputError, match="count from 0: faces - 1"):
        Mesh(TRIANGLE, FACE + 1).validate()


def test_a_mesh_shows_itself_in_one_line():
    mesh = Mesh(
        TRIANGLE * 2.5, FACE, TRIANGLE[:, :2], FACE, texture=np.zeros((4, 8, 3)), colors=TRIANGLE, name="t"
    )
    assert repr(mesh) == (
        "Mesh 't': 3 vertices, 1 faces, 3 UVs, 8x4 texture, 3 vertex colours, bounds [0, 0, 0] to [2.5, 2.5, 0]"
    )
    assert repr(Mesh(np.zeros((0, 3)), FACE)) == "Mesh 'mesh': 0 vertices, 1 faces, no UVs, no texture"
    assert mesh != Mesh(TRIANGLE, FACE) and mesh == mesh


def test_colours_come_with_faces_of_their_own_or_one_a_vertex():
    assert Mesh(TRIANGLE, FACE, colors=TRIANGLE).color_faces is not None
    with pytest.raises(InputError, match="colors and color_faces come in pairs"):
        Mesh(TRIANGLE, FACE, colors=TRIANGLE[:2])
    with pytest.raises(InputError, match="colour 1 of colors is NaN"):
        Mesh(TRIANGLE, FACE, colors=[[0, 0, 0], [np.nan, 0, 0], [0, 0, 0]]).validate()


def test_attributes_that_are_set_later_are_checked():
    """As when the mesh is made; names that there are not would be kept and never read."""
    mesh, material = Mesh(TRIANGLE, FACE), Material()
    mesh, material = Mesh(**vars(mesh)), Material(**vars(material))
    mesh.colors = TRIANGLE.tolist()
    assert mesh.colors.shape == (3, 3) and mesh.color_faces is mesh.faces
    mesh.validate()
    mesh.uvs = np.zeros((3, 2))
    with pytest.raises(InputError, match="uvs and uv_faces come in pairs"):
        mesh.validate()
    joints = Skeleton([-1], np.eye(4)[None])
    for shape, name, value, words in (
        (mesh, "colours", TRIANGLE, "a Mesh has no attribute 'colours'; did you mean 'colors'"),
        (mesh, "positions", TRIANGLE[:, :2], r"positions must be \(n, 3\)"),
        (mesh, "faces", TRIANGLE + 0.5, "faces must be int64"),
        (material, "rough", 1.0, "a Material has no attribute 'rough'; did you mean 'roughness'"),
        (material, "normal", np.ones((3, 3)), r"normal must be \(H, W, 3\)"),
        (joints, "parent", 0, "a Skeleton has no attribute 'parent'; did you mean 'parents'"),
        (MorphGeometry(mesh, TRIANGLE[None], [0.0]), "weight", 1.0, "did you mean 'weights'"),
    ):
        with pytest.raises(InputError, match=words):
            setattr(shape, name, value)


def test_degenerate_faces_and_unused_vertices_are_dropped():
    positions = np.concatenate([[[9.0, 9, 9]], TRIANGLE, [[0.5, 0, 0]]])
    faces = np.array([[1, 2, 3], [1, 1, 2], [1, 4, 2]])
    with pytest.warns(UserWarning, match="2 of 3 faces are degenerate"):
        mesh = Mesh(positions, faces, np.zeros((1, 2)), np.zeros((3, 3), int)).clean()
    np.testing.assert_array_equal(mesh.positions, TRIANGLE)
    np.testing.assert_array_equal(mesh.faces, FACE)
    assert mesh.uv_faces.shape == (1, 3)


def test_measures_of_known_shapes():
    cube = primitives.cube(0.5)
    assert cube.signed_volume() == pytest.approx(1.0)
    assert cube.face_areas().sum() == pytest.approx(6.0)
    assert cube.is_closed() and cube.euler_characteristic() == 2
    assert cube.moved(cube.positions * (-1, 1, 1)).signed_volume() == pytest.approx(-1.0)
    center, radius = cube.moved(cube.positions + 3).bounding_sphere()
    np.testing.assert_allclose(center, [3, 3, 3])
    assert radius == pytest.approx(0.75**0.5)
    sphere = primitives.icosphere(2)
    assert (np.einsum("vk,vk->v", sphere.vertex_normals(), sphere.positions) > 0.999).all()
    assert primitives.torus().euler_characteristic() == 0
    assert not Mesh(TRIANGLE, FACE).is_closed()


def test_neighbours_are_those_of_the_edges():
    mesh = primitives.icosphere(1)
    offsets, neighbours = mesh.neighbours()
    counts = np.diff(offsets)
    assert sorted(set(counts)) == [5, 6] and (counts == 5).sum() == 12
    pairs = {(v, int(n)) for v in range(len(mesh.positions)) for n in neighbours[offsets[v] : offsets[v + 1]]}
    assert pairs == {pair for a, b in mesh.edges().tolist() for pair in ((a, b), (b, a))}


def test_subdivision_keeps_the_shape_and_the_texture_coordinates():
    cube = primitives.cube()
    fine = cube.subdivide(2)
    assert len(fine.faces) == 16 * 12 and fine.is_closed()
    assert fine.signed_volume() == pytest.approx(8.0)
    # A face's UV area is shared out among its parts.
    assert _uv_area(fine).sum() == pytest.approx(_uv_area(cube).sum())


def test_splitting_at_seams_and_welding_are_inverse():
    mesh = primitives.octasphere(2)
    split = mesh.split_at_seams(normals=True)
    assert len(split.positions) > len(mesh.positions)
    np.testing.assert_array_equal(split.uvs[split.faces], mesh.uvs[mesh.uv_faces])
    np.testing.assert_array_equal(split.positions[split.faces], mesh.positions[mesh.faces])
    np.testing.assert_allclose(np.linalg.norm(split.normals, axis=1), 1)
    positions, faces = weld(split.positions, split.faces)
    assert len(positions) == len(mesh.positions)
    np.testing.assert_array_equal(positions[faces], mesh.positions[mesh.faces])


def test_welding_takes_float32_for_equal_and_keeps_the_order():
    positions = np.array([[1.0, 0, 0], [0.0, 0, 0], [1 + 1e-9, 0, -0.0], [0, 1, 0]])
    welded, faces = weld(positions, np.array([[0, 1, 3], [2, 3, 1]]))
    np.testing.assert_array_equal(welded, positions[[0, 1, 3]])
    np.testing.assert_array_equal(faces, [[0, 1, 2], [0, 2, 1]])


def test_unwrapping_says_so_and_does_not_overlap():
    mesh = primitives.cube().subdivide(1)
    with pytest.warns(UserWarning, match="xatlas"):
        flat = mesh.unwrap(256)
    assert flat.uvs.min() >= 0 and flat.uvs.max() <= 1
    assert flat.uv_faces.shape == flat.faces.shape
    assert covered_twice(flat, 256) == 0
    assert 0.2 < _uv_area(flat).sum() <= 1


def test_a_library_without_a_wheel_for_the_machine_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "xatlas", None)
    monkeypatch.setitem(sys.modules, "mcubes", None)
    with pytest.raises(InputError, match=r"Mesh\.unwrap needs xatlas .*`pip install xatlas`"):
        primitives.cube().unwrap()
    grid = Grid(np.full(3, -1.5), 0.5, (7, 7, 7))
    with pytest.raises(InputError, match=r"volume needs PyMCubes .*`pip install pymcubes`"):
        level_set(1 - np.linalg.norm(grid.points(), axis=-1), grid)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_unwrapping_does_not_depend_on_the_units(scale):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = primitives.cube(scale).unwrap(128)
    assert _uv_area(flat).sum() > 0.2


def test_sampling_is_bilinear_repeats_and_has_texel_centres_at_halves():
    texture = np.random.default_rng(0).random((4, 8, 3))
    mesh = Mesh(TRIANGLE, FACE, TRIANGLE[:, :2], FACE, texture=texture, color=(1, 0.5, 2))
    at = lambda u, v: mesh.sample_texture(np.array([u, v])) / (1, 0.5, 2)  # noqa: E731
    np.testing.assert_allclose(at(2.5 / 8, 1.5 / 4), texture[1, 2])
    np.testing.assert_allclose(at(3 / 8, 1.5 / 4), (texture[1, 2] + texture[1, 3]) / 2)
    np.testing.assert_allclose(at(0.0, 0.0), texture[[0, 0, -1, -1], [0, -1, 0, -1]].mean(0))
    np.testing.assert_allclose(at(2.5 / 8 - 3, 1.5 / 4 + 2), texture[1, 2])


def covered_twice(mesh: Mesh, size: int) -> int:
    """Texels whose centre lies strictly inside the UV triangles of two faces."""
    y, x = np.meshgrid((np.arange(size) + 0.5) / size, (np.arange(size) + 0.5) / size, indexing="ij")
    count = np.zeros((size, size), dtype=int)
    for a, b, c in mesh.uvs[mesh.uv_faces]:
        sides = [(q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]) for p, q in ((a, b), (b, c), (c, a))]
        count += (np.min(sides, axis=0) > 1e-9) | (np.max(sides, axis=0) < -1e-9)
    return int((count > 1).sum())


def _uv_area(mesh: Mesh) -> np.ndarray:
    a, b, c = (mesh.uvs[mesh.uv_faces[:, k]] for k in range(3))
    return 0.5 * np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])


def test_holes_are_closed():
    ball = primitives.icosphere(2)
    found = close_holes(Mesh(ball.positions, np.delete(ball.faces, [0, 1, 2, 3, 100], axis=0)))
    assert found.is_closed() and found.euler_characteristic() == 2
    np.testing.assert_array_equal(close_holes(ball).faces, ball.faces)
