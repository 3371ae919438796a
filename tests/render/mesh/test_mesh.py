"""Meshes: primitives, seams, materials, volumes."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import both

import dressi
from dressi.errors import InputError
from dressi.render import MorphGeometry, Skeleton
from dressi.render.core.materials import GLTF, Placement
from dressi.render.fit.phases.remeshed import unfolded
from dressi.render.mesh import Material, Mesh, primitives, weld
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.polygons import close_holes
from dressi.render.mesh.primitives import cube
from dressi.render.mesh.remesh.remesh import decimate, decimate_closed
from dressi.render.mesh.remesh.volume import Grid, level_set, signed_distances, winding_numbers

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


@pytest.mark.parametrize(
    ("positions", "faces", "words"),
    [
        (np.zeros((3, 2)), FACE, r"\(n, 3\)"),
        (TRIANGLE, np.array([[0.0, 1.0, 2.0]]), "int64"),
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


def test_faces_that_count_from_one_and_coordinates_that_are_no_pairs_are_told():
    with pytest.raises(InputError, match="pairs"):
        Mesh(TRIANGLE, FACE, uvs=np.zeros((3, 2)))
    with pytest.raises(InputError, match="count from 0: faces - 1"):
        Mesh(TRIANGLE, FACE + 1).validate()


def test_a_mesh_shows_itself_in_one_line():
    mesh = Mesh(
        TRIANGLE * 2.5, FACE, TRIANGLE[:, :2], FACE, texture=np.zeros((4, 8, 3)), colors=TRIANGLE, name="t"
    )
    assert repr(mesh) == (
        "Mesh 't': 3 vertices, 1 faces, 3 UVs, 8x4 texture, 3 vertex colours, bounds [0, 0, 0] to [2.5, 2.5,"
        " 0]"
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
    assert_array_equal(mesh.positions, TRIANGLE)
    assert_array_equal(mesh.faces, FACE)
    assert mesh.uv_faces.shape == (1, 3)


def test_measures_of_known_shapes():
    cube = primitives.cube(0.5)
    assert cube.signed_volume() == pytest.approx(1.0)
    assert cube.face_areas().sum() == pytest.approx(6.0)
    assert cube.is_closed() and cube.euler_characteristic() == 2
    assert cube.moved(cube.positions * (-1, 1, 1)).signed_volume() == pytest.approx(-1.0)
    center, radius = cube.moved(cube.positions + 3).bounding_sphere()
    assert_allclose(center, [3, 3, 3])
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
    assert_array_equal(split.uvs[split.faces], mesh.uvs[mesh.uv_faces])
    assert_array_equal(split.positions[split.faces], mesh.positions[mesh.faces])
    assert_allclose(np.linalg.norm(split.normals, axis=1), 1)
    positions, faces = weld(split.positions, split.faces)
    assert len(positions) == len(mesh.positions)
    assert_array_equal(positions[faces], mesh.positions[mesh.faces])


def test_welding_takes_float32_for_equal_and_keeps_the_order():
    positions = np.array([[1.0, 0, 0], [0.0, 0, 0], [1 + 1e-9, 0, -0.0], [0, 1, 0]])
    welded, faces = weld(positions, np.array([[0, 1, 3], [2, 3, 1]]))
    assert_array_equal(welded, positions[[0, 1, 3]])
    assert_array_equal(faces, [[0, 1, 2], [0, 2, 1]])


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
    assert_allclose(at(2.5 / 8, 1.5 / 4), texture[1, 2])
    assert_allclose(at(3 / 8, 1.5 / 4), (texture[1, 2] + texture[1, 3]) / 2)
    assert_allclose(at(0.0, 0.0), texture[[0, 0, -1, -1], [0, -1, 0, -1]].mean(0))
    assert_allclose(at(2.5 / 8 - 3, 1.5 / 4 + 2), texture[1, 2])


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
    assert_array_equal(close_holes(ball).faces, ball.faces)


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
    assert_allclose(np.linalg.norm(sphere.positions - (1, 2, 3), axis=1), 2.0)
    lengths = sphere.edge_lengths()
    assert lengths.max() / lengths.min() < 1.6


def test_octasphere_spreads_its_texels_within_a_factor_of_two():
    sphere = primitives.octasphere(4)
    density = _uv_area(sphere) / sphere.face_areas()
    assert density.max() / density.min() < 2.2 and _uv_area(sphere).sum() > 0.97


def test_pear_is_the_same_each_time_and_has_the_colours_of_a_pear():
    first, again = primitives.pear(texture_size=128), primitives.pear(texture_size=128)
    assert_array_equal(first.positions, again.positions)
    assert_array_equal(first.texture, again.texture)
    assert first.texture.min() >= 0 and first.texture.max() <= 1
    red, green, blue = first.texture.mean((0, 1))
    assert green > 2 * blue and red > 2 * blue
    steps = np.abs(np.diff(first.texture, axis=1, append=first.texture[:, :1]))
    # u wraps without a step.
    assert steps[:, -1].max() <= steps.max() and steps[:, -1].mean() < 1.5 * steps.mean()


def test_random_mesh_is_reproducible():
    assert_array_equal(primitives.random_mesh(5, 3).positions, primitives.random_mesh(5, 3).positions)
    assert len(primitives.random_mesh(5).faces) == 5


def normals(size=(8, 8), tilt=0.6, seed=0):
    """(H, W, 3) unit vectors around +Z, as they come out of 8 bits."""
    random = np.random.default_rng(seed)
    xy = random.uniform(-tilt, tilt, (*size, 2))
    vectors = np.concatenate([xy, np.sqrt(1 - (xy**2).sum(-1, keepdims=True))], axis=-1)
    return np.round((vectors * 0.5 + 0.5) * 255) / 255 * 2 - 1


@pytest.mark.parametrize(("fields", "words"), [
    ({"roughness": 3.0}, r"roughness is 3, which is not in \[0, 1\]"),
    ({"metallic": -0.5}, "metallic is -0.5"),
    ({"roughness": float("nan")}, "roughness is nan"),
    ({"metallic": (1.0, 0.0)}, "metallic must be one number"),
    ({"emission": (0.0, -1.0, 0.0)}, r"emission is -1, which is not in \[0, infinity\)"),
    ({"normal_scale": np.inf}, "normal_scale is inf, which is not in"),
    ({"alpha_mode": "glass"}, "alpha_mode is 'glass'; give one of opaque, mask, blend"),
    ({"placements": {"dirt": Placement()}}, "placements name 'dirt'; give some of texture"),
    ({"placements": {"alpha": Placement(uv_set=2)}}, "the placement of alpha: uv_set is 2; give 0 or 1"),
    ({"wrap": ("repeat", "border")}, "give two of repeat, clamp, mirror"),
    ({"sheen_color": (0.0, 0.0, 2.0)}, "sheen_color is 2"),
    ({"metallic_roughness": np.full((4, 4, 2), 1.5)}, r"metallic_roughness is 1.5 \(32 such values\)"),
    ({"occlusion": np.array([[np.nan, 1.0]])}, "occlusion is nan"),
    ({"normal": np.full((4, 4, 3), np.nan)}, "normal map has 16 texels that are NaN"),
    ({"normal": np.zeros((4, 4, 3))}, "normal map is all grey"),
    ({"normal": normals() * 0.5 + 0.5}, r"code values in \[0, 1\]; decode it"),
    ({"normal": normals() * 127}, r"not in \[-1, 1\]; decode it"),
    ({"normal": normals() * 0.5}, r"mean length 0.50\); is it a colour picture"),
    ({"normal": -normals()}, "point outward"),
    ({"normal": np.random.default_rng(0).uniform(-1, 1, (32, 32, 3))}, "is it a colour picture"),
])  # fmt: skip
def test_refused(fields, words):
    with pytest.raises(InputError, match=f"material 'oak': .*{words}"):
        Material(**fields, name="oak").validate()


@pytest.mark.parametrize(("fields", "words"), [
    ({"normal": np.zeros((4, 4))}, r"normal must be \(H, W, 3\), not \(4, 4\)"),
    ({"metallic_roughness": np.zeros((4, 4, 3))}, r"metallic_roughness must be \(H, W, 2\)"),
    ({"occlusion": np.zeros((0, 4))}, r"occlusion must be \(H, W\), not \(0, 4\)"),
    ({"occlusion": np.full((4, 4), 255, np.uint8)}, "occlusion must hold floats, not uint8; divide"),
    ({"emission": 1.0}, "emission must be 3 numbers, not 1.0"),
])  # fmt: skip
def test_wrong_shapes_are_refused_at_once(fields, words):
    with pytest.raises(InputError, match=words):
        Material(**fields)


def test_normal_maps_of_real_files_pass():
    """Maps that were filtered down are shorter than 1; atlases are padded with black."""
    filtered = normals((16, 16)).reshape(8, 2, 8, 2, 3).mean((1, 3))
    padded = np.concatenate([normals(), np.full((24, 8, 3), -1.0)])
    for normal in (normals(), filtered, padded, np.array([[[0.0, 0.0, 1.0]]])):
        assert Material(normal=normal).validate().maps() == ("normal",)


def test_planes_take_one_channel():
    assert Material(occlusion=np.ones((2, 3, 1))).occlusion.shape == (2, 3)


def test_a_mesh_keeps_its_material():
    material = Material(metallic=1.0, roughness=0.5, metallic_roughness=np.full((2, 2, 2), 0.5), wrap="clamp")
    mesh = replace(cube(), material=material)
    assert mesh.validate().material is material and material.wrap == ("clamp", "clamp")
    for other in (mesh.moved(mesh.positions * 2), mesh.subdivide(), mesh.with_faces([0]), mesh.clean()):
        assert other.material is material
    bare = replace(mesh, uvs=None, uv_faces=None)
    with pytest.raises(InputError, match=r"maps \(metallic_roughness\) and the mesh has no UVs"):
        bare.validate()
    with pytest.warns(UserWarning, match="xatlas"):
        unwrapped = mesh.unwrap(64)
    assert unwrapped.material.maps() == () and unwrapped.validate().material.roughness == 0.25
    with pytest.raises(InputError, match="roughness is 2"):
        Mesh(np.eye(3), [[0, 1, 2]], material=Material(roughness=2.0)).validate()


def test_without_maps_keeps_what_the_maps_are_on_average():
    material = Material(
        emission=(2.0, 2.0, 2.0),
        emission_map=np.array([[[1.0, 0.5, 0.0], [0.0, 0.5, 0.0]]]),
        alpha=np.zeros((1, 1)),
        alpha_mode="mask",
        clearcoat=1.0,
        clearcoat_map=np.array([[0.25]]),
    ).without_maps()
    assert material.emission == (1.0, 1.0, 0.0) and material.clearcoat == 0.25
    assert (material.maps(), material.alpha_mode) == ((), "opaque")
    assert repr(material) == "Material(emission=(1.0, 1.0, 0.0), clearcoat=0.25)"


def test_the_guide_shows_the_table():
    guide = Path(dressi.__file__).parent / "docs" / "guides" / "materials.md"
    assert GLTF.table() in guide.read_text(encoding="utf-8")


@pytest.mark.parametrize("pushed", [1, 6])
def test_what_was_pushed_through_the_surface_comes_back(pushed: int):
    ball = primitives.icosphere(3)
    positions = ball.positions.copy()
    # A vertex and those nearest to it, pushed through the other side.
    near = np.argsort(np.linalg.norm(positions - positions[0], axis=1))[:pushed]
    positions[near] *= -1.3
    broken = ball.moved(positions)
    assert check_surface(broken).self_intersecting > 0
    found = unfolded(broken)
    surface = check_surface(found)
    assert surface.inside_out == 0 and surface.self_intersecting == 0
    # Those it passed through give way, too; the rest of the ball stays.
    assert (found.positions == ball.positions).all(1).mean() > 0.75


def test_good_and_open_surfaces_stay_as_they_are():
    ball = primitives.bumpy_ellipsoid(3)
    assert_array_equal(unfolded(ball).positions, ball.positions)
    sheet = Mesh(ball.positions, ball.faces[1:])
    assert unfolded(sheet) is sheet


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
    assert_array_equal(inverted, -inside)


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
    assert_array_equal(few.faces, primitives.cube().faces)
    assert len(decimate(fine, 400).faces) <= 400
