"""Strands: their coverage, as nodes of scenes, and how fibres reflect light."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import FLOAT, VEC3, DressiAD, F, InputError, Variable, adam, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph import AccumulateFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.traversal import topological_order
from dressi.ad.sums import FragmentScatter
from dressi.config import shader_text
from dressi.render import (
    AtPoints,
    Camera,
    DirectionalLight,
    KajiyaKay,
    Node,
    Scene,
    Shadow,
    draw_strands,
    render,
    ring,
)
from dressi.render.formats import load_scene, save_scene
from dressi.render.mesh import primitives
from dressi.render.shading.bsdf.hair import Directions, FarHair, HairBsdf
from dressi.render.strands.geometry import PointGeometry, StrandGeometry, curves, wireframe
from dressi.render.strands.marschner import Marschner, StrandOpacity
from dressi.render.strands.ribbons import ribbon_area
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.core.lists import fragments_expected
from dressi.vk.plan.lowering.scatter import FaceSum
from dressi.vk.plan.model.records import CPU, SWIFTSHADER
from dressi.vk.planning import PlanningEngine

SIZE = (20, 16)
PIXELS = np.array([[2 / 20, 0, 0, -1], [0, 2 / 16, 0, -1], [0, 0, 1e-3, 0.5], [0, 0, 0, 1.0]])
"""World coordinates are pixels."""
LINE = np.array([[3.2, 4.1, 0], [8.3, 6.2, 0], [16.1, 11.4, 0]])


def supersampled(points: np.ndarray, radius: float, samples: int, size: tuple[int, int]) -> np.ndarray:
    x, y = ((np.arange(n * samples) + 0.5) / samples for n in size)
    places = np.stack(np.meshgrid(x, y), -1)
    inside = np.zeros(places.shape[:2], bool)
    for a, b in zip(points[:-1, :2], points[1:, :2], strict=True):
        u = b - a
        along = np.clip((places - a) @ u / (u @ u), 0, 1)
        inside |= ((places - a - along[..., None] * u) ** 2).sum(-1) < radius**2
    return inside.reshape(size[1], samples, size[0], samples).mean((1, 3))


@pytest.mark.parametrize("width, scale, samples", [(0.05, 0.3, 256), (0.7, 1.0, 64), (3.0, 1.0, 32)])
def test_a_strand_covers_its_area(width, scale, samples):
    points, seen = LINE * scale, (int(20 * scale), int(16 * scale))
    strand = StrandGeometry(points, radius=0.5 * width, unit="pixels")
    (found,) = evaluate([draw_strands(strand, PIXELS, size=SIZE).mask])
    truth = supersampled(points, 0.5 * width, samples, seen)
    error = np.abs(found[0, : seen[1], : seen[0]] - truth).sum() / truth.sum()
    assert error < 0.006


def test_two_points_of_a_variable_are_a_strand():
    points = Variable.of(LINE[:2], VEC3)
    own, other = (
        evaluate([draw_strands(StrandGeometry(p), PIXELS, size=SIZE).mask])[0] for p in (points, LINE[:2])
    )
    assert_allclose(own, other, atol=1e-6)


def test_a_ribbon_that_ends_in_a_pixel_covers_a_half_plane_of_it():
    """The area of a square on one side of a line: its width across the line is distributed as a trapezoid."""
    rng = np.random.default_rng(3)
    place, angle = rng.uniform(-0.5, 0.5, (9, 2)), rng.uniform(0, 2 * np.pi, 9)
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    left = np.stack([along[:, 1], -along[:, 0]], axis=1)
    start = Variable.of(np.column_stack([place, 9 * along]))
    end = Variable.of(np.column_stack([place + 9 * left, 9 * along]))
    (area,) = evaluate([ribbon_area(start, end)])
    away = (place * along[:, ::-1] * (1, -1)).sum(1)
    low, high = np.sort(np.abs(along), axis=1).T
    wedge = np.clip((high + low) / 2 - np.abs(away), 0, low)
    beyond = wedge**2 / (2 * low * high) + np.maximum((high - low) / 2 - np.abs(away), 0) / high
    assert_allclose(np.abs(np.squeeze(area)), np.where(away > 0, beyond, 1 - beyond), atol=2e-4)


def scene(**options) -> tuple[StrandGeometry, list[Variable]]:
    deep = LINE + np.arange(3)[:, None] * (0, 0, 1)
    points = Variable.of(np.concatenate([deep, deep[:, [1, 0, 2]] + (2, 0, 4)]))
    radius = Variable.of(np.linspace(0.2, 1.3, 6))
    rng = np.random.default_rng(4)
    strands = StrandGeometry(
        points, [0, 3, 6], radius, rng.uniform(size=(6, 3)), 0.9, unit="pixels", **options
    )
    return strands, [points, radius]


@pytest.mark.parametrize("layers", [None, 4])
def test_derivatives_are_those_of_the_picture(layers):
    strands, leaves = scene(caps="round" if layers is None else "flat")
    picture = draw_strands(strands, PIXELS, size=SIZE, layers=layers)
    weight = Variable.of(np.random.default_rng(1).uniform(size=(SIZE[1], SIZE[0], 3)))
    loss = F.sum(F.dot(picture.over((0.1, 0.2, 0.3)), weight))
    slopes = evaluate(gradient(loss, leaves))
    for leaf, slope in zip(leaves, slopes, strict=True):
        step = np.random.default_rng(2).normal(size=leaf.shape) * 1e-4
        high, low = (evaluate([loss], {leaf: leaf.data + k * step})[0].item() for k in (1, -1))
        assert_allclose((slope * step).sum() * 2, high - low, rtol=0.01)


def test_devices_compute_what_numpy_does(device):
    strands, leaves = scene()
    picture = draw_strands(strands, PIXELS, size=SIZE, shader=KajiyaKay((0.0, 0.3, 1.0)))
    loss = F.mean(F.square(F.length(picture.over(0.5))))
    images = [picture.mask, picture.colour, picture.depth, *gradient(loss, leaves)]
    with DressiAD(device) as ad:
        for k, image in enumerate(images):
            ad.set_output(str(k), image)
        ad.step()
        for k, truth in enumerate(evaluate(images)):
            found = ad.recv(str(k)).reshape(truth.shape)
            assert_allclose(found, truth, atol=2e-4 * max(1e-3, np.abs(truth).max()) + 2e-6)


def test_colours_at_points_are_those_of_pixels_where_points_are_close(device):
    """Those of a shader that is linear in the attributes are the same, and so are their slopes by the points."""
    strands, leaves = scene()

    def shown(shader):
        return draw_strands(strands, PIXELS, size=SIZE, shader=shader).over(0.5)

    def both(shader):
        return shown(shader), shown(AtPoints(shader))

    linear = both(lambda point: point.colour + F.vec3(point.attribute(point.clip).y))
    slopes = [gradient(F.mean(F.dot(picture, picture)), leaves) for picture in linear]
    apart, together = ([picture, *own] for picture, own in zip(linear, slopes, strict=True))
    for truth, found in zip(evaluate(apart), evaluate(together), strict=True):
        assert_allclose(found, truth, rtol=1e-6, atol=1e-9)
    steps = np.linspace(0, 1, 40)
    line = np.stack([2 + 20 * steps, 8 + 3 * np.sin(2 * steps), 0 * steps], 1)
    fine = StrandGeometry(line, radius=1.5, unit="pixels")
    hair = KajiyaKay((0.0, 0.3, 1.0))
    pictures = [draw_strands(fine, PIXELS, size=SIZE, shader=s).colour for s in (hair, AtPoints(hair))]
    with DressiAD(device) as ad:
        for k, picture in enumerate(pictures):
            ad.set_output(str(k), picture)
        at_pixels, at_points = ad.recv("0"), ad.recv("1")
    assert at_pixels.max() > 0.5 and abs(at_pixels - at_points).max() < 0.01
    with pytest.raises(InputError, match="AtPoints cannot read it"):
        shown(AtPoints(lambda point: point.colour * point.opacity))


def test_points_are_discs(device):
    cloud = PointGeometry(
        [[6.3, 7.1, 0], [13.2, 8.4, 0]], [1.7, 0.3], [[1.0, 0, 0], [0, 1, 0]], unit="pixels"
    )
    with DressiAD(device) as ad:
        ad.set_output("colour", draw_strands(cloud, PIXELS, size=SIZE).colour)
        ad.step()
        found = ad.recv("colour").sum((0, 1, 2))
    assert_allclose(found, [np.pi * 1.7**2, np.pi * 0.3**2, 0], rtol=2e-3, atol=1e-6)


def test_what_stands_in_front_hides_strands():
    strand = StrandGeometry(LINE, radius=0.5, unit="pixels")
    limit = Variable.of(np.where(np.arange(SIZE[0]) < 9, 0.0, 1.0) * np.ones((SIZE[1], 1)))
    mask = evaluate([draw_strands(strand, PIXELS, size=SIZE, limit=limit).mask])[0][0]
    assert mask[:, :9].max() == 0 and mask[:, 9:].max() > 0.4


@pytest.mark.release
@pytest.mark.one_driver
def test_layers_hold_what_sums_do(device):
    strands, _ = scene()
    with DressiAD(device) as ad:
        for name, layers in (("sums", None), ("layers", 8)):
            ad.set_output(name, draw_strands(strands, PIXELS, size=SIZE, layers=layers).mask)
        ad.step()
        assert_allclose(ad.recv("layers"), ad.recv("sums"), atol=1e-3)


def test_edges_and_curves():
    cube = primitives.cube()
    assert wireframe(cube).strands == 18
    smooth = curves(StrandGeometry(LINE, radius=[0.1, 0.2, 0.1]), pieces=4)
    assert_allclose(smooth.points[::4], LINE)
    assert smooth.radius.max() == 0.2
    handles = np.concatenate([LINE, LINE[::-1] + 3.0, LINE[:1]])
    bent = curves(StrandGeometry(handles, radius=np.arange(7.0)), pieces=4, kind="bezier")
    assert_allclose(bent.points[::4], handles[::3])
    assert_allclose(bent.points[2], [1, 3, 3, 1] @ handles[:4] / 8)
    assert bent.radius[2] == 1.5
    moving = curves(StrandGeometry(Variable.of(LINE, VEC3)), pieces=4)
    assert_allclose(evaluate([moving.points])[0].reshape(-1, 3), smooth.points, atol=1e-6)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: StrandGeometry(np.zeros((3, 3)), [0, 2, 3], name="fur"), "strand 1 of 'fur' has 1 point"),
        (lambda: StrandGeometry(np.zeros((3, 3)), [0, 2]), "run from 0 to 3"),
        (lambda: StrandGeometry(np.full((2, 3), np.nan)), "points 0 of 'strands' is NaN"),
        (lambda: StrandGeometry(np.zeros((2, 3)), radius=-1), "radius 0 of 'strands' is -1"),
        (lambda: PointGeometry(np.zeros((2, 3)), opacity=[0.5, 2]), "opacity 1 of 'points' is 2"),
        (lambda: draw_strands(PointGeometry(np.zeros((2, 3))), PIXELS), "need a size"),
        (lambda: curves(StrandGeometry(LINE), kind="spline"), "one of catmull_rom"),
        (lambda: curves(StrandGeometry(LINE), kind="bezier"), "strand 0 of 'strands' has 3 points; cubic"),
    ],
)
def test_bad_input_is_one_sentence(make, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        make()


def test_depths_do_not_jump_where_a_strand_begins():
    """They begin at 0 as the mask does, and the derivative of a loss is that of its difference."""
    radius = Variable(FLOAT, (1, 1), name="radius")
    picture = draw_strands(StrandGeometry(LINE + (0, 0, 200), radius=radius), PIXELS, size=SIZE)
    loss = F.sum(F.square(picture.depth - 0.3))
    images = [loss, *gradient(loss, [radius]), picture.mask, picture.depth, picture.distance]
    _, slope, mask, depth, distance = evaluate(images, {radius: np.full((1, 1, 1), 0.8)})
    begins = (mask > 0) & (mask < 0.02)
    assert begins.any() and depth[begins].max() < 0.02 and distance[begins].max() > 0.6
    ends = [evaluate([loss], {radius: np.full((1, 1, 1), 0.8 + h)})[0].item() for h in (1e-5, -1e-5)]
    assert slope.item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3)


def test_a_radius_that_reached_zero_comes_back():
    """Of strands and of points: nothing is seen, also below 0, and the derivative is not 0."""
    radius = Variable(FLOAT, (1, 1), name="radius")
    for shape in (StrandGeometry(LINE * 0.2, radius=radius), PointGeometry(LINE * 0.2, radius=radius)):
        mask = draw_strands(shape, size=(24, 24)).mask
        for value in (0.0, -0.01):
            at, slope = evaluate(
                [mask, *gradient(F.mean(mask), [radius])], {radius: np.full((1, 1, 1), value)}
            )
            assert not at.any() and slope.item() > 0


@pytest.mark.parametrize("model", [CPU, SWIFTSHADER])
def test_gradients_of_many_strands_are_sums_over_their_segments(model):
    """Twelve scatters share most of what they compute: counted once each, they seemed dearer than draws that
    add one by one. SwiftShader took minutes to compile all of them in one loop."""
    places = np.random.default_rng(1).uniform(0, 60, (2000, 16, 2)).cumsum(1) % 512
    points = Variable.of(
        np.concatenate([places, np.zeros((2000, 16, 1))], 2).reshape(-1, 3), VEC3, name="points"
    )
    strands = StrandGeometry(points, range(0, 32001, 16), radius=0.01)
    matrix = np.diag([2 / 512, 2 / 512, 1e-3, 1.0])
    matrix[:, 3] = -1, -1, 0.5, 1
    picture = draw_strands(strands, matrix, size=(512, 512), shader=KajiyaKay((0.3, 1, 1))).over(
        (1.0, 1.0, 1.0)
    )
    engine = PlanningEngine(PROFILES["lavapipe"], model, shader_text)
    engine.set_loss(F.mean(F.square(F.length(picture))))
    engine.set_optimizer(adam(1e-3), [points])
    functions = engine.plan.program.functions
    assert not any(isinstance(f, FragmentScatter) for f in functions)
    visits = [f.fragment for f in functions if isinstance(f, FaceSum)]
    assert visits and all(len(v.functions) <= model.loop_body for v in visits)


@pytest.mark.parametrize("kind", [StrandGeometry, PointGeometry])
@pytest.mark.parametrize("points, size", [(400, 128), (400, 512), (4000, 128)])
def test_draws_have_about_as_many_fragments_as_plans_expect(kind, points, size):
    """Whether they are few in a large image or overlap in a small one. Plans never know the places of
    points."""
    rng = np.random.default_rng(points)
    walks = rng.normal(size=(points // 10, 1, 3)) * 0.04 + rng.normal(size=(points // 10, 10, 3)) * 0.02
    places = rng.uniform(-0.5, 0.5, (points // 10, 1, 3)) + walks.cumsum(1)
    offsets = {"offsets": range(0, points + 1, 10)} if kind is StrandGeometry else {}
    geometry = kind(places.reshape(-1, 3), radius=0.01, **offsets)
    draw = draw_strands(geometry, ring((0, 0, 0), 1.0, 1, (size, size))).mask
    (f,) = (g for g in topological_order([draw]) if isinstance(g, AccumulateFunction))
    inputs = tuple(np.asarray(x) for x in evaluate(f.inputs[: f.pulled]))
    fragments = sum(here.face.size for here in f.fragments(inputs, once=True))
    assert 0.3 * fragments <= fragments_expected(f, None) <= 3.0 * fragments


WALL = (np.array([[-2.0, -2, 0], [0, -2, 0], [0, 2, 0], [-2, 2, 0]]), [[0, 1, 2], [0, 2, 3]])
FLOOR = (np.array([[-2.0, -1, -2], [2, -1, -2], [2, -1, 2], [-2, -1, 2]]), [[0, 2, 1], [0, 3, 2]])
CAMERA = Camera.perspective(45, (24, 16), (0, 0, 4), (0, 0, 0))
BEHIND = np.array([[-1.5, 0, -0.5], [1.5, 0, -0.5]])


def test_a_surface_hides_strands_and_picking_names_the_node():
    strand = StrandGeometry(BEHIND, radius=0.3, colours=(1.0, 0, 0), name="hair")
    cloud = PointGeometry([[0.8, 0.9, 0.5]], 0.3, (0.0, 0, 1))
    scene = Scene([Node(strand), Node(WALL, name="wall"), Node(cloud, to_world=np.diag([1.0, -1, 1, 1]))])
    shown = render(scene, CAMERA, light=None, outputs=("colour", "mask", "node", "face", "material"))
    assert np.unique(shown.node).tolist() == [-1, 0, 1, 2]
    assert (shown.node[8, 2:11] == 1).all() and (shown.node[8, 13:18] == 0).all()
    assert (shown.node[10:] == 2).any() and not (shown.node[:6] == 2).any()
    assert (shown.face[shown.node == 0] == -1).all() and (shown.face[shown.node == 1] >= 0).all()
    assert_allclose(shown.colour[8, 14], [1, 0, 0], atol=2e-3)
    assert_allclose(shown.colour[8, 4], [1, 1, 1], atol=1e-6)
    # Not where it is cut out.
    cut = Scene([Node(strand), Node(WALL, {"alpha": 0.2, "alpha_mode": "mask"})])
    assert_allclose(render(cut, CAMERA, light=None).colour[8, 7], [1, 0, 0], atol=2e-3)


@pytest.mark.release
@pytest.mark.one_driver
def test_strands_throw_shadows_and_have_derivatives_in_a_scene(device):
    points = Variable.of([[-1.0, 0.2, 0], [1, 0.2, 0]], VEC3, name="points")
    strand = Node(StrandGeometry(points, radius=0.25), KajiyaKay((0.0, 1, 0)))
    sun = DirectionalLight((0.0, 1, 0), shadow=Shadow(32))
    camera = Camera.perspective(45, (24, 16), (0, 3, 4), (0, -1, 0))
    with_strand = render(Scene([strand, Node(FLOOR)]), camera, light=sun, background=0.2)
    alone = render(Scene([Node(FLOOR)]), camera, light=sun, background=0.2)
    from dressi import DressiAD

    with DressiAD(device) as ad:
        ad.set_output("shadowed", with_strand.colour)
        ad.set_output("slope", gradient(F.sum(with_strand.mask), [points])[0])
        ad.step()
        shadowed, slope = ad.recv("shadowed")[0], ad.recv("slope")
    darker = (alone.colour - shadowed).max(axis=2)
    assert (darker[7:9, 10:14] > 0.5).all() and np.abs(darker[13:]).max() < 1e-3
    (truth,) = evaluate([gradient(F.sum(with_strand.mask), [points])[0]])
    assert_allclose(slope, truth.reshape(slope.shape), atol=1e-3 * np.abs(truth).max())


@pytest.mark.one_driver
def test_strands_need_no_surface(device):
    strand = StrandGeometry(BEHIND, radius=0.3, colours=(1.0, 0, 0))
    for shown in (strand, Scene([Node(strand)])):
        picture = render(shown, CAMERA, light=None, background=0.2, outputs=("colour", "mask", "node"))
        one = draw_strands(strand, CAMERA)
        mask, colour = evaluate([one.mask, one.over(0.2)])
        assert_allclose(picture.mask, mask[0], atol=1e-5)
        assert_allclose(picture.colour, colour[0], atol=1e-5)
        assert np.unique(picture.node).tolist() == [-1, 0]
    # Cameras frame it, and lights with shadows shine on it.
    points = Variable.of(BEHIND, VEC3, name="points")
    sun = DirectionalLight((0.0, 1, 0), shadow=Shadow(16))
    found = render(Scene([Node(replace(strand, points=points))]), light=sun, size=(16, 16))
    assert found.form == "hard"
    mask, colour = evaluate([found.mask, found.colour])
    assert mask.max() > 0.9 and np.isfinite(colour).all() and colour.max() > 0.05


def test_mistakes_of_nodes_are_named(tmp_path):
    strand = StrandGeometry(BEHIND, name="hair")
    with pytest.raises(InputError, match="node 'hair': the material of strands"):
        Node(strand, {"roughness": 0.5})
    with pytest.raises(InputError, match="node 'hair' is of strands or points"):
        save_scene(tmp_path / "a.glb", Scene([Node(strand), Node(WALL)]))


def test_lines_of_a_file_are_strands(tmp_path):
    data = np.float32([[0, 0, 0], [1, 0, 0], [1, 1, 0]])
    (tmp_path / "a.bin").write_bytes(data.tobytes())
    entry = {"attributes": {"POSITION": 0}, "mode": 2, "material": 0}
    document = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "name": "wire", "translation": [0, 0, 2]}],
        "meshes": [{"primitives": [entry]}],
        "materials": [{"pbrMetallicRoughness": {"baseColorFactor": [1, 0.5, 0, 1]}}],
        "buffers": [{"uri": "a.bin", "byteLength": 36}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
    }
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    (node,) = load_scene(tmp_path / "a.gltf")
    assert node.name == "wire" and node.geometry.count == 4 and node.geometry.unit == "pixels"
    assert_allclose(node.geometry.colours, [[1, 0.5, 0]])
    assert_allclose(node.to_world[:3, 3], [0, 0, 2])


@pytest.mark.release
@pytest.mark.parametrize(
    "options", [{"form": "hard"}, {"form": "edges", "samples": 2}, {"transparency": "moments"}]
)
def test_strands_lie_among_panes(options):
    """Before both, between the two and behind them, each seen through what is nearer; with exact
    derivatives."""
    alpha = Variable(name="alpha", data=[[[0.4]]])
    camera = Camera.perspective(30, (5, 5), (0, 0, 4), (0, 0, 0))
    square = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    nodes, layers = [], []
    for k, z in enumerate((1.5, 1.0, 0.5, 0.0, -0.5)):
        colour = np.eye(3)[k % 3] * 0.5 + 0.1 * k
        if k % 2:
            paint = F.constant(tuple(colour))
            nodes.append(
                Node((square + (0, 0, z), WALL[1]), {"texture": paint, "alpha": alpha}, name=f"pane {k}")
            )
            layers.append((0.4 * colour, 0.4))
        else:
            strand = StrandGeometry([[-0.2, -1, z], [0.2, 1, z]], radius=0.05, colours=tuple(colour))
            own = draw_strands(strand, camera)
            nodes.append(Node(strand))
            layers.append([image[0, 2, 2] for image in evaluate([own.colour, own.mask])])
    picture = render(Scene(nodes), camera, light=None, background=0.8, **options)
    expected = np.full(3, 0.8)
    for colour, mask in reversed(layers):
        expected = colour + (1 - mask) * expected
    found, node = evaluate([picture.colour, picture.node])
    assert 0.1 < layers[0][1] < 0.9
    near = 0.02 if "transparency" in options else 1e-6
    assert_allclose(found[0, 2, 2], expected, atol=near)
    if options.get("form") == "hard":
        assert check_gradient(picture.colour, [alpha], step=1e-6) < 1e-3
    assert node[0, 2, 2] == (0 if layers[0][1] >= 0.5 else 1)


HAIR = {"melanin": 0.4, "redness": 0.6, "longitudinal": 0.35, "azimuthal": 0.4, "ior": 1.5, "tilt": 3.0}


def leaves() -> list[Variable]:
    return [Variable.of([[x]], FLOAT, name=name) for name, x in HAIR.items()]


def images(*values: np.ndarray) -> Directions:
    return Directions(*(Variable.of(x[None], FLOAT) for x in values))


def test_a_fibre_from_afar_is_the_mean_over_its_width():
    rng = np.random.default_rng(0)
    light, eye, phi = rng.uniform(-0.8, 0.8, 20), rng.uniform(-0.8, 0.8, 20), rng.uniform(0, np.pi, 20)
    offset = Variable.of(np.tile(np.linspace(-1, 1, 201)[:-1, None] + 0.005, (1, 20)))
    hair = HairBsdf.of(**HAIR)
    sines = [Variable.of(np.tile(x, (200, 1))) for x in (light, eye, phi)]
    near = evaluate([hair.scattered(sines[0], sines[1], sines[2], offset)])[0][0].mean(0)
    (far,) = evaluate([FarHair(hair).scattered(images(light, eye, np.cos(phi)))])
    assert_allclose(far[0, 0], near, rtol=0.03, atol=0.01 * near.mean())


def test_light_passes_strands_directly_or_is_sent_on():
    """Fibres that absorb nothing let through less than arrives, and dark ones nearly nothing but what meets
    none."""
    crossed = Variable.of(np.array([[0.0, 0.5, 2.0, 8.0]]), FLOAT)
    direct, white = evaluate(FarHair(HairBsdf.of(0.0, 0.0)).passing(F.constant(0.1), crossed))
    assert_allclose(direct[0, 0], np.exp([0.0, -0.5, -2, -8]))
    assert ((direct[..., None] + white) <= 1).all() and (white[0, 0, 1:] > 0.02).all()
    dark = evaluate([FarHair(HairBsdf.of(None, 0.9999)).passing(F.constant(0.1), crossed)[1]])[0]
    assert (dark[0, 0, 1:] < 0.1 * white[0, 0, 1:]).all()


def test_strands_dim_the_light_of_those_behind_them():
    """Three sheets of parallel strands as wide as their distances: each hides the same share."""
    x = np.linspace(-1, 1, 40)
    sheets = [np.stack([np.full(2, u), np.array([-1.0, 1]), np.full(2, z)], 1) for z in (1, 0, -1) for u in x]
    strands = StrandGeometry(np.concatenate(sheets), np.arange(0, 241, 2), 0.02, opacity=0.5)
    opacity = StrandOpacity.of(strands, (0.0, 0.0, 1.0), 64)
    at = Variable.of(np.array([[[0, 0, 1.5], [0, 0, 0.5], [0, 0, -0.5], [0, 0, -1.5]]]), VEC3)
    (found,) = evaluate([opacity.crossed(at)])
    assert_allclose(np.diff(found[0, 0]), found[0, 0, 3] / 3, rtol=0.15)
    assert found[0, 0, 0] < 0.05 and 0.5 < found[0, 0, 3] / 3 / -np.log(0.5) < 1.3


def picture(values: list[Variable]) -> Variable:
    points = np.array([[x, y, 0.1 * x * y] for x in (-0.5, 0.0, 0.4) for y in (-1.0, 0.0, 1.0)])
    strands = StrandGeometry(points, [0, 3, 6, 9], 0.2)
    lights = [DirectionalLight((1.0, 0.5, 1.0), 3.0, Shadow(16)), DirectionalLight((-1, 1, -1), 2.0)]
    far = FarHair(HairBsdf.of(None, *values), 16, 8, 8)
    look = Marschner(far, lights, strands, ambient=0.2)
    return draw_strands(strands, Camera.perspective(50, (10, 8), (0, 0, 3), (0, 0, 0)), shader=look).colour


@pytest.mark.release
def test_gradients_by_the_hair_are_central_differences():
    values = leaves()
    assert check_gradient(picture(values), values) < 1e-4


def test_devices_agree_with_numpy(device):
    value = picture(leaves())
    with DressiAD(device) as ad:
        assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=1e-2, atol=2e-3)


def test_wrong_hair_is_refused():
    with pytest.raises(InputError, match="Variable of one texel"):
        FarHair(HairBsdf.of(Variable.of(np.zeros((1, 2)), FLOAT)))
    with pytest.raises(InputError, match="needs the strands"):
        Marschner(HairBsdf(), DirectionalLight((0, 0, 1), shadow=Shadow(16)))
    with pytest.raises(InputError, match=r"melanin of the hair surface is in \[0, 1\], not nan"):
        HairBsdf(melanin=np.nan)
    with pytest.raises(InputError, match=r"ior of the hair surface is in \[1, 2\], not 2.5 to 3"):
        HairBsdf(ior=np.array([[2.5, 3.0]]))
