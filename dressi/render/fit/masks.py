"""Masks for photographs without masks: from what all of them look at, a picture of the background, a
threshold, the object's box, or a library.

Colours are compared in CIELAB (D65), where a distance of about 2 is just noticeable. Every mask has the size
of its photograph, (H, W) bool, True on the object. Masks are estimates: check them before use.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import ConvexHull, QhullError

from ...errors import InputError
from ..io.calibration import SUFFIXES, Calibration, SparsePoints, View
from ..io.images import has_alpha, read_image
from ..io.photos import WAYS
from ..reconstruct.motion import triangulate
from .common_masks import border, clean, common_masks, grown, lab, least_distance, sharpened

MaskMaker = Callable[[View, np.ndarray], np.ndarray]
"""A view and its picture's codes (H, W, C) in [0, 1] to a mask (H, W), bool. Raises InputError."""

SURE = 2.5
"""Every connected part needs a pixel whose distance is this many times the least distance."""
FAINT = 0.45
"""Low threshold of the hysteresis, as a share of Otsu's threshold."""


@dataclass(frozen=True)
class Way:
    """One way of making masks. make: from the text after the colon, and the calibration of the photographs;
    None if the text is not valid.  calibrated: whether it uses the calibration."""

    make: Callable[[str, Calibration | None], MaskMaker | None]
    calibrated: bool = False


def mask_maker(text: str, calibration: Calibration | None = None) -> MaskMaker:
    """The maker for the value of ``--masks``. calibration: of the photographs, for ``box`` and ``auto``.
    Raises InputError."""
    name, _, rest = text.partition(":")
    made = MASK_WAYS[name].make(rest, calibration) if name in MASK_WAYS else None
    if made is None:
        raise InputError(f"--masks {text!r} is no way to make masks; give {WAYS}")
    return made


def needs_calibration(text: str) -> bool:
    """Whether ``mask_maker`` of this text needs the calibration of the photographs."""
    name = text.partition(":")[0]
    return name in MASK_WAYS and MASK_WAYS[name].calibrated


def has_masks(calibration: Calibration) -> bool:
    """Whether the photographs come with masks, as files or as their alpha."""
    view = calibration.views[0]
    return view.mask is not None or has_alpha(view.image)


# ---------------------------------------------------------------------------- the background


@dataclass
class Background:
    """Masks by the difference to a photograph of the background alone, taken with the camera in the same
    place.

    path: one file for all photographs, or a folder with a file for each photograph, of the same name.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise InputError(
                f"there is no '{self.path}' for --masks background; give a photograph of the background, or a"
                " folder of them"
            )

    def __call__(self, view: View, codes: np.ndarray) -> np.ndarray:
        path = self.path
        if path.is_dir():
            files = [path / (view.image.stem + suffix) for suffix in (view.image.suffix, *SUFFIXES)]
            path = next((file for file in files if file.is_file()), path)
            if path.is_dir():
                what = f"'{path}' has no photograph of the background for '{view.image.name}'"
                raise InputError(f"{what}; add one of that name")
        other = read_image(path)
        if other.shape[:2] != codes.shape[:2]:
            raise InputError(
                f"the background '{path}' has {other.shape[1]}x{other.shape[0]} pixels and"
                f" '{view.image.name}' {codes.shape[1]}x{codes.shape[0]}; take both with the same camera"
            )
        return difference(codes, other)


def difference(codes: np.ndarray, background: np.ndarray) -> np.ndarray:
    """(H, W) bool: where two pictures (H, W, C) differ by more than noise, cleaned. The noise is estimated at
    the border of the picture, which should mostly show background."""
    change = gaussian_filter(lab(codes) - lab(background), (0.7, 0.7, 0))
    distance = np.linalg.norm(change, axis=-1)
    least = least_distance(distance)
    return clean(sharpened(codes, grown(distance, least, SURE * least), background, deep=2))


# ---------------------------------------------------------------------------- thresholds


@dataclass(frozen=True)
class Contrast:
    """A measure that separates an object from its background. value: (H, W) from the CIELAB picture (H, W, 3)
    and the median colour (3,) at its border, larger on the object.  grows: whether parts close to the
    background's colour belong to the object if they are connected to it (hysteresis)."""

    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    grows: bool = False


CONTRASTS = {
    "colour": Contrast(lambda colour, usual: np.linalg.norm(colour - usual, axis=-1), grows=True),
    "dark": Contrast(lambda colour, usual: 100.0 - colour[..., 0]),
    "bright": Contrast(lambda colour, usual: colour[..., 0]),
    "saturation": Contrast(lambda colour, usual: np.linalg.norm(colour[..., 1:], axis=-1)),
    "chroma": Contrast(lambda colour, usual: np.linalg.norm((colour - usual)[..., 1:3], axis=-1), grows=True),
}


def threshold(codes: np.ndarray, kind: str = "colour") -> np.ndarray:
    """(H, W) bool: pixels of a picture (H, W, C) above Otsu's threshold and the parts connected to them,
    cleaned.

    kind: "colour" is the distance to the median colour at the picture's border; "chroma" the same without
    lightness, which shadows on a green screen do not change; "dark", "bright" and "saturation" are for
    objects with that property.
    """
    colour, contrast = lab(codes), CONTRASTS[kind]
    usual = np.median(colour[border(colour.shape[:2])], axis=0)
    smooth = gaussian_filter(contrast.value(colour, usual), 0.7)
    sure = otsu(smooth)
    least = max(least_distance(smooth), FAINT * sure) if contrast.grows else sure
    return clean(sharpened(codes, grown(smooth, min(least, sure), sure)))


