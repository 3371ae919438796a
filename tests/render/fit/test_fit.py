"""The fit of shape and texture: its parts by themselves, batches of views, targets that are hard to see, and
the whole at thumbnail size."""

import json
import re
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reference import disc
from tiny_fits import unit_scene

from dressi import FLOAT, VEC3, DressiAD, InputError, PlanOptions, Variable, optim
from dressi.ad.graph.evaluation import evaluate
from dressi.config import shader_text
from dressi.render import (
    Camera,
    Cameras,
    DirectionalLight,
    Material,
    Mesh,
    Node,
    Scene,
    exp_se3,
    iou,
    load_mesh,
)
from dressi.render.cameras.views import held_out_ring, orbit, ring
from dressi.render.drawing.draw import compare
from dressi.render.fit import FILES, FitJob, FitOptions, FitRound, check_folder, draw, shape_rounds
from dressi.render.fit.advice import Measures, Shift, advice, mirror
from dressi.render.fit.data.dataset import (
    MOST_PIXELS,
    PHOTO_SAMPLES,
    Dataset,
    Observations,
    Parts,
    mesh_dataset,
    photo_dataset,
    planned_dataset,
    regions,
)
from dressi.render.fit.data.directional import REACH, DirectionalColour, bands, mean_directions
from dressi.render.fit.data.learned import ROUNDS, Learned, ViewBatches, round_size
from dressi.render.fit.data.seen import glossy
from dressi.render.fit.graphs.round import Found, start
from dressi.render.fit.options import schedule
from dressi.render.fit.phases.shape import ShapeRound
from dressi.render.fit.phases.texture import PARTS, TextureRound, roughness
from dressi.render.fit.report import HELD_OUT, expected_gains, score, write_losses, write_results
from dressi.render.fit.start.choice import contradicting
from dressi.render.io import Photos
from dressi.render.mesh.primitives import cube, octasphere, pear
from dressi.render.mesh.rows import unit
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.model.records import CPU
from dressi.vk.planning import PlanningEngine

SIZE = (24, 24)
TINY = FitOptions(size=SIZE, views=3, steps=30, texture_size=16, colours=False, joint=False)


# ---------------------------------------------------------------------------- parts


def test_roughness_counts_steps_between_texels():
    image = np.zeros((1, 4, 4, 3))
    image[:, 2:] = 1
    (value,) = evaluate([roughness(Variable(VEC3, (4, 4), data=image))])
    assert value.item() == pytest.approx(4 * 3)


def test_rounds_are_never_larger_than_the_fit():
    assert round_size((256, 256), 128, 6) == (128, 128)
    assert round_size((32, 24), 128, 6) == (32, 24)
    for form, most in (("outer", 1_020_000), ("face", 410_000)):
        width, height = round_size((1000, 500), 500, 100, form)
        assert width * height * 100 < most and abs(width - 2 * height) <= 1
    assert round_size((256, 256), 256, 12) == (256, 256)


@pytest.mark.parametrize("form", ["face", "outer"])
@pytest.mark.parametrize("steps", [1, 2, 7, 600])
def test_rounds_share_all_steps(steps: int, form: str):
    options = FitOptions(steps=steps, form=form)
    rounds = shape_rounds(options)
    assert sum(plan.steps for plan in rounds) == max(steps - options.texture_steps, 1)
    assert all(plan.steps > 0 for plan in rounds)
    assert all(0 < end <= start < 1 for start, end in (plan.radius for plan in rounds))


def test_outlines_are_followed_from_far_to_near():
    options = FitOptions(colours=False)
    assert options.form == "outer"
    rounds = shape_rounds(options)
    starts, ends = zip(*(plan.radius for plan in rounds), strict=True)
    assert starts[0] == options.radius and starts[1:] == ends[:-1]
    assert all(end < start for start, end in zip(starts, ends, strict=True)) and ends[-1] < options.radius / 5
    assert [plan.pixels for plan in rounds] == sorted(plan.pixels for plan in rounds)
    faces = [plan.subdivisions for plan in rounds]
    assert faces == sorted(faces) and faces[0] < faces[-1]


@pytest.mark.parametrize("steps", [20, 100, 600, 5000])
def test_the_first_round_goes_about_one_radius_and_never_fast(steps: int):
    first = shape_rounds(FitOptions(steps=steps, colours=False))[0]
    assert first.rate[1] <= first.rate[0] <= 0.02
    assert first.steps * np.mean(first.rate) < 1.1
    if steps >= 600:
        assert first.steps * np.mean(first.rate) > 0.9 and first.rate[0] < 0.01


def sent_radii(size: tuple[int, int], plan: FitRound, form: str) -> list[float]:
    """The radii that a round gives to its engine."""

    class Recorder:
        def __init__(self) -> None:
            self.sent: list[float] = []

        def send(self, variable: Variable, values: np.ndarray) -> None:
            assert variable is work.radius
            self.sent.append(float(values.item()))

    engine = Recorder()
    masks = np.repeat(disc(size[1], 3)[None], 2, axis=0)
    views = Learned(np.repeat(np.eye(4)[None], 2, axis=0), masks, np.zeros((*masks.shape, 3)), None, None)
    work = ShapeRound(octasphere(0), views, size, plan, form=form)
    for step in range(plan.steps + 1):
        work.before(engine, step)  # pyright: ignore[reportArgumentType]
    return engine.sent


