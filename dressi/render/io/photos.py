"""Calibrated photographs of one object, with its silhouettes.

Two kinds of calibration are read. `cameras.json` holds views with file, K, R and t (x_camera = R x + t, x
right, y down, z forward, K in pixels). `transforms.json` or `transforms_train.json` holds frames with
camera-to-world matrices (x right, y up, z backward) and a field of view or focal lengths. Masks come from a
folder beside the images or from the images' alpha.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.camera import Camera, Cameras
from dressi.render.hull import check_cameras, estimate_bounds, sphere_of
from dressi.render.io.files import inside, read_bytes, reason
from dressi.render.io.images import read_image, resize, to_linear_rgb

CALIBRATIONS = ("cameras.json", "transforms.json", "transforms_train.json")
IMAGE_FOLDERS = ("", "image", "images")
MASK_FOLDERS = ("mask", "masks", "mask_derived", "silhouettes")
SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")


@dataclass(frozen=True, eq=False)
class Photos:
    """N photographs at one size, sorted by file name.

    images: (N, H, W, 3) float32 linear light, background included.  masks: (N, H, W) float32, 0 or 1.
    bounds: (2, 3) box of the object.  notes: what was assumed because the folder does not say.
    """

    images: np.ndarray
    masks: np.ndarray
    cameras: Cameras
    names: tuple[str, ...]
    bounds: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def held_out(self) -> np.ndarray:
        """Indices 3, 7, 11, ...: the views that a fit does not see."""
        return np.arange(3, len(self.names), 4)

    @property
    def train(self) -> np.ndarray:
        """Indices of all other views."""
        return np.setdiff1d(np.arange(len(self.names)), self.held_out)

    @property
    def targets(self) -> np.ndarray:
        """(N, H, W, 3) float32: the images on black."""
        return self.images * self.masks[..., None]

    @property
    def center(self) -> np.ndarray:
        """(3,) middle of the object's box."""
        return self.bounds.mean(0)

    @property
    def radius(self) -> float:
        """Half of the longest side of the object's box: a sphere to start a fit from."""
        return float((self.bounds[1] - self.bounds[0]).max() / 2)


@dataclass(frozen=True)
class _View:
    """One entry of a calibration with the files that it names."""

    image: Path
    mask: Path | None
    entry: dict[str, Any]


def load_photos(folder: str | os.PathLike, size: tuple[int, int] | None = None) -> Photos:
    """Read a folder of calibrated photographs, resized to size (W, H) if given.

    Images are resized by area in linear light; masks by area, then covered where at least half is. Intrinsics
    scale with each axis. Colours of images with alpha are weighted by it, so no background leaks in.

    Raises InputError naming the folder or file: no images, no calibration, counts or sizes that disagree,
    missing or empty masks, a camera inside the object, behind it, or that does not see it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder '{folder}'; give the folder that holds the photographs")
    if size is not None and (size[0] < 1 or size[1] < 1):
        raise InputError(f"photographs cannot be resized to {size[0]}x{size[1]}; give a size of at least 1x1")
    path = next((folder / name for name in CALIBRATIONS if (folder / name).is_file()), None)
    if path is None:
        if not any(_pictures(folder / name) for name in (*IMAGE_FOLDERS, "train")):
            raise InputError(f"'{folder}' has no images; give a folder with photographs and cameras.json")
        raise InputError(f"'{folder}' has images but no cameras; add one of {', '.join(CALIBRATIONS)}")
    document, views = _calibration(path)
    images, masks, cameras = [], [], []
    notes: list[str] = []
    first: tuple[int, int] | None = None
    for view in views:
        image, mask = _read(view)
        full = (image.shape[1], image.shape[0])
        first = first or full
        if full != first:
            raise InputError(
                f"all photographs must have one size: '{view.image}' has {full[0]}x{full[1]} and"
                f" '{views[0].image}' {first[0]}x{first[1]}"
            )
        with _readable(path, view.image.name):
            cameras.append(_camera(path, document, view, full, notes).resized(size or full))
        image, mask = _resized(image, mask, size or full)
        if not mask.any():
            raise InputError(
                f"the mask '{view.mask or view.image}' is empty; draw the object in it or remove the view"
            )
        images.append(image)
        masks.append(mask)
    stack = Cameras(cameras)
    silhouettes = np.stack(masks)
    with _readable(path, "bbox"):
        bounds = _bounds(path, document, silhouettes, stack, notes)
    check_cameras(stack, bounds)
    return Photos(
        images=np.stack(images),
        masks=silhouettes,
        cameras=stack.around(*sphere_of(bounds)),
        names=tuple(view.image.name for view in views),
        bounds=bounds,
        notes=tuple(dict.fromkeys(notes)),
    )


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    """Turn what goes wrong inside malformed JSON into one sentence."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(
            f"'{path}': {what} cannot be used ({type(error).__name__}: {reason(error)}); check the file"
        ) from None


