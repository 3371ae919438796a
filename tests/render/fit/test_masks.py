"""Masks: made from photographs, cleaned, and common to several pictures."""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.ndimage import binary_dilation, binary_erosion, gaussian_filter

from dressi import DressiAD, InputError
from dressi.render import Camera, Cameras, Mesh, iou, linear_to_srgb, orbit, primitives, render, ring
from dressi.render.fit import draw, ground
from dressi.render.fit.common_masks import (
    Small,
    _confirmed,
    _held,
    _hint,
    _place,
    _spreads,
    bins_of,
    colour_odds,
    common_masks,
    fine_odds,
    sharpened,
)
from dressi.render.fit.data.agreeing import agreeing
from dressi.render.fit.ground import Picture, Plane, differences
from dressi.render.fit.masks import box, clean, difference, has_masks, mask_maker, otsu, threshold
from dressi.render.io import Photos, encode_png, load_photos, read_image, save_image
from dressi.render.io.calibration import Calibration, View, encode_cameras, read_calibration
from dressi.render.io.images import resize
from dressi.render.io.lens import Lens
from dressi.render.mesh.primitives import bowl, cube, octasphere, pear

SIZE = (96, 80)
SCALE = 3
"""The pictures are means of so many pixels each way: their outlines are mixtures, as in photographs."""


@pytest.fixture(scope="module")
def shown(device) -> tuple[np.ndarray, np.ndarray, Cameras]:
    """Coverage (N, H, W) in [0, 1] and premultiplied linear colours of a pear, and the cameras."""
    mesh = pear(24, 16, 64)
    large = ring(*mesh.bounding_sphere(), 4, (SIZE[0] * SCALE, SIZE[1] * SCALE))
    masks, colors = draw(mesh, large, lambda: DressiAD(device))
    cameras = Cameras([camera.resized(SIZE) for camera in large])
    return np.stack([resize(m, SIZE) for m in masks]), np.stack([resize(c, SIZE) for c in colors]), cameras


def picture(
    coverage: np.ndarray, color: np.ndarray, behind: np.ndarray, seed: int, noise: float = 0.01
) -> np.ndarray:
    """Codes (H, W, 3) of the object before a background of linear light, with noise and eight bits."""
    codes = linear_to_srgb(color + (1 - coverage[..., None]) * behind)
    codes = codes + np.random.default_rng(seed).normal(0, noise, codes.shape)
    return (np.round(np.clip(codes, 0, 1) * 255) / 255).astype(np.float32)


def quality(found: np.ndarray, coverage: np.ndarray) -> float:
    return iou(found[None].astype(float), (coverage[None] >= 0.5).astype(float))


def room(seed: int = 3) -> np.ndarray:
    """A background of many colours, (H, W, 3) linear."""
    coarse = np.random.default_rng(seed).uniform(0, 1, (5, 6, 3))
    return resize(coarse, SIZE)


def test_the_difference_to_a_background(shown):
    masks, colors, _ = shown
    behind = room()
    empty = picture(np.zeros(masks[0].shape), np.zeros_like(colors[0]), behind, seed=99)
    for i, (mask, color) in enumerate(zip(masks, colors, strict=True)):
        assert quality(difference(picture(mask, color, behind, i), empty), mask) > 0.98


@pytest.mark.parametrize(
    ("kind", "behind", "tint"),
    [
        ("colour", (0.02, 0.5, 0.05), (1, 1, 1)),
        ("colour", (1.0, 1.0, 1.0), (1, 1, 1)),
        ("colour", (0.0, 0.0, 0.0), (1, 1, 1)),
        ("chroma", (0.02, 0.5, 0.05), (1, 1, 1)),
        ("bright", (0.001, 0.001, 0.001), (1, 20, 20)),
        ("dark", (1.0, 1.0, 1.0), (0.1, 0.1, 0.1)),
        ("saturation", (0.4, 0.4, 0.4), (1.0, 0.05, 0.02)),
    ],
)
def test_thresholds_before_a_plain_background(shown, kind: str, behind, tint):
    masks, colors, _ = shown
    for i, (mask, color) in enumerate(zip(masks, colors, strict=True)):
        found = threshold(picture(mask, np.minimum(color * tint, mask[..., None]), np.array(behind), i), kind)
        assert quality(found, mask) > 0.98, i


