"""The model for the page: one GLB of bounded size, whatever the folder holds."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from ...render.formats import load_mesh, save_glb
from ...render.io import resize
from ...render.mesh import Mesh
from ...render.mesh.remesh.decimate import decimate
from .markup import size_text

MOST_BYTES = 4_500_000
"""Of the model as a file; in the page it takes a third more."""
MOST_FACES = 120_000
"""Of a model that has to be reduced."""
SIDES = (2048, 1024, 512, 256)
"""Texels along a side of the maps of a model that has to be reduced, the first that fits."""


@dataclass(frozen=True)
class Model:
    """A GLB that needs no other file.  faces: of the mesh in the folder.  note: what was reduced; None if nothing was.
    lit: whether it is shown under a light: its material has maps, or it has no colours."""

    data: bytes
    faces: int
    note: str | None
    lit: bool


def page_model(path: Path, most: int = MOST_BYTES) -> Model:
    """The mesh of a file, written again, with all that it needs inside; with smaller maps and fewer faces where it would
    have more than ``most`` bytes. Raises InputError."""
    mesh = load_mesh(path)
    faces, bare = len(mesh.faces), mesh.texture is None and mesh.colors is None
    lit = bare or (mesh.material is not None and bool(mesh.material.maps()))
    notes: list[str] = []
    if len(mesh.faces) * 36 > most:
        mesh = _coarser(mesh, MOST_FACES)
        notes.append(f"{len(mesh.faces):,} of its {faces:,} faces, with colours at vertices")
    data = _encoded(mesh)
    for side in SIDES:
        if len(data) <= most:
            break
        smaller = _with_maps_of(mesh, side)
        if smaller is not mesh:
            data = _encoded(smaller)
            notes = [note for note in notes if "texels" not in note] + [
                f"maps of at most {side} texels a side"
            ]
    if len(data) > most:
        mesh = _coarser(mesh, MOST_FACES // 4)
        data, notes = (
            _encoded(mesh),
            [f"{len(mesh.faces):,} of its {faces:,} faces, with colours at vertices"],
        )
    said = f"Shown with {' and '.join(notes)}; the file in the folder has all." if notes else None
    return Model(data, faces, said, lit)


def said_size(model: Model) -> str:
    """How large the model in the page is, in words."""
    return size_text(len(model.data))


def _encoded(mesh: Mesh) -> bytes:
    with tempfile.TemporaryDirectory(prefix="dressi-report-") as folder:
        path = Path(folder) / "model.glb"
        save_glb(path, mesh)
        return path.read_bytes()


def _with_maps_of(mesh: Mesh, side: int) -> Mesh:
    """The mesh with no map larger than so many texels a side; itself where none is."""
    changes: dict[str, Any] = {}
    if mesh.texture is not None and max(mesh.texture.shape[:2]) > side:
        changes["texture"] = _shrunk(mesh.texture, side)
    if mesh.material is not None:
        maps = {
            field.name: _shrunk(value, side)
            for field in fields(mesh.material)
            if isinstance(value := getattr(mesh.material, field.name), np.ndarray)
            and value.ndim >= 2
            and max(value.shape[:2]) > side
        }
        if maps:
            changes["material"] = replace(mesh.material, **maps)
    return replace(mesh, **changes) if changes else mesh


def _shrunk(values: np.ndarray, side: int) -> np.ndarray:
    height, width = values.shape[:2]
    factor = side / max(height, width)
    return resize(values, (max(round(width * factor), 1), max(round(height * factor), 1)))


def _coarser(mesh: Mesh, faces: int) -> Mesh:
    """About so many faces. UVs do not survive that: each vertex takes the albedo of the nearest vertex before it."""
    albedo = _vertex_albedo(mesh)
    bare = replace(mesh, uvs=None, uv_faces=None, texture=None, colors=None, color_faces=None, material=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # faces that collapsed
        coarse = decimate(bare.moved(mesh.positions), faces)
    _, nearest = KDTree(mesh.positions).query(coarse.positions)
    return replace(coarse, colors=albedo[nearest], color_faces=coarse.faces, color=(1.0, 1.0, 1.0))


def _vertex_albedo(mesh: Mesh) -> np.ndarray:
    """(V, 3) linear albedo at the vertices, the mean of their corners."""
    if mesh.uvs is None or mesh.uv_faces is None:
        return mesh.vertex_colors() * np.asarray(mesh.color)
    total, count = np.zeros_like(mesh.positions), np.zeros(len(mesh.positions))
    np.add.at(total, mesh.faces.ravel(), mesh.sample_texture(mesh.uvs)[mesh.uv_faces.ravel()])
    np.add.at(count, mesh.faces.ravel(), 1.0)
    return mesh.vertex_colors() * total / np.maximum(count, 1.0)[:, None]
