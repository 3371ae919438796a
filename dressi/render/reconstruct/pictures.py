"""The photographs of a folder, and what their files say of the camera that took them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, shown
from ..io.calibration import MASK_FOLDERS, PLACES, mask_in, pictures_in
from ..io.files import read_bytes
from ..io.images import image_size, read_image
from ..io.pixels import opened

FEWEST = 3
"""Photographs that a reconstruction needs."""


@dataclass(frozen=True)
class Picture:
    """name: relative to the folder of the photographs.  size: (W, H) of the pixels as they are stored.
    mask: the file of its mask, None where there is none."""

    name: str
    path: Path
    size: tuple[int, int]
    exif: Exif
    mask: Path | None = None

    @property
    def covered(self) -> np.ndarray | None:
        """(H, W) bool: the object, by the mask, or else by the alpha of the picture. None without both; alpha that is nowhere
        below 1/2 tells nothing apart, and counts as none."""
        if self.mask is not None:
            return read_image(self.mask)[..., 0] > 0.5
        codes = read_image(self.path)
        found = codes[..., -1] > 0.5
        return found if codes.shape[-1] == 4 and not found.all() else None

    @property
    def focal(self) -> float | None:
        """In pixels, as the file says it."""
        diagonal = float(np.hypot(*self.size))
        return self.exif.film_focal / FILM_DIAGONAL * diagonal if self.exif.film_focal else None

    @property
    def camera(self) -> tuple:
        """Pictures of the same camera, lens and zoom have equal ones, and share their intrinsics."""
        return (self.size, self.exif.model, self.exif.film_focal)

    @property
    def up(self) -> np.ndarray:
        """(3,) upwards in the axes of the camera (x right, y down), as the camera was held."""
        return np.array(_UP.get(self.exif.orientation, (0.0, -1.0, 0.0)))


_UP = {3: (0.0, 1.0, 0.0), 4: (0.0, 1.0, 0.0), 5: (-1.0, 0.0, 0.0), 6: (-1.0, 0.0, 0.0), 7: (1.0, 0.0, 0.0), 8: (1.0, 0.0, 0.0)}  # fmt: skip
"""By the orientation of EXIF: where the upper side of the scene is in the pixels as they are stored."""


def list_pictures(folder: Path) -> list[Picture]:
    """Sorted by name: those in the folder, or in ``image``, ``images`` or ``train`` below it. Raises InputError."""
    if not folder.is_dir():
        raise InputError(f"there is no folder '{folder}'; give the folder that holds the photographs")
    for place in PLACES:
        files = pictures_in(folder / place)
        if files:
            break
    if len(files) < FEWEST:
        raise InputError(
            f"'{folder}' has {len(files)} photographs, and cameras are found of {FEWEST} or more; add photographs from"
            " other sides, 20 to 60 in all"
        )
    root = folder.resolve()
    masks = [folder / place for place in MASK_FOLDERS if (folder / place).is_dir()]
    pictures = []
    for file in files:
        size = image_size(file)
        mask = next((found for place in masks if (found := mask_in(place, file)) is not None), None)
        pictures.append(Picture(file.relative_to(root).as_posix(), file, size, read_exif(file, size), mask))
    return pictures


# What a camera wrote beside its picture (EXIF).

FILM_DIAGONAL = 43.27
"""Millimetres."""
_MODEL, _ORIENTATION, _OWN = 0x0110, 0x0112, 0x8769
_FOCAL, _FILM_FOCAL = 0x920A, 0xA405
_WIDTH, _HEIGHT, _DENSITY, _UNIT = 0xA002, 0xA003, 0xA20E, 0xA210


@dataclass(frozen=True)
class Exif:
    """orientation: 1 to 8, of the TIFF standard, 1 if it is missing.  model: of the camera, "" if it is missing.
    film_focal: the focal length in millimetres on a picture with the diagonal of 35 mm film, 0 if it is missing."""

    orientation: int = 1
    model: str = ""
    film_focal: float = 0.0


def read_exif(path: Path, size: tuple[int, int]) -> Exif:
    """Of a picture of a size (W, H). Data that is damaged counts as missing. Raises InputError if the file is no picture."""
    with opened(read_bytes(path, "image"), str(path)) as image:
        if image is None:
            return Exif()
        try:
            tags = image.getexif()
            orientation = int(tags.get(_ORIENTATION, 1))
            model, focal = shown(tags.get(_MODEL, "")), _film_focal(tags.get_ifd(_OWN), size)
        except Exception:  # Pillow's parsers raise many kinds of exceptions
            return Exif()
    return Exif(orientation if 1 <= orientation <= 8 else 1, model, focal)


def _film_focal(tags: Mapping[int, Any], size: tuple[int, int]) -> float:
    """As the file says it, or from the focal length of the lens and the pixels in a unit of length of the sensor."""
    focal = float(tags.get(_FILM_FOCAL) or 0)
    if not focal and tags.get(_FOCAL) and tags.get(_DENSITY):
        unit = {3: 10.0, 4: 1.0}.get(tags.get(_UNIT, 2), 25.4)
        longest = max(float(tags.get(_WIDTH) or 0), float(tags.get(_HEIGHT) or 0)) or max(size)
        diagonal = longest / float(tags[_DENSITY]) * unit * float(np.hypot(*size)) / max(size)
        focal = float(tags[_FOCAL]) / diagonal * FILM_DIAGONAL
    return focal if 5 < focal < 2000 else 0.0
