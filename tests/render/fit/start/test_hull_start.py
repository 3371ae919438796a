"""A fit starts from the visual hull of its masks: its topology, what bad masks do to it, and when the sphere is taken."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference import masks_of
from scipy.ndimage import distance_transform_edt

from dressi import DressiAD
from dressi.errors import InputError
from dressi.render.cameras import Cameras
from dressi.render.cameras.views import ring
from dressi.render.fit import Dataset, FitJob, FitOptions, Observations, draw, mesh_dataset, shape_rounds
from dressi.render.fit.start.carved import hull as hull_module
from dressi.render.fit.start.carved.agreement import near_cells
from dressi.render.fit.start.carved.hull import Hull
from dressi.render.fit.start.choice import start_mesh
from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface
from dressi.render.mesh.sampling import SurfaceDistance
from dressi.render.objectives.metrics import iou

SIZE = (64, 64)
FACES = 512


@pytest.fixture(autouse=True)
def coarse_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hull_module, "CELLS", 48)


def both(*meshes: Mesh) -> Mesh:
    counts = np.cumsum([0, *(len(mesh.positions) for mesh in meshes)])
    faces = [mesh.faces + first for mesh, first in zip(meshes, counts[:-1], strict=True)]
    return Mesh(np.concatenate([mesh.positions for mesh in meshes]), np.concatenate(faces))


def scene_of(mesh: Mesh, views: int = 6) -> Dataset:
    """Masks of a mesh inside the unit sphere, and grey pictures."""
    cameras = ring(np.zeros(3), 1.0, views, SIZE)
    masks = masks_of(mesh.positions, mesh.faces, cameras.matrices, SIZE).astype(np.float32)
    return dataset(cameras, masks)


def dataset(cameras: Cameras, masks: np.ndarray, known: np.ndarray | None = None) -> Dataset:
    train = Observations(cameras, masks, masks[..., None] * np.ones(3), known)
    return Dataset(train, None, np.zeros(3), 1.0, np.array([[-1.0] * 3, [1.0] * 3]), np.array([0.0, 1, 0]))


def hull_of(scene: Dataset) -> Hull:
    return Hull.of(scene.matrices, scene.train.masks, scene.train.known)


BALLS = both(
    primitives.icosphere(2, 0.3, (-0.5, 0.0, 0.1)),
    primitives.icosphere(2, 0.25, (0.45, 0.1, -0.2)),
)


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
        np.testing.assert_array_equal(near_cells(cells, distance), expected)


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
    np.testing.assert_allclose(unknown.field, without.field, atol=1e-6)


def test_the_border_of_a_truncated_mask_carves_nothing():
    ball = primitives.icosphere(3, 0.8)
    cameras = ring(np.zeros(3), 1.0, 6, SIZE)
    # The first view shows the left half of the picture only.
    masks = masks_of(ball.positions, ball.faces, cameras.matrices, SIZE).astype(np.float32)
    half = np.zeros_like(masks)
    half[0, :, :32] = masks[0, :, :32]
    half[1:] = masks[1:]
    known = np.ones(masks.shape, bool)
    known[0, :, 32:] = False
    found = hull_of(dataset(cameras, half, known))
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
    assert start is not None and start.uvs is not None and start.component_count() == 2


def test_what_a_single_wrong_mask_shows_is_no_part_of_the_start(balls):
    masks = balls.train.masks.copy()
    masks[1, 2:12, 2:12] = 1
    found = hull_of(dataset(balls.train.cameras, masks))
    assert found.agree and found.wrong == [1] and found.mesh(FACES).component_count() == 2


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
@pytest.mark.vk
def test_two_objects_are_recovered_as_two_also_by_a_resumed_fit(device, tmp_path: Path):
    def make_engine() -> DressiAD:
        return DressiAD(device)

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
