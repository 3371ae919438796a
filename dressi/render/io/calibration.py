"""The photographs of a folder with their masks, cameras and lenses.

Three kinds of calibration are read, in this order:

- ``cameras.json``: views with file, K, R and t (x_camera = R x + t, x right, y down, z forward, K in pixels);
- ``transforms.json`` or ``transforms_train.json``: frames with camera-to-world matrices (x right, y up, z
  backward) and a field of view or focal lengths, for all frames or for each;
- a COLMAP model, text or binary, in ``sparse/0``, ``sparse``, ``colmap`` or the folder itself.

Any of them may come with a lens: the models of ``cameras.lens.MODELS``, by COLMAP's names; in JSON they are the
``camera_model``, OPENCV by default, with its coefficients by name. Of a panorama (EQUIRECTANGULAR) the part that
shows the "bbox" of the object becomes a view.

Names of images and masks are relative to the folder. They may not leave it by ``..``, absolute paths or
links, so that an untrusted data set reaches no other file. If the photographs are elsewhere, copy them, or
give the folder that holds both.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, shown
from ..cameras import Camera
from ..cameras.camera import focal_from_fov, intrinsics
from ..cameras.lens import MODELS, MOTION, EquirectangularLens, Lens, RollingLens
from ..cameras.rigid import quaternion_to_matrix, view_from_nerf
from .files import BROKEN, Damaged, followed, inside, read_bytes, read_json, usable
from .images import image_size

DOCUMENTS = ("cameras.json", "transforms.json", "transforms_train.json")
IMAGE_FOLDERS = ("", "image", "images")
PLACES = (*IMAGE_FOLDERS, "train")
"""Folders of images without a calibration."""
MASK_FOLDERS = ("mask", "masks", "mask_derived", "silhouettes")
SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".heic", ".heif")


@dataclass(frozen=True)
class View:
    """One photograph: files that exist, a camera of the image's size, and its lens. mask: None for the alpha.
    number: of the image in a COLMAP model, -1 elsewhere.  panorama: the camera of the image, where another looks
    at a part of it."""

    image: Path
    mask: Path | None
    camera: Camera
    lens: Lens
    number: int = -1
    panorama: Camera | None = None

    def file_in(self, folder: Path) -> str:
        """The image, as a calibration of a folder names it."""
        return self.image.resolve().relative_to(folder.resolve()).as_posix()


@dataclass
class Calibration:
    """views: sorted by file name.  bounds: (2, 3) box of the object where the calibration has one.
    depth_scale: codes of depth pictures in one unit of the world, where it says so.

    model: folder of the COLMAP model that it is, which has points; None for other kinds.  left_out: images
    beside those of the views that it has no camera for.  notes: assumptions about facts that the folder does
    not state.
    """

    path: Path
    views: list[View] = field(default_factory=list)
    bounds: np.ndarray | None = None
    depth_scale: float | None = None
    model: Path | None = None
    left_out: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Entry:
    """The entry of a calibration for one photograph. taken: camera and lens of an image's name and size."""

    name: str
    taken: Callable[[str, tuple[int, int]], tuple[Camera, Lens]]
    mask: str | None = None
    number: int = -1


def read_calibration(folder: Path, given: Path | None = None) -> Calibration:
    """The calibration of a folder, or one elsewhere. given: its file, or the folder of a COLMAP model.

    Raises InputError naming the folder or file: no images, no calibration, counts or sizes that disagree,
    missing masks, lenses that are not supported, most images without a camera."""
    path = given if given is not None and given.is_file() else None
    if given is None:
        path = next((folder / name for name in DOCUMENTS if (folder / name).is_file()), None)
    models = find_models(given or folder) if path is None else []
    if path is not None:
        calibration, entries = _document(path)
    elif models:
        calibration, entries = _colmap(models)
    elif given is not None:
        raise InputError(f"'{given}' has no cameras; give one of {', '.join(DOCUMENTS)}, or a COLMAP model")
    elif has_pictures(folder):
        raise InputError(
            f"'{folder}' has images but no cameras; add one of {', '.join(DOCUMENTS)}, or a COLMAP model in"
            " sparse/0, or let --cameras auto find them"
        )
    else:
        raise InputError(f"'{folder}' has no images; give a folder with photographs and cameras.json")
    if not entries:
        raise InputError(f"'{calibration.path}' lists no views; add one entry per image")
    images: set[Path] = set()
    for entry in entries:
        with usable(calibration.path, shown(entry.name)):
            image, mask = _files(folder, calibration.path, entry)
            if image in images:
                distinct = len({one.name for one in entries})
                raise InputError(
                    f"it lists {len(entries)} views of {distinct} images, '{shown(entry.name)}' twice or"
                    " more; give one view per image"
                )
            images.add(image)
            camera, lens = entry.taken(image.name, image_size(image))
            fold = lens.fold(camera.intrinsics, camera.size) if lens else ""
            if fold and fold not in calibration.notes:
                calibration.notes.append(fold)
            view = View(image, mask, camera, lens, entry.number)
            if isinstance(lens, EquirectangularLens):
                view = replace(view, camera=_cut(camera, calibration.bounds), lens=Lens(), panorama=camera)
            calibration.views.append(view)
    calibration.views.sort(key=lambda view: (view.image.name, view.image))
    _check_files(calibration)
    return calibration


