"""Images between files and linear light.

In memory: float arrays (H, W, C), row 0 on top, colours in linear light with sRGB primaries, alpha straight.
In files: code values of sRGB, of 8 or 16 bits, or linear light in Radiance and OpenEXR files.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy
from PIL import Image

from ...errors import InputError, shown, warn
from ..surface.color import linear_to_srgb, srgb_to_linear
from .files import read_bytes, usable, write_files
from .pixels import INSTALL, decode_pixels, encode_exr, exif_turn, opencv, pixels_alpha, pixels_size


@dataclass(frozen=True)
class ImageFormat:
    """A kind of image file that is written. name: of the encoder of Pillow.  alpha: whether it keeps an alpha
    channel.
    lossy: whether it has a quality.  deep: whether it may have 16 bits a channel.  linear: the encoder of
    linear light (float values, bits), for kinds that hold floats."""

    name: str
    alpha: bool = False
    lossy: bool = False
    deep: bool = False
    linear: Callable[[np.ndarray, int], bytes] | None = None


def _radiance(light: np.ndarray, bits: int) -> bytes:
    light = np.maximum(light, 0)
    # OpenCV cuts the 8 bits of a channel off. Half a unit more rounds them, so that light is not lost on
    # average.
    unit = np.ldexp(1.0, np.frexp(light.max(-1, keepdims=True))[1] - 8)
    return _by_opencv(".hdr", np.where(light > 0, light + 0.5 * unit, 0.0).astype(np.float32))


def _openexr(light: np.ndarray, bits: int) -> bytes:
    if bits not in (8, 16, 32):
        raise InputError(f"an .exr image has 16 or 32 bits a channel, not {bits}")
    return encode_exr(light, half=bits < 32)


PNG = ImageFormat("PNG", alpha=True, deep=True)
JPEG = ImageFormat("JPEG", lossy=True)
TIFF = ImageFormat("TIFF", alpha=True, deep=True)
FORMATS = {
    ".png": PNG,
    ".jpg": JPEG,
    ".jpeg": JPEG,
    ".webp": ImageFormat("WEBP", alpha=True, lossy=True),
    ".bmp": ImageFormat("BMP"),
    ".tif": TIFF,
    ".tiff": TIFF,
    ".hdr": ImageFormat("HDR", linear=_radiance),
    ".exr": ImageFormat("EXR", alpha=True, linear=_openexr),
}
"""By the ending of a file's name."""


def load_image(path: str | os.PathLike, *, linear: bool = True) -> np.ndarray:
    """Read a PNG or TIFF (8 or 16 bits), JPEG, BMP, GIF, WebP, Radiance `.hdr` or OpenEXR `.exr` image.

    linear: whether colours come as linear light with sRGB primaries; False gives the code values of the file,
    for masks, normals and other data. Radiance and OpenEXR files hold linear light; their code values are
    clamped to [0, 1].

    Returns (H, W, C) float32, row 0 on top; C is 1 (grey), 3 (red, green, blue) or 4 (and straight alpha,
    never converted). Values are in [0, 1], except those of Radiance and OpenEXR files, which have no upper
    end; OpenEXR may hold negative ones. Of OpenEXR files one flat picture with half or float channels R, G,
    B, A or Y is read. Raises InputError naming the file: not there, another kind, damaged, with values that
    are NaN or infinite, or above `config.max_megapixels`; also for `.hdr` without OpenCV and `.exr` without
    OpenEXR (``pip install 'dressi[images]'``, which reads 16-bit colour without loss, too).

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "grey.png")
    >>> save_image(path, np.full((2, 3, 3), 0.5))
    >>> load_image(path).shape, round(float(load_image(path)[0, 0, 0]), 2)
    ((2, 3, 3), 0.5)
    >>> round(float(load_image(path, linear=False)[0, 0, 0]), 3)
    0.737
    """
    data = read_bytes(path, "image")
    if (turn := exif_turn(data, str(path))) != 1:
        warn(
            f"'{path}' is to be turned when it is shown (orientation {turn} of its EXIF); its pixels are read"
            " as they are stored, as calibrations take them"
        )
    return _values(data, str(path), linear)


