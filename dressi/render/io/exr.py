"""OpenEXR images to and from arrays. The library of that name decodes them; the head is read here before."""

from __future__ import annotations

import io
import struct
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from dressi.errors import InputError, shown
from dressi.render.io.files import silenced

INSTALL = "pip install 'dressi[images]'"
MAGIC = b"\x76\x2f\x31\x01"
DEEP, PARTS = 0x800, 0x1000
"""Flags in the head: samples of many depths a pixel, several pictures."""
LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class Head:
    """size: (W, H) of the window that holds data.  channels: their names."""

    size: tuple[int, int]
    channels: tuple[str, ...]


def _head(data: bytes) -> Head:
    """The head of a file with one flat picture. Raises ValueError with the reason."""
    flags = int.from_bytes(data[4:8], "little")
    if flags & (DEEP | PARTS):
        raise ValueError("it has several parts or deep samples; export one flat picture")
    found: dict[str, bytes] = {}
    at = 8
    while data[at : at + 1] != b"\0":
        name, kind = (data[at : at + 512].split(b"\0", 2) + [b""])[:2]
        start = at + len(name) + len(kind) + 6
        length = int.from_bytes(data[start - 4 : start], "little", signed=True)
        if length < 0 or start + length > len(data):
            raise ValueError("its head is truncated or damaged")
        found[name.decode("latin-1")] = data[start : start + length]
        at = start + length
    if len(found.get("dataWindow", b"")) != 16 or "channels" not in found:
        raise ValueError("its head gives no size or no channels")
    left, top, right, bottom = struct.unpack("<4i", found["dataWindow"])
    if right < left or bottom < top:
        raise ValueError("its head gives an empty window")
    names, rest = [], found["channels"]
    while rest[:1] not in (b"\0", b""):
        name, _, rest = rest.partition(b"\0")
        names.append(name.decode("latin-1"))
        rest = rest[16:]  # type, linear, reserved, sampling along x and y
    return Head((right - left + 1, bottom - top + 1), tuple(names))


def exr_size(data: bytes) -> tuple[int, int]:
    """(W, H) as the head says it. Raises ValueError with the reason."""
    return _head(data).size


def exr_alpha(data: bytes) -> bool:
    """Whether the head names a channel of alpha. Raises ValueError with the reason."""
    return "A" in _head(data).channels


def exr_pixels(data: bytes) -> tuple[int, int]:
    """Like ``exr_size``, with the pixels below each other that further channels, four by four, take when they are decoded."""
    head = _head(data)
    return head.size[0], head.size[1] * max(1, -(-len(head.channels) // 4))


def decode_exr(data: bytes, name: str) -> np.ndarray:
    """(H, W, C) float32 linear light, C 1 (channel Y), 3 or 4 (straight alpha; files hold colours times alpha).

    Raises InputError without the library, ValueError with the reason for all else that cannot be read.
    """
    library = _openexr(f"reading the OpenEXR image '{name}'")
    names = _head(data).channels
    wanted = ("R", "G", "B") if {"R", "G", "B"} <= set(names) else ("Y",)
    if wanted[0] not in names or {"RY", "BY"} & set(names):
        raise ValueError(f"its channels are {shown(', '.join(names[:8]))}; export channels R, G, B or Y")
    other = [one for one in names if one not in (*wanted, "A")]
    if other:
        warnings.warn(
            f"'{name}' has the channels {shown(', '.join(other))}, which are not read", stacklevel=5
        )
    said = io.StringIO()
    try:
        with silenced(), redirect_stdout(said):  # the library prints why it could not read the pixels
            found = library.File(io.BytesIO(data), separate_channels=True, num_threads=0).channels()
        planes = [
            np.asarray(found[channel].pixels) for channel in (*wanted, *(("A",) if "A" in names else ()))
        ]
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
    """An OpenEXR file of (H, W, C) linear light, C 1, 3 or 4 (straight alpha), compressed without loss. half: 16-bit floats
    instead of 32-bit ones. Raises InputError without the library, and for values that half floats do not hold."""
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
    library.File({"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}, channels).write(
        stream
    )
    return stream.getvalue()


def _openexr(what: str) -> ModuleType:
    try:
        import OpenEXR
    except ImportError:
        raise InputError(f"{what} needs the package OpenEXR; {INSTALL}") from None
    return OpenEXR
