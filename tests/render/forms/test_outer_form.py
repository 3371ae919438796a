"""The outer form and its colours against brute force, against itself with every edge drawn, and along paths of the picture drawn again.

``apps/path_test.py`` does the last for larger meshes and images.
"""

import sys

import numpy as np
import outer_cases as oc
import pytest
import scipy
import soft_cases as sc
from numpy.testing import assert_allclose, assert_array_equal

from dressi import DressiAD, F, InputError, adam, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph import Variable, as_variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.traversal import topological_order
from dressi.ad.graph.types import FLOAT, INT, IVEC3, VEC2, VEC3, list_values
from dressi.ad.optim.schedules import exponential
from dressi.ad.transform.gradient import hvp
from dressi.render import Camera, list_leaf, primitives, render
from dressi.render.forms import soft_target as targets
from dressi.render.forms.edges.edge_list import HIDDEN, edge_list, edge_sides
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.forms.outer import around_edges
from dressi.render.forms.soft_target import falloff, nearest_outside, outside_distance, soft_target
from dressi.render.surface.screen import DrawnMesh, with_margin

CASES = oc.cases()


def entries(faces) -> list[tuple[int, ...]]:
    edges = edge_list(np.array(faces))
    return [tuple(e) for e in list_values(edges.list.data, edges.count)[0].tolist()]


def test_edges_of_two_faces_are_those_of_the_docstring():
    assert entries([(0, 1, 2), (2, 1, 3)]) == [(0, 1, 2, -1), (0, 2, -1, 1), (1, 2, 0, 3), (1, 3, 2, -1), (2, 3, -1, 1)]  # fmt: skip


def test_edges_of_a_closed_mesh_have_two_faces_each():
    points, faces = sc.icosphere(2)
    found = np.array(entries(faces))
    assert len(found) == 3 * len(faces) // 2 == len(points) + len(faces) - 2
    assert (found >= 0).all() and (found[:, 0] < found[:, 1]).all()
    assert (np.diff(found[:, 0] * len(points) + found[:, 1]) > 0).all()


def test_edges_that_are_no_manifold_have_an_entry_for_each_face():
    three = [e for e in entries([(0, 1, 2), (1, 0, 3), (0, 1, 4)]) if e[:2] == (0, 1)]
    assert sorted(three) == [(0, 1, -1, 3), (0, 1, 2, -1), (0, 1, 4, -1)]
    disagreeing = [e for e in entries([(0, 1, 2), (0, 1, 3)]) if e[:2] == (0, 1)]
    assert disagreeing == [(0, 1, 2, -1), (0, 1, 3, -1)]
    assert entries([(3, 3, 4), (5, 5, 5)]) == [(3, 4, 3, 3)]


def test_open_edges_at_one_place_are_one():
    """Two faces with vertices of their own; not three at one place, nor faces that run along the edge in one direction."""
    x = np.array(
        [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1)],
        float,
    )
    pair, three = np.arange(6).reshape(2, 3), np.arange(9).reshape(3, 3)
    edges = edge_list(pair, x)
    rows, joints = (list_values(t.data, edges.count)[0].tolist() for t in (edges.list, edges.joints))
    assert [(r, j) for r, j in zip(rows, joints, strict=True) if j[2]] == [
        ([1, 2, 0, 5], [4, 3, 1]),
        ([4, 3, 0, 5], [1, 2, -1]),
    ]
    assert list_values(edges.neighbours.data, 2)[0].tolist() == [[1, -1, -1], [-1, -1, 0]]
    assert list_values(edges.corners.data, 2)[0].tolist() == [[0, 1, 2], [2, 1, 5]]
    assert not edges.closed
    assert (
        edge_list(three, x).joints is None
        and edge_list(pair[:, [0, 2, 1]][:1].repeat(2, 0), x).joints is None
    )
    assert edge_list(pair, np.zeros((6, 3))).joints is None
    with pytest.raises(InputError, match="positions are of 5 vertices"):
        edge_list(pair, x[:5])


def test_edges_know_the_faces_around_them():
    faces = np.array([(0, 1, 2), (1, 0, 3), (0, 1, 4), (2, 1, 5)])
    edges = edge_list(faces)
    around, found = (list_values(x.data, x.size[0])[0] for x in (edges.around, edges.faces))
    for (a, b, *_), (first, count) in zip(entries(faces), around, strict=True):
        at = found[first : first + count]
        assert sorted(at[:, 0]) == [k for k, face in enumerate(faces) if {a, b} <= set(face)]
        for number, third, way in at:
            turned = faces[number].tolist()[::way]
            assert set(turned) == {a, b, third} and turned[(turned.index(a) + 1) % 3] == b