def save_image(
    path: str | os.PathLike, image: np.ndarray, *, linear: bool = True, bits: int = 8, quality: int = 95
) -> None:
    """Write an image as `.png`, `.jpg`, `.webp`, `.bmp`, `.tif`, `.hdr` or `.exr`, by the name's ending;
    whole or not at all.

    image: (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) floats, or one such picture as a batch (1, H, W, C); row
    0 on top, alpha straight and last. Values are clamped to [0, 1]; `.hdr` keeps what is above 1 with a
    precision of 1/256, and `.exr` all.
    linear: whether colours are linear light, which is stored by the sRGB curve; False stores the values as
    they are.
    bits: 8, or 16 for PNG and TIFF; `.exr` holds 16-bit floats, or 32-bit ones with 32.
    quality: of JPEG and lossy WebP, 1 to 100.

    Raises InputError: another ending or shape, integers or NaN as values, alpha where the kind has none, a
    folder that is not there; also for `.hdr` and 16-bit colour without OpenCV, and `.exr` without OpenEXR
    (``pip install 'dressi[images]'``).

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "ramp.png")
    >>> ramp = np.linspace(0, 1, 12).reshape(3, 4)
    >>> save_image(path, ramp, bits=16)
    >>> bool(abs(load_image(path)[..., 0] - ramp).max() < 1e-4)
    True
    """
    kind = image_format(path)
    values = _checked(image)
    if values.shape[-1] == 4 and not kind.alpha:
        raise InputError(
            f"'{path}' cannot keep alpha; give {values.shape[0]}x{values.shape[1]}x3 values or save it as"
            " .png"
        )
    if kind.linear is None:
        data = _encoded(_quantized(values, linear, bits), kind, quality)
    else:
        light = values.astype(np.float64)
        if not linear:
            light[..., :3] = srgb_to_linear(light[..., :3])
        data = kind.linear(light, bits)
    write_files({Path(path): data})


def image_format(path: str | os.PathLike) -> ImageFormat:
    """The kind of an image that is to be written, by the name's ending; it can be checked before the image is
    made. Raises InputError.

    >>> image_format("a.jpg").name
    'JPEG'
    """
    kind = FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise InputError(f"'{path}' cannot be written; give a name that ends in {', '.join(FORMATS)}")
    return kind


def encode_png(linear: np.ndarray, *, bits: int = 8, srgb: bool | None = None) -> bytes:
    """A PNG of linear light (H, W, 3) or (H, W, 4), stored by the sRGB curve, or of a plane (H, W) of values
    in [0, 1] that is stored as it is. bits: 8 or 16.  srgb: False stores the values of colours, too, as they
    are.

    >>> import numpy as np
    >>> encode_png(np.zeros((2, 2, 3)))[1:4]
    b'PNG'
    """
    curve = np.ndim(linear) == 3 if srgb is None else srgb
    return _encoded(_quantized(_checked(linear), curve, bits), PNG, 95)


def save_png(path: str | os.PathLike, linear: np.ndarray) -> None:
    """`encode_png` to a file that ends in .png, which is replaced whole or not at all; see `save_image` for
    other kinds. Raises InputError.

    >>> import numpy as np, os, tempfile
    >>> save_png(os.path.join(tempfile.mkdtemp(), "mask.png"), np.ones((4, 4)))
    """
    if image_format(path) is not PNG:
        raise InputError(f"'{path}' would be a PNG; name a file that ends in .png, or use save_image")
    write_files({Path(path): encode_png(linear)})


def decode(data: bytes, name: str) -> np.ndarray:
    """(H, W, C) float32 code values in [0, 1] of an encoded image; C is 1, 3 or 4. InputError naming it."""
    return _values(data, name, False)


def read_image(path: str | os.PathLike) -> np.ndarray:
    """(H, W, C) float32 code values in [0, 1]: `load_image` with ``linear=False``, of pixels as they are
    stored.

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "mask.png")
    >>> save_png(path, np.eye(3))
    >>> float(read_image(path)[..., 0].trace())
    3.0
    """
    return _values(read_bytes(path, "image"), str(path), False)


def image_size(path: str | os.PathLike) -> tuple[int, int]:
    """(W, H) as the file's head says it; nothing is decoded. InputError naming the file."""
    return pixels_size(read_bytes(path, "image"), str(path))


def has_alpha(path: str | os.PathLike) -> bool:
    """Whether the image has alpha, as the file's head says; nothing is decoded. InputError naming the
    file."""
    return pixels_alpha(read_bytes(path, "image"), str(path))


