"""STL in and out: bare triangles, binary or text."""

from __future__ import annotations

import os
import re
import warnings
from array import array
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import check_counts, read_bytes, usable, write_files
from dressi.render.mesh import Mesh, weld

_TRIANGLE = np.dtype([("normal", "<f4", (3,)), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_VERTEX = re.compile(rb"\bvertex[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)")


def load_stl(path: str | os.PathLike) -> Mesh:
    """Read an .stl as one welded Mesh, not cleaned yet. Its normals are left out: they follow from the corners.

    Raises InputError naming the file.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.stl")
    >>> save_stl(path, cube())
    >>> load_stl(path).is_closed()
    True
    """
    path = Path(path)
    data = read_bytes(path, "mesh")
    with usable(path, "its content"):
        # Binary files may start with "solid", too; their length tells them from text.
        count = int.from_bytes(data[80:84], "little")
        text = data.lstrip()[:5].lower() == b"solid" and b"facet" in data[:4096]
        size = 84 + count * _TRIANGLE.itemsize
        if len(data) >= 84 and (len(data) == size or (len(data) > size and count and not text)):
            check_counts(path, 0, count)
            rows = np.frombuffer(data, _TRIANGLE, count, 84)
            corners = rows["corners"].astype(np.float64)
            if (rows["attribute"] >> 15).any() or b"COLOR=" in data[:80]:
                # Two programs keep 15 bits of colour there, in two orders.
                warnings.warn(f"'{path}': the colours in its attribute bytes were left out", stacklevel=3)
        elif text:
            corners = _text(data, path)
        else:
            raise InputError(
                f"'{path}' cannot be read as .stl; it is truncated, damaged or another kind of file"
            )
        if len(corners) == 0:
            raise InputError(f"'{path}' has no faces; give a mesh with at least one triangle")
        return Mesh(*weld(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)), name=str(path))


def _text(data: bytes, path: Path) -> np.ndarray:
    """(F, 3, 3)."""
    text = data.lower()
    faces = text.count(b"endfacet")
    check_counts(path, 0, faces)
    found = array("d")
    for row in _VERTEX.finditer(text):
        found.extend(map(float, row.groups()))
    rows = np.array(found).reshape(-1, 3)
    if len(rows) != 3 * faces or b"endsolid" not in text:
        raise InputError(
            f"'{path}' is truncated or has faces that are no triangles; export it as binary STL or PLY"
        )
    return rows.reshape(-1, 3, 3)


def save_stl(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write a binary .stl, which holds the shape alone: UVs, colours and textures need .glb, .ply or .obj.

    The file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import tetrahedron
    >>> path = os.path.join(tempfile.mkdtemp(), "a.stl")
    >>> save_stl(path, tetrahedron())
    >>> os.path.getsize(path)
    284
    """
    mesh.validate()
    rows = np.zeros(len(mesh.faces), _TRIANGLE)
    rows["normal"], rows["corners"] = mesh.face_normals(), mesh.positions[mesh.faces]
    head = b"binary STL, written by dressi".ljust(80, b"\0") + len(rows).to_bytes(4, "little")
    write_files({Path(path): head + rows.tobytes()})
