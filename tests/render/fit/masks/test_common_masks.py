"""Masks from what all photographs look at."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from dressi.errors import InputError
from dressi.render import primitives, render
from dressi.render.cameras.views import orbit
from dressi.render.fit.common_masks import _place, _spreads, common_masks
from dressi.render.fit.masks import has_masks, mask_maker
from dressi.render.io import save_image
from dressi.render.io.calibration import read_calibration
from dressi.render.io.cameras import encode_cameras
from dressi.render.io.lens import Lens
from dressi.render.objectives.metrics import iou


@pytest.fixture(scope="module")
def photographs(tmp_path_factory) -> tuple[Path, np.ndarray]:
    """Seven pictures of an object of two colours before a wall of others, without masks; the true masks (N, H, W)."""
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


def test_the_object_is_found(photographs):
    folder, truth = photographs
    calibration = read_calibration(folder)
    assert not has_masks(calibration)
    found = mask_maker("auto", calibration)
    masks = np.stack([found(view, np.zeros(0)) for view in calibration.views])
    assert iou(masks.astype(float), truth.astype(float)) > 0.95


def test_a_lens_moves_what_is_compared(photographs):
    folder, _ = photographs
    calibration = read_calibration(folder)
    view = calibration.views[0]
    points = np.array([[0.9, 0.5, 0.3]])
    straight, seen = _place(view, (72, 96), points)
    pixel, _ = view.camera.project(points)
    assert seen.all() and straight[0] == int(pixel[0, 1]) * 96 + int(pixel[0, 0])
    bent, _ = _place(replace(view, lens=Lens(k1=5.0)), (72, 96), points)
    assert bent[0] != straight[0]


def test_what_cannot_be_found_is_said(photographs):
    folder, _ = photographs
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
