"""Depth pictures in the shape phase: what they cost, how they pull, and a fit that needs them."""

import numpy as np
import pytest
from depth_cases import depth_pictures, photographed, views_of_bowl

from dressi import DressiAD
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.types import IVEC3, VEC3
from dressi.errors import InputError
from dressi.render.cameras.units import matrices_leaf
from dressi.render.cameras.views import ring
from dressi.render.fit import FitJob, FitOptions, shape_rounds
from dressi.render.fit.data.dataset import photo_dataset
from dressi.render.fit.graphs.learned import learned
from dressi.render.fit.graphs.moving import Moving, moving_cameras
from dressi.render.fit.graphs.plan import FitRound
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.run.starting import rounds_of
from dressi.render.fit.terms.depths import TOLERANCE, Depths, depth_at, depth_image, depth_term
from dressi.render.forms.hard_soft_ras import FORMS, draw_form
from dressi.render.io import Photos, load_photos
from dressi.render.lists import list_leaf
from dressi.render.mesh.primitives import bowl, octasphere
from dressi.render.objectives.metrics import chamfer
from dressi.render.surface.projection import to_clip

SIZE = (20, 16)


@pytest.fixture(scope="module")
def ball():
    """Positions, a drawn ball in four views, its masks and its depths."""
    mesh, cameras = octasphere(2, 0.8), ring(np.zeros(3), 1.0, 4, SIZE)
    return mesh, cameras, *depth_pictures(mesh, cameras)


def drawn(mesh, cameras, form="outer"):
    position = list_leaf("position", VEC3, mesh.positions)
    clip, faces = to_clip(position, matrices_leaf(cameras.matrices)), list_leaf("faces", IVEC3, mesh.faces)
    return position, draw_form(FORMS[form], clip, faces, SIZE, len(mesh.faces), radius=0.1)


def test_depths_are_compared_where_they_are_known(ball):
    mesh, cameras, masks, depths = ball
    _, soft = drawn(mesh, cameras)

    def cost(measured, unit=1.0) -> float:
        return float(evaluate([depth_term(soft, measured, masks, SIZE, 0, unit)])[0].item())

    assert cost(depths) == pytest.approx(0, abs=1e-9)
    # Small differences count by half of their square, large ones by their magnitude.
    for away in (1e-3, 0.3):
        expected = TOLERANCE * (np.sqrt(1 + (away / TOLERANCE) ** 2) - 1)
        assert cost(np.where(depths > 0, depths + away, 0)) == pytest.approx(expected, rel=1e-4)
    half = depths * (np.arange(SIZE[0]) % 2)
    assert cost(half) == pytest.approx(0, abs=1e-9)
    assert cost(depths / 7, unit=7.0) == pytest.approx(0, abs=1e-9)
    # What is outside of the masks says nothing.
    assert cost(np.where(masks > 0, depths, 0.1)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("form", "blended"), [("outer", False), ("contour", True)])
def test_derivatives_are_those_of_the_depths(ball, form, blended):
    mesh, cameras, masks, depths = ball
    position, soft = drawn(mesh, cameras, form)
    wrong = depths + 0.05 * np.random.default_rng(0).normal(size=depths.shape) * (depths > 0)
    distance = depth_term(soft, wrong, masks, SIZE, 0, blended=blended)
    # Small steps: no pixel changes its face.
    assert check_gradient(distance, [position], step=1e-7) < 1e-4


def test_blended_depths_are_those_of_the_surface_inside(ball):
    mesh, cameras, masks, depths = ball
    images = [depth_image(drawn(mesh, cameras, form)[1], form == "contour") for form in ("outer", "contour")]
    plain, blended = (np.reshape(image, masks.shape) for image in evaluate(images))
    np.testing.assert_allclose(plain, depths, atol=1e-6)
    np.testing.assert_allclose(blended[masks > 0], depths[masks > 0], atol=1e-6)
    # The margin of the outline lies over nothing, which has no depth.
    margin = (masks == 0) & (blended > 0)
    assert margin.any() and (blended[margin] < depths.max()).all()


