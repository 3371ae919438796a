"""Wavefront OBJ with MTL: triangles, UVs, normals, vertex colours and the diffuse texture, in and out."""

from __future__ import annotations

import io
import os
import warnings
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.formats.mtl import KEYS, material_lines, read_material
from dressi.render.io.files import (
    LARGEST_TEXT,
    beside,
    check_counts,
    followed,
    read_bytes,
    shown,
    write_files,
)
from dressi.render.io.images import encode_png, linear_rgb
from dressi.render.materials import Placement
from dressi.render.mesh import Mesh, weld, weld_values
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
_LONGEST = 1 << 20
"""Characters of a line: a polygon of a hundred thousand corners."""


class _Lines:
    """The statements of one file that matter here, with 0-based indices; -1 where a corner has none."""

    def __init__(self, path: Path):
        self.path = path
        self.positions, self.colors = array("d"), array("d")
        self.uvs, self.normals = array("d"), array("d")
        self.corners = array("q")
        self.libraries: list[str] = []
        self.materials: list[str] = []
        before = ""
        for number, line in enumerate(_text_lines(path), 1):
            if not line:
                continue
            line = before + line
            before = ""
            if len(line) > _LONGEST:
                raise InputError(
                    f"'{path}' line {number} has over {_LONGEST:,} characters; it is no OBJ mesh, or a damaged one"
                )
            if line[-1] == "\\":
                before = line[:-1] + " "
                continue
            try:
                self._statement(line)
            except (ValueError, IndexError, OverflowError):
                raise InputError(
                    f"'{path}' line {number} cannot be read: '{shown(line[:60])}'; the file is truncated or damaged"
                ) from None
            if number % 65536 == 0:
                self._check_counts()
        self._check_counts()

    def _check_counts(self) -> None:
        check_counts(self.path, len(self.positions) // 3, len(self.corners) // 9)

    def _statement(self, line: str) -> None:
        key, _, rest = line.strip().partition(" ")
        if key == "v":
            x, y, z, *more = rest.split()
            self.positions.extend((float(x), float(y), float(z)))
            if len(more) >= 3:
                # Vertices before the first colour have none, which is white.
                self.colors.extend([1.0] * (len(self.positions) - 3 - len(self.colors)))
                self.colors.extend((float(more[0]), float(more[1]), float(more[2])))
        elif key == "vt":
            u, v = (rest.split() + ["0"])[:2]
            self.uvs.extend((float(u), 1.0 - float(v)))  # v grows upward in OBJ
        elif key == "vn":
            x, y, z = rest.split()[:3]
            self.normals.extend((float(x), float(y), float(z)))
        elif key == "f":
            counts = len(self.positions) // 3, len(self.uvs) // 2, len(self.normals) // 3
            corners = [_corner(token, counts) for token in rest.split()]
            if len(corners) < 3:
                raise ValueError
            for k in range(1, len(corners) - 1):
                self.corners.extend(corners[0] + corners[k] + corners[k + 1])
        elif key == "mtllib":
            self.libraries.append(rest.strip())
        elif key == "usemtl" and (name := rest.strip()) not in self.materials[-1:]:
            self.materials.append(name)


def _text_lines(path: Path) -> Iterator[str]:
    """The lines of a file, decoded a part at a time; a line that is far too long comes as it is."""
    stream = io.TextIOWrapper(io.BytesIO(read_bytes(path, "mesh")), "utf-8", errors="replace")
    rest = ""
    while len(rest) <= _LONGEST and (part := stream.read(4 * _LONGEST)):
        lines = (rest + part).split("\n")
        rest = lines.pop()
        yield from lines
    yield rest


def _corner(token: str, counts: tuple[int, int, int]) -> tuple[int, int, int]:
    """0-based numbers of position, UV and normal, -1 for none; counts: how many of them there are so far."""
    found = [-1, -1, -1]
    for k, (part, count) in enumerate(zip(token.split("/"), counts, strict=False)):
        if part:
            index = int(part)
            found[k] = index - 1 if index > 0 else count + index
            if found[k] < 0 or index == 0:
                raise ValueError
    if found[0] < 0:
        raise ValueError
    return found[0], found[1], found[2]


def load_obj(path: str | os.PathLike) -> Mesh:
    """Read an .obj as one welded Mesh, not cleaned yet. Polygons become fans. UVs and normals are kept when every
    corner has them; vertex colours (``v x y z r g b``, sRGB) become linear light.

    The texture is the first `map_Kd` of its materials, looked for in the OBJ's own folder only; without one,
    an image beside the file with the usual name (`spot.obj`: `spot_texture.png`, `spot_diffuse.png`,
    `spot.png`) is taken, and a warning says which. Physically based keys of the material
    (``Pr``, ``Pm``, ``Pc``, ``Pcr``, ``Ke``, ``map_Pr``, ``map_Pm``, ``map_Ke``, ``norm``) become a `Material`. Raises
    InputError naming the file.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.obj")
    >>> _ = open(path, "w").write("v 0 0 0 1 0 0\\nv 1 0 0 1 0 0\\nv 0 1 0 1 0 0\\nf 1 2 3\\n")
    >>> load_obj(path).vertex_colors()[0].tolist()
    [1.0, 0.0, 0.0]
    """
    path = Path(path)
    lines = _Lines(path)
    if not lines.corners:
        raise InputError(f"'{path}' has no faces; give an OBJ mesh with at least one triangle")
    corners = np.array(lines.corners, dtype=np.int64).reshape(-1, 3, 3)
    tables = [
        np.array(values, dtype=np.float64).reshape(-1, columns)
        for values, columns in ((lines.positions, 3), (lines.uvs, 2), (lines.normals, 3))
    ]
    for table, what, k in zip(tables, ("vertices", "texture coordinates", "normals"), range(3), strict=True):
        if corners[..., k].max() >= len(table):
            raise InputError(
                f"'{path}': a face refers to number {corners[..., k].max() + 1} of {len(table)} {what};"
                " the file is truncated or damaged"
            )
    positions, faces = weld(tables[0], corners[..., 0])
    uvs = uv_faces = normals = normal_faces = colors = color_faces = None
    if (corners[..., 1] >= 0).all():
        uvs, uv_faces = weld_values(tables[1], corners[..., 1])
    elif (corners[..., 1] >= 0).any():
        warnings.warn(f"'{path}': some faces have no texture coordinates, so none are used", stacklevel=3)
    if (corners[..., 2] >= 0).all():
        normals, normal_faces = weld_values(tables[2], corners[..., 2])
    if lines.colors:
        colors, color_faces = weld_values(_linear_colors(path, lines), corners[..., 0])
    materials = _materials(path, lines)
    color, texture = _base(path, materials, uvs is not None)
    name, keys = next(
        ((n, m) for n, m in materials if "map_Kd" in m), materials[0] if materials else ("", {})
    )
    return Mesh(
        positions,
        faces,
        uvs,
        uv_faces,
        normals,
        normal_faces,
        texture,
        color,
        str(path),
        colors,
        color_faces,
        material=read_material(path, name, keys, uvs is not None),
    )


def _linear_colors(path: Path, lines: _Lines) -> np.ndarray:
    lines.colors.extend([1.0] * (len(lines.positions) - len(lines.colors)))
    codes = np.array(lines.colors).reshape(-1, 3)
    if not ((codes >= 0) & (codes <= 255)).all():
        raise InputError(f"'{path}' has vertex colours that are not in [0, 1]; export it again")
    if (codes > 1).any():
        warnings.warn(
            f"'{path}': vertex colours up to {codes.max():g} are taken as 8-bit values", stacklevel=4
        )
        codes = codes / 255
    return srgb_to_linear(codes)


def _materials(path: Path, lines: _Lines) -> list[tuple[str, dict[str, str]]]:
    """Names and keys of the materials that faces use, else of all."""
    materials: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(lines.libraries):
        library = beside(path, name)
        if library is None:
            warnings.warn(
                f"'{path}': its material file '{shown(name)}' is not beside it and was left out", stacklevel=4
            )
            continue
        current: dict[str, str] = {}
        text = read_bytes(library, "material file", most=LARGEST_TEXT).decode("utf-8", errors="replace")
        for line in text.splitlines():
            key, _, rest = line.strip().partition(" ")
            if key == "newmtl":
                current = materials.setdefault(rest.strip(), {})
            elif key in ("Kd", "map_Kd", *KEYS):
                current.setdefault(key, rest.strip())
    used = [(name, materials[name]) for name in dict.fromkeys(lines.materials) if name in materials]
    return used or list(materials.items())


def _base(
    path: Path, materials: list[tuple[str, dict[str, str]]], textured: bool
) -> tuple[tuple[float, float, float], np.ndarray | None]:
    """Colour and texture of the first textured material, else of the first material, else of an image
    nearby. textured: whether there are UVs for a texture."""
    used = [keys for _, keys in materials]
    images = [material["map_Kd"] for material in used if "map_Kd" in material]
    if images and not textured:
        warnings.warn(f"'{path}' has a texture and no texture coordinates; it was left out", stacklevel=4)
    texture = _texture(path, images) if textured else None
    if texture is not None:
        return (1.0, 1.0, 1.0), texture
    try:
        codes = np.array([float(c) for c in used[0]["Kd"].split()[:3]]) if used else None
    except (KeyError, ValueError):
        codes = None
    if codes is None or len(codes) != 3 or not ((codes >= 0) & (codes <= 1)).all():
        return (1.0, 1.0, 1.0), None
    color = srgb_to_linear(codes)
    return (float(color[0]), float(color[1]), float(color[2])), None


def _texture(path: Path, names: list[str]) -> np.ndarray | None:
    """Linear albedo of the first of the names, or of an image whose name says that it belongs to the mesh."""
    if len(names) > 1:
        warnings.warn(f"'{path}' has {len(names)} textured materials; only the first is used", stacklevel=5)
    if names:
        # Options such as `-s 1 1 1` come before the name.
        image = beside(path, names[0]) or beside(path, (names[0].split() or [""])[-1])
        if image is not None:
            return linear_rgb(read_bytes(image, "texture"), str(image))
        warnings.warn(
            f"'{path}': its texture '{shown(names[0])}' is not beside it and was left out", stacklevel=5
        )
    for stem in dict.fromkeys((path.stem, path.stem.rpartition("_")[0] or path.stem)):
        for ending in ("_texture", "_diffuse", ""):
            for suffix in _IMAGE_SUFFIXES:
                image = path.with_name(stem + ending + suffix)
                if image.is_file():
                    image = followed(image, path.parent, path)
                    warnings.warn(
                        f"'{path}' names no texture that is there; '{stem + ending + suffix}' is used",
                        stacklevel=5,
                    )
                    return linear_rgb(read_bytes(image, "texture"), str(image))
    return None


def save_obj(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write path.obj, and beside it path.mtl, and path.png when there is a texture. Each file is replaced
    whole or not at all; InputError when they cannot be written. Positions keep nine digits, so float32
    survives. Vertex colours are written behind the positions, as sRGB; vertices are split where colours differ.
    A `Material` is written without its occlusion, alpha and sheen, which MTL lacks, with an image a map; a warning names
    placements of maps, which are lost.

    >>> import os, tempfile
    >>> from dressi.render.mesh.primitives import cube
    >>> folder = tempfile.mkdtemp()
    >>> save_obj(os.path.join(folder, "cube.obj"), cube())
    >>> sorted(os.listdir(folder))
    ['cube.mtl', 'cube.obj']
    """
    path = Path(path)
    mesh.validate()
    stem, name = shown(path.stem).replace(" ", "_"), shown(mesh.name)
    files: dict[Path, bytes] = {}
    color = linear_to_srgb(np.asarray(mesh.color, dtype=np.float64))
    material = f"newmtl {stem}\nKd {color[0]:.6f} {color[1]:.6f} {color[2]:.6f}\n"
    if mesh.texture is not None:
        files[path.with_suffix(".png")] = encode_png(mesh.texture * np.asarray(mesh.color))
        material = f"newmtl {stem}\nKd 1 1 1\nmap_Kd {path.stem}.png\n"
    if mesh.material is not None:
        maps = mesh.material if mesh.uvs is not None else mesh.material.without_maps()
        placed = [name for name in ("texture", *maps.maps()) if maps.place(name) != Placement()]
        placed += ["wrap"] if maps.wrap != ("repeat", "repeat") else []
        if placed:
            warnings.warn(
                f"'{path}': MTL cannot place maps, so {', '.join(placed)} of '{shown(maps.name)}' was left out and maps repeat at the"
                " UVs as they are; save a .glb to keep them",
                stacklevel=2,
            )
        more, images = material_lines(path.stem, maps)
        files |= {path.with_name(image): content for image, content in images.items()}
        material += "".join(f"{line}\n" for line in more)
    files[path.with_suffix(".mtl")] = material.encode()
    out = [f"mtllib {path.stem}.mtl", f"o {name}"]
    if mesh.colors is None or mesh.color_faces is None:
        faces = mesh.faces
        out += ["v {:.9g} {:.9g} {:.9g}".format(*row) for row in mesh.positions]
    else:
        pairs = np.stack([mesh.faces, mesh.color_faces], axis=-1).reshape(-1, 2)
        unique, index = np.unique(pairs, axis=0, return_inverse=True)
        faces = index.reshape(-1, 3)
        codes = linear_to_srgb(mesh.colors)[unique[:, 1]]
        rows = np.concatenate([mesh.positions[unique[:, 0]], codes], axis=1)
        out += ["v {:.9g} {:.9g} {:.9g} {:.6f} {:.6f} {:.6f}".format(*row) for row in rows]
    columns = [faces + 1]
    pattern = "{}"
    if mesh.uvs is not None and mesh.uv_faces is not None:
        out += [f"vt {u:.9g} {1 - v:.9g}" for u, v in mesh.uvs]
        columns.append(mesh.uv_faces + 1)
        pattern = "{}/{}"
    if mesh.normals is not None and mesh.normal_faces is not None:
        out += ["vn {:.6f} {:.6f} {:.6f}".format(*row) for row in mesh.normals]
        columns.append(mesh.normal_faces + 1)
        pattern = "{}/{}/{}" if mesh.uvs is not None else "{}//{}"
    out.append(f"usemtl {stem}")
    corners = np.stack(columns, axis=-1).reshape(len(mesh.faces), -1)
    line = "f " + " ".join([pattern] * 3)
    out += [line.format(*row) for row in corners.tolist()]
    files[path] = ("\n".join(out) + "\n").encode()
    write_files(files)
