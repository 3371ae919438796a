"""Pictures whose heads say far more texels, or pages, than they hold: BMP, GIF, WebP and TIFF."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

Random = np.random.Generator


def _sides(random: Random, most: int) -> tuple[int, int]:
    """From a few texels to far too many."""
    width, height = (min(int(10**x), most) for x in random.uniform(1, 5.5, 2))
    return width, height


def bmp(folder: Path, random: Random) -> bytes:
    """Runs, or rows, of a size that is not there; heights of both signs."""
    width, height = _sides(random, 2**31 - 1)
    runs = int(random.integers(2))
    rows = ((b"\xff\0" * -(-width // 255) + b"\0\0") * min(height, 999))[:2_000_000] if runs else bytes(3000)
    colours, bits = bytes(1024 * runs), 8 if runs else int(random.choice([1, 4, 16, 24, 32]))
    size = struct.pack("<Iii", 40, width, height * int(random.choice([-1, 1])))
    head = size + struct.pack("<HHIIiiII", 1, bits, runs, len(rows), 0, 0, 0, 0) + colours
    return struct.pack("<2sIHHI", b"BM", 14 + len(head) + len(rows), 0, 0, 14 + len(head)) + head + rows


def gif(folder: Path, random: Random) -> bytes:
    """Thousands of frames, each of a size of its own."""
    screen = struct.pack("<6sHHBBB", b"GIF89a", *_sides(random, 65535), 0x80, 0, 0) + bytes(6)
    frame = struct.pack("<sHHHHB", b",", 0, 0, *_sides(random, 65535), 0) + b"\2\2\x44\1\0"
    return screen + frame * int(10 ** random.uniform(0, 4.5)) + b";"


def webp(folder: Path, random: Random) -> bytes:
    """A lossless picture of up to 16384 x 16384, or a canvas of up to 2^24 on each side around a small one."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 12), (9, 8, 7)).save(stream, "WEBP", lossless=True)
    whole = bytearray(stream.getvalue())
    if random.random() < 0.5:
        width, height = _sides(random, 16384)
        struct.pack_into("<I", whole, 21, (width - 1) | (height - 1) << 14)
        return bytes(whole)
    width, height = (side - 1 for side in _sides(random, 2**24))
    canvas = b"VP8X" + struct.pack("<II", 10, 0) + width.to_bytes(3, "little") + height.to_bytes(3, "little")
    inside = b"WEBP" + canvas + bytes(whole[12:])
    return b"RIFF" + struct.pack("<I", len(inside)) + inside


def tiff(folder: Path, random: Random) -> bytes:
    """Strips that unpack to hundreds of megabytes, or to nothing; pages that follow each other in a circle."""
    width, height = _sides(random, 2**31 - 1)
    packed = zlib.compress(bytes(int(10 ** random.uniform(3, 8.3))), 9)
    compression = int(random.choice([1, 5, 8, 32773]))
    strip = packed if compression == 8 else b"\x81\0" * 1000
    depth, channels = int(random.choice([1, 8, 16, 32])), int(random.choice([1, 3, 4, 300]))
    rows = int(random.choice([1, min(height, 65535), 2**31 - 1]))
    fields = [(256, width), (257, height), (258, depth), (259, compression), (262, 2 if channels > 1 else 1)]
    fields += [(273, 8), (277, channels), (278, rows), (279, len(strip))]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    at = 8 + len(strip)
    page = struct.pack("<H", len(fields)) + entries
    return b"II*\0" + struct.pack("<I", at) + strip + page + struct.pack("<I", int(random.choice([0, at])))