def test_chroma_does_not_see_shadows():
    behind = np.broadcast_to(np.array([0.05, 0.6, 0.1]), (80, 96, 3)) * np.linspace(1, 0.3, 96)[:, None]
    y, x = np.mgrid[:80, :96]
    disc = (np.hypot(x - 48, y - 40) < 20).astype(float)
    codes = picture(disc, disc[..., None] * (0.6, 0.2, 0.1), behind, 0, noise=0.003)
    assert quality(threshold(codes, "chroma"), disc) > 0.98


def test_otsu_lies_between_two_heaps():
    random = np.random.default_rng(0)
    values = np.concatenate([random.normal(10, 1, 9000), random.normal(50, 3, 1000)])
    assert 14 < otsu(values) < 42
    assert np.isfinite(otsu(np.ones(5)))


def test_specks_and_small_holes_are_cleaned():
    mask = np.zeros((60, 60), bool)
    mask[10:50, 10:50] = True
    wanted = mask.copy()
    wanted[20:30, 20:30] = False
    dirty = wanted.copy()
    dirty[40:43, 40:43] = False
    dirty[3, 3] = dirty[2:5, 55:58] = True
    assert_array_equal(clean(dirty), wanted)
    two = mask.copy()
    two[:, 28:32] = False
    assert_array_equal(clean(two), two)
    assert not clean(np.zeros((4, 4), bool)).any()


@pytest.mark.parametrize("lens", [Lens(), Lens(k1=-0.2, k2=0.05)])
def test_the_silhouette_of_a_box(lens: Lens):
    camera = ring(np.zeros(3), 1.0, 5, (256, 192)).cameras[1]
    bounds = np.array([[-0.4, -0.3, -0.2], [0.4, 0.3, 0.2]])
    found = np.asarray(box(View(Path("a.png"), None, camera, lens), bounds), bool)
    points = np.random.default_rng(0).uniform(bounds[0], bounds[1], (100_000, 3))
    local = points @ camera.rotation.T + camera.translation
    plane = lens.distort(local[:, :2] / local[:, 2:])
    pixel = np.floor(plane @ camera.intrinsics[:2, :2].T + camera.intrinsics[:2, 2]).astype(int)
    hit = np.zeros((192, 256), bool)
    hit[pixel[:, 1], pixel[:, 0]] = True
    assert not (hit & ~np.asarray(binary_dilation(found, np.ones((3, 3))), bool)).any() and found.sum() > 2000
    assert (binary_erosion(found, iterations=3) & ~hit).sum() < 0.01 * found.sum()


def test_a_camera_in_the_box():
    camera = Camera.pinhole(
        np.diag([50.0, 50.0, 1.0]), np.eye(3), np.zeros(3), (32, 32), pixel_center=0.5, name="a.png"
    )
    with pytest.raises(InputError, match=r"a\.png.*box"):
        box(View(Path("a.png"), None, camera, Lens()), np.array([[-1.0] * 3, [1.0] * 3]))


def photographs(folder: Path, codes: list[np.ndarray], cameras: Cameras, bounds: np.ndarray) -> None:
    folder.mkdir()
    views = []
    for i, (image, camera) in enumerate(zip(codes, cameras, strict=True)):
        # Codes as they are: a plane for each channel would be linear light otherwise.
        (folder / f"p{i}.png").write_bytes(encode_png(srgb(image)))
        k, r, t = (a.tolist() for a in (camera.intrinsics, camera.rotation, camera.translation))
        views.append({"file": f"p{i}.png", "K": k, "R": r, "t": t})
    document = {"pixel_center": 0.5, "bbox": bounds.tolist(), "views": views}
    (folder / "cameras.json").write_text(json.dumps(document))


def srgb(codes: np.ndarray) -> np.ndarray:
    from dressi.render.surface.color import srgb_to_linear

    return srgb_to_linear(codes)


