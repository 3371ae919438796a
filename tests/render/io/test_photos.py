"""Photographs: the three layouts, conventions, resizing, and what is refused."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from reference import images_of

from dressi.errors import InputError
from dressi.render.cameras import views
from dressi.render.io import load_photos, save_png
from dressi.render.io.photos import Photos
from dressi.render.mesh import primitives
from dressi.render.objectives.hull import hull_iou
from dressi.render.objectives.metrics import iou

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
    document = {
        "width": SIZE[0],
        "height": SIZE[1],
        "convention": "integer (u,v) = pixel centre",
        "views": [],
    }
    for name in (images, masks):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for i, camera in enumerate(cameras):
        k = camera.intrinsics - [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]
        document["views"].append(
            {
                "file": f"{i:03}.png",
                "K": k.tolist(),
                "R": camera.rotation.tolist(),
                "t": camera.translation.tolist(),
            }
        )
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
    if layout == "transforms":
        photos = load_photos(write_transforms(tmp_path / "p", scene))
    elif layout == "flat":
        photos = load_photos(write_cameras(tmp_path / "p", scene, "mask_derived", "."))
    else:
        photos = load_photos(write_cameras(tmp_path / "p", scene))
    assert photos.images.shape == (8, 36, 48, 3) and photos.images.dtype == np.float32
    np.testing.assert_array_equal(photos.masks, masks)
    np.testing.assert_allclose(photos.targets, images, atol=0.01)
    for found, true in zip(photos.cameras, cameras, strict=True):
        np.testing.assert_allclose(found.intrinsics, true.intrinsics, atol=1e-6)
        np.testing.assert_allclose(found.view, true.view, atol=1e-9)
        assert (
            found.near
            < true.project(mesh.positions)[1].min()
            < true.project(mesh.positions)[1].max()
            < found.far
        )
    np.testing.assert_allclose(photos.center, mesh.bounds().mean(0), atol=0.3)
    np.testing.assert_array_equal(photos.held_out, [3, 7])
    np.testing.assert_array_equal(photos.train, [0, 1, 2, 4, 5, 6])


@pytest.mark.parametrize("size", [(24, 18), (30, 30), (96, 72)])
def test_resized_photographs_fit_resized_cameras(folder, scene, size):
    mesh = scene[0]
    photos = load_photos(folder, size)
    assert photos.cameras.size == size
    _, expected = images_of(mesh, photos.cameras.matrices, size)
    assert iou(photos.masks, expected) > 0.93


def test_photographs_whose_made_mask_is_empty_are_left_out(folder):
    whole = load_photos(folder)
    empty = set(whole.names[:1])

    def masks(view, codes):
        return (view.image.name not in empty) & whole.masks[whole.names.index(view.image.name)].astype(bool)

    photos = load_photos(folder, masks=masks)
    assert photos.names == whole.names[1:] and len(photos.originals) == len(photos.masks)
    np.testing.assert_array_equal(photos.masks, whole.masks[1:])
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
    np.testing.assert_allclose(
        photos.images[photos.masks > 0], np.tile([0, 1, 0], (int(photos.masks.sum()), 1)), atol=1e-5
    )


@pytest.mark.parametrize("write", [write_cameras, write_transforms])
def test_a_calibration_is_read_by_what_it_lists_whatever_its_name(tmp_path, scene, write):
    folder = write(tmp_path / "p", scene)
    (own,) = folder.glob("*.json")
    other = own.rename(tmp_path / "solved.json")
    found = load_photos(folder, cameras=other).cameras
    np.testing.assert_allclose(
        [camera.view for camera in found], [camera.view for camera in scene[1]], atol=1e-9
    )


def test_a_box_in_the_calibration_is_used(folder):
    edit(folder, lambda d: d.update(bbox=[[-1, -1, -1], [1.5, 1, 1]]))
    photos = load_photos(folder)
    np.testing.assert_array_equal(photos.bounds, [[-1, -1, -1], [1.5, 1, 1]])
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
        (
            lambda f: [save_png(f / d / "003.png", np.ones((4, 4))) for d in ("image", "mask")],
            r"003\.png' has 4x4",
        ),
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
    value = hull_iou(
        photos.masks[train],
        photos.cameras[train],
        photos.masks[held_out],
        photos.cameras[held_out],
        photos.bounds,
    )
    assert value > least  # wrong conventions give far less
    assert np.linalg.norm(photos.center) < 0.6 and 0.5 < photos.radius < 1.5
    up = {"dtu24": (-0.32, -0.55, -0.77), "lego_synthetic": (0, 0, 1)}[name]
    assert views.upward(photos.cameras) @ up > 0.98
