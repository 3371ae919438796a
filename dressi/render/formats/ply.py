"""PLY in and out: triangles, vertex colours, normals, UVs and the texture that a comment names."""

from __future__ import annotations

import io
import os
import warnings
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import InputError, shown
from ..io.files import beside, check_counts, read_bytes, truncated, usable, without_faces, write_files
from ..io.images import encode_png, linear_rgb
from ..mesh import Mesh, joined, triangulate, weld, weld_values
from ..surface.color import linear_to_srgb, srgb_to_linear

_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))
_UVS = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))


def load_ply(path: str | os.PathLike) -> Mesh:
    """Read a .ply, text or binary, as one welded Mesh, not cleaned yet. Polygons are triangulated, concave ones too.

    Colours of vertices or faces (`red green blue`, sRGB; integers by their range, floats in [0, 1]) become linear light;
    normals and UVs (of vertices, or `texcoord` of faces) are kept; the textures of ``comment TextureFile``, of which several are chosen by
    `texnumber` of faces, are looked for in the PLY's own folder only. Raises InputError naming the file.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.ply")
    >>> save_ply(path, cube())
    >>> load_ply(path).faces.shape
    (12, 3)
    """
    path = Path(path)
    data = read_bytes(path, "mesh")
    with usable(path, "its content"):
        header = read_header(data, path)
        found = read_elements(data, header, path)
        return _mesh(path, found["vertex"], found["face"], header.textures)


def _mesh(path: Path, vertex: Columns, face: Columns, textures: list[str]) -> Mesh:
    polygons = next((face[name] for name in ("vertex_indices", "vertex_index") if name in face), None)
    if not isinstance(polygons, Lists):
        raise InputError(f"'{path}' has faces without a list of vertices; export it again")
    points = _table(vertex, ("x", "y", "z"))
    if points is None:
        raise InputError(f"'{path}' has vertices without x, y and z; export it again")
    check_counts(path, 0, int(np.maximum(polygons.lengths.astype(np.int64) - 2, 0).sum()))
    numbers = polygons.values.astype(np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(points)):
        raise InputError(
            f"'{path}': a face refers to vertex {numbers.max()} of {len(points)}; the file is damaged"
        )
    polygon, corners = triangulate(points[numbers], polygons.lengths)
    if len(corners) == 0:
        raise without_faces(path, len(points))
    rows = numbers[corners]
    mesh = Mesh(*weld(points, rows), name=str(path))
    normals = _table(vertex, ("nx", "ny", "nz"))
    if normals is not None:
        mesh.normals, mesh.normal_faces = weld_values(normals, rows)
    wedge, uvs = (
        face.get("texcoord"),
        next(filter(_is_there, (_table(vertex, names) for names in _UVS)), None),
    )
    if isinstance(wedge, Lists) and (wedge.lengths == 2 * polygons.lengths).all():
        uvs, mesh.uv_faces = wedge.values.astype(np.float64).reshape(-1, 2), corners
    elif uvs is not None:
        mesh.uv_faces = rows
    if uvs is not None:
        # v grows upward in PLY
        mesh.uvs, mesh.uv_faces = weld_values(uvs * (1, -1) + (0, 1), np.asarray(mesh.uv_faces))
    _color(path, mesh, (vertex, rows), (face, np.repeat(polygon[:, None], 3, axis=1)))
    images = [_texture(path, name, mesh.uvs is not None) for name in textures]
    if len(images) == 1:
        mesh.texture = images[0]
    elif images and mesh.uvs is not None:
        numbers = _table(face, ("texnumber",))
        if numbers is None:
            warnings.warn(
                f"'{path}' has {len(images)} textures and no texnumber of faces; the first is used",
                stacklevel=4,
            )
            mesh.texture = images[0]
        else:
            return _textured(mesh, images, numbers[polygon, 0])
    return mesh


def _texture(path: Path, name: str, textured: bool) -> np.ndarray | None:
    """Linear albedo; None with a warning when the image is not there, or there are no UVs."""
    image = beside(path, name)
    if image is None or not textured:
        why = "is not beside it" if image is None else "has no UVs"
        warnings.warn(f"'{path}': its texture '{shown(name)}' {why} and was left out", stacklevel=5)
        return None
    return linear_rgb(read_bytes(image, "texture"), str(image))


def _textured(mesh: Mesh, images: list[np.ndarray | None], numbers: np.ndarray) -> Mesh:
    """The mesh with several textures in one atlas.  numbers: (F,) the image of each face; others are none."""
    numbers = np.where((numbers >= 0) & (numbers < len(images)), numbers, -1)
    parts = []
    for number in np.unique(numbers).astype(int).tolist():
        part = mesh.with_faces(numbers == number)
        part.texture = images[number] if number >= 0 else None
        parts.append(part)
    return joined(parts, mesh.name)


