"""The triangles of the meshes of a glTF file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....errors import InputError
from ...io.files import check_counts
from ...io.strands import line_strands
from ...mesh import AtlasError, Material, Mesh, joined, weld, weld_values
from ...strands.geometry import StrandGeometry
from .document import Document
from .material import Materials

LARGEST_SCENE = 65_536
"""Primitives that the nodes of a scene place."""


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


class Primitives:
    """The primitives of a document; methods raise InputError naming the file."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path
        self.materials = Materials(document)

    def check_sizes(self, placed: Sequence[int]) -> None:
        """Raise InputError for too many primitives or faces of placed meshes, from the counts alone: before an accessor is
        decoded."""
        count = sum(len(self.document.item("meshes", index)["primitives"]) for index in placed)
        if count > LARGEST_SCENE:
            raise InputError(
                f"'{self.path}' places {count:,} primitives, above the limit of {LARGEST_SCENE:,}; join meshes before the export"
            )
        faces = 0
        for index in placed:
            for entry, attributes in self.drawn(index):
                vertices = self.document.count(attributes["POSITION"])
                corners = self.document.count(entry["indices"]) if "indices" in entry else vertices
                faces += corners // 3 if entry.get("mode", 4) == 4 else max(corners - 2, 0)
            check_counts(self.path, 0, faces)

    def name_losses(self, meshes: Collection[int], *, lines: bool) -> None:
        """Warn of what meshes have and is not read.  lines: whether lines are not."""
        entries = [entry for index in meshes for entry in self.document.item("meshes", index)["primitives"]]
        modes = Counter(entry.get("mode", 4) for entry in entries)
        counts = {"points": modes[0], "lines": (modes[1] + modes[2] + modes[3]) * lines}
        lost = [f"{count} primitives of {kind}" for kind, count in counts.items() if count]
        if any("COLOR_1" in entry.get("attributes", {}) for entry in entries):
            lost.append("second vertex colours (COLOR_1)")
        if lost:
            warnings.warn(
                f"'{self.path}' has {', '.join(lost)}, which are not read here and were left out",
                stacklevel=5,
            )

    def drawn(self, index: int) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """The primitives of a mesh that have triangles, with their attributes."""
        for entry in self.document.item("meshes", index)["primitives"]:
            attributes = entry.get("attributes", {})
            if entry.get("mode", 4) in (4, 5, 6) and "POSITION" in attributes:
                yield entry, attributes

    def parts(self, index: int) -> Iterator[Part]:
        """The parts of a mesh that have triangles."""
        return (self.part(*drawn) for drawn in self.drawn(index))

    def part(self, entry: dict[str, Any], attributes: dict[str, int]) -> Part:
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
        second = f"TEXCOORD_{self.materials.second(material)}"
        wanted = {second: 2, "POSITION": 3, "NORMAL": 3, "TANGENT": 4, uv_set: 2, "COLOR_0": 0}
        found = {
            name: self.attribute(name, attributes[name], vertices, width, used)
            for name, width in wanted.items()
            if name in attributes
        }
        uvs = found.get(uv_set)
        return Part(
            entry=entry,
            used=used,
            positions=found["POSITION"],
            faces=corners.reshape(-1, 3),
            uvs=None if uvs is None else frame.apply(uvs),
            second_uvs=found.get(second),
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


# The lines of the meshes of a glTF file, as strands.

MODES = (1, 2, 3)
"""Of primitives that are lines: pairs, a closed line, an open line."""


def lines_of(document: Document, index: int, name: str) -> Iterator[StrandGeometry]:
    """The primitives of a mesh that are lines, one pixel wide, with the colour of their material. Raises InputError naming the
    file."""
    for entry in document.item("meshes", index)["primitives"]:
        attributes = entry.get("attributes", {})
        if entry.get("mode", 4) not in MODES or "POSITION" not in attributes:
            continue
        if "COLOR_0" in attributes:
            warnings.warn(f"'{document.path}': colours of the vertices of lines were left out", stacklevel=5)
        vertices = document.count(attributes["POSITION"])
        numbers = document.accessor(entry["indices"])[:, 0].astype(np.int64) if "indices" in entry else None
        check_counts(document.path, vertices, vertices if numbers is None else len(numbers))
        positions = document.accessor(attributes["POSITION"])
        if positions.shape[1:] != (3,):
            raise InputError(f"'{document.path}': positions of lines are three numbers each; export it again")
        try:
            found = line_strands(positions, numbers, entry["mode"], name)
        except InputError as error:
            raise InputError(f"'{document.path}': {error}") from None
        yield StrandGeometry(
            found.points, found.offsets, found.radius, _colour(document, entry), unit="pixels", name=name
        )


def _colour(document: Document, entry: dict[str, Any]) -> tuple[float, ...]:
    """Linear, of the material."""
    if "material" not in entry:
        return (1.0, 1.0, 1.0)
    found = document.item("materials", entry["material"]).get("pbrMetallicRoughness", {})
    factor = np.asarray(found.get("baseColorFactor", (1.0,) * 4), np.float64)
    if factor.shape != (4,) or not ((factor >= 0) & (factor <= 1)).all():
        raise InputError(
            f"'{document.path}': a colour of lines is not four numbers from 0 to 1; export it again"
        )
    return tuple(factor[:3].tolist())


# Parts of a glTF file as one mesh with one material.


class Merged:
    """Parts of a document as one mesh; methods raise InputError naming the file."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path
        self.primitives = Primitives(document)
        self.materials = self.primitives.materials
        self._read: dict[tuple[int, bool, bool], tuple[np.ndarray | None, Material]] = {}

    def mesh(self, parts: list[Part]) -> Mesh:
        """The parts as one mesh that looks like them: maps and factors of several materials lie in one atlas. Where an atlas cannot
        hold them, the materials of the mesh are those of ``Materials.chosen``, which says so."""
        groups: dict[int | None, list[Part]] = {}
        for part in parts:
            groups.setdefault(part.material, []).append(part)
        if len(groups) > 1 and self.materials.differ(list(groups)):
            meshes = [self.merged(own) for own in groups.values()]
            if not any(m.second_uvs is not None or (m.material and m.material.placements) for m in meshes):
                with suppress(AtlasError):
                    return joined(meshes, str(self.path))
        return self.merged(parts)

    def merged(self, parts: list[Part]) -> Mesh:
        """The parts as one mesh, whose vertices are welded where their positions are equal."""
        starts = np.cumsum([0] + [len(part.positions) for part in parts])
        corners = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)])
        mesh = Mesh(*weld(np.concatenate([part.positions for part in parts]), corners), name=str(self.path))
        return self.dressed(mesh, parts, corners)

    def dressed(self, mesh: Mesh, parts: list[Part], corners: np.ndarray) -> Mesh:
        """The mesh with the attributes and the material of its parts.  corners: (F, 3) numbers of their vertices."""
        if any(part.uvs is not None for part in parts):
            if any(part.uvs is None for part in parts):
                warnings.warn(f"'{self.path}': parts without UVs take the first texel's colour", stacklevel=5)
            values = [np.zeros((len(part.positions), 2)) if part.uvs is None else part.uvs for part in parts]
            mesh.uvs, mesh.uv_faces = weld_values(np.concatenate(values), corners)
            if any(part.second_uvs is not None for part in parts):
                rows = [
                    np.zeros((len(p.positions), 2)) if p.second_uvs is None else p.second_uvs for p in parts
                ]
                mesh.second_uvs, mesh.second_uv_faces = weld_values(np.concatenate(rows), corners)
        if all(part.normals is not None for part in parts):
            values = np.concatenate([np.asarray(part.normals) for part in parts])
            values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30)
            mesh.normals, mesh.normal_faces = weld_values(values, corners)
        chosen = self.materials.chosen([part.material for part in parts])
        if chosen is not None:
            key = chosen, mesh.uvs is None, mesh.second_uvs is None
            if key not in self._read:
                self._read[key] = self.materials.read(chosen, mesh.uvs, mesh.second_uvs)
            mesh.texture, mesh.material = self._read[key]
        # Without the normal map that they were made for, exporters write tangents that fit nothing.
        if (
            mesh.material is not None
            and mesh.material.is_bumpy
            and all(part.tangents is not None for part in parts)
        ):
            self._add_tangents(mesh, np.concatenate([np.asarray(part.tangents) for part in parts]), corners)
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

    def _add_tangents(self, mesh: Mesh, values: np.ndarray, corners: np.ndarray) -> None:
        length = np.linalg.norm(values[:, :3], axis=1, keepdims=True)
        if not ((length > 1e-6) & (length < np.inf)).all() or not (np.abs(values[:, 3]) == 1).all():
            warnings.warn(
                f"'{self.path}' has a TANGENT that is no direction with the sign 1 or -1; tangents are computed instead",
                stacklevel=6,
            )
            return
        values = np.concatenate([values[:, :3] / length, values[:, 3:]], axis=1)
        mesh.file_tangents, mesh.file_tangent_faces = weld_values(values, corners)
