"""Photographs with masks, depths and calibrations."""

import json
import shutil
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from reference import images_of, photographed, views_of_bowl, write_depth
from scipy.ndimage import binary_erosion

from dressi.errors import InputError
from dressi.render import iou, primitives
from dressi.render.cameras import Camera, Cameras, views
from dressi.render.cameras.lens import FisheyeLens, Lens, RollingLens
from dressi.render.cameras.panorama import resampled, surround
from dressi.render.fit.report import cameras_file
from dressi.render.io import load_photos, save_image, save_png
from dressi.render.io.calibration import encode_cameras, read_calibration, read_model, rotation_of
from dressi.render.io.images import resize
from dressi.render.io.lens import Undistortion
from dressi.render.io.photos import Photos
from dressi.render.mesh.primitives import bowl
from dressi.render.objectives.hull import hull_iou
from dressi.render.surface.color import linear_to_srgb

SIZE = (48, 36)


@pytest.fixture(scope="module")
def scene():
    """Eight pictures of an object with colours, and the cameras that took them."""
    mesh = primitives.bumpy_ellipsoid(2)
    mesh.texture = np.random.default_rng(0).random((4, 4, 3))
    mesh.positions = mesh.positions + (0.2, 0.1, -0.3)
    cameras = views.ring(*mesh.bounding_sphere(), 8, SIZE)
    return mesh, cameras, *images_of(mesh, cameras.matrices, SIZE)


def write_cameras(folder, scene, masks="mask", images="image"):
    """The layout with K, R and t, whose integer pixels are pixel centres."""
    _, cameras, pictures, silhouettes = scene
    convention = "integer (u,v) = pixel centre"
    document = {"width": SIZE[0], "height": SIZE[1], "convention": convention, "views": []}
    for name in (images, masks):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for i, camera in enumerate(cameras):
        k = camera.intrinsics - [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]
        pose = {"R": camera.rotation.tolist(), "t": camera.translation.tolist()}
        document["views"].append({"file": f"{i:03}.png", "K": k.tolist(), **pose})
        save_png(folder / images / f"{i:03}.png", pictures[i])
        save_png(folder / masks / f"{i:03}.png", silhouettes[i])
    (folder / "cameras.json").write_text(json.dumps(document))
    return folder


def write_transforms(folder, scene, name="transforms_train.json"):
    """The layout with camera-to-world matrices and alpha."""
    _, cameras, pictures, silhouettes = scene
    (folder / "train").mkdir(parents=True)
    angle = 2 * np.arctan(SIZE[0] / 2 / cameras[0].intrinsics[0, 0])
    frames = []
    for i, camera in enumerate(cameras):
        matrix = np.linalg.inv(camera.view) @ np.diag([1, -1, -1, 1])
        frames.append({"file_path": f"./train/r_{i}", "transform_matrix": matrix.tolist()})
        save_png(folder / "train" / f"r_{i}.png", pictures[i])
        codes = np.asarray(Image.open(folder / "train" / f"r_{i}.png"))
        alpha = (silhouettes[i] * 255).astype(np.uint8)[..., None]
        Image.fromarray(np.concatenate([codes, alpha], axis=-1)).save(folder / "train" / f"r_{i}.png")
    (folder / name).write_text(json.dumps({"camera_angle_x": float(angle), "frames": frames}))
    return folder


@pytest.fixture
def folder(tmp_path, scene):
    return write_cameras(tmp_path / "photos", scene)


@pytest.mark.parametrize("layout", ["cameras", "transforms", "flat"])
def test_each_layout_gives_back_the_scene(tmp_path, scene, layout):
    mesh, cameras, images, masks = scene
    write = write_transforms if layout == "transforms" else write_cameras
    photos = load_photos(write(tmp_path / "p", scene, *(("mask_derived", ".") if layout == "flat" else ())))
    assert photos.images.shape == (8, 36, 48, 3) and photos.images.dtype == np.float32
    assert_array_equal(photos.masks, masks)
    assert_allclose(photos.targets, images, atol=0.01)
    for found, true in zip(photos.cameras, cameras, strict=True):
        assert_allclose(found.intrinsics, true.intrinsics, atol=1e-6)
        assert_allclose(found.view, true.view, atol=1e-9)
        depths = true.project(mesh.positions)[1]
        assert found.near < depths.min() < depths.max() < found.far
    assert_allclose(photos.center, mesh.bounds().mean(0), atol=0.3)
    assert_array_equal(photos.held_out, [3, 7])
    assert_array_equal(photos.train, [0, 1, 2, 4, 5, 6])


@pytest.mark.parametrize("size", [(24, 18), (30, 30), (96, 72)])
def test_resized_photographs_fit_resized_cameras(folder, scene, size):
    mesh = scene[0]
    photos = load_photos(folder, size)
    assert photos.cameras.size == size
    _, expected = images_of(mesh, photos.cameras.matrices, size)
    assert iou(photos.masks, expected) > 0.93


