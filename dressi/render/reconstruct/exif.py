"""What a camera wrote beside its picture (EXIF)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..io.files import read_bytes, shown
from ..io.pixels import opened

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
