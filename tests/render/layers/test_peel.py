"""Peeled layers against sorted float64, on every driver, and their derivatives against central differences and along paths."""

import glass_cases as gc
import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, IVEC3, VEC3, VEC4, list_image, list_size
from dressi.errors import InputError
from dressi.render.cameras import Camera
from dressi.render.forms.antialias import ANTIALIAS
from dressi.render.forms.contour import CONTOUR
from dressi.render.forms.face import FACE
from dressi.render.forms.hard import HARD
from dressi.render.forms.outer import OUTER
from dressi.render.layers.drawn import draw_layers
from dressi.render.layers.peel import peel
from dressi.render.lists import list_leaf
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import DrawnMesh

SCENE = gc.glass()
TRUTH, COUNT = gc.sorted_picture(SCENE)
RADIUS = {"radius": F.constant(3 / gc.SIZE[1])}


def test_picture_is_the_sorted_one():
    """Of five panes that pass through each other and through an opaque quad; no pixel counts a diagonal twice."""
    assert set(np.unique(COUNT)) == set(range(gc.PANES + 1))
    made = gc.drawn(SCENE, HARD)
    picture, missed = evaluate([made.picture, made.layers.peeled.missed])
    assert np.abs(picture[0] - TRUTH).max() <= 1e-9 and not missed.any()


@pytest.mark.vk
@pytest.mark.parametrize("eye", [(0, 0, 3), (1, 0.5, 2)])
def test_panes_in_one_plane_are_layers_each(run, eye):
    """Three of them, one with the other diagonal: no pixel peels one twice or none, along their diagonals neither."""
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
    np.testing.assert_allclose(picture[0][COUNT <= 2], TRUTH[COUNT <= 2], atol=1e-9)


def test_silhouettes_of_all_layers_are_antialiased():
    """Nearer to the mean of 64 samples a pixel than the hard picture: at edges, and where panes pass through each other."""
    fine = gc.sorted_picture(SCENE, (gc.SIZE[0] * 8, gc.SIZE[1] * 8))[0]
    truth = fine.reshape(gc.SIZE[1], 8, gc.SIZE[0], 8, 3).mean((1, 3))
    (picture,) = evaluate([gc.drawn(SCENE, ANTIALIAS).picture])
    (unseamed,) = evaluate([gc.drawn(SCENE, ANTIALIAS, with_seams=False).picture])
    hard, soft, without = (np.abs(p - truth).mean() for p in (TRUTH, picture[0], unseamed[0]))
    assert soft < 0.95 * without < 0.4 * hard, (hard, soft, without)


@pytest.mark.parametrize("form", [OUTER, CONTOUR], ids=lambda form: form.name)
def test_margins_show_what_comes_there(form):
    """Just beside its outline a pane of the margin lies where it does just inside: between the layers that the pixel shows, and
    outside of all with the outer form. Farther than the radius the picture is the sorted one."""
    quads = [((0, 0), (40, 40), 0.9), ((8, 0), (20.05, 40), 0.5), ((10, 0), (40, 20), 0.3)]
    if form is OUTER:
        quads = [((50, 0), (60, 40), 0.9), quads[1], ((50, 0), (60, 40), 0.3)]
    corners = np.array([[(a, b, z), (c, b, z), (c, d, z), (a, d, z)] for (a, b), (c, d), z in quads])
    colours = np.array([(0.2, 0.4, 0.1), (0.9, 0.1, 0.3), (0.1, 0.2, 0.8)])
    flat = np.diag([2 / 40, 2 / 40, 1.0, 1.0])
    flat[:2, 3] = -1
    scene = gc.Glass(corners, colours, np.array([1.0, 0.6, 0.7]), flat)
    radius = {"radius": F.constant(3 / 40)}
    made = gc.drawn(scene, form, 2, (40, 40), **radius)
    picture, margin = evaluate([made.picture, made.layers.margin])
    truth = gc.sorted_picture(scene, (40, 40))[0]
    for row in (10, 30):
        assert margin[0][row, 20] > 0.6 and not margin[0][row, [24, 30]].any()
        inside, soft = truth[row, 19], margin[0][row, 20, None]
        np.testing.assert_allclose(
            picture[0][row, 20], truth[row, 20] * (1 - soft) + soft * inside, atol=1e-6
        )
        np.testing.assert_allclose(picture[0][row, 24:36], truth[row, 24:36], atol=1e-6)


