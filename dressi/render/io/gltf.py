"""glTF 2.0 in: triangle geometry, UVs and base colour."""

from __future__ import annotations

import base64
import binascii
import json
import os
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import inside, read_bytes
from dressi.render.io.images import decode, to_linear_rgb
from dressi.render.mesh import Mesh, weld, weld_values

MAGIC, JSON_CHUNK, BINARY_CHUNK = 0x46546C67, 0x4E4F534A, 0x004E4942
_DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
_KNOWN = {"KHR_mesh_quantization", "KHR_texture_transform", "KHR_materials_unlit"}


def load_gltf(path: str | os.PathLike) -> Mesh:
    """A .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, transforms applied.

    The texture and colour are those of the first material with a base colour texture; others are reported by
    a warning and left out. Raises InputError naming the file, also when it refers to anything outside its
    folder.
    """
    path = Path(path)
    try:
        return _Document(path).mesh()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"'{path}' is not valid glTF 2.0 ({type(error).__name__}: {error}); export it again"
        ) from None


class _Document:
    """A parsed file with its buffers; methods follow the references of the format."""

    def __init__(self, path: Path):
        self.path = path
        data = read_bytes(path, "mesh")
        self.binary: bytes | None = None
        text = data
        if data[:4] == b"glTF" or path.suffix.lower() == ".glb":
            text, self.binary = self._chunks(data)
        try:
            self.json: dict[str, Any] = json.loads(text)
            version = str(self.json["asset"]["version"])
        except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, RecursionError):
            raise InputError(f"'{path}' is not a glTF file, or it is truncated; export it again") from None
        if not version.startswith("2"):
            raise InputError(f"'{path}' is glTF {version}; export it as glTF 2.0")
        unknown = sorted(set(self.json.get("extensionsRequired", [])) - _KNOWN)
        if unknown:
            raise InputError(
                f"'{path}' needs {', '.join(unknown)}, which is not read here; export it without compression"
            )
        self._buffers: dict[int, bytes] = {}

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
        while offset + 8 <= length:
            size, kind = struct.unpack_from("<II", data, offset)
            if offset + 8 + size > length:
                raise InputError(
                    f"'{self.path}' is damaged: a chunk runs past its end; copy or export it again"
                )
            found.setdefault(kind, data[offset + 8 : offset + 8 + size])
            offset += 8 + size + (-size % 4)
        if JSON_CHUNK not in found:
            raise InputError(f"'{self.path}' has no JSON chunk; export it again")
        return found[JSON_CHUNK], found.get(BINARY_CHUNK)

    # ---------------------------------------------------------------- data

    def uri(self, uri: str) -> bytes:
        if uri.startswith("data:"):
            head, _, body = uri.partition(",")
            try:
                return base64.b64decode(body, validate=True) if head.endswith(";base64") else body.encode()
            except binascii.Error:
                raise InputError(f"'{self.path}' has a damaged data URI; export it again") from None
        return read_bytes(inside(self.path.parent, uri, self.path), "file")

    def buffer(self, index: int) -> bytes:
        if index not in self._buffers:
            entry = self.item("buffers", index)
            if "uri" in entry:
                data = self.uri(entry["uri"])
            elif self.binary is not None:
                data = self.binary
            else:
                raise InputError(f"'{self.path}' has no data for buffer {index}; export it again")
            if len(data) < entry["byteLength"]:
                raise InputError(
                    f"'{self.path}': buffer {index} is truncated ({len(data)} of {entry['byteLength']} bytes);"
                    " copy or export it again"
                )
            self._buffers[index] = data
        return self._buffers[index]

    def item(self, kind: str, index: int) -> dict[str, Any]:
        items = self.json.get(kind, [])
        if not 0 <= index < len(items):
            raise InputError(
                f"'{self.path}' refers to entry {index} of {kind}, which has {len(items)}; export it again"
            )
        return items[index]

    def view(self, index: int) -> tuple[bytes, int]:
        entry = self.item("bufferViews", index)
        start = entry.get("byteOffset", 0)
        data = self.buffer(entry["buffer"])
        if start < 0 or start + entry["byteLength"] > len(data):
            raise InputError(f"'{self.path}': buffer view {index} runs past its buffer; export it again")
        return data[start : start + entry["byteLength"]], entry.get("byteStride", 0)

    def _elements(self, view: int, offset: int, count: int, dtype: np.dtype, width: int) -> np.ndarray:
        data, stride = self.view(view)
        stride = stride or dtype.itemsize * width
        if count and (offset < 0 or offset + (count - 1) * stride + dtype.itemsize * width > len(data)):
            raise InputError(f"'{self.path}': an accessor runs past buffer view {view}; export it again")
        return np.ndarray((count, width), dtype, data, offset, (stride, dtype.itemsize))

    def accessor(self, index: int) -> np.ndarray:
        """(count, width) float64, or int64 for integers that are not normalised."""
        entry = self.item("accessors", index)
        dtype, width, count = (
            np.dtype(_DTYPES[entry["componentType"]]),
            _WIDTHS[entry["type"]],
            entry["count"],
        )
        if count < 0 or count > 1 << 28:
            raise InputError(f"'{self.path}': accessor {index} has {count} elements; export it again")
        if "bufferView" in entry:
            values = self._elements(entry["bufferView"], entry.get("byteOffset", 0), count, dtype, width)
        else:
            values = np.zeros((count, width), dtype)
        if "sparse" in entry:
            part = entry["sparse"]
            at, to = part["indices"], part["values"]
            kind = np.dtype(_DTYPES[at["componentType"]])
            place = self._elements(at["bufferView"], at.get("byteOffset", 0), part["count"], kind, 1)[:, 0]
            values = values.copy()
            values[place] = self._elements(
                to["bufferView"], to.get("byteOffset", 0), part["count"], dtype, width
            )
        if dtype.kind == "f":
            return values.astype(np.float64)
        if entry.get("normalized"):
            return np.maximum(values / np.iinfo(dtype).max, -1.0)
        return values.astype(np.int64)

    # --------------------------------------------------------------- scene

    def placed(self) -> list[tuple[int, np.ndarray]]:
        """(mesh, world matrix) of every node of the scene that has a mesh."""
        nodes = self.json.get("nodes", [])
        scenes = self.json.get("scenes", [])
        children = {child for node in nodes for child in node.get("children", [])}
        roots = [i for i in range(len(nodes)) if i not in children]
        if scenes:
            roots = self.item("scenes", self.json.get("scene", 0)).get("nodes", [])
        if not nodes:
            return [(i, np.eye(4)) for i in range(len(self.json.get("meshes", [])))]
        found, seen = [], set()
        stack = [(root, np.eye(4)) for root in reversed(roots)]
        while stack:
            index, parent = stack.pop()
            if index in seen:
                raise InputError(
                    f"'{self.path}': node {index} is its own ancestor or has two parents; export it again"
                )
            seen.add(index)
            node = self.item("nodes", index)
            matrix = parent @ _matrix(node)
            if "mesh" in node:
                found.append((node["mesh"], matrix))
            stack += [(child, matrix) for child in reversed(node.get("children", []))]
        return found

    def mesh(self) -> Mesh:
        parts, materials = [], []
        for index, matrix in self.placed():
            for primitive in self.item("meshes", index)["primitives"]:
                part = self.primitive(primitive, matrix)
                if part is not None:
                    parts.append(part)
                    materials.append(primitive.get("material"))
        if not parts:
            raise InputError(f"'{self.path}' has no triangles; export a mesh with faces")
        textured = [m for m in dict.fromkeys(materials) if m is not None and self._texture(m) is not None]
        chosen = textured[0] if textured else next((m for m in materials if m is not None), None)
        if len(textured) > 1:
            warnings.warn(
                f"'{self.path}' has {len(textured)} textured materials; only the first texture is used",
                stacklevel=4,
            )
        return self._merge(parts, chosen)

    def primitive(self, entry: dict[str, Any], matrix: np.ndarray) -> dict[str, np.ndarray | None] | None:
        mode = entry.get("mode", 4)
        attributes = entry.get("attributes", {})
        if mode not in (4, 5, 6) or "POSITION" not in attributes:
            return None
        positions = self.accessor(attributes["POSITION"]).astype(np.float64)
        index = np.arange(len(positions))
        if "indices" in entry:
            index = self.accessor(entry["indices"])[:, 0].astype(np.int64)
        outside = (index < 0) | (index >= len(positions))
        if outside.any():
            raise InputError(
                f"'{self.path}': index {int(index[outside][0])} is out of range for {len(positions)} vertices;"
                " export it again"
            )
        faces = _triangles(index, mode)
        if np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, ::-1]  # a mirrored node turns its faces inside out
        normals = uvs = None
        if "NORMAL" in attributes:
            normals = self.accessor(attributes["NORMAL"]) @ np.linalg.pinv(matrix[:3, :3])
            normals = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
        texture = self._texture(entry["material"]) if entry.get("material") is not None else None
        transform = (texture or {}).get("extensions", {}).get("KHR_texture_transform", {})
        set_number = transform.get("texCoord", (texture or {}).get("texCoord", 0))
        if f"TEXCOORD_{set_number}" in attributes:
            uvs = _transform_uv(
                self.accessor(attributes[f"TEXCOORD_{set_number}"]).astype(np.float64), transform
            )
        for name, values in (("NORMAL", normals), ("TEXCOORD", uvs)):
            if values is not None and len(values) != len(positions):
                raise InputError(
                    f"'{self.path}': {len(values)} {name} for {len(positions)} positions; export it again"
                )
        placed = positions @ matrix[:3, :3].T + matrix[:3, 3]
        return {"positions": placed, "faces": faces, "uvs": uvs, "normals": normals}

    def _merge(self, parts: list[dict[str, Any]], material: int | None) -> Mesh:
        starts = np.cumsum([0] + [len(part["positions"]) for part in parts])
        corners = np.concatenate([part["faces"] + start for part, start in zip(parts, starts, strict=False)])
        positions, faces = weld(np.concatenate([part["positions"] for part in parts]), corners)
        uvs = uv_faces = normals = normal_faces = None
        if any(part["uvs"] is not None for part in parts):
            if any(part["uvs"] is None for part in parts):
                warnings.warn(f"'{self.path}': parts without UVs take the first texel's colour", stacklevel=5)
            values = [np.zeros((len(p["positions"]), 2)) if p["uvs"] is None else p["uvs"] for p in parts]
            uvs, uv_faces = weld_values(np.concatenate(values), corners)
        if all(part["normals"] is not None for part in parts):
            normals, normal_faces = weld_values(np.concatenate([part["normals"] for part in parts]), corners)
        texture, color = None, (1.0, 1.0, 1.0)
        if material is not None:
            shading = self.item("materials", material).get("pbrMetallicRoughness", {})
            red, green, blue, _ = shading.get("baseColorFactor", (1, 1, 1, 1))
            color = (float(red), float(green), float(blue))
            reference = self._texture(material)
            texture = None if reference is None or uvs is None else self._image(reference)
        return Mesh(
            positions, faces, uvs, uv_faces, normals, normal_faces, texture, color, name=str(self.path)
        )

    def _texture(self, material: int) -> dict[str, Any] | None:
        return self.item("materials", material).get("pbrMetallicRoughness", {}).get("baseColorTexture")

    def _image(self, reference: dict[str, Any]) -> np.ndarray | None:
        source = self.item("textures", reference["index"]).get("source")
        if source is None:
            warnings.warn(
                f"'{self.path}': the texture is not a PNG or JPEG image and was left out", stacklevel=6
            )
            return None
        entry = self.item("images", source)
        data = self.uri(entry["uri"]) if "uri" in entry else self.view(entry["bufferView"])[0]
        return to_linear_rgb(decode(data, f"{self.path}: image {source}"))


