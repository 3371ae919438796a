"""glTF 2.0 in: triangle geometry, UVs, tangents and vertex colours of all nodes, with one material."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.formats.gltf.document import Document, reading
from dressi.render.formats.gltf.nodes import Nodes
from dressi.render.formats.gltf.primitives import Part, Primitives
from dressi.render.io.files import check_counts
from dressi.render.mesh import Material, Mesh, weld, weld_values


def load_gltf(path: str | os.PathLike) -> Mesh:
    """Read a .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, transforms applied.

    Texture and `Material` are those of the first material with a base colour texture (else with any, else the first); maps and
    factors of others that differ are reported by a warning and left out. Base colour factors that differ between materials
    are multiplied into the vertex colours (``COLOR_0``, linear light, alpha left out). A file without materials gives
    ``material=None``; a material without metallicFactor and roughnessFactor has the standard's 1. Maps with a texture
    transform other than the base colour's are resampled; maps with other UVs than its are left out with a warning.
    TANGENT is kept where there is a map of normals. Raises InputError naming the file, also when it refers to anything outside its folder.

    >>> import os, tempfile
    >>> from dressi.render.formats.glb.mesh import save_glb
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> load_gltf(path).faces.shape
    (12, 3)
    """
    path = Path(path)
    with reading(path):
        return Merged(Document(path)).mesh()


class Merged:
    """What the nodes of a document place in the world, as one mesh."""

    def __init__(self, document: Document):
        self.document, self.path = document, document.path
        self.primitives = Primitives(document)
        self.materials = self.primitives.materials
        self._read: dict[tuple[int, bool, bool], tuple[np.ndarray | None, Material]] = {}

    def mesh(self) -> Mesh:
        meshes: dict[int, list[Part]] = {}
        parts: list[Part] = []
        vertices = faces = 0
        placed = [
            (one.entry["mesh"], one.matrix) for one in Nodes(self.document).placed() if "mesh" in one.entry
        ]
        self.primitives.check_sizes([index for index, _ in placed])
        for index, matrix in placed:
            if index not in meshes:
                meshes[index] = list(self.primitives.parts(index))
            for part in meshes[index]:
                vertices, faces = vertices + len(part.positions), faces + len(part.faces)
                check_counts(self.path, vertices, faces)
                parts.append(part if matrix is None else part.placed(matrix))
        if not parts:
            raise InputError(f"'{self.path}' has no triangles; export a mesh with faces")
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
