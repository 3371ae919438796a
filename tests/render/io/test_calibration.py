"""Ways to write a calibration, lenses, mixed sizes, and views that say little."""

import json
import shutil
import struct
from dataclasses import replace

import numpy as np
import pytest
from reference import images_of
from scipy.ndimage import binary_erosion
from test_photos import SIZE, edit, write_cameras, write_transforms

from dressi.errors import InputError
from dressi.render.cameras import Camera, Cameras, views
from dressi.render.io import load_photos, save_png
from dressi.render.io.colmap import rotation_of
from dressi.render.io.images import resize
from dressi.render.io.lens import Lens, Undistortion
from dressi.render.mesh import primitives
from dressi.render.objectives.metrics import iou


@pytest.fixture(scope="module")
def scene():
    """Five pictures of an object off the middle of the world, by cameras whose principal points are off the middle."""
    mesh = primitives.bumpy_ellipsoid(2)
    mesh.texture = np.random.default_rng(0).random((4, 4, 3))
    mesh.positions = mesh.positions + (0.2, 0.1, -0.3)
    off = np.array([[0, 0, 3.0], [0, 0, -2.0], [0, 0, 0]])
    ring = views.ring(*mesh.bounding_sphere(), 5, SIZE)
    cameras = Cameras([replace(camera, intrinsics=camera.intrinsics + off) for camera in ring])
    return mesh, cameras, *images_of(mesh, cameras.matrices, SIZE)


