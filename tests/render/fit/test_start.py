"""Where a fit starts: the hull of the masks, and stereo."""

import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import masks_of
from scipy.ndimage import distance_transform_edt, gaussian_filter, map_coordinates
from tiny_fits import unit_scene as dataset

from dressi import DressiAD, InputError, evaluate
from dressi.render import Camera, Cameras, Mesh, iou, primitives, ring
from dressi.render.cameras.pose import unit_cameras
from dressi.render.fit import Dataset, FitJob, FitOptions, draw, mesh_dataset, shape_rounds
from dressi.render.fit import job as job_module
from dressi.render.fit.data.dataset import Observations
from dressi.render.fit.disk import Checkpoint, Keeper
from dressi.render.fit.graphs.round import Found
from dressi.render.fit.job import rounds_of
from dressi.render.fit.options.schedule import fitted_rounds
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.start import carved as hull_module
from dressi.render.fit.start import choice as choice_module
from dressi.render.fit.start import stereo as maps_module
from dressi.render.fit.start.carved import SCENE, Cones, Hull, Small, near_cells
from dressi.render.fit.start.choice import start_mesh
from dressi.render.fit.start.stereo import (
    NOISE,
    DepthMap,
    Sweep,
    Views,
    aggregated,
    evened,
    refined,
    repaired,
    seen_through,
    smooth,
)
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.queries import SurfaceDistance
from dressi.render.mesh.remesh.volume import Grid, surface_of

SIZE = (64, 64)
FACES = 512


def both(*meshes: Mesh) -> Mesh:
    counts = np.cumsum([0, *(len(mesh.positions) for mesh in meshes)])
    faces = [mesh.faces + first for mesh, first in zip(meshes, counts[:-1], strict=True)]
    return Mesh(np.concatenate([mesh.positions for mesh in meshes]), np.concatenate(faces))


def scene_of(mesh: Mesh, size: tuple[int, int] = SIZE) -> Dataset:
    """Six masks of a mesh inside the unit sphere, and grey pictures."""
    cameras = ring(np.zeros(3), 1.0, 6, size)
    return dataset(cameras, masks_of(mesh.positions, mesh.faces, cameras.matrices, size).astype(np.float32))


def hull_of(scene: Dataset) -> Hull:
    return Hull.of(scene.matrices, scene.train.masks, scene.train.known)


BALLS = both(primitives.icosphere(2, 0.3, (-0.5, 0.0, 0.1)), primitives.icosphere(2, 0.25, (0.45, 0.1, -0.2)))


@pytest.fixture(scope="module")
def balls() -> Dataset:
    return scene_of(BALLS)


def hull_start(scene: Dataset, options: FitOptions) -> Mesh | None:
    def no_engine() -> DressiAD:
        raise AssertionError("the hull needs no device")

    found = start_mesh(scene, options, (FACES, FACES), no_engine)
    return None if found is None else found[0]


def standing_torus() -> Mesh:
    mesh = primitives.torus(32, 16)
    return mesh.moved(0.9 * mesh.positions[:, [0, 2, 1]] * (1, -1, 1) / np.abs(mesh.positions).max())


def test_the_hull_is_a_closed_surface_of_even_triangles():
    shape = primitives.bumpy_ellipsoid(3)
    shape = shape.moved(shape.positions / np.linalg.norm(shape.positions, axis=1).max())
    found = hull_of(scene_of(shape))
    assert found.agree and not found.wrong and found.small.iou(found.points()) > 0.95
    mesh = found.mesh(FACES)
    report = check_surface(mesh)
    assert report.closed and report.handles == 0 and not report.inside_out and report.self_intersecting == 0
    assert 0.9 * FACES <= len(mesh.faces) <= 1.1 * FACES
    assert 0.97 < mesh.signed_volume() / shape.signed_volume() < 1.3
    ends = mesh.positions[mesh.edges()]
    short, long = np.percentile(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), (5, 95))
    assert long < 4 * short