@pytest.mark.parametrize("faces, named", [([(1, 1, 1)], "edge"), ([(0, 1)], "array"), ([(0, 1, -1)], "-1")])
def test_faces_without_edges_are_refused(faces, named):
    with pytest.raises(InputError, match=named):
        edge_list(np.array(faces))


@pytest.mark.parametrize("name", CASES)
def test_image_and_gradient_are_those_of_brute_force(name):
    oc.check_image_and_gradient(evaluate, CASES[name], 1e-6)


@pytest.mark.parametrize("name", ["torus", "open", "mixed orientation", "near plane"])
def test_back_faces_can_be_culled(name):
    oc.check_image(evaluate, CASES[name], cull="back")


# Where faces are dropped at the near plane, their edges are part of no picture.
# Where faces are dropped at the near plane, their edges are part of no picture.
@pytest.mark.parametrize("name", [name for name in CASES if name != "near plane"])
def test_all_edges_give_the_image_of_the_silhouettes(name):
    oc.check_all_edges(evaluate, CASES[name])


def test_few_edges_of_a_closed_mesh_are_drawn():
    case = CASES["ellipsoid"]
    edges = edge_list(case.faces)
    (sides,) = evaluate([edge_sides(DrawnMesh(*case.variables(), oc.SIZE, len(case.faces)), edges)])
    drawn = {
        tuple(e)
        for e in list_values(edges.list.data, edges.count)[0][sides.ravel() != HIDDEN][:, :2].tolist()
    }
    assert drawn == set(oc.silhouettes(case.clip, case.faces, oc.SIZE, "none"))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", ["torus", "torus from the side", "ellipsoid"])
def test_back_faces_of_closed_meshes_may_be_culled(name, turned):
    """Silhouette and gradient are the same without them, whichever side their orientation calls the back."""
    case = CASES[name]
    case = oc.Case(case.clip, case.faces[:, ::-1] if turned else case.faces)
    assert edge_list(case.faces).closed and not edge_list(case.faces[1:]).closed
    images, gradients = [], []
    for cull in ("none", "back"):
        position, drawn = oc.outer(case, cull=cull)
        image, slope = evaluate([drawn.silhouette, *oc.slopes(position, drawn)])
        images.append(image)
        gradients.append(slope)
    assert_allclose(*images, atol=1e-9)
    assert_allclose(*gradients, atol=1e-6 * np.abs(gradients[0]).max())


MESHES = {
    "torus": (oc.small_torus(), sc.camera(20, 35, 4)),
    "ellipsoid": (sc.bumpy_ellipsoid(), sc.camera(20, 25)),
}


def test_gradient_integrates_to_the_loss():
    figures = oc.path(evaluate, *MESHES["torus"], pixels=2, side=64)
    share, median = oc.agreement(figures)
    assert share >= 0.97 and abs(median - 1) <= 0.005, figures


def test_radius_is_data_and_images_need_not_be_square():
    case = CASES["torus"]
    position, faces = case.variables()
    radius = Variable(FLOAT, name="radius")
    drawn = hard_soft_ras(
        position, faces, size=(96, 64), radius=radius, face_count=len(case.faces), form="outer", edges=edge_list(case.faces)
    )  # fmt: skip
    for pixels in (1, 4, 40):
        (image,) = evaluate([drawn.silhouette], {radius: pixels / 64})
        truth = oc.render(case.clip, case.faces, (96, 64), radius=pixels / 64)
        assert_allclose(image[0], truth.coverage, atol=1e-6)


def test_views_are_a_batch_of_the_same_functions():
    points, faces = oc.small_torus()
    clips = np.stack([sc.to_clip(sc.camera(az, 10, 4), points) for az in (0, 70, 150)])
    _, face_list = CASES["torus"].variables()
    counts = []
    for views in (1, 3):
        position = Variable(
            CASES["torus"].variables()[0].vtype, (len(points), 1), views, data=clips[:views, None]
        )
        drawn = hard_soft_ras(
            position, face_list, size=oc.SIZE, radius=oc.RADIUS, face_count=len(faces), form="outer"
        )
        counts.append(len(topological_order([drawn.silhouette])))
        (image,) = evaluate([drawn.silhouette])
        for view in range(views):
            truth = oc.render(clips[view], faces, radius=oc.RADIUS)
            assert_allclose(image[view], truth.coverage, atol=1e-6)
    assert counts[0] == counts[1]


