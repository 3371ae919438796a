"""glTF 2.0 out, of a scene."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi.ad.graph import Variable
from dressi.errors import InputError
from dressi.render.formats.glb import rigs
from dressi.render.formats.glb.document import Written
from dressi.render.io.files import write_files
from dressi.render.mesh import Material, Mesh
from dressi.render.scene.geometry import Geometry, TriangleGeometry
from dressi.render.scene.morph import MorphGeometry
from dressi.render.scene.scene import Node, Scene
from dressi.render.scene.skin import SkinnedGeometry
from dressi.render.strands.geometry import PointGeometry, StrandGeometry


def save_glb_scene(path: Path, scene: Scene) -> None:
    """A scene as a .glb; see ``save_scene``."""
    document = _Saver()
    for node in scene:
        document.node(node)
    for name, view in scene.cameras.items():
        rigs.camera(document.written, name, view)
    for number, source in enumerate(scene.lights):
        rigs.light(document.written, number, source)
    write_files({path: document.written.glb()})


class _Saver:
    def __init__(self) -> None:
        self.written = Written()
        self._meshes: dict[tuple[int, int], int] = {}
        self._skins: dict[tuple[Any, ...], int] = {}

    def node(self, node: Node) -> None:
        """A node with its mesh; nodes of one geometry and material share it."""
        matrix, name = node.to_world, node.name
        if isinstance(matrix, Variable) or (matrix is not None and matrix.ndim != 2):
            raise InputError(
                f"node '{name}': to_world is a Variable or several matrices, and a file holds one; give an array (4, 4), such as"
                " that of ad.recv"
            )
        if isinstance(node.geometry, (StrandGeometry, PointGeometry)):
            raise InputError(
                f"node '{name}' is of strands or points, which are not written as glTF; leave it out, and save strands with"
                " save_strands"
            )
        shape, skinned = node.geometry, isinstance(node.geometry, SkinnedGeometry)
        baked = matrix is not None and not skinned and not rigs.is_rigid_with_scale(matrix)
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
                self._skins[key] = rigs.skin(self.written, name, shape, matrix)
            entry["skin"] = self._skins[key]
        elif matrix is not None and not baked:
            entry |= rigs.matrix_entry(matrix)
        self.written.add("nodes", entry)

    def _mesh(self, node: Node, shape: Geometry) -> int:
        skin = shape if isinstance(shape, SkinnedGeometry) else None
        bound = shape if skin is None else skin.bound
        morph = bound if isinstance(bound, MorphGeometry) else None
        mesh = _dressed(node, _host_mesh(node.name, bound))
        primitive, split = self.written.primitive(mesh)
        entry: dict[str, Any] = {"name": mesh.name, "primitives": [primitive]}
        if morph is not None:
            if isinstance(morph.weights, Variable) or morph.weights.ndim != 1:
                raise InputError(
                    f"node '{node.name}': a file holds one list of weights; give weighted(array)"
                )
            primitive["targets"] = rigs.targets(self.written, morph, split, mesh)
            entry["weights"] = morph.weights.tolist()
            if morph.names:
                entry["extras"] = {"targetNames": list(morph.names)}
        if skin is not None:
            primitive["attributes"] |= rigs.joint_attributes(self.written, skin, split)
        return self.written.add("meshes", entry)


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
        numbered = lists.get("uv_faces")
        mesh = replace(
            mesh,
            uvs=lists["uvs"],
            uv_faces=faces if numbered is None else numbered,
            texture=lists.get("texture"),
        )
    if lists.get("colours") is not None:
        numbered = lists.get("colour_faces")
        mesh = replace(mesh, colors=lists["colours"], color_faces=faces if numbered is None else numbered)
    return mesh.validate()


def _variable(name: str, what: str) -> InputError:
    return InputError(
        f"node '{name}': {what} are Variables, which have no values of their own; give arrays, such as those of ad.recv"
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
            if field not in known or (
                image and field not in (*material.maps(), f"{name}_map", "normal", "occlusion")
            ):
                raise InputError(
                    f"node '{node.name}': {name} of its material cannot be written; give the node a Material"
                )
            changes[field] = np.asarray(value) if np.ndim(value) else value
    return replace(mesh, material=replace(material, **changes).validate()) if changes else mesh


def _sheared(name: str, shape: Geometry, matrix: np.ndarray) -> Geometry:
    """A shape in the world, where its node has shear. Raises InputError."""
    if isinstance(shape, MorphGeometry):
        raise InputError(
            f"node '{name}': to_world has shear, and nodes of glTF hold a rotation, a scale along its axes and a shift"
        )
    mesh = _host_mesh(name, shape)
    found = mesh.moved(mesh.positions @ matrix[:3, :3].T + matrix[:3, 3])
    if np.linalg.det(matrix[:3, :3]) < 0:
        turned = {what: getattr(found, what) for what in ("faces", "uv_faces", "color_faces")}
        found = replace(
            found, **{what: faces[:, ::-1] for what, faces in turned.items() if faces is not None}
        )
    return TriangleGeometry(found)
