"""HardSoftRas and what soft silhouettes are compared with, on the oracle and every driver.

Recorded: the largest error of the derivative against central differences of the re-rendered loss, relative to
max(|difference|, a tenth of the largest), over three views and 15 directions, 128x128 (median in brackets):

    radius in pixels    K = 1          K = 2          K = 3          K = 3, cull="back"
    ellipsoid   5       0.29 (0.08)    0.08 (0.01)    0.02 (0.01)    0.42 (0.03)
                2       0.41 (0.05)    0.08 (0.01)    0.06 (0.01)
                1       0.46 (0.04)    0.08 (0.02)    0.12 (0.01)
    Avocado     5       0.38 (0.08)    0.10 (0.01)    0.04 (0.01)    0.15 (0.02)
                2       0.49 (0.07)    0.12 (0.02)    0.07 (0.01)
                1       0.90 (0.11)    0.54 (0.02)    0.57 (0.02)

Where the picture jumps: at the inner border of the band E, where a pixel goes from S = 1 to 1 - prod(1 - D), which
dips along edges inside the silhouette, to 1/2 for K = 1 and to 7/8 for K = 3; at the outer border by 1/1000. With
culling the back face is missing from the stack, so that the inner border jumps more, and a face leaves with all of
its soft part when it turns away: one or the other makes up nearly all of the error in each direction. At a radius
of one pixel sigma is 1/7 pixel, a slope narrower than the distance of the samples: over 16 shifts by quarters of a
pixel the means of derivative and difference agree to 0.5 % of the largest (Avocado from the side, edges along rows of
pixels), each alone scatters.
"""

import brute_force
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc
from numpy.testing import assert_allclose, assert_array_equal
from reference import disc
from render_examples import EXAMPLES
from test_surface import SIDES, check_texture_gradient

from dressi import FLOAT, VEC3, DressiAD, F, InputError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.traversal import topological_order
from dressi.render import Camera, Cameras, Mesh, hard_soft_ras, list_leaf, render
from dressi.render.fit import FitRound, draw
from dressi.render.fit.data.learned import Learned, cut_off, least_distances, signed_distances
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.forms.face import peeled_target
from dressi.render.forms.soft_target import outline_distances, soft_target
from dressi.render.mesh.primitives import octasphere

CASES = sc.cases()


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_images_are_those_of_brute_force(name, layers):
    sc.check_images(evaluate, CASES[name], layers)


@pytest.mark.parametrize("name", ["sphere", "open"])
def test_back_faces_can_be_culled(name):
    sc.check_images(evaluate, CASES[name], 2, cull="back")


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_gradient_is_that_of_the_frozen_picture(name, layers):
    sc.check_gradient(evaluate, CASES[name], layers)


def test_the_cases_are_what_they_are_called():
    near = CASES["near plane"]
    _, _, good = brute_force.to_screen(near.clip, *sc.SIZE)
    crossing = good[near.faces].any(1) & ~good[near.faces].all(1)
    assert crossing.any() and (near.clip[:, 3] < 0).any()
    assert len(CASES["sphere"].faces) == 80 and len(CASES["open"].faces) < 80


@pytest.mark.release
def test_derivative_of_the_rerendered_loss_on_avocado(data):
    figures = sc.rerendered(evaluate, *sc.avocado(data), sc.camera(110, -20), pixels=5, layers=3, side=128)
    assert sc.worst(figures) <= 0.05, figures


def test_views_are_a_batch_of_the_same_functions():
    points, _ = sc.icosphere(1)
    case = CASES["sphere"]
    _, faces = case.variables()
    clips = np.stack([sc.to_clip(sc.camera(az, 10, 3.5), points) for az in (0, 70, 150)])
    counts = []
    for views in (1, 3):
        position = Variable(case.variables()[0].vtype, (len(points), 1), views, data=clips[:views, None])
        drawn = hard_soft_ras(position, faces, size=sc.SIZE, radius=sc.RADIUS, face_count=80)
        counts.append(len(topological_order([drawn.silhouette])))
        (image,) = evaluate([drawn.silhouette])
        for view in range(views):
            picture = brute_force.render(clips[view], case.faces, sc.SIZE, radius=sc.RADIUS, cull="none")
            assert np.mean(np.abs(image[view] - picture.silhouette) > 1e-4) <= 0.005
    assert counts[0] == counts[1]


