"""glTF binary files read for comparisons: triangles in the world, materials, camera and lights as the format says.

Nothing here uses this package's loaders, so that a mistake in those shows. Files are those of exporters that write normals.
"""

import io
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

DTYPES = {5120: np.int8, 5121: np.uint8, 5122: np.int16, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
WRAPS = {10497: "repeat", 33071: "clamp", 33648: "mirror"}


@dataclass
class Texture:
    """An image and where it lies."""

    pixels: np.ndarray
    """uint8 (H, W, 4)."""
    uv_set: int
    matrix: np.ndarray
    """(2, 3): to the coordinates of the image."""
    wrap: tuple[str, str]


@dataclass
class Part:
    """A primitive in the world."""

    name: str
    positions: np.ndarray
    normals: np.ndarray
    tangents: np.ndarray | None
    uvs: list[np.ndarray]
    colours: np.ndarray
    faces: np.ndarray
    material: dict[str, Any]
    """The entry of the file."""
    textures: dict[str, Texture]
    """By the path of the reference in the entry, keys joined by "/"."""

    def value(self, path: str, default: Any) -> Any:
        """An entry of the material at keys joined by "/"."""
        found: Any = self.material
        for key in path.split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        return default if found is None else found


@dataclass
class File:
    parts: list[Part] = field(default_factory=list)
    cameras: list[dict[str, Any]] = field(default_factory=list)
    """Each with ``matrix`` to the world, ``yfov`` in radians, ``aspectRatio``, ``znear``, ``zfar``."""
    lights: list[dict[str, Any]] = field(default_factory=list)
    """Each with ``type``, ``colour`` times intensity (3,), ``position``, ``towards`` (the way it shines), ``inner`` and ``outer``."""


def read(path: Path) -> File:
    """A .glb. Raises KeyError and the like for what is not in it."""
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    return _Reader(json.loads(data[20 : 20 + length]), data[28 + length :]).file()


class _Reader:
    def __init__(self, document: dict[str, Any], binary: bytes):
        self.document, self.binary = document, binary

    def file(self) -> File:
        found, worlds = File(), dict(self._worlds())
        lights = self.document.get("extensions", {}).get("KHR_lights_punctual", {}).get("lights", [])
        for index, world in worlds.items():
            node = self.document["nodes"][index]
            if "mesh" in node:
                for primitive in self.document["meshes"][node["mesh"]]["primitives"]:
                    found.parts.append(self._part(node, primitive, worlds, world))
            if "camera" in node:
                lens = self.document["cameras"][node["camera"]]["perspective"]
                found.cameras.append({"matrix": world} | lens)
            light = node.get("extensions", {}).get("KHR_lights_punctual")
            if light is not None:
                entry = lights[light["light"]]
                cone = entry.get("spot", {})
                found.lights.append({
                    "type": entry["type"], "position": world[:3, 3], "towards": -world[:3, 2] / np.linalg.norm(world[:3, 2]),
                    "colour": np.array(entry.get("color", (1, 1, 1))) * entry.get("intensity", 1.0),
                    "inner": cone.get("innerConeAngle", 0.0), "outer": cone.get("outerConeAngle", math.pi / 4),
                })  # fmt: skip
        return found

    def _worlds(self) -> Iterator[tuple[int, np.ndarray]]:
        """The nodes of the scene and their (4, 4) to the world."""
        stack = [
            (root, np.eye(4)) for root in self.document["scenes"][self.document.get("scene", 0)]["nodes"]
        ]
        while stack:
            index, above = stack.pop()
            node = self.document["nodes"][index]
            world = above @ own_matrix(node)
            yield index, world
            stack += [(child, world) for child in node.get("children", ())]

    def _view(self, index: int) -> bytes:
        entry = self.document["bufferViews"][index]
        return self.binary[entry.get("byteOffset", 0) :][: entry["byteLength"]]

    def _array(self, index: int) -> np.ndarray:
        entry = self.document["accessors"][index]
        width, dtype = WIDTHS[entry["type"]], np.dtype(DTYPES[entry["componentType"]])
        stride = self.document["bufferViews"][entry["bufferView"]].get("byteStride", width * dtype.itemsize)
        values = np.ndarray(
            (entry["count"], width), dtype, self._view(entry["bufferView"]), entry.get("byteOffset", 0),
            (stride, dtype.itemsize),
        )  # fmt: skip
        if entry.get("normalized"):
            return np.maximum(values / np.iinfo(dtype).max, -1.0)
        return values.astype(np.float64 if dtype.kind == "f" else np.int64)

    def _part(
        self,
        node: dict[str, Any],
        primitive: dict[str, Any],
        worlds: dict[int, np.ndarray],
        world: np.ndarray,
    ) -> Part:
        names = primitive["attributes"]
        positions, normals = self._array(names["POSITION"]), self._array(names["NORMAL"])
        tangents = self._array(names["TANGENT"]) if "TANGENT" in names else None
        weights = node.get("weights", self.document["meshes"][node["mesh"]].get("weights", ()))
        for weight, target in zip(weights, primitive.get("targets", ()), strict=False):
            positions = positions + weight * self._array(target["POSITION"])
            if "NORMAL" in target:
                normals = normals + weight * self._array(target["NORMAL"])
            if tangents is not None and "TANGENT" in target:
                tangents = tangents + np.pad(weight * self._array(target["TANGENT"]), ((0, 0), (0, 1)))
        matrices = np.tile(world, (len(positions), 1, 1))
        if "skin" in node:
            skin = self.document["skins"][node["skin"]]
            bind = self._array(skin["inverseBindMatrices"]).reshape(-1, 4, 4).swapaxes(1, 2)
            joints = np.stack([worlds[joint] for joint in skin["joints"]]) @ bind[: len(skin["joints"])]
            matrices = sum(
                np.einsum("vj,vjab->vab", self._array(names[f"WEIGHTS_{k}"]), joints[self._array(names[f"JOINTS_{k}"])])
                for k in range(sum(name.startswith("JOINTS_") for name in names))
            )  # fmt: skip
        turns = matrices[:, :3, :3]
        mirrored = np.linalg.det(turns[0]) < 0
        if tangents is not None:
            sign = tangents[:, 3:] * (-1 if mirrored else 1)
            tangents = np.concatenate([unit(np.einsum("vab,vb->va", turns, tangents[:, :3])), sign], axis=1)
        count = len(positions)
        faces = (
            self._array(primitive["indices"]).reshape(-1, 3)
            if "indices" in primitive
            else np.arange(count).reshape(-1, 3)
        )
        material = self.document["materials"][primitive["material"]] if "material" in primitive else {}
        return Part(
            name=node.get("name", ""),
            positions=np.einsum("vab,vb->va", turns, positions) + matrices[:, :3, 3],
            normals=unit(np.einsum("vba,vb->va", np.linalg.inv(turns), unit(normals))),
            tangents=tangents,
            uvs=[self._array(names[f"TEXCOORD_{k}"]) for k in range(2) if f"TEXCOORD_{k}" in names],
            colours=self._array(names["COLOR_0"])[:, :3] if "COLOR_0" in names else np.ones((count, 3)),
            faces=faces[:, ::-1] if mirrored else faces,
            material=material,
            textures=dict(self._textures(material, "")),
        )  # fmt: skip

    def _textures(self, entry: dict[str, Any], path: str) -> Iterator[tuple[str, Texture]]:
        for key, value in entry.items():
            if key.endswith("Texture"):
                yield path + key, self._texture(value)
            elif isinstance(value, dict):
                yield from self._textures(value, f"{path}{key}/")

    def _texture(self, reference: dict[str, Any]) -> Texture:
        texture = self.document["textures"][reference["index"]]
        source = self.document["images"][texture["source"]]
        sampler = self.document["samplers"][texture["sampler"]] if "sampler" in texture else {}
        place = reference.get("extensions", {}).get("KHR_texture_transform", {})
        c, s = math.cos(place.get("rotation", 0.0)), math.sin(place.get("rotation", 0.0))
        scale, offset = np.array(place.get("scale", (1, 1))), np.array(place.get("offset", (0, 0)))
        matrix = np.column_stack([np.array([[c, s], [-s, c]]) * scale, offset])
        return Texture(
            np.array(Image.open(io.BytesIO(self._view(source["bufferView"]))).convert("RGBA")),
            place.get("texCoord", reference.get("texCoord", 0)),
            matrix,
            (WRAPS[sampler.get("wrapS", 10497)], WRAPS[sampler.get("wrapT", 10497)]),
        )


def own_matrix(node: dict[str, Any]) -> np.ndarray:
    """(4, 4): from a node to its parent."""
    if "matrix" in node:
        return np.array(node["matrix"], float).reshape(4, 4).T
    x, y, z, w = node.get("rotation", (0, 0, 0, 1))
    matrix = np.eye(4)
    matrix[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    matrix[:3, :3] *= node.get("scale", (1, 1, 1))
    matrix[:3, 3] = node.get("translation", (0, 0, 0))
    return matrix


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
