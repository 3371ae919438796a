"""Calibrated photographs of one object, with its silhouettes, as arrays of one size.

`calibration` says which layouts of folders are read. Lens distortion is removed here, and photographs of
several sizes are padded to a common one; pixels without data are not `known`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ...config import config
from ...errors import InputError
from ..cameras import Camera, Cameras
from ..objectives.hull import check_cameras, estimate_bounds, sphere_of
from .calibration import Calibration, SparsePoints, View, read_calibration, sparse_points
from .files import followed, read_bytes, usable
from .images import read_image, resize, scaled_size, to_linear_rgb
from .lens import Layers, Undistortion
from .pixels import decode_pixels

Size = tuple[int, int]

WAYS = (
    "--masks auto (what all photographs look at), --masks background:FILE_OR_FOLDER (photographs without the"
    " object), --masks threshold (a plain background; or threshold:dark, :bright, :saturation, :chroma),"
    " --masks box (the object's"
    ' "bbox" in the calibration), or --masks rembg (a library that finds objects)'
)
"""How `dressi fit` makes masks, see ``dressi.render.fit.masks``."""


@dataclass(frozen=True, eq=False)
class Photos:
    """N photographs at one size, sorted by file name.

    images: (N, H, W, 3) float32 linear light, background included, at outlines that of the object.
    masks: (N, H, W) float32 in [0, 1], the share of a pixel that the object covers; covered from 1/2 on.
    known: (N, H, W) bool, False in padding and where undistortion found nothing; None is True everywhere.
    Images and masks are 0 where it is False.
    bounds: (2, 3) box of the object.  notes: what was assumed because the folder does not say.
    originals: the files, with cameras of their own sizes and their lenses.
    depths: (N, H, W) float32, distances along the optical axis in units of the world, 0 where unknown and
    outside of the masks; None if they were not read.
    model: folder of the COLMAP model that the cameras come from, None for other calibrations.
    calibration: the file or folder that they come from, None for others than those of ``load_photos``.
    folder: that of the photographs, None for others than those of ``load_photos``.

    >>> from dressi.render.cameras import Camera
    >>> camera = Camera.perspective(40, (8, 6), (0, 0, 4), (0, 0, 0))
    >>> names, box = tuple("abcd"), np.array([[-1.0, -1, -1], [1, 1, 1]])
    >>> photos = Photos(np.ones((4, 6, 8, 3)), np.ones((4, 6, 8)), Cameras([camera] * 4), names, box)
    >>> photos.train.tolist(), photos.held_out.tolist(), photos.radius
    ([0, 1, 2], [3], 1.0)
    """

    images: np.ndarray
    masks: np.ndarray
    cameras: Cameras
    names: tuple[str, ...]
    bounds: np.ndarray
    notes: tuple[str, ...] = ()
    known: np.ndarray | None = None
    originals: tuple[View, ...] = ()
    depths: np.ndarray | None = None
    model: Path | None = None
    calibration: Path | None = None
    folder: Path | None = None

    @cached_property
    def points(self) -> SparsePoints:
        """The points of the reconstruction that the cameras come from, with the views that see them, by the
        indices of ``names``; none for calibrations that have no points. Raises InputError if their file is
        damaged."""
        return sparse_points(self.model, self.originals)

    @property
    def held_out(self) -> np.ndarray:
        """Indices 3, 7, 11, ...: the held-out views."""
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


def load_photos(
    folder: str | os.PathLike,
    size: Size | None = None,
    *,
    cameras: Path | Calibration | None = None,
    widest: int | None = None,
    cut: bool = False,
    masks: Callable[[View, np.ndarray], np.ndarray] | None = None,
    depth: bool = False,
    depth_scale: float | None = None,
) -> Photos:
    """Read a folder of calibrated photographs, resized to size (W, H) if given.

    Images are resized by area in linear light, masks by area. Intrinsics scale with each axis. Colours of
    images with alpha are weighted by it, so no background leaks in. Lens distortion is removed before, by
    linear interpolation. Photographs of several sizes keep their proportions: each is shrunk to fit into the
    size and padded on the right and below.
    cameras: the calibration, if it is not in the folder: a file as ``cameras.json``, or the folder of a
    COLMAP model, whose names are relative to the folder of the photographs; or one that was read
    (``read_calibration``).
    widest: of pictures that no size is given for.
    cut: whether photographs of one size are cut to parts of one size that hold what the masks cover, with a
    margin. The parts have as many pixels as the whole pictures would have, at most those of the photographs.
    masks: makes the mask (H, W) of a photograph from its view and codes (H, W, C), instead of those of the
    folder.
    depth: whether to read the depth pictures in the folder ``depth`` too, one of the size of each photograph
    (``Depths``).
    depth_scale: codes in one unit of the world; None: "depth_scale" of the calibration, or 1000.

    Raises InputError naming the folder or file: no images, no calibration, counts or sizes that disagree,
    missing or empty masks, a lens that is not supported, a camera inside the object, behind it, or that does
    not see it; depths that are missing, of another size, or in other units than the cameras; names that lead
    out of the folder, and pictures above `config.max_megapixels`.

    >>> import tempfile
    >>> from dressi.render.cameras import Camera
    >>> from dressi.render.io.calibration import encode_cameras
    >>> from dressi.render.io.images import save_image
    >>> folder, camera = Path(tempfile.mkdtemp()), Camera.perspective(40, (8, 6), (0, 0, 4), (0, 0, 0))
    >>> picture = np.zeros((6, 8, 4))
    >>> picture[2:4, 2:6] = 1.0  # alpha is the mask
    >>> save_image(folder / "a.png", picture)
    >>> box = np.array([[-0.5, -0.5, -0.5], [0.5, 0.5, 0.5]])
    >>> from dressi.render.io.lens import Lens
    >>> _ = (folder / "cameras.json").write_bytes(encode_cameras([("a.png", camera, Lens())], box))
    >>> float(load_photos(folder).masks.sum())
    8.0
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder '{folder}'; give the folder that holds the photographs")
    if size is not None and (size[0] < 1 or size[1] < 1):
        raise InputError(f"photographs cannot be resized to {size[0]}x{size[1]}; give a size of at least 1x1")
    calibration = cameras if isinstance(cameras, Calibration) else read_calibration(folder, cameras)
    frames, common = _frames([view.camera.size for view in calibration.views], size, widest)
    _check_room(folder, common, len(frames))
    scale = calibration.depth_scale if depth_scale is None else depth_scale
    depths = Depths(folder, scale) if depth else None
    sizes = {view.camera.size for view in calibration.views}
    cut = cut and len(sizes) == 1
    wholes = [
        Part((0, 0), view.camera.size, view.camera.size, frame)
        for view, frame in zip(calibration.views, frames, strict=True)
    ]
    small = common
    if cut:
        (full,) = sizes
        small = scaled_size(full, min(1.0, LOOK / full[0]))
    looks = [replace(part, frame=small) for part in wholes] if cut else wholes
    read = _all_read(calibration.views, looks, small, masks, depths)
    if masks is not None:
        read = _with_object(calibration, read)
        calibration = replace(calibration, views=[view for view, *_ in read])
    if cut:
        parts = _parts(read, common) or [replace(part, frame=common) for _, part, _ in read]
        if parts[0].frame != small or parts[0].size != parts[0].whole:
            common, views = parts[0].frame, [view for view, *_ in read]
            del read
            read = _all_read(views, parts, common, masks, depths)
    views = Cameras([part.of(view.camera).padded(common) for view, part, _ in read])
    images, coverage, known, measured = _stacked(read)
    with usable(calibration.path, "the cameras"):
        bounds = calibration.bounds
        if bounds is None:
            bounds = _estimated(calibration, coverage >= 0.5, views, known)
        check_cameras(views, bounds)
        views = views.around(*sphere_of(bounds))
    if depths is not None:
        for camera, layer in zip(views, measured, strict=True):
            depths.check(camera.name, layer, camera, bounds.mean(0))
    return Photos(
        images=images,
        masks=coverage,
        cameras=views,
        names=tuple(view.image.name for view in calibration.views),
        bounds=bounds,
        notes=tuple(dict.fromkeys(calibration.notes)),
        known=None if known.all() else known,
        originals=tuple(calibration.views),
        depths=None if depths is None else measured,
        model=calibration.model,
        calibration=calibration.path,
        folder=folder,
    )