def test_radius_is_data():
    case = CASES["acute"]
    position, faces = case.variables()
    radius = Variable(FLOAT, name="radius")
    drawn = hard_soft_ras(position, faces, size=(96, 64), radius=radius, face_count=1, layers=1)
    for pixels in (2, 6):
        (image,) = evaluate([drawn.silhouette], {radius: pixels / 64})
        picture = brute_force.render(
            case.clip, case.faces, (96, 64), radius=pixels / 64, layers=1, cull="none"
        )
        assert_allclose(image[0], picture.silhouette, atol=1e-6)


@pytest.mark.parametrize("pixels", [0.6, 1.5, 2.0, 2.7, 5.4])
@pytest.mark.parametrize("name", ["overlapping", "sphere", "open"])
def test_layers_end_at_the_radius_and_the_band_is_the_whole_window(name, pixels):
    """Also where the window, of whole pixels, is larger than the radius."""
    case = CASES[name]
    position, faces = case.variables()
    options = {"size": sc.SIZE, "radius": pixels / 64, "face_count": len(case.faces), "layers": 2}
    drawn = hard_soft_ras(position, faces, **options)
    picture = brute_force.render(case.clip, case.faces, sc.SIZE, radius=pixels / 64, layers=2, cull="none")
    expected = (picture.edge, picture.hard, picture.silhouette, picture.face[0], picture.face[1])
    found = evaluate([drawn.edge, drawn.hard, drawn.silhouette, *(layer.face for layer in drawn.layers)])
    for image, truth in zip(found, expected, strict=True):
        assert np.mean(np.abs(image[0] - truth) > 1e-4) <= 0.002


def test_colours_blend_by_the_weights_of_their_layers():
    case = CASES["overlapping"]
    _, drawn = sc.soft(case, layers=2)
    colour = [F.select(F.equal(layer.face, 0), (1.0, 0.0, 0.5), (0.0, 1.0, 0.25)) for layer in drawn.layers]
    plain, laid = evaluate([drawn.blend(colour), drawn.blend(colour, (0.0, 0.0, 1.0))])
    picture = brute_force.render(case.clip, case.faces, sc.SIZE, radius=sc.RADIUS, layers=2, cull="none")
    table = np.array([(1.0, 0.0, 0.5), (0.0, 1.0, 0.25)])
    d = picture.d[..., None]
    soft = (d * table[picture.face]).sum(0) / np.maximum(d.sum(0), 1e-8)
    edge, hard = picture.edge[..., None], picture.hard[..., None]
    front = table[picture.face[0]]
    assert_allclose(plain[0], edge * soft + (1 - edge) * hard * front, atol=1e-6)
    s = picture.silhouette[..., None]
    over = edge * (s * soft + (1 - s) * (0, 0, 1)) + (1 - edge) * np.where(hard, front, (0, 0, 1))
    assert_allclose(laid[0], over, atol=1e-6)


def test_a_mesh_behind_the_camera_is_an_empty_picture_without_gradient():
    case = CASES["sphere"]
    position, drawn = sc.soft(sc.Case(case.clip * (1, 1, 1, -1), case.faces))
    image, slope = evaluate([drawn.silhouette, *gradient(F.sum(drawn.silhouette), [position])])
    assert not image.any() and not slope.any()


