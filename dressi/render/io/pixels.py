"""Encoded images to pixels: the only place that decodes untrusted image files.

The kind is determined by the first bytes, never by the name, and only the kinds of ``_READERS``, HEIC,
Radiance and OpenEXR are decoded, each by its own class of Pillow, or by OpenCV or OpenEXR: no other decoder,
and no program that one would start, is reached. The size in the head is compared with
``config.max_megapixels`` before anything is decoded.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import numpy as np
from PIL import BmpImagePlugin, GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, TiffImagePlugin
from PIL import WebPImagePlugin as WebP

from ...config import config
from ...errors import InputError, shown, warn
from ...lazy import needed
from ..surface.color import linear_to_srgb, srgb_to_linear
from .files import reason, silenced

INSTALL = "pip install 'dressi[images]'"
MAGIC = b"\x76\x2f\x31\x01"
_READERS = {
    "PNG": PngImagePlugin.PngImageFile,
    "JPEG": JpegImagePlugin.JpegImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "WebP": WebP.WebPImageFile,
}
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "PNG"), (b"\xff\xd8\xff", "JPEG"), (b"BM", "BMP"), (b"GIF87a", "GIF"), (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"), (b"MM\0*", "TIFF"), (b"II+\0", "TIFF"), (b"MM\0+", "TIFF"), (b"#?RADIANCE", "HDR"), (b"#?RGBE", "HDR"), (MAGIC, "EXR"),
)  # fmt: skip
LARGEST_RUN = 127
"""Texels of a run of a Radiance picture."""
MOST_SCANS = 200
"""Of a progressive JPEG: each is decoded as a whole picture is."""
_PART = 1 << 20
"""Bytes that are unpacked at a time."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """values: (H, W, C), row 0 on top, C 1, 3 or 4, alpha straight and last. uint8 or uint16: code values of
    sRGB; float32: linear light."""

    values: np.ndarray

    def linear(self) -> np.ndarray:
        """(H, W, C) float32 linear light; alpha as it is."""
        values = self.values
        if values.dtype.kind == "f":
            return values
        most = np.iinfo(values.dtype).max
        table = srgb_to_linear(np.arange(most + 1) / most).astype(np.float32)
        out = table[values]
        if values.shape[-1] == 4:
            out[..., 3] = values[..., 3] / np.float32(most)
        return out

    def codes(self) -> np.ndarray:
        """(H, W, C) float32 code values in [0, 1]; linear light is clamped to that first."""
        if self.values.dtype.kind == "f":
            codes = np.clip(self.values, 0, 1)
            codes[..., :3] = linear_to_srgb(codes[..., :3])
            return codes.astype(np.float32)
        return self.values / np.float32(np.iinfo(self.values.dtype).max)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """InputError for what decoders raise: those of Pillow raise many kinds; all mean a damaged file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"cannot read the image '{shown(name)}': {reason(error)}; export it again as PNG or JPEG"
        ) from None