def _color(path: Path, mesh: Mesh, *sources: tuple[Columns, np.ndarray]) -> None:
    """Give the mesh the first colours that there are: tables, and which of their rows each corner has."""
    for columns, index in sources:
        for names in _COLORS:
            codes = _table(columns, names, scale=True)
            if codes is None:
                continue
            if not ((codes >= 0) & (codes <= 1)).all():
                raise InputError(f"'{path}' has colours outside [0, 1]; export it again")
            mesh.colors, mesh.color_faces = weld_values(srgb_to_linear(codes), index)
            alpha = _table(columns, ("alpha",), scale=True)
            if alpha is not None and (alpha < 1).any():
                warnings.warn(f"'{path}': the alpha of its colours was left out", stacklevel=5)
            if columns is sources[0][0] and all(one in sources[1][0] for one in names):
                warnings.warn(
                    f"'{path}': its colours of faces were left out for those of vertices", stacklevel=5
                )
            return


def _table(columns: Columns, names: tuple[str, ...], *, scale: bool = False) -> np.ndarray | None:
    """(n, k) float64 of single values; None when one is not there. scale: integers by their range to [0, 1]."""
    found = [columns.get(name) for name in names]
    if not all(isinstance(column, np.ndarray) for column in found):
        return None
    arrays = [np.asarray(column) for column in found]
    most = [float(np.iinfo(a.dtype).max) if scale and a.dtype.kind != "f" else 1.0 for a in arrays]
    return np.stack([a / m for a, m in zip(arrays, most, strict=True)], axis=1).astype(np.float64)


def _is_there(table: np.ndarray | None) -> bool:
    return table is not None