def test_masks_of_smaller_pictures_keep_the_share_of_a_pixel(folder):
    whole, small = load_photos(folder), load_photos(folder, (SIZE[0] // 4, SIZE[1] // 4))
    count, height, width = small.masks.shape
    shares = (whole.masks >= 0.5).reshape(count, height, 4, width, 4).mean((2, 4))
    assert_allclose(small.masks, shares, atol=1e-5)
    assert ((shares > 0) & (shares < 1)).any((1, 2)).all()


@pytest.mark.parametrize("lens", [None, (0.1, 0.0, 0.0, 0.0)])
def test_photographs_are_cut_to_the_object_and_keep_their_pixels(tmp_path, calibration_scene, lens):
    """Parts of one size, of as many pixels as the whole pictures would have; cameras and pictures fit each other."""
    mesh, cameras, *_ = calibration_scene
    moved = [replace(c, translation=c.translation * (1, 1, 3) + (0.3, 0.2, 0)) for c in cameras]
    far = Cameras(moved).around(*mesh.bounding_sphere())
    scene = mesh, far, *images_of(mesh, far.matrices, SIZE)
    folder = write_colmap(tmp_path / "p", scene, True, **({} if lens is None else {"lens": lens}))
    small, part = load_photos(folder, (16, 12)), load_photos(folder, (16, 12), cut=True)
    width, height = part.cameras.size
    assert 0.7 * 16 * 12 < width * height <= 1.1 * 16 * 12
    assert part.masks.mean() > 3 * small.masks.mean() and len(part.masks) == len(cameras)
    rim = np.ones((height, width), bool)
    rim[1:-1, 1:-1] = False
    assert not part.masks[:, rim].any() and part.masks.any((1, 2)).all()
    images, masks = images_of(mesh, part.cameras.matrices, part.cameras.size)
    assert iou(part.masks, masks) > (0.9 if lens is None else 0.8) > 0.5
    if lens is None:
        both = (part.masks > 0) & (masks > 0)
        assert np.abs(part.images - images)[both].mean() < 0.1
    # Nothing is enlarged.
    whole = load_photos(folder, cut=True)
    assert whole.cameras[0].intrinsics[0, 0] == pytest.approx(far[0].intrinsics[0, 0])
    assert np.prod(whole.cameras.size) < 0.5 * np.prod(SIZE)


def test_photographs_whose_made_mask_is_empty_are_left_out(folder):
    whole = load_photos(folder)
    empty = set(whole.names[:1])

    def masks(view, codes):
        return (view.image.name not in empty) & whole.masks[whole.names.index(view.image.name)].astype(bool)

    photos = load_photos(folder, masks=masks)
    assert photos.names == whole.names[1:] and len(photos.originals) == len(photos.masks)
    assert_array_equal(photos.masks, whole.masks[1:])
    assert any(f"left out: '{whole.names[0]}'" in note for note in photos.notes)
    empty |= set(whole.names)
    with pytest.raises(InputError, match=r"no object was found in .* choose another --masks"):
        load_photos(folder, masks=masks)


def test_colours_are_weighted_by_alpha(tmp_path, scene):
    write_transforms(tmp_path / "p", scene)
    for path in (tmp_path / "p" / "train").iterdir():
        codes = np.asarray(Image.open(path)).copy()
        codes[codes[..., 3] == 0] = (255, 0, 255, 0)  # means nothing: straight alpha
        codes[codes[..., 3] > 0, :3] = (0, 255, 0)
        Image.fromarray(codes).save(path)
    photos = load_photos(tmp_path / "p", (24, 18))
    green = np.broadcast_to([0.0, 1, 0], photos.images.shape)
    assert_allclose(photos.images[photos.masks > 0], green[photos.masks > 0], atol=1e-5)


@pytest.mark.parametrize("write", [write_cameras, write_transforms])
def test_a_calibration_is_read_by_what_it_lists_whatever_its_name(tmp_path, scene, write):
    folder = write(tmp_path / "p", scene)
    (own,) = folder.glob("*.json")
    other = own.rename(tmp_path / "solved.json")
    found = load_photos(folder, cameras=other).cameras
    assert_allclose([camera.view for camera in found], [camera.view for camera in scene[1]], atol=1e-9)


def test_a_box_in_the_calibration_is_used(folder):
    edit(folder, lambda d: d.update(bbox=[[-1, -1, -1], [1.5, 1, 1]]))
    photos = load_photos(folder)
    assert_array_equal(photos.bounds, [[-1, -1, -1], [1.5, 1, 1]])
    assert photos.radius == 1.25 and photos.notes == ()


def test_what_is_assumed_is_said(folder):
    edit(folder, lambda d: d.pop("convention"))
    assert any("pixel centres" in note for note in load_photos(folder).notes)


def edit(folder, change):
    path = folder / "cameras.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def view(folder, index, **values):
    edit(folder, lambda d: d["views"][index].update(values))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / "cameras.json").unlink(), "has images but no cameras"),
        (lambda f: shutil.rmtree(f / "image"), r"000\.png"),
        (lambda f: (f / "image" / "002.png").unlink(), r"'002\.png', which is not in"),
        (lambda f: (f / "mask" / "002.png").unlink(), r"no mask for '002\.png'"),
        (lambda f: shutil.rmtree(f / "mask"), r"000\.png' has no mask"),
        (lambda f: edit(f, lambda d: d.update(views=d["views"][:3])), "5 of 8 images of .* have no camera"),
        (lambda f: edit(f, lambda d: d["views"].append(d["views"][0])), "9 views of 8 images"),
        (lambda f: edit(f, lambda d: d.update(views=[])), "lists no views"),
        (lambda f: edit(f, lambda d: d.pop("views")), "lists neither views"),
        (lambda f: edit(f, lambda d: d.update(width=47)), r"48x36 pixels and 'cameras\.json' says 47x36"),
        (lambda f: edit(f, lambda d: d["views"][1].pop("K")), r"001\.png cannot be used"),
        (lambda f: edit(f, lambda d: d.update(bbox=[[1, 1, 1], [0, 0, 0]])), "bbox"),
        (lambda f: edit(f, lambda d: d.update(bbox="x")), "bbox"),
        (lambda f: view(f, 1, K=[[1, 2], [3, 4]]), r"001\.png.*K must be"),
        (lambda f: view(f, 1, R=np.zeros((3, 3)).tolist()), r"001\.png.*rotation"),
        (lambda f: view(f, 1, R="no"), r"001\.png"),
        (lambda f: view(f, 1, file="../../etc/passwd"), "outside its folder"),
        (lambda f: view(f, 1, file="/etc/passwd"), "not a file name relative"),
        (lambda f: (f / "cameras.json").write_text("{"), "cannot be used"),
        (lambda f: (f / "image" / "003.png").write_bytes(b"x"), r"cannot read the image.*003\.png"),
        (lambda f: save_png(f / "image" / "003.png", np.ones((4, 4, 3))), r"003\.png' has 4x4"),
        (lambda f: save_png(f / "mask" / "003.png", np.ones((4, 4))), r"mask/003\.png' has 4x4"),
        (lambda f: save_png(f / "mask" / "003.png", np.zeros((36, 48))), r"mask/003\.png' is empty"),
    ],
)
def test_folders_that_cannot_be_used_are_refused_in_one_sentence(folder, damage, words):
    damage(folder)
    with pytest.raises(InputError, match=words) as caught:
        load_photos(folder)
    assert "\n" not in str(caught.value)


