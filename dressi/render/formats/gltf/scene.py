"""glTF 2.0 in: as a scene, and as one mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ....errors import InputError, shown
from ...cameras import Camera
from ...io.files import Damaged
from ...mesh import Mesh
from ...scene.geometry import Geometry
from ...scene.scene import Node, Scene
from ...shading.lights import DirectionalLight, LightSource, PointLight, SpotLight
from ...strands.point import unlit
from .document import Document, Placed
from .primitives import lines_of
from .rigs import Rigs


def load_gltf_scene(path: Path) -> Scene:
    """The scene of a .glb or .gltf; see ``load_scene``."""
    document = Document(path)
    placed = list(document.placed())
    rigs = Rigs(document, placed)
    shapes: dict[tuple, Geometry] = {}
    nodes: list[Node] = []
    for node, parts in rigs.primitives.drawn(placed, lines=False):
        number, own = node.entry["mesh"], _name(document, node)
        for k, part in enumerate(parts):
            name = own
            if len(parts) > 1:
                name += (
                    f" {k}" if part.material is None else f" {rigs.primitives.materials.name(part.material)}"
                )
            # Nodes with other weights, or with a skin, have a shape of their own.
            key = (number, k, node.entry.get("skin"), node.index if "weights" in node.entry else None)
            if key not in shapes:
                shapes[key] = rigs.geometry(part, name, node)
            nodes.append(Node(shapes[key], to_world=rigs.matrix(node), name=name))
        nodes += [Node(s, unlit, node.matrix, own) for s in lines_of(document, number, own)]
    if not nodes:
        raise InputError("it has no triangles and no lines; export a mesh with faces")
    cameras: dict[str, Camera] = {}
    lights: list[LightSource] = []
    for node in placed:
        if "camera" in node.entry:
            own = _name(document, node)
            names = [own, *(f"{own} {k}" for k in range(2, len(cameras) + 3))]
            name = next(name for name in names if name not in cameras)
            camera = _camera(document, node, name)
            if camera is not None:
                cameras[name] = camera
        light = _light(document, node)
        if light is not None:
            lights.append(light)
    return Scene(nodes, cameras, lights)


def _name(document: Document, node: Placed) -> str:
    """That of the node, else of its mesh or camera, else its number."""
    entries = [node.entry]
    if "mesh" in node.entry:
        entries.append(document.item("meshes", node.entry["mesh"]))
    elif "camera" in node.entry:
        entries.append(document.item("cameras", node.entry["camera"]))
    for entry in entries:
        name = entry.get("name")
        if isinstance(name, str) and name:
            return shown(name)
    return f"node {node.index}" if node.index >= 0 else document.path.stem


def load_gltf(path: Path) -> Mesh:
    """Read a .glb or .gltf as one welded Mesh, not cleaned yet: all nodes of the scene, with their
    transforms, the weights of their morph targets and their skins applied, as ``load_scene`` shows them. As
    glTF says, a mesh with a skin lies where its joints are, whatever its own node says.

    Maps and factors of materials that differ lie in one atlas (``joined``). Where that is above
    `config.max_megapixels`, or maps have placements of their own, texture and `Material` are those of the
    first material with a base colour texture (else with any, else the first), and a warning names what is
    left out. Base colour factors that differ between materials are multiplied into the vertex colours
    (``COLOR_0``, linear light, alpha left out). A file without materials gives ``material=None``; a material
    without metallicFactor and roughnessFactor has the standard's 1. Maps with a texture transform other than
    the base colour's are resampled; maps with other UVs than its are left out with a warning. TANGENT is kept
    where there is a map of normals. Raises InputError, also when the file refers to anything outside its
    folder.
    """
    document = Document(path)
    placed = list(document.placed())
    rigs = Rigs(document, placed)
    parts = []
    for node, own in rigs.primitives.drawn(placed, lines=True):
        matrix = rigs.matrix(node)
        for part in own:
            posed = rigs.posed(part, node)
            parts.append(posed if matrix is None else posed.placed(matrix))
    if not parts:
        raise InputError("it has no triangles; export a mesh with faces")
    return rigs.primitives.mesh(parts)


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


def _camera(document: Document, node: Placed, name: str) -> Camera | None:
    """The camera of a node; None with a warning for a parallel projection."""
    entry = document.item("cameras", node.entry["camera"])
    if entry.get("type") != "perspective":
        document.warn(
            f"has a camera '{name}' that is {shown(entry.get('type'))}, which is not read here and was left"
            " out"
        )
        return None
    lens = entry.get("perspective", {})
    fov, near = document.number(lens, "yfov", 1.0), document.number(lens, "znear", 0.01)
    aspect, far = document.number(lens, "aspectRatio", 1.0), document.number(lens, "zfar", near * FARTHEST)
    if not (0 < fov < np.pi and 0 < near < far and 1e-3 < aspect < 1e3):
        raise Damaged(
            f"camera '{name}' has yfov {fov:.4g}, aspectRatio {aspect:.4g}, znear {near:.4g} and zfar"
            f" {far:.4g}, which is no view"
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


def _light(document: Document, node: Placed) -> LightSource | None:
    """The light of a node, if it has one."""
    extension = node.entry.get("extensions", {}).get(LIGHTS)
    if extension is None:
        return None
    lights = document.json.get("extensions", {}).get(LIGHTS, {}).get("lights", [])
    number = document.whole(extension, "light")
    if number >= len(lights):
        raise Damaged(f"{document.node_name(node.index)} refers to light {number} of {len(lights)}")
    entry = lights[number]
    colour = document.numbers(entry, "color", (1.0, 1.0, 1.0)) * document.number(entry, "intensity", 1.0)
    if colour.min() < 0:
        raise Damaged(f"light {number} is darker than black")
    if "range" in entry:
        document.warn(
            f"has a range of light {number}, which is not read here; its light falls off without an end"
        )
    (_, _, back), place = _axes(node)
    shine, centre, colour = tuple((-back).tolist()), tuple(place.tolist()), tuple(colour.tolist())
    kind = entry.get("type")
    if kind == "directional":
        return DirectionalLight(tuple(back.tolist()), colour)
    if kind == "point":
        return PointLight(centre, colour)
    if kind != "spot":
        raise Damaged(f"light {number} is {shown(kind)}, which glTF lacks")
    cone = entry.get("spot", {})
    inner = document.number(cone, "innerConeAngle", 0.0)
    outer = document.number(cone, "outerConeAngle", np.pi / 4)
    if not 0 <= inner < outer <= np.pi / 2:
        raise Damaged(f"light {number} has a cone from {inner:.4g} to {outer:.4g}, which is none")
    return SpotLight(centre, shine, colour, inner, outer)
