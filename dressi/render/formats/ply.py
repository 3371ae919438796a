"""PLY in and out: triangles, vertex colours, normals, UVs and the texture that a comment names."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.formats.ply_elements import Columns, Lists, read_elements, read_header
from dressi.render.io.files import beside, check_counts, read_bytes, shown, usable, without_faces, write_files
from dressi.render.io.images import encode_png, linear_rgb
from dressi.render.mesh import Mesh, joined, triangulate, weld, weld_values
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

_COLORS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"), ("r", "g", "b"))
_UVS = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))


def load_ply(path: str | os.PathLike) -> Mesh:
    """Read a .ply, text or binary, as one welded Mesh, not cleaned yet. Polygons are triangulated, concave ones too.

    Colours of vertices or faces (`red green blue`, sRGB; integers by their range, floats in [0, 1]) become linear light;
    normals and UVs (of vertices, or `texcoord` of faces) are kept; the textures of ``comment TextureFile``, of which several are chosen by
    `texnumber` of faces, are looked for in the PLY's own folder only. Raises InputError naming the file.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.ply")
    >>> save_ply(path, cube())
    >>> load_ply(path).faces.shape
    (12, 3)
    """
    path = Path(path)
    data = read_bytes(path, "mesh")
    with usable(path, "its content"):
        header = read_header(data, path)
        found = read_elements(data, header, path)
        return _mesh(path, found["vertex"], found["face"], header.textures)


def _mesh(path: Path, vertex: Columns, face: Columns, textures: list[str]) -> Mesh:
    polygons = next((face[name] for name in ("vertex_indices", "vertex_index") if name in face), None)
    if not isinstance(polygons, Lists):
        raise InputError(f"'{path}' has faces without a list of vertices; export it again")
    points = _table(vertex, ("x", "y", "z"))
    if points is None:
        raise InputError(f"'{path}' has vertices without x, y and z; export it again")
    check_counts(path, 0, int(np.maximum(polygons.lengths.astype(np.int64) - 2, 0).sum()))
    numbers = polygons.values.astype(np.int64)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(points)):
        raise InputError(
            f"'{path}': a face refers to vertex {numbers.max()} of {len(points)}; the file is damaged"
        )
    polygon, corners = triangulate(points[numbers], polygons.lengths)
    if len(corners) == 0:
        raise without_faces(path, len(points))
    rows = numbers[corners]
    mesh = Mesh(*weld(points, rows), name=str(path))
    normals = _table(vertex, ("nx", "ny", "nz"))
    if normals is not None:
        mesh.normals, mesh.normal_faces = weld_values(normals, rows)
    wedge, uvs = (
        face.get("texcoord"),
        next(filter(_is_there, (_table(vertex, names) for names in _UVS)), None),
    )
    if isinstance(wedge, Lists) and (wedge.lengths == 2 * polygons.lengths).all():
        uvs, mesh.uv_faces = wedge.values.astype(np.float64).reshape(-1, 2), corners
    elif uvs is not None:
        mesh.uv_faces = rows
    if uvs is not None:
        # v grows upward in PLY
        mesh.uvs, mesh.uv_faces = weld_values(uvs * (1, -1) + (0, 1), np.asarray(mesh.uv_faces))
    _color(path, mesh, (vertex, rows), (face, np.repeat(polygon[:, None], 3, axis=1)))
    images = [_texture(path, name, mesh.uvs is not None) for name in textures]
    if len(images) == 1:
        mesh.texture = images[0]
    elif images and mesh.uvs is not None:
        numbers = _table(face, ("texnumber",))
        if numbers is None:
            warnings.warn(
                f"'{path}' has {len(images)} textures and no texnumber of faces; the first is used",
                stacklevel=4,
            )
            mesh.texture = images[0]
        else:
            return _textured(mesh, images, numbers[polygon, 0])
    return mesh


def _texture(path: Path, name: str, textured: bool) -> np.ndarray | None:
    """Linear albedo; None with a warning when the image is not there, or there are no UVs."""
    image = beside(path, name)
    if image is None or not textured:
        why = "is not beside it" if image is None else "has no UVs"
        warnings.warn(f"'{path}': its texture '{shown(name)}' {why} and was left out", stacklevel=5)
        return None
    return linear_rgb(read_bytes(image, "texture"), str(image))


def _textured(mesh: Mesh, images: list[np.ndarray | None], numbers: np.ndarray) -> Mesh:
    """The mesh with several textures in one atlas.  numbers: (F,) the image of each face; others are none."""
    numbers = np.where((numbers >= 0) & (numbers < len(images)), numbers, -1)
    parts = []
    for number in np.unique(numbers).astype(int).tolist():
        part = mesh.with_faces(numbers == number)
        part.texture = images[number] if number >= 0 else None
        parts.append(part)
    return joined(parts, mesh.name)


def _color(path: Path, mesh: Mesh, *sources: tuple[Columns, np.ndarray]) -> None:
    """Give the mesh the first colours that there are: tables, and which of their rows each corner has."""
    for columns, index in sources:
        for names in _COLORS:
            codes = _table(columns, names, scale=True)
            if codes is None:
                continue
            if not ((codes >= 0) & (codes <= 1)).all():
                raise InputError(f"'{path}' has colours outside [0, 1]; export it again")
            mesh.colors, mesh.color_faces = weld_values(srgb_to_linear(codes), index)
            alpha = _table(columns, ("alpha",), scale=True)
            if alpha is not None and (alpha < 1).any():
                warnings.warn(f"'{path}': the alpha of its colours was left out", stacklevel=5)
            if columns is sources[0][0] and all(one in sources[1][0] for one in names):
                warnings.warn(
                    f"'{path}': its colours of faces were left out for those of vertices", stacklevel=5
                )
            return


def _table(columns: Columns, names: tuple[str, ...], *, scale: bool = False) -> np.ndarray | None:
    """(n, k) float64 of single values; None when one is not there. scale: integers by their range to [0, 1]."""
    found = [columns.get(name) for name in names]
    if not all(isinstance(column, np.ndarray) for column in found):
        return None
    arrays = [np.asarray(column) for column in found]
    most = [float(np.iinfo(a.dtype).max) if scale and a.dtype.kind != "f" else 1.0 for a in arrays]
    return np.stack([a / m for a, m in zip(arrays, most, strict=True)], axis=1).astype(np.float64)


def _is_there(table: np.ndarray | None) -> bool:
    return table is not None


def save_ply(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write a binary .ply: positions as float32, vertices split at seams, with normals and UVs where the mesh has them, and
    vertex colours as 8-bit sRGB; path.png beside it when there is a texture. The colour factor is multiplied into the
    texture, or else into vertex colours.

    Each file is replaced whole or not at all; InputError when it cannot be written.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> path = os.path.join(tempfile.mkdtemp(), "cube.ply")
    >>> save_ply(path, cube())
    >>> open(path, "rb").read(3)
    b'ply'
    """
    path = Path(path)
    split = mesh.validate().split_at_seams(normals=mesh.normals is not None)
    factor = np.asarray(mesh.color, dtype=np.float64)
    textured = mesh.texture is not None and split.uvs is not None
    colors = split.colors
    if not textured and (factor != 1).any():
        colors = (np.ones_like(split.positions) if colors is None else colors) * factor
    columns = [("x", "<f4"), ("y", "<f4"), ("z", "<f4")]
    values = [*split.positions.T]
    if split.normals is not None:
        columns += [("nx", "<f4"), ("ny", "<f4"), ("nz", "<f4")]
        values += [*split.normals.T]
    if split.uvs is not None:
        columns += [("s", "<f4"), ("t", "<f4")]
        values += [split.uvs[:, 0], 1 - split.uvs[:, 1]]
    if colors is not None:
        columns += [("red", "u1"), ("green", "u1"), ("blue", "u1")]
        values += [*(linear_to_srgb(colors) * 255 + 0.5).T]
    rows = np.empty(len(split.positions), np.dtype(columns))
    for (name, _), column in zip(columns, values, strict=True):
        rows[name] = column.astype(rows.dtype[name])
    faces = np.empty(len(split.faces), np.dtype([("count", "u1"), ("index", "<i4", (3,))]))
    faces["count"], faces["index"] = 3, split.faces
    files: dict[Path, bytes] = {}
    head = ["ply", "format binary_little_endian 1.0"]
    if textured:
        files[path.with_suffix(".png")] = encode_png(np.asarray(mesh.texture) * factor)
        head.append(f"comment TextureFile {path.stem}.png")
    head.append(f"element vertex {len(rows)}")
    head += [f"property {'uchar' if kind == 'u1' else 'float'} {name}" for name, kind in columns]
    head += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header\n"]
    files[path] = "\n".join(head).encode() + rows.tobytes() + faces.tobytes()
    write_files(files)