def _calibration(path: Path) -> tuple[dict[str, Any], list[_View]]:
    """The document and its views, sorted by file name, each with files that exist."""
    plain = path.name == "cameras.json"
    with _readable(path, "the calibration"):
        document = json.loads(read_bytes(path, "calibration"))
        entries = [
            (str(entry["file" if plain else "file_path"]), entry)
            for entry in document["views" if plain else "frames"]
        ]
    if not entries:
        raise InputError(f"'{path}' lists no views; add one entry per image")
    views = sorted((_find(path, name, entry) for name, entry in entries), key=lambda view: view.image.name)
    images = {view.image for view in views}
    if len(images) < len(views):
        raise InputError(
            f"'{path}' lists {len(views)} views of {len(images)} images; give one view per image"
        )
    for what, listed in (("images", images), ("masks", {view.mask for view in views if view.mask})):
        for folder in {file.parent for file in listed}:
            extra = [file for file in _pictures(folder) if file not in listed]
            if extra:
                raise InputError(
                    f"'{folder}' has {len(extra) + len(listed)} {what} for the {len(views)} cameras of '{path.name}',"
                    f" such as '{extra[0].name}'; remove what has no camera, or add its camera"
                )
    return document, views


def _find(path: Path, name: str, entry: dict[str, Any]) -> _View:
    folder = path.parent
    names = [name] if Path(name).suffix.lower() in SUFFIXES else [name + suffix for suffix in SUFFIXES]
    candidates = [
        inside(folder, f"{place}/{n}" if place else n, path) for place in IMAGE_FOLDERS for n in names
    ]
    image = next((file for file in candidates if file.is_file()), None)
    if image is None:
        raise InputError(
            f"'{path}' lists '{name}', which is not in '{folder}'; add the image or remove its camera"
        )
    if "mask_path" in entry:
        mask = inside(folder, str(entry["mask_path"]), path)
        if not mask.is_file():
            raise InputError(
                f"'{path}' lists the mask '{entry['mask_path']}', which is not in '{folder}'; add it"
            )
        return _View(image, mask, entry)
    for place in MASK_FOLDERS:
        if (folder / place).is_dir():
            masks = [
                (folder / place / (image.stem + suffix)).resolve() for suffix in (image.suffix, *SUFFIXES)
            ]
            mask = next((file for file in masks if file.is_file()), None)
            if mask is None:
                raise InputError(
                    f"'{folder / place}' has no mask for '{image.name}'; add it or remove its camera"
                )
            return _View(image, mask, entry)
    return _View(image, None, entry)


