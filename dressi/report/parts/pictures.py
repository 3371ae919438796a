"""Pictures for the page: cut out of sheets, scaled down, compared, and encoded into the page itself."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
from PIL import Image, features

from ...errors import InputError
from ...render.io import read_image, resize

WORST = 0.25
"""The error, as a part of the range of sRGB codes, that has the brightest colour in an error map."""
MAP = "magma"
"""The colour map of errors: dark where there is none, uniform to the eye."""


def sheet_cells(
    path: Path, size: tuple[int, int], gap: int, columns: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(target, result) of every column of a sheet, whose rows are target, result and difference: sRGB codes (H, W, 3) in
    [0, 1]. Raises InputError where the sheet has another size."""
    codes, (width, height) = _three(read_image(path)), size
    expected = (3 * (height + gap) - gap, columns * (width + gap) - gap)
    if columns < 1 or codes.shape[:2] != expected:
        raise InputError(
            f"'{path}' has {codes.shape[1]}x{codes.shape[0]} pixels, and report.json speaks of {columns} views of"
            f" {width}x{height}; run `dressi fit` again, so that both are of one run"
        )

    def cell(row: int, column: int) -> np.ndarray:
        y, x = row * (height + gap), column * (width + gap)
        return codes[y : y + height, x : x + width]

    return [(cell(0, k), cell(1, k)) for k in range(columns)]


def first_frame(path: Path) -> np.ndarray:
    """(H, W, 3) codes of an image, or of the first frame of an animation. Raises InputError."""
    return _three(read_image(path))


def error_map(target: np.ndarray, result: np.ndarray) -> np.ndarray:
    """(H, W, 3) codes: the root mean square over the channels of the difference of the codes, black where there is none,
    brightest from ``WORST`` on.

    >>> grey = np.full((2, 2, 3), 0.5)
    >>> error_map(grey, grey).max() < 0.02 < 0.9 < error_map(grey, grey + 0.3).max()
    np.True_
    """
    error = np.sqrt(np.mean((np.asarray(target, float) - result) ** 2, axis=-1))
    return colour(np.clip(error / WORST, 0, 1))


def colour(share: np.ndarray) -> np.ndarray:
    """Codes of the colour map at places in [0, 1]."""
    import matplotlib

    return matplotlib.colormaps[MAP](share)[..., :3]


def scaled(codes: np.ndarray, side: int) -> np.ndarray:
    """The picture, its longer side at most ``side`` pixels."""
    height, width = codes.shape[:2]
    factor = side / max(height, width)
    if factor >= 1:
        return codes
    return resize(
        np.asarray(codes, np.float32), (max(round(width * factor), 1), max(round(height * factor), 1))
    )


def data_uri(codes: np.ndarray, *, quality: int = 88) -> str:
    """The picture as a text that an <img> shows: WebP, or PNG where Pillow has no WebP."""
    picture = Image.fromarray((np.clip(codes, 0, 1) * 255 + 0.5).astype(np.uint8))
    stream, webp = io.BytesIO(), features.check("webp")
    if webp:
        picture.save(stream, "WEBP", quality=quality, method=4)
    else:
        picture.save(stream, "PNG", optimize=True)
    kind = "webp" if webp else "png"
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def _three(codes: np.ndarray) -> np.ndarray:
    """(H, W, 3) without alpha."""
    return np.repeat(codes, 3, axis=-1) if codes.shape[-1] < 3 else codes[..., :3]