def _frames(sizes: list[Size], size: Size | None, widest: int | None) -> tuple[list[Size], Size]:
    """The size of each photograph, and the common one that it is padded to."""
    largest = max(w for w, _ in sizes), max(h for _, h in sizes)
    if size is None:
        scale = min(1.0, (widest or largest[0]) / largest[0])
        size = scaled_size(largest, scale)
        if scale == 1.0:
            return sizes, size
    if len(set(sizes)) == 1:
        return [size] * len(sizes), size
    scales = [min(size[0] / w, size[1] / h) for w, h in sizes]
    frames = [scaled_size(full, scale) for full, scale in zip(sizes, scales, strict=True)]
    return [(min(w, size[0]), min(h, size[1])) for w, h in frames], size


def _check_room(folder: Path, size: Size, count: int) -> None:
    """Raise InputError before photographs are decoded that fill the memory: each pixel takes 20 bytes."""
    most = 8 * config.max_megapixels
    total = size[0] * size[1] * count // 1_000_000
    if total > most:
        raise InputError(
            f"'{folder}': {count} photographs of {size[0]}x{size[1]} pixels are {total} megapixels, above the"
            f" limit of {most}; give a smaller size, or set DRESSI_MAX_MEGAPIXELS={-(-total // 8)}"
        )