# The outer form stops at three of sixteen pixels.
@pytest.mark.parametrize(("form", "last"), [("face", 0.025), ("outer", 3 / 16)])
def test_the_radius_shrinks_step_by_step(form: str, last: float):
    plan = FitRound(0, 16, 4, (0.4, 0.025), (0.1, 0.1), 1e-5)
    assert_allclose(sent_radii((16, 16), plan, form), 0.4 * (last / 0.4) ** (np.arange(5) / 4))


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"size": (0, 5)}, "size"), ({"views": 0}, "views"), ({"steps": 0}, "steps"), ({"seed": -1}, "seed"),
        ({"seed": 1 << 31}, "seed"), ({"spread": float("nan")}, "spread"), ({"spread": float("inf")}, "spread"),
        ({"radius": float("nan")}, "radius"),
        ({"radius": 0.0}, "radius"), ({"radius": 1.0}, "radius"), ({"peels": 0}, "peels"),
        ({"form": "round"}, "form"),
        ({"texture_size": -1}, "texture"), ({"texture_gradient": "best"}, "exact"), ({"batch": -1}, "batch"),
        ({"spread": -1.0}, "spread"), ({"gloss": True, "directional": False}, "by direction"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(wrong: dict, word: str):
    with pytest.raises(InputError, match=word):
        FitOptions(**wrong)


def test_losses_are_written_exactly(tmp_path: Path):
    write_losses(tmp_path / "loss.csv", [("shape", 0.1), ("texture", 1 / 3)])
    assert (tmp_path / "loss.csv").read_text().split() == [
        "step,phase,loss", "0,shape,0.1", f"1,texture,{1 / 3!r}",
    ]  # fmt: skip


def test_a_sheet_has_three_rows():
    sheet = compare(np.ones((2, 4, 6, 3)), np.zeros((2, 4, 6, 3)), gap=1)
    assert sheet.shape == (14, 13, 3)
    assert sheet[:4, :6].min() == 1 and sheet[5:9, :6].max() == 0 and sheet[10:, :6].min() == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        check_folder(tmp_path / "file")
    check_folder(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []


# ---------------------------------------------------------------------------- the whole


@pytest.fixture
def scene(tiny_fits) -> Dataset:
    assert tiny_fits.options == TINY
    return tiny_fits.scene


def blank_scene(views: int) -> Dataset:
    """A scene for plans: sphere masks from the host."""
    masks = np.repeat(disc(24, 6)[None], views, axis=0)
    return unit_scene(ring(np.zeros(3), 1.0, views, SIZE), masks)


@pytest.mark.parametrize("form", ["face", "outer"])
@pytest.mark.release("face")
def test_the_fit_learns(tiny_fits, form: str):
    result, seen = tiny_fits.whole(form)
    assert result.finished and len(result.losses) == TINY.steps
    shape = [loss for phase, loss in result.losses if phase == "shape"]
    texture = [loss for phase, loss in result.losses if phase == "texture"]
    assert np.isfinite(shape + texture).all()
    assert min(shape) < 0.5 * shape[0] and texture[-1] < texture[0]
    assert seen[-1].done == seen[-1].total == TINY.steps and {p.phase for p in seen} == {"shape", "texture"}
    assert result.mesh.texture is not None and result.mesh.texture.shape == (16, 16, 3)
    assert result.mesh.is_closed() and set(result.plans) == {"shape", "texture"}
    assert result.timing.first_build_ms and result.timing.step_ms
    looks = result.quality
    assert looks[-1].step == TINY.steps and looks[-1].iou == seen[-1].iou > 0.5 and seen[-1].psnr is not None


@pytest.mark.release
@pytest.mark.every_driver
def test_a_short_fit_finds_the_outlines(make_engine):
    small = mesh_dataset(pear(16, 12, 8), 3, (32, 32), make_engine)
    options = FitOptions(size=(32, 32), views=3, steps=80, texture_size=8, colours=False)
    masks, _ = draw(FitJob(small, options, make_engine).run().mesh, small.train.cameras, make_engine)
    assert iou(masks, small.train.masks) > 0.96


def test_a_stopped_fit_goes_on_as_if_it_had_not_stopped(device, tiny_fits, tmp_path: Path):
    """Stopped at the first step of each round of the shape; each time another job goes on."""

    def job(**changes) -> FitJob:
        return FitJob(tiny_fits.scene, replace(TINY, **changes), lambda: DressiAD(device), folder=tmp_path)

    (whole, _), steps = tiny_fits.whole(), [0]
    for stop_after in (1, 2, 2):
        calls = []
        part = job().run(
            resume=steps[-1] > 0, progress=calls.append, stop=lambda n=stop_after, c=calls: len(c) >= n
        )
        assert not part.finished and steps[-1] < len(part.losses) < len(whole.losses)
        steps.append(len(part.losses))
        with pytest.raises(InputError, match="other options"):
            job(seed=5).run(resume=True)
    rest = job().run(resume=True, progress=calls.append)
    assert rest.finished and rest.losses == whole.losses and rest.quality == whole.quality
    assert_array_equal(rest.mesh.positions, whole.mesh.positions)
    assert_array_equal(rest.mesh.texture, whole.mesh.texture)


def test_the_texture_goes_from_small_pictures_to_large_ones(device, tiny_fits, tmp_path: Path, monkeypatch):
    """A fit that is stopped among the large ones goes on as one that is not."""
    monkeypatch.setattr(schedule, "ENOUGH", SIZE[0] * SIZE[1] // 2)
    monkeypatch.setattr(schedule, "FINER", (0.5,))
    options = replace(TINY, steps=240)
    levels = schedule.texture_levels(SIZE, options.texels, options.texture_steps, 10)
    assert [size for size, *_ in levels] == [(SIZE[0] // 2, SIZE[1] // 2), SIZE] and levels[0][1] == 8
    first, calls = levels[0][2], []

    def job(folder: Path | None = None) -> FitJob:
        return FitJob(tiny_fits.scene, options, lambda: DressiAD(device), folder=folder)

    whole = job().run(progress=calls.append)
    doing = [one.doing for one in calls if "texels" in one.doing]
    assert "8 texels" in doing[0] and "16 texels" in doing[-1]
    texture = [loss for phase, loss in whole.losses if phase == "texture"]
    assert len(texture) == options.texture_steps and max(texture[-5:]) < 0.7 * texture[0]
    assert whole.mesh.texture is not None and whole.mesh.texture.shape == (16, 16, 3)
    ends = len(whole.losses) - options.texture_steps + first
    for end in (ends, ends + 1):
        done = []
        part = job(tmp_path).run(progress=done.append, stop=lambda d=done, e=end: bool(d) and d[-1].done >= e)
        assert not part.finished and len(part.losses) >= ends
        rest = job(tmp_path).run(resume=True)
        assert rest.finished and rest.losses == whole.losses
        assert_array_equal(rest.mesh.texture, whole.mesh.texture)


def test_results_are_written_and_replaced(device, make_engine, scene: Dataset, tmp_path: Path):
    result = FitJob(scene, replace(TINY, texture_gradient="inverse_uv"), make_engine).run()
    (tmp_path / "report.json").write_text("old")
    facts = {"name": "d", "driver": "d", "version": "1"}
    report = write_results(
        tmp_path, scene, result, make_engine, device=facts, total_s=lambda: 1.0, baseline=True
    )
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([*FILES, HELD_OUT])
    assert json.loads((tmp_path / "report.json").read_text()) == report
    assert set(report) == {*"device plan time metrics views pictures parts surface hull".split()}
    cameras = scene.held_out.cameras if scene.held_out is not None else []
    for view in report["views"]["heldout"]:
        assert_allclose(view["eye"], cameras[view["view"]].center)
        assert view["fov"] == pytest.approx(45.0)
    assert report["parts"] == {"components": 1, "views": 3, "apart": 0, "result": 1}
    assert set(report["plan"]) == {"substages", "stages", "functions", "shape", "texture"}
    assert set(report["time"]) == {"first_build_ms", "step_ms", "total_s"}
    for views in ("train", "heldout"):
        assert 0 < report["metrics"][views]["iou"] <= 1 and report["metrics"][views]["psnr"] > 0
        assert -1 <= report["metrics"][views]["ssim"] <= 1
        # Gains that are solved for are never worse than none.
        assert report["metrics"][views]["exposed_inside"] >= report["metrics"][views]["inside"] > 0
        names = [camera.name for camera in getattr(scene, views.replace("heldout", "held_out")).cameras]
        assert [one["name"] for one in report["pictures"][views]] == names
    surface = report["surface"]
    assert surface["closed"] and surface["volume"] > 0 and 0 <= surface["self_intersecting"] <= 1
    assert 0 < surface["relative_chamfer"] < 0.2 and surface["inside_out"] < surface["faces"]
    back = load_mesh(tmp_path / "result.glb")
    assert len(back.faces) == len(result.mesh.faces) and back.texture is not None


@pytest.mark.release
def test_a_fit_from_another_mesh_keeps_its_faces(device, scene: Dataset):
    start = octasphere(1, 0.5, (0.0, 0.1, 0.0))
    result = FitJob(scene, replace(TINY, steps=6), lambda: DressiAD(device), init=start).run()
    assert_array_equal(result.mesh.faces, start.faces)
    assert_array_equal(result.mesh.uv_faces, start.uv_faces)


def test_the_plan_does_not_depend_on_the_number_of_views():
    def planning() -> PlanningEngine:
        return PlanningEngine(PROFILES["lavapipe"], CPU, shader_text)

    plans = []
    for views in (1, 6, 12):
        # A single view starts from the sphere in any case, whose rounds are others than those of the hull, and
        # few views have no colours by direction.
        options = replace(TINY, start="sphere", directional=False)
        job = FitJob(blank_scene(views), options, planning)
        job.plan()
        plans.append(job.plans)
    assert plans[1] == plans[2] and set(plans[0]) == {"shape", "texture"}
    for name, one in plans[0].items():
        many = plans[1][name]
        assert one["functions"] == many["functions"]
        # A list of active blocks takes a Stage, which the pixels of one small view do not pay for.
        assert 0 <= many["stages"] - one["stages"] <= 2


def test_pictures_of_a_sphere_are_discs(device):
    mesh = octasphere(4, 1.0)
    mesh.color = (0.5, 0.25, 1.0)
    made = mesh_dataset(mesh, 2, (48, 48), lambda: DressiAD(device))
    # A sphere at 2.7 radii is seen under asin(1 / 2.7); the half field of view is 22.5 degrees.
    radius = 24 * np.tan(np.arcsin(1 / 2.7)) / np.tan(np.radians(22.5))
    expected = disc(48, radius)[None]
    assert iou(made.train.masks, np.repeat(expected, 2, axis=0)) > 0.97
    # The colour of a pixel is that of what covers it, times its share.
    assert_allclose(made.train.colors, made.train.masks[..., None] * mesh.color, atol=1e-6)
    assert len(made.held_out.masks) == 12
    # Partly covered pixels add up to the area; the faces lie a little inside of the sphere.
    area = made.train.masks.sum((1, 2)) / (np.pi * radius**2)
    assert ((area > 0.995) & (area < 1)).all()
    assert set(np.unique(made.train.masks * 16)) == set(range(17))
    hard = mesh_dataset(mesh, 2, (48, 48), lambda: DressiAD(device), 1).train.masks
    assert set(np.unique(hard)) == {0, 1} and iou(hard, made.train.masks) > 0.99


def test_photographs_are_split():
    cameras = held_out_ring(np.zeros(3), 1.0, (8, 8))
    masks = np.ones((12, 8, 8), np.float32)
    images, box = masks[..., None] * np.ones(3), np.array([[-1.0] * 3, [1.0] * 3])
    photos = Photos(images, masks, cameras, tuple("abcdefghijkl"), box)
    made = photo_dataset(photos)
    assert len(made.train.masks) == 9 and len(made.held_out.masks) == 3
    one = Photos(photos.images[:3], masks[:3], cameras[:3], ("a", "b", "c"), photos.bounds)
    assert photo_dataset(one).held_out is None


def test_a_start_that_is_elsewhere_is_moved():
    scene = blank_scene(2)
    near = octasphere(1, 0.6, (0.1, 0.0, 0.0))
    assert_array_equal(scene.placed(near).positions, near.positions)
    with pytest.warns(UserWarning, match="moved and scaled"):
        moved = scene.placed(octasphere(1, 50.0, (7.0, 0.0, 0.0)))
    assert np.abs(moved.positions).max() < 1


def picked(count: int, size: int, steps: int, seed: int = 0) -> np.ndarray:
    """(steps, size): the views of each step."""
    counter = optim.clock()
    batches = ViewBatches(count, size, counter, seed)
    return np.stack([evaluate([batches.index], {counter: [[[t]]]})[0].reshape(-1) for t in range(steps)])


@pytest.mark.parametrize(("count", "size"), [(6, 2), (7, 3), (5, 5), (4, 1)])
def test_views_are_seen_equally_often(count, size):
    views = picked(count, size, 2 * count)
    assert (np.bincount(views.reshape(-1), minlength=count) == 2 * size).all()
    assert_array_equal(views.reshape(-1)[:count], ViewBatches(count, size, optim.clock()).order[:count])
    if count % size == 0:
        assert all(len(set(step)) == size for step in views)
    assert count < 5 or not np.array_equal(views, picked(count, size, 2 * count, seed=1))


def test_the_order_goes_on_after_the_last_permutation():
    counter = optim.clock()
    batches = ViewBatches(3, 2, counter)
    late = evaluate([batches.index], {counter: [[[3 * ROUNDS // 2]]]})[0].reshape(-1)
    assert_array_equal(late, batches.order[:2])


def test_what_views_share_is_not_picked():
    batches = ViewBatches(3, 2, optim.clock())
    shared, own = Variable(FLOAT, (4, 4)), Variable(FLOAT, (4, 4), 3)
    assert batches(shared) is shared and batches(own).batch == 2
    with pytest.raises(InputError, match="1 to 3 of 3"):
        ViewBatches(3, 4, optim.clock())


@pytest.mark.release
@pytest.mark.parametrize(
    "options", [{"batch": 2, "exposure": True}, {"spread": 4.0}], ids=["batch", "spread"]
)
def test_the_fit_learns_from_batches(make_engine, options):
    scene = mesh_dataset(pear(16, 12, 32), 4, SIZE, make_engine)
    result = FitJob(scene, replace(TINY, views=4, steps=20, **options), make_engine).run()
    shape = [loss for phase, loss in result.losses if phase == "shape"]
    assert np.isfinite(shape).all() and min(shape) < 0.6 * shape[0]


def textured(scene: Dataset, target: Mesh, colors: np.ndarray, make_engine, **how) -> Found:
    """What a texture round finds on the target."""
    work = TextureRound(
        scene.to_unit(target), scene.matrices, scene.train.masks, colors, gradient="exact", seed=0, **how
    )
    with closing(make_engine()) as engine:
        start(engine, work)
        engine.step(work.steps)
        return work.found(engine)


def test_texels_get_the_gradient_of_all_pixels(device):
    """Not only of those at outlines, whose lists of pixels other work of the same round runs on."""
    target, found = pear(16, 12, 64), []
    scene = mesh_dataset(target, 2, (96, 96), lambda: DressiAD(device), 1)
    for options in (PlanOptions(), PlanOptions(without=("run_on_active_blocks",))):
        how = {"steps": 1, "texture_size": 64, "shape": True}
        made = textured(
            scene, target, scene.train.colors, lambda o=options: DressiAD(device, options=o), **how
        )
        found.append(made.mesh.texture)
    assert_array_equal(*found)


@pytest.mark.release
def test_exposures_are_found(make_engine):
    target = pear(16, 12, 32)
    scene = mesh_dataset(target, 4, SIZE, make_engine)
    gains = np.array([[0.65, 0.7, 0.75], [1.0, 1.1, 0.9], [1.3, 1.35, 1.25], [1.0, 0.9, 1.05]])
    codes = linear_to_srgb(scene.train.colors)
    colors = srgb_to_linear(codes / codes.max() * 0.7 * gains[:, None, None])
    how = {"steps": 80, "texture_size": 16, "smoothness": 0.0, "exposure": True}
    found = textured(scene, target, colors, make_engine, **how).values["gains"]
    assert_allclose(found, gains / np.exp(np.log(gains).mean(0)), atol=0.08)


def test_colours_by_direction_are_found(make_engine):
    """Of a surface whose light falls from one side of each point to the other, differently from texel to texel, with
    half of that on the next views, which nothing was learned from."""
    target = pear(16, 12, 32)
    scene = mesh_dataset(target, 8, SIZE, make_engine, 1)
    unit_mesh, cameras = scene.to_unit(target), scene.train.cameras
    slopes = np.zeros((9, len(target.positions), 3))
    slopes[[1, 3, 4]] = [[[0.3, 0.1, -0.1]], [[0.0, 0.2, 0.1]], [[0.1, 0.1, 0.1]]]
    mean, _ = mean_directions(unit_mesh, (cameras.centers - scene.center) / scene.radius)
    detail = np.random.default_rng(0).uniform(-0.5, 0.5, (8, 8, 3))
    true, others = DirectionalColour(target.positions, mean, slopes, detail), scene.held_out.cameras
    colors, wanted = (
        draw(target, some, make_engine, shader=true.shader(target))[1] for some in (cameras, others)
    )
    error = []
    for directional in (False, True):
        how = {"steps": 240, "texture_size": 32, "batch": 4, "directional": 16 * directional}
        found = textured(scene, target, colors, make_engine, **how)
        shader = None
        if directional:
            mean, *slopes = found.values["slopes"]
            own = DirectionalColour(target.positions, mean, np.stack(slopes), found.values["detail"])
            shader = own.shader(target)
        shown = draw(replace(target, texture=found.mesh.texture), others, make_engine, shader=shader)[1]
        error.append(np.square(shown - wanted).mean())
    coarse = replace(own, detail=0 * own.detail).shader(target)
    shown = draw(replace(target, texture=found.mesh.texture), others, make_engine, shader=coarse)[1]
    assert error[1] < 0.8 * np.square(shown - wanted).mean(), "texels have slopes of their own"
    alone = draw(replace(target, texture=found.mesh.texture), others, make_engine)[1]
    assert error[1] < 0.5 * error[0] and np.square(alone - wanted).mean() < 1.2 * error[0]


def a_mirror(rng: np.random.Generator, count: int, rows: int = 6) -> dict[str, np.ndarray]:
    """Fields of a ``DirectionalColour`` whose points mirror a lamp in a dark room."""
    mirror = rng.uniform(0.002, 0.004, (rows, 2 * rows, 3))
    mirror[1 : rows // 2, 1:4] = 0.1
    return {"mirror": mirror, "shine": rng.uniform(0.8, 1.2, count)}


def test_what_is_mirrored_is_found(make_engine):
    """By pictures of a thing whose lamp each point shows to few of them."""
    target = pear(16, 12, 32)
    scene = mesh_dataset(target, 12, SIZE, make_engine, 1)
    count, cameras, others = len(target.positions), scene.train.cameras, scene.held_out.cameras
    mean, _ = mean_directions(target, cameras.centers)
    none = DirectionalColour(target.positions, mean, np.zeros((9, count, 3)))
    zero = np.zeros((count, 3))
    true = replace(none, **a_mirror(np.random.default_rng(0), count), glow=zero)
    colors, wanted = (
        draw(target, some, make_engine, shader=true.shader(target))[1] for some in (cameras, others)
    )
    how = {"steps": 240, "texture_size": 32, "batch": 4, "directional": 16, "gloss": True}
    found = textured(scene, target, colors, make_engine, **how)
    mean, *slopes = found.values["slopes"]
    more = {name: found.values[name] for name in ("detail", "mirror", "shine", "glow")}
    own = replace(none, mean=mean, slopes=np.stack(slopes), **more)
    error = []
    for colour in (own, replace(own, mirror=0 * own.mirror)):
        mesh = replace(target, texture=found.mesh.texture)
        shown = draw(mesh, others, make_engine, shader=colour.shader(mesh))[1]
        error.append(np.square(shown - wanted).mean())
    assert error[0] < 0.3 * error[1]


def test_a_glossy_thing_is_told_from_one_whose_points_change_by_themselves(make_engine):
    target, rng = pear(32, 24, 32), np.random.default_rng(0)
    scene, count = mesh_dataset(target, 16, (48, 48), make_engine, 1), len(target.positions)
    mean, _ = mean_directions(target, scene.train.cameras.centers)
    zero = np.zeros((count, 3))
    still = DirectionalColour(target.positions, mean, np.zeros((9, count, 3)), glow=zero)
    slopes = np.zeros((9, count, 3))
    slopes[1:4] = rng.normal(0, 0.05, (3, count, 1))
    told = {}
    for name, fields in (
        ("mirrors", a_mirror(rng, count)), ("slopes", {"slopes": slopes}), ("matt", {})
    ):  # fmt: skip
        shader = replace(still, **fields).shader(target)
        _, colors = draw(target, scene.train.cameras, make_engine, shader=shader)
        colors = np.clip(colors + rng.normal(0, 0.003, colors.shape), 0, 1)
        told[name] = glossy(target, replace(scene.train, colors=colors), make_engine)
    assert told == {"mirrors": True, "slopes": False, "matt": False}


def test_what_is_mirrored_turns_with_the_mesh_and_settles(make_engine, tmp_path):
    target, rng = pear(16, 12, 32), np.random.default_rng(0)
    count, cameras = len(target.positions), ring(np.zeros(3), 1.0, 3, SIZE)
    plain = Mesh(target.positions, target.faces, colors=np.full((count, 3), 0.3), color_faces=target.faces)
    none = DirectionalColour(plain.positions, plain.vertex_normals(), np.zeros((9, count, 3)))
    given = replace(none, **a_mirror(rng, count), glow=rng.uniform(0.0, 0.05, (count, 3)))
    shown = draw(plain, cameras, make_engine, shader=given.shader(plain))[1]
    assert np.ptp(shown[shown > 0]) > 0.2
    turn = exp_se3([0.4, -0.7, 0.2], [0.0, 0.0, 0.0])[:3, :3]
    moved = plain.moved(plain.positions @ turn.T)
    given.turned(moved.positions, turn).save(tmp_path / "turned.npz")
    turned = DirectionalColour.load(tmp_path / "turned.npz")
    seen_from = Cameras([replace(camera, rotation=camera.rotation @ turn.T) for camera in cameras])
    assert_allclose(draw(moved, seen_from, make_engine, shader=turned.shader(moved))[1], shown, atol=2e-3)
    # What is seen in the mean is the same light wherever it is kept.
    eyes, weights = 3 * unit(rng.standard_normal((4, 3))), rng.uniform(size=(4, count))
    weights[:, 0] = 0
    still, usual, _ = given.settled(plain, eyes, weights)
    assert not usual[0].any()
    brighter = replace(plain, colors=plain.colors + usual)
    assert_allclose(draw(brighter, cameras, make_engine, shader=still.shader(brighter))[1], shown, atol=1e-4)
    again, nothing, _ = still.settled(plain, eyes, weights)
    assert_allclose(nothing, 0.0, atol=1e-7)
    assert_allclose(again.glow, still.glow, atol=1e-7)


def test_colours_by_direction_fade_far_from_all_pictures(make_engine):
    target, rng = pear(16, 12, 32), np.random.default_rng(0)
    count, cameras = len(target.positions), ring(np.zeros(3), 1.0, 2, SIZE)
    slopes = np.tile(rng.uniform(0.1, 0.2, (9, 1, 3)), (1, count, 1))
    alone = draw(target, cameras, make_engine)[1]
    added = []
    for spread in (0.8, 0.3, 0.0):  # standard deviation of directions about that to the first camera
        mean = np.tile(np.sqrt(1 - spread**2) * unit(cameras.centers[:1]), (count, 1))
        colour = DirectionalColour(target.positions, mean, slopes)
        assert_allclose(colour.reach, REACH * spread, atol=1e-6)
        shown = draw(target, cameras, make_engine, shader=colour.shader(target))[1]
        added.append(np.abs(shown - alone).max((1, 2, 3)))
    assert (added[0] > 0.1).all(), "both sides are within the reach of most points"
    assert added[1][0] > 0.1 and added[1][1] < 0.05, "the other side is out of reach"
    assert_allclose(added[2], 0.0, atol=1e-6)


def test_a_mirror_in_the_masks_is_named(make_engine):
    thing, rng, x = pear(16, 12, 32), np.random.default_rng(0), 1.1
    patches = np.repeat(rng.random((len(thing.positions) // 4 + 1, 3)), 4, axis=0)[: len(thing.positions)]
    thing = Mesh(thing.positions, thing.faces, colors=patches, color_faces=thing.faces)
    slab = cube(1.0)
    corners = slab.positions / np.abs(slab.positions).max() * [0.03, 0.9, 0.9] + [x + 0.03, 0, 0]
    faces = np.concatenate([thing.faces, slab.faces + len(thing.positions)])

    def both(colours: np.ndarray) -> Mesh:
        positions = np.concatenate([thing.positions, corners])
        return Mesh(positions, faces, colors=np.concatenate([colours, grey]), color_faces=faces)

    grey = np.full((len(corners), 3), 0.3)
    cameras = orbit(np.zeros(3), 1.6, np.arange(10) * 36.0 + 5, np.full(10, 15.0), (96, 72))
    masks, drawn = draw(both(patches), cameras, make_engine)
    # The picture of the slab's side towards the thing is what stands behind it, mirrored.
    shown = draw(both(0 * patches), cameras, make_engine)[1][..., 0] / 0.3
    image = replace(thing, positions=thing.positions * [-1, 1, 1] + [2 * x, 0, 0])
    image = replace(image, faces=image.faces[:, ::-1], color_faces=image.faces[:, ::-1])
    covered, behind = draw(image, cameras, make_engine)
    front = (cameras.centers[:, 0] < x)[:, None, None]
    seen = (shown * front * covered)[..., None]
    views = Observations(cameras, masks, drawn * (1 - seen) + seen * behind)
    found = mirror(both(patches), views, masks, drawn, make_engine)
    assert found is not None and found.decibels > 3 and "is a mirror" in found.text
    noisy = drawn + masks[..., None] * 0.1 * rng.random(drawn.shape)
    assert mirror(both(patches), replace(views, colors=noisy), masks, drawn, make_engine) is None


def test_masks_that_contradict_each_other_are_named():
    measures = Measures(0.85, 14.0, 23.0, 14.0, 23.0, Shift(0.1, 0.0))
    (only,) = advice(measures, measures, 0.0, 20.0, False, ["'a.png'", "'b.png'"])
    assert "'a.png', 'b.png' most" in only.text and only.decibels == 9.0
    assert {one.what for one in advice(measures, measures, 0.0, 20.0, False)} > {"size", "pictures"}
    masks = np.zeros((12, 48, 64), np.float32)
    masks[:, 12:36, 20:44] = 1
    masks[7] = 0
    masks[7, 2:10, 50:60] = 1  # another thing
    train = Observations(ring(np.zeros(3), 1.0, 12, (64, 48)), masks, np.zeros((12, 48, 64, 3)))
    train = replace(
        train, cameras=Cameras([replace(c, name=f"{k}.png") for k, c in enumerate(train.cameras)])
    )
    data = Dataset(train, None, np.zeros(3), 1.0, np.array([[-1.0] * 3, [1.0] * 3]), np.array([0.0, 1, 0]))
    assert contradicting(data) == ["'7.png'"]


def test_colours_by_direction_turn_with_the_mesh(tmp_path):
    rng = np.random.default_rng(0)
    mean, to_eye = rng.standard_normal((2, 5, 3))
    slopes, detail = rng.standard_normal((9, 5, 3)), rng.standard_normal((1, 1, 3))
    given = DirectionalColour(rng.standard_normal((5, 3)), mean, slopes, detail)
    turn = exp_se3([0.4, -0.7, 0.2], [0.0, 0.0, 0.0])[:3, :3]
    turned = given.turned(given.positions @ turn.T, turn)
    turned.save(tmp_path / "turned.npz")
    loaded = DirectionalColour.load(tmp_path / "turned.npz")
    for name, part in vars(turned).items():
        assert_allclose(getattr(loaded, name), part, rtol=1e-3 if name == "detail" else 1e-6)

    def light(colour: DirectionalColour, directions: np.ndarray) -> np.ndarray:
        away = directions - colour.mean
        coarse = sum(band * slope.T for band, slope in zip(bands(*away.T), colour.slopes, strict=True))
        return coarse + away @ colour.detail[0, 0]

    assert_allclose(light(turned, to_eye @ turn.T), light(given, to_eye), atol=1e-10)
    with pytest.raises(InputError, match="holds no colours by direction"):
        DirectionalColour.load(tmp_path / "none.npz")
    eyes, weights = 3 * rng.standard_normal((4, 3)), rng.uniform(size=(4, 5)) * [1, 1, 1, 1, 0]
    mesh = Mesh(given.positions, np.array([[0, 1, 2], [2, 3, 4]]))
    still, usual, moved = given.settled(mesh, eyes, weights)
    usual_light = usual.T + moved @ detail[0, 0]
    assert_allclose(light(still, to_eye) + usual_light, light(given, to_eye), atol=1e-12)
    seen = [light(still, unit(eye - mesh.positions)) for eye in eyes]
    assert_allclose((weights[:, None] * seen).sum(0), 0, atol=1e-12)
    assert not usual[4].any() and usual[:4].all()


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
    assert_allclose(expected_gains(brightness(near), near, above), 1.0, atol=0.05)


def test_the_joint_round_of_photographs_takes_twice_the_steps():
    drawn, options = (
        planned_dataset(pear(16, 12, 32), 3, SIZE),
        FitOptions(size=SIZE, steps=60, start="sphere"),
    )
    for scene, expected in ((drawn, [10, 10]), (replace(drawn, reference=None), [10, 20])):
        jobs = [FitJob(scene, replace(options, joint=joint), lambda: None) for joint in (False, True)]
        assert [job.steps[-1] for job in jobs] == expected


@pytest.mark.release
def test_a_texture_filtered_over_parts_of_pixels_suits_pictures_of_several_samples(make_engine):
    target = pear(16, 12, 64)
    target.texture = np.random.default_rng(0).random((64, 64, 3))
    scene = mesh_dataset(target, 6, SIZE, make_engine, PHOTO_SAMPLES)
    found = []
    for parts in (1.0, PARTS):
        how = {"steps": 60, "texture_size": 64, "parts": parts}
        mesh = scene.to_world(textured(scene, target, scene.train.colors, make_engine, **how).mesh)
        views = scene.train
        found.append(score(views, *draw(mesh, views.cameras, make_engine, views.samples)).psnr)
    assert found[1] > found[0] + 0.3, found


def test_results_are_compared_with_photographs_by_the_area_of_a_pixel(make_engine):
    mesh = pear(16, 12, 64)
    mesh.texture = np.random.default_rng(0).random((64, 64, 3))
    made = mesh_dataset(mesh, 2, SIZE, make_engine).train
    covered = made.masks >= 0.5
    colors = made.colors * (covered / np.maximum(made.masks, 0.5))[..., None]
    photos = replace(
        made, masks=covered.astype(np.float32), colors=colors, samples=PHOTO_SAMPLES, photographed=True
    )
    drawn = (draw(mesh, photos.cameras, make_engine, n) for n in (PHOTO_SAMPLES, 1))
    found, centres = (score(photos, *pictures) for pictures in drawn)
    assert set(np.unique(found.masks)) == {0, 1} and found.iou > 0.97
    assert found.psnr > 30 > centres.psnr


SMALL = (16, 16)


def plate(normal: int) -> Mesh:
    flat = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
    return Mesh(np.insert(flat, normal, 0.0, axis=1), np.array([(0, 1, 2), (0, 2, 3)]), name="plate")


def test_views_that_see_a_plate_edge_on_are_left_out(make_engine):
    lying = mesh_dataset(plate(1), 3, SMALL, make_engine)
    # The level views that judge see it edge-on.
    assert len(lying.train.masks) == 3 and lying.held_out is not None and len(lying.held_out.masks) < 12
    with pytest.warns(UserWarning, match="1 of 3 views, which see it edge-on"):
        standing = mesh_dataset(plate(0), 3, SMALL, make_engine)
    assert (
        len(standing.train.masks) == len(standing.train.cameras) == 2
        and standing.train.masks.any((1, 2)).all()
    )


def test_more_views_of_a_plate_help(make_engine):
    with pytest.raises(InputError, match="edge-on: give --views 6"):
        mesh_dataset(plate(0), 2, SMALL, make_engine)
    with pytest.warns(UserWarning, match="left out"):
        assert mesh_dataset(plate(0), 6, SMALL, make_engine).train.masks.any()


def test_more_pixels_or_thickness_of_a_needle_help(make_engine):
    ball = octasphere(2)
    needle = ball.moved(ball.positions * (1, 0.01, 0.01))
    with pytest.raises(InputError, match=r"use --size \d+") as error:
        mesh_dataset(needle, 2, SMALL, make_engine)
    rows = int(re.findall(r"--size (\d+)", str(error.value))[0])
    assert mesh_dataset(needle, 2, (rows, rows), make_engine).train.masks.any()
    with pytest.raises(InputError, match="thick") as error:
        mesh_dataset(ball.moved(ball.positions * (1, 1e-6, 1e-6)), 2, SMALL, make_engine)
    thick = float(re.findall(r"at least ([\d.e-]+) thick", str(error.value))[0])
    thicker = ball.moved(ball.positions * (1, thick / 2, thick / 2))
    assert mesh_dataset(thicker, 2, SMALL, make_engine).train.masks.any()


def test_units_do_not_matter_until_they_are_named(make_engine):
    mesh = pear(16, 12, 8)
    masks = mesh_dataset(mesh, 2, SMALL, make_engine).train.masks
    for scale in (1e-5, 1e11):
        found = mesh_dataset(mesh.moved(mesh.positions * scale), 2, SMALL, make_engine).train.masks
        assert_array_equal(found, masks)
    for scale in (1e-9, 1e15, 1e30):
        with pytest.raises(InputError, match="scale it to between"):
            mesh_dataset(mesh.moved(mesh.positions * scale), 2, SMALL, make_engine)


def test_pictures_past_all_memory():
    def none():
        raise AssertionError("no engine is needed")

    with pytest.raises(InputError, match="fewer --views"):
        mesh_dataset(pear(16, 12, 8), 10**9, SMALL, none)
    assert MOST_PIXELS >= 1000 * 512 * 512


def test_pictures_of_a_scene_show_the_material_of_each_node(make_engine):
    """Two balls of one shape: a fit of the mesh alone would draw both alike, and a light shines on each as
    its own."""
    place = np.eye(4)
    place[0, 3] = 2.2
    matt, metal = Material(metallic=0.0, roughness=0.9), Material(metallic=1.0, roughness=0.3)
    nodes = [
        Node(replace(octasphere(2), material=matt)),
        Node(replace(octasphere(2), material=metal), None, place),
    ]
    nodes[0].geometry.mesh.color = (0.8, 0.1, 0.1)
    joined = several(octasphere(2), octasphere(2).moved(octasphere(2).positions + place[:3, 3]))
    scene, size = Scene(nodes), (48, 24)
    plain = mesh_dataset(joined, 2, size, make_engine, 16).train
    drawn = mesh_dataset(joined, 2, size, make_engine, 16, None, scene).train
    assert np.abs(drawn.masks - plain.masks).mean() < 0.01
    inside = np.minimum(plain.masks, drawn.masks) > 0.99
    shown = np.unique(drawn.colors[inside].round(2), axis=0)
    assert_allclose(shown, [(0.8, 0.1, 0.1), (1.0, 1.0, 1.0)])
    assert np.unique(plain.colors[inside].round(2), axis=0).tolist() == [[1.0, 1.0, 1.0]]
    sun = mesh_dataset(joined, 2, size, make_engine, 4, DirectionalLight((0, 1, 1)), scene).train
    assert np.abs(sun.colors - drawn.colors)[inside].mean() > 0.1


PARTS_SIZE = (40, 40)


def several(*meshes: Mesh) -> Mesh:
    """One mesh of many, with their UVs."""
    parts, at, uv_at = [], 0, 0
    for mesh in meshes:
        assert mesh.uvs is not None and mesh.uv_faces is not None
        parts.append((mesh.positions, mesh.faces + at, mesh.uvs, mesh.uv_faces + uv_at))
        at, uv_at = at + len(mesh.positions), uv_at + len(mesh.uvs)
    return Mesh(*map(np.concatenate, zip(*parts, strict=True)))  # pyright: ignore[reportArgumentType]


def test_regions_of_a_mask():
    mask = np.zeros((20, 20))
    assert regions(mask) == 0
    mask[5:10, 5:10] = 1
    assert regions(mask) == 1
    mask[12:15, 5:10] = 1
    assert regions(mask) == 2
    mask[11, 10] = mask[10, 10] = 1  # corners connect
    assert regions(mask) == 1
    large = np.zeros((100, 100))
    large[20:80, 20:80] = large[5, 5] = 1
    assert regions(large) == 1


def test_regions_that_leave_the_picture_may_be_connected_there():
    mask = np.zeros((20, 20))
    mask[0:5, 2:6] = mask[0:5, 12:16] = 1
    assert regions(mask) == 1
    mask[10:14, 8:12] = 1
    assert regions(mask) == 2
    known = np.ones((20, 20), bool)
    known[14:] = False
    assert regions(mask, known) == 1


def test_what_is_said():
    assert (
        Parts(1, 6, 3).note() is None and Parts(None, 6, 1).note() is None and Parts(2, 6, 4).note(2) is None
    )
    for note in (Parts(2, 6, 4).note(), Parts(None, 6, 4).note(), Parts(None, 1, 1).note()):
        assert note is not None and "--init" in note and "bridges" in note and "apart in" in note
    note = Parts(5, 6, 0).note()
    assert note is not None and "5 connected components" in note and "around all of them" in note
    assert "--init" not in note


@pytest.mark.release
def test_two_objects_are_said_and_two_spheres_reach_them(make_engine):
    target = several(octasphere(3, 0.4, (-0.6, 0.0, 0.0)), octasphere(3, 0.4, (0.6, 0.2, 0.0)))
    scene = mesh_dataset(target, 4, PARTS_SIZE, make_engine)
    options = FitOptions(size=PARTS_SIZE, views=4, steps=60, texture_size=8, colours=False, joint=False)
    assert Parts.of(scene).components == 2 and Parts.of(scene).apart >= 2
    with pytest.warns(UserWarning, match=r"2 connected components, apart in \d of 4 views"):
        one = FitJob(scene, replace(options, start="sphere"), make_engine).run()
    start = several(octasphere(3, 0.25, (-0.5, 0.1, 0.1)), octasphere(3, 0.25, (0.5, 0.0, -0.1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two = FitJob(scene, options, make_engine, init=start).run()
    found = [iou(draw(r.mesh, scene.train.cameras, make_engine)[0], scene.train.masks) for r in (one, two)]
    assert two.mesh.component_count() == 2 and found[1] > max(found[0], 0.93), found