@pytest.mark.parametrize("shape", [(20, 30, 25), (9, 3, 40), (1, 5, 2)])
@pytest.mark.parametrize("distance", [1, 3.5, 5.5, 10.9])
def test_cells_nearby_are_those_of_the_distance_transform(shape: tuple[int, ...], distance: float):
    for share in (0.001, 0.02, 0.5):
        cells = np.random.default_rng(0).random(shape) < share
        cells[0, 0, 0] = True
        expected = np.asarray(distance_transform_edt(~cells)) <= distance
        assert_array_equal(near_cells(cells, distance), expected)


def test_holes_and_parts_of_the_masks_are_there_at_the_start(balls):
    ring_mesh = hull_of(scene_of(standing_torus())).mesh(FACES)
    assert check_surface(ring_mesh).handles == 1
    mesh = hull_of(balls).mesh(FACES)
    assert mesh.component_count() == 2 and mesh.is_closed()
    # Phantom parts are gone: everything is near one of the balls.
    assert SurfaceDistance(BALLS).distances(mesh.positions).max() < 0.2


def test_pixels_that_are_not_known_carve_nothing(balls):
    masks, known = balls.train.masks.copy(), np.ones(balls.train.masks.shape, bool)
    known[2], masks[2] = False, 0
    unknown = hull_of(dataset(balls.train.cameras, masks, known))
    others = [0, 1, 3, 4, 5]
    without = hull_of(dataset(balls.train.cameras[others], balls.train.masks[others]))
    assert unknown.agree and not unknown.wrong
    assert_allclose(unknown.field, without.field, atol=1e-6)


def test_the_border_of_a_truncated_mask_carves_nothing():
    train = scene_of(primitives.icosphere(3, 0.8)).train
    # The first view shows the left half of the picture only.
    known = np.ones(train.masks.shape, bool)
    known[0, :, 32:] = False
    found = hull_of(dataset(train.cameras, train.masks * known, known))
    assert found.agree and not found.wrong
    assert np.ptp(found.points(), axis=0).min() > 1.5


def test_a_mask_that_contradicts_the_others_is_named_and_left_out(balls):
    masks = balls.train.masks.copy()
    masks[3, :, :32] = 0  # without one of the balls
    wrong = dataset(balls.train.cameras, masks)
    found = hull_of(wrong)
    assert found.agree and found.wrong == [3] and found.mesh(FACES).component_count() == 2
    with pytest.warns(UserWarning, match=r"mask of 'view 3' contradicts the others and is left out"):
        start = hull_start(wrong, FitOptions(size=SIZE, texture_size=64))
    assert start is not None and start.component_count() == 2


def test_what_a_single_wrong_mask_shows_is_no_part_of_the_start(balls):
    masks = balls.train.masks.copy()
    masks[1, 2:12, 2:12] = 1
    found = hull_of(dataset(balls.train.cameras, masks))
    assert found.agree and found.wrong == [1] and found.mesh(FACES).component_count() == 2


def test_a_limb_that_a_single_mask_cuts_is_whole():
    shape, cameras = rod(0.06), ring(np.zeros(3), 1.0, 12, (160, 160))
    masks = masks_of(shape.positions, shape.faces, cameras.matrices, (160, 160)).astype(np.float32)
    ends = shape.positions[[shape.positions[:, 2].argmin(), shape.positions[:, 2].argmax()]]
    matrix = cameras.matrices[3]
    x, y, _, w = matrix[:, :3] @ (0.75 * ends[0] + 0.25 * ends[1]) + matrix[:, 3]
    column, row = (int(80 + 80 * part / w) for part in (x, y))
    cut = masks.copy()
    cut[3, row - 3 : row + 4, column - 8 : column + 9] = 0
    assert 20 < (masks - cut).sum() < 0.1 * masks[3].sum()
    found = hull_of(dataset(cameras, cut)).finer()
    assert not found.wrong and found.mesh(FACES).component_count() == 1
    drawn = found.small.silhouettes(found.points())
    # It is no thicker than the other masks show it.
    whole = hull_of(dataset(cameras, masks)).finer()
    assert iou(drawn, whole.small.silhouettes(whole.points())) > 0.97