@pytest.mark.parametrize(
    "wrong", [{"form": "round"}, {"cull": "front"}, {"radius": 1.5}, {"layers": 0}, {"sigma": -1.0}]
)
def test_wrong_options_are_named(wrong):
    position, faces = CASES["acute"].variables()
    options = {"size": sc.SIZE, "radius": 0.1, "face_count": 1, **wrong}
    with pytest.raises(InputError, match=next(iter(wrong)) if "layers" not in wrong else "layer"):
        hard_soft_ras(position, faces, **options)


def test_a_removed_form_names_what_takes_its_place():
    position, faces = CASES["acute"].variables()
    for form, cure in (
        ("silhouette", "outer takes its place"),
        ("contour", "edges takes its place"),
        ("edgse", "did you mean 'edges'"),
    ):
        with pytest.raises(InputError, match=cure):
            hard_soft_ras(position, faces, size=sc.SIZE, radius=0.1, face_count=1, form=form)


def test_modes_of_the_paper_are_presets():
    """(layers, radius, sigma, E) of each, and what is given beside them counts."""
    case = CASES["sphere"]
    position, faces = case.variables()

    def drawn(**options):
        return hard_soft_ras(position, faces, size=sc.SIZE, face_count=80, **options)

    same = {
        "aa": {"layers": 1, "radius": 1 / 64, "delta": 1 / 64},
        "default": {"layers": 3, "radius": 0.01},
        "softras": {"layers": 5, "radius": 0.1, "sigma": 0.0285, "delta": np.inf},
    }
    for mode, options in same.items():
        found, truth = evaluate([drawn(mode=mode).silhouette, drawn(**options).silhouette])
        assert_array_equal(found, truth)
    assert len(drawn(mode="softras", layers=2).layers) == 2


def test_an_infinite_band_is_soft_everywhere():
    case = CASES["sphere"]
    position, faces = case.variables()
    options = {"size": sc.SIZE, "radius": sc.RADIUS, "face_count": 80, "layers": 2, "delta": np.inf}
    drawn = hard_soft_ras(position, faces, **options)
    picture = brute_force.render(case.clip, case.faces, sc.SIZE, radius=sc.RADIUS, layers=2, cull="none")
    (image,) = evaluate([drawn.silhouette])
    expected = 1 - np.prod(1 - picture.d, axis=0)
    assert np.mean(np.abs(image[0] - expected) > 1e-4) <= 0.005


@pytest.mark.parametrize(
    "wrong", [{}, {"mode": "nvdiffrast"}, {"mode": "aa", "form": "outer", "radius": 0.1}]
)
def test_a_radius_or_a_known_mode_is_needed(wrong):
    position, faces = CASES["acute"].variables()
    with pytest.raises(InputError, match="mode" if wrong else "radius"):
        hard_soft_ras(position, faces, size=sc.SIZE, face_count=1, **wrong)


def soup(case: sc.Case) -> tuple[sc.Case, np.ndarray]:
    """The case with vertices of its own for every face, and the vertex that each of them was."""
    number = case.faces.ravel()
    return sc.Case(case.clip[number], np.arange(len(number)).reshape(-1, 3)), number


def coloured(case: sc.Case, form: str, table: np.ndarray) -> list[Variable]:
    """Position, picture and gradient of a sum of the picture, 24x24."""
    position, faces = case.variables()
    radius = {} if form == "edges" else {"radius": 0.1}
    drawn = hard_soft_ras(position, faces, size=(24, 24), face_count=len(case.faces), form=form, **radius)
    colours = list_leaf("colours", VEC3, table)
    picture = drawn.blend([surface.interpolate(colours) for surface in drawn.surfaces], 0.0)
    weight = np.random.default_rng(2).normal(size=(1, 24, 24, 3))
    loss = F.sum(F.dot(picture, Variable(VEC3, (24, 24), data=weight)))
    return [position, picture, *gradient(loss, [position])]