def _matrix(node: dict[str, Any]) -> np.ndarray:
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    x, y, z, w = np.array(node.get("rotation", (0, 0, 0, 1)), dtype=np.float64)
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    matrix = np.eye(4)
    matrix[:3, :3] = rotation * np.array(node.get("scale", (1, 1, 1)), dtype=np.float64)
    matrix[:3, 3] = node.get("translation", (0, 0, 0))
    return matrix


def _triangles(index: np.ndarray, mode: int) -> np.ndarray:
    if mode == 4:
        return index[: len(index) // 3 * 3].reshape(-1, 3)
    if mode == 6:
        return np.stack(
            [np.full(max(len(index) - 2, 0), index[0] if len(index) else 0), index[1:-1], index[2:]], axis=1
        )
    strip = np.stack([index[:-2], index[1:-1], index[2:]], axis=1)
    strip[1::2] = strip[1::2, [0, 2, 1]]
    return strip


def _transform_uv(uvs: np.ndarray, transform: dict[str, Any]) -> np.ndarray:
    """KHR_texture_transform: scale, then rotate, then shift."""
    angle = transform.get("rotation", 0.0)
    c, s = np.cos(angle), np.sin(angle)
    turned = (uvs * transform.get("scale", (1, 1))) @ np.array([[c, s], [-s, c]]).T
    return turned + transform.get("offset", (0, 0))
