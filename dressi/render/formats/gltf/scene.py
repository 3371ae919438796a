"""glTF 2.0 in, as a scene."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from ....errors import InputError, shown
from ...cameras import Camera
from ...io.files import check_counts
from ...mesh import Mesh
from ...scene.geometry import Geometry
from ...scene.scene import Node, Scene
from ...shading.lights import DirectionalLight, LightSource, PointLight, SpotLight
from ...strands.point import unlit
from .document import Document, Nodes, Placed, reading
from .primitives import Part, lines_of
from .rigs import Rigs


def load_gltf_scene(path: Path) -> Scene:
    """The scene of a .glb or .gltf; see ``load_scene``."""
    with reading(path):
        return _scene(Document(path))


def _scene(document: Document) -> Scene:
    placed = list(Nodes(document).placed())
    drawn = [node for node in placed if "mesh" in node.entry]
    rigs, stage = Rigs(document, {node.index: node for node in placed}), Stage(document)
    primitives = rigs.merged.primitives
    primitives.check_sizes([node.entry["mesh"] for node in drawn])
    primitives.name_losses({node.entry["mesh"] for node in drawn}, lines=False)
    meshes: dict[int, list[Part]] = {}
    shapes: dict[tuple, Geometry] = {}
    nodes: list[Node] = []
    vertices = faces = 0
    for node in drawn:
        number = node.entry["mesh"]
        if number not in meshes:
            meshes[number] = list(primitives.parts(number))
        parts = meshes[number]
        for k, part in enumerate(parts):
            vertices, faces = vertices + len(part.positions), faces + len(part.faces)
            check_counts(document.path, vertices, faces)
            name = _name(document, node)
            if len(parts) > 1:
                material = "" if part.material is None else f" {primitives.materials.name(part.material)}"
                name = f"{name}{material or f' {k}'}"
            # Nodes with other weights, or with a skin, have a shape of their own.
            key = (number, k, node.entry.get("skin"), node.index if "weights" in node.entry else None)
            if key not in shapes:
                shapes[key] = rigs.geometry(part, name, node)
            nodes.append(Node(shapes[key], to_world=rigs.matrix(node), name=name))
        name = _name(document, node)
        nodes += [Node(s, unlit, node.matrix, name) for s in lines_of(document, number, name)]
    if not nodes:
        raise InputError(f"'{document.path}' has no triangles and no lines; export a mesh with faces")
    cameras: dict[str, Camera] = {}
    lights: list[LightSource] = []
    for node in placed:
        if "camera" in node.entry:
            name = _unused(_name(document, node), cameras)
            camera = stage.camera(node, name)
            if camera is not None:
                cameras[name] = camera
        light = stage.light(node)
        if light is not None:
            lights.append(light)
    return Scene(nodes, cameras, lights)


def _name(document: Document, node: Placed) -> str:
    kinds = [kind for kind in ("mesh", "camera") if kind in node.entry]
    entries = [
        node.entry,
        *(
            document.item({"mesh": "meshes", "camera": "cameras"}[kind], node.entry[kind])
            for kind in kinds[:1]
        ),
    ]
    for entry in entries:
        name = entry.get("name")
        if isinstance(name, str) and name:
            return shown(name)
    return f"node {node.index}" if node.index >= 0 else document.path.stem


def _unused(name: str, taken: dict[str, Camera]) -> str:
    names = [name, *(f"{name} {k}" for k in range(2, len(taken) + 3))]
    return next(one for one in names if one not in taken)


# glTF 2.0 in: triangle geometry, UVs, tangents and vertex colours of all nodes, with one material.


def load_gltf(path: str | os.PathLike) -> Mesh:
    """Read a .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, with their transforms, the weights of
    their morph targets and their skins applied, as ``load_scene`` shows them. As glTF says, a mesh with a skin lies where its
    joints are, whatever its own node says.

    Maps and factors of materials that differ lie in one atlas (``joined``). Where that is above `config.max_megapixels`, or maps have
    placements of their own, texture and `Material` are those of the first material with a base colour texture (else with any,
    else the first), and a warning names what is left out. Base colour factors that differ between materials
    are multiplied into the vertex colours (``COLOR_0``, linear light, alpha left out). A file without materials gives
    ``material=None``; a material without metallicFactor and roughnessFactor has the standard's 1. Maps with a texture
    transform other than the base colour's are resampled; maps with other UVs than its are left out with a warning.
    TANGENT is kept where there is a map of normals. Raises InputError naming the file, also when it refers to anything outside its folder.

    >>> import os, tempfile
    >>> from dressi.render.formats.glb import save_glb
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_glb(path, cube())
    >>> load_gltf(path).faces.shape
    (12, 3)
    """
    path = Path(path)
    with reading(path):
        return _mesh(Document(path))


def _mesh(document: Document) -> Mesh:
    placed = list(Nodes(document).placed())
    drawn = [node for node in placed if "mesh" in node.entry]
    rigs = Rigs(document, {node.index: node for node in placed})
    primitives = rigs.merged.primitives
    primitives.check_sizes([node.entry["mesh"] for node in drawn])
    primitives.name_losses({node.entry["mesh"] for node in drawn}, lines=True)
    meshes: dict[int, list[Part]] = {}
    parts: list[Part] = []
    vertices = faces = 0
    for node in drawn:
        number = node.entry["mesh"]
        if number not in meshes:
            meshes[number] = list(primitives.parts(number))
        for part in meshes[number]:
            vertices, faces = vertices + len(part.positions), faces + len(part.faces)
            check_counts(document.path, vertices, faces)
            posed, matrix = rigs.posed(part, node), rigs.matrix(node)
            parts.append(posed if matrix is None else posed.placed(matrix))
    if not parts:
        raise InputError(f"'{document.path}' has no triangles; export a mesh with faces")
    return rigs.merged.mesh(parts)


# Cameras and punctual lights of a glTF file.

LIGHTS = "KHR_lights_punctual"
HEIGHT = 512
"""Rows of the pictures of cameras, of which files know the shape alone."""
FARTHEST = 1e5
"""Times the near plane: the far plane of cameras without one."""


def _axes(node: Placed) -> tuple[np.ndarray, np.ndarray]:
    """Unit right, up and back (rows), and the place."""
    matrix = np.eye(4) if node.matrix is None else node.matrix
    u, _, v = np.linalg.svd(matrix[:3, :3])
    turn = u @ v
    return (turn if np.linalg.det(turn) > 0 else -turn).T, matrix[:3, 3]


class Stage:
    """Where pictures are taken from, and what shines."""

    def __init__(self, document: Document):
        self.document, self.path, self.nodes = document, document.path, Nodes(document)

    def camera(self, node: Placed, name: str) -> Camera | None:
        """The camera of a node; None with a warning for a parallel projection."""
        entry = self.document.item("cameras", node.entry["camera"])
        if entry.get("type") != "perspective":
            warnings.warn(
                f"'{self.path}': camera '{name}' is {shown(entry.get('type'))}, which is not read here and was left out",
                stacklevel=6,
            )
            return None
        lens = entry.get("perspective", {})
        fov, near = self.document.number(lens, "yfov", 1.0), self.document.number(lens, "znear", 0.01)
        aspect = self.document.number(lens, "aspectRatio", 1.0)
        far = self.document.number(lens, "zfar", near * FARTHEST)
        if not (0 < fov < np.pi and 0 < near < far and 1e-3 < aspect < 1e3):
            raise InputError(
                f"'{self.path}': camera '{name}' has yfov {fov:.4g}, aspectRatio {aspect:.4g}, znear {near:.4g} and zfar"
                f" {far:.4g}, which is no view; export it again"
            )
        (_, up, back), place = _axes(node)
        size = (max(round(HEIGHT * aspect), 1), HEIGHT)
        camera = Camera.perspective(
            np.degrees(fov), size, place, place - back, up=up, near=near, far=far, name=name
        )
        # The view has the shape of the file, not that of whole pixels.
        exact = np.diag([size[0] / (HEIGHT * aspect), 1.0, 1.0])
        exact[0, 2] = camera.intrinsics[0, 2] * (1 - exact[0, 0])
        return replace(camera, intrinsics=exact @ camera.intrinsics)

    def light(self, node: Placed) -> LightSource | None:
        """The light of a node, if it has one."""
        extension = node.entry.get("extensions", {}).get(LIGHTS)
        if extension is None:
            return None
        lights = self.document.json.get("extensions", {}).get(LIGHTS, {}).get("lights", [])
        number = self.document.whole(extension, "light")
        if number >= len(lights):
            raise InputError(
                f"'{self.path}': {self.nodes.name(node.index)} refers to light {number} of {len(lights)}; export it again"
            )
        entry = lights[number]
        colour = self.document.numbers(entry, "color", (1.0, 1.0, 1.0))
        colour = colour * self.document.number(entry, "intensity", 1.0)
        if colour.min() < 0:
            raise InputError(f"'{self.path}': light {number} is darker than black; export it again")
        if "range" in entry:
            warnings.warn(
                f"'{self.path}': light {number} has a range, which is not read here; its light falls off without an end",
                stacklevel=6,
            )
        (_, _, back), place = _axes(node)
        if entry.get("type") == "directional":
            return DirectionalLight(tuple(back.tolist()), tuple(colour.tolist()))
        if entry.get("type") == "spot":
            cone = entry.get("spot", {})
            inner = self.document.number(cone, "innerConeAngle", 0.0)
            outer = self.document.number(cone, "outerConeAngle", np.pi / 4)
            if not 0 <= inner < outer <= np.pi / 2:
                raise InputError(
                    f"'{self.path}': light {number} has a cone from {inner:.4g} to {outer:.4g}, which is none; export it again"
                )
            return SpotLight(
                tuple(place.tolist()), tuple((-back).tolist()), tuple(colour.tolist()), inner, outer
            )
        if entry.get("type") != "point":
            raise InputError(
                f"'{self.path}': light {number} is {shown(entry.get('type'))}, which glTF lacks; export it again"
            )
        return PointLight(tuple(place.tolist()), tuple(colour.tolist()))