@pytest.mark.parametrize("form", ["outer", "edges"])
def test_triangles_that_share_no_vertices_are_drawn_as_one_surface(form):
    """Picture and gradient, which reaches every vertex of the edge, are those of the mesh whose faces share them."""
    case = oc.cases()["torus"]
    apart, number = soup(case)
    table = np.random.default_rng(1).uniform(size=(len(case.clip), 3))
    _, picture, slope = (v if v.is_leaf else evaluate([v])[0] for v in coloured(case, form, table))
    _, own, each = (v if v.is_leaf else evaluate([v])[0] for v in coloured(apart, form, table[number]))
    assert_allclose(own, picture, atol=1e-6)
    each = each.reshape(-1, 4)[: len(number)]
    total = np.zeros_like(slope.reshape(-1, 4)[: len(case.clip)])
    np.add.at(total, number, each)
    assert_allclose(total, slope.reshape(-1, 4)[: len(total)], atol=1e-4 * np.abs(slope).max())


@pytest.mark.parametrize("form", ["outer", "edges"])
def test_faces_that_come_apart_later_have_edges_of_their_own(form):
    """A quad of two faces with vertices of their own, whose halves are moved apart after the graph was made."""
    quad, _ = soup(
        sc.flat(
            [(-0.6, -0.5, 0.4), (0.5, -0.6, 0.4), (0.6, 0.5, 0.4), (-0.5, 0.6, 0.4)], [(0, 1, 2), (0, 2, 3)]
        )
    )
    torn = sc.Case(quad.clip + np.repeat([(0.2, -0.2, 0, 0), (-0.2, 0.2, 0, 0)], 3, axis=0), quad.faces)
    table = np.ones((6, 3))
    position, *later = coloured(quad, form, table)
    moved, *expected = coloured(torn, form, table)
    for own, other in zip(evaluate(later, {position: moved.data}), evaluate(expected), strict=True):
        assert_allclose(own, other, atol=1e-6)


@pytest.mark.every_driver
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.second_driver("acute-1", "open-2", "sphere-3", "overlapping-2")
def test_images_are_those_of_brute_force_on_devices(run, name, layers):
    sc.check_images(run, CASES[name], layers)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.second_driver("overlapping", "obtuse")
def test_gradient_is_that_of_the_frozen_picture_on_devices(run, name):
    sc.check_gradient(run, CASES[name], 3)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_meaning(run, kind):
    outputs = [build().output for build in EXAMPLES[kind]]
    for found, truth in zip(run(outputs), evaluate(outputs), strict=True):
        assert np.abs(found - truth).max() <= 1e-5 * np.abs(truth).max()


def test_gradient_repeats_bit_for_bit(run):
    case = CASES["sphere"]
    first, second = (run([sc.soft(case)[1].silhouette])[0] for _ in range(2))
    assert (first == second).all()
    slopes = [run(sc.silhouette_gradient(case))[0] for _ in range(2)]
    assert slopes[0].any() and (slopes[0] == slopes[1]).all()


@pytest.mark.release
@pytest.mark.one_driver
def test_derivative_of_the_rerendered_loss_on_a_bumpy_ellipsoid(run):
    mesh, camera = sc.bumpy_ellipsoid(), sc.camera(20, 25)
    assert sc.worst(sc.rerendered(run, *mesh, camera, pixels=5, layers=3, side=128)) <= 0.05


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.second_driver("24")
def test_exact_texture_gradient(run, side):
    check_texture_gradient(run, side)


def test_vertex_colours_are_drawn_as_they_are(device):
    """Both ways to draw a mesh show colours that differ on the two sides of an edge, times the colour of the mesh."""
    square = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    mesh = Mesh(
        square,
        [[0, 1, 2], [0, 2, 3]],
        colors=np.eye(3)[:2],
        color_faces=[[0, 0, 0], [1, 1, 1]],
        color=(0.5, 1.0, 1.0),
    )
    camera = Camera.perspective(40, (16, 16), (0, 0, 4), (0, 0, 0))
    _, colors = draw(mesh, Cameras([camera]), lambda: DressiAD(device))
    for picture in (colors[0], render(mesh, camera, light=None).colour):
        # Two pixels off the edge, whose own may go to either face.
        assert_allclose(picture[11, 9], [0.5, 0, 0], atol=1e-5)
        assert_allclose(picture[5, 7], [0, 1, 0], atol=1e-5)


