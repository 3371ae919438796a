"""Colour in the outer form: against brute force, along paths of the picture drawn again, on the oracle and every driver."""

import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import VEC3
from dressi.errors import InputError
from dressi.render.forms.hard_soft_ras import hard_soft_ras

CASES = oc.cases()
SMOOTH = (sc.icosphere(2), sc.camera(20, 25, 3.5))
"""A mesh without contours inside of its outline."""


@pytest.mark.parametrize("name", CASES)
def test_colours_are_those_of_brute_force(name):
    oc.check_colours(evaluate, CASES[name])


def test_colours_of_culled_faces_are_not_seen():
    oc.check_colours(evaluate, CASES["open"], cull="back")


@pytest.mark.vk
@pytest.mark.parametrize(
    "name", ["torus from the side", "overlapping", "open", "near plane", "three faces at an edge"]
)
@pytest.mark.second_driver("near plane", "open")
def test_colours_are_those_of_brute_force_on_devices(run, name):
    oc.check_colours(run, CASES[name])


def front_faces(run, case):
    """(pixels of the margin) numbers of the nearest edge's face in front."""
    _, drawn = oc.outer(case)
    face, hard = run([drawn.surfaces[0].face, drawn.hard])
    return face[0][(hard[0] == 0) & (face[0] >= 0)]


def check_front(run) -> None:
    # Of a closed mesh, the faces of the margin are turned to the viewer.
    case = CASES["ellipsoid"]
    xy, _, _ = oc.brute_force.to_screen(case.clip, *oc.SIZE)
    found = front_faces(run, case)
    assert len(found) > 100 and (oc.brute_force.double_area(xy, case.faces)[found] > 0).all()
    # Three sheets that hang on one edge and on nothing else: the nearest is in front, wherever it stands in the list.
    points = [(-0.5, -0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.4, 0.6), (0.0, 0.45, 0.2), (0.0, 0.5, 0.7)]
    for faces, front in (([(0, 1, 2), (0, 1, 3), (0, 1, 4)], 1), ([(1, 0, 3), (0, 1, 2), (4, 0, 1)], 0)):
        case = sc.flat(points, faces)
        _, drawn = oc.outer(case)
        (face,) = run([drawn.surfaces[0].face])
        above = face[0][: oc.SIZE[1] // 4 - 1, 20:44]
        assert (above[above >= 0] == front).all() and (above >= 0).any()


def test_the_face_in_front_is_seen_beside_an_edge():
    check_front(evaluate)


@pytest.mark.vk
def test_the_face_in_front_is_seen_beside_an_edge_on_devices(run):
    check_front(run)


def picture(move: np.ndarray | float = 0.0):
    """Positions (moved), colours and the picture of a mesh in smooth colours."""
    position, drawn = oc.outer(sc.Case(sc.to_clip(SMOOTH[1], SMOOTH[0][0] + move), SMOOTH[0][1]))
    table = Variable(VEC3, position.size, data=oc.smooth_colours(SMOOTH[0][0])[None, None])
    return position, table, drawn.blend([drawn.surfaces[0].interpolate(table)], (0.4, 0.4, 0.4))


def test_colours_are_differentiable():
    _, table, image = picture()
    weight = Variable(VEC3, oc.SIZE, data=np.random.default_rng(2).normal(size=(1, *oc.SIZE[::-1], 3)))
    assert check_gradient(F.dot(image, weight), [table]) < 1e-6


@pytest.mark.vk
def test_gradients_are_those_of_the_oracle(run):
    position, table, image = picture()
    slopes = gradient(F.sum(F.dot(image - 0.5, image - 0.5)), [position, table])
    for found, expected in zip(run(slopes), evaluate(slopes), strict=True):
        assert np.linalg.norm(found - expected) <= 1e-2 * np.linalg.norm(expected)


@pytest.mark.parametrize("direction", range(0, 9, 2))
def test_gradient_is_the_change_of_the_picture_drawn_again(direction):
    (points, _), matrix = SMOOTH
    step = oc.pixel_step(points, list(oc.nine_directions(points))[direction][1], matrix, oc.SIZE)
    losses, slope = [], np.zeros(0)
    for h in (1e-3, -1e-3, 0.0):
        position, _, image = picture(h * step)
        loss = F.sum(F.dot(image - 0.5, image - 0.5))
        value, slope = evaluate([loss, gradient(loss, [position])[0]])
        losses.append(value.item())
    along = (slope[0, 0] * (step @ matrix[:, :3].T)).sum()
    assert abs(along - (losses[0] - losses[1]) / 2e-3) <= 1e-3 * max(abs(along), 1)


@pytest.mark.release
@pytest.mark.vk
@pytest.mark.one_driver
def test_gradient_integrates_to_the_loss_of_the_colours(run):
    y, x = np.mgrid[:6, :6] / 2.5 - 1
    points = np.stack([x.ravel(), 0.8 * y.ravel(), 0.2 * (x * y).ravel()], axis=1)
    faces = np.concatenate([[(k, k + 1, k + 7), (k, k + 7, k + 6)] for k in range(30) if k % 6 < 5])
    figures = oc.path(
        run, (points, faces), sc.camera(30, 20, 3.5), pixels=4, side=64, samples=96, colour=True
    )
    share, median = oc.agreement(figures)
    assert share >= 0.97 and abs(median - 1) <= 0.005, figures


def test_both_forms_shade_surfaces_the_same_way():
    case = CASES["ellipsoid"]
    position, faces = case.variables()
    table = Variable(VEC3, position.size, data=np.ones((1, 1, len(case.clip), 3)))
    for form in ("face", "outer"):
        drawn = hard_soft_ras(
            position, faces, size=oc.SIZE, radius=oc.RADIUS, face_count=len(case.faces), form=form
        )
        image, silhouette = evaluate(
            [drawn.blend([s.interpolate(table) for s in drawn.surfaces], (0.0, 0.0, 0.0)), drawn.silhouette]
        )
        # All white over black: the picture is the silhouette.
        np.testing.assert_allclose(image, np.repeat(silhouette[..., None], 3, axis=-1), atol=1e-6)
        with pytest.raises(InputError, match="blending needs a colour"):
            drawn.blend([])