# Photographs of one size are cut to parts that hold the object.

LOOK = 320
"""Columns of the pictures in which the parts are looked for."""
MARGIN, LEAST_MARGIN = 0.06, 4
"""Around what masks cover: a share of the longer side of the parts, and at least so many pixels of those pictures."""
WORTH = 0.85
"""Parts that are a larger share of the pictures are not cut out."""


@dataclass(frozen=True)
class Part:
    """The part of ``size`` from the pixel ``corner`` (x, y) on, of a picture of ``whole`` pixels, to which a photograph is
    resized before; the part is resized to ``frame``. Sizes are (W, H)."""

    corner: tuple[int, int]
    size: Size
    whole: Size
    frame: Size

    def of(self, camera: Camera) -> Camera:
        """The camera of the part."""
        return camera.resized(self.whole).cut(self.corner, self.size).resized(self.frame)


def _parts(read: list[tuple[View, Part, Layers]], common: Size) -> list[Part] | None:
    """Parts of photographs of one size, which were read small, with about as many pixels as ``common``; None where whole
    pictures are as good."""
    view, look, _ = read[0]
    full, scale = np.array(view.camera.size), np.array(view.camera.size) / look.frame
    places = [np.argwhere(layer.coverage >= 0.5)[:, ::-1] for *_, layer in read]
    low, high = np.stack([p.min(0) for p in places]) * scale, np.stack([p.max(0) + 1 for p in places]) * scale
    extent = (high - low).max(0)
    extent = np.minimum(extent + 2 * np.maximum(MARGIN * extent.max(), LEAST_MARGIN * scale.max()), full)
    if extent.prod() > WORTH * full.prod():
        return None
    density = min(1.0, float(np.sqrt(np.prod(common) / extent.prod())))
    # The lens is removed from the whole picture, which needs no more than twice the pixels.
    lens = any(one.lens for one, *_ in read)
    whole = scaled_size(view.camera.size, min(1.0, 2 * density) if lens else 1.0)
    ratio = whole / full
    size = np.minimum(np.ceil(extent * ratio), whole).astype(int)
    corners = np.clip(np.rint(0.5 * (low + high) * ratio - 0.5 * size).astype(int), 0, whole - size)
    width, height = size.tolist()
    frame = scaled_size((width, height), density / float(ratio[0]))
    return [Part((int(x), int(y)), (width, height), whole, frame) for x, y in corners]


def _stacked(read: list[tuple[View, Part, Layers]]) -> list[np.ndarray]:
    """Colours, coverage, what is known, and depths, (N, H, W, ...) each, of layers, which are given up one by one."""
    first = read[0][2]
    parts = [first.color, first.coverage, first.known, first.depth]
    stacks = [np.empty((len(read), *part.shape), part.dtype) for part in parts]
    for k in range(len(read)):
        layer = read.pop(0)[2]
        for stack, part in zip(stacks, (layer.color, layer.coverage, layer.known, layer.depth), strict=True):
            stack[k] = part
    return stacks


def _all_read(
    views: Sequence[View],
    parts: Sequence[Part],
    common: Size,
    masks: Callable[[View, np.ndarray], np.ndarray] | None,
    depths: Depths | None,
) -> list[tuple[View, Part, Layers]]:
    """The parts of photographs, one by one."""
    read = []
    for view, part in zip(views, parts, strict=True):
        with usable(view.image, "the photograph with its camera"):
            read.append((view, part, _read(view, part, common, masks, depths)))
    return read