def test_distances_to_a_straight_outline_are_exact():
    mask = np.zeros((1, 8, 16))
    mask[:, :, 6:] = 1
    expected = np.broadcast_to((np.arange(16) + 0.5 - 6) / 8, (8, 16))
    assert_allclose(signed_distances(mask, (16, 8))[0], expected)
    # At half the size the outline, at x = 6 of 16, still lies where it was.
    half = signed_distances(mask, (8, 4))[0]
    assert_allclose(half, np.broadcast_to((2 * np.arange(8) + 1 - 6) / 8, (4, 8)))


def test_distances_know_the_margin():
    mask = disc(24, 7)[None]
    assert_allclose(
        signed_distances(mask, (24, 24), 5),
        signed_distances(np.pad(mask, ((0, 0), (5, 5), (5, 5))), (34, 34)) * 34 / 24,
    )
    # At a third of the size, with centres where every third one was.
    inner = signed_distances(mask, (8, 8), 2)
    assert_allclose(inner[:, 2:-2, 2:-2], signed_distances(mask, (24, 24))[:, 1::3, 1::3])
    assert inner.shape == (1, 12, 12) and (np.diff(inner[0, 6, :3]) > 0.9 / 8).all()


def test_what_the_border_cuts_may_go_on_anywhere_outside():
    mask = np.zeros((2, 12, 12))
    mask[0, 4:8, :6] = 1  # goes on to the left, and from there wherever it likes
    mask[1, 4:8, 2:6] = 1
    assert_array_equal(cut_off(mask), [True, False])
    nearest, outline = least_distances(mask, (12, 12), 4), signed_distances(mask, (12, 12), 4)
    assert_array_equal(nearest[1], outline[1])
    assert (nearest[0] >= outline[0]).all()
    # Half a pixel from the border of the picture on the outermost pixels, whatever the mask is; covered beyond.
    assert_allclose(nearest[0, 4, 4:-4], -0.5 / 12)
    assert (nearest[0, :4] > 0).all() and (nearest[0, :, -4:] > 0).all()
    # Near the mask it is the mask that counts.
    assert_allclose(nearest[0, 9, 4 + 6 : 4 + 8], outline[0, 9, 4 + 6 : 4 + 8])


def test_what_is_not_known_may_be_covered():
    mask, known = np.zeros((2, 12, 12)), np.ones((2, 12, 12), bool)
    mask[:, 4:8, 4:8] = 1
    known[0, :, 8:] = known[1, :, 11:] = False  # padding: up to the mask, and away from it
    assert_array_equal(cut_off(mask, known), [True, False])
    nearest = least_distances(mask, (12, 12), 0, known)
    assert_allclose(nearest[0, 0, 4:8], [-3.5 / 12, -2.5 / 12, -1.5 / 12, -0.5 / 12])
    assert (nearest[0, :, 8:] > 0).all()
    assert_array_equal(nearest[1], signed_distances(mask[1:], (12, 12))[0])


@pytest.mark.parametrize(("plain", "bounds"), [(False, (0.01, 0.01, 0.02)), (True, (0.11, 0.05, 0.03))])
def test_targets_know_where_in_a_pixel_a_mask_ends(plain, bounds):
    """The size of a disc whose soft silhouette is nearest to the target, by its true one, at radii of 1, 3 and 8 pixels."""
    n, samples, offsets = 40, 8, np.linspace(-0.4, 0.4, 161)
    fine, centres = ((np.mgrid[:k, :k] + 0.5) * n / k for k in (n * samples, n))
    found = []
    for seed in range(4):
        middle = n / 2 + np.random.default_rng(seed).uniform(-0.5, 0.5, (2, 1, 1))
        inside, away = (10.0 - np.hypot(*(grid - middle)) for grid in (fine, centres))
        coverage = (inside > 0).reshape(n, samples, n, samples).mean((1, 3))
        targets = [soft_target(away > 0 if plain else coverage, r / n) for r in (1, 3, 8)]
        drawn = np.maximum(-away - offsets[:, None, None], 0.0)
        losses = [
            ((np.maximum(1 - drawn / r, 0) ** 2 - t) ** 2).sum((1, 2))
            for r, t in zip((1, 3, 8), targets, strict=True)
        ]
        found.append(offsets[np.argmin(losses, axis=1)])
    assert (np.abs(np.mean(found, axis=0)) <= bounds).all()


