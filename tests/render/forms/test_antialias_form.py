"""The antialias form against brute force, central differences, and along paths of the picture drawn again.

Recorded: the gradient of the silhouette loss, integrated along nine directions between -1 and +1 pixel, over its change
(64x64, one view): medians 0.992 (torus), 0.996 (ellipsoid), 0.984 (sphere); with colours 1.04, 1.01, 1.00.
"""

import antialias_cases as ac
import numpy as np
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import INT, VEC2, VEC3, VEC4
from dressi.errors import GraphError, InputError
from dressi.render.forms.edges.crossings import Crossing
from dressi.render.forms.hard_soft_ras import hard_soft_ras

CASES = ac.cases()
CULLED = ("open", "mixed orientation")


@pytest.mark.parametrize("name", ["torus", "overlapping", "open", "three faces at an edge"])
def test_pictures_are_those_of_brute_force(name):
    ac.check_image(evaluate, CASES[name])


@pytest.mark.parametrize("name", CULLED)
def test_back_faces_can_be_culled(name):
    ac.check_image(evaluate, CASES[name], cull="back")


def square(left: float, right: float, depth: float = 0.4) -> sc.Case:
    """From x = left to right, between -0.5 and 0.5, as two faces."""
    corners = [(left, -0.5, depth), (right, -0.5, depth), (right, 0.5, depth), (left, 0.5, depth)]
    return sc.flat(corners, [(0, 1, 2), (0, 2, 3)])


@pytest.mark.parametrize("right", [0.5, 0.52, 0.5626, 0.6, 0.624])
def test_upright_silhouettes_cover_their_share_of_the_pixels(right):
    """16 pixels: 8 of them high, and no crack along the diagonal that the two faces share."""
    (silhouette,) = evaluate([ac.antialiased(square(-0.5, right), size=(16, 16))[1].silhouette])
    np.testing.assert_allclose(silhouette.sum(), 8 * 8 * (right + 0.5), atol=1e-6)
    assert (silhouette[0, 4:12, 4:12] == 1).all()


@pytest.mark.parametrize("angle", [0.0, 0.3, 1.2, np.pi / 2])
def test_shading_does_not_jump_where_an_edge_moves_over_a_centre(angle):
    """Before and after, to either side of the centre of a pixel; both surfaces and the background are shaded."""
    turn = np.array([(np.cos(angle), np.sin(angle)), (-np.sin(angle), np.cos(angle))])
    rng, far = np.random.default_rng(4), np.random.default_rng(5).uniform(size=(1, 1, 8, 3))
    back = square(-0.9, 0.9, 0.8)
    table = np.concatenate([far[0, 0, :4], rng.uniform(size=(4, 3))])

    def pictures(place: float) -> list[np.ndarray]:
        front = square(-0.6, place, 0.4)
        # The edge at x = place passes over the centre of pixel (9, 8) when place is 0, whatever the angle.
        front.clip[:, :2] = front.clip[:, :2] @ turn + np.array([(9.5 / 8 - 1, 8.5 / 8 - 1)])
        case = sc.Case(np.concatenate([back.clip, front.clip]), np.concatenate([back.faces, front.faces + 4]))
        position, drawn = ac.antialiased(case, size=(16, 16))
        colours = Variable(VEC3, position.size, data=table[None, None])
        shaded = [s.interpolate(colours) for s in drawn.surfaces]
        return evaluate([drawn.blend(shaded, (0.1, 0.9, 0.4)), drawn.blend(shaded[:1], (0.1, 0.9, 0.4))])

    ends = [pictures(place) for place in (-1e-7, 1e-7)]
    jumps = [np.abs(b - a)[0, 8, 9].max() for a, b in zip(*ends, strict=True)]
    assert jumps[0] < 1e-5
    assert jumps[1] > 0.01


def test_contours_inside_are_blended_and_shared_edges_are_not():
    """A square in front of another one: only its border is blended, with the colour behind."""
    back, front = square(-0.9, 0.9, 0.8), square(-0.5, 0.52, 0.4)
    case = sc.Case(np.concatenate([back.clip, front.clip]), np.concatenate([back.faces, front.faces + 4]))
    _, drawn = ac.antialiased(case, size=(16, 16))
    shown = F.select(F.less(drawn.surfaces[0].face, 2), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    (picture,) = evaluate([drawn.blend([shown], (0.0, 0.0, 0.0))])
    row = picture[0, 8]
    np.testing.assert_allclose(row[4:12], [(0, 1, 0)] * 8, atol=1e-6)
    np.testing.assert_allclose(row[12], (0.84, 0.16, 0), atol=1e-6)
    np.testing.assert_allclose(row[3], (1, 0, 0), atol=1e-6)


def test_a_line_thinner_than_a_pixel_stays_between_its_neighbours():
    """Both its edges pass beside one column of centres: it takes from both sides, no more than all of itself."""
    (silhouette,) = evaluate([ac.antialiased(square(0.05, 0.08), size=(16, 16))[1].silhouette])
    assert silhouette.min() >= 0 and silhouette.max() <= 1
    np.testing.assert_allclose(silhouette[0, 6:10, 8], 0.03 * 8, atol=1e-6)


@pytest.mark.parametrize("name", ["torus", "overlapping", "open"])
def test_gradient_is_the_central_difference_of_the_picture_drawn_again(name):
    """By all clip coordinates, along random directions short enough that the same edges count."""
    case = CASES[name]
    position, loss = ac.loss_of(case)
    (slope,) = evaluate(gradient(loss, [position]))
    for seed in range(3):
        direction = np.random.default_rng(seed).normal(size=position.shape) * (1, 1, 0.1, 0.3)
        ends = [evaluate([loss], {position: position.data + h * direction})[0] for h in (1e-7, -1e-7)]
        difference = ((ends[0] - ends[1]) / 2e-7).item()
        assert abs((slope * direction).sum() - difference) <= 1e-5 * np.abs(slope * direction).sum()


def test_a_mesh_behind_the_camera_is_an_empty_picture_without_gradient():
    case = CASES["torus"]
    position, drawn = ac.antialiased(sc.Case(case.clip * (1, 1, 1, -1), case.faces))
    image, slope = evaluate([drawn.silhouette, *gradient(F.sum(drawn.silhouette), [position])])
    assert not image.any() and not slope.any()


@pytest.mark.parametrize("wrong", [{"radius": 0.1}, {"layers": 3}, {"mode": "aa"}])
def test_options_of_other_forms_are_named(wrong):
    position, faces = CASES["overlapping"].variables()
    with pytest.raises(InputError, match=next(iter(wrong))):
        hard_soft_ras(position, faces, size=ac.SIZE, face_count=2, form="antialias", **wrong)


def test_one_or_three_colours_are_blended():
    _, drawn = ac.antialiased(CASES["overlapping"])
    with pytest.raises(InputError, match="2"):
        drawn.blend([drawn.hard, drawn.hard])
    position, faces = CASES["overlapping"].variables()
    whole = hard_soft_ras(position, faces, size=ac.SIZE, face_count=2, form="antialias", at_edges=False)
    assert (len(drawn.surfaces), len(whole.surfaces)) == (3, 1)


def test_crossings_need_an_axis():
    leaves = [Variable(t, (4, 4)) for t in (VEC2, VEC2, VEC4, VEC2, INT)]
    with pytest.raises(GraphError, match="axis"):
        Crossing(*leaves, axis="z")
