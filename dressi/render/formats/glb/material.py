"""A material as the entries and images of a glTF 2.0 file."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dressi.render.formats.gltf.frame import transform_entry, turned_normals
from dressi.render.io.images import encode_png, resize
from dressi.render.materials import GLTF, Map, Parameter
from dressi.render.materials.parameter import EXTENSIONS
from dressi.render.mesh import Material, Mesh

TRANSFORM = "KHR_texture_transform"
_WRAPS = {"repeat": 10497, "clamp": 33071, "mirror": 33648}


@dataclass
class MaterialEntries:
    """What a material adds to a document.  images: encoded PNGs, one a texture.  entry: of ``materials``.  extensions:
    names for ``extensionsUsed``."""

    entry: dict[str, Any]
    images: list[bytes] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)

    wraps: list[tuple[str, str]] = field(default_factory=list)
    """Of the textures, along u and v."""

    def texture(self, png: bytes, material: Material, what: str) -> dict[str, Any]:
        """A reference to one more image, that lies where a map of a material does."""
        self.images.append(png)
        self.wraps.append(material.wrap_of(what))
        found: dict[str, Any] = {"index": len(self.images) - 1}
        place = material.place(what)
        if place.uv_set:
            found["texCoord"] = place.uv_set
        if place.moves:
            entry = transform_entry(np.array(place.matrix), np.array(place.offset))
            if entry is None:
                warnings.warn(
                    f"material '{material.name}': the placement of {what} shears it, which glTF cannot say; it was left out",
                    stacklevel=2,
                )
            elif entry:
                found["extensions"] = {TRANSFORM: entry}
                self.extensions += [] if TRANSFORM in self.extensions else [TRANSFORM]
        return found

    def put(self, path: str, value: Any) -> None:
        """Write a value at keys joined by "/"."""
        *outer, key = path.split("/")
        place = self.entry
        for name in outer:
            place = place.setdefault(name, {})
        place[key] = value
        if path.startswith(EXTENSIONS) and (name := path.split("/")[1]) not in self.extensions:
            self.extensions.append(name)

    def textures(self, first_view: int) -> dict[str, Any]:
        """``textures``, ``samplers`` and ``images`` of the document; its images are the buffer views from first_view on."""
        if not self.images:
            return {}
        wraps, count = list(dict.fromkeys(self.wraps)), range(len(self.images))
        return {
            "textures": [{"source": i, "sampler": wraps.index(self.wraps[i])} for i in count],
            "samplers": [
                {"magFilter": 9729, "minFilter": 9987, "wrapS": _WRAPS[u], "wrapT": _WRAPS[v]}
                for u, v in wraps
            ],
            "images": [{"bufferView": first_view + i, "mimeType": "image/png"} for i in count],
        }


def material_entries(mesh: Mesh, *, normal_bits: int = 8) -> MaterialEntries:
    """Base colour and material of a mesh; maps are left out where there are no UVs.

    Colours are stored by the sRGB curve, all other maps as they are, in 8 bits; normals in normal_bits. Numbers that are the
    defaults of the format are left out.
    """
    material = mesh.material or Material(name=mesh.name)
    if mesh.uvs is None:
        material = material.without_maps()
    found = MaterialEntries({"name": material.name})
    color = [float(min(max(c, 0.0), 1.0)) for c in mesh.color]
    texture = None if mesh.uvs is None else mesh.texture
    alpha = None if material.alpha_mode == "opaque" else material.alpha
    plain = alpha is not None and alpha.size == 1
    found.put(GLTF["base"].key, [*color, float(alpha.item()) if alpha is not None and plain else 1.0])
    alpha = None if plain else alpha
    if texture is not None or alpha is not None:
        image = _base(texture, alpha)
        found.put(
            GLTF["base"].image.slot, found.texture(image, material, "alpha" if texture is None else "texture")
        )
    if material.alpha_mode != "opaque":
        found.entry["alphaMode"] = material.alpha_mode.upper()
    if material.unlit:
        found.put("extensions/KHR_materials_unlit", {})
    if material.double_sided:
        found.entry["doubleSided"] = True
    scales = _maps(found, material, normal_bits)
    for what, row in GLTF.factors.items():
        if row.multiplies or (row.map is not None and getattr(material, row.map.field) is not None):
            _factor(found, row, np.multiply(getattr(material, what), scales.get(row.name, 1.0)))
    if material.alpha_mode != "mask":
        found.entry.pop(GLTF["alpha"].key, None)
    return found


def _base(texture: np.ndarray | None, alpha: np.ndarray | None) -> bytes:
    if texture is None:
        texture = np.ones((1, 1, 3))
    if alpha is None:
        return encode_png(texture)
    size = tuple(max(pair) for pair in zip(texture.shape[1::-1], alpha.shape[1::-1], strict=True))
    return encode_png(np.concatenate([resize(texture, size), resize(alpha, size)[..., None]], axis=-1))


def _maps(found: MaterialEntries, material: Material, normal_bits: int) -> dict[str, float]:
    """Write the maps beside the base colour's; those of equal size that fit into one image share it, such as metallic in
    blue, roughness in green and occlusion in red. What factors of parameters are multiplied by: images end at 1."""
    images: list[list[Map]] = []
    base = GLTF["base"].image.slot
    for name in material.maps():
        one = GLTF.maps[name]
        size = np.shape(getattr(material, name))[:2]
        for others in images if one.slot != base else ():
            if (
                np.shape(getattr(material, others[0].field))[:2] == size
                and material.place(name) == material.place(others[0].field)
                and not any(set(one.channels) & set(other.channels) for other in others)
            ):
                others.append(one)
                break
        else:
            if one.slot != base:
                images.append([one])
    scales: dict[str, float] = {}
    for group in images:
        arrays = [np.asarray(getattr(material, one.field), np.float64) for one in group]
        for k, one in enumerate(group):
            most = max(float(arrays[k].max()), 1.0) if one.most > 1 else 1.0
            if one.signed and (place := material.place(one.field)).moves:
                back = np.linalg.inv(np.array(place.matrix))
                arrays[k] = turned_normals(arrays[k], (back, np.zeros(2)))
            arrays[k] = arrays[k] * 0.5 + 0.5 if one.signed else arrays[k] / most
            scales |= {row.name: most for row in GLTF.parameters if row.map is one}
        reference = found.texture(_image(group, arrays, normal_bits), material, group[0].field)
        for one in group:
            found.put(one.slot, dict(reference))
    return scales


def _image(group: list[Map], arrays: list[np.ndarray], normal_bits: int) -> bytes:
    bits = normal_bits if group[0].signed else 8
    if len(group) == 1 and group[0].width == 0 and "a" not in group[0].channels:
        return encode_png(arrays[0], bits=bits)
    canvas = np.ones((*arrays[0].shape[:2], 4 if any("a" in one.channels for one in group) else 3))
    for one, values in zip(group, arrays, strict=True):
        canvas[..., one.columns] = values if one.width else values[..., None]
    return encode_png(canvas, bits=bits, srgb=any(one.light for one in group))


def _factor(found: MaterialEntries, row: Parameter, values: np.ndarray) -> None:
    default = row.default if row.file_default is None else row.file_default
    strength = float(max(values.max(), 1.0)) if row.strength else 1.0
    if not np.all(values == default):
        found.put(row.key, (values / strength).tolist())
    if strength > 1:
        found.put(row.strength, strength)