def test_masks_that_all_contradict_each_other_leave_the_sphere():
    masks = np.zeros((6, 64, 64), np.float32)
    for i, (x, y) in enumerate([(8, 8), (46, 8), (8, 46), (46, 46), (27, 4), (27, 50)]):
        masks[i, y : y + 8, x : x + 8] = 1
    scene, options = dataset(ring(np.zeros(3), 1.0, 6, SIZE), masks), FitOptions(size=SIZE, texture_size=64)
    with pytest.warns(
        UserWarning, match=r"masks contradict each other, those of 'view .*starts from a sphere"
    ):
        assert hull_start(scene, options) is None
    with pytest.raises(InputError, match=r"'view \d'.*--start sphere"):
        hull_start(scene, replace(options, start="hull"))


def test_the_sphere_is_taken_where_masks_are_few_or_poses_wrong(balls):
    few = dataset(balls.train.cameras[:3], balls.train.masks[:3])
    options = FitOptions(size=SIZE, texture_size=64)
    assert hull_start(few, options) is None
    assert hull_start(few, replace(options, start="hull")) is not None
    for other in (replace(options, start="sphere"), FitOptions(size=SIZE, refine_poses=True)):
        assert hull_start(balls, other) is None
    with pytest.raises(InputError, match="auto, stereo, hull, sphere"):
        FitOptions(start="cube")


def test_a_hull_too_rough_for_a_mesh_leaves_the_sphere(balls, monkeypatch: pytest.MonkeyPatch):
    options = FitOptions(size=SIZE, texture_size=64)
    monkeypatch.setattr(hull_module, "MOST_FACES", 0.1)  # as if decimation had failed
    with pytest.warns(UserWarning, match="too rough .*--start sphere; the fit starts from a sphere"):
        assert hull_start(balls, options) is None
    with pytest.raises(InputError, match="too rough"):
        hull_start(balls, replace(options, start="hull"))


def test_no_steps_are_lost_where_the_start_is_near():
    for form in ("outer", "face"):
        options = FitOptions(form=form)
        far, near = shape_rounds(options), shape_rounds(options, near=True)
        assert sum(plan.steps for plan in near) == sum(plan.steps for plan in far)
        assert near[1:] == far[2:] and near[0] == replace(far[1], steps=far[0].steps + far[1].steps)
    # Exact masks need a part of them; thin parts are seen at full size only.
    exact = shape_rounds(FitOptions(), exact=True, near=True)
    assert [(plan.steps, plan.pixels, plan.weights) for plan in exact] == [(240, 128, {}), (180, 256, {})]
    thin = shape_rounds(FitOptions(), exact=True, near=True, thin=True)
    assert [(plan.steps, plan.pixels, plan.weights) for plan in thin] == [(180, 256, {}), (90, 256, {})]


@pytest.mark.release
def test_two_objects_are_recovered_as_two_also_by_a_resumed_fit(make_engine, tmp_path: Path):
    size = (40, 40)
    scene = mesh_dataset(BALLS, 4, size, make_engine)
    options = FitOptions(size=size, views=4, steps=60, texture_size=32, colours=False, joint=False)

    def job() -> FitJob:
        return FitJob(scene, options, make_engine, folder=tmp_path)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls = []
        part = job().run(progress=calls.append, stop=lambda: len(calls) >= 2)
        whole = job().run(resume=True)
    found = whole.mesh
    assert not part.finished and whole.finished and len(whole.losses) == options.steps
    assert found.component_count() == 2 and found.is_closed()
    assert iou(draw(found, scene.train.cameras, make_engine)[0], scene.train.masks) > 0.93


RANDOM = np.random.default_rng(0)


def direct_score(picture, weight, others, radius):
    """Correlation of one window of four pictures at every pixel, by loops."""
    height, width = picture.shape
    found = np.zeros((len(others), height, width))
    for y in range(height):
        for x in range(width):
            part = (slice(max(y - radius, 0), y + radius + 1), slice(max(x - radius, 0), x + radius + 1))
            w = weight[part] / max(weight[part].sum(), 1e-9)
            a = picture[part] - (w * picture[part]).sum()
            for k, other in enumerate(others):
                b = other[part] - (w * other[part]).sum()
                floor = [max((w * v * v).sum(), NOISE**2) for v in (a, b)]
                found[k, y, x] = (w * a * b).sum() / np.sqrt(floor[0] * floor[1])
    return found


