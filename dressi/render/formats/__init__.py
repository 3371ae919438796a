"""Meshes and scenes in and out of files: Wavefront OBJ, glTF, and in ``polygons`` PLY, OFF and STL.

``FORMATS`` is the table of them. A new format is a reader or writer and a row there: messages and help texts
name what the table holds. Readers say what is wrong with a file, and the functions here name the file.

Files are not trusted (``dressi.render.io``); meshes have up to `config.max_faces` faces.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dressi.errors import InputError
from dressi.render.formats.clouds import load_las, load_xyz
from dressi.render.formats.glb import save_glb, save_glb_scene
from dressi.render.formats.gltf.scene import load_gltf, load_gltf_scene
from dressi.render.formats.obj import load_obj, save_obj
from dressi.render.formats.polygons import load_off, load_ply, load_stl, save_ply, save_stl
from dressi.render.io.files import SURFACES, read_bytes, usable, without_faces
from dressi.render.mesh import Mesh, joined
from dressi.render.scene.scene import Node, Scene
from dressi.render.strands.geometry import PointGeometry
from dressi.render.strands.ribbons import unlit

__all__ = [
    "load_mesh", "load_scene", "save_glb", "save_mesh", "save_obj", "save_ply", "save_scene", "save_stl",
]  # fmt: skip


Parts = Callable[[Path], list[Mesh] | list[PointGeometry]]


def _one(parts: Parts) -> Callable[[Path], Mesh]:
    """Reads all parts as one mesh."""

    def load(path: Path) -> Mesh:
        shapes = parts(path)
        meshes = [part for part in shapes if isinstance(part, Mesh)]
        if not meshes:
            raise without_faces(sum(cloud.count for cloud in shapes if isinstance(cloud, PointGeometry)))
        return joined(meshes, str(path))

    return load


class Format(NamedTuple):
    """What reads and writes files of one ending; None where nothing does.

    parts: reads a mesh for each material, or points, of files without nodes.  load_scene, save_scene: of
    files with nodes.
    """

    load: Callable[[Path], Mesh] | None = None
    save: Callable[[str | os.PathLike, Mesh], None] | None = None
    parts: Parts | None = None
    load_scene: Callable[[Path], Scene] | None = None
    save_scene: Callable[[Path, Scene], None] | None = None


FORMATS = {
    ".glb": Format(load_gltf, save_glb, load_scene=load_gltf_scene, save_scene=save_glb_scene),
    ".gltf": Format(load_gltf, load_scene=load_gltf_scene),
    ".obj": Format(_one(load_obj), save_obj, parts=load_obj),
    ".ply": Format(_one(load_ply), save_ply, parts=load_ply),
    ".off": Format(load_off),
    ".stl": Format(load_stl, save_stl),
    ".xyz": Format(parts=load_xyz),
    ".las": Format(parts=load_las),
    ".laz": Format(parts=load_las),
}
MESHES = ", ".join(ending for ending, kind in FORMATS.items() if kind.load)
"""The endings of files with meshes that can be read."""
_SAVED = " or ".join(ending for ending, kind in FORMATS.items() if kind.save)
_SCENES = " or ".join(ending for ending, kind in FORMATS.items() if kind.save_scene)


def load_mesh(path: str | os.PathLike) -> Mesh:
    """Read a file as one clean Mesh, by its ending.

    Positions that are equal as float32 are welded; UVs stay on corners with their origin top left; the base
    colour texture and vertex colours come as linear light; .glb, .gltf and .obj bring a `Material`; polygons
    are triangulated, concave ones too; degenerate faces are dropped with a warning. Several objects in a file
    become one Mesh, which looks like them: morph targets and skins stand as the file says, colours of
    materials become vertex colours, and textures one atlas (`joined`); `components` parts it. What is lost is
    named by a warning. Raises InputError, one sentence naming the file, for anything that is not such a mesh,
    or above `config.max_faces`.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.glb")
    >>> save_mesh(path, cube())
    >>> load_mesh(path)
    Mesh 'cube': 8 vertices, 12 faces, 24 UVs, no texture, bounds [-1, -1, -1] to [1, 1, 1]
    """
    path = Path(path)
    load = _format_of(path).load
    if load is None:
        read_bytes(path, "mesh")
        if _format_of(path).parts:
            raise InputError(f"'{path}' holds points without faces; {SURFACES}")
        raise InputError(f"'{path}' is not a known kind of mesh; give a {MESHES} file")
    with usable(path, "its mesh"):
        return replace(load(path).clean(), name=path.stem)


def save_mesh(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write a mesh, by the file's ending: `save_glb`, `save_obj`, `save_ply`, `save_stl`.

    UVs, texture, colour and vertex colours are kept, except by .stl, which holds the shape alone; the
    material is kept by .glb. Raises InputError for another ending, an invalid mesh, or a folder that cannot
    be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> save_mesh(os.path.join(tempfile.mkdtemp(), "cube.ply"), cube())
    """
    save = _format_of(_path("mesh", path)).save
    if save is None:
        raise InputError(f"'{path}' cannot be written; give a name that ends in {_SAVED}")
    save(path, mesh)