def _values(data: bytes, name: str, linear: bool) -> np.ndarray:
    with usable(Path(name), "the image"):
        pixels = decode_pixels(data, name)
        return pixels.linear() if linear else pixels.codes()


def three_channels(values: np.ndarray) -> np.ndarray:
    """(H, W, 3) of values (H, W, 1, 3 or 4): grey counts as any colour, and alpha is left out.

    >>> three_channels(np.ones((2, 2, 4))).shape
    (2, 2, 3)
    """
    return np.repeat(values, 3, axis=-1) if values.shape[-1] == 1 else values[..., :3]


def to_linear_rgb(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) linear light of code values (H, W, 1, 3 or 4); alpha is ignored."""
    return three_channels(srgb_to_linear(image[..., :3]))


def linear_rgb(data: bytes, name: str) -> np.ndarray:
    """(H, W, 3) float32 linear light of an encoded image: a texture. InputError naming it."""
    light = _values(data, name, True)
    if light.shape[-1] == 4 and (light[..., 3] < 1).any():
        warn(f"the alpha of the texture '{shown(name)}' was left out")
    return three_channels(light)


def read_texture(path: Path) -> np.ndarray:
    """(H, W, 3) float32 linear light of an image file. InputError naming it."""
    return linear_rgb(read_bytes(path, "texture"), str(path))


def _checked(image: np.ndarray) -> np.ndarray:
    """(H, W, C) float values that are finite."""
    values = np.asarray(image)
    given = values.shape
    if values.ndim == 4 and given[0] == 1:
        values = values[0]
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or values.shape[-1] not in (1, 3, 4) or 0 in values.shape:
        raise InputError(f"an image must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), not {given}")
    if values.dtype.kind not in "fb":
        raise InputError(
            f"an image must hold floats in [0, 1], not {values.dtype}; divide code values by 255 and pass"
            " linear=False"
        )
    if not np.isfinite(values).all():
        broken = int((~np.isfinite(values)).sum())
        raise InputError(
            f"the image has {broken} values that are NaN or infinite; np.nan_to_num removes them"
        )
    return values.astype(np.float64) if values.dtype.kind == "b" else values


def _quantized(values: np.ndarray, linear: bool, bits: int) -> np.ndarray:
    if bits not in (8, 16):
        raise InputError(f"an image has 8 or 16 bits a channel, not {bits}")
    codes = np.clip(values, 0, 1)
    if linear:
        codes = np.concatenate([linear_to_srgb(codes[..., :3]), codes[..., 3:]], axis=-1)
    return (codes * (2**bits - 1) + 0.5).astype(np.uint8 if bits == 8 else np.uint16)


def _encoded(codes: np.ndarray, kind: ImageFormat, quality: int) -> bytes:
    if codes.dtype == np.uint16:
        if not kind.deep:
            raise InputError(f"16 bits a channel are written as .png or .tif, not as {kind.name}")
        if codes.shape[-1] > 1:
            return _by_opencv(f".{kind.name.lower()}", codes)
    stream = io.BytesIO()
    picture = Image.fromarray(codes[..., 0] if codes.shape[-1] == 1 else codes)
    picture.save(stream, kind.name, **({"quality": quality} if kind.lossy else {}))
    return stream.getvalue()


def _by_opencv(suffix: str, values: np.ndarray) -> bytes:
    cv2 = opencv()
    if cv2 is None:
        raise InputError(f"writing {suffix} with more than 8 bits a channel needs OpenCV; {INSTALL}")
    channels = values.shape[-1]
    # Radiance files have three channels; OpenCV has blue first.
    order = [0, 0, 0] if channels == 1 else [2, 1, 0, 3][:channels]
    done, data = cv2.imencode(suffix, np.ascontiguousarray(values[..., order]))
    if not done:
        raise InputError(f"OpenCV cannot write {values.shape} values as {suffix}; save them as 8-bit .png")
    return data.tobytes()


def save_gif(path: str | os.PathLike, frames: np.ndarray, *, fps: float = 12.0) -> None:
    """Write an endless animated GIF of frames (N, H, W, 3) in linear light, in [0, 1]. fps: frames a second.

    >>> import numpy as np, os, tempfile
    >>> save_gif(os.path.join(tempfile.mkdtemp(), "a.gif"), np.random.default_rng(0).random((2, 8, 8, 3)))
    """
    images = [Image.fromarray((linear_to_srgb(frame) * 255 + 0.5).astype(np.uint8)) for frame in frames]
    # One palette for all frames, so that colours do not flicker.
    some = [np.asarray(image) for image in images[:: max(1, len(images) // 8)]]
    sheet = Image.fromarray(np.concatenate(some))
    palette = sheet.quantize(256, method=Image.Quantize.MEDIANCUT)
    images = [image.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG) for image in images]
    stream = io.BytesIO()
    images[0].save(stream, "GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
    write_files({Path(path): stream.getvalue()})


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(W, H) times the scale, in whole pixels, at least one along each axis.

    >>> scaled_size((640, 3), 0.1)
    (64, 1)
    """
    return max(round(size[0] * scale), 1), max(round(size[1] * scale), 1)


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resample (H, W) or (H, W, C) to size (W', H'): each new pixel is the exact mean over its area where an
    axis shrinks, linear interpolation between pixel centres where it grows.

    >>> import numpy as np
    >>> resize(np.array([[0.0, 1.0], [2.0, 3.0]]), (1, 1))
    array([[1.5]])
    """
    height, width = image.shape[:2]
    if (width, height) == tuple(size):
        return image
    rows, columns = _weights(height, size[1]), _weights(width, size[0])
    channels = image.reshape(height, width, -1)
    out = rows @ channels.reshape(height, -1)
    out = out.reshape(size[1], width, -1).transpose(1, 0, 2).reshape(width, -1)
    out = (columns @ out).reshape(size[0], size[1], -1).transpose(1, 0, 2)
    return np.ascontiguousarray(out.reshape((size[1], size[0]) + image.shape[2:]), dtype=image.dtype)


def _weights(source: int, target: int) -> scipy.sparse.csr_matrix:
    """(target, source) rows that sum to 1."""
    if target >= source:
        place = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
        low = np.minimum(np.floor(place).astype(int), max(source - 2, 0))
        high = np.minimum(low + 1, source - 1)
        fraction = place - low
        row = np.arange(target)
        return scipy.sparse.csr_matrix(
            (np.concatenate([1 - fraction, fraction]), (np.tile(row, 2), np.concatenate([low, high]))),
            shape=(target, source),
        )
    edges = np.arange(target + 1) * source / target
    cells = np.arange(source)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    return scipy.sparse.csr_matrix(np.maximum(overlap, 0) * (target / source))


# Environment maps from files: light from all directions, as an equirectangular picture.


def load_environment(path: str | os.PathLike) -> np.ndarray:
    """Read an equirectangular environment map: Radiance `.hdr` or OpenEXR `.exr`, or any image that
    `load_image` reads.

    Returns (H, W, 3) float32 linear radiance with sRGB primaries, at least 0, without an upper end; grey
    files give three equal channels, and alpha is ignored. Row 0 is up (+Y), the middle of the image is
    straight ahead (-Z, ``F.sample_sphere``), +X is to the right of it; Mitsuba turns the same file by 180
    degrees about +Y: ``Environment(map, rotation=np.pi)``, diag(-1, 1, -1). A warning says when the image is
    not twice as wide as high, or holds 8 or 16 bits only, so that light sources are cut at 1.

    Raises InputError naming the file: not there, another kind, truncated or damaged, above
    `config.max_megapixels`, with values that are NaN, infinite or negative, or without the library that reads
    it (``pip install 'dressi[images]'``).

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
        light = three_channels(pixels.linear())
    broken, below = int((~np.isfinite(light)).sum()), int((light < 0).sum())
    if broken:
        raise InputError(
            f"the environment map '{name}' has {broken} values that are NaN or infinite; clamp them where it"
            " was made"
        )
    if below:
        raise InputError(
            f"the environment map '{name}' has {below} negative values, and light is not negative; set them"
            " to 0 and save it again"
        )
    height, width = light.shape[:2]
    if width != 2 * height:
        warn(
            f"the environment map '{name}' has {width}x{height} pixels; equirectangular maps are twice as"
            " wide as high, so it is stretched: export it at that shape"
        )
    if pixels.values.dtype.kind != "f":
        warn(
            f"the environment map '{name}' has 8 or 16 bits, in which light sources are cut at 1; use .hdr or"
            " .exr"
        )
    return np.ascontiguousarray(light, dtype=np.float32)
