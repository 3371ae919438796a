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
from dressi.render.mesh import Material

_FACTORS = {"Pr": "roughness", "Pm": "metallic", "Pc": "clearcoat", "Pcr": "clearcoat_roughness"}
_MAPS = ("map_Pr", "map_Pm", "map_Ke", "norm")
KEYS = (*_FACTORS, "Ke", *_MAPS)
"""The keys of a material that are read here."""


def read_material(path: Path, name: str, keys: dict[str, str], textured: bool) -> Material | None:
    """That of the keys of an MTL material; None where there is none but a black ``Ke``.

    path: the OBJ, for messages and as the folder of maps.  textured: whether there are UVs for maps. Emission (``Ke``) is
    linear light, a map without its factor has the factor 1, and metallic and roughness maps of two sizes take the larger.
    Raises InputError naming the file for factors and maps that are none.
    """
    fields: dict[str, Any] = {"name": shown(name)}
    for key, what in _FACTORS.items():
        if key in keys:
            fields[what] = _numbers(path, key, keys[key], 1)[0]
    glow = _numbers(path, "Ke", keys["Ke"], 3) if "Ke" in keys else (0.0, 0.0, 0.0)
    if any(glow):
        fields["emission"] = tuple(glow)
    maps = _maps(path, keys, textured)
    if "map_Ke" in maps:
        fields["emission_map"] = linear_rgb(*maps["map_Ke"])
        fields.setdefault("emission", (1.0, 1.0, 1.0))
    if "norm" in maps:
        rgb = decode_pixels(*maps["norm"]).codes()
        fields["normal"] = 2 * (np.repeat(rgb, 3, axis=-1) if rgb.shape[-1] == 1 else rgb[..., :3]) - 1
    planes = {key: decode_pixels(*maps[key]).codes()[..., 0] for key in ("map_Pm", "map_Pr") if key in maps}
    if planes:
        size = max((plane.shape[::-1] for plane in planes.values()), key=lambda size: size[0] * size[1])
        one = np.ones((1, 1), np.float32)
        columns = [resize(planes.get(key, one), size) for key in ("map_Pm", "map_Pr")]
        fields["metallic_roughness"] = np.stack(columns, axis=-1)
        for key in planes:
            fields.setdefault(_FACTORS[key.removeprefix("map_")], 1.0)
    if len(fields) == 1:
        return None
    try:
        return Material(**fields).validate()
    except InputError as error:
        raise InputError(f"'{path}': {error}") from None


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
    lines = [f"{key} {getattr(material, what):.9g}" for key, what in _FACTORS.items()]
    light = material.emission_map
    most = 1.0 if light is None else max(float(light.max()), 1.0)  # images end at 1
    lines.append("Ke {:.9g} {:.9g} {:.9g}".format(*(most * c for c in material.emission)))
    images: dict[str, bytes] = {}
    both = material.metallic_roughness
    if both is not None:
        images["map_Pm"], images["map_Pr"] = encode_png(both[..., 0]), encode_png(both[..., 1])
    if light is not None:
        images["map_Ke"] = encode_png(light / most)
    if material.normal is not None:
        images["norm"] = encode_png(np.asarray(material.normal) * 0.5 + 0.5, srgb=False)
    names = {key: f"{stem}_{key.removeprefix('map_')}.png" for key in images}
    lines += [f"{key} {name}" for key, name in names.items()]
    return lines, {names[key]: data for key, data in images.items()}