def save_ply(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write a binary .ply: positions as float32, vertices split at seams, with normals and UVs where the mesh has them, and
    vertex colours as 8-bit sRGB; path.png beside it when there is a texture. The colour factor is multiplied into the
    texture, or else into vertex colours.

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
    columns = [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]
    values = [*split.positions.T]
    if split.normals is not None:
        columns += [("nx", "<f4"), ("ny", "<f4"), ("nz", "<f4")]
        values += [*split.normals.T]
    if split.uvs is not None:
        columns += [("s", "<f4"), ("t", "<f4")]
        values += [split.uvs[:, 0], 1 - split.uvs[:, 1]]
    if colors is not None:
        columns += [("red", "u1"), ("green", "u1"), ("blue", "u1")]
        values += [*(linear_to_srgb(colors) * 255 + 0.5).T]
    rows = np.empty(len(split.positions), np.dtype(columns))
    for (name, _), column in zip(columns, values, strict=True):
        rows[name] = column.astype(rows.dtype[name])
    faces = np.empty(len(split.faces), np.dtype([("count", "u1"), ("index", "<i4", (3,))]))
    faces["count"], faces["index"] = 3, split.faces
    files: dict[Path, bytes] = {}
    head = ["ply", "format binary_little_endian 1.0"]
    if textured:
        files[path.with_suffix(".png")] = encode_png(np.asarray(mesh.texture) * factor)
        head.append(f"comment TextureFile {path.stem}.png")
    head.append(f"element vertex {len(rows)}")
    head += [f"property {'uchar' if kind == 'u1' else 'float'} {name}" for name, kind in columns]
    head += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header\n"]
    files[path] = "\n".join(head).encode() + rows.tobytes() + faces.tobytes()
    write_files(files)


# The elements of a PLY file: its header, and the values of each element in text and in both byte orders.
#
# Every count of the header is compared with the remaining bytes before memory is allocated.

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
_READ = ("vertex", "face", "material", "camera")
"""Elements that are read, or that say nothing about the mesh."""
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class Lists(NamedTuple):
    """A list property: (n,) lengths, and all values one after the other."""

    lengths: np.ndarray
    values: np.ndarray


Columns = dict[str, "np.ndarray | Lists"]
"""The values of an element by the names of its properties."""


@dataclass
class Property:
    """name and type of a value; count: the type of a list's length, None for a single value."""

    name: str
    dtype: str
    count: str | None = None


@dataclass
class Element:
    """A table of the file: count rows of properties."""

    name: str
    count: int
    properties: list[Property] = field(default_factory=list)


@dataclass
class Header:
    """order: of bytes, "" for text.  textures: the files that comments name.  size: bytes of the header."""

    order: str
    elements: list[Element]
    textures: list[str]
    size: int


def read_header(data: bytes, path: Path) -> Header:
    """Raises InputError, and what a damaged one breaks (see ``usable``)."""
    end = data[: 1 << 16].find(b"end_header")
    if not data.startswith(b"ply") or end < 0:
        raise InputError(f"'{path}' cannot be read as .ply; it is truncated, damaged or another kind of file")
    order, elements, textures = None, [], []
    for line in data[:end].decode("ascii", errors="replace").splitlines()[1:]:
        key, _, rest = line.strip().partition(" ")
        words = rest.split()
        if key == "format":
            order = _ORDERS.get(words[0])
        elif key == "comment" and words[:1] == ["TextureFile"]:
            textures.append(rest.strip().partition(" ")[2].strip())
        elif key == "element":
            elements.append(Element(words[0], int(words[1])))
        elif key == "property" and words[0] == "list":
            elements[-1].properties.append(Property(words[3], _TYPES[words[2]], _TYPES[words[1]]))
        elif key == "property":
            elements[-1].properties.append(Property(words[1], _TYPES[words[0]]))
    counts = {element.name: element.count for element in elements}
    if (
        order is None
        or min(counts.values(), default=-1) < 0
        or "vertex" not in counts
        or len(counts) < len(elements)
    ):
        raise InputError(f"'{path}' has no header of a PLY mesh with vertices and faces; export it again")
    if counts.get("tristrips"):
        raise InputError(
            f"'{path}' has strips of triangles, which are not read; export it with single triangles"
        )
    if not counts.get("face"):
        raise without_faces(path, counts["vertex"])
    lost = [f"{shown(e.name, 40)} ({e.count:,})" for e in elements if e.count and e.name not in _READ]
    if lost:
        warnings.warn(
            f"'{path}' has elements that are not read and were left out: {shown(', '.join(lost))}",
            stacklevel=4,
        )
    check_counts(path, counts["vertex"], counts["face"])
    newline = data.find(b"\n", end)
    return Header(order, elements, textures, len(data) if newline < 0 else newline + 1)


def read_elements(data: bytes, header: Header, path: Path) -> dict[str, Columns]:
    """The columns of each element by its name. Raises InputError when values are missing, and what damage breaks."""
    read = _Text(data, header, path) if header.order == "" else _Binary(data, header, path)
    return {element.name: read.columns(element) for element in header.elements}


class _Binary:
    """Elements of a binary file, one after the other."""

    def __init__(self, data: bytes, header: Header, path: Path):
        self.data, self.order, self.at, self.path = data, header.order, header.size, path

    def take(self, dtype: str, count: int) -> np.ndarray:
        kind = np.dtype(self.order + dtype)
        if not 0 <= count * kind.itemsize <= len(self.data) - self.at:
            raise truncated(self.path)
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += count * kind.itemsize
        return found

    def row(self, element: Element) -> list[np.ndarray]:
        return [
            self.take(p.dtype, 1 if p.count is None else int(self.take(p.count, 1)[0]))
            for p in element.properties
        ]

    def columns(self, element: Element) -> Columns:
        """In most files each row has lists as long as those of the first, so that they are a table."""
        if element.count == 0 or not element.properties:
            empty = np.zeros(0, np.int64)
            return {
                p.name: Lists(empty, empty) if p.count else np.zeros(0, p.dtype) for p in element.properties
            }
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
                self.at = start + element.count * dtype.itemsize
                values = [rows[f"value {k}"].reshape(-1) for k in range(len(first))]
                lengths = [np.full(element.count, len(one)) for one in first]
                return _columns(element, lengths, values)
        # A row has one byte at least, so that this ends.
        if element.count > len(self.data) - start or all(p.count is None for p in element.properties):
            raise truncated(self.path)
        found = [self.row(element) for _ in range(element.count)]
        lengths = [np.array([len(row[k]) for row in found]) for k in range(len(first))]
        return _columns(
            element, lengths, [np.concatenate([row[k] for row in found]) for k in range(len(first))]
        )


class _Text:
    """Elements of a text file, a line each."""

    def __init__(self, data: bytes, header: Header, path: Path):
        self.lines = io.BytesIO(data)
        self.lines.seek(header.size)
        self.left, self.path = len(data) - header.size, path

    def row(self) -> list[bytes]:
        while line := self.lines.readline(1 << 20):
            if words := line.split():
                return words
        raise truncated(self.path)

    def columns(self, element: Element) -> Columns:
        # Each value has a digit and a blank behind it.
        if element.count * 2 * len(element.properties) > self.left + 1:
            raise truncated(self.path)
        kinds = [np.dtype(p.dtype) for p in element.properties]
        values = [array("d" if kind.kind == "f" else "q") for kind in kinds]
        lengths = [array("q") for _ in kinds]
        parse = [float if kind.kind == "f" else _whole for kind in kinds]
        for _ in range(element.count if kinds else 0):
            row, at = self.row(), 0
            for k, p in enumerate(element.properties):
                length = 1
                if p.count is not None:
                    length = int(row[at])
                    at += 1
                if length < 0 or at + length > len(row):
                    raise truncated(self.path)
                lengths[k].append(length)
                values[k].extend(map(parse[k], row[at : at + length]))
                at += length
        tables = [self.typed(np.array(column), kind) for column, kind in zip(values, kinds, strict=True)]
        return _columns(element, [np.array(column, np.int64) for column in lengths], tables)

    def typed(self, values: np.ndarray, kind: np.dtype) -> np.ndarray:
        if kind.kind == "f":
            return values
        limits = np.iinfo(kind)
        if not ((values >= limits.min) & (values <= limits.max)).all():
            raise InputError(f"'{self.path}' has a value outside the range of its type; the file is damaged")
        return values.astype(kind)


def _whole(text: bytes) -> int:
    """Some exporters write whole numbers as 3.0."""
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _columns(element: Element, lengths: list[np.ndarray], values: list[np.ndarray]) -> Columns:
    return {
        p.name: one if p.count is None else Lists(length, one)
        for p, length, one in zip(element.properties, lengths, values, strict=True)
    }