def test_scores_are_correlations_of_weighted_windows_on_every_device(device):
    size = (9, 7)
    sweep = Sweep(size, size, (1, 2), planes=2)
    picture, weight = RANDOM.random(size[::-1]), RANDOM.random(size[::-1])
    others = RANDOM.random((4, *size[::-1]))
    leaves = {sweep.picture: picture, sweep.weight: weight, **dict(zip(sweep.others, others, strict=True))}
    # Inverse depths of 0 and 1: by no pixel and by one, so that nothing is interpolated.
    leaves |= {sweep.base: np.full(size[::-1], -1.0), sweep.offsets: np.array([1.0, 2.0])[:, None, None]}
    leaves |= {leaf: np.eye(3) for leaf in sweep.turns}
    leaves |= {leaf: np.array([1.0, 0, 0]) for leaf in sweep.moves}
    still = others, np.concatenate([others[:, :, 1:], others[:, :, -1:]], axis=2)
    expected = []
    for seen in still:
        both = np.mean([direct_score(picture, weight, seen, radius) for radius in (1, 2)], axis=0)
        expected.append(np.sort(both, axis=0)[2:].mean(0))
    meaning = evaluate(sweep.score, leaves).reshape(2, *size[::-1])
    assert_allclose(meaning, expected, atol=1e-5)
    with DressiAD(device) as engine:
        sweep.start(engine)
        for leaf, value in leaves.items():
            engine.send(leaf, value)
        assert_allclose(engine.recv("score").reshape(meaning.shape), meaning, atol=2e-4)


def direct_paths(costs, inside, step, jump):
    """Sums over eight paths, pixel by pixel."""
    height, width, planes = costs.shape
    total = np.zeros(costs.shape)
    change = np.abs(np.arange(planes)[:, None] - np.arange(planes))
    penalty = np.select([change == 0, change == 1], [0.0, step], jump)
    for dy, dx in [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]:
        path = np.zeros(costs.shape)
        for y in range(height)[:: -1 if dy < 0 else 1]:
            for x in range(width)[:: -1 if dx < 0 else 1]:
                if not inside[y, x]:
                    continue
                q = y - dy, x - dx
                there = 0 <= q[0] < height and 0 <= q[1] < width
                before = path[q] if there else np.zeros(planes)
                path[y, x] = costs[y, x] + (before + penalty).min(1) - before.min()
        total += path
    return total


def test_costs_are_summed_along_eight_paths():
    costs, inside = RANDOM.random((5, 6, 4)), RANDOM.random((5, 6)) > 0.2
    assert_allclose(aggregated(costs, inside, 0.1, 0.5), direct_paths(costs, inside, 0.1, 0.5), atol=1e-5)


def test_depths_of_flat_scores_are_not_confident():
    offsets, shape = np.linspace(-2, 2, 9), (4, 6)
    peaked = 0.95 - 0.1 * offsets**2
    scores = np.broadcast_to(peaked, (*shape, 9)).copy()
    scores[:, 3:] = 0.95 - 0.01 * offsets**2  # no texture tells planes apart
    scores[2:] -= 0.4  # others see something else
    inside = np.ones(shape, bool)
    found = refined(np.ones(shape), scores, 0.01 * offsets, inside, inside, 0.01, 1)
    assert found.sure.all() and found.confident[:2, :3].all() and not found.confident[2:].any()
    assert not found.confident[:, 3:].any()
    assert_allclose(found.doubt[0, 0], np.sqrt(0.05 / 0.05) * 0.5)


def test_fused_distances_are_the_least_of_their_energy():
    goal, weight = RANDOM.normal(size=(6, 5, 4)), RANDOM.random((6, 5, 4))
    free = np.ones(goal.shape, bool)

    def energy(u):
        slopes = [np.diff(u, axis=k, append=np.take(u, [-1], k)) for k in range(3)]
        return np.sqrt(sum(s**2 for s in slopes)).sum() + (weight * (u - goal) ** 2).sum() / 2

    found = smooth(goal, weight, free, 400)
    least = energy(found)
    assert least < 0.9 * energy(goal)
    assert all(energy(found + 0.02 * RANDOM.normal(size=goal.shape)) > least for _ in range(20))


