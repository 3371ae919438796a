"""Environment maps from files: light from all directions, as an equirectangular picture."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import read_bytes, shown, usable
from dressi.render.io.pixels import decode_pixels


def load_environment(path: str | os.PathLike) -> np.ndarray:
    """Read an equirectangular environment map: Radiance `.hdr` or OpenEXR `.exr`, or any image that `load_image` reads.

    Returns (H, W, 3) float32 linear radiance with sRGB primaries, at least 0, without an upper end; grey files give three
    equal channels, and alpha is ignored. Row 0 is up (+Y), the middle of the image is straight ahead (-Z, ``F.sample_sphere``), +X is to the right
    of it; Mitsuba turns the same file by 180 degrees about +Y: ``Environment(map, rotation=np.pi)``, diag(-1, 1, -1). A
    warning says when the image is not twice as wide as high, or holds 8 or 16 bits only, so that light sources are cut at 1.

    Raises InputError naming the file: not there, another kind, truncated or damaged, above `config.max_megapixels`, with
    values that are NaN, infinite or negative, or without the library that reads it (``pip install 'dressi[images]'``).

    >>> import numpy as np, os, tempfile
    >>> from dressi.render.io import save_image
    >>> path = os.path.join(tempfile.mkdtemp(), "sky.exr")
    >>> save_image(path, np.full((4, 8, 3), 2.5))
    >>> load_environment(path).shape, float(load_environment(path).max())
    ((4, 8, 3), 2.5)
    """
    name = shown(path)
    with usable(Path(path), "the environment map"):
        pixels = decode_pixels(read_bytes(path, "environment map"), str(path))
        light = pixels.linear()
    light = np.repeat(light, 3, axis=-1) if light.shape[-1] == 1 else light[..., :3]
    broken, below = int((~np.isfinite(light)).sum()), int((light < 0).sum())
    if broken:
        raise InputError(
            f"the environment map '{name}' has {broken} values that are NaN or infinite; clamp them where it was made"
        )
    if below:
        raise InputError(
            f"the environment map '{name}' has {below} negative values, and light is not negative; set them to 0 and"
            " save it again"
        )
    height, width = light.shape[:2]
    if width != 2 * height:
        warnings.warn(
            f"the environment map '{name}' has {width}x{height} pixels; equirectangular maps are twice as wide as high,"
            " so it is stretched: export it at that shape",
            stacklevel=2,
        )
    if pixels.values.dtype.kind != "f":
        warnings.warn(
            f"the environment map '{name}' has 8 or 16 bits, in which light sources are cut at 1; use .hdr or .exr",
            stacklevel=2,
        )
    return np.ascontiguousarray(light, dtype=np.float32)