def test_folders_without_photographs_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        load_photos(tmp_path / "nothing")
    with pytest.raises(InputError, match="has no images"):
        load_photos(tmp_path)
    with pytest.raises(InputError, match="0x4"):
        load_photos(tmp_path, (0, 4))


@pytest.mark.parametrize("box", [True, False])
def test_cameras_that_do_not_see_the_object_are_named(folder, scene, box):
    mesh, cameras, *_ = scene
    if box:
        edit(folder, lambda d: d.update(bbox=mesh.bounds().tolist()))
    camera, center = cameras[2], mesh.bounds().mean(0)
    turned = np.diag([-1, 1, -1]) @ camera.rotation
    view(folder, 2, R=turned.tolist(), t=(-turned @ camera.center).tolist())
    with pytest.raises(InputError, match=r"002\.png.*(behind|away)"):
        load_photos(folder)
    view(folder, 2, R=camera.rotation.tolist(), t=(-camera.rotation @ center + (0, 0, 0.05)).tolist())
    with pytest.raises(InputError, match=r"002\.png.*inside"):
        load_photos(folder)


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "size", "count", "least"),
    [("dtu24", (80, 60), 24, 0.92), ("lego_synthetic", (64, 64), 50, 0.92)],
)
def test_real_photographs(data, name, size, count, least):
    photos: Photos = load_photos(data / "photos" / name, size)
    assert len(photos.names) == count and list(photos.names) == sorted(photos.names)
    assert photos.images.shape == (count, size[1], size[0], 3)
    train, held_out = photos.train[::2], photos.held_out[::3]
    seen, others = ((photos.masks[some], photos.cameras[some]) for some in (train, held_out))
    assert hull_iou(*seen, *others, photos.bounds) > least  # wrong conventions give far less
    assert np.linalg.norm(photos.center) < 0.6 and 0.5 < photos.radius < 1.5
    up = {"dtu24": (-0.32, -0.55, -0.77), "lego_synthetic": (0, 0, 1)}[name]
    assert views.upward(photos.cameras) @ up > 0.98


@pytest.fixture(scope="module")
def calibration_scene(scene):
    """Five pictures of an object off the middle of the world; principal points are off the middle, too."""
    mesh = scene[0]
    off = np.array([[0, 0, 3.0], [0, 0, -2.0], [0, 0, 0]])
    ring = views.ring(*mesh.bounding_sphere(), 5, SIZE)
    cameras = Cameras([replace(camera, intrinsics=camera.intrinsics + off) for camera in ring])
    return mesh, cameras, *images_of(mesh, cameras.matrices, SIZE)


