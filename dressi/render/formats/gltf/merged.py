"""Parts of a glTF file as one mesh with one material."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np

from dressi.render.formats.gltf.document import Document
from dressi.render.formats.gltf.primitives import Part, Primitives
from dressi.render.mesh import AtlasError, Material, Mesh, joined, weld, weld_values


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
