"""A material as the entries and images of a glTF 2.0 file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dressi.render.io.images import encode_png, resize
from dressi.render.mesh import Material, Mesh

_WRAPS = {"repeat": 10497, "clamp": 33071, "mirror": 33648}


@dataclass
class MaterialEntries:
    """What a material adds to a document.  images: encoded PNGs, one a texture.  entry: of ``materials``.  extensions:
    names for ``extensionsUsed``."""

    entry: dict[str, Any]
    images: list[bytes] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)

    def texture(self, png: bytes, **more: float) -> dict[str, Any]:
        """A reference to one more image."""
        self.images.append(png)
        return {"index": len(self.images) - 1, **more}

    def extend(self, name: str, content: dict[str, Any]) -> None:
        """Add an extension of the material."""
        self.entry.setdefault("extensions", {})[name] = content
        self.extensions.append(name)

    def textures(self, wrap: tuple[str, str], first_view: int) -> dict[str, Any]:
        """``textures``, ``samplers`` and ``images`` of the document; its images are the buffer views from first_view on."""
        if not self.images:
            return {}
        sampler = {"magFilter": 9729, "minFilter": 9987, "wrapS": _WRAPS[wrap[0]], "wrapT": _WRAPS[wrap[1]]}
        count = range(len(self.images))
        return {
            "textures": [{"source": i, "sampler": 0} for i in count],
            "samplers": [sampler],
            "images": [{"bufferView": first_view + i, "mimeType": "image/png"} for i in count],
        }


def material_entries(mesh: Mesh, *, normal_bits: int = 8) -> MaterialEntries:
    """Base colour and material of a mesh; maps are left out where there are no UVs.

    Colours are stored by the sRGB curve, all other maps as they are, in 8 bits; normals in normal_bits.
    """
    material = mesh.material or Material(name=mesh.name)
    if mesh.uvs is None:
        material = material.without_maps()
    color = [float(min(max(c, 0.0), 1.0)) for c in mesh.color]
    shading: dict[str, Any] = {
        "baseColorFactor": [*color, 1.0],
        "metallicFactor": float(material.metallic),
        "roughnessFactor": float(material.roughness),
    }
    found = MaterialEntries({"name": material.name, "pbrMetallicRoughness": shading})
    texture = None if mesh.uvs is None else mesh.texture
    cut = material.alpha_mode == "mask"
    if texture is not None or (cut and material.alpha is not None):
        shading["baseColorTexture"] = found.texture(_base(texture, material.alpha if cut else None))
    if cut:
        found.entry |= {"alphaMode": "MASK", "alphaCutoff": float(material.alpha_cutoff)}
    if material.double_sided:
        found.entry["doubleSided"] = True
    _reflection(found, shading, material)
    if material.normal is not None:
        codes = np.asarray(material.normal, dtype=np.float64) * 0.5 + 0.5
        png = encode_png(codes, bits=normal_bits, srgb=False)
        found.entry["normalTexture"] = found.texture(png, scale=float(material.normal_scale))
    _emission(found, material)
    _layers(found, material)
    return found


def _base(texture: np.ndarray | None, alpha: np.ndarray | None) -> bytes:
    if texture is None:
        texture = np.ones((1, 1, 3))
    if alpha is None:
        return encode_png(texture)
    size = tuple(max(pair) for pair in zip(texture.shape[1::-1], alpha.shape[1::-1], strict=True))
    return encode_png(np.concatenate([resize(texture, size), resize(alpha, size)[..., None]], axis=-1))


def _reflection(found: MaterialEntries, shading: dict[str, Any], material: Material) -> None:
    """Metallic in blue and roughness in green; occlusion in red of the same image where sizes are equal."""
    both, occlusion = material.metallic_roughness, material.occlusion
    strength = float(material.occlusion_strength)
    if both is not None:
        packed = occlusion is not None and occlusion.shape == both.shape[:2]
        red = occlusion if packed and occlusion is not None else np.ones(both.shape[:2])
        reference = found.texture(encode_png(np.stack([red, both[..., 1], both[..., 0]], -1), srgb=False))
        shading["metallicRoughnessTexture"] = reference
        if packed:
            found.entry["occlusionTexture"] = {**reference, "strength": strength}
            return
    if occlusion is not None:
        found.entry["occlusionTexture"] = found.texture(encode_png(occlusion), strength=strength)


def _emission(found: MaterialEntries, material: Material) -> None:
    factor, light = np.asarray(material.emission, dtype=np.float64), material.emission_map
    if light is not None:
        most = max(float(light.max()), 1.0)  # images end at 1
        found.entry["emissiveTexture"] = found.texture(encode_png(light / most))
        factor = factor * most
    strength = float(max(factor.max(), 1.0))
    if factor.any():
        found.entry["emissiveFactor"] = (factor / strength).tolist()
    if strength > 1:
        found.extend("KHR_materials_emissive_strength", {"emissiveStrength": strength})


def _layers(found: MaterialEntries, material: Material) -> None:
    if material.clearcoat > 0:
        coat: dict[str, Any] = {
            "clearcoatFactor": float(material.clearcoat),
            "clearcoatRoughnessFactor": float(material.clearcoat_roughness),
        }
        for key, values in (
            ("clearcoatTexture", material.clearcoat_map),
            ("clearcoatRoughnessTexture", material.clearcoat_roughness_map),
        ):
            if values is not None:
                coat[key] = found.texture(encode_png(values))
        found.extend("KHR_materials_clearcoat", coat)
    if any(material.sheen_color):
        sheen = {
            "sheenColorFactor": [float(c) for c in material.sheen_color],
            "sheenRoughnessFactor": float(material.sheen_roughness),
        }
        found.extend("KHR_materials_sheen", sheen)
