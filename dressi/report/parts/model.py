"""The model for the page: one GLB of bounded size, whatever the folder holds."""

from __future__ import annotations

import base64
import io
import tempfile
import warnings
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, features
from scipy.spatial import KDTree

from ...errors import InputError
from ...render.formats import load_mesh, save_glb
from ...render.io import read_image, resize
from ...render.mesh import Mesh
from ...render.mesh.remesh.remesh import decimate

MOST_BYTES = 4_500_000
"""Of the model as a file; in the page it takes a third more."""
MOST_FACES = 120_000
"""Of a model that has to be reduced."""
SIDES = (2048, 1024, 512, 256)
"""Texels along a side of the maps of a model that has to be reduced, the first that fits."""


@dataclass(frozen=True)
class Model:
    """A GLB that needs no other file.  faces: of the mesh in the folder.  note: what was reduced; None if
    nothing was.
    lit: whether it is shown under a light: its material has maps, or it has no colours."""

    data: bytes
    faces: int
    note: str | None
    lit: bool


def page_model(path: Path, most: int = MOST_BYTES) -> Model:
    """The mesh of a file, written again, with all that it needs inside; with smaller maps and fewer faces
    where it would have more than ``most`` bytes. Raises InputError."""
    mesh = load_mesh(path)
    faces, bare = len(mesh.faces), mesh.texture is None and mesh.colors is None
    lit = bare or (mesh.material is not None and bool(mesh.material.maps()))
    notes: list[str] = []
    if len(mesh.faces) * 36 > most:
        mesh = _coarser(mesh, MOST_FACES)
        notes = [_fewer(mesh, faces)]
    data = glb_bytes(mesh)
    for side in SIDES:
        if len(data) <= most:
            break
        smaller = _with_maps_of(mesh, side)
        if smaller is not mesh:
            data = glb_bytes(smaller)
            notes = [
                *(note for note in notes if "texels" not in note),
                f"maps of at most {side} texels a side",
            ]
    if len(data) > most:
        mesh = _coarser(mesh, MOST_FACES // 4)
        data, notes = glb_bytes(mesh), [_fewer(mesh, faces)]
    said = f"Shown with {' and '.join(notes)}; the file in the folder has all." if notes else None
    return Model(data, faces, said, lit)


def _fewer(mesh: Mesh, faces: int) -> str:
    return f"{len(mesh.faces):,} of its {faces:,} faces, with colours at vertices"


def glb_bytes(mesh: Mesh) -> bytes:
    """A GLB of a mesh."""
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
    """The image with so many texels along its longer side."""
    height, width = values.shape[:2]
    factor = side / max(height, width)
    return resize(values, (max(round(width * factor), 1), max(round(height * factor), 1)))


def _coarser(mesh: Mesh, faces: int) -> Mesh:
    """About so many faces. UVs are lost: each vertex takes the albedo of the nearest old vertex."""
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


# Pictures for the page: cut out of sheets, scaled down, compared, and encoded into the page itself.

WORST = 0.25
"""The error, as a part of the range of sRGB codes, that has the brightest colour in an error map."""
MAP = "magma"
"""The colour map of errors: dark where there is none, uniform to the eye."""


def sheet_cells(
    path: Path, size: tuple[int, int], gap: int, columns: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(target, result) of every column of a sheet, whose rows are target, result and difference: sRGB codes
    (H, W, 3) in [0, 1]. Raises InputError where the sheet has another size."""
    codes, (width, height) = _three(read_image(path)), size
    expected = (3 * (height + gap) - gap, columns * (width + gap) - gap)
    if columns < 1 or codes.shape[:2] != expected:
        raise InputError(
            f"'{path}' has {codes.shape[1]}x{codes.shape[0]} pixels, and report.json speaks of {columns} views of"
            f" {width}x{height}; run `dressi fit` again, so that both are of one run"
        )

    def cell(row: int, column: int) -> np.ndarray:
        y, x = row * (height + gap), column * (width + gap)
        return codes[y : y + height, x : x + width]

    return [(cell(0, k), cell(1, k)) for k in range(columns)]


def first_frame(path: Path) -> np.ndarray:
    """(H, W, 3) codes of an image, or of the first frame of an animation. Raises InputError."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*of which the first is read")
        return _three(read_image(path))


def error_map(target: np.ndarray, result: np.ndarray) -> np.ndarray:
    """(H, W, 3) codes: the root mean square over the channels of the difference of the codes, black where
    there is none, brightest from ``WORST`` on.

    >>> grey = np.full((2, 2, 3), 0.5)
    >>> error_map(grey, grey).max() < 0.02 < 0.9 < error_map(grey, grey + 0.3).max()
    np.True_
    """
    error = np.sqrt(np.mean((np.asarray(target, float) - result) ** 2, axis=-1))
    return colour(np.clip(error / WORST, 0, 1))


def colour(share: np.ndarray) -> np.ndarray:
    """Codes of the colour map at places in [0, 1]."""
    import matplotlib

    return matplotlib.colormaps[MAP](share)[..., :3]


def scaled(codes: np.ndarray, side: int) -> np.ndarray:
    """The picture, its longer side at most ``side`` pixels."""
    return codes if side >= max(codes.shape[:2]) else _shrunk(np.asarray(codes, np.float32), side)


def data_uri(codes: np.ndarray, *, quality: int = 88) -> str:
    """The picture as a text that an <img> shows: WebP, or PNG where Pillow has no WebP."""
    picture = Image.fromarray((np.clip(codes, 0, 1) * 255 + 0.5).astype(np.uint8))
    stream, kind = io.BytesIO(), "webp" if features.check("webp") else "png"
    how = {"quality": quality, "method": 4} if kind == "webp" else {"optimize": True}
    picture.save(stream, kind, **how)
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def _three(codes: np.ndarray) -> np.ndarray:
    """(H, W, 3) without alpha."""
    return np.repeat(codes, 3, axis=-1) if codes.shape[-1] < 3 else codes[..., :3]
