"""Wavefront OBJ with MTL: triangles, UVs, normals and the diffuse texture, in and out."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np

from dressi.errors import InputError
from dressi.render.color import linear_to_srgb, srgb_to_linear
from dressi.render.io.files import inside, read_bytes, write_files
from dressi.render.io.images import encode_png, read_image, to_linear_rgb
from dressi.render.mesh import Mesh, weld, weld_values

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")


class _Lines:
    """The statements of one file that matter here, with 0-based indices; -1 where a corner has none."""

    def __init__(self, path: Path):
        self.path = path
        self.positions: list[list[float]] = []
        self.uvs: list[list[float]] = []
        self.normals: list[list[float]] = []
        self.corners: list[tuple[int, int, int]] = []
        self.libraries: list[str] = []
        self.materials: list[str] = []
        text = (
            read_bytes(path, "mesh")
            .decode("utf-8", errors="replace")
            .replace("\\\n", " ")
            .replace("\\\r\n", " ")
        )
        for number, line in enumerate(text.splitlines(), 1):
            try:
                self._statement(line)
            except (ValueError, IndexError):
                raise InputError(
                    f"'{path}' line {number} cannot be read: '{line.strip()[:60]}'; the file is truncated or damaged"
                ) from None

    def _statement(self, line: str) -> None:
        key, _, rest = line.strip().partition(" ")
        if key == "v":
            x, y, z = rest.split()[:3]
            self.positions.append([float(x), float(y), float(z)])
        elif key == "vt":
            u, v = (rest.split() + ["0"])[:2]
            self.uvs.append([float(u), 1.0 - float(v)])  # v grows upward in OBJ
        elif key == "vn":
            x, y, z = rest.split()[:3]
            self.normals.append([float(x), float(y), float(z)])
        elif key == "f":
            corners = [self._corner(token) for token in rest.split()]
            if len(corners) < 3:
                raise ValueError
            for k in range(1, len(corners) - 1):
                self.corners += (corners[0], corners[k], corners[k + 1])
        elif key == "mtllib":
            self.libraries.append(rest.strip())
        elif key == "usemtl":
            self.materials.append(rest.strip())

    def _corner(self, token: str) -> tuple[int, int, int]:
        found = [-1, -1, -1]
        for k, (part, values) in enumerate(zip(token.split("/"), self._lists, strict=False)):
            if part:
                index = int(part)
                found[k] = index - 1 if index > 0 else len(values) + index
                if found[k] < 0 or index == 0:
                    raise ValueError
        if found[0] < 0:
            raise ValueError
        return found[0], found[1], found[2]

    @property
    def _lists(self) -> tuple[list, list, list]:
        return self.positions, self.uvs, self.normals


def load_obj(path: str | os.PathLike) -> Mesh:
    """An .obj as one welded Mesh, not cleaned yet. Polygons become fans. UVs and normals are kept when every
    corner has them.

    The texture is the first `map_Kd` of its materials, looked for in the OBJ's own folder only; without one,
    an image beside the file with the usual name (`spot.obj`: `spot_texture.png`, `spot_diffuse.png`,
    `spot.png`) is taken, and a warning says which. Raises InputError naming the file.
    """
    path = Path(path)
    lines = _Lines(path)
    if not lines.corners:
        raise InputError(f"'{path}' has no faces; give an OBJ mesh with at least one triangle")
    corners = np.array(lines.corners, dtype=np.int64).reshape(-1, 3, 3)
    tables = [
        np.array(rows, dtype=np.float64).reshape(len(rows), columns)
        for rows, columns in ((lines.positions, 3), (lines.uvs, 2), (lines.normals, 3))
    ]
    for table, what, k in zip(tables, ("vertices", "texture coordinates", "normals"), range(3), strict=True):
        if corners[..., k].max() >= len(table):
            raise InputError(
                f"'{path}': a face refers to number {corners[..., k].max() + 1} of {len(table)} {what};"
                " the file is truncated or damaged"
            )
    positions, faces = weld(tables[0], corners[..., 0])
    uvs = uv_faces = normals = normal_faces = None
    if (corners[..., 1] >= 0).all():
        uvs, uv_faces = weld_values(tables[1], corners[..., 1])
    elif (corners[..., 1] >= 0).any():
        warnings.warn(f"'{path}': some faces have no texture coordinates, so none are used", stacklevel=3)
    if (corners[..., 2] >= 0).all():
        normals, normal_faces = weld_values(tables[2], corners[..., 2])
    color, texture = _material(path, lines) if uvs is not None else ((1.0, 1.0, 1.0), None)
    return Mesh(positions, faces, uvs, uv_faces, normals, normal_faces, texture, color, name=str(path))


def _material(path: Path, lines: _Lines) -> tuple[tuple[float, float, float], np.ndarray | None]:
    """Colour and texture of the first textured material, else of the first material, else of an image
    nearby."""
    materials: dict[str, dict[str, str]] = {}
    for name in lines.libraries:
        library = _beside(path, name)
        if library is None:
            warnings.warn(
                f"'{path}': its material file '{name}' is not beside it and was left out", stacklevel=4
            )
            continue
        current: dict[str, str] = {}
        for line in read_bytes(library, "material file").decode("utf-8", errors="replace").splitlines():
            key, _, rest = line.strip().partition(" ")
            if key == "newmtl":
                current = materials.setdefault(rest.strip(), {})
            elif key in ("Kd", "map_Kd"):
                current.setdefault(key, rest.strip())
    used = [materials[name] for name in dict.fromkeys(lines.materials) if name in materials] or list(
        materials.values()
    )
    textured = [material for material in used if "map_Kd" in material]
    if len(textured) > 1:
        warnings.warn(
            f"'{path}' has {len(textured)} textured materials; only the first is used", stacklevel=4
        )
    if textured:
        name = textured[0]["map_Kd"]
        image = _beside(path, name) or _beside(
            path, name.split()[-1]
        )  # options such as `-s 1 1 1` come first
        if image is not None:
            return (1.0, 1.0, 1.0), to_linear_rgb(read_image(image))
        warnings.warn(f"'{path}': its texture '{name}' is not beside it and was left out", stacklevel=4)
    for stem in dict.fromkeys((path.stem, path.stem.rpartition("_")[0] or path.stem)):
        for ending in ("_texture", "_diffuse", ""):
            for suffix in _IMAGE_SUFFIXES:
                image = path.with_name(stem + ending + suffix)
                if image.is_file():
                    warnings.warn(
                        f"'{path}' names no texture that is there; '{image.name}' is used", stacklevel=4
                    )
                    return (1.0, 1.0, 1.0), to_linear_rgb(read_image(image))
    try:
        color = srgb_to_linear(np.array([float(c) for c in used[0]["Kd"].split()[:3]])) if used else None
    except (KeyError, ValueError):
        color = None
    if color is None or len(color) != 3:
        return (1.0, 1.0, 1.0), None
    return (float(color[0]), float(color[1]), float(color[2])), None


def _beside(path: Path, name: str) -> Path | None:
    """The named file, or the one of that base name, when it lies in the folder of `path`."""
    for candidate in (name, name.replace("\\", "/").rpartition("/")[2]):
        try:
            found = inside(path.parent, candidate, path)
        except (InputError, ValueError, OSError):
            continue
        if found.is_file():
            return found
    return None


def save_obj(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write path.obj, and beside it path.mtl and path.png when there is a texture. Each file is replaced
    whole or not at all; InputError when they cannot be written. Positions keep nine digits, so float32
    survives."""
    path = Path(path)
    mesh.validate()
    files: dict[Path, bytes] = {}
    color = linear_to_srgb(np.asarray(mesh.color, dtype=np.float64))
    material = f"newmtl {path.stem}\nKd {color[0]:.6f} {color[1]:.6f} {color[2]:.6f}\n"
    if mesh.texture is not None:
        files[path.with_suffix(".png")] = encode_png(mesh.texture * np.asarray(mesh.color))
        material = f"newmtl {path.stem}\nKd 1 1 1\nmap_Kd {path.stem}.png\n"
    files[path.with_suffix(".mtl")] = material.encode()
    out = [f"mtllib {path.stem}.mtl", f"o {mesh.name}"]
    out += ["v {:.9g} {:.9g} {:.9g}".format(*row) for row in mesh.positions]
    columns = [mesh.faces + 1]
    pattern = "{}"
    if mesh.uvs is not None and mesh.uv_faces is not None:
        out += [f"vt {u:.9g} {1 - v:.9g}" for u, v in mesh.uvs]
        columns.append(mesh.uv_faces + 1)
        pattern = "{}/{}"
    if mesh.normals is not None and mesh.normal_faces is not None:
        out += ["vn {:.6f} {:.6f} {:.6f}".format(*row) for row in mesh.normals]
        columns.append(mesh.normal_faces + 1)
        pattern = "{}/{}/{}" if mesh.uvs is not None else "{}//{}"
    out.append(f"usemtl {path.stem}")
    corners = np.stack(columns, axis=-1).reshape(len(mesh.faces), -1)
    line = "f " + " ".join([pattern] * 3)
    out += [line.format(*row) for row in corners.tolist()]
    files[path] = ("\n".join(out) + "\n").encode()
    write_files(files)
