"""Poses: learned along with the shape, by bundle adjustment, searched for from any start, and placed between
others."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import disc
from scipy import sparse
from scipy.spatial.transform import Rotation
from tiny_fits import unit_scene

from dressi import DressiAD, InputError
from dressi.ad.graph.evaluation import evaluate
from dressi.engines import default_engine
from dressi.render import Camera, Cameras, Mesh, matrix_to_axis_angle, render, ring
from dressi.render.cameras.pose import (
    Similarity,
    align,
    pose_errors,
    turned,
    turns,
    unit_cameras,
    unit_matrices,
    world_cameras,
)
from dressi.render.fit import (
    Dataset,
    FitJob,
    FitOptions,
    FitRound,
    find_pose,
    mesh_dataset,
    photo_dataset,
    shape_rounds,
)
from dressi.render.fit.data.learned import learned
from dressi.render.fit.graphs.round import start
from dressi.render.fit.graphs.term import Moving
from dressi.render.fit.graphs.terms import HarmonicLight
from dressi.render.fit.options.schedule import fitted_rounds
from dressi.render.fit.phases.bundle import (
    Bundle,
    Pictures,
    Samples,
    adjusted,
    carried,
    colours_alike,
    inner_edges,
    outlines_alike,
    posed,
    projected,
    shades,
    solve,
    together,
)
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.poses import placed
from dressi.render.fit.report import cameras_file
from dressi.render.fit.start.choice import doubtful
from dressi.render.io import load_photos, save_png
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


def increments(cameras: Cameras, others: Cameras) -> np.ndarray:
    """(N, 6): turns about the origin, then shifts, in axes of the cameras, which make them the others."""
    moved = [b.view @ np.linalg.inv(a.view) for a, b in zip(cameras, others, strict=True)]
    shifts = [b.translation - a.translation for a, b in zip(cameras, others, strict=True)]
    return np.concatenate([[matrix_to_axis_angle(view[:3, :3]) for view in moved], shifts], axis=1)


def apart(cameras: Cameras, others: Cameras, middle: np.ndarray) -> Cameras:
    """The others without what they do together."""
    moves, rows = increments(cameras, others).ravel(), together(cameras, middle)
    moves -= np.linalg.pinv(rows) @ (rows @ moves)
    pairs = zip(cameras, moves.reshape(-1, 6), strict=True)
    return Cameras([turned(camera, move[:3], move[3:], ORIGIN) for camera, move in pairs])


def similarity() -> Similarity:
    turn = Rotation.from_rotvec([0.3, -0.5, 0.2]).as_matrix()
    return Similarity(1.7, turn, np.array([0.4, -3.0, 2.0]))


def test_a_similarity_moves_points_and_cameras_together():
    cameras, moves = ring(CENTER, 1.0, 3, SIZE), similarity()
    points = np.random.default_rng(0).normal(size=(5, 3)) * 0.3 + CENTER
    for before, after in zip(cameras, moves.cameras(cameras), strict=True):
        assert_allclose(before.project(points)[0], after.project(moves.points(points))[0])
        assert_allclose(moves.points(before.center), after.center)


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
    assert_allclose(turns(other, cameras), 2.0, atol=1e-9)
    assert 1.0 < pose_errors(other, cameras).degrees.mean() < 2.0


def test_cameras_in_units_of_the_scene():
    cameras = ring(CENTER, 1.0, 3, SIZE)
    unit = unit_cameras(cameras, CENTER, 0.8)
    assert_allclose(0.8 * unit.matrices, unit_matrices(cameras, CENTER, 0.8), atol=1e-12)
    assert_allclose(world_cameras(unit, CENTER, 0.8).matrices, cameras.matrices, atol=1e-12)


def test_light_is_one_at_first_and_falls_from_a_side():
    normals = octasphere(1).vertex_normals()
    light = HarmonicLight(normals, 2)
    assert_array_equal(evaluate([light.shade])[0], 1.0)
    values = {leaf: np.zeros((2, 1, 1, 3)) for leaf in light.parameters}
    values[light.parameters[0]][1, 0, 0] = (0.5, 0, 0)
    shade = evaluate([light.shade], values)[0].reshape(2, -1)[:, : len(normals)]
    assert_allclose(shade[0], 1.0)
    assert_allclose(shade[1], 1 + 0.5 * normals[:, 0])


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
def test_a_fit_that_is_stopped_finds_the_same_cameras(device, tmp_path, monkeypatch):
    monkeypatch.setattr("dressi.render.fit.phases.bundle.STEPS", 2)
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
    assert_array_equal(resumed.cameras.views, whole.cameras.views)
    assert_array_equal(resumed.mesh.positions, whole.mesh.positions)

    document = json.loads(cameras_file(whole.cameras, scene))
    assert len(document["views"]) == 5
    assert_array_equal(document["views"][2]["R"], whole.cameras[2].rotation)


@pytest.mark.release
def test_batches_and_colours_move_poses_too(device):
    scene = wrong_scene(device)
    cameras = unit_cameras(scene.train.cameras, scene.center, scene.radius)
    plan = FitRound(2, 48, 5, (0.1, 0.1), (0.01, 0.01), 1e-5, 19.0, {"colours": 1.0})
    views = Moving(cameras, (0.01, 0.01), (0.01, 0.01), plan.steps)
    work = ShapeRound(scene.start(2), learned(scene), SIZE, plan, moving=views, batch=2)
    with DressiAD(device) as engine:
        start(engine, work)
        work.before(engine, 0)
        engine.step(plan.steps)
        assert np.isfinite(engine.losses()).all()
        # All five views had their turn in five steps of two.
        assert turns(views.found(engine), cameras).min() > 0.1
        assert all(np.abs(engine.recv(leaf)).max() > 0 for leaf in work.parameters)


def test_one_view_says_nothing_about_its_pose():
    scene = unit_scene(ring(np.zeros(3), 1.0, 1, SIZE), disc(48, 12)[None])
    with pytest.warns(UserWarning, match="stays as it is"):
        job = FitJob(scene, replace(OPTIONS, views=1), lambda: pytest.fail("no engine is needed"))
    assert job.cameras is None


def test_found_cameras_can_stand_for_those_of_a_folder(tmp_path: Path):
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
    assert_array_equal(back.bounds, photos.bounds)
    assert back.originals[0].lens == photos.originals[0].lens
    for found, expected in zip(photo_dataset(back).train.cameras, moved, strict=True):
        assert_allclose(found.intrinsics, expected.intrinsics)
        assert_allclose(found.view, expected.view)
    kept = back.cameras[3]
    assert_allclose(kept.view, photos.cameras[3].view)


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


BUNDLE_SIZE = (48, 40)
ORIGIN = np.zeros(3)


def camera(eye: tuple[float, float, float]) -> Camera:
    found = Camera.perspective(40, BUNDLE_SIZE, eye, (0, 0, 0))
    skew = np.array([[0, 1.5, 0.7], [0, 0, -0.4], [0, 0, 0]])
    return replace(found, intrinsics=found.intrinsics + skew)


CAMERAS = Cameras([camera((0.2, 0.4, 4.0)), camera((1.6, 0.1, 3.6)), camera((-1.5, 0.5, 3.5))])


def wave(k: int) -> np.ndarray:
    """A picture that bends little from pixel to pixel."""
    y, x = np.mgrid[: BUNDLE_SIZE[1], : BUNDLE_SIZE[0]]
    return 0.5 + 0.2 * np.sin(0.07 * x + k) + 0.2 * np.cos(0.06 * y - 0.03 * x)


def test_slopes_meet_central_differences():
    points, image = np.random.default_rng(0).normal(size=(40, 3)) * 0.3, wave(0)
    steep, by_pose, by_point = projected(CAMERAS[1], points).slopes(image)
    assert 0.005 < steep.max() < 0.02
    step = 0.05
    for k, direction in enumerate(np.eye(6)):
        low, high = (
            projected(turned(CAMERAS[1], s * step * direction[:3], s * step * direction[3:], ORIGIN), points)
            for s in (-1, 1)
        )
        expected = (high.look_up(image) - low.look_up(image)) / (2 * step)
        assert_allclose(by_pose[:, k], expected, atol=0.05 * np.abs(by_pose[:, k]).max())
    for k, direction in enumerate(np.eye(3)):
        low, high = (projected(CAMERAS[1], points + s * step * direction) for s in (-1, 1))
        expected = (high.look_up(image) - low.look_up(image)) / (2 * step)
        assert_allclose(by_point[:, k], expected, atol=0.05 * np.abs(by_point[:, k]).max())


def test_places_are_those_of_the_camera():
    points = np.random.default_rng(1).normal(size=(9, 3)) * 0.5
    seen = projected(CAMERAS[2], points)
    place, depth = CAMERAS[2].project(points)
    assert_allclose(seen.place, place)
    assert_allclose(seen.at[:, 2], depth)
    far = projected(CAMERAS[2], np.array([[0.0, 0, 0], [0, 0, 90], [50, 0, 0]]))
    assert far.inside(3).tolist() == [True, False, False]


def moved(mesh: Mesh, moves: np.ndarray) -> tuple[Mesh, Cameras]:
    """The mesh and the cameras after moves of all unknowns."""
    poses = moves[: 6 * len(CAMERAS)].reshape(-1, 6)
    cameras = [turned(c, m[:3], m[3:], ORIGIN) for c, m in zip(CAMERAS, poses, strict=True)]
    heights = moves[6 * len(CAMERAS) :, None]
    return mesh.moved(mesh.positions + heights * mesh.vertex_normals()), Cameras(cameras)


def test_colours_pull_as_their_squares_fall(monkeypatch: pytest.MonkeyPatch):
    # One light and equal weights: both are held fixed in the derivative.
    monkeypatch.setattr("dressi.render.fit.phases.bundle.shades", lambda *a: np.ones(len(a[3])))
    mesh, codes = octasphere(2), np.stack([wave(k) for k in range(3)])
    samples = Samples(mesh, 128)

    def squares(mesh: Mesh, cameras: Cameras) -> tuple[np.ndarray, float]:
        front = np.flatnonzero(samples.of(mesh.positions)[:, 2] > 0.6)
        seen = [
            (front, projected(c, samples.of(mesh.positions)[front]), np.ones(len(front))) for c in cameras
        ]
        equations = colours_alike(mesh, samples, seen, codes)
        values = np.stack([there.look_up(code) for (_, there, _), code in zip(seen, codes, strict=True)])
        return equations.right * 1e6, float(((values - values.mean(0)) ** 2).sum())

    # Noise far above the residuals: all have one weight.
    monkeypatch.setattr("dressi.render.fit.phases.bundle.LEAST_NOISE", 1e3)
    right, _ = squares(mesh, CAMERAS)
    poses = np.arange(len(right)) < 6 * len(CAMERAS)
    for part in (poses, ~poses):
        way = right * part * (2e-3 / np.abs(right * part).max())
        low, high = (squares(*moved(mesh, sign * way))[1] for sign in (-1, 1))
        assert right @ way == pytest.approx((high - low) / 4, rel=0.03)


def test_outlines_pull_as_their_squares_fall(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dressi.render.fit.phases.bundle.SOFT", 1e6)
    mesh = octasphere(3)
    y, x = np.mgrid[: BUNDLE_SIZE[1], : BUNDLE_SIZE[0]]
    masks = np.stack([np.hypot(x - 24 - k, y - 20) - 13 for k in range(3)])
    first = outlines_alike(mesh, CAMERAS, inner_edges(mesh), np.zeros_like(masks), masks)
    assert 0.1 < first.error < 6
    stiff = sparse.csc_array(sparse.eye_array(len(mesh.positions)) * 100)
    nearer, cameras = moved(mesh, -solve(first.matrix, stiff, first.right, 6 * len(CAMERAS)))
    after = outlines_alike(nearer, cameras, inner_edges(mesh), np.zeros_like(masks), masks)
    assert after.error < 0.3 * first.error


def test_the_light_of_a_view_is_told_from_the_colours():
    rng = np.random.default_rng(0)
    normals = octasphere(2).vertex_normals()
    colour, point = rng.uniform(0.3, 0.7, len(normals)), np.tile(np.arange(len(normals)), 3)
    view = np.repeat(np.arange(3), len(normals))
    lights = np.array([[0.2, 0, 0], [0, -0.3, 0], [-0.2, 0.3, 0]])
    factor = 1 + (normals[point] * lights[view]).sum(1)
    found = shades(normals, point, view, colour[point] * factor)
    even = np.stack(np.split(colour[point] * factor / found, 3))
    assert np.abs(even - even.mean(0)).max() < 0.002
    assert np.abs(factor * colour[point] - colour[point]).max() > 0.1


def test_poses_are_eliminated_rightly():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 20)) * (rng.random((60, 20)) < 0.4)
    matrix, stiff, right = rows.T @ rows, np.diag(rng.uniform(1, 2, 14)), rng.normal(size=20)
    found = solve(sparse.csc_array(matrix), sparse.csc_array(stiff), right, 6)
    whole = matrix.copy()
    whole[6:, 6:] += stiff
    whole += np.diag(1e-4 * np.diag(matrix) + 1e-6 * np.diag(matrix).max())
    assert_allclose(whole @ found, right, atol=1e-9)


def test_edges_between_faces():
    mesh = octasphere(1)
    ends, faces = inner_edges(mesh)
    assert len(ends) == len(mesh.faces) * 3 // 2
    for pair, beside in zip(ends, faces, strict=True):
        assert all(set(pair) <= set(mesh.faces[face]) for face in beside) and beside[0] != beside[1]
    assert len(inner_edges(Mesh(mesh.positions[:3], np.array([[0, 1, 2]])))[0]) == 0


def test_unknown_pixels_are_not_compared():
    y, x = np.mgrid[:40, :48]
    masks = np.hypot(x - 24, y - 20)[None] < 12
    known = np.broadcast_to(x[None] < 30, masks.shape)
    found = Pictures.of((masks & known).astype(float), masks[..., None] * np.full(3, 0.5), known, BUNDLE_SIZE)
    assert not found.masks[0, :, 30:].any() and found.masks[0, 20, 28]
    assert (found.distances[0, :, 24:] == 1e3).all() and (np.abs(found.distances[0, :, 3:22]) < 20).all()


@pytest.mark.release
def test_shape_and_poses_are_found_from_colours(make_engine):
    target = checked()
    scene = mesh_dataset(target, 8, (64, 64), make_engine)
    train, rng = scene.train, np.random.default_rng(0)
    truth = unit_cameras(train.cameras, scene.center, scene.radius)
    ways = rng.normal(size=(8, 2, 3))
    ways /= np.linalg.norm(ways, axis=2, keepdims=True)
    pairs = zip(truth, ways, strict=True)
    wrong = Cameras([turned(c, np.radians(3) * turn, 0.04 * shift, ORIGIN) for c, (turn, shift) in pairs])
    shape = scene.to_unit(Mesh(target.positions, target.faces))
    given = shape.moved(shape.positions * (1.02, 0.98, 1.0))
    arguments = (train.masks, train.colors, None, make_engine)
    found = adjusted(given, wrong, *arguments)
    assert found is not None
    before, after = (pose_errors(cameras, truth).degrees.mean() for cameras in (wrong, found[1]))
    assert before > 2.5 and after < 0.35 * before
    assert adjusted(given, wrong, *arguments, stop=lambda: True) is None
    two = Cameras(list(wrong)[:2])
    assert adjusted(given, two, train.masks[:2], train.colors[:2], None, make_engine) == (given, two)


def test_poses_that_are_nearly_right_take_few_steps(make_engine, monkeypatch: pytest.MonkeyPatch):
    target = checked()
    # Neighbours see much of the same surface: of five views, 72 degrees apart, too little.
    scene = mesh_dataset(target, 8, (160, 160), make_engine)
    train, shape = scene.train, scene.to_unit(Mesh(target.positions, target.faces))
    truth = unit_cameras(train.cameras, scene.center, scene.radius)
    wrong = apart(truth, perturbed(truth, 1.2, 0.005, ORIGIN), shape.positions.mean(0))
    found = adjusted(shape, wrong, train.masks, train.colors, None, make_engine, near=True)
    assert found is not None
    before, after = (pose_errors(cameras, truth).degrees.mean() for cameras in (wrong, found[1]))
    assert before > 0.8 and after < 0.4 * before
    # Together they stay: the thing's own pictures hardly tell where it stands between them.
    rows, moves = together(wrong, shape.positions.mean(0)), increments(wrong, found[1])
    assert np.abs(rows @ moves.ravel()).max() < 0.03 * np.abs(moves).max()
    for parts in (moves[:, :3], moves[:, 3:]):
        assert np.abs(parts.mean(axis=0)).max() < 0.1 * np.abs(parts).max()
    # The shape stays where that of the adjustment has lost overlap and has hardly more, by these cameras, than it.
    for least, stays in ((0.9, True), (0.8, False)):
        with monkeypatch.context() as patch:
            given = iter([0.94, 0.9, least])
            patch.setattr(Bundle, "overlaps", lambda *_, given=given: np.full(8, next(given)))
            same = adjusted(shape, wrong, train.masks, train.colors, None, make_engine, near=True)
        assert same is not None and (same[0] is shape) == stays
        assert_array_equal(same[1].views, found[1].views)
    # They stay where the silhouettes of the shape do not overlap the masks more than before by so much.
    monkeypatch.setattr("dressi.render.fit.phases.bundle.LOST", -0.2)
    assert adjusted(shape, wrong, train.masks, train.colors, None, make_engine, near=True) == (shape, wrong)


def test_what_cameras_do_together_is_told_by_increments():
    cameras, middle = ring(CENTER, 1.0, 7, SIZE), CENTER + (0.1, -0.2, 0.15)
    moves = 1e-5 * np.random.default_rng(5).normal(size=(7, 6))
    pairs = list(zip(cameras, moves, strict=True))
    others = Cameras([turned(camera, move[:3], move[3:], ORIGIN) for camera, move in pairs])
    turns = [matrix_to_axis_angle(a.rotation.T @ b.rotation) for a, b in zip(cameras, others, strict=True)]
    spreads = [np.linalg.norm(c.centers - c.centers.mean(0)) for c in (cameras, others)]
    points = middle + 1e-5 * np.concatenate([np.zeros((1, 3)), np.eye(3)])
    places = np.stack([camera.project(points)[0] for camera in cameras])
    by_motion = ((places[:, 1:] - places[:, :1]) / 1e-5).transpose(0, 2, 1).reshape(-1, 3)
    seen = np.stack([camera.project(middle)[0] for camera in others]) - places[:, 0]
    expected = [
        *np.mean(turns, axis=0),
        *(others.centers - cameras.centers).mean(0),
        np.log(spreads[1] / spreads[0]),
        *np.linalg.lstsq(by_motion, seen.ravel())[0],
    ]
    assert_allclose(together(cameras, middle) @ moves.ravel(), expected, rtol=1e-3, atol=1e-9)
    assert np.isfinite(together(cameras[[0, 0, 0]], middle)).all()  # from one place


def test_a_start_that_fits_is_adjusted_where_that_is_asked_for():
    options = FitOptions(size=(320, 240), adjust_poses=True)
    assert [plan.adjusts for plan in fitted_rounds(options)] == [True]
    # Exact masks have right cameras; and whoever does not ask gets the round of before.
    assert not fitted_rounds(options, exact=True)[0].adjusts
    assert not fitted_rounds(replace(options, adjust_poses=None))[0].adjusts


def test_held_out_poses_follow_the_others_on_a_shape_that_stays(make_engine):
    target = checked()
    scene = mesh_dataset(target, 16, (64, 64), make_engine)
    train, shape = scene.train, scene.to_unit(Mesh(target.positions, target.faces))
    truth = unit_cameras(train.cameras, scene.center, scene.radius)
    pairs = zip(truth[14:], np.eye(3), strict=False)
    wrong = [turned(camera, np.radians(1.5) * axis, 0.02 * axis, ORIGIN) for camera, axis in pairs]
    arguments = (train.masks, train.colors, None, make_engine)
    found = posed(shape, Cameras([*truth[:14], *wrong]), *arguments, still=14)
    assert_array_equal(found.views[:14], truth.views[:14])
    assert turns(found[14:], truth[14:]).max() < 0.4 < 1.4 < turns(Cameras(wrong), truth[14:]).min()
    # Cameras that are right already stay within the errors of pixels.
    assert turns(posed(shape, truth, *arguments, still=14), truth).max() < 0.3


def test_cameras_that_masks_contradict_are_in_doubt(make_engine):
    scene = mesh_dataset(pear(16, 12, 32), 8, SIZE, make_engine)
    wrong = perturbed(scene.train.cameras, 4.0, 0.04, scene.center)
    assert not doubtful(scene)
    assert doubtful(replace(scene, train=replace(scene.train, cameras=wrong)))


def test_cameras_follow_their_neighbours():
    cameras, turn = ring(ORIGIN, 1.0, 8, SIZE), Rotation.from_rotvec([0.02, -0.03, 0.01]).as_matrix()
    # All were turned about the scene, which a camera between them does, too.
    found = Cameras([replace(c, rotation=c.rotation @ turn) for c in cameras])
    moved = carried(cameras[[0, 1, 2, 4, 5, 6]], found[[0, 1, 2, 4, 5, 6]], cameras[[3, 7]], ORIGIN)
    assert_allclose(moved.views, found.views[[3, 7]], atol=1e-9)
    assert turns(moved, cameras[[3, 7]]).min() > 1
    still = carried(cameras[:6], cameras[:6], cameras[6:], np.array([0.2, 0.1, 0.0]))
    assert_allclose(still.views, cameras.views[6:], atol=1e-9)


def checked() -> Mesh:
    """An ellipsoid with a texture of waves."""
    mesh = octasphere(3)
    assert mesh.uvs is not None
    y, x = np.mgrid[:64, :64] / 64
    grey = 0.4 + 0.3 * np.sin(37 * x + 9 * np.sin(11 * y)) * np.cos(31 * y)
    found = replace(mesh, positions=mesh.positions * (1.0, 0.7, 0.8))
    found.texture = np.repeat(grey[..., None], 3, axis=2)
    return found


# Irregular, so that its outlines tell every rotation from every other one.
SOLID = Mesh(
    np.array([[-0.7, -0.3, -0.3], [0.9, -0.2, -0.1], [-0.3, 0.6, -0.2], [-0.2, 0.0, 0.5]]),
    np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
)
COLOURS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.8, 0.1]])


@pytest.mark.release
def test_a_solid_is_found_after_half_a_turn_and_a_shift():
    cameras = ring(np.zeros(3), 1.2, 2, (40, 40))
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_rotvec([1.0, 2.1, -0.7]).as_matrix()
    motion[:3, 3] = 0.1, -0.12, 0.08
    seen = render(SOLID, cameras, to_world=motion, colours=COLOURS, light=None)
    found = find_pose(SOLID, cameras, seen.mask, seen.colour, vertex_colours=COLOURS, descents=(4, 1))
    away = Rotation.from_matrix(found.to_world[:3, :3] @ motion[:3, :3].T).magnitude()
    assert np.degrees(away) < 2.5
    assert np.abs(found.to_world[:3, 3] - motion[:3, 3]).max() < 0.03
    assert found.iou > 0.97
    assert found.scores.shape == (60,) and np.isfinite(found.scores).all() and found.descents.shape == (1,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"masks": np.ones((2, 8, 8))}, "masks of shape"),
        ({"masks": np.zeros((1, 8, 8))}, "cover no pixel"),
        ({"colours": np.ones((1, 8, 9, 3))}, "colours beside masks"),
        ({"rotations": np.eye(3)}, "rotations to start from"),
        ({"starts": np.eye(4)}, "motions to start from"),
        ({"starts": np.eye(4)[None], "descents": (6, 2)}, "one number"),
        ({"descents": (0, 1)}, "descents"),
    ],
)
def test_bad_input_is_named(given, message):
    camera = Camera.perspective(45, (8, 8), (0, 0, 5), (0, 0, 0))
    with pytest.raises(InputError, match=message):
        find_pose(SOLID, camera, **({"masks": np.ones((1, 8, 8))} | given))


@pytest.mark.release
def test_a_camera_is_found_between_others_and_none_for_another_object():
    cameras = ring(np.zeros(3), 1.2, 7, (40, 40))
    known, others = Cameras(cameras.cameras[1:]), Cameras(cameras.cameras[:1] * 2)
    solid = replace(SOLID, colors=COLOURS)
    seen = render(solid, others, light=None)
    masks = np.asarray(seen.mask).copy()
    masks[1] = np.hypot(*(np.mgrid[:40, :40] - 19.5)) < 17
    # From where the pictures were taken is not known: the cameras are those of another one.
    given = Cameras([cameras.cameras[3]] * 2)
    found, none = placed(solid, known, given, masks, seen.colour * masks[..., None], default_engine)
    assert none is None and found is not None
    away = Rotation.from_matrix(found.rotation @ cameras.cameras[0].rotation.T).magnitude()
    assert np.degrees(away) < 2.5
    assert np.linalg.norm(found.center - cameras.cameras[0].center) < 0.15
    assert (found.intrinsics == cameras.cameras[3].intrinsics).all()
