"""Terms of the shape phase: colours and depths; openings that pictures show, and how sure points are."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import depth_pictures, images_of, photographed, rasterize, views_of_bowl
from tiny_fits import unit_scene

from dressi import IVEC3, VEC3, DressiAD, InputError
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.cli.fitting.request import Request
from dressi.render import (
    Camera,
    Cameras,
    chamfer,
    list_leaf,
    load_mesh,
    load_scene,
    ring,
    srgb_to_linear,
    to_clip,
)
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.drawing.draw import draw
from dressi.render.fit import FitJob, FitOptions, FitResult, Observations, mesh_dataset, shape_rounds
from dressi.render.fit.advice import WORTH, Measures, Shift, advice, coverage, shift
from dressi.render.fit.data.dataset import photo_dataset
from dressi.render.fit.data.learned import learned
from dressi.render.fit.graphs.term import FitRound, Moving, moving_cameras
from dressi.render.fit.graphs.terms import TOLERANCE, Depths, colour_term, depth_at, depth_term
from dressi.render.fit.job import rounds_of
from dressi.render.fit.phases import remeshed
from dressi.render.fit.phases.remeshed import holes, opened
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.report import confidence, save_result, shown_confidence
from dressi.render.forms.hard_soft_ras import FORMS, draw_form
from dressi.render.io import Photos, load_photos
from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.primitives import bowl, icosphere, octasphere
from dressi.render.mesh.remesh.volume import Grid, winding_numbers
from dressi.render.surface.screen import DrawnMesh

SIZE = (20, 16)


def drawn(mesh, matrices):
    position = list_leaf("position", VEC3, mesh.positions)
    clip = to_clip(position, matrices_leaf(matrices))
    return position, DrawnMesh(clip, list_leaf("faces", IVEC3, mesh.faces), SIZE, len(mesh.faces))


@pytest.fixture(scope="module")
def scene():
    """A ball whose colour is its place, in four pictures by a ring of cameras."""
    mesh = octasphere(2, 0.8)
    cameras = ring(np.zeros(3), 1.0, 4, SIZE)
    _, masks = images_of(mesh, cameras.matrices, SIZE)
    return mesh, cameras, masks


def test_colours_are_compared_as_codes_over_the_masks(scene):
    mesh, cameras, masks = scene
    codes = np.array([0.2, 0.5, 0.9])
    pictures = masks[..., None] * srgb_to_linear(codes)
    _, mesh_drawn = drawn(mesh, cameras.matrices)
    colour, distance = colour_term(mesh_drawn, pictures, masks, SIZE, 0, len(mesh.positions))

    def cost(value) -> float:
        values = np.broadcast_to(np.asarray(value), (*colour.data.shape[:3], 3))
        return float(evaluate([distance], {colour: values})[0].item())

    assert cost(codes) == pytest.approx(0, abs=1e-12)
    assert cost(codes + (0.1, 0, 0.2)) == pytest.approx(0.05 / 3)


def test_derivatives_are_those_of_the_covered_pixels(scene):
    mesh, cameras, masks = scene
    rng = np.random.default_rng(0)
    position, mesh_drawn = drawn(mesh, cameras.matrices)
    colour, distance = colour_term(
        mesh_drawn, rng.random((4, *SIZE[::-1], 3)), masks, SIZE, 0, len(mesh.positions)
    )
    random = rng.random(colour.data.shape)
    # Small steps: no pixel changes its face.
    assert check_gradient(distance, [colour, position], {colour: random}, step=1e-7) < 1e-4


def test_rounds_with_colours_share_all_steps():
    for steps in (3, 40, 600):
        options = FitOptions(steps=steps, colours=True)
        for exact in (False, True):
            rounds = shape_rounds(options, exact)
            assert sum(plan.steps for plan in rounds) == steps - options.texture_steps
            # Of masks that are exact outlines have the last word.
            colours = [bool(plan.weights) for plan in (rounds[:-1] if exact else rounds)]
            assert colours == sorted(colours) and (bool(rounds[-1].weights)) is not exact
            assert steps < 40 or colours[-1]
    with pytest.raises(InputError, match="compared by the outer form"):
        FitOptions(colours=True, form="face")


@pytest.mark.release
def test_colours_show_where_the_surface_is(device):
    """A dent that no outline shows: a ball of which the pictures, by colours, are those of a smaller one
    inside."""
    size = (32, 32)
    cameras = ring(np.zeros(3), 1.0, 6, size)
    truth = octasphere(4, 0.6)
    truth.positions[truth.positions[:, 1] > 0, 1] *= 0.5
    truth.texture = None
    pictures, masks = painted(truth, cameras, size)
    scene = replace(unit_scene(cameras, masks, colors=pictures), bounds=np.array([[-0.7] * 3, [0.7] * 3]))
    options = FitOptions(size=size, steps=100, texture_size=8, colours=True, start="sphere")
    losses = FitJob(scene, options, lambda: DressiAD(device)).run().losses
    first = sum(plan.steps for plan in shape_rounds(options) if not plan.weights)
    shape = [loss for phase, loss in losses if phase == "shape"][first:]
    assert min(shape) < 0.3 * shape[0] and np.isfinite(shape).all()


def painted(mesh, cameras, size):
    """Pictures of a mesh whose colour at each point is where it lies, and its masks."""
    pictures, masks = [], []
    for matrix in cameras.matrices:
        raster = rasterize(mesh.positions, mesh.faces, matrix, size)
        at = np.einsum("hwk,hwkd->hwd", raster.weights, mesh.positions[mesh.faces[raster.face]])
        pictures.append(srgb_to_linear(0.5 + 0.5 * np.sin(5 * at)) * raster.mask[..., None])
        masks.append(raster.mask)
    return np.stack(pictures), np.stack(masks)


def test_colours_are_the_default_of_the_form_that_has_them():
    assert FitOptions().follows_colours and not FitOptions(form="face").follows_colours
    plain, coloured = (shape_rounds(FitOptions(colours=colours)) for colours in (False, True))
    assert len(plain) == 3 and not any(plan.weights for plan in plain)
    # Outlines first; then from pictures so small that a few pixels are far.
    assert [plan.pixels for plan in coloured[:2]] == [plan.pixels for plan in plain[:2]]
    seen = [plan.pixels for plan in coloured if plan.weights]
    assert seen == sorted(seen) and seen[0] < plain[0].pixels and seen[-1] == plain[-1].pixels


@pytest.mark.release
def test_the_colours_of_lit_pictures_move_no_vertex(tiny_fits):
    """In all rounds, that of the texture too; over unlit pictures they do."""
    train = tiny_fits.scene.train
    other = replace(tiny_fits.scene, train=replace(train, colors=train.colors[..., ::-1] ** 2))
    for lit in (True, False):
        options = replace(tiny_fits.options, colours=None, joint=True, lit=lit, steps=16)
        a, b = (
            FitJob(scene, options, tiny_fits.make_engine).run().mesh for scene in (tiny_fits.scene, other)
        )
        assert np.array_equal(a.positions, b.positions) == lit
        assert np.abs(a.texture - b.texture).max() > 0.01


def test_pictures_of_a_mesh_are_lit_when_its_material_is_recovered():
    for optimize, source in (("albedo", "target"), (None, "target"), ("albedo", "photos")):
        lit = (optimize, source) == ("albedo", "target")
        options = Request(**{"optimize": optimize, source: Path("x")}).options((24, 24))
        assert (options.lit, options.follows_colours) == (lit, not lit)


@pytest.fixture(scope="module")
def ball():
    """Positions, a drawn ball in four views, its masks and its depths."""
    mesh, cameras = octasphere(2, 0.8), ring(np.zeros(3), 1.0, 4, SIZE)
    return mesh, cameras, *depth_pictures(mesh, cameras)


def depth_drawn(mesh, cameras, form="outer"):
    position = list_leaf("position", VEC3, mesh.positions)
    clip, faces = to_clip(position, matrices_leaf(cameras.matrices)), list_leaf("faces", IVEC3, mesh.faces)
    return position, draw_form(FORMS[form], clip, faces, SIZE, len(mesh.faces), radius=0.1)


def test_depths_are_compared_where_they_are_known(ball):
    mesh, cameras, masks, depths = ball
    _, soft = depth_drawn(mesh, cameras)

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


def test_derivatives_are_those_of_the_depths(ball):
    mesh, cameras, masks, depths = ball
    position, soft = depth_drawn(mesh, cameras, "outer")
    wrong = depths + 0.05 * np.random.default_rng(0).normal(size=depths.shape) * (depths > 0)
    distance = depth_term(soft, wrong, masks, SIZE, 0, blended=False)
    # Small steps: no pixel changes its face.
    assert check_gradient(distance, [position], step=1e-7) < 1e-4


def test_smaller_depths_are_means_of_known_ones():
    depths = np.array(
        [[2.0, 4.0, 1.0, 1.0], [0.0, 0.0, 1.0, 9.0], [0.0, 0.0, 5.0, 5.0], [0.0, 3.0, 5.0, 5.0]]
    )
    mask = np.ones((4, 4))
    assert_allclose(depth_at(depths, mask, (2, 2)), [[3.0, 3.0], [0.0, 5.0]])
    mask[1, 3] = 0
    # A pixel that is not entirely inside of the mask has no depth.
    assert_allclose(depth_at(depths, mask, (2, 2)), [[3.0, 0.0], [0.0, 5.0]])


@pytest.mark.parametrize("form", ["outer", "face"])
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
    """A bowl, the dataset of a folder with its photographs and depths, and the mesh that a fit of it starts
    from."""
    truth, cameras = bowl(3), views_of_bowl(8, (48, 48))
    folder = photographed(
        tmp_path_factory.mktemp("bowl") / "p", cameras, *depth_pictures(truth, cameras), truth.bounds()
    )
    scene = photo_dataset(load_photos(folder, depth=True))
    return truth, scene, rounds_of(scene, FitOptions(size=(48, 48), depth=True), None, DressiAD)[0]


@pytest.mark.release
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


def disc(radius: float, hole: float, at: float = 0.0) -> np.ndarray:
    y, x = np.mgrid[:64, :64] - 31.5
    away = np.hypot(x - at, y)
    return ((np.hypot(x, y) < radius) & (away >= hole)).astype(np.float32)


def test_holes_are_large_and_known():
    mask = disc(25, 8)
    assert holes(mask).sum() == (disc(25, 0) - mask).sum()
    assert not holes(disc(25, 2)).any()  # less than one hundredth
    assert not holes(disc(25, 8, at=20.0)).any()  # a bay, not a hole
    known = np.ones(mask.shape, dtype=bool)
    known[32, 32] = False
    assert not holes(mask, known).any()
    assert not holes(np.zeros((8, 8))).any()


def standing_torus(around: int, across: int) -> Mesh:
    mesh = primitives.torus(around, across)
    return mesh.moved(mesh.positions[:, [0, 2, 1]] * (1, -1, 1))


@pytest.fixture(scope="module")
def torus_seen() -> tuple[Cameras, np.ndarray]:
    """The torus from around: some views look through it. Masks are of points inside, so dense that no pixel
    is left out."""
    mesh = standing_torus(64, 32)
    cameras = ring(np.zeros(3), float(np.abs(mesh.positions).max()), 8, (64, 64))
    grid = Grid.around(mesh.bounds(), 110)
    points = grid.points()[winding_numbers(mesh, grid) > 0]
    masks = np.zeros((8, 64, 64), dtype=np.float32)
    for mask, camera in zip(masks, cameras, strict=True):
        x, y = np.floor(camera.project(points)[0]).astype(int).T
        mask[y, x] = 1
    return cameras, masks


def test_a_ball_becomes_a_ring_where_pictures_see_through_it(torus_seen):
    cameras, masks = torus_seen
    through = [holes(mask).any() for mask in masks]
    assert 2 <= sum(through) < len(masks)
    bounds = primitives.torus().bounds()[:, [0, 2, 1]]
    ball = primitives.octasphere(3, 1.0)
    ball = ball.moved(ball.positions * (bounds[1] - bounds[0]) / 2)
    found = opened(ball, cameras.matrices, masks)
    assert found is not None and found.is_closed() and found.euler_characteristic() == 0
    assert len(found.faces) < 2 * len(ball.faces)
    assert not winding_numbers(found, Grid(np.full(3, -0.02), 0.02, (3, 3, 3))).any()  # the middle is free
    # It is as it should be now, and stays.
    assert opened(found, cameras.matrices, masks) is None
    # A hole in a single mask may be a mistake.
    one = np.where(np.arange(len(masks))[:, None, None] == np.argmax(through), masks, hull_of(masks))
    assert opened(ball, cameras.matrices, one) is None


def hull_of(masks: np.ndarray) -> np.ndarray:
    return np.stack([np.maximum(mask, holes(mask)) for mask in masks])


def test_meshes_without_holes_to_open_stay(torus_seen):
    cameras, masks = torus_seen
    ball = primitives.icosphere(3, 0.5)
    assert opened(ball, cameras.matrices, hull_of(masks)) is None
    assert opened(Mesh(ball.positions, ball.faces[1:]), cameras.matrices, masks) is None


@pytest.fixture(scope="module")
def ring_fit(device, tmp_path_factory: pytest.TempPathFactory):
    """What runs a fit, always in the same folder, and the result of its first run."""
    options = FitOptions(
        size=(40, 40), views=6, steps=60, texture_size=16, colours=False, joint=False, start="sphere"
    )
    scene = mesh_dataset(standing_torus(32, 16), 6, (40, 40), lambda: DressiAD(device))
    folder = tmp_path_factory.mktemp("ring")

    def run(**how: Any) -> FitResult:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(remeshed, "HOLE_CELLS", 32)
            return FitJob(scene, options, lambda: DressiAD(device), folder=folder).run(**how)

    return run, run()


@pytest.mark.release
def test_a_fit_finds_the_ring(ring_fit):
    _, whole = ring_fit
    assert check_surface(whole.mesh).handles == 1


@pytest.mark.release
def test_a_fit_goes_on_after_it_found_the_ring(ring_fit):
    run, whole = ring_fit
    # The last round of the shape has begun, on the mesh that was opened.
    calls = []
    part = run(progress=calls.append, stop=lambda: len(calls) >= 7)
    assert not part.finished and check_surface(part.mesh).handles == 1
    rest = run(resume=True)
    assert_array_equal(rest.mesh.positions, whole.mesh.positions)
    assert_array_equal(rest.mesh.faces, whole.mesh.faces)
    assert_array_equal(rest.mesh.texture, whole.mesh.texture)


def test_points_that_are_shown_alike_are_sure(make_engine, tmp_path: Path):
    one = ring(np.zeros(3), 1.0, 2, (24, 24))[0]
    front, cameras = one.center / np.linalg.norm(one.center), Cameras([one] * 4)
    ball, behind = icosphere(2, 0.6), icosphere(1, 0.1)
    both = np.concatenate([ball.positions, behind.positions - 0.8 * front])
    mesh = Mesh(both, np.concatenate([ball.faces, behind.faces + len(ball.positions)]))

    masks, colors = draw(mesh, cameras, make_engine)
    views = Observations(cameras, masks, colors)
    sure = confidence(mesh, views, colors, make_engine).sure
    toward = ball.positions @ front / 0.6
    assert sure[: len(toward)][toward > 0.8].min() > 0.6 and (sure[: len(toward)][toward < -0.1] == 0).all()
    assert (sure[len(toward) :] < 0.05).all(), "what is hidden is not sure"
    other = confidence(mesh, views, colors * 0.5, make_engine).sure
    assert (other[sure > 0.6] < 0.5 * sure[sure > 0.6]).all()
    ramp = shown_confidence(mesh, sure).colors
    assert ramp is not None and ramp[sure.argmax(), 1] > 0.5 and ramp[sure.argmin()].tolist()[1] == 0
    scene = replace(unit_scene(cameras, masks), train=views)
    save_result(tmp_path / "result.glb", scene, mesh)
    assert len(load_scene(tmp_path / "result.glb").cameras) == len({camera.name for camera in cameras})
    assert_allclose(load_mesh(tmp_path / "result.glb").bounds(), mesh.bounds(), atol=1e-5)


def test_what_would_help_most_is_what_was_measured(make_engine):
    good = Measures(0.98, 29.0, 29.3, 29.1, 30.0, Shift(0.05, 0.1))
    for other, what, words in (
        (good._replace(psnr=24.0, exposed=24.1), "masks", "wider than the object by 1.3 pixels"),
        (good._replace(psnr=27.0, inside=27.0), "exposure", "locked"),
        (good._replace(shift=Shift(0.8, 3.0)), "cameras", "0.8 pixels"),
        (good._replace(exposed_inside=26.0), "pictures", "24 degrees apart"),
    ):
        worst = max(advice(good, other, 1.3, 24.0, False), key=lambda one: one.decibels)
        assert worst.what == what and words in worst.text and worst.decibels > WORTH
    assert max(one.decibels for one in advice(good, good, 0.0, 9.0, False)) < WORTH
    shiny = good._replace(exposed_inside=18.7)
    assert any(
        "18.7 dB" in one.text and "--optimize" in one.text for one in advice(shiny, shiny, 0.0, 9.0, False)
    )
    ball, up = icosphere(3, 0.6), np.array([0.0, 1.0, 0.0])
    cameras = Cameras([camera for camera in ring(np.zeros(3), 1.0, 12, (8, 8)) if camera.center[0] > 0])
    told = coverage(ball, (ball.positions[:, 0] > 0).astype(float), cameras, up, make_engine)
    assert (
        told.decibels > 10
        and "between 'view" in told.text
        and re.search("shows 9[0-9]%|shows 100%", told.text)
    )


def test_a_shift_of_pictures_is_found():
    y, x = np.mgrid[:40, :40] / 5
    pictures = [0.4 + 0.2 * np.sin(x + s * 0.08) * np.cos(y) for s in (0.0, 1.0)]
    drawn, seen = (srgb_to_linear(np.repeat(one[None, ..., None], 3, -1)) for one in pictures)
    masks = np.ones((1, 40, 40), np.float32)
    views = Observations(Cameras([Camera.perspective(40, (40, 40), (0, 0, 3), (0, 0, 0))]), masks, seen)
    found = shift(views, masks, drawn)
    assert abs(found.pixels - 0.4) < 0.02 and found.decibels > 15
    assert shift(views, masks, seen).pixels < 1e-6