def quaternion(rotation: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(rotation).as_quat()[[3, 0, 1, 2]]


def write_colmap(folder, scene, binary, model="OPENCV", place="sparse/0", lens=(0.0, 0.0, 0.0, 0.0)):
    """A model with one camera, and points on the object."""
    write_cameras(folder, scene, "masks", "images")
    (folder / "cameras.json").unlink()
    mesh, cameras, *_ = scene
    where = folder / place
    where.mkdir(parents=True, exist_ok=True)
    k = cameras[0].intrinsics
    fx, fy, cx, cy = k[0, 0], k[1, 1], k[0, 2], k[1, 2]
    number, values = {
        "SIMPLE_PINHOLE": (0, [fx, cx, cy]),
        "PINHOLE": (1, [fx, fy, cx, cy]),
        "SIMPLE_RADIAL": (2, [fx, cx, cy, lens[0]]),
        "RADIAL": (3, [fx, cx, cy, *lens[:2]]),
        "OPENCV": (4, [fx, fy, cx, cy, *lens]),
        "FOV": (7, [fx, fy, cx, cy, 0.5]),
    }[model]
    if binary:
        data = struct.pack("<QIiQQ", 1, 7, number, *SIZE) + struct.pack(f"<{len(values)}d", *values)
        (where / "cameras.bin").write_bytes(data)
        images = [struct.pack("<Q", len(cameras))]
        for i, camera in enumerate(cameras):
            pose = (*quaternion(camera.rotation), *camera.translation)
            images.append(struct.pack("<I7dI", i + 1, *pose, 7) + f"{i:03}.png\0".encode())
            images.append(struct.pack("<Q", i) + struct.pack("<ddq", 1.5, 2.5, -1) * i)
        (where / "images.bin").write_bytes(b"".join(images))
        points = [struct.pack("<Q", len(mesh.positions))]
        for i, position in enumerate(mesh.positions):
            points.append(
                struct.pack("<Q3d3BdQ", i, *position, 1, 2, 3, 0.5, 2) + struct.pack("<4I", 1, 0, 2, 0)
            )
        (where / "points3D.bin").write_bytes(b"".join(points))
        return folder
    (where / "cameras.txt").write_text(
        f"# cameras\n7 {model} {SIZE[0]} {SIZE[1]} {' '.join(map(repr, map(float, values)))}\n"
    )
    lines = ["# images, two lines each"]
    for i, camera in enumerate(cameras):
        pose = " ".join(repr(float(v)) for v in (*quaternion(camera.rotation), *camera.translation))
        lines += [f"{i + 1} {pose} 7 {i:03}.png", "1.5 2.5 -1" if i % 2 else ""]
    (where / "images.txt").write_text("\n".join(lines) + "\n")
    points = [f"{i} {' '.join(map(str, p))} 1 2 3 0.5 1 0 2 0" for i, p in enumerate(mesh.positions)]
    (where / "points3D.txt").write_text("\n".join(["# points", *points]))
    return folder


@pytest.mark.parametrize(
    ("model", "binary", "place"),
    [
        ("SIMPLE_PINHOLE", True, "sparse/0"), ("SIMPLE_PINHOLE", False, "sparse/0"), ("PINHOLE", True, "colmap"),
        ("PINHOLE", False, "."), ("SIMPLE_RADIAL", True, "."), ("RADIAL", False, "sparse"),
        ("OPENCV", True, "sparse/0"), ("OPENCV", False, "colmap/sparse/0"),
    ],
)  # fmt: skip
def test_a_colmap_model_gives_back_the_scene(tmp_path, scene, model, binary, place):
    mesh, cameras, images, masks = scene
    photos = load_photos(write_colmap(tmp_path / "p", scene, binary, model, place))
    assert photos.names == tuple(f"{i:03}.png" for i in range(5)) and photos.known is None
    np.testing.assert_array_equal(photos.masks, masks)
    np.testing.assert_allclose(photos.targets, images, atol=0.01)
    for found, true in zip(photos.cameras, cameras, strict=True):
        np.testing.assert_allclose(found.intrinsics, true.intrinsics, atol=1e-9)
        np.testing.assert_allclose(found.view, true.view, atol=1e-9)
    np.testing.assert_allclose(photos.points.positions, mesh.positions)
    # The first two pictures see each point.
    assert len(photos.points.seen_by(1)) == len(mesh.positions) and set(photos.points.times) == {2}


@pytest.mark.parametrize(
    ("binary", "damage", "words"),
    [
        (False, lambda f: swap(f / "cameras.txt", "OPENCV", "FOV"), "FOV is not supported.*RADIAL"),
        (False, lambda f: swap(f / "cameras.txt", "OPENCV", "PINHOLE"), "PINHOLE has 4 parameters, not 8"),
        (False, lambda f: swap(f / "cameras.txt", "7 O", "8 O"), "camera 7.*not in 'cameras.txt'"),
        (False, lambda f: swap(f / "images.txt", " 7 000.png", ""), "is no image"),
        (False, lambda f: swap(f / "images.txt", "000.png", "../../x.png"), "outside its folder"),
        (False, lambda f: swap(f / "cameras.txt", "48", "x"), "cameras cannot be used"),
        (True, lambda f: cut(f / "cameras.bin", 40), "ends too early"),
        (True, lambda f: cut(f / "images.bin", 300), "ends too early"),
        (True, lambda f: swap(f / "images.bin", "000.png\0", "000.png."), "images.bin' (ends|:)"),
        (True, lambda f: count(f / "images.bin"), "ends too early"),
        (True, lambda f: count(f / "cameras.bin"), "ends too early"),
    ],
)
def test_damaged_models_are_refused(tmp_path, scene, binary, damage, words):
    folder = write_colmap(tmp_path / "p", scene, binary)
    damage(folder / "sparse" / "0")
    with pytest.raises(InputError, match=words) as caught:
        load_photos(folder)
    assert "\n" not in str(caught.value)


def swap(path, old, new):
    data = path.read_bytes()
    assert old.encode() in data
    path.write_bytes(data.replace(old.encode(), new.encode(), 1))


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def count(path):
    """A number of records that no memory would hold."""
    path.write_bytes(struct.pack("<Q", 2**62) + path.read_bytes()[8:])


def test_binary_models_of_unsupported_cameras_name_them(tmp_path, scene):
    with pytest.raises(InputError, match="FOV is not supported"):
        load_photos(write_colmap(tmp_path / "p", scene, True, "FOV"))


def test_quaternions_are_rotations():
    half = np.sqrt(0.5)
    np.testing.assert_allclose(
        rotation_of((half, 0, 0, half)), [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15
    )
    with pytest.raises(InputError, match="no rotation"):
        rotation_of((0, 0, 0, 0))


# ---------------------------------------------------------------------------- lenses


LENS = Lens(-0.2, 0.05, 0.002, -0.003, 0.01)


def test_the_lens_is_that_of_opencv():
    x, y, r2 = 0.3, -0.2, 0.13
    radial = 1 - 0.2 * r2 + 0.05 * r2**2 + 0.01 * r2**3
    expected = [
        x * radial + 2 * 0.002 * x * y - 0.003 * (r2 + 2 * x * x),
        y * radial + 0.002 * (r2 + 2 * y * y) - 2 * 0.003 * x * y,
    ]
    np.testing.assert_allclose(LENS.distort(np.array([x, y])), expected)
    assert not Lens() and LENS and Lens().reach == float("inf")
    assert Lens(k1=-1 / 3).reach == pytest.approx(1.0)  # r - r^3 / 3 turns around at 1
    with pytest.raises(InputError, match="finite"):
        Lens(k1=float("nan"))


def photograph(camera: Camera, lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """A smooth picture of the plane at depth 1: as the lens shows it, and as it is without it."""

    def pattern(plane: np.ndarray) -> np.ndarray:
        return 0.5 + 0.25 * np.sin(6 * plane[..., 0]) + 0.2 * np.cos(5 * plane[..., 1])

    width, height = camera.size
    pixels = np.stack(
        [*np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), np.ones((height, width))], -1
    )
    plane = (pixels @ np.linalg.inv(camera.intrinsics).T)[..., :2]
    true = plane.copy()
    for _ in range(50):  # the inverse of the lens, by iteration
        true += plane - lens.distort(true)
    return pattern(true), pattern(plane)


@pytest.mark.parametrize("lens", [LENS, Lens(k1=0.15), Lens(k2=-0.1, p1=0.01)])
def test_distortion_is_undone(lens):
    camera = Camera(np.array([[60.0, 0, 33], [0, 62, 22], [0, 0, 1]]), np.eye(3), np.zeros(3), (64, 48))
    seen, expected = photograph(camera, lens)
    undo = Undistortion.of(camera, lens)
    assert 0.8 < undo.inside.mean() <= 1
    # Beyond the outermost centres the nearest pixel is shown.
    np.testing.assert_allclose(undo(seen)[undo.inside], expected[undo.inside], atol=0.015)
    within = binary_erosion(undo.inside, np.ones((3, 3)), border_value=0)
    np.testing.assert_allclose(undo(seen)[within], expected[within], atol=2e-3)
    assert np.abs(undo(seen) - seen)[within].max() > 0.02
    assert (undo(seen)[~undo.inside] == 0).all()


def distorted(folder, scene, lens):
    """Replace the folder's pictures by what a lens would have shown of the scene, drawn at four times the size."""
    mesh, cameras, *_ = scene
    large = (4 * SIZE[0], 4 * SIZE[1])
    fine, fine_masks = images_of(mesh, cameras.resized(large).matrices, large)
    for i, camera in enumerate(cameras):
        x, y = np.meshgrid(np.arange(large[0]) + 0.5, np.arange(large[1]) + 0.5)
        big = camera.resized(large)
        plane = (np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(big.intrinsics).T)[..., :2]
        true = plane.copy()
        for _ in range(50):
            true += plane - lens.distort(true)
        at = np.floor(true @ big.intrinsics[:2, :2].T + big.intrinsics[:2, 2]).astype(int)
        at = np.clip(at[..., 1], 0, large[1] - 1), np.clip(at[..., 0], 0, large[0] - 1)
        save_png(folder / "images" / f"{i:03}.png", resize(fine[i][at], SIZE))
        save_png(folder / "masks" / f"{i:03}.png", resize(fine_masks[i][at].astype(float), SIZE))


def test_photographs_come_without_their_lens(tmp_path, scene):
    lens = Lens(0.4, 0.0, 0.02, -0.01)
    folder = write_colmap(tmp_path / "p", scene, True, lens=(0.4, 0.0, 0.02, -0.01))
    distorted(folder, scene, lens)
    photos = load_photos(folder)
    _, _, images, masks = scene
    straight = iou(photos.masks, masks)
    assert straight > 0.96
    assert photos.known is not None and 0 < (~photos.known).mean() < 0.2
    assert photos.images[~photos.known].max() == 0 == photos.masks[~photos.known].max()
    both = (photos.masks > 0) & (masks > 0)
    assert np.abs(photos.images - images)[both].mean() < 0.03
    shutil.rmtree(folder)
    folder = write_colmap(tmp_path / "p", scene, True)  # the same pictures, taken for undistorted
    distorted(folder, scene, lens)
    assert iou(load_photos(folder).masks, masks) < straight - 0.03


def test_lenses_of_json_documents(tmp_path, scene):
    folder = write_transforms(tmp_path / "t", scene)
    path = folder / "transforms_train.json"
    document = json.loads(path.read_text())
    document["frames"][0]["k1"] = 0.1
    path.write_text(json.dumps(document))
    photos = load_photos(folder)
    assert photos.known is not None and not photos.known[0].all() and photos.known[1:].all()
    for key, words in (("k4", "k4"), ("is_fisheye", "OPENCV_FISHEYE is not supported")):
        path.write_text(json.dumps(document | {key: 1}))
        with pytest.raises(InputError, match=words):
            load_photos(folder)
    path.write_text(json.dumps(document | {"camera_model": "EQUIRECTANGULAR"}))
    with pytest.raises(InputError, match="EQUIRECTANGULAR is not supported"):
        load_photos(folder)


def test_frames_may_have_their_own_intrinsics(tmp_path, scene):
    folder = write_transforms(tmp_path / "t", scene, "transforms.json")
    path = folder / "transforms.json"
    document = json.loads(path.read_text())
    document["w"], document["h"] = SIZE
    for i, frame in enumerate(document["frames"]):
        frame.update(fl_x=50.0 + i, fl_y=40.0, cx=20.0, cy=21.0)
    path.write_text(json.dumps(document))
    for i, camera in enumerate(load_photos(folder).cameras):
        np.testing.assert_allclose(camera.intrinsics, [[50 + i, 0, 20], [0, 40, 21], [0, 0, 1]])


# ---------------------------------------------------------------------------- sizes and single views


def test_photographs_of_two_sizes_are_padded(tmp_path, scene):
    mesh, cameras, *_ = scene
    folder = write_cameras(tmp_path / "p", scene)
    edit(folder, lambda d: (d.pop("width"), d.pop("height")))
    other = (30, 36)
    narrow = replace(cameras[2], size=other)
    picture, mask = images_of(mesh, Cameras([narrow]).matrices, other)
    save_png(folder / "image" / "002.png", picture[0])
    save_png(folder / "mask" / "002.png", mask[0])
    photos = load_photos(folder)
    assert photos.cameras.size == SIZE and photos.known is not None
    expected = np.ones((5, 36, 48), bool)
    expected[2, :, 30:] = False
    np.testing.assert_array_equal(photos.known, expected)
    np.testing.assert_allclose(photos.cameras[2].intrinsics, narrow.intrinsics, atol=1e-9)
    np.testing.assert_array_equal(photos.masks, scene[3] * expected)
    # Shrunk, each keeps its proportions.
    small = load_photos(folder, (24, 18))
    assert small.known is not None and small.known[2, :, :15].all() and not small.known[2, :, 15:].any()
    _, whole = images_of(mesh, small.cameras.matrices, (24, 18))
    assert iou(small.masks, whole, small.known) > 0.93
    assert load_photos(folder, widest=24).cameras.size == (24, 18)


def one_view(folder, scene, points=False):
    write_colmap(folder, scene, True)
    if not points:
        (folder / "sparse" / "0" / "points3D.bin").unlink()
    data = (folder / "sparse" / "0" / "images.bin").read_bytes()
    first = 8 + 64 + len("000.png") + 1 + 8
    (folder / "sparse" / "0" / "images.bin").write_bytes(struct.pack("<Q", 1) + data[8:first])
    for number in range(1, 5):
        (folder / "images" / f"{number:03}.png").unlink()
    return folder


@pytest.mark.parametrize("points", [True, False])
def test_one_photograph_works_and_says_what_it_does_not_know(tmp_path, scene, points):
    mesh = scene[0]
    photos = load_photos(one_view(tmp_path / "p", scene, points))
    assert len(photos.held_out) == 0
    assert any("one photograph" in note for note in photos.notes)
    if points:
        center, radius = mesh.bounding_sphere()
        assert np.linalg.norm(photos.center - center) < 0.3 * radius
    # Wherever it is, the box fills the mask.
    pixel, depth = photos.cameras[0].project(photos.center)
    y, x = np.nonzero(photos.masks[0])
    np.testing.assert_allclose(pixel, [(x.min() + x.max() + 1) / 2, (y.min() + y.max() + 1) / 2], atol=1e-6)
    assert depth > 0


def test_every_camera_that_sees_nothing_is_named(tmp_path, scene):
    mesh, cameras, *_ = scene
    folder = write_cameras(tmp_path / "p", scene)
    edit(folder, lambda d: d.update(bbox=mesh.bounds().tolist()))
    for i in (1, 3):
        turned = np.diag([-1, 1, -1]) @ cameras[i].rotation
        entry = {"R": turned.tolist(), "t": (-turned @ cameras[i].center).tolist()}
        edit(folder, lambda d, i=i, entry=entry: d["views"][i].update(entry))
    with pytest.raises(InputError, match=r"'001\.png', '003\.png' is turned.*behind"):
        load_photos(folder)