def _read(
    view: View,
    part: Part,
    common: Size,
    masks: Callable[[View, np.ndarray], np.ndarray] | None,
    depths: Depths | None,
) -> Layers:
    """A photograph without its lens, at its size in the common one; known is bool, and nothing is covered elsewhere."""
    codes = read_image(view.image)
    color, taken = to_linear_rgb(codes).astype(np.float32), codes.shape
    cut = None if view.panorama is None else Undistortion.cut(view.camera, view.panorama)
    if cut:
        codes, color = cut(codes), cut(color)
    if masks is not None:
        coverage = np.asarray(masks(view, codes), dtype=np.float32)
    elif view.mask is not None:
        mask = read_image(view.mask)
        if mask.shape[:2] != taken[:2]:
            raise InputError(
                f"'{view.mask}' has {mask.shape[1]}x{mask.shape[0]} pixels and its image '{view.image.name}'"
                f" {taken[1]}x{taken[0]}; give masks of the images' size, as they are stored:"
                " EXIF data turns nothing"
            )
        coverage = cut(mask[..., 0]) if cut else mask[..., 0]
    elif codes.shape[-1] == 4:
        coverage = codes[..., 3]
    else:
        raise InputError(
            f"'{view.image}' has no mask: add masks of the same names in a folder 'mask', give images with"
            f" alpha, or let masks be made by {WAYS}"
        )
    depth = np.zeros_like(coverage) if depths is None else depths.read(view.image, view.camera.size)
    layers = Layers(color, coverage, np.ones_like(coverage), depth)
    camera, frame = view.camera, part.frame
    whole = part.whole if part.size != part.whole else (2 * frame[0], 2 * frame[1])
    if view.lens and camera.size[0] > whole[0] and camera.size[1] > whole[1]:
        # Most of the pixels of a large photograph would be moved for nothing.
        layers, camera = layers.mapped(lambda image: resize(image, whole)), camera.resized(whole)
    if view.lens:
        layers = layers.mapped(Undistortion.of(camera, view.lens))
    if part.size != part.whole:
        layers = layers.cut(part.corner, part.size)
    if (layers.color.shape[1], layers.color.shape[0]) != tuple(frame):
        layers = layers.mapped(lambda image: resize(image, frame))
    layers = layers.padded(common)
    known = layers.known > 0.999
    coverage = np.where(known, np.clip(layers.coverage, 0, 1), 0).astype(np.float32)
    covered = coverage >= 0.5
    if not covered.any() and masks is None:
        raise InputError(
            f"the mask '{view.mask or view.image}' is empty; draw the object in it or remove the view"
        )
    color = (layers.color * known[..., None]).astype(np.float32)
    depth = (layers.depth * covered).astype(np.float32)
    return Layers(color, coverage, known, depth)


def _with_object(
    calibration: Calibration, read: list[tuple[View, Part, Layers]]
) -> list[tuple[View, Part, Layers]]:
    """Those with an object in the mask that was made; the others are noted. Raises InputError if most are."""
    kept = [one for one in read if (one[2].coverage >= 0.5).any()]
    missing = [f"'{view.image.name}'" for view, _, layer in read if not (layer.coverage >= 0.5).any()]
    lost = f"no object was found in {len(missing)} of {len(read)} photographs"
    if 2 * len(kept) < len(read) or not kept:
        raise InputError(f"{lost}, such as {missing[0]}; choose another --masks")
    if missing:
        names = ", ".join(missing[:6]) + (" ..." if len(missing) > 6 else "")
        calibration.notes.append(
            f"{lost}, which are left out: {names}; choose another --masks if they show it"
        )
    return kept


def _estimated(
    calibration: Calibration, masks: np.ndarray, cameras: Cameras, known: np.ndarray
) -> np.ndarray:
    """The box of the object where no calibration has it.

    Of one view, the distance of the object is that of the calibration's points in the mask. Without such
    points it is the distance of the origin of the world, if that is in front of the camera; the box is as
    deep as it is wide and high.
    """
    if len(cameras) > 1:
        calibration.notes.append(
            f"'{calibration.path}' has no \"bbox\": the object's box is that of the coarse hull of the masks"
        )
        return estimate_bounds(masks, cameras, known=known)
    camera, mask = cameras[0], masks[0]
    points = sparse_points(calibration.model, calibration.views).positions
    pixel, depth = camera.project(points)
    column, row = np.floor(np.nan_to_num(np.clip(pixel, -1, max(camera.size)), nan=-1)).astype(int).T
    shown = (depth > 0) & (column >= 0) & (row >= 0) & (column < camera.size[0]) & (row < camera.size[1])
    shown[shown] = mask[row[shown], column[shown]] > 0
    at_origin = float(camera.translation[2])
    far = float(np.median(depth[shown])) if shown.any() else at_origin if at_origin > 1e-6 else 1.0
    source = "the calibration's points" if shown.any() else "the distance of the world's origin"
    calibration.notes.append(
        f"one photograph does not say how far away the object is, nor how deep: {source} gave {far:.4g}"
        " units,"
        ' and what it hides is a guess; give more photographs, or "bbox" with the calibration'
    )
    y, x = np.nonzero(mask)
    k = camera.intrinsics
    low, high = np.array([x.min(), y.min()]), np.array([x.max(), y.max()]) + 1
    middle = np.linalg.inv(k) @ np.append((low + high) / 2, 1.0) * far
    half = 0.5 * far * float(((high - low) / (k[0, 0], k[1, 1])).max())
    center = camera.rotation.T @ (middle - camera.translation)
    return np.stack([center - half, center + half])


