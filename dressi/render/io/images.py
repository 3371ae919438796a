"""Images between files and linear light.

In memory: float arrays (H, W, C), row 0 on top, colours in linear light with sRGB primaries, alpha straight.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import sparse

from dressi.errors import InputError
from dressi.render.color import linear_to_srgb, srgb_to_linear
from dressi.render.io.files import read_bytes, reason, write_files


def decode(data: bytes, name: str) -> np.ndarray:
    """(H, W, C) float32 code values in [0, 1] of an encoded image; C is 1, 3 or 4. InputError naming it."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.mode in ("I;16", "I;16B", "I;16L", "I"):
                return (np.asarray(image).astype(np.float32) / 65535)[..., None]
            if image.mode in ("1", "L"):
                return (np.asarray(image.convert("L"), dtype=np.float32) / 255)[..., None]
            has_alpha = "A" in image.getbands() or "transparency" in image.info
            return np.asarray(image.convert("RGBA" if has_alpha else "RGB"), dtype=np.float32) / 255
    except Exception as error:  # Pillow's decoders raise many kinds; all mean the same to the user
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> InputError:
    return InputError(f"cannot read the image '{name}': {reason(error)}; export it again as PNG or JPEG")


def read_image(path: str | os.PathLike) -> np.ndarray:
    """(H, W, C) float32 code values in [0, 1]; C is 1, 3 or 4."""
    return decode(read_bytes(path, "image"), str(path))


def image_size(path: str | os.PathLike) -> tuple[int, int]:
    """(W, H) as the file's head says it; nothing is decoded. InputError naming the file."""
    try:
        with Image.open(io.BytesIO(read_bytes(path, "image"))) as image:
            return image.size
    except InputError:
        raise
    except Exception as error:  # as in ``decode``
        raise _unreadable(str(path), error) from None


def to_linear_rgb(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) linear light of code values (H, W, 1, 3 or 4); alpha is ignored."""
    return np.repeat(srgb_to_linear(image[..., :3]), 3 if image.shape[-1] == 1 else 1, axis=-1)


def encode_png(linear: np.ndarray) -> bytes:
    """8-bit sRGB PNG of linear light (H, W, 3), or of a plane (H, W) of values in [0, 1] that is kept as it
    is."""
    codes = linear_to_srgb(linear) if np.ndim(linear) == 3 else np.clip(linear, 0, 1)
    stream = io.BytesIO()
    Image.fromarray((codes * 255 + 0.5).astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def save_png(path: str | os.PathLike, linear: np.ndarray) -> None:
    """`encode_png` to a file, which is replaced whole or not at all."""
    write_files({Path(path): encode_png(linear)})


def save_gif(path: str | os.PathLike, frames: np.ndarray, *, fps: float = 12.0) -> None:
    """An endless animation of linear frames (N, H, W, 3)."""
    images = [Image.fromarray((linear_to_srgb(frame) * 255 + 0.5).astype(np.uint8)) for frame in frames]
    # One palette for all frames, so that colours do not flicker.
    sheet = Image.fromarray(
        np.concatenate([np.asarray(image) for image in images[:: max(1, len(images) // 8)]])
    )
    palette = sheet.quantize(256, method=Image.Quantize.MEDIANCUT)
    images = [image.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG) for image in images]
    stream = io.BytesIO()
    images[0].save(stream, "GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
    write_files({Path(path): stream.getvalue()})


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resample (H, W) or (H, W, C) to size (W', H'): each new pixel is the exact mean over its area where an
    axis shrinks, linear interpolation between pixel centres where it grows."""
    height, width = image.shape[:2]
    if (width, height) == tuple(size):
        return image
    rows, columns = _weights(height, size[1]), _weights(width, size[0])
    channels = image.reshape(height, width, -1)
    out = rows @ channels.reshape(height, -1)
    out = out.reshape(size[1], width, -1).transpose(1, 0, 2).reshape(width, -1)
    out = (columns @ out).reshape(size[0], size[1], -1).transpose(1, 0, 2)
    return np.ascontiguousarray(out.reshape((size[1], size[0]) + image.shape[2:]), dtype=image.dtype)


def _weights(source: int, target: int) -> sparse.csr_matrix:
    """(target, source) rows that sum to 1."""
    if target >= source:
        place = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
        low = np.minimum(np.floor(place).astype(int), max(source - 2, 0))
        high = np.minimum(low + 1, source - 1)
        fraction = place - low
        row = np.arange(target)
        return sparse.csr_matrix(
            (np.concatenate([1 - fraction, fraction]), (np.tile(row, 2), np.concatenate([low, high]))),
            shape=(target, source),
        )
    edges = np.arange(target + 1) * source / target
    cells = np.arange(source)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    return sparse.csr_matrix(np.maximum(overlap, 0) * (target / source))
