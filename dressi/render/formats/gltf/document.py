"""A glTF 2.0 file as its parts: JSON, buffers and accessors.

Every index, count and offset is checked before it is followed and before memory of its size is allocated.
"""

from __future__ import annotations

import base64
import binascii
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np

from ....config import config
from ....errors import InputError, shown
from ...io.files import BROKEN, LARGEST_FILE, check_counts, inside, parse_json, read_bytes, reason
from ...materials import GLTF

MAGIC, JSON_CHUNK, BINARY_CHUNK = 0x46546C67, 0x4E4F534A, 0x004E4942
_DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
_KNOWN = GLTF.extensions | {
    "KHR_lights_punctual", "KHR_mesh_quantization", "KHR_texture_transform", "KHR_materials_unlit", "EXT_texture_webp",
}  # fmt: skip

LARGEST_EMPTY = 65_536
"""Elements of an accessor without data, which are zeros, in a file of fewer bytes."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """While a document is read: what breaks on a damaged file becomes an InputError that names the file."""
    try:
        yield
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(
            f"'{path}' is not valid glTF 2.0 ({type(error).__name__}: {reason(error)}); export it again"
        ) from None


class Document:
    """A parsed file with its buffers; methods follow the references of the format and raise InputError."""

    def __init__(self, path: Path):
        self.path = path
        data = read_bytes(path, "mesh")
        if not data:
            raise InputError(f"'{path}' is empty; copy or export it again")
        self._size = len(data)
        self.binary: bytes | None = None
        text = data
        if data[:4] == b"glTF" or path.suffix.lower() == ".glb":
            text, self.binary = self._chunks(data)
        try:
            self.json: dict[str, Any] = parse_json(text, path)
            version = str(self.json["asset"]["version"])
        except (KeyError, TypeError):
            raise InputError(f"'{path}' is not a glTF file, or it is truncated; export it again") from None
        if not version.startswith("2"):
            raise InputError(f"'{path}' is glTF {shown(version)}; export it as glTF 2.0")
        unknown = sorted({str(name) for name in self.json.get("extensionsRequired", [])} - _KNOWN)
        if unknown:
            raise InputError(
                f"'{path}' needs {shown(', '.join(unknown))}, which is not read here; export it without compression"
            )
        unread = sorted({str(name) for name in self.json.get("extensionsUsed", [])} - _KNOWN)
        if unread:
            warnings.warn(
                f"'{path}' uses {shown(', '.join(unread))}, which is not read here and was left out",
                stacklevel=4,
            )
        moving = self.items("animations")
        if moving:
            warnings.warn(
                f"'{path}' has {len(moving)} animation{'s' if len(moving) > 1 else ''}, which are not read here; what they move stands"
                " as its nodes say",
                stacklevel=4,
            )
        scenes = self.items("scenes")
        if len(scenes) > 1:
            warnings.warn(
                f"'{path}' has {len(scenes)} scenes; scene {shown(self.json.get('scene', 0))} is read",
                stacklevel=4,
            )
        self._buffers: dict[int, bytes] = {}
        self._accessors: dict[int, np.ndarray] = {}
        self._decoded = 0

    def _chunks(self, data: bytes) -> tuple[bytes, bytes | None]:
        if len(data) < 20 or struct.unpack_from("<I", data)[0] != MAGIC:
            raise InputError(f"'{self.path}' is not a GLB file, or it is truncated; export it again")
        _, version, length = struct.unpack_from("<III", data)
        if version != 2:
            raise InputError(f"'{self.path}' is GLB version {version}; export it as glTF 2.0")
        if length > len(data):
            raise InputError(
                f"'{self.path}' is truncated: it should have {length} bytes and has {len(data)}; copy or export it again"
            )
        found: dict[int, bytes] = {}
        offset = 12
        while offset + 8 <= length and not {JSON_CHUNK, BINARY_CHUNK} <= set(found):
            size, kind = struct.unpack_from("<II", data, offset)
            if offset + 8 + size > length:
                raise InputError(
                    f"'{self.path}' is damaged: a chunk runs past its end; copy or export it again"
                )
            if kind in (JSON_CHUNK, BINARY_CHUNK):
                found.setdefault(kind, data[offset + 8 : offset + 8 + size])
            offset += 8 + size + (-size % 4)
        if JSON_CHUNK not in found:
            raise InputError(f"'{self.path}' has no JSON chunk; export it again")
        return found[JSON_CHUNK], found.get(BINARY_CHUNK)

    # ---- entries

    def items(self, kind: str) -> list[dict[str, Any]]:
        """All entries of a kind, such as nodes."""
        found = self.json.get(kind, [])
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise InputError(f"'{self.path}': {kind} is not a list of objects; export it again")
        return found

    def item(self, kind: str, index: Any) -> dict[str, Any]:
        """One entry of a kind."""
        items = self.json.get(kind, [])
        if type(index) is not int:
            raise TypeError(f"{shown(repr(index))} is no number of an entry of {kind}")
        if not 0 <= index < len(items) or not isinstance(items[index], dict):
            raise InputError(
                f"'{self.path}' refers to entry {shown(index)} of {kind}, which has {len(items)}; export it again"
            )
        return items[index]

    def whole(self, entry: dict[str, Any], key: str, default: int | None = None) -> int:
        """A number of an entry that counts something."""
        value = entry.get(key, default)
        if type(value) is not int or not 0 <= value < 1 << 53:
            raise InputError(
                f"'{self.path}': {key} must be a whole number from 0 on, not {shown(value)}; export it again"
            )
        return value

    def numbers(self, entry: dict[str, Any], key: str, default: tuple[float, ...]) -> np.ndarray:
        """Finite numbers of an entry, as many as the default has."""
        values = np.array(entry.get(key, default), dtype=np.float64)
        if values.shape != (len(default),) or not np.isfinite(values).all():
            raise InputError(
                f"'{self.path}': {key} must be {len(default)} finite numbers, not {shown(entry.get(key))}; export it again"
            )
        return values

    def number(self, entry: dict[str, Any], key: str, default: float) -> float:
        """A finite number of an entry."""
        return float(self.numbers({key: [entry.get(key, default)]}, key, (default,))[0])

    # ---- data

    def uri(self, uri: Any) -> bytes:
        """What a URI holds, or the bytes of the file beside this one that it names."""
        if not isinstance(uri, str):
            raise InputError(f"'{self.path}': a uri must be text, not {shown(uri)}; export it again")
        if uri.startswith("data:"):
            head, _, body = uri.partition(",")
            try:
                return (
                    base64.b64decode(body, validate=True)
                    if head.endswith(";base64")
                    else unquote_to_bytes(body)
                )
            except (binascii.Error, ValueError):
                raise InputError(f"'{self.path}' has a damaged data URI; export it again") from None
        return read_bytes(inside(self.path.parent, uri, self.path), "file")

    def buffer(self, index: int) -> bytes:
        """The bytes of a buffer."""
        if index not in self._buffers:
            entry = self.item("buffers", index)
            size = self.whole(entry, "byteLength")
            if "uri" in entry:
                data = self.uri(entry["uri"])
            elif self.binary is not None:
                data = self.binary
            else:
                raise InputError(f"'{self.path}' has no data for buffer {index}; export it again")
            if len(data) < size:
                raise InputError(
                    f"'{self.path}': buffer {index} is truncated ({len(data)} of {size} bytes);"
                    " copy or export it again"
                )
            self._buffers[index] = data
            if sum(map(len, self._buffers.values())) > LARGEST_FILE:
                raise InputError(f"'{self.path}' has more than {LARGEST_FILE:,} bytes of buffers; split it")
        return self._buffers[index]

    def view(self, index: Any) -> tuple[memoryview, int]:
        """The bytes of a buffer view, and its stride, 0 for none."""
        entry = self.item("bufferViews", index)
        start, size = self.whole(entry, "byteOffset", 0), self.whole(entry, "byteLength")
        data = self.buffer(entry["buffer"])
        if start + size > len(data):
            raise InputError(f"'{self.path}': buffer view {index} runs past its buffer; export it again")
        return memoryview(data)[start : start + size], self.whole(entry, "byteStride", 0)

    def _elements(self, entry: dict[str, Any], count: int, dtype: np.dtype, width: int) -> np.ndarray:
        view, offset = entry["bufferView"], self.whole(entry, "byteOffset", 0)
        data, stride = self.view(view)
        size = dtype.itemsize * width
        if 0 < stride < size:
            raise InputError(
                f"'{self.path}': byteStride {stride} is less than an element's {size}; export it again"
            )
        stride = stride or size
        if count and offset + (count - 1) * stride + size > len(data):
            raise InputError(f"'{self.path}': an accessor runs past buffer view {view}; export it again")
        return np.ndarray((count, width), dtype, data, offset if count else 0, (stride, dtype.itemsize))

    def count(self, index: Any) -> int:
        """How many elements an accessor has, which is checked before they are made."""
        count = self.whole(self.item("accessors", index), "count")
        check_counts(self.path, 0, count // 3)
        return count

    def accessor(self, index: Any) -> np.ndarray:
        """(count, width) float64, or int64 for integers that are not normalised. Read-only; shared by its readers."""
        if index not in self._accessors:
            found = self._accessor(index, self.item("accessors", index))
            found.flags.writeable = False
            self._accessors[index] = found
        return self._accessors[index]

    def _accessor(self, index: int, entry: dict[str, Any]) -> np.ndarray:
        dtype, width = self._dtype(entry), _WIDTHS.get(entry.get("type", ""))
        if width is None:
            raise InputError(
                f"'{self.path}': accessor {index} has the type {shown(entry.get('type'))}; export it again"
            )
        count = self.count(index)
        self._decoded += count * width
        if self._decoded > 32 * config.max_faces:
            raise InputError(
                f"'{self.path}' has accessors of over {32 * config.max_faces:,} values; decimate it,"
                " or raise DRESSI_MAX_FACES"
            )
        if "bufferView" in entry:
            values = self._elements(entry, count, dtype, width)
        else:
            if count > max(self._size, LARGEST_EMPTY):
                raise InputError(
                    f"'{self.path}': accessor {index} has {count:,} elements without data, more than the file has bytes;"
                    " export it again"
                )
            values = np.zeros((count, width), dtype)
        if "sparse" in entry:
            values = self._replaced(values, entry["sparse"])
        if dtype.kind == "f":
            return values.astype(np.float64)
        if entry.get("normalized"):
            return np.maximum(values / np.iinfo(dtype).max, -1.0)
        return values.astype(np.int64)

    def _dtype(self, entry: dict[str, Any]) -> np.dtype:
        kind = entry.get("componentType")
        if type(kind) is not int or kind not in _DTYPES:
            raise InputError(
                f"'{self.path}': there is no component type {shown(kind)} in glTF; export it again"
            )
        return np.dtype(_DTYPES[kind])

    def _replaced(self, values: np.ndarray, part: dict[str, Any]) -> np.ndarray:
        """A copy of the values with those of a sparse accessor in their places."""
        count = self.whole(part, "count")
        if count > len(values):
            raise InputError(
                f"'{self.path}': a sparse accessor replaces {count} of {len(values)} elements; export it again"
            )
        place = self._elements(part["indices"], count, self._dtype(part["indices"]), 1)[:, 0]
        if count and not ((place >= 0) & (place < len(values))).all():
            raise InputError(
                f"'{self.path}': a sparse accessor replaces an element that is not there; export it again"
            )
        values = values.copy()
        values[place] = self._elements(part["values"], count, values.dtype, values.shape[1])
        return values


# The tree of nodes of a glTF file.


class Placed(NamedTuple):
    """A node of the scene."""

    index: int
    """Of ``nodes``; -1 in a file without nodes, which places each mesh once."""
    parent: int
    """The number of the node above it; -1 for none."""
    entry: dict[str, Any]
    matrix: np.ndarray | None
    """(4, 4) to the world; None where nothing moves it."""


class Nodes:
    """The nodes of the scene of a document; methods raise InputError naming the file and the node."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path

    def name(self, index: int) -> str:
        """What the file calls a node."""
        found = self.document.item("nodes", index).get("name")
        return f"node '{shown(found)}'" if isinstance(found, str) and found else f"node {index}"

    def placed(self) -> Iterator[Placed]:
        """Every node of the scene, parents first."""
        nodes, scenes = self.document.items("nodes"), self.document.items("scenes")
        if not nodes:
            yield from (Placed(-1, -1, {"mesh": i}, None) for i in range(len(self.document.items("meshes"))))
            return
        children = {child for node in nodes for child in node.get("children", ())}
        roots = [i for i in range(len(nodes)) if i not in children]
        if scenes:
            roots = self.document.item("scenes", self.document.json.get("scene", 0)).get("nodes", [])
        seen: set[int] = set()
        stack: list[tuple[int, int, np.ndarray | None]] = [(root, -1, None) for root in reversed(roots)]
        while stack:
            index, parent, above = stack.pop()
            node = self.document.item("nodes", index)
            if index in seen:
                raise self._knot(index)
            seen.add(index)
            own = self.matrix(node)
            matrix = own if above is None else above if own is None else above @ own
            if matrix is not None and not np.isfinite(matrix).all():
                raise InputError(
                    f"'{self.path}': {self.name(index)} is too large to be placed; export it again"
                )
            yield Placed(index, parent, node, matrix)
            stack += [(child, index, matrix) for child in reversed(node.get("children", ()))]
        if not scenes and (lost := set(range(len(nodes))) - seen):
            raise self._knot(min(lost))

    def _knot(self, index: int) -> InputError:
        return InputError(
            f"'{self.path}': {self.name(index)} is its own ancestor or has two parents; export it again"
        )

    def matrix(self, node: dict[str, Any]) -> np.ndarray | None:
        """(4, 4) from a node to its parent; None where it is the identity. Raises InputError when it is not finite."""
        numbers = self.document.numbers
        if "matrix" in node:
            return numbers(node, "matrix", tuple(np.eye(4).reshape(-1))).reshape(4, 4).T
        if not node.keys() & {"translation", "rotation", "scale"}:
            return None
        quaternion = numbers(node, "rotation", (0.0, 0.0, 0.0, 1.0))
        length = np.linalg.norm(quaternion)
        if not 1e-6 < length < np.inf:
            raise InputError(
                f"'{self.path}': the rotation {shown(node['rotation'])} is no quaternion; export it again"
            )
        x, y, z, w = quaternion / length
        rotation = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
        )
        matrix = np.eye(4)
        matrix[:3, :3] = rotation * numbers(node, "scale", (1.0, 1.0, 1.0))
        matrix[:3, 3] = numbers(node, "translation", (0.0, 0.0, 0.0))
        return matrix