def test_distances_of_full_and_empty_masks_are_far():
    full, empty = signed_distances(np.stack([np.ones((4, 4)), np.zeros((4, 4))]), (4, 4))
    assert full.min() > 1 and empty.max() < -1


def test_outlines_keep_thin_lines_and_single_pixels():
    mask = np.zeros((9, 12))
    mask[2, 1:8], mask[5, 9], mask[6, 10] = 1, 1, 1
    found = outline_distances(mask)
    assert (np.sign(found) == np.where(mask, 1, -1)).all()
    assert_allclose(found[:5, 4], [-1.5, -0.5, 0.5, -0.5, -1.5], atol=1e-6)
    mask[6, 10] = 0  # of two pixels that touch at a corner one side has to be joined
    assert_allclose(outline_distances(1 - mask), -outline_distances(mask), atol=1e-6)
    # Straight edges of any slope, of their shares of the pixels.
    rows, columns = np.mgrid[:144, :192] / 16 + 1 / 32
    inside = 4.2 + 0.3 * (columns - 6) - rows
    partly = (inside > 0).reshape(9, 16, 12, 16).mean((1, 3))
    exact = (4.2 + 0.3 * (np.arange(12) + 0.5 - 6) - np.arange(9)[:, None] - 0.5) / np.hypot(1, 0.3)
    assert_allclose(outline_distances(partly)[2:-2, 2:-2], exact[2:-2, 2:-2], atol=0.05)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_sharp_target_is_the_mask(layers: int):
    mask = disc(32, 9)[None]
    distance = Variable(FLOAT, (32, 32), data=signed_distances(mask, (32, 32)))
    (soft,) = evaluate([peeled_target(distance, Variable(FLOAT, data=np.full((1, 1, 1), 7e-4)), layers)])
    assert_allclose(soft, mask, atol=1e-6)


def test_what_lies_outside_of_the_picture_costs_nothing():
    """A ball that the picture's border cuts: whatever it becomes beyond, the loss is that of a good fit."""
    size = (24, 24)
    y, x = np.mgrid[:24, :24] + 0.5
    ball = octasphere(2, 0.4, (0.95, 0.0, 0.5))  # clip space is that of the first two coordinates
    mask = (np.hypot(x - 12 - 12 * 0.95, y - 12) < 12 * 0.4).astype(np.float64)
    masks = np.stack([mask, mask])
    flat = np.diag([1.0, 1.0, 0.1, 1.0])
    matrices = np.stack([flat, flat])

    def loss(positions: np.ndarray, known: np.ndarray | None = None) -> float:
        plan = FitRound(0, 24, 1, (0.2, 0.2), (0.1, 0.1), 0.0)
        views = Learned(matrices, masks, np.zeros((*masks.shape, 3)), known, None)
        work = ShapeRound(ball.moved(positions), views, size, plan)
        return float(evaluate([work.loss], {work.radius: np.full((1, 1, 1), 0.2)})[0].item())

    outside = ball.positions[:, 0] > 1.05
    true = loss(ball.positions)
    longer = loss(ball.positions + np.where(outside[:, None], (0.3, 0, 0), 0))
    inside = loss(ball.positions + np.where(outside[:, None], 0, (-0.15, 0, 0)))
    assert true < 2e-3 and longer < 1.3 * true and inside > 5 * true
