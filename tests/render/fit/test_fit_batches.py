"""Batches of views, exposures, large steps and scores in the fit."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import DressiAD
from dressi.ad import optim
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT
from dressi.errors import InputError
from dressi.render.cameras import Camera, Cameras
from dressi.render.cameras.views import ring
from dressi.render.fit import FitJob, FitOptions, mesh_dataset, planned_dataset
from dressi.render.fit.data.dataset import PHOTO_SAMPLES
from dressi.render.fit.data.result import FitResult, Timing
from dressi.render.fit.exposures import expected_gains
from dressi.render.fit.graphs.batches import ROUNDS, ViewBatches
from dressi.render.fit.graphs.round import start
from dressi.render.fit.phases.texture import PARTS, TextureRound
from dressi.render.fit.scores import score
from dressi.render.mesh.primitives import pear
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

SIZE = (24, 24)
TINY = FitOptions(size=SIZE, views=4, steps=20, texture_size=16, colours=False, joint=False)


def picked(count: int, size: int, steps: int, seed: int = 0) -> np.ndarray:
    """(steps, size): the views of each step."""
    counter = optim.clock()
    batches = ViewBatches(count, size, counter, seed)
    return np.stack([evaluate([batches.index], {counter: [[[t]]]})[0].reshape(-1) for t in range(steps)])


@pytest.mark.parametrize(("count", "size"), [(6, 2), (7, 3), (5, 5), (4, 1)])
def test_views_are_seen_equally_often(count, size):
    views = picked(count, size, 2 * count)
    assert (np.bincount(views.reshape(-1), minlength=count) == 2 * size).all()
    np.testing.assert_array_equal(
        views.reshape(-1)[:count], ViewBatches(count, size, optim.clock()).order[:count]
    )
    if count % size == 0:
        assert all(len(set(step)) == size for step in views)
    assert count < 5 or not np.array_equal(views, picked(count, size, 2 * count, seed=1))


def test_the_order_goes_on_after_the_last_permutation():
    counter = optim.clock()
    batches = ViewBatches(3, 2, counter)
    late = evaluate([batches.index], {counter: [[[3 * ROUNDS // 2]]]})[0].reshape(-1)
    np.testing.assert_array_equal(late, batches.order[:2])


def test_what_views_share_is_not_picked():
    batches = ViewBatches(3, 2, optim.clock())
    shared, own = Variable(FLOAT, (4, 4)), Variable(FLOAT, (4, 4), 3)
    assert batches(shared) is shared and batches(own).batch == 2
    with pytest.raises(InputError, match="1 to 3 of 3"):
        ViewBatches(3, 4, optim.clock())


@pytest.mark.parametrize(("wrong", "word"), [({"batch": -1}, "batch"), ({"spread": -1.0}, "spread")])
def test_options_that_cannot_be(wrong, word):
    with pytest.raises(InputError, match=word):
        FitOptions(**wrong)


@pytest.mark.release
@pytest.mark.vk
@pytest.mark.parametrize(
    "options", [{"batch": 2, "exposure": True}, {"spread": 4.0}], ids=["batch", "spread"]
)
def test_the_fit_learns(device, options):
    def make_engine() -> DressiAD:
        return DressiAD(device)

    scene = mesh_dataset(pear(16, 12, 32), TINY.views, SIZE, make_engine)
    job = FitJob(scene, replace(TINY, **options), make_engine)
    result = job.run()
    shape = [loss for phase, loss in result.losses if phase == "shape"]
    assert np.isfinite(shape).all() and min(shape) < 0.6 * shape[0]


@pytest.mark.release
@pytest.mark.vk
def test_exposures_are_found(device):
    def make_engine() -> DressiAD:
        return DressiAD(device)

    target = pear(16, 12, 32)
    scene = mesh_dataset(target, 4, SIZE, make_engine)
    gains = np.array([[0.65, 0.7, 0.75], [1.0, 1.1, 0.9], [1.3, 1.35, 1.25], [1.0, 0.9, 1.05]])
    codes = linear_to_srgb(scene.train.colors)
    colors = srgb_to_linear(codes / codes.max() * 0.7 * gains[:, None, None])
    work = TextureRound(
        scene.to_unit(target), scene.matrices, scene.train.masks, colors,
        steps=80, texture_size=16, gradient="exact", seed=0, smoothness=0.0, exposure=True,
    )  # fmt: skip
    engine = make_engine()
    try:
        start(engine, work)
        engine.step(work.steps)
        found = work.found(engine).values["gains"]
    finally:
        engine.close()
    np.testing.assert_allclose(found, gains / np.exp(np.log(gains).mean(0)), atol=0.08)


def test_exposures_are_expected_between_pictures():
    cameras, others = (ring(np.zeros(3), 1.0, count, SIZE) for count in (24, 5))

    def brightness(some) -> np.ndarray:
        return np.array([[1 + 0.6 * camera.forward[0], 1.0, 0.8] for camera in some])

    found = expected_gains(brightness(cameras), cameras, others)
    away = np.abs(brightness(others) - 1).max(axis=0)
    assert (np.abs(found - brightness(others)).max(axis=0) <= 0.4 * away).all()
    # A picture from above has no neighbour.
    above = Cameras([Camera.perspective(40, SIZE, (0, 9, 0.1), (0, 0, 0))])
    near = Cameras(ring(np.zeros(3), 1.0, 120, SIZE).cameras[:6:2])
    np.testing.assert_allclose(expected_gains(brightness(near), near, above), 1.0, atol=0.05)


def test_the_joint_round_of_photographs_takes_twice_the_steps():
    drawn = planned_dataset(pear(16, 12, 32), 3, SIZE)
    steps = [
        FitJob(scene, FitOptions(size=SIZE, steps=60, start="sphere", joint=joint), lambda: None).steps[-1]
        for scene in (drawn, replace(drawn, reference=None))
        for joint in (False, True)
    ]
    assert steps == [10, 10, 10, 20]


@pytest.mark.release
@pytest.mark.vk
def test_a_texture_filtered_over_parts_of_pixels_suits_pictures_of_several_samples(device):
    def make_engine() -> DressiAD:
        return DressiAD(device)

    target = pear(16, 12, 64)
    target.texture = np.random.default_rng(0).random((64, 64, 3))
    scene = mesh_dataset(target, 6, SIZE, make_engine, PHOTO_SAMPLES)
    found = []
    for parts in (1.0, PARTS):
        work = TextureRound(
            scene.to_unit(target), scene.matrices, scene.train.masks, scene.train.colors,
            steps=60, texture_size=64, gradient="exact", seed=0, parts=parts,
        )  # fmt: skip
        engine = make_engine()
        try:
            start(engine, work)
            engine.step(work.steps)
            mesh = scene.to_world(work.found(engine).mesh)
        finally:
            engine.close()
        found.append(score(FitResult(mesh, [], {}, Timing(), True), scene.train, make_engine).psnr)
    assert found[1] > found[0] + 0.3, found


@pytest.mark.vk
def test_results_are_compared_with_photographs_by_the_area_of_a_pixel(device):
    def make_engine() -> DressiAD:
        return DressiAD(device)

    mesh = pear(16, 12, 64)
    mesh.texture = np.random.default_rng(0).random((64, 64, 3))
    made = mesh_dataset(mesh, 2, SIZE, make_engine).train
    covered = made.masks >= 0.5
    colors = made.colors * (covered / np.maximum(made.masks, 0.5))[..., None]
    photos = replace(
        made, masks=covered.astype(np.float32), colors=colors, samples=PHOTO_SAMPLES, photographed=True
    )
    result = FitResult(mesh, [], {}, Timing(), True)
    found, centres = (score(result, replace(photos, samples=n), make_engine) for n in (PHOTO_SAMPLES, 1))
    assert set(np.unique(found.masks)) == {0, 1} and found.iou > 0.97
    assert found.psnr > 30 > centres.psnr
