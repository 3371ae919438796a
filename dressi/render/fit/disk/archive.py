"""Arrays in one untrusted file: nothing is unpickled, and every size is checked before it is used."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ....errors import InputError


class Damaged(InputError):
    """A file is damaged; the message is a phrase whose subject is the file."""


_KINDS = "biufU"
"""Kinds of dtypes that are read: numbers and text."""


def write_arrays(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an uncompressed ``.npz``. Raises ValueError for object arrays, and OSError."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def read_arrays(path: Path, most_bytes: int) -> dict[str, np.ndarray]:
    """The arrays of a file by ``write_arrays``. Raises Damaged.

    Members must be uncompressed, so that none is larger than the file, and each array must fill its member. A file larger
    than ``most_bytes`` is not read.
    """
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise Damaged(f"has {size} bytes, and this fit needs at most {most_bytes}")
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            _check_members(members, size)
            return {m.filename.removesuffix(".npy"): _read(file, m) for m in members}
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        RuntimeError,  # NotImplementedError and RecursionError, too
        SyntaxError,
        TypeError,
        MemoryError,
        OverflowError,
        struct.error,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        if isinstance(error, Damaged):
            raise
        raise Damaged("is truncated, or not a file of arrays") from None


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise Damaged("has two arrays of one name")
    for member in members:
        if member.flag_bits & 1:
            raise Damaged("is encrypted")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise Damaged("is compressed, which this program's files never are")
        if not member.filename.endswith(".npy"):
            raise Damaged(f"holds '{member.filename[:40]}', which is no array")
    if sum(member.file_size for member in members) > size:
        raise Damaged("declares more bytes than it has")


def _read(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with file.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise Damaged(f"has an array of the unknown format {version}")
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read_header(stream)
        if dtype.kind not in _KINDS or dtype.hasobject or fortran:
            raise Damaged(f"has an array of type {str(dtype)[:40]}")
        if any(not isinstance(length, int) or length < 0 for length in shape) or len(shape) > 8:
            raise Damaged("has an array of an impossible shape")
        room = member.file_size - stream.tell()
        if math.prod(shape) * dtype.itemsize != room:
            raise Damaged("has an array whose size is not that of its data")
        data = stream.read()
    # Reading to the end checks the CRC.
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy() if data else np.zeros(shape, dtype)