# Depth pictures beside photographs: the distance from the camera along its axis, in units of the world, 0
# where unknown.
#
# ``depth/NAME.png`` of 16 bits holds codes, so many to one unit of the world: 1000 by default (millimetres,
# in a world in metres), 5000 in data sets of TUM. ``depth/NAME.npy`` holds such codes as integers, or floats
# in units of the world.

FOLDER = "depth"
CODES = 1000.0
"""Codes in one unit of the world if nobody says how many."""
FAR = 10.0
"""Depths that differ from the distance of the object by such a factor are in other units."""


@dataclass(frozen=True)
class Depths:
    """The depth pictures in the folder ``depth`` of a folder of photographs.

    scale: codes in one unit of the world; of floats, their units in one. None: CODES, and 1 for floats.
    """

    folder: Path
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(
                "a scale of depths is the number of codes in one unit of the scene, such as 1000, not"
                f" {self.scale}"
            )
        if not (self.folder / FOLDER).is_dir():
            raise InputError(
                f"'{self.folder}' has no folder '{FOLDER}'; add one with a depth picture for each photograph,"
                " or leave out --depth"
            )

    def read(self, image: Path, size: tuple[int, int]) -> np.ndarray:
        """(H, W) float32: the depths of a photograph of that size, 0 where unknown. Raises InputError."""
        folder = self.folder / FOLDER
        files = [folder / (image.stem + suffix) for suffix in (".png", ".npy")]
        path = next((file for file in files if file.is_file()), None)
        if path is None:
            raise InputError(
                f"'{folder}' has no depth picture for '{image.name}'; add '{files[0].name}', or remove the"
                " view"
            )
        path = followed(path, self.folder, folder)
        data = read_bytes(path, "depth picture")
        with usable(path, "the depth picture"):
            values = _array(data) if path.suffix == ".npy" else _codes(data, path)
        if values.shape[::-1] != tuple(size):
            raise InputError(
                f"the depth picture '{path}' has {values.shape[1]}x{values.shape[0]} pixels and its"
                f" photograph '{image.name}'"
                f" {size[0]}x{size[1]}; register the depth to the photograph's camera"
            )
        scale = self.scale or (1.0 if values.dtype.kind == "f" else CODES)
        depths = values.astype(np.float64) / scale
        depths = np.where(np.isfinite(depths) & (depths > 0), depths, 0.0).astype(np.float32)
        if not depths.any():
            raise InputError(
                f"the depth picture '{path}' is 0 (unknown) everywhere; export it again, or remove the view"
            )
        return depths

    def check(self, name: str, depths: np.ndarray, camera: Camera, center: np.ndarray) -> None:
        """Raise InputError if depths (H, W), 0 where unknown, are in other units than the camera."""
        known = depths[depths > 0]
        away = float(camera.project(center)[1])
        if len(known) == 0 or 1 / FAR < np.median(known) / away < FAR:
            return
        codes = "" if self.scale is None else f" (now {self.scale:g})"
        raise InputError(
            f"the depth of '{name}' is {float(np.median(known)):.4g} units of the scene, but its camera is"
            f" {away:.4g} away from the object; give --depth-scale, the number of codes in one unit{codes}"
        )


def _codes(data: bytes, path: Path) -> np.ndarray:
    """(H, W) uint16."""
    values = decode_pixels(data, str(path)).values
    if values.dtype != np.uint16 or values.shape[-1] != 1:
        raise InputError(
            f"the depth picture '{path}' is no grey PNG of 16 bits; export depths as such, or as a .npy array"
        )
    return values[..., 0]


def _array(data: bytes) -> np.ndarray:
    """(H, W) numbers of a .npy file; nothing is allocated from what its head says."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns_first, dtype = read(stream)
    if dtype.kind not in "fui" or len(shape) != 2:
        raise InputError(f"it must hold (H, W) numbers, not {shape} of {dtype}; save the depths as float32")
    if shape[0] * shape[1] > config.max_megapixels * 1_000_000:
        raise InputError(
            f"{shape[1]}x{shape[0]} depths are above the limit of {config.max_megapixels} megapixels"
        )
    values = np.frombuffer(data, dtype, shape[0] * shape[1], stream.tell())
    return values.reshape(shape, order="F" if columns_first else "C")
