"""Wavefront OBJ with MTL in and out: polygons, UVs, normals, vertex colours and materials."""

from __future__ import annotations

import io
import os
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError, shown, warn
from ..core.materials import GLTF, Map, Placement
from ..io import files
from ..io.images import encode_png, linear_rgb, read_texture, resize, three_channels
from ..io.pixels import decode_pixels
from ..mesh import Material, Mesh, triangulate, weld
from ..strands.geometry import PointGeometry
from ..surface.color import linear_to_srgb, srgb_to_linear
from .clouds import cloud, linear_codes

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
_LONGEST = 1 << 20
"""Characters of a line: a polygon of a hundred thousand corners."""
MOST_MATERIALS = 4096
_LEFT_OUT = {"l": "lines", "p": "points", "curv": "curves", "curv2": "curves", "surf": "surfaces"}
"""Statements of shapes that are not read."""


class _Lines:
    """The statements of one file that matter here, with 0-based indices; -1 where a corner has none."""

    def __init__(self, path: Path):
        self.positions, self.colors = array("d"), array("d")
        self.uvs, self.normals = array("d"), array("d")
        self.corners, self.lengths, self.material_of = array("q"), array("q"), array("q")
        self.points = array("q")
        self.libraries: list[str] = []
        self.materials: dict[str, int] = {}
        self.material = -1
        self.left_out: Counter[str] = Counter()
        before = ""
        for number, line in enumerate(_text_lines(path), 1):
            if not line:
                continue
            line = before + line
            before = ""
            if len(line) > _LONGEST:
                raise InputError(
                    f"line {number} has over {_LONGEST:,} characters; it is no OBJ mesh, or a damaged one"
                )
            if line[-1] == "\\":
                before = line[:-1] + " "
                continue
            try:
                self._statement(line)
            except (ValueError, IndexError, OverflowError) as error:
                if isinstance(error, InputError):
                    raise
                raise files.Damaged(f"line {number} cannot be read: '{shown(line[:60])}'") from None
            if number % 65536 == 0:
                self._check_counts()
        self._check_counts()

    def _check_counts(self) -> None:
        files.check_counts(len(self.positions) // 3, len(self.corners) // 3 - 2 * len(self.lengths))

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
            for corner in corners:
                self.corners.extend(corner)
            self.lengths.append(len(corners))
            self.material_of.append(self.material)
        elif key == "mtllib":
            self.libraries.append(rest.strip())
        elif key == "usemtl":
            self.material = self.materials.setdefault(rest.strip(), len(self.materials))
            if len(self.materials) > MOST_MATERIALS:
                raise InputError(f"it uses over {MOST_MATERIALS:,} materials; join those that are alike")
        elif key in _LEFT_OUT:
            self.left_out[_LEFT_OUT[key]] += 1
            if key == "p":
                counts = len(self.positions) // 3, 0, 0
                self.points.extend(_corner(token, counts)[0] for token in rest.split())


def _text_lines(path: Path) -> Iterator[str]:
    """The lines of a file, decoded a part at a time; a line that is far too long comes as it is."""
    stream = io.TextIOWrapper(io.BytesIO(files.read_bytes(path, "mesh")), "utf-8", errors="replace")
    rest = ""
    while len(rest) <= _LONGEST and (part := stream.read(4 * _LONGEST)):
        lines = (rest + part).split("\n")
        rest = lines.pop()
        yield from lines
    yield rest


def _corner(token: str, counts: tuple[int, int, int]) -> list[int]:
    """0-based numbers of position, UV and normal, -1 for none; counts: how many of them there are so far."""
    numbers = [-1, -1, -1]
    for k, (part, count) in enumerate(zip(token.split("/"), counts, strict=False)):
        if part:
            index = int(part)
            numbers[k] = index - 1 if index > 0 else count + index
            if numbers[k] < 0 or index == 0:
                raise ValueError
    if numbers[0] < 0:
        raise ValueError
    return numbers


def load_obj(path: Path) -> list[Mesh] | list[PointGeometry]:
    """Read an .obj as a welded Mesh for each material, named by it, not cleaned yet. Of one without faces,
    points: those of its ``p`` elements, or all vertices where it has no elements.

    Polygons are triangulated, concave ones too. UVs and normals of a material are kept when each of its
    corners has them; vertex colours (``v x y z r g b``, sRGB) become linear light.

    A texture is the `map_Kd`, looked for in the OBJ's own folder only. Where no material names one that is
    there, an image beside the file with the usual name (`spot.obj`: `spot_texture.png`, `spot_diffuse.png`,
    `spot.png`) is taken, and a warning says which. Physically based keys of the material (``Pr``, ``Pm``,
    ``Pc``, ``Pcr``, ``Ke``, ``map_Pr``, ``map_Pm``, ``map_Ke``, ``norm``) become a `Material`. Groups and the
    numbers of the Phong model (``Ka``, ``Ks``, ``Ns``, ``Ni``, ``illum``) are not read; a warning names maps,
    opacity, lines and curves that are left out. Raises InputError.
    """
    lines = _Lines(path)
    if not lines.corners:
        return _cloud(path, lines)
    if lines.left_out:
        what = ", ".join(f"{count:,} {kind}" for kind, count in sorted(lines.left_out.items()))
        warn(f"'{path}': {what} are not read and were left out")
    corners = np.array(lines.corners, dtype=np.int64).reshape(-1, 3)
    tables = [
        np.array(values, dtype=np.float64).reshape(-1, columns)
        for values, columns in ((lines.positions, 3), (lines.uvs, 2), (lines.normals, 3))
    ]
    words = ("vertices", "texture coordinates", "normals")
    for table, largest, what in zip(tables, corners.max(0), words, strict=True):
        if largest >= len(table):
            raise files.Damaged(f"a face refers to number {largest + 1} of {len(table)} {what}")
    polygon, rows = triangulate(tables[0][corners[:, 0]], np.array(lines.lengths))
    if lines.colors:
        tables.append(_linear_colors(path, lines))
    materials = _materials(path, lines)
    if len(materials) == 1:
        return [_part(path, *next(iter(materials.values())), tables, corners[rows])]
    material_of = np.array(lines.material_of)[polygon]
    order = np.argsort(material_of, kind="stable")
    numbers, starts = np.unique(material_of[order], return_index=True)
    parts = np.split(rows[order], starts[1:])
    return [
        _part(path, *materials[number], *_used(tables, corners[part]))
        for number, part in sorted(zip(numbers.tolist(), parts, strict=True), key=lambda one: one[1].min())
    ]


def _cloud(path: Path, lines: _Lines) -> list[PointGeometry]:
    """The points of a file without faces."""
    positions, rows = np.array(lines.positions).reshape(-1, 3), np.unique(np.array(lines.points, np.int64))
    if lines.left_out.keys() - {"points"} or not len(positions):
        raise files.without_faces(len(positions))
    if rows.max(initial=-1) >= len(positions):
        raise files.Damaged(f"a point refers to number {rows.max() + 1} of {len(positions)} vertices")
    rows = rows if len(rows) else np.arange(len(positions))
    return cloud(positions[rows], _linear_colors(path, lines)[rows] if lines.colors else None, path)


def _used(tables: list[np.ndarray], corners: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The rows of tables that corners (F, 3, 3) use, and the corners that refer to these."""
    rows, numbers = [], np.full_like(corners, -1)
    for k, table in enumerate(tables):
        of = corners[..., k if k < 3 else 0]
        if (of < 0).any():
            rows.append(table[:0])
            numbers[..., k][of >= 0] = 0  # some corners have one, so that a warning says what is left out
            continue
        used, index = np.unique(of, return_inverse=True)
        rows.append(table[used])
        if k < 3:
            numbers[..., k] = index.reshape(of.shape)
    return rows, numbers


def _part(path: Path, name: str, look: _Material, tables: list[np.ndarray], corners: np.ndarray) -> Mesh:
    """The mesh of a material.  tables: positions, UVs, normals, and colours where there are some.  corners:
    (F, 3, 3) rows of the first three, -1 for none."""
    mesh = Mesh(*weld(tables[0], corners[..., 0]), name=name or str(path), color=look.color)
    there = corners >= 0
    if there[..., 1].all():
        mesh.uvs, mesh.uv_faces = weld(tables[1], corners[..., 1])
    if there[..., 2].all():
        mesh.normals, mesh.normal_faces = weld(tables[2], corners[..., 2])
    for k, what in ((1, "texture coordinates"), (2, "normals")):
        if there[..., k].any() and not there[..., k].all():
            warn(f"'{path}': some faces have no {what}, so none are used")
    if len(tables) > 3:
        mesh.colors, mesh.color_faces = weld(tables[3], corners[..., 0])
    if mesh.uvs is not None:
        mesh.texture = look.texture
    elif look.texture is not None:
        warn(f"'{path}' has a texture and no texture coordinates; it was left out")
    mesh.material = read_material(path, name, look.keys, mesh.uvs is not None)
    return mesh


def _linear_colors(path: Path, lines: _Lines) -> np.ndarray:
    lines.colors.extend([1.0] * (len(lines.positions) - len(lines.colors)))
    codes = np.array(lines.colors).reshape(-1, 3)
    if (codes > 1).any():
        warn(f"'{path}': vertex colours up to {codes.max():g} are taken as 8-bit values")
    return linear_codes(codes)


class _Material(NamedTuple):
    """What faces look like.  keys: of the MTL file."""

    keys: dict[str, str]
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    texture: np.ndarray | None = None


def _materials(path: Path, lines: _Lines) -> dict[int, tuple[str, _Material]]:
    """Names and looks of the materials of faces, by their numbers; -1 for faces without one. If no face has
    one, it is the first of the file's."""
    library = _libraries(path, lines)
    names = {number: name for name, number in lines.materials.items()}
    used = sorted(set(lines.material_of))
    missing = [names[number] for number in used if number >= 0 and names[number] not in library]
    if missing and lines.libraries:
        warn(
            f"'{path}' uses the material '{shown(missing[0])}', which its material files do not have"
            f" ({len(missing)} such); its faces are white"
        )
    if not any(names.get(number) in library for number in used):
        used = [-1]
        names[-1] = next(iter(library), "")
    keys_of = {number: library.get(names.get(number, ""), {}) for number in used}
    _name_losses(path, list(keys_of.values()))
    textures: dict[str, np.ndarray | None] = {}
    for name in dict.fromkeys(keys["map_Kd"] for keys in keys_of.values() if "map_Kd" in keys):
        image = _image(path, name)
        textures[name] = image and read_texture(image)
        if image is None:
            warn(f"'{path}': its texture '{shown(name)}' is not beside it and was left out")
    nearby = _nearby(path) if lines.uvs and all(t is None for t in textures.values()) else None
    looks = {}
    for number, keys in keys_of.items():
        texture = textures.get(keys.get("map_Kd", "")) if nearby is None else nearby
        color = (1.0, 1.0, 1.0) if texture is not None and lines.uvs else _colour(path, keys)
        looks[number] = shown(names.get(number, "")), _Material(keys, color, texture)
    return looks


def _libraries(path: Path, lines: _Lines) -> dict[str, dict[str, str]]:
    """The keys of the materials of its files, by name."""
    materials: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(lines.libraries):
        library = files.beside(path, name)
        if library is None:
            warn(f"'{path}': its material file '{shown(name)}' is not beside it and was left out")
            continue
        current: dict[str, str] = {}
        text = files.read_bytes(library, "material file", most=files.LARGEST_TEXT).decode(
            "utf-8", errors="replace"
        )
        for line in text.splitlines():
            key, _, rest = line.strip().partition(" ")
            if key == "newmtl":
                current = materials.setdefault(rest.strip(), {})
            elif key in ("Kd", "map_Kd", *KEYS, *LOST_KEYS):
                current.setdefault(key, rest.strip())
    return materials


def _name_losses(path: Path, used: list[dict[str, str]]) -> None:
    """Warn of what materials have and is not read."""
    lost = sorted({key for keys in used for key, text in keys.items() if is_lost(key, text)})
    textures = [keys[key] for keys in used for key in ("map_Kd", *KEYS) if key in keys]
    options = sorted({option for text in textures if text.startswith("-") for option in lost_options(text)})
    if lost:
        warn(f"'{path}': {', '.join(lost)} of its materials is not read and was left out")
    if options:
        warn(f"'{path}': the options {', '.join(options)} of its textures are not read and were left out")


def _colour(path: Path, keys: dict[str, str]) -> tuple[float, float, float]:
    """Linear; white without one."""
    white = (1.0, 1.0, 1.0)
    if "Kd" not in keys:
        return white
    try:
        red, green, blue = (float(c) for c in keys["Kd"].split()[:3])
    except ValueError:
        red = green = blue = -1.0
    if not all(0 <= code <= 1 for code in (red, green, blue)):
        warn(f"'{path}': the colour Kd '{shown(keys['Kd'])}' is not in [0, 1]; white is used")
        return white
    return tuple(srgb_to_linear(np.array([red, green, blue])).tolist())


def _image(path: Path, text: str) -> Path | None:
    """The image that a key names: options such as `-s 1 1 1` come before the name, which may have blanks."""
    return files.beside(path, text) or files.beside(path, (text.split() or [""])[-1])


def _nearby(path: Path) -> np.ndarray | None:
    """Linear albedo of an image whose name says that it belongs to the mesh."""
    for stem in dict.fromkeys((path.stem, path.stem.rpartition("_")[0] or path.stem)):
        for ending in ("_texture", "_diffuse", ""):
            for suffix in _IMAGE_SUFFIXES:
                image = path.with_name(stem + ending + suffix)
                if image.is_file():
                    image = files.followed(image, path.parent, path)
                    warn(f"'{path}' names no texture that is there; '{stem + ending + suffix}' is used")
                    return read_texture(image)
    return None


def save_obj(path: str | os.PathLike, mesh: Mesh) -> None:
    """Write path.obj, and beside it path.mtl, and path.png when there is a texture. Each file is replaced
    whole or not at all; InputError when they cannot be written. Positions keep nine digits, so float32
    survives. Vertex colours are written behind the positions, as sRGB; vertices are split where colours
    differ. A `Material` is written without its occlusion, alpha and sheen, which MTL lacks, with an image a
    map; a warning names placements of maps, which are lost.

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
    written: dict[Path, bytes] = {}
    color = linear_to_srgb(np.asarray(mesh.color, dtype=np.float64))
    material = f"newmtl {stem}\nKd {color[0]:.6f} {color[1]:.6f} {color[2]:.6f}\n"
    if mesh.texture is not None:
        written[path.with_suffix(".png")] = encode_png(mesh.texture * np.asarray(mesh.color))
        material = f"newmtl {stem}\nKd 1 1 1\nmap_Kd {path.stem}.png\n"
    if mesh.material is not None:
        maps = mesh.material if mesh.uvs is not None else mesh.material.without_maps()
        placed = [name for name in ("texture", *maps.maps()) if maps.place(name) != Placement()]
        placed += ["wrap"] if maps.wrap != ("repeat", "repeat") else []
        if placed:
            warn(
                f"'{path}': MTL cannot place maps, so {', '.join(placed)} of '{shown(maps.name)}' was left"
                " out and maps repeat at the UVs as they are; save a .glb to keep them"
            )
        more, images = material_lines(path.stem, maps)
        written |= {path.with_name(image): content for image, content in images.items()}
        material += "".join(f"{line}\n" for line in more)
    written[path.with_suffix(".mtl")] = material.encode()
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
    columns, pattern = [faces + 1], "{}"
    if mesh.uvs is not None and mesh.uv_faces is not None:
        out += [f"vt {u:.9g} {1 - v:.9g}" for u, v in mesh.uvs]
        columns.append(mesh.uv_faces + 1)
        pattern = "{}/{}"
    if mesh.normals is not None and mesh.normal_faces is not None:
        out += ["vn {:.6f} {:.6f} {:.6f}".format(*row) for row in mesh.normals]
        columns.append(mesh.normal_faces + 1)
        pattern = "{}/{}/{}" if mesh.uvs is not None else "{}//{}"
    out.append(f"usemtl {stem}")
    line = "f " + " ".join([pattern] * 3)
    out += [line.format(*row) for row in np.stack(columns, axis=-1).reshape(len(mesh.faces), -1).tolist()]
    written[path] = ("\n".join(out) + "\n").encode()
    files.write_files(written)


# The physically based part of MTL materials, which many exporters write beside the old keys.

_FACTORS = {row.mtl: row for row in GLTF.parameters if row.mtl}
_MAPS = {row.mtl_map: row for row in GLTF.parameters if row.mtl_map}
KEYS = (*_FACTORS, *_MAPS)
"""The keys of a material that are read here."""
LOST_KEYS = (
    "d", "Tr", "map_d", "map_Tr", "map_Bump", "map_bump", "bump", "map_Ka", "map_Ks", "map_Ns", "disp", "decal", "refl",
    "map_Pc", "map_Pcr", "Ps", "map_Ps", "aniso",
)  # fmt: skip
"""Keys that change a picture and are not read."""


def is_lost(key: str, text: str) -> bool:
    """Whether a key of a material changes the picture and is not read: a map, or an opacity that is not 1.

    >>> is_lost("d", "1.0"), is_lost("d", "0.5"), is_lost("Tr", "0"), is_lost("map_Bump", "a.png")
    (False, True, False, True)
    """
    if key not in ("d", "Tr", "Ps", "aniso"):
        return key in LOST_KEYS
    try:
        value = float(text.split()[-1])
    except (ValueError, IndexError):
        return True
    return value < 1 if key == "d" else value > 0


_NEUTRAL = {
    "-bm": "1", "-s": "1 1 1", "-o": "0 0 0", "-t": "0 0 0", "-mm": "0 1", "-boost": "0", "-clamp": "off",
    "-blendu": "on", "-blendv": "on", "-imfchan": "",
}  # fmt: skip
"""Options of textures, and their values that change nothing."""


def lost_options(text: str) -> list[str]:
    """The options before the name of a texture that change it, none of which are read.

    >>> lost_options("-bm 1.0 -s 2 2 1 a.png"), lost_options("-s 1 1 1 a.png")
    (['-s'], [])
    """
    words, found = text.split(), []
    for at, word in enumerate(words):
        if not word.startswith("-") or word not in _NEUTRAL:
            continue
        for given, neutral in zip(words[at + 1 :], _NEUTRAL[word].split(), strict=False):
            if given.startswith("-") and given in _NEUTRAL:
                break
            try:
                same = float(given) == float(neutral)
            except ValueError:  # on, off, or the name
                same = given == neutral or neutral not in ("on", "off")
            if not same:
                found.append(word)
                break
    return found


def read_material(path: Path, name: str, keys: dict[str, str], textured: bool) -> Material | None:
    """That of the keys of an MTL material; None where there is none but a black ``Ke``.

    path: the OBJ, as the folder of maps.  textured: whether there are UVs for maps. Emission (``Ke``) is
    linear light, a map without its factor has the factor 1, and metallic and roughness maps of two sizes take
    the larger. Raises InputError for factors and maps that are none.
    """
    fields: dict[str, Any] = {"name": shown(name)}
    for key, row in _FACTORS.items():
        if key in keys:
            values = _numbers(key, keys[key], max(np.size(row.default), 1))
            if any(values) or not row.optional:
                fields[row.field] = tuple(values) if np.ndim(row.default) else values[0]
    columns: dict[Map, dict[int, np.ndarray]] = {}
    for key, row in _MAPS.items():
        if key not in keys:
            continue
        image = _image(path, keys[key])
        if image is None or not textured:
            why = "it is not beside it" if image is None else "there are no texture coordinates"
            warn(f"'{path}': {key} '{shown(keys[key])}' was left out: {why}")
            continue
        assert row.map is not None
        values = _texels(row.map, files.read_bytes(image, "texture"), f"{image} ({key})")
        if row.column is None:
            fields[row.map.field] = values
        else:
            columns.setdefault(row.map, {})[row.column] = values[..., 0]
        if row.multiplies:
            fields.setdefault(row.field, (1.0, 1.0, 1.0) if np.ndim(row.default) else 1.0)
    for image, planes in columns.items():
        size = max((plane.shape[::-1] for plane in planes.values()), key=lambda size: size[0] * size[1])
        one = np.ones((1, 1), np.float32)
        fields[image.field] = np.stack(
            [resize(planes.get(k, one), size) for k in range(image.width)], axis=-1
        )
    return Material(**fields).validate() if len(fields) > 1 else None


def _texels(image: Map, data: bytes, name: str) -> np.ndarray:
    """(H, W, 3) of colours and normals, (H, W, channels of the file) of planes."""
    if image.light:
        return linear_rgb(data, name)
    codes = decode_pixels(data, name).codes()
    return 2 * three_channels(codes) - 1 if image.signed else codes


def _numbers(key: str, text: str, count: int) -> list[float]:
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    if len(values) < count:
        raise files.Damaged(f"{key} of its material is '{shown(text)}', no numbers")
    return values[:count]


def material_lines(stem: str, material: Material) -> tuple[list[str], dict[str, bytes]]:
    """Lines for an MTL file, and images by name. Occlusion, alpha, sheen and maps of clearcoat have no
    key."""
    images: dict[str, bytes] = {}
    scales: dict[str, float] = {}
    for key, row in _MAPS.items():
        values = None if row.map is None else getattr(material, row.map.field)
        if values is None or row.map is None:
            continue
        values = values if row.column is None else values[..., row.column]
        most = max(float(values.max()), 1.0) if row.map.most > 1 else 1.0  # images end at 1
        values = values * 0.5 + 0.5 if row.map.signed else values / most
        images[key] = encode_png(np.asarray(values, np.float64), srgb=row.map.light)
        scales[row.mtl] = most
    lines = []
    for key, row in _FACTORS.items():
        factors = np.atleast_1d(getattr(material, row.field)) * scales.get(key, 1.0)
        lines.append(" ".join([key, *(f"{x:.9g}" for x in factors)]))
    names = {key: f"{stem}_{key.removeprefix('map_')}.png" for key in images}
    lines += [f"{key} {name}" for key, name in names.items()]
    return lines, {names[key]: data for key, data in images.items()}