def check_driver_may_err(run) -> None:
    """Coverage is the same when the hard raster covers what lies a little outside, or misses what lies inside."""
    case = CASES["ellipsoid"]
    position, faces = case.variables()
    mesh, edges = DrawnMesh(position, faces, oc.SIZE, len(case.faces)), edge_list(case.faces)
    sides = edge_sides(mesh, edges)
    truth = oc.render(case.clip, case.faces, radius=oc.RADIUS)
    wrong = truth.distance < 0.045 / 64
    assert (wrong & (truth.hard > 0)).sum() >= 5 and (wrong & (truth.hard == 0)).sum() >= 5
    face = Variable(INT, oc.SIZE, data=np.where(wrong ^ (truth.hard > 0), 0, -1)[None])
    drawn = around_edges(mesh, face, edges, sides, as_variable(oc.RADIUS)).silhouette
    coverage, slope = run([drawn, gradient(F.sum(drawn), [position])[0]])
    assert_allclose(coverage[0], truth.coverage, atol=1e-5)
    expected = truth.gradient(np.ones(truth.hard.shape))
    assert np.linalg.norm(slope[0, 0] - expected) <= 1e-4 * np.linalg.norm(expected)


def test_drivers_may_err_by_the_coarsest_grid():
    check_driver_may_err(evaluate)


def check_far_range(run_steps, side: int = 64) -> None:
    """A small ball far from its target comes home when the radius starts large.

    run_steps(loss, move, data, radius, schedule) -> the shift that is left, in clip units.
    """
    points, triangles = sc.icosphere(1)
    clip = np.concatenate([0.1 * points + (-0.6, 0.05, 0.5), np.ones((len(points), 1))], axis=1)
    case = sc.Case(clip, triangles)
    position, faces = case.variables()
    move, radius = (
        Variable(VEC2, name="move", data=np.array([[[[1.1, -0.1]]]])),
        Variable(FLOAT, name="radius"),
    )
    drawn = hard_soft_ras(
        position + F.vec4(move, 0.0, 0.0), faces, size=(side, side), radius=radius, face_count=len(triangles), form="outer"
    )  # fmt: skip
    truth = oc.render(clip, triangles, (side, side), radius=0.1)
    distance = Variable(FLOAT, (side, side), data=outside_distance(truth.hard))
    loss = F.mean(F.square(drawn.silhouette - falloff(distance, radius)))
    left = run_steps(loss, move, radius, (0.6, 0.3, 0.1, 0.04), 40)
    assert np.abs(left * side / 2).max() < 0.15


def test_a_mesh_behind_the_camera_is_an_empty_picture_without_gradient():
    case = CASES["sphere"]
    position, drawn = oc.outer(sc.Case(case.clip * (1, 1, 1, -1), case.faces))
    image, slope = evaluate([drawn.silhouette, *gradient(F.sum(drawn.silhouette), [position])])
    assert not image.any() and not slope.any()


def test_targets_go_through_the_same_function():
    case = CASES["torus"]
    truth = oc.render(case.clip, case.faces, radius=oc.RADIUS)
    masks = np.stack([truth.hard, np.zeros_like(truth.hard), np.ones_like(truth.hard)])
    target = soft_target(masks, oc.RADIUS)
    assert np.abs(target[0] - truth.coverage).max() < 0.2 and abs((target[0] - truth.coverage).mean()) < 0.005
    assert not target[1].any() and (target[2] == 1).all()
    distance = Variable(FLOAT, oc.SIZE, 3, data=outside_distance(masks))
    assert_allclose(evaluate([falloff(distance, oc.RADIUS)])[0], target)
    with pytest.raises(InputError, match="radius"):
        soft_target(masks, 0.0)
    with pytest.raises(InputError, match="masks"):
        outside_distance(np.zeros(3))