def bowl() -> Mesh:
    """A ball with a pit that no outline shows, from the side it is seen from, in many colours."""
    ball = primitives.icosphere(4, 0.8)
    points = ball.positions.copy()
    depth = 0.6 * np.exp(-5 * ((points[:, 0] / 0.8) ** 2 + (points[:, 1] / 0.8) ** 2))
    points[:, 2] -= np.where(points[:, 2] > 0, depth, 0)
    return ball.moved(points)


def pictures(device, views: int) -> Dataset:
    cameras = ring(np.zeros(3), 1.0, views, (56, 56))
    mesh = bowl()
    colours = np.repeat(np.random.default_rng(1).random((len(mesh.positions), 1)), 3, axis=1)
    masks, colors = draw(replace(mesh, colors=colours), cameras, lambda: DressiAD(device), 4)
    return dataset(cameras, (masks > 0.5) * 1.0, colors=colors)


@pytest.mark.release
def test_stereo_finds_a_pit_that_no_outline_shows(device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hull_module, "CELLS", 40)
    monkeypatch.setattr(maps_module, "PLANES", 48)
    scene, options = pictures(device, 14), FitOptions(size=(56, 56), texture_size=32, start="stereo")
    errors, shape = [], bowl().positions
    pit = shape[(shape[:, 2] > 0) & (np.hypot(shape[:, 0], shape[:, 1]) < 0.3)]
    for kind in ("hull", "stereo"):
        mesh, rounds = rounds_of(scene, replace(options, start=kind), None, lambda: DressiAD(device))
        assert mesh.is_closed()
        errors.append(SurfaceDistance(mesh).distances(pit).mean())
    assert errors[1] < 0.3 * errors[0] and errors[1] < 0.06, errors
    (plan,) = rounds
    assert plan.faces >= len(mesh.faces) and plan.steps == fitted_rounds(options)[0].steps < 60


def rod(radius: float) -> Mesh:
    """A rod with a ball at its end, which takes most of the masks."""
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    bar, ball = primitives.octasphere(3), primitives.icosphere(3, 0.3, (0.0, 0.0, 0.6))
    return both(
        bar.moved(bar.positions * (radius, radius, 0.8) @ turned), ball.moved(ball.positions @ turned)
    )


def test_limbs_that_depths_have_carved_away_are_given_back():
    shape = rod(0.04)
    scene = scene_of(shape, (160, 160))
    train, hull = scene.train, hull_of(scene)
    cameras = unit_cameras(train.cameras, scene.center, scene.radius)
    views = Views.of(cameras, train.masks, np.ones((*train.masks.shape, 3)), 40_000)
    # More than the rod is thick, so that the ball alone is left.
    carved = np.maximum(hull.field - 0.06, -3 * hull.grid.step)
    field = repaired(carved, hull.field, hull.grid, views)
    found = surface_of(evened(field), hull.grid, FACES, level=True)
    assert found is not None and found.component_count() == 1
    drawn = masks_of(found.positions, found.faces, scene.matrices, (160, 160))
    assert iou(drawn, train.masks) > 0.8


def test_edges_that_depths_have_carved_away_are_given_back_evenly():
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    cube = primitives.cube()
    scene = scene_of(cube.moved(cube.positions * (0.8, 0.8, 0.3) @ turned), (160, 160))
    train, hull = scene.train, hull_of(scene).finer()
    cameras = unit_cameras(train.cameras, scene.center, scene.radius)
    views = Views.of(cameras, train.masks, np.ones((*train.masks.shape, 3)), 40_000)
    carved = np.maximum(hull.field - 3 * hull.grid.step, -3 * hull.grid.step)
    field = repaired(carved, hull.field, hull.grid, views)
    whole, found = (surface_of(evened(part), hull.grid, 20_000, level=True) for part in (hull.field, field))
    assert whole is not None and found is not None
    drawn = masks_of(found.positions, found.faces, scene.matrices, (160, 160))
    # Raised by themselves, the cells that rays end in are teeth, and have 1.14 times the area.
    assert found.face_areas().sum() < 1.05 * whole.face_areas().sum() and iou(drawn, train.masks) > 0.97


