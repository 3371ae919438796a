"""glTF 2.0 in, as a scene."""

from __future__ import annotations

from pathlib import Path

from dressi.errors import InputError
from dressi.render.cameras import Camera
from dressi.render.formats.gltf.document import Document, reading
from dressi.render.formats.gltf.lines import lines_of
from dressi.render.formats.gltf.nodes import Nodes, Placed
from dressi.render.formats.gltf.primitives import Part
from dressi.render.formats.gltf.rigs import Rigs
from dressi.render.formats.gltf.stage import Stage
from dressi.render.io.files import check_counts, shown
from dressi.render.scene.geometry import Geometry
from dressi.render.scene.scene import Node, Scene
from dressi.render.shading.lights import LightSource
from dressi.render.strands.point import unlit


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