@pytest.mark.parametrize(
    ("end", "start", "flip"), [(3.7, 4.2, False), (4.2, 3.7, True), (3.6, 3.9, True), (4.4, 4.1, False)]
)
def test_what_lies_between_two_edges_is_composed(end, start, flip):
    """Of a pane that ends between two centres and one that begins there, each pixel has the exact shares: of both or of none of
    them, too. An opaque pane lies behind all rows but the first."""
    size, alphas = 8, np.array([1.0, 0.6, 0.7])
    colours = np.array([(0.2, 0.4, 0.1), (0.9, 0.1, 0.3), (0.1, 0.2, 0.8)])
    quads = [((0, 0.25), (8, 8), 0.9), ((0, 0), (end, 8), 0.3), ((start, 0), (8, 8), 0.5)]
    corners = [[(a, b, z), (c, b, z), (c, d, z), (a, d, z)] for (a, b), (c, d), z in quads]
    points = np.array(corners).reshape(-1, 3) * (2 / size, 2 / size, 1) - (1, 1, 0)
    points = points[:, [1, 0, 2]] if flip else points
    faces = gc.Glass(np.zeros((3, 4, 3)), colours, alphas).faces
    position = gc.leaf("position", VEC4, np.concatenate([points, np.ones((len(points), 1))], axis=1))
    triangles = Variable(IVEC3, list_size(6), name="faces", data=list_image(faces))
    drawn = draw_layers(ANTIALIAS, DrawnMesh(position, triangles, (size, size), 6), 2, 2)
    alpha = [F.lookup(gc.leaf("alphas", FLOAT, np.repeat(alphas, 2)), s.face) for s in drawn.surfaces]
    table = gc.leaf("colours", VEC3, np.repeat(colours, 2, 0))
    shaded = [F.lookup(table, s.face) * a for s, a in zip(drawn.surfaces, alpha, strict=True)]
    picture = drawn.blend(shaded, None, [1.0 - a for a in alpha])
    found = evaluate([picture])[0][0]
    fine = (np.arange(800) + 0.5) / 100
    row = colours[0] + np.zeros((800, 1))
    for k, inside in ((2, fine > start), (1, fine < end)):
        row = np.where(inside[:, None], alphas[k] * colours[k] + (1 - alphas[k]) * row, row)
    expected = row.reshape(8, 100, 3).mean(1)
    np.testing.assert_allclose(found[:, 4] if flip else found[4], expected, atol=1e-6)
    loss = F.sum(F.dot(picture, picture * picture.x))
    way = np.random.default_rng(2).normal(size=position.shape) * (1, 1, 0, 0)
    (slope,) = evaluate(gradient(loss, [position]))
    ends = [evaluate([loss], {position: position.data + h * way})[0].item() for h in (1e-7, -1e-7)]
    assert abs((ends[0] - ends[1]) / 2e-7 - (slope * way).sum()) <= 1e-5 * np.abs(slope * way).sum()


@pytest.mark.parametrize("form", [HARD, ANTIALIAS, OUTER, CONTOUR], ids=lambda form: form.name)
def test_gradient_is_the_central_difference_of_the_picture_drawn_again(form):
    made = gc.drawn(SCENE, form, **RADIUS if form.soft else {})
    error = made.picture - Variable(VEC3, gc.SIZE, data=np.roll(TRUTH, 3, 1)[None])
    loss = F.sum(F.dot(error, error))
    leaves = [made.position, made.colours, made.alphas]
    slopes = evaluate(gradient(loss, leaves))
    rng = np.random.default_rng(1)
    for leaf, slope in zip(leaves, slopes, strict=True):
        direction = rng.normal(size=leaf.shape) * ((1, 1, 0.1, 0.3) if leaf.vtype is VEC4 else 1)
        ends = [evaluate([loss], {leaf: leaf.data + h * direction})[0].item() for h in (1e-7, -1e-7)]
        assert (
            abs((ends[0] - ends[1]) / 2e-7 - (slope * direction).sum())
            <= 1e-5 * np.abs(slope * direction).sum()
        )


def test_forms_that_draw_no_layers_say_so():
    with pytest.raises(InputError, match="face form draws no transparent"):
        gc.drawn(SCENE, FACE, **RADIUS)
    with pytest.raises(InputError, match="leave out seams"):
        gc.drawn(SCENE, CONTOUR, **RADIUS, seams=True)
    with pytest.raises(InputError, match="from 1 to 16, not 0"):
        gc.drawn(SCENE, HARD, layers=0)


@pytest.mark.vk
def test_drivers_draw_the_sorted_picture(run):
    (picture,) = run([gc.drawn(SCENE, HARD).picture])
    clear = gc.clear(SCENE)
    assert clear.mean() > 0.85
    np.testing.assert_allclose(picture[0][clear], TRUTH[clear], atol=1e-4)


def check_path(run, form, *names: str) -> None:
    """The gradient integrates to the loss of balls whose outlines, back sides and lines of intersection move."""
    balls = gc.Balls((64, 64), 6, form, 3 / 64 if form.soft else None)
    ratios = [one.integral / one.difference for one in balls.along(run, names)]
    assert len(ratios) == len(names) and np.abs(np.array(ratios) - 1).max() < 0.05, ratios
    assert abs(np.median(ratios) - 1) <= 0.02, ratios


@pytest.mark.release
def test_gradient_integrates_to_the_loss():
    check_path(evaluate, ANTIALIAS, "scale", "one ball")


@pytest.mark.release
@pytest.mark.vk
@pytest.mark.one_driver
def test_gradient_integrates_to_the_loss_on_a_device(run):
    check_path(run, CONTOUR, "translation z", "scale", "smooth 0", "one ball")
