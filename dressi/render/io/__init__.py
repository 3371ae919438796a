"""Meshes, photographs and pictures in and out of files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import read_bytes, reason, write_files, write_json
from dressi.render.io.glb import save_glb
from dressi.render.io.gltf import load_gltf
from dressi.render.io.images import encode_png, read_image, resize, save_gif, save_png
from dressi.render.io.obj import load_obj, save_obj
from dressi.render.io.photos import Photos, load_photos
from dressi.render.mesh import Mesh, weld

__all__ = [
    "Photos", "encode_png", "load_mesh", "load_photos", "read_image", "resize", "save_gif", "save_glb", "save_mesh",
    "save_obj", "save_png", "write_files", "write_json",
]  # fmt: skip

_OTHER = (".ply", ".off", ".stl")


def load_mesh(path: str | os.PathLike) -> Mesh:
    """Read .glb, .gltf, .obj, .ply, .off or .stl as one clean Mesh.

    Positions that are equal as float32 are welded; UVs stay on corners with their origin top left; the base
    colour texture comes as linear light; polygons are triangulated; degenerate faces are dropped with a
    warning. Raises InputError, one sentence naming the file, for anything that is not such a mesh.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    data = read_bytes(path, "mesh")
    if not data:
        raise InputError(f"'{path}' is empty; copy or export it again")
    if suffix in (".glb", ".gltf"):
        mesh = load_gltf(path)
    elif suffix == ".obj":
        mesh = load_obj(path)
    elif suffix in _OTHER:
        mesh = _load_other(path)
    else:
        raise InputError(
            f"'{path}' is not a known kind of mesh; give a .glb, .gltf, .obj, .ply, .off or .stl file"
        )
    return replace(mesh.clean(), name=path.stem)


def save_mesh(path: str | os.PathLike, mesh: Mesh) -> None:
    """`save_glb` or `save_obj`, by the file's ending."""
    suffix = Path(path).suffix.lower()
    if suffix == ".glb":
        save_glb(path, mesh)
    elif suffix == ".obj":
        save_obj(path, mesh)
    else:
        raise InputError(f"'{path}' cannot be written; give a name that ends in .glb or .obj")


def _load_other(path: Path) -> Mesh:
    """Geometry of the formats that trimesh reads."""
    import trimesh

    try:
        # No post-processing by the library: NaN and degenerate faces are ours to report.
        loaded: Any = trimesh.load(str(path), file_type=path.suffix[1:].lower(), force="mesh", process=False)
        positions = np.asarray(loaded.vertices, dtype=np.float64).reshape(-1, 3)
        faces = np.asarray(loaded.faces, dtype=np.int64).reshape(-1, 3)
    except Exception as error:  # the readers raise whatever goes wrong first in a damaged file
        raise InputError(
            f"'{path}' cannot be read as {path.suffix} ({reason(error)}); it is truncated, damaged or another kind of file"
        ) from None
    if len(faces) == 0:
        raise InputError(f"'{path}' has no faces; give a mesh with at least one triangle")
    if faces.min() < 0 or faces.max() >= len(positions):
        raise InputError(
            f"'{path}': a face refers to vertex {faces.max()} of {len(positions)}; the file is damaged"
        )
    return Mesh(*weld(positions, faces), name=str(path))