def load_scene(path: str | os.PathLike) -> Scene:
    """Read a file as a Scene: of .glb and .gltf each node with its own material, and all that moves it.

    A node of the file with several primitives becomes as many nodes; ``to_world`` holds the product of the
    matrices above it. Nodes that share a mesh share a geometry. Morph targets come as ``MorphGeometry`` with
    the weights of the file, skins as ``SkinnedGeometry`` whose ``Skeleton`` holds the joints;
    ``scene.cameras`` are the perspective cameras by name, 512 pixels high, and ``scene.lights`` those of
    KHR_lights_punctual. Animations are ``scene.clips``, which ``scene.at`` shows. Of .obj each material
    becomes a node, and other kinds of files one node. Points without faces, of .ply, .obj, .glb, .xyz, .las
    and .laz, become a ``PointGeometry``, one pixel wide, unlit. Raises InputError, one sentence naming the
    file and the node: a cycle of nodes, a skin without joints, weights that do not add up to 1, and whatever
    ``load_mesh`` refuses.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cubes.glb")
    >>> right = Node(cube(), to_world=np.diag([2, 2, 2, 1]), name="right")
    >>> save_scene(path, Scene([Node(cube(), name="left"), right]))
    >>> [node.name for node in load_scene(path)]
    ['left', 'right']
    """
    path = Path(path)
    kind = _format_of(path)
    if kind.load_scene is not None:
        with usable(path, "its scene"):
            return kind.load_scene(path)
    if kind.parts is None:
        return Scene([Node(load_mesh(path))])
    with usable(path, "its mesh"):
        shapes = kind.parts(path)
        parts = [part for part in shapes if isinstance(part, Mesh)]
        if not parts:
            return Scene([Node(points, unlit, name=points.name) for points in shapes])
        # A material whose faces have no area is nothing to draw; a file of such alone is refused.
        drawn = [part for part in parts if not part.validate().degenerate_faces().all()] or parts
        meshes = [part.clean() for part in drawn]
        for mesh in meshes:
            if len(parts) == 1 or mesh.name == str(path):
                mesh.name = path.stem
        return Scene([Node(mesh) for mesh in meshes])


def save_scene(path: str | os.PathLike, scene: Scene) -> None:
    """Write a scene as one self-contained .glb: nodes with their materials, morph targets, skins, cameras and
    lights.

    Nodes of one geometry and material share a mesh. A ``to_world`` with shear, which nodes of files do not
    hold, is applied to the vertices. Lights that glTF does not have, such as an ``Environment``, are left out
    with a warning. Raises InputError: a name that ends otherwise, Variables (files hold values; those of
    ``ad.recv``), and whatever ``save_mesh`` refuses.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> save_scene(os.path.join(tempfile.mkdtemp(), "cube.glb"), Scene([Node(cube(), {"metallic": 1.0})]))
    """
    save = _format_of(_path("scene", path)).save_scene
    if save is None:
        raise InputError(f"'{path}' cannot be written; give a name that ends in {_SCENES}")
    save(Path(path), scene)


def _format_of(path: Path) -> Format:
    return FORMATS.get(path.suffix.lower(), Format())


def _path(what: str, path: str | os.PathLike) -> Path:
    """The first argument of a function that saves, which a user may have exchanged with the second."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"save_{what}(path, {what}) takes the path first, not a {type(path).__name__}")
    return Path(path)


_READ = ", ".join(FORMATS)
_ENDINGS = ((load_mesh, MESHES), (save_mesh, _SAVED), (load_scene, _READ), (save_scene, _SCENES))
for _function, _endings in _ENDINGS:
    _function.__doc__ = f"{_function.__doc__ or ''}\n    Files end in {_endings}.\n    "