def _cut(panorama: Camera, bounds: np.ndarray | None) -> Camera:
    """A camera in the place of a panorama that looks at the object, with as many pixels a degree."""
    eye, name = panorama.center, panorama.name
    if bounds is None:
        raise InputError(f"'{name}' is a panorama; give the \"bbox\" of the object, which is cut out of it")
    middle, radius = bounds.mean(0), 0.5 * float(np.linalg.norm(np.ptp(bounds, axis=0)))
    far = float(np.linalg.norm(middle - eye))
    if far < 1.2 * radius:
        raise InputError(
            f"the panorama '{name}' is {far:.4g} from the middle of the bbox, too near to show all"
        )
    half = np.arcsin(radius / far)
    side = int(np.ceil(2 * panorama.intrinsics[0, 0] * np.tan(half)))
    return Camera.perspective(2 * np.degrees(half), (side, side), eye, middle, up=panorama.up, name=name)


def has_pictures(folder: Path) -> bool:
    """Whether a folder has images where they are looked for."""
    return any(pictures_in(folder / name) for name in PLACES)


def has_calibration(folder: Path) -> bool:
    """Whether a folder has cameras of any kind."""
    return any((folder / name).is_file() for name in DOCUMENTS) or bool(find_models(folder))


def _check_files(calibration: Calibration) -> None:
    """Images without a camera are noted and left out; raises InputError if they are most."""
    listed = {view.image for view in calibration.views}
    for folder in sorted({file.parent for file in listed}):
        own = pictures_in(folder)
        extra = [file for file in own if file not in listed]
        if not extra:
            continue
        calibration.left_out += extra
        lost = (
            f"{len(extra)} of {len(own)} images of '{folder}' have no camera in '{calibration.path}', such as"
            f" '{extra[0].name}'"
        )
        if 2 * len(extra) > len(own):
            raise InputError(f"{lost}; remove what is not meant, or find cameras anew with --cameras auto")
        calibration.notes.append(f"{lost}; they are left out")


def _files(folder: Path, path: Path, entry: _Entry) -> tuple[Path, Path | None]:
    """The image of an entry and its mask, None for the alpha."""
    name = entry.name
    names = [name] if Path(name).suffix.lower() in SUFFIXES else [name + suffix for suffix in SUFFIXES]
    candidates = [
        inside(folder, f"{place}/{n}" if place else n, path) for place in IMAGE_FOLDERS for n in names
    ]
    image = next((file for file in candidates if file.is_file()), None)
    if image is None:
        raise InputError(
            f"it lists '{shown(name)}', which is not in '{folder}'; add the image or remove its camera"
        )
    if entry.mask is not None:
        mask = inside(folder, entry.mask, path)
        if not mask.is_file():
            raise InputError(f"it lists the mask '{shown(entry.mask)}', which is not in '{folder}'; add it")
        return image, mask
    for place in MASK_FOLDERS:
        if (folder / place).is_dir():
            mask = mask_in(folder / place, image)
            if mask is None:
                raise InputError(
                    f"'{folder / place}' has no mask for '{image.name}'; add it or remove its camera"
                )
            return image, followed(mask, folder, path)
    return image, None


def mask_in(folder: Path, image: Path) -> Path | None:
    """The mask of an image in a folder of masks, by its name."""
    # COLMAP puts .png behind the whole name.
    stems = [image.stem + suffix for suffix in (image.suffix, *SUFFIXES)] + [image.name + ".png"]
    return next((folder / stem for stem in stems if (folder / stem).is_file()), None)


def pictures_in(folder: Path) -> list[Path]:
    """The image files of a folder, sorted; [] if it does not exist."""
    if not folder.is_dir():
        return []
    return sorted(f.resolve() for f in folder.iterdir() if f.suffix.lower() in SUFFIXES and f.is_file())


# ---- COLMAP


