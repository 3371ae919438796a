"""Strands in and out of .hair (Cem Yuksel's HAIR format) and .tfx (AMD TressFX 4), and of lists of lines."""

from __future__ import annotations

import os
import struct
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...errors import InputError, warn
from ..strands.geometry import StrandGeometry
from .files import Damaged, check_counts, read_bytes, usable, write_files

THIN = 0.0002
"""The radius of strands whose file has none, a fraction of the largest extent of their bounds."""
_HAIR = struct.Struct("<4s4I5f88s")
_SEGMENTS, _POINTS, _THICKNESS, _TRANSPARENCY, _COLOURS = (1 << k for k in range(5))
_LONGEST = 0xFFFF
"""Segments of a strand, a 16 bit number in .hair."""
_TFX = struct.Struct("<f7I128x")


def load_strands(path: str | os.PathLike, radius: float | None = None) -> StrandGeometry:
    """Read .hair (Cem Yuksel's HAIR format) or .tfx (AMD TressFX 4) as polylines.

    radius: half of the width, instead of that of the file; where neither is known, 0.0002 of the largest
    extent. Colours are taken as linear. Raises InputError, one sentence naming the file: another or a damaged
    file, more points than `config.max_faces`, a strand of one point, values that are NaN.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "two.hair")
    >>> save_strands(path, StrandGeometry(np.eye(4)[:, :3], [0, 2, 4], radius=0.5))
    >>> load_strands(path).strands
    2
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    data = read_bytes(path, "file of strands")
    if load is None:
        raise InputError(f"'{path}' is not a known kind of strands; give a {' or '.join(_LOADERS)} file")
    if radius is not None and not (isinstance(radius, Real) and 0 <= radius < np.inf):
        raise InputError(f"the radius of strands is a number, at least 0, not {radius!r}")
    with usable(path, "its strands"):
        strands = load(data, path)
        colours = strands.get("colours")
        if colours is not None and (colours < 0).any():
            raise Damaged("it has negative colours")
        if radius is not None:
            strands["radius"] = radius
        elif "radius" not in strands:
            strands["radius"] = THIN * float(np.ptp(strands["points"], axis=0).max())
        return StrandGeometry(**strands, name=path.stem)


def save_strands(path: str | os.PathLike, strands: StrandGeometry) -> None:
    """Write strands of arrays as .hair or .tfx, by the ending; .tfx keeps points and colours alone, and its
    strands are equally long. Raises InputError.

    >>> import os, tempfile
    >>> save_strands(os.path.join(tempfile.mkdtemp(), "a.tfx"), StrandGeometry(np.eye(3)))
    """
    path = Path(path)
    encode = _ENCODERS.get(path.suffix.lower())
    if encode is None:
        raise InputError(f"'{path}' cannot be written; give a name that ends in {' or '.join(_ENCODERS)}")
    tables = (strands.points, strands.radius, strands.colours, strands.opacity)
    if any(isinstance(t, Variable) for t in tables):
        raise InputError(
            f"'{strands.name}' holds Variables; save the arrays that they were sent or received as"
        )
    if strands.unit != "world":
        raise InputError(
            f"radii of '{strands.name}' are in pixels, and files hold lengths of the world; give radii in the"
            " world"
        )
    with usable(path, "the strands"):
        write_files({path: encode(strands)})


def _header(data: bytes, header: struct.Struct) -> tuple[Any, ...]:
    if len(data) < header.size:
        raise Damaged(f"it is truncated: its header has {header.size} bytes, and it has {len(data)}")
    return header.unpack_from(data)


def _load_hair(data: bytes, path: Path) -> dict[str, Any]:
    if not data.startswith(b"HAIR"):
        raise Damaged("it is not a .hair file: it does not start with HAIR")
    _, strands, count, flags, segments, thickness, transparency, *colour, _ = _header(data, _HAIR)
    if not flags & _POINTS:
        raise InputError("it has no points; export it with its points")
    check_counts(count, strands, "strands")
    if strands == 0:
        raise Damaged("it has no strands")
    tables, at = [], _HAIR.size
    # Those that the file has lie one after the other; of the others the header has one value.
    for flag, kind, rows, columns, single in (
        (_SEGMENTS, "<u2", strands, 1, segments),
        (_POINTS, "<f4", count, 3, 0.0),
        (_THICKNESS, "<f4", count, 1, thickness),
        (_TRANSPARENCY, "<f4", count, 1, transparency),
        (_COLOURS, "<f4", count, 3, colour),
    ):
        if not flags & flag:
            tables.append(np.reshape(single, (1, -1)) if columns > 1 else np.array([single]))
            continue
        size = np.dtype(kind).itemsize * rows * columns
        if at + size > len(data):
            raise Damaged(
                f"it is truncated: its header promises {at + size:,} bytes or more, and it has {len(data):,}"
            )
        values = np.frombuffer(data, kind, rows * columns, at)
        tables.append(values.reshape(rows, columns) if columns > 1 else values)
        at += size
    lengths = np.broadcast_to(tables[0].astype(np.int64) + 1, strands)
    if lengths.sum() != count:
        raise Damaged(f"its {strands:,} strands need {lengths.sum():,} points, and it has {count:,}")
    _, points, thickness, transparency, colours = (table.astype(np.float64) for table in tables)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    looks = {"radius": 0.5 * thickness, "colours": colours, "opacity": 1 - transparency}
    return {"points": points, "offsets": offsets, **looks}


def _encode_hair(strands: StrandGeometry) -> bytes:
    """One value of thickness, transparency and colour in the header, one a point as a list."""
    segments = np.diff(strands.offsets) - 1
    if segments.max() > _LONGEST:
        raise InputError(
            f"strand {int(segments.argmax())} has {segments.max():,} segments; .hair holds {_LONGEST:,}"
        )
    flags, body = _SEGMENTS | _POINTS, [segments.astype("<u2"), strands.points.astype("<f4")]
    single: list[float] = []
    for flag, values in (
        (_THICKNESS, 2 * strands.radius),
        (_TRANSPARENCY, 1 - strands.opacity),
        (_COLOURS, strands.colours),
    ):
        if len(values) == strands.count:
            flags |= flag
            body.append(values.astype("<f4"))
        single += np.reshape(values[0], -1).tolist()
    info = b"strands written by dressi".ljust(88, b"\0")
    head = _HAIR.pack(b"HAIR", len(segments), strands.count, flags, 0, *single, info)
    return head + b"".join(table.tobytes() for table in body)


def _load_tfx(data: bytes, path: Path) -> dict[str, Any]:
    """Points, and colours of points where there are some. Thickness is not part of these files, whose fourth
    number tells which points are fixed."""
    version, strands, length, at, strand_uvs, uvs, thickness, colours = _header(data, _TFX)
    if not 3.9 < version < 5.1:
        raise InputError(
            f"it is no .tfx file of version 4 (its first number is {version:g}); export it from TressFX 4"
        )
    count = strands * length
    check_counts(count, strands, "strands")
    if count == 0:
        raise Damaged("it has no strands")
    parts = (
        ("points", at or 1, 16 * count), ("texture coordinates of strands", strand_uvs, 8 * strands),
        ("texture coordinates", uvs, 8 * count), ("thickness", thickness, 4 * strands),
        ("colours", colours, 16 * count),
    )  # fmt: skip
    for what, start, size in parts:
        if start and (start < _TFX.size or start + size > len(data)):
            raise Damaged(f"it is truncated: its {what} end at byte {start + size:,} of {len(data):,}")
    if strand_uvs or uvs:
        warn(f"'{path}': its texture coordinates were left out")

    def rows(start: int) -> np.ndarray:
        return np.frombuffer(data, "<f4", 4 * count, start).reshape(count, 4)[:, :3].astype(np.float64)

    return {
        "points": rows(at),
        "offsets": np.arange(strands + 1) * length,
        "colours": rows(colours) if colours else None,
    }


def _encode_tfx(strands: StrandGeometry) -> bytes:
    """The first two points of each strand are fixed, as TressFX expects."""
    lengths = np.diff(strands.offsets)
    if (lengths != lengths[0]).any():
        k = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"strand {k} has {lengths[k]} points and the first has {lengths[0]}; .tfx holds equally long"
            " strands, save them as .hair"
        )
    length = int(lengths[0])
    free = np.arange(strands.count) % length > 1
    places = np.column_stack([strands.points, free]).astype("<f4").tobytes()
    start, colours = 0, b""
    if len(strands.colours) == strands.count:
        start = _TFX.size + len(places)
        colours = np.column_stack([strands.colours, np.ones(strands.count)]).astype("<f4").tobytes()
    return _TFX.pack(4.0, len(lengths), length, _TFX.size, 0, 0, 0, start) + places + colours


_LOADERS = {".hair": _load_hair, ".tfx": _load_tfx}
_ENCODERS = {".hair": _encode_hair, ".tfx": _encode_tfx}


def line_strands(
    positions: np.ndarray, indices: np.ndarray | None = None, mode: int = 1, name: str = "lines"
) -> StrandGeometry:
    """Strands of a primitive of lines, as glTF has them.

    positions: (V, 3).  indices: numbers of positions in order, by default all.  mode: 1, pairs, which are
    joined where one ends at the start of the next; 2, one closed line; 3, one open line. Lines are one pixel
    wide. Raises InputError.

    >>> line_strands(np.eye(3), np.array([0, 1, 1, 2])).offsets.tolist()
    [0, 3]
    """
    positions = np.asarray(positions, np.float64)
    numbers = np.arange(len(positions)) if indices is None else np.asarray(indices).reshape(-1)
    if mode not in (1, 2, 3):
        raise InputError(f"primitive '{name}' has mode {mode}; lines have 1, 2 or 3")
    if len(numbers) < 2 or (mode == 1 and len(numbers) % 2):
        raise InputError(f"lines '{name}' have {len(numbers)} points; give two for each line")
    if numbers.min() < 0 or numbers.max() >= len(positions):
        raise InputError(f"lines '{name}' use point {numbers.max()} of {len(positions)}; export them again")
    if mode == 1:
        pairs = numbers.reshape(-1, 2)
        starts = np.concatenate([[True], pairs[1:, 0] != pairs[:-1, 1]])
        # A point of each pair, and before it the start of a new strand.
        kept = np.column_stack([starts, np.ones(len(pairs), bool)]).reshape(-1)
        numbers = pairs.reshape(-1)[kept]
        lengths = np.diff(np.flatnonzero(np.concatenate([starts, [True]]))) + 1
    else:
        numbers = np.concatenate([numbers, numbers[:1]]) if mode == 2 else numbers
        lengths = np.array([len(numbers)])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return StrandGeometry(positions[numbers], offsets, 0.5, unit="pixels", name=name)
