"""The materials of glTF 2.0 with their extensions in Dr.Jit, for comparisons: maps, and what surfaces reflect and emit.

Nothing here uses this package's loaders or shading, so that a mistake in those shows: ``gltf_reader`` reads the files, and the
formulas are those of appendix B of glTF 2.0 and of the texts of the extensions.
"""

import math
from functools import cache
from typing import Any

import drjit as dr
import mitsuba as mi
import numpy as np
from gltf_reader import Part, Texture

mi.set_variant("llvm_ad_rgb")
if dr.detail.llvm_version()[0] < 16:
    # Older ones end the process in the middle of a compilation.
    raise ImportError("libLLVM is older than 16; get a newer one, as by `apt-get install libllvm19`")

LEAST_ROUGHNESS = 0.045
"""Mirrors reflect lights without extent in no pixel; both renderers take smaller roughness as this."""
LEAST_SHEEN_ROUGHNESS = 0.07
PBR = "pbrMetallicRoughness"
COAT, SHEEN, SPECULAR = (f"extensions/KHR_materials_{name}" for name in ("clearcoat", "sheen", "specular"))


class Lookup:
    """A texture, bilinear; colours by the sRGB curve are made linear before."""

    def __init__(self, texture: Texture, light: bool):
        values = texture.pixels / 255.0
        if light:
            colour = values[..., :3]
            values[..., :3] = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        self.height, self.width = values.shape[:2]
        self.texels = mi.Float(values.astype(np.float32).ravel())
        self.matrix, self.wrap, self.uv_set = texture.matrix.tolist(), texture.wrap, texture.uv_set

    def __call__(self, uvs: list[Any], active: Any) -> list[Any]:
        """Red, green, blue and alpha."""
        uv = uvs[self.uv_set]
        (a, b, x), (c, d, y) = self.matrix
        u = (a * uv.x + b * uv.y + x) * self.width - 0.5
        v = (c * uv.x + d * uv.y + y) * self.height - 0.5
        left, top = dr.floor(u), dr.floor(v)
        total = [mi.Float(0)] * 4
        for i in range(2):
            for j in range(2):
                column = wrapped(mi.Int32(left) + i, self.width, self.wrap[0])
                row = wrapped(mi.Int32(top) + j, self.height, self.wrap[1])
                share = (u - left if i else 1 - u + left) * (v - top if j else 1 - v + top)
                at = mi.UInt32(row * self.width + column) * 4
                total = [
                    t + share * dr.gather(mi.Float, self.texels, at + k, active) for k, t in enumerate(total)
                ]
        return total


def wrapped(index: Any, size: int, how: str) -> Any:
    if how == "clamp":
        return dr.clip(index, 0, size - 1)
    period = size if how == "repeat" else 2 * size
    index = index - period * mi.Int32(dr.floor(mi.Float(index) / period))
    return index if how == "repeat" else dr.minimum(index, 2 * size - 1 - index)