def check_margin(run, tolerance: float) -> None:
    """A margin shows more and moves nothing."""
    case = CASES["near plane"]  # reaches beyond the border
    position, faces = case.variables()
    wide, size = with_margin(position, (96, 64), 8)
    assert size == (112, 80)
    options = {"face_count": len(case.faces), "form": "outer"}
    plain = hard_soft_ras(position, faces, size=(96, 64), radius=5 / 64, **options).silhouette
    larger = hard_soft_ras(wide, faces, size=size, radius=5 / 80, **options).silhouette
    cut, whole, slope, other = run(
        [plain, larger] + [gradient(F.sum(x), [position])[0] for x in (plain, F.crop(larger, 8, 8, (96, 64)))]
    )
    assert_allclose(whole[:, 8:-8, 8:-8], cut, atol=max(tolerance, 1e-6))
    assert_allclose(other, slope, rtol=0, atol=tolerance * np.abs(slope).max())
    assert whole.sum() > cut.sum() + 10


def test_a_margin_shows_more_and_moves_nothing():
    check_margin(evaluate, 1e-6)


def test_masks_have_margins_too():
    mask = np.zeros((1, 3, 4))
    mask[0, 0, 0] = 1
    assert outside_distance(mask, 2).shape == (1, 7, 8)
    assert_allclose(outside_distance(mask, 2)[0, 2], np.maximum([2, 1, 0, 1, 2, 3, 4, 5], 0.5) / 7 - 0.5 / 7)


@pytest.mark.parametrize("smooth_edge", [False, True])
def test_second_derivatives_of_a_smooth_edge_add_up(smooth_edge: bool):
    """Along a shift of 3/4 pixel, 1 pixel from the target: ``hvp`` is the change of the gradient, within 2 %."""
    ball, count, size = primitives.icosphere(2), 24, 48
    camera = Camera.perspective(42, (size, size), (0.3, 0.5, 3.2), (0, 0, 0))
    width, height = list_leaf("points", VEC3, ball.positions).size

    def padded(points: np.ndarray) -> np.ndarray:
        data = np.zeros((len(points), height, width, 3))
        data.reshape(len(points), -1, 3)[:, : len(ball.positions)] = points
        return data

    move = np.ones_like(ball.positions) * (0.05, 0.015, 0)
    places = np.linspace(-0.5, 0.5, count)
    position = Variable(
        VEC3, (width, height), count, data=padded(ball.positions + places[:, None, None] * move)
    )
    drawn = hard_soft_ras(
        F.matmul(F.constant(camera.world_to_clip), F.vec4(position, 1.0)),
        list_leaf("faces", IVEC3, ball.faces),
        size=(size, size), face_count=len(ball.faces), form="outer", radius=0.1, smooth_edge=smooth_edge,
    )  # fmt: skip
    target = Variable(FLOAT, (size, size), data=np.zeros((1, size, size)))
    loss = F.sum(F.square(drawn.silhouette - target))
    along = Variable(VEC3, (width, height), data=padded(move[None]))
    away = np.repeat(padded(ball.positions[None] + 1.3 * move), count, 0)
    target.data = evaluate([drawn.silhouette], {position: away})[0][:1]
    slopes, curves = (
        (list_values(x, len(move)) * move).sum((1, 2), dtype=float)
        for x in evaluate([*gradient(loss, [position]), *hvp(loss, [position], [along])])
    )
    change = slopes[-1] - slopes[0]
    assert (abs(np.trapezoid(curves, places) / change - 1) < 0.02) == smooth_edge


def test_falloff_is_smooth_at_the_radius():
    distance = Variable(FLOAT, (3, 1), data=[[[0.1, 0.2, 0.3]]])
    value = falloff(distance, 0.2)
    found, slope = evaluate([value, gradient(F.sum(value), [distance])[0]])
    assert_allclose(found, [[[0.25, 0, 0]]])
    assert_allclose(slope, [[[-5, 0, 0]]])
    assert_allclose(evaluate([falloff(distance, 0.2, smooth_edge=True)])[0], [[[0.5625, 0, 0]]])


def test_targets_of_pictures_have_the_margin_of_the_form():
    """The mask of a ball is its own target, but for the edges of the polygon, with both margins."""
    ball, camera = primitives.icosphere(3), Camera.perspective(42, (48, 48), (0, 0, 3.2), (0, 0, 0))
    mask = render(ball, camera, samples=8, outputs=("mask",)).mask
    for options in ({}, {"smooth_edge": True}):
        position = list_leaf("positions", VEC3, ball.positions)
        picture = render(ball, camera, positions=position, form="outer", radius=0.1, **options)
        own, target = evaluate([picture.mask, picture.soft_target(mask)])
        assert abs(own - target).max() < 0.05


