"""Several nodes in one picture: order by one depth, materials and attributes of each, instances, gradients to each."""

from dataclasses import replace

import numpy as np
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, MAT4, VEC3, list_image, list_size, list_values
from dressi.errors import InputError
from dressi.render import (
    Camera,
    DirectionalLight,
    Node,
    PointLight,
    Scene,
    Shadow,
    TriangleGeometry,
    primitives,
    render,
)
from dressi.render.drawing.scenes.joined import scene_given
from dressi.render.mesh import Material, Mesh

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
    return replace(
        cube,
        texture=RANDOM.random((4, 4, 3)),
        normals=normals,
        normal_faces=np.repeat(np.arange(len(cube.faces)), 3).reshape(-1, 3),
        material=Material(roughness=0.4, normal=bumps, name="bumpy"),
    )


BALL = replace(
    primitives.icosphere(1),
    color=(0.8, 0.3, 0.2),
    material=Material(metallic=0.9, roughness=0.3, name="metal"),
)
BOX = textured()
PAINTED = Mesh(
    [[-3, -1, -3], [3, -1, -3], [3, -1, 3], [-3, -1, 3]], [[0, 2, 1], [0, 3, 2]], colors=RANDOM.random((4, 3))
)
PLACES = (place(-1, 0, 0, scale=0.6), place(1.1, 0, 0.2, scale=0.7, mirror=True), place(0, -0.2, 0))


def scene(to_world=lambda name, values: values) -> Scene:
    meshes = {"box": BOX, "ball": BALL, "floor": PAINTED}
    return Scene(
        [
            Node(mesh, to_world=to_world(name, at), name=name)
            for (name, mesh), at in zip(meshes.items(), PLACES, strict=True)
        ]
    )


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
    """Textures, normal maps, vertex colours, factors, normals of a file, a mirror: by arrays and by Variables."""
    light = DirectionalLight((1, 2, 2))
    truth = alone(light)
    arrays = render(scene(), CAMERA, light=light, outputs=NAMES)
    for name in NAMES:
        np.testing.assert_allclose(getattr(arrays, name), truth[name], atol=3e-3, err_msg=name)
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
    from dressi.ad.traversal import topological_order

    assert len(topological_order([one.colour])) == len(topological_order([mesh.colour]))


def test_normals_of_a_file_turn_with_the_node():
    """Arrays and Variables, the latter in a mirror of which only its factors are known; backs are not drawn."""
    turn = np.diag([1.0, 1, 1, 1])
    turn[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    mirror = turn @ np.diag([-1.0, 1, 1, 1])
    product = F.matmul(matrix("turn", turn), F.constant(np.diag([-1.0, 1, 1, 1])))
    for at, values in ((turn, turn), (mirror, mirror), (product, mirror)):
        shown = render(BOX, CAMERA, to_world=at, form="hard", cull="back", outputs=("normal",)).normal
        found = evaluate([shown])[0][0] if isinstance(shown, Variable) else shown
        expected = render(moved(BOX, values), CAMERA, outputs=("normal",)).normal
        np.testing.assert_allclose(found, expected, atol=1e-3)


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
    points = np.concatenate(
        [
            list_values(shape.data, count)[0] @ at.data[0, 0, 0, :3, :3].T + at.data[0, 0, 0, :3, 3]
            for shape, count, at in zip(
                (leaves[0], leaves[1], leaves[1]), (42, 4, 4), leaves[2:], strict=True
            )
        ]
    )
    np.testing.assert_allclose(list_values(evaluate([position])[0], 50)[0], points, atol=1e-12)
    assert check_gradient(position, leaves) < 1e-6


def slopes(run) -> list[np.ndarray]:
    nodes, leaves = tetrahedra()
    picture = render(nodes, Camera.perspective(40, SIZE, (0, 1, 5), (0, 0, 0)), radius=4 / 32)
    ramp = Variable(FLOAT, SIZE, data=np.linspace(0, 1, SIZE[0] * SIZE[1]).reshape(1, SIZE[1], SIZE[0]))
    return run(gradient(F.sum(F.square(picture.mask - ramp)), leaves))


@pytest.mark.vk
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
    both = Mesh(
        np.concatenate([cube.positions, ball.positions]),
        np.concatenate([cube.faces, ball.faces + len(cube.positions)]),
    )
    arguments = {"cameras": CAMERA, "light": PointLight((0, 3, 4), 0.0)}
    for form in ("hard", "outer", "contour", "face", "antialias"):
        apart = render(Scene(shown), form=form, **arguments)
        joined = render(both, material={"emission": red[2]}, form=form, **arguments)
        images = evaluate([apart.colour, joined.colour])
        np.testing.assert_allclose(*images, atol=1e-9, err_msg=form)
        a, b = evaluate(gradient(F.sum(F.sum_components(apart.colour)), red[:2]))
        (whole,) = evaluate(gradient(F.sum(F.sum_components(joined.colour)), red[2:]))
        assert a.min() > 10 and b.min() > 10, form
        np.testing.assert_allclose(a + b, whole, rtol=1e-9, err_msg=form)


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


def test_what_does_not_fit_is_named():
    with pytest.raises(InputError, match="at least one node"):
        Scene([])
    with pytest.raises(InputError, match=r"node 1 of a scene is a Node, not Mesh"):
        Scene([Node(BALL), BALL])
    with pytest.raises(InputError, match="load_scene"):
        Node("wheel.glb")
    with pytest.raises(InputError, match=r"node 'wheel': to_world is a matrix \(4, 4\)"):
        Node(BALL, to_world=np.eye(3), name="wheel")
    with pytest.raises(InputError, match="node 'wheel': to_world has values that are NaN"):
        Node(BALL, to_world=np.eye(4) * np.nan, name="wheel")
    with pytest.raises(InputError, match=r"node 'wheel': .*roughnes"):
        render(Scene([Node(BALL, {"roughnes": 1.0}, name="wheel"), Node(BALL)]))
    with pytest.raises(InputError, match="colours of a scene belong to its nodes"):
        render(Scene([Node(BALL)]), colours=BALL.positions)
    with pytest.raises(InputError, match="no node 'whel'; did you mean 'wheel'"):
        Scene([Node(BALL, name="wheel")])["whel"]
    with pytest.raises(InputError, match="node 'bad': faces: face 0 is"):
        render(Scene([Node(BALL), Node((BALL.positions, np.array([[0, 1, 99]])), name="bad")]))


def test_texts_are_short():
    nodes = [Node(BALL, {"roughness": 0.5}, np.eye(4), "wheel"), Node(BOX)]
    assert repr(nodes[0]) == "Node('wheel': TriangleGeometry, material roughness, placed)"
    assert repr(Scene(nodes, {"eye": CAMERA})) == "Scene(2 nodes: wheel, cube; 1 camera)"


@pytest.mark.one_driver
def test_a_parallel_projection_looks_from_far_away(device):
    matrix = np.diag([0.4, 0.4, 0.1, 1.0])
    matrix[2, 3] = 0.5
    shown = [
        render(primitives.cube(), matrix, size=(16, 16), light=light).colour
        for light in ("headlight", (0, 0, -1))
    ]
    np.testing.assert_allclose(*shown, atol=1e-4)
    assert shown[0][8, 8].min() > 0.5


def test_a_picture_is_shown_in_a_line():
    assert repr(render(primitives.cube(), size=(8, 8))) == "Pixels(colour, mask)"
