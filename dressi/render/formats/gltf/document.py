"""A glTF 2.0 file as its parts: JSON, buffers and accessors.

Every index, count and offset is checked before it is followed and before memory of its size is allocated.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import numpy as np

from ....config import config
from ....errors import InputError, shown, warn
from ...core.materials import GLTF
from ...io.files import LARGEST_FILE, Damaged, check_counts, inside, library, parse_json, read_bytes, reason
from ...scene.clips import placement

MAGIC, JSON_CHUNK, BINARY_CHUNK = 0x46546C67, 0x4E4F534A, 0x004E4942
_DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
DRACO, MESHOPT = "KHR_draco_mesh_compression", ("EXT_meshopt_compression", "KHR_meshopt_compression")
GLOSSY, INSTANCES = "KHR_materials_pbrSpecularGlossiness", "EXT_mesh_gpu_instancing"
_KNOWN = GLTF.extensions | {
    "KHR_lights_punctual", "KHR_mesh_quantization", "KHR_texture_transform", "KHR_materials_unlit",
    "EXT_texture_webp", GLOSSY, INSTANCES, DRACO, *MESHOPT,
}  # fmt: skip

LARGEST_SCENE = 65_536
"""Primitives that the nodes of a scene place, and instances."""

REST = {"translation": (0.0, 0.0, 0.0), "rotation": (0.0, 0.0, 0.0, 1.0), "scale": (1.0, 1.0, 1.0)}
"""Of a node that says nothing."""
LARGEST_EMPTY = 65_536
"""Elements of an accessor without data, which are zeros, in a file of fewer bytes."""


class Placed(NamedTuple):
    """A node of the scene."""

    index: int
    """Of ``nodes``; -1 in a file without nodes, which places each mesh once."""
    parent: int
    """The number of the node above it; -1 for none."""
    entry: dict[str, Any]
    matrix: np.ndarray | None
    """(4, 4) to the world; None where nothing moves it."""


class Document:
    """A parsed file with its buffers; methods follow the references of the format and raise InputError."""

    def __init__(self, path: Path):
        self.path = path
        data = read_bytes(path, "mesh")
        if not data:
            raise Damaged("it is empty")
        self._size = len(data)
        self.binary: bytes | None = None
        text = data
        if data[:4] == b"glTF" or path.suffix.lower() == ".glb":
            text, self.binary = self._chunks(data)
        try:
            self.json: dict[str, Any] = parse_json(text, path)
            version = str(self.json["asset"]["version"])
        except (KeyError, TypeError):
            raise Damaged("it is not a glTF file, or it is truncated") from None
        if not version.startswith("2"):
            raise InputError(f"it is glTF {shown(version)}; export it as glTF 2.0")
        self._required = {str(name) for name in self.json.get("extensionsRequired", [])}
        if unknown := sorted(self._required - _KNOWN):
            needed = shown(", ".join(unknown))
            raise InputError(f"it needs {needed}, which is not read here; export it without")
        unread = sorted({str(name) for name in self.json.get("extensionsUsed", [])} - _KNOWN)
        if unread:
            self.warn(f"uses {shown(', '.join(unread))}, which is not read here and was left out")
        scenes = self.items("scenes")
        if len(scenes) > 1:
            self.warn(f"has {len(scenes)} scenes; scene {shown(self.json.get('scene', 0))} is read")
        self._buffers: dict[int, bytes] = {}
        self._inflated: dict[int, tuple[memoryview, int]] = {}
        self._accessors: dict[int, np.ndarray] = {}
        self._decoded = self._instances = 0

    def warn(self, text: str) -> None:
        """Warn of what the file has or does."""
        warn(f"'{self.path}' {text}")

    def _chunks(self, data: bytes) -> tuple[bytes, bytes | None]:
        if len(data) < 20 or struct.unpack_from("<I", data)[0] != MAGIC:
            raise Damaged("it is not a GLB file, or it is truncated")
        _, version, length = struct.unpack_from("<III", data)
        if version != 2:
            raise InputError(f"it is GLB version {version}; export it as glTF 2.0")
        if length > len(data):
            raise Damaged(f"it is truncated: it should have {length} bytes and has {len(data)}")
        chunks: dict[int, bytes] = {}
        offset = 12
        while offset + 8 <= length and not {JSON_CHUNK, BINARY_CHUNK} <= set(chunks):
            size, kind = struct.unpack_from("<II", data, offset)
            if offset + 8 + size > length:
                raise Damaged("a chunk runs past its end")
            if kind in (JSON_CHUNK, BINARY_CHUNK):
                chunks.setdefault(kind, data[offset + 8 : offset + 8 + size])
            offset += 8 + size + (-size % 4)
        if JSON_CHUNK not in chunks:
            raise Damaged("it has no JSON chunk")
        return chunks[JSON_CHUNK], chunks.get(BINARY_CHUNK)

    # ---- entries

    def items(self, kind: str) -> list[dict[str, Any]]:
        """All entries of a kind, such as nodes."""
        entries = self.json.get(kind, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise Damaged(f"{kind} is not a list of objects")
        return entries

    def item(self, kind: str, index: Any) -> dict[str, Any]:
        """One entry of a kind."""
        items = self.json.get(kind, [])
        if type(index) is not int:
            raise TypeError(f"{shown(repr(index))} is no number of an entry of {kind}")
        if not 0 <= index < len(items) or not isinstance(items[index], dict):
            raise Damaged(f"it refers to entry {shown(index)} of {kind}, which has {len(items)}")
        return items[index]

    def whole(self, entry: dict[str, Any], key: str, default: int | None = None) -> int:
        """A number of an entry that counts something."""
        value = entry.get(key, default)
        if type(value) is not int or not 0 <= value < 1 << 53:
            raise Damaged(f"{key} must be a whole number from 0 on, not {shown(value)}")
        return value

    def numbers(self, entry: dict[str, Any], key: str, default: tuple[float, ...]) -> np.ndarray:
        """Finite numbers of an entry, as many as the default has."""
        values = np.array(entry.get(key, default), dtype=np.float64)
        if values.shape != (len(default),) or not np.isfinite(values).all():
            raise Damaged(f"{key} must be {len(default)} finite numbers, not {shown(entry.get(key))}")
        return values

    def number(self, entry: dict[str, Any], key: str, default: float) -> float:
        """A finite number of an entry."""
        return float(self.numbers({key: [entry.get(key, default)]}, key, (default,))[0])

    # ---- data

    def uri(self, uri: Any) -> bytes:
        """What a URI holds, or the bytes of the file beside this one that it names."""
        if not isinstance(uri, str):
            raise Damaged(f"a uri must be text, not {shown(uri)}")
        if not uri.startswith("data:"):
            return read_bytes(inside(self.path.parent, uri, self.path), "file")
        head, _, body = uri.partition(",")
        try:
            return (
                base64.b64decode(body, validate=True) if head.endswith(";base64") else unquote_to_bytes(body)
            )
        except (binascii.Error, ValueError):
            raise Damaged("it has a damaged data URI") from None

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
                raise Damaged(f"it has no data for buffer {index}")
            if len(data) < size:
                raise Damaged(f"buffer {index} is truncated ({len(data)} of {size} bytes)")
            self._buffers[index] = data
            if sum(map(len, self._buffers.values())) > LARGEST_FILE:
                raise InputError(f"it has more than {LARGEST_FILE:,} bytes of buffers; split it")
        return self._buffers[index]

    def view(self, index: Any) -> tuple[memoryview, int]:
        """The bytes of a buffer view, and its stride, 0 for none."""
        entry = self.item("bufferViews", index)
        packed = {name: part for name, part in entry.get("extensions", {}).items() if name in MESHOPT}
        if packed and (self._required & packed.keys() or "uri" not in self.item("buffers", entry["buffer"])):
            if index not in self._inflated:
                self._inflated[index] = self._inflate(index, *packed.popitem())
            return self._inflated[index]
        return self._slice(index, entry), self.whole(entry, "byteStride", 0)

    def _slice(self, index: int, entry: dict[str, Any]) -> memoryview:
        start, size = self.whole(entry, "byteOffset", 0), self.whole(entry, "byteLength")
        data = self.buffer(entry["buffer"])
        if start + size > len(data):
            raise Damaged(f"buffer view {index} runs past its buffer")
        return memoryview(data)[start : start + size]

    def _inflate(self, index: int, name: str, part: dict[str, Any]) -> tuple[memoryview, int]:
        """A buffer view that meshoptimizer packed."""
        count, stride, data = (
            self.whole(part, "count"),
            self.whole(part, "byteStride"),
            self._slice(index, part),
        )
        if count * stride + sum(len(one) for one, _ in self._inflated.values()) > LARGEST_FILE:
            raise InputError(f"it unpacks to more than {LARGEST_FILE:,} bytes; split it")
        decode = library("meshopt", "compression", f"export it without {name}").decode_gltf_buffer
        try:
            values = decode(bytes(data), count, stride, part.get("mode"), part.get("filter"))
        except (ValueError, TypeError) as error:
            raise Damaged(f"buffer view {index} is no {name} ({reason(error)})") from None
        return memoryview(values.tobytes()), stride

    def unpack(self, primitive: dict[str, Any]) -> None:
        """Read the accessors of a primitive that Draco packed, where the file has no copy without."""
        part, attributes = primitive.get("extensions", {}).get(DRACO), primitive["attributes"]
        if part is None or "bufferView" in self.item("accessors", attributes["POSITION"]):
            return
        decode = library("DracoPy", "compression", f"export it without {DRACO}").decode
        try:
            mesh = decode(bytes(self.view(part["bufferView"])[0]))
            tables = {entry["unique_id"]: entry["data"] for entry in mesh.attributes}
            columns = {attributes[name]: tables[number] for name, number in part["attributes"].items()}
            columns[primitive["indices"]] = mesh.faces.reshape(-1, 1)
        except InputError:
            raise
        except Exception as error:  # DracoPy's own are of no common kind
            raise Damaged(f"a primitive is no {DRACO} ({reason(error)})") from None
        for index, values in columns.items():
            entry = self.item("accessors", index)
            wanted = self.count(index), _WIDTHS.get(entry.get("type", ""))
            if values.shape != wanted:
                raise Damaged(f"Draco has {values.shape} values for accessor {index}, which has {wanted}")
            self._accessors[index] = _numbers(values, entry, self._dtype(entry))

    def _elements(self, entry: dict[str, Any], count: int, dtype: np.dtype, width: int) -> np.ndarray:
        view, offset = entry["bufferView"], self.whole(entry, "byteOffset", 0)
        data, stride = self.view(view)
        size = dtype.itemsize * width
        if 0 < stride < size:
            raise Damaged(f"byteStride {stride} is less than an element's {size}")
        stride = stride or size
        if count and offset + (count - 1) * stride + size > len(data):
            raise Damaged(f"an accessor runs past buffer view {view}")
        return np.ndarray((count, width), dtype, data, offset if count else 0, (stride, dtype.itemsize))

    def count(self, index: Any) -> int:
        """How many elements an accessor has, which is checked before they are made."""
        count = self.whole(self.item("accessors", index), "count")
        check_counts(0, count // 3)
        return count

    def accessor(self, index: Any) -> np.ndarray:
        """(count, width) float64, or int64 for integers that are not normalised. Read-only and shared."""
        if index not in self._accessors:
            self._accessors[index] = self._accessor(index, self.item("accessors", index))
        return self._accessors[index]

    def _accessor(self, index: int, entry: dict[str, Any]) -> np.ndarray:
        dtype, width = self._dtype(entry), _WIDTHS.get(entry.get("type", ""))
        if width is None:
            raise Damaged(f"accessor {index} has the type {shown(entry.get('type'))}")
        count = self.count(index)
        self._decoded += count * width
        if self._decoded > (most := 32 * config.max_faces):
            raise InputError(
                f"it has accessors of over {most:,} values; decimate it, or raise DRESSI_MAX_FACES"
            )
        if "bufferView" in entry:
            values = self._elements(entry, count, dtype, width)
        else:
            if count > max(self._size, LARGEST_EMPTY):
                raise Damaged(
                    f"accessor {index} has {count:,} elements without data, more than the file has bytes"
                )
            values = np.zeros((count, width), dtype)
        if "sparse" in entry:
            values = self._replaced(values, entry["sparse"])
        return _numbers(values, entry, dtype)

    def _dtype(self, entry: dict[str, Any]) -> np.dtype:
        kind = entry.get("componentType")
        if type(kind) is not int or kind not in _DTYPES:
            raise Damaged(f"there is no component type {shown(kind)} in glTF")
        return np.dtype(_DTYPES[kind])

    def _replaced(self, values: np.ndarray, part: dict[str, Any]) -> np.ndarray:
        """A copy of the values with those of a sparse accessor in their places."""
        count = self.whole(part, "count")
        if count > len(values):
            raise Damaged(f"a sparse accessor replaces {count} of {len(values)} elements")
        place = self._elements(part["indices"], count, self._dtype(part["indices"]), 1)[:, 0]
        if count and not ((place >= 0) & (place < len(values))).all():
            raise Damaged("a sparse accessor replaces an element that is not there")
        values = values.copy()
        values[place] = self._elements(part["values"], count, values.dtype, values.shape[1])
        return values

    # ---- the tree of nodes

    def node_name(self, index: int) -> str:
        """What messages call a node."""
        name = self.item("nodes", index).get("name") if index >= 0 else None
        return f"node '{shown(name)}'" if isinstance(name, str) and name else f"node {index}"

    def placed(self) -> Iterator[Placed]:
        """Every node of the scene, parents first."""
        nodes, scenes = self.items("nodes"), self.items("scenes")
        if not nodes:
            yield from (Placed(-1, -1, {"mesh": i}, None) for i in range(len(self.items("meshes"))))
            return
        children = {child for node in nodes for child in node.get("children", ())}
        roots = [i for i in range(len(nodes)) if i not in children]
        if scenes:
            roots = self.item("scenes", self.json.get("scene", 0)).get("nodes", [])
        seen: set[int] = set()
        stack: list[tuple[int, int, np.ndarray | None]] = [(root, -1, None) for root in reversed(roots)]
        while stack:
            index, parent, above = stack.pop()
            node = self.item("nodes", index)
            if index in seen:
                raise self._knot(index)
            seen.add(index)
            if "mesh" in node and INSTANCES in node.get("extensions", {}):
                self._part_instances(index, node)
            own = self.matrix(node)
            matrix = own if above is None else above if own is None else above @ own
            if matrix is not None and not np.isfinite(matrix).all():
                raise Damaged(f"{self.node_name(index)} is too large to be placed")
            yield Placed(index, parent, node, matrix)
            stack += [(child, index, matrix) for child in reversed(node.get("children", ()))]
        if not scenes and (lost := set(range(len(nodes))) - seen):
            raise self._knot(min(lost))

    def _part_instances(self, index: int, node: dict[str, Any]) -> None:
        """Give the mesh of a node with EXT_mesh_gpu_instancing to new nodes below it, one an instance."""
        columns, name, nodes = (
            node["extensions"][INSTANCES]["attributes"],
            self.node_name(index),
            self.json["nodes"],
        )
        if "skin" in node:
            self.warn(f"has instances of {name}, whose place its skin says; they were left out")
            return
        paths = {path: columns[path.upper()] for path in REST if path.upper() in columns}
        if lost := sorted(columns.keys() - {path.upper() for path in paths}):
            self.warn(f"has {shown(', '.join(lost))} of the instances of {name}, which was left out")
        counts = {self.count(number) for number in paths.values()}
        if len(counts) != 1:
            raise Damaged(f"{name} has instances with {sorted(counts)} places, which is not one number")
        self._instances += (count := counts.pop())
        if self._instances > LARGEST_SCENE:
            raise InputError(f"it has over {LARGEST_SCENE:,} instances; split it")
        own = {key: node.pop(key) for key in ("mesh", "weights") if key in node}
        called = node.get("name") or self.item("meshes", own["mesh"]).get("name")
        tables = {path: self.accessor(number).tolist() for path, number in paths.items()}
        node["children"] = [*node.get("children", ()), *range(len(nodes), len(nodes) + count)]
        for k in range(count):
            place = {path: table[k] for path, table in tables.items()}
            nodes.append(own | place | ({"name": f"{called} {k}"} if called else {}))

    def _knot(self, index: int) -> InputError:
        return Damaged(f"{self.node_name(index)} is its own ancestor or has two parents")

    def matrix(self, node: dict[str, Any]) -> np.ndarray | None:
        """(4, 4) from a node to its parent; None where it is the identity. Raises InputError."""
        if "matrix" in node:
            return self.numbers(node, "matrix", tuple(np.eye(4).reshape(-1))).reshape(4, 4).T
        if not node.keys() & REST.keys():
            return None
        place, quaternion, scale = (self.numbers(node, path, own) for path, own in REST.items())
        length = np.linalg.norm(quaternion)
        if not 1e-6 < length < np.inf:
            raise Damaged(f"the rotation {shown(node['rotation'])} is no quaternion")
        return placement(place, quaternion, scale)


def _numbers(values: np.ndarray, entry: dict[str, Any], dtype: np.dtype) -> np.ndarray:
    """Elements of an accessor of a type as its numbers, read-only."""
    if dtype.kind != "f" and entry.get("normalized"):
        values = np.maximum(values / np.iinfo(dtype).max, -1.0)
    values = values.astype(np.float64 if values.dtype.kind == "f" or dtype.kind == "f" else np.int64)
    values.flags.writeable = False
    return values
