"""Seams: where faces pass through each other, and where the near plane cuts them."""

import contour_cases as cc
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc
from numpy.testing import assert_allclose
from soft_cases import Case

from dressi import FLOAT, INT, IVEC3, VEC3, VEC4, F, GraphError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.render.forms.edges.around_edges import face_planes
from dressi.render.forms.edges.edge_list import edges_of
from dressi.render.forms.edges.seams import (
    DOWN,
    LEFT,
    RIGHT,
    UP,
    SeamFaces,
    SeamPairs,
    nearest_seam,
    seam_pixels,
)
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.surface.screen import DrawnMesh

SIZE = (16, 16)
AROUND = RIGHT, DOWN, LEFT, UP
RED, GREEN, BEHIND = np.eye(3)
FORMS = {"contour": {"radius": 0.3}, "antialias": {}}


def plates(angle: float = 0.0, place: float = 0.03, slope: float = 0.3) -> Case:
    """Two plates larger than the image that cross on the line u = place, the first in front below it; u: the coordinate
    along a direction, in clip space."""
    u = np.array((np.cos(angle), np.sin(angle)))
    corners = np.array([(-3, -3), (3, -3), (3, 3), (-3, 3)])
    rise = slope * (corners @ u - place)
    points = [np.column_stack([corners, 0.5 + side * rise]) for side in (1, -1)]
    return sc.flat(np.concatenate(points), [(0, 1, 2), (0, 2, 3), (4, 5, 6), (4, 6, 7)])


def cut(angle: float = 0.0, place: float = 0.03, behind: bool = True) -> Case:
    """A plate that the near plane cuts on the line u = place, and one behind it."""
    front, back = plates(angle, place), plates(angle, place, 0.0)
    front.clip[:4, 2] -= 0.5
    back.clip[:, 2] = 0.8
    clip = np.concatenate([front.clip[:4], back.clip[:4]])
    return Case(clip, front.faces if behind else front.faces[:2])


def drawn_by(form: str, case: Case, size=SIZE):
    position, faces = case.variables()
    drawn = hard_soft_ras(position, faces, size=size, face_count=len(case.faces), form=form, **FORMS[form])
    table = Variable(VEC3, position.size, data=np.repeat([RED, GREEN], 4, axis=0)[None, None])
    return position, drawn.blend([s.interpolate(table) for s in drawn.surfaces], tuple(BEHIND))


def share_of(run, form: str, case: Case, colour: np.ndarray) -> float:
    """How many pixels have the colour."""
    return float((run([drawn_by(form, case)[1]])[0][0] @ colour).sum())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [plates, cut])
@pytest.mark.parametrize("angle", [0.0, np.pi / 2])
@pytest.mark.parametrize("place", [-0.03, 0.0, 0.01, 0.0626, 0.09, 0.12])
def test_an_upright_seam_gives_pixels_the_share_of_their_area(form, make, angle, place):
    case = make(angle, place)
    shown = GREEN if make is cut else RED
    expected = 128 * (1 + place)
    assert_allclose(share_of(evaluate, form, case, shown), expected, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_beyond_a_cut_lies_the_background(form):
    assert share_of(evaluate, form, cut(0.0, 0.03, behind=False), BEHIND) == pytest.approx(128 * 1.03)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [plates, cut])
@pytest.mark.one_driver
def test_a_slanted_seam_gives_about_the_area_on_devices(run, form, make):
    # The seam is u = 0.03 from the middle, where clip space is 2 wide: a strip of 0.03 sqrt(1 + tan^2) beside one half.
    angle = 0.4
    found = share_of(run, form, make(angle, 0.03), GREEN if make is cut else RED)
    assert found == pytest.approx(128 * (1 + 0.03 / np.cos(angle)), abs=0.3)


def seam_functions(case: Case) -> list[Variable]:
    position, faces = case.variables()
    mesh = DrawnMesh(position, faces, sc.SIZE, len(case.faces))
    planes = face_planes(mesh.faces, mesh.points.vertex)
    every = Variable(INT, sc.SIZE, data=np.zeros((1, *sc.SIZE[::-1]), np.int64))
    pairs = SeamPairs(every, mesh.face, planes, mesh.faces, steps=AROUND).output
    lists = mesh.face, planes, mesh.faces, edges_of(mesh).neighbours, mesh.points.vertex, mesh.faces
    pixels = seam_pixels(mesh, edges_of(mesh), planes, AROUND)
    seam = nearest_seam(mesh, edges_of(mesh), planes, pixels, AROUND, 0.5)
    return [pairs, SeamFaces(every, *lists, steps=AROUND, reach=1.0).output, pixels, seam.place, seam.found]


def piercing() -> Case:
    """A sphere of small faces that a plate passes through."""
    points, faces = sc.icosphere(3)
    plate = np.array([(-1, -0.9, -0.6), (1, -0.9, 0.1), (1, 0.8, 0.7), (-1, 0.8, 0.0)]) * 1.1
    quads = np.array([(0, 1, 2), (0, 2, 3)]) + len(points)
    return Case(
        sc.to_clip(sc.camera(20, 25), np.concatenate([points, plate])), np.concatenate([faces, quads])
    )


def opened() -> Case:
    """A sphere that the near plane cuts: one sees into it."""
    points, faces = sc.icosphere(3)
    clip = sc.to_clip(sc.camera(20, 25), points)
    clip[:, 2] -= np.quantile(clip[:, 2], 0.2)
    return Case(clip, faces)