def decode_pixels(data: bytes, name: str) -> Pixels:
    """The first picture of an encoded PNG, JPEG, TIFF, BMP, GIF, WebP, HEIC, Radiance or OpenEXR image.

    name: what messages call it.  Raises InputError naming it: another kind of file, too large, damaged, or of
    values that images do not have here.
    """
    with _reading(name):
        kind = _kind(data, name)
        if kind == "EXR":
            head = _exr_head(data)
            _check(head.size, name)
            # Further channels are decoded, too.
            _check((head.size[0], head.size[1] * max(1, -(-len(head.channels) // 4))), name)
            return Pixels(_decoded_exr(data, head.channels, shown(name)))
        if kind == "HDR":
            size, start = _hdr_head(data)
            _check(size, name)
            cv2 = opencv()
            if cv2 is None:
                raise InputError(f"reading the Radiance image '{shown(name)}' needs OpenCV; {INSTALL}")
            return Pixels(_by_opencv(cv2, _plain_hdr(data, size, start)))
        with _opened(kind, data, name) as image:
            _check(image.size, name)
            _check_stream(kind, image, data)
            if getattr(image, "is_animated", False):
                warn(f"'{shown(name)}' has several pictures, of which the first is read")
            deep = _deep(image, kind, data)
            cv2 = opencv() if deep else None
            if cv2 is not None:
                return Pixels(_by_opencv(cv2, data))
            values = _plain(image, kind, name)
            if deep:
                warn(f"'{shown(name)}' has 16 bits a channel, of which 8 are read; {INSTALL} reads all")
            return Pixels(values)


def pixels_size(data: bytes, name: str) -> tuple[int, int]:
    """(W, H) as the head says it; nothing is decoded. Raises InputError, also when it is too large."""
    with _reading(name):
        kind = _kind(data, name)
        if kind == "EXR":
            return _check(_exr_head(data).size, name)
        if kind == "HDR":
            return _check(_hdr_head(data)[0], name)
        with _opened(kind, data, name) as image:
            return _check(image.size, name)


def pixels_alpha(data: bytes, name: str) -> bool:
    """Whether ``decode_pixels`` gives alpha, as the head says it; nothing is decoded. Raises InputError."""
    with _reading(name), opened(data, name) as image:
        if image is not None:
            return _has_alpha(image)
        return _kind(data, name) == "EXR" and "A" in _exr_head(data).channels


def exif_turn(data: bytes, name: str) -> int:
    """How the camera was held, as EXIF numbers it; 1 for upright, or where nothing is said."""
    with suppress(Exception), opened(data, name) as image:  # damage of what is no pixel is no error
        return int(image.getexif().get(274, 1)) if image is not None else 1
    return 1


@contextmanager
def opened(data: bytes, name: str) -> Iterator[Image.Image | None]:
    """A picture of Pillow whose head is read, for what it says beside its size; None for kinds that hold
    floats. Raises InputError."""
    kind = _kind(data, name)
    if kind in ("HDR", "EXR"):
        yield None
        return
    with _opened(kind, data, name) as image:
        yield image


def opencv() -> ModuleType | None:
    """The module of OpenCV where it is installed: it reads and writes what Pillow does not."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2


def _kind(data: bytes, name: str) -> str:
    for start, kind in _SIGNATURES:
        if data.startswith(start):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    if data[4:8] == b"ftyp" and data[8:12] in _HEIC_BRANDS:
        return "HEIC"
    raise InputError(
        f"cannot read the image '{shown(name)}': it is not PNG, JPEG, TIFF, BMP, GIF, WebP, HEIC, Radiance"
        " (.hdr) or OpenEXR (.exr); export it again as PNG or JPEG"
    )


def _opened(kind: str, data: bytes, name: str) -> Image.Image:
    if kind == "WebP":
        # Its class allocates the whole picture when it is opened.
        _check(_webp_size(data), name)
    if kind != "HEIC":
        return _READERS[kind](io.BytesIO(data))
    what = f"reading the HEIC image '{shown(name)}'"
    heif = needed(
        "pillow_heif", f"{what} needs pillow-heif: pip install 'dressi[photos]', or export it as JPEG"
    )
    return heif.HeifImageFile(io.BytesIO(data))


def _check(size: tuple[int, int], name: str) -> tuple[int, int]:
    width, height = size
    if width * height > config.max_megapixels * 1_000_000:
        raise InputError(
            f"the image '{shown(name)}' has {width}x{height} pixels, above the limit of"
            f" {config.max_megapixels} megapixels;"
            f" shrink it, or set DRESSI_MAX_MEGAPIXELS={-(-width * height // 1_000_000)}"
        )
    return width, height


def _check_stream(kind: str, image: Image.Image, data: bytes) -> None:
    """Raise ValueError where decoding would cost more than a picture of its size does."""
    if kind == "JPEG" and (scans := data.count(b"\xff\xda")) > MOST_SCANS:
        raise ValueError(f"it has {scans} scans, above the limit of {MOST_SCANS}")
    if kind != "PNG":
        return
    width, height = image.size
    depth, channels = data[24], {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(data[25], 4)
    # Interlaced rows are up to twice as many, each with its filter byte, and end inside of a byte.
    left = 2 * height * (2 + width * channels * depth // 8) + 4096
    stream = zlib.decompressobj()
    at = 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] in (b"IDAT", b"fdAT"):
            part = data[at + 8 : at + 8 + size]
            while part and not stream.eof:
                left -= len(stream.decompress(part, _PART))
                part = stream.unconsumed_tail
                if left < 0:
                    raise ValueError(f"it unpacks to more bytes than {width}x{height} pixels have")
        at += 12 + size


def _webp_size(data: bytes) -> tuple[int, int]:
    head = data[12:30].ljust(18, b"\0")
    if head[:4] == b"VP8X":
        return 1 + int.from_bytes(head[12:15], "little"), 1 + int.from_bytes(head[15:18], "little")
    if head[:4] == b"VP8L":
        bits = int.from_bytes(head[9:13], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack_from("<HH", head, 14)
    return width & 0x3FFF, height & 0x3FFF


def _deep(image: Image.Image, kind: str, data: bytes) -> bool:
    """Whether it has 16 bits a channel, of which Pillow reads 8."""
    if kind == "TIFF":
        return len(image.getbands()) > 1 and 16 in np.atleast_1d(image.getexif().get(258, 8))
    return kind == "PNG" and data[24:25] == b"\x10" and data[25:26] != b"\0"


def _plain(image: Image.Image, kind: str, name: str) -> np.ndarray:
    """Values of what Pillow decodes without loss."""
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N") or (image.mode == "I" and kind == "PNG"):
        return np.asarray(image).astype(np.uint16)[..., None]
    if image.mode in ("F", "I"):
        raise InputError(
            f"the image '{shown(name)}' has 32-bit values, whose range is not known; export it as .hdr or"
            " 16-bit PNG"
        )
    alpha = _has_alpha(image)
    if image.mode in ("1", "L") and not alpha:
        return np.asarray(image.convert("L"))[..., None]
    return np.asarray(image.convert("RGBA" if alpha else "RGB"))


def _has_alpha(image: Image.Image) -> bool:
    return "A" in image.getbands() or "transparency" in image.info


def _by_opencv(cv2: ModuleType, data: bytes) -> np.ndarray:
    """What OpenCV decodes; it and the libraries below it would print what its result or exception says."""
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        with silenced():
            values = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    finally:
        cv2.utils.logging.setLogLevel(level)
    if values is None or values.dtype not in (np.uint16, np.float32):
        raise ValueError("it is truncated or damaged")
    if values.ndim == 2:
        return values[..., None]
    return np.ascontiguousarray(values[..., [2, 1, 0, 3][: values.shape[-1]]])


# Radiance: OpenCV decodes it, behind a head of dressi's own.

_HDR_SIZE = re.compile(rb"-Y +(\d{1,9}) +\+X +(\d{1,9})\r?\n")


def _hdr_head(data: bytes) -> tuple[tuple[int, int], int]:
    """(W, H), and the bytes of the head."""
    end = 0
    while end < 65536 and data[end : (after := data.find(b"\n", end) + 1)].strip():
        end = after
    match = _HDR_SIZE.match(data, data.find(b"\n", end) + 1, 65536)
    if match is None or 0 in (size := (int(match[2]), int(match[1]))):
        raise ValueError("its head does not give a size as '-Y height +X width'")
    return size, match.end()


def _plain_hdr(data: bytes, size: tuple[int, int], start: int) -> bytes:
    """The picture behind another head, so that OpenCV reads the size that was checked."""
    width, height = size
    flat = 4 * width * height
    least = height * (4 + 8 * -(-width // LARGEST_RUN)) if 8 <= width < 1 << 15 else flat
    if len(data) - start < min(least, flat):
        raise ValueError(f"it is truncated: {width}x{height} pixels take more bytes")
    return b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y %d +X %d\n" % (height, width) + data[start:]


# OpenEXR: the library of that name decodes it; the head is read here before.

DEEP, PARTS = 0x800, 0x1000
"""Flags in the head: samples of many depths a pixel, several pictures."""
LARGEST_HALF = 65504.0


class _ExrHead(NamedTuple):
    """size: (W, H) of the window that holds data.  channels: their names."""

    size: tuple[int, int]
    channels: tuple[str, ...]


def _exr_head(data: bytes) -> _ExrHead:
    """The head of a file with one flat picture. Raises ValueError with the reason."""
    flags = int.from_bytes(data[4:8], "little")
    if flags & (DEEP | PARTS):
        raise ValueError("it has several parts or deep samples; export one flat picture")
    attributes: dict[str, bytes] = {}
    at = 8
    while data[at : at + 1] != b"\0":
        name, kind = (data[at : at + 512].split(b"\0", 2) + [b""])[:2]
        start = at + len(name) + len(kind) + 6
        length = int.from_bytes(data[start - 4 : start], "little", signed=True)
        if length < 0 or start + length > len(data):
            raise ValueError("its head is truncated or damaged")
        attributes[name.decode("latin-1")] = data[start : start + length]
        at = start + length
    if len(attributes.get("dataWindow", b"")) != 16 or "channels" not in attributes:
        raise ValueError("its head gives no size or no channels")
    left, top, right, bottom = struct.unpack("<4i", attributes["dataWindow"])
    if right < left or bottom < top:
        raise ValueError("its head gives an empty window")
    names, rest = [], attributes["channels"]
    while rest[:1] not in (b"\0", b""):
        name, _, rest = rest.partition(b"\0")
        names.append(name.decode("latin-1"))
        rest = rest[16:]  # type, linear, reserved, sampling along x and y
    return _ExrHead((right - left + 1, bottom - top + 1), tuple(names))


def _decoded_exr(data: bytes, names: tuple[str, ...], name: str) -> np.ndarray:
    """(H, W, C) float32 linear light, C 1 (channel Y), 3 or 4 (straight alpha; files hold colours times
    alpha).

    Raises InputError without the library, ValueError with the reason for all else that cannot be read.
    """
    library = _openexr(f"reading the OpenEXR image '{name}'")
    wanted = ["R", "G", "B"] if {"R", "G", "B"} <= set(names) else ["Y"]
    if wanted[0] not in names or {"RY", "BY"} & set(names):
        raise ValueError(f"its channels are {shown(', '.join(names[:8]))}; export channels R, G, B or Y")
    other = [one for one in names if one not in (*wanted, "A")]
    if other:
        warn(f"'{name}' has the channels {shown(', '.join(other))}, which are not read")
    if "A" in names:
        wanted.append("A")
    said = io.StringIO()
    try:
        with silenced(), redirect_stdout(said):  # the library prints why it could not read the pixels
            channels = library.File(io.BytesIO(data), separate_channels=True, num_threads=0).channels()
        planes = [np.asarray(channels[channel].pixels) for channel in wanted]
    except Exception as error:  # the library raises many kinds; all mean a damaged file
        why = said.getvalue().rpartition(" - ")[2].strip() or error
        raise ValueError(f"it is truncated or damaged ({why})") from None
    if any(plane.dtype.kind != "f" or plane.shape != planes[0].shape for plane in planes):
        raise ValueError("its channels are integers or subsampled; export half or float channels")
    values = np.stack(planes, axis=-1).astype(np.float32)
    broken = int((~np.isfinite(values)).sum())
    if broken:
        raise ValueError(f"{broken} of its values are NaN or infinite; clamp them where it was rendered")
    if "A" not in names:
        return values
    colour, alpha = values[..., :-1], values[..., -1:]
    straight = np.divide(colour, alpha, out=np.zeros_like(colour), where=alpha > 0)
    return np.concatenate([np.broadcast_to(straight, (*alpha.shape[:2], 3)), alpha], axis=-1)


def encode_exr(values: np.ndarray, *, half: bool) -> bytes:
    """An OpenEXR file of (H, W, C) linear light, C 1, 3 or 4 (straight alpha), compressed without loss. half:
    16-bit floats instead of 32-bit ones. Raises InputError without the library, and for values that half
    floats do not hold."""
    library = _openexr("writing .exr")
    largest = float(np.abs(values).max())
    if half and largest > LARGEST_HALF:
        raise InputError(
            f"16-bit floats end at {LARGEST_HALF:g} and the image has {largest:g}; save it with bits=32"
        )
    colour, alpha = values[..., :3], values[..., 3:]
    stored = np.concatenate([colour * alpha, alpha], axis=-1) if alpha.size else colour
    stored = stored.astype(np.float16 if half else np.float32)
    channels = {
        c: np.ascontiguousarray(stored[..., k])
        for k, c in enumerate("Y" if stored.shape[-1] == 1 else "RGBA"[: stored.shape[-1]])
    }
    stream = io.BytesIO()
    head = {"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}
    library.File(head, channels).write(stream)
    return stream.getvalue()


def _openexr(what: str) -> ModuleType:
    return needed("OpenEXR", f"{what} needs the package OpenEXR; {INSTALL}")
