"""COLMAP's sparse models: cameras, images and points, as text or binary files.

Files are untrusted: every count is compared with the remaining bytes before memory is allocated. Pixel
coordinates are COLMAP's own, (0.5, 0.5) in the middle of the first pixel, which are those of `Camera`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import InputError, shown
from ..cameras import Camera
from ..cameras.camera import intrinsics
from ..cameras.lens import MODELS, Lens
from ..cameras.rigid import quaternion_to_matrix
from .files import BROKEN, Damaged, read_bytes, usable

MOST_MODELS = 100
"""Of a reconstruction that fell into parts, which COLMAP numbers from 0."""
FOLDERS = ("sparse/0", "sparse", "colmap/sparse/0", "colmap", "")
"""Folders of a model, relative to its images."""

_OTHERS = {7: "FOV", 10: "THIN_PRISM_FISHEYE", 11: "RAD_TAN_THIN_PRISM_FISHEYE"}


class Intrinsics(NamedTuple):
    """A camera of the model without its place. size: (W, H)."""

    size: tuple[int, int]
    matrix: np.ndarray
    lens: Lens


class Pose(NamedTuple):
    """One image. number: of the image in the tracks of points.  rotation: quaternion w, x, y, z; x_camera = R
    x + translation."""

    number: int
    name: str
    camera: int
    rotation: tuple[float, ...]
    translation: tuple[float, ...]

    def placed(self, intrinsics: Intrinsics, name: str) -> Camera:
        """Raises InputError."""
        rotation = rotation_of(self.rotation)
        return Camera(intrinsics.matrix, rotation, np.array(self.translation), intrinsics.size, name=name)


class Model(NamedTuple):
    """cameras: by their numbers.  poses: in the file's order."""

    cameras: dict[int, Intrinsics]
    poses: list[Pose]


@dataclass(frozen=True, eq=False)
class SparsePoints:
    """P points of a reconstruction and the K observations that they come from.

    positions: (P, 3) in the world.  errors: (P,) mean distance in pixels of the full photographs between
    where the points are seen and where they project to, 0 if the model does not say it.  point, view: (K,)
    that point is seen by that view.
    """

    positions: np.ndarray
    errors: np.ndarray
    point: np.ndarray
    view: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def times(self) -> np.ndarray:
        """(P,) how many views see each."""
        return np.bincount(self.point, minlength=len(self))

    def seen_by(self, view: int) -> np.ndarray:
        """Indices of the points that a view sees."""
        return self.point[self.view == view]


def read_points(path: Path) -> SparsePoints:
    """Those of the model in folder ``path``, by the numbers of its images; none if it has no file of points.
    Raises InputError."""
    binary, text = path / "points3D.bin", path / "points3D.txt"
    if path.joinpath("images.bin").is_file() and binary.is_file():
        with usable(binary, "the points"):
            return _binary_points(_Bytes(binary))
    if not text.is_file():
        return _tracked(np.zeros((0, 3)), np.zeros(0), [])
    with usable(text, "the points"):
        rows = [line.split() for line in filter(None, _lines(text))]
        values = np.array([[float(v) for v in row[1:8]] for row in rows]).reshape(-1, 7)
        return _tracked(values[:, :3], values[:, 6], [np.array(row[8::2], np.int64) for row in rows])


def _tracked(positions: np.ndarray, errors: np.ndarray, tracks: list[np.ndarray]) -> SparsePoints:
    """tracks: of each point, the numbers of the images that see it, some of them twice."""
    tracks = [np.unique(track) for track in tracks]
    lengths = np.array([len(track) for track in tracks], np.int64)
    view = np.concatenate([np.zeros(0, np.int64), *tracks])
    return SparsePoints(positions, np.maximum(errors, 0.0), np.repeat(np.arange(len(tracks)), lengths), view)


def find_models(folder: Path) -> list[Path]:
    """The folders of the models at or below ``folder``, all in one place, the largest first."""
    for place in FOLDERS:
        above = folder / place
        numbered = [above.parent / str(n) for n in range(MOST_MODELS)] if above.name == "0" else [above]
        models = [path for path in numbered if _suffix(path) is not None]
        if models:
            return sorted(models, key=lambda path: -_image_count(path))
    return []


def _suffix(path: Path) -> str | None:
    for suffix in (".bin", ".txt"):
        if all((path / (name + suffix)).is_file() for name in ("cameras", "images")):
            return suffix
    return None


def _image_count(path: Path) -> int:
    """As its file says it; damaged ones have none."""
    with suppress(InputError, *BROKEN):
        images = path / f"images{_suffix(path)}"
        if images.suffix == ".bin":
            return struct.unpack_from("<Q", read_bytes(images, "model"))[0]
        return len(list(_text_poses(images)))
    return 0