def quaternion(rotation: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_matrix(rotation).as_quat()[[3, 0, 1, 2]]


def write_colmap(
    folder, calibration_scene, binary, model="OPENCV", place="sparse/0", lens=(0.0, 0.0, 0.0, 0.0)
):
    """A model with one camera, and points on the object."""
    write_cameras(folder, calibration_scene, "masks", "images")
    (folder / "cameras.json").unlink()
    mesh, cameras, *_ = calibration_scene
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
        "OPENCV_FISHEYE": (5, [fx, fy, cx, cy, *lens]),
        "FULL_OPENCV": (6, [fx, fy, cx, cy, *lens, 0.0, 0.0, 0.0, 0.0]),
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
        for i, place in enumerate(mesh.positions):
            points.append(struct.pack("<Q3d3BdQ4I", i, *place, 1, 2, 3, 0.5, 2, 1, 0, 2, 0))
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
        ("OPENCV", True, "sparse/0"), ("OPENCV", False, "colmap/sparse/0"), ("FULL_OPENCV", True, "sparse"),
    ],
)  # fmt: skip
def test_a_colmap_model_gives_back_the_scene(tmp_path, calibration_scene, model, binary, place):
    mesh, cameras, images, masks = calibration_scene
    photos = load_photos(write_colmap(tmp_path / "p", calibration_scene, binary, model, place))
    assert photos.names == tuple(f"{i:03}.png" for i in range(5)) and photos.known is None
    assert_array_equal(photos.masks, masks)
    assert_allclose(photos.targets, images, atol=0.01)
    for found, true in zip(photos.cameras, cameras, strict=True):
        assert_allclose(found.intrinsics, true.intrinsics, atol=1e-9)
        assert_allclose(found.view, true.view, atol=1e-9)
    assert_allclose(photos.points.positions, mesh.positions)
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
        (True, lambda f: swap(f / "images.bin", "000.png\0", "000.png."), "images.bin': "),
        (True, lambda f: count(f / "images.bin"), "ends too early"),
        (True, lambda f: count(f / "cameras.bin"), "ends too early"),
    ],
)
def test_damaged_models_are_refused(tmp_path, calibration_scene, binary, damage, words):
    folder = write_colmap(tmp_path / "p", calibration_scene, binary)
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


def test_binary_models_of_unsupported_cameras_name_them(tmp_path, calibration_scene):
    with pytest.raises(InputError, match="FOV is not supported"):
        load_photos(write_colmap(tmp_path / "p", calibration_scene, True, "FOV"))


@pytest.mark.parametrize("binary", [True, False])
def test_colmap_fisheyes(tmp_path, calibration_scene, binary):
    folder = write_colmap(
        tmp_path / "p", calibration_scene, binary, "OPENCV_FISHEYE", lens=(0.1, 0.2, 0.3, 0.4)
    )
    (camera,) = read_model(folder / "sparse/0").cameras.values()
    assert camera.lens == FisheyeLens.from_opencv([0.1, 0.2, 0.3, 0.4])


