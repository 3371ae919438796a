"""Masks for photographs that come without: from a picture of the background, a threshold, the object's box, or a library.

Colours are compared in CIELAB (D65), where a distance of about 2 is just seen. Every mask is of the photograph's own size,
(H, W) bool, True on the object. They are guesses: look at them before they are believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import (
    binary_dilation,
    binary_erosion,
    binary_fill_holes,
    gaussian_filter,
    label,
)
from scipy.spatial import ConvexHull, QhullError

from ...errors import InputError
from ..io.calibration import SUFFIXES, View
from ..io.images import read_image, to_linear_rgb
from ..io.photos import WAYS

MaskMaker = Callable[[View, np.ndarray], np.ndarray]
"""A view and its picture's codes (H, W, C) in [0, 1] to a mask (H, W). Raises InputError."""

SEEN = 3.0
"""Least distance of two colours that counts as one, in CIELAB: just above what is seen, and what JPEG changes."""
NOISE = 4.0
"""By how many standard deviations of the background's own differences it lies above their median."""
SURE = 2.5
"""Each part of an object has somewhere a distance of so many times the least."""
FAINT = 0.45
"""Share of Otsu's threshold above which pixels still belong to an object that is above it elsewhere."""
PART, HOLE = 0.05, 0.01
"""Parts smaller than this share of the largest are dropped, holes smaller than this share of the mask are filled."""


@dataclass(frozen=True)
class Way:
    """One way of making masks. make: from what follows the colon, and the box (2, 3) of the object; None if the text does
    not fit the way.  needs_box: whether it uses the box."""

    make: Callable[[str, np.ndarray | None], MaskMaker | None]
    needs_box: bool = False


def mask_maker(text: str, bounds: np.ndarray | None = None) -> MaskMaker:
    """What makes masks as ``--masks`` asks. bounds: (2, 3) box of the object, for ``box``. Raises InputError."""
    name, _, rest = text.partition(":")
    made = MASK_WAYS[name].make(rest, bounds) if name in MASK_WAYS else None
    if made is None:
        raise InputError(f"--masks {text!r} is no way to make masks; give {WAYS}")
    return made


def needs_box(text: str) -> bool:
    """Whether ``mask_maker`` of this text needs the box of the object."""
    name = text.partition(":")[0]
    return name in MASK_WAYS and MASK_WAYS[name].needs_box


# ---------------------------------------------------------------------------- the background


@dataclass
class Background:
    """Masks by the difference to a photograph of the background alone, taken with the camera in the same place.

    path: one file for all photographs, or a folder with one of each photograph's name.
    """

    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise InputError(
                f"there is no '{self.path}' for --masks background; give a photograph of the background, or a folder of them"
            )

    def __call__(self, view: View, codes: np.ndarray) -> np.ndarray:
        path = self.path
        if path.is_dir():
            found = [path / (view.image.stem + suffix) for suffix in (view.image.suffix, *SUFFIXES)]
            path = next((file for file in found if file.is_file()), path)
            if path.is_dir():
                raise InputError(
                    f"'{path}' has no photograph of the background for '{view.image.name}'; add one of that name"
                )
        other = read_image(path)
        if other.shape[:2] != codes.shape[:2]:
            raise InputError(
                f"the background '{path}' has {other.shape[1]}x{other.shape[0]} pixels and '{view.image.name}'"
                f" {codes.shape[1]}x{codes.shape[0]}; take both with the same camera"
            )
        return difference(codes, other)


def difference(codes: np.ndarray, background: np.ndarray) -> np.ndarray:
    """(H, W) bool: where two pictures (H, W, C) differ by more than noise, cleaned.

    The noise is that of the picture's border, which should mostly show background.
    """
    change = gaussian_filter(lab(codes) - lab(background), (0.7, 0.7, 0))
    distance = np.linalg.norm(change, axis=-1)
    least = _least(distance)
    return clean(_sharp(codes, _grown(distance, least, SURE * least), background))


# ---------------------------------------------------------------------------- thresholds


