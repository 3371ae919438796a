"""Transparent layers: peeled, by moments, and as nodes of scenes."""

from dataclasses import replace
from itertools import pairwise

import glass_cases as gc
import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import F, InputError, Variable, adam
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import FLOAT, IVEC3, MAT4, VEC3, VEC4, list_image, list_size, list_values
from dressi.ad.transform.gradient import gradient, total
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import Camera, Material, Mesh, Node, Scene, list_leaf, primitives, render, to_clip
from dressi.render.forms.face import FACE
from dressi.render.forms.form import HARD
from dressi.render.forms.pairs import EDGES
from dressi.render.layers.edged import draw_layers
from dressi.render.layers.moments import BIAS, OWN, SPREAD, share_before, summed_layers
from dressi.render.layers.stacks import peel
from dressi.render.surface.screen import DrawnMesh
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.core.options import PlanOptions
from dressi.vk.plan.model.records import CPU
from dressi.vk.planning import PlanningEngine
from dressi.vk.run.execution.executor import VulkanExecutor

SCENE = gc.glass()
TRUTH, COUNT = gc.sorted_picture(SCENE)


def test_picture_is_the_sorted_one():
    """Of five panes that pass through each other and through an opaque quad; no pixel counts a diagonal
    twice."""
    assert set(np.unique(COUNT)) == set(range(gc.PANES + 1))
    made = gc.drawn(SCENE, HARD)
    picture, missed = evaluate([made.picture, made.layers.peeled.missed])
    assert np.abs(picture[0] - TRUTH).max() <= 1e-9 and not missed.any()


