"""The antialias and the contour form against brute force, central differences, and along paths of the picture drawn again.

Recorded: the gradient of the silhouette loss, integrated along nine directions between -1 and +1 pixel, over its change
(64x64, one view): medians 0.992 (torus), 0.996 (ellipsoid), 0.984 (sphere); with colours 1.04, 1.01, 1.00.

``apps/contour_test.py`` does the last for more scenes, parameters and forms.
"""

import antialias_cases as ac
import contour_cases as cc
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc
from numpy.testing import assert_allclose

from dressi import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4, F, GraphError, InputError, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import Camera, edge_list, hard_soft_ras, list_data, list_leaf, render
from dressi.render.forms.passings import Crossing
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.options import BASELINE
from dressi.vk.plan.core.substage import Raster
from dressi.vk.run.execution.executor import VulkanExecutor

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
    assert_allclose(silhouette.sum(), 8 * 8 * (right + 0.5), atol=1e-6)
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
    assert_allclose(row[4:12], [(0, 1, 0)] * 8, atol=1e-6)
    assert_allclose(row[12], (0.84, 0.16, 0), atol=1e-6)
    assert_allclose(row[3], (1, 0, 0), atol=1e-6)


def test_a_line_thinner_than_a_pixel_stays_between_its_neighbours():
    """Both its edges pass beside one column of centres: it takes from both sides, no more than all of itself."""
    (silhouette,) = evaluate([ac.antialiased(square(0.05, 0.08), size=(16, 16))[1].silhouette])
    assert silhouette.min() >= 0 and silhouette.max() <= 1
    assert_allclose(silhouette[0, 6:10, 8], 0.03 * 8, atol=1e-6)


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


DEVICE_CASES = ac.cases()


@pytest.mark.parametrize("name", ["torus", "overlapping", "three faces at an edge"])
@pytest.mark.second_driver("torus")
def test_pictures_are_those_of_brute_force_on_devices(run, name):
    ac.check_image(run, DEVICE_CASES[name])


@pytest.mark.parametrize("name", ["torus", "open"])
@pytest.mark.second_driver("open")
@pytest.mark.release("torus")
def test_gradient_is_that_of_the_oracle(run, name):
    ac.check_gradient(run, evaluate, DEVICE_CASES[name], 0.05)


@pytest.mark.release
@pytest.mark.one_driver
def test_gradient_integrates_to_the_loss(run):
    figures = ac.path(run, sc.bumpy_ellipsoid(), sc.camera(20, 25), side=64, samples=8)
    share, median = ac.oc.agreement(figures)
    assert share >= 0.6 and abs(median - 1) <= 0.02, figures


@pytest.mark.release
@pytest.mark.one_driver
def test_baseline_and_repeated_runs_agree(device):
    position, loss = ac.loss_of(DEVICE_CASES["open"])
    program = simplify(Program({"loss": loss, "slope": gradient(loss, [position])[0]}))

    def values(**options):
        with VulkanExecutor(program, device, **options) as executor:
            executor.run()
            return [executor.recv(v) for v in program.outputs.values()]

    first, again, baseline = values(), values(), values(options=BASELINE)
    assert first[1].any() and all((a == b).all() for a, b in zip(first, again, strict=True))
    for a, b in zip(first, baseline, strict=True):
        assert abs(a - b).max() <= 1e-4 * abs(b).max()


@pytest.mark.vk
def test_work_is_done_beside_edges_alone():
    """Everywhere it only looks whether neighbours show different faces."""
    size = (512, 512)
    position = Variable(VEC4, (4, 1), name="position")
    faces = Variable(IVEC3, (2, 1), data=np.array([[[(0, 1, 2), (0, 2, 3)]]]))
    drawn = hard_soft_ras(position, faces, size=size, face_count=2, form="antialias")
    error = drawn.silhouette - Variable(FLOAT, size, name="target")
    (slope,) = gradient(F.sum(F.square(error)), [position])
    program = simplify(Program({}, ((position, position - slope),)))
    work = [s for s in build_plan(program, DeviceLimits(), shader_text).sub_stages if s.domain.size == size]
    dense = [s for s in work if not isinstance(s.work, Raster) and not s.work.uses and s.functions]
    assert [type(f).__name__ for s in dense for f in s.functions] == ["Differs"]


CONTOUR_CASES = oc.cases()
NAMES = ["torus", "torus from the side", "overlapping", "ellipsoid", "open", "near plane", "three faces at an edge"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_picture_is_that_of_brute_force(name):
    cc.check_picture(evaluate, CONTOUR_CASES[name])


@pytest.mark.parametrize("name", ["torus", "overlapping", "open", "near plane"])
@pytest.mark.second_driver("torus", "near plane")
def test_picture_is_that_of_brute_force_on_devices(run, name):
    cc.check_picture(run, CONTOUR_CASES[name])


@pytest.mark.parametrize("name", ["torus", "near plane"])
def test_the_margin_shows_the_surface_inside_the_contour(name):
    cc.check_place(evaluate, CONTOUR_CASES[name])


def test_the_margin_shows_the_surface_inside_the_contour_on_devices(run):
    cc.check_place(run, CONTOUR_CASES["torus"])


def test_faces_know_their_neighbours():
    def neighbours(faces) -> list:
        return list_data(edge_list(np.array(faces)).neighbours)[: len(faces)].tolist()

    chain = [(0, 1, 2), (1, 0, 3), (2, 1, 4), (4, 1, 5)]
    assert neighbours(chain) == [[2, -1, 1], [-1, -1, 0], [3, -1, 0], [-1, -1, 2]]
    assert neighbours([(0, 1, 2), (1, 0, 3), (0, 1, 4)]) == [[-1] * 3] * 3  # three faces at an edge


def test_gradient_is_the_central_difference():
    # Two triangles, one of which hides a part of the other.
    leaves, image = cc.gradient_parts(CONTOUR_CASES["overlapping"])
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


def test_gradients_are_those_of_the_oracle(run):
    leaves, image = cc.gradient_parts(CONTOUR_CASES["torus"])
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
    _, drawn = cc.contours(CONTOUR_CASES["acute"])
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