def test_smaller_depths_are_means_of_known_ones():
    depths = np.array(
        [[2.0, 4.0, 1.0, 1.0], [0.0, 0.0, 1.0, 9.0], [0.0, 0.0, 5.0, 5.0], [0.0, 3.0, 5.0, 5.0]]
    )
    mask = np.ones((4, 4))
    np.testing.assert_allclose(depth_at(depths, mask, (2, 2)), [[3.0, 3.0], [0.0, 5.0]])
    mask[1, 3] = 0
    # A pixel that is not entirely inside of the mask has no depth.
    np.testing.assert_allclose(depth_at(depths, mask, (2, 2)), [[3.0, 0.0], [0.0, 5.0]])


@pytest.mark.parametrize("form", ["outer", "face", "contour"])
def test_rounds_with_depths_share_all_steps(form):
    for steps in (3, 40, 600):
        for colours in (None, False, FORMS[form].colours):
            options = FitOptions(steps=steps, form=form, depth=True, colours=colours)
            for near in (False, True):
                rounds = shape_rounds(options, near=near)
                assert sum(plan.steps for plan in rounds) == steps - options.texture_steps
                assert all(("depth" in plan.weights) is (plan.radius[0] < options.radius) for plan in rounds)
                assert steps < 40 or rounds[-1].weights["depth"] == Depths.share
                assert any("colours" in plan.weights for plan in rounds) <= bool(options.follows_colours)
    assert not any("depth" in plan.weights for plan in shape_rounds(FitOptions(form=form)))
    assert not FitOptions(form=form, depth=True).follows_colours


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A bowl, the dataset of a folder with its photographs and depths, and the mesh that a fit of it starts from."""
    truth, cameras = bowl(3), views_of_bowl(8, (48, 48))
    folder = photographed(
        tmp_path_factory.mktemp("bowl") / "p", cameras, *depth_pictures(truth, cameras), truth.bounds()
    )
    scene = photo_dataset(load_photos(folder, depth=True))
    return truth, scene, rounds_of(scene, FitOptions(size=(48, 48), depth=True), None, DressiAD)[0]


@pytest.mark.release
@pytest.mark.vk
def test_depths_show_the_inside_of_a_bowl(device, inside):
    truth, scene, start = inside
    train = learned(scene)
    away = {}
    for depth in (0.0, Depths.share):
        plan = FitRound(0, 48, 40, (0.06, 0.03), (0.03, 0.005), 1e-5, weights={"depth": depth})
        work = ShapeRound(start, train, (48, 48), plan)
        with DressiAD(device) as engine:
            engine.set_loss(work.loss)
            engine.set_optimizer(work.optimizer, work.parameters)
            for step in range(0, work.steps, 10):
                work.before(engine, step)
                engine.step(10)
            away[depth] = chamfer(scene.to_world(work.moved(engine.state())), truth, 5000)
    assert away[Depths.share] < 0.5 * away[0.0]


def test_learned_poses_have_depths_in_units_of_the_scene(inside):
    """The loss of poses that are learned is, before they move, that of fixed ones."""
    _, scene, start = inside
    train = learned(scene)
    plan = FitRound(0, 24, 10, (0.06, 0.03), (0.02, 0.01), 0.0, weights={"depth": 1.0})
    cameras = moving_cameras(scene)
    assert cameras is not None
    moving = Moving(cameras, (0.01, 0.01), (0.01, 0.01), 10)
    works = [ShapeRound(start, train, (24, 24), plan, moving=poses) for poses in (None, moving)]
    radius = np.full((1, 1, 1), 0.06)
    losses = [float(evaluate([work.loss], {work.radius: radius})[0].item()) for work in works]
    assert losses[0] > 0.05 and losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_depths_have_to_be_there():
    truth, cameras = bowl(2), views_of_bowl(4, SIZE)
    masks, _ = depth_pictures(truth, cameras)
    photos = Photos(np.zeros((*masks.shape, 3)), masks, cameras, tuple("abcd"), truth.bounds())
    with pytest.raises(InputError, match="no depths"):
        FitJob(photo_dataset(photos), FitOptions(size=SIZE, depth=True), lambda: None)