@pytest.mark.parametrize("eye", [(0, 0, 3), (1, 0.5, 2)])
def test_panes_in_one_plane_are_layers_each(run, eye):
    """Three of them, one with the other diagonal: no pixel peels one twice or none, along their diagonals
    neither."""
    square = np.array([(-5, -5, 0), (5, -5, 0), (5, 5, 0), (-5, 5, 0)], float)
    faces = np.concatenate([np.array([(0, 1, 2), (0, 2, 3)]) + 4 * k for k in range(3)])
    faces[4:] = (8, 9, 11), (9, 10, 11)
    camera = Camera.perspective(45, (32, 24), eye, (0, 0, 0))
    clip = to_clip(np.concatenate([square] * 3), camera.world_to_clip)
    peeled = peel(DrawnMesh(clip, list_leaf("faces", IVEC3, faces), (32, 24), 6), 0, 4)
    found = np.stack(run([*peeled.layers]), -1).reshape(-1, 4)
    assert (np.sort(found // 2, axis=1) == (-1, 0, 1, 2)).all()


def test_what_lies_behind_the_last_layer_is_told():
    made = gc.drawn(SCENE, HARD, layers=2)
    picture, missed = evaluate([made.picture, made.layers.peeled.missed])
    np.testing.assert_array_equal(missed[0] > 0, COUNT > 2)
    assert_allclose(picture[0][COUNT <= 2], TRUTH[COUNT <= 2], atol=1e-9)


def test_silhouettes_of_all_layers_are_blended():
    """Nearer to the mean of 64 samples a pixel than the hard picture: at edges, and where panes pass through
    each other."""
    fine = gc.sorted_picture(SCENE, (gc.SIZE[0] * 8, gc.SIZE[1] * 8))[0]
    truth = fine.reshape(gc.SIZE[1], 8, gc.SIZE[0], 8, 3).mean((1, 3))
    (picture,) = evaluate([gc.drawn(SCENE, EDGES).picture])
    hard, soft = (np.abs(p - truth).mean() for p in (TRUTH, picture[0]))
    assert soft < 0.4 * hard, (soft, hard)


ALPHAS, COLOURS = np.array([1.0, 0.6, 0.7]), np.array([(0.2, 0.4, 0.1), (0.9, 0.1, 0.3), (0.1, 0.2, 0.8)])


def row_of(end: float, start: float) -> np.ndarray:
    """(3,): the light of eight pixels before an opaque wall: a pane ends at ``end``, and one behind it begins at ``start``."""
    cuts = np.array([0.0, *sorted((end, start)), 8.0])
    total = np.zeros(3)
    for a, b in pairwise(cuts):
        colour, middle = COLOURS[0], (a + b) / 2
        for k, inside in ((2, middle > start), (1, middle < end)):
            colour = ALPHAS[k] * COLOURS[k] + (1 - ALPHAS[k]) * colour if inside else colour
        total = total + (b - a) * colour
    return total


@pytest.mark.parametrize(("end", "start", "flip"), [(3.7, 4.2, False), (4.2, 3.7, True), (4.4, 4.1, False)])
def test_edges_of_two_layers_between_two_pixels_move_by_what_lies_between_them(end, start, flip):
    """Both panes, or none of them: the derivatives of the light of a row by either edge are exact."""
    size = 8
    quads = [((0, 0), (8, 8), 0.9), ((0, 0), (end, 8), 0.3), ((start, 0), (8, 8), 0.5)]
    corners = [[(a, b, z), (c, b, z), (c, d, z), (a, d, z)] for (a, b), (c, d), z in quads]
    points = np.array(corners).reshape(-1, 3) * (2 / size, 2 / size, 1) - (1, 1, 0)
    points = points[:, [1, 0, 2]] if flip else points
    faces = gc.Glass(np.zeros((3, 4, 3)), COLOURS, ALPHAS).faces
    position = gc.leaf("position", VEC4, np.concatenate([points, np.ones((len(points), 1))], axis=1))
    triangles = Variable(IVEC3, list_size(6), name="faces", data=list_image(faces))
    drawn = draw_layers(EDGES, DrawnMesh(position, triangles, (size, size), 6), 2, 2)
    alpha = [F.lookup(gc.leaf("alphas", FLOAT, np.repeat(ALPHAS, 2)), s.face) for s in drawn.surfaces]
    table = gc.leaf("colours", VEC3, np.repeat(COLOURS, 2, 0))
    shaded = [F.lookup(table, s.face) * a for s, a in zip(drawn.surfaces, alpha, strict=True)]
    picture, way = drawn.blend(shaded, None, [1.0 - a for a in alpha]), np.array((0.5, -0.2, 0.7))
    (slope,) = evaluate(gradient(F.sum(F.dot(picture, tuple(way))), [position]))
    moved = list_values(slope, 12)[0, :, 1 if flip else 0] * 2 / size / size  # by a pixel, of each row
    for of, ends in (((5, 6), ((1e-4, 0), (-1e-4, 0))), ((8, 11), ((0, 1e-4), (0, -1e-4)))):
        change = [row_of(end + a, start + b) @ way for a, b in ends]
        expected = (change[0] - change[1]) / 2e-4
        assert abs(expected) > 0.05 and moved[list(of)].sum() == pytest.approx(expected, rel=1e-6)


def check_slopes(loss: Variable, ways: dict[Variable, np.ndarray], step: float, most: float) -> None:
    """The gradient by each leaf along a way is the central difference."""
    for (leaf, way), slope in zip(ways.items(), evaluate(gradient(loss, [*ways])), strict=True):
        ends = [evaluate([loss], {leaf: leaf.data + h * way})[0].item() for h in (step, -step)]
        difference = (ends[0] - ends[1]) / (2 * step)
        assert abs(difference - (slope * way).sum()) <= most * np.abs(slope * way).sum()


@pytest.mark.parametrize("form", [HARD, EDGES], ids=lambda form: form.name)
def test_gradient_is_the_central_difference_of_the_picture_drawn_again(form):
    """Of edges, by positions, it is that of pictures with many samples a pixel."""
    made = gc.drawn(SCENE, form)
    error = made.picture - Variable(VEC3, gc.SIZE, data=np.roll(TRUTH, 3, 1)[None])
    leaves, rng = (made.colours, made.alphas, made.position), np.random.default_rng(1)
    leaves = leaves if form is HARD else leaves[:2]
    ways = {x: rng.normal(size=x.shape) * ((1, 1, 0.1, 0.3) if x.vtype is VEC4 else 1) for x in leaves}
    check_slopes(F.sum(F.dot(error, error)), ways, 1e-7, 1e-5)


def test_forms_that_draw_no_layers_say_so():
    with pytest.raises(InputError, match="face form draws no layers of transparent"):
        gc.drawn(SCENE, FACE, radius=F.constant(0.1))
    with pytest.raises(InputError, match="from 1 to 16, not 0"):
        gc.drawn(SCENE, HARD, layers=0)


def test_drivers_draw_the_sorted_picture(run):
    (picture,) = run([gc.drawn(SCENE, HARD).picture])
    clear = gc.clear(SCENE)
    assert clear.mean() > 0.85
    assert_allclose(picture[0][clear], TRUTH[clear], atol=1e-4)


@pytest.mark.release("swiftshader")
def test_drivers_move_the_edges_of_all_layers(run):
    made = gc.drawn(SCENE, EDGES)
    error = made.picture - Variable(VEC3, gc.SIZE, data=np.roll(TRUTH, 3, 1)[None])
    outputs = [made.picture, *gradient(F.sum(F.dot(error, error)), [made.position])]
    (picture, slope), (expected, truth) = run(outputs), evaluate(outputs)
    assert np.median(np.abs(picture - expected)) < 1e-5 and np.abs(picture - expected).mean() < 2e-3
    assert np.abs(slope - truth).max() <= 0.03 * np.abs(truth).max()


@pytest.mark.release
@pytest.mark.one_driver
def test_gradient_integrates_to_the_loss_of_many_samples(run):
    """Of balls whose outlines, back sides and lines of intersection move."""
    found = gc.Balls(run).along("translation z", "scale", "one ball")
    ratios = np.array([one.integral / one.difference for one in found])
    assert len(ratios) == 3 and np.abs(ratios - 1).max() < 0.03, ratios


RNG = np.random.default_rng(4)
MOMENTS_COUNT = 60


def absorbers() -> tuple[np.ndarray, np.ndarray]:
    """(moments (N, 4), depths at which they are asked) of one to six layers each."""
    moments = []
    for k in range(MOMENTS_COUNT):
        a, z = RNG.uniform(0.1, 1.5, size=1 + k % 6), RNG.uniform(-1, 1, size=1 + k % 6)
        moments.append([(a * z**n).sum() / a.sum() for n in range(1, 5)])
    return np.array(moments), RNG.uniform(-1, 1, size=MOMENTS_COUNT)


def by_definition(moments: np.ndarray, z: float) -> float:
    """From the distribution of three points, one of which is z, with these moments."""
    b = np.array([1, *(moments * (1 - BIAS) + np.array(SPREAD) * BIAS)])
    kernel = np.linalg.solve(np.array([b[k : k + 3] for k in range(3)]), [1, z, z * z])
    points = np.array([z, *np.roots(kernel[::-1]).real])
    weights = np.linalg.solve(np.vander(points, 3, increasing=True).T, b[:3])
    assert_allclose([(weights * points**k).sum() for k in range(5)], b, atol=1e-6)
    return OWN * weights[0] + weights[1:][points[1:] < z].sum()


def leaves(moments: np.ndarray, depth: np.ndarray) -> list[Variable]:
    return [
        Variable(VEC4, (MOMENTS_COUNT, 1), name="moments", data=list_image(moments)),
        Variable(FLOAT, (MOMENTS_COUNT, 1), name="depth", data=list_image(depth)),
    ]


def test_share_is_that_of_the_three_points():
    given = absorbers()
    (found,) = evaluate([share_before(*leaves(*given))])
    expected = [by_definition(*one) for one in zip(*given, strict=True)]
    assert_allclose(found.ravel(), expected, atol=1e-6)


def test_share_lies_between_what_is_before_and_behind():
    """Of two absorbers: nothing is before the first, all before what lies far behind."""
    z = np.array([-0.5, 0.4])
    moments = np.tile([(z**n).mean() for n in range(1, 5)], (MOMENTS_COUNT, 1))
    depth = np.linspace(-0.99, 0.99, MOMENTS_COUNT)
    (found,) = evaluate([share_before(*leaves(moments, depth))])
    found = found.ravel()
    assert (np.diff(found) >= -1e-9).all()
    assert_allclose(found[[0, -1]], [0, 1], atol=0.01)
    between = found[(depth > -0.4) & (depth < 0.3)]
    assert_allclose(between, 0.5, atol=0.01)


def test_derivatives():
    """Of three layers and more: the moments of one or two lie on the border of what is possible, where only
    BIAS holds them."""
    few, (moments, depth) = np.arange(MOMENTS_COUNT) % 6 < 2, absorbers()
    given = leaves(np.where(few[:, None], moments[5], moments), np.where(few, depth[5], depth))
    assert check_gradient(share_before(*given), given, step=1e-7) < 1e-3


def picture(scene: gc.Glass) -> tuple[gc.Drawn, Variable]:
    """The panes by moments, over the opaque quad and the background; and the leaves."""
    made = gc.drawn(scene, HARD, layers=1)

    def shade(surface):
        alpha = F.lookup(made.alphas, surface.face)
        return F.lookup(made.colours, surface.face) * alpha, F.vec3(1.0 - alpha)

    mesh = made.layers.peeled.mesh
    colour, clear = summed_layers(mesh, 2, shade)
    solid = made.layers.peeled.solid
    behind = F.select(F.greater_equal(solid, 0), F.lookup(made.colours, solid), tuple(gc.BACKGROUND))
    return made, colour + clear * behind


def check_error(found: np.ndarray) -> None:
    """Mean error under 2 % of the sorted picture where panes are; next to nothing where there is one."""
    error = np.abs(found - TRUTH)
    for there in (COUNT > 0, COUNT > 2):
        assert error[there].sum() <= 0.02 * TRUTH[there].sum(), error[there].sum() / TRUTH[there].sum()


def test_picture_is_nearly_the_sorted_one():
    found = evaluate([picture(SCENE)[1]])[0][0]
    check_error(found)
    assert_allclose(found[COUNT <= 1], TRUTH[COUNT <= 1], atol=1e-6)


def test_gradient_is_the_central_difference_of_its_own_picture():
    made, image = picture(SCENE)
    error = image - Variable(VEC3, gc.SIZE, data=np.roll(TRUTH, 3, 1)[None])
    leaves = (made.position, made.colours, made.alphas)
    ways = {leaf: np.random.default_rng(1).normal(size=leaf.shape) for leaf in leaves}
    check_slopes(F.sum(F.dot(error, error)), ways, 1e-8, 1e-3)


@pytest.mark.release
def test_drivers_draw_it(run):
    made, image = picture(SCENE)
    loss = F.mean(F.dot(image, image))
    outputs = [image, *gradient(loss, [made.colours, made.alphas, made.position])]
    (found, *slopes), (expected, *truths) = run(outputs), evaluate(outputs)
    clear = gc.clear(SCENE)
    assert_allclose(found[0][clear], expected[0][clear], atol=3e-3)
    for slope, truth in zip(slopes, truths, strict=True):
        assert np.abs(slope - truth).max() <= 0.05 * np.abs(truth).max()


def test_a_draw_may_read_more_images_than_a_pass_has_attachments(run):
    """As gradients of sums over fragments do by an alpha and two matrices: it cannot be a dispatch, and
    cannot be split."""
    size = (6, 5)
    triangle = Variable(VEC4, (3, 1), data=np.array([[[(-1.0, -1, 0, 1), (3, -1, 0, 1), (-1, 3, 0, 1)]]]))
    images = [Variable(FLOAT, size, data=RNG.uniform(size=(1, 5, 6))) for _ in range(13)]
    squares = [F.square(x) for x in images]

    def value(face, depth):
        return total([x * float(k + 1) for k, x in enumerate(squares)]) * (F.to_float(face) + 1.0)

    (found,) = run([F.accumulate(triangle, size=size, value=value)])
    truth = sum((k + 1) * x.data**2 for k, x in enumerate(images))
    assert_allclose(found, truth, rtol=1e-5)
    for name in ("mali_g76", "minimum"):
        engine = PlanningEngine(PROFILES[name], CPU, shader_text)
        engine.set_loss(F.sum(F.accumulate(triangle, size=size, value=lambda f, z: value(f, z) * z)))
        engine.set_optimizer(adam(1e-3), images)
        assert engine.plan.stages


def test_a_draw_reads_images_as_channels_of_others_where_it_reads_too_many(device):
    """Its gradient by positions reads 28, of which devices may allow 16."""
    made, image = picture(SCENE)
    slopes = gradient(F.mean(F.dot(image, image)), [made.alphas, made.position])
    program = simplify(Program({"alphas": slopes[0], "position": slopes[1]}))
    for name in ("minimum", "raspberry_pi4"):
        assert build_plan(program, PROFILES[name], shader_text).stages
    found, read, options = [], [], PlanOptions(without=("sum_by_faces", "load_images"))
    for most in (128, 16):
        limits = replace(device.limits, max_sampled_images=most)
        with VulkanExecutor(program, device, limits=limits, options=options) as executor:
            scatters = [s for s in executor.plan.sub_stages if s.scatter is not None]
            read.append(max(s.descriptors["sampled_images"] for s in scatters))
            executor.run(1)
            found.append([executor.recv(v) for v in program.outputs.values()])
    assert read[0] > 16 >= read[1]
    assert all((a == b).all() and a.any() for a, b in zip(*found, strict=True))


FACES = np.array([(0, 1, 2), (0, 2, 3)])


def pane(k: int, colour: np.ndarray) -> Mesh:
    blends = Material(alpha=np.full((1, 1), SCENE.alphas[k]), alpha_mode="blend") if k else None
    uvs = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], float)
    look = {"color": tuple(colour), "name": f"pane {k}", "material": blends}
    return Mesh(SCENE.corners[k], FACES, uvs=uvs, uv_faces=FACES, **look)