class Surface:
    """The material of a part at surface points."""

    def __init__(self, part: Part):
        self.part = part
        light = ("baseColorTexture", "emissiveTexture", "sheenColorTexture", "specularColorTexture")
        self.lookups = {path: Lookup(t, path.endswith(light)) for path, t in part.textures.items()}
        names = ["colour", *[f"uv{k}" for k in range(len(part.uvs))]]
        names += [] if part.tangents is None else ["tangent", "sign"]
        self.attributes = {n: mi.load_dict({"type": "mesh_attribute", "name": f"vertex_{n}"}) for n in names}
        self.blends, self.cuts = (part.value("alphaMode", "OPAQUE") == mode for mode in ("BLEND", "MASK"))
        self.unlit = part.value("extensions/KHR_materials_unlit", None) is not None
        if part.value("extensions/KHR_materials_transmission", None) is not None:
            raise ValueError(f"'{part.name}' transmits light, which is not compared")

    def attribute(self, name: str, si: Any, active: Any) -> Any:
        return mi.Vector3f(self.attributes[name].eval_3(si, active))

    def texel(self, path: str, si: Any, active: Any) -> list[Any] | None:
        lookup = self.lookups.get(path)
        if lookup is None:
            return None
        uvs = [
            mi.Vector2f(at.x, at.y)
            for k in range(len(self.part.uvs))
            for at in (self.attribute(f"uv{k}", si, active),)
        ]
        return lookup(uvs, active)

    def number(self, key: str, default: float, texture: str, channel: int, si: Any, active: Any) -> Any:
        texel = self.texel(texture, si, active)
        return self.part.value(key, default) * (mi.Float(1) if texel is None else texel[channel])

    def colour(self, key: str, default: float, texture: str, si: Any, active: Any) -> Any:
        texel = self.texel(texture, si, active)
        factor = mi.Color3f(self.part.value(key, [default] * 3)[:3])
        return factor if texel is None else factor * mi.Color3f(*texel[:3])

    def alpha(self, si: Any, active: Any) -> Any:
        """The opacity; 1 of an opaque material."""
        if not (self.blends or self.cuts):
            return mi.Float(1)
        texel = self.texel(f"{PBR}/baseColorTexture", si, active)
        alpha = self.part.value(f"{PBR}/baseColorFactor", [1.0] * 4)[3] * (
            mi.Float(1) if texel is None else texel[3]
        )
        return (
            dr.select(alpha < self.part.value("alphaCutoff", 0.5), 0.0, mi.Float(1)) if self.cuts else alpha
        )

    def base(self, si: Any, active: Any) -> Any:
        own = self.attribute("colour", si, active)
        return self.colour(f"{PBR}/baseColorFactor", 1.0, f"{PBR}/baseColorTexture", si, active) * mi.Color3f(
            own
        )

    def normals(self, si: Any, active: Any) -> tuple[Any, Any]:
        """That of the surface and that of its coat, in the world, towards the eye."""
        n, view = mi.Vector3f(si.sh_frame.n), si.to_world(si.wi)
        side = dr.select(dr.dot(si.n, view) < 0, -1.0, mi.Float(1))
        found = []
        for path in ("normalTexture", f"{COAT}/clearcoatNormalTexture"):
            texel = self.texel(path, si, active)
            if texel is None:
                found.append(n * side)
                continue
            scale = self.part.value(f"{path}/scale", 1.0)
            t = self.attribute("tangent", si, active)
            b = dr.cross(n, t) * dr.select(self.attribute("sign", si, active).x < 0, -1.0, mi.Float(1))
            x, y, z = (2 * texel[k] - 1 for k in range(3))
            found.append(dr.normalize(t * (x * scale) + b * (y * scale) + n * z) * side)
        return found[0], found[1]

    def rough(self, si: Any, active: Any) -> Any:
        """Alpha of GGX."""
        found = self.number(f"{PBR}/roughnessFactor", 1.0, f"{PBR}/metallicRoughnessTexture", 1, si, active)
        return dr.square(dr.maximum(found, LEAST_ROUGHNESS))

    def coat(self, si: Any, active: Any) -> tuple[Any, Any]:
        """Strength and alpha of GGX of the clear layer."""
        strength = self.number(f"{COAT}/clearcoatFactor", 0.0, f"{COAT}/clearcoatTexture", 0, si, active)
        found = self.number(
            f"{COAT}/clearcoatRoughnessFactor", 0.0, f"{COAT}/clearcoatRoughnessTexture", 1, si, active
        )
        return strength, dr.square(dr.maximum(found, LEAST_ROUGHNESS))

    def coat_fresnel(self, si: Any, active: Any) -> Any:
        """Of the clear layer, by the angle between its normal and the eye: KHR_materials_clearcoat."""
        _, normal = self.normals(si, active)
        strength, _ = self.coat(si, active)
        return strength * schlick(0.04, dr.abs(dr.dot(normal, si.to_world(si.wi))))

    def emitted(self, si: Any, active: Any) -> Any:
        """KHR_materials_clearcoat: the clear layer lies on top of emission."""
        if self.unlit:
            return self.base(si, active) * self.alpha(si, active)
        found = self.colour("emissiveFactor", 0.0, "emissiveTexture", si, active)
        found *= self.part.value("extensions/KHR_materials_emissive_strength/emissiveStrength", 1.0)
        return found * (1 - self.coat_fresnel(si, active)) * self.alpha(si, active)

    def reflected(self, si: Any, to_light: Any, active: Any) -> Any:
        """The BSDF times the cosine, times opacity. to_light: unit, in the world."""
        if self.unlit:
            return mi.Color3f(0)
        view = si.to_world(si.wi)
        normal, coat_normal = self.normals(si, active)
        half = dr.normalize(view + to_light)
        n_l, n_v = dr.dot(normal, to_light), dr.maximum(dr.dot(normal, view), 1e-4)
        n_h, v_h = dr.clip(dr.dot(normal, half), 0, 1), dr.clip(dr.dot(view, half), 0, 1)
        lit, n_l = n_l > 0, dr.maximum(n_l, 1e-4)
        base = self.base(si, active)
        metallic = self.number(f"{PBR}/metallicFactor", 1.0, f"{PBR}/metallicRoughnessTexture", 2, si, active)
        glossy = ggx(n_l, n_v, n_h, self.rough(si, active))
        # KHR_materials_ior and KHR_materials_specular
        ior = self.part.value("extensions/KHR_materials_ior/ior", 1.5)
        tint = self.colour(
            f"{SPECULAR}/specularColorFactor", 1.0, f"{SPECULAR}/specularColorTexture", si, active
        )
        weight = self.number(f"{SPECULAR}/specularFactor", 1.0, f"{SPECULAR}/specularTexture", 3, si, active)
        fresnel = schlick(dr.minimum(((1 - ior) / (1 + ior)) ** 2 * tint, 1.0), v_h)
        dielectric = (1 - weight * dr.max(fresnel)) * base / math.pi + weight * fresnel * glossy
        value = dr.lerp(dielectric, schlick(base, v_h) * glossy, metallic)
        if self.part.value(SHEEN, None) is not None:
            colour = self.colour(f"{SHEEN}/sheenColorFactor", 0.0, f"{SHEEN}/sheenColorTexture", si, active)
            rough = self.number(
                f"{SHEEN}/sheenRoughnessFactor", 0.0, f"{SHEEN}/sheenRoughnessTexture", 3, si, active
            )
            rough = dr.maximum(rough, LEAST_SHEEN_ROUGHNESS)
            inverse = 1 / dr.square(rough)
            lobe = (2 + inverse) * dr.power(dr.maximum(1 - n_h * n_h, 1e-12), inverse / 2) / (2 * math.pi)
            visible = 1 / (4 * (n_l + n_v - n_l * n_v))
            kept = dr.maximum(sheen_albedo(n_l, rough, active), sheen_albedo(n_v, rough, active))
            value = colour * (lobe * visible) + value * (1 - dr.max(colour) * kept)
        share = self.coat_fresnel(si, active)
        c_l, c_v = dr.dot(coat_normal, to_light), dr.maximum(dr.dot(coat_normal, view), 1e-4)
        c_h = dr.clip(dr.dot(coat_normal, half), 0, 1)
        _, alpha = self.coat(si, active)
        layer = ggx(dr.maximum(c_l, 1e-4), c_v, c_h, alpha) * dr.maximum(c_l, 0)
        value = dr.select(lit, value * n_l * (1 - share), 0) + share * layer
        return value * self.alpha(si, active)