def test_photographs_get_masks(shown, tmp_path: Path):
    masks, colors, cameras = shown
    behind, bounds = room(), pear(24, 16, 8).bounds()
    codes = [picture(m, c, behind, i) for i, (m, c) in enumerate(zip(masks, colors, strict=True))]
    photographs(tmp_path / "photos", codes, cameras, bounds)
    with pytest.raises(InputError) as error:
        load_photos(tmp_path / "photos")
    for way in ("background:", "threshold", "box", "rembg"):
        assert way in str(error.value)
    empty = picture(np.zeros(masks[0].shape), np.zeros_like(colors[0]), behind, seed=99)
    (tmp_path / "empty.png").write_bytes(encode_png(srgb(empty)))
    (tmp_path / "empties").mkdir()
    for i in range(4):
        (tmp_path / "empties" / f"p{i}.png").write_bytes((tmp_path / "empty.png").read_bytes())
    for way in ("empty.png", "empties"):
        made = load_photos(tmp_path / "photos", masks=mask_maker(f"background:{tmp_path / way}"))
        assert iou(made.masks, (masks >= 0.5).astype(float)) > 0.98
    boxes = load_photos(tmp_path / "photos", masks=mask_maker("box", Calibration(tmp_path, bounds=bounds)))
    # The box holds the object, up to pixels of its outline.
    assert (masks * boxes.masks).sum() > 0.98 * masks.sum() and boxes.masks.sum() > masks.sum()
    (tmp_path / "empties" / "p2.png").unlink()
    with pytest.raises(InputError, match=r"p2\.png"):
        load_photos(tmp_path / "photos", masks=mask_maker(f"background:{tmp_path / 'empties'}"))


def test_ways_that_do_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for text in ("", "magic", "threshold:red", "background", "background:", "box:1"):
        with pytest.raises(InputError, match=r"background:FILE.*threshold.*box.*rembg"):
            mask_maker(text)
    with pytest.raises(InputError, match="bbox"):
        mask_maker("box")
    with pytest.raises(InputError, match="none"):
        mask_maker(f"background:{tmp_path / 'none.png'}")
    monkeypatch.setitem(sys.modules, "rembg", None)
    with pytest.raises(InputError, match=r"dressi\[masks\]"):
        mask_maker("rembg")
    (tmp_path / "small.png").write_bytes(encode_png(np.zeros((3, 3, 3))))
    view = View(tmp_path / "a.png", None, ring(np.zeros(3), 1.0, 1, (8, 8)).cameras[0], Lens())
    with pytest.raises(InputError, match="3x3 pixels"):
        mask_maker(f"background:{tmp_path / 'small.png'}")(view, np.zeros((8, 8, 3)))


