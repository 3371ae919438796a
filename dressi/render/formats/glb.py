"""Binary glTF files out: one mesh, or a scene with its materials, rigs, cameras and lights."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...ad.graph import Variable
from ...errors import InputError, warn
from ..cameras import Camera
from ..cameras.rigid import look_at
from ..core.materials import EXTENSIONS, GLTF, Map, Parameter
from ..io.files import write_files
from ..io.images import encode_png, resize
from ..mesh import Material, Mesh, SeamSplit
from ..scene.clips import Clip, Motion
from ..scene.geometry import Geometry, MorphGeometry, TriangleGeometry
from ..scene.scene import Node, Scene
from ..scene.skin import Skeleton, SkinnedGeometry
from ..shading.lights import DirectionalLight, LightSource, PointLight, SpotLight
from ..strands.geometry import PointGeometry, StrandGeometry
from .gltf.document import BINARY_CHUNK, JSON_CHUNK, MAGIC
from .gltf.material import transform_entry, turned_normals
from .gltf.scene import LIGHTS

_COMPONENTS = {"<f4": 5126, "<u4": 5125, "<u2": 5123, "<u1": 5121}
_VERTICES, _INDICES = 34962, 34963
_WRAPS = {"repeat": 10497, "clamp": 33071, "mirror": 33648}
_TRANSFORM = "KHR_texture_transform"


class Written:
    """The lists of a document by their names, such as ``nodes``. Entries are added and numbered in order."""

    def __init__(self, normal_bits: int = 8) -> None:
        """normal_bits: of maps of normals; all others have 8."""
        self.lists: dict[str, list[Any]] = {}
        self.extensions: list[str] = []
        self.root: dict[str, Any] = {}
        """Of the extensions of the document."""
        self.normal_bits = normal_bits
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
        target: int | None = _VERTICES,
        bounds: bool = False,
    ) -> int:
        """Rows of numbers as an accessor."""
        rows = np.ascontiguousarray(values.astype(dtype))
        view, component = self.view(rows.tobytes(), target), _COMPONENTS[dtype]
        entry = {"bufferView": view, "componentType": component, "count": len(rows), "type": kind}
        if bounds:
            entry |= {"min": rows.min(0).tolist(), "max": rows.max(0).tolist()}
        return self.add("accessors", entry)

    def extend(self, name: str) -> None:
        """Name an extension that is used."""
        if name not in self.extensions:
            self.extensions.append(name)

    # ---- meshes

    def material(self, mesh: Mesh) -> int:
        """The material of a mesh; the same for meshes with the same objects."""
        key = (id(mesh.material), id(mesh.texture), mesh.color, mesh.uvs is None)
        if key not in self._materials or mesh.material is None:
            self._materials[key] = self.add("materials", _WrittenMaterial(self, mesh).entry)
        return self._materials[key]

    def texture(self, png: bytes, material: Material, what: str) -> dict[str, Any]:
        """A reference to one more image, that lies where a map of a material does."""
        u, v = material.wrap_of(what)
        sampler = {"magFilter": 9729, "minFilter": 9987, "wrapS": _WRAPS[u], "wrapT": _WRAPS[v]}
        samplers = self.lists.setdefault("samplers", [])
        if sampler not in samplers:
            samplers.append(sampler)
        image = self.add("images", {"bufferView": self.view(png), "mimeType": "image/png"})
        texture = self.add("textures", {"source": image, "sampler": samplers.index(sampler)})
        reference: dict[str, Any] = {"index": texture}
        place = material.place(what)
        if place.uv_set:
            reference["texCoord"] = place.uv_set
        if place.moves:
            entry = transform_entry(np.array(place.matrix), np.array(place.offset))
            if entry is None:
                warn(
                    f"material '{material.name}': the placement of {what} shears it, which glTF cannot say;"
                    " it was left out"
                )
            elif entry:
                reference["extensions"] = {_TRANSFORM: entry}
                self.extend(_TRANSFORM)
        return reference

    def primitive(self, mesh: Mesh) -> tuple[dict[str, Any], SeamSplit]:
        """A mesh as a primitive, and the vertices that it was split into."""
        # Viewers compute tangents for the normals of a clear layer alone; three.js turns these wrong when a
        # file gives them.
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
        faces = self.accessor(split.faces.reshape(-1), "SCALAR", index, _INDICES)
        return {"attributes": attributes, "indices": faces, "material": self.material(mesh), "mode": 4}, split

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


class _WrittenMaterial:
    """Base colour and material of a mesh as an entry of a document; maps are left out where there are no UVs.

    Colours are stored by the sRGB curve, all other maps as they are. Numbers that are the defaults of the
    format are left out.
    """

    def __init__(self, document: Written, mesh: Mesh):
        material = mesh.material or Material(name=mesh.name)
        self.document, self.material = document, material if mesh.uvs is not None else material.without_maps()
        material = self.material
        self.entry: dict[str, Any] = {"name": material.name}
        color = [float(min(max(c, 0.0), 1.0)) for c in mesh.color]
        texture = None if mesh.uvs is None else mesh.texture
        alpha = None if material.alpha_mode == "opaque" else material.alpha
        plain = alpha is not None and alpha.size == 1
        self.put(GLTF["base"].key, [*color, float(alpha.item()) if alpha is not None and plain else 1.0])
        alpha = None if plain else alpha
        if texture is not None or alpha is not None:
            what = "alpha" if texture is None else "texture"
            self.put(GLTF["base"].image.slot, document.texture(_base(texture, alpha), material, what))
        if material.alpha_mode != "opaque":
            self.put("alphaMode", material.alpha_mode.upper())
        if material.unlit:
            self.put("extensions/KHR_materials_unlit", {})
        if material.double_sided:
            self.put("doubleSided", True)
        scales = self.maps()
        for what, row in GLTF.factors.items():
            if row.multiplies or (row.map is not None and getattr(material, row.map.field) is not None):
                self.factor(row, np.multiply(getattr(material, what), scales.get(row.name, 1.0)))
        if material.alpha_mode != "mask":
            self.entry.pop(GLTF["alpha"].key, None)

    def put(self, path: str, value: Any) -> None:
        """Write a value at keys joined by "/"."""
        *outer, key = path.split("/")
        place: dict[str, Any] = self.entry
        for name in outer:
            place = place.setdefault(name, {})
        place[key] = value
        if path.startswith(EXTENSIONS):
            self.document.extend(outer[1] if len(outer) > 1 else key)

    def factor(self, row: Parameter, values: np.ndarray) -> None:
        default = row.default if row.file_default is None else row.file_default
        strength = float(max(values.max(), 1.0)) if row.strength else 1.0
        if not np.all(values == default):
            self.put(row.key, (values / strength).tolist())
        if strength > 1:
            self.put(row.strength, strength)

    def maps(self) -> dict[str, float]:
        """Write the maps beside the base colour's. Those of equal size that fit into one image share it, such
        as metallic in blue, roughness in green and occlusion in red. Returns what factors are multiplied by:
        images end at 1."""
        material, groups = self.material, []
        for one in (
            GLTF.maps[name] for name in material.maps() if GLTF.maps[name].slot != GLTF["base"].image.slot
        ):
            group = next((group for group in groups if self.fits(one, group)), None)
            if group is None:
                groups.append([one])
            else:
                group.append(one)
        scales: dict[str, float] = {}
        for group in groups:
            arrays = [np.asarray(getattr(material, one.field), np.float64) for one in group]
            for k, one in enumerate(group):
                most = max(float(arrays[k].max()), 1.0) if one.most > 1 else 1.0
                if one.signed and (place := material.place(one.field)).moves:
                    arrays[k] = turned_normals(arrays[k], np.linalg.inv(np.array(place.matrix)))
                arrays[k] = arrays[k] * 0.5 + 0.5 if one.signed else arrays[k] / most
                scales |= {row.name: most for row in GLTF.parameters if row.map is one}
            image = _image(group, arrays, self.document.normal_bits if group[0].signed else 8)
            reference = self.document.texture(image, material, group[0].field)
            for one in group:
                self.put(one.slot, dict(reference))
        return scales

    def fits(self, one: Map, group: list[Map]) -> bool:
        """Whether a map has the size and place of others, and channels of its own."""
        sizes = {np.shape(getattr(self.material, map.field))[:2] for map in (one, group[0])}
        same = len(sizes) == 1 and self.material.place(one.field) == self.material.place(group[0].field)
        return same and not any(set(one.channels) & set(other.channels) for other in group)


def _base(texture: np.ndarray | None, alpha: np.ndarray | None) -> bytes:
    if texture is None:
        texture = np.ones((1, 1, 3))
    if alpha is None:
        return encode_png(texture)
    size = tuple(max(pair) for pair in zip(texture.shape[1::-1], alpha.shape[1::-1], strict=True))
    return encode_png(np.concatenate([resize(texture, size), resize(alpha, size)[..., None]], axis=-1))


def _image(group: list[Map], arrays: list[np.ndarray], bits: int) -> bytes:
    if len(group) == 1 and group[0].width == 0 and "a" not in group[0].channels:
        return encode_png(arrays[0], bits=bits)
    canvas = np.ones((*arrays[0].shape[:2], 4 if any("a" in one.channels for one in group) else 3))
    for one, values in zip(group, arrays, strict=True):
        canvas[..., one.columns] = values if one.width else values[..., None]
    return encode_png(canvas, bits=bits, srgb=any(one.light for one in group))


def save_glb(path: str | os.PathLike, mesh: Mesh, *, normal_bits: int = 8) -> None:
    """Write one self-contained GLB: split at seams, normals, UVs, vertex colours (``COLOR_0``, linear
    floats), albedo as an 8-bit sRGB PNG, and the material with its maps as 8-bit PNGs; a rough dielectric
    without one. A mesh with a normal map gets its `tangents` (``TANGENT``).

    normal_bits: of the normal map, 8 or 16; 16 needs OpenCV.  Emission above 1 is written by an extension, as
    are clearcoat and sheen. The file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> open(path, "rb").read(4)
    b'glTF'
    """
    mesh.validate()
    document = Written(normal_bits)
    primitive, _ = document.primitive(mesh)
    document.add("meshes", {"primitives": [primitive]})
    document.add("nodes", {"mesh": 0, "name": mesh.name})
    write_files({Path(path): document.glb()})


# Morph targets, skins, cameras and lights as entries of a glTF file.


def matrix_entry(matrix: np.ndarray) -> dict[str, Any]:
    """A (4, 4) as a part of a node."""
    values = np.asarray(matrix, np.float64)
    return {} if np.array_equal(values, np.eye(4)) else {"matrix": values.T.reshape(-1).tolist()}


def is_rigid_with_scale(matrix: np.ndarray) -> bool:
    """Whether a matrix is a scale, then a rotation and a shift, which is all that nodes of glTF hold."""
    turn = matrix[:3, :3]
    lengths = np.linalg.norm(turn, axis=0)
    if lengths.min() < 1e-12:
        return False
    product = (turn / lengths).T @ (turn / lengths)
    return bool(np.abs(product - np.eye(3)).max() < 1e-6) and np.array_equal(matrix[3], (0, 0, 0, 1))


def targets(document: Written, shape: MorphGeometry, split: SeamSplit, mesh: Mesh) -> list[dict[str, int]]:
    """The modes of a shape as morph targets of its primitive, with those of its normals: without them a
    reader leaves the normals where they are."""
    if shape.normal_modes is not None:
        # A corner of the split mesh has one vertex and one normal.
        owner = np.zeros(len(split.positions), np.int64)
        owner[split.faces] = np.asarray(mesh.normal_faces)
        turned = [mode[owner] for mode in shape.normal_modes]
    else:
        smooth = mesh.vertex_normals()
        each = (mesh.moved(mesh.positions + mode).vertex_normals() for mode in shape.modes)
        turned = [(normals - smooth)[split.source] for normals in each]
    return [
        {
            "POSITION": document.accessor(mode[split.source], "VEC3", bounds=True),
            "NORMAL": document.accessor(normal, "VEC3"),
        }
        for mode, normal in zip(shape.modes, turned, strict=True)
    ]


def joint_attributes(document: Written, shape: SkinnedGeometry, split: SeamSplit) -> dict[str, int]:
    """The joints and weights of the vertices of a primitive."""
    joints, weights = shape.joints[split.source], shape.weights[split.source]
    count, width = joints.shape
    # Each joint once a vertex, the heaviest first; float32 weights that add up to 1.
    merged = np.zeros((count, len(shape.inverse_bind)))
    np.add.at(merged, (np.arange(count)[:, None], joints), weights)
    width = min(width, -(-merged.shape[1] // 4) * 4)
    order = np.argsort(-merged, axis=1, kind="stable")[:, :width]
    order = np.pad(order, ((0, 0), (0, width - order.shape[1])))
    shares = np.take_along_axis(merged, order, axis=1)
    shares[:, merged.shape[1] :] = 0
    shares = shares.astype(np.float32)
    shares /= shares.sum(1, keepdims=True)
    order = np.where(shares > 0, order, 0)
    dtype, attributes = "<u1" if order.max() < 256 else "<u2", {}
    for k in range(width // 4):
        part = slice(4 * k, 4 * k + 4)
        attributes[f"JOINTS_{k}"] = document.accessor(order[:, part], "VEC4", dtype)
        attributes[f"WEIGHTS_{k}"] = document.accessor(shares[:, part], "VEC4")
    return attributes


def joint_nodes(
    document: Written, name: str, shape: SkinnedGeometry, to_world: np.ndarray | None
) -> list[int]:
    """The joints of a skin as nodes under one that places them; their numbers. Raises InputError."""
    skeleton = shape.skeleton
    if not isinstance(skeleton, Skeleton):
        skeleton = Skeleton([-1] * len(shape.inverse_bind), skeleton)
    local = skeleton.local
    if not isinstance(local, np.ndarray) or local.ndim != 3:
        raise InputError(
            f"node '{name}': a file holds one pose, by arrays; give posed(Skeleton(parents, matrices, names))"
        )
    top = {} if to_world is None else matrix_entry(to_world)
    above = document.add("nodes", {"name": f"{name} joints", "children": [], **top})
    first = len(document.lists["nodes"])
    for joint, matrix in zip(skeleton.names, local, strict=True):
        if not is_rigid_with_scale(matrix):
            raise InputError(
                f"node '{name}': joint '{joint}' has shear, and nodes of glTF hold a rotation, a scale along"
                " its axes and a shift"
            )
        document.add("nodes", {"name": joint, **matrix_entry(matrix)})
    for k, parent in enumerate(skeleton.parents):
        holder = document.lists["nodes"][above if parent < 0 else first + int(parent)]
        holder.setdefault("children", []).append(first + k)
    return list(range(first, first + len(local)))


def skin(document: Written, name: str, shape: SkinnedGeometry, joints: list[int]) -> int:
    """A skin of joints that are written, and its number."""
    for joint, called in zip(joints, getattr(shape.skeleton, "names", ()), strict=False):
        document.lists["nodes"][joint].setdefault("name", called)
    rows = shape.inverse_bind.swapaxes(1, 2).reshape(-1, 16).copy()
    rows[:, 3::4] = (0, 0, 0, 1)
    bind = document.accessor(rows, "MAT4", target=None)
    return document.add("skins", {"name": name, "joints": joints, "inverseBindMatrices": bind})


def camera(document: Written, name: str, view: Camera) -> None:
    """A camera and its node."""
    (fx, _, cx), (_, fy, cy) = view.intrinsics[:2]
    width, height = view.size
    if abs(cx - width / 2) > 0.01 * width or abs(cy - height / 2) > 0.01 * height:
        warn(f"camera '{name}' looks past the centre of its picture; glTF centres it")
    if view.lens:
        warn(f"camera '{name}' has a lens, which glTF does not keep")
    planes = {"znear": float(view.near), "zfar": float(view.far)}
    if view.parallel:
        kind, lens = "orthographic", {"xmag": float(width / (2 * fx)), "ymag": float(height / (2 * fy))}
    else:
        kind = "perspective"
        lens = {
            "yfov": float(2 * np.arctan(height / (2 * fy))),
            "aspectRatio": float(width / height * fy / fx),
        }
    number = document.add("cameras", {"type": kind, kind: lens | planes, "name": name})
    matrix = _standing(view.rotation, view.center)
    document.add("nodes", {"camera": number, "name": name, **matrix_entry(matrix)})


def light(document: Written, number: int, source: LightSource) -> None:
    """A punctual light and its node; a warning for a kind that files do not have. Raises InputError."""
    if not isinstance(source, (DirectionalLight, PointLight, SpotLight)):
        warn(f"light {number}, {type(source).__name__}, is none that glTF has; it was left out")
        return
    entry: dict[str, Any]
    place, shine = (0.0, 0.0, 0.0), (0.0, 0.0, -1.0)
    if isinstance(source, DirectionalLight):
        entry, colour = {"type": "directional"}, _three(number, source.colour)
        shine = tuple(-_three(number, source.direction))
    else:
        entry, colour = {"type": "point"}, _three(number, source.intensity)
        place = tuple(_three(number, source.position))
    if isinstance(source, SpotLight):
        inner, outer = (float(_three(number, angle)[0]) for angle in (source.inner, source.outer))
        entry = {"type": "spot", "spot": {"innerConeAngle": inner, "outerConeAngle": outer}}
        shine = tuple(_three(number, source.direction))
    strength = float(max(colour.max(), 1e-12))
    entry |= {"color": (colour / strength).tolist(), "intensity": strength}
    lights = document.root.setdefault(LIGHTS, {"lights": []})["lights"]
    lights.append(entry)
    document.extend(LIGHTS)
    node = {"name": f"light {number}", "extensions": {LIGHTS: {"light": len(lights) - 1}}}
    document.add("nodes", node | matrix_entry(_aimed(np.array(place), np.array(shine))))


def _three(number: int, value: Any) -> np.ndarray:
    """One value of a light as three numbers."""
    try:
        return np.broadcast_to(np.asarray(value, np.float64), 3)
    except (TypeError, ValueError):
        raise InputError(
            f"light {number} has Variables or several values; a file holds one light by numbers"
        ) from None


def _aimed(place: np.ndarray, shine: np.ndarray) -> np.ndarray:
    """(4, 4) of a node at a place whose -z points along a direction."""
    return _standing(look_at(np.zeros(3), shine)[0], place)


def _standing(rotation: np.ndarray, place: np.ndarray) -> np.ndarray:
    """(4, 4) of a node that looks as a camera of that rotation does."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = rotation.T * (1, -1, -1), place
    return matrix