def _colmap(paths: list[Path]) -> tuple[Calibration, list[_Entry]]:
    """Of the first of several models."""
    path = paths[0]
    model, motions = read_model(path), read_motions(path)

    def entry(pose):
        def taken(name: str, size: tuple[int, int]) -> tuple[Camera, Lens]:
            own = model.cameras[pose.camera]
            check_size(path, name, own.size, size)
            motion = motions.get(pose.name)
            lens = own.lens if motion is None else RollingLens.of(own.lens, motion, own.matrix, own.size)
            return pose.placed(own, name), lens

        return _Entry(pose.name, taken, number=pose.number)

    calibration = Calibration(path, model=path)
    if len(paths) > 1:
        calibration.notes.append(
            f"'{path.parent}' has {len(paths)} models of COLMAP that share no cameras; the largest,"
            f" '{path.name}' with {len(model.poses)} images, is taken"
        )
    return calibration, [entry(pose) for pose in model.poses]


def sparse_points(model: Path | None, views: Sequence[View]) -> SparsePoints:
    """The points of a model with the indices of the views that see them. None without a model."""
    if model is None:
        return SparsePoints(np.zeros((0, 3)), np.zeros(0), *np.zeros((2, 0), np.int64))
    points, index = read_points(model), {view.number: i for i, view in enumerate(views)}
    view = np.array([index.get(int(number), -1) for number in points.view], np.int64)
    return replace(points, point=points.point[view >= 0], view=view[view >= 0])


# ---- JSON


def _document(path: Path) -> tuple[Calibration, list[_Entry]]:
    """Of a file that lists ``views``, or NeRF's ``frames``, whatever its name."""
    calibration = Calibration(path)
    with usable(path, "the calibration"):
        document = read_json(path, "calibration")
        lists = [name for name in ("views", "frames") if name in document]
        if not lists:
            raise InputError(
                "it lists neither views, as cameras.json does, nor frames, as transforms.json does; give such"
                " a file"
            )
        plain = lists[0] == "views"
        entries = [_json_entry(calibration, document, values, plain) for values in document[lists[0]]]
    with usable(path, "bbox"):
        if "bbox" in document:
            bounds = calibration.bounds = np.array(document["bbox"], dtype=np.float64)
            if bounds.shape != (2, 3) or not np.isfinite(bounds).all() or not (bounds[0] < bounds[1]).all():
                given = shown(document["bbox"])
                raise InputError(f"bbox must be [[x, y, z], [x, y, z]], smallest first, not {given}")
    with usable(path, "depth_scale"):
        calibration.depth_scale = float(document["depth_scale"]) if "depth_scale" in document else None
    return calibration, entries


def _json_entry(
    calibration: Calibration, document: dict[str, Any], values: dict[str, Any], plain: bool
) -> _Entry:
    """plain: of ``views``, in pixels; otherwise of ``frames``."""
    merged = document | values
    mask = values.get("mask_path")

    def taken(name: str, size: tuple[int, int]) -> tuple[Camera, Lens]:
        width, height = ("width", "height") if plain else ("w", "h")
        check_size(calibration.path, name, (merged.get(width, size[0]), merged.get(height, size[1])), size)
        lens = _lens(merged)
        around = isinstance(lens, EquirectangularLens)
        own = {"fl_x": 1.0, "K": np.eye(3), **merged} if around else merged
        camera = _plain(own, size, name, calibration) if plain else _transform(own, size, name)
        if around:
            k = Camera.equirectangular(size, (0, 0, 0), (0, 0, 1)).intrinsics
            camera = replace(camera, intrinsics=k, lens=lens)
        return camera, lens

    return _Entry(str(values["file" if plain else "file_path"]), taken, None if mask is None else str(mask))


def check_size(path: Path, name: str, said: tuple[int, int], size: tuple[int, int]) -> None:
    """Raise InputError when an image does not have the size that it was calibrated for."""
    if tuple(said) != tuple(size):
        raise InputError(
            f"'{name}' has {size[0]}x{size[1]} pixels and '{path.name}' says"
            f" {shown(said[0])}x{shown(said[1])}; calibrate for the images that are there"
        )


def _lens(values: dict[str, Any]) -> Lens:
    model = str(values.get("camera_model", "OPENCV"))
    model = "OPENCV_FISHEYE" if values.get("is_fisheye") else ALIASES.get(model, model)
    if model == EquirectangularLens.model:
        return EquirectangularLens()
    if model not in MODELS:
        raise InputError(
            f"the camera model {shown(model)} is not supported; undistort the images first, or use one of"
            f" {', '.join((*MODELS, *ALIASES, EquirectangularLens.model))}"
        )
    # Files of this kind may give k3 to a camera that they call OPENCV, as OpenCV does.
    plain = () if "FISHEYE" in model else ("k1", "k2", "p1", "p2", "k3", *MOTION)
    names = {*MODELS[model][1].split(), *plain}
    known = ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2", *MOTION)
    given = {k: float(values[k]) for k in known if k in values}
    other = [name for name, value in given.items() if value and name not in names]
    if other:
        raise InputError(
            f"{', '.join(other)} is no coefficient of the camera model {model}; name another camera_model, such"
            " as FULL_OPENCV, whose k4 to k6 are those of OpenCV's quotient"
        )
    kind = RollingLens if any(name in MOTION for name in given) else MODELS[model][2]
    return kind(**{name: value for name, value in given.items() if value})