def nodes(**changes) -> list[Node]:
    """The panes, transparent ones first; of number 3 parts of the material or the place may be given."""
    meshes = [pane(k, colour) for k, colour in enumerate(SCENE.colours)]
    return [Node(mesh, **changes) if k == 3 else Node(mesh) for k, mesh in reversed(list(enumerate(meshes)))]


def drawn(scene: list[Node], **options):
    how = {"light": None, "background": gc.BACKGROUND, "form": "hard", "size": gc.SIZE, **options}
    return render(Scene(scene), SCENE.matrix, **how)


def constant(name: str) -> Variable:
    return Variable(FLOAT, name=name, data=[[[SCENE.alphas[3]]]])


def test_panes_are_seen_through():
    """As differentiable images: in sorted layers, and nearly so by moments."""
    picture = drawn(nodes(material={"alpha": constant("alpha")}), transparency=gc.PANES)
    colour, mask, missed = evaluate([picture.colour, picture.mask, picture.missed])
    assert_allclose(colour[0], TRUTH, atol=1e-6)
    # The mask is what white behind the panes would lose.
    behind = TRUTH - gc.sorted_picture(SCENE, background=(0.0, 0.0, 0.0))[0]
    assert_allclose(mask[0], 1 - (behind / gc.BACKGROUND).mean(-1), atol=1e-6)
    assert not missed.any()
    summed = drawn(nodes(material={"alpha": constant("alpha")}), transparency="moments")
    found = evaluate([summed.colour])[0][0]
    assert np.abs(found - TRUTH)[COUNT > 0].sum() <= 0.02 * TRUTH[COUNT > 0].sum()