CASES = {
    "plates": lambda: plates(0.4),
    "cut": lambda: cut(0.4),
    "piercing": piercing,
    "opened sphere": opened,
}


@pytest.mark.parametrize("name", CASES)
def test_devices_find_the_seams_of_the_meaning(run, name):
    functions = seam_functions(CASES[name]())
    found, expected = run(functions), evaluate(functions)
    assert expected[0].any() and (expected[1] >= 0).any() and expected[4].any()
    # Drivers that round corners to a grid of 1/16 pixel show other faces at a few pixels.
    for a, b in zip(found[:3], expected[:3], strict=True):
        assert np.mean(a != b) <= 0.006
    both = (found[4] > 0) & (expected[4] > 0)
    assert np.mean(np.abs(found[3] - expected[3])[both] > 0.01) <= 0.02


def test_seams_lie_where_a_sphere_meets_a_plate():
    """Between a pixel that shows the sphere and one that shows the plate, at equal depth."""
    case = piercing()
    position, faces = case.variables()
    mesh = DrawnMesh(position, faces, sc.SIZE, len(case.faces))
    planes = face_planes(mesh.faces, mesh.points.vertex)
    seam = nearest_seam(
        mesh, edges_of(mesh), planes, seam_pixels(mesh, edges_of(mesh), planes, AROUND), AROUND, 0.5
    )
    found, own, other, point = (x[0] for x in evaluate([seam.found, *seam.faces, seam.point]))
    there = found > 0
    assert there.sum() > 20
    assert ((own < len(case.faces) - 2) != (other < len(case.faces) - 2))[there].all()
    expected = cc.planes(case.clip, case.faces, sc.SIZE)
    place = np.concatenate([point, np.ones((*there.shape, 1))], axis=-1)
    depths = [(expected[np.maximum(f, 0)] * place).sum(-1)[there] for f in (own, other)]
    assert_allclose(*depths, atol=1e-5)


@pytest.mark.parametrize("name", ["torus", "ellipsoid"])
def test_a_smooth_surface_has_no_seams(name):
    functions = seam_functions(oc.cases()[name])
    assert not evaluate(functions[4:])[0].any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [plates, cut])
@pytest.mark.parametrize("behind", [True, False])
def test_gradient_is_the_central_difference(form, make, behind):
    case = make(0.3) if make is plates else make(0.3, behind=behind)
    position, picture = drawn_by(form, case)
    target = np.random.default_rng(3).uniform(size=(16, 16, 3))
    error = picture - Variable(VEC3, SIZE, data=target[None])
    loss = F.sum(F.dot(error, error))
    (slope,) = evaluate(gradient(loss, [position]))
    for seed in range(3):
        direction = np.random.default_rng(seed).normal(size=position.shape)
        ends = [evaluate([loss], {position: position.data + h * direction})[0] for h in (1e-7, -1e-7)]
        difference = ((ends[0] - ends[1]) / 2e-7).item()
        assert abs((slope * direction).sum() - difference) <= 1e-5 * np.abs(slope * direction).sum()


@pytest.mark.release
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [plates, cut])
def test_gradient_integrates_to_the_loss(form, make):
    """While the first plate moves and turns by a pixel to either side: 1 % with seams, a third is lost without."""

    def ratio(**options) -> float:
        case = make(0.3)
        position, faces = case.variables()
        move = np.zeros(position.shape)
        move[0, 0, :4, 2] = 0.3 / 8 * (1 + 0.2 * case.clip[:4, 1])
        places = np.array(
            [-1.0, 1.0, *((np.arange(200) + 0.5) / 100 - 1)]
        )  # both ends and a path, as one batch
        moved = Variable(
            VEC4, position.size, len(places), data=position.data + places[:, None, None, None] * move
        )
        drawn = hard_soft_ras(moved, faces, size=SIZE, face_count=4, form=form, **FORMS[form], **options)
        smooth = 0.5 + 0.3 * np.sin(2 * case.clip[:, :3] + (0.0, 1.0, 2.0))
        table = Variable(VEC3, position.size, data=(smooth + np.repeat([RED, GREEN], 4, axis=0))[None, None])
        picture = drawn.blend([s.interpolate(table) for s in drawn.surfaces], (0.2, 0.3, 0.4))
        error = picture - F.constant((0.2, 0.9, 0.5))
        losses, slopes = evaluate(
            [F.sum(F.dot(error, error), "xy"), *gradient(F.sum(F.dot(error, error)), [moved])]
        )
        along = (slopes * move).sum((1, 2, 3))
        return 2 * float(np.mean(along[2:])) / (losses[1] - losses[0]).item()

    assert abs(ratio() - 1) <= 0.01
    if form == "contour":
        assert abs(ratio(seams=False) - 1) > 0.3


@pytest.mark.release
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [plates, cut])
@pytest.mark.second_driver("cut-antialias", "cut-contour")
def test_gradients_are_those_of_the_oracle(run, form, make):
    position, picture = drawn_by(form, make(0.3))
    weights = Variable(VEC3, SIZE, data=np.random.default_rng(5).normal(size=(1, 16, 16, 3)))
    slopes = gradient(F.sum(F.dot(picture, weights)), [position])
    (found,), (expected,) = run(slopes), evaluate(slopes)
    assert np.linalg.norm(found - expected) <= 2e-2 * np.linalg.norm(expected)


def test_seams_need_faces_and_planes():
    leaves = [Variable(t, (4, 4)) for t in (INT, INT, FLOAT, IVEC3)]
    with pytest.raises(GraphError, match="planes"):
        SeamPairs(*leaves, steps=AROUND)
