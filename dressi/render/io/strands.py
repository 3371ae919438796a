"""Strands in and out of files, and of lists of lines."""

from __future__ import annotations

import os
import struct
import warnings
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...ad.graph import Variable
from ...errors import InputError
from ..strands.geometry import StrandGeometry
from .files import check_counts, read_bytes, usable, write_files

# Strands in and out of .hair (Cem Yuksel's HAIR format) and .tfx (AMD TressFX 4).

_HAIR = struct.Struct("<4s4I5f88s")
_SEGMENTS, _POINTS, _THICKNESS, _TRANSPARENCY, _COLOURS = (1 << k for k in range(5))
_LONGEST = 0xFFFF
"""Segments of a strand, a 16 bit number in .hair."""
_TFX = struct.Struct("<f7I128x")


class StrandTable(NamedTuple):
    """Strands of a file.

    >>> StrandTable(np.zeros((2, 3)), np.array([0, 2])).thickness is None
    True
    """

    points: np.ndarray
    """(N, 3) float64."""
    offsets: np.ndarray
    """(S + 1,) int64: where each strand starts, and N."""
    thickness: np.ndarray | None = None
    """(1,) or (N,): the width; None where the file has none."""
    colours: np.ndarray | None = None
    """(1, 3) or (N, 3), as in the file."""
    opacity: np.ndarray | None = None
    """(1,) or (N,) in [0, 1]."""


def load_hair(path: str | os.PathLike) -> StrandTable:
    """Read a .hair file. Raises InputError naming the file, also for a strand of one point.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.hair")
    >>> save_hair(path, StrandTable(np.eye(3), np.array([0, 3]), np.array([0.5])))
    >>> load_hair(path).thickness.tolist()
    [0.5]
    """
    path = Path(path)
    data = read_bytes(path, "file of strands")
    if not data.startswith(b"HAIR"):
        raise InputError(f"'{path}' is not a .hair file: it does not start with HAIR; export it again")
    _, strands, count, flags, segments, *rest = _header(path, data, _HAIR)
    if not flags & _POINTS:
        raise InputError(f"'{path}' has no points; export it with its points")
    check_counts(count, strands, "strands")
    given = [
        (name, kind, rows, columns)
        for name, flag, kind, rows, columns in (
            ("segments", _SEGMENTS, "<u2", strands, 1),
            ("points", _POINTS, "<f4", count, 3),
            ("thickness", _THICKNESS, "<f4", count, 1),
            ("transparency", _TRANSPARENCY, "<f4", count, 1),
            ("colours", _COLOURS, "<f4", count, 3),
        )
        if flags & flag
    ]
    needed = _HAIR.size + sum(np.dtype(kind).itemsize * rows * columns for _, kind, rows, columns in given)
    if len(data) < needed:
        raise InputError(
            f"'{path}' is truncated: its header promises {needed:,} bytes, and it has {len(data):,}; copy it again"
        )
    found, at = {}, _HAIR.size
    for name, kind, rows, columns in given:
        values = np.frombuffer(data, kind, rows * columns, at)
        found[name], at = values.reshape(rows, columns) if columns > 1 else values, at + values.nbytes
    if "segments" not in found and strands * (segments + 1) != count:
        raise InputError(
            f"'{path}': {strands:,} strands of {segments + 1:,} points do not make its {count:,} points; export it again"
        )
    lengths = (
        found["segments"].astype(np.int64) + 1 if "segments" in found else np.full(strands, segments + 1)
    )
    thickness, transparency = rest[0], rest[1]
    return _checked(
        path,
        StrandTable(
            found["points"].astype(np.float64),
            _offsets(path, lengths, count),
            found.get("thickness", np.array([thickness])).astype(np.float64),
            found.get("colours", np.array([rest[2:5]])).astype(np.float64),
            1 - found.get("transparency", np.array([transparency])).astype(np.float64),
        ),
    )


def save_hair(path: str | os.PathLike, table: StrandTable) -> None:
    """Write a .hair file: one value of thickness, colour and opacity in the header, one a point as a list. Raises InputError.

    >>> import tempfile
    >>> save_hair(Path(tempfile.mkdtemp()) / "a.hair", StrandTable(np.eye(3), np.array([0, 3])))
    """
    segments = np.diff(table.offsets) - 1
    if segments.max() > _LONGEST:
        raise InputError(
            f"'{path}': strand {int(segments.argmax())} has {segments.max():,} segments; .hair holds {_LONGEST:,}"
        )
    count, flags, lists = len(table.points), _SEGMENTS | _POINTS, [segments.astype("<u2"), table.points]
    single: list[float] = []
    for flag, values, default in (
        (_THICKNESS, table.thickness, [1.0]),
        (_TRANSPARENCY, None if table.opacity is None else 1 - table.opacity, [0.0]),
        (_COLOURS, table.colours, [[1.0, 1.0, 1.0]]),
    ):
        values = np.array(default) if values is None else values
        if len(values) == count:
            flags |= flag
            lists.append(values)
        single += np.asarray(values[0]).reshape(-1).tolist()
    info = b"strands written by dressi".ljust(88, b"\0")
    head = _HAIR.pack(b"HAIR", len(segments), count, flags, 0, *single, info)
    body = b"".join(v.tobytes() if v.dtype == "<u2" else v.astype("<f4").tobytes() for v in lists)
    write_files({Path(path): head + body})