@dataclass(frozen=True)
class Contrast:
    """What tells an object from its background. value: (H, W) from the CIELAB picture (H, W, 3) and the usual colour (3,)
    at its border, larger on the object.  grows: whether parts that are nearly of the background's colour belong to the
    object where they hang together with the rest."""

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
    """(H, W) bool: pixels of a picture (H, W, C) above Otsu's threshold and what hangs together with them, cleaned.

    kind: "colour" is the distance to the usual colour at the picture's border, "chroma" the same without lightness, which
    shadows on a green screen do not change; objects that are "dark", "bright" or of much "saturation" stand before others.
    """
    colour, contrast = lab(codes), CONTRASTS[kind]
    usual = np.median(colour[_frame(colour.shape[:2])], axis=0)
    smooth = gaussian_filter(contrast.value(colour, usual), 0.7)
    sure = otsu(smooth)
    least = max(_least(smooth), FAINT * sure) if contrast.grows else sure
    return clean(_sharp(codes, _grown(smooth, min(least, sure), sure)))


def otsu(values: np.ndarray) -> float:
    """The threshold that parts values into two classes of the largest variance between them (Otsu 1979)."""
    count, edges = np.histogram(values, 256)
    middle = (edges[1:] + edges[:-1]) / 2
    low = np.cumsum(count)
    high = low[-1] - low
    total = np.cumsum(count * middle)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = low * high * (total / low - (total[-1] - total) / high) ** 2
    between = np.nan_to_num(between, nan=0.0, posinf=0.0)
    # Between two classes without values amid them every threshold is as good: the middle one is meant.
    best = np.flatnonzero(between >= between.max() * (1 - 1e-9))
    return float((edges[best[0] + 1] + edges[best[-1] + 1]) / 2)


# ---------------------------------------------------------------------------- the box, and a library


def box(view: View, bounds: np.ndarray) -> np.ndarray:
    """(H, W) bool: the silhouette of a box (2, 3) seen by a view, through its lens. Raises InputError naming the view.

    A fit to it finds the box, not the object, unless colours say more.
    """
    share = np.linspace(0, 1, 9)
    grid = np.stack(np.meshgrid(share, share, share, indexing="ij"), axis=-1).reshape(-1, 3)
    points = bounds[0] + grid[((grid == 0) | (grid == 1)).sum(1) >= 2] * (bounds[1] - bounds[0])
    camera = view.camera
    local = points @ camera.rotation.T + camera.translation
    if (local[:, 2] <= 0).any():
        raise InputError(
            f"the camera of '{view.image.name}' is inside or beside the object's box; check its matrices"
        )
    plane = local[:, :2] / local[:, 2:]
    if view.lens:
        plane = view.lens.distort(plane)
    pixels = plane @ camera.intrinsics[:2, :2].T + camera.intrinsics[:2, 2]
    try:
        sides = ConvexHull(pixels).equations
    except (QhullError, ValueError):
        raise InputError(
            f"the object's box has no extent in '{view.image.name}'; check its \"bbox\""
        ) from None
    width, height = camera.size
    y, x = np.mgrid[:height, :width] + 0.5
    inside = np.ones((height, width), dtype=bool)
    for a, b, c in sides:
        inside &= a * x + b * y + c <= 0
    return inside