ALIASES = {"PERSPECTIVE": "OPENCV", "FISHEYE": "OPENCV_FISHEYE"}
"""Other names of camera models in JSON."""


def _plain(values: dict[str, Any], size: tuple[int, int], name: str, calibration: Calibration) -> Camera:
    centre = values.get("pixel_center")
    if centre is None:
        centre, text = 0.0, str(values.get("convention", "")).lower()
        if "pixel centre" not in text and "pixel center" not in text:
            calibration.notes.append(
                f"'{calibration.path}' does not say where pixel centres are: integer coordinates are taken as"
                " centres"
                ' (set "pixel_center": 0.5 where they are corners)'
            )
    return Camera.pinhole(values["K"], values["R"], values["t"], size, pixel_center=float(centre), name=name)


def _transform(values: dict[str, Any], size: tuple[int, int], name: str) -> Camera:
    """A camera-to-world matrix with x right, y up and z backward; principal point from the image's corner."""
    width, height = size

    def focal(axis: str, extent: int, default: float | None) -> float | None:
        if f"fl_{axis}" in values:
            return float(values[f"fl_{axis}"])
        if f"camera_angle_{axis}" in values:
            return float(focal_from_fov(np.degrees(float(values[f"camera_angle_{axis}"])), extent))
        return default

    fx = focal("x", width, None)
    if fx is None:
        raise InputError(f"the camera of '{name}' has neither camera_angle_x nor fl_x; add one")
    k = intrinsics([fx, focal("y", height, fx)], [values.get("cx", width / 2), values.get("cy", height / 2)])
    to_world = np.array(values["transform_matrix"], dtype=np.float64)
    if to_world.shape not in ((4, 4), (3, 4)):
        raise InputError(f"the transform_matrix of '{name}' must be 4x4, not {to_world.shape}")
    view = view_from_nerf(np.vstack([to_world[:3], (0, 0, 0, 1)]))
    return Camera.pinhole(k, view[:3, :3], view[:3, 3], size, pixel_center=0.5, name=name)


# Cameras written as the ``cameras.json`` that photographs are read with.

NAME = "cameras.json"


def encode_cameras(views: Sequence[tuple[str, Camera, Lens]], bounds: np.ndarray | None = None) -> bytes:
    """The text of a ``cameras.json``: of each view the name of its image, its camera in pixels of that image,
    and its lens.
    bounds: (2, 3) box of the object."""
    document: dict = {} if bounds is None else {"bbox": np.asarray(bounds).tolist()}
    document |= {"convention": "x_camera = R x + t, x right, y down, z forward", "pixel_center": 0.5}
    document["views"] = [
        {
            "file": name,
            "width": camera.size[0],
            "height": camera.size[1],
            "K": camera.intrinsics.tolist(),
            "R": camera.rotation.tolist(),
            "t": camera.translation.tolist(),
            **({"camera_model": lens.model} if lens else {}),
            **lens.coefficients,
        }
        for name, camera, lens in views
    ]
    return (json.dumps(document, indent=1) + "\n").encode()


# COLMAP's sparse models: cameras, images and points, as text or binary files.
#
# Files are untrusted: every count is compared with the remaining bytes before memory is allocated. Pixel
# coordinates are COLMAP's own, (0.5, 0.5) in the middle of the first pixel, which are those of `Camera`.

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


MOTIONS = "motions.json"
"""Beside a model that was found: what cameras did while their rows were read, by the names of images."""


def read_motions(path: Path) -> dict[str, np.ndarray]:
    """(6,) each, as ``RollingLens.of`` takes them; none of a model that says nothing of them. Raises InputError."""
    file = path / MOTIONS
    if not file.is_file():
        return {}
    with usable(file, "the motions"):
        motions = {name: np.array(values, np.float64) for name, values in read_json(file, "motions").items()}
        if any(motion.shape != (6,) or not np.isfinite(motion).all() for motion in motions.values()):
            raise InputError("a motion is six numbers, a turn in radians and a shift; find the cameras anew")
    return motions


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
