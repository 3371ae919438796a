"""glTF 2.0 in: triangle geometry, UVs, tangents and vertex colours of all nodes, with one material."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import BROKEN, reason, shown
from dressi.render.io.formats.gltf_document import Document
from dressi.render.io.formats.gltf_material import Materials
from dressi.render.io.formats.sizes import check_counts
from dressi.render.mesh import Mesh, weld, weld_values

LARGEST_SCENE = 65_536
"""Primitives that the nodes of a scene place."""


def load_gltf(path: str | os.PathLike) -> Mesh:
    """Read a .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, transforms applied.

    Texture and `Material` are those of the first material with a base colour texture (else with any, else the first); maps and
    factors of others that differ are reported by a warning and left out. Base colour factors that differ between materials
    are multiplied into the vertex colours (``COLOR_0``, linear light, alpha left out). A file without materials gives
    ``material=None``; a material without metallicFactor and roughnessFactor has the standard's 1. Maps with a texture
    transform other than the base colour's are resampled; maps with other UVs than its are left out with a warning.
    TANGENT is kept where there is a normal map. Raises InputError naming the file, also when it refers to anything outside its folder.

    >>> import os, tempfile
    >>> from dressi.render.io.formats.glb import save_glb
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> load_gltf(path).faces.shape
    (12, 3)
    """
    path = Path(path)
    try:
        return _Scene(Document(path)).mesh()
    except InputError:
        raise
    except BROKEN as error:
        raise InputError(
            f"'{path}' is not valid glTF 2.0 ({type(error).__name__}: {reason(error)}); export it again"
        ) from None


@dataclass(frozen=True, eq=False)
class _Part:
    """A primitive with the vertices that it uses. factor: (3,) of its material."""

    positions: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray | None
    normals: np.ndarray | None
    tangents: np.ndarray | None
    colors: np.ndarray | None
    material: int | None
    factor: np.ndarray

    def placed(self, matrix: np.ndarray) -> _Part:
        """In the world, by a (4, 4) matrix; a mirror turns faces."""
        turn = matrix[:3, :3]
        u, v, w = turn.T
        # The rows of the inverse times the determinant: normals go by them, even where the matrix is singular.
        inverse = np.array([_cross(v, w), _cross(w, u), _cross(u, v)])
        determinant = float(u @ inverse[0])
        normals, faces, tangents = self.normals, self.faces, self.tangents
        sign = 1.0
        if determinant < 0:
            faces, inverse, sign = faces[:, ::-1], -inverse, -1.0
        if normals is not None:
            normals = normals @ inverse
        if tangents is not None:
            tangents = np.concatenate([tangents[:, :3] @ turn.T, tangents[:, 3:] * sign], axis=1)
        positions = self.positions @ turn.T + matrix[:3, 3]
        return replace(self, positions=positions, faces=faces, normals=normals, tangents=tangents)


class _Scene:
    """What the nodes of a document place in the world."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path
        self.materials = Materials(document)

    def mesh(self) -> Mesh:
        meshes: dict[int, list[_Part]] = {}
        parts: list[_Part] = []
        vertices = faces = 0
        placed = list(self.nodes())
        count = sum(len(self.document.item("meshes", index)["primitives"]) for index, _ in placed)
        if count > LARGEST_SCENE:
            raise InputError(
                f"'{self.path}' places {count:,} primitives, above the limit of {LARGEST_SCENE:,}; join meshes before the export"
            )
        self.check_sizes([index for index, _ in placed])
        for index, matrix in placed:
            if index not in meshes:
                meshes[index] = list(self.primitives(index))
            for part in meshes[index]:
                vertices, faces = vertices + len(part.positions), faces + len(part.faces)
                check_counts(self.path, vertices, faces)
                parts.append(part if matrix is None else part.placed(matrix))
        if not parts:
            raise InputError(f"'{self.path}' has no triangles; export a mesh with faces")
        return self.merged(parts)

    def check_sizes(self, placed: list[int]) -> None:
        """Raise InputError for too many faces, from the counts alone: before an accessor is decoded."""
        faces = 0
        for index in placed:
            for entry, attributes in self.drawn(index):
                vertices = self.document.count(attributes["POSITION"])
                corners = self.document.count(entry["indices"]) if "indices" in entry else vertices
                faces += corners // 3 if entry.get("mode", 4) == 4 else max(corners - 2, 0)
            check_counts(self.path, 0, faces)

    def nodes(self) -> Iterator[tuple[int, np.ndarray | None]]:
        """(mesh, world matrix) of every node of the scene that has a mesh; None where nothing moves it."""
        nodes, scenes = self.document.items("nodes"), self.document.items("scenes")
        if not nodes:
            yield from ((i, None) for i in range(len(self.document.items("meshes"))))
            return
        children = {child for node in nodes for child in node.get("children", ())}
        roots = [i for i in range(len(nodes)) if i not in children]
        if scenes:
            roots = self.document.item("scenes", self.document.json.get("scene", 0)).get("nodes", [])
        seen: set[int] = set()
        stack: list[tuple[int, np.ndarray | None]] = [(root, None) for root in reversed(roots)]
        while stack:
            index, parent = stack.pop()
            if index in seen:
                raise InputError(
                    f"'{self.path}': node {index} is its own ancestor or has two parents; export it again"
                )
            node = self.document.item("nodes", index)
            seen.add(index)
            own = self.matrix(node)
            matrix = own if parent is None else parent if own is None else parent @ own
            if matrix is not None and not np.isfinite(matrix).all():
                raise InputError(f"'{self.path}': node {index} is too large to be placed; export it again")
            if "mesh" in node:
                yield node["mesh"], matrix
            stack += [(child, matrix) for child in reversed(node.get("children", ()))]

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

    def drawn(self, index: int) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """The primitives of a mesh that have triangles, with their attributes."""
        for entry in self.document.item("meshes", index)["primitives"]:
            attributes = entry.get("attributes", {})
            if entry.get("mode", 4) in (4, 5, 6) and "POSITION" in attributes:
                yield entry, attributes

    def primitives(self, index: int) -> Iterator[_Part]:
        """The parts of a mesh that have triangles."""
        return (self.part(*drawn) for drawn in self.drawn(index))

    def part(self, entry: dict[str, Any], attributes: dict[str, int]) -> _Part:
        vertices = self.document.count(attributes["POSITION"])
        check_counts(self.path, vertices, 0)
        if "indices" in entry:
            index = self.document.accessor(entry["indices"])[:, 0].astype(np.int64)
        else:
            index = np.arange(vertices)
        outside = (index < 0) | (index >= vertices)
        if outside.any():
            raise InputError(
                f"'{self.path}': index {int(index[outside][0])} is out of range for {vertices} vertices;"
                " export it again"
            )
        # Exporters share one list of vertices among many primitives.
        used, corners = np.unique(_triangles(index, entry.get("mode", 4)), return_inverse=True)
        material = entry.get("material")
        frame = self.materials.frame(material)
        uv_set = f"TEXCOORD_{frame.uv_set}"
        wanted = {"POSITION": 3, "NORMAL": 3, "TANGENT": 4, uv_set: 2, "COLOR_0": 0}
        found = {
            name: self.attribute(name, attributes[name], vertices, width, used)
            for name, width in wanted.items()
            if name in attributes
        }
        uvs = found.get(uv_set)
        return _Part(
            positions=found["POSITION"],
            faces=corners.reshape(-1, 3),
            uvs=None if uvs is None else frame.apply(uvs),
            normals=found.get("NORMAL"),
            # Tangents go along the UVs of the file.
            tangents=found.get("TANGENT") if frame.is_upright() else None,
            colors=found.get("COLOR_0"),
            material=material,
            factor=self.materials.factor(material)[:3],
        )

    def attribute(self, name: str, index: int, vertices: int, width: int, used: np.ndarray) -> np.ndarray:
        """Rows of an attribute that are used; width 0: the first three numbers of a colour."""
        values = self.document.accessor(index)
        if len(values) != vertices:
            raise InputError(f"'{self.path}': {len(values)} {name} for {vertices} positions; export it again")
        if values.shape[1] != width and (width or values.shape[1] < 3):
            raise InputError(f"'{self.path}': {name} has {values.shape[1]} numbers a vertex; export it again")
        rows = values[used]
        if width:
            return rows.astype(np.float64)
        entry = self.document.item("accessors", index)
        if values.dtype.kind == "i":  # integers without the flag that they need
            rows = rows / {5121: 255, 5123: 65535}.get(entry["componentType"], 1)
        if not ((rows >= 0) & (rows <= 1e6)).all():
            raise InputError(
                f"'{self.path}' has vertex colours below 0 or that are no numbers; export it again"
            )
        if rows.shape[1] == 4 and (rows[:, 3] < 1).any():
            warnings.warn(f"'{self.path}': the alpha of vertex colours was left out", stacklevel=7)
        return rows[:, :3]

    # ---- all parts

    def merged(self, parts: list[_Part]) -> Mesh:
        starts = np.cumsum([0] + [len(part.positions) for part in parts])
        corners = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)])
        mesh = Mesh(*weld(np.concatenate([part.positions for part in parts]), corners), name=str(self.path))
        if any(part.uvs is not None for part in parts):
            if any(part.uvs is None for part in parts):
                warnings.warn(f"'{self.path}': parts without UVs take the first texel's colour", stacklevel=5)
            values = [np.zeros((len(part.positions), 2)) if part.uvs is None else part.uvs for part in parts]
            mesh.uvs, mesh.uv_faces = weld_values(np.concatenate(values), corners)
        if all(part.normals is not None for part in parts):
            values = np.concatenate([np.asarray(part.normals) for part in parts])
            values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30)
            mesh.normals, mesh.normal_faces = weld_values(values, corners)
        chosen = self.materials.chosen([part.material for part in parts])
        if chosen is not None:
            mesh.texture, mesh.material = self.materials.read(chosen, mesh.uvs)
        # Without the normal map that they were made for, exporters write tangents that fit nothing.
        bumpy = mesh.material is not None and mesh.material.normal is not None
        if bumpy and all(part.tangents is not None for part in parts):
            self.add_tangents(mesh, np.concatenate([np.asarray(part.tangents) for part in parts]), corners)
        first = next((part for part in parts if part.material is not None), parts[0])
        one = all((part.factor == first.factor).all() for part in parts)
        if one:
            mesh.color = (float(first.factor[0]), float(first.factor[1]), float(first.factor[2]))
        if not one or any(part.colors is not None for part in parts):
            # Factors of several materials become vertex colours.
            rows = [
                np.broadcast_to(1.0 if part.colors is None else part.colors, part.positions.shape)
                * (1.0 if one else part.factor)
                for part in parts
            ]
            mesh.colors, mesh.color_faces = weld_values(np.concatenate(rows), corners)
        return mesh

    def add_tangents(self, mesh: Mesh, values: np.ndarray, corners: np.ndarray) -> None:
        length = np.linalg.norm(values[:, :3], axis=1, keepdims=True)
        if not ((length > 1e-6) & (length < np.inf)).all() or not (np.abs(values[:, 3]) == 1).all():
            warnings.warn(
                f"'{self.path}' has a TANGENT that is no direction with the sign 1 or -1; tangents are computed instead",
                stacklevel=6,
            )
            return
        values = np.concatenate([values[:, :3] / length, values[:, 3:]], axis=1)
        mesh.file_tangents, mesh.file_tangent_faces = weld_values(values, corners)


def _cross(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


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