def _rembg(model: str) -> MaskMaker:
    """The library's own choice of model, or one of its names."""
    try:
        from rembg import new_session, remove  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            "--masks rembg needs the library rembg: pip install 'dressi[masks]'; or give another --masks"
        ) from None
    sessions: list[Any] = []

    def make(view: View, codes: np.ndarray) -> np.ndarray:
        picture = (np.repeat(codes[..., :3], 3 // min(codes.shape[-1], 3), axis=-1) * 255 + 0.5).astype(
            np.uint8
        )
        try:
            if not sessions:
                sessions.append(new_session(model) if model else new_session())
            found = np.asarray(remove(picture, session=sessions[0], only_mask=True))
        except Exception as error:  # of a library with many backends, which downloads its models
            text = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(
                f"rembg made no mask for '{view.image.name}': {text}; give another --masks"
            ) from None
        return clean(found.reshape(codes.shape[:2]) >= 128)

    return make


# ---------------------------------------------------------------------------- the ways, by name


def _background(rest: str, bounds: np.ndarray | None) -> MaskMaker | None:
    return Background(Path(rest)) if rest else None


def _threshold(rest: str, bounds: np.ndarray | None) -> MaskMaker | None:
    kind = rest or "colour"
    return (lambda view, codes: threshold(codes, kind)) if kind in CONTRASTS else None


def _box(rest: str, bounds: np.ndarray | None) -> MaskMaker | None:
    if rest:
        return None
    if bounds is None:
        raise InputError(
            '--masks box needs the object\'s box: add "bbox": [[x, y, z], [x, y, z]] to cameras.json or transforms.json'
        )
    return lambda view, codes: box(view, bounds)


MASK_WAYS = {
    "background": Way(_background),
    "threshold": Way(_threshold),
    "box": Way(_box, needs_box=True),
    "rembg": Way(lambda rest, bounds: _rembg(rest)),
}


# ---------------------------------------------------------------------------- parts


def lab(codes: np.ndarray) -> np.ndarray:
    """(H, W, 3) CIELAB of sRGB codes (H, W, 1, 3 or 4); alpha is ignored."""
    linear = to_linear_rgb(codes)
    matrix = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    t = (linear @ matrix.T) / matrix.sum(1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack(
        [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], axis=-1
    )


def clean(mask: np.ndarray) -> np.ndarray:
    """A mask without specks, small parts and small holes."""
    core = binary_dilation(binary_erosion(mask, np.ones((2, 2))), np.ones((3, 3)))
    mask = mask & core
    number, count = _labels(mask)
    if count > 1:
        areas = np.bincount(number.reshape(-1))[1:]
        mask = mask & np.append(False, areas >= PART * areas.max())[number]
    number, _ = _labels(binary_fill_holes(mask) & ~mask)
    areas = np.bincount(number.reshape(-1))
    areas[0] = mask.size
    return mask | (areas < max(HOLE * mask.sum(), 1))[number]


def _labels(mask: np.ndarray) -> tuple[np.ndarray, int]:
    number = np.zeros(mask.shape, dtype=np.int32)
    count = label(mask, output=number)
    return number, int(count)  # pyright: ignore[reportArgumentType]


def _frame(shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) bool: the outer 4 %, at least a pixel, along each side."""
    frame = np.ones(shape, dtype=bool)
    a, b = (max(round(0.04 * n), 1) for n in shape)
    frame[a:-a, b:-b] = False
    return frame


def _least(distance: np.ndarray) -> float:
    """The distance from which on a pixel is not background, by what the picture's border shows."""
    usual = distance[_frame(distance.shape)]
    middle = float(np.median(usual))
    return max(SEEN, middle + NOISE * 1.4826 * float(np.median(np.abs(usual - middle))))


def _grown(value: np.ndarray, least: float, sure: float) -> np.ndarray:
    """(H, W) bool: connected parts above ``least`` that somewhere are above ``sure``."""
    number, count = _labels(value > least)
    found = np.zeros(count + 1, dtype=bool)
    found[np.unique(number[value > sure])] = True
    found[0] = False
    return found[number]


def _sharp(codes: np.ndarray, mask: np.ndarray, background: np.ndarray | None = None) -> np.ndarray:
    """The mask with its outline where pixels, which mix what is on both sides of it in linear light, are half of either.

    Only pixels beside the outline change; two deep where the background (codes) is known.
    """
    linear = to_linear_rgb(codes).astype(np.float32)
    inner, outer = (_eroded(part, 2) for part in (mask, ~mask))
    front, here = _means(linear, inner)
    if background is None:
        back, there = _means(linear, outer)
    else:
        back, there = to_linear_rgb(background).astype(np.float32), np.ones(mask.shape, np.float32)
    axis = front - back
    square = (axis * axis).sum(-1)
    share = ((linear - back) * axis).sum(-1) / np.maximum(square, 1e-12)
    told = (here > 1e-4) & (there > 1e-4) & (square > 1e-4)
    beside = ~_eroded(~mask, 1) & ~_eroded(mask, 1 if background is None else 2)
    return np.where(beside & told, share >= 0.5, mask)


def _eroded(mask: np.ndarray, pixels: int) -> np.ndarray:
    """Without the pixels beside others; the picture's border is no outline."""
    return np.asarray(binary_erosion(mask, iterations=pixels, border_value=1), dtype=bool)


def _means(image: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the pixels around each one that a mask (H, W) has: their mean, and how much they are, in [0, 1]."""
    weight = gaussian_filter(where.astype(np.float32), 1.0)
    total = gaussian_filter(image * where[..., None], (1.0, 1.0, 0))
    return total / np.maximum(weight, 1e-6)[..., None], weight