def _pictures(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(f.resolve() for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and f.is_file())


def _read(view: _View) -> tuple[np.ndarray, np.ndarray]:
    """Linear colours (H, W, 3) and coverage (H, W) in [0, 1], float32, at full size."""
    codes = read_image(view.image)
    color = to_linear_rgb(codes).astype(np.float32)
    if view.mask is None:
        if codes.shape[-1] != 4:
            raise InputError(
                f"'{view.image}' has no mask: add masks of the same names in a folder 'mask', or give images with alpha"
            )
        return color, codes[..., 3]
    mask = read_image(view.mask)
    if mask.shape[:2] != color.shape[:2]:
        raise InputError(
            f"'{view.mask}' has {mask.shape[1]}x{mask.shape[0]} pixels and its image '{view.image.name}'"
            f" {color.shape[1]}x{color.shape[0]}; give masks of the images' size"
        )
    return color, mask[..., 0]


def _resized(color: np.ndarray, coverage: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    small = resize(coverage, size)
    if (color.shape[1], color.shape[0]) != tuple(size):
        # Straight alpha: the colour of an uncovered pixel means nothing, so each counts by coverage. Far from
        # the object nothing is covered and the plain mean shows the background.
        weighted = resize(color * coverage[..., None], size) / np.maximum(small, 1e-6)[..., None]
        color = np.where(small[..., None] > 1e-3, weighted, resize(color, size))
    return color, (small >= 0.5).astype(np.float32)


def _camera(
    path: Path, document: dict[str, Any], view: _View, size: tuple[int, int], notes: list[str]
) -> Camera:
    entry, name = view.entry, view.image.name
    plain = path.name == "cameras.json"
    width, height = (
        int(entry.get(key, document.get(key, actual)))
        for key, actual in zip(("width", "height") if plain else ("w", "h"), size, strict=True)
    )
    if (width, height) != size:
        raise InputError(
            f"'{view.image}' has {size[0]}x{size[1]} pixels and '{path.name}' says {width}x{height};"
            " calibrate for the images that are there"
        )
    if plain:
        centre = document.get("pixel_center")
        text = str(document.get("convention", "")).lower()
        if centre is None:
            centre = 0.0
            if "pixel centre" not in text and "pixel center" not in text:
                notes.append(
                    f"'{path}' does not say where pixel centres are: integer coordinates are taken as centres"
                    ' (set "pixel_center": 0.5 where they are corners)'
                )
        return Camera.pinhole(entry["K"], entry["R"], entry["t"], size, pixel_center=float(centre), name=name)
    return _from_transform(document | entry, size, name, notes)


def _from_transform(values: dict[str, Any], size: tuple[int, int], name: str, notes: list[str]) -> Camera:
    """A camera-to-world matrix with x right, y up and z backward; principal point counted from the image's
    corner."""
    width, height = size
    if "fl_x" in values:
        fx = float(values["fl_x"])
    elif "camera_angle_x" in values:
        fx = width / 2 / np.tan(float(values["camera_angle_x"]) / 2)
    else:
        raise InputError(f"the camera of '{name}' has neither camera_angle_x nor fl_x; add one")
    fy = fx
    if "fl_y" in values:
        fy = float(values["fl_y"])
    elif "camera_angle_y" in values:
        fy = height / 2 / np.tan(float(values["camera_angle_y"]) / 2)
    if any(abs(float(values.get(key, 0))) > 1e-6 for key in ("k1", "k2", "k3", "p1", "p2")):
        notes.append("lens distortion is not modelled: undistort the photographs first for the best result")
    k = np.array(
        [[fx, 0, values.get("cx", width / 2)], [0, fy, values.get("cy", height / 2)], [0, 0, 1]], dtype=float
    )
    to_world = np.array(values["transform_matrix"], dtype=np.float64)
    if to_world.shape not in ((4, 4), (3, 4)):
        raise InputError(f"the transform_matrix of '{name}' must be 4x4, not {to_world.shape}")
    rotation = (to_world[:3, :3] * (1, -1, -1)).T
    return Camera.pinhole(k, rotation, -rotation @ to_world[:3, 3], size, pixel_center=0.5, name=name)


def _bounds(
    path: Path, document: dict[str, Any], masks: np.ndarray, cameras: Cameras, notes: list[str]
) -> np.ndarray:
    if "bbox" not in document:
        notes.append(f"'{path}' has no \"bbox\": the object's box is that of the coarse hull of the masks")
        return estimate_bounds(masks, cameras)
    bounds = np.array(document["bbox"], dtype=np.float64)
    if bounds.shape != (2, 3) or not (bounds[0] < bounds[1]).all():
        raise InputError(
            f"'{path}': bbox must be [[x, y, z], [x, y, z]], smallest first, not {document['bbox']}"
        )
    return bounds
