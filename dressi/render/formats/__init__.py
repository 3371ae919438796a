"""Meshes and scenes in and out of files; each module reads or writes one format, or a part of one.

| what | in | out |
|---|---|---|
| meshes | `load_mesh`: .glb, .gltf, .obj, .ply, .off, .stl | `save_mesh`: .glb, .obj, .ply, .stl |
| scenes | `load_scene`: as meshes; .glb, .gltf with nodes, materials, rigs, cameras, lights | `save_scene`: .glb |

Files are not trusted (``dressi.render.io``); meshes have up to `config.max_faces` faces.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dressi.errors import InputError
from dressi.render.formats.glb import save_glb, save_glb_scene
from dressi.render.formats.gltf.scene import load_gltf, load_gltf_scene
from dressi.render.formats.obj import load_obj, load_obj_parts, save_obj
from dressi.render.formats.off import load_off
from dressi.render.formats.ply import load_ply, save_ply
from dressi.render.formats.stl import load_stl, save_stl
from dressi.render.io.files import read_bytes, usable
from dressi.render.mesh import Mesh
from dressi.render.scene.scene import Node, Scene

__all__ = [
    "load_mesh", "load_scene", "save_glb", "save_mesh", "save_obj", "save_ply", "save_scene", "save_stl",
]  # fmt: skip


def load_mesh(path: str | os.PathLike) -> Mesh:
    """Read .glb, .gltf, .obj, .ply, .off or .stl as one clean Mesh.

    Positions that are equal as float32 are welded; UVs stay on corners with their origin top left; the base
    colour texture and vertex colours come as linear light; .glb, .gltf and .obj bring a `Material`; polygons are triangulated, concave ones too;
    degenerate faces are dropped with a warning. Several objects in a file become one Mesh, which looks like them: morph targets
    and skins stand as the file says, colours of materials become vertex colours, and textures one atlas (`joined`);
    `components` parts it. What is lost is named by a warning. Raises InputError, one sentence naming the
    file, for anything that is not such a mesh, or above `config.max_faces`.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_mesh(path, cube())
    >>> load_mesh(path)
    Mesh 'cube': 8 vertices, 12 faces, 24 UVs, no texture, bounds [-1, -1, -1] to [1, 1, 1]
    """
    path = Path(path)
    load = _LOADERS.get(path.suffix.lower())
    if load is None:
        read_bytes(path, "mesh")
        raise InputError(
            f"'{path}' is not a known kind of mesh; give a .glb, .gltf, .obj, .ply, .off or .stl file"
        )
    with usable(path, "its mesh"):
        return replace(load(path).clean(), name=path.stem)


def save_mesh(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write a mesh as .glb, .obj, .ply or .stl, by the file's ending: `save_glb`, `save_obj`, `save_ply`, `save_stl`.

    UVs, texture, colour and vertex colours are kept, except by .stl, which holds the shape alone; the material is kept by
    .glb. Raises InputError for
    another ending, an invalid mesh, or a folder that cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> save_mesh(os.path.join(tempfile.mkdtemp(), "cube.ply"), cube())
    """
    save = _SAVERS.get(_path("mesh", path).suffix.lower())
    if save is None:
        raise InputError(
            f"'{path}' cannot be written; give a name that ends in .glb or .obj, or in .ply or .stl"
        )
    save(path, mesh)


def load_scene(path: str | os.PathLike) -> Scene:
    """Read a file as a Scene: of .glb and .gltf each node with its own material, and all that moves it.

    A node of the file with several primitives becomes as many nodes; ``to_world`` holds the product of the matrices above it.
    Nodes that share a mesh share a geometry. Morph targets come as ``MorphGeometry`` with the weights of the file, skins as
    ``SkinnedGeometry`` whose ``Skeleton`` holds the joints; ``scene.cameras`` are the perspective cameras by name, 512 pixels
    high, and ``scene.lights`` those of KHR_lights_punctual. Animations are not read, and a
    warning says so. Of .obj each material becomes a node, and other kinds of files one node. Raises InputError, one sentence naming the file and the node: a cycle of nodes, a skin without joints, weights
    that do not add up to 1, and whatever ``load_mesh`` refuses.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cubes.glb")
    >>> save_scene(path, Scene([Node(cube(), name="left"), Node(cube(), to_world=np.diag([2, 2, 2, 1]), name="right")]))
    >>> [node.name for node in load_scene(path)]
    ['left', 'right']
    """
    path = Path(path)
    if path.suffix.lower() in (".glb", ".gltf"):
        with usable(path, "its scene"):
            return load_gltf_scene(path)
    parts_of = _PARTS.get(path.suffix.lower())
    if parts_of is None:
        return Scene([Node(load_mesh(path))])
    with usable(path, "its mesh"):
        parts = parts_of(path)
        if len(parts) == 1:
            return Scene([Node(replace(parts[0].clean(), name=path.stem))])
        # A material whose faces have no area is nothing to draw; a file of such alone is refused.
        drawn = [part for part in parts if not part.validate().degenerate_faces().all()] or parts
        nodes = [
            replace(part.clean(), name=part.name if part.name != str(path) else path.stem) for part in drawn
        ]
        return Scene([Node(mesh, name=mesh.name) for mesh in nodes])


def save_scene(path: str | os.PathLike, scene: Scene) -> None:
    """Write a scene as one self-contained .glb: nodes with their materials, morph targets, skins, cameras and lights.

    Nodes of one geometry and material share a mesh. A ``to_world`` with shear, which nodes of files do not hold, is applied to
    the vertices. Lights that glTF does not have, such as an ``Environment``, are left out with a warning. Raises InputError: a
    name that ends otherwise, Variables (files hold values; those of ``ad.recv``), and whatever ``save_mesh`` refuses.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> save_scene(os.path.join(tempfile.mkdtemp(), "cube.glb"), Scene([Node(cube(), {"metallic": 1.0})]))
    """
    if _path("scene", path).suffix.lower() != ".glb":
        raise InputError(f"'{path}' cannot be written; give a name that ends in .glb")
    save_glb_scene(Path(path), scene)


def _path(what: str, path: str | os.PathLike) -> Path:
    """The first argument of a function that saves, which a user may have exchanged with the second."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"save_{what}(path, {what}) takes the path first, not a {type(path).__name__}")
    return Path(path)


_LOADERS = {
    ".glb": load_gltf, ".gltf": load_gltf, ".obj": load_obj, ".ply": load_ply, ".stl": load_stl, ".off": load_off,
}  # fmt: skip
_PARTS = {".obj": load_obj_parts}
"""Kinds of files without nodes whose materials become nodes."""
_SAVERS = {".glb": save_glb, ".obj": save_obj, ".ply": save_ply, ".stl": save_stl}
