"""HardSoftRas against brute force and against the picture drawn again.

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

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.traversal import topological_order
from dressi.ad.types import FLOAT, VEC3
from dressi.errors import InputError
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.lists import list_leaf

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
        np.testing.assert_allclose(image[0], picture.silhouette, atol=1e-6)


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
    np.testing.assert_allclose(plain[0], edge * soft + (1 - edge) * hard * front, atol=1e-6)
    s = picture.silhouette[..., None]
    over = edge * (s * soft + (1 - s) * (0, 0, 1)) + (1 - edge) * np.where(hard, front, (0, 0, 1))
    np.testing.assert_allclose(laid[0], over, atol=1e-6)


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
    for form, cure in (("silhouette", "outer takes its place"), ("contuor", "did you mean 'contour'")):
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
        np.testing.assert_array_equal(found, truth)
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
    radius = {} if form == "antialias" else {"radius": 0.1}
    drawn = hard_soft_ras(position, faces, size=(24, 24), face_count=len(case.faces), form=form, **radius)
    colours = list_leaf("colours", VEC3, table)
    picture = drawn.blend([surface.interpolate(colours) for surface in drawn.surfaces], 0.0)
    weight = np.random.default_rng(2).normal(size=(1, 24, 24, 3))
    loss = F.sum(F.dot(picture, Variable(VEC3, (24, 24), data=weight)))
    return [position, picture, *gradient(loss, [position])]


@pytest.mark.one_driver
@pytest.mark.parametrize("form", ["outer", "contour", "antialias"])
def test_triangles_that_share_no_vertices_are_drawn_as_one_surface(form):
    """Picture and gradient, which reaches every vertex of the edge, are those of the mesh whose faces share them."""
    case = oc.cases()["torus"]
    apart, number = soup(case)
    table = np.random.default_rng(1).uniform(size=(len(case.clip), 3))
    _, picture, slope = (v if v.is_leaf else evaluate([v])[0] for v in coloured(case, form, table))
    _, own, each = (v if v.is_leaf else evaluate([v])[0] for v in coloured(apart, form, table[number]))
    np.testing.assert_allclose(own, picture, atol=1e-6)
    each = each.reshape(-1, 4)[: len(number)]
    total = np.zeros_like(slope.reshape(-1, 4)[: len(case.clip)])
    np.add.at(total, number, each)
    np.testing.assert_allclose(total, slope.reshape(-1, 4)[: len(total)], atol=1e-4 * np.abs(slope).max())


@pytest.mark.one_driver
@pytest.mark.parametrize("form", ["outer", "contour", "antialias"])
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
        np.testing.assert_allclose(own, other, atol=1e-6)