def load_tfx(path: str | os.PathLike) -> StrandTable:
    """Read the strands of a .tfx file (TressFX 4): points, and colours of points where it has some. Thickness is not part of
    these files, whose fourth number tells which points are fixed. Raises InputError naming the file.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfx")
    >>> save_tfx(path, StrandTable(np.eye(3), np.array([0, 3])))
    >>> load_tfx(path).offsets.tolist()
    [0, 3]
    """
    path = Path(path)
    data = read_bytes(path, "file of strands")
    version, strands, length, at, strand_uvs, uvs, thickness, colours = _header(path, data, _TFX)
    if not 3.9 < version < 5.1:
        raise InputError(
            f"'{path}' is no .tfx file of version 4 (its first number is {version:g}); export it from TressFX 4"
        )
    count = strands * length
    check_counts(count, strands, "strands")
    if count == 0:
        raise InputError(f"'{path}' has no strands; export it again")
    parts = (
        ("points", at or 1, 16 * count), ("texture coordinates of strands", strand_uvs, 8 * strands),
        ("texture coordinates", uvs, 8 * count), ("thickness", thickness, 4 * strands), ("colours", colours, 16 * count),
    )  # fmt: skip
    for what, start, size in parts:
        if start and (start < _TFX.size or start + size > len(data)):
            raise InputError(
                f"'{path}' is truncated: its {what} end at byte {start + size:,} of {len(data):,}; copy it again"
            )

    if strand_uvs or uvs:
        warnings.warn(f"'{path}': its texture coordinates were left out", stacklevel=4)

    def rows(start: int) -> np.ndarray:
        return np.frombuffer(data, "<f4", 4 * count, start).reshape(count, 4)[:, :3].astype(np.float64)

    table = StrandTable(
        rows(at),
        _offsets(path, np.full(strands, length), count),
        colours=rows(colours) if colours else None,
    )
    return _checked(path, table)


def save_tfx(path: str | os.PathLike, table: StrandTable) -> None:
    """Write a .tfx file (TressFX 4). Its strands have equally many points; the first two of each are fixed, as TressFX
    expects. Raises InputError for strands of different lengths.

    >>> import tempfile
    >>> save_tfx(Path(tempfile.mkdtemp()) / "a.tfx", StrandTable(np.eye(3), np.array([0, 3])))
    """
    lengths = np.diff(table.offsets)
    if (lengths != lengths[0]).any():
        k = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"'{path}': strand {k} has {lengths[k]} points and the first has {lengths[0]}; .tfx holds equally long strands,"
            " save them as .hair"
        )
    count, length = len(table.points), int(lengths[0])
    free = np.arange(count) % length > 1
    places = np.column_stack([table.points, free]).astype("<f4").tobytes()
    given = table.colours if table.colours is not None and len(table.colours) == count else None
    start = _TFX.size + len(places)
    head = _TFX.pack(4.0, len(lengths), length, _TFX.size, 0, 0, 0, start if given is not None else 0)
    colours = b"" if given is None else np.column_stack([given, np.ones(count)]).astype("<f4").tobytes()
    write_files({Path(path): head + places + colours})


def _header(path: Path, data: bytes, header: struct.Struct) -> tuple[Any, ...]:
    if len(data) < header.size:
        raise InputError(
            f"'{path}' is truncated: its header has {header.size} bytes, and it has {len(data)}; copy it again"
        )
    return header.unpack_from(data)


def _offsets(path: Path, lengths: np.ndarray, count: int) -> np.ndarray:
    if len(lengths) == 0:
        raise InputError(f"'{path}' has no strands; export it again")
    if lengths.min() < 2:
        k = int(np.argmin(lengths))
        raise InputError(f"'{path}': strand {k} has {lengths[k]} point; a strand has at least two: drop it")
    if lengths.sum() != count:
        raise InputError(
            f"'{path}': its strands need {lengths.sum():,} points, and it has {count:,}; export it again"
        )
    return np.concatenate([[0], np.cumsum(lengths)])


