"""A glTF document that is written: entries, and one binary buffer."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from dressi.render.formats.glb.material import MaterialEntries, material_entries
from dressi.render.formats.gltf.document import BINARY_CHUNK, JSON_CHUNK, MAGIC
from dressi.render.mesh import Mesh, SeamSplit

_COMPONENTS = {"<f4": 5126, "<u4": 5125, "<u2": 5123, "<u1": 5121}
VERTICES, INDICES = 34962, 34963


class Written:
    """The lists of a document by their names, such as ``nodes``. Entries are added and numbered in order."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {}
        self.extensions: list[str] = []
        self.root: dict[str, Any] = {}
        """Of the extensions of the document."""
        self._binary: list[bytes] = []
        self._length = 0
        self._materials: dict[tuple[Any, ...], int] = {}

    def add(self, kind: str, entry: Any) -> int:
        """One more entry of a kind; its number."""
        self.lists.setdefault(kind, []).append(entry)
        return len(self.lists[kind]) - 1

    def view(self, data: bytes, target: int | None = None) -> int:
        """Bytes of the buffer, from a multiple of four."""
        entry: dict[str, Any] = {"buffer": 0, "byteOffset": self._length, "byteLength": len(data)}
        data += b"\0" * (-len(data) % 4)
        self._binary.append(data)
        self._length += len(data)
        return self.add("bufferViews", entry if target is None else entry | {"target": target})

    def accessor(
        self,
        values: np.ndarray,
        kind: str,
        dtype: str = "<f4",
        target: int | None = VERTICES,
        bounds: bool = False,
    ) -> int:
        """Rows of numbers as an accessor."""
        rows = np.ascontiguousarray(values.astype(dtype))
        entry = {
            "bufferView": self.view(rows.tobytes(), target),
            "componentType": _COMPONENTS[dtype],
            "count": len(rows),
            "type": kind,
        }
        if bounds:
            entry |= {"min": rows.min(0).tolist(), "max": rows.max(0).tolist()}
        return self.add("accessors", entry)

    def extend(self, name: str) -> None:
        """Name an extension that is used."""
        if name not in self.extensions:
            self.extensions.append(name)

    # ---- meshes

    def material(self, mesh: Mesh, normal_bits: int = 8) -> int:
        """The material of a mesh; the same for meshes with the same objects."""
        key = (id(mesh.material), id(mesh.texture), mesh.color, mesh.uvs is None, normal_bits)
        if key not in self._materials or mesh.material is None:
            self._materials[key] = self._written(mesh, material_entries(mesh, normal_bits=normal_bits))
        return self._materials[key]

    def _written(self, mesh: Mesh, entries: MaterialEntries) -> int:
        found = entries.textures(0)
        first = {kind: len(self.lists.get(kind, ())) for kind in ("textures", "samplers", "images")}
        for sampler in found.get("samplers", ()):
            self.add("samplers", sampler)
        for image, png in zip(found.get("images", ()), entries.images, strict=True):
            self.add("images", image | {"bufferView": self.view(png)})
        for texture in found.get("textures", ()):
            shift = {"source": first["images"], "sampler": first["samplers"]}
            self.add("textures", {key: number + shift.get(key, 0) for key, number in texture.items()})
        for name in entries.extensions:
            self.extend(name)
        return self.add("materials", _shifted(entries.entry, first["textures"]))

    def primitive(self, mesh: Mesh, normal_bits: int = 8) -> tuple[dict[str, Any], SeamSplit]:
        """A mesh as a primitive, and the vertices that it was split into."""
        # Viewers compute them for the normals of a clear layer alone; three.js turns these wrong when a file gives tangents.
        material, given = mesh.material, mesh.file_tangents is not None
        bumpy = material is not None and (material.normal is not None or (given and material.is_bumpy))
        bumpy = bumpy and mesh.uvs is not None
        split = mesh.split_at_seams(normals=True, tangents=bumpy)
        columns: dict[str, tuple[np.ndarray | None, str]] = {
            "POSITION": (split.positions, "VEC3"),
            "NORMAL": (split.normals, "VEC3"),
            "TANGENT": (split.tangents, "VEC4"),
            "TEXCOORD_0": (split.uvs, "VEC2"),
            "TEXCOORD_1": (None if split.uvs is None else split.second_uvs, "VEC2"),
            "COLOR_0": (split.colors, "VEC3"),
        }
        attributes = {
            name: self.accessor(values, kind, bounds=name == "POSITION")
            for name, (values, kind) in columns.items()
            if values is not None
        }
        index = "<u2" if len(split.positions) < 65535 else "<u4"
        faces = self.accessor(split.faces.reshape(-1), "SCALAR", index, INDICES)
        entry = {
            "attributes": attributes,
            "indices": faces,
            "material": self.material(mesh, normal_bits),
            "mode": 4,
        }
        return entry, split

    # ---- the file

    def glb(self) -> bytes:
        """The file, of the nodes that no other has as a child."""
        children = {child for node in self.lists["nodes"] for child in node.get("children", ())}
        roots = [k for k in range(len(self.lists["nodes"])) if k not in children]
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "dressi"},
            "scene": 0,
            "scenes": [{"nodes": roots}],
            **self.lists,
            "buffers": [{"byteLength": self._length}],
        }
        if self.extensions:
            document["extensionsUsed"] = self.extensions
        if self.root:
            document["extensions"] = self.root
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        total = 12 + 8 + len(text) + 8 + self._length
        data = struct.pack("<III", MAGIC, 2, total) + struct.pack("<II", len(text), JSON_CHUNK) + text
        return data + struct.pack("<II", self._length, BINARY_CHUNK) + b"".join(self._binary)


def _shifted(entry: Any, by: int) -> Any:
    """The entry of a material, with its textures numbered from ``by`` on."""
    if not isinstance(entry, dict):
        return entry
    found = {key: _shifted(value, by) for key, value in entry.items()}
    for key, value in found.items():
        if key.endswith("Texture") and isinstance(value, dict) and "index" in value:
            found[key] = value | {"index": value["index"] + by}
    return found