def otsu(values: np.ndarray) -> float:
    """The threshold with the largest variance between the two classes (Otsu 1979)."""
    count, edges = np.histogram(values, 256)
    middle = (edges[1:] + edges[:-1]) / 2
    low = np.cumsum(count)
    high = low[-1] - low
    total = np.cumsum(count * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = low * high * (total / low - (total[-1] - total) / high) ** 2
    between = np.nan_to_num(between, nan=0.0, posinf=0.0)
    # In a gap between two classes every threshold is equally good: take the middle one.
    best = np.flatnonzero(between >= between.max() * (1 - 1e-9))
    return float((edges[best[0] + 1] + edges[best[-1] + 1]) / 2)


# ---------------------------------------------------------------------------- the box, and a library


def box(view: View, bounds: np.ndarray) -> np.ndarray:
    """(H, W) bool: the silhouette of a box (2, 3) seen by a view, through its lens. Raises InputError naming
    the view.

    A fit to such masks finds the box, not the object, unless colours are compared too.
    """
    share = np.linspace(0, 1, 9)
    grid = np.stack(np.meshgrid(share, share, share, indexing="ij"), axis=-1).reshape(-1, 3)
    points = bounds[0] + grid[((grid == 0) | (grid == 1)).sum(1) >= 2] * (bounds[1] - bounds[0])
    camera = view.camera
    local = points @ camera.rotation.T + camera.translation
    if (local[:, 2] <= 0).any():
        what = f"the camera of '{view.image.name}' is inside or beside the object's box"
        raise InputError(f"{what}; check its matrices")
    plane = local[:, :2] / local[:, 2:]
    if view.lens:
        plane = view.lens.distort(plane)
    pixels = plane @ camera.intrinsics[:2, :2].T + camera.intrinsics[:2, 2]
    try:
        sides = ConvexHull(pixels).equations
    except (QhullError, ValueError):
        text = f"the object's box has no extent in '{view.image.name}'; check its \"bbox\""
        raise InputError(text) from None
    width, height = camera.size
    y, x = np.mgrid[:height, :width] + 0.5
    inside = np.ones((height, width), dtype=bool)
    for a, b, c in sides:
        inside &= a * x + b * y + c <= 0
    return inside


def _rembg(model: str) -> MaskMaker:
    """Masks by the library rembg. model: one of its names, or empty for its default."""
    try:
        from rembg import new_session, remove  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            "--masks rembg needs the library rembg: pip install 'dressi[masks]'; or give another --masks"
        ) from None
    sessions: list[Any] = []

    def make(view: View, codes: np.ndarray) -> np.ndarray:
        colours = np.repeat(codes[..., :3], 3 // min(codes.shape[-1], 3), axis=-1)
        picture = (colours * 255 + 0.5).astype(np.uint8)
        try:
            if not sessions:
                sessions.append(new_session(model) if model else new_session())
            mask = np.asarray(remove(picture, session=sessions[0], only_mask=True))
        except Exception as error:  # rembg has many backends and downloads its models
            text = " ".join(str(error).split())[:200] or type(error).__name__
            what = f"rembg made no mask for '{view.image.name}': {text}"
            raise InputError(f"{what}; give another --masks") from None
        return clean(mask.reshape(codes.shape[:2]) >= 128)

    return make


# ---------------------------------------------------------------------------- the ways, by name


def _threshold(rest: str, calibration: Calibration | None) -> MaskMaker | None:
    kind = rest or "colour"
    return (lambda view, codes: threshold(codes, kind)) if kind in CONTRASTS else None


def _box(rest: str, calibration: Calibration | None) -> MaskMaker | None:
    if rest:
        return None
    bounds = None if calibration is None else calibration.bounds
    if bounds is None:
        raise InputError(
            '--masks box needs the object\'s box: add "bbox": [[x, y, z], [x, y, z]] to cameras.json or'
            " transforms.json"
        )
    return lambda view, codes: box(view, bounds)


def _auto(rest: str, calibration: Calibration | None) -> MaskMaker | None:
    """By rembg if it is installed and its model was downloaded before, otherwise from what all photographs
    look at."""
    if rest or calibration is None:
        return None
    if _rembg_is_ready():
        return _rembg("")
    masks = common_masks(calibration, _points(calibration))
    return lambda view, codes: masks[view.image]


def _points(calibration: Calibration) -> SparsePoints | None:
    """Points of cameras that come without any; None where pycolmap is missing or finds none."""
    if calibration.model is not None or importlib.util.find_spec("pycolmap") is None:
        return None
    try:
        return triangulate(calibration)
    except InputError:
        return None


def _rembg_is_ready() -> bool:
    home = os.environ.get("U2NET_HOME") or Path.home() / ".u2net"
    return importlib.util.find_spec("rembg") is not None and (Path(home) / "u2net.onnx").is_file()


MASK_WAYS = {
    "auto": Way(_auto, calibrated=True),
    "background": Way(lambda rest, calibration: Background(Path(rest)) if rest else None),
    "threshold": Way(_threshold),
    "box": Way(_box, calibrated=True),
    "rembg": Way(lambda rest, calibration: _rembg(rest)),
}
