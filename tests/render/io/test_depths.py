"""Depth pictures beside photographs: files, scales, sizes, and what is refused."""

import json

import numpy as np
import pytest
from depth_cases import photographed, views_of_bowl, write_depth
from reference import images_of

from dressi.errors import InputError
from dressi.render.io import load_photos, save_png
from dressi.render.mesh.primitives import bowl

SIZE = (24, 20)


@pytest.fixture
def folder(tmp_path):
    """Four photographs of a bowl whose depths are 2.5 plus a slope."""
    mesh, cameras = bowl(2), views_of_bowl(4, SIZE)
    _, masks = images_of(mesh, cameras.matrices, SIZE)
    depths = np.tile(2.5 + np.linspace(0, 0.5, SIZE[0]), (4, SIZE[1], 1))
    return photographed(tmp_path / "photos", cameras, masks, depths, mesh.bounds())


def slope(photos, width=SIZE[0]):
    at = (np.arange(width) + 0.5) * SIZE[0] / width - 0.5
    return np.where(photos.masks > 0, 2.5 + 0.5 * at / (SIZE[0] - 1), 0)


def test_depths_are_read_where_they_are_asked_for(folder):
    assert load_photos(folder).depths is None
    photos = load_photos(folder, depth=True)
    assert photos.depths.dtype == np.float32
    np.testing.assert_allclose(photos.depths, slope(photos), atol=6e-4)


def test_smaller_depths_do_not_mix_with_unknown_ones(folder):
    codes = np.round(1000 * (2.5 + np.tile(np.linspace(0, 0.5, SIZE[0]), (SIZE[1], 1))))
    codes[::3, ::2] = 0
    write_depth(folder / "depth" / "1.png", codes)
    photos = load_photos(folder, (12, 10), depth=True)
    whole = photos.depths > 0
    assert (photos.depths[0] > 0).sum() >= (photos.masks[0] > 0).sum() - 2
    np.testing.assert_allclose(photos.depths[whole], slope(photos, 12)[whole], atol=0.02)


def test_the_scale_is_that_of_the_option_the_calibration_or_millimetres(folder):
    for k in range(4):
        path = folder / "depth" / f"{k}.png"
        write_depth(path, np.full(SIZE[::-1], 12500.0))
    document = json.loads((folder / "cameras.json").read_text())
    (folder / "cameras.json").write_text(json.dumps({**document, "depth_scale": 5000}))
    assert load_photos(folder, depth=True).depths.max() == pytest.approx(2.5)
    assert load_photos(folder, depth=True, depth_scale=4000.0).depths.max() == pytest.approx(3.125)
    (folder / "cameras.json").write_text(json.dumps({**document, "depth_scale": "many"}))
    with pytest.raises(InputError, match="depth_scale"):
        load_photos(folder, depth=True)


def test_arrays_hold_units_of_the_scene_or_codes(folder):
    away = np.full(SIZE[::-1], 2.75)
    away[:, :3] = np.nan
    (folder / "depth" / "0.png").unlink()
    np.save(folder / "depth" / "0.npy", away.astype(np.float32))
    (folder / "depth" / "1.png").unlink()
    np.save(folder / "depth" / "1.npy", np.asfortranarray((1000 * np.nan_to_num(away)).astype(np.uint16)))
    photos = load_photos(folder, depth=True)
    for k in (0, 1):
        told = photos.masks[k] > 0
        told[:, :3] = False
        np.testing.assert_allclose(photos.depths[k], np.where(told, 2.75, 0), atol=1e-6)


def test_padding_has_no_depth(folder):
    mesh, cameras = bowl(2), views_of_bowl(4, SIZE)
    document = json.loads((folder / "cameras.json").read_text())
    small = cameras[3].resized((12, 10))
    k = (small.intrinsics - [[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]]).tolist()
    entry = document["views"][3]
    _, masks = images_of(mesh, small.world_to_clip[None], (12, 10))
    from dressi.render.io import save_image

    save_image(folder / "3.png", np.stack([masks[0]] * 4, axis=-1))
    write_depth(folder / "depth" / "3.png", np.full((10, 12), 2600.0))
    centre = float(document.get("pixel_center", 0.5))
    document["views"][3] = {
        **entry,
        "K": (np.array(k) + [[0, 0, centre], [0, 0, centre], [0, 0, 0]]).tolist(),
    }
    document = {key: value for key, value in document.items() if key not in ("width", "height")}
    for view, camera in zip(document["views"], [*cameras[:3], small], strict=True):
        view["width"], view["height"] = camera.size
    (folder / "cameras.json").write_text(json.dumps(document))
    photos = load_photos(folder, depth=True)
    assert photos.depths[3].max() == pytest.approx(2.6)
    assert not photos.depths[3, 10:].any() and not photos.depths[3, :, 12:].any()


def refused(folder, *words, **options):
    with pytest.raises(InputError) as caught:
        load_photos(folder, depth=True, **options)
    text = str(caught.value)
    assert all(word in text for word in words) and "\n" not in text, text


def test_what_is_refused(folder):
    path = folder / "depth" / "2.png"
    good = path.read_bytes()
    write_depth(path, np.full((10, 12), 2500.0))
    refused(folder, "2.png", "12x10", "24x20")
    write_depth(path, np.zeros(SIZE[::-1]))
    refused(folder, "2.png", "0 (unknown) everywhere")
    save_png(path, np.full(SIZE[::-1], 0.5))
    refused(folder, "2.png", "16 bits")
    path.write_bytes(good[:60])
    refused(folder, "2.png")
    path.unlink()
    refused(folder, "no depth picture for '2.png'")
    np.save(path.with_suffix(".npy"), np.full((4, 5, 3), 2.5))
    refused(folder, "2.npy", "(H, W)")
    np.save(path.with_suffix(".npy"), np.array([[None]]), allow_pickle=True)
    refused(folder, "2.npy")
    head = b"\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (4000, 4000), }".ljust(
        128
    )
    path.with_suffix(".npy").write_bytes(head)
    refused(folder, "2.npy")
    path.with_suffix(".npy").unlink()
    path.symlink_to("/etc/hostname")
    refused(folder, "outside its folder")
    path.unlink()
    path.write_bytes(good)
    refused(folder, "number of codes", depth_scale=0.0)
    for file in (folder / "depth").iterdir():
        file.unlink()
    (folder / "depth").rmdir()
    refused(folder, "no folder 'depth'")


def test_depths_in_other_units_are_refused(folder):
    refused(folder, "'0.png' is 2750 units", "2.741 away", "--depth-scale", depth_scale=1.0)
    refused(folder, "'0.png'", "--depth-scale", depth_scale=1e5)
    # The magnitude is all that counts: depths in feet may be meant.
    load_photos(folder, depth=True, depth_scale=3000.0)
