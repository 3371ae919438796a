"""Scenes, groups of what is shaded alike, and shapes that skeletons and morphs move."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import soft_cases as sc
from numpy.testing import assert_allclose

from dressi import F, InputError, Variable, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, MAT4, VEC3, list_image, list_size, list_values
from dressi.render import Camera, Environment, Material, Mesh, Shadow, TriangleGeometry, primitives, render
from dressi.render.core.lists import list_leaf
from dressi.render.core.materials import MaterialKind, Parameter, Placement
from dressi.render.drawing.scenes import groups, joined
from dressi.render.drawing.scenes.joined import scene_given
from dressi.render.scene.geometry import MorphGeometry
from dressi.render.scene.scene import Node, Scene
from dressi.render.scene.skin import Skeleton, SkinnedGeometry
from dressi.render.shading.bsdf import Bsdf
from dressi.render.shading.lights import DirectionalLight, PointLight

SIZE = (48, 32)
CAMERA = Camera.perspective(45, SIZE, (0.5, 1.0, 5), (0, 0, 0))
SUN = DirectionalLight((1, 2, 2), shadow=Shadow(64, 1))
RANDOM = np.random.default_rng(5)


def place(*at: float, scale: float = 1.0, mirror: bool = False) -> np.ndarray:
    matrix = np.diag([-scale if mirror else scale, scale, scale, 1.0])
    matrix[:3, 3] = at
    return matrix


def matrix(name: str, values: np.ndarray) -> Variable:
    values = np.asarray(values, float).reshape(-1, 1, 1, 4, 4)
    return Variable(MAT4, (1, 1), len(values), name=name, data=values)


def leaf(name: str, points: np.ndarray) -> Variable:
    return Variable(VEC3, list_size(len(points)), name=name, data=list_image(np.asarray(points, float)))


def textured() -> Mesh:
    """A cube with a texture, a normal map and normals of its own."""
    cube = primitives.cube()
    bumps = RANDOM.normal(size=(4, 4, 3)) * 0.2 + (0, 0, 1)
    bumps /= np.linalg.norm(bumps, axis=-1, keepdims=True)
    normals = np.eye(3)[np.abs(cube.positions[cube.faces].mean(1)).argmax(1)]
    normals *= np.sign((normals * cube.positions[cube.faces].mean(1)).sum(1, keepdims=True))
    index = np.repeat(np.arange(len(cube.faces)), 3).reshape(-1, 3)
    material = Material(roughness=0.4, normal=bumps, name="bumpy")
    texture = RANDOM.random((4, 4, 3))
    return replace(cube, texture=texture, normals=normals, normal_faces=index, material=material)


METAL = Material(metallic=0.9, roughness=0.3, name="metal")
BALL = replace(primitives.icosphere(1), color=(0.8, 0.3, 0.2), material=METAL)
BOX = textured()
PAINTED = Mesh(
    [[-3, -1, -3], [3, -1, -3], [3, -1, 3], [-3, -1, 3]], [[0, 2, 1], [0, 3, 2]], colors=RANDOM.random((4, 3))
)
PLACES = (place(-1, 0, 0, scale=0.6), place(1.1, 0, 0.2, scale=0.7, mirror=True), place(0, -0.2, 0))


def scene(to_world=lambda name, values: values) -> Scene:
    meshes = zip(("box", "ball", "floor"), (BOX, BALL, PAINTED), PLACES, strict=True)
    return Scene([Node(mesh, to_world=to_world(name, at), name=name) for name, mesh, at in meshes])


def moved(mesh: Mesh, at: np.ndarray) -> Mesh:
    """The mesh in the world by NumPy alone, with normals of its own."""
    faces, index = mesh.faces, mesh.normal_faces
    sign = np.sign(np.linalg.det(at[:3, :3]))
    found = mesh.moved(mesh.positions @ at[:3, :3].T + at[:3, 3])
    if mesh.normals is not None:
        found.normals = mesh.normals @ np.linalg.inv(at[:3, :3])
        found.normals /= np.linalg.norm(found.normals, axis=1, keepdims=True)
        found.normal_faces = index
    if sign < 0:
        found.faces = faces[:, ::-1]
        for name in ("uv_faces", "normal_faces", "color_faces"):
            if getattr(found, name) is not None:
                setattr(found, name, getattr(found, name)[:, ::-1])
    return found


EMPTY = {"node": -1, "face": -1, "away": np.inf}
NAMES = ("colour", "mask", "depth", "normal", "point", "node", "face")


def alone(light) -> dict[str, np.ndarray]:
    """What the scene shows, from pictures of one mesh each and their depths."""
    found: dict[str, np.ndarray] = {}
    for number, (mesh, at) in enumerate(zip((BOX, BALL, PAINTED), PLACES, strict=True)):
        picture = render(moved(mesh, at), CAMERA, light=light, form="hard", outputs=NAMES)
        images = {name: np.array(getattr(picture, name)) for name in NAMES}
        images["node"] = np.where(images["face"] < 0, -1, number)
        away = np.where(images["face"] < 0, np.inf, images["depth"])
        nearer = away < found.get("away", np.inf)
        images["away"] = away
        for name, image in images.items():
            before = found.get(name, np.full_like(image, EMPTY.get(name, 0)))
            found[name] = np.where(nearer.reshape(nearer.shape + (1,) * (image.ndim - 2)), image, before)
    return found


@pytest.mark.vk
def test_a_scene_shows_what_its_nodes_show_alone():
    """Textures, normal maps, vertex colours, factors, normals of a file, a mirror: by arrays and by
    Variables."""
    light = DirectionalLight((1, 2, 2))
    truth = alone(light)
    arrays = render(scene(), CAMERA, light=light, outputs=NAMES)
    for name in NAMES:
        assert_allclose(getattr(arrays, name), truth[name], atol=3e-3, err_msg=name)
    assert set(np.unique(arrays.node)) == {-1, 0, 1, 2} and set(np.unique(arrays.material)) == {-1, 0, 1, 2}
    picture = render(scene(matrix), CAMERA, light=light, form="hard")
    for name, image in zip(NAMES, evaluate([getattr(picture, name) for name in NAMES]), strict=True):
        assert (np.abs(image[0] - truth[name]) > 3e-3).mean() < 0.01, name


def test_one_node_makes_the_graph_of_its_mesh():
    at = matrix("at", PLACES[0])
    one = render(Scene([Node(BALL, to_world=at)]), CAMERA, light=SUN, radius=0.1)
    mesh = render(BALL, CAMERA, to_world=at, light=SUN, radius=0.1)
    images = [evaluate([p.colour, p.mask, p.node])[k] for k in range(3) for p in (one, mesh)]
    for found, expected in zip(images[::2], images[1::2], strict=True):
        np.testing.assert_array_equal(found, expected)
    from dressi.ad.graph.traversal import topological_order

    assert len(topological_order([one.colour])) == len(topological_order([mesh.colour]))


def test_normals_of_a_file_turn_with_the_node():
    """Arrays and Variables, the latter in a mirror of which only its factors are known; backs are not
    drawn."""
    turn = np.diag([1.0, 1, 1, 1])
    turn[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    mirror = turn @ np.diag([-1.0, 1, 1, 1])
    product = F.matmul(matrix("turn", turn), F.constant(np.diag([-1.0, 1, 1, 1])))
    for at, values in ((turn, turn), (mirror, mirror), (product, mirror)):
        shown = render(BOX, CAMERA, to_world=at, form="hard", cull="back", outputs=("normal",)).normal
        found = evaluate([shown])[0][0] if isinstance(shown, Variable) else shown
        expected = render(moved(BOX, values), CAMERA, outputs=("normal",)).normal
        assert_allclose(found, expected, atol=1e-3)


def tetrahedra() -> tuple[Scene, list[Variable]]:
    """A ball, and a tetrahedron twice, one in front of and one behind it; and their leaves."""
    points, faces = sc.icosphere(1)
    ball = leaf("ball", points)
    tetra = leaf("tetra", np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]))
    shape = TriangleGeometry((tetra, np.array([(0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2)])))
    at = [place(0, 0, 0, scale=0.7), place(0.7, 0.2, 1.5, scale=0.7), place(-0.9, 0.1, -1.5, scale=0.7)]
    places = [matrix(f"place {k}", one) for k, one in enumerate(at)]
    nodes = [Node((ball, faces), to_world=places[0]), *(Node(shape, to_world=m) for m in places[1:])]
    return Scene(nodes), [ball, tetra, *places]


def test_positions_are_differentiable_in_shapes_that_nodes_share_and_in_places():
    nodes, leaves = tetrahedra()
    drawn = scene_given(nodes)
    parts = {n: g if isinstance(g, Variable) else g.leaf(n) for n, g in drawn.given.items()}
    position = drawn.recipe.position(parts)
    each = []
    for shape, count, at in zip((leaves[0], leaves[1], leaves[1]), (42, 4, 4), leaves[2:], strict=True):
        by = at.data[0, 0, 0]
        each.append(list_values(shape.data, count)[0] @ by[:3, :3].T + by[:3, 3])
    assert_allclose(list_values(evaluate([position])[0], 50)[0], np.concatenate(each), atol=1e-12)
    assert check_gradient(position, leaves) < 1e-6


def slopes(run) -> list[np.ndarray]:
    nodes, leaves = tetrahedra()
    picture = render(nodes, Camera.perspective(40, SIZE, (0, 1, 5), (0, 0, 0)), radius=4 / 32)
    ramp = Variable(FLOAT, SIZE, data=np.linspace(0, 1, SIZE[0] * SIZE[1]).reshape(1, SIZE[1], SIZE[0]))
    return run(gradient(F.sum(F.square(picture.mask - ramp)), leaves))


@pytest.mark.one_driver
def test_gradients_by_shapes_and_places_on_devices(run):
    for found, expected in zip(slopes(run), slopes(evaluate), strict=True):
        assert np.abs(expected).max() > 0.01
        assert np.linalg.norm(found - expected) <= 2e-3 * np.linalg.norm(expected)


def test_a_vertex_that_is_no_number_spoils_nothing_else():
    nodes, leaves = tetrahedra()
    broken = np.array(leaves[0].data)
    broken[0, 0, 7] = np.nan
    mask = render(nodes, CAMERA, radius=4 / 32).mask
    found = evaluate([mask, *gradient(F.sum(mask), leaves)], {leaves[0]: broken})
    assert all(np.isfinite(x).all() and x.any() for x in found)


def test_every_form_shades_every_node_and_colours_have_gradients():
    """As one mesh of all faces, whose one colour has the sum of the gradients."""
    red = [Variable(VEC3, (1, 1), name=name, data=[[[[0.5, 0.2, 0.1]]]]) for name in "abc"]
    cube, ball = primitives.cube(), moved(BALL, PLACES[1])
    shown = [Node(cube, {"emission": red[0]}), Node(BALL, {"emission": red[1]}, PLACES[1])]
    faces = np.concatenate([cube.faces, ball.faces + len(cube.positions)])
    both = Mesh(np.concatenate([cube.positions, ball.positions]), faces)
    arguments = {"cameras": CAMERA, "light": PointLight((0, 3, 4), 0.0)}
    for form in ("hard", "outer", "face", "edges"):
        apart = render(Scene(shown), form=form, **arguments)
        joined = render(both, material={"emission": red[2]}, form=form, **arguments)
        images = evaluate([apart.colour, joined.colour])
        assert_allclose(*images, atol=1e-9, err_msg=form)
        a, b = evaluate(gradient(F.sum(F.sum_components(apart.colour)), red[:2]))
        (whole,) = evaluate(gradient(F.sum(F.sum_components(joined.colour)), red[2:]))
        assert a.min() > 10 and b.min() > 10, form
        assert_allclose(a + b, whole, rtol=1e-9, err_msg=form)


@pytest.mark.vk
def test_nodes_throw_shadows_on_each_other():
    floor = Node(PAINTED, {"roughness": 1.0})
    above = Node(primitives.cube(), to_world=place(0, 1.2, 0, scale=0.5))
    lit = render(Scene([floor, above]), CAMERA, light=DirectionalLight((0, 1, 0.01)))
    dark = render(Scene([floor, above]), CAMERA, light=DirectionalLight((0, 1, 0.01), shadow=Shadow(128)))
    floor_seen = lit.node == 0
    share = dark.colour.sum(-1)[floor_seen] / lit.colour.sum(-1)[floor_seen]
    assert (share < 0.1).sum() > 10 and (share > 0.9).sum() > 100


def test_instances_of_arrays_share_an_engine_whatever_their_places():
    from dressi.render.drawing.pixels import _engines, close_engines

    close_engines()
    for x in (-1.0, 0.5, 1.0):
        render(Scene([Node(BALL), Node(BALL, to_world=place(x, 0, 0))]), CAMERA).colour  # noqa: B018
    assert len(_engines) == 1


BAD = Node((BALL.positions, np.array([[0, 1, 99]])), name="bad")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scene([]), "at least one node"),
        (lambda: Scene([Node(BALL), BALL]), "node 1 of a scene is a Node, not Mesh"),
        (lambda: Node("wheel.glb"), "load_scene"),
        (lambda: Node(BALL, to_world=np.eye(3), name="wheel"), r"node 'wheel': to_world is a matrix \(4, 4\)"),
        (lambda: Node(BALL, to_world=np.eye(4) * np.nan, name="wheel"), "node 'wheel': to_world has values that are NaN"),
        (lambda: render(Scene([Node(BALL, {"roughnes": 1.0}, name="wheel"), Node(BALL)])), "node 'wheel': .*roughnes"),
        (lambda: render(Scene([Node(BALL)]), colours=BALL.positions), "colours of a scene belong to its nodes"),
        (lambda: Scene([Node(BALL, name="wheel")])["whel"], "no node 'whel'; did you mean 'wheel'"),
        (lambda: render(Scene([Node(BALL), BAD])), "node 'bad': faces: face 0 is"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(make, words: str):
    with pytest.raises(InputError, match=words):
        make()


def test_texts_are_short():
    nodes = [Node(BALL, {"roughness": 0.5}, np.eye(4), "wheel"), Node(BOX)]
    assert repr(nodes[0]) == "Node('wheel': TriangleGeometry, material roughness, placed)"
    assert repr(Scene(nodes, {"eye": CAMERA})) == "Scene(2 nodes: wheel, cube; 1 camera)"


@pytest.mark.one_driver
def test_a_parallel_projection_looks_from_far_away(device):
    matrix = np.diag([0.4, 0.4, 0.1, 1.0])
    matrix[2, 3] = 0.5
    cube, lights = primitives.cube(), ("headlight", (0, 0, -1))
    shown = [render(cube, matrix, size=(16, 16), light=light).colour for light in lights]
    assert_allclose(*shown, atol=1e-4)
    assert shown[0][8, 8].min() > 0.5


def test_a_picture_is_shown_in_a_line():
    assert repr(render(primitives.cube(), size=(8, 8))) == "Pixels(colour, mask)"


MOVED_RANDOM = np.random.default_rng(3)
MOVED_BALL = primitives.icosphere(1)
COUNT = len(MOVED_BALL.positions)
MODES = MOVED_RANDOM.normal(size=(5, COUNT, 3)) * 0.1
WEIGHTS = MOVED_RANDOM.normal(size=5)
MOVED_CAMERA = Camera.perspective(45, (40, 32), (0.5, 1.0, 5), (0, 0, 0))
OUTWARD = MOVED_BALL.positions / np.linalg.norm(MOVED_BALL.positions, axis=1)[:, None]
SMOOTH = replace(MOVED_BALL, normals=OUTWARD, normal_faces=MOVED_BALL.faces)


def rigid_places(count: int) -> np.ndarray:
    """(count, 4, 4): small rotations and shifts."""
    found = np.tile(np.eye(4), (count, 1, 1))
    found[:, :3, :3] = np.linalg.qr(np.eye(3) + MOVED_RANDOM.normal(size=(count, 3, 3)) * 0.2)[0]
    found[:, :3, :3] *= np.sign(np.linalg.det(found[:, :3, :3]))[:, None, None]
    found[:, :3, 3] = MOVED_RANDOM.normal(size=(count, 3)) * 0.3
    return found


PARENTS = np.array([-1, 0, 1, 2, 1, 3])
LOCAL, BIND = rigid_places(6), rigid_places(6)
JOINTS = MOVED_RANDOM.integers(0, 6, (COUNT, 4))
SHARES = MOVED_RANDOM.dirichlet(np.ones(4), COUNT)


def world() -> np.ndarray:
    found = []
    for k, parent in enumerate(PARENTS):
        found.append(LOCAL[k] if parent < 0 else found[parent] @ LOCAL[k])
    return np.stack(found)


def skinned(points: np.ndarray) -> np.ndarray:
    """By a loop over vertices and joints."""
    matrices, found = world() @ BIND, np.zeros_like(points)
    for v, point in enumerate(points):
        for joint, share in zip(JOINTS[v], SHARES[v], strict=True):
            found[v] += share * (matrices[joint] @ [*point, 1])[:3]
    return found


def rows(values, count: int) -> np.ndarray:
    return list_values(evaluate([values])[0], count)[0]


def test_morphed_positions_are_sums_of_modes_and_differentiable():
    truth = MOVED_BALL.positions + sum(w * mode for w, mode in zip(WEIGHTS, MODES, strict=True))
    arrays = MorphGeometry(MOVED_BALL, MODES, WEIGHTS)
    assert_allclose(arrays.lists()["positions"], truth, atol=1e-12)
    weights, mean = list_leaf("weights", FLOAT, WEIGHTS), list_leaf("mean", VEC3, MOVED_BALL.positions)
    found = MorphGeometry(MOVED_BALL, MODES, weights, positions=mean).lists()["positions"]
    assert_allclose(rows(found, COUNT), truth, atol=1e-12)
    assert check_gradient(found, [weights, mean]) < 1e-6
    one = MorphGeometry(MOVED_BALL, MODES[:1], list_leaf("weight", FLOAT, WEIGHTS[:1])).lists()["positions"]
    assert_allclose(rows(one, COUNT), MOVED_BALL.positions + WEIGHTS[0] * MODES[0], atol=1e-12)


def test_several_weights_make_several_tiles():
    many = np.stack([WEIGHTS, -WEIGHTS, 0 * WEIGHTS])
    shape = MorphGeometry(MOVED_BALL, MODES, Variable(FLOAT, (5, 1), 3, data=many[:, None]))
    found = evaluate([shape.lists()["positions"]])[0]
    assert_allclose(found, np.concatenate([list_image(m) for m in shape.weighted(many).moved]), atol=1e-12)


def test_normals_follow_modes_of_their_own():
    modes = MOVED_RANDOM.normal(size=(5, COUNT, 3)) * 0.1
    arrays = MorphGeometry(SMOOTH, MODES, WEIGHTS, normal_modes=modes).lists()["normals"]
    truth = SMOOTH.normals + np.tensordot(WEIGHTS, modes, 1)
    assert_allclose(arrays, truth / np.linalg.norm(truth, axis=1)[:, None], atol=1e-12)
    given = MorphGeometry(SMOOTH, MODES, list_leaf("w", FLOAT, WEIGHTS), normal_modes=modes)
    assert_allclose(rows(given.lists()["normals"], COUNT), arrays, atol=1e-12)
    assert "normals" not in MorphGeometry(SMOOTH, MODES, WEIGHTS).lists()


def test_skins_are_sums_over_joints_and_differentiable():
    truth = skinned(MOVED_BALL.positions)
    shape = SkinnedGeometry(SMOOTH, JOINTS, SHARES, BIND, Skeleton(PARENTS, LOCAL))
    assert_allclose(shape.lists()["positions"], truth, atol=1e-12)
    local = list_leaf("local", MAT4, LOCAL)
    moved = shape.posed(Skeleton(PARENTS, local)).lists()
    assert_allclose(rows(moved["positions"], COUNT), truth, atol=1e-12)
    assert_allclose(rows(moved["normals"], COUNT), shape.lists()["normals"], atol=1e-12)
    assert check_gradient(moved["positions"], [local]) < 1e-6
    weights = list_leaf("weights", FLOAT, WEIGHTS)
    morphed = MorphGeometry(MOVED_BALL, MODES, weights)
    both = SkinnedGeometry(morphed, JOINTS, SHARES, BIND, Skeleton(PARENTS, local))
    positions = both.lists()["positions"]
    expected = skinned(MOVED_BALL.positions + np.tensordot(WEIGHTS, MODES, 1))
    assert_allclose(rows(positions, COUNT), expected, atol=1e-12)
    assert check_gradient(positions, [weights, local]) < 1e-6


def picture() -> tuple[list[Variable], list[Variable]]:
    """Images of a scene of both, and the gradients of a loss."""
    local, weights = list_leaf("local", MAT4, LOCAL), list_leaf("weights", FLOAT, WEIGHTS)
    skin = SkinnedGeometry(SMOOTH, JOINTS, SHARES, BIND, Skeleton(PARENTS, local))
    shift = np.eye(4)
    shift[0, 3] = 1.2
    nodes = Scene([Node(skin), Node(MorphGeometry(MOVED_BALL, MODES, weights), to_world=shift)])
    shown = render(nodes, MOVED_CAMERA, radius=0.1)
    return [shown.mask, shown.normal], gradient(F.mean(F.square(shown.mask - 0.3)), [local, weights])


@pytest.mark.one_driver
def test_both_are_drawn_on_devices(run):
    images, slopes = picture()
    expected = evaluate([*images, *slopes])
    for found, truth in zip(run([*images, *slopes]), expected, strict=True):
        assert np.linalg.norm(found - truth) <= 0.02 * np.linalg.norm(truth)
        assert np.abs(truth).max() > 1e-4


def test_instances_of_a_shape_share_its_sum():
    shape = MorphGeometry(MOVED_BALL, MODES, list_leaf("weights", FLOAT, WEIGHTS))
    assert shape.lists()["positions"] is shape.lists()["positions"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MorphGeometry(MOVED_BALL, MODES[:, :3], WEIGHTS), r"modes are an array \(M, 42, 3\)"),
        (lambda: MorphGeometry(MOVED_BALL, MODES, WEIGHTS[:2]), "weights are 5 finite numbers"),
        (lambda: MorphGeometry(MOVED_BALL, MODES * np.nan, WEIGHTS), "modes have values that are NaN"),
        (lambda: MorphGeometry(MOVED_BALL, MODES, list_leaf("w", FLOAT, np.ones(4))), "FLOAT list of 5"),
        (lambda: MorphGeometry(MOVED_BALL, MODES, WEIGHTS, normal_modes=MODES), "no normals"),
        (lambda: SkinnedGeometry(MOVED_BALL, JOINTS, SHARES * 0.8, BIND, LOCAL), "'icosphere': the weights of vertex 0 add up to 0.8"),
        (lambda: SkinnedGeometry(MOVED_BALL, JOINTS + 3, SHARES, BIND, LOCAL), "joints are 3 to 8, and there are 6"),
        (lambda: SkinnedGeometry(MOVED_BALL, JOINTS, SHARES, BIND[:0], LOCAL[:0]), "needs a joint"),
        (lambda: SkinnedGeometry(MOVED_BALL, JOINTS, SHARES, BIND, LOCAL[:5]), "inverse_bind has 6 joints"),
        (lambda: SkinnedGeometry((MOVED_BALL.positions, MOVED_BALL.faces), JOINTS, SHARES, BIND, LOCAL), "takes a Mesh"),
        (lambda: Skeleton([1, 2, 0], LOCAL[:3], "abc"), "'a' is its own ancestor"),
        (lambda: Skeleton([-1, 7], LOCAL[:2]), "'joint 1' has the parent 7"),
        (lambda: Skeleton(PARENTS, LOCAL[:2]), r"finite matrices \(6, 4, 4\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_moved_shapes_is_named(make, words: str):
    with pytest.raises(InputError, match=words):
        make()


def test_a_mesh_of_the_skin_keeps_its_uvs_and_material():
    points, faces = MOVED_BALL.positions, MOVED_BALL.faces
    mesh = Mesh(points, faces, uvs=points[:, :2], uv_faces=faces, texture=np.ones((2, 2, 3)))
    shape = SkinnedGeometry(mesh, JOINTS, SHARES, BIND, LOCAL)
    assert shape.lists()["texture"] is mesh.texture and shape.lists()["uv_faces"] is mesh.uv_faces


GROUPS_SIZE = (24, 16)
GROUPS_CAMERA = Camera.perspective(40, GROUPS_SIZE, (0.2, 0.3, 5), (0, 0, 0))
GROUPS_SUN = DirectionalLight((0.5, 0.4, 1.0), (2.0, 2.0, 2.0))
GROUPS_RANDOM = np.random.default_rng(3)
ROUGH = Variable(FLOAT, (1, 1), name="rough", data=[[[0.5]]])
TINT = Variable(VEC3, (5, 4), name="tint", data=GROUPS_RANDOM.random((1, 4, 5, 3)))
PLACE = Variable(MAT4, (1, 1), name="place", data=np.eye(4).reshape(1, 1, 1, 4, 4))
LEAVES = [ROUGH, TINT, PLACE]


def tile(texture: np.ndarray, **material) -> Mesh:
    """A square whose two faces are tilted, with normals and a map of normals."""
    bumps = GROUPS_RANDOM.normal(size=(3, 3, 3)) * 0.2 + (0, 0, 1)
    bumps /= np.linalg.norm(bumps, axis=-1, keepdims=True)
    normals = GROUPS_RANDOM.normal(size=(4, 3)) * 0.2 + (0, 0, 1)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points, faces = [[-1, -1, 0], [1, -1, 0.2], [1, 1, 0], [-1, 1, 0.2]], [[0, 1, 2], [0, 2, 3]]
    maps = {"uvs": [[0.0, 1], [1, 1], [1, 0], [0, 0]], "uv_faces": faces, "texture": texture}
    looks = Material(normal=bumps, **material)
    return Mesh(points, faces, **maps, normals=normals, normal_faces=faces, material=looks)


def at(x: float, y: float) -> np.ndarray:
    matrix = np.diag([0.9, 0.8, 1.0, 1.0])
    matrix[:3, 3] = x, y, 0.3 * x
    return matrix


def groups_scene() -> Scene:
    """Of the tiles three share a texture, maps lie at coordinates of their own, one is moved and one learned;
    one has holes."""
    textures = [GROUPS_RANDOM.random((4, 5, 3)) for _ in range(2)]
    holes = (GROUPS_RANDOM.random((2, 3, 6)) > 0.4).astype(float)
    turned = [Placement(0, ((a, 0.3), (-0.3, a)), (0.1, a)) for a in (1.5, 0.7, 1.1, 0.4)]
    meshes = [
        tile(textures[k % 2], roughness=0.3 + 0.1 * k, placements={"normal": place}, metallic=0.2 * k)
        for k, place in enumerate(turned)
    ]
    nodes = [
        Node(meshes[0], to_world=at(-1.1, 0.9)),
        Node(meshes[1], {"roughness": ROUGH}, at(-0.9, -0.8)),
        Node(meshes[2], to_world=at(0.6, 0.5)),
    ]
    for mesh, xy in ((meshes[3], (1.4, -0.7)), (meshes[0], (0.1, 0.1))):
        nodes.append(Node(mesh, to_world=F.matmul(PLACE, matrix("at", at(*xy)))))
    nodes.append(Node(meshes[0], {"texture": TINT}, at(0.5, -1.2)))
    for mesh, hole, cut, y in zip(meshes, holes, (0.5, 0.2), (1.0, -1.0), strict=False):
        plain = replace(mesh, material=Material())
        nodes.append(Node(plain, {"alpha": hole, "alpha_cutoff": cut}, at(2.0, y)))
    return Scene(nodes)


def apart(monkeypatch) -> None:
    """Every node by itself from now on."""
    monkeypatch.setattr(groups, "_look_of", lambda node: node)
    monkeypatch.setattr(joined, "unlit_beside_lit", list)


def test_materials_that_differ_in_numbers_are_one_look():
    looks = scene_given(groups_scene()).recipe.looks
    assert [look.nodes for look in looks] == [(0, 1, 2), (3, 4), (5,), (6, 7)]


def groups_slopes(
    shown: Scene, form: str, run, filter: str = "bilinear", where: Any = 1.0
) -> list[np.ndarray]:
    """Colours, and gradients of a loss that weighs pixels by ``where``."""
    picture = render(shown, GROUPS_CAMERA, light=GROUPS_SUN, form=form, filter=filter)
    weight = np.random.default_rng(0).random((1, GROUPS_SIZE[1], GROUPS_SIZE[0], 3)) * where
    image = picture.colour * Variable(VEC3, GROUPS_SIZE, data=weight)
    return run([image, *gradient(F.sum(F.sum_components(image)), LEAVES)])


@pytest.mark.parametrize(("form", "filter"), [("hard", "trilinear"), ("edges", "bilinear")])
def test_together_they_have_the_colours_and_derivatives_of_each(form, filter, monkeypatch):
    shown = groups_scene()
    together = groups_slopes(shown, form, evaluate, filter)
    apart(monkeypatch)
    for found, expected in zip(together, groups_slopes(shown, form, evaluate, filter), strict=True):
        assert np.abs(expected).max() > 0.01
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.release
@pytest.mark.one_driver
def test_devices_shade_groups_as_numpy_does(run):
    shown = groups_scene()
    nodes = [one([render(shown, GROUPS_CAMERA, form="hard").node])[0] for one in (run, evaluate)]
    same = (nodes[0] == nodes[1])[..., None]  # rounding decides about centres of pixels at edges
    assert same.mean() > 0.97
    images = [groups_slopes(shown, "hard", one, where=same) for one in (run, evaluate)]
    for found, expected in zip(*images, strict=True):
        assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)


def test_derivatives_of_a_group_meet_differences():
    colour = render(groups_scene(), GROUPS_CAMERA, light=GROUPS_SUN, form="hard").colour
    assert check_gradient(colour, LEAVES[:2]) < 1e-5


def test_materials_get_what_they_lack(monkeypatch):
    """Factors, images, colours of vertices, coats, sheen and what no light shades: one look of them all."""
    plain = replace(tile(GROUPS_RANDOM.random((4, 5, 3))), normals=None, normal_faces=None)
    bare = replace(plain, texture=None, uvs=None, uv_faces=None, colors=GROUPS_RANDOM.random((4, 3)))
    bare.color_faces = bare.faces
    rough, both = GROUPS_RANDOM.random((4, 5)), GROUPS_RANDOM.random((4, 5, 2))
    materials = (
        Material(roughness=0.4, clearcoat=0.8, normal=tile(rough).material.normal, normal_scale=0.7),
        Material(sheen_color=(0.2, 0.3, 0.4), sheen_roughness=0.4, occlusion=rough, occlusion_strength=0.5),
        Material(metallic_roughness=both, emission=(0.2, 0.1, 0.0)),
        Material(
            specular_map=rough,
            ior=1.8,
            emission=(1.0, 0.5, 0.2),
            emission_map=GROUPS_RANDOM.random((2, 3, 3)),
        ),
        Material(alpha_mode="mask", alpha=(GROUPS_RANDOM.random((3, 6)) > 0.4).astype(float)),
        Material(alpha_mode="mask", alpha=GROUPS_RANDOM.random((3, 6)), alpha_cutoff=0.7, unlit=True),
    )
    meshes = [replace(plain, material=m) for m in (*materials, Material(unlit=True))]
    meshes.append(replace(bare, material=Material()))
    corners = ((-1, 0.9), (-0.9, -0.8), (0.6, 0.5), (1.4, -0.7), (1.9, 0.6), (-1.6, 0.1), (0.3, 1.2), (0, 0))
    places = [at(*corner) for corner in corners]
    shown = Scene([Node(m, to_world=place) for m, place in zip(meshes, places, strict=True)])
    is_one_look(shown, [GROUPS_SUN, Environment(GROUPS_RANDOM.random((8, 16, 3)))], monkeypatch)


def is_one_look(shown: Scene, light, monkeypatch) -> None:
    """The nodes share a look, which has the colours of each node shaded by itself."""
    assert len(scene_given(shown).recipe.looks) == 1
    options = {"light": light, "background": Variable.of(0.0)}
    together = evaluate(render(shown, GROUPS_CAMERA, **options).colour)
    apart(monkeypatch)
    alone = evaluate(render(shown, GROUPS_CAMERA, **options).colour)
    assert np.std(alone) > 0.05
    assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


@dataclass(frozen=True, eq=False)
class Velvet(Bsdf):
    kind = MaterialKind(
        "velvet", (Parameter("fuzz", optional=False, default=0.5), Parameter("glow", VEC3, (0.0,) * 3))
    )
    fuzz: Any = None
    glow: Any = None

    def reflected(self, frame, to_light):
        return self.base * self.fuzz * F.maximum(F.dot(frame.normal, to_light), 0.0)

    def emitted(self, frame):
        return self.glow


def test_surfaces_of_ones_own_get_what_they_lack(monkeypatch):
    fuzzy, glowing = Velvet(fuzz=GROUPS_RANDOM.random((4, 5))), Velvet(glow=(0.3, 0.1, 0.0))
    nodes = []
    for k, surface in enumerate((Velvet(fuzz=0.3), glowing, fuzzy, Velvet())):
        nodes.append(Node(tile(GROUPS_RANDOM.random((4, 5, 3))), surface, at(k - 1.5, 0)))
    is_one_look(Scene(nodes), GROUPS_SUN, monkeypatch)


def test_stacks_are_as_high_as_images_may_be(monkeypatch):
    monkeypatch.setattr(groups, "HIGHEST_STACK", 12)
    assert [look.nodes for look in scene_given(groups_scene()).recipe.looks][:2] == [(0, 1), (2,)]