def read_model(path: Path) -> Model:
    """The model in folder ``path``; binary files go before text.

    Raises InputError naming the file: damaged, cut short, or of a camera model that is not among ``MODELS``.
    """
    binary = _suffix(path) == ".bin"
    in_cameras, in_images = (path / (name + (".bin" if binary else ".txt")) for name in ("cameras", "images"))
    with usable(in_cameras, "the cameras"):
        cameras = dict(_binary_cameras(_Bytes(in_cameras)) if binary else _text_cameras(in_cameras))
    with usable(in_images, "the images"):
        poses = list(_binary_poses(_Bytes(in_images)) if binary else _text_poses(in_images))
        for pose in poses:
            if pose.camera not in cameras:
                name = shown(pose.name)
                raise InputError(
                    f"'{name}' has camera {pose.camera}, which is not in '{in_cameras.name}'; check the model"
                )
    return Model(cameras, poses)


def rotation_of(quaternion: tuple[float, ...]) -> np.ndarray:
    """(3, 3) of a quaternion w, x, y, z of any length but 0. Raises InputError."""
    length = float(np.linalg.norm(quaternion))
    if not (np.isfinite(length) and length > 1e-6):
        raise InputError(f"the quaternion {quaternion} is no rotation; check the model")
    return quaternion_to_matrix(quaternion)


def _intrinsics(model: str, size: tuple[int, int], values: tuple[float, ...]) -> Intrinsics:
    _, parameters, kind = MODELS[model]
    names = parameters.split()
    if len(values) != len(names):
        raise InputError(f"{model} has {len(names)} parameters, not {len(values)}; check the file")
    known = dict(zip(names, values, strict=True))
    fx = known["fx"] if "fx" in known else known["f"]
    matrix = intrinsics([fx, known.get("fy", fx)], [known["cx"], known["cy"]])
    return Intrinsics(size, matrix, kind(**{k: x for k, x in known.items() if k[0] in "kp"}))


def _unsupported(model: str) -> InputError:
    return InputError(
        f"the camera model {shown(model)} is not supported; undistort the images with COLMAP, or use one of"
        f" {', '.join(MODELS)}"
    )


# ---- text


def _lines(path: Path) -> list[str]:
    """Without comments; empty lines stay, because an image without points has one."""
    text = read_bytes(path, "model").decode("utf-8")
    return [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]


def _text_cameras(path: Path) -> Iterator[tuple[int, Intrinsics]]:
    for line in filter(None, _lines(path)):
        number, model, width, height, *values = line.split()
        if model not in MODELS:
            raise _unsupported(model)
        yield int(number), _intrinsics(model, (int(width), int(height)), tuple(map(float, values)))


def _text_poses(path: Path) -> Iterator[Pose]:
    lines = _lines(path)
    while lines and not lines[0]:
        lines.pop(0)
    # Every other line lists the image's points.
    for line in filter(None, lines[::2]):
        values = line.split(maxsplit=9)
        if len(values) < 10:
            raise InputError(f"the line '{shown(line[:60])}' is no image; check the file")
        numbers = tuple(map(float, values[1:8]))
        yield Pose(int(values[0]), values[9], int(values[8]), numbers[:4], numbers[4:])


# ---- binary


class _Bytes:
    """Little-endian values of a file one after the other. Raises InputError where it ends too early."""

    def __init__(self, path: Path):
        self.data, self.at = read_bytes(path, "model"), 0

    def take(self, layout: str) -> tuple:
        self.need(struct.calcsize("<" + layout))
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def count(self, least: int) -> int:
        """A number of records of at least ``least`` bytes, which must be there."""
        (count,) = self.take("Q")
        self.need(count * least)
        return count

    def skip(self, size: int) -> None:
        self.need(size)
        self.at += size

    def name(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            self.need(len(self.data) + 1)
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

    def need(self, size: int) -> None:
        if size > len(self.data) - self.at:
            raise Damaged(f"it ends too early, at byte {len(self.data)}")


def _binary_cameras(data: _Bytes) -> Iterator[tuple[int, Intrinsics]]:
    names = {number: (name, len(values.split())) for name, (number, values, _) in MODELS.items()}
    for _ in range(data.count(24)):
        number, model, width, height = data.take("IiQQ")
        if model not in names:
            raise _unsupported(_OTHERS.get(model, f"number {model}"))
        name, count = names[model]
        yield number, _intrinsics(name, (width, height), data.take(f"{count}d"))


def _binary_poses(data: _Bytes) -> Iterator[Pose]:
    for _ in range(data.count(4 + 56 + 4 + 1 + 8)):
        number, *numbers, camera = data.take("I7dI")
        name = data.name()
        yield Pose(number, name, camera, tuple(numbers[:4]), tuple(numbers[4:]))
        data.skip(24 * data.count(24))


def _binary_points(data: _Bytes) -> SparsePoints:
    values, tracks = np.empty((data.count(8 + 24 + 3 + 8 + 8), 4)), []
    for row in values:
        _, row[0], row[1], row[2], _, _, _, row[3] = data.take("Q3d3Bd")
        start, count = data.at + 8, data.count(8)
        data.skip(8 * count)
        tracks.append(np.frombuffer(data.data, "<u4", 2 * count, start)[::2].astype(np.int64))
    return _tracked(values[:, :3], values[:, 3], tracks)
