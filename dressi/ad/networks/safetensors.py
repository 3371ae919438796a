"""Arrays in and out of safetensors files: a header of JSON, and the numbers behind it."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, shown
from .parameters import flat

__all__ = ["load_safetensors", "save_safetensors"]

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
BFLOAT = "BF16"
LONGEST = 100_000_000  # bytes of a header, by the format


def load_safetensors(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file by name.

    path: of the file. Types are those of the file, with float32 for bfloat16; a NumPy array each.
    ``networks.nested`` makes a tree of them. The file is not trusted: nothing in it is executed, and what
    does not fit is refused. Raises InputError.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "net.safetensors"
    ...     networks.save_safetensors(file, {"layer": {"bias": np.ones(2, np.float32)}})
    ...     networks.load_safetensors(file)
    {'layer.bias': array([1., 1.], dtype=float32)}
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the weights '{path}': {error.strerror or error}; check the path"
        ) from None
    try:
        return _arrays(data)
    except _Wrong as error:
        raise InputError(
            f"'{path}' is no safetensors file that can be read: {error}; save it again, with"
            " safetensors.torch.save_file or networks.save_safetensors"
        ) from None


class _Wrong(Exception):
    """What a file has that the format does not allow."""


def _arrays(data: bytes) -> dict[str, np.ndarray]:
    if len(data) < 8:
        raise _Wrong("it is shorter than the length of its header")
    (length,) = struct.unpack("<Q", data[:8])
    if length > min(len(data) - 8, LONGEST):
        raise _Wrong(f"its header would take {length} bytes")
    try:
        header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise _Wrong("its header is no JSON") from None
    if not isinstance(header, dict):
        raise _Wrong("its header is no JSON object")
    body = memoryview(data)[8 + length :]
    header.pop("__metadata__", None)
    arrays = {name: _array(name, entry, body) for name, entry in header.items()}
    reached = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in header.values()):
        if begin != reached:
            raise _Wrong("its arrays overlap, or leave gaps")
        reached = end
    if reached != len(body):
        raise _Wrong(f"{len(body) - reached} bytes follow the last array")
    return arrays


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise _Wrong("its header has a name twice")
    return entries


def _array(name: str, entry: Any, body: memoryview) -> np.ndarray:
    entry = entry if isinstance(entry, dict) else {}
    shape, span, kind = entry.get("shape"), entry.get("data_offsets"), entry.get("dtype")
    if not (
        _whole_numbers(shape) and _whole_numbers(span) and len(span) == 2 and span[0] <= span[1] <= len(body)
    ):
        raise _Wrong(f"'{shown(name)}' has no shape, or lies outside of the file")
    if not isinstance(kind, str) or (kind not in TYPES and kind != BFLOAT):
        raise _Wrong(
            f"'{shown(name)}' is of the type {shown(repr(kind), 20)}, which is none of"
            f" {', '.join([*TYPES, BFLOAT])}"
        )
    dtype = np.dtype(TYPES.get(kind, "<u2"))
    if len(shape) > 32 or math.prod(shape) * dtype.itemsize != span[1] - span[0]:
        raise _Wrong(f"'{shown(name)}' has another number of bytes than its shape {shown(shape)}")
    numbers = np.frombuffer(body[span[0] : span[1]], dtype)
    if kind == BFLOAT:
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    try:
        return numbers.reshape(shape).copy()
    except ValueError:  # a product of 0 says nothing about the other extents
        raise _Wrong(f"'{shown(name)}' has the shape {shown(shape)}, which no array has") from None


def _whole_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in values)


def save_safetensors(path: str | Path, tree: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays into a .safetensors file, which PyTorch, JAX and others read.

    path: of the file. tree: a dict of NumPy arrays, or a tree of them such as ``networks.arrays`` gives;
    names are paths, such as "layer.0.weight". metadata: texts by name. Raises InputError.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     networks.save_safetensors(pathlib.Path(folder) / "net.safetensors", [{"bias": np.zeros(3)}])
    ...     list(networks.load_safetensors(pathlib.Path(folder) / "net.safetensors"))
    ['0.bias']
    """
    codes = {np.dtype(text): code for code, text in TYPES.items()}
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    parts, at = [], 0
    for name, value in flat(tree).items():
        array = np.asarray(value)
        code = codes.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise InputError(
                f"'{shown(name)}' is an array of {array.dtype}, which safetensors files do not hold; use"
                " float32"
            )
        bits = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [at, at + len(bits)]}
        parts.append(bits)
        at += len(bits)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    try:
        Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    except OSError as error:
        raise InputError(f"cannot write the weights '{path}': {error.strerror or error}") from None