def test_a_library_makes_masks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A stand-in for the library: what it is called with, what it returns, how it fails."""
    asked: list[object] = []
    disc = np.hypot(*(np.mgrid[:20, :20] - 10)) < 6

    def remove(image: np.ndarray, session: str, only_mask: bool) -> np.ndarray:
        assert image.dtype == np.uint8 and image.shape == (20, 20, 3) and only_mask
        if session == "broken":
            raise RuntimeError("no\nnetwork")
        asked.append(session)
        return (disc * 255).astype(np.uint8)

    fake = types.SimpleNamespace(new_session=lambda model="usual": model, remove=remove)
    monkeypatch.setitem(sys.modules, "rembg", fake)
    view = View(tmp_path / "a.png", None, ring(np.zeros(3), 1.0, 1, (20, 20)).cameras[0], Lens())
    for channels in (1, 3, 4):
        assert_array_equal(mask_maker("rembg")(view, np.zeros((20, 20, channels))), disc)
    mask_maker("rembg:u2netp")(view, np.zeros((20, 20, 3)))
    assert asked == ["usual"] * 3 + ["u2netp"]
    with pytest.raises(InputError, match=r"a\.png.*no network"):
        mask_maker("rembg:broken")(view, np.zeros((20, 20, 3)))


def test_photographs_of_a_statue(data: Path):
    """The dinosaur of Middlebury, bright on black, against masks that were made with care."""
    folder = data / "photos" / "dino"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}")
    found = []
    for path in sorted(folder.glob("dinoSR*.png"))[::5]:
        mask = read_image(folder / "mask_derived" / path.name)[..., 0]
        found.append(quality(threshold(read_image(path)), mask))
    assert min(found) > 0.94 and np.mean(found) > 0.96


def test_a_sphere_on_its_own_colour_is_not_found():
    mesh = octasphere(2)
    assert mesh.color == (1.0, 1.0, 1.0)
    view = View(Path("a.png"), None, ring(np.zeros(3), 1.0, 1, (20, 20)).cameras[0], Lens())
    assert not mask_maker("threshold")(view, np.ones((20, 20, 3), np.float32)).any()


@pytest.fixture(scope="module")
def common_photographs(tmp_path_factory) -> tuple[Path, np.ndarray]:
    """Seven pictures of an object of two colours before a wall of others, without masks; the true masks (N,
    H, W)."""
    folder = tmp_path_factory.mktemp("photographs")
    mesh = primitives.bumpy_ellipsoid(4)
    cameras = orbit(*mesh.bounding_sphere(), np.arange(0, 350, 50), np.full(7, 25.0), (96, 72), distance=4.5)
    lower = mesh.positions[:, 1:2] < mesh.positions[:, 1].mean()
    pictures = render(mesh, cameras, light=None, colours=np.where(lower, (0.5, 0.1, 0.1), (0.6, 0.5, 0.1)))
    noise = np.random.default_rng(0)
    for camera, picture in zip(cameras, pictures.image, strict=True):
        wall = 0.3 + 0.2 * gaussian_filter(noise.normal(0, 4, (72, 96, 1)), (3, 3, 0)) * (0.1, 0.3, 1.0)
        colour = picture[..., :3] * picture[..., 3:] + np.clip(wall, 0, 1) * (1 - picture[..., 3:])
        save_image(folder / f"{camera.name}.png", np.clip(colour + noise.normal(0, 0.01, colour.shape), 0, 1))
    views = [(f"{camera.name}.png", camera, Lens()) for camera in cameras]
    (folder / "cameras.json").write_bytes(encode_cameras(views))
    return folder, np.asarray(pictures.image[..., 3] > 0.5)


def test_the_object_is_found(common_photographs):
    folder, truth = common_photographs
    calibration = read_calibration(folder)
    assert not has_masks(calibration)
    found = mask_maker("auto", calibration)
    masks = np.stack([found(view, np.zeros(0)) for view in calibration.views])
    assert iou(masks.astype(float), truth.astype(float)) > 0.95


def test_dark_parts_before_black_are_told_from_gaps():
    """Of two holes of a mask, one shows the background and the other a part that is not quite as black, which the second picture
    shows before the object. By the usual odds most of it is
    background."""
    rng, view = (
        np.random.default_rng(0),
        View(Path("a.png"), None, Camera.perspective(40, (64, 64), (0, 0, 4), (0, 0, 0)), Lens()),
    )
    mask, gap, part = (np.zeros((64, 64), bool) for _ in range(3))
    mask[12:52, 12:52], gap[20:28, 20:28], part[34:44, 20:44] = True, True, True
    colour = np.zeros((64, 64, 3))
    colour[mask] = (60, 10, 40) + rng.normal(0, 3, (mask.sum(), 3))
    colour[part] = (2, 0, 0) + rng.uniform(0, 2, (part.sum(), 1)) * (1, 0, 0)
    colour[gap] = 0
    smalls = [Small(view, colour, bins_of(colour), np.zeros(0, int), np.zeros(0, bool))] * 2
    # Odds that spread from around a hole make it unsure.
    shares = [share.ravel() for share in (np.where(part, 0.4, mask & ~gap), np.where(gap, 0.0, mask))]
    usual, fine = (
        [odds.reshape(64, 64) > 0 for odds in of(smalls, shares)] for of in (colour_odds, fine_odds)
    )
    assert_array_equal(fine, [mask & ~gap] * 2)
    assert usual[0][part].mean() < 0.25


def seen_small(cells: np.ndarray, wide: int) -> Small:
    """A grey picture of 64x64 with cells at flat indices of its pixels."""
    view = View(Path("a.png"), None, Camera.perspective(40, (64, 64), (0, 0, 4), (0, 0, 0)), Lens())
    colour = np.zeros((64, 64, 3))
    return Small(view, colour, bins_of(colour), cells, np.ones(len(cells), bool), wide)


def test_a_limb_narrower_than_cells_may_be_object():
    """A line of a pixel passes beside the middles of two cells of three; one picture of nine lacks it, or two do."""
    small = seen_small(np.array([10 * 64 + 20, 40 * 64 + 50, 50 * 64 + 20]), 4)
    line = np.zeros((64, 64))
    line[:, 22] = 1
    for lacking, expected in ((1, [True, False, True]), (2, [False, False, False])):
        shares = [line.ravel()] * (9 - lacking) + [np.zeros(64 * 64)] * lacking
        agreed, possible, seen = _held([small] * 9, shares)
        assert_array_equal(possible, expected)
        assert not agreed.any() and (seen == 1).all()
    blind = replace(small, sees=np.array([True, False, True]))
    assert_array_equal(_held([small, small, blind, blind], [line.ravel()] * 4)[2], [1, 0.5, 1])
    odds = _hint(small, np.zeros(3, bool), np.array([True, False, False])).reshape(64, 64)
    assert odds[10, 20] == 0 and odds[40, 50] < 0


def test_a_part_that_other_pictures_show_is_kept():
    """Of two small parts beside the body, cells that are held for object lie before one."""
    body, leaf, other = (np.zeros((64, 64), bool) for _ in range(3))
    body[20:50, 10:50], leaf[4:9, 20:25], other[4:9, 40:45] = True, True, True
    small = seen_small(np.flatnonzero(leaf | other), 1)
    held = leaf.reshape(-1)[small.cells]
    share = (body | leaf | other).astype(float).ravel()
    assert_array_equal(_confirmed(small, share, held).reshape(64, 64) > 0.5, body | leaf)
    nothing = np.zeros(64 * 64)
    assert_array_equal(_confirmed(small, nothing, held), nothing)


def test_a_lens_moves_what_is_compared(common_photographs):
    folder, _ = common_photographs
    calibration = read_calibration(folder)
    view = calibration.views[0]
    points = np.array([[0.9, 0.5, 0.3]])
    straight, seen = _place(view, (72, 96), points)
    pixel, _ = view.camera.project(points)
    assert seen.all() and straight[0] == int(pixel[0, 1]) * 96 + int(pixel[0, 0])
    bent, _ = _place(replace(view, lens=Lens(k1=5.0)), (72, 96), points)
    assert bent[0] != straight[0]


def test_what_cannot_be_found_is_said(common_photographs):
    folder, _ = common_photographs
    calibration = read_calibration(folder)
    calibration.views = calibration.views[:2]
    with pytest.raises(InputError, match="3 photographs or more; give --masks"):
        common_masks(calibration)


def test_the_foot_of_an_object_is_no_ground():
    rng = np.random.default_rng(0)
    standing = rng.uniform((-1, 0.1, -1), (1, 2, 1), (200, 3))
    plane = rng.uniform((-1, 0, -1), (1, 0, 1), (200, 3))
    near = np.ones(400, bool)
    for wide, expected in ((1.2, False), (5.0, True)):
        points = np.concatenate([standing, plane * wide])
        assert _spreads(points, near, np.array([0.0, 1, 0]), 0.0, 0.02) == expected


def test_a_thing_of_thin_limbs_belongs_in_all_its_photographs():
    """From the side, pictures show hardly anything but its limbs."""
    seat, limb = (cube().positions * size for size in ((0.45, 0.03, 0.45), (0.012, 0.5, 0.012)))
    feet = [(x, -0.5, z) for x in (-0.4, 0.4) for z in (-0.4, 0.4)]
    parts = [seat, *(limb + at for at in (*feet, *((x, 0.5, -0.4) for x in np.linspace(-0.4, 0.4, 5))))]
    faces = np.concatenate([cube().faces + k * len(seat) for k in range(len(parts))])
    chair = Mesh(np.concatenate(parts), faces)
    angles, low = np.append(np.arange(12) * 30.0, (5, 35, 95, 125)), np.arange(16) > 11
    cameras = orbit(np.zeros(3), 1.2, angles, np.where(low, 3.0, 55.0), (160, 120))
    masks = render(chair, cameras, light=None, outputs=("mask",)).mask
    names = tuple(f"{k}.png" for k in range(16))
    images = np.repeat(masks[..., None], 3, 3).astype(np.float32)
    found = agreeing(Photos(images, masks, cameras, names, chair.bounds()))
    assert found.names == names and not found.notes


def test_photographs_that_do_not_belong_are_left_out_and_exposures_brought_together():
    duck, stick = bowl(3), cube()
    stick.positions = stick.positions * (0.15, 1.0, 0.15)
    cameras = ring(np.zeros(3), 1.2, 12, (48, 36))
    pictures, strange = (
        render(mesh, cameras, colours=0.5 + 0.2 * mesh.positions, light=None) for mesh in (duck, stick)
    )
    names = tuple(f"{k}.png" for k in range(12))
    good = Photos(pictures.colour, pictures.mask, cameras, names, np.array([[-1.0] * 3, [1.0] * 3]))
    same = agreeing(good)
    assert same.names == names and not same.notes and same.images is good.images
    images, masks = good.images.copy(), good.masks.copy()
    for k in (2, 7):
        images[k], masks[k] = strange.colour[k], strange.mask[k]
    found = agreeing(replace(good, images=images, masks=masks))
    assert found.names == tuple(name for k, name in enumerate(names) if k not in (2, 7))
    assert len(found.cameras) == len(found.images) == 10 and "'2.png', '7.png'" in found.notes[0]
    dark = good.images.copy()
    dark[[1, 4, 5]] /= 8
    found = agreeing(replace(good, images=dark))
    assert "'1.png', '4.png', '5.png' are" in found.notes[0] and "times as dark" in found.notes[0]
    ratio = found.images[masks > 0.5].mean() / good.images[masks > 0.5].mean()
    assert len(found.names) == 12 and abs(ratio - 1) < 0.05


@pytest.mark.parametrize("many", [50, 4])
def test_what_stands_on_the_ground_differs_from_it_in_its_own_colours(many: int, monkeypatch):
    """A bar shows in each picture another place of the ground. Exposures differ; one place has another colour in each picture,
    and one is never seen free of the object."""
    rng = np.random.default_rng(0)
    texture = np.stack([gaussian_filter(rng.normal(size=(200, 200)), 4, mode="wrap") for _ in range(3)], -1)
    texture = 0.3 + 0.1 * texture / texture.std()
    cameras = orbit(np.zeros(3), 1.0, np.arange(0, 360, 40), np.full(9, 40.0), (160, 120))
    bars, pictures, shiny, hidden = np.zeros((9, 120, 160), bool), [], [], []
    for number, camera in enumerate(cameras):
        bar, rays = bars[number], camera.rays()[1]
        bar[40:60, 20 + 12 * number : 44 + 12 * number] = True
        met = camera.center + rays * ((-0.1 - camera.center[1]) / rays[..., 1])[..., None]
        place = np.where(bar[..., None], met + (0.9 + 0.1 * number, 0, 0.4), met)
        row, column = np.moveaxis(np.floor(40 * place[..., [0, 2]]).astype(int) % 200, -1, 0)
        linear = np.clip(texture[row, column], 0, 1)
        shiny.append(np.linalg.norm(met - (0.6, -0.1, 0), axis=-1) < 0.12)
        hidden.append(np.linalg.norm(met - (-0.6, -0.1, 0), axis=-1) < 0.12)
        linear[shiny[-1]] = rng.uniform(0, 0.8, 3)
        pictures.append(Picture(camera, linear * (0.8 + 0.04 * number, 0.9, 1.0), ~hidden[-1]))
    monkeypatch.setattr(ground, "MANY", many)
    found = differences(pictures, Plane.of(np.array([0.0, 1, 0]), -0.1, np.zeros(3), 0.8))
    standing, doubted = [], []
    for one, bar, light, secret in zip(found, bars, shiny, hidden, strict=True):
        away, near = one.away.reshape(bar.shape), one.near.reshape(bar.shape)
        told = one.told(np.full(bar.size, -2.0), 3.0).reshape(bar.shape)
        plain = near & ~secret & ~binary_dilation(bar | light, iterations=2)
        standing.append((told[bar & near & ~light & ~secret] > 0).mean())
        assert np.nanmean(told[plain] > 0) < 0.01 and np.nanmedian(away[plain]) < 1
        doubted.append((told[light & ~bar] > 0).mean())
        middle = binary_erosion(secret, iterations=3)
        assert np.isnan(away[middle]).all() and (told[middle] == -2).all()
    assert np.mean(standing) > 0.7 and np.mean(doubted) < 0.3


def test_outlines_go_by_the_background_where_it_is_known():
    """A disc with a mixed rim before a background of noise, of which the right half is not known; the mask is a pixel too wide."""
    y, x = np.mgrid[:80, :80] + 0.5
    cover = np.clip(20.5 - np.hypot(x - 40.2, y - 39.7), 0, 1)[..., None]
    behind = np.random.default_rng(0).uniform(0, 0.8, (80, 80, 3))
    codes = linear_to_srgb(cover * (0.9, 0.5, 0.1) + (1 - cover) * behind)
    truth, left = cover[..., 0] >= 0.5, x < 40
    known = np.where(left[..., None], linear_to_srgb(behind), np.nan)
    wide = binary_dilation(truth)
    without, found = sharpened(codes, wide), sharpened(codes, wide, known)
    assert_array_equal(found[~left], without[~left])
    assert_array_equal(found[left], truth[left])
    assert (without != truth)[left].sum() > 5
