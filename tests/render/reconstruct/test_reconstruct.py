"""From photographs and videos to cameras and the size of the world."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from dressi.errors import InputError
from dressi.render import axis_angle_to_matrix, orbit, primitives, render
from dressi.render.cameras import Cameras, views
from dressi.render.cameras.lens import RollingLens
from dressi.render.cameras.pose import pose_errors
from dressi.render.io import load_image, load_photos, save_image
from dressi.render.io.calibration import encode_cameras, read_calibration, read_motions
from dressi.render.io.lens import Lens
from dressi.render.mesh.queries import SurfaceDistance
from dressi.render.reconstruct import keep
from dressi.render.reconstruct.keep import cure, find_cameras, partial
from dressi.render.reconstruct.motion import (
    Interrupted,
    Models,
    agreement,
    guess_world,
    small_masks,
    triangulate,
)
from dressi.render.reconstruct.pictures import Exif, Picture, choose, chosen_frames, list_pictures, moved
from dressi.render.reconstruct.rolling import Observed, State, adjusted, moving, stepped


def photographs(folder: Path, plain: bool = False) -> Cameras:
    """Five pictures of a textured object that differ by 10 degrees; their cameras."""
    mesh = primitives.bumpy_ellipsoid(5)
    cameras = orbit(*mesh.bounding_sphere(), np.arange(0, 50, 10), np.full(5, 20.0), (240, 180), distance=2.2)
    noise = np.random.default_rng(0).random((len(mesh.positions), 3))
    pictures = render(mesh, cameras, light=None, colours=0 * noise + 0.5 if plain else noise)
    folder.mkdir()
    for number, picture in enumerate(pictures.image):
        save_image(folder / f"{number}.png", np.clip(picture, 0, 1))
    return cameras


def test_what_photographs_say_of_their_camera(tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x0110] = 6, "Phone"
    exif.get_ifd(0x8769)[0xA405] = 26
    for name in "abc":
        Image.fromarray(np.zeros((30, 40, 3), np.uint8)).save(tmp_path / f"{name}.jpg", exif=exif)
    found = list_pictures(tmp_path)
    assert [picture.name for picture in found] == ["a.jpg", "b.jpg", "c.jpg"]
    assert found[0].focal == pytest.approx(26 / 43.27 * 50) and found[0].camera == found[1].camera
    assert found[0].up.tolist() == [-1, 0, 0]
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(InputError, match="has 2 photographs"):
        list_pictures(tmp_path)


def test_alpha_is_the_mask_of_photographs_without_files_of_masks(tmp_path):
    picture = np.ones((30, 40, 4))
    picture[:, :10, 3] = 0
    for name, shown in (("a", picture), ("b", picture[..., :3]), ("c", np.ones((30, 40, 4)))):
        save_image(tmp_path / f"{name}.png", shown)
    transparent, opaque, covering = list_pictures(tmp_path)
    assert transparent.covered is not None and transparent.covered.sum() == 30 * 30
    assert opaque.covered is None and covering.covered is None
    masks = small_masks({"a": transparent})
    assert masks is not None and masks["a"].sum() == 30 * 30 and small_masks({"b": opaque}) is None
    (tmp_path / "mask").mkdir()
    save_image(tmp_path / "mask" / "a.png", np.eye(30, 40))
    covered = list_pictures(tmp_path)[0].covered
    assert covered is not None and covered.sum() == 30


def test_photographs_of_telephones_need_a_reader(tmp_path, monkeypatch):
    path = tmp_path / "a.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 16)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InputError, match=r"pip install 'dressi\[photos\]'"):
        load_image(path)
    monkeypatch.undo()
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(Image.fromarray(np.full((48, 64, 3), 128, np.uint8))).save(path)
    picture = load_image(path, linear=False)
    assert picture.shape == (48, 64, 3) and picture.mean() == pytest.approx(128 / 255, abs=0.02)


@pytest.mark.parametrize(
    ("features", "matches", "words"),
    [(100, 0, "texture"), (2000, 5, "hardly overlap"), (800, 100, "hardly overlap"), (2000, 1000, "moved")],
)
def test_what_helps_is_said(features, matches, words):
    models = Models([], np.full(4, features), np.full((4, 4), matches) * (1 - np.eye(4, dtype=int)))
    assert words in cure(models, [1, 2])


def test_groups_and_missing_photographs_are_told_apart():
    class Group:
        def __init__(self, names: str):
            self.images = dict(enumerate(SimpleNamespace(name=name) for name in names))

    pictures = [Picture(name, Path(name), (4, 3), Exif()) for name in "abcdef"]
    models = Models([Group("abc"), Group("de")], np.full(6, 2000), np.zeros((6, 6), int))
    (said,) = partial(pictures, models)
    assert "3 of 6 photographs" in said and "'d', 'e' show nothing in common" in said
    assert "; and 'f': they show little" in said
    models = Models([Group("abcf"), Group("de")], models.features, models.matches)
    (said,) = partial(pictures, models)
    assert "'d', 'e' show" in said and "they show little" not in said
    assert partial(pictures, Models([Group("abcdef")], models.features, models.matches)) == []


def test_links_out_of_the_folder_are_said(tmp_path):
    (tmp_path / "p").mkdir()
    for name in "abc":
        save_image(tmp_path / f"{name}.png", np.ones((4, 4)))
        (tmp_path / "p" / f"{name}.png").symlink_to(tmp_path / f"{name}.png")
    with pytest.raises(InputError, match=r"a\.png.*outside its folder; copy"):
        list_pictures(tmp_path / "p")


def test_cameras_are_found_and_kept(tmp_path):
    pytest.importorskip("pycolmap")
    cameras = photographs(tmp_path / "p")
    found = find_cameras(tmp_path / "p", tmp_path / "out")
    photos = load_photos(tmp_path / "p", cameras=found.model)
    errors = pose_errors(photos.cameras, cameras)
    assert errors.distances.max() < 0.05 * np.linalg.norm(cameras.centers, axis=1).min()
    assert not found.kept and any("up is y" in note for note in found.notes)
    assert len(photos.points) > 50 and photos.points.times.min() >= 2
    assert not read_motions(found.model)  # these cameras stood still
    assert find_cameras(tmp_path / "p", tmp_path / "out").kept
    # Other photographs are not taken for those.
    save_image(tmp_path / "p" / "0.png", np.ones((180, 240)))
    with pytest.raises(Interrupted):
        find_cameras(tmp_path / "p", tmp_path / "out", stop=lambda: True)


def test_motions_are_kept_in_distances_of_what_is_looked_at(tmp_path, monkeypatch):
    pytest.importorskip("pycolmap")
    photographs(tmp_path / "p")
    once = keep.reconstruct

    def moving_cameras(*given: Any, **named: Any) -> Models:
        models = once(*given, **named)
        return replace(models, motions={name: np.full(6, 0.02) for name in models.names})

    monkeypatch.setattr(keep, "reconstruct", moving_cameras)
    found = find_cameras(tmp_path / "p", tmp_path / "out")
    views, motions = read_calibration(tmp_path / "p", found.model).views, read_motions(found.model)
    assert any("rolling shutter" in note for note in found.notes)
    turns, shifts = np.split(np.stack([motions[view.image.name] for view in views]), 2, axis=1)
    assert (turns == 0.02).all() and all(isinstance(view.lens, RollingLens) for view in views)
    # Not in units of the model: all cameras are about as far away.
    assert shifts.std() < 0.05 * shifts.mean() and not np.allclose(shifts, 0.02)


def test_silhouettes_tell_cameras_that_turn_the_other_way():
    ball = primitives.icosphere(2, 0.5)
    mesh = ball.moved(ball.positions * (1, 0.6, 0.4) + (0.3, 0, 0))
    cameras = orbit(np.zeros(3), 0.8, np.arange(0, 360, 45), np.full(8, 15.0), (32, 24), distance=3)
    drawn = render(mesh, cameras, light=None).image[..., 3].astype(np.float32)
    masks = {f"{k:05d}.png": mask for k, mask in enumerate(drawn)}

    def model(turns: list[np.ndarray]):
        lens = SimpleNamespace(width=320, height=240, calibration_matrix=lambda: enlarged)
        enlarged = np.diag([10.0, 10, 1]) @ cameras[0].intrinsics
        poses = [
            SimpleNamespace(
                rotation=SimpleNamespace(matrix=lambda turn=turn: turn), translation=c.translation
            )
            for turn, c in zip(turns, cameras, strict=True)
        ]
        images = {
            k: SimpleNamespace(name=name, camera_id=0, cam_from_world=lambda pose=pose: pose)
            for k, (name, pose) in enumerate(zip(masks, poses, strict=True))
        }
        return SimpleNamespace(images=images, cameras={0: lens})

    turns = [camera.rotation for camera in cameras]
    assert agreement(model(turns), masks) > 0.9
    backward = [turns[-k % len(turns)] for k in range(len(turns))]
    assert agreement(model(backward), masks) < 0.8
    assert agreement(model(turns), {name: 0 * mask for name, mask in masks.items()}) == 0


def test_an_object_without_texture_is_refused(tmp_path):
    pytest.importorskip("pycolmap")
    photographs(tmp_path / "p", plain=True)
    with pytest.raises(InputError, match=r"only 0 of 5 photographs .* texture"):
        find_cameras(tmp_path / "p", tmp_path / "out")


def test_points_of_known_cameras_lie_on_the_object(tmp_path):
    pytest.importorskip("pycolmap")
    cameras = photographs(tmp_path / "p")
    views = [(f"{i}.png", camera, Lens()) for i, camera in enumerate(cameras)]
    (tmp_path / "p" / "cameras.json").write_bytes(encode_cameras(views))
    found = triangulate(read_calibration(tmp_path / "p"))
    assert len(found) > 50 and found.times.min() >= 2 and found.view.max() == 4
    mesh = primitives.bumpy_ellipsoid(5)
    away = SurfaceDistance(mesh).distances(found.positions)
    assert np.median(away) < 0.01 * mesh.bounding_sphere()[1]


def test_motion_is_seen_by_most_tiles():
    picture = gaussian_filter(np.random.default_rng(0).normal(0, 200, (96, 128)), 1)
    assert moved(picture, np.roll(picture, (3, 4), (0, 1))) == pytest.approx(5)
    assert moved(picture, picture) == 0
    assert moved(np.zeros((96, 128)), np.zeros((96, 128))) == 0


def test_pauses_and_blur_are_passed_over():
    motion = np.concatenate([np.full(50, 0.02), np.zeros(200), np.full(50, 0.02)])
    sharpness = np.where(np.arange(300) % 2, 1.0, 0.2)
    found = choose(sharpness, motion)
    assert 16 <= len(found) <= 60 and (found % 2 == 1).all()
    assert ((found > 52) & (found < 250)).sum() <= 1
    assert len(choose(sharpness, motion / 100)) == 0


def film(path, shift: int, count: int = 30) -> None:
    av = pytest.importorskip("av")
    picture = gaussian_filter(np.random.default_rng(0).normal(128, 200, (64, 400, 3)), (1, 1, 0))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 96, 64, "yuv420p", 2_000_000
        for k in range(count):
            pixels = np.clip(picture[:, shift * k : shift * k + 96], 0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def test_a_video_becomes_photographs(tmp_path):
    film(tmp_path / "a.mp4", 3)
    folder, said = chosen_frames(tmp_path / "a.mp4", tmp_path / "frames")
    found = list_pictures(folder)
    assert 16 <= len(found) <= 30 and f"{len(found)} of 30 frames" in said and found[0].size == (96, 64)
    found[0].path.write_bytes(b"kept")
    chosen_frames(tmp_path / "a.mp4", tmp_path / "frames")
    assert found[0].path.read_bytes() == b"kept"


def test_videos_that_show_nothing_new_are_refused(tmp_path):
    film(tmp_path / "still.mp4", 0)
    with pytest.raises(InputError, match="hardly moves"):
        chosen_frames(tmp_path / "still.mp4", tmp_path / "frames")
    film(tmp_path / "short.mp4", 3, 5)
    with pytest.raises(InputError, match="has 5 frames"):
        chosen_frames(tmp_path / "short.mp4", tmp_path / "frames")
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    with pytest.raises(InputError, match="cannot read the video"):
        chosen_frames(tmp_path / "bad.mp4", tmp_path / "frames")


@pytest.mark.parametrize("ground", [False, True])
def test_the_world_is_put_upright(ground):
    """A ring of cameras that look down at an object, all turned somehow; half of the photographs are stored
    sideways."""
    rng = np.random.default_rng(0)
    cameras = views.orbit(np.zeros(3), 1.0, np.arange(0, 160, 20), np.full(8, 40.0), (32, 24))
    turn = np.asarray(axis_angle_to_matrix(np.array([0.4, 1.0, -0.7])))
    sideways = np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])
    turned = np.where((np.arange(8) % 2)[:, None, None], sideways, np.eye(3))
    ups = np.where((np.arange(8) % 2)[:, None], (-1.0, 0, 0), (0.0, -1, 0))
    points = rng.normal(0, 0.3, (100, 3))
    if ground:
        plane = rng.uniform(-2, 2, (200, 3))
        plane[:, 1] = -0.5 + rng.normal(0, 0.002, 200)
        points = np.concatenate([np.maximum(points, (-9, -0.5, -9)), plane])
    rotations = turned @ np.stack([camera.rotation for camera in cameras]) @ turn.T
    world = guess_world(3 * cameras.centers @ turn.T + 5, rotations, ups, 3 * points @ turn.T + 5)
    assert (world.rotation @ turn)[1] == pytest.approx([0, 1, 0], abs=0.02)
    assert ("ground" in world.said) == ground
    found = world.scale * (3 * points @ turn.T + 5) @ world.rotation.T + world.translation
    assert np.linalg.norm(found - found.mean(0), axis=1).mean() == pytest.approx(
        np.linalg.norm(points - points.mean(0), axis=1).mean(), rel=0.02
    )
    if ground:
        assert np.median(found[100:, 1]) == pytest.approx(0, abs=0.01)


def filmed(rolls: float) -> tuple[State, Observed, Cameras]:
    """Points around a thing that cameras see which walk around it and shake while rows are read, and their true cameras; the
    state is that of cameras that stand still."""
    rng, count = np.random.default_rng(0), 16
    angles = np.cumsum(rng.uniform(15, 25, count))
    cameras = views.orbit(np.zeros(3), 1.0, angles, 20 + 10 * np.sin(angles), (640, 480))
    points = rng.uniform(-1, 1, (300, 3)) * (1.2, 0.8, 1.2)
    motion = rolls * rng.normal(0, (0.004, 0.004, 0.003, 0.002, 0.004, 0.002), (count, 6))
    lens = np.array([[cameras.cameras[0].intrinsics[0, 0], 320.0, 240.0, -0.05]])
    pose = [np.stack([getattr(camera, name) for camera in cameras]) for name in ("rotation", "translation")]
    truth = State(pose[0], pose[1], motion, points, lens)
    view, point = (part.ravel() for part in np.indices((count, len(points))))
    seen = Observed(view, point, 0 * view, np.zeros((len(view), 2)), np.zeros(len(view)), np.arange(count))
    for _ in range(4):
        place = truth.seen(seen)[0] + seen.place
        seen = replace(seen, place=place, time=place[:, 1] / 480 - 0.5)
    inside = (np.abs(seen.time) < 0.5) & (np.abs(place[:, 0] - 320) < 320) & (rng.random(len(view)) < 0.3)
    parts = (part[inside] for part in (seen.view, seen.point, seen.lens, seen.place, seen.time))
    seen = Observed(*parts, seen.number)
    seen = replace(seen, place=seen.place + rng.normal(0, 0.3, seen.place.shape))
    begin = replace(truth, motion=0 * motion, points=points + rng.normal(0, 0.01, points.shape))
    return adjusted(begin, replace(seen, time=0 * seen.time)), seen, cameras


def test_cameras_of_a_rolling_shutter_are_those_of_the_middle_row():
    still, seen, cameras = filmed(1.0)
    found = moving(still, seen)
    assert found is not None

    def off(state):
        poses = zip(cameras, state.R, state.t, strict=True)
        own = Cameras([replace(camera, rotation=turn, translation=t) for camera, turn, t in poses])
        return pose_errors(own, cameras)

    assert off(found).degrees.mean() < 0.75 * off(still).degrees.mean()
    assert off(found).distances.mean() < 0.5 * off(still).distances.mean()
    assert np.median(found.placed(seen)) < 0.7 * np.median(still.placed(seen))
    # A principal point that was found without motions is bent like the rows.
    bent = adjusted(still, replace(seen, time=0 * seen.time), middles=True)
    with_middles, without = moving(bent, seen, middles=True), moving(bent, seen)
    assert with_middles is not None and without is not None
    assert off(with_middles).distances.mean() < 0.9 * off(without).distances.mean()


@pytest.mark.parametrize("upright", [False, True])
def test_a_lens_moves_as_cameras_of_a_rolling_shutter_do(upright):
    """Nearly, of points as far away as what is looked at; the rows of a sensor that is held upright are columns."""
    rng, distance, size = np.random.default_rng(0), 3.0, (480, 640) if upright else (640, 480)
    motion = np.array([0.006, -0.004, 0.005, 0.01, -0.008, 0.006])
    lens = np.array([[600.0, size[0] / 2 + 5, size[1] / 2 - 4, -0.05]])
    points = np.append(rng.uniform(-0.3, 0.3, (200, 2)), np.ones((200, 1)), 1) * distance
    truth = State(np.eye(3)[None], np.zeros((1, 3)), motion[None] * np.repeat([1, distance], 3), points, lens)
    zero, place = np.zeros(200, int), np.zeros((200, 2))
    for _ in range(4):
        time = place[:, 1 - upright] / 480 - 0.5
        place = place + truth.seen(Observed(zero, np.arange(200), zero, place, time, np.zeros(1)))[0]
    k = np.array([[lens[0, 0], 0, lens[0, 1]], [0, lens[0, 0], lens[0, 2]], [0, 0, 1]])
    seen = RollingLens.of(Lens(k1=-0.05), motion, k, size).distort(points[:, :2] / distance)
    still = Lens(k1=-0.05).distort(points[:, :2] / distance)
    off, before = (np.abs(one @ k[:2, :2] + k[:2, 2] - place).max() for one in (seen, still))
    assert off < 0.03 * before and before > 3


def test_cameras_that_stand_still_keep_their_places():
    still, seen, _ = filmed(0.0)
    assert moving(still, seen) is None


def test_derivatives_of_what_moving_cameras_see():
    still, seen, _ = filmed(1.0)
    seen = replace(
        seen, **{name: getattr(seen, name)[:40] for name in ("view", "point", "lens", "place", "time")}
    )
    rng = np.random.default_rng(1)
    state = replace(still, motion=rng.normal(0, 0.01, still.motion.shape))
    _, by_pose, by_point, by_lens = state.seen(seen)
    step, moved = 1e-6 * rng.normal(size=12 * len(state.R) + 4), 1e-6 * rng.normal(size=state.points.shape)
    used = np.arange(len(moved))
    sides = [stepped(state, sign * step, used, sign * moved).seen(seen)[0] for sign in (1, -1)]
    own = step[:-4].reshape(-1, 12)[seen.view]
    slope = (by_pose @ own[..., None] + by_point @ moved[seen.point][..., None])[..., 0] + by_lens @ step[-4:]
    assert (sides[0] - sides[1]) / 2 == pytest.approx(slope, rel=1e-3, abs=1e-6)