def schlick(f0: Any, cosine: Any) -> Any:
    return f0 + (1 - f0) * dr.clip(1 - cosine, 0, 1) ** 5


def ggx(n_l: Any, n_v: Any, n_h: Any, alpha: Any) -> Any:
    """Distribution times visibility, G / (4 n.l n.v)."""
    a2 = alpha * alpha
    # Not n_h^2 (a^2 - 1) + 1, which loses its digits near 1.
    d = a2 / (math.pi * dr.square((1 - n_h) * (1 + n_h) + n_h * n_h * a2))
    return d * 0.5 / (n_l * dr.sqrt(n_v * n_v * (1 - a2) + a2) + n_v * dr.sqrt(n_l * n_l * (1 - a2) + a2))


@cache
def sheen_table() -> tuple[Any, int]:
    """The share of even light that white sheen reflects, over square root of the cosine (columns) and roughness (rows)."""
    size = 96
    axis = (np.arange(size) + 0.5) / size
    cosine, turn = (np.arange(128) + 0.5) / 128, (np.arange(64) + 0.5) / 64 * math.pi
    n_l, angle = np.meshgrid(cosine, turn, indexing="ij")
    sine = np.sqrt(1 - n_l**2)
    light = np.stack([sine * np.cos(angle), sine * np.sin(angle), n_l], axis=-1)
    table = np.empty((size, size))
    for column, n_v in enumerate(axis**2):
        half = light + np.array([math.sqrt(1 - n_v * n_v), 0, n_v])
        n_h = half[..., 2] / np.linalg.norm(half, axis=-1)
        visible = n_l / (4 * (n_l + n_v - n_l * n_v))
        for row, rough in enumerate(axis):
            inverse = 1 / max(rough, LEAST_SHEEN_ROUGHNESS) ** 2
            lobe = (2 + inverse) * np.maximum(1 - n_h**2, 1e-12) ** (inverse / 2) / (2 * math.pi)
            table[row, column] = min((lobe * visible).mean() * 2 * math.pi, 1)
    return mi.Float(table.astype(np.float32).ravel()), size


def sheen_albedo(cosine: Any, rough: Any, active: Any) -> Any:
    table, size = sheen_table()
    x, y = (dr.clip(at * size - 0.5, 0, size - 1.001) for at in (dr.sqrt(dr.clip(cosine, 0, 1)), rough))
    left, top = mi.UInt32(x), mi.UInt32(y)
    u, v = x - left, y - top
    a, b, c, d = (
        dr.gather(mi.Float, table, (top + j) * size + left + i, active) for j in range(2) for i in range(2)
    )
    return dr.lerp(dr.lerp(a, b, u), dr.lerp(c, d, u), v)