@pytest.mark.release
@pytest.mark.parametrize(
    "options",
    [
        {"transparency": 5},
        {"transparency": "moments"},
    ],
)
def test_gradients_by_alpha_and_place(options):
    alpha, place = constant("alpha"), Variable(MAT4, name="place", data=np.eye(4)[None, None, None])
    picture = drawn(nodes(material={"alpha": alpha}, to_world=place), size=(24, 20), **options)
    assert check_gradient(F.vec4(picture.colour, picture.mask), [alpha, place], step=1e-7) < 1e-3


@pytest.mark.vk
def test_arrays_warn_of_what_is_missed():
    with pytest.warns(UserWarning, match="more than 2 transparent surfaces"):
        found = drawn(nodes(), transparency=2).colour
    assert_allclose(found[COUNT <= 2][::7], TRUTH[COUNT <= 2][::7], atol=0.02)


def test_forms_that_draw_no_layers_name_the_node():
    with pytest.raises(InputError, match="node 'pane 5' is transparent, and the face form"):
        drawn(nodes(), form="face", radius=0.05)
    with pytest.raises(
        InputError, match="transparency is a number of layers from 1 to 16, or 'moments', not 99"
    ):
        drawn(nodes(), transparency=99)


def test_moving_glass_has_edges():
    place = Variable(MAT4, name="place", data=np.eye(4)[None, None, None])
    assert drawn(nodes(to_world=place), form=None).form == "edges"
    assert drawn(nodes(to_world=place), form=None, transparency="moments").form == "outer"
    # Opaque faces are a part of the faces, and the edges are theirs.
    outer, edges = (
        drawn(nodes(to_world=place), form=f, transparency="moments").colour for f in ("outer", "edges")
    )
    inner, other = evaluate([outer, edges])
    assert np.median(np.abs(inner - other)) < 1e-6
    assert drawn(nodes(to_world=place), form="edges", transparency=8).colour.vtype is VEC3


