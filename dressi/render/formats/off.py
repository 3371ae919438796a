"""OFF in: the text format of vertices and polygons, with the vertex colours of COFF."""

from __future__ import annotations

import io
import os
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import check_counts, read_bytes, truncated, usable
from dressi.render.mesh import Mesh, weld, weld_values
from dressi.render.surface.color import srgb_to_linear


def load_off(path: str | os.PathLike) -> Mesh:
    """Read a text .off or COFF as one welded Mesh, not cleaned yet. Polygons become fans; vertex colours (sRGB) become
    linear light. Raises InputError naming the file.

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
        corners = array("q")
        for _ in range(faces):
            count, *polygon = map(int, _polygon(_row(rows, path, 1)))
            if len(polygon) < count:
                raise truncated(path)
            for k in range(1, count - 1):
                corners.extend((polygon[0], polygon[k], polygon[k + 1]))
        check_counts(path, vertices, len(corners) // 3)
        return _mesh(path, np.array(points).reshape(vertices, -1), np.array(corners, np.int64).reshape(-1, 3))


def _mesh(path: Path, points: np.ndarray, corners: np.ndarray) -> Mesh:
    if len(corners) == 0:
        raise InputError(f"'{path}' has no faces; give a mesh with at least one triangle")
    if corners.min() < 0 or corners.max() >= len(points):
        raise InputError(
            f"'{path}': a face refers to vertex {corners.max()} of {len(points)}; the file is damaged"
        )
    mesh = Mesh(*weld(points[:, :3], corners), name=str(path))
    if points.shape[1] == 6:
        codes = points[:, 3:] / (255.0 if (points[:, 3:] > 1).any() else 1.0)
        if not ((codes >= 0) & (codes <= 1)).all():
            raise InputError(f"'{path}' has vertex colours outside [0, 255]; export it again")
        mesh.colors, mesh.color_faces = weld_values(srgb_to_linear(codes), corners)
    return mesh


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


def _polygon(row: list[bytes]) -> list[bytes]:
    """Without the colour that may follow the corners."""
    return row[: 1 + max(int(row[0]), 0)]