# A scene.


def save_glb_scene(path: Path, scene: Scene) -> None:
    """A scene as a .glb; see ``save_scene``."""
    document, motion = _WrittenScene(scene.motion), scene.motion
    for k, node in enumerate(scene):
        document.node(node, *((-1, ()) if motion is None else (motion.nodes[k], motion.joints[k])))
    for clip in scene.clips:
        document.clip(clip)
    for name, view in scene.cameras.items():
        camera(document, name, view)
    for number, source in enumerate(scene.lights):
        light(document, number, source)
    write_files({path: document.glb()})


class _WrittenScene(Written):
    def __init__(self, motion: Motion | None) -> None:
        super().__init__()
        self._meshes: dict[tuple[int, int], int] = {}
        self._skins: dict[tuple[Any, ...], int] = {}
        self._motion = motion
        self._tree: dict[int, int] = {}
        """Written nodes by their numbers in the file that the motion is of."""
        self._morphs: dict[int, list[int]] = {}
        """Written nodes with morph targets by the same."""

    def node(self, node: Node, index: int, joints: tuple[int, ...]) -> None:
        """A node; those of one geometry and material share a mesh.  index, joints: of the motion."""
        matrix, name = node.to_world, node.name
        if isinstance(matrix, Variable) or (matrix is not None and matrix.ndim != 2):
            raise InputError(
                f"node '{name}': to_world is a Variable or several matrices, and a file holds one; give an"
                " array (4, 4), such as that of ad.recv"
            )
        if isinstance(node.geometry, (StrandGeometry, PointGeometry)):
            raise InputError(
                f"node '{name}' is of strands or points, which are not written as glTF; leave it out, and"
                " save strands with save_strands"
            )
        shape, skinned = node.geometry, isinstance(node.geometry, SkinnedGeometry)
        moved = self._is_moved(node, index, joints)
        baked = matrix is not None and not skinned and not moved and not is_rigid_with_scale(matrix)
        entry: dict[str, Any] = {"name": name}
        if baked:
            assert matrix is not None
            entry["mesh"] = self._mesh(node, _sheared(name, shape, matrix))
        else:
            key = (id(shape), id(node.material))
            if key not in self._meshes:
                self._meshes[key] = self._mesh(node, shape)
            entry["mesh"] = self._meshes[key]
        if isinstance(shape, SkinnedGeometry):
            key = (id(shape.skeleton), id(matrix), shape.inverse_bind.tobytes())
            if key not in self._skins:
                numbers = map(self._placed, joints) if moved else joint_nodes(self, name, shape, matrix)
                self._skins[key] = skin(self, name, shape, list(numbers))
            entry["skin"] = self._skins[key]
        elif matrix is not None and not baked and not moved:
            entry |= matrix_entry(matrix)
        if moved and not skinned:
            number = self._placed(index)
            holder = self.lists["nodes"][number]
            if holder.keys() & {"mesh", "name"}:
                number = self.add("nodes", entry)
                holder.setdefault("children", []).append(number)
            else:
                holder |= entry
        else:
            number = self.add("nodes", entry)
        bound = shape.bound if isinstance(shape, SkinnedGeometry) else shape
        if isinstance(bound, MorphGeometry):
            self._morphs.setdefault(index, []).append(number)

    def _is_moved(self, node: Node, index: int, joints: tuple[int, ...]) -> bool:
        """Whether a clip places a node or its joints, so that the tree of its file is written."""
        motion, shape = self._motion, node.geometry
        if motion is None or not any(motion.moved & set(motion.line(one)) for one in joints or (index,)):
            return False
        if not isinstance(shape, SkinnedGeometry):
            return True
        if node.to_world is None and len(joints) == len(shape.inverse_bind):
            return True
        warn(f"node '{node.name}' has another skin or place than its clips move; they are not written for it")
        return False

    def _placed(self, index: int) -> int:
        """The number of a node of the motion's file, which is written below those above it."""
        motion, above = self._motion, -1
        assert motion is not None
        for node in reversed(motion.line(index)):
            if node not in self._tree:
                own = {path: np.ravel(part.T).tolist() for path, part in motion.own(node).items()}
                self._tree[node] = self.add("nodes", own)
                if above != -1:
                    self.lists["nodes"][above].setdefault("children", []).append(self._tree[node])
            above = self._tree[node]
        return above

    def clip(self, clip: Clip) -> None:
        """The tracks of a clip that move what is written."""
        channels: list[dict[str, Any]] = []
        samplers: list[dict[str, Any]] = []
        trees = {node: [number] for node, number in self._tree.items()}
        for track in clip.tracks:
            weights = track.path == "weights"
            goals = (self._morphs if weights else trees).get(track.node, [])
            rows = track.values.reshape(-1, 1 if weights else track.values.shape[-1])
            targets = [{"node": goal, "path": track.path} for goal in goals]
            channels += [{"sampler": len(samplers), "target": target} for target in targets]
            if goals:
                times = self.accessor(track.times[:, None], "SCALAR", target=None, bounds=True)
                values = self.accessor(rows, {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[rows.shape[1]], target=None)
                samplers.append({"input": times, "output": values, "interpolation": track.interpolation})
        if channels:
            self.add("animations", {"name": clip.name, "channels": channels, "samplers": samplers})

    def _mesh(self, node: Node, shape: Geometry) -> int:
        skin = shape if isinstance(shape, SkinnedGeometry) else None
        bound = shape if skin is None else skin.bound
        morph = bound if isinstance(bound, MorphGeometry) else None
        mesh = _dressed(node, _host_mesh(node.name, bound))
        primitive, split = self.primitive(mesh)
        entry: dict[str, Any] = {"name": mesh.name, "primitives": [primitive]}
        if morph is not None:
            if isinstance(morph.weights, Variable) or morph.weights.ndim != 1:
                raise InputError(
                    f"node '{node.name}': a file holds one list of weights; give weighted(array)"
                )
            primitive["targets"] = targets(self, morph, split, mesh)
            entry["weights"] = morph.weights.tolist()
            if morph.names:
                entry["extras"] = {"targetNames": list(morph.names)}
        if skin is not None:
            primitive["attributes"] |= joint_attributes(self, skin, split)
        return self.add("meshes", entry)


def _host_mesh(name: str, shape: Geometry) -> Mesh:
    """The mesh of a geometry of arrays, before its modes move it. Raises InputError."""
    if isinstance(shape, MorphGeometry):
        if isinstance(shape.positions, Variable):
            raise _variable(name, "positions")
        own = replace(shape.mesh, positions=shape.positions)
        return own if shape.normal_modes is not None else replace(own, normals=None, normal_faces=None)
    lists = shape.lists()
    for what, value in lists.items():
        if isinstance(value, Variable):
            raise _variable(name, what)
    base = shape.mesh or Mesh(lists["positions"], lists["faces"], name=name)
    if np.ndim(lists["positions"]) != 2:
        raise InputError(
            f"node '{name}': a file holds one list of positions (V, 3), not {np.shape(lists['positions'])}"
        )
    mesh = replace(base) if not shape.moves else base.moved(np.asarray(lists["positions"]))
    faces = lists["faces"]
    if lists.get("uvs") is not None:
        own = lists.get("uv_faces")
        own = faces if own is None else own
        mesh = replace(mesh, uvs=lists["uvs"], uv_faces=own, texture=lists.get("texture"))
    if lists.get("colours") is not None:
        own = lists.get("colour_faces")
        mesh = replace(mesh, colors=lists["colours"], color_faces=faces if own is None else own)
    return mesh.validate()


def _variable(name: str, what: str) -> InputError:
    return InputError(
        f"node '{name}': {what} are Variables, which have no values of their own; give arrays, such as those"
        " of ad.recv"
    )


def _dressed(node: Node, mesh: Mesh) -> Mesh:
    """The mesh with the material of its node. Raises InputError."""
    given = node.material
    if isinstance(given, Material):
        return replace(mesh, material=given)
    if not isinstance(given, Mapping) or not given:
        return mesh
    material, known = mesh.material or Material(name=node.name), {field.name for field in fields(Material)}
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Variable):
            raise _variable(node.name, f"values of {name}")
        if name == "texture":
            mesh = replace(mesh, texture=np.asarray(value))
        elif name == "colour":
            mesh = replace(mesh, color=tuple(np.broadcast_to(np.asarray(value, float), 3).tolist()))
        else:
            image = np.ndim(value) >= 2
            field = f"{name}_map" if image and f"{name}_map" in known else name
            holds = field in known
            if image:
                holds &= field in (*material.maps(), f"{name}_map", "normal", "occlusion")
            if not holds:
                raise InputError(
                    f"node '{node.name}': {name} of its material cannot be written; give the node a Material"
                )
            changes[field] = np.asarray(value) if np.ndim(value) else value
    return replace(mesh, material=replace(material, **changes).validate()) if changes else mesh


def _sheared(name: str, shape: Geometry, matrix: np.ndarray) -> Geometry:
    """A shape in the world, where its node has shear. Raises InputError."""
    if isinstance(shape, MorphGeometry):
        raise InputError(
            f"node '{name}': to_world has shear, and nodes of glTF hold a rotation, a scale along its axes"
            " and a shift"
        )
    mesh = _host_mesh(name, shape)
    mesh = mesh.moved(mesh.positions @ matrix[:3, :3].T + matrix[:3, 3])
    if np.linalg.det(matrix[:3, :3]) < 0:
        for what in ("faces", "uv_faces", "color_faces"):
            faces = getattr(mesh, what)
            setattr(mesh, what, None if faces is None else faces[:, ::-1])
    return TriangleGeometry(mesh)