def test_one_value_of_alpha_blends():
    """As a mask it would cut out all or nothing. The mode may be said as well."""
    cube, camera = primitives.cube(), Camera.perspective(40, (16, 16), (0, 0, 6), (0, 0, 0))

    def drawn(**material):
        given = {name: Variable.of(x, FLOAT) if isinstance(x, list) else x for name, x in material.items()}
        scene, behind = Scene([Node(cube, given)]), Variable.of([0.0, 0.0, 0.0], VEC3)
        picture = render(scene, camera, light=None, transparency=1, background=behind)
        return evaluate([picture.colour])[0][0, 8, 8, 0]

    assert drawn(alpha=0.25) == pytest.approx(0.25) and drawn(alpha=[[0.25]]) == pytest.approx(0.25)
    assert drawn(alpha=0.25, alpha_mode="blend") == pytest.approx(0.25)
    assert drawn(alpha=0.25, alpha_mode="mask") == 0.0 and drawn(alpha=0.25, alpha_cutoff=0.2) == 1.0
    assert drawn(alpha=0.25, alpha_mode="opaque") == 1.0
    with pytest.raises(InputError, match=r"alpha_mode is one of .* did you mean 'blend'"):
        drawn(alpha=0.25, alpha_mode="blended")


def test_coverage_and_depth_are_differentiable():
    """By the alpha of a pane as of the picture drawn again, and coverage by its place as of pictures of many samples."""
    alpha, step = constant("alpha"), np.diag([0.1, 0.1, 0.1, 0.0])

    def seen(places: np.ndarray, **options):
        place = Variable(MAT4, (1, 1), len(places), name="place", data=places[:, None, None])
        scene = [nodes(material={"alpha": alpha}, to_world=place)[k] for k in (2, 5)]
        return place, drawn(scene, size=(32, 28), transparency=1, **options)

    _, picture = seen(np.eye(4)[None], form="edges")
    loss = F.sum(F.square(picture.mask)) + 0.1 * F.sum(F.square(picture.depth))
    check_slopes(loss, {alpha: np.ones(alpha.shape)}, 1e-7, 1e-4)
    # A smooth loss, linear in the coverage.
    ramp = F.to_float(F.pixel_coordinates((32, 28)).x) + 5.5
    path = np.linspace(-1, 1, 17)[1::2]
    place, picture = seen(np.eye(4) + path[:, None, None] * step, form="edges")
    (slope,) = evaluate(gradient(F.sum(picture.mask * ramp), [place]))
    _, fine = seen(np.eye(4) + np.array((-1.0, 1.0))[:, None, None] * step, form="hard", samples=6)
    ends = (evaluate([fine.mask])[0] * (np.arange(32) + 5.5)).sum((1, 2))
    integral = 2 * (slope * step).sum() / len(path)
    assert abs(ends[1] - ends[0]) > 3 and integral == pytest.approx(ends[1] - ends[0], rel=0.03), (
        integral,
        ends,
    )
