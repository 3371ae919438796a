"""The elements of a PLY file: its header, and the values of each element in text and in both byte orders.

Every count of the header is compared with the remaining bytes before memory is allocated.
"""

from __future__ import annotations

import io
import warnings
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dressi.errors import InputError, shown
from dressi.render.io.files import check_counts, truncated, without_faces

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