def test_what_pictures_see_through_is_emptied_up_to_the_wall_behind():
    wall, rng = -0.4, np.random.default_rng(0)
    noise, size = gaussian_filter(rng.random((400, 400)), 2), (120, 120)
    angles = np.radians([-30, -18, -6, 6, 18, 30])
    eyes = 4 * np.stack([np.sin(angles), 0 * angles, np.cos(angles)], 1)
    cameras = Cameras([Camera.perspective(32, size, eye, np.zeros(3)) for eye in eyes])
    pictures = []
    for camera in cameras:
        origin, rays = camera.rays()
        at = origin + rays * ((wall - origin[2]) / rays[..., 2])[..., None]
        pictures.append(map_coordinates(noise, [100 * at[..., 1] + 200, 100 * at[..., 0] + 200], order=1))
    colors = np.repeat(np.array(pictures)[..., None], 3, -1).astype(np.float32)
    masks = np.ones(colors.shape[:3], np.float32)
    # The block in which the wall lies hides it: no depths say that its front half is not there.
    grid = Grid(np.array([-0.9, -0.9, -0.8]), 0.025, (73, 73, 49))
    points = grid.points()
    field = np.minimum(0.7 - np.abs(points[..., :2]).max(-1), 0.5 - np.abs(points[..., 2] + 0.2))
    hull = Hull(
        field,
        grid,
        Small(cameras.matrices, masks, masks > 0),
        [],
        True,
        Cones(cameras.matrices, size, [], [], SCENE),
    )
    views = Views.of(cameras, masks, colors, 40_000)
    nothing = np.zeros((views.crop[1], views.crop[0]))
    maps = {k: DepthMap(nothing + 4, nothing > 0, nothing + 0.1, nothing + 1, nothing) for k in range(6)}
    empty = seen_through(cameras, Observations(cameras, masks, colors), maps, views, hull)
    middle = np.abs(points[..., :2]).max(-1) < 0.4
    before, behind = (
        middle & inside for inside in (points[..., 2] > wall + 0.1, points[..., 2] < wall - 0.1)
    )
    assert empty[before & (field > 0)].mean() > 0.5
    assert empty[behind & (field > 0)].mean() < 0.1


def test_a_start_is_kept_for_a_fit_that_was_stopped(tmp_path, monkeypatch: pytest.MonkeyPatch):
    scene, options, ball = pictures_of_nothing(), FitOptions(size=(8, 8)), primitives.icosphere(1, 0.5)
    monkeypatch.setattr(job_module, "start_mesh", lambda *given: (ball, True))
    keeper = Keeper(tmp_path)
    mesh, rounds = rounds_of(scene, options, None, DressiAD, keeper)
    assert not list(tmp_path.iterdir())
    keeper.save(Checkpoint("key"))
    monkeypatch.setattr(job_module, "start_mesh", lambda *given: None)
    again, same = rounds_of(scene, options, None, DressiAD, Keeper(tmp_path))
    assert_array_equal(again.positions, mesh.positions)
    assert same == rounds
    other = rounds_of(scene, replace(options, seed=7), None, DressiAD, Keeper(tmp_path))[0]
    assert len(other.positions) != len(mesh.positions)
    keeper.forget()
    assert not list(tmp_path.iterdir())


def test_a_hull_of_thin_limbs_keeps_them_where_poses_are_adjusted(monkeypatch: pytest.MonkeyPatch):
    """Coarse pictures, which such limbs are no pixel wide in, are left out."""
    scene, options = pictures_of_nothing(), FitOptions(size=(64, 64), texture_size=8, adjust_poses=True)
    thin = primitives.icosphere(5, 0.5)
    monkeypatch.setattr(job_module, "start_mesh", lambda *given: (thin, False))
    *outlines, last = rounds_of(scene, options, None, DressiAD)[1]
    assert last.adjusts and not any(plan.adjusts or plan.weights for plan in outlines)
    assert min(plan.pixels for plan in [*outlines, last]) >= 64
    others = rounds_of(scene, replace(options, adjust_poses=False), None, DressiAD)[1]
    assert min(plan.pixels for plan in others) < 64 and not any(plan.adjusts for plan in others)


