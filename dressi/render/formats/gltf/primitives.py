"""The primitives of a glTF file: triangles, parts of which become one mesh, and lines, as strands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....errors import InputError
from ...io.files import Damaged, check_counts
from ...io.strands import line_strands
from ...mesh import AtlasError, Material, Mesh, joined, weld
from ...strands.geometry import PointGeometry, StrandGeometry
from .document import LARGEST_SCENE, Document, Placed
from .material import Materials


@dataclass(frozen=True, eq=False)
class Part:
    """A primitive with the vertices that it uses. factor: (3,) of its material."""

    entry: dict[str, Any]
    used: np.ndarray
    """Rows of its accessors, in the order of the vertices."""
    positions: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray | None
    second_uvs: np.ndarray | None
    normals: np.ndarray | None
    tangents: np.ndarray | None
    colors: np.ndarray | None
    material: int | None
    factor: np.ndarray

    def placed(self, matrix: np.ndarray) -> Part:
        """In the world, by a (4, 4) matrix; a mirror turns faces."""
        turn = matrix[:3, :3]
        u, v, w = turn.T
        # The rows of the inverse times the determinant: normals go by them, even where the matrix is
        # singular.
        inverse = np.array([np.cross(v, w), np.cross(w, u), np.cross(u, v)])
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


class Primitives:
    """The primitives of a document, and parts of them as one mesh; methods raise InputError."""

    def __init__(self, document: Document):
        self.document, self.materials = document, Materials(document)
        self._read: dict[tuple[int, bool, bool], tuple[np.ndarray | None, Material]] = {}

    def drawn(self, placed: Sequence[Placed], *, lines: bool) -> Iterator[tuple[Placed, list[Part]]]:
        """The nodes with a mesh, and its parts; a warning names what is not read.  lines: whether lines are
        not."""
        nodes = [node for node in placed if "mesh" in node.entry]
        self._check_sizes([node.entry["mesh"] for node in nodes])
        self._name_losses({node.entry["mesh"] for node in nodes}, lines)
        meshes: dict[int, list[Part]] = {}
        vertices = faces = 0
        for node in nodes:
            number = node.entry["mesh"]
            if number not in meshes:
                meshes[number] = [self._part(*entry) for entry in self._triangles(number)]
            for part in meshes[number]:
                vertices, faces = vertices + len(part.positions), faces + len(part.faces)
                check_counts(vertices, faces)
            yield node, meshes[number]

    def _check_sizes(self, placed: Sequence[int]) -> None:
        """Raise InputError for too many primitives or faces of placed meshes, from the counts alone: before
        an accessor is decoded."""
        count = sum(len(self.document.item("meshes", index)["primitives"]) for index in placed)
        if count > LARGEST_SCENE:
            raise InputError(
                f"it places {count:,} primitives, above the limit of {LARGEST_SCENE:,}; join meshes before"
                " the export"
            )
        faces = 0
        for index in placed:
            for entry, attributes in self._triangles(index):
                vertices = self.document.count(attributes["POSITION"])
                corners = self.document.count(entry["indices"]) if "indices" in entry else vertices
                faces += corners // 3 if entry.get("mode", 4) == 4 else max(corners - 2, 0)
            check_counts(0, faces)

    def _name_losses(self, meshes: Collection[int], lines: bool) -> None:
        entries = [entry for index in meshes for entry in self.document.item("meshes", index)["primitives"]]
        modes = Counter(entry.get("mode", 4) for entry in entries)
        counts = {"points": modes[0] * lines, "lines": (modes[1] + modes[2] + modes[3]) * lines}
        lost = [f"{count} primitives of {kind}" for kind, count in counts.items() if count]
        if any("COLOR_1" in entry.get("attributes", {}) for entry in entries):
            lost.append("second vertex colours (COLOR_1)")
        if lost:
            self.document.warn(f"has {', '.join(lost)}, which are not read here and were left out")

    def _triangles(self, index: int) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """The primitives of a mesh that have triangles, with their attributes."""
        for entry in self.document.item("meshes", index)["primitives"]:
            attributes = entry.get("attributes", {})
            if entry.get("mode", 4) in (4, 5, 6) and "POSITION" in attributes:
                yield entry, attributes

    def _part(self, entry: dict[str, Any], attributes: dict[str, int]) -> Part:
        vertices = self.document.count(attributes["POSITION"])
        check_counts(vertices, 0)
        self.document.unpack(entry)
        if "indices" in entry:
            index = self.document.accessor(entry["indices"])[:, 0].astype(np.int64)
        else:
            index = np.arange(vertices)
        outside = (index < 0) | (index >= vertices)
        if outside.any():
            raise Damaged(f"index {int(index[outside][0])} is out of range for {vertices} vertices")
        # Exporters share one list of vertices among many primitives.
        used, corners = np.unique(_triangles(index, entry.get("mode", 4)), return_inverse=True)
        material = entry.get("material")
        frame = self.materials.frame(material)
        uv_set = f"TEXCOORD_{frame.uv_set}"
        second = f"TEXCOORD_{self.materials.second(material)}"
        wanted = {second: 2, "POSITION": 3, "NORMAL": 3, "TANGENT": 4, uv_set: 2, "COLOR_0": 0}
        values = {
            name: self._attribute(name, attributes[name], vertices, width, used)
            for name, width in wanted.items()
            if name in attributes
        }
        uvs = values.get(uv_set)
        return Part(
            entry=entry,
            used=used,
            positions=values["POSITION"],
            faces=corners.reshape(-1, 3),
            uvs=None if uvs is None else frame.apply(uvs),
            second_uvs=values.get(second),
            normals=values.get("NORMAL"),
            # Tangents go along the UVs of the file.
            tangents=values.get("TANGENT") if frame.is_upright() else None,
            colors=values.get("COLOR_0"),
            material=material,
            factor=self.materials.factor(material)[:3],
        )

    def _attribute(self, name: str, index: int, vertices: int, width: int, used: np.ndarray) -> np.ndarray:
        """Rows of an attribute that are used; width 0: the first three numbers of a colour."""
        values = self.document.accessor(index)
        if len(values) != vertices:
            raise Damaged(f"{len(values)} {name} for {vertices} positions")
        if values.shape[1] != width and (width or values.shape[1] < 3):
            raise Damaged(f"{name} has {values.shape[1]} numbers a vertex")
        rows = values[used]
        if width:
            return rows.astype(np.float64)
        entry = self.document.item("accessors", index)
        if values.dtype.kind == "i":  # integers without the flag that they need
            rows = rows / {5121: 255, 5123: 65535}.get(entry["componentType"], 1)
        if not ((rows >= 0) & (rows <= 1e6)).all():
            raise Damaged("it has vertex colours below 0 or that are no numbers")
        if rows.shape[1] == 4 and (rows[:, 3] < 1).any():
            self.document.warn("has vertex colours whose alpha was left out")
        return rows[:, :3]

    def mesh(self, parts: list[Part]) -> Mesh:
        """The parts as one mesh that looks like them: maps and factors of several materials lie in one atlas.
        Where an atlas cannot hold them, the materials of the mesh are those of ``Materials.chosen``, which
        says so."""
        groups: dict[int | None, list[Part]] = {}
        for part in parts:
            groups.setdefault(part.material, []).append(part)
        if len(groups) > 1 and self.materials.differ(list(groups)):
            meshes = [self.merged(own) for own in groups.values()]
            if not any(m.second_uvs is not None or (m.material and m.material.placements) for m in meshes):
                with suppress(AtlasError):
                    return joined(meshes, str(self.document.path))
        return self.merged(parts)

    def merged(self, parts: list[Part]) -> Mesh:
        """The parts as one mesh, whose vertices are welded where their positions are equal."""
        starts = np.cumsum([0] + [len(part.positions) for part in parts])
        corners = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)])
        mesh = Mesh(
            *weld(np.concatenate([part.positions for part in parts]), corners), name=str(self.document.path)
        )
        return self.dressed(mesh, parts, corners)

    def dressed(self, mesh: Mesh, parts: list[Part], corners: np.ndarray) -> Mesh:
        """The mesh with attributes and material of its parts.  corners: (F, 3) numbers of their vertices."""
        if any(part.uvs is not None for part in parts):
            if any(part.uvs is None for part in parts):
                self.document.warn("has parts without UVs, which take the first texel's colour")
            values = [np.zeros((len(part.positions), 2)) if part.uvs is None else part.uvs for part in parts]
            mesh.uvs, mesh.uv_faces = weld(np.concatenate(values), corners)
            if any(part.second_uvs is not None for part in parts):
                rows = [
                    np.zeros((len(p.positions), 2)) if p.second_uvs is None else p.second_uvs for p in parts
                ]
                mesh.second_uvs, mesh.second_uv_faces = weld(np.concatenate(rows), corners)
        if all(part.normals is not None for part in parts):
            values = np.concatenate([np.asarray(part.normals) for part in parts])
            values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30)
            mesh.normals, mesh.normal_faces = weld(values, corners)
        chosen = self.materials.chosen([part.material for part in parts])
        if chosen is not None:
            key = chosen, mesh.uvs is None, mesh.second_uvs is None
            if key not in self._read:
                self._read[key] = self.materials.read(chosen, mesh.uvs, mesh.second_uvs)
            mesh.texture, mesh.material = self._read[key]
        # Without the normal map that they were made for, exporters write tangents that fit nothing.
        bumpy = mesh.material is not None and mesh.material.is_bumpy
        if bumpy and all(part.tangents is not None for part in parts):
            tangents = np.concatenate([np.asarray(part.tangents) for part in parts])
            length = np.linalg.norm(tangents[:, :3], axis=1, keepdims=True)
            if ((length > 1e-6) & (length < np.inf)).all() and (np.abs(tangents[:, 3]) == 1).all():
                tangents = np.concatenate([tangents[:, :3] / length, tangents[:, 3:]], axis=1)
                mesh.file_tangents, mesh.file_tangent_faces = weld(tangents, corners)
            else:
                self.document.warn(
                    "has a TANGENT that is no direction with the sign 1 or -1; tangents are computed instead"
                )
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
            mesh.colors, mesh.color_faces = weld(np.concatenate(rows), corners)
        return mesh


def _triangles(index: np.ndarray, mode: int) -> np.ndarray:
    if mode == 4:
        return index[: len(index) // 3 * 3].reshape(-1, 3)
    if mode == 6:
        return np.stack([np.repeat(index[:1], max(len(index) - 2, 0)), index[1:-1], index[2:]], axis=1)
    strip = np.stack([index[:-2], index[1:-1], index[2:]], axis=1)
    strip[1::2] = strip[1::2, [0, 2, 1]]
    return strip


# The lines of the meshes of a glTF file as strands, and their points.

MODES = (0, 1, 2, 3)
"""Of primitives that are points, pairs, a closed line, an open line."""


def lines_of(document: Document, index: int, name: str) -> Iterator[StrandGeometry | PointGeometry]:
    """The lines and points of a mesh, one pixel wide, with the colour of their material. Raises
    InputError."""
    for entry in document.item("meshes", index)["primitives"]:
        attributes = entry.get("attributes", {})
        if entry.get("mode", 4) not in MODES or "POSITION" not in attributes:
            continue
        if "COLOR_0" in attributes and entry["mode"]:
            document.warn("has lines with colours of vertices, which were left out")
        vertices = document.count(attributes["POSITION"])
        numbers = document.accessor(entry["indices"])[:, 0].astype(np.int64) if "indices" in entry else None
        check_counts(vertices, vertices if numbers is None else len(numbers))
        positions = document.accessor(attributes["POSITION"])
        if positions.shape[1:] != (3,):
            raise Damaged("positions of lines are three numbers each")
        if entry["mode"] == 0:
            rows = np.arange(vertices) if numbers is None else numbers
            if len(rows) and (rows.min() < 0 or rows.max() >= len(positions)):
                raise Damaged(f"index {rows.max()} is out of range for {vertices} points")
            if len(rows) > 1:
                yield _points(document, entry, positions, rows, name)
            else:
                document.warn(f"has {len(rows)} points in '{name}', which are no cloud and were left out")
            continue
        lines = line_strands(positions, numbers, entry["mode"], name)
        yield StrandGeometry(
            lines.points, lines.offsets, lines.radius, _colour(document, entry), unit="pixels", name=name
        )


def _points(
    document: Document, entry: dict[str, Any], positions: np.ndarray, rows: np.ndarray, name: str
) -> PointGeometry:
    colours: Any = _colour(document, entry)
    if "COLOR_0" in entry["attributes"]:
        own = document.accessor(entry["attributes"]["COLOR_0"]).astype(np.float64)
        if own.shape[0] != len(positions) or own.shape[1] not in (3, 4):
            raise Damaged(f"{own.shape} colours for {len(positions)} points")
        colours = own[rows, :3] * colours
    return PointGeometry(positions[rows], radius=1.0, colours=colours, unit="pixels", name=name)


def _colour(document: Document, entry: dict[str, Any]) -> tuple[float, ...]:
    """Linear, of the material."""
    if "material" not in entry:
        return (1.0, 1.0, 1.0)
    surface = document.item("materials", entry["material"]).get("pbrMetallicRoughness", {})
    factor = np.asarray(surface.get("baseColorFactor", (1.0,) * 4), np.float64)
    if factor.shape != (4,) or not ((factor >= 0) & (factor <= 1)).all():
        raise Damaged("a colour of lines is not four numbers from 0 to 1")
    return tuple(factor[:3].tolist())
