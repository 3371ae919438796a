"""Poses that a fit learns along with the shape, and how cameras are compared."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dressi import DressiAD
from dressi.ad.evaluate import evaluate
from dressi.errors import InputError
from dressi.render.cameras import Cameras
from dressi.render.cameras.alignment import Similarity, align, pose_errors, turns
from dressi.render.cameras.pose import turned
from dressi.render.cameras.units import unit_cameras, unit_matrices, world_cameras
from dressi.render.cameras.views import ring
from dressi.render.fit import Dataset, FitJob, FitOptions, FitRound, mesh_dataset, shape_rounds
from dressi.render.fit.cameras import cameras_file
from dressi.render.fit.graphs.learned import learned
from dressi.render.fit.graphs.moving import Moving
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.terms.colours import HarmonicLight
from dressi.render.io import load_photos
from dressi.render.mesh.primitives import octasphere, pear

SIZE = (48, 48)
CENTER = np.array([0.1, 0.2, 0.3])


def perturbed(cameras: Cameras, degrees: float, share: float, center: np.ndarray) -> Cameras:
    """Turned and shifted, each along an axis of its own; shifts are shares of the distance."""
    rng, found = np.random.default_rng(3), []
    for camera in cameras:
        axis, shift = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        away = share * np.linalg.norm(camera.center - center)
        found.append(turned(camera, np.radians(degrees) * axis, away * shift, center))
    return Cameras(found)


def similarity() -> Similarity:
    turn = Rotation.from_rotvec([0.3, -0.5, 0.2]).as_matrix()
    return Similarity(1.7, turn, np.array([0.4, -3.0, 2.0]))


def test_a_similarity_moves_points_and_cameras_together():
    cameras, moves = ring(CENTER, 1.0, 3, SIZE), similarity()
    points = np.random.default_rng(0).normal(size=(5, 3)) * 0.3 + CENTER
    for before, after in zip(cameras, moves.cameras(cameras), strict=True):
        np.testing.assert_allclose(before.project(points)[0], after.project(moves.points(points))[0])
        np.testing.assert_allclose(moves.points(before.center), after.center)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_cameras_of_another_world_are_the_same_cameras(count: int):
    cameras = ring(CENTER, 1.0, count, SIZE)
    moved = similarity().cameras(cameras)
    errors = pose_errors(moved, cameras)
    assert errors.degrees.max() < 1e-6 and errors.distances.max() < 1e-9
    assert turns(moved, cameras).min() > 20
    assert align(moved, cameras).scale == pytest.approx(1 / 1.7 if count > 1 else 1.0)
    with pytest.raises(InputError, match="pairs"):
        align(cameras, ring(CENTER, 1.0, count + 1, SIZE))


def test_errors_are_those_of_each_camera():
    cameras = ring(CENTER, 1.0, 8, SIZE)
    other = perturbed(cameras, 2.0, 0.0, CENTER)
    np.testing.assert_allclose(turns(other, cameras), 2.0, atol=1e-9)
    assert 1.0 < pose_errors(other, cameras).degrees.mean() < 2.0


def test_cameras_in_units_of_the_scene():
    cameras = ring(CENTER, 1.0, 3, SIZE)
    unit = unit_cameras(cameras, CENTER, 0.8)
    np.testing.assert_allclose(0.8 * unit.matrices, unit_matrices(cameras, CENTER, 0.8), atol=1e-12)
    np.testing.assert_allclose(world_cameras(unit, CENTER, 0.8).matrices, cameras.matrices, atol=1e-12)


def test_light_is_one_at_first_and_falls_from_a_side():
    normals = octasphere(1).vertex_normals()
    light = HarmonicLight(normals, 2)
    np.testing.assert_array_equal(evaluate([light.shade])[0], 1.0)
    values = {leaf: np.zeros((2, 1, 1, 3)) for leaf in light.parameters}
    values[light.parameters[0]][1, 0, 0] = (0.5, 0, 0)
    shade = evaluate([light.shade], values)[0].reshape(2, -1)[:, : len(normals)]
    np.testing.assert_allclose(shade[0], 1.0)
    np.testing.assert_allclose(shade[1], 1 + 0.5 * normals[:, 0])


def wrong_scene(device) -> Dataset:
    """Pictures by cameras that are not quite where the scene says."""
    scene = mesh_dataset(pear(16, 12, 32), 5, SIZE, lambda: DressiAD(device))
    given = perturbed(scene.train.cameras, 2.0, 0.02, scene.center)
    return replace(scene, train=replace(scene.train, cameras=given))


OPTIONS = FitOptions(size=SIZE, views=5, steps=30, texture_size=16, refine_poses=True)


def job_of(scene: Dataset, device, folder: Path | None = None) -> FitJob:
    """A fit of a round of the shape after which it is adjusted, and one with fixed poses."""
    job = FitJob(scene, OPTIONS, lambda: DressiAD(device), folder=folder)
    first = replace(job.rounds[0], steps=20, subdivisions=2)
    still = replace(first, steps=5, turn=(0.0, 0.0), shift=(0.0, 0.0))
    job.rounds = [replace(first, adjusts=True), still]
    return job


@pytest.mark.release
@pytest.mark.vk
def test_a_fit_that_is_stopped_finds_the_same_cameras(
    device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dressi.render.fit.bundle.adjust.STEPS", 2)
    scene = wrong_scene(device)
    given = scene.train.cameras
    whole = job_of(scene, device).run()
    assert whole.cameras is not None
    # Where the world lies is chosen so that cameras have moved least.
    again = align(whole.cameras, given)
    assert abs(again.scale - 1) < 1e-6 and np.abs(again.rotation - np.eye(3)).max() < 1e-6
    assert turns(whole.cameras, given).min() > 0.01

    # The second stop, of what goes on, is while shape and poses are adjusted, which begins anew then.
    for done in (10, 20):
        calls = iter(range(1000))
        job = job_of(scene, device, tmp_path)
        stopped = job.run(resume=done > 10, stop=lambda calls=calls: next(calls) == 2)
        assert not stopped.finished and len(stopped.losses) == done
    resumed = job_of(scene, device, tmp_path).run(resume=True)
    assert resumed.cameras is not None and resumed.finished
    np.testing.assert_array_equal(resumed.cameras.views, whole.cameras.views)
    np.testing.assert_array_equal(resumed.mesh.positions, whole.mesh.positions)

    document = json.loads(cameras_file(whole.cameras, scene))
    assert len(document["views"]) == 5
    np.testing.assert_array_equal(document["views"][2]["R"], whole.cameras[2].rotation)


@pytest.mark.release
@pytest.mark.vk
def test_batches_and_colours_move_poses_too(device):
    scene = wrong_scene(device)
    cameras = unit_cameras(scene.train.cameras, scene.center, scene.radius)
    plan = FitRound(2, 48, 5, (0.1, 0.1), (0.01, 0.01), 1e-5, 19.0, {"colours": 1.0})
    views = Moving(cameras, (0.01, 0.01), (0.01, 0.01), plan.steps)
    work = ShapeRound(scene.start(2), learned(scene), SIZE, plan, moving=views, batch=2)
    engine = DressiAD(device)
    try:
        engine.set_loss(work.loss)
        engine.set_optimizer(work.optimizer, work.parameters)
        work.before(engine, 0)
        engine.step(plan.steps)
        assert np.isfinite(engine.losses()).all()
        # All five views had their turn in five steps of two.
        assert turns(views.found(engine), cameras).min() > 0.1
        assert all(np.abs(engine.recv(leaf)).max() > 0 for leaf in work.parameters)
    finally:
        engine.close()


def test_one_view_says_nothing_about_its_pose():
    cameras = ring(np.zeros(3), 1.0, 1, SIZE)
    scene = mesh_like(cameras)
    with pytest.warns(UserWarning, match="stays as it is"):
        job = FitJob(scene, replace(OPTIONS, views=1), lambda: pytest.fail("no engine is needed"))
    assert job.cameras is None


def mesh_like(cameras: Cameras) -> Dataset:
    """A scene of a disc, from the host."""
    from dressi.render.fit import Observations

    y, x = np.mgrid[: SIZE[1], : SIZE[0]] + 0.5 - SIZE[0] / 2
    masks = np.repeat((np.hypot(x, y) < 12).astype(np.float32)[None], len(cameras), axis=0)
    views = Observations(cameras, masks, np.repeat(masks[..., None], 3, axis=3))
    return Dataset(views, None, np.zeros(3), 1.0, np.array([[-1.0] * 3, [1.0] * 3]), np.array([0.0, 1, 0]))


def test_found_cameras_can_stand_for_those_of_a_folder(tmp_path: Path):
    from dressi.render.fit import photo_dataset
    from dressi.render.io import save_png

    cameras = ring(np.zeros(3), 1.0, 5, (32, 24))
    views = []
    for i, camera in enumerate(cameras):
        image = np.zeros((24, 32, 3))
        image[8:16, 12:20] = 0.5
        for place, content in (("train", image), ("mask", image[..., 0] > 0)):
            (tmp_path / place).mkdir(exist_ok=True)
            save_png(tmp_path / place / f"{i}.png", np.asarray(content, np.float32))
        k = (camera.intrinsics - [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]).tolist()
        views.append(
            {"file": f"train/{i}.png", "K": k, "R": camera.rotation.tolist(), "t": camera.translation.tolist(), "k1": 0.01}
        )  # fmt: skip
    document = {"bbox": [[-0.4] * 3, [0.4] * 3], "pixel_center": 0, "views": views}
    (tmp_path / "cameras.json").write_text(json.dumps(document))
    photos = load_photos(tmp_path, (16, 12))
    scene = photo_dataset(photos)
    moved = perturbed(scene.train.cameras, 1.0, 0.0, scene.center)
    (tmp_path / "cameras.json").write_bytes(cameras_file(moved, scene, photos))
    back = load_photos(tmp_path, (16, 12))
    np.testing.assert_array_equal(back.bounds, photos.bounds)
    assert back.originals[0].lens == photos.originals[0].lens
    for found, expected in zip(photo_dataset(back).train.cameras, moved, strict=True):
        np.testing.assert_allclose(found.intrinsics, expected.intrinsics)
        np.testing.assert_allclose(found.view, expected.view)
    kept = back.cameras[3]
    np.testing.assert_allclose(kept.view, photos.cameras[3].view)


@pytest.mark.parametrize("colours", [False, True])
def test_pictures_coarser_than_before_move_no_camera(colours: bool):
    options = FitOptions(size=(320, 240), colours=colours)
    assert not any(plan.turn[0] or plan.shift[0] for plan in shape_rounds(options))
    finest, speeds = 0, []
    rounds = shape_rounds(replace(options, refine_poses=True))
    # Shape and poses are adjusted at the end; the shape alone is smoothed after that.
    assert [plan.adjusts for plan in rounds] == [False] * (len(rounds) - 2) + [True, False]
    assert not any(plan.adjusts for plan in shape_rounds(replace(options, refine_poses=True), exact=True))
    assert not rounds[-1].turn[0] and not rounds[-1].shift[0]
    assert sum(plan.steps for plan in rounds) == sum(plan.steps for plan in shape_rounds(options))
    for plan in rounds[:-1]:
        assert (plan.turn[0] > 0) == (plan.shift[0] > 0) == (plan.pixels >= finest)
        finest = max(finest, plan.pixels)
        speeds += [plan.turn] if plan.turn[0] else []
    assert len(speeds) >= 3 and all(end < start for start, end in speeds)
    assert speeds == sorted(speeds, reverse=True)