def test_stereo_begins_anew_and_colours_count_once_poses_are_found(monkeypatch: pytest.MonkeyPatch):
    options = FitOptions(size=(8, 8), steps=60, texture_size=8, refine_poses=True)
    begun = primitives.icosphere(1, 0.5)
    scene = pictures_of_nothing()
    shifted = replace(scene.train.cameras[0], translation=scene.train.cameras[0].translation + 0.1)
    found = Found(scene.start(2), Cameras([shifted, scene.train.cameras[1]]))
    seen = []

    def stereo(dataset: Dataset, *given: object) -> Mesh:
        seen.append(dataset.train.cameras)
        return begun

    monkeypatch.setattr("dressi.render.fit.start.choice.MANY_VIEWS", 2)
    hulls = iter([None, "hull", None])
    monkeypatch.setattr("dressi.render.fit.start.choice.hull_of", lambda *given: next(hulls))
    monkeypatch.setattr("dressi.render.fit.start.choice.stereo_start", stereo)
    monkeypatch.setattr(job_module, "adjusted", lambda mesh, cameras, *given, **options: (mesh, cameras))
    job = FitJob(scene, options, DressiAD)
    (number,) = [number for number in range(len(job.rounds)) if job.adjusts(number)]
    assert not seen and all(not plan.weights for plan in job.rounds[: number + 1])
    after = job.after(number, found, found, lambda: False)
    assert after is not None and after.cameras is found.cameras
    assert_array_equal(after.mesh.positions, begun.positions)
    assert_allclose(seen[0][0].translation, shifted.translation)
    work = job.round(number + 1, after)
    assert isinstance(work, ShapeRound) and work.moving is None and work.round.weights == {"colours": 1.0}
    assert job.joint and not FitJob(scene, replace(options, colours=False), DressiAD).joint


def pictures_of_nothing() -> Dataset:
    masks = np.zeros((2, 8, 8), np.float32)
    masks[:, 3:5, 3:5] = 1
    return dataset(ring(np.zeros(3), 1.0, 2, (8, 8)), masks)


def test_the_hull_is_taken_where_stereo_finds_nothing(device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hull_module, "CELLS", 24)
    options = FitOptions(size=(56, 56), texture_size=32, start="stereo")
    few = pictures(device, 4)
    with pytest.warns(
        UserWarning, match="5 pictures to learn from, and there are 4; the fit starts from the visual hull"
    ):
        found = start_mesh(few, options, (256, 512), lambda: DressiAD(device))
    assert found is not None and not found[1]


def test_the_hull_is_taken_where_stereo_loses_parts(balls: Dataset, monkeypatch: pytest.MonkeyPatch):
    options, lost = FitOptions(size=SIZE), primitives.icosphere(2, 0.25, (0.45, 0.1, -0.2))
    monkeypatch.setattr(choice_module, "stereo_suits", lambda *given: True)
    for mesh, kept in ((BALLS, True), (lost, False)):
        monkeypatch.setattr(choice_module, "stereo_start", lambda *given, mesh=mesh: mesh)
        with nullcontext() if kept else pytest.warns(UserWarning, match="IoU below 0.9 .* visual hull"):
            found = start_mesh(balls, options, (FACES, FACES), DressiAD)
        assert found is not None and found[1] == kept
    asked = start_mesh(balls, replace(options, start="stereo"), (FACES, FACES), DressiAD)
    assert asked is not None and asked[0] is lost and asked[1]


def test_a_mesh_that_fits_already_has_no_far_and_no_coarse_rounds():
    mesh, size = bowl(), (48, 48)
    scene, options = scene_of(mesh, size=size), FitOptions(size=size)
    (plan,) = rounds_of(scene, options, mesh, DressiAD)[1]
    assert plan.steps < 60 and plan.pixels == size[1] and plan.weights == {"colours": 1.0} and not plan.faces
    ball = primitives.icosphere(2, 0.5)
    far = rounds_of(scene, options, ball, DressiAD)[1]
    assert far[0].radius[0] == options.radius and sum(plan.steps for plan in far) == 600
