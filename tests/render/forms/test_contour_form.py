"""The contour form against brute force, and along paths of the picture drawn again; on the oracle and every driver.

``apps/contour_test.py`` does the last for more scenes, parameters and forms.
"""

import contour_cases as cc
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, IVEC3, VEC4
from dressi.errors import InputError
from dressi.render import Camera, render
from dressi.render.forms.edges.edge_list import edge_list
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.lists import list_data, list_leaf

CASES = oc.cases()
NAMES = ["torus", "torus from the side", "overlapping", "ellipsoid", "open", "near plane", "three faces at an edge"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_that_of_brute_force(name):
    cc.check_picture(evaluate, CASES[name])


@pytest.mark.vk
@pytest.mark.parametrize("name", ["torus", "overlapping", "open", "near plane"])
@pytest.mark.second_driver("torus", "near plane")
def test_picture_is_that_of_brute_force_on_devices(run, name):
    cc.check_picture(run, CASES[name])


@pytest.mark.parametrize("name", ["torus", "near plane"])
def test_the_margin_shows_the_surface_inside_the_contour(name):
    cc.check_place(evaluate, CASES[name])


@pytest.mark.vk
def test_the_margin_shows_the_surface_inside_the_contour_on_devices(run):
    cc.check_place(run, CASES["torus"])


def test_faces_know_their_neighbours():
    def neighbours(faces) -> list:
        return list_data(edge_list(np.array(faces)).neighbours)[: len(faces)].tolist()

    chain = [(0, 1, 2), (1, 0, 3), (2, 1, 4), (4, 1, 5)]
    assert neighbours(chain) == [[2, -1, 1], [-1, -1, 0], [3, -1, 0], [-1, -1, 2]]
    assert neighbours([(0, 1, 2), (1, 0, 3), (0, 1, 4)]) == [[-1] * 3] * 3  # three faces at an edge


def test_gradient_is_the_central_difference():
    # Two triangles, one of which hides a part of the other.
    leaves, image = cc.gradient_parts(CASES["overlapping"])
    loss = F.sum(F.dot(image, image))
    random = np.random.default_rng(4)
    for leaf, slope in zip(leaves, gradient(loss, leaves), strict=True):
        values, direction = leaf.data, random.normal(size=leaf.shape)
        (by,) = evaluate([slope])
        along, losses = (by * direction).sum(), []
        for h in (1e-6, -1e-6):
            leaf.data = values + h * direction
            losses.append(evaluate([loss])[0].item())
        leaf.data = values
        assert abs(along - (losses[0] - losses[1]) / 2e-6) <= 1e-4 * abs(along)


@pytest.mark.vk
def test_gradients_are_those_of_the_oracle(run):
    leaves, image = cc.gradient_parts(CASES["torus"])
    slopes = gradient(F.sum(F.dot(image, image)), leaves)
    # A driver that rounds corners to a grid of 1/16 pixel shows other faces at a few pixels.
    for found, expected in zip(run(slopes), evaluate(slopes), strict=True):
        assert np.linalg.norm(found - expected) <= 4e-2 * np.linalg.norm(expected)


def test_a_slanted_floor_hides_what_lies_below_it():
    # The edges of the small face lie behind the floor, but nearer than the floor at pixels that are far away on it.
    floor = [(-0.9, -0.9, 0.1), (0.9, -0.9, 0.1), (0.9, 0.9, 0.9), (-0.9, 0.9, 0.9)]
    below = [(-0.3, 0.0, 0.52), (0.3, 0.0, 0.52), (0.0, 0.1, 0.58)]
    _, drawn = cc.contours(sc.flat(floor + below, [(0, 1, 2), (0, 2, 3), (4, 5, 6)]), radius=0.2)
    margin, hard = evaluate([drawn.margin, drawn.hard])
    assert not margin[hard > 0].any() and margin.any()


def test_blending_needs_two_colours():
    _, drawn = cc.contours(CASES["acute"])
    with pytest.raises(InputError, match="a colour of the margin and one of the surface"):
        drawn.blend([F.constant(1.0)])


@pytest.mark.release
@pytest.mark.parametrize("image", ["depth", "normal"])
def test_losses_of_attributes_feel_what_hides_what(image):
    # A small slanted square moves before a large one.
    square = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], float)
    turn = np.array([(0.95, 0.31, 0.2), (-0.31, 0.95, 0.1), (0, 0, 1)])
    small = square * 0.3 @ turn + (0.03, 0.02, 0.5)  # far from the contour of the other
    faces = np.array([(0, 1, 2), (0, 2, 3), (4, 5, 6), (4, 6, 7)])
    camera = Camera.perspective(40, (32, 32), (0.1, 0.0, 4), (0, 0, 0))
    start, move = np.concatenate([small, square]), np.repeat([[1.0, 0, 0], [0, 0, 0]], 4, axis=0)
    target = np.broadcast_to(np.linspace(-3, 3, 32), (32, 32))

    def change(form: str) -> tuple[float, float]:
        positions = Variable.of(start)
        picture = render((start, faces), camera, positions=positions, form=form, radius=0.1)
        error = getattr(picture, image) - target
        loss = F.sum(F.square(error) if error.vtype.is_scalar else F.dot(error, error))
        (slope,) = gradient(loss, [positions])
        losses, slopes, step = [], [], 0.07  # one pixel
        for place in (-1.0, 1.0, *((np.arange(24) + 0.5) / 12 - 1)):
            positions.data = (start + 0.5 * place * step * move).reshape(positions.shape)
            value, by = evaluate([loss, slope])
            losses.append(value.item())
            slopes.append((by.reshape(-1, 3) * move).sum())
        return float(np.mean(slopes[2:])) * step, losses[1] - losses[0]

    integral, difference = change("contour")
    assert abs(integral - difference) <= 0.02 * abs(difference)
    integral, difference = change("outer")
    assert abs(integral - difference) > 0.3 * abs(difference)


