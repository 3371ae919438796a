"""The physically based part of MTL materials, which many exporters write beside the old keys."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dressi.errors import InputError
from dressi.render.io.files import beside, read_bytes, shown
from dressi.render.io.images import encode_png, linear_rgb, resize
from dressi.render.io.pixels import decode_pixels
from dressi.render.materials import GLTF, Map
from dressi.render.mesh import Material

_FACTORS = {row.mtl: row for row in GLTF.parameters if row.mtl}
_MAPS = {row.mtl_map: row for row in GLTF.parameters if row.mtl_map}
KEYS = (*_FACTORS, *_MAPS)
"""The keys of a material that are read here."""
LOST_KEYS = (
    "d", "Tr", "map_d", "map_Tr", "map_Bump", "map_bump", "bump", "map_Ka", "map_Ks", "map_Ns", "disp", "decal", "refl", "map_Pc",
    "map_Pcr", "Ps", "map_Ps", "aniso",
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
    "-bm": "1", "-s": "1 1 1", "-o": "0 0 0", "-t": "0 0 0", "-mm": "0 1", "-boost": "0", "-clamp": "off", "-blendu": "on",
    "-blendv": "on", "-imfchan": "",
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

    path: the OBJ, for messages and as the folder of maps.  textured: whether there are UVs for maps. Emission (``Ke``) is
    linear light, a map without its factor has the factor 1, and metallic and roughness maps of two sizes take the larger.
    Raises InputError naming the file for factors and maps that are none.
    """
    fields: dict[str, Any] = {"name": shown(name)}
    for key, row in _FACTORS.items():
        if key in keys:
            values = _numbers(path, key, keys[key], max(np.size(row.default), 1))
            if any(values) or not row.optional:
                fields[row.field] = tuple(values) if np.ndim(row.default) else values[0]
    columns: dict[Map, dict[int, np.ndarray]] = {}
    for key, (data, name_of_map) in _maps(path, keys, textured).items():
        row = _MAPS[key]
        assert row.map is not None
        values = _values(row.map, data, name_of_map)
        if row.column is None:
            fields[row.map.field] = values
        else:
            columns.setdefault(row.map, {})[row.column] = values[..., 0]
        if row.multiplies:
            fields.setdefault(row.field, (1.0, 1.0, 1.0) if np.ndim(row.default) else 1.0)
    for image, planes in columns.items():
        size = max((plane.shape[::-1] for plane in planes.values()), key=lambda size: size[0] * size[1])
        one = np.ones((1, 1), np.float32)
        found = [resize(planes.get(k, one), size) for k in range(image.width)]
        fields[image.field] = np.stack(found, axis=-1)
    if len(fields) == 1:
        return None
    try:
        return Material(**fields).validate()
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None


def _values(image: Map, data: bytes, name: str) -> np.ndarray:
    """(H, W, 3) of colours and normals, (H, W, channels of the file) of planes."""
    if image.light:
        return linear_rgb(data, name)
    codes = decode_pixels(data, name).codes()
    if not image.signed:
        return codes
    return 2 * (np.repeat(codes, 3, axis=-1) if codes.shape[-1] == 1 else codes[..., :3]) - 1


def _numbers(path: Path, key: str, text: str, count: int) -> list[float]:
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    if len(values) < count:
        raise InputError(f"'{path}': {key} of its material is '{shown(text)}', no numbers; export it again")
    return values[:count]


def _maps(path: Path, keys: dict[str, str], textured: bool) -> dict[str, tuple[bytes, str]]:
    """The bytes and names of images that are there."""
    found = {}
    for key in _MAPS:
        if key in keys:
            # Options such as `-bm 1.0` come before the name.
            image = beside(path, keys[key]) or beside(path, (keys[key].split() or [""])[-1])
            if image is None or not textured:
                why = "it is not beside it" if image is None else "there are no texture coordinates"
                warnings.warn(f"'{path}': {key} '{shown(keys[key])}' was left out: {why}", stacklevel=6)
                continue
            found[key] = (read_bytes(image, "texture"), f"{image} ({key})")
    return found


def material_lines(stem: str, material: Material) -> tuple[list[str], dict[str, bytes]]:
    """Lines for an MTL file, and images by their names. Occlusion, alpha, sheen and maps of the clearcoat have no key."""
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