@pytest.mark.parametrize(
    "wrong, named",
    [
        ({"layers": 3}, "layers"),
        ({"sigma": 0.1}, "sigma"),
        ({"cull": "front"}, "cull"),
        ({"radius": 1.5}, "radius"),
    ],
)
def test_options_of_the_other_form_are_named(wrong, named):
    position, faces = CASES["acute"].variables()
    with pytest.raises(InputError, match=named):
        hard_soft_ras(
            position, faces, **{"size": oc.SIZE, "radius": 0.1, "face_count": 1, "form": "outer", **wrong}
        )
    with pytest.raises(InputError, match="edges"):
        hard_soft_ras(
            position, faces, size=oc.SIZE, radius=0.1, face_count=1, form="face", edges=edge_list(CASES["acute"].faces)
        )  # type: ignore[call-overload]  # fmt: skip


def test_faces_without_data_need_their_edges():
    position, _ = CASES["acute"].variables()
    with pytest.raises(InputError, match=r"edge_list\(faces\)"):
        hard_soft_ras(position, Variable(IVEC3, (1, 1)), size=oc.SIZE, radius=0.1, face_count=1, form="outer")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.second_driver("torus", "near plane", "overlapping", "lines")
def test_image_and_gradient_are_those_of_brute_force_on_devices(run, name):
    oc.check_image_and_gradient(run, CASES[name], 1e-3)


@pytest.mark.parametrize("name", ["torus", "lines", "open", "three faces at an edge"])
@pytest.mark.one_driver
def test_all_edges_give_the_image_of_the_silhouettes_on_devices(run, name):
    oc.check_all_edges(run, CASES[name])


@pytest.mark.one_driver
@pytest.mark.parametrize("mesh, pixels, side", [("torus", 5, 64), ("ellipsoid", 2, 128)])
def test_gradient_integrates_to_the_loss_on_devices(run, mesh, pixels, side):
    figures = oc.path(run, *MESHES[mesh], pixels=pixels, side=side)
    share, median = oc.agreement(figures)
    assert share >= 0.97 and abs(median - 1) <= 0.005, figures


def test_drivers_may_err_by_the_coarsest_grid_on_devices(run):
    check_driver_may_err(run)


@pytest.mark.one_driver
def test_a_margin_shows_more_and_moves_nothing_on_devices(run):
    check_margin(run, 1e-3)


@pytest.mark.one_driver
def test_a_ball_out_of_reach_comes_home_by_a_schedule(device):
    def steps(loss, move, radius, schedule, count):
        with DressiAD(device) as ad:
            ad.set_loss(loss)
            # A constant rate would tremble by a third of a pixel, and end anywhere within.
            ad.set_optimizer(adam(exponential(0.03, 0.5, 40)), [move])
            for r in schedule:
                ad.send(radius, np.full((1, 1, 1), r))
                ad.step(count)
            return ad.recv(move)

    check_far_range(steps)


def test_gradient_repeats_bit_for_bit(run):
    position, drawn = oc.outer(CASES["torus"])
    first, second = (run([drawn.silhouette, *oc.slopes(position, drawn)]) for _ in range(2))
    assert first[1].any() and all((a == b).all() for a, b in zip(first, second, strict=True))


SMOOTH = (sc.icosphere(2), sc.camera(20, 25, 3.5))
"""A mesh without contours inside of its outline."""


@pytest.mark.parametrize("name", CASES)
def test_colours_are_those_of_brute_force(name):
    oc.check_colours(evaluate, CASES[name])


def test_colours_of_culled_faces_are_not_seen():
    oc.check_colours(evaluate, CASES["open"], cull="back")


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
        assert_allclose(image, np.repeat(silhouette[..., None], 3, axis=-1), atol=1e-6)
        with pytest.raises(InputError, match="blending needs a colour"):
            drawn.blend([])


def test_the_nearest_pixels_are_those_of_scipy_with_and_without_its_package(monkeypatch):
    mask = np.random.default_rng(2).random((31, 50)) > 0.02
    expected = scipy.ndimage.distance_transform_edt(mask, return_distances=False, return_indices=True)
    assert_array_equal(nearest_outside(mask), expected)
    monkeypatch.delitem(sys.modules, "scipy.ndimage")
    assert_array_equal(nearest_outside(mask), expected)
    assert "scipy.ndimage" not in sys.modules
    monkeypatch.setattr("dressi.render.forms.soft_target.PathFinder.find_spec", lambda *_: None)
    targets._compiled.cache_clear()
    assert_array_equal(nearest_outside(mask), expected)
    targets._compiled.cache_clear()