@pytest.mark.one_driver
def test_the_minimum_against_measured_pictures_is_where_the_documentation_says():
    """A plate with one edge in the picture; measured: the share of each pixel that it covers."""
    size, faces, true = (24, 4), np.array([[0, 1, 2], [0, 2, 3]]), 11.3
    places = true + np.arange(-1.5, 0.6, 0.02)
    edge = Variable(FLOAT, (1, 1), len(places), name="edge", data=places[:, None, None])  # a batch of plates

    def minimum(form: str, **options: float) -> float:
        at = edge * (2.0 / size[0]) - 1.0
        corners = F.vec4(at, 0.0, 0.0, 0.0) * F.constant((1.0, 0.0, 0.0, 0.0))
        which = list_leaf("which", FLOAT, np.array([0.0, 1.0, 1.0, 0.0]))
        rest = list_leaf(
            "rest", VEC4, np.array([(-9.0, -9, 0.5, 1), (0, -9, 0.5, 1), (0, 9, 0.5, 1), (-9, 9, 0.5, 1)])
        )
        clip = rest + F.expand(corners, len(places), which.size) * which
        drawn = hard_soft_ras(
            clip, list_leaf("faces", IVEC3, faces), size=size, face_count=2, form=form, **options
        )
        covered = np.clip(true - np.arange(size[0]), 0, 1)
        measured = Variable(FLOAT, size, data=np.tile(covered, (1, size[1], 1)))
        (losses,) = evaluate([F.mean(F.square(drawn.silhouette - measured), "xy")])
        return float(places[np.argmin(losses)] - true)

    for radius in (1, 2, 3):
        assert minimum("contour", radius=radius / size[1]) == pytest.approx(-0.3 * radius, abs=0.12)
    assert abs(minimum("antialias")) <= 0.02
