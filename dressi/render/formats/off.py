"""OFF in: the text format of vertices and polygons, with colours of faces and the vertex colours of COFF."""

from __future__ import annotations

import io
import math
import os
import warnings
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import check_counts, read_bytes, truncated, usable, without_faces
from dressi.render.mesh import Mesh, triangulate, weld, weld_values
from dressi.render.surface.color import srgb_to_linear


def load_off(path: str | os.PathLike) -> Mesh:
    """Read a text .off or COFF as one welded Mesh, not cleaned yet. Polygons are triangulated, concave ones too; colours of
    vertices, otherwise of faces (sRGB), become linear light. Raises InputError naming the file.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.off")
    >>> _ = open(path, "w").write("OFF\\n4 1 0\\n0 0 0\\n1 0 0\\n1 1 0\\n0 1 0\\n4 0 1 2 3\\n")
    >>> load_off(path).faces.tolist()
    [[0, 1, 2], [0, 2, 3]]
    """
    path = Path(path)
    data = read_bytes(path, "mesh")
    with usable(path, "its content"):
        rows = _rows(data)
        kind, *counts = next(rows, [b""])
        if kind.upper() not in (b"OFF", b"COFF"):
            raise InputError(
                f"'{path}' cannot be read as .off; it is truncated, damaged or another kind of file"
            )
        vertices, faces = (int(word) for word in (counts or next(rows, []))[:2])
        check_counts(path, vertices, faces)
        if min(vertices, faces) < 0 or 2 * (3 * vertices + faces) > len(data):
            raise truncated(path)
        points = array("d")
        for _ in range(vertices):
            points.extend(map(float, _row(rows, path, 3)[: 6 if kind.upper() == b"COFF" else 3]))
        corners, lengths, colours = array("q"), array("q"), array("d")
        alone = 0
        for _ in range(faces):
            row = _row(rows, path, 1)
            count = int(row[0])
            if not 0 <= count < len(row):
                raise truncated(path)
            corners.extend(map(int, row[1 : 1 + count]))
            lengths.append(count)
            colour = row[1 + count :][:3]
            alone += len(colour) in (1, 2)  # a number of a colour map, which the file does not have
            colours.extend(map(float, colour) if len(colour) == 3 else (math.nan,) * 3)
        check_counts(path, vertices, len(corners) - 2 * len(lengths))
        if alone:
            warnings.warn(
                f"'{path}': {alone:,} faces have numbers of a colour map, which were left out", stacklevel=3
            )
        table = np.array(points).reshape(vertices, -1)
        return _mesh(
            path, table, np.array(corners, np.int64), np.array(lengths), np.array(colours).reshape(-1, 3)
        )


def _mesh(
    path: Path, points: np.ndarray, corners: np.ndarray, lengths: np.ndarray, colours: np.ndarray
) -> Mesh:
    """colours: (P, 3) codes of polygons, NaN where there are none."""
    if len(corners) and (corners.min() < 0 or corners.max() >= len(points)):
        raise InputError(
            f"'{path}': a face refers to vertex {corners.max()} of {len(points)}; the file is damaged"
        )
    polygon, rows = triangulate(points[corners, :3], lengths)
    if len(rows) == 0:
        raise without_faces(path, len(points))
    faces = corners[rows]
    mesh = Mesh(*weld(points[:, :3], faces), name=str(path))
    coloured = np.asarray(np.isfinite(colours).all(axis=1))
    if points.shape[1] == 6:
        mesh.colors, mesh.color_faces = weld_values(_linear(path, points[:, 3:]), faces)
        if coloured.any():
            warnings.warn(f"'{path}': its colours of faces were left out for those of vertices", stacklevel=4)
    elif coloured.any():
        white = np.full(3, 1.0 if colours[coloured].max() <= 1 else 255.0)
        codes = np.where(coloured[:, None], colours, white)
        mesh.colors, mesh.color_faces = weld_values(
            _linear(path, codes), np.repeat(polygon[:, None], 3, axis=1)
        )
    return mesh


def _linear(path: Path, codes: np.ndarray) -> np.ndarray:
    """Colours of a file, in [0, 255] or [0, 1], as linear light."""
    codes = codes / (255.0 if (codes > 1).any() else 1.0)
    if not ((codes >= 0) & (codes <= 1)).all():
        raise InputError(f"'{path}' has colours outside [0, 255]; export it again")
    return srgb_to_linear(codes)


def _rows(data: bytes) -> Iterator[list[bytes]]:
    """The words of each line that has some; comments left out."""
    stream = io.BytesIO(data)
    while line := stream.readline(1 << 20):
        if words := line.partition(b"#")[0].split():
            yield words


def _row(rows: Iterator[list[bytes]], path: Path, least: int) -> list[bytes]:
    row = next(rows, [])
    if len(row) < least:
        raise truncated(path)
    return row
