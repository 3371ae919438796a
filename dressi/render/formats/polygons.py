"""PLY, OFF and STL in and out: lists of vertices and of polygons, with colours, and what PLY has beside."""

from __future__ import annotations

import io
import math
import os
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import InputError, shown, warn
from ..io.files import Damaged, beside, check_counts, read_bytes, truncated, without_faces, write_files
from ..io.images import encode_png, read_texture
from ..mesh import Mesh, joined, triangulate, weld
from ..strands.geometry import PointGeometry
from ..surface.color import linear_to_srgb
from .clouds import cloud, linear_codes


def _rows(data: bytes, start: int = 0) -> Iterator[list[bytes]]:
    """The words of each line that has some; comments left out."""
    stream = io.BytesIO(data)
    stream.seek(start)
    while line := stream.readline(1 << 20):
        if words := line.partition(b"#")[0].split():
            yield words


def _row(rows: Iterator[list[bytes]], least: int) -> list[bytes]:
    row = next(rows, [])
    if len(row) < least:
        raise truncated()
    return row


def _triangles(
    points: np.ndarray, corners: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(F,) the polygon of each triangle, (F, 3) its rows of ``corners``, and (F, 3) its rows of ``points``.
    Raises InputError.

    corners: numbers of points of all polygons, one after the other, ``lengths`` a polygon.
    """
    if len(corners) and (corners.min() < 0 or corners.max() >= len(points)):
        raise Damaged(f"a face refers to vertex {corners.max()} of {len(points)}")
    polygon, rows = triangulate(points[corners], lengths)
    if len(rows) == 0:
        raise without_faces(len(points))
    return polygon, rows, corners[rows]


# PLY. The header lists elements, which are tables; every count in it is compared with the remaining bytes
# before memory is allocated.

_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))
_UVS = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_READ = ("vertex", "face", "material", "camera")
"""Elements that are read, or that say nothing about the mesh."""
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class _Lists(NamedTuple):
    """A list property: (n,) lengths, and all values one after the other."""

    lengths: np.ndarray
    values: np.ndarray


_Columns = dict[str, np.ndarray | _Lists]
"""The values of an element by the names of its properties."""


class _Property(NamedTuple):
    """count: the type of a list's length, None for a single value."""

    name: str
    dtype: str
    count: str | None = None


class _Element(NamedTuple):
    """A table of the file: count rows of properties."""

    name: str
    count: int
    properties: list[_Property]


class _Header(NamedTuple):
    """order: of bytes, "" for text.  textures: the files that comments name.  size: bytes of the header."""

    order: str
    elements: list[_Element]
    textures: list[str]
    size: int


def load_ply(path: Path) -> list[Mesh] | list[PointGeometry]:
    """Read a .ply, text or binary, as one welded Mesh, not cleaned yet, or without faces as points. Polygons
    are triangulated, concave ones too.

    Colours of vertices or faces (`red green blue`, sRGB; integers by their range, floats in [0, 1]) become
    linear light; normals and UVs (of vertices, or `texcoord` of faces) are kept; the textures of ``comment
    TextureFile``, of which several are chosen by `texnumber` of faces, are looked for in the PLY's own folder
    only. Raises InputError.
    """
    data = read_bytes(path, "mesh")
    header = _read_header(data, path)
    read = _Binary(data, header) if header.order else _Text(data, header)
    elements = {element.name: read.columns(element) for element in header.elements}
    vertex, face = elements["vertex"], elements.get("face", {})
    points = _table(vertex, ("x", "y", "z"))
    if points is None:
        raise Damaged("it has vertices without x, y and z")
    if not any(element.name == "face" and element.count for element in header.elements):
        if "nx" in vertex:
            warn(f"'{path}': normals of its points were left out")
        return cloud(points, _colours(vertex), path)
    polygons = next((face[name] for name in ("vertex_indices", "vertex_index") if name in face), None)
    if not isinstance(polygons, _Lists):
        raise Damaged("it has faces without a list of vertices")
    check_counts(0, int(np.maximum(polygons.lengths.astype(np.int64) - 2, 0).sum()))
    polygon, corners, rows = _triangles(points, polygons.values.astype(np.int64), polygons.lengths)
    mesh = Mesh(*weld(points, rows), name=str(path))
    normals = _table(vertex, ("nx", "ny", "nz"))
    if normals is not None:
        mesh.normals, mesh.normal_faces = weld(normals, rows)
    wedge = face.get("texcoord")
    uvs, uv_faces = next((t for names in _UVS if (t := _table(vertex, names)) is not None), None), rows
    if isinstance(wedge, _Lists) and (wedge.lengths == 2 * polygons.lengths).all():
        uvs, uv_faces = wedge.values.astype(np.float64).reshape(-1, 2), corners
    if uvs is not None:
        # v grows upward in PLY
        mesh.uvs, mesh.uv_faces = weld(uvs * (1, -1) + (0, 1), uv_faces)
    if not _coloured(path, mesh, vertex, rows):
        _coloured(path, mesh, face, np.repeat(polygon[:, None], 3, axis=1))
    elif any(set(names) <= face.keys() for names in _COLORS):
        warn(f"'{path}': its colours of faces were left out for those of vertices")
    images = [_texture(path, name, mesh.uvs is not None) for name in header.textures]
    numbers = _table(face, ("texnumber",))
    if len(images) < 2 or mesh.uvs is None or numbers is None:
        if len(images) > 1 and mesh.uvs is not None:
            warn(f"'{path}' has {len(images)} textures and no texnumber of faces; the first is used")
        mesh.texture = images[0] if images else None
        return [mesh]
    # Several textures lie in one atlas; numbers of none are -1.
    number = numbers[polygon, 0]
    number = np.where((number >= 0) & (number < len(images)), number, -1)
    parts = []
    for one in np.unique(number).astype(int).tolist():
        part = mesh.with_faces(number == one)
        part.texture = images[one] if one >= 0 else None
        parts.append(part)
    return [joined(parts, mesh.name)]


def _texture(path: Path, name: str, textured: bool) -> np.ndarray | None:
    """Linear albedo; None with a warning when the image is not there, or there are no UVs."""
    image = beside(path, name)
    if image is None or not textured:
        why = "is not beside it" if image is None else "has no UVs"
        warn(f"'{path}': its texture '{shown(name)}' {why} and was left out")
        return None
    return read_texture(image)


def _coloured(path: Path, mesh: Mesh, columns: _Columns, index: np.ndarray) -> bool:
    """Give the mesh the first colours of a table, if it has some.  index: (F, 3) its rows at the corners."""
    colours = _colours(columns)
    if colours is None:
        return False
    mesh.colors, mesh.color_faces = weld(colours, index)
    alpha = _table(columns, ("alpha",), scale=True)
    if alpha is not None and (alpha < 1).any():
        warn(f"'{path}': the alpha of its colours was left out")
    return True


def _colours(columns: _Columns) -> np.ndarray | None:
    """The first colours of a table as linear light, if it has some."""
    codes = next((t for names in _COLORS if (t := _table(columns, names, scale=True)) is not None), None)
    return None if codes is None else linear_codes(codes, 1.0)


def _table(columns: _Columns, names: tuple[str, ...], *, scale: bool = False) -> np.ndarray | None:
    """(n, k) float64 of single values; None when one is missing. scale: integers by their range to [0, 1]."""
    arrays = [column for name in names if isinstance(column := columns.get(name), np.ndarray)]
    if len(arrays) < len(names):
        return None
    most = [float(np.iinfo(a.dtype).max) if scale and a.dtype.kind != "f" else 1.0 for a in arrays]
    return np.stack([a / m for a, m in zip(arrays, most, strict=True)], axis=1).astype(np.float64)


def _read_header(data: bytes, path: Path) -> _Header:
    end = data[: 1 << 16].find(b"end_header")
    if not data.startswith(b"ply") or end < 0:
        raise InputError("it cannot be read as .ply; it is truncated, damaged or another kind of file")
    order, elements, textures = None, [], []
    for line in data[:end].decode("ascii", errors="replace").splitlines()[1:]:
        key, _, rest = line.strip().partition(" ")
        words = rest.split()
        if key == "format":
            order = _ORDERS.get(words[0])
        elif key == "comment" and words[:1] == ["TextureFile"]:
            textures.append(rest.strip().partition(" ")[2].strip())
        elif key == "element":
            elements.append(_Element(words[0], int(words[1]), []))
        elif key == "property" and words[0] == "list":
            elements[-1].properties.append(_Property(words[3], _TYPES[words[2]], _TYPES[words[1]]))
        elif key == "property":
            elements[-1].properties.append(_Property(words[1], _TYPES[words[0]]))
    counts = {element.name: element.count for element in elements}
    distinct = len(counts) == len(elements)
    if order is None or "vertex" not in counts or min(counts.values()) < 0 or not distinct:
        raise Damaged("it has no header of a PLY mesh with vertices and faces")
    if counts.get("tristrips"):
        raise InputError("it has strips of triangles, which are not read; export it with single triangles")
    lost = [f"{shown(e.name, 40)} ({e.count:,})" for e in elements if e.count and e.name not in _READ]
    if lost:
        warn(f"'{path}' has elements that are not read and were left out: {shown(', '.join(lost))}")
    check_counts(counts["vertex"], counts.get("face", 0))
    newline = data.find(b"\n", end)
    return _Header(order, elements, textures, len(data) if newline < 0 else newline + 1)


class _Binary:
    """Elements of a binary file, one after the other."""

    def __init__(self, data: bytes, header: _Header):
        self.data, self.order, self.at = data, header.order, header.size

    def take(self, dtype: str, count: int) -> np.ndarray:
        kind = np.dtype(self.order + dtype)
        if not 0 <= count * kind.itemsize <= len(self.data) - self.at:
            raise truncated()
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += values.nbytes
        return values

    def row(self, element: _Element) -> list[np.ndarray]:
        return [
            self.take(p.dtype, 1 if p.count is None else int(self.take(p.count, 1)[0]))
            for p in element.properties
        ]

    def columns(self, element: _Element) -> _Columns:
        """In most files each row has lists as long as those of the first, so that they are a table."""
        if element.count == 0 or not element.properties:
            empty = np.zeros(0, np.int64)
            return _columns(element, [empty] * len(element.properties), [empty] * len(element.properties))
        start = self.at
        first = self.row(element)
        fields: list[tuple] = []
        for k, (p, values) in enumerate(zip(element.properties, first, strict=True)):
            if p.count is not None:
                fields.append((f"length {k}", self.order + p.count))
            fields.append((f"value {k}", self.order + p.dtype, (len(values),)))
        dtype, self.at = np.dtype(fields), start
        if element.count * dtype.itemsize <= len(self.data) - start:
            rows = np.frombuffer(self.data, dtype, element.count, start)
            lists = [(k, len(first[k])) for k, p in enumerate(element.properties) if p.count is not None]
            if all((rows[f"length {k}"] == length).all() for k, length in lists):
                self.at = start + rows.nbytes
                lengths = [np.full(element.count, len(one)) for one in first]
                return _columns(element, lengths, [rows[f"value {k}"].reshape(-1) for k in range(len(first))])
        # A row has one byte at least, so that this ends.
        if element.count > len(self.data) - start or all(p.count is None for p in element.properties):
            raise truncated()
        by_property = list(zip(*(self.row(element) for _ in range(element.count)), strict=True))
        lengths = [np.array([len(one) for one in values]) for values in by_property]
        return _columns(element, lengths, [np.concatenate(values) for values in by_property])


class _Text:
    """Elements of a text file, a line each."""

    def __init__(self, data: bytes, header: _Header):
        self.rows, self.left = _rows(data, header.size), len(data) - header.size

    def columns(self, element: _Element) -> _Columns:
        # Each value has a digit and a blank behind it.
        if element.count * 2 * len(element.properties) > self.left + 1:
            raise truncated()
        kinds = [np.dtype(p.dtype) for p in element.properties]
        values = [array("d" if kind.kind == "f" else "q") for kind in kinds]
        lengths = [array("q") for _ in kinds]
        parse = [float if kind.kind == "f" else _whole for kind in kinds]
        for _ in range(element.count if kinds else 0):
            row, at = _row(self.rows, 1), 0
            for k, p in enumerate(element.properties):
                length = 1
                if p.count is not None:
                    length = int(row[at])
                    at += 1
                if length < 0 or at + length > len(row):
                    raise truncated()
                lengths[k].append(length)
                values[k].extend(map(parse[k], row[at : at + length]))
                at += length
        tables = [_typed(np.array(column), kind) for column, kind in zip(values, kinds, strict=True)]
        return _columns(element, [np.array(column, np.int64) for column in lengths], tables)


def _typed(values: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Numbers of a text by the type that the header gives them; floats keep their digits."""
    if kind.kind == "f":
        return values
    limits = np.iinfo(kind)
    if not ((values >= limits.min) & (values <= limits.max)).all():
        raise Damaged("it has a value outside the range of its type")
    return values.astype(kind)


def _whole(text: bytes) -> int:
    """Some exporters write whole numbers as 3.0."""
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _columns(element: _Element, lengths: list[np.ndarray], values: list[np.ndarray]) -> _Columns:
    return {
        p.name: one if p.count is None else _Lists(length, one)
        for p, length, one in zip(element.properties, lengths, values, strict=True)
    }


def save_ply(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write a binary .ply: positions as float32, vertices split at seams, with normals and UVs where the mesh
    has them, and vertex colours as 8-bit sRGB; path.png beside it when there is a texture. The colour factor
    is multiplied into the texture, or else into vertex colours.

    Each file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.ply")
    >>> save_ply(path, cube())
    >>> open(path, "rb").read(3)
    b'ply'
    """
    path = Path(path)
    split = mesh.validate().split_at_seams(normals=mesh.normals is not None)
    factor = np.asarray(mesh.color, dtype=np.float64)
    textured = mesh.texture is not None and split.uvs is not None
    colors = split.colors
    if not textured and (factor != 1).any():
        colors = (np.ones_like(split.positions) if colors is None else colors) * factor
    tables: list[tuple[tuple[str, ...], str, np.ndarray]] = [(("x", "y", "z"), "<f4", split.positions)]
    if split.normals is not None:
        tables.append((("nx", "ny", "nz"), "<f4", split.normals))
    if split.uvs is not None:
        tables.append((("s", "t"), "<f4", split.uvs * (1, -1) + (0, 1)))
    if colors is not None:
        tables.append((("red", "green", "blue"), "u1", linear_to_srgb(colors) * 255 + 0.5))
    columns = [(name, kind, values[:, k]) for names, kind, values in tables for k, name in enumerate(names)]
    rows = np.empty(len(split.positions), np.dtype([(name, kind) for name, kind, _ in columns]))
    for name, _, values in columns:
        rows[name] = values
    faces = np.empty(len(split.faces), np.dtype([("count", "u1"), ("index", "<i4", (3,))]))
    faces["count"], faces["index"] = 3, split.faces
    files: dict[Path, bytes] = {}
    head = ["ply", "format binary_little_endian 1.0"]
    if textured:
        files[path.with_suffix(".png")] = encode_png(np.asarray(mesh.texture) * factor)
        head.append(f"comment TextureFile {path.stem}.png")
    head.append(f"element vertex {len(rows)}")
    head += [f"property {'uchar' if kind == 'u1' else 'float'} {name}" for name, kind, _ in columns]
    head += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header\n"]
    files[path] = "\n".join(head).encode() + rows.tobytes() + faces.tobytes()
    write_files(files)


# OFF: a text of vertices and polygons, with colours of faces; COFF has colours of vertices.


def load_off(path: Path) -> Mesh:
    """Read a text .off or COFF as one welded Mesh, not cleaned yet. Polygons are triangulated, concave ones
    too; colours of vertices, otherwise of faces (sRGB), become linear light. Raises InputError."""
    data = read_bytes(path, "mesh")
    rows = _rows(data)
    kind, *counts = next(rows, [b""])
    if kind.upper() not in (b"OFF", b"COFF"):
        raise InputError("it cannot be read as .off; it is truncated, damaged or another kind of file")
    vertices, faces = (int(word) for word in (counts or next(rows, []))[:2])
    check_counts(vertices, faces)
    if min(vertices, faces) < 0 or 2 * (3 * vertices + faces) > len(data):
        raise truncated()
    numbers = array("d")
    for _ in range(vertices):
        numbers.extend(map(float, _row(rows, 3)[: 6 if kind.upper() == b"COFF" else 3]))
    points = np.array(numbers).reshape(vertices, -1)
    corners, lengths, codes = array("q"), array("q"), array("d")
    alone = 0
    for _ in range(faces):
        row = _row(rows, 1)
        count = int(row[0])
        if not 0 <= count < len(row):
            raise truncated()
        corners.extend(map(int, row[1 : 1 + count]))
        lengths.append(count)
        colour = row[1 + count :][:3]
        alone += len(colour) in (1, 2)  # a number of a colour map, which the file does not have
        codes.extend(map(float, colour) if len(colour) == 3 else (math.nan,) * 3)
    check_counts(vertices, len(corners) - 2 * len(lengths))
    if alone:
        warn(f"'{path}': {alone:,} faces have numbers of a colour map, which were left out")
    polygon, _, faces = _triangles(points[:, :3], np.array(corners, np.int64), np.array(lengths))
    mesh = Mesh(*weld(points[:, :3], faces), name=str(path))
    colours = np.array(codes).reshape(-1, 3)
    coloured = np.isfinite(colours).all(axis=1)
    if points.shape[1] == 6:
        mesh.colors, mesh.color_faces = weld(linear_codes(points[:, 3:]), faces)
        if coloured.any():
            warn(f"'{path}': its colours of faces were left out for those of vertices")
    elif coloured.any():
        colours[~coloured] = 1.0 if colours[coloured].max() <= 1 else 255.0
        mesh.colors, mesh.color_faces = weld(linear_codes(colours), np.repeat(polygon[:, None], 3, axis=1))
    return mesh


# STL: bare triangles, binary or text.

_TRIANGLE = np.dtype([("normal", "<f4", (3,)), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_VERTEX = re.compile(rb"\bvertex[ \t]+(\S+)[ \t]+(\S+)[ \t]+(\S+)")


def load_stl(path: Path) -> Mesh:
    """Read an .stl as one welded Mesh, not cleaned yet, without its normals: they follow from the corners.
    Raises InputError."""
    data = read_bytes(path, "mesh")
    # Binary files may start with "solid", too; their length tells them from text.
    count = int.from_bytes(data[80:84], "little")
    text = data.lstrip()[:5].lower() == b"solid" and b"facet" in data[:4096]
    size = 84 + count * _TRIANGLE.itemsize
    if len(data) >= 84 and (len(data) == size or (len(data) > size and count and not text)):
        check_counts(0, count)
        rows = np.frombuffer(data, _TRIANGLE, count, 84)
        corners = rows["corners"].reshape(-1, 3).astype(np.float64)
        if (rows["attribute"] >> 15).any() or b"COLOR=" in data[:80]:
            # Two programs keep 15 bits of colour there, in two orders.
            warn(f"'{path}': the colours in its attribute bytes were left out")
    elif text:
        corners = _stl_text(data.lower())
    else:
        raise InputError("it cannot be read as .stl; it is truncated, damaged or another kind of file")
    if len(corners) == 0:
        raise without_faces(0)
    return Mesh(*weld(corners, np.arange(len(corners)).reshape(-1, 3)), name=str(path))


def _stl_text(text: bytes) -> np.ndarray:
    """(3 F, 3) the corners."""
    faces = text.count(b"endfacet")
    check_counts(0, faces)
    numbers = array("d")
    for row in _VERTEX.finditer(text):
        numbers.extend(map(float, row.groups()))
    if len(numbers) != 9 * faces or b"endsolid" not in text:
        raise InputError("it is truncated or has faces that are no triangles; export it as binary STL or PLY")
    return np.array(numbers).reshape(-1, 3)


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