def test_quaternions_are_rotations():
    half = np.sqrt(0.5)
    assert_allclose(rotation_of((half, 0, 0, half)), [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)
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
    assert_allclose(LENS.distort(np.array([x, y])), expected)
    assert not Lens() and LENS and Lens().reach == float("inf")
    assert Lens(k1=-1 / 3).reach == pytest.approx(1.0)  # r - r^3 / 3 turns around at 1
    with pytest.raises(InputError, match="finite"):
        Lens(k1=float("nan"))


def photograph(camera: Camera, lens: Lens) -> tuple[np.ndarray, np.ndarray]:
    """A smooth picture of the plane at depth 1: as the lens shows it, and as it is without it."""

    def pattern(plane: np.ndarray) -> np.ndarray:
        return 0.5 + 0.25 * np.sin(6 * plane[..., 0]) + 0.2 * np.cos(5 * plane[..., 1])

    plane = on_plane(camera)
    return pattern(undistorted(plane, lens)), pattern(plane)


def on_plane(camera: Camera) -> np.ndarray:
    """(H, W, 2) the places at depth 1 that pixels show without a lens."""
    width, height = camera.size
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    return (np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(camera.intrinsics).T)[..., :2]


def undistorted(plane: np.ndarray, lens: Lens) -> np.ndarray:
    """The inverse of the lens, by iteration."""
    true = plane.copy()
    for _ in range(50):
        true += plane - lens.distort(true)
    return true


MOVING = RollingLens(k1=0.1, turn_y=0.05, turn_z=-0.04, shift_x=0.02, shift_z=0.03, begin=0.05, down=1.3)


@pytest.mark.parametrize("lens", [LENS, Lens(k1=0.15), Lens(k2=-0.1, p1=0.01), MOVING])
def test_distortion_is_undone(lens):
    camera = Camera(np.array([[60.0, 0, 33], [0, 62, 22], [0, 0, 1]]), np.eye(3), np.zeros(3), (64, 48))
    seen, expected = photograph(camera, lens)
    undo = Undistortion.of(camera, lens)
    assert 0.8 < undo.inside.mean() <= 1
    # Beyond the outermost centres the nearest pixel is shown.
    assert_allclose(undo(seen)[undo.inside], expected[undo.inside], atol=0.015)
    within = binary_erosion(undo.inside, np.ones((3, 3)), border_value=0)
    assert_allclose(undo(seen)[within], expected[within], atol=2e-3)
    assert np.abs(undo(seen) - seen)[within].max() > 0.02
    assert (undo(seen)[~undo.inside] == 0).all()


def distorted(folder, calibration_scene, lens):
    """Replace the folder's pictures by what a lens would have shown, drawn at four times the size."""
    mesh, cameras, *_ = calibration_scene
    large = (4 * SIZE[0], 4 * SIZE[1])
    fine, fine_masks = images_of(mesh, cameras.resized(large).matrices, large)
    for i, camera in enumerate(cameras):
        big = camera.resized(large)
        true = undistorted(on_plane(big), lens)
        at = np.floor(true @ big.intrinsics[:2, :2].T + big.intrinsics[:2, 2]).astype(int)
        at = np.clip(at[..., 1], 0, large[1] - 1), np.clip(at[..., 0], 0, large[0] - 1)
        save_png(folder / "images" / f"{i:03}.png", resize(fine[i][at], SIZE))
        save_png(folder / "masks" / f"{i:03}.png", resize(fine_masks[i][at].astype(float), SIZE))


def test_photographs_come_without_their_lens(tmp_path, calibration_scene):
    lens = Lens(0.4, 0.0, 0.02, -0.01)
    folder = write_colmap(tmp_path / "p", calibration_scene, True, lens=(0.4, 0.0, 0.02, -0.01))
    distorted(folder, calibration_scene, lens)
    photos = load_photos(folder)
    _, _, images, masks = calibration_scene
    straight = iou(photos.masks, masks)
    assert straight > 0.96
    assert photos.known is not None and 0 < (~photos.known).mean() < 0.2
    assert photos.images[~photos.known].max() == 0 == photos.masks[~photos.known].max()
    both = (photos.masks > 0) & (masks > 0)
    assert np.abs(photos.images - images)[both].mean() < 0.03
    shutil.rmtree(folder)
    folder = write_colmap(tmp_path / "p", calibration_scene, True)  # the same pictures, taken for undistorted
    distorted(folder, calibration_scene, lens)
    assert iou(load_photos(folder).masks, masks) < straight - 0.03


def test_photographs_of_a_rolling_shutter_are_straightened(tmp_path, calibration_scene):
    """Also by a document of their cameras, in which a later fit finds them."""
    _, cameras, _, masks = calibration_scene
    folder = write_colmap(tmp_path / "p", calibration_scene, True)
    motion = np.array([0.01, -0.06, 0.05, 0.03, 0.04, -0.02])
    file = folder / "sparse" / "0" / "motions.json"
    lens = RollingLens.of(Lens(), motion, cameras[0].intrinsics, SIZE)
    distorted(folder, calibration_scene, lens)
    bent = iou(load_photos(folder).masks, masks)
    file.write_text(json.dumps({f"{i:03}.png": motion.tolist() for i in range(len(cameras))}))
    assert iou(load_photos(folder).masks, masks) > 1 - 0.5 * (1 - bent)
    views = read_calibration(folder).views
    assert all(view.lens.coefficients == pytest.approx(lens.coefficients) for view in views)
    written = encode_cameras([(view.file_in(folder), view.camera, view.lens) for view in views])
    (folder / "cameras.json").write_bytes(written)
    assert [view.lens for view in read_calibration(folder).views] == [view.lens for view in views]
    with pytest.raises(InputError, match="OPENCV_FISHEYE has no motion"):
        RollingLens.of(FisheyeLens(), motion, cameras[0].intrinsics, SIZE)
    document = json.loads(written) | {"is_fisheye": True}
    (folder / "cameras.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"turn_x.*no coefficient of the camera model OPENCV_FISHEYE"):
        read_calibration(folder)
    (folder / "cameras.json").unlink()
    for damaged in ('{"000.png": [1, 2]}', '{"000.png": [1, 2, 3, 4, 5, NaN]}', '{"000.png": "x"}'):
        file.write_text(damaged)
        with pytest.raises(InputError, match="motions"):
            read_calibration(folder)


def test_lenses_of_json_documents(tmp_path, calibration_scene):
    folder = write_transforms(tmp_path / "t", calibration_scene)
    path = folder / "transforms_train.json"
    document = json.loads(path.read_text())
    document["frames"][0]["k1"] = 0.1
    path.write_text(json.dumps(document))
    photos = load_photos(folder)
    assert photos.known is not None and not photos.known[0].all() and photos.known[1:].all()
    for given, lens in (
        ({"camera_model": "FULL_OPENCV", "k1": 0.02, "k5": 0.01}, Lens(k1=0.02, k5=0.01)),
        ({"is_fisheye": True, "k1": 0.02, "k4": 0.01}, FisheyeLens(k1=0.02, k4=0.01)),
        ({"camera_model": "OPENCV", "is_fisheye": False, "k1": -3.0}, Lens(k1=-3.0)),
    ):
        document["frames"][0] = {k: x for k, x in document["frames"][0].items() if k[0] != "k"} | given
        path.write_text(json.dumps(document))
        calibration = read_calibration(folder)
        assert calibration.views[0].lens == lens and not calibration.views[1].lens
        written = json.loads(encode_cameras([("a.png", calibration.views[0].camera, lens)]))["views"][0]
        assert written["camera_model"] == lens.model and written["k1"] == lens.k1
        assert any("folds at radius 0.3333" in note for note in calibration.notes) == (lens.k1 == -3)
    document["frames"][0] = {k: x for k, x in document["frames"][0].items() if k[0] != "k"}
    for key, value, words in (
        ("k4", 1, "k4 is no coefficient of the camera model OPENCV"),
        ("camera_model", "EQUIRECTANGULAR", 'is a panorama; give the "bbox" of the object'),
        ("camera_model", "DIVISION", "DIVISION is not supported"),
    ):
        path.write_text(json.dumps(document | {key: value}))
        with pytest.raises(InputError, match=words):
            load_photos(folder)


def test_panoramas_are_cut_where_the_object_is(tmp_path, scene):
    """Also across their border, which is behind the panorama's own axis."""
    mesh, cameras, *_ = scene
    eye, size = cameras[0].center, (288, 144)
    middle = mesh.bounding_sphere()[0]
    sides = surround(eye, 96)
    pictures, silhouettes = images_of(mesh, sides.matrices, (96, 96))
    panorama = Camera.equirectangular(size, eye, 2 * eye - middle + (0.3, 0.1, 0))
    layers = np.concatenate([pictures, silhouettes[..., None]], axis=-1)
    wide = resampled(layers, sides, panorama)
    codes = np.concatenate([linear_to_srgb(wide[..., :3]), wide[..., 3:]], axis=-1)
    Image.fromarray((codes * 255 + 0.5).astype(np.uint8)).save(tmp_path / "wide.png")
    matrix = np.linalg.inv(panorama.view) @ np.diag([1, -1, -1, 1])
    box = np.stack(mesh.bounds())
    frames = [{"file_path": "wide.png", "transform_matrix": matrix.tolist()}]
    document = {"camera_model": "EQUIRECTANGULAR", "bbox": box.tolist(), "frames": frames}
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    photos = load_photos(tmp_path)
    (camera,) = photos.cameras
    assert_allclose(camera.center, eye, atol=1e-6)
    picture, silhouette = (images[0] for images in images_of(mesh, photos.cameras.matrices, camera.size))
    inside = (silhouette > 0.5) & (photos.masks[0] > 0.5)
    assert inside.sum() > 0.98 * max((silhouette > 0.5).sum(), photos.masks.sum()) > 500
    moved = (np.roll(picture, move, axis=(0, 1)) for move in ((0, 0), (0, 2), (2, 0), (-2, 0), (0, -2)))
    off, *others = (np.abs(photos.images[0] - image)[inside].mean() for image in moved)
    assert off < 0.04 and off < 0.5 * min(others)
    # What a fit finds is written as the camera of the panorama.
    found = cameras_file(photos.cameras[photos.train], SimpleNamespace(bounds=box, held_out=None), photos)
    (tmp_path / "cameras.json").write_bytes(found)
    again = read_calibration(tmp_path).views[0]
    assert_allclose(again.panorama.rotation, panorama.rotation, atol=1e-9)
    near = document | {"bbox": [(eye - 0.1).tolist(), (eye + 0.1).tolist()]}
    (tmp_path / "cameras.json").write_text(json.dumps(near))
    with pytest.raises(
        InputError, match=r"the panorama 'wide\.png' is .* from the middle of the bbox, too near"
    ):
        load_photos(tmp_path)


def test_frames_may_have_their_own_intrinsics(tmp_path, calibration_scene):
    folder = write_transforms(tmp_path / "t", calibration_scene, "transforms.json")
    path = folder / "transforms.json"
    document = json.loads(path.read_text())
    document["w"], document["h"] = SIZE
    for i, frame in enumerate(document["frames"]):
        frame.update(fl_x=50.0 + i, fl_y=40.0, cx=20.0, cy=21.0)
    path.write_text(json.dumps(document))
    for i, camera in enumerate(load_photos(folder).cameras):
        assert_allclose(camera.intrinsics, [[50 + i, 0, 20], [0, 40, 21], [0, 0, 1]])


# ---------------------------------------------------------------------------- sizes and single views


def test_photographs_of_two_sizes_are_padded(tmp_path, calibration_scene):
    mesh, cameras, *_ = calibration_scene
    folder = write_cameras(tmp_path / "p", calibration_scene)
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
    assert_array_equal(photos.known, expected)
    assert_allclose(photos.cameras[2].intrinsics, narrow.intrinsics, atol=1e-9)
    assert_array_equal(photos.masks, calibration_scene[3] * expected)
    # Shrunk, each keeps its proportions.
    small = load_photos(folder, (24, 18))
    assert small.known is not None and small.known[2, :, :15].all() and not small.known[2, :, 15:].any()
    _, whole = images_of(mesh, small.cameras.matrices, (24, 18))
    assert iou(small.masks, whole, small.known) > 0.93
    assert load_photos(folder, widest=24).cameras.size == (24, 18)


def one_view(folder, calibration_scene, points=False):
    write_colmap(folder, calibration_scene, True)
    if not points:
        (folder / "sparse" / "0" / "points3D.bin").unlink()
    data = (folder / "sparse" / "0" / "images.bin").read_bytes()
    first = 8 + 64 + len("000.png") + 1 + 8
    (folder / "sparse" / "0" / "images.bin").write_bytes(struct.pack("<Q", 1) + data[8:first])
    for number in range(1, 5):
        (folder / "images" / f"{number:03}.png").unlink()
    return folder


@pytest.mark.parametrize("points", [True, False])
def test_one_photograph_works_and_says_what_it_does_not_know(tmp_path, calibration_scene, points):
    mesh = calibration_scene[0]
    photos = load_photos(one_view(tmp_path / "p", calibration_scene, points))
    assert len(photos.held_out) == 0
    assert any("one photograph" in note for note in photos.notes)
    if points:
        center, radius = mesh.bounding_sphere()
        assert np.linalg.norm(photos.center - center) < 0.3 * radius
    # Wherever it is, the box fills the mask.
    pixel, depth = photos.cameras[0].project(photos.center)
    y, x = np.nonzero(photos.masks[0])
    assert_allclose(pixel, [(x.min() + x.max() + 1) / 2, (y.min() + y.max() + 1) / 2], atol=1e-6)
    assert depth > 0


def test_every_camera_that_sees_nothing_is_named(tmp_path, calibration_scene):
    mesh, cameras, *_ = calibration_scene
    folder = write_cameras(tmp_path / "p", calibration_scene)
    edit(folder, lambda d: d.update(bbox=mesh.bounds().tolist()))
    for i in (1, 3):
        turned = np.diag([-1, 1, -1]) @ cameras[i].rotation
        view(folder, i, R=turned.tolist(), t=(-turned @ cameras[i].center).tolist())
    with pytest.raises(InputError, match=r"'001\.png', '003\.png' is turned.*behind"):
        load_photos(folder)


DEPTH_SIZE = (24, 20)


@pytest.fixture
def depth_folder(tmp_path):
    """Four photographs of a bowl whose depths are 2.5 plus a slope."""
    mesh, cameras = bowl(2), views_of_bowl(4, DEPTH_SIZE)
    _, masks = images_of(mesh, cameras.matrices, DEPTH_SIZE)
    depths = np.tile(2.5 + np.linspace(0, 0.5, DEPTH_SIZE[0]), (4, DEPTH_SIZE[1], 1))
    return photographed(tmp_path / "photos", cameras, masks, depths, mesh.bounds())


def slope(photos, width=DEPTH_SIZE[0]):
    at = (np.arange(width) + 0.5) * DEPTH_SIZE[0] / width - 0.5
    return np.where(photos.masks > 0, 2.5 + 0.5 * at / (DEPTH_SIZE[0] - 1), 0)


def test_depths_are_read_where_they_are_asked_for(depth_folder):
    assert load_photos(depth_folder).depths is None
    photos = load_photos(depth_folder, depth=True)
    assert photos.depths.dtype == np.float32
    assert_allclose(photos.depths, slope(photos), atol=6e-4)


def test_smaller_depths_do_not_mix_with_unknown_ones(depth_folder):
    codes = np.round(1000 * (2.5 + np.tile(np.linspace(0, 0.5, DEPTH_SIZE[0]), (DEPTH_SIZE[1], 1))))
    codes[::3, ::2] = 0
    write_depth(depth_folder / "depth" / "1.png", codes)
    photos = load_photos(depth_folder, (12, 10), depth=True)
    whole = photos.depths > 0
    assert (photos.depths[0] > 0).sum() >= (photos.masks[0] > 0).sum() - 2
    assert_allclose(photos.depths[whole], slope(photos, 12)[whole], atol=0.02)


def test_the_scale_is_that_of_the_option_the_calibration_or_millimetres(depth_folder):
    for k in range(4):
        path = depth_folder / "depth" / f"{k}.png"
        write_depth(path, np.full(DEPTH_SIZE[::-1], 12500.0))
    document = json.loads((depth_folder / "cameras.json").read_text())
    (depth_folder / "cameras.json").write_text(json.dumps({**document, "depth_scale": 5000}))
    assert load_photos(depth_folder, depth=True).depths.max() == pytest.approx(2.5)
    assert load_photos(depth_folder, depth=True, depth_scale=4000.0).depths.max() == pytest.approx(3.125)
    (depth_folder / "cameras.json").write_text(json.dumps({**document, "depth_scale": "many"}))
    with pytest.raises(InputError, match="depth_scale"):
        load_photos(depth_folder, depth=True)


def test_arrays_hold_units_of_the_scene_or_codes(depth_folder):
    away = np.full(DEPTH_SIZE[::-1], 2.75)
    away[:, :3] = np.nan
    (depth_folder / "depth" / "0.png").unlink()
    np.save(depth_folder / "depth" / "0.npy", away.astype(np.float32))
    (depth_folder / "depth" / "1.png").unlink()
    np.save(
        depth_folder / "depth" / "1.npy", np.asfortranarray((1000 * np.nan_to_num(away)).astype(np.uint16))
    )
    photos = load_photos(depth_folder, depth=True)
    for k in (0, 1):
        told = photos.masks[k] > 0
        told[:, :3] = False
        assert_allclose(photos.depths[k], np.where(told, 2.75, 0), atol=1e-6)


def test_padding_has_no_depth(depth_folder):
    mesh, cameras = bowl(2), views_of_bowl(4, DEPTH_SIZE)
    document = json.loads((depth_folder / "cameras.json").read_text())
    small = cameras[3].resized((12, 10))
    _, masks = images_of(mesh, small.world_to_clip[None], (12, 10))
    save_image(depth_folder / "3.png", np.stack([masks[0]] * 4, axis=-1))
    write_depth(depth_folder / "depth" / "3.png", np.full((10, 12), 2600.0))
    off = float(document.get("pixel_center", 0.5)) - 0.5
    document["views"][3]["K"] = (small.intrinsics + [[0, 0, off], [0, 0, off], [0, 0, 0]]).tolist()
    document = {key: value for key, value in document.items() if key not in ("width", "height")}
    for view, camera in zip(document["views"], [*cameras[:3], small], strict=True):
        view["width"], view["height"] = camera.size
    (depth_folder / "cameras.json").write_text(json.dumps(document))
    photos = load_photos(depth_folder, depth=True)
    assert photos.depths[3].max() == pytest.approx(2.6)
    assert not photos.depths[3, 10:].any() and not photos.depths[3, :, 12:].any()


def refused(depth_folder, *words, **options):
    with pytest.raises(InputError) as caught:
        load_photos(depth_folder, depth=True, **options)
    text = str(caught.value)
    assert all(word in text for word in words) and "\n" not in text, text


def test_what_is_refused(depth_folder):
    path = depth_folder / "depth" / "2.png"
    good = path.read_bytes()
    write_depth(path, np.full((10, 12), 2500.0))
    refused(depth_folder, "2.png", "12x10", "24x20")
    write_depth(path, np.zeros(DEPTH_SIZE[::-1]))
    refused(depth_folder, "2.png", "0 (unknown) everywhere")
    save_png(path, np.full(DEPTH_SIZE[::-1], 0.5))
    refused(depth_folder, "2.png", "16 bits")
    path.write_bytes(good[:60])
    refused(depth_folder, "2.png")
    path.unlink()
    refused(depth_folder, "no depth picture for '2.png'")
    np.save(path.with_suffix(".npy"), np.full((4, 5, 3), 2.5))
    refused(depth_folder, "2.npy", "(H, W)")
    np.save(path.with_suffix(".npy"), np.array([[None]]), allow_pickle=True)
    refused(depth_folder, "2.npy")
    head = b"\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (4000, 4000), }".ljust(
        128
    )
    path.with_suffix(".npy").write_bytes(head)
    refused(depth_folder, "2.npy")
    path.with_suffix(".npy").unlink()
    path.symlink_to("/etc/hostname")
    refused(depth_folder, "outside its folder")
    path.unlink()
    path.write_bytes(good)
    refused(depth_folder, "number of codes", depth_scale=0.0)
    for file in (depth_folder / "depth").iterdir():
        file.unlink()
    (depth_folder / "depth").rmdir()
    refused(depth_folder, "no folder 'depth'")


def test_depths_in_other_units_are_refused(depth_folder):
    refused(depth_folder, "'0.png' is 2750 units", "2.741 away", "--depth-scale", depth_scale=1.0)
    refused(depth_folder, "'0.png'", "--depth-scale", depth_scale=1e5)
    # The magnitude is all that counts: depths in feet may be meant.
    load_photos(depth_folder, depth=True, depth_scale=3000.0)


def test_the_largest_of_several_models_is_taken(tmp_path, calibration_scene):
    folder = write_colmap(tmp_path / "p", calibration_scene, True, place="sparse/1")
    shutil.copytree(folder / "sparse" / "1", folder / "sparse" / "0")
    one = (folder / "sparse" / "0" / "images.bin").read_bytes()
    (folder / "sparse" / "0" / "images.bin").write_bytes(struct.pack("<Q", 1) + one[8 : 8 + 64 + 8 + 8])
    photos = load_photos(folder)
    assert len(photos.names) == 5 and any("2 models" in note for note in photos.notes)
    shutil.rmtree(folder / "sparse" / "1")
    with pytest.raises(InputError, match=r"4 of 5 images .* --cameras auto"):
        load_photos(folder)


def test_images_without_a_pose_are_left_out(tmp_path, calibration_scene):
    folder = write_colmap(tmp_path / "p", calibration_scene, False)
    save_png(folder / "images" / "lost.png", np.ones((36, 48, 3)))
    photos = load_photos(folder)
    assert len(photos.names) == 5 and any("lost.png" in note for note in photos.notes)
