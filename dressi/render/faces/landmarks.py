"""Landmarks in files: the 68 points of Multi-PIE, or the 478 (468) of MediaPipe, of any detector."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ..io.files import parse_json, read_bytes, usable
from .model import POINTS

MEDIAPIPE = (
    127, 234, 93, 58, 172, 136, 149, 148, 152, 377, 378, 365, 397, 288, 323, 454, 356,
    70, 63, 105, 66, 107, 336, 296, 334, 293, 300,
    168, 197, 5, 4, 75, 97, 2, 326, 305,
    33, 160, 158, 133, 153, 144, 362, 385, 387, 263, 373, 380,
    61, 39, 37, 0, 267, 269, 291, 405, 314, 17, 84, 181,
    78, 82, 13, 312, 308, 317, 14, 87,
)  # fmt: skip
"""Numbers of MediaPipe's points that lie at the 68 of Multi-PIE."""
COUNTS = (POINTS, 468, 478)
MOST_BYTES = 16 << 20
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan", re.IGNORECASE)


def load_landmarks(path: str | os.PathLike, size: tuple[int, int] | None = None) -> np.ndarray:
    """(68, 2) float64: places in pixels, (0, 0) is the outer corner of the first pixel; NaN where there is none. The points
    of several pictures are (N, 68, 2).

    The file is .json (a list of points, of objects with "x" and "y", or an object whose "landmarks" are one of these), .npy, .pts,
    or text with a point a line: 68 points of Multi-PIE, or 468 or 478 of MediaPipe, of which those at the 68 are taken. Further
    coordinates, such as a depth, are left out.
    size: (W, H) of the picture, for coordinates that are fractions of it, as MediaPipe gives them. Raises InputError.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.json")
    >>> _ = open(path, "w").write(str([[10.0, 20.0]] * 68))
    >>> load_landmarks(path).shape
    (68, 2)
    """
    path = Path(path)
    if size is not None and not (len(size) == 2 and min(size) > 0):
        raise InputError(f"size= of landmarks is (width, height) of their picture in pixels, not {size}")
    data = read_bytes(path, "file of landmarks", most=MOST_BYTES)
    with usable(path, "its landmarks"):
        if path.suffix == ".npy":
            found = np.load(io.BytesIO(data), allow_pickle=False)
        elif path.suffix == ".json":
            found = _rows(parse_json(data, path))
        else:
            found = _text(data.decode("utf-8"), path.suffix == ".pts")
        found = np.asarray(found, np.float64)
    if found.ndim not in (2, 3) or found.shape[-1] < 2 or found.shape[-2] not in COUNTS:
        raise InputError(
            f"'{path}' has an array {found.shape}, not 68 points of Multi-PIE or 468 or 478 of MediaPipe; export all points"
        )
    found = found[..., :2] if found.shape[-2] == POINTS else found[..., MEDIAPIPE, :2]
    if np.isinf(found).any():
        raise InputError(f"'{path}' has a landmark at infinity; write NaN for points that are not seen")
    return found if size is None else found * np.asarray(size, np.float64)


def _rows(value: Any) -> Any:
    """Points of parsed JSON as nested lists."""
    if isinstance(value, dict):
        if "landmarks" in value:
            return _rows(value["landmarks"])
        if not {"x", "y"} <= {*value}:
            raise InputError("a landmark is an object with x and y, or a list; or 'landmarks' are the points")
        return [value["x"], value["y"]]
    if isinstance(value, list):
        return [_rows(item) for item in value]
    return np.nan if value is None else float(value)


def _text(text: str, braces: bool) -> list[list[float]]:
    """A point a line; of .pts those between the braces."""
    if braces:
        if not 0 <= text.find("{") < text.find("}"):
            raise InputError(
                "it is truncated, or no .pts file: the points stand between { and }; copy it again"
            )
        text = text[text.index("{") + 1 : text.index("}")]
    lines = [line for line in map(_NUMBER.findall, text.splitlines()) if line]
    for k, line in enumerate(lines):
        if len(line) != len(lines[0]) or len(line) < 2:
            raise InputError(
                f"landmark {k} has {len(line)} numbers, the first {len(lines[0])}; copy it again"
            )
    return [[float(number) for number in line] for line in lines]