def _checked(path: Path, table: StrandTable) -> StrandTable:
    """Raises InputError for values that no strand has."""
    wrong = ~np.isfinite(table.points).all(axis=1)
    if wrong.any():
        k = int(np.searchsorted(table.offsets, int(np.argmax(wrong)), side="right")) - 1
        raise InputError(f"'{path}': strand {k} has a point that is NaN or infinite; repair or drop it")
    for word, values, most in (
        ("thickness", table.thickness, np.inf), ("opacity", table.opacity, 1.0), ("colour", table.colours, np.inf),
    ):  # fmt: skip
        if values is not None and not ((values >= 0) & (values <= most) & np.isfinite(values)).all():
            raise InputError(f"'{path}': a {word} is negative, too large or NaN; repair or leave it out")
    return table


THIN = 0.0002
"""The radius of strands whose file has none, a fraction of the largest extent of their bounds."""
_LOADERS = {".hair": load_hair, ".tfx": load_tfx}
_SAVERS = {".hair": save_hair, ".tfx": save_tfx}


def load_strands(path: str | os.PathLike, radius: float | None = None) -> StrandGeometry:
    """Read .hair (Cem Yuksel's HAIR format) or .tfx (AMD TressFX 4) as polylines.

    radius: half of the width, instead of that of the file; where neither is known, 0.0002 of the largest extent. Colours are
    taken as linear. Raises InputError, one sentence naming the file: another or a damaged file, more points than
    `config.max_faces`, a strand of one point, values that are NaN.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "two.hair")
    >>> save_strands(path, StrandGeometry(np.eye(4)[:, :3], [0, 2, 4], radius=0.5))
    >>> load_strands(path).strands
    2
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    if load is None:
        read_bytes(path, "file of strands")
        raise InputError(f"'{path}' is not a known kind of strands; give a {' or '.join(_LOADERS)} file")
    if radius is not None and not (isinstance(radius, Real) and 0 <= radius < np.inf):
        raise InputError(f"the radius of strands is a number, at least 0, not {radius!r}")
    with usable(path, "its strands"):
        table = load(path)
        if radius is not None:
            width = np.array([radius], np.float64)
        elif table.thickness is not None:
            width = 0.5 * table.thickness
        else:
            width = np.array([THIN * float(np.ptp(table.points, axis=0).max())])
        return StrandGeometry(
            table.points,
            table.offsets,
            width,
            (1.0, 1.0, 1.0) if table.colours is None else table.colours,
            1.0 if table.opacity is None else table.opacity,
            name=path.stem,
        )


def save_strands(path: str | os.PathLike, strands: StrandGeometry) -> None:
    """Write strands of arrays as .hair or .tfx, by the ending; .tfx keeps points and colours alone, and its strands are equally
    long. Raises InputError.

    >>> import os, tempfile
    >>> save_strands(os.path.join(tempfile.mkdtemp(), "a.tfx"), StrandGeometry(np.eye(3)))
    """
    save = _SAVERS.get(Path(path).suffix.lower())
    if save is None:
        raise InputError(f"'{path}' cannot be written; give a name that ends in {' or '.join(_SAVERS)}")
    tables = (strands.points, strands.radius, strands.colours, strands.opacity)
    if any(isinstance(t, Variable) for t in tables):
        raise InputError(
            f"'{strands.name}' holds Variables; save the arrays that they were sent or received as"
        )
    if strands.unit != "world":
        raise InputError(
            f"radii of '{strands.name}' are in pixels, and files hold lengths of the world; give radii in the world"
        )
    points, radius, colours, opacity = tables
    save(path, StrandTable(points, strands.offsets, 2 * radius, colours, opacity))


def line_strands(
    positions: np.ndarray, indices: np.ndarray | None = None, mode: int = 1, name: str = "lines"
) -> StrandGeometry:
    """Strands of a primitive of lines, as glTF has them.

    positions: (V, 3).  indices: numbers of positions in order, by default all.  mode: 1, pairs, which are joined where one
    ends at the start of the next; 2, one closed line; 3, one open line. Lines are one pixel wide. Raises InputError.

    >>> line_strands(np.eye(3), np.array([0, 1, 1, 2])).offsets.tolist()
    [0, 3]
    """
    positions = np.asarray(positions, np.float64)
    numbers = np.arange(len(positions)) if indices is None else np.asarray(indices).reshape(-1)
    if mode not in (1, 2, 3):
        raise InputError(f"primitive '{name}' has mode {mode}; lines have 1, 2 or 3")
    least = 2
    if len(numbers) < least or (mode == 1 and len(numbers) % 2):
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
